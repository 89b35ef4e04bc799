// core/probes/interface.c -- norms at the interface of encoder and language model.
#include "core/probes/interface.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/dtype.h"
#include "core/files/checkpoint.h"
#include "core/model/families/seeing.h"

void interface_table(struct interface *s, const struct backend *b, const struct tensor *table)
{
    enum { ROWS = 512 }; // at a time: a GPU is asked few times
    const struct backend *where = backend_of(b, table);
    const int64_t width = table->shape[1], count = table->data ? table->shape[0] : 0;
    const size_t step = dtype_bytes(table->dtype, width);
    float *rows = xreallocarray(NULL, (size_t)(ROWS * width), sizeof *rows);
    void *stored = xreallocarray(NULL, ROWS, step);
    for (int64_t i = 0, n; i < count; i += n) {
        n = count - i < ROWS ? count - i : ROWS;
        where->download(stored, (const char *)table->data + (size_t)i * step, (size_t)n * step);
        floats_from(rows, stored, table->dtype, (size_t)(n * width));
        for (int64_t r = 0; r < n; r++) {
            const double norm = rows_norm(rows + r * width, width);
            if (norm > 1e-6) tally_add(&s->table, norm); // padding rows are zero
        }
    }
    free(stored);
    free(rows);
}

static void add_rows(struct tally *stat, const float *x, int64_t n, int64_t width)
{
    for (int64_t i = 0; i < n; i++) tally_add(stat, rows_norm(x + i * width, width));
}

// What leaves the encoder's last block, tile by tile, each without its class token.
static void add_encoded(struct tally *stat, const struct vision_config *v, const float *x,
                        int64_t n, int64_t width)
{
    const struct vision_picture square = vision_square(v, NULL);
    const int64_t rows = v->class_token ? vision_tile_rows(v, &square) : n;
    for (int64_t i = 0; i < n; i += rows)
        add_rows(stat, x + (i + v->class_token) * width, rows - v->class_token, width);
}

// Tokens that only end a row of the picture are not aligned.
static void add_aligned(struct tally *stat, const struct site_args *args, const float *x,
                        int64_t width)
{
    const struct sequence *s = site_sequence(args);
    for (int64_t i = 0; i < s->n; i++)
        if (s->picture[i] == args->picture && !s->newline[i])
            add_rows(stat, x + s->cell[i] * width, 1, width);
}

void interface_add(struct interface *s, const struct model *m, enum site site,
                   const struct site_args *args, const float *rows)
{
    const int64_t n = args->x->shape[0], width = args->x->shape[1];
    if (site == SITE_VISION_LAYER) add_encoded(&s->encoder, &m->vision.config, rows, n, width);
    if (site == SITE_VISION) add_rows(&s->projector, rows, n, width);
    if (site == SITE_PROJECTED) add_rows(&s->visual, rows, n, width);
    if (site == SITE_VISUAL) add_aligned(&s->aligned, args, rows, width);
}

static void put(struct result_table *t, const char *what, const struct tally *stat, double target)
{
    if (!stat->count) return;
    double *v = result_row(t, "%s", what);
    v[0] = tally_mean(stat), v[1] = tally_std(stat);
    v[2] = v[0] / target;
    v[3] = (double)stat->count;
}

void interface_put(const struct interface *s, struct results *r)
{
    struct result_table *t = results_table(r, "norms.interface", "what|norm|std|ratio to T*|rows");
    const double target = s->table.count ? tally_mean(&s->table) : NAN;
    put(t, "encoder, last output", &s->encoder, target);
    put(t, "projector, input", &s->projector, target);
    put(t, "visual tokens", &s->visual, target);
    if (s->changed) put(t, "visual tokens, aligned", &s->aligned, target);
    put(t, "text embedding table (T*)", &s->table, target);
    put(t, "text in the sequence", &s->text, target);
}

void interface_release(struct interface *s)
{
    rows_release(&s->rows);
}

// --- a folder that is not a model ---------------------------------------------------------------

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

// A tensor whose name ends so, outside of a vision encoder or inside.
static const struct safetensor *find_ending(const struct checkpoint *c, const char *const *ends)
{
    for (; *ends; ends++)
        for (int64_t i = 0; i < c->tensor_count; i++)
            if (ends_with(c->tensors[i]->name, *ends)) return c->tensors[i];
    return NULL;
}

static int folder_table(struct interface *s, const struct checkpoint *c, struct err *err)
{
    static const char *const ends[] = { "embed_tokens.weight", "tok_embeddings.weight",
                                        "word_embeddings.weight", "wte.weight", NULL };
    const struct safetensor *t = find_ending(c, ends);
    if (!t) return 0;
    if (t->rank != 2 || t->shape[1] < 1 ||
        (t->dtype != DTYPE_F32 && t->dtype != DTYPE_F16 && t->dtype != DTYPE_BF16))
        return err_set(err, "%s is not an f32, f16 or bf16 table [tokens, width]", t->name);
    const struct tensor table = { .data = (void *)(uintptr_t)t->data,
                                  .dtype = (enum dtype)t->dtype,
                                  .rank = 2,
                                  .shape = { t->shape[0], t->shape[1] } };
    interface_table(s, backend_cpu(), &table); // the file is mapped: host memory
    return 0;
}

// An encoder by itself, as far as norms need it.
struct encoder {
    struct vision vision;
    struct picture_config picture;
    struct weights weights;
    struct arena arena;
    struct interface *interface;
};

