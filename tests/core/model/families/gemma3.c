// tests/core/model/families/gemma3.c -- core/model/families/gemma3.c, gemma3_text.c: configs of the
// hub and of newer libraries; which rows see which; pictures are computed whole; refused lists of
// layer types.
// (tests/core/model/families/goldens.c compares numbers.)
#include "core/model/families/family.h"
#include "core/model/flops.h"
#include "core/model/pass.h"
#include "tests/core/model/families/golden.h"

static struct decoder_config config_of(const char *text)
{
    struct err err = { 0 };
    struct decoder_config c;
    cJSON *json = json_parse(text, strlen(text), "config.json", &err);
    const struct decoder_kind *kind = family_decoder(json, &err);
    assert_non_null(kind);
    must(decoder_config_read(&c, kind, json, &err), &err);
    cJSON_Delete(json);
    return c;
}

static void check_4b(const struct decoder_config *c)
{
    assert_int_equal(c->heads, 8);
    assert_int_equal(c->kv_heads, 4);
    assert_int_equal(c->dim, 256);
    assert_int_equal(c->vocab, 262208);
    assert_int_equal(c->window, 1024);
    for (int l = 0; l < c->layers; l++) assert_true(decoder_slides(c, l) == (l % 6 != 5));
    assert_true(c->tied && c->gelu && c->eps == 1e-6);
    assert_true(c->score_scale == 1 / 16.0F && c->embed_scale == sqrtf(2560));
    float global[128], sliding[128];
    rope_frequencies(decoder_rope(c, 5), global);
    rope_frequencies(decoder_rope(c, 4), sliding);
    assert_true(global[0] == 0.125F && sliding[0] == 1);
    assert_true(fabs(global[64] - 1e-3 / 8) < 1e-9 && fabs(sliding[64] - 1e-2) < 1e-8);
}

#define GEMMA "{\"model_type\": \"gemma3_text\", \"hidden_size\": 2560, \"num_hidden_layers\": 12, "

// The hub's config of 4B omits values that equal the class defaults.
static void configs_of_all_versions_mean_the_same(void **state)
{
    struct decoder_config c =
        config_of(GEMMA "\"intermediate_size\": 10240, \"sliding_window\": 1024, "
                        "\"rope_scaling\": {\"factor\": 8.0, \"rope_type\": \"linear\"}}");
    check_4b(&c);
    // Gemma 3 does not read use_sliding_window and max_window_layers.
    c = config_of(GEMMA "\"sliding_window\": 1024, \"use_sliding_window\": false, "
                        "\"max_window_layers\": 3, "
                        "\"rope_scaling\": {\"factor\": 8.0, \"rope_type\": \"linear\"}}");
    check_4b(&c);
#define SLIDING5                                                                                   \
    "\"sliding_attention\", \"sliding_attention\", \"sliding_attention\", \"sliding_attention\", " \
    "\"sliding_attention\", \"full_attention\""
    c = config_of(GEMMA
                  "\"intermediate_size\": 10240, \"sliding_window\": 1024, \"layer_types\": "
                  "[" SLIDING5 ", " SLIDING5 "], \"rope_parameters\": {\"full_attention\": "
                  "{\"factor\": 8.0, \"rope_theta\": 1000000, \"rope_type\": \"linear\"}, "
                  "\"sliding_attention\": {\"rope_theta\": 10000, \"rope_type\": \"default\"}}}");
    check_4b(&c);
    c = config_of(GEMMA "\"sliding_window_pattern\": 2, \"query_pre_attn_scalar\": 64}");
    for (int l = 0; l < c.layers; l++) assert_true(decoder_slides(&c, l) == (l % 2 == 0));
    assert_true(c.score_scale == 0.125F);
    c = config_of(GEMMA "\"sliding_window\": null}");
    for (int l = 0; l < c.layers; l++) assert_false(decoder_slides(&c, l));
}

