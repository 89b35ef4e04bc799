// tests/core/model/families/mistral3.c -- core/model/families/mistral3.c and Pixtral's encoder
// (core/model/vision_pixtral.c), which LLaVA can have, too: sizes and pixels of pictures, the text
// between rows of visual tokens, spellings of configs, refusals. Ministral 3: factors of queries,
// their gradients, required keys. (tests/core/model/families/goldens.c compares other numbers.)
#include "core/model/families/family.h"
#include "core/picture/preprocess.h"
#include "core/template/sequence.h"
#include "tests/core/model/families/golden.h"
#include "tests/core/model/passes.h"
#include "tests/core/scratch.h"

// --- pictures ------------------------------------------------------------------------------------

// Sizes in tokens that the processor of transformers 5.24 gives with the limit of Mistral Small
// 3.1, 1540 pixels, and cells of 28. It divides before it rounds down, so that 1547 become 1539.
static void sizes_are_those_of_the_processor(void **state)
{
    static const struct {
        int64_t width, height, cols, rows;
    } cases[] = { { 1024, 768, 37, 28 },
                  { 4000, 3000, 55, 42 },
                  { 1540, 1540, 55, 55 },
                  { 28, 29, 1, 2 },
                  { 1, 1, 1, 1 },
                  { 3000, 10, 55, 1 },
                  { 640, 480, 23, 18 },
                  { 2000, 1999, 55, 55 },
                  { 1547, 1547, 55, 55 },
                  // transformers refuses this one, whose short side rounds down to 0.
                  { 5000, 3, 55, 1 } };
    struct picture_config c = {
        .fit = FIT_WITHIN, .resize = true, .multiple = 28, .longest = 1540
    };
    struct err err = { 0 };
    int64_t width, height;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        must(preprocess_size(&c, cases[i].width, cases[i].height, &width, &height, &err), &err);
        assert_int_equal(width, 28 * cases[i].cols);
        assert_int_equal(height, 28 * cases[i].rows);
    }
    c.multiple = 1;
    must(preprocess_size(&c, 1547, 100, &width, &height, &err), &err);
    assert_int_equal(width, 1539);
}

static void pixels_equal_the_reference(void **state)
{
    static const char *const folders[] = { "mistral3", "pixtral" };
    for (int i = 0; i < 2; i++) {
        struct golden g;
        golden_open(&g, folders[i]);
        const struct picture_config *c = &engine_model(g.engine)->picture;
        int checked = 0;
        for (int64_t k = 0; k < g.tensors->count; k++) {
            const struct safetensor *t = &g.tensors->tensors[k];
            struct image from, to;
            struct err err = { 0 };
            char path[160];
            size_t size;
            if (strncmp(t->name, "pix.", 4) != 0) continue;
            snprintf(path, sizeof path, "tests/goldens/pictures/%s.%s", t->name + 4,
                     strcmp(t->name + 4, "tall") ? "png" : "jpg");
            char *bytes = file_read(path, IMAGE_MAX_FILE, &size, &err);
            if (!bytes || image_decode(&from, bytes, size, path, &err) < 0)
                fail_msg("%s", err.text);
            must(preprocess_bytes(&to, &from, c, RESIZE_PILLOW13, &err), &err);
            const size_t count = (size_t)(to.width * to.height * 3);
            float *pixels = xreallocarray(NULL, count, sizeof *pixels);
            preprocess_floats(pixels, &to, c);
            assert_int_equal(t->bytes, count * sizeof *pixels);
            for (size_t n = 0; n < count; n++)
                assert_true(fabsf(pixels[n] - ((const float *)t->data)[n]) <=
                            (float)tolerance(&g, t->name));
            image_release(&from);
            image_release(&to);
            free(pixels);
            free(bytes);
            checked++;
        }
        assert_true(checked >= 2);
        golden_close(&g);
    }
}

// --- prompts -------------------------------------------------------------------------------------

