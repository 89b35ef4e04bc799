// core/probes/corpus.c -- the nearest tokens of a corpus.
//
// Several texts share a pass, in which each attends only to itself. Each pass updates the best
// match of every query. Over a data set, the states of a pass are kept for the later samples, as
// long as there is room for them.
#include "core/probes/corpus.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/ops/ops.h"
#include "core/probes/kit.h"
#include "core/probes/passes.h"
#include "core/tokenizer/tokenizer.h"

enum { PASS_ROWS = 512 };
// Most bytes of states to keep.
static const uint64_t most_kept = (uint64_t)1 << 30;

void corpus_texts_release(struct corpus_texts *t)
{
    for (size_t i = 0; i < t->count; i++) {
        ids_release(&t->list[i].ids);
        free(t->list[i].line);
        free(t->list[i].at);
        free(t->list[i].lengths);
        free(t->list[i].state);
    }
    free(t->list);
    text_file_close(&t->file);
    *t = (struct corpus_texts){ 0 };
}

int corpus_open(struct corpus *c, const struct corpus *like, struct err *err)
{
    *c = *like;
    c->texts = c->shared ? c->shared : &c->own;
    const size_t layers = (size_t)(c->to - c->from + 1), cells = layers * (size_t)c->count;
    c->width = c->model->decoder.config.hidden;
    c->query = xcalloc(cells * (size_t)c->width + 1, sizeof *c->query);
    c->best = xcalloc(cells + 1, sizeof *c->best);
    for (size_t i = 0; i < cells; i++)
        c->best[i] = (struct corpus_nearest){ .id = -1, .cosine = -2, .word = -2 };
    struct text_file *file = &c->texts->file;
    if (file->count) return 0;
    int status = text_file_open(file, c->path, err);
    if (status == 0 && !file->count)
        status = err_set(err, "'%s' has no text: write one on each line", c->path);
    if (status < 0) text_file_close(file); // the next sample opens it again
    return status;
}

void corpus_close(struct corpus *c)
{
    corpus_texts_release(&c->own);
    free(c->query);
    free(c->best);
}

// --- texts ---------------------------------------------------------------------------------------

// Appends a text, cut to the rows of a pass, to the last pass, or to a new one if that is full.
static int add_text(struct corpus *c, int64_t line, struct ids *ids, struct err *err)
{
    struct corpus_texts *all = c->texts;
    const struct tokenizer *t = c->model->tokenizer;
    const char *text = all->file.line[line];
    ids_clear(ids);
    if (tokenizer_encode(t, text, strlen(text), TOKENIZE_SPECIAL | TOKENIZE_PLAIN, ids, err) < 0)
        return -1;
    if (!ids->count) return 0;
    if (ids->count > PASS_ROWS) ids->count = PASS_ROWS;
    struct corpus_pass *p = all->count ? &all->list[all->count - 1] : NULL;
    if (!p || p->texts == PASS_ROWS || p->ids.count >= PASS_ROWS) {
        all->list = xgrow(all->list, &all->capacity, all->count, sizeof *all->list);
        p = &all->list[all->count++];
        *p = (struct corpus_pass){ .lengths = xcalloc(PASS_ROWS, sizeof *p->lengths) };
    }
    p->line = xreallocarray(p->line, p->ids.count + ids->count, sizeof *p->line);
    p->at = xreallocarray(p->at, p->ids.count + ids->count, sizeof *p->at);
    for (size_t i = 0; i < ids->count; i++) {
        struct buf word = { 0 };
        tokenizer_decode(t, &ids->data[i], 1, true, &word);
        p->line[p->ids.count + i] = line;
        p->at[p->ids.count + i] = word.length ? (int64_t)i : -1;
        all->tokens += word.length > 0;
        buf_release(&word);
    }
    p->lengths[p->texts++] = ids->count;
    ids_append(&p->ids, ids->data, ids->count);
    return 0;
}

static int read_texts(struct corpus *c, struct err *err)
{
    struct ids ids = { 0 };
    int status = 0;
    for (int64_t i = 0; i < c->texts->file.count && status == 0; i++)
        status = add_text(c, i, &ids, err);
    ids_release(&ids);
    return status;
}

// --- passes --------------------------------------------------------------------------------------

// A pass over some texts.
struct reading {
    struct corpus *c;
    const struct corpus_pass *pass;
    float *keep; // [to-from+1, n, D] receives the states, scaled to unit norm; NULL: not kept
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
    const struct corpus_pass *p = r->pass;
    const int32_t id = p->ids.data[row];
    if (p->at[row] < 0) return;
    for (int64_t q = 0; q < c->count; q++) {
        const double x = (double)cosine[q];
        if (id == c->word && x > best[q].word) best[q].word = x;
        if (x > best[q].cosine)
            best[q] = (struct corpus_nearest){ id, p->line[row], p->at[row], x, best[q].word };
    }
}

