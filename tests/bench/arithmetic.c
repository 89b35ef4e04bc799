// tests/bench/arithmetic.c -- the effect of bf16 products on answers: compares pairs of ways to
// compute them, by the KL divergence of their tokens' distributions (in nats, from the way in
// column `against`) and by the share of tokens with the same most likely candidate.
//
//   build/opt/tests/bench/arithmetic MODEL DATA [LIMIT]     DATA as for /eval; its answers are not
//                                                           used
//
// f32 answers every question of a sample, turn after turn. The other ways compute the same tokens:
//
//   fresh    each answer's whole prompt in one pass: many rows, which bf16 rounds
//   turns    earlier turns are in the cache, the answers' rows computed one by one: few rows
//            are not rounded
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/file_in.h"
#include "core/base/mem.h"
#include "core/data/dataset.h"
#include "core/engine/device.h"
#include "core/probes/hellinger.h"
#include "core/talk/answer.h"
#include "tests/bench/must.h"

enum { TOKENS = 48, WAYS = 4 };

static const struct way {
    const char *name, *matmul;
    bool fresh;
} ways[WAYS] = {
    { "f32, turns", "f32", false }, // generates the answers; the others compute the same tokens
    { "f32, fresh", "f32", true },
    { "bf16, turns", "bf16", false },
    { "bf16, fresh", "bf16", true },
};

// A comparison and its distances.
static struct pair {
    int a, b;
    int64_t tokens, same;
    double sum, most;
} pairs[] = { { .a = 1, .b = 3 }, { .a = 0, .b = 2 }, { .a = 2, .b = 3 }, { .a = 0, .b = 1 } };
enum { PAIRS = sizeof pairs / sizeof *pairs };

static double log_sum(const float *x, int64_t n)
{
    const double most = x[logits_best(x, n)];
    double above = -1; // the largest element itself adds 1
    for (int64_t i = 0; i < n; i++) above += exp(x[i] - most);
    return most + log1p(above);
}

static double divergence(const float *p, const float *q, int64_t n)
{
    const double a = log_sum(p, n), b = log_sum(q, n);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += exp(p[i] - a) * ((p[i] - a) - (q[i] - b));
    return fmax(sum, 0);
}

static void compare(struct pair *pair, const struct step_logits *logits)
{
    const struct step_logits *a = &logits[pair->a], *b = &logits[pair->b];
    for (int64_t t = 0; t < a->steps && t < b->steps; t++) {
        const float *p = a->data + t * a->vocab, *q = b->data + t * b->vocab;
        const double d = divergence(p, q, a->vocab);
        pair->sum += d;
        pair->most = fmax(pair->most, d);
        pair->same += logits_best(p, a->vocab) == logits_best(q, b->vocab);
        pair->tokens++;
    }
}

// One way of computing a conversation.
struct side {
    const struct way *way;
    struct conversation c;
    struct settings *settings;
};

static void open_side(struct side *s, const struct way *way, const struct backend *b,
                      const struct model *m, struct err *err)
{
    char tokens[16];
    *s = (struct side){ .way = way, .settings = settings_new() };
    snprintf(tokens, sizeof tokens, "%d", TOKENS);
    must(settings_set(s->settings, "compute.matmul", way->matmul, err), err);
    must(settings_set(s->settings, "sample.max_tokens", tokens, err), err);
    conversation_init(&s->c, b);
    conversation_set_model(&s->c, m);
}

static void close_side(struct side *s)
{
    conversation_release(&s->c);
    settings_free(s->settings);
}

// Answers the prompt; if `given`, computes exactly those tokens instead.
static void answer(struct side *s, const struct ids *given, struct step_logits *logits,
                   struct err *err)
{
    static const struct sinks silent;
    struct answer_options options = { 0 };
    struct hooks hooks = { 0 };
    const struct hook hook = step_logits_hook(logits);
    char tokens[16];
    bool answered;
    step_logits_clear(logits);
    hooks_add(&hooks, &hook);
    if (given) {
        options = (struct answer_options){ .forced = given->data, .forced_count = given->count };
        snprintf(tokens, sizeof tokens, "%zu", given->count);
        must(settings_set(s->settings, "sample.max_tokens", tokens, err), err);
        must(settings_set(s->settings, "sample.ignore_eos", "on", err), err);
    }
    if (s->way->fresh) conversation_stale(&s->c, STALE_VISUAL);
    must(answer_run(&s->c, s->settings, &hooks, NULL, &options, &silent, &answered, err), err);
}

static void attach(struct side *s, const struct sample *sample, struct err *err)
{
    for (size_t i = 0; i < sample->dialogue.path_count; i++) {
        size_t size;
        char *bytes = file_read(sample->dialogue.paths[i], 1 << 26, &size, err);
        must(bytes ? 0 : -1, err);
        must(conversation_attach(&s->c, sample->dialogue.paths[i], bytes, size, err), err);
        free(bytes);
    }
}

static void ask(struct side sides[WAYS], const struct message *question, struct step_logits *logits,
                struct err *err)
{
    struct ids given = { 0 };
    for (int k = 0; k < WAYS; k++) {
        struct conversation *c = &sides[k].c;
        conversation_append(c, question, 1);
        conversation_unwait(c, question);
        if (question->role != ROLE_USER) continue;
        answer(&sides[k], k ? &given : NULL, &logits[k], err);
        const struct message *said = conversation_last(c);
        if (!k) ids_append(&given, said->ids.data, said->ids.count);
    }
    for (int i = 0; i < PAIRS && question->role == ROLE_USER; i++) compare(&pairs[i], logits);
    ids_release(&given);
}

static void measure(const struct backend *b, const struct model *m, const struct sample *sample,
                    struct step_logits *logits)
{
    struct side sides[WAYS];
    struct err err;
    for (int k = 0; k < WAYS; k++) {
        open_side(&sides[k], &ways[k], b, m, &err);
        attach(&sides[k], sample, &err);
    }
    for (size_t i = 0; i < sample->dialogue.count; i++)
        if (sample->dialogue.messages[i].role != ROLE_ASSISTANT)
            ask(sides, &sample->dialogue.messages[i], logits, &err);
    for (int k = 0; k < WAYS; k++) close_side(&sides[k]);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: arithmetic MODEL DATA [LIMIT]\n");
        return 2;
    }
    struct step_logits logits[WAYS] = { 0 };
    struct dataset data;
    struct err err = { 0 };
    const struct backend *b = backend_cpu();
    struct model *m = model_load(argv[1], b, NULL, &err);
    must(m ? 0 : -1, &err);
    must(dataset_open(&data, argv[2], NULL, &err), &err);
    const int64_t most = argc > 3 ? strtoll(argv[3], NULL, 10) : data.count;
    for (int64_t i = 0; i < data.count && i < most; i++) {
        struct sample sample;
        must(dataset_read(&data, i, &sample, &err), &err);
        measure(b, m, &sample, logits);
        sample_release(&sample);
    }
    printf("| %s | against | tokens | KL, mean | KL, largest | same likeliest token |\n", argv[1]);
    printf("|---|---|---|---|---|---|\n");
    for (int i = 0; i < PAIRS; i++) {
        const struct pair *p = &pairs[i];
        printf("| %s | %s | %lld | %.2e | %.2e | %.2f%% |\n", ways[p->b].name, ways[p->a].name,
               (long long)p->tokens, p->sum / (double)p->tokens, p->most,
               100 * (double)p->same / (double)p->tokens);
    }
    for (int k = 0; k < WAYS; k++) step_logits_release(&logits[k]);
    dataset_close(&data);
    model_free(m);
    return 0;
}
