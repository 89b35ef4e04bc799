// core/model/kv_states.c -- states of recurrent layers: the rows after which the cache keeps them.
//
// Every pass keeps the state after its last row, where the next pass continues. A prefill also
// keeps borders, where a changed conversation continues:
//
//   the row at which it began        /undo; another question after the same answer
//   the first row of each picture    a method that changes only what follows a picture
//   the row after each picture       another question about the same picture
//   NEAR rows before its end         /regen; templates that rewrite the last generation prompt
//
// A cut elsewhere returns to the last kept state before it and recomputes the rows in between. A
// pass of few rows that is no prefill keeps the state after each row, because the last rows may be
// wrong drafts. If there are too many borders, the one with the closest neighbours, relative to its
// distance from the end, is dropped. A pass writes only to slots without a valid state, so that a
// failed pass changes none.
#include "core/base/mem.h"
#include "core/model/kv.h"
#include "core/template/sequence.h"
#include "kernels/backend.h"

enum {
    NEAR = 16,      // more than the kernels for few rows compute
    DRAFTS_MOST = 8 // rows of a pass with drafts
};

bool kv_recurrent(const struct kv *kv)
{
    for (int l = kv->first_layer; l < kv->end_layer; l++)
        if (kv->layer[l].state.shape[1]) return true;
    return false;
}

int64_t kv_reusable(const struct kv *kv, int64_t rows)
{
    int i = kv->marks.count;
    if (!kv_recurrent(kv)) return rows;
    while (i > 0 && kv->marks.at[i - 1].row > rows) i--;
    return i ? kv->marks.at[i - 1].row : 0;
}

// --- the plan of a pass --------------------------------------------------------------------------

static void drop(struct kv_marks *m, int i)
{
    m->count--;
    for (; i < m->count; i++) m->at[i] = m->at[i + 1];
}

// Drops one border, with the closest neighbours, if there are more than KV_BORDERS.
static void thin(struct kv_marks *m, int64_t end)
{
    int borders = 0, least = 0;
    double gap = 0;
    for (int i = 0; i < m->count; i++) {
        if (!m->at[i].border) continue;
        const int64_t before = i ? m->at[i - 1].row : 0;
        const int64_t after = i + 1 < m->count ? m->at[i + 1].row : end;
        const double here = (double)(after - before) / (double)(end - m->at[i].row + 1);
        if (!borders++ || here < gap) {
            least = i;
            gap = here;
        }
    }
    if (borders > KV_BORDERS) drop(m, least);
}

static void add(struct kv_marks *m, int64_t row, bool border, int64_t end)
{
    if (m->count && m->at[m->count - 1].row == row) {
        m->at[m->count - 1].border |= border;
        return;
    }
    if (m->count == KV_MARKS) BUG("more states than the cache keeps");
    m->at[m->count++] = (struct kv_mark){ row, -1, border };
    if (border) thin(m, end);
}

// True if a picture begins or ends before this row.
static bool picture_border(const struct sequence *s, int64_t row)
{
    return s->picture[row] != s->picture[row - 1];
}

// Gives each new mark a slot that no mark uses, old ones included.
static void choose_slots(struct kv *kv)
{
    bool used[2 * KV_MARKS] = { false };
    struct kv_marks *m = &kv->coming;
    for (int i = 0; i < kv->marks.count; i++) used[kv->marks.at[i].slot] = true;
    for (int i = 0; i < m->count; i++) {
        int slot = 0;
        if (m->at[i].slot >= 0) continue;
        while (used[slot]) slot++;
        used[slot] = true;
        m->at[i].slot = slot;
        if (slot >= kv->slots) kv->slots = slot + 1;
    }
}

void kv_begin_pass(struct kv *kv, const struct sequence *s, int64_t from, bool prefill)
{
    struct kv_marks *to = &kv->coming;
    *to = (struct kv_marks){ 0 };
    kv->first_slot = -1;
    if (!kv_recurrent(kv)) return;
    for (int i = 0; i < kv->marks.count; i++) {
        struct kv_mark one = kv->marks.at[i];
        if (one.row == from) {
            kv->first_slot = one.slot;
            one.border |= prefill;
        }
        if (one.row <= from && (one.border || one.row == from)) to->at[to->count++] = one;
    }
    if (from && kv->first_slot < 0) BUG("no state at row %lld", (long long)from);
    thin(to, s->n);
    const bool few = !prefill && s->n - from <= DRAFTS_MOST;
    for (int64_t row = from + 1; row <= s->n; row++) {
        const bool border = prefill && row < s->n && (row == s->n - NEAR || picture_border(s, row));
        if (few || border || row == s->n) add(to, row, border, s->n);
    }
    choose_slots(kv);
}

void kv_end_pass(struct kv *kv)
{
    kv->marks = kv->coming;
}

// --- memory --------------------------------------------------------------------------------------

// Grows a table [slots, elements] to kv->slots and keeps its contents.
static int grow(const struct kv *kv, struct tensor *t)
{
    const struct backend *b = kv->backend;
    struct tensor larger = *t, to;
    size_t bytes;
    if (t->shape[0] >= kv->slots || !t->shape[1]) return 0;
    larger.shape[0] = kv->slots;
    if (mul_overflows((size_t)kv->slots * sizeof(float), (size_t)t->shape[1], &bytes)) return -1;
    larger.data = b->alloc(bytes);
    if (!larger.data) return -1;
    to = larger;
    to.shape[0] = t->shape[0];
    if (t->shape[0] && b->widen(&to, t) < 0) { // a copy on the device
        b->release(larger.data);
        return -1;
    }
    if (t->data) b->release(t->data);
    *t = larger;
    return 0;
}

int kv_states_reserve(struct kv *kv, int layer, struct err *err)
{
    struct kv_layer *l = &kv->layer[layer];
    if (grow(kv, &l->state) == 0 && grow(kv, &l->tail) == 0) return 0;
    return err_set(err,
                   "out of memory for %d states of layer %d, %.1f MB each; close other programs, "
                   "or /clear",
                   kv->slots, layer,
                   (double)(l->state.shape[1] + l->tail.shape[1]) * sizeof(float) / 1e6);
}

uint64_t kv_state_bytes(const struct kv *kv)
{
    uint64_t bytes = 0;
    for (int i = 0; i < kv->layers; i++)
        bytes += tensor_bytes(&kv->layer[i].state) + tensor_bytes(&kv->layer[i].tail);
    return bytes;
}
