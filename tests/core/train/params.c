// tests/core/train/params.c -- core/train/select.c and params.c: which weights are trained, how
// many on published shapes (Table 2 of the paper on LayerNorm tuning), LoRA's start and
// continuation, table rows without gradients, and that the model is restored afterwards.
#include "tests/core/train/sft.h"

#include "core/adapter/adapter.h"
#include "core/adapter/adapters.h"
#include "core/eval/loss.h"
#include "core/graph/tape.h"
#include "core/new/shapes.h"
#include "core/train/optimizer.h"
#include "core/train/select.h"
#include "tests/device.h"

// --- shares --------------------------------------------------------------------------------------

struct listing {
    struct select_item *items;
    size_t count;
};

static void list_one(void *self, const struct shape_tensor *t)
{
    struct listing *l = self;
    l->items = xreallocarray(l->items, l->count + 1, sizeof *l->items);
    struct select_item *item = &l->items[l->count++];
    const bool norm = strstr(t->name, "norm") || strstr(t->name, "embed");
    *item = (struct select_item){ .name = xstrdup(t->name), .part = t->part, .rank = t->rank };
    item->linear = t->rank == 2 && !norm && t->part != PART_HEAD && t->part != PART_EMBEDDING;
    memcpy(item->shape, t->size, sizeof item->shape);
}

static void release_listing(struct listing *l)
{
    for (size_t i = 0; i < l->count; i++) free((char *)l->items[i].name);
    free(l->items);
}

static double share(const char *shape, const char *method, int64_t rank)
{
    struct err err;
    struct listing l = { 0 };
    struct selection s;
    shape_tensors(shape_find(shape, &err), list_one, &l);
    const struct select_lora lora = { .rank = rank, .alpha = 2 * (double)rank };
    if (select_method(&s, method, &lora, l.items, l.count, &err) < 0) fail_msg("%s", err.text);
    const double percent =
        100 * (double)s.parameters[MODEL_PARTS].trained / (double)s.parameters[MODEL_PARTS].total;
    selection_release(&s);
    release_listing(&l);
    return percent;
}

static void test_shares(void **state)
{
    (void)state;
    static const struct {
        const char *method;
        int64_t rank;
        double small, large, rounding; // percent of the parameters of 7B, 13B
    } want[] = {
        { "all", 1, 100, 100, 0 },
        { "full", 1, 95.7, 97.7, 0.05 },
        { "lora", 64, 5.915, 4.297, 0.0005 },
        { "qv", 1, 19.0, 18.2, 0.05 },
        { "mlp", 1, 65.2, 66.2, 0.05 },
        { "layernorm", 1, 3.8, 2.5, 0.05 },
        { "layernorm-simple", 1, 0.004, 0.003, 0.0005 },
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const double small = share("mm-llama2-7b", want[i].method, want[i].rank);
        const double large = share("mm-llama2-13b", want[i].method, want[i].rank);
        if (!(fabs(small - want[i].small) <= want[i].rounding))
            fail_msg("%s of 7B: %.5f%%", want[i].method, small);
        if (!(fabs(large - want[i].large) <= want[i].rounding))
            fail_msg("%s of 13B: %.5f%%", want[i].method, large);
    }
    // The projector is LLaVA-1.5's, of two layers (the 64 vocabulary rows beyond Llama-2's add
    // 0.007).
    assert_float_equal(share("llava-1.5-7b", "layernorm", 1), 4.01, 0.01);
    assert_float_equal(share("llava-1.5-7b", "qv", 1), 19.21, 0.01);
}

// --- rules ---------------------------------------------------------------------------------------

static struct select_item item(const char *name, enum model_part_kind part, int64_t a, int64_t b)
{
    return (struct select_item){ .name = name,
                                 .part = part,
                                 .rank = b ? 2 : 1,
                                 .shape = { a, b },
                                 .linear = b > 0 && part != PART_EMBEDDING };
}

enum { EMBED, NORM, Q, K, V, QBIAS, FINAL, PATCH, VQ, PROJECT, ALIGN, IRA, ITEMS };

