// core/model/families/encode.c -- pictures to visual tokens.
//
//   picture -> what the encoder reads (family->picture_read) -> features [S',Dv'] -> projector
//           -> sequence order -> visual tokens [S,D] (family->picture_pack)
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/model/families/family.h"
#include "core/model/families/pooling.h"

static struct tensor *site(struct graph *g, enum site where, int number, struct tensor *x)
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

int family_encode_all(struct graph *g, const struct model *m, const struct picture *const *pictures,
                      const int *number, size_t count, struct tensor **tokens)
{
    const struct family *f = m->family;
    if (!count) return 0;
    struct vision_picture *read = xcalloc(count + 1, sizeof *read);
    for (size_t i = 0; i < count && graph_ok(g); i++) {
        read[i] = f->picture_read(g, m, pictures[i]);
        read[i].number = number[i];
        read[i].pixels = site(g, SITE_PIXELS, number[i], read[i].pixels);
    }
    struct tensor *x = vision_forward(g, &m->vision, read, count); // [S',Dv'] of all pictures
    x = projector_forward(g, &m->projector, x);
    x = vision_in_sequence(g, &m->vision, read, count, x);
    for (int64_t i = 0, at = 0, rows; i < (int64_t)count && graph_ok(g); i++, at += rows) {
        rows = projected_rows(m, &read[i]);
        tokens[i] = graph_rows(g, x, at, rows);
        tokens[i] = packed(g, m, pictures[i], tokens[i]);
        tokens[i] = site(g, SITE_PROJECTED, number[i], tokens[i]); // [S,D]
    }
    free(read);
    return graph_ok(g) ? 0 : -1;
}

struct tensor *family_encode(struct graph *g, const struct model *m, const struct picture *picture,
                             int number)
{
    struct tensor *tokens = NULL;
    return family_encode_all(g, m, &picture, &number, 1, &tokens) < 0 ? NULL : tokens;
}
