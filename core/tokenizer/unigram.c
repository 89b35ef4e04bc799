// core/tokenizer/unigram.c -- unigram language model: one word to ids.
//
// Every token has a log-probability; a word becomes the tokens with the greatest sum (Viterbi, from
// left to right: the best path to a position is known before its continuations are tried). A
// character without a token of its own counts as unknown, at a penalty.
#include <stdlib.h>
#include <string.h>

#include "core/tokenizer/tokenizer_parts.h"

enum { NO_WAY = -2, UNKNOWN = -1 };

// --- trie --------------------------------------------------------------------------------------

static uint32_t edge_slot(const struct trie *trie, uint32_t from)
{
    uint64_t h = (from ^ trie->seed) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(h >> 32 ^ h >> 52) & trie->mask;
}

// Returns the child of `node` for this byte; 0 if none.
static uint32_t trie_step(const struct trie *trie, uint32_t node, uint8_t byte)
{
    if (!trie->edges) return 0;
    const uint32_t from = node << 8 | byte;
    for (uint32_t i = edge_slot(trie, from);; i = (i + 1) & trie->mask)
        if (!trie->edges[i].to || trie->edges[i].from == from) return trie->edges[i].to;
}

static void put_edge(struct trie *trie, struct trie_edge edge)
{
    uint32_t i = edge_slot(trie, edge.from);
    while (trie->edges[i].to) i = (i + 1) & trie->mask;
    trie->edges[i] = edge;
}

// Makes space for one more node; at most half of the edges' slots are used.
static void grow(struct trie *trie)
{
    if (trie->nodes < trie->capacity) return;
    struct trie former = *trie;
    trie->capacity = former.capacity ? 2 * former.capacity : 256;
    trie->mask = 2 * trie->capacity - 1;
    trie->edges = xcalloc(2 * (size_t)trie->capacity, sizeof *trie->edges);
    trie->value = xreallocarray(former.value, trie->capacity, sizeof *trie->value);
    for (uint32_t i = 0; former.edges && i <= former.mask; i++)
        if (former.edges[i].to) put_edge(trie, former.edges[i]);
    free(former.edges);
    if (!former.capacity) trie->value[trie->nodes++] = -1; // the root
}

// Returns -1 if the trie is full.
static int trie_add(struct trie *trie, const char *text, size_t length, int32_t value)
{
    uint32_t node = 0;
    for (size_t i = 0; i < length; i++) {
        const uint8_t byte = (uint8_t)text[i];
        uint32_t next = trie_step(trie, node, byte);
        if (!next) {
            grow(trie);
            if (trie->nodes == TRIE_NODES) return -1;
            next = trie->nodes++;
            trie->value[next] = -1;
            put_edge(trie, (struct trie_edge){ node << 8 | byte, next });
        }
        node = next;
    }
    if (length) trie->value[node] = value;
    return 0;
}

void trie_release(struct trie *trie)
{
    free(trie->edges);
    free(trie->value);
    *trie = (struct trie){ 0 };
}

// --- model -------------------------------------------------------------------------------------

int unigram_fill(struct tokenizer *t, struct err *err)
{
    t->unigram.trie.seed = t->seed;
    for (int32_t id = 0; id < t->size; id++) {
        const char *text = tokenizer_token(t, id);
        if (!text || id == t->unknown || t->tokens[id].flags & (TOKEN_SPECIAL | TOKEN_APART) ||
            vocabulary_find(t, text, strlen(text)) != id)
            continue;
        if (t->tokens[id].length > TOKEN_BYTES_MAX)
            return err_set(err, "token %d has %u bytes; at most %d are supported", id,
                           t->tokens[id].length, TOKEN_BYTES_MAX);
        if (trie_add(&t->unigram.trie, text, t->tokens[id].length, id) < 0)
            return err_set(err, "the tokens' texts are too long in total");
    }
    return 0;
}

static double sum(const struct unigram *u, double a, double b)
{
    return u->single ? (double)(float)(a + b) : a + b;
}

// Keeps a path to `at` if it is better. On ties the first path wins: its last token is the longest.
static void offer(struct path *at, double score, int32_t id, size_t start)
{
    if (at->id != NO_WAY && !(score > at->score)) return;
    *at = (struct path){ .score = score, .id = id, .start = (uint32_t)start };
}

// Tries every token at `start` as the last one of a path.
static void offer_tokens(struct encoder *e, const char *word, size_t length, size_t start)
{
    const struct tokenizer *t = e->t;
    const struct unigram *u = &t->unigram;
    const double here = e->paths[start].score;
    int32_t c;
    const size_t one = utf8_next(word + start, length - start, &c);
    bool alone = false; // a token is this character alone
    uint32_t node = 0;
    for (size_t end = start; end < length;) {
        node = trie_step(&u->trie, node, (uint8_t)word[end++]);
        if (!node) break;
        const int32_t id = u->trie.value[node];
        if (id < 0) continue;
        // A user-defined symbol beats any split of its text, whose parts score less than 0.
        const double score = t->tokens[id].flags & TOKEN_SYMBOL
                                 ? (double)((float)(end - start) * 0.1f) - 0.1
                                 : u->score[id];
        offer(&e->paths[end], sum(u, here, score), id, start);
        alone |= end - start == one;
    }
    if (!alone) offer(&e->paths[start + one], sum(u, here, u->least), UNKNOWN, start);
}

void unigram_word(struct encoder *e, const char *word, size_t length)
{
    if (length + 1 > e->path_capacity) {
        e->path_capacity = length + 1;
        e->paths = xreallocarray(e->paths, e->path_capacity, sizeof *e->paths);
    }
    for (size_t i = 0; i <= length; i++) e->paths[i] = (struct path){ .id = NO_WAY };
    int32_t c;
    for (size_t i = 0; i < length; i += utf8_next(word + i, length - i, &c))
        offer_tokens(e, word, length, i);
    // Walks the best path backwards and stores where each of its tokens ends.
    for (size_t end = length; end > 0; end = e->paths[end].start)
        e->paths[e->paths[end].start].end = (uint32_t)end;
    bool pending = false;
    for (size_t i = 0, end; i < length; i = end) {
        end = e->paths[i].end;
        const int32_t id = e->paths[end].id;
        if (id == UNKNOWN) {
            unknown_char(e->t, word + i, end - i, &pending, e->ids);
        } else {
            ids_add(e->ids, id);
            pending = false;
        }
    }
}
