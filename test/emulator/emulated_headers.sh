#!/bin/sh
# emulated_headers.sh FOLDER: checks that each header of the emulated runtime compiles alone, in C and C++, without a
# warning. framework.cpp must compile too, with these headers and with those of a toolkit if there is one.
set -eu
folder=$1
# shellcheck source=test/kit/kit.sh
. "$(dirname "$0")/../kit/kit.sh"

try() { # COMPILER LANGUAGE FILE INCLUDES: compiles with each kind of default stream
    echo "$1 -std=$2 $(basename "$3")"
    # The includes are several words.
    # shellcheck disable=SC2086
    for define in -DUSES_THE_LEGACY_STREAM -DCUDA_API_PER_THREAD_DEFAULT_STREAM; do
        logged "$1" -std="$2" $define -Wall -Wextra -Wpedantic -Wundef -Wshadow -Werror -fsyntax-only $4 "$3"
    done
}

ours="-I$folder/include -I$folder"
for header in "$folder"/include/*.h "$folder/cudart_emu.h"; do
    name=$(basename "$header" .h)
    printf '#include <%s.h>\n#include <%s.h>\ntypedef int something;\n' "$name" "$name" >"$dir/$name.c"
    cp "$dir/$name.c" "$dir/$name.cpp"
    for compiler in cc gcc clang; do
        if command -v $compiler >/dev/null; then try $compiler c11 "$dir/$name.c" "$ours"; fi
    done
    for compiler in g++ clang++; do
        if command -v $compiler >/dev/null; then try $compiler c++11 "$dir/$name.cpp" "$ours"; fi
    done
done
for compiler in g++ clang++; do
    command -v $compiler >/dev/null || continue
    for language in c++11 c++17; do
        try $compiler $language "$folder/framework.cpp" "$ours"
    done
    if [ -e /usr/local/cuda/include/cuda_runtime.h ]; then
        logged $compiler -std=c++17 -fsyntax-only -isystem /usr/local/cuda/include "$folder/framework.cpp"
    fi
done
