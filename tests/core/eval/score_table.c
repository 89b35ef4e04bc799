// tests/core/eval/score_table.c -- core/eval/score_table.c and score_plan.c: numbers of a table
// computed by hand, paired differences, the mean over sets; lines of a plan; the sets that
// files and folders name.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
// needs the headers above
#include <cmocka.h>

#include "core/base/mem.h"
#include "core/eval/evaluate_parts.h"
#include "core/eval/score_plan.h"
#include "core/eval/score_table.h"
#include "core/lists.h"
#include "core/sets/total.h"
#include "tests/core/scratch.h"

// Adds a cell whose samples have these scores ("1101"; "-": not scored). With a total of groups,
// each has a group of its own.
static void add_total(struct score_table *t, const char *row, const char *set, const char *metric,
                      const struct set_total *total, const char *scores)
{
    struct evaluation e = { .total = total };
    struct score_answer answers[32];
    size_t n = 0;
    for (size_t i = 0; scores[i]; i++) {
        e.samples++;
        const char group[] = { total == &set_total_circular ? (char)('a' + i) : (char)0, 0 };
        const struct evaluated q = { .metric = metric_find(metric),
                                     .kind = "",
                                     .group = group,
                                     .done = (int64_t)i + 1,
                                     .score = scores[i] - '0',
                                     .class = -1 };
        if (scores[i] == '-') continue;
        evaluation_note(&e, &q);
        answers[n++] = (struct score_answer){ (int64_t)i + 1, q.metric, q.score };
    }
    evaluate_totals(&e);
    score_table_add(t, row, -1, set, &e, answers, n);
    evaluation_release(&e);
}

static void add(struct score_table *t, const char *row, const char *set, const char *metric,
                const char *scores)
{
    add_total(t, row, set, metric, NULL, scores);
}

static const char *at(const struct csv *t, size_t row, const char *column)
{
    return csv_cell(t, row, csv_column(t, column));
}

static void numbers_are_those_of_papers(void **state)
{
    struct score_table t = { 0 };
    struct csv wide = { 0 }, each = { 0 }, compared = { 0 };
    add(&t, "base", "A", "exact", "11001010");
    add(&t, "base", "B", "exact", "1000");
    add(&t, "base", "C", "loss", "2222");
    add(&t, "more", "A", "exact", "11111110");
    add(&t, "more", "B", "exact", "1000");
    add(&t, "more", "C", "loss", "1111");
    add(&t, "base", "D", "cider",
        "51"); // printed times 100, but may exceed 1, so the mean over sets excludes it
    add(&t, "more", "D", "cider", "51");
    score_table_finish(&t);
    score_table_wide(&t, &wide);
    assert_string_equal(at(&wide, 0, "A"), "50.00");
    assert_string_equal(at(&wide, 1, "B"), "25.00 (+0.00)");
    assert_string_equal(at(&wide, 1, "C"), "1.0000 (-1.0000*)");
    assert_string_equal(at(&wide, 0, "Avg"), "37.50");
    assert_string_equal(at(&wide, 0, "D"), "300.00");
    // (87.5 + 25) / 2; relative to the first row, over A, B and D: (87.5 / 50 - 1 + 0 + 0) / 3
    assert_memory_equal(at(&wide, 1, "Avg"), "56.25 (+18.75", strlen("56.25 (+18.75"));
    assert_string_equal(at(&wide, 1, "Improve %"), "+25.00");
    score_table_long(&t, &each);
    assert_int_equal(each.row_count, 10);
    assert_string_equal(at(&each, 6, "difference low"), "0"); // paired: no question differs
    assert_string_equal(at(&each, 6, "difference high"), "0");
    assert_string_equal(at(&each, 5, "n"), "8");
    score_table_compare(&t, "more", "base", &compared);
    assert_string_equal(at(&compared, 0, "difference"), "-37.5");
    csv_release(&wide);
    csv_release(&each);
    csv_release(&compared);
    score_table_release(&t);
}

static void repetitions_are_averaged(void **state)
{
    struct score_table t = { 0 };
    add(&t, "a", "A", "exact", "1111");
    add(&t, "b", "A", "exact", "1100");
    add(&t, "b", "A", "exact", "1110");
    score_table_finish(&t);
    assert_int_equal(t.rows.count, 2);
    assert_float_equal(t.cells[1][0].mean.value, 62.5, 1e-9);
    const struct score_value d = score_table_difference(&t, 0, 1, 0);
    assert_float_equal(d.value, -37.5, 1e-9);
    assert_true(d.low < d.value && d.value < d.high);
    free(d.draws);
    assert_true(t.averaged < 2);
    score_table_release(&t);
}

