// core/tokenizer/bpe.c -- byte pair encoding: one word to ids.
//
// A word starts as one token per character; then the pair with the lowest merge rank (the leftmost
// on ties) is merged until no pair has a merge. Short words scan all pairs each time; long ones (a
// text without spaces is one word) keep the pairs in a heap: O(n log n) for n characters.
#include <stdlib.h>
#include <string.h>

#include "core/tokenizer/tokenizer_parts.h"

enum { SHORT_WORD = 96 }; // characters
static const uint32_t NO_MERGE = UINT32_MAX;

static uint32_t hash_bytes(const struct tokenizer *t, const char *text, size_t length)
{
    uint64_t h = length * UINT64_C(0x9E3779B97F4A7C15) ^ t->seed, block;
    for (; length >= 8; text += 8, length -= 8) {
        memcpy(&block, text, 8);
        h = (h ^ block) * UINT64_C(0xD6E8FEB86659FD93);
        h ^= h >> 32;
    }
    block = 0;
    memcpy(&block, text, length);
    h = (h ^ block) * UINT64_C(0xD6E8FEB86659FD93);
    return (uint32_t)(h >> 32);
}

// --- vocabulary --------------------------------------------------------------------------------

int32_t vocabulary_find(const struct tokenizer *t, const char *text, size_t length)
{
    uint32_t hash = hash_bytes(t, text, length);
    for (uint32_t i = hash & t->slot_mask; t->slots[i].id >= 0; i = (i + 1) & t->slot_mask) {
        int32_t id = t->slots[i].id;
        if (t->slots[i].hash == hash && t->tokens[id].length == length &&
            !memcmp(t->texts.data + t->tokens[id].at, text, length))
            return id;
    }
    return -1;
}

void vocabulary_add(struct tokenizer *t, int32_t id, int32_t former)
{
    uint32_t hash = hash_bytes(t, t->texts.data + t->tokens[id].at, t->tokens[id].length);
    uint32_t i = hash & t->slot_mask;
    while (t->slots[i].id >= 0 && t->slots[i].id != former) i = (i + 1) & t->slot_mask;
    t->slots[i] = (struct vocabulary_slot){ hash, id };
}

// --- merges ------------------------------------------------------------------------------------

uint64_t merge_pair(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static uint32_t pair_slot(const struct tokenizer *t, uint64_t pair)
{
    uint64_t h = (pair ^ t->seed) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(h >> 32 ^ h >> 52) & t->merge_mask;
}

// A later duplicate of a pair replaces the earlier one.
void merge_add(struct tokenizer *t, struct merge m)
{
    uint32_t i = pair_slot(t, m.pair);
    while (t->merges[i].pair != UINT64_MAX && t->merges[i].pair != m.pair)
        i = (i + 1) & t->merge_mask;
    t->merges[i] = m;
}

// Returns the rank of the pair; NO_MERGE if it has none.
static inline uint32_t merge_find(const struct tokenizer *t, int32_t left, int32_t right,
                                  int32_t *merged)
{
    uint64_t pair = merge_pair(left, right);
    for (uint32_t i = pair_slot(t, pair);; i = (i + 1) & t->merge_mask) {
        if (t->merges[i].pair == pair) {
            *merged = t->merges[i].id;
            return t->merges[i].rank;
        }
        if (t->merges[i].pair == UINT64_MAX) return NO_MERGE;
    }
}

// --- characters to ids -------------------------------------------------------------------------

// Encodes an unknown character as byte tokens if they exist (byte fallback), else as the unknown
// token (fuse_unk: one per run); without either, drops it.
void unknown_char(const struct tokenizer *t, const char *text, size_t n, bool *pending,
                  struct ids *out)
{
    bool bytes = true;
    for (size_t i = 0; i < n; i++) bytes &= t->byte_id[(uint8_t)text[i]] >= 0;
    if (bytes) {
        for (size_t i = 0; i < n; i++) ids_add(out, t->byte_id[(uint8_t)text[i]]);
    } else if (t->unknown >= 0) {
        if (!(*pending && t->fuse_unknown)) ids_add(out, t->unknown);
        *pending = true;
    }
}

// Appends the ids of the word's characters.
static void characters(const struct tokenizer *t, const char *word, size_t length, struct ids *out)
{
    bool pending = false; // the last id is the unknown token
    for (size_t i = 0, n; i < length; i += n) {
        int32_t c, id;
        n = utf8_next(word + i, length - i, &c);
        id = c < 65536 ? t->char_id[c] : vocabulary_find(t, word + i, n);
        if (id >= 0) {
            ids_add(out, id);
            pending = false;
        } else {
            unknown_char(t, word + i, n, &pending, out);
        }
    }
}

// --- short words -------------------------------------------------------------------------------

// Merges id[0, n) in place; returns the number of ids that remain.
static size_t merge_short(const struct tokenizer *t, int32_t *id, size_t n)
{
    uint32_t rank[SHORT_WORD];
    int32_t merged[SHORT_WORD];
    for (size_t i = 0; i + 1 < n; i++) rank[i] = merge_find(t, id[i], id[i + 1], &merged[i]);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (rank[i] < rank[best]) best = i;
        if (rank[best] == NO_MERGE) break;
        id[best] = merged[best];
        n--;
        for (size_t i = best + 1; i < n; i++) id[i] = id[i + 1];
        for (size_t i = best + 1; i + 1 < n; i++) {
            rank[i] = rank[i + 1];
            merged[i] = merged[i + 1];
        }
        rank[best] = NO_MERGE;
        if (best + 1 < n) rank[best] = merge_find(t, id[best], id[best + 1], &merged[best]);
        if (best > 0) rank[best - 1] = merge_find(t, id[best - 1], id[best], &merged[best - 1]);
    }
    return n;
}

