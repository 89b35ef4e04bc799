// core/metrics/short.c -- short answers: relaxed accuracy (ChartQA), ANLS (DocVQA, InfoVQA), and
// equality as GQA's scorers define it.
//
// Sources: tasks/chartqa/utils.py, api/metrics.py (anls, exact_match) of lmms-eval;
// dataset/utils/vqa_eval.py of VLMEvalKit; scripts/convert_gqa_for_eval.py of LLaVA with GQA's
// eval.py.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/metrics/metric.h"
#include "core/metrics/python.h"

// --- relaxed accuracy ----------------------------------------------------------------------------

static const double tolerance = 0.05;

// Reads a number; "12%" is 0.12.
static bool read_number(struct scratch *s, const char *text, double *number)
{
    size_t n = strlen(text);
    if (!n || text[n - 1] != '%') return python_float(s, text, number);
    while (n && text[n - 1] == '%') n--;
    const bool good = python_float(s, scratch_dup(s, text, n), number);
    *number /= 100;
    return good;
}

// True for a number within 5% of a nonzero target, and for equal text, ignoring case.
static bool relaxed(struct scratch *s, const char *said, const char *target)
{
    double a, b;
    if (read_number(s, said, &a) && read_number(s, target, &b) && b != 0)
        return fabs(a - b) / fabs(b) <= tolerance;
    return !strcmp(python_lower(s, said), python_lower(s, target));
}

static int score_relaxed(const struct metric *m, const struct metric_case *c,
                         struct metric_outcome *o, struct err *err)
{
    const char *said = python_strip(c->scratch, c->answer, NULL);
    if (!c->reference_count) return err_set(err, "the sample has no reference answer");
    *o = (struct metric_outcome){ .class = -1, .found = said };
    for (size_t i = 0; i < c->reference_count && o->score == 0; i++)
        o->score = m == &metric_relaxed_swapped ? relaxed(c->scratch, c->references[i], said)
                                                : relaxed(c->scratch, said, c->references[i]);
    return 0;
}

// --- ANLS ----------------------------------------------------------------------------------------

// Longest accepted answer in bytes: the time grows with the product of the lengths.
enum { LONGEST = 20000 };

static int32_t *characters(const char *text, size_t *count)
{
    int32_t *list = xcalloc(strlen(text) + 1, sizeof *list);
    size_t length;
    for (*count = 0; *text; text += length) list[(*count)++] = python_char(text, &length);
    return list;
}

// Returns the Levenshtein distance, in characters.
static size_t distance(const char *a, const char *b)
{
    size_t na, nb;
    int32_t *x = characters(a, &na), *y = characters(b, &nb);
    size_t *row = xcalloc(na + 1, sizeof *row);
    for (size_t i = 0; i <= na; i++) row[i] = i;
    for (size_t k = 0; k < nb; k++) {
        size_t corner = row[0]++;
        for (size_t i = 0; i < na; i++) {
            const size_t above = row[i + 1];
            size_t least = above < row[i] ? above : row[i];
            if (corner < least) least = corner;
            row[i + 1] = x[i] == y[k] ? corner : least + 1;
            corner = above;
        }
    }
    const size_t found = row[na];
    free(row);
    free(x);
    free(y);
    return found;
}

static int score_anls(const struct metric *m, const struct metric_case *c, struct metric_outcome *o,
                      struct err *err)
{
    struct scratch *s = c->scratch;
    const char *said = python_words(s, python_lower(s, c->answer));
    const size_t length = python_upper_length(c->answer);
    double least = 1;
    if (!c->reference_count) return err_set(err, "the sample has no reference answer");
    if (strlen(said) > LONGEST) return err_set(err, "the answer has more than %d bytes", LONGEST);
    for (size_t i = 0; i < c->reference_count; i++) {
        const char *right = python_words(s, python_lower(s, c->references[i]));
        const size_t other = python_upper_length(c->references[i]);
        const double longer = (double)(other > length ? other : length);
        const double share = longer > 0 ? (double)distance(right, said) / longer : 0;
        if (share < least) least = share;
    }
    *o = (struct metric_outcome){ .score = 1 - least < 0.5 ? 0 : 1 - least,
                                  .class = -1,
                                  .found = said };
    return 0;
}

