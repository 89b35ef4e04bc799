// core/checkup/checks/identities.c -- ways of computing that must not change the result.
//
// Most identities compare the logits of the rows that choose an answer's tokens (drafts and resumed
// conversations: the tokens): bit-identical where the same kernels run on the same numbers,
// otherwise equal up to rounding.
#include "core/checkup/checkup_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/adapter/adapter.h"
#include "core/adapter/adapters.h"
#include "core/engine/device.h"
#include "core/model/layer.h"
#include "kernels/backend.h"

enum { TOKENS = 12, PIECE = 24 };

// Returns the largest mean Hellinger distance that rounding explains; measured distances of sound
// models are smaller by a factor of ten.
static double tolerance(const struct checkup *c, const struct settings *s)
{
    return strcmp(model_arithmetic(c->model, c->backend, s), "f32") != 0 ? 0.1 : 0.005;
}

struct base {
    const int *pictures;
    size_t count;
    struct ids given; // the model's answer
    struct checkup_logits plain;
};

// --- comparing -----------------------------------------------------------------------------------

// Compares logits from an alternative computation (b) with the plain ones (a). `allowed`: the
// largest Hellinger distance; 0: the bits must be the same.
static void judge(struct checkup *c, double allowed, const char *name,
                  const struct checkup_logits *a, const struct checkup_logits *b, const char *what)
{
    struct finding f = finding(c, name);
    const double hellinger = logits_hellinger(a, b);
    const bool same = logits_same_bits(a, b);
    finding_number(&f, "largest difference of logits", logits_distance(a, b), "", a->rows);
    finding_number(&f, "Hellinger distance", hellinger, "", a->rows);
    if (same)
        finding_works(&f, "%s: the same bits", what);
    else if (!allowed)
        finding_fails(&f, "%s: the bits differ", what);
    else if (hellinger <= allowed)
        finding_works(&f, "%s: equal but for rounding", what);
    else
        finding_fails(&f,
                      "%s: the logits differ by more than rounding (a distance of %g is allowed)",
                      what, allowed);
}

// Computes the logits of the base's answer under different settings or in pieces, and compares
// them.
static int compare(struct checkup *c, const struct base *b, const struct settings *s, int64_t piece,
                   const char *name, bool bits, const char *what, struct err *err)
{
    struct checkup_logits l;
    if (checkup_logits(c, s, &b->given, piece, &l, err) < 0) return err_in(err, "%s", name);
    judge(c, bits ? 0 : tolerance(c, s), name, &b->plain, &l, what);
    checkup_logits_release(&l);
    return 0;
}

// --- methods -------------------------------------------------------------------------------------

static int check_kept(struct checkup *c, const struct base *b, struct err *err)
{
    struct settings *s = checkup_with(c, "prune.score", "contribution", "prune.keep", "1", NULL);
    const int status =
        compare(c, b, s, 0, "keep 100%", false, "pruning that keeps every visual token", err);
    settings_free(s);
    return status;
}

// With zero heads, IRA changes no value state (z = v + 0), so the check needs no trained heads.
struct zeros {
    struct tensor *list;
    char **names;
    size_t count;
};

static const struct tensor *find_zeros(void *self, const char *name)
{
    const struct zeros *z = self;
    for (size_t i = 0; i < z->count; i++)
        if (!strcmp(z->names[i], name)) return &z->list[i];
    return NULL;
}

// Adds a zero tensor for each parameter that a method learns, or one per layer if the parameter's
// name contains ".K.".
static void add_zeros(struct zeros *z, const struct checkup *c, const struct method *m)
{
    struct method_tensor t;
    for (int i = 0; m->learned && m->learned(c->model, i, 0, &t); i++) {
        const char *k = strstr(t.name, ".K.");
        for (int l = 0; l < (k ? c->model->decoder.config.layers : 1); l++) {
            struct tensor *to;
            size_t n = sizeof(float);
            if (!m->learned(c->model, i, l, &t)) continue;
            z->list = xreallocarray(z->list, z->count + 1, sizeof *z->list);
            z->names = xreallocarray(z->names, z->count + 1, sizeof *z->names);
            to = &z->list[z->count];
            *to = (struct tensor){ .dtype = DTYPE_F32, .rank = t.rank };
            for (int d = 0; d < t.rank; d++) to->shape[d] = t.shape[d], n *= (size_t)t.shape[d];
            void *zero = xcalloc(1, n);
            to->data = c->backend->alloc(n);
            if (to->data) c->backend->upload(to->data, zero, n);
            free(zero);
            z->names[z->count++] =
                k ? xasprintf("%.*s.%d.%s", (int)(k - t.name), t.name, l, k + 3) : xstrdup(t.name);
        }
    }
}