// Rows are paired if they have the same samples, even if one row could not score some of them, but
// not if one has fewer samples.
static void pairs_are_of_the_same_samples(void **state)
{
    struct score_table t = { 0 };
    add(&t, "a", "A", "exact", "1010101");
    add(&t, "b", "A", "exact", "101-10-");
    add(&t, "c", "A", "exact", "101");
    add(&t, "d", "B", "exact", "11");
    score_table_finish(&t);
    struct score_value d = score_table_difference(&t, 0, 1, 0);
    assert_true(d.low <= d.value && d.value <= d.high);
    free(d.draws);
    d = score_table_difference(&t, 0, 2, 0);
    assert_true(isfinite(d.value) && isnan(d.low));
    assert_true(isnan(t.average[0].value)); // no score on B
    assert_true(isnan(t.cells[3][0].mean.value));
    score_table_release(&t);
}

// Rows may miss different samples: the interval of a set with a total pairs samples as that of a
// plain mean does. Draws of different groups do not pair.
static void totals_pair(void **state)
{
    static const char *const scores[] = { "-10110100110101101", "110110100110101-01",
                                          "11011010011010110-" };
    static const char *const rows[] = { "a", "b", "c" };
    struct score_table t = { 0 };
    for (int i = 0; i < 3; i++) {
        add(&t, rows[i], "plain", "exact", scores[i]);
        add_total(&t, rows[i], "mean", "exact", &set_total_kinds, scores[i]);
        add_total(&t, rows[i], "groups", "exact", &set_total_circular, scores[i < 2 ? i : 0]);
    }
    score_table_finish(&t);
    for (size_t row = 1; row < 3; row++) {
        const struct score_value plain = score_table_difference(&t, 0, row, 0),
                                 mean = score_table_difference(&t, 0, row, 1),
                                 groups = score_table_difference(&t, 0, row, 2);
        assert_true(plain.low < plain.value && plain.value < plain.high);
        assert_true(fabs(mean.low - plain.low) < 1e-9 && fabs(mean.high - plain.high) < 1e-9);
        assert_true(row == 1 ? isnan(groups.low) && isfinite(groups.value)
                             : groups.low == 0 && groups.high == 0);
        free(plain.draws);
        free(mean.draws);
        free(groups.draws);
    }
    score_table_release(&t);
}

// Papers print MMMU's validation split; its interval is that of its own questions.
static void sets_are_quoted_by_their_split(void **state)
{
    struct score_table t = { 0 };
    struct evaluation e = { .total = &set_total_splits };
    for (int i = 0; i < 40; i++) {
        const struct evaluated q = { .metric = metric_find("exact"),
                                     .kind = "",
                                     .group = i % 2 ? "validation" : "dev",
                                     .score = i % 2,
                                     .class = -1 };
        evaluation_note(&e, &q);
    }
    evaluate_totals(&e);
    score_table_add(&t, "a", -1, "mmmu", &e, NULL, 0);
    score_table_finish(&t);
    static const char *const names[] = { "mmmu dev", "mmmu" };
    for (int c = 0; c < 2; c++) {
        const struct score_value *v = &t.cells[0][c].mean;
        assert_string_equal(t.columns.list[c], names[c]);
        assert_true(v->value == 100 * c && v->low == 100 * c && v->high == 100 * c);
    }
    evaluation_release(&e);
    score_table_release(&t);
}

static struct score_plan read_plan(const char *folder, const char *lines, struct err *err)
{
    struct score_plan p;
    char *path = xasprintf("%s/plan", folder);
    scratch_write(folder, "plan", lines, strlen(lines));
    *err = (struct err){ 0 };
    if (score_plan_read(&p, path, 7, err) < 0) assert_true(*err->text);
    free(path);
    return p;
}

