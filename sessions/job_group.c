// sessions/job_group.c -- starts the ranks of a job, watches them, and reports how they ended.
#include "sessions/job_run.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "sessions/job_internal.h"
#include "sessions/job_mpirun.h"
#include "sessions/job_ranks.h"
#include "sessions/job_reports.h"

// Seconds: until a silent rank counts as lost; until a rank must have started; until started ranks
// must have joined (longer, because on a busy machine that alone can take half a minute); from the
// loss of a rank, or from a request to cancel the job, until mpirun is asked to end; from that
// request until mpirun is killed.
static const double silent_s = 15, start_s = 30, join_s = 120, lost_s = 4, cancel_s = 8, end_s = 8;

struct watched {
    int64_t beat;
    double changed; // when `beat` last grew; 0: not yet
};

struct group {
    struct job_channel channel; // uses files: the ranks may run on other machines
    struct store *store;        // receives the ranks' reports; NULL: a shell imports them
    const struct job_setup *setup;
    int count;
    pid_t pid;            // mpirun's
    int errors;           // mpirun's standard error: its messages and the ranks'
    double polled, awake; // time of the last poll; seconds that this process has been awake
    double first;         // value of awake when the first rank had joined the others; 0: not yet
    bool arrived;         // a rank has written a line
    double lost;          // value of awake when mpirun reported a lost rank or machine; 0: never
    double cancelled;     // value of awake when the job was asked to end; 0: never
    double asked;         // when mpirun was asked to end; 0: never
    bool paused;
    struct watched *ranks;
    struct mpirun_output output;
    char *silent; // set if ranks do not start, join or answer: the reason why the job ends
};

// --- starting ------------------------------------------------------------------------------------

// Allows more ranks than cores, unless a queue has assigned the cores. Ranks are not bound to
// cores, because all threads of a bound rank would share one core.
static void exec_mpirun(const struct group *g, char *program, int errors)
{
    char count[16], id[32];
    const char *argv[16];
    int n = 0;
    snprintf(count, sizeof count, "%d", g->count);
    snprintf(id, sizeof id, "%lld", (long long)g->channel.id);
    argv[n++] = "mpirun";
    argv[n++] = "-n", argv[n++] = count;
    argv[n++] = "--bind-to", argv[n++] = "none";
    if (geteuid() == 0) argv[n++] = "--allow-run-as-root";
    if (!getenv("SLURM_JOB_ID")) argv[n++] = "--oversubscribe";
    argv[n++] = program, argv[n++] = "job", argv[n++] = "rank", argv[n++] = id;
    argv[n++] = "--folder", argv[n++] = g->channel.folder;
    argv[n] = NULL;
    // A machine that leaves the network closes no connection, so mpirun probes its connections
    // every few seconds instead of after hours. (Open MPI 5 has no such option and ignores these.)
    setenv("OMPI_MCA_oob_tcp_keepalive_time", "4", 0);
    setenv("OMPI_MCA_oob_tcp_keepalive_intvl", "2", 0);
    setenv("OMPI_MCA_oob_tcp_keepalive_probes", "4", 0);
    // A rank spins while it waits for others in a sum. If other programs use the cores too, the
    // rank that it waits for may need this core: yielding lets that rank run.
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    setpgid(0, 0); // the terminal's signals reach only the parent, which requests a pause
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (dup2(errors, 2) == 2) execvp("mpirun", (char **)(uintptr_t)argv);
    _exit(127);
}

static int start(struct group *g, struct err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_set(err, "cannot create a pipe: %s", strerror(errno));
    char *program = realpath("/proc/self/exe", NULL);
    g->pid = fork();
    if (g->pid == 0) exec_mpirun(g, program, ends[1]);
    close(ends[1]);
    free(program);
    g->errors = ends[0];
    fcntl(g->errors, F_SETFL, O_NONBLOCK);
    g->polled = clock_seconds();
    return g->pid > 0 ? 0 : err_set(err, "cannot start mpirun: %s", strerror(errno));
}

static void pass_on(void *self, const char *line)
{
    if (write(2, line, strlen(line)) < 0 || write(2, "\n", 1) < 0) errno = 0; // the reader is gone
}

static void read_errors(struct group *g)
{
    char text[4096];
    ssize_t n;
    while ((n = read(g->errors, text, sizeof text)) > 0)
        mpirun_read(&g->output, text, (size_t)n, pass_on, NULL);
}

