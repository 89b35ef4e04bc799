// tests/core/methods/ira.c -- core/methods/ira.c against the reference: values, divergence and
// logits of an answer; divergence, gate, loss and gradients of a training sample with the
// reference's noise. A fresh head, the seed of the noise, two samples in one pass, bad settings.
#include <unistd.h>

#include "core/eval/loss.h"
#include "core/graph/tape.h"
#include "core/methods/ira.h"
#include "core/probes/dump.h"
#include "core/talk/answer.h"
#include "tests/core/model/families/reference.h"
#include "tests/device.h"

enum { FOUND_MAX = 32 };

// A model with its golden numbers and the parameters of an adapter.
struct fixture {
    struct reference r;
    struct tape tape;
    struct arena step;
    struct methods methods;
    struct tensor found[FOUND_MAX];
    char name[FOUND_MAX][64];
    int count;
    int first;       // first layer with the reference's parameters
    int layers;      // number of consecutive layers with them
    bool fresh;      // initial parameters of a training run
    const char *run; // golden tensors the listener compares with: "ira.train"; NULL: none
    int received;
    struct graph_kl kl; // sums over all layers received
};

static void set(struct fixture *f, const char *key, const char *value)
{
    struct err err;
    must(settings_set(f->r.settings, key, value, &err), &err);
}

static void open_model(struct fixture *f, const char *name)
{
    *f = (struct fixture){ .tape = { .backend = test_device() },
                           .step = { .backend = test_device() } };
    reference_open(&f->r, name);
    set(f, "compute.matmul", "f32"); // also on a GPU
    set(f, "kv.dtype", "f32");
    const cJSON *list = json_get(json_get(json_get(f->r.json, "methods"), "ira"), "layers");
    char layers[16];
    f->layers = cJSON_GetArraySize(list);
    f->first = cJSON_GetArrayItem(list, 0)->valueint;
    snprintf(layers, sizeof layers, "%d-%d", f->first, f->first + f->layers - 1);
    set(f, "ira.layers", layers);
    set(f, "ira.on", "on");
    set(f, "ira.beta", "0.05");
    set(f, "ira.warmup", "0");
}

static void close_model(struct fixture *f)
{
    methods_release(&f->methods);
    for (int i = 0; i < f->count; i++) free(f->found[i].data);
    tape_release(&f->tape);
    arena_release(&f->step);
    reference_close(&f->r);
}

// Returns a copy of the reference's parameter, or zeros if `fresh`; NULL: no such parameter.
static const struct tensor *find(void *self, const char *name)
{
    struct fixture *f = self;
    for (int i = 0; i < f->count; i++)
        if (!strcmp(f->name[i], name)) return &f->found[i];
    const struct safetensor *t = safetensors_find(f->r.golden, name);
    if (!t) return NULL;
    assert_true(f->count < FOUND_MAX);
    struct tensor *to = &f->found[f->count];
    snprintf(f->name[f->count++], sizeof f->name[0], "%s", name);
    *to = (struct tensor){ .rank = t->rank, .data = malloc(t->bytes) };
    memcpy(to->shape, t->shape, sizeof to->shape);
    memcpy(to->data, t->data, t->bytes);
    if (f->fresh) memset(to->data, 0, t->bytes);
    return to;
}

static void attach(struct fixture *f, struct hooks *hooks, bool training)
{
    struct err err;
    const struct method_env env = { .model = f->r.model,
                                    .backend = test_device(),
                                    .settings = f->r.settings,
                                    .tensors = { find, f },
                                    .training = training };
    must(methods_attach(&f->methods, hooks, &env, &err), &err);
}

// --- comparing -----------------------------------------------------------------------------------

// Compares [S,Hkv,...] with a golden tensor [Hkv,S,...].
static void compare_heads(const struct fixture *f, const char *name, const struct tensor *ours)
{
    const int64_t rows = ours->shape[0], heads = ours->shape[1];
    const int64_t width = tensor_count(ours) / (rows * heads);
    float *transposed = malloc(tensor_bytes(ours));
    for (int64_t i = 0; i < rows; i++)
        for (int64_t h = 0; h < heads; h++)
            memcpy(transposed + (h * rows + i) * width,
                   (const float *)ours->data + (i * heads + h) * width,
                   (size_t)width * sizeof *transposed);
    reference_compare(&f->r, name, transposed, tensor_count(ours));
    free(transposed);
}

