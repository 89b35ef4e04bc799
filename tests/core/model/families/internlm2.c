// tests/core/model/families/internlm2.c -- core/model/families/internlm2.c and attention_packed: a
// golden Llama with biases, and the same weights in the layout of InternLM2's files, give the same
// logits, losses and gradients; train.method qv trains the packed weight.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/dtype.h"
#include "core/files/safetensors.h"
#include "core/model/families/family.h"
#include "core/model/model.h"
#include "core/settings/settings.h"
#include "core/train/params.h"
#include "tests/core/model/passes.h"
#include "tests/core/scratch.h"

#define LLAMA "tests/goldens/llama-3.2"

enum { HEADS = 4, KV = 2, DIM = 16, WIDTH = 64, LAYERS = 4, ROWS = 9 };
enum { GROUP = HEADS / KV, PACKED = (HEADS + 2 * KV) * DIM };

static const int32_t ids[ROWS] = { 560, 3, 500, 41, 41, 7, 260, 99, 12 };
static const int32_t target[ROWS] = { -1, -1, -1, 41, 7, 260, 99, 12, 30 };

// The weight and row that row `row` of wqkv holds. Each key head has its queries, its key and its
// value.
static int unpacked(int row, char *which)
{
    const int head = row / ((GROUP + 2) * DIM), rest = row % ((GROUP + 2) * DIM);
    *which = rest < GROUP * DIM ? 'q' : rest < (GROUP + 1) * DIM ? 'k' : 'v';
    return *which == 'q' ? head * GROUP * DIM + rest : head * DIM + rest % DIM;
}

static int rows_of(char which)
{
    return which == 'q' ? HEADS * DIM : which == 'o' ? WIDTH : KV * DIM;
}

static float bias_of(int layer, char which, int row)
{
    return (float)((layer * 31 + which * 7 + row * 13) % 17 - 8) / 32;
}

// --- the two folders -----------------------------------------------------------------------------

// The name of a golden tensor in the folder; NULL: it becomes a part of wqkv.
static char *name_in(const char *name, bool packed)
{
    static const char *const renamed[][2] = {
        { "embed_tokens", "tok_embeddings" },       { "mlp.gate_proj", "feed_forward.w1" },
        { "mlp.up_proj", "feed_forward.w3" },       { "mlp.down_proj", "feed_forward.w2" },
        { "self_attn.o_proj", "attention.wo" },     { "input_layernorm", "attention_norm" },
        { "post_attention_layernorm", "ffn_norm" },
    };
    if (!packed) return xstrdup(name);
    if (strstr(name, "q_proj") || strstr(name, "k_proj") || strstr(name, "v_proj")) return NULL;
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++) {
        const char *at = strstr(name, renamed[i][0]);
        if (at)
            return xasprintf("%.*s%s%s", (int)(at - name), name, renamed[i][1],
                             at + strlen(renamed[i][0]));
    }
    return xstrdup(name);
}

static const char *golden_row(const struct safetensors *f, int layer, char which, int row)
{
    char name[80];
    snprintf(name, sizeof name, "model.layers.%d.self_attn.%c_proj.weight", layer, which);
    const struct safetensor *t = safetensors_find(f, name);
    return (const char *)t->data + (size_t)row * WIDTH * 2;
}

static void declare_biases(struct safetensors_writer *w, bool packed)
{
    for (int l = 0; l < LAYERS; l++)
        for (const char *c = packed ? "po" : "qkvo"; *c; c++) {
            char name[80];
            const int64_t rows = *c == 'p' ? PACKED : rows_of(*c), shape[] = { rows, WIDTH };
            snprintf(name, sizeof name,
                     packed ? *c == 'p' ? "model.layers.%d.attention.wqkv.bias"
                                        : "model.layers.%d.attention.wo.bias"
                            : "model.layers.%d.self_attn.%c_proj.bias",
                     l, *c);
            safetensors_writer_declare(w, name, DTYPE_F32, 1, shape);
            if (*c != 'p') continue;
            snprintf(name, sizeof name, "model.layers.%d.attention.wqkv.weight", l);
            safetensors_writer_declare(w, name, DTYPE_BF16, 2, shape);
        }
}

