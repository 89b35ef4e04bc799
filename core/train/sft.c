// core/train/sft.c -- the job `train`: supervised fine-tuning (and training from scratch) on a data
// set.
//
//   data check -> parameters -> [ gradients of a step -> clip, AdamW -> metrics -> validation and
//   checkpoint when due ] ... -> best or last weights -> result in OUT
//
// A step is `accumulate` micro-batches of `batch` samples and never spans two epochs. A step
// depends only on its number, the settings and the checkpoint, so a resumed run is bit-identical.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/model/families/family.h"
#include "core/ranks/ranks.h"
#include "core/settings/settings.h"
#include "core/train/result.h"
#include "core/train/sft_parts.h"

enum { SAVE_SECONDS = 300 };

const struct option_row sft_rows[] = {
    { "DATA", NULL, "the data set", OPTION_TEXT, .at = offsetof(struct sft_options, data) },
    { "OUT", NULL, "the output folder", OPTION_TEXT, .at = offsetof(struct sft_options, out) },
    { "--images", "DIR", "base folder for relative picture paths (default: the folder of DATA)",
      OPTION_TEXT, .at = offsetof(struct sft_options, images) },
    { "--resume", NULL, "continues the unfinished run in OUT (same model, data, settings, adapter)",
      OPTION_FLAG, .at = offsetof(struct sft_options, resume) },
    JOB_OPTIONS,
    { 0 },
};

static int sft_options_read(struct sft_options *o, int argc, char **argv, struct err *err)
{
    *o = (struct sft_options){ 0 };
    return options_parse(sft_rows, o, argc, argv, err) < 0 ? -1 : 0;
}

// True if this rank writes the files of OUT.
static bool writes(const struct sft *t)
{
    return ranks_number(t->job->ranks) == 0;
}

// Makes the outcome of a step of the run the same on all ranks.
static int agree(struct sft *t, int status, struct err *err)
{
    status = ranks_agree(t->job->ranks, status, err);
    t->in_step = status < 0;
    return status;
}

// --- start ---------------------------------------------------------------------------------------

static void reset_best(struct sft *t)
{
    t->state.point.best = t->state.point.best_loss = NAN;
    t->state.point.best_step = -1;
}

static void forget_validation(struct sft *t)
{
    struct save_point *p = &t->state.point;
    p->validation = p->score = NAN;
    for (int i = 0; i < SAVE_SETS; i++) p->sets[i] = NAN;
}

void sft_plan_steps(struct sft *t)
{
    const struct settings *s = t->job->settings;
    t->plan.batch = settings_integer(s, "train.batch");
    t->plan.accumulate = settings_integer(s, "train.accumulate");
    const int64_t batches = (t->train.count + t->plan.batch - 1) / t->plan.batch;
    t->plan.per_epoch = (batches + t->plan.accumulate - 1) / t->plan.accumulate;
    const double epochs = settings_real(s, "train.epochs");
    t->plan.steps = settings_is(s, "train.steps", "auto")
                        ? (int64_t)ceil(epochs * (double)t->plan.per_epoch - 1e-9)
                        : settings_integer(s, "train.steps");
    if (t->plan.steps < 1) t->plan.steps = 1;
    t->state.order = xreallocarray(NULL, (size_t)t->train.count + 1, sizeof *t->state.order);
    t->state.rows = xreallocarray(NULL, (size_t)t->train.count + 1, sizeof *t->state.rows);
    t->state.tokens = xreallocarray(NULL, (size_t)t->train.count + 1, sizeof *t->state.tokens);
    t->state.epoch = -1;
    t->state.point = (struct save_point){ .loss = NAN };
    forget_validation(t);
    reset_best(t);
}

