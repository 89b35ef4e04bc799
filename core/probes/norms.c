// core/probes/norms.c -- norms of both modalities from the encoder to the last layer, and their
// effect on angles and attention (the norm alignment paper).
//
//   h[l] [N,D] by rows: ||h[l]||, cos(h[l-1], h[l]), C = ||h[l+1]-h[l]||, phi = angle(h[l+1]-h[l],
//   h[l]), theta = angle(h[l], h[l+1]); theory: theta_m = atan2(C sin phi, n_m + C cos phi) (Eq.
//   8), gamma = cos(theta_vis) cos(theta_txt) (Theorem 1), the balanced case of Lemma 1.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/dtype.h"
#include "core/methods/calibration.h"
#include "core/probes/interface.h"
#include "core/probes/kit.h"

enum { NORMS_VISUAL, NORMS_VISUAL_STD, NORMS_TEXT, NORMS_TEXT_STD, NORMS_CALIBRATED };

// Reads norms [NORMS_CALIBRATED][L+1] from the file of norms.calibration, to show beside the
// conversation's norms; the caller frees *norms. NULL: no file is set. Returns -1 if the file does
// not fit this model.
static int calibrated(const struct settings *settings, const struct model *m, float **norms,
                      struct err *err)
{
    static const char *const names[NORMS_CALIBRATED] = {
        [NORMS_VISUAL] = "norms.visual",
        [NORMS_VISUAL_STD] = "norms.visual_std",
        [NORMS_TEXT] = "norms.text",
        [NORMS_TEXT_STD] = "norms.text_std",
    };
    const int64_t rows = m->decoder.config.layers + 1;
    struct calibration c;
    int status = 0;
    *norms = NULL;
    if (calibration_of_setting(&c, settings, "norms.calibration", m, err) < 0) return -1;
    if (!c.file) return 0;
    float *all = xreallocarray(NULL, (size_t)rows * NORMS_CALIBRATED, sizeof *all);
    for (int i = 0; i < NORMS_CALIBRATED && status == 0; i++) {
        float *one = calibration_numbers(&c, names[i], 1, &rows, err);
        if (one) memcpy(all + i * rows, one, (size_t)rows * sizeof *one);
        status = one ? 0 : -1;
        free(one);
    }
    calibration_close(&c);
    if (status == 0)
        *norms = all;
    else
        free(all);
    return status;
}

static int check_calibration(struct setting_env *env, struct err *err)
{
    float *norms = NULL;
    const int status = env->model ? calibrated(env->settings, env->model, &norms, err) : 0;
    free(norms);
    return status;
}

static const char *const word_none[] = { "none", NULL };

const struct setting norms_settings[] = {
    { .key = "norms.calibration",
      .type = SETTING_PATH,
      .def = "none",
      .choices = word_none,
      .stale = STALE_MEASURED,
      .help = "Calibration file written by /calibrate norms; /norms shows its means beside the "
              "conversation's.",
      .check = check_calibration },
    { 0 },
};

enum { VISUAL, TEXT, LATER, GROUPS }; // LATER: text without the first position

struct depth { // of h[l]
    struct tally norm[GROUPS], cosine[GROUPS], theta[GROUPS];
    struct tally steps[GROUPS], turns[GROUPS]; // C, phi of each
    struct tally step, turn;                   // C, phi of all tokens
    double cross;  // mean cosine over all pairs of a visual and a text token
    double logits; // mean q.k/sqrt(d) of text queries and earlier visual keys
    // Mean products of normed inputs: text and earlier visual tokens; text and all visual tokens.
    double dot, dot_all;
    // Largest singular value of E[u v^T] over the pairs of dot_all (App. B.4); its trace is
    // dot_all.
    double singular;
};

struct norms {
    const struct probe_env *env;
    int layers;
    int64_t rows, width;
    struct depth *depth; // [L+1]
    struct interface interface;
    float *before; // [N,D] h[l-1]
    bool *there;   // [N] rows alive in h[l-1]
    float *gains;  // [L,D] gains of the norms before attention; 1 without a norm
    float *keys;   // [P,Hkv,d] of the current layer
    int64_t key_count, key_capacity;
    double *visual, *text; // [D] sums
};

