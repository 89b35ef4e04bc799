# slurm.sh -- jobs through a real Slurm (Debian: slurm-wlm, munge) on this machine: submitted, followed,
# paused, resumed, requeued in the middle, cancelled. Root only: `make test-cluster`.
. tests/commands/common.bash
. tests/processes.bash
for tool in munged slurmctld slurmd sbatch; do
    command -v $tool >/dev/null || [ -x /usr/sbin/$tool ] || { echo "$tool is missing: apt-get install slurm-wlm munge"; exit 1; }
done
export PATH=$PATH:/usr/sbin SLURM_CONF=$work/slurm.conf
trap 'scancel --user=root 2>/dev/null; kill $(cat "$work"/*.pid) 2>/dev/null; sleep 1; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
host=$(hostname -s)
mkdir -p "$work/munge" "$work/state" "$work/spool" "$work/shared"
chmod 755 "$work"
chown munge: "$work/munge"
head -c 1024 /dev/urandom >"$work/munge/key"
chown munge: "$work/munge/key"
chmod 400 "$work/munge/key"
runuser -u munge -- /usr/sbin/munged --key-file="$work/munge/key" --socket="$work/munge/socket" --force \
    --pid-file="$work/munge/pid" --log-file="$work/munge/log" --seed-file="$work/munge/seed" || exit 1
ln -s munge/pid "$work/munged.pid"
cat >"$SLURM_CONF" <<END
ClusterName=test
SlurmctldHost=$host
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge/socket
CryptoType=crypto/munge
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd.log
SlurmctldPort=$((20000 + $$ % 10000 * 2))
SlurmdPort=$((20001 + $$ % 10000 * 2))
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
KillWait=5
SchedulerParameters=batch_sched_delay=0
NodeName=$host CPUs=4 RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
END
sed -i 's/^NodeName=.*/& /' "$SLURM_CONF"
echo 'SlurmdParameters=config_overrides' >>"$SLURM_CONF" # allows more CPUs than the machine has
slurmctld -c || exit 1
slurmd -c || exit 1
for _ in $(seq 100); do sinfo -h -o %T 2>/dev/null | grep -q idle && break; sleep 0.2; done
sinfo -h -o %T | grep -q idle || { fail "no node: $(tail -5 "$work"/slurm*.log)"; finish; }

for i in $(seq 0 9); do
    printf '{"id": "%d", "question": "What is %d?", "answer": "It is %d."}\n' $i $i $((i * i))
done >"$work/data.jsonl"
common=("/load $PWD/$llava" '/set job.nice 0' "/set job.folder $work/shared" '/set compute.matmul f32' '/set train.method layernorm'
    '/set train.batch 2' '/set train.accumulate 2' '/set train.steps 6' '/set train.exact_sum on' '/set sample.max_tokens 3')
long=("${common[@]}" '/set train.steps 3000' '/set train.save_every 2')
state() { vlmsh -c "/job $1" | sed -n 's/^state *//p'; }
until_state() { # ID STATE
    local n
    for n in $(seq 600); do
        [ "$(state "$1")" = "$2" ] && return
        sleep 0.2
    done
    fail "job $1 is $(state "$1"), not $2: $(vlmsh -c "/job $1"; vlmsh -c "/job $1 log 3"; squeue; cat "$work"/shared/*/output)"
}

# A training run in two ranks through Slurm gives the same bits as one started here.
printf '%s\n' "${common[@]}" "/train $work/data.jsonl $work/here" /wait >"$work/script"
vlmsh -f "$work/script" >"$work/out" 2>&1 || fail "$(tail -1 "$work/out")"
printf '%s\n' "${common[@]}" "/train $work/data.jsonl $work/there --ranks 2 --submit" /wait >"$work/script"
timeout 120 bash -c '"$0" --db "$1" -f "$2"' "$VLMSH" "$work/vlmsh.db" "$work/script" >"$work/out" 2>&1 ||
    fail "$(tail -1 "$work/out"); $(cat "$work"/shared/*/output)"
cmp "$work/here/adapter_model.safetensors" "$work/there/adapter_model.safetensors" || fail "weights differ through Slurm"
echo "$(tail -1 "$work/out")"

