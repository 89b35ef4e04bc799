# kills.sh -- a training run on two hosts. At random moments, a random rank is killed or stopped, or
# a host leaves the network. Each time the job must end within 30 s with a message that names the
# rank and the reason, its checkpoint must be whole, and the job must resume with a random number
# of ranks (2 to 4). In the end the weights must equal those of an undisturbed run, bit for bit.
# Root only: `make test-cluster`. KILLS sets the number of faults (50).
. tests/commands/common.bash
. tests/processes.bash
. tests/cluster/hosts.bash
leave() {
    local p
    for p in $(running "job run 1 --db $work/") $(running "job run 2 --db $work/"); do kill "$p" 2>/dev/null; done
    for p in $(ranks_now); do kill -9 "$p" 2>/dev/null; done
    hosts_down
    rm -rf "$work"
}
trap leave EXIT
trap 'exit 130' INT TERM
hosts_up
here() { on $va "$VLMSH" --db "$work/vlmsh.db" "$@"; }
for i in $(seq 0 19); do
    printf '{"id": "%d", "question": "What is %d?", "answer": "It is %d."}\n' $i $i $((i * i))
done >"$work/data.jsonl"
lines=("/load $PWD/$llava" '/set job.nice 0' '/set job.threads 1' '/set compute.matmul f32' '/set train.method all'
    '/set train.batch 2' '/set train.accumulate 6' '/set train.lr 1e-3' '/set train.exact_sum on' '/set train.steps 3000'
    '/set train.save_every 2' '/set train.shard on')
printf '%s\n' "${lines[@]}" "/train $work/data.jsonl $work/run --ranks 2" >"$work/script"
RANDOM=${SEED:-$$}

ranks_now() { running "job rank 1 --folder $work/"; }
rank() { # NUMBER: its process
    local p
    for p in $(ranks_now); do
        tr '\0' '\n' 2>/dev/null <"/proc/$p/environ" | grep -qx "OMPI_COMM_WORLD_RANK=$1" && echo "$p"
    done
}
# Checkpoints are complete from the first byte to the last.
whole() {
    local folder
    for folder in "$work"/run/checkpoint-*; do
        case $folder in *.part | *'*') continue ;; esac # incomplete: nothing reads it
        python3 - "$folder/state.safetensors" <<'P' || return 1
import json, os, struct, sys
data = open(sys.argv[1], "rb")
size, = struct.unpack("<Q", data.read(8))
ends = [t["data_offsets"][1] for k, t in json.loads(data.read(size)).items() if k != "__metadata__"]
sys.exit(8 + size + max(ends) != os.path.getsize(sys.argv[1]))
P
    done
}
newest() { # step of the newest checkpoint
    find "$work/run" -name 'checkpoint-*[0-9]' 2>/dev/null | sed 's/.*-//' | sort -n | tail -1
}
# Waits until all ranks run: their processes exist, or they have written their first lines of this run.
begun() { # COUNT processes|lines
    local n k there
    for n in $(seq 600); do
        there=0
        for k in $(seq 0 $(($1 - 1))); do
            if [ "$2" = lines ]; then
                [ "$work/vlmsh.db.jobs/1/rank-$k" -nt "$work/started" ] && there=$((there + 1))
            else
                [ -n "$(rank "$k")" ] && there=$((there + 1))
            fi
        done
        [ $there = "$1" ] && return
        sleep 0.1
    done
    fail "no $1 ranks: $(here -c '/job 1 log 3' 2>&1)"
}

touch "$work/started"
here -f "$work/script" >"$work/out" 2>&1 || fail "$(tail -1 "$work/out")"
declare -A ended
worst=0 count=2 good=0 step=0
for try in $(seq "${KILLS:-50}"); do
    if [ $((RANDOM % 5)) = 0 ]; then
        begun $count processes # before they have connected
    else
        begun $count lines
        sleep "$((RANDOM % 5)).$((RANDOM % 10))"
    fi
    victim=$((RANDOM % count)) pid=
    case $((RANDOM % 10)) in
    0) kind=stopped ;;
    1) kind=unreachable ;;
    *) kind=killed ;;
    esac
    [ $kind = unreachable ] || pid=$(rank $victim)
    [ $kind = unreachable ] || [ -n "$pid" ] || { fail "$try: no rank $victim"; break; }
    case $kind in
    killed) kill -9 "$pid" ;;
    stopped) kill -STOP "$pid" ;;
    unreachable) in_reach off ;;
    esac
    began=$SECONDS
    timeout 60 bash -c 'ip netns exec "$2" "$0" --db "$1" -c "/wait 1"' "$VLMSH" "$work/vlmsh.db" $va >"$work/out" 2>&1
    took=$((SECONDS - began))
    [ $kind = unreachable ] && in_reach on
    message=$(tail -1 "$work/out")
    case $kind in
    killed) want="rank $victim on v[ab]$$ was killed (signal 9)" ;;
    stopped) want="rank $victim on v[ab]$$ has not answered" ;;
    unreachable) want="ranks\? [0-9, ]*\( on $vb\)\? \(is\|are\) out of reach" ;;
    esac
    one=good
    echo "$message" | grep -q "failed: .*$want" || one="message"
    [ "$took" -le 30 ] || one="$took s"
    whole || one="checkpoint"
    before=$step step=$(newest)
    [ "${step:=0}" -ge "$before" ] || one="back from step $before to $step"
    [ "$took" -le "$worst" ] || worst=$took
    ended[$kind]=$((${ended[$kind]:-0} + 1))
    echo "$try: $kind rank $victim of $count: $took s, step $step: $one"
    if [ "$one" = good ]; then good=$((good + 1)); else fail "$try: $kind rank $victim of $count: $one: $message"; fi
    count=$((RANDOM % 3 + 2))
    for _ in $(seq 200); do # ranks on an unreachable host end, too
        [ -z "$(ranks_now)" ] && break
        sleep 0.1
    done
    [ -z "$(ranks_now)" ] || fail "$try: ranks are left"
    touch "$work/started"
    here -c "/job 1 resume --ranks $count" >"$work/out" 2>&1 || fail "$try: $(tail -1 "$work/out")"
done
echo "$good of ${KILLS:-50} ended as they should, the slowest in $worst s:$(for k in "${!ended[@]}"; do printf ' %d %s' "${ended[$k]}" "$k"; done)"
for _ in $(seq 600); do # each fault may have come before the first checkpoint
    compgen -G "$work/run/checkpoint-*[0-9]" >/dev/null && break
    sleep 0.1
done
here -c '/job 1 pause' -c '/wait 1' >"$work/out" 2>&1
grep -q paused "$work/out" || fail "no pause: $(tail -1 "$work/out")"

# An undisturbed run of the same number of steps has the same bits.
last=$(newest)
if [ "${last:-0}" -lt 3000 ]; then
    printf '%s\n' "${lines[@]}" '/set train.keep 3000' "/set train.save_every $last" "/train $work/data.jsonl $work/straight" >"$work/script"
    vlmsh -f "$work/script" >"$work/out" 2>&1 || fail "$(tail -1 "$work/out")"
    for _ in $(seq 6000); do [ -d "$work/straight/checkpoint-$last" ] && break; sleep 0.1; done
    vlmsh -c '/job 2 cancel' -c '/wait 2' >"$work/out" 2>&1
    if cmp "$work/run/checkpoint-$last/state.safetensors" "$work/straight/checkpoint-$last/state.safetensors"; then
        echo "after $last steps the weights are those of an undisturbed run"
    else
        fail "weights differ after $last steps"
    fi
fi
finish
