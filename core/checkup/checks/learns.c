// core/checkup/checks/learns.c -- checks that training works on this model: trains norms, LoRA and
// norm alignment (with --quick, norms only) on a few samples with the job `train`, loads each
// adapter, and deletes it.
//
// For norms and LoRA, the samples pair pictures with invented answers, which no model would give:
// the loss must fall, and the job's loss with the trained weights must equal the loss with the
// loaded adapter. Norm alignment trains on the model's own answers. After an adapter is unloaded,
// the model must compute the same bits as before.
#include "core/checkup/checkup_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/adapter/adapter.h"
#include "core/adapter/adapters.h"
#include "core/base/event.h"
#include "core/base/file_out.h"
#include "core/base/folder.h"
#include "core/base/json.h"
#include "core/eval/evaluate_parts.h"
#include "core/jobs/job.h"

static const char text_question[] = "What is the word?";
enum { SAMPLES = 4, OTHERS = 2, STEPS_MOST = 24, STEPS_LEAST = 6, STEPS_QUICK = 4, TOKENS = 16 };
// Share of its first value by which the loss must fall for each update. Every step trains on all
// samples, so that only the updates and rounding change the loss. Losses of the smallest models
// fell by 0.0047 or more.
static const double falls = 0.002;
// Losses are equal if they differ by at most this share, or by this much if they are below 1.
static const double equal = 0.01;
enum { TRAINING_S = 60 };
// If a prompt takes longer than this, image.downsample keeps a quarter of each picture's tokens.
static const double slow_s = 0.3;

static const char *const invented[SAMPLES] = {
    "seven grey umbrellas",
    "an old map of a harbour",
    "the number forty-two",
    "nothing but rain",
};

struct learns {
    struct checkup *c;
    char *data, *out; // files of the run
    bool sees;
    int samples, steps;
    int other[OTHERS], others; // pictures not trained on
    struct checkup_answer answer[OTHERS];
    // Reported by the job.
    double first, last, validation;
    const char *share; // image.downsample
};

// --- the data ------------------------------------------------------------------------------------

// Returns the picture of a sample; 0 for a text-only model, which has none.
static int picture_of(const struct learns *k, int i)
{
    return k->sees ? i % (int)k->c->view_count : 0;
}

static void add_turn(cJSON *turns, const char *from, const char *text)
{
    cJSON *turn = cJSON_CreateObject();
    cJSON_AddStringToObject(turn, "from", from);
    cJSON_AddStringToObject(turn, "value", text);
    cJSON_AddItemToArray(turns, turn);
}

// Writes the data file. `answers` NULL: the invented answers.
static int write_data(const struct learns *k, const struct checkup_answer *answers, int count,
                      struct err *err)
{
    cJSON *list = cJSON_CreateArray();
    for (int i = 0; i < count; i++) {
        cJSON *sample = cJSON_CreateObject(), *turns = cJSON_CreateArray();
        char *asked = xasprintf("%s%s", k->sees ? "<image>\n" : "",
                                k->sees ? checkup_question : text_question);
        const int picture = answers ? k->other[i] : picture_of(k, i);
        if (k->sees) {
            char *path = realpath(k->c->views[picture].path, NULL);
            cJSON_AddStringToObject(sample, "image", path ? path : k->c->views[picture].path);
            free(path);
        }
        add_turn(turns, "human", asked);
        add_turn(turns, "gpt", answers ? answers[i].text : invented[i]);
        cJSON_AddItemToObject(sample, "conversations", turns);
        cJSON_AddItemToArray(list, sample);
        free(asked);
    }
    char *text = cJSON_Print(list);
    const int status = file_out_update(k->data, text, strlen(text), err);
    cJSON_free(text);
    cJSON_Delete(list);
    return status;
}

// --- the job -------------------------------------------------------------------------------------

static void hear(void *self, const struct event *e)
{
    struct learns *k = self;
    if (e->kind == EVENT_METRIC && !strcmp(e->key, "loss")) {
        if (isnan(k->first)) k->first = e->real;
        k->last = e->real;
        checkup_progress(k->c, (double)e->count, k->steps);
    }
    if (e->kind == EVENT_RESULT && !strcmp(e->key, "validation loss"))
        k->validation = strtod(e->value, NULL);
}

static enum job_stop stop_reason(struct job *j)
{
    return checkup_stopped(((struct learns *)j->runner)->c) ? JOB_CANCEL : JOB_GO;
}

static void poll(struct job *j)
{
    const struct checkup *c = ((struct learns *)j->runner)->c;
    if (c->work->job) job_yield(c->work->job);
    if (c->work->job && atomic_load(&c->work->job->stop_requested)) atomic_store(&j->cancel, true);
    if (c->work->cancel && atomic_load(c->work->cancel)) atomic_store(&j->cancel, true);
}

