// core/sets/format_csv.c -- MMLU's CSV files: question, four choices, the letter; usually without a
// header line.
//
// Few-shot examples are the first five rows of the subject's file among the development files:
// ../dev/SUBJECT_dev.csv for test/SUBJECT_test.csv, as in MMLU's archive.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/csv.h"
#include "core/base/file_in.h"
#include "core/base/text.h"
#include "core/data/dialogue.h"
#include "core/sets/format.h"
#include "core/sets/prompt.h"

static const char names[] = "question,A,B,C,D,answer";
enum { COLUMNS = 6, SHOTS = 5 };

struct table {
    struct csv rows;
    char *subject;    // "abstract_algebra"
    struct buf shots; // examples with their answers
};

static bool is_csv(const char *path, const char *head, size_t size)
{
    const size_t n = strlen(path);
    return n > 4 && !strcmp(path + n - 4, ".csv") && memchr(head, ',', size);
}

static int read_rows(struct csv *t, const char *path, struct err *err)
{
    size_t size;
    char *text = file_read(path, (size_t)64 << 20, &size, err);
    if (!text) return -1;
    const size_t start = text_mark(text, size), length = strlen(names);
    const bool named =
        !strncmp(text + start, names, length) && strchr("\r\n", text[start + length]);
    const int status = csv_parse(t, text, size, named ? NULL : names, path, err);
    free(text);
    if (status < 0 || named || !t->row_count) return status;
    const char *letter = csv_cell(t, 0, COLUMNS - 1);
    if (*letter >= 'A' && *letter <= 'D' && !letter[1]) return 0;
    // The head line of a user's table with as many columns would count as a question.
    return err_set(
        err,
        "'%s' is not a file of MMLU, the only set that is read from CSV: line 1 does not "
        "end with the right choice, A to D; save other tables as TSV",
        path);
}

static void table_close(void *self)
{
    struct table *t = self;
    csv_release(&t->rows);
    buf_release(&t->shots);
    free(t->subject);
    free(t);
}

static void make_record(const struct table *t, const struct csv *rows, size_t row,
                        struct set_record *r)
{
    *r = (struct set_record){ .json = cJSON_CreateObject() };
    set_put(r, "index", scratch_printf(&r->scratch, "%s-%zu", t->subject, row));
    for (int i = 0; i < COLUMNS; i++) set_put(r, rows->columns[i], csv_cell(rows, row, i));
    set_put(r, "category", t->subject);
}

static int read_shots(struct table *t, const char *folder, struct err *err)
{
    struct csv shots = { 0 };
    char *file = xasprintf("%s/../dev/%s_dev.csv", folder, t->subject);
    const int status = access(file, F_OK) == 0 ? read_rows(&shots, file, err) : 0;
    for (size_t i = 0; status == 0 && i < shots.row_count && i < SHOTS; i++) {
        struct set_record r;
        make_record(t, &shots, i, &r);
        prompt_add_shot(&r, &t->shots);
        set_record_release(&r);
    }
    csv_release(&shots);
    free(file);
    return status;
}

static void *table_open(const char *path, const char *folder, const struct set_columns *columns,
                        int64_t *count, struct err *err)
{
    struct table *t = xcalloc(1, sizeof *t);
    const char *name = text_file_name(path), *end = strrchr(name, '_'); // "SUBJECT_test.csv"
    if (!end) end = strrchr(name, '.');
    t->subject = xstrndup(name, end ? (size_t)(end - name) : strlen(name));
    char *beside = path_folder(path);
    int status = read_rows(&t->rows, path, err);
    if (status == 0) status = read_shots(t, beside, err);
    if (status == 0 && !t->rows.row_count) status = err_set(err, "'%s' contains no rows", path);
    free(beside);
    *count = (int64_t)t->rows.row_count;
    if (status == 0) return t;
    table_close(t);
    return NULL;
}

static int table_read(void *self, int64_t index, struct set_record *r, struct err *err)
{
    const struct table *t = self;
    make_record(t, &t->rows, (size_t)index, r);
    if (t->shots.length) set_put(r, "shots", t->shots.data);
    return 0;
}

const struct set_format set_format_csv = {
    .name = "CSV without a header line (MMLU)",
    .is = is_csv,
    .open = table_open,
    .read = table_read,
    .close = table_close,
};
