// tests/core/adapter/adapter.c -- core/adapter/adapter_read.c, adapter_write.c and adapters.c:
// PEFT's folders give PEFT's logits, removing an adapter restores the model bit for bit, and
// written folders are read back unchanged.

#include "tests/core/adapter/adapter.h"
#include "core/adapter/adapter_entry.h"
#include "core/adapter/adapters.h"
#include "core/adapter/model_gguf.h"
#include "core/adapter/model_write.h"
#include "core/base/dtype.h"
#include "core/base/folder.h"
#include "core/files/safetensors.h"
#include "core/train/params.h"
#include "tests/core/quick.h"
#include "tests/device.h"

#define GOLDEN "build/goldens/llava-1.5/golden.safetensors"

static void golden_adapter(const char *name)
{
    struct err err;
    struct model *m = load(LLAVA);
    struct logits before = logits_of(m);
    char *folder = xasprintf(LLAVA "/adapters/%s", name);
    struct adapter *a = read_folder(folder, m);
    adapter_apply(a);

    char *key = xasprintf("adapter.%s.logits", name);
    struct safetensors *golden = safetensors_open(GOLDEN, &err);
    cJSON *json = json_read("build/goldens/llava-1.5/golden.json", 1 << 24, &err);
    const struct safetensor *want = safetensors_find(golden, key); // [4,V]: the last 4 rows
    double tol = json_get(json_get(json_get(json, "tensors"), key), "tol")->valuedouble;
    struct logits got = logits_of(m);
    assert_int_equal(got.vocab, want->shape[1]);
    const float *last = got.x + (got.rows - 4) * got.vocab, *wanted = want->data;
    for (int64_t i = 0; i < 4 * got.vocab; i++)
        if (!(fabs((double)last[i] - (double)wanted[i]) <= tol))
            fail_msg("%s: logit %lld is %g, not %g", name, (long long)i, (double)last[i],
                     (double)wanted[i]);
    free(got.x);
    cJSON_Delete(json);
    safetensors_close(golden);
    free(key);
    free(folder);

    adapter_remove(a);
    expect_equal(logits_of(m), before, true);
    adapter_free(a);
    model_free(m);
}

static void lora_gives_the_logits_of_peft(void **state)
{
    golden_adapter("lora");
}

static void ln_tuning_gives_the_logits_of_peft(void **state)
{
    golden_adapter("ln_tuning");
}

static void lora_is_scaled(void **state)
{
    struct model *m = load(LLAVA);
    struct adapter *a = read_folder(LORA, m);
    struct logits plain = logits_of(m);
    adapter_apply(a);
    expect_equal(logits_of(m), logits_of(m), true);
    adapter_scale(a, 0);
    expect_equal(logits_of(m), plain, true); // x + 0 (B A x)
    const struct lora *first = &a->list[0].lora;
    adapter_scale(a, 0.5);
    assert_float_equal(first->scale, 1, 0); // scale = alpha 8 / rank 4, halved
    double half = adapter_lora_norm(a, first);
    adapter_scale(a, 1);
    assert_float_equal(adapter_lora_norm(a, first), 2 * half, 1e-9);
    adapter_free(a);
    model_free(m);
}

// The norm of B A, whatever the rank.
static void norms_are_those_of_the_product(void **state)
{
    enum { IN = 5, OUT = 3 };
    struct model *m = load(LLAVA);
    struct adapter *a = read_folder(LORA, m);
    for (int r = 1; r < 8; r++) {
        float A[7 * IN], B[OUT * 7];
        double squares = 0;
        for (int i = 0; i < r * IN; i++) A[i] = (float)(i * 7 % 11 - 5);
        for (int i = 0; i < r * OUT; i++) B[i] = (float)(i * 5 % 13 - 6);
        for (int i = 0; i < OUT; i++)
            for (int k = 0; k < IN; k++) {
                double sum = 0;
                for (int j = 0; j < r; j++) sum += (double)B[i * r + j] * A[j * IN + k];
                squares += sum * sum;
            }
        const struct lora lora = {
            .a = { .data = A, .dtype = DTYPE_F32, .rank = 2, .shape = { r, IN }, .on_host = true },
            .b = { .data = B, .dtype = DTYPE_F32, .rank = 2, .shape = { OUT, r }, .on_host = true },
            .scale = -2
        };
        assert_float_equal(adapter_lora_norm(a, &lora), 2 * sqrt(squares), 1e-9);
    }
    adapter_free(a);
    model_free(m);
}

