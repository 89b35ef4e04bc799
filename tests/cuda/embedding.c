// tests/cuda/embedding.c -- core/ops/embedding.c: rows of a table that stays on the host, and their
// gradients, equal those of a table on the device, bit for bit.
#include <string.h>

#include "core/base/dtype.h"
#include "core/base/mem.h"
#include "core/graph/tape.h"
#include "core/ops/ops.h"
#include "tests/cuda/pair.h"

enum { V = 37, D = 21, N = 53 };

// Computes the rows `ids` of the table into y [n,D] and, unless dtable is NULL, the gradient [V,D]
// of a weighted sum of their elements.
static void pass(struct tensor *table, const int32_t *ids, int64_t n, float *y, float *dtable)
{
    const struct backend *where = backend_of(devices[1], table);
    struct arena step = { .backend = devices[1] };
    struct tape tape = { .backend = devices[1] };
    struct graph g = { .backend = devices[1], .arena = &step, .tape = dtable ? &tape : NULL };
    table->grad = dtable ? grad_new(where, V * D) : NULL;
    struct tensor *rows = op_embedding(&g, table, ids, n);
    if (!rows) fail_msg("%s", g.err.text);
    graph_download(&g, y, rows);
    if (dtable) {
        float weight[N * D];
        for (int64_t i = 0; i < n * D; i++) weight[i] = (float)(i % 17) - 5.5f;
        const struct tensor *w = graph_upload(&g, DTYPE_F32, 2, rows->shape, weight);
        assert_int_equal(tape_seed(&g, rows, w), 0);
        assert_int_equal(tape_backward(&g), 0);
        where->download(dtable, table->grad->data, V * D * sizeof *dtable);
    }
    grad_free(where, table->grad);
    tape_release(&tape);
    arena_release(&step);
}

static void check(enum dtype dtype, bool trained)
{
    static float numbers[V * D], near[N * D], far[N * D], dnear[V * D], dfar[V * D];
    char stored[V * D * sizeof(float)];
    int32_t ids[N];
    for (int i = 0; i < V * D; i++) numbers[i] = (float)((i * 7919) % 1009) / 64 - 8;
    for (int i = 0; i < N; i++) ids[i] = i * 5 % 11 * 3; // some occur several times, some never
    floats_to(stored, dtype, numbers, V * D);
    struct tensor host = {
        .data = stored, .dtype = dtype, .rank = 2, .shape = { V, D }, .on_host = true
    };
    struct tensor device = host;
    device.on_host = false;
    device.data = devices[1]->alloc(tensor_bytes(&device));
    devices[1]->upload(device.data, stored, tensor_bytes(&device));
    for (int64_t n = 1; n <= N; n += 26) {
        pass(&host, ids, n, near, trained ? dnear : NULL);
        pass(&device, ids, n, far, trained ? dfar : NULL);
        assert_memory_equal(near, far, (size_t)(n * D) * sizeof *near);
        assert_true(near[D - 1] == numbers[ids[0] * D + D - 1] || dtype != DTYPE_F32);
        if (trained) assert_memory_equal(dnear, dfar, sizeof dnear);
    }
    devices[1]->release(device.data);
}

static void rows_are_the_same(void **state)
{
    check(DTYPE_F32, false);
    check(DTYPE_F16, false);
    check(DTYPE_BF16, false);
}

static void gradients_are_the_same(void **state)
{
    check(DTYPE_F32, true);
}

static void a_wrong_id_is_an_error(void **state)
{
    static float numbers[V * D];
    struct tensor table = {
        .data = numbers, .dtype = DTYPE_F32, .rank = 2, .shape = { V, D }, .on_host = true
    };
    struct arena step = { .backend = devices[1] };
    struct graph g = { .backend = devices[1], .arena = &step };
    assert_null(op_embedding(&g, &table, (int32_t[]){ 3, V }, 2));
    assert_non_null(strstr(g.err.text, "is not in 0..36"));
    arena_release(&step);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_the_same),
        cmocka_unit_test(gradients_are_the_same),
        cmocka_unit_test(a_wrong_id_is_an_error),
    };
    return cmocka_run_group_tests(tests, devices_open, NULL);
}
