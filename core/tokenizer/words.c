// core/tokenizer/words.c -- normaliser and pre-tokenizer: from a text to the words that the model
// encodes.
//
// Normalisers change the text in turn. Each splitter cuts the output of the previous one; a text
// passes through them depth first, so words arrive in order without lists of pieces.
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "core/tokenizer/tokenizer_parts.h"

// Printable Latin-1 maps to itself, the other bytes in order to U+0100, U+0101, ...: 0x00-0x20
// (33), 0x7F-0xA0 (34), 0xAD.
static int32_t byte_char(uint8_t byte)
{
    if (byte <= 0x20) return 0x100 + byte;
    if (byte >= 0x7F && byte <= 0xA0) return 0x100 + 33 + (byte - 0x7F);
    return byte == 0xAD ? 0x100 + 67 : byte;
}

int char_byte(int32_t c)
{
    if (c >= 0x100 && c <= 0x120) return c - 0x100;
    if (c >= 0x121 && c <= 0x142) return c - 0x121 + 0x7F;
    if (c == 0x143) return 0xAD;
    return c > 0x20 && c < 0x100 && byte_char((uint8_t)c) == c ? (int)c : -1;
}

void bytes_put(struct buf *out, const char *text, size_t length)
{
    char s[512];
    size_t n = 0;
    for (size_t i = 0; i < length; i++) {
        int32_t c = byte_char((uint8_t)text[i]);
        if (c < 0x80) {
            s[n++] = (char)c;
        } else {
            s[n++] = (char)(0xC0 | c >> 6);
            s[n++] = (char)(0x80 | (c & 0x3F));
        }
        if (n > sizeof s - 2 || i + 1 == length) {
            buf_add(out, s, n);
            n = 0;
        }
    }
}

// --- Unicode forms -----------------------------------------------------------------------------

// Characters that NFC never changes unless a combining mark follows: everything below U+0300, and
// blocks without combining marks or composition exclusions.
static bool nfc_stable(int32_t c)
{
    if (c < 0x300) return true;
    if (c >= 0x3400 && c <= 0x9FFF) return true;                     // CJK
    if (c >= 0xAC00 && c <= 0xD7A3) return true;                     // Hangul syllables
    if (c >= 0x3041 && c <= 0x30FF) return c < 0x3097 || c > 0x309A; // kana without their marks
    if (c >= 0x400 && c <= 0x481) return true;                       // Cyrillic
    if (c >= 0x2010 && c <= 0x2027) return true;                     // punctuation
    if (c >= 0x3001 && c <= 0x3020) return true;                     // CJK punctuation
    if (c >= 0xFF01 && c <= 0xFF60) return true;                     // full width
    return c >= 0x1F300 && c <= 0x1FAFF;                             // pictographs
}