// A high rank takes no more memory than the file.
static void a_high_rank_is_measured_quickly(void **state)
{
    enum { R = 20000, SIDE = 4 };
    struct model *m = load(LLAVA);
    struct adapter *a = read_folder(LORA, m);
    float *zeros = xcalloc(R * SIDE, sizeof *zeros);
    const struct lora lora = { .a = { .data = zeros,
                                      .dtype = DTYPE_F32,
                                      .rank = 2,
                                      .shape = { R, SIDE },
                                      .on_host = true },
                               .b = { .data = zeros,
                                      .dtype = DTYPE_F32,
                                      .rank = 2,
                                      .shape = { SIDE, R },
                                      .on_host = true },
                               .scale = 1 };
    const clock_t before = clock();
    assert_float_equal(adapter_lora_norm(a, &lora), 0, 0);
    const double seconds = processor_seconds(before);
    free(zeros);
    adapter_free(a);
    model_free(m);
    if (seconds > QUICK) fail_msg("rank %d took %g s", R, seconds);
}

// --- spellings -----------------------------------------------------------------------------------

// Writes the golden LoRA again with `from` in its names replaced by `to`.
static void respell(const char *folder, const char *from, const char *to)
{
    struct err err;
    struct safetensors *f = safetensors_open(LORA "/adapter_model.safetensors", &err);
    char *path = xasprintf("%s/adapter_model.safetensors", folder);
    struct safetensors_writer *w = safetensors_writer_new(path);
    for (int64_t i = 0; i < f->count; i++) {
        const struct safetensor *t = &f->tensors[i];
        const char *at = strstr(t->name, from);
        assert_non_null(at);
        char *name = xasprintf("%.*s%s%s", (int)(at - t->name), t->name, to, at + strlen(from));
        safetensors_writer_declare(w, name, (enum dtype)t->dtype, t->rank, t->shape);
        free(name);
    }
    for (int64_t i = 0; i < f->count; i++)
        must(safetensors_writer_data(w, f->tensors[i].data, f->tensors[i].bytes, &err), &err);
    must(safetensors_writer_finish(w, &err), &err);
    safetensors_close(f);
    free(path);
}

static void older_spellings_are_the_same_adapter(void **state)
{
    static const char *const spellings[][2] = {
        { "model.language_model.layers", "language_model.model.layers" },
        { ".weight", ".default.weight" },
        { "base_model.model.", "" },
    };
    struct model *m = load(LLAVA);
    struct adapter *a = read_folder(LORA, m);
    adapter_apply(a);
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        char *folder = scratch_new();
        scratch_copy(folder, LORA, "adapter_config.json");
        respell(folder, spellings[i][0], spellings[i][1]);
        struct model *other = load(LLAVA);
        struct adapter *b = read_folder(folder, other);
        adapter_apply(b);
        expect_equal(logits_of(m), logits_of(other), true);
        adapter_free(b);
        model_free(other);
        scratch_remove(folder);
    }
    adapter_free(a);
    model_free(m);
}

// --- writing -------------------------------------------------------------------------------------

static struct tensor noise_tensor(int rank, int64_t a, int64_t b)
{
    struct tensor t = { .rank = rank, .shape = { a, b } };
    float *x = t.data = xmalloc(tensor_bytes(&t));
    for (int64_t i = 0; i < tensor_count(&t); i++) x[i] = noise();
    return t;
}

