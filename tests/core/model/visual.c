// tests/core/model/visual.c -- core/model/visual.c: text and visual tokens reach their rows.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/model/visual.h"
#include "tests/device.h"

enum { D = 3, VOCAB = 6, PLACEHOLDER = 5 };

static float table_data[VOCAB * D], first_data[2 * D], second_data[3 * D];
static const struct tensor table = {
    .data = table_data, .dtype = DTYPE_F32, .rank = 2, .shape = { VOCAB, D }
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
    // Also if the first rows are cached, up to the middle of a picture or beyond it.
    for (int64_t from = 0; from < s.n; from++) {
        struct tensor *h = splice(&g, &table, &s, from, visual, NULL, 2);
        assert_non_null(h);
        assert_int_equal(h->shape[0], s.n - from);
        for (int64_t i = from; i < s.n; i++)
            for (int j = 0; j < D; j++) {
                const float *source = s.picture[i] < 0    ? table_data + s.ids[i] * D
                                      : s.picture[i] == 0 ? first_data + s.cell[i] * D
                                                          : second_data + s.cell[i] * D;
                assert_true(((float *)h->data)[(i - from) * D + j] == source[j]);
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
    assert_null(splice(&g, &table, &s, 0, visual, NULL, 2));
    assert_true(g.failed);
    assert_non_null(strstr(g.err.text, "picture 1"));
    // Rows after a picture no longer need it.
    g.failed = false;
    assert_non_null(splice(&g, &table, &s, 7, visual, NULL, 2));
    sequence_release(&s);
    arena_release(&step);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_visual_row_gets_its_own_token),
        cmocka_unit_test(a_picture_without_tokens_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
