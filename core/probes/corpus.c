// core/probes/corpus.c -- the nearest tokens of a corpus.
//
// Several texts share a pass, in which each attends only to itself. Their states are not kept: each
// pass updates the best match of every query.
#include "core/probes/corpus.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/ops/ops.h"
#include "core/probes/kit.h"
#include "core/probes/passes.h"
#include "core/tokenizer/tokenizer.h"

enum { PASS_ROWS = 512 };

int corpus_open(struct corpus *c, const struct corpus *like, struct err *err)
{
    *c = *like;
    const size_t layers = (size_t)(c->to - c->from + 1), cells = layers * (size_t)c->count;
    c->width = c->model->decoder.config.hidden;
    c->query = xcalloc(cells * (size_t)c->width + 1, sizeof *c->query);
    c->best = xcalloc(cells + 1, sizeof *c->best);
    for (size_t i = 0; i < cells; i++)
        c->best[i] = (struct corpus_nearest){ .id = -1, .cosine = -2, .word = -2 };
    if (text_file_open(&c->file, c->path, err) < 0) return -1;
    return c->file.count ? 0 : err_set(err, "'%s' has no text: write one on each line", c->path);
}

void corpus_close(struct corpus *c)
{
    text_file_close(&c->file);
    free(c->query);
    free(c->best);
}

// --- passes --------------------------------------------------------------------------------------

// A pass over some texts.
struct reading {
    struct corpus *c;
    struct ids ids;     // of all texts of the pass
    int64_t *line, *at; // [ids] the text of each row; the row's number in it, -1: a special token
    struct rows rows, cosines;
};

static void normalise(float *x, int64_t rows, int64_t width)
{
    for (int64_t i = 0; i < rows; i++) {
        double sum = 0;
        for (int64_t k = 0; k < width; k++)
            sum += (double)x[i * width + k] * (double)x[i * width + k];
        for (int64_t k = 0; k < width && sum > 0; k++)
            x[i * width + k] = (float)((double)x[i * width + k] / sqrt(sum));
    }
}

static bool reading_wants(void *self, const struct site *site, int layer)
{
    const struct reading *r = self;
    return site == SITE_LAYER_OUT && (layer < 0 || (layer >= r->c->from && layer <= r->c->to));
}

static void take_row(struct reading *r, struct corpus_nearest *best, const float *cosine,
                     int64_t row)
{
    const struct corpus *c = r->c;
    const int32_t id = r->ids.data[row];
    if (r->at[row] < 0) return;
    for (int64_t q = 0; q < c->count; q++) {
        const double x = (double)cosine[q];
        if (id == c->word && x > best[q].word) best[q].word = x;
        if (x > best[q].cosine)
            best[q] = (struct corpus_nearest){ id, r->line[row], r->at[row], x, best[q].word };
    }
}

static int reading_run(void *self, struct graph *g, const struct site *site, struct site_args *args)
{
    struct reading *r = self;
    const struct corpus *c = r->c;
    const int64_t n = args->x->shape[0], at = (args->layer - c->from) * c->count;
    const enum matmul_mode mode = g->matmul;
    float *x = xreallocarray(NULL, (size_t)(n * c->width) + 1, sizeof *x);
    const float *h = rows_read(&r->rows, g, args->x); // [n,D]
    if (h) memcpy(x, h, (size_t)(n * c->width) * sizeof *x);
    if (h) normalise(x, n, c->width);
    struct arena_mark scratch = graph_scratch_begin(g);
    g->matmul = MATMUL_F32;
    struct tensor *rows = graph_upload(g, DTYPE_F32, 2, (int64_t[]){ n, c->width }, x);
    struct tensor *query =
        graph_upload(g, DTYPE_F32, 2, (int64_t[]){ c->count, c->width }, c->query + at * c->width);
    struct tensor *cosines = op_matmul(g, rows, query, NULL); // [n,count]
    g->matmul = mode;
    const float *cosine = cosines && graph_ok(g) ? rows_read(&r->cosines, g, cosines) : NULL;
    for (int64_t i = 0; cosine && i < n; i++)
        take_row(r, c->best + at, cosine + i * c->count, site_row(args, i));
    graph_scratch_end(g, scratch);
    free(x);
    return graph_ok(g) ? 0 : -1;
}

