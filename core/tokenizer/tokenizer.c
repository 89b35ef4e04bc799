// core/tokenizer/tokenizer.c -- encodes a text through all stages, and describes tokens.
//
//   text -> stretches between added tokens -> normaliser -> stretches between added tokens with
//   "normalized" -> words (pre-tokenizer) -> ids (BPE or unigram), and the post-processor's tokens
//   around them.
//
// As in the reference implementation, the leftmost added token wins; on ties, the longest.
#include "core/tokenizer/tokenizer.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "core/tokenizer/tokenizer_parts.h"

static const size_t TEXT_MAX = (size_t)1 << 30; // bytes; positions in a word are int32

// --- added tokens ------------------------------------------------------------------------------

// Ranges in which special tokens are not recognised.
struct typed {
    const struct text_range *ranges;
    size_t count;
};

static bool touches(const struct typed *typed, size_t start, size_t end)
{
    size_t low = 0, high = typed->count;
    while (low < high) { // the first range that ends after `start`
        size_t middle = (low + high) / 2;
        if (typed->ranges[middle].end > start)
            high = middle;
        else
            low = middle + 1;
    }
    return low < typed->count && typed->ranges[low].start < end;
}

// Among tokens [low, high), which share their first `depth` bytes, finds the first whose next byte
// is at least `byte`.
static size_t first_with(const struct added_list *list, size_t depth, int byte, size_t low,
                         size_t high)
{
    while (low < high) {
        size_t middle = (low + high) / 2;
        if ((uint8_t)list->tokens[middle].text[depth] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// Returns the longest added token at text[at]; NULL if none.
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
        const int next = (uint8_t)text[at + depth];
        low = first_with(list, depth, next, low, high);
        high = first_with(list, depth, next + 1, low, high);
    }
    return found;
}

// True for letters, marks, decimal digits, letter numbers, connectors and joiners.
static bool is_word(int32_t c)
{
    utf8proc_category_t k = utf8proc_category(c);
    return (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_NL) || k == UTF8PROC_CATEGORY_PC ||
           c == 0x200C || c == 0x200D;
}

static bool stands_alone(const char *text, size_t length, size_t start, size_t end)
{
    int32_t c;
    if (start > 0 && (utf8_before(text, start, &c), is_word(c))) return false;
    return end == length || (utf8_next(text + end, length - end, &c), !is_word(c));
}

// A found added token.
struct found {
    const struct added *token;
    size_t start, end; // with the white space that lstrip and rstrip add
    size_t next; // end of the token itself, where the search continues, because the white space
                 // after it may contain the next token
};

const struct added *added_longest(const struct added_list *list, const char *text, size_t length)
{
    static const struct typed none;
    return added_at(list, &none, text, length, 0);
}

// Finds the next added token in text[at, length); the text before `from` is consumed.
static bool added_next(const struct added_list *list, const struct typed *typed, const char *text,
                       size_t length, size_t from, size_t at, struct found *f)
{
    for (; at < length; at++) {
        uint8_t byte = (uint8_t)text[at];
        if (list->first[byte] == list->first[byte + 1]) continue;
        const struct added *a = added_at(list, typed, text, length, at);
        if (!a) continue;
        *f = (struct found){ a, at, at + a->length, at + a->length };
        if (a->single_word && !stands_alone(text, length, f->start, f->end)) {
            at = f->end - 1; // skips the token's text
            continue;
        }
        int32_t c;
        for (size_t n; a->lstrip && f->start > from; f->start -= n) {
            n = utf8_before(text, f->start, &c);
            if (!is_white(c) || n > f->start - from) break;
        }
        // If an earlier token stripped the white space around this one, continues where that ended.
        if (a->rstrip && f->end < from) f->end = from;
        for (size_t n; a->rstrip && f->end < length; f->end += n) {
            n = utf8_next(text + f->end, length - f->end, &c);
            if (!is_white(c)) break;
        }
        return true;
    }
    return false;
}

size_t tokenizer_count_special(const struct tokenizer *t, const char *text, size_t length)
{
    static const struct typed none;
    const struct added_list *const lists[] = { &t->added, &t->added_normal };
    size_t count = 0;
    for (size_t i = 0; i < 2; i++) {
        struct found f = { 0 };
        while (lists[i]->count && added_next(lists[i], &none, text, length, f.end, f.next, &f))
            count += f.token->special;
    }
    return count;
}

// --- encoding ----------------------------------------------------------------------------------

// Maps the typed ranges to the normalised text[start, end): normalises the text before each
// boundary to find its offset.
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
        struct text_range *n = &ranges[(*count)++];
        if (normal_run(e, text + start, from, &out, &n->start) < 0 ||
            normal_run(e, text + start, to, &out, &n->end) < 0)
            return -1;
    }
    return 0;
}