static void write_biases(struct safetensors_writer *w, const struct safetensors *f, bool packed)
{
    struct err err;
    for (int l = 0; l < LAYERS; l++)
        for (const char *c = packed ? "po" : "qkvo"; *c; c++) {
            const int rows = *c == 'p' ? PACKED : rows_of(*c);
            for (int i = 0; i < rows; i++) {
                char which = *c;
                const int row = which == 'p' ? unpacked(i, &which) : i;
                const float bias = bias_of(l, which, row);
                safetensors_writer_data(w, &bias, sizeof bias, &err);
            }
            for (int i = 0; *c == 'p' && i < rows; i++) {
                char which;
                const int row = unpacked(i, &which);
                safetensors_writer_data(w, golden_row(f, l, which, row), WIDTH * 2, &err);
            }
        }
}

static void write_weights(const char *folder, bool packed)
{
    struct err err = { 0 };
    struct safetensors *f = safetensors_open(LLAMA "/model.safetensors", &err);
    if (!f) fail_msg("%s", err.text);
    char *path = xasprintf("%s/model.safetensors", folder);
    struct safetensors_writer *w = safetensors_writer_new(path);
    for (int give = 0; give < 2; give++) {
        for (int64_t i = 0; i < f->count; i++) {
            const struct safetensor *t = &f->tensors[i];
            char *name = name_in(t->name, packed);
            if (name && give)
                safetensors_writer_data(w, t->data, t->bytes, &err);
            else if (name)
                safetensors_writer_declare(w, name, (enum dtype)t->dtype, t->rank, t->shape);
            free(name);
        }
        if (give)
            write_biases(w, f, packed);
        else
            declare_biases(w, packed);
    }
    if (safetensors_writer_finish(w, &err) < 0) fail_msg("%s", err.text);
    safetensors_close(f);
    free(path);
}

static void set_text(cJSON *json, const char *key, const char *text)
{
    cJSON_ReplaceItemInObjectCaseSensitive(json, key, cJSON_CreateString(text));
}

static void write_config(const char *folder, bool packed)
{
    struct err err;
    cJSON *json = json_read(LLAMA "/config.json", 1 << 20, &err);
    cJSON_DeleteItemFromObjectCaseSensitive(json, "attention_bias");
    if (packed) {
        cJSON *list = cJSON_CreateArray();
        cJSON_AddItemToArray(list, cJSON_CreateString("InternLM2ForCausalLM"));
        cJSON_ReplaceItemInObjectCaseSensitive(json, "architectures", list);
        set_text(json, "model_type", "internlm2"); // "bias" absent: true
    } else {
        cJSON_AddTrueToObject(json, "attention_bias");
    }
    char *text = cJSON_Print(json);
    scratch_text(folder, "config.json", text);
    free(text);
    cJSON_Delete(json);
}

static struct model *open_one(bool packed)
{
    struct err err;
    char *folder = scratch_new();
    write_weights(folder, packed);
    write_config(folder, packed);
    scratch_copy(folder, LLAMA, "tokenizer.json");
    struct model *m = model_load(folder, test_device(), NULL, &err);
    if (!m) fail_msg("%s", err.text);
    assert_string_equal(m->family->name, packed ? "internlm2" : "llama");
    scratch_remove(folder);
    return m;
}

// --- comparing -----------------------------------------------------------------------------------

static const struct weight *weight(const struct model *m, const char *name)
{
    const struct weight *w = weights_find(&m->weights, name);
    if (!w) fail_msg("no weight is called %s", name);
    return w;
}

static void near_to(const char *what, float got, float want)
{
    if (!(fabsf(got - want) <= 4e-6f + 1e-4f * fabsf(want)))
        fail_msg("%s: %.9g, not %.9g", what, (double)got, (double)want);
}

