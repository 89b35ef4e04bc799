// commands/report.c -- /report: fills the tables of a Markdown file from CSV files.
//
//   <!-- table keep.csv keep score hellinger where method=capa -->
//   | keep | score | hellinger |        these lines are rewritten each time, up to the end
//   <!-- end -->
//
// Other text is unchanged; pictures are plain Markdown (![](keep.png)). Files are searched for in
// the folder of the output, then in that of the input; pictures found only in the input's folder
// are copied.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands/command.h"
#include "commands/parse.h"
#include "core/adapter/provenance.h"
#include "core/base/csv.h"
#include "core/base/file_in.h"
#include "core/base/file_out.h"
#include "core/base/text.h"

enum { REPORT_MAX = 64 << 20, COLUMNS_MAX = 64, DIGITS = 4 };
static const char opening[] = "<!-- table ", closing[] = "<!-- end -->";

// Folders, each empty or with a trailing slash.
struct folders {
    char *to, *from; // of the output file, and of the input file
};

// A parsed line "<!-- table ... -->".
struct report_table {
    char *path;
    struct csv t;
    int columns[COLUMNS_MAX];
    int column_count;
    int across, value; // the two columns after `across`; -1: none
    bool *chosen;      // [row_count]
    struct words words;
};

static void report_table_release(struct report_table *w)
{
    free(w->path);
    free(w->chosen);
    csv_release(&w->t);
    words_release(&w->words);
}

// --- a marked line -------------------------------------------------------------------------------

static int add_column(struct report_table *w, const char *name, struct err *err)
{
    const int column = csv_find_column(&w->t, name, w->path, err);
    if (column < 0) return -1;
    if (w->column_count == COLUMNS_MAX)
        return err_set(err, "a report table has at most %d columns", COLUMNS_MAX);
    w->columns[w->column_count++] = column;
    return 0;
}

// "across" takes the next two words.
static int read_word(struct report_table *w, int *at, struct err *err)
{
    const char *word = w->words.list[*at];
    if (strchr(word, '=')) return csv_where(&w->t, word, w->path, w->chosen, err);
    if (strcmp(word, "across") != 0) return add_column(w, word, err);
    if (*at + 2 >= w->words.count)
        return err_set(err, "'across' needs two columns: one whose values become columns, and "
                            "one whose values fill them");
    w->across = csv_find_column(&w->t, w->words.list[*at + 1], w->path, err);
    w->value = csv_find_column(&w->t, w->words.list[*at + 2], w->path, err);
    *at += 2;
    return w->across < 0 || w->value < 0 ? -1 : 0;
}

// Searches the folder of the output, then that of the input; the caller frees the path.
static char *find_file(const char *file, const struct folders *folders)
{
    if (*file == '/') return xstrdup(file);
    char *near = xasprintf("%s%s", folders->to, file);
    if (access(near, F_OK) == 0) return near;
    char *other = xasprintf("%s%s", folders->from, file);
    if (access(other, F_OK) != 0) {
        free(other);
        return near;
    }
    free(near);
    return other;
}

static int read_table(struct report_table *w, const char *line, size_t length,
                      const struct folders *folders, const struct shell *shell, struct err *err)
{
    char *text = xstrndup(line, length), *end = strstr(text, "-->");
    *w = (struct report_table){ .across = -1, .value = -1 };
    if (end) *end = 0;
    int status =
        end ? words_parse(&w->words, text, shell, err) : err_set(err, "the line has no '-->'");
    free(text);
    const char *file = w->words.count ? w->words.list[0] : NULL;
    if (status == 0 && !file) status = err_set(err, "the line names no file");
    if (status < 0 || !file) return -1;
    w->path = find_file(file, folders);
    if (csv_read(&w->t, w->path, err) < 0) return -1;
    if (!w->t.column_count)
        return err_set(err, "'%s' is empty: a CSV file needs a header", w->path);
    w->chosen = csv_all(&w->t);
    for (int i = 1; i < w->words.count && status == 0; i++) status = read_word(w, &i, err);
    const bool all = !w->column_count;
    // Omits the columns of provenance, which are for programs.
    for (int c = 0; c < w->t.column_count && all && status == 0; c++)
        if (strncmp(w->t.columns[c], PROVENANCE_COLUMN, sizeof PROVENANCE_COLUMN - 1) != 0)
            status = add_column(w, w->t.columns[c], err);
    return status;
}

