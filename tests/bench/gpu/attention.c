// tests/bench/gpu/attention.c -- attention and its gradient on the shapes of known models, compared
// with cuBLASLt in the same run on a product of 4096 x 4096 x 4096. Prints Markdown.
//
//   attention [DIVISOR]    divides lengths, to try the benchmark on the emulated GPU
//
// Counts only the required products, over visible pairs of query and key: two products forward,
// five backward.
#include <math.h>

#include "tests/bench/gpu/gpu.h"

enum { MOST_SIDE = 4096 };

struct attention {
    struct tensor y, q, k, v, dy, dq, dk, dv, first, last;
    enum matmul_mode mode;
    int (*run)(const struct attention *a);
};

static int run_forward(const struct attention *a)
{
    struct tensor y = a->y;
    return gpu->attention(&y, &a->q, &a->k, &a->v, &a->first, &a->last, 0.1f, NULL, a->mode);
}

static int run_backward(const struct attention *a)
{
    struct tensor dq = a->dq, dk = a->dk, dv = a->dv;
    return gpu->attention_backward(&dq, &dk, &dv, &a->dy, &a->y, &a->q, &a->k, &a->v, &a->first,
                                   &a->last, 0.1f, a->mode);
}

static double seconds(const struct attention *a)
{
    double start = 0;
    for (int i = -GPU_WARM; i < GPU_ROUNDS; i++) {
        if (i == 0) gpu_wait(&a->y), start = clock_seconds();
        gpu_must(a->run(a));
    }
    gpu_wait(&a->y);
    return (clock_seconds() - start) / GPU_ROUNDS;
}

static struct tensor rows(const int32_t *host, int64_t n)
{
    struct tensor t = gpu_tensor(DTYPE_I32, 1, n, 0, 0);
    gpu->upload(t.data, host, tensor_bytes(&t));
    return t;
}

struct shape {
    const char *name;
    int64_t samples, tokens, heads, kv_heads, d; // tokens of each sample
    bool causal;
};

static void show(const struct shape *s, double of)
{
    const int64_t n = s->samples * s->tokens;
    int32_t *first = malloc((size_t)n * sizeof *first), *last = malloc((size_t)n * sizeof *last);
    double pairs = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t begin = i / s->tokens * s->tokens;
        first[i] = (int32_t)begin;
        last[i] = (int32_t)(s->causal ? i + 1 : begin + s->tokens);
        pairs += last[i] - first[i];
    }
    struct attention a = { .y = gpu_tensor(DTYPE_F32, 3, n, s->heads, s->d),
                           .q = gpu_tensor(DTYPE_F32, 3, n, s->heads, s->d),
                           .k = gpu_tensor(DTYPE_F32, 3, n, s->kv_heads, s->d),
                           .v = gpu_tensor(DTYPE_F32, 3, n, s->kv_heads, s->d),
                           .dy = gpu_tensor(DTYPE_F32, 3, n, s->heads, s->d),
                           .dq = gpu_tensor(DTYPE_F32, 3, n, s->heads, s->d),
                           .dk = gpu_tensor(DTYPE_F32, 3, n, s->kv_heads, s->d),
                           .dv = gpu_tensor(DTYPE_F32, 3, n, s->kv_heads, s->d),
                           .first = rows(first, n),
                           .last = rows(last, n),
                           .mode = MATMUL_BF16 };
    const double flop = 4e-12 * pairs * (double)s->heads * (double)s->d;
    a.run = run_forward;
    const double forward = seconds(&a);
    a.run = run_backward;
    const double backward = seconds(&a);
    a.mode = MATMUL_F32;
    a.run = run_forward;
    const double exact = seconds(&a);
    struct attention cached = a; // keys and values as a cache holds them
    cached.mode = MATMUL_BF16;
    cached.k = gpu_tensor(DTYPE_BF16, 3, n, s->kv_heads, s->d);
    cached.v = gpu_tensor(DTYPE_BF16, 3, n, s->kv_heads, s->d);
    const double narrow = seconds(&cached);
    printf("| %s: %d x %d%s, %d/%d heads of %d | %.3f | %.0f | %.2f | %.3f | %.3f | %.0f | %.2f | "
           "%.3f |\n",
           s->name, (int)s->samples, (int)s->tokens, s->causal ? " causal" : "", (int)s->heads,
           (int)s->kv_heads, (int)s->d, forward * 1e3, flop / forward, flop / forward / of,
           narrow * 1e3, backward * 1e3, 2.5 * flop / backward, 2.5 * flop / backward / of,
           exact * 1e3);
    struct tensor *all[] = { &a.y,  &a.q,  &a.k,     &a.v,    &a.dy,     &a.dq,
                             &a.dk, &a.dv, &a.first, &a.last, &cached.k, &cached.v };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) gpu->release(all[i]->data);
    free(first);
    free(last);
}

int main(int argc, char **argv)
{
    static const struct shape shapes[] = {
        { "CLIP ViT-L/14-336", 1, 577, 16, 16, 64, false },
        { "SigLIP So400M", 1, 729, 16, 16, 72, false },
        { "Qwen2.5-VL tower, windows", 64, 64, 16, 16, 80, false },
        { "Qwen2.5-VL tower", 1, 4096, 16, 16, 80, false },
        { "Phi-3.5", 1, 640, 32, 32, 96, true },
        { "Llama-3.2-3B", 1, 640, 24, 8, 128, true },
        { "Llama-3.2-3B", 1, 4096, 24, 8, 128, true },
        { "LLaVA-1.5-7B", 1, 640, 32, 32, 128, true },
        { "LLaVA-1.5-7B", 1, 4096, 32, 32, 128, true },
        { "LLaVA-1.5-7B, training", 8, 704, 32, 32, 128, true },
    };
    const int by = argc > 1 && atoi(argv[1]) > 0 ? atoi(argv[1]) : 1;
    const int side = MOST_SIDE / by;
    gpu_open();
    const double of = 2e-12 * pow(side, 3) / gpu_product_seconds(side, side, side);
    printf("\n## Attention\n\ncuBLASLt on a product of %d x %d x %d: %.0f TFLOP/s.\n\n", side, side,
           side, of);
    puts("| shape | forward ms | TFLOP/s | of cuBLASLt | bf16 keys ms | backward ms | TFLOP/s | "
         "of cuBLASLt | forward f32 ms |\n|---|---|---|---|---|---|---|---|---|");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct shape s = shapes[i];
        s.samples = (s.samples + by - 1) / by;
        s.tokens = (s.tokens + by - 1) / by;
        show(&s, of);
    }
    return 0;
}
