// tests/core/model/families/training.c -- core/eval/loss.c over the whole model: losses and
// gradients of the two training samples against those that PyTorch computed; ways of computing that
// change no bit; samples in one pass; a sample without an answer.
#include "core/base/text.h"
#include "core/eval/loss.h"
#include "core/graph/tape.h"
#include "tests/core/model/families/reference.h"
#include "tests/device.h"

enum { WEIGHTS_MAX = 256 };

// A model with its golden numbers; gradients have the order of names[].
struct fixture {
    struct reference r;
    struct tape tape;
    struct arena step;
    enum matmul_mode matmul;
    const char *names[WEIGHTS_MAX];
    struct grad *grads[WEIGHTS_MAX];
    int count;
};

static void open_model(struct fixture *f, const char *name)
{
    *f = (struct fixture){ .tape = { .backend = test_device() },
                           .step = { .backend = test_device() } };
    reference_open(&f->r, name);
}

static void close_model(struct fixture *f)
{
    for (int i = 0; i < f->count; i++) grad_free(test_device(), f->grads[i]);
    tape_release(&f->tape);
    arena_release(&f->step);
    reference_close(&f->r);
}

// --- weights by name -----------------------------------------------------------------------------

static struct tensor *weight(struct model *m, const char *name)
{
    const struct weight *w = weights_find(&m->weights, name);
    if (!w) fail_msg("no weight is called %s", name);
    return w->tensor;
}

// Gives the named weight a gradient.
static void train(struct fixture *f, const char *name)
{
    struct tensor *w = weight(f->r.model, name);
    assert_true(f->count < WEIGHTS_MAX);
    w->grad = grad_new(test_device(), tensor_count(w));
    f->names[f->count] = name;
    f->grads[f->count++] = w->grad;
    model_weights_changed(f->r.model);
}

static void train_list(struct fixture *f, const char *list)
{
    const cJSON *name;
    cJSON_ArrayForEach(name, json_get(json_get(f->r.json, "training"), list))
        train(f, name->valuestring);
    assert_true(f->count > 0);
}

static void forget(struct fixture *f)
{
    for (int i = 0; i < f->count; i++)
        memset(f->grads[i]->data, 0, (size_t)f->grads[i]->count * sizeof(float));
}

// --- samples -------------------------------------------------------------------------------------

static void open_sample(struct fixture *f, char which, struct conversation *c, struct labels *l)
{
    char name[] = { 't', 'r', 'a', 'i', 'n', '_', which, 0 };
    reference_sample(&f->r, name, c, l);
    assert_int_equal(c->message_count, 2);
}

// Adds `share` times the gradients of a sample's loss; returns the loss.
static double run(struct fixture *f, char which, double share, bool recompute)
{
    struct conversation c;
    struct labels l;
    double loss;
    open_sample(f, which, &c, &l);
    f->tape.recompute = recompute;
    struct graph g = {
        .backend = test_device(), .arena = &f->step, .settings = f->r.settings, .matmul = f->matmul
    };
    if (f->count) g.tape = &f->tape;
    if (loss_sample(&g, f->r.model, c.pictures, c.picture_count, &l, share, &loss) < 0)
        fail_msg("%s", g.err.text);
    assert_int_equal(f->step.used, 0);
    assert_int_equal(f->tape.count, 0);
    labels_release(&l);
    conversation_release(&c);
    return loss;
}

static const char *const folders[] = { GOLDEN_TRAINED, "qwen2-vl",     "qwen3-vl-moe",
                                       "glm-4.5v",     "qwen3.5",      "qwen3.5-moe",
                                       "glm-ocr",      "minicpm-v-4.6" };

// Loops over the models; opens and closes each.
#define FOR_EACH_MODEL(f)                                                           \
    for (size_t folder_ = 0; folder_ < sizeof folders / sizeof *folders; folder_++) \
        for (bool open_ = (open_model(&(f), folders[folder_]), true); open_;        \
             open_ = false, close_model(&(f)))

// With sanitizers, comparisons of bits run on one model of each kind of layers: sanitizers see the
// code of the others in the comparisons with PyTorch.
static bool left_out(const struct fixture *f)
{
#ifdef __SANITIZE_ADDRESS__
    static const char *const kinds[] = { "llava-1.5", "kimi-vl", "gemma4", "qwen3.5-moe", NULL };
    return !text_listed(kinds, f->r.folder);
#else
    return false;
#endif
}