static void norms_release(void *state)
{
    struct norms *s = state;
    interface_release(&s->interface);
    free(s->depth);
    free(s->before);
    free(s->there);
    free(s->visual);
    free(s->text);
    free(s->gains);
    free(s->keys);
    free(s);
}

static void *norms_start(const struct probe_env *env, struct err *err)
{
    struct norms *s = xcalloc(1, sizeof *s);
    const struct decoder_config *c = &env->model->decoder.config;
    const int64_t most = c->hidden > c->kv_heads * c->dim ? c->hidden : c->kv_heads * c->dim;
    s->env = env;
    s->layers = c->layers;
    s->rows = env->sequence->n;
    s->width = c->hidden;
    s->depth = xcalloc((size_t)c->layers + 1, sizeof *s->depth);
    s->before = xcalloc((size_t)(s->rows * s->width), sizeof *s->before);
    s->there = xcalloc((size_t)s->rows, sizeof *s->there);
    s->visual = xcalloc((size_t)most, sizeof *s->visual);
    s->text = xcalloc((size_t)most, sizeof *s->text);
    s->gains = xreallocarray(NULL, (size_t)(s->layers * s->width), sizeof *s->gains);
    void *stored = xreallocarray(NULL, (size_t)s->width, sizeof *s->gains);
    for (int l = 0; l < s->layers; l++) {
        const struct tensor *gain = &env->model->decoder.layer[l].attention.before;
        float *to = s->gains + l * s->width;
        for (int64_t i = 0; i < s->width && !gain->data; i++) to[i] = 1;
        if (!gain->data) continue;
        env->backend->download(stored, gain->data, tensor_bytes(gain));
        floats_from(to, stored, gain->dtype, (size_t)s->width);
    }
    free(stored);
    interface_table(&s->interface, env->backend, &env->model->decoder.embed);
    interface_norm(&s->interface, env->backend, env->model);
    return s;
}

static bool norms_wants(void *state, const struct site *site, int layer)
{
    const struct norms *s = state;
    if (site == SITE_VISION_LAYER) return layer < 0 || layer == s->env->model->vision.config.layers;
    return site == SITE_VISION || site == SITE_PROJECTED || site == SITE_VISUAL ||
           site == SITE_LAYER_IN || site == SITE_VALUES || site == SITE_FINAL;
}

static double angle(double cosine)
{
    return acos(fmin(fmax(cosine, -1), 1));
}

static void add_groups(struct tally *stat, const struct site_args *a, int64_t i, double x)
{
    if (site_visual(a, i)) {
        tally_add(&stat[VISUAL], x);
        return;
    }
    tally_add(&stat[TEXT], x);
    if (site_row(a, i) > 0) tally_add(&stat[LATER], x);
}

// Adds the step from h[l-1] to h[l] of one token.
static void add_step(struct norms *s, int l, const struct site_args *a, int64_t i, const float *h)
{
    const float *before = s->before + site_row(a, i) * s->width;
    struct depth *d = &s->depth[l], *from = &s->depth[l - 1];
    double step = 0, along = 0;
    const double norm = rows_norm(before, s->width), cosine = rows_cosine(before, h, s->width);
    for (int64_t k = 0; k < s->width; k++) {
        const double u = (double)h[k] - (double)before[k];
        step += u * u;
        along += u * (double)before[k];
    }
    add_groups(d->cosine, a, i, cosine);
    add_groups(from->theta, a, i, angle(cosine));
    tally_add(&from->step, sqrt(step));
    add_groups(from->steps, a, i, sqrt(step));
    if (!(step > 0 && norm > 0)) return;
    const double turn = angle(along / (sqrt(step) * norm));
    tally_add(&from->turn, turn);
    add_groups(from->turns, a, i, turn);
}

