#!/bin/sh
# suite.sh SUITE RUNTIME PYTHON: checks that the benchmark suite runs to its end, measures every group that it lists,
# and writes lines of JSON. It must give a reason for each skipped row, and refuse wrong arguments with one line.
# bench/plot.py must draw its rows, and bench/compare.py compare them.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=test/kit/lib.sh
. "$root/test/kit/lib.sh"
suite=$1
runtime=$2
python=$3
unset MALLOC_PERTURB_ # set by Meson; malloc would fill all memory, and be no reference
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failures=0
fail() {
    echo "FAIL: $*"
    failures=$((failures + 1))
}

ends() { # STATUS WORDS-OF-THE-MESSAGE ARGUMENT...
    expected=$1
    words=$2
    shift 2
    "$suite" "$@" >"$dir/out" 2>"$dir/err" </dev/null
    status=$?
    [ $status = "$expected" ] || fail "$* ended with $status: $(cat "$dir/err")"
    [ -z "$words" ] || grep -q -e "$words" "$dir/err" || fail "$* said: $(cat "$dir/err")"
}
refuses() { # WORDS-OF-THE-MESSAGE ARGUMENT...
    ends 2 "$@"
    [ "$(wc -l <"$dir/err")" = 1 ] || fail "$* printed $(wc -l <"$dir/err") lines of error"
    [ ! -s "$dir/out" ] || fail "$* measured in spite of the error"
}

refuses 'suite: --frobnicate: there is no such option' --frobnicate
refuses 'suite: frobnicate: there is no such option' frobnicate
refuses 'suite: nothing: there is no such group' --group nothing
refuses '--group: its value is missing' --group
refuses '--json: its value is missing' --quick --json
refuses '--json: its value is missing' --json ''
refuses "--json $dir/missing/file: No such file" --json "$dir/missing/file"
refuses "--json $dir: Is a directory" --json "$dir"
ends 0 '' --help
grep -q -e --group "$dir/out" || fail "--help does not name --group"
ends 0 '' --list
cp "$dir/out" "$dir/groups"

# Without valgrind one row is skipped with a reason, and all others are measured.
mkdir "$dir/bin"
path=$PATH
PATH=$dir/bin
export PATH
"$suite" --quick --group accessors >"$dir/out" 2>&1
lacking=$?
PATH=$path
[ $lacking = 0 ] && grep -q 'cpu_data, static *skipped: valgrind is not installed' "$dir/out" ||
    fail "without valgrind: $lacking, $(cat "$dir/out")"

# A quick run of all groups.
ends 0 '' --quick --json "$dir/json"
[ ! -s "$dir/err" ] || fail "a run that went well said: $(cat "$dir/err")"
"$python" - "$dir/json" "$dir/groups" "$runtime" <<'PYTHON' || fail "the lines of JSON"
import json, re, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
groups = [line.split()[0] for line in open(sys.argv[2]) if "only with" not in line]
runtime = sys.argv[3]
first, rows, last = lines[0]["machine"], [line for line in lines[1:-1] if "timeline" not in line], lines[-1]["end"]
assert first["quick"] and first["cores"] > 0 and first["has_gpu"] == (runtime != "none"), first
assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\dZ", first["date"]) and first["commit"], first
assert first["version"] in first["library"] and first["commit"] in first["library"], first
assert len(groups) > 5 and {row["group"] for row in rows} == set(groups), groups
assert last["rows"] == len(rows) and last["failed"] == 0, last
for verdict, count in ("met", "met"), ("missed", "missed"), ("skipped", "skipped"), ("no target", "no_target"):
    assert sum(row["verdict"] == verdict for row in rows) == last[count], (verdict, last)
for row in rows:
    results = {target["result"] for target in row["targets"]}
    if row["verdict"] == "skipped":
        assert row["note"] and results <= {"skipped"} and "ours" not in row, row
    else:
        assert row["ours"]["rounds"] > 0 and row["ours"]["least"] <= row["ours"]["median"] <= row["ours"]["most"], row
        assert row["verdict"] == ("missed" if "missed" in results else "met" if results else "no target"), row
