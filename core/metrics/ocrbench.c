// core/metrics/ocrbench.c -- OCRBench (Liu et al. 2024): is one of the texts in the answer?
//
// Handwritten formulas (HME100k) are compared without blanks and with their case; all else in lower
// case. lmms-eval folds full-width ASCII first. Sources: lmms_eval/tasks/ocrbench/utils.py,
// vlmeval/dataset/image_vqa.py.
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/metrics/metric.h"
#include "core/metrics/python.h"

enum { FULL_FIRST = 0xFF01, FULL_LAST = 0xFF5E, FULL_STEP = 0xFEE0, WIDE_BLANK = 0x3000 };

static char *fold(const char *text)
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
    return buf_take(&b);
}

static char *formula_form(const char *text)
{
    char *bare = python_strip(text), *line = python_replace(bare, "\n", " ");
    char *result = python_replace(line, " ", "");
    free(line);
    free(bare);
    return result;
}

static char *text_form(const char *text, bool folded)
{
    char *narrow = folded ? fold(text) : xstrdup(text), *lower = python_lower(narrow);
    char *bare = python_strip(lower), *result = python_replace(bare, "\n", " ");
    free(bare);
    free(lower);
    free(narrow);
    return result;
}

static bool is_formula(const char *kind)
{
    return kind && (!strcmp(kind, "Handwritten Mathematical Expression Recognition") ||
                    !strcmp(kind, "HME100k"));
}

static int score(const struct metric_case *c, bool folded, struct metric_outcome *o,
                 struct err *err)
{
    const bool formula = is_formula(c->kind);
    if (!c->reference_count) return err_set(err, "the sample has no reference answer");
    char *answer = formula ? formula_form(c->answer) : text_form(c->answer, folded);
    *o = (struct metric_outcome){ .class = -1 };
    for (size_t i = 0; i < c->reference_count && !o->found; i++) {
        char *reference =
            formula ? formula_form(c->references[i]) : text_form(c->references[i], folded);
        if (strstr(answer, reference)) o->found = xstrdup(c->references[i]);
        free(reference);
    }
    free(answer);
    o->score = o->found != NULL;
    return 0;
}

static int score_lmms_eval(const struct metric_case *c, struct metric_outcome *o, struct err *err)
{
    return score(c, true, o, err);
}

static int score_vlmevalkit(const struct metric_case *c, struct metric_outcome *o, struct err *err)
{
    return score(c, false, o, err);
}

const struct metric metric_ocrbench_lmms_eval = {
    .name = "ocrbench-lmms-eval",
    .help = "Texts read from pictures as lmms-eval scores OCRBench.",
    .rule = "one of the references is part of the answer, both in lower case and half-width; "
            "handwritten formulas with their case and without blanks",
    .way = METRIC_ANSWERS,
    .suite = SUITE_LMMS_EVAL,
    .share = true,
    .score = score_lmms_eval,
};

const struct metric metric_ocrbench_vlmevalkit = {
    .name = "ocrbench-vlmevalkit",
    .help = "Texts read from pictures as VLMEvalKit scores OCRBench.",
    .rule = "one of the references is part of the answer, both in lower case; handwritten formulas "
            "with their case and without blanks",
    .way = METRIC_ANSWERS,
    .suite = SUITE_VLMEVALKIT,
    .share = true,
    .score = score_vlmevalkit,
};
