// core/checkup/checks/speed.c -- prefill and decode speed by length, compared with their bounds
// where these can be measured.
//
// A prefill must at least multiply its rows by all weights of the layers: these products alone, by
// the same kernels, give its bound. Decoding a token must at least read all these weights: a loop
// that only reads them gives its bound.
#include "core/checkup/checkup_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/eval/compare_text.h"
#include "core/model/layer.h"
#include "core/ops/ops.h"

enum { TOKENS = 8, LENGTHS = 3, RUNS = 2 };
static const int lengths[LENGTHS] = { 64, 256, 1024 };
// Skips a length, except the first, if its prompt is expected to take longer than this.
static const double most_s = 12, most_quick_s = 4;
// Each time is the best of at least RUNS runs, repeated for at least this many seconds.
static const double steady_s = 0.2;
static const double cache_bytes = 64e6;

// --- bounds --------------------------------------------------------------------------------------

typedef void weight_fn(void *self, const struct tensor *w);

// Calls the function for each matrix of all layers.
static void each_matrix(const struct model *m, weight_fn *call, void *self)
{
    for (int l = 0; l < m->decoder.config.layers; l++) {
        const struct sublayer *parts[] = { &m->decoder.layer[l].attention,
                                           &m->decoder.layer[l].ffn };
        for (int p = 0; p < 2; p++)
            for (int i = 0; i < parts[p]->count; i++)
                if (parts[p]->weight[i].weight.rank == 2) call(self, &parts[p]->weight[i].weight);
    }
}

struct reading {
    double bytes;
    uint64_t sum;
};

static void read_matrix(void *self, const struct tensor *w)
{
    struct reading *r = self;
    const uint64_t *at = w->data;
    const int64_t n = (int64_t)(tensor_bytes(w) / sizeof *at);
    uint64_t sum = 0;
#pragma omp parallel for reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += at[i];
    r->bytes += (double)tensor_bytes(w);
    r->sum += sum;
}

// Returns the seconds that it takes to read all matrices once.
static double read_all(const struct model *m, double *bytes)
{
    double best = INFINITY;
    const double begun = clock_seconds();
    for (int i = 0; i < RUNS || clock_seconds() - begun < steady_s; i++) {
        struct reading r = { 0 };
        const double start = clock_seconds();
        each_matrix(m, read_matrix, &r);
        best = fmin(best, clock_seconds() - start);
        *bytes = r.bytes;
        if (r.sum == 1) *bytes += 0; // uses the sum, so that the compiler keeps the loop
    }
    return best;
}

struct products {
    struct graph *g;
    int64_t rows;
};

static void multiply(void *self, const struct tensor *w)
{
    const struct products *p = self;
    struct arena_mark mark = arena_mark(p->g->arena);
    struct tensor *x = graph_new2(p->g, DTYPE_F32, p->rows, w->shape[1]);
    if (x) p->g->backend->fill(x, 0.5f);
    if (x) op_matmul(p->g, x, (struct tensor *)w, NULL);
    arena_reset(p->g->arena, mark);
}

static double multiply_all(struct checkup *c, int64_t rows)
{
    double best = INFINITY;
    struct graph g = conversation_graph(&c->talk, c->settings, NULL, c->work->cancel);
    struct products p = { &g, rows };
    const double begun = clock_seconds();
    for (int i = 0; (i < RUNS || clock_seconds() - begun < steady_s) && graph_ok(&g); i++) {
        const double start = clock_seconds();
        each_matrix(c->model, multiply, &p);
        best = fmin(best, clock_seconds() - start);
    }
    return graph_ok(&g) ? best : NAN;
}

// --- a length ------------------------------------------------------------------------------------

static void ask_long(struct checkup *c, const struct ids *text, int length)
{
    conversation_drop(&c->talk, c->talk.message_count);
    struct message *m = conversation_add(&c->talk, ROLE_RAW);
    for (int i = 0; i < length; i++) ids_add(&m->ids, text->data[(size_t)i % text->count]);
}

// Writes tokens per second, with two decimals below 10 and one below 100: "7029", "23.1", "0.41".
static void rate(double value, char text[static 32])
{
    snprintf(text, 32, "%.*f", value < 10 ? 2 : value < 100 ? 1 : 0, value);
}

