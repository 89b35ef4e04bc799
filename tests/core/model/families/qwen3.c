// tests/core/model/families/qwen3.c -- core/model/families/qwen3.c: the decoder of the golden
// InternVL3.5 as a separate text model, with its own head and with one tied to the embedding;
// yarn; optional keys of the config; similar models that are refused. qwen3_moe.c: the language
// model of the golden Qwen3-VL with experts.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/dtype.h"
#include "core/engine/engine.h"
#include "core/files/safetensors.h"
#include "core/model/families/family.h"
#include "core/model/layer.h"
#include "core/model/model.h"
#include "tests/core/model/families/reference.h"
#include "tests/core/scratch.h"

#define GOLDEN "tests/goldens/internvl3.5"
#define TOP    "language_model."

// --- folders -------------------------------------------------------------------------------------

// HEAD_NONE: the file has no head.
enum head { HEAD_OWN, HEAD_EMBEDDING, HEAD_NONE };

static bool in_text(const char *name, enum head head)
{
    return !strncmp(name, TOP, strlen(TOP)) && (head == HEAD_OWN || !strstr(name, "lm_head"));
}

static void write_weights(const char *folder, enum head head)
{
    struct err err = { 0 };
    char *path = xasprintf("%s/model.safetensors", folder);
    struct safetensors *f = safetensors_open(GOLDEN "/model.safetensors", &err);
    if (!f) fail_msg("%s", err.text);
    const struct safetensor *table = safetensors_find(f, TOP "model.embed_tokens.weight");
    struct safetensors_writer *w = safetensors_writer_new(path);
    for (int give = 0; give < 2; give++) {
        for (int64_t i = 0; i < f->count; i++) {
            const struct safetensor *t = &f->tensors[i];
            if (!in_text(t->name, head)) continue;
            if (give)
                must(safetensors_writer_data(w, t->data, t->bytes, &err), &err);
            else
                safetensors_writer_declare(w, t->name + strlen(TOP), (enum dtype)t->dtype, t->rank,
                                           t->shape);
        }
        if (head != HEAD_EMBEDDING) continue;
        if (give)
            must(safetensors_writer_data(w, table->data, table->bytes, &err), &err);
        else
            safetensors_writer_declare(w, "lm_head.weight", (enum dtype)table->dtype, 2,
                                       table->shape);
    }
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
static char *write_folder(enum head head, const char *type)
{
    struct err err = { 0 };
    char *folder = scratch_new();
    cJSON *json = json_read(GOLDEN "/config.json", 1 << 20, &err);
    cJSON *text = cJSON_DetachItemFromObject(json, "text_config");
    put(text, "tie_word_embeddings", cJSON_CreateBool(head == HEAD_NONE));
    put(text, "architectures", NULL);
    put(text, "model_type", cJSON_CreateString(type));
    char *printed = cJSON_Print(text);
    scratch_text(folder, "config.json", printed);
    scratch_copy(folder, GOLDEN, "tokenizer.json");
    scratch_copy(folder, GOLDEN, "chat_template.jinja");
    write_weights(folder, head);
    free(printed);
    cJSON_Delete(text);
    cJSON_Delete(json);
    return folder;
}

// The logits after the prompt of the chat "text_only", [V].
static float *forward_logits(struct engine *e, const char *folder, int64_t *count)
{
    struct err err = { 0 };
    char *path = xasprintf("%s/dump.safetensors", folder);
    must(engine_set(e, "compute.matmul", "f32", &err), &err);
    must(engine_set(e, "kv.dtype", "f32", &err), &err);
    must(engine_dump(e, "logits", path, &err), &err);
    must(engine_forward(e, "What is 12 + 30? Café 你好!", &err), &err);
    struct safetensors *f = safetensors_open(path, &err);
    if (!f) fail_msg("%s", err.text);
    const struct safetensor *t = safetensors_find(f, "logits");
    *count = t->shape[1];
    const size_t row = (size_t)*count * sizeof(float);
    float *last = xmalloc(row);
    memcpy(last, (const char *)t->data + t->bytes - row, row);
    safetensors_close(f);
    free(path);
    return last;
}

static float *logits_of(enum head head, int64_t *count)
{
    struct err err = { 0 };
    struct sinks sinks = { 0 };
    char *folder = write_folder(head, "qwen3");
    struct engine *e = engine_new(test_device(), &sinks);
    must(engine_load(e, folder, &err), &err);
    assert_string_equal(engine_model(e)->family->name, "qwen3");
    assert_true(engine_model(e)->decoder.config.tied == (head == HEAD_NONE));
    float *logits = forward_logits(e, folder, count);
    engine_free(e);
    scratch_remove(folder);
    return logits;
}

// --- experts -------------------------------------------------------------------------------------

#define MOE "tests/goldens/qwen3-vl-moe"

// Declares a tensor of the golden (give: writes it) as a text model has it: with `apart`, each
// expert's matrices separately.
static void put_moe_tensor(struct safetensors_writer *w, const struct safetensor *t, bool apart,
                           bool give)
{
    static const char inner[] = "language_model.";
    struct err err;
    const char *at = strstr(t->name, inner), *kind = strstr(t->name, ".experts.");
    char *name = at ? xasprintf("model.%s", at + strlen(inner)) : xstrdup(t->name);
    const bool down = kind && strstr(kind, "down_proj");
    // gate_up_proj [E,2m,D], down_proj [E,m,D]; both in bf16
    const int64_t n = t->shape[0], rows = t->shape[1] / (down ? 1 : 2), wide = t->shape[2];
    for (int64_t i = 0; kind && apart && i < n * (down ? 1 : 2); i++) {
        const int64_t shape[] = { down ? wide : rows, down ? rows : wide };
        const uint16_t *from = (const uint16_t *)t->data + i * rows * wide;
        uint16_t *to = xcalloc((size_t)(rows * wide), sizeof *to);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t k = 0; k < wide; k++)
                to[down ? k * rows + r : r * wide + k] = from[r * wide + k];
        char *one = xasprintf("%.*s.experts.%d.%s.weight", (int)(strstr(name, ".experts.") - name),
                              name, (int)(down ? i : i / 2),
                              down    ? "down_proj"
                              : i % 2 ? "up_proj"
                                      : "gate_proj");
        if (give)
            must(safetensors_writer_data(w, to, (uint64_t)(rows * wide) * 2, &err), &err);
        else
            safetensors_writer_declare(w, one, DTYPE_BF16, 2, shape);
        free(one);
        free(to);
    }
    if (!kind || !apart) {
        if (give)
            must(safetensors_writer_data(w, t->data, t->bytes, &err), &err);
        else
            safetensors_writer_declare(w, name, (enum dtype)t->dtype, t->rank, t->shape);
    }
    free(name);
}

