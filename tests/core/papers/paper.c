// tests/core/papers/paper.c -- core/papers/paper.c and the papers' tables: every table is complete,
// verdicts follow their rule; layouts, variants of a table, and readings of a paper.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
// needs the headers above
#include <cmocka.h>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "core/papers/paper.h"
#include "tests/core/scratch.h"

static const char *const values[] = { "MODEL", "M", "OUT",   "O", "SETS",  "S", "DATA1",   "1",
                                      "DATA2", "2", "LIMIT", "5", "STEPS", "6", "BASE",    "B",
                                      "TABLE", "T", "DATA3", "3", "TEXTS", "X", "READING", "",
                                      NULL };

static size_t fields_of(const char *line)
{
    size_t n = 0;
    for (; *line && *line != '\n'; line++) n += *line == '|';
    return n - 1;
}

// True if a row has results: it is a row of the scores, a row of /collect (or a third of that row's
// layers), a condition of a measurement, or a run that /plot writes.
static bool has_row(const char *scores, const char *commands, const char *row)
{
    static const char *const forms[] = { "\nrow %s:", "row=%s\"", "row=%s ", "/plot O/%s ",
                                         " O/%s ",    "\"%s:\" ", " %s: " };
    const char *part = text_ends(row, " third") ? strrchr(row, ',') : NULL;
    char *name = xstrndup(row, part ? (size_t)(part - row) : strlen(row));
    bool found = false;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        struct buf b = { 0 };
        for (const char *p = forms[i]; *p; p++)
            if (*p == '%')
                buf_puts(&b, name), p++;
            else
                buf_putc(&b, *p);
        found |= strstr(i ? commands : scores ? scores : "", b.data) != NULL;
        buf_release(&b);
    }
    free(name);
    return found;
}

static void tables_are_complete(void **state)
{
    struct err err;
    for (int i = 0; papers[i]; i++)
        for (const struct paper_table *t = papers[i]->tables; t->name; t++) {
            size_t columns = 0;
            assert_ptr_equal(paper_table_find(paper_find(papers[i]->name, &err), t->name, &err), t);
            while (t->columns[columns].name) columns++;
            for (const char *line = t->published; *line; line = strchr(line, '\n') + 1) {
                const size_t n = fields_of(line);
                const bool computed = !strcmp(t->columns[columns - 1].name, "Avg");
                if (n != columns && !(computed && n + 1 == columns))
                    fail_msg("%s %s: %.60s", papers[i]->name, t->name, line);
            }
            for (int demo = 0; demo < 2; demo++) {
                char *commands = paper_expand(demo ? t->demo : t->plan, values, &err);
                char *scores = t->rows ? paper_scores_plan(t, demo, values, &err) : NULL;
                assert_non_null(commands);
                assert_true(!t->rows || scores);
                for (const struct paper_claim *c = t->claims; c->text; c++)
                    if ((c->from && !has_row(scores, commands, c->from)) ||
                        !has_row(scores, commands, c->to))
                        fail_msg("%s %s: '%s' names a row that the plan lacks", papers[i]->name,
                                 t->name, c->text);
                free(commands);
                free(scores);
            }
        }
}

static const struct paper_column columns[] = {
    { .name = "A", .ours = "a", .demo = "x" },
    { .name = "B", .ours = "b", .demo = NULL, .scale = 100 },
    { .name = "Avg", .ours = "Avg", .demo = "Avg" },
    { 0 },
};

static const struct paper_claim apart = {
    .text = "apart", .from = "old", .to = "new", .column = "c"
};

// 5 - 2 * 1.96 * 2 / sqrt(4) > 0
static const struct paper_claim spread = {
    .text = "spread", .from = "old", .to = "new", .column = "d"
};

// The first third of the layers of two models, of 3 and of 6 layers: the mean of 1, 2 and 2; the
// last: 9.
static const struct paper_claim third = { .text = "third",
                                          .from = "deep, last third",
                                          .to = "deep, first third",
                                          .column = "e",
                                          .less = true };

// The mean over the steps of two runs: 3 > 2
static const struct paper_claim curve = {
    .text = "curve", .from = "run-a", .to = "run-b", .column = "kl"
};

