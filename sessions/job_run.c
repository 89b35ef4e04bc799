// sessions/job_run.c -- runs a job in this process: request, model, run(), final state.
#include "sessions/job_run.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "sessions/job_internal.h"

enum { PATIENCE_S = 60, LEAVE_S = 10 };
static const double look_s = 0.3; // between two looks at the request

struct runner {
    struct store *store;
    const struct job_setup *setup;
    struct job job;
    struct job_row row;
    struct sinks sinks; // the process's and the one of the database
    struct job_sink *keep;
    atomic_flag looking;   // a thread looks at the row
    double looked;         // when
    enum job_stop request; // as the row said then
    enum job_stop stop;    // once said, it stays
    struct err lost;       // why the database cannot be written any more
    bool ran;              // run() was called
    int lock, words;       // files: that it runs, what it says if it ends in the middle
    char *state;
};

void job_control_pause(struct job_control *control)
{
    struct job *job = atomic_load(&control->job);
    atomic_store(&control->pause, true);
    if (job) atomic_store(&job->hurry, true);
}

// What the row asks for, read a few times a second.
static enum job_stop read_request(struct runner *r)
{
    if (clock_seconds() - r->looked < look_s) return r->request;
    job_read_request(r->store, r->job.id, &r->request, NULL); // else at the next look
    r->looked = clock_seconds();
    return r->request;
}

// Threads of a pass beside one another: one of them reads, as the main thread waits for all.
static void look(struct job *j)
{
    struct runner *r = j->runner;
    if (atomic_flag_test_and_set(&r->looking)) return;
    const enum job_stop request = read_request(r);
    if (request != JOB_GO) atomic_store(&j->hurry, true);
    if (request == JOB_CANCEL) atomic_store(&j->cancel, true);
    atomic_flag_clear(&r->looking);
}

static enum job_stop ask(struct job *j)
{
    struct runner *r = j->runner;
    if (atomic_load(&j->cancel)) return r->stop = JOB_CANCEL; // also after a pause was asked for
    if (r->stop) return r->stop;
    if (atomic_load(&r->setup->control->pause)) return r->stop = JOB_PAUSE;
    const double patience = r->setup->patience_s > 0 ? r->setup->patience_s : PATIENCE_S;
    struct err why;
    if (job_sink_failing(r->keep, &why) > patience) {
        r->lost = why;
        return r->stop = JOB_PAUSE;
    }
    return r->stop = read_request(r);
}

static bool loading(void *self, uint64_t done, uint64_t total)
{
    struct runner *r = self;
    const struct event_progress progress = {
        .what = "loading", .step = (double)done, .steps = (double)total, .loss = NAN, .eta_s = NAN
    };
    sinks_emit(&r->sinks, &(struct event){ .kind = EVENT_PROGRESS, .progress = &progress });
    return ask(&r->job) == JOB_GO;
}

static int load(struct runner *r, struct err *err)
{
    const struct load_progress progress = { .report = loading, .self = r };
    if (!*r->row.model) return err_set(err, "/%s needs a model: /load MODEL first", r->row.kind);
    r->job.model = model_load(r->row.model, r->job.backend, &progress, err);
    if (!r->job.model) return -1;
    if (*r->row.fingerprint && strcmp(r->job.model->checkpoint->fingerprint, r->row.fingerprint))
        return err_set(err,
                       "the weights in '%s' have changed since the job was started: restore them, "
                       "or start a new job",
                       r->row.model);
    return 0;
}

static int prepare(struct runner *r, struct err *err)
{
    struct job *j = &r->job;
    j->kind = r->setup->find(r->row.kind);
    if (!j->kind) return err_set(err, "this vlmsh has no job kind '%s'", r->row.kind);
    if (chdir(r->row.folder) < 0)
        return err_set(err, "cannot enter '%s', where the job was started: %s", r->row.folder,
                       strerror(errno));
    struct err why = { 0 };
    j->backend = r->setup->device(r->row.device, &why);
    if (!j->backend) return err_set(err, "%s", why.text);
    if (why.text[0]) sinks_notice(j->sinks, "%s", why.text); // no GPU
    if (!settings_is(j->settings, "job.threads", "auto"))
        backend_cpu()->set_threads((int)settings_integer(j->settings, "job.threads"));
    return j->kind->needs_model ? load(r, err) : 0;
}

// The rest of the process's life belongs to the job: losing a second to a power cut costs less than
// a sync at every step; kill -9 loses nothing either way.
static void relax(struct store *s)
{
    sqlite3_exec(s->db, "PRAGMA synchronous = NORMAL", NULL, NULL, NULL);
}

