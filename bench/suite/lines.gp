# Draws one of the suite's plots: lines with their quartiles, from a table of blocks, a label above each. The suite sets:
# table, picture, heading, along (bytes, threads or objects), across, log_y, blocks, remark.
set terminal svg size 900,460 dynamic enhanced font 'sans-serif,14' background rgb 'white'
set output picture
set datafile separator tab

set title heading.remark font ',16'
set ylabel across
set border 3
set tics nomirror out scale 0.5
set grid xtics ytics linecolor rgb '#dddddd'
set key outside bottom center horizontal maxcols 2 samplen 2 Left reverse
set lmargin 10
set rmargin 3

if (along eq 'bytes') {
    set logscale x 2
    set xlabel 'size'
    set xtics ('256 B' 256, '1 KiB' 1024, '4 KiB' 4096, '16 KiB' 16384, '64 KiB' 65536, '256 KiB' 262144, \
               '1 MiB' 1048576, '4 MiB' 4194304, '16 MiB' 16777216, '64 MiB' 67108864, '256 MiB' 268435456, \
               '1 GiB' 1073741824)
}
if (along eq 'threads') {
    set logscale x 2
    set xlabel 'threads'
}
if (along eq 'objects') {
    set logscale x 10
    set xlabel 'objects'
    set xtics ('10' 10, '100' 100, '1,000' 1000, '10,000' 10000, '100,000' 100000, '1,000,000' 1000000)
}
if (log_y) {
    set logscale y 10
    set format y '%g'
} else {
    set yrange [0:*]
}
set offsets graph 0.02, graph 0.02, 0, 0

# The library in strong colours, the references in grey and orange; points of different shapes for who sees no colours.
array colour[8] = ['#0072b2', '#666666', '#009e73', '#d55e00', '#cc79a7', '#56b4e9', '#e69f00', '#000000']
array shape[8] = [7, 2, 5, 9, 11, 13, 4, 6]
plot for [i = 0:blocks - 1] table index i using 1:2:3:4 with yerrorlines \
         linecolor rgb colour[i + 1] linewidth 1.8 pointtype shape[i + 1] pointsize 0.7 title columnheader(1)
