// tests/core/model/blocks.c -- models with quantised weights, one of each type: logits of one row,
// a few rows and many rows equal those of the same numbers in float64 loops (tests/kernels/blocks.c
// tests dequantisation).
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/dtype.h"
#include "core/base/random.h"
#include "core/files/gguf_write.h"
#include "core/model/model.h"
#include "tests/core/model/passes.h"
#include "tests/core/scratch.h"

enum { LAYERS = 2, WIDTH = 256, HEADS = 4, KV = 2, DIM = 64, INNER = 512, VOCAB = 96, ROWS = 40 };

static const double epsilon = 1e-5;

// --- random blocks -------------------------------------------------------------------------------

// Offsets of a block's scales, and scales that give weights of about 0.05 around 0.
static const struct scale {
    enum dtype dtype;
    int at, least_at; // offsets in the block; -1: none
    float scale, least;
} scales[] = {
    { DTYPE_Q8_0, 0, -1, 7e-4F, 0 },        { DTYPE_Q4_0, 0, -1, 0.011F, 0 },
    { DTYPE_Q4_1, 0, 2, 0.011F, -0.0825F }, { DTYPE_Q5_0, 0, -1, 0.0054F, 0 },
    { DTYPE_Q5_1, 0, 2, 0.0054F, -0.084F }, { DTYPE_Q2_K, 80, 82, 0.005F, 0.0075F },
    { DTYPE_Q3_K, 108, -1, 0.0013F, 0 },    { DTYPE_Q4_K, 0, 2, 3e-4F, 0.00225F },
    { DTYPE_Q5_K, 0, 2, 1.5e-4F, 0.0023F }, { DTYPE_Q6_K, 208, -1, 6e-5F, 0 },
    { DTYPE_IQ4_NL, 0, -1, 7e-4F, 0 },      { DTYPE_IQ4_XS, 0, -1, 5e-5F, 0 },
};

enum { TYPES = sizeof scales / sizeof *scales };

static unsigned char *random_blocks(const struct scale *s, int64_t numbers, uint64_t stream)
{
    const size_t bytes = dtype_bytes(s->dtype, numbers);
    const size_t block = (size_t)dtype_form(s->dtype).bytes;
    unsigned char *data = xmalloc(bytes);
    for (size_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)random_bits(17, RANDOM_WEIGHTS, stream << 32 | i);
    for (size_t i = 0; i < bytes; i += block) {
        floats_to(data + i + s->at, DTYPE_F16, &s->scale, 1);
        if (s->least_at >= 0) floats_to(data + i + s->least_at, DTYPE_F16, &s->least, 1);
    }
    return data;
}

// --- the model -----------------------------------------------------------------------------------

enum { EMBED, NORM, PARTS }; // parts of the whole model; nine per layer follow

static const struct part {
    const char *name;
    int64_t rows, columns; // rows 0: a vector of a norm
} whole[PARTS] = { { "token_embd.weight", VOCAB, WIDTH }, { "output_norm.weight", 0, WIDTH } };

enum { ATTN_NORM, Q, K, V, OUT, FFN_NORM, GATE, UP, DOWN, LAYER_PARTS };

static const struct part layer_parts[LAYER_PARTS] = {
    { "attn_norm", 0, WIDTH },    { "attn_q", HEADS *DIM, WIDTH }, { "attn_k", KV *DIM, WIDTH },
    { "attn_v", KV *DIM, WIDTH }, { "attn_output", WIDTH, WIDTH }, { "ffn_norm", 0, WIDTH },
    { "ffn_gate", INNER, WIDTH }, { "ffn_up", INNER, WIDTH },      { "ffn_down", WIDTH, INNER },
};

enum { TENSORS = PARTS + LAYERS * LAYER_PARTS };

static const struct part *part_of(int i)
{
    return i < PARTS ? &whole[i] : &layer_parts[(i - PARTS) % LAYER_PARTS];
}

static void *data_of(const struct scale *s, int i, size_t *bytes)
{
    const struct part *p = part_of(i);
    if (p->rows) {
        *bytes = dtype_bytes(s->dtype, p->rows * p->columns);
        return random_blocks(s, p->rows * p->columns, (uint64_t)i);
    }
    float *norm = xcalloc((size_t)p->columns, sizeof *norm);
    for (int64_t k = 0; k < p->columns; k++) norm[k] = 1 + 0.25F * (float)((k * 7 + i) % 5 - 2);
    *bytes = (size_t)p->columns * sizeof *norm;
    return norm;
}

