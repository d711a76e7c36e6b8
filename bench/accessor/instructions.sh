#!/bin/sh
# instructions.sh PROGRAM: instructions per call of each accessor, its loop included, as callgrind counts them. The
# difference of two counts leaves out everything but the loop.
set -eu
command -v valgrind >/dev/null || { echo "instructions: skipped, valgrind is not installed"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
count() {
    valgrind --tool=callgrind --callgrind-out-file="$dir/out" "$1" "$2" "$3" >/dev/null 2>&1 || return 1
    sed -n 's/^totals: //p;s/^summary: //p' "$dir/out" | head -n 1
}
printf '%-20s %s\n' accessor "instructions per call"
for row in bare load equal cpu_data mutable_cpu_data gpu_data mutable_gpu_data gpu_data_on \
    mutable_gpu_data_on; do
    if few=$(count "$1" $row 10000) && many=$(count "$1" $row 110000); then
        printf '%-20s %s\n' $row "$(awk "BEGIN { printf \"%.2f\", ($many - $few) / 100000 }")"
    else
        printf '%-20s %s\n' $row "skipped: no GPU"
    fi
done