// Rows of visual tokens with a token of text between them and after the last one. Maps show the
// rows as one grid.
static void text_ends_each_row(void **state)
{
    static const char *const folders[] = { "mistral3", "pixtral" };
    for (int i = 0; i < 2; i++) {
        struct golden g;
        struct err err = { 0 };
        struct sequence s;
        struct picture_tile tile;
        golden_open(&g, folders[i]);
        const struct model *m = engine_model(g.engine);
        const int32_t row_end = tokenizer_id(m->tokenizer, "[IMG_BREAK]");
        const int32_t end = tokenizer_id(m->tokenizer, "[IMG_END]");
        assert_true(row_end > 0 && end > 0);
        say(&g, chat_named(&g, "two_images"));
        struct conversation *c = golden_conversation(&g);
        must(conversation_sequence(c, c->message_count, engine_settings(g.engine), true, &s, &err),
             &err);
        int64_t seen = 0, rows_seen = 0;
        for (int64_t k = 0; k < s.n; k++) {
            if (s.picture[k] < 0) continue;
            const struct picture *p = &c->pictures[s.picture[k]];
            assert_int_equal(m->family->pictures->tiles(m, p->shape, &tile, 1), 1);
            assert_true(tile.rows_apart && tile.pitch == tile.cols && tile.rows > 1);
            assert_int_equal(tile.rows * tile.cols, p->tokens);
            assert_int_equal(s.ids[k], m->placeholder);
            seen++;
            if ((s.cell[k] + 1) % tile.cols) {
                assert_int_equal(s.cell[k + 1], s.cell[k] + 1);
                continue;
            }
            const bool last = s.cell[k] == p->tokens - 1;
            assert_int_equal(s.picture[k + 1], -1);
            assert_int_equal(s.ids[k + 1], last ? end : row_end);
            assert_true(last ||
                        (s.picture[k + 2] == s.picture[k] && s.cell[k + 2] == s.cell[k] + 1));
            rows_seen++;
        }
        assert_int_equal(seen, c->pictures[0].tokens + c->pictures[1].tokens);
        assert_true(rows_seen > 3);
        sequence_release(&s);
        golden_close(&g);
    }
}

// --- configs -------------------------------------------------------------------------------------

// A copy of the golden folder with `to` in place of each `from` in one file.
static char *folder_with(const char *golden, const char *file, const char *from, const char *to)
{
    static const char *const files[] = { "config.json",           "model.safetensors",
                                         "tokenizer.json",        "preprocessor_config.json",
                                         "tokenizer_config.json", "processor_config.json" };
    char source[64];
    snprintf(source, sizeof source, "tests/goldens/%s", golden);
    char *folder = scratch_new();
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        scratch_copy(folder, source, files[i]);
    struct err err = { 0 };
    size_t size;
    char *path = xasprintf("%s/%s", source, file), *text = file_read(path, 1 << 20, &size, &err);
    if (!text) fail_msg("%s", err.text);
    text[size - 1] = 0;
    struct buf changed = { 0 };
    const char *rest = text;
    for (const char *at; (at = strstr(rest, from)); rest = at + strlen(from)) {
        buf_add(&changed, rest, (size_t)(at - rest));
        buf_puts(&changed, to);
    }
    if (rest == text) fail_msg("%s has no %s", path, from);
    buf_puts(&changed, rest);
    scratch_text(folder, file, changed.data);
    buf_release(&changed);
    free(text);
    free(path);
    return folder;
}

