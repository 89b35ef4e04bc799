// tests/core/train/sft.c -- core/train/sft*.c, optimizer.c, save.c, result.c, run_folder.c and
// core/data/order.c: whole training runs against PyTorch's weights after three steps, and
// interrupted ones against uninterrupted ones.
#include "tests/core/train/sft.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "core/base/file_in.h"
#include "core/data/order.h"
#include "core/eval/loss.h"
#include "core/graph/tape.h"
#include "core/train/loader.h"
#include "core/train/optimizer.h"
#include "core/train/run_folder.h"
#include "tests/device.h"

// --- goldens -------------------------------------------------------------------------------------

struct golden {
    cJSON *json;
    struct safetensors *file;
};

static void open_golden(struct golden *g)
{
    struct err err;
    g->json = json_read("build/goldens/llava-1.5/golden.json", 1 << 24, &err);
    g->file = safetensors_open("build/goldens/llava-1.5/golden.safetensors", &err);
    if (!g->json || !g->file) fail_msg("%s", err.text);
}

static void close_golden(struct golden *g)
{
    cJSON_Delete(g->json);
    safetensors_close(g->file);
}

static void compare(const struct golden *g, const char *name, const float *ours, int64_t count)
{
    const struct safetensor *t = safetensors_find(g->file, name);
    if (!t) fail_msg("no %s", name);
    const double allowed =
        json_get(json_get(json_get(g->json, "tensors"), name), "tol")->valuedouble;
    assert_int_equal(t->bytes, (uint64_t)count * sizeof *ours);
    for (int64_t i = 0; i < count; i++) {
        const double want = (double)((const float *)t->data)[i];
        if (!(fabs(want - (double)ours[i]) <= allowed))
            fail_msg("%s: number %lld is %.9g, should be %.9g +- %g", name, (long long)i,
                     (double)ours[i], want, allowed);
    }
}

// Compares every "train.METHOD.after.NAME" with the masters of the checkpoint after three steps.
static void compare_weights(const struct golden *g, const char *method, const char *out)
{
    struct err err;
    char prefix[64], *path = xasprintf("%s/checkpoint-3/state.safetensors", out);
    struct safetensors *f = safetensors_open(path, &err);
    int compared = 0;
    if (!f) fail_msg("%s", err.text);
    snprintf(prefix, sizeof prefix, "train.%s.after.", method);
    for (int64_t i = 0; i < g->file->count; i++) {
        const struct safetensor *t = &g->file->tensors[i];
        if (strncmp(t->name, prefix, strlen(prefix)) != 0) continue;
        char *name = xasprintf("w.%s", t->name + strlen(prefix));
        const struct safetensor *ours = safetensors_find(f, name);
        if (!ours) fail_msg("the checkpoint has no %s", name);
        compare(g, t->name, ours->data, (int64_t)(ours->bytes / sizeof(float)));
        compared++;
        free(name);
    }
    assert_true(compared >= 6);
    safetensors_close(f);
    free(path);
}

static void check_golden(const char *method, const char *params, const char *align)
{
    const char *const settings[] = {
        method ? method : params, align,          "train.lr=1e-3",        "train.schedule=constant",
        "train.warmup=0",         "train.clip=0", "train.batch=2",        "train.steps=3",
        "train.shuffle=off",      "train.keep=1", "train.norm_inputs=on", NULL
    };
    const char *name = strchr(settings[0], '=') + 1;
    if (!strcmp(align, "norm.align=on")) name = "connector_norm_align";
    struct trial t = { 0 };
    struct golden g;
    char *data = trial_golden_data(scratch), *out = xasprintf("%s/%s", scratch, name);
    open_golden(&g);
    if (trial_run(&t, GOLDEN, data, out, false, settings) != 0) fail_msg("%s", t.err.text);
    // The reference's fourth loss is that after the last step, which a run does not compute.
    float losses[4];
    char key[64];
    snprintf(key, sizeof key, "train.%s.losses", name);
    const struct safetensor *want = safetensors_find(g.file, key);
    for (int i = 0; i < 3; i++) losses[i] = (float)trial_value(&t, "loss", i);
    losses[3] = ((const float *)want->data)[3];
    compare(&g, key, losses, 4);
    compare_weights(&g, name, out);
    assert_true(trial_value(&t, "grad_norm", 2) > 0);
    assert_float_equal(trial_value(&t, "lr", 1), 1e-3, 1e-12);
    // Reading the gradients of a norm's input has not changed the weights; a norm passes no more
    // than all of the gradient on.
    const double share = trial_value(&t, "grad_x_share.layers.0.input_layernorm", 2);
    if (!strcmp(name, "layernorm") || !strcmp(name, "full"))
        assert_true(share > 0.1 && share < 1.0001);
    else
        assert_true(isnan(share) || share < 1.0001);
    trial_release(&t);
    close_golden(&g);
    free(data);
    free(out);
}

