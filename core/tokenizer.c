// core/tokenizer.c -- a text through all stages of the tokenizer, and what its tokens are.
//
//   text -> stretches between added tokens -> normaliser -> stretches between added tokens that are
//   looked for in normalised text -> words (pre-tokenizer) -> ids (BPE), and around all of it the
//   post-processor's tokens.
//
// Added tokens are found as the reference does: the leftmost, of those the longest.
#include "core/tokenizer.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "core/tokenizer_parts.h"

static const size_t TEXT_MAX = (size_t)1 << 30; // bytes; places in a word are int32

// --- added tokens ------------------------------------------------------------------------------

// The ranges in which no special token counts.
struct typed {
    const struct text_range *ranges;
    size_t count;
};

static bool touches(const struct typed *typed, size_t start, size_t end)
{
    size_t low = 0, high = typed->count;
    while (low < high) { // the first range that ends behind `start`
        size_t middle = (low + high) / 2;
        if (typed->ranges[middle].end > start)
            high = middle;
        else
            low = middle + 1;
    }
    return low < typed->count && typed->ranges[low].start < end;
}

// Narrows tokens [*low, *high), equal in their first `depth` bytes, to those that go on with
// `byte`.
static void narrow(const struct added_list *list, size_t depth, uint8_t byte, size_t *low,
                   size_t *high)
{
    size_t l = *low, h = *high;
    while (l < h) {
        size_t middle = (l + h) / 2;
        if ((uint8_t)list->tokens[middle].text[depth] < byte)
            l = middle + 1;
        else
            h = middle;
    }
    *low = l;
    h = *high;
    while (l < h) {
        size_t middle = (l + h) / 2;
        if ((uint8_t)list->tokens[middle].text[depth] <= byte)
            l = middle + 1;
        else
            h = middle;
    }
    *high = l;
}

// The longest added token that stands at text[at].
static const struct added *added_at(const struct added_list *list, const struct typed *typed,
                                    const char *text, size_t length, size_t at)
{
    const struct added *found = NULL;
    uint8_t byte = (uint8_t)text[at];
    size_t low = list->first[byte], high = list->first[byte + 1];
    for (size_t depth = 1; low < high; depth++) {
        for (; low < high && list->tokens[low].length == depth; low++)
            if (!list->tokens[low].special || !touches(typed, at, at + depth))
                found = &list->tokens[low];
        if (at + depth >= length) break;
        narrow(list, depth, (uint8_t)text[at + depth], &low, &high);
    }
    return found;
}

static bool is_word(int32_t c)
{
    utf8proc_category_t k = utf8proc_category(c);
    return (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_PC);
}

static bool stands_alone(const char *text, size_t length, size_t start, size_t end)
{
    int32_t c;
    if (start > 0 && (utf8_before(text, start, &c), is_word(c))) return false;
    return end == length || (utf8_next(text + end, length - end, &c), !is_word(c));
}

// The next added token in text[from, length) and what it takes of the text: with the white space
// beside it if it says so.
static const struct added *added_next(const struct added_list *list, const struct typed *typed,
                                      const char *text, size_t length, size_t from, size_t *start,
                                      size_t *end)
{
    for (size_t at = from; at < length; at++) {
        uint8_t byte = (uint8_t)text[at];
        if (list->first[byte] == list->first[byte + 1]) continue;
        const struct added *a = added_at(list, typed, text, length, at);
        if (!a) continue;
        *start = at;
        *end = at + a->length;
        if (a->single_word && !stands_alone(text, length, *start, *end)) {
            at = *end - 1; // its text is passed over
            continue;
        }
        int32_t c;
        for (size_t n; a->lstrip && *start > from; *start -= n) {
            n = utf8_before(text, *start, &c);
            if (!is_white(c) || n > *start - from) break;
        }
        for (size_t n; a->rstrip && *end < length; *end += n) {
            n = utf8_next(text + *end, length - *end, &c);
            if (!is_white(c)) break;
        }
        return a;
    }
    return NULL;
}

// --- encoding ----------------------------------------------------------------------------------

// Where the typed ranges are in the normalised text of text[start, end): as far as the text before
// them gets long.
static int normal_ranges(struct encoder *e, const struct typed *typed, const char *text,
                         size_t start, size_t end, struct text_range *ranges, size_t *count)
{
    const char *out;
    *count = 0;
    for (size_t i = 0; i < typed->count; i++) {
        struct text_range r = typed->ranges[i];
        if (r.end <= start || r.start >= end) continue;
        size_t from = r.start > start ? r.start - start : 0;
        size_t to = (r.end < end ? r.end : end) - start;
        bool continues = start == 0 && e->continues;
        struct text_range *n = &ranges[(*count)++];
        if (normal_run(e, text + start, from, continues, &out, &n->start) < 0 ||
            normal_run(e, text + start, to, continues, &out, &n->end) < 0)
            return -1;
    }
    return 0;
}

// Text without added tokens that are looked for before the normaliser.
static int encode_stretch(struct encoder *e, const struct typed *typed, const char *text,
                          size_t start, size_t end)
{
    if (start == end) return 0;
    const struct added_list *list = &e->t->added_normal;
    struct text_range *ranges = NULL;
    struct typed inside = { 0 };
    int status = -1;
    if (list->count && typed->count) {
        inside.ranges = ranges = xreallocarray(NULL, typed->count, sizeof *ranges);
        if (normal_ranges(e, typed, text, start, end, ranges, &inside.count) < 0) goto out;
    }
    const char *normal;
    size_t length, from = 0, at, behind;
    if (normal_run(e, text + start, end - start, start == 0 && e->continues, &normal, &length) < 0)
        goto out;
    for (const struct added *a; from < length; from = behind) {
        a = list->count ? added_next(list, &inside, normal, length, from, &at, &behind) : NULL;
        if (!a) at = behind = length;
        if (split_run(e, normal + from, at - from, start == 0 && from == 0) < 0) goto out;
        if (a) ids_add(e->ids, a->id);
    }
    status = 0;
out:
    free(ranges);
    return status;
}

