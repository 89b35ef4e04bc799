// tests/sessions/job_reports.c -- a job's reports through a file give the same rows as direct
// reports.
#include "tests/sessions/fixture.h"

#include <math.h>
#include <sys/stat.h>

#include "sessions/job_channel.h"
#include "sessions/job_internal.h"
#include "sessions/job_reports.h"

static int64_t add_job(struct store *s, char **place)
{
    struct settings *settings = settings_new();
    char word[] = "7", *argv[] = { word };
    const struct job_spec spec = { .kind = "count", .argc = 1, .argv = argv, .settings = settings };
    struct err err = { 0 };
    int64_t id = 0;
    assert_int_equal(store_job_add(s, &spec, &id, &err), 0);
    assert_int_equal(job_folder_make(s, id, "none", &err), 0);
    *place = job_folder_real(s, id, &err);
    assert_non_null(*place);
    settings_free(settings);
    return id;
}

// Writes all reports of a job for steps `from` to `steps`.
static void report_all(struct report_writer *w, int64_t from, int64_t steps)
{
    static const char *const loss[] = { "loss" },
                             *const line[] = { "a \"line\"\nof the log \xc3\xa4" },
                             *const result[] = { "score", "0.5" },
                             *const score[] = { "id", NULL, "yes", NULL, "kind" };
    struct report_list l = { 0 };
    struct err err = { 0 };
    for (int64_t i = from; i < steps; i++)
        report_add(&l, REPORT_METRIC, i, 1.0 / (double)(i + 3), 1, loss);
    report_add(&l, REPORT_METRIC, steps, NAN, 1, loss);
    report_add(&l, REPORT_LINE, 0, NAN, 1, line);
    report_add(&l, REPORT_RESULT, 0, NAN, 2, result);
    report_add(&l, REPORT_SCORE, 4, 0.25, 5, score);
    report_add(&l, REPORT_REWIND, steps - 1, NAN, 0, NULL);
    struct report *p = report_add(&l, REPORT_PROGRESS, 0, (double)steps, 0, NULL);
    p->real[1] = 99;
    p->real[2] = 0.125;
    p->real[3] = NAN;
    assert_int_equal(report_write(w, &l, &err), 0);
    reports_release(&l);
}

static void describe(struct store *s, int64_t id, struct buf *b)
{
    struct curve c;
    struct job_row row;
    struct err err = { 0 };
    struct buf log = { 0 };
    assert_int_equal(store_curve(s, id, "loss", &c, &err), 0);
    for (size_t i = 0; i < c.count; i++)
        buf_printf(b, "%lld %a\n", (long long)c.steps[i], c.values[i]);
    curve_release(&c);
    assert_int_equal(job_read_own(s, id, &row, &err), 0);
    buf_printf(b, "%s %s %g %g %g %g %lld\n", job_state_name(row.state), row.message, row.step,
               row.steps, row.loss, row.eta_s, (long long)row.runs);
    job_row_release(&row);
    assert_int_equal(store_job_log(s, id, 0, &log, &err), 0);
    for (const char *p = log.data; p && (p = strstr(p, "a \"line")); p++)
        buf_printf(b, "%.24s\n", p);
    buf_release(&log);
}

static void reports_by_file_equal_direct_ones(void **state)
{
    struct store *s = open_store();
    struct err err = { 0 };
    struct buf direct = { 0 }, read = { 0 };
    char *place_a, *place_b;
    const int64_t a = add_job(s, &place_a), b = add_job(s, &place_b);
    struct job_row row;
    struct job_channel in, out;
    assert_int_equal(job_read_own(s, b, &row, &err), 0);
    assert_int_equal(job_spec_write(place_b, &row, NULL, &err), 0);
    job_row_release(&row);
    job_channel_of_store(&in, s, a);
    assert_int_equal(job_channel_of_folder(&out, place_b, b, &err), 0);
    struct job_channel *const desks[] = { &in, &out };
    for (int i = 0; i < 2; i++) {
        struct job_channel *d = desks[i];
        assert_int_equal(job_channel_read(d, &row, &err), 0);
        assert_string_equal(row.kind, "count");
        assert_string_equal(row.argv[0], "7");
        assert_int_equal(row.runs, 0);
        job_row_release(&row);
        assert_int_equal(job_channel_state(d, STATE_RUNNING, "", &err), 0);
        report_all(&d->to, 0, 5);
        if (i) job_import(s, b);
        report_all(&d->to, 4, 9);
        assert_int_equal(job_channel_state(d, STATE_FAILED, "the disk is full", &err), 0);
        assert_int_equal(job_channel_read(d, &row, &err), 0);
        assert_int_equal(row.state, STATE_FAILED);
        assert_string_equal(row.message, "the disk is full");
        assert_int_equal(row.runs, 1);
        job_row_release(&row);
    }
    for (int i = 0; i < 3; i++) job_import(s, b); // no report is imported twice
    describe(s, a, &direct);
    describe(s, b, &read);
    assert_string_equal(direct.data, read.data);
    assert_non_null(strstr(read.data, "failed the disk is full"));
    // Before the job runs again, the file is removed, and the new one is read from its beginning.
    assert_int_equal(job_import_all(s, b, &err), 0);
    assert_int_equal(job_channel_state(&out, STATE_RUNNING, "", &err), 0);
    job_import(s, b);
    assert_int_equal(job_read_own(s, b, &row, &err), 0);
    assert_int_equal(row.state, STATE_RUNNING);
    assert_int_equal(row.runs, 2);
    job_row_release(&row);
    buf_release(&direct);
    buf_release(&read);
    job_channel_release(&in);
    job_channel_release(&out);
    free(place_a);
    free(place_b);
    store_close(s);
}

