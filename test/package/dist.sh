#!/bin/sh
# dist.sh SOURCE: checks that the archive of "meson dist" contains all that is needed to build, test and install the
# last commit. Runs only a few tests; "meson dist" by itself runs all of them.
set -eu
source=$1
if [ ! -e "$source/.git" ] || ! git -C "$source" rev-parse HEAD >/dev/null 2>&1; then
    echo "skipped: $source is no git checkout"
    exit 77
fi
# shellcheck source=test/kit/kit.sh
. "$(dirname "$0")/../kit/kit.sh"
unset DESTDIR

logged meson setup "$dir/checkout" "$source" -Dgpu=none -Dtests=disabled -Dbench=disabled
logged meson dist -C "$dir/checkout" --no-tests --allow-dirty --formats gztar
(cd "$dir/checkout/meson-dist" && logged sha256sum -c ./*.sha256sum)
mkdir "$dir/tree"
tar -xzf "$dir"/checkout/meson-dist/*.tar.gz -C "$dir/tree" --strip-components=1
for file in LICENSE README.md .ci/run test/run bench/run docs/design.md; do
    test -s "$dir/tree/$file"
done
logged meson setup "$dir/build" "$dir/tree" --prefix="$dir/prefix" -Dgpu=none -Dtests=enabled -Dbench=disabled \
    -Doptimization=0
# Meson before 1.7 would build the programs of all tests.
logged meson compile -C "$dir/build" src/synced_mem:shared_library synced_mem_static test_object_none test_state_none \
    test_errors_none
logged meson test -C "$dir/build" --no-rebuild symbols reference 'object (none)' 'state (none)' 'errors (none)'
passed=$(sed -n 's/^Ok: *//p' "$dir/log")
[ "$((passed))" = 5 ]
# An installation needs no tests.
logged meson configure "$dir/build" -Dtests=disabled
logged meson install -C "$dir/build"
test -s "$dir/prefix/include/synced_mem.h"
test -s "$dir/prefix/include/synced_mem_dlpack.h"
test -s "$dir/prefix/include/synced_mem/dlpack.h"