// Listens to the method: in training, gives the reference's noise; compares divergence and gate.
static bool listen_wants(void *self, const struct site *site, int layer)
{
    const struct fixture *f = self;
    return site == SITE_KL || (site == SITE_NOISE && f->run && strcmp(f->run, "ira.inference"));
}

static void give_noise(struct fixture *f, const struct site_args *args)
{
    char name[64];
    double allowed;
    snprintf(name, sizeof name, "ira.train.%d.eps", args->layer);
    const float *from = reference_tensor(&f->r, name, &allowed)->data;
    const int64_t rows = args->x->shape[0], heads = args->x->shape[1], width = args->x->shape[2];
    float *noise = malloc((size_t)(rows * heads * width) * sizeof *noise);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t h = 0; h < heads; h++)
            memcpy(noise + (i * heads + h) * width, from + (h * rows + i) * width,
                   (size_t)width * sizeof *noise);
    // Noise that was drawn may still be on its way to a GPU, so the reference's noise is
    // uploaded after it.
    test_device()->upload(args->x->data, noise, tensor_bytes(args->x));
    free(noise);
}

static int listen_run(void *self, struct graph *g, const struct site *site, struct site_args *args)
{
    struct fixture *f = self;
    char name[64];
    if (!f->run) return 0;
    if (site == SITE_NOISE) {
        give_noise(f, args);
        return 0;
    }
    f->received++;
    // With the prior as the paper prints it, the divergence and gate are those of "ira.train".
    const char *run = strcmp(f->run, "ira.printed") ? f->run : "ira.train";
    const int64_t rows = args->x->shape[0], heads = args->x->shape[1];
    const float *kl = args->x->data, *gate = args->v->data;
    float map[1024] = { 0 };
    for (int64_t i = 0; i < rows * heads; i++) {
        map[i / heads] += kl[i] / (float)heads;
        f->kl.plain += (double)kl[i] / (double)(rows * heads);
        f->kl.weighted += (double)gate[i] * (double)kl[i] / (double)(rows * heads);
    }
    snprintf(name, sizeof name, "%s.%d.kl_map", run, args->layer);
    reference_compare(&f->r, name, map, rows);
    snprintf(name, sizeof name, "%s.%d.kl", run, args->layer);
    if (safetensors_find(f->r.golden, name)) compare_heads(f, name, args->x);
    snprintf(name, sizeof name, "%s.%d.gate", run, args->layer);
    if (safetensors_find(f->r.golden, name)) compare_heads(f, name, args->v);
    return 0;
}

static void listen(struct fixture *f, struct hooks *hooks)
{
    const struct hook hook = { .wants = listen_wants, .run = listen_run, .self = f };
    hooks_add(hooks, &hook);
}

static char path[256];

// Answers chat "single" with these hooks and everything dumped.
static struct safetensors *answer(struct fixture *f, struct hooks *hooks)
{
    struct conversation c;
    struct err err;
    struct sinks sinks = { 0 };
    bool answered;
    atomic_bool cancel = false;
    reference_chat(&f->r, "single", &c);
    struct dump *dump = dump_new("*", path, &err);
    const struct hook hook = dump_hook(dump);
    hooks_add(hooks, &hook);
    const struct answer_options options = {
        .all_logits = true, .whole = true, .sequence = dump_sequence, .self = dump
    };
    set(f, "sample.max_tokens", "4");
    must(answer_run(&c, f->r.settings, hooks, &cancel, &options, &sinks, &answered, &err), &err);
    must(dump_finish(dump, &sinks, &err), &err);
    conversation_release(&c);
    struct safetensors *s = safetensors_open(path, &err);
    if (!s) fail_msg("%s", err.text);
    return s;
}

static const char *const folders[] = { GOLDEN_SEEING, "gemma3" };
enum { FOLDERS = sizeof folders / sizeof *folders };

// --- answers -------------------------------------------------------------------------------------

