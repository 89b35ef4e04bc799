// tests/core/probes/probe.h -- a probe on a reference model, its tables against golden tensors.
#ifndef TESTS_CORE_PROBES_PROBE_H
#define TESTS_CORE_PROBES_PROBE_H

#include "core/lists.h"
#include "core/probes/measure_data.h"
#include "tests/core/model/families/golden.h"

static const char *const models[] = { "llava-1.5", "llava-siglip-llama3", "internvl3", "qwen2.5-vl",
                                      "glm-4.1v" };
enum { MODELS = sizeof models / sizeof *models };

// The prompt `single`; with tokens > 0 its answer of so many greedy tokens.
static inline void ask(struct golden *g, const char *model, int tokens)
{
    struct err err = { 0 };
    char count[16];
    golden_open(g, model);
    say(g, chat_named(g, "single"));
    snprintf(count, sizeof count, "%d", tokens);
    if (!tokens) return;
    must(engine_set(g->engine, "sample.max_tokens", count, &err), &err);
    must(engine_answer(g->engine, &err), &err);
}

static inline void run_probe(struct golden *g, const struct probe *probe,
                             const struct probe_options *options, struct results *r)
{
    struct err err = { 0 };
    struct measure_request request = { .probe = probe,
                                       .options = options ? *options : probe_defaults };
    must(engine_measure(g->engine, &request, r, &err), &err);
}

static inline const float *golden_floats(const struct golden *g, const char *name)
{
    const struct safetensor *t = safetensors_find(g->tensors, name);
    if (!t) fail_msg("%s has no %s", g->name, name);
    return t->data;
}

static inline void near(const struct golden *g, const char *what, double ours, double theirs,
                        double tolerance)
{
    if (!(fabs(ours - theirs) <= tolerance))
        fail_msg("%s: %s is %.9g, not %.9g (allowed: %g)", g->name, what, ours, theirs, tolerance);
}

// A column of a table against a golden tensor, row by row; `skip` rows of the table come before.
static inline void check_column(const struct golden *g, const struct results *r, const char *table,
                                const char *column, const char *tensor, size_t skip)
{
    const struct result_table *t = results_find(r, table);
    const struct safetensor *want = safetensors_find(g->tensors, tensor);
    if (!t || !want) fail_msg("%s: no table %s or no %s", g->name, table, tensor);
    const size_t count = want->bytes / 4;
    assert_true(t->row_count >= skip + count);
    for (size_t i = 0; i < count; i++) {
        const double *v = results_value(r, table, t->rows[skip + i].key, column);
        if (!v) fail_msg("%s has no column %s", table, column);
        near(g, tensor, *v, (double)((const float *)want->data)[i], tolerance(g, tensor));
    }
}

static inline void check_map(const struct golden *g, const struct result_map *m, const char *tensor,
                             int64_t slice)
{
    const struct safetensor *want = safetensors_find(g->tensors, tensor);
    if (!want) fail_msg("%s has no %s", g->name, tensor);
    const int64_t count = (int64_t)m->rows * m->cols;
    assert_true((slice + 1) * count <= (int64_t)want->bytes / 4);
    for (int64_t i = 0; i < count; i++)
        near(g, tensor, (double)m->values[i],
             (double)((const float *)want->data)[slice * count + i], tolerance(g, tensor));
}

#endif
