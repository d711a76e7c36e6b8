#!/bin/sh
# localize.sh LD OBJCOPY AR INPUT.a OUTPUT.a DIRECTORY [EXPORTS.def]: the archive as one object whose hidden symbols are
# local. Objects of Windows have no hidden symbols: there those are local that the file does not name. And there the
# linker sorts the bytes of .pdata, the table by which a stack is unwound, but not their relocations. Under another name
# the section is left as it is, and the user's linker takes it for a part of the table.
set -eu
mkdir -p "$6"
if [ -n "${7-}" ]; then
    "$1" -r --verbose | sed '1,/^====/d; /^====/,$d; s/^  \.pdata *:/  .pdata$synced_mem :/' >"$6/script"
    grep -q 'pdata.synced_mem' "$6/script"
    "$1" -r -T "$6/script" --whole-archive "$4" -o "$6/synced_mem.o"
    sed 1d "$7" >"$6/names"
    "$2" --keep-global-symbols="$6/names" "$6/synced_mem.o"
else
    "$1" -r --whole-archive "$4" -o "$6/synced_mem.o"
    "$2" --localize-hidden "$6/synced_mem.o"
fi
rm -f "$5"
"$3" rcs "$5" "$6/synced_mem.o"
