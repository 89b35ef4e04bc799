// core/calibration.c -- reads calibration files.
#include "core/calibration.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"

// What the tensors of a calibration begin with.
static const char *const kinds[] = { "ffn." };

static bool is_calibration(const struct safetensors *f)
{
    for (int64_t i = 0; i < f->count; i++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            if (!strncmp(f->tensors[i].name, kinds[k], strlen(kinds[k]))) return true;
    return false;
}

int calibration_open(struct calibration *c, const char *path, struct err *err)
{
    *c = (struct calibration){ .count = -1 };
    c->file = safetensors_open(path, err);
    if (!c->file) return -1;
    if (!is_calibration(c->file)) {
        calibration_close(c);
        return err_set(err, "'%s' is no calibration: it has no tensor ffn.alpha (see /calibrate)",
                       path);
    }
    c->model = safetensors_metadata(c->file, "model");
    c->data = safetensors_metadata(c->file, "data");
    const char *count = safetensors_metadata(c->file, "count");
    char *end;
    if (count && *count) {
        long long n = strtoll(count, &end, 10);
        if (!*end && n >= 0) c->count = n;
    }
    return 0;
}

void calibration_close(struct calibration *c)
{
    if (c->file) safetensors_close(c->file);
    *c = (struct calibration){ .count = -1 };
}

int calibration_fits(const struct calibration *c, const struct model *m, struct err *err)
{
    if (!c->model || !strcmp(c->model, m->checkpoint->fingerprint)) return 0;
    return err_set(err,
                   "'%s' was calibrated for other weights (fingerprint %.12s) than those of '%s' "
                   "(%.12s): calibrate this model with /calibrate",
                   c->file->path, c->model, m->name, m->checkpoint->fingerprint);
}

static bool has_shape(const struct safetensor *t, int rank, const int64_t *shape)
{
    if (t->dtype != DTYPE_F32 || t->rank != rank) return false;
    for (int i = 0; i < rank; i++)
        if (t->shape[i] != shape[i]) return false;
    return true;
}

static void shape_text(struct buf *b, int rank, const int64_t *shape)
{
    buf_puts(b, "[");
    for (int i = 0; i < rank; i++) buf_printf(b, i ? ",%lld" : "%lld", (long long)shape[i]);
    buf_puts(b, "]");
}

float *calibration_numbers(const struct calibration *c, const char *name, int rank,
                           const int64_t *shape, struct err *err)
{
    const struct safetensor *t = safetensors_find(c->file, name);
    if (!t) {
        err_set(err, "'%s' has no tensor %s", c->file->path, name);
        return NULL;
    }
    if (!has_shape(t, rank, shape)) {
        struct buf b = { 0 };
        buf_printf(&b, "%s of '%s' is ", name, c->file->path);
        shape_text(&b, t->rank, t->shape);
        buf_printf(&b, " %s, and this model needs ", t->type);
        shape_text(&b, rank, shape);
        err_set(err, "%s F32", b.data);
        buf_release(&b);
        return NULL;
    }
    float *numbers = xmalloc(t->bytes);
    memcpy(numbers, t->data, t->bytes);
    for (uint64_t i = 0; i < t->bytes / sizeof *numbers; i++)
        if (!isfinite(numbers[i])) {
            err_set(err, "%s of '%s' holds what is no number (number %llu)", name, c->file->path,
                    (unsigned long long)i);
            free(numbers);
            return NULL;
        }
    return numbers;
}
