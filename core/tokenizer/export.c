// core/tokenizer/export.c -- struct tokenizer -> a list of tokens, as in GGUF files.
//
// A list names its pre-tokenizer (list.c) and has flags for spaces. To find them, the export tries
// each name and flag: it reads the list back and compares the ids of texts that pre-tokenizers
// split differently.
#include <stdlib.h>
#include <string.h>

#include "core/tokenizer/tokenizer_parts.h"

// Numbers, signs, contractions, spaces and newlines of all kinds; scripts with and without cases.
static const char *const sentences[] = {
    "Hello world! It's 12345678 o'clock, isn't it? I'LL   go\n\n  now.\r\n\tEnd  ",
    "  x=3.14159; y += foo_bar(a[0], \"two words\")  // $100 <= ^~| ++==\n    return -1;\n\n\n",
    "Straße Привет café cafe\u0301 你好世界2024年 こんにちは 한국어 مرحبا 😀👍",
    "CamelCaseWords iPhone HTTPServer don'T we'Re 1,000.50 ½ ٣٤ a/b/c /path",
};
// Some pre-tokenizers split between two of these, others do not.
static const char *const pieces_of_text[] = {
    " ", "  ",   "\n", "\t", "ing", "the", "_x",   "A",  "The",
    "7", "2024", "'s", ".",  "$",   "é",   "世界", "한", "😀",
};

enum {
    SENTENCES = sizeof sentences / sizeof *sentences,
    PIECES = sizeof pieces_of_text / sizeof *pieces_of_text
};

struct token_export {
    struct token_list list;
    char pre[TOKEN_PRE_SIZE];
    struct buf texts, merge_texts;
    struct token_text *tokens, *merges;
    uint8_t *types;
    float *scores;
};

// True if some bytes have tokens of their own ("<0x0A>"), as in SentencePiece's vocabularies.
static bool writes_bytes(const struct tokenizer *t)
{
    int byte = 0;
    while (byte < 256 && t->byte_id[byte] < 0) byte++;
    return byte < 256;
}

static bool is_there(const struct tokenizer *t, int32_t id)
{
    return id < t->size && t->tokens[id].at != NO_TEXT;
}

static enum token_type type_of(const struct tokenizer *t, int32_t id, bool pieces)
{
    const uint8_t flags = id < t->size ? t->tokens[id].flags : 0;
    if (!is_there(t, id)) return TOKEN_TYPE_UNUSED;
    if (id == t->unknown) return TOKEN_TYPE_UNKNOWN;
    if (flags & TOKEN_SPECIAL) return TOKEN_TYPE_CONTROL;
    if (flags & (TOKEN_ADDED | TOKEN_SYMBOL)) return TOKEN_TYPE_USER;
    for (int b = 0; pieces && b < 256; b++)
        if (t->byte_id[b] == id) return TOKEN_TYPE_BYTE;
    return TOKEN_TYPE_NORMAL;
}

// Stores the texts and types of all ids; missing ids get the text "[PADn]" and the type unused, so
// that no input becomes one of them.
static void put_tokens(struct token_export *e, const struct tokenizer *t, size_t n, bool pieces)
{
    size_t *at = xreallocarray(NULL, n + 1, sizeof *at);
    e->tokens = xcalloc(n + 1, sizeof *e->tokens);
    e->types = xcalloc(n + 1, sizeof *e->types);
    for (size_t i = 0; i < n; i++) {
        at[i] = e->texts.length;
        e->types[i] = (uint8_t)type_of(t, (int32_t)i, pieces);
        if (!is_there(t, (int32_t)i))
            buf_printf(&e->texts, "[PAD%zu]", i);
        else
            buf_add(&e->texts, t->texts.data + t->tokens[i].at, t->tokens[i].length);
        e->tokens[i].length = e->texts.length - at[i];
    }
    for (size_t i = 0; i < n; i++) e->tokens[i].text = e->texts.data + at[i];
    free(at);
    e->list.tokens = e->tokens;
    e->list.types = e->types;
    e->list.count = n;
}

// --- merges --------------------------------------------------------------------------------------

// Merges derived from a list of tokens may share a rank.
static int by_rank(const void *a, const void *b)
{
    const struct merge *x = a, *y = b;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    return (x->pair > y->pair) - (x->pair < y->pair);
}

static struct merge *sorted_merges(const struct tokenizer *t, size_t *count)
{
    struct merge *all = xreallocarray(NULL, (size_t)t->merge_mask + 1, sizeof *all);
    *count = 0;
    for (size_t i = 0; t->merges && i <= t->merge_mask; i++)
        if (t->merges[i].pair != UINT64_MAX) all[(*count)++] = t->merges[i];
    qsort(all, *count, sizeof *all, by_rank);
    return all;
}

// Stores the merges, "a b", in the order of ranks.
static void put_merges(struct token_export *e, const struct tokenizer *t)
{
    size_t count;
    struct buf *texts = &e->merge_texts;
    struct merge *all = sorted_merges(t, &count);
    size_t *at = xreallocarray(NULL, count + 1, sizeof *at);
    for (size_t i = 0; i < count; i++) {
        at[i] = texts->length;
        buf_printf(texts, "%s %s", tokenizer_token(t, (int32_t)(all[i].pair >> 32)),
                   tokenizer_token(t, (int32_t)(uint32_t)all[i].pair));
    }
    at[count] = texts->length;
    e->merges = xcalloc(count + 1, sizeof *e->merges);
    for (size_t i = 0; i < count; i++)
        e->merges[i] = (struct token_text){ texts->data + at[i], at[i + 1] - at[i] };
    e->list.merges = e->merges;
    e->list.merge_count = count;
    free(at);
    free(all);
}

