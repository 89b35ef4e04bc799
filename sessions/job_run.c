// sessions/job_run.c -- runs a job in this process: lock, settings, model, run(), final state.
#include "sessions/job_run.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/cancel.h"
#include "core/base/clock.h"
#include "core/base/pace.h"
#include "core/engine/device.h"
#include "core/files/content.h"
#include "core/stages/stages.h"
#include "sessions/job_internal.h"
#include "sessions/job_ranks.h"

// Seconds for which writes of reports may fail (ranks write to a file, which no other program
// locks), and for which a process that has reported its end may still hold the lock.
enum { PATIENCE_S = 60, RANK_PATIENCE_S = 15, LEAVE_S = 10 };
static const double poll_s = 0.3; // interval between reads of the request

struct runner {
    struct job_channel *channel;
    const struct job_setup *setup;
    struct job job;
    struct job_row row;
    struct sinks sinks; // the process's sinks and the one that stores the reports
    struct job_sink *keep;
    struct report_writer part; // of a rank that reports for a part of the ranks
    atomic_flag polling;       // a thread is reading the request
    double polled;             // time of the last read
    enum job_stop request;     // as of that read
    enum job_stop stop;        // the reason to stop; a cancel replaces a pause
    struct err write_error;    // why reports can no longer be written
    bool ran;                  // run() was called
    atomic_bool remade;        // the folder was removed and made again, which is not logged yet
    bool taken;                // another process has taken over the job
    struct pace loading;       // of the model
    struct job_heartbeat *heartbeat; // of a rank
    int lock, fatal_file;            // descriptors; the second receives the message of fatal()
};

void job_control_pause(struct job_control *control)
{
    struct job *job = atomic_load(&control->job);
    atomic_store(&control->pause, true);
    if (job) atomic_store(&job->stop_requested, true);
}

static void open_fatal_file(struct runner *r)
{
    r->fatal_file = job_fatal_file_open(r->channel->folder, ranks_number(r->job.ranks));
    fatal_set_file(r->fatal_file);
}

// Makes a removed folder again: its lock tells shells that the job runs.
static void keep_folder(struct runner *r)
{
    struct job_channel *d = r->channel;
    pid_t other;
    if (!d->store || job_lock_valid(d->folder, "lock", r->lock)) return;
    const char *shared = settings_text(r->row.settings, "job.folder");
    const int lock = job_folder_make(d->store, d->id, shared, NULL) == 0
                         ? job_lock(d->folder, d->id, "lock", NULL)
                         : -1;
    if (lock < 0) {
        r->taken = job_alive(d->store, d->id, &other); // false: the next read retries
        return;
    }
    close(r->lock);
    r->lock = lock;
    atomic_store(&r->remade, true);
    if (r->fatal_file >= 0) close(r->fatal_file);
    open_fatal_file(r);
}

// Reads the request a few times a second.
static enum job_stop read_request(struct runner *r)
{
    if (clock_seconds() - r->polled < poll_s) return r->request;
    const bool read = job_channel_request(r->channel, &r->request, NULL) == 0;
    if (read && r->request != JOB_CANCEL) keep_folder(r); // not read: the next read retries
    if (r->taken) r->request = JOB_CANCEL;
    r->polled = clock_seconds();
    return r->request;
}

// Several threads of a pass may call this: one of them reads the request.
static void poll_requests(struct job *j)
{
    struct runner *r = j->runner;
    if (atomic_flag_test_and_set(&r->polling)) return;
    const enum job_stop request = read_request(r);
    if (request != JOB_GO) atomic_store(&j->stop_requested, true);
    if (request == JOB_CANCEL) atomic_store(&j->cancel, true);
    atomic_flag_clear(&r->polling);
}

