// tests/nccl_host/nccl.c -- emulates libnccl.so.2 for ranks on one machine with emulated GPUs
// (tests/cuda_host): the functions that core/ranks/ranks_nccl.c calls, with the signatures and
// values of NCCL 2's nccl.h, over shared memory. "GPU memory" is the host's (CUDA_HOST_OPEN=1).
//
//   NCCL_HOST_REPORT=FILE   a line with each rank's counts when its communicator is destroyed
//   NCCL_HOST_FAIL=N        the Nth sum of rank 1 fails; 0: its start; part: its second start
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))

typedef struct {
    char internal[128];
} ncclUniqueId;

enum { OK = 0, SYSTEM_ERROR = 2, INTERNAL_ERROR = 3, INVALID_ARGUMENT = 4, INVALID_USAGE = 5 };
enum { INT8 = 0, FLOAT32 = 7, SUM = 0 };
enum { RANKS_MOST = 16, SLOT = 1 << 16 }; // SLOT: bytes that a rank exchanges at a time

struct shared {
    atomic_int arrived, round;
    char slot[RANKS_MOST][SLOT];
};

struct comm {
    struct shared *shared;
    int count, number;
    long sums, floats, shares, bytes, groups;
};

// The nesting depth of a thread's groups (ncclGroupStart), and the communicator that the outermost
// one has used.
static _Thread_local int depth;
static _Thread_local struct comm *in_group;

static void meet(struct comm *c)
{
    const int round = atomic_load(&c->shared->round);
    if (atomic_fetch_add(&c->shared->arrived, 1) + 1 == c->count) {
        atomic_store(&c->shared->arrived, 0);
        atomic_fetch_add(&c->shared->round, 1);
        return;
    }
    while (atomic_load(&c->shared->round) == round) sched_yield();
}

static void release(struct comm *c)
{
    munmap(c->shared, sizeof *c->shared);
    free(c);
}

PUBLIC const char *ncclGetErrorString(int result);
PUBLIC int ncclGetUniqueId(ncclUniqueId *id);
PUBLIC int ncclCommInitRank(struct comm **comm, int count, ncclUniqueId id, int number);
PUBLIC int ncclCommDestroy(struct comm *c);
PUBLIC int ncclCommAbort(struct comm *c);
PUBLIC int ncclGroupStart(void);
PUBLIC int ncclGroupEnd(void);
PUBLIC int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, struct comm *c,
                         void *stream);
PUBLIC int ncclReduce(const void *from, void *to, size_t count, int type, int op, int root,
                      struct comm *c, void *stream);
PUBLIC int ncclBroadcast(const void *from, void *to, size_t count, int type, int root,
                         struct comm *c, void *stream);

const char *ncclGetErrorString(int result)
{
    static const char *const texts[] = {
        "no error",       "unhandled cuda error", "unhandled system error",
        "internal error", "invalid argument",     "invalid usage"
    };
    return result >= 0 && result <= INVALID_USAGE ? texts[result] : "unknown result code";
}

int ncclGetUniqueId(ncclUniqueId *id)
{
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "/nccl-host-%d", (int)getpid());
    return OK;
}

int ncclCommInitRank(struct comm **comm, int count, ncclUniqueId id, int number)
{
    if (count < 1 || count > RANKS_MOST || number < 0 || number >= count) return INVALID_ARGUMENT;
    const int file = shm_open(id.internal, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, sizeof(struct shared)) < 0) return SYSTEM_ERROR;
    void *map = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (map == MAP_FAILED) return SYSTEM_ERROR;
    struct comm *c = calloc(1, sizeof *c);
    c->shared = map;
    c->count = count;
    c->number = number;
    meet(c);
    if (number == 0) shm_unlink(id.internal);
    static int starts;
    const char *fail = getenv("NCCL_HOST_FAIL");
    if (fail && number == 1 && !strcmp(fail, starts++ ? "part" : "0")) {
        release(c);
        return INTERNAL_ERROR;
    }
    *comm = c;
    return OK;
}

static FILE *report(void)
{
    const char *path = getenv("NCCL_HOST_REPORT");
    return path ? fopen(path, "ae") : NULL;
}

int ncclCommAbort(struct comm *c)
{
    FILE *f = report();
    if (f) {
        fprintf(f, "rank %d of %d: aborted\n", c->number, c->count);
        fclose(f);
    }
    release(c);
    return OK;
}

int ncclCommDestroy(struct comm *c)
{
    FILE *f = report();
    if (f) {
        fprintf(f, "rank %d of %d: %ld groups, %ld sums, %ld floats, %ld messages, %ld bytes\n",
                c->number, c->count, c->groups, c->sums, c->floats, c->shares, c->bytes);
        fclose(f);
    }
    release(c);
    return OK;
}

int ncclGroupStart(void)
{
    depth++;
    return OK;
}

int ncclGroupEnd(void)
{
    if (depth < 1) return INVALID_USAGE;
    if (--depth == 0 && in_group) {
        in_group->groups++;
        in_group = NULL;
    }
    return OK;
}

static int note(struct comm *c, const void *stream)
{
    if (!c || !stream) return INVALID_ARGUMENT;
    in_group = depth ? c : NULL;
    return OK;
}

// Sums over the ranks; only rank `root` gets the result, or all ranks if it is -1.
static int sum_up(const void *from, void *to, size_t count, int type, int op, int root,
                  struct comm *c, const void *stream)
{
    const char *fail = getenv("NCCL_HOST_FAIL");
    if (type != FLOAT32 || op != SUM || note(c, stream) != OK) return INVALID_ARGUMENT;
    if (fail && c->number == 1 && c->sums + 1 == strtol(fail, NULL, 10)) return INTERNAL_ERROR;
    const float *mine = from;
    float *sum = to;
    for (size_t at = 0; at < count; at += SLOT / sizeof(float)) {
        const size_t left = count - at,
                     n = left < SLOT / sizeof(float) ? left : SLOT / sizeof(float);
        memcpy(c->shared->slot[c->number], mine + at, n * sizeof(float));
        meet(c);
        for (size_t i = 0; i < n; i++) {
            float s = 0;
            for (int k = 0; k < c->count; k++) s += ((const float *)(void *)c->shared->slot[k])[i];
            if (root < 0 || root == c->number) sum[at + i] = s;
        }
        meet(c);
    }
    c->sums++;
    c->floats += (long)count;
    return OK;
}

int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, struct comm *c,
                  void *stream)
{
    return sum_up(from, to, count, type, op, -1, c, stream);
}

int ncclReduce(const void *from, void *to, size_t count, int type, int op, int root, struct comm *c,
               void *stream)
{
    if (root < 0 || !c || root >= c->count) return INVALID_ARGUMENT;
    return sum_up(from, to, count, type, op, root, c, stream);
}

int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, struct comm *c,
                  void *stream)
{
    if (type != INT8 || note(c, stream) != OK || root < 0 || root >= c->count)
        return INVALID_ARGUMENT;
    for (size_t at = 0; at < count; at += SLOT) {
        const size_t n = count - at < SLOT ? count - at : SLOT;
        if (c->number == root) memcpy(c->shared->slot[root], (const char *)from + at, n);
        meet(c);
        if (c->number != root) memcpy((char *)to + at, c->shared->slot[root], n);
        meet(c);
    }
    c->shares++;
    c->bytes += (long)count;
    return OK;
}
