// core/template/jinja_string.c -- strings that record the origin of each byte: builders copy pieces
// with their spans.
#include <stdlib.h>
#include <string.h>

#include "core/template/jinja_parts.h"

// --- making ------------------------------------------------------------------------------------

static struct jinja_value string_new(struct jinja_arena *arena, struct jinja_string s)
{
    struct jinja_string *kept = jinja_take(arena, sizeof *kept);
    *kept = s;
    return (struct jinja_value){ .kind = JINJA_TEXT, .text = kept };
}

struct jinja_value jinja_text(struct jinja_arena *arena, const char *bytes, size_t length,
                              int32_t source)
{
    struct jinja_string s = { .bytes = jinja_keep(arena, bytes, length), .length = length };
    if (source != JINJA_TEMPLATE && length) {
        struct jinja_span *span = jinja_take(arena, sizeof *span);
        *span = (struct jinja_span){ 0, length, source, 0 };
        s.spans = span;
        s.span_count = 1;
    }
    return string_new(arena, s);
}

struct jinja_value jinja_words(struct jinja_arena *arena, const char *text)
{
    return jinja_text(arena, text, strlen(text), JINJA_TEMPLATE);
}

static bool make_room(struct builder *b, size_t length)
{
    if (!jinja_step(b->r, 1 + length / 64)) return false;
    if (b->output && length > JINJA_OUTPUT - b->length) {
        jinja_fail(b->r, "the rendered text exceeds %d MB", JINJA_OUTPUT >> 20);
        return false;
    }
    if (b->length + length <= b->capacity) return true;
    size_t capacity = b->capacity ? 2 * b->capacity : 64;
    if (capacity < b->length + length) capacity = b->length + length;
    if (!jinja_afford(b->r->arena, capacity + 1)) {
        jinja_step(b->r, 0); // fails the rendering
        return false;
    }
    char *bytes = jinja_take(b->r->arena, capacity + 1); // texts end with NUL
    if (b->length) memcpy(bytes, b->bytes, b->length);
    b->bytes = bytes;
    b->capacity = capacity;
    return true;
}

static void put_span(struct builder *b, struct jinja_span span)
{
    struct jinja_span *last = b->span_count ? &b->spans[b->span_count - 1] : NULL;
    if (last && last->end == span.start && last->source == span.source &&
        (span.from == SIZE_MAX
             ? last->from == SIZE_MAX
             : last->from != SIZE_MAX && last->from + (last->end - last->start) == span.from)) {
        last->end = span.end;
        return;
    }
    struct jinja_span *spans =
        jinja_grow(b->r->arena, b->spans, b->span_count, &b->span_capacity, sizeof span);
    if (!spans) return;
    b->spans = spans;
    b->spans[b->span_count++] = span;
}

static void put_raw(struct builder *b, const char *bytes, size_t length)
{
    memcpy(b->bytes + b->length, bytes, length);
    b->length += length;
}

void jinja_put_bytes(struct builder *b, const char *bytes, size_t length)
{
    if (length && make_room(b, length)) put_raw(b, bytes, length);
}

void jinja_put_words(struct builder *b, const char *text)
{
    jinja_put_bytes(b, text, strlen(text));
}

void jinja_put_spaces(struct builder *b, int64_t count)
{
    for (; count > 0 && !b->r->failed; count--) jinja_put_bytes(b, " ", 1);
}

