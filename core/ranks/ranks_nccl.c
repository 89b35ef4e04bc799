// core/ranks/ranks_nccl.c -- sums and broadcasts between the GPUs of ranks, through NCCL's library.
#include <dlfcn.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/ranks/ranks.h"

// From NCCL 2's nccl.h: an identifier of 128 bytes, passed by value; ncclInt8 is 0,
// ncclFloat32 is 7, ncclSum is 0; results are 0 or an error.
struct nccl_id {
    char bytes[128];
};

enum { NCCL_BYTES = 0, NCCL_FLOATS = 7, NCCL_SUM = 0 };

struct ranks_gpu {
    void *comm;
    void *(*stream)(void);
    const char *(*reason)(int result);
    int (*id)(struct nccl_id *id);
    int (*init)(void **comm, int count, struct nccl_id id, int number);
    int (*group_start)(void);
    int (*group_end)(void);
    int (*all_reduce)(const void *from, void *to, size_t count, int type, int op, void *comm,
                      void *stream);
    int (*reduce)(const void *from, void *to, size_t count, int type, int op, int root, void *comm,
                  void *stream);
    int (*broadcast)(const void *from, void *to, size_t count, int type, int root, void *comm,
                     void *stream);
    int (*destroy)(void *comm), (*abort)(void *comm);
};

static int open_library(struct ranks_gpu *gpu, struct err *err)
{
    // dlsym returns functions as data pointers.
    const struct {
        const char *name;
        void **at;
    } names[] = {
        { "ncclGetErrorString", (void **)&gpu->reason },
        { "ncclGetUniqueId", (void **)&gpu->id },
        { "ncclCommInitRank", (void **)&gpu->init },
        { "ncclGroupStart", (void **)&gpu->group_start },
        { "ncclGroupEnd", (void **)&gpu->group_end },
        { "ncclAllReduce", (void **)&gpu->all_reduce },
        { "ncclReduce", (void **)&gpu->reduce },
        { "ncclBroadcast", (void **)&gpu->broadcast },
        { "ncclCommDestroy", (void **)&gpu->destroy },
        { "ncclCommAbort", (void **)&gpu->abort },
    };
    void *file = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!file) return err_set(err, "cannot load NCCL (%s)", dlerror());
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!(*names[i].at = dlsym(file, names[i].name)))
            return err_set(err, "libnccl.so.2 lacks '%s'", names[i].name);
    return 0;
}

static int check(const struct ranks_gpu *gpu, int result, const char *what, struct err *err)
{
    return result ? err_set(err, "NCCL: %s: %s", what, gpu->reason(result)) : 0;
}

// Returns 0 if no rank has failed; else -1 and the first failed rank's reason.
static int agree(struct ranks *r, int status, struct err *err)
{
    for (int k = 0; k < r->count; k++) {
        struct {
            int status;
            struct err why;
        } theirs = { .status = status };
        if (status < 0) theirs.why = *err;
        ranks_share(r, &theirs, sizeof theirs, k);
        if (theirs.status < 0) return err_set(err, "rank %d: %s", k, theirs.why.text);
    }
    return 0;
}

// Connects the ranks by rank 0's identifier, which MPI broadcasts.
static int connect_ranks(struct ranks *r, struct ranks_gpu *gpu, struct err *err)
{
    struct nccl_id id = { { 0 } };
    int status = 0;
    if (r->number == 0) status = check(gpu, gpu->id(&id), "identifier", err);
    if (agree(r, status, err) < 0) return -1;
    ranks_share(r, &id, sizeof id, 0);
    status = check(gpu, gpu->init(&gpu->comm, r->count, id, r->number), "start", err);
    return agree(r, status, err);
}

int ranks_gpu_open(struct ranks *r, void *(*stream)(void), struct err *err)
{
    struct ranks_gpu *gpu = xcalloc(1, sizeof *gpu);
    gpu->stream = stream;
    int status = open_library(gpu, err);
    stream(); // makes the GPU current for NCCL
    status = agree(r, status, err);
    if (status == 0) status = connect_ranks(r, gpu, err);
    if (status == 0) {
        r->gpu = gpu;
        return 0;
    }
    // Another rank may have failed after this one connected; destroying could wait for it.
    if (gpu->comm) gpu->abort(gpu->comm);
    free(gpu); // as in ranks_gpu_close, the library stays loaded
    return status;
}

void ranks_gpu_open_part(struct ranks *r, struct err *why)
{
    if (r->whole->gpu) ranks_gpu_open(r, r->whole->gpu->stream, why);
}

bool ranks_between_gpus(const struct ranks *r)
{
    return r && r->gpu;
}

int ranks_gpu_begin(struct ranks *r, struct err *err)
{
    ranks_meet(r); // sleeps, and counts as waiting
    return check(r->gpu, r->gpu->group_start(), "group", err);
}

int ranks_gpu_end(struct ranks *r, struct err *err)
{
    return check(r->gpu, r->gpu->group_end(), "group", err);
}

int ranks_gpu_sum_floats(struct ranks *r, float *x, size_t count, int to, struct err *err)
{
    struct ranks_gpu *gpu = r->gpu;
    void *const comm = gpu->comm, *const stream = gpu->stream();
    atomic_fetch_add(&r->whole->bytes, (int64_t)(count * sizeof *x));
    const int result = to < 0 ? gpu->all_reduce(x, x, count, NCCL_FLOATS, NCCL_SUM, comm, stream)
                              : gpu->reduce(x, x, count, NCCL_FLOATS, NCCL_SUM, to, comm, stream);
    return check(gpu, result, "sum", err);
}

int ranks_gpu_share(struct ranks *r, void *data, size_t size, int from, struct err *err)
{
    struct ranks_gpu *gpu = r->gpu;
    atomic_fetch_add(&r->whole->bytes, (int64_t)size);
    return check(gpu, gpu->broadcast(data, data, size, NCCL_BYTES, from, gpu->comm, gpu->stream()),
                 "message", err);
}

void ranks_gpu_close(struct ranks *r)
{
    if (!r->gpu) return;
    r->gpu->destroy(r->gpu->comm);
    free(r->gpu); // does not unload the library, whose threads keep running
    r->gpu = NULL;
}