// Appends a text, cut to the rows of a pass.
static int add_text(struct reading *r, int64_t line, struct ids *ids, struct err *err)
{
    struct corpus *c = r->c;
    const struct tokenizer *t = c->model->tokenizer;
    const char *text = c->file.line[line];
    ids_clear(ids);
    if (tokenizer_encode(t, text, strlen(text), TOKENIZE_SPECIAL | TOKENIZE_PLAIN, ids, err) < 0)
        return -1;
    if (ids->count > PASS_ROWS) ids->count = PASS_ROWS;
    r->line = xreallocarray(r->line, r->ids.count + ids->count + 1, sizeof *r->line);
    r->at = xreallocarray(r->at, r->ids.count + ids->count + 1, sizeof *r->at);
    for (size_t i = 0; i < ids->count; i++) {
        struct buf word = { 0 };
        tokenizer_decode(t, &ids->data[i], 1, true, &word);
        r->line[r->ids.count + i] = line;
        r->at[r->ids.count + i] = word.length ? (int64_t)i : -1;
        c->tokens += word.length > 0;
        c->said += ids->data[i] == c->word;
        buf_release(&word);
    }
    ids_append(&r->ids, ids->data, ids->count);
    return 0;
}

int corpus_search(struct corpus *c, struct passing *p, struct err *err)
{
    struct reading r = { .c = c };
    const struct hook hook = { .wants = reading_wants, .run = reading_run, .self = &r };
    struct ids ids = { 0 };
    size_t lengths[PASS_ROWS], texts = 0;
    int status = 0;
    normalise(c->query, (c->to - c->from + 1) * c->count, c->width);
    for (int64_t i = 0; i < c->file.count && status == 0; i++) {
        const size_t before = r.ids.count;
        status = add_text(&r, i, &ids, err);
        if (r.ids.count > before) lengths[texts++] = r.ids.count - before;
        const bool last = i + 1 == c->file.count;
        if (status < 0 || !texts || (!last && texts < PASS_ROWS && r.ids.count < PASS_ROWS))
            continue;
        passes_progress(p, i, c->file.count);
        status = passes_texts(p, &r.ids, lengths, texts, &hook, err);
        texts = 0;
        ids_clear(&r.ids);
    }
    if (status == 0) passes_progress(p, c->file.count, c->file.count);
    if (status == 0 && c->word >= 0 && !c->said)
        status = err_set(err, "--word: '%s' has no such token", c->path);
    ids_release(&ids);
    ids_release(&r.ids);
    free(r.line);
    free(r.at);
    rows_release(&r.rows);
    rows_release(&r.cosines);
    return status;
}

void corpus_context(const struct corpus *c, const struct corpus_nearest *n, struct buf *text)
{
    enum { BEFORE = 8, AFTER = 4 };
    const char *line = c->file.line[n->line];
    const struct tokenizer *t = c->model->tokenizer;
    struct ids ids = { 0 };
    struct err err;
    if (tokenizer_encode(t, line, strlen(line), TOKENIZE_SPECIAL | TOKENIZE_PLAIN, &ids, &err) < 0)
        BUG("a text that was read: %s", err.text);
    const size_t at = (size_t)n->at, first = at > BEFORE ? at - BEFORE : 0;
    const size_t end = at + 1 + AFTER < ids.count ? at + 1 + AFTER : ids.count;
    struct buf before = { 0 }, with = { 0 }, after = { 0 };
    tokenizer_decode(t, ids.data + first, at - first, true, &before);
    tokenizer_decode(t, ids.data + first, at + 1 - first, true, &with);
    tokenizer_decode(t, ids.data + at + 1, end - at - 1, true, &after);
    const char *word = with.data ? with.data + before.length : "";
    const bool space = *word == ' ';
    buf_printf(text, "%s%s%s»%s«%s", first ? "..." : "", before.data ? before.data : "",
               space ? " " : "", word + space, after.data ? after.data : "");
    buf_release(&before);
    buf_release(&with);
    buf_release(&after);
    ids_release(&ids);
}
