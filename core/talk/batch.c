// core/talk/batch.c -- several conversations in one pass: rows after a common prefix.
//
//   cache     prefix | window | rows of 0 | rows of 1 | ...      (struct segments)
//   a pass    h: new rows of 0, of 1, ...  ->  matrix products over all rows; attention for one
//             conversation at a time: copies the conversation's rows into the window, so that the
//             prefix and these rows form one table
//
// Rows and their copies cost little compared with the weights that a pass reads.
#include "core/talk/batch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/model/decoder.h"
#include "core/model/layer.h"
#include "core/model/sampler.h"
#include "core/model/visual.h"
#include "core/ops/ops.h"

int batch_most(const struct conversation *c, const struct hooks *hooks)
{
    const struct decoder *d = &c->model->decoder;
    const int64_t few = backend_few_rows(c->backend);
    if (d->part || (hooks && hooks->count) || !decoder_traits(&d->config).segments ||
        c->backend->own_memory || c->backend->fused)
        return 1;
    return few < BATCH_MOST ? (int)few : BATCH_MOST;
}

static bool same_row(const struct sequence *a, const struct sequence *b, int64_t i)
{
    if (a->ids[i] != b->ids[i] || a->picture[i] != b->picture[i] || a->cell[i] != b->cell[i] ||
        a->axes != b->axes)
        return false;
    for (int axis = 0; axis < a->axes; axis++)
        if (a->positions[axis * a->n + i] != b->positions[axis * b->n + i]) return false;
    return true;
}

// Counts the leading rows that all sequences share; excludes the last row of each sequence, whose
// logits are needed.
static int64_t common_rows(const struct sequence *s, int count, int64_t most)
{
    int64_t n = s[0].n - 1 < most ? s[0].n - 1 : most;
    for (int k = 1; k < count; k++) {
        int64_t i = 0;
        while (i < n && i < s[k].n - 1 && same_row(&s[0], &s[k], i)) i++;
        n = i;
    }
    return n;
}

// Copies n rows of s, from row `from` on, to row `at` of `to`.
static void copy_rows(struct sequence *to, int64_t at, const struct sequence *s, int64_t from,
                      int64_t n)
{
    const size_t bytes = (size_t)n * sizeof *s->ids;
    if (!n) return;
    memcpy(to->ids + at, s->ids + from, bytes);
    memcpy(to->picture + at, s->picture + from, bytes);
    memcpy(to->cell + at, s->cell + from, bytes);
    memcpy(to->newline + at, s->newline + from, (size_t)n * sizeof *s->newline);
    for (int axis = 0; axis < s->axes; axis++)
        memcpy(to->positions + axis * to->n + at, s->positions + axis * s->n + from, bytes);
}

// --- opening and passes --------------------------------------------------------------------------

static int encode_pictures(struct batch *b, const struct sequence *s, int count)
{
    for (int k = 0; k < count; k++)
        for (int64_t row = b->c->cached.n; row < s[k].n; row++)
            if (s[k].picture[row] >= 0 &&
                conversation_encode(b->c, &b->graph, s[k].picture[row]) < 0)
                return -1;
    return 0;
}

static int compute_prefix(struct batch *b, const struct sequence *s)
{
    struct sequence prefix;
    struct tensor *nothing;
    if (b->c->cached.n == b->segments.prefix) return 0;
    sequence_copy(&prefix, s);
    sequence_trim(&prefix, b->segments.prefix);
    struct arena_mark mark = arena_mark(b->graph.arena);
    const int status = conversation_forward(b->c, &b->graph, &prefix, LOGITS_NONE, true, &nothing);
    arena_reset(b->graph.arena, mark);
    sequence_release(&prefix);
    return status;
}

int batch_open(struct batch *b, struct conversation *c, const struct settings *settings,
               const atomic_bool *cancel, const struct sequence *s, int count, int64_t most,
               int64_t further)
{
    struct err err;
    int64_t longest = 0;
    *b = (struct batch){ .c = c, .graph = conversation_graph(c, settings, NULL, cancel) };
    for (int k = 0; k < count; k++)
        if (s[k].n > longest) longest = s[k].n;
    b->segments.count = count;
    b->segments.prefix = pass_start(&c->model->decoder.config, &s[0], common_rows(s, count, most));
    b->segments.rows = longest - b->segments.prefix + further;
    conversation_set_dtype(c, kv_dtype(c->backend, settings));
    // Reuses the whole prefix if it is cached; otherwise leaves at least `many` rows to compute, so
    // that they have the bits of a whole prompt's rows.
    const int64_t prefix = b->segments.prefix, many = backend_many_rows(c->backend);
    if (conversation_reuse(c, &s[0], prefix) < prefix)
        conversation_reuse(c, &s[0], prefix > many ? prefix - many : 0);
    if (encode_pictures(b, s, count) < 0 || compute_prefix(b, s) < 0) return -1;
    if (kv_reserve(&c->kv, segment_row(&b->segments, count), &err) < 0) {
        graph_fail(&b->graph, "%s", err.text);
        return -1;
    }
    return 0;
}

int64_t batch_rows(const struct batch *b, const struct sequence *s, int i)
{
    return s[i].n - b->segments.prefix - b->segments.of[i].cached;
}

// Joins the prefix and the new rows of all sequences.
static void join(const struct batch *b, const struct sequence *s, struct sequence *to)
{
    const struct segments *g = &b->segments;
    int64_t n = g->prefix;
    for (int i = 0; i < g->count; i++) n += g->of[i].n;
    sequence_init(to, n, s[0].axes);
    copy_rows(to, 0, &s[0], 0, g->prefix);
    for (int64_t i = 0, at = g->prefix; i < g->count; at += g->of[i++].n)
        copy_rows(to, at, &s[i], g->prefix + g->of[i].cached, g->of[i].n);
    to->segments = g;
    to->pictures = s[0].pictures;
}