// The logits after the prompt of the chat "text_only" of the golden as a text model, [V].
static float *moe_logits(bool apart, int per_token, bool normalise, int64_t *count)
{
    struct err err = { 0 };
    struct sinks sinks = { 0 };
    char *folder = scratch_new(), *path = xasprintf("%s/model.safetensors", folder);
    cJSON *json = json_read(MOE "/config.json", 1 << 20, &err);
    cJSON *text = cJSON_DetachItemFromObject(json, "text_config");
    put(text, "model_type", cJSON_CreateString("qwen3_moe"));
    put(text, "rope_scaling", NULL);
    put(text, "num_experts_per_tok", cJSON_CreateNumber(per_token));
    put(text, "norm_topk_prob", cJSON_CreateBool(normalise));
    char *printed = cJSON_Print(text);
    scratch_text(folder, "config.json", printed);
    scratch_copy(folder, MOE, "tokenizer.json");
    scratch_copy(folder, MOE, "chat_template.json");
    struct safetensors *f = safetensors_open(MOE "/model.safetensors", &err);
    if (!f) fail_msg("%s", err.text);
    struct safetensors_writer *w = safetensors_writer_new(path);
    for (int give = 0; give < 2; give++)
        for (int64_t i = 0; i < f->count; i++)
            if (!strstr(f->tensors[i].name, "visual."))
                put_moe_tensor(w, &f->tensors[i], apart, give);
    must(safetensors_writer_finish(w, &err), &err);
    safetensors_close(f);
    struct engine *e = engine_new(test_device(), &sinks);
    must(engine_load(e, folder, &err), &err);
    assert_string_equal(engine_model(e)->family->name, "qwen3_moe");
    float *logits = forward_logits(e, folder, count);
    engine_free(e);
    scratch_remove(folder);
    cJSON_Delete(text);
    cJSON_Delete(json);
    free(printed);
    free(path);
    return logits;
}

