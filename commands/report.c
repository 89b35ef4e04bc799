// commands/report.c -- /report: fills the tables of a Markdown file from CSV files, and draws its
// plots.
//
//   <!-- table keep.csv keep score hellinger method=capa -->
//   | keep | score | hellinger |        these lines are rewritten each time, up to `end`
//   <!-- end -->
//   <!-- table keep.csv keep mean score -->  a mean over rows that differ in other columns (seeds)
//   <!-- plot loss.svg runs/seeds loss@* --mean -->   a figure by /plot, beside the output
//
// Other text is unchanged; pictures are plain Markdown (![](keep.png)). Files are searched for in
// the folder of the output, then in that of the input; PNG pictures that exist only in the input's
// folder are copied.
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
#include "core/base/names.h"
#include "core/base/tally.h"
#include "core/base/text.h"

enum { REPORT_MAX = 64 << 20, COLUMNS_MAX = 64, ACROSS_MAX = 256, DIGITS = 4 };
static const size_t none = (size_t)-1;
static const char of_table[] = "<!-- table ", of_plot[] = "<!-- plot ", closing[] = "<!-- end -->";

// Folders, each empty or with a trailing slash.
struct folders {
    char *to, *from; // of the output file, and of the input file
};

// A parsed line "<!-- table ... -->".
struct report_table {
    char *path;
    struct csv t;
    int columns[COLUMNS_MAX], means[COLUMNS_MAX]; // means: averaged over rows equal in `columns`
    // Of columns with an interval, the index in `columns` of its low end, which the high end
    // follows; 0: none. is_end: the column is such an end, and shown with its interval.
    int low[COLUMNS_MAX];
    bool is_end[COLUMNS_MAX];
    int column_count, mean_count;
    int across, value; // the two columns after `across`; -1: none
    bool value_mean;
    bool *chosen; // [row_count]
    // With `across` or `mean`: the first chosen row with the same values in `columns`, the next one
    // (`none`: no other), and the first one with the same value of `across`.
    size_t *first, *next, *first_across; // [row_count]
    struct words words;
};

static void report_table_release(struct report_table *w)
{
    free(w->path);
    free(w->chosen);
    free(w->first);
    free(w->next);
    free(w->first_across);
    csv_release(&w->t);
    words_release(&w->words);
}

// --- a marked line -------------------------------------------------------------------------------

static int add_column(struct report_table *w, const char *name, bool mean, struct err *err)
{
    const int column = csv_find_column(&w->t, name, w->path, err);
    if (column < 0) return -1;
    if (w->column_count + w->mean_count == COLUMNS_MAX)
        return err_set(err, "a report table has at most %d columns", COLUMNS_MAX);
    if (mean)
        w->means[w->mean_count++] = column;
    else
        w->columns[w->column_count++] = column;
    return 0;
}

// "mean" takes the next word, "across" the next two; "mean" may precede the second of the two.
static int read_word(struct report_table *w, int *at, struct err *err)
{
    char *const *list = w->words.list;
    const char *word = list[*at];
    if (strchr(word, '=')) return csv_where(&w->t, word, w->path, w->chosen, err);
    if (!strcmp(word, "mean") && *at + 1 >= w->words.count)
        return err_set(err, "'mean' needs a column");
    if (!strcmp(word, "mean")) return add_column(w, list[++*at], true, err);
    if (strcmp(word, "across") != 0) return add_column(w, word, false, err);
    w->value_mean = *at + 2 < w->words.count && !strcmp(list[*at + 2], "mean");
    const int value = *at + 2 + w->value_mean;
    if (value >= w->words.count)
        return err_set(err, "'across' needs two columns: one whose values become columns, and "
                            "one whose values fill them");
    w->across = csv_find_column(&w->t, list[*at + 1], w->path, err);
    w->value = csv_find_column(&w->t, list[value], w->path, err);
    *at = value;
    return w->across < 0 || w->value < 0 ? -1 : 0;
}

static bool is_end(const struct report_table *w, int column, const char *of, const char *end)
{
    const char *name = w->t.columns[column];
    const size_t n = strlen(of);
    if (!strncmp(name, of, n) && name[n] == ' ') name += n + 1;
    return !strcmp(name, end);
}

