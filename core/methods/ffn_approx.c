// core/methods/ffn_approx.c -- CAPA's FFN approximation: in selected layers an elementwise product
// replaces the FFN of visual tokens (CAPA's paper).
//
//   hadamard: y = alpha[l] * x      skip: y = x      x, y [n,D] rows of the residual stream
//
// The FFN is then computed only for text rows; ffn.tokens text or all are controls. alpha [L,D] and
// the redundancy [L], which `ffn.layers auto` uses to select layers, come from a calibration file.
#include <stdlib.h>
#include <string.h>

#include "core/methods/calibration.h"
#include "core/methods/forecast.h"
#include "core/methods/kit.h"

static const char *const forms[] = { "off", "hadamard", "skip", NULL };
static const char *const kinds[] = { "visual", "text", "all", NULL };
static const char *const word_auto[] = { "auto", NULL };
static const char *const word_none[] = { "none", NULL };

static const struct setting ffn_settings[] = {
    { .key = "ffn.calibration",
      .type = SETTING_PATH,
      .def = "none",
      .choices = word_none,
      .stale = STALE_SEEN,
      .help = "Calibration file written by /calibrate ffn: alpha and redundancy of each layer." },
    { .key = "ffn.layers",
      .type = SETTING_LIST,
      .def = "auto",
      .choices = word_auto,
      .stale = STALE_SEEN,
      .help = "Layers whose FFN is approximated; auto selects those whose redundancy exceeds "
              "ffn.eta." },
    { .key = "ffn.eta",
      .type = SETTING_REAL,
      .min = -1,
      .max = 1,
      .def = "0.96",
      .stale = STALE_SEEN,
      .help = "Redundancy threshold of ffn.layers auto; the last layer is never selected." },
    { .key = "ffn.tokens",
      .type = SETTING_CHOICE,
      .def = "visual",
      .choices = kinds,
      .stale = STALE_SEEN,
      .help = "Tokens whose FFN is approximated: visual (the method), text or all (controls; "
              "generated tokens are text).",
      .also = "control modality" },
    { .key = "ffn.approx",
      .type = SETTING_CHOICE,
      .def = "off",
      .choices = forms,
      .stale = STALE_SEEN,
      .help =
          "FFN approximation for the tokens of ffn.tokens: off, hadamard (multiply by alpha) or "
          "skip (omit the FFN).",
      .also = "skip approximation" },
    { 0 },
};

struct ffn_approx {
    const struct backend *backend;
    int layers;             // L
    bool *chosen;           // [L]
    bool of[2];             // approximated: visual, text tokens
    struct tensor alpha[2]; // [L,D] of each; data NULL: skip, or not approximated
    int32_t *rest;          // rows of the pass whose FFN is computed, until the layer ends
    // Hashes of alpha and, under ffn.layers auto, of the chosen layers; "": not read yet.
    char content[3][HASH_HEX];
    bool stale; // the KV cache was computed with a different calibration file of the same name
};

static void ffn_release(void *state)
{
    struct ffn_approx *f = state;
    for (int m = 0; m < 2; m++) f->backend->release(f->alpha[m].data);
    free(f->chosen);
    free(f->rest);
    free(f);
}

// Reads which tokens are approximated: of[0] visual tokens, of[1] text tokens.
static void read_tokens(const struct settings *s, bool of[2])
{
    of[0] = !settings_is(s, "ffn.tokens", "text");
    of[1] = !settings_is(s, "ffn.tokens", "visual");
}

// Marks the layers before the last whose redundancy exceeds eta for each kind of token that is
// approximated.
static int choose_layers(const struct method_env *env, const struct calibration *c,
                         const bool of[2], bool *chosen, struct err *err)
{
    static const char *const names[] = { "ffn.redundancy", "ffn.redundancy_text" };
    const int64_t layers = env->model->decoder.config.layers;
    const double eta = settings_real(env->settings, "ffn.eta");
    for (int64_t l = 0; l < layers - 1; l++) chosen[l] = true;
    for (int m = 0; m < 2; m++) {
        float *redundancy = of[m] ? calibration_numbers(c, names[m], 1, &layers, err) : NULL;
        if (of[m] && !redundancy) return -1;
        for (int64_t l = 0; redundancy && l < layers; l++) chosen[l] &= redundancy[l] > eta;
        free(redundancy);
    }
    return 0;
}

