// tests/core/model/families/internvl.c -- features that InternVL's goldens lack: encoders with
// RMSNorm and norms of queries and keys against loops over doubles; one model in the layouts of
// transformers and of InternVL's authors; the positions of tiles; the template Hermes-2; refused
// folders.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/dtype.h"
#include "core/base/event.h"
#include "core/engine/engine.h"
#include "core/files/safetensors.h"
#include "core/model/families/family.h"
#include "core/model/model.h"
#include "core/template/message.h"
#include "tests/core/scratch.h"
#include "tests/device.h"

#define HF    "tests/goldens/internvl3"
#define NEWER "tests/goldens/internvl3.5"
#define CHAT  "tests/goldens/internvl2-internlm2"

enum { WIDTH = 32, HEADS = 4, FFN = 56, ROWS = 17, TILES = 5, TENSORS_MAX = 256 };

// --- one model, written in several ways ----------------------------------------------------------

struct variant {
    bool plain; // RMSNorm, norms of queries and keys; no biases of norms, queries, keys and values
    bool chat;  // the authors' layout
    bool newer; // InternVL3.5 instead of InternVL3
    double eps; // "layer_norm_eps", if not 0
};

static const char *golden_of(struct variant v)
{
    return v.newer ? NEWER : HF;
}

struct tensor_out {
    char *name;
    enum dtype dtype;
    int rank;
    int64_t shape[4];
    void *data;
    size_t bytes;
};

struct tensors_out {
    struct tensor_out list[TENSORS_MAX];
    int count;
};

static struct tensor_out *add(struct tensors_out *o, char *name, const struct safetensor *t)
{
    struct tensor_out *one = &o->list[o->count++];
    assert_true(o->count < TENSORS_MAX);
    *one = (struct tensor_out){ .name = name, .dtype = DTYPE_F32 };
    if (!t) return one;
    one->dtype = (enum dtype)t->dtype;
    one->rank = t->rank;
    memcpy(one->shape, t->shape, sizeof one->shape);
    one->bytes = t->bytes;
    one->data = memcpy(xmalloc(t->bytes), t->data, t->bytes);
    return one;
}

static const char *const renamed[][2] = {
    { "vision_tower.", "vision_model." },
    { "embeddings.cls_token", "embeddings.class_embedding" },
    { "embeddings.patch_embeddings.projection", "embeddings.patch_embedding" },
    { "embeddings.position_embeddings", "embeddings.position_embedding" },
    { "encoder.layer.", "encoder.layers." },
    { "attention.projection_layer", "attn.proj" },
    { "attention.q_norm", "attn.q_norm" },
    { "attention.k_norm", "attn.k_norm" },
    { "attention.q_proj", "attn.qkv" }, // with the rows of k_proj and v_proj appended
    { "lambda_1", "ls1" },
    { "lambda_2", "ls2" },
    { "layernorm_before", "norm1" },
    { "layernorm_after", "norm2" },
    { "multi_modal_projector.layer_norm", "mlp1.0" },
    { "multi_modal_projector.linear_1", "mlp1.1" },
    { "multi_modal_projector.linear_2", "mlp1.3" },
};

static char *name_in(const char *name, bool chat)
{
    char *full = xstrdup(name);
    for (size_t i = 0; chat && i < sizeof renamed / sizeof *renamed; i++) {
        const char *at = strstr(full, renamed[i][0]);
        if (!at) continue;
        char *next = xasprintf("%.*s%s%s", (int)(at - full), full, renamed[i][1],
                               at + strlen(renamed[i][0]));
        free(full);
        full = next;
    }
    return full;
}

static bool left_out(const char *name, struct variant v)
{
    const bool vision = strstr(name, "vision_tower") != NULL, bias = strstr(name, ".bias") != NULL;
    if (v.plain && vision && bias && (strstr(name, "layernorm") || strstr(name, "_proj.")))
        return true;
    return v.chat && vision && (strstr(name, "k_proj") || strstr(name, "v_proj"));
}