// Adds dot products of the layer's normed inputs: of text with earlier visual tokens, and of text
// with all visual tokens.
static void add_inputs(struct norms *s, int l, const struct site_args *a, const float *h)
{
    const double eps = s->env->model->decoder.config.eps;
    const float *w = s->gains + l * s->width;
    double pairs = 0, sum = 0, all = 0;
    int64_t visual = 0, text = 0;
    memset(s->visual, 0, (size_t)s->width * sizeof *s->visual);
    memset(s->text, 0, (size_t)s->width * sizeof *s->text);
    for (int64_t i = 0; i < a->x->shape[0]; i++) {
        const float *x = h + i * s->width;
        const double scale = 1 / sqrt(rows_dot(x, x, s->width) / (double)s->width + eps);
        const bool seen = site_visual(a, i);
        *(seen ? &visual : &text) += 1;
        if (!seen) pairs += (double)visual;
        for (int64_t k = 0; k < s->width; k++) {
            const double y = (double)x[k] * scale * (double)w[k];
            if (!seen) sum += y * s->visual[k];
            (seen ? s->visual : s->text)[k] += y;
        }
    }
    double visual_squares = 0, text_squares = 0;
    for (int64_t k = 0; k < s->width; k++) {
        all += s->visual[k] * s->text[k];
        visual_squares += s->visual[k] * s->visual[k];
        text_squares += s->text[k] * s->text[k];
    }
    // All pairs of a prompt: E[u v^T] = E[u] E[v]^T has one singular value.
    s->depth[l].singular =
        visual && text ? sqrt(visual_squares) / (double)visual * sqrt(text_squares) / (double)text
                       : NAN;
    s->depth[l].dot = pairs > 0 ? sum / pairs : NAN;
    s->depth[l].dot_all = visual && text ? all / (double)visual / (double)text : NAN;
}

// Stores the keys until the layer's queries arrive.
static int take_keys(void *state, const struct site *site, const struct site_args *args,
                     struct err *err)
{
    struct norms *s = state;
    const int64_t count = tensor_count(args->x);
    if (count > s->key_capacity) {
        s->keys = xreallocarray(s->keys, (size_t)count, sizeof *s->keys);
        s->key_capacity = count;
    }
    memcpy(s->keys, args->x->data, (size_t)count * sizeof *s->keys);
    s->key_count = args->x->shape[0];
    return 0;
}

// Adds q.k/sqrt(d) over text queries and earlier visual keys, mean over heads.
static int take_queries(void *state, const struct site *site, const struct site_args *a,
                        struct err *err)
{
    struct norms *s = state;
    const int64_t heads = a->x->shape[1], kv_heads = s->env->model->decoder.config.kv_heads;
    const int64_t dim = a->x->shape[2], keys = s->key_count, group = heads / kv_heads;
    const float *q = a->x->data, *k = s->keys;
    double sum = 0, pairs = 0, visual = 0;
    memset(s->visual, 0, (size_t)(kv_heads * dim) * sizeof *s->visual);
    for (int64_t j = 0; j < keys; j++) {
        if (site_sequence(a)->picture[site_key(a, j)] >= 0) {
            for (int64_t x = 0; x < kv_heads * dim; x++)
                s->visual[x] += (double)k[j * kv_heads * dim + x];
            visual++;
            continue;
        }
        const int64_t i = j - a->past;
        if (i < 0 || visual == 0) continue;
        pairs += visual;
        for (int64_t h = 0; h < heads; h++)
            for (int64_t x = 0; x < dim; x++)
                sum += (double)q[(i * heads + h) * dim + x] * s->visual[h / group * dim + x];
    }
    s->depth[a->layer].logits = pairs > 0 ? sum / pairs / (double)heads / sqrt((double)dim) : NAN;
    return 0;
}

static int take_rows(void *state, const struct site *site, const struct site_args *args,
                     struct err *err)
{
    struct norms *s = state;
    const float *h = args->x->data;
    if (site != SITE_LAYER_IN && site != SITE_FINAL) {
        interface_add(&s->interface, s->env->model, site, args, h);
        return 0;
    }
    const int l = site == SITE_FINAL ? s->layers : args->layer;
    const int64_t n = args->x->shape[0];
    int64_t visual = 0, text = 0;
    double dot = 0;
    memset(s->visual, 0, (size_t)s->width * sizeof *s->visual);
    memset(s->text, 0, (size_t)s->width * sizeof *s->text);
    for (int64_t i = 0; i < n; i++) {
        const float *x = h + i * s->width;
        const double norm = rows_norm(x, s->width);
        const bool seen = site_visual(args, i);
        double *sum = seen ? s->visual : s->text;
        add_groups(s->depth[l].norm, args, i, norm);
        if (l && s->there[site_row(args, i)]) add_step(s, l, args, i, x);
        *(seen ? &visual : &text) += 1;
        for (int64_t k = 0; k < s->width && norm > 0; k++) sum[k] += (double)x[k] / norm;
    }
    // Sums of unit vectors give the mean cosine over all pairs.
    for (int64_t k = 0; k < s->width; k++) dot += s->visual[k] * s->text[k];
    s->depth[l].cross = visual && text ? dot / (double)visual / (double)text : NAN;
    if (l < s->layers) add_inputs(s, l, args, h);
    memset(s->there, 0, (size_t)s->rows * sizeof *s->there);
    for (int64_t i = 0; i < n; i++) {
        const int64_t row = site_row(args, i);
        memcpy(s->before + row * s->width, h + i * s->width, (size_t)s->width * sizeof *h);
        s->there[row] = true;
    }
    return 0;
}