// Before the first step: logs the trained parameters, the methods and the memory forecast.
static void report_plan(struct sft *t)
{
    struct job *j = t->job;
    size_t most;
    const size_t held =
        j->backend->memory ? j->backend->memory->held(&most) : 0; // the forecast counts it
    // Ranks share the memory of their machine, but not a GPU's.
    const double beside = j->ranks ? j->ranks->beside : 1,
                 own = (double)memory_own(&t->plan.forecast.parts),
                 unused = (double)(memory_free(j->backend) + held) /
                          (j->backend->own_memory ? 1 : beside),
                 host = (double)t->plan.forecast.parts.of[MEMORY_HOST];
    const uint64_t *of = t->plan.forecast.parts.of;
    const struct params_count *count = &t->plan.forecast.count[MODEL_PARTS];
    job_log(j, "training %lld parameters, %.4g%% of %lld, with matrix products in %s",
            (long long)count->trained, 100 * (double)count->trained / (double)count->total,
            (long long)count->total, t->plan.forecast.arithmetic);

    char *acting = roles_text(t->plan.forecast.role);
    const char *adapter = settings_text(j->settings, "adapter");
    if (strcmp(adapter, "none") != 0) job_log(j, "continues from the adapter '%s'", adapter);
    job_log(j, "methods in training: %s", acting ? acting : "none");
    free(acting);
    roles_say(t->plan.forecast.role, j->model, j->sinks);

    job_log(j, "forecast: %.0f MB of memory, plus %.0f MB of mapped weights; %.0f MB are free",
            own / 1e6, (double)t->plan.forecast.parts.of[MEMORY_MAPPED] / 1e6, unused / 1e6);
    if (host > 0)
        job_log(j, "plus %.0f MB of host memory, of which %.0f MB are free", host / 1e6,
                (double)memory_free(NULL) / beside / 1e6);
    const char *saved = ""; // a value of train.checkpointing that needs less memory
    if (j->backend->own_memory && !t->plan.forecast.offload)
        saved = ", train.checkpointing host";
    else if (!j->backend->own_memory && settings_is(j->settings, "train.checkpointing", "off"))
        saved = ", train.checkpointing on";
    const char *shard = ""; // a value of train.shard that needs less memory
    if (ranks_count(j->ranks) > 1 && settings_is(j->settings, "train.shard", "off"))
        shard = ", train.shard on";
    else if (ranks_count(j->ranks) > 1 && !settings_flag(j->settings, "train.exact_sum") &&
             !settings_is(j->settings, "train.shard", "gradients") &&
             of[MEMORY_GRADIENTS] > of[MEMORY_ACTIVATIONS])
        shard = ", train.shard gradients";
    if (unused > 0 && own > unused)
        job_log(j, "not enough memory: use a smaller train.batch%s%s%s, or train fewer weights",
                saved, shard, t->plan.forecast.moves_tables ? ", train.embedding host" : "");
}

// PEFT 0.21 with transformers 5 cannot load whole weights of experts, because their matrices are
// parts of one parameter there. For a class with a module for each expert, it takes every LoRA on
// gate_proj, up_proj and down_proj for one on joined experts.
static void report_peft(const struct sft *t)
{
    const struct params *p = &t->params;
    const bool apart = p->model->family->experts_apart;
    bool weights = false, lora = false;
    for (size_t i = 0; i < p->count; i++) {
        const struct param *one = &p->list[i];
        weights |= one->kind == PARAM_WEIGHT && strstr(one->name, ".experts.");
        lora |= apart && one->kind == PARAM_LORA_A && strstr(one->name, ".mlp.");
    }
    if (!p->model->decoder.config.experts.count) return;
    if (weights)
        job_log(t->job, "PEFT ignores the whole weights of experts in this adapter. For other "
                        "programs, merge it (/adapter merge)");
    if (lora)
        job_log(t->job,
                "PEFT with transformers 5 ignores LoRA of shared experts and dense MLPs in this "
                "adapter and joins LoRA of experts wrongly. For it, merge the adapter (/adapter "
                "merge)");
}

// Name of the score that selects the best weights.
static char *score_name(const struct sft *t)
{
    return t->sets.count ? sft_sets_names(&t->sets) : xstrdup(t->plan.metric->name);
}