static struct tensor trained(const struct weight *w)
{
    struct tensor t = *w->tensor;
    size_t n = (size_t)tensor_count(&t);
    float *x = xreallocarray(NULL, n, sizeof *x);
    floats_from(x, t.data, t.dtype, n);
    for (size_t i = 0; i < n; i++) x[i] += 0.1f * noise();
    t.data = x;
    t.dtype = DTYPE_F32;
    return t;
}

enum { DELTAS_MAX = 64 };

struct deltas {
    struct adapter_delta list[DELTAS_MAX];
    struct tensor tensor[DELTAS_MAX];
    struct lora lora[DELTAS_MAX];
    size_t count;
};

static void add_weight(struct deltas *p, const struct model *m, const char *name)
{
    const struct weight *w = weights_find(&m->weights, name);
    if (!w) fail_msg("no weight %s", name);
    p->tensor[p->count] = trained(w);
    p->list[p->count] = (struct adapter_delta){ .kind = ADAPTER_WEIGHT,
                                                .weight = w,
                                                .tensor = &p->tensor[p->count] };
    p->count++;
}

static void add_lora(struct deltas *p, const struct model *m, const char *name, int64_t rank,
                     float scale)
{
    const struct weight *w = weights_find(&m->weights, name);
    if (!w) fail_msg("no weight %s", name);
    struct lora *l = &p->lora[p->count];
    *l = (struct lora){ noise_tensor(2, rank, w->tensor->shape[1]),
                        noise_tensor(2, w->tensor->shape[0], rank), scale, false };
    p->list[p->count++] = (struct adapter_delta){ .kind = ADAPTER_LORA, .weight = w, .lora = l };
}

static void add_extra(struct deltas *p, const char *name, int rank, int64_t a, int64_t b)
{
    p->tensor[p->count] = noise_tensor(rank, a, b);
    p->list[p->count] = (struct adapter_delta){ .kind = ADAPTER_EXTRA,
                                                .name = name,
                                                .tensor = &p->tensor[p->count] };
    p->count++;
}

static void free_deltas(struct deltas *p)
{
    for (size_t i = 0; i < p->count; i++) {
        free(p->tensor[i].data);
        free(p->lora[i].a.data);
        free(p->lora[i].b.data);
    }
    *p = (struct deltas){ 0 };
}

static int write_new(const struct model *m, const struct adapter_delta *list, size_t count,
                     const char *folder, struct err *err)
{
    struct folder_work work;
    if (folder_begin(&work, folder, err) < 0) return -1;
    must(adapter_write_into(m, list, count, DTYPE_F32, work.path, err), err);
    return folder_commit(&work, folder, err);
}

static bool same_floats(const struct tensor *a, const struct tensor *b)
{
    return a->dtype == DTYPE_F32 && b->dtype == DTYPE_F32 && tensor_bytes(a) == tensor_bytes(b) &&
           !memcmp(a->data, b->data, tensor_bytes(a));
}

static const struct adapter_entry *entry_of(const struct adapter *a, const struct adapter_delta *p)
{
    for (size_t i = 0; i < a->count; i++) {
        const struct adapter_entry *e = &a->list[i];
        bool extra = p->kind == ADAPTER_EXTRA;
        if (e->kind == p->kind && (extra ? !strcmp(e->name, p->name) : e->weight == p->weight))
            return e;
    }
    fail_msg("an entry of kind %d is missing", (int)p->kind);
    return NULL;
}

