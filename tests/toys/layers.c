// tests/toys/layers.c -- a family with its own attention, FFN, norms, rotary positions and names,
// whose layers differ (family.c): passes, probes, gradients and adapters agree with naive loops,
// and it answers and trains like any other.
#include "core/base/dtype.h"
#include "core/base/random.h"
#include "core/engine/engine.h"
#include "core/model/flops.h"
#include "core/model/layer.h"
#include "core/probes/measure.h"
#include "core/train/forecast.h"
#include "tests/core/model/passes.h"
#include "tests/core/probes/probe.h"
#include "tests/core/train/sft.h"
#include "tests/toys/naive.h"
#include "tests/toys/toys.h"

enum { ROWS = 7 };

static const int32_t ids[ROWS] = { 3, 500, 41, 41, 7, 260, 99 };
static const int32_t target[ROWS] = { -1, -1, 41, 7, 260, 99, 12 };

// Opens the model in the scratch folder; fills t with its weights.
static struct model *open_toy(struct toy_tensor t[TOY_TENSORS])
{
    struct err err = { 0 };
    naive_open(t);
    naive_write(t, scratch, false);
    struct model *m = model_load(scratch, test_device(), NULL, &err);
    if (!m) fail_msg("%s", err.text);
    assert_string_equal(m->family->name, "toy");
    assert_int_equal(m->weights.count, TOY_TENSORS);
    return m;
}

static void near_to(const char *what, double got, double want, double room)
{
    if (!(fabs(got - want) <= room)) fail_msg("%s: %.9g, not %.9g", what, got, want);
}

// --- a pass --------------------------------------------------------------------------------------

// Computes rows up to `to` after the cached ones; compares their logits with the naive ones.
static void check_pass(const struct model *m, struct kv *kv, int64_t to, const double *naive)
{
    const int64_t past = kv->layer[0].rows;
    float *got = pass_logits(m, kv, ids, to, NULL);
    for (int64_t i = 0; i < (to - past) * TOY_WORDS; i++)
        near_to("logit", got[i], naive[past * TOY_WORDS + i], 2e-5);
    free(got);
}

// Layer 1 caches nothing and computes no attention, so batches are impossible; layer 0 alone allows
// them.
static void check_cache(const struct model *m, const struct kv *kv)
{
    const struct decoder_config *c = &m->decoder.config;
    const uint64_t row = 2 * TOY_KV_HEADS * TOY_DIM * sizeof(float);
    assert_int_equal(kv_row_bytes(kv, 0), row);
    assert_int_equal(kv_row_bytes(kv, 1), 0);
    assert_int_equal(kv_bytes(kv), (uint64_t)kv->layer[0].k.shape[0] * row);
    assert_true(flops_key_bytes(c, 0, DTYPE_F32) == (double)row);
    assert_true(flops_key_bytes(c, 1, DTYPE_F32) == 0 && flops_attention(c, 1, 9) == 0);
    assert_false(decoder_traits(c).segments); // all layers must allow batches
    struct decoder_config first = *c;
    first.layers = 1;
    assert_true(decoder_traits(&first).segments);
}

static void passes_equal_naive_loops(void **state)
{
    struct toy_tensor t[TOY_TENSORS];
    struct model *m = open_toy(t);
    struct kv kv;
    double *naive = xcalloc(ROWS * TOY_WORDS, sizeof *naive);
    naive_logits(t, ids, ROWS, naive);
    decoder_cache(&m->decoder, test_device(), &kv);
    check_pass(m, &kv, 4, naive);
    check_cache(m, &kv);
    for (int64_t to = 5; to <= ROWS; to++) check_pass(m, &kv, to, naive);
    kv_trim(&kv, 0);
    check_pass(m, &kv, ROWS, naive);
    kv_release(&kv);
    free(naive);
    model_free(m);
    naive_close(t);
}

// --- knockout ------------------------------------------------------------------------------------