// The loss is the reference's without a tape and with one, whether activations are kept or
// recomputed.
static void test_loss(void **state)
{
    (void)state;
    struct fixture f;
    FOR_EACH_MODEL(f)
    for (char which = 'a'; which <= 'b'; which++) {
        char name[64];
        const cJSON *norms = json_get(json_get(f.r.json, "training"), "layernorm-simple_trainable");
        const char *norm = cJSON_GetArrayItem(norms, 3)->valuestring;
        snprintf(name, sizeof name, "train.%c.loss", which);
        float loss = (float)run(&f, which, 1, false);
        reference_compare(&f.r, name, &loss, 1);
        if (f.count == 0) train(&f, norm);
        loss = (float)run(&f, which, 1, false);
        reference_compare(&f.r, name, &loss, 1);
        loss = (float)run(&f, which, 1, true);
        reference_compare(&f.r, name, &loss, 1);
        for (int i = 0; i < f.count; i++) grad_free(test_device(), f.grads[i]);
        weight(f.r.model, norm)->grad = NULL;
        f.count = 0;
    }
}

static void compare_sample(struct fixture *f, char which)
{
    for (int i = 0; i < f->count; i++) {
        char name[256];
        snprintf(name, sizeof name, "train.%c.grad.%s", which, f->names[i]);
        if (safetensors_find(f->r.golden, name))
            reference_compare(&f->r, name, f->grads[i]->data, f->grads[i]->count);
    }
}

static void test_norms_only(void **state)
{
    (void)state;
    struct fixture f;
    FOR_EACH_MODEL(f)
    {
        train_list(&f, "layernorm-simple_trainable");
        for (char which = 'a'; which <= 'b'; which++) {
            forget(&f);
            run(&f, which, 1, which == 'b');
            compare_sample(&f, which);
        }
    }
}

// Trains norms, projector, embedding and, unless it is tied, the head.
static void test_layernorm(void **state)
{
    (void)state;
    struct fixture f;
    FOR_EACH_MODEL(f)
    {
        train_list(&f, "layernorm_trainable");
        for (char which = 'a'; which <= 'b'; which++) {
            forget(&f);
            run(&f, which, 1, which == 'a');
            compare_sample(&f, which);
        }
    }
}

// Trains everything but the encoder; compares the norms of the gradients of both samples' mean
// loss.
static void test_full(void **state)
{
    (void)state;
    struct fixture f;
    FOR_EACH_MODEL(f)
    {
        float norms[WEIGHTS_MAX];
        train_list(&f, "full_grad_norm_names");
        run(&f, 'a', 0.5, false);
        run(&f, 'b', 0.5, true);
        for (int i = 0; i < f.count; i++) {
            double sum = 0;
            for (int64_t k = 0; k < f.grads[i]->count; k++)
                sum += (double)f.grads[i]->data[k] * (double)f.grads[i]->data[k];
            norms[i] = (float)sqrt(sum);
        }
        reference_compare(&f.r, "train.full.grad_norms", norms, f.count);
    }
}

static float *copy_gradients(const struct fixture *f)
{
    int64_t n = 0;
    for (int i = 0; i < f->count; i++) n += f->grads[i]->count;
    float *all = malloc((size_t)n * sizeof *all), *to = all;
    for (int i = 0; i < f->count; i++) {
        memcpy(to, f->grads[i]->data, (size_t)f->grads[i]->count * sizeof *to);
        to += f->grads[i]->count;
    }
    return all;
}

// Fails unless the gradients equal `want` up to this share of their size.
static void compare_gradients(const struct fixture *f, const float *want, double share)
{
    for (int i = 0; i < f->count; i++) {
        double difference = 0, size = 0;
        for (int64_t k = 0; k < f->grads[i]->count; k++, want++) {
            difference += pow((double)(f->grads[i]->data[k] - *want), 2);
            size += pow((double)*want, 2);
        }
        assert_true(size > 0);
        if (!(sqrt(difference) <= share * sqrt(size)))
            fail_msg("%s: gradient of %s differs by %g of %g", f->r.folder, f->names[i],
                     sqrt(difference), sqrt(size));
    }
}

