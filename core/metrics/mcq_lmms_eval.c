// core/metrics/mcq_lmms_eval.c -- multiple choice as lmms-eval scores MMStar and MMBench.
//
// Sources: lmms_eval/tasks/_task_utils/mcq_extract.py (a ranking of places where a letter may
// stand), mmstar/utils.py, mmbench/mmbench_evals.py with its static method (no judge).
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/metrics/mcq.h"
#include "core/metrics/python.h"

enum { MOST = 5, CHOICES = 4 }; // letters A to E; choices A to D

// --- the ranking ---------------------------------------------------------------------------------

// Where a letter may stand, by confidence.
enum place { FALLBACK, SPACE = 2, RIGHT_BRACKET, COLON, STOP, BRACKETS, PHRASE, END = 9, START };

struct ranking {
    int letter, rank;
    size_t at;
};

// A candidate counts if it is more confident, or as confident and further back.
static void offer(struct ranking *best, int letter, enum place place, size_t at)
{
    const int rank = (int)place;
    if (best->letter != MCQ_NONE && (rank < best->rank || (rank == best->rank && at <= best->at)))
        return;
    *best = (struct ranking){ letter, rank, at };
}

static void offer_last(struct ranking *best, int letter, enum place place, const char *text,
                       const char *part)
{
    const size_t at = python_find_last(text, part);
    if (at != SIZE_MAX) offer(best, letter, place, at);
}

static const char *skip_characters(const char *p, size_t count)
{
    size_t length;
    for (; count && *p; count--, p += length) python_char(p, &length);
    return p;
}

static void offer_phrases(struct ranking *best, const char *text, const char *lower, int count)
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
    for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++) {
        const char *p = strstr(lower, phrases[i]);
        if (!p) continue;
        char *before = xstrndup(lower, (size_t)(p - lower));
        // Lower-casing may change the number of bytes, not that of characters.
        const char *after =
            skip_characters(text, python_length(before) + python_length(phrases[i]));
        free(before);
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
    const char *before = stripped + n - 1;
    if (n > 1) do
            before--;
        while (before > stripped && ((unsigned char)*before & 0xC0) == 0x80);
    if (first >= 0 && first < count && (n == 1 || !alpha_at(stripped + 1)))
        offer(best, first, START, 0);
    if (last >= 0 && last < count && (n == 1 || !alpha_at(before)))
        offer(best, last, END, size - 1);
}

static int rank_letters(const char *answer, int count)
{
    struct ranking best = { .letter = MCQ_NONE };
    char *bare = python_strip(answer), *less = mcq_strip_each(bare, ",.!?;:'\"");
    char *text = xasprintf(" %s ", less), *lower = python_lower(text);
    char *stripped = python_strip(text);
    for (int i = 0; *bare && i < count; i++) {
        const char c = (char)('A' + i);
        const char brackets[] = { '(', c, ')', 0 }, stop[] = { c, '.', 0 }, colon[] = { c, ':', 0 };
        const char right[] = { c, ')', 0 }, space[] = { c, ' ', 0 };
        offer_last(&best, i, BRACKETS, text, brackets);
        offer_last(&best, i, STOP, text, stop);
        offer_last(&best, i, COLON, text, colon);
        offer_last(&best, i, RIGHT_BRACKET, text, right);
        offer_last(&best, i, SPACE, text, space);
    }
    if (*bare) offer_phrases(&best, text, lower, count);
    if (*bare) offer_ends(&best, stripped, strlen(text), count);
    for (int i = 0; *bare && best.rank == FALLBACK && i < count; i++) {
        const char c[] = { (char)('A' + i), 0 };
        offer_last(&best, i, FALLBACK, text, c);
    }
    free(stripped);
    free(lower);
    free(text);
    free(less);
    free(bare);
    return best.letter;
}

static int score_mmstar(const struct metric_case *c, struct metric_outcome *o, struct err *err)
{
    return mcq_score(c, rank_letters(c->answer, 4), o, err);
}

// --- MMBench -------------------------------------------------------------------------------------

static int count_letters(const char *words, const char *before, const char *after, int *first)
{
    int n = 0;
    *first = MCQ_NONE;
    for (int i = 0; i < MOST; i++) {
        char *word = xasprintf("%s%c%s", before, 'A' + i, after);
        if (python_has_word(words, word) && n++ == 0) *first = i;
        free(word);
    }
    return n;
}

static size_t word_count(const char *words)
{
    size_t n = *words != 0;
    for (; *words; words++) n += *words == ' ';
    return n;
}

// The only letter that is a word ("A" may be an article in more than three words), or one with
// punctuation around it.
static int find_option(const char *answer)
{
    static const char *const around[][2] = { { "", "." },   { "", "," },  { "", ":" },
                                             { "", ")" },   { "", ")." }, { "(", ")" },
                                             { "(", ")." }, { ":", "" },  { ":", "," },
                                             { ":", "." },  { ":", ")" }, { ":", ")." } };
    char *words = python_words(answer);
    int found = MCQ_NONE, first;
    const bool article = python_has_word(words, "A") && word_count(words) > 3;
    if (count_letters(words, "", "", &first) == 1 && !article) found = first;
    for (size_t i = 0; found == MCQ_NONE && i < sizeof around / sizeof *around; i++)
        if (count_letters(words, around[i][0], around[i][1], &first) == 1) found = first;
    free(words);
    return found;
}

// In its file an absent choice is the text "nan", which counts as a choice.
static int find_text(const struct metric_case *c, const char *lower)
{
    const char *texts[CHOICES];
    const struct metric_case table = { .choices = texts, .choice_count = CHOICES };
    for (size_t i = 0; i < CHOICES; i++)
        texts[i] = i < c->choice_count && !python_is_missing(c->choices[i]) ? c->choices[i] : "nan";
    return c->choice_count ? mcq_only_text(&table, lower, CHOICES) : MCQ_NONE;
}

static int score_mmbench(const struct metric_case *c, struct metric_outcome *o, struct err *err)
{
    char *bare = python_strip(c->answer), *lower = python_lower(bare);
    int letter = strstr(bare, "Failed to obtain answer via API") ? MCQ_NONE : find_option(bare);
    if (letter == MCQ_NONE) letter = find_text(c, lower);
    if (letter == MCQ_NONE) letter = rank_letters(bare, CHOICES);
    free(lower);
    free(bare);
    return mcq_score(c, letter, o, err);
}

const struct metric metric_mmstar_lmms_eval = {
    .name = "mmstar-lmms-eval",
    .help = "Multiple choice as lmms-eval scores MMStar.",
    .rule =
        "the letter A to D at the most telling place: start, end, after \"the answer is\", (X), "
        "X., X:, X), X and a blank, anywhere; of equal places the last",
    .way = METRIC_ANSWERS,
    .suite = SUITE_LMMS_EVAL,
    .share = true,
    .score = score_mmstar,
    .summary = mcq_summary,
};

const struct metric metric_mmbench_lmms_eval = {
    .name = "mmbench-lmms-eval",
    .help = "Multiple choice as lmms-eval scores MMBench without a judge.",
    .rule = "the only letter that is a word, alone or in punctuation; else the only choice whose "
            "text is in the answer; else as mmstar-lmms-eval",
    .way = METRIC_ANSWERS,
    .suite = SUITE_LMMS_EVAL,
    .loses = true,
    .share = true,
    .score = score_mmbench,
    .summary = mcq_summary,
};
