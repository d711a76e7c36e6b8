# shellcheck shell=sh disable=SC2154
# Sourced by scripts here and in bench. Finds missing Debian packages, and installs them if permitted. The script sets
# root first.

missing=
need_program() { # PROGRAM PACKAGE
    command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}
need_module() { # PKG-CONFIG-MODULE PACKAGE
    pkg-config --exists "$1" 2>/dev/null || missing="$missing $2"
}
# Debian's packages are for Debian's Python, which may come after another one in the PATH.
python_with() { # MODULE: prints the first interpreter that has the module
    for interpreter in python3 /usr/bin/python3; do
        if "$interpreter" -c "import $1" >/dev/null 2>&1; then
            echo "$interpreter"
            return 0
        fi
    done
    return 1
}
need_python_module() { # MODULE PACKAGE
    python_with "$1" >/dev/null || missing="$missing $2"
}

# Tools that every build needs.
need_build_tools() {
    need_program cc gcc
    [ -e /usr/include/stdlib.h ] || missing="$missing libc6-dev"
    need_program pkg-config pkg-config
    need_program meson meson
    need_program ninja ninja-build
}

# With NO_INSTALL=1 in the environment nothing is installed.
try_install() { # PACKAGE...: as root, or with a sudo that needs no password
    [ -z "${NO_INSTALL-}" ] || return 1
    command -v apt-get >/dev/null 2>&1 || return 1
    if [ "$(id -u)" = 0 ]; then sudo=; else sudo="sudo -n"; $sudo true 2>/dev/null || return 1; fi
    echo "installing:$*" >&2
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y "$@" >/dev/null 2>&1 && return 0
    $sudo apt-get update -qq >/dev/null 2>&1 || return 1
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y "$@" >/dev/null
}

# Ends the script with one line if a missing package can't be installed.
install_missing() {
    [ -n "$missing" ] || return 0
    # Word splitting is intended: one argument for each package.
    # shellcheck disable=SC2086
    try_install $missing && missing= && return 0
    echo "missing packages:$missing (as root: apt-get install$missing)" >&2
    exit 1
}

# Debian has all architectures in one archive. Systems derived from it may keep some elsewhere, where apt does not
# search.
is_debian() {
    [ "$(sed -n 's/^ID=//p' /etc/os-release 2>/dev/null | tr -d \"\')" = debian ]
}

# Unpacks Debian's packages for another architecture into a folder. Neither the system's packages nor its list of
# architectures change, and apt needs no privileges.
unpack_packages() { # ARCHITECTURE FOLDER PACKAGE...
    architecture=$1
    folder=$2
    shift 2
    if [ "$(cat "$folder/.complete" 2>/dev/null)" = "$*" ]; then return 0; fi
    rm -rf "$folder"
    mkdir -p "$folder/apt/lists/partial" "$folder/apt/cache/archives/partial" "$folder/apt/packages"
    foreign="-oAPT::Architecture=$architecture -oAPT::Architectures=$architecture -oDir::State::Lists=$folder/apt/lists
        -oDir::Cache=$folder/apt/cache -oAPT::Sandbox::User=$(id -un)"
    # shellcheck disable=SC2086
    if ! (cd "$folder/apt/packages" && apt-get $foreign -qq update && apt-get $foreign -qq download "$@") \
        >"$folder/apt/log" 2>&1; then
        tail -n 5 "$folder/apt/log" >&2
        echo "apt-get can't download for $architecture: $* (is there a network?)" >&2
        return 1
    fi
    for package in "$folder"/apt/packages/*.deb; do dpkg -x "$package" "$folder" || return 1; done
    rm -rf "$folder/apt"
    echo "$*" >"$folder/.complete"
}

# Meson's cross file for Debian's compiler, with the packages in the folder, and programs run under qemu-user.
write_cross_file() { # FILE FOLDER
    compiler="'aarch64-linux-gnu-gcc'"
    if command -v ccache >/dev/null 2>&1; then compiler="'ccache', $compiler"; fi
    cat >"$1" <<END
[binaries]
c = [$compiler]
ar = 'aarch64-linux-gnu-ar'
ld = 'aarch64-linux-gnu-ld'
nm = 'aarch64-linux-gnu-nm'
objcopy = 'aarch64-linux-gnu-objcopy'
strip = 'aarch64-linux-gnu-strip'
pkgconfig = 'pkg-config'
exe_wrapper = ['qemu-aarch64', '-L', '/usr/aarch64-linux-gnu']

[properties]
pkg_config_libdir = '$2/usr/lib/aarch64-linux-gnu/pkgconfig'
sys_root = '$2'

[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
END
}

find_wine() { # prints the program that runs 64-bit programs of Windows
    command -v wine64 || ls /usr/lib/wine/wine64 2>/dev/null
}

# Builds Check for Windows from Debian's source, into the folder. apt's lists of sources do not change.
build_check_for_windows() { # FOLDER
    if [ -f "$1/lib/libcheck.a" ]; then return 0; fi
    rm -rf "$1"
    mkdir -p "$1/apt/lists/partial" "$1/apt/cache/archives/partial" "$1/source"
    # The places that apt has packages from, this time for their sources.
    apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' |
        sed 's|^|deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] |' | sort -u >"$1/apt/sources.list"
    own="-oDir::Etc::sourcelist=$1/apt/sources.list -oDir::Etc::sourceparts=- -oDir::State::Lists=$1/apt/lists
        -oDir::Cache=$1/apt/cache -oAPT::Sandbox::User=$(id -un)"
    printf 'set(CMAKE_SYSTEM_NAME Windows)\nset(CMAKE_C_COMPILER x86_64-w64-mingw32-gcc-win32)\n' >"$1/toolchain.cmake"
    # shellcheck disable=SC2086
    if ! (apt-get $own -qq update && cd "$1/source" && apt-get $own -qq source check &&
        cmake -S "$(echo check-*/)" -B build -DCMAKE_TOOLCHAIN_FILE="$1/toolchain.cmake" -DCMAKE_BUILD_TYPE=Release \
            -DCHECK_ENABLE_TESTS=OFF -DCMAKE_INSTALL_PREFIX="$1" && cmake --build build --target check &&
        mkdir -p "$1/lib/pkgconfig" "$1/include" && cp build/src/libcheck.a "$1/lib" &&
        cp build/src/check.h check-*/src/check.h build/check_stdint.h "$1/include") >"$1/log" 2>&1; then
        tail -n 5 "$1/log" >&2
        echo "Check can't be built for Windows (is there a network?)" >&2
        return 1
    fi
    cat >"$1/lib/pkgconfig/check.pc" <<END
