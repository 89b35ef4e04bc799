// core/base/csv.c -- tables of text in CSV files.
#include "core/base/csv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/event.h"
#include "core/base/file_in.h"
#include "core/base/file_out.h"
#include "core/base/text.h"

enum { SIZE_MAX_BYTES = 64 << 20, COLUMNS_MAX = 4096 };

// --- the table -----------------------------------------------------------------------------------

static void row_free(char **row, int count)
{
    for (int c = 0; c < count; c++) free(row[c]);
    free(row);
}

void csv_release(struct csv *t)
{
    for (size_t r = 0; r < t->row_count; r++) row_free(t->rows[r], t->column_count);
    row_free(t->columns, t->column_count);
    free(t->rows);
    *t = (struct csv){ 0 };
}

int csv_column(const struct csv *t, const char *name)
{
    for (int c = 0; c < t->column_count; c++)
        if (!strcmp(t->columns[c], name)) return c;
    return -1;
}

int csv_find_column(const struct csv *t, const char *name, const char *path, struct err *err)
{
    struct buf b = { 0 };
    const int found = csv_column(t, name);
    if (found >= 0) return found;
    for (int c = 0; c < t->column_count; c++) buf_printf(&b, "%s%s", c ? ", " : "", t->columns[c]);
    err_set(err, "'%s' has no column '%s'; columns: %.300s", path, name, b.data ? b.data : "none");
    buf_release(&b);
    return -1;
}

int csv_need_column(struct csv *t, const char *name)
{
    const int found = csv_column(t, name);
    if (found >= 0) return found;
    const size_t count = (size_t)t->column_count + 1;
    t->columns = xreallocarray(t->columns, count, sizeof *t->columns);
    t->columns[count - 1] = xstrdup(name);
    for (size_t r = 0; r < t->row_count; r++) {
        t->rows[r] = xreallocarray(t->rows[r], count, sizeof **t->rows);
        t->rows[r][count - 1] = xstrdup("");
    }
    return t->column_count++;
}

size_t csv_add_row(struct csv *t)
{
    t->rows = xgrow(t->rows, &t->row_capacity, t->row_count, sizeof *t->rows);
    char **row = xreallocarray(NULL, (size_t)t->column_count + 1, sizeof *row);
    for (int c = 0; c < t->column_count; c++) row[c] = xstrdup("");
    t->rows[t->row_count] = row;
    return t->row_count++;
}

void csv_drop_row(struct csv *t, size_t row)
{
    row_free(t->rows[row], t->column_count);
    t->row_count--;
    memmove(t->rows + row, t->rows + row + 1, (t->row_count - row) * sizeof *t->rows);
}

void csv_set(struct csv *t, size_t row, int column, const char *text)
{
    free(t->rows[row][column]);
    t->rows[row][column] = xstrdup(text);
}

const char *csv_cell(const struct csv *t, size_t row, int column)
{
    return t->rows[row][column];
}

bool csv_is(const char *text, const char *values)
{
    const size_t n = strlen(text);
    for (const char *p = values;; p++) {
        const size_t length = strcspn(p, "|");
        if (length == n && !memcmp(p, text, n)) return true;
        p += length;
        if (!*p) return false;
    }
}

bool csv_number(const char *text, double *value)
{
    char *end;
    *value = strtod(text, &end);
    return end != text && !*end;
}

bool *csv_all(const struct csv *t)
{
    bool *chosen = xcalloc(t->row_count + 1, sizeof *chosen);
    for (size_t r = 0; r < t->row_count; r++) chosen[r] = true;
    return chosen;
}

int csv_where(const struct csv *t, const char *where, const char *path, bool *chosen,
              struct err *err)
{
    const size_t length = strcspn(where, "=");
    char *name = xstrndup(where, length);
    const int column = csv_find_column(t, name, path, err);
    free(name);
    for (size_t r = 0; column >= 0 && r < t->row_count; r++)
        chosen[r] &= csv_is(csv_cell(t, r, column), where + length + (where[length] == '='));
    return column < 0 ? -1 : 0;
}

// --- reading -------------------------------------------------------------------------------------

struct reader {
    const char *p, *end;
    size_t line;
    int columns; // fields per row, as in the first line; 0: not known yet
};