// Writes the deltas, reads them, and compares their tensors bit for bit.
static void round_trip(const struct deltas *p, struct model *m, const char *type)
{
    struct err err;
    char *folder = scratch_new(), *out = xasprintf("%s/out", folder);
    must(write_new(m, p->list, p->count, out, &err), &err);
    struct adapter *a = read_folder(out, m);
    for (size_t i = 0; i < p->count; i++) {
        const struct adapter_entry *e = entry_of(a, &p->list[i]);
        if (p->list[i].kind == ADAPTER_LORA) {
            assert_true(same_floats(&e->lora.a, &p->list[i].lora->a));
            assert_true(same_floats(&e->lora.b, &p->list[i].lora->b));
            assert_float_equal(e->lora.scale, p->list[i].lora->scale, 1e-6);
            assert_int_equal(e->lora.stabilised, p->list[i].lora->stabilised);
        } else {
            assert_true(same_floats(&e->tensor, p->list[i].tensor));
        }
    }
    char *path = xasprintf("%s/adapter_config.json", out);
    cJSON *json = type ? json_read(path, 1 << 20, &err) : NULL;
    if (type) assert_string_equal(json_get(json, "peft_type")->valuestring, type);
    for (size_t i = 0; i < p->count; i++) {
        const struct lora *l = &p->lora[i];
        if (!l->stabilised) continue;
        // PEFT scales by lora_alpha / sqrt(r). Rank 3 and scale 2 of the first LoRA are the
        // defaults.
        assert_true(cJSON_IsTrue(json_get(json, "use_rslora")));
        assert_float_equal(json_get(json, "lora_alpha")->valuedouble / sqrt(3), 2, 1e-6);
    }
    cJSON_Delete(json);
    assert_int_equal(write_new(m, p->list, p->count, out, &err), -1);
    assert_non_null(strstr(err.text, "already exists"));
    adapter_free(a);
    free(path);
    free(out);
    scratch_remove(folder);
}

static void written_adapters_are_read_back(void **state)
{
    struct deltas p = { 0 };
    struct model *m = load(LLAVA);
    add_weight(&p, m, "layers.1.input_layernorm.weight");
    add_weight(&p, m, "vision_tower.encoder.layers.0.layer_norm1.bias");
    round_trip(&p, m, "LN_TUNING");
    add_weight(&p, m, "multi_modal_projector.linear_1.weight");
    add_weight(&p, m, "embed_tokens.weight");
    add_weight(&p, m, "lm_head.weight");
    add_weight(&p, m, "vision_tower.embeddings.class_embedding");
    round_trip(&p, m, "LN_TUNING");
    add_lora(&p, m, "layers.0.mlp.up_proj.weight", 3, 2);
    add_lora(&p, m, "layers.2.mlp.up_proj.weight", 5, 0.7f);
    add_lora(&p, m, "vision_tower.encoder.layers.0.mlp.fc1.weight", 1, 1 / 3.0f);
    add_weight(&p, m, "vision_tower.encoder.layers.0.mlp.fc1.bias"); // beside LoRA
    add_extra(&p, "norm_align.weight", 1, 64, 0);
    add_extra(&p, "ira.2.head.weight", 2, 17, 16);
    round_trip(&p, m, "LORA");
    for (size_t i = 0; i < p.count; i++) p.lora[i].stabilised = p.list[i].kind == ADAPTER_LORA;
    round_trip(&p, m, "LORA");
    free_deltas(&p);
    add_extra(&p, "norm_align.weight", 1, 64, 0);
    add_extra(&p, "norm_align.bias", 1, 64, 0);
    round_trip(&p, m, NULL); // not a PEFT adapter
    free_deltas(&p);
    add_weight(&p, m, "multi_modal_projector.linear_2.bias"); // a connector alone
    round_trip(&p, m, "LN_TUNING");
    free_deltas(&p);
    model_free(m);
}

