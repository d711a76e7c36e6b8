#!/bin/sh
# evict.sh SIMULATOR EXAMPLE: records a trace of the example on a small budget, and checks what the simulator of
# evictions prints of it. It must refuse other files with one line and exit status 2.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=test/kit/kit.sh
. "$root/test/kit/kit.sh"
simulator=$1
example=$2
failures=0
fail() {
    echo "FAIL: $*"
    failures=$((failures + 1))
}
prints() { # LINE ARGUMENT...
    line=$1
    shift
    "$simulator" "$@" >"$dir/out" 2>"$dir/err" || fail "exit status of $*"
    tr -s ' ' <"$dir/out" | grep -q -e "$line" || fail "$* does not print: $line"
}
refuses() { # WORDS ARGUMENT...
    words=$1
    shift
    "$simulator" "$@" >"$dir/out" 2>"$dir/err"
    [ $? = 2 ] || fail "exit status of $*"
    grep -q -e "$words" "$dir/err" || fail "$* does not say: $words"
    [ "$(wc -l <"$dir/err")" = 1 ] || fail "$* prints more than a line"
}

SYNCED_MEM_TRACE="$dir/trace" "$example" || fail "the example"
trace=$(echo "$dir"/trace*)
prints '^36 holds of 12 objects with 3145728 bytes' "$trace"
# Each fits: 12 misses by any way. One fits: each hold misses but for those of the same object twice in a row.
prints '^ 3145728 12 12 12 12 1.00 ' "$trace" 3145728
prints '^ 262144 36 36 36 36 1.00 ' "$trace" 262144
prints '^ 1048576 [0-9]* 36 ' "$trace" 1048576
echo '[' >"$dir/empty"
refuses 'has no holds' "$dir/empty"
refuses 'No such file' "$dir/none"
refuses 'not a number' "$trace" many
refuses 'not a number' "$trace" 0
[ $failures = 0 ]