// --- equality ------------------------------------------------------------------------------------

static char *clean_punctuation(struct scratch *s, const char *text)
{
    return python_drop_punctuation(s, python_lower(s, text));
}

static char *clean_case(struct scratch *s, const char *text)
{
    return python_lower(s, python_strip(s, text, NULL));
}

static char *clean_stops(struct scratch *s, const char *text)
{
    size_t n = strlen(text);
    while (n && text[n - 1] == '.') n--;
    return python_lower(s, scratch_dup(s, text, n));
}

static int score_same(const struct metric *m, const struct metric_case *c, struct metric_outcome *o,
                      struct err *err)
{
    struct scratch *s = c->scratch;
    const char *said = m->clean(s, c->answer);
    if (!c->reference_count) return err_set(err, "the sample has no reference answer");
    *o = (struct metric_outcome){ .class = -1, .found = said };
    for (size_t i = 0; i < c->reference_count && o->score == 0; i++) {
        const char *right = c->references[i];
        // GQA's own script does not normalise the reference.
        if (m != &metric_gqa_llava) right = m->clean(s, right);
        o->score = !strcmp(said, right);
    }
    return 0;
}

// --- the table -----------------------------------------------------------------------------------

const struct metric metric_relaxed = {
    .name = "relaxed",
    .help = "Relaxed accuracy (ChartQA): numbers may differ by 5%.",
    .rule = "the answer is a number within 5% of the reference (\"12%\" is 0.12); if the "
            "reference is 0, or either is not a plain number (has commas or a unit), both must "
            "be the same text, ignoring case",
    .score = score_relaxed,
};

const struct metric metric_relaxed_swapped = {
    .name = "relaxed-swapped",
    .help = "Relaxed accuracy as InternVL's and Qwen-VL's programs score ChartQA.",
    .rule = "as relaxed, but the reference must be within 5% of the answer",
    .suite = SUITE_OFFICIAL,
    .score = score_relaxed,
};

const struct metric metric_anls = {
    .name = "anls",
    .help = "ANLS (DocVQA, InfoVQA): similarity to the closest reference by edit distance.",
    .rule = "1 - edit distance / length of the longer text, ignoring case and repeated white "
            "space; the best over the references; 0 below 0.5",
    .graded = true,
    .score = score_anls,
};

static int score_nothing(const struct metric *m, const struct metric_case *c,
                         struct metric_outcome *o, struct err *err)
{
    *o = (struct metric_outcome){ .class = -1, .found = c->answer };
    return 0;
}

const struct metric metric_mmvet = {
    .name = "mmvet",
    .help = "Scores nothing: a language model judges answers to MM-Vet.",
    .rule = "every answer scores 0, as in lmms-eval without a judge; --submit FILE writes the "
            "answers for MM-Vet's own script",
    .graded = true,
    .score = score_nothing,
};

const struct metric metric_gqa_lmms_eval = {
    .name = "gqa-lmms-eval",
    .help = "Short answers as lmms-eval scores GQA.",
    .rule = "the whole answer equals the reference, ignoring case and ASCII punctuation",
    .suite = SUITE_LMMS_EVAL,
    .clean = clean_punctuation,
    .score = score_same,
};

const struct metric metric_gqa_vlmevalkit = {
    .name = "gqa-vlmevalkit",
    .help = "Short answers as VLMEvalKit scores GQA.",
    .rule = "the whole answer equals the reference, ignoring case; punctuation counts",
    .suite = SUITE_VLMEVALKIT,
    .clean = clean_case,
    .score = score_same,
};

const struct metric metric_gqa_llava = {
    .name = "gqa-llava",
    .help = "Short answers as LLaVA and GQA's eval.py score GQA.",
    .rule = "the answer in lower case, without full stops at its end, equals the reference",
    .suite = SUITE_LLAVA,
    .clean = clean_stops,
    .score = score_same,
};
