// tests/cuda/limits.c -- refusals of the emulated GPU (tests/cuda_host/) without computation: sizes
// of the largest models are accepted, and calls that a real GPU would refuse fail.
#include "tests/cuda/pair.h"

static const struct backend *gpu; // NULL if the GPU is a real one

static int open_dry(void **state)
{
    const char *library = getenv("VLMSH_CUDA");
    if (!library || !strstr(library, "cuda_host")) return 0;
    setenv("CUDA_HOST_DRY", "1", 1);
    setenv("CUDA_HOST_MEMORY", "150000000000", 1);
    if (devices_open(state) < 0) return -1;
    gpu = devices[1];
    return 0;
}

// A tensor on the device with memory for `room` elements; 0: for all.
static struct tensor room_for(enum dtype dtype, int rank, int64_t a, int64_t b, int64_t c,
                              int64_t room)
{
    struct tensor t = { .dtype = dtype, .rank = rank, .shape = { a, b, c } };
    const size_t size = room ? (size_t)room * dtype_size(dtype) : tensor_bytes(&t);
    t.data = gpu->alloc(size);
    if (!t.data) fail_msg("no memory");
    return t;
}

static void refused(int status, const char *why)
{
    assert_int_equal(status, -1);
    if (!strstr(gpu->failure(), why)) fail_msg("'%s', not '%s'", gpu->failure(), why);
}

static int multiply(int64_t rows, int64_t k, int64_t m, int64_t room)
{
    struct tensor x = room_for(DTYPE_F32, 2, rows, k, 0, 0);
    struct tensor w = room_for(DTYPE_BF16, 2, m, k, 0, 0);
    struct tensor y = room_for(DTYPE_F32, 2, rows, m, 0, room);
    const int status = gpu->matmul(&y, &x, &w, NULL, MATMUL_BF16);
    gpu->release(x.data);
    gpu->release(w.data);
    gpu->release(y.data);
    return status;
}

static int attend(int64_t rows, int64_t heads, int64_t kv_heads, int64_t width)
{
    struct tensor q = room_for(DTYPE_F32, 3, rows, heads, width, 0);
    struct tensor k = room_for(DTYPE_BF16, 3, rows, kv_heads, width, 0);
    struct tensor v = room_for(DTYPE_BF16, 3, rows, kv_heads, width, 0);
    struct tensor y = room_for(DTYPE_F32, 3, rows, heads, width, 0);
    const int status = gpu->attention(&y, &q, &k, &v, NULL, NULL, 1, NULL, MATMUL_BF16);
    gpu->release(q.data);
    gpu->release(k.data);
    gpu->release(v.data);
    gpu->release(y.data);
    return status;
}

// Logits of a training step over a large vocabulary, a wide layer, a long prompt, a batch of
// samples.
static void large_sizes_pass(void **state)
{
    if (!gpu) skip();
    assert_int_equal(multiply(5632, 5120, 151936, 0), 0);
    assert_int_equal(multiply(30000, 5120, 27648, 0), 0);
    assert_int_equal(attend(30000, 40, 8, 128), 0);
    assert_int_equal(attend(8 * 704, 32, 32, 128), 0);
}

static void results_need_room(void **state)
{
    if (!gpu) skip();
    refused(multiply(704, 4096, 4096, 703 * 4096), "cuBLASLt: cannot multiply");
}

static void grids_have_limits(void **state)
{
    if (!gpu) skip();
    if (attend(64, 65535, 65535, 64)) fail_msg("%s", gpu->failure());
    refused(attend(64, 65536, 65536, 64), "invalid configuration");
}

static void host_memory_is_refused(void **state)
{
    if (!gpu) skip();
    float numbers[64];
    struct tensor x = room_for(DTYPE_F32, 2, 1, 64, 0, 0), y = x;
    y.data = numbers;
    refused(gpu->scale(&y, &x, 2), "illegal memory access");
    assert_int_equal(gpu->scale(&x, &x, 2), 0); // the error is reported only once
    gpu->release(x.data);
    refused(gpu->scale(&x, &x, 2), "illegal memory access"); // x was freed
}

// This test is the last one: a device whose copies failed computes nothing more.
static void copies_stay_inside(void **state)
{
    if (!gpu) skip();
    char bytes[200] = { 0 };
    struct tensor x = room_for(DTYPE_F32, 1, 32, 0, 0, 0);
    gpu->upload(x.data, bytes, 128);
    assert_int_equal(gpu->scale(&x, &x, 2), 0);
    gpu->upload(x.data, bytes, 200);
    refused(gpu->scale(&x, &x, 2), "copying to the GPU");
    gpu->release(x.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_sizes_pass),   cmocka_unit_test(results_need_room),
        cmocka_unit_test(grids_have_limits),  cmocka_unit_test(host_memory_is_refused),
        cmocka_unit_test(copies_stay_inside),
    };
    return cmocka_run_group_tests(tests, open_dry, NULL);
}
