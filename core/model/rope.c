// core/model/rope.c -- rotary frequencies, the table of their scalings, and the angles of a pass.
//
// Pair i is rotated by position * f[i], f[i] = theta^(-2i/d). The llama3 scaling stretches slow
// pairs: with w = 2 pi / f the wavelength and o the original context length,
//
//   w < o/high           f stays
//   w > o/low            f / factor
//   between              (1-s) f/factor + s f,   s = (o/w - low) / (high - low)
//
// yarn (Peng et al. 2023, arXiv 2309.00071, section 3) blends by the pair's index instead, between
// the pairs that turn beta_fast and beta_slow times in the original context. It also scales queries
// and keys: cos and sin are multiplied by 0.1 ln factor + 1, or by "attention_factor".
//
// Frequencies and angles are rounded to float where the reference implementation rounds them;
// without that, results differ visibly at position 8000.
#include "core/model/rope.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/ops/ops.h"
#include "core/template/sequence.h"

// Returns the number of rotated elements of a head; share 0, in structs filled by hand, means 1.
int64_t rope_rotated(const struct rope_config *r)
{
    return r->share > 0 ? (int64_t)((double)r->dim * r->share) : r->dim;
}

// Reads a positive number; `otherwise` NAN: the key is required.
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

static int read_sections(struct rope_config *r, const cJSON *scaling, struct err *err)
{
    const cJSON *list = json_get(scaling, "mrope_section");
    if (!list && r->rotary->alternating) {
        memcpy(r->section, r->rotary->section, sizeof r->section);
        return 0;
    }
    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != 3)
        return err_set(err, "\"mrope_section\" must be a list of three numbers");
    for (int axis = 0; axis < 3; axis++) {
        const cJSON *item = cJSON_GetArrayItem(list, axis);
        r->section[axis] = json_whole(item, -1);
        if (r->section[axis] < 0 || r->section[axis] > 10000)
            return err_set(err, "\"mrope_section\" must be a list of three whole numbers");
    }
    return 0;
}

// Reads llama3 scaling as GGUF files store it: as divisors.
static int read_divisors(struct rope_config *r, const cJSON *scaling, struct err *err)
{
    const cJSON *list = json_get(scaling, "divisors"), *item;
    cJSON_ArrayForEach(item, list)
    {
        if (r->divisor_count == ROPE_DIVISORS)
            return err_set(err, "more than %d divisors of rotary frequencies", ROPE_DIVISORS);
        if (!cJSON_IsNumber(item) || !(item->valuedouble > 0))
            return err_set(err, "divisors of rotary frequencies must be greater than 0");
        r->divisors[r->divisor_count++] = item->valuedouble;
    }
    return r->divisor_count ? 0 : err_set(err, "\"divisors\" is missing");
}

static double divided_frequency(const struct rope_config *r, int64_t pair, double f)
{
    return f / r->divisors[pair];
}

// Returns the factor by which yarn scales queries and keys when the context grows by `factor`.
static double yarn_gain(double factor, double share)
{
    return factor > 1 ? 0.1 * share * log(factor) + 1 : 1;
}

// Returns the index of the pair that makes `turns` turns in the original context.
static double yarn_pair(const struct rope_config *r, double turns)
{
    return (double)rope_rotated(r) * log(r->original_positions / (turns * 2 * M_PI)) /
           (2 * log(r->theta));
}

// DeepSeek's configs set the `share` of yarn_gain: "mscale" for rotated elements,
// "mscale_all_dim" for the scores of whole heads.
static int read_yarn(struct rope_config *r, const cJSON *scaling, struct err *err)
{
    double share;
    bool whole;
    if (read_positive(scaling, "factor", NAN, &r->factor, err) < 0 ||
        read_positive(scaling, "original_max_position_embeddings",
                      r->original_positions > 0 ? r->original_positions : NAN,
                      &r->original_positions, err) < 0 ||
        read_positive(scaling, "beta_fast", 32, &r->beta_fast, err) < 0 ||
        read_positive(scaling, "beta_slow", 1, &r->beta_slow, err) < 0 ||
        json_real(scaling, "mscale", 0, &share, err) < 0 ||
        json_real(scaling, "mscale_all_dim", 0, &r->all_share, err) < 0 ||
        json_bool(scaling, "truncate", true, &whole, err) < 0)
        return -1;
    if (r->theta <= 1) return err_set(err, "\"rope_theta\" must be greater than 1 for yarn");
    r->fractional = !whole;
    r->amplitude = yarn_gain(r->factor, 1);
    if (share != 0 && r->all_share != 0)
        r->amplitude = yarn_gain(r->factor, share) / yarn_gain(r->factor, r->all_share);
    return read_positive(scaling, "attention_factor", r->amplitude, &r->amplitude, err);
}