// Compares the states x [n,D] of a layer, scaled to unit norm, with the queries.
static int compare_layer(struct reading *r, struct graph *g, int layer, const float *x)
{
    const struct corpus *c = r->c;
    const int64_t n = (int64_t)r->pass->ids.count, at = (layer - c->from) * c->count;
    const enum matmul_mode mode = g->matmul;
    struct arena_mark scratch = graph_scratch_begin(g);
    g->matmul = MATMUL_F32;
    struct tensor *rows = graph_upload(g, DTYPE_F32, 2, (int64_t[]){ n, c->width }, x);
    struct tensor *query =
        graph_upload(g, DTYPE_F32, 2, (int64_t[]){ c->count, c->width }, c->query + at * c->width);
    struct tensor *cosines = op_matmul(g, rows, query, NULL); // [n,count]
    g->matmul = mode;
    const float *cosine = cosines && graph_ok(g) ? rows_read(&r->cosines, g, cosines) : NULL;
    for (int64_t i = 0; cosine && i < n; i++) take_row(r, c->best + at, cosine + i * c->count, i);
    graph_scratch_end(g, scratch);
    return graph_ok(g) ? 0 : -1;
}

static int reading_run(void *self, struct graph *g, const struct site *site, struct site_args *args)
{
    struct reading *r = self;
    const struct corpus *c = r->c;
    const size_t count = r->pass->ids.count * (size_t)c->width; // no method drops rows
    float *x = r->keep ? r->keep + (size_t)(args->layer - c->from) * count
                       : xreallocarray(NULL, count + 1, sizeof *x);
    const float *h = rows_read(&r->rows, g, args->x); // [n,D]
    if (h) {
        memcpy(x, h, count * sizeof *x);
        normalise(x, (int64_t)r->pass->ids.count, c->width);
        compare_layer(r, g, args->layer, x);
    }
    if (!r->keep) free(x);
    return graph_ok(g) ? 0 : -1;
}

// Compares the kept states of a pass.
static int compare_kept(void *self, struct graph *g)
{
    struct reading *r = self;
    const struct corpus *c = r->c;
    const size_t count = r->pass->ids.count * (size_t)c->width;
    int status = 0;
    for (int l = c->from; l <= c->to && status == 0; l++)
        status = compare_layer(r, g, l, r->pass->state + (size_t)(l - c->from) * count);
    return status;
}

static int search_pass(struct corpus *c, struct corpus_pass *pass, struct reading *r,
                       struct passing *p, struct err *err)
{
    const struct hook hook = { .wants = reading_wants, .run = reading_run, .self = r };
    struct corpus_texts *all = c->texts;
    const uint64_t bytes =
        (uint64_t)(c->to - c->from + 1) * pass->ids.count * (uint64_t)c->width * sizeof *r->keep;
    r->pass = pass;
    if (pass->state) return passes_compute(p, compare_kept, r, err);
    const bool keeps = c->shared && all->kept + bytes <= most_kept;
    r->keep = keeps ? malloc((size_t)bytes) : NULL; // NULL: the next sample reads the texts again
    const int status = passes_texts(p, &pass->ids, pass->lengths, pass->texts, &hook, err);
    if (status == 0 && r->keep) {
        pass->state = r->keep;
        all->kept += bytes;
    } else {
        free(r->keep);
    }
    r->keep = NULL;
    return status;
}

int corpus_search(struct corpus *c, struct passing *p, struct err *err)
{
    struct reading r = { .c = c };
    struct corpus_texts *all = c->texts;
    bool said = false;
    int status = all->count ? 0 : read_texts(c, err);
    if (status < 0) corpus_texts_release(all); // the next sample must not search a part of them
    normalise(c->query, (c->to - c->from + 1) * c->count, c->width);
    for (size_t i = 0; i < all->count && status == 0; i++) {
        const struct ids *ids = &all->list[i].ids;
        passes_progress(p, (int64_t)i, (int64_t)all->count);
        status = search_pass(c, &all->list[i], &r, p, err);
        for (size_t k = 0; k < ids->count; k++) said |= ids->data[k] == c->word;
    }
    if (status == 0) passes_progress(p, (int64_t)all->count, (int64_t)all->count);
    if (status == 0 && c->word >= 0 && !said)
        status = err_set(err, "--word: '%s' has no such token", c->path);
    rows_release(&r.rows);
    rows_release(&r.cosines);
    return status;
}

void corpus_context(const struct corpus *c, const struct corpus_nearest *n, struct buf *text)
{
    enum { BEFORE = 8, AFTER = 4 };
    const char *line = c->texts->file.line[n->line];
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