static void fill_items(struct select_item items[ITEMS])
{
    items[EMBED] = item("language_model.model.embed_tokens.weight", PART_EMBEDDING, 10, 4);
    items[NORM] = item("language_model.model.layers.0.input_layernorm.weight", PART_DECODER, 4, 0);
    items[Q] = item("language_model.model.layers.0.self_attn.q_proj.weight", PART_DECODER, 4, 4);
    items[K] = item("language_model.model.layers.0.self_attn.k_proj.weight", PART_DECODER, 2, 4);
    items[V] = item("language_model.model.layers.0.self_attn.v_proj.weight", PART_DECODER, 2, 4);
    items[QBIAS] = item("language_model.model.layers.0.self_attn.q_proj.bias", PART_DECODER, 4, 0);
    items[FINAL] = item("language_model.model.norm.weight", PART_DECODER, 4, 0);
    items[PATCH] =
        item("vision_tower.vision_model.embeddings.patch_embedding.weight", PART_VISION, 3, 12);
    items[VQ] = item("vision_tower.vision_model.encoder.layers.0.self_attn.q_proj.weight",
                     PART_VISION, 3, 3);
    items[PROJECT] = item("multi_modal_projector.linear_1.weight", PART_PROJECTOR, 4, 3);
    items[ALIGN] = item("norm_align.weight", PART_PROJECTOR, 4, 0);
    items[ALIGN].extra = items[ALIGN].with_part = true;
    items[IRA] = item("ira.0.head.weight", PART_DECODER, 3, 2);
    items[IRA].extra = true;
    items[IRA].linear = false;
}

// `trained`, `lora`: bits of the items that the rules train and that get a LoRA of `rank`; alpha is
// 3 * rank.
static void check_rules(const char *rules, unsigned trained, unsigned lora, int64_t rank)
{
    struct select_item items[ITEMS];
    struct selection s;
    struct err err;
    const struct select_lora defaults = { .rank = 32, .alpha = 96 };
    fill_items(items);
    if (select_spelled(&s, rules, &defaults, items, ITEMS, &err) < 0) fail_msg("%s", err.text);
    for (int i = 0; i < ITEMS; i++) {
        if (s.item[i].trained != (trained >> i & 1) || s.item[i].rank != (lora >> i & 1 ? rank : 0))
            fail_msg("%s: %s is trained %d, rank %lld", rules, items[i].name, s.item[i].trained,
                     (long long)s.item[i].rank);
        if (s.item[i].rank) assert_float_equal(s.item[i].alpha, 3.0 * (double)rank, 1e-9);
    }
    selection_release(&s);
}

#define B(x) (1u << (x))

static void test_rules(void **state)
{
    (void)state;
    check_rules("*layernorm*", B(NORM), 0, 0);
    // A name without a prefix does not match the encoder's weights.
    check_rules("layers.*.q_proj.*", B(Q) | B(QBIAS), 0, 0);
    check_rules("*.q_proj.weight", B(Q) | B(VQ), 0, 0);
    check_rules("@decoder:*.q_proj.*", B(Q) | B(QBIAS), 0, 0);
    check_rules(" @embedding , norm.weight;", B(EMBED) | B(FINAL), 0, 0);
    check_rules("@projector", B(PROJECT) | B(ALIGN), 0, 0);
    check_rules("norm_align.*", B(ALIGN), 0, 0);
    check_rules("lora:q_proj,v_proj:8; *layernorm*; norm_align.*", B(NORM) | B(ALIGN), B(Q) | B(V),
                8);
    check_rules("lora:q_proj,v_proj:8, *layernorm*", B(NORM), B(Q) | B(V), 8);
    check_rules("lora:q_proj,v_proj", 0, B(Q) | B(V), 32);
    check_rules("lora:*:4", 0, B(Q) | B(K) | B(V), 4);
    check_rules("lora:*.q_proj:2", 0, B(Q) | B(VQ), 2);
    check_rules("lora:@decoder:4; @projector", B(PROJECT) | B(ALIGN), B(Q) | B(K) | B(V), 4);
    check_rules("lora:q_proj,@projector:4", 0, B(Q) | B(PROJECT), 4);
    check_rules("@all", (B(ITEMS) - 1) & ~B(IRA), 0, 0);
    check_rules("@vision;ira.*", B(PATCH) | B(VQ) | B(IRA), 0, 0);
}

static void refused(const char *rules, const char *why)
{
    struct select_item items[ITEMS];
    struct selection s;
    struct err err;
    const struct select_lora defaults = { .rank = 32, .alpha = 64 };
    fill_items(items);
    assert_int_equal(select_spelled(&s, rules, &defaults, items, ITEMS, &err), -1);
    if (!strstr(err.text, why)) fail_msg("'%s' does not say '%s'", err.text, why);
}

