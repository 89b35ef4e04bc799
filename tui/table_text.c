// tui/table_text.c -- fits the columns of a table to their content and to the available width;
// wider ones keep a line for each row.
#include "tui/table_text.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/text.h"
#include "tui/text.h"
#include "tui/wrap.h"

enum { GAP = 2, LEAST = 20 }; // between columns; no column of words becomes narrower than this

struct table_copy {
    size_t columns, rows; // the first row are the headings
    char **cells;         // [rows, columns], without newlines
    bool *numeric;        // [columns]
    int *least;           // [columns] columns that its words need
    char *title;          // NULL: none
};

char *table_cell(const char *column, const char *cell)
{
    const bool answer = column && !strncmp(column, "answer", 6);
    char *text = xstrdup(!cell ? "" : answer ? text_trimmed(cell) : cell);
    for (char *p = text; *p; p++)
        if (*p == '\n' || *p == '\t' || *p == '\r') *p = ' ';
    return text;
}

void table_copy_free(void *table)
{
    struct table_copy *t = table;
    if (!t) return;
    for (size_t i = 0; i < t->rows * t->columns; i++) free(t->cells[i]);
    free(t->cells);
    free(t->numeric);
    free(t->least);
    free(t->title);
    free(t);
}

// The longest piece without a blank: words, names and paths stay whole.
static int longest_word(const char *cell)
{
    int longest = 0;
    while (*cell) {
        const size_t n = strcspn(cell, " ");
        char *word = xstrndup(cell, n);
        const int width = text_width(word);
        free(word);
        if (width > longest) longest = width;
        cell += n + strspn(cell + n, " ");
    }
    return longest;
}

static int least(const struct table_copy *t, size_t column)
{
    return t->least[column];
}

// What fit() may make of each column: no narrower than its heading and its words.
static void find_least(struct table_copy *t)
{
    for (size_t i = 0; i < t->rows * t->columns; i++) {
        const int own = i < t->columns ? text_width(t->cells[i]) : longest_word(t->cells[i]);
        int *least = &t->least[i % t->columns];
        if (own > *least) *least = own;
        if (LEAST > *least) *least = LEAST;
    }
}

struct table_copy *table_copy_new(const struct event_table *from)
{
    struct table_copy *t = xcalloc(1, sizeof *t);
    t->columns = (size_t)from->column_count;
    t->rows = (size_t)from->row_count + 1;
    t->title = from->titled ? xstrdup(from->name) : NULL;
    t->cells = xcalloc(t->rows * t->columns + 1, sizeof *t->cells);
    t->numeric = xcalloc(t->columns + 1, sizeof *t->numeric);
    for (size_t i = 0; i < t->rows * t->columns; i++)
        t->cells[i] = i < t->columns
                          ? table_cell(NULL, from->columns[i])
                          : table_cell(from->columns[i % t->columns], from->cells[i - t->columns]);
    for (size_t i = 0; i < t->columns && from->numeric; i++) t->numeric[i] = from->numeric[i];
    t->least = xcalloc(t->columns + 1, sizeof *t->least);
    find_least(t);
    return t;
}

// The widest column of words that may still be narrower, with the width of the next one.
static bool find_widest(const struct table_copy *t, const int *widths, size_t *widest, int *next)
{
    bool found = false;
    *next = 0;
    for (size_t c = 0; c < t->columns; c++) {
        if (t->numeric[c] || widths[c] <= least(t, c)) continue;
        if (!found || widths[c] > widths[*widest]) {
            if (found) *next = widths[*widest];
            *widest = c;
            found = true;
        } else if (widths[c] > *next) {
            *next = widths[c];
        }
    }
    return found;
}

static int *own_widths(const struct table_copy *t)
{
    int *widths = xcalloc(t->columns + 1, sizeof *widths);
    for (size_t i = 0; i < t->rows * t->columns; i++) {
        const int cell = text_width(t->cells[i]);
        if (cell > widths[i % t->columns]) widths[i % t->columns] = cell;
    }
    return widths;
}

