// core/model/splice.c -- inserts visual tokens between the text embeddings.
#include "core/model/splice.h"

#include <stdlib.h>
#include <string.h>

#include "core/ops/ops.h"

// The rows of picture `p` among rows from.. of s: their places in h[0] and in the picture's tokens.
static int64_t rows_of(const struct sequence *s, int64_t from, int p, int32_t *place, int32_t *cell)
{
    int64_t n = 0;
    for (int64_t i = from; i < s->n; i++)
        if (s->picture[i] == p) {
            place[n] = (int32_t)(i - from);
            cell[n++] = s->cell[i];
        }
    return n;
}

// The tokens of picture `p` after the methods at SITE_VISUAL (norm alignment).
static struct tensor *visual_site(struct graph *g, const struct sequence *s, struct tensor *tokens,
                                  int p)
{
    if (!hooks_wanted(g, SITE_VISUAL, -1)) return tokens;
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

// Rows from.. of s with the text embeddings in place; visual rows are uninitialised.
static struct tensor *text_rows(struct graph *g, const struct tensor *embed,
                                const struct sequence *s, int64_t from)
{
    struct tensor *const table = graph_weight(embed);
    const int64_t n = s->n - from, visual = sequence_visual_count(s, from);
    if (!visual || !table) return op_embedding(g, table, s->ids + from, n);
    int32_t *place = xreallocarray(NULL, (size_t)n, sizeof *place);
    int32_t *id = xreallocarray(NULL, (size_t)n, sizeof *id);
    int64_t count = 0;
    for (int64_t i = from; i < s->n; i++)
        if (s->picture[i] < 0) {
            place[count] = (int32_t)(i - from);
            id[count++] = s->ids[i];
        }
    struct tensor *h = graph_new2(g, DTYPE_F32, n, table->shape[1]); // [n,D]
    if (count) h = op_scatter_rows(g, h, op_embedding(g, table, id, count), place);
    free(place);
    free(id);
    return h;
}

// Tells methods what the encoder attends to in each picture of the sequence.
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

struct tensor *splice(struct graph *g, const struct tensor *embed, const struct sequence *s,
                      int64_t from, struct tensor *const *visual, const float *const *focus,
                      int picture_count)
{
    int64_t n = s->n - from;
    focus_site(g, s, focus, picture_count);
    struct tensor *h = text_rows(g, embed, s, from); // [n,D]
    int32_t *place = xreallocarray(NULL, (size_t)n, sizeof *place);
    int32_t *cell = xreallocarray(NULL, (size_t)n, sizeof *cell);
    for (int p = 0; h && p < picture_count; p++) {
        int64_t count = rows_of(s, from, p, place, cell);
        if (!count) continue;
        if (!visual[p]->data) {
            h = graph_fail(g, "picture %d has no visual tokens", p);
            break;
        }
        // [count,D]: all tokens of the picture, or the remaining ones if the first are cached.
        struct tensor *rows = op_gather_rows(g, visual_site(g, s, visual[p], p), cell, count);
        h = op_scatter_rows(g, h, rows, place);
    }
    free(place);
    free(cell);
    struct site_args args = {
        .layer = -1, .picture = -1, .x = h, .past = from, .sequence = s, .prefill = n > 1
    };
    if (h && hooks_wanted(g, SITE_EMBED, -1) && hooks_run(g, SITE_EMBED, &args) < 0) return NULL;
    return args.x;
}