// Reads the settings: the layers, and alpha [L,D] of each modality on the host (NULL: skip). Checks
// the method's settings as far as possible even while it is off.
static int ffn_read(const struct method_env *env, bool *chosen, float *alpha[2], struct err *err)
{
    static const char *const names[] = { "ffn.alpha", "ffn.alpha_text" };
    const struct settings *s = env->settings;
    const struct decoder_config *d = &env->model->decoder.config;
    struct calibration c;
    bool of[2];
    int status = -1;
    alpha[0] = alpha[1] = NULL;
    read_tokens(s, of);
    if (calibration_of_setting(&c, s, "ffn.calibration", env->model, err) < 0) return -1;
    if (settings_is(s, "ffn.layers", "auto")) {
        const bool off = settings_is(s, "ffn.approx", "off");
        if (!off && !c.file) {
            err_set(err, "ffn.layers auto needs a calibration: make one with /calibrate ffn DATA "
                         "OUT and /calibration load OUT, or name the layers");
            goto out;
        }
        if (!off && choose_layers(env, &c, of, chosen, err) < 0) goto out;
    } else if (settings_layers(s, "ffn.layers", d->layers, chosen, err) < 0) {
        goto out;
    }
    if (settings_is(s, "ffn.approx", "hadamard")) {
        if (!c.file) {
            err_set(err, "ffn.approx hadamard needs a calibration: make one with /calibrate ffn "
                         "DATA OUT and /calibration load OUT, or use skip");
            goto out;
        }
        const int64_t shape[] = { d->layers, d->hidden };
        for (int m = 0; m < 2; m++)
            if (of[m] && !(alpha[m] = calibration_numbers(&c, names[m], 2, shape, err))) goto out;
    }
    status = 0;
out:
    calibration_close(&c);
    return status;
}

static int ffn_check(const struct method_env *env, struct err *err)
{
    float *alpha[2];
    bool *chosen = xcalloc((size_t)env->model->decoder.config.layers, sizeof *chosen);
    int status = ffn_read(env, chosen, alpha, err);
    free(chosen);
    free(alpha[0]);
    free(alpha[1]);
    return status;
}

// Only `auto` may select no layer.
static bool ffn_without_effect(const struct method_env *env, struct err *why)
{
    const int layers = env->model->decoder.config.layers;
    bool *chosen = xcalloc((size_t)layers, sizeof *chosen), any = false;
    float *alpha[2];
    const bool read = ffn_read(env, chosen, alpha, NULL) == 0;
    for (int l = 0; l < layers; l++) any |= chosen[l];
    if (!any)
        err_set(why,
                "ffn.layers auto selects no layer: no layer before the last has a redundancy above "
                "ffn.eta %s (/calibration show), so ffn.approx has no effect",
                settings_text(env->settings, "ffn.eta"));
    free(chosen);
    free(alpha[0]);
    free(alpha[1]);
    return read && !any;
}

static int ffn_start(void **state, const struct method_env *env, struct err *err)
{
    const struct decoder_config *d = &env->model->decoder.config;
    struct ffn_approx *f = *state;
    if (!f) {
        *state = f = xcalloc(1, sizeof *f);
        f->backend = env->backend;
        f->layers = d->layers;
        f->chosen = xcalloc((size_t)d->layers, sizeof *f->chosen);
    }
    float *alpha[2];
    int status;
    memset(f->chosen, 0, (size_t)f->layers * sizeof *f->chosen);
    read_tokens(env->settings, f->of);
    status = ffn_read(env, f->chosen, alpha, err);
    for (int m = 0; m < 2; m++) {
        struct tensor *t = &f->alpha[m];
        f->backend->release(t->data);
        *t = (struct tensor){ .rank = 2, .shape = { d->layers, d->hidden } };
        if (status == 0 && alpha[m] && !(t->data = f->backend->alloc(tensor_bytes(t))))
            status = err_set(err, "out of memory for alpha of the FFN approximation");
        if (t->data) {
            f->backend->upload(t->data, alpha[m], tensor_bytes(t));
            f->stale |= method_content_changed(alpha[m], tensor_bytes(t), f->content[m]);
        }
        free(alpha[m]);
    }
    if (status == 0 && settings_is(env->settings, "ffn.layers", "auto"))
        f->stale |=
            method_content_changed(f->chosen, (size_t)f->layers * sizeof *f->chosen, f->content[2]);
    return status;
}

