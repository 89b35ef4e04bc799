// tests/bench/gpu/products.c -- the GPU's kernels on the shapes of LLaVA-1.5-7B's decoder, against
// limits of the same run: a copy on the device, cuBLASLt alone. Prints Markdown.
//
//   products [DIVISOR]     divides sizes, to try the benchmark on the emulated GPU
#include "tests/bench/gpu/gpu.h"

// Times `run` on these tensors; w holds `copies` copies of the weights, and each round reads the
// next one.
struct timed {
    struct tensor y, x, w, up, down, gain;
    int64_t copies;
    int (*run)(const struct timed *t, int64_t copy);
};

static struct tensor one_of(const struct tensor *all, int64_t copy)
{
    struct tensor t = *all; // [copies, M, K]
    t.rank = 2;
    t.shape[0] = all->shape[1], t.shape[1] = all->shape[2];
    t.data = (char *)all->data + (size_t)copy * tensor_bytes(&t);
    return t;
}

static double seconds(const struct timed *t)
{
    double start = 0;
    for (int64_t i = -GPU_WARM; i < GPU_ROUNDS; i++) {
        if (i == 0) gpu_wait(&t->y), start = clock_seconds();
        gpu_must(t->run(t, (i + GPU_WARM) % t->copies));
    }
    gpu_wait(&t->y);
    return (clock_seconds() - start) / GPU_ROUNDS;
}

static void release(struct timed *t)
{
    struct tensor *all[] = { &t->y, &t->x, &t->w, &t->up, &t->down, &t->gain };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->data) gpu->release(all[i]->data);
}

// --- timed calls ---------------------------------------------------------------------------------

static int run_product(const struct timed *t, int64_t copy)
{
    struct tensor y = t->y;
    const struct tensor w = one_of(&t->w, copy);
    return gpu->matmul(&y, &t->x, &w, NULL, MATMUL_BF16);
}

static int run_add(const struct timed *t, int64_t copy)
{
    struct tensor y = t->y;
    const struct tensor w = one_of(&t->w, copy);
    const struct fused_linear weight = { .w = &w };
    return gpu->fused->add(
        &(struct fused_add){ .y = &y, .h = &y, .x = &t->x, .w = weight, .mode = MATMUL_BF16 });
}

static int run_ffn(const struct timed *t, int64_t copy)
{
    struct tensor y = t->y;
    const struct tensor gate = one_of(&t->w, copy), up = one_of(&t->up, copy);
    const struct tensor down = one_of(&t->down, copy);
    return gpu->fused->ffn(&(struct fused_ffn){ .y = &y,
                                                .h = &y,
                                                .gain = &t->gain,
                                                .eps = 1e-5f,
                                                .gate = { .w = &gate },
                                                .up = { .w = &up },
                                                .down = { .w = &down },
                                                .mode = MATMUL_BF16 });
}

// --- lines of the table --------------------------------------------------------------------------

// weights: number of bf16 weights, each read once; alone: seconds of cuBLASLt for the same product,
// 0 if not compared.
static void show(const char *what, int64_t rows, double s, double weights, double alone,
                 double copy)
{
    printf("| %s, %d row%s | %.4f | %.0f | %.2f | %.1f | ", what, (int)rows, rows == 1 ? "" : "s",
           s * 1e3, 2e-9 * weights / s, 2 * weights / s / copy, 2e-12 * (double)rows * weights / s);
    if (alone > 0)
        printf("%.2f |\n", alone / s);
    else
        printf("|\n");
}

static void show_product(const char *what, int64_t rows, int64_t k, int64_t m, double copy,
                         int (*run)(const struct timed *t, int64_t copy))
{
    const int64_t copies = gpu_copies(2 * m * k);
    struct timed t = { .y = gpu_tensor(DTYPE_F32, 2, rows, m, 0),
                       .x = gpu_tensor(DTYPE_F32, 2, rows, k, 0),
                       .w = gpu_tensor(DTYPE_BF16, 3, copies, m, k),
                       .copies = copies,
                       .run = run };
    char text[64];
    snprintf(text, sizeof text, "%s [%d,%d]", what, (int)m, (int)k);
    show(text, rows, seconds(&t), (double)m * (double)k,
         rows > 8 ? gpu_product_seconds(rows, k, m) : 0, copy);
    release(&t);
}

static void show_ffn(int64_t rows, int64_t d, int64_t inner, double copy)
{
    const int64_t copies = gpu_copies(6 * d * inner);
    struct timed t = { .y = gpu_tensor(DTYPE_F32, 2, rows, d, 0),
                       .gain = gpu_tensor(DTYPE_F32, 1, d, 0, 0),
                       .w = gpu_tensor(DTYPE_BF16, 3, copies, inner, d),
                       .up = gpu_tensor(DTYPE_BF16, 3, copies, inner, d),
                       .down = gpu_tensor(DTYPE_BF16, 3, copies, d, inner),
                       .copies = copies,
                       .run = run_ffn };
    show("norm, FFN, residual", rows, seconds(&t), 3.0 * (double)d * (double)inner,
         rows > 8 ? 2 * gpu_product_seconds(rows, d, inner) + gpu_product_seconds(rows, inner, d)
                  : 0,
         copy);
    release(&t);
}

int main(int argc, char **argv)
{
    const int64_t by = argc > 1 && atoi(argv[1]) > 0 ? atoi(argv[1]) : 1;
    const int64_t hidden = 4096 / by / 8 * 8, ffn = 11008 / by / 8 * 8;
    gpu_open();
    const double copy = gpu_copy_rate();
    printf("## %s\n\nA copy on the device: %.0f GB/s.\n\n", gpu->describe(), copy * 1e-9);
    printf("| what | ms | GB/s of weights | of the copy | TFLOP/s | of cuBLASLt alone |\n"
           "|---|---|---|---|---|---|\n");
    for (int64_t rows = 1; rows <= 4096; rows = rows == 1 ? 8 : rows == 8 ? 640 : rows * 32 / 5) {
        show_product("product", rows, hidden, hidden, copy, run_product);
        show_product("product", rows, hidden, ffn, copy, run_product);
        if (rows != 8) show_product("product, residual", rows, hidden, hidden, copy, run_add);
        if (rows != 8) show_ffn(rows, hidden, ffn, copy);
        if (by > 1 && rows == 8) break;
    }
    return 0;
}
