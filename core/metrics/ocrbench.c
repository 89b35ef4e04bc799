// core/metrics/ocrbench.c -- OCRBench (Liu et al. 2024): does the answer contain one of the texts?
//
// Handwritten formulas (HME100k) are compared without spaces and case-sensitively; all other texts
// in lower case. lmms-eval folds full-width ASCII first. Sources:
// lmms_eval/tasks/ocrbench/utils.py, vlmeval/dataset/image_vqa.py.
#include <string.h>

#include "core/metrics/metric.h"
#include "core/metrics/python.h"

enum { FULL_FIRST = 0xFF01, FULL_LAST = 0xFF5E, FULL_STEP = 0xFEE0, WIDE_BLANK = 0x3000 };

static char *clean_vlmevalkit(struct scratch *s, const char *text)
{
    return python_replace(s, python_strip(s, python_lower(s, text), NULL), "\n", " ");
}

static char *clean_lmms_eval(struct scratch *s, const char *text)
{
    struct buf b = { 0 };
    size_t length;
    for (const char *p = text; *p; p += length) {
        const int32_t c = python_char(p, &length);
        if (c >= FULL_FIRST && c <= FULL_LAST)
            buf_putc(&b, (char)(c - FULL_STEP));
        else if (c == WIDE_BLANK)
            buf_putc(&b, ' ');
        else
            buf_add(&b, p, length);
    }
    return clean_vlmevalkit(s, scratch_take(s, &b));
}

static char *clean_formula(struct scratch *s, const char *text)
{
    const char *line = python_replace(s, python_strip(s, text, NULL), "\n", " ");
    return python_replace(s, line, " ", "");
}

static int score(const struct metric *m, const struct metric_case *c, struct metric_outcome *o,
                 struct err *err)
{
    const bool formula =
        c->kind && (!strcmp(c->kind, "Handwritten Mathematical Expression Recognition") ||
                    !strcmp(c->kind, "HME100k"));
    char *(*clean)(struct scratch * s, const char *text) = formula ? clean_formula : m->clean;
    if (!c->reference_count) return err_set(err, "the sample has no reference answer");
    const char *answer = clean(c->scratch, c->answer);
    *o = (struct metric_outcome){ .class = -1 };
    for (size_t i = 0; i < c->reference_count && !o->found; i++)
        if (strstr(answer, clean(c->scratch, c->references[i]))) o->found = c->references[i];
    o->score = o->found != NULL;
    return 0;
}

const struct metric metric_ocrbench_lmms_eval = {
    .name = "ocrbench-lmms-eval",
    .help = "Texts read from pictures as lmms-eval scores OCRBench.",
    .rule = "the answer contains one of the references, ignoring case and character width "
            "(full-width, half-width); handwritten formulas: ignoring spaces, but not case",
    .suite = SUITE_LMMS_EVAL,
    .clean = clean_lmms_eval,
    .score = score,
};

const struct metric metric_ocrbench_vlmevalkit = {
    .name = "ocrbench-vlmevalkit",
    .help = "Texts read from pictures as VLMEvalKit scores OCRBench.",
    .rule = "the answer contains one of the references, ignoring case; handwritten formulas: "
            "ignoring spaces, but not case",
    .suite = SUITE_VLMEVALKIT,
    .clean = clean_vlmevalkit,
    .score = score,
};
