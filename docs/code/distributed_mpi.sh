#!/bin/sh
# distributed_mpi.sh PROGRAM: runs the program in one rank, and in two ranks.
set -eu
command -v mpirun >/dev/null 2>&1 || exit 77
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Open MPI does not free all of its memory.
export ASAN_OPTIONS="detect_leaks=0 ${ASAN_OPTIONS-}"
for ranks in 1 2; do
    printed=$(timeout 600 mpirun --oversubscribe --bind-to none -n $ranks "$1" </dev/null)
    echo "$printed"
    [ "$printed" = "$ranks ranks" ]
done
