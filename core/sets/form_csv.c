// core/sets/form_csv.c -- MMLU's CSV files: question, four choices, the letter; no line of names.
//
// Few-shot examples are the first five rows of the subject's file among the development files:
// ../dev/SUBJECT_dev.csv for test/SUBJECT_test.csv, as in MMLU's archive.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/csv.h"
#include "core/base/file_in.h"
#include "core/data/dialogue.h"
#include "core/metrics/python.h"
#include "core/sets/form.h"

enum { COLUMNS = 6, SHOTS = 5 };

struct table {
    struct csv t, shots;
    char *subject; // "abstract_algebra"
};

static bool is_csv(const char *path, const char *head, size_t size)
{
    const size_t n = strlen(path);
    return n > 4 && !strcmp(path + n - 4, ".csv") && memchr(head, ',', size);
}

static int read_rows(struct csv *t, const char *path, struct err *err)
{
    static const char names[] = "question,A,B,C,D,answer\n";
    size_t size;
    char *text = file_read(path, (size_t)64 << 20, &size, err);
    struct buf b = { 0 };
    if (!text) return -1;
    const char *start = size >= 3 && !memcmp(text, "\xEF\xBB\xBF", 3) ? text + 3 : text;
    if (strncmp(start, names, strlen(names)) != 0) buf_puts(&b, names);
    buf_add(&b, start, size - (size_t)(start - text));
    const int status = csv_parse(t, b.data, b.length, path, err);
    buf_release(&b);
    free(text);
    return status;
}

// "SUBJECT" of "DIR/SUBJECT_test.csv".
static char *subject_of(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *end = strrchr(name, '_');
    if (!end) end = strrchr(name, '.');
    return xstrndup(name, end ? (size_t)(end - name) : strlen(name));
}

static void table_close(void *self)
{
    struct table *t = self;
    csv_release(&t->t);
    csv_release(&t->shots);
    free(t->subject);
    free(t);
}

static int read_shots(struct table *t, const char *path, struct err *err)
{
    char *folder = path_folder(path), *file = xasprintf("%s/../dev/%s_dev.csv", folder, t->subject);
    const int status = access(file, F_OK) == 0 ? read_rows(&t->shots, file, err) : 0;
    free(file);
    free(folder);
    return status;
}

static void *table_open(const char *path, const char *folder, int64_t *count, struct err *err)
{
    struct table *t = xcalloc(1, sizeof *t);
    t->subject = subject_of(path);
    int status = read_rows(&t->t, path, err);
    if (status == 0 && t->t.column_count < COLUMNS)
        status = err_set(err, "'%s' needs the columns question, A, B, C, D, answer", path);
    if (status == 0) status = read_shots(t, path, err);
    if (status == 0 && !t->t.row_count) status = err_set(err, "'%s' contains no rows", path);
    if (status < 0) {
        table_close(t);
        return NULL;
    }
    *count = (int64_t)t->t.row_count;
    return t;
}

static void put_question(struct buf *b, const struct csv *t, size_t row)
{
    char *question = python_strip(csv_cell(t, row, 0));
    buf_puts(b, question);
    free(question);
    for (int i = 1; i < COLUMNS - 1; i++)
        buf_printf(b, "\n%c. %s", 'A' + i - 1, csv_cell(t, row, i));
    buf_puts(b, "\nAnswer:");
}

// The examples before the question, as lm-evaluation-harness writes them.
static void add_shots(const struct table *t, cJSON *json)
{
    struct buf b = { 0 };
    char *subject = xstrdup(t->subject);
    for (char *p = subject; *p; p++)
        if (*p == '_') *p = ' ';
    buf_printf(&b, "The following are multiple choice questions (with answers) about %s.\n\n",
               subject);
    for (size_t i = 0; i < t->shots.row_count && i < SHOTS; i++) {
        put_question(&b, &t->shots, i);
        buf_printf(&b, " %s\n\n", csv_cell(&t->shots, i, COLUMNS - 1));
    }
    cJSON_AddStringToObject(json, "shots", b.data);
    buf_release(&b);
    free(subject);
}

static int table_read(void *self, int64_t index, struct set_record *r, struct err *err)
{
    static const char *const names[] = { "question", "A", "B", "C", "D", "answer" };
    const struct table *t = self;
    char *number = xasprintf("%s-%lld", t->subject, (long long)index);
    *r = (struct set_record){ .json = cJSON_CreateObject() };
    cJSON_AddStringToObject(r->json, "index", number);
    for (int i = 0; i < COLUMNS; i++)
        cJSON_AddStringToObject(r->json, names[i], csv_cell(&t->t, (size_t)index, i));
    cJSON_AddStringToObject(r->json, "category", t->subject);
    if (t->shots.row_count) add_shots(t, r->json);
    free(number);
    return 0;
}

const struct set_form set_form_csv = {
    .name = "CSV without a line of names (MMLU)",
    .is = is_csv,
    .open = table_open,
    .read = table_read,
    .close = table_close,
};