// 100 * (12 / 10 - 1)
static const struct paper_claim percent = {
    .text = "percent", .from = "old", .to = "new", .column = "a", .percent = true, .margin = -19.9
};

// (1 + 3) / 2 * 100 > (2 + 3) / 2
static const struct paper_claim layers = {
    .text = "layers", .to = "layers", .column = "b", .against = "c"
};

static enum paper_verdict judge(const struct paper_claim *claims, const char *compared,
                                struct csv *layout, struct csv *told)
{
    const struct paper_table t = { .name = "t",
                                   .columns = columns,
                                   .published = "L|old|1|2\nL|new|3|OOM\nQ|old|7|8\n",
                                   .claims = claims };
    struct paper_results r;
    struct err err;
    char *folder = scratch_new();
    scratch_text(folder, "scores/scores.csv",
                 "row,column,value,low,high\nold,a,10,9,11\nnew,a,12,11,13\nmore,a,5,,\n");
    scratch_text(folder, "scores/compare.csv", compared);
    scratch_text(folder, "measured.csv",
                 "row,b,c,c low,c high,d,d std,n,layer,model,e\nold,0.5,3,2,4,1,2,4,,,\n"
                 "new,0.25,6,5,7,6,2,4,,,\nlayers,1,2,,,,,,,,\nlayers,3,3,,,,,,,,\n"
                 "deep,,,,,,,,0,x,1\ndeep,,,,,,,,1,x,7\ndeep,,,,,,,,2,x,9\ndeep,,,,,,,,0,y,2\n"
                 "deep,,,,,,,,1,y,2\ndeep,,,,,,,,5,y,9\n");
    scratch_text(folder, "curves.csv",
                 "job,series,step,value\nrun-a,kl,1,1\nrun-a,kl,2,3\nrun-b,kl,1,3\nrun-b,x,1,0\n");
    assert_int_equal(paper_results_read(&r, &t, "L", false, folder, &err), 0);
    if (layout) paper_layout(&r, layout);
    const enum paper_verdict v = paper_judge(&r, told);
    paper_results_release(&r);
    scratch_remove(folder);
    return v;
}