static double yarn_frequency(const struct rope_config *r, int64_t pair, double f)
{
    double from = yarn_pair(r, r->beta_fast), to = yarn_pair(r, r->beta_slow);
    if (!r->fractional) {
        from = floor(from);
        to = ceil(to);
    }
    from = fmax(from, 0);
    to = fmin(to, (double)rope_rotated(r) - 1);
    if (from == to) to += 0.001;
    const double s = fmin(fmax(((double)pair - from) / (to - from), 0), 1);
    return s * f / r->factor + (1 - s) * f;
}

static double llama3_frequency(const struct rope_config *r, int64_t pair, double f)
{
    double wavelength = 2 * M_PI / f;
    if (wavelength < r->original_positions / r->high_freq_factor) return f;
    if (wavelength > r->original_positions / r->low_freq_factor) return f / r->factor;
    double s = (r->original_positions / wavelength - r->low_freq_factor) /
               (r->high_freq_factor - r->low_freq_factor);
    return (1 - s) * f / r->factor + s * f;
}

static double linear_frequency(const struct rope_config *r, int64_t pair, double f)
{
    return f / r->factor;
}

// Reads proportional scaling: only the first pairs rotate, by their frequencies among all pairs of
// a head.
static int read_proportional(struct rope_config *r, const cJSON *scaling, struct err *err)
{
    if (read_positive(scaling, "factor", 1, &r->factor, err) < 0 ||
        json_real(scaling, "partial_rotary_factor", scaling ? 1 : 0.25, &r->turning, err) < 0)
        return -1;
    return r->turning >= 0 && r->turning <= 1
               ? 0
               : err_set(err, "\"partial_rotary_factor\" must be within 0..1");
}

static double proportional_frequency(const struct rope_config *r, int64_t pair, double f)
{
    const int64_t turning = (int64_t)floor(r->turning * (double)r->dim / 2);
    return pair < turning ? f / r->factor : 0;
}

struct rope_scaling {
    const char *name;
    int (*read)(struct rope_config *r, const cJSON *scaling,
                struct err *err); // NULL: no parameters
    // Scales the frequency f of a pair; NULL: unscaled.
    double (*frequency)(const struct rope_config *r, int64_t pair, double f);
    bool bounded; // supported up to max_position_embeddings only
    bool partial; // reads "partial_rotary_factor" itself
};