static enum job_stop stop_reason(struct job *j)
{
    struct runner *r = j->runner;
    if (atomic_exchange(&r->remade, false))
        job_log(j,
                "the job's folder '%s' was removed while it ran; it was made again without the "
                "state that a resume needs",
                r->channel->folder);
    if (atomic_load(&j->cancel)) return r->stop = JOB_CANCEL; // also after a request to pause
    if (r->stop) return r->stop;
    if (atomic_load(&r->setup->control->pause)) {
        r->polled = 0; // reads again: a queue sends the same signal to pause and to cancel
        return r->stop = read_request(r) == JOB_CANCEL ? JOB_CANCEL : JOB_PAUSE;
    }
    const double usual = r->setup->rank ? RANK_PATIENCE_S : PATIENCE_S,
                 patience = r->setup->patience_s > 0 ? r->setup->patience_s : usual;
    struct err why;
    if (job_sink_failing(r->keep, &why) > patience) {
        r->write_error = why;
        return r->stop = JOB_PAUSE;
    }
    return r->stop = read_request(r);
}

struct loading {
    struct runner *r;
    const char *stage;
};

static bool report_loading(void *self, uint64_t done, uint64_t total)
{
    const struct loading *l = self;
    sinks_progress(&l->r->sinks, &l->r->loading, l->stage, (double)done, (double)total);
    return job_stopped(&l->r->job) == JOB_GO;
}

static int load(struct runner *r, struct err *err)
{
    struct loading loading = { r, "loading" }, hashing = { r, "hashing" };
    const struct load_progress progress = { .report = report_loading, .self = &loading },
                               reading = { .report = report_loading, .self = &hashing };
    if (!*r->row.model) return err_set(err, "/%s needs a model: /load MODEL first", r->row.kind);
    const struct model_partition partition = stages_partition(r->job.ranks);
    const bool splits = r->job.ranks && job_splits_layers(r->job.settings);
    r->job.model =
        model_open(r->row.model, r->job.backend, splits ? &partition : NULL, &progress, err);
    if (!r->job.model || checkpoint_identify(r->job.model->checkpoint, &reading, err) < 0)
        return -1;
    bool earlier = false;
    if (*r->row.fingerprint &&
        checkpoint_check_identity(r->job.model->checkpoint, r->row.fingerprint, &earlier, err) < 0)
        return err_in(err, "the model is not the one that the job was started with (restore it, or "
                           "start a new job)");
    if (earlier)
        job_log(&r->job,
                "the job was started by an earlier version, which did not record tokenizer, chat "
                "template and preprocessor: make sure that they are unchanged");
    return 0;
}

// Each rank has its own GPU; with NCCL, sums go from GPU to GPU.
static int open_device(struct runner *r, struct err *err)
{
    struct job *j = &r->job;
    struct err why = { 0 };
    char *name = j->ranks ? device_of_rank(r->row.device, j->ranks->local) : xstrdup(r->row.device);
    j->backend = r->setup->device(name, &why);
    const bool missing = j->backend && *why.text && j->ranks;
    if (!j->backend)
        err_set(err, "%s", why.text);
    else if (missing)
        err_set(err, "%s: every rank needs a GPU of its own: choose fewer ranks (job.ranks)",
                why.text);
    else if (*why.text)
        sinks_notice(j->sinks, "%s; computing on the CPU", why.text);
    free(name);
    if (!j->backend || missing) return -1;
    if (!j->ranks || !device_has_memory(j->backend)) return 0;
    if (ranks_gpu_open(j->ranks, device_stream, &why) < 0)
        sinks_notice(j->sinks, "sums over the ranks go through host memory: %s", why.text);
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
    if (open_device(r, err) < 0) return -1;
    // The ranks of a machine share its cores.
    cpu_set_t cores;
    if (!settings_is(j->settings, "job.threads", "auto")) {
        device_set_threads((int)settings_integer(j->settings, "job.threads"));
    } else if (j->ranks && sched_getaffinity(0, sizeof cores, &cores) == 0) {
        const int share = CPU_COUNT(&cores) / j->ranks->beside;
        device_set_threads(share > 1 ? share : 1);
    }
    return j->kind->needs_model ? load(r, err) : 0;
}

