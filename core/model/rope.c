// core/model/rope.c -- rotary frequencies, the table of their scalings, and the angles of a pass.
//
// Pair i is rotated by position * f[i], f[i] = theta^(-2i/d). The llama3 scaling stretches slow
// pairs: with w = 2 pi / f the wavelength and o the original context length,
//
//   w < o/high           f stays
//   w > o/low            f / factor
//   between              (1-s) f/factor + s f,   s = (o/w - low) / (high - low)
//
// Frequencies and angles are rounded to float where the reference rounds them: otherwise results
// would differ visibly at position 8000.
#include "core/model/rope.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

// A positive number; `required` ones have no default.
static int read_positive(const cJSON *json, const char *key, double otherwise, double *value,
                         struct err *err)
{
    if (json_real(json, key, otherwise, value, err) < 0) return -1;
    if (isnan(*value)) return err_set(err, "\"%s\" is missing", key);
    if (*value <= 0) return err_set(err, "\"%s\" must be greater than 0", key);
    return 0;
}

static int read_llama3(struct rope_config *r, const cJSON *scaling, struct err *err)
{
    if (read_positive(scaling, "factor", NAN, &r->factor, err) < 0 ||
        read_positive(scaling, "low_freq_factor", NAN, &r->low_freq_factor, err) < 0 ||
        read_positive(scaling, "high_freq_factor", NAN, &r->high_freq_factor, err) < 0 ||
        read_positive(scaling, "original_max_position_embeddings", NAN, &r->original_positions,
                      err) < 0)
        return -1;
    if (r->high_freq_factor <= r->low_freq_factor)
        return err_set(err, "\"high_freq_factor\" must be greater than \"low_freq_factor\"");
    return 0;
}

static int read_linear(struct rope_config *r, const cJSON *scaling, struct err *err)
{
    return read_positive(scaling, "factor", NAN, &r->factor, err);
}

static double llama3_frequency(const struct rope_config *r, double f)
{
    double wavelength = 2 * M_PI / f;
    if (wavelength < r->original_positions / r->high_freq_factor) return f;
    if (wavelength > r->original_positions / r->low_freq_factor) return f / r->factor;
    double s = (r->original_positions / wavelength - r->low_freq_factor) /
               (r->high_freq_factor - r->low_freq_factor);
    return (1 - s) * f / r->factor + s * f;
}

static double linear_frequency(const struct rope_config *r, double f)
{
    return f / r->factor;
}

struct rope_scaling {
    const char *name;
    int (*read)(struct rope_config *r, const cJSON *scaling, struct err *err); // NULL: no numbers
    double (*frequency)(const struct rope_config *r, double f); // of plain f; NULL: stays
    bool bounded; // not known beyond max_position_embeddings
};

static const struct rope_scaling scalings[] = {
    { .name = "default" },
    { .name = "linear", .read = read_linear, .frequency = linear_frequency },
    { .name = "llama3", .read = read_llama3, .frequency = llama3_frequency },
    { .name = "dynamic", .bounded = true },
};

static int find_scaling(struct rope_config *r, const char *name, struct err *err)
{
    struct buf known = { 0 };
    for (size_t i = 0; i < sizeof scalings / sizeof *scalings; i++) {
        if (!strcmp(scalings[i].name, name)) r->scaling = &scalings[i];
        buf_printf(&known, "%s%s", i ? ", " : "", scalings[i].name);
    }
    if (!r->scaling)
        err_set(err, "rope scaling \"%s\" is not supported (known: %s)", name, known.data);
    buf_release(&known);
    return r->scaling ? 0 : -1;
}

int rope_config_read(struct rope_config *r, const cJSON *json, double theta, struct err *err)
{
    // transformers 5 keeps everything in rope_parameters; older files have two keys, which go first
    // where both are.
    const cJSON *scaling = json_get(json, "rope_scaling");
    if (!scaling || (cJSON_IsObject(scaling) && !scaling->child))
        scaling = json_get(json, "rope_parameters");
    const cJSON *place = json_get(scaling, "rope_theta") ? scaling : json;
    if (scaling && !cJSON_IsObject(scaling))
        return err_set(err, "\"rope_scaling\" must be an object or null");

    const char *type;
    double share;
    *r = (struct rope_config){ 0 };
    if (read_positive(place, "rope_theta", theta, &r->theta, err) < 0 ||
        json_text(scaling, "type", "default", &type, err) < 0 ||
        json_text(scaling, "rope_type", type, &type, err) < 0 ||
        json_real(json_get(scaling, "partial_rotary_factor") ? scaling : json,
                  "partial_rotary_factor", 1, &share, err) < 0)
        return -1;
    if (share != 1) return err_set(err, "\"partial_rotary_factor\" %g is not supported", share);

    if (find_scaling(r, type, err) < 0) return -1;
    return r->scaling->read ? r->scaling->read(r, scaling, err) : 0;
}

const char *rope_scaling_name(const struct rope_config *r)
{
    return r->scaling ? r->scaling->name : "default";
}

bool rope_bounded(const struct rope_config *r)
{
    return r->scaling && r->scaling->bounded;
}

void rope_frequencies(const struct rope_config *r, float *frequency)
{
    for (int64_t i = 0; i < r->dim / 2; i++) {
        double f = pow(r->theta, -2.0 * (double)i / (double)r->dim);
        if (r->scaling && r->scaling->frequency) f = r->scaling->frequency(r, f);
        frequency[i] = (float)f;
    }
}

static void plain_angles(const struct rope_config *r, const struct sequence *s, const int32_t *row,
                         int64_t n, float *cos_out, float *sin_out)
{
    int64_t half = r->dim / 2;
    float *frequency = xreallocarray(NULL, (size_t)half, sizeof *frequency);
    rope_frequencies(r, frequency);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < half; j++) {
            int32_t position = s->positions[row ? row[i] : s->n - n + i];
            float angle = (float)position * frequency[j];
            cos_out[i * half + j] = (float)cos((double)angle);
            sin_out[i * half + j] = (float)sin((double)angle);
        }
    free(frequency);
}

const struct rotary_kind rotary_plain = { plain_angles };

void rope_angles_host(const struct rope_config *r, const struct sequence *s, const int32_t *row,
                      int64_t n, float *cos_out, float *sin_out)
{
    r->rotary->angles(r, s, row, n, cos_out, sin_out);
}

int rope_angles(struct graph *g, const struct rope_config *r, const struct sequence *s,
                const int32_t *row, int64_t n, struct tensor **cos_out, struct tensor **sin_out)
{
    const int64_t shape[] = { n, r->dim / 2 };
    size_t count = (size_t)n * (size_t)shape[1];
    float *angle_cos = xreallocarray(NULL, count, sizeof *angle_cos);
    float *angle_sin = xreallocarray(NULL, count, sizeof *angle_sin);
    rope_angles_host(r, s, row, n, angle_cos, angle_sin);
    *cos_out = graph_upload(g, DTYPE_F32, 2, shape, angle_cos);
    *sin_out = graph_upload(g, DTYPE_F32, 2, shape, angle_sin);
    free(angle_cos);
    free(angle_sin);
    return graph_ok(g) ? 0 : -1;
}