// --- watching ------------------------------------------------------------------------------------

// Messages of mpirun when a machine leaves the network: "... Remote daemon: [[123,0],1] on node b
// ..."; or, while ranks are being started, "... unable to reliably start one or more daemons ...",
// which names no machine. mpirun also prints the second message for a refused login or a missing
// path, so it indicates a network failure only after a rank has answered.
static const char network_then[] = "Remote daemon:",
                  network_first[] = "unable to reliably start one or more daemons";

static const char *mpirun_message(const struct group *g)
{
    return g->output.message.length ? g->output.message.data : "";
}

// Reads the request from the file in the job's folder, or from the job's row if the folder was
// removed.
static bool asked_to_cancel(const struct group *g)
{
    enum job_stop request = job_request_read(g->channel.folder);
    if (g->store && access(g->channel.folder, F_OK) < 0)
        job_read_request(g->store, g->channel.id, &request, NULL);
    return request == JOB_CANCEL;
}

// A rank counts as hung if its line (in the file rank-K of the job's folder) stops changing, or has
// not appeared some time after the first other rank joined. Time in which this process was itself
// suspended (a laptop asleep) does not count.
static void watch(struct group *g)
{
    const double slept = clock_seconds() - g->polled;
    const double now = g->awake += slept < 1 ? slept : 1;
    struct job_rank rank;
    g->polled += slept;
    for (int k = 0; k < g->count; k++) {
        if (!job_rank_read(g->channel.folder, k, &rank) || rank.beat == g->ranks[k].beat) continue;
        g->ranks[k] = (struct watched){ rank.beat, now };
        g->arrived = true;
        if (!rank.joining && !g->first) g->first = now;
    }
    for (int k = 0; k < g->count && !g->silent; k++) {
        const double since = g->ranks[k].changed > 0 ? g->ranks[k].changed : g->first;
        if (since <= 0 || now - since < silent_s) continue;
        job_rank_read(g->channel.folder, k, &rank);
        g->silent = xasprintf("rank %d%s%s has not answered for %.0f s: it was stopped, or its "
                              "machine or network is down",
                              k, *rank.host ? " on " : "", rank.host, silent_s);
    }
    const double limit = g->arrived ? join_s : start_s;
    if (!g->first && now > limit && !g->silent)
        g->silent = xasprintf(
            g->arrived ? "the ranks have not found one another within %.0f s: "
                         "can their machines reach each other?"
                       : "mpirun has started no rank within %.0f s: is every machine reachable?",
            limit);
    // After the loss of a rank, mpirun waits for the other ranks, possibly for ever.
    const char *message = mpirun_message(g);
    if (!g->lost &&
        (g->output.rank >= 0 || strstr(message, network_then) || strstr(message, network_first)))
        g->lost = now;
    // A rank that stops in the middle of a step may leave others of its group waiting for it.
    if (!g->cancelled && asked_to_cancel(g)) g->cancelled = now;
    const bool gone = access(g->channel.folder, F_OK) < 0;
    if ((g->cancelled > 0 && (gone || now - g->cancelled > cancel_s)) || g->silent ||
        (g->lost > 0 && now - g->lost > lost_s)) {
        if (!g->asked) {
            g->asked = clock_seconds();
            kill(g->pid, SIGTERM);
        } else if (clock_seconds() - g->asked > end_s) {
            kill(g->pid, SIGKILL);
        }
    }
    if (g->store) job_import(g->store, g->channel.id);
}

// Waits until mpirun ends; returns its status in the format of waitpid.
static int wait_for_end(struct group *g)
{
    int status = 0;
    for (;;) {
        struct pollfd one = { .fd = g->errors, .events = POLLIN };
        const pid_t ended = waitpid(g->pid, &status, WNOHANG);
        if (ended == g->pid || (ended < 0 && errno == ECHILD)) break;
        if (poll(&one, 1, 100) > 0 && (one.revents & POLLHUP)) poll(NULL, 0, 20);
        read_errors(g);
        // A queue sends the same signal to cancel a job: a request to cancel must not become a
        // pause.
        if (atomic_load(&g->setup->control->pause) && !g->paused)
            g->paused = job_request_read(g->channel.folder) == JOB_CANCEL ||
                        job_request_write(g->channel.folder, JOB_PAUSE, NULL) == 0;
        if (clock_seconds() - g->polled >= 0.5) watch(g);
    }
    read_errors(g);
    return status;
}

