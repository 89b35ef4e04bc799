// core/probes/norms.c -- norms of visual and text tokens from the encoder to the last layer, and
// the effect of the norms on angles and attention (the norm alignment paper).
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

// Reads norms [NORMS_CALIBRATED][L+1] from the file that norms.calibration names; /norms shows them
// beside the conversation's norms. The caller frees *norms. *norms NULL: no file is set. Returns -1
// if the file does not fit this model.
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

enum { VISUAL, TEXT, LATER, GROUPS }; // LATER: text after the first position

struct depth { // statistics of h[l]
    struct tally norm[GROUPS], cosine[GROUPS], theta[GROUPS];
    struct tally steps[GROUPS], turns[GROUPS]; // C and phi of each group
    struct tally step, turn;                   // C and phi of all tokens
    double cross;  // mean cosine over all pairs of a visual and a text token
    double logits; // mean q.k/sqrt(d) of text queries and earlier visual keys
    // Mean dot products of normalised inputs: of text with earlier visual tokens; of text with all
    // visual tokens.
    double dot, dot_all;
    // Largest singular value of E[u v^T] over the pairs of dot_all (App. B.4); dot_all is the trace
    // of this matrix.
    double singular;
};

struct norms {
    const struct probe_env *env;
    int layers;
    int64_t rows, width;
    struct depth *depth; // [L+1]
    struct interface interface;
    float *before; // [N,D] h[l-1]
    bool *there;   // [N] whether h[l-1] has the row
    float *gains;  // [L,D] gains of the norms before attention; 1 without a norm
    float *keys;   // [P,Hkv,d] of the current layer; P: number of keys
    int64_t key_count, key_capacity;
    double *visual, *text; // [D] sums; `visual` also holds [Hkv,d] sums of keys
    float *mean[2];        // [L,D] mean normalised inputs of visual and text tokens; NaN: no token
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
    free(s->mean[VISUAL]);
    free(s->mean[TEXT]);
    free(s->gains);
    free(s->keys);
    free(s);
}

static void *norms_start(const struct probe_env *env, struct err *err)
{
    struct norms *s = xcalloc(1, sizeof *s);
    const struct decoder_config *c = &env->model->decoder.config;
    int64_t most = c->hidden;
    for (int l = 0; l < c->layers; l++) {
        const struct head_sizes heads = decoder_heads(c, l);
        if (heads.kv_heads * heads.dim > most) most = heads.kv_heads * heads.dim;
    }
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
    for (int i = 0; i < 2; i++)
        s->mean[i] = xreallocarray(NULL, (size_t)(s->layers * s->width), sizeof *s->mean[i]);
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
    const struct decoder *d = &env->model->decoder;
    interface_table(&s->interface, env->backend, &d->embed, (double)d->config.embed_scale);
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

// Adds the step of one token from h[l-1] to h[l].
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

// Computes mean dot products of the layer's normalised inputs: of text with earlier visual tokens,
// and of text with all visual tokens.
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
        const bool is_visual = site_visual(a, i);
        *(is_visual ? &visual : &text) += 1;
        if (!is_visual) pairs += (double)visual;
        for (int64_t k = 0; k < s->width; k++) {
            const double y = (double)x[k] * scale * (double)w[k];
            if (!is_visual) sum += y * s->visual[k];
            (is_visual ? s->visual : s->text)[k] += y;
        }
    }
    double visual_squares = 0, text_squares = 0;
    for (int64_t k = 0; k < s->width; k++) {
        all += s->visual[k] * s->text[k];
        visual_squares += s->visual[k] * s->visual[k];
        text_squares += s->text[k] * s->text[k];
        s->mean[VISUAL][l * s->width + k] = (float)(s->visual[k] / (double)visual);
        s->mean[TEXT][l * s->width + k] = (float)(s->text[k] / (double)text);
    }
    // Over all pairs of one prompt, E[u v^T] = E[u] E[v]^T has only one nonzero singular value.
    s->depth[l].singular =
        visual && text ? sqrt(visual_squares) / (double)visual * sqrt(text_squares) / (double)text
                       : NAN;
    s->depth[l].dot = pairs > 0 ? sum / pairs : NAN;
    s->depth[l].dot_all = visual && text ? all / (double)visual / (double)text : NAN;
}

// Stores the keys until the queries of the same layer arrive.
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

// Computes the mean of q.k/sqrt(d) over all heads and all pairs of a text query and an earlier
// visual key.
static int take_queries(void *state, const struct site *site, const struct site_args *a,
                        struct err *err)
{
    struct norms *s = state;
    const int64_t heads = a->x->shape[1],
                  kv_heads = decoder_heads(&s->env->model->decoder.config, a->layer).kv_heads;
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
        const bool is_visual = site_visual(args, i);
        double *sum = is_visual ? s->visual : s->text;
        add_groups(s->depth[l].norm, args, i, norm);
        if (l && s->there[site_row(args, i)]) add_step(s, l, args, i, x);
        *(is_visual ? &visual : &text) += 1;
        for (int64_t k = 0; k < s->width && norm > 0; k++) sum[k] += (double)x[k] / norm;
    }
    // The dot product of the sums of unit vectors gives the mean cosine over all pairs.
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