// Sums the log-probabilities of the tokens after the first `prompt` of all[n].
static double answer_logp(const struct toy_tensor t[TOY_TENSORS], const struct naive_cut *cut,
                          const int32_t *all, int64_t prompt, int64_t n)
{
    double *logits = xcalloc((size_t)(n * TOY_WORDS), sizeof *logits), sum = 0;
    naive_cut_logits(t, cut, all, n, logits);
    for (int64_t i = prompt; i < n; i++) {
        double total = 0;
        for (int x = 0; x < TOY_WORDS; x++) total += exp(logits[(i - 1) * TOY_WORDS + x]);
        sum += logits[(i - 1) * TOY_WORDS + all[i]] - log(total);
    }
    free(logits);
    return sum;
}

// Opens an engine with the toy and generates an answer of `tokens` tokens; *all: ids, then the
// answer.
static void open_answered(struct golden *g, struct toy_tensor t[TOY_TENSORS], const char *tokens,
                          int32_t *all)
{
    struct err err = { 0 };
    model_free(open_toy(t));
    golden_open(g, "llama-3.2");
    must(engine_load(g->engine, scratch, &err), &err);
    must(engine_set(g->engine, "sample.max_tokens", tokens, &err), &err);
    must(engine_raw(g->engine, ids, ROWS, &err), &err);
    assert_int_equal(g->answer.count, atoi(tokens));
    memcpy(all, ids, ROWS * sizeof *ids);
    memcpy(all + ROWS, g->answer.data, g->answer.count * sizeof *all);
}

// Cuts in all heads, and in each. Layer 1 has no attention.
static void knockout_equals_naive_loops(void **state)
{
    enum { N = ROWS + 3 };
    static const char *const words[] = { "1-3 > 5-8", "0-9>all", "2,4 > last,answer", "0 > 9" };
    struct toy_tensor t[TOY_TENSORS];
    struct golden g;
    int32_t all[N];
    open_answered(&g, t, "3", all);
    for (size_t k = 0; k < sizeof words / sizeof *words; k++) {
        bool from[N] = { 0 }, to[N] = { 0 };
        for (int i = 0; i < N; i++) {
            from[i] = k == 0 ? i >= 1 && i <= 3 : k == 1 ? true : k == 2 ? i == 2 || i == 4 : !i;
            to[i] = k == 0 ? i >= 5 && i <= 8 : k == 1 ? true : k == 2 ? i >= ROWS - 1 : i == 9;
        }
        struct results r = { 0 };
        struct probe_options o = probe_defaults;
        o.words = words[k];
        o.heads = true;
        run_probe(&g, &probe_knockout, &o, &r);
        const double before = answer_logp(t, NULL, all, ROWS, N);
        near_to("before", *results_value(&r, "knockout", "the answer", "log-probability"), before,
                1e-5);
        for (int head = -1; head < TOY_HEADS; head++) {
            const struct naive_cut cut = { .from = from, .to = to, .head = head };
            const double want = answer_logp(t, &cut, all, ROWS, N) - before;
            near_to(words[k],
                    head < 0 ? *results_value(&r, "knockout", "change", "log-probability")
                             : -(double)r.maps[0].values[head],
                    want, 1e-5);
            assert_true(head < 0 || r.maps[0].values[TOY_HEADS + head] == 0);
        }
        bool said = false; // that layer 1 has no attention
        for (size_t i = 0; i < r.note_count; i++) said |= strstr(r.notes[i], "state): 1") != NULL;
        assert_true(said);
        results_release(&r);
    }
    golden_close(&g);
    naive_close(t);
}

// --- ablation ------------------------------------------------------------------------------------

