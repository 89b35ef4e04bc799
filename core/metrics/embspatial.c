// core/metrics/embspatial.c -- EmbSpatial-Bench (Du et al. 2024) as VLMEvalKit scores it by rule.
//
// Source: dataset/utils/spatial_bench/matching_func.py (can_match_option). It tries, in order: a
// letter at the start of <answer>; one before </answer> or </think>; the last lines after the
// thinking, then those of the last 800 characters; a phrase that announces the letter; the only
// letter of the text.
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/regex.h"
#include "core/metrics/choices.h"
#include "core/metrics/python.h"

enum { TAIL = 800, LINES = 6 }; // characters, lines

#define FULL_STOP        "\\x{FF0E}" // full-width . : )
#define FULL_COLON       "\\x{FF1A}"
#define FULL_RIGHT       "\\x{FF09}"
#define OPENS            "[(\\[{\\x{FF08}\\x{3010}]?\\s*" // a bracket that may open
#define CLOSES           "[)\\]}\\x{FF09}\\x{3011}]?"     // a bracket that may close
#define NO_LETTER_BEFORE "(?<![A-Za-z])"
#define TIGHT                                                                       \
    ".,:;!?)\\]\\x{3011}\\x{300B}\\x{300D}\\x{300F}\\x{FF0C}\\x{3002}\\x{FF1B}\\x{" \
    "3001}" FULL_COLON FULL_RIGHT

// Patterns; the first group, if a pattern has one, is the letter.
static const char in_answer[] = "(?is)<\\s*answer\\b[^>]*>\\s*([A-J])(?:\\s*[." FULL_STOP
                                ":" FULL_COLON ")\\]\\x{3011}\\x{3001}])?.*?<\\s*/\\s*answer\\s*>";
static const char before_answer[] =
    "(?i)" NO_LETTER_BEFORE OPENS "([A-F])\\s*" CLOSES "\\s*</\\s*answer\\s*>";
static const char before_think[] =
    "(?i)" NO_LETTER_BEFORE OPENS "([A-F])\\s*" CLOSES "\\s*</\\s*think\\s*>";
static const char option_line[] =
    "(?i)^[*_>\\-\\s]*(?:option|\\x{9009}\\x{9879})\\s+[A-J]\\s*[:" FULL_COLON "]";
static const char line_letter[] =
    "^\\s*[*_`>\\x{FF08}\\x{FF09}\\[\\]\\x{3010}\\x{3011}()]*\\s*([A-Fa-f])\\s*"
    "[*_`\\x{FF08}\\x{FF09}\\[\\]\\x{3010}\\x{3011}()]*\\s*\\z";
static const char line_label[] =
    "(?i)^\\s*([A-F])\\s*[." FULL_STOP ":" FULL_COLON ")\\]\\x{3011}\\x{3001}-]\\s+";
static const char line_token[] = NO_LETTER_BEFORE
    "[*_`\\x{FF08}\\[{(]*\\s*([A-F])\\s*[*_`\\x{FF09}\\]})]*(?=\\z|[\\s" TIGHT "])";
static const char phrase[] =
    "(?i)(?:final\\s*answer|the\\s*answer\\s*is|answer(?:\\s*is)?|correct\\s*answer|"
    "\\x{7B54}\\x{6848}|\\x{6700}\\x{7EC8}\\x{7B54}\\x{6848}|\\x{7ED3}\\x{8BBA}|\\x{6240}\\x{4EE5}|"
    "\\x{56E0}\\x{6B64}|\\x{6211}\\x{9009}(?:\\x{62E9})?|\\x{9009}\\x{62E9}|\\x{9009})"
    "\\s*[:" FULL_COLON ">\\x{FF1D}=]?\\s*" OPENS "([A-F])\\s*" CLOSES
    "(?:\\b|[.)\\x{3001}\\x{3002}])";
static const char any_token[] = NO_LETTER_BEFORE OPENS "([A-F])\\s*" CLOSES "(?![A-Za-z])";
static const char think_end[] = "(?i)</\\s*think\\s*>", think_start[] = "(?i)<\\s*think\\s*>";

// --- searching -----------------------------------------------------------------------------------

struct found {
    int letters; // bits of the letters in the first group
    int first;   // of the first match; NO_LETTER: no match, or no group
    size_t end;  // of the last match; 0: no match
};

static struct found search(const char *pattern, const char *text, bool all)
{
    struct found f = { .first = NO_LETTER };
    PCRE2_SIZE at = 0;
    const size_t size = strlen(text);
    pcre2_code *re = regex_compile(pattern);
    pcre2_match_data *match = regex_match_data(re);
    int n = 0;
    while (at <= size && (!f.end || all) &&
           (n = pcre2_match(re, (PCRE2_SPTR)text, size, at, 0, match, NULL)) > 0) {
        const PCRE2_SIZE *found = pcre2_get_ovector_pointer(match);
        at = f.end = found[1];
        if (n < 2) continue;
        const int letter = (text[found[2]] & ~0x20) - 'A';
        if (f.first == NO_LETTER) f.first = letter;
        f.letters |= 1 << letter;
    }
    pcre2_match_data_free(match);
    pcre2_code_free(re);
    return f;
}

