// core/metrics/python.c -- string functions that behave like those of Python's str.
#include "core/metrics/python.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <utf8proc.h>

enum { CAPITAL_I_WITH_DOT = 0x130, DOT_ABOVE = 0x307, CAPITAL_SIGMA = 0x3A3, FINAL_SIGMA = 0x3C2 };

int32_t python_char(const char *p, size_t *length)
{
    utf8proc_int32_t c = 0;
    const utf8proc_ssize_t n =
        utf8proc_iterate((const utf8proc_uint8_t *)p, (utf8proc_ssize_t)strnlen(p, 4), &c);
    *length = n > 0 ? (size_t)n : 1;
    return n > 0 ? c : -1;
}

const char *python_skip_space(const char *p)
{
    size_t length;
    while (*p && python_is_space(python_char(p, &length))) p += length;
    return p;
}

const char *python_before(const char *text, const char *p)
{
    do p--;
    while (p > text && ((unsigned char)*p & 0xC0) == 0x80);
    return p;
}

bool python_is_digit(int32_t c)
{
    return c >= 0 && utf8proc_category(c) == UTF8PROC_CATEGORY_ND;
}

// Returns the value of a digit in any script: Unicode numbers the ten digits of a script
// consecutively, from 0.
static int python_digit(int32_t c)
{
    int before = 0;
    while (python_is_digit(c - 1 - before)) before++;
    return before % 10;
}

// utf8proc numbers the categories of letters, marks and digits consecutively.
static bool in_categories(int32_t c, utf8proc_category_t last)
{
    const utf8proc_category_t k = c > 0 ? utf8proc_category(c) : UTF8PROC_CATEGORY_CN;
    return k >= UTF8PROC_CATEGORY_LU && k <= last;
}

bool python_is_alpha(int32_t c)
{
    return in_categories(c, UTF8PROC_CATEGORY_LO);
}

bool python_is_word(int32_t c)
{
    return c < 0 || in_categories(c, UTF8PROC_CATEGORY_NO);
}

void python_put_char(struct buf *b, int32_t c)
{
    utf8proc_uint8_t bytes[4];
    buf_add(b, bytes, (size_t)utf8proc_encode_char(c, bytes));
}

static bool is_cased(int32_t c)
{
    return c > 0 && (utf8proc_category(c) == UTF8PROC_CATEGORY_LT || utf8proc_islower(c) ||
                     utf8proc_isupper(c));
}

// Marks, and signs inside words (Unicode's Case_Ignorable), do not separate a sigma from a letter.
static bool is_case_ignorable(int32_t c)
{
    static const int32_t signs[] = { '\'',   '.',    ':',    0xB7,   0x387,  0x55F,
                                     0x5F4,  0x2018, 0x2019, 0x2024, 0x2027, 0xFE13,
                                     0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A };
    const utf8proc_category_t k = c > 0 ? utf8proc_category(c) : UTF8PROC_CATEGORY_CN;
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (c == signs[i]) return true;
    return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_ME || k == UTF8PROC_CATEGORY_CF ||
           k == UTF8PROC_CATEGORY_LM || k == UTF8PROC_CATEGORY_SK;
}

// True if the sigma at p ends a word: a letter with case precedes it and none follows.
static bool ends_word(const char *text, const char *p)
{
    size_t length;
    const char *before = p, *after = p;
    int32_t c = 0;
    do {
        if (before == text) return false;
        before = python_before(text, before);
        c = python_char(before, &length);
    } while (is_case_ignorable(c));
    if (!is_cased(c)) return false;
    python_char(after, &length);
    do {
        after += length;
        c = *after ? python_char(after, &length) : 0;
    } while (is_case_ignorable(c));
    return !is_cased(c);
}

char *python_lower(struct scratch *s, const char *text)
{
    struct buf b = { 0 };
    size_t length;
    for (const char *p = text; *p; p += length) {
        const int32_t c = python_char(p, &length);
        if (c < 0) {
            buf_add(&b, p, length);
        } else if (c == CAPITAL_I_WITH_DOT) { // the only character that becomes two
            buf_putc(&b, 'i');
            python_put_char(&b, DOT_ABOVE);
        } else if (c == CAPITAL_SIGMA && ends_word(text, p)) {
            python_put_char(&b, FINAL_SIGMA);
        } else {
            python_put_char(&b, utf8proc_tolower(c));
        }
    }
    return scratch_take(s, &b);
}

char *python_upper(struct scratch *s, const char *text)
{
    struct buf b = { 0 };
    size_t length;
    for (const char *p = text; *p; p += length) {
        const int32_t c = python_char(p, &length);
        if (c < 0)
            buf_add(&b, p, length);
        else
            python_put_char(&b, utf8proc_toupper(c));
    }
    return scratch_take(s, &b);
}

char *python_capitalize(struct scratch *s, const char *text)
{
    struct buf b = { 0 };
    size_t length;
    const char *lower = python_lower(s, text);
    const int32_t first = python_char(lower, &length);
    if (*lower && first >= 0) {
        python_put_char(&b, utf8proc_totitle(first));
        lower += length;
    }
    buf_puts(&b, lower);
    return scratch_take(s, &b);
}