// PEFT loads a router only with its bias, which vlmsh does not train. The bias is written as in the
// model's file, whatever the dtype of other tensors. A different bias is refused.
static void a_router_keeps_its_bias(void **state)
{
    static const char name[] = "model.layers.1.mlp.gate.e_score_correction_bias";
    struct err err;
    struct deltas p = { 0 };
    struct model *m = load(KIMI);
    add_weight(&p, m, "layers.1.mlp.gate.weight");
    round_trip(&p, m, "LN_TUNING");
    char *folder = scratch_new(), *out = xasprintf("%s/out", folder);
    char *small = xasprintf("%s/small", folder), *key = xasprintf("base_model.model.%s", name);
    char *path = xasprintf("%s/adapter_model.safetensors", small);
    must(write_new(m, p.list, p.count, out, &err), &err);
    struct adapter *a = read_folder(out, m);
    must(adapter_save(a, "bf16", small, &err), &err);
    assert_int_equal(a->unused, 0);
    adapter_free(a);
    struct safetensors *file = safetensors_open(path, &err);
    struct safetensors *of_model = safetensors_open(KIMI "/model.safetensors", &err);
    const struct safetensor *got = safetensors_find(file, key);
    const struct safetensor *want = safetensors_find(of_model, name);
    assert_non_null(got);
    assert_int_equal(file->count, 2); // weight and bias of a single layer
    assert_int_equal(got->dtype, DTYPE_F32);
    assert_int_equal(want->dtype, DTYPE_F32);
    assert_int_equal(got->bytes, want->bytes);
    assert_memory_equal(got->data, want->data, want->bytes);
    const long at = (long)(file->header + got->offset);
    safetensors_close(of_model);
    safetensors_close(file);
    FILE *other = fopen(path, "r+b");
    assert_int_equal(fseek(other, at, SEEK_SET), 0);
    fputs("\1\1\1\1", other);
    fclose(other);
    assert_null(adapter_read(small, m, &err));
    assert_non_null(strstr(err.text, "trained biases of routers are not supported"));
    free(path);
    free(key);
    free(small);
    free(out);
    scratch_remove(folder);
    free_deltas(&p);
    model_free(m);
}

// With bias "all", PEFT stores the biases of a fully saved module three times: under the
// module's name, inside its copy, and those of the base model.
static void biases_of_a_whole_module_are_read_once(void **state)
{
    static const char *const names[] = {
        "base_model.model.model.multi_modal_projector.linear_1.bias",
        "base_model.model.model.multi_modal_projector.modules_to_save.default.linear_1.bias",
        "base_model.model.model.multi_modal_projector.original_module.linear_1.bias",
        "base_model.model.model.multi_modal_projector.modules_to_save.default.linear_2.bias",
    };
    struct err err;
    float value[64] = { 3 };
    struct model *m = load(LLAVA);
    char *folder = scratch_new(), *path = xasprintf("%s/adapter_model.safetensors", folder);
    struct safetensors_writer *w = safetensors_writer_new(path);
    for (size_t i = 0; i < 4; i++)
        safetensors_writer_declare(w, names[i], DTYPE_F32, 1, (int64_t[]){ 64 });
    for (size_t i = 0; i < 4; i++)
        must(safetensors_writer_data(w, value, sizeof value, &err), &err);
    must(safetensors_writer_finish(w, &err), &err);
    scratch_text(folder, "adapter_config.json",
                 "{\"peft_type\": \"LORA\", \"modules_to_save\": [\"multi_modal_projector\"]}");
    struct adapter *a = read_folder(folder, m);
    assert_int_equal(a->count, 2);
    adapter_apply(a);
    float now[2];
    m->arena.backend->download(&now[0], m->projector.linear_1.bias.data, sizeof(float));
    m->arena.backend->download(&now[1], m->projector.linear_2.bias.data, sizeof(float));
    assert_true(now[0] == 3 && now[1] == 3);
    adapter_free(a);
    free(path);
    scratch_remove(folder);
    model_free(m);
}

