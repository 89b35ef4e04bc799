// core/metrics/mcq_lmms_eval.c -- multiple choice as lmms-eval scores MMStar, MMBench, RealWorldQA,
// BLINK, CV-Bench, EmbSpatial-Bench, MuirBench and MVBench.
//
// Sources: lmms_eval/tasks/_task_utils/mcq_extract.py (which ranks the positions of letters),
// mmstar/utils.py, mmbench/mmbench_evals.py with its static method (no judge),
// realworldqa/utils.py, blink/utils.py (0.7.3), cv_bench/utils.py, embspatial/utils.py,
// muirbench/utils.py, mvbench/utils.py.
#include <string.h>
#include <strings.h>

#include "core/base/regex.h"
#include "core/metrics/choices.h"
#include "core/metrics/python.h"
#include "core/metrics/vqa.h"

enum { MOST = 5, CHOICES = 4 }; // letters A to E; choices A to D

// --- the ranking ---------------------------------------------------------------------------------

// Positions of a letter, by confidence.
enum confidence {
    FALLBACK,
    SPACE = 2,
    RIGHT_BRACKET,
    COLON,
    STOP,
    BRACKETS,
    PHRASE,
    END = 9,
    START
};

struct ranking {
    int letter, rank;
    size_t at;
};

// Keeps the candidate if its confidence is higher, or equal and its position later.
static void offer(struct ranking *best, int letter, enum confidence confidence, size_t at)
{
    const int rank = (int)confidence;
    if (best->letter != NO_LETTER && (rank < best->rank || (rank == best->rank && at <= best->at)))
        return;
    *best = (struct ranking){ letter, rank, at };
}

static void offer_phrases(struct ranking *best, struct scratch *s, const char *text, int count)
{
    static const char *const phrases[] = {
        "the answer is",
        "answer is",
        "the correct answer is",
        "correct answer is",
        "the best answer is",
        "best answer is",
        "the correct option is",
        "correct option is",
        "the best option is",
        "best option is",
        "the choice is",
        "choice is",
        "the correct choice is",
        "correct choice is",
        "i choose",
        "i select",
        "i pick",
        "my answer is",
        "my choice is",
        "\xEC\x98\xB5\xEC\x85\x98",             // option, in Korean
        "\xEC\xA0\x95\xEB\x8B\xB5\xEC\x9D\x80", // the right answer is
        "\xEB\x8B\xB5\xEC\x9D\x80",             // the answer is
        "\xEB\x8B\xB5:",                        // answer:
        "\xE7\xAD\x94\xE6\xA1\x88\xE6\x98\xAF", // the answer is, in Chinese
        "\xE7\xAD\x94\xE6\xA1\x88\xE4\xB8\xBA", // the same
        "\xE9\x80\x89",                         // choose
        "\xE7\xAD\x94\xE3\x81\x88\xE3\x81\xAF", // the answer is, in Japanese
    };
    const char *lower = python_lower(s, text);
    for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++) {
        const char *p = strstr(lower, phrases[i]);
        if (!p) continue;
        // Lower-casing may change the number of bytes, not that of characters.
        const size_t end = (size_t)(p - lower) + strlen(phrases[i]);
        const size_t characters = python_length(scratch_dup(s, lower, end));
        const char *after = text + strlen(python_head(s, text, characters));
        for (int k = 0; k < count; k++) {
            const char *letter = strchr(after, 'A' + k);
            if (letter) offer(best, k, PHRASE, (size_t)(letter - text));
        }
    }
}

static bool alpha_at(const char *p)
{
    size_t length;
    return *p && python_is_alpha(python_char(p, &length));
}

static void offer_ends(struct ranking *best, const char *stripped, size_t size, int count)
{
    const size_t n = strlen(stripped);
    if (!n) return;
    const int first = stripped[0] - 'A', last = stripped[n - 1] - 'A';
    if (first >= 0 && first < count && (n == 1 || !alpha_at(stripped + 1)))
        offer(best, first, START, 0);
    if (last >= 0 && last < count &&
        (n == 1 || !alpha_at(python_before(stripped, stripped + n - 1))))
        offer(best, last, END, size - 1);
}

