#!/bin/sh
# pingpong.sh PROGRAM PYTHON CHECK PAGE: runs the program without and with its fix. Each run must print the text of the
# page and write a trace that the script CHECK accepts. Call addresses and numbers of processes
# differ between runs and are not compared.
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
    # Prints the lines of the page from this command to the end of its block.
    awk -v call="\$ ./pingpong${run:+ $run}" '$0 == call { on = 1; next } on && /^```/ { exit } on' "$page" \
        >"$directory/shown"
    for text in shown printed; do
        sed -i -E '/^        (stale )?at /d; s/^process [0-9]+$/process PID/' "$directory/$text"
    done
    diff "$directory/shown" "$directory/printed"
done
