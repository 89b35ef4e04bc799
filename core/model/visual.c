// core/model/visual.c -- turns pictures into visual tokens, and splices these into text embeddings.
//
//   picture -> input of the encoder (family->pictures->read) -> features [S',Dv'] -> projector
//           -> sequence order -> visual tokens [S,D] (family->pictures->pack)
//   outputs of earlier blocks -> their own projectors -> rows beside the tokens (DeepStack)
//   ids -> embeddings, visual tokens scattered into their rows -> h[0] [n,D]
#include "core/model/visual.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/model/families/family.h"
#include "core/model/families/pooling.h"
#include "core/model/pass.h"
#include "core/ops/ops.h"
#include "core/template/message.h"

// --- pictures to visual tokens -------------------------------------------------------------------

static struct tensor *picture_site(struct graph *g, const struct site *where, int number,
                                   struct tensor *x)
{
    struct site_args args = { .layer = -1, .picture = number, .x = x, .v = x, .prefill = true };
    if (!x || hooks_run(g, where, &args) < 0) return NULL;
    return args.x;
}

// Returns the number of rows that the projector returns for a picture.
static int64_t projected_rows(const struct model *m, const struct vision_picture *p)
{
    return vision_features(&m->vision.config, p) / m->projector.merge;
}

// Turns the projector's rows of one picture into its visual tokens [S, D].
static struct tensor *pack(struct graph *g, const struct model *m, const struct picture *picture,
                           struct tensor *x)
{
    if (m->family->pictures->pack) x = m->family->pictures->pack(g, m, picture, x);
    return picture->shape.share > 0 ? pooling_forward(g, m, picture, x) : x;
}

// Returns the encoder's attention to each visual token of a picture, [S]; -1 for newlines. The
// attention goes through pack() as the projector's rows do: as the first column of rows that are
// otherwise zero.
static float *focus_of(struct graph *g, const struct model *m, const struct picture *picture,
                       const struct vision_picture *read)
{
    const int64_t rows = projected_rows(m, read), width = m->decoder.config.hidden;
    float *one = xcalloc((size_t)rows + 1, sizeof *one), *host = NULL;
    float *focus = arena_alloc_host(g->arena, (size_t)(picture->tokens + 1) * sizeof *focus);
    vision_focus(&m->vision.config, read, one);
    struct arena_mark scratch = graph_scratch_begin(g);
    float *wide = xcalloc((size_t)(rows * width) + 1, sizeof *wide);
    for (int64_t i = 0; i < rows; i++) wide[i * width] = one[i];
    struct tensor *x =
        pack(g, m, picture,
             graph_upload(g, DTYPE_F32, 2, (int64_t[]){ rows, width }, wide)); // [tokens, D]
    if (x && x->shape[0] == picture->tokens) {
        host = xmalloc(tensor_bytes(x) + 1);
        g->backend->download(host, x->data, tensor_bytes(x));
    }
    for (int64_t i = 0; host && focus && i < picture->tokens; i++) {
        const int64_t behind = i - picture->newline;
        const bool newline =
            picture->newline_step && behind >= 0 && behind % picture->newline_step == 0;
        focus[i] = newline ? -1 : host[i * width];
    }
    graph_scratch_end(g, scratch);
    const bool whole = host && focus;
    free(one);
    free(wide);
    free(host);
    return whole ? focus : graph_fail(g, "the encoder's attention to a picture does not fit it");
}

// Joins each of a picture's tokens [S, D] with its DeepStack rows: [S, (1+n)*D]. The picture's rows
// start at row `at` of each deep[i].
static struct tensor *put_deep(struct graph *g, const struct model *m,
                               const struct picture *picture, struct tensor *tokens,
                               struct tensor *const *deep, int64_t at, int64_t rows)
{
    const int64_t n = m->vision.config.deep_count;
    if (!n || !tokens) return tokens;
    const int64_t S = tokens->shape[0], D = tokens->shape[1];
    int32_t *index = xreallocarray(NULL, (size_t)S + 1, sizeof *index);
    struct tensor *all = graph_new2(g, DTYPE_F32, S * (1 + n), D);
    for (int64_t k = 0; k <= n && graph_ok(g); k++) {
        struct tensor *x = k ? pack(g, m, picture, graph_rows(g, deep[k - 1], at, rows)) : tokens;
        for (int64_t i = 0; i < S; i++) index[i] = (int32_t)(i * (1 + n) + k);
        all = op_scatter_rows(g, all, x, index);
    }
    free(index);
    return all ? graph_view(g, all, 2, (int64_t[]){ S, (1 + n) * D }) : NULL;
}

