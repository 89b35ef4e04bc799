// tests/core/picture/tile_grid.c -- core/picture/tile_grid.c: grids computed by hand and those of
// transformers, and the goldens' pixels.
#include "tests/core/picture/pictures.h"

#include "core/picture/tile_grid.h"

static const struct picture_config square = {
    .resize = true,
    .flatten = true,
    .width = 28,
    .height = 28,
    .resample = RESAMPLE_BICUBIC,
    .background = { 255, 255, 255 },
    .min_tiles = 1,
    .max_tiles = 4,
    .thumbnail = true,
};

static void the_nearest_grid_wins(void **state)
{
    static const struct {
        int64_t width, height, min, max, cols, rows;
    } cases[] = {
        { 400, 100, 1, 4, 4, 1 },  // exactly this ratio
        { 100, 400, 1, 12, 1, 4 }, // exactly this ratio
        { 300, 200, 1, 6, 3, 2 },  // exactly 1.5
        { 300, 200, 1, 4, 2, 2 },  // ratios 1 and 2 tie; 60000 > 0.5 * 28 * 28 * 4
        { 30, 20, 1, 4, 1, 1 },    // 600 is above half the area of one tile only
        { 100, 100, 1, 12, 3, 3 }, // squares tie: 10000 > 0.5 * 28 * 28 * 9
        { 50, 50, 1, 12, 2, 2 },   // 2500 is above 1568, but not above 3528
        { 100, 100, 2, 3, 1, 2 },  // no square is allowed; 1/2 is nearer than 2
        { 1, 20000, 1, 4, 1, 4 },  // the narrowest picture
        { 20000, 1, 7, 7, 7, 1 },  // only 7 tiles are allowed
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct picture_config c = square;
        c.min_tiles = cases[i].min;
        c.max_tiles = cases[i].max;
        struct tile_grid g = tile_grid_by_aspect(&c, cases[i].width, cases[i].height, 0);
        if (g.cols != cases[i].cols || g.rows != cases[i].rows)
            fail_msg("case %zu: %lld x %lld", i, (long long)g.cols, (long long)g.rows);
        assert_int_equal(tile_count(&c, g), g.cols * g.rows + (g.cols * g.rows > 1));
        c.thumbnail = false;
        assert_int_equal(tile_count(&c, g), g.cols * g.rows);
    }
}

