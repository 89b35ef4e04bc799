// tui/event_text.c -- fits the columns of a table to their content and to the available width, and
// wraps two texts side by side. A table that cannot fit keeps one line per row.
#include "tui/event_text.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "tui/text.h"
#include "tui/wrap.h"

enum {
    GAP = 2,      // spaces between columns
    LEAST = 20,   // minimum width of a text column
    WIDEST = 1000 // longer cells do not widen the other rows
};

struct table_copy {
    size_t columns, rows; // the first row has the headings
    char **cells;         // [rows, columns], without newlines
    bool *numeric;        // [columns]
    int *least;           // [columns] minimum width: at least that of heading and longest word
    char *title;          // NULL: none
};

// --- tables --------------------------------------------------------------------------------------

// Copies a cell as one line; trims the leading space of an answer. column NULL: the cell is a
// heading.
static char *table_cell(const char *column, const char *cell)
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

static int column_width(const char *cell)
{
    const int width = text_width(cell);
    return width < WIDEST ? width : WIDEST;
}

// Returns the width of the longest word, because words, names and paths are not broken.
static int longest_word(const char *cell)
{
    int longest = 0;
    while (*cell) {
        const size_t n = strcspn(cell, " ");
        char *word = xstrndup(cell, n);
        const int width = column_width(word);
        free(word);
        if (width > longest) longest = width;
        cell += n + strspn(cell + n, " ");
    }
    return longest;
}

struct table_copy *table_copy_new(const struct event_table *from)
{
    struct table_copy *t = xcalloc(1, sizeof *t);
    t->columns = (size_t)from->column_count;
    t->rows = (size_t)from->row_count + 1;
    t->title = from->titled ? xstrdup(from->name) : NULL;
    t->cells = xcalloc(t->rows * t->columns + 1, sizeof *t->cells);
    t->numeric = xcalloc(t->columns + 1, sizeof *t->numeric);
    t->least = xcalloc(t->columns + 1, sizeof *t->least);
    for (size_t i = 0; i < t->rows * t->columns; i++) {
        const size_t column = i % t->columns;
        t->cells[i] = i < t->columns
                          ? table_cell(NULL, from->columns[i])
                          : table_cell(from->columns[column], from->cells[i - t->columns]);
        const int own = i < t->columns ? column_width(t->cells[i]) : longest_word(t->cells[i]);
        if (own > t->least[column]) t->least[column] = own;
        if (LEAST > t->least[column]) t->least[column] = LEAST;
    }
    for (size_t i = 0; i < t->columns && from->numeric; i++) t->numeric[i] = from->numeric[i];
    return t;
}

// Finds the widest text column that can still shrink, and the width of the second widest.
static bool find_widest(const struct table_copy *t, const int *widths, size_t *widest, int *next)
{
    bool found = false;
    *next = 0;
    for (size_t c = 0; c < t->columns; c++) {
        if (t->numeric[c] || widths[c] <= t->least[c]) continue;
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
        const int cell = column_width(t->cells[i]);
        if (cell > widths[i % t->columns]) widths[i % t->columns] = cell;
    }
    return widths;
}