// Waits for the lock, because a process that has reported its end may take a moment to exit.
static int take_lock(struct runner *r, struct err *err)
{
    const struct timespec moment = { .tv_nsec = 20000000 };
    const double began = clock_seconds();
    struct job_channel *d = r->channel;
    for (;;) {
        struct job_row row;
        r->lock = job_lock(d->folder, d->id, "lock", err);
        if (r->lock >= 0) return 0;
        if (job_channel_read(d, &row, err) < 0) return -1;
        const bool runs = row.state == STATE_RUNNING;
        job_row_release(&row);
        if (runs || clock_seconds() - began > LEAVE_S)
            return err_set(err, "another process is already running job %lld", (long long)d->id);
        nanosleep(&moment, NULL);
    }
}

// Ranks other than 0 act only on a cancel of all ranks, unless they report for a part
// (report_part).
static enum job_stop stop_reason_beside(struct job *j)
{
    return atomic_load(&j->cancel) ? JOB_CANCEL : JOB_GO;
}

static void report_part(struct job *j, int part)
{
    struct runner *r = j->runner;
    r->part = reports_to_file(r->channel->folder, r->channel->id, part);
    r->keep = job_sink_new(&r->part);
    sinks_add(&r->sinks, job_sink(r->keep));
    j->stop_reason = stop_reason;
    j->poll = poll_requests;
    j->write_error = &r->write_error;
}

