// tests/core/engine/arithmetic.c -- setting compute.matmul: the meaning of `auto` on a device for a
// model's weights, and the arithmetic really used; a change gives the results of a fresh run.
#include "core/base/mem.h"
#include "core/graph/graph.h"
#include "tests/core/model/families/golden.h"

static void set(struct golden *g, const char *value)
{
    struct err err = { 0 };
    must(engine_set(g->engine, "compute.matmul", value, &err), &err);
}

// --- resolving auto ------------------------------------------------------------------------------

static bool yes(void)
{
    return true;
}

static bool no(void)
{
    return false;
}

static void the_weights_and_the_device_decide(void **state)
{
    (void)state;
    const struct backend old = { 0 }, without = { .multiplies_bf16 = no, .favours_bf16 = no },
                         slow = { .multiplies_bf16 = yes, .favours_bf16 = no },
                         with = { .multiplies_bf16 = yes, .favours_bf16 = yes },
                         gpu = { .own_memory = true };
    static const enum matmul_mode f32 = MATMUL_F32, bf16 = MATMUL_BF16;
    const struct {
        const struct backend *on;
        enum matmul_mode of[3][4]; // [auto, f32, bf16][weights f32, f16, bf16, q4_k]
    } cases[] = {
        { &old, { { f32, f32, f32, f32 }, { f32, f32, f32, f32 }, { f32, f32, f32, f32 } } },
        { &without, { { f32, f32, f32, f32 }, { f32, f32, f32, f32 }, { f32, f32, f32, f32 } } },
        { &slow, { { f32, f32, f32, f32 }, { f32, f32, f32, f32 }, { bf16, bf16, bf16, bf16 } } },
        { &with, { { f32, f32, bf16, bf16 }, { f32, f32, f32, f32 }, { bf16, bf16, bf16, bf16 } } },
        { &gpu,
          { { bf16, bf16, bf16, bf16 }, { f32, f32, f32, f32 }, { bf16, bf16, bf16, bf16 } } },
    };
    static const char *const values[] = { "auto", "f32", "bf16" };
    static const enum dtype dtypes[] = { DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_Q4_K };
    struct settings *s = settings_new();
    struct err err = { 0 };
    assert_string_equal(settings_text(s, "compute.matmul"), "auto");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int v = 0; v < 3; v++)
            for (int d = 0; d < 4; d++) {
                must(settings_set(s, "compute.matmul", values[v], &err), &err);
                if (graph_matmul(cases[i].on, s, dtypes[d]) != cases[i].of[v][d])
                    fail_msg("device %zu, %s, weights %d", i, values[v], d);
                assert_int_equal(graph_matmul(cases[i].on, NULL, dtypes[d]), MATMUL_F32);
            }
    settings_free(s);
    assert_string_equal(graph_precision(MATMUL_F32), "f32");
    assert_string_equal(graph_precision(MATMUL_BF16), "bf16");
}

static void a_model_reports_its_dtype(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum dtype dtype;
    } all[] = { { "llava-1.5", DTYPE_F16 },
                { "llava-siglip-llama3", DTYPE_BF16 },
                { "llama-3.2", DTYPE_BF16 },
                { "qwen2", DTYPE_BF16 },
                // with an f32 filter
                { "qwen3.5", DTYPE_BF16 },
                { "qwen3.5-moe", DTYPE_BF16 },
                { "minicpm-v-4.6", DTYPE_BF16 } };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct golden g;
        golden_open(&g, all[i].name);
        assert_int_equal(engine_model(g.engine)->dtype, all[i].dtype);
        golden_close(&g);
    }
}

// --- results -------------------------------------------------------------------------------------

static void add_numbers(struct buf *b, const struct tensor *t)
{
    const size_t bytes = tensor_bytes(t);
    char *host = xmalloc(bytes + 1);
    test_device()->download(host, t->data, bytes);
    buf_add(b, host, bytes);
    free(host);
}

// Returns the visual tokens and the last layer's values after an answer or, if `again`, after the
// answer has been generated once more. The caller frees them.
static char *computed(struct golden *g, bool again, size_t *bytes)
{
    const struct conversation *c = engine_conversation(g->engine);
    struct err err = { 0 };
    struct buf b = { 0 };
    if (!again) {
        must(engine_set(g->engine, "sample.max_tokens", "4", &err), &err);
        must(engine_attach(g->engine, "tests/goldens/pictures/scene.png", &err), &err);
    }
    must(again ? engine_regenerate(g->engine, &err)
               : engine_ask(g->engine, "What can be seen in this picture, and where?", &err),
         &err);
    const struct kv_layer *last = &c->kv.layer[c->kv.layers - 1];
    struct tensor values = last->v;
    values.shape[0] = last->rows;
    add_numbers(&b, c->pictures[0].visual);
    add_numbers(&b, &values);
    *bytes = b.length;
    return buf_take(&b);
}

static char *fresh(const char *model, const char *value, size_t *bytes)
{
    struct golden g;
    golden_open(&g, model);
    set(&g, value);
    char *numbers = computed(&g, false, bytes);
    golden_close(&g);
    return numbers;
}

static bool same(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    return a_bytes == b_bytes && !memcmp(a, b, a_bytes);
}

// auto gives the bits of the arithmetic that it resolves to; two arithmetics give different bits.
static void check_auto(const char *model, enum dtype dtype)
{
    struct settings *s = settings_new();
    size_t bytes[3];
    char *of[] = { fresh(model, "auto", &bytes[0]), fresh(model, "f32", &bytes[1]),
                   fresh(model, "bf16", &bytes[2]) };
    const enum matmul_mode is = graph_matmul(test_device(), s, dtype);
    struct err err = { 0 };
    must(settings_set(s, "compute.matmul", "bf16", &err), &err);
    const bool two = graph_matmul(test_device(), s, dtype) == MATMUL_BF16;
    const int stands = is == MATMUL_BF16 ? 2 : 1;
    assert_true(same(of[0], bytes[0], of[stands], bytes[stands]));
    assert_int_equal(same(of[1], bytes[1], of[2], bytes[2]), !two);
    for (int i = 0; i < 3; i++) free(of[i]);
    settings_free(s);
}

static void auto_equals_the_chosen_value(void **state)
{
    (void)state;
    check_auto("llava-1.5", DTYPE_F16);
    check_auto("llava-siglip-llama3", DTYPE_BF16);
}

// Pictures are computed again too, because they were encoded in the old arithmetic.
static void a_change_is_a_fresh_run(void **state)
{
    (void)state;
    static const char *const to[] = { "bf16", "f32" };
    struct golden g;
    size_t bytes, wanted_bytes;
    if (!test_multiplies_bf16("a change of arithmetic")) skip();
    golden_open(&g, "llava-siglip-llama3");
    free(computed(&g, false, &bytes));
    for (int i = 0; i < 2; i++) {
        set(&g, to[i]);
        char *now = computed(&g, true, &bytes), *wanted = fresh(g.name, to[i], &wanted_bytes);
        if (!same(now, bytes, wanted, wanted_bytes))
            fail_msg("results differ after a change to %s", to[i]);
        free(now);
        free(wanted);
    }
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_weights_and_the_device_decide),
        cmocka_unit_test(a_model_reports_its_dtype),
        cmocka_unit_test(auto_equals_the_chosen_value),
        cmocka_unit_test(a_change_is_a_fresh_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