static int norms_run(void *state, struct graph *g, const struct site *site, struct site_args *args)
{
    struct norms *s = state;
    if (site == SITE_VISUAL) s->interface.changed |= args->x != args->v;
    if (site != SITE_VALUES) return readback(g, args->x, site, args, take_rows, state);
    if (readback(g, args->k, site, args, take_keys, state) < 0) return -1;
    return readback(g, args->q, site, args, take_queries, state);
}

// --- results -------------------------------------------------------------------------------------

static void put_groups(double *v, const struct tally *stat)
{
    for (int i = 0; i < GROUPS; i++) {
        v[2 * i] = tally_mean(&stat[i]);
        v[2 * i + 1] = tally_std(&stat[i]);
    }
}

#define GROUP_COLUMNS "layer|visual|visual std|text|text std|text but first|text but first std"

// The columns of norms.theory.
enum { C, PHI, N_VIS, N_TXT, THETA_VIS, FOUND_VIS, THETA_TXT, FOUND_TXT, GAMMA, FOUND, BALANCED };

// Adds the conversation's mean, and the data set's mean and deviation, of each modality.
static int put_calibrated(const struct norms *s, struct results *r, struct err *err)
{
    const int64_t rows = s->layers + 1;
    float *of;
    if (calibrated(s->env->settings, s->env->model, &of, err) < 0) return -1;
    if (!of) return 0;
    struct result_table *t =
        results_table(r, "norms.calibration",
                      "layer|visual|visual, data|visual std, data|text|text, data|text std, data");
    t->curve = true;
    for (int l = 0; l <= s->layers; l++) {
        double *v = result_row(t, "%d", l);
        v[0] = tally_mean(&s->depth[l].norm[VISUAL]);
        v[1] = (double)of[NORMS_VISUAL * rows + l];
        v[2] = (double)of[NORMS_VISUAL_STD * rows + l];
        v[3] = tally_mean(&s->depth[l].norm[TEXT]);
        v[4] = (double)of[NORMS_TEXT * rows + l];
        v[5] = (double)of[NORMS_TEXT_STD * rows + l];
    }
    free(of);
    return 0;
}

