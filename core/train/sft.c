// core/train/sft.c -- the job `train`: supervised fine-tuning (and training from scratch) on a data
// set.
//
//   data check -> parameters -> [ gradients of a step -> clip, AdamW -> metrics -> validation and
//   checkpoint when due ] ... -> best or last weights -> result in OUT
//
// A step is `accumulate` micro-batches of `batch` samples; no step reaches over the end of an
// epoch. Everything a step depends on is in its number, the settings and the checkpoint, so a
// resumed run computes the same bits.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/adapters.h"
#include "core/clock.h"
#include "core/train/result.h"
#include "core/train/sft_parts.h"

enum { SAVE_SECONDS = 300 };

int sft_options_read(struct sft_options *o, int argc, char **argv, struct err *err)
{
    *o = (struct sft_options){ 0 };
    for (int i = 0; i < argc; i++) {
        if (!strcmp(argv[i], "--resume"))
            o->resume = true;
        else if (!strcmp(argv[i], "--images") && i + 1 < argc)
            o->images = argv[++i];
        else if (!strncmp(argv[i], "--", 2))
            return err_set(err, "'%s' is no option here: /train DATA OUT [--images DIR] [--resume]",
                           argv[i]);
        else if (!o->data)
            o->data = argv[i];
        else if (!o->out)
            o->out = argv[i];
        else
            return err_set(err, "'%s' is too much: /train DATA OUT", argv[i]);
    }
    if (!o->out) return err_set(err, "a data file and a folder for the result: /train DATA OUT");
    return 0;
}

// --- beginning -----------------------------------------------------------------------------------

// The adapter of the settings: what was trained before is part of the model that is trained now.
static int put_on_adapter(struct sft *t, struct err *err)
{
    const struct settings *s = t->job->settings;
    if (settings_is(s, "adapter", "none")) return 0;
    t->base = adapter_read(settings_text(s, "adapter"), t->job->model, err);
    if (!t->base) return -1;
    adapter_scale(t->base, settings_real(s, "adapter.scale"));
    adapter_apply(t->base);
    return 0;
}

// A method's parameter. IRA's train whenever train.ira is on; others go with the projector.
static void add_extra(void *self, const char *name, struct tensor *tensor)
{
    struct sft *t = self;
    const bool ira = !strncmp(name, "ira.", 4);
    params_extra(&t->params, &(struct param_extra){
                                 .name = name,
                                 .tensor = tensor,
                                 .group = ira ? GROUP_IRA : GROUP_PROJECTOR,
                                 .part = ira ? PART_DECODER : PART_PROJECTOR,
                                 .with_part = !ira,
                                 .always = ira && settings_flag(t->job->settings, "train.ira") });
}

// Does what is trained leave the visual tokens before the methods as they are?
static bool eyes_frozen(const struct params *p)
{
    for (size_t i = 0; i < p->count; i++) {
        const struct weight *w = p->list[i].weight;
        if (w && (w->part == PART_VISION || w->part == PART_PROJECTOR)) return false;
    }
    return true;
}

static int open_params(struct sft *t, struct err *err)
{
    struct job *j = t->job;
    const struct method_env env = { .model = j->model,
                                    .backend = j->backend,
                                    .settings = j->settings,
                                    .tensors = adapter_tensors(t->base),
                                    .training = true };
    t->params.backend = j->backend;
    job_hooks(j, &t->hooks);
    if (methods_attach(&t->methods, &t->hooks, &env, err) < 0) return -1;
    methods_params(&t->methods, add_extra, t);
    if (params_open(&t->params, j->model, j->settings, err) < 0) return -1;
    t->train.feed.frozen = t->held.feed.frozen = eyes_frozen(&t->params);
    job_log(j, "%lld parameters are trained, %.4g%% of %lld", (long long)t->params.trained,
            100 * (double)t->params.trained / (double)t->params.total, (long long)t->params.total);
    return 0;
}

static void plan_steps(struct sft *t)
{
    const struct settings *s = t->job->settings;
    t->batch = settings_integer(s, "train.batch");
    t->accumulate = settings_integer(s, "train.accumulate");
    const int64_t batches = (t->train.count + t->batch - 1) / t->batch;
    t->per_epoch = (batches + t->accumulate - 1) / t->accumulate;
    const double epochs = settings_real(s, "train.epochs");
    t->steps = settings_is(s, "train.steps", "auto")
                   ? (int64_t)ceil(epochs * (double)t->per_epoch - 1e-9)
                   : settings_integer(s, "train.steps");
    if (t->steps < 1) t->steps = 1;
    t->order = xreallocarray(NULL, (size_t)t->train.count + 1, sizeof *t->order);
    t->epoch = -1;
    t->place = (struct save_place){ .best = INFINITY, .best_step = -1 };
}