static int train(struct learns *k, const struct settings *s, struct err *err)
{
    struct sinks sinks = { 0 };
    char *argv[] = { k->data, k->out };
    struct job j = { .kind = job_kind_find("train"),
                     .argc = 2,
                     .argv = argv,
                     .model = k->c->model,
                     .settings = (struct settings *)s,
                     .backend = k->c->backend,
                     .sinks = &sinks,
                     .state = k->c->scratch,
                     .stop_reason = stop_reason,
                     .poll = poll,
                     .runner = k,
                     .answer_lock = -1 };
    k->first = k->last = k->validation = NAN;
    sinks_add(&sinks, (struct sink){ .emit = hear, .self = k });
    const int status = j.kind->run(&j, err);
    conversation_stale(&k->c->talk, STALE_VISUAL);
    conversation_reset_methods(&k->c->talk);
    if (status == 0) return 0;
    checkup_stopped(k->c); // sets c->stopped if the job failed because it was stopped
    return status < 0 ? -1 : err_set(err, "stopped");
}

// --- losses --------------------------------------------------------------------------------------

static void ask(const struct learns *k, int picture)
{
    checkup_ask(k->c, &picture, k->sees, k->sees ? checkup_question : text_question);
}

// Computes the mean log-probability of the model's own answers about other pictures.
static int own_nats(struct learns *k, const struct settings *s, double *nats, struct err *err)
{
    double sum = 0;
    int64_t tokens = 0;
    for (int i = 0; i < k->others; i++) {
        double one;
        ask(k, k->other[i]);
        if (checkup_nats(k->c, s, &k->answer[i].ids, &one, err) < 0) return -1;
        sum += one;
        tokens += (int64_t)k->answer[i].ids.count;
    }
    *nats = sum / (double)tokens;
    return 0;
}

// Computes the mean loss of the samples as training does.
static int mean_loss(struct learns *k, const struct settings *s, double *loss, struct err *err)
{
    struct checkup *c = k->c;
    *loss = 0;
    for (int i = 0; i < k->samples; i++) {
        struct hooks hooks;
        struct evaluate_passes p = {
            .settings = s, .hooks = &hooks, .cancel = c->work->cancel, .c = &c->talk
        };
        double one;
        ask(k, picture_of(k, i));
        message_add_text(conversation_add(&c->talk, ROLE_ASSISTANT), invented[i]);
        if (conversation_hooks(&c->talk, s, checkup_tensors(c), &hooks, err) < 0 ||
            evaluate_loss(&p, c->talk.messages, c->talk.message_count, &one, err) < 0)
            return -1;
        if (p.cancelled) c->stopped = true;
        if (p.cancelled) return err_set(err, "stopped");
        *loss += one / k->samples;
    }
    return 0;
}

// --- one kind of training ------------------------------------------------------------------------

struct plan {
    const char *name, *params, *rate;
    bool align; // trains norm alignment on the model's own answers
};

static const struct plan plans[] = {
    { "norms", "@decoder:*norm*", "0.01", false },
    { "LoRA", "lora:*:8", "0.002", false },
    { "norm alignment", "norm_align.*", "0.01", true },
};

static struct settings *settings_of(const struct learns *k, const struct plan *p)
{
    char steps[16], batch[16];
    snprintf(steps, sizeof steps, "%d", k->steps);
    snprintf(batch, sizeof batch, "%d", p->align ? k->others : k->samples);
    return checkup_with(k->c, "train.params", p->params, "train.lr", p->rate, "train.steps", steps,
                        "train.batch", batch, "train.schedule", "constant", "train.warmup", "0",
                        "train.shuffle", "off", "train.validation", k->data, "train.eval_every",
                        steps, "train.score", "loss", "norm.align", p->align ? "on" : "off",
                        "image.downsample", k->share, "train.lora.alpha", "16", NULL);
}

