// tests/kernels/blocks.c -- kernels/blocks.c against the values that the package gguf reads from
// the same blocks (tests/goldens/blocks/make.py). An argument names a different file of the same
// format.
#include "kernels/blocks.h"

#include "tests/kernels/close.h"

static const char *path = "tests/goldens/blocks/blocks.bin";

static void read_bytes(FILE *f, void *to, size_t bytes)
{
    if (fread(to, 1, bytes, f) != bytes) fail_msg("%s is too short", path);
}

// Compares 256 * `count` elements of each type, bit for bit.
static void check_file(FILE *f, int64_t count)
{
    const int64_t n = 256 * count;
    float *want = malloc((size_t)n * sizeof *want), *got = malloc((size_t)n * sizeof *got);
    for (int dtype = DTYPE_Q8_0; dtype < DTYPE_COUNT; dtype++) {
        const size_t bytes = dtype_bytes((enum dtype)dtype, n);
        char *blocks = malloc(bytes);
        read_bytes(f, blocks, bytes);
        read_bytes(f, want, (size_t)n * sizeof *want);
        blocks_unpack(got, blocks, (enum dtype)dtype, n);
        for (int64_t i = 0; i < n; i++)
            if (memcmp(got + i, want + i, sizeof *got))
                fail_msg("%s: number %lld is %.9g, should be %.9g",
                         dtype_form((enum dtype)dtype).name, (long long)i, (double)got[i],
                         (double)want[i]);
        free(blocks);
    }
    free(want);
    free(got);
}

static void test_golden(void **state)
{
    (void)state;
    int64_t bytes = 0;
    for (int dtype = DTYPE_Q8_0; dtype < DTYPE_COUNT; dtype++)
        bytes += (int64_t)dtype_bytes((enum dtype)dtype, 256) + 256 * (int64_t)sizeof(float);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    const int64_t size = ftell(f);
    rewind(f);
    assert_true(size >= bytes && size % bytes == 0);
    check_file(f, size / bytes);
    fclose(f);
}

// The structs of blocks have the sizes that dtype_form states.
static void test_sizes(void **state)
{
    (void)state;
    static const size_t size[DTYPE_COUNT] = {
        [DTYPE_Q8_0] = sizeof(struct block_q8_0),   [DTYPE_Q4_0] = sizeof(struct block_q4_0),
        [DTYPE_Q4_1] = sizeof(struct block_q4_1),   [DTYPE_Q5_0] = sizeof(struct block_q5_0),
        [DTYPE_Q5_1] = sizeof(struct block_q5_1),   [DTYPE_Q2_K] = sizeof(struct block_q2_k),
        [DTYPE_Q3_K] = sizeof(struct block_q3_k),   [DTYPE_Q4_K] = sizeof(struct block_q4_k),
        [DTYPE_Q5_K] = sizeof(struct block_q5_k),   [DTYPE_Q6_K] = sizeof(struct block_q6_k),
        [DTYPE_IQ4_NL] = sizeof(struct block_q4_0), [DTYPE_IQ4_XS] = sizeof(struct block_iq4_xs),
    };
    for (int dtype = DTYPE_Q8_0; dtype < DTYPE_COUNT; dtype++)
        assert_int_equal(size[dtype], dtype_form((enum dtype)dtype).bytes);
}

int main(int argc, char **argv)
{
    if (argc > 1) path = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