// Appends the rows of keys and values to those of queries.
static void append(struct tensor_out *q, const struct safetensors *f, const char *name)
{
    for (const char *part = "kv"; *part; part++) {
        char *other = xstrdup(name);
        strstr(other, "q_proj")[0] = *part;
        const struct safetensor *t = safetensors_find(f, other);
        q->data = xrealloc(q->data, q->bytes + t->bytes);
        memcpy((char *)q->data + q->bytes, t->data, t->bytes);
        q->bytes += t->bytes;
        q->shape[0] += t->shape[0];
        free(other);
    }
}

static float gain_of(int layer, char which, int i)
{
    return 0.75f + (float)((layer * 5 + which * 3 + i * 7) % 13) / 16;
}

static void add_gains(struct tensors_out *o, struct variant v)
{
    for (int l = 0; v.plain && l < 3; l++)
        for (const char *which = "qk"; *which; which++) {
            char *name =
                xasprintf("vision_tower.encoder.layer.%d.attention.%c_norm.weight", l, *which);
            struct tensor_out *one = add(o, name_in(name, v.chat), NULL);
            one->rank = 1;
            one->shape[0] = WIDTH;
            one->bytes = WIDTH * sizeof(float);
            float *gain = one->data = xmalloc(one->bytes);
            for (int i = 0; i < WIDTH; i++) gain[i] = gain_of(l, *which, i);
            free(name);
        }
}

static void write_weights(const char *folder, struct variant v)
{
    struct err err = { 0 };
    struct tensors_out o = { 0 };
    char *path = xasprintf("%s/model.safetensors", golden_of(v));
    struct safetensors *f = safetensors_open(path, &err);
    if (!f) fail_msg("%s", err.text);
    free(path);
    for (int64_t i = 0; i < f->count; i++) {
        const struct safetensor *t = &f->tensors[i];
        if (left_out(t->name, v)) continue;
        struct tensor_out *one = add(&o, name_in(t->name, v.chat), t);
        if (v.chat && strstr(t->name, "vision_tower") && strstr(t->name, "q_proj"))
            append(one, f, t->name);
    }
    add_gains(&o, v);
    path = xasprintf("%s/model.safetensors", folder);
    struct safetensors_writer *w = safetensors_writer_new(path);
    for (int i = 0; i < o.count; i++)
        safetensors_writer_declare(w, o.list[i].name, o.list[i].dtype, o.list[i].rank,
                                   o.list[i].shape);
    for (int i = 0; i < o.count; i++)
        safetensors_writer_data(w, o.list[i].data, o.list[i].bytes, &err);
    if (safetensors_writer_finish(w, &err) < 0) fail_msg("%s", err.text);
    for (int i = 0; i < o.count; i++) {
        free(o.list[i].name);
        free(o.list[i].data);
    }
    safetensors_close(f);
    free(path);
}

static void put(cJSON *json, const char *key, cJSON *value)
{
    cJSON_DeleteItemFromObjectCaseSensitive(json, key);
    cJSON_AddItemToObject(json, key, value);
}

static void put_all(cJSON *json, const char *fields)
{
    cJSON *more = cJSON_Parse(fields), *one;
    while ((one = cJSON_DetachItemFromArray(more, 0))) put(json, one->string, one);
    cJSON_Delete(more);
}

static cJSON *config_of(struct variant v)
{
    struct err err;
    char *path = xasprintf("%s/config.json", golden_of(v));
    cJSON *hf = json_read(path, 1 << 20, &err);
    free(path);
    if (!v.chat) return hf;
    cJSON *json = json_read(CHAT "/config.json", 1 << 20, &err);
    put(json, "llm_config", cJSON_DetachItemFromObject(hf, "text_config"));
    put(json, "template", cJSON_CreateString("internvl2_5"));
    if (v.newer) {
        put_all(json, "{\"force_image_size\": 20, \"max_dynamic_patch\": 4}");
        put_all(cJSON_GetObjectItem(json, "vision_config"),
                "{\"hidden_size\": 24, \"intermediate_size\": 40, \"num_hidden_layers\": 2, "
                "\"num_attention_heads\": 2, \"image_size\": 20, \"patch_size\": 5}");
    }
    cJSON_Delete(hf);
    return json;
}

