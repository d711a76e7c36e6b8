#!/bin/sh
# consumers.sh SOURCE: a program that uses the library in each of the ways in which it is offered: installed, by pkg-
# config, CMake and Meson, shared and static, in C and C++, where it was installed and after the prefix was moved; and
# as a Meson subproject. A way whose tool is missing is named and left out.
set -eu
source=$1
if ! command -v meson >/dev/null || ! command -v cc >/dev/null; then
    echo "skipped: meson and cc are needed to install anything"
    exit 77
fi
# shellcheck source=test/kit.sh
. "$(dirname "$0")/kit.sh"
has() { # PROGRAM
    command -v "$1" >/dev/null || {
        echo "skipped: there is no $1"
        return 1
    }
}
same() { # WHAT VALUE EXPECTED
    [ "$2" = "$3" ] || {
        echo "$1 is '$2', not '$3'"
        exit 1
    }
}
cp -R "$source/test/consumer" "$dir/project"
cp "$dir/project/main.c" "$dir/project/main.cpp"
# The user's environment plays no part, and neither do the options of the build that this is a test of.
unset PKG_CONFIG_SYSROOT_DIR PKG_CONFIG_PATH CFLAGS CXXFLAGS LDFLAGS DESTDIR

# ---- The installed library ----

prefix=$dir/prefix
logged meson setup "$dir/lib" "$source" --prefix="$prefix" --libdir=lib -Doptimization=0 -Dtests=disabled \
    -Dbench=disabled
documented=false
if has doxygen; then
    logged meson compile -C "$dir/lib" docs
    documented=true
fi
logged meson install -C "$dir/lib"
[ $documented = false ] || test -s "$prefix/share/doc/synced_mem/html/index.html"
version=$(meson introspect --projectinfo "$dir/lib" | sed -n 's/.*"version": "\([^"]*\)".*/\1/p')
same "the header's version" "$(sed -n 's/^#define SYNCED_MEM_VERSION_[A-Z]* \([0-9]*\).*/\1/p' \
    "$prefix/include/synced_mem.h" | paste -s -d .)" "$version"
real=$prefix/lib/libsynced_mem.so.$version
same "the soname" "$(readelf -d "$real" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')" "libsynced_mem.so.${version%%.*}"
readelf -d "$real" | grep -q NODELETE
if ldd "$real" | grep cudart; then
    echo "the CUDA runtime is not linked statically"
    exit 1
fi

# ---- pkg-config ----

by_pkg_config() { # PREFIX OPTION...
    libraries=$1/lib
    shift
    export PKG_CONFIG_LIBDIR="$libraries/pkgconfig"
    same "pkg-config's version" "$(pkg-config --modversion synced_mem)" "$version"
    define="-DPACKAGE_VERSION=\"$version\""
    for compiler in cc gcc clang g++ clang++; do
        has $compiler || continue
        case $compiler in *++) main=main.cpp ;; *) main=main.c ;; esac
        # The flags are several words. A static link has to do without the shared library.
        # shellcheck disable=SC2046
        logged $compiler -Wall -Wextra -Werror "$define" "$dir/project/$main" -o "$dir/shared" \
            $(pkg-config "$@" --cflags --libs synced_mem)
        LD_LIBRARY_PATH="$libraries" logged "$dir/shared"
        mv "$libraries/libsynced_mem.so" "$libraries/hidden"
        # shellcheck disable=SC2046
        logged $compiler "$define" "$dir/project/$main" -o "$dir/static" \
            $(pkg-config "$@" --cflags --libs --static synced_mem)
        mv "$libraries/hidden" "$libraries/libsynced_mem.so"
        logged "$dir/static"
        if ldd "$dir/shared" "$dir/static" | grep cudart; then
            echo "the CUDA runtime is not linked statically"
            exit 1
        fi
    done
    unset PKG_CONFIG_LIBDIR
}

# ---- CMake, and Meson with the installed library ----

by_cmake() { # PREFIX BUILD-FOLDER
    logged cmake -S "$dir/project" -B "$2" -DCMAKE_PREFIX_PATH="$1" -DEXPECTED="$version" \
        -DCMAKE_FIND_PACKAGE_NO_PACKAGE_REGISTRY=ON
    logged cmake --build "$2"
    (cd "$2" && logged ctest --output-on-failure)
    same "where CMake found it" "$(sed -n 's/^synced_mem_DIR:[A-Z]*=//p' "$2/CMakeCache.txt")" "$1/lib/cmake/synced_mem"
}
by_meson() { # BUILD-FOLDER OPTION...
    logged meson setup "$dir/project" "$@"
    logged meson test -C "$1"
}

if has pkg-config; then
    by_pkg_config "$prefix"
    export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
    by_meson "$dir/meson" --wrap-mode=nofallback
    unset PKG_CONFIG_PATH
fi
if has cmake; then by_cmake "$prefix" "$dir/cmake"; fi

# ---- All of it somewhere else ----

mv "$prefix" "$dir/moved"
if has pkg-config; then by_pkg_config "$dir/moved" --define-prefix; fi
if has cmake; then by_cmake "$dir/moved" "$dir/cmake-moved"; fi

# ---- As a Meson subproject ----

mkdir "$dir/project/subprojects"
ln -s "$source" "$dir/project/subprojects/synced_mem"
uses_shared() { # PROGRAM
    ldd "$1" | grep -q libsynced_mem
}
for kind in shared static; do
    by_meson "$dir/sub-$kind" --wrap-mode=forcefallback -Doptimization=0 -Dsynced_mem:default_library=$kind
done
if ! uses_shared "$dir/sub-shared/consumer" || uses_shared "$dir/sub-static/consumer"; then
    echo "the subproject is not linked as it was asked to be"
    exit 1
fi
by_meson "$dir/emulated" --wrap-mode=forcefallback -Doptimization=0 -Dsynced_mem:gpu=emulated -Demulated=true
echo "version $version: all ways that are not named above work"