static void plans_are_multiplied(void **state)
{
    struct err err;
    char *folder = scratch_new(), *text, *run = xasprintf("%s/run", folder);
    scratch_write(folder, "set.json", "[]", 2);
    text = xasprintf("# a plan\n"
                     "set one: %s/set.json --limit 3\nset \"two\": \"%s/set.json\" --metric loss\n"
                     "row a:\nrow b: model=own prune.seed={seed}\n"
                     "model x: m/x\nmodel y: m/y\nseeds 1 2\ncompare a, y | b\n",
                     folder, folder);
    struct score_plan p = read_plan(folder, text, &err);
    free(text);
    assert_string_equal(err.text, "");
    assert_int_equal(p.sets.count, 2);
    assert_int_equal(p.sets.list[0].options.limit, 3);
    assert_int_equal(p.sets.list[1].options.limit, 7);
    assert_string_equal(p.sets.list[1].name, "two");
    static const char *const names[] = { "a, x", "a, y", "b", "b" };
    static const char *const models[] = { "m/x", "m/y", "own", "own" };
    assert_int_equal(p.row_count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(p.rows[i].name, names[i]);
        assert_string_equal(p.rows[i].model, models[i]);
    }
    assert_non_null(strstr(p.rows[3].words, "prune.seed=2"));
    score_plan_release(&p);

    static const char *const wrong[][2] = {
        { "row a: off\n", "needs a line 'set NAME: DATA', 'sets DIR' or 'sets FILE'" },
        { "sat one: x\n", "cannot begin with 'sat': use set NAME: DATA, sets DIR, sets FILE" },
        { "\nset one: /none --limit 0\n", "plan:2: set one: " },
        { "set : x\n", "write 'set NAME: ...'" },
        { "sets /none\n", "cannot read '/none'" },
        { "seeds\n", "a line of a plan cannot begin with 'seeds': use" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        p = read_plan(folder, wrong[i][0], &err);
        assert_non_null(strstr(err.text, wrong[i][1]));
    }
    // Models of the same name are repetitions; the same model may have two names.
    text = xasprintf("set one: %s/set.json\nmodel x: m/1\nmodel x: m/2\nmodel y: m/1\n", folder);
    p = read_plan(folder, text, &err);
    free(text);
    assert_string_equal(err.text, "");
    assert_int_equal(p.row_count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(p.rows[i].name, i < 2 ? "x" : "y");
        assert_string_equal(p.rows[i].model, i == 1 ? "m/2" : "m/1");
    }
    score_plan_release(&p);
    struct buf many = { 0 };
    buf_printf(&many, "set one: %s/set.json\n", folder);
    for (int i = 0; i < 101; i++) buf_printf(&many, "row %d: x{seed}\nmodel %d: m%d\n", i, i, i);
    p = read_plan(folder, many.data, &err);
    assert_non_null(strstr(err.text, "a plan has at most 10000 rows"));
    buf_release(&many);
    text = xasprintf("set one: %s/set.json\ncheckpoints %s\n", folder, run);
    p = read_plan(folder, text, &err);
    assert_non_null(strstr(err.text, "has no checkpoints with weights"));
    free(text);
    scratch_text(folder, "run/checkpoint-20/config.json", "{}");
    scratch_text(folder, "run/checkpoint-5/config.json", "{}");
    scratch_text(folder, "run/checkpoint-5/adapter_config.json", "{}");
    text = xasprintf("set one: %s/set.json\nrow a: off\nrow b: off\ncheckpoints b: %s ira.on=on\n",
                     folder, run);
    p = read_plan(folder, text, &err);
    assert_string_equal(err.text, "");
    static const char *const steps[] = { "a", "b, step 0", "b, step 5", "b, step 20" };
    assert_int_equal(p.row_count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(p.rows[i].name, steps[i]);
        assert_true(!p.rows[i].model == (i < 2));
        assert_true((strstr(p.rows[i].words, "ira.on=on") != NULL) == (i > 1));
    }
    assert_non_null(strstr(p.rows[2].words, "adapter="));
    assert_null(strstr(p.rows[3].words, "adapter="));
    score_plan_release(&p);
    free(text);
    text = xasprintf("set one: %s/set.json\nrow a: x={seed},{seed}\nseeds {seed}\n", folder);
    p = read_plan(folder, text, &err);
    assert_string_equal(p.rows[0].words, "x={seed},{seed}");
    score_plan_release(&p);
    free(text);
    static const char *const unknown[][2] = {
        { "compare a | b", "compare: there is no row 'a'; the rows are " },
        { "row a: off\ncheckpoints A: run", "checkpoints: there is no row 'A'; the rows are 'a'" },
        { "row a: off\nseeds 1 2", "seeds: no row contains {seed}" },
        { "row a: model=own\nmodel x: m/x", "model x is unused: every row names its own model" },
    };
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        text = xasprintf("set one: %s/set.json\n%s\n", folder, unknown[i][0]);
        p = read_plan(folder, text, &err);
        assert_non_null(strstr(err.text, unknown[i][1]));
        free(text);
    }
    free(run);
    scratch_remove(folder);
}

