// core/methods/steer.c -- steering: adds vectors to the residual stream (activation addition,
// Turner et al. 2023, arXiv 2308.10248; contrastive vectors, Rimsky et al. 2023, arXiv 2312.06681).
//
//   h[l+1] += sum over the files of factor direction[l]     h [N,D], direction [D], f32
//
// The vectors act on the output of the layer, as llama.cpp's control vectors do, in all rows of the
// pass or only in text or visual ones. A vector of zeros is not added, so that no bit changes (-0
// + 0 is 0). Rows are changed one by one: a row's result does not depend on the rows beside it.
//
// Steering learns nothing and does not act in training, like the FFN approximation.
#include <stdlib.h>
#include <string.h>

#include "core/base/dtype.h"
#include "core/base/hash.h"
#include "core/files/checkpoint.h"
#include "core/methods/kit.h"
#include "core/methods/steer.h"

const struct site SITE_STEER[1] = { { "STEER", HAS_ROWS | IN_STEP, MAY_NOT,
                                      "[N,D] output of a layer to which vectors were added" } };

static const char *const none[] = { "none", NULL };
static const char *const kinds[] = { "all", "text", "visual", NULL };

static const struct setting steer_settings[] = {
    { .key = "steer.vectors",
      .type = SETTING_FACTORS,
      .min = -1e6,
      .max = 1e6,
      .def = "none",
      .choices = none,
      .stale = STALE_KV,
      .help = "Files of steering vectors, each with its strength; /steer NAME STRENGTH sets it.",
      .also = "control vector activation addition representation engineering" },
    { .key = "steer.at",
      .type = SETTING_CHOICE,
      .def = "all",
      .choices = kinds,
      .stale = STALE_KV,
      .help = "Positions that steering vectors change: all, text or visual." },
    { .key = "steer.layers",
      .type = SETTING_LIST,
      .def = "0%-100%",
      .stale = STALE_KV,
      .help = "Layers whose output steering vectors change, among those that their files name." },
    { 0 },
};

struct steer {
    const struct backend *backend;
    int64_t layers;
    bool *chosen;           // [L] the layers with a nonzero vector
    struct tensor sum;      // [L,D] of all files, owned
    char content[HASH_HEX]; // hash of sum; "": not read yet
    bool stale; // the KV cache was computed with different vectors: a file has been replaced
};

// The vectors of all files, read from the settings.
struct summed {
    float *sum;    // [L,D]
    bool *there;   // [L] a file has a vector for the layer
    bool *nonzero; // [L] the layers whose sum is not zero
};

static void summed_release(struct summed *v)
{
    free(v->sum);
    free(v->there);
    free(v->nonzero);
}

// Refuses sums that exceed f32: inf - inf would be a NaN in every later layer.
static int check_finite(const struct summed *v, const struct file_factor *list, size_t count,
                        int64_t layers, int64_t width, struct err *err)
{
    int64_t layer = 0;
    while (layer < layers && floats_finite(v->sum + layer * width, (size_t)width)) layer++;
    if (layer == layers) return 0;
    struct buf b = { 0 };
    for (size_t i = 0; i < count; i++)
        buf_printf(&b, "%s%.15g x '%s'", i ? " + " : "", list[i].factor, list[i].path);
    err_set(err, "the steering vector of layer %lld exceeds f32 (%s): use smaller strengths",
            (long long)layer, b.data);
    buf_release(&b);
    return -1;
}