// Compares visual rows of attn.K.value [Hkv,N,d] with a golden tensor [Hkv,S,d].
static void compare_values(const struct fixture *f, const struct safetensors *s, int layer)
{
    char name[64];
    snprintf(name, sizeof name, "attn.%d.value", layer);
    const struct safetensor *v = safetensors_find(s, name);
    const int32_t *ids = safetensors_find(s, "ids")->data;
    const int64_t heads = v->shape[0], n = v->shape[1], d = v->shape[2];
    float *visual = malloc(v->bytes);
    int64_t count = 0;
    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < n; i++) {
            if (ids[i] != f->r.model->placeholder) continue;
            memcpy(visual + count, (const float *)v->data + (h * n + i) * d, (size_t)d * 4);
            count += d;
        }
    snprintf(name, sizeof name, "ira.inference.%d.z", layer);
    reference_compare(&f->r, name, visual, count);
    free(visual);
}

static void an_answer_equals_the_reference(void **state)
{
    for (int i = 0; i < FOLDERS; i++) {
        struct fixture f;
        struct hooks hooks = { 0 };
        open_model(&f, folders[i]);
        f.run = "ira.inference";
        attach(&f, &hooks, false);
        listen(&f, &hooks);
        struct safetensors *s = answer(&f, &hooks);
        assert_int_equal(f.received, f.layers);
        for (int k = 0; k < f.layers; k++) compare_values(&f, s, f.first + k);
        const struct safetensor *h = safetensors_find(s, "layer.out");
        reference_compare(&f.r, "ira.inference.h_last", h->data, (int64_t)h->bytes / 4);
        const struct safetensor *logits = safetensors_find(s, "logits");
        reference_compare(&f.r, "ira.inference.logits_last",
                          (const float *)logits->data + (logits->shape[0] - 1) * logits->shape[1],
                          logits->shape[1]);
        safetensors_close(s);
        close_model(&f);
    }
}

// With delta 0 and no noise, the answer equals that without the method, bit for bit.
static void an_untrained_head_changes_no_bit(void **state)
{
    struct fixture f;
    struct hooks none = { 0 }, with = { 0 };
    open_model(&f, folders[0]);
    f.fresh = true;
    struct safetensors *s = answer(&f, &none);
    const struct safetensor *t = safetensors_find(s, "step.logits");
    const size_t bytes = t->bytes;
    float *before = malloc(bytes);
    memcpy(before, t->data, bytes);
    safetensors_close(s);
    attach(&f, &with, false);
    assert_int_equal(with.count, 1);
    s = answer(&f, &with);
    assert_memory_equal(safetensors_find(s, "step.logits")->data, before, bytes);
    safetensors_close(s);
    free(before);
    close_model(&f);
}

// ira.sample draws the same noise with the same seed, and different noise with a different seed.
static void noise_depends_on_the_seed(void **state)
{
    struct fixture f;
    float *first = NULL;
    size_t bytes = 0;
    open_model(&f, folders[0]);
    set(&f, "ira.sample", "on");
    for (int i = 0; i < 3; i++) {
        struct hooks hooks = { 0 };
        set(&f, "sample.seed", i < 2 ? "1" : "2");
        attach(&f, &hooks, false);
        struct safetensors *s = answer(&f, &hooks);
        const struct safetensor *t = safetensors_find(s, "step.logits");
        if (!first) memcpy(first = malloc(bytes = t->bytes), t->data, t->bytes);
        assert_int_equal(t->bytes, bytes);
        assert_true(!memcmp(first, t->data, bytes) == (i < 2));
        safetensors_close(s);
    }
    free(first);
    close_model(&f);
}

// --- training ------------------------------------------------------------------------------------

// Parameters with gradients, as in training.
struct trained {
    const char *name[FOUND_MAX];
    struct tensor *tensor[FOUND_MAX];
    struct grad *grad[FOUND_MAX];
    int count;
};

static void train(void *self, const char *name, struct tensor *t)
{
    struct trained *p = self;
    assert_true(p->count < FOUND_MAX);
    p->name[p->count] = name;
    p->tensor[p->count] = t;
    t->grad = p->grad[p->count++] = grad_new(test_device(), tensor_count(t));
}

