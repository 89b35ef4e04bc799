// core/adapter/adapter.c -- applies, removes, scales, queries and measures an adapter.
//
// Easy to get wrong: a tied head is not in the model's list of weights; it follows the embedding
// unless the adapter has its own head.
#include "core/adapter/adapter.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/adapter/adapter_entry.h"
#include "core/base/dtype.h"
#include "core/base/hash.h"
#include "core/base/mem.h"
#include "core/base/tally.h"
#include "core/files/safetensors.h"
#include "core/graph/arena.h"
#include "core/model/linear.h"
#include "core/model/model.h"
#include "core/model/parts.h"
#include "kernels/backend.h"

// Replaces only the data and its format; shape and gradient stay the model's.
static void put(struct tensor *to, const struct tensor *from)
{
    to->data = from->data;
    to->dtype = from->dtype;
    to->order = from->order;
}

void adapter_apply(struct adapter *a)
{
    struct tensor *head = &a->model->decoder.head;
    const struct tensor former_head = *head;
    if (a->applied) return;
    for (size_t i = 0; i < a->count; i++) {
        struct adapter_entry *e = &a->list[i];
        if (e->kind == ADAPTER_LORA) e->weight->linear->lora = &e->lora;
        if (e->kind != ADAPTER_WEIGHT || !e->weight) continue;
        e->former = *e->weight->tensor;
        put(e->weight->tensor, &e->tensor);
    }
    model_weights_changed(a->model);
    for (size_t i = 0; i < a->count; i++)
        if (a->list[i].kind == ADAPTER_WEIGHT && !a->list[i].weight)
            put(head, a->list[i].tensor.data ? &a->list[i].tensor : &former_head);
    a->applied = true;
}

static void take_off(struct adapter *a)
{
    if (!a->applied) return;
    for (size_t i = a->count; i-- > 0;) {
        struct adapter_entry *e = &a->list[i];
        if (e->kind == ADAPTER_LORA) e->weight->linear->lora = NULL;
        if (e->kind == ADAPTER_WEIGHT && e->weight) put(e->weight->tensor, &e->former);
    }
    model_weights_changed(a->model);
    a->applied = false;
}

static void follow(void *self, bool pictures)
{
    if (pictures)
        adapter_apply(self);
    else
        take_off(self);
}

void adapter_remove(struct adapter *a)
{
    if (a->model->listener.self == a) a->model->listener = (struct model_listener){ 0 };
    take_off(a);
}

void adapter_with_pictures(struct adapter *a, bool only)
{
    a->model->listener = (struct model_listener){ only ? follow : NULL, a };
    adapter_apply(a);
}

void adapter_scale(struct adapter *a, double factor)
{
    for (size_t i = 0; i < a->count; i++)
        a->list[i].lora.scale = (float)(a->list[i].scale * factor);
}

void adapter_free(struct adapter *a)
{
    if (!a) return;
    adapter_remove(a);
    for (size_t i = 0; i < a->count; i++) free(a->list[i].name);
    free(a->list);
    safetensors_close(a->file);
    safetensors_close(a->extra);
    if (a->arena) arena_release(a->arena);
    free(a->arena);
    free(a->folder);
    free(a->name);
    free(a->base);
    free(a->hash);
    names_release(&a->bare);
    names_release(&a->notices);
    free(a);
}

// --- questions -----------------------------------------------------------------------------------

const struct tensor *adapter_find(const struct adapter *a, const char *extra)
{
    for (size_t i = 0; a && i < a->count; i++)
        if (a->list[i].kind == ADAPTER_EXTRA && !strcmp(a->list[i].name, extra))
            return &a->list[i].tensor;
    return NULL;
}

bool adapter_has(const struct adapter *a, enum adapter_kind kind)
{
    for (size_t i = 0; i < a->count; i++)
        if (a->list[i].kind == kind) return true;
    return false;
}

bool adapter_touches_vision(const struct adapter *a)
{
    for (size_t i = 0; i < a->count; i++) {
        const struct adapter_entry *e = &a->list[i];
        if (e->weight && (e->weight->part == PART_VISION || e->weight->part == PART_PROJECTOR))
            return true;
    }
    return false;
}

int64_t adapter_parameters(const struct adapter *a)
{
    int64_t n = 0;
    for (size_t i = 0; i < a->count; i++) {
        const struct adapter_entry *e = &a->list[i];
        n += e->kind == ADAPTER_LORA ? tensor_count(&e->lora.a) + tensor_count(&e->lora.b)
                                     : tensor_count(&e->tensor);
    }
    return n;
}

static void hash_tensors(struct hash *h, const struct safetensors *f)
{
    for (int64_t i = 0; f && i < f->count; i++) {
        const struct safetensor *t = &f->tensors[i];
        hash_add(h, t->name, strlen(t->name) + 1);
        hash_add(h, t->type, strlen(t->type) + 1);
        hash_add(h, t->shape, (size_t)t->rank * sizeof *t->shape);
        hash_add(h, t->data, t->bytes);
    }
}