int batch_pass(struct batch *b, const struct sequence *s, struct tensor **x)
{
    struct conversation *c = b->c;
    const struct decoder *d = &c->model->decoder;
    struct tensor **visual = xcalloc(c->picture_count + 1, sizeof *visual);
    struct sequence all;
    for (int i = 0; i < b->segments.count; i++) b->segments.of[i].n = batch_rows(b, s, i);
    join(b, s, &all);
    for (size_t i = 0; i < c->picture_count; i++) visual[i] = c->pictures[i].visual;
    model_pass(c->model, all.pictures);
    struct tensor *h =
        splice(&b->graph, d, &all, b->segments.prefix, visual, NULL, (int)c->picture_count);
    free(visual);
    int status = h ? decoder_forward(&b->graph, d, &c->kv, &all, h, LOGITS_HIDDEN, false, x) : -1;
    if (status == 0 && !graph_ok(&b->graph)) status = -1;
    for (int i = 0; i < b->segments.count && status == 0; i++)
        b->segments.of[i].cached += b->segments.of[i].n;
    sequence_release(&all);
    return status;
}

void batch_close(struct batch *b)
{
    conversation_trim(b->c, b->segments.prefix);
}

// --- answers -------------------------------------------------------------------------------------

struct answering {
    struct batch batch;
    const struct settings *settings;
    struct sequence *s;
    struct batch_answer *answers;
    int count, left;
    bool done[BATCH_MOST];
    float *logits; // [count, V]
};

// Computes a pass and the logits of the last row of each sequence with new rows.
static int compute(struct answering *a)
{
    struct batch *b = &a->batch;
    struct graph *g = &b->graph;
    struct arena_mark mark = arena_mark(g->arena);
    struct tensor *x;
    int32_t last[BATCH_MOST];
    int64_t count = 0, n = 0;
    for (int i = 0; i < a->count; i++) {
        const int64_t rows = batch_rows(b, a->s, i);
        n += rows;
        if (rows) last[count++] = (int32_t)(n - 1);
    }
    int status = batch_pass(b, a->s, &x);
    struct tensor *logits =
        status == 0 ? decoder_logits(g, &b->c->model->decoder, op_gather_rows(g, x, last, count))
                    : NULL; // [count, V]
    if (logits && graph_ok(g))
        g->backend->download(a->logits, logits->data, tensor_bytes(logits));
    else
        status = -1;
    arena_reset(g->arena, mark);
    return status;
}

// Chooses the next token of answer i. -1: the logits are damaged; the caller then answers the
// prompts one by one, which reports the damage.
static int take(struct answering *a, int i, float *logits, int64_t limit)
{
    const struct model *m = a->batch.c->model;
    struct batch_answer *to = &a->answers[i];
    struct sequence *s = &a->s[i];
    const int64_t vocab = m->decoder.config.vocab;
    if (logits_damage(logits, vocab)) return -1;
    model_bar_tokens(m, logits);
    const int32_t id =
        sampler_pick(a->settings, logits, vocab, s->ids, (size_t)s->n, (uint64_t)s->n);
    to->ended = model_is_eos(m, id) && !settings_flag(a->settings, "sample.ignore_eos");
    if (!to->ended) ids_add(&to->ids, id);
    to->full = !to->ended && limit - (s->n + 1) - to->closing <= 0;
    a->done[i] = to->ended || to->full || (int64_t)to->ids.count >= to->max_tokens;
    if (a->done[i])
        a->left--;
    else
        sequence_append(s, id);
    return 0;
}

static int generate(struct answering *a)
{
    const struct model *m = a->batch.c->model;
    const int64_t limit = conversation_limit(m, a->settings);
    a->logits =
        xreallocarray(NULL, (size_t)a->count * sizeof *a->logits, (size_t)m->decoder.config.vocab);
    while (a->left) {
        float *row = a->logits;
        bool had[BATCH_MOST] = { false };
        for (int i = 0; i < a->count; i++) had[i] = !a->done[i];
        if (compute(a) < 0) return -1;
        for (int i = 0; i < a->count; i++) {
            if (!had[i]) continue;
            if (take(a, i, row, limit) < 0) return -1;
            row += m->decoder.config.vocab;
        }
    }
    return 0;
}

int batch_answers(struct conversation *c, const struct settings *settings,
                  const atomic_bool *cancel, struct sequence *s, int count,
                  struct batch_answer *answers, bool *cancelled, struct err *err)
{
    struct answering a = {
        .settings = settings, .s = s, .answers = answers, .count = count, .left = count
    };
    // Rows for the answers; the longest prefix that leaves each question many rows.
    int64_t further = 0, most = INT64_MAX;
    for (int i = 0; i < count; i++) {
        if (answers[i].max_tokens > further) further = answers[i].max_tokens;
        if (s[i].n - backend_many_rows(c->backend) < most)
            most = s[i].n - backend_many_rows(c->backend);
    }
    int status = batch_open(&a.batch, c, settings, cancel, s, count, most > 0 ? most : 0, further);
    if (status == 0) {
        status = generate(&a);
        batch_close(&a.batch);
    }
    *cancelled = a.batch.graph.cancelled;
    free(a.logits);
    if (status < 0) err_set(err, "%s", *cancelled ? "cancelled" : a.batch.graph.err.text);
    return status;
}
