#!/bin/sh
# ranks.sh TRAIN EMULATED SANITIZERS: checks the trainer in ranks on the CPU, and its checkpoints: that any number of
# ranks learns the same, that a checkpoint is taken up by another number of ranks, that damaged checkpoints are
# refused, and that the end of one rank ends all of them. TRAIN is the trainer linked with kill.c, EMULATED the same on
# the emulated CUDA runtime with a stand-in for NCCL.
set -u
train=$1
emulated=$2
# shellcheck source=test/bench/trainer.sh
. "$(dirname "$0")/trainer.sh"
write_text 400
settings="--quiet --sample 0 --steps 60 --batch 24 --layers 2 --hidden 48 --bucket 4"

# Each sets status, seconds and the loss; the output is in out and err.
finish() {
    seconds=$(($(date +%s) - began))
    loss=$(sed -n 's/^held-out loss \([0-9.]*\) .*/\1/p' "$dir/out")
}
alone() { # ARGUMENT...
    began=$(date +%s)
    # shellcheck disable=SC2086
    "$train" $settings --device cpu "$@" "$dir/text" >"$dir/out" 2>"$dir/err" </dev/null
    status=$?
    finish
}
program=$train
device=cpu
ranks() { # COUNT ARGUMENT...
    count=$1
    shift
    began=$(date +%s)
    # shellcheck disable=SC2086
    timeout 600 mpirun --oversubscribe --bind-to none -n "$count" "$program" $settings --device $device "$@" \
        "$dir/text" \
        >"$dir/out" 2>"$dir/err" </dev/null
    status=$?
    finish
}

learns() { # WHAT
    [ "$status" = 0 ] || fail "$1 ended with $status: $(cat "$dir/err")"
    awk -v a="$loss" -v b="$wanted" 'BEGIN { exit !(a > 0 && b > 0 && a - b < 1e-4 && b - a < 1e-4) }' ||
        fail "$1: held-out loss $loss instead of $wanted"
    echo "$1: held-out loss $loss, $seconds s"
}
refuses() { # WHAT WORDS
    [ "$status" = 2 ] || fail "$1 ended with $status"
    [ "$(grep -c '^train: ' "$dir/err")" = 1 ] || fail "$1: $(cat "$dir/err")"
    grep '^train: ' "$dir/err" | grep -q -- "$2" || fail "$1 said: $(cat "$dir/err")"
    [ -s "$dir/out" ] && fail "$1 printed: $(cat "$dir/out")"
}

# ---- The same learning ----

alone
wanted=$loss
learns "without ranks"
for count in 1 2 4; do
    ranks "$count"
    learns "$count ranks"
    [ "$(grep -c '^held-out loss' "$dir/out")" = 1 ] || fail "$count ranks print $(cat "$dir/out")"
    if [ "$count" -gt 1 ]; then
        grep -q "^ranks       $count of $((24 / count)) windows each; .*MPI.*, [0-9]* buckets$" "$dir/out" ||
            fail "$count ranks: $(cat "$dir/out")"
        grep -q '^reductions  [0-9.]* % of the time not hidden$' "$dir/out" || fail "$count ranks: $(cat "$dir/out")"
    fi
done
program=$emulated
device=gpu
for count in 1 2 4; do
    export SYNCED_MEM_EMU_SEED="$count" SYNCED_MEM_EMU_LEAKS=1
    ranks "$count"
    learns "$count ranks on the emulated runtime"
done
grep -q "^ranks       4 of 6 windows each; NCCL .*, [0-9]* buckets$" "$dir/out" || fail "4 ranks: $(cat "$dir/out")"
ranks 6
refuses "more ranks than GPUs" 'rank 0 of 6: this machine has 4 GPUs for 6 ranks'
program=$train
device=cpu

ranks 3 --batch 25
refuses "a batch that is no multiple of the ranks" 'rank 0 of 3: --batch 25'
ranks 2 --frobnicate
refuses "a wrong flag" 'rank 0 of 2: .*--frobnicate'

# ---- Checkpoints ----

ranks 2 --stop 30 --save "$dir/saved"
[ $status = 0 ] || fail "saving ended with $status: $(cat "$dir/err")"
[ -e "$dir/saved.partial" ] && fail "saving left saved.partial"
alone --load "$dir/saved"
learns "1 rank from the checkpoint of 2"
ranks 3 --load "$dir/saved"
learns "3 ranks from the checkpoint of 2"
program=$emulated
device=gpu
ranks 2 --load "$dir/saved"
learns "2 ranks on the emulated runtime from that checkpoint"
ranks 3 --load "$dir/saved" --stop 40 --save "$dir/emulated"
program=$train
device=cpu
alone --load "$dir/emulated"
learns "1 rank from the checkpoint of 3 on the emulated runtime"
alone --load "$dir/saved" --stop 50 --save-every 20 --save "$dir/periodic"
cmp -s "$dir/periodic" "$dir/saved" && fail "the later checkpoint equals the earlier one"
alone --load "$dir/periodic"
learns "1 rank from its own checkpoint"

size=$(wc -c <"$dir/saved")
flip() { # OFFSET: copies the checkpoint and changes a bit
    cp "$dir/saved" "$dir/damaged"
    byte=$(od -An -tu1 -j "$1" -N 1 "$dir/saved" | tr -d ' ')
    # shellcheck disable=SC2059
    printf "\\$(printf %o $((byte ^ 4)))" | dd of="$dir/damaged" bs=1 seek="$1" conv=notrunc 2>/dev/null
}
refuses_file() { # WHAT WORDS ARGUMENT...
    what=$1
    words=$2
    shift 2
    alone --load "$@"
    refuses "$what" "$words"
}
: >"$dir/damaged"
refuses_file "an empty file" 'cut short' "$dir/damaged"
head -c 50 "$dir/saved" >"$dir/damaged"
refuses_file "a file cut in the header" 'cut short' "$dir/damaged"
for left in 1000 $((size - 1)); do
    head -c "$left" "$dir/saved" >"$dir/damaged"
    refuses_file "a file cut to $left bytes" "cut short: $left bytes instead of $size" "$dir/damaged"
