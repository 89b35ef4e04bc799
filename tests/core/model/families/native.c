// tests/core/model/families/native.c -- pictures of any size (core/model/families/native.c,
// core/picture/preprocess.c): sizes and positions by transformers' formulas, several pictures in
// one pass, a picture after plain text; configs of Qwen2.5-VL and GLM-4.1V; similar models that are
// refused.
#include <math.h>

#include "core/model/families/family.h"
#include "core/model/model.h"
#include "core/model/visual.h"
#include "core/ops/ops.h"
#include "tests/core/model/families/golden.h"
#include "tests/core/scratch.h"

#define QWEN "tests/goldens/qwen2.5-vl"
#define GLM  "tests/goldens/glm-4.1v"

// --- sizes ---------------------------------------------------------------------------------------

// Sizes by smart_resize of transformers 5.23 (image_processing_qwen2_vl.py,
// image_processing_glm4v.py) with the classes' patches of 14 pixels and these limits; 0: refused.
static void sizes_equal_the_reference(void **state)
{
    static const struct {
        int64_t width, height, qwen[2], glm[2];
    } cases[] = {
        { 2000, 1500, { 1988, 1512 }, { 1988, 1512 } },
        { 14, 14, { 56, 56 }, { 84, 84 } },
        { 42, 98, { 56, 112 }, { 56, 112 } },
        { 640, 480, { 644, 476 }, { 644, 476 } },
        { 6000, 4000, { 4368, 2912 }, { 2688, 1792 } },
        { 1, 1, { 56, 56 }, { 84, 84 } },
        { 10, 1500, { 28, 700 }, { 28, 4200 } }, // narrower than 28: GLM first scales it up to that
        { 3000, 20, { 2996, 28 }, { 4200, 28 } },
        { 28, 5600, { 28, 5600 }, { 28, 5600 } },
        { 28, 5601, { 0 }, { 0 } },
        { 4999, 3333, { 4368, 2912 }, { 2660, 1792 } },
        { 70, 41, { 84, 56 }, { 112, 84 } },
    };
    const struct picture_config qwen = {
        .fit = FIT_NATIVE, .multiple = 28, .min_pixels = 3136, .max_pixels = 12845056, .frames = 1
    };
    const struct picture_config glm = { .fit = FIT_NATIVE,
                                        .multiple = 28,
                                        .min_pixels = 12544,
                                        .max_pixels = 9633792,
                                        .frames = 2,
                                        .enlarge = true };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int k = 0; k < 2; k++) {
            const int64_t *want = k ? cases[i].glm : cases[i].qwen;
            struct err err;
            int64_t w, h;
            const int status =
                preprocess_size(k ? &glm : &qwen, cases[i].width, cases[i].height, &w, &h, &err);
            assert_int_equal(status, want[0] ? 0 : -1);
            if (status < 0) continue;
            assert_int_equal(w, want[0]);
            assert_int_equal(h, want[1]);
        }
}

// --- positions -----------------------------------------------------------------------------------

static struct model *load(const char *folder)
{
    struct err err;
    struct model *m = model_load(folder, test_device(), NULL, &err);
    if (!m) fail_msg("%s", err.text);
    return m;
}

