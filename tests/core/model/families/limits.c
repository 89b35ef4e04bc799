// tests/core/model/families/limits.c -- image.max_tokens (core/picture/preprocess.c,
// core/picture/tile_grid.c, core/model/families/anyres.c): it equals a lower limit in Qwen2.5-VL's
// folder; costs of pictures and changes of the limit in nine models; limits that a picture cannot
// meet; "min_pixels" of a folder; pictures of too many tiles.
#include "core/model/families/family.h"
#include "core/picture/preprocess.h"
#include "tests/core/model/families/golden.h"
#include "tests/core/scratch.h"

static void set(struct golden *g, const char *key, const char *value)
{
    struct err err = { 0 };
    must(engine_set(g->engine, key, value, &err), &err);
}

static void limit(struct golden *g, int64_t most)
{
    char value[24];
    snprintf(value, sizeof value, "%lld", (long long)most);
    set(g, "image.max_tokens", value);
}

static void same_bytes(const struct safetensors *a, const struct safetensors *b, const char *name)
{
    const struct safetensor *x = safetensors_find(a, name), *y = safetensors_find(b, name);
    if (!x || !y) fail_msg("no %s", name);
    assert_int_equal(x->bytes, y->bytes);
    assert_memory_equal(x->data, y->data, x->bytes);
}

// The folder of Qwen2.5-VL with `pixels` as the value of `key` in preprocessor_config.json.
static char *folder_with(const char *key, int64_t pixels)
{
    static const char *const files[] = { "config.json",        "model.safetensors",
                                         "tokenizer.json",     "tokenizer_config.json",
                                         "chat_template.json", "generation_config.json" };
    struct err err = { 0 };
    char *folder = scratch_new();
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        scratch_copy(folder, "tests/goldens/qwen2.5-vl", files[i]);
    cJSON *json = json_read("tests/goldens/qwen2.5-vl/preprocessor_config.json", 1 << 20, &err);
    if (!json) fail_msg("%s", err.text);
    cJSON_SetNumberValue(cJSON_GetObjectItem(json, key), (double)pixels);
    char *text = cJSON_Print(json);
    scratch_text(folder, "preprocessor_config.json", text);
    cJSON_free(text);
    cJSON_Delete(json);
    return folder;
}

static void a_limit_acts_as_in_the_preprocessor_config(void **state)
{
    static const char *const chats[] = { "single", "two_images" };
    static const char taps[] = "ids positions pixels.* visual.* step.logits";
    for (int64_t most = 4; most <= 12; most += 4)
        for (int i = 0; i < 2; i++) {
            struct golden g;
            struct err err = { 0 };
            golden_open(&g, "qwen2.5-vl");
            const int64_t side = engine_model(g.engine)->picture.multiple;
            limit(&g, most);
            struct safetensors *ours = answer(&g, chat_named(&g, chats[i]), 4, taps);
            limit(&g, 0);
            char *folder = folder_with("max_pixels", most * side * side);
            must(engine_load(g.engine, folder, &err), &err);
            struct safetensors *theirs = answer(&g, chat_named(&g, chats[i]), 4, taps);
            assert_int_equal(ours->count, theirs->count);
            for (int64_t k = 0; k < ours->count; k++)
                same_bytes(ours, theirs, ours->tensors[k].name);
            assert_true(safetensors_find(ours, "visual.0")->shape[0] <= most);
            safetensors_close(ours);
            safetensors_close(theirs);
            scratch_remove(folder);
            golden_close(&g);
        }
}

