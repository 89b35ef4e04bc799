// tests/cuda/pair.h -- the same tensors on the CPU and on the GPU, for comparing the two devices.
//
//   struct pair x = pair_noise(2, n, d, 0, 1), y = pair_result(2, n, d, 0);
//   ON_BOTH(softmax, OF(y), OF(x), 1);
//   pair_compare("softmax", &y, 1e-7, 1e-6);
//   pairs_release();
//
// The GPU is that of the library $VLMSH_CUDA: `make test` names the emulated one
// (tests/cuda_host/), `make test-gpu` the real one. $TEST_DEVICE selects a GPU other than the
// first.
#ifndef TESTS_CUDA_PAIR_H
#define TESTS_CUDA_PAIR_H

#include <dlfcn.h>

#include "core/base/dtype.h"
#include "core/base/err.h"
#include "core/engine/device.h"
#include "kernels/backend.h"
#include "tests/kernels/close.h"

enum { PAIRS = 64 };

struct pair {
    struct tensor on[2]; // CPU, GPU
};

static const struct backend *devices[2];
static void *pair_memory[PAIRS][2];
static int pair_count;

static inline int devices_open(void **state)
{
    struct err err;
    (void)state;
    // A CPU that computes in 16-bit integers is less precise than the GPU.
    devices[0] = test_in_16_bits(backend_cpu()) ? backend_cpu_isa("base") : backend_cpu();
    const char *name = getenv("TEST_DEVICE");
    devices[1] = device_find(name ? name : "cuda", &err);
    if (!devices[1] || !devices[1]->own_memory) {
        print_error("%s\n", err.text);
        return -1;
    }
    return 0;
}

// Opens the devices again, with an emulated GPU that runs the threads of a block in reverse order,
// which reveals missing barriers.
static inline int devices_open_back(void **state)
{
    setenv("CUDA_HOST_ORDER", "back", 1);
    return devices_open(state);
}

// False under tests/cuda_ptx/, which finds a missing barrier in any order.
static inline bool order_matters(void)
{
    return !getenv("CUDA_HOST_PTX");
}

// A symbol of the open library; NULL: it has none of that name.
static inline void *library_symbol(const char *name)
{
    void *library = dlopen(getenv("VLMSH_CUDA"), RTLD_NOW | RTLD_NOLOAD);
    void *symbol = library ? dlsym(library, name) : NULL;
    if (library) dlclose(library);
    return symbol;
}

// How often the host waited until the GPU was idle; NULL on a real GPU.
static inline const long *drains(void)
{
    return library_symbol("cuda_host_drains");
}

// Uploads the CPU's values.
static inline struct pair pair_of(struct tensor cpu)
{
    struct pair p = { .on = { cpu, cpu } };
    const size_t size = tensor_bytes(&cpu);
    if (pair_count == PAIRS || !(p.on[1].data = devices[1]->alloc(size))) fail_msg("no memory");
    devices[1]->upload(p.on[1].data, cpu.data, size);
    pair_memory[pair_count][0] = cpu.data;
    pair_memory[pair_count++][1] = p.on[1].data;
    return p;
}

static inline struct pair pair_noise(int rank, int64_t a, int64_t b, int64_t c, uint32_t seed)
{
    return pair_of(noise_tensor(rank, a, b, c, seed));
}

// Fills a matrix with random blocks. A mask limits the exponents of their f16 scales, so that these
// are at least 2^-7 and below 1/2 in size.
static inline void fill_blocks(struct tensor *t, uint32_t seed)
{
    static const int halves[DTYPE_COUNT][2] = {
        [DTYPE_Q8_0] = { 0, 0 },     [DTYPE_Q4_0] = { 0, 0 },   [DTYPE_Q4_1] = { 0, 2 },
        [DTYPE_Q5_0] = { 0, 0 },     [DTYPE_Q5_1] = { 0, 2 },   [DTYPE_Q2_K] = { 80, 82 },
        [DTYPE_Q3_K] = { 108, 108 }, [DTYPE_Q4_K] = { 0, 2 },   [DTYPE_Q5_K] = { 0, 2 },
        [DTYPE_Q6_K] = { 208, 208 }, [DTYPE_IQ4_NL] = { 0, 0 }, [DTYPE_IQ4_XS] = { 0, 0 },
    };
    uint8_t *byte = t->data;
    const size_t bytes = tensor_bytes(t), block = (size_t)dtype_form(t->dtype).bytes;
    for (size_t i = 0; i < bytes; i++) byte[i] = (uint8_t)(noise(&seed) * 127 + 128);
    for (size_t i = 0; i < bytes; i += block)
        for (int h = 0; h < 2; h++) {
            uint8_t *high = byte + i + halves[t->dtype][h] + 1;
            *high = (uint8_t)((*high & 0x97) | 0x20);
        }
}

