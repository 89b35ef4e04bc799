// tests/core/probes/probe.h -- runs a probe on a reference model and compares its tables and maps
// with golden tensors.
#ifndef TESTS_CORE_PROBES_PROBE_H
#define TESTS_CORE_PROBES_PROBE_H

#include "core/lists.h"
#include "core/model/families/family.h"
#include "core/probes/measure_data.h"
#include "core/probes/results.h"
#include "tests/core/model/families/golden.h"

struct result_map;

static const char *const models[] = { GOLDEN_SEEING };
enum { MODELS = sizeof models / sizeof *models };

// Asks the prompt `single`; with tokens > 0, generates a greedy answer of at most that many tokens.
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

// Compares a column of a table, from row `skip` on, with a golden tensor.
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

enum { MAP_TILES = 64 };

// Fills in the tiles of picture 0, which say where the cells of its maps are among its tokens.
// Returns the number of tiles.
static inline int map_tiles(const struct golden *g, struct picture_tile tiles[MAP_TILES])
{
    const struct model *m = engine_model(g->engine);
    return m->family->pictures->tiles(m, engine_conversation(g->engine)->pictures[0].shape, tiles,
                                      MAP_TILES);
}

// Index of the visual token of picture 0 that a map's cell shows.
static inline int64_t map_token(const struct golden *g, const struct result_map *m, int64_t i)
{
    struct picture_tile tiles[MAP_TILES];
    int number = 1;
    assert_true(map_tiles(g, tiles) <= MAP_TILES);
    if (m->tile) assert_int_equal(sscanf(m->tile, "tile %d of", &number), 1);
    const struct picture_tile *t = &tiles[number - 1];
    assert_int_equal(m->cols, t->cols);
    return t->first + i / t->cols * t->pitch + i % t->cols;
}

static inline void check_map(const struct golden *g, const struct result_map *m, const char *tensor,
                             int64_t slice)
{
    const struct safetensor *want = safetensors_find(g->tensors, tensor);
    if (!want) fail_msg("%s has no %s", g->name, tensor);
    const int64_t count = want->shape[want->rank - 1];
    assert_true((slice + 1) * count * 4 <= (int64_t)want->bytes);
    for (int64_t i = 0; i < (int64_t)m->rows * m->cols; i++) {
        const int64_t token = map_token(g, m, i);
        assert_true(token < count);
        near(g, tensor, (double)m->values[i],
             (double)((const float *)want->data)[slice * count + token], tolerance(g, tensor));
    }
}

// Compares the maps of a measured layer, one per tile; `layer` is its index among these layers.
static inline void check_maps(const struct golden *g, const struct results *r, int64_t layer,
                              const char *tensor, int64_t slice)
{
    struct picture_tile tiles[MAP_TILES];
    const int count = map_tiles(g, tiles);
    for (int t = 0; t < count; t++) check_map(g, &r->maps[layer * count + t], tensor, slice);
}

#endif
