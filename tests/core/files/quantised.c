// tests/core/files/quantised.c -- matrices of quantised folders: the numbers of the formats' own
// libraries (extracts) and of numpy (variants), the matrices that stay packed in memory, the
// folders that are refused, NaN in FP8, and zeros under a large scale.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/dtype.h"
#include "core/base/hash.h"
#include "core/base/text.h"
#include "core/files/checkpoint.h"
#include "core/files/quantised/quantised.h"
#include "core/files/safetensors.h"
#include "core/graph/arena.h"
#include "kernels/backend.h"
#include "tests/core/quick.h"
#include "tests/core/scratch.h"

// --- cases ---------------------------------------------------------------------------------------

static size_t element(const struct safetensor *t)
{
    return t->bytes / (size_t)safetensor_count(t);
}

// A change to a case, made before the case is written.
struct edit {
    const char *name;   // the case
    const char *config; // instead of its config.json; NULL: the same
    const char *drop;   // a tensor to leave out
    const char *base;   // instead of "m" in names
    const char *empty;  // a tensor without elements instead
    const char *fill;   // a tensor whose bytes all become `with`
    int with;
    const char *patch; // a tensor of which `count` bytes (0: one) from `at` on become `byte`
    int at, byte, count;
    const char *message; // part of the message that refuses it
};

// Writes the folder of a case, with its tensors "CASE/NAME", split among two files.
static char *write_case(const struct safetensors *all, const cJSON *one, const struct edit *e)
{
    struct err err;
    char *folder = scratch_new(), *start = xasprintf("%s/", one->string), *text;
    const cJSON *beside = json_get(one, "quantize_config");
    text = e->config ? xstrdup(e->config) : json_print(json_get(one, "config"));
    scratch_write(folder, "config.json", text, strlen(text));
    free(text);
    text = beside ? json_print(beside) : NULL;
    if (text) scratch_write(folder, "quantize_config.json", text, strlen(text));
    free(text);
    struct buf map = { 0 };
    for (int part = 0; part < 2; part++) {
        char *path = xasprintf("%s/model-%d.safetensors", folder, part);
        struct safetensors_writer *w = safetensors_writer_new(path);
        for (int give = 0; give < 2; give++)
            for (int64_t i = 0; i < all->count; i++) {
                const struct safetensor *t = &all->tensors[i];
                const char *own = t->name + strlen(start);
                if (strncmp(t->name, start, strlen(start)) != 0 || !strncmp(own, "w.", 2) ||
                    (strlen(own) + (size_t)i) % 2 != (size_t)part ||
                    (e->drop && !strcmp(e->drop, own)))
                    continue;
                char *name = e->base ? xasprintf("%s%s", e->base, own + 1) : xstrdup(own);
                char *bytes = memcpy(xmalloc(t->bytes), t->data, t->bytes);
                const bool empty = e->empty && !strcmp(e->empty, own);
                const int64_t none = 0;
                if (e->fill && !strcmp(e->fill, own)) memset(bytes, e->with, t->bytes);
                if (e->patch && !strcmp(e->patch, own))
                    memset(bytes + e->at, e->byte, e->count ? (size_t)e->count : 1);
                if (!give) {
                    safetensors_writer_declare_type(w, name, t->type, element(t),
                                                    empty ? 1 : t->rank, empty ? &none : t->shape);
                    buf_printf(&map, "%s\"%s\": \"model-%d.safetensors\"", map.length ? "," : "",
                               name, part);
                } else if (safetensors_writer_data(w, bytes, empty ? 0 : t->bytes, &err) < 0) {
                    fail_msg("%s", err.text);
                }
                free(bytes);
                free(name);
            }
        if (safetensors_writer_finish(w, &err) < 0) fail_msg("%s", err.text);
        free(path);
    }
    text = xasprintf("{\"weight_map\": {%s}}", map.data);
    scratch_write(folder, "model.safetensors.index.json", text, strlen(text));
    free(text);
    buf_release(&map);
    free(start);
    return folder;
}