static int rank_letters(struct scratch *s, const char *answer, int count)
{
    static const struct {
        enum confidence confidence;
        const char *before, *after;
    } forms[] = { { BRACKETS, "(", ")" },     { STOP, "", "." },  { COLON, "", ":" },
                  { RIGHT_BRACKET, "", ")" }, { SPACE, "", " " }, { FALLBACK, "", "" } };
    struct ranking best = { .letter = NO_LETTER };
    const char *bare = python_strip(s, answer, NULL);
    const char *text = scratch_printf(s, " %s ", python_strip_each(s, bare, ",.!?;:'\""));
    if (!*bare) return NO_LETTER;
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        if (forms[f].confidence == FALLBACK) {
            offer_phrases(&best, s, text, count);
            offer_ends(&best, python_strip(s, text, NULL), strlen(text), count);
            if (best.rank != FALLBACK) break;
        }
        for (int i = 0; i < count; i++) {
            const char *part =
                scratch_printf(s, "%s%c%s", forms[f].before, 'A' + i, forms[f].after);
            const size_t at = python_find_last(text, part);
            if (at != SIZE_MAX) offer(&best, i, forms[f].confidence, at);
        }
    }
    return best.letter;
}

static int read_mmstar(const struct metric_case *c)
{
    return rank_letters(c->scratch, c->answer, CHOICES);
}

// --- MMBench -------------------------------------------------------------------------------------

// Finds the only letter that is a word or has punctuation around it. In more than three words, "A"
// may be an article.
static int find_option(struct scratch *s, const char *answer)
{
    static const char *const around[][2] = { { "", "" },   { "", "." },   { "", "," },
                                             { "", ":" },  { "", ")" },   { "", ")." },
                                             { "(", ")" }, { "(", ")." }, { ":", "" },
                                             { ":", "," }, { ":", "." },  { ":", ")" },
                                             { ":", ")." } };
    const char *words = python_words(s, answer);
    const bool article = python_has_word(words, "A") && python_count_words(words) > 3;
    for (size_t i = article ? 1 : 0; i < sizeof around / sizeof *around; i++) {
        int found = NO_LETTER, n = 0;
        for (int k = 0; k < MOST; k++) {
            const char *word = scratch_printf(s, "%s%c%s", around[i][0], 'A' + k, around[i][1]);
            if (python_has_word(words, word) && n++ == 0) found = k;
        }
        if (n == 1) return found;
    }
    return NO_LETTER;
}

// The suite's files have the text "nan" for an absent choice, and the suite counts that text as a
// choice. The suite treats "None" like any other choice.
static int find_text(const struct metric_case *c, const char *lower)
{
    const char *texts[CHOICES];
    const struct metric_case table = { .choices = texts,
                                       .choice_count = CHOICES,
                                       .scratch = c->scratch };
    for (size_t i = 0; i < CHOICES; i++)
        texts[i] = i < c->choice_count && *c->choices[i] ? c->choices[i] : "nan";
    return c->choice_count ? choices_only_text(&table, lower, CHOICES) : NO_LETTER;
}

static int read_mmbench(const struct metric_case *c)
{
    const char *bare = python_strip(c->scratch, c->answer, NULL);
    int letter = NO_LETTER;
    if (!strstr(bare, "Failed to obtain answer via API")) letter = find_option(c->scratch, bare);
    if (letter == NO_LETTER) letter = find_text(c, python_lower(c->scratch, bare));
    return letter == NO_LETTER ? rank_letters(c->scratch, bare, CHOICES) : letter;
}

// --- RealWorldQA ---------------------------------------------------------------------------------

// Reads a letter as for MMStar; other answers must equal the reference.
static int score_realworldqa(const struct metric *m, const struct metric_case *c,
                             struct metric_outcome *o, struct err *err)
{
    struct scratch *s = c->scratch;
    if (!c->reference_count) return err_set(err, "the sample has no reference answer");
    const char *right = python_strip(s, c->references[0], NULL);
    const int letter = choices_letter_ignoring_case(right);
    if (letter >= 0 && letter < CHOICES) {
        *o = choices_outcome(c, rank_letters(s, c->answer, CHOICES), letter);
        return 0;
    }
    char *said = python_strip(s, python_lower(s, c->answer), NULL);
    for (size_t n = strlen(said); n && said[n - 1] == '.';) said[--n] = 0;
    *o = (struct metric_outcome){ .score = !strcmp(said, python_lower(s, right)), .found = said };
    return 0;
}