static void write_folder(const char *folder, struct variant v)
{
    cJSON *json = config_of(v), *vision = cJSON_GetObjectItem(json, "vision_config");
    if (v.plain) {
        put(vision, "norm_type", cJSON_CreateString("rms_norm"));
        put(vision, v.chat ? "qk_normalization" : "use_qk_norm", cJSON_CreateBool(true));
        put(vision, v.chat ? "qkv_bias" : "attention_bias", cJSON_CreateBool(false));
    }
    if (v.eps > 0) put(vision, "layer_norm_eps", cJSON_CreateNumber(v.eps));
    char *text = cJSON_Print(json);
    scratch_text(folder, "config.json", text);
    scratch_copy(folder, golden_of(v), "preprocessor_config.json");
    scratch_copy(folder, golden_of(v), "tokenizer.json");
    write_weights(folder, v);
    free(text);
    cJSON_Delete(json);
}

// /dump's taps of a forward pass over the picture "scene".
static struct safetensors *dump_of(struct variant v, const char *taps)
{
    struct err err = { 0 };
    struct sinks sinks = { 0 };
    char *folder = scratch_new(), *path = xasprintf("%s/dump.safetensors", folder);
    write_folder(folder, v);
    struct engine *e = engine_new(test_device(), &sinks);
    if (engine_load(e, folder, &err) < 0 || engine_set(e, "compute.matmul", "f32", &err) < 0 ||
        engine_set(e, "chat.template", "internvl2_5", &err) < 0 ||
        engine_attach(e, "tests/goldens/pictures/scene.png", &err) < 0 ||
        engine_dump(e, taps, path, &err) < 0 || engine_forward(e, "What?", &err) < 0)
        fail_msg("%s", err.text);
    assert_string_equal(engine_model(e)->family->name, v.chat ? "internvl_chat" : "internvl");
    struct safetensors *f = safetensors_open(path, &err);
    if (!f) fail_msg("%s", err.text);
    engine_free(e);
    free(path);
    scratch_remove(folder); // the dump stays mapped
    return f;
}

static void compare_floats(const char *what, const float *got, const double *want, int64_t n,
                           double room)
{
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - want[i]) <= room * (1 + fabs(want[i]))))
            fail_msg("%s: number %lld is %.9g, not %.9g", what, (long long)i, (double)got[i],
                     want[i]);
}

static void same_in_both(struct variant v, const char *tap)
{
    struct safetensors *a = dump_of(v, tap);
    v.chat = true;
    struct safetensors *b = dump_of(v, tap);
    const struct safetensor *x = safetensors_find(a, tap), *y = safetensors_find(b, tap);
    const int64_t count = (int64_t)x->bytes / 4;
    assert_true(count >= 352); // at least a row of logits
    assert_int_equal(y->bytes, x->bytes);
    double *want = xcalloc((size_t)count, sizeof *want);
    for (int64_t i = 0; i < count; i++) want[i] = (double)((const float *)x->data)[i];
    compare_floats(tap, y->data, want, count, 1e-5);
    free(want);
    safetensors_close(a);
    safetensors_close(b);
}

static void both_layouts_give_the_same_model(void **state)
{
    same_in_both((struct variant){ .plain = false }, "visual.0");
    same_in_both((struct variant){ .plain = true }, "visual.0");
    same_in_both((struct variant){ .newer = true }, "visual.0");
    same_in_both((struct variant){ .newer = true }, "embed");
    same_in_both((struct variant){ .newer = true }, "logits");
}

