// tests/cuda/frozen.c -- core/train/frozen.c: frozen weights are rounded on the GPU during
// training, files written meanwhile hold the exact weights, and all weights are restored at the
// end.
#include "core/train/frozen.h"

#include "core/adapter/model_write.h"
#include "core/base/dtype.h"
#include "core/files/safetensors.h"
#include "core/train/params.h"
#include "tests/core/adapter/adapter.h"

// Expects the file's f16 weights on the GPU, or their rounded values.
static void check_numbers(const struct model *m, const struct weight *w)
{
    const struct safetensor *s = checkpoint_find(m->checkpoint, w->name);
    const size_t n = (size_t)tensor_count(w->tensor);
    uint16_t *there = xcalloc(n, sizeof *there), *want = xcalloc(n, sizeof *want);
    float *wide = xcalloc(n, sizeof *wide);
    backend_of(test_device(), w->tensor)->download(there, w->tensor->data, n * sizeof *there);
    floats_from(wide, s->data, DTYPE_F16, n);
    floats_to(want, w->tensor->dtype, wide, n);
    if (memcmp(there, want, n * sizeof *there)) fail_msg("%s: the numbers differ", w->name);
    free(there);
    free(want);
    free(wide);
}

// Counts the rounded weights, which must be matrices of the decoder.
static int count_rounded(const struct model *m)
{
    int count = 0;
    for (size_t i = 0; i < m->weights.count; i++) {
        const struct weight *w = &m->weights.list[i];
        if (w->tensor->dtype == DTYPE_F32) continue;
        assert_int_equal(w->tensor->dtype, w->rounded ? DTYPE_BF16 : DTYPE_F16);
        if (w->rounded) assert_true(w->part == PART_DECODER && w->linear);
        check_numbers(m, w);
        count += w->rounded;
    }
    return count;
}

static void matrices_of_the_decoder_are_rounded_for_a_while(void **state)
{
    struct err err;
    struct model *m = load(LLAVA);
    struct params p = { .backend = test_device() };
    struct settings *s = settings_new();
    const int all = 7 * m->decoder.config.layers;
    assert_int_equal(count_rounded(m), 0);
    must(frozen_round(m, NULL, &err), &err);
    assert_int_equal(count_rounded(m), all);
    frozen_restore(m);
    assert_int_equal(count_rounded(m), 0);

    // With trained queries and values, five matrices of each layer remain.
    must(
        settings_set(s, "train.params", "*self_attn.q_proj.weight; *self_attn.v_proj.weight", &err),
        &err);
    must(params_open(&p, m, s, &err), &err);
    must(frozen_round(m, NULL, &err), &err);
    assert_int_equal(count_rounded(m), all / 7 * 5);
    params_release(&p);
    frozen_restore(m);
    assert_int_equal(count_rounded(m), 0);
    settings_free(s);
    model_free(m);
}

// Expects two models' files to be identical.
static void check_same_files(const char *a, const char *b)
{
    struct err err;
    struct model *one = model_load(a, backend_cpu(), NULL, &err);
    struct model *two = model_load(b, backend_cpu(), NULL, &err);
    if (!one || !two) fail_msg("%s", err.text);
    const struct safetensors *x = one->checkpoint->shards[0], *y = two->checkpoint->shards[0];
    assert_int_equal(x->size, y->size);
    assert_memory_equal(x->map, y->map, x->size);
    model_free(one);
    model_free(two);
}

static void models_written_meanwhile_are_exact(void **state)
{
    struct err err;
    struct model *m = load(LLAVA);
    char *folder = scratch_new(), *out[3];
    for (int i = 0; i < 3; i++) out[i] = xasprintf("%s/%d", folder, i);
    struct adapter *a = read_folder(LORA, m);
    adapter_apply(a);
    must(model_write(m, NULL, 0, out[0], NULL, &err), &err); // includes LoRA
    must(frozen_round(m, NULL, &err), &err);
    must(model_write(m, NULL, 0, out[1], NULL, &err), &err);
    check_same_files(out[0], out[1]);
    adapter_remove(a);
    must(model_write(m, NULL, 0, out[2], NULL, &err), &err);
    check_same_files(LLAVA, out[2]);
    adapter_free(a);
    model_free(m);
    for (int i = 0; i < 3; i++) free(out[i]);
    scratch_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrices_of_the_decoder_are_rounded_for_a_while),
        cmocka_unit_test(models_written_meanwhile_are_exact),
    };
    setenv("TEST_DEVICE", "cuda", 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
