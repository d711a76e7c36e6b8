#!/bin/sh
# budget.sh EMULATED: checks the trainer with --budget, on the emulated CUDA runtime: whatever fits on the device, it
# learns the same, to the bit; and a budget that is too small for one layer ends the run with one message.
set -u
train=$1
# shellcheck source=test/bench/trainer.sh
. "$(dirname "$0")/trainer.sh"
write_text 200
export SYNCED_MEM_EMU_LEAKS=1

learn() { # ARGUMENT...
    rm -f "$dir/saved"
    "$train" --quiet --sample 30 --steps 20 --batch 24 --layers 6 --hidden 96 --embed 24 --save "$dir/saved" "$@" \
        "$dir/text" >"$dir/out" 2>"$dir/err" </dev/null
    status=$?
    held_out=$(grep '^held-out loss' "$dir/out")
    sample=$(sed -n '/^sample/,/^transfers/p' "$dir/out" | sed '$d')
}
refuses() { # WORDS ARGUMENT...
    words=$1
    shift
    learn "$@"
    [ "$status" = 2 ] || fail "$* ended with $status"
    [ "$(wc -l <"$dir/err")" = 1 ] || fail "$*: $(cat "$dir/err")"
    grep -q -- "$words" "$dir/err" || fail "$* said: $(cat "$dir/err")"
}
refuses '"-1" is not a whole number' --budget -1
refuses '"1k" is not a whole number' --budget 1k
refuses 'needs a GPU' --budget 1000000 --device cpu
refuses 'works without --overlap' --budget 1000000 --overlap 3
refuses 'works without --overlap and --profile' --budget 1000000 --profile "$dir/profile"

learn
[ "$status" = 0 ] || fail "without a budget: $(cat "$dir/err")"
grep -q '^budget' "$dir/out" && fail "without a budget: $(grep '^budget' "$dir/out")"
wanted=$held_out
wanted_sample=$sample
mv "$dir/saved" "$dir/wanted"

# The budgets grow from one that fits nothing. A run that succeeds has learned the same. Once one has, all larger ones
# do.
budget=1000
fitting=0
evicting=0
refused=0
while [ $fitting = 0 ] && [ $budget -lt 100000000 ]; do
    export SYNCED_MEM_EMU_SEED=$((budget % 7))
    learn --budget $budget
    if [ "$status" = 1 ]; then
        [ $evicting = 0 ] || fail "$budget bytes are too little, but fewer were enough: $(cat "$dir/err")"
        [ "$(wc -l <"$dir/err")" = 1 ] || fail "$budget bytes: $(cat "$dir/err")"
        grep -q "budget" "$dir/err" || fail "$budget bytes: $(cat "$dir/err")"
        refused=$((refused + 1))
        budget=$((budget + budget / 2))
        continue
    fi
    [ "$status" = 0 ] || fail "$budget bytes: status $status: $(cat "$dir/err")"
    [ "$held_out" = "$wanted" ] || fail "$budget bytes: $held_out instead of $wanted"
    [ "$sample" = "$wanted_sample" ] || fail "$budget bytes: another sample"
    cmp -s "$dir/saved" "$dir/wanted" || fail "$budget bytes: other parameters"
    grep '^budget' "$dir/out"
    if grep -q '^budget .* 0 evictions' "$dir/out"; then fitting=1; else evicting=$((evicting + 1)); fi
    budget=$((budget + budget / 8))
done
echo "$refused budgets are refused, $evicting evict, $fitting needs no eviction"
[ $refused -gt 0 ] || fail "no budget is too small"
[ $evicting -gt 3 ] || fail "only $evicting budgets evict"
[ $fitting = 1 ] || fail "no budget is enough for all"

# A checkpoint of a run with a budget goes on without one, and the other way round.
unset SYNCED_MEM_EMU_SEED
budget=$((budget / 2))
learn --budget $budget --stop 10
mv "$dir/saved" "$dir/half"
learn --load "$dir/half"
cmp -s "$dir/saved" "$dir/wanted" || fail "going on without a budget: other parameters"
learn --load "$dir/half" --budget $budget
cmp -s "$dir/saved" "$dir/wanted" || fail "going on with a budget: other parameters"
[ $failures = 0 ]
