// core/metrics/mmmu.c -- MMMU (Yue et al. 2024), as its own program and lmms-eval score it.
//
// Where no letter is found the program draws one at random; here the answer is wrong and counted.
// For open questions this is MMMU's own rule: all phrases and numbers of the answer are compared
// with the references, as lmms-eval does since 0.7.3.
// Sources: lmms_eval/tasks/_task_utils/mmmu_mcq_utils.py, mmmu/utils.py (from MMMU's
// eval_utils.py).
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "core/base/mem.h"
#include "core/base/names.h"
#include "core/metrics/choices.h"
#include "core/metrics/mcq.h"
#include "core/metrics/python.h"

// --- multiple choice -----------------------------------------------------------------------------

// Letters at which a pattern like "(A)" stands; returns how many, *last the one furthest back by
// `where`.
struct found {
    int count, letter;
    size_t at; // + 1; 0: nowhere
};

static void note(struct found *f, int letter, size_t at)
{
    const size_t place = at == SIZE_MAX ? 0 : at + 1;
    if (f->count++ && place <= f->at) return;
    f->letter = letter;
    f->at = place;
}

// Patterns with %c for the letter: what must be there, and what tells which is the last.
static struct found find_letters(const struct metric_case *c, const char *text, const char *before,
                                 const char *after, bool blanks)
{
    struct found f = { .letter = MCQ_NONE };
    for (size_t i = 0; i < c->choice_count && i < LETTERS; i++) {
        char *part = xasprintf("%s%c%s", before, (char)('A' + (int)i), after);
        char *alone = xasprintf(" %c ", (char)('A' + (int)i));
        if (strstr(text, part)) note(&f, (int)i, python_find_last(text, blanks ? alone : part));
        free(alone);
        free(part);
    }
    return f;
}

static struct found find_texts(const struct metric_case *c, const char *text)
{
    struct found f = { .letter = MCQ_NONE };
    char *lower = python_lower(text);
    for (size_t i = 0; i < c->choice_count && i < LETTERS; i++) {
        if (!mcq_has(c, (int)i)) continue;
        char *choice = python_lower(c->choices[i]);
        if (strstr(lower, choice)) note(&f, (int)i, python_find_last(lower, choice));
        free(choice);
    }
    free(lower);
    return f;
}

static int find_choice(const struct metric_case *c)
{
    char *bare = mcq_strip_each(c->answer, ",.!?;:'"), *text = xasprintf(" %s ", bare);
    char *words = python_words(text);
    size_t count = *words != 0;
    for (const char *p = words; *p; p++) count += *p == ' ';
    struct found f = find_letters(c, text, "(", ")", false);
    if (!f.count) f = find_letters(c, text, "", " ", true);
    if (!f.count) f = find_letters(c, text, "", ".", true);
    if (!f.count && count > 5) f = find_texts(c, text);
    free(words);
    free(text);
    free(bare);
    return f.letter;
}

// --- open questions ------------------------------------------------------------------------------

// A phrase or number of an answer.
struct value {
    char *text; // NULL: a number
    double number;
};

struct values {
    struct value *list;
    size_t count;
};

static void values_release(struct values *v)
{
    for (size_t i = 0; i < v->count; i++) free(v->list[i].text);
    free(v->list);
}

static void add_value(struct values *v, struct value value)
{
    v->list = xreallocarray(v->list, v->count + 1, sizeof *v->list);
    v->list[v->count++] = value;
}

// Digits of all scripts in ASCII; without underscores between digits.
static char *plain_digits(const char *text)
{
    struct buf b = { 0 };
    size_t length;
    for (const char *p = text; *p; p += length) {
        const int32_t c = python_char(p, &length);
        const bool inside = b.length && isdigit((unsigned char)b.data[b.length - 1]);
        if (python_is_digit(c))
            buf_putc(&b, (char)('0' + python_digit(c)));
        else if (*p != '_' || !inside || !isdigit((unsigned char)p[1]))
            buf_add(&b, p, length);
    }
    return buf_take(&b);
}

// As Python's float(): decimal, with single underscores between digits; inf and nan.
static bool read_number(const char *text, double *number)
{
    char *spaced = plain_digits(text), *bare = python_strip(spaced), *end;
    const char *digits = bare + strspn(bare, "+-");
    const bool named =
        !strcasecmp(digits, "nan") || !strcasecmp(digits, "inf") || !strcasecmp(digits, "infinity");
    const bool plain = *digits && strspn(digits, "0123456789.eE+-") == strlen(digits);
    *number = strtod(bare, &end);
    const bool good = *bare && !*end && (named || plain);
    free(bare);
    free(spaced);
    return good;
}

