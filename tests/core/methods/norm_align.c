// tests/core/methods/norm_align.c -- core/methods/norm_align.c against the reference's aligned
// tokens, last hidden states and logits; the controls against their formulas; switched on and off;
// text-only models.
#include "tests/core/model/families/golden.h"

static const char *const models[] = { GOLDEN_TRAINED };

static void set(struct golden *g, const char *key, const char *value)
{
    struct err err = { 0 };
    must(engine_set(g->engine, key, value, &err), &err);
}

static void each_init_equals_the_reference(void **state)
{
    static const char *const inits[] = { "text", "default" };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        for (size_t k = 0; k < sizeof inits / sizeof *inits; k++) {
            struct golden g;
            char name[64];
            golden_open(&g, models[i]);
            set(&g, "norm.align", "on");
            set(&g, "norm.init", inits[k]);
            struct safetensors *f = answer(&g, chat_named(&g, "single"), 1, "*");
            compare_all(&g, f, "visual.0", "fwd.visual_tokens");
            snprintf(name, sizeof name, "norm_align.%s.visual_tokens", inits[k]);
            compare_all(&g, f, "visual_aligned.0", name);
            snprintf(name, sizeof name, "norm_align.%s.h_last", inits[k]);
            compare_all(&g, f, "layer.out", name);
            snprintf(name, sizeof name, "norm_align.%s.logits_last", inits[k]);
            check_last(&g, f, name);
            safetensors_close(f);
            golden_close(&g);
        }
}

// Each visual token gets the mean norm of the text embeddings.
static void tokens_get_the_norm_of_text(void **state)
{
    struct golden g;
    golden_open(&g, models[0]);
    set(&g, "norm.align", "on");
    struct safetensors *f = answer(&g, chat_named(&g, "single"), 1, "visual_aligned.0");
    const struct safetensor *v = safetensors_find(f, "visual_aligned.0");
    const struct safetensor *target = safetensors_find(g.tensors, "norm_align.T");
    for (int64_t i = 0; i < v->shape[0]; i++) {
        double squares = 0;
        for (int64_t k = 0; k < v->shape[1]; k++)
            squares += pow(((const float *)v->data)[i * v->shape[1] + k], 2);
        assert_true(fabs(sqrt(squares) - (double)*(const float *)target->data) < 1e-3);
    }
    safetensors_close(f);
    golden_close(&g);
}

// Each control equals its formula over the unaligned tokens; norm.target sets the norm.
static void controls_equal_their_formulas(void **state)
{
    static const char *const forms[] = { "layernorm", "rms", "scale" };
    struct golden g;
    golden_open(&g, models[0]);
    set(&g, "norm.align", "on");
    set(&g, "norm.target", "5");
    for (int form = 0; form < 3; form++) {
        set(&g, "norm.form", forms[form]);
        struct safetensors *f = answer(&g, chat_named(&g, "single"), 1, "visual*");
        const struct safetensor *v = safetensors_find(f, "visual.0");
        const struct safetensor *to = safetensors_find(f, "visual_aligned.0");
        const int64_t n = v->shape[0], width = v->shape[1];
        const float *x = v->data, *y = to->data;
        double all = 0;
        for (int64_t i = 0; i < n; i++) {
            double squares = 0;
            for (int64_t k = 0; k < width; k++) squares += pow((double)x[i * width + k], 2);
            all += sqrt(squares / (double)width + 1e-5) / (double)n;
        }
        for (int64_t i = 0; i < n; i++) {
            double mean = 0, squares = 0;
            for (int64_t k = 0; k < width && form == 0; k++)
                mean += (double)x[i * width + k] / (double)width;
            for (int64_t k = 0; k < width; k++) squares += pow((double)x[i * width + k] - mean, 2);
            const double by = form == 2 ? all : sqrt(squares / (double)width + 1e-5);
            for (int64_t k = 0; k < width; k++)
                assert_float_equal(y[i * width + k],
                                   ((double)x[i * width + k] - mean) / by * 5 / sqrt((double)width),
                                   2e-4);
        }
        safetensors_close(f);
    }
    golden_close(&g);
}

// Switched on and off again, the method changes no bit; switching it on keeps the encoded picture.
static void switching_off_restores_every_bit(void **state)
{
    struct golden g;
    golden_open(&g, models[0]);
    struct safetensors *f = answer(&g, chat_named(&g, "single"), 8, "step.logits");
    const struct safetensor *t = safetensors_find(f, "step.logits");
    float *before = malloc(t->bytes);
    memcpy(before, t->data, t->bytes);
    safetensors_close(f);
    set(&g, "norm.align", "on");
    const void *visual = engine_conversation(g.engine)->pictures[0].visual;
    assert_non_null(visual);
    // Rows before the picture are not stale.
    assert_int_equal(sequence_visual_count(&engine_conversation(g.engine)->cached, 0), 0);
    f = answer(&g, chat_named(&g, "single"), 8, "step.logits");
    t = safetensors_find(f, "step.logits");
    assert_memory_not_equal(before, t->data, t->bytes);
    safetensors_close(f);
    set(&g, "norm.align", "off");
    f = answer(&g, chat_named(&g, "single"), 8, "step.logits");
    t = safetensors_find(f, "step.logits");
    assert_memory_equal(before, t->data, t->bytes);
    safetensors_close(f);
    free(before);
    golden_close(&g);
}

static void a_text_model_has_nothing_to_align(void **state)
{
    struct golden g;
    struct err err = { 0 };
    golden_open(&g, "qwen2");
    assert_int_equal(engine_set(g.engine, "norm.align", "on", &err), -1);
    assert_non_null(strstr(err.text, "text-only"));
    assert_false(settings_flag(engine_settings(g.engine), "norm.align"));
    golden_close(&g);
}

// If it is set on a vision model, loading a text-only model switches it off.
static void loading_a_text_model_falls_back(void **state)
{
    struct golden g;
    struct err err = { 0 };
    golden_open(&g, models[0]);
    set(&g, "norm.align", "on");
    must(engine_load(g.engine, "tests/goldens/qwen2", &err), &err);
    assert_false(settings_flag(engine_settings(g.engine), "norm.align"));
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_init_equals_the_reference),
        cmocka_unit_test(tokens_get_the_norm_of_text),
        cmocka_unit_test(controls_equal_their_formulas),
        cmocka_unit_test(switching_off_restores_every_bit),
        cmocka_unit_test(a_text_model_has_nothing_to_align),
        cmocka_unit_test(loading_a_text_model_falls_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