static void test_goldens(void **state)
{
    (void)state;
    check_golden("train.method=layernorm-simple", NULL, "norm.align=off");
    check_golden("train.method=layernorm", NULL, "norm.align=off");
    check_golden("train.method=connector", NULL, "norm.align=on");
}

// Key of a LoRA: layer and projection as in "language_model.model.layers.0.mlp.up_proj.lora_A".
static void lora_key(char key[128], const char *prefix, const struct param *p)
{
    int layer;
    char block[32], projection[32];
    assert_int_equal(
        sscanf(strstr(p->name, "layers."), "layers.%d.%31[^.].%31[^.]", &layer, block, projection),
        3);
    snprintf(key, 128, "train.lora.%s.%d.%s.%c", prefix, layer, projection,
             p->kind == PARAM_LORA_A ? 'A' : 'B');
}

static void compare_lora(const struct golden *g, const struct params *p, const char *prefix,
                         bool grads)
{
    int compared = 0;
    for (size_t i = 0; i < p->count; i++) {
        char key[128];
        const struct param *one = &p->list[i];
        lora_key(key, prefix, one);
        if (!safetensors_find(g->file, key)) continue;
        compare(g, key, grads ? one->grad->data : (const float *)one->tensor->data, one->count);
        compared++;
    }
    assert_true(compared >= 14);
}

// Mean loss of both samples, with its gradients.
static float lora_loss(struct graph *g, struct params *p, struct loader *f)
{
    struct err err;
    struct loader_item items[2];
    struct loss_item list[2];
    double losses[2];
    for (int i = 0; i < 2; i++) {
        if (loader_read(f, g, i, &items[i], &err) < 0) fail_msg("%s", err.text);
        list[i] = (struct loss_item){ .pictures = items[i].pictures,
                                      .picture_count = items[i].picture_count,
                                      .labels = &items[i].labels };
    }
    assert_int_equal(params_clear(p, &err), 0);
    if (loss_batch(g, p->model, list, 2, 0.5, losses) < 0) fail_msg("%s", g->err.text);
    for (int i = 0; i < 2; i++) loader_item_release(f, &items[i]);
    return (float)(0.5 * losses[0] + 0.5 * losses[1]);
}