static void zeros_release(struct zeros *z, const struct checkup *c)
{
    for (size_t i = 0; i < z->count; i++) {
        c->backend->release(z->list[i].data);
        free(z->names[i]);
    }
    free(z->list);
    free(z->names);
}

// Values of toggles that need neither calibration nor training.
static const struct {
    const char *key, *on;
} plain_on[] = { { "ffn.approx", "skip" } };

static const char *on_value(const struct method *m)
{
    for (size_t i = 0; i < sizeof plain_on / sizeof *plain_on; i++)
        if (!strcmp(plain_on[i].key, m->toggle.key)) return plain_on[i].on;
    return m->toggle.on;
}

// Returns the key of the setting of the method's layers if its default may name layers without
// values of their own, and writes the number of a layer that has its own to `layer`. NULL: the
// default works.
static const char *own_layer(const struct checkup *c, const struct method *m, char layer[16])
{
    const struct decoder_config *d = &c->model->decoder.config;
    if (!m->values || !(d->sharing || decoder_uses(d, &attention_delta))) return NULL;
    snprintf(layer, 16, "%d",
             d->sharing ? d->layers - d->sharing - 1 : decoder_attending(d, d->layers - 1));
    return m->layers;
}

// Switches a method on and off again. Skips a method that lacks a calibration or trained
// parameters.
static int toggle(struct checkup *c, const struct base *b, const struct method *m, struct err *err)
{
    char *name = xasprintf("%s on and off", m->title);
    char own[16] = "";
    const char *layers = own_layer(c, m, own);
    struct settings *s =
        checkup_with(c, m->toggle.key, on_value(m), "ffn.layers", "0", layers, own, NULL);
    struct checkup_logits on = { 0 };
    struct err why = { 0 };
    int status = checkup_logits(c, s, &b->given, 0, &on, &why);
    if (status == 0) {
        status = compare(c, b, c->settings, 0, name, true, "after it was on", err);
    } else if (c->stopped) {
        *err = why;
    } else {
        struct finding f = finding(c, name);
        finding_skip(&f, "%s", why.text);
        status = 0;
    }
    checkup_logits_release(&on);
    settings_free(s);
    free(name);
    return status;
}

static int check_toggles(struct checkup *c, const struct base *b, struct err *err)
{
    const struct method *m;
    int status = 0;
    for (int i = 0; (m = method_at(i)) && status == 0; i++) {
        struct zeros z = { 0 };
        if (!on_value(m)) continue; // it needs a file
        if (b->count && !c->adapter && m->values) add_zeros(&z, c, m);
        if (z.count) c->tensors = (struct method_tensors){ find_zeros, &z };
        conversation_reset_methods(&c->talk);
        status = toggle(c, b, m, err);
        if (status == 0 && z.count) {
            char *name = xasprintf("%s of zeros", m->title);
            char own[16] = "";
            const char *layers = own_layer(c, m, own);
            struct settings *s = checkup_with(c, m->toggle.key, m->toggle.on, layers, own, NULL);
            status =
                compare(c, b, s, 0, name, false, "untrained heads, which change no value", err);
            settings_free(s);
            free(name);
        }
        conversation_reset_methods(&c->talk);
        c->tensors = (struct method_tensors){ 0 };
        zeros_release(&z, c);
    }
    return status;
}

// --- answers -------------------------------------------------------------------------------------

static void judge_answers(struct finding *f, const struct ids *a, const struct ids *b,
                          const char *what)
{
    finding_number(f, "tokens", (double)a->count, "", 1);
    if (ids_same(a, b))
        finding_works(f, "%s: the same tokens", what);
    else
        finding_fails(f, "%s: the tokens differ", what);
}

// Compares answers with and without drafts, to a question that was answered before: drafts come
// from repetitions.
static int check_drafts(struct checkup *c, const struct base *base, struct err *err)
{
    struct checkup_answer first = { 0 }, a = { 0 }, b = { 0 };
    struct settings *off =
                        checkup_with(c, "sample.lookahead", "off", "sample.ignore_eos", "on", NULL),
                    *on = checkup_with(c, "sample.lookahead", "4", "sample.ignore_eos", "on", NULL);
    checkup_ask(c, base->pictures, base->count, checkup_question);
    int status = checkup_answer(c, off, TOKENS, false, &first, err);
    if (status == 0) {
        checkup_answered(c, &first);
        message_add_text(conversation_add(&c->talk, ROLE_USER), checkup_question);
        status = checkup_answer(c, off, TOKENS, false, &a, err);
    }
    if (status == 0) status = checkup_answer(c, on, TOKENS, false, &b, err);
    if (status == 0) {
        struct finding f = finding(c, "drafts");
        finding_number(&f, "drafted", (double)b.drafted, "tokens", 1);
        finding_number(&f, "accepted", (double)b.accepted, "tokens", 1);
        if (b.drafted)
            judge_answers(&f, &a.ids, &b.ids, "answers with drafted tokens and without");
        else
            finding_skip(&f, "no token was drafted: this device drafts none, or nothing repeats");
    }
    checkup_answer_release(&first);
    checkup_answer_release(&a);
    checkup_answer_release(&b);
    settings_free(off);
    settings_free(on);
    return status;
}