// Expects a model whose tied head has become separate from the embedding to be neither written nor
// trained.
static void expect_head_refused(const struct adapter *a, const char *folder)
{
    struct err err;
    struct gguf_summary summary;
    struct whole_file *file;
    struct settings *s = settings_new();
    char *out = xasprintf("%s/refused", folder);
    assert_int_equal(adapter_save(a, "f32", out, &err), -1);
    assert_non_null(strstr(err.text, "copy the folder"));
    assert_int_equal(model_write(a->model, NULL, 0, out, NULL, &err), -1);
    assert_non_null(strstr(err.text, "trained separately"));
    assert_int_equal(model_write_gguf(a->model, "q8_0", out, NULL, &summary, &file, &err), -1);
    assert_non_null(strstr(err.text, "its own output head"));
    assert_int_equal(params_check(a->model, s, 1, &err), -1);
    assert_non_null(strstr(err.text, "tie to the embedding"));
    assert_int_equal(access(out, F_OK), -1);
    settings_free(s);
    free(out);
}

// The head of a tied model follows the embedding, and both are restored.
static void a_tied_head_follows_the_embedding(void **state)
{
    struct err err;
    struct deltas p = { 0 };
    struct model *m = load(LLAMA);
    assert_true(m->decoder.config.tied);
    struct logits before = logits_of(m);
    add_weight(&p, m, "embed_tokens.weight");
    char *folder = scratch_new(), *out = xasprintf("%s/out", folder);
    must(write_new(m, p.list, p.count, out, &err), &err);
    struct adapter *a = read_folder(out, m);
    assert_int_equal(a->count, 1); // the file's head, which PEFT needs, equals the embedding
    adapter_apply(a);
    assert_ptr_equal(m->decoder.head.data, m->decoder.embed.data);
    assert_memory_equal(m->decoder.head.data, p.tensor[0].data, tensor_bytes(&p.tensor[0]));
    adapter_remove(a);
    assert_ptr_equal(m->decoder.head.data, m->decoder.embed.data);
    expect_equal(logits_of(m), before, true);
    adapter_free(a);

    // In PEFT's own files the copy of the embedding is not the head.
    struct safetensors_writer *w;
    char *path = xasprintf("%s/adapter_model.safetensors", folder);
    w = safetensors_writer_new(path);
    safetensors_writer_declare(w, "base_model.model.model.embed_tokens.weight", DTYPE_F32, 2,
                               p.tensor[0].shape);
    must(safetensors_writer_data(w, p.tensor[0].data, tensor_bytes(&p.tensor[0]), &err), &err);
    must(safetensors_writer_finish(w, &err), &err);
    scratch_text(folder, "adapter_config.json",
                 "{\"peft_type\": \"LORA\", \"modules_to_save\": [\"embed_tokens\"]}");
    const void *base = m->decoder.head.data;
    a = read_folder(folder, m);
    adapter_apply(a);
    assert_ptr_equal(m->decoder.head.data, base);
    assert_ptr_not_equal(m->decoder.embed.data, base);
    expect_head_refused(a, folder);
    adapter_free(a);
    assert_ptr_equal(m->decoder.embed.data, base);
    free(path);
    free(out);
    free_deltas(&p);
    scratch_remove(folder);
    model_free(m);
}

// --- in a conversation ---------------------------------------------------------------------------

struct heard {
    struct ids ids;
    int64_t computed, prompt;
};

static void hear(void *self, const struct event *e)
{
    struct heard *h = self;
    if (e->kind != EVENT_ANSWER) return;
    ids_clear(&h->ids);
    ids_append(&h->ids, e->answer->ids, e->answer->count);
    h->computed = e->answer->computed_tokens;
    h->prompt = e->answer->prompt_tokens;
}

static void expect_ids(const struct heard *h, const char *key)
{
    struct err err;
    struct safetensors *golden = safetensors_open(GOLDEN, &err);
    const struct safetensor *want = safetensors_find(golden, key);
    assert_non_null(want);
    assert_int_equal(h->ids.count, 8);
    assert_memory_equal(h->ids.data, want->data, 8 * sizeof(int32_t));
    safetensors_close(golden);
}