static bool encoder_wants(void *self, enum site site, int layer)
{
    const struct encoder *e = self;
    return site == SITE_VISION_LAYER && (layer < 0 || layer == e->vision.config.layers);
}

static int encoder_hear(void *self, struct graph *g, enum site site, struct site_args *args)
{
    struct encoder *e = self;
    const float *rows = rows_read(&e->interface->rows, g, args->x);
    const int64_t width = args->x->shape[1];
    add_encoded(&e->interface->encoder, &e->vision.config, rows, args->x->shape[0], width);
    return 0;
}

static int encoder_open(struct encoder *e, const struct checkpoint *c, const char *patches,
                        struct err *err)
{
    static const char end[] = "embeddings.patch_embedding.weight";
    const cJSON *config = json_get(c->config, "vision_config");
    const char *type = cJSON_GetStringValue(json_get(c->preprocessor, "image_processor_type"));
    char *prefix = xstrndup(patches, strlen(patches) - strlen(end));
    struct binder b = {
        .checkpoint = c, .prefix = prefix, .arena = &e->arena, .weights = &e->weights, .err = err
    };
    if (!config) config = c->config;
    const struct vision_kind *kind = vision_kind_find(config, err);
    int status = kind ? vision_config_read(&e->vision.config, kind, config, err) : -1;
    if (status < 0) err_in(err, "'%s/config.json'", c->folder);
    if (status == 0) {
        const struct picture_config defaults =
            seeing_picture_defaults(&e->vision.config, type ? type : "");
        status = picture_config_read(&e->picture, c->preprocessor, &defaults, err);
        if (status < 0) err_in(err, "'%s/%s'", c->folder, checkpoint_preprocessor_file(c));
    }
    if (status == 0 && (e->picture.width != e->vision.config.image_size ||
                        e->picture.height != e->vision.config.image_size))
        status = err_set(err, "'%s/%s' does not produce pictures of %lld pixels", c->folder,
                         checkpoint_preprocessor_file(c), (long long)e->vision.config.image_size);
    if (status == 0) status = vision_bind(&e->vision, &b);
    free(prefix);
    return status;
}

static int encode(struct encoder *e, const struct image *image, const struct settings *settings,
                  struct err *err)
{
    struct hooks hooks = { 0 };
    struct arena step = { .backend = e->arena.backend };
    struct graph g = {
        .backend = step.backend, .arena = &step, .hooks = &hooks, .settings = settings
    };
    struct image square = { 0 };
    hooks_add(&hooks, &(struct hook){ .wants = encoder_wants, .run = encoder_hear, .self = e });
    if (preprocess_bytes(&square, image, &e->picture, preprocess_order(settings), err) < 0)
        return -1;
    int status = 0;
    if (square.width == e->picture.width && square.height == e->picture.height) {
        const int64_t shape[] = { 3, square.height, square.width };
        float *floats =
            xreallocarray(NULL, (size_t)(3 * square.width * square.height), sizeof *floats);
        preprocess_floats(floats, &square, &e->picture);
        const struct vision_picture p =
            vision_square(&e->vision.config, graph_upload(&g, DTYPE_F32, 3, shape, floats));
        vision_forward(&g, &e->vision, &p, 1);
        free(floats);
        if (!graph_ok(&g)) status = err_set(err, "%s", g.err.text);
    } else {
        status = err_set(err, "a picture is not square after preprocessing");
    }
    image_release(&square);
    arena_release(&step);
    return status;
}

static int folder_encoder(struct interface *s, const struct checkpoint *c,
                          const struct backend *backend, const struct settings *settings,
                          const struct picture *pictures, size_t count, bool *found,
                          struct err *err)
{
    static const char *const ends[] = { "embeddings.patch_embedding.weight", NULL };
    const struct safetensor *patches = find_ending(c, ends);
    struct encoder e = { .arena = { .backend = backend }, .interface = s };
    *found = patches;
    if (!patches || !count) return 0;
    int status = encoder_open(&e, c, patches->name, err);
    for (size_t i = 0; i < count && status == 0; i++)
        if (pictures[i].image.pixels) status = encode(&e, &pictures[i].image, settings, err);
    vision_release(&e.vision);
    weights_release(&e.weights);
    arena_release(&e.arena);
    return status;
}

int interface_folder(const char *folder, const struct backend *backend,
                     const struct settings *settings, const struct picture *pictures, size_t count,
                     struct results *r, struct err *err)
{
    struct interface s = { 0 };
    char *path = checkpoint_locate(folder, err);
    struct checkpoint *c = path ? checkpoint_open(path, NULL, err) : NULL;
    bool encoder = false;
    free(path);
    if (!c) return -1;
    int status = folder_table(&s, c, err);
    if (status == 0)
        status = folder_encoder(&s, c, backend, settings, pictures, count, &encoder, err);
    if (status == 0 && !s.table.count && !encoder)
        status = err_set(
            err,
            "no text embedding table and no CLIP or SigLIP encoder was found under a known name");
    else if (status == 0 && encoder && !s.encoder.count)
        results_note(r, "'%s' has an encoder but there is no picture to encode: /image FILE first",
                     folder);
    if (status == 0) interface_put(&s, r);
    if (status == 0 && encoder) results_arithmetic(r, "f32", NULL); // no model's settings hold here
    interface_release(&s);
    checkpoint_close(c);
    return status < 0 ? err_in(err, "'%s'", folder) : 0;
}
