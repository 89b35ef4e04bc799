// tests/bench/gpu/products.c -- the GPU's kernels on the shapes of LLaVA-1.5-7B's decoder, beside
// what the same run measures as the limit: a copy on the device. Prints Markdown.
//
//   products [DIVISOR]     sizes divided by it: for a look at the bench where the host plays GPU
#include "tests/bench/gpu/timing.h"

static void run_copy(const struct timed *t)
{
    struct tensor y = t->y;
    gpu->widen(&y, &t->x);
}

static void run_product(const struct timed *t)
{
    struct tensor y = t->y;
    gpu->matmul(&y, &t->x, &t->w, NULL, MATMUL_BF16);
}

static void run_attention(const struct timed *t)
{
    struct tensor y = t->y;
    gpu->attention(&y, &t->x, &t->k, &t->v, NULL, NULL, 0.1f, NULL, MATMUL_BF16);
}

static double time_copy(int64_t n)
{
    struct timed t = { .y = gpu_make(DTYPE_F32, 1, n, 0, 0),
                       .x = gpu_make(DTYPE_F32, 1, n, 0, 0),
                       .run = run_copy };
    const double rate = 8e-9 * (double)n / seconds(&t); // read and written
    timed_release(&t);
    return rate;
}

static void show_product(int64_t rows, int64_t k, int64_t m, double copy)
{
    struct timed t = { .y = gpu_make(DTYPE_F32, 2, rows, m, 0),
                       .x = gpu_make(DTYPE_F32, 2, rows, k, 0),
                       .w = gpu_make(DTYPE_BF16, 2, m, k, 0),
                       .run = run_product };
    const double s = seconds(&t), numbers = (double)m * (double)k;
    printf("| product, %d rows, [%d,%d] bf16 | %.3f | %.0f | %.2f | %.1f |\n", (int)rows, (int)m,
           (int)k, s * 1e3, 2e-9 * numbers / s, 2e-9 * numbers / s / copy,
           2e-12 * (double)rows * numbers / s);
    timed_release(&t);
}

static void show_attention(int64_t rows, int64_t keys, int64_t heads, int64_t d, double copy)
{
    struct timed t = { .y = gpu_make(DTYPE_F32, 3, rows, heads, d),
                       .x = gpu_make(DTYPE_F32, 3, rows, heads, d),
                       .k = gpu_make(DTYPE_F32, 3, keys, heads, d),
                       .v = gpu_make(DTYPE_F32, 3, keys, heads, d),
                       .run = run_attention };
    const double s = seconds(&t), bytes = 8.0 * (double)keys * (double)heads * (double)d;
    printf("| attention, %d rows, %d keys | %.3f | %.0f | %.2f | %.1f |\n", (int)rows, (int)keys,
           s * 1e3, bytes * 1e-9 / s, bytes * 1e-9 / s / copy,
           4e-12 * (double)rows * (double)keys * (double)heads * (double)d / s);
    timed_release(&t);
}

int main(int argc, char **argv)
{
    const int64_t by = argc > 1 && atoi(argv[1]) > 0 ? atoi(argv[1]) : 1;
    const int64_t hidden = 4096 / by, ffn = 11008 / by, heads = 32 / by + !(32 / by);
    if (gpu_open() < 0) return 1;
    const double copy = time_copy((1 << 28) / by / by);
    printf("## %s\n\nA copy on the device: %.0f GB/s.\n\n", gpu->describe(), copy);
    printf(
        "| what | ms | GB/s of weights or keys | of the copy | TFLOP/s |\n|---|---|---|---|---|\n");
    for (int64_t rows = 1; rows <= 4096; rows = rows == 1 ? 640 : rows == 640 ? 4096 : rows * 2) {
        show_product(rows, hidden, hidden, copy);
        show_product(rows, hidden, ffn, copy);
        show_product(rows, ffn, hidden, copy);
        show_attention(rows, rows < 640 ? 640 : rows, heads, 128, copy);
        if (by > 1) break;
    }
    return 0;
}