static void verdicts_follow_the_rule(void **state)
{
    static const char head[] = "from,to,column,difference,low,high\n";
    const struct paper_claim up = { .text = "up", .from = "old", .to = "new", .column = "a" };
    const struct paper_claim down = {
        .text = "down", .from = "old", .to = "new", .column = "b", .less = true
    };
    const struct paper_claim near = { .text = "near", .to = "old", .column = "a", .equal = 0.1 };
    const struct paper_claim close = { .text = "close", .to = "new", .column = "a", .equal = 3.1 };
    const struct paper_claim over = { .text = "over", .to = "new", .column = "a", .above = 11.5 };
    const struct paper_claim none = { .text = "none", .from = "old", .to = "gone", .column = "a" };
    const struct paper_claim within = {
        .text = "within", .from = "old", .to = "new", .column = "a", .margin = 3
    };
    static const struct {
        const char *compared;
        int claims; // bits: up, down, near, none, within, apart, spread, layers, close, over,
                    // third, curve, percent
        enum paper_verdict verdict;
        const char *words;
    } cases[] = {
        { "old,new,a,2,1,3\n", 1, VERDICT_SHOWN, "shown" },
        { "old,new,a,2,-1,3\n", 1, VERDICT_NOT_MEASURABLE, "open" },
        { "old,new,a,2,,\n", 1, VERDICT_NOT_MEASURABLE, "open" },
        { "old,new,a,-2,-3,-1\n", 1, VERDICT_OPPOSITE, "opposite" },
        { "old,new,a,-1,-2,0\n", 16, VERDICT_SHOWN, "shown" }, // not more than 3 below
        { "old,new,a,-2,-3,-1\n", 1 | 2, VERDICT_PARTLY, "opposite shown" },
        { "old,new,a,2,-1,3\n", 1 | 2, VERDICT_PARTLY, "open shown" },
        { "", 1 | 2, VERDICT_PARTLY, "open shown" }, // intervals that touch; the sign
        { "", 4, VERDICT_OPPOSITE, "opposite" },     // 10 is not 1
        { "", 8, VERDICT_NOT_MEASURABLE, "not measured" },
        { "", 32 | 64, VERDICT_SHOWN, "shown shown" }, // 5 - 4 > 0
        { "", 128, VERDICT_SHOWN, "shown" },
        { "", 256 | 512, VERDICT_NOT_MEASURABLE, "open open" }, // the interval has the bound
        { "", 1024 | 2048, VERDICT_SHOWN, "shown shown" },
        { "", 4096, VERDICT_SHOWN, "shown" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct paper_claim *const all[] = { &up,    &down,   &near,   &none,  &within,
                                                  &apart, &spread, &layers, &close, &over,
                                                  &third, &curve,  &percent };
        struct paper_claim list[14] = { 0 };
        struct csv told = { 0 };
        struct buf words = { 0 };
        for (int k = 0, n = 0; k < 13; k++)
            if (cases[i].claims >> k & 1) list[n++] = *all[k];
        char *compared = xasprintf("%s%s", head, cases[i].compared);
        assert_int_equal(judge(list, compared, NULL, &told), cases[i].verdict);
        for (size_t r = 0; r < told.row_count; r++)
            buf_printf(&words, "%s%s", r ? " " : "", csv_cell(&told, r, 3));
        assert_string_equal(words.data, cases[i].words);
        buf_release(&words);
        csv_release(&told);
        free(compared);
    }
}

static void the_layout_has_both_numbers(void **state)
{
    const struct paper_claim none[] = { { 0 } };
    struct csv layout = { 0 }, told = { 0 };
    judge(none, "from,to,column,difference,low,high\n", &layout, &told);
    static const char *const want[][5] = {
        { "old", "1", "10.00 (9 to 11.00)", "2", "50.00" },
        { "new", "3", "12.00 (11.00 to 13.00)", "OOM", "25.00" },
        { "more", "", "5", "", "-" }, // not in the paper
    };
    assert_int_equal(layout.row_count, 7); // layers, deep and the runs too
    assert_string_equal(layout.columns[2], "A, here");
    for (size_t r = 0; r < 3; r++)
        for (int c = 0; c < 5; c++) assert_string_equal(csv_cell(&layout, r, c), want[r][c]);
    assert_string_equal(csv_cell(&layout, 0, csv_column(&layout, "Avg, paper")), "1.50");
    csv_release(&layout);
    csv_release(&told);
}

static void plans_are_repeated_for_each_model(void **state)
{
    static const char *const of[] = { "MODEL", "a,b", "X", "x", NULL };
    struct err err;
    char *text = paper_expand("${MODEL}${X}\n${each}row ${MODEL}\n${end}${MODEL}", of, &err);
    assert_string_equal(text, "ax\nrow a\nrow b\na");
    free(text);
    assert_null(paper_expand("${Y}", of, &err));
    assert_string_equal(err.text, "Y");
    const struct paper *p = paper_find("capa", &err);
    assert_ptr_equal(paper_table_find(p, "figure4", &err), paper_table_find(p, "figure3", &err));
}

static void tables_without_rows_are_refused(void **state)
{
    const struct paper_table t = { .name = "t", .columns = columns, .published = "" };
    struct paper_results r;
    struct err err;
    char *folder = scratch_new();
    scratch_text(folder, "measured.csv", "layer,a\n0,1\n");
    assert_int_equal(paper_results_read(&r, &t, "", false, folder, &err), -1);
    assert_non_null(strstr(err.text, "measured.csv' has no column 'row'"));
    scratch_remove(folder);
}

// Rows of layers take no quadratic time.
static void long_tables_are_read(void **state)
{
    const struct paper_claim claims[] = {
        { .text = "deep", .to = "deep, last third", .column = "e" }, { 0 }
    };
    const struct paper_table t = {
        .name = "t", .columns = columns, .published = "", .claims = claims
    };
    enum { ROWS = 30000 };
    struct paper_results r;
    struct err err;
    struct buf b = { 0 };
    struct csv told = { 0 };
    char *folder = scratch_new();
    buf_puts(&b, "row,e,layer,model\n");
    for (int i = 0; i < ROWS; i++) buf_printf(&b, "deep,1,%d,x\n", i);
    scratch_text(folder, "measured.csv", b.data);
    const double began = clock_seconds();
    if (paper_results_read(&r, &t, "", false, folder, &err) < 0) fail_msg("%s", err.text);
    (void)paper_judge(&r, &told);
    assert_true(clock_seconds() - began < 5);
    csv_release(&told);
    paper_results_release(&r);
    buf_release(&b);
    scratch_remove(folder);
}

static void variants_are_found(void **state)
{
    const struct paper_table t = { .name = "t", .variants = "L LLaVA 7B|Q Qwen" };
    struct err err;
    static const char *const asked[] = { NULL, "L", "Q", "Qwen" }, *const keys[] = { "L", "L", "Q",
                                                                                     "Q" };
    for (int i = 0; i < 4; i++) {
        char *key, *name = paper_variant(&t, asked[i], &key, &err);
        assert_string_equal(key, keys[i]);
        assert_string_equal(name, *keys[i] == 'L' ? "LLaVA 7B" : "Qwen");
        free(key);
        free(name);
    }
    char *key;
    assert_null(paper_variant(&t, "X", &key, &err));
    assert_non_null(strstr(err.text, "no numbers of 'X'"));
    assert_null(paper_find("x", &err));
    assert_non_null(strstr(err.text, "no paper 'x': norm-alignment"));
}

static void readings_have_tables(void **state)
{
    for (int i = 0; papers[i]; i++)
        for (const struct paper_reading *r = papers[i]->readings; r && r->name; r++) {
            size_t count = 0;
            for (const struct paper_table *t = papers[i]->tables; t->name; t++) {
                if (!paper_reading_matters(r, t)) continue;
                count++;
                assert_non_null(strstr(t->demo, "${READING}"));
            }
            assert_true(count > 0);
            assert_true(text_ends(r->settings, "\n"));
        }
    struct err err;
    const struct paper *ira = paper_find("ira", &err);
    const struct paper_reading *dice = ira->readings;
    while (strcmp(dice->name, "dice") != 0) dice++;
    assert_true(paper_reading_matters(dice, paper_table_find(ira, "figure8", &err)));
    assert_false(paper_reading_matters(dice, paper_table_find(ira, "table2", &err)));
}

static void readings_are_compared(void **state)
{
    static const char *const verdicts[3][2] = { { "shown", "open" },
                                                { "shown", "opposite" },
                                                { "shown", "open" } };
    struct csv all = { 0 };
    for (int i = 0; i < 3; i++) {
        struct csv claims = { 0 };
        for (int c = 0; c < 4; c++) csv_need_column(&claims, (char[]){ (char)('a' + c), 0 });
        for (int k = 0; k < 2; k++) {
            const size_t row = csv_add_row(&claims);
            csv_set(&claims, row, 0, k ? "two" : "one");
            csv_set(&claims, row, 2, i == 2 ? "9" : "4");
            csv_set(&claims, row, 3, verdicts[i][k]);
        }
        paper_readings_add(&all, (const char *[]){ "default", "x", "y" }[i], &claims,
                           i == 1 ? VERDICT_PARTLY : VERDICT_SHOWN);
        csv_release(&claims);
    }
    paper_readings_close(&all);
    static const char *const want[3][5] = {
        { "one", "shown: 4", "shown: 4", "shown: 9", "yes" },
        { "two", "open: 4", "opposite: 4", "open: 9", "no" },
        { "the table", "shown", "partly", "shown", "no" },
    };
    assert_int_equal(all.row_count, 3);
    for (size_t r = 0; r < 3; r++)
        for (int c = 0; c < 5; c++) assert_string_equal(csv_cell(&all, r, c), want[r][c]);
    csv_release(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_are_complete),
        cmocka_unit_test(verdicts_follow_the_rule),
        cmocka_unit_test(the_layout_has_both_numbers),
        cmocka_unit_test(plans_are_repeated_for_each_model),
        cmocka_unit_test(tables_without_rows_are_refused),
        cmocka_unit_test(long_tables_are_read),
        cmocka_unit_test(variants_are_found),
        cmocka_unit_test(readings_have_tables),
        cmocka_unit_test(readings_are_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
