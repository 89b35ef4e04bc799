// core/metrics/mmerealworld.c -- MME-RealWorld (Zhang et al. 2024): five choices, of which E is
// "not in the picture".
//
// Sources: tasks/mme_realworld/utils.py of lmms-eval; dataset/image_mcq.py and
// dataset/utils/multiple_choice.py (extract_characters_regex) of VLMEvalKit.
#include <string.h>

#include "core/metrics/choices.h"
#include "core/metrics/python.h"

static const char letters[] = "ABCDE";

static int read_letter(const struct metric_case *c)
{
    static const char *const phrases[] = {
        "The best answer is", "The correct answer is", "The answer is", "The answer",
        "The best option is", "The correct option is", "Best answer:",  "Best option:",
    };
    struct scratch *s = c->scratch;
    char *text = python_strip(s, c->answer, NULL);
    for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++)
        text = python_replace(s, text, phrases[i], "");
    const char *first = strpbrk(text, letters);
    if (first) return *first - 'A';
    if (*text && python_count_words(python_words(s, text)) > 10) return NO_LETTER;
    // The suites search "(a)", "(b)" ... for the remaining text: "b" gives B, and an empty text
    // gives A.
    const char *rest = python_lower(s, text);
    for (int i = 0; letters[i]; i++)
        if (strstr((const char[]){ '(', (char)('a' + i), ')', 0 }, rest)) return i;
    return NO_LETTER;
}

// VLMEvalKit reads the content of <answer>, in upper case.
static int read_answer(const struct metric_case *c)
{
    struct metric_case inside = *c;
    const char *from = strstr(c->answer, "<answer>"), *to = from ? strstr(from, "</answer>") : NULL;
    if (to) {
        from += strlen("<answer>");
        char *text = scratch_dup(c->scratch, from, (size_t)(to - from));
        inside.answer = python_upper(c->scratch, python_strip(c->scratch, text, NULL));
    }
    return read_letter(&inside);
}

#define RULE                                                                          \
    "phrases like \"The best answer is\" are removed; then the first capital A to E " \
    "counts; else the only letter left, ignoring case and brackets; A if nothing is left"

const struct metric metric_mmerealworld_lmms_eval = {
    .name = "mmerealworld-lmms-eval",
    .help = "Multiple choice as MME-RealWorld's script and lmms-eval score it.",
    .rule = RULE,
    .suite = SUITE_LMMS_EVAL,
    .letter = read_letter,
    .score = choices_score,
    .summary = choices_summary,
};

const struct metric metric_mmerealworld_vlmevalkit = {
    .name = "mmerealworld-vlmevalkit",
    .help = "Multiple choice as VLMEvalKit scores MME-RealWorld.",
    .rule = "the content of <answer>, in upper case, if there is one; then " RULE,
    .suite = SUITE_VLMEVALKIT,
    .letter = read_answer,
    .score = choices_score,
    .summary = choices_summary,
};