static void ablation_equals_naive_loops(void **state)
{
    enum { N = ROWS + 2 };
    static const struct {
        const char *words, *table;
        enum naive_part part;
        int count; // of parts
        bool mean;
    } cases[] = {
        { "heads", "ablate.heads", NAIVE_HEAD, TOY_HEADS, false }, // layer 1 has none
        { "ffn", "ablate.ffn", NAIVE_FFN, 2, false },
        { "layers", "ablate.layers", NAIVE_LAYER, 2, false },
        { "ffn", "ablate.ffn", NAIVE_FFN, 2, true },
        { "layers all", "ablate.layers", NAIVE_LAYER, 2, true },
    };
    struct toy_tensor t[TOY_TENSORS];
    struct golden g;
    int32_t all[N];
    open_answered(&g, t, "2", all);
    const double before = answer_logp(t, NULL, all, ROWS, N);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct results r = { 0 };
        struct probe_options o = probe_defaults;
        o.words = cases[k].words;
        o.mean = cases[k].mean;
        run_probe(&g, &probe_ablate, &o, &r);
        const struct result_table *table = results_find(&r, cases[k].table);
        assert_int_equal(table->row_count, cases[k].count);
        for (int i = 0; i < cases[k].count; i++) {
            const bool heads = cases[k].part == NAIVE_HEAD;
            const int layer = heads ? i / TOY_HEADS : i;
            struct naive_cut cut = { .part = cases[k].part,
                                     .layer = layer,
                                     .head = heads ? i % TOY_HEADS : -1,
                                     .mean = cases[k].mean };
            char key[16];
            snprintf(key, sizeof key, heads ? "%d.%d" : "%d", layer, cut.head);
            near_to(key, *results_value(&r, cases[k].table, key, "change"),
                    answer_logp(t, &cut, all, ROWS, N) - before, 1e-5);
            assert_true(!i || table->rows[i - 1].value[0] <= table->rows[i].value[0]);
        }
        results_release(&r);
    }
    golden_close(&g);
    naive_close(t);
}

// --- lens ----------------------------------------------------------------------------------------

static void lens_equals_naive_loops(void **state)
{
    struct toy_tensor t[TOY_TENSORS];
    struct err err = { 0 };
    struct golden g;
    double *logits = xcalloc(ROWS * TOY_WORDS, sizeof *logits);
    model_free(open_toy(t));
    golden_open(&g, "llama-3.2");
    must(engine_load(g.engine, scratch, &err), &err);
    must(engine_set(g.engine, "sample.max_tokens", "1", &err), &err);
    must(engine_raw(g.engine, ids, ROWS, &err), &err);
    struct results r = { 0 };
    struct probe_options o = probe_defaults;
    o.words = "0-5";
    run_probe(&g, &probe_lens, &o, &r);
    const struct result_table *each = results_find(&r, "lens.words");
    assert_int_equal(each->row_count, 6 * TOY_LAYERS);
    for (int l = 0; l < TOY_LAYERS; l++) {
        naive_cut_logits(t, &(struct naive_cut){ .layers = l + 1 }, ids, ROWS, logits);
        for (int i = 0; i < 6; i++) {
            const double *x = logits + (ptrdiff_t)i * TOY_WORDS, *v = each->rows[l * 6 + i].value;
            double sum = 0, entropy = 0, most = 0, rank = 1;
            for (int k = 0; k < TOY_WORDS; k++) sum += exp(x[k]);
            for (int k = 0; k < TOY_WORDS; k++) {
                const double p = exp(x[k]) / sum;
                entropy -= p * log(p);
                most = fmax(most, p);
                rank += x[k] > x[ids[i + 1]];
            }
            near_to("best", v[0], most, 1e-5);
            near_to("entropy", v[1], entropy, 1e-5);
            near_to("target", v[2], exp(x[ids[i + 1]]) / sum, 1e-5);
            near_to("rank", v[3], rank, 0);
        }
    }
    results_release(&r);
    golden_close(&g);
    naive_close(t);
    free(logits);
}

// --- gradients -----------------------------------------------------------------------------------

static void check_gradient(struct toy_tensor t[TOY_TENSORS], int which, const struct grad *d)
{
    enum { TRIED = 6 };
    const double step = 1e-5;
    struct toy_tensor *one = &t[which];
    for (int k = 0; k < TRIED; k++) {
        // Checks a row of the embedding table that is read.
        int64_t i = (int64_t)(random_bits(which + 1, RANDOM_WEIGHTS, (uint64_t)k) %
                              (uint64_t)(one->rows * one->columns));
        if (!strcmp(one->name, "model.words.weight")) i = ids[k] * TOY_WIDTH + k;
        const double was = one->data[i];
        one->data[i] = was + step;
        double slope = naive_loss(t, ids, target, ROWS);
        one->data[i] = was - step;
        slope = (slope - naive_loss(t, ids, target, ROWS)) / (2 * step);
        one->data[i] = was;
        near_to(one->name, d->data[i], slope, 1e-5 + 1e-4 * fabs(slope));
    }
}

