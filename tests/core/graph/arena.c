// tests/core/graph/arena.c -- core/graph/arena.c: marks, reuse, chunks of large and of expected
// allocations and of each GPU, a device without memory left.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/graph/arena.h"
#include "kernels/backend.h"

static size_t device_limit = SIZE_MAX, device_used;

// Stores the size in front of the block, so that device_used counts the allocated bytes.
static void *device_alloc(size_t bytes)
{
    if (bytes > device_limit - device_used) return NULL;
    char *block = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    if (!block) return NULL;
    memcpy(block, &bytes, sizeof bytes);
    device_used += bytes;
    return block + 64;
}

static void device_release(void *memory)
{
    size_t bytes;
    char *block = (char *)memory - 64;
    memcpy(&bytes, block, sizeof bytes);
    device_used -= bytes;
    free(block);
}

static const struct backend device = { .name = "test",
                                       .alloc = device_alloc,
                                       .release = device_release };

// Two GPUs; a block's GPU is stored after its size.
static int gpu_now;

static int enter_gpu(int gpu)
{
    const int before = gpu_now;
    if (gpu >= 0) gpu_now = gpu;
    return before;
}

static void *gpu_alloc(size_t bytes)
{
    char *memory = device_alloc(bytes);
    if (memory) memcpy(memory - 32, &gpu_now, sizeof gpu_now);
    return memory;
}

static const struct gpus two = { .count = 2, .enter = enter_gpu };
static const struct backend two_gpus = {
    .name = "two", .alloc = gpu_alloc, .release = device_release, .gpus = &two
};

// `first`: the first allocation in a chunk, in front of which gpu_alloc stores the GPU.
static int gpu_of(const char *first)
{
    int gpu;
    memcpy(&gpu, first - 32, sizeof gpu);
    return gpu;
}

static void each_gpu_has_its_own_chunks(void **state)
{
    struct arena a = { .backend = &two_gpus };
    arena_expect(&a, 100 << 20); // ignored: each GPU's share is unknown
    char *zero = arena_alloc(&a, 100);
    assert_int_equal(gpu_of(zero), 0);
    const size_t one_chunk = a.reserved;
    assert_true(one_chunk < 2 << 20);
    struct arena_mark mark = arena_mark(&a);
    enter_gpu(1);
    char *one = arena_alloc(&a, 100);
    assert_int_equal(gpu_of(one), 1);
    assert_ptr_equal(arena_alloc(&a, 64), one + 128);
    enter_gpu(0);
    char *more = arena_alloc(&a, 100);
    assert_int_equal(gpu_of(more), 0);
    const size_t reserved = a.reserved;
    arena_reset(&a, mark);
    for (int i = 0; i < 3; i++) { // the same allocations take no new memory
        enter_gpu(1);
        assert_ptr_equal(arena_alloc(&a, 100), one);
        enter_gpu(0);
        assert_ptr_equal(arena_alloc(&a, 100), more);
        arena_reset(&a, mark);
    }
    assert_int_equal(a.reserved, reserved);
    arena_release(&a);
    assert_int_equal(device_used, 0);
}

static void hands_out_aligned_memory(void **state)
{
    struct arena a = { .backend = &device };
    char *last = NULL;
    assert_non_null(arena_alloc(&a, 0));
    for (size_t n = 1; n < 3000; n += 7) {
        char *p = arena_alloc(&a, n);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 64, 0);
        assert_ptr_not_equal(p, last);
        memset(p, (int)n, n);
        last = p;
    }
    assert_true(a.used <= a.reserved && a.peak == a.used);
    assert_int_equal(a.reserved, device_used);
    arena_release(&a);
    assert_int_equal(device_used, 0);
    assert_int_equal(a.reserved, 0);
    assert_non_null(arena_alloc(&a, 10)); // usable again
    arena_release(&a);
}

static void reset_gives_the_same_memory_again(void **state)
{
    struct arena a = { .backend = &device };
    char *kept = arena_alloc(&a, 1000);
    memset(kept, 'k', 1000);
    struct arena_mark mark = arena_mark(&a);
    size_t used = a.used, reserved = 0;
    char *first = arena_alloc(&a, 5000);
    for (int round = 0; round < 50; round++) {
        arena_reset(&a, mark);
        assert_int_equal(a.used, used);
        assert_ptr_equal(arena_alloc(&a, 5000), first);
        for (int i = 0; i < 20; i++) memset(arena_alloc(&a, 400000), round, 400000);
        if (round == 0) reserved = a.reserved;
    }
    assert_int_equal(a.reserved, reserved); // nothing more was taken from the device
    for (int i = 0; i < 1000; i++) assert_int_equal(kept[i], 'k');
    arena_release(&a);
    assert_int_equal(device_used, 0);
}

