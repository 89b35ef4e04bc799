// tests/core/model/families/anyres.c -- core/model/families/anyres.c and core/picture/tile_grid.c:
// the grid of a picture, the areas of its tokens, shrinking maps, several pictures, refused
// configs. tests/core/model/families/goldens.c tests the forward pass.
#include "core/model/families/family.h"
#include "core/picture/tile_grid.h"
#include "core/train/loader.h"
#include "tests/core/model/families/golden.h"
#include "tests/core/scratch.h"

#define ONEVISION "tests/goldens/llava-onevision"
#define NEXT      "tests/goldens/llava-next"

// A copy of the golden folder whose config.json or preprocessor_config.json has `to` in place of
// the text `from`.
static char *changed_folder(const char *golden, const char *file, const char *from, const char *to)
{
    static const char *const files[] = { "config.json", "preprocessor_config.json",
                                         "tokenizer.json", "chat_template.json",
                                         "model.safetensors" };
    char *folder = scratch_new(), *path = xasprintf("%s/%s", golden, file);
    struct err err;
    size_t size;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        scratch_copy(folder, golden, files[i]);
    char *text = file_read(path, 1 << 20, &size, &err);
    if (!text) fail_msg("%s", err.text);
    char *whole = xstrndup(text, size), *at = strstr(whole, from);
    if (!at) fail_msg("'%s' has no %s", path, from);
    char *new = xasprintf("%.*s%s%s", (int)(at - whole), whole, to, at + strlen(from));
    scratch_text(folder, file, new);
    free(new);
    free(whole);
    free(text);
    free(path);
    return folder;
}

static struct model *load(const char *folder)
{
    struct err err;
    struct model *m = model_load(folder, test_device(), NULL, &err);
    if (!m) fail_msg("%s", err.text);
    return m;
}

// --- grids ---------------------------------------------------------------------------------------

static void each_picture_takes_the_grid_that_shows_most_of_it(void **state)
{
    static const struct {
        int64_t width, height;
        struct tile_canvas want; // rows, cols, left, top, width, height
    } cases[] = {
        // Computed by transformers' select_best_resolution and get_patch_output_size.
        { 800, 600, { 2, 2, 0, 84, 672, 504 } },   { 600, 800, { 2, 2, 84, 0, 504, 672 } },
        { 336, 336, { 1, 2, 168, 0, 336, 336 } },  { 2000, 300, { 1, 3, 0, 92, 1008, 152 } },
        { 300, 2000, { 3, 1, 92, 0, 152, 1008 } }, { 100, 100, { 1, 2, 168, 0, 336, 336 } },
        { 5000, 1, { 1, 2, 0, 167, 672, 1 } },
    };
    struct tile_grids t;
    struct err err;
    cJSON *grids = cJSON_Parse("[[336,672],[672,336],[672,672],[1008,336],[336,1008]]");
    must(tile_grids_read(&t, grids, 336, &err), &err);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct tile_canvas c = tile_canvas_fit(&t, cases[i].width, cases[i].height);
        if (memcmp(&c, &cases[i].want, sizeof c) != 0)
            fail_msg("%lld x %lld: %lld x %lld tiles, [%lld %lld %lld %lld]",
                     (long long)cases[i].width, (long long)cases[i].height, (long long)c.rows,
                     (long long)c.cols, (long long)c.left, (long long)c.top, (long long)c.width,
                     (long long)c.height);
    }
    cJSON_Delete(grids);
}

static void bad_grids_are_refused(void **state)
{
    static const char *const bad[] = { "[]",          "[[336]]",      "[[336,\"672\"]]",
                                       "[[336,600]]", "[[0,336]]",    "[[-336,336]]",
                                       "{}",          "[[336,1e18]]", "[[336,336.5]]" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct tile_grids t;
        struct err err;
        cJSON *json = cJSON_Parse(bad[i]);
        if (tile_grids_read(&t, json, 336, &err) == 0) fail_msg("%s was accepted", bad[i]);
        assert_non_null(strstr(err.text, "image_grid_pinpoints"));
        cJSON_Delete(json);
    }
}

// --- tokens --------------------------------------------------------------------------------------