char *python_strip(struct scratch *s, const char *text, const char *letters)
{
    const char *begin = text + strlen(text), *end = begin;
    size_t length;
    for (const char *p = text; *p; p += length) {
        const int32_t c = python_char(p, &length);
        if (letters ? c > 0 && c < 0x80 && strchr(letters, (char)c) : python_is_space(c)) continue;
        if (p < begin) begin = p;
        end = p + length;
    }
    return scratch_dup(s, begin, (size_t)(end - begin));
}

char *python_strip_each(struct scratch *s, const char *text, const char *letters)
{
    char *result = scratch_dup(s, text, strlen(text));
    for (; *letters; letters++) result = python_strip(s, result, (const char[]){ *letters, 0 });
    return result;
}

char *python_replace(struct scratch *s, const char *text, const char *from, const char *to)
{
    struct buf b = { 0 };
    for (const char *p; (p = strstr(text, from)); text = p + strlen(from)) {
        buf_add(&b, text, (size_t)(p - text));
        buf_puts(&b, to);
    }
    buf_puts(&b, text);
    return scratch_take(s, &b);
}

char *python_drop_punctuation(struct scratch *s, const char *text)
{
    struct buf b = { 0 };
    for (; *text; text++)
        if (!strchr("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", *text)) buf_putc(&b, *text);
    return scratch_take(s, &b);
}

char *python_head(struct scratch *s, const char *text, size_t count)
{
    const char *p = text;
    size_t length;
    for (; *p && count; count--, p += length) python_char(p, &length);
    return scratch_dup(s, text, (size_t)(p - text));
}

char *python_words(struct scratch *s, const char *text)
{
    struct buf b = { 0 };
    bool blank = false;
    size_t length;
    for (const char *p = text; *p; p += length) {
        const int32_t c = python_char(p, &length);
        if (python_is_space(c)) {
            blank = true;
            continue;
        }
        if (blank && b.length) buf_putc(&b, ' ');
        blank = false;
        buf_add(&b, p, length);
    }
    return scratch_take(s, &b);
}

bool python_is_missing(const char *text)
{
    static const char *const words[] = { "",         "#N/A", "#N/A N/A", "#NA",    "-1.#IND",
                                         "-1.#QNAN", "-NaN", "-nan",     "1.#IND", "1.#QNAN",
                                         "<NA>",     "N/A",  "NA",       "NULL",   "NaN",
                                         "None",     "n/a",  "nan",      "null" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(text, words[i])) return true;
    return false;
}

size_t python_length(const char *text)
{
    size_t n = 0, length;
    for (; *text; text += length, n++) python_char(text, &length);
    return n;
}

size_t python_upper_length(const char *text)
{
    size_t n = 0, length;
    for (; *text; text += length) {
        utf8proc_int32_t folded[8];
        int last = 0;
        const int32_t c = python_char(text, &length);
        // Case folding and upper() expand the same characters (ß, ligatures); capitals stay.
        const bool lower = c > 0 && utf8proc_category(c) != UTF8PROC_CATEGORY_LU;
        const utf8proc_ssize_t k =
            lower ? utf8proc_decompose_char(c, folded, 8, UTF8PROC_CASEFOLD, &last) : 1;
        n += k > 0 ? (size_t)k : 1;
    }
    return n;
}

// Replaces digits of all scripts with ASCII digits, and drops underscores between digits.
static char *plain_digits(struct scratch *s, const char *text)
{
    struct buf b = { 0 };
    size_t length;
    for (const char *p = text; *p; p += length) {
        const int32_t c = python_char(p, &length);
        const bool inside = b.length && isdigit((unsigned char)b.data[b.length - 1]);
        size_t after;
        if (python_is_digit(c))
            buf_putc(&b, (char)('0' + python_digit(c)));
        else if (*p != '_' || !inside || !python_is_digit(python_char(p + 1, &after)))
            buf_add(&b, p, length);
    }
    return scratch_take(s, &b);
}

bool python_float(struct scratch *s, const char *text, double *number)
{
    char *bare = python_strip(s, plain_digits(s, text), NULL), *end;
    const char *digits = bare + strspn(bare, "+-");
    const bool named =
        !strcasecmp(digits, "nan") || !strcasecmp(digits, "inf") || !strcasecmp(digits, "infinity");
    const bool plain = *digits && strspn(digits, "0123456789.eE+-") == strlen(digits);
    *number = strtod(bare, &end);
    return *bare && !*end && (named || plain);
}

size_t python_find_last(const char *text, const char *part)
{
    size_t found = SIZE_MAX;
    if (!*part) return strlen(text);
    for (const char *p = text; (p = strstr(p, part)); p++) found = (size_t)(p - text);
    return found;
}

bool python_has_word(const char *words, const char *word)
{
    const size_t n = strlen(word);
    for (const char *p = words; n && (p = strstr(p, word)); p++)
        if ((p == words || p[-1] == ' ') && (!p[n] || p[n] == ' ')) return true;
    return false;
}

size_t python_count_words(const char *words)
{
    size_t n = *words != 0;
    for (; *words; words++) n += *words == ' ';
    return n;
}