// Noise in any dtype of weights.
static inline struct pair pair_weights(enum dtype dtype, int64_t a, int64_t b, uint32_t seed)
{
    if (dtype == DTYPE_F32) return pair_noise(2, a, b, 0, seed);
    struct tensor t = tensor_of(dtype, 2, a, b, 0);
    if (dtype_in_blocks(dtype)) fill_blocks(&t, seed);
    for (int64_t i = 0; i < a * b && !dtype_in_blocks(dtype); i++) {
        const float f = noise(&seed);
        uint32_t u;
        memcpy(&u, &f, sizeof u);
        // bf16: the upper half of an f32. f16: exponents of 2^-7 to 1, any fraction.
        ((uint16_t *)t.data)[i] =
            dtype == DTYPE_BF16 ? (uint16_t)(u >> 16) : (uint16_t)((u >> 16 & 0x9fff) | 0x2000);
    }
    return pair_of(t);
}

// The same values as bf16; truncates those of `p` to bf16, too.
static inline struct pair pair_bf16(struct pair *p)
{
    const struct tensor twin = bf16_twin(&p->on[0]);
    devices[1]->upload(p->on[1].data, p->on[0].data, tensor_bytes(&p->on[0]));
    return pair_of(twin);
}

// A shuffled list of i32: element i is (i * step + from) % limit.
static inline struct pair pair_integers(int64_t n, int64_t step, int64_t from, int64_t limit)
{
    struct tensor t = tensor_of(DTYPE_I32, 1, n, 0, 0);
    for (int64_t i = 0; i < n; i++) ((int32_t *)t.data)[i] = (int32_t)((i * step + from) % limit);
    return pair_of(t);
}

// A tensor of NaNs, for results.
static inline struct pair pair_result(int rank, int64_t a, int64_t b, int64_t c)
{
    struct tensor t = tensor_of(DTYPE_F32, rank, a, b, c);
    memset(t.data, 0xff, tensor_bytes(&t));
    return pair_of(t);
}

// Compares f32 or bf16 tensors.
static inline void pair_compare(const char *what, const struct pair *p, double absolute,
                                double relative)
{
    const struct tensor *const t = &p->on[0];
    const int64_t n = tensor_count(t);
    char where[160];
    snprintf(where, sizeof where, "%s [%d,%d,%d]", what, (int)t->shape[0], (int)t->shape[1],
             (int)t->shape[2]);
    void *bytes = malloc(tensor_bytes(t) + 1);
    float *got = malloc((size_t)n * sizeof *got + 1), *right = malloc((size_t)n * sizeof *got + 1);
    double *want = doubles(n);
    devices[1]->download(bytes, p->on[1].data, tensor_bytes(t));
    floats_from(got, bytes, t->dtype, (size_t)n);
    floats_from(right, t->data, t->dtype, (size_t)n);
    for (int64_t i = 0; i < n; i++) want[i] = (double)right[i];
    close_check(where, got, want, n, absolute, relative);
    free(bytes);
    free(got);
    free(right);
    free(want);
}

// Fails unless two of the GPU's tensors are equal bit for bit.
static inline void pair_same(const char *what, const struct tensor *a, const struct tensor *b)
{
    const size_t size = tensor_bytes(a);
    char *one = malloc(size + 1), *two = malloc(size + 1);
    devices[1]->download(one, a->data, size);
    devices[1]->download(two, b->data, size);
    if (memcmp(one, two, size)) fail_msg("%s: bits differ", what);
    free(one);
    free(two);
}

static inline void pairs_release(void)
{
    while (pair_count) {
        free(pair_memory[--pair_count][0]);
        devices[1]->release(pair_memory[pair_count][1]);
    }
}

#define OF(pair) (&(pair).on[side])
// A pair, or NULL.
#define IF(wanted, pair) ((wanted) ? OF(pair) : NULL)
#define ON_BOTH(op, ...)                    \
    for (int side = 0; side < 2; side++)    \
        if (devices[side]->op(__VA_ARGS__)) \
    fail_msg("%s on %s: %s", #op, devices[side]->name, devices[side]->failure())

// Attention to bf16 keys and values, and its probabilities, have the bits of those for the same
// values in f32, to which the call rounds k and v. first NULL: all rows see all keys.
static inline void check_bf16_keys(const struct pair *q, struct pair *k, struct pair *v,
                                   const struct pair *first, const struct pair *last, float scale,
                                   enum matmul_mode mode)
{
    const struct tensor *const t = &q->on[0];
    const int64_t n = t->shape[0], heads = t->shape[1], keys = k->on[0].shape[0];
    const int64_t wide = v->on[0].shape[2];
    const struct pair few[] = { pair_bf16(k), pair_bf16(v) };
    const struct tensor *from = first ? &first->on[1] : NULL, *to = first ? &last->on[1] : NULL;
    struct pair y[] = { pair_result(3, n, heads, wide), pair_result(3, n, heads, wide) };
    struct pair p[] = { pair_result(3, heads, n, keys), pair_result(3, heads, n, keys) };
    for (int i = 0; i < 2; i++)
        if (devices[1]->attention(&y[i].on[1], &q->on[1], i ? &few[0].on[1] : &k->on[1],
                                  i ? &few[1].on[1] : &v->on[1], from, to, scale, &p[i].on[1],
                                  mode))
            fail_msg("attention: %s", devices[1]->failure());
    pair_same("attention to bf16 keys", &y[0].on[1], &y[1].on[1]);
    pair_same("attention to bf16 keys: probabilities", &p[0].on[1], &p[1].on[1]);
}

#endif