// For many sizes, the cells of each tile are among the picture's tokens, and cells and newlines
// together are all of them.
static void tokens_are_cells_of_tiles_and_newlines(void **state)
{
    static const char *const folders[] = { ONEVISION, NEXT };
    for (int k = 0; k < 2; k++) {
        struct model *m = load(folders[k]);
        for (int64_t w = 1; w < 3000; w = w * 3 / 2 + 1)
            for (int64_t h = 1; h < 3000; h = h * 3 / 2 + 2)
                for (size_t shown = 1; shown < 3; shown++) {
                    struct picture p = { 0 };
                    struct picture_tile tiles[2];
                    model_size_picture(m, &p, w, h, shown, (struct picture_limit){ 0 });
                    assert_int_equal(p.shape.several, shown > 1 && k == 0);
                    const int count = m->family->pictures->tiles(m, p.shape, tiles, 2);
                    int64_t cells = 0, lines = 0;
                    for (int t = 0; t < count; t++) {
                        const struct picture_tile *a = &tiles[t];
                        assert_true(a->first + (a->rows - 1) * a->pitch + a->cols <= p.tokens);
                        assert_true(a->left < a->right && a->top < a->bottom);
                        cells += a->rows * a->cols;
                    }
                    for (int64_t i = p.newline; i < p.tokens; i += p.newline_step) lines++;
                    assert_int_equal(cells + lines, p.tokens);
                }
        model_free(m);
    }
}

// Counts the tokens of a picture with the config of a published model; sets only the fields that
// the count reads.
static int64_t published_tokens(const char *family, const struct vision_kind *kind, int64_t image,
                                const char *grids, int64_t most, struct picture_shape shape)
{
    struct model m = { .family = family_named(family), .map_tiles = most };
    struct err err;
    m.vision.config = (struct vision_config){ .kind = kind, .image_size = image, .patch = 14 };
    cJSON *json = cJSON_Parse(grids);
    must(tile_grids_read(&m.grids, json, image, &err), &err);
    cJSON_Delete(json);
    return m.family->pictures->tokens(&m, shape);
}

// Counted by the processors of transformers, for the shapes of LLaVA-OneVision and LLaVA-Next.
static void published_shapes_have_the_counts_of_transformers(void **state)
{
    static const struct {
        int64_t width, height, onevision, next;
    } cases[] = {
        { 640, 480, 2929, 2340 },   { 480, 640, 2943, 2352 },   { 384, 384, 1485, 2928 },
        { 385, 384, 1512, 2928 },   { 1920, 1080, 7269, 1948 }, { 1080, 1920, 7317, 1968 },
        { 2304, 2304, 7371, 2928 }, { 4000, 3000, 7309, 2340 }, { 2000, 1500, 7309, 2340 },
        { 1170, 2532, 7393, 1876 }, { 100, 3000, 1701, 792 },   { 3000, 100, 1544, 722 },
        { 999, 333, 2943, 2328 },   { 1, 1, 1485, 1176 },       { 7, 4001, 1053, 648 },
        { 1536, 1153, 7239, 2340 }, { 672, 672, 3699, 2928 },   { 337, 336, 1485, 1176 },
        { 1333, 800, 7814, 1948 }
    };
    struct buf grids = { 0 };
    for (int i = 0; i < 36; i++)
        buf_printf(&grids, "%s[%d,%d]", i ? "," : "[", 384 * (i / 6 + 1), 384 * (i % 6 + 1));
    buf_printf(&grids, "]");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct picture_shape s = { .width = cases[i].width, .height = cases[i].height };
        assert_int_equal(published_tokens("llava-onevision", &vision_siglip, 384, grids.data, 9, s),
                         cases[i].onevision);
        assert_int_equal(published_tokens("llava-next", &vision_clip, 336,
                                          "[[336,672],[672,336],[672,672],[1008,336],[336,1008]]",
                                          0, s),
                         cases[i].next);
    }
    buf_release(&grids);
}

static void check_area(const struct picture_tile *t, double left, double top, double right,
                       double bottom)
{
    assert_float_equal(t->left, left, 1e-9);
    assert_float_equal(t->top, top, 1e-9);
    assert_float_equal(t->right, right, 1e-9);
    assert_float_equal(t->bottom, bottom, 1e-9);
}

