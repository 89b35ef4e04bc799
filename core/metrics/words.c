// core/metrics/words.c -- text to words.
#include "core/metrics/words.h"

#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "core/base/mem.h"

enum { NO_BLANKS_FROM = 0x2E80 }; // CJK and what follows it

static char *fold(const char *text)
{
    utf8proc_uint8_t *folded = NULL;
    if (utf8proc_map((const utf8proc_uint8_t *)text, 0, &folded,
                     UTF8PROC_NULLTERM | UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_CASEFOLD) >=
        0)
        return (char *)folded; // malloc'ed
    free(folded);
    char *plain = xstrdup(text);
    for (char *p = plain; *p; p++)
        if (*p >= 'A' && *p <= 'Z') *p = (char)(*p - 'A' + 'a');
    return plain;
}

static bool is_digit(int32_t c)
{
    return c >= '0' && c <= '9';
}

// One character and its length; a byte that is no UTF-8 is a letter of its own.
static int32_t next(const char *p, size_t *length)
{
    utf8proc_int32_t c = 0;
    const utf8proc_ssize_t n =
        utf8proc_iterate((const utf8proc_uint8_t *)p, (utf8proc_ssize_t)strnlen(p, 4), &c);
    *length = n > 0 ? (size_t)n : 1;
    return n > 0 ? c : -1;
}

static bool in_word(int32_t c)
{
    if (c < 0 || c == '%') return true;
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
    case UTF8PROC_CATEGORY_SC: return true;
    default: return false;
    }
}

static bool is_apostrophe(int32_t c)
{
    return c == '\'' || c == 0x2019;
}

static bool is_minus(int32_t c)
{
    return c == '-' || c == 0x2212;
}

char *words_split(const char *text)
{
    struct buf b = { 0 };
    char *folded = fold(text);
    bool blank = true; // a word begins with what comes
    size_t length;
    for (const char *p = folded; *p; p += length) {
        const int32_t c = next(p, &length);
        const char before = b.length && !blank ? b.data[b.length - 1] : 0, after = p[length];
        const bool in_number = is_digit(before) && is_digit(after);
        if (in_word(c) || (c == '.' && in_number) || (is_minus(c) && blank && is_digit(after))) {
            if (blank && b.length) buf_putc(&b, ' ');
            if (is_minus(c))
                buf_putc(&b, '-');
            else
                buf_add(&b, p, length);
            blank = false;
        } else if (!is_apostrophe(c) && !(c == ',' && in_number)) {
            blank = true;
        }
    }
    free(folded);
    return buf_take(&b);
}

static const char *normal_word(const char *word)
{
    static const char *const numbers[] = { "zero", "one",   "two",   "three", "four", "five",
                                           "six",  "seven", "eight", "nine",  "ten" };
    static const char *const digits[] = { "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10" };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!strcmp(word, numbers[i])) return digits[i];
    return word;
}

char *words_normal(const char *text)
{
    char *words = words_split(text), *rest = words;
    struct buf b = { 0 };
    for (char *word; (word = strsep(&rest, " "));) {
        if (!strcmp(word, "a") || !strcmp(word, "an") || !strcmp(word, "the")) continue;
        if (b.length) buf_putc(&b, ' ');
        buf_puts(&b, normal_word(word));
    }
    free(words);
    if (b.length) return buf_take(&b);
    buf_release(&b);
    return words_split(text);
}

// The last character that ends before p.
static int32_t last_character(const char *text, const char *p)
{
    size_t length;
    do p--;
    while (p > text && ((unsigned char)*p & 0xC0) == 0x80);
    return next(p, &length);
}

bool words_contain(const char *text, const char *part)
{
    const size_t n = strlen(part);
    size_t length;
    if (!n) return false;
    const bool open_left = next(part, &length) >= NO_BLANKS_FROM;
    const bool open_right = last_character(part, part + n) >= NO_BLANKS_FROM;
    for (const char *p = text; (p = strstr(p, part)); p++) {
        const bool left = open_left || p == text || p[-1] == ' ';
        const bool right = open_right || !p[n] || p[n] == ' ';
        if (left && right) return true;
    }
    return false;
}
