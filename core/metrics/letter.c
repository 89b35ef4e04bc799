// core/metrics/letter.c -- reads the letter of the choice that an answer names.
//
// Like VLMEvalKit, looks for a letter first, then for the text of a choice. The article "A" and the
// pronoun "I" are not letters.
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "core/metrics/choices.h"
#include "core/metrics/python.h"
#include "core/metrics/words.h"

enum { APOSTROPHE = 0x2019 };

static bool is_apostrophe(int32_t c)
{
    return c == '\'' || c == APOSTROPHE;
}

// True if the letter at p is a word of its own, but not the article "A" or the word "I". In "I'm",
// "A-frame" and "l'A" the letter is not a word of its own; in quotes ('A') it is.
static bool is_own_word(const int32_t *p)
{
    const bool tied = is_apostrophe(p[-1]) && choices_extends_word(p[-2]);
    if (choices_extends_word(p[-1]) || p[-1] == '-' || tied) return false;
    if (choices_extends_word(p[1])) return false;
    if ((p[1] == '-' || is_apostrophe(p[1])) && choices_extends_word(p[2])) return false;
    const bool word = *p == 'A' || *p == 'I' || *p == 'a' || *p == 'i';
    return !word || p[1] != ' ' || p[2] <= 0 || utf8proc_category(p[2]) != UTF8PROC_CATEGORY_LL;
}

// Returns the position after `word` (in lower case) at p, ignoring the case of Latin letters; NULL
// if the text differs.
static const int32_t *skip_word(const int32_t *p, const char *word)
{
    size_t length;
    for (; *word; word += length, p++) {
        const int32_t c = *p >= 'A' && *p <= 'Z' ? *p - 'A' + 'a' : *p;
        if (c != python_char(word, &length)) return NULL;
    }
    return p;
}

static const int32_t *skip_marks(const int32_t *p)
{
    while (*p > 0 && *p < 0x80 ? strchr(" :*(\"'`", (char)*p) != NULL
                               : *p == 0x201C || *p == 0x2018 || *p == 0xAB || *p == 0x300C)
        p++;
    return p;
}

// Words that announce the letter, and words that may follow them.
static const char *const announce[] = {
    "answer",
    "\xE7\xAD\x94\xE6\xA1\x88", // answer, in Chinese
    "\xE6\xAD\xA3\xE8\xA7\xA3", // the right answer, in Japanese
    "\xE7\xAD\x94\xE3\x81\x88", // answer
    "\xEC\xA0\x95\xEB\x8B\xB5", // the right answer, in Korean
};
static const char *const link_words[] = {
    "is",
    "\xE6\x98\xAF", // is, in Chinese
    "\xE4\xB8\xBA", // is
    "\xE7\x82\xBA", // the same, in traditional characters
    "\xE3\x81\xAF", // is, in Japanese
    "\xEC\x9D\x80", // is, in Korean
};
enum {
    ANNOUNCE = sizeof announce / sizeof *announce,
    LINKS = sizeof link_words / sizeof *link_words
};

// Finds the letter, upper or lower case, after "answer", "answer is", "answer:" ..., with or
// without brackets.
static int find_named(const int32_t *p, int count)
{
    for (; *p; p++) {
        const int32_t *q = NULL, *after;
        for (size_t i = 0; i < ANNOUNCE && !q; i++) q = skip_word(p, announce[i]);
        if (!q) continue;
        q = skip_marks(q);
        for (size_t i = 0; i < LINKS; i++) {
            if (!(after = skip_word(q, link_words[i])) ||
                (*q < 0x80 && choices_extends_word(*after)))
                continue;
            q = skip_marks(after);
            break;
        }
        const int n = (*q >= 'a' && *q <= 'z' ? *q - 'a' + 'A' : *q) - 'A';
        if (n >= 0 && n < count && is_own_word(q)) return n;
    }
    return -1;
}

// Finds a lower-case letter after "is", "option" or "choice" that ends the sentence, as in "It is
// c."
static int find_small(const int32_t *p, int count)
{
    static const char *const words[] = { "is", "option", "choice" };
    for (const int32_t *q; *p; p++) {
        if (choices_extends_word(p[-1])) continue;
        for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
            if (!(q = skip_word(p, words[i])) || choices_extends_word(*q)) continue;
            q = skip_marks(q);
            if (*q >= 'a' && *q < 'a' + count && q[1] != ' ' && is_own_word(q)) return *q - 'a';
        }
    }
    return -1;
}

// Returns the only choice whose text is in the answer, or -1 for none or several.
static int find_text(const struct metric_case *c)
{
    const char *answer = words_normal(c->scratch, c->answer);
    int found = -1, n = 0;
    for (size_t i = 0; i < c->choice_count; i++)
        if (words_contain(answer, words_normal(c->scratch, c->choices[i])) && n++ == 0)
            found = (int)i;
    return n == 1 ? found : -1;
}

static int read_letter(const struct metric_case *c, int count)
{
    int n = choices_letter(c->answer, count);
    int32_t *points = choices_code_points(c->answer), *p = points + 1;
    if (n < 0) n = find_named(p, count);
    for (const int32_t *q = p; *q && n < 0; q++) // the first capital that is a separate word
        if (*q >= 'A' && *q < 'A' + count && is_own_word(q)) n = *q - 'A';
    if (n < 0) n = find_small(p, count);
    free(points);
    return n < 0 && !choices_are_letters(c) ? find_text(c) : n;
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

static int score(const struct metric *m, const struct metric_case *c, struct metric_outcome *o,
                 struct err *err)
{
    int count = c->question ? choices_listed(c->question) : 0;
    if (c->choice_count) count = c->choice_count < LETTERS ? (int)c->choice_count : LETTERS;
    if (!count) count = LETTERS;
    const int right = right_letter(c, count, err);
    if (right < 0) return -1;
    *o = choices_outcome(c, read_letter(c, count), right);
    return 0;
}

const struct metric metric_letter = {
    .name = "letter",
    .help = "Share of right letters in multiple-choice questions.",
    .rule = "the whole answer if it is a letter; else the letter after \"answer\"; else the "
            "first capital letter of a choice that is a separate word (B, B., (B), but not the "
            "words A and I); else a lower-case letter after \"is\", \"option\" or \"choice\" at "
            "the end of a sentence; else the only choice whose text is in the answer; otherwise "
            "wrong",
    .score = score,
    .summary = choices_summary,
};
