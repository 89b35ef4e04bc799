// core/model/vision_focus.c -- the encoder's attention to each patch, which scores visual tokens
// without a language model.
//
//   a_j = mean over heads of softmax(q_cls k^T / sqrt(d))_j
//   a_j = mean over heads and over the rows i of its tile of softmax(q_i k^T / sqrt(d))_j,
//         in encoders without a class token
//
// in the block whose output the projector reads: FasterVLM (Zhang et al. 2024, arXiv 2412.01818,
// Eq. 4) and VisionZip (Yang et al. 2024, arXiv 2412.04467, section 3.2, which uses the second form
// for SigLIP). A token made of several patches gets the sum of their a_j.
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/model/attend.h"
#include "core/model/vision.h"
#include "core/ops/ops.h"

// --- in the block --------------------------------------------------------------------------------

static float scale_of(const struct vision_batch *b, const struct tensor *q)
{
    return b->vision->config.unscaled ? 1 : 1 / sqrtf((float)q->shape[2]);
}

// Sums probs [H,n,P] over heads and rows and adds `scale` times the sums to sum[P].
static void add_probs(struct graph *g, const struct tensor *probs, double scale, double *sum)
{
    const int64_t rows = probs->shape[0] * probs->shape[1], keys = probs->shape[2];
    float *host = xmalloc(tensor_bytes(probs) + 1);
    g->backend->download(host, probs->data, tensor_bytes(probs));
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < keys; j++) sum[j] += scale * (double)host[i * keys + j];
    free(host);
}

// The class token is the first row of each tile.
static void from_class(struct graph *g, const struct vision_batch *b, struct tensor *q,
                       struct tensor *k, double *sum)
{
    const double heads = (double)q->shape[1];
    for (size_t i = 0; i < b->count; i++) {
        const int64_t rows = vision_tile_rows(&b->vision->config, &b->picture[i]);
        for (int64_t at = b->at[i]; at < b->at[i + 1] && graph_ok(g); at += rows) {
            struct arena_mark scratch = graph_scratch_begin(g);
            struct tensor *probs =
                attend_probs(g, graph_rows(g, q, at, 1), graph_rows(g, k, at, rows), 0,
                             scale_of(b, q)); // [H,1,rows]
            if (probs) add_probs(g, probs, 1 / heads, sum + at);
            graph_scratch_end(g, scratch);
        }
    }
}

static void from_all(struct graph *g, const struct vision_batch *b, struct tensor *q,
                     struct tensor *k, struct tensor *first, struct tensor *end, double *sum)
{
    enum { FLOATS = 1 << 22 }; // probabilities per batch
    const int64_t n = q->shape[0], heads = q->shape[1], fit = FLOATS / (heads * n);
    const int64_t most = fit > 0 ? fit : 1;
    for (int64_t i = 0, m; i < n && graph_ok(g); i += m) {
        m = n - i < most ? n - i : most;
        struct arena_mark scratch = graph_scratch_begin(g);
        struct tensor *probs = graph_new3(g, DTYPE_F32, heads, m, n);
        struct tensor *from = first ? graph_rows(g, first, i, m) : NULL;
        struct tensor *to = end ? graph_rows(g, end, i, m) : NULL;
        op_attention(g, graph_rows(g, q, i, m), k, k, from, to, scale_of(b, q), probs);
        if (graph_ok(g)) add_probs(g, probs, 1 / (double)heads, sum);
        graph_scratch_end(g, scratch);
    }
    for (size_t i = 0; i < b->count; i++) {
        int64_t at = b->at[i];
        for (int64_t t = 0; t < b->picture[i].tiles; t++) {
            const struct vision_picture tile = vision_tile(&b->picture[i], t);
            const int64_t rows = vision_tile_rows(&b->vision->config, &tile), to = at + rows;
            for (; at < to; at++) sum[at] /= (double)rows;
        }
    }
}

void vision_focus_add(struct graph *g, const struct vision_batch *b, struct tensor *q,
                      struct tensor *k, struct tensor *first, struct tensor *end)
{
    if (!q || !k || !graph_ok(g)) return;
    double *sum = xcalloc((size_t)b->rows + 1, sizeof *sum);
    if (b->vision->config.class_token)
        from_class(g, b, q, k, sum);
    else
        from_all(g, b, q, k, first, end, sum);
    for (size_t i = 0; i < b->count; i++)
        for (int64_t row = b->at[i]; row < b->at[i + 1]; row++)
            b->picture[i].received[row - b->at[i]] = (float)sum[row];
    free(sum);
}

// --- visual tokens -------------------------------------------------------------------------------

// Sums the values of each cell's merge x merge patches; the patches are in row order.
static void cells_to_tokens(const struct vision_config *c, const struct vision_picture *p,
                            float *token)
{
    const int64_t k = c->merge;
    const float *received = p->received;
    for (int64_t t = 0; t < p->tiles; t++) {
        const struct vision_picture tile = vision_tile(p, t);
        const int64_t cols = tile.cols / k, cells = tile.rows / k * cols;
        for (int64_t n = 0; n < cells; n++, token++) {
            *token = 0;
            for (int64_t i = 0; i < k * k; i++) {
                const int64_t row = n / cols * k + i / k, col = n % cols * k + i % k;
                *token += received[c->class_token + row * tile.cols + col];
            }
        }
        received += vision_tile_rows(c, &tile);
    }
}

// Like cells_to_tokens, for patches that are already grouped in cells, in the kind's order.
static void blocks_to_tokens(const struct vision_config *c, const struct vision_picture *p,
                             float *token)
{
    const int64_t size = c->merge * c->merge, cells = p->rows * p->cols / size;
    int32_t *index = xreallocarray(NULL, (size_t)cells + 1, sizeof *index);
    for (int64_t n = 0; n < cells; n++) index[n] = (int32_t)n;
    if (c->kind->order) c->kind->order(c, p, index);
    for (int64_t n = 0; n < cells; n++) {
        float sum = 0;
        for (int64_t i = 0; i < size; i++) sum += p->received[n * size + i];
        token[index[n]] = sum;
    }
    free(index);
}

void vision_focus(const struct vision_config *config, const struct vision_picture *picture,
                  float *token)
{
    struct vision_config own = *config;
    struct vision_picture last = vision_joined(config, picture);
    // The last block itself may precede the joining: a token then has the patches of its windows.
    if (picture->joins && config->join >= vision_depth(config) - 1) {
        own.merge *= config->merge;
        last = *picture;
    }
    const struct vision_config *c = &own;
    const struct vision_picture *p = &last;
    const int64_t rows = vision_tile_rows(c, p);
    // Copies the values of all rows but a dropped first one. A class token that becomes a visual
    // token ranks above all others; its value is finite, because packing and pooling may multiply
    // it by 0.
    for (int64_t t = 0; t < p->tiles && c->merge <= 1; t++)
        for (int64_t row = c->drop_class; row < rows; row++)
            *token++ = c->class_token && row == 0 ? FLT_MAX : p->received[t * rows + row];
    if (c->merge <= 1) return;
    if (c->image_size || c->kind->row_by_row)
        cells_to_tokens(c, p, token);
    else
        blocks_to_tokens(c, p, token);
}
