// core/methods/steer_file.c -- files of steering vectors: safetensors, and llama.cpp's control
// vectors (GGUF, general.architecture "controlvector").
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/dtype.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/files/gguf.h"
#include "core/files/gguf_write.h"
#include "core/files/safetensors.h"
#include "core/methods/steer.h"

enum { LAYERS_MOST = 100000 };

static const char prefix[] = "direction.";

// An open file: one of the two pointers is set.
struct file {
    struct safetensors *safetensors;
    struct gguf *gguf;
    const struct safetensor *tensors;
    int64_t count;
};

static bool is_gguf(const char *path)
{
    return text_ends(path, ".gguf");
}

static int file_open(struct file *f, const char *path, struct err *err)
{
    *f = (struct file){ 0 };
    if (is_gguf(path)) {
        if (!(f->gguf = gguf_open(path, err))) return -1;
        f->tensors = f->gguf->tensors;
        f->count = (int64_t)f->gguf->tensor_count;
        return 0;
    }
    if (!(f->safetensors = safetensors_open(path, err))) return -1;
    f->tensors = f->safetensors->tensors;
    f->count = f->safetensors->count;
    return 0;
}

static void file_close(struct file *f)
{
    if (f->gguf) gguf_close(f->gguf);
    if (f->safetensors) safetensors_close(f->safetensors);
}

// Returns a value of the metadata; NULL: absent.
static const char *file_text(const struct file *f, const char *key)
{
    if (f->safetensors) return safetensors_metadata(f->safetensors, key);
    char *name = xasprintf("controlvector.%s", key);
    const char *text = gguf_text(f->gguf, name);
    free(name);
    return text;
}

// Returns the layer of "direction.12"; -1: another tensor, or a layer number with leading zeros or
// of LAYERS_MOST or more.
static int64_t layer_of(const char *name)
{
    if (strncmp(name, prefix, sizeof prefix - 1) != 0) return -1;
    const char *digits = name + sizeof prefix - 1;
    const size_t n = strspn(digits, "0123456789");
    if (!n || digits[n] || n > 6 || (n > 1 && *digits == '0')) return -1;
    const int64_t layer = strtoll(digits, NULL, 10);
    return layer < LAYERS_MOST ? layer : -1;
}

// A file's directions, sorted by layer; their values are not read yet.
struct directions {
    struct direction {
        int64_t layer;
        const struct safetensor *tensor;
    } * list;
    int64_t count, width;
};

static int compare_layers(const void *a, const void *b)
{
    const struct direction *x = a, *y = b;
    return (x->layer > y->layer) - (x->layer < y->layer);
}

// Lists the directions; refuses a file without any, and vectors of different widths. The caller
// frees d->list.
static int directions_list(struct directions *d, const char *path, const struct file *f,
                           struct err *err)
{
    *d = (struct directions){ .list = xcalloc((size_t)f->count + 1, sizeof *d->list) };
    for (int64_t i = 0; i < f->count; i++) {
        const struct safetensor *t = &f->tensors[i];
        const int64_t layer = layer_of(t->name);
        if (layer < 0) continue;
        if (t->rank != 1 || t->shape[0] < 1 || t->dtype < 0 || !safetensor_is_float(t))
            return err_set(err, "%s of '%s' is not a vector of f32, f16 or bf16", t->name, path);
        if (d->count && t->shape[0] != d->width)
            return err_set(err, "'%s' has vectors of %lld and of %lld numbers", path,
                           (long long)d->width, (long long)t->shape[0]);
        d->width = t->shape[0];
        d->list[d->count++] = (struct direction){ layer, t };
    }
    qsort(d->list, (size_t)d->count, sizeof *d->list, compare_layers);
    if (d->count) return 0;
    return err_set(err,
                   "'%s' has no steering vectors: no tensor is named direction.N (/steer make "
                   "writes such a file)",
                   path);
}

// Reads a direction as f32: x [D].
static int direction_read(const struct direction *d, const char *path, float *x, struct err *err)
{
    const size_t n = (size_t)d->tensor->shape[0];
    floats_from(x, d->tensor->data, (enum dtype)d->tensor->dtype, n);
    if (floats_finite(x, n)) return 0;
    return err_set(err, "%s of '%s' has a NaN or infinity", d->tensor->name, path);
}

// --- for a model ---------------------------------------------------------------------------------