static void other_configs_are_refused(void **state)
{
    static const struct {
        const char *golden, *file, *from, *to, *why;
    } cases[] = {
        { "mistral3", "config.json", "\"head_dim\": 8", "\"head_dim\": 16",
          "vision_config: \"head_dim\" 16 is not" },
        { "mistral3", "config.json", "\"hidden_act\": \"silu\",\n  \"hidden_size\": 16,\n  \"image",
          "\"hidden_act\": \"gelu\",\n  \"hidden_size\": 16,\n  \"image",
          "vision_config: \"hidden_act\" \"gelu\" is not supported (known: silu)" },
        { "mistral3", "config.json", "\"model_type\": \"mistral\",",
          "\"model_type\": \"mistral9\",", "language model \"mistral9\" is not supported" },
        { "mistral3", "config.json", "\"vision_feature_layer\": -1",
          "\"vision_feature_layer\": [-1, -2]", "features from several layers" },
        { "mistral3", "config.json", "\"spatial_merge_size\": 2", "\"spatial_merge_size\": 3",
          "processor_config.json: \"spatial_merge_size\" is 2, but the encoder's is 3" },
        { "mistral3", "config.json", "\"spatial_merge_size\": 2", "\"spatial_merge_size\": 0",
          "\"spatial_merge_size\" must be a whole number from 1 to 64" },
        { "mistral3", "config.json", "\"patch_size\": 4", "\"patch_size\": 5",
          "preprocessor_config.json: \"patch_size\": \"height\" is 4, but the encoder's is 5" },
        { "mistral3", "config.json", "\"patch_size\": 4", "\"patch_size\": 49",
          "vision_config: \"image_size\" is less than a patch" },
        { "mistral3", "config.json", "\"image_size\": 48", "\"image_size\": 1e12",
          "vision_config: \"image_size\" must be a whole number" },
        { "mistral3", "config.json", "\"num_attention_heads\": 2,\n  \"num_channels\"",
          "\"num_attention_heads\": 8,\n  \"num_channels\"",
          "vision_config: heads of width 2 cannot be rotated" },
        { "mistral3", "config.json", "\"rope_theta\": 10000.0", "\"rope_theta\": 1e999",
          "vision_config: \"rope_theta\" must be a number" },
        { "mistral3", "config.json", "\"rope_theta\": 10000.0", "\"rope_theta\": 0",
          "vision_config: \"rope_theta\" must be greater than 0" },
        { "mistral3", "config.json", "\"rope_theta\": 10000.0",
          "\"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": 2}",
          "vision_config: \"rope_type\" \"linear\" is not supported" },
        { "mistral3", "preprocessor_config.json", "\"longest_edge\": 24",
          "\"height\": 24, \"width\": 28", "height and width must be equal" },
        { "mistral3", "preprocessor_config.json", "\"longest_edge\": 24", "\"width\": 24",
          "height and width must be equal" },
        { "mistral3", "preprocessor_config.json", "\"longest_edge\": 24", "\"longest_edge\": 1e9",
          "\"longest_edge\" must be a whole number from 1 to 20000" },
        { "mistral3", "processor_config.json", "\"spatial_merge_size\": 2",
          "\"spatial_merge_size\": 3", "\"spatial_merge_size\" is 3, but the encoder's is 2" },
        { "mistral3", "tokenizer.json", "[IMG_BREAK]", "[IMG_LINES]",
          "has no token [IMG_BREAK], which follows each row" },
        { "pixtral", "tokenizer.json", "[IMG_END]", "[IMG_FIN]",
          "has no token [IMG_END], which follows a picture" },
        { "mistral3", "preprocessor_config.json", "\"height\": 4", "\"height\": 5",
          "\"patch_size\": \"height\" is 5, but the encoder's is 4" },
        { "mistral3", "preprocessor_config.json", "\"do_resize\": true", "\"do_resize\": false",
          "\"do_resize\" false is not supported" },
        { "pixtral", "config.json", "_strategy\": \"full\"", "_strategy\": \"default\"",
          "needs \"vision_feature_select_strategy\" \"full\"" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err err = { 0 };
        char *folder = folder_with(cases[i].golden, cases[i].file, cases[i].from, cases[i].to);
        struct model *m = model_load(folder, test_device(), NULL, &err);
        if (m) fail_msg("%s: not refused", cases[i].why);
        if (!strstr(err.text, cases[i].why)) fail_msg("%s: %s", cases[i].why, err.text);
        scratch_remove(folder);
    }
}

