# Draws one of the suite's plots: lines with their quartiles, from a table of blocks, a label above each. The suite
# sets: table, picture, heading, along (bytes, threads or objects), across, log_y, blocks, remark, colours.
set terminal svg size 900,520 dynamic noenhanced font 'sans-serif,14' background rgb 'white'
set output picture
set datafile separator tab

set title heading.remark font ',16'
set ylabel across
set border 3
set tics nomirror out scale 0.5
set grid xtics ytics linecolor rgb '#dddddd'
set key at screen 0.5, screen 0.02 center bottom vertical maxcols 1 samplen 2 Left reverse
set lmargin 10
set rmargin 4
set bmargin at screen 0.15 + 0.043 * blocks
bars = ' (medians; bars: from quartile to quartile)'

if (along eq 'bytes') {
    set logscale x 2
    set xlabel 'size'.bars
    set xtics ('256 B' 256, '1 KiB' 1024, '4 KiB' 4096, '16 KiB' 16384, '64 KiB' 65536, '256 KiB' 262144, \
               '1 MiB' 1048576, '4 MiB' 4194304, '16 MiB' 16777216, '64 MiB' 67108864, '256 MiB' 268435456, \
               '1 GiB' 1073741824)
}
if (along eq 'threads') {
    set logscale x 2
    set xlabel 'threads'.bars
}
if (along eq 'objects') {
    set logscale x 10
    set xlabel 'objects'.bars
    set xtics ('10' 10, '100' 100, '1,000' 1000, '10,000' 10000, '100,000' 100000, '1,000,000' 1000000)
}
if (log_y) {
    set logscale y 10
    set format y '%.10g'
} else {
    set yrange [0:*]
}
set offsets graph 0.02, graph 0.02, 0, 0

# Points of different shapes, for who sees no colours.
array shape[6] = [7, 2, 5, 9, 11, 13]
plot for [i = 0:blocks - 1] table index i using 1:2:3:4 with yerrorlines \
         linecolor rgb word(colours, i + 1) linewidth 1.8 pointtype shape[i + 1] pointsize 0.7 title columnheader(1)