static void compare_gradient(const struct weight *got, const struct weight *want)
{
    assert_int_equal(got->tensor->grad->count, want->tensor->grad->count);
    for (int64_t i = 0; i < want->tensor->grad->count; i++)
        near_to(got->name, got->tensor->grad->data[i], want->tensor->grad->data[i]);
}

static void compare_packed(const struct model *llama, const struct weight *got, int layer,
                           const char *end, int width)
{
    for (int i = 0; i < PACKED * width; i++) {
        char name[80], which;
        const int row = unpacked(i / width, &which);
        snprintf(name, sizeof name, "model.layers.%d.self_attn.%c_proj.%s", layer, which, end);
        near_to(got->name, got->tensor->grad->data[i],
                weight(llama, name)->tensor->grad->data[row * width + i % width]);
    }
}

static void it_learns_as_llama_does(void **state)
{
    struct model *llama = open_one(false), *packed = open_one(true);
    pass_want_gradients(llama);
    pass_want_gradients(packed);
    const double want = pass_loss(llama, ids, target, ROWS, false);
    const double got = pass_loss(packed, ids, target, ROWS, true);
    assert_true(fabs(got - want) <= 1e-6 * want);
    for (size_t i = 0; i < packed->weights.count; i++) {
        const struct weight *w = &packed->weights.list[i];
        int layer;
        if (!strstr(w->name, "wqkv")) {
            compare_gradient(w, weight(llama, w->common));
            continue;
        }
        assert_int_equal(sscanf(w->name, "model.layers.%d.", &layer), 1);
        assert_non_null(strstr(w->common, "self_attn.qkv_proj"));
        const bool bias = strstr(w->name, ".bias") != NULL;
        compare_packed(llama, w, layer, bias ? "bias" : "weight", bias ? 1 : WIDTH);
    }
    struct model *both[] = { llama, packed };
    for (int k = 0; k < 2; k++) {
        pass_free_gradients(both[k]);
        model_free(both[k]);
    }
}

// --- a cache -------------------------------------------------------------------------------------

// Logits of the last row: computes `first` rows at once, then the others one by one.
static void logits_of(const struct model *m, int first, float *to)
{
    struct kv kv;
    decoder_cache(&m->decoder, test_device(), &kv);
    for (int n = first; n <= ROWS; n++) {
        const size_t vocab = (size_t)m->decoder.config.vocab, rows = n == first ? (size_t)n : 1;
        float *logits = pass_logits(m, &kv, ids, n, NULL);
        memcpy(to, logits + (rows - 1) * vocab, vocab * sizeof *to);
        free(logits);
    }
    kv_release(&kv);
}

static void it_answers_as_llama_does(void **state)
{
    struct model *llama = open_one(false), *packed = open_one(true);
    const size_t vocab = (size_t)llama->decoder.config.vocab;
    float *want = xcalloc(vocab, sizeof *want), *got = xcalloc(vocab, sizeof *got);
    logits_of(llama, ROWS, want);
    for (int first = 1; first <= ROWS; first += 4) {
        logits_of(packed, first, got);
        for (size_t i = 0; i < vocab; i++) near_to("logit", got[i], want[i]);
    }
    free(want);
    free(got);
    model_free(llama);
    model_free(packed);
}

// train.method qv selects the one weight that holds both queries and values.
static void the_packed_weight_is_trained_as_both(void **state)
{
    struct err err;
    struct model *m = open_one(true);
    struct settings *s = settings_new();
    struct params p = { .backend = test_device() };
    if (settings_set(s, "train.method", "qv", &err) < 0 || params_open(&p, m, s, &err) < 0)
        fail_msg("%s", err.text);
    assert_non_null(params_find(&p, "model.layers.3.attention.wqkv.weight"));
    assert_null(params_find(&p, "model.layers.3.attention.wo.weight"));
    assert_null(params_find(&p, "model.layers.3.feed_forward.w1.weight"));
    params_release(&p);
    settings_free(s);
    model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_learns_as_llama_does),
        cmocka_unit_test(it_answers_as_llama_does),
        cmocka_unit_test(the_packed_weight_is_trained_as_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
