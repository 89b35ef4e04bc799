// tests/bench/gpu/attention.c -- attention and its gradient on the shapes of known models, beside
// what cuBLASLt reaches in the same run on a product of 4096 x 4096 x 4096. Prints Markdown.
//
//   attention [DIVISOR]    lengths divided by it: for a look at the bench where the host plays GPU
//
// Counted are the products that are needed: two of queries by keys forward, five backward, of the
// pairs that see one another.
#include "tests/bench/gpu/timing.h"

enum { MOST_SIDE = 4096 };

struct attention {
    struct timed t; // y, x = q, k, v
    struct tensor dy, dq, dk, dv, first, last;
    enum matmul_mode mode;
};

static void run_product(const struct timed *t)
{
    struct tensor y = t->y;
    gpu->matmul(&y, &t->x, &t->w, NULL, MATMUL_BF16);
}

static void run_forward(const struct timed *t)
{
    const struct attention *a = (const struct attention *)t;
    struct tensor y = t->y;
    if (gpu->attention(&y, &t->x, &t->k, &t->v, &a->first, &a->last, 0.1f, NULL, a->mode) < 0) {
        fprintf(stderr, "%s\n", gpu->failure());
        exit(1);
    }
}

static void run_backward(const struct timed *t)
{
    const struct attention *a = (const struct attention *)t;
    struct tensor dq = a->dq, dk = a->dk, dv = a->dv;
    if (gpu->attention_backward(&dq, &dk, &dv, &a->dy, &t->y, &t->x, &t->k, &t->v, &a->first,
                                &a->last, 0.1f, a->mode) < 0) {
        fprintf(stderr, "%s\n", gpu->failure());
        exit(1);
    }
}

// Numbers between -1 and 1: zeros would keep the GPU cooler than work does.
static struct tensor noise(int rank, int64_t a, int64_t b, int64_t c)
{
    const int64_t n = a * b * (c ? c : 1);
    float *x = malloc((size_t)n * sizeof *x);
    uint32_t seed = 1;
    for (int64_t i = 0; x && i < n; i++) {
        seed = seed * 1664525 + 1013904223;
        x[i] = (float)(seed >> 8) * 0x1p-23f - 1;
    }
    struct tensor t = gpu_make_of(x, DTYPE_F32, rank, a, b, c);
    free(x);
    return t;
}

// TFLOP/s of cuBLASLt.
static double limit(int64_t side)
{
    struct timed t = { .y = gpu_make(DTYPE_F32, 2, side, side, 0),
                       .x = noise(2, side, side, 0),
                       .w = gpu_make(DTYPE_BF16, 2, side, side, 0),
                       .run = run_product };
    const struct tensor w = noise(2, side, side, 0);
    uint16_t *half = malloc(tensor_bytes(&t.w));
    float *whole = malloc(tensor_bytes(&w));
    gpu->download(whole, w.data, tensor_bytes(&w));
    for (int64_t i = 0; i < side * side; i++) {
        uint32_t u;
        memcpy(&u, whole + i, sizeof u);
        half[i] = (uint16_t)(u >> 16);
    }
    gpu->upload(t.w.data, half, tensor_bytes(&t.w));
    const double s = seconds(&t);
    free(half);
    free(whole);
    gpu->release(w.data);
    timed_release(&t);
    return 2e-12 * (double)side * (double)side * (double)side / s;
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
    struct attention a = { .t = { .y = gpu_make(DTYPE_F32, 3, n, s->heads, s->d),
                                  .x = noise(3, n, s->heads, s->d),
                                  .k = noise(3, n, s->kv_heads, s->d),
                                  .v = noise(3, n, s->kv_heads, s->d) },
                           .dy = noise(3, n, s->heads, s->d),
                           .dq = gpu_make(DTYPE_F32, 3, n, s->heads, s->d),
                           .dk = gpu_make(DTYPE_F32, 3, n, s->kv_heads, s->d),
                           .dv = gpu_make(DTYPE_F32, 3, n, s->kv_heads, s->d),
                           .first = gpu_make_of(first, DTYPE_I32, 1, n, 0, 0),
                           .last = gpu_make_of(last, DTYPE_I32, 1, n, 0, 0),
                           .mode = MATMUL_BF16 };
    const double flop = 4e-12 * pairs * (double)s->heads * (double)s->d;
    a.t.run = run_forward;
    const double forward = seconds(&a.t);
    a.t.run = run_backward;
    const double backward = seconds(&a.t);
    a.mode = MATMUL_F32;
    a.t.run = run_forward;
    const double exact = seconds(&a.t);
    printf(
        "| %s: %d x %d%s, %d/%d heads of %d | %.3f | %.0f | %.2f | %.3f | %.0f | %.2f | %.3f |\n",
        s->name, (int)s->samples, (int)s->tokens, s->causal ? " causal" : "", (int)s->heads,
        (int)s->kv_heads, (int)s->d, forward * 1e3, flop / forward, flop / forward / of,
        backward * 1e3, 2.5 * flop / backward, 2.5 * flop / backward / of, exact * 1e3);
    struct tensor *more[] = { &a.dy, &a.dq, &a.dk, &a.dv, &a.first, &a.last };
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) gpu->release(more[i]->data);
    timed_release(&a.t);
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
    if (gpu_open() < 0) return 1;
    const double of = limit(MOST_SIDE / by);
    printf("\n## Attention\n\ncuBLASLt on a product of %d x %d x %d: %.0f TFLOP/s.\n\n",
           MOST_SIDE / by, MOST_SIDE / by, MOST_SIDE / by, of);
    puts("| shape | forward ms | TFLOP/s | of cuBLASLt | backward ms | TFLOP/s | of cuBLASLt | "
         "forward f32 ms |\n|---|---|---|---|---|---|---|---|");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct shape s = shapes[i];
        s.samples = (s.samples + by - 1) / by;
        s.tokens = (s.tokens + by - 1) / by;
        show(&s, of);
    }
    return 0;
}