// --- the end -------------------------------------------------------------------------------------

// "ranks 1, 2 on b are out of reach ..." for the ranks of a host, or with `others` for the ranks of
// all other hosts.
static char *out_of_reach(const struct group *g, const char *host, size_t length, bool others)
{
    struct buf b = { 0 };
    struct job_rank line;
    int ranks = 0;
    for (int k = 0; k < g->count; k++) {
        const bool there = job_rank_read(g->channel.folder, k, &line) &&
                           strlen(line.host) == length && !strncmp(line.host, host, length);
        if (there != others) buf_printf(&b, "%s%d", ranks++ ? ", " : "", k);
    }
    char *list = buf_take(&b);
    if (!others || ranks) {
        buf_printf(&b, "%s%s", ranks ? ranks > 1 ? "ranks " : "rank " : "the job's part", list);
        if (!others) buf_printf(&b, " on %.*s", (int)length, host);
        buf_printf(&b, " %s out of reach: the machine or its network is down",
                   ranks > 1 ? "are" : "is");
    }
    free(list);
    return b.length ? buf_take(&b) : NULL;
}

// Returns the text of out_of_reach for the ranks that mpirun's message concerns; NULL if the
// message is not about the network.
static char *reason_of_network(const struct group *g)
{
    const char *message = mpirun_message(g), *at = strstr(message, network_then),
               *node = at ? strstr(at, "on node ") : NULL;
    char here[64] = "";
    if (node) {
        node += strlen("on node ");
        return out_of_reach(g, node, strcspn(node, " "), false);
    }
    if (!g->arrived || !strstr(message, network_first)) return NULL;
    gethostname(here, sizeof here - 1);
    return out_of_reach(g, here, strlen(here), true);
}

// Names the folder or limit that leaves too little space for the files that ranks share; NULL if
// there is enough. Otherwise the user would see only Open MPI's message that processes cannot reach
// each other, or a rank's bus error.
static char *space_lacking(void)
{
    enum { NEEDED_MB = 32 }; // MB; a rank of Open MPI 4 and 5 takes 4 to 16
    static const char *const variables[] = { "TMPDIR", "TEMP", "TMP" }; // in Open MPI's order
    const char *folders[] = { "/tmp", "/dev/shm" };
    for (int i = 2; i >= 0; i--) {
        const char *value = getenv(variables[i]);
        if (value && *value) folders[0] = value;
    }
    for (int i = 0; i < 2; i++) {
        struct statvfs of;
        const double mb = statvfs(folders[i], &of) == 0
                              ? (double)of.f_bavail * (double)of.f_frsize * 1e-6
                              : NEEDED_MB;
        if (mb < NEEDED_MB)
            return xasprintf("'%s' has only %.1f MB left, too little for the memory that Open "
                             "MPI's ranks share there: free some space",
                             folders[i], mb);
    }
    struct rlimit files;
    if (getrlimit(RLIMIT_FSIZE, &files) == 0 && (double)files.rlim_cur * 1e-6 < NEEDED_MB)
        return xasprintf("files are limited to %.1f MB (ulimit -f), but Open MPI's ranks share "
                         "memory in larger files",
                         (double)files.rlim_cur * 1e-6);
    return NULL;
}

