// core/model/kv.c -- the cache of keys and values: one pair of growing tables per layer.
#include "core/model/kv.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/settings/settings.h"
#include "kernels/backend.h"

enum { KV_STEP = 256 }; // rows

static const char *const dtypes[] = { "auto", "f32", "bf16", NULL };

enum dtype kv_dtype(const struct backend *b, const struct settings *s)
{
    if (!s) return DTYPE_F32;
    const bool rounded =
        settings_is(s, "kv.dtype", "auto") ? b->own_memory : settings_is(s, "kv.dtype", "bf16");
    return rounded ? DTYPE_BF16 : DTYPE_F32;
}

static char *effective_dtype(const struct model *m, const struct backend *b,
                             const struct settings *s)
{
    if (!m) return xstrdup(settings_text(s, "kv.dtype"));
    return xstrdup(kv_dtype(b, s) == DTYPE_BF16 ? "bf16" : "f32");
}

const struct setting kv_settings[] = {
    { .key = "kv.dtype",
      .type = SETTING_CHOICE,
      .def = "auto",
      .choices = dtypes,
      .stale = STALE_KV,
      .help = "Precision of the KV cache: f32, or bf16 for half the memory; auto is f32 on the CPU "
              "and bf16 on a GPU.",
      .effective = effective_dtype },
    { 0 },
};

void kv_init(struct kv *kv, const struct backend *backend, int layers)
{
    const struct tensor empty = { .dtype = DTYPE_F32, .rank = 3 };
    *kv = (struct kv){
        .backend = backend, .layers = layers, .end_layer = layers, .dtype = DTYPE_F32
    };
    kv->layer = xcalloc((size_t)layers, sizeof *kv->layer);
    for (int i = 0; i < layers; i++) {
        struct kv_layer *l = &kv->layer[i];
        l->k = l->v = l->state = l->tail = empty;
        l->state.rank = l->tail.rank = 2;
    }
}

bool kv_layer_is(const struct kv_layer *l, struct kv_row row)
{
    return !memcmp(&l->k.shape[1], row.k, sizeof row.k) &&
           !memcmp(&l->v.shape[1], row.v, sizeof row.v) && l->state.shape[1] == row.state &&
           l->tail.shape[1] == row.tail;
}

static void tables_clear(struct kv *kv, struct kv_layer *l)
{
    struct tensor *table[] = { &l->k, &l->v, &l->state, &l->tail };
    for (int t = 0; t < 4; t++) {
        if (table[t]->data) kv->backend->release(table[t]->data);
        table[t]->data = NULL;
        table[t]->shape[0] = 0;
    }
}

static void layer_clear(struct kv *kv, struct kv_layer *l)
{
    tables_clear(kv, l);
    free(l->position);
    l->position = NULL;
    l->rows = 0;
    l->apart = false;
}

void kv_layer_set_apart(struct kv *kv, int layer, bool apart)
{
    struct kv_layer *l = &kv->layer[layer];
    if (l->apart == apart) return;
    replay_forget(&kv->replay);
    tables_clear(kv, l);
    l->apart = apart;
}

void kv_clear(struct kv *kv)
{
    replay_forget(&kv->replay);
    kv->marks.count = kv->coming.count = kv->slots = 0;
    for (int i = 0; i < kv->layers; i++) layer_clear(kv, &kv->layer[i]);
}

void kv_layer_shape(struct kv *kv, int layer, struct kv_row row)
{
    struct kv_layer *l = &kv->layer[layer];
    if (kv_layer_is(l, row)) return;
    if (l->rows) BUG("layer %d of the cache holds rows of another shape", layer);
    replay_forget(&kv->replay);
    layer_clear(kv, l);
    memcpy(&l->k.shape[1], row.k, sizeof row.k);
    memcpy(&l->v.shape[1], row.v, sizeof row.v);
    l->state.shape[1] = row.state;
    l->tail.shape[1] = row.tail;
}

void kv_set_dtype(struct kv *kv, enum dtype dtype)
{
    if (kv->dtype == dtype) return;
    kv_clear(kv);
    kv->dtype = dtype;
    for (int i = 0; i < kv->layers; i++) kv->layer[i].k.dtype = kv->layer[i].v.dtype = dtype;
}

