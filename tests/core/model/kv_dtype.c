// tests/core/model/kv_dtype.c -- setting kv.dtype: bf16 rounds cached values to nearest; a change
// equals a fresh run under pruning, IRA and norm alignment; probes read a cache in bf16, too.
#include <sys/stat.h>

#include "core/base/dtype.h"
#include "core/base/mem.h"
#include "core/model/layer.h"
#include "core/settings/changes.h"
#include "tests/core/probes/probe.h"

enum { TOKENS = 5 };

static void set(struct golden *g, const char *key, const char *value)
{
    struct err err = { 0 };
    must(engine_set(g->engine, key, value, &err), &err);
}

static struct safetensors *values_of(struct golden *g, const char *dtype)
{
    set(g, "kv.dtype", dtype);
    return answer(g, chat_named(g, "single"), 1, "attn.*.value,logits");
}

static float to_nearest(float x)
{
    uint16_t rounded;
    floats_to(&rounded, DTYPE_BF16, &x, 1);
    floats_from(&x, &rounded, DTYPE_BF16, 1);
    return x;
}

// In the first layer no earlier rounding interferes; /dump gives floats.
static void values_are_rounded_to_nearest(void **state)
{
    for (int m = 0; m < MODELS; m++) {
        struct golden g;
        golden_open(&g, models[m]);
        if (engine_model(g.engine)->decoder.config.kind->attention->expanded) {
            golden_close(&g); // it caches latents instead of values
            continue;
        }
        struct safetensors *f = values_of(&g, "f32");
        const struct safetensor *t = safetensors_find(f, "attn.0.value");
        const size_t bytes = (size_t)t->bytes, count = bytes / sizeof(float);
        float *exact = xmalloc(bytes);
        memcpy(exact, t->data, bytes);
        safetensors_close(f);

        f = values_of(&g, "bf16");
        t = safetensors_find(f, "attn.0.value");
        assert_int_equal(t->dtype, DTYPE_F32);
        assert_int_equal(t->bytes, bytes);
        const float *kept = t->data;
        for (size_t i = 0; i < count; i++) assert_true(kept[i] == to_nearest(exact[i]));
        free(exact);
        safetensors_close(f);
        golden_close(&g);
    }
}

// The settings of the conversations.
static const struct {
    const char *key[5][2];
} ways[] = {
    { { { "sample.seed", "0" } } },
    { { { "prune.score", "contribution" } } },
    { { { "prune.score", "norope" }, { "prune.layer", "1,2" }, { "prune.keep", "0.5,0.25" } } },
    { { { "prune.score", "attention" }, { "prune.mode", "dynamic" } } },
    { { { "prune.score", "contribution" }, { "prune.mode", "dynamic" }, { "prune.layer", "1" } } },
    { { { "ira.on", "on" }, { "ira.sample", "on" }, { "ira.gate", "on" } } },
    { { { "ira.on", "on" }, { "prune.score", "contribution" }, { "prune.layer", "2" } } },
    { { { "norm.align", "on" }, { "prune.score", "uniform" } } },
};
enum { WAYS = sizeof ways / sizeof *ways };

static char folder[256];

static void begin(struct golden *g, int way, const char *dtype)
{
    golden_open(g, models[0]);
    write_ira(g, folder);
    set(g, "adapter", folder);
    set(g, "ira.layers", "2-3");
    set(g, "sample.max_tokens", "5");
    set(g, "kv.dtype", dtype);
    struct change list[5];
    struct err err = { 0 };
    size_t count = 0;
    for (; count < 5 && ways[way].key[count][0]; count++)
        list[count] = (struct change){ ways[way].key[count][0], ways[way].key[count][1] };
    must(engine_set_all(g->engine, list, count, &err), &err);
}

// Asks two questions; the second one follows the first answer.
static void converse(struct golden *g)
{
    struct err err = { 0 };
    must(engine_attach(g->engine, "tests/goldens/pictures/scene.png", &err), &err);
    must(engine_ask(g->engine, "what is this?", &err), &err);
    must(engine_ask(g->engine, "and now", &err), &err);
}

static struct safetensors *again(struct golden *g)
{
    struct err err = { 0 };
    must(engine_dump(g->engine, "step.logits", g->dump, &err), &err);
    must(engine_regenerate(g->engine, &err), &err);
    struct safetensors *f = safetensors_open(g->dump, &err);
    if (!f) fail_msg("%s", err.text);
    return f;
}

static float *logits_of(struct golden *g, size_t *bytes)
{
    struct safetensors *f = again(g);
    const struct safetensor *t = safetensors_find(f, "step.logits");
    float *x = xmalloc((size_t)t->bytes);
    memcpy(x, t->data, (size_t)t->bytes);
    *bytes = (size_t)t->bytes;
    safetensors_close(f);
    return x;
}