// A process that has just said how it ended may take a moment to leave.
static int take_lock(struct runner *r, int64_t id, struct err *err)
{
    const struct timespec moment = { .tv_nsec = 20000000 };
    const double began = clock_seconds();
    for (;;) {
        struct job_row row;
        r->lock = job_lock(r->store, id, err);
        if (r->lock >= 0) return 0;
        if (job_read_own(r->store, id, &row, err) < 0) return -1;
        const bool runs = row.state == STATE_RUNNING;
        job_row_release(&row);
        if (runs || clock_seconds() - began > LEAVE_S)
            return err_set(err, "another process is already running job %lld", (long long)id);
        nanosleep(&moment, NULL);
    }
}

// Why the process before was interrupted, if it said so, becomes a line of the log.
static void note_last_words(struct runner *r)
{
    char *words = job_last_words(r->store, r->row.id);
    if (*words) job_log(&r->job, "interrupted: %s", words);
    free(words);
    r->words = job_last_words_open(r->store, r->row.id);
    fatal_set_file(r->words);
}

static int begin(struct runner *r, int64_t id, struct err *err)
{
    if (job_read_own(r->store, id, &r->row, err) < 0) return -1;
    job_row_release(&r->row);
    if (job_folder_make(r->store, id, err) < 0) return -1;
    if (take_lock(r, id, err) < 0) return -1;
    // From here on no other process writes the job's state.
    if (job_read_own(r->store, id, &r->row, err) < 0) return -1;
    if (r->row.state == STATE_DONE)
        return err_set(err, "job %lld is done: nothing to run", (long long)id);
    if (job_mark_running(r->store, id, err) < 0) return -1;
    relax(r->store);
    r->state = job_path(r->store, id, NULL);
    r->keep = job_sink_new(r->store, id);
    r->sinks = *r->setup->sinks;
    sinks_add(&r->sinks, job_sink(r->keep));
    r->job = (struct job){
        .id = id,
        .argc = r->row.argc,
        .argv = r->row.argv,
        .settings = r->row.settings,
        .sinks = &r->sinks,
        .resumed = r->row.runs > 0,
        .state = r->state,
        .ask = ask,
        .look = look,
        .runner = r,
        .answering = answering_open(r->store),
    };
    atomic_store(&r->setup->control->job, &r->job);
    note_last_words(r);
    return 0;
}

static enum job_state end_state(struct runner *r, int status)
{
    if (atomic_load(&r->job.cancel)) r->stop = JOB_CANCEL;
    if (r->stop == JOB_CANCEL) return STATE_CANCELLED;
    if (status == 0) return STATE_DONE;
    // Loading stops by failing.
    const bool paused = status == JOB_STOPPED || (!r->ran && r->stop == JOB_PAUSE);
    return paused && !*r->lost.text ? STATE_PAUSED : STATE_FAILED;
}

static enum job_state end(struct runner *r, int status, struct err *err)
{
    struct err why;
    enum job_state state = end_state(r, status);
    if (*r->lost.text) err_set(err, "the job's output cannot be saved: %s", r->lost.text);
    if (state == STATE_FAILED) job_log(&r->job, "failed: %s", err->text);
    if (job_sink_flush(r->keep, &why) < 0 && state == STATE_DONE) {
        state = STATE_FAILED;
        err_set(err, "the end of the job's output could not be saved: %s", why.text);
    }
    const char *message = state == STATE_FAILED ? err->text : "";
    if (job_mark_ended(r->store, r->job.id, state, message, &why) < 0 && state != STATE_FAILED) {
        state = STATE_FAILED;
        *err = why;
    }
    return state;
}

int job_run(struct store *s, int64_t id, const struct job_setup *setup, enum job_state *state,
            struct err *err)
{
    struct runner r = {
        .store = s, .setup = setup, .looking = ATOMIC_FLAG_INIT, .lock = -1, .words = -1
    };
    *state = STATE_FAILED;
    if (begin(&r, id, err) == 0) {
        int status = prepare(&r, err);
        if (status == 0) {
            r.ran = true;
            status = r.job.kind->run(&r.job, err);
        }
        *state = end(&r, status, err);
        atomic_store(&setup->control->job, NULL);
        if (r.job.answering >= 0) close(r.job.answering);
    }
    fatal_set_file(-1);
    if (r.words >= 0) close(r.words);
    model_free(r.job.model);
    job_sink_free(r.keep);
    job_row_release(&r.row);
    free(r.state);
    if (r.lock >= 0) close(r.lock);
    return *state == STATE_FAILED ? -1 : 0;
}