// Reads the field at p up to a comma, a newline or the end of the text.
static int read_field(struct reader *r, struct buf *field, struct err *err)
{
    buf_clear(field);
    if (r->p < r->end && *r->p == '"') {
        for (r->p++;; r->p++) {
            if (r->p == r->end)
                return err_set(err, "line %zu: the closing quote is missing", r->line);
            if (*r->p == '"' && (r->p + 1 == r->end || r->p[1] != '"')) break;
            if (*r->p == '"') r->p++;
            if (*r->p == '\n') r->line++;
            buf_putc(field, *r->p);
        }
        r->p++;
    }
    for (; r->p < r->end && *r->p != ',' && *r->p != '\n'; r->p++)
        if (*r->p != '\r') buf_putc(field, *r->p);
    return 0;
}

// Reads one line into *row, which the caller frees (row_free), even after a failure.
static int read_row(struct reader *r, char ***row, int *count, struct err *err)
{
    struct buf field = { 0 };
    int status = 0, capacity = 0;
    *row = NULL;
    *count = 0;
    for (bool more = true; more && status == 0;) {
        status = read_field(r, &field, err);
        if (status == 0 && *count == COLUMNS_MAX)
            status = err_set(err, "line %zu has more than %d fields", r->line, COLUMNS_MAX);
        if (status < 0) break;
        if (*count == capacity) {
            capacity = capacity ? 2 * capacity : r->columns ? r->columns : 16;
            *row = xreallocarray(*row, (size_t)capacity, sizeof **row);
        }
        (*row)[(*count)++] = xstrndup(field.data ? field.data : "", field.length);
        more = r->p < r->end && *r->p == ',';
        if (r->p < r->end) r->p++;
    }
    buf_release(&field);
    return status;
}

int csv_parse(struct csv *t, const char *text, size_t size, const char *columns, const char *name,
              struct err *err)
{
    struct reader first = { .p = columns, .end = columns ? columns + strlen(columns) : NULL };
    struct reader r = { .p = text + text_mark(text, size), .end = text + size, .line = 1 };
    *t = (struct csv){ 0 };
    if (text_check(text, size, name, err) < 0) return -1;
    int status = 0;
    if (r.p < r.end) status = read_row(columns ? &first : &r, &t->columns, &t->column_count, err);
    r.columns = t->column_count;
    for (r.line = columns ? 1 : 2; status == 0 && r.p < r.end; r.line++) {
        char **row;
        int count;
        const bool blank = *r.p == '\n' || (*r.p == '\r' && r.p + 1 < r.end && r.p[1] == '\n');
        status = read_row(&r, &row, &count, err);
        if (status == 0 && !blank && count != t->column_count)
            status = err_set(
                err,
                columns ? "line %zu has %d field%s, not the %d of a file without a head line"
                        : "line %zu has %d field%s, but the first line has %d",
                r.line, count, count == 1 ? "" : "s", t->column_count);
        if (status < 0 || blank) {
            row_free(row, count);
            continue;
        }
        t->rows = xgrow(t->rows, &t->row_capacity, t->row_count, sizeof *t->rows);
        t->rows[t->row_count++] = row;
    }
    if (status == 0) return 0;
    csv_release(t);
    return err_in(err, "%s", name);
}

int csv_read(struct csv *t, const char *path, struct err *err)
{
    size_t size;
    char *text = file_read(path, SIZE_MAX_BYTES, &size, err);
    *t = (struct csv){ 0 };
    if (!text) return -1;
    const int status = csv_parse(t, text, size, NULL, path, err);
    free(text);
    return status;
}

// --- writing -------------------------------------------------------------------------------------

void csv_quote(struct buf *b, const char *text)
{
    buf_putc(b, '"');
    for (; text && *text; text++) {
        if (*text == '"') buf_putc(b, '"');
        buf_putc(b, *text);
    }
    buf_putc(b, '"');
}

void csv_text(FILE *f, const char *text, char end)
{
    struct buf b = { 0 };
    csv_quote(&b, text);
    buf_putc(&b, end);
    fwrite(b.data, 1, b.length, f);
    buf_release(&b);
}

static void put_row(struct buf *b, char *const *row, int count)
{
    for (int c = 0; c < count; c++) {
        const bool marked = text_mark(row[c], strlen(row[c])) > 0;
        const bool empty = count == 1 && !*row[c]; // readers skip an empty line
        if (c) buf_putc(b, ',');
        if (marked || empty || row[c][strcspn(row[c], ",\"\r\n")])
            csv_quote(b, row[c]);
        else
            buf_puts(b, row[c]);
    }
    if (count) buf_putc(b, '\n');
}

