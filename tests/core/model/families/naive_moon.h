// tests/core/model/families/naive_moon.h -- a second implementation of LLaVA with MoonViT: the
// folder of a small model (docs/families.md has the layout), and its visual tokens, computed from
// the patches of a picture in loops over doubles.
#ifndef TESTS_CORE_MODEL_FAMILIES_NAIVE_MOON_H
#define TESTS_CORE_MODEL_FAMILIES_NAIVE_MOON_H

#include <math.h>
#include <string.h>

#include "core/base/random.h"
#include "core/files/safetensors.h"
#include "tests/core/scratch.h"

#define MOON_DECODER "tests/goldens/llava-siglip-llama3" // the small model's decoder and tokenizer

enum { MOON_TENSORS = 128, MOON_OUT = 60 }; // MOON_OUT: width of that decoder

// The sizes of the encoder (moon_config has their keys); its table of positions has rows x cols
// entries.
struct moon_shape {
    int layers, hidden, heads, ffn, patch, merge, rows, cols;
    const char *tower; // a file that has the encoder's weights; NULL: random ones
};

struct moon_tensor {
    char name[96];
    int rank;
    int64_t shape[4], count;
    double *data;
};

struct moon {
    struct moon_shape s;
    struct moon_tensor tensor[MOON_TENSORS];
    int count;
};

// --- the model -----------------------------------------------------------------------------------