// For each modality, adds the conversation's mean, and the data set's mean and deviation.
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
    // The theory assumes the same C and phi for all tokens; these two tables show C and phi by
    // group.
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
        // The balanced case of Lemma 1: both tangents equal their geometric mean, and gamma is
        // cos^2 of the angle with that tangent.
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

// --- the cross-covariance over a data set --------------------------------------------------------
//
// E[u v^T] over all pairs of a text and a visual token of the same prompt, with the same weight for
// each prompt, is U^T V / N. U and V are [N,D]: row i has the mean normalised input of the text
// tokens, or of the visual tokens, of prompt i. The squared singular values of E[u v^T] are the
// eigenvalues of (U U^T)(V V^T) / N^2. With U U^T = R R^T, these equal the eigenvalues of the
// symmetric matrix R^T (V V^T) R / N^2 [N,N].

enum { PROMPTS = 128 }; // maximum number of prompts; the time grows with its cube

struct cross {
    int layers;
    int64_t width, count, left_out; // count, left_out: numbers of prompts
    float *mean[2];                 // [count][L,D]
};

static void *cross_start(void)
{
    return xcalloc(1, sizeof(struct cross));
}

static void cross_add(void *data, const void *state)
{
    struct cross *c = data;
    const struct norms *s = state;
    const size_t size = (size_t)(s->layers * s->width);
    if (isnan(s->depth[0].singular)) return; // no visual tokens, or no text tokens
    c->layers = s->layers;
    c->width = s->width;
    if (c->count == PROMPTS) {
        c->left_out++;
        return;
    }
    for (int i = 0; i < 2; i++) {
        c->mean[i] = xreallocarray(c->mean[i], (size_t)(c->count + 1) * size, sizeof *c->mean[i]);
        memcpy(c->mean[i] + (size_t)c->count * size, s->mean[i], size * sizeof *c->mean[i]);
    }
    c->count++;
}

// Fills g[N,N] with the dot products of the prompts' mean inputs; `centred`: subtracts the mean
// over all prompts from each of these vectors first.
static void products(const struct cross *c, int of, int layer, bool centred, double *g)
{
    const int64_t n = c->count, stride = c->layers * c->width;
    const float *x = c->mean[of] + layer * c->width;
    double *row = xcalloc((size_t)n, sizeof *row), all = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            g[i * n + j] =
                j < i ? g[j * n + i] : rows_dot(x + i * stride, x + j * stride, c->width);
            row[i] += g[i * n + j] / (double)n;
        }
    for (int64_t i = 0; i < n; i++) all += row[i] / (double)n;
    for (int64_t i = 0; i < n * n && centred; i++) g[i] += all - row[i / n] - row[i % n];
    free(row);
}

// Replaces a positive semidefinite matrix g with its Cholesky factor R: g = R R^T.
static void factorise(double *g, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++) most = fmax(most, g[i * n + i]);
    for (int64_t j = 0; j < n; j++) {
        const double pivot = g[j * n + j];
        const bool none = pivot <= 1e-12 * most; // linearly dependent on earlier rows
        for (int64_t i = j; i < n; i++) g[i * n + j] = none ? 0 : g[i * n + j] / sqrt(pivot);
        for (int64_t i = 0; i < j; i++) g[i * n + j] = 0;
        for (int64_t i = j + 1; i < n; i++)
            for (int64_t k = j + 1; k <= i; k++) g[i * n + k] -= g[i * n + j] * g[k * n + j];
    }
}

