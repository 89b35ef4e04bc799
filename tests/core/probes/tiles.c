// tests/core/probes/tiles.c -- maps, profiles, box masks and curvature with tiles, newline tokens
// and several pictures of an artificial family; attention maps of two pictures of llava-1.5.
//
// Picture 0 (40 x 60): an overview of 2 x 3 tokens, then 4 rows of 2 tokens, each followed by a
// newline token: 6 + 4 * 3 = 18 tokens. Picture 1 (30 x 30): 2 x 2 tokens. Both have text before
// and after them.
#include "core/probes/attention_sum.h"
#include "core/probes/curvature.h"
#include "core/probes/dice.h"
#include "tests/core/probes/probe.h"
#include "tests/device.h"

enum { FIRST = 18, SECOND = 4, VISUAL = FIRST + SECOND, ROWS = 2 + FIRST + 3 + SECOND + 2 };

static bool apart; // the overview has text between its rows

static int tiles_of(const struct model *m, struct picture_shape shape, struct picture_tile *tiles,
                    int most)
{
    const double w = (double)shape.width, h = (double)shape.height;
    if (shape.width == shape.height) {
        tiles[0] = (struct picture_tile){ 0, 2, 2, 2, 0, 0, w, h, false };
        return 1;
    }
    tiles[0] = (struct picture_tile){ 0, 2, 3, 3, 0, 0, w, h, apart };
    tiles[1] = (struct picture_tile){ 6, 4, 2, 3, 0, 0, w, h, false };
    return 2;
}

static const struct picture_kind tiled = { .tiles = tiles_of };
static const struct family family = { .name = "tiled", .pictures = &tiled };

struct fixture {
    struct model model;
    struct picture pictures[2];
    struct probe_options options;
    struct sequence sequence;
    struct probe_env env;
    bool kept[VISUAL];
    float values[VISUAL];
};

static void place(struct sequence *s, int64_t from, int picture, int count)
{
    for (int i = 0; i < count; i++) {
        s->picture[from + i] = picture;
        s->cell[from + i] = i;
    }
}

static void fixture_open(struct fixture *f)
{
    *f = (struct fixture){ .model = { .family = &family }, .options = probe_defaults };
    f->model.decoder.config.layers = 2;
    f->pictures[0] = (struct picture){ .shape = { 40, 60, false }, .tokens = FIRST };
    f->pictures[1] = (struct picture){ .shape = { 30, 30, false }, .tokens = SECOND };
    sequence_init(&f->sequence, ROWS, 1);
    f->sequence.prompt = ROWS;
    place(&f->sequence, 2, 0, FIRST);
    place(&f->sequence, 2 + FIRST + 3, 1, SECOND);
    f->env = (struct probe_env){ .model = &f->model,
                                 .options = &f->options,
                                 .pictures = f->pictures,
                                 .picture_count = 2,
                                 .sequence = &f->sequence };
    for (int i = 0; i < VISUAL; i++) {
        f->values[i] = (float)(i + 1);
        f->kept[i] = i % 3 == 0;
    }
}

// Index of the token at (r, c) of one of the three maps.
static int token_at(size_t map, int r, int c)
{
    if (map == 0) return r * 3 + c;
    return map == 1 ? 6 + r * 3 + c : FIRST + r * 2 + c;
}