// Two words, a picture of 3 x 5 tokens, a word, a picture of 5 x 3, a word; then all of them joined
// with a second text.
static void pictures_take_as_many_positions_as_their_longer_side(void **state)
{
    struct model *m = load(QWEN);
    struct picture pictures[2] = { 0 };
    struct sequence s;
    model_size_picture(m, &pictures[0], 70, 42, 2, (struct picture_limit){ 0 });
    model_size_picture(m, &pictures[1], 42, 70, 2, (struct picture_limit){ 0 });
    assert_int_equal(pictures[0].tokens, 15);
    sequence_init(&s, 34, 1);
    for (int i = 0; i < 15; i++) {
        s.picture[2 + i] = 0, s.cell[2 + i] = i;
        s.picture[18 + i] = 1, s.cell[18 + i] = i;
    }
    m->family->positions(m, pictures, &s);
    assert_int_equal(s.axes, 3);
    static const struct {
        int row, at[3];
    } want[] = { { 1, { 1, 1, 1 } },  { 2, { 2, 2, 2 } },    { 8, { 2, 3, 3 } },
                 { 16, { 2, 4, 6 } }, { 17, { 7, 7, 7 } },   { 18, { 8, 8, 8 } },
                 { 21, { 8, 9, 8 } }, { 32, { 8, 12, 10 } }, { 33, { 13, 13, 13 } } };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        for (int axis = 0; axis < 3; axis++)
            assert_int_equal(s.positions[axis * s.n + want[i].row], want[i].at[axis]);
    sequence_append(&s, 1);
    for (int axis = 0; axis < 3; axis++) assert_int_equal(s.positions[axis * s.n + s.n - 1], 14);

    struct sequence text, both;
    sequence_init(&text, 3, 1);
    m->family->positions(m, NULL, &text);
    assert_int_equal(text.axes, 1);
    sequence_join(&both, (const struct sequence *const[]){ &text, &s }, (size_t[]){ 0, 2 }, 2);
    for (int axis = 0; axis < 3; axis++) {
        assert_int_equal(both.positions[axis * both.n + 2], 2);
        assert_int_equal(both.positions[axis * both.n + 3 + 32], want[7].at[axis]);
    }
    sequence_release(&both);
    sequence_release(&text);
    sequence_release(&s);
    model_free(m);
}

// --- several pictures ----------------------------------------------------------------------------

static struct image picture_of(int64_t width, int64_t height)
{
    struct image image = { .width = width, .height = height, .channels = 3 };
    image.pixels = xcalloc((size_t)(width * height), 3);
    for (int64_t i = 0; i < width * height * 3; i++)
        image.pixels[i] = (uint8_t)(i * 7919 % 251 + width);
    return image;
}

// Pictures of different sizes in one pass do not affect each other.
static void pictures_in_one_pass_are_independent(void **state)
{
    static const char *const folders[] = { QWEN, GLM, "tests/goldens/minicpm-v-4.6" };
    for (int f = 0; f < 3; f++) {
        struct model *m = load(folders[f]);
        struct arena step = { .backend = test_device() };
        struct graph g = { .backend = step.backend, .arena = &step };
        struct picture pictures[3] = { { .image = picture_of(84, 42) },
                                       { .image = picture_of(42, 70) },
                                       { .image = picture_of(29, 90) } };
        const struct picture *list[] = { &pictures[0], &pictures[1], &pictures[2] };
        const int number[] = { 0, 1, 2 };
        struct tensor *together[3];
        assert_int_equal(visual_encode_all(&g, m, list, number, 3, together, NULL), 0);
        for (int i = 0; i < 3; i++) {
            struct tensor *alone = visual_encode(&g, m, list[i], i, NULL);
            assert_non_null(alone);
            const int64_t n = tensor_count(alone);
            assert_int_equal(n, tensor_count(together[i]));
            float *a = xcalloc((size_t)n, sizeof *a), *b = xcalloc((size_t)n, sizeof *b);
            graph_download(&g, a, alone);
            graph_download(&g, b, together[i]);
            for (int64_t k = 0; k < n; k++) assert_true(fabsf(a[k] - b[k]) < 1e-4f);
            free(a);
            free(b);
            image_release(&pictures[i].image);
        }
        arena_release(&step);
        model_free(m);
    }
}

// --- a picture after plain text ------------------------------------------------------------------

