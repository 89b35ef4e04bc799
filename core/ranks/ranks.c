// core/ranks/ranks.c -- sums and messages between ranks, through Open MPI's library.
#include "core/ranks/ranks.h"

#include <dlfcn.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/mem.h"

// From Open MPI's mpi.h: handles are pointers to objects that the library exports; MPI_IN_PLACE is
// 1, MPI_STATUS_IGNORE is NULL, MPI_THREAD_SERIALIZED is 2. After an error MPI ends all ranks, so
// results of calls need no check.
typedef void *handle;

static struct {
    handle world, of_floats, of_doubles, of_bytes, sum;
    int (*init)(int *argc, char ***argv, int wanted, int *provided);
    int (*rank)(handle world, int *rank);
    int (*size)(handle world, int *size);
    int (*barrier)(handle world, handle *request);
    int (*send)(const void *data, int count, handle type, int to, int tag, handle world,
                handle *request);
    int (*receive)(void *data, int count, handle type, int from, int tag, handle world,
                   handle *request);
    int (*test)(handle *request, int *done, void *status);
    int (*all_reduce)(const void *from, void *to, int count, handle type, handle op, handle world);
    int (*reduce)(const void *from, void *into, int count, handle type, handle op, int to,
                  handle world);
    int (*broadcast)(void *data, int count, handle type, int from, handle world);
    int (*split)(handle world, int part, int order, handle *group);
    int (*group_free)(handle *group);
    int (*finalize)(void);
    int (*abort)(handle world, int status);
} mpi;

// dlsym returns functions as data pointers.
static const struct {
    const char *name;
    void **at;
} names[] = {
    { "ompi_mpi_comm_world", &mpi.world },
    { "ompi_mpi_float", &mpi.of_floats },
    { "ompi_mpi_double", &mpi.of_doubles },
    { "ompi_mpi_byte", &mpi.of_bytes },
    { "ompi_mpi_op_sum", &mpi.sum },
    { "MPI_Init_thread", (void **)&mpi.init },
    { "MPI_Comm_rank", (void **)&mpi.rank },
    { "MPI_Comm_size", (void **)&mpi.size },
    { "MPI_Ibarrier", (void **)&mpi.barrier },
    { "MPI_Isend", (void **)&mpi.send },
    { "MPI_Irecv", (void **)&mpi.receive },
    { "MPI_Test", (void **)&mpi.test },
    { "MPI_Allreduce", (void **)&mpi.all_reduce },
    { "MPI_Reduce", (void **)&mpi.reduce },
    { "MPI_Bcast", (void **)&mpi.broadcast },
    { "MPI_Comm_split", (void **)&mpi.split },
    { "MPI_Comm_free", (void **)&mpi.group_free },
    { "MPI_Finalize", (void **)&mpi.finalize },
    { "MPI_Abort", (void **)&mpi.abort },
};

// Loads the library globally, because its plugins look up its symbols in the program.
static int open_library(struct err *err)
{
    void *file = dlopen("libmpi.so.40", RTLD_NOW | RTLD_GLOBAL);
    if (!file)
        return err_set(err,
                       "several ranks need Open MPI (%s): install it (Debian: openmpi-bin), or set "
                       "job.ranks 1",
                       dlerror());
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!(*names[i].at = dlsym(file, names[i].name)))
            return err_set(err, "libmpi.so.40 lacks '%s': several ranks need Open MPI 2 to 5",
                           names[i].name);
    return 0;
}

static int number_of(const char *name, int otherwise)
{
    const char *text = getenv(name);
    const long n = text ? strtol(text, NULL, 10) : 0;
    return n > 0 && n < INT_MAX ? (int)n : otherwise;
}

static struct ranks *new_group(handle comm, struct ranks *whole)
{
    struct ranks *r = xcalloc(1, sizeof *r);
    r->comm = comm;
    r->whole = whole ? whole : r;
    mpi.rank(comm, &r->number);
    mpi.size(comm, &r->count);
    r->flights = 1;
    pthread_mutex_init(&r->turn, NULL);
    return r;
}