// Writes the record of OUT: the identity of the run, and with `what` its result.
static int record(struct sft *t, const char *what, struct err *err)
{
    cJSON *r = cJSON_CreateObject();
    const struct settings *s = t->job->settings;
    cJSON_AddStringToObject(r, "program", "vlmsh " VERSION);
    cJSON_AddStringToObject(r, "state", what ? "done" : "running");
    cJSON_AddStringToObject(r, "model", t->job->model->name);
    cJSON_AddStringToObject(r, "fingerprint", t->job->model->checkpoint->fingerprint);
    cJSON_AddStringToObject(r, "arithmetic", graph_precision(t->graph.matmul));
    cJSON_AddStringToObject(r, "data", t->options.data);
    cJSON_AddStringToObject(r, "data_sha256", t->plan.hashes.data);
    cJSON_AddNumberToObject(r, "samples", (double)t->train.count);
    int64_t validated = t->validation.count;
    for (size_t i = 0; i < t->sets.count; i++) validated += t->sets.list[i].data.count;
    cJSON_AddNumberToObject(r, "validation_samples", (double)validated);
    cJSON_AddNumberToObject(r, "steps", (double)t->plan.steps);
    cJSON_AddNumberToObject(r, "trained", (double)t->params.counted[MODEL_PARTS].trained);
    cJSON_AddNumberToObject(r, "parameters", (double)t->params.counted[MODEL_PARTS].total);
    if (t->params.lora) { // alpha of the first LoRA, which a former adapter may have set
        const struct param *one = t->params.list;
        while (one->kind != PARAM_LORA_A) one++;
        const struct lora *l = one->weight->linear->lora;
        cJSON_AddNumberToObject(r, "lora_alpha", // rounded, because the scale is f32
                                round(lora_alpha(l->scale, l->a.shape[0], l->stabilised) * 1e6) /
                                    1e6);
    }
    cJSON *list = cJSON_AddObjectToObject(r, "settings");
    const struct setting *row;
    for (int i = 0; (row = settings_row(i)); i++)
        if (setting_in(row, "train"))
            cJSON_AddStringToObject(list, row->key, settings_text(s, row->key));
    roles_put(t->plan.forecast.role, r);
    const struct identity id = sft_identity(t);
    identity_put(&id, r);
    cJSON_AddStringToObject(r, "pictures_sha256", t->train.pictures);
    if (what) {
        cJSON_AddStringToObject(r, "result", what);
        if (!isnan(t->state.point.loss)) cJSON_AddNumberToObject(r, "loss", t->state.point.loss);
        if (t->state.point.best_step >= 0) {
            cJSON_AddNumberToObject(r, "best_step", (double)t->state.point.best_step);
            if (!isnan(t->state.point.best_loss))
                cJSON_AddNumberToObject(r, "validation_loss", t->state.point.best_loss);
            if (t->plan.metric) {
                char *name = score_name(t);
                cJSON_AddStringToObject(r, "validation_metric", t->plan.metric->name);
                cJSON_AddStringToObject(r, "validation_score_of", name);
                free(name);
                cJSON_AddNumberToObject(r, "validation_score", t->state.point.best);
            }
        }
    }
    int status = run_folder_record(&t->out, r, err);
    cJSON_Delete(r);
    return status;
}

// Reports a validation under the number of steps taken before it.
static void report_validation(const struct sft *t)
{
    const struct save_point *p = &t->state.point;
    if (!isnan(p->validation)) job_metric(t->job, "validation_loss", p->step, p->validation);
    if (!isnan(p->score)) job_metric(t->job, "validation_score", p->step, p->score);
    for (size_t i = 0; i < t->sets.count; i++) {
        if (isnan(p->sets[i])) continue;
        char *series = xasprintf("validation_score.%s", t->sets.list[i].name);
        job_metric(t->job, series, p->step, p->sets[i]);
        free(series);
    }
}

