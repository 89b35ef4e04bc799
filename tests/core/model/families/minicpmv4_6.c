// tests/core/model/families/minicpmv4_6.c -- core/model/families/minicpmv4_6.c,
// core/model/vision_minicpm.c, the slices of core/picture/tile_grid.c: sizes, parts, limits, both
// modes, the attention that tokens receive, refusals. (tests/core/model/families/goldens.c compares
// numbers.)
#include <math.h>

#include "core/model/families/family.h"
#include "core/model/visual.h"
#include "core/picture/tile_grid.h"
#include "tests/core/model/families/golden.h"
#include "tests/core/scratch.h"

#define FOLDER "tests/goldens/minicpm-v-4.6"

// Sizes by transformers 5.24 (image_processing_pil_minicpmv4_6.py) with the class's defaults: the
// overview, rows and columns of the grid, a slice.
static void sizes_equal_the_reference(void **state)
{
    static const struct {
        int64_t width, height, mode, overview[2], grid[2], slice[2];
    } cases[] = {
        { 1024, 768, 16, { 504, 392 }, { 2, 2 }, { 504, 392 } },
        { 448, 448, 16, { 448, 448 }, { 0 }, { 0 } },
        { 449, 448, 16, { 448, 448 }, { 1, 2 }, { 336, 616 } },
        { 449, 448, 4, { 448, 448 }, { 1, 2 }, { 308, 644 } },
        { 448, 896, 4, { 308, 644 }, { 2, 1 }, { 448, 448 } },
        { 4000, 3000, 16, { 504, 392 }, { 3, 3 }, { 504, 392 } },
        { 3000, 200, 4, { 1736, 112 }, { 1, 4 }, { 868, 224 } },
        { 90, 4000, 16, { 56, 2968 }, { 3, 1 }, { 112, 1736 } },
        { 1, 1, 16, { 448, 448 }, { 0 }, { 0 } },
        { 640, 480, 4, { 504, 392 }, { 1, 2 }, { 364, 560 } },
        { 1001, 617, 4, { 560, 364 }, { 2, 2 }, { 560, 364 } },
        { 5000, 1000, 16, { 1008, 224 }, { 1, 8 }, { 336, 560 } },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct picture_config c = { .fit = FIT_SLICES,
                                          .scale = 448,
                                          .max_tiles = 9,
                                          .multiple = cases[i].mode == 4 ? 28 : 56 };
        const struct slice_plan p = slice_plan_fit(&c, cases[i].width, cases[i].height);
        assert_int_equal(p.width, cases[i].overview[0]);
        assert_int_equal(p.height, cases[i].overview[1]);
        assert_int_equal(p.grid.rows, cases[i].grid[0]);
        assert_int_equal(p.grid.cols, cases[i].grid[1]);
        assert_int_equal(p.slice_width, cases[i].slice[0]);
        assert_int_equal(p.slice_height, cases[i].slice[1]);
    }
}

// The overview covers the whole picture, each slice a cell of the grid; their tokens follow each
// other.
static void parts_are_tiles(void **state)
{
    struct golden g;
    struct picture_tile t[3];
    (void)state;
    golden_open(&g, "minicpm-v-4.6");
    const struct model *m = engine_model(g.engine);
    const struct picture_shape shape = { .width = 20, .height = 80, .mode = 4 };
    assert_int_equal(m->family->pictures->tiles(m, shape, t, 3), 3);
    assert_true(t[0].left == 0 && t[0].top == 0 && t[0].right == 20 && t[0].bottom == 80);
    assert_true(t[1].top == 0 && t[1].bottom == 40 && t[2].top == 40 && t[2].bottom == 80);
    assert_int_equal(t[1].first, t[0].rows * t[0].cols);
    assert_int_equal(t[2].first, t[1].first + t[1].rows * t[1].cols);
    assert_int_equal(m->family->pictures->tokens(m, shape), t[2].first + t[2].rows * t[2].cols);
    assert_true(t[0].rows * t[0].cols != t[1].rows * t[1].cols);
    // Under a limit, the parts still add up to the tokens.
    for (int64_t most = 1; most < 40; most++) {
        struct picture p = { 0 };
        model_size_picture(m, &p, 20, 80, 1, (struct picture_limit){ .most = most, .mode = 4 });
        assert_true(p.tokens > 0 && p.tokens <= most);
        assert_int_equal(p.part_first + (p.tokens - p.part_first) / p.part_tokens * p.part_tokens,
                         p.tokens);
    }
    golden_close(&g);
}

static void set(struct golden *g, const char *key, const char *value)
{
    struct err err = { 0 };
    must(engine_set(g->engine, key, value, &err), &err);
}

// The mode is a live setting, and both modes equal the reference.
static void the_mode_is_a_setting(void **state)
{
    struct golden g;
    struct err err = { 0 };
    (void)state;
    golden_open(&g, "minicpm-v-4.6");
    for (int round = 0; round < 2; round++) {
        set(&g, "image.downsample_mode", round ? "16x" : "4x");
        struct safetensors *f = answer(&g, chat_named(&g, "single"), 8, "ids logits");
        compare_all(&g, f, "ids", round ? "fwd.input_ids" : "four.input_ids");
        if (round) {
            compare_all(&g, f, "logits", "fwd.logits");
        } else {
            check_last(&g, f, "four.logits_last");
            check_generated(&g, "four.gen_ids");
        }
        safetensors_close(f);
    }
    golden_close(&g);
    golden_open(&g, "gemma3");
    assert_int_equal(engine_set(g.engine, "image.downsample_mode", "4x", &err), -1);
    assert_non_null(strstr(err.text, "only MiniCPM-V 4.6"));
    golden_close(&g);
}

