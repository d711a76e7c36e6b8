#!/bin/sh
# checkpoints.sh TRAIN EMULATED: checks the checkpoints that the trainer writes beside its steps, on the CPU and on the
# emulated CUDA runtime. Wherever the trainer is killed, the file is the old checkpoint or the new one, and a run that
# goes on from it ends with the same parameters. TRAIN and EMULATED are linked with kill.c.
set -u
# shellcheck source=test/bench/trainer.sh
. "$(dirname "$0")/trainer.sh"
write_text 200
export TRAIN_HURT= TRAIN_HURT_FILE="$dir/hurt"

run() { # ARGUMENT...
    "$program" --quiet --sample 0 --steps 40 --batch 24 --layers 1 --hidden 48 --device $device "$@" "$dir/text" \
        >"$dir/out" 2>"$dir/err" </dev/null
    status=$?
}
works() { # WHAT ARGUMENT...
    what=$1
    shift
    run "$@"
    [ $status = 0 ] || fail "$device: $what: status $status: $(cat "$dir/err")"
}
goes_on() { # WHAT: from the checkpoint that is there, unless all steps were done
    run --load "$dir/kept" --save "$dir/last"
    if grep -q 'all 40 steps are done' "$dir/err"; then
        cp "$dir/kept" "$dir/last"
    elif [ $status != 0 ]; then
        fail "$device: going on after $1: status $status: $(cat "$dir/err")"
    fi
    cmp -s "$dir/last" "$dir/wanted" || fail "$device: going on after $1: other parameters"
}
is_killed() { # CALL NUMBER
    cp "$dir/first" "$dir/kept"
    rm -f "$dir/hurt"
    TRAIN_HURT="kill 0 $1 $2"
    run --load "$dir/kept" --save "$dir/kept" --save-every 15
    TRAIN_HURT=
    [ -e "$dir/hurt" ] || return 1
    [ $status = 137 ] || fail "$device: killed in $1 $2: status $status: $(cat "$dir/err")"
    if cmp -s "$dir/kept" "$dir/first"; then old=$((old + 1)); else new=$((new + 1)); fi
    goes_on "$1 $2"
}

check() { # PROGRAM DEVICE
    program=$1
    device=$2
    works "all steps" --save "$dir/wanted"
    works "each step" --save "$dir/last" --save-every 1
    cmp -s "$dir/last" "$dir/wanted" || fail "$device: checkpoints after each step: other parameters"
    [ -e "$dir/last.partial" ] && fail "$device: saving left last.partial"
    works "ten steps" --stop 10 --save "$dir/first"
    works "fifteen steps" --stop 15 --save "$dir/second"
    is_killed rename 1 && cmp -s "$dir/kept" "$dir/first" || fail "$device: before the rename the file is not the old"
    is_killed save 2 && cmp -s "$dir/kept" "$dir/second" || fail "$device: after the rename the file is not the new"

    # All calls of the system that write, in turn. There are three checkpoints.
    old=0
    new=0
    for call in write save rename; do
        number=1
        while is_killed $call $number; do number=$((number + 1)); done
        [ $number -gt 3 ] || fail "$device: only $((number - 1)) times $call"
    done
    echo "$device: killed in $((old + new)) calls: $old times the old checkpoint, $new times a new one"
    [ $old -gt 0 ] && [ $new -gt 0 ] || fail "$device: $old old and $new new checkpoints"

    # At any other time.
    cp "$dir/first" "$dir/kept"
    for milliseconds in 3 5 8 13 20 30 45 60 80 100 130 170; do
        "$program" --quiet --sample 0 --steps 40 --batch 24 --layers 1 --hidden 48 --device $device --load "$dir/kept" \
            --save "$dir/kept" --save-every 1 "$dir/text" >"$dir/out" 2>"$dir/err" </dev/null &
        killed=$!
        sleep "0.$(printf %03d $milliseconds)"
        kill -KILL $killed 2>/dev/null
        wait $killed 2>/dev/null
        goes_on "a kill after $milliseconds ms"
    done
}

check "$1" cpu

# The file can't grow: the old checkpoint stays, and the run fails. The emulated runtime could not start either.
cp "$dir/first" "$dir/kept"
(
    ulimit -f 8
    trap '' XFSZ
    run --load "$dir/kept" --save "$dir/kept" --save-every 15
    exit $status
)
status=$?
[ $status = 1 ] || fail "no room: status $status"
[ "$(wc -l <"$dir/err")" = 1 ] || fail "no room: $(cat "$dir/err")"
grep -q 'kept.partial: .*File too large' "$dir/err" || fail "no room: $(cat "$dir/err")"
cmp -s "$dir/kept" "$dir/first" || fail "no room: the old checkpoint is gone"
[ -e "$dir/kept.partial" ] && fail "no room: kept.partial is left"
goes_on "too little room"

check "$2" gpu
[ $failures = 0 ]
