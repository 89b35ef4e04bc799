// core/metrics/suite.c -- what becomes of an answer before a rule reads it.
//
//   lmms-eval   the task's extraction, then without <think> and <analysis>, stripped
//               (api/reasoning.py and evaluator.py; on by default)
//   VLMEvalKit  what the wrappers of models that write boxes, thinking with <answer>, or Kimi's
//               marks take out (vlm/cogvlm.py, vlm/kimi_vl.py), but no other thinking: that is the
//               environment variable SPLIT_THINK (inference.py), our --thinking strip. Then a
//               table, which reads None, NA and the like as "nan"
//   LLaVA       as it is
//   our own     all tags and marks
#include "core/metrics/suite.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/metrics/python.h"

struct tags {
    const char *open, *close;
};

#define KIMI_OPEN  "\xE2\x97\x81think\xE2\x96\xB7"
#define KIMI_CLOSE "\xE2\x97\x81/think\xE2\x96\xB7"

// Those of lmms-eval first.
static const struct tags thinking_tags[] = {
    { "<think>", "</think>" },
    { "<analysis>", "</analysis>" },
    { "<thinking>", "</thinking>" },
    { KIMI_OPEN, KIMI_CLOSE },
};
enum { TAGS = sizeof thinking_tags / sizeof *thinking_tags, TAGS_OF_LMMS_EVAL = 2 };

static const struct tags answer_tags = { "<answer>", "</answer>" },
                         box_marks = { "<|begin_of_box|>", "<|end_of_box|>" };

enum suite suite_find(const char *name)
{
    if (!strcmp(name, "llava")) return SUITE_LLAVA;
    if (!strcmp(name, "lmms-eval")) return SUITE_LMMS_EVAL;
    return !strcmp(name, "vlmevalkit") ? SUITE_VLMEVALKIT : SUITE_OWN;
}

// --- thinking ------------------------------------------------------------------------------------

// Each opening tag to the next closing one; what then follows the last closing tag, if no opening
// one is left: a chat template may have written it. An opening tag that is never closed stays.
// Takes the text.
static char *remove_thinking(char *text, const struct tags *t)
{
    struct buf b = { 0 };
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
    free(text);
    text = buf_take(&b);
    const size_t last = python_find_last(text, t->close);
    if (last == SIZE_MAX || strstr(text, t->open)) return text;
    char *after = xstrdup(text + last + strlen(t->close));
    free(text);
    return after;
}

static bool has_open_thinking(const char *text)
{
    for (size_t i = 0; i < TAGS; i++) {
        const size_t last = python_find_last(text, thinking_tags[i].open);
        if (last != SIZE_MAX && !strstr(text + last, thinking_tags[i].close)) return true;
    }
    return false;
}

static bool has_thinking(const char *text)
{
    for (size_t i = 0; i < TAGS; i++)
        if (strstr(text, thinking_tags[i].close)) return true;
    return has_open_thinking(text);
}

// --- marks of the answer -------------------------------------------------------------------------

// The text between the first pair of tags, stripped; `open`: also the text after an opening tag
// that is never closed. Takes the text.
static char *take_between(char *text, const struct tags *t, bool open)
{
    const char *from = strstr(text, t->open);
    if (!from) return text;
    from += strlen(t->open);
    const char *to = strstr(from, t->close);
    if (!to && !open) return text;
    char *part = xstrndup(from, to ? (size_t)(to - from) : strlen(from)),
         *bare = python_strip(part);
    free(part);
    free(text);
    return bare;
}

// The last \boxed{...}, if its braces are balanced. Takes the text.
static char *take_boxed(char *text)
{
    static const char boxed[] = "\\boxed{";
    const size_t at = python_find_last(text, boxed);
    if (at == SIZE_MAX) return text;
    const char *from = text + at + strlen(boxed), *p = from;
    for (int level = 1; *p; p++) {
        level += *p == '{' ? 1 : *p == '}' ? -1 : 0;
        if (!level) break;
    }
    if (!*p) return text;
    char *part = xstrndup(from, (size_t)(p - from));
    free(text);
    return part;
}

// --- the suites ----------------------------------------------------------------------------------

static char *strip_own(char *text)
{
    for (size_t i = 0; i < TAGS; i++) text = remove_thinking(text, &thinking_tags[i]);
    text = take_between(text, &answer_tags, true);
    text = take_between(text, &box_marks, true);
    return python_strip_in(take_boxed(text));
}

static char *strip_lmms_eval(char *text)
{
    for (size_t i = 0; i < TAGS_OF_LMMS_EVAL; i++) text = remove_thinking(text, &thinking_tags[i]);
    return python_strip_in(text);
}

// Kimi-VL's wrapper: what follows the thinking, nothing if it does not end; of multiple choice what
// is in the box.
static char *strip_kimi(char *text, const struct metric *m)
{
    const char *end = strstr(text, KIMI_CLOSE);
    char *rest = end ? python_strip(end + strlen(KIMI_CLOSE)) : xstrdup("");
    free(text);
    return m->loses ? take_boxed(rest) : rest;
}

static bool has_pair(const char *text, const struct tags *t)
{
    const char *from = strstr(text, t->open);
    return from && strstr(from, t->close);
}

// GLM's wrapper, and what others do with <answer>. OCRBench keeps the box.
static char *strip_glm(char *text, const struct metric *m)
{
    struct buf b = { 0 };
    const char *p = text;
    for (const char *from, *end; (from = strstr(p, "<think>")) && (end = strstr(from, "</think>"));
         p = end + strlen("</think>"))
        buf_add(&b, p, (size_t)(from - p));
    buf_puts(&b, p);
    free(text);
    text = take_between(python_strip_in(buf_take(&b)), &answer_tags, false);
    return !strcmp(m->name, "ocrbench-vlmevalkit") ? text : take_between(text, &box_marks, false);
}

static char *strip_vlmevalkit(char *text, const struct metric *m, enum thinking thinking)
{
    if (strstr(text, KIMI_OPEN) || strstr(text, KIMI_CLOSE))
        text = strip_kimi(text, m);
    else if (has_pair(text, &box_marks) ||
             (strstr(text, "</think>") && has_pair(text, &answer_tags)))
        text = strip_glm(text, m);
    const size_t last = python_find_last(text, "</think>");
    if (thinking != THINKING_STRIP || last == SIZE_MAX) return text;
    char *after = python_strip(text + last + strlen("</think>"));
    free(text);
    return after;
}

char *suite_answer(enum suite suite, const struct metric *m, const char *answer,
                   enum thinking thinking, enum thought *thought)
{
    char *text = m->extract ? m->extract(answer) : xstrdup(answer);
    char *bare = python_strip(text);
    const bool thinks = has_thinking(text);
    const bool keep = thinking == THINKING_KEEP;
    if (!keep && (suite == SUITE_OWN || (suite == SUITE_LLAVA && thinking == THINKING_STRIP)))
        text = strip_own(text);
    else if (!keep && suite == SUITE_LMMS_EVAL)
        text = strip_lmms_eval(text);
    else if (!keep && suite == SUITE_VLMEVALKIT)
        text = strip_vlmevalkit(text, m, thinking);
    char *now = python_strip(text);
    *thought = has_open_thinking(text)  ? THOUGHT_OPEN
               : strcmp(now, bare) != 0 ? THOUGHT_REMOVED
               : thinks                 ? THOUGHT_KEPT
                                        : THOUGHT_NONE;
    free(now);
    free(bare);
    if (suite != SUITE_VLMEVALKIT || !python_is_missing(text)) return text;
    free(text);
    return xstrdup("nan");
}