// A line truncated by a crash is not read yet, and is removed at the next write; foreign lines are
// ignored.
static void a_torn_line_is_cut_off(void **state)
{
    struct store *s = open_store();
    struct err err = { 0 };
    struct buf text = { 0 };
    struct stat st;
    char *place;
    const int64_t id = add_job(s, &place);
    struct report_writer w = reports_to_file(place, id, 0);
    report_all(&w, 0, 3);
    FILE *f = fopen(w.path, "a");
    assert_non_null(f);
    fputs("no JSON\n{\"is\":\"state\",\"s\":[]}\n{\"is\":\"stat", f);
    fclose(f);
    job_import(s, id);
    report_all(&w, 2, 4);
    job_import(s, id);
    assert_int_equal(stat(w.path, &st), 0);
    int64_t read = 0;
    assert_int_equal(
        store_number(s, &err, 0, &read, "SELECT place FROM job_reads WHERE job = ?", "i", id), 0);
    assert_int_equal(read, st.st_size);
    describe(s, id, &text);
    assert_non_null(strstr(text.data, "waiting"));
    assert_non_null(strstr(text.data, "a \"line\"\nof the log"));
    buf_release(&text);
    report_writer_release(&w);
    free(place);
    store_close(s);
}

// A prompt or a table may be longer than a piece of the file.
static void long_lines_are_read(void **state)
{
    enum { LENGTH = 9 << 20 };
    struct store *s = open_store();
    struct err err = { 0 };
    enum job_state job_state = STATE_RUNNING;
    char *place, *value = xmalloc(LENGTH + 1);
    const int64_t id = add_job(s, &place);
    struct report_writer w = reports_to_file(place, id, 0);
    struct report_list l = { 0 };
    int64_t length = 0;
    memset(value, 'x', LENGTH);
    value[LENGTH] = 0;
    report_add(&l, REPORT_RESULT, 0, NAN, 2, (const char *const[]){ "long", value });
    report_add(&l, REPORT_STATE, 0, NAN, 2,
               (const char *const[]){ job_state_name(STATE_DONE), "the end" });
    assert_int_equal(report_write(&w, &l, &err), 0);
    assert_true(job_reports_state(place, &job_state, NULL));
    assert_int_equal(job_state, STATE_DONE);
    job_import(s, id);
    assert_int_equal(store_number(s, &err, 0, &length,
                                  "SELECT length(value) FROM job_results WHERE job = ?", "i", id),
                     0);
    assert_int_equal(length, LENGTH);
    reports_release(&l);
    report_writer_release(&w);
    free(value);
    free(place);
    store_close(s);
}

static void a_full_disk_leaves_whole_lines(void **state)
{
    struct store *s = open_store();
    char *place;
    const int64_t id = add_job(s, &place);
    struct report_writer w = reports_to_file("/dev/full", id, 0);
    struct report_list l = { 0 };
    struct err err = { 0 };
    report_add(&l, REPORT_LINE, 0, NAN, 1, (const char *const[]){ "x" });
    assert_int_equal(report_write(&w, &l, &err), -1);
    assert_non_null(strstr(err.text, "cannot write"));
    reports_release(&l);
    report_writer_release(&w);
    free(place);
    store_close(s);
}

// Groups of ranks report in parallel: the second group may report before the first.
static void parts_may_report_in_any_order(void **state)
{
    struct store *s = open_store();
    struct err err = { 0 };
    char *place;
    const int64_t id = add_job(s, &place);
    const int parts[] = { 3, 1, 0 };
    for (int i = 0; i < 3; i++) {
        struct report_writer w = reports_to_file(place, id, parts[i]);
        struct report_list l = { 0 };
        char *key = xasprintf("part %d", parts[i]);
        int64_t there = 0;
        report_add(&l, REPORT_RESULT, 0, NAN, 2, (const char *const[]){ key, "x" });
        assert_int_equal(report_write(&w, &l, &err), 0);
        job_import(s, id);
        assert_int_equal(store_number(s, &err, 0, &there,
                                      "SELECT count(*) FROM job_results WHERE job = ?", "i", id),
                         0);
        assert_int_equal(there, i + 1);
        free(key);
        reports_release(&l);
        report_writer_release(&w);
    }
    char *file = xasprintf("%s/reports-3.jsonl", place);
    assert_int_equal(access(file, F_OK), 0);
    assert_int_equal(job_import_all(s, id, &err), 0);
    assert_int_equal(access(file, F_OK), -1);
    free(file);
    free(place);
    store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reports_by_file_equal_direct_ones, setup, teardown),
        cmocka_unit_test_setup_teardown(a_torn_line_is_cut_off, setup, teardown),
        cmocka_unit_test_setup_teardown(long_lines_are_read, setup, teardown),
        cmocka_unit_test_setup_teardown(a_full_disk_leaves_whole_lines, setup, teardown),
        cmocka_unit_test_setup_teardown(parts_may_report_in_any_order, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