const char *adapter_hash(struct adapter *a)
{
    struct hash h;
    if (a->hash) return a->hash;
    hash_start(&h);
    hash_tensors(&h, a->file);
    hash_tensors(&h, a->extra);
    for (size_t i = 0; i < a->count; i++) {
        hash_add(&h, a->list[i].name, strlen(a->list[i].name) + 1);
        hash_add(&h, &a->list[i].scale, sizeof a->list[i].scale);
    }
    a->hash = xcalloc(1, HASH_HEX);
    hash_end(&h, a->hash);
    return a->hash;
}

// --- numbers -------------------------------------------------------------------------------------

void adapter_floats(const struct backend *b, const struct tensor *t, int64_t first, int64_t n,
                    float *to)
{
    const size_t size = dtype_bytes(t->dtype, n);
    char *stored = xmalloc(size);
    const char *from = (const char *)t->data + dtype_bytes(t->dtype, first);
    backend_of(b, t)->download(stored, from, size);
    floats_from(to, stored, t->dtype, (size_t)n);
    free(stored);
}

float *adapter_vector(const struct backend *b, const struct tensor *t)
{
    const int64_t count = tensor_count(t);
    float *numbers = xreallocarray(NULL, (size_t)count + 1, sizeof *numbers);
    adapter_floats(b, t, 0, count, numbers);
    return numbers;
}

struct adapter_numbers adapter_measure(const struct adapter *a, const struct tensor *t)
{
    int64_t n = tensor_count(t), width = t->shape[t->rank - 1];
    double squares = 0;
    struct tally magnitude = { 0 };
    if (n <= 0) return (struct adapter_numbers){ 0 };
    float *row = xreallocarray(NULL, (size_t)width, sizeof *row);
    for (int64_t i = 0; i < n / width; i++) {
        adapter_floats(a->arena->backend, t, i * width, width, row);
        for (int64_t k = 0; k < width; k++) {
            squares += (double)row[k] * row[k];
            tally_add(&magnitude, fabs((double)row[k]));
        }
    }
    free(row);
    return (struct adapter_numbers){ sqrt(squares), tally_mean(&magnitude), tally_std(&magnitude) };
}

// Computes g [r,r]: the dot products of the rows of t [r,n], or of its columns (t [n,r]).
static void gram(const struct backend *b, const struct tensor *t, bool columns, double *g)
{
    int64_t r = t->shape[columns ? 1 : 0], n = t->shape[columns ? 0 : 1];
    float *x = xreallocarray(NULL, (size_t)(r * n), sizeof *x);
    adapter_floats(b, t, 0, r * n, x);
    int64_t step = columns ? 1 : n, along = columns ? r : 1;
    for (int64_t i = 0; i < r; i++)
        for (int64_t j = 0; j <= i; j++) {
            double sum = 0;
            for (int64_t k = 0; k < n; k++)
                sum += (double)x[i * step + k * along] * x[j * step + k * along];
            g[i * r + j] = g[j * r + i] = sum;
        }
    free(x);
}

// Sums the squares of B A row by row.
static double product_squares(const struct backend *backend, const struct lora *lora)
{
    const int64_t r = lora->a.shape[0], in = lora->a.shape[1], out = lora->b.shape[0];
    float *a = adapter_vector(backend, &lora->a), *b = adapter_vector(backend, &lora->b);
    double *row = xreallocarray(NULL, (size_t)in + 1, sizeof *row), sum = 0;
    for (int64_t i = 0; i < out; i++) {
        for (int64_t k = 0; k < in; k++) row[k] = 0;
        for (int64_t j = 0; j < r; j++)
            for (int64_t k = 0; k < in; k++) row[k] += (double)b[i * r + j] * a[j * in + k];
        for (int64_t k = 0; k < in; k++) sum += row[k] * row[k];
    }
    free(a);
    free(b);
    free(row);
    return sum;
}

// |B A|^2 = sum over i, j of (B^T B)_ij (A A^T)_ij, without the product [out,in]; unless the rank
// exceeds a side of that product.
double adapter_lora_norm(const struct adapter *adapter, const struct lora *lora)
{
    int64_t r = lora->a.shape[0];
    if (r > lora->a.shape[1] || r > lora->b.shape[0])
        return fabs((double)lora->scale) * sqrt(product_squares(adapter->arena->backend, lora));
    double *a = xreallocarray(NULL, (size_t)(r * r), sizeof *a), sum = 0;
    double *b = xreallocarray(NULL, (size_t)(r * r), sizeof *b);
    gram(adapter->arena->backend, &lora->a, false, a);
    gram(adapter->arena->backend, &lora->b, true, b);
    for (int64_t i = 0; i < r * r; i++) sum += a[i] * b[i];
    free(a);
    free(b);
    return fabs((double)lora->scale) * sqrt(sum > 0 ? sum : 0);
}
