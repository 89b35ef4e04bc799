// core/jobs/job.c -- the kinds of jobs, and a job's reports.
#include "core/jobs/job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

#include "core/base/cancel.h"
#include "core/base/mem.h"
#include "core/graph/hooks.h"
#include "core/methods/method.h"
#include "core/ranks/ranks.h"
#include "core/settings/settings.h"

static const char *const word_auto[] = { "auto", NULL };
static const char *const splits[] = { "data", "layers", NULL };
static const char *const word_none[] = { "none", NULL };

const struct setting job_settings[] = {
    { .key = "job.threads",
      .type = SETTING_INTEGER,
      .min = 1,
      .max = 1024,
      .def = "auto",
      .unit = "threads",
      .choices = word_auto,
      .stale = STALE_JOBS,
      .help = "Threads per rank of new jobs; auto divides a machine's cores among its ranks." },
    { .key = "job.ranks",
      .type = SETTING_INTEGER,
      .min = 1,
      .max = 4096,
      .def = "1",
      .unit = "processes",
      .stale = STALE_JOBS,
      .help = "Number of processes (ranks) of a new job, on this machine or on a queue's machines; "
              "more than one requires Open MPI." },
    { .key = "job.split",
      .type = SETTING_CHOICE,
      .def = "data",
      .choices = splits,
      .stale = STALE_JOBS,
      .help =
          "Parallelism of a new job: data gives each rank some of the samples; layers (only /eval "
          "and /ask --job) gives each rank some of the model's layers, for models that exceed one "
          "rank's memory." },
    { .key = "sweep.ranks",
      .type = SETTING_INTEGER,
      .min = 1,
      .max = 4096,
      .def = "auto",
      .unit = "processes",
      .choices = word_auto,
      .stale = STALE_JOBS,
      .help = "Ranks per value of a sweep; auto distributes job.ranks over the values as evenly as "
              "possible." },
    { .key = "job.folder",
      .type = SETTING_PATH,
      .def = "none",
      .choices = word_none,
      .stale = STALE_JOBS,
      .help = "Folder for the files of new jobs, shared by all machines of a cluster; none keeps "
              "them beside the database." },
    { .key = "job.nodes",
      .type = SETTING_INTEGER,
      .min = 1,
      .max = 4096,
      .def = "1",
      .unit = "nodes",
      .stale = STALE_JOBS,
      .help = "Number of nodes that share the ranks of a queued job (--sbatch)." },
    { .key = "job.gpus",
      .type = SETTING_INTEGER,
      .max = 64,
      .def = "0",
      .unit = "GPUs",
      .stale = STALE_JOBS,
      .help = "GPUs per node of a queued job; 0 computes on the shell's device." },
    { .key = "job.time",
      .type = SETTING_TEXT,
      .def = "none",
      .choices = word_none,
      .stale = STALE_JOBS,
      .help = "Time limit of a queued job in sbatch's format (90, 12:00:00, 2-00:00:00); none uses "
              "the partition's limit." },
    { .key = "job.partition",
      .type = SETTING_TEXT,
      .def = "none",
      .choices = word_none,
      .stale = STALE_JOBS,
      .help = "Slurm partition of a queued job; none uses the default partition." },
    { .key = "job.sbatch",
      .type = SETTING_TEXT,
      .def = "none",
      .choices = word_none,
      .stale = STALE_JOBS,
      .help =
          "Additional sbatch options of a queued job, separated by spaces (--account=x --qos=y)." },
    { .key = "job.nice",
      .type = SETTING_INTEGER,
      .max = 19,
      .def = "15",
      .stale = STALE_JOBS,
      .help = "Niceness of new jobs; 0 is normal priority." },
    { .key = "job.pause_while_answering",
      .type = SETTING_FLAG,
      .def = "off",
      .stale = STALE_NOTHING,
      .help = "Pauses jobs while an answer is generated." },
    { 0 },
};

static const struct job_kind *const *kinds; // NULL-terminated

void job_kinds_register(const struct job_kind *const *all)
{
    kinds = all;
}

static const struct job_kind *job_kind_at(int index)
{
    for (int i = 0; i < index; i++)
        if (!kinds[i]) return NULL;
    return index >= 0 ? kinds[index] : NULL;
}

const struct job_kind *job_kind_find(const char *name)
{
    const struct job_kind *kind;
    for (int i = 0; (kind = job_kind_at(i)); i++)
        if (!strcmp(kind->name, name)) return kind;
    return NULL;
}

void job_results_add(struct job_results *r, const char *key, char *value)
{
    r->list = xreallocarray(r->list, r->count + 1, sizeof *r->list);
    r->list[r->count++] = (struct job_result){ xstrdup(key), value };
}