static int encode_text(struct encoder *e, const struct typed *typed, const char *text,
                       size_t length)
{
    const struct added_list *list = &e->t->added;
    for (size_t from = 0, at, behind; from < length; from = behind) {
        const struct added *a = added_next(list, typed, text, length, from, &at, &behind);
        if (!a) at = behind = length;
        if (encode_stretch(e, typed, text, from, at) < 0) return -1;
        if (a) ids_add(e->ids, a->id);
    }
    return 0;
}

// Invalid UTF-8 is replaced, each range and each stretch between them by itself; `ranges` follow.
static void repair(struct buf *out, const char *text, size_t length, const struct typed *typed,
                   struct text_range *ranges)
{
    size_t done = 0;
    for (size_t i = 0; i < typed->count; i++) {
        struct text_range r = typed->ranges[i];
        utf8_repair(out, text + done, r.start - done);
        ranges[i].start = out->length;
        utf8_repair(out, text + r.start, r.end - r.start);
        ranges[i].end = out->length;
        done = r.end;
    }
    utf8_repair(out, text + done, length - done);
}

int tokenizer_encode_typed(const struct tokenizer *t, const char *text, size_t length,
                           const struct text_range *ranges, size_t range_count, int flags,
                           struct ids *ids, struct err *err)
{
    if (length > TEXT_MAX)
        return err_set(err, "a text of %zu MB is too long to be tokenised", length >> 20);
    struct encoder e = { .t = t, .ids = ids, .err = err };
    struct typed typed = { ranges, range_count };
    struct buf repaired = { 0 };
    struct text_range *moved = NULL;
    size_t count = ids->count;
    if (!utf8_valid(text, length)) {
        moved = xreallocarray(NULL, range_count + 1, sizeof *moved);
        repair(&repaired, text, length, &typed, moved);
        typed.ranges = moved;
        text = repaired.data;
        length = repaired.length;
    }
    e.continues = (flags & TOKENIZE_CONTINUATION) != 0;
    search_start(&e.search, length);
    bpe_start(&e, length);
    if (flags & TOKENIZE_SPECIAL) ids_append(ids, t->before.data, t->before.count);
    int status = encode_text(&e, &typed, text, length);
    if (status == 0 && flags & TOKENIZE_SPECIAL) ids_append(ids, t->after.data, t->after.count);
    if (status < 0) ids->count = count;
    encoder_release(&e);
    buf_release(&repaired);
    free(moved);
    return status;
}

int tokenizer_encode(const struct tokenizer *t, const char *text, size_t length, int flags,
                     struct ids *ids, struct err *err)
{
    struct text_range all = { 0, length };
    return tokenizer_encode_typed(t, text, length, &all, flags & TOKENIZE_PLAIN ? 1 : 0, flags, ids,
                                  err);
}

void encoder_release(struct encoder *e)
{
    search_release(&e->search);
    bpe_release(e);
    for (int i = 0; i < 2; i++) buf_release(&e->normal[i]);
    for (int i = 0; i < STAGES_MAX; i++) buf_release(&e->split[i]);
}

// --- tokens ------------------------------------------------------------------------------------

const char *tokenizer_token(const struct tokenizer *t, int32_t id)
{
    if (id < 0 || id >= t->size || t->text_at[id] == NO_TEXT) return NULL;
    return t->texts.data + t->text_at[id];
}

bool tokenizer_is_special(const struct tokenizer *t, int32_t id)
{
    return id >= 0 && id < t->size && t->flags[id] & TOKEN_SPECIAL;
}

int32_t tokenizer_size(const struct tokenizer *t)
{
    return t->size;
}

int32_t tokenizer_id(const struct tokenizer *t, const char *token)
{
    size_t length = strlen(token);
    for (size_t i = 0; i < t->added.count; i++)
        if (!strcmp(t->added.tokens[i].text, token)) return t->added.tokens[i].id;
    // Those looked for in normalised text are listed under that; their own text is in the table.
    for (size_t i = 0; i < t->added_normal.count; i++)
        if (!strcmp(tokenizer_token(t, t->added_normal.tokens[i].id), token))
            return t->added_normal.tokens[i].id;
    return vocabulary_find(t, token, length);
}

static void added_release(struct added_list *list)
{
    for (size_t i = 0; i < list->count; i++) free(list->tokens[i].text);
    free(list->tokens);
}

void tokenizer_free(struct tokenizer *t)
{
    if (!t) return;
    buf_release(&t->texts);
    free(t->text_at);
    free(t->text_length);
    free(t->flags);
    free(t->slots);
    free(t->merges);
    free(t->char_id);
    added_release(&t->added);
    added_release(&t->added_normal);
    for (int i = 0; i < STAGES_MAX; i++) {
        pattern_release(&t->normals[i].pattern);
        free(t->normals[i].text);
        pattern_release(&t->splits[i].pattern);
        free(t->splits[i].text);
        pattern_release(&t->decodes[i].pattern);
        free(t->decodes[i].text);
    }
    ids_release(&t->before);
    ids_release(&t->after);
    free(t);
}
