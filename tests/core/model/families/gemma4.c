// tests/core/model/families/gemma4.c -- core/model/families/gemma4.c, gemma4_unified.c,
// gemma4_text.c, gemma4_unified_text.c, core/model/attention_shared.c, pass_shared.c,
// vision_gemma.c, vision_gemma_unified.c: configs, sizes of heads, which layer shares which keys,
// which rows see which, sizes of pictures, shared keys after pruning, names of modules, refusals.
// (tests/core/model/families/goldens.c compares numbers.)
#include "core/model/companions.h"
#include "core/model/families/family.h"
#include "core/model/layer.h"
#include "core/model/pass.h"
#include "core/picture/preprocess.h"
#include "tests/core/methods/fresh.h"
#include "tests/core/model/families/golden.h"
#include "tests/core/scratch.h"

#define TEXT "{\"model_type\": \"gemma4_text\", \"hidden_size\": 64, \"num_attention_heads\": 8, "

static int config_of(struct decoder_config *c, const char *text, struct err *err)
{
    cJSON *json = json_parse(text, strlen(text), "config.json", err);
    const struct decoder_kind *kind = family_decoder(json, err);
    assert_non_null(kind);
    const int status = decoder_config_read(c, kind, json, err);
    cJSON_Delete(json);
    return status;
}

// E2B: every fifth layer sees all tokens; the last 20 of 35 layers share keys.
static void layers_share_the_last_keys_of_their_kind(void **state)
{
    struct err err = { 0 };
    struct decoder_config c;
    struct buf text = { 0 };
    (void)state;
    buf_printf(&text, TEXT "\"num_hidden_layers\": 35, \"num_kv_shared_layers\": 20, "
                           "\"num_key_value_heads\": 1, \"use_double_wide_mlp\": true, "
                           "\"intermediate_size\": 6144, \"layer_types\": [");
    for (int l = 0; l < 35; l++)
        buf_printf(&text, "%s\"%s_attention\"", l ? ", " : "", l % 5 == 4 ? "full" : "sliding");
    buf_printf(&text, "], \"final_logit_softcapping\": 30.0}");
    must(config_of(&c, text.data, &err), &err);
    buf_release(&text);
    for (int l = 0; l < 35; l++) {
        const struct head_sizes heads = decoder_heads(&c, l);
        const bool slides = l % 5 != 4;
        assert_true(decoder_slides(&c, l) == slides);
        assert_int_equal(heads.dim, slides ? 256 : 512);
        assert_int_equal(heads.kv_heads, 1);
        assert_int_equal(decoder_rope(&c, l)->dim, heads.dim);
        assert_int_equal(decoder_keys_of(&c, l), l < 15 ? l : slides ? 13 : 14);
        assert_true(decoder_shares(&c, l) == (l >= 15));
        assert_true(decoder_lends(&c, l) == (l == 13 || l == 14));
        assert_int_equal(decoder_ffn_width(&c, l), l < 15 ? 6144 : 12288);
        struct layer_weight w;
        int count = 0;
        while (decoder_attention(&c, l)->weight(&c, l, count, &w)) count++;
        assert_int_equal(count, l < 15 ? 6 : 3); // a sharing layer has queries, their norm, output
    }
    assert_true(c.logit_cap == 30 && c.score_scale == 1 && c.embed_scale == 8);
    assert_int_equal(c.layer_input, 256);
    assert_false(c.pictures_whole);
}

// In layers without a window, only the first quarter of the pairs rotates; the exponents of its
// frequencies are fractions of the whole width.
static void some_pairs_of_wide_heads_do_not_turn(void **state)
{
    struct err err = { 0 };
    struct decoder_config c;
    float f[256];
    (void)state;
    must(config_of(&c, TEXT "\"num_hidden_layers\": 6}", &err), &err);
    rope_frequencies(decoder_rope(&c, 5), f);
    assert_true(f[0] == 1 && f[64] == 0 && f[255] == 0);
    assert_true(fabs((double)f[63] - pow(1e6, -126.0 / 512)) < 1e-7);
    rope_frequencies(decoder_rope(&c, 0), f);
    assert_true(fabs((double)f[127] - pow(1e4, -254.0 / 256)) < 1e-8);
}

