// core/model/families/native.c -- pictures of any size: preprocessing, token grid, positions.
#include "core/model/families/native.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/files/gguf_write.h"
#include "core/ops/ops.h"
#include "core/picture/preprocess.h"
#include "core/template/message.h"

// --- preprocessing -------------------------------------------------------------------------------

// Reads the area limits: "min_pixels" and "max_pixels", or the "size" of newer files:
// {"shortest_edge": least area, "longest_edge": largest area}.
static int read_limits(struct picture_config *c, const cJSON *json, struct err *err)
{
    const cJSON *size;
    if (json_object(json, "size", &size, err) < 0) return -1;
    if (size && size->child && !(json_get(size, "shortest_edge") && json_get(size, "longest_edge")))
        return err_set(err, "\"size\" must have shortest_edge and longest_edge, the least and the "
                            "largest area in pixels");
    if (json_int(size, "shortest_edge", 1, INT32_MAX, c->min_pixels, &c->min_pixels, err) < 0 ||
        json_int(size, "longest_edge", 1, INT32_MAX, c->max_pixels, &c->max_pixels, err) < 0 ||
        json_int(json, "min_pixels", 1, INT32_MAX, c->min_pixels, &c->min_pixels, err) < 0 ||
        json_int(json, "max_pixels", 1, INT32_MAX, c->max_pixels, &c->max_pixels, err) < 0)
        return -1;
    if (c->min_pixels > c->max_pixels)
        return err_set(err, "the least number of pixels, %lld, exceeds the largest, %lld",
                       (long long)c->min_pixels, (long long)c->max_pixels);
    return 0;
}

const char *const native_picture_keys[] = { PICTURE_SHARED_KEYS,   "size",       "min_pixels",
                                            "max_pixels",          "patch_size", "merge_size",
                                            "temporal_patch_size", NULL };

int native_read_pictures(struct model *m, const struct checkpoint *c,
                         const struct picture_config *defaults, struct err *err)
{
    const struct vision_config *v = &m->vision.config;
    m->picture = vision_picture_defaults(v, FIT_NATIVE);
    m->picture.min_pixels = defaults->min_pixels;
    m->picture.max_pixels = defaults->max_pixels;
    m->picture.frames = defaults->frames;
    m->picture.enlarge = defaults->enlarge;
    m->picture.multiple = v->patch * v->merge;
    memcpy(m->picture.mean, picture_clip_mean, sizeof m->picture.mean);
    memcpy(m->picture.std, picture_clip_std, sizeof m->picture.std);
    const cJSON *json = c->preprocessor;
    if (picture_config_read_shared(&m->picture, json, err) < 0 ||
        read_limits(&m->picture, json, err) < 0 ||
        vision_check_equal(json, "patch_size", v->patch, err) < 0 ||
        vision_check_equal(json, "merge_size", v->merge, err) < 0 ||
        vision_check_equal(json, "temporal_patch_size", v->times, err) < 0 ||
        (!m->picture.resize && err_set(err, "\"do_resize\" false is not supported") < 0))
        return err_in(err, "%s", checkpoint_preprocessor_file(c));
    return 0;
}

int native_check_width(const struct model *m, int64_t out, struct err *err)
{
    if (out == m->decoder.config.hidden) return 0;
    return err_set(err,
                   "\"out_hidden_size\" %lld of the encoder is not the \"hidden_size\" %lld of the "
                   "language model",
                   (long long)out, (long long)m->decoder.config.hidden);
}

// --- the grid ------------------------------------------------------------------------------------

// Sets the numbers of rows and columns of visual tokens; 0 for a picture that the encoder cannot
// read (encoding it reports why).
static void token_grid(const struct model *m, struct picture_shape shape, int64_t *rows,
                       int64_t *cols)
{
    const struct picture_config c = model_picture_config(m, shape);
    int64_t width, height;
    struct err err;
    *rows = *cols = 0;
    if (preprocess_padded(&c, shape.width, shape.height, &width, &height, &err) < 0) return;
    *rows = height / m->picture.multiple;
    *cols = width / m->picture.multiple;
}

static int64_t picture_tokens(const struct model *m, struct picture_shape shape)
{
    int64_t rows, cols;
    token_grid(m, shape, &rows, &cols);
    return rows * cols;
}

// The rows of the grid, if the prompt has text between them.
static void picture_parts(const struct model *m, struct picture *p)
{
    int64_t rows, cols;
    if (!m->vision.config.kind->picture_mark || !p->tokens) return;
    token_grid(m, p->shape, &rows, &cols);
    p->part_tokens = cols;
    p->part_cols = 1;
}