static void each_tile_is_a_map(void **state)
{
    static const int sizes[3][2] = { { 2, 3 }, { 4, 2 }, { 2, 2 } };
    struct fixture f;
    fixture_open(&f);
    for (int pruned = 0; pruned < 2; pruned++) {
        struct results r = { 0 };
        f.env.kept = pruned ? f.kept : NULL;
        probe_maps(&f.env, &r, "map", 1, -1, 7, f.values);
        assert_int_equal(r.map_count, 3);
        for (size_t i = 0; i < 3; i++) {
            const struct result_map *m = &r.maps[i];
            assert_int_equal(m->rows, sizes[i][0]);
            assert_int_equal(m->cols, sizes[i][1]);
            assert_int_equal(m->picture, i == 2);
            if (i == 2) assert_null(m->tile);
            if (i < 2) assert_string_equal(m->tile, i ? "tile 2 of 2" : "tile 1 of 2");
            assert_true(m->area[3] == (i == 2 ? 30 : 60));
            for (int y = 0; y < m->rows; y++)
                for (int x = 0; x < m->cols; x++) {
                    const int token = token_at(i, y, x);
                    assert_true(m->values[y * m->cols + x] == f.values[token]);
                    assert_true(!m->state == !pruned);
                    if (pruned) assert_int_equal(m->state[y * m->cols + x], !f.kept[token]);
                }
        }
        results_release(&r);
    }
    sequence_release(&f.sequence);
}

static void one_picture_is_chosen(void **state)
{
    struct fixture f;
    struct results r = { 0 };
    fixture_open(&f);
    f.options.picture = 1;
    probe_maps(&f.env, &r, "map", 0, -1, -1, f.values);
    assert_int_equal(r.map_count, 1);
    assert_true(r.maps[0].values[3] == (float)VISUAL);
    results_release(&r);
    sequence_release(&f.sequence);
}

// Each row of the overview covers half the picture's height, as much as two rows of the tiles.
static void profile_rows_are_rows_of_the_picture(void **state)
{
    struct fixture f;
    struct results r = { 0 };
    int rows;
    fixture_open(&f);
    probe_maps(&f.env, &r, "map", 0, -1, -1, f.values);
    double *sum = attention_profile(r.maps, 2, &rows);
    assert_int_equal(rows, 4);
    for (int y = 0; y < 4; y++) {
        const int a = y / 2 * 3, b = 6 + y * 3; // a row of the overview and a row of the tile
        const double want =
            (f.values[a] + f.values[a + 1] + f.values[a + 2]) / 2.0 + f.values[b] + f.values[b + 1];
        assert_float_equal(sum[y], want, 1e-9);
    }
    free(sum);
    sum = attention_profile(r.maps + 2, 1, &rows);
    assert_int_equal(rows, 2);
    assert_float_equal(sum[1], f.values[FIRST + 2] + f.values[FIRST + 3], 1e-9);
    free(sum);
    results_release(&r);
    sequence_release(&f.sequence);
}

// A box over the left half of picture 0 covers the left half of each of its tiles.
static void a_box_covers_its_part_of_every_tile(void **state)
{
    static const double box[4] = { 0, 0, 20, 60 };
    struct fixture f;
    struct results r = { 0 };
    float mask[8];
    fixture_open(&f);
    f.options.box = box;
    probe_maps(&f.env, &r, "map", 0, -1, -1, f.values);
    dice_mask(&f.env, 0, &r.maps[0], mask);
    for (int i = 0; i < 6; i++) {
        const double want = 1 - (i % 3) / 2.0;
        assert_float_equal(mask[i], want, 1e-6);
    }
    dice_mask(&f.env, 0, &r.maps[1], mask);
    for (int i = 0; i < 8; i++) {
        const double want = i % 2 == 0;
        assert_float_equal(mask[i], want, 1e-6);
    }
    results_release(&r);
    sequence_release(&f.sequence);
}

// --- curvature -----------------------------------------------------------------------------------

enum { WIDTH = 3 };

static double angle(const float *a, const float *b, const float *c)
{
    double uv = 0, uu = 0, vv = 0;
    for (int k = 0; k < WIDTH; k++) {
        const double u = (double)b[k] - a[k], v = (double)c[k] - b[k];
        uv += u * v, uu += u * u, vv += v * v;
    }
    return acos(uv / sqrt(uu * vv)) * 180 / 3.14159265358979323846;
}

