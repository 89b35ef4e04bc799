// tests/core/model/visual.c -- core/model/visual.c: text and visual tokens reach their rows, and
// DeepStack's rows the layers after which they are added; a picture without tokens is an error.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "core/graph/hooks.h"
#include "core/graph/tape.h"
#include "core/jobs/job.h"
#include "core/model/model.h"
#include "core/model/pass.h"
#include "core/model/visual.h"
#include "core/template/message.h"
#include "tests/device.h"

enum { D = 3, VOCAB = 6, PLACEHOLDER = 5 };

static float table_data[VOCAB * D], first_data[2 * D], second_data[3 * D];
static const struct decoder d = {
    .embed = { .data = table_data, .dtype = DTYPE_F32, .rank = 2, .shape = { VOCAB, D } },
    .config.embed_scale = 0.5f
};

// Rows: text 1, picture 0 (2 tokens), text 2, picture 1 (3 tokens), text 5, which is the
// placeholder's id: outside of pictures it is an ordinary token.
static struct sequence make_sequence(void)
{
    static const int32_t ids[8] = { 1, 5, 5, 2, 5, 5, 5, 5 };
    static const int32_t picture[8] = { -1, 0, 0, -1, 1, 1, 1, -1 };
    static const int32_t cell[8] = { -1, 0, 1, -1, 0, 1, 2, -1 };
    struct sequence s;
    for (int i = 0; i < VOCAB * D; i++) table_data[i] = (float)i;
    for (int i = 0; i < 2 * D; i++) first_data[i] = (float)(100 + i);
    for (int i = 0; i < 3 * D; i++) second_data[i] = (float)(200 + i);
    sequence_init(&s, 8, 1);
    memcpy(s.ids, ids, sizeof ids);
    memcpy(s.picture, picture, sizeof picture);
    memcpy(s.cell, cell, sizeof cell);
    return s;
}

static void each_visual_row_gets_its_own_token(void **state)
{
    struct sequence s = make_sequence();
    struct arena step = { .backend = test_device() };
    struct graph g = { .backend = test_device(), .arena = &step };
    struct tensor first = { .data = first_data, .dtype = DTYPE_F32, .rank = 2, .shape = { 2, D } };
    struct tensor second = {
        .data = second_data, .dtype = DTYPE_F32, .rank = 2, .shape = { 3, D }
    };
    struct tensor *visual[] = { &first, &second };
    // The rows are the same if the first ones are cached, up to the middle of a picture or beyond
    // it.
    for (int64_t from = 0; from < s.n; from++) {
        struct tensor *h = splice(&g, &d, &s, from, visual, NULL, 2);
        assert_non_null(h);
        assert_int_equal(h->shape[0], s.n - from);
        for (int64_t i = from; i < s.n; i++)
            for (int j = 0; j < D; j++) {
                const float *source = s.picture[i] < 0    ? table_data + s.ids[i] * D
                                      : s.picture[i] == 0 ? first_data + s.cell[i] * D
                                                          : second_data + s.cell[i] * D;
                const float scale = s.picture[i] < 0 ? d.config.embed_scale : 1;
                assert_true(((float *)h->data)[(i - from) * D + j] == source[j] * scale);
            }
    }
    sequence_release(&s);
    arena_release(&step);
}

static void a_picture_without_tokens_is_an_error(void **state)
{
    struct sequence s = make_sequence();
    struct arena step = { .backend = test_device() };
    struct graph g = { .backend = test_device(), .arena = &step };
    struct tensor first = { .data = first_data, .dtype = DTYPE_F32, .rank = 2, .shape = { 2, D } };
    struct tensor *visual[] = { &first, NULL };
    assert_null(splice(&g, &d, &s, 0, visual, NULL, 2));
    assert_true(g.failed);
    assert_non_null(strstr(g.err.text, "picture 1"));
    // Rows after a picture no longer need it.
    g.failed = false;
    assert_non_null(splice(&g, &d, &s, 7, visual, NULL, 2));
    sequence_release(&s);
    arena_release(&step);
}