// Diagonalises a symmetric matrix by Jacobi rotations.
static void diagonalise(double *a, int64_t n)
{
    double all = 0;
    for (int64_t i = 0; i < n * n; i++) all += a[i] * a[i];
    for (int sweep = 0; sweep < 30; sweep++) {
        double rest = 0;
        for (int64_t i = 0; i < n * n; i++) rest += i % n == i / n ? 0 : a[i] * a[i];
        if (rest <= 1e-24 * all) return;
        for (int64_t p = 0; p < n; p++)
            for (int64_t q = p + 1; q < n; q++) {
                if (a[p * n + q] == 0) continue;
                const double t = (a[q * n + q] - a[p * n + p]) / (2 * a[p * n + q]);
                const double tan = (t < 0 ? -1 : 1) / (fabs(t) + sqrt(t * t + 1));
                const double cos = 1 / sqrt(tan * tan + 1), sin = tan * cos;
                for (int64_t k = 0; k < n; k++) {
                    const double x = a[k * n + p], y = a[k * n + q];
                    a[k * n + p] = cos * x - sin * y, a[k * n + q] = sin * x + cos * y;
                }
                for (int64_t k = 0; k < n; k++) {
                    const double x = a[p * n + k], y = a[q * n + k];
                    a[p * n + k] = cos * x - sin * y, a[q * n + k] = sin * x + cos * y;
                }
            }
    }
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

// Writes the singular values of E[u v^T] in a layer, the largest first, to values[N].
static void singular_values(const struct cross *c, int layer, bool centred, double *values)
{
    const int64_t n = c->count;
    double *r = xcalloc((size_t)(3 * n * n), sizeof *r), *v = r + n * n, *a = v + n * n;
    products(c, TEXT, layer, centred, r);
    products(c, VISUAL, layer, centred, v);
    factorise(r, n);
    // a = (V V^T) R, then R^T a in place of V V^T.
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < n; k++)
            for (int64_t j = 0; j < n; j++) a[i * n + j] += v[i * n + k] * r[k * n + j];
    memset(v, 0, (size_t)(n * n) * sizeof *v);
    for (int64_t k = 0; k < n; k++)
        for (int64_t i = 0; i <= k; i++)
            for (int64_t j = 0; j < n; j++) v[i * n + j] += r[k * n + i] * a[k * n + j];
    diagonalise(v, n);
    for (int64_t i = 0; i < n; i++) values[i] = sqrt(fmax(v[i * n + i], 0)) / (double)n;
    qsort(values, (size_t)n, sizeof *values, by_size);
    free(r);
}

static void cross_finish(void *data, struct results *r)
{
    struct cross *c = data;
    double *values = xcalloc((size_t)c->count + 3, sizeof *values);
    struct result_table *t =
        c->count < 2 ? NULL
                     : results_table(r, "norms.cross",
                                     "layer|trace|largest|second|third|sum|largest, centred|"
                                     "sum, centred");
    if (t) t->curve = true;
    for (int l = 0; l < c->layers && t; l++) {
        const int64_t stride = c->layers * c->width, at = l * c->width;
        double *v = result_row(t, "%d", l);
        v[0] = v[4] = v[6] = 0;
        for (int64_t i = 0; i < c->count; i++)
            v[0] += rows_dot(c->mean[TEXT] + i * stride + at, c->mean[VISUAL] + i * stride + at,
                             c->width) /
                    (double)c->count;
        singular_values(c, l, false, values);
        v[1] = values[0], v[2] = values[1], v[3] = c->count > 2 ? values[2] : 0;
        for (int64_t i = 0; i < c->count; i++) v[4] += values[i];
        singular_values(c, l, true, values);
        v[5] = values[0];
        for (int64_t i = 0; i < c->count; i++) v[6] += values[i];
    }
    if (t)
        results_note(r, "norms.cross: singular values of E[u v^T] over the pairs of %lld prompts%s",
                     (long long)c->count, c->left_out ? ", the first ones" : "");
    free(c->mean[0]);
    free(c->mean[1]);
    free(values);
    free(c);
}

static const struct result_kind norms_results[] = {
    { "norms.layers", .unit = "L2 norm" },
    { "norms.cosines", .unit = "cosine between layers l-1 and l" },
    { "norms.alignment", .unit = "cosine of visual and text tokens" },
    { "norms.attention", "attention logit", .columns = "text-visual logits" },
    { "norms.attention", "product of inputs",
      .columns = "input products|input products, all pairs|singular value" },
    { "norms.cross", "product of inputs", .columns = "trace|largest|largest, centred" },
    { "norms.cross", "product of inputs", .columns = "second|third|sum|sum, centred" },
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
        "norms before and after the projector, and T*, the mean norm of the text embedding\n"
        "table); norms and cosines by layer; measured norms against the theory of norm alignment;\n"
        "the theory's assumptions (C and phi of each modality, with deviations over tokens);\n"
        "alignment of the modalities; attention logits between the modalities, and the largest\n"
        "singular value of the cross-covariance E[u v^T] of their normalised inputs (with --data,\n"
        "over the pairs of up to 128 prompts, the three largest and the sum of all; of\n"
        "E[u v^T] - E[u] E[v]^T, the largest and the sum).\n"
        "With FOLDER, shows only the interface of the model in that folder, which may contain\n"
        "only an embedding table or an encoder; an encoder in FOLDER encodes the conversation's\n"
        "pictures." PROBE_DETAILS,
    .folder = interface_folder,
    .encoder = true,
    .results = norms_results,
    .start = norms_start,
    .release = norms_release,
    .wants = norms_wants,
    .run = norms_run,
    .finish = norms_finish,
    .data_start = cross_start,
    .data_add = cross_add,
    .data_finish = cross_finish,
};
