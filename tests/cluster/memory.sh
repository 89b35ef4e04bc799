# memory.sh -- layers split over two ranks (job.split layers), each in a control group whose memory limit is below
# the model's size, give the scores and answers of one rank without limit. Root only: `make test-cluster`.
. tests/commands/common.bash
limit=900000000
groups=/sys/fs/cgroup most=memory.max peak=memory.peak # version 2
[ -d /sys/fs/cgroup/memory ] && groups=/sys/fs/cgroup/memory most=memory.limit_in_bytes peak=memory.max_usage_in_bytes
leave() {
    local n
    for n in $(seq 100); do # a group can be removed when its last process has ended
        rmdir "$groups/vlmsh-$$-"[01] 2>/dev/null
        compgen -G "$groups/vlmsh-$$-*" >/dev/null || break
        sleep 0.1
    done
    rm -rf "$work"
}
trap leave EXIT
trap 'exit 130' INT TERM
for k in 0 1; do
    { mkdir "$groups/vlmsh-$$-$k" && echo $limit >"$groups/vlmsh-$$-$k/$most"; } ||
        { echo "no control group with a memory limit can be made: root only"; exit 1; }
done

vlmsh new --like qwen3-0.6b "$work/model" >"$work/out" || fail "$(tail -1 "$work/out")"
size=$(stat -c %s "$work/model/model.safetensors")
[ "$size" -gt $limit ] || fail "a model of $size bytes needs no limit"
for i in $(seq 0 5); do
    printf '{"id": "%d", "question": "What is %d?", "answer": "It is %d."}\n' $i $i $((i * i))
done >"$work/data.jsonl"
evaluate() { # RANKS
    printf '%s\n' "/load $work/model" '/set job.nice 0' '/set job.split layers' '/set sample.max_tokens 4' '/set sample.ignore_eos on' \
        "/eval $work/data.jsonl --metric cider --ranks $1" >"$work/script"
    vlmsh -f "$work/script" >"$work/out" 2>&1 || fail "$1: $(tail -1 "$work/out")"
    vlmsh -c /wait -c "/eval show --csv $work/scores$1.csv" >"$work/out" 2>&1 || fail "$1: $(tail -1 "$work/out")"
}
evaluate 1
sync

export VLMSH_WORK=$work VLMSH_MPIRUN=$(command -v mpirun) VLMSH_PROGRAM=$(realpath "$VLMSH") VLMSH_GROUP=$groups/vlmsh-$$
mkdir "$work/bin"
cat >"$work/bin/mpirun" <<'SH'
#!/bin/bash
set -- "${@/#$VLMSH_PROGRAM/$VLMSH_WORK/rank}"
exec "$VLMSH_MPIRUN" "$@"
SH
# A page counts for the group that reads it first, so the cache must not hold pages from the shell's /load.
cat >"$work/rank" <<'SH'
#!/bin/bash
python3 -c 'import os, sys; os.posix_fadvise(os.open(sys.argv[1], os.O_RDONLY), 0, 0, os.POSIX_FADV_DONTNEED)' "$VLMSH_WORK/model/model.safetensors"
echo $$ >"$VLMSH_GROUP-$OMPI_COMM_WORLD_RANK/cgroup.procs" && exec "$VLMSH_PROGRAM" "$@"
SH
chmod +x "$work/bin/mpirun" "$work/rank"
PATH=$work/bin:$PATH evaluate 2
cmp "$work/scores1.csv" "$work/scores2.csv" || fail "answers differ in two ranks with limits"
for k in 0 1; do
    mb=$(($(cat "$groups/vlmsh-$$-$k/$peak" || echo 0) / 1000000))
    [ $mb -gt 100 ] || fail "rank $k was not in its group"
    echo "rank $k: at most $mb MB of memory, limit $((limit / 1000000)) MB, model $((size / 1000000)) MB"
done
finish
