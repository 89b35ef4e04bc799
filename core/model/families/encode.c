// core/model/families/encode.c -- pictures to visual tokens.
//
//   picture -> what the encoder reads (family->picture_read) -> features [S',Dv'] -> projector
//           -> sequence order -> visual tokens [S,D] (family->picture_pack)
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/model/families/family.h"
#include "core/model/families/pooling.h"

static struct tensor *site(struct graph *g, const struct site *where, int number, struct tensor *x)
{
    struct site_args args = { .layer = -1, .picture = number, .x = x, .v = x, .prefill = true };
    if (!x || hooks_run(g, where, &args) < 0) return NULL;
    return args.x;
}

// Rows that the projector gives of a picture.
static int64_t projected_rows(const struct model *m, const struct vision_picture *p)
{
    return vision_features(&m->vision.config, p) / m->projector.merge;
}

// What the projector gives of a picture to its visual tokens [S, D].
static struct tensor *packed(struct graph *g, const struct model *m, const struct picture *picture,
                             struct tensor *x)
{
    if (m->family->picture_pack) x = m->family->picture_pack(g, m, picture, x);
    return picture->shape.share > 0 ? pooling_forward(g, m, picture, x) : x;
}

// Room for what the encoder attends to, where a method listens. The caller frees it.
static void want_focus(struct graph *g, const struct model *m, struct vision_picture *p)
{
    const int64_t rows = p->tiles * vision_tile_rows(&m->vision.config, p);
    if (hooks_wanted(g, SITE_FOCUS, -1)) p->received = xcalloc((size_t)rows + 1, sizeof(float));
}

// One number for each visual token: they go the way of the features, as their first column.
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
        packed(g, m, picture,
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

int family_encode_all(struct graph *g, const struct model *m, const struct picture *const *pictures,
                      const int *number, size_t count, struct tensor **tokens, float **focus)
{
    const struct family *f = m->family;
    if (!count) return 0;
    model_pass(m, true);
    struct vision_picture *read = xcalloc(count + 1, sizeof *read);
    for (size_t i = 0; i < count && graph_ok(g); i++) {
        read[i] = f->picture_read(g, m, pictures[i]);
        read[i].number = number[i];
        read[i].pixels = site(g, SITE_PIXELS, number[i], read[i].pixels);
        if (focus) want_focus(g, m, &read[i]);
    }
    struct tensor *x = vision_forward(g, &m->vision, read, count); // [S',Dv'] of all pictures
    x = projector_forward(g, &m->projector, x);
    x = vision_in_sequence(g, &m->vision, read, count, x);
    for (int64_t i = 0, at = 0, rows; i < (int64_t)count && graph_ok(g); i++, at += rows) {
        rows = projected_rows(m, &read[i]);
        tokens[i] = graph_rows(g, x, at, rows);
        tokens[i] = packed(g, m, pictures[i], tokens[i]);
        tokens[i] = site(g, SITE_PROJECTED, number[i], tokens[i]); // [S,D]
        if (focus) focus[i] = read[i].received ? focus_of(g, m, pictures[i], &read[i]) : NULL;
    }
    for (size_t i = 0; i < count; i++) free(read[i].received);
    free(read);
    return graph_ok(g) ? 0 : -1;
}

struct tensor *family_encode(struct graph *g, const struct model *m, const struct picture *picture,
                             int number, float **focus)
{
    struct tensor *tokens = NULL;
    if (focus) *focus = NULL;
    return family_encode_all(g, m, &picture, &number, 1, &tokens, focus) < 0 ? NULL : tokens;
}