// The encoder's attention to the tokens of each part sums to 1, in both modes.
static void each_part_receives_its_own_attention(void **state)
{
    struct golden g;
    (void)state;
    golden_open(&g, "minicpm-v-4.6");
    set(&g, "prune.score", "cls");
    set(&g, "prune.layer", "1");
    for (int round = 0; round < 2; round++) {
        set(&g, "image.downsample_mode", round ? "16x" : "4x");
        safetensors_close(answer(&g, chat_named(&g, "single"), 1, "ids"));
        const struct picture *p = &engine_conversation(g.engine)->pictures[0];
        assert_non_null(p->focus);
        double sum = 0;
        int64_t parts = 1;
        for (int64_t i = 0, end = p->part_first; i < p->tokens; i++) {
            sum += (double)p->focus[i];
            if (i + 1 < end) continue;
            assert_true(fabs(sum - 1) < 1e-4);
            sum = 0;
            end += p->part_tokens;
            parts++;
        }
        assert_int_equal(parts, 4);
    }
    golden_close(&g);
}

// A token has the attention that 4 x 4 patches receive or, if the last block follows the joining,
// that 2 x 2 joined patches receive.
static void the_last_block_may_precede_the_joining(void **state)
{
    float received[32], token[2];
    struct vision_config c = {
        .kind = &vision_minicpm, .merge = 2, .layers = 2, .feature_layer = -1
    };
    const struct vision_picture p = {
        .tiles = 1, .rows = 4, .cols = 8, .joins = true, .received = received
    };
    (void)state;
    for (int i = 0; i < 32; i++) received[i] = (float)(i % 8 / 4 + 1);
    c.join = 1;
    vision_focus(&c, &p, token);
    assert_true(token[0] == 16 && token[1] == 32);
    for (int i = 0; i < 8; i++) received[i] = (float)(i % 4 / 2 + 1);
    c.join = 0;
    vision_focus(&c, &p, token);
    assert_true(token[0] == 4 && token[1] == 8);
}

static void check_refused(const char *file, const char *find, const char *with, const char *why)
{
    static const char *const files[] = { "config.json", "preprocessor_config.json",
                                         "model.safetensors", "tokenizer.json" };
    char *folder = scratch_new(), *path = xasprintf(FOLDER "/%s", file);
    struct err err = { 0 };
    size_t size;
    for (int i = 0; i < 4; i++)
        if (strcmp(files[i], file) != 0) scratch_copy(folder, FOLDER, files[i]);
    char *text = file_read(path, 1 << 20, &size, &err), *at = strstr(text, find);
    assert_non_null(at);
    char *changed = xasprintf("%.*s%s%.*s", (int)(at - text), text, with,
                              (int)(size - (size_t)(at - text) - strlen(find)), at + strlen(find));
    scratch_text(folder, file, changed);
    struct model *m = model_load(folder, test_device(), NULL, &err);
    if (m) fail_msg("%s loads", with);
    if (!strstr(err.text, why)) fail_msg("'%s' does not say '%s'", err.text, why);
    free(changed);
    free(text);
    free(path);
    scratch_remove(folder);
}

static void variants_are_refused(void **state)
{
    static const char config[] = "config.json", pictures[] = "preprocessor_config.json";
    static const char join[] = "\"insert_layer_id\": 0";
    static const char patch[] = "\"patch_size\": 3";
    (void)state;
    check_refused(config, join, "\"insert_layer_id\": 2", "is not one of the encoder's 2 layers");
    check_refused(config, join, "\"insert_layer_id\": -1", "is not one of the encoder's 2 layers");
    check_refused(config, join, "\"insert_layer_id\": 0, \"merger_times\": 2",
                  "\"merger_times\" 2 is not supported");
    check_refused(config, join, "\"insert_layer_id\": 0, \"merge_kernel_size\": [2, 4]",
                  "\"merge_kernel_size\"");
    check_refused(config, join, "\"insert_layer_id\": 0, \"downsample_mode\": \"8x\"",
                  "\"downsample_mode\" \"8x\" is not supported");
    check_refused(config, "\"drop_vision_last_layer\": false", "\"drop_vision_last_layer\": true",
                  "\"drop_vision_last_layer\"");
    check_refused(config, patch, "\"patch_size\": 3, \"window_kernel_size\": [3, 3]",
                  "\"window_kernel_size\"");
    check_refused(config, "MiniCPMV4_6F", "MiniCPMV4_7F",
                  "its relative MiniCPMV4_6ForConditionalGeneration is");
    check_refused(pictures, patch, "\"patch_size\": 4", "patch_size");
    check_refused(pictures, patch, "\"patch_size\": 3, \"downsample_mode\": \"4x\"",
                  "that of config.json is 16x");
    check_refused(pictures, patch, "\"patch_size\": 3, \"do_resize\": false",
                  "\"do_resize\" false is not supported");
    check_refused("tokenizer.json", "\"<slice>\"", "\"<piece>\"",
                  "has no token <slice>, which marks a picture or a part of it");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_equal_the_reference),
        cmocka_unit_test(parts_are_tiles),
        cmocka_unit_test(the_mode_is_a_setting),
        cmocka_unit_test(each_part_receives_its_own_attention),
        cmocka_unit_test(the_last_block_may_precede_the_joining),
        cmocka_unit_test(variants_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
