// core/metrics/vqa.c -- short answers against those of ten people (VQAv2, TextVQA).
//
// Accuracy of an answer (Antol et al. 2015): for each person, min(1, others who said it / 3); the
// mean of it. The programs differ in how they clean texts up before they compare: the official
// vqaEval.py (GT-Vision-Lab/VQA) leaves all as it is where the people agree; EvalAI's processor,
// which LLaVA and lmms-eval take for TextVQA, does more than lmms-eval does for VQAv2; VLMEvalKit
// has its own punctuation.
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/metrics/metric.h"
#include "core/metrics/vqa_text.h"

static char *clean(char *text, struct vqa_text_rule rule)
{
    char *marks_out = vqa_text_punctuation(text, rule);
    char *result = vqa_text_digits_articles(marks_out);
    free(marks_out);
    free(text);
    return result;
}

static char *clean_official(const char *text)
{
    return clean(vqa_text_line(text), (struct vqa_text_rule){ 0 });
}

static char *clean_lmms_eval(const char *text)
{
    return clean(vqa_text_line(text), (struct vqa_text_rule){ .many_commas = true });
}

static char *clean_vlmevalkit(const char *text)
{
    return clean(vqa_text_line(text), (struct vqa_text_rule){ .keep_after_digit = true });
}

static int score(const struct metric_case *c, char *(*clean_up)(const char *),
                 struct metric_outcome *o, struct err *err)
{
    int64_t matching = 0;
    double sum = 0;
    if (!c->reference_count) return err_set(err, "the sample has no reference answer");
    char *answer = clean_up(c->answer);
    bool *same = xcalloc(c->reference_count, sizeof *same);
    for (size_t i = 0; i < c->reference_count; i++) {
        char *reference = clean_up(c->references[i]);
        same[i] = !strcmp(reference, answer);
        matching += same[i];
        free(reference);
    }
    for (size_t i = 0; i < c->reference_count; i++) {
        const double others = (double)(matching - same[i]) / 3;
        sum += others < 1 ? others : 1;
    }
    free(same);
    *o = (struct metric_outcome){ .score = sum / (double)c->reference_count,
                                  .class = -1,
                                  .found = answer };
    return 0;
}

static int score_evalai(const struct metric_case *c, struct metric_outcome *o, struct err *err)
{
    return score(c, vqa_text_evalai, o, err);
}

static int score_lmms_eval(const struct metric_case *c, struct metric_outcome *o, struct err *err)
{
    return score(c, clean_lmms_eval, o, err);
}

static int score_vlmevalkit(const struct metric_case *c, struct metric_outcome *o, struct err *err)
{
    return score(c, clean_vlmevalkit, o, err);
}

static int score_official(const struct metric_case *c, struct metric_outcome *o, struct err *err)
{
    bool agree = true;
    char *first = c->reference_count ? vqa_text_line(c->references[0]) : NULL;
    for (size_t i = 1; agree && i < c->reference_count; i++) {
        char *other = vqa_text_line(c->references[i]);
        agree = !strcmp(first, other);
        free(other);
    }
    free(first);
    return score(c, agree ? vqa_text_line : clean_official, o, err);
}

const struct metric metric_vqa_official = {
    .name = "vqa-official",
    .help = "Short answers as the official VQA evaluation scores them.",
    .rule =
        "mean over the people of min(1, others who gave the answer / 3), after the evaluation's "
        "clean-up, which is left out where all people agree",
    .way = METRIC_ANSWERS,
    .suite = SUITE_LLAVA,
    .score = score_official,
};

const struct metric metric_vqa_evalai = {
    .name = "vqa-evalai",
    .help = "Short answers as LLaVA and lmms-eval score TextVQA.",
    .rule = "mean over the people of min(1, others who gave the answer / 3), after EvalAI's "
            "clean-up (lower case, no commas and question marks, 's apart, digits, no articles)",
    .way = METRIC_ANSWERS,
    .suite = SUITE_LMMS_EVAL,
    .score = score_evalai,
};

const struct metric metric_vqa_lmms_eval = {
    .name = "vqa-lmms-eval",
    .help = "Short answers as lmms-eval scores VQAv2.",
    .rule =
        "mean over the people of min(1, others who gave the answer / 3), after EvalAI's clean-up "
        "of punctuation, digits and articles",
    .way = METRIC_ANSWERS,
    .suite = SUITE_LMMS_EVAL,
    .score = score_lmms_eval,
};

const struct metric metric_vqa_vlmevalkit = {
    .name = "vqa-vlmevalkit",
    .help = "Short answers as VLMEvalKit scores TextVQA.",
    .rule = "mean over the people of min(1, others who gave the answer / 3), after a clean-up that "
            "keeps full stops beside digits",
    .way = METRIC_ANSWERS,
    .suite = SUITE_VLMEVALKIT,
    .score = score_vlmevalkit,
};
