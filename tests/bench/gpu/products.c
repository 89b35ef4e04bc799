// tests/bench/gpu/products.c -- the GPU's kernels on the shapes of LLaVA-1.5-7B's decoder, against
// limits of the same run: a copy on the device, cuBLASLt alone. Prints Markdown. First come chains
// of products of few rows as decoders have them, replayed as a token is, by both kinds of kernels
// (kernels/few_rows.cu, kernels/few_rows_ring.cu).
//
//   products [DIVISOR]     divides sizes, to try the benchmark on the emulated GPU
#include "core/base/dtype.h"
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

// --- chains of few rows --------------------------------------------------------------------------

// The products of a decoder's layer: queries, keys and values; output; gate and up; down.
enum { CHAIN_PARTS = 4, CHAIN_LAYERS = 4, CHAIN_ROWS = 8 };
static const struct decoder_shape {
    const char *name;
    int64_t hidden, kv, ffn;
} decoder_shapes[] = { { "7B (LLaVA-1.5)", 4096, 4096, 11008 },
                       { "3B (Llama-3.2)", 3072, 1024, 8192 },
                       { "1B (Llama-3.2)", 2048, 512, 8192 } };

// Weights of CHAIN_LAYERS layers, one after the other: more than any cache holds.
struct chain {
    struct tensor w[CHAIN_PARTS], x[CHAIN_PARTS], y[CHAIN_PARTS];
    double bytes;
};

// n / by, rounded up to whole blocks of any dtype.
static int64_t scaled(int64_t n, int64_t by)
{
    return (n / by + 255) / 256 * 256;
}

static struct chain chain_of(const struct decoder_shape *d, enum dtype dtype, int64_t by)
{
    const int64_t hidden = scaled(d->hidden, by), ffn = scaled(d->ffn, by), kv = scaled(d->kv, by);
    const int64_t m[] = { hidden + 2 * kv, hidden, 2 * ffn, hidden };
    const int64_t k[] = { hidden, hidden, hidden, ffn };
    struct chain c = { .bytes = 0 };
    for (int i = 0; i < CHAIN_PARTS; i++) {
        c.w[i] = gpu_tensor(dtype, 3, CHAIN_LAYERS, m[i], k[i]);
        c.x[i] = gpu_tensor(DTYPE_F32, 2, CHAIN_ROWS, k[i], 0);
        c.y[i] = gpu_tensor(DTYPE_F32, 2, CHAIN_ROWS, m[i], 0);
        c.bytes += (double)tensor_bytes(&c.w[i]);
    }
    return c;
}

static void run_chain(const struct chain *c, int64_t rows)
{
    for (int64_t layer = 0; layer < CHAIN_LAYERS; layer++)
        for (int i = 0; i < CHAIN_PARTS; i++) {
            struct timed t = { .y = c->y[i], .x = c->x[i], .w = c->w[i] };
            t.y.shape[0] = t.x.shape[0] = rows;
            // Like the forms of a token, and unlike run_product, this loads weights before the
            // previous kernel has ended.
            gpu_must(run_add(&t, layer));
        }
}

// Seconds of a replay.
static double chain_seconds(const struct chain *c, int64_t rows)
{
    run_chain(c, rows); // shared memory is allowed outside of recordings
    gpu_wait(&c->y[0]);
    gpu_must(gpu->recorder->start());
    run_chain(c, rows);
    void *recording = gpu->recorder->finish();
    if (!recording) gpu_must(-1);
    double start = 0;
    for (int i = -GPU_WARM; i < GPU_ROUNDS; i++) {
        if (i == 0) gpu_wait(&c->y[0]), start = clock_seconds();
        gpu_must(gpu->recorder->play(recording));
    }
    gpu_wait(&c->y[0]);
    const double s = (clock_seconds() - start) / GPU_ROUNDS;
    gpu->recorder->forget(recording);
    return s;
}

static void show_rows(const char *what, const struct chain *c, int64_t rows, double copy)
{
    double rate[2] = { 0, 0 };
    for (int ring = 0; ring < 2; ring++)
        if (gpu_library->ring(ring) || !ring) rate[ring] = c->bytes / chain_seconds(c, rows);
    gpu_library->ring(false);
    printf("| %s | %d | %.0f | %.2f | ", what, (int)rows, rate[0] * 1e-9, rate[0] / copy);
    if (rate[1] > 0)
        printf("%.0f | %.2f | %.2f |\n", rate[1] * 1e-9, rate[1] / copy, rate[1] / rate[0]);
    else
        printf("not on this GPU | | |\n");
    fflush(stdout);
}

static void show_chain(const struct decoder_shape *d, enum dtype dtype, int64_t by, double copy)
{
    struct chain c = chain_of(d, dtype, by);
    char what[64];
    snprintf(what, sizeof what, "%s, %s", d->name, dtype_form(dtype).name);
    for (int64_t rows = 1; rows <= CHAIN_ROWS; rows *= by > 1 ? CHAIN_ROWS : 2)
        show_rows(what, &c, rows, copy);
    for (int i = 0; i < CHAIN_PARTS; i++) {
        gpu->release(c.w[i].data);
        gpu->release(c.x[i].data);
        gpu->release(c.y[i].data);
    }
}

static void show_chains(int64_t by, double copy)
{
    printf("| products of %d layers, replayed | rows | registers, GB/s | of the copy | ring, GB/s "
           "| of the copy | ring / registers |\n|---|---|---|---|---|---|---|\n",
           (int)CHAIN_LAYERS);
    const size_t shapes = sizeof decoder_shapes / sizeof *decoder_shapes;
    for (size_t i = by > 1 ? shapes - 1 : 0; i < shapes; i++)
        show_chain(&decoder_shapes[i], DTYPE_BF16, by, copy);
    for (int i = 0; i < 2 && by == 1; i++)
        show_chain(&decoder_shapes[0], i ? DTYPE_Q4_K : DTYPE_Q8_0, by, copy);
    printf("\n");
}

int main(int argc, char **argv)
{
    const int64_t by = argc > 1 && atoi(argv[1]) > 0 ? atoi(argv[1]) : 1;
    const int64_t hidden = 4096 / by / 8 * 8, ffn = 11008 / by / 8 * 8;
    gpu_open();
    const double copy = gpu_copy_rate();
    printf("## %s\n\nA copy on the device: %.0f GB/s.\n\n", gpu->describe(), copy * 1e-9);
    show_chains(by, copy);
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