static void test_golden_lora(void **state)
{
    (void)state;
    struct err err;
    struct golden golden;
    struct settings *s = settings_new();
    struct model *m = model_load(GOLDEN, test_device(), NULL, &err);
    struct dataset data;
    char *path = trial_golden_data(scratch);
    open_golden(&golden);
    settings_set(s, "train.params", "lora:*", &err);
    settings_set(s, "train.lora.rank", "4", &err);
    settings_set(s, "train.lora.alpha", "8", &err);
    settings_set(s, "train.lr", "1e-3", &err);
    settings_set(s, "train.schedule", "constant", &err);
    settings_set(s, "train.warmup", "0", &err);
    settings_set(s, "train.clip", "0", &err);
    struct params p = { .backend = test_device() };
    if (!m || params_open(&p, m, s, &err) < 0 || dataset_open(&data, path, NULL, &err) < 0)
        fail_msg("%s", err.text);
    for (size_t i = 0; i < p.count; i++) {
        char key[128];
        lora_key(key, "init", &p.list[i]);
        const struct safetensor *t = safetensors_find(golden.file, key);
        if (t) memcpy(p.list[i].tensor->data, t->data, t->bytes);
    }
    struct arena arena = { .backend = test_device() };
    struct tape tape = { .backend = test_device(), .recompute = true };
    struct graph g = { .backend = test_device(), .arena = &arena, .tape = &tape, .settings = s };
    struct loader loader = {
        .data = &data, .model = m, .settings = s, .backend = test_device(), .frozen = true
    };
    struct optimizer o;
    struct optimizer_taken taken;
    optimizer_configure(&o, &p, s, 3);
    float loss = lora_loss(&g, &p, &loader);
    compare(&golden, "train.lora.step0.loss", &loss, 1);
    compare_lora(&golden, &p, "step0.grad", true);
    if (optimizer_step(&o, &p, &taken, &err) < 0) fail_msg("%s", err.text);
    compare_lora(&golden, &p, "step1", false);
    loss = lora_loss(&g, &p, &loader);
    compare(&golden, "train.lora.step1.loss", &loss, 1);
    compare_lora(&golden, &p, "step1.grad", true);
    loader_release(&loader);
    tape_release(&tape);
    arena_release(&arena);
    params_release(&p);
    dataset_close(&data);
    model_free(m);
    settings_free(s);
    close_golden(&golden);
    free(path);
}

// --- schedule and order --------------------------------------------------------------------------

// transformers' get_cosine_schedule_with_warmup, num_cycles 0.5, at 20 steps of which 4 warm up.
static void test_schedule(void **state)
{
    (void)state;
    static const double want[] = { 0,        0.25,     0.5,      0.75,     1,
                                   0.990393, 0.961940, 0.915735, 0.853553, 0.777785,
                                   0.691342, 0.597545, 0.5,      0.402455, 0.308658,
                                   0.222215, 0.146447, 0.084265, 0.038060, 0.009607 };
    for (int i = 0; i < 20; i++)
        assert_float_equal(schedule_share(SCHEDULE_COSINE, i, 20, 4), want[i], 1e-6);
    assert_float_equal(schedule_share(SCHEDULE_COSINE, 0, 1, 0), 1, 0);
    assert_float_equal(schedule_share(SCHEDULE_CONSTANT, 1, 20, 4), 0.25, 0);
    assert_float_equal(schedule_share(SCHEDULE_CONSTANT, 19, 20, 4), 1, 0);
}

static void check_order(int64_t n)
{
    int64_t *a = xcalloc((size_t)n + 1, sizeof *a), *b = xcalloc((size_t)n + 1, sizeof *b);
    int32_t *seen = xcalloc((size_t)n + 1, sizeof *seen);
    order_epoch(a, n, true, 42, 1);
    order_epoch(b, n, true, 42, 1);
    assert_memory_equal(a, b, (size_t)n * sizeof *a);
    for (int64_t i = 0; i < n; i++) {
        assert_in_range(a[i], 0, n - 1);
        assert_int_equal(seen[a[i]]++, 0);
    }
    // A different epoch or seed gives a different order.
    order_epoch(b, n, true, 42, 2);
    if (n > 20) assert_memory_not_equal(a, b, (size_t)n * sizeof *a);
    order_epoch(b, n, true, 43, 1);
    if (n > 20) assert_memory_not_equal(a, b, (size_t)n * sizeof *a);
    order_epoch(b, n, false, 43, 1);
    for (int64_t i = 0; i < n; i++) assert_int_equal(b[i], i);
    free(a), free(b), free(seen);
}

static void test_order(void **state)
{
    (void)state;
    check_order(0);
    check_order(1);
    check_order(7);
    check_order(100);
    check_order(1003);
}

// --- interruptions -------------------------------------------------------------------------------

static char *read_state(const char *out, int64_t step, size_t *size)
{
    struct err err;
    char *path = xasprintf("%s/checkpoint-%lld/state.safetensors", out, (long long)step);
    char *bytes = file_read(path, 1u << 30, size, &err);
    if (!bytes) fail_msg("%s", err.text);
    free(path);
    return bytes;
}

