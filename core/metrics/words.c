// core/metrics/words.c -- splits texts into words.
#include "core/metrics/words.h"

#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "core/metrics/python.h"

enum { NO_BLANKS_FROM = 0x2E80 }; // the first code point of CJK; later scripts use no spaces either

static char *fold(struct scratch *s, const char *text)
{
    utf8proc_uint8_t *folded = NULL;
    if (utf8proc_map((const utf8proc_uint8_t *)text, 0, &folded,
                     UTF8PROC_NULLTERM | UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_CASEFOLD) >=
        0)
        return scratch_keep(s, folded);
    free(folded);
    char *plain = scratch_dup(s, text, strlen(text));
    for (char *p = plain; *p; p++)
        if (*p >= 'A' && *p <= 'Z') *p = (char)(*p - 'A' + 'a');
    return plain;
}

static bool in_word(int32_t c)
{
    return python_is_word(c) || c == '%' || utf8proc_category(c) == UTF8PROC_CATEGORY_SC;
}

char *words_split(struct scratch *s, const char *text)
{
    struct buf b = { 0 };
    bool blank = true; // the next character begins a word
    size_t length;
    for (const char *p = fold(s, text); *p; p += length) {
        const int32_t c = python_char(p, &length);
        const char before = b.length && !blank ? b.data[b.length - 1] : 0, after = p[length];
        const bool digit_follows = after >= '0' && after <= '9';
        const bool in_number = before >= '0' && before <= '9' && digit_follows;
        const bool minus = c == '-' || c == 0x2212, apostrophe = c == '\'' || c == 0x2019;
        if (in_word(c) || (c == '.' && in_number) || (minus && blank && digit_follows)) {
            if (blank && b.length) buf_putc(&b, ' ');
            if (minus)
                buf_putc(&b, '-');
            else
                buf_add(&b, p, length);
            blank = false;
        } else if (!apostrophe && !(c == ',' && in_number)) {
            blank = true;
        }
    }
    return scratch_take(s, &b);
}

int words_number(const char *word)
{
    static const char *const numbers[] = { "zero", "one",   "two",   "three", "four", "five",
                                           "six",  "seven", "eight", "nine",  "ten" };
    for (int i = 0; i <= 10; i++)
        if (!strcmp(word, numbers[i])) return i;
    return -1;
}

bool words_is_article(const char *word)
{
    return !strcmp(word, "a") || !strcmp(word, "an") || !strcmp(word, "the");
}

char *words_normal(struct scratch *s, const char *text)
{
    char *words = words_split(s, text), *rest = scratch_dup(s, words, strlen(words));
    struct buf b = { 0 };
    for (char *word; (word = strsep(&rest, " "));) {
        const int number = words_number(word);
        if (words_is_article(word)) continue;
        if (b.length) buf_putc(&b, ' ');
        if (number >= 0)
            buf_printf(&b, "%d", number);
        else
            buf_puts(&b, word);
    }
    char *normal = scratch_take(s, &b);
    return *normal ? normal : words;
}

bool words_contain(const char *text, const char *part)
{
    const size_t n = strlen(part);
    size_t length;
    if (!n) return false;
    const bool open_left = python_char(part, &length) >= NO_BLANKS_FROM;
    const bool open_right = python_char(python_before(part, part + n), &length) >= NO_BLANKS_FROM;
    for (const char *p = text; (p = strstr(p, part)); p++) {
        const bool left = open_left || p == text || p[-1] == ' ';
        const bool right = open_right || !p[n] || p[n] == ' ';
        if (left && right) return true;
    }
    return false;
}
