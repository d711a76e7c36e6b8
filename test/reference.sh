#!/bin/sh
# reference.sh HEADER [REFERENCE.SH DOXYGEN DOXYFILE]: each public function's comment has its facts, the check for that
# finds those that are left out, and Doxygen makes the reference without a warning.
set -eu
test=$(dirname "$0")
header=$1
shift
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

awk -f "$test/reference.awk" "$header"
for lost in 's/@since 0.1//' 's/@return//' 's/[Bb]lock/stop/g' 's/Any thread may call/Few may call/'; do
    sed "$lost" "$header" >"$directory/lost.h"
    if awk -f "$test/reference.awk" "$directory/lost.h" >/dev/null; then
        echo "not found: $lost"
        exit 1
    fi
done

if [ $# = 0 ]; then
    echo "without Doxygen: the reference is not made"
    exit 0
fi
"$1" "$2" "$3" "$directory"
# All that is declared is there.
sed -n 's/.*class="memname">\(.*\)<.td>.*/\1/p' "$directory"/html/*.html | sed 's/ *$//; s/.*[ *>]//' |
    sort -u >"$directory/made"
sed -n 's/^SYNCED_MEM_API [^(]*[ *]\(synced_mem_[a-z_]*\)(.*/\1/p' "$header" | sort -u >"$directory/declared"
test -s "$directory/declared"
if comm -23 "$directory/declared" "$directory/made" | grep .; then
    echo "these are not in the reference"
    exit 1
fi
