// core/methods/norm_align.c -- norm alignment: one LayerNorm on the visual tokens after the
// projector, so that their norms match those of text (Li et al., "norm alignment").
//
//   v' = (v - mean(v)) / sqrt(var(v) + 1e-5) * g + b            v [S,D], g, b [D]
//
// Visual tokens that only end a row of the picture (newlines) are unchanged.
//
// Untrained (norm.init text): g = T*/sqrt(D) in every dimension and b = 0, so that ||v'|| ~ T*. T*
// is the mean norm of the rows of the text embedding table (or norm.target). Trained g and b come
// from the adapter.
//
// Two controls (norm.form) separate the parts of LayerNorm, with the same g and b: rms divides each
// token by its root mean square, without centring; scale divides all tokens of a picture by the
// mean of their root mean squares, which keeps directions and relative norms. No gradient flows
// through that mean.
#include <math.h>
#include <stdlib.h>

#include "core/methods/kit.h"
#include "core/model/linear.h"

static const char *const inits[] = { "text", "default", NULL };
static const char *const word_auto[] = { "auto", NULL };
enum form { FORM_LAYERNORM, FORM_RMS, FORM_SCALE };
static const char *const forms[] = { "layernorm", "rms", "scale", NULL };

static const struct setting norm_settings[] = {
    { .key = "norm.align",
      .type = SETTING_FLAG,
      .def = "off",
      .stale = STALE_SEEN,
      .help = "Norm alignment: a LayerNorm scales visual tokens to the norm of text embeddings.",
      .also = "alignment norms" },
    { .key = "norm.init",
      .type = SETTING_CHOICE,
      .def = "text",
      .choices = inits,
      .stale = STALE_SEEN,
      .help = "Gain of norm alignment before training: text (norm of the text embeddings) or "
              "default (1). Trained gains of an adapter replace it." },
    { .key = "norm.form",
      .type = SETTING_CHOICE,
      .def = "layernorm",
      .choices = forms,
      .stale = STALE_SEEN,
      .help =
          "Form of norm alignment: layernorm; as controls, rms (layernorm without centring) and "
          "scale (one factor for all tokens of a picture).",
      .also = "ablation control rmsnorm" },
    { .key = "norm.target",
      .type = SETTING_REAL,
      .min = 1e-6,
      .max = 1e9,
      .def = "auto",
      .choices = word_auto,
      .stale = STALE_SEEN,
      .help = "Norm that norm.init text gives to visual tokens; auto is T*, the mean norm of the "
              "text embeddings.",
      .also = "control" },
    { 0 },
};

static const float eps = 1e-5f;

struct norm_align {
    const struct backend *backend;
    enum form form;
    double target;            // T* of the model
    const void *table;        // the embedding table that T* was computed from
    struct tensor gain, bias; // [D], owned
};

static int norm_check(const struct method_env *env, struct err *err)
{
    if (!settings_flag(env->settings, "norm.align") || model_has_vision(env->model)) return 0;
    return err_set(err, "norm.align: the model '%s' is text-only and has no visual tokens",
                   env->model->name);
}

static void norm_release(void *state)
{
    struct norm_align *n = state;
    n->backend->release(n->gain.data);
    n->backend->release(n->bias.data);
    free(n);
}

// Computes T*, the mean norm of the nonzero rows of the table [V,D] (padding rows are zero), times
// config.embed_scale.
static int norm_target(const struct backend *backend, const struct decoder *d, double *target,
                       struct err *err)
{
    const struct tensor *table = &d->embed;
    enum { ROWS = 256 };
    const struct backend *b = backend_of(backend, table);
    struct arena scratch = { .backend = b };
    struct graph g = { .backend = b, .arena = &scratch };
    const int64_t rows = table->shape[0], width = table->shape[1];
    float *host = xreallocarray(NULL, (size_t)(ROWS * width), sizeof *host);
    double sum = 0;
    int64_t count = 0;
    for (int64_t i = 0; i < rows && graph_ok(&g); i += ROWS) {
        struct arena_mark mark = arena_mark(&scratch);
        const int64_t n = rows - i < ROWS ? rows - i : ROWS;
        struct tensor *x = op_widen(&g, graph_rows(&g, (struct tensor *)table, i, n)); // [n,D]
        if (x) b->download(host, x->data, tensor_bytes(x));
        for (int64_t r = 0; x && r < n; r++) {
            double squares = 0;
            for (int64_t k = 0; k < width; k++)
                squares += (double)host[r * width + k] * host[r * width + k];
            if (sqrt(squares) > 1e-6) sum += sqrt(squares), count++;
        }
        arena_reset(&scratch, mark);
    }
    free(host);
    arena_release(&scratch);
    *target = count ? sum / (double)count * (double)d->config.embed_scale : 0;
    return graph_ok(&g) ? 0 : err_set(err, "%s", g.err.text);
}