// The larger shape: one projection for keys and values; in sliding layers, the rows of a picture
// see all its rows.
static void keys_and_values_may_be_one_projection(void **state)
{
    struct err err = { 0 };
    struct decoder_config c;
    struct layer_weight w;
    (void)state;
    must(config_of(&c,
                   TEXT "\"num_hidden_layers\": 7, \"attention_k_eq_v\": true, "
                        "\"num_global_key_value_heads\": 2, \"hidden_size_per_layer_input\": 0, "
                        "\"use_bidirectional_attention\": \"vision\"}",
                   &err),
         &err);
    assert_true(decoder_heads(&c, 5).joint && !decoder_heads(&c, 4).joint);
    assert_int_equal(decoder_heads(&c, 5).kv_heads, 2);
    assert_false(decoder_slides(&c, 6)); // the last layer never slides
    for (int i = 0; decoder_attention(&c, 5)->weight(&c, 5, i, &w); i++)
        assert_string_not_equal(w.name, "self_attn.v_proj");
    int32_t picture[] = { -1, 0, 0, 0, -1 }, ids[5] = { 0 }, cell[] = { 0, 0, 1, 2, 0 };
    const struct sequence s = { .n = 5, .ids = ids, .picture = picture, .cell = cell };
    assert_int_equal(pass_sees(&c, true, &s, 1).end, 4);
    assert_int_equal(pass_sees(&c, false, &s, 1).end, 2);
    assert_int_equal(pass_start(&c, &s, 3), 1);
}

// transformers 5.24 lists the layers whose heads differ in "per_layer_config", in place of
// "global_head_dim" and "num_global_key_value_heads": layers that it does not list have the sizes
// of all others.
static void sizes_of_single_layers_are_read(void **state)
{
    static const struct {
        const char *layers;
        int64_t dim, kv_heads;
    } cases[] = { { "", 256, 4 },
                  { "\"5\": {\"head_dim\": 64}", 64, 4 },
                  { "\"5\": {\"head_dim\": 64, \"num_key_value_heads\": 2}", 64, 2 } };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err err = { 0 };
        struct decoder_config c;
        char text[512];
        snprintf(text, sizeof text,
                 TEXT "\"num_hidden_layers\": 6, \"num_key_value_heads\": 4, "
                      "\"per_layer_config\": {%s}}",
                 cases[i].layers);
        must(config_of(&c, text, &err), &err);
        assert_int_equal(decoder_heads(&c, 5).dim, cases[i].dim);
        assert_int_equal(decoder_heads(&c, 5).kv_heads, cases[i].kv_heads);
        assert_int_equal(decoder_heads(&c, 4).dim, 256);
    }
}

// Without an encoder: a picture's rows see all its rows, in all layers, even those before their
// window.
static void pictures_without_an_encoder_are_whole(void **state)
{
    static const char text[] = "{\"model_type\": \"gemma4_unified_text\", \"hidden_size\": 64, "
                               "\"num_hidden_layers\": 7%s}";
    struct err err = { 0 };
    struct decoder_config c;
    char own[256];
    (void)state;
    snprintf(own, sizeof own, text, "");
    must(config_of(&c, own, &err), &err);
    assert_true(c.window == 1024 && c.max_positions == 262144 && !c.layer_input);
    assert_true(c.pictures_whole && c.pictures_unwindowed && !c.pictures_whole_sliding);
    c.window = 2;
    int32_t picture[] = { -1, 0, 0, 0, 0, -1, -1 }, ids[7] = { 0 }, cell[7] = { 0 };
    const struct sequence s = { .n = 7, .ids = ids, .picture = picture, .cell = cell };
    // The rows that each row sees, in layers with a window and without.
    static const int64_t sees[][4] = { { 0, 1, 0, 1 }, { 0, 5, 0, 5 }, { 1, 5, 0, 5 },
                                       { 1, 5, 0, 5 }, { 1, 5, 0, 5 }, { 4, 6, 0, 6 },
                                       { 5, 7, 0, 7 } };
    for (int64_t row = 0; row < s.n; row++) {
        const struct row_range in = pass_sees(&c, true, &s, row),
                               all = pass_sees(&c, false, &s, row);
        assert_true(in.first == sees[row][0] && in.end == sees[row][1]);
        assert_true(all.first == sees[row][2] && all.end == sees[row][3]);
    }
    snprintf(own, sizeof own, text, ", \"use_bidirectional_attention\": null");
    must(config_of(&c, own, &err), &err);
    assert_false(c.pictures_whole || c.pictures_unwindowed);
}