// Reads and sums the vectors of all files; the caller releases them, even after a failure.
static int read_vectors(const struct method_env *env, struct summed *v, struct err *err)
{
    const struct decoder_config *d = &env->model->decoder.config;
    size_t count;
    struct file_factor *list = file_factors(settings_text(env->settings, "steer.vectors"), &count);
    int status = 0;
    v->sum = xcalloc((size_t)(d->layers * d->hidden) + 1, sizeof *v->sum);
    v->there = xcalloc((size_t)d->layers + 1, sizeof *v->there);
    v->nonzero = xcalloc((size_t)d->layers + 1, sizeof *v->nonzero);
    for (size_t i = 0; i < count && status == 0; i++)
        status =
            steer_read(list[i].path, list[i].factor, d->layers, d->hidden, v->sum, v->there, err);
    if (status == 0) status = check_finite(v, list, count, d->layers, d->hidden, err);
    file_factors_free(list, count);
    for (int64_t l = 0; l < d->layers; l++)
        for (int64_t k = 0; k < d->hidden && !v->nonzero[l]; k++)
            v->nonzero[l] = v->sum[l * d->hidden + k] != 0;
    return status;
}

static int steer_check(const struct method_env *env, struct err *err)
{
    struct summed v;
    if (settings_is(env->settings, "steer.vectors", "none")) return 0;
    const int status = read_vectors(env, &v, err);
    summed_release(&v);
    return status;
}

// True if a file was made with different weights; false while the model's hash is unknown.
static bool made_for_another(const struct method_env *env, struct err *why)
{
    struct checkpoint *c = env->model->checkpoint;
    bool other = false;
    size_t count;
    if (!c || !checkpoint_identified(c)) return false;
    struct file_factor *list = file_factors(settings_text(env->settings, "steer.vectors"), &count);
    for (size_t i = 0; i < count && !other; i++) {
        struct steer_about about;
        if (steer_about(&about, list[i].path, NULL) == 0)
            other = *about.model && strcmp(about.model, c->weights) != 0;
        if (other)
            err_set(why, "'%s' was made with different weights than '%s': its effect may differ",
                    list[i].path, env->model->name);
        steer_about_release(&about);
    }
    file_factors_free(list, count);
    return other;
}

static bool steer_without_effect(const struct method_env *env, struct err *why)
{
    const struct decoder_config *d = &env->model->decoder.config;
    const char *chosen = settings_text(env->settings, "steer.layers");
    if (settings_is(env->settings, "steer.at", "visual") && !model_has_vision(env->model)) {
        err_set(why,
                "steer.at visual has no effect: the model '%s' is text-only and has no visual "
                "tokens",
                env->model->name);
        return true;
    }
    struct summed v;
    bool *layers = xcalloc((size_t)d->layers + 1, sizeof *layers), there = false, any = false;
    const bool read = read_vectors(env, &v, NULL) == 0 &&
                      settings_layers(env->settings, "steer.layers", d->layers, layers, NULL) >= 0;
    for (int64_t l = 0; l < d->layers; l++) {
        there |= v.there[l] && layers[l];
        any |= v.nonzero[l] && layers[l];
    }
    if (!there)
        err_set(why,
                "steer.vectors has no effect: no file has a vector for a layer of steer.layers %s "
                "(/steer lists their layers)",
                chosen);
    else if (!any)
        err_set(why,
                "steer.vectors has no effect: the vectors of the layers in steer.layers %s add up "
                "to zero",
                chosen);
    summed_release(&v);
    free(layers);
    return read && (!any || made_for_another(env, why));
}

static void steer_release(void *state)
{
    struct steer *s = state;
    s->backend->release(s->sum.data);
    free(s->chosen);
    free(s);
}

static int steer_start(void **state, const struct method_env *env, struct err *err)
{
    const struct decoder_config *d = &env->model->decoder.config;
    struct steer *s = *state;
    if (!s) {
        *state = s = xcalloc(1, sizeof *s);
        s->backend = env->backend;
        s->layers = d->layers;
        s->chosen = xcalloc((size_t)d->layers + 1, sizeof *s->chosen);
        s->sum =
            (struct tensor){ .dtype = DTYPE_F32, .rank = 2, .shape = { d->layers, d->hidden } };
    }
    struct summed v;
    int status = read_vectors(env, &v, err);
    if (status == 0 && !s->sum.data && !(s->sum.data = s->backend->alloc(tensor_bytes(&s->sum))))
        status = err_set(err, "out of memory for the steering vectors");
    if (status == 0) {
        memcpy(s->chosen, v.nonzero, (size_t)d->layers * sizeof *s->chosen);
        s->backend->upload(s->sum.data, v.sum, tensor_bytes(&s->sum));
        s->stale |= method_content_changed(v.sum, tensor_bytes(&s->sum), s->content);
    }
    summed_release(&v);
    return status;
}

