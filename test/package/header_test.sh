#!/bin/sh
# header_test.sh COMPILER HEADER...: checks that each header compiles alone, without a warning, in each language that it
# promises. Uses other compilers too, for C++ also MinGW's. Checks also that no header is too long to be read, and that no comment refers to
# that of another function.
set -u
wanted=$1
shift
failed=0
# shellcheck source=test/kit/kit.sh
. "$(dirname "$0")/../kit/kit.sh"

# write HEADER: writes the programs.
write()
{
    cat >"$dir/alone.c" <<END
#include "$1"
#include "$1"
extern synced_mem_stream stream_of_the_caller;
struct CUstream_st *stream_of_cuda(void);
struct CUstream_st *stream_of_cuda(void)
{
    return stream_of_the_caller;
}
END
    cp "$dir/alone.c" "$dir/alone.cpp"
}

# try LANGUAGE FILE COMMAND...: compiles the file if the compiler supports the language.
try()
{
    language=$1
    file=$2
    shift 2
    echo 'typedef int known;' >"$dir/known.${file##*.}"
    if ! "$@" -std="$language" -fsyntax-only "$dir/known.${file##*.}" 2>/dev/null; then
        echo "skipped: $* -std=$language"
    elif "$@" -std="$language" -Wall -Wextra -Wpedantic -Wundef -Wshadow -Wconversion -Werror -fsyntax-only "$file"; then
        echo "compiled: $* -std=$language"
    else
        echo "FAILED: $* -std=$language"
        failed=1
    fi
}

# The header for C++, with exceptions and without, each with clang's libc++ too if that is there.
try_hpp()
{
    echo '#include <vector>' >"$dir/library.cpp"
    for words in g++ clang++ "clang++ -stdlib=libc++" x86_64-w64-mingw32-g++-win32 x86_64-w64-mingw32-g++-posix; do
        command -v "${words%% *}" >/dev/null 2>&1 || continue
        # A compiler and its option are two words.
        # shellcheck disable=SC2086
        $words -fsyntax-only "$dir/library.cpp" 2>/dev/null || continue
        for language in c++17 c++20 c++2b; do
            for options in -Wold-style-cast "-fno-exceptions -fno-rtti"; do
                # shellcheck disable=SC2086
                try "$language" "$dir/alone.cpp" $words $options
            done
        done
    done
}

for header in "$@"; do
    most=250
    [ "${header##*/}" != synced_mem.h ] || most=450
    [ "${header##*/}" != synced_mem.hpp ] || most=700
    if [ "$(wc -l <"$header")" -gt $most ]; then
        echo "FAILED: $header has more than $most lines"
        failed=1
    fi
    if sed 's/^ *\*//' "$header" | tr -s '\n ' '  ' | grep -oi '[^ ]* as synced_mem_[a-z_]*()'; then
        echo "FAILED: $header refers to the comment of another function"
        failed=1
    fi
    write "$header"
    if [ "${header##*.}" = hpp ]; then
        try_hpp
        continue
    fi
    for compiler in "$wanted" gcc clang; do
        command -v "${compiler%% *}" >/dev/null 2>&1 || continue
        for language in c99 c11 c17; do
            try "$language" "$dir/alone.c" $compiler -Wstrict-prototypes -Wmissing-prototypes
        done
    done
    # The dialect of Microsoft's compiler, with clang's own headers, which lack this one.
    mkdir -p "$dir/include"
    echo 'typedef struct file FILE;' >"$dir/include/stdio.h"
    for define in -USYNCED_MEM_DLL -DSYNCED_MEM_DLL; do
        try c11 "$dir/alone.c" clang --target=x86_64-pc-windows-msvc -fms-compatibility -ffreestanding \
            -isystem "$dir/include" $define
    done
    for compiler in g++ clang++; do
        command -v "$compiler" >/dev/null 2>&1 || continue
        for language in c++98 c++11 c++17 c++20; do
            # stdint.h uses long long, which C++98 does not have.
            try "$language" "$dir/alone.cpp" "$compiler" -Wno-long-long
        done
    done
done
exit $failed