// Summing in a different order changes gradients by up to 5.2e-5 of their size in gemma4, 2.6e-5 in
// qwen3.5, 1.2e-5 in glm-4.5v (the bias of keys: a shift of all keys changes attention only where
// they are rotated, so most of this gradient cancels) and 1e-5 in gemma4-moe; by 7e-6 at most in
// the other models.
static double share_of(const struct fixture *f)
{
    static const char *const large[] = { "gemma4", "qwen3.5", "glm-4.5v", "gemma4-moe", NULL };
    return text_listed(large, f->r.folder) ? 1e-4 : 1e-5;
}

// bf16 products change gradients by up to 0.21 of their size (rounding errors are large in small
// models), and by 0.74 in qwen3.5: the outputs of its small recurrent heads are often near zero
// before their norm, so that already the last bit of its bf16 weights changes logits by half of the
// largest. A gradient that is missing or has the wrong sign would differ by a share of 1 or more.
static double rounded_share_of(const struct fixture *f)
{
    return strcmp(f->r.folder, "qwen3.5") ? 0.25 : 0.9;
}

static void same_gradients(const struct fixture *f, const float *want)
{
    for (int i = 0; i < f->count; want += f->grads[i++]->count)
        assert_memory_equal(want, f->grads[i]->data, (size_t)f->grads[i]->count * sizeof(float));
}

// With bf16 products, a GPU computes the parts of a layer in one call if only norms are trained:
// gradients are close to the exact ones, and have the same bits whatever is kept.
static void test_norms_rounded(void **state)
{
    (void)state;
    struct fixture f;
    FOR_EACH_MODEL(f)
    {
        if (left_out(&f)) continue;
        train_list(&f, "layernorm-simple_trainable");
        run(&f, 'a', 1, false);
        float *want = copy_gradients(&f);
        f.matmul = MATMUL_BF16;
        forget(&f);
        run(&f, 'a', 1, false);
        compare_gradients(&f, want, rounded_share_of(&f));
        free(want);
        want = copy_gradients(&f);
        const size_t most = f.step.peak;
        for (int way = 0; way < 2; way++) {
            forget(&f);
            f.tape.keep = way ? most / 2 : 0; // most / 2: keeps some layers; 0: none
            run(&f, 'a', 1, true);
            same_gradients(&f, want);
        }
        free(want);
    }
}

// Trains some weights of the encoder: patches, positions, a matrix, a bias and, if it has them, the
// class token and a layer scale.
static void train_encoder(struct fixture *f)
{
    struct vision *v = &f->r.model->vision;
    struct tensor *encoder[] = { &v->patch.weight,      &v->position,    &v->layer[0].q.weight,
                                 &v->layer[0].fc1.bias, &v->class_token, &v->layer[0].scale1 };
    for (size_t i = 0; i < sizeof encoder / sizeof *encoder; i++) {
        if (!encoder[i]->data) continue;
        encoder[i]->grad = grad_new(test_device(), tensor_count(encoder[i]));
        f->names[f->count] = "encoder";
        f->grads[f->count++] = encoder[i]->grad;
    }
}

// Recomputing layers, keeping inputs on the host and changing the number of threads change no bit
// of a gradient, including the encoder's.
static void test_same_bits(void **state)
{
    (void)state;
    struct fixture f;
    FOR_EACH_MODEL(f)
    {
        if (left_out(&f)) continue;
        float *first[WEIGHTS_MAX];
        train_list(&f, "full_grad_norm_names");
        train_encoder(&f);
        run(&f, 'a', 1, false);
        for (int i = 0; i < f.count; i++) {
            size_t bytes = (size_t)f.grads[i]->count * sizeof(float);
            first[i] = malloc(bytes);
            memcpy(first[i], f.grads[i]->data, bytes);
            double size = 0;
            for (int64_t k = 0; k < f.grads[i]->count; k++) size += fabs((double)first[i][k]);
            assert_true(size > 0);
        }
        size_t most = f.step.peak;
        for (int way = 0; way < 5; way++) {
            forget(&f);
            if (way == 0) test_device()->set_threads(1);
            f.tape.keep = way % 2 == 0 ? most / 2 : 0; // most / 2: keeps some layers; 0: none
            f.tape.offloads.on = way > 2 && test_device()->offload;
            f.step.peak = 0;
            run(&f, 'a', 1, way > 0);
            assert_true(way == 0 ? f.step.peak == most : f.step.peak < most);
            test_device()->set_threads(0);
            for (int i = 0; i < f.count; i++)
                assert_memory_equal(first[i], f.grads[i]->data,
                                    (size_t)f.grads[i]->count * sizeof(float));
        }
        for (int i = 0; i < f.count; i++) free(first[i]);
    }
}