static void same_state(const char *a, const char *b, int64_t step)
{
    size_t x, y;
    char *first = read_state(a, step, &x), *second = read_state(b, step, &y);
    assert_int_equal(x, y);
    assert_memory_equal(first, second, x);
    free(first);
    free(second);
}

static void same_file(const char *a, const char *b, const char *name)
{
    size_t x, y;
    struct err err;
    char *one = xasprintf("%s/%s", a, name), *two = xasprintf("%s/%s", b, name);
    char *first = file_read(one, 1u << 30, &x, &err), *second = file_read(two, 1u << 30, &y, &err);
    if (!first || !second) fail_msg("%s", err.text);
    assert_int_equal(x, y);
    assert_memory_equal(first, second, x);
    free(first), free(second), free(one), free(two);
}

// A run stopped after each step and resumed gives the same bits in weights, moments and result.
static void test_pause(void **state)
{
    (void)state;
    char *data = trial_data(), *straight = xasprintf("%s/straight", scratch);
    char *parts = xasprintf("%s/parts", scratch);
    struct trial t = { 0 };
    if (trial_run(&t, GOLDEN, data, straight, false, trial_settings) != 0)
        fail_msg("%s", t.err.text);
    assert_int_equal(t.steps, 6);
    assert_false(isnan(trial_value(&t, "validation_loss", 6)));
    assert_false(isnan(trial_value(&t, "grad_var.layers.3.input_layernorm", 5)));
    const double last = trial_value(&t, "loss", 5);
    trial_release(&t);
    for (int64_t step = 1; step <= 5; step++) {
        t.pause_after = step;
        assert_int_equal(trial_run(&t, GOLDEN, data, parts, step > 1, trial_settings), JOB_STOPPED);
        trial_release(&t);
    }
    t.pause_after = 0;
    if (trial_run(&t, GOLDEN, data, parts, true, trial_settings) != 0) fail_msg("%s", t.err.text);
    assert_true(trial_value(&t, "loss", 5) == last);
    trial_release(&t);
    same_state(straight, parts, 6);
    same_file(straight, parts, "model.safetensors");
    // After the end, resuming succeeds, and starting again is refused.
    assert_int_equal(trial_run(&t, GOLDEN, data, parts, true, trial_settings), 0);
    trial_release(&t);
    assert_int_equal(trial_run(&t, GOLDEN, data, parts, false, trial_settings), -1);
    assert_non_null(strstr(t.err.text, "finished training"));
    trial_release(&t);
    free(data), free(straight), free(parts);
}

// The result loads as a model with the same names and types; more than three quarters of its
// tensors have changed.
static void test_result_loads(void **state)
{
    (void)state;
    char *data = trial_data(), *out = xasprintf("%s/out", scratch);
    struct trial t = { 0 };
    struct err err;
    if (trial_run(&t, GOLDEN, data, out, false, trial_settings) != 0) fail_msg("%s", t.err.text);
    trial_release(&t);
    struct model *was = model_load(GOLDEN, test_device(), NULL, &err);
    struct model *is = model_load(out, test_device(), NULL, &err);
    if (!was || !is) fail_msg("%s", err.text);
    assert_int_equal(was->weights.count, is->weights.count);
    size_t changed = 0;
    for (size_t i = 0; i < was->weights.count; i++) {
        const struct tensor *a = was->weights.list[i].tensor, *b = is->weights.list[i].tensor;
        assert_string_equal(was->weights.list[i].name, is->weights.list[i].name);
        assert_int_equal(a->dtype, b->dtype);
        changed += memcmp(a->data, b->data, tensor_bytes(a)) != 0;
    }
    assert_true(changed > was->weights.count * 3 / 4);
    model_free(was);
    model_free(is);
    free(data), free(out);
}

// --- from an adapter -----------------------------------------------------------------------------

