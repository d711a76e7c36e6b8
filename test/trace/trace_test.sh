#!/bin/sh
# trace_test.sh PYTHON CHECK PROGRAM...: runs the program with a trace of each of its processes, and checks the traces.
set -eu
python=$1
check=$2
shift 2
# shellcheck source=test/kit/kit.sh
. "$(dirname "$0")/../kit/kit.sh"
SYNCED_MEM_TRACE=$dir/%p.json "$@" || exit $?
"$python" "$check" "$dir"/*.json