// Compares f32 numbers with a hash, or with a tensor within a tolerance.
static void check_numbers(const struct safetensors *all, const cJSON *one, const char *name,
                          float *ours, int64_t n)
{
    const cJSON *hash = json_get(json_get(one, "hash"), name);
    const cJSON *tol = json_get(json_get(one, "tol"), name);
    if (hash) {
        char hex[HASH_HEX];
        for (int64_t i = 0; i < n; i++) ours[i] += 0; // no negative zeros
        hash_hex(ours, (size_t)n * sizeof *ours, hex);
        if (strcmp(hex, hash->valuestring) != 0)
            fail_msg("%s: the numbers differ; they begin with %g %g %g", one->string, ours[0],
                     ours[1], ours[2]);
        return;
    }
    char *full = xasprintf("%s/w.%s", one->string, name);
    float *theirs = xreallocarray(NULL, (size_t)n, sizeof *theirs);
    floats_from(theirs, safetensors_find(all, full)->data, DTYPE_F32, (size_t)n);
    for (int64_t i = 0; i < n; i++)
        if (!(fabsf(ours[i] - theirs[i]) <= (float)tol->valuedouble))
            fail_msg("%s: number %lld is %g, not %g", one->string, (long long)i, ours[i],
                     theirs[i]);
    free(theirs);
    free(full);
}

// A matrix kept in blocks has the exact numbers; any other has them rounded to its dtype.
static void check_kept(const struct checkpoint *c, const cJSON *one, const struct safetensor *t,
                       const float *exact, int64_t n)
{
    struct err err;
    struct tensor kept;
    struct arena arena = { .backend = backend_cpu() };
    const char *wanted = json_get(one, "kept")->valuestring;
    if (strcmp(t->type, wanted) != 0)
        fail_msg("%s: kept as %s, not %s", one->string, t->type, wanted);
    if (checkpoint_tensor(c, t->name, 2, t->shape, &arena, &kept, &err) < 0)
        fail_msg("%s: %s", one->string, err.text);
    float *numbers = xreallocarray(NULL, (size_t)n, sizeof *numbers);
    floats_from(numbers, kept.data, kept.dtype, (size_t)n);
    if (!dtype_in_blocks(kept.dtype)) {
        char *rounded = xmalloc(tensor_bytes(&kept));
        floats_to(rounded, kept.dtype, exact, (size_t)n);
        assert_memory_equal(rounded, kept.data, tensor_bytes(&kept));
        free(rounded);
    }
    for (int64_t i = 0; i < n && dtype_in_blocks(kept.dtype); i++)
        if (numbers[i] != exact[i])
            fail_msg("%s: number %lld is %g in %s, not %g", one->string, (long long)i, numbers[i],
                     wanted, exact[i]);
    free(numbers);
    arena_release(&arena);
}

static void check_case(const struct safetensors *all, const cJSON *one)
{
    struct err err;
    const cJSON *shape;
    char *folder = write_case(all, one, &(struct edit){ 0 });
    struct checkpoint *c = checkpoint_open(folder, NULL, &err);
    if (!c) fail_msg("%s: %s", one->string, err.text);
    assert_non_null(c->quantised);
    assert_int_equal(c->tensor_count - cJSON_GetArraySize(json_get(one, "shape")),
                     !!checkpoint_find(c, "model.layers.0.self_attn.k_proj.bias") +
                         !!checkpoint_find(c, "model.layers.0.self_attn.v_proj.bias"));
    cJSON_ArrayForEach(shape, json_get(one, "shape"))
    {
        const struct safetensor *t = checkpoint_find(c, shape->string);
        if (!t) fail_msg("%s: no %s", one->string, shape->string);
        assert_int_equal(t->shape[0], cJSON_GetArrayItem(shape, 0)->valuedouble);
        assert_int_equal(t->shape[1], cJSON_GetArrayItem(shape, 1)->valuedouble);
        const int64_t n = t->shape[0] * t->shape[1];
        float *exact = xreallocarray(NULL, (size_t)n, sizeof *exact);
        // Rows read one by one equal rows read at once.
        for (int64_t r = 0; r < t->shape[0]; r++) quantised_rows(t, r, 1, exact + r * t->shape[1]);
        check_kept(c, one, t, exact, n);
        check_numbers(all, one, t->name, exact, n);
        quantised_rows(t, 0, t->shape[0], exact);
        check_numbers(all, one, t->name, exact, n);
        free(exact);
    }
    checkpoint_close(c);
    scratch_remove(folder);
}