static void gradients_equal_differences_of_naive_losses(void **state)
{
    struct toy_tensor t[TOY_TENSORS];
    struct model *m = open_toy(t);
    struct grad *d[TOY_TENSORS];
    for (int i = 0; i < TOY_TENSORS; i++) {
        const int64_t count = t[i].rows * t[i].columns;
        const struct weight *w = weights_find(&m->weights, t[i].name);
        if (!w) fail_msg("no weight is called %s", t[i].name);
        w->tensor->grad = d[i] = grad_new(test_device(), count);
    }
    near_to("loss", pass_loss(m, ids, target, ROWS, false), naive_loss(t, ids, target, ROWS), 1e-5);
    for (int i = 0; i < TOY_TENSORS; i++) check_gradient(t, i, d[i]);
    // Layers that are computed again give the same bits.
    float *first[TOY_TENSORS];
    for (int i = 0; i < TOY_TENSORS; i++) {
        const size_t bytes = (size_t)d[i]->count * sizeof(float);
        first[i] = memcpy(xmalloc(bytes), d[i]->data, bytes);
        memset(d[i]->data, 0, bytes);
    }
    pass_loss(m, ids, target, ROWS, true);
    for (int i = 0; i < TOY_TENSORS; i++) {
        assert_memory_equal(d[i]->data, first[i], (size_t)d[i]->count * sizeof(float));
        free(first[i]);
    }
    for (int i = 0; i < TOY_TENSORS; i++) grad_free(test_device(), d[i]);
    model_free(m);
    naive_close(t);
}

// --- the program ---------------------------------------------------------------------------------

// A conversation of one turn with the toy.
static void talk(struct golden *g, int tokens)
{
    struct err err = { 0 };
    char count[16];
    snprintf(count, sizeof count, "%d", tokens);
    must(engine_load(g->engine, scratch, &err), &err);
    must(engine_set(g->engine, "sample.max_tokens", count, &err), &err);
    say(g, chat_named(g, "text_only"));
    must(engine_answer(g->engine, &err), &err);
    assert_int_equal(g->answer.count, tokens);
}

static double cell(const struct results *r, const char *row, const char *column)
{
    const double *v = results_value(r, "flops", row, column);
    if (!v) fail_msg("no %s of %s", column, row);
    return *v * 1e9;
}

static void it_talks_and_its_cost_is_counted(void **state)
{
    struct toy_tensor t[TOY_TENSORS];
    struct golden g;
    struct results r = { 0 };
    struct sequence s = { 0 };
    struct err err = { 0 };
    model_free(open_toy(t));
    naive_close(t);
    golden_open(&g, "llama-3.2");
    talk(&g, 5);
    must(measure_sequence(golden_conversation(&g), engine_settings(g.engine), &s, &err), &err);
    const double n = (double)s.prompt, q = TOY_HEADS * TOY_DIM, kv = TOY_KV_HEADS * TOY_DIM;
    run_probe(&g, &probe_flops, NULL, &r);
    near_to("projections", cell(&r, "projections", "prompt, full"),
            n * 2 * TOY_WIDTH * (2 * q + kv + 3 * q), 1);
    near_to("attention", cell(&r, "attention", "prompt, full"), n * (n + 1) / 2 * 4 * q, 1);
    for (int i = 0; i < 3; i++) {
        static const char *const parts[] = { "projections", "attention", "FFN" };
        near_to(parts[i], cell(&r, parts[i], "prompt, now"), cell(&r, parts[i], "prompt, full"), 1);
    }
    near_to("FFN", cell(&r, "FFN", "prompt, full"), TOY_LAYERS * n * 4 * TOY_WIDTH * TOY_FFN, 1);
    results_release(&r);
    sequence_release(&s);
    golden_close(&g);
}

// --- training ------------------------------------------------------------------------------------