struct ranks *ranks_open(struct err *err)
{
    int provided;
    if (!getenv("OMPI_COMM_WORLD_SIZE")) {
        err_set(err, "only mpirun starts a rank of a job: use vlmsh job run ID");
        return NULL;
    }
    if (open_library(err) < 0) return NULL;
    enum { SERIALIZED = 2 };
    mpi.init(NULL, NULL, SERIALIZED, &provided);
    if (provided < SERIALIZED) {
        err_set(err, "this Open MPI was built without threads (MPI_THREAD_SERIALIZED)");
        return NULL;
    }
    struct ranks *r = new_group(mpi.world, NULL);
    r->beside = number_of("OMPI_COMM_WORLD_LOCAL_SIZE", r->count);
    r->local = number_of("OMPI_COMM_WORLD_LOCAL_RANK", 0);
    return r;
}

void ranks_close(struct ranks *r)
{
    if (!r) return;
    ranks_meet(r);
    ranks_gpu_close(r);
    mpi.finalize();
    pthread_mutex_destroy(&r->turn);
    free(r);
}

struct ranks *ranks_part(struct ranks *whole, int part, struct err *why)
{
    handle comm;
    ranks_meet(whole);
    mpi.split(whole->comm, part, whole->number, &comm);
    struct ranks *r = new_group(comm, whole);
    r->beside = whole->beside;
    r->local = whole->local;
    ranks_gpu_open_part(r, why);
    return r;
}

void ranks_part_close(struct ranks *r)
{
    if (!r) return;
    ranks_meet(r->whole);
    ranks_gpu_close(r);
    mpi.group_free(&r->comm);
    pthread_mutex_destroy(&r->turn);
    free(r);
}

void ranks_abort(const struct ranks *r, int status)
{
    if (r) mpi.abort(mpi.world, status);
    _exit(status);
}

int ranks_number(const struct ranks *r)
{
    return r ? r->number : 0;
}

int ranks_count(const struct ranks *r)
{
    return r ? r->count : 1;
}

void ranks_add_done(struct ranks *r, int64_t samples)
{
    if (r) atomic_fetch_add(&r->whole->done, samples);
}

// --- assigning work ------------------------------------------------------------------------------

struct item {
    int64_t cost;
    size_t number;
};

