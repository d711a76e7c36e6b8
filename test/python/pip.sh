#!/bin/sh
# pip.sh SOURCE PYTHON: installs the library, builds a wheel of the package with pip, and uses it in a virtual environment.
# Then installs both by Meson. Each import finds the library without further settings.
set -eu
source=$1
python=$2
# shellcheck source=test/kit/kit.sh
. "$(dirname "$0")/../kit/kit.sh"
unset DESTDIR PYTHONPATH LD_LIBRARY_PATH
for module in mesonpy ensurepip; do
    if ! "$python" -c "import $module" 2>/dev/null; then
        echo "skipped: $python has no $module"
        exit 77
    fi
done
program='import synced_mem; mem = synced_mem.Memory((2, 3)); print(memoryview(mem.cpu()).shape, synced_mem.__file__)'

logged meson setup "$dir/build" "$source" --prefix="$dir/prefix" --libdir=lib -Dgpu=none -Dtests=disabled \
    -Dbench=disabled -Ddocs=disabled -Ddefault_library=shared -Doptimization=0
logged meson install -C "$dir/build"

# pip writes beside the sources.
cp -r "$source/src/python" "$dir/package"
logged "$python" -m venv --system-site-packages "$dir/venv"
export PKG_CONFIG_PATH="$dir/prefix/lib/pkgconfig"
logged "$dir/venv/bin/pip" wheel --no-deps --no-build-isolation --no-index -w "$dir/wheel" "$dir/package"
ls "$dir"/wheel/synced_mem-*-cp311-abi3-*.whl
logged "$dir/venv/bin/pip" install --no-deps --no-index "$dir"/wheel/*.whl
"$dir/venv/bin/python" -c "$program" | grep "(2, 3) $dir/venv/"
logged "$dir/venv/bin/python" -c 'import synced_mem; synced_mem.load_safetensors'
test -e "$dir"/venv/lib/python3*/site-packages/synced_mem/py.typed
test -e "$dir"/venv/lib/python3*/site-packages/synced_mem/__init__.pyi

logged meson configure "$dir/build" -Dpython=enabled
logged meson install -C "$dir/build"
folder=$(dirname "$(dirname "$(find "$dir/prefix" -name _core.abi3.so)")")
PYTHONPATH=$folder "$python" -c "$program" | grep "(2, 3) $folder/"

# The versions are those of the library.
version=$("$python" -c 'import sys; sys.path.insert(0, sys.argv[1]); import synced_mem; print(synced_mem.__version__)' "$folder")
for file in meson.build pyproject.toml; do
    grep -q "^ *version[:=]* *=* *[\"']${version}[\"']" "$source/src/python/$file"
done