// Continues from the newest checkpoint. The reports of its validation belong to the step where the
// run continues, so they are repeated.
static int resume(struct sft *t, struct err *err)
{
    struct job *j = t->job;
    const struct identity id = sft_identity(t);
    if (save_read(t->out.path, &t->params, &t->state.point, &id, err) < 0)
        return sft_fail_series(t);
    job_log(j, "continuing after step %lld of %lld", (long long)t->state.point.step,
            (long long)t->plan.steps);
    const int64_t best = t->state.point.best_step;
    struct err why;
    if (best >= 0 && save_best_check(t->out.path, best, &why) < 0) {
        job_log(j,
                "the weights of the best validation, after step %lld, are lost (%s): searching for "
                "the best from here on",
                (long long)best, why.text);
        reset_best(t);
    }
    job_rewind(j, t->state.point.step);
    report_validation(t);
    t->report.pace = pace_from((double)t->state.point.step);
    job_progress(j, &t->report.pace, (double)t->state.point.step, (double)t->plan.steps,
                 t->state.point.loss);
    return 0;
}

// Microseconds that this rank has waited for other ranks.
static int64_t waited_us(const struct sft *t)
{
    return t->job->ranks ? atomic_load(&t->job->ranks->whole->waited_us) : 0;
}

// Forecasts the run. A resumed run trains the embedding where it did before; if one rank trains it
// on the host, all ranks do.
static int forecast(struct sft *t, struct err *err)
{
    struct forecast *f = &t->plan.forecast;
    // On a CPU, every table is host memory, wherever the run trained it before.
    if (t->job->backend->own_memory && settings_is(t->job->settings, "train.embedding", "auto"))
        t->plan.table = save_table_place(t->out.path);
    const int status = sft_forecast(t, f, err);
    const int stays = agree(t, status < 0 ? -1 : !f->moves_tables, err);
    if (stays < 0) return -1;
    if (stays == !f->moves_tables) return 0;
    job_log(t->job, "the embedding is trained on the host, as on another rank");
    t->plan.table = TABLE_ON_HOST;
    return sft_forecast(t, f, err);
}

// Returns 0, JOB_STOPPED or -1.
static int begin(struct sft *t, struct err *err)
{
    int status = agree(t, sft_data_open(t, err), err);
    if (status != 0) return status;
    // All ranks must train on the same samples, from the same adapter.
    if (!ranks_same(t->job->ranks, &t->plan.hashes, sizeof t->plan.hashes))
        return err_set(err,
                       "'%s', its pictures, train.validation or the adapter differ from rank 0's: "
                       "every rank needs the same files",
                       t->options.data);
    sft_plan_steps(t);
    sft_score_choose(t);
    status = forecast(t, err);
    if (status == 0) {
        report_plan(t); // before anything that may run out of memory
        status = sft_prepare(t, err);
    }
    if (agree(t, status, err) < 0) return -1;
    report_peft(t);
    char *unused = sft_unused(t);
    if (unused) job_log(t->job, "settings without effect in this run: %s", unused);
    free(unused);
    optimizer_configure(&t->optimizer, &t->params, t->job->settings, t->plan.steps);
    if (save_newest(t->out.path) >= 0) {
        if (resume(t, err) < 0) return -1;
    } else {
        if (writes(t) && record(t, NULL, err) < 0) return sft_fail_series(t);
        job_rewind(t->job, 0);
    }
    if (t->job->ranks) {
        // All ranks must hold the same weights after the same step: a rank that reads a different
        // folder of that name, or an older state of it, would silently corrupt the sums.
        const uint64_t state[] = { (uint64_t)t->state.point.step, params_digest(&t->params) };
        if (!ranks_same(t->job->ranks, state, sizeof state))
            return err_set(
                err,
                "'%s' differs from rank 0's copy (after step %lld): every rank needs the same "
                "folder and model",
                t->options.out, (long long)t->state.point.step);
    }
    if (writes(t)) save_best_trim(t->out.path, t->state.point.best_step);
    t->report.begun_waited = waited_us(t);
    t->optimizer.step = t->report.begun_step = t->state.point.step;
    t->state.saved = t->report.begun = clock_seconds();
    t->report.pace = pace_from((double)t->state.point.step);
    return 0;
}