static void picture_usual(const struct model *m, int64_t *width, int64_t *height)
{
    const struct picture_shape usual = { .width = 1024, .height = 768 };
    struct err err;
    *width = *height = m->picture.multiple;
    preprocess_padded(&m->picture, usual.width, usual.height, width, height, &err);
}

static int picture_tiles(const struct model *m, struct picture_shape shape,
                         struct picture_tile *tiles, int most)
{
    int64_t rows, cols, width, height;
    struct err err;
    token_grid(m, shape, &rows, &cols);
    if (most < 1) return 1;
    tiles[0] = (struct picture_tile){ .rows = rows,
                                      .cols = cols,
                                      .pitch = cols,
                                      .rows_apart = m->vision.config.kind->picture_mark,
                                      .right = (double)shape.width,
                                      .bottom = (double)shape.height };
    // The last tokens may extend into the padding, beyond the picture.
    const struct picture_config c = model_picture_config(m, shape);
    if (preprocess_size(&c, shape.width, shape.height, &width, &height, &err) < 0) return 1;
    tiles[0].right *= (double)(cols * m->picture.multiple) / (double)width;
    tiles[0].bottom *= (double)(rows * m->picture.multiple) / (double)height;
    return 1;
}

// Text continues after the largest position so far, equally on all axes. The tokens of a picture
// that begins at p get (p, p + row, p + column); the text after it continues at p + max(rows,
// columns).
void native_positions(const struct model *m, const struct picture *pictures, struct sequence *s)
{
    if (!sequence_visual_count(s, 0)) return; // plain text needs one axis
    sequence_set_axes(s, 3);
    int32_t *time = s->positions, *row = time + s->n, *column = row + s->n;
    int64_t next = 0, rows = 0, cols = 1;
    for (int64_t i = 0, from = 0; i < s->n; i++) {
        if (s->picture[i] < 0) {
            time[i] = row[i] = column[i] = (int32_t)next++;
            continue;
        }
        if (s->cell[i] == 0) {
            token_grid(m, pictures[s->picture[i]].shape, &rows, &cols);
            if (cols < 1) BUG("a picture without a grid has visual tokens");
            from = next;
            next += rows > cols ? rows : cols;
        }
        time[i] = (int32_t)from;
        row[i] = (int32_t)(from + s->cell[i] / cols);
        column[i] = (int32_t)(from + s->cell[i] % cols);
    }
}

// --- GGUF ----------------------------------------------------------------------------------------

int native_check_mmproj(const struct model *m, enum gelu_form act, struct err *err)
{
    const struct vision_config *v = &m->vision.config;
    if (v->act != act) return err_set(err, FAMILY_MMPROJ_REFUSED, "its activation");
    if (v->times == 2) return 0;
    return err_set(err, FAMILY_MMPROJ_REFUSED, "a patch does not span two frames");
}

void native_put_mmproj(const struct model *m, struct gguf_writer *out)
{
    gguf_writer_u32(out, ".spatial_merge_size", m->vision.config.merge);
    gguf_writer_u32(out, ".image_min_pixels", m->picture.min_pixels);
    gguf_writer_u32(out, ".image_max_pixels", m->picture.max_pixels);
}

// --- the pass ------------------------------------------------------------------------------------

// Returns the picture's pixels [3,H,W], or its patches [S', 3*times*p*p].
static struct vision_picture picture_read(struct graph *g, const struct model *m,
                                          const struct picture *picture)
{
    const struct vision_config *v = &m->vision.config;
    struct vision_picture p = { .tiles = 1 };
    const struct picture_config c = model_picture_config(m, picture->shape);
    struct image sized = { 0 };
    struct err err;
    if (preprocess_bytes(&sized, &picture->image, &c, preprocess_order(g->settings), &err) < 0) {
        graph_fail(g, "%s", err.text);
        return p;
    }
    p.rows = sized.height / v->patch;
    p.cols = sized.width / v->patch;
    const int64_t shape[] = { p.rows * p.cols, 3 * v->times * v->patch * v->patch };
    float *values = xreallocarray(NULL, (size_t)(shape[0] * shape[1]), sizeof *values);
    if (v->kind->reads_planes) {
        const int64_t planes[] = { 3, sized.height, sized.width };
        preprocess_floats(values, &sized, &c);
        p.pixels = graph_upload(g, DTYPE_F32, 3, planes, values);
    } else {
        const int64_t merge = v->kind->row_by_row ? 1 : v->merge;
        preprocess_patches(values, &sized, &c, v->patch, merge, v->times);
        p.pixels = graph_upload(g, DTYPE_F32, 2, shape, values);
    }
    free(values);
    image_release(&sized);
    return p;
}

const struct picture_kind native_pictures = { .tokens = picture_tokens,
                                              .parts = picture_parts,
                                              .usual = picture_usual,
                                              .tiles = picture_tiles,
                                              .read = picture_read };