static int norm_start(void **state, const struct method_env *env, struct err *err)
{
    const struct model *m = env->model;
    const int64_t width = m->decoder.config.hidden;
    struct norm_align *n = *state;
    if (!n) {
        *state = n = xcalloc(1, sizeof *n);
        n->backend = env->backend;
        n->gain = (struct tensor){ .dtype = DTYPE_F32, .rank = 1, .shape = { width } };
        n->bias = n->gain;
    }
    model_pass(m, true); // weights are read below; true: norm alignment serves pictures
    // Without an embedding table, this process has only later layers (core/stages/stages.h) and
    // aligns nothing.
    const struct tensor *table = &m->decoder.embed;
    if (table->data && table->data != n->table &&
        norm_target(env->backend, &m->decoder, &n->target, err) < 0)
        return -1;
    n->table = table->data;
    const struct settings *s = env->settings;
    const double target =
        settings_is(s, "norm.target", "auto") ? n->target : settings_real(s, "norm.target");
    const double gain = settings_is(s, "norm.init", "text") ? target / sqrt((double)width) : 1;
    n->form = FORM_LAYERNORM;
    while (!settings_is(s, "norm.form", forms[n->form])) n->form++;
    if (method_fill(env, "norm_align.weight", &n->gain, gain, gain, err) < 0) return -1;
    return method_fill(env, "norm_align.bias", &n->bias, 0, 0, err);
}

static bool norm_without_effect(const struct method_env *env, struct err *why)
{
    const struct method_tensors *source = &env->tensors;
    if (source->find && source->find(source->self, "norm_align.weight")) return false;
    err_set(why, "norm.align is on without trained parameters: a model that was not trained with "
                 "it answers worse; train with it, or load an adapter that has norm_align");
    return true;
}

// Returns the mean, over a picture's tokens, of each token's root mean square. Skips newline
// tokens.
static double mean_scale(struct graph *g, const struct site_args *args)
{
    const int64_t n = args->x->shape[0], width = args->x->shape[1];
    float *host = xreallocarray(NULL, (size_t)(n * width) + 1, sizeof *host);
    double sum = 0;
    int64_t count = 0;
    graph_download(g, host, args->x);
    for (int64_t i = 0; i < n; i++) {
        if (site_sequence(args)->newline[site_row(args, i)]) continue;
        sum += method_rms(host + i * width, width, eps);
        count++;
    }
    free(host);
    return count ? sum / (double)count : 1;
}

static struct tensor *normed(const struct norm_align *n, struct graph *g,
                             const struct site_args *args)
{
    struct tensor *gain = (struct tensor *)&n->gain, *bias = (struct tensor *)&n->bias, *y;
    if (n->form == FORM_LAYERNORM) return op_layernorm(g, args->x, gain, bias, eps);
    if (n->form == FORM_RMS)
        y = op_rmsnorm(g, args->x, gain, eps);
    else
        y = op_scale_columns(g, op_scale(g, args->x, (float)(1 / mean_scale(g, args))), gain);
    return linear_add_bias(g, y, bias);
}

// Leaves tokens that end a row of the picture unchanged: they were learned at the scale of the
// language model.
static int norm_run(void *state, struct graph *g, struct site_args *args)
{
    struct norm_align *n = state;
    struct tensor *x = args->x; // [S,D]
    int32_t *cells = xreallocarray(NULL, (size_t)x->shape[0] + 1, sizeof *cells);
    int64_t count = 0;
    for (int64_t i = 0; i < x->shape[0]; i++)
        if (site_sequence(args)->newline[site_row(args, i)]) cells[count++] = (int32_t)i;
    args->x = normed(n, g, args);
    if (count) args->x = op_scatter_rows(g, args->x, op_gather_rows(g, x, cells, count), cells);
    free(cells);
    return args->x ? 0 : -1;
}

static bool norm_learned(const struct model *m, int index, int layer, struct method_tensor *t)
{
    static const char *const names[] = { "norm_align.weight", "norm_align.bias" };
    if (index > 1 || !model_has_vision(m)) return false;
    *t = (struct method_tensor){ names[index], 1, { m->decoder.config.hidden } };
    return true;
}

static void norm_params(void *state, method_param_fn add, void *self)
{
    struct norm_align *n = state;
    add(self, "norm_align.weight", &n->gain);
    add(self, "norm_align.bias", &n->bias);
}

static void norm_badge(struct buf *b, const struct settings *s, int layer)
{
    buf_puts(b, "NORM");
}

const struct method method_norm_align = {
    .name = "norm_align",
    .title = "norm alignment",
    .settings = norm_settings,
    .toggle = { "norm.align", "off", "on" },
    .press = "Alt-1",
    .fit = { "adapter", "methods/adapter" },
    .badge = norm_badge,
    .check = norm_check,
    .without_effect = norm_without_effect,
    .start = norm_start,
    .release = norm_release,
    .at = { { SITE_VISUAL, norm_run } },
    .training = { .part = PART_PROJECTOR },
    .learned = norm_learned,
    .params = norm_params,
};