// --- long words --------------------------------------------------------------------------------

// The keys of the heap are rank << 32 | index of the left symbol, so the smallest key belongs to
// the leftmost pair with the lowest rank.
static void heap_push(struct encoder *e, size_t *count, uint64_t key)
{
    e->heap = xgrow(e->heap, &e->heap_capacity, *count, sizeof *e->heap);
    size_t i = (*count)++;
    for (; i > 0 && e->heap[(i - 1) / 2] > key; i = (i - 1) / 2) e->heap[i] = e->heap[(i - 1) / 2];
    e->heap[i] = key;
}

static uint64_t heap_pop(struct encoder *e, size_t *count)
{
    uint64_t top = e->heap[0], last = e->heap[--*count];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < *count; i = child) {
        if (child + 1 < *count && e->heap[child + 1] < e->heap[child]) child++;
        if (e->heap[child] >= last) break;
        e->heap[i] = e->heap[child];
    }
    e->heap[i] = last;
    return top;
}

// Looks up the pair at index i and queues it.
static void queue_pair(struct encoder *e, size_t *count, int32_t i)
{
    struct symbol *s = &e->symbols[i];
    s->rank =
        s->after < 0 ? NO_MERGE : merge_find(e->t, s->id, e->symbols[s->after].id, &s->merged);
    if (s->rank != NO_MERGE) heap_push(e, count, (uint64_t)s->rank << 32 | (uint32_t)i);
}

static size_t merge_long(struct encoder *e, int32_t *id, size_t n)
{
    if (n > e->symbol_capacity) {
        e->symbol_capacity = n;
        e->symbols = xreallocarray(e->symbols, n, sizeof *e->symbols);
    }
    struct symbol *s = e->symbols;
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        s[i] = (struct symbol){ .id = id[i],
                                .before = (int32_t)i - 1,
                                .after = i + 1 < n ? (int32_t)i + 1 : -1 };
    for (size_t i = 0; i < n; i++) queue_pair(e, &count, (int32_t)i);
    while (count > 0) {
        uint64_t top = heap_pop(e, &count);
        int32_t i = (int32_t)(top & UINT32_MAX);
        // Skips stale entries: if the pair has changed since, the symbol's rank differs.
        if (s[i].rank != (uint32_t)(top >> 32)) continue;
        int32_t gone = s[i].after;
        s[i].id = s[i].merged;
        s[i].after = s[gone].after;
        s[gone].rank = NO_MERGE;
        if (s[i].after >= 0) s[s[i].after].before = i;
        queue_pair(e, &count, i);
        if (s[i].before >= 0) queue_pair(e, &count, s[i].before);
    }
    size_t left = 0;
    for (int32_t i = n ? 0 : -1; i >= 0; i = s[i].after) id[left++] = s[i].id;
    return left;
}

