# gnuplot -e "table='timeline.tsv'; picture='timeline.svg'" bench/train/timeline.gp
#
# Draws what train --overlap N --timeline timeline.tsv has written: a lane for each stream, a bar for each push and for
# the kernels of each step, coloured by the batch that they are about.
if (!exists("table")) table = 'timeline.tsv'
if (!exists("picture")) picture = 'timeline.svg'

set terminal svg size 900,260 dynamic enhanced font 'sans-serif,13' background rgb 'white'
set output picture
set datafile separator tab

# Long steps read better in ms.
stats table using 5 every ::1 nooutput
unit = STATS_max > 5000 ? 1000.0 : 1.0
set xlabel (unit > 1 ? 'time (ms)' : 'time (µs)')
set xrange [0 : STATS_max / unit]

set yrange [0.45 : 2.95]
set ytics ('kernels' 1, 'pushes' 2) scale 0
set xtics nomirror out scale 0.5
set grid xtics linecolor rgb '#dddddd'
set border 1
set key top right horizontal samplen 1.5 width 1
set style fill solid 0.9 border rgb 'white'

lane(what) = what eq 'push' ? 2 : 1
# No number: no bar.
begin(parity, step, value) = int(step) % 2 == parity ? value / unit : NaN
plot for [parity = 0:1] table every ::1 \
         using (begin(parity, $3, $4)):(lane(strcol(1))):(begin(parity, $3, $4)):(begin(parity, $3, $5)): \
               (lane(strcol(1)) - 0.32):(lane(strcol(1)) + 0.32) \
         with boxxyerror linecolor rgb (parity ? '#e69f00' : '#0072b2') title (parity ? 'odd batch' : 'even batch'), \
     table every ::1 using (($4 + $5) / 2 / unit):(lane(strcol(1))):3 \
         with labels textcolor rgb 'white' notitle