// Returns whether the column lies between the two columns of `ends` in each row that has these, and
// whether any row has them.
static bool is_between(const struct csv *t, int column, const int *ends)
{
    bool any = false;
    double x, from, to;
    for (size_t r = 0; r < t->row_count; r++) {
        const char *low = csv_cell(t, r, ends[0]), *high = csv_cell(t, r, ends[1]);
        if (!*low && !*high) continue;
        if (!csv_number(csv_cell(t, r, column), &x) || !csv_number(low, &from) ||
            !csv_number(high, &to) || !(from <= x && x <= to))
            return false;
        any = true;
    }
    return any;
}

static bool is_count(const char *name)
{
    static const char *const counts[] = { "n",         "count",   "samples",
                                          "questions", "answers", "pictures" };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (!strcmp(name, counts[i])) return true;
    return false;
}

// Returns the index of the only column before the columns at `i` and `i` + 1, "low" and "high",
// that they may be the ends of; -1: none, or several. Values decide, because another column may
// precede them ("score", "n", "low", "high"); a count may lie between them by chance.
static int owner_of(const struct report_table *w, int i)
{
    int all = 0, scores = 0, any = -1, score = -1;
    for (int k = 0; k < i; k++) {
        if (w->low[k] || w->is_end[k] || !is_between(&w->t, w->columns[k], w->columns + i))
            continue;
        all++;
        any = k;
        if (is_count(w->t.columns[w->columns[k]])) continue;
        scores++;
        score = k;
    }
    return all == 1 ? any : scores == 1 ? score : -1;
}

// Joins each column with the ends of its interval: "loss", "loss low", "loss high", or "score",
// "low", "high".
static void join_intervals(struct report_table *w)
{
    for (int i = 1; i + 1 < w->column_count; i++) {
        const int *c = w->columns + i;
        const bool bare = !strcmp(w->t.columns[c[0]], "low") && !strcmp(w->t.columns[c[1]], "high");
        const char *of = w->t.columns[c[-1]];
        const bool named = !bare && is_end(w, c[0], of, "low") && is_end(w, c[1], of, "high");
        const int owner = named ? i - 1 : bare ? owner_of(w, i) : -1;
        if (owner < 0) continue;
        w->low[owner] = i;
        w->is_end[i] = w->is_end[i + 1] = true;
        i++;
    }
}

// Returns for each chosen row the first one with the same values in these columns. *count: how many
// different values there are.
static size_t *first_rows(const struct report_table *w, const int *columns, int column_count,
                          size_t *count)
{
    size_t *first = xcalloc(w->t.row_count + 1, sizeof *first);
    size_t *of = xcalloc(w->t.row_count + 1, sizeof *of); // a first row, by number of its values
    struct names values = { 0 };
    struct buf key = { 0 };
    for (size_t r = 0; r < w->t.row_count; r++) {
        bool known;
        if (!w->chosen[r]) continue;
        buf_clear(&key);
        buf_puts(&key, "");
        for (int c = 0; c < column_count; c++) {
            const char *cell = csv_cell(&w->t, r, columns[c]);
            buf_printf(&key, "%zu:%s", strlen(cell), cell);
        }
        const size_t number = names_add(&values, key.data, &known);
        if (!known) of[number] = r;
        first[r] = of[number];
    }
    *count = values.count;
    names_release(&values);
    buf_release(&key);
    free(of);
    return first;
}

// Finds the rows that `across` and `mean` put together.
static int join_rows(struct report_table *w, struct err *err)
{
    const size_t rows = w->t.row_count;
    size_t count, *last = xcalloc(rows + 1, sizeof *last);
    w->first = first_rows(w, w->columns, w->column_count, &count);
    w->next = xcalloc(rows + 1, sizeof *w->next);
    for (size_t r = 0; r < rows; r++) {
        w->next[r] = none;
        if (!w->chosen[r]) continue;
        if (w->first[r] != r) w->next[last[w->first[r]]] = r;
        last[w->first[r]] = r;
    }
    free(last);
    if (w->across < 0) return 0;
    w->first_across = first_rows(w, &w->across, 1, &count);
    if (count <= ACROSS_MAX) return 0;
    return err_set(err, "'across %s' would make %zu columns; a table has at most %d",
                   w->t.columns[w->across], count, ACROSS_MAX);
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
    int status = end ? words_parse(&w->words, text, false, shell, err)
                     : err_set(err, "the line has no '-->'");
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
    const bool all = !w->column_count && !w->mean_count && w->across < 0;
    // Omits the columns of provenance, which are for programs.
    for (int c = 0; c < w->t.column_count && all && status == 0; c++)
        if (strncmp(w->t.columns[c], PROVENANCE_COLUMN, sizeof PROVENANCE_COLUMN - 1) != 0)
            status = add_column(w, w->t.columns[c], false, err);
    if (status == 0) join_intervals(w);
    if (status == 0 && (w->across >= 0 || w->mean_count)) status = join_rows(w, err);
    return status;
}

