// core/methods/prune_score.c -- scores visual tokens for one query row, and selects the best.
//
// The query row's probabilities are recomputed from q and k, so that the layer's attention need not
// write out its probabilities. PRUNE_NOROPE first undoes the rotation of q, and of the keys, which
// are cached rotated.
#include "core/methods/prune_score.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/random.h"
#include "core/model/attend.h"
#include "core/model/decoder.h"
#include "core/model/model.h"
#include "core/model/rope.h"
#include "core/ops/ops.h"

// Returns a copy of x[n,H,d] with the rotary positions undone.
static struct tensor *unrotate(struct graph *g, const struct prune_view *view, struct tensor *x,
                               const int32_t *rows)
{
    struct rope_config rope = *decoder_rope(&view->model->decoder.config, view->layer);
    struct tensor *cos, *sin;
    rope.amplitude = 1; // does not undo the amplitude (YaRN)
    if (rope_angles(g, &rope, view->sequence, rows, x->shape[0], &cos, &sin) < 0) return NULL;
    return rope_part(g, &rope, op_widen(g, x), cos, op_scale(g, sin, -1));
}

int prune_score(struct graph *g, enum prune_kind kind, uint64_t seed, const struct prune_view *view,
                float *score)
{
    struct arena_mark scratch = graph_scratch_begin(g);
    struct tensor *q = view->q, *k = view->k, *probs = NULL, *norms;
    if (kind == PRUNE_RANDOM)
        for (int64_t i = 0; i < view->count; i++)
            score[i] = (float)random_unit(seed, RANDOM_PRUNE, (uint64_t)view->number[i]);
    if (kind == PRUNE_NOROPE) {
        q = unrotate(g, view, q, &view->query);
        k = unrotate(g, view, k, view->rows);
    }
    // probs [H,1,P]
    if (kind <= PRUNE_NOROPE) probs = attend_probs(g, q, k, view->first, view->scale);
    if (kind == PRUNE_CONTRIBUTION) {
        const struct linear *o = attention_output(&view->model->decoder.layer[view->layer]);
        norms = attend_contribution(g, o, probs, view->v, view->gate, view->token,
                                    view->count); // [count]
        if (norms) g->backend->download(score, norms->data, tensor_bytes(norms));
    } else if (probs) {
        // Averages each token's probabilities [H,1,P] over the heads.
        const int64_t heads = probs->shape[0], keys = probs->shape[2];
        float *host = xmalloc(tensor_bytes(probs));
        g->backend->download(host, probs->data, tensor_bytes(probs));
        for (int64_t i = 0; i < view->count; i++) {
            double sum = 0;
            for (int64_t h = 0; h < heads; h++) sum += host[h * keys + view->token[i]];
            score[i] = (float)(sum / (double)heads);
        }
        free(host);
    }
    graph_scratch_end(g, scratch);
    return graph_ok(g) ? 0 : -1;
}

struct scored {
    float score;
    int64_t at;
};

static int by_rank(const void *a, const void *b)
{
    const struct scored *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return x->at < y->at ? -1 : 1;
}

void prune_choose(enum prune_kind kind, const float *score, int64_t count, int64_t k, bool worst,
                  bool *keep)
{
    if (k > count) k = count;
    for (int64_t i = 0; i < count; i++) keep[i] = false;
    if (kind == PRUNE_UNIFORM) {
        for (int64_t i = 0; i < k; i++) keep[i * count / k] = true;
        return;
    }
    struct scored *list = xreallocarray(NULL, (size_t)count + 1, sizeof *list);
    // Damaged weights give NaN, which cannot be sorted.
    for (int64_t i = 0; i < count; i++)
        list[i] = (struct scored){ isnan(score[i]) ? -INFINITY : worst ? -score[i] : score[i], i };
    qsort(list, (size_t)count, sizeof *list, by_rank);
    for (int64_t i = 0; i < k; i++) keep[list[i].at] = true;
    free(list);
}

// --- diversity -----------------------------------------------------------------------------------

// Updates each row's distance to the nearest kept row after adding row `i`.
static void lower_distances(const double *unit, int64_t count, int64_t width, int64_t i,
                            double *nearest)
{
    for (int64_t j = 0; j < count; j++) {
        double dot = 0;
        for (int64_t c = 0; c < width; c++) dot += unit[i * width + c] * unit[j * width + c];
        if (j != i && 1 - dot < nearest[j]) nearest[j] = 1 - dot;
    }
}

// Returns the row furthest from the kept rows, the first on ties.
static int64_t furthest(const double *nearest, const bool *keep, int64_t count)
{
    int64_t best = -1;
    for (int64_t i = 0; i < count; i++)
        if (!keep[i] && (best < 0 || nearest[i] > nearest[best])) best = i;
    return best;
}

void prune_choose_diverse(const float *x, int64_t count, int64_t width, int64_t k, bool *keep)
{
    // Rows scaled to unit length; zero rows stay zero.
    double *unit = xreallocarray(NULL, (size_t)(count * width) + 1, sizeof *unit);
    for (int64_t i = 0; i < count; i++) {
        double sum = 0;
        for (int64_t c = 0; c < width; c++) sum += (double)x[i * width + c] * x[i * width + c];
        const double scale = sum > 0 ? 1 / sqrt(sum) : 0;
        for (int64_t c = 0; c < width; c++) unit[i * width + c] = x[i * width + c] * scale;
    }
    double *nearest = xreallocarray(NULL, (size_t)count + 1, sizeof *nearest);
    if (k > count) k = count;
    for (int64_t i = 0; i < count; i++) {
        keep[i] = false;
        nearest[i] = INFINITY;
    }
    // The first row to keep is the one whose nearest neighbour is furthest away.
    for (int64_t i = 0; k > 0 && i < count; i++) lower_distances(unit, count, width, i, nearest);
    for (int64_t n = 0; n < k; n++) {
        const int64_t best = furthest(nearest, keep, count);
        if (n == 0)
            for (int64_t i = 0; i < count; i++) nearest[i] = INFINITY;
        keep[best] = true;
        lower_distances(unit, count, width, best, nearest);
    }
    free(nearest);
    free(unit);
}

int64_t prune_count(double share, int64_t visual)
{
    const int64_t k = (int64_t)rint(share * (double)visual);
    return k < 1 && visual > 0 && share > 0 ? 1 : k < visual ? k : visual;
}