static void set_graph(struct sft *t)
{
    struct job *j = t->job;
    t->arena.backend = j->backend;
    t->tape = (struct tape){ .backend = j->backend,
                             .recompute = settings_flag(j->settings, "train.checkpointing") };
    t->graph = (struct graph){ .backend = j->backend,
                               .arena = &t->arena,
                               .hooks = &t->hooks,
                               .settings = j->settings,
                               .cancel = &j->cancel };
    if (settings_is(j->settings, "compute.matmul", "bf16")) t->graph.matmul = MATMUL_BF16;
}

// The record of OUT: what the run is, and with `what` what came out of it.
static int record(struct sft *t, const char *what, struct err *err)
{
    cJSON *r = cJSON_CreateObject();
    const struct settings *s = t->job->settings;
    cJSON_AddStringToObject(r, "program", "vlmsh " VERSION);
    cJSON_AddStringToObject(r, "state", what ? "done" : "running");
    cJSON_AddStringToObject(r, "model", t->job->model->name);
    cJSON_AddStringToObject(r, "fingerprint", t->job->model->checkpoint->fingerprint);
    cJSON_AddStringToObject(r, "data", t->options.data);
    cJSON_AddStringToObject(r, "data_sha256", t->data_hash);
    cJSON_AddNumberToObject(r, "samples", (double)t->train.count);
    cJSON_AddNumberToObject(r, "validation_samples", (double)t->held.count);
    cJSON_AddNumberToObject(r, "steps", (double)t->steps);
    cJSON_AddNumberToObject(r, "trained", (double)t->params.trained);
    cJSON_AddNumberToObject(r, "parameters", (double)t->params.total);
    cJSON *list = cJSON_AddObjectToObject(r, "settings");
    const struct setting *row;
    for (int i = 0; (row = settings_row(i)); i++)
        if (!strncmp(row->key, "train.", 6))
            cJSON_AddStringToObject(list, row->key, settings_text(s, row->key));
    if (what) {
        cJSON_AddStringToObject(r, "result", what);
        if (t->place.step > t->begun_step) cJSON_AddNumberToObject(r, "loss", t->loss);
        if (t->place.best_step >= 0) {
            cJSON_AddNumberToObject(r, "best_step", (double)t->place.best_step);
            cJSON_AddNumberToObject(r, "validation_loss", t->place.best);
        }
    }
    int status = out_record(&t->out, r, err);
    cJSON_Delete(r);
    return status;
}

static int begin(struct sft *t, struct err *err)
{
    if (settings_flag(t->job->settings, "train.ira") &&
        settings_set(t->job->settings, "ira.on", "on", err) < 0)
        return -1;
    int status = sft_data_open(t, err);
    if (status != 0) return status;
    if (put_on_adapter(t, err) < 0 || open_params(t, err) < 0) return -1;
    plan_steps(t);
    set_graph(t);
    optimizer_configure(&t->optimizer, &t->params, t->job->settings, t->steps);
    if (save_newest(t->out.path) >= 0) {
        const struct save_identity id = sft_identity(t);
        if (save_read(t->out.path, &t->params, &t->place, &id, err) < 0) return -1;
        job_log(t->job, "goes on after step %lld of %lld", (long long)t->place.step,
                (long long)t->steps);
    } else if (record(t, NULL, err) < 0) {
        return -1;
    }
    t->optimizer.step = t->begun_step = t->place.step;
    job_rewind(t->job, t->place.step);
    t->saved = t->begun = clock_seconds();
    return 0;
}

// --- steps ---------------------------------------------------------------------------------------

static int save(struct sft *t, struct err *err)
{
    const struct save_identity id = sft_identity(t);
    const int64_t keep = settings_integer(t->job->settings, "train.keep");
    t->saved = clock_seconds();
    return save_write(t->out.path, &t->params, &t->place, &id, keep > 1 ? keep : 1, err);
}

// Every so many steps, or when it is time.
static bool save_due(const struct sft *t)
{
    const struct settings *s = t->job->settings;
    if (settings_is(s, "train.save_every", "auto"))
        return clock_seconds() - t->saved >= SAVE_SECONDS;
    return t->place.step % settings_integer(s, "train.save_every") == 0;
}

static bool validation_due(const struct sft *t)
{
    const struct settings *s = t->job->settings;
    if (!t->held.count) return false;
    if (t->place.step == t->steps) return true;
    const int64_t every = settings_is(s, "train.eval_every", "auto")
                              ? (t->steps + 9) / 10
                              : settings_integer(s, "train.eval_every");
    return t->place.step % every == 0;
}

static int validate(struct sft *t, int64_t step, struct err *err)
{
    double loss;
    if (sft_validate(t, &loss, err) < 0) return -1;
    job_metric(t->job, "validation_loss", step, loss);
    if (!(loss < t->place.best)) return 0;
    char *path = xasprintf("%s/best.safetensors", t->out.path);
    int status = save_values(path, &t->params, err);
    free(path);
    t->place.best = loss;
    t->place.best_step = t->place.step;
    return status;
}

