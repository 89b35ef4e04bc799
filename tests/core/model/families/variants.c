// tests/core/model/families/variants.c -- variants within a family: golden folders with a changed
// config or changed tensors, and the models or errors that result.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/event.h"
#include "core/engine/engine.h"
#include "core/files/safetensors.h"
#include "core/model/families/family.h"
#include "core/model/model.h"
#include "tests/core/scratch.h"
#include "tests/device.h"

#define LLAMA   "tests/goldens/llama-3.2"
#define QWEN    "tests/goldens/qwen2"
#define KIMI    "tests/goldens/kimi-text"
#define SIGLIP  "tests/goldens/llava-siglip-llama3"
#define SMOLVLM "tests/goldens/smolvlm"

static struct model *load(const char *folder)
{
    struct err err;
    struct model *m = model_load(folder, test_device(), NULL, &err);
    if (!m) fail_msg("%s", err.text);
    return m;
}

// --- tied heads --------------------------------------------------------------------------------

// Writes the weights of the golden Llama with a head: a copy of its embedding, with row 0 changed
// or not.
static void write_with_head(const char *folder, bool changed)
{
    struct err err = { 0 };
    struct safetensors *f = safetensors_open(LLAMA "/model.safetensors", &err);
    if (!f) fail_msg("%s", err.text);
    const struct safetensor *embed = safetensors_find(f, "model.embed_tokens.weight");
    char *path = xasprintf("%s/model.safetensors", folder), *head = xmalloc(embed->bytes);
    memcpy(head, embed->data, embed->bytes);
    if (changed) head[0] ^= 1;

    struct safetensors_writer *w = safetensors_writer_new(path);
    for (int64_t i = 0; i < f->count; i++) {
        const struct safetensor *t = &f->tensors[i];
        safetensors_writer_declare(w, t->name, (enum dtype)t->dtype, t->rank, t->shape);
    }
    safetensors_writer_declare(w, "lm_head.weight", (enum dtype)embed->dtype, 2, embed->shape);
    for (int64_t i = 0; i < f->count; i++)
        safetensors_writer_data(w, f->tensors[i].data, f->tensors[i].bytes, &err);
    safetensors_writer_data(w, head, embed->bytes, &err);
    if (safetensors_writer_finish(w, &err) < 0) fail_msg("%s", err.text);
    free(path);
    free(head);
    safetensors_close(f);
}

// transformers ties only weights that are equal in the file, whatever the config says.
static void a_head_that_differs_is_not_tied(void **state)
{
    char *folder = scratch_new();
    scratch_copy(folder, LLAMA, "config.json");
    scratch_copy(folder, LLAMA, "tokenizer.json");
    for (int changed = 0; changed < 2; changed++) {
        write_with_head(folder, changed);
        struct model *m = load(folder);
        struct model_part parts[MODEL_PARTS];
        model_count(m, parts);
        const struct decoder *d = &m->decoder;
        assert_int_equal(d->config.tied, !changed);
        assert_int_equal(d->head.data == d->embed.data, !changed);
        assert_int_equal(parts[PART_HEAD].parameters,
                         changed ? parts[PART_EMBEDDING].parameters : 0);
        model_free(m);
    }
    scratch_remove(folder);
}

// --- more than the file has ----------------------------------------------------------------------

// A config of a few bytes may promise 1000 layers of 10000 experts, so binding must not continue
// after a weight that the file lacks.
static void binding_ends_at_the_first_weight_that_is_missing(void **state)
{
    char *folder = scratch_new();
    struct err err;
    struct model *m = xcalloc(1, sizeof *m);
    scratch_config(folder, LLAMA, "\"num_hidden_layers\": 6");
    scratch_copy(folder, LLAMA, "model.safetensors"); // the file has 4 layers
    m->arena.backend = test_device();
    m->checkpoint = checkpoint_open(folder, NULL, &err);
    assert_non_null(m->checkpoint);
    assert_int_equal(model_bind(m, &err), -1);
    assert_non_null(strstr(err.text, "layers.4."));
    assert_non_null(m->decoder.layer[3].attention.weight);
    assert_null(m->decoder.layer[5].attention.weight);
    model_free(m);
    scratch_remove(folder);
}

