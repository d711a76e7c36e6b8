#!/bin/sh
# consumers.sh SOURCE: builds and runs a program that uses the library in each way that is offered. The installed
# library is used by pkg-config, CMake and Meson, shared and static, in C and C++, in place and after the prefix was
# moved. It is built with libnuma, without it, and on the emulated runtime. Last, the library is a Meson subproject. If
# a tool is missing, its way is named and skipped.
set -eu
source=$1
if ! command -v meson >/dev/null || ! command -v cc >/dev/null; then
    echo "skipped: meson and cc are needed to install anything"
    exit 77
fi
# shellcheck source=test/kit/kit.sh
. "$(dirname "$0")/../kit/kit.sh"
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
cp -R "$source/test/package/consumer" "$dir/project"
cp "$dir/project/main.c" "$dir/project/main.cpp"
# Neither the user's environment nor the options of the tested build have an effect here.
unset PKG_CONFIG_SYSROOT_DIR PKG_CONFIG_PATH CFLAGS CXXFLAGS LDFLAGS DESTDIR

# ---- The installed library ----

needs() { # LIBRARY PROGRAM...: succeeds if one of the programs is linked with the library
    library=$1
    shift
    ldd "$@" | grep -q "$library\.so"
}
no_cudart() { # PROGRAM...
    if needs libcudart "$@"; then
        echo "the CUDA runtime is not linked statically"
        exit 1
    fi
}
install() { # NAME OPTION...: installs to the folder of this name; sets prefix and version
    prefix=$dir/$1
    folder=$dir/build
    again=
    [ ! -d "$folder" ] || again=--reconfigure # compiles only what the options change
    shift
    # shellcheck disable=SC2086
    logged meson setup $again "$folder" "$source" --prefix="$prefix" --libdir=lib -Doptimization=0 -Dtests=disabled \
        -Dbench=disabled "$@"
    documented=false
    if [ $# = 0 ] && has doxygen; then
        logged meson compile -C "$folder" docs
        documented=true
    fi
    logged meson install -C "$folder"
    [ $documented = false ] || test -s "$prefix/share/doc/synced_mem/html/index.html"
    version=$(meson introspect --projectinfo "$folder" | sed -n 's/.*"version": "\([^"]*\)".*/\1/p')
    same "the header's version" "$(sed -n 's/^#define SYNCED_MEM_VERSION_[A-Z]* \([0-9]*\).*/\1/p' \
        "$prefix/include/synced_mem.h" | paste -s -d .)" "$version"
    real=$prefix/lib/libsynced_mem.so.$version
    soversion=${version%%.*}
    [ "$soversion" != 0 ] || soversion=${version%.*} # each minor version has an interface of its own
    same "the soname" "$(readelf -d "$real" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')" "libsynced_mem.so.$soversion"
    readelf -d "$real" | grep -q NODELETE
    no_cudart "$real"
}

# ---- pkg-config ----

# pkg-config sees no package of the system's, as a user of the shared library needs none. Programs find that library by
# their own run path. The library has to find its own dependencies.
by_pkg_config() { # PREFIX COMPILERS PROGRAMS OPTION...
    libraries=$1/lib
    compilers=$2
    programs=$3
    shift 3
    export PKG_CONFIG_LIBDIR="$libraries/pkgconfig"
    same "pkg-config's version" "$(pkg-config --modversion synced_mem)" "$version"
    define="-DPACKAGE_VERSION=\"$version\""
    for compiler in $compilers; do
        has "$compiler" || continue
        for program in $programs; do
            case $compiler in *++) main=$dir/project/$program.cpp ;; *) main=$dir/project/$program.c ;; esac
            standard=
            [ "$program" != wrapped ] || standard=-std=c++17
            # The flags are several words. The shared library is hidden during the static link.
            # shellcheck disable=SC2046,SC2086
            logged "$compiler" $standard -Wall -Wextra -Werror "$define" "$main" -o "$dir/shared" "-Wl,-rpath,$libraries" \
                -Wl,--as-needed $(pkg-config "$@" --cflags --libs synced_mem)
            logged "$dir/shared"
            mv "$libraries/libsynced_mem.so" "$libraries/hidden"
            # shellcheck disable=SC2046,SC2086
            logged "$compiler" $standard "$define" "$main" -o "$dir/static" "-Wl,-rpath,$libraries" \
                $(pkg-config "$@" --cflags --libs --static synced_mem)
            mv "$libraries/hidden" "$libraries/libsynced_mem.so"
            logged "$dir/static"
            no_cudart "$dir/shared" "$dir/static"
        done
    done
    unset PKG_CONFIG_LIBDIR
}

