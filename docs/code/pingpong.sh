#!/bin/sh
# pingpong.sh PROGRAM PYTHON CHECK PAGE: checks that the program, before and after its fix, prints the text of the page
# and writes a valid trace. Call places differ from machine to machine and are not compared.
set -eu
program=$1
python=$2
check=$3
page=$4
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
for run in "" fixed; do
    # shellcheck disable=SC2086
    "$program" $run "$directory/trace.json" >"$directory/printed" || exit $?
    "$python" "$check" "$directory/trace.json"
    # The block of the page after the line with this call.
    awk -v call="\$ ./pingpong${run:+ $run}" '$0 == call { on = 1; next } on && /^```/ { exit } on' "$page" \
        >"$directory/shown"
    for text in shown printed; do
        sed -i -E '/^        (stale )?at /d' "$directory/$text"
    done
    diff "$directory/shown" "$directory/printed"
done
