// sessions/job_ranks.c -- the line that each rank writes every second to the file rank-K in the
// job's folder.
#include "sessions/job_ranks.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file_in.h"
#include "core/base/mem.h"
#include "sessions/job_internal.h"

enum { LINE = 192 };  // length of every line: each write replaces the whole previous line
enum { JOINING = 2 }; // written instead of the waiting flag before the rank has joined
static const double every_s = 1;

struct job_heartbeat {
    _Atomic(const struct ranks *) ranks; // NULL: not joined yet
    char *path;
    pid_t above; // parent process: mpirun, or its daemon on this machine
    double began;
    int64_t count;
    pthread_mutex_t writing;
    atomic_bool ends;
    pthread_t thread;
};

static char *line_path(const char *folder, int number)
{
    return xasprintf("%s/rank-%d", folder, number);
}

// --- mpirun --------------------------------------------------------------------------------------

int job_ranks_check(struct err *err)
{
    const char *path = getenv("PATH");
    char *copy = xstrdup(path ? path : "/usr/bin"), *save;
    bool found = false;
    for (char *one = strtok_r(copy, ":", &save); one && !found; one = strtok_r(NULL, ":", &save)) {
        char *file = xasprintf("%s/mpirun", one);
        found = access(file, X_OK) == 0;
        free(file);
    }
    free(copy);
    if (found) return 0;
    return err_set(err, "several ranks need mpirun, which was not found: install Open MPI "
                        "(Debian: openmpi-bin), or set job.ranks 1");
}

// --- writing -------------------------------------------------------------------------------------

static void beat(struct job_heartbeat *b)
{
    const struct ranks *r = atomic_load(&b->ranks);
    char line[LINE + 1], host[64] = "";
    gethostname(host, sizeof host - 1);
    pthread_mutex_lock(&b->writing);
    const int n =
        snprintf(line, sizeof line, "%" PRId64 " %.1f %.1f %" PRId64 " %d %s", ++b->count,
                 clock_seconds() - b->began, r ? (double)atomic_load(&r->waited_us) * 1e-6 : 0,
                 r ? atomic_load(&r->done) : 0, r ? (int)atomic_load(&r->waiting) : JOINING, host);
    memset(line + n, ' ', (size_t)(LINE - n));
    line[LINE - 1] = '\n';
    // Reopens the file for each line: other machines see a line only once the file is closed.
    const int file = open(b->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (pwrite(file, line, LINE, 0) != LINE) b->count--; // full disk: the count stays
    if (file >= 0) close(file);
    pthread_mutex_unlock(&b->writing);
}

static void *run(void *self)
{
    struct job_heartbeat *b = self;
    const struct timespec moment = { .tv_nsec = 50000000 };
    for (double last = 0; !atomic_load(&b->ends); nanosleep(&moment, NULL)) {
        if (clock_seconds() - last < every_s) continue;
        last = clock_seconds();
        if (getppid() != b->above) _exit(1); // mpirun was killed and cannot end this rank
        beat(b);
    }
    return NULL;
}

struct job_heartbeat *job_heartbeat_start(const char *folder)
{
    const char *number = getenv("OMPI_COMM_WORLD_RANK");
    if (!number) return NULL;
    struct job_heartbeat *b = xcalloc(1, sizeof *b);
    sigset_t all, before;
    b->began = clock_seconds();
    b->path = line_path(folder, (int)strtol(number, NULL, 10));
    b->above = getppid();
    pthread_mutex_init(&b->writing, NULL);
    sigfillset(&all); // signals go to the main thread
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(&b->thread, NULL, run, b);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) fatal("cannot start a thread: %s", strerror(failed));
    return b;
}

void job_heartbeat_join(struct job_heartbeat *b, const struct ranks *r)
{
    if (b) atomic_store(&b->ranks, r);
}

void job_heartbeat_now(struct job_heartbeat *b)
{
    if (b) beat(b);
}

void job_heartbeat_stop(struct job_heartbeat *b)
{
    if (!b) return;
    atomic_store(&b->ends, true);
    pthread_join(b->thread, NULL);
    beat(b);
    pthread_mutex_destroy(&b->writing);
    free(b->path);
    free(b);
}

// --- reading -------------------------------------------------------------------------------------

// Reads a line written by beat(). A line with a host name is complete, because the name comes last.
bool job_rank_read(const char *folder, int number, struct job_rank *rank)
{
    char *path = line_path(folder, number), *line = file_read(path, LINE, NULL, NULL), *at = line;
    *rank = (struct job_rank){ 0 };
    free(path);
    if (!line) return false;
    rank->beat = strtoll(at, &at, 10);
    rank->seconds = strtod(at, &at);
    rank->waited = strtod(at, &at);
    rank->done = strtoll(at, &at, 10);
    const long state = strtol(at, &at, 10);
    rank->waiting = state == 1;
    rank->joining = state == JOINING;
    at += strspn(at, " ");
    snprintf(rank->host, sizeof rank->host, "%.*s", (int)strcspn(at, " \n"), at);
    free(line);
    return rank->beat > 0 && *rank->host;
}

size_t job_ranks_read(const char *folder, struct job_rank **list)
{
    struct job_rank rank;
    size_t count = 0;
    *list = NULL;
    while (job_rank_read(folder, (int)count, &rank)) {
        *list = xreallocarray(*list, count + 1, sizeof **list);
        (*list)[count++] = rank;
    }
    return count;
}

size_t store_job_ranks(const struct store *s, int64_t id, struct job_rank **list)
{
    char *folder = job_path(s, id, NULL);
    const size_t count = job_ranks_read(folder, list);
    free(folder);
    return count;
}
