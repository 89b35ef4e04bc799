// core/model/families/llava.c -- LLaVA: a CLIP, SigLIP or MoonViT encoder, a projector, a Llama or
// Qwen2 decoder.
//
// A picture is resized to one square, or keeps its size if the encoder has native resolution. Its
// features from one encoder layer pass the projector and replace the placeholder in the prompt, row
// by row of the grid. Positions are those of plain text.
#include <stdlib.h>

#include "core/model/families/native.h"
#include "core/model/families/seeing.h"
#include "core/template/message.h"

static bool native(const struct model *m)
{
    return m->vision.config.kind->read_pictures;
}

static int read_pictures(struct model *m, const struct checkpoint *c, struct err *err)
{
    const struct vision_config *v = &m->vision.config;
    return native(m) ? v->kind->read_pictures(&m->picture, v, c->preprocessor, err)
                     : seeing_pictures(m, c, err);
}

static int llava_configure(struct model *m, const struct checkpoint *c, struct err *err)
{
    static const struct seeing_defaults defaults = {
        .feature_layer = -2, .strategy = "default", .placeholder = 32000, .any_size = true
    };
    if (seeing_config(m, c->config, &defaults, err) < 0) return err_in(err, "config.json");
    if (m->vision.config.class_token) m->usual_layout = m->decoder.config.kind->llava_layout;
    return read_pictures(m, c, err) < 0 ? err_in(err, "%s", checkpoint_preprocessor_file(c)) : 0;
}

static int64_t llava_picture_tokens(const struct model *m, struct picture_shape shape)
{
    if (native(m)) return native_picture_tokens(m, shape);
    const struct vision_picture square = vision_square(&m->vision.config, NULL);
    return vision_features(&m->vision.config, &square); // every picture becomes the same square
}

static void llava_picture_usual(const struct model *m, int64_t *width, int64_t *height)
{
    *width = *height = m->vision.config.image_size;
    if (native(m)) native_picture_usual(m, width, height);
}

// The part of a picture that the encoder sees.
static void shown_part(const struct picture_config *c, struct picture_shape shape,
                       struct picture_tile *t)
{
    double w = (double)shape.width, h = (double)shape.height, long_side = w > h ? w : h;
    if (c->square) { // padded: the rest of the square is border
        t->left = (w - long_side) / 2, t->right = t->left + long_side;
        t->top = (h - long_side) / 2, t->bottom = t->top + long_side;
        w = h = long_side;
    }
    if (!c->crop) return;
    // Resized, then cut in the middle.
    double scale_x = 1, scale_y = 1;
    if (c->resize && c->fit == FIT_SHORTEST_CROP) {
        scale_x = scale_y = (double)c->shortest / (w < h ? w : h);
    } else if (c->resize && c->exact_width) {
        scale_x = (double)c->exact_width / w;
        scale_y = (double)c->exact_height / h;
    }
    const double cut_x = w - (double)c->width / scale_x, cut_y = h - (double)c->height / scale_y;
    t->left += cut_x / 2, t->right -= cut_x / 2;
    t->top += cut_y / 2, t->bottom -= cut_y / 2;
}

static int llava_picture_tiles(const struct model *m, struct picture_shape shape,
                               struct picture_tile *tiles, int most)
{
    const struct vision_config *v = &m->vision.config;
    if (native(m)) return native_picture_tiles(m, shape, tiles, most);
    const int64_t side = v->image_size / v->patch / v->merge;
    if (most < 1) return 1;
    tiles[0] = (struct picture_tile){ .rows = side,
                                      .cols = side,
                                      .pitch = side,
                                      .right = (double)shape.width,
                                      .bottom = (double)shape.height };
    // A class token among the tokens, or a missing first patch, shifts the grid.
    tiles[0].first = llava_picture_tokens(m, shape) - side * side;
    shown_part(&m->picture, shape, &tiles[0]);
    return 1;
}

static struct vision_picture llava_picture_read(struct graph *g, const struct model *m,
                                                const struct picture *picture)
{
    if (native(m)) return native_picture_read(g, m, picture);
    const struct picture_config *c = &m->picture;
    struct image square = { 0 };
    struct tensor *pixels = NULL;
    struct err err;
    if (preprocess_bytes(&square, &picture->image, c, preprocess_order(g->settings), &err) < 0) {
        graph_fail(g, "%s", err.text);
    } else if (square.width != c->width || square.height != c->height) {
        graph_fail(
            g,
            "the picture is resized to %lld x %lld pixels, but the encoder needs %lld x %lld: crop "
            "it to a square first, or set do_resize and do_center_crop in preprocessor_config.json",
            (long long)square.width, (long long)square.height, (long long)c->width,
            (long long)c->height);
    } else {
        const int64_t shape[] = { 3, square.height, square.width };
        float *floats = xreallocarray(NULL, (size_t)(shape[1] * shape[2]), 3 * sizeof *floats);
        preprocess_floats(floats, &square, c);
        pixels = graph_upload(g, DTYPE_F32, 3, shape, floats);
        free(floats);
    }
    image_release(&square);
    return vision_square(&m->vision.config, pixels);
}

static const struct phase_layers phases[] = {
    { 32, 4096, 11008, 5, 12, 16, "2-5,22-29" }, // LLaVA-1.5-7B
    { 0 },
};

const struct family family_llava = {
    .name = "llava",
    .architectures = (const char *const[]){ "LlavaForConditionalGeneration", NULL },
    .model_types = (const char *const[]){ "llava", NULL },
    .configure = llava_configure,
    .bind = seeing_bind,
    .part = seeing_part,
    .gguf = "mlp",
    .module_prefix = FAMILY_MODULE_PREFIX,
    .picture_tokens = llava_picture_tokens,
    .picture_processors = (const char *const[]){ "CLIP", "Siglip", "LlavaImage", NULL },
    .picture_keys = (const char *const[]){ PICTURE_KEYS, NULL },
    .picture_usual = llava_picture_usual,
    .picture_tiles = llava_picture_tiles,
    .picture_read = llava_picture_read,
    .phases = phases,
};
