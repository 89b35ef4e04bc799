// core/metrics/choices.c -- what the data say about choices.
#include "core/metrics/choices.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "core/base/mem.h"
#include "core/metrics/python.h"
#include "core/metrics/words.h"

enum { DEGREE = 0xB0, NO_BLANKS_FROM = 0x2E80, COMMA_OF_LISTS = 0x3001 };

int32_t *choices_points(const char *text)
{
    utf8proc_uint8_t *plain = NULL;
    // Full-width and circled letters become ASCII, as do brackets and colons.
    if (utf8proc_map((const utf8proc_uint8_t *)text, 0, &plain,
                     UTF8PROC_NULLTERM | UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT |
                         UTF8PROC_IGNORE) < 0)
        plain = NULL;
    const char *from = plain ? (const char *)plain : text;
    int32_t *points = xcalloc(strlen(from) + 2, sizeof *points), n = 1;
    for (size_t length; *from; from += length) points[n++] = python_char(from, &length);
    free(plain);
    return points;
}

// A letter, mark or digit; a byte that is no UTF-8 counts as one.
static bool is_word(int32_t c)
{
    const utf8proc_category_t k = c > 0 ? utf8proc_category(c) : UTF8PROC_CATEGORY_CN;
    return c < 0 || (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_NO);
}

// Thai and Lao, Burmese and its neighbours, Khmer, and all from CJK on are written without blanks,
// or, as Korean, put particles behind a letter.
static bool is_apart(int32_t c)
{
    return c >= NO_BLANKS_FROM || (c >= 0x0E00 && c < 0x0F00) || (c >= 0x1000 && c < 0x10A0) ||
           (c >= 0x1100 && c < 0x1200) || (c >= 0x1780 && c < 0x1800);
}

bool choices_joins(int32_t c)
{
    return (is_word(c) && !is_apart(c)) || c == '_' || c == DEGREE; // 20 °C
}

// "A." "A)" "A:" "(A)" at p, followed by a text.
static bool is_label(const int32_t *p, int32_t letter)
{
    const bool bracket = *p == '(';
    p += bracket;
    if (*p != letter) return false;
    return bracket ? p[1] == ')'
                   : p[1] == '.' || p[1] == ')' || p[1] == ':' || p[1] == COMMA_OF_LISTS;
}

int choices_listed(const char *question)
{
    int32_t *points = choices_points(question);
    int n = 0;
    bool begins = true;
    for (const int32_t *p = points + 1; *p && n < LETTERS; p++) {
        if (begins && (*p == ' ' || *p == '\t' || *p == '\r')) continue;
        n += begins && is_label(p, 'A' + n);
        begins = *p == '\n';
    }
    free(points);
    return n > 1 ? n : 0;
}

bool choices_are_letters(const struct metric_case *c)
{
    for (size_t i = 0; i < c->choice_count; i++)
        if (c->choices[i][0] < 'A' || c->choices[i][0] > 'Z' || c->choices[i][1]) return false;
    return c->choice_count > 0;
}

int choices_letter(const char *text, int count)
{
    int32_t *points = choices_points(text), letter = 0;
    int parts = 0;
    for (const int32_t *p = points + 1; *p; p++) {
        if (!is_word(*p)) continue;
        letter = *p;
        parts++;
    }
    free(points);
    if (letter >= 'a' && letter <= 'z') letter += 'A' - 'a';
    const int n = letter - 'A';
    return parts == 1 && n >= 0 && n < LETTERS && n < count ? n : -1;
}

static int choice_of_text(const struct metric_case *c, const char *text)
{
    char *wanted = words_normal(text);
    int right = -1;
    for (size_t i = 0; i < c->choice_count; i++)
        if (!strcmp(c->choices[i], text)) right = (int)i;
    for (size_t i = 0; i < c->choice_count && *wanted && right < 0; i++) {
        char *words = words_normal(c->choices[i]);
        if (!strcmp(words, wanted)) right = (int)i;
        free(words);
    }
    free(wanted);
    return right;
}

static int choice_of_number(const char *text, size_t count)
{
    char *end;
    const long n = strtol(text, &end, 10);
    return isdigit((unsigned char)*text) && !*end && (size_t)n < count ? (int)n : -1;
}

bool choices_by_label(const struct metric_case *c)
{
    return c->right >= 0 || (c->reference_count && choice_of_text(c, c->references[0]) < 0);
}

int choices_right(const struct metric_case *c, struct err *err)
{
    if (c->right >= 0) {
        if ((size_t)c->right < c->choice_count) return c->right;
        return err_set(err, "the answer is choice %d (from 0), but there are only %zu", c->right,
                       c->choice_count);
    }
    if (!c->reference_count) return err_set(err, "the sample does not say which choice is right");
    const char *text = c->references[0];
    int right = choice_of_text(c, text);
    if (right < 0) right = choices_letter(text, (int)c->choice_count);
    if (right < 0) right = choice_of_number(text, c->choice_count);
    if (right < 0) return err_set(err, "the answer '%.100s' is not one of the choices", text);
    return right;
}