static float distance(const float *a, const float *b, int64_t count)
{
    float most = 0;
    for (int64_t i = 0; i < count; i++) most = fmaxf(most, fabsf(a[i] - b[i]));
    return most;
}

static void experts_alone_give_the_golden_logits(void **state)
{
    struct reference r;
    int64_t n;
    reference_open(&r, "qwen3-vl-moe");
    float *stacked = moe_logits(false, 2, true, &n), *apart = moe_logits(true, 2, true, &n);
    reference_compare(&r, "fwd_text_only.logits_last", stacked, n);
    assert_memory_equal(stacked, apart, (size_t)n * sizeof *apart);
    // Not divided by their sum, the weights of all experts still add up to 1; those of two do not.
    float *two = moe_logits(false, 2, false, &n), *all = moe_logits(false, 4, true, &n);
    float *plain = moe_logits(false, 4, false, &n);
    assert_true(distance(all, plain, n) < 1e-4f);
    assert_true(distance(stacked, two, n) > 1e-2f);
    assert_true(distance(stacked, all, n) > 1e-2f);
    free(stacked);
    free(apart);
    free(two);
    free(all);
    free(plain);
    reference_close(&r);
}

// --- results -------------------------------------------------------------------------------------

static void text_alone_gives_the_golden_logits(void **state)
{
    struct reference r;
    int64_t count;
    reference_open(&r, "internvl3.5");
    float *logits = logits_of(HEAD_OWN, &count);
    reference_compare(&r, "fwd_text_only.logits_last", logits, count);
    free(logits);
    reference_close(&r);
}

// If the file has no head, the embedding is the head.
static void a_tied_head_is_the_embedding(void **state)
{
    int64_t a, b;
    float *tied = logits_of(HEAD_NONE, &a), *copied = logits_of(HEAD_EMBEDDING, &b);
    assert_int_equal(a, b);
    for (int64_t i = 0; i < a; i++) assert_true(fabsf(tied[i] - copied[i]) <= 1e-5f);
    free(tied);
    free(copied);
}

// --- yarn ----------------------------------------------------------------------------------------

static void scale_bf16(void *data, size_t bytes, float by)
{
    const size_t count = bytes / 2;
    float *x = xcalloc(count, sizeof *x);
    floats_from(x, data, DTYPE_BF16, count);
    for (size_t i = 0; i < count; i++) x[i] *= by;
    floats_to(data, DTYPE_BF16, x, count);
    free(x);
}

// Writes the golden with queries `by` times as long.
static void write_longer(const char *folder, float by)
{
    struct err err = { 0 };
    char *path = xasprintf("%s/model.safetensors", folder);
    struct safetensors *f = safetensors_open(GOLDEN "/model.safetensors", &err);
    if (!f) fail_msg("%s", err.text);
    struct safetensors_writer *w = safetensors_writer_new(path);
    for (int64_t i = 0; i < f->count; i++)
        safetensors_writer_declare(w, f->tensors[i].name, (enum dtype)f->tensors[i].dtype,
                                   f->tensors[i].rank, f->tensors[i].shape);
    for (int64_t i = 0; i < f->count; i++) {
        const struct safetensor *t = &f->tensors[i];
        void *copy = memcpy(xmalloc(t->bytes), t->data, t->bytes);
        if (strstr(t->name, "self_attn.q_norm")) scale_bf16(copy, t->bytes, by);
        must(safetensors_writer_data(w, copy, t->bytes, &err), &err);
        free(copy);
    }
    must(safetensors_writer_finish(w, &err), &err);
    safetensors_close(f);
    free(path);
}

