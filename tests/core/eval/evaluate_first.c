// tests/core/eval/evaluate_first.c -- core/eval/evaluate_first.c: with a question asked before
// those of a sample, the answers equal those of a sample that contains that question and its
// answer. Also one first answer for several questions, cancellation, given answers, and metrics
// that need no first question.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
// needs the headers above
#include <cmocka.h>

#include "core/data/dataset.h"
#include "core/eval/answer_file.h"
#include "core/eval/evaluate.h"
#include "core/model/model.h"
#include "core/settings/settings.h"
#include "tests/core/scratch.h"
#include "tests/device.h"

#define FIRST    "What is at each place of the picture?"
#define QUESTION "How many objects are there?"
#define AND      "And?"
#define OTHER    "What colour is the background?"

// The tests' device, with its products counted; product number stop_at cancels (0: none).
static struct backend counting;
static int64_t products, stop_at;
static atomic_bool cancel;

static int matmul(struct tensor *y, const struct tensor *x, const struct tensor *w,
                  const struct tensor *bias, enum matmul_mode mode)
{
    if (++products == stop_at) atomic_store(&cancel, true);
    return test_device()->matmul(y, x, w, bias, mode);
}

struct fixture {
    struct model *model;
    struct settings *settings;
    struct err err;
};

static void set(struct fixture *f, const char *key, const char *value)
{
    if (settings_set(f->settings, key, value, &f->err) < 0) fail_msg("%s", f->err.text);
}

static void open_fixture(struct fixture *f)
{
    *f = (struct fixture){ .settings = settings_new() };
    counting = *test_device();
    counting.matmul = matmul;
    f->model = model_load("demo/model", &counting, NULL, &f->err);
    if (!f->model) fail_msg("%s", f->err.text);
    set(f, "sample.max_tokens", "100");
    set(f, "compute.matmul", "f32");
}

static void close_fixture(struct fixture *f)
{
    settings_free(f->settings);
    model_free(f->model);
}

struct told {
    int count;
    char *answers[8];
    double scores[8];
    bool cancelled, first; // first: the result names eval.first
};

static void told_release(struct told *t)
{
    for (int i = 0; i < t->count; i++) free(t->answers[i]);
    *t = (struct told){ 0 };
}

static bool keep(void *self, const struct evaluated *e)
{
    struct told *t = self;
    if (e->skipped) fail_msg("%s: %s", e->id, e->skipped);
    t->scores[t->count] = e->score;
    t->answers[t->count++] = xstrdup(e->answer);
    return true;
}

// data: JSON with ' for ". given: NULL, or answers that are scored instead.
static void evaluate_given(struct fixture *f, const char *data, const char *metric,
                           const struct answer_file *given, struct told *t)
{
    char *folder = scratch_new(), *json = xstrdup(data), *path = xasprintf("%s/data.json", folder);
    struct dataset set;
    struct evaluation e;
    for (char *c = json; *c; c++)
        if (*c == '\'') *c = '"';
    *t = (struct told){ 0 };
    products = 0;
    atomic_store(&cancel, false);
    scratch_write(folder, "data.json", json, strlen(json));
    if (dataset_open(&set, path, "demo/pictures/", &f->err) < 0) fail_msg("%s", f->err.text);
    const struct evaluate_request request = { .model = f->model,
                                              .backend = &counting,
                                              .settings = f->settings,
                                              .data = &set,
                                              .metric = metric ? metric_find(metric) : NULL,
                                              .answer_file = given,
                                              .cancel = &cancel,
                                              .report = keep,
                                              .self = t };
    if (evaluate_run(&request, &e, &f->err) < 0) fail_msg("%s", f->err.text);
    t->cancelled = e.cancelled;
    t->first = evaluation_first(&e);
    if (t->first)
        assert_string_equal(evaluation_first(&e), settings_text(f->settings, "eval.first"));
    // A process that only reads scores, as after the last sample, names it too.
    struct evaluate_request rest = request;
    free(e.first);
    e.first = NULL;
    rest.first = e.samples;
    if (!e.cancelled && evaluate_run(&rest, &e, &f->err) < 0) fail_msg("%s", f->err.text);
    if (!e.cancelled) assert_int_equal(evaluation_first(&e) != NULL, t->first);
    evaluation_release(&e);
    dataset_close(&set);
    scratch_remove(folder);
    free(path);
    free(json);
}

static void evaluate(struct fixture *f, const char *data, const char *metric, struct told *t)
{
    evaluate_given(f, data, metric, NULL, t);
}

#define ASKS(picture, question) "{'image':'" picture "','question':'" question "','answer':'x'}"

static char *written_out(const char *picture, const char *described, const char *question)
{
    return xasprintf("[{'image':'%s','conversations':[{'from':'human','value':'" FIRST "'},"
                     "{'from':'gpt','value':'%s'},{'from':'human','value':'%s'},"
                     "{'from':'gpt','value':'x'}]}]",
                     picture, described, question);
}