static char *reason_of(struct group *g, int status)
{
    char *network = reason_of_network(g);
    if (network) return network;
    if (g->silent) return xstrdup(g->silent);
    const int rank = g->output.rank >= 0 ? g->output.rank : g->output.aborted;
    struct job_rank line;
    job_rank_read(g->channel.folder, rank >= 0 ? rank : 0, &line);
    char *host = *line.host ? xasprintf(" on %s", line.host) : xstrdup(""), *text = NULL;
    for (int k = 0; k < g->count && !text; k++) { // a rank that gave a reason
        char *message = job_fatal_message(g->channel.folder, k);
        if (*message) text = xasprintf("rank %d: %s", k, message);
        free(message);
    }
    if (text) {
        free(host);
        return text;
    }
    if (g->output.rank >= 0 && g->output.signal == SIGKILL)
        text = xasprintf("rank %d%s was killed (signal 9), by hand or because memory ran out",
                         g->output.rank, host);
    else if (g->output.rank >= 0 && g->output.signal)
        text = xasprintf("rank %d%s was ended by signal %d (%s)", g->output.rank, host,
                         g->output.signal, strsignal(g->output.signal));
    else if (g->output.rank >= 0)
        text = xasprintf("rank %d%s ended with status %d", g->output.rank, host, g->output.status);
    else if (rank >= 0)
        text = xasprintf("rank %d%s ended the job without giving a reason", rank, host);
    else if (g->output.message.length)
        text = xasprintf("mpirun: %.900s", g->output.message.data);
    else if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        text = xstrdup("mpirun cannot be started");
    else
        text = xasprintf("mpirun ended with status %d before the job did",
                         WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    char *lacking = g->output.signal == SIGKILL ? NULL : space_lacking();
    if (lacking) {
        char *both = xasprintf("%s; %s", lacking, text);
        free(text);
        text = both;
    }
    free(lacking);
    free(host);
    return text;
}

static void tell_end(struct err *err, const struct group *g, const char *why, const char *more)
{
    err_set(err, "%.900s%s%s (/job %lld resume continues it)", why, *more ? "; " : "", more,
            (long long)g->channel.id);
}

// Writes the end into the job's folder, or into the database if the folder's disk is full, which
// may be why the job ended.
static void write_end(struct group *g, enum job_state state, const char *why, struct err *err)
{
    struct err more = { 0 };
    struct job_channel *d = &g->channel;
    const bool failed = state == STATE_FAILED;
    if (failed) tell_end(err, g, why, "");
    if (job_channel_state(d, state, failed ? err->text : "", &more) == 0) return;
    if (failed) tell_end(err, g, why, more.text);
    if (!g->store) return;
    job_import(g->store, d->id);
    job_mark_ended(g->store, d->id, state, failed ? err->text : "", NULL);
}

// Waits for the lock, because ranks of an earlier run may take a moment to exit after rank 0
// reported the end or mpirun died.
static int take_lock(const struct job_channel *d, const char *name, struct err *err)
{
    const double began = clock_seconds();
    int lock;
    while ((lock = job_lock(d->folder, d->id, name, err)) < 0 &&
           clock_seconds() - began < end_s + 2)
        poll(NULL, 0, 20);
    return lock;
}

// Reads the state and message with which rank 0 reported the job's end; false: it has not reported
// the end.
static bool said_by_rank(const struct group *g, enum job_state *state, char **message)
{
    free(*message);
    *message = NULL;
    return job_reports_state(g->channel.folder, state, message) && job_state_ended(*state);
}

// Uses rank 0's report of the job's end, or writes one. If mpirun itself died, rank 0 may keep
// running, or even start, and may still report; it notices mpirun's death within a second. So this
// function waits for rank 0's lock, which is free once rank 0 has exited.
static int finish(struct group *g, int status, enum job_state *state, struct err *err)
{
    char *message = NULL;
    if (WIFSIGNALED(status)) poll(NULL, 0, 1500);
    bool said = said_by_rank(g, state, &message);
    const int lock = said ? -1 : take_lock(&g->channel, "lock", err);
    if (lock >= 0) {
        said = said_by_rank(g, state, &message);
        if (!said) { // so this process reports the end
            char *why = reason_of(g, status);
            *state = asked_to_cancel(g) ? STATE_CANCELLED : g->paused ? STATE_PAUSED : STATE_FAILED;
            write_end(g, *state, why, err);
            free(why);
        }
        close(lock);
    } else if (!said) { // another process holds the lock
        *state = STATE_FAILED;
    }
    if (said && *state == STATE_FAILED) err_set(err, "%s", message);
    free(message);
    return *state == STATE_FAILED ? -1 : 0;
}

// Removes the files of the ranks of an earlier run.
static void forget(const char *folder)
{
    struct job_rank *list;
    const size_t count = job_ranks_read(folder, &list);
    for (size_t k = 0; k < count; k++) {
        char *line = xasprintf("%s/rank-%zu", folder, k);
        unlink(line);
        free(line);
        // Empties the file; rank 0's message stays, because job_run logs it.
        if (k) close(job_fatal_file_open(folder, (int)k));
    }
    free(list);
}

// The caller holds the lock "group".
static int run_group(struct group *g, enum job_state *state, struct err *err)
{
    *state = STATE_FAILED;
    if (job_ranks_check(err) < 0) {
        job_channel_state(&g->channel, STATE_FAILED, err->text, NULL);
        return -1;
    }
    forget(g->channel.folder);
    g->ranks = xcalloc((size_t)g->count, sizeof *g->ranks);
    int status = start(g, err);
    if (status == 0) status = finish(g, wait_for_end(g), state, err);
    close(g->errors);
    free(g->ranks);
    free(g->silent);
    mpirun_output_release(&g->output);
    return status;
}

static int count_of(const struct job_row *row)
{
    return (int)settings_integer(row->settings, "job.ranks");
}

// --- a job of this database ----------------------------------------------------------------------

static int run_ranks(struct store *s, const struct job_row *row, const struct job_setup *setup,
                     enum job_state *state, struct err *err)
{
    const struct job_channel here = { .id = row->id, .folder = job_folder_real(s, row->id, err) };
    struct group g = {
        .store = s, .setup = setup, .count = count_of(row), .errors = -1, .output = MPIRUN_NO_OUTPUT
    };
    const int lock = here.folder ? take_lock(&here, "group", err) : -1;
    char *answer_lock = answer_lock_path(s);
    // Imports the reports of earlier ranks, then writes the specification for the new ranks.
    int status = lock >= 0 ? job_import_all(s, row->id, err) : -1;
    if (status == 0) status = job_spec_write(here.folder, row, answer_lock, err);
    if (status == 0) status = job_channel_of_folder(&g.channel, here.folder, row->id, err);
    free(answer_lock);
    if (lock >= 0 && status < 0) job_start_error_write(here.folder, err);
    if (status == 0) {
        status = run_group(&g, state, err);
        job_import(s, row->id);
    }
    job_channel_release(&g.channel);
    if (lock >= 0) close(lock);
    free(here.folder);
    return status;
}

int job_run_any(struct store *s, int64_t id, const struct job_setup *setup, enum job_state *state,
                struct err *err)
{
    struct job_row row;
    *state = STATE_FAILED;
    if (job_read_own(s, id, &row, err) < 0) return -1;
    int status = job_folder_make(s, id, settings_text(row.settings, "job.folder"), err);
    if (status == 0 && count_of(&row) > 1 && row.state != STATE_DONE) {
        status = run_ranks(s, &row, setup, state, err);
    } else if (status == 0) {
        struct job_channel channel;
        job_channel_of_store(&channel, s, id);
        forget(channel.folder);
        status = job_run(&channel, setup, state, err);
        job_channel_release(&channel);
    }
    job_row_release(&row);
    return status;
}

// --- a job of a queue ----------------------------------------------------------------------------

int job_run_queued(const char *folder, int64_t id, const struct job_setup *setup,
                   enum job_state *state, struct err *err)
{
    struct group g = { .setup = setup, .errors = -1, .output = MPIRUN_NO_OUTPUT };
    struct job_row row = { 0 };
    *state = STATE_FAILED;
    if (job_channel_of_folder(&g.channel, folder, id, err) < 0) return -1;
    int status = job_channel_read(&g.channel, &row, err);
    const int lock = status == 0 ? take_lock(&g.channel, "group", err) : -1;
    if (lock < 0) status = -1;
    // Withdraws a pause that was requested before the queue restarted the job.
    if (status == 0 && job_request_read(folder) == JOB_PAUSE)
        status = job_request_write(folder, JOB_GO, err);
    if (status == 0) {
        g.count = count_of(&row);
        if (g.count == 1) forget(folder);
        status = g.count == 1 ? job_run(&g.channel, setup, state, err) : run_group(&g, state, err);
    }
    job_row_release(&row);
    job_channel_release(&g.channel);
    if (lock >= 0) close(lock);
    return status;
}

int job_run_rank(const char *folder, int64_t id, const struct job_setup *setup,
                 enum job_state *state, struct err *err)
{
    struct job_channel channel;
    *state = STATE_FAILED;
    if (job_channel_of_folder(&channel, folder, id, err) < 0) return -1;
    const int status = job_run(&channel, setup, state, err);
    job_channel_release(&channel);
    return status;
}