// True if rows i to i + 2 of the sequence belong to one trajectory: that of a picture, or, if
// `split`, the part of it within a tile, or within a row of a tile if newlines or text end its
// rows.
static bool on_line(int64_t i, bool split)
{
    const int64_t a = i - 2, b = i - (2 + FIRST + 3);
    if (b >= 0) return b + 2 < SECOND;
    if (a < 0 || a + 2 >= FIRST) return false;
    if (!split) return true;
    // Rows of two tokens and a newline have no three consecutive tokens. The overview is one
    // trajectory, or one per row.
    return a + 2 < 6 && (!apart || a % 3 == 0);
}

static void check_paths(void)
{
    struct fixture f;
    float h[ROWS * WIDTH];
    fixture_open(&f);
    struct arena arena = { .backend = test_device() };
    struct graph g = { .backend = arena.backend, .arena = &arena };
    for (int i = 0; i < ROWS * WIDTH; i++) h[i] = (float)((i * 37 + i * i * 11) % 101) / 10;
    struct tensor *x = graph_upload(&g, DTYPE_F32, 2, (int64_t[]){ ROWS, WIDTH }, h);
    const struct site_args args = { .x = x, .sequence = &f.sequence };
    struct curvature *c = curvature_new(&f.env, NULL);
    curvature_add(c, &g, 0, &args);
    for (int split = 0; split < 2; split++) {
        double sum = 0;
        int count = 0;
        for (int64_t i = 0; i + 2 < ROWS; i++)
            if (on_line(i, split)) {
                sum += angle(h + i * WIDTH, h + (i + 1) * WIDTH, h + (i + 2) * WIDTH);
                count++;
            }
        assert_int_equal(count, split ? (apart ? 2 : 4) + 2 : 16 + 2);
        assert_float_equal(curvature_angle(c, 0, split), sum / count, 1e-6);
    }
    curvature_free(c);
    arena_release(&arena);
    sequence_release(&f.sequence);
}

static void paths_end_at_tiles(void **state)
{
    for (int i = 0; i < 2; i++) {
        apart = i;
        check_paths();
    }
    apart = false;
}

// --- two pictures in one conversation ------------------------------------------------------------

// The maps of each picture hold the attention to its own tokens.
static void two_pictures_have_their_own_maps(void **state)
{
    struct golden g;
    struct err err = { 0 };
    struct results both = { 0 }, second = { 0 };
    struct probe_options options = probe_defaults;
    golden_open(&g, models[0]);
    must(engine_set(g.engine, "sample.max_tokens", "3", &err), &err);
    must(engine_attach(g.engine, "tests/goldens/pictures/scene.png", &err), &err);
    must(engine_ask(g.engine, "What is this?", &err), &err);
    must(engine_attach(g.engine, "tests/goldens/pictures/scene.png", &err), &err);
    must(engine_ask(g.engine, "And this?", &err), &err);
    run_probe(&g, &probe_attention, NULL, &both);
    options.picture = 1;
    run_probe(&g, &probe_attention, &options, &second);
    assert_int_equal(both.map_count, 2);
    assert_int_equal(second.map_count, 1);
    assert_int_equal(both.maps[0].picture, 0);
    assert_int_equal(second.maps[0].picture, 1);
    double sum = 0;
    const int n = second.maps[0].rows * second.maps[0].cols;
    for (int i = 0; i < n; i++) {
        assert_true(both.maps[1].values[i] == second.maps[0].values[i]);
        sum += (double)second.maps[0].values[i];
    }
    assert_memory_not_equal(both.maps[0].values, both.maps[1].values, (size_t)n * sizeof(float));
    near(&g, "share", *results_value(&second, "attention", "3", "to the pictures"), sum, 1e-6);
    results_release(&both);
    results_release(&second);
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_tile_is_a_map),
        cmocka_unit_test(one_picture_is_chosen),
        cmocka_unit_test(profile_rows_are_rows_of_the_picture),
        cmocka_unit_test(a_box_covers_its_part_of_every_tile),
        cmocka_unit_test(paths_end_at_tiles),
        cmocka_unit_test(two_pictures_have_their_own_maps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