int visual_encode_all(struct graph *g, const struct model *m, const struct picture *const *pictures,
                      const int *number, size_t count, struct tensor **tokens, float **focus)
{
    const struct family *f = m->family;
    const bool wants_focus = focus && hooks_wanted(g, SITE_FOCUS, -1);
    if (!count) return 0;
    model_pass(m, true);
    struct vision_picture *read = xcalloc(count + 1, sizeof *read);
    for (size_t i = 0; i < count && graph_ok(g); i++) {
        read[i] = f->pictures->read(g, m, pictures[i]);
        read[i].number = number[i];
        read[i].pixels = picture_site(g, SITE_PIXELS, number[i], read[i].pixels);
        const int64_t rows = vision_rows(&m->vision.config, &read[i]);
        if (wants_focus) read[i].received = xcalloc((size_t)rows + 1, sizeof(float));
    }
    struct tensor *deep[VISION_DEEP_MOST] = { NULL };
    struct tensor *x = vision_forward(g, &m->vision, read, count, deep); // [S',Dv'] of all pictures
    x = projector_forward(g, &m->projector, x);
    x = vision_in_sequence(g, &m->vision, read, count, x);
    for (int i = 0; i < m->vision.config.deep_count; i++)
        deep[i] = vision_in_sequence(g, &m->vision, read, count, deep[i]);
    for (int64_t i = 0, at = 0, rows; i < (int64_t)count && graph_ok(g); i++, at += rows) {
        rows = projected_rows(m, &read[i]);
        tokens[i] = graph_rows(g, x, at, rows);
        tokens[i] = pack(g, m, pictures[i], tokens[i]);
        tokens[i] = picture_site(g, SITE_PROJECTED, number[i], tokens[i]); // [S,D]
        tokens[i] = put_deep(g, m, pictures[i], tokens[i], deep, at, rows);
        if (focus) focus[i] = read[i].received ? focus_of(g, m, pictures[i], &read[i]) : NULL;
    }
    for (size_t i = 0; i < count; i++) free(read[i].received);
    free(read);
    return graph_ok(g) ? 0 : -1;
}

struct tensor *visual_encode(struct graph *g, const struct model *m, const struct picture *picture,
                             int number, float **focus)
{
    struct tensor *tokens = NULL;
    if (focus) *focus = NULL;
    return visual_encode_all(g, m, &picture, &number, 1, &tokens, focus) < 0 ? NULL : tokens;
}

// --- visual tokens among the text ----------------------------------------------------------------

// Lists the rows of picture `p` (-1: of text) among rows from.. of s. index: their indices in h[0];
// row: the row that each copies, from the picture's visual tokens or, for text, from the embedding
// table.
static int64_t rows_of(const struct sequence *s, int64_t from, int p, int32_t *index, int32_t *row)
{
    int64_t n = 0;
    for (int64_t i = from; i < s->n; i++)
        if (p < 0 ? s->picture[i] < 0 : s->picture[i] == p) {
            index[n] = (int32_t)(i - from);
            row[n++] = p < 0 ? s->ids[i] : s->cell[i];
        }
    return n;
}