// --- BLINK ---------------------------------------------------------------------------------------

// True if `p` begins with a choice letter; sets *letter to that choice.
static bool take_letter(const char *p, int count, bool small, int *letter)
{
    const int n = (small && *p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p) - 'A';
    if (n >= 0 && n < count) *letter = n;
    return n >= 0 && n < count;
}

// Finds the letter in a first line of at most four characters, beside brackets and punctuation.
static int find_terse(struct scratch *s, const char *text, int count)
{
    const char *line = python_strip(s, scratch_dup(s, text, strcspn(text, "\n")), NULL);
    int letter = NO_LETTER;
    if (python_length(line) > 4) return NO_LETTER;
    line += *line == '(';
    if (!take_letter(line, count, true, &letter)) return NO_LETTER;
    line++;
    line += *line == ')';
    size_t length = 1;
    for (; *line && (strchr(".:,)", *line) || python_is_space(python_char(line, &length)));
         length = 1)
        line += length;
    return *line ? NO_LETTER : letter;
}

// Finds the last choice letter that comes after "answer", "answers", "answer is", "answer:" ... and
// is not followed by another letter.
static int find_stated(const char *text, int count)
{
    int letter = NO_LETTER;
    for (const char *p = text; (p = strcasestr(p, "answer")); p += strlen("answer")) {
        const char *q = p + strlen("answer");
        q += *q == 's' || *q == 'S';
        const char *is = python_skip_space(q);
        if (is > q && !strncasecmp(is, "is", 2)) q = is + 2;
        q = python_skip_space(q);
        q += *q == ':' || *q == '-';
        q = python_skip_space(q);
        q += *q == '(';
        const char *after = q + 1;
        int found;
        if (!take_letter(q, count, true, &found)) continue;
        after += *after == ')';
        const char next = *after;
        // The pattern also matches without the closing bracket.
        const bool bare = after > q + 1 || !((next | 0x20) >= 'a' && (next | 0x20) <= 'z');
        if (bare) letter = found;
    }
    return letter;
}

static int find_bracketed(const char *text, int count)
{
    int letter = NO_LETTER;
    for (const char *p = text; (p = strchr(p, '(')); p++)
        if (p[1] && p[2] == ')') take_letter(p + 1, count, false, &letter);
    return letter;
}

// Returns the letter after brackets and spaces at the start, or NO_LETTER.
static int find_leading(const char *text, int count)
{
    int letter = NO_LETTER;
    size_t length = 1;
    while (*text && (*text == '(' || python_is_space(python_char(text, &length)))) {
        text += *text == '(' ? 1 : length;
        length = 1;
    }
    take_letter(text, count, true, &letter);
    return letter;
}

static int read_blink(const struct metric_case *c)
{
    const char *text = python_strip(c->scratch, c->answer, NULL);
    const int count = c->choice_count && c->choice_count < LETTERS ? (int)c->choice_count : LETTERS;
    int letter = find_terse(c->scratch, text, count);
    if (letter == NO_LETTER) letter = find_stated(text, count);
    if (letter == NO_LETTER) letter = find_bracketed(text, count);
    return letter == NO_LETTER ? find_leading(text, count) : letter;
}

static int read_first(const struct metric_case *c)
{
    return find_leading(python_strip(c->scratch, c->answer, NULL), LETTERS);
}

// --- MuirBench -----------------------------------------------------------------------------------

static int read_whole(const struct metric_case *c)
{
    return choices_letter_ignoring_case(python_strip(c->scratch, c->answer, NULL));
}

// --- MVBench -------------------------------------------------------------------------------------

// Returns the letter of the pattern's first group, or NO_LETTER.
static int match_letter(const char *pattern, const char *text)
{
    pcre2_code *re = regex_compile(pattern);
    pcre2_match_data *match = regex_match_data(re);
    const int n = pcre2_match(re, (PCRE2_SPTR)text, strlen(text), 0, 0, match, NULL);
    const PCRE2_SIZE at = n > 1 ? pcre2_get_ovector_pointer(match)[2] : 0;
    pcre2_match_data_free(match);
    pcre2_code_free(re);
    return n > 1 ? (text[at] & ~0x20) - 'A' : NO_LETTER;
}

