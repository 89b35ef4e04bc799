// core/metrics/choices.c -- what the data say about choices.
#include "core/metrics/choices.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/metrics/words.h"

// "A." "A)" "A:" "(A)" at p, followed by a blank or a text.
static bool is_label(const char *p, char letter)
{
    const bool bracket = *p == '(';
    p += bracket;
    return *p == letter && (bracket ? p[1] == ')' : p[1] && strchr(".):", p[1]));
}

int choices_listed(const char *question)
{
    int n = 0;
    for (const char *line = question; line && n < LETTERS;) {
        line += strspn(line, " \t\r");
        n += is_label(line, (char)('A' + n));
        line = strchr(line, '\n');
        if (line) line++;
    }
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
    while (*text && !isalnum((unsigned char)*text) && (unsigned char)*text < 0x80) text++;
    const int n = toupper((unsigned char)*text) - 'A';
    if (n < 0 || n >= LETTERS || n >= count) return -1;
    for (text++; *text; text++)
        if (isalnum((unsigned char)*text) || (unsigned char)*text >= 0x80) return -1;
    return n;
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