// A number to two decimals, else the text in lower case; of one character, beside a blank.
static void add_normal(struct values *v, const char *text)
{
    char *bare = python_strip(text), *no_commas = python_replace(bare, ",", "");
    double number;
    if (read_number(no_commas, &number)) {
        char rounded[400];
        snprintf(rounded, sizeof rounded, "%.2f", number);
        add_value(v, (struct value){ .number = isfinite(number) ? strtod(rounded, NULL) : number });
    } else {
        char *lower = python_lower(bare);
        if (python_length(lower) == 1) {
            add_value(v, (struct value){ .text = xasprintf(" %s", lower) });
            add_value(v, (struct value){ .text = xasprintf("%s ", lower) });
            free(lower);
        } else {
            add_value(v, (struct value){ .text = lower });
        }
    }
    free(no_commas);
    free(bare);
}

// What follows the last of a word such as "is ", without blanks around it.
static char *after_last(const char *text, const char *word)
{
    const size_t at = python_find_last(text, word);
    return at == SIZE_MAX ? NULL : python_strip(text + at + strlen(word));
}

// The shortest end of a line after one of the words that announce a result; NULL: there is none.
static char *key_of_line(const char *line, bool last)
{
    static const char *const words[] = { "could be ", "so ",     "is ",     "thus ", "therefore ",
                                         "final ",    "answer ", "result ", "=" };
    char *key = NULL;
    for (size_t i = 0; i < sizeof words / sizeof *words - !last; i++) {
        char *rest = after_last(line, words[i]);
        if (rest && (!key || !*key || python_length(rest) < python_length(key))) {
            free(key);
            key = rest;
        } else {
            free(rest);
        }
    }
    const bool trivial = key && (!*key || (!key[1] && strchr(":,.!?;'", *key)));
    if (!trivial) return key;
    free(key);
    return NULL;
}

// Lines of the answer that announce a result; otherwise all of it.
static void find_keys(const char *answer, struct names *keys)
{
    char *bare = python_strip(answer), *stops = python_strip_of(bare, "."),
         *lower = python_lower(stops), *rest = lower;
    for (char *line; (line = strsep(&rest, "\n"));) {
        char *key = key_of_line(line, !rest);
        if (key) names_add(keys, key, NULL);
        free(key);
    }
    free(lower);
    lower = python_lower(stops);
    if (!keys->count) names_add(keys, lower, NULL);
    free(lower);
    free(stops);
    free(bare);
}

// Numbers with commas, in scientific notation, and plain ones.
static void add_numbers(struct values *v, const char *text)
{
    static const char *const patterns[] = {
        "-?\\b\\d{1,3}(?:,\\d{3})+\\b", "-?\\d+(?:\\.\\d+)?[eE][+-]?\\d+",
        "-?(?:\\d+\\.\\d+|\\.\\d+|\\d+\\b)(?![eE][+-]?\\d+)(?![,\\d])"
    };
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        int code;
        PCRE2_SIZE offset, at = 0;
        const size_t size = strlen(text);
        pcre2_code *re =
            pcre2_compile((PCRE2_SPTR)patterns[i], PCRE2_ZERO_TERMINATED,
                          PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF, &code, &offset, NULL);
        pcre2_match_data *match = pcre2_match_data_create_from_pattern(re, NULL);
        while (at <= size && pcre2_match(re, (PCRE2_SPTR)text, size, at, 0, match, NULL) > 0) {
            const PCRE2_SIZE *found = pcre2_get_ovector_pointer(match);
            char *number = xstrndup(text + found[0], found[1] - found[0]);
            add_normal(v, number);
            free(number);
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

static int score_open(const struct metric_case *c, struct metric_outcome *o)
{
    struct values said = { 0 }, right = { 0 };
    struct names keys = { 0 };
    *o = (struct metric_outcome){ .class = 0 };
    find_keys(c->answer, &keys);
    for (size_t i = 0; i < keys.count; i++) add_normal(&said, keys.list[i]);
    for (size_t i = 0; i < keys.count; i++) add_numbers(&said, keys.list[i]);
    for (size_t i = 0; i < c->reference_count; i++) add_normal(&right, c->references[i]);
    for (size_t i = 0; i < said.count && !o->score; i++) o->score = matches(&said.list[i], &right);
    if (keys.count) o->found = xstrdup(keys.list[0]);
    names_release(&keys);
    values_release(&right);
    values_release(&said);
    return 0;
}

static int score(const struct metric_case *c, struct metric_outcome *o, struct err *err)
{
    if (c->choice_count) return mcq_score(c, find_choice(c), o, err);
    if (!c->reference_count) return err_set(err, "the sample has no reference answer");
    return score_open(c, o);
}

const struct metric metric_mmmu_lmms_eval = {
    .name = "mmmu-lmms-eval",
    .help = "Multiple choice and open questions as MMMU's program scores them.",
    .rule =
        "the last of the letters (X), else \"X \", else \"X.\", else the last choice whose text "
        "is in more than five words; none is wrong (MMMU draws one); open: a reference is in a "
        "phrase after is, so, thus, answer ..., or equals a number of it to two decimals",
    .way = METRIC_ANSWERS,
    .suite = SUITE_LMMS_EVAL,
    .share = true,
    .score = score,
    .summary = mcq_summary,
};
