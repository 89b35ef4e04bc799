# disk.sh -- a training run in ranks writes to a separate disk (a tmpfs), which is first full, then
# slow. Root only: `make test-cluster`.
. tests/commands/common.bash
. tests/processes.bash
disk=$work/disk
mkdir "$disk"
mount -t tmpfs -o size=24m tmpfs "$disk" || { echo "no tmpfs can be mounted: root only"; exit 1; }
trap 'umount -l "$disk"; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
for i in $(seq 0 19); do
    printf '{"id": "%d", "question": "What is %d?", "answer": "It is %d."}\n' $i $i $((i * i))
done >"$work/data.jsonl"
lines=("/load $PWD/$llava" '/set job.nice 0' '/set job.threads 1' '/set compute.matmul f32' '/set train.method all'
    '/set train.batch 2' '/set train.accumulate 6' '/set train.lr 1e-3' '/set train.exact_sum on' '/set train.steps 120'
    '/set train.save_every 2' '/set train.keep 1')
state=checkpoint-120/state.safetensors
tell() { # OUT LINE...
    printf '%s\n' "${lines[@]}" "${@:2}" "/train $work/data.jsonl $1 --ranks 2" >"$work/script"
    vlmsh -f "$work/script" >"$work/out" 2>&1 || fail "$(tail -1 "$work/out")"
    id=$(sed -n 's/^job \([0-9]*\): .*/\1/p' "$work/out")
}
tell "$work/straight"
vlmsh -c "/wait $id" >"$work/out" 2>&1 || fail "$(tail -1 "$work/out")"

# Full after some checkpoints. The job ends within 30 s of the write that failed, and names rank and reason.
tell "$disk/full"
for _ in $(seq 600); do [ -d "$disk/full/checkpoint-4" ] && break; sleep 0.05; done
fill() { dd if=/dev/zero of="$disk/filler" bs=64k 2>/dev/null; }
fill
began=$SECONDS
vlmsh -c "/wait $id" >"$work/out" 2>&1 && fail "no error on a full disk"
took=$((SECONDS - began))
grep -q "failed: rank 0: .*No space left on device" "$work/out" || fail "full: $(tail -1 "$work/out")"
[ $took -le 30 ] || fail "the job took $took s to end"
echo "full: after $took s: $(tail -1 "$work/out")"
find "$disk/full" -name '*.part' | grep . && fail "an unfinished checkpoint is left"
last=$(find "$disk/full" -name 'checkpoint-*' | sed 's/.*-//' | sort -n | tail -1)
[ "$last" -lt 120 ] || fail "the disk had room for all checkpoints"
# On the full disk the job fails again with another number of ranks; with free space it resumes and ends
# with the bits of an undisturbed run.
vlmsh -c "/job $id resume --ranks 4" -c "/wait $id" >"$work/out" 2>&1 && fail "no error without room"
grep -q "failed: rank 0: .*No space left on device" "$work/out" || fail "still full: $(tail -1 "$work/out")"
rm "$disk/filler"
vlmsh -c "/job $id resume --ranks 3" -c "/wait $id" >"$work/out" 2>&1 || fail "with room: $(tail -1 "$work/out")"
grep -q "continuing after step $last" <(vlmsh -c "/job $id log 50") || fail "not from step $last: $(vlmsh -c "/job $id log 9")"
cmp "$work/straight/$state" "$disk/full/$state" || fail "weights differ after a full disk"
rm -r "$disk/full"

# The job's own folder on the full disk: the ranks cannot write their heartbeats.
mkdir "$disk/jobs"
tell "$work/beats" "/set job.folder $disk/jobs" '/set train.steps 4000'
for _ in $(seq 600); do [ -d "$work/beats/checkpoint-4" ] && break; sleep 0.05; done
fill
size() { stat -c %s "$disk"/jobs/*/reports.jsonl; }
until before=$(size); sleep 2; [ "$before" = "$(size)" ]; do :; done # the file grows until its last block is full
began=$SECONDS
timeout 60 bash -c '"$0" --db "$1" -c "/wait $2"' "$VLMSH" "$work/vlmsh.db" "$id" >"$work/out" 2>&1
took=$((SECONDS - began))
echo "the job's folder: after $took s: $(tail -1 "$work/out")"
grep -q "failed: rank 0.*No space left on device" "$work/out" || fail "full folder: $(tail -1 "$work/out")"
[ $took -le 30 ] || fail "the job took $took s to end"
rm "$disk/filler"
vlmsh -c "/job $id resume --ranks 3" >"$work/out" 2>&1 || fail "folder with room: $(tail -1 "$work/out")"
sleep 5
vlmsh -c "/job $id pause" -c "/wait $id" >"$work/out" 2>&1
grep -q paused "$work/out" || fail "the job did not resume: $(tail -1 "$work/out")"

# A result that takes long to write: the other ranks, which wait for rank 0, still send heartbeats.
cat >"$work/slow.c" <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int rename(const char *from, const char *to)
{
    int (*next)(const char *, const char *) = (int (*)(const char *, const char *))dlsym(RTLD_NEXT, "rename");
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    static int once;
    if (!once && rank && *rank == '0' && strstr(to, "/slow/out/result")) {
        once = 1;
        sleep(35);
    }
    return next(from, to);
}
C
cc -shared -fPIC -o "$work/slow.so" "$work/slow.c" -ldl || fail "no compiler"
mkdir "$work/slow"
began=$SECONDS
export LD_PRELOAD=$work/slow.so
tell "$work/slow/out" '/set train.steps 2' '/set train.method layernorm'
unset LD_PRELOAD
vlmsh -c "/wait $id" >"$work/out" 2>&1 || fail "a slow disk: $(tail -1 "$work/out")"
[ $((SECONDS - began)) -ge 35 ] || fail "the disk was not slow"
echo "a slow result: after $((SECONDS - began)) s: $(tail -1 "$work/out")"
finish
