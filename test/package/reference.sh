#!/bin/sh
# reference.sh HEADER... -- [REFERENCE.SH DOXYGEN DOXYFILE]: checks that each public function's comment has its facts,
# that the check finds facts that are left out, and that Doxygen makes the reference without a warning.
set -eu
test=$(dirname "$0")
# shellcheck source=test/kit/kit.sh
. "$test/../kit/kit.sh"

header=$dir/headers.h
cat /dev/null >"$header"
while [ "$1" != -- ]; do
    cat "$1" >>"$header"
    shift
done
shift
awk -f "$test/reference.awk" "$header"
for lost in 's/@since 0.[0-9]//' 's/^\/\*\* Returns /\/** /' 's/Any thread may call/Few may call/' \
    's/^ \* - Blocking\. / * - /' 's/^\/\*\* Adds [^.]*\. /\/** /' \
    's/by synced_mem_release()/by synced_mem_give_up()/' 's/Blocking: until they are done\./Blocking: never./' \
    's/Errors: GPU errors\. @/Errors: none. @/' \
    's/^ \* \(Blocking: [^:]*\.\) \(Errors: [^:]*\.\) @/ * \2 \1 @/' \
    's/^ \* Errors: \(.*\) @/ * Errors: \1 Errors: \1 @/'; do
    sed "$lost" "$header" >"$dir/lost.h"
    if cmp -s "$header" "$dir/lost.h" || awk -f "$test/reference.awk" "$dir/lost.h" >/dev/null; then
        echo "not found: $lost"
        exit 1
    fi
done

if [ $# = 0 ]; then
    echo "without Doxygen: the reference is not made"
    exit 0
fi
"$1" "$2" "$3" "$dir"
# The reference must have all declared functions.
sed -n 's/.*class="memname">\(.*\)<.td>.*/\1/p' "$dir"/html/*.html | sed 's/ *$//; s/.*[ *>]//' |
    sort -u >"$dir/made"
declared "$header"
if comm -23 "$dir/declared" "$dir/made" | grep .; then
    echo "these are not in the reference"
    exit 1
fi
# The facts that the functions of a section share must be in the description of each.
copies=$dir/html/group__copies.html
[ "$(grep -c '>Errors: all functions of this section<' "$copies")" = "$(grep -c 'class="memtitle"' "$copies")" ] ||
    { echo "the facts of a section are not in all of its functions" && exit 1; }
