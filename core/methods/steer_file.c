// core/methods/steer_file.c -- files of steering vectors: safetensors, and llama.cpp's control
// vectors (GGUF, general.architecture "controlvector").
#include <math.h>
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

// An open file: one of the two.
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

// Returns the layer of "direction.12"; -1: another tensor, or a number without its one spelling.
static int64_t layer_of(const char *name)
{
    if (strncmp(name, prefix, sizeof prefix - 1) != 0) return -1;
    const char *digits = name + sizeof prefix - 1;
    const size_t n = strspn(digits, "0123456789");
    if (!n || digits[n] || n > 6 || (n > 1 && *digits == '0')) return -1;
    const int64_t layer = strtoll(digits, NULL, 10);
    return layer < LAYERS_MOST ? layer : -1;
}

// Reads a direction as f32; the caller frees it. NULL with a message.
static float *read_direction(const char *path, const struct safetensor *t, struct err *err)
{
    if (t->rank != 1 || t->dtype < 0 || !safetensor_is_float(t)) {
        err_set(err, "%s of '%s' is not a vector of f32, f16 or bf16", t->name, path);
        return NULL;
    }
    const size_t n = (size_t)t->shape[0];
    float *x = xreallocarray(NULL, n + 1, sizeof *x);
    floats_from(x, t->data, (enum dtype)t->dtype, n);
    if (floats_finite(x, n)) return x;
    free(x);
    err_set(err, "%s of '%s' has a NaN or infinity", t->name, path);
    return NULL;
}

// Calls `each` with every direction of the file; refuses a file without any.
static int each_direction(const char *path, const struct file *f,
                          int (*each)(void *self, int64_t layer, const float *x, int64_t width,
                                      struct err *err),
                          void *self, struct err *err)
{
    int64_t found = 0;
    for (int64_t i = 0; i < f->count; i++) {
        const int64_t layer = layer_of(f->tensors[i].name);
        if (layer < 0) continue;
        float *x = read_direction(path, &f->tensors[i], err);
        const int status = x ? each(self, layer, x, f->tensors[i].shape[0], err) : -1;
        free(x);
        if (status < 0) return -1;
        found++;
    }
    if (found) return 0;
    return err_set(err,
                   "'%s' has no steering vectors: no tensor is named direction.N (/steer make "
                   "writes such a file)",
                   path);
}

// --- for a model ---------------------------------------------------------------------------------

struct adding {
    const char *path;
    double factor;
    int64_t layers, width;
    float *sum;
    bool *there;
};

static int add_direction(void *self, int64_t layer, const float *x, int64_t width, struct err *err)
{
    struct adding *a = self;
    if (width != a->width)
        return err_set(err,
                       "'%s' is for another model: its vectors (direction.%lld) have %lld numbers, "
                       "but the model's hidden states have %lld",
                       a->path, (long long)layer, (long long)width, (long long)a->width);
    if (layer >= a->layers)
        return err_set(err,
                       "'%s' is for another model: it has a vector for layer %lld, but the "
                       "model's %lld layers are 0 to %lld",
                       a->path, (long long)layer, (long long)a->layers, (long long)a->layers - 1);
    a->there[layer] = true;
    for (int64_t k = 0; k < width; k++)
        a->sum[layer * width + k] += (float)(a->factor * (double)x[k]);
    return 0;
}

int steer_read(const char *path, double factor, int64_t layers, int64_t width, float *sum,
               bool *there, struct err *err)
{
    struct file f;
    struct adding a = { path, factor, layers, width, sum, there };
    if (file_open(&f, path, err) < 0) return err_in(err, "steer.vectors");
    const int status = each_direction(path, &f, add_direction, &a, err);
    file_close(&f);
    return status;
}

// --- writing -------------------------------------------------------------------------------------

static char *number_text(int64_t n)
{
    return xasprintf("%lld", (long long)n);
}

static int write_gguf(const char *path, const float *vectors, const bool *there, int64_t layers,
                      int64_t width, const struct steer_source *s, struct err *err)
{
    int64_t count = 0;
    for (int64_t l = 0; l < layers; l++) count += there[l];
    if (there[0])
        return err_set(err,
                       "'%s' cannot hold the vector of layer 0: llama.cpp's control vectors begin "
                       "at layer 1; use a .safetensors file",
                       path);
    struct gguf_writer *w = gguf_writer_new(path);
    char *plus = number_text(s->plus), *minus = number_text(s->minus);
    gguf_writer_text(w, "general.architecture", "controlvector");
    gguf_writer_text(w, "controlvector.model_hint", s->family ? s->family : "");
    gguf_writer_u32(w, "controlvector.layer_count", count);
    if (s->model) gguf_writer_text(w, "controlvector.model", s->model);
    if (s->method) gguf_writer_text(w, "controlvector.method", s->method);
    if (s->position) gguf_writer_text(w, "controlvector.position", s->position);
    if (s->plus) gguf_writer_text(w, "controlvector.plus", plus);
    if (s->minus) gguf_writer_text(w, "controlvector.minus", minus);
    free(plus);
    free(minus);
    int status = 0;
    for (int64_t l = 0; l < layers; l++) {
        char *name = xasprintf("%s%lld", prefix, (long long)l);
        if (there[l]) gguf_writer_declare(w, name, DTYPE_F32, 1, &width);
        free(name);
    }
    for (int64_t l = 0; l < layers && status == 0; l++)
        if (there[l])
            status =
                gguf_writer_data(w, vectors + l * width, (uint64_t)width * sizeof *vectors, err);
    if (status == 0) return gguf_writer_finish(w, err);
    gguf_writer_abandon(w);
    return -1;
}

