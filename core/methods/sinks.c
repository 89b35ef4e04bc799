// core/methods/sinks.c -- attention sinks: their values, dimensions and kinds.
#include "core/methods/sinks.h"

#include <math.h>
#include <stdlib.h>

#include "core/methods/calibration.h"
#include "core/methods/kit.h"

static const char *const word_auto[] = { "auto", NULL }, *const word_none[] = { "none", NULL };

static int check_calibration(struct setting_env *env, struct err *err)
{
    float *dims = NULL;
    const int status = env->model ? sinks_calibrated(env->settings, env->model, &dims, err) : 0;
    free(dims);
    return status;
}

const struct setting sinks_settings[] = {
    { .key = "sinks.tau",
      .type = SETTING_REAL,
      .max = 1e9,
      .def = "auto",
      .choices = word_auto,
      .stale = STALE_MEASURED,
      .help = "Attention sink threshold on a token's largest normalised sink dimension; auto is "
              "20, lower for narrow models." },
    { .key = "sinks.calibration",
      .type = SETTING_PATH,
      .def = "none",
      .choices = word_none,
      .stale = STALE_MEASURED,
      .help = "Calibration file written by /calibrate sinks, with the sink dimensions; none uses "
              "the two largest dimensions of the first token.",
      .check = check_calibration },
    { 0 },
};

double sinks_tau(const struct settings *s, int64_t width)
{
    if (!settings_is(s, "sinks.tau", "auto")) return settings_real(s, "sinks.tau");
    return width >= 1024 ? 20 : 20 * sqrt((double)width / 4096);
}

double sinks_phi(const float *h, int64_t width, double eps, const int *dims, int count)
{
    double most = 0;
    for (int i = 0; i < count; i++) most = fmax(most, fabs((double)h[dims[i]]));
    return most / method_rms(h, width, eps);
}

void sinks_top(const float *h, int64_t width, int dims[2])
{
    int first = 0, second = -1;
    for (int k = 1; k < (int)width; k++)
        if (fabsf(h[k]) > fabsf(h[first])) {
            second = first;
            first = k;
        } else if (second < 0 || fabsf(h[k]) > fabsf(h[second])) {
            second = k;
        }
    if (second < 0) second = first;
    dims[0] = first < second ? first : second;
    dims[1] = first < second ? second : first;
}

int sinks_calibrated(const struct settings *settings, const struct model *m, float **dims,
                     struct err *err)
{
    const int64_t shape[] = { m->decoder.config.layers, 2 };
    struct calibration c;
    *dims = NULL;
    if (calibration_of_setting(&c, settings, "sinks.calibration", m, err) < 0) return -1;
    if (!c.file) return 0;
    *dims =
        calibration_indices(&c, "sinks.dims", 2, shape, m->decoder.config.hidden, "dimension", err);
    calibration_close(&c);
    return *dims ? 0 : -1;
}

// --- kinds ---------------------------------------------------------------------------------------

double sinks_split(const struct sink_token *tokens, size_t count, int picture, double tau)
{
    double *logs = xreallocarray(NULL, count + 1, sizeof *logs);
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        if (tokens[i].picture == picture && tokens[i].phi > tau && tokens[i].contribution > 0)
            logs[n++] = log(tokens[i].contribution);
    const double split = otsu_split(logs, n);
    free(logs);
    return exp(split);
}

enum sink_kind sinks_kind(const struct sink_token *t, double split, double tau)
{
    if (!(t->phi > tau) || t->picture < 0 || isnan(split)) return SINK_UNTYPED;
    return t->contribution > split ? SINK_ANCHOR : SINK_DUMP;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double otsu_split(const double *x, size_t n)
{
    double *list = xreallocarray(NULL, n + 1, sizeof *list);
    double total = 0, below = 0, best = 0, split = NAN;
    for (size_t i = 0; i < n; i++) total += list[i] = x[i];
    qsort(list, n, sizeof *list, by_value);
    for (size_t i = 1; i < n; i++) {
        below += list[i - 1];
        if (list[i] == list[i - 1]) continue;
        const double low = below / (double)i, high = (total - below) / (double)(n - i);
        const double between = (double)i * (double)(n - i) * (high - low) * (high - low);
        if (between <= best) continue;
        best = between;
        split = (list[i - 1] + list[i]) / 2;
    }
    free(list);
    return split;
}