// --- a block in loops over doubles ---------------------------------------------------------------

// "layer_norm_eps" applies to the norms of a block, but not to those of queries and keys, as in
// transformers.
#define BLOCK_EPS 0.01

static double *weight(const struct safetensors *f, const char *name, int64_t count)
{
    char *full = xasprintf("vision_tower.encoder.layer.0.%s", name);
    const struct safetensor *t = safetensors_find(f, full);
    if (!t) fail_msg("no tensor %s", full);
    float *floats = xcalloc((size_t)count, sizeof *floats);
    double *d = xcalloc((size_t)count, sizeof *d);
    floats_from(floats, t->data, (enum dtype)t->dtype, (size_t)count);
    for (int64_t i = 0; i < count; i++) d[i] = floats[i];
    free(floats);
    free(full);
    return d;
}

static void rms(double *x, int64_t rows, const double *gain, double eps)
{
    for (int64_t i = 0; i < rows; i++) {
        double sum = 0;
        for (int k = 0; k < WIDTH; k++) sum += x[i * WIDTH + k] * x[i * WIDTH + k];
        for (int k = 0; k < WIDTH; k++) x[i * WIDTH + k] *= gain[k] / sqrt(sum / WIDTH + eps);
    }
}

// y[rows,out] = x[rows,in] w^T (+ bias).
static double *product(const struct safetensors *f, const double *x, int64_t rows, int in, int out,
                       const char *name, bool bias)
{
    char weight_name[64], bias_name[64];
    snprintf(weight_name, sizeof weight_name, "%s.weight", name);
    snprintf(bias_name, sizeof bias_name, "%s.bias", name);
    double *w = weight(f, weight_name, (int64_t)in * out),
           *b = bias ? weight(f, bias_name, out) : NULL;
    double *y = xcalloc((size_t)(rows * out), sizeof *y);
    for (int64_t i = 0; i < rows * out; i++) {
        y[i] = b ? b[i % out] : 0;
        for (int k = 0; k < in; k++) y[i] += x[i / out * in + k] * w[i % out * in + k];
    }
    free(w);
    free(b);
    return y;
}

// Adds a tile's attention, from its rows [ROWS,WIDTH] of q, k, v, to `to`.
static void attend_tile(const double *q, const double *k, const double *v, double *to)
{
    enum { DIM = WIDTH / HEADS };
    for (int h = 0; h < HEADS; h++)
        for (int i = 0; i < ROWS; i++) {
            double p[ROWS], sum = 0;
            for (int j = 0; j < ROWS; j++) {
                double dot = 0;
                for (int e = 0; e < DIM; e++)
                    dot += q[i * WIDTH + h * DIM + e] * k[j * WIDTH + h * DIM + e];
                sum += p[j] = exp(dot / sqrt(DIM));
            }
            for (int e = 0; e < DIM; e++)
                for (int j = 0; j < ROWS; j++)
                    to[i * WIDTH + h * DIM + e] += p[j] / sum * v[j * WIDTH + h * DIM + e];
        }
}

// h += scale * y; frees y.
static void add_scaled(const struct safetensors *f, double *h, double *y, int64_t rows,
                       const char *name)
{
    double *scale = weight(f, name, WIDTH);
    for (int64_t i = 0; i < rows * WIDTH; i++) h[i] += scale[i % WIDTH] * y[i];
    free(scale);
    free(y);
}

static double *normed(const struct safetensors *f, const double *h, int64_t rows, const char *name)
{
    double *gain = weight(f, name, WIDTH), *x = xcalloc((size_t)(rows * WIDTH), sizeof *x);
    memcpy(x, h, (size_t)(rows * WIDTH) * sizeof *x);
    rms(x, rows, gain, BLOCK_EPS);
    free(gain);
    return x;
}