static void switching_acts_at_once_and_failure_changes_nothing(void **state)
{
    struct err err;
    struct heard h = { 0 };
    struct sinks sinks = { 0 };
    sinks_add(&sinks, (struct sink){ .emit = hear, .self = &h });
    struct engine *e = engine_new(test_device(), &sinks);
    // Without a model the folder is remembered.
    must(engine_set(e, "adapter", NORMS, &err), &err);
    assert_int_equal(engine_set(e, "adapter", "tests/goldens/pictures", &err), -1);
    must(engine_load(e, LLAVA, &err), &err);
    assert_non_null(engine_adapters(e)->active);
    must(engine_set(e, "sample.max_tokens", "8", &err), &err);
    must(engine_set(e, "sample.ignore_eos", "on", &err), &err);
    must(engine_attach(e, SCENE, &err), &err);
    must(engine_ask(e, "What is in the picture?", &err), &err);
    expect_ids(&h, "adapter.ln_tuning.gen_ids");

    must(engine_set(e, "adapter", LORA, &err), &err);
    must(engine_regenerate(e, &err), &err);
    expect_ids(&h, "adapter.lora.gen_ids");
    assert_int_equal(h.computed, h.prompt);
    assert_int_equal(engine_set(e, "adapter", "no/such", &err), -1);
    assert_string_equal(settings_text(engine_settings(e), "adapter"), LORA);
    // Setting the adapter that is already in use computes nothing again.
    must(engine_set(e, "adapter", LORA, &err), &err);
    must(engine_regenerate(e, &err), &err);
    expect_ids(&h, "adapter.lora.gen_ids");
    assert_int_equal(h.computed, 1);

    must(engine_set(e, "adapter", "ln_tuning", &err), &err); // by its name
    must(engine_set(e, "adapter.scale", "0.25", &err), &err);
    must(engine_regenerate(e, &err), &err);
    expect_ids(&h, "adapter.ln_tuning.gen_ids");
    must(engine_reset(e, "adapter.scale", &err), &err);
    must(engine_adapter_load(e, LORA "/", &err), &err); // read again
    must(engine_regenerate(e, &err), &err);
    expect_ids(&h, "adapter.lora.gen_ids");
    assert_int_equal(engine_adapters(e)->count, 2);

    must(engine_adapter_unload(e, "ln_tuning", &err), &err);
    assert_int_equal(engine_adapter_unload(e, "ln_tuning", &err), -1);
    must(engine_set(e, "adapter", "", &err), &err);
    assert_int_equal(engine_adapter_unload(e, NULL, &err), -1);
    must(engine_regenerate(e, &err), &err);
    struct safetensors *golden = safetensors_open(GOLDEN, &err);
    const struct safetensor *plain = safetensors_find(golden, "gen.ids");
    if (plain) assert_memory_equal(h.ids.data, plain->data, 8 * sizeof(int32_t));
    safetensors_close(golden);

    // An adapter that does not fit a newly loaded model is removed.
    must(engine_set(e, "adapter", LORA, &err), &err);
    must(engine_load(e, LLAMA, &err), &err);
    assert_string_equal(settings_text(engine_settings(e), "adapter"), "none");
    assert_null(engine_adapters(e)->active);
    engine_free(e);
    ids_release(&h.ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lora_gives_the_logits_of_peft),
        cmocka_unit_test(ln_tuning_gives_the_logits_of_peft),
        cmocka_unit_test(lora_is_scaled),
        cmocka_unit_test(norms_are_those_of_the_product),
        cmocka_unit_test(a_high_rank_is_measured_quickly),
        cmocka_unit_test(older_spellings_are_the_same_adapter),
        cmocka_unit_test(written_adapters_are_read_back),
        cmocka_unit_test(a_router_keeps_its_bias),
        cmocka_unit_test(biases_of_a_whole_module_are_read_once),
        cmocka_unit_test(a_tied_head_follows_the_embedding),
        cmocka_unit_test(switching_acts_at_once_and_failure_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