// --- the table -----------------------------------------------------------------------------------

// Rounds numbers with a decimal point or exponent to four significant digits.
static void write_text(struct buf *b, const char *text)
{
    double value;
    if (csv_number(text, &value) && isfinite(value) && strlen(text) > DIGITS + 1 &&
        strcspn(text, ".eE") < strlen(text)) {
        buf_printf(b, "%.*g", DIGITS, value);
    } else {
        text_put_markdown(b, text);
    }
}

static void write_cell(struct buf *b, const char *text)
{
    buf_puts(b, " ");
    write_text(b, text);
    buf_puts(b, " |");
}

// Writes column `c` of a row, with its interval, if any: "0.5 (0.4 to 0.6)".
static void write_column(struct buf *b, const struct report_table *w, size_t row, int c)
{
    const int at = w->low[c];
    const char *low = at ? csv_cell(&w->t, row, w->columns[at]) : "",
               *high = at ? csv_cell(&w->t, row, w->columns[at + 1]) : "";
    buf_puts(b, " ");
    write_text(b, csv_cell(&w->t, row, w->columns[c]));
    if (*low || *high) {
        buf_puts(b, " (");
        write_text(b, low);
        buf_puts(b, " to ");
        write_text(b, high);
        buf_puts(b, ")");
    }
    buf_puts(b, " |");
}

// Returns the column to write after column `c` (-1: the first).
static int next_column(const struct report_table *w, int c)
{
    do c++;
    while (c < w->column_count && w->is_end[c]);
    return c;
}

// Writes the value of `column` in the rows whose columns equal those of row `a`, and whose `across`
// column, if any, equals that of row `of`: the first value, or their mean with its 95% interval.
static void write_value(struct buf *b, const struct report_table *w, size_t a, size_t of,
                        int column, bool mean)
{
    struct tally values = { 0 };
    double x, low, high;
    for (size_t r = a; r != none; r = w->next[r]) {
        const char *cell = csv_cell(&w->t, r, column);
        if (w->across >= 0 && w->first_across[r] != w->first_across[of]) continue;
        if (!mean) {
            write_cell(b, cell);
            return;
        }
        if (csv_number(cell, &x) && isfinite(x)) tally_add(&values, x);
    }
    if (!values.count) {
        write_cell(b, "");
        return;
    }
    tally_interval(&values, &low, &high);
    buf_printf(b, " %.*g", DIGITS, values.mean);
    if (values.count > 1) buf_printf(b, " (%.*g to %.*g)", DIGITS, low, DIGITS, high);
    buf_puts(b, " |");
}

// Writes the chosen rows; with `across` or `mean`, one row for each combination of values in
// w->columns.
static void write_table(struct buf *b, const struct report_table *w)
{
    const bool across = w->across >= 0, joined = across || w->mean_count;
    int columns = w->mean_count;
    buf_puts(b, "|");
    for (int c = next_column(w, -1); c < w->column_count; c = next_column(w, c), columns++)
        write_cell(b, w->t.columns[w->columns[c]]);
    for (int c = 0; c < w->mean_count; c++) write_cell(b, w->t.columns[w->means[c]]);
    size_t heads[ACROSS_MAX];
    int head_count = 0;
    for (size_t k = 0; across && k < w->t.row_count; k++)
        if (w->chosen[k] && w->first_across[k] == k) {
            write_cell(b, csv_cell(&w->t, k, w->across));
            heads[head_count++] = k;
        }
    columns += head_count;
    buf_puts(b, "\n|");
    for (int c = 0; c < columns; c++) buf_puts(b, c ? "---:|" : "---|");
    buf_puts(b, "\n");
    for (size_t r = 0; r < w->t.row_count; r++) {
        if (!w->chosen[r] || (joined && w->first[r] != r)) continue;
        buf_puts(b, "|");
        for (int c = next_column(w, -1); c < w->column_count; c = next_column(w, c))
            write_column(b, w, r, c);
        for (int c = 0; c < w->mean_count; c++) write_value(b, w, r, r, w->means[c], true);
        for (int k = 0; k < head_count; k++)
            write_value(b, w, r, heads[k], w->value, w->value_mean);
        buf_puts(b, "\n");
    }
}