static int time_length(struct checkup *c, const struct ids *text, int length, double reading,
                       struct err *err)
{
    struct settings *s =
        checkup_with(c, "sample.ignore_eos", "on", "sample.lookahead", "off", NULL);
    double prefill = INFINITY, token = INFINITY;
    int status = 0;
    const double begun = clock_seconds();
    for (int i = 0; (i < RUNS || clock_seconds() - begun < steady_s) && status == 0; i++) {
        struct checkup_answer a;
        ask_long(c, text, length);
        status = checkup_answer(c, s, TOKENS, true, &a, err);
        if (status < 0) break;
        prefill = fmin(prefill, a.prefill_s);
        // The first token comes from the prefill.
        token = fmin(token, a.decode_s / (TOKENS - 1));
        checkup_answer_release(&a);
    }
    settings_free(s);
    if (status < 0) return -1;
    char *name = xasprintf("%d tokens", length);
    struct finding f = finding(c, name);
    const double products = c->backend->own_memory ? NAN : multiply_all(c, length);
    finding_number(&f, "prefill", length / prefill, "tokens/s", RUNS);
    if (isfinite(products))
        finding_number(&f, "products alone", length / products, "tokens/s", RUNS);
    finding_number(&f, "answer", 1 / token, "tokens/s", RUNS * (TOKENS - 1));
    if (isfinite(reading)) finding_number(&f, "reading loop", 1 / reading, "tokens/s", RUNS);
    char prefilled[32], answered[32];
    rate(length / prefill, prefilled);
    rate(1 / token, answered);
    if (isfinite(products) && isfinite(reading))
        finding_measured(&f,
                         "prefill %s tokens/s, %.2f of the products alone; answer %s tokens/s, "
                         "%.2f of the reading loop",
                         prefilled, products / prefill, answered, reading / token);
    else
        finding_measured(&f, "prefill %s tokens/s; answer %s tokens/s", prefilled, answered);
    free(name);
    return 0;
}

static int run(struct checkup *c, struct err *err)
{
    const bool quick = c->work->options.quick;
    const int64_t limit = conversation_limit(c->model, c->settings);
    struct ids text = { 0 };
    double bytes = 0;
    struct finding f = finding(c, "load");
    finding_number(&f, "load time", c->load_s, "s", 1);
    finding_number(&f, "a picture", c->encode_s, "s", c->encode_s > 0);
    finding_measured(&f,
                     "opened in %.3g s; the weights are read from their file when they are "
                     "first used",
                     c->load_s);
    if (tokenizer_encode(c->model->tokenizer, compare_sample_text, strlen(compare_sample_text),
                         TOKENIZE_SPECIAL, &text, err) < 0)
        return -1;
    double reading = c->backend->own_memory ? NAN : read_all(c->model, &bytes);
    if (bytes > 0 && bytes < cache_bytes) {
        f = finding(c, "memory");
        finding_skip(&f, "the weights of the layers fit into the processor's caches (%.3g MB)",
                     bytes / 1e6);
        reading = NAN;
    } else if (isfinite(reading)) {
        f = finding(c, "memory");
        finding_number(&f, "reading loop", bytes / reading / 1e9, "GB/s", RUNS);
        finding_number(&f, "weights of the layers", bytes / 1e9, "GB", 0);
        finding_measured(&f, "a token reads %.3g GB of weights", bytes / 1e9);
    }
    int status = 0;
    double a_row = 0;
    for (int i = 0; i < LENGTHS && status == 0; i++) {
        const double start = clock_seconds();
        if (lengths[i] + TOKENS > limit) continue;
        if (i && a_row * lengths[i] > (quick ? most_quick_s : most_s) * RUNS) {
            char *name = xasprintf("%d tokens", lengths[i]);
            f = finding(c, name);
            finding_skip(&f, "this length would take too long on this machine");
            free(name);
            continue;
        }
        status = time_length(c, &text, lengths[i], reading, err);
        a_row = (clock_seconds() - start) / lengths[i] / 2; // the products take about half
        checkup_progress(c, i + 1, LENGTHS);
    }
    ids_release(&text);
    return status;
}

const struct checkup_check check_speed = {
    .name = "speed",
    .shows =
        "Speed of prefill and answers by length, compared with the matrix products alone and with "
        "a loop that only reads the weights.",
    .cost = { .prompts = 16, .tokens = 48, .reads = 2 },
    .quick = { .prompts = 6, .tokens = 32, .reads = 2 },
    .run = run,
};