static void steer_trim(void *state, int64_t rows)
{
    struct steer *s = state;
    if (!rows) s->stale = false;
}

static int64_t steer_reusable(void *state, const struct sequence *cached, int64_t rows)
{
    const struct steer *s = state;
    return s->stale ? 0 : rows;
}

static bool steer_wants(void *state, const struct site *site, int layer)
{
    const struct steer *s = state;
    return site == SITE_LAYER_OUT && (layer < 0 || (layer < s->layers && s->chosen[layer]));
}

// Returns the layer's vector in each of n rows: [n,D].
static struct tensor *vector_rows(struct steer *s, struct graph *g, int layer, int64_t n)
{
    if (n == 1) return graph_rows(g, &s->sum, layer, 1);
    int32_t *index = xreallocarray(NULL, (size_t)n, sizeof *index);
    for (int64_t i = 0; i < n; i++) index[i] = layer;
    struct tensor *rows = op_gather_rows(g, &s->sum, index, n);
    free(index);
    return rows;
}

static int steer_run(void *state, struct graph *g, struct site_args *args)
{
    struct steer *s = state;
    const bool all = settings_is(g->settings, "steer.at", "all");
    const int64_t n = args->x->shape[0];
    int64_t count = n;
    int32_t *rows =
        all ? NULL : site_rows(args, n, settings_is(g->settings, "steer.at", "visual"), &count);
    if (count == n) {
        args->x = op_add(g, args->x, vector_rows(s, g, args->layer, n));
    } else if (count) {
        struct tensor *x = op_gather_rows(g, args->x, rows, count);
        x = op_add(g, x, vector_rows(s, g, args->layer, count));
        args->x = op_scatter_rows(g, args->x, x, rows);
    }
    free(rows);
    if (!args->x) return -1;
    struct site_args changed = *args;
    return count ? hooks_run(g, SITE_STEER, &changed) : 0;
}

// D FLOPs per row: the sum.
static double steer_flops(const struct settings *s, const struct decoder_config *c,
                          const struct site *site, const struct site_args *args, bool visual)
{
    const bool changed =
        settings_is(s, "steer.at", "all") || settings_is(s, "steer.at", "visual") == visual;
    return site == SITE_STEER && changed ? (double)c->hidden : 0;
}

static void steer_badge(struct buf *b, const struct settings *s, int layer)
{
    size_t count;
    struct file_factor *list = file_factors(settings_text(s, "steer.vectors"), &count);
    buf_puts(b, "STEER");
    for (size_t i = 0; i < count; i++) {
        char *name = steer_name(list[i].path);
        buf_printf(b, "%s %s %.4g", i ? "," : "", name, list[i].factor);
        free(name);
    }
    file_factors_free(list, count);
}

const struct method method_steer = {
    .name = "steer",
    .title = "steering",
    .settings = steer_settings,
    .toggle = { "steer.vectors", "none", NULL },
    .text = true,
    .badge = steer_badge,
    .check = steer_check,
    .without_effect = steer_without_effect,
    .start = steer_start,
    .release = steer_release,
    .trim = steer_trim,
    .reusable = steer_reusable,
    .flops = steer_flops,
    .layers = "steer.layers",
    .wants = steer_wants,
    // SITE_STEER is here for .flops alone, which is called at the sites of this list: .wants
    // names SITE_LAYER_OUT only.
    .at = { { SITE_LAYER_OUT, steer_run }, { SITE_STEER, steer_run } },
};
