// core/eval/calibrate.c -- the job `calibrate`: runs the prompts of a data set through the
// model, while a kind of calibration (core/methods/calibration.h) accumulates its sums.
//
// A pass covers a sample's messages up to the last question and a generation prompt, but no answer.
// Methods work as in a chat, except that pruning and FFN approximation are off. A sample's sums are
// added to the total only after its pass succeeds; each rank runs one sample at a time. A pause
// writes the sums to STATE/sums.safetensors.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/adapter/provenance.h"
#include "core/base/file_out.h"
#include "core/base/hash.h"
#include "core/base/items.h"
#include "core/base/text.h"
#include "core/data/dataset.h"
#include "core/data/notices.h"
#include "core/eval/evaluate_job.h"
#include "core/eval/grid.h"
#include "core/jobs/identity.h"
#include "core/jobs/job.h"
#include "core/jobs/job_data.h"
#include "core/methods/calibration.h"
#include "core/probes/measure.h"
#include "core/ranks/ranks.h"
#include "core/talk/answer.h"

enum { SAMPLES = 500, LOGGED = 20 };

struct options {
    const char *kind_name, *out;
    struct set_source set;
    const struct calibration_kind *kind;
    int64_t limit;
};

const struct option_row calibrate_rows[] = {
    { "KIND", NULL, "the kind of calibration", OPTION_TEXT,
      .at = offsetof(struct options, kind_name) },
    { "DATA", NULL, "the data set", OPTION_TEXT, .at = offsetof(struct options, set.data) },
    { "OUT", NULL, "the file to write", OPTION_TEXT, .at = offsetof(struct options, out) },
    SET_SOURCE_OPTIONS(struct options, set,
                       "treats the data as the downloaded files of an evaluation set (/help sets) "
                       "and uses its prompt"),
    { "--images", "DIR", "base folder for relative picture paths (default: the folder of DATA)",
      OPTION_TEXT, .at = offsetof(struct options, set.images) },
    { "--limit", "N",
      "number of samples (default 500); of each, only the prompt up to the last question is "
      "computed",
      OPTION_WHOLE, .at = offsetof(struct options, limit), 1, INT64_MAX },
    { .name = "--once", .help = "does nothing if OUT already exists" },
    JOB_OPTIONS,
    { 0 },
};

static int read_options(struct options *o, int argc, char **argv, struct err *err)
{
    *o = (struct options){ .limit = SAMPLES };
    if (options_parse(calibrate_rows, o, argc, argv, err) < 0) return -1;
    if (!(o->kind = calibration_kind_find(o->kind_name, err))) return -1;
    return set_source_find(&o->set, err);
}

static int check(int argc, char **argv, const struct settings *settings, const struct model *model,
                 struct err *err)
{
    struct options o;
    int status = read_options(&o, argc, argv, err);
    if (status == 0 && model && !model_has_vision(model))
        status = err_set(err, "the model '%s' is text-only: it has no visual tokens to measure",
                         model->name);
    if (status == 0) status = set_source_check(&o.set, err);
    if (status == 0 && access(o.out, F_OK) == 0)
        status = err_set(err, "'%s' already exists: choose another name", o.out);
    if (status == 0) status = file_out_check(o.out, err);
    set_source_release(&o.set);
    return status;
}

struct running {
    struct job *job;
    struct options o;
    struct dataset data;
    const struct settings *settings; // with pruning and FFN approximation off
    struct method_tensors tensors;
    struct conversation c;
    struct calibration_sums *sums, *before; // before: copied at the last doubling; NULL: none
    int64_t doubled;                        // number of samples used at the next doubling
    char hash[65], *state;
    char pictures[HASH_HEX]; // hash of the pictures of the processed samples
    struct data_notices notices;
    struct provenance from;     // model, adapter and settings that the sums depend on
    int64_t next, used, broken; // samples processed, used, skipped
    int64_t shown;              // samples with a picture, skipped or not
    struct err why;             // why the first skipped sample was skipped
};

static const char *arithmetic_of(const struct running *r)
{
    return model_arithmetic(r->job->model, r->job->backend, r->settings);
}

