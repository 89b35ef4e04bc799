// core/probes/calibration_lens.c -- the calibration `lens`: for each layer, the affine map from its
// output to the output of the last layer, for /lens --tuned (a tuned lens, Belrose et al. 2023,
// arXiv 2303.08112, fitted by least squares instead of by the loss).
//
//   h[L] ~ h + B h + b        h: the output of a layer
//
// B minimises the squared error over the rows of both modalities plus a ridge of 0.1% of each
// dimension's variance, so that rarely active dimensions do not dominate. At the last layer B and b
// are 0.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/methods/calibration.h"
#include "core/methods/kit.h"
#include "core/probes/kit.h"

static const char *const words[] = { "none", NULL };

static int check_calibration(struct setting_env *env, struct err *err)
{
    struct calibration c;
    if (!env->model) return 0;
    if (calibration_of_setting(&c, env->settings, "lens.calibration", env->model, err) < 0)
        return -1;
    if (!c.file) return 0;
    const struct decoder_config *d = &env->model->decoder.config;
    float *bias = calibration_numbers(&c, "lens.bias", 2, (int64_t[]){ d->layers, d->hidden }, err);
    calibration_close(&c);
    free(bias);
    return bias ? 0 : -1;
}

const struct setting lens_settings[] = {
    { .key = "lens.calibration",
      .type = SETTING_PATH,
      .def = "none",
      .choices = words,
      .stale = STALE_MEASURED,
      .help = "Calibration file written by /calibrate lens, with the maps of /lens --tuned.",
      .check = check_calibration },
    { 0 },
};

// Sums over rows: x, delta = h[L] - x, x x^T, x delta^T, |delta|^2, and the number of rows.
enum { X, DELTA, XX, XD, DD, ROWS };
enum { BIAS, UPDATE, LEFT };

// Adds x [D,m] d[D,m]^T to sum [D,D].
static void add_product(double *sum, float *x, float *d, int64_t width, int64_t m)
{
    float *y = xreallocarray(NULL, (size_t)(width * width), sizeof *y);
    const struct tensor a = { .data = x, .dtype = DTYPE_F32, .rank = 2, .shape = { width, m } };
    const struct tensor b = { .data = d, .dtype = DTYPE_F32, .rank = 2, .shape = { width, m } };
    struct tensor to = { .data = y, .dtype = DTYPE_F32, .rank = 2, .shape = { width, width } };
    if (backend_cpu()->matmul(&to, &a, &b, NULL, MATMUL_F32) == 0)
        for (int64_t i = 0; i < width * width; i++) sum[i] += (double)y[i];
    free(y);
}

// Adds the rows that both the layer and the last one computed; s->rows has n rows of each layer.
// Visual and text rows have the same total weight, even if a prompt has many more visual ones.
static void add_layer(struct calibration_sums *s, int64_t layer, const struct sequence *q)
{
    const int64_t width = s->width, n = q->n;
    const bool *there = s->there + layer * n, *reached = s->there + (s->layers - 1) * n;
    int64_t count[2] = { 0 };
    for (int64_t i = 0; i < n; i++) count[q->picture[i] >= 0] += there[i] && reached[i];
    const int64_t m = count[0] + count[1];
    float *x = xreallocarray(NULL, (size_t)(width * m) + 1, sizeof *x); // [D,m]
    float *d = xreallocarray(NULL, (size_t)(width * m) + 1, sizeof *d);
    for (int64_t i = 0, at = 0; i < n; i++) {
        if (!there[i] || !reached[i]) continue;
        const float *h = s->rows + (layer * n + i) * width;
        const float *y = s->rows + ((s->layers - 1) * n + i) * width;
        const double weight =
            count[0] && count[1] ? (double)m / (double)(2 * count[q->picture[i] >= 0]) : 1;
        const float root = (float)sqrt(weight);
        for (int64_t k = 0; k < width; k++) {
            const float delta = y[k] - h[k];
            x[k * m + at] = root * h[k];
            d[k * m + at] = root * delta;
            s->part[X][layer * width + k] += weight * (double)h[k];
            s->part[DELTA][layer * width + k] += weight * (double)delta;
            s->part[DD][layer] += weight * (double)delta * (double)delta;
        }
        at++;
    }
    if (m) add_product(s->part[XX] + layer * width * width, x, x, width, m);
    if (m) add_product(s->part[XD] + layer * width * width, x, d, width, m);
    s->part[ROWS][layer] += (double)m; // the sum of the weights
    free(x);
    free(d);
}

// Keeps the layers' outputs until the last layer's has arrived.
static int lens_take(void *self, const struct site *site, const struct site_args *args,
                     struct err *err)
{
    struct calibration_sums *s = self;
    const int64_t n = site_sequence(args)->n;
    const int64_t layer = site == SITE_FINAL ? s->layers - 1 : args->layer - 1;
    const float *h = args->x->data; // [N,D]
    calibration_rows(s, s->layers * n);
    if (layer < 0) memset(s->there, 0, (size_t)s->capacity * sizeof *s->there);
    for (int64_t i = 0; i < args->x->shape[0] && layer >= 0; i++) {
        const int64_t row = layer * n + site_row(args, i);
        memcpy(s->rows + row * s->width, h + i * s->width, (size_t)s->width * sizeof *h);
        s->there[row] = true;
    }
    for (int64_t l = 0; l + 1 < s->layers && site == SITE_FINAL; l++)
        add_layer(s, l, site_sequence(args));
    return 0;
}