static int first_of(const char *pattern, const char *text)
{
    return search(pattern, text, false).first;
}

// Returns the letter of all matches if they agree, else NO_LETTER.
static int only_of(const char *pattern, const char *text)
{
    const struct found f = search(pattern, text, true);
    return f.letters && !(f.letters & (f.letters - 1)) ? f.first : NO_LETTER;
}

// --- lines ---------------------------------------------------------------------------------------

static size_t line_end(const char *p, size_t *mark)
{
    size_t n = 0, length;
    for (; p[n]; n += length) {
        const int32_t c = python_char(p + n, &length);
        const bool ends = (c >= '\n' && c <= '\r') || (c >= 0x1C && c <= 0x1E) || c == 0x85 ||
                          c == 0x2028 || c == 0x2029;
        if (!ends) continue;
        *mark = p[n] == '\r' && p[n + 1] == '\n' ? 2 : length;
        return n;
    }
    *mark = 0;
    return n;
}

static int read_line(const char *line)
{
    if (search(option_line, line, false).end) return NO_LETTER;
    int letter = first_of(line_letter, line);
    if (letter == NO_LETTER) letter = first_of(line_label, line);
    return letter == NO_LETTER ? only_of(line_token, line) : letter;
}

// Returns the letter of the last line that has one, among the last six.
static int read_lines(struct scratch *s, const char *text)
{
    const char *lines[LINES];
    int letter = NO_LETTER;
    size_t count = 0, mark;
    for (const char *p = text; *p;) {
        const size_t n = line_end(p, &mark);
        lines[count++ % LINES] = python_strip(s, scratch_dup(s, p, n), NULL);
        p += n + mark;
    }
    for (size_t i = 0; i < LINES && i < count && letter == NO_LETTER; i++) {
        const char *line = lines[(count - 1 - i) % LINES];
        if (*line) letter = read_line(line);
    }
    return letter;
}

// --- the rule ------------------------------------------------------------------------------------

static const char *drop_zero_width(struct scratch *s, const char *text)
{
    static const char *const marks[] = { "\xE2\x80\x8B", "\xE2\x80\x8C", "\xE2\x80\x8D",
                                         "\xEF\xBB\xBF" };
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        text = python_replace(s, text, marks[i], "");
    return text;
}

// Returns the text without lines "option A: ...".
static const char *drop_options(struct scratch *s, const char *text)
{
    struct buf b = { 0 };
    size_t mark;
    for (const char *p = text; *p;) {
        const size_t n = line_end(p, &mark);
        const char *line = scratch_dup(s, p, n);
        if (!search(option_line, line, false).end) buf_printf(&b, "%s\n", line);
        p += n + mark;
    }
    return scratch_take(s, &b);
}

static int read_letter(const struct metric_case *c)
{
    struct scratch *s = c->scratch;
    const char *text = drop_zero_width(s, python_strip(s, c->answer, NULL));
    const size_t length = python_length(text);
    const char *tail = text + (length > TAIL ? strlen(python_head(s, text, length - TAIL)) : 0);
    size_t thought = search(think_end, text, true).end;
    if (!thought) thought = search(think_start, text, true).end;
    int letter = first_of(in_answer, text);
    if (letter == NO_LETTER) letter = first_of(before_answer, tail);
    if (letter == NO_LETTER) letter = first_of(before_think, tail);
    if (letter == NO_LETTER) letter = read_lines(s, python_strip(s, text + thought, NULL));
    if (letter == NO_LETTER) letter = read_lines(s, tail);
    if (letter == NO_LETTER) letter = first_of(phrase, text);
    return letter == NO_LETTER ? only_of(any_token, drop_options(s, text)) : letter;
}

const struct metric metric_embspatial_vlmevalkit = {
    .name = "embspatial-vlmevalkit",
    .help = "Multiple choice as VLMEvalKit scores EmbSpatial-Bench, without a judge.",
    .rule =
        "the letter at the start of <answer> (A to J), or before </answer> or </think> (A to F); "
        "else, among the last six lines, the letter of the last line that is a letter, begins "
        "with \"X.\" or contains one separate letter; else the letter after \"answer is\" or a "
        "similar phrase; else the only separate letter",
    .suite = SUITE_VLMEVALKIT,
    .letter = read_letter,
    .score = choices_score,
    .summary = choices_summary,
};