struct tensor *visual_keep(struct graph *g, const struct tensor *tokens)
{
    if (!tokens) return NULL;
    struct tensor *own = xmalloc(sizeof *own);
    *own = *tokens;
    own->grad = NULL;
    own->data = g->backend->alloc(tensor_bytes(tokens));
    if (!own->data)
        graph_fail(g, "out of memory for %lld visual tokens", (long long)tokens->shape[0]);
    else if (g->backend->widen(own, tokens) < 0) // tokens are f32: widen copies them
        graph_fail(g, "widen: %s", g->backend->failure());
    if (graph_ok(g)) return own;
    visual_free(g->backend, own);
    return NULL;
}

void visual_free(const struct backend *b, struct tensor *kept)
{
    if (kept) b->release(kept->data);
    free(kept);
}

// Returns `tokens` [S,(1+n)*D] without the DeepStack rows: [S,D].
static struct tensor *without_deep(struct graph *g, struct tensor *tokens, int64_t D)
{
    const int64_t parts = tokens->shape[1] / D, S = tokens->shape[0];
    if (parts == 1) return tokens;
    int32_t *index = xreallocarray(NULL, (size_t)S + 1, sizeof *index);
    for (int64_t i = 0; i < S; i++) index[i] = (int32_t)(i * parts);
    struct tensor *x = graph_view(g, tokens, 2, (int64_t[]){ S * parts, D });
    x = op_gather_rows(g, x, index, S);
    free(index);
    return x;
}

// Returns the tokens of picture `p` after the methods at SITE_VISUAL (norm alignment).
static struct tensor *visual_site(struct graph *g, const struct sequence *s, struct tensor *tokens,
                                  int p)
{
    if (!tokens || !hooks_wanted(g, SITE_VISUAL, -1)) return tokens;
    int32_t *rows = arena_alloc_host(g->arena, (size_t)tokens->shape[0] * sizeof *rows);
    if (!rows) return graph_fail(g, "out of memory on %s", g->backend->name);
    memset(rows, 0, (size_t)tokens->shape[0] * sizeof *rows);
    for (int64_t i = 0; i < s->n; i++)
        if (s->picture[i] == p) rows[s->cell[i]] = (int32_t)i;
    struct site_args args = { .layer = -1,
                              .picture = p,
                              .x = tokens,
                              .v = tokens,
                              .sequence = s,
                              .rows = rows,
                              .prefill = true };
    return hooks_run(g, SITE_VISUAL, &args) < 0 ? NULL : args.x;
}

// Passes the encoder's attention to each picture of the sequence to the listeners at SITE_FOCUS.
static void focus_site(struct graph *g, const struct sequence *s, const float *const *focus,
                       int picture_count)
{
    if (!hooks_wanted(g, SITE_FOCUS, -1)) return;
    int64_t *tokens = xcalloc((size_t)picture_count + 1, sizeof *tokens);
    for (int64_t i = 0; i < s->n; i++)
        if (s->picture[i] >= 0) tokens[s->picture[i]]++;
    for (int p = 0; p < picture_count && graph_ok(g); p++) {
        if (!tokens[p]) continue;
        if (!focus || !focus[p]) {
            graph_fail(g, "picture %d was encoded without its attention", p);
            break;
        }
        struct site_args args = { .layer = -1, .picture = p, .sequence = s, .prefill = true };
        args.x = graph_upload(g, DTYPE_F32, 1, &tokens[p], focus[p]);
        if (args.x) hooks_run(g, SITE_FOCUS, &args);
    }
    free(tokens);
}

// Copies the list of the pictures' tokens to the step arena; NULL: empty, or out of memory.
static struct tensor *const *keep_list(struct graph *g, struct tensor *const *visual, int count)
{
    const size_t size = (size_t)count * sizeof(struct tensor *);
    struct tensor **list = count ? arena_alloc_host(g->arena, size) : NULL;
    if (list) memcpy(list, visual, size);
    if (count && !list) graph_fail(g, "out of memory on %s", g->backend->name);
    return list;
}

static struct tensor *embed(struct graph *g, const struct decoder *d, const int32_t *ids, int64_t n)
{
    struct tensor *x = op_embedding(g, graph_weight(&d->embed), ids, n); // [n,D]
    return d->config.embed_scale == 1 ? x : op_scale(g, x, d->config.embed_scale);
}