static int fits(const struct directions *d, const char *path, int64_t layers, int64_t width,
                struct err *err)
{
    const int64_t last = d->list[d->count - 1].layer;
    if (d->width != width)
        return err_set(err,
                       "'%s' is for another model: its vectors (direction.%lld) have %lld numbers, "
                       "but the model's hidden states have %lld",
                       path, (long long)d->list[0].layer, (long long)d->width, (long long)width);
    if (last >= layers)
        return err_set(err,
                       "'%s' is for another model: it has a vector for layer %lld, but the "
                       "model's %lld layers are 0 to %lld",
                       path, (long long)last, (long long)layers, (long long)layers - 1);
    return 0;
}

int steer_read(const char *path, double factor, int64_t layers, int64_t width, float *sum,
               bool *there, struct err *err)
{
    struct file f;
    struct directions d = { 0 };
    if (file_open(&f, path, err) < 0) return err_in(err, "steer.vectors");
    float *x = xreallocarray(NULL, (size_t)width + 1, sizeof *x);
    int status = directions_list(&d, path, &f, err);
    if (status == 0) status = fits(&d, path, layers, width, err);
    for (int64_t i = 0; i < d.count && status == 0; i++) {
        float *row = sum + d.list[i].layer * width;
        status = direction_read(&d.list[i], path, x, err);
        for (int64_t k = 0; k < width && status == 0; k++) row[k] += (float)(factor * (double)x[k]);
        there[d.list[i].layer] |= status == 0;
    }
    free(x);
    free(d.list);
    file_close(&f);
    return status;
}

// --- writing -------------------------------------------------------------------------------------