// Methods select weights by their roles, whatever their names in the files.
static void methods_find_their_weights(void **state)
{
    enum { TABLES = 2 * TOY_WORDS * TOY_WIDTH };
    static const struct {
        const char *method;
        int64_t numbers;
    } methods[] = {
        { "qv", TABLES + TOY_WIDTH * (TOY_HEADS + TOY_KV_HEADS + 2 * TOY_HEADS) * TOY_DIM },
        { "mlp", TABLES + TOY_LAYERS * (2 * TOY_WIDTH + 1) * TOY_FFN },
        { "layernorm-simple",
          TOY_LAYERS * TOY_WIDTH }, // the norm after the FFN is not one of Llama's
    };
    struct toy_tensor t[TOY_TENSORS];
    struct model *m = open_toy(t);
    struct settings *s = settings_new();
    struct err err = { 0 };
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        struct forecast f;
        must(settings_set(s, "train.method", methods[i].method, &err), &err);
        must(forecast_model(&f, m, s, 32, &err), &err);
        assert_int_equal(f.count[MODEL_PARTS].trained, methods[i].numbers);
        assert_true(memory_own(&f.parts) > 0);
    }
    settings_free(s);
    model_free(m);
    naive_close(t);
}

static void has_tensor(const char *folder, const char *name)
{
    struct err err = { 0 };
    char *path = xasprintf("%s/adapter_model.safetensors", folder);
    struct safetensors *f = safetensors_open(path, &err);
    if (!f) fail_msg("%s", err.text);
    if (!safetensors_find(f, name)) fail_msg("%s has no %s", path, name);
    safetensors_close(f);
    free(path);
}

// --- adapters ------------------------------------------------------------------------------------

static const struct safetensor *part_of(const struct safetensors *f, const struct toy_tensor *t,
                                        const char *end)
{
    char name[160];
    const size_t plain = strlen(t->name) - strlen(".weight");
    snprintf(name, sizeof name, "base_model.model.%.*s%s", (int)plain, t->name, end);
    return safetensors_find(f, name);
}

static double number(const struct safetensor *t, int64_t i)
{
    float values[1];
    floats_from(values, (const char *)t->data + (size_t)i * dtype_size((enum dtype)t->dtype),
                (enum dtype)t->dtype, 1);
    return (double)values[0];
}

// W += scale B A
static void add_lora(struct toy_tensor *t, const struct safetensor *a, const struct safetensor *b,
                     double scale)
{
    const int64_t rank = a->shape[0];
    for (int64_t i = 0; i < t->rows * t->columns; i++)
        for (int64_t r = 0; r < rank; r++)
            t->data[i] += scale * number(b, i / t->columns * rank + r) *
                          number(a, r * t->columns + i % t->columns);
}

// Applies the folder's adapter to the tensors; returns how many it changes.
static int merge(struct toy_tensor t[TOY_TENSORS], const char *folder)
{
    struct err err = { 0 };
    char *path = xasprintf("%s/adapter_model.safetensors", folder);
    char *config = xasprintf("%s/adapter_config.json", folder);
    struct safetensors *f = safetensors_open(path, &err);
    cJSON *json = json_read(config, 1 << 20, &err);
    if (!f || !json) fail_msg("%s", err.text);
    const cJSON *r = json_get(json, "r"), *alpha = json_get(json, "lora_alpha");
    int changed = 0;
    for (int i = 0; i < TOY_TENSORS; i++) {
        const struct safetensor *whole = part_of(f, &t[i], ".weight");
        const struct safetensor *a = part_of(f, &t[i], ".lora_A.weight");
        if (!whole) whole = part_of(f, &t[i], ".ln_tuning_layers.weight");
        for (int64_t k = 0; whole && k < t[i].rows * t[i].columns; k++)
            t[i].data[k] = number(whole, k);
        if (a)
            add_lora(&t[i], a, part_of(f, &t[i], ".lora_B.weight"),
                     alpha->valuedouble / r->valuedouble);
        changed += a || whole;
    }
    assert_int_equal(f->count, changed * (r ? 2 : 1));
    cJSON_Delete(json);
    safetensors_close(f);
    free(path);
    free(config);
    return changed;
}