// Cached rows of plain text have one position each, the rows of a picture after them three. The
// answer equals one that is computed without the cache.
static void a_picture_after_text_continues_the_cache(void **state)
{
    static const char *const names[] = { "qwen2.5-vl", "glm-4.1v" };
    for (int f = 0; f < 2; f++) {
        struct golden g;
        struct err err = { 0 };
        golden_open(&g, names[f]);
        must(engine_set(g.engine, "sample.max_tokens", "6", &err), &err);
        must(engine_ask(g.engine, "Hello there.", &err), &err);
        must(engine_attach(g.engine, "tests/goldens/pictures/scene.png", &err), &err);
        must(engine_ask(g.engine, "What is this?", &err), &err);
        struct ids later = { 0 };
        ids_append(&later, g.answer.data, g.answer.count);
        must(engine_set(g.engine, "kv.dtype", "bf16", &err), &err); // drops the cache
        must(engine_set(g.engine, "kv.dtype", "f32", &err), &err);
        must(engine_regenerate(g.engine, &err), &err);
        assert_int_equal(later.count, g.answer.count);
        assert_memory_equal(later.data, g.answer.data, later.count * sizeof *later.data);
        ids_release(&later);
        golden_close(&g);
    }
}

// --- folders -------------------------------------------------------------------------------------

// The language model's keys are in text_config, as transformers 5 writes them.
static void the_newer_config_is_equivalent(void **state)
{
    char *folder = scratch_new();
    struct err err;
    cJSON *config = json_read(QWEN "/config.json", 1 << 20, &err), *text = cJSON_CreateObject();
    static const char *const moved[] = {
        "hidden_size",         "intermediate_size", "max_position_embeddings",
        "num_attention_heads", "num_hidden_layers", "num_key_value_heads",
        "rms_norm_eps",        "vocab_size",        "use_sliding_window",
    };
    for (size_t i = 0; i < sizeof moved / sizeof *moved; i++)
        cJSON_AddItemToObject(text, moved[i],
                              cJSON_DetachItemFromObjectCaseSensitive(config, moved[i]));
    cJSON *rope = cJSON_DetachItemFromObjectCaseSensitive(config, "rope_scaling");
    cJSON_DeleteItemFromObjectCaseSensitive(rope, "type");
    cJSON_AddStringToObject(rope, "rope_type", "default");
    cJSON_AddItemToObject(rope, "rope_theta",
                          cJSON_DetachItemFromObjectCaseSensitive(config, "rope_theta"));
    cJSON_AddItemToObject(text, "rope_parameters", rope);
    cJSON_AddStringToObject(text, "model_type", "qwen2_5_vl_text");
    cJSON_AddItemToObject(config, "text_config", text);
    char *json = cJSON_Print(config);
    scratch_text(folder, "config.json", json);
    scratch_copy(folder, QWEN, "model.safetensors");
    scratch_copy(folder, QWEN, "tokenizer.json");
    scratch_copy(folder, QWEN, "preprocessor_config.json");
    struct model *a = load(QWEN), *b = load(folder);
    struct decoder_config *x = &a->decoder.config, *y = &b->decoder.config;
    assert_int_equal(x->hidden, y->hidden);
    assert_int_equal(x->layers, y->layers);
    assert_true(x->rope.theta == y->rope.theta && x->eps == y->eps);
    assert_memory_equal(x->rope.section, y->rope.section, sizeof x->rope.section);
    model_free(a);
    model_free(b);
    free(json);
    cJSON_Delete(config);
    scratch_remove(folder);
}