// Hashes a sample's pictures and counts its notices. Returns whether it repeats an earlier sample.
static bool note_sample(struct running *r, int64_t index)
{
    const struct model *m = r->job->model;
    struct sample s;
    const bool read = dataset_read(&r->data, index, &s, NULL) == 0;
    r->shown += read && s.dialogue.path_count > 0;
    identity_add_pictures(&r->data, read ? &s : NULL, r->pictures,
                          model_has_vision(m) ? &r->notices : NULL);
    data_notices_sample(&r->notices, m->tokenizer, &s,
                        DATA_UNUSED_CHOICES | (read ? DATA_PROMPT : 0));
    const bool repeats = s.repeats != NULL;
    if (repeats) data_notices_repeated(&r->notices, &s);
    sample_release(&s);
    return repeats;
}

// Continues with the sums that an earlier process saved; without a saved file, starts from the
// beginning.
static int resume(struct running *r, struct err *err)
{
    struct calibration c;
    if (!r->job->resumed || access(r->state, F_OK) < 0) return 0;
    if (calibration_open(&c, r->state, err) < 0) return -1;
    int status = calibration_fits(&c, r->job->model, err);
    // "data" has the hash of the data, the index of the next sample, the hash of the pictures of
    // the samples before it, and the provenance: "HASH@12:HASH adapter=..."
    const char *place = c.data ? strchr(c.data, '@') : NULL;
    if (status == 0 && !place) status = err_set(err, "'%s' is not the state of this job", r->state);
    if (status == 0 && place) {
        char *end, *was_data = xstrndup(c.data, (size_t)(place - c.data));
        r->next = strtoll(place + 1, &end, 10);
        for (int64_t i = 0; *end == ':' && i < r->next && i < r->data.count; i++) note_sample(r, i);
        // Earlier versions did not record the pictures.
        char *was_pictures = *end == ':' ? xstrndup(end + 1, strcspn(end + 1, " ")) : NULL;
        const struct identity was = { .data = was_data, .pictures = was_pictures }, is = {
            .data = r->hash, .pictures = r->pictures, .data_path = r->o.set.data
        };
        status = identity_same(&was, &is, err);
        if (status == 0 && (end == place + 1 || r->next < 0 || r->next > r->data.count))
            status = err_set(err, "'%s' is damaged: it does not name its next sample", r->state);
        free(was_data);
        free(was_pictures);
    }
    if (status == 0 && c.arithmetic && strcmp(c.arithmetic, arithmetic_of(r)) != 0)
        status = err_set(
            err,
            "the job started with matrix products in %s, but this device uses %s: start a new one",
            c.arithmetic, arithmetic_of(r));
    // Older versions did not record the provenance.
    const char *was = place ? strchr(place, ' ') : NULL;
    char *now = provenance_state(&r->from);
    if (status == 0 && was && !items_same(was + 1, now, ", "))
        status = err_set(err,
                         "model, adapter or settings have changed since the job started (were "
                         "%.200s, now %.200s): restore them, or start another job",
                         was[1] ? was + 1 : "defaults", *now ? now : "defaults");
    free(now);
    struct calibration_sums *sums = status == 0 ? calibration_read(&c, err) : NULL;
    if (sums && place) {
        calibration_add(r->sums, sums);
        r->used = c.count > 0 ? c.count : 0;
    }
    calibration_close(&c);
    status = sums ? 0 : -1;
    calibration_free(sums);
    return status;
}

static int write_sums(struct running *r, bool whole, struct err *err)
{
    if (ranks_number(r->job->ranks) > 0) return 0;
    char *from = provenance_state(&r->from);
    char *place = xasprintf("%s@%lld:%s %s", r->hash, (long long)r->next, r->pictures, from);
    const struct calibration_source source = { .model = r->job->model->checkpoint->weights,
                                               .data = whole ? r->hash : place,
                                               .count = r->used,
                                               .arithmetic = arithmetic_of(r),
                                               .files = r->job->model->checkpoint->files };
    int status = calibration_write(r->sums, &source, whole ? r->o.out : r->state, err);
    free(place);
    free(from);
    return status;
}