static void check_file(const char *name, int least)
{
    struct err err;
    char *path = xasprintf("build/goldens/quantised/%s.safetensors", name);
    struct safetensors *all = safetensors_open(path, &err);
    if (!all) fail_msg("%s", err.text);
    free(path);
    path = xasprintf("build/goldens/quantised/%s.json", name);
    cJSON *cases = json_read(path, 1 << 24, &err), *one;
    if (!cases) fail_msg("%s", err.text);
    free(path);
    cJSON_ArrayForEach(one, cases) check_case(all, one);
    assert_true(cJSON_GetArraySize(cases) >= least);
    cJSON_Delete(cases);
    safetensors_close(all);
}

static void numbers_are_those_of_the_libraries(void **state)
{
    check_file("extracts", 22);
}

static void other_shapes_and_options_too(void **state)
{
    check_file("variants", 37);
}

// --- tensors that are not read -------------------------------------------------------------------

#define CT(more)   "{\"quantization_config\": {\"quant_method\": \"compressed-tensors\"" more "}}"
#define AWQ(more)  "{\"quantization_config\": {\"quant_method\": \"awq\", " more "}}"
#define GPTQ(more) "{\"quantization_config\": {\"quant_method\": \"gptq\", " more "}}"
#define MLX(more)  "{\"quantization\": {" more "}}"

// Other formats, damaged folders and wrong indices are refused, with a message that names the
// cause.
static const struct edit refused[] = {
    { "awq groups", AWQ("\"version\": \"gemv\""), .message = "AWQ's version 'gemv'" },
    { "awq groups", AWQ("\"bits\": 8"), .message = "AWQ with 8 bits" },
    { "awq groups", .drop = "m.qzeros", .message = "no tensor 'm.qzeros'" },
    { "awq groups", .drop = "m.scales", .message = "these are INT4 (AWQ) weights" },
    { "awq groups", "{}", .message = "these are INT4 or INT8 (GPTQ or AWQ) weights" },
    { "awq groups", GPTQ("\"bits\": 4"), .message = "'m.qzeros' does not fit 'm.qweight'" },
    { "gptq zero points", GPTQ("\"checkpoint_format\": \"marlin\""), .message = "form 'marlin'" },
    { "gptq zero points", GPTQ("\"pack_dtype\": \"int16\""), .message = "words of type int16" },
    { "gptq zero points", .patch = "m.g_idx", .byte = 3, .message = "column 0 into group 3 of 3" },
    { "gptq zero points", .patch = "m.g_idx", .at = 3, .byte = 0x80, .message = "column 0 into" },
    { "packed in order", .patch = "m.weight_g_idx", .byte = 0xff, .count = 4,
      .message = "1 of 64 columns into no group" },
    { "packed any order", .patch = "m.weight_g_idx", .at = 1, .byte = 9, .message = "into group" },
    { "packed rows", .patch = "m.weight_shape", .at = 1, .byte = 1, .message = "neither 4 nor 8" },
    { "packed rows", .patch = "m.weight_shape", .at = 15, .byte = 0x80, .message = "at most" },
    { "packed rows", .patch = "m.weight_shape", .at = 12, .byte = 1, .message = "at most" },
    { "packed rows", .drop = "m.weight_shape", .message = "weights (\"quantization_config\"" },
    { "packed rows", CT(", \"transform_config\": {\"config_groups\": {\"R1\": {}}}"),
      .message = "\"transform_config\" of config.json" },
    { "fp8 exponents", CT(), .message = "quantised (compressed-tensors) weights" },
    { "fp8 exponents of groups", CT(), .message = "MXFP8" },
    { "fp8 edges", "{\"quantization_config\": {\"quant_method\": \"modelopt\"}}",
      .message = "(modelopt)" },
    { "fp8 edges", "{\"quantization_config\": {\"quant_method\": \"fp8\"}}",
      .message = "does not fit" },
    { "fp8 edges", "{}", .message = "these are FP8 in blocks weights" },
    { "fp8 rows", .base = "layers.0.mlp.experts.3.up_proj",
      .message = "is an expert in the format" },
    { "mlx f16", MLX("\"bits\": 4, \"group_size\": 32, \"mode\": \"mxfp4\""),
      .message = "MLX's mode 'mxfp4'" },
    { "mlx f16", MLX("\"bits\": 3, \"group_size\": 32"), .message = "3 bits" },
    { "mlx f16", MLX("\"bits\": 8, \"group_size\": 32"), .message = "does not fit" },
    { "mlx f16", .base = "model.layers.1.mlp.switch_mlp.up_proj", .message = "is an expert" },
    { "int8 one scale", .empty = "m.weight_scale", .message = "does not fit" },
    { "llm.int8", .patch = "m.weight_format", .byte = 1, .message = "layout that is not 'row'" },
    { "llm.int8", .drop = "m.SCB", .message = "these are INT8 (bitsandbytes) weights" },
    { "fp4", .drop = "m.weight.absmax", .message = "no tensor 'm.weight.absmax'" },
    { "nf4 nested, in f32", .drop = "m.weight.nested_absmax", .message = "nested_absmax" },
    { "nf4 across rows", .patch = "m.weight.quant_state.bitsandbytes__nf4", .byte = '[',
      .message = "quant_state" },
};