// A picture below the folder's "min_pixels" is enlarged, here from 2 x 2 cells by sqrt(12 / 4),
// rounded up, to 4 x 4 (smart_resize of transformers); others keep their size.
static void small_pictures_are_enlarged(void **state)
{
    struct err err = { 0 };
    struct golden g;
    golden_open(&g, "qwen2.5-vl");
    const int64_t side = engine_model(g.engine)->picture.multiple;
    char *folder = folder_with("min_pixels", 12 * side * side);
    must(engine_load(g.engine, folder, &err), &err);
    const struct model *m = engine_model(g.engine);
    struct picture p = { 0 };
    model_size_picture(m, &p, 2 * side, 2 * side, 1, (struct picture_limit){ 0 });
    assert_int_equal(p.tokens, 16);
    model_size_picture(m, &p, 3 * side, 4 * side, 1, (struct picture_limit){ 0 });
    assert_int_equal(p.tokens, 12);
    model_size_picture(m, &p, 3 * side, 5 * side, 1, (struct picture_limit){ 0 });
    assert_int_equal(p.tokens, 15);
    scratch_remove(folder);
    golden_close(&g);
}

// --- several families ----------------------------------------------------------------------------

static const char *const folders[] = { "qwen2.5-vl", "glm-4.1v",        "kimi-vl",
                                       "internvl3",  "llava-onevision", "llava-next",
                                       "smolvlm",    "mistral3",        "pixtral" };

static int64_t tokens_of(const struct model *m, int64_t width, int64_t height, int64_t most)
{
    struct picture p = { 0 };
    model_size_picture(m, &p, width, height, 1, (struct picture_limit){ .most = most });
    return p.tokens;
}

// Cells of all tiles: the tokens without newlines.
static int64_t cells_of(const struct model *m, int64_t width, int64_t height, int64_t most)
{
    struct picture_tile tiles[64];
    const struct picture_shape shape = { .width = width, .height = height, .most_tokens = most };
    const int count = m->family->pictures->tiles(m, shape, tiles, 64);
    int64_t cells = 0;
    for (int i = 0; i < count; i++) cells += tiles[i].rows * tiles[i].cols;
    return cells;
}

// A picture costs at most the limit or, if that is higher, its cost under a limit of 1; never fewer
// tokens under a higher limit; and its normal cost if that is within the limit.
static void check_size(const char *folder, const struct model *m, int64_t width, int64_t height)
{
    const int64_t whole = tokens_of(m, width, height, 0), least = tokens_of(m, width, height, 1);
    for (int64_t most = 1, former = 0; most <= whole + 2; most++) {
        const int64_t tokens = tokens_of(m, width, height, most);
        if (tokens > (most > least ? most : least) || tokens < former ||
            (most >= whole && tokens != whole))
            fail_msg("%s: %lld x %lld pixels cost %lld tokens of at most %lld", folder,
                     (long long)width, (long long)height, (long long)tokens, (long long)most);
        const int64_t cells = cells_of(m, width, height, most);
        if (m->family->pictures->newlines)
            assert_true(cells <= tokens);
        else
            assert_int_equal(cells, tokens);
        former = tokens;
    }
}

static void limits_never_add_tokens(void **state)
{
    static const int64_t sizes[][2] = { { 64, 48 },  { 300, 200 }, { 45, 180 }, { 9, 13 },
                                        { 640, 40 }, { 7, 200 },   { 200, 200 } };
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        struct golden g;
        golden_open(&g, folders[i]);
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
            check_size(folders[i], engine_model(g.engine), sizes[k][0], sizes[k][1]);
        golden_close(&g);
    }
}

// Changing the limit in mid-conversation gives the results of a new conversation with that limit.
static void a_change_encodes_pictures_again(void **state)
{
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        struct golden g;
        struct err err = { 0 };
        golden_open(&g, folders[i]);
        safetensors_close(answer(&g, chat_named(&g, "single"), 3, "ids"));
        const struct picture *p = &engine_conversation(g.engine)->pictures[0];
        const int64_t whole = p->tokens;
        limit(&g, whole - 1);
        const int64_t fewer = p->tokens; // the change counts the tokens again at once
        assert_true(fewer < whole && fewer > 0 && !p->visual);
        must(engine_dump(g.engine, "ids visual.0 step.logits", g.dump, &err), &err);
        must(engine_regenerate(g.engine, &err), &err);
        struct safetensors *changed = safetensors_open(g.dump, &err);
        assert_int_equal(safetensors_find(changed, "visual.0")->shape[0], fewer);
        struct safetensors *fresh = answer(&g, chat_named(&g, "single"), 3, "*");
        same_bytes(changed, fresh, "ids");
        same_bytes(changed, fresh, "visual.0");
        same_bytes(changed, fresh, "step.logits");
        safetensors_close(changed);
        safetensors_close(fresh);
        golden_close(&g);
    }
}