// Sliding layers rotate by their own base even if the window is longer than the context.
static void a_long_window_keeps_the_local_base(void **state)
{
    static const char *const windows[] = { "2047", "2048", "4096" };
    for (int i = 0; i < 3; i++) {
        char text[256];
        snprintf(text, sizeof text,
                 GEMMA "\"max_position_embeddings\": 2048, \"sliding_window\": %s}", windows[i]);
        const struct decoder_config c = config_of(text);
        for (int l = 0; l < c.layers; l++)
            assert_true(decoder_rope(&c, l)->theta == (l % 6 == 5 ? 1e6 : 1e4));
    }
}

static void layer_types_name_all_layers(void **state)
{
    static const char *const lists[] = { "[\"full_attention\", \"sliding_attention\"]",
                                         "[" SLIDING5 ", " SLIDING5 ", 1]",
                                         "[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]", "{\"a\": \"b\"}",
                                         "\"full_attention\"" };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        struct err err = { 0 };
        struct decoder_config c;
        char text[512];
        snprintf(text, sizeof text, GEMMA "\"layer_types\": %s}", lists[i]);
        cJSON *json = json_parse(text, strlen(text), "config.json", &err);
        assert_int_equal(decoder_config_read(&c, family_decoder(json, &err), json, &err), -1);
        assert_string_equal(err.text,
                            "\"layer_types\" must be a list of the types of all 12 layers");
        cJSON_Delete(json);
    }
}

// Rows see earlier rows and all rows of their own picture, in sliding layers none before the
// window.
static void rows_see_their_own_picture(void **state)
{
    enum { N = 23, WINDOW = 6 };
    static const int32_t picture[N] = { -1, -1, 0,  0,  0,  0,  -1, 1,  1, 1, 1, 1,
                                        2,  2,  -1, -1, -1, -1, -1, -1, 3, 3, 3 };
    struct decoder_config c = config_of(GEMMA "\"sliding_window\": 6}");
    struct sequence s;
    c.pictures_whole = true;
    sequence_init(&s, N, 1);
    memcpy(s.picture, picture, sizeof picture);
    for (int slides = 0; slides < 2; slides++) {
        double pairs = 0;
        for (int64_t i = 0; i < N; i++) {
            const struct row_range sees = pass_sees(&c, slides, &s, i);
            for (int64_t j = 0; j < N; j++) {
                const bool same = picture[i] >= 0 && picture[i] == picture[j];
                const bool want = (j <= i || same) && !(slides && j <= i - WINDOW);
                assert_true(want == (j >= sees.first && j < sees.end));
                pairs += want;
            }
            // A pass never begins inside a picture.
            const int64_t from = pass_start(&c, &s, i);
            assert_true(from <= i &&
                        (!from || picture[from] < 0 || picture[from - 1] != picture[from]));
            for (int64_t j = from; j < i; j++) assert_int_equal(picture[j], picture[i]);
        }
        assert_true(flops_pairs(&c, slides ? 0 : 5, &s, N) == pairs);
    }
    sequence_release(&s);
}

// An answer that shares a part of a picture with the cache computes the whole picture again.
static void a_picture_is_computed_whole(void **state)
{
    struct golden g;
    golden_open(&g, "gemma3");
    struct safetensors *f = answer(&g, chat_named(&g, "two_images"), 4, "logits");
    struct conversation *c = golden_conversation(&g);
    struct sequence s;
    sequence_copy(&s, &c->cached);
    for (int64_t most = s.n - 1; most > 0; most--) {
        int64_t want = most;
        while (want && s.picture[want] >= 0 && s.picture[want - 1] == s.picture[want]) want--;
        assert_int_equal(conversation_reuse(c, &s, most), want);
        most = want;
    }
    sequence_release(&s);
    safetensors_close(f);
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(configs_of_all_versions_mean_the_same),
        cmocka_unit_test(a_long_window_keeps_the_local_base),
        cmocka_unit_test(layer_types_name_all_layers),
        cmocka_unit_test(rows_see_their_own_picture),
        cmocka_unit_test(a_picture_is_computed_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