static int narrowest(const struct table_copy *t, const int *widths)
{
    int sum = -GAP;
    for (size_t c = 0; c < t->columns; c++)
        sum += GAP + (t->numeric[c] || widths[c] < t->least[c] ? widths[c] : t->least[c]);
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

// Narrows text columns until the table fits. A table that cannot fit keeps whole rows and scrolls
// sideways.
static void fit(const struct table_copy *t, int *widths, int room)
{
    size_t widest = 0;
    int next, sum = -GAP;
    for (size_t c = 0; c < t->columns; c++) sum += widths[c] + GAP;
    if (narrowest(t, widths) > room) return;
    while (sum > room && find_widest(t, widths, &widest, &next)) {
        int to = widths[widest] - (sum - room);
        if (to < next) to = next < widths[widest] ? next : widths[widest] - 1;
        if (to < t->least[widest]) to = t->least[widest];
        sum -= widths[widest] - to;
        widths[widest] = to;
    }
}

// Appends the text, padded to `width` and aligned left or right.
static void add_cell(struct buf *b, const char *text, size_t length, int width, bool right)
{
    char *cell = xstrndup(text, length);
    const int space = width > text_width(cell) ? width - text_width(cell) : 0;
    buf_printf(b, "%*s%s%*s", right ? space : 0, "", cell, right ? 0 : space, "");
    free(cell);
}

// Adds a table row, in as many lines as its longest cell needs.
static void add_row(const struct table_copy *t, struct buf *b, char *const *cells,
                    const int *widths, struct wrap *wraps)
{
    bool more = true;
    for (size_t c = 0; c < t->columns; c++) {
        const bool whole =
            t->numeric[c] || widths[c] == WIDEST || text_width(cells[c]) <= widths[c];
        wraps[c] = wrap_begin(cells[c], whole ? 1 << 20 : widths[c]);
    }
    while (more) {
        more = false;
        for (size_t c = 0; c < t->columns; c++) {
            const bool text = wrap_next(&wraps[c]);
            if (c) buf_puts(b, "  ");
            add_cell(b, text ? wraps[c].line : "", text ? wraps[c].length : 0, widths[c],
                     t->numeric[c]);
            more |= !wraps[c].ended;
        }
        while (b->length && b->data[b->length - 1] == ' ') b->length--;
        buf_putc(b, '\n');
    }
}

char *table_copy_text(const void *table, int width)
{
    const struct table_copy *t = table;
    int *widths = own_widths(t);
    struct wrap *wraps = xcalloc(t->columns + 1, sizeof *wraps);
    struct buf b = { 0 };
    fit(t, widths, width);
    if (t->title) buf_printf(&b, "-- %s\n", t->title);
    for (size_t r = 0; r < t->rows; r++) add_row(t, &b, t->cells + r * t->columns, widths, wraps);
    if (b.data) b.data[--b.length] = '\0'; // the last newline
    free(widths);
    free(wraps);
    return buf_take(&b);
}

// --- two texts -----------------------------------------------------------------------------------

// Appends both texts side by side, each wrapped to `width`.
static void put_columns(struct buf *to, const char *const texts[2], int width)
{
    struct wrap wraps[2] = { wrap_begin_marked(texts[0], width),
                             wrap_begin_marked(texts[1], width) };
    while (!wraps[0].ended || !wraps[1].ended)
        for (int k = 0; k < 2; k++) {
            const bool more = wrap_next(&wraps[k]);
            const int indent = more ? wraps[k].indent : 0;
            buf_printf(to, "%*s", indent, "");
            add_cell(to, more ? wraps[k].line : "", more ? wraps[k].length : 0,
                     k ? 0 : width - indent, false);
            buf_puts(to, k ? "\n" : " \xE2\x94\x82 "); // a vertical line between the texts
        }
}

void columns_draw(struct buf *to, const struct event_columns *c, int width)
{
    static const char mark[] = "\xC2\xBB"; // goes before the first character that differs
    const bool same = !strcmp(c->text[0], c->text[1]);
    const size_t blanks = (size_t)(text_trimmed(c->text[0]) - c->text[0]);
    const size_t common = c->common > blanks ? c->common - blanks : 0;
    const int half = width < 20 ? 8 : (width - 3) / 2;
    char *marked[2];
    for (int k = 0; k < 2; k++) {
        const char *text = text_trimmed(c->text[k]);
        const int shared = (int)(common < strlen(text) ? common : strlen(text));
        marked[k] = xasprintf("%.*s%s%s", shared, text, same ? "" : mark, text + shared);
        for (char *p = marked[k]; *p; p++)
            if (*p == '\t' || *p == '\r') *p = ' ';
    }
    put_columns(to, c->title, half);
    for (int i = 0; i < 2 * half + 3; i++)
        buf_puts(to, i == half + 1 ? "\xE2\x94\xBC" : "\xE2\x94\x80");
    buf_putc(to, '\n');
    put_columns(to, (const char *const *)marked, half);
    if (to->data) to->data[--to->length] = '\0'; // the last newline
    for (int k = 0; k < 2; k++) free(marked[k]);
}

void *columns_copy(const struct event_columns *from)
{
    struct event_columns *c = xcalloc(1, sizeof *c);
    c->common = from->common;
    for (int k = 0; k < 2; k++) {
        c->title[k] = xstrdup(from->title[k]);
        c->text[k] = xstrdup(from->text[k]);
    }
    return c;
}

char *columns_text(const void *copy, int width)
{
    struct buf b = { 0 };
    columns_draw(&b, copy, width);
    return buf_take(&b);
}

void columns_free(void *copy)
{
    struct event_columns *c = copy;
    for (int k = 0; c && k < 2; k++) {
        free((char *)c->title[k]);
        free((char *)c->text[k]);
    }
    free(c);
}

// --- one line ------------------------------------------------------------------------------------

void measures_text(struct buf *b, const struct event_answer *a, bool speed)
{
    buf_printf(b, "%lld prompt tokens", (long long)a->prompt_tokens);
    if (a->visual_tokens) buf_printf(b, " (%lld visual)", (long long)a->visual_tokens);
    if (a->computed_tokens < a->prompt_tokens)
        buf_printf(b, ", %lld new", (long long)a->computed_tokens);
    buf_printf(b, ", %.1f s; %zu token%s", a->prefill_s + a->vision_s, a->count,
               a->count == 1 ? "" : "s");
    if (a->reasoning_tokens) buf_printf(b, " (%lld reasoning)", (long long)a->reasoning_tokens);
    buf_printf(b, ", %.1f s", a->decode_s);
    if (speed && a->decode_s > 0 && a->count)
        buf_printf(b, ", %.1f/s", (double)a->count / a->decode_s);
    if (a->accepted)
        buf_printf(b, ", %lld of %lld drafts accepted", (long long)a->accepted,
                   (long long)a->drafted);
    if (!strcmp(a->stop, "length")) buf_puts(b, "; stopped at the token limit");
    if (!strcmp(a->stop, "cancelled")) buf_puts(b, "; stopped");
}

char *event_line(const struct event *e)
{
    struct buf b = { 0 };
    if (e->kind == EVENT_RESULT) buf_printf(&b, "%s: %s", e->key, e->value);
    for (int64_t i = 0; e->kind == EVENT_IDS && i < e->count; i++)
        buf_printf(&b, i ? " %d" : "%d", e->ids[i]);
    return buf_take(&b);
}

bool throttle_pass(struct throttle *t, const struct event_progress *progress)
{
    const double now = clock_seconds();
    const bool last = progress->steps > 0 && progress->step >= progress->steps;
    if (!t->running) t->started = now;
    if (t->running && !last && now - t->last < 0.2) return false;
    t->running = !last;
    t->last = now;
    return true;
}