// --- impossible ----------------------------------------------------------------------------------

static void impossible_limits_are_refused(void **state)
{
    static const struct {
        const char *folder, *limit, *why;
    } cases[] = {
        { "llava-1.5", "3", "costs at least" },
        { "internvl3", "3", "costs at least 4 visual tokens" },
        { "llava-onevision", "9", "costs at least 10 visual tokens" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct golden g;
        struct err err = { 0 };
        golden_open(&g, cases[i].folder);
        assert_int_equal(engine_set(g.engine, "image.max_tokens", cases[i].limit, &err), -1);
        if (!strstr(err.text, cases[i].why)) fail_msg("%s: %s", cases[i].folder, err.text);
        assert_int_equal(settings_integer(engine_settings(g.engine), "image.max_tokens"), 0);
        golden_close(&g);
    }
}

// LLaVA-OneVision: each of several pictures costs 10 tokens, a single one more than 12 on any grid.
static void a_picture_that_costs_too_much_is_refused(void **state)
{
    struct golden g;
    struct err err = { 0 };
    golden_open(&g, "llava-onevision");
    limit(&g, 12);
    safetensors_close(answer(&g, chat_named(&g, "two_images"), 1, "ids"));
    engine_clear(g.engine);
    say(&g, chat_named(&g, "single"));
    assert_int_equal(engine_answer(g.engine, &err), -1);
    if (!strstr(err.text, "but image.max_tokens is 12")) fail_msg("%s", err.text);
    limit(&g, 0);
    must(engine_answer(g.engine, &err), &err);
    golden_close(&g);
}

// SmolVLM with a longest edge of eight tiles: 8 x 8 are too many, 4 x 8 are not.
static void a_picture_of_too_many_tiles_is_refused(void **state)
{
    struct golden g;
    struct err err = { 0 };
    struct picture p = { 0 };
    golden_open(&g, "smolvlm");
    struct model m = *engine_model(g.engine);
    m.picture.longest = 8 * m.picture.width;
    model_size_picture(&m, &p, 100, 100, 1, (struct picture_limit){ .share = 0.5 });
    assert_int_equal(p.tokens, 0);
    assert_int_equal(p.part_tokens, 0); // else a prompt would leave out the picture
    assert_int_equal(model_check_picture(&m, &p, &err), -1);
    if (!strstr(err.text, "more than 63 tiles")) fail_msg("%s", err.text);
    model_size_picture(&m, &p, 100, 50, 1, (struct picture_limit){ 0 });
    must(model_check_picture(&m, &p, &err), &err);
    assert_int_equal(p.tokens, 33 * p.part_tokens);
    model_size_picture(&m, &p, 100, 100, 1, (struct picture_limit){ .most = 63 * p.part_tokens });
    must(model_check_picture(&m, &p, &err), &err);
    assert_int_equal(p.tokens, 50 * p.part_tokens);
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_limit_acts_as_in_the_preprocessor_config),
        cmocka_unit_test(small_pictures_are_enlarged),
        cmocka_unit_test(limits_never_add_tokens),
        cmocka_unit_test(a_change_encodes_pictures_again),
        cmocka_unit_test(impossible_limits_are_refused),
        cmocka_unit_test(a_picture_that_costs_too_much_is_refused),
        cmocka_unit_test(a_picture_of_too_many_tiles_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