static void other_configs_are_refused(void **state)
{
    static const char *const refused[][2] = {
        { "\"num_kv_shared_layers\": 5", "\"num_kv_shared_layers\" 5: layer 5" },
        { "\"use_bidirectional_attention\": \"all\"", "\"use_bidirectional_attention\" \"all\"" },
        { "\"global_head_dim\": 7", "heads of width 7" },
        { "\"per_layer_config\": {\"1\": {\"head_dim\": 128}}", "layer 1 differs in head sizes" },
        { "\"per_layer_config\": {\"1\": {\"skip\": true}}", "layer 1: \"skip\"" },
        { "\"pad_token_id\": 262144", "\"pad_token_id\" 262144" },
        { "\"enable_moe_block\": true, \"num_experts\": 8, \"top_k_experts\": 2",
          "needs \"num_experts\", \"top_k_experts\" and \"moe_intermediate_size\"" },
        { "\"enable_moe_block\": true, \"num_experts\": 4, \"top_k_experts\": 5, "
          "\"moe_intermediate_size\": 8",
          "\"top_k_experts\" 5: the model has only 4 experts" },
        { "\"enable_moe_block\": 1", "\"enable_moe_block\"" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct err err = { 0 };
        struct decoder_config c;
        char text[512];
        snprintf(text, sizeof text, TEXT "\"num_hidden_layers\": 6, %s}", refused[i][0]);
        assert_int_equal(config_of(&c, text, &err), -1);
        if (!strstr(err.text, refused[i][1])) fail_msg("%s", err.text);
    }
}

// Sizes that transformers' processor computes (get_aspect_ratio_preserving_size).
static void pictures_fill_their_budget(void **state)
{
    static const int64_t sizes[][5] = {
        { 640, 480, 280, 912, 672 },     { 480, 640, 70, 336, 432 },  { 1, 1, 70, 384, 384 },
        { 3000, 10, 280, 13440, 48 },    { 10, 3000, 70, 48, 3360 },  { 7, 5, 1120, 1872, 1344 },
        { 1000, 1000, 560, 1104, 1104 }, { 123, 457, 140, 288, 1056 }
    };
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const struct picture_config c = {
            .fit = FIT_BUDGET, .patch = 16, .multiple = 48, .budget = sizes[i][2]
        };
        int64_t width, height;
        struct err err = { 0 };
        must(preprocess_size(&c, sizes[i][0], sizes[i][1], &width, &height, &err), &err);
        assert_int_equal(width, sizes[i][3]);
        assert_int_equal(height, sizes[i][4]);
    }
    struct picture_config c = {
        .fit = FIT_BUDGET, .patch = 16, .multiple = 48, .budget = 280, .limit_side = 100
    };
    int64_t width, height;
    struct err err = { 0 };
    assert_int_equal(preprocess_size(&c, 3000, 10, &width, &height, &err), -1);
    assert_non_null(strstr(err.text, "840 x 3 patches"));
    // A limit above the budget does not raise it.
    assert_int_equal(preprocess_limited(&c, 3000, 10, 1000).budget, 280);
    assert_int_equal(preprocess_limited(&c, 3000, 10, 20).budget, 20);
    c.limit_side = 0;
    c.budget = 1120;
    assert_int_equal(preprocess_size(&c, 6000, 10, &width, &height, &err), -1);
    assert_non_null(strstr(err.text, "39312 x 48 pixels: too long"));
}

// Without a processor's config, the class's budget applies.
static void the_default_budget_is_named(void **state)
{
    static const char *const files[] = { "config.json", "model.safetensors", "tokenizer.json",
                                         "tokenizer_config.json" };
    char *folder = scratch_new(), *list[COMPANIONS_MOST];
    bool named = false;
    struct err err = { 0 };
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        scratch_copy(folder, "tests/goldens/gemma4", files[i]);
    struct model *m = model_load(folder, test_device(), NULL, &err);
    if (!m) fail_msg("%s", err.text);
    for (int n = companions_missing(m, list); n > 0; n--) {
        named |= strstr(list[n - 1], "resized to at most 280 visual tokens") != NULL;
        free(list[n - 1]);
    }
    assert_true(named);
    model_free(m);
    scratch_remove(folder);
}

static void set(struct golden *g, const char *key, const char *value)
{
    struct err err = { 0 };
    must(engine_set(g->engine, key, value, &err), &err);
}