# The README's example compiles with the package's flags alone, without CUDA's headers and without a warning.
readme() { # PREFIX
    if ! has pkg-config || ! has cc; then return 0; fi
    flags=$(PKG_CONFIG_LIBDIR="$1/lib/pkgconfig" pkg-config --cflags --libs synced_mem)
    # shellcheck disable=SC2086
    logged cc -Wall -Wextra -Werror "$source/docs/code/readme.c" -o "$dir/readme" $flags
    LD_LIBRARY_PATH="$1/lib" "$dir/readme" >"$dir/output" || same "the exit status of the README's example" $? 0
    logged diff "$source/docs/code/readme.expected" "$dir/output"
}

# ---- CMake, and Meson with the installed library ----

by_cmake() { # PREFIX OPTION...
    from=$1
    shift
    rm -rf "$dir/cmake"
    logged cmake -S "$dir/project" -B "$dir/cmake" -DCMAKE_PREFIX_PATH="$from" -DEXPECTED="$version" \
        -DCMAKE_FIND_PACKAGE_NO_PACKAGE_REGISTRY=ON -DCMAKE_EXE_LINKER_FLAGS=-Wl,--as-needed "$@"
    logged cmake --build "$dir/cmake"
    (cd "$dir/cmake" && logged ctest --output-on-failure)
    same "the folder of the CMake package" "$(sed -n 's/^synced_mem_DIR:[A-Z]*=//p' "$dir/cmake/CMakeCache.txt")" \
        "$from/lib/cmake/synced_mem"
}
by_meson() { # BUILD-FOLDER OPTION...
    again=
    [ ! -d "$1" ] || again=--reconfigure
    # shellcheck disable=SC2086
    logged meson setup $again "$dir/project" "$@"
    logged meson test -C "$1"
}
by_installed_meson() { # BUILD-FOLDER OPTION...
    export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
    by_meson "$@" --wrap-mode=nofallback
    unset PKG_CONFIG_PATH
}

# ---- All ways, in place and moved ----

compilers="cc gcc clang g++ clang++"
install prefix
readme "$prefix"
if has pkg-config; then
    by_pkg_config "$prefix" "$compilers" main
    by_pkg_config "$prefix" "g++ clang++" wrapped
    by_installed_meson "$dir/meson"
fi
if has cmake; then by_cmake "$prefix"; fi
mv "$prefix" "$dir/moved"
if has pkg-config; then by_pkg_config "$dir/moved" "$compilers" main --define-prefix; fi
if has cmake; then by_cmake "$dir/moved"; fi

# ---- With libnuma and without ----

# The builds above have libnuma if this machine has it.
if needs libnuma "$dir/moved/lib/libsynced_mem.so"; then
    install without -Dnuma=disabled
    if needs libnuma "$real"; then
        echo "the library needs libnuma in spite of -Dnuma=disabled"
        exit 1
    fi
    if has pkg-config; then by_pkg_config "$prefix" cc main; fi
    if has cmake; then by_cmake "$prefix"; fi
else
    echo "skipped: there is no libnuma"
fi

# ---- On the emulated runtime, in place and moved ----

install emulated -Dnuma=auto -Dgpu=emulated
readme "$prefix"
if has pkg-config; then
    by_pkg_config "$prefix" cc "main emulated"
    by_installed_meson "$dir/meson-emulated" -Demulated=true
fi
mv "$prefix" "$dir/emulated-moved"
if has pkg-config; then by_pkg_config "$dir/emulated-moved" cc "main emulated" --define-prefix; fi
if has cmake; then by_cmake "$dir/emulated-moved" -DEMULATED=ON; fi

# ---- As a Meson subproject ----

mkdir "$dir/project/subprojects"
ln -s "$source" "$dir/project/subprojects/synced_mem"
for kind in shared static; do
    by_meson "$dir/sub" --wrap-mode=forcefallback -Doptimization=0 -Dsynced_mem:default_library=$kind
    linked=static
    if needs libsynced_mem "$dir/sub/consumer"; then linked=shared; fi
    same "the library of the subproject" $linked $kind
done
by_meson "$dir/sub" -Dsynced_mem:gpu=emulated -Demulated=true
echo "version $version: all ways that are not named above work"