static void test_rules_refused(void **state)
{
    (void)state;
    refused("*.q_prj.weight", "q_proj.weight");
    refused("input_layernorm", "input_layernorm");
    refused("lora:q_porj:8", "self_attn.q_proj");
    refused("lora:q_proj:0", "the rank");
    refused("lora:q_proj:8x", "the rank");
    refused("lora:", "names no layer");
    refused("@eyes", "@vision");
    refused("lora:@eyes:8", "@vision");
    refused("lora:@embedding:8", "matches no weight");
    refused("@decoder:*.linear_1.*", "matches no weight");
    refused(" ; , ", "trains nothing");
    refused("lora:q_proj; *.q_proj.weight", "and be trained in full: choose one");
    refused("@decoder;@embedding;@head;lora:@vision:8", "holds no LoRA: choose one");
    struct selection s;
    struct err err;
    struct select_item items[ITEMS];
    const struct select_lora defaults = { .rank = 32, .alpha = 64 };
    fill_items(items);
    assert_int_equal(select_method(&s, "head", &defaults, items, ITEMS, &err), -1);
}

// --- masters -------------------------------------------------------------------------------------

static const char *const models[] = { GOLDEN, "tests/goldens/llava-siglip-llama3",
                                      "tests/goldens/internvl3", "tests/goldens/internvl3.5" };

static struct settings *with(const char *key, const char *value)
{
    struct err err;
    struct settings *s = settings_new();
    if (settings_set(s, key, value, &err) < 0) fail_msg("%s", err.text);
    return s;
}

static void check_toggle(const char *folder, const char *key, const char *value)
{
    struct err err;
    struct model *m = model_load(folder, test_device(), NULL, &err);
    if (!m) fail_msg("%s", err.text);
    struct settings *s = with(key, value);
    struct tensor *before = xcalloc(m->weights.count, sizeof *before);
    for (size_t i = 0; i < m->weights.count; i++) before[i] = *m->weights.list[i].tensor;
    const struct tensor head = m->decoder.head;
    struct params p = { .backend = test_device() };
    if (params_open(&p, m, s, &err) < 0) fail_msg("%s", err.text);
    int64_t numbers = 0;
    for (size_t i = 0; i < p.count; i++) {
        struct param *one = &p.list[i];
        numbers += one->count;
        assert_int_equal(one->tensor->dtype, DTYPE_F32);
        assert_ptr_equal(one->tensor->grad, one->grad);
        assert_ptr_equal(params_find(&p, one->name), one);
        if (one->kind == PARAM_WEIGHT) assert_ptr_not_equal(one->tensor->data, one->stored.data);
        ((float *)one->tensor->data)[0] += 1;
    }
    assert_int_equal(numbers, p.counted[MODEL_PARTS].trained);
    params_release(&p);
    for (size_t i = 0; i < m->weights.count; i++) {
        assert_memory_equal(&before[i], m->weights.list[i].tensor, sizeof *before);
        if (m->weights.list[i].linear) assert_null(m->weights.list[i].linear->lora);
    }
    assert_memory_equal(&head, &m->decoder.head, sizeof head);
    free(before);
    settings_free(s);
    model_free(m);
}

static void test_toggle(void **state)
{
    (void)state;
    const char *method;
    for (size_t k = 0; k < sizeof models / sizeof *models; k++) {
        for (int i = 0; (method = select_method_name(i)); i++)
            check_toggle(models[k], "train.method", method);
        check_toggle(models[k], "train.params", "lora:q_proj,down_proj:3; *layernorm*");
    }
}

static int allocations_left;

static void *scarce(size_t size)
{
    return allocations_left-- > 0 ? test_device()->alloc(size) : NULL;
}

// Whichever allocation fails, the model is as before.
static void test_out_of_memory(void **state)
{
    (void)state;
    struct err err;
    struct backend backend = *test_device();
    struct model *m = model_load(GOLDEN, test_device(), NULL, &err);
    struct settings *s = with("train.params", "lora:v_proj:2; norm.weight");
    if (!m) fail_msg("%s", err.text);
    struct tensor *before = xcalloc(m->weights.count, sizeof *before);
    for (size_t i = 0; i < m->weights.count; i++) before[i] = *m->weights.list[i].tensor;
    backend.alloc = scarce;
    int status = -1;
    for (int most = 0; status < 0; most++) {
        struct params p = { .backend = &backend };
        allocations_left = most;
        status = params_open(&p, m, s, &err);
        if (status < 0) assert_non_null(strstr(err.text, "out of memory: training '"));
        params_release(&p);
        for (size_t i = 0; i < m->weights.count; i++) {
            assert_memory_equal(&before[i], m->weights.list[i].tensor, sizeof *before);
            if (m->weights.list[i].linear) assert_null(m->weights.list[i].linear->lora);
        }
    }
    free(before);
    settings_free(s);
    model_free(m);
}