void job_results_free(struct job_result *results, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(results[i].key);
        free(results[i].value);
    }
    free(results);
}

const char *job_end_value(const struct job_end *end, const char *key)
{
    for (size_t i = 0; i < end->count; i++)
        if (!strcmp(end->results[i].key, key)) return end->results[i].value;
    return NULL;
}

bool job_splits_layers(const struct settings *s)
{
    return settings_is(s, "job.split", "layers") && settings_integer(s, "job.ranks") > 1;
}

enum job_stop job_stopped(struct job *j)
{
    return j->stop_reason ? j->stop_reason(j) : JOB_GO;
}

enum job_stop job_agree(struct job *j)
{
    enum job_stop stop = job_stopped(j);
    ranks_share(j->ranks, &stop, sizeof stop, 0);
    return stop;
}

// --- pausing -------------------------------------------------------------------------------------

static void poll_requests(struct job *j)
{
    if (j->poll) j->poll(j);
}

static void poll_within(void *self)
{
    poll_requests(self);
}

static void report_reading(void *self, const char *what, uint64_t done, uint64_t total)
{
    struct job *j = self;
    sinks_progress(j->sinks, &j->reading, what, (double)done, (double)total);
}

void job_watch(struct job *j)
{
    const struct cancel_watcher by = { poll_within, report_reading, j };
    cancel_watch(&j->cancel, &by);
}

// While a shell answers, it holds a shared lock, which the kernel releases if the shell dies.
// Another job's test holds the lock for an instant, so a failed test is repeated once.
static bool answers(const struct job *j)
{
    for (int i = 0; i < 2; i++) {
        const int status = flock(j->answer_lock, LOCK_EX | LOCK_NB), why = errno;
        if (status == 0) flock(j->answer_lock, LOCK_UN);
        if (status == 0 || why != EWOULDBLOCK) return false;
    }
    return true;
}

void job_yield(struct job *j)
{
    const struct timespec moment = { .tv_nsec = 10000000 };
    poll_requests(j);
    while (j->answer_lock >= 0 && !atomic_load(&j->stop_requested) && answers(j)) {
        nanosleep(&moment, NULL); // a signal ends it early
        poll_requests(j);
    }
}

static bool yield_wants(void *self, const struct site *site, int layer)
{
    return site == SITE_LAYER_IN || site == SITE_VISION_LAYER;
}

static int yield_run(void *self, struct graph *g, const struct site *site, struct site_args *args)
{
    job_yield(self);
    return 0;
}

void job_hooks(struct job *j, struct hooks *hooks)
{
    hooks_add(
        hooks,
        &(struct hook){
            .wants = yield_wants, .run = yield_run, .self = j, .drafts = true, .idle = true });
}

// --- reports -------------------------------------------------------------------------------------

void job_metric(struct job *j, const char *series, int64_t step, double value)
{
    sinks_emit(j->sinks, &(struct event){
                             .kind = EVENT_METRIC, .key = series, .count = step, .real = value });
}

void job_step(struct job *j, int64_t step)
{
    sinks_emit(j->sinks, &(struct event){ .kind = EVENT_STEP, .count = step });
}

void job_rewind(struct job *j, int64_t step)
{
    sinks_emit(j->sinks, &(struct event){ .kind = EVENT_REWIND, .count = step });
}

void job_progress(struct job *j, struct pace *pace, double step, double steps, double loss)
{
    const struct event_progress progress = { .job = j->id,
                                             .what = j->kind ? j->kind->name : "job",
                                             .step = step,
                                             .steps = steps,
                                             .loss = loss,
                                             .eta_s = pace_left(pace, step, steps) };
    sinks_emit(j->sinks, &(struct event){ .kind = EVENT_PROGRESS, .progress = &progress });
}

void job_log(struct job *j, const char *format, ...)
{
    struct buf b = { 0 };
    va_list args;
    va_start(args, format);
    buf_vprintf(&b, format, args);
    va_end(args);
    sinks_emit(j->sinks, &(struct event){ .kind = EVENT_NOTICE, .text = b.data });
    buf_release(&b);
}

void job_result(struct job *j, const char *key, const char *format, ...)
{
    struct buf b = { 0 };
    va_list args;
    va_start(args, format);
    buf_vprintf(&b, format, args);
    va_end(args);
    sinks_emit(j->sinks, &(struct event){ .kind = EVENT_RESULT, .key = key, .value = b.data });
    buf_release(&b);
}

void job_score(struct job *j, const struct event_score *score)
{
    sinks_emit(j->sinks, &(struct event){ .kind = EVENT_SCORE, .score = score });
}