// Loads the trained adapter, measures it and unloads it.
static int judge(struct learns *k, const struct plan *p, const struct settings *s, double before,
                 struct finding *f, struct err *err)
{
    struct checkup *c = k->c;
    struct adapter *trained = adapter_read(k->out, c->model, err);
    double loss = NAN, nats = NAN, after = NAN;
    if (!trained) return err_in(err, "the adapter just written");
    adapter_apply(trained);
    c->adapter = trained;
    conversation_reset_methods(&c->talk);
    int status = p->align ? 0 : mean_loss(k, s, &loss, err);
    if (status == 0) status = own_nats(k, s, &nats, err);
    adapter_free(trained);
    c->adapter = NULL; // a model with an adapter cannot be trained
    conversation_reset_methods(&c->talk);
    if (status == 0) status = own_nats(k, c->settings, &after, err);
    if (status < 0) return -1;
    finding_number(f, "loss, first step", k->first, "nats per token", k->samples);
    finding_number(f, "loss, last step", k->last, "nats per token", k->samples);
    finding_number(f, "steps", k->steps, "", 0);
    finding_number(f, "other answers", nats - before, "nats per token", k->others);
    if (!p->align)
        finding_number(f, "loss of the loaded adapter", loss, "nats per token", k->samples);
    if (after != before)
        finding_fails(f, "after unloading the adapter, the model computes different numbers");
    else if (!p->align && !(fabs(loss - k->validation) <= equal * fmax(1, k->validation)))
        finding_fails(f, "the loaded adapter has a loss of %.4g, the weights in training had %.4g",
                      loss, k->validation);
    else if (p->align)
        finding_measured(f,
                         "trained on the model's own answers for %d steps: they lose %.3g nats "
                         "per token compared with no alignment",
                         k->steps, before - nats);
    else if (!(k->last < (1 - falls * (k->steps - 1)) * k->first))
        finding_fails(f, "the loss fell only from %.4g to %.4g in %d steps", k->first, k->last,
                      k->steps);
    else
        finding_works(f, "the loss fell from %.4g to %.4g in %d steps; saved, loaded and unloaded",
                      k->first, k->last, k->steps);
    return 0;
}

static int learn(struct learns *k, const struct plan *p, struct err *err)
{
    struct checkup *c = k->c;
    struct settings *s = settings_of(k, p);
    struct err why = { 0 };
    double before = NAN;
    struct finding f = finding(c, p->name);
    int status =
        write_data(k, p->align ? k->answer : NULL, p->align ? k->others : k->samples, &why);
    if (status == 0) status = own_nats(k, c->settings, &before, &why);
    if (status == 0) status = train(k, s, &why);
    if (status == 0) status = judge(k, p, s, before, &f, &why);
    if (status < 0) finding_fails(&f, "%s", why.text);
    folder_remove(k->out);
    settings_free(s);
    if (c->stopped) *err = why;
    return c->stopped ? -1 : 0;
}

static int begin(struct learns *k, struct err *err)
{
    struct checkup *c = k->c;
    const bool quick = c->work->options.quick;
    const double step_s = 3.0 * SAMPLES * c->prompt_s * (c->prompt_s > slow_s ? 0.4 : 1);
    int status = 0;
    k->sees = model_has_vision(c->model);
    k->share = k->sees && c->prompt_s > slow_s ? "0.25" : "1";
    k->samples = quick ? SAMPLES / 2 : SAMPLES;
    k->steps = step_s > 0 ? (int)fmin(STEPS_MOST, c->scale * TRAINING_S / step_s) : STEPS_MOST;
    if (k->steps < STEPS_LEAST) k->steps = STEPS_LEAST;
    if (quick && c->prompt_s > slow_s) k->steps = STEPS_QUICK;
    k->others = OTHERS;
    for (int i = 0; i < k->others && status == 0; i++) {
        k->other[i] = k->sees ? (k->samples + i) % (int)c->view_count : 0;
        ask(k, k->other[i]);
        status = checkup_answer_some(c, TOKENS, &k->answer[i], err);
    }
    return status;
}

static int run(struct checkup *c, struct err *err)
{
    struct learns k = { .c = c };
    k.data = xasprintf("%s/samples.json", c->scratch);
    k.out = xasprintf("%s/trained", c->scratch);
    int status = 0;
    struct finding f;
    if (c->adapter || model_quantised(c->model)) {
        f = finding(c, "training");
        finding_skip(&f, c->adapter ? "an adapter is applied" : "the weights are quantised");
    } else {
        status = begin(&k, err);
        for (size_t i = 0; i < sizeof plans / sizeof *plans && status == 0; i++) {
            if (c->work->options.quick && i) continue;
            if (plans[i].align && !k.sees) continue;
            status = learn(&k, &plans[i], err);
        }
    }
    for (int i = 0; i < k.others; i++) checkup_answer_release(&k.answer[i]);
    free(k.data);
    free(k.out);
    return status;
}

const struct checkup_check check_learns = {
    .name = "learns",
    .shows = "Whether training norms and LoRA teaches the model a few invented answers, and "
             "whether the adapters can be saved, loaded and unloaded.",
    .cost = { .prompts = 90, .tokens = 32, .encodes = 12 },
    .quick = { .prompts = 14, .tokens = 32, .encodes = 4 },
    .run = run,
};