static int write_safetensors(const char *path, const float *vectors, const bool *there,
                             int64_t layers, int64_t width, const struct steer_source *s,
                             struct err *err)
{
    struct safetensors_writer *w = safetensors_writer_new(path);
    char *plus = number_text(s->plus), *minus = number_text(s->minus);
    if (s->family) safetensors_writer_metadata(w, "model_hint", s->family);
    if (s->model) safetensors_writer_metadata(w, "model", s->model);
    if (s->method) safetensors_writer_metadata(w, "method", s->method);
    if (s->position) safetensors_writer_metadata(w, "position", s->position);
    if (s->plus) safetensors_writer_metadata(w, "plus", plus);
    if (s->minus) safetensors_writer_metadata(w, "minus", minus);
    free(plus);
    free(minus);
    int status = 0;
    for (int64_t l = 0; l < layers; l++) {
        char *name = xasprintf("%s%lld", prefix, (long long)l);
        if (there[l]) safetensors_writer_declare(w, name, DTYPE_F32, 1, &width);
        free(name);
    }
    for (int64_t l = 0; l < layers && status == 0; l++)
        if (there[l])
            status = safetensors_writer_data(w, vectors + l * width,
                                             (uint64_t)width * sizeof *vectors, err);
    if (status == 0) return safetensors_writer_finish(w, err);
    safetensors_writer_abandon(w);
    return -1;
}

int steer_write(const char *path, const float *vectors, const bool *there, int64_t layers,
                int64_t width, const struct steer_source *source, struct err *err)
{
    return (is_gguf(path) ? write_gguf : write_safetensors)(path, vectors, there, layers, width,
                                                            source, err);
}

// --- without a model -----------------------------------------------------------------------------

// All directions of a file.
struct directions {
    const char *path;
    float *x; // [layers, width]
    bool *there;
    int64_t layers, width;
};

static int keep_direction(void *self, int64_t layer, const float *x, int64_t width, struct err *err)
{
    struct directions *d = self;
    if (d->width && width != d->width)
        return err_set(err, "'%s' has vectors of %lld and of %lld numbers", d->path,
                       (long long)d->width, (long long)width);
    d->width = width;
    if (layer >= d->layers) {
        d->x = xreallocarray(d->x, (size_t)((layer + 1) * width) + 1, sizeof *d->x);
        d->there = xreallocarray(d->there, (size_t)layer + 1, sizeof *d->there);
        for (; d->layers <= layer; d->layers++) {
            d->there[d->layers] = false;
            memset(d->x + d->layers * width, 0, (size_t)width * sizeof *d->x);
        }
    }
    d->there[layer] = true;
    memcpy(d->x + layer * width, x, (size_t)width * sizeof *x);
    return 0;
}

static int64_t count_of(const struct file *f, const char *key)
{
    const char *text = file_text(f, key);
    const long long n = text ? strtoll(text, NULL, 10) : 0;
    return n > 0 ? n : 0;
}

static struct steer_source source_of(const struct file *f)
{
    return (struct steer_source){ .model = file_text(f, "model"),
                                  .family = file_text(f, "model_hint"),
                                  .method = file_text(f, "method"),
                                  .position = file_text(f, "position"),
                                  .plus = count_of(f, "plus"),
                                  .minus = count_of(f, "minus") };
}

int steer_convert(const char *from, const char *to, struct err *err)
{
    struct file f;
    struct directions d = { .path = from };
    if (file_open(&f, from, err) < 0) return -1;
    int status = each_direction(from, &f, keep_direction, &d, err);
    if (status == 0) {
        const struct steer_source source = source_of(&f);
        status = steer_write(to, d.x, d.there, d.layers, d.width, &source, err);
    }
    file_close(&f);
    free(d.x);
    free(d.there);
    return status;
}

int steer_about(struct steer_about *a, const char *path, struct err *err)
{
    struct file f;
    struct directions d = { .path = path };
    *a = (struct steer_about){ 0 };
    if (file_open(&f, path, err) < 0) return -1;
    int status = each_direction(path, &f, keep_direction, &d, err);
    if (status == 0) {
        struct buf b = { 0 };
        for (int64_t l = 0; l < d.layers; l++)
            if (d.there[l]) buf_printf(&b, "%s%lld", b.length ? "," : "", (long long)l);
        const struct steer_source s = source_of(&f);
        a->width = d.width;
        a->layers = buf_take(&b);
        a->model = xstrdup(s.model ? s.model : "");
        a->source = s.method ? xasprintf("%s of %lld and %lld samples at the %s", s.method,
                                         (long long)s.plus, (long long)s.minus,
                                         s.position ? s.position : "?")
                             : xstrdup("");
    }
    file_close(&f);
    free(d.x);
    free(d.there);
    return status;
}

void steer_about_release(struct steer_about *a)
{
    free(a->layers);
    free(a->source);
    free(a->model);
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