static void make_job(struct runner *r, const char *answer_lock)
{
    const bool beside = ranks_number(r->job.ranks) > 0;
    r->job = (struct job){
        .id = r->channel->id,
        .argc = r->row.argc,
        .argv = r->row.argv,
        .settings = r->row.settings,
        .sinks = &r->sinks,
        .ranks = r->job.ranks,
        .resumed = r->row.runs > 0,
        .state = r->channel->folder,
        .stop_reason = beside ? stop_reason_beside : stop_reason,
        .poll = beside ? NULL : poll_requests,
        .report_part = beside ? report_part : NULL,
        .runner = r,
        .answer_lock = answer_lock ? open(answer_lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1,
    };
    job_watch(&r->job);
}

// Begins a rank other than 0; only rank 0 takes the lock and reports the job's state.
static int begin_beside(struct runner *r, struct err *err)
{
    if (job_channel_read(r->channel, &r->row, err) < 0) return -1;
    open_fatal_file(r);
    make_job(r, NULL);
    return 0;
}

static int begin(struct runner *r, struct err *err)
{
    struct job_channel *d = r->channel;
    if (take_lock(r, err) < 0) return -1;
    // No other process writes the job's state now.
    if (job_channel_read(d, &r->row, err) < 0) return -1;
    if (r->row.state == STATE_DONE)
        return err_set(err, "job %lld is done: nothing to run", (long long)d->id);
    if (job_channel_state(d, STATE_RUNNING, "", err) < 0) return -1;
    // A sync at every step is not worth its cost: without it, a power cut may lose the latest
    // reports, kill -9 none.
    if (d->store) sqlite3_exec(d->store->db, "PRAGMA synchronous = NORMAL", NULL, NULL, NULL);
    r->keep = job_sink_new(&d->to);
    r->sinks = *r->setup->sinks;
    sinks_add(&r->sinks, job_sink(r->keep));
    make_job(r, d->answer_lock);
    atomic_store(&r->setup->control->job, &r->job);
    // Logs why the previous process was interrupted, if it left a fatal message.
    char *message = job_fatal_message(r->channel->folder, 0);
    if (*message) job_log(&r->job, "interrupted: %s", message);
    free(message);
    open_fatal_file(r);
    return 0;
}

// Writes the reason into the fatal file, for shells and for the process that watches the ranks.
static void write_reason(const struct runner *r, const struct err *err)
{
    if (write(r->fatal_file, err->text, strlen(err->text)) < 0) errno = 0; // the disk is full
}

static enum job_state end(struct runner *r, int status, struct err *err)
{
    struct err why;
    if (atomic_load(&r->job.cancel)) r->stop = JOB_CANCEL;
    // If a stop was requested while the model was loaded, loading failed: status is -1.
    const bool paused = status == JOB_STOPPED || (!r->ran && r->stop == JOB_PAUSE);
    enum job_state state = r->stop == JOB_CANCEL             ? STATE_CANCELLED
                           : status == 0                     ? STATE_DONE
                           : paused && !*r->write_error.text ? STATE_PAUSED
                                                             : STATE_FAILED;
    if (r->taken) {
        err_set(err, "the job's folder was removed, and another process runs job %lld now",
                (long long)r->channel->id);
        return STATE_FAILED; // the row belongs to the other process
    }
    if (*r->write_error.text)
        err_set(err, "the job's output cannot be saved: %s", r->write_error.text);
    // An error that ranks agreed on names its rank already (ranks_agree).
    if (state == STATE_FAILED && r->job.ranks && strncmp(err->text, "rank ", 5) != 0)
        err_in(err, "rank 0");
    if (state == STATE_FAILED) job_log(&r->job, "failed: %s", err->text);
    if (job_sink_flush(r->keep, &why) < 0 && state == STATE_DONE) {
        state = STATE_FAILED;
        err_set(err, "the end of the job's output could not be saved: %s", why.text);
    }
    const char *message = state == STATE_FAILED ? err->text : "";
    if (job_channel_state(r->channel, state, message, &why) < 0) {
        if (state != STATE_FAILED) *err = why;
        state = STATE_FAILED;
        write_reason(r, err); // for shells, which find neither a process nor an end
    }
    return state;
}

int job_run(struct job_channel *channel, const struct job_setup *setup, enum job_state *state,
            struct err *err)
{
    struct runner r = { .channel = channel,
                        .setup = setup,
                        .polling = ATOMIC_FLAG_INIT,
                        .lock = -1,
                        .fatal_file = -1 };
    *state = STATE_FAILED;
    int status = 0;
    if (setup->rank) {
        r.heartbeat = job_heartbeat_start(channel->folder);
        r.job.ranks = ranks_open(err);
        if (r.job.ranks) job_heartbeat_join(r.heartbeat, r.job.ranks);
        status = r.job.ranks ? 0 : -1;
    }
    const bool beside = ranks_number(r.job.ranks) > 0;
    if (status == 0) status = beside ? begin_beside(&r, err) : begin(&r, err);
    if (status == 0) {
        const bool first = ranks_number(r.job.ranks) == 0;
        ranks_share(r.job.ranks, &r.job.resumed, sizeof r.job.resumed, 0);
        status = prepare(&r, err);
        if (status == 0) {
            r.ran = true;
            status = r.job.kind->run(&r.job, err);
        }
        // All ranks write their last line before rank 0 reports the end.
        job_heartbeat_now(r.heartbeat);
        if (status >= 0) ranks_meet(r.job.ranks);
        if (first) {
            *state = end(&r, status, err);
        } else {
            *state = status < 0 ? STATE_FAILED : STATE_DONE;
            if (status < 0) write_reason(&r, err);
        }
        atomic_store(&r.setup->control->job, NULL);
        if (r.job.answer_lock >= 0) close(r.job.answer_lock);
    } else if (setup->rank) {
        if (r.fatal_file < 0)
            r.fatal_file = job_fatal_file_open(channel->folder, ranks_number(r.job.ranks));
        write_reason(&r, err);
    } else if (r.lock >= 0) {
        job_start_error_write(channel->folder, err);
    }
    cancel_unwatch(&r.job.cancel);
    // All ranks exit together; a failure aborts those that still work or wait. Ranks keep writing
    // their lines until then: rank 0 may be writing a large result.
    if (*state == STATE_DONE) ranks_meet(r.job.ranks);
    job_heartbeat_stop(r.heartbeat);
    if (r.job.ranks && *state != STATE_DONE) ranks_abort(r.job.ranks, 1);
    if (r.job.ranks) ranks_close(r.job.ranks);
    fatal_set_file(-1);
    if (r.fatal_file >= 0) close(r.fatal_file);
    model_free(r.job.model);
    job_sink_free(r.keep);
    report_writer_release(&r.part);
    job_row_release(&r.row);
    if (r.lock >= 0) close(r.lock);
    return *state == STATE_FAILED ? -1 : 0;
}