// --- the table -----------------------------------------------------------------------------------

// Writes a cell, with numbers rounded to four digits.
static void write_cell(struct buf *b, const char *text)
{
    double value;
    buf_puts(b, " ");
    if (csv_number(text, &value) && isfinite(value) && strlen(text) > DIGITS + 1 &&
        strcspn(text, ".eE") < strlen(text)) {
        buf_printf(b, "%.*g", DIGITS, value);
    } else {
        text_put_markdown(b, text);
    }
    buf_puts(b, " |");
}

// Returns whether two rows have the same values in these columns.
static bool same_cells(const struct report_table *w, size_t a, size_t b, const int *columns,
                       int count)
{
    for (int c = 0; c < count; c++)
        if (strcmp(csv_cell(&w->t, a, columns[c]), csv_cell(&w->t, b, columns[c])) != 0)
            return false;
    return true;
}

// Returns whether this is the first chosen row with its values in these columns.
static bool first_of(const struct report_table *w, size_t row, const int *columns, int count)
{
    for (size_t r = 0; r < row; r++)
        if (w->chosen[r] && same_cells(w, r, row, columns, count)) return false;
    return w->chosen[row];
}

// Returns the value of the row whose columns equal those of row `a`, and whose `across` column
// equals that of row `b`.
static const char *find_value(const struct report_table *w, size_t a, size_t b)
{
    for (size_t r = 0; r < w->t.row_count; r++)
        if (w->chosen[r] && same_cells(w, r, b, &w->across, 1) &&
            same_cells(w, r, a, w->columns, w->column_count))
            return csv_cell(&w->t, r, w->value);
    return "";
}

// Writes the chosen rows; with `across`, one row for each combination of values in w->columns.
static void write_table(struct buf *b, const struct report_table *w)
{
    const bool across = w->across >= 0;
    int columns = w->column_count;
    buf_puts(b, "|");
    for (int c = 0; c < w->column_count; c++) write_cell(b, w->t.columns[w->columns[c]]);
    for (size_t k = 0; across && k < w->t.row_count; k++)
        if (first_of(w, k, &w->across, 1)) {
            write_cell(b, csv_cell(&w->t, k, w->across));
            columns++;
        }
    buf_puts(b, "\n|");
    for (int c = 0; c < columns; c++) buf_puts(b, c ? "---:|" : "---|");
    buf_puts(b, "\n");
    for (size_t r = 0; r < w->t.row_count; r++) {
        if (!(across ? first_of(w, r, w->columns, w->column_count) : w->chosen[r])) continue;
        buf_puts(b, "|");
        for (int c = 0; c < w->column_count; c++) write_cell(b, csv_cell(&w->t, r, w->columns[c]));
        for (size_t k = 0; across && k < w->t.row_count; k++)
            if (first_of(w, k, &w->across, 1)) write_cell(b, find_value(w, r, k));
        buf_puts(b, "\n");
    }
}

// --- the file ------------------------------------------------------------------------------------

static int add_table(struct buf *b, const char *line, size_t length, const struct folders *folders,
                     const struct shell *shell, struct err *err)
{
    struct report_table w;
    const size_t skip = sizeof opening - 1;
    const int status = read_table(&w, line + skip, length - skip, folders, shell, err);
    if (status == 0) write_table(b, &w);
    report_table_release(&w);
    return status;
}

// Finds a mark at the start of a line (after spaces); NULL: none.
static const char *find_mark(const char *text, const char *mark)
{
    for (const char *p = text; *p; p += *p == '\n') {
        const char *start = p + strspn(p, " \t");
        if (!strncmp(start, mark, strlen(mark))) return start;
        p += strcspn(p, "\n");
    }
    return NULL;
}