// Computes the second answer of a conversation twice, both times without the keys and values of the
// first turn (checkup_answer drops them): with the visual tokens of the first answer, and from a
// copy of the messages and pictures, which are all that a saved session contains.
static int check_resumed(struct checkup *c, const struct base *b, struct err *err)
{
    struct checkup_answer first = { 0 }, live = { 0 }, resumed = { 0 };
    struct settings *s = settings_copy(c->settings);
    checkup_ask(c, b->pictures, b->count, checkup_question);
    int status = checkup_answer(c, s, TOKENS, false, &first, err);
    if (status == 0) {
        checkup_answered(c, &first);
        message_add_text(conversation_add(&c->talk, ROLE_USER), "What else?");
        status = checkup_answer(c, s, TOKENS, false, &live, err);
    }
    struct conversation saved = c->talk, copy;
    conversation_init(&copy, c->backend);
    conversation_set_model(&copy, c->model);
    if (status == 0) status = conversation_copy(&copy, &saved, saved.message_count, err);
    if (status == 0) {
        c->talk = copy;
        status = checkup_answer(c, s, TOKENS, true, &resumed, err);
        copy = c->talk;
        c->talk = saved;
    }
    conversation_release(&copy);
    if (status == 0) {
        struct finding f = finding(c, "resumed conversation");
        judge_answers(&f, &live.ids, &resumed.ids,
                      "the second answer, recomputed in the conversation and in a copy of its "
                      "messages and pictures");
    }
    checkup_answer_release(&first);
    checkup_answer_release(&live);
    checkup_answer_release(&resumed);
    settings_free(s);
    return status;
}

// --- text ----------------------------------------------------------------------------------------

static const char text_question[] = "Name three colours.";

// Returns the backend of this processor's best other instruction set; NULL: none. Plain C, which is
// slow, counts only for small models.
static const struct backend *other_set(const struct checkup *c, const char **name)
{
    const struct backend *best = NULL;
    for (int i = 0; backend_isa_name(i); i++) {
        const struct backend *b = backend_cpu_isa(backend_isa_name(i));
        if (!b || b == c->backend || (!strcmp(backend_isa_name(i), "base") && c->prompt_s > 0.3))
            continue;
        best = b;
        *name = backend_isa_name(i);
    }
    return best;
}

static int check_set(struct checkup *c, const struct checkup_logits *plain, const struct ids *given,
                     struct err *err)
{
    const char *name = "";
    const struct backend *own = c->backend, *other = own->own_memory ? NULL : other_set(c, &name);
    struct checkup_logits l = { 0 };
    if (!other) {
        struct finding f = finding(c, "another instruction set");
        finding_skip(&f, own->own_memory
                             ? "the weights are in the memory of a GPU"
                             : "this processor has no other instruction set that is fast enough");
        return 0;
    }
    const struct conversation kept = c->talk;
    conversation_init(&c->talk, other);
    conversation_set_model(&c->talk, c->model);
    c->backend = other;
    checkup_ask(c, NULL, 0, text_question);
    const int status = checkup_logits(c, c->settings, given, 0, &l, err);
    conversation_release(&c->talk);
    c->talk = kept;
    c->backend = own;
    if (status < 0) return err_in(err, "%s", name);
    char *title = xasprintf("instruction set %s", name);
    judge(c, tolerance(c, c->settings), title, plain, &l, "computed with another instruction set");
    checkup_logits_release(&l);
    free(title);
    return 0;
}

static int check_text(struct checkup *c, struct err *err)
{
    struct checkup_answer a = { 0 };
    struct checkup_logits plain = { 0 }, single = { 0 };
    checkup_ask(c, NULL, 0, text_question);
    int status = checkup_answer_some(c, TOKENS / 2, &a, err);
    if (status == 0) status = checkup_logits(c, c->settings, &a.ids, 0, &plain, err);
    if (status == 0) status = checkup_logits(c, c->settings, &a.ids, 1, &single, err);
    if (status == 0)
        judge(c, tolerance(c, c->settings), "token by token", &plain, &single,
              "a prompt and its answer computed token by token and at once");
    if (status == 0) status = check_set(c, &plain, &a.ids, err);
    checkup_logits_release(&plain);
    checkup_logits_release(&single);
    checkup_answer_release(&a);
    return status;
}

