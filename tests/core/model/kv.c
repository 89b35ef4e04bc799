// tests/core/model/kv.c -- core/model/kv.c: rows survive growing, failing to grow and trimming; the
// cache's dtype; sizes that overflow.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/model/kv.h"
#include "core/settings/settings.h"
#include "tests/device.h"

enum { LAYERS = 3, HEADS = 2, DIM = 4, ROW = HEADS * DIM };

static const struct kv_row of_row = { .k = { HEADS, DIM }, .v = { HEADS, DIM } };

static void open_kv(struct kv *kv, const struct backend *b, int layers, struct kv_row row)
{
    kv_init(kv, b, layers);
    for (int l = 0; l < layers; l++) kv_layer_shape(kv, l, row);
}

static float value(int layer, int table, int64_t i)
{
    return (float)(layer * 100000 + table * 50000 + i);
}

// Sets element i of a table; for bf16 to its lower bits, so that all values differ.
static void put(struct tensor *t, int64_t i, float x)
{
    if (t->dtype == DTYPE_F32)
        ((float *)t->data)[i] = x;
    else
        ((uint16_t *)t->data)[i] = (uint16_t)(int)x;
}

static bool holds(const struct tensor *t, int64_t i, float x)
{
    return t->dtype == DTYPE_F32 ? ((const float *)t->data)[i] == x
                                 : ((const uint16_t *)t->data)[i] == (uint16_t)(int)x;
}

static void fill(struct kv *kv, int64_t from, int64_t to)
{
    for (int l = 0; l < LAYERS; l++) {
        for (int64_t i = from * ROW; i < to * ROW; i++) {
            put(&kv->layer[l].k, i, value(l, 0, i));
            put(&kv->layer[l].v, i, value(l, 1, i));
        }
        for (int64_t i = from; i < to; i++) kv->layer[l].position[i] = (int32_t)i;
        kv->layer[l].rows = to;
    }
}

static void check(const struct kv *kv, int64_t rows)
{
    for (int l = 0; l < LAYERS; l++) {
        assert_int_equal(kv->layer[l].rows, rows);
        for (int64_t i = 0; i < rows * ROW; i++) {
            assert_true(holds(&kv->layer[l].k, i, value(l, 0, i)));
            assert_true(holds(&kv->layer[l].v, i, value(l, 1, i)));
        }
    }
}

static void check_growing(enum dtype dtype)
{
    struct kv kv;
    struct err err = { 0 };
    open_kv(&kv, test_device(), LAYERS, of_row);
    kv_set_dtype(&kv, dtype);
    assert_int_equal(kv_bytes(&kv), 0);
    assert_int_equal(kv_reserve(&kv, 10, &err), 0);
    const int64_t spare = kv.layer[1].k.shape[0] - 10; // rows for the answer
    assert_true(spare > 100);
    assert_int_equal(kv_bytes(&kv), 2 * LAYERS * (10 + spare) * ROW * dtype_size(dtype));
    fill(&kv, 0, 10);
    const void *before = kv.layer[1].k.data;
    assert_int_equal(kv_reserve(&kv, 10 + spare, &err), 0);
    assert_ptr_equal(kv.layer[1].k.data, before);
    assert_int_equal(kv_reserve(&kv, 11 + spare, &err), 0);
    check(&kv, 10);
    fill(&kv, 10, 11);
    assert_int_equal(kv_reserve(&kv, 5000, &err), 0);
    check(&kv, 11);
    kv_trim(&kv, 20);
    check(&kv, 11);
    kv_trim(&kv, 4);
    check(&kv, 4);
    kv_release(&kv);
    kv_release(&kv); // an empty cache
}

static void rows_survive_growing_and_trimming(void **state)
{
    check_growing(DTYPE_F32);
    check_growing(DTYPE_BF16);
}

static void changing_the_dtype_empties_the_cache(void **state)
{
    struct kv kv;
    struct err err = { 0 };
    open_kv(&kv, test_device(), LAYERS, of_row);
    assert_int_equal(kv_reserve(&kv, 10, &err), 0);
    fill(&kv, 0, 10);
    kv_set_dtype(&kv, DTYPE_F32);
    check(&kv, 10);
    kv_set_dtype(&kv, DTYPE_BF16);
    check(&kv, 0);
    assert_int_equal(kv_bytes(&kv), 0);
    assert_int_equal(kv_reserve(&kv, 10, &err), 0);
    fill(&kv, 0, 10);
    check(&kv, 10);
    kv_release(&kv);
}

// auto means bf16 if the memory is a GPU's; without settings, the cache is in f32.
static void the_setting_decides(void **state)
{
    struct settings *s = settings_new();
    struct err err = { 0 };
    struct backend near = *test_device(), far = near;
    near.own_memory = false, far.own_memory = true;
    assert_int_equal(kv_dtype(&near, NULL), DTYPE_F32);
    assert_int_equal(kv_dtype(&far, NULL), DTYPE_F32);
    assert_int_equal(kv_dtype(&near, s), DTYPE_F32);
    assert_int_equal(kv_dtype(&far, s), DTYPE_BF16);
    assert_int_equal(settings_set(s, "kv.dtype", "f32", &err), 0);
    assert_int_equal(kv_dtype(&far, s), DTYPE_F32);
    assert_int_equal(settings_set(s, "kv.dtype", "bf16", &err), 0);
    assert_int_equal(kv_dtype(&near, s), DTYPE_BF16);
    assert_int_equal(settings_set(s, "kv.dtype", "f16", &err), -1);
    settings_free(s);
}

static int allowed; // number of allocations before one fails

static void *scarce(size_t bytes)
{
    return allowed-- > 0 ? test_device()->alloc(bytes) : NULL;
}

// Wherever memory runs out, existing rows stay and a later attempt works.
static void rows_survive_running_out_of_memory(void **state)
{
    struct backend backend = *test_device();
    backend.alloc = scarce;
    for (int room = 0; room < 2 * LAYERS; room++) {
        struct kv kv;
        struct err err = { 0 };
        open_kv(&kv, &backend, LAYERS, of_row);
        allowed = 100;
        assert_int_equal(kv_reserve(&kv, 7, &err), 0);
        fill(&kv, 0, 7);
        allowed = room;
        assert_int_equal(kv_reserve(&kv, 1000, &err), -1);
        assert_true(err.text[0]);
        check(&kv, 7);
        allowed = 100;
        assert_int_equal(kv_reserve(&kv, 1000, &err), 0);
        check(&kv, 7);
        for (int l = 0; l < LAYERS; l++) {
            assert_true(kv.layer[l].k.shape[0] >= 1000);
            assert_true(kv.layer[l].v.shape[0] >= 1000);
        }
        kv_release(&kv);
    }
}

static void sizes_that_overflow_are_refused(void **state)
{
    struct kv kv;
    struct err err = { 0 };
    open_kv(&kv, test_device(), 1,
            (struct kv_row){ .k = { 1 << 20, 1 << 20 }, .v = { 1 << 20, 1 << 20 } });
    assert_int_equal(kv_reserve(&kv, INT64_MAX / 2, &err), -1);
    kv_release(&kv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_survive_growing_and_trimming),
        cmocka_unit_test(changing_the_dtype_empties_the_cache),
        cmocka_unit_test(the_setting_decides),
        cmocka_unit_test(rows_survive_running_out_of_memory),
        cmocka_unit_test(sizes_that_overflow_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