static int64_t trained(struct model *m, const char *key, const char *value)
{
    struct err err;
    struct settings *s = with(key, value);
    struct params p = { .backend = test_device() };
    if (params_open(&p, m, s, &err) < 0) fail_msg("%s", err.text);
    const int64_t count = p.counted[MODEL_PARTS].trained;
    params_release(&p);
    settings_free(s);
    return count;
}

// Numbers of trained weights of golden models, counted by names in their files. "full" is
// everything but the encoder, so it includes the newline embedding. Norms are those before
// attention and FFN, but neither GLM's norms after them nor those inside of attention (Qwen3, MLA).
static void test_sets_of_each_family(void **state)
{
    static const struct {
        const char *folder;
        int64_t simple, layernorm, qv, mlp, full;
    } rows[] = {
        { "llava-1.5", 512, 77440, 109696, 144512, 210624 },
        { "llava-siglip-llama3", 480, 41400, 63960, 133080, 179700 },
        { "llava-next", 288, 57216, 66144, 91488, 110304 },
        { "llava-onevision", 288, 29952, 39072, 64224, 83280 },
        { "qwen2.5-vl", 512, 88760, 113208, 143544, 193784 },
        { "glm-4.1v", 384, 86784, 105120, 141696, 179776 },
        { "internvl3", 288, 61312, 71608, 95584, 116944 },
        { "internvl3.5", 192, 27072, 36096, 43008, 61760 },
        { "internvl2-internlm2", 288, 65152, 76384, 99424, 118192 },
        { "internvl2.5-qwen2", 288, 65152, 75448, 99424, 120784 },
        { "kimi-vl", 288, 74512, 91504, 153712, 183688 },
        { "qwen3-vl", 512, 119184, 143248, 173968, 223824 },
        { "qwen3-vl-moe", 192, 57840, 62256, 76080, 85952 },
        { "kimi-text", 384, 51840, 74496, 165504, 205584 },
        { "llama-3.2", 512, 36928, 60992, 134720, 184448 },
        { "qwen2", 336, 60368, 70976, 116480, 138592 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err err;
        char *path = xasprintf("tests/goldens/%s", rows[i].folder);
        struct model *m = model_load(path, test_device(), NULL, &err);
        if (!m) fail_msg("%s", err.text);
        assert_int_equal(trained(m, "train.method", "layernorm-simple"), rows[i].simple);
        assert_int_equal(trained(m, "train.method", "layernorm"), rows[i].layernorm);
        assert_int_equal(trained(m, "train.method", "qv"), rows[i].qv);
        assert_int_equal(trained(m, "train.method", "mlp"), rows[i].mlp);
        assert_int_equal(trained(m, "train.method", "full"), rows[i].full);
        model_free(m);
        free(path);
    }
}

// "*" does not match a router; its name does.
static void test_lora_of_routers(void **state)
{
    struct err err;
    (void)state;
    struct model *m = model_load("tests/goldens/kimi-text", test_device(), NULL, &err);
    if (!m) fail_msg("%s", err.text);
    // rank 1 in three layers, whose routers map 48 elements to 8 experts
    const int64_t gate = trained(m, "train.params", "lora:gate:1");
    assert_int_equal(gate, 3 * (8 + 48));
    assert_int_equal(trained(m, "train.params", "lora:*,gate:1"),
                     trained(m, "train.params", "lora:*:1") + gate);
    model_free(m);
}

// A rule can train the norms of queries and keys, here of three layers with 16 elements each.
static void test_norms_of_heads(void **state)
{
    struct err err;
    (void)state;
    struct model *m = model_load("tests/goldens/internvl3.5", test_device(), NULL, &err);
    if (!m) fail_msg("%s", err.text);
    assert_int_equal(trained(m, "train.params", "*.q_norm.weight; *.k_norm.weight"), 3 * 2 * 16);
    model_free(m);
}

// PEFT's initial values: A uniform in +-1/sqrt(in), B zero; the seed determines A.
static void test_lora_start(void **state)
{
    (void)state;
    struct err err;
    struct model *m = model_load(GOLDEN, test_device(), NULL, &err);
    struct settings *s = with("train.params", "lora:down_proj:16");
    struct params p = { .backend = test_device() };
    if (!m || params_open(&p, m, s, &err) < 0) fail_msg("%s", err.text);
    assert_int_equal(p.count, 8);
    const struct param *a = params_find(&p, "language_model.model.layers.1.mlp.down_proj.lora_A");
    const struct param *b = params_find(&p, "language_model.model.layers.1.mlp.down_proj.lora_B");
    assert_true(a && b);
    assert_float_equal(a->weight->linear->lora->scale, 2, 0);
    assert_int_equal(a->tensor->shape[0], 16);
    assert_int_equal(b->tensor->shape[1], 16);
    const double bound = 1 / sqrt((double)a->tensor->shape[1]);
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < a->count; i++) {
        const double x = (double)((float *)a->tensor->data)[i];
        assert_true(fabs(x) <= bound);
        sum += x, squares += x * x;
    }
    assert_true(fabs(sum / (double)a->count) < 0.1 * bound);
    assert_float_equal(squares / (double)a->count / (bound * bound), 1.0 / 3, 0.03);
    for (int64_t i = 0; i < b->count; i++) assert_true(((float *)b->tensor->data)[i] == 0);
    const float first = *(float *)a->tensor->data;
    params_release(&p);
    // rsLoRA scales by alpha 64 / sqrt(16), whatever the default rank.
    settings_set(s, "train.lora.rs", "on", &err);
    if (params_open(&p, m, s, &err) < 0) fail_msg("%s", err.text);
    assert_float_equal(p.list[0].weight->linear->lora->scale, 16, 0);
    params_release(&p);
    settings_set(s, "train.lora.rs", "off", &err);
    settings_set(s, "train.seed", "43", &err);
    if (params_open(&p, m, s, &err) < 0) fail_msg("%s", err.text);
    assert_true(first != *(float *)p.list[2].tensor->data);
    params_release(&p);
    settings_free(s);
    model_free(m);
}