// --- the file ------------------------------------------------------------------------------------

static int add_table(struct buf *b, const char *line, size_t length, const struct folders *folders,
                     struct shell *shell, struct err *err)
{
    struct report_table w;
    const size_t skip = sizeof of_table - 1;
    const int status = read_table(&w, line + skip, length - skip, folders, shell, err);
    if (status == 0) write_table(b, &w);
    report_table_release(&w);
    return status;
}

// True if the figure's path leaves the folder, also by way of a symbolic link.
static bool leaves_folder(const char *figure, const char *folder)
{
    char *path = xasprintf("%s%s", folder, figure), *in = text_folder(path);
    char *real = realpath(in, NULL), *root = realpath(*folder ? folder : ".", NULL);
    // If a path does not resolve, writing the figure fails with its own message.
    const bool inside = !real || !root || !strcmp(real, root) || file_is_below(real, root);
    free(path);
    free(in);
    free(real);
    free(root);
    return *figure == '/' || *figure == '~' || !inside;
}

// Refuses a figure outside the output's folder, and options that write other files: the document
// may come from someone else.
static int check_plot(const struct words *w, const char *folder, struct err *err)
{
    static const char *const writing[] = { "--figure", "--png", "--csv", "--force" };
    if (leaves_folder(w->list[0], folder))
        return err_set(err, "the figure '%s' must lie in the folder of the document", w->list[0]);
    for (int i = 1; i < w->count; i++)
        for (size_t k = 0; k < sizeof writing / sizeof *writing; k++)
            if (!strncmp(w->list[i], writing[k], strlen(writing[k])))
                return err_set(err,
                               "'%s' cannot be used in a document, whose plots write only their "
                               "figures: use /plot",
                               w->list[i]);
    return 0;
}

// Draws "FIGURE ARGUMENTS" with /plot and links the figure.
static int add_plot(struct buf *b, const char *line, size_t length, const struct folders *folders,
                    struct shell *shell, struct err *err)
{
    struct words w = { 0 };
    const size_t skip = sizeof of_plot - 1;
    char *text = xstrndup(line + skip, length - skip), *end = strstr(text, "-->");
    if (end) *end = 0;
    int status =
        end ? words_parse(&w, text, false, shell, err) : err_set(err, "the line has no '-->'");
    const bool whole = w.list && w.count >= 2;
    if (status == 0 && !whole)
        status = err_set(err, "write <!-- plot FIGURE ARGUMENTS -->, as for /plot");
    if (status == 0 && whole) status = check_plot(&w, folders->to, err);
    if (status == 0 && whole) {
        char **argv = xcalloc((size_t)w.count + 2, sizeof *argv);
        char *file = find_file(w.list[1], folders);
        char *figure = xasprintf("--figure=%s%s", folders->to, w.list[0]);
        for (int i = 2; i < w.count; i++) argv[i - 1] = w.list[i];
        argv[0] = access(file, F_OK) == 0 ? file : w.list[1];
        argv[w.count - 1] = figure;
        status = command_execute(command_find("plot"), shell, w.count, argv, err);
        const bool spaces = strchr(w.list[0], ' ');
        if (status == 0)
            buf_printf(b, spaces ? "![%s](<%s>)\n" : "![%s](%s)\n", w.list[0], w.list[0]);
        free(argv);
        free(file);
        free(figure);
    }
    words_release(&w);
    free(text);
    return status;
}

enum { TABLES, PLOTS, MARKS };
static const struct mark {
    const char *text;
    int (*add)(struct buf *b, const char *line, size_t length, const struct folders *folders,
               struct shell *shell, struct err *err);
} marks[MARKS] = { [TABLES] = { of_table, add_table }, [PLOTS] = { of_plot, add_plot } };

// Returns the mark at the start of a line; NULL: none.
static const struct mark *mark_at(const char *line)
{
    for (int i = 0; i < MARKS; i++)
        if (!strncmp(line, marks[i].text, strlen(marks[i].text))) return &marks[i];
    return NULL;
}