static void train_values(struct fixture *f, struct trained *p)
{
    static const char *const names[] = { "0", "1", "2", "3", "4", "5", "6" };
    for (int layer = f->first; layer < f->first + f->layers; layer++)
        train(p, names[layer],
              &f->r.model->decoder.layer[layer].attention.weight[ATTENTION_V].weight);
}

static void forget(struct trained *p)
{
    for (int i = 0; i < p->count; i++) {
        p->tensor[i]->grad = NULL;
        grad_free(test_device(), p->grad[i]);
    }
    p->count = 0;
}

// The gradient of "ira.2.head.bias" in run "ira.train" is the golden "ira.train.2.grad.head.bias".
// For value weights, only the norm of the gradient is compared.
static void compare_gradients(const struct fixture *f, const struct trained *p)
{
    char name[96];
    for (int i = 0; i < p->count; i++) {
        if (strncmp(p->name[i], "ira.", 4) != 0) {
            double sum = 0;
            for (int64_t k = 0; k < p->grad[i]->count; k++)
                sum += (double)p->grad[i]->data[k] * (double)p->grad[i]->data[k];
            const float norm = (float)sqrt(sum);
            snprintf(name, sizeof name, "%s.%s.grad_norm_value_weight", f->run, p->name[i]);
            reference_compare(&f->r, name, &norm, 1);
            continue;
        }
        snprintf(name, sizeof name, "%s.%c.grad.%s", f->run, p->name[i][4], p->name[i] + 6);
        reference_compare(&f->r, name, p->grad[i]->data, p->grad[i]->count);
    }
}

static void check_training(const char *folder, const char *run, const char *key, const char *value,
                           bool recompute)
{
    struct fixture f;
    struct conversation c;
    struct labels l;
    struct hooks hooks = { 0 };
    struct trained trained = { 0 };
    double loss;
    char name[64];
    open_model(&f, folder);
    if (key) set(&f, key, value);
    f.run = run;
    attach(&f, &hooks, true);
    listen(&f, &hooks);
    methods_progress(&f.methods, 0);
    methods_params(&f.methods, train, &trained);
    assert_int_equal(trained.count, (value && !strcmp(value, "global") ? 4 : 3) * f.layers);
    train_values(&f, &trained);
    reference_sample(&f.r, "train_a", &c, &l);
    f.tape.recompute = recompute;
    struct graph g = { .backend = test_device(),
                       .arena = &f.step,
                       .settings = f.r.settings,
                       .hooks = &hooks,
                       .tape = &f.tape };
    struct graph_kl kl = { 0 };
    const struct loss_item item = {
        .pictures = c.pictures, .picture_count = c.picture_count, .labels = &l, .kl = &kl
    };
    if (loss_batch(&g, f.r.model, &item, 1, 1, &loss) < 0) fail_msg("%s", g.err.text);
    const int passes = recompute ? 2 : 1;
    assert_int_equal(f.received, passes * f.layers);
    assert_true(fabs(kl.plain - f.kl.plain / passes) <= 1e-6 * kl.plain);
    assert_true(fabs(kl.weighted - f.kl.weighted / passes) <= 1e-6 * kl.plain);
    assert_true(!key || strcmp(key, "ira.gate") ? kl.weighted < kl.plain : kl.weighted == kl.plain);
    double allowed;
    snprintf(name, sizeof name, "%s.loss", run);
    const float *want = reference_tensor(&f.r, name, &allowed)->data;
    if (!(fabs(loss - (double)want[0]) <= allowed))
        fail_msg("%s: %s is %.8g, not %.8g", folder, name, loss, (double)want[0]);
    compare_gradients(&f, &trained);
    forget(&trained);
    labels_release(&l);
    conversation_release(&c);
    close_model(&f);
}

static void training_equals_the_reference(void **state)
{
    for (int i = 0; i < FOLDERS; i++)
        for (int recompute = 0; recompute < 2; recompute++) {
            check_training(folders[i], "ira.train", NULL, NULL, recompute);
            check_training(folders[i], "ira.printed", "ira.prior", "local-printed", recompute);
            check_training(folders[i], "ira.gate_off", "ira.gate", "off", recompute);
            check_training(folders[i], "ira.prior_global", "ira.prior", "global", recompute);
        }
}