// Asks about one picture with FIRST as eval.first, and with FIRST and its answer written in the
// data, and expects the same answer. Returns whether the answer differs without FIRST.
static bool one_picture(struct fixture *f, int number)
{
    struct told described, plain, wanted, got;
    char *picture = xasprintf("scene-%d.png", number);
    char *first = xasprintf("[" ASKS("%s", FIRST) "]", picture);
    char *asked = xasprintf("[" ASKS("%s", AND) "]", picture);
    evaluate(f, first, "exact", &described);
    evaluate(f, asked, "exact", &plain);
    char *written = written_out(picture, described.answers[0] + 1, AND);
    evaluate(f, written, "exact", &wanted);
    assert_int_equal(wanted.count, 2);
    assert_string_equal(wanted.answers[0], described.answers[0]);
    set(f, "eval.first", FIRST);
    evaluate(f, asked, "exact", &got);
    set(f, "eval.first", "none");
    assert_int_equal(got.count, 1);
    assert_string_equal(got.answers[0], wanted.answers[1]);
    const bool other = strcmp(got.answers[0], plain.answers[0]) != 0;
    told_release(&described);
    told_release(&plain);
    told_release(&wanted);
    told_release(&got);
    free(picture);
    free(first);
    free(asked);
    free(written);
    return other;
}

// The demo model's answers are words of its tokenizer, so a file can hold them, without the space
// that the prompt's layout puts before an answer.
static void answers_equal_those_to_the_turns_in_the_data(void **state)
{
    struct fixture f;
    int others = 0;
#ifdef __SANITIZE_ADDRESS__
    const int enough = 1; // every picture takes the same code
#else
    const int enough = 8;
#endif
    open_fixture(&f);
    for (int i = 0; i < 8 && others < enough; i++) others += one_picture(&f, i);
    assert_true(others > 0);
    close_fixture(&f);
}

// The first answer about a picture serves all consecutive questions about it, each of which gets
// the same answer as alone; another picture needs a new first answer.
static void one_first_answer_per_picture(void **state)
{
    static const char *const each[] = { ASKS("scene-0.png", QUESTION), ASKS("scene-0.png", OTHER),
                                        ASKS("scene-1.png", QUESTION),
                                        ASKS("scene-0.png", QUESTION) };
    struct fixture f;
    struct told alone[4], all;
    int64_t sum = 0, first = 0;
    open_fixture(&f);
    set(&f, "eval.first", FIRST);
    for (int i = 0; i < 4; i++) {
        char *one = xasprintf("[%s]", each[i]);
        evaluate(&f, one, "exact", &alone[i]);
        sum += products;
        if (!i) first = products;
        free(one);
    }
    char *data = xasprintf("[%s,%s,%s,%s]", each[0], each[1], each[2], each[3]);
    evaluate(&f, data, "exact", &all);
    assert_int_equal(all.count, 4);
    for (int i = 0; i < 4; i++) {
        assert_string_equal(all.answers[i], alone[i].answers[0]);
        told_release(&alone[i]);
    }
    assert_true(products < sum - first / 2);
    told_release(&all);
    free(data);
    close_fixture(&f);
}

#define TURN(from, text) "{'from':'" from "','value':'" text "'}"
#define ANSWERED         "," TURN("gpt", "x")

// Consecutive samples that cannot share a first answer: two pictures in one turn or in two turns, a
// picture or none. The last sample gets the same answers as alone.
static void similar_samples_get_separate_first_answers(void **state)
{
    static const char *const pairs[][2] = {
        { "{'image':['scene-0.png','scene-1.png'],'conversations':[" TURN(
              "human", "<image>\\n<image>\\n" QUESTION) ANSWERED "]}",
          "{'image':['scene-0.png','scene-1.png'],'conversations':[" TURN("human", "<image>\\n" AND)
              ANSWERED "," TURN("human", "<image>\\n" AND) ANSWERED "]}" },
        { ASKS("scene-0.png", QUESTION) ",{'question':'" QUESTION "','answer':'x'}",
          "{'conversations':[" TURN("system", "Be short.") "," TURN("human", QUESTION) ANSWERED
          "]}" },
    };
    struct fixture f;
    open_fixture(&f);
    set(&f, "eval.first", FIRST);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct told alone, both;
        char *first = xasprintf("[%s]", pairs[i][0]), *one = xasprintf("[%s]", pairs[i][1]);
        char *two = xasprintf("[%s,%s]", pairs[i][0], pairs[i][1]);
        int64_t least;
        evaluate(&f, first, "exact", &alone);
        told_release(&alone);
        least = products;
        evaluate(&f, one, "exact", &alone);
        least += i ? 0 : products / 2; // the first question is asked again
        evaluate(&f, two, "exact", &both);
        assert_true(products > least);
        assert_true(both.count > alone.count);
        for (int k = 0; k < alone.count; k++)
            assert_string_equal(both.answers[both.count - alone.count + k], alone.answers[k]);
        told_release(&alone);
        told_release(&both);
        free(first);
        free(one);
        free(two);
    }
    close_fixture(&f);
}