// --- steps ---------------------------------------------------------------------------------------

// All ranks wait while rank 0 writes; that time does not count for the steps.
static int save(struct sft *t, struct err *err)
{
    const struct identity id = sft_identity(t);
    const int64_t keep = settings_integer(t->job->settings, "train.keep"), waited = waited_us(t);
    t->state.saved = clock_seconds();
    if (save_write(t->out.path, &t->params, t->base, &t->state.point, &id, keep, err) < 0)
        return sft_fail_series(t);
    if (writes(t)) save_best_trim(t->out.path, t->state.point.best_step);
    ranks_meet(t->job->ranks);
    t->report.begun += clock_seconds() - t->state.saved;
    t->report.begun_waited += waited_us(t) - waited;
    return 0;
}

static int validate(struct sft *t, struct err *err)
{
    double loss = NAN, score = NAN;
    const struct metric *m = t->plan.metric;
    struct save_point *p = &t->state.point;
    if (t->validation.count && sft_validate(t, &loss, err) < 0) return -1;
    if (m && sft_score(t, &score, p->sets, err) < 0) return -1;
    p->validation = loss;
    p->score = score;
    report_validation(t);
    // The smaller loss breaks ties.
    const double value = m ? score : loss;
    const bool better = p->best_step < 0   ? !isnan(value)
                        : value == p->best ? loss < p->best_loss
                        : m                ? metric_better(m, value, p->best)
                                           : value < p->best;
    if (!better) return 0;
    p->best = value;
    p->best_loss = loss;
    p->best_step = p->step;
    if (writes(t) && save_best(t->out.path, &t->params, p->step, err) < 0)
        return sft_fail_series(t);
    return 0;
}

// The ranks' counters run from the start of the process, so they are subtracted before a step (sign
// -1) and added after it (sign 1).
static void count_moved(struct sft *t, int sign)
{
    const struct ranks *r = t->job->ranks;
    if (!r) return;
    t->report.bytes += sign * atomic_load(&r->whole->bytes);
    t->report.moved_us += sign * atomic_load(&r->whole->moved_us);
}

static void sum_doubles(void *self, double *x, size_t n)
{
    const struct sft *t = self;
    if (t->job->ranks) ranks_sum_doubles(t->job->ranks, x, n);
}

static void report_metric(void *self, const char *name, double value)
{
    const struct sft *t = self;
    job_metric(t->job, name, t->optimizer.step - 1, value);
}

static void report_warning(void *self, const char *text)
{
    const struct sft *t = self;
    job_log(t->job, "%s", text);
    job_result(t->job, "warning", "%s", text);
}

