// core/adapter/gguf_tensors.c -- writes tensors to a GGUF file, a block of rows at a time.
#include "core/adapter/gguf_tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/adapter/model_gguf.h"
#include "core/adapter/model_write.h"
#include "core/base/dtype.h"
#include "core/base/mem.h"
#include "core/files/content.h"

enum {
    BLOCK_NUMBERS = 4 << 20, // elements converted at a time
    LAST = 8,                // tensors that gguf_tensors_last searches
};

// --- the list ------------------------------------------------------------------------------------

struct gguf_tensor *gguf_tensors_add(struct gguf_tensors *all, char *name, enum dtype dtype,
                                     int rank, const int64_t *shape)
{
    all->list = xreallocarray(all->list, all->count + 1, sizeof *all->list);
    struct gguf_tensor *t = &all->list[all->count++];
    *t = (struct gguf_tensor){ .name = name, .dtype = dtype, .rank = rank };
    memcpy(t->shape, shape, (size_t)rank * sizeof *shape);
    return t;
}

void gguf_tensor_rows(struct gguf_tensor *t, const struct weight *w, int64_t first, int64_t count)
{
    t->rows = xreallocarray(t->rows, t->count + 1, sizeof *t->rows);
    t->rows[t->count++] = (struct gguf_rows){ w, first, count };
}

struct gguf_tensor *gguf_tensors_last(const struct gguf_tensors *all, const char *name)
{
    for (size_t i = 0; i < LAST && i < all->count; i++)
        if (!strcmp(all->list[all->count - 1 - i].name, name))
            return &all->list[all->count - 1 - i];
    return NULL;
}

static int64_t numbers_of(const struct gguf_tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= t->shape[i];
    return n;
}

void gguf_tensors_sum(const struct gguf_tensors *all, const struct gguf_kind *kind,
                      struct gguf_summary *sum)
{
    int of[DTYPE_COUNT] = { 0 };
    size_t used = 0;
    *sum = (struct gguf_summary){ .types = "none" };
    for (size_t i = 0; i < all->count; i++) {
        const struct gguf_tensor *t = &all->list[i];
        sum->bytes += dtype_bytes(t->dtype, numbers_of(t));
        if (t->rank < 2) continue;
        sum->matrices++;
        of[t->dtype]++;
        sum->misfits +=
            kind && t->dtype != kind->matrix && t->dtype != kind->outer && t->dtype != DTYPE_F32;
    }
    for (int t = 0; t < DTYPE_COUNT; t++)
        if (of[t])
            used += (size_t)snprintf(sum->types + used, sizeof sum->types - used, "%s%d %s",
                                     used ? ", " : "", of[t], dtype_form((enum dtype)t).name);
}

void gguf_tensors_release(struct gguf_tensors *all)
{
    for (size_t i = 0; i < all->count; i++) {
        free(all->list[i].name);
        free(all->list[i].rows);
        free(all->list[i].numbers);
    }
    free(all->list);
    *all = (struct gguf_tensors){ 0 };
}

// --- writing -------------------------------------------------------------------------------------

struct writing {
    const struct model *model;
    struct gguf_writer *out;
    const struct load_progress *progress;
    uint64_t done, total;
};

// Returns the length of a row; 1 for a vector.
static int64_t row_width(const struct weight *w)
{
    const int64_t width = w->tensor->rank > 1 ? tensor_row(w->tensor) : 1;
    return width > 0 ? width : 1;
}

// Keeps one frame of [rows, channels, frames, square], in place: [rows, channels, square]. Returns
// the number of elements that remain.
static int64_t take_frame(const struct gguf_tensor *t, float *floats, int64_t numbers)
{
    if (!t->frames) return numbers;
    const int64_t square = t->shape[t->rank - 1] * t->shape[t->rank - 2];
    const int64_t parts = numbers / square / t->frames;
    for (int64_t i = 0; i < parts; i++)
        memmove(floats + i * square, floats + (i * t->frames + t->frame) * square,
                (size_t)square * sizeof *floats);
    return parts * square;
}

// Reorders the columns of rows (gguf_tensor.columns).
static void order_columns(const struct gguf_tensor *t, float *floats, int64_t rows, int64_t columns)
{
    const int64_t groups = t->columns.groups, each = t->columns.each, width = t->columns.width;
    if (!groups) return;
    float *row = xreallocarray(NULL, (size_t)columns, sizeof *row);
    for (int64_t i = 0; i < rows; i++) {
        float *at = floats + i * columns;
        for (int64_t g = 0; g < groups; g++)
            for (int64_t r = 0; r < each; r++)
                memcpy(row + (r * groups + g) * width, at + (g * each + r) * width,
                       (size_t)width * sizeof *row);
        memcpy(at, row, (size_t)columns * sizeof *row);
    }
    free(row);
}

// Writes the n elements of `floats` and overwrites them.
static int put_numbers(struct writing *w, const struct gguf_tensor *t, float *floats, int64_t n,
                       struct err *err)
{
    const int64_t width = t->rank > 1 ? t->shape[t->rank - 1] : n;
    if (gguf_writer_floats(w->out, t->name, t->dtype, floats, n, width, err) < 0) return -1;
    w->done += dtype_bytes(t->dtype, n);
    if (w->progress && w->progress->report &&
        !w->progress->report(w->progress->self, w->done, w->total))
        return err_set(err, "cancelled");
    return 0;
}

// Writes rows of a weight, several whole heads at a time.
static int put_rows(struct writing *w, const struct gguf_tensor *t, const struct gguf_rows *r,
                    struct err *err)
{
    const int64_t width = row_width(r->weight), now = r->weight->tensor->order.head;
    const int64_t head = now ? now : t->order.head ? t->order.head : 1;
    const struct head_order order = { t->order.head, (int16_t)-t->order.rotary };
    int64_t step = BLOCK_NUMBERS / width / head * head;
    if (t->rank == 1) step = r->count; // a vector is one row of the file
    if (step < head) step = head;
    if (step > r->count) step = r->count;
    float *floats = xreallocarray(NULL, (size_t)(step * width), sizeof *floats);
    int status = 0;
    for (int64_t i = 0; i < r->count && status == 0; i += step) {
        const int64_t rows = r->count - i < step ? r->count - i : step;
        status = model_weight_rows(w->model, r->weight, r->first + i, rows, floats, err);
        if (status < 0) break;
        rows_reorder(floats, rows, width, order);
        order_columns(t, floats, rows, width);
        status = put_numbers(w, t, floats, take_frame(t, floats, rows * width), err);
    }
    free(floats);
    return status;
}

int gguf_tensors_write(const struct gguf_tensors *all, const struct model *m,
                       struct gguf_writer *out, const struct load_progress *progress,
                       struct err *err)
{
    struct gguf_summary sum;
    gguf_tensors_sum(all, NULL, &sum);
    struct writing w = { .model = m, .out = out, .progress = progress, .total = sum.bytes };
    for (size_t i = 0; i < all->count; i++) {
        const struct gguf_tensor *t = &all->list[i];
        gguf_writer_declare(out, t->name, t->dtype, t->rank, t->shape);
    }
    for (size_t i = 0; i < all->count; i++) {
        const struct gguf_tensor *t = &all->list[i];
        if (t->numbers && put_numbers(&w, t, t->numbers, numbers_of(t), err) < 0) return -1;
        for (size_t k = 0; k < t->count; k++)
            if (put_rows(&w, t, &t->rows[k], err) < 0) return -1;
    }
    return 0;
}