static void open_cases(struct safetensors **all, cJSON **cases)
{
    struct err err;
    *all = safetensors_open("build/goldens/quantised/variants.safetensors", &err);
    if (!*all) fail_msg("%s", err.text);
    if (!(*cases = json_read("build/goldens/quantised/variants.json", 1 << 24, &err)))
        fail_msg("%s", err.text);
}

static void others_are_refused_by_name(void **state)
{
    struct safetensors *all;
    cJSON *cases;
    open_cases(&all, &cases);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const struct edit *e = &refused[i];
        struct err err = { 0 };
        char *folder = write_case(all, json_get(cases, e->name), e);
        struct checkpoint *c = checkpoint_open(folder, NULL, &err);
        if (c) fail_msg("%s: opens instead of '%s'", e->name, e->message);
        if (!strstr(err.text, e->message))
            fail_msg("%s: '%s' does not contain '%s'", e->name, err.text, e->message);
        scratch_remove(folder);
    }
    cJSON_Delete(cases);
    safetensors_close(all);
}

// float8_e4m3fn has no infinities: 0x7f and 0xff are NaN, 0x78 is 256.
static void fp8_has_nan_but_no_infinity(void **state)
{
    static const struct {
        int byte;
        float value;
    } codes[] = { { 0x7f, NAN }, { 0xff, NAN }, { 0x78, 256 }, { 0xfe, -448 }, { 1, 0x1p-9f } };
    struct safetensors *all;
    cJSON *cases;
    open_cases(&all, &cases);
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        const struct edit edits[] = { { .patch = "m.weight", .byte = codes[i].byte },
                                      { .patch = "m.weight", .byte = 0x38 } }; // 1
        float x[2][20];
        for (int k = 0; k < 2; k++) {
            struct err err;
            char *folder = write_case(all, json_get(cases, "fp8 one of one"), &edits[k]);
            struct checkpoint *c = checkpoint_open(folder, NULL, &err);
            if (!c) fail_msg("%s", err.text);
            quantised_rows(checkpoint_find(c, "m.weight"), 0, 1, x[k]);
            checkpoint_close(c);
            scratch_remove(folder);
        }
        assert_true(isnan(codes[i].value) ? isnan(x[0][0]) : x[0][0] == codes[i].value * x[1][0]);
    }
    cJSON_Delete(cases);
    safetensors_close(all);
}