static void tell(struct sft *t, int64_t step, const struct optimizer_taken *taken, double rate)
{
    struct job *j = t->job;
    job_metric(j, "loss", step, t->loss);
    job_metric(j, "lr", step, taken->rate);
    job_metric(j, "grad_norm", step, taken->norm);
    job_metric(j, "tokens_per_s", step, rate);
    sft_tell_norms(t, step);
    const double done = (double)(t->place.step - t->begun_step);
    const double left = (double)(t->steps - t->place.step);
    job_progress(j, (double)t->place.step, (double)t->steps, t->loss,
                 (clock_seconds() - t->begun) / done * left);
}

static int one_step(struct sft *t, struct err *err)
{
    const int64_t step = t->place.step;
    const double start = clock_seconds();
    struct optimizer_taken taken;
    int64_t rows;
    methods_progress(&t->methods, (double)step / (double)t->steps);
    if (sft_gradients(t, &rows, err) < 0 ||
        optimizer_step(&t->optimizer, &t->params, &taken, err) < 0)
        return -1;
    t->place.step = t->optimizer.step;
    const double took = clock_seconds() - start;
    tell(t, step, &taken, took > 0 ? (double)rows / took : 0);
    if (validation_due(t) && validate(t, step, err) < 0) {
        t->torn = true;
        return -1;
    }
    job_step(t->job, step);
    return save_due(t) && t->place.step < t->steps ? save(t, err) : 0;
}

// 0, JOB_STOPPED or -1.
static int steps(struct sft *t, struct err *err)
{
    while (t->place.step < t->steps) {
        if (one_step(t, err) < 0 && !t->graph.cancelled) return -1;
        const enum job_stop stop = job_stopped(t->job);
        if (!stop && !t->graph.cancelled) continue;
        // Cut off among the samples of a step, the parameters are still those before it.
        if (stop == JOB_PAUSE && !t->torn && save(t, err) < 0) return -1;
        return JOB_STOPPED;
    }
    return 0;
}

// --- the end -------------------------------------------------------------------------------------

static int finish(struct sft *t, struct err *err)
{
    struct job *j = t->job;
    const char *what;
    char *best = xasprintf("%s/best.safetensors", t->out.path);
    int status = 0;
    if (t->place.best_step >= 0 && t->place.best_step != t->steps)
        status = save_values_read(best, &t->params, err);
    if (status == 0) status = result_write(t->out.path, &t->params, t->base, &what, err);
    if (status == 0) status = record(t, what, err);
    if (status == 0) {
        unlink(best);
        save_trim(t->out.path, settings_integer(j->settings, "train.keep"));
        job_result(j, what, "%s", t->out.path);
        if (t->place.step > t->begun_step) job_result(j, "loss", "%.6g", t->loss);
        if (t->place.best_step >= 0) {
            job_result(j, "best step", "%lld", (long long)t->place.best_step);
            job_result(j, "validation loss", "%.6g", t->place.best);
        }
    }
    free(best);
    return status;
}

static void release(struct sft *t)
{
    tape_release(&t->tape);
    if (t->params.backend) params_release(&t->params);
    methods_release(&t->methods);
    if (t->base) adapter_free(t->base);
    if (t->arena.backend) arena_release(&t->arena);
    sft_data_close(t);
    out_close(&t->out);
}

static int run(struct job *j, struct err *err)
{
    struct sft t = { .job = j, .out = { .lock = -1 } };
    if (sft_options_read(&t.options, j->argc, j->argv, err) < 0 ||
        out_open(&t.out, t.options.out, t.options.resume || j->resumed, err) < 0)
        return -1;
    int status = 0;
    if (!t.out.done) {
        status = begin(&t, err);
        if (status == 0) status = steps(&t, err);
        // So that nothing is computed twice if the result cannot be written.
        if (status == 0) status = save(&t, err);
        if (status == 0) status = finish(&t, err);
    }
    release(&t);
    return status;
}

// In the shell: what can be refused at once.
static int check(int argc, char **argv, const struct settings *settings, const struct model *model,
                 struct err *err)
{
    struct sft_options o;
    if (sft_options_read(&o, argc, argv, err) < 0 || out_check(o.out, o.resume, err) < 0) return -1;
    if (access(o.data, R_OK) < 0) return err_set(err, "cannot read the data '%s'", o.data);
    return model ? params_check(model, settings, err) : 0;
}

const struct job_kind job_kind_train = {
    .name = "train",
    .usage = "DATA OUT [--images DIR] [--resume]",
    .help = "Trains the weights of train.method on a data set; the result lies in OUT.",
    .needs_model = true,
    .check = check,
    .run = run,
};