static void put_csv(const struct csv *t, struct buf *to)
{
    put_row(to, t->columns, t->column_count);
    for (size_t r = 0; r < t->row_count; r++) put_row(to, t->rows[r], t->column_count);
}

static int write_as(const struct csv *t, void (*put)(const struct csv *t, struct buf *to),
                    const char *path, struct err *err)
{
    struct buf b = { 0 };
    put(t, &b);
    const int status = file_out_update(path, b.data, b.length, err);
    buf_release(&b);
    return status;
}

int csv_write(const struct csv *t, const char *path, struct err *err)
{
    return write_as(t, put_csv, path, err);
}

void csv_emit(const struct csv *t, const char *name, const struct sinks *sinks)
{
    const size_t columns = (size_t)t->column_count;
    const char **cells = xcalloc(columns * t->row_count + 1, sizeof *cells);
    bool *numeric = xcalloc(columns + 1, sizeof *numeric);
    double value;
    for (size_t c = 0; c < columns; c++) {
        numeric[c] = true;
        for (size_t r = 0; r < t->row_count; r++) {
            const char *cell = cells[r * columns + c] = t->rows[r][c];
            numeric[c] &= !*cell || csv_number(cell, &value);
        }
    }
    const struct event_table table = { .name = name,
                                       .columns = (const char *const *)t->columns,
                                       .column_count = t->column_count,
                                       .row_count = (int)t->row_count,
                                       .cells = cells,
                                       .numeric = numeric,
                                       .titled = true };
    sinks_emit(sinks, &(struct event){ .kind = EVENT_TABLE, .table = &table });
    free(cells);
    free(numeric);
}

// --- tables of documents -------------------------------------------------------------------------

static void markdown_row(struct buf *b, char *const *row, int count)
{
    for (int c = 0; c < count; c++) {
        buf_puts(b, c ? " " : "| ");
        text_put_markdown(b, row[c]);
        buf_puts(b, " |");
    }
    buf_putc(b, '\n');
}

static void latex_row(struct buf *b, char *const *row, int count)
{
    for (int c = 0; c < count; c++) {
        if (c) buf_puts(b, " & ");
        for (const char *p = row[c]; *p; p++)
            if (*p == '\\' || *p == '~' || *p == '^')
                buf_puts(b, *p == '\\'  ? "\\textbackslash{}"
                            : *p == '~' ? "\\textasciitilde{}"
                                        : "\\textasciicircum{}");
            else
                buf_printf(b, "%s%c", strchr("&%$#_{}", *p) ? "\\" : "", *p);
    }
    buf_puts(b, " \\\\\n");
}

void csv_put_markdown(const struct csv *t, struct buf *to)
{
    markdown_row(to, t->columns, t->column_count);
    for (int c = 0; c < t->column_count; c++) buf_puts(to, c ? "---:|" : "|---|");
    buf_putc(to, '\n');
    for (size_t r = 0; r < t->row_count; r++) markdown_row(to, t->rows[r], t->column_count);
}

static void put_latex(const struct csv *t, struct buf *to)
{
    buf_puts(to, "\\begin{tabular}{l");
    for (int c = 1; c < t->column_count; c++) buf_putc(to, 'r');
    buf_puts(to, "}\n\\toprule\n");
    latex_row(to, t->columns, t->column_count);
    buf_puts(to, "\\midrule\n");
    for (size_t r = 0; r < t->row_count; r++) latex_row(to, t->rows[r], t->column_count);
    buf_puts(to, "\\bottomrule\n\\end{tabular}\n");
}

int csv_write_documents(const struct csv *t, const char *stem, struct err *err)
{
    static const struct {
        const char *end;
        void (*put)(const struct csv *t, struct buf *to);
    } forms[] = { { ".csv", put_csv }, { ".md", csv_put_markdown }, { ".tex", put_latex } };
    int status = 0;
    for (size_t i = 0; i < sizeof forms / sizeof *forms && status == 0; i++) {
        char *path = xasprintf("%s%s", stem, forms[i].end);
        status = write_as(t, forms[i].put, path, err);
        free(path);
    }
    return status;
}