// --- the fit -------------------------------------------------------------------------------------

// Factors the symmetric a [D,D] = R R^T in place (Cholesky: the lower triangle becomes R).
static void factor(double *a, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            double sum = a[i * n + j];
            for (int64_t k = 0; k < j; k++) sum -= a[i * n + k] * a[j * n + k];
            a[i * n + j] = i == j ? sqrt(fmax(sum, 1e-30)) : sum / a[j * n + j];
        }
}

// Solves R R^T w = c for all columns of c [D,D], in place.
static void solve(const double *r, double *c, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = 0; k < i; k++)
            for (int64_t e = 0; e < n; e++) c[i * n + e] -= r[i * n + k] * c[k * n + e];
        for (int64_t e = 0; e < n; e++) c[i * n + e] /= r[i * n + i];
    }
    for (int64_t i = n; i-- > 0;) {
        for (int64_t k = i + 1; k < n; k++)
            for (int64_t e = 0; e < n; e++) c[i * n + e] -= r[k * n + i] * c[k * n + e];
        for (int64_t e = 0; e < n; e++) c[i * n + e] /= r[i * n + i];
    }
}

// Computes a layer's map from its covariances.
static void fit(const struct calibration_sums *s, int64_t layer, float *const *results)
{
    const int64_t D = s->width, square = D * D;
    const double n = s->part[ROWS][layer], *x = s->part[X] + layer * D,
                 *delta = s->part[DELTA] + layer * D;
    double *a = xreallocarray(NULL, (size_t)square, sizeof *a); // cov(x), then its factor
    double *w = xreallocarray(NULL, (size_t)square, sizeof *w); // cov(x, delta), then B^T
    double *ridge = xcalloc((size_t)D, sizeof *ridge);
    double all = s->part[DD][layer] / n, left = all;
    for (int64_t i = 0; i < D; i++)
        for (int64_t k = 0; k < D; k++) {
            a[i * D + k] = s->part[XX][layer * square + i * D + k] / n - x[i] / n * (x[k] / n);
            w[i * D + k] = s->part[XD][layer * square + i * D + k] / n - x[i] / n * (delta[k] / n);
        }
    double *cov = xreallocarray(NULL, (size_t)square, sizeof *cov);
    memcpy(cov, w, (size_t)square * sizeof *cov);
    for (int64_t i = 0; i < D; i++) {
        ridge[i] = 1e-3 * fmax(a[i * D + i], 0) + 1e-20;
        a[i * D + i] += ridge[i];
    }
    factor(a, D);
    solve(a, w, D);
    for (int64_t k = 0; k < D; k++) {
        double bias = delta[k] / n;
        left -= bias * bias;
        for (int64_t i = 0; i < D; i++) {
            results[UPDATE][layer * square + k * D + i] = (float)w[i * D + k];
            bias -= w[i * D + k] * (x[i] / n);
            left -= w[i * D + k] * (cov[i * D + k] + ridge[i] * w[i * D + k]);
        }
        results[BIAS][layer * D + k] = (float)bias;
    }
    results[LEFT][layer] = all > 0 ? (float)(fmax(left, 0) / all) : 0;
    free(cov);
    free(ridge);
    free(w);
    free(a);
}

static void lens_compute(const struct calibration_sums *s, float *const *results)
{
    for (int64_t l = 0; l + 1 < s->layers; l++)
        if (s->part[ROWS][l] > 0) fit(s, l, results);
}

static bool lens_valid(const struct calibration_sums *s)
{
    for (int64_t l = 0; l < s->layers; l++) {
        const double n = s->part[ROWS][l];
        if (!(n >= 0 && n <= (double)CALIBRATION_MOST && s->part[DD][l] >= 0)) return false;
    }
    return true;
}

static void lens_show(const struct calibration_sums *s, float *const *results, int64_t layer,
                      struct table_builder *b)
{
    table_add(b, results[LEFT] ? "%.4g" : "-", results[LEFT] ? (double)results[LEFT][layer] : 0);
}

static const struct calibration_tensor lens_results[] = {
    { "lens.bias", { OF_LAYERS, OF_WIDTH } },
    { "lens.update", { OF_LAYERS, OF_WIDTH, OF_WIDTH } }, // B
    { "lens.left", { OF_LAYERS } }, // share of the squared distance that remains
    { 0 },
};
static const struct calibration_tensor lens_sums[] = {
    { "lens.sum_x", { OF_LAYERS, OF_WIDTH } },
    { "lens.sum_delta", { OF_LAYERS, OF_WIDTH } },
    { "lens.sum_xx", { OF_LAYERS, OF_WIDTH, OF_WIDTH } },
    { "lens.sum_xdelta", { OF_LAYERS, OF_WIDTH, OF_WIDTH } },
    { "lens.sum_dd", { OF_LAYERS } },
    { "lens.rows", { OF_LAYERS } },
    { 0 },
};
static const struct result_kind lens_units[] = {
    { "calibration", .unit = "share of squared distance", .columns = "distance left" },
    { 0 },
};

const struct calibration_kind calibration_kind_lens = {
    .name = "lens",
    .prefix = "lens.",
    .help = "affine maps from each layer's output to the last one's, for /lens --tuned",
    .results = lens_results,
    .sums = lens_sums,
    .sites = { SITE_LAYER_IN, SITE_FINAL },
    .take = lens_take,
    .compute = lens_compute,
    .valid = lens_valid,
    .columns = "layer#|distance left#",
    .show = lens_show,
    .units = lens_units,
};
