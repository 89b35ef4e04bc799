// tests/core/metrics/suites.c -- the rules of the suites and their pre- and postprocessing against
// the suites' own functions: answers (most of them random), scored once by lmms-eval, VLMEvalKit,
// LLaVA, the sets' official evaluations and pycocoevalcap. pipelines.jsonl.xz has thinking, missing
// choices and answers that a table loses.
//
// tests/core/metrics/suites/NAME.jsonl.xz holds one case per line: "a" the answer, "r" references,
// "c" choices, "n" the number of the right choice, "k" kind, "t" --thinking, "su" the suite if not
// the metric's own, "s" the scores by metric. Other keys are not read.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// needs the headers above
#include <cmocka.h>

#include "core/base/json.h"
#include "core/base/scratch.h"
#include "core/metrics/python.h"
#include "core/metrics/suite.h"

enum { TEXTS = 16, RULES = 32, PIPELINES = 1249 };

// Sums of a file by metric.
struct sums {
    const struct metric *metric[RULES];
    struct metric_tally tally[RULES];
    int count;
};

static struct metric_tally *sum_of(struct sums *s, const struct metric *m)
{
    for (int i = 0; i < s->count; i++)
        if (s->metric[i] == m) return &s->tally[i];
    assert_true(s->count < RULES);
    s->metric[s->count] = m;
    return &s->tally[s->count++];
}

static size_t list_texts(const cJSON *list, const char **texts)
{
    const cJSON *item;
    size_t n = 0;
    cJSON_ArrayForEach(item, list)
    {
        assert_true(n < TEXTS);
        texts[n++] = item->valuestring;
    }
    return n;
}

static void *corpora[METRIC_COUNT]; // by index in metrics[]; only caption metrics have one

static int number_of(const struct metric *m)
{
    int i = 0;
    while (metrics[i] != m) i++;
    return i;
}

static void check_case(const cJSON *line, struct sums *sums, int *bad)
{
    const char *references[TEXTS], *choices[TEXTS];
    const cJSON *right = json_get(line, "n"), *kind = json_get(line, "k"), *rule;
    const cJSON *suite = json_get(line, "su");
    const char *raw = json_get(line, "a")->valuestring;
    struct metric_case c = { .kind = kind ? kind->valuestring : "",
                             .references = references,
                             .choices = choices,
                             .right = right ? right->valueint : -1 };
    c.reference_count = list_texts(json_get(line, "r"), references);
    c.choice_count = list_texts(json_get(line, "c"), choices);
    cJSON_ArrayForEach(rule, json_get(line, "s"))
    {
        const struct metric *m = metric_find(rule->string);
        struct metric_outcome o;
        struct err err;
        enum thought thought;
        assert_non_null(m);
        struct scratch scratch = { 0 };
        // The set's reader marks choices that the table loses.
        const char *marked[TEXTS];
        for (size_t i = 0; i < c.choice_count; i++)
            marked[i] = python_is_missing(choices[i]) ? "nan" : choices[i];
        c.choices = m == &metric_mmbench_lmms_eval ? marked : choices;
        c.scratch = &scratch;
        c.answer =
            suite_answer(&scratch, suite ? suite_find(suite->valuestring) : m->suite, m, raw, NULL,
                         json_get(line, "t") ? THINKING_STRIP : THINKING_AUTO, &thought);
        c.corpus = corpora[number_of(m)];
        if (m->score(m, &c, &o, &err) < 0) fail_msg("%s: %s", m->name, err.text);
        if (fabs(o.score - rule->valuedouble) > 1e-6 && ++*bad <= 20)
            printf("%s: '%s' scores %g, the suite's function %g (found %s)\n", m->name, raw,
                   o.score, rule->valuedouble, o.found ? o.found : "nothing");
        metric_tally_add(sum_of(sums, m), &o);
        scratch_release(&scratch);
    }
}

// All lines, parsed.
static cJSON **read_cases(const char *name, int *count)
{
    char *command = xasprintf("xz -dc tests/core/metrics/suites/%s.jsonl.xz", name);
    // A name from this file, not from a user.
    FILE *f = popen(command, "r"); // NOLINT(cert-env33-c)
    cJSON **cases = NULL;
    char *text = NULL;
    size_t room = 0;
    ssize_t n;
    assert_non_null(f);
    for (*count = 0; (n = getline(&text, &room, f)) > 0; ++*count) {
        cases = xreallocarray(cases, (size_t)*count + 1, sizeof(cJSON *));
        cases[*count] = json_parse(text, (size_t)n, name, NULL);
        assert_non_null(cases[*count]);
    }
    assert_int_equal(pclose(f), 0);
    free(text);
    free(command);
    return cases;
}

static void check_file(const char *name, int expected, struct sums *sums)
{
    int count, bad = 0;
    cJSON **cases = read_cases(name, &count);
    *sums = (struct sums){ 0 };
    assert_int_equal(count, expected);
    for (int i = 0; i < count; i++) check_case(cases[i], sums, &bad);
    for (int i = 0; i < count; i++) cJSON_Delete(cases[i]);
    free(cases);
    if (bad) fail_msg("%s: %d scores differ", name, bad);
}