// The losses and gradients of samples in one pass, each with weight one half: a and b or, with
// `turned`, b, a and b.
static void run_batch(struct fixture *f, bool recompute, bool turned, double *losses)
{
    struct conversation c[3];
    struct labels l[3];
    struct loss_item items[3];
    int count = turned ? 3 : 2;
    for (int i = 0; i < count; i++) {
        open_sample(f, (i == 1) != turned ? 'b' : 'a', &c[i], &l[i]);
        items[i] = (struct loss_item){ .pictures = c[i].pictures,
                                       .picture_count = c[i].picture_count,
                                       .labels = &l[i] };
    }
    f->tape.recompute = recompute;
    struct graph g = { .backend = test_device(), .arena = &f->step, .settings = f->r.settings };
    if (f->count) g.tape = &f->tape;
    if (loss_batch(&g, f->r.model, items, (size_t)count, 0.5, losses) < 0)
        fail_msg("%s", g.err.text);
    assert_int_equal(f->step.used, 0);
    assert_int_equal(f->tape.count, 0);
    for (int i = 0; i < count; i++) {
        labels_release(&l[i]);
        conversation_release(&c[i]);
    }
}

// Samples joined in one pass give the losses and gradients of single passes, including the
// encoder's, and the same bits each time, whatever is kept.
static void test_batch(void **state)
{
    (void)state;
    struct fixture f;
    FOR_EACH_MODEL(f)
    {
        train_list(&f, "full_grad_norm_names");
        train_encoder(&f);
        double one[3], together[3], again[3];
        one[0] = run(&f, 'a', 0.5, false);
        one[1] = run(&f, 'b', 0.5, false);
        float *want = copy_gradients(&f);
        forget(&f);
        run_batch(&f, false, false, together);
        compare_gradients(&f, want, share_of(&f));
        free(want);
        want = copy_gradients(&f);
        for (int i = 0; i < 2; i++) assert_true(fabs(one[i] - together[i]) < 1e-5);
        forget(&f);
        run_batch(&f, true, false, again);
        float *same = copy_gradients(&f);
        for (int64_t i = 0, n = 0; i < f.count; n += f.grads[i++]->count)
            assert_memory_equal(want + n, same + n, (size_t)f.grads[i]->count * sizeof(float));
        free(want);
        free(same);

        forget(&f);
        run(&f, 'a', 0.5, false);
        run(&f, 'b', 0.5, false);
        run(&f, 'b', 0.5, false);
        want = copy_gradients(&f);
        forget(&f);
        run_batch(&f, false, true, together);
        compare_gradients(&f, want, share_of(&f));
        free(want);
        assert_true(fabs(together[0] - one[1]) < 1e-5 && fabs(together[1] - one[0]) < 1e-5);
        assert_true(fabs(together[2] - one[1]) < 1e-5);

        // Memory that only a long pass needs is released when short passes follow.
        uint64_t most = f.tape.bytes;
        for (int i = 0; i < 4; i++) run(&f, 'a', 1, false);
        assert_true(f.tape.bytes < most);
    }
}

// A sample without an answer is refused.
static void test_no_answer(void **state)
{
    (void)state;
    struct fixture f;
    struct conversation c;
    struct labels l;
    struct err err;
    double loss;
    open_model(&f, "llava-1.5");
    conversation_init(&c, test_device());
    conversation_set_model(&c, f.r.model);
    message_add_text(conversation_add(&c, ROLE_USER), "What?");
    must(labels_make(&l, c.messages, c.message_count, NULL, 0, c.model, f.r.settings, &err), &err);
    assert_int_equal(l.trained, 0);
    struct graph g = { .backend = test_device(), .arena = &f.step, .settings = f.r.settings };
    assert_int_equal(loss_sample(&g, f.r.model, NULL, 0, &l, 1, &loss), -1);
    assert_non_null(strstr(g.err.text, "no trained token"));
    labels_release(&l);
    conversation_release(&c);
    close_model(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loss),       cmocka_unit_test(test_norms_rounded),
        cmocka_unit_test(test_norms_only), cmocka_unit_test(test_layernorm),
        cmocka_unit_test(test_full),       cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_batch),      cmocka_unit_test(test_no_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
