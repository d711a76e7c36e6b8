#!/bin/sh
# zig_macos.sh ZIG PROCESSOR ARGUMENT...: compiles and links C for macOS. Meson asks for the linker's name, and knows
# Apple's alone.
set -eu
zig=$1
target=$2-macos
shift 2
for argument in "$@"; do
    case $argument in
    -Wl,--version)
        echo "ld: unknown option: --version" >&2
        exit 1
        ;;
    -Wl,-v)
        echo "@(#)PROGRAM:ld PROJECT:ld64-609" >&2
        exit 0
        ;;
    esac
done
exec "$zig" cc -target "$target" "$@"
