// tests/core/files/quantised.c -- matrices of quantised folders: the numbers of the formats' own
// libraries (extracts) and of numpy (variants), what is kept in memory, and what is refused.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
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
#include "tests/core/scratch.h"

// --- cases ---------------------------------------------------------------------------------------

static size_t element(const struct safetensor *t)
{
    return t->bytes / (size_t)safetensor_count(t);
}

// Writes the folder of a case, with its tensors "CASE/NAME", split among two files.
static char *write_case(const struct safetensors *all, const cJSON *one)
{
    struct err err;
    char *folder = scratch_new(), *start = xasprintf("%s/", one->string), *text;
    const cJSON *beside = json_get(one, "quantize_config");
    text = json_print(json_get(one, "config"));
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
                const char *name = t->name + strlen(start);
                if (strncmp(t->name, start, strlen(start)) != 0 || !strncmp(name, "w.", 2) ||
                    (strlen(name) + (size_t)i) % 2 != (size_t)part)
                    continue;
                if (!give) {
                    safetensors_writer_declare_type(w, name, t->type, element(t), t->rank,
                                                    t->shape);
                    buf_printf(&map, "%s\"%s\": \"model-%d.safetensors\"", map.length ? "," : "",
                               name, part);
                } else if (safetensors_writer_data(w, t->data, t->bytes, &err) < 0) {
                    fail_msg("%s", err.text);
                }
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
            fail_msg("%s: other numbers, from %g %g %g", one->string, ours[0], ours[1], ours[2]);
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

// The matrix in memory has the exact numbers in blocks, or the rounded ones.
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
    char *folder = write_case(all, one);
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
        // Rows one by one are the same as all at once.
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_those_of_the_libraries),
        cmocka_unit_test(other_shapes_and_options_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
