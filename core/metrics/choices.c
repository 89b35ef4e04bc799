// core/metrics/choices.c -- reads choices and the right one from the data; shared parts of rules
// that read a letter.
#include "core/metrics/choices.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "core/metrics/python.h"
#include "core/metrics/words.h"

enum { DEGREE = 0xB0, NO_BLANKS_FROM = 0x2E80, COMMA_OF_LISTS = 0x3001 };

int32_t *choices_code_points(const char *text)
{
    utf8proc_uint8_t *plain = NULL;
    // Full-width and circled letters become ASCII, as do full-width brackets and colons.
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

bool choices_extends_word(int32_t c)
{
    // Thai, Lao, Burmese and its neighbours, Khmer, and all scripts from CJK on use no spaces or,
    // like Korean, attach particles to a letter.
    const bool apart = c >= NO_BLANKS_FROM || (c >= 0x0E00 && c < 0x0F00) ||
                       (c >= 0x1000 && c < 0x10A0) || (c >= 0x1100 && c < 0x1200) ||
                       (c >= 0x1780 && c < 0x1800);
    return (python_is_word(c) && !apart) || c == '_' || c == DEGREE; // 20 °C
}

// True if "A.", "A)", "A:" or "(A)" is at p.
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
    int32_t *points = choices_code_points(question);
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
    int32_t *points = choices_code_points(text), letter = 0;
    int parts = 0;
    for (const int32_t *p = points + 1; *p; p++) {
        if (!python_is_word(*p)) continue;
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
    const char *words = words_normal(c->scratch, text);
    int right = -1;
    for (size_t i = 0; i < c->choice_count; i++)
        if (!strcmp(c->choices[i], text)) right = (int)i;
    for (size_t i = 0; i < c->choice_count && *words && right < 0; i++)
        if (!strcmp(words_normal(c->scratch, c->choices[i]), words)) right = (int)i;
    return right;
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
    if (!c->reference_count) return err_set(err, "the sample has no right choice");
    const char *text = c->references[0];
    int right = choice_of_text(c, text);
    if (right < 0) right = choices_letter(text, (int)c->choice_count);
    char *end;
    const long number = strtol(text, &end, 10);
    if (right < 0 && isdigit((unsigned char)*text) && !*end && (size_t)number < c->choice_count)
        right = (int)number;
    if (right < 0) return err_set(err, "the answer '%.100s' is not one of the choices", text);
    return right;
}

// --- rules that read a letter --------------------------------------------------------------------

int choices_whole_letter(const char *text)
{
    return text[0] >= 'A' && text[0] < 'A' + LETTERS && !text[1] ? text[0] - 'A' : NO_LETTER;
}

int choices_letter_ignoring_case(const char *text)
{
    return text[0] && !text[1]
               ? choices_whole_letter((const char[]){ (char)toupper((unsigned char)*text), 0 })
               : NO_LETTER;
}

char *choices_extract_dot(struct scratch *s, const char *raw)
{
    const char *p = python_skip_space(raw);
    if (*p >= 'A' && *p <= 'Z' && p[1] == '.') return scratch_dup(s, p, 1);
    return scratch_dup(s, raw, strlen(raw));
}

bool choices_has(const struct metric_case *c, int letter)
{
    if (!c->choice_count) return letter < 4;
    return (size_t)letter < c->choice_count && *c->choices[letter];
}

int choices_only_text(const struct metric_case *c, const char *lower, int most)
{
    int found = NO_LETTER, n = 0;
    for (int i = 0; i < most && (size_t)i < c->choice_count; i++)
        if (choices_has(c, i) && strstr(lower, python_lower(c->scratch, c->choices[i])) && n++ == 0)
            found = i;
    return n == 1 ? found : NO_LETTER;
}

struct metric_outcome choices_outcome(const struct metric_case *c, int letter, int right)
{
    const bool none = letter == NO_LETTER;
    return (struct metric_outcome){
        .score = letter == right,
        .class = none,
        .found = none ? NULL : scratch_printf(c->scratch, "%c", 'A' + letter),
    };
}

int choices_score_letter(const struct metric_case *c, int letter, struct metric_outcome *o,
                         struct err *err)
{
    const char *text = c->reference_count ? c->references[0] : "";
    const bool listed = c->choice_count && (c->right >= 0 || c->reference_count);
    int right = listed ? choices_right(c, err) : choices_letter(text, LETTERS);
    // If the choice has no text (a table's "None" is read as missing), the reference letter itself
    // is right.
    if (right < 0) right = choices_whole_letter(text);
    if (right < 0 && listed) return -1;
    if (!c->reference_count && right < 0) return err_set(err, "the sample has no reference answer");
    if (right < 0) return err_set(err, "the answer '%.100s' is not a letter", text);
    *o = choices_outcome(c, letter, right);
    return 0;
}

int choices_score(const struct metric *m, const struct metric_case *c, struct metric_outcome *o,
                  struct err *err)
{
    return choices_score_letter(c, m->letter(c), o, err);
}

int choices_summary(const struct metric_tally *t, struct metric_number *to)
{
    to[0] = (struct metric_number){ "no letter", (double)t->classes[1] };
    return 1;
}