static int run_sample(struct running *r, int64_t index, struct calibration_sums *sums,
                      struct err *err)
{
    struct sample s;
    struct hooks hooks;
    const struct sinks nobody = { 0 };
    const struct answer_options options = { .forward_only = true, .whole = true };
    bool answered;
    int status = dataset_read(&r->data, index, &s, err);
    if (status == 0)
        status = conversation_show(&r->c, &r->data, &s, dialogue_question(&s.dialogue), err);
    if (status == 0) status = conversation_hooks(&r->c, r->settings, r->tensors, &hooks, err);
    if (status == 0) {
        const struct hook hook = calibration_hook(sums), finite = finite_hook();
        hooks_add(&hooks, &finite);
        hooks_add(&hooks, &hook);
        job_hooks(r->job, &hooks);
        status = answer_run(&r->c, r->settings, &hooks, &r->job->cancel, &options, &nobody,
                            &answered, err);
    }
    sample_release(&s);
    return status;
}

// A sample's sums, which are discarded if its pass failed.
struct measured {
    struct calibration_sums *sums;
    int from; // rank that measured it
    struct {
        int status;
        struct err why;
    } end;
};

// Called when each rank has run one sample. Every rank gets the sums of all ranks and adds them in
// the order of the samples, so the result is bit-identical to that of a job with one rank.
static void add_round(struct running *r, struct measured *mine)
{
    struct ranks *ranks = r->job->ranks;
    const int count = ranks_count(ranks);
    for (int k = 0; k < count && r->next < r->data.count && r->used < r->o.limit; k++, r->next++) {
        struct measured one = *mine;
        one.from = k;
        if (k != mine->from) one.sums = calibration_start(r->o.kind, r->job->model);
        ranks_share(ranks, &one.end, sizeof one.end, k);
        bool repeats = false;
        if (ranks_number(ranks) == 0) repeats = note_sample(r, r->next);
        ranks_share(ranks, &repeats, sizeof repeats, 0);
        // A repeated sample counts once, as in evaluations.
        if (!repeats && one.end.status == 0) {
            ranks_share(ranks, one.sums->data, one.sums->count * sizeof *one.sums->data, k);
            calibration_add(r->sums, one.sums);
            r->used++;
        } else if (!repeats) { // an unusable sample is skipped
            if (!r->broken) r->why = one.end.why;
            if (++r->broken <= LOGGED)
                job_log(r->job, "sample #%lld is skipped: %s", (long long)r->next,
                        one.end.why.text);
        }
        if (k != mine->from) calibration_free(one.sums);
    }
}

// Each time the number of samples doubles, reports how much the results have changed.
static void report_change(struct running *r)
{
    const struct calibration_kind *kind = r->o.kind;
    if (!kind->change || r->used < r->doubled) return;
    if (r->before) {
        char *name = xasprintf("%s.change", kind->name);
        job_metric(r->job, name, r->used, kind->change(r->sums, r->before));
        free(name);
    }
    calibration_free(r->before);
    r->before = calibration_start(kind, r->job->model);
    memcpy(r->before->data, r->sums->data, r->sums->count * sizeof *r->sums->data);
    r->doubled = 2 * r->used;
}