// Trains one step with these rules from the adapter; returns its loss.
static double step_from(const char *adapter, const char *rules, const char *rate, const char *data,
                        const char *out)
{
    char *from = xasprintf("adapter=%s", adapter), *params = xasprintf("train.params=%s", rules),
         *lr = xasprintf("train.lr=%s", rate);
    const char *const settings[] = {
        from, params, lr, "train.steps=1", "train.warmup=0", "train.batch=8", NULL
    };
    struct trial t = { 0 };
    if (trial_run(&t, GOLDEN, data, out, false, settings) != 0) fail_msg("%s", t.err.text);
    const double loss = trial_value(&t, "loss", 0);
    trial_release(&t);
    free(from), free(params), free(lr);
    return loss;
}

static bool same_tensors(const char *a, const char *b)
{
    struct err err;
    char *first = xasprintf("%s/adapter_model.safetensors", a),
         *second = xasprintf("%s/adapter_model.safetensors", b);
    struct safetensors *x = safetensors_open(first, &err), *y = safetensors_open(second, &err);
    if (!x || !y) fail_msg("%s", err.text);
    assert_int_equal(x->count, y->count);
    bool same = true;
    for (int64_t i = 0; i < x->count; i++) {
        const struct safetensor *of = safetensors_find(y, x->tensors[i].name);
        assert_non_null(of);
        same &= !memcmp(x->tensors[i].data, of->data, of->bytes);
    }
    safetensors_close(x);
    safetensors_close(y);
    free(first), free(second);
    return same;
}

// Training continues from an adapter's LoRA: the loss starts at that of the adapted model, and with
// rate 0 nothing changes.
static void test_lora_continues(void **state)
{
    (void)state;
    static const char lora[] = "lora:q_proj,down_proj:4";
    const char *const settings[] = { "train.params=lora:q_proj,down_proj:4", "train.lr=1e-2",
                                     "train.steps=2", "train.schedule=constant", NULL };
    char *data = trial_data(), *out[5];
    for (int i = 0; i < 5; i++) out[i] = xasprintf("%s/out%d", scratch, i);
    struct trial t = { 0 };
    if (trial_run(&t, GOLDEN, data, out[0], false, settings) != 0) fail_msg("%s", t.err.text);
    const double first = trial_value(&t, "loss", 0);
    trial_release(&t);
    const double stays = step_from(out[0], lora, "0", data, out[1]);
    assert_true(same_tensors(out[0], out[1]));
    assert_true(stays != first);
    assert_float_equal(step_from(out[0], "@projector", "0", data, out[2]), stays, 1e-6);
    step_from(out[0], lora, "1e-2", data, out[3]);
    assert_false(same_tensors(out[0], out[3]));
    char *from = xasprintf("adapter=%s", out[0]);
    const char *const other[] = { from, "train.params=lora:q_proj:8", NULL };
    t = (struct trial){ 0 };
    assert_int_equal(trial_run(&t, GOLDEN, data, out[4], false, other), -1);
    assert_non_null(strstr(t.err.text, "has rank 4, not 8"));
    trial_release(&t);
    free(from), free(data);
    for (int i = 0; i < 5; i++) free(out[i]);
}

// --- steps and curves ----------------------------------------------------------------------------

static bool same_weights(const char *a, const char *b)
{
    struct err err;
    struct model *was = model_load(a, test_device(), NULL, &err);
    struct model *is = model_load(b, test_device(), NULL, &err);
    bool same = true;
    if (!was || !is) fail_msg("%s", err.text);
    for (size_t i = 0; i < was->weights.count; i++) {
        const struct tensor *x = was->weights.list[i].tensor, *y = is->weights.list[i].tensor;
        same &= !memcmp(x->data, y->data, tensor_bytes(x));
    }
    model_free(was);
    model_free(is);
    return same;
}

// A run of one step has the full rate; the reference's warm-up would give it the rate 0.
static void test_one_step(void **state)
{
    (void)state;
    const char *const settings[] = { "train.method=all", "train.lr=1e-3", "train.steps=1", NULL };
    char *data = trial_data(), *out = xasprintf("%s/out", scratch);
    struct trial t = { 0 };
    if (trial_run(&t, GOLDEN, data, out, false, settings) != 0) fail_msg("%s", t.err.text);
    assert_float_equal(trial_value(&t, "lr", 0), 1e-3, 1e-12);
    assert_false(same_weights(GOLDEN, out));
    trial_release(&t);
    free(data), free(out);
}

