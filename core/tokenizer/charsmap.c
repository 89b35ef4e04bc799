// core/tokenizer/charsmap.c -- SentencePiece's normaliser: a precompiled table of replacements, and
// rules for spaces.
//
// The table is a trie over bytes in the double-array form of darts-clone, one 32-bit unit per node:
//   bits 0-7 and 31  label (31: the unit is a value)    bit 8  a text ends here
//   bits 10-30       offset to the children, in units of 1 or (bit 9) 256
// The replacements follow. SentencePiece takes the longest match; the library behind
// tokenizer.json takes the shortest, grapheme by grapheme (charsmap_run).
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "core/tokenizer/tokenizer_parts.h"

enum { MATCH_BYTES = 256 }; // longest text in a table; keeps the search linear

// --- table -------------------------------------------------------------------------------------

uint32_t little_endian(const char *bytes)
{
    const uint8_t *b = (const uint8_t *)bytes;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

int charsmap_read(struct charsmap *m, const char *blob, size_t size, struct err *err)
{
    const size_t trie = size > 4 ? little_endian(blob) : 0;
    if (!trie || trie % 4 || trie > size - 4)
        return err_set(err, "the precompiled_charsmap is broken (%zu bytes)", size);
    m->count = trie / 4;
    m->units = xreallocarray(NULL, m->count, sizeof *m->units);
    for (size_t i = 0; i < m->count; i++) m->units[i] = little_endian(blob + 4 + 4 * i);
    m->length = size - 4 - trie;
    m->texts = xmalloc(m->length + 1);
    memcpy(m->texts, blob + 4 + trie, m->length);
    m->texts[m->length] = 0;
    if (!utf8_valid(m->texts, m->length)) // zero bytes between texts are characters too
        return err_set(err, "the precompiled_charsmap contains invalid UTF-8");
    return 0;
}

void charsmap_release(struct charsmap *m)
{
    free(m->units);
    free(m->texts);
    *m = (struct charsmap){ 0 };
}

static uint32_t unit_offset(uint32_t unit)
{
    return (unit >> 10) << ((unit & 1U << 9) >> 6);
}

// Returns the length of the longest (or shortest) table text that `text` starts with, 0 if none,
// and its replacement in *found.
static size_t charsmap_find(const struct charsmap *m, const char *text, size_t length,
                            bool shortest, const char **found)
{
    size_t matched = 0;
    uint32_t at = m->count ? unit_offset(m->units[0]) : 0;
    for (size_t i = 0; i < length && i < MATCH_BYTES; i++) {
        const uint8_t byte = (uint8_t)text[i];
        at ^= byte;
        if (at >= m->count || (m->units[at] & (1U << 31 | 0xFF)) != byte) break;
        const bool ends = m->units[at] >> 8 & 1;
        at ^= unit_offset(m->units[at]);
        if (!ends || at >= m->count) continue;
        const uint32_t place = m->units[at] & INT32_MAX;
        if (place > m->length || (m->texts[place] & 0xC0) == 0x80) continue;
        *found = m->texts + place;
        matched = i + 1;
        if (shortest) break;
    }
    return matched;
}

// --- as in tokenizer.json ----------------------------------------------------------------------

static size_t grapheme_length(const char *text, size_t length)
{
    int32_t c, next, state = 0;
    size_t end = utf8_next(text, length, &c);
    while (end < length) {
        const size_t n = utf8_next(text + end, length - end, &next);
        if (utf8proc_grapheme_break_stateful(c, next, &state)) break;
        c = next;
        end += n;
    }
    return end;
}

// Replaces a whole grapheme of fewer than six bytes if it starts with a text of the table (the
// shortest such text); else looks up its characters one by one.
int charsmap_run(struct encoder *e, const struct normal *n, const char *text, size_t length,
                 struct buf *out)
{
    int32_t c;
    for (size_t i = 0, k; i < length; i += k) {
        const char *found = NULL;
        const size_t whole = grapheme_length(text + i, length - i);
        k = whole;
        if (whole >= 6 || !charsmap_find(&n->map, text + i, whole, true, &found)) {
            for (size_t at = 0, one; at < whole; at += one) {
                one = utf8_next(text + i + at, whole - at, &c);
                if (charsmap_find(&n->map, text + i + at, one, true, &found))
                    buf_puts(out, found);
                else
                    buf_add(out, text + i + at, one);
            }
        } else {
            buf_puts(out, found);
        }
        if (normal_limit(&e->search, out, e->err) < 0) return -1;
    }
    return 0;
}

// --- as in tokenizer.model ---------------------------------------------------------------------

// Returns the length of the next part (a user-defined symbol, the longest text of the table, or a
// character) and its replacement, the part itself unless the table has it.
static size_t next_part(const struct encoder *e, const struct normal *n, const char *text,
                        size_t length, const char **part, size_t *part_length)
{
    const struct added *symbol = added_longest(&e->t->symbols, text, length);
    size_t taken = 0;
    if (!symbol) taken = charsmap_find(&n->map, text, length, false, part);
    if (taken) {
        *part_length = strlen(*part);
        return taken;
    }
    int32_t c;
    taken = symbol ? symbol->length : utf8_next(text, length, &c);
    *part = text;
    *part_length = taken;
    return taken;
}

static void put_part(const struct space_rules *rules, const char *part, size_t length,
                     struct buf *out)
{
    size_t done = 0;
    for (size_t i = 0; rules->escape && i < length; i++) {
        if (part[i] != ' ') continue;
        buf_add(out, part + done, i - done);
        buf_puts(out, MARK);
        done = i + 1;
    }
    buf_add(out, part + done, length - done);
}

// PREPEND_FIRST, which SentencePiece does not have, leaves a text that starts with a space or
// U+2581 unchanged.
static bool has_dummy(const struct encoder *e, const struct normal *n, const char *text,
                      size_t length)
{
    const struct space_rules *rules = &n->spaces;
    const char *part;
    size_t part_length;
    if (rules->suffix) return rules->dummy != PREPEND_NEVER;
    if (e->continues) return false;
    if (rules->dummy != PREPEND_FIRST) return rules->dummy == PREPEND_ALWAYS;
    next_part(e, n, text, length, &part, &part_length);
    return e->begins && !(part_length && *part == ' ') &&
           !(part_length >= strlen(MARK) && !memcmp(part, MARK, strlen(MARK)));
}

int pieces_run(struct encoder *e, const struct normal *n, const char *text, size_t length,
               struct buf *out)
{
    const struct space_rules *rules = &n->spaces;
    const char *part, *space = rules->escape ? MARK : " ";
    size_t i = 0, k, part_length;
    while (rules->squeeze && i < length) {
        k = next_part(e, n, text + i, length - i, &part, &part_length);
        if (part_length != 1 || *part != ' ') break;
        i += k;
    }
    if (i == length) return 0;
    const bool dummy = has_dummy(e, n, text + i, length - i);
    if (dummy && !rules->suffix) buf_puts(out, space);
    bool after_space = rules->squeeze;
    for (; i < length; i += k) {
        k = next_part(e, n, text + i, length - i, &part, &part_length);
        for (; after_space && part_length && *part == ' '; part_length--) part++;
        if (part_length) after_space = rules->squeeze && part[part_length - 1] == ' ';
        put_part(rules, part, part_length, out);
        if (normal_limit(&e->search, out, e->err) < 0) return -1;
    }
    const size_t width = strlen(space);
    while (rules->squeeze && out->length >= width &&
           !memcmp(out->data + out->length - width, space, width))
        out->length -= width;
    if (dummy && rules->suffix) buf_puts(out, space);
    return 0;
}