// Configs that mean the same.
static void other_spellings_are_read(void **state)
{
    static const struct {
        const char *file, *from, *to;
    } cases[] = {
        { "config.json", "\"image_token_index\": 10", "\"image_token_id\": 10" },
        { "config.json", "\"rope_theta\": 10000.0",
          "\"rope_parameters\": {\"rope_theta\": 10000.0, \"rope_type\": \"default\"}" },
        { "config.json", "\"rope_theta\": 10000.0",
          "\"rope_parameters\": {\"rope_theta\": 10000.0, \"rope_type\": \"axial\"}" },
        { "config.json", " \"tie_word_embeddings\": false,", "" }, // the file has a head
        { "preprocessor_config.json", "\"longest_edge\": 24", "\"height\": 24, \"width\": 24" },
        { "preprocessor_config.json", "{\n  \"height\": 4,\n  \"width\": 4\n }", "4" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err err = { 0 };
        char *folder = folder_with("mistral3", cases[i].file, cases[i].from, cases[i].to);
        struct model *m = model_load(folder, test_device(), NULL, &err);
        if (!m) fail_msg("%s: %s", cases[i].to, err.text);
        assert_int_equal(m->placeholder, 10);
        assert_false(m->decoder.config.tied);
        assert_true(m->vision.config.theta == 10000);
        assert_int_equal(m->picture.longest, 24);
        assert_int_equal(m->picture.multiple, 8);
        model_free(m);
        scratch_remove(folder);
    }
}

// The encoder has no last norm, so LLaVA may take its features after any block.
static void llava_takes_features_of_an_earlier_block(void **state)
{
    struct err err = { 0 };
    (void)state;
    char *folder = folder_with("pixtral", "config.json", "\"vision_feature_layer\": -1",
                               "\"vision_feature_layer\": -2");
    struct model *m = model_load(folder, test_device(), NULL, &err);
    if (!m) fail_msg("%s", err.text);
    assert_int_equal(vision_depth(&m->vision.config), m->vision.config.layers - 1);
    model_free(m);
    scratch_remove(folder);
}

// --- Ministral 3 ---------------------------------------------------------------------------------

#define MINISTRAL                                                                                \
    "\"model_type\": \"ministral3\", \"rope_parameters\": {\"beta_fast\": 32.0, \"beta_slow\": " \
    "1.0, "                                                                                      \
    "\"factor\": 4.0, \"llama_4_scaling_beta\": 0.1, \"mscale\": 1.0, \"mscale_all_dim\": 1.0, " \
    "\"original_max_position_embeddings\": 16, \"rope_theta\": 1000000.0, \"rope_type\": "       \
    "\"yarn\"}, "

// The golden weights as Ministral 3's: queries grow from position 16 on.
static void queries_grow_with_their_position(void **state)
{
    struct golden g;
    struct err err = { 0 };
    golden_open(&g, "mistral3");
    char *folder =
        folder_with("mistral3", "config.json", "\"model_type\": \"mistral\",", MINISTRAL);
    scratch_copy(folder, "tests/goldens/mistral3", "chat_template.json");
    must(engine_load(g.engine, folder, &err), &err);
    struct safetensors *f = answer(&g, chat_named(&g, "single"), 8, "logits");
    check_last(&g, f, "ministral.logits_last");
    check_generated(&g, "ministral.gen_ids");
    safetensors_close(f);
    const struct rope_config *r = &engine_model(g.engine)->decoder.config.rope;
    struct sequence s;
    float factor[40];
    sequence_init(&s, 40, 1);
    for (int i = 0; i < 40; i++) s.positions[i] = i;
    assert_true(rope_query_factors(r, &s, NULL, 40, factor));
    for (int i = 0; i < 40; i++)
        assert_true(fabs((double)factor[i] - (1 + 0.1 * log(1 + i / 16))) < 1e-6);
    assert_false(rope_query_factors(r, &s, (const int32_t[]){ 3, 15 }, 2, factor));
    sequence_release(&s);
    scratch_remove(folder);
    golden_close(&g);
}

// In a model of one layer, a factor of a row's query has the effect of a factor of the row's
// scores. For rows 16 to 31, which alone have targets, it is 1 + 0.1 ln 2.
static void gradients_pass_through_the_factors(void **state)
{
    enum { N = 32 };
    int32_t ids[N], target[N];
    float *grad[2][64];
    double loss[2];
    size_t count = 0;
    char *folder = folder_with(
        "mistral3", "config.json",
        "\"model_type\": \"mistral\",\n  \"num_attention_heads\": 2,\n  \"num_hidden_layers\": 3",
        MINISTRAL "\"num_attention_heads\": 2, \"num_hidden_layers\": 1");
    for (int i = 0; i < N; i++) {
        ids[i] = 20 + i * 37 % 256;
        target[i] = i < 16 ? -1 : 20 + i * 53 % 256;
    }
    for (int k = 0; k < 2; k++) {
        struct err err = { 0 };
        struct model *m = model_load(folder, test_device(), NULL, &err);
        if (!m) fail_msg("%s", err.text);
        if (k) {
            m->decoder.config.rope.query_beta = 0;
            m->decoder.config.score_scale *= 1 + 0.1 * log(2);
        }
        pass_want_gradients(m);
        loss[k] = pass_loss(m, ids, target, N, k);
        count = m->weights.count;
        assert_true(count <= 64);
        for (size_t i = 0; i < count; i++) {
            const struct tensor *t = m->weights.list[i].tensor;
            const size_t bytes = (size_t)t->grad->count * sizeof(float);
            grad[k][i] = xmalloc(bytes);
            backend_of(test_device(), t)->download(grad[k][i], t->grad->data, bytes);
            double difference = 0, size = 0;
            for (int64_t j = 0; k && j < t->grad->count; j++) {
                difference += pow((double)(grad[0][i][j] - grad[1][i][j]), 2);
                size += pow((double)grad[0][i][j], 2);
            }
            if (!(sqrt(difference) <= 1e-5 * sqrt(size)))
                fail_msg("gradient of %s: differs by %g of %g", m->weights.list[i].name,
                         sqrt(difference), sqrt(size));
            assert_true(!k || size > 0 || !strstr(m->weights.list[i].name, "language_model"));
        }
        pass_free_gradients(m);
        model_free(m);
    }
    assert_true(fabs(loss[0] - loss[1]) < 1e-6 * loss[0]);
    for (size_t i = 0; i < 2 * count; i++) free(grad[i / count][i % count]);
    scratch_remove(folder);
}

static int64_t window_of(const char *more)
{
    struct err err = { 0 };
    struct decoder_config c;
    char *text = xasprintf("{" MINISTRAL "%s\"hidden_size\": 64, \"head_dim\": 12}", more);
    cJSON *json = json_parse(text, strlen(text), "config.json", &err);
    const struct decoder_kind *kind = family_decoder(json, &err);
    if (!kind) fail_msg("%s", err.text);
    must(decoder_config_read(&c, kind, json, &err), &err);
    cJSON_Delete(json);
    free(text);
    return c.window;
}

// Ministral's config must have the factors, as in transformers. Unlike Mistral, Ministral has a
// window only if its config names one.
static void ministral_needs_its_parameters(void **state)
{
    struct err err = { 0 };
    char *folder = folder_with("mistral3", "config.json", "\"model_type\": \"mistral\",",
                               "\"model_type\": \"ministral3\",");
    struct model *m = model_load(folder, test_device(), NULL, &err);
    assert_null(m);
    if (!strstr(err.text, "\"rope_parameters\" has no \"llama_4_scaling_beta\""))
        fail_msg("%s", err.text);
    scratch_remove(folder);
    assert_int_equal(window_of(""), 0);
    assert_int_equal(window_of("\"sliding_window\": null, "), 0);
    assert_int_equal(window_of("\"sliding_window\": 8, "), 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_those_of_the_processor),
        cmocka_unit_test(pixels_equal_the_reference),
        cmocka_unit_test(text_ends_each_row),
        cmocka_unit_test(other_configs_are_refused),
        cmocka_unit_test(other_spellings_are_read),
        cmocka_unit_test(llava_takes_features_of_an_earlier_block),
        cmocka_unit_test(queries_grow_with_their_position),
        cmocka_unit_test(gradients_pass_through_the_factors),
        cmocka_unit_test(ministral_needs_its_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
