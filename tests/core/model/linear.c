// tests/core/model/linear.c -- core/model/linear.c: layers with LoRA, in parts, and with weights
// whose rows have another order, against plain loops. core/model/weights.c: weights are found under
// several spellings of their names, and the list agrees with the file.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/dtype.h"
#include "core/files/safetensors.h"
#include "core/model/families/family.h"
#include "core/model/linear.h"
#include "tests/core/quick.h"
#include "tests/device.h"
#include "tests/kernels/close.h"

enum { ROWS = 5, IN = 7, OUT = 6, RANK = 2 };

static float value(int i)
{
    return (float)sin(i * 1.7 + 0.3);
}

static struct tensor filled(float *data, int64_t n, int64_t m, int from)
{
    for (int i = 0; i < (int)(n * m); i++) data[i] = value(from + i);
    return (struct tensor){ .dtype = DTYPE_F32, .rank = 2, .shape = { n, m }, .data = data };
}

// A layer with a LoRA, and the rows that go through it.
struct layer {
    float x_data[ROWS * IN], w_data[OUT * IN], a_data[RANK * IN], b_data[OUT * RANK],
        bias_data[OUT];
    struct tensor x;
    struct lora lora;
    struct linear w;
};

static void fill_layer(struct layer *l)
{
    l->x = filled(l->x_data, ROWS, IN, 0);
    l->lora = (struct lora){ .a = filled(l->a_data, RANK, IN, 500),
                             .b = filled(l->b_data, OUT, RANK, 900),
                             .scale = 1.5f };
    l->w = (struct linear){ .weight = filled(l->w_data, OUT, IN, 100),
                            .bias = filled(l->bias_data, OUT, 1, 300),
                            .lora = &l->lora };
    l->w.bias.rank = 1;
}

// A layer with LoRA equals one whose weight includes LoRA's product.
static void test_lora(void **state)
{
    (void)state;
    struct layer l;
    fill_layer(&l);
    struct arena arena = { .backend = test_device() };
    struct graph g = { .backend = test_device(), .arena = &arena };
    struct tensor *y = linear_forward(&g, &l.x, &l.w);
    assert_non_null(y);
    for (int i = 0; i < ROWS; i++)
        for (int o = 0; o < OUT; o++) {
            double sum = l.bias_data[o];
            for (int e = 0; e < IN; e++) {
                double merged = l.w_data[o * IN + e];
                for (int r = 0; r < RANK; r++)
                    merged += 1.5 * l.b_data[o * RANK + r] * l.a_data[r * IN + e];
                sum += merged * l.x_data[i * IN + e];
            }
            assert_true(fabs(((float *)y->data)[i * OUT + o] - sum) < 1e-5);
        }
    arena_release(&arena);
}

// Products with parts of a weight's rows equal those columns of the full product, with LoRA too.
static void test_apart(void **state)
{
    (void)state;
    enum { PARTS = 3, WIDTH = OUT / PARTS };
    struct layer l;
    fill_layer(&l);
    for (int adapted = 0; adapted < 2; adapted++) {
        struct arena arena = { .backend = test_device() };
        struct graph g = { .backend = test_device(), .arena = &arena };
        struct tensor *part[PARTS];
        l.w.lora = adapted ? &l.lora : NULL;
        const struct tensor *whole = linear_forward(&g, &l.x, &l.w);
        linear_apart(&g, &l.x, &l.w, PARTS, part);
        for (int p = 0; p < PARTS; p++) {
            assert_non_null(part[p]);
            assert_int_equal(part[p]->shape[1], WIDTH);
            for (int i = 0; i < ROWS * WIDTH; i++)
                assert_float_equal(((float *)part[p]->data)[i],
                                   ((float *)whole->data)[i / WIDTH * OUT + p * WIDTH + i % WIDTH],
                                   1e-6);
        }
        arena_release(&arena);
    }
}

static void test_names(void **state)
{
    (void)state;
    struct weights w = { 0 };
    weights_add(&w, "language_model.model.layers.1.mlp.up_proj.weight")->rank = 1;
    weights_add(&w, "vision_tower.vision_model.encoder.layers.1.mlp.fc1.weight")->rank = 2;
    weights_add(&w, "language_model.lm_head.weight")->rank = 3;
    weights_add(&w, "model.remodel.weight")->rank = 4;
    const struct {
        const char *name;
        int found;
    } cases[] = {
        { "language_model.model.layers.1.mlp.up_proj.weight", 1 },
        { "model.language_model.layers.1.mlp.up_proj.weight", 1 },
        { "layers.1.mlp.up_proj.weight", 1 },
        { "model.vision_tower.encoder.layers.1.mlp.fc1.weight", 2 },
        { "vision_tower.encoder.layers.1.mlp.fc1.weight", 2 },
        { "lm_head.weight", 3 },
        { "remodel.weight", 4 },
        { "re.weight", 0 },
        { "weight", 0 },
        { "", 0 },
        { "layers.1.mlp.up_proj", 0 },
        { "layers.1.mlp.up_proj.weight.x", 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct weight *found = weights_find(&w, cases[i].name);
        assert_int_equal(found ? found->rank : 0, cases[i].found);
    }
    char *plain = weight_plain_name("model.vision_tower.vision_model.model.weight");
    assert_string_equal(plain, "vision_tower.weight");
    free(plain);
    weights_release(&w);
}

// Adapters name each of a model's experts; finding one must not take longer if there are many.
static void test_many_weights(void **state)
{
    (void)state;
    enum { MANY = 30000 };
    static const char *const names[] = { "model.layers.0.mlp.experts.%d.up_proj.weight",
                                         "layers.0.mlp.experts.%d.up_proj.weight" };
    struct weights w = { 0 };
    char name[80];
    const clock_t before = clock();
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, names[0], i);
        weights_add(&w, name)->rank = i;
    }
    for (int i = 0; i < 2 * MANY; i++) {
        snprintf(name, sizeof name, names[i % 2], i / 2);
        assert_int_equal(weights_find(&w, name)->rank, i / 2);
    }
    const double seconds = processor_seconds(before);
    weights_release(&w);
    if (seconds > QUICK) fail_msg("%d weights took %g s", MANY, seconds);
}