// A picture gets no more tiles than the limit, thumbnail included, unless the config's minimum is
// higher.
static void a_limit_allows_fewer_tiles(void **state)
{
    static const struct {
        int64_t most, min, cols, rows;
    } cases[] = {
        { 0, 1, 4, 3 }, { 13, 1, 4, 3 }, { 12, 1, 3, 2 }, { 7, 1, 3, 2 }, { 6, 1, 2, 2 },
        { 5, 1, 2, 2 }, { 4, 1, 1, 1 },  { 1, 1, 1, 1 },  { 1, 2, 2, 1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct picture_config c = square;
        c.min_tiles = cases[i].min;
        c.max_tiles = 12;
        const struct tile_grid g = tile_grid_by_aspect(&c, 400, 300, cases[i].most);
        if (g.cols != cases[i].cols || g.rows != cases[i].rows)
            fail_msg("case %zu: %lld x %lld", i, (long long)g.cols, (long long)g.rows);
    }
}

// Compares a stored tensor [T, 3, H, W] with T of our [H, W, 3].
static void compare_tiles(const struct image *tiles, struct tile_grid grid,
                          const struct safetensor *t)
{
    const int64_t area = square.width * square.height;
    const uint8_t *want = t->data;
    const int64_t count = tile_count(&square, grid);
    assert_int_equal(t->shape[0], count);
    assert_int_equal(t->bytes, (uint64_t)(count * 3 * area));
    for (int64_t i = 0; i < count * 3 * area; i++) {
        const int64_t at = i % (3 * area),
                      got = tiles[i / (3 * area)].pixels[at % area * 3 + at / area];
        if (got != want[i])
            fail_msg("%s: pixel %lld is %d, not %d", t->name, (long long)i, (int)got, want[i]);
    }
}

static void check_picture(const struct safetensor *t)
{
    struct err err;
    const bool across_first = !strncmp(t->name, "pixu8_hfirst.", 13);
    const char *picture = strchr(t->name, '.') + 1;
    char *file = xasprintf("%s.%s", picture, strcmp(picture, "tall") ? "png" : "jpg");
    struct image from = picture_open(file), tiles[5];
    const struct tile_grid grid = tile_grid_by_aspect(&square, from.width, from.height, 0);
    if (tile_grid_cut(tiles, grid, &from, &square, across_first ? RESIZE_PILLOW12 : RESIZE_PILLOW13,
                      &err) < 0)
        fail_msg("%s", err.text);
    compare_tiles(tiles, grid, t);
    for (int64_t i = 0; i < tile_count(&square, grid); i++) image_release(&tiles[i]);
    image_release(&from);
    free(file);
}

static void tiles_equal_the_reference(void **state)
{
    struct safetensors *f = golden_open("build/goldens/internvl3/golden.safetensors");
    int count = 0;
    for (int64_t i = 0; i < f->count; i++) {
        if (strncmp(f->tensors[i].name, "pixu8", 5) != 0) continue;
        check_picture(&f->tensors[i]);
        count++;
    }
    assert_int_equal(count, 9);
    safetensors_close(f);
}

// Sizes and grids of transformers' Idefics3ImageProcessorPil.
static void sizes_and_grids_of_tiles_by_size(void **state)
{
    static const struct {
        int64_t width, height, longest, tile, width_1, height_1, cols, rows;
    } cases[] = {
        { 640, 480, 2048, 512, 2048, 1536, 4, 3 },
        { 480, 640, 2048, 512, 1536, 2048, 3, 4 },
        { 4000, 3000, 2048, 512, 2048, 1536, 4, 3 },
        { 1920, 1080, 1536, 384, 1536, 864, 4, 3 },
        { 33, 900, 1456, 364, 54, 1456, 1, 4 },
        { 900, 33, 1456, 364, 1456, 54, 4, 1 },
        { 10, 10, 2048, 512, 2048, 2048, 4, 4 },
        { 56, 56, 27, 27, 27, 28, 2, 2 },
        { 45, 80, 54, 27, 30, 54, 2, 2 },
        { 1000, 999, 1456, 364, 1456, 1454, 4, 4 },
        { 300, 200, 5000, 1000, 4096, 2731, 5, 4 },
        { 200, 301, 4608, 512, 2721, 4096, 6, 8 },
        { 7, 5, 24, 24, 24, 18, 1, 1 },
        { 1, 20000, 60, 20, 1, 60, 1, 3 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t w = cases[i].width, h = cases[i].height, tile = cases[i].tile;
        struct picture_config c = { .resize = true,
                                    .width = tile,
                                    .height = tile,
                                    .longest = cases[i].longest,
                                    .max_tiles = TILE_GRID_MAX,
                                    .thumbnail = true };
        const struct tile_plan p = tile_plan_by_size(&c, w, h, 0);
        const int64_t got[] = { p.width[0], p.height[0], p.grid.cols, p.grid.rows };
        if (memcmp(got, &cases[i].width_1, sizeof got) != 0)
            fail_msg("case %zu: %lld x %lld pixels, %lld x %lld tiles", i, (long long)got[0],
                     (long long)got[1], (long long)got[2], (long long)got[3]);
        assert_int_equal(p.width[1], p.grid.cols * tile);
        assert_int_equal(p.height[1], p.grid.rows * tile);
        for (int64_t most = 1; most < 20; most++) {
            const struct tile_grid g = tile_plan_by_size(&c, w, h, most).grid;
            assert_in_range(tile_count(&c, g), 1, most);
        }
        c.max_tiles = 0; // not cut into tiles
        const struct tile_plan one = tile_plan_by_size(&c, w, h, 0);
        assert_int_equal(one.width[0], p.width[0]);
        assert_int_equal(one.width[1], tile);
        assert_int_equal(tile_count(&c, one.grid), 1);
    }
    const struct picture_config small = { .width = 20, .height = 20, .max_tiles = TILE_GRID_MAX };
    assert_int_equal(tile_plan_by_size(&small, 2000, 10, 0).grid.rows, 0); // 100 tiles are too many
    assert_int_equal(tile_plan_by_size(&small, 60, 10, 0).grid.cols, 3);
}

static void transparency_without_conversion_is_refused(void **state)
{
    struct err err;
    struct picture_config c = square;
    struct image from = picture_open("rgba.png"), tiles[5];
    c.flatten = false;
    assert_int_equal(
        tile_grid_cut(tiles, (struct tile_grid){ 1, 2 }, &from, &c, RESIZE_PILLOW13, &err), -1);
    assert_non_null(strstr(err.text, "transparency"));
    image_release(&from);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nearest_grid_wins),
        cmocka_unit_test(a_limit_allows_fewer_tiles),
        cmocka_unit_test(tiles_equal_the_reference),
        cmocka_unit_test(sizes_and_grids_of_tiles_by_size),
        cmocka_unit_test(transparency_without_conversion_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
