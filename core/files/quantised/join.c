// core/files/quantised/join.c -- lists the quantised matrices of a folder as one tensor each, and
// refuses formats that vlmsh cannot read, because weights without their scales would be wrong.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/dtype.h"
#include "core/base/text.h"
#include "core/files/checkpoint.h"
#include "core/files/checkpoint_parts.h"
#include "core/files/quantised/quantised_parts.h"

// Suffixes of tensor names that only quantised folders have.
static const struct {
    const char *end, *form; // suffix, number format; form NULL: config.json must state it
} signs[] = {
    { ".g_idx", "INT4 or INT8 (GPTQ)" },
    { ".qweight", "INT4 or INT8 (GPTQ or AWQ)" },
    { ".weight_packed", "INT4 or INT8 (compressed-tensors)" },
    { ".weight_scale_inv", "FP8 in blocks" },
    { ".weight.absmax", "4-bit (bitsandbytes)" },
    { ".SCB", "INT8 (bitsandbytes)" },
    { "_blocks", NULL },
    { "_scale", NULL },
    { "_scale_inv", NULL },
    { "_scales", NULL },
    { ".scales", NULL },
    { ".qzeros", NULL },
    { ".W_q", NULL },          // HQQ
    { ".codes", NULL },        // AQLM
    { ".Qidxs", NULL },        // QuIP
    { ".indices", NULL },      // VPTQ
    { ".q_weight", NULL },     // EXL2
    { ".trellis", NULL },      // EXL3
    { ".weight._data", NULL }, // Quanto
};

// Scales for activations and the KV cache, which vlmsh does not quantise.
static const char *const unused[] = { ".input_scale",  "activation_scale", ".k_scale",
                                      ".v_scale",      ".q_scale",         ".input_global_scale",
                                      ".output_scale", ".input_zero_point" };

// --- config --------------------------------------------------------------------------------------

static const char *const objects[] = { NULL, "text_config", "llm_config", "vision_config" };
static const char *const keys[] = { "quantization_config", "compression_config", "quantization" };

static const cJSON *find_object(const cJSON *config)
{
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++) {
        const cJSON *in = objects[i] ? json_get(config, objects[i]) : config;
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            if (cJSON_IsObject(json_get(in, keys[k]))) return json_get(in, keys[k]);
    }
    return NULL;
}

static const char *text_of(const cJSON *object, const char *key)
{
    const cJSON *value = json_get(object, key);
    return cJSON_IsString(value) ? value->valuestring : "";
}

// Returns quant_method, or infers it: MLX's objects and AutoGPTQ's quantize_config.json lack it.
static const char *method_of(const cJSON *q)
{
    const char *named = text_of(q, "quant_method");
    if (*named) return named;
    if (json_get(q, "desc_act")) return "gptq";
    return json_get(q, "group_size") ? "mlx" : "";
}

// Returns the number format that the object states: "FP8", "INT4".
static char *form_of(const cJSON *q)
{
    const char *method = text_of(q, "quant_method"), *format = text_of(q, "format");
    const char *algorithm = text_of(q, "quant_algo");
    // For compressed-tensors, reads the first group.
    const cJSON *groups = json_get(q, "config_groups");
    const cJSON *weights = json_get(groups ? groups->child : NULL, "weights");
    const cJSON *bits = json_get(weights, "num_bits");
    const bool floats = !strcmp(text_of(weights, "type"), "float");
    if (!bits) bits = json_get(q, "bits");
    if (cJSON_IsTrue(json_get(q, "load_in_4bit")))
        return xstrdup(strcmp(text_of(q, "bnb_4bit_quant_type"), "nf4") ? "FP4" : "NF4");
    if (cJSON_IsTrue(json_get(q, "load_in_8bit"))) return xstrdup("INT8");
    if (*algorithm) return xstrdup(algorithm);
    if (strstr(format, "nvfp4")) return xstrdup("NVFP4");
    if (strstr(format, "mxfp4") || !strcmp(method, "mxfp4")) return xstrdup("MXFP4");
    if (cJSON_IsNumber(bits)) return xasprintf("%s%.0f", floats ? "FP" : "INT", bits->valuedouble);
    if (strstr(method, "fp8") || strstr(format, "float") || !strcmp(format, "naive-quantized"))
        return xstrdup("FP8");
    if (strstr(format, "pack")) return xstrdup("INT4");
    return xstrdup(strstr(format, "int") ? "INT8" : "quantised");
}

