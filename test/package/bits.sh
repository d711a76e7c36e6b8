#!/bin/sh
# bits.sh SOURCE: setup for a processor with addresses of 32 bits must end with one sentence that says so.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# No headers or libraries for this processor are needed: only the compiler is asked.
echo 'int answer;' >"$folder/empty.c"
if [ "$(uname -m)" != x86_64 ] || ! gcc -m32 -c "$folder/empty.c" -o "$folder/empty.o" 2>"$folder/log"; then
    echo "skipped: no compiler for 32 bits"
    exit 77
fi
cat >"$folder/cross.ini" <<END
[binaries]
c = ['gcc', '-m32']
ar = 'ar'

[properties]
skip_sanity_check = true

[host_machine]
system = 'linux'
cpu_family = 'x86'
cpu = 'i686'
endian = 'little'
END
if meson setup "$folder/build" "$1" --cross-file "$folder/cross.ini" >"$folder/log" 2>&1; then
    echo "setup for 32 bits succeeds"
    exit 1
fi
if ! grep -q 'ERROR: .*synced_mem needs a processor with addresses of 64 bits$' "$folder/log"; then
    cat "$folder/log"
    exit 1
fi
