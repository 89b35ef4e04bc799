// core/probes/interface.c -- norms at the interface of encoder and language model.
#include "core/probes/interface.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/dtype.h"
#include "core/base/text.h"
#include "core/files/checkpoint.h"
#include "core/files/safetensors.h"
#include "core/model/bind.h"
#include "core/model/families/family.h"
#include "core/probes/results.h"
#include "core/template/message.h"

void interface_table(struct interface *s, const struct backend *b, const struct tensor *table,
                     double scale)
{
    enum { ROWS = 512 }; // at a time, to limit downloads from a GPU
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
            if (norm > 1e-6) tally_add(&s->table, norm * scale); // padding rows are zero
        }
    }
    free(stored);
    free(rows);
}

static void add_rows(struct tally *stat, const float *x, int64_t n, int64_t width)
{
    for (int64_t i = 0; i < n; i++) tally_add(stat, rows_norm(x + i * width, width));
}

static float *read_vector(const struct backend *b, const struct tensor *t)
{
    if (!t->data) return NULL;
    const int64_t n = tensor_count(t);
    void *stored = xmalloc(tensor_bytes(t) + 1);
    float *x = xreallocarray(NULL, (size_t)n + 1, sizeof *x);
    backend_of(b, t)->download(stored, t->data, tensor_bytes(t));
    floats_from(x, stored, t->dtype, (size_t)n);
    free(stored);
    return x;
}

void interface_norm(struct interface *s, const struct backend *b, const struct model *m)
{
    const struct projector_kind *projector = m->projector.kind;
    const bool merger = projector && projector->encoder_norm;
    const struct norm *norm = merger ? &m->projector.norm : &m->vision.post;
    s->eps = merger ? projector->eps : m->vision.config.eps;
    s->gain = read_vector(b, &norm->gain);
    s->bias = read_vector(b, &norm->bias);
}

// Returns the L2 norm of a row x [width] after the encoder's final norm.
static double normed_length(const struct interface *s, const float *x, int64_t width)
{
    double mean = 0, square = 0, sum = 0;
    for (int64_t k = 0; k < width && s->bias; k++) mean += (double)x[k] / (double)width;
    for (int64_t k = 0; k < width; k++)
        square += ((double)x[k] - mean) * ((double)x[k] - mean) / (double)width;
    const double scale = 1 / sqrt(square + s->eps);
    for (int64_t k = 0; k < width; k++) {
        const double y =
            ((double)x[k] - mean) * scale * (double)s->gain[k] + (s->bias ? (double)s->bias[k] : 0);
        sum += y * y;
    }
    return sqrt(sum);
}

// Adds the norms of the rows x of the encoder's last block, without class tokens.
static void add_encoded(struct interface *s, const struct vision_config *v, const float *x,
                        int64_t n, int64_t width)
{
    const struct vision_picture square = vision_square(v, NULL);
    const int64_t rows = v->class_token ? vision_tile_rows(v, &square) : n;
    for (int64_t i = 0; i < n; i++) {
        if (v->class_token && i % rows == 0) continue;
        tally_add(&s->encoder, rows_norm(x + i * width, width));
        if (s->gain) tally_add(&s->normed, normed_length(s, x + i * width, width));
    }
}

// Adds the norms of aligned visual tokens. Skips tokens that only end a row of the picture, because
// no method aligns them.
static void add_aligned(struct tally *stat, const struct site_args *args, const float *x,
                        int64_t width)
{
    const struct sequence *s = site_sequence(args);
    for (int64_t i = 0; i < s->n; i++)
        if (s->picture[i] == args->picture && !s->newline[i])
            add_rows(stat, x + s->cell[i] * width, 1, width);
}

void interface_add(struct interface *s, const struct model *m, const struct site *site,
                   const struct site_args *args, const float *rows)
{
    const int64_t n = args->x->shape[0], width = args->x->shape[1];
    if (site == SITE_VISION_LAYER) add_encoded(s, &m->vision.config, rows, n, width);
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
    // This row comes first, so that the pattern "encoder, *" finds it.
    put(t, "encoder, after its final norm", &s->normed, target);
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
    free(s->gain);
    free(s->bias);
}

// --- a folder that is not a model ---------------------------------------------------------------

// Finds a tensor by the end of its name.
static const struct safetensor *find_ending(const struct checkpoint *c, const char *const *ends)
{
    for (; *ends; ends++)
        for (int64_t i = 0; i < c->tensor_count; i++)
            if (text_ends(c->tensors[i]->name, *ends)) return c->tensors[i];
    return NULL;
}

static int folder_table(struct interface *s, const struct checkpoint *c, struct err *err)
{
    static const char *const ends[] = { "embed_tokens.weight", "tok_embeddings.weight",
                                        "word_embeddings.weight", "wte.weight", NULL };
    const struct safetensor *t = find_ending(c, ends);
    if (!t) return 0;
    if (t->quantised)
        return err_set(err, "%s is quantised: /load the folder and use /norms without its name",
                       t->name);
    if (t->rank != 2 || t->shape[1] < 1 ||
        (t->dtype != DTYPE_F32 && t->dtype != DTYPE_F16 && t->dtype != DTYPE_BF16))
        return err_set(err, "%s is not an f32, f16 or bf16 table [tokens, width]", t->name);
    const struct tensor table = { .data = (void *)(uintptr_t)t->data,
                                  .dtype = (enum dtype)t->dtype,
                                  .rank = 2,
                                  .shape = { t->shape[0], t->shape[1] } };
    interface_table(s, backend_cpu(), &table, 1); // the file is mapped: host memory
    return 0;
}

// An encoder, whose folder may lack the rest of the model.
struct encoder {
    struct model model; // only the encoder is bound
    struct interface *interface;
};

