// tests/core/adapter/model_write.c -- core/adapter/model_write.c, core/train/result.c and
// core/base/dtype.c: a merged or trained model answers from its folder as it did in memory; values
// are rounded to the nearest.
#include "core/adapter/model_write.h"
#include "core/base/dtype.h"
#include "core/files/safetensors.h"
#include "core/train/params.h"
#include "core/train/result.h"
#include "tests/core/adapter/adapter.h"
#include "tests/device.h"

static void a_merged_model_answers_as_the_adapter_does(void **state)
{
    struct err err;
    struct merge_report report;
    struct model *m = load(LLAVA);
    struct adapter *a = read_folder(LORA, m);
    char *folder = scratch_new(), *out = xasprintf("%s/merged", folder);
    adapter_apply(a);
    must(model_write(m, NULL, 0, out, &report, &err), &err);
    assert_true(report.difference > 0 && report.difference < 0.1); // rounded to f16
    assert_int_equal(model_write(m, NULL, 0, out, &report, &err), -1);

    struct model *merged = load(out);
    struct logits x = logits_of(m), y = logits_of(merged);
    for (int64_t i = 0; i < x.rows * x.vocab; i++) assert_float_equal(x.x[i], y.x[i], 0.1);
    free(x.x);
    free(y.x);
    // Names, types and weights without LoRA are unchanged.
    assert_int_equal(merged->checkpoint->tensor_count, m->checkpoint->tensor_count);
    int64_t changed = 0;
    for (int64_t i = 0; i < m->checkpoint->tensor_count; i++) {
        const struct safetensor *s = m->checkpoint->tensors[i], *t = merged->checkpoint->tensors[i];
        assert_string_equal(s->name, t->name);
        assert_string_equal(s->type, t->type);
        changed += memcmp(s->data, t->data, s->bytes) != 0;
    }
    assert_int_equal(changed, 28);
    model_free(merged);
    adapter_remove(a);
    free(out);

    // Without an adapter the files are equal byte for byte.
    out = xasprintf("%s/same", folder);
    must(model_write(m, NULL, 0, out, NULL, &err), &err);
    merged = load(out);
    assert_string_equal(merged->checkpoint->fingerprint, m->checkpoint->fingerprint);
    assert_memory_equal(merged->checkpoint->shards[0]->map, m->checkpoint->shards[0]->map,
                        m->checkpoint->shards[0]->size);
    model_free(merged);
    adapter_free(a);
    model_free(m);
    free(out);
    scratch_remove(folder);
}

static void numbers_are_rounded_to_the_nearest(void **state)
{
    for (uint32_t h = 0; h < 65536; h++)
        for (int d = 0; d < 2; d++) {
            enum dtype dtype = d ? DTYPE_BF16 : DTYPE_F16;
            uint16_t in = (uint16_t)h, out;
            float x;
            floats_from(&x, &in, dtype, 1);
            floats_to(&out, dtype, &x, 1);
            if (isnan(x)) continue;
            assert_int_equal(in, out);
            // A value half-way to the next one is rounded to even; one slightly beyond, to the
            // next one.
            uint16_t next = (uint16_t)(in + 1);
            float y;
            floats_from(&y, &next, dtype, 1);
            if ((h & 0x7fff) == 0x7fff || !isfinite(y) || !isfinite(x)) continue;
            float half = x + (y - x) / 2, more = nextafterf(half, y);
            floats_to(&out, dtype, &half, 1);
            assert_int_equal(out, in & 1 ? next : in);
            floats_to(&out, dtype, &more, 1);
            assert_int_equal(out, next);
        }
    float large = 65520;
    uint16_t out;
    floats_to(&out, DTYPE_F16, &large, 1);
    assert_int_equal(out, 0x7c00);
}

// --- after training ------------------------------------------------------------------------------

static struct logits saved_logits(const char *folder, bool whole)
{
    struct model *m = load(whole ? folder : LLAVA);
    struct adapter *a = whole ? NULL : read_folder(folder, m);
    if (a) adapter_apply(a);
    struct logits l = logits_of(m);
    adapter_free(a);
    model_free(m);
    return l;
}

static void trained_parameters_are_saved(void **state)
{
    static const char *const methods[] = { "layernorm", "lora", "connector", "qv", "all" };
    struct err err;
    char *folder = scratch_new();
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        bool whole = !strcmp(methods[i], "all");
        struct model *m = load(LLAVA);
        struct params p = { .backend = test_device() };
        struct settings *s = settings_new();
        must(settings_set(s, "train.method", methods[i], &err), &err);
        must(params_open(&p, m, s, &err), &err);
        for (size_t k = 0; k < p.count; k++) {
            float *x = p.list[k].tensor->data;
            for (int64_t n = 0; n < p.list[k].count; n++) x[n] += 0.05f * noise();
            if (whole) // rounded to its type
                for (int64_t n = 0; n < p.list[k].count; n++) {
                    uint16_t half;
                    floats_to(&half, DTYPE_F16, &x[n], 1);
                    floats_from(&x[n], &half, DTYPE_F16, 1);
                }
        }
        model_weights_changed(m);
        char *out = xasprintf("%s/%s", folder, methods[i]);
        const char *what;
        assert_int_equal(p.whole, whole);
        mkdir(out, 0777);
        // Writes twice, like a job that is resumed after it was killed behind the first write.
        must(result_write(out, &p, NULL, &what, &err), &err);
        must(result_write(out, &p, NULL, &what, &err), &err);
        assert_string_equal(what, whole ? "model" : "adapter");
        struct logits a = logits_of(m), b = saved_logits(out, whole);
        for (int64_t k = 0; k < a.rows * a.vocab; k++)
            if (!(fabsf(a.x[k] - b.x[k]) <= 1e-4f))
                fail_msg("%s: logit %lld is %g, was %g", methods[i], (long long)k, (double)b.x[k],
                         (double)a.x[k]);
        free(a.x);
        free(b.x);
        free(out);
        params_release(&p);
        settings_free(s);
        model_free(m);
    }
    scratch_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_merged_model_answers_as_the_adapter_does),
        cmocka_unit_test(trained_parameters_are_saved),
        cmocka_unit_test(numbers_are_rounded_to_the_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
