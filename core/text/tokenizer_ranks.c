// core/text/tokenizer_ranks.c -- tiktoken.model -> struct tokenizer.
//
// A line is a token's bytes in base64, a space, and its rank, which is also its id. Encoding starts
// from single bytes and joins the pair whose result has the lowest rank, which is byte-level BPE
// with every split of a token as a merge. What the file does not say, the code beside it on the
// hub does: the pattern that cuts words; here a table by tokenizer_class.
#include <stdlib.h>
#include <string.h>

#include "core/base/base64.h"
#include "core/text/tokenizer_parts.h"

static const struct rank_kind {
    const char *name; // tokenizer_class
    const char *regex;
} kinds[] = {
    { "TikTokenTokenizer", WORDS_KIMI }, // Moonlight, Kimi
    { "ChatGLM4Tokenizer", WORDS_LLAMA3 },
};

// Folders that name no class of their own are Kimi's.
static const struct rank_kind *find_kind(const struct companions *c, struct err *err)
{
    char name[CLASS_ROOM];
    if (companions_class(c->config, name, err) < 0) return NULL;
    if (!*name) return &kinds[0];
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(name, kinds[i].name)) return &kinds[i];
    err_set(err, "tokenizer_class \"%s\" is not supported for a file of ranks, only %s and %s",
            name, kinds[0].name, kinds[1].name);
    return NULL;
}

// --- lines -------------------------------------------------------------------------------------

struct line {
    const char *token; // base64
    size_t length;
    int32_t id;
};

struct lines {
    struct line *list;
    size_t count, room;
};

static int read_line(const char *text, size_t length, struct line *line)
{
    const char *space = memchr(text, ' ', length);
    if (!space || space == text) return -1;
    int64_t id = 0;
    const char *end = text + length, *p = space + 1;
    if (p == end) return -1;
    for (; p < end; p++) {
        if (*p < '0' || *p > '9' || id > INT32_MAX / 10 - 1) return -1;
        id = 10 * id + (*p - '0');
    }
    *line = (struct line){ text, (size_t)(space - text), (int32_t)id };
    return 0;
}

static int read_lines(struct lines *l, const char *text, size_t size, struct err *err)
{
    size_t number = 1;
    for (const char *p = text, *end = text + size, *next; p < end; p = next, number++) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        next = stop ? stop + 1 : end;
        if (!stop) stop = end;
        if (stop > p && stop[-1] == '\r') stop--;
        if (stop == p) continue;
        if (l->count == l->room) {
            l->room = l->room ? 2 * l->room : 1024;
            l->list = xreallocarray(l->list, l->room, sizeof *l->list);
        }
        if (read_line(p, (size_t)(stop - p), &l->list[l->count++]) < 0)
            return err_set(err, "line %zu is not a token in base64 and its rank", number);
    }
    return l->count ? 0 : err_set(err, "it is empty");
}

// --- tokens ------------------------------------------------------------------------------------

static int put_token(struct tokenizer *t, const struct line *line, struct buf *bytes,
                     struct buf *text, struct err *err)
{
    buf_clear(bytes);
    buf_clear(text);
    if (base64_decode(bytes, line->token, line->length) < 0 || !bytes->length)
        return err_set(err, "the token of rank %d is not base64", line->id);
    if (bytes->length > TOKEN_BYTES_MAX)
        return err_set(err, "the token of rank %d has %zu bytes; at most %d are supported",
                       line->id, bytes->length, TOKEN_BYTES_MAX);
    bytes_put(text, bytes->data, bytes->length);
    return vocabulary_put(t, line->id, text->data, false, err);
}

static int check_bytes(const struct tokenizer *t, struct err *err)
{
    for (int i = 0; i < 256; i++)
        if (t->char_id[byte_char((uint8_t)i)] < 0)
            return err_set(err, "the byte 0x%02X has no token", (unsigned)i);
    return 0;
}

static int put_tokens(struct tokenizer *t, const struct lines *l, struct err *err)
{
    struct buf bytes = { 0 }, text = { 0 };
    int status = 0;
    for (size_t i = 0; status == 0 && i < l->count; i++)
        status = put_token(t, &l->list[i], &bytes, &text, err);
    buf_release(&bytes);
    buf_release(&text);
    return status < 0 ? -1 : check_bytes(t, err);
}

static void put_merges(struct tokenizer *t, const struct lines *l)
{
    uint32_t *rank = xreallocarray(NULL, (size_t)t->size, sizeof *rank);
    memset(rank, 0xFF, (size_t)t->size * sizeof *rank);
    for (size_t i = 0; i < l->count; i++) rank[l->list[i].id] = (uint32_t)l->list[i].id;
    merges_derive(t, rank);
    free(rank);
}

static int fill(struct tokenizer *t, const struct lines *l, const struct companions *c,
                struct err *err)
{
    const struct rank_kind *kind = find_kind(c, err);
    if (!kind) return -1;
    for (size_t i = 0; i < l->count; i++) {
        int32_t id;
        if (check_id(l->list[i].id, l->count, &id, err) < 0) return -1;
        if (id >= t->size) t->size = id + 1;
    }
    if (companions_size(t, c, l->count, err) < 0) return -1;
    tables_make(t, l->count);
    if (put_tokens(t, l, err) < 0 || companions_added(t, c, l->count, true, err) < 0) return -1;
    added_sort(&t->added);
    t->unknown = -1;
    bytes_find(t, false);
    t->ignore_merges = true; // a word that is a token is that token
    t->word = bpe_word;
    put_merges(t, l);
    if (bytes_split(t, kind->regex, err) < 0) return -1;
    mark_fused(t);
    return companions_apply(t, c, err);
}

struct tokenizer *tokenizer_parse_ranks(const char *text, size_t size, const struct companions *c,
                                        const char *name, struct err *err)
{
    struct tokenizer *t = xcalloc(1, sizeof *t);
    struct lines l = { 0 };
    int status = read_lines(&l, text, size, err);
    if (status == 0) status = fill(t, &l, c, err);
    free(l.list);
    if (status == 0) return t;
    err_in(err, "tokenizer '%s'", name);
    tokenizer_free(t);
    return NULL;
}