// The sets of official files, some of whose names contain another set's name, or no set's.
static void official_files_name_their_sets(void **state)
{
    static const char tsv[] = "index\tquestion\tanswer\n", json[] = "{\"questions\": []}";
    static const char *const files[][3] = {
        { "v2_OpenEnded_mscoco_val2014_questions.json", json, "vqav2" },
        { "v2_mscoco_val2014_annotations.json", json, NULL },
        { "OpenEnded_mscoco_val2014_questions.json", json, "okvqa" },
        { "mscoco_val2014_annotations.json", json, NULL },
        { "captions_val2017.json", json, "coco" },
        { "dataset_coco.json", json, "coco" },
        { "problems.json", json, "scienceqa" },
        { "coco_pope_random.json", json, "pope" },
        { "RefCOCO.tsv", tsv, "refcoco" },
        { "SEEDBench_IMG.tsv", tsv, "seed" },
        { "SEEDBench2_Plus.tsv", tsv, "seed2-plus" },
        { "MMMU_DEV_VAL.tsv", tsv, "mmmu" },
        { "MMMU_Pro_10c.tsv", tsv, "mmmu-pro" },
        { "MMMU_Pro_V.tsv", tsv, "mmmu-pro-vision" },
        { "MME-RealWorld-CN.tsv", tsv, "mme-realworld-cn" },
        { "VLMBlind.tsv", tsv, "vlms-are-blind" },
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct err err = { 0 };
        struct score_plan p;
        char *folder = scratch_new();
        scratch_write(folder, files[i][0], files[i][1], strlen(files[i][1]));
        const int status = score_plan_of_sets(&p, folder, NULL, 0, &err);
        assert_int_equal(status, files[i][2] ? 0 : -1);
        if (files[i][2]) assert_string_equal(p.sets.list[0].name, files[i][2]);
        if (files[i][2]) score_plan_release(&p);
        scratch_remove(folder);
    }
}

// A data set that has the name of an official file by chance stays a data set.
static void data_sets_keep_their_kind(void **state)
{
    static const char *const files[] = { "captions_mine.json", "problems.json", "test_human.json" };
    static const char samples[] = "[{\"conversations\": [{\"from\": \"human\", \"value\": \"a?\"}, "
                                  "{\"from\": \"gpt\", \"value\": \"b\"}]}]";
    struct err err = { 0 };
    struct score_plan p;
    char *folder = scratch_new();
    for (int i = 0; i < 3; i++) scratch_text(folder, files[i], samples);
    if (score_plan_of_sets(&p, folder, NULL, 0, &err) < 0) fail_msg("%s", err.text);
    assert_int_equal(p.sets.count, 3);
    for (int i = 0; i < 3; i++) {
        assert_memory_equal(p.sets.list[i].name, files[i], strlen(p.sets.list[i].name));
        assert_null(strstr(p.sets.list[i].text, "--set"));
    }
    score_plan_release(&p);
    scratch_remove(folder);
}

static void a_file_names_sets(void **state)
{
    struct err err = { 0 };
    struct score_plan p;
    char *folder = scratch_new(), *path = xasprintf("%s/my.sets", folder);
    scratch_text(folder, "my.sets",
                 "# two\nset\tone: a.json\n\n  set two: b.tsv --set pope --limit 3\n");
    char *text = xasprintf("sets %s\nrow a: off\nset three: c.json\n", path);
    p = read_plan(folder, text, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(p.sets.count, 3);
    assert_string_equal(p.sets.list[1].name, "two");
    assert_int_equal(p.sets.list[1].options.limit, 3);
    assert_int_equal(p.sets.list[2].options.limit, 7);
    score_plan_release(&p);
    static const char *const wrong[][2] = {
        { "set one: a.json\nrow a: off\n", "my.sets:2: a file of sets has only lines 'set NAME" },
        { "set a.json\n", "my.sets:1: write 'set NAME: ...'" },
        { "# none\n", "my.sets' has no line 'set NAME: DATA [OPTIONS]'" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        scratch_text(folder, "my.sets", wrong[i][0]);
        assert_int_equal(score_plan_of_sets(&p, path, NULL, 0, &err), -1);
        assert_non_null(strstr(err.text, wrong[i][1]));
    }
    free(text);
    // A line that adds no set is refused also after others.
    scratch_text(folder, "my.sets", "# none\n");
    text = xasprintf("set one: a.json\nsets %s\n", path);
    p = read_plan(folder, text, &err);
    assert_non_null(strstr(err.text, "plan:2: "));
    assert_non_null(strstr(err.text, "has no line 'set NAME: DATA [OPTIONS]'"));
    free(text);
    scratch_write(folder, "empty/notes.txt", "", 0);
    text = xasprintf("set one: a.json\nsets %s/empty\n", folder);
    p = read_plan(folder, text, &err);
    assert_non_null(strstr(err.text, "contains no evaluation set"));
    free(text);
    free(path);
    scratch_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(official_files_name_their_sets),
        cmocka_unit_test(data_sets_keep_their_kind),
        cmocka_unit_test(a_file_names_sets),
        cmocka_unit_test(numbers_are_those_of_papers),
        cmocka_unit_test(repetitions_are_averaged),
        cmocka_unit_test(pairs_are_of_the_same_samples),
        cmocka_unit_test(totals_pair),
        cmocka_unit_test(sets_are_quoted_by_their_split),
        cmocka_unit_test(plans_are_multiplied),
    };
    lists_register();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