// --- totals --------------------------------------------------------------------------------------

static void check_number(const struct sums *s, const char *metric, const char *name,
                         double expected)
{
    struct metric_number numbers[METRIC_NUMBERS];
    const struct metric *m = metric_find(metric);
    int i = 0, at = 0;
    while (s->metric[at] != m) at++;
    const int n = m->summary(&s->tally[at], numbers);
    if (!strcmp(name, "score")) {
        assert_true(fabs(s->tally[at].scores.mean - expected) < 1e-6);
        return;
    }
    while (i < n && strcmp(numbers[i].name, name) != 0) i++;
    assert_true(i < n);
    if (fabs(numbers[i].value - expected) > 1e-6)
        fail_msg("%s: %s is %.9g, not %.9g", metric, name, numbers[i].value, expected);
}

static void test_yesno(void **state)
{
    struct sums s;
    check_file("yesno", 1000, &s);
    check_number(&s, "pope-llava", "precision", 0.507352941176);
    check_number(&s, "pope-llava", "recall", 0.811764705882);
    check_number(&s, "pope-llava", "F1", 0.62443438914);
    check_number(&s, "pope-llava", "share of yes", 0.816);
    check_number(&s, "pope-llava", "score", 0.502);
    check_number(&s, "pope-lmms-eval", "precision", 0.571428571429);
    check_number(&s, "pope-lmms-eval", "recall", 0.444444444444);
    check_number(&s, "pope-lmms-eval", "F1", 0.5);
    check_number(&s, "pope-lmms-eval", "share of yes", 0.51);
    check_number(&s, "yesno-vlmevalkit", "F1", 0.208398133748);
    check_number(&s, "yesno-vlmevalkit", "precision", 0.503759398496);
    check_number(&s, "yesno-vlmevalkit", "recall", 0.13137254902);
    check_number(&s, "yesno-vlmevalkit", "score", 0.191);
}

static void test_vqa(void **state)
{
    struct sums s;
    check_file("vqa", 1000, &s);
}

static void test_choices(void **state)
{
    struct sums s;
    check_file("choices", 1500, &s);
    assert_int_equal(s.count, 9);
}

static void test_open(void **state)
{
    struct sums s;
    check_file("open", 1000, &s);
}

static void test_ocr(void **state)
{
    struct sums s;
    check_file("ocr", 1000, &s);
}

static void test_pipelines(void **state)
{
    struct sums s;
    check_file("pipelines", PIPELINES, &s);
}

// Cases of ChartQA, DocVQA, GQA, RealWorldQA, MMMU-Pro, BLINK, CV-Bench, EmbSpatial-Bench,
// MuirBench, MME-RealWorld.
static void test_later(void **state)
{
    struct sums s;
    check_file("later", 2444, &s);
    assert_int_equal(s.count, 17);
}

// Answers of public bug reports about the rules; "from" names the report.
static void test_reports(void **state)
{
    struct sums s;
    check_file("reports", 146, &s);
    assert_int_equal(s.count, 21);
}

static void test_boxes(void **state)
{
    struct sums s;
    check_file("boxes", 700, &s);
    assert_int_equal(s.count, 5);
    check_number(&s, "box-lmms-eval", "IoU", 0.108455589706);
    check_number(&s, "box-lmms-eval", "Center_ACC", 0.135);
    check_number(&s, "box-lmms-eval", "ACC@0.1", 0.135);
    check_number(&s, "box-lmms-eval", "ACC@0.9", 0.04);
    check_number(&s, "box-vlmevalkit", "IoU", 0.481134321436);
}

static void test_captions(void **state)
{
    static const char *const names[] = { "cider", "cider-vlmevalkit" };
    int count;
    struct sums s;
    cJSON **cases = read_cases("captions", &count);
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        const struct metric *m = metric_find(names[k]);
        void *corpus = corpora[number_of(m)] = m->corpus_new();
        for (int i = 0; i < count; i++) {
            const char *references[TEXTS];
            const size_t n = list_texts(json_get(cases[i], "r"), references);
            m->corpus_add(m, corpus, references, n);
        }
    }
    for (int i = 0; i < count; i++) cJSON_Delete(cases[i]);
    free(cases);
    check_file("captions", 300, &s);
    assert_int_equal(s.count, 2);
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        const struct metric *m = metric_find(names[k]);
        m->corpus_free(corpora[number_of(m)]);
        corpora[number_of(m)] = NULL;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_yesno),     cmocka_unit_test(test_vqa),
        cmocka_unit_test(test_choices),   cmocka_unit_test(test_open),
        cmocka_unit_test(test_ocr),       cmocka_unit_test(test_captions),
        cmocka_unit_test(test_pipelines), cmocka_unit_test(test_later),
        cmocka_unit_test(test_boxes),     cmocka_unit_test(test_reports),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