// Wherever an evaluation is cancelled, it scores only complete answers.
static void cancelled_on_the_way(void **state)
{
    enum { PARTS = 7 };
    struct fixture f;
    struct told whole, part;
    int cancelled = 0;
    open_fixture(&f);
    set(&f, "eval.first", FIRST);
    evaluate(&f, "[" ASKS("scene-0.png", QUESTION) "]", "exact", &whole);
    const int64_t all = products;
    for (int i = 1; i <= PARTS; i++) {
        stop_at = all * i / (PARTS + 1);
        evaluate(&f, "[" ASKS("scene-0.png", QUESTION) "]", "exact", &part);
        cancelled += part.cancelled;
        assert_int_equal(part.count, part.cancelled ? 0 : 1);
        if (part.count) assert_string_equal(part.answers[0], whole.answers[0]);
        told_release(&part);
    }
    stop_at = 0;
    assert_true(cancelled > PARTS / 2);
    told_release(&whole);
    close_fixture(&f);
}

// With given answers the model computes nothing, except to rank choices.
static void choices_are_ranked_with_given_answers(void **state)
{
    static const char choices[] = "[{'id':'q','image':'scene-0.png','question':'" QUESTION
                                  "','choices':['red','blue'],'answer':0,'metric':'loglik'}]";
    static const char line[] = "{\"id\":\"q\",\"answer\":\"red\"}\n";
    struct fixture f;
    struct told t;
    char *folder = scratch_new(), *path = xasprintf("%s/answers.jsonl", folder);
    open_fixture(&f);
    set(&f, "eval.first", FIRST);
    scratch_write(folder, "answers.jsonl", line, strlen(line));
    struct answer_file *given = answer_file_read(path, &f.err);
    if (!given) fail_msg("%s", f.err.text);
    answer_file_add_question(given, "q", QUESTION, 0, 0);
    answer_file_match(given);
    evaluate_given(&f,
                   "[{'id':'q','image':'scene-0.png','question':'" QUESTION "','answer':'red'}]",
                   "exact", given, &t);
    assert_int_equal(products, 0);
    assert_false(t.first);
    assert_true(t.scores[0] == 1);
    told_release(&t);
    evaluate(&f, choices, "loglik", &t);
    const int64_t asked = products;
    told_release(&t);
    for (int own = 0; own < 2; own++) { // own: the metric that the sample names
        evaluate_given(&f, choices, own ? NULL : "loglik", given, &t);
        assert_int_equal(products, asked);
        assert_true(t.first);
        told_release(&t);
    }
    answer_file_free(given);
    close_fixture(&f);
    scratch_remove(folder);
    free(path);
}

// A first question costs nothing for losses and for questions without pictures, whose results stay
// the same; before ranked choices it is asked.
static void first_question_affects_only_some_metrics(void **state)
{
    static const struct {
        const char *data, *metric;
        bool named, changed;
    } cases[] = { { "[" ASKS("scene-0.png", QUESTION) "]", "loss", false, false },
                  { "[{'question':'" QUESTION "','answer':'x'}]", "exact", true, false },
                  { "[{'image':'scene-0.png','question':'" QUESTION
                    "','choices':['red','blue'],'answer':0}]",
                    "loglik", true, true } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture f;
        struct told without, with;
        open_fixture(&f);
        evaluate(&f, cases[i].data, cases[i].metric, &without);
        assert_false(without.first);
        const int64_t before = products;
        set(&f, "eval.first", FIRST);
        evaluate(&f, cases[i].data, cases[i].metric, &with);
        assert_int_equal(products > before, cases[i].changed);
        assert_int_equal(with.first, cases[i].named);
        if (!cases[i].changed) {
            assert_string_equal(with.answers[0], without.answers[0]);
            assert_true(with.scores[0] == without.scores[0]);
        }
        told_release(&with);
        set(&f, "eval.first", ""); // empty means none
        evaluate(&f, cases[i].data, cases[i].metric, &with);
        assert_int_equal(products, before);
        told_release(&without);
        told_release(&with);
        close_fixture(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_equal_those_to_the_turns_in_the_data),
        cmocka_unit_test(one_first_answer_per_picture),
        cmocka_unit_test(similar_samples_get_separate_first_answers),
        cmocka_unit_test(cancelled_on_the_way),
        cmocka_unit_test(choices_are_ranked_with_given_answers),
        cmocka_unit_test(first_question_affects_only_some_metrics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