# So do jobs of other kinds.
both() { # LINE: names OUT; runs it here and through Slurm
    local where
    for where in here there; do
        printf '%s\n' "${common[@]}" '/set train.validation 0.2' "${1//OUT/$work/$where}$([ $where = here ] || echo ' --ranks 2 --submit')" /wait >"$work/script"
        timeout 120 bash -c '"$0" --db "$1" -f "$2"' "$VLMSH" "$work/vlmsh.db" "$work/script" >"$work/out" 2>&1 ||
            fail "$1: $(tail -1 "$work/out")"
        last=$(sed -n 's/^job \([0-9]*\): .*/\1/p' "$work/out")
        vlmsh -c "/eval show $last --csv $work/scores-$where" >"$work/out" 2>&1
    done
}
rm -r "$work/here" "$work/there"
both "/eval $work/data.jsonl --metric loss"
cmp "$work/scores-here" "$work/scores-there" || fail "scores differ through Slurm"
both "/calibrate norms $work/data.jsonl OUT.norms"
cmp "$work/here.norms" "$work/there.norms" || fail "norms differ through Slurm"
both "/ask --data $work/data.jsonl --out OUT.answers --job"
cmp <(jq -c 'del(.vision_s, .prefill_s, .decode_s)' "$work/here.answers") <(jq -c 'del(.vision_s, .prefill_s, .decode_s)' "$work/there.answers") ||
    fail "answers differ through Slurm"
both "/sweep train.lr 1e-3,1e-4 $work/data.jsonl OUT"
for rate in "$work"/here/*/adapter_model.safetensors; do
    cmp "$rate" "${rate/#$work\/here/$work/there}" || fail "the sweep differs through Slurm"
done
[ -e "$rate" ] || fail "no sweep: $(ls "$work/here")"

# Pauses, resumes, requeues (as after a preemption) and cancels a job.
printf '%s\n' "${long[@]}" "/train $work/data.jsonl $work/long --ranks 2 --submit" >"$work/script"
vlmsh -f "$work/script" >"$work/out" 2>&1 || fail "$(tail -1 "$work/out")"
long_id=$(sed -n 's/^job \([0-9]*\): .*/\1/p' "$work/out")
until_state $long_id running
for _ in $(seq 300); do compgen -G "$work/long/checkpoint-*" >/dev/null && break; sleep 0.2; done
vlmsh -c "/job $long_id pause" >"$work/out" 2>&1
until_state $long_id paused
for _ in $(seq 50); do vlmsh -c "/job $long_id resume --ranks 3" >"$work/out" 2>&1 && break; sleep 1; done
until_state $long_id running
sleep 4
number=$(vlmsh -c "/job $long_id" | sed -n 's/.*Slurm job \([0-9]*\):.*/\1/p')
scontrol requeue "$number" || fail "scontrol cannot requeue the job"
for _ in $(seq 100); do [ "$(state $long_id)" = waiting ] && break; sleep 0.2; done
echo "requeued: $(vlmsh -c "/job $long_id" | sed -n 's/^why *//p')"
# Slurm would start the requeued job after two minutes; this starts it now. Within a second of revoking
# the job's credential, slurmd would refuse ("Job credential revoked").
sleep 3
scontrol update JobId="$number" StartTime=now || fail "scontrol cannot start the job"
until_state $long_id running
vlmsh -c "/job $long_id log 100" >"$work/out"
[ "$(grep -c continuing "$work/out")" -ge 2 ] || fail "the job did not resume: $(cat "$work/out")"
vlmsh -c "/job $long_id cancel" >"$work/out" 2>&1
until_state $long_id cancelled
for _ in $(seq 100); do squeue -h | grep -q . || break; sleep 0.2; done
squeue -h | grep . && fail "Slurm still has it"

# A job near its time limit pauses, and resumes when submitted again.
printf '%s\n' "${long[@]}" '/set job.time 2' "/train $work/data.jsonl $work/limited --ranks 2 --submit" >"$work/script"
vlmsh -f "$work/script" >"$work/out" 2>&1 || fail "$(tail -1 "$work/out")"
until_state $((long_id + 1)) running
until_state $((long_id + 1)) paused
for _ in $(seq 50); do vlmsh -c "/job $((long_id + 1)) submit" >"$work/out" 2>&1 && break; sleep 1; done # Slurm sees the end a little later
until_state $((long_id + 1)) running
vlmsh -c "/job $((long_id + 1)) cancel" >"$work/out" 2>&1
until_state $((long_id + 1)) cancelled

# A held job is cancelled before it starts.
printf '%s\n' "${long[@]}" '/set job.sbatch --hold' "/train $work/data.jsonl $work/held --submit" >"$work/script"
vlmsh -f "$work/script" >"$work/out" 2>&1 || fail "$(tail -1 "$work/out")"
until_state $((long_id + 2)) waiting
vlmsh -c "/job $((long_id + 2))" | grep -q 'PENDING: JobHeldUser' || fail "no reason: $(vlmsh -c "/job $((long_id + 2))")"
vlmsh -c "/job $((long_id + 2)) cancel" >"$work/out" 2>&1
until_state $((long_id + 2)) cancelled
for _ in $(seq 100); do squeue -h | grep -q . || break; sleep 0.2; done
squeue -h | grep . && fail "Slurm still has it"
finish