static int read_mvbench(const struct metric_case *c)
{
    struct scratch *s = c->scratch;
    const char *bare = python_strip(s, c->answer, NULL);
    const int dotted = match_letter("(?i)^([A-E])\\.\\s*(.+)$", bare);
    if (dotted != NO_LETTER) return dotted;
    const char *line = python_replace(s, python_replace(s, c->answer, "\n", " "), "\t", " ");
    line = vqa_drop_punctuation(s, python_strip(s, line, NULL), (struct vqa_punctuation){ 0 });
    return match_letter("(?i)\\b([A-E])\\b", line);
}

// --- the table -----------------------------------------------------------------------------------

const struct metric metric_mmstar_lmms_eval = {
    .name = "mmstar-lmms-eval",
    .help = "Multiple choice as lmms-eval scores MMStar.",
    .rule = "the letter A to D that the first successful search finds: at the start of the answer; "
            "at its end; after \"the answer is\" or a similar phrase; (X); X.; X:; X); X and a "
            "space; anywhere. If a search finds several letters, the last counts",
    .suite = SUITE_LMMS_EVAL,
    .letter = read_mmstar,
    .score = choices_score,
    .summary = choices_summary,
};

const struct metric metric_mmbench_lmms_eval = {
    .name = "mmbench-lmms-eval",
    .help = "Multiple choice as lmms-eval scores MMBench without a judge.",
    .rule = "the only letter that is a word, with or without punctuation around it; else the only "
            "choice whose text is in the answer; else as mmstar-lmms-eval",
    .suite = SUITE_LMMS_EVAL,
    .letter = read_mmbench,
    .score = choices_score,
    .summary = choices_summary,
};

const struct metric metric_realworldqa_lmms_eval = {
    .name = "realworldqa-lmms-eval",
    .help = "Letters and short answers as lmms-eval scores RealWorldQA.",
    .rule = "if the reference is a letter, as mmstar-lmms-eval; otherwise the answer equals the "
            "reference, ignoring case and full stops at its end",
    .suite = SUITE_LMMS_EVAL,
    .score = score_realworldqa,
    .summary = choices_summary,
};

const struct metric metric_blink_lmms_eval = {
    .name = "blink-lmms-eval",
    .help = "Multiple choice as lmms-eval scores BLINK.",
    .rule = "the first line if it is only a letter; else the last letter after \"answer\" or "
            "\"answer is\"; else the last (X); else the letter with which the answer begins. Only "
            "letters of the question's choices count",
    .suite = SUITE_LMMS_EVAL,
    .letter = read_blink,
    .score = choices_score,
    .summary = choices_summary,
};

const struct metric metric_cvbench_lmms_eval = {
    .name = "cvbench-lmms-eval",
    .help = "Multiple choice as lmms-eval scores CV-Bench and EmbSpatial-Bench.",
    .rule = "the letter with which the answer begins, even in a longer word, ignoring case",
    .suite = SUITE_LMMS_EVAL,
    .letter = read_first,
    .score = choices_score,
    .summary = choices_summary,
};

const struct metric metric_muirbench_lmms_eval = {
    .name = "muirbench-lmms-eval",
    .help = "Multiple choice as lmms-eval scores MuirBench.",
    .rule = "the answer begins with \"X.\", or is the letter, ignoring case",
    .suite = SUITE_LMMS_EVAL,
    .extract = choices_extract_dot,
    .letter = read_whole,
    .score = choices_score,
    .summary = choices_summary,
};

const struct metric metric_mvbench_lmms_eval = {
    .name = "mvbench-lmms-eval",
    .help = "Multiple choice as lmms-eval scores MVBench.",
    .rule = "the letter A to E of \"B. ...\"; else the first such letter that is a word once "
            "punctuation is dropped, \"a\" too",
    .suite = SUITE_LMMS_EVAL,
    .letter = read_mvbench,
    .score = choices_score,
    .summary = choices_summary,
};
