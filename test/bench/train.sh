#!/bin/sh
# train.sh TRAIN: checks that the trainer refuses wrong arguments and files with one line and exit status 2, that it
# learns, that the same seed gives the same loss, and that it shows its progress. train.sh TRAIN full: checks that it
# learns enough with the default settings, and from the public header.
set -u
train=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failures=0
fail() {
    echo "FAIL: $*"
    failures=$((failures + 1))
}

# A trainer built with cuBLAS alone needs a GPU.
"$train" --quiet --sample 0 "$dir/missing" >"$dir/out" 2>"$dir/err" </dev/null
if grep -q "there is no GPU, and this program was built without CBLAS" "$dir/err"; then
    cat "$dir/err"
    exit 77
fi

if [ "${2-}" = full ]; then
    gains() { # WHAT ARGUMENT...
        what=$1
        shift
        "$train" --quiet --sample 0 "$@" >"$dir/out" || fail "$what"
        echo "$what: $(tail -n 1 "$dir/out")"
        awk '/^held-out loss/ { found = 1; exit !($NF >= 0.8) } END { if (!found) exit 1 }' "$dir/out" ||
            fail "$what: the gain over the unigram entropy is below 0.8 nat"
    }
    gains "the default settings"
    # The trainer's text on systems without the GPL.
    gains "include/synced_mem.h" --steps 3000 "$(dirname "$0")/../../include/synced_mem.h"
    [ $failures = 0 ]
    exit
fi
refuses() { # WORDS-OF-THE-MESSAGE ARGUMENT...
    words=$1
    shift
    "$train" "$@" >"$dir/out" 2>"$dir/err" </dev/null
    status=$?
    [ $status = 2 ] || fail "$* ended with $status"
    [ "$(wc -l <"$dir/err")" = 1 ] || fail "$* printed $(wc -l <"$dir/err") lines of error"
    grep -q -- "$words" "$dir/err" || fail "$* said: $(cat "$dir/err")"
}

: >"$dir/empty"
printf 'text\0with a zero byte, and long enough to be something to learn from\n' >"$dir/binary"
head -c 5000 /dev/urandom >"$dir/noise"
printf 'ab' >"$dir/short"
mkdir "$dir/folder"
refuses missing "$dir/missing"
refuses folder "$dir/folder"
refuses empty "$dir/empty"
refuses binary "$dir/binary"
refuses noise "$dir/noise"
refuses short "$dir/short"
refuses '--frobnicate' --frobnicate
refuses '--steps' --steps
refuses '--steps' --steps many
refuses '--steps' --steps 0
refuses '--steps' --steps -5
refuses '--rate' --rate nan
refuses '--device' --device tpu
refuses '--device' --device 4711
refuses '--layers' --layers 0
refuses '--layers' --layers 65
refuses '--hidden' --layers 2 --hidden 50000
refuses '--overlap' --overlap
refuses '--overlap' --overlap 0
refuses '--overlap' --overlap some
refuses '--overlap' --overlap 3 --device cpu
refuses '--timeline' --timeline

# The text is generated, so that the loss does not depend on the machine's files.
i=0
while [ $i -lt 400 ]; do
    echo "the $i. line says that $((i * 7 % 10)) comes before $((i * 7 % 10 + 1)), and no other line does."
    i=$((i + 1))
done >"$dir/text"
learn() { # SEED DEVICE
    "$train" --quiet --steps 300 --hidden 64 --sample 0 --seed "$1" --device "$2" "$dir/text" >"$dir/out" 2>"$dir/err" ||
        fail "training on $2: $(cat "$dir/err")"
    sed -n 's/^held-out loss \([0-9.]*\) .*/\1/p' "$dir/out"
}
devices=
for device in cpu gpu; do
    "$train" --quiet --steps 1 --sample 0 --device $device "$dir/text" >/dev/null 2>"$dir/err" && devices="$devices $device"
done
[ -n "$devices" ] || fail "neither cpu nor gpu can be used: $(cat "$dir/err")"
case $devices in
*gpu*)
    # There are more steps than the timeline shows: 8 of kernels and 9 pushes. None may end before it begins.
    "$train" --overlap 13 --timeline "$dir/text" >"$dir/out" 2>"$dir/err" ||
        fail "--overlap: $(cat "$dir/err")"
    grep -q '^c / max(a, b) ' "$dir/out" || fail "--overlap printed no ratio"
    grep -q '^stalled     [0-9.]* % ' "$dir/out" || fail "--overlap printed no stall"
    grep -q '^moved       273 transfers of .* for 273 pushes; 0 from it$' "$dir/out" ||
        fail "--overlap: $(grep '^moved' "$dir/out")"
    sed -n 's/^{"timeline":\[\(.*\)\]}$/\1/p' "$dir/out" | tr -d '{"' | tr '}' '\n' | sed 's/^,//' >"$dir/timeline"
    awk -F'[,:]' '{ ++n[$2]; if ($8 < $6) exit 1 } END { if (n["push"] != 9 || n["kernels"] != 8) exit 1 }' \
        "$dir/timeline" || fail "--timeline printed: $(cat "$dir/timeline")"
    ;;