// Writes the known fields of the source with put(writer, key, value).
static void put_source(const struct steer_source *s, void *writer,
                       void (*put)(void *writer, const char *key, const char *value))
{
    char plus[24], minus[24];
    snprintf(plus, sizeof plus, "%lld", (long long)s->plus);
    snprintf(minus, sizeof minus, "%lld", (long long)s->minus);
    const char *const pairs[][2] = {
        { "model_hint", s->family },
        { "model", s->model },
        { "state", s->state },
        { "method", s->method },
        { "position", s->position },
        { "plus", s->plus ? plus : NULL },
        { "minus", s->minus ? minus : NULL },
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (pairs[i][1]) put(writer, pairs[i][0], pairs[i][1]);
}

static void put_gguf(void *writer, const char *key, const char *value)
{
    char *name = xasprintf("controlvector.%s", key);
    gguf_writer_text(writer, name, value);
    free(name);
}

static void put_safetensors(void *writer, const char *key, const char *value)
{
    safetensors_writer_metadata(writer, key, value);
}

// Vectors to write, in the order of their layers.
struct vectors {
    int64_t *layers; // [count]
    const float **x; // [count] -> [width]
    int64_t count, width;
};

static void vectors_init(struct vectors *v, int64_t most, int64_t width)
{
    *v = (struct vectors){ .width = width };
    v->layers = xcalloc((size_t)most + 1, sizeof *v->layers);
    v->x = xcalloc((size_t)most + 1, sizeof *v->x);
}

static void vectors_add(struct vectors *v, int64_t layer, const float *x)
{
    v->layers[v->count] = layer;
    v->x[v->count++] = x;
}

static void vectors_release(struct vectors *v)
{
    free(v->layers);
    free(v->x);
}

static int write_gguf(const char *path, const struct vectors *v, const struct steer_source *s,
                      struct err *err)
{
    if (v->count && v->layers[0] == 0)
        return err_set(err,
                       "'%s' cannot hold the vector of layer 0: llama.cpp's control vectors begin "
                       "at layer 1; use a .safetensors file",
                       path);
    struct gguf_writer *w = gguf_writer_new(path);
    gguf_writer_text(w, "general.architecture", "controlvector");
    gguf_writer_u32(w, "controlvector.layer_count", v->count);
    if (!s->family) put_gguf(w, "model_hint", ""); // llama.cpp's files always have it
    put_source(s, w, put_gguf);
    int status = 0;
    for (int64_t i = 0; i < v->count; i++) {
        char *name = xasprintf("%s%lld", prefix, (long long)v->layers[i]);
        gguf_writer_declare(w, name, DTYPE_F32, 1, &v->width);
        free(name);
    }
    for (int64_t i = 0; i < v->count && status == 0; i++)
        status = gguf_writer_data(w, v->x[i], (uint64_t)v->width * sizeof *v->x[i], err);
    if (status == 0) return gguf_writer_finish(w, err);
    gguf_writer_abandon(w);
    return -1;
}

static int write_safetensors(const char *path, const struct vectors *v,
                             const struct steer_source *s, struct err *err)
{
    struct safetensors_writer *w = safetensors_writer_new(path);
    put_source(s, w, put_safetensors);
    int status = 0;
    for (int64_t i = 0; i < v->count; i++) {
        char *name = xasprintf("%s%lld", prefix, (long long)v->layers[i]);
        safetensors_writer_declare(w, name, DTYPE_F32, 1, &v->width);
        free(name);
    }
    for (int64_t i = 0; i < v->count && status == 0; i++)
        status = safetensors_writer_data(w, v->x[i], (uint64_t)v->width * sizeof *v->x[i], err);
    if (status == 0) return safetensors_writer_finish(w, err);
    safetensors_writer_abandon(w);
    return -1;
}

static int write_file(const char *path, const struct vectors *v, const struct steer_source *source,
                      struct err *err)
{
    return (is_gguf(path) ? write_gguf : write_safetensors)(path, v, source, err);
}

int steer_write(const char *path, const float *vectors, const bool *there, int64_t layers,
                int64_t width, const struct steer_source *source, struct err *err)
{
    struct vectors v;
    vectors_init(&v, layers, width);
    for (int64_t l = 0; l < layers; l++)
        if (there[l]) vectors_add(&v, l, vectors + l * width);
    const int status = write_file(path, &v, source, err);
    vectors_release(&v);
    return status;
}

// --- without a model -----------------------------------------------------------------------------

static int64_t count_of(const struct file *f, const char *key)
{
    const char *text = file_text(f, key);
    const long long n = text ? strtoll(text, NULL, 10) : 0;
    return n > 0 ? n : 0;
}

static struct steer_source source_of(const struct file *f)
{
    return (struct steer_source){ .model = file_text(f, "model"),
                                  .state = file_text(f, "state"),
                                  .family = file_text(f, "model_hint"),
                                  .method = file_text(f, "method"),
                                  .position = file_text(f, "position"),
                                  .plus = count_of(f, "plus"),
                                  .minus = count_of(f, "minus") };
}

int steer_convert(const char *from, const char *to, struct err *err)
{
    struct file f;
    struct directions d = { 0 };
    struct vectors v = { 0 };
    if (file_open(&f, from, err) < 0) return -1;
    int status = directions_list(&d, from, &f, err);
    // The file holds d.count * d.width numbers, so the product fits.
    float *x = xreallocarray(NULL, (size_t)(d.count * d.width) + 1, sizeof *x);
    vectors_init(&v, d.count, d.width);
    for (int64_t i = 0; i < d.count && status == 0; i++) {
        status = direction_read(&d.list[i], from, x + i * d.width, err);
        vectors_add(&v, d.list[i].layer, x + i * d.width);
    }
    if (status == 0) {
        const struct steer_source source = source_of(&f);
        status = write_file(to, &v, &source, err);
    }
    vectors_release(&v);
    free(x);
    free(d.list);
    file_close(&f);
    return status;
}

int steer_about(struct steer_about *a, const char *path, struct err *err)
{
    struct file f;
    struct directions d = { 0 };
    *a = (struct steer_about){ 0 };
    if (file_open(&f, path, err) < 0) return -1;
    const int status = directions_list(&d, path, &f, err);
    if (status == 0) {
        struct buf b = { 0 };
        for (int64_t i = 0; i < d.count; i++)
            buf_printf(&b, "%s%lld", i ? "," : "", (long long)d.list[i].layer);
        const struct steer_source s = source_of(&f);
        a->width = d.width;
        a->layers = buf_take(&b);
        a->model = xstrdup(s.model ? s.model : "");
        a->state = xstrdup(s.state ? s.state : "");
        a->source = s.method ? xasprintf("%s of %lld and %lld samples at the %s", s.method,
                                         (long long)s.plus, (long long)s.minus,
                                         s.position ? s.position : "?")
                             : xstrdup("");
    }
    free(d.list);
    file_close(&f);
    return status;
}

void steer_about_release(struct steer_about *a)
{
    free(a->layers);
    free(a->source);
    free(a->model);
    free(a->state);
}

// --- names ---------------------------------------------------------------------------------------

static const char *const endings[] = { ".safetensors", ".gguf" };
enum { ENDINGS = sizeof endings / sizeof *endings };

char *steer_path(const char *name)
{
    for (int i = 0; i < ENDINGS; i++)
        if (text_ends(name, endings[i])) return xstrdup(name);
    for (int i = 0; i < ENDINGS; i++) {
        char *path = xasprintf("%s%s", name, endings[i]);
        if (access(path, F_OK) == 0) return path;
        free(path);
    }
    return xasprintf("%s%s", name, endings[0]);
}

char *steer_name(const char *path)
{
    const char *base = text_file_name(path);
    for (int i = 0; i < ENDINGS; i++)
        if (text_ends(base, endings[i]) && strlen(base) > strlen(endings[i]))
            return xstrndup(base, strlen(base) - strlen(endings[i]));
    return xstrdup(base);
}
