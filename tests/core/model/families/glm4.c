// tests/core/model/families/glm4.c -- core/model/families/glm4.c: the decoder of the golden
// GLM-4.1V as a separate text model (the three positions of text are equal, so its logits are the
// golden's); optional keys of the config; similar models that are refused.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/engine/engine.h"
#include "core/files/safetensors.h"
#include "core/model/families/family.h"
#include "core/model/layer.h"
#include "core/model/model.h"
#include "tests/core/model/families/reference.h"
#include "tests/core/scratch.h"

#define GOLDEN "tests/goldens/glm-4.1v"
#define PART   "language_model."

// --- the folder ----------------------------------------------------------------------------------

static bool in_text(const char *name)
{
    return strstr(name, PART) || !strcmp(name, "lm_head.weight");
}

// Turns a name such as "model.language_model.norm.weight" into the text model's
// "model.norm.weight".
static char *text_name(const char *name)
{
    const char *at = strstr(name, PART);
    return at ? xasprintf("%.*s%s", (int)(at - name), name, at + strlen(PART)) : xstrdup(name);
}

static void write_weights(const char *folder)
{
    struct err err = { 0 };
    char *path = xasprintf("%s/model.safetensors", folder);
    struct safetensors *f = safetensors_open(GOLDEN "/model.safetensors", &err);
    if (!f) fail_msg("%s", err.text);
    struct safetensors_writer *w = safetensors_writer_new(path);
    for (int64_t i = 0; i < f->count; i++) {
        const struct safetensor *t = &f->tensors[i];
        char *name = text_name(t->name);
        if (in_text(t->name))
            safetensors_writer_declare(w, name, (enum dtype)t->dtype, t->rank, t->shape);
        free(name);
    }
    for (int64_t i = 0; i < f->count; i++)
        if (in_text(f->tensors[i].name))
            must(safetensors_writer_data(w, f->tensors[i].data, f->tensors[i].bytes, &err), &err);
    must(safetensors_writer_finish(w, &err), &err);
    safetensors_close(f);
    free(path);
}

static void put(cJSON *json, const char *key, cJSON *value)
{
    cJSON_DeleteItemFromObjectCaseSensitive(json, key);
    if (value) cJSON_AddItemToObject(json, key, value);
}

// Writes the golden's text_config as a model of that type.
static char *write_folder(const char *type)
{
    struct err err = { 0 };
    char *folder = scratch_new();
    cJSON *json = json_read(GOLDEN "/config.json", 1 << 20, &err);
    cJSON *text = cJSON_DetachItemFromObject(json, "text_config");
    put(text, "model_type", cJSON_CreateString(type));
    put(text, "head_dim", cJSON_CreateNumber(16));
    put(text, "rope_scaling", NULL);
    put(text, "partial_rotary_factor", NULL); // half of each head: the class's default
    char *printed = cJSON_Print(text);
    scratch_text(folder, "config.json", printed);
    scratch_copy(folder, GOLDEN, "tokenizer.json");
    scratch_copy(folder, GOLDEN, "chat_template.jinja");
    write_weights(folder);
    free(printed);
    cJSON_Delete(text);
    cJSON_Delete(json);
    return folder;
}

// --- results -------------------------------------------------------------------------------------

static void text_alone_gives_the_golden_logits(void **state)
{
    struct err err = { 0 };
    struct sinks sinks = { 0 };
    struct reference r;
    char *folder = write_folder("glm4");
    char *path = xasprintf("%s/dump.safetensors", folder);
    struct engine *e = engine_new(test_device(), &sinks);
    must(engine_load(e, folder, &err), &err);
    assert_string_equal(engine_model(e)->family->name, "glm4");
    must(engine_set(e, "compute.matmul", "f32", &err), &err);
    must(engine_set(e, "kv.dtype", "f32", &err), &err);
    must(engine_dump(e, "ids logits", path, &err), &err);
    must(engine_forward(e, "What is 12 + 30? Café 你好!", &err), &err);
    struct safetensors *f = safetensors_open(path, &err);
    if (!f) fail_msg("%s", err.text);
    const struct safetensor *t = safetensors_find(f, "logits");
    const int64_t vocab = t->shape[1];
    const float *last = (const float *)t->data + (t->shape[0] - 1) * vocab;
    reference_open(&r, "glm-4.1v");
    reference_compare(&r, "fwd_text_only.logits_last", last, vocab);
    reference_close(&r);
    safetensors_close(f);
    engine_free(e);
    free(path);
    scratch_remove(folder);
}

// --- configs -------------------------------------------------------------------------------------

static void missing_keys_have_defaults(void **state)
{
    struct err err;
    struct decoder_config c;
    cJSON *json = cJSON_Parse("{\"model_type\": \"glm4\", \"hidden_size\": 6144, "
                              "\"num_attention_heads\": 48, \"num_key_value_heads\": 2}");
    must(decoder_config_read(&c, family_decoder(json, &err), json, &err), &err);
    assert_int_equal(c.dim, 128);
    assert_int_equal(rope_rotated(&c.rope), 64);
    assert_float_equal(c.eps, 1.5625e-7, 1e-12);
    assert_true(c.qkv_bias && !c.out_bias && !c.mlp_bias && !c.tied);
    cJSON_AddFalseToObject(json, "attention_bias"); // GLM-4-32B-0414
    must(decoder_config_read(&c, family_decoder(json, &err), json, &err), &err);
    assert_false(c.qkv_bias || c.out_bias);
    cJSON_AddNumberToObject(json, "partial_rotary_factor", 0.25);
    must(decoder_config_read(&c, family_decoder(json, &err), json, &err), &err);
    assert_int_equal(rope_rotated(&c.rope), 32);
    cJSON_Delete(json);
}

static void relatives_are_refused_by_name(void **state)
{
    struct err err;
    char *folder = write_folder("glm4_moe_lite");
    assert_null(model_load(folder, test_device(), NULL, &err));
    assert_non_null(strstr(err.text, "glm4_moe_lite is not supported"));
    scratch_remove(folder);
    cJSON *json = cJSON_Parse("{\"architectures\": [\"GlmForCausalLM\"]}");
    assert_null(family_find(json, &err));
    assert_non_null(strstr(err.text, "its relative Glm4ForCausalLM is"));
    cJSON_Delete(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_alone_gives_the_golden_logits),
        cmocka_unit_test(missing_keys_have_defaults),
        cmocka_unit_test(relatives_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