static char *write_yarn(const char *attention_factor, float longer)
{
    struct err err = { 0 };
    char *folder = scratch_new();
    cJSON *json = json_read(GOLDEN "/config.json", 1 << 20, &err);
    char *yarn = xasprintf("{\"rope_type\": \"yarn\", \"factor\": 4, "
                           "\"original_max_position_embeddings\": 64, \"attention_factor\": %s}",
                           attention_factor);
    put(cJSON_GetObjectItem(json, "text_config"), "rope_scaling", cJSON_Parse(yarn));
    char *text = cJSON_Print(json);
    scratch_text(folder, "config.json", text);
    scratch_copy(folder, GOLDEN, "preprocessor_config.json");
    scratch_copy(folder, GOLDEN, "tokenizer.json");
    scratch_copy(folder, GOLDEN, "chat_template.jinja");
    write_longer(folder, longer);
    free(text);
    free(yarn);
    cJSON_Delete(json);
    return folder;
}

static struct safetensors *pruned_dump(char *folder)
{
    struct err err = { 0 };
    struct sinks sinks = { 0 };
    char *path = xasprintf("%s/dump.safetensors", folder);
    struct engine *e = engine_new(test_device(), &sinks);
    must(engine_load(e, folder, &err), &err);
    must(engine_set(e, "compute.matmul", "f32", &err), &err);
    must(engine_set(e, "kv.dtype", "f32", &err), &err);
    must(engine_set(e, "prune.layer", "1", &err), &err);
    must(engine_set(e, "prune.score", "norope", &err), &err);
    must(engine_attach(e, "tests/goldens/pictures/scene.png", &err), &err);
    must(engine_dump(e, "score.1 layer.2.in logits", path, &err), &err);
    must(engine_forward(e, "What?", &err), &err);
    struct safetensors *f = safetensors_open(path, &err);
    if (!f) fail_msg("%s", err.text);
    engine_free(e);
    free(path);
    scratch_remove(folder); // the file stays mapped
    return f;
}

// Doubling cos and sin has the effect of queries that are four times as long, even where pruning
// undoes the rotation.
static void yarn_lengthens_queries_and_keys(void **state)
{
    static const char *const taps[] = { "score.1", "layer.2.in", "logits" };
    struct safetensors *a = pruned_dump(write_yarn("2", 1));
    struct safetensors *b = pruned_dump(write_yarn("1", 4));
    struct safetensors *other = pruned_dump(write_yarn("1", 1));
    for (int k = 0; k < 3; k++) {
        const struct safetensor *x = safetensors_find(a, taps[k]),
                                *y = safetensors_find(b, taps[k]);
        const struct safetensor *z = safetensors_find(other, taps[k]);
        double away = 0;
        assert_true(x && y && z && x->bytes == y->bytes && x->bytes >= 80);
        for (size_t i = 0; i < x->bytes / 4; i++) {
            const float got = ((const float *)x->data)[i], want = ((const float *)y->data)[i];
            if (!(fabsf(got - want) <= 2e-5f * (1 + fabsf(want))))
                fail_msg("%s: %.9g, not %.9g", taps[k], (double)got, (double)want);
            away = fmax(away, fabs((double)(got - ((const float *)z->data)[i])));
        }
        assert_true(away > 1e-3);
    }
    safetensors_close(a);
    safetensors_close(b);
    safetensors_close(other);
}

// --- configs -------------------------------------------------------------------------------------

static void the_width_of_heads_has_a_default(void **state)
{
    struct err err;
    struct decoder_config c;
    cJSON *json = cJSON_Parse("{\"model_type\": \"qwen3\", \"hidden_size\": 1000, "
                              "\"num_attention_heads\": 16, \"num_key_value_heads\": 8}");
    must(decoder_config_read(&c, family_decoder(json, &err), json, &err), &err);
    assert_int_equal(c.dim, 128);
    assert_false(c.qkv_bias || c.out_bias || c.tied);
    cJSON_AddTrueToObject(json, "attention_bias");
    must(decoder_config_read(&c, family_decoder(json, &err), json, &err), &err);
    assert_true(c.qkv_bias && c.out_bias);
    cJSON_Delete(json);
}

