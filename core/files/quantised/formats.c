// core/files/quantised/formats.c -- the table of formats of quantised folders.
//
// The tensors beside a weight decide whether it is quantised. The lists of modules in config.json
// do not: libraries match them in different ways. The layouts are those of the formats' libraries:
// compressed-tensors 0.9 and 0.20, AutoAWQ 0.2.9, AutoGPTQ 0.7.1 and GPTQModel 7.7, bitsandbytes
// 0.50, mlx-lm 0.32.
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/text.h"
#include "core/files/checkpoint.h"
#include "core/files/quantised/quantised_parts.h"

static const struct safetensor *codes_of(const struct quantised_reading *r)
{
    return r->q->part[0];
}

// --- checks --------------------------------------------------------------------------------------

__attribute__((format(printf, 2, 3))) static int refuse(const struct quantised_reading *r,
                                                        const char *format, ...)
{
    struct buf what = { 0 };
    va_list args;
    va_start(args, format);
    buf_vprintf(&what, format, args);
    va_end(args);
    err_set(r->err, "'%s' is stored in %s, which vlmsh cannot read: " QUANTISED_ADVICE,
            codes_of(r)->name, what.data);
    buf_release(&what);
    return -1;
}

static int misshapen(const struct quantised_reading *r, const struct safetensor *t)
{
    return err_set(r->err,
                   "the %s tensor '%s' does not fit '%s': do config.json and the weights belong "
                   "together?",
                   r->q->format->name, t->name, codes_of(r)->name);
}

// Returns n * factor or, on overflow, INT64_MAX, which set_size refuses as a number of columns.
static int64_t times(int64_t n, int64_t factor)
{
    int64_t product;
    return __builtin_mul_overflow(n, factor, &product) ? INT64_MAX : product;
}