// Switches one conversation from f32 to bf16 and back: in bf16 its logits have the bits of a
// conversation that was bf16 from the start, and in f32 again they are close to the first ones.
static void check_switching(int way)
{
    struct golden g, fresh;
    size_t bytes[4];
    begin(&g, way, "f32");
    converse(&g);
    const struct conversation *c = engine_conversation(g.engine);
    float *first = logits_of(&g, &bytes[0]);
    const uint64_t size = kv_bytes(&c->kv);
    set(&g, "kv.dtype", "bf16");
    assert_int_equal(c->cached.n, 0);
    float *narrow = logits_of(&g, &bytes[1]);
    assert_int_equal(c->kv.layer[0].k.dtype, DTYPE_BF16);
    assert_int_equal(kv_bytes(&c->kv), size / 2);

    // The fresh conversation gets the messages, whose first answer was computed in f32.
    begin(&fresh, way, "bf16");
    struct err err = { 0 };
    must(engine_attach(fresh.engine, "tests/goldens/pictures/scene.png", &err), &err);
    for (size_t i = 0; i < c->message_count; i++)
        must(engine_add_message(fresh.engine, &c->messages[i], &err), &err);
    float *afresh = logits_of(&fresh, &bytes[2]);
    assert_int_equal(bytes[1], bytes[2]);
    assert_memory_equal(narrow, afresh, bytes[1]);

    set(&g, "kv.dtype", "f32");
    float *last = logits_of(&g, &bytes[3]);
    assert_int_equal(bytes[0], bytes[3]);
    for (size_t i = 0; i < bytes[0] / sizeof(float); i++)
        if (!(fabsf(first[i] - last[i]) <= 1e-4f))
            fail_msg("way %d: f32 again gives %g, not %g", way, last[i], first[i]);
    assert_true(bytes[1] != bytes[3] || memcmp(narrow, last, bytes[3]) != 0);
    free(first);
    free(narrow);
    free(afresh);
    free(last);
    golden_close(&fresh);
    golden_close(&g);
}

static void a_change_equals_a_fresh_run(void **state)
{
    for (int way = 0; way < WAYS; way++) check_switching(way);
}

static bool close_to(double a, double b)
{
    return (isnan(a) && isnan(b)) || fabs(a - b) <= 0.02 + 0.05 * fabs(b);
}

static void compare_results(const struct results *a, const struct results *b)
{
    assert_int_equal(a->table_count, b->table_count);
    assert_int_equal(a->map_count, b->map_count);
    for (size_t t = 0; t < a->table_count; t++) {
        const struct result_table *x = a->tables[t], *y = b->tables[t];
        assert_int_equal(x->row_count, y->row_count);
        if (!strcmp(x->name, "times")) continue;
        for (size_t r = 0; r < x->row_count; r++)
            for (int v = 0; v + 1 < x->column_count; v++)
                if (!close_to(x->rows[r].value[v], y->rows[r].value[v]))
                    fail_msg("%s, row %s, %s: %g of bf16, %g of f32", x->name, x->rows[r].key,
                             x->columns[v + 1], x->rows[r].value[v], y->rows[r].value[v]);
    }
    for (size_t m = 0; m < a->map_count; m++)
        for (int i = 0; i < a->maps[m].rows * a->maps[m].cols; i++)
            if (!close_to((double)a->maps[m].values[i], (double)b->maps[m].values[i]))
                fail_msg("map %s, cell %d", a->maps[m].name, i);
}

// Probes find nearly the same results with rounded keys and values.
static void measurements_read_both(void **state)
{
    static const struct probe *const probes[] = { &probe_norms,        &probe_attention,
                                                  &probe_contribution, &probe_sinks,
                                                  &probe_sink_ratio,   &probe_flops };
    for (int m = 0; m < MODELS; m++) {
        struct golden g;
        ask(&g, models[m], TOKENS);
        for (size_t p = 0; p < sizeof probes / sizeof *probes; p++) {
            struct results exact = { 0 }, narrow = { 0 };
            set(&g, "kv.dtype", "f32");
            run_probe(&g, probes[p], NULL, &exact);
            set(&g, "kv.dtype", "bf16");
            run_probe(&g, probes[p], NULL, &narrow);
            assert_true(exact.table_count > 0);
            compare_results(&narrow, &exact);
            results_release(&exact);
            results_release(&narrow);
        }
        golden_close(&g);
    }
}

int main(void)
{
    const char *base = getenv("TMPDIR");
    char path[320];
    snprintf(folder, sizeof folder, "%s/vlmsh-kv-%d", base ? base : "/tmp", (int)getpid());
    mkdir(folder, 0700);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_rounded_to_nearest),
        cmocka_unit_test(a_change_equals_a_fresh_run),
        cmocka_unit_test(measurements_read_both),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(path, sizeof path, "%s/extra.safetensors", folder);
    unlink(path);
    rmdir(folder);
    return failed;
}