// Layers 0, 2, 3 and 4 have an ordinary FFN: 3 by the list, the others because of the step.
static void some_layers_have_no_experts(void **state)
{
    struct decoder_config c;
    struct err err = { 0 };
    cJSON *json = cJSON_Parse("{\"model_type\": \"qwen3_moe\", \"num_hidden_layers\": 6, "
                              "\"decoder_sparse_step\": 2, \"mlp_only_layers\": [3]}");
    must(decoder_config_read(&c, family_decoder(json, &err), json, &err), &err);
    assert_int_equal(c.experts.count, 128);
    assert_int_equal(c.experts.per_token, 8);
    assert_int_equal(c.window, 0);
    assert_false(c.experts.normalise);
    for (int l = 0; l < 6; l++) {
        struct layer_weight w;
        assert_true(c.kind->ffn->weight(&c, l, 0, &w));
        assert_string_equal(w.name, l == 1 || l == 5 ? "mlp.gate" : "mlp.gate_proj");
    }
    put(json, "num_local_experts",
        cJSON_CreateNumber(16)); // the name in files of transformers 5.24
    put(json, "use_sliding_window", cJSON_CreateBool(true));
    must(decoder_config_read(&c, family_decoder(json, &err), json, &err), &err);
    assert_int_equal(c.experts.count, 16);
    assert_true(c.window == 4096 && decoder_slides(&c, 0)); // in all layers
    put(json, "num_local_experts", NULL);
    put(json, "num_experts_per_tok", cJSON_CreateNumber(129));
    assert_int_equal(decoder_config_read(&c, family_decoder(json, &err), json, &err), -1);
    assert_non_null(strstr(err.text, "only 128 experts"));
    static const char *const refused[] = { "[-1]", "[1024]", "3", "\"3\"" };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        put(json, "mlp_only_layers", cJSON_Parse(refused[i]));
        assert_int_equal(decoder_config_read(&c, family_decoder(json, &err), json, &err), -1);
        assert_non_null(strstr(err.text, "list of layers"));
    }
    put(json, "mlp_only_layers", NULL);
    put(json, "num_experts", cJSON_CreateNumber(10000));
    put(json, "num_hidden_layers", cJSON_CreateNumber(14));
    assert_int_equal(decoder_config_read(&c, family_decoder(json, &err), json, &err), -1);
    assert_string_equal(err.text,
                        "14 layers of 10000 experts have more than the supported 131072 experts");
    put(json, "num_hidden_layers", cJSON_CreateNumber(13));
    must(decoder_config_read(&c, family_decoder(json, &err), json, &err), &err);
    cJSON_Delete(json);
}

static void a_missing_norm_is_named(void **state)
{
    struct err err;
    char *folder = write_folder(HEAD_OWN, "qwen3");
    char *config = xasprintf("%s/config.json", folder);
    cJSON *json = json_read(config, 1 << 20, &err);
    put(json, "num_hidden_layers", cJSON_CreateNumber(4));
    char *text = cJSON_Print(json);
    scratch_text(folder, "config.json", text);
    assert_null(model_load(folder, test_device(), NULL, &err));
    assert_non_null(strstr(err.text, "layers.3."));
    scratch_remove(folder);
    free(config);
    free(text);
    cJSON_Delete(json);
}

static void relatives_are_refused_by_name(void **state)
{
    struct err err;
    char *folder = write_folder(HEAD_OWN, "qwen3_next");
    assert_null(model_load(folder, test_device(), NULL, &err));
    assert_non_null(strstr(err.text, "qwen3_next is not supported"));
    scratch_remove(folder);
    cJSON *json = cJSON_Parse("{\"architectures\": [\"Qwen3NextForCausalLM\"]}");
    assert_null(family_find(json, &err));
    assert_non_null(strstr(err.text, "its relative Qwen3ForCausalLM is"));
    cJSON_Delete(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_alone_gives_the_golden_logits),
        cmocka_unit_test(experts_alone_give_the_golden_logits),
        cmocka_unit_test(some_layers_have_no_experts),
        cmocka_unit_test(a_tied_head_is_the_embedding),
        cmocka_unit_test(yarn_lengthens_queries_and_keys),
        cmocka_unit_test(the_width_of_heads_has_a_default),
        cmocka_unit_test(a_missing_norm_is_named),
        cmocka_unit_test(relatives_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