// A step averages over its samples, however they are divided into micro-batches.
static void test_accumulate(void **state)
{
    (void)state;
    const char *const at_once[] = { "train.method=all", "train.lr=1e-3", "train.batch=8",
                                    "train.clip=0",     "train.steps=1", NULL };
    const char *const in_parts[] = { "train.method=all",
                                     "train.lr=1e-3",
                                     "train.batch=3",
                                     "train.clip=0",
                                     "train.accumulate=3",
                                     "train.steps=1",
                                     NULL };
    char *data = trial_data(), *one = xasprintf("%s/one", scratch);
    char *two = xasprintf("%s/two", scratch);
    struct trial t = { 0 };
    if (trial_run(&t, GOLDEN, data, one, false, at_once) != 0) fail_msg("%s", t.err.text);
    const double loss = trial_value(&t, "loss", 0), norm = trial_value(&t, "grad_norm", 0);
    trial_release(&t);
    if (trial_run(&t, GOLDEN, data, two, false, in_parts) != 0) fail_msg("%s", t.err.text);
    assert_float_equal(trial_value(&t, "loss", 0), loss, 1e-6 * loss);
    assert_float_equal(trial_value(&t, "grad_norm", 0), norm, 1e-4 * norm);
    trial_release(&t);
    free(data), free(one), free(two);
}

static cJSON *read_record(const char *out)
{
    struct err err;
    cJSON *record = run_folder_read(out, &err);
    if (!record) fail_msg("%s", err.text);
    return record;
}

// A run whose process ended between its last checkpoint and its result writes the same record when
// it is resumed.
static void test_record_after_last_step(void **state)
{
    (void)state;
    char *data = trial_data(), *straight = xasprintf("%s/straight", scratch);
    char *out = xasprintf("%s/out", scratch);
    struct trial t = { 0 };
    if (trial_run(&t, GOLDEN, data, straight, false, trial_settings) != 0)
        fail_msg("%s", t.err.text);
    trial_release(&t);
    t.pause_after = 6;
    assert_int_equal(trial_run(&t, GOLDEN, data, out, false, trial_settings), JOB_STOPPED);
    trial_release(&t);
    t.pause_after = 0;
    if (trial_run(&t, GOLDEN, data, out, true, trial_settings) != 0) fail_msg("%s", t.err.text);
    trial_release(&t);
    cJSON *one = read_record(straight), *two = read_record(out);
    assert_true(cJSON_IsNumber(json_get(one, "loss")));
    assert_true(cJSON_Compare(one, two, true));
    cJSON_Delete(one);
    cJSON_Delete(two);
    free(data), free(straight), free(out);
}

// The backward pass checks for cancellation even if no layer is recomputed.
static void test_cancel_on_the_way_back(void **state)
{
    (void)state;
    static const char *const settings[] = { "train.method=all",        "train.batch=1",
                                            "train.steps=1",           "train.shuffle=off",
                                            "train.checkpointing=off", NULL };
    enum { SAMPLES = 1, LAYERS = 4 }; // each layer checks once in the forward pass
    char *out = xasprintf("%s/out", scratch), *other = xasprintf("%s/other", scratch);
    char *data = xasprintf("%s/one.jsonl", scratch);
    scratch_text(scratch, "one.jsonl",
                 "{\"id\": \"a\", \"conversations\": [{\"from\": \"human\", \"value\": \"Why?\"}, "
                 "{\"from\": \"gpt\", \"value\": \"So.\"}]}\n");
    struct trial t = { 0 };
    assert_int_equal(trial_run(&t, GOLDEN, data, out, false, settings), 0);
    trial_release(&t);
    assert_in_range(t.looks, SAMPLES + LAYERS + 1, 1000);
    t.cancel_at = SAMPLES + LAYERS + 1;
    assert_int_equal(trial_run(&t, GOLDEN, data, other, false, settings), JOB_STOPPED);
    assert_int_equal(t.steps, 0);
    assert_int_equal(t.looks, t.cancel_at); // nothing more was computed
    trial_release(&t);
    free(data), free(out), free(other);
}

