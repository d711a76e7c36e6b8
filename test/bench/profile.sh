#!/bin/sh
# profile.sh TRAIN EMULATED PYTHON: checks the trainer's --profile with 1 and 2 ranks on the CPU, and with 2 on the
# emulated CUDA runtime: that bench/how_far.py reads its files, and that the figures agree with one another. TRAIN and
# EMULATED are as in ranks.sh.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
train=$1
emulated=$2
python=$3
# shellcheck source=test/bench/trainer.sh
. "$(dirname "$0")/trainer.sh"
write_text 100
settings="--steps 16 --layers 2 --hidden 48 --bucket 4"

measure() { # PROGRAM DEVICE RANKS FILE
    began=$(date +%s)
    # shellcheck disable=SC2086
    timeout 600 mpirun --oversubscribe --bind-to none -n "$3" "$1" $settings --device "$2" --batch $((12 * $3)) \
        --profile "$4" "$dir/text" >"$dir/out" 2>"$dir/err" </dev/null ||
        fail "--profile by $3 ranks: $(cat "$dir/out" "$dir/err")"
    grep -q "^ranks       $3 of 12 windows each; 16 steps a round$" "$dir/out" || fail "$3 ranks: $(cat "$dir/out")"
    echo "$2, $3 ranks: $(($(date +%s) - began)) s"
}
measure "$train" cpu 1 "$dir/one"
measure "$train" cpu 2 "$dir/two"
export SYNCED_MEM_EMU_LEAKS=1
measure "$emulated" gpu 2 "$dir/emulated"

# 2 * 2 + 3 parameters; their gradients follow one another from the scores to the embedding.
"$python" - "$dir/one" "$dir/two" "$dir/emulated" <<'END' || fail "the files do not agree"
import json, sys
one, two, emulated = (json.load(open(path)) for path in sys.argv[1:])
for record in one, two, emulated:
    names = [part["name"] for part in record["backward"]]
    assert names == ["score weight", "score bias", "hidden weight 2", "hidden bias 2", "hidden weight 1",
                     "hidden bias 1", "embedding"], names
    assert [part["name"] for part in record["forward"]] == ["embedding", "hidden 1", "hidden 2", "scores", "loss"]
    assert sum(part["bytes"] for part in record["backward"]) == 4 * record["model"]["parameters"]
    parts = record["forward"] + record["backward"] + [record["optimizer"]]
    assert all(part["ms"]["least"] <= part["ms"]["median"] <= part["ms"]["most"] for part in parts)
    assert all(part["ms"]["least"] >= 0 and part["ms"]["most"] > 0 for part in parts), parts
    assert record["rows"] == 12 and record["bucket_bytes"] == 4096
assert one["ranks"] == 1 and not one["on_gpu"] and "reductions" not in one and "overlapped" not in one
for record in two, emulated:
    assert record["ranks"] == record["local_ranks"] == 2 and record["buckets"] > 1
    assert [size["bytes"] for size in record["reductions"]] == [8 << i for i in range(24)]
    assert all(size["ms"]["least"] > 0 for size in record["reductions"])
    # A size of 64 MiB takes longer than one of 64 KiB.
    assert record["reductions"][-1]["ms"]["least"] > record["reductions"][13]["ms"]["least"]
    assert record["flat"]["bytes"] >= 4 * record["model"]["parameters"] and record["flat"]["ratio"]["least"] > 0
    for kind in "overlapped", "after":
        assert 0 < record[kind]["waited_ms"]["median"] < record[kind]["ms"]["most"], record[kind]
        rate = 24e3 / record[kind]["ms"]["median"]
        assert abs(record[kind]["characters_per_second"] / rate - 1) < 1e-5
assert emulated["on_gpu"] and "NCCL" in emulated["reducer"] and "MPI" in two["reducer"]
END
"$python" "$root/bench/how_far.py" "$dir/one" "$dir/two" "$dir/emulated" >"$dir/out" 2>"$dir/err" ||
    fail "how_far.py: $(cat "$dir/err")"
[ "$(grep -c '^## ' "$dir/out")" = 2 ] || fail "how_far.py: $(cat "$dir/out")"
[ "$(grep -c '^| 1,024 | ' "$dir/out")" = 3 ] || fail "how_far.py: $(cat "$dir/out")"

refuses() { # WORDS ARGUMENT...
    words=$1
    shift
    "$train" "$dir/text" --device cpu "$@" >"$dir/out" 2>"$dir/err"
    status=$?
    [ $status = 2 ] || fail "$* ended with $status"
    [ "$(wc -l <"$dir/err")" = 1 ] && grep -q -- "$words" "$dir/err" || fail "$* said: $(cat "$dir/err")"
    [ -s "$dir/out" ] && fail "$* printed: $(cat "$dir/out")"
}
refuses 'profile: its value is missing' --quiet --profile
refuses 'none/file: No such file' --profile "$dir/none/file"
refuses 'Is a directory' --profile "$dir"
refuses 'works without --overlap, --save and --load' --profile "$dir/file" --save "$dir/saved"
refuses 'works without --overlap, --save and --load' --profile "$dir/file" --load "$dir/saved"
[ -e "$dir/file" ] && fail "a refused --profile made a file"
[ $failures = 0 ]