// GLM-4.1V's classes give queries, keys and values a bias whatever "attention_bias" says, and count
// a picture once for each frame of video that a patch spans.
static void glm_reads_its_config_as_the_classes_do(void **state)
{
    const struct family *f = family_named("glm4v");
    struct checkpoint c = { 0 };
    struct err err;
    c.config = json_read(GLM "/config.json", 1 << 20, &err);
    c.preprocessor = json_read(GLM "/preprocessor_config.json", 1 << 20, &err);
    cJSON *text = cJSON_GetObjectItem(c.config, "text_config");
    cJSON *vision = cJSON_GetObjectItem(c.config, "vision_config");
    cJSON_ReplaceItemInObject(text, "attention_bias", cJSON_CreateFalse());
    for (int times = 1; times <= 3; times++) {
        struct model m = { 0 };
        cJSON_SetIntValue(cJSON_GetObjectItem(vision, "temporal_patch_size"), times);
        cJSON_SetIntValue(cJSON_GetObjectItem(c.preprocessor, "temporal_patch_size"), times);
        must(f->configure(&m, &c, &err), &err);
        assert_int_equal(m.picture.frames, times);
        assert_true(m.decoder.config.qkv_bias);
        assert_false(m.decoder.config.out_bias);
    }
    cJSON_Delete(c.config);
    cJSON_Delete(c.preprocessor);
}

static void check_refused(const char *from, const char *key, const char *value, const char *why)
{
    char *folder = scratch_new(), *path = xasprintf("%s/config.json", from);
    struct err err;
    cJSON *config = json_read(path, 1 << 20, &err);
    cJSON *place = config, *with = cJSON_Parse(value);
    const char *dot = strchr(key, '.');
    char *part = dot ? xstrndup(key, (size_t)(dot - key)) : NULL;
    if (part) place = cJSON_GetObjectItemCaseSensitive(config, part);
    cJSON_DeleteItemFromObjectCaseSensitive(place, dot ? dot + 1 : key);
    cJSON_AddItemToObject(place, dot ? dot + 1 : key, with);
    char *json = cJSON_Print(config);
    scratch_text(folder, "config.json", json);
    scratch_copy(folder, from, "model.safetensors");
    scratch_copy(folder, from, "tokenizer.json");
    scratch_copy(folder, from, "preprocessor_config.json");
    struct model *m = model_load(folder, test_device(), NULL, &err);
    if (m) fail_msg("%s %s loads", key, value);
    if (!strstr(err.text, why)) fail_msg("'%s' does not say '%s'", err.text, why);
    free(json);
    free(part);
    free(path);
    cJSON_Delete(config);
    scratch_remove(folder);
}

static void variants_are_refused(void **state)
{
    check_refused(QWEN, "architectures", "[\"Qwen2_5OmniModel\"]",
                  "its relative Qwen2_5_VLForConditionalGeneration is");
    check_refused(GLM, "architectures", "[\"ChatGLMModel\"]",
                  "its relative Glm4vForConditionalGeneration is");
    check_refused(QWEN, "rope_scaling", "{\"type\": \"mrope\"}", "mrope_section");
    check_refused(QWEN, "rope_scaling", "{\"type\": \"mrope\", \"mrope_section\": [2, 3, 4]}",
                  "9 pairs, but 8 are rotated");
    check_refused(QWEN, "vision_config.window_size", "7", "less than a visual token");
    check_refused(QWEN, "vision_config.fullatt_block_indexes", "[1, -1]", "list of blocks");
    check_refused(QWEN, "vision_config.out_hidden_size", "32", "out_hidden_size");
    check_refused(QWEN, "vision_config.patch_size", "14", "patch_size");
    check_refused(QWEN, "vision_config.num_heads", "4", "multiple of 4");
    check_refused(QWEN, "vision_config.rope_parameters", "{\"rope_theta\": 100}",
                  "vision_config: rope_parameters: \"rope_theta\" 100 changes");
    check_refused(GLM, "text_config.partial_rotary_factor", "1.5", "partial_rotary_factor");
    check_refused(GLM, "vision_config.image_size", "28", "position_embedding");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_equal_the_reference),
        cmocka_unit_test(pictures_take_as_many_positions_as_their_longer_side),
        cmocka_unit_test(pictures_in_one_pass_are_independent),
        cmocka_unit_test(a_picture_after_text_continues_the_cache),
        cmocka_unit_test(the_newer_config_is_equivalent),
        cmocka_unit_test(glm_reads_its_config_as_the_classes_do),
        cmocka_unit_test(variants_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
