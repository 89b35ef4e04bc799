// core/metrics/mmmu.c -- MMMU (Yue et al. 2024), as its own program and lmms-eval score it, and
// MMMU-Pro as its own program scores it (mmmu-pro/evaluate.py of MMMU).
//
// If MMMU's program finds no letter, it draws one at random; vlmsh counts the answer as wrong. Open
// questions follow MMMU's own rule, as in lmms-eval since 0.7.3: it compares all phrases and
// numbers of the answer with the references. Sources:
// lmms_eval/tasks/_task_utils/mmmu_mcq_utils.py, mmmu/utils.py (from MMMU's eval_utils.py).
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/names.h"
#include "core/base/regex.h"
#include "core/metrics/choices.h"
#include "core/metrics/python.h"

// --- multiple choice -----------------------------------------------------------------------------

// The last letter found, and the number of letters found.
struct found {
    int count, letter;
    size_t at; // position + 1; 0: nowhere
};

static void record_letter(struct found *f, int letter, size_t at)
{
    const size_t position = at == SIZE_MAX ? 0 : at + 1;
    if (f->count++ && position <= f->at) return;
    f->letter = letter;
    f->at = position;
}

// Finds letters between `before` and `after`; `spaced`: the position of the letter between spaces,
// not that of the pattern, decides which letter is the last.
static struct found find_letters(const struct metric_case *c, const char *text, const char *before,
                                 const char *after, bool spaced)
{
    struct found f = { .letter = NO_LETTER };
    for (int i = 0; (size_t)i < c->choice_count && i < LETTERS; i++) {
        const char *part = scratch_printf(c->scratch, "%s%c%s", before, 'A' + i, after);
        const char *alone = scratch_printf(c->scratch, " %c ", 'A' + i);
        if (strstr(text, part)) record_letter(&f, i, python_find_last(text, spaced ? alone : part));
    }
    return f;
}

static struct found find_texts(const struct metric_case *c, const char *text)
{
    struct found f = { .letter = NO_LETTER };
    const char *lower = python_lower(c->scratch, text);
    for (int i = 0; (size_t)i < c->choice_count && i < LETTERS; i++) {
        const char *choice = python_lower(c->scratch, c->choices[i]);
        if (*choice && strstr(lower, choice)) record_letter(&f, i, python_find_last(lower, choice));
    }
    return f;
}

static int find_choice(const struct metric_case *c)
{
    struct scratch *s = c->scratch;
    const char *text = scratch_printf(s, " %s ", python_strip_each(s, c->answer, ",.!?;:'"));
    struct found f = find_letters(c, text, "(", ")", false);
    if (!f.count) f = find_letters(c, text, "", " ", true);
    if (!f.count) f = find_letters(c, text, "", ".", true);
    if (!f.count && python_count_words(python_words(s, text)) > 5) f = find_texts(c, text);
    return f.letter;
}

// Reads the letter like MMMU-Pro's program: the only choice letter after the last "Answer:", else
// as MMMU's program does.
static int read_pro(const struct metric_case *c)
{
    static const char mark[] = "Answer:";
    const size_t at = python_find_last(c->answer, mark);
    int found = NO_LETTER, n = 0;
    for (int i = 0; at != SIZE_MAX && (size_t)i < c->choice_count && i < LETTERS; i++)
        if (strchr(c->answer + at + strlen(mark), 'A' + i) && n++ == 0) found = i;
    return n == 1 ? found : find_choice(c);
}

// --- open questions ------------------------------------------------------------------------------

// A phrase or number of an answer.
struct value {
    const char *text; // NULL: a number
    double number;
};

struct values {
    struct value *list;
    size_t count;
};

static void add_value(struct values *v, const char *text, double number)
{
    v->list = xreallocarray(v->list, v->count + 1, sizeof *v->list);
    v->list[v->count++] = (struct value){ text, number };
}

// Adds a number rounded to two decimals, or the text in lower case. Adds a single character twice:
// once with a space before it, once with a space after it.
static void add_normal(struct values *v, struct scratch *s, const char *text)
{
    const char *bare = python_strip(s, text, NULL), *lower = python_lower(s, bare);
    double number;
    if (python_float(s, python_replace(s, bare, ",", ""), &number)) {
        char rounded[400];
        snprintf(rounded, sizeof rounded, "%.2f", number);
        add_value(v, NULL, isfinite(number) ? strtod(rounded, NULL) : number);
    } else if (python_length(lower) == 1) {
        add_value(v, scratch_printf(s, " %s", lower), 0);
        add_value(v, scratch_printf(s, "%s ", lower), 0);
    } else {
        add_value(v, lower, 0);
    }
}

