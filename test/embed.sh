#!/bin/sh
# embed.sh SOURCE: a program that uses the library in each of the ways it is offered: installed with pkg-config, shared
# and static, and as a Meson subproject.
set -eu
source=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
logged() { # COMMAND...: shows what it printed only if it fails
    "$@" >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
}

cat >"$dir/user.c" <<'C'
#include <string.h>
#include <synced_mem.h>
int main(void)
{
    synced_mem *mem;
    if (synced_mem_create(&mem, 100, NULL) != SYNCED_MEM_OK)
        return 1;
    memset(synced_mem_overwrite_cpu_data(mem), 7, 100);
    const unsigned char *const data = synced_mem_cpu_data(mem);
    const int wrong = data[99] != 7 || synced_mem_head(mem) != SYNCED_MEM_AT_CPU;
    return synced_mem_release(mem) != SYNCED_MEM_OK || wrong;
}
C

# The installed library, as it is packaged: a build of its own, so that the options of this one play no part.
logged meson setup "$dir/lib" "$source" --prefix="$dir/prefix" --libdir=lib -Dtests=disabled -Dbench=disabled
logged meson install -C "$dir/lib"
unset PKG_CONFIG_SYSROOT_DIR # the prefix is where it says
export PKG_CONFIG_PATH="$dir/prefix/lib/pkgconfig"
# The flags are several words.
# shellcheck disable=SC2046
cc "$dir/user.c" -o "$dir/shared" $(pkg-config --cflags --libs synced_mem)
LD_LIBRARY_PATH="$dir/prefix/lib" "$dir/shared"
mv "$dir/prefix/lib/libsynced_mem.so" "$dir/prefix/lib/hidden"
# shellcheck disable=SC2046
cc "$dir/user.c" -o "$dir/static" $(pkg-config --cflags --libs --static synced_mem)
"$dir/static"
if ldd "$dir/shared" "$dir/static" "$dir/prefix/lib/hidden" | grep cudart; then
    echo "the CUDA runtime is not linked statically"
    exit 1
fi
test "$(readelf -d "$dir/prefix/lib/hidden" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')" = libsynced_mem.so.0
readelf -d "$dir/prefix/lib/hidden" | grep -q NODELETE

# As a subproject.
mkdir -p "$dir/project/subprojects"
ln -s "$source" "$dir/project/subprojects/synced_mem"
cp "$dir/user.c" "$dir/project/"
cat >"$dir/project/meson.build" <<'M'
project('user', 'c')
dep = dependency('synced_mem', fallback: ['synced_mem', 'synced_mem_dep'])
test('user', executable('user', 'user.c', dependencies: dep))
M
unset PKG_CONFIG_PATH
for kind in shared static; do
    logged meson setup "$dir/project-$kind" "$dir/project" -Dsynced_mem:default_library=$kind
    logged meson test -C "$dir/project-$kind"
done
uses_shared() {
    ldd "$1" | grep -q libsynced_mem
}
if ! uses_shared "$dir/project-shared/user" || uses_shared "$dir/project-static/user"; then
    echo "the subproject is not linked as it was asked to be"
    exit 1
fi

# On the emulated runtime, which the user then calls as well.
cat >"$dir/project/user.c" <<'C'
#include <cudart_emu.h>
#include <synced_mem.h>
int main(void)
{
    synced_mem *mem;
    emu_reset(1);
    if (synced_mem_create(&mem, 100, NULL) != SYNCED_MEM_OK || !synced_mem_gpu_data(mem))
        return 1;
    return emu_live(EMU_DEVICE_MEMORY) != 1 || synced_mem_release(mem) != SYNCED_MEM_OK;
}
C
logged meson setup "$dir/project-emulated" "$dir/project" -Dsynced_mem:gpu=emulated
logged meson test -C "$dir/project-emulated"