static void naive_block(const struct safetensors *f, double *h, int64_t rows)
{
    double gain[WIDTH], *a = xcalloc((size_t)(rows * WIDTH), sizeof *a);
    double *x = normed(f, h, rows, "layernorm_before.weight");
    double *q = product(f, x, rows, WIDTH, WIDTH, "attention.q_proj", false);
    double *k = product(f, x, rows, WIDTH, WIDTH, "attention.k_proj", false);
    double *v = product(f, x, rows, WIDTH, WIDTH, "attention.v_proj", false);
    for (int i = 0; i < WIDTH; i++) gain[i] = gain_of(0, 'q', i);
    rms(q, rows, gain, 1e-6);
    for (int i = 0; i < WIDTH; i++) gain[i] = gain_of(0, 'k', i);
    rms(k, rows, gain, 1e-6);
    for (int64_t i = 0; i < rows; i += ROWS)
        attend_tile(q + i * WIDTH, k + i * WIDTH, v + i * WIDTH, a + i * WIDTH);
    add_scaled(f, h, product(f, a, rows, WIDTH, WIDTH, "attention.projection_layer", true), rows,
               "lambda_1");
    free(x);
    x = normed(f, h, rows, "layernorm_after.weight");
    double *inner = product(f, x, rows, WIDTH, FFN, "mlp.fc1", true);
    for (int64_t i = 0; i < rows * FFN; i++) inner[i] *= (1 + erf(inner[i] / sqrt(2))) / 2;
    add_scaled(f, h, product(f, inner, rows, FFN, WIDTH, "mlp.fc2", true), rows, "lambda_2");
    free(inner), free(a), free(x), free(q), free(k), free(v);
}

static void plain_blocks_equal_naive_loops(void **state)
{
    struct err err;
    struct safetensors *f = safetensors_open(HF "/model.safetensors", &err);
    struct safetensors *d = dump_of((struct variant){ .plain = true, .eps = BLOCK_EPS },
                                    "vision.layer.0.0 vision.layer.1.0");
    const struct safetensor *from = safetensors_find(d, "vision.layer.0.0");
    const struct safetensor *to = safetensors_find(d, "vision.layer.1.0");
    double h[TILES * ROWS * WIDTH];
    assert_int_equal(from->bytes, sizeof h / 2);
    assert_int_equal(to->bytes, sizeof h / 2);
    for (size_t i = 0; i < sizeof h / sizeof *h; i++) h[i] = ((const float *)from->data)[i];
    naive_block(f, h, TILES * ROWS);
    compare_floats("a block", to->data, h, TILES * ROWS * WIDTH, 1e-5);
    safetensors_close(f);
    safetensors_close(d);
}

// --- tiles ---------------------------------------------------------------------------------------

static void each_tile_has_its_place(void **state)
{
    struct err err;
    struct picture_tile t[8];
    struct model *m = model_load(HF, test_device(), NULL, &err);
    if (!m) fail_msg("%s", err.text);
    const struct family *f = m->family;
    assert_int_equal(f->pictures->tokens(m, (struct picture_shape){ .width = 400, .height = 100 }),
                     (4 + 1) * 4);
    assert_int_equal(
        f->pictures->tiles(m, (struct picture_shape){ .width = 400, .height = 100 }, t, 8), 5);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(t[i].first, i * 4);
        assert_int_equal(t[i].rows * 10 + t[i].cols, 22);
        assert_true(t[i].left == i * 100.0 && t[i].right == t[i].left + 100);
        assert_true(t[i].top == 0 && t[i].bottom == 100);
    }
    assert_true(t[4].left == 0 && t[4].right == 400 && t[4].bottom == 100 && t[4].first == 16);
    assert_int_equal(
        f->pictures->tiles(m, (struct picture_shape){ .width = 300, .height = 200 }, t, 1), 5);
    assert_true(t[0].right == 150 && t[0].bottom == 100); // 2 x 2
    assert_int_equal(f->pictures->tokens(m, (struct picture_shape){ .width = 20, .height = 20 }),
                     4); // one tile, no thumbnail
    assert_int_equal(
        f->pictures->tiles(m, (struct picture_shape){ .width = 20, .height = 20 }, t, 8), 1);
    model_free(m);
}