// Appends text[0, length) in a Unicode form.
static int unicode_map(enum unicode_form form, const char *text, size_t length, struct buf *out,
                       struct err *err)
{
    static const utf8proc_option_t options[] = {
        [FORM_NFC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE,
        [FORM_NFD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE,
        [FORM_NFKC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
        [FORM_NFKD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT,
    };
    utf8proc_uint8_t *mapped = NULL;
    utf8proc_ssize_t n = utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)length,
                                      &mapped, options[form]);
    if (n >= 0) buf_add(out, mapped, (size_t)n);
    free(mapped);
    return n < 0 ? err_set(err, "normalising the text: %s", utf8proc_errmsg(n)) : 0;
}

// Copies runs of stable characters; the rest goes through utf8proc, with the stable character
// before it, which may combine with a mark.
static int nfc(const char *text, size_t length, struct buf *out, struct err *err)
{
    size_t i = 0, last = 0, done = 0; // last: start of the stable character before i
    while (i < length) {
        if ((uint8_t)text[i] < 0x80) {
            last = i++;
            continue;
        }
        int32_t c;
        size_t n = utf8_next(text + i, length - i, &c);
        if (nfc_stable(c)) {
            last = i;
            i += n;
            continue;
        }
        buf_add(out, text + done, last - done);
        for (i += n; i < length; i += n) {
            n = utf8_next(text + i, length - i, &c);
            if (nfc_stable(c)) break;
        }
        if (unicode_map(FORM_NFC, text + last, i - last, out, err) < 0) return -1;
        done = last = i;
    }
    buf_add(out, text + done, length - done);
    return 0;
}

// --- normalisers -------------------------------------------------------------------------------

// Converts character by character, without the rule for the final sigma.
static void lowercase(const char *text, size_t length, struct buf *out)
{
    for (size_t i = 0; i < length;) {
        int32_t c;
        i += utf8_next(text + i, length - i, &c);
        utf8_put(out, c == 0x130 ? 'i' : utf8proc_tolower(c));
        if (c == 0x130) utf8_put(out, 0x307); // the only character that becomes two
    }
}

static void strip(const struct normal *n, const char *text, size_t length, struct buf *out)
{
    size_t start = 0, end = length;
    int32_t c;
    while (n->left && start < end) {
        size_t k = utf8_next(text + start, end - start, &c);
        if (!is_white(c)) break;
        start += k;
    }
    while (n->right && end > start) {
        size_t k = utf8_before(text, end, &c);
        if (!is_white(c)) break;
        end -= k;
    }
    buf_add(out, text + start, end - start);
}

static int normal_step(struct encoder *e, const struct normal *n, const char *text, size_t length,
                       struct buf *out)
{
    switch (n->kind) {
    case NORMAL_UNICODE:
        return n->form == FORM_NFC ? nfc(text, length, out, e->err)
                                   : unicode_map(n->form, text, length, out, e->err);
    case NORMAL_PREPEND:
        if (length && !e->continues) buf_puts(out, n->text);
        buf_add(out, text, length);
        return 0;
    case NORMAL_REPLACE:
        return replace_all(&e->search, &n->pattern, n->text, text, length, out, e->err);
    case NORMAL_LOWERCASE: lowercase(text, length, out); return 0;
    case NORMAL_STRIP: strip(n, text, length, out); return 0;
    case NORMAL_BYTES: bytes_put(out, text, length); return 0;
    case NORMAL_CHARSMAP: return charsmap_run(e, n, text, length, out);
    case NORMAL_PIECES: return pieces_run(e, n, text, length, out);
    }
    return 0;
}

int normal_run(struct encoder *e, const char *text, size_t length, const char **out,
               size_t *out_length)
{
    for (int i = 0; i < e->t->normal_count; i++) {
        struct buf *b = &e->normal[i % 2];
        buf_clear(b);
        buf_puts(b, "");
        if (normal_step(e, &e->t->normals[i], text, length, b) < 0) return -1;
        text = b->data;
        length = b->length;
    }
    *out = text;
    *out_length = length;
    return 0;
}

// --- splitters ---------------------------------------------------------------------------------

static int split_step(struct encoder *e, int step, const char *text, size_t length, bool first);

// Joins matches and the text between them according to the splitter's behaviour. Holds one stretch
// back until the next one arrives.
struct stretches {
    struct encoder *e;
    int step; // the splitter that receives the result
    const char *text;
    bool first;
    enum behaviour behaviour;
    size_t start, end;  // the stretch that is held back
    bool held, matched; // a stretch is held back; it ends with a match
};

static int stretch_flush(struct stretches *s)
{
    bool empty = !s->held || s->start == s->end;
    s->held = false;
    if (empty) return 0;
    return split_step(s->e, s->step, s->text + s->start, s->end - s->start,
                      s->first && s->start == 0);
}

static int stretch_add(struct stretches *s, size_t start, size_t end, bool matched)
{
    bool joins = false;
    switch (s->behaviour) {
    case KEEP_ISOLATED: break;
    case KEEP_REMOVED:
        if (matched) return stretch_flush(s);
        break;
    case KEEP_CONTIGUOUS: joins = s->held && matched == s->matched; break;
    case KEEP_PREVIOUS: joins = s->held && matched && !s->matched; break;
    case KEEP_NEXT: joins = s->held && !matched && s->matched; break;
    }
    if (joins) {
        s->end = end;
        s->matched = matched;
        return 0;
    }
    if (stretch_flush(s) < 0) return -1;
    s->start = start;
    s->end = end;
    s->held = true;
    s->matched = matched;
    return 0;
}

static int split_pattern(struct encoder *e, const struct split *p, int step, const char *text,
                         size_t length, bool first)
{
    struct stretches s = {
        .e = e, .step = step, .text = text, .first = first, .behaviour = p->behaviour
    };
    size_t done = 0, from = 0, start, end;
    while (from <= length) {
        int found = search_next(&e->search, &p->pattern, text, length, from, &start, &end, e->err);
        if (found < 0) return -1;
        if (!found) break;
        if (start > done && stretch_add(&s, done, start, p->invert) < 0) return -1;
        if (stretch_add(&s, start, end, !p->invert) < 0) return -1;
        done = end;
        int32_t c;
        from =
            end > start ? end : end + (end < length ? utf8_next(text + end, length - end, &c) : 1);
    }
    if (done < length && stretch_add(&s, done, length, p->invert) < 0) return -1;
    return stretch_flush(&s);
}

static int split_metaspace(struct encoder *e, const struct split *p, int step, const char *text,
                           size_t length, bool first)
{
    static const struct pattern space = { .literal = " ", .literal_length = 1 };
    struct buf *b = &e->split[step];
    size_t mark = strlen(p->text);
    buf_clear(b);
    bool marked = text[0] == ' ' || (length >= mark && !memcmp(text, p->text, mark));
    bool prepend =
        p->prepend == PREPEND_ALWAYS || (p->prepend == PREPEND_FIRST && first && e->begins);
    if (prepend && !marked && !(first && e->continues)) buf_puts(b, p->text);
    if (replace_all(&e->search, &space, p->text, text, length, b, e->err) < 0) return -1;
    if (!p->pattern.literal) return split_step(e, step + 1, b->data, b->length, first);
    struct split at_mark = { .pattern = p->pattern, .behaviour = KEEP_NEXT };
    return split_pattern(e, &at_mark, step + 1, b->data, b->length, first);
}

// Returns a lower bound on the number of tokens of a word; 0: unknown.
static size_t least_tokens(const struct tokenizer *t, size_t length)
{
    size_t longest = 1;
    // One unknown token may replace any number of characters.
    const bool dropped = t->fuse_unknown && t->byte_id[0] < 0;
    if (length < 1 << 16 || dropped) return 0;
    for (int32_t i = 0; i < t->size; i++)
        if (t->tokens[i].at != NO_TEXT && t->tokens[i].length > longest)
            longest = t->tokens[i].length;
    return length / longest;
}

// Passes a text to splitter `step`; after the last one, encodes it as a word.
static int split_step(struct encoder *e, int step, const char *text, size_t length, bool first)
{
    if (length == 0) return 0;
    if (step == e->t->split_count) {
        if (e->most && (e->ids->count > e->most || least_tokens(e->t, length) > e->most))
            return err_set(e->err,
                           "the text has more than %zu tokens, far more than fit the context: "
                           "shorten it",
                           e->most);
        e->t->word(e, text, length);
        return 0;
    }
    const struct split *p = &e->t->splits[step];
    struct buf *b = &e->split[step];
    switch (p->kind) {
    case SPLIT_PATTERN: return split_pattern(e, p, step + 1, text, length, first);
    case SPLIT_METASPACE: return split_metaspace(e, p, step, text, length, first);
    case SPLIT_PREFIX:
        buf_clear(b);
        if (text[0] != ' ' && !(first && e->continues)) buf_putc(b, ' ');
        buf_add(b, text, length);
        break;
    case SPLIT_BYTES:
        buf_clear(b);
        bytes_put(b, text, length);
        break;
    }
    return split_step(e, step + 1, b->data, b->length, first);
}

int split_run(struct encoder *e, const char *text, size_t length, bool first)
{
    return split_step(e, 0, text, length, first);
}