// --- another device ------------------------------------------------------------------------------

// Computes the base's logits with the model loaded on another device. *loaded: whether it
// could be loaded there.
static int logits_on(struct checkup *c, const struct base *b, const struct backend *other,
                     bool *loaded, struct checkup_logits *l, double *allowed, struct err *err)
{
    struct checkup here = *c;
    int status = -1;
    c->backend = other;
    c->adapter = NULL;
    c->model = model_open(c->name, other, NULL, NULL, err);
    conversation_init(&c->talk, other);
    *loaded = c->model && adapter_apply_settings(&c->adapter, c->model, c->settings, err) == 0;
    if (*loaded) {
        conversation_set_model(&c->talk, c->model);
        checkup_ask(&here, b->pictures, b->count, checkup_question);
        status = conversation_copy(&c->talk, &here.talk, here.talk.message_count, err);
        if (status == 0) status = checkup_logits(c, c->settings, &b->given, 0, l, err);
        *allowed = tolerance(c, c->settings);
    }
    conversation_release(&c->talk);
    adapter_free(c->adapter);
    model_free(c->model);
    here.stopped = c->stopped;
    *c = here;
    return status;
}

// Compares the CPU with the first GPU, if there is one.
static int check_device(struct checkup *c, const struct base *b, struct err *err)
{
    struct err why = { 0 };
    struct checkup_logits l = { 0 };
    double allowed = 0;
    bool loaded = false;
    const struct backend *other = device_find(c->backend->own_memory ? "cpu" : "cuda", &why);
    const bool found = other && other->own_memory != c->backend->own_memory;
    const int status = found ? logits_on(c, b, other, &loaded, &l, &allowed, &why) : -1;
    if (c->stopped) {
        *err = why;
        return -1;
    }
    if (status < 0) {
        struct finding f = finding(c, "another device");
        if (loaded)
            finding_fails(&f, "%s: %s", device_name(other), why.text);
        else
            finding_skip(&f, "%s", why.text);
        return 0;
    }
    char *name = xasprintf("device %s", device_name(other));
    judge(c, fmax(allowed, tolerance(c, c->settings)), name, &b->plain, &l,
          "computed on the CPU and on a GPU");
    checkup_logits_release(&l);
    free(name);
    return 0;
}

// --- all -----------------------------------------------------------------------------------------

static int begin(struct checkup *c, struct base *b, struct err *err)
{
    struct checkup_answer a;
    struct settings *s = checkup_with(c, "sample.ignore_eos", "on", NULL);
    checkup_ask(c, b->pictures, b->count, checkup_question);
    int status = checkup_answer(c, s, TOKENS, true, &a, err);
    settings_free(s);
    if (status < 0) return -1;
    b->given = a.ids;
    a.ids = (struct ids){ 0 };
    checkup_answer_release(&a);
    return checkup_logits(c, c->settings, &b->given, 0, &b->plain, err);
}

// If a prompt takes longer than this, a quick check-up keeps a quarter of the visual tokens.
static const double slow_s = 0.3;

static int run(struct checkup *c, struct err *err)
{
    static const int first[] = { 0 };
    struct base b = { .pictures = first, .count = c->scenes ? 1 : 0 };
    const bool few = c->work->options.quick && c->scenes && c->prompt_s > slow_s;
    if (few && settings_set(c->settings, "image.downsample", "0.25", err) < 0) return -1;
    int status = begin(c, &b, err);
    if (status == 0)
        status = compare(c, &b, c->settings, PIECE, "in pieces", false,
                         "a prompt computed in pieces and as a whole", err);
    checkup_progress(c, 1, 4);
    if (status == 0) status = check_toggles(c, &b, err);
    if (status == 0) status = check_kept(c, &b, err);
    checkup_progress(c, 3, 4);
    if (status == 0) status = check_drafts(c, &b, err);
    if (status == 0) status = check_text(c, err);
    if (status == 0) status = check_device(c, &b, err);
    if (status == 0) status = check_resumed(c, &b, err);
    checkup_logits_release(&b.plain);
    ids_release(&b.given);
    if (few) settings_reset(c->settings, "image.downsample");
    return status;
}

const struct checkup_check check_identities = {
    .name = "identities",
    .shows = "Whether equivalent computations give equal results: the prompt at once, in pieces or "
             "token by token; every method switched on and off again; speculative decoding; "
             "another instruction set or device; a saved conversation.",
    .cost = { .prompts = 19, .tokens = 145, .encodes = 4 },
    .quick = { .prompts = 8, .tokens = 145, .encodes = 5 },
    .run = run,
};