// --- other forms ---------------------------------------------------------------------------------

static void other_forms_of_experts_and_latents_are_refused_by_name(void **state)
{
    static const struct {
        const char *fields, *why;
    } cases[] = {
        { "\"scoring_func\": \"softmax\"", "\"scoring_func\" \"softmax\"" },
        { "\"topk_method\": \"greedy\"", "\"topk_method\" \"greedy\"" },
        { "\"moe_layer_freq\": 2", "moe_layer_freq" },
        { "\"rope_interleave\": false", "rope_interleave" },
        { "\"n_group\": 3", "divided into \"n_group\" 3 groups" },
    };
    char *folder = scratch_new();
    scratch_copy(folder, KIMI, "model.safetensors");
    scratch_copy(folder, KIMI, "tokenizer.json");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err err;
        scratch_config(folder, KIMI, cases[i].fields);
        assert_null(model_load(folder, test_device(), NULL, &err));
        if (!strstr(err.text, cases[i].why))
            fail_msg("'%s' does not say '%s'", err.text, cases[i].why);
    }
    scratch_remove(folder);
}

// SmolVLM's tokenizer has tokens that name the tiles of a picture. Idefics3's has none: there the
// names are plain text. A tokenizer that has only some of them is refused.
static void names_of_tiles_may_be_plain_text(void **state)
{
    static const struct {
        const char *lacks[3], *why;
    } cases[] = {
        { { "<row_", "<global-img>" }, NULL },
        { { "<row_" }, "has no token <row_1_col_1>, which marks" },
        { { "<global-img>" }, "has no token <global-img>, which marks" },
        { { "<row_", "<global-img>", "<fake_" }, "has no token <fake_token_around_image>" },
    };
    static const char *const files[] = { "config.json", "model.safetensors",
                                         "preprocessor_config.json" };
    char *folder = scratch_new();
    for (int i = 0; i < 3; i++) scratch_copy(folder, SMOLVLM, files[i]);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err err = { "" };
        size_t size;
        char *text = file_read(SMOLVLM "/tokenizer.json", 1 << 20, &size, &err);
        for (int k = 0; k < 3 && cases[i].lacks[k]; k++)
            for (char *at = text; (at = strstr(at, cases[i].lacks[k]));) at[1] = 'X';
        scratch_text(folder, "tokenizer.json", text);
        free(text);
        struct model *m = model_load(folder, test_device(), NULL, &err);
        if (!m != (cases[i].why != NULL)) fail_msg("case %zu: %s", i, err.text);
        if (!strstr(err.text, cases[i].why ? cases[i].why : "")) fail_msg("%s", err.text);
        if (m) model_free(m);
    }
    scratch_remove(folder);
}

// Kimi-VL requires these parts: the defaults of transformers' classes describe no published model.
static void parts_of_the_config_are_needed(void **state)
{
    static const char *const parts[] = { "text_config", "vision_config" };
    char *folder = scratch_new();
    scratch_copy(folder, "tests/goldens/kimi-vl", "model.safetensors");
    scratch_copy(folder, "tests/goldens/kimi-vl", "tokenizer.json");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        struct err err;
        char *fields = xasprintf("\"%s\": null", parts[i]);
        char *why = xasprintf("\"%s\" is missing", parts[i]);
        scratch_config(folder, "tests/goldens/kimi-vl", fields);
        assert_null(model_load(folder, test_device(), NULL, &err));
        if (!strstr(err.text, why)) fail_msg("'%s' does not say '%s'", err.text, why);
        free(fields);
        free(why);
    }
    scratch_remove(folder);
}

// --- sliding windows ---------------------------------------------------------------------------

// The window that the loader finds in a changed config; -1: it refuses the config.
static int64_t window_of(const char *golden, const char *fields)
{
    struct err err;
    char *folder = scratch_new();
    scratch_copy(folder, golden, "model.safetensors");
    scratch_copy(folder, golden, "tokenizer.json");
    scratch_config(folder, golden, fields);
    struct model *m = model_load(folder, test_device(), NULL, &err);
    const int64_t window = m ? m->decoder.config.window : -1;
    if (m) model_free(m);
    scratch_remove(folder);
    return window;
}