static const struct rope_scaling scalings[] = {
    { .name = "default" },
    { .name = "linear", .read = read_linear, .frequency = linear_frequency },
    { .name = "llama3", .read = read_llama3, .frequency = llama3_frequency },
    { .name = "yarn", .read = read_yarn, .frequency = yarn_frequency },
    { .name = "dynamic", .bounded = true },
    { .name = "proportional",
      .read = read_proportional,
      .frequency = proportional_frequency,
      .partial = true },
    { .name = "divisors", .read = read_divisors, .frequency = divided_frequency },
    { .name = "mrope" }, // unscaled: only announces multimodal sections
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

// Reads the base under this key, and the scaling, which may have a base of its own.
static int read_config(struct rope_config *r, const struct rotary_kind *rotary, const cJSON *json,
                       const cJSON *scaling, const char *key, double theta, const char *usual,
                       struct err *err)
{
    const bool own = json_get(scaling, "rope_theta");
    if (scaling && !cJSON_IsObject(scaling))
        return err_set(err, "\"rope_scaling\" must be an object or null");

    const char *type;
    *r = (struct rope_config){ .rotary = rotary };
    if (read_positive(own ? scaling : json, own ? "rope_theta" : key, theta, &r->theta, err) < 0 ||
        json_text(scaling, "type", scaling || !usual ? "default" : usual, &type, err) < 0 ||
        json_text(scaling, "rope_type", type, &type, err) < 0 ||
        json_real(json_get(scaling, "partial_rotary_factor") ? scaling : json,
                  "partial_rotary_factor", rotary->share > 0 ? rotary->share : 1, &r->share,
                  err) < 0)
        return -1;
    if (find_scaling(r, type, err) < 0 ||
        json_real(json, "max_position_embeddings", 0, &r->original_positions, err) < 0)
        return -1;
    if (r->scaling->partial) r->share = 1;
    const bool parts = rotary->interleaved || rotary->share > 0;
    if (r->share != 1 && !(parts && r->share > 0 && r->share < 1))
        return err_set(err, "\"partial_rotary_factor\" %g is not supported", r->share);
    if (rotary->multimodal && read_sections(r, scaling, err) < 0) return -1;
    if (r->scaling->read && r->scaling->read(r, scaling, err) < 0) return -1;
    if (json_real(scaling, "llama_4_scaling_beta", 0, &r->query_beta, err) < 0) return -1;
    if (rotary->scales_queries && !json_get(scaling, "llama_4_scaling_beta"))
        return err_set(err, "\"rope_parameters\" has no \"llama_4_scaling_beta\"");
    if (r->query_beta == 0) return 0;
    return read_positive(scaling, "original_max_position_embeddings", NAN, &r->original_positions,
                         err);
}

// transformers 5 keeps everything in rope_parameters, with one object for each layer type if the
// types differ. Older files have rope_theta and rope_scaling; rope_scaling takes precedence over
// rope_parameters.
int rope_config_read(struct rope_config *r, const struct rotary_kind *rotary, const cJSON *json,
                     double theta, struct err *err)
{
    const cJSON *scaling = json_get(json, "rope_scaling");
    if (!scaling || (cJSON_IsObject(scaling) && !scaling->child))
        scaling = json_get(json, "rope_parameters");
    const cJSON *full = json_get(scaling, "full_attention");
    return read_config(r, rotary, json, full ? full : scaling, "rope_theta", theta, rotary->usual,
                       err);
}

int rope_config_read_sliding(struct rope_config *r, const struct rotary_kind *rotary,
                             const cJSON *json, struct err *err)
{
    const cJSON *sliding = json_get(json_get(json, "rope_parameters"), "sliding_attention");
    return read_config(r, rotary, json, sliding, "rope_local_base_freq", 10000, NULL, err);
}

int rope_config_check(const struct rope_config *r, struct err *err)
{
    const int64_t sum = r->section[0] + r->section[1] + r->section[2];
    if (rope_rotated(r) % 2 || r->dim % 2)
        return err_set(err, "heads cannot be rotated: %lld of %lld elements, but both must be even",
                       (long long)rope_rotated(r), (long long)r->dim);
    if (r->divisor_count && r->divisor_count != r->dim / 2)
        return err_set(err, "%d divisors of rotary frequencies for %lld pairs", r->divisor_count,
                       (long long)r->dim / 2);
    if (!r->rotary->multimodal || sum == rope_rotated(r) / 2) return 0;
    return err_set(err, "\"mrope_section\": %lld pairs, but %lld are rotated", (long long)sum,
                   (long long)rope_rotated(r) / 2);
}

const char *rope_scaling_name(const struct rope_config *r)
{
    return r->scaling ? r->scaling->name : "default";
}

double rope_amplitude(const struct rope_config *r)
{
    return r->amplitude > 0 ? r->amplitude : 1;
}

double rope_score_gain(const struct rope_config *r)
{
    const double gain = r->all_share != 0 ? yarn_gain(r->factor, r->all_share) : 1;
    return gain * gain;
}

bool rope_query_factors(const struct rope_config *r, const struct sequence *s, const int32_t *row,
                        int64_t n, float *factor)
{
    bool any = false;
    for (int64_t i = 0; i < n; i++) {
        const double position = (double)s->positions[row ? row[i] : s->n - n + i];
        factor[i] = 1;
        if (r->query_beta == 0 || position < r->original_positions) continue;
        const float steps = (float)log(1 + floor(position / r->original_positions));
        factor[i] = 1 + (float)r->query_beta * steps;
        any = true;
    }
    return any;
}

bool rope_bounded(const struct rope_config *r)
{
    return r->scaling && r->scaling->bounded;
}

void rope_frequencies(const struct rope_config *r, float *frequency)
{
    const int64_t wide = rope_rotated(r);
    for (int64_t i = 0; i < r->dim / 2; i++) {
        double f = i < wide / 2 ? pow(r->theta, -2.0 * (double)i / (double)wide) : 0;
        if (r->scaling && r->scaling->frequency) f = r->scaling->frequency(r, i, f);
        frequency[i] = (float)f;
    }
}

const struct rotary_kind rotary_plain = { 0 };
const struct rotary_kind rotary_proportional = { .usual = "proportional" };
const struct rotary_kind rotary_interleaved = { .interleaved = true, .share = 0.5 };
const struct rotary_kind rotary_scaled_queries = { .scales_queries = true };
const struct rotary_kind rotary_multimodal = { .multimodal = true };
const struct rotary_kind rotary_multimodal_interleaved = { .interleaved = true,
                                                           .multimodal = true };
const struct rotary_kind rotary_half = { .share = 0.5 };
const struct rotary_kind rotary_multimodal_half = { .share = 0.5, .multimodal = true };
const struct rotary_kind rotary_multimodal_alternating = { .multimodal = true,
                                                           .alternating = true,
                                                           .section = { 24, 20, 20 } };
const struct rotary_kind rotary_multimodal_part = {
    .share = 0.25, .multimodal = true, .alternating = true, .section = { 11, 11, 10 }
};

int64_t rope_adjacent(const struct rope_config *r)
{
    return r->rotary->interleaved ? rope_rotated(r) / 2 : 0;
}

struct tensor *rope_arrange(struct graph *g, const struct rope_config *r, struct tensor *x)
{
    const bool adjacent = r->rotary->interleaved;
    if (!x || !graph_ok(g) || (!adjacent && rope_rotated(r) == r->dim)) return x;
    const int64_t n = x->shape[0], heads = x->shape[1], d = x->shape[2];
    const int64_t pairs = rope_rotated(r) / 2, rest = d / 2 - pairs, step = adjacent ? 2 : 1;
    x = graph_view(g, x, 2, (int64_t[]){ n * heads, d });
    struct column_part part[4] = { { x, { 0, step, pairs } },
                                   { x, { adjacent ? 1 : pairs, step, pairs } } };
    int count = 2;
    if (rest) {
        part[2] = part[1];
        part[1] = (struct column_part){ x, { 2 * pairs, 1, rest } };
        part[3] = (struct column_part){ x, { 2 * pairs + rest, 1, rest } };
        count = 4;
    }
    return graph_view3(g, op_columns_of(g, n * heads, part, count), n, heads, d);
}

// Returns the axis of positions that rotates pair j: 0 time, 1 row, 2 column.
static int axis_of(const struct rope_config *r, int64_t j)
{
    if (r->rotary->alternating) {
        const int axis = (int)(j % 3);
        return j < 3 * r->section[axis] ? axis : 0;
    }
    return j < r->section[0] ? 0 : j < r->section[0] + r->section[1] ? 1 : 2;
}

void rope_angles_host(const struct rope_config *r, const struct sequence *s, const int32_t *row,
                      int64_t n, float *cos_out, float *sin_out)
{
    if (r->rotary->angles) {
        r->rotary->angles(r, s, row, n, cos_out, sin_out);
        return;
    }
    const int64_t half = r->dim / 2, rotated = rope_rotated(r) / 2;
    const bool sections = r->rotary->multimodal && s->axes == 3; // plain text has one axis
    float *frequency = xreallocarray(NULL, (size_t)half, sizeof *frequency);
    rope_frequencies(r, frequency);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < half; j++) {
            const int axis = sections ? axis_of(r, j) : 0;
            const int32_t *positions = s->positions + axis * s->n;
            const float angle = (float)positions[row ? row[i] : s->n - n + i] * frequency[j];
            const float amplitude = j < rotated ? (float)rope_amplitude(r) : 1;
            cos_out[i * half + j] = (float)cos((double)angle) * amplitude;
            sin_out[i * half + j] = (float)sin((double)angle) * amplitude;
        }
    free(frequency);
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

struct tensor *rope_part(struct graph *g, const struct rope_config *r, struct tensor *x,
                         struct tensor *cos, struct tensor *sin)
{
    if (!x || !graph_ok(g)) return NULL;
    const int64_t n = x->shape[0], heads = x->shape[1], d = x->shape[2], rows = n * heads;
    const int64_t end = r->first + r->dim;
    if (r->dim == d) return op_rope(g, x, cos, sin);
    x = graph_view(g, x, 2, (int64_t[]){ rows, d });
    struct tensor *part =
        op_columns_of(g, rows, &(struct column_part){ x, { r->first, 1, r->dim } }, 1);
    if (part) part = op_rope(g, graph_view3(g, part, n, heads, r->dim), cos, sin);
    if (part) part = graph_view(g, part, 2, (int64_t[]){ rows, r->dim });
    struct column_part all[3];
    int count = 0;
    if (r->first) all[count++] = (struct column_part){ x, { 0, 1, r->first } };
    all[count++] = (struct column_part){ part, { 0, 1, r->dim } };
    if (end < d) all[count++] = (struct column_part){ x, { end, 1, d - end } };
    x = op_columns_of(g, rows, all, count);
    return x ? graph_view3(g, x, n, heads, d) : NULL;
}