Name: Check
Description: unit tests
Version: 0.15.2
Libs: $1/lib/libcheck.a -l:libwinpthread.a
Cflags: -I$1/include
END
    rm -rf "$1/source" "$1/apt"
}

# Meson's cross file for MinGW, with Check in the folder, and programs run under Wine.
write_windows_cross_file() { # FILE FOLDER
    tools=x86_64-w64-mingw32
    compiler="'$tools-gcc-win32'"
    if command -v ccache >/dev/null 2>&1; then compiler="'ccache', $compiler"; fi
    cat >"$1" <<END
[binaries]
c = [$compiler]
ar = '$tools-ar'
ld = '$tools-ld'
nm = '$tools-nm'
objcopy = '$tools-objcopy'
strip = '$tools-strip'
pkgconfig = 'pkg-config'
exe_wrapper = '$(find_wine)'

[properties]
pkg_config_libdir = '$2/lib/pkgconfig'

[host_machine]
system = 'windows'
cpu_family = 'x86_64'
cpu = 'x86_64'
endian = 'little'
END
}

# Prints all that a configured build folder depends on, except the tree.
fingerprint() { # MESON-ARGUMENT...
    echo "$* ${CC-}"
    command -v nvcc || ls -d /usr/local/cuda 2>/dev/null || true
    for module in check numa openblas ompi-c zlib; do
        pkg-config --modversion $module 2>/dev/null || true
    done
    command -v mpicc || true
}

# Sets the folder up, again if the arguments or the machine have changed.
set_up() { # BUILD-FOLDER MESON-ARGUMENT...
    folder=$1
    shift
    if [ "$(cat "$folder/.fingerprint" 2>/dev/null)" != "$(fingerprint "$@")" ] || [ ! -f "$folder/build.ninja" ]; then
        rm -rf "$folder"
        mkdir -p "$folder"
        meson setup "$folder" "$root" "$@" >"$folder/setup.log" 2>&1 || { cat "$folder/setup.log" >&2; return 1; }
        fingerprint "$@" >"$folder/.fingerprint"
    fi
}

compile() { # BUILD-FOLDER TARGETS
    # Word splitting is intended: one argument for each target.
    # shellcheck disable=SC2086
    ninja -C "$1" $2 >"$1/compile.log" 2>&1 || { tail -n 60 "$1/compile.log" >&2; return 1; }
}

configure() { # BUILD-FOLDER TARGETS MESON-ARGUMENT...
    folder=$1
    targets=$2
    shift 2
    set_up "$folder" "$@" && compile "$folder" "$targets"
}
