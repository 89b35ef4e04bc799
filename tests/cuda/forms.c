// tests/cuda/forms.c -- which fused forms (kernels/fused.h) the layers of many families use on a
// GPU, for a prompt, for a token and in training: a layer that falls back to single ops gives the
// same numbers more slowly, which no other test would notice.
#include <math.h>

#include "core/base/random.h"
#include "core/graph/tape.h"
#include "core/model/model.h"
#include "core/model/visual.h"
#include "core/ops/ops.h"
#include "tests/cuda/both.h"

// --- a device that records the forms it computed -------------------------------------------------

static char forms[4096];

static int note(const char *name, int status)
{
    if (status == 0) {
        const size_t used = strlen(forms);
        snprintf(forms + used, sizeof forms - used, "%s%s", used ? " " : "", name);
    }
    return status;
}

#define NOTED(name)                                       \
    static int noted_##name(const struct fused_##name *p) \
    {                                                     \
        return note(#name, gpu->fused->name(p));          \
    }
NOTED(qkv)
NOTED(attend)
NOTED(add)
NOTED(ffn)
NOTED(ffn_back)
NOTED(qkv_back)
NOTED(gelu)
NOTED(experts)
NOTED(latent)

static const struct fused noting = { .qkv = noted_qkv,
                                     .attend = noted_attend,
                                     .add = noted_add,
                                     .ffn = noted_ffn,
                                     .ffn_back = noted_ffn_back,
                                     .qkv_back = noted_qkv_back,
                                     .gelu = noted_gelu,
                                     .experts = noted_experts,
                                     .latent = noted_latent };
static struct backend device;

// --- a model on this device ----------------------------------------------------------------------

enum { PROMPT = 24 };

struct bench {
    struct model *model;
    struct kv kv;
    struct arena step;
    struct sequence sequence;
};

static void bench_open(struct bench *b, const char *name)
{
    struct err err = { 0 };
    char folder[64];
    device = *gpu;
    device.fused = &noting;
    *b = (struct bench){ .step = { .backend = &device } };
    snprintf(folder, sizeof folder, "tests/goldens/%s", name);
    b->model = model_load(folder, &device, NULL, &err);
    if (!b->model) fail_msg("%s", err.text);
    decoder_cache(&b->model->decoder, &device, &b->kv);
    kv_set_dtype(&b->kv, DTYPE_BF16);
    sequence_init(&b->sequence, PROMPT, 1);
    for (int64_t i = 0; i < PROMPT; i++)
        b->sequence.ids[i] = (int32_t)(random_bits(7, RANDOM_WEIGHTS, (uint64_t)i) % 200);
}

static void bench_close(struct bench *b)
{
    sequence_release(&b->sequence);
    kv_release(&b->kv);
    arena_release(&b->step);
    model_free(b->model);
}

// Expects the forms `layer` in each layer, but `first` in the first layer if it differs.
static void compare_forms(const struct bench *b, const char *name, const char *what,
                          const char *first, const char *layer)
{
    char want[sizeof forms] = "";
    for (int l = 0; l < b->model->decoder.config.layers; l++) {
        const size_t used = strlen(want);
        snprintf(want + used, sizeof want - used, "%s%s", used ? " " : "",
                 l == 0 && first ? first : layer);
    }
    if (strcmp(forms, want) != 0) fail_msg("%s, %s: %s, not %s", name, what, forms, want);
    forms[0] = '\0';
}

static struct graph graph_of(struct bench *b, struct tape *tape)
{
    return (
        struct graph){ .backend = &device, .arena = &b->step, .tape = tape, .matmul = MATMUL_BF16 };
}

static void pass(struct bench *b, bool prefill)
{
    struct graph g = graph_of(b, NULL);
    struct decoder *d = &b->model->decoder;
    struct tensor *logits;
    struct tensor *h = splice(&g, d, &b->sequence, b->kv.layer[0].rows, NULL, NULL, 0);
    forms[0] = '\0';
    if (decoder_forward(&g, d, &b->kv, &b->sequence, h, LOGITS_LAST, prefill, &logits) < 0)
        fail_msg("%s", g.err.text);
    arena_reset(&b->step, (struct arena_mark){ 0 });
}

// --- training ------------------------------------------------------------------------------------

enum { GAINS = 4 };

// The gains of a layer's norms.
static int gains_of(struct decoder_layer *w, struct tensor *gain[GAINS])
{
    struct tensor *all[] = { &w->attention.before, &w->attention.after, &w->ffn.before,
                             &w->ffn.after };
    int count = 0;
    for (int i = 0; i < GAINS; i++)
        if (all[i]->data) gain[count++] = all[i];
    return count;
}

static void train_gains(struct bench *b, bool on)
{
    struct tensor *gain[GAINS];
    struct decoder *d = &b->model->decoder;
    for (int l = 0; l < d->config.layers; l++)
        for (int i = gains_of(&d->layer[l], gain) - 1; i >= 0; i--) {
            if (!on) grad_free(&device, gain[i]->grad);
            gain[i]->grad = on ? grad_new(&device, tensor_count(gain[i])) : NULL;
        }
}

// Forward and backward pass. Only the forward forms are counted; fused_back.c tests the backward
// forms.
static void train(struct bench *b)
{
    struct tape tape = { .backend = &device };
    struct graph g = graph_of(b, &tape);
    struct decoder *d = &b->model->decoder;
    struct tensor *out;
    float loss[PROMPT];
    float weight[PROMPT];
    for (int i = 0; i < PROMPT; i++) weight[i] = 1;
    train_gains(b, true);
    forms[0] = '\0';
    struct tensor *h = splice(&g, d, &b->sequence, 0, NULL, NULL, 0);
    if (decoder_forward(&g, d, NULL, &b->sequence, h, LOGITS_HIDDEN, true, &out) < 0)
        fail_msg("%s", g.err.text);
    const size_t forward = strlen(forms);
    out = op_rmsnorm(&g, out, graph_weight(&d->norm), (float)d->config.eps);
    if (op_cross_entropy(&g, out, &d->head, 0, b->sequence.ids, weight, loss) < 0 ||
        tape_backward(&g) < 0)
        fail_msg("%s", g.err.text);
    forms[forward] = '\0';
    train_gains(b, false);
    tape_release(&tape);
    arena_reset(&b->step, (struct arena_mark){ 0 });
}

// --- families ------------------------------------------------------------------------------------

static const struct family_forms {
    const char *folder;
    const char *token, *prompt, *training;
    // The forms of the first layer, if they differ.
    struct {
        const char *token, *prompt, *training;
    } first;
} families[] = {
    { "llama-3.2", "qkv add ffn", "qkv attend ffn", "qkv add ffn", { 0 } },
    { "qwen2", "qkv add ffn", "qkv attend ffn", "qkv add ffn", { 0 } },
    { "llava-1.5", "qkv add ffn", "qkv attend ffn", "", { 0 } }, // f16 has no backward form
    { "llava-onevision", "qkv add ffn", "", "", { 0 } },         // f32 weights: only single rows
    { "llava-next", "qkv add ffn", "qkv attend ffn", "qkv add ffn", { 0 } },
    { "qwen2.5-vl", "qkv add ffn", "qkv attend ffn", "qkv add ffn", { 0 } },
    { "glm-4.1v", "qkv add ffn", "qkv attend ffn", "qkv add ffn", { 0 } },
    { "internvl3", "qkv add ffn", "qkv add ffn", "qkv add ffn", { 0 } }, // heads of width 12
    { "internvl2-internlm2", "qkv add ffn", "qkv attend ffn", "qkv add ffn", { 0 } },
    { "internvl2.5-qwen2", "qkv add ffn", "qkv add ffn", "qkv add ffn", { 0 } }, // width 12
    { "internvl3.5", "qkv add ffn", "qkv attend ffn", "qkv add ffn", { 0 } },    // normed heads
    { "kimi-text", "latent experts", "add", "add", { "latent ffn", "add ffn", "add ffn" } },
    { "kimi-vl", "latent experts", "add", "add", { "latent ffn", "add ffn", "add ffn" } },
};

static void families_use_their_fused_forms(void **state)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const struct family_forms *f = &families[i];
        struct bench b;
        bench_open(&b, f->folder);
        pass(&b, true);
        compare_forms(&b, f->folder, "a prompt", f->first.prompt, f->prompt);
        sequence_append(&b.sequence, 5);
        pass(&b, false);
        compare_forms(&b, f->folder, "a token", f->first.token, f->token);
        b.sequence.n = PROMPT;
        train(&b);
        compare_forms(&b, f->folder, "training", f->first.training, f->training);
        bench_close(&b);
    }
}

