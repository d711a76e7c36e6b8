#!/bin/sh
# copy_kernel.sh: makes copy_kernel_code.c of copy_kernel.cu, with nvcc of CUDA 13. Run it after a change of the kernel.
# copy_kernel.sh --check: whether that was done, for which nvcc is not needed.
#
# Machine code for one GPU also runs on later GPUs of the same major version. So the array has that of the first one of
# each major version, and PTX, which the driver compiles, for later major versions. Integrated GPUs have no use for it.
set -eu
cd "$(dirname "$0")"
if ! command -v sha256sum >/dev/null; then
    echo "skipped: there is no sha256sum"
    exit 77
fi
hash=$(cat copy_kernel.cu ../copy_list.h copy_kernel.sh | sha256sum | cut -d ' ' -f 1)
if [ "${1-}" = --check ]; then
    grep -q "^ \* Source: $hash\$" copy_kernel_code.c && exit
    echo "copy_kernel_code.c was not made of the present copy_kernel.cu: run src/device/cuda/copy_kernel.sh"
    exit 1
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
set --
for version in 75 80 90 100 120; do
    set -- "$@" -gencode "arch=compute_$version,code=sm_$version"
done
"${NVCC:-nvcc}" -O3 -fatbin -Xfatbin -compress-all "$@" -gencode "arch=compute_$version,code=compute_$version" \
    -o "$dir/code" copy_kernel.cu
{
    cat <<END
/*
 * Made by copy_kernel.sh: the kernel of copy_kernel.cu for all GPUs, as cudaLibraryLoadData() takes it.
 * Source: $hash
 */
#include "device/cuda/copy_kernel.h"

/* clang-format off */
const unsigned long long sm_copy_kernel_code[] = {
END
    od -A n -v -t x8 -w32 "$dir/code" | sed 's/ *\([0-9a-f]\{16\}\)/ 0x\1,/g; s/^ /    /'
    echo '};'
} >"$dir/file"
mv "$dir/file" copy_kernel_code.c
