#!/bin/sh
# localize.sh LD OBJCOPY AR INPUT.a OUTPUT.a DIRECTORY: the archive as one object whose hidden symbols are local.
set -eu
mkdir -p "$6"
"$1" -r --whole-archive "$4" -o "$6/synced_mem.o"
"$2" --localize-hidden "$6/synced_mem.o"
rm -f "$5"
"$3" rcs "$5" "$6/synced_mem.o"