// Runs two steps with gradients in rows 3 and 5 of the table; whole: visits every row. Copies
// master and moments to *became; returns the gradient's last norm.
static double table_steps(struct model *m, const struct settings *s, bool whole, float *became[3])
{
    struct err err;
    struct optimizer o;
    struct optimizer_taken taken = { 0 };
    struct params p = { .backend = test_device() };
    if (params_open(&p, m, s, &err) < 0) fail_msg("%s", err.text);
    struct param *one = params_find(&p, "language_model.model.embed_tokens.weight");
    assert_true(one && p.count == 1 && one->grad->reached);
    const int64_t width = one->tensor->shape[1];
    optimizer_configure(&o, &p, s, 4);
    for (int i = 0; i < one->tensor->shape[0]; i++) one->grad->reached[i] = whole;
    for (int step = 0; step < 2; step++) {
        if (params_clear(&p, &err) < 0) fail_msg("%s", err.text);
        for (int64_t i = 0; i < one->count; i++) assert_true(one->grad->data[i] == 0);
        const int row = step ? 5 : 3;
        one->grad->reached[row] = true;
        for (int64_t i = 0; i < width; i++)
            one->grad->data[row * width + i] = (float)(i % 7) - 2.5f;
        if (optimizer_step(&o, &p, &taken, &err) < 0) fail_msg("%s", err.text);
    }
    const float *const now[3] = { one->tensor->data, one->m, one->v };
    for (int k = 0; k < 3; k++) {
        became[k] = xmalloc((size_t)one->count * sizeof **became);
        memcpy(became[k], now[k], (size_t)one->count * sizeof **became);
    }
    // A resumed run reads the moments and finds the same rows in them.
    for (int i = 0; i < one->tensor->shape[0]; i++) one->grad->reached[i] = false;
    params_mark_reached(&p);
    for (int i = 0; i < one->tensor->shape[0]; i++)
        assert_int_equal(one->grad->reached[i], i == 3 || i == 5);
    params_release(&p);
    return taken.norm;
}

