// core/metrics/suite.c -- removes thinking and marks from an answer before a rule scores it. What
// each suite does:
//
//   lmms-eval   applies the task's own extraction, then removes <think> and <analysis> blocks and
//               white space around the answer (api/reasoning.py and evaluator.py; on by default)
//   VLMEvalKit  takes the text between box marks, in <answer> after thinking, or after Kimi's
//               thinking, in the code for these models (vlm/cogvlm.py, vlm/kimi_vl.py); removes
//               other thinking only if the environment variable SPLIT_THINK is set (inference.py),
//               which corresponds to --thinking strip; then writes a table, in which None, NA and
//               similar texts become "nan"
//   LLaVA, InternVL, Qwen-VL and the benchmarks' own programs change nothing
//   vlmsh       removes all tags and marks, for its own rules
#include "core/metrics/suite.h"

#include <string.h>

#include "core/metrics/python.h"
#include "core/template/thinking.h"

struct tags {
    const char *open, *close;
};

#define KIMI_OPEN  "\xE2\x97\x81think\xE2\x96\xB7"
#define KIMI_CLOSE "\xE2\x97\x81/think\xE2\x96\xB7"

enum { MARKS_OF_LMMS_EVAL = 2 }; // lmms-eval knows only the first two rows of thinking_table

static const struct tags answer_tags = { "<answer>", "</answer>" },
                         box_marks = { "<|begin_of_box|>", "<|end_of_box|>" };

enum suite suite_find(const char *name)
{
    static const struct {
        const char *name;
        enum suite suite;
    } suites[] = { { "official", SUITE_OFFICIAL },   { "internvl", SUITE_OFFICIAL },
                   { "qwen-vl", SUITE_OFFICIAL },    { "llava", SUITE_LLAVA },
                   { "lmms-eval", SUITE_LMMS_EVAL }, { "vlmevalkit", SUITE_VLMEVALKIT } };
    // "official-cot" is another prompt of the same suite.
    for (size_t i = 0; i < sizeof suites / sizeof *suites; i++) {
        const size_t n = strlen(suites[i].name);
        if (!strncmp(name, suites[i].name, n) && (!name[n] || name[n] == '-'))
            return suites[i].suite;
    }
    return SUITE_OWN;
}

// --- thinking ------------------------------------------------------------------------------------

// Removes the text from each opening tag to the next closing tag. If no opening tag remains, also
// removes everything up to the last closing tag, because a chat template may have put the opening
// tag into the prompt. Keeps an opening tag that is never closed.
static const char *remove_thinking(struct scratch *s, const char *text,
                                   const struct thinking_marks *t)
{
    struct buf b = { 0 };
    // NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): callers pass only rows with marks
    const size_t n = strlen(t->open);
    const char *end = "";
    for (const char *p = text; *p && end; p++) {
        buf_putc(&b, *p);
        if (b.length < n || memcmp(b.data + b.length - n, t->open, n) != 0) continue;
        end = strstr(p + 1, t->close);
        if (end) b.length -= n;
        if (end) p = end + strlen(t->close) - 1;
        if (!end) buf_puts(&b, p + 1);
    }
    text = scratch_take(s, &b);
    const size_t last = python_find_last(text, t->close);
    return last == SIZE_MAX || strstr(text, t->open) ? text : text + last + strlen(t->close);
}

// Returns the offset of the last opening tag that is never closed; SIZE_MAX: none.
static size_t find_open_thinking(const char *text, const struct thinking_marks *t)
{
    for (; t->open; t++) {
        const size_t last = python_find_last(text, t->open);
        if (last != SIZE_MAX && !strstr(text + last, t->close)) return last;
    }
    return SIZE_MAX;
}

// --- marks of the answer -------------------------------------------------------------------------

// Returns the text between the first pair of tags, stripped, or the whole text if there is no pair.
// `open`: if the first opening tag is never closed, returns the text after it.
static const char *take_between(struct scratch *s, const char *text, const struct tags *t,
                                bool open)
{
    const char *from = strstr(text, t->open);
    if (!from) return text;
    from += strlen(t->open);
    const char *to = strstr(from, t->close);
    if (!to && !open) return text;
    return python_strip(s, to ? scratch_dup(s, from, (size_t)(to - from)) : from, NULL);
}

// Returns the content of the last \boxed{...}, if its braces are balanced, else the text.
static const char *take_boxed(struct scratch *s, const char *text)
{
    static const char boxed[] = "\\boxed{";
    const size_t at = python_find_last(text, boxed);
    if (at == SIZE_MAX) return text;
    const char *from = text + at + strlen(boxed), *p = from;
    for (int level = 1; *p; p++) {
        level += *p == '{' ? 1 : *p == '}' ? -1 : 0;
        if (!level) return scratch_dup(s, from, (size_t)(p - from));
    }
    return text;
}