void kv_release(struct kv *kv)
{
    kv_clear(kv);
    free(kv->layer);
    *kv = (struct kv){ 0 };
}

int kv_table_reserve(const struct backend *b, struct tensor *t, int64_t used, int64_t rows)
{
    const int64_t have = t->shape[0];
    if (have >= rows) return 0;
    // A table without spare rows after a prompt would be copied whole for the first token of the
    // answer.
    int64_t capacity = have + have / 2 + KV_STEP;
    if (capacity < rows + KV_STEP) capacity = rows + KV_STEP;
    struct tensor larger = *t;
    size_t bytes = dtype_size(t->dtype);
    larger.shape[0] = capacity;
    for (int i = 0; i < larger.rank; i++)
        if (mul_overflows(bytes, (size_t)larger.shape[i], &bytes)) return -1;
    larger.data = bytes ? b->alloc(bytes) : NULL;
    if (bytes && !larger.data) return -1;

    struct tensor to = larger, from = *t;
    to.shape[0] = from.shape[0] = used;
    // Widening to the same dtype is a copy on the device.
    if (used && bytes && b->widen(&to, &from) < 0) {
        b->release(larger.data);
        return -1;
    }
    if (t->data) b->release(t->data);
    *t = larger;
    return 0;
}

int kv_layer_reserve(struct kv *kv, int layer, int64_t rows, struct err *err)
{
    struct kv_layer *l = &kv->layer[layer];
    if (l->shares && !l->apart) { // no tables of its own
        const size_t capacity = (size_t)(rows / KV_STEP + 1) * KV_STEP;
        l->position = xreallocarray(l->position, capacity, sizeof *l->position);
        return 0;
    }
    if (l->k.shape[0] < rows || l->v.shape[0] < rows) replay_forget(&kv->replay); // the tables move
    // Checks both tables, because growing one of them may have failed earlier.
    if (kv_table_reserve(kv->backend, &l->k, l->rows, rows) < 0 ||
        kv_table_reserve(kv->backend, &l->v, l->rows, rows) < 0)
        return err_set(
            err, "out of memory for the keys and values of %lld tokens; lower ctx.max%s, or /clear",
            (long long)rows,
            kv->dtype == DTYPE_F32 ? ", set kv.dtype to bf16 (half the memory)" : "");
    l->position = xreallocarray(l->position, (size_t)l->k.shape[0], sizeof *l->position);
    return kv_states_reserve(kv, layer, err);
}

int kv_reserve(struct kv *kv, int64_t rows, struct err *err)
{
    for (int i = kv->first_layer; i < kv->end_layer; i++)
        if (kv_layer_reserve(kv, i, rows, err) < 0) return -1;
    return 0;
}

int64_t kv_trim(struct kv *kv, int64_t rows)
{
    rows = kv_reusable(kv, rows);
    while (kv->marks.count && kv->marks.at[kv->marks.count - 1].row > rows) kv->marks.count--;
    for (int i = 0; i < kv->layers; i++) {
        struct kv_layer *l = &kv->layer[i];
        while (l->rows && l->position[l->rows - 1] >= rows) l->rows--;
    }
    return rows;
}

bool kv_whole(const struct kv *kv, int layer, int64_t rows)
{
    for (int i = kv->first_layer; i < kv->end_layer; i++)
        if (i >= layer && kv->layer[i].rows != rows) return false;
    return true;
}

uint64_t kv_row_bytes(const struct kv *kv, int layer)
{
    const int64_t *k = &kv->layer[layer].k.shape[1], *v = &kv->layer[layer].v.shape[1];
    if (kv->layer[layer].shares && !kv->layer[layer].apart) return 0;
    return (uint64_t)(k[0] * k[1] + v[0] * v[1]) * dtype_size(kv->dtype);
}

uint64_t kv_bytes(const struct kv *kv)
{
    uint64_t bytes = 0;
    for (int i = 0; i < kv->layers; i++)
        bytes += tensor_bytes(&kv->layer[i].k) + tensor_bytes(&kv->layer[i].v);
    return bytes;
}
