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

# The processors for which test/run compiles: the name, which is qemu's, that of Debian's compiler, Meson's family, the
# order of bytes, and Debian's name.
processors="
aarch64 aarch64-linux-gnu     aarch64 little arm64
ppc64le powerpc64le-linux-gnu ppc64   little ppc64el
riscv64 riscv64-linux-gnu     riscv64 little riscv64
s390x   s390x-linux-gnu       s390x   big    s390x
"
choose_processor() { # NAME: sets the variables below
    line=$(echo "$processors" | grep "^$1 ")
    # shellcheck disable=SC2034
    read -r processor machine family order debian_name <<END
$line
END
}
need_processor() { # NAME
    choose_processor "$1"
    need_program "$machine-gcc" "gcc-$machine"
    [ -e "/usr/$machine/include/stdlib.h" ] || missing="$missing libc6-dev-$debian_name-cross"
    need_program "qemu-$processor" qemu-user
}

# Prints options of apt for sources, lists and downloads of the folder's own. The system's packages and its lists of
# packages do not change, and apt needs no privileges. The options have no spaces.
private_apt() { # FOLDER
    mkdir -p "$1/lists/partial" "$1/cache/archives/partial"
    echo "-oDir::Etc::SourceList=$1/sources.list -oDir::Etc::SourceParts=/dev/null -oDir::State::Lists=$1/lists" \
        "-oDir::Cache=$1/cache -oAPT::Sandbox::User=$(id -un)"
}

# Builds Check from the distribution's source package into a folder.
build_check() { # FOLDER CMAKE-ARGUMENT...
    folder=$1
    shift
    if [ "$(cat "$folder/.complete" 2>/dev/null)" = "$*" ]; then return 0; fi
    rm -rf "$folder"
    mkdir -p "$folder/source"
    sources=$(private_apt "$folder/apt")
    # shellcheck disable=SC2016,SC2086
    if ! apt-get indextargets --format 'deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
        sort -u >"$folder/apt/sources.list" ||
        ! (cd "$folder/source" && apt-get $sources -qq update && apt-get $sources -qq source --download-only check &&
            tar -xf check_*.orig.tar.*) >"$folder/apt/log" 2>&1; then
        tail -n 5 "$folder/apt/log" >&2
        echo "apt-get can't download the source package of Check (is there a network?)" >&2
        return 1
    fi
    if ! { cmake -S "$folder"/source/check-*/ -B "$folder/build" -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF \
        "-DCMAKE_INSTALL_PREFIX=$folder" -DCMAKE_INSTALL_LIBDIR=lib "$@" && cmake --build "$folder/build" &&
        cmake --install "$folder/build"; } >"$folder/log" 2>&1; then
        tail -n 20 "$folder/log" >&2
        return 1
    fi
    # The programs contain it. It calls floor(), which is no instruction of each processor.
    sed -i 's/^Libs:.*/& -lm/' "$folder/lib/pkgconfig/check.pc"
    rm -rf "$folder"/lib/libcheck.so* "$folder"/lib/libcheck.dll.a "$folder/apt" "$folder/source" "$folder/build"
    echo "$*" >"$folder/.complete"
}

# The CUDA toolkits of Debian's releases: the version, the release, and the package of the shared runtime.
toolkits="
11.8 bookworm libcudart11.0
12.4 trixie   libcudart12
"
has_toolkit() { # VERSION
    echo "$toolkits" | grep -q "^$1 "
}