// Returns a title such as "FP8 (compressed-tensors)" or "INT4 (AWQ)".
static char *title_of(const cJSON *q)
{
    char *method = xstrdup(method_of(q)), *form = form_of(q);
    const bool acronym = strlen(method) <= 5;
    for (char *at = method; acronym && *at; at++) *at = (char)toupper((unsigned char)*at);
    const bool both = *method && strcasecmp(method, form) != 0;
    char *title = both ? xasprintf("%s (%s)", form, method) : xstrdup(form);
    free(form);
    free(method);
    return title;
}

// Returns the dtype in which the formats' libraries unpack: the config's, else f16 if the folder's
// norms have it, else bf16.
static enum dtype rounded_dtype(const struct checkpoint *c)
{
    static const struct {
        const char *name;
        enum dtype dtype;
    } names[] = { { "float16", DTYPE_F16 }, { "bfloat16", DTYPE_BF16 }, { "float32", DTYPE_F32 } };
    static const char *const dtype_keys[] = { "dtype", "torch_dtype" };
    for (size_t i = 0; i < 2 * sizeof objects / sizeof *objects; i++) {
        const cJSON *in = objects[i / 2] ? json_get(c->config, objects[i / 2]) : c->config;
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            if (!strcmp(text_of(in, dtype_keys[i % 2]), names[k].name)) return names[k].dtype;
    }
    for (int64_t i = 0; i < c->tensor_count; i++)
        if (text_ends(c->tensors[i]->name, "norm.weight") && c->tensors[i]->dtype == DTYPE_F16)
            return DTYPE_F16;
    return DTYPE_BF16;
}

// --- finding -------------------------------------------------------------------------------------

enum { MEMBERS_MOST = 10000 }; // of the config, which is searched for each MLX matrix

// State of the search for a checkpoint's matrices.
struct joining {
    struct checkpoint *c;
    const cJSON *config; // NULL: none
    bool *used;          // [tensor_count]
    struct quantised_folder *f;
    size_t capacity, list_capacity;
    struct err *err;
};

const struct safetensor *quantised_part(struct quantised_reading *r, const char *suffix)
{
    char *name = xasprintf("%s%s", r->base, suffix);
    const struct safetensor **found = checkpoint_entry(r->c, name);
    free(name);
    if (!found || r->q->part_count == QUANTISED_PARTS) return NULL;
    r->used[found - r->c->tensors] = true;
    r->q->part[r->q->part_count++] = *found;
    return *found;
}

static bool is_expert(const char *name)
{
    return strstr(name, ".experts.") || strstr(name, ".switch_mlp.");
}

// Returns the format of the matrix whose codes a tensor holds; NULL: it holds none.
static const struct quantised_format *format_of(const struct joining *j, const struct safetensor *t)
{
    const char *method = method_of(j->config);
    for (const struct quantised_format *f = quantised_formats; j->config && f->name; f++) {
        if (strcmp(f->method, method) != 0 || !text_ends(t->name, f->codes) ||
            (f->type && strcmp(f->type, t->type) != 0))
            continue;
        char *sign =
            xasprintf("%.*s%s", (int)(strlen(t->name) - strlen(f->codes)), t->name, f->sign);
        const bool found = checkpoint_find(j->c, sign);
        free(sign);
        if (found) return f;
    }
    return NULL;
}

// Returns the width of groups stated in the config (compressed-tensors: for the first group of
// modules); 0: none.
static int64_t named_group(const cJSON *config)
{
    const cJSON *groups = json_get(config, "config_groups");
    const cJSON *weights = json_get(groups ? groups->child : NULL, "weights");
    return json_whole(json_get(weights ? weights : config, "group_size"), 0);
}

// Adds the matrix whose codes are `t`.
static int add_matrix(struct joining *j, const struct safetensor *t,
                      const struct quantised_format *format)
{
    struct quantised_folder *f = j->f;
    f->matrices = xgrow(f->matrices, &j->capacity, (size_t)f->count, sizeof *f->matrices);
    f->list = xgrow(f->list, &j->list_capacity, (size_t)f->count, sizeof *f->list);
    struct quantised *q = &f->matrices[f->count];
    *q = (struct quantised){ .format = format,
                             .named = named_group(j->config),
                             .group_rows = 1,
                             .divisor = 1,
                             .factor = 1,
                             .zero_per = 1 };
    char *base = xstrndup(t->name, strlen(t->name) - strlen(format->codes));
    struct quantised_reading r = {
        .c = j->c, .config = j->config, .used = j->used, .base = base, .q = q, .err = j->err
    };
    quantised_part(&r, format->codes);
    f->list[f->count++] =
        (struct safetensor){ .name = xasprintf("%s.weight", base), .stored = t->name, .rank = 2 };
    const int status = is_expert(base) ? err_set(j->err,
                                                 "'%s' is an expert in the format %s, which "
                                                 "vlmsh cannot read: " QUANTISED_ADVICE,
                                                 t->name, format->name)
                                       : format->describe(&r);
    free(base);
    return status;
}