static bool encoder_wants(void *self, const struct site *site, int layer)
{
    const struct encoder *e = self;
    return site == SITE_VISION_LAYER && (layer < 0 || layer == e->model.vision.config.layers);
}

static int encoder_add(void *self, struct graph *g, const struct site *site, struct site_args *args)
{
    struct encoder *e = self;
    const float *rows = rows_read(&e->interface->rows, g, args->x);
    const int64_t width = args->x->shape[1];
    add_encoded(e->interface, &e->model.vision.config, rows, args->x->shape[0], width);
    return 0;
}

static int configure(struct model *m, const struct checkpoint *c, struct err *err)
{
    m->family = family_find(c->config, err);
    if (!m->family) return -1;
    if (!m->family->pictures) return err_set(err, "the model is text-only");
    return m->family->configure(m, c, err);
}

// Configures encoder and preprocessing for the model family of the config; if that fails, for LLaVA
// with the config's encoder.
static int encoder_configure(struct model *m, const struct checkpoint *c, struct err *err)
{
    static const char architectures[] = "[\"LlavaForConditionalGeneration\"]";
    struct checkpoint alone = *c;
    struct err why;
    if (configure(m, c, &why) == 0) return 0;
    cJSON *vision = cJSON_GetObjectItemCaseSensitive(c->config, "vision_config");
    alone.config = cJSON_CreateObject();
    cJSON_AddItemToObject(alone.config, "architectures", cJSON_Parse(architectures));
    cJSON_AddItemReferenceToObject(alone.config, "vision_config", vision ? vision : c->config);
    *m = (struct model){ .arena = m->arena };
    const int status = configure(m, &alone, err);
    cJSON_Delete(alone.config);
    return status;
}

static int encoder_open(struct encoder *e, const struct checkpoint *c, const char *patches,
                        struct err *err)
{
    struct model *m = &e->model;
    struct vision_config *v = &m->vision.config;
    if (encoder_configure(m, c, err) < 0) return -1;
    if (!v->kind) return err_set(err, "config.json names no vision encoder");
    if (!text_ends(patches, v->kind->patch_weight))
        return err_set(err, "the file has %s, but the encoder of config.json has %s", patches,
                       v->kind->patch_weight);
    v->feature_layer = -1; // all blocks, whatever the projector reads
    char *prefix = xstrndup(patches, strlen(patches) - strlen(v->kind->patch_weight));
    struct binder b = {
        .checkpoint = c, .prefix = prefix, .arena = &m->arena, .weights = &m->weights, .err = err
    };
    int status = vision_bind(&m->vision, &b);
    const char *merger = m->projector.kind ? m->projector.kind->encoder_norm : NULL;
    char *gain = xasprintf("%s.weight", merger ? merger : "");
    if (status == 0 && merger && bind_has(c, prefix, gain)) {
        bind_norm(&b, &m->projector.norm, v->hidden, m->projector.kind->norm_bias, "%s", merger);
        status = b.failed ? -1 : 0;
    }
    free(gain);
    free(prefix);
    if (status == 0) interface_norm(e->interface, m->arena.backend, m);
    return status;
}

// Encodes the picture as one of `shown` pictures, with all its tiles.
static int encode(struct encoder *e, const struct picture *picture, size_t shown,
                  const struct settings *settings, struct err *err)
{
    const struct model *m = &e->model;
    struct hooks hooks = { 0 };
    struct arena step = { .backend = m->arena.backend };
    struct graph g = {
        .backend = step.backend, .arena = &step, .hooks = &hooks, .settings = settings
    };
    struct picture one = { .image = picture->image };
    model_size_picture(m, &one, one.image.width, one.image.height, shown,
                       preprocess_limit(settings));
    hooks_add(&hooks, &(struct hook){ .wants = encoder_wants, .run = encoder_add, .self = e });
    const struct vision_picture p = m->family->pictures->read(&g, m, &one);
    if (graph_ok(&g)) vision_forward(&g, &m->vision, &p, 1, NULL);
    arena_release(&step);
    return graph_ok(&g) ? 0 : err_set(err, "%s", g.err.text);
}

static int folder_encoder(struct interface *s, const struct checkpoint *c,
                          const struct backend *backend, const struct settings *settings,
                          const struct picture *pictures, size_t count, bool *found,
                          struct err *err)
{
    static const char *const ends[] = { "embeddings.patch_embedding.weight",
                                        "embeddings.patch_embeddings.projection.weight",
                                        "patch_embed.proj.weight", NULL };
    const struct safetensor *patches = find_ending(c, ends);
    struct encoder e = { .model = { .arena = { .backend = backend } }, .interface = s };
    size_t shown = 0;
    *found = patches;
    if (!patches || !count) return 0;
    int status = encoder_open(&e, c, patches->name, err);
    for (size_t i = 0; i < count; i++) shown += pictures[i].image.pixels != NULL;
    for (size_t i = 0; i < count && status == 0; i++)
        if (pictures[i].image.pixels) status = encode(&e, &pictures[i], shown, settings, err);
    decoder_release(&e.model.decoder);
    vision_release(&e.model.vision);
    weights_release(&e.model.weights);
    arena_release(&e.model.arena);
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
            err, "no text embedding table and no vision encoder was found under a known name");
    else if (status == 0 && encoder && !s.encoder.count)
        results_note(
            r, "'%s' has an encoder, but there is no picture to encode: attach one with /image",
            folder);
    if (status == 0) interface_put(&s, r);
    if (status == 0 && encoder)
        results_arithmetic(r, "f32", NULL); // compute.matmul does not apply here
    interface_release(&s);
    checkpoint_close(c);
    return status < 0 ? err_in(err, "'%s'", folder) : 0;
}
