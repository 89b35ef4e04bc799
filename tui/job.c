// tui/job.c -- `vlmsh job run ID`: what a job's process is; by hand it shows what it does.
//
// SIGINT, SIGTERM and SIGHUP pause the job: it writes a checkpoint and ends, /job N resume goes on.
// A second one ends the process at once, as kill -9 would: the last checkpoint stays. Shells send
// none: they write what they ask for into the job's row (sessions/jobs.c), however often.
#include "tui/job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands/command.h"
#include "core/files/safetensors.h"
#include "core/graph/device.h"
#include "sessions/job_group.h"
#include "tui/lines.h"
#include "tui/options.h"
#include "tui/plain.h"
#include "tui/signals.h"

struct job_options {
    const char *action, *id, *db;
};

static int take_db(void *self, const char *value, struct err *err)
{
    struct job_options *o = self;
    if (!*value) return err_set(err, "--db needs a file name");
    o->db = value;
    return 0;
}

static int take_word(void *self, const char *value, struct err *err)
{
    struct job_options *o = self;
    const char **place = !o->action ? &o->action : &o->id;
    if (*place) return err_set(err, "unexpected '%s'", value);
    *place = value;
    return 0;
}

static const struct option_row rows[] = {
    { "--db", "FILE", "path of the session database", take_db },
    { 0 },
};
static const struct option_table table = { rows, take_word };

// --- signals -------------------------------------------------------------------------------------

// A handler has no argument of ours.
static struct job_control control;
static volatile sig_atomic_t asked;

static void on_pause(int signal)
{
    const int saved = errno;
    if (asked) _exit(128 + signal);
    asked = signal;
    job_control_pause(&control);
    errno = saved;
}

static void handle(int signal, void (*handler)(int))
{
    struct sigaction action = { .sa_handler = handler };
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, NULL);
}

// A rank is told of a pause through the row: a signal ends it, with all others.
static void listen(bool rank)
{
    handle(SIGINT, rank ? SIG_DFL : on_pause);
    handle(SIGTERM, rank ? SIG_DFL : on_pause);
    handle(SIGHUP, rank ? SIG_DFL : on_pause);
    handle(SIGPIPE, SIG_IGN);
    handle(SIGXFSZ, SIG_IGN); // a file at its limit: writing fails instead
}

// --- actions -------------------------------------------------------------------------------------

// `rank`: one of those that mpirun started for a process that runs the job.
static int run_job(struct store *s, int64_t id, bool rank, struct err *err)
{
    struct sinks sinks = { 0 };
    struct plain *p = plain_new(false);
    enum job_state state;
    const struct job_setup setup = {
        .find = job_kind_find,
        .device = device_find,
        .sinks = &sinks,
        .control = &control,
        .rank = rank,
    };
    sinks_add(&sinks, plain_sink(p));
    listen(rank);
    const int status =
        rank ? job_run(s, id, &setup, &state, err) : job_run_any(s, id, &setup, &state, err);
    if (status == 0 && !rank)
        sinks_notice(&sinks, "job %lld is %s", (long long)id, job_state_name(state));
    plain_free(p);
    if (status < 0) return STATUS_FAILED;
    return state == STATE_PAUSED && asked == SIGINT ? STATUS_INTERRUPTED : STATUS_OK;
}

// The table that /jobs shows.
static int list_jobs(struct store *s, struct err *err)
{
    struct sinks sinks = { 0 };
    struct plain *p = plain_new(false);
    sinks_add(&sinks, plain_sink(p));
    struct shell shell = { .engine = engine_new(backend_cpu(), &sinks),
                           .store = s,
                           .sinks = &sinks };
    const int status = command_execute(command_find("jobs"), &shell, 0, NULL, err);
    engine_free(shell.engine);
    plain_free(p);
    return status < 0 ? STATUS_FAILED : STATUS_OK;
}

int job_word_run(int argc, char **argv, struct err *err)
{
    struct job_options o = { 0 };
    int at = 0;
    long long id = 0;
    if (option_table_read(&table, &o, argc, argv, &at, err) < 0) return STATUS_USAGE;
    const bool list = o.action && !strcmp(o.action, "list") && !o.id;
    const bool rank = o.action && !strcmp(o.action, "rank");
    if (!list && (!o.action || (strcmp(o.action, "run") != 0 && !rank) || !o.id)) {
        err_set(err, "an action is missing: run ID, or list");
        return STATUS_USAGE;
    }
    if (!list && option_integer(o.id, 1, INT64_MAX, &id, "ID", err) < 0) return STATUS_USAGE;
    safetensors_guard();
    struct store *s = store_open(o.db, err);
    if (!s) return STATUS_FAILED;
    const int status = list ? list_jobs(s, err) : run_job(s, id, rank, err);
    store_close(s);
    return status;
}