static int find_matrices(struct joining *j)
{
    for (int64_t i = 0; i < j->c->tensor_count; i++) {
        const struct safetensor *t = j->c->tensors[i];
        const struct quantised_format *format = format_of(j, t);
        if (format && add_matrix(j, t, format) < 0) return -1;
    }
    return 0;
}

// --- remaining tensors ---------------------------------------------------------------------------

static int refuse(const char *title, bool by_config, const char *tensor, struct err *err)
{
    return err_set(
        err, "these are %s weights (%stensor '%.160s'), which vlmsh cannot read: " QUANTISED_ADVICE,
        title, by_config ? "\"quantization_config\" of config.json, " : "", tensor);
}

static bool is_unused(const char *name)
{
    for (size_t i = 0; i < sizeof unused / sizeof *unused; i++)
        if (text_ends(name, unused[i])) return true;
    return false;
}

// Refuses tensors that belong to no matrix, although only quantised folders have them.
static int check_rest(struct joining *j, const char *title)
{
    const cJSON *q = j->config;
    for (int64_t i = 0; i < j->c->tensor_count; i++) {
        const struct safetensor *t = j->c->tensors[i];
        if (j->used[i]) continue;
        if (j->f->count && is_unused(t->name)) {
            j->used[i] = true;
            j->f->unused++;
            continue;
        }
        if (q && !safetensor_is_float(t) && text_ends(t->name, ".weight"))
            return refuse(title, true, t->name, j->err);
        for (size_t k = 0; k < sizeof signs / sizeof *signs; k++)
            if ((q || signs[k].form) && text_ends(t->name, signs[k].end))
                return refuse(q ? title : signs[k].form, q, t->name, j->err);
    }
    return 0;
}

// --- the list ------------------------------------------------------------------------------------

// Chooses the dtypes. A matrix that blocks can hold exactly is kept in blocks, any other in f32, so
// that all numbers are exact. But if rounding all matrices, as the formats' libraries do, takes no
// more memory, all are rounded.
static void choose_dtypes(struct joining *j)
{
    struct quantised_folder *f = j->f;
    const enum dtype rounded = rounded_dtype(j->c);
    uint64_t bytes_exact = 0, bytes_rounded = 0;
#pragma omp parallel for schedule(dynamic) if (f->count > 1)
    for (int64_t i = 0; i < f->count; i++)
        f->list[i].dtype = quantised_exact_dtype(&f->matrices[i]);
    for (int64_t i = 0; i < f->count; i++) {
        const int64_t n = f->matrices[i].rows * f->matrices[i].columns;
        const enum dtype exact = f->list[i].dtype < 0 ? DTYPE_F32 : (enum dtype)f->list[i].dtype;
        f->list[i].dtype = (int)exact;
        bytes_exact += dtype_bytes(exact, n);
        bytes_rounded += dtype_bytes(rounded, n);
    }
    for (int64_t i = 0; i < f->count; i++) {
        struct safetensor *t = &f->list[i];
        const struct quantised *q = &f->matrices[i];
        if (bytes_exact >= bytes_rounded) t->dtype = (int)rounded;
        t->quantised = q;
        t->shape[0] = q->rows, t->shape[1] = q->columns;
        t->type = dtype_form((enum dtype)t->dtype).name;
        t->bytes = dtype_bytes((enum dtype)t->dtype, q->rows * q->columns);
        f->bytes += t->bytes;
    }
}

static int replace_tensors(struct joining *j)
{
    struct checkpoint *c = j->c;
    int64_t n = 0;
    for (int64_t i = 0; i < c->tensor_count; i++)
        if (!j->used[i]) c->tensors[n++] = c->tensors[i];
    // The list has enough entries: each matrix replaces at least one tensor.
    for (int64_t i = 0; i < j->f->count; i++) c->tensors[n++] = &j->f->list[i];
    c->tensor_count = n;
    return checkpoint_sort(c, j->err);
}