// The budget is a live setting; image.max_tokens lowers it further.
static void the_budget_is_a_setting(void **state)
{
    struct golden g;
    struct err err = { 0 };
    (void)state;
    golden_open(&g, "gemma4");
    const struct model *m = engine_model(g.engine);
    // 57 patches on a side exceed the table of positions, so that picture has no tokens.
    static const int64_t tokens[][3] = {
        { 0, 0, 12 }, { 70, 0, 63 }, { 70, 20, 15 }, { 280, 0, 0 }
    };
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        struct picture p = { 0 };
        const struct picture_limit limit = { .budget = tokens[i][0], .most = tokens[i][1] };
        model_size_picture(m, &p, 640, 480, 1, limit);
        assert_int_equal(p.tokens, tokens[i][2]);
    }
    set(&g, "image.token_budget", "70");
    struct safetensors *f = answer(&g, chat_named(&g, "single"), 1, "visual.0");
    const int64_t more = safetensors_find(f, "visual.0")->shape[0];
    safetensors_close(f);
    set(&g, "image.token_budget", "auto");
    f = answer(&g, chat_named(&g, "single"), 1, "visual.0");
    assert_int_equal(safetensors_find(f, "visual.0")->shape[0], 12);
    assert_true(more > 50 && more <= 70);
    safetensors_close(f);
    golden_close(&g);
    golden_open(&g, "gemma3");
    assert_int_equal(engine_set(g.engine, "image.token_budget", "70", &err), -1);
    assert_non_null(strstr(err.text, "only Gemma 4"));
    golden_close(&g);
}

// Sharing layers have no tables of their own, but after pruning between them and the layer that
// lends its keys they hold the rows that remain; without pruning they borrow again.
static void the_cache_holds_keys_once(void **state)
{
    struct golden g;
    (void)state;
    golden_open(&g, "gemma4");
    const struct kv *kv = &engine_conversation(g.engine)->kv;
    for (int round = 0; round < 3; round++) {
        set(&g, "prune.score", round == 1 ? "attention" : "off");
        set(&g, "prune.layer", "1");
        safetensors_close(answer(&g, chat_named(&g, "single"), 4, "logits"));
        for (int l = 0; l < kv->layers; l++) {
            const struct kv_layer *layer = &kv->layer[l];
            // Layer 1 lends to 3 and 5; layer 2, which follows the pruning, to 4. Once 3 holds the
            // remaining rows itself, 5 borrows from it.
            const bool apart = round == 1 && l == 3;
            assert_true(layer->shares == (l >= 3) && layer->apart == apart);
            assert_true(!layer->k.data == (l >= 3 && !apart));
            assert_true((kv_row_bytes(kv, l) > 0) == (l < 3 || apart));
            assert_int_equal(layer->rows, kv->layer[round == 1 && l < 2 ? 0 : 5].rows);
        }
    }
    golden_close(&g);
}

static void count_computed(void *self, const struct event *e)
{
    if (e->kind == EVENT_ANSWER) *(int64_t *)self = e->answer->computed_tokens;
}

// While pruning is on, a turn reuses the cache and equals a fresh run.
static void a_turn_after_pruning_reuses_the_cache(void **state)
{
    struct golden g;
    struct err err = { 0 };
    int64_t computed = 0;
    (void)state;
    golden_open(&g, "gemma4");
    sinks_add(&g.sinks, (struct sink){ .emit = count_computed, .self = &computed });
    set(&g, "prune.score", "attention");
    set(&g, "prune.layer", "1");
    set(&g, "sample.max_tokens", "4");
    must(engine_attach(g.engine, "tests/goldens/pictures/scene.png", &err), &err);
    must(engine_ask(g.engine, "What is this?", &err), &err);
    assert_true(computed > 12);
    for (int turn = 0; turn < 2; turn++) {
        const int64_t cached = engine_conversation(g.engine)->cached.n;
        must(engine_ask(g.engine, "And now?", &err), &err);
        assert_true(computed > 0 && computed < cached);
        equals_a_fresh_run(&g);
    }
    golden_close(&g);
}

