// sessions/job_group.c -- starts the ranks of a job, watches them, and says how they ended.
#include "sessions/job_group.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "sessions/job_internal.h"
#include "sessions/job_mpirun.h"
#include "sessions/job_ranks.h"

// Seconds: until a rank that says nothing counts as gone, until the first must have said something,
// and until mpirun, asked to end, is killed.
static const double silent_s = 15, start_s = 30, end_s = 8;

struct watched {
    int64_t beat;
    double changed; // when it grew last; 0: not yet
};

struct group {
    struct store *store;
    int64_t id;
    const struct job_setup *setup;
    int count;
    int64_t runs;         // of the job before this one
    pid_t pid;            // mpirun's
    int errors;           // what it writes: its own messages and the ranks'
    double looked, awake; // when: the last look; the seconds that this process has been awake
    double first;         // awake when the first rank had said something
    double asked;         // to end; 0: not
    bool paused;
    struct watched *ranks;
    struct mpirun_said said;
    char *silent; // why the job ends, if that is what it is
};

// --- starting ------------------------------------------------------------------------------------

// More ranks than cores are what was asked for, unless a queue has given out the cores. Threads
// find their cores themselves: bound to one, all of a rank's would share it.
static void become(const struct group *g, char *program, char *db, int errors)
{
    char count[16], id[32];
    const char *argv[16];
    int n = 0;
    snprintf(count, sizeof count, "%d", g->count);
    snprintf(id, sizeof id, "%lld", (long long)g->id);
    argv[n++] = "mpirun";
    argv[n++] = "-n", argv[n++] = count;
    argv[n++] = "--bind-to", argv[n++] = "none";
    if (geteuid() == 0) argv[n++] = "--allow-run-as-root";
    if (!getenv("SLURM_JOB_ID")) argv[n++] = "--oversubscribe";
    argv[n++] = program, argv[n++] = "job", argv[n++] = "rank", argv[n++] = id;
    argv[n++] = "--db", argv[n++] = db;
    argv[n] = NULL;
    setpgid(0, 0); // the terminal's signals are for the process that passes them on
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (dup2(errors, 2) == 2) execvp("mpirun", (char **)(uintptr_t)argv);
    _exit(127);
}

static int start(struct group *g, struct err *err)
{
    int ends[2];
    char *program = realpath("/proc/self/exe", NULL), *db = realpath(g->store->path, NULL);
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_set(err, "cannot create a pipe: %s", strerror(errno));
    g->pid = fork();
    if (g->pid == 0) become(g, program, db, ends[1]);
    close(ends[1]);
    free(program);
    free(db);
    g->errors = ends[0];
    fcntl(g->errors, F_SETFL, O_NONBLOCK);
    g->looked = clock_seconds();
    return g->pid > 0 ? 0 : err_set(err, "cannot start mpirun: %s", strerror(errno));
}

static void pass_on(void *self, const char *line)
{
    if (write(2, line, strlen(line)) < 0 || write(2, "\n", 1) < 0) errno = 0; // nobody reads it
}

static void read_errors(struct group *g)
{
    char text[4096];
    ssize_t n;
    while ((n = read(g->errors, text, sizeof text)) > 0)
        mpirun_read(&g->said, text, (size_t)n, pass_on, NULL);
}

// --- watching ------------------------------------------------------------------------------------

static void ask_to_end(struct group *g)
{
    if (!g->asked) {
        g->asked = clock_seconds();
        kill(g->pid, SIGTERM);
    } else if (clock_seconds() - g->asked > end_s) {
        kill(g->pid, SIGKILL);
    }
}

// A rank stands still if its line has not changed for a while, or did not come while others' did.
// Time in which this process was itself stopped (a laptop asleep) says nothing about the ranks.
static void watch(struct group *g)
{
    const double since = clock_seconds() - g->looked;
    const double now = g->awake += since < 1 ? since : 1;
    struct job_rank rank;
    g->looked += since;
    for (int k = 0; k < g->count; k++) {
        if (!job_rank_read(g->store, g->id, k, &rank) || rank.beat == g->ranks[k].beat) continue;
        g->ranks[k] = (struct watched){ rank.beat, now };
        if (!g->first) g->first = now;
    }
    if (!g->first && now > start_s && !g->silent)
        g->silent = xasprintf("mpirun has started no rank within %.0f s: is every machine within "
                              "reach?",
                              start_s);
    for (int k = 0; k < g->count && g->first && !g->silent; k++) {
        if (now - (g->ranks[k].changed > 0 ? g->ranks[k].changed : g->first) < silent_s) continue;
        job_rank_read(g->store, g->id, k, &rank);
        g->silent = xasprintf("rank %d%s%s has not answered for %.0f s: it was stopped, or its "
                              "machine or network is down",
                              k, *rank.host ? " on " : "", rank.host, silent_s);
    }
    if (g->silent) ask_to_end(g);
}

// How mpirun ended, as waitpid says it.
static int wait_for_end(struct group *g)
{
    int status = 0;
    for (;;) {
        struct pollfd one = { .fd = g->errors, .events = POLLIN };
        const pid_t ended = waitpid(g->pid, &status, WNOHANG);
        if (ended == g->pid || (ended < 0 && errno == ECHILD)) break;
        if (poll(&one, 1, 100) > 0 && (one.revents & POLLHUP)) poll(NULL, 0, 20);
        read_errors(g);
        if (atomic_load(&g->setup->control->pause) && !g->paused)
            g->paused = store_job_ask(g->store, g->id, JOB_PAUSE, NULL) == 0;
        if (clock_seconds() - g->looked >= 0.5) watch(g);
    }
    read_errors(g);
    return status;
}