// Finds the closing mark at the start of a line (after spaces), before any other mark; NULL: none.
static const char *find_end(const char *text)
{
    for (const char *p = text; *p; p += *p == '\n') {
        const char *start = p + strspn(p, " \t");
        if (!strncmp(start, closing, sizeof closing - 1)) return start;
        if (mark_at(start)) return NULL;
        p += strcspn(p, "\n");
    }
    return NULL;
}

// Writes the text with its tables and plots updated, and counts them.
static int fill(struct buf *b, const char *text, const struct folders *folders, struct shell *shell,
                int filled[MARKS], struct err *err)
{
    int number = 1;
    for (const char *p = text; *p; number++) {
        size_t length = strcspn(p, "\n");
        const size_t whole = length + (p[length] == '\n');
        buf_add(b, p, whole);
        const struct mark *mark = mark_at(p);
        if (!mark) {
            p += whole;
            continue;
        }
        const char *end = find_end(p + whole);
        if (!end) return err_set(err, "line %d: no line '%s' follows this one", number, closing);
        if (p[length] != '\n') buf_putc(b, '\n');
        if (mark->add(b, p, length, folders, shell, err) < 0) return err_in(err, "line %d", number);
        for (; p < end; p++) number += *p == '\n';
        number--;
        filled[mark - marks]++;
        p = end;
        length = strcspn(p, "\n");
        buf_add(b, p, length + (p[length] == '\n'));
        p += length + (p[length] == '\n');
        number++;
    }
    return 0;
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

// Copies the PNG pictures that the text links to by a file name without a folder.
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
    int filled[MARKS] = { 0 };
    int status = fill(&b, copy, &folders, shell, filled, err);
    // A document updated in place keeps its other text, so replacing it needs no --force.
    status = status < 0          ? err_in(err, "%s", from)
             : !strcmp(from, to) ? file_out_update(to, b.data, b.length, err)
                                 : file_out_write(to, b.data, b.length, err);
    if (status == 0) status = copy_pictures(copy, &folders, err);
    if (status == 0) {
        const int tables = filled[TABLES], plots = filled[PLOTS];
        char *what = xasprintf("%d table%s", tables, tables == 1 ? "" : "s");
        char *all =
            plots ? xasprintf("%s, %d plot%s", what, plots, plots == 1 ? "" : "s") : xstrdup(what);
        sinks_written(shell->sinks, "report", to, all);
        free(what);
        free(all);
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
    .help = "Fills the tables of a Markdown file from CSV files, and draws its plots.",
    .details =
        "Replaces the text between a line\n"
        "    <!-- table FILE.csv [COLUMN]... [COLUMN=VALUE[|VALUE]...]... -->\n"
        "and the next line\n"
        "    <!-- end -->\n"
        "with rows of FILE.csv: the named columns (default: all but provenance.*) of the matching "
        "rows (default: all). A column X before X low and X high becomes one with them: x (low "
        "to high). So does the column whose values lie between those of low and high after it; of "
        "several, such as a score and a count, the only one with fractions.\n"
        "`across C V` turns each value of C (at most 256) into a column that shows V:\n"
        "    <!-- table keep.csv keep across score hellinger -->\n"
        "`mean V` shows the mean of V over the rows that agree in the other named columns,\n"
        "such as runs with different seeds, with its 95% interval (Student's t); `across C mean\n"
        "V` does so in each column:\n"
        "    <!-- table runs.csv method mean score -->\n"
        "A line\n"
        "    <!-- plot FIGURE.svg ARGUMENTS -->\n"
        "and a line <!-- end --> after it show what /plot ARGUMENTS draws:\n"
        "    <!-- plot loss.svg runs/seeds loss@* --mean -->\n"
        "FIGURE.svg must lie in the document's folder; the plot writes no other file (--csv).\n"
        "Other text is unchanged. With OUT.md, FILE.md is unchanged. Looks for FILE.csv "
        "beside the output, then beside FILE.md; copies PNG pictures that exist only beside "
        "FILE.md to the output's folder. Put names with spaces in quotes.",
    .writes = true,
    .min = 1,
    .max = 2,
    .complete = COMPLETE_PATH,
    .run = report_run,
};