static int narrowest(const struct table_copy *t, const int *widths)
{
    int sum = -GAP;
    for (size_t c = 0; c < t->columns; c++)
        sum += GAP + (t->numeric[c] || widths[c] < least(t, c) ? widths[c] : least(t, c));
    return sum;
}

int table_copy_least(const struct table_copy *t)
{
    int *widths = own_widths(t);
    const int sum = narrowest(t, widths);
    free(widths);
    return sum;
}

size_t table_copy_headings(const struct table_copy *t)
{
    return t->title ? 2 : 1;
}

char *table_copy_items(const struct table_copy *t)
{
    struct buf b = { 0 };
    for (size_t r = 1; r < t->rows; r++) {
        char *const *cells = t->cells + r * t->columns;
        buf_printf(&b, "%s  ", *cells[0] ? cells[0] : "-");
        for (size_t c = 1; c < t->columns; c++)
            if (*cells[c] && c == 1)
                buf_puts(&b, cells[c]);
            else if (*cells[c])
                buf_printf(&b, "; %s: %s", t->cells[c], cells[c]);
        buf_putc(&b, '\n');
    }
    return b.data ? buf_take(&b) : xstrdup("");
}

// Wraps columns of words until the table fits. One that cannot fit keeps its rows whole: it is
// scrolled sideways.
static void fit(const struct table_copy *t, int *widths, int room)
{
    size_t widest = 0;
    int next, sum = -GAP;
    for (size_t c = 0; c < t->columns; c++) sum += widths[c] + GAP;
    if (narrowest(t, widths) > room) return;
    while (sum > room && find_widest(t, widths, &widest, &next)) {
        int to = widths[widest] - (sum - room);
        if (to < next) to = next < widths[widest] ? next : widths[widest] - 1;
        if (to < least(t, widest)) to = least(t, widest);
        sum -= widths[widest] - to;
        widths[widest] = to;
    }
}

static void add_cell(struct buf *b, const char *text, size_t length, int width, bool right,
                     bool last)
{
    char *cell = xstrndup(text, length);
    const int space = width - text_width(cell);
    for (int i = 0; right && i < space; i++) buf_putc(b, ' ');
    buf_puts(b, cell);
    for (int i = 0; !right && !last && i < space; i++) buf_putc(b, ' ');
    free(cell);
}

// A row: as many lines as its longest cell needs.
static void add_row(const struct table_copy *t, struct buf *b, char *const *cells,
                    const int *widths, struct wrap *wraps)
{
    bool more = true;
    for (size_t c = 0; c < t->columns; c++)
        wraps[c] = wrap_begin(cells[c], t->numeric[c] ? 1 << 20 : widths[c]);
    for (int line = 0; more; line++) {
        more = false;
        if (b->length) buf_putc(b, '\n');
        for (size_t c = 0; c < t->columns; c++) {
            const bool text = wrap_next(&wraps[c]);
            if (c) buf_puts(b, "  ");
            add_cell(b, text ? wraps[c].line : "", text ? wraps[c].length : 0, widths[c],
                     t->numeric[c], c + 1 == t->columns);
            more |= !wraps[c].ended;
        }
        while (b->length && b->data[b->length - 1] == ' ') b->data[--b->length] = '\0';
    }
}

char *table_copy_text(const void *table, int width)
{
    const struct table_copy *t = table;
    int *widths = own_widths(t);
    struct wrap *wraps = xcalloc(t->columns + 1, sizeof *wraps);
    struct buf b = { 0 };
    fit(t, widths, width);
    if (t->title) buf_printf(&b, "-- %s", t->title);
    for (size_t r = 0; r < t->rows; r++) add_row(t, &b, t->cells + r * t->columns, widths, wraps);
    free(widths);
    free(wraps);
    return buf_take(&b);
}