// A step: samples -> losses and gradients -> clipping, AdamW -> metrics -> validation, checkpoint.
static int one_step(struct sft *t, struct err *err)
{
    struct job *j = t->job;
    const struct sft_plan *plan = &t->plan;
    struct sft_state *state = &t->state;
    const int64_t step = state->point.step;
    const double start = clock_seconds();
    struct optimizer_taken taken;
    int64_t rows;

    // Losses of the samples and their gradients, summed over the ranks.
    methods_progress(&t->methods, (double)step / (double)plan->steps);
    count_moved(t, -1);
    if (sft_gradients(t, &rows, err) < 0) return -1;
    t->in_step = !isfinite(state->loss);
    if (t->in_step) {
        err_set(err,
                "the loss of step %lld is not finite: lower train.lr, or check the weights for "
                "damage",
                (long long)step);
        return state->not_finite < 0 ? -1
                                     : loader_in_sample(&t->train.loader, state->not_finite, err);
    }

    // Clips the gradients (train.clip); AdamW updates the parameters at the schedule's rate.
    if (optimizer_step(&t->optimizer, &t->params, &taken, err) < 0) return -1;
    count_moved(t, 1);
    state->point.step = t->optimizer.step;
    state->point.loss = state->loss;
    forget_validation(t);

    // Metrics, for /plot and the panel of jobs.
    memory_record_peak(j->backend, &t->report.peak);
    const double took = clock_seconds() - start;
    job_metric(j, "loss", step, state->loss);
    if (settings_flag(j->settings, "train.ira")) {
        job_metric(j, "kl", step, state->kl.plain);
        job_metric(j, "kl_weighted", step, state->kl.weighted);
    }
    const struct method_reporter to = { sum_doubles, report_metric, report_warning, t };
    methods_report(&t->methods, &to);
    job_metric(j, "lr", step, taken.rate);
    job_metric(j, "grad_norm", step, taken.norm);
    job_metric(j, "tokens_per_s", step, took > 0 ? (double)rows / took : 0);
    sft_report_norms(t, step);
    job_progress(j, &t->report.pace, (double)state->point.step, (double)plan->steps, state->loss);

    // Validation every train.eval_every steps, and after the last.
    const int64_t now = state->point.step;
    const int64_t every = settings_is(j->settings, "train.eval_every", "auto")
                              ? (plan->steps + 9) / 10
                              : settings_integer(j->settings, "train.eval_every");
    if ((t->validation.count || t->sets.count) && (now == plan->steps || now % every == 0) &&
        validate(t, err) < 0) {
        state->torn = true;
        return -1;
    }
    job_step(j, step);

    // A checkpoint every train.save_every steps, or by default every SAVE_SECONDS.
    bool due;
    if (settings_is(j->settings, "train.save_every", "auto")) {
        due = clock_seconds() - state->saved >= SAVE_SECONDS; // by the clock of rank 0
        ranks_share(j->ranks, &due, sizeof due, 0);
    } else {
        due = now % settings_integer(j->settings, "train.save_every") == 0;
    }
    return due && now < plan->steps ? save(t, err) : 0;
}

// --- the end -------------------------------------------------------------------------------------

// Reports the share of the steps' time that each rank has waited for others; then the bytes that a
// step sums and shares, next to the bytes by formula (sft_step_bytes), and the time that this
// takes. Each element counts once: a rank sends and receives 2 (N - 1) / N times as much when N
// ranks sum in a ring. The time begins when all ranks have arrived; the time of sums on a GPU is
// unknown.
static void report_sums(const struct sft *t)
{
    struct ranks *r = t->job->ranks;
    if (!r) return;
    const double seconds = clock_seconds() - t->report.begun;
    double *share = xcalloc((size_t)r->count, sizeof *share);
    share[r->number] = (double)(waited_us(t) - t->report.begun_waited) * 1e-6 / seconds;
    ranks_sum_doubles(r, share, (size_t)r->count);
    struct buf b = { 0 };
    for (int k = 0; k < r->count; k++)
        buf_printf(&b, "%srank %d %.1f%%", k ? ", " : "", k, 100 * share[k]);
    job_result(t->job, "waited for other ranks", "%s", b.data);
    buf_release(&b);
    free(share);

    const double steps = (double)(t->state.point.step - t->report.begun_step),
                 ms = (double)t->report.moved_us * 1e-3;
    if (steps < 1) return;
    const int64_t most = t->plan.accumulate * t->plan.batch;
    double formula = (double)(t->report.passes * sft_pass_bytes(t));
    for (int64_t step = t->report.begun_step; step < t->state.point.step; step++) {
        const int64_t left = t->train.count - step % t->plan.per_epoch * most;
        // The last step of an epoch may have fewer samples.
        formula += (double)sft_step_bytes(t, left < most ? left : most);
    }
    job_result(t->job, "sums of a step", "%.6g MB, formula %.6g MB; %.3g ms, %.2g%% of the time",
               (double)t->report.bytes / steps * 1e-6, formula / steps * 1e-6, ms / steps,
               seconds > 0 ? 0.1 * ms / seconds : 0);
}