// Encodes a stretch between added tokens.
static int encode_stretch(struct encoder *e, const struct typed *typed, const char *text,
                          size_t start, size_t end)
{
    const struct added_list *list = &e->t->added_normal;
    struct text_range *ranges = NULL;
    struct typed inside = { 0 };
    int status = -1;
    if (list->special && typed->count) { // typed ranges matter only for special tokens
        inside.ranges = ranges = xreallocarray(NULL, typed->count, sizeof *ranges);
        if (normal_ranges(e, typed, text, start, end, ranges, &inside.count) < 0) goto out;
    }
    const char *normal;
    size_t length, from = 0;
    struct found f = { 0 };
    if (normal_run(e, text + start, end - start, &normal, &length) < 0) goto out;
    while (list->count && added_next(list, &inside, normal, length, from, f.next, &f)) {
        if (f.start > from && split_run(e, normal + from, f.start - from, from == 0) < 0) goto out;
        ids_add(e->ids, f.token->id);
        from = f.end;
    }
    status = from < length ? split_run(e, normal + from, length - from, from == 0) : 0;
out:
    free(ranges);
    return status;
}

// Encodes the text between two holes. `begins`: at the start of the whole text.
static int encode_between(struct encoder *e, const struct typed *typed, const char *text,
                          size_t start, size_t end, bool begins, bool continues)
{
    const struct added_list *list = &e->t->added;
    struct found f = { .next = start };
    bool more = true;
    for (size_t from = start; more; from = f.end) {
        more = added_next(list, typed, text, end, from, f.next, &f);
        e->begins = begins && from == start;
        e->continues = continues && from == start;
        size_t stop = more ? f.start : end;
        if (from < stop && encode_stretch(e, typed, text, from, stop) < 0) return -1;
        if (more) ids_add(e->ids, f.token->id);
    }
    return 0;
}

static int encode_text(struct encoder *e, const struct marked_text *m, bool continues)
{
    struct typed typed = { m->typed, m->typed_count };
    size_t from = 0;
    bool begins = true;
    for (size_t i = 0; i < m->hole_count; i++) {
        const struct text_hole *hole = &m->holes[i];
        if (encode_between(e, &typed, m->text, from, hole->at, begins, continues) < 0) return -1;
        ids_add(e->ids, -1 - (int32_t)i);
        from = hole->at;
        begins = false;
        continues = hole->continues;
    }
    return encode_between(e, &typed, m->text, from, m->length, begins, continues);
}

// --- invalid UTF-8 -----------------------------------------------------------------------------

// A text whose invalid bytes are replaced, and its marks at their new offsets.
struct repaired {
    struct buf text;
    struct text_range *typed;
    struct text_hole *holes;
};

static bool inside_character(const struct marked_text *m, size_t at)
{
    return at < m->length && ((uint8_t)m->text[at] & 0xC0) == 0x80;
}

// True if every stretch between two marks is UTF-8 by itself.
static bool all_valid(const struct marked_text *m)
{
    if (!utf8_valid(m->text, m->length)) return false;
    for (size_t i = 0; i < m->typed_count; i++)
        if (inside_character(m, m->typed[i].start) || inside_character(m, m->typed[i].end))
            return false;
    for (size_t i = 0; i < m->hole_count; i++)
        if (inside_character(m, m->holes[i].at)) return false;
    return true;
}

static int by_place(const void *a, const void *b)
{
    const size_t x = **(size_t *const *)a, y = **(size_t *const *)b;
    return x < y ? -1 : x > y;
}

// Repairs each stretch between two marks by itself, so that no mark lies inside a character.
static void repair(struct repaired *r, const struct marked_text *m)
{
    size_t count = 0, done = 0;
    size_t **marks = xreallocarray(NULL, 2 * m->typed_count + m->hole_count + 1, sizeof *marks);
    r->typed = xreallocarray(NULL, m->typed_count + 1, sizeof *r->typed);
    r->holes = xreallocarray(NULL, m->hole_count + 1, sizeof *r->holes);
    for (size_t i = 0; i < m->typed_count; i++) {
        r->typed[i] = m->typed[i];
        marks[count++] = &r->typed[i].start;
        marks[count++] = &r->typed[i].end;
    }
    for (size_t i = 0; i < m->hole_count; i++) {
        r->holes[i] = m->holes[i];
        marks[count++] = &r->holes[i].at;
    }
    qsort(marks, count, sizeof *marks, by_place);
    for (size_t i = 0; i < count; i++) {
        const size_t place = *marks[i];
        utf8_repair(&r->text, m->text + done, place - done);
        *marks[i] = r->text.length;
        done = place;
    }
    utf8_repair(&r->text, m->text + done, m->length - done);
    free(marks);
}

