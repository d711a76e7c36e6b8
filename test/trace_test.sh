#!/bin/sh
# trace_test.sh PYTHON CHECK PROGRAM...: runs the program with a trace of each of its processes, and checks them.
set -eu
python=$1
check=$2
shift 2
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
SYNCED_MEM_TRACE=$directory/%p.json "$@" || exit $?
"$python" "$check" "$directory"/*.json
