# shellcheck shell=sh
# Sourced by the scripts that test the trainer. Makes a temporary folder, $dir, which is removed when the script ends,
# and counts failures in $failures. Without mpirun the script ends as skipped.
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failures=0
fail() { # WORD...
    echo "FAIL: $*"
    failures=$((failures + 1))
}
if ! command -v mpirun >/dev/null 2>&1; then
    echo "skipped: there is no mpirun"
    exit 77
fi

# A container may run everything as root, and have fewer cores than ranks. Open MPI does not free all of its memory.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OPENBLAS_NUM_THREADS=1
export ASAN_OPTIONS="detect_leaks=0 ${ASAN_OPTIONS-}"

write_text() { # LINES: writes the text to learn to $dir/text
    i=0
    while [ $i -lt "$1" ]; do
        echo "the $i. line says that $((i * 7 % 10)) comes before $((i * 7 % 10 + 1)), and no other line does."
        i=$((i + 1))
    done >"$dir/text"
}