// --- trying --------------------------------------------------------------------------------------

static bool same_ids_of(const struct tokenizer *a, const struct tokenizer *b, const char *text)
{
    struct ids x = { 0 }, y = { 0 };
    struct err err;
    const size_t n = strlen(text);
    const bool same = tokenizer_encode(a, text, n, TOKENIZE_SPECIAL, &x, &err) == 0 &&
                      tokenizer_encode(b, text, n, TOKENIZE_SPECIAL, &y, &err) == 0 &&
                      ids_same(&x, &y);
    ids_release(&x);
    ids_release(&y);
    return same;
}

static bool fits(const struct token_list *l, const struct tokenizer *t)
{
    struct err err;
    struct tokenizer *again = tokenizer_from_list(l, "a list", &err);
    struct buf text = { 0 }; // all sentences, and every sequence of three pieces
    for (int i = 0; i < SENTENCES; i++) buf_puts(&text, sentences[i]);
    for (int i = 0; i < PIECES * PIECES * PIECES; i++)
        buf_printf(&text, "%s%s%s", pieces_of_text[i / PIECES / PIECES],
                   pieces_of_text[i / PIECES % PIECES], pieces_of_text[i % PIECES]);
    // Also compares each sentence by itself, because leading spaces follow their own rules.
    bool same = again && same_ids_of(again, t, "") && same_ids_of(again, t, text.data);
    for (int i = 0; same && i < SENTENCES; i++) same = same_ids_of(again, t, sentences[i]);
    buf_release(&text);
    tokenizer_free(again);
    return same;
}

void token_export_free(struct token_export *e)
{
    if (!e) return;
    buf_release(&e->texts);
    buf_release(&e->merge_texts);
    free(e->tokens);
    free(e->merges);
    free(e->types);
    free(e->scores);
    free(e);
}

const struct token_list *token_export_list(const struct token_export *e)
{
    return &e->list;
}

// Makes added tokens that only repeat a text ordinary tokens (Gemma).
static void merge_runs(struct token_export *e, const char *text)
{
    for (size_t i = 0; i < e->list.count; i++)
        if (e->types[i] == TOKEN_TYPE_USER && text_repeats(&e->tokens[i], text))
            e->types[i] = TOKEN_TYPE_NORMAL;
}

// Completes a list of SentencePiece's tokens; false if no list encodes texts to the same ids.
static bool complete_pieces(struct token_export *e, const struct tokenizer *t)
{
    struct token_list *l = &e->list;
    if (strcmp(l->model, "llama") != 0) { // readers recognise runs of newlines themselves
        merge_runs(e, "\n");
        merge_runs(e, MARK);
        return fits(l, t);
    }
    size_t merges; // SentencePiece merges the pair whose result has the highest score
    struct merge *all = sorted_merges(t, &merges);
    e->scores = xcalloc(l->count + 1, sizeof *e->scores);
    while (merges-- > 0) e->scores[all[merges].id] = -(float)all[merges].rank - 1;
    l->scores = e->scores;
    free(all);
    for (int i = 0; i < 8; i++) {
        l->prefix = i % 2 == 0;
        l->squeeze = i % 4 >= 2;
        // Readers of the list would match runs of U+2581 in a text's spaces; tokenizer.json matches
        // only U+2581 itself, so that merges decide about spaces.
        if (i == 4) merge_runs(e, MARK);
        if (fits(l, t)) return true;
    }
    return false;
}

struct token_export *tokenizer_export(const struct tokenizer *t, int64_t count, const char *model,
                                      struct err *err)
{
    const bool pieces = writes_bytes(t);
    if (t->word != bpe_word) {
        err_set(err, "unigram tokenizers are not supported in GGUF files");
        return NULL;
    }
    if (count < t->size) {
        err_set(err, "the tokenizer has %d tokens, the embedding table %lld", (int)t->size,
                (long long)count);
        return NULL;
    }
    struct token_export *e = xcalloc(1, sizeof *e);
    struct token_list *l = &e->list;
    l->model = pieces ? model : "gpt2";
    l->add_bos = t->before.count > 0;
    l->bos = l->add_bos ? t->before.data[0] : -1;
    l->add_eos = t->after.count > 0;
    l->eos = l->add_eos ? t->after.data[0] : -1;
    put_tokens(e, t, (size_t)count, pieces);
    put_merges(e, t);
    if (pieces && complete_pieces(e, t)) return e;
    if (!pieces) l->pre = e->pre;
    for (int i = 0; !pieces && tokenizer_list_pre(i, e->pre); i++)
        if (fits(l, t)) return e;
    err_set(err, pieces ? "GGUF files cannot express how its tokenizer treats spaces"
                        : "GGUF files have no name for its pre-tokenizer");
    token_export_free(e);
    return NULL;
}
