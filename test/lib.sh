# shellcheck shell=sh disable=SC2154
# Sourced by test/run and bench/run: finds out which Debian packages are missing, and installs them where that is allowed.
# Set root before.

missing=
need_program() { # PROGRAM PACKAGE
    command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}
need_module() { # PKG-CONFIG-MODULE PACKAGE
    pkg-config --exists "$1" 2>/dev/null || missing="$missing $2"
}

# What every build needs.
need_build_tools() {
    need_program cc gcc
    [ -e /usr/include/stdlib.h ] || missing="$missing libc6-dev"
    need_program pkg-config pkg-config
    need_program meson meson
    need_program ninja ninja-build
}

# NO_INSTALL=1 in the environment: nothing is installed.
try_install() { # PACKAGE...: as root, or through a sudo that asks nothing
    [ -z "${NO_INSTALL-}" ] || return 1
    command -v apt-get >/dev/null 2>&1 || return 1
    if [ "$(id -u)" = 0 ]; then sudo=; else sudo="sudo -n"; $sudo true 2>/dev/null || return 1; fi
    echo "installing:$*" >&2
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y "$@" >/dev/null 2>&1 && return 0
    $sudo apt-get update -qq >/dev/null 2>&1 || return 1
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y "$@" >/dev/null
}

# Ends the script with one line if something is missing that can't be installed.
install_missing() {
    [ -n "$missing" ] || return 0
    # Word splitting is wanted: one argument a package.
    # shellcheck disable=SC2086
    try_install $missing && missing= && return 0
    echo "missing packages:$missing (as root: apt-get install$missing)" >&2
    exit 1
}

# What a configured build folder hangs on, beside the tree.
fingerprint() { # MESON-ARGUMENT...
    echo "$* ${CC-}"
    command -v nvcc || ls -d /usr/local/cuda 2>/dev/null || true
    for module in check numa openblas; do
        pkg-config --modversion $module 2>/dev/null || true
    done
}

# Sets the folder up, anew if the arguments or the machine are others, and builds the targets.
configure() { # BUILD-FOLDER TARGETS MESON-ARGUMENT...
    folder=$1
    targets=$2
    shift 2
    if [ "$(cat "$folder/.fingerprint" 2>/dev/null)" != "$(fingerprint "$@")" ] || [ ! -f "$folder/build.ninja" ]; then
        rm -rf "$folder"
        mkdir -p "$folder"
        meson setup "$folder" "$root" "$@" >"$folder/setup.log" 2>&1 || { cat "$folder/setup.log" >&2; return 1; }
        fingerprint "$@" >"$folder/.fingerprint"
    fi
    # Word splitting is wanted: one argument a target.
    # shellcheck disable=SC2086
    ninja -C "$folder" $targets >"$folder/compile.log" 2>&1 || { tail -n 60 "$folder/compile.log" >&2; return 1; }
}