// Deletes files that a finished run no longer needs. `keep`: checkpoints to keep, -1: all.
static void tidy(const struct sft *t, int64_t keep)
{
    save_best_trim(t->out.path, -1);
    if (keep >= 0) save_trim(t->out.path, keep);
}

static int finish(struct sft *t, struct err *err)
{
    struct job *j = t->job;
    const char *what;
    const int64_t best = t->state.point.best_step;
    struct err why;
    int status = 0;
    if (best >= 0 && best != t->plan.steps &&
        save_best_read(t->out.path, &t->params, best, &why) < 0)
        status = err_set(err, "%s; resume the run to continue without them", why.text);
    if (status == 0) status = result_write(t->out.path, &t->params, t->base, &what, err);
    if (status == 0) { // before the record, after which nothing of the run is repeated
        job_result(j, what, "%s", t->out.path);
        if (t->state.point.step != t->report.begun_step) { // this process has computed steps
            struct memory_parts took;
            sft_memory(t, &took);
            job_result(j, "memory", "%.1f MB, forecast %.1f MB", (double)t->report.peak / 1e6,
                       (double)memory_own(&t->plan.forecast.parts) / 1e6);
            for (int i = 0; i < MEMORY_PARTS; i++)
                if (i != MEMORY_HOST || took.of[i])
                    job_result(j, memory_part_name(i), "%.1f MB, forecast %.1f MB",
                               (double)took.of[i] / 1e6,
                               (double)t->plan.forecast.parts.of[i] / 1e6);
        }
        for (int k = 0; k < 2; k++) {
            const struct sft_set *set = k ? &t->validation : &t->train;
            if (set->skipped)
                job_result(j, k ? "skipped in validation" : "skipped",
                           "%lld of %lld samples, the first: %.200s", (long long)set->skipped,
                           (long long)set->chosen, set->why ? set->why : "no trained token");
        }
        char *unused = sft_unused(t);
        if (unused) job_result(j, "without effect", "%s", unused);
        free(unused);
        if (t->report.unscored) job_result(j, "not scored in validation", "%s", t->report.unscored);
        if (t->train.unread) job_result(j, "data", "%s", t->train.unread);
        if (best >= 0) {
            job_result(j, "best step", "%lld", (long long)best);
            char *name = t->plan.metric ? score_name(t) : NULL;
            if (name)
                job_result(j, "validation score", "%.6g (%s)", t->state.point.best, name);
            else
                job_result(j, "validation loss", "%.6g", t->state.point.best);
            free(name);
        }
        status = record(t, what, err);
    }
    if (status == 0) tidy(t, settings_integer(j->settings, "train.keep"));
    return status;
}

// A finished run is never changed: different settings or data are an error.
static int check_finished(struct sft *t, struct err *err)
{
    cJSON *record = run_folder_read(t->out.path, err);
    int status = record ? sft_identify(t, NULL, err) : -1;
    if (status == 0) {
        const struct identity was = identity_of(record), is = sft_identity(t);
        status = identity_same(&was, &is, err);
        if (status < 0) err_in(err, "'%s' holds a finished training run", t->out.path);
    }
    cJSON_Delete(record);
    return status < 0 ? sft_fail_series(t) : 0;
}

// Returns 0, JOB_STOPPED or -1.
static int train(struct sft *t, struct err *err)
{
    const int status = begin(t, err);
    if (status != 0) return status;
    while (t->state.point.step < t->plan.steps) {
        if (one_step(t, err) < 0 && !t->graph.cancelled) return -1;
        const enum job_stop stop = t->graph.cancelled ? job_stopped(t->job) : job_agree(t->job);
        if (!stop && !t->graph.cancelled) continue;
        // A cancelled step has not changed the parameters, or its validation was cut off (torn).
        if (stop == JOB_PAUSE && !t->state.torn && save(t, err) < 0) return -1;
        return JOB_STOPPED;
    }
    // Saves a checkpoint first: if the result cannot be written, no step is computed twice.
    if (save(t, err) < 0) return -1;
    report_sums(t);
    return writes(t) && finish(t, err) < 0 ? sft_fail_series(t) : 0;
}