// --- encoders ------------------------------------------------------------------------------------

enum { SIDE = 8 }; // patches along each side of a picture

// The features of a picture of noise, which the caller frees.
static float *features(struct bench *b, int64_t *count)
{
    struct graph g = graph_of(b, NULL);
    const struct vision *v = &b->model->vision;
    const int64_t rows = SIDE * SIDE, width = v->patch.weight.shape[1];
    struct tensor noise = noise_tensor(2, rows, width, 0, 5);
    const int64_t shape[] = { rows, width };
    const struct vision_picture picture = { .pixels =
                                                graph_upload(&g, DTYPE_F32, 2, shape, noise.data),
                                            .tiles = 1,
                                            .rows = SIDE,
                                            .cols = SIDE };
    forms[0] = '\0';
    struct tensor *x = vision_forward(&g, v, &picture, 1, NULL);
    if (!x) {
        fail_msg("%s", g.err.text);
        return NULL;
    }
    float *host = malloc(tensor_bytes(x));
    *count = tensor_count(x);
    gpu->download(host, x->data, tensor_bytes(x));
    arena_reset(&b->step, (struct arena_mark){ 0 });
    free(noise.data);
    return host;
}

// Features with and without fused forms agree up to bf16 rounding.
static void encoders_use_their_fused_forms(void **state)
{
    static const struct {
        const char *folder, *block;
    } encoders[] = { { "qwen2.5-vl", "ffn" }, // heads of width 12

                     { "glm-4.1v", "qkv attend ffn" },
                     { "kimi-vl", "gelu" } };
    for (size_t i = 0; i < sizeof encoders / sizeof *encoders; i++) {
        struct bench b;
        char want[sizeof forms] = "";
        int64_t count;
        double apart = 0, size = 0;
        bench_open(&b, encoders[i].folder);
        float *got = features(&b, &count);
        for (int l = 0; l < vision_depth(&b.model->vision.config); l++) {
            const size_t used = strlen(want);
            snprintf(want + used, sizeof want - used, "%s%s", used ? " " : "", encoders[i].block);
        }
        assert_string_equal(forms, want);
        device.fused = NULL;
        float *plain = features(&b, &count);
        for (int64_t n = 0; n < count; n++) {
            apart += pow((double)(got[n] - plain[n]), 2);
            size += pow((double)plain[n], 2);
        }
        if (!(sqrt(apart) <= 0.02 * sqrt(size)))
            fail_msg("%s: %g of %g apart", encoders[i].folder, sqrt(apart), sqrt(size));
        free(got);
        free(plain);
        bench_close(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(families_use_their_fused_forms),
                                        cmocka_unit_test(encoders_use_their_fused_forms) };
    return cmocka_run_group_tests(tests, open_both, NULL);
}