// --- interruptions, seen from outside ------------------------------------------------------------

// A run that is killed again and again at random moments ends with the same bits.
static void test_killed(void **state)
{
    (void)state;
    char *data = trial_data(), *straight = xasprintf("%s/straight", scratch);
    char *killed = xasprintf("%s/killed", scratch);
    struct trial t = { 0 };
    if (trial_run(&t, GOLDEN, data, straight, false, trial_settings) != 0)
        fail_msg("%s", t.err.text);
    trial_release(&t);
    uint32_t chance = 12345;
    int status = -1, tries = 0;
    for (; status != 0 && tries < 200; tries++) {
        pid_t child = fork();
        if (child == 0) {
            // OpenMP's threads do not survive a fork, so this starts a new program.
            execl("/proc/self/exe", "sft", "--train", data, killed, (char *)NULL);
            _exit(9);
        }
        chance = chance * 1664525 + 1013904223;
        usleep(20000 + (chance >> 8) % (60000 + 40000 * (unsigned)tries));
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WIFEXITED(status)) assert_int_equal(WEXITSTATUS(status), 0);
    }
    assert_int_equal(status, 0);
    assert_true(tries > 1);
    same_state(straight, killed, 6);
    same_file(straight, killed, "model.safetensors");
    free(data), free(straight), free(killed);
}

// Starts a process that holds the folder's lock for `ms`.
static pid_t hold_folder(const char *path, int ms)
{
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
        struct run_folder o;
        const bool had = run_folder_open(&o, path, true, NULL) == 0;
        if (!had || write(ready[1], "", 1) != 1) _exit(1);
        usleep((useconds_t)ms * 1000);
        _exit(0);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return child;
}

// Releasing a killed run's lock may take a moment, for which the next run waits; if the lock stays,
// it is refused.
static void test_folder_in_use(void **state)
{
    (void)state;
    char *path = xasprintf("%s/in-use", scratch);
    struct run_folder o;
    struct err err = { "" };
    pid_t child = hold_folder(path, 200);
    if (run_folder_open(&o, path, true, &err) < 0) fail_msg("%s", err.text);
    run_folder_close(&o);
    waitpid(child, NULL, 0);
    child = hold_folder(path, 60000);
    assert_int_equal(run_folder_open(&o, path, true, &err), -1);
    assert_non_null(strstr(err.text, "another process is training into"));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    free(path);
}

// The number of threads changes no bit.
static void test_threads(void **state)
{
    (void)state;
    char *data = trial_data(), *one = xasprintf("%s/one", scratch);
    char *two = xasprintf("%s/two", scratch);
    struct trial t = { 0 };
    test_device()->set_threads(1);
    if (trial_run(&t, GOLDEN, data, one, false, trial_settings) != 0) fail_msg("%s", t.err.text);
    trial_release(&t);
    test_device()->set_threads(3);
    if (trial_run(&t, GOLDEN, data, two, false, trial_settings) != 0) fail_msg("%s", t.err.text);
    trial_release(&t);
    test_device()->set_threads(0);
    same_state(one, two, 6);
    free(data), free(one), free(two);
}

// --- refusals ------------------------------------------------------------------------------------

static void refused(const char *data, const char *out, bool resume, const char *const *settings,
                    const char *why)
{
    struct trial t = { 0 };
    assert_int_equal(trial_run(&t, GOLDEN, data, out, resume, settings), -1);
    if (!strstr(t.err.text, why)) fail_msg("'%s' does not say '%s'", t.err.text, why);
    trial_release(&t);
}