size_t jinja_span_from(const struct jinja_span *spans, size_t count, size_t at)
{
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (spans[middle].end > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

void jinja_put_piece(struct builder *b, const struct jinja_string *s, size_t start, size_t end)
{
    if (start >= end || !make_room(b, end - start)) return;
    const size_t base = b->length;
    put_raw(b, s->bytes + start, end - start);
    for (size_t i = jinja_span_from(s->spans, s->span_count, start);
         i < s->span_count && s->spans[i].start < end; i++) {
        struct jinja_span span = s->spans[i];
        if (span.start < start) {
            if (span.from != SIZE_MAX) span.from += start - span.start;
            span.start = start;
        }
        if (span.end > end) span.end = end;
        span.start += base - start;
        span.end += base - start;
        put_span(b, span);
        if (!jinja_step(b->r, 1)) return;
    }
}

void jinja_put_all(struct builder *b, const struct jinja_string *s)
{
    jinja_put_piece(b, s, 0, s->length);
}

void jinja_put_derived(struct builder *b, const char *bytes, size_t length,
                       const struct jinja_string *s, size_t at)
{
    if (!length || !make_room(b, length)) return;
    const size_t base = b->length, i = jinja_span_from(s->spans, s->span_count, at);
    put_raw(b, bytes, length);
    if (i < s->span_count && s->spans[i].start <= at)
        put_span(b, (struct jinja_span){ base, base + length, s->spans[i].source, SIZE_MAX });
}

void jinja_put_character(struct builder *b, int32_t c, const struct jinja_string *s, size_t at)
{
    char bytes[4];
    jinja_put_derived(b, bytes, jinja_char_put(bytes, c), s, at);
}

struct jinja_value jinja_builder_value(struct builder *b)
{
    return string_new(b->r->arena, (struct jinja_string){ .bytes = b->bytes ? b->bytes : "",
                                                          .length = b->length,
                                                          .spans = b->spans,
                                                          .span_count = b->span_count });
}

struct jinja_value jinja_string_piece(struct jinja_run *r, const struct jinja_string *s,
                                      size_t start, size_t end)
{
    struct builder b = { .r = r };
    if (start == 0 && end == s->length) return jinja_value_string(s);
    jinja_put_piece(&b, s, start, end);
    return jinja_builder_value(&b);
}

const struct jinja_string *jinja_string_of(struct jinja_run *r, struct jinja_value v)
{
    struct builder b = { .r = r };
    if (jinja_is_text(v)) return v.text;
    jinja_put_show(&b, v);
    return jinja_builder_value(&b).text;
}

// --- looking -----------------------------------------------------------------------------------

bool jinja_strings_equal(const struct jinja_string *a, const struct jinja_string *b)
{
    return a->length == b->length && (!a->length || !memcmp(a->bytes, b->bytes, a->length));
}

const struct jinja_string *jinja_need_text(struct jinja_run *r, struct jinja_value v,
                                           const char *who)
{
    if (jinja_is_text(v)) return v.text;
    jinja_fail(r, "%s needs a str, not %s", who, jinja_value_kind_name(v));
    return NULL;
}

size_t jinja_string_find(struct jinja_run *r, const struct jinja_string *s,
                         const struct jinja_string *part, size_t from)
{
    // memmem first reads all of `part`.
    if (from > s->length || !jinja_step(r, 1 + part->length / 16)) return SIZE_MAX;
    if (!part->length) return from;
    // Adversarial texts cost memmem up to ten nanoseconds per byte.
    const char *at = memmem(s->bytes + from, s->length - from, part->bytes, part->length);
    const size_t found = at ? (size_t)(at - s->bytes) : SIZE_MAX;
    jinja_step(r, ((at ? found : s->length) - from) / 4);
    return found;
}

int64_t jinja_string_characters(struct jinja_run *r, const struct jinja_string *s)
{
    int64_t n = 0;
    // Also counts the callers' second walk over the characters, which finds an offset.
    if (!jinja_step(r, s->length / 8)) return 0;
    for (size_t i = 0; i < s->length; n++) i += jinja_char_length(s->bytes + i, s->length - i);
    return n;
}

size_t jinja_string_at(const struct jinja_string *s, int64_t n)
{
    size_t i = 0;
    while (n-- > 0 && i < s->length) i += jinja_char_length(s->bytes + i, s->length - i);
    return i;
}

// --- changing ----------------------------------------------------------------------------------

struct jinja_value jinja_string_replace(struct jinja_run *r, const struct jinja_string *s,
                                        const struct jinja_string *old,
                                        const struct jinja_string *new)
{
    struct builder b = { .r = r };
    size_t from = 0, at;
    if (!old->length) jinja_fail(r, "replacing an empty text is not supported");
    while ((at = jinja_string_find(r, s, old, from)) != SIZE_MAX) {
        jinja_put_piece(&b, s, from, at);
        jinja_put_all(&b, new);
        from = at + old->length;
    }
    if (!from) return jinja_value_string(s);
    jinja_put_piece(&b, s, from, s->length);
    return jinja_builder_value(&b);
}

static bool has_char(const struct jinja_string *chars, const char *c, size_t length)
{
    return memmem(chars->bytes, chars->length, c, length) != NULL;
}

static size_t strip_start(const struct jinja_string *s, size_t i, size_t end,
                          const struct jinja_string *chars)
{
    size_t n;
    if (!chars) return i < end ? jinja_space_start(s->bytes + i, end - i) : 0;
    if (i >= end) return 0;
    n = jinja_char_length(s->bytes + i, end - i);
    return has_char(chars, s->bytes + i, n) ? n : 0;
}

static size_t strip_end(const struct jinja_string *s, size_t start, size_t end,
                        const struct jinja_string *chars)
{
    size_t i = end;
    if (!chars) return jinja_space_end(s->bytes + start, end - start);
    if (end <= start) return 0;
    do i--;
    while (i > start && end - i < 4 && ((unsigned char)s->bytes[i] & 0xC0) == 0x80);
    return has_char(chars, s->bytes + i, end - i) ? end - i : 0;
}

struct jinja_value jinja_string_strip(struct jinja_run *r, const struct jinja_string *s,
                                      const struct jinja_string *chars, int sides)
{
    size_t start = 0, end = s->length, n;
    const size_t cost = 1 + (chars ? chars->length / 64 : 0);
    while (sides & 1 && (n = strip_start(s, start, end, chars)) && jinja_step(r, cost)) start += n;
    while (sides & 2 && (n = strip_end(s, start, end, chars)) && jinja_step(r, cost)) end -= n;
    return jinja_string_piece(r, s, start, end);
}

struct jinja_value jinja_markup(struct jinja_arena *arena, const struct jinja_string *s)
{
    struct jinja_string markup = *s;
    markup.safe = true;
    return string_new(arena, markup);
}

struct jinja_value jinja_string_escape(struct jinja_run *r, const struct jinja_string *s)
{
    static const char *const names[] = { "&amp;", "&lt;", "&gt;", "&#34;", "&#39;" };
    static const char signs[] = "&<>\"'";
    struct builder b = { .r = r };
    size_t from = 0;
    jinja_step(r, s->length / 16);
    for (size_t i = 0; !s->safe && i < s->length && !r->failed; i++) {
        const char *sign = memchr(signs, s->bytes[i], 5);
        if (!sign) continue;
        jinja_put_piece(&b, s, from, i);
        jinja_put_derived(&b, names[sign - signs], strlen(names[sign - signs]), s, i);
        from = i + 1;
    }
    jinja_put_piece(&b, s, from, s->length);
    return jinja_markup(r->arena, jinja_builder_value(&b).text);
}