static int calibrate(struct grid *g, size_t cell, struct err *err)
{
    struct running *r = g->self;
    struct job *j = g->job;
    r->settings = g->cells[cell].settings;
    const struct set_source *set = &g->cells[cell].set;
    if (set_source_open(set, &r->data, err) < 0 || set_source_hash(&r->data, r->hash, err) < 0 ||
        grid_use(g, cell, err) < 0)
        return -1;
    r->tensors = g->tensors;
    const struct provenance_env env = { j->model, g->adapters.active, j->backend, r->settings };
    provenance_of_job(&r->from, &env);
    r->state = xasprintf("%s/sums.safetensors", j->state);
    r->sums = calibration_start(r->o.kind, j->model);
    conversation_set_model(&r->c, j->model);
    if (resume(r, err) < 0 || job_data_same(j->ranks, set->data, r->hash, err) < 0) return -1;

    const int64_t count = r->data.count < r->o.limit ? r->data.count : r->o.limit;
    g->pace = pace_from((double)r->used);
    while (r->next < r->data.count && r->used < r->o.limit) {
        const enum job_stop stop = job_agree(j);
        if (stop == JOB_PAUSE && write_sums(r, false, err) < 0) return -1;
        if (stop) return JOB_STOPPED;
        struct measured mine = { .sums = calibration_start(r->o.kind, j->model),
                                 .from = ranks_number(j->ranks) };
        const int64_t index = r->next + mine.from;
        if (index < r->data.count) {
            mine.end.status = run_sample(r, index, mine.sums, &mine.end.why);
            ranks_add_done(j->ranks, 1);
        }
        const bool cancelled = atomic_load(&j->cancel);
        if (!cancelled) add_round(r, &mine);
        if (!cancelled && r->used) report_change(r);
        calibration_free(mine.sums);
        if (cancelled) return JOB_STOPPED;
        grid_progress(g, NULL, (double)r->used, (double)count);
    }
    if (!r->used)
        return err_set(err, "no sample of '%s' could be used: %s", set->data, r->why.text);
    if (r->o.kind->empty && r->o.kind->empty(r->sums))
        return err_set(err, "no sample of '%s' shows a picture: /calibrate %s needs pictures",
                       set->data, r->o.kind->name);

    if (write_sums(r, true, err) < 0) {
        write_sums(r, false, NULL); // the resumed job then only writes OUT
        return -1;
    }
    job_result(j, "calibration", "%s", r->o.out);
    job_result(j, "samples", "%lld", (long long)r->used);
    const int64_t skipped = r->next - r->used - r->notices.repeated;
    if (skipped > 0) // the reason is unknown if the sample was skipped before a pause
        job_result(j, "skipped", "%lld of %lld samples%s%s", (long long)skipped, (long long)r->next,
                   r->why.text[0] ? ", one of them: " : "", r->why.text);
    char *notices = ranks_number(j->ranks) == 0 ? data_notices_text(&r->notices) : NULL;
    if (!r->shown && ranks_number(j->ranks) == 0)
        text_append(&notices, xstrdup("no sample shows a picture: nothing was measured on visual "
                                      "tokens"));
    if (notices) job_result(j, "data", "%s", notices);
    free(notices);
    return 0;
}

static int run(struct job *j, struct err *err)
{
    static const struct grid_plan plan = { .run = calibrate };
    struct running r = { .job = j,
                         .data = { .file = -1 },
                         .notices = data_notices_new(j->settings) };
    struct settings *settings = settings_copy(j->settings);
    struct grid g = grid_of_job(j);
    const struct method *m;
    g.self = &r;
    struct grid_cell *cell = grid_add(&g, NULL, settings);
    conversation_init(&r.c, j->backend);
    int status = read_options(&r.o, j->argc, j->argv, err);
    for (int i = 0; status == 0 && (m = method_at(i)); i++) {
        if (!m->replaces) continue;
        if (method_on(m, settings))
            job_log(j, "%s is on, but calibrations run without it", m->title);
        status = settings_set(settings, m->toggle.key, m->toggle.off, err);
    }
    cell->set = r.o.set;
    if (status == 0) status = grid_run(&g, &plan, err);
    conversation_release(&r.c);
    calibration_free(r.sums);
    calibration_free(r.before);
    dataset_close(&r.data);
    provenance_release(&r.from);
    data_notices_release(&r.notices);
    free(r.state);
    set_source_release(&r.o.set);
    grid_release(&g);
    return status;
}

// Returns a text such as "'ffn.safetensors', over 40 samples".
static char *outcome(const struct job_end *end)
{
    const char *out = job_end_value(end, "calibration"), *used = job_end_value(end, "samples");
    const char *notices = job_end_value(end, "data"), *skipped = job_end_value(end, "skipped");
    if (!out || !used) return NULL;
    return xasprintf("'%s', over %s sample%s%s%s%s%s", out, used, !strcmp(used, "1") ? "" : "s",
                     skipped ? "; skipped: " : "", skipped ? skipped : "", notices ? "; " : "",
                     notices ? notices : "");
}

const struct job_kind job_kind_calibrate = {
    .name = "calibrate",
    .needs_model = true,
    .in_ranks = true,
    .check = check,
    .run = run,
    .outcome = outcome,
};
