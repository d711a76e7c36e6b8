#!/bin/sh
# plot.sh: checks that bench/plot.py draws the suite's lines of JSON, with the same result every time. It must refuse
# other files with one line and exit status 2.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=test/kit/lib.sh
. "$root/test/kit/lib.sh"
# shellcheck source=test/kit/kit.sh
. "$root/test/kit/kit.sh"
failures=0
fail() {
    echo "FAIL: $*"
    failures=$((failures + 1))
}
if ! drawing=$(python_with matplotlib); then
    echo "skipped: there is no Python with matplotlib"
    exit 77
fi

draw() { # FILE FOLDER
    "$drawing" "$root/bench/plot.py" "$@" >"$dir/out" 2>"$dir/err"
}
has() { # PICTURE TEXT...
    picture=$1
    shift
    for text in "$@"; do grep -q -e ">$text<" "$dir/pictures/$picture.svg" || fail "$picture.svg lacks: $text"; done
}
refuses() { # WORDS-OF-THE-MESSAGE ARGUMENT...
    words=$1
    shift
    draw "$@"
    status=$?
    [ $status = 2 ] || fail "plot.py $* ended with $status"
    [ "$(wc -l <"$dir/err")" = 1 ] || fail "plot.py $* printed $(wc -l <"$dir/err") lines of error"
    grep -q -e "^plot.py: $words" "$dir/err" || fail "plot.py $* said: $(cat "$dir/err")"
    [ -z "$(ls "$dir/none")" ] || fail "plot.py $* has drawn a picture in spite of the error"
}

rows() { # GROUP TABLE LIMIT CLASSIC: two sizes, with the library's figures 100 and 200
    for scale in 1 2; do
        printf '{"group":"%s","table":"%s","row":"a row","x":%s024,"unit":"us","verdict":"met"' "$1" "$2" $scale
        for figure in "ours 100" "limit $3" "classic $4"; do
            printf ',"%s":{"median":%s,"lower_quartile":%s,"upper_quartile":%s}' "${figure% *}" \
                $((scale * ${figure#* })) $((scale * ${figure#* } - 1)) $((scale * ${figure#* } + 2))
        done
        echo '}'
    done
}

# In life the library's curve is on the limit's, so ratios are drawn. In resize-host the curves are apart; in scale only
# the two limits are the same. resize-device has too few points; overlap, scale-trips and scale-threads have none.
mkdir "$dir/pictures" "$dir/again" "$dir/none"
{
    echo '{"machine":{"quick":true}}'
    rows life device 101 300
    rows resize grow-host 50 300
    rows resize grow-device 50 300 | head -n 1
    rows scale create 50 300
    rows scale release 50 300
    echo '{"group":"overlap","table":"fills","row":"a row","x":1,"unit":"us","verdict":"skipped","targets":[],' \
        '"note":"no GPU"}'
    echo '{"timeline":[{"what":"push","step":7,"begin_us":0.00,"end_us":9.50},' \
        '{"what":"kernels","step":6,"begin_us":3.25,"end_us":12.00}]}'
    echo '{"end":{}}'
} >"$dir/rows"
draw "$dir/rows" "$dir/pictures" || fail "plot.py: $(cat "$dir/err")"
[ ! -s "$dir/err" ] || fail "plot.py said: $(cat "$dir/err")"
for name in life resize-host scale timeline; do
    grep -q "  $dir/pictures/$name.svg" "$dir/out" || fail "plot.py does not name $name.svg: $(cat "$dir/out")"
done
[ "$(grep -c 'skipped: too few rows were measured' "$dir/out")" = 4 ] || fail "skipped: $(cat "$dir/out")"
[ "$(find "$dir/pictures" -type f | wc -l)" = 4 ] || fail "other pictures: $(ls "$dir/pictures")"
has life 'Create, overwrite on the host, gpu_data, destroy (quick run)' 'µs, without the fill ÷ reference' synced_mem \
    'reference: the copy alone (limit)' 'cudaMallocHost, cudaMalloc, cudaMemcpy (classic)' '1 KiB'
has resize-host 'µs' 'resize' 'calloc and memcpy (limit)' 'another object (classic)'
has scale 'ns an object' 'malloc of 128 bytes (limit)' 'free (limit)'
has timeline pushes kernels 6 7 'time (µs)' 'even batch' 'odd batch'

draw "$dir/rows" "$dir/again" || fail "plot.py: $(cat "$dir/err")"
diff -r "$dir/pictures" "$dir/again" >/dev/null || fail "the pictures are not the same every time"
grep -q '<dc:date>' "$dir/again"/*.svg && fail "a picture has a date"
head -n 1 "$dir/rows" >"$dir/machine"
draw "$dir/machine" "$dir/none" || fail "plot.py: $(cat "$dir/err")"
grep -q 'timeline: skipped' "$dir/out" || fail "a missing timeline is not reported"

refuses 'usage: plot.py FILE FOLDER' "$dir/rows"
refuses "$dir/missing: No such file" "$dir/missing" "$dir/none"
refuses "$dir/missing/life.svg: No such file" "$dir/rows" "$dir/missing"
: >"$dir/bad"
refuses "$dir/bad: it has no line of the suite's JSON" "$dir/bad" "$dir/none"
for line in 'no JSON' '{"end":{}}' '{"machine":7}' '\0377'; do
    printf '%b\n' "$line" >"$dir/bad"
    refuses "$dir/bad, line 1: this is not a line of the suite's JSON" "$dir/bad" "$dir/none"
done
for line in '{"machine":' '[]' '{"group":"life"}' '{"timeline":[{"what":"push","step":1}]}' \
    '{"group":"life","table":"device","row":"a row","x":1,"unit":"us","verdict":"","ours":{"median":1}}' \
    '{"group":"life","table":"push","row":"r","x":1,"unit":"","ours":{"median":NaN,"lower_quartile":1}}'; do
    printf '%s\n%s\n' '{"machine":{}}' "$line" >"$dir/bad"
    refuses "$dir/bad, line 2: this is not a line of the suite's JSON" "$dir/bad" "$dir/none"
done

# Without modules of packages.
"$drawing" -S -E "$root/bench/plot.py" "$dir/rows" "$dir/none" >"$dir/out" 2>"$dir/err"
status=$?
[ $status = 2 ] && grep -q 'plot.py: matplotlib is not installed' "$dir/err" || fail "$status, $(cat "$dir/err")"
[ $failures = 0 ]