int tokenizer_encode_marked(const struct tokenizer *t, const struct marked_text *m, int flags,
                            struct ids *ids, struct err *err)
{
    if (m->length > TEXT_MAX)
        return err_set(err, "a text of %zu MB is too long to tokenise", m->length >> 20);
    struct encoder e = { .t = t, .ids = ids, .err = err };
    struct marked_text text = *m;
    if (m->most) e.most = ids->count + m->most;
    struct repaired r = { 0 };
    size_t count = ids->count;
    if (!all_valid(m)) {
        repair(&r, m);
        text.text = r.text.data;
        text.length = r.text.length;
        text.typed = r.typed;
        text.holes = r.holes;
    }
    search_start(&e.search, text.length);
    bpe_start(&e, text.length);
    if (flags & TOKENIZE_SPECIAL) tokenizer_begin(t, ids);
    int status = encode_text(&e, &text, (flags & TOKENIZE_CONTINUATION) != 0);
    if (status == 0 && flags & TOKENIZE_SPECIAL) ids_append(ids, t->after.data, t->after.count);
    if (status < 0) ids->count = count;
    encoder_release(&e);
    buf_release(&r.text);
    free(r.typed);
    free(r.holes);
    return status;
}

int tokenizer_encode(const struct tokenizer *t, const char *text, size_t length, int flags,
                     struct ids *ids, struct err *err)
{
    const struct text_range all = { 0, length };
    const struct marked_text m = {
        .text = text, .length = length, .typed = &all, .typed_count = flags & TOKENIZE_PLAIN ? 1 : 0
    };
    return tokenizer_encode_marked(t, &m, flags, ids, err);
}

void tokenizer_begin(const struct tokenizer *t, struct ids *ids)
{
    ids_append(ids, t->before.data, t->before.count);
}

void encoder_release(struct encoder *e)
{
    search_release(&e->search);
    bpe_release(e);
    free(e->paths);
    for (int i = 0; i < 2; i++) buf_release(&e->normal[i]);
    for (int i = 0; i < STAGES_MAX; i++) buf_release(&e->split[i]);
}

// --- tokens ------------------------------------------------------------------------------------

const char *tokenizer_token(const struct tokenizer *t, int32_t id)
{
    if (id < 0 || id >= t->size || t->tokens[id].at == NO_TEXT) return NULL;
    return t->texts.data + t->tokens[id].at;
}

bool tokenizer_is_special(const struct tokenizer *t, int32_t id)
{
    return id >= 0 && id < t->size && t->tokens[id].flags & TOKEN_SPECIAL;
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
    // added_normal has normalised texts; the tokens have the original ones.
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

const char *tokenizer_notice(const struct tokenizer *t)
{
    return t->notice.length ? t->notice.data : NULL;
}

void tokenizer_add_notice(struct tokenizer *t, const char *format, ...)
{
    va_list args;
    if (t->notice.length) buf_puts(&t->notice, "; ");
    va_start(args, format);
    buf_vprintf(&t->notice, format, args);
    va_end(args);
}

void tokenizer_free(struct tokenizer *t)
{
    if (!t) return;
    buf_release(&t->notice);
    buf_release(&t->texts);
    free(t->tokens);
    free(t->slots);
    free(t->merges);
    free(t->unused);
    free(t->char_id);
    free(t->unigram.score);
    trie_release(&t->unigram.trie);
    added_release(&t->added);
    added_release(&t->added_normal);
    added_release(&t->symbols);
    for (int i = 0; i < STAGES_MAX; i++) {
        pattern_release(&t->normals[i].pattern);
        free(t->normals[i].text);
        charsmap_release(&t->normals[i].map);
        pattern_release(&t->splits[i].pattern);
        free(t->splits[i].text);
        pattern_release(&t->decodes[i].pattern);
        free(t->decodes[i].text);
    }
    ids_release(&t->before);
    ids_release(&t->after);
    free(t);
}