static int most_expensive(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    if (x->cost != y->cost) return x->cost > y->cost ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

int ranks_assign(const int64_t *cost, size_t count, int ranks, int *owner)
{
    struct item *items = xcalloc(count + 1, sizeof *items);
    int64_t *load = xcalloc((size_t)ranks, sizeof *load);
    int most = 0;
    for (size_t i = 0; i < count; i++) items[i] = (struct item){ cost[i], i };
    qsort(items, count, sizeof *items, most_expensive);
    for (size_t i = 0; i < count; i++) {
        int to = 0;
        for (int k = 1; k < ranks; k++)
            if (load[k] < load[to]) to = k;
        owner[items[i].number] = to;
        load[to] += items[i].cost;
    }
    for (int k = 1; k < ranks; k++)
        if (load[k] > load[most]) most = k;
    free(items);
    free(load);
    return most;
}

// --- waiting -------------------------------------------------------------------------------------

static void wait_for(struct ranks *r, handle *request)
{
    const struct timespec moment = { .tv_nsec = r->flights > 1 ? 30000 : 100000 };
    const double began = clock_seconds();
    int done = 0;
    // The rank loses time only while all its flights wait.
    if (++r->waiters >= r->flights) {
        r->idle = began;
        atomic_store(&r->whole->waiting, true);
    }
    while (mpi.test(request, &done, NULL) == 0 && !done) {
        ranks_turn_pass(r);
        // A rank with one thread yields the processor for a millisecond before it sleeps; one of
        // several flights sleeps at once.
        if (r->flights == 1 && clock_seconds() - began < 1e-3)
            sched_yield();
        else
            nanosleep(&moment, NULL);
        ranks_turn_take(r);
    }
    if (r->waiters-- < r->flights) return;
    atomic_store(&r->whole->waiting, false);
    atomic_fetch_add(&r->whole->waited_us, (int64_t)((clock_seconds() - r->idle) * 1e6));
}

void ranks_meet(struct ranks *r)
{
    handle request;
    if (!r) return;
    mpi.barrier(r->comm, &request);
    wait_for(r, &request);
}

void ranks_flights(struct ranks *r, int count)
{
    r->flights = count;
    r->waiters = 0;
}

void ranks_turn_take(struct ranks *r)
{
    if (r->flights > 1) pthread_mutex_lock(&r->turn);
}

void ranks_turn_pass(struct ranks *r)
{
    if (r->flights > 1) pthread_mutex_unlock(&r->turn);
}

// --- sums and messages ---------------------------------------------------------------------------

// Returns the number of elements per call; MPI allocates memory for that many. Within a machine,
// this memory should fit into a cache; between machines larger messages are faster.
static size_t piece(const struct ranks *r)
{
    const struct ranks *all = r->whole;
    return all->beside == all->count ? 1 << 17 : 1 << 22;
}

static void count_moved(struct ranks *r, size_t bytes, double began)
{
    atomic_fetch_add(&r->whole->bytes, (int64_t)bytes);
    atomic_fetch_add(&r->whole->moved_us, (int64_t)((clock_seconds() - began) * 1e6));
}

// Sums x over all ranks; `to`: the rank that gets the sum, -1: all.
static void sum(struct ranks *r, char *x, size_t count, size_t size, handle type, int to)
{
    void *in_place = (void *)1;
    if (!r) return;
    ranks_meet(r);
    const double began = clock_seconds();
    const size_t most = piece(r);
    for (size_t at = 0; at < count; at += most) {
        const size_t n = count - at < most ? count - at : most;
        char *data = x + at * size;
        if (to < 0)
            mpi.all_reduce(in_place, data, (int)n, type, mpi.sum, r->comm);
        else if (to == r->number)
            mpi.reduce(in_place, data, (int)n, type, mpi.sum, to, r->comm);
        else
            mpi.reduce(data, NULL, (int)n, type, mpi.sum, to, r->comm);
    }
    count_moved(r, count * size, began);
}

void ranks_sum_floats(struct ranks *r, float *x, size_t count, int to)
{
    sum(r, (char *)x, count, sizeof *x, mpi.of_floats, to);
}

void ranks_sum_doubles(struct ranks *r, double *x, size_t count)
{
    sum(r, (char *)x, count, sizeof *x, mpi.of_doubles, -1);
}

void ranks_share(struct ranks *r, void *data, size_t size, int from)
{
    if (!r) return;
    ranks_meet(r);
    const double began = clock_seconds();
    const size_t most = piece(r);
    for (size_t at = 0; at < size; at += most) {
        const size_t n = size - at < most ? size - at : most;
        mpi.broadcast((char *)data + at, (int)n, mpi.of_bytes, from, r->comm);
    }
    count_moved(r, size, began);
}

int ranks_agree(struct ranks *r, int status, struct err *err)
{
    struct err why = { 0 };
    if (!r) return status;
    int first = -1, failed = 0, most = 0;
    double *all = xcalloc((size_t)r->count, sizeof *all);
    all[r->number] = status;
    ranks_sum_doubles(r, all, (size_t)r->count);
    for (int k = r->count; k-- > 0;) {
        if (all[k] < 0) first = k, failed++;
        if (all[k] > most) most = (int)all[k];
    }
    free(all);
    if (!failed) return most;
    if (status < 0) why = *err;
    if (first == r->number && failed < r->count) err_in(&why, "rank %d", r->whole->number);
    ranks_share(r, &why, sizeof why, first);
    return err_set(err, "%s", why.text);
}

bool ranks_same(struct ranks *r, const void *data, size_t size)
{
    if (!r) return true;
    char *first = xmalloc(size + 1);
    memcpy(first, data, size);
    ranks_share(r, first, size, 0);
    const bool same = !memcmp(first, data, size);
    free(first);
    return same;
}

// --- messages between two ranks ------------------------------------------------------------------

enum { MESSAGE = 1 << 30 }; // bytes per call, which takes an int

void ranks_send(struct ranks *r, int to, int tag, const void *data, size_t size)
{
    for (size_t at = 0; at < size; at += MESSAGE) {
        const size_t n = size - at < MESSAGE ? size - at : MESSAGE;
        handle request;
        mpi.send((const char *)data + at, (int)n, mpi.of_bytes, to, tag, r->comm, &request);
        wait_for(r, &request);
    }
}

void ranks_receive(struct ranks *r, int from, int tag, void *data, size_t size)
{
    for (size_t at = 0; at < size; at += MESSAGE) {
        const size_t n = size - at < MESSAGE ? size - at : MESSAGE;
        handle request;
        mpi.receive((char *)data + at, (int)n, mpi.of_bytes, from, tag, r->comm, &request);
        wait_for(r, &request);
    }
}