// Table rows that have had no gradient so far can be skipped, but weight decay shrinks all rows.
static void test_reached(void **state)
{
    (void)state;
    struct err err;
    struct model *m = model_load(GOLDEN, test_device(), NULL, &err);
    if (!m) fail_msg("%s", err.text);
    const size_t size = (size_t)tensor_count(&m->decoder.embed) * sizeof(float);
    struct settings *s = with("train.params", "@embedding");
    for (int decay = 0; decay < 2; decay++) {
        float *some[3], *all[3];
        if (decay && settings_set(s, "train.weight_decay", "0.1", &err) < 0)
            fail_msg("%s", err.text);
        const double norm = table_steps(m, s, false, some);
        assert_true(norm > 0 && norm == table_steps(m, s, true, all));
        for (int k = 0; k < 3; k++) {
            assert_memory_equal(some[k], all[k], size);
            free(some[k]);
            free(all[k]);
        }
    }
    settings_free(s);
    model_free(m);
}

// Exact sums and sharded gradients exclude each other where several processes train together, such
// as a group of a sweep's ranks, whatever job.ranks is.
static void test_exact_sums(void **state)
{
    struct err err = { 0 };
    struct model *m = model_load(GOLDEN, test_device(), NULL, &err);
    struct settings *s = with("train.shard", "gradients");
    if (!m) fail_msg("%s", err.text);
    assert_int_equal(settings_set(s, "train.exact_sum", "on", &err), 0);
    for (int job = 1; job <= 2; job++) {
        assert_int_equal(settings_set(s, "job.ranks", job == 1 ? "1" : "2", &err), 0);
        assert_int_equal(params_check(m, s, 1, &err), 0);
        assert_int_equal(params_check(m, s, 2, &err), -1);
        assert_non_null(strstr(err.text, "set train.exact_sum off"));
        for (int ranks = 1; ranks <= 2; ranks++) {
            struct params p = { .backend = test_device(), .forecast_ranks = ranks };
            assert_int_equal(params_open(&p, m, s, &err), ranks == 1 ? 0 : -1);
            params_release(&p);
        }
    }
    settings_free(s);
    model_free(m);
}

// Continues an adapter of rank 4, alpha 8.
static void check_continued(const char *key, const char *value, const char *refusal)
{
    struct err err = { 0 };
    struct adapter *a;
    struct model *m = model_load(GOLDEN, test_device(), NULL, &err);
    struct settings *s = with("train.params", "lora:down_proj:4");
    struct params p = { .backend = test_device() };
    assert_int_equal(settings_set(s, "adapter", GOLDEN "/adapters/lora", &err), 0);
    assert_int_equal(settings_set(s, key, value, &err), 0);
    if (!m || adapter_apply_settings(&a, m, s, &err) < 0) fail_msg("%s", err.text);
    assert_int_equal(params_check(m, s, 1, &err), refusal ? -1 : 0);
    if (refusal) assert_non_null(strstr(err.text, refusal));
    assert_int_equal(params_open(&p, m, s, &err), refusal ? -1 : 0);
    if (refusal) assert_non_null(strstr(err.text, refusal));
    if (!refusal) assert_float_equal(p.list[0].weight->linear->lora->scale, 2, 0);
    params_release(&p);
    adapter_free(a);
    settings_free(s);
    model_free(m);
}

static void test_lora_continued(void **state)
{
    (void)state;
    check_continued("train.lr", "1e-3", NULL);
    check_continued("train.lora.rank", "2", NULL); // the rule's rank counts
    check_continued("train.lora.alpha", "16",
                    "has alpha / rank 2, not 0.5: /set train.lora.alpha 64,");
    check_continued("train.lora.rs", "on",
                    "has alpha / sqrt(rank) 2, not 32: /set train.lora.alpha 4,");
    check_continued("train.params", "lora:down_proj:2", "has rank 4, not 2");
    check_continued("adapter.scale", "0.5", "applied with adapter.scale 0.5");
    check_continued("adapter.scale", "1.0", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares),          cmocka_unit_test(test_rules),
        cmocka_unit_test(test_rules_refused),   cmocka_unit_test(test_toggle),
        cmocka_unit_test(test_lora_start),      cmocka_unit_test(test_lora_continued),
        cmocka_unit_test(test_out_of_memory),   cmocka_unit_test(test_reached),
        cmocka_unit_test(test_exact_sums),      cmocka_unit_test(test_sets_of_each_family),
        cmocka_unit_test(test_lora_of_routers), cmocka_unit_test(test_norms_of_heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