# Unpacks the headers and the runtime of a toolkit into FOLDER/include and FOLDER/lib64, where Meson searches if
# CUDA_PATH names the folder. The archive is that of the system's own sources, because it has other releases of Debian
# too. The toolkit is in a component that the system need not use. Its compiler and its other libraries are not
# unpacked.
fetch_toolkit() { # FOLDER VERSION
    if [ -e "$1/.complete" ]; then return 0; fi
    rm -rf "$1"
    mkdir -p "$1/debs" "$1/root"
    read -r _ release runtime <<END
$(echo "$toolkits" | grep "^$2 ")
END
    sources=$(private_apt "$1/apt")
    own=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    # shellcheck disable=SC2016,SC2086
    if ! apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 'Created-By: Packages' | sort -u |
        sed -n "s|^$own \(.*\)|deb \1 $release non-free|p" >"$1/apt/sources.list" ||
        ! (cd "$1/debs" && apt-get $sources -qq update && apt-get $sources -qq download nvidia-cuda-dev "$runtime") \
            >"$1/apt/log" 2>&1; then
        tail -n 5 "$1/apt/log" >&2
        return 1
    fi
    dpkg-deb --fsys-tarfile "$1"/debs/nvidia-cuda-dev_*.deb |
        tar -x -C "$1/root" --wildcards './usr/include/*' '*/libcudart*' || return 1
    dpkg-deb -x "$1/debs/$runtime"_*.deb "$1/root" || return 1
    mv "$1/root/usr/include" "$1/include"
    mv "$1/root/usr/lib/$(cc -print-multiarch)" "$1/lib64"
    rm -rf "$1/debs" "$1/root" "$1/apt"
    touch "$1/.complete"
}

# Meson's cross file for a compiler and for Check in the folder. It has no tools for which src/meson.build asks the
# compiler.
write_cross_file() { # FOLDER SYSTEM COMPILER FAMILY ORDER PREFIX LINE...: the prefix of ar, and lines that follow [binaries]
    compiler=$3
    if command -v ccache >/dev/null 2>&1; then compiler="'ccache', $compiler"; fi
    {
        cat <<END
[host_machine]
system = '$2'
cpu_family = '$4'
cpu = '$4'
endian = '$5'

[properties]
pkg_config_libdir = '$1/lib/pkgconfig'

[binaries]
pkgconfig = 'pkg-config'
ar = '$6ar'
nm = '$6nm'
strip = '$6strip'
c = [$compiler]
END
        shift 6
        printf '%s\n' "$@"
    } >"$1/cross.ini"
}

# Unpacks the compiler zig into the folder. Returns false if npm can't have it.
unpack_zig() { # FOLDER
    case $(uname -m) in
    x86_64) package=zig-linux-x64 ;;
    aarch64) package=zig-linux-arm64 ;;
    *) return 1 ;;
    esac
    if [ -x "$1/package/zig" ]; then return 0; fi
    command -v npm >/dev/null 2>&1 || try_install nodejs npm || return 1
    mkdir -p "$1"
    (cd "$1" && npm pack --silent "@oven/$package@0.12.0-dev.1286" && tar xzf ./*.tgz && rm ./*.tgz) >"$1/log" 2>&1
}

# Meson's cross file for macOS, by zig.
write_macos_file() { # FILE ZIG PROCESSOR
    cat >"$1" <<END
[binaries]
c = ['$root/test/kit/zig_macos.sh', '$2', '$3']
ar = ['$2', 'ar']
ranlib = ['$2', 'ranlib']
strip = 'true'

[host_machine]
system = 'darwin'
cpu_family = '$3'
cpu = '$3'
endian = 'little'
END
}

# Prints all that a configured build folder depends on, except the tree.
fingerprint() { # MESON-ARGUMENT...
    echo "$* ${CC-}"
    for argument in "$@"; do
        case $argument in *.ini) cat "$argument" ;; esac
    done
    command -v nvcc || ls -d /usr/local/cuda 2>/dev/null || true
    for module in check numa openblas ompi-c zlib libcjson; do
        pkg-config --modversion $module 2>/dev/null || true
    done
    command -v mpicc || true
}

# Sets the folder up, again if the arguments or the machine have changed. A change of the tree's own files for Meson
# takes effect before the targets are listed.
set_up() { # BUILD-FOLDER MESON-ARGUMENT...
    folder=$1
    shift
    if [ "$(cat "$folder/.fingerprint" 2>/dev/null)" != "$(fingerprint "$@")" ] || [ ! -f "$folder/build.ninja" ]; then
        rm -rf "$folder"
        mkdir -p "$folder"
        meson setup "$folder" "$root" "$@" >"$folder/setup.log" 2>&1 || { cat "$folder/setup.log" >&2; return 1; }
        fingerprint "$@" >"$folder/.fingerprint"
    fi
    ninja -C "$folder" build.ninja >"$folder/setup.log" 2>&1 || { cat "$folder/setup.log" >&2; return 1; }
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