static void sliding_windows_apply_only_to_their_layers(void **state)
{
#define USED    "\"use_sliding_window\": true, \"sliding_window\": 16, "
#define FULL    "\"full_attention\""
#define SLIDING "\"sliding_attention\""
#define MISTRAL "\"model_type\": \"mistral\", \"architectures\": [\"MistralForCausalLM\"]"
    static const struct {
        const char *golden, *fields;
        int64_t window;
    } cases[] = {
        { QWEN, USED "\"max_window_layers\": 0", 16 },
        { QWEN, USED "\"max_window_layers\": 99", 0 },
        { QWEN,
          USED "\"max_window_layers\": 99, \"layer_types\": [" FULL ", " SLIDING ", " FULL "]",
          16 },
        { QWEN, USED "\"max_window_layers\": 0, \"layer_types\": [" FULL ", " FULL ", " FULL "]",
          0 },
        { QWEN, USED "\"layer_types\": [" FULL ", " SLIDING "]", -1 }, // the model has three layers
        { QWEN, "\"use_sliding_window\": false, \"sliding_window\": 16", 0 },
        { QWEN, "\"use_sliding_window\": true, \"sliding_window\": \"x\"", -1 },
        // Mistral's key gives only the window's width: null disables it, a missing key means 4096
        // tokens.
        { LLAMA, MISTRAL ", \"sliding_window\": null", 0 },
        { LLAMA, MISTRAL ", \"sliding_window\": 16", 16 },
        { LLAMA, MISTRAL ", \"sliding_window\": 16, \"use_sliding_window\": false", 16 },
        { LLAMA, MISTRAL, 4096 },
        { LLAMA, MISTRAL ", \"max_position_embeddings\": 4096", 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (window_of(cases[i].golden, cases[i].fields) != cases[i].window)
            fail_msg("%s", cases[i].fields);
}

// --- rotary settings ---------------------------------------------------------------------------

// Rotary settings under old keys, new ones, and both: a rope_scaling that is not empty takes
// precedence over rope_parameters, as in transformers.
static void rotary_settings_have_old_and_new_keys(void **state)
{
#define LINEAR "{\"rope_type\": \"linear\", \"factor\": 2.0, \"rope_theta\": 20000}"
    static const struct {
        const char *json;
        const char *scaling;
        double theta;
    } cases[] = {
        { "{\"rope_theta\": 500, \"rope_scaling\": null}", "default", 500 },
        { "{\"rope_theta\": 500, \"rope_parameters\": " LINEAR "}", "linear", 20000 },
        { "{\"rope_scaling\": {}, \"rope_parameters\": " LINEAR "}", "linear", 20000 },
        { "{\"rope_theta\": 500, \"rope_scaling\": {\"type\": \"dynamic\"}, "
          "\"rope_parameters\": " LINEAR "}",
          "dynamic", 500 },
        { "{}", "default", 10000 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rope_config r;
        cJSON *json = cJSON_Parse(cases[i].json);
        assert_int_equal(rope_config_read(&r, &rotary_plain, json, 10000, NULL), 0);
        assert_string_equal(rope_scaling_name(&r), cases[i].scaling);
        assert_true(r.theta == cases[i].theta);
        cJSON_Delete(json);
    }
}

// --- picture processors ------------------------------------------------------------------------

static void copy_siglip(const char *folder)
{
    static const char *const files[] = {
        "config.json",
        "tokenizer.json",
        "model.safetensors.index.json",
        "model-00001-of-00003.safetensors",
        "model-00002-of-00003.safetensors",
        "model-00003-of-00003.safetensors",
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        scratch_copy(folder, SIGLIP, files[i]);
}

static void a_list_of_one_layer_is_that_layer(void **state)
{
    char *folder = scratch_new();
    copy_siglip(folder);
    scratch_config(folder, SIGLIP, "\"vision_feature_layer\": [-2]");
    struct model *m = load(folder);
    assert_int_equal(m->vision.config.feature_layer, -2);
    model_free(m);
    scratch_remove(folder);
}

// The defaults of the named processor apply, not those of the encoder's usual one.
static void the_processor_named_gives_the_defaults(void **state)
{
    static const struct {
        const char *json;
        bool crop;
    } cases[] = {
        { "{\"image_processor_type\": \"CLIPImageProcessor\", \"crop_size\": 32}", true },
        { "{\"feature_extractor_type\": \"CLIPFeatureExtractor\", \"crop_size\": 32}", true },
        { "{\"image_processor_type\": \"SiglipImageProcessorFast\"}", false },
        { "{}", false },
    };
    char *folder = scratch_new();
    copy_siglip(folder);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch_text(folder, "preprocessor_config.json", cases[i].json);
        struct model *m = load(folder);
        assert_int_equal(m->picture.crop, cases[i].crop);
        assert_int_equal(m->picture.fit, cases[i].crop ? FIT_SHORTEST_CROP : FIT_EXACT);
        assert_true(cases[i].crop == (m->picture.mean[0] != 0.5f));
        model_free(m);
    }
    scratch_remove(folder);
}

// Without a crop the encoder accepts only square pictures; others are refused with a message.
static void a_picture_of_another_size_is_refused(void **state)
{
    char *folder = scratch_new();
    struct sinks sinks = { 0 };
    struct err err = { 0 };
    copy_siglip(folder);
    scratch_text(folder, "preprocessor_config.json",
                 "{\"size\": {\"shortest_edge\": 32}, \"crop_size\": 32, "
                 "\"do_center_crop\": false}");
    struct engine *e = engine_new(test_device(), &sinks);
    assert_int_equal(engine_load(e, folder, &err), 0);
    assert_int_equal(engine_attach(e, "tests/goldens/pictures/square.png", &err), 0);
    assert_int_equal(engine_forward(e, "What?", &err), 0);
    assert_int_equal(engine_attach(e, "tests/goldens/pictures/wide.png", &err), 0);
    assert_int_equal(engine_forward(e, "What?", &err), -1);
    assert_non_null(strstr(err.text, "the encoder needs 32 x 32"));
    engine_free(e);
    scratch_remove(folder);
}

static void naflex_is_refused_by_name(void **state)
{
    struct err err;
    cJSON *json = cJSON_Parse("{\"model_type\": \"siglip2_vision_model\"}");
    assert_null(vision_kind_find(json, &err));
    assert_non_null(strstr(err.text, "NaFlex"));
    cJSON_Delete(json);
}

static void activations_have_several_names(void **state)
{
    static const struct {
        const char *name;
        enum gelu_form form;
    } names[] = { { "gelu", GELU_ERF },       { "gelu_python", GELU_ERF },
                  { "gelu_new", GELU_TANH },  { "gelu_pytorch_tanh", GELU_TANH },
                  { "gelu_fast", GELU_TANH }, { "quick_gelu", GELU_QUICK } };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        enum gelu_form form;
        cJSON *json = cJSON_CreateObject();
        cJSON_AddStringToObject(json, "act", names[i].name);
        assert_int_equal(gelu_form_read(&form, json, "act", "gelu", NULL), 0);
        assert_int_equal(form, names[i].form);
        cJSON_Delete(json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_that_differs_is_not_tied),
        cmocka_unit_test(binding_ends_at_the_first_weight_that_is_missing),
        cmocka_unit_test(other_forms_of_experts_and_latents_are_refused_by_name),
        cmocka_unit_test(names_of_tiles_may_be_plain_text),
        cmocka_unit_test(parts_of_the_config_are_needed),
        cmocka_unit_test(sliding_windows_apply_only_to_their_layers),
        cmocka_unit_test(rotary_settings_have_old_and_new_keys),
        cmocka_unit_test(the_processor_named_gives_the_defaults),
        cmocka_unit_test(a_picture_of_another_size_is_refused),
        cmocka_unit_test(naflex_is_refused_by_name),
        cmocka_unit_test(a_list_of_one_layer_is_that_layer),
        cmocka_unit_test(activations_have_several_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