// A group of zeros may have any scale, even one that half precision cannot hold.
static void zeros_stay_zeros_under_a_large_scale(void **state)
{
    struct err err;
    struct tensor kept;
    struct arena arena = { .backend = backend_cpu() };
    struct safetensors *all;
    cJSON *cases;
    open_cases(&all, &cases);
    const struct edit edit = {
        .fill = "m.weight_packed", .with = 0x88, .patch = "m.weight_scale", .at = 3, .byte = 0x4b
    };
    char *folder = write_case(all, json_get(cases, "packed f32 scales"), &edit);
    struct checkpoint *c = checkpoint_open(folder, NULL, &err);
    if (!c) fail_msg("%s", err.text);
    const struct safetensor *t = checkpoint_find(c, "m.weight");
    if (checkpoint_tensor(c, t->name, 2, t->shape, &arena, &kept, &err) < 0)
        fail_msg("%s", err.text);
    float numbers[20 * 64];
    floats_from(numbers, kept.data, kept.dtype, 20 * 64);
    for (int i = 0; i < 20 * 64; i++) assert_true(numbers[i] == 0);
    arena_release(&arena);
    checkpoint_close(c);
    scratch_remove(folder);
    cJSON_Delete(cases);
    safetensors_close(all);
}

// A wide row, each of whose groups has a scale that f16 cannot hold and that multiplies only zeros.
static void a_wide_row_is_read_once(void **state)
{
    enum { COLUMNS = 1 << 19, GROUPS = COLUMNS / 32 };
    static const char config[] = "{\"quantization_config\": {\"quant_method\": "
                                 "\"compressed-tensors\", \"config_groups\": {}}}";
    struct err err;
    char *folder = scratch_new(), *path = xasprintf("%s/model.safetensors", folder);
    uint8_t *codes = xmalloc(COLUMNS / 2);
    float *scales = xreallocarray(NULL, GROUPS, sizeof *scales);
    const int64_t shape[] = { 1, COLUMNS };
    memset(codes, 0x88, COLUMNS / 2);
    for (int i = 0; i < GROUPS; i++) scales[i] = 1e-20F;
    scratch_text(folder, "config.json", config);
    struct safetensors_writer *w = safetensors_writer_new(path);
    safetensors_writer_declare_type(w, "m.weight_packed", "I32", 4, 2,
                                    (int64_t[]){ 1, COLUMNS / 8 });
    safetensors_writer_declare_type(w, "m.weight_shape", "I64", 8, 1, (int64_t[]){ 2 });
    safetensors_writer_declare(w, "m.weight_scale", DTYPE_F32, 2, (int64_t[]){ 1, GROUPS });
    safetensors_writer_data(w, codes, COLUMNS / 2, &err);
    safetensors_writer_data(w, shape, sizeof shape, &err);
    safetensors_writer_data(w, scales, GROUPS * sizeof *scales, &err);
    if (safetensors_writer_finish(w, &err) < 0) fail_msg("%s", err.text);
    const clock_t before = clock();
    struct checkpoint *c = checkpoint_open_unread(folder, &err);
    const double seconds = processor_seconds(before);
    if (!c) fail_msg("%s", err.text);
    assert_int_equal(checkpoint_find(c, "m.weight")->dtype, DTYPE_Q4_0);
    checkpoint_close(c);
    free(codes);
    free(scales);
    free(path);
    scratch_remove(folder);
    if (seconds > QUICK) fail_msg("a row of %d columns took %g s", COLUMNS, seconds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_those_of_the_libraries),
        cmocka_unit_test(other_shapes_and_options_too),
        cmocka_unit_test(others_are_refused_by_name),
        cmocka_unit_test(fp8_has_nan_but_no_infinity),
        cmocka_unit_test(zeros_stay_zeros_under_a_large_scale),
        cmocka_unit_test(a_wide_row_is_read_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