// A weight whose rows are in a different order gives the same products, with a bias and LoRA in the
// usual order.
static void test_order(void **state)
{
    (void)state;
    enum { WIDE = 3, HEAD = 6, ALL = 2 * HEAD };
    static const struct head_order orders[] = { { HEAD, HEAD }, { HEAD, 4 }, { HEAD, -4 } };
    // rows[][i]: the row of the file that is row i of a head.
    static const int rows[][HEAD] = { { 0, 2, 4, 1, 3, 5 },
                                      { 0, 2, 1, 3, 4, 5 },
                                      { 0, 2, 1, 3, 4, 5 } };
    float x[WIDE] = { 1, -2, 0.5F }, usual[ALL * WIDE], file[ALL * WIDE], bias[ALL],
          a[WIDE] = { 1, 2, 3 }, b[ALL];
    for (int i = 0; i < ALL * WIDE; i++) usual[i] = (float)(i * 7 % 11) - 5;
    for (int i = 0; i < ALL; i++) bias[i] = (float)i, b[i] = (float)(i % 5);
    for (size_t o = 0; o < sizeof orders / sizeof *orders; o++) {
        for (int i = 0; i < ALL; i++)
            memcpy(file + (i / HEAD * HEAD + rows[o][i % HEAD]) * WIDE, usual + (size_t)i * WIDE,
                   sizeof x);
        struct lora lora = { .a = { .data = a, .rank = 2, .shape = { 1, WIDE } },
                             .b = { .data = b, .rank = 2, .shape = { ALL, 1 } },
                             .scale = 0.5F };
        struct linear w = {
            .weight = { .data = file, .rank = 2, .shape = { ALL, WIDE }, .order = orders[o] },
            .bias = { .data = bias, .rank = 1, .shape = { ALL } },
            .lora = &lora
        };
        struct arena arena = { .backend = test_device() };
        struct graph g = { .backend = arena.backend, .arena = &arena };
        struct tensor *in = graph_upload(&g, DTYPE_F32, 2, (int64_t[]){ 1, WIDE }, x);
        struct tensor *y = linear_forward(&g, in, &w);
        assert_non_null(y);
        for (int i = 0; i < ALL; i++) {
            float want = bias[i] + 0.5F * b[i] * (x[0] * a[0] + x[1] * a[1] + x[2] * a[2]);
            for (int k = 0; k < WIDE; k++) want += usual[i * WIDE + k] * x[k];
            assert_true(fabsf(((float *)y->data)[i] - want) < 1e-5F);
        }
        rows_reorder(file, ALL, WIDE, orders[o]);
        assert_memory_equal(file, usual, sizeof usual);
        arena_release(&arena);
    }
}

// Each weight of a loaded model has the name and shape of a tensor in the file.
static void test_bound(void **state)
{
    (void)state;
    static const char *const folders[] = { "llava-1.5", "llava-siglip-llama3", "qwen2" };
    for (size_t f = 0; f < sizeof folders / sizeof *folders; f++) {
        char folder[64];
        struct err err;
        snprintf(folder, sizeof folder, "tests/goldens/%s", folders[f]);
        struct model *m = model_load(folder, test_device(), NULL, &err);
        assert_non_null(m);
        assert_true(m->weights.count > 10);
        for (size_t i = 0; i < m->weights.count; i++) {
            const struct weight *w = &m->weights.list[i];
            const struct safetensor *t = checkpoint_find(m->checkpoint, w->name);
            assert_non_null(t);
            assert_int_equal(t->rank, w->rank);
            for (int r = 0; r < w->rank; r++) assert_true(t->shape[r] == w->shape[r]);
            assert_ptr_equal(weights_find(&m->weights, w->name), w);
            assert_non_null(w->tensor->data);
            if (w->linear) assert_ptr_equal(&w->linear->weight, w->tensor);
            assert_int_equal(w->part, m->family->part(m, w->name));
        }
        model_free(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lora),  cmocka_unit_test(test_apart),
        cmocka_unit_test(test_names), cmocka_unit_test(test_order),
        cmocka_unit_test(test_bound), cmocka_unit_test(test_many_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