static void write_metadata(struct gguf_writer *w)
{
    gguf_writer_text(w, "general.architecture", "llama");
    gguf_writer_u32(w, "llama.block_count", LAYERS);
    gguf_writer_u32(w, "llama.embedding_length", WIDTH);
    gguf_writer_u32(w, "llama.feed_forward_length", INNER);
    gguf_writer_u32(w, "llama.context_length", 1024);
    gguf_writer_u32(w, "llama.attention.head_count", HEADS);
    gguf_writer_u32(w, "llama.attention.head_count_kv", KV);
    gguf_writer_f32(w, "llama.attention.layer_norm_rms_epsilon", (float)epsilon);
    gguf_writer_text(w, "tokenizer.ggml.model", "gpt2");
    gguf_writer_text(w, "tokenizer.ggml.pre", "qwen2");
    gguf_writer_texts(w, "tokenizer.ggml.tokens", VOCAB);
    gguf_writer_text_of(w, "aa", 2);
    for (int i = 1; i < VOCAB; i++) gguf_writer_text_of(w, &(char){ (char)(' ' + i) }, 1);
    gguf_writer_texts(w, "tokenizer.ggml.merges", 1);
    gguf_writer_text_of(w, "a a", 3);
}

static void write_model(const char *path, const struct scale *s)
{
    struct err err;
    struct gguf_writer *w = gguf_writer_new(path);
    write_metadata(w);
    for (int i = 0; i < TENSORS; i++) {
        const struct part *p = part_of(i);
        char *name = i < PARTS ? xstrdup(p->name)
                               : xasprintf("blk.%d.%s.weight", (i - PARTS) / LAYER_PARTS, p->name);
        const int64_t shape[] = { p->rows, p->columns };
        gguf_writer_declare(w, name, p->rows ? s->dtype : DTYPE_F32, p->rows ? 2 : 1,
                            p->rows ? shape : shape + 1);
        free(name);
    }
    for (int i = 0; i < TENSORS; i++) {
        size_t bytes;
        void *data = data_of(s, i, &bytes);
        assert_int_equal(gguf_writer_data(w, data, bytes, &err), 0);
        free(data);
    }
    if (gguf_writer_finish(w, &err) < 0) fail_msg("%s", err.text);
}

// --- the same in float64 -------------------------------------------------------------------------

static float *numbers_of(const struct scale *s, int i)
{
    const struct part *p = part_of(i);
    size_t bytes;
    void *data = data_of(s, i, &bytes);
    if (!p->rows) return data;
    float *x = xcalloc((size_t)(p->rows * p->columns), sizeof *x);
    floats_from(x, data, s->dtype, (size_t)(p->rows * p->columns));
    free(data);
    return x;
}

static void product(double *y, const float *w, const double *x, int rows, int columns)
{
    for (int i = 0; i < rows; i++) {
        y[i] = 0;
        for (int j = 0; j < columns; j++) y[i] += (double)w[i * columns + j] * x[j];
    }
}

static void norm(double *y, const double *x, const float *gain)
{
    double sum = 0;
    for (int i = 0; i < WIDTH; i++) sum += x[i] * x[i];
    for (int i = 0; i < WIDTH; i++) y[i] = x[i] / sqrt(sum / WIDTH + epsilon) * (double)gain[i];
}

// Llama's GGUF files store the two dimensions of a rotary pair side by side.
static void turn(double *x, int heads, int position)
{
    for (int h = 0; h < heads; h++)
        for (int i = 0; i < DIM; i += 2) {
            const double angle = position * pow(10000, -(double)i / DIM);
            double *p = x + h * DIM + i, a = p[0], b = p[1];
            p[0] = a * cos(angle) - b * sin(angle);
            p[1] = a * sin(angle) + b * cos(angle);
        }
}

static void attend(double *out, const double *q, double (*k)[KV * DIM], double (*v)[KV * DIM],
                   int rows)
{
    for (int h = 0; h < HEADS; h++) {
        const int from = h / (HEADS / KV) * DIM;
        double weight[ROWS], sum = 0, most = -INFINITY;
        for (int r = 0; r < rows; r++) {
            weight[r] = 0;
            for (int i = 0; i < DIM; i++) weight[r] += q[h * DIM + i] * k[r][from + i] / sqrt(DIM);
            most = fmax(most, weight[r]);
        }
        for (int r = 0; r < rows; r++) sum += weight[r] = exp(weight[r] - most);
        for (int i = 0; i < DIM; i++) {
            out[h * DIM + i] = 0;
            for (int r = 0; r < rows; r++) out[h * DIM + i] += weight[r] / sum * v[r][from + i];
        }
    }
}

