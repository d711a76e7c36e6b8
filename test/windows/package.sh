#!/bin/sh
# package.sh SOURCE CROSS-FILE COMPILER RUNNER: installs the library for Windows, builds a user's program with it by CMake
# and by pkg-config, with the DLL and statically, and runs each. On the emulated runtime there is the static library alone.
set -eu
source=$1
cross_file=$2
compiler=$3
runner=$4
# shellcheck source=test/kit/kit.sh
. "$source/test/kit/kit.sh"
cp -R "$source/test/package/consumer" "$dir/project"

install() { # NAME OPTION...: sets prefix and version
    prefix=$dir/$1
    folder=$dir/build-$1
    shift
    logged meson setup "$folder" "$source" --cross-file "$cross_file" --prefix="$prefix" --libdir=lib -Doptimization=0 \
        -Dtests=disabled -Dbench=disabled -Ddocs=disabled "$@"
    logged meson install -C "$folder"
    version=$(meson introspect --projectinfo "$folder" | sed -n 's/.*"version": "\([^"]*\)".*/\1/p')
    define="-DPACKAGE_VERSION=\"$version\""
    export WINEPATH="Z:$prefix/bin" PKG_CONFIG_LIBDIR="$prefix/lib/pkgconfig"
}

by_cmake() { # OPTION...
    rm -rf "$dir/cmake"
    logged cmake -S "$dir/project" -B "$dir/cmake" -DCMAKE_SYSTEM_NAME=Windows "-DCMAKE_C_COMPILER=$compiler" \
        "-DCMAKE_PREFIX_PATH=$prefix" "-DEXPECTED=$version" "-DCMAKE_CROSSCOMPILING_EMULATOR=$runner" \
        "-Dsynced_mem_DIR=$prefix/lib/cmake/synced_mem" -DCMAKE_CXX_COMPILER=NOTFOUND "$@"
    logged cmake --build "$dir/cmake"
    (cd "$dir/cmake" && logged ctest --output-on-failure)
}

# The entries of the functions are in the order of their addresses, and end before the next one begins.
check_unwinding() { # PROGRAM
    x86_64-w64-mingw32-objdump -p "$1" | sed -n '/Function Table/,/^$/p' >"$dir/functions"
    awk '$1 ~ /^[0-9a-f]+:$/ { if ($2 "" < end "") overlap++; end = $3; functions++ }
         END { exit overlap > 0 || functions < 1000 }' "$dir/functions" || {
        tail -n 3 "$dir/functions"
        echo "the table for unwinding is not sorted"
        exit 1
    }
}

shared_by_pkg_config() { # PROGRAM
    # The flags are several words.
    # shellcheck disable=SC2046
    logged "$compiler" -Wall -Wextra -Werror -DSYNCED_MEM_DLL "$define" "$dir/project/$1.c" -o "$dir/shared.exe" \
        $(pkg-config --cflags --libs synced_mem)
    logged "$runner" "$dir/shared.exe"
    rm "$prefix/lib/libsynced_mem.dll.a" # so that the next program is linked with the archive
}
static_by_pkg_config() { # PROGRAM
    # shellcheck disable=SC2046
    logged "$compiler" "$define" "$dir/project/$1.c" -o "$dir/static.exe" \
        $(pkg-config --cflags --libs --static synced_mem)
    logged "$runner" "$dir/static.exe"
    check_unwinding "$dir/static.exe"
}

install none
by_cmake
shared_by_pkg_config main
static_by_pkg_config main
install emulated -Dgpu=emulated
by_cmake -DEMULATED=ON
static_by_pkg_config main
static_by_pkg_config emulated
echo "version $version: the DLL and the static library work by CMake and pkg-config"