static void test_refused(void **state)
{
    (void)state;
    char *data = trial_data(), *out = xasprintf("%s/out", scratch);
    struct trial t = { .pause_after = 1 };
    refused("/nowhere.json", out, false, trial_settings, "cannot open '/nowhere.json'");
    refused(data, scratch, false, trial_settings, "holds other files");
    rmdir(out); // a refusal may have left an empty folder
    assert_int_equal(trial_run(&t, GOLDEN, data, out, false, trial_settings), JOB_STOPPED);
    trial_release(&t);
    refused(data, out, false, trial_settings, "--resume");

    const char *other[16];
    memcpy(other, trial_settings, sizeof trial_settings);
    other[1] = "train.lr=2e-3";
    refused(data, out, true, other, "train.lr=0.001");
    scratch_text(scratch, "data.jsonl",
                 "{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}, {\"from\": "
                 "\"gpt\", \"value\": \"b\"}]}\n");
    const char *const plain[] = { "train.method=connector", NULL };
    refused(data, out, true, trial_settings, "the data file has changed");
    const char *const nothing[] = { "train.params=*no_such*", NULL };
    char *fresh = xasprintf("%s/fresh", scratch);
    refused(data, fresh, false, nothing, "matches no weight");
    scratch_text(scratch, "empty.jsonl",
                 "{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}]}\n");
    char *empty = xasprintf("%s/empty.jsonl", scratch);
    refused(empty, fresh, false, plain, "no answer");
    free(data), free(out), free(fresh), free(empty);
}

// If the data are missing when a run resumes, nothing that was saved is lost.
static void test_lost_data(void **state)
{
    (void)state;
    char *data = trial_data(), *out = xasprintf("%s/out", scratch);
    struct trial t = { .pause_after = 2 };
    assert_int_equal(trial_run(&t, GOLDEN, data, out, false, trial_settings), JOB_STOPPED);
    trial_release(&t);
    unlink(data);
    refused(data, out, true, trial_settings, "cannot open");
    free(data);
    data = trial_data();
    t.pause_after = 0;
    assert_int_equal(trial_run(&t, GOLDEN, data, out, true, trial_settings), 0);
    assert_true(isnan(trial_value(&t, "loss", 1))); // the run did not start again
    trial_release(&t);
    free(data), free(out);
}

// On a full disk (here: a limit on the size of files) the run fails and gives the reason, and the
// last checkpoint stays; with free space it ends with the same bits.
static void test_disk_full(void **state)
{
    (void)state;
    char *data = trial_data(), *out = xasprintf("%s/out", scratch);
    char *straight = xasprintf("%s/straight", scratch);
    struct trial t = { .pause_after = 2 };
    struct rlimit before, small;
    assert_int_equal(trial_run(&t, GOLDEN, data, out, false, trial_settings), JOB_STOPPED);
    trial_release(&t);
    t.pause_after = 0;
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 100000;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    assert_int_equal(trial_run(&t, GOLDEN, data, out, true, trial_settings), -1);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_non_null(strstr(t.err.text, "cannot write"));
    trial_release(&t);
    size_t size;
    free(read_state(out, 2, &size));
    assert_int_equal(trial_run(&t, GOLDEN, data, out, true, trial_settings), 0);
    trial_release(&t);
    assert_int_equal(trial_run(&t, GOLDEN, data, straight, false, trial_settings), 0);
    trial_release(&t);
    same_state(straight, out, 6);
    free(data), free(out), free(straight);
}

int main(int argc, char **argv)
{
    if (argc == 4 && !strcmp(argv[1], "--train")) {
        struct trial t = { 0 };
        const int status = trial_run(&t, GOLDEN, argv[2], argv[3], true, trial_settings);
        trial_release(&t);
        return status == 0 ? 0 : 1;
    }
    const struct CMUnitTest tests[] = {
        IN_SCRATCH(test_goldens),
        IN_SCRATCH(test_schedule),
        IN_SCRATCH(test_order),
        IN_SCRATCH(test_pause),
        IN_SCRATCH(test_result_loads),
        IN_SCRATCH(test_lora_continues),
        IN_SCRATCH(test_killed),
        IN_SCRATCH(test_folder_in_use),
        IN_SCRATCH(test_threads),
        IN_SCRATCH(test_refused),
        IN_SCRATCH(test_lost_data),
        IN_SCRATCH(test_golden_lora),
        IN_SCRATCH(test_disk_full),
        IN_SCRATCH(test_one_step),
        IN_SCRATCH(test_accumulate),
        IN_SCRATCH(test_record_after_last_step),
        IN_SCRATCH(test_cancel_on_the_way_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