// --- conversations -------------------------------------------------------------------------------

static void hermes_writes_the_prompt_of_internlm(void **state)
{
    struct err err;
    const struct family *f = family_named("internvl_chat");
    struct checkpoint c = { .config = config_of((struct variant){ .chat = true }) };
    put(c.config, "template", cJSON_CreateString("Hermes-2"));
    struct model m = { 0 };
    if (f->configure(&m, &c, &err) < 0) fail_msg("%s", err.text);
    assert_string_equal(m.conversation, "internlm2-chat");
    cJSON_Delete(c.config);
}

// --- refused -------------------------------------------------------------------------------------

static void refused(const char *folder, const char *why)
{
    struct err err;
    if (model_load(folder, test_device(), NULL, &err)) fail_msg("%s: loads", why);
    if (!strstr(err.text, why)) fail_msg("%s: %s", why, err.text);
}

static void unsupported_configs_are_refused_by_name(void **state)
{
    static const struct {
        bool chat;
        const char *field, *why;
    } cases[] = {
        { true, "{\"template\": \"phi3-chat\"}", "\"phi3-chat\" is not supported" },
        { true, "{\"ps_version\": \"v1\"}", "ps_version" },
        { true, "{\"pad2square\": true}", "pad2square" },
        { true, "{\"flash_mode\": true}", "InternVL3.5-Flash" },
        { true, "{\"force_image_size\": 56}", "force_image_size" },
        { true, "{\"select_layer\": -9}", "select_layer" },
        { true, "{\"max_dynamic_patch\": 9999}", "max_dynamic_patch" },
        { true, "{\"downsample_ratio\": 0.4}", "1/n" },
        { true, "{\"downsample_ratio\": 0}", "1/n" },
        { true, "{\"llm_config\": {\"model_type\": \"phi3\"}}", "\"phi3\" is not supported" },
        { false, "{\"text_config\": {\"model_type\": \"gpt_oss\"}}",
          "\"gpt_oss\" is not supported" },
        { true, "{\"vision_config\": null}", "vision_config" },
        { false, "{\"vision_feature_select_strategy\": \"full\"}", "select_strategy" },
        { false, "{\"vision_feature_layer\": [-1, -2]}", "several layers" },
        { false, "{\"vision_config\": {\"norm_type\": \"batch\"}}", "norm_type" },
        { false, "{\"vision_config\": {\"image_size\": [28, 56]}}", "image_size" },
        { false, "{\"vision_config\": {\"use_mean_pooling\": false}}", "use_mean_pooling" },
        { false, "{\"downsample_ratio\": 0.3333333333333333}", "does not divide" },
    };
    char *folder = scratch_new();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err err;
        write_folder(folder, (struct variant){ .chat = cases[i].chat });
        char *path = xasprintf("%s/config.json", folder);
        cJSON *json = json_read(path, 1 << 20, &err), *more = cJSON_Parse(cases[i].field);
        cJSON *one = cJSON_DetachItemFromArray(more, 0);
        put(json, one->string, one);
        char *text = cJSON_Print(json);
        scratch_text(folder, "config.json", text);
        refused(folder, cases[i].why);
        free(text);
        free(path);
        cJSON_Delete(json);
        cJSON_Delete(more);
    }
    scratch_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_layouts_give_the_same_model),
        cmocka_unit_test(plain_blocks_equal_naive_loops),
        cmocka_unit_test(each_tile_has_its_place),
        cmocka_unit_test(hermes_writes_the_prompt_of_internlm),
        cmocka_unit_test(unsupported_configs_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