// A large allocation gets a chunk of its own, small ones share theirs, and a reset keeps the
// chunks.
static void large_allocations_get_their_own_chunk(void **state)
{
    struct arena a = { .backend = &device };
    char *first = arena_alloc(&a, 64);
    const size_t before = a.reserved, large = (size_t)3 << 20;
    char *alone = arena_alloc_alone(&a, large);
    assert_int_equal(a.reserved, before + large);
    assert_int_equal(a.used, 64 + large);
    const struct arena_mark mark = arena_mark(&a);
    assert_ptr_equal(arena_alloc(&a, 64), first + 64);
    assert_ptr_equal(arena_alloc_alone(&a, 64), first + 128);
    arena_reset(&a, mark);
    memset(alone, 1, large); // the memory is usable
    assert_int_equal(a.used, 64 + large);
    arena_release(&a);
    assert_int_equal(a.reserved, 0);
}

static void marks_nest(void **state)
{
    struct arena a = { .backend = &device };
    struct arena_mark empty = arena_mark(&a);
    arena_alloc(&a, 3 << 20);
    struct arena_mark outer = arena_mark(&a);
    char *x = arena_alloc(&a, 2 << 20);
    struct arena_mark inner = arena_mark(&a);
    char *y = arena_alloc(&a, 1 << 20);
    assert_non_null(y);
    arena_reset(&a, inner);
    assert_ptr_equal(arena_alloc(&a, 1 << 20), y);
    memset(x, 1, 2 << 20);
    arena_reset(&a, outer);
    arena_reset(&a, empty);
    assert_int_equal(a.used, 0);
    size_t reserved = a.reserved;
    assert_non_null(arena_alloc(&a, 3 << 20)); // from an existing chunk
    assert_int_equal(a.reserved, reserved);
    arena_release(&a);
    assert_int_equal(device_used, 0);
}

static void refuses_too_large_allocations(void **state)
{
    struct arena a = { .backend = &device };
    device_limit = 4 << 20;
    assert_non_null(arena_alloc(&a, 3 << 20));
    struct arena_mark mark = arena_mark(&a);
    size_t used = a.used;
    assert_null(arena_alloc(&a, 8 << 20));
    assert_null(arena_alloc(&a, SIZE_MAX));
    assert_null(arena_alloc(&a, SIZE_MAX - 63));
    assert_int_equal(a.used, used);
    assert_non_null(arena_alloc(&a, 1 << 20)); // a refusal changes nothing
    arena_reset(&a, mark);
    arena_release(&a);
    device_limit = SIZE_MAX;
    assert_int_equal(device_used, 0);
}

// Expected allocations share one chunk; if the device has too little memory for it, chunks are
// smaller.
static void expected_memory_is_one_chunk(void **state)
{
    const size_t mega = 1 << 20;
    struct arena a = { .backend = &device };
    arena_expect(&a, 10 * mega);
    char *first = arena_alloc(&a, mega);
    assert_int_equal(a.reserved, 10 * mega);
    for (size_t i = 1; i < 10; i++) assert_ptr_equal(arena_alloc(&a, mega), first + i * mega);
    assert_int_equal(a.reserved, 10 * mega);
    arena_release(&a);
    device_limit = 4 * mega;
    arena_expect(&a, 10 * mega);
    assert_non_null(arena_alloc(&a, 2 * mega));
    assert_int_equal(a.reserved, 2 * mega);
    arena_release(&a);
    device_limit = SIZE_MAX;
    assert_int_equal(device_used, 0);
}

// If allocations span several chunks, arena_settle frees them, and the next pass takes one chunk.
static void test_settle(void **state)
{
    (void)state;
    const size_t mega = 1 << 20;
    struct arena a = { .backend = backend_cpu() };
    struct arena_mark empty = arena_mark(&a);
    assert_non_null(arena_alloc(&a, 3 * mega));
    arena_reset(&a, empty);
    arena_settle(&a);
    assert_int_equal(a.reserved, 3 * mega); // one chunk that fits
    for (int i = 0; i < 2; i++) assert_non_null(arena_alloc(&a, 2 * mega));
    assert_int_equal(a.reserved, 5 * mega);
    arena_settle(&a); // in use
    assert_int_equal(a.reserved, 5 * mega);
    arena_reset(&a, empty);
    arena_settle(&a);
    assert_int_equal(a.reserved, 0);
    for (int i = 0; i < 2; i++) assert_non_null(arena_alloc(&a, 2 * mega));
    assert_in_range(a.reserved, 4 * mega, 5 * mega - 1);
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expected_memory_is_one_chunk),
        cmocka_unit_test(test_settle),
        cmocka_unit_test(hands_out_aligned_memory),
        cmocka_unit_test(each_gpu_has_its_own_chunks),
        cmocka_unit_test(reset_gives_the_same_memory_again),
        cmocka_unit_test(large_allocations_get_their_own_chunk),
        cmocka_unit_test(marks_nest),
        cmocka_unit_test(refuses_too_large_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