struct tensor *splice(struct graph *g, const struct decoder *d, const struct sequence *s,
                      int64_t from, struct tensor *const *visual, const float *const *focus,
                      int picture_count)
{
    struct tensor *const table = graph_weight(&d->embed); // [V,D]
    const int64_t n = s->n - from;
    int32_t *index = xreallocarray(NULL, (size_t)n, sizeof *index);
    int32_t *row = xreallocarray(NULL, (size_t)n, sizeof *row);
    focus_site(g, s, focus, picture_count);

    // Text: each id's row of the embedding table.
    int64_t count = rows_of(s, from, -1, index, row);
    struct tensor *h; // [n,D]
    if (count == n || !table) {
        h = embed(g, d, s->ids + from, n);
    } else {
        h = graph_new2(g, DTYPE_F32, n, table->shape[1]);
        if (count) h = op_scatter_rows(g, h, embed(g, d, row, count), index);
    }

    // Pictures: all their tokens, or the remaining ones if the first are cached.
    for (int p = 0; h && p < picture_count; p++) {
        count = rows_of(s, from, p, index, row);
        if (!count) continue;
        if (!visual[p]) {
            h = graph_fail(g, "picture %d has no visual tokens", p);
            break;
        }
        struct tensor *tokens = without_deep(g, visual[p], h->shape[1]);
        tokens = visual_site(g, s, tokens, p); // [S,D]
        h = op_scatter_rows(g, h, op_gather_rows(g, tokens, row, count), index);
    }
    free(index);
    free(row);
    g->visual = keep_list(g, visual, picture_count);
    struct site_args args = {
        .layer = -1, .picture = -1, .x = h, .past = from, .sequence = s, .prefill = n > 1
    };
    if (h && hooks_wanted(g, SITE_EMBED, -1) && hooks_run(g, SITE_EMBED, &args) < 0) return NULL;
    return args.x;
}

// --- DeepStack -----------------------------------------------------------------------------------

// Adds row row[i] of `from` to row index[i] of h.
static struct tensor *add_deep(struct graph *g, struct tensor *h, struct tensor *from,
                               const int32_t *index, const int32_t *row, int64_t n)
{
    float *ones = xreallocarray(NULL, (size_t)n, sizeof *ones);
    for (int64_t i = 0; i < n; i++) ones[i] = 1;
    struct tensor *one = graph_upload(g, DTYPE_F32, 1, &n, ones);
    free(ones);
    return op_add_weighted_rows(g, h, op_gather_rows(g, from, row, n), index, one);
}

struct tensor *visual_deepstack(struct graph *g, const struct layer *layer, struct tensor *h)
{
    const struct pass *p = layer->pass;
    const struct sequence *s = p->sequence;
    const int64_t D = p->config->hidden;
    if (!p->visual || !h || !graph_ok(g)) return h;
    int32_t *index = xreallocarray(NULL, (size_t)p->n, sizeof *index);
    int32_t *row = xreallocarray(NULL, (size_t)p->n, sizeof *row);
    // Rows are in the order of pictures, so each picture's rows are adjacent.
    for (int64_t i = 0, count; i < p->n && h; i += count) {
        const int64_t at = pass_row(p, i);
        const int picture = s->picture[at];
        count = 1;
        if (picture < 0) continue;
        struct tensor *from = p->visual[picture];
        if (!from) {
            h = graph_fail(g, "picture %d has no visual tokens", picture);
            break;
        }
        const int64_t parts = from->shape[1] / D;
        for (count = 0; i + count < p->n; count++) {
            const int64_t next = pass_row(p, i + count);
            if (s->picture[next] != picture) break;
            index[count] = (int32_t)(i + count);
            row[count] = (int32_t)(s->cell[next] * parts + layer->number + 1);
        }
        if (layer->number + 1 >= parts) continue;
        from = graph_view(g, from, 2, (int64_t[]){ from->shape[0] * parts, D });
        h = add_deep(g, h, from, index, row, count);
    }
    free(index);
    free(row);
    return h;
}