int sft_job(struct job *j, struct sft_series *series, struct err *err)
{
    struct sft t = { .job = j, .where = j->backend, .series = series, .out = { .lock = -1 } };
    if (sft_options_read(&t.options, j->argc, j->argv, err) < 0) return -1;
    // Only rank 0 opens the folder, and tells the others whether the run is finished.
    if (!writes(&t)) t.out.path = xstrdup(t.options.out);
    int status = writes(&t)
                     ? run_folder_open(&t.out, t.options.out, t.options.resume || j->resumed, err)
                     : 0;
    status = agree(&t, status, err);
    if (status == 0) ranks_share(j->ranks, &t.out.done, sizeof t.out.done, 0);
    if (status == 0) status = t.out.done ? check_finished(&t, err) : train(&t, err);
    if (status == 0 && t.out.done && writes(&t)) {
        job_log(j, "'%s' holds the finished result: nothing left to do", t.out.path);
        // The run may have been killed after it wrote its record and before it tidied up. Its own
        // train.keep applies.
        tidy(&t, t.out.keep);
    }
    // Ranks that wait for this one cannot begin the next run.
    if (status < 0 && ranks_count(j->ranks) > 1 && !t.in_step) sft_fail_series(&t);
    sft_release(&t);
    sft_data_close(&t);
    run_folder_close(&t.out);
    return status;
}

static int run(struct job *j, struct err *err)
{
    return sft_job(j, NULL, err);
}

// Runs in the shell, and makes the checks that can reject the job at once.
static int check(int argc, char **argv, const struct settings *settings, const struct model *model,
                 struct err *err)
{
    struct sft_options o;
    if (sft_options_read(&o, argc, argv, err) < 0 || run_folder_check(o.out, o.resume, err) < 0)
        return -1;
    if (dataset_check(o.data, err) < 0 || sft_validation_check(settings, err) < 0) return -1;
    return model ? params_check(model, settings, (int)settings_integer(settings, "job.ranks"), err)
                 : 0;
}

// Returns a text like "loss 0.2500 after 40 steps; validation loss 0.31 (best, at step 36); adapter
// in 'norms' (/adapter load applies it)".
static char *outcome(const struct job_end *end)
{
    static const char *const scores[] = { "validation score", "validation loss" };
    static const char *const skipped[] = { "skipped", "skipped in validation",
                                           "not scored in validation" };
    const char *step = job_end_value(end, "best step");
    const char *model = job_end_value(end, "model"), *adapter = job_end_value(end, "adapter");
    struct buf b = { 0 };
    if (!model && !adapter) return xstrdup("the result already existed");
    if (!isnan(end->loss))
        buf_printf(&b, "loss %.4f after %.0f step%s", end->loss, end->steps,
                   end->steps == 1 ? "" : "s");
    for (size_t i = 0; i < 2; i++) {
        const char *value = job_end_value(end, scores[i]);
        if (value)
            buf_printf(&b, "%s%s %s (best, at step %s)", b.length ? "; " : "", scores[i], value,
                       step ? step : "?");
    }
    buf_printf(&b, "%s%s in '%s' (%s)", b.length ? "; " : "", model ? "model" : "adapter",
               model ? model : adapter, model ? "/load opens it" : "/adapter load applies it");
    for (size_t i = 0; i < sizeof skipped / sizeof *skipped; i++) {
        const char *value = job_end_value(end, skipped[i]);
        if (value) buf_printf(&b, "; %s: %s", skipped[i], value);
    }
    if (job_end_value(end, "warning")) buf_printf(&b, "; %s", job_end_value(end, "warning"));
    if (job_end_value(end, "data")) buf_printf(&b, "; %s", job_end_value(end, "data"));
    return buf_take(&b);
}

const struct job_kind job_kind_train = {
    .name = "train",
    .needs_model = true,
    .in_ranks = true,
    .check = check,
    .run = run,
    .outcome = outcome,
};