// Opens a copy of the golden without an encoder in which `from` of a file is `to`; err.text has the
// message if that fails.
static struct model *open_changed(const char *file, const char *from, const char *to,
                                  struct err *err)
{
    static const char *const files[] = { "config.json", "model.safetensors", "tokenizer.json",
                                         "tokenizer_config.json", "processor_config.json" };
    char *folder = scratch_new(), *path = xasprintf("tests/goldens/gemma4-unified/%s", file);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        scratch_copy(folder, "tests/goldens/gemma4-unified", files[i]);
    size_t size;
    char *text = file_read(path, 1 << 20, &size, err), *at = text ? strstr(text, from) : NULL;
    if (!at) fail_msg("'%s' does not contain '%s'", path, from);
    char *changed = xasprintf("%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    scratch_text(folder, file, changed);
    struct model *m = model_load(folder, test_device(), NULL, err);
    free(changed);
    free(text);
    free(path);
    scratch_remove(folder);
    return m;
}

static void other_models_without_an_encoder_are_refused(void **state)
{
    static const char *const refused[][4] = {
        { "config.json", "\"mm_embed_dim\": 12", "\"mm_embed_dim\": 8",
          "\"output_proj_dims\" 12 differs from \"mm_embed_dim\" 8" },
        { "config.json", "\"model_patch_size\": 6", "\"model_patch_size\": 7",
          "\"model_patch_size\" is 7, but the encoder's is 6" },
        { "config.json", "\"mm_posemb_size\": 14", "\"mm_posemb_size\": 15", "pos_embedding" },
        { "config.json", "\"attention_k_eq_v\": true",
          "\"attention_k_eq_v\": true, \"hidden_size_per_layer_input\": 4",
          "\"hidden_size_per_layer_input\" 4 changes what the model computes" },
        { "config.json", "\"attention_k_eq_v\": true",
          "\"attention_k_eq_v\": true, \"enable_moe_block\": true",
          "\"enable_moe_block\" true changes what the model computes" },
        { "config.json", "\"vision_config\"", "\"no_vision_config\"",
          "opened as Gemma4UnifiedForCausalLM" },
        { "processor_config.json", "\"patch_size\": 2", "\"patch_size\": 3",
          "\"patch_size\" 3 times \"pooling_kernel_size\" 3 is not 6" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct err err = { 0 };
        assert_null(open_changed(refused[i][0], refused[i][1], refused[i][2], &err));
        if (!strstr(err.text, refused[i][3])) fail_msg("%s", err.text);
    }
}

// Only the side of a pooled patch matters. Without an encoder there is no attention to score with.
static void without_an_encoder_nothing_scores_patches(void **state)
{
    struct golden g;
    struct err err = { 0 };
    (void)state;
    struct model *m =
        open_changed("processor_config.json", "\"patch_size\": 2,\n  \"pooling_kernel_size\": 3",
                     "\"patch_size\": 3,\n  \"pooling_kernel_size\": 2", &err);
    if (!m) fail_msg("%s", err.text);
    assert_int_equal(m->picture.multiple, 6);
    model_free(m);
    golden_open(&g, "gemma4-unified");
    assert_int_equal(engine_set(g.engine, "prune.score", "cls", &err), -1);
    assert_non_null(strstr(err.text, "this model has none"));
    golden_close(&g);
}

// transformers renames the parts in place of an encoder when it reads and writes files; adapters
// have the names of its modules.
static void adapters_name_modules_as_transformers(void **state)
{
    static const char *const names[][2] = {
        { "vision_embedder.patch_dense.weight", "model.embed_vision.patch_dense" },
        { "vision_embedder.pos_embedding", "model.embed_vision" },
        { "embed_vision.embedding_projection.weight",
          "model.embed_vision.multimodal_embedder.embedding_projection" },
        { "layers.0.mlp.up_proj.weight", "model.language_model.layers.0.mlp.up_proj" },
    };
    struct golden g;
    (void)state;
    golden_open(&g, "gemma4-unified");
    const struct model *m = engine_model(g.engine);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct weight *w = weights_find(&m->weights, names[i][0]);
        assert_non_null(w);
        char *module = family_module_name(m->family, w);
        assert_string_equal(module, names[i][1]);
        free(module);
    }
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_share_the_last_keys_of_their_kind),
        cmocka_unit_test(some_pairs_of_wide_heads_do_not_turn),
        cmocka_unit_test(keys_and_values_may_be_one_projection),
        cmocka_unit_test(sizes_of_single_layers_are_read),
        cmocka_unit_test(pictures_without_an_encoder_are_whole),
        cmocka_unit_test(other_configs_are_refused),
        cmocka_unit_test(other_models_without_an_encoder_are_refused),
        cmocka_unit_test(without_an_encoder_nothing_scores_patches),
        cmocka_unit_test(adapters_name_modules_as_transformers),
        cmocka_unit_test(pictures_fill_their_budget),
        cmocka_unit_test(the_default_budget_is_named),
        cmocka_unit_test(the_budget_is_a_setting),
        cmocka_unit_test(the_cache_holds_keys_once),
        cmocka_unit_test(a_turn_after_pruning_reuses_the_cache),
    };
    return cmocka_run_group_tests_name("gemma4", tests, NULL, NULL);
}