done
for offset in 30 70 100 $((size / 2)) $((size - 3)); do
    flip "$offset"
    refuses_file "a file with another bit at $offset" 'damaged' "$dir/damaged"
done
flip 2
refuses_file "a file that begins otherwise" 'not a checkpoint' "$dir/damaged"
cp "$dir/saved" "$dir/damaged"
echo more >>"$dir/damaged"
refuses_file "a longer file" 'damaged' "$dir/damaged"
refuses_file "the text" 'not a checkpoint' "$dir/text"
refuses_file "no file" 'No such file' "$dir/none"
refuses_file "a folder" 'not a regular file' "$dir"
refuses_file "another model" 'of another model' "$dir/saved" --hidden 32
refuses_file "all steps done" 'all 30 steps are done' "$dir/saved" --steps 30
tr e E <"$dir/text" >"$dir/other"
mv "$dir/text" "$dir/first"
mv "$dir/other" "$dir/text"
refuses_file "another text" 'other characters' "$dir/saved"
mv "$dir/first" "$dir/text"
flip 100
ranks 2 --load "$dir/damaged"
refuses "a damaged file, by 2 ranks" 'rank 0 of 2: .*damaged'
alone --save "$dir/none/saved"
refuses "saving to no folder" 'No such file'
alone --save "$dir"
refuses "saving over a folder" 'not a regular file'

# ---- Faults ----

# Open MPI's launcher sometimes loses an abort, and says so. The rank that aborts then ends by its own alarm, which the
# launcher reports after the rank's message.
forget_lost_abort() {
    grep -q 'ORTE_ERROR_LOG: Data unpack would read past end of buffer' "$dir/err" || return 0
    grep -q '^train: ' "$dir/err" || return 0
    sed '/^mpirun noticed .* exited on signal 14 /d' "$dir/err" >"$dir/err.rest"
    mv "$dir/err.rest" "$dir/err"
}
ends() { # WHAT WORDS: all ranks must have ended soon, with one message
    case $status in 0 | 124) fail "$1 ended with $status" ;; esac
    forget_lost_abort
    hurt=$(stat -c %Y "$dir/hurt" 2>/dev/null || echo 0)
    rm -f "$dir/hurt"
    seconds=$((began + seconds - hurt))
    [ "$seconds" -lt 60 ] || fail "$1 took $seconds s"
    [ "$(grep -c -e '^train: ' -e 'mpirun noticed' "$dir/err")" = 1 ] || fail "$1: $(cat "$dir/err")"
    grep -q -- "$2" "$dir/err" || fail "$1 said: $(cat "$dir/err")"
    # The folder is part of the command line of each rank.
    if pgrep -f -- "train_.*$dir/text" >"$dir/left"; then fail "$1 left processes: $(cat "$dir/left")"; fi
    echo "$1: $seconds s: $(grep -e '^train: ' -e 'mpirun noticed' "$dir/err")"
}
export TRAIN_HURT TRAIN_HURT_FILE="$dir/hurt"
TRAIN_HURT="kill 1 start 1"
ranks 3
ends "a rank killed at the start" 'process rank 1 .* signal 9'
TRAIN_HURT="kill 2 reduction 17"
ranks 3 --steps 100000
ends "a rank killed in a step" 'process rank 2 .* signal 9'
cp "$dir/saved" "$dir/kept"
TRAIN_HURT="kill 0 save 1"
ranks 2 --load "$dir/kept" --save "$dir/kept"
ends "a rank killed while saving" 'process rank 0 .* signal 9'
cmp -s "$dir/saved" "$dir/kept" || fail "the checkpoint was not kept"
TRAIN_HURT=
ranks 2 --load "$dir/kept" --save "$dir/kept"
learns "2 ranks from the checkpoint that was kept"
# AddressSanitizer ends the program itself.
case ${3-} in
*address*) ;;
*)
    TRAIN_HURT="starve 1 reduction 1"
    ranks 2 --embed 512 --batch 512
    ends "a rank out of memory" 'train: rank 1 of 2: .*memory'
    ;;
esac

program=$emulated
device=gpu
TRAIN_HURT="lose 1 sum 30"
ranks 2 --steps 100000
ends "a rank that lost its device" 'train: rank 1 of 2: .*uncorrectable ECC error'
TRAIN_HURT="kill 1 sum 30"
ranks 2 --steps 100000
ends "a rank killed on the emulated runtime" 'process rank 1 .* signal 9'

# The launcher can be killed too.
TRAIN_HURT=
# shellcheck disable=SC2086
mpirun --oversubscribe --bind-to none -n 2 "$train" ${settings#--quiet} --device cpu --steps 1000000 "$dir/text" \
    >"$dir/out" 2>"$dir/err" </dev/null &
launcher=$!
until grep -q '^step ' "$dir/err" || ! kill -0 $launcher 2>/dev/null; do sleep 0.1; done # the ranks learn
kill -KILL $launcher
wait $launcher 2>/dev/null
began=$(date +%s)
while pgrep -f -- "$train .*$dir/text" >/dev/null && [ $(($(date +%s) - began)) -lt 60 ]; do sleep 0.2; done
if pgrep -f -- "$train .*$dir/text" >"$dir/left"; then fail "ranks outlive the launcher: $(cat "$dir/left")"; fi
[ $failures = 0 ]