static int norms_finish(void *state, struct results *r, struct err *err)
{
    struct norms *s = state;
    if (put_calibrated(s, r, err) < 0) return -1;
    results_note(r, "angles (phi, theta) in radians; C and norms are L2; theory: theta from C, phi "
                    "and the modality's norm (Eq. 8)");
    s->interface.text = s->depth[0].norm[TEXT];
    interface_put(&s->interface, r);
    struct result_table *t = results_table(r, "norms.layers", GROUP_COLUMNS);
    t->curve = true;
    for (int l = 0; l <= s->layers; l++) put_groups(result_row(t, "%d", l), s->depth[l].norm);
    t = results_table(r, "norms.cosines", GROUP_COLUMNS);
    t->curve = true;
    for (int l = 1; l <= s->layers; l++) put_groups(result_row(t, "%d", l), s->depth[l].cosine);
    // The theory assumes one C and one phi for all tokens.
    t = results_table(r, "norms.steps", GROUP_COLUMNS);
    t->curve = true;
    for (int l = 0; l < s->layers; l++) put_groups(result_row(t, "%d", l), s->depth[l].steps);
    t = results_table(r, "norms.turns", GROUP_COLUMNS);
    t->curve = true;
    for (int l = 0; l < s->layers; l++) put_groups(result_row(t, "%d", l), s->depth[l].turns);
    t = results_table(r, "norms.theory",
                      "layer|C|phi|norm visual|norm text|theta visual|measured visual|theta text|"
                      "measured text|gamma|gamma measured|gamma balanced");
    struct result_table *cross = results_table(
        r, "norms.alignment", "layer|cosine by theory|by measured angles|cosine measured");
    double product = s->depth[0].cross, found = product;
    cross->curve = true;
    for (int l = 0; l <= s->layers; l++) {
        const struct depth *d = &s->depth[l];
        double *x = result_row(cross, "%d", l);
        x[0] = product, x[1] = found, x[2] = d->cross;
        if (l == s->layers) break;
        double *v = result_row(t, "%d", l);
        v[C] = tally_mean(&d->step), v[PHI] = tally_mean(&d->turn);
        v[N_VIS] = tally_mean(&d->norm[VISUAL]), v[N_TXT] = tally_mean(&d->norm[TEXT]);
        v[THETA_VIS] = atan2(v[C] * sin(v[PHI]), v[N_VIS] + v[C] * cos(v[PHI]));
        v[THETA_TXT] = atan2(v[C] * sin(v[PHI]), v[N_TXT] + v[C] * cos(v[PHI]));
        v[FOUND_VIS] = tally_mean(&d->theta[VISUAL]), v[FOUND_TXT] = tally_mean(&d->theta[TEXT]);
        v[GAMMA] = cos(v[THETA_VIS]) * cos(v[THETA_TXT]);
        v[FOUND] = cos(v[FOUND_VIS]) * cos(v[FOUND_TXT]);
        // Lemma 1: both tangents equal their geometric mean; gamma is cos^2 of that angle.
        v[BALANCED] = 1 / (1 + fabs(tan(v[THETA_VIS]) * tan(v[THETA_TXT])));
        product *= v[GAMMA];
        found *= v[FOUND];
    }
    t = results_table(r, "norms.attention",
                      "layer|text-visual logits|input products|input products, all pairs|"
                      "singular value");
    t->curve = true;
    for (int l = 0; l < s->layers; l++) {
        double *v = result_row(t, "%d", l);
        v[0] = s->depth[l].logits, v[1] = s->depth[l].dot, v[2] = s->depth[l].dot_all;
        v[3] = s->depth[l].singular;
    }
    return 0;
}

static const struct result_kind norms_results[] = {
    { "norms.layers", .unit = "L2 norm" },
    { "norms.cosines", .unit = "cosine of layer l-1 and l" },
    { "norms.alignment", .unit = "cosine of visual and text tokens" },
    { "norms.attention", "attention logit", .columns = "text-visual logits" },
    { "norms.attention", "product of inputs",
      .columns = "input products|input products, all pairs|singular value" },
    { "norms.steps", .unit = "L2 norm" },
    { "norms.turns", .unit = "radians" },
    { "norms.theory", "L2 norm", .columns = "C|norm visual|norm text" },
    { "norms.theory", "radians",
      .columns = "phi|theta visual|measured visual|theta text|measured text" },
    { "norms.theory", "ratio of alignment", .columns = "gamma|gamma measured|gamma balanced" },
    { "norms.calibration", .unit = "L2 norm" },
    { 0 },
};

const struct probe probe_norms = {
    .name = "norms",
    .also = "length scale angle measure probe",
    .usage = "/norms [FOLDER]" PROBE_USAGE,
    .help = "Norms and angles of visual and text tokens, from the encoder to the last layer.",
    .details =
        "Tables: interface (norms of the encoder's last output before and after its final norm,\n"
        "norms before and after the projector, T* of the embedding table); norms and cosines by\n"
        "layer; measured norms against the theory of norm alignment; the theory's assumptions (C\n"
        "and phi of each modality, with deviations over tokens); alignment of the modalities;\n"
        "attention logits between the modalities, and the largest singular value of the\n"
        "cross-covariance of their normed inputs. With FOLDER, shows only the interface of the\n"
        "model in that folder, which may contain only an embedding table or an encoder; an\n"
        "encoder in FOLDER encodes the conversation's pictures." PROBE_DETAILS,
    .folder = interface_folder,
    .encoder = true,
    .results = norms_results,
    .start = norms_start,
    .release = norms_release,
    .wants = norms_wants,
    .run = norms_run,
    .finish = norms_finish,
};