static void feed_forward(double *y, const double *x, float *const *layer)
{
    double gate[INNER], up[INNER];
    product(gate, layer[GATE], x, INNER, WIDTH);
    product(up, layer[UP], x, INNER, WIDTH);
    for (int i = 0; i < INNER; i++) up[i] *= gate[i] / (1 + exp(-gate[i]));
    product(y, layer[DOWN], up, WIDTH, INNER);
}

static void add(double *x, const double *y)
{
    for (int i = 0; i < WIDTH; i++) x[i] += y[i];
}

// Computes a layer for all rows.
static void layer_forward(double (*h)[WIDTH], float *const *layer)
{
    static double k[ROWS][KV * DIM], v[ROWS][KV * DIM];
    for (int r = 0; r < ROWS; r++) {
        double x[WIDTH], q[HEADS * DIM], out[HEADS * DIM], y[WIDTH];
        norm(x, h[r], layer[ATTN_NORM]);
        product(q, layer[Q], x, HEADS * DIM, WIDTH);
        product(k[r], layer[K], x, KV * DIM, WIDTH);
        product(v[r], layer[V], x, KV * DIM, WIDTH);
        turn(q, HEADS, r);
        turn(k[r], KV, r);
        attend(out, q, k, v, r + 1);
        product(y, layer[OUT], out, WIDTH, HEADS * DIM);
        add(h[r], y);
        norm(x, h[r], layer[FFN_NORM]);
        feed_forward(y, x, layer);
        add(h[r], y);
    }
}

// Logits of all rows; the head is the embedding.
static void reference(const struct scale *s, const int32_t *ids, double (*logits)[VOCAB])
{
    static double h[ROWS][WIDTH];
    float *w[TENSORS];
    for (int i = 0; i < TENSORS; i++) w[i] = numbers_of(s, i);
    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i < WIDTH; i++) h[r][i] = (double)w[EMBED][ids[r] * WIDTH + i];
    for (int l = 0; l < LAYERS; l++) layer_forward(h, w + PARTS + l * LAYER_PARTS);
    for (int r = 0; r < ROWS; r++) {
        double x[WIDTH];
        norm(x, h[r], w[NORM]);
        product(logits[r], w[EMBED], x, VOCAB, WIDTH);
    }
    for (int i = 0; i < TENSORS; i++) free(w[i]);
}

// --- comparing -----------------------------------------------------------------------------------

static void compare(const struct scale *s, const float *got, const double *want, int rows)
{
    double most = 0, worst = 0;
    for (int i = 0; i < rows * VOCAB; i++) {
        most = fmax(most, fabs(want[i]));
        const double away = fabs((double)got[i] - want[i]);
        if (!(away <= worst)) worst = away;
    }
    if (!(worst <= (test_in_16_bits(test_device()) ? 2e-4 : 2e-5) * most))
        fail_msg("%s, %d rows: logits differ by %g of %g", dtype_form(s->dtype).name, rows, worst,
                 most);
    assert_true(most > 0.1);
}

static void check_type(const struct scale *s)
{
    static double want[ROWS][VOCAB];
    struct err err = { "" };
    struct kv kv;
    int32_t ids[ROWS];
    char *folder = scratch_new(), *path = xasprintf("%s/m.gguf", folder);
    write_model(path, s);
    struct model *m = model_load(path, test_device(), NULL, &err);
    if (!m) fail_msg("%s", err.text);
    assert_int_equal(m->decoder.embed.dtype, s->dtype);
    for (int i = 0; i < ROWS; i++) ids[i] = (i * i * 7 + 3) % VOCAB;
    reference(s, ids, want);
    decoder_cache(&m->decoder, test_device(), &kv);
    const int steps[] = { ROWS - 6, ROWS - 1, ROWS }; // many rows, five, one
    for (int i = 0, done = 0; i < 3; done = steps[i++]) {
        float *got = pass_logits(m, &kv, ids, steps[i], NULL);
        compare(s, got, want[done], steps[i] - done);
        free(got);
    }
    kv_release(&kv);
    model_free(m);
    scratch_remove(folder);
    free(path);
}

static void logits_equal_those_of_unpacked_weights(void **state)
{
    (void)state;
    for (int i = 0; i < TYPES; i++) check_type(&scales[i]);
}

static void every_type_has_its_row(void **state)
{
    (void)state;
    for (int dtype = 0, i = 0; dtype < DTYPE_COUNT; dtype++)
        if (dtype_in_blocks((enum dtype)dtype)) assert_int_equal(scales[i++].dtype, dtype);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_has_its_row),
        cmocka_unit_test(logits_equal_those_of_unpacked_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
