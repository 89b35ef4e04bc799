// core/metrics/letter.c -- which letter of several choices does the answer name?
//
// As VLMEvalKit does, the letter is looked for first and the text of a choice after it. The article
// "A" and the word "I" of a sentence are no letters.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/mem.h"
#include "core/metrics/choices.h"
#include "core/metrics/words.h"

// Part of a word for the purpose of a letter that stands alone: "I'm", "A-frame", "Äpfel".
static bool joins(unsigned char c)
{
    return isalnum(c) || c >= 0x80 || c == '\'' || c == '_';
}

static bool stands_alone(const char *text, const char *p)
{
    if (p > text && (joins((unsigned char)p[-1]) || p[-1] == '-')) return false;
    if (joins((unsigned char)p[1])) return false;
    if (p[1] == '-' && joins((unsigned char)p[2])) return false;
    const bool word = *p == 'A' || *p == 'I';
    return !word || p[1] != ' ' || !islower((unsigned char)p[2]);
}

// First letter that stands alone from p on; -1.
static int find_letter(const char *text, const char *p, int count)
{
    for (; *p; p++)
        if (*p >= 'A' && *p < 'A' + count && stands_alone(text, p)) return *p - 'A';
    return -1;
}

// Behind "answer", "answer is", "answer:" ... a letter, in a bracket or not.
static int find_named(const char *text, int count)
{
    for (const char *p = text; (p = strcasestr(p, "answer"));) {
        p += strlen("answer");
        const char *q = p + strspn(p, " :*(\"");
        if (!strncasecmp(q, "is", 2) && !isalnum((unsigned char)q[2]))
            q += 2 + strspn(q + 2, " :*(\"");
        if (*q >= 'A' && *q < 'A' + count && stands_alone(text, q)) return *q - 'A';
    }
    return -1;
}

// The only choice whose text stands in the answer; -1 when several do, or none.
static int find_text(const struct metric_case *c, const char *text)
{
    char *answer = words_normal(text);
    int found = -1, n = 0;
    for (size_t i = 0; i < c->choice_count; i++) {
        char *words = words_normal(c->choices[i]);
        if (words_contain(answer, words) && n++ == 0) found = (int)i;
        free(words);
    }
    free(answer);
    return n == 1 ? found : -1;
}

static int letter_count(const struct metric_case *c)
{
    const int listed = c->question ? choices_listed(c->question) : 0;
    if (c->choice_count) return c->choice_count < LETTERS ? (int)c->choice_count : LETTERS;
    return listed ? listed : LETTERS;
}

static int read_letter(const struct metric_case *c, int count)
{
    int n = choices_letter(c->answer, count);
    if (n < 0) n = find_named(c->answer, count);
    if (n < 0) n = find_letter(c->answer, c->answer, count);
    if (n < 0 && !choices_are_letters(c)) n = find_text(c, c->answer);
    return n;
}

static int right_letter(const struct metric_case *c, int count, struct err *err)
{
    if (c->choice_count) return choices_right(c, err);
    if (c->right >= 0 && c->right < count) return c->right;
    if (!c->reference_count) return err_set(err, "the sample has no reference answer");
    const int right = choices_letter(c->references[0], count);
    if (right >= 0) return right;
    return err_set(err, "the answer '%.100s' is not a letter, and the sample has no \"choices\"",
                   c->references[0]);
}

static int score(const struct metric_case *c, struct metric_outcome *o, struct err *err)
{
    const int count = letter_count(c), right = right_letter(c, count, err);
    if (right < 0) return -1;
    const int said = read_letter(c, count);
    *o = (struct metric_outcome){ .score = said == right, .class = said < 0 };
    if (said >= 0) o->found = xasprintf("%c", 'A' + said);
    return 0;
}

static int summary(const struct metric_tally *t, struct metric_number *to)
{
    to[0] = (struct metric_number){ "no letter", (double)t->classes[1] };
    return 1;
}

const struct metric metric_letter = {
    .name = "letter",
    .help = "Share of right letters in multiple-choice questions.",
    .rule = "the answer's letter: the whole answer; else the one after \"answer\"; else the first "
            "capital among the choices that stands alone (B, B., (B); not the words A and I); else "
            "the only choice whose text is in the answer; otherwise wrong",
    .way = METRIC_ANSWERS,
    .share = true,
    .score = score,
    .summary = summary,
};