static int join(struct joining *j, char *title)
{
    // Rotations of activations (SpinQuant, QuIP) would have to be computed in every layer.
    if (json_is_on(json_get(j->config, "transform_config")))
        return err_set(j->err,
                       "\"transform_config\" of config.json transforms the inputs of quantised "
                       "layers, which vlmsh does not compute: " QUANTISED_ADVICE);
    if (find_matrices(j) < 0 || check_rest(j, title) < 0) return -1;
    // A dequantised copy may still have "quantization_config"; it loads like any other folder.
    if (json_get(j->c->config, "quantization_config") && !j->f->count)
        text_append(&j->c->notice, xasprintf("config.json says that the weights are %s, but they "
                                             "are not quantised: vlmsh reads them as stored",
                                             title));
    if (!j->f->count) return 0;
    choose_dtypes(j);
    return replace_tensors(j);
}

int quantised_join(struct checkpoint *c, struct err *err)
{
    struct joining j = { .c = c, .config = find_object(c->config), .err = err };
    const bool mlx = quantised_is_mlx(c);
    if (mlx && quantised_reorder(c, err) < 0) return -1;
    j.f = c->quantised = xcalloc(1, sizeof *c->quantised);
    if (!j.config && checkpoint_read_json(c, "quantize_config.json", &j.f->beside, err) < 0)
        return -1;
    if (!j.config) j.config = j.f->beside;
    if (cJSON_GetArraySize(j.config) > MEMBERS_MOST)
        return err_set(err,
                       "\"quantization_config\" of config.json, or quantize_config.json, has more "
                       "than %d members",
                       MEMBERS_MOST);
    j.used = xcalloc((size_t)c->tensor_count, sizeof *j.used);
    char *title = j.config ? title_of(j.config) : NULL;
    int status = join(&j, title);
    if (status == 0 && mlx) status = quantised_rename(c, err);
    if (status == 0 && !j.f->count) {
        quantised_free(c->quantised);
        c->quantised = NULL;
    }
    free(title);
    free(j.used);
    return status;
}

void quantised_free(struct quantised_folder *f)
{
    for (int64_t i = 0; f && i < f->count; i++) free(f->list[i].name);
    if (f) free(f->list);
    if (f) free(f->matrices);
    if (f) cJSON_Delete(f->beside);
    free(f);
}

// --- description ---------------------------------------------------------------------------------

static void put_groups(struct buf *b, const struct quantised *q)
{
    if (q->group_rows > 1)
        buf_printf(b, "blocks of %lld x %lld", (long long)q->group_rows, (long long)q->group);
    else if (q->order == FLAT)
        buf_printf(b, "blocks of %lld", (long long)q->group);
    else if (q->groups > 1)
        buf_printf(b, "groups of %lld%s", (long long)q->group, q->g_idx ? " in any order" : "");
    else if (q->named > 0)
        buf_printf(b, "groups of %lld", (long long)q->named);
    else
        buf_puts(b, q->scale.row || q->scale.group ? "one scale per row" : "one scale");
}

bool quantised_has(const struct checkpoint *c, const char *name)
{
    for (int64_t i = 0; c->quantised && i < c->quantised->count; i++)
        if (!strcmp(c->quantised->list[i].name, name)) return true;
    return false;
}

// "GPTQ, 4 bit with zero points, groups of 128, kept as q4_0"; `dtype`: the one in memory, which
// weights.dtype may have changed.
static char *matrix_text(const struct quantised *q, int dtype)
{
    struct buf b = { 0 };
    buf_puts(&b, q->format->name);
    if (!strpbrk(b.data, "48")) buf_printf(&b, ", %d bit", q->bits); // unless the name states it
    if (q->zero.tensor || q->offset.tensor) buf_puts(&b, " with zero points");
    buf_puts(&b, ", ");
    put_groups(&b, q);
    buf_printf(&b, ", kept as %s", dtype_form((enum dtype)dtype).name);
    return buf_take(&b);
}

char *quantised_text(const struct checkpoint *c)
{
    const struct quantised_folder *f = c->quantised;
    struct buf b = { 0 };
    if (!f) return NULL;
    char **texts = xcalloc((size_t)f->count, sizeof *texts);
    for (int64_t i = 0; i < f->count; i++)
        texts[i] = matrix_text(&f->matrices[i], checkpoint_find(c, f->list[i].name)->dtype);
    text_sort(texts, (size_t)f->count, sizeof *texts);
    for (int64_t i = 0, same; i < f->count; i += same) {
        for (same = 1; i + same < f->count && !strcmp(texts[i], texts[i + same]);) same++;
        buf_printf(&b, "%s%lld %s: %s", i ? "; " : "", (long long)same,
                   same == 1 ? "matrix" : "matrices", texts[i]);
    }
    for (int64_t i = 0; i < f->count; i++) free(texts[i]);
    free(texts);
    if (f->unused)
        buf_printf(&b, "; %lld scales of activations or of the KV cache are not used",
                   (long long)f->unused);
    return buf_take(&b);
}
