#!/bin/sh
# localize.sh LD OBJCOPY AR INPUT.a OUTPUT.a DIRECTORY [EXPORTS.def]: the archive as one object whose hidden symbols are
# local. Where the format of objects has no hidden symbols, those are local that the file does not name.
set -eu
mkdir -p "$6"
"$1" -r --whole-archive "$4" -o "$6/synced_mem.o"
if [ -n "${7-}" ]; then
    sed 1d "$7" >"$6/names"
    "$2" --keep-global-symbols="$6/names" "$6/synced_mem.o"
else
    "$2" --localize-hidden "$6/synced_mem.o"
fi
rm -f "$5"
"$3" rcs "$5" "$6/synced_mem.o"