tables = {row["table"] for row in rows}
assert tables >= {"push-n", "pull-n", "pageable-both", "pageable-push", "pageable-pull-call", "pageable-push-latency",
                  "device-again-threads", "pinned-release", "life-threads", "view-time", "view-create", "view-access",
                  "view-release", "view-flat", "view-memory", "push-changed", "beside", "load-tmpfs", "load-cached",
                  "load-direct", "read-tmpfs", "read-cached", "store-tmpfs", "load-memory", "checkpoint", "hold", "hold-use",
                  "sweep", "sweep-written", "layers"}, tables
without_gpu = {row["group"] for row in rows if row["note"] == "no GPU"}
needs_gpu = {"transfers", "allocation", "budget", "life", "overlap"}
if runtime == "none":
    assert all(row["note"] == "no GPU" for row in rows if row["group"] in needs_gpu), "a GPU's rows are not skipped"
else:
    assert not without_gpu & needs_gpu, without_gpu
    assert all(any(row["group"] == g and "limit" in row for row in rows) for g in needs_gpu), "limits are missing"
PYTHON

# A run does not differ from itself.
"$python" "$root/bench/compare.py" "$dir/json" "$dir/json" >"$dir/out" 2>"$dir/err" ||
    fail "compare.py: $(cat "$dir/err")"
grep -q 'rows in both runs: 0 worse, 0 better, 0 of unknown noise differ' "$dir/out" ||
    fail "compare.py: $(cat "$dir/out")"

# The pictures of these rows are XML. Each has a remark that its figures are of little value.
if drawing=$(python_with matplotlib); then
    mkdir "$dir/pictures"
    "$drawing" "$root/bench/plot.py" "$dir/json" "$dir/pictures" >"$dir/out" 2>"$dir/err" ||
        fail "plot.py: $(cat "$dir/err")"
    remark="(quick run)"
    names="scale scale-threads resize-host"
    if [ "$runtime" = emulated ]; then
        remark="(emulated: the figures mean nothing)"
        names="$names allocation-device bandwidth-both life many resize-device scale-trips"
    fi
    for name in $names; do
        grep -q "  $dir/pictures/$name.svg" "$dir/out" || fail "plot.py does not name $name.svg: $(cat "$dir/out")"
        grep -q "$remark" "$dir/pictures/$name.svg" || fail "$name.svg does not say: $remark"
        "$drawing" -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$dir/pictures/$name.svg" ||
            fail "$name.svg is no XML"
    done
    grep -q 'overlap: skipped: too few rows were measured' "$dir/out" || fail "overlap: $(cat "$dir/out")"
else
    echo "skipped: pictures, as there is no matplotlib"
fi

# A missed target makes a strict run fail, and no other run.
ends 0 '' --quick --group scale --json "$dir/json"
"$suite" --quick --strict --group scale --json "$dir/json" >/dev/null 2>&1
status=$?
case $(grep -c '"end".*"missed":0,' "$dir/json") in
1) [ $status = 0 ] || fail "a strict run without missed targets ended with $status" ;;
*) [ $status = 1 ] || fail "a strict run with missed targets ended with $status" ;;
esac

# Failed writes are reported.
if [ -e /dev/full ]; then
    ends 1 'JSON' --quick --group scale --json /dev/full
    "$suite" --list >/dev/full 2>"$dir/err" && fail "a full disk went unnoticed"
    grep -q 'could not be written' "$dir/err" || fail "a full disk: $(cat "$dir/err")"
fi

# A part that fails is reported and counted. With a sanitizer the limit is too low to start at all.
if sh -c 'ulimit -v 60000 && "$0" --list; exit $?' "$suite" >/dev/null 2>&1; then
    (ulimit -v 60000 && "$suite" --quick --group host) >"$dir/out" 2>"$dir/err"
    status=$?
    [ $status = 1 ] && grep -q 'no host memory for 67108864 bytes' "$dir/err" &&
        grep -q 'suite: host: a part of this group failed' "$dir/err" && grep -q 'parts failed' "$dir/out" ||
        fail "without memory: $status, $(cat "$dir/err")"
fi

[ $failures = 0 ]