*)
    refuses '--overlap' --overlap 3 "$dir/text"
    refuses '--overlap' --overlap 3 --device gpu --timeline "$dir/text"
    ;;
esac
for device in $devices; do
    first=$(learn 1 "$device")
    again=$(learn 1 "$device")
    other=$(learn 2 "$device")
    echo "$device: held-out loss $first"
    [ -n "$first" ] || fail "no loss on $device"
    [ "$first" = "$again" ] || fail "seed 1 gave $first and $again on $device"
    [ "$first" != "$other" ] || fail "seeds 1 and 2 gave the same loss on $device"
    echo "$first" >"$dir/loss-$device"
done
for device in $devices; do
    "$train" --quiet --steps 300 --layers 3 --hidden 64 --sample 0 --device "$device" "$dir/text" >"$dir/out" 2>"$dir/err" ||
        fail "three layers on $device: $(cat "$dir/err")"
    grep -q '^model .* hidden 3 x 64: ' "$dir/out" || fail "three layers: $(grep '^model' "$dir/out")"
    awk '/^held-out loss/ { exit !($NF >= 0.8) }' "$dir/out" || fail "three layers on $device: $(tail -n 1 "$dir/out")"
done

# The progress line, on a pipe and on a terminal. Each has the share done and the time left.
shape='^step [0-9]* of 300, [0-9]* % done, [0-9][0-9a-z ]* left\(, loss [0-9.]*\)\{0,1\}, [0-9]* characters/s *$'
check_progress() { # WHAT FILE LEAST-LINES MOST-LINES
    grep '^step' "$2" >"$dir/steps"
    lines=$(wc -l <"$dir/steps")
    [ "$lines" -ge "$3" ] && [ "$lines" -le "$4" ] || fail "$1: $lines lines of progress: $(cat "$2")"
    if grep -v "$shape" "$dir/steps"; then fail "$1: a line of progress of another shape"; fi
    tail -n 1 "$dir/steps" | grep -q '^step 300 of 300, 100 % done, 0 s left, loss' ||
        fail "$1: the last line: $(tail -n 1 "$dir/steps")"
}
for device in $devices; do
    "$train" --steps 300 --hidden 64 --sample 0 --device "$device" "$dir/text" >/dev/null 2>"$dir/err" </dev/null
    check_progress "a pipe, $device" "$dir/err" 10 11 # one line comes a second after the start
    # A long run that is stopped: the first second has a line, with no loss read and nothing of the share done.
    "$train" --steps 1000000000 --hidden 64 --sample 0 --device "$device" "$dir/text" 2>"$dir/early" >/dev/null </dev/null &
    until grep -q . "$dir/early" || ! kill -0 $! 2>/dev/null; do sleep 0.1; done
    kill $!
    wait $! 2>/dev/null
    head -n 1 "$dir/early" | grep -q '^step [0-9]* of 1000000000, 0 % done, .* left, [0-9]* characters/s$' ||
        fail "the first second on $device: $(cat "$dir/early")"
    command -v script >/dev/null 2>&1 || continue
    script -qec "'$train' --steps 300 --hidden 64 --sample 0 --device $device '$dir/text' >'$dir/out'" /dev/null \
        >"$dir/screen" </dev/null
    [ "$(tr -cd '\n' <"$dir/screen" | wc -c)" = 1 ] || fail "a terminal: the line is not rewritten in place"
    tr '\r' '\n' <"$dir/screen" >"$dir/lines"
    check_progress "a terminal, $device" "$dir/lines" 100 400
    grep -q '^step 1 of 300, 0 % done, ' "$dir/lines" || fail "a terminal: no line after the first step"
done
agree() { # WHAT LOSS LOSS
    echo "$1: held-out loss $2 and $3"
    awk -v a="$2" -v b="$3" 'BEGIN { exit !(a > 0 && b > 0 && a - b < 1e-3 && b - a < 1e-3) }' ||
        fail "$1: the devices' losses differ by 1e-3 or more"
}
# In each step every sum is so long that the GPU cuts it into parts.
long_sums() { # DEVICE
    "$train" --quiet --steps 20 --batch 4096 --context 20 --embed 5 --hidden 40 --sample 0 --device "$1" "$dir/text" \
        >"$dir/out" 2>"$dir/err" || fail "long sums on $1: $(cat "$dir/err")"
    sed -n 's/^held-out loss \([0-9.]*\) .*/\1/p' "$dir/out"
}
if [ "$devices" = " cpu gpu" ]; then
    agree "default batch" "$(cat "$dir/loss-cpu")" "$(cat "$dir/loss-gpu")"
    agree "long sums" "$(long_sums cpu)" "$(long_sums gpu)"
fi
[ $failures = 0 ]