// Writes the text with its tables updated; returns the number of tables, or -1.
static int fill(struct buf *b, const char *text, const struct folders *folders,
                const struct shell *shell, struct err *err)
{
    int tables = 0, number = 1;
    for (const char *p = text; *p; number++) {
        size_t length = strcspn(p, "\n");
        const size_t whole = length + (p[length] == '\n');
        buf_add(b, p, whole);
        if (strncmp(p, opening, sizeof opening - 1) != 0) {
            p += whole;
            continue;
        }
        const char *end = find_mark(p + whole, closing), *next = find_mark(p + whole, opening);
        if (!end || (next && next < end))
            return err_set(err, "line %d: a line '%s' is missing after the table", number, closing);
        if (p[length] != '\n') buf_putc(b, '\n');
        if (add_table(b, p, length, folders, shell, err) < 0) return err_in(err, "line %d", number);
        for (; p < end; p++) number += *p == '\n';
        number--;
        tables++;
        p = end;
        length = strcspn(p, "\n");
        buf_add(b, p, length + (p[length] == '\n'));
        p += length + (p[length] == '\n');
        number++;
    }
    return tables;
}

// Copies a picture that exists beside the input but not beside the output.
static int copy_picture(const char *name, const struct folders *folders, struct err *err)
{
    char *to = xasprintf("%s%s", folders->to, name), *from = xasprintf("%s%s", folders->from, name);
    size_t size;
    int status = 0;
    if (access(to, F_OK) < 0 && access(from, F_OK) == 0) {
        char *bytes = file_read(from, REPORT_MAX, &size, err);
        status = bytes ? file_out_write(to, bytes, size, err) : -1;
        free(bytes);
    }
    free(to);
    free(from);
    return status;
}

// Copies the PNG pictures that the text links to without a folder.
static int copy_pictures(const char *text, const struct folders *folders, struct err *err)
{
    int status = 0;
    for (const char *p = text; status == 0 && (p = strstr(p, "]("));) {
        p += 2;
        const size_t length = strcspn(p, "()/ \n");
        if (p[length] != ')' || length < 5 || strncmp(p + length - 4, ".png", 4) != 0) continue;
        char *name = xstrndup(p, length);
        status = copy_picture(name, folders, err);
        free(name);
    }
    return status;
}

static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? xstrndup(path, (size_t)(slash - path) + 1) : xstrdup("");
}

static int report_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    const char *from = argv[0], *to = argc > 1 ? argv[1] : from;
    struct buf b = { 0 };
    size_t size;
    char *text = file_read(from, REPORT_MAX, &size, err);
    if (!text) return -1;
    if (text_check(text, size, from, err) < 0) {
        free(text);
        return -1;
    }
    char *copy = xstrndup(text, size);
    struct folders folders = { folder_of(to), folder_of(from) };
    buf_puts(&b, "");
    const int tables = fill(&b, copy, &folders, shell, err);
    // A document updated in place keeps its other text, so replacing it needs no --force.
    int status = tables < 0          ? err_in(err, "%s", from)
                 : !strcmp(from, to) ? file_out_update(to, b.data, b.length, err)
                                     : file_out_write(to, b.data, b.length, err);
    if (status == 0) status = copy_pictures(copy, &folders, err);
    if (status == 0) {
        char *what = xasprintf("%d tables", tables);
        sinks_written(shell->sinks, "report", to, what);
        free(what);
    }
    buf_release(&b);
    free(folders.to);
    free(folders.from);
    free(copy);
    free(text);
    return status;
}

const struct command command_report = {
    .name = "report",
    .also = "summary tables",
    .usage = "/report FILE.md [OUT.md]",
    .help = "Fills the tables of a Markdown file from CSV files.",
    .details = "Replaces the text between a line\n"
               "    <!-- table FILE.csv [COLUMN]... [COLUMN=VALUE[|VALUE]...]... -->\n"
               "and the next line\n"
               "    <!-- end -->\n"
               "with rows of FILE.csv: the named columns (default: all) of the matching rows "
               "(default: all).\n"
               "`across C V` turns each value of C into a column that shows V:\n"
               "    <!-- table keep.csv keep across score hellinger -->\n"
               "Other text is unchanged. With OUT.md, FILE.md is unchanged. Looks for FILE.csv "
               "beside the output, then beside FILE.md; copies PNG pictures that are only beside "
               "FILE.md to the output's folder. Put names with spaces in double quotes.",
    .writes = true,
    .min = 1,
    .max = 2,
    .complete = COMPLETE_PATH,
    .run = report_run,
};