// --- words -------------------------------------------------------------------------------------

// Appends a token, or the halves of an unused one, recursively.
static void put_used(const struct tokenizer *t, int32_t id, struct ids *out)
{
    const struct halves h = t->unused[id];
    if (!h.left && !h.right) {
        ids_add(out, id);
        return;
    }
    put_used(t, h.left, out);
    put_used(t, h.right, out);
}

// Splits tokens that exist only for intermediate merges.
static void split_unused(const struct tokenizer *t, struct ids *ids, size_t start)
{
    struct ids merged = { 0 };
    ids_append(&merged, ids->data + start, ids->count - start);
    ids->count = start;
    for (size_t i = 0; i < merged.count; i++) put_used(t, merged.data[i], ids);
    ids_release(&merged);
}

static void merge_word(struct encoder *e, const char *word, size_t length)
{
    const struct tokenizer *t = e->t;
    size_t start = e->ids->count;
    characters(t, word, length, e->ids);
    size_t n = e->ids->count - start;
    if (n > 1) {
        int32_t *id = e->ids->data + start;
        n = n <= SHORT_WORD ? merge_short(t, id, n) : merge_long(e, id, n);
    }
    e->ids->count = start + n;
    if (t->unused && n) split_unused(t, e->ids, start);
}

// Caches the ids of short words with few ids, because words repeat; direct-mapped.
enum { CACHE_SLOTS = 8192, CACHE_WORD = 24, CACHE_IDS = 6 };

struct word_cache {
    struct cached_word {
        uint8_t length, count; // length 0: empty
        char word[CACHE_WORD];
        int32_t ids[CACHE_IDS];
    } words[CACHE_SLOTS];
};

static void cached_word(struct encoder *e, const char *word, size_t length)
{
    uint32_t hash = hash_bytes(e->t, word, length);
    struct cached_word *w = &e->cache->words[hash % CACHE_SLOTS];
    if (w->length == length && !memcmp(w->word, word, length)) {
        ids_append(e->ids, w->ids, w->count);
        return;
    }
    size_t start = e->ids->count;
    merge_word(e, word, length);
    size_t count = e->ids->count - start;
    if (count > CACHE_IDS) return;
    w->length = (uint8_t)length;
    w->count = (uint8_t)count;
    memcpy(w->word, word, length);
    if (count) memcpy(w->ids, e->ids->data + start, count * sizeof *w->ids);
}

static void whole_word(struct encoder *e, const char *word, size_t length)
{
    const struct tokenizer *t = e->t;
    int32_t id = t->ignore_merges ? vocabulary_find(t, word, length) : -1;
    // Text never encodes to a special token, even to one in the vocabulary.
    if (id >= 0 && !(t->tokens[id].flags & TOKEN_SPECIAL)) {
        ids_add(e->ids, id);
    } else if (e->cache && length <= CACHE_WORD) {
        cached_word(e, word, length);
    } else {
        merge_word(e, word, length);
    }
}

// Splits a word before each run of U+2581 if no token has one after a different character: the ids
// are the same, and short words are faster. (Without a pre-tokenizer, a SentencePiece text is one
// word.)
void bpe_word(struct encoder *e, const char *word, size_t length)
{
    if (!e->t->marks_apart || e->t->char_id[0x2581] < 0 || e->t->ignore_merges) {
        whole_word(e, word, length);
        return;
    }
    size_t start = 0;
    bool in_mark = true;
    for (size_t i = 0; i < length;) {
        bool at_mark = length - i >= 3 && !memcmp(word + i, MARK, 3);
        if (at_mark && !in_mark) {
            whole_word(e, word + start, i - start);
            start = i;
        }
        in_mark = at_mark;
        i += at_mark ? 3 : 1;
    }
    whole_word(e, word + start, length - start);
}

void bpe_start(struct encoder *e, size_t text_length)
{
    if (text_length >= 4096) e->cache = xcalloc(1, sizeof *e->cache);
}

void bpe_release(struct encoder *e)
{
    free(e->symbols);
    free(e->heap);
    free(e->cache);
}