static inline struct moon_tensor *moon_find(struct moon *m, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static inline struct moon_tensor *moon_find(struct moon *m, const char *format, ...)
{
    char name[96];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    for (int i = 0; i < m->count; i++)
        if (!strcmp(m->tensor[i].name, name)) return &m->tensor[i];
    fatal("no tensor %s", name);
}

static inline void moon_add(struct moon *m, const char *name, const int64_t shape[4])
{
    struct moon_tensor *t = &m->tensor[m->count];
    snprintf(t->name, sizeof t->name, "%s", name);
    t->count = 1;
    for (t->rank = 0; t->rank < 4 && shape[t->rank]; t->rank++) {
        t->shape[t->rank] = shape[t->rank];
        t->count *= shape[t->rank];
    }
    t->data = xreallocarray(NULL, (size_t)t->count, sizeof *t->data);
    const bool gain = t->rank == 1 && strstr(name, "norm") && strstr(name, ".weight");
    for (int64_t i = 0; i < t->count; i++) { // float32, as in the file
        const double noise = random_unit((uint64_t)m->count, RANDOM_WEIGHTS, (uint64_t)i) - 0.5;
        t->data[i] = (float)((gain ? 1 : 0) + 0.5 * noise);
    }
    m->count++;
}

// Adds NAME.weight [out, in] and NAME.bias [out]; in 0: a norm.
static inline void moon_add_layer(struct moon *m, const char *name, int64_t out, int64_t in)
{
    char full[96];
    snprintf(full, sizeof full, "%s.weight", name);
    moon_add(m, full, (int64_t[4]){ out, in });
    snprintf(full, sizeof full, "%s.bias", name);
    moon_add(m, full, (int64_t[4]){ out });
}

static inline double moon_number(const struct safetensor *t, int64_t i)
{
    if (t->dtype == DTYPE_F32) return (double)((const float *)t->data)[i];
    const uint32_t bits = (uint32_t)((const uint16_t *)t->data)[i] << 16; // bf16
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

// Reads the encoder's weights from the file.
static inline void moon_take_tower(struct moon *m, const char *file)
{
    struct err err = { 0 };
    struct safetensors *f = safetensors_open(file, &err);
    if (!f) fatal("%s", err.text);
    for (int i = 0; i < m->count; i++) {
        struct moon_tensor *t = &m->tensor[i];
        const struct safetensor *from = safetensors_find(f, t->name);
        if (strncmp(t->name, "vision_tower.", 13) != 0) continue;
        if (!from || from->bytes / (from->dtype == DTYPE_F32 ? 4 : 2) != (uint64_t)t->count)
            fatal("%s has no such %s", file, t->name);
        for (int64_t k = 0; k < t->count; k++) t->data[k] = moon_number(from, k);
    }
    safetensors_close(f);
}

static inline void moon_open(struct moon *m, const struct moon_shape *s)
{
    const int64_t D = s->hidden, joined = D * s->merge * s->merge;
    static const char *const layers[] = { "norm0", "wqkv", "wo", "norm1", "mlp.fc0", "mlp.fc1" };
    const int64_t size[][2] = { { D, 0 }, { 3 * D, D },  { D, D },
                                { D, 0 }, { s->ffn, D }, { D, s->ffn } };
    *m = (struct moon){ .s = *s };
    moon_add(m, "vision_tower.patch_embed.proj.weight", (int64_t[4]){ D, 3, s->patch, s->patch });
    moon_add(m, "vision_tower.patch_embed.proj.bias", (int64_t[4]){ D });
    moon_add(m, "vision_tower.patch_embed.pos_emb.weight", (int64_t[4]){ s->rows, s->cols, D });
    for (int l = 0; l < s->layers; l++)
        for (int i = 0; i < 6; i++) {
            char name[64];
            snprintf(name, sizeof name, "vision_tower.encoder.blocks.%d.%s", l, layers[i]);
            moon_add_layer(m, name, size[i][0], size[i][1]);
        }
    moon_add_layer(m, "vision_tower.encoder.final_layernorm", D, 0);
    moon_add_layer(m, "multi_modal_projector.linear_1", MOON_OUT, joined);
    moon_add_layer(m, "multi_modal_projector.linear_2", MOON_OUT, MOON_OUT);
    if (s->tower) moon_take_tower(m, s->tower);
}

static inline void moon_close(struct moon *m)
{
    for (int i = 0; i < m->count; i++) free(m->tensor[i].data);
}

// --- the folder ----------------------------------------------------------------------------------

static inline void moon_put(struct safetensors_writer *w, const struct moon_tensor *t, bool data)
{
    struct err err = { 0 };
    if (!data) {
        safetensors_writer_declare(w, t->name, DTYPE_F32, t->rank, t->shape);
        return;
    }
    float *values = xreallocarray(NULL, (size_t)t->count, sizeof *values);
    for (int64_t i = 0; i < t->count; i++) values[i] = (float)t->data[i];
    if (safetensors_writer_data(w, values, (uint64_t)t->count * 4, &err) < 0) fatal("%s", err.text);
    free(values);
}

static inline void moon_weights(const struct moon *m, const char *folder)
{
    struct err err = { 0 };
    char *path = xasprintf("%s/model.safetensors", folder);
    struct safetensors_writer *w = safetensors_writer_new(path);
    struct safetensors *shard[3];
    for (int i = 0; i < 3; i++) {
        char name[96];
        snprintf(name, sizeof name, MOON_DECODER "/model-%05d-of-00003.safetensors", i + 1);
        if (!(shard[i] = safetensors_open(name, &err))) fatal("%s", err.text);
    }
    for (int data = 0; data < 2; data++) {
        for (int i = 0; i < m->count; i++) moon_put(w, &m->tensor[i], data);
        for (int i = 0; i < 3; i++)
            for (int64_t k = 0; k < shard[i]->count; k++) {
                const struct safetensor *t = &shard[i]->tensors[k];
                if (strncmp(t->name, "language_model.", 15) != 0) continue;
                if (!data)
                    safetensors_writer_declare(w, t->name, (enum dtype)t->dtype, t->rank, t->shape);
                else if (safetensors_writer_data(w, t->data, t->bytes, &err) < 0)
                    fatal("%s", err.text);
            }
    }
    if (safetensors_writer_finish(w, &err) < 0) fatal("%s", err.text);
    for (int i = 0; i < 3; i++) safetensors_close(shard[i]);
    free(path);
}

// Writes the config of the decoder's folder with this encoder; `more`: additional keys, or NULL.
static inline void moon_config(const struct moon *m, const char *folder, const char *more)
{
    const struct moon_shape *s = &m->s;
    char *fields = xasprintf(
        "\"vision_config\": {\"model_type\": \"moonvit\", \"hidden_size\": %d, "
        "\"num_hidden_layers\": %d, \"num_attention_heads\": %d, \"intermediate_size\": %d, "
        "\"patch_size\": %d, \"merge_kernel_size\": [%d, %d], \"init_pos_emb_height\": %d, "
        "\"init_pos_emb_width\": %d}, \"vision_feature_layer\": -1%s%s",
        s->hidden, s->layers, s->heads, s->ffn, s->patch, s->merge, s->merge, s->rows, s->cols,
        more ? ", " : "", more ? more : "");
    scratch_config(folder, MOON_DECODER, fields);
    free(fields);
}

static inline void moon_write(const struct moon *m, const char *folder)
{
    static const char *const files[] = { "chat_template.jinja", "tokenizer.json",
                                         "tokenizer_config.json", "generation_config.json" };
    for (int i = 0; i < 4; i++) scratch_copy(folder, MOON_DECODER, files[i]);
    scratch_text(folder, "preprocessor_config.json", "{\"in_token_limit\": 48}");
    moon_config(m, folder, NULL);
    moon_weights(m, folder);
}

// --- results -------------------------------------------------------------------------------------

// y = W x + b
static inline void moon_linear(struct moon *m, const char *name, const double *x, double *y)
{
    const struct moon_tensor *w = moon_find(m, "%s.weight", name),
                             *b = moon_find(m, "%s.bias", name);
    const int64_t in = w->count / b->count;
    for (int64_t i = 0; i < b->count; i++) {
        y[i] = b->data[i];
        for (int64_t j = 0; j < in; j++) y[i] += w->data[i * in + j] * x[j];
    }
}

static inline void moon_norm(struct moon *m, const char *name, const double *x, double *y)
{
    const struct moon_tensor *w = moon_find(m, "%s.weight", name),
                             *b = moon_find(m, "%s.bias", name);
    const int64_t n = w->count;
    double mean = 0, square = 0;
    for (int64_t i = 0; i < n; i++) mean += x[i] / (double)n;
    for (int64_t i = 0; i < n; i++) square += (x[i] - mean) * (x[i] - mean) / (double)n;
    for (int64_t i = 0; i < n; i++)
        y[i] = (x[i] - mean) / sqrt(square + 1e-5) * w->data[i] + b->data[i];
}

// The kernel of cubic convolution (R. Keys, 1981) with a = -0.75, at distance x.
static inline double moon_cubic(double x)
{
    const double a = -0.75, d = fabs(x);
    if (d < 1) return (a + 2) * d * d * d - (a + 3) * d * d + 1;
    return d < 2 ? a * (d * d * d - 5 * d * d + 8 * d - 4) : 0;
}

// Adds the learned position of (row, col) in a grid of rows x cols.
static inline void moon_position(struct moon *m, double *x, int64_t row, int64_t col, int64_t rows,
                                 int64_t cols)
{
    const struct moon_tensor *t = moon_find(m, "vision_tower.patch_embed.pos_emb.weight");
    const int64_t R = t->shape[0], C = t->shape[1], D = t->shape[2];
    const double y = ((double)row + 0.5) * (double)R / (double)rows - 0.5;
    const double z = ((double)col + 0.5) * (double)C / (double)cols - 0.5;
    for (int64_t r = -3; r < R + 3; r++)
        for (int64_t c = -3; c < C + 3; c++) {
            const double weight = moon_cubic(y - (double)r) * moon_cubic(z - (double)c);
            const int64_t rr = r < 0 ? 0 : r >= R ? R - 1 : r, cc = c < 0 ? 0 : c >= C ? C - 1 : c;
            for (int64_t i = 0; i < D; i++) x[i] += weight * t->data[(rr * C + cc) * D + i];
        }
}

// Rotates the pairs of a head [d] of the patch at (row, col).
static inline void moon_rotate(double *x, int d, int64_t row, int64_t col)
{
    for (int pair = 0; pair < d / 2; pair++) {
        const double frequency = pow(10000, -4.0 * (pair / 2) / d);
        const double angle = frequency * (double)(pair % 2 ? row : col);
        const double a = x[2 * pair], b = x[2 * pair + 1];
        x[2 * pair] = a * cos(angle) - b * sin(angle);
        x[2 * pair + 1] = a * sin(angle) + b * cos(angle);
    }
}

// h [n, D] += attention of a block over the whole picture.
static inline void moon_attend(struct moon *m, int l, double *h, int64_t n, int64_t cols)
{
    const int64_t D = m->s.hidden, d = D / m->s.heads;
    double *qkv = xcalloc((size_t)(n * 3 * D), sizeof *qkv);
    double *x = xcalloc((size_t)(2 * D), sizeof *x), *p = xcalloc((size_t)n, sizeof *p);
    char name[64];
    for (int64_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "vision_tower.encoder.blocks.%d.norm0", l);
        moon_norm(m, name, h + i * D, x);
        snprintf(name, sizeof name, "vision_tower.encoder.blocks.%d.wqkv", l);
        moon_linear(m, name, x, qkv + i * 3 * D);
        for (int64_t part = 0; part < 2 * D; part += d) // the heads of q, then those of k
            moon_rotate(qkv + i * 3 * D + part, (int)d, i / cols, i % cols);
    }
    snprintf(name, sizeof name, "vision_tower.encoder.blocks.%d.wo", l);
    for (int64_t i = 0; i < n; i++) {
        memset(x, 0, (size_t)D * sizeof *x);
        for (int64_t head = 0; head < D; head += d) {
            double sum = 0;
            for (int64_t j = 0; j < n; j++) {
                double dot = 0;
                for (int64_t c = 0; c < d; c++)
                    dot += qkv[i * 3 * D + head + c] * qkv[j * 3 * D + D + head + c];
                sum += p[j] = exp(dot / sqrt((double)d));
            }
            for (int64_t j = 0; j < n; j++)
                for (int64_t c = 0; c < d; c++)
                    x[head + c] += p[j] / sum * qkv[j * 3 * D + 2 * D + head + c];
        }
        moon_linear(m, name, x, x + D);
        for (int64_t c = 0; c < D; c++) h[i * D + c] += x[D + c];
    }
    free(qkv);
    free(x);
    free(p);
}

static inline void moon_ffn(struct moon *m, int l, double *h)
{
    const int64_t D = m->s.hidden, F = m->s.ffn;
    double *x = xcalloc((size_t)(2 * D + F), sizeof *x), *y = x + D, *z = y + D;
    char name[64];
    snprintf(name, sizeof name, "vision_tower.encoder.blocks.%d.norm1", l);
    moon_norm(m, name, h, x);
    snprintf(name, sizeof name, "vision_tower.encoder.blocks.%d.mlp.fc0", l);
    moon_linear(m, name, x, z);
    for (int64_t i = 0; i < F; i++) // GELU in its tanh form
        z[i] *= 0.5 * (1 + tanh(sqrt(2 / M_PI) * (z[i] + 0.044715 * z[i] * z[i] * z[i])));
    snprintf(name, sizeof name, "vision_tower.encoder.blocks.%d.mlp.fc1", l);
    moon_linear(m, name, z, y);
    for (int64_t i = 0; i < D; i++) h[i] += y[i];
    free(x);
}

// The visual token at (row, col) of the merged grid, from features h [n, D] with `cols` patches in
// a row.
static inline void moon_project(struct moon *m, const double *h, int64_t row, int64_t col,
                                int64_t cols, double *token)
{
    const int64_t D = m->s.hidden, k = m->s.merge;
    double *x = xcalloc((size_t)(k * k * D), sizeof *x), inner[MOON_OUT];
    for (int64_t i = 0; i < k * k; i++)
        memcpy(x + i * D, h + ((row * k + i / k) * cols + col * k + i % k) * D,
               (size_t)D * sizeof *x);
    moon_linear(m, "multi_modal_projector.linear_1", x, inner);
    for (int i = 0; i < MOON_OUT; i++) inner[i] *= 0.5 * (1 + erf(inner[i] / sqrt(2)));
    moon_linear(m, "multi_modal_projector.linear_2", inner, token);
    free(x);
}

// Visual tokens [rows/merge * cols/merge, MOON_OUT] of a picture of rows x cols patches, row by
// row, each [3, patch, patch].
static inline void moon_visual(struct moon *m, const float *patches, int64_t rows, int64_t cols,
                               double *tokens)
{
    const int64_t D = m->s.hidden, n = rows * cols, size = 3L * m->s.patch * m->s.patch;
    double *h = xcalloc((size_t)(n * D), sizeof *h), *x = xcalloc((size_t)(size + D), sizeof *x);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = 0; k < size; k++) x[k] = (double)patches[i * size + k];
        moon_linear(m, "vision_tower.patch_embed.proj", x, h + i * D);
        moon_position(m, h + i * D, i / cols, i % cols, rows, cols);
    }
    for (int l = 0; l < m->s.layers; l++) {
        moon_attend(m, l, h, n, cols);
        for (int64_t i = 0; i < n; i++) moon_ffn(m, l, h + i * D);
    }
    for (int64_t i = 0; i < n; i++) {
        moon_norm(m, "vision_tower.encoder.final_layernorm", h + i * D, x);
        memcpy(h + i * D, x, (size_t)D * sizeof *x);
    }
    for (int64_t i = 0; i < n / m->s.merge / m->s.merge; i++)
        moon_project(m, h, i / (cols / m->s.merge), i % (cols / m->s.merge), cols,
                     tokens + i * MOON_OUT);
    free(h);
    free(x);
}

#endif
