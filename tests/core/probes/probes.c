// tests/core/probes/probes.c -- core/probes/: names of taps, accepted and refused dumps, the
// tensors of a dump, units of columns.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/files/safetensors.h"
#include "core/graph/arena.h"
#include "core/graph/graph.h"
#include "core/graph/hooks.h"
#include "core/probes/dump.h"
#include "core/probes/results.h"
#include "core/probes/taps.h"
#include "core/template/sequence.h"
#include "tests/core/scratch.h"
#include "tests/device.h"

static void patterns_match_names(void **state)
{
    static const struct {
        const char *pattern, *name;
        bool match;
    } cases[] = {
        { "*", "layer.3.in", true },
        { "layer.*", "layer.out", true },
        { "layer.3.in", "layer.3.in", true },
        { "layer.3.in", "layer.31.in", false },
        { "layer.?.in", "layer.3.in", true },
        { "layer.?.in", "layer.31.in", false },
        { "*.3.*", "attn.3.probs", true },
        { "*.3.*", "attn.13.probs", false },
        { "*probs", "attn.0.probs", true },
        { "*probs", "attn.0.value", false },
        { "visual.*", "visual_aligned.0", false },
        { "", "embed", false },
        { "a*b*c*d", "axxbxcxcxd", true },
        { "embed", "embedding", false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (tap_match(cases[i].pattern, cases[i].name) != cases[i].match)
            fail_msg("'%s' and '%s'", cases[i].pattern, cases[i].name);
}

static void patterns_without_a_match_are_refused(void **state)
{
    static const char *const bad[] = { "nothing", "embed,layer.in", "attn.*.prob",   "",
                                       " , ",     "layer.x.in",     "layer.input.in" };
    static const char *const good[] = {
        "*",           "embed",     "ids, positions", "layer.999.in", "*.value", "visual_aligned.0",
        "score.input", "kept.input"
    };
    char *folder = scratch_new(), *path = xasprintf("%s/d.safetensors", folder);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct err err = { 0 };
        if (dump_new(bad[i], path, &err)) fail_msg("'%s' was accepted", bad[i]);
        assert_true(err.text[0]);
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct err err = { 0 };
        struct dump *d = dump_new(good[i], path, &err);
        if (!d) fail_msg("'%s': %s", good[i], err.text);
        dump_free(d);
    }
    free(path);
    scratch_remove(folder);
}

// Calls the dump as the pass does: with rows of a sequence, and keys, if the site has them.
static void run_hook(struct dump *d, struct graph *g, const struct site *site,
                     struct site_args args)
{
    static int32_t text[] = { -1, -1, -1 };
    static const struct sequence sequence = { .n = 3, .picture = text };
    if (site->has & HAS_ROWS) args.sequence = &sequence;
    if (site->has & HAS_KEYS) args.q = args.k = args.x;
    struct hooks hooks = { 0 };
    struct hook hook = dump_hook(d);
    hooks_add(&hooks, &hook);
    g->hooks = &hooks;
    assert_int_equal(hooks_run(g, site, &args), 0);
    g->hooks = NULL;
}

static const struct safetensor *expect(const struct safetensors *f, const char *name, int rank,
                                       const int64_t *shape)
{
    const struct safetensor *t = safetensors_find(f, name);
    if (!t) fail_msg("no %s", name);
    assert_int_equal(t->rank, rank);
    for (int r = 0; r < rank; r++) assert_int_equal(t->shape[r], shape[r]);
    return t;
}

static void a_dump_contains_matching_tensors(void **state)
{
    char *folder = scratch_new(), *path = xasprintf("%s/d.safetensors", folder);
    struct err err = { 0 };
    struct arena step = { .backend = test_device() };
    struct graph g = { .backend = test_device(), .arena = &step };
    struct sinks sinks = { 0 };
    float value[3 * 2 * 2], other[2] = { 8, 9 };
    for (int i = 0; i < 12; i++) value[i] = (float)i;
    struct tensor v = {
        .data = value, .dtype = DTYPE_F32, .rank = 3, .shape = { 3, 2, 2 }
    }; // [P, Hkv, d]
    struct tensor tokens = { .data = value, .dtype = DTYPE_F32, .rank = 2, .shape = { 1, 2 } };
    struct tensor changed = { .data = other, .dtype = DTYPE_F32, .rank = 2, .shape = { 1, 2 } };
    struct tensor row = { .data = other, .dtype = DTYPE_F32, .rank = 2, .shape = { 1, 2 } };

    struct dump *d = dump_new("ids positions attn.1.value visual* step.logits", path, &err);
    if (!d) fail_msg("%s", err.text);
    struct sequence s;
    sequence_init(&s, 3, 1);
    dump_sequence(d, &s);
    run_hook(d, &g, SITE_PROJECTED, (struct site_args){ .layer = -1, .picture = 0, .x = &tokens });
    run_hook(d, &g, SITE_VISUAL,
             (struct site_args){ .layer = -1, .picture = 0, .x = &tokens, .v = &tokens });
    run_hook(d, &g, SITE_VISUAL,
             (struct site_args){ .layer = -1, .picture = 1, .x = &changed, .v = &tokens });
    for (int l = 0; l < 3; l++)
        run_hook(d, &g, SITE_VALUES,
                 (struct site_args){ .layer = l, .picture = -1, .x = &v, .v = &v });
    for (int i = 0; i < 3; i++)
        run_hook(d, &g, SITE_STEP_LOGITS,
                 (struct site_args){ .layer = -1, .picture = -1, .x = &row });
    // After the prompt's pass, the dump takes only logits of generated tokens.
    value[0] = 77;
    run_hook(d, &g, SITE_VALUES, (struct site_args){ .layer = 1, .picture = -1, .x = &v, .v = &v });
    if (dump_finish(d, &sinks, &err) < 0) fail_msg("%s", err.text);

    struct safetensors *f = safetensors_open(path, &err);
    if (!f) fail_msg("%s", err.text);
    assert_int_equal(f->count, 6);
    assert_int_equal(expect(f, "ids", 1, (int64_t[]){ 3 })->dtype, DTYPE_I32);
    assert_int_equal(expect(f, "positions", 1, (int64_t[]){ 3 })->dtype, DTYPE_I32);
    expect(f, "visual.0", 2, (int64_t[]){ 1, 2 });
    const struct safetensor *aligned = expect(f, "visual_aligned.1", 2, (int64_t[]){ 1, 2 });
    assert_memory_equal(aligned->data, other, sizeof other);
    expect(f, "step.logits", 2, (int64_t[]){ 3, 2 });
    static const float heads_first[12] = { 0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11 };
    const struct safetensor *values = expect(f, "attn.1.value", 3, (int64_t[]){ 2, 3, 2 });
    assert_memory_equal(values->data, heads_first, sizeof heads_first);
    safetensors_close(f);

    // vlmsh's own file may be overwritten; a dump without tensors reports that and keeps the file.
    d = dump_new("layer.99.in", path, &err);
    if (!d) fail_msg("%s", err.text);
    assert_int_equal(dump_finish(d, &sinks, &err), -1);
    assert_int_equal(access(path, R_OK), 0);
    sequence_release(&s);
    arena_release(&step);
    free(path);
    scratch_remove(folder);
}

// Columns share an axis if they have the same unit, or if no column of the table has a known unit.
static void columns_share_units(void **state)
{
    static const struct {
        const char *name, *columns;
        int a, b;
        bool share;
    } cases[] = {
        { "flops.layers", "layer|rows|FFN rows|GFLOP full|GFLOP now|keys of a step", 3, 4, true },
        { "flops.layers", "layer|rows|FFN rows|GFLOP full|GFLOP now|keys of a step", 1, 3, false },
        { "flops.layers", "layer|rows|FFN rows|GFLOP full|GFLOP now|keys of a step", 1, 5, true },
        { "norms.layers", "layer|visual|text", 1, 2, true },
        { "norms.theory", "layer|C|phi|norm visual|gamma", 1, 3, true },
        { "norms.theory", "layer|C|phi|norm visual|gamma", 1, 2, false },
        { "sink_ratio", "layer|strongest|at token|sink|curvature", 3, 4, false },
        { "sink_ratio", "layer|strongest|at token|sink|curvature", 1, 4, false },
        { "kl.mean", "layer|100|200", 1, 2, true }, // columns are steps of checkpoints
        { "calibration", "layer|dimension|value|second|value |share of sinks", 2, 4, true },
        { "calibration", "layer|dimension|value|second|value |share of sinks", 1, 2, false },
        { "sinks.tokens", "row|phi|C|picture", 1, 2, false },
        { "unknown", "layer|a|b", 1, 2, true },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct results r = { 0 };
        const struct result_table *t = results_table(&r, cases[i].name, cases[i].columns);
        if (results_share_unit(t, cases[i].a, cases[i].b) != cases[i].share ||
            results_share_unit(t, cases[i].b, cases[i].a) != cases[i].share)
            fail_msg("%s: %s and %s", t->name, t->columns[cases[i].a], t->columns[cases[i].b]);
        results_release(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_match_names),
        cmocka_unit_test(patterns_without_a_match_are_refused),
        cmocka_unit_test(a_dump_contains_matching_tensors),
        cmocka_unit_test(columns_share_units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
