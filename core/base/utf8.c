// core/base/utf8.c -- decoding, writing and repairing UTF-8.
#include "core/base/utf8.h"

#include <string.h>

#include "core/base/text.h"

// Well-formed sequences as in table 3-7 of the Unicode standard: the second byte's range depends on
// the first (no overlong forms, no surrogates, nothing above U+10FFFF).
size_t utf8_next(const char *text, size_t left, int32_t *c)
{
    const uint8_t *p = (const uint8_t *)text;
    *c = p[0];
    if (p[0] < 0x80) return 1;
    size_t n = p[0] >= 0xF0 ? 4 : p[0] >= 0xE0 ? 3 : 2;
    uint8_t low = p[0] == 0xE0 ? 0xA0 : p[0] == 0xF0 ? 0x90 : 0x80;
    uint8_t high = p[0] == 0xED ? 0x9F : p[0] == 0xF4 ? 0x8F : 0xBF;
    *c = -1;
    if (p[0] < 0xC2 || p[0] > 0xF4 || left < 2 || p[1] < low || p[1] > high) return 1;
    int32_t value = (p[0] & (0x7F >> n)) << 6 | (p[1] & 0x3F);
    for (size_t i = 2; i < n; i++) {
        if (i >= left || (p[i] & 0xC0) != 0x80) return i;
        value = value << 6 | (p[i] & 0x3F);
    }
    *c = value;
    return n;
}

size_t utf8_before(const char *text, size_t end, int32_t *c)
{
    size_t start = end - 1;
    while (start > 0 && end - start < 4 && ((uint8_t)text[start] & 0xC0) == 0x80) start--;
    return utf8_next(text + start, end - start, c);
}

void utf8_put(struct buf *b, int32_t c)
{
    char s[4];
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6) s[i] = (char)(0x80 | (c & 0x3F));
    s[0] = (char)(n == 1 ? c : (0xF00 >> n & 0xFF) | c);
    buf_add(b, s, n);
}

bool utf8_valid(const char *text, size_t length)
{
    return text_bad_byte(text, length) == length;
}

void utf8_repair(struct buf *b, const char *text, size_t length)
{
    size_t from = 0;
    for (size_t i = 0, n; i < length; i += n) {
        int32_t c;
        n = utf8_next(text + i, length - i, &c);
        if (c >= 0) continue;
        buf_add(b, text + from, i - from);
        buf_puts(b, "\xEF\xBF\xBD");
        from = i + n;
    }
    buf_add(b, text + from, length - from);
}

size_t utf8_settled(const char *text, size_t length)
{
    for (size_t back = 1; back <= 3 && back <= length; back++) {
        const uint8_t *p = (const uint8_t *)text + length - back;
        if ((*p & 0xC0) == 0x80) continue;
        size_t need = *p >= 0xF0 ? 4 : *p >= 0xE0 ? 3 : *p >= 0xC0 ? 2 : 1;
        int32_t c;
        bool unfinished = need > back && utf8_next((const char *)p, back, &c) == back && c < 0;
        // A byte that begins no character is invalid by itself.
        return unfinished && *p >= 0xC2 && *p <= 0xF4 ? length - back : length;
    }
    return length;
}

int utf8_head(const char *text, int most)
{
    const size_t length = strnlen(text, (size_t)most);
    return (int)(text[length] ? utf8_settled(text, length) : length);
}

bool is_white(int32_t c)
{
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
           c == 0x205F || c == 0x3000;
}

bool python_is_space(int32_t c)
{
    return is_white(c) || (c >= 0x1C && c <= 0x1F);
}
