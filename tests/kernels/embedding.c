// tests/kernels/embedding.c -- kernels/embedding.c: rows of tables in every dtype of weights,
// including blocks.
#include "kernels/blocks.h"
#include "tests/kernels/shapes.h"

// Single rows of a quantised table, and the whole table by the op widen.
static void check_embedding_blocks(const struct backend *b, enum dtype dtype, int64_t d)
{
    enum { VOCAB = 5, ROWS = 70 }; // widen takes several pieces for the largest d
    struct tensor table = tensor_of(dtype, 2, VOCAB, d, 0),
                  ids = tensor_of(DTYPE_I32, 1, ROWS, 0, 0);
    struct tensor y = tensor_of(DTYPE_F32, 2, ROWS, d, 0),
                  all = tensor_of(DTYPE_F32, 2, VOCAB, d, 0);
    uint32_t seed = 5;
    for (size_t i = 0; i < tensor_bytes(&table); i++) // no f16 scale is infinite or NaN
        ((uint8_t *)table.data)[i] = (uint8_t)(fabsf(noise(&seed)) * 255) & 0xbb;
    float *plain = malloc(tensor_bytes(&all));
    double *want = doubles(ROWS * d), *value = doubles(VOCAB * d);
    blocks_unpack(plain, table.data, dtype, VOCAB * d);
    for (int64_t i = 0; i < VOCAB * d; i++) value[i] = plain[i];
    for (int64_t i = 0; i < ROWS; i++) ((int32_t *)ids.data)[i] = (int32_t)(i * 3 % VOCAB);
    for (int64_t i = 0; i < ROWS * d; i++) want[i] = value[i / d * 3 % VOCAB * d + i % d];
    assert_int_equal(b->embedding(&y, &table, &ids), 0);
    assert_int_equal(b->widen(&all, &table), 0);
    finish(b, dtype_form(dtype).name, &y, want, 0, 0);
    finish(b, dtype_form(dtype).name, &all, value, 0, 0);
    free(plain);
    free(table.data);
    free(ids.data);
}

// A table in each dtype without blocks, at an address that is aligned to 2 bytes only; then tables
// in blocks.
static void check_embedding(const struct backend *b, int64_t n, int64_t d)
{
    static const int64_t vocab = 19;
    for (int dtype = DTYPE_F32; dtype <= DTYPE_BF16; dtype++) {
        struct tensor table = { .dtype = (enum dtype)dtype, .rank = 2, .shape = { vocab, d } };
        char *memory = malloc(tensor_bytes(&table) + 2);
        table.data = memory + 2;
        struct tensor ids = tensor_of(DTYPE_I32, 1, n, 0, 0), y = tensor_of(DTYPE_F32, 2, n, d, 0);
        double *want = doubles(n * d), *value = doubles(vocab * d);
        for (int64_t i = 0; i < vocab * d; i++) {
            uint16_t h = (uint16_t)(i % 1000 + 0x3c00);
            float f = (float)i;
            value[i] = dtype == DTYPE_F32   ? (double)f
                       : dtype == DTYPE_F16 ? half_value(h)
                                            : bf16_value(h);
            memcpy(memory + 2 + (size_t)i * dtype_size(table.dtype),
                   dtype == DTYPE_F32 ? (void *)&f : &h, dtype_size(table.dtype));
        }
        for (int64_t i = 0; i < n; i++) ((int32_t *)ids.data)[i] = (int32_t)(i * 7 % vocab);
        for (int64_t i = 0; i < n * d; i++) want[i] = value[i / d * 7 % vocab * d + i % d];
        assert_int_equal(b->embedding(&y, &table, &ids), 0);
        finish(b, "embedding", &y, want, 0, 0);
        free(memory);
        free(ids.data);
        free(value);
    }
    for (int dtype = DTYPE_Q8_0; dtype < DTYPE_COUNT; dtype++)
        check_embedding_blocks(b, (enum dtype)dtype, (d / 32 + 1) * 256);
}

static void test_embedding(void **state)
{
    (void)state;
    FOR_EACH_ISA(b) each_shape(b, check_embedding);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_embedding) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