// Two tiles of 18 pixels side by side: a picture of 36 x 18 fills them. One of 36 x 15 leaves 3
// rows of pixels black: one above it and two below.
static void padding_lies_outside_the_picture(void **state)
{
    struct model *m = load(ONEVISION);
    struct picture_tile t[2];
    const struct family *f = m->family;
    assert_int_equal(
        f->pictures->tiles(m, (struct picture_shape){ .width = 36, .height = 18 }, t, 2), 2);
    check_area(&t[0], 0, 0, 36, 18);
    check_area(&t[1], 0, 0, 36, 18);
    assert_int_equal(t[1].rows * 100 + t[1].cols, 306);
    assert_int_equal(
        f->pictures->tiles(m, (struct picture_shape){ .width = 36, .height = 15 }, t, 2), 2);
    check_area(&t[0], 0, 0, 36, 15);
    check_area(&t[1], 0, -1, 36, 17);
    assert_int_equal(t[1].rows * 100 + t[1].cols, 306);
    // One of several pictures is padded to a square.
    assert_int_equal(
        f->pictures->tiles(m, (struct picture_shape){ .width = 36, .height = 15, .several = true },
                           t, 2),
        1);
    check_area(&t[0], 0, -10.5, 36, 25.5);
    model_free(m);
}

// Configs "anyres_max_1" and "anyres_max_2", against tensors that transformers computed.
static void large_maps_shrink_as_in_the_reference(void **state)
{
    static const char *const pictures[] = { "single", "scene", "second_picture", "tall" };
    struct err err = { 0 };
    for (int most = 1; most <= 2; most++)
        for (int k = 0; k < 4; k += 2) {
            struct golden g;
            char text[32], name[64];
            golden_open(&g, "llava-onevision");
            safetensors_close(g.tensors);
            if (!(g.tensors = safetensors_open(ONEVISION "/shrunk.safetensors", &err)))
                fail_msg("%s", err.text);
            cJSON *plain = g.json;
            snprintf(text, sizeof text, "anyres_max_%d", most);
            char *folder = changed_folder(ONEVISION, "config.json", "anyres_max_9", text);
            must(engine_load(g.engine, folder, &err), &err);
            const cJSON *chat = chat_named(&g, pictures[k]);
            g.json = json_read(ONEVISION "/shrunk.json", 1 << 20, &err);
            struct safetensors *f = answer(&g, chat, 1, "visual.0 logits");
            snprintf(name, sizeof name, "max_%d.%s.visual_tokens", most, pictures[k + 1]);
            compare_all(&g, f, "visual.0", name);
            snprintf(name, sizeof name, "max_%d.%s.logits_last", most, pictures[k + 1]);
            check_last(&g, f, name);
            safetensors_close(f);
            cJSON_Delete(plain);
            golden_close(&g);
            scratch_remove(folder);
        }
}

// --- several pictures ----------------------------------------------------------------------------

// A second picture changes the tokens of the first; /undo restores them, and the answer equals the
// first one.
static void a_second_picture_changes_the_first(void **state)
{
    struct err err = { 0 };
    struct golden g;
    golden_open(&g, "llava-onevision");
    const struct conversation *c = engine_conversation(g.engine);
    must(engine_set(g.engine, "sample.max_tokens", "6", &err), &err);
    must(engine_attach(g.engine, "tests/goldens/pictures/scene.png", &err), &err);
    assert_int_equal(c->pictures[0].tokens, 37);
    must(engine_ask(g.engine, "What is this?", &err), &err);
    struct ids first_answer = { 0 };
    ids_append(&first_answer, g.answer.data, g.answer.count);
    must(engine_attach(g.engine, "tests/goldens/pictures/tall.jpg", &err), &err);
    assert_int_equal(c->pictures[0].tokens, 37); // changes only when the question is asked
    assert_int_equal(c->pictures[1].tokens, 10);
    must(engine_ask(g.engine, "And this?", &err), &err);
    assert_int_equal(c->pictures[0].tokens, 10);
    assert_int_equal(sequence_visual_count(&c->cached, 0), 20);
    must(engine_undo(g.engine, &err), &err);
    must(engine_regenerate(g.engine, &err), &err);
    assert_int_equal(c->pictures[0].tokens, 37);
    assert_int_equal(sequence_visual_count(&c->cached, 0), 37);
    assert_int_equal(g.answer.count, first_answer.count);
    assert_memory_equal(g.answer.data, first_answer.data,
                        first_answer.count * sizeof *first_answer.data);
    ids_release(&first_answer);
    golden_close(&g);
}