// --- the end -------------------------------------------------------------------------------------

// The words of a rank that failed or died with some; NULL: none.
static char *words_of(const struct group *g)
{
    for (int k = 0; k < g->count; k++) {
        char *words = job_last_words(g->store, g->id, k);
        if (*words) {
            char *text = xasprintf("rank %d: %s", k, words);
            free(words);
            return text;
        }
        free(words);
    }
    return NULL;
}

static char *host_of(const struct group *g, int rank)
{
    struct job_rank line;
    job_rank_read(g->store, g->id, rank, &line);
    return *line.host ? xasprintf(" on %s", line.host) : xstrdup("");
}

static char *reason_of(struct group *g, int status)
{
    if (g->silent) return xstrdup(g->silent);
    char *words = words_of(g), *host = host_of(g, g->said.rank >= 0 ? g->said.rank : 0), *text;
    if (words)
        text = words;
    else if (g->said.rank >= 0 && g->said.signal == SIGKILL)
        text = xasprintf("rank %d%s was killed (signal 9), by hand or because memory ran out",
                         g->said.rank, host);
    else if (g->said.rank >= 0 && g->said.signal)
        text = xasprintf("rank %d%s was ended by signal %d (%s)", g->said.rank, host,
                         g->said.signal, strsignal(g->said.signal));
    else if (g->said.rank >= 0)
        text = xasprintf("rank %d%s ended with status %d", g->said.rank, host, g->said.status);
    else if (g->said.message.length)
        text = xasprintf("mpirun: %.600s", g->said.message.data);
    else if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        text = xstrdup("mpirun cannot be started");
    else
        text = xasprintf("mpirun ended with status %d before the job did",
                         WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    free(host);
    return text;
}

// Rank 0 has said how the job ended, or it could not. Its lock is free by then, unless the job runs
// elsewhere. A job that has run and waits was started again meanwhile, by somebody who had seen its
// end.
static int finish(struct group *g, int status, enum job_state *state, struct err *err)
{
    struct job_row row;
    if (job_read_own(g->store, g->id, &row, err) < 0) return -1;
    const bool again = row.state == STATE_WAITING && row.runs > g->runs;
    *state = again ? STATE_PAUSED : row.state;
    if (job_state_ended(*state)) {
        if (row.state == STATE_FAILED) err_set(err, "%s", row.message);
        job_row_release(&row);
        return *state == STATE_FAILED ? -1 : 0;
    }
    job_row_release(&row);
    char *why = reason_of(g, status);
    const int lock = job_lock(g->store, g->id, "lock", err);
    *state = STATE_FAILED;
    if (lock >= 0) {
        err_set(err, "%s (/job %lld resume continues from the last checkpoint)", why,
                (long long)g->id);
        job_mark_ended(g->store, g->id, STATE_FAILED, err->text, NULL);
        close(lock);
    }
    free(why);
    return -1;
}

// What ranks of an earlier run have left.
static void forget(const struct store *s, int64_t id)
{
    struct job_rank *list;
    const size_t count = store_job_ranks(s, id, &list);
    for (size_t k = 0; k < count; k++) {
        char name[32];
        snprintf(name, sizeof name, "rank-%zu", k);
        char *line = job_path(s, id, name);
        unlink(line);
        free(line);
        if (k) close(job_last_words_open(s, id, (int)k)); // rank 0's goes into the log first
    }
    free(list);
}

// The ranks of an earlier run, of which rank 0 has said how it ended, may take a moment to leave.
static int take_lock(const struct group *g, struct err *err)
{
    const double began = clock_seconds();
    int lock;
    while ((lock = job_lock(g->store, g->id, "group", err)) < 0 &&
           clock_seconds() - began < end_s + 2)
        poll(NULL, 0, 20);
    return lock;
}

static int run_group(struct group *g, enum job_state *state, struct err *err)
{
    *state = STATE_FAILED;
    if (job_ranks_check(err) < 0) {
        job_mark_ended(g->store, g->id, STATE_FAILED, err->text, NULL);
        return -1;
    }
    const int lock = take_lock(g, err);
    if (lock < 0) return -1;
    forget(g->store, g->id);
    g->ranks = xcalloc((size_t)g->count, sizeof *g->ranks);
    int status = start(g, err);
    if (status == 0) status = finish(g, wait_for_end(g), state, err);
    close(g->errors);
    close(lock);
    free(g->ranks);
    free(g->silent);
    mpirun_said_release(&g->said);
    return status;
}

int job_run_any(struct store *s, int64_t id, const struct job_setup *setup, enum job_state *state,
                struct err *err)
{
    struct job_row row;
    *state = STATE_FAILED;
    if (job_read_own(s, id, &row, err) < 0) return -1;
    const int count = (int)settings_integer(row.settings, "job.ranks");
    const bool done = row.state == STATE_DONE;
    const int64_t runs = row.runs;
    job_row_release(&row);
    if (count == 1) forget(s, id);
    if (count == 1 || done) return job_run(s, id, setup, state, err);
    if (job_folder_make(s, id, err) < 0) return -1;
    struct group g = { .store = s,
                       .id = id,
                       .setup = setup,
                       .count = count,
                       .errors = -1,
                       .runs = runs,
                       .said = MPIRUN_SAID_NOTHING };
    return run_group(&g, state, err);
}