// Returns whether the shape is [a, b], or [a] if b is 1.
static bool is_shape(const struct safetensor *t, int64_t a, int64_t b)
{
    if (t->rank == 1) return b == 1 && t->shape[0] == a;
    return t->rank == 2 && t->shape[0] == a && t->shape[1] == b;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

// Finds a tensor; NULL with a message if it is missing.
static const struct safetensor *need(struct quantised_reading *r, const char *suffix)
{
    const struct safetensor *t = quantised_part(r, suffix);
    if (!t)
        err_set(r->err, "'%s' has no tensor '%s%s' beside it: is the folder complete?",
                codes_of(r)->name, r->base, suffix);
    return t;
}

// Like need, for a tensor of numbers such as scales. Refuses a type other than `type` (NULL: F32,
// F16 and BF16 are allowed).
static const struct safetensor *need_numbers(struct quantised_reading *r, const char *suffix,
                                             const char *type)
{
    const struct safetensor *t = need(r, suffix);
    if (!t || (type ? !strcmp(t->type, type) : safetensor_is_float(t))) return t;
    err_set(r->err, "'%s' has type %s instead of %s, which vlmsh cannot read: " QUANTISED_ADVICE,
            t->name, t->type, type ? type : "F32, F16 or BF16");
    return NULL;
}

// Sets the size of the matrix; refuses one that is empty or too wide.
static int set_size(struct quantised_reading *r, int64_t rows, int64_t columns)
{
    r->q->rows = rows, r->q->columns = columns;
    if (rows > 0 && columns > 0 && columns <= QUANTISED_COLUMNS_MOST) return 0;
    return err_set(r->err,
                   "'%s' is a matrix of %lld x %lld numbers; at most %d columns are supported",
                   codes_of(r)->name, (long long)rows, (long long)columns, QUANTISED_COLUMNS_MOST);
}

static int set_codes(struct quantised_reading *r, int bits, enum quantised_order order,
                     int64_t step)
{
    r->q->bits = bits;
    r->q->order = order;
    r->q->step = step;
    return codes_of(r)->rank == 2 || order == FLAT ? 0 : refuse(r, "more than two dimensions");
}

static int check_bits(const struct quantised_reading *r, int64_t bits)
{
    return bits == 4 || bits == 8 ? 0 : refuse(r, "%lld bits", (long long)bits);
}

// --- levels --------------------------------------------------------------------------------------

static void levels_unsigned(struct quantised *q)
{
    q->whole = true;
    for (int i = 0; i < 256; i++) q->levels[i] = (float)i;
}

static void levels_signed(struct quantised *q)
{
    q->whole = true;
    for (int i = 0; i < 256; i++) q->levels[i] = (float)(i < 128 ? i : i - 256);
}

static void levels_fp8(struct quantised *q)
{
    for (int i = 0; i < 256; i++) q->levels[i] = quantised_e4m3((uint8_t)i);
}

// FP4 with 2 exponent bits: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives. Stores doubled
// levels, which are whole numbers, and halves the scale.
static void levels_fp4(struct quantised *q)
{
    static const float doubled[8] = { 0, 1, 2, 3, 4, 6, 8, 12 };
    q->whole = true;
    q->divisor *= 2;
    for (int i = 0; i < 16; i++) q->levels[i] = i < 8 ? doubled[i] : -doubled[i - 8];
}

// --- scales --------------------------------------------------------------------------------------

static void set_group(struct quantised *q, int64_t group)
{
    q->group = group;
    q->groups = ceil_div(q->columns, group);
}

// Reads scales [rows, groups] of groups of equal width.
static int scales_in_rows(struct quantised_reading *r, const struct safetensor *t)
{
    struct quantised *q = r->q;
    const int64_t groups = t->rank == 2 ? t->shape[1] : 1;
    if (groups < 1 || q->columns % groups || !is_shape(t, q->rows, groups)) return misshapen(r, t);
    q->scale = (struct shared){ t, groups, 1 };
    set_group(q, q->columns / groups);
    return 0;
}

static int64_t block_side(const cJSON *sides, int i)
{
    const int64_t side = json_whole(cJSON_GetArrayItem(sides, i), 128);
    return side > 0 ? side : 128;
}

// Reads scales in one of three layouts: one per block (config.json states the size of a block;
// blocks at the edges are cut); a single one; one per row or per group of a row.
static int scales_anyhow(struct quantised_reading *r, const struct safetensor *t,
                         const cJSON *sides)
{
    struct quantised *q = r->q;
    const int64_t high = block_side(sides, 0), wide = block_side(sides, 1);
    const bool grid =
        t->rank == 2 && is_shape(t, ceil_div(q->rows, high), ceil_div(q->columns, wide));
    if (sides && grid) {
        q->scale = (struct shared){ t, t->shape[1], 1 };
        q->group_rows = high;
        set_group(q, wide);
        return 0;
    }
    if (safetensor_count(t) != 1) return scales_in_rows(r, t);
    q->scale = (struct shared){ t, 0, 0 };
    set_group(q, q->columns);
    return 0;
}

// Sets the width of a group: the config's if it gives `groups` groups, else an equal part of a row.
static int set_groups(struct quantised_reading *r, int64_t groups)
{
    struct quantised *q = r->q;
    if (groups < 1) return misshapen(r, q->scale.tensor);
    if (q->named > 0 && ceil_div(q->columns, q->named) == groups)
        set_group(q, q->named);
    else if (q->columns % groups == 0)
        set_group(q, q->columns / groups);
    else
        return misshapen(r, q->scale.tensor);
    return 0;
}

// Uses the tensor g_idx, the group of each column, unless its groups are consecutive and equally
// wide, or all -1 (no groups). Refuses an index out of range.
static int read_order(struct quantised_reading *r, const struct safetensor *t)
{
    struct quantised *q = r->q;
    bool consecutive = true;
    int64_t none = 0; // columns without a group
    if (strcmp(t->type, "I32") != 0 || !is_shape(t, q->columns, 1)) return misshapen(r, t);
    for (int64_t c = 0; c < q->columns; c++) {
        int32_t g;
        memcpy(&g, (const char *)t->data + 4 * c, sizeof g);
        none += g == -1;
        consecutive &= g == c / q->group;
        if (g < -1 || g >= q->groups)
            return err_set(r->err, "'%s' puts column %lld into group %d of %lld", t->name,
                           (long long)c, g, (long long)q->groups);
    }
    if (none && none < q->columns)
        return err_set(r->err, "'%s' puts %lld of %lld columns into no group", t->name,
                       (long long)none, (long long)q->columns);
    if (!consecutive && !none) q->g_idx = t;
    return 0;
}

// --- FP8, and compressed-tensors' FP8 and INT8 ---------------------------------------------------

// Returns the block's sides from config.json: weight_block_size, or block_structure of a group of
// modules (compressed-tensors); NULL: none.
static const cJSON *block_sides(const cJSON *config)
{
    const cJSON *sides = json_get(config, "weight_block_size"), *group;
    cJSON_ArrayForEach(group, json_get(config, "config_groups"))
    {
        const cJSON *own = json_get(json_get(group, "weights"), "block_structure");
        if (!sides && cJSON_IsArray(own)) sides = own;
    }
    return cJSON_IsArray(sides) ? sides : NULL;
}

static int describe_bytes(struct quantised_reading *r, const struct safetensor *scale)
{
    const struct safetensor *codes = codes_of(r);
    const cJSON *sides = block_sides(r->config);
    if (!scale || set_codes(r, 8, ALONG_ROWS, codes->shape[1]) < 0 ||
        set_size(r, codes->shape[0], codes->shape[1]) < 0)
        return -1;
    return scales_anyhow(r, scale, sides);
}

// Despite its name, weight_scale_inv is a factor of the weights.
static int describe_fp8(struct quantised_reading *r)
{
    const struct quantised_format *f = r->q->format;
    const struct safetensor *scale = need(r, f->sign);
    const bool exponent = scale && (!strcmp(scale->type, "U8") || !strcmp(scale->type, "F8_E8M0"));
    if (exponent && strcmp(f->method, "fp8") != 0) return refuse(r, "MXFP8");
    levels_fp8(r->q);
    return describe_bytes(r, exponent ? scale : need_numbers(r, f->sign, NULL));
}

static int describe_int8(struct quantised_reading *r)
{
    struct quantised *q = r->q;
    levels_signed(q);
    if (describe_bytes(r, need_numbers(r, ".weight_scale", NULL)) < 0) return -1;
    const struct safetensor *zero = quantised_part(r, ".weight_zero_point");
    if (!zero) return 0;
    if (strcmp(zero->type, "I8") != 0 || q->group_rows != 1 ||
        safetensor_count(zero) != safetensor_count(q->scale.tensor))
        return misshapen(r, zero);
    q->zero = (struct shared){ zero, q->scale.row, q->scale.group };
    return 0;
}

// --- compressed-tensors' packed forms ------------------------------------------------------------

// Reads zero points: packed, with the zero points of several rows in a word; or, in files up to
// early 2025, plain I8.
static int read_packed_zeros(struct quantised_reading *r)
{
    struct quantised *q = r->q;
    const struct safetensor *zero = quantised_part(r, ".weight_zero_point");
    const int per = 32 / q->bits;
    q->zero_base = (float)(1 << (q->bits - 1));
    if (!zero) return 0;
    q->zero = (struct shared){ zero, q->groups, 1 };
    if (!strcmp(zero->type, "I8"))
        return is_shape(zero, q->rows, q->groups) ? 0 : misshapen(r, zero);
    q->zero_base = 0;
    q->zero_per = per;
    return !strcmp(zero->type, "I32") && is_shape(zero, ceil_div(q->rows, per), q->groups)
               ? 0
               : misshapen(r, zero);
}

static int describe_packed(struct quantised_reading *r)
{
    struct quantised *q = r->q;
    const struct safetensor *codes = codes_of(r), *shape = need(r, ".weight_shape");
    const struct safetensor *scale = shape ? need_numbers(r, ".weight_scale", NULL) : NULL;
    const struct safetensor *order = quantised_part(r, ".weight_g_idx");
    int64_t size[2];
    if (!scale) return -1;
    if (strcmp(shape->type, "I64") != 0 || !is_shape(shape, 2, 1)) return misshapen(r, shape);
    memcpy(size, shape->data, sizeof size);
    if (set_size(r, size[0], size[1]) < 0) return -1;
    const int64_t words = codes->rank == 2 ? codes->shape[1] : 0;
    const int bits = words == ceil_div(size[1], 8) ? 4 : words == ceil_div(size[1], 4) ? 8 : 0;
    if (!bits || codes->shape[0] != size[0]) return refuse(r, "integers of neither 4 nor 8 bits");
    levels_unsigned(q);
    if (set_codes(r, bits, ALONG_ROWS, words * 4) < 0 || scales_in_rows(r, scale) < 0 ||
        read_packed_zeros(r) < 0)
        return -1;
    return order ? read_order(r, order) : 0;
}

static int describe_fp4(struct quantised_reading *r, const char *type)
{
    const struct safetensor *codes = codes_of(r), *scale = need_numbers(r, ".weight_scale", type);
    if (!scale || set_codes(r, 4, ALONG_ROWS, codes->shape[1]) < 0 ||
        set_size(r, codes->shape[0], times(codes->shape[1], 2)) < 0)
        return -1;
    levels_fp4(r->q);
    return scales_in_rows(r, scale);
}

static int describe_mxfp4(struct quantised_reading *r)
{
    return describe_fp4(r, "U8");
}

static int describe_nvfp4(struct quantised_reading *r)
{
    const struct safetensor *global = need_numbers(r, ".weight_global_scale", NULL);
    if (!global) return -1;
    if (safetensor_count(global) != 1) return misshapen(r, global);
    r->q->divisor = quantised_number(global, 0);
    return describe_fp4(r, "F8_E4M3");
}

// --- AWQ and GPTQ --------------------------------------------------------------------------------

// Reads scales and zero points [groups, out]; a word holds `per` zero points.
static int describe_columns(struct quantised_reading *r, int per)
{
    struct quantised *q = r->q;
    const struct safetensor *scale = need_numbers(r, ".scales", NULL);
    const struct safetensor *zero = scale ? need(r, ".qzeros") : NULL;
    if (!zero) return -1;
    const int64_t groups = scale->rank == 2 ? scale->shape[0] : 0;
    if (!is_shape(scale, groups, q->rows)) return misshapen(r, scale);
    if (strcmp(zero->type, "I32") != 0 || q->rows % per || !is_shape(zero, groups, q->rows / per))
        return misshapen(r, zero);
    q->scale = (struct shared){ scale, 1, q->rows };
    q->zero = (struct shared){ zero, 1, q->rows / per };
    q->zero_per = per;
    levels_unsigned(q);
    return set_groups(r, groups);
}

static int describe_awq(struct quantised_reading *r)
{
    const struct safetensor *codes = codes_of(r);
    const cJSON *version = json_get(r->config, "version");
    const int64_t bits = json_whole(json_get(r->config, "bits"), 4);
    if (cJSON_IsString(version) && strcasecmp(version->valuestring, "gemm") != 0)
        return refuse(r, "AWQ's version '%.40s'", version->valuestring);
    if (bits != 4) return refuse(r, "AWQ with %lld bits", (long long)bits);
    if (set_codes(r, 4, ALONG_OUTPUTS, codes->shape[1]) < 0 ||
        set_size(r, times(codes->shape[1], 8), codes->shape[0]) < 0)
        return -1;
    r->q->zero_interleaved = true;
    return describe_columns(r, 8);
}

// Version 1 stores zero points minus 1, subtracted from whole words; zero_add adds the ones back to
// whole words.
static int describe_gptq(struct quantised_reading *r)
{
    struct quantised *q = r->q;
    const struct safetensor *codes = codes_of(r), *zero = need(r, ".qzeros");
    const struct safetensor *order = quantised_part(r, ".g_idx");
    const cJSON *form = json_get(r->config, "checkpoint_format");
    const cJSON *pack = json_get(r->config, "pack_dtype");
    if (!form) form = json_get(r->config, "format");
    const char *name = cJSON_IsString(form) ? form->valuestring : "gptq";
    const bool second = !strcmp(name, "gptq_v2");
    if (!zero) return -1;
    if (!second && strcmp(name, "gptq") != 0) return refuse(r, "GPTQ's form '%.40s'", name);
    if (cJSON_IsString(pack) && strcmp(pack->valuestring, "int32") != 0)
        return refuse(r, "words of type %.40s", pack->valuestring);
    const int64_t rows = codes->rank == 2 ? codes->shape[1] : 0;
    const int64_t words = zero->rank == 2 ? zero->shape[1] : 0; // that hold a group's zero points
    const int bits = words && words == rows / 4 ? 8 : words && words == rows / 8 ? 4 : 0;
    if (!bits && check_bits(r, json_whole(json_get(r->config, "bits"), 0)) < 0) return -1;
    if (!bits) return misshapen(r, zero);
    const int per = 32 / bits;
    if (set_codes(r, bits, ALONG_COLUMNS, rows) < 0 ||
        set_size(r, rows, times(codes->shape[0], per)) < 0)
        return -1;
    if (!second) q->zero_add = bits == 4 ? 0x11111111 : 0x01010101;
    if (describe_columns(r, per) < 0) return -1;
    return order ? read_order(r, order) : 0;
}

// --- bitsandbytes --------------------------------------------------------------------------------

enum { STATE_MOST = 1 << 16 }; // bytes of a matrix's description; files have a few hundred

// Finds a tensor of `count` f32 numbers.
static const struct safetensor *need_floats(struct quantised_reading *r, const char *suffix,
                                            int64_t count)
{
    const struct safetensor *t = need(r, suffix);
    if (!t || (t->dtype == DTYPE_F32 && safetensor_count(t) == count)) return t;
    misshapen(r, t);
    return NULL;
}

static int read_nested(struct quantised_reading *r, const cJSON *state, int64_t blocks)
{
    struct quantised *q = r->q;
    double offset;
    if (json_int(state, "nested_blocksize", 1, INT32_MAX, 256, &q->nested_group, r->err) < 0 ||
        json_real(state, "nested_offset", 0, &offset, r->err) < 0)
        return -1;
    q->nested_offset = (float)offset;
    q->nested_map = need_floats(r, ".weight.nested_quant_map", 256);
    if (!q->nested_map) return -1;
    q->nested_scale = need_floats(r, ".weight.nested_absmax", ceil_div(blocks, q->nested_group));
    return q->nested_scale ? 0 : -1;
}

static int read_state(struct quantised_reading *r, const cJSON *state)
{
    struct quantised *q = r->q;
    const cJSON *shape = json_get(state, "shape");
    const int64_t rows = json_whole(cJSON_GetArrayItem(shape, 0), 0);
    const int64_t columns = json_whole(cJSON_GetArrayItem(shape, 1), 0);
    const struct safetensor *codes = codes_of(r), *map = need_floats(r, ".weight.quant_map", 16);
    const struct safetensor *scale = map ? need(r, ".weight.absmax") : NULL;
    int64_t n, block;
    if (!scale || json_int(state, "blocksize", 1, INT32_MAX, 64, &block, r->err) < 0) return -1;
    if (cJSON_GetArraySize(shape) != 2) return refuse(r, "more than two dimensions");
    if (set_size(r, rows, columns) < 0) return -1;
    // The bytes may have any type (bnb_4bit_quant_storage), whose last element may be padded.
    if (__builtin_mul_overflow(rows, columns, &n) || codes->bytes < (uint64_t)ceil_div(n, 2) ||
        codes->bytes > (uint64_t)ceil_div(n, 2) + 7)
        return misshapen(r, codes);
    set_codes(r, 4, FLAT, 0);
    set_group(q, block);
    q->groups = ceil_div(n, block);
    q->scale = (struct shared){ scale, 0, 1 };
    for (int i = 0; i < 16; i++) q->levels[i] = quantised_number(map, i);
    if (!is_shape(scale, q->groups, 1) || (scale->dtype != DTYPE_F32 && scale->dtype != DTYPE_U8))
        return misshapen(r, scale);
    return scale->dtype == DTYPE_U8 ? read_nested(r, state, q->groups) : 0;
}

static int describe_bnb4(struct quantised_reading *r)
{
    const struct safetensor *text = need(r, r->q->format->sign);
    if (!text) return -1;
    if (text->bytes > STATE_MOST)
        return err_set(r->err, "'%.200s' has %llu bytes; at most %d are supported", text->name,
                       (unsigned long long)text->bytes, STATE_MOST);
    cJSON *state = json_parse(text->data, text->bytes, text->name, r->err);
    const int status = state ? read_state(r, state) : -1;
    cJSON_Delete(state);
    return status;
}

static int describe_bnb8(struct quantised_reading *r)
{
    const struct safetensor *codes = codes_of(r), *format = quantised_part(r, ".weight_format");
    if (format &&
        (format->dtype != DTYPE_U8 || format->bytes != 1 || *(const uint8_t *)format->data))
        return refuse(r, "a bitsandbytes layout that is not 'row'");
    const struct safetensor *scale =
        codes->rank == 2 ? need_floats(r, ".SCB", codes->shape[0]) : NULL;
    if (codes->rank != 2) return refuse(r, "more than two dimensions");
    if (!scale || set_codes(r, 8, ALONG_ROWS, codes->shape[1]) < 0 ||
        set_size(r, codes->shape[0], codes->shape[1]) < 0)
        return -1;
    levels_signed(r->q);
    r->q->factor = 7.874015718698502e-3f; // 1 / 127, bitsandbytes' literal
    return scales_in_rows(r, scale);
}

// --- MLX -----------------------------------------------------------------------------------------

static int describe_mlx(struct quantised_reading *r)
{
    struct quantised *q = r->q;
    const struct safetensor *codes = codes_of(r);
    // A module may have its own object in the config, under the module's path.
    const cJSON *own = json_get(r->config, r->base),
                *config = cJSON_IsObject(own) ? own : r->config;
    const cJSON *mode = json_get(config, "mode");
    const int64_t bits = json_whole(json_get(config, "bits"), 0);
    if (cJSON_IsString(mode) && strcmp(mode->valuestring, "affine") != 0)
        return refuse(r, "MLX's mode '%.40s'", mode->valuestring);
    const struct safetensor *scale = need_numbers(r, ".scales", NULL);
    const struct safetensor *offset = scale ? need_numbers(r, ".biases", NULL) : NULL;
    if (!offset || check_bits(r, bits) < 0 ||
        set_codes(r, (int)bits, ALONG_ROWS, times(codes->shape[1], 4)) < 0 ||
        set_size(r, codes->shape[0], times(codes->shape[1], 32 / bits)) < 0 ||
        scales_in_rows(r, scale) < 0)
        return -1;
    if (q->group != json_whole(json_get(config, "group_size"), q->group) ||
        !is_shape(offset, q->rows, q->groups))
        return misshapen(r, q->scale.tensor);
    levels_unsigned(q);
    q->offset = (struct shared){ offset, q->groups, 1 };
    return 0;
}

const struct quantised_format quantised_formats[] = {
    { "FP8", "fp8", ".weight", "F8_E4M3", ".weight_scale_inv", describe_fp8 },
    { "FP8", "fp8", ".weight", "F8_E4M3", ".weight_scale", describe_fp8 },
    { "compressed-tensors FP8", "compressed-tensors", ".weight", "F8_E4M3", ".weight_scale",
      describe_fp8 },
    { "compressed-tensors INT8", "compressed-tensors", ".weight", "I8", ".weight_scale",
      describe_int8 },
    { "compressed-tensors", "compressed-tensors", ".weight_packed", "I32", ".weight_shape",
      describe_packed },
    { "compressed-tensors NVFP4", "compressed-tensors", ".weight_packed", "U8",
      ".weight_global_scale", describe_nvfp4 },
    { "compressed-tensors MXFP4", "compressed-tensors", ".weight_packed", "U8", ".weight_scale",
      describe_mxfp4 },
    { "AWQ", "awq", ".qweight", "I32", ".scales", describe_awq },
    { "GPTQ", "gptq", ".qweight", "I32", ".scales", describe_gptq },
    { "bitsandbytes NF4", "bitsandbytes", ".weight", NULL, ".weight.quant_state.bitsandbytes__nf4",
      describe_bnb4 },
    { "bitsandbytes FP4", "bitsandbytes", ".weight", NULL, ".weight.quant_state.bitsandbytes__fp4",
      describe_bnb4 },
    { "bitsandbytes INT8", "bitsandbytes", ".weight", "I8", ".SCB", describe_bnb8 },
    { "MLX", "mlx", ".weight", "U32", ".scales", describe_mlx },
    { 0 },
};