// Two samples in one pass have the losses and gradients they have one by one.
static void samples_do_not_mix(void **state)
{
    struct fixture f;
    struct conversation c[2];
    struct labels l[2];
    struct loss_item items[2];
    struct hooks hooks = { 0 };
    struct trained one = { 0 }, both = { 0 };
    double single[2], joined[2];
    open_model(&f, folders[0]);
    attach(&f, &hooks, true);
    for (int i = 0; i < 2; i++) {
        reference_sample(&f.r, i ? "train_b" : "train_a", &c[i], &l[i]);
        items[i] = (struct loss_item){ .pictures = c[i].pictures,
                                       .picture_count = c[i].picture_count,
                                       .labels = &l[i],
                                       .number = 7 + (uint64_t)i };
    }
    struct graph g = { .backend = test_device(),
                       .arena = &f.step,
                       .settings = f.r.settings,
                       .hooks = &hooks,
                       .tape = &f.tape };
    methods_params(&f.methods, train, &one);
    for (int i = 0; i < 2; i++)
        if (loss_batch(&g, f.r.model, &items[i], 1, 0.5, &single[i]) < 0)
            fail_msg("%s", g.err.text);
    float *want[FOUND_MAX];
    for (int i = 0; i < one.count; i++) {
        want[i] = malloc((size_t)one.grad[i]->count * sizeof(float));
        memcpy(want[i], one.grad[i]->data, (size_t)one.grad[i]->count * sizeof(float));
    }
    forget(&one);
    methods_params(&f.methods, train, &both);
    if (loss_batch(&g, f.r.model, items, 2, 0.5, joined) < 0) fail_msg("%s", g.err.text);
    for (int i = 0; i < 2; i++) assert_true(fabs(single[i] - joined[i]) < 1e-5);
    for (int i = 0; i < both.count; i++) {
        for (int64_t k = 0; k < both.grad[i]->count; k++)
            assert_true(fabsf(want[i][k] - both.grad[i]->data[k]) < 2e-6f);
        free(want[i]);
    }
    forget(&both);
    for (int i = 0; i < 2; i++) {
        labels_release(&l[i]);
        conversation_release(&c[i]);
    }
    close_model(&f);
}

// --- settings ------------------------------------------------------------------------------------

static void bad_settings_are_refused(void **state)
{
    struct fixture f;
    struct err err;
    open_model(&f, folders[0]);
    struct method_env env = { .model = f.r.model,
                              .backend = test_device(),
                              .settings = f.r.settings };
    assert_int_equal(methods_check(method_of("ira.on"), &env, &err), -1);
    assert_non_null(strstr(err.text, "ira.2.head.weight"));
    env.training = true; // training begins with fresh parameters
    must(methods_check(method_of("ira.on"), &env, &err), &err);
    env.training = false;
    env.tensors = (struct method_tensors){ find, &f };
    must(methods_check(method_of("ira.on"), &env, &err), &err);
    set(&f, "ira.layers", "1-2");
    assert_int_equal(methods_check(method_of("ira.on"), &env, &err), -1);
    assert_non_null(strstr(err.text, "ira.1.head.weight"));
    set(&f, "ira.layers", "2-4");
    assert_int_equal(methods_check(method_of("ira.on"), &env, &err), -1);
    assert_non_null(strstr(err.text, "0 to 3"));
    set(&f, "ira.layers", "2-3");
    f.found[0].shape[1]++; // as if of another model
    assert_int_equal(methods_check(method_of("ira.on"), &env, &err), -1);
    assert_non_null(strstr(err.text, "does not fit"));
    assert_int_equal(settings_set(f.r.settings, "ira.beta", "nan", &err), -1);
    close_model(&f);
}

int main(void)
{
    const char *base = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/vlmsh-ira-%d.safetensors", base ? base : "/tmp", (int)getpid());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_equals_the_reference),
        cmocka_unit_test(an_untrained_head_changes_no_bit),
        cmocka_unit_test(noise_depends_on_the_seed),
        cmocka_unit_test(training_equals_the_reference),
        cmocka_unit_test(samples_do_not_mix),
        cmocka_unit_test(bad_settings_are_refused),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