// If some samples show a file alone and others show it among several, training encodes it in two
// ways.
static void a_loader_distinguishes_samples_of_several_pictures(void **state)
{
    static const char lines[] =
        "{\"images\": [\"scene.png\"], \"messages\": [{\"role\": \"user\", \"content\": "
        "\"<image>A?\"},"
        " {\"role\": \"assistant\", \"content\": \"B.\"}]}\n"
        "{\"images\": [\"scene.png\", \"tall.jpg\"], \"messages\": [{\"role\": \"user\", "
        "\"content\": "
        "\"<image><image>A?\"}, {\"role\": \"assistant\", \"content\": \"B.\"}]}\n";
    char *folder = scratch_new(), *path = xasprintf("%s/data.jsonl", folder);
    struct err err = { 0 };
    struct dataset data;
    struct settings *s = settings_new();
    struct arena arena = { .backend = test_device() };
    struct graph g = { .backend = test_device(), .arena = &arena, .settings = s };
    struct model *m = load(ONEVISION);
    scratch_text(folder, "data.jsonl", lines);
    must(dataset_open(&data, path, "tests/goldens/pictures", &err), &err);
    struct loader loader = {
        .data = &data, .model = m, .settings = s, .backend = test_device(), .frozen = true
    };
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 2; i++) {
            struct loader_item item;
            must(loader_read(&loader, &g, i, &item, &err), &err);
            assert_int_equal(item.picture_count, i + 1);
            for (size_t k = 0; k < item.picture_count; k++) {
                assert_int_equal(item.pictures[k].tokens, i ? 10 : 37);
                assert_int_equal(item.pictures[k].visual->shape[0], i ? 10 : 37);
            }
            assert_int_equal(sequence_visual_count(&item.labels.sequence, 0), i ? 20 : 37);
            int newlines = 0;
            for (int64_t row = 0; row < item.labels.sequence.n; row++)
                newlines += item.labels.sequence.newline[row];
            assert_int_equal(newlines, i ? 2 : 4);
            loader_item_release(&loader, &item);
        }
    assert_int_equal(loader.known_count, 3);
    loader_release(&loader);
    dataset_close(&data);
    arena_release(&arena);
    settings_free(s);
    model_free(m);
    scratch_remove(folder);
    free(path);
}

// --- configs -------------------------------------------------------------------------------------

static void bad_configs_are_refused(void **state)
{
    static const struct {
        const char *golden, *file, *from, *to, *says;
    } cases[] = {
        { ONEVISION, "config.json", "anyres_max_9", "anyres", "vision_aspect_ratio" },
        { ONEVISION, "config.json", "anyres_max_9", "anyres_max_0", "vision_aspect_ratio" },
        { ONEVISION, "config.json", "anyres_max_9", "anyres_max_9x", "vision_aspect_ratio" },
        { ONEVISION, "config.json", "\"vision_config\"", "\"former\"", "vision_config" },
        { ONEVISION, "config.json", "\"full\"", "\"default\"", "8 features" },
        { ONEVISION, "config.json", "18,\n      54", "18,\n      90", "differ" },
        { NEXT, "config.json", "strategy\": \"default\"", "strategy\": \"full\"", "17 features" },
        { NEXT, "preprocessor_config.json", "\"height\": 22,", "\"height\": 20,",
          "the encoder needs" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *folder = changed_folder(cases[i].golden, cases[i].file, cases[i].from, cases[i].to);
        struct err err;
        struct model *m = model_load(folder, test_device(), NULL, &err);
        if (m) fail_msg("case %zu loads", i);
        if (!strstr(err.text, cases[i].says)) fail_msg("case %zu: %s", i, err.text);
        scratch_remove(folder);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_picture_takes_the_grid_that_shows_most_of_it),
        cmocka_unit_test(bad_grids_are_refused),
        cmocka_unit_test(tokens_are_cells_of_tiles_and_newlines),
        cmocka_unit_test(published_shapes_have_the_counts_of_transformers),
        cmocka_unit_test(padding_lies_outside_the_picture),
        cmocka_unit_test(large_maps_shrink_as_in_the_reference),
        cmocka_unit_test(a_second_picture_changes_the_first),
        cmocka_unit_test(a_loader_distinguishes_samples_of_several_pictures),
        cmocka_unit_test(bad_configs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