// --- the suites ----------------------------------------------------------------------------------

static const char *strip_own(struct scratch *s, const char *text, const struct thinking_marks *t)
{
    for (; t->open; t++) text = remove_thinking(s, text, t);
    text = take_between(s, text, &answer_tags, true);
    text = take_between(s, text, &box_marks, true);
    return python_strip(s, take_boxed(s, text), NULL);
}

static const char *strip_lmms_eval(struct scratch *s, const char *text)
{
    for (int i = 0; i < MARKS_OF_LMMS_EVAL; i++)
        text = remove_thinking(s, text, &thinking_table[i]);
    return python_strip(s, text, NULL);
}

static bool has_pair(const char *text, const struct tags *t)
{
    const char *from = strstr(text, t->open);
    return from && strstr(from, t->close);
}

static const char *strip_vlmevalkit(struct scratch *s, const char *text, const struct metric *m,
                                    enum thinking thinking)
{
    if (strstr(text, KIMI_OPEN) || strstr(text, KIMI_CLOSE)) {
        // Kimi-VL's wrapper takes the text after the thinking, or nothing if the thinking does not
        // end; for multiple-choice questions, it then takes the content of \boxed{}.
        const char *end = strstr(text, KIMI_CLOSE);
        text = end ? python_strip(s, end + strlen(KIMI_CLOSE), NULL) : "";
        if (m->loses) text = take_boxed(s, text);
    } else if (has_pair(text, &box_marks) ||
               (strstr(text, "</think>") && has_pair(text, &answer_tags))) {
        // GLM's wrapper removes the thinking and takes the text between the box marks; other
        // wrappers take the text between <answer> tags. Answers to OCRBench keep the box marks.
        struct buf b = { 0 };
        for (const char *from, *end;
             (from = strstr(text, "<think>")) && (end = strstr(from, "</think>"));
             text = end + strlen("</think>"))
            buf_add(&b, text, (size_t)(from - text));
        buf_puts(&b, text);
        text = take_between(s, python_strip(s, scratch_take(s, &b), NULL), &answer_tags, false);
        if (m != &metric_ocrbench_vlmevalkit) text = take_between(s, text, &box_marks, false);
    }
    const size_t last = python_find_last(text, "</think>");
    if (thinking != THINKING_STRIP || last == SIZE_MAX) return text;
    return python_strip(s, text + last + strlen("</think>"), NULL);
}

const char *suite_answer(struct scratch *s, enum suite suite, const struct metric *m,
                         const char *answer, const struct thinking_list *model,
                         enum thinking thinking, enum thought *thought)
{
    struct thinking_marks all[THINKING_MOST + 1] = { 0 };
    int count = 0;
    for (const struct thinking_marks *t = thinking_table; t->open; t++) all[count++] = *t;
    if (model) all[count] = (struct thinking_marks){ model->open, model->close, false };
    const char *whole = m->extract ? m->extract(s, answer) : answer, *text = whole;
    bool thinks = find_open_thinking(whole, all) != SIZE_MAX;
    for (const struct thinking_marks *t = all; t->open; t++)
        thinks |= strstr(whole, t->close) != NULL;
    const bool own = suite == SUITE_OWN || ((suite == SUITE_LLAVA || suite == SUITE_OFFICIAL) &&
                                            thinking == THINKING_STRIP);
    if (thinking == THINKING_KEEP)
        text = whole;
    else if (own)
        text = strip_own(s, text, all);
    else if (suite == SUITE_LMMS_EVAL)
        text = strip_lmms_eval(s, text);
    else if (suite == SUITE_VLMEVALKIT)
        text = strip_vlmevalkit(s, text, m, thinking);
    const size_t open = find_open_thinking(text, all);
    // Cuts off thinking that does not end, so that reasoning is never scored.
    if (open != SIZE_MAX && own && thinking != THINKING_KEEP)
        text = python_strip(s, scratch_dup(s, text, open), NULL);
    if (open != SIZE_MAX)
        *thought = THOUGHT_OPEN;
    else if (strcmp(python_strip(s, text, NULL), python_strip(s, whole, NULL)) != 0)
        *thought = THOUGHT_REMOVED;
    else
        *thought = thinks ? THOUGHT_KEPT : THOUGHT_NONE;
    return suite == SUITE_VLMEVALKIT && python_is_missing(text) ? "nan" : text;
}