// DeepStack: each token has two more rows, for layers 0 and 1. They reach the rows of a pass that
// computes only some rows of the sequence, and gradients flow back to them.
static void deep_rows_are_added_after_their_layers(void **state)
{
    enum { PARTS = 3 };
    static const int32_t rows[] = { 0, 2, 4, 6, 7 }; // two tokens of picture 1, one of picture 0
    float data[2][3 * PARTS * D], weight[5 * D];
    struct sequence s = make_sequence();
    struct decoder_config config = { .hidden = D };
    struct arena step = { .backend = test_device() };
    struct tape tape = { .backend = test_device() };
    for (int layer = 0; layer < PARTS; layer++) {
        struct graph g = { .backend = test_device(), .arena = &step, .tape = &tape };
        struct tensor pictures[2], *visual[] = { &pictures[0], &pictures[1] };
        for (int p = 0; p < 2; p++) {
            for (int i = 0; i < 3 * PARTS * D; i++) data[p][i] = (float)(100 * p + i);
            pictures[p] = (struct tensor){
                .data = data[p], .dtype = DTYPE_F32, .rank = 2, .shape = { 2 + p, PARTS * D }
            };
            pictures[p].grad = grad_new(test_device(), (2 + p) * PARTS * D);
        }
        // The tokens themselves are the first of the three parts.
        struct tensor *h0 = splice(&g, &d, &s, 0, visual, NULL, 2);
        assert_non_null(h0);
        assert_true(((float *)h0->data)[5 * D] == data[1][1 * PARTS * D]);
        const struct pass pass = {
            .config = &config, .sequence = &s, .n = 5, .rows = rows, .visual = g.visual
        };
        const struct layer at = { .pass = &pass, .number = layer };
        for (int i = 0; i < 5 * D; i++) weight[i] = (float)(i + 1);
        struct tensor *h = graph_upload(&g, DTYPE_F32, 2, (int64_t[]){ 5, D }, weight);
        h = visual_deepstack(&g, &at, h);
        assert_non_null(h);
        const int64_t shape[] = { 5, D };
        assert_int_equal(tape_seed(&g, h, graph_upload(&g, DTYPE_F32, 2, shape, weight)), 0);
        assert_int_equal(tape_backward(&g), 0);
        for (int i = 0; i < 5; i++)
            for (int j = 0; j < D; j++) {
                const int p = s.picture[rows[i]];
                const int64_t from = (s.cell[rows[i]] * PARTS + layer + 1) * D + j;
                const bool deep = p >= 0 && layer + 1 < PARTS;
                const float added = deep ? data[p][from] : 0;
                assert_true(((float *)h->data)[i * D + j] == weight[i * D + j] + added);
                if (deep) assert_true(pictures[p].grad->data[from] == weight[i * D + j]);
            }
        arena_release(&step);
        for (int p = 0; p < 2; p++) grad_free(test_device(), pictures[p].grad);
    }
    tape_release(&tape);
    sequence_release(&s);
    arena_release(&step);
}

static bool wants_vision(void *self, const struct site *site, int layer)
{
    return site == SITE_VISION_LAYER;
}

static int note_layer(void *self, struct graph *g, const struct site *site, struct site_args *args)
{
    *(int *)self = args->layer;
    return 0;
}

// Blocks after the feature layer are computed for a hook that reads them, but not for one that is
// idle, such as that of jobs. The visual tokens are the same.
static void idle_hooks_cost_no_block(void **state)
{
    struct err err;
    struct model *m = model_load("tests/goldens/llava-1.5", test_device(), NULL, &err);
    if (!m) fail_msg("%s", err.text);
    const int depth = vision_depth(&m->vision.config), all = m->vision.config.layers;
    assert_true(depth < all);
    struct picture picture = { .image = { .width = 20, .height = 20, .channels = 3 } };
    picture.image.pixels = xcalloc(20 * 20, 3);
    struct arena step = { .backend = test_device() };
    float *first = NULL;
    for (int way = 0; way < 3; way++) { // no hooks, idle ones, and a reader
        int last = 0;
        struct job job = { 0 };
        struct hooks hooks = { 0 };
        struct graph g = { .backend = test_device(), .arena = &step, .hooks = way ? &hooks : NULL };
        job_hooks(&job, &hooks);
        assert_true(hooks.list[0].wants(&job, SITE_VISION_LAYER, all));
        hooks.list[0] = (struct hook){
            .wants = wants_vision, .run = note_layer, .self = &last, .idle = hooks.list[0].idle
        };
        if (way == 2) hooks.list[0].idle = false;
        const struct tensor *tokens = visual_encode(&g, m, &picture, 0, NULL);
        if (!tokens) fail_msg("%s", g.err.text);
        assert_int_equal(last, way == 2 ? all : way ? depth : 0);
        float *now = xmalloc(tensor_bytes(tokens));
        graph_download(&g, now, tokens);
        if (first) assert_memory_equal(now, first, tensor_bytes(tokens));
        if (first)
            free(now);
        else
            first = now;
    }
    free(first);
    free(picture.image.pixels);
    arena_release(&step);
    model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_visual_row_gets_its_own_token),
        cmocka_unit_test(a_picture_without_tokens_is_an_error),
        cmocka_unit_test(deep_rows_are_added_after_their_layers),
        cmocka_unit_test(idle_hooks_cost_no_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