// Compares the logits of the last answer with naive ones; returns how far they are from those of
// the tensors `before`.
static double check_answer(struct golden *g, const struct toy_tensor t[TOY_TENSORS],
                           const struct toy_tensor before[TOY_TENSORS])
{
    struct err err = { 0 };
    struct safetensors *f = safetensors_open(g->dump, &err);
    if (!f) fail_msg("%s", err.text);
    const struct safetensor *prompt = safetensors_find(f, "ids");
    const struct safetensor *steps = safetensors_find(f, "step.logits");
    const int64_t n = (int64_t)(prompt->bytes / 4), count = steps->shape[0];
    assert_int_equal(count, g->answer.count);
    struct ids all = { 0 };
    ids_append(&all, prompt->data, (size_t)n);
    ids_append(&all, g->answer.data, g->answer.count);
    double *want = xcalloc((size_t)((n + count) * TOY_WORDS), sizeof *want), far = 0;
    double *old = xcalloc((size_t)((n + count) * TOY_WORDS), sizeof *old);
    naive_logits(t, all.data, n + count, want);
    naive_logits(before, all.data, n + count, old);
    for (int64_t i = 0; i < count * TOY_WORDS; i++) {
        const int64_t at = (n - 1) * TOY_WORDS + i;
        near_to("logit of the answer", (double)((const float *)steps->data)[i], want[at], 1e-4);
        far = fmax(far, fabs(want[at] - old[at]));
    }
    free(want);
    free(old);
    ids_release(&all);
    safetensors_close(f);
    return far;
}

// Trains an adapter by these rules and expects the tensor `written` in it; the model in the scratch
// folder loads it and computes the logits of the merged weights.
static void adapts(struct golden *g, const struct toy_tensor before[TOY_TENSORS], const char *rules,
                   const char *written)
{
    const char *const settings[] = { rules, "train.lr=1e-2", "train.warmup=0", "train.steps=3",
                                     NULL };
    struct trial trial = { 0 };
    struct err err = { 0 };
    char *data = xasprintf("%s/data.json", scratch), *out = xasprintf("%s/out", scratch);
    if (trial_run(&trial, scratch, data, out, false, settings) != 0)
        fail_msg("%s: %s", rules, trial.err.text);
    trial_release(&trial);
    has_tensor(out, written);
    must(engine_adapter_load(g->engine, out, &err), &err);
    must(engine_dump(g->engine, "ids step.logits", g->dump, &err), &err);
    must(engine_regenerate(g->engine, &err), &err);
    struct toy_tensor t[TOY_TENSORS];
    naive_open(t);
    assert_true(merge(t, out) > 0);
    if (!(check_answer(g, t, before) > 1e-3)) fail_msg("%s: the adapter changes nothing", rules);
    naive_close(t);
    must(engine_adapter_unload(g->engine, NULL, &err), &err);
    scratch_remove(out);
    free(data);
}

static void its_adapters_are_written_and_read(void **state)
{
    struct toy_tensor t[TOY_TENSORS];
    struct golden g;
    model_free(open_toy(t));
    scratch_text(scratch, "data.json",
                 "[{\"id\": \"a\", \"conversations\": [{\"from\": \"human\", \"value\": \"What is "
                 "it?\"}, {\"from\": \"gpt\", \"value\": \"A toy.\"}]}]");
    golden_open(&g, "llama-3.2");
    talk(&g, 3);
    adapts(&g, t, "train.params=lora:*", "base_model.model.model.blocks.1.think.out.lora_A.weight");
    adapts(&g, t, "train.params=lora:ask,v_proj",
           "base_model.model.model.blocks.1.mix.memory.lora_B.weight");
    adapts(&g, t, "train.params=*layernorm*; speak.weight", "base_model.model.speak.weight");
    golden_close(&g);
    // A head that is the embedding is trained with the embedding, and written under its own name.
    naive_write(t, scratch, true);
    golden_open(&g, "llama-3.2");
    talk(&g, 3);
    adapts(&g, t, "train.params=words.weight", "base_model.model.speak.weight");
    golden_close(&g);
    naive_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_SCRATCH(passes_equal_naive_loops),
        IN_SCRATCH(knockout_equals_naive_loops),
        IN_SCRATCH(ablation_equals_naive_loops),
        IN_SCRATCH(lens_equals_naive_loops),
        IN_SCRATCH(gradients_equal_differences_of_naive_losses),
        IN_SCRATCH(it_talks_and_its_cost_is_counted),
        IN_SCRATCH(methods_find_their_weights),
        IN_SCRATCH(its_adapters_are_written_and_read),
    };
    toys_register();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