static void ffn_trim(void *state, int64_t rows)
{
    struct ffn_approx *f = state;
    if (!rows) f->stale = false;
}

static int64_t ffn_reusable(void *state, const struct sequence *cached, int64_t rows)
{
    const struct ffn_approx *f = state;
    return f->stale ? 0 : rows;
}

static bool ffn_wants(void *state, const struct site *site, int layer)
{
    const struct ffn_approx *f = state;
    return layer < 0 || (layer < f->layers && f->chosen[layer]);
}

static int ffn_run(void *state, struct graph *g, struct site_args *args)
{
    struct ffn_approx *f = state;
    const int64_t n = args->x->shape[0];
    const int other = f->of[0]; // computed, unless both are approximated
    int64_t count[2];
    int32_t *rows[2];
    for (int m = 0; m < 2; m++) {
        rows[m] = site_rows(args, n, m == 0, &count[m]);
        if (!count[m] || !f->of[m] || !f->alpha[m].data) continue;          // y = x
        struct tensor *alpha = graph_rows(g, &f->alpha[m], args->layer, 1); // [1,D]
        struct tensor *x = op_gather_rows(g, args->x, rows[m], count[m]);
        args->x = op_scatter_rows(g, args->x, op_scale_columns(g, x, alpha), rows[m]);
    }
    const int64_t computed = f->of[other] ? 0 : count[other];
    free(f->rest);
    f->rest = rows[other];
    free(rows[!other]);
    if (computed < n) args->only = f->rest, args->only_count = computed;
    return args->x ? 0 : -1;
}

// D FLOPs per row: the product with alpha.
static double ffn_flops(const struct settings *s, const struct decoder_config *c,
                        const struct site *site, const struct site_args *args, bool visual)
{
    return site == SITE_FFN && settings_is(s, "ffn.approx", "hadamard") ? (double)c->hidden : 0;
}

static int ffn_forecast(const struct method_env *env, struct forecast_rows *rows, struct err *err)
{
    const int layers = env->model->decoder.config.layers;
    bool *chosen = xcalloc((size_t)layers, sizeof *chosen), of[2];
    float *alpha[2];
    const int status = ffn_read(env, chosen, alpha, err);
    read_tokens(env->settings, of);
    for (int l = 0; l < layers; l++) {
        if (chosen[l] && of[0]) rows[l].ffn_visual = 0;
        if (chosen[l] && of[1]) rows[l].ffn_text = 0;
    }
    free(chosen);
    free(alpha[0]);
    free(alpha[1]);
    return status;
}

static void ffn_badge(struct buf *b, const struct settings *s, int layer)
{
    buf_printf(b, "FFN %s", settings_text(s, "ffn.layers"));
    if (!settings_is(s, "ffn.tokens", "visual"))
        buf_printf(b, " %s", settings_text(s, "ffn.tokens"));
}

const struct method method_ffn_approx = {
    .name = "ffn_approx",
    .title = "FFN approximation",
    .settings = ffn_settings,
    .toggle = { "ffn.approx", "off", "hadamard" },
    .press = "Alt-3",
    .fit = { "ffn.calibration", "methods/ffn.safetensors" },
    .replaces = true,
    .badge = ffn_badge,
    .forecast = ffn_forecast,
    .check = ffn_check,
    .without_effect = ffn_without_effect,
    .start = ffn_start,
    .release = ffn_release,
    .trim = ffn_trim,
    .reusable = ffn_reusable,
    .flops = ffn_flops,
    .wants = ffn_wants,
    .at = { { SITE_FFN, ffn_run } },
};