// Returns the shortest remainder of a line after a word that announces a result, or NULL.
static const char *key_of_line(struct scratch *s, const char *line, bool last)
{
    static const char *const words[] = { "could be ", "so ",     "is ",     "thus ", "therefore ",
                                         "final ",    "answer ", "result ", "=" };
    const char *key = NULL;
    for (size_t i = 0; i < sizeof words / sizeof *words - !last; i++) {
        const size_t at = python_find_last(line, words[i]);
        if (at == SIZE_MAX) continue;
        const char *rest = python_strip(s, line + at + strlen(words[i]), NULL);
        if (!key || !*key || python_length(rest) < python_length(key)) key = rest;
    }
    const bool trivial = key && (!*key || (!key[1] && strchr(":,.!?;'", *key)));
    return trivial ? NULL : key;
}

// Collects the ends of lines that announce a result, or the whole answer.
static void find_keys(struct scratch *s, const char *answer, struct names *keys)
{
    const char *bare = python_strip(s, python_strip(s, answer, NULL), ".");
    const char *lower = python_lower(s, bare);
    char *rest = scratch_dup(s, lower, strlen(lower));
    for (char *line; (line = strsep(&rest, "\n"));) {
        const char *key = key_of_line(s, line, !rest);
        if (key) names_add(keys, key, NULL);
    }
    if (!keys->count) names_add(keys, lower, NULL);
}

// Adds numbers with commas, in scientific notation, and plain ones.
static void add_numbers(struct values *v, struct scratch *s, const char *text)
{
    static const char *const patterns[] = {
        "-?\\b\\d{1,3}(?:,\\d{3})+\\b", "-?\\d+(?:\\.\\d+)?[eE][+-]?\\d+",
        "-?(?:\\d+\\.\\d+|\\.\\d+|\\d+\\b)(?![eE][+-]?\\d+)(?![,\\d])"
    };
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        PCRE2_SIZE at = 0;
        const size_t size = strlen(text);
        pcre2_code *re = regex_compile(patterns[i]);
        pcre2_match_data *match = regex_match_data(re);
        while (at <= size && pcre2_match(re, (PCRE2_SPTR)text, size, at, 0, match, NULL) > 0) {
            const PCRE2_SIZE *found = pcre2_get_ovector_pointer(match);
            add_normal(v, s, scratch_dup(s, text + found[0], found[1] - found[0]));
            at = found[1];
        }
        pcre2_match_data_free(match);
        pcre2_code_free(re);
    }
}

static bool matches(const struct value *said, const struct values *right)
{
    for (size_t i = 0; i < right->count; i++) {
        const struct value *r = &right->list[i];
        if (said->text && r->text ? strstr(said->text, r->text) != NULL
                                  : !said->text && !r->text && said->number == r->number)
            return true;
    }
    return false;
}

static int score(const struct metric *m, const struct metric_case *c, struct metric_outcome *o,
                 struct err *err)
{
    struct values said = { 0 }, right = { 0 };
    struct names keys = { 0 };
    struct scratch *s = c->scratch;
    if (c->choice_count) return choices_score_letter(c, find_choice(c), o, err);
    if (!c->reference_count) return err_set(err, "the sample has no reference answer");
    find_keys(s, c->answer, &keys);
    for (size_t i = 0; i < keys.count; i++) add_normal(&said, s, keys.list[i]);
    for (size_t i = 0; i < keys.count; i++) add_numbers(&said, s, keys.list[i]);
    for (size_t i = 0; i < c->reference_count; i++) add_normal(&right, s, c->references[i]);
    *o = (struct metric_outcome){ .found = scratch_printf(s, "%s", keys.list[0]) };
    for (size_t i = 0; i < said.count && !o->score; i++) o->score = matches(&said.list[i], &right);
    names_release(&keys);
    free(right.list);
    free(said.list);
    return 0;
}

const struct metric metric_mmmu_lmms_eval = {
    .name = "mmmu-lmms-eval",
    .help = "Multiple choice and open questions as MMMU's program scores them.",
    .rule =
        "multiple choice: the last letter written as (X); else as X and a space; else as X.; "
        "else, in an answer of more than five words, the last choice whose text it contains; "
        "otherwise wrong (MMMU draws a letter at random). Open questions: the text after \"is\", "
        "\"so\", \"thus\", \"answer\" or a similar word contains a reference, or a number that "
        "equals it when both are rounded to two decimals",
    .suite = SUITE_LMMS_EVAL,
    .score = score,
    .summary = choices_summary,
};

const struct metric metric_mmmu_pro = {
    .name = "mmmu-pro",
    .help = "Multiple choice as MMMU-Pro's program scores it.",
    .rule =
        "the only choice letter, even inside a word, after the last \"Answer:\"; else the letter "
        "as mmmu-lmms-eval reads it; an answer without a letter is wrong (the program draws a "
        "letter)",
    .suite = SUITE_OFFICIAL,
    .letter = read_pro,
    .score = choices_score,
    .summary = choices_summary,
};
