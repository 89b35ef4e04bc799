// commands/collect.c -- /collect: runs a command and appends values from its tables to a CSV file,
// as one row, or as a row for each row that a table shows. So scripts can measure under many
// settings and plot or report the results.
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
#include "core/base/folder.h"
#include "core/base/items.h"
#include "core/base/text.h"
#include "core/eval/grid.h"
#include "core/files/checkpoint.h"
#include "core/probes/results.h"
#include "core/probes/taps.h"

enum { WORDS_MAX = 64 };

// A table that the command emitted.
struct shown {
    char *name;
    struct csv table;
    const char *duplicate; // a name that several columns have; NULL: none
};

struct collecting {
    const char *file;
    struct pair {
        char *name;
        const char *value; // of a cell: the text after "@"
        bool cell;
    } pairs[WORDS_MAX];
    int pair_count;
    const char *table; // table whose shown rows are collected; NULL: only cells
    bool intervals;    // also those of its table of intervals, as further columns
    bool again;
    int argc; // of the command
    char **argv;
    char *model, *state; // provenance of the numbers
    struct shell *shell;
    struct provenance from; // the same provenance, in parts
    bool changed;           // a table came from a different or unknown state
    struct err change;
    struct shown *shown;
    size_t shown_count;
};

// --- the command's tables ------------------------------------------------------------------------

static struct shown *add_shown(struct collecting *c, const char *name)
{
    c->shown = xreallocarray(c->shown, c->shown_count + 1, sizeof *c->shown);
    struct shown *s = &c->shown[c->shown_count++];
    *s = (struct shown){ .name = xstrdup(name) };
    return s;
}

// Takes the tables of intervals of a measurement, which are not shown.
static void take_intervals(struct collecting *c, const char *json)
{
    struct results r = { 0 };
    struct err ignored; // the record of a comparison, which has no such tables
    const bool read = results_read(&r, json, &ignored) == 0;
    for (size_t i = 0; read && i < r.table_count; i++) {
        const struct result_table *t = r.tables[i];
        if (!text_ends(t->name, RESULTS_INTERVAL)) continue;
        struct csv *to = &add_shown(c, t->name)->table;
        if (r.condition_count) csv_need_column(to, RESULTS_CONDITION);
        for (int k = 0; k < t->column_count; k++) csv_need_column(to, t->columns[k]);
        for (size_t k = 0; k < t->row_count; k++) {
            const size_t row = csv_add_row(to);
            const int key = r.condition_count > 0;
            if (key) csv_set(to, row, 0, results_condition(&r, t->rows[k].condition));
            csv_set(to, row, key, t->rows[k].key);
            for (int v = 0; v + 1 < t->column_count; v++) {
                char text[32];
                snprintf(text, sizeof text, "%.6g", t->rows[k].value[v]);
                csv_set(to, row, key + 1 + v, isfinite(t->rows[k].value[v]) ? text : "");
            }
        }
    }
    results_release(&r);
}

static void take_event(void *self, const struct event *e)
{
    struct collecting *c = self;
    struct provenance now;
    if (e->kind == EVENT_MEASURED) take_intervals(c, e->text);
    if (e->kind != EVENT_TABLE) return;
    // The command may change settings (/run, /set): its tables would then not belong to the state
    // that the row records.
    if (!c->changed) {
        c->changed = engine_provenance(c->shell->engine, STALE_MEASURED, &now, &c->change) < 0 ||
                     provenance_same(&c->from, &now, &c->change) < 0;
        provenance_release(&now);
    }
    const struct event_table *t = e->table;
    struct shown *s = add_shown(c, t->name);
    for (int k = 0; k < t->column_count; k++) {
        const bool known = csv_column(&s->table, t->columns[k]) >= 0;
        const int column = csv_need_column(&s->table, t->columns[k]);
        if (known) s->duplicate = s->table.columns[column];
    }
    for (int r = 0; r < t->row_count; r++) {
        const size_t row = csv_add_row(&s->table);
        // In reverse, so that the first of several columns with the same name wins.
        for (int k = t->column_count; k-- > 0;)
            csv_set(&s->table, row, csv_column(&s->table, t->columns[k]),
                    t->cells[r * t->column_count + k]);
    }
}

// Turns "5.9%" into "5.9" and, with `units`, "412.0 MB, forecast ..." into "412.0"; copies other
// texts.
static char *plain_value(const char *text, bool units)
{
    char *end;
    strtod(text, &end);
    if (end == text || !((units && *end == ' ') || (*end == '%' && !end[1]))) return xstrdup(text);
    return xstrndup(text, (size_t)(end - text));
}

// Finds a cell of one table; `row` and `column` are names or patterns. column NULL: the column
// after the row's name. In a table of several conditions, a row is also named CONDITION/ROW.
static const char *find_in(const struct csv *t, const char *row, const char *column)
{
    const int key = t->column_count && !strcmp(t->columns[0], RESULTS_CONDITION);
    int at = key + 1;
    const char *found = NULL;
    while (column && at < t->column_count && !tap_match(column, t->columns[at])) at++;
    for (size_t r = 0; at < t->column_count && r < t->row_count && !found; r++) {
        char *both = xasprintf("%s/%s", csv_cell(t, r, 0), csv_cell(t, r, key));
        if (tap_match(row, csv_cell(t, r, key)) || (key && tap_match(row, both)))
            found = csv_cell(t, r, at);
        free(both);
    }
    return found;
}

// True for a table of deviations or intervals, which nothing finds unless it is named.
static bool is_spread(const char *name)
{
    return text_ends(name, ".std") || text_ends(name, RESULTS_INTERVAL);
}

static int no_tables(struct err *err)
{
    return err_set(err, "the command showed no table: if it started a job, add --here, or wait and "
                        "collect from what shows its results (/eval show, /results)");
}

// Finds a cell by ROW, ROW:COLUMN or TABLE:ROW:COLUMN, which may be patterns, in the last table
// that has it. Without TABLE, skips tables of deviations and intervals (NAME.std, NAME.interval).
static const char *find_cell(const struct collecting *c, const char *cell_name, struct err *err)
{
    char *copy = xstrdup(cell_name), *words[3] = { copy };
    int count = 1;
    for (char *p = copy; *p; p++)
        if (*p == ':' && count < 3) {
            *p = 0;
            words[count++] = p + 1;
        }
    const char *table = count == 3 ? words[0] : NULL, *found = NULL;
    const char *row = words[count == 3], *column = count > 1 ? words[count - 1] : NULL;
    if (column && !*column) column = NULL;
    for (size_t i = c->shown_count; i-- > 0 && !found;)
        if (table ? tap_match(table, c->shown[i].name) : !is_spread(c->shown[i].name))
            found = find_in(&c->shown[i].table, row, column);
    free(copy);
    if (!found && !c->shown_count)
        no_tables(err);
    else if (!found)
        err_set(err,
                "no table shown so far has '%s': write @ROW, @ROW:COLUMN or @TABLE:ROW:COLUMN with "
                "the names shown",
                cell_name);
    return found;
}

static const struct shown *find_table(const struct collecting *c, const char *name, struct err *err)
{
    struct buf b = { 0 };
    for (size_t i = c->shown_count; i-- > 0;)
        if (tap_match(name, c->shown[i].name) && (is_spread(name) || !is_spread(c->shown[i].name)))
            return &c->shown[i];
    for (size_t i = 0; i < c->shown_count; i++)
        buf_printf(&b, "%s%s", i ? ", " : "", c->shown[i].name);
    if (!c->shown_count)
        no_tables(err);
    else
        err_set(err, "the command showed no table '%s'; it showed: %.300s", name,
                b.data ? b.data : "none");
    buf_release(&b);
    return NULL;
}

// --- the file ------------------------------------------------------------------------------------

// Relation of a row of the file to the measurement.
enum row_match {
    OTHER_VALUES,
    OTHER_STATE, // the same values, from a different model or state
    UNKNOWN,     // the same values, without provenance
    SAME
};

static const char *cell(const struct csv *t, size_t row, const char *name)
{
    const int column = csv_column(t, name);
    return column < 0 ? "" : csv_cell(t, row, column);
}

static enum row_match match_row(const struct collecting *c, const struct csv *t, size_t row)
{
    for (int i = 0; i < c->pair_count; i++) {
        const int column = c->pairs[i].cell ? -1 : csv_column(t, c->pairs[i].name);
        if (c->pairs[i].cell) continue;
        if (column < 0 || strcmp(csv_cell(t, row, column), c->pairs[i].value) != 0)
            return OTHER_VALUES;
    }
    const char *model = cell(t, row, PROVENANCE_COLUMN_MODEL);
    const char *state = cell(t, row, PROVENANCE_COLUMN_STATE);
    if (!*model && !*state) return UNKNOWN;
    const bool same = !strcmp(model, c->model) ||
                      (c->from.checkpoint && checkpoint_matches_earlier(c->from.checkpoint, model));
    return same && items_same(state, c->state, ", ") ? SAME : OTHER_STATE;
}

static int open_file(const struct collecting *c, struct csv *t, struct err *err)
{
    *t = (struct csv){ 0 };
    return access(c->file, F_OK) == 0 ? csv_read(t, c->file, err) : 0;
}

// Adds a row with the typed values and the cells.
static int add_row(const struct collecting *c, struct csv *t, size_t *row, struct err *err)
{
    *row = csv_add_row(t);
    for (int i = 0; i < c->pair_count; i++) {
        const struct pair *p = &c->pairs[i];
        const char *text = p->cell ? find_cell(c, p->value, err) : p->value;
        if (!text) return -1;
        char *value = p->cell ? plain_value(text, true) : xstrdup(text);
        csv_set(t, *row, csv_need_column(t, p->name), value);
        free(value);
    }
    return 0;
}

// Sets the cells of row `r` of a shown table in row `row` of the file.
static void set_cells(struct csv *t, size_t row, const struct csv *from, size_t r)
{
    for (int k = 0; k < from->column_count; k++) {
        char *value = plain_value(csv_cell(from, r, k), false);
        csv_set(t, row, csv_need_column(t, from->columns[k]), value);
        free(value);
    }
}

// Returns the intervals of a table, row by row; NULL with a message if it has none, or if only some
// of the table's rows were shown.
static const struct csv *find_intervals(const struct collecting *c, const struct shown *of,
                                        struct err *err)
{
    char *name = xasprintf("%s" RESULTS_INTERVAL, of->name);
    const struct shown *shown = find_table(c, name, err);
    if (shown && shown->table.row_count != of->table.row_count) {
        err_set(err,
                "only the first rows of '%s' were shown: write the table and its intervals "
                "with --csv instead",
                of->name);
        shown = NULL;
    }
    free(name);
    return shown ? &shown->table : NULL;
}

static int add_rows(const struct collecting *c, struct csv *t, struct err *err)
{
    size_t row;
    if (!c->table) return add_row(c, t, &row, err);
    const struct shown *shown = find_table(c, c->table, err);
    const struct csv *more = shown && c->intervals ? find_intervals(c, shown, err) : NULL;
    if (!shown || (c->intervals && !more)) return -1;
    const struct csv *from = &shown->table;
    // A column of the file has only one value per row.
    if (shown->duplicate)
        return err_set(err, "table '%s' has several columns '%s': name single cells instead",
                       shown->name, shown->duplicate);
    for (int i = 0; i < c->pair_count; i++)
        if (csv_column(from, c->pairs[i].name) >= 0 ||
            (more && csv_column(more, c->pairs[i].name) >= 0))
            return err_set(err, "table '%s' already has a column '%s': rename '%s=...'",
                           shown->name, c->pairs[i].name, c->pairs[i].name);
    for (size_t r = 0; r < from->row_count; r++) {
        if (add_row(c, t, &row, err) < 0) return -1;
        set_cells(t, row, from, r);
        if (more) set_cells(t, row, more, r);
    }
    return 0;
}

// Adds the new rows to the file and drops old rows with the same values; of these, rows from a
// different model or state stay unless --again is given. Reads the file again first, because the
// command may also have collected into it.
static int keep(const struct collecting *c, const struct shell *shell, struct err *err)
{
    struct csv t;
    char *folder = text_folder(c->file);
    // Another /collect may add rows at the same time. Without the lock, which a run may hold, adds
    // the rows all the same.
    const int lock = folder_lock(folder, "collecting", NULL);
    free(folder);
    size_t others = 0;
    int status = open_file(c, &t, err);
    for (size_t r = t.row_count; status == 0 && r-- > 0;) {
        const enum row_match k = match_row(c, &t, r);
        const bool stays = k == OTHER_STATE && !c->again;
        others += stays;
        if (k != OTHER_VALUES && !stays) csv_drop_row(&t, r);
    }
    const size_t from = t.row_count;
    if (status == 0) status = add_rows(c, &t, err);
    if (status == 0) {
        const int model = csv_need_column(&t, PROVENANCE_COLUMN_MODEL);
        const int state = csv_need_column(&t, PROVENANCE_COLUMN_STATE);
        for (size_t r = from; r < t.row_count; r++) {
            csv_set(&t, r, model, c->model);
            csv_set(&t, r, state, c->state);
        }
        status = csv_write(&t, c->file, err);
    }
    if (status == 0 && others)
        sinks_notice(shell->sinks,
                     "'%s' also has %zu row%s with these values, measured with another model or "
                     "state (column %s): --again replaces them",
                     c->file, others, others == 1 ? "" : "s", PROVENANCE_COLUMN_STATE);
    csv_release(&t);
    if (lock >= 0) close(lock);
    return status;
}

// True if the row has a value besides those of the measurement's conditions and its provenance.
static bool has_other_cell(const struct collecting *c, const struct csv *t, size_t row)
{
    bool found = false;
    for (int k = 0; k < t->column_count && !found; k++) {
        found = *csv_cell(t, row, k) &&
                strncmp(t->columns[k], PROVENANCE_COLUMN, sizeof PROVENANCE_COLUMN - 1) != 0;
        for (int i = 0; i < c->pair_count && found; i++)
            found = strcmp(t->columns[k], c->pairs[i].name) != 0;
    }
    return found;
}

// Refuses a row with these values if all cells to collect are empty but another column has a value:
// the row belongs to another measurement, so it must neither count as this one nor be replaced. If
// no other column has a value either, it belongs to this one, which found no values.
static int check_kept(const struct collecting *c, const struct csv *t, size_t row, struct err *err)
{
    const char *lacks = NULL;
    for (int i = 0; i < c->pair_count; i++) {
        if (c->pairs[i].cell && *cell(t, row, c->pairs[i].name)) return 0;
        if (c->pairs[i].cell) lacks = c->pairs[i].name;
    }
    if (!lacks || !has_other_cell(c, t, row)) return 0;
    return err_set(err,
                   "'%s' has a row with these values, but without '%s': collect into another file, "
                   "add a NAME=VALUE that tells the measurements apart, or replace the row with "
                   "--again",
                   c->file, lacks);
}

// Returns 1 if the file already has rows with these values from this model and state, 0 if not, -1
// on an error (grid_plan.kept).
static int is_kept(struct grid *g, size_t cell, struct err *err)
{
    const struct collecting *c = g->self;
    struct csv t;
    int found = 0;
    if (c->again) return 0;
    if (open_file(c, &t, err) < 0) return -1;
    for (size_t r = 0; r < t.row_count && !found; r++)
        if (match_row(c, &t, r) == SAME) found = check_kept(c, &t, r, err) < 0 ? -1 : 1;
    csv_release(&t);
    if (found > 0)
        sinks_notice(c->shell->sinks,
                     "'%s' already has these rows: nothing to do (--again replaces them)", c->file);
    return found;
}

// --- the command ---------------------------------------------------------------------------------

// Takes NAME=VALUE, NAME=@CELL or TABLE.
static int take_word(void *self, const char *word, struct err *err)
{
    struct collecting *c = self;
    const char *equals = strchr(word, '=');
    if (!equals || equals == word) {
        const size_t n = c->table ? strlen(c->table) : 0;
        if (n && !strncmp(word, c->table, n) && !strcmp(word + n, RESULTS_INTERVAL)) {
            c->intervals = true;
            return 0;
        }
        if (c->table)
            return err_set(err, "only one table can be collected: '%s' or '%s'", c->table, word);
        c->table = word;
        return 0;
    }
    if (!strncmp(word, PROVENANCE_COLUMN, sizeof PROVENANCE_COLUMN - 1))
        return err_set(err, "'%s': columns named " PROVENANCE_COLUMN "* are reserved for /collect",
                       word);
    if (c->pair_count == WORDS_MAX)
        return err_set(err, "/collect takes at most %d columns", WORDS_MAX);
    c->pairs[c->pair_count++] = (struct pair){ .name = xstrndup(word, (size_t)(equals - word)),
                                               .value = equals + 1 + (equals[1] == '@'),
                                               .cell = equals[1] == '@' };
    return 0;
}

static const struct option_row options[] = {
    { "FILE.csv", NULL, "the file to append rows to", OPTION_TEXT,
      .at = offsetof(struct collecting, file) },
    { "NAME=VALUE", NULL, NULL, .take = take_word, .optional = true, .many = true },
    { "--again", NULL,
      "runs COMMAND even if the file already has these rows, and replaces all rows with the same "
      "conditions",
      OPTION_FLAG, .at = offsetof(struct collecting, again) },
    { 0 },
};

// Reads the words up to the colon; the command begins at argv[*at].
static int read_words(struct collecting *c, int argc, char **argv, int *at, struct err *err)
{
    int i = 0;
    while (i < argc && strcmp(argv[i], ":") != 0) i++;
    if (options_parse(options, c, i, argv, err) < 0) return -1;
    bool cells = c->table != NULL;
    for (int k = 0; k < c->pair_count; k++) cells |= c->pairs[k].cell;
    if (i + 1 >= argc || argv[i + 1][0] != '/')
        return err_set(
            err, "give ' : ' and a command: /collect FILE.csv score=@score : /eval DATA --here");
    if (!cells)
        return err_set(err, "nothing to collect: add NAME=@ROW for a number that the command "
                            "shows, or the name of a table");
    *at = i + 1;
    return 0;
}

// Runs the command. A command that takes the rest of its line gets that rest as one argument.
static int run_command(struct shell *shell, int argc, char **argv, struct err *err)
{
    const struct command *command = command_find(argv[0] + 1);
    if (!command) return err_set(err, "unknown command '%s': /help lists the commands", argv[0]);
    if (!command->rest || (argc > 1 && command->split && !strncmp(argv[1], "--", 2)))
        return command_execute(command, shell, argc - 1, argv + 1, err);
    char *rest = words_join(argc - 1, argv + 1);
    const int status = command_execute(command, shell, argc > 1, &rest, err);
    free(rest);
    return status;
}

static int run_and_keep(struct grid *g, size_t cell, struct err *err)
{
    struct collecting *c = g->self;
    struct shell *shell = c->shell;
    const int sinks = shell->sinks->count;
    if (sinks >= SINKS_MAX - 1) // the command may add a sink, too
        return err_set(err, "/collect is nested too deeply: '%s'", c->file);
    sinks_add(shell->sinks, (struct sink){ .emit = take_event, .self = c });
    const int status = run_command(shell, c->argc, c->argv, err);
    shell->sinks->count = sinks;
    if (status == 0 && c->changed)
        return err_set(err,
                       "nothing collected: the command changed the model or settings its tables "
                       "come from (%s); run /load and /set before /collect",
                       c->change.text);
    return status < 0 ? -1 : keep(c, shell, err);
}

// A grid plan with one cell: the shell's state.
static const struct grid_plan plan = { .kept = is_kept, .run = run_and_keep };

static int collect(struct collecting *c, struct err *err)
{
    struct shell *shell = c->shell;
    const struct command *command = command_find(c->argv[0] + 1);
    // A file that /collect wrote gets more rows; any other existing file needs --force.
    struct csv t;
    const bool ours = csv_read(&t, c->file, NULL) == 0 &&
                      csv_column(&t, PROVENANCE_COLUMN_MODEL) >= 0 &&
                      csv_column(&t, PROVENANCE_COLUMN_STATE) >= 0;
    csv_release(&t);
    file_in_clear(); // so that only files that the command reads are recorded
    if (!ours && file_out_check(c->file, err) < 0) return -1;
    // May load the default model.
    if (command && command_check_needs(shell, command->needs, err) < 0) return -1;
    if (engine_provenance(shell->engine, STALE_MEASURED, &c->from, err) < 0) return -1;
    const char *model = provenance_value(&c->from, "model");
    c->model = xstrdup(model ? model : "");
    c->state = provenance_state(&c->from);
    struct grid g = grid_of_engine(shell->engine);
    g.self = c;
    grid_add(&g, NULL, settings_copy(engine_settings(shell->engine)));
    const int status = grid_run(&g, &plan, err);
    grid_release(&g);
    return status;
}

static int collect_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct collecting c = { .file = "", .shell = shell };
    int at = 0, status = read_words(&c, argc, argv, &at, err);
    c.argc = argc - at;
    c.argv = argv + at;
    if (status == 0) status = collect(&c, err);
    for (int i = 0; i < c.pair_count; i++) free(c.pairs[i].name);
    for (size_t i = 0; i < c.shown_count; i++) {
        free(c.shown[i].name);
        csv_release(&c.shown[i].table);
    }
    free(c.shown);
    provenance_release(&c.from);
    free(c.model);
    free(c.state);
    return status;
}

const struct command command_collect = {
    .name = "collect",
    .also = "csv table results",
    .usage =
        "/collect FILE.csv [NAME=VALUE]... [NAME=@CELL]... [TABLE [TABLE.interval]] [--again] : "
        "COMMAND",
    .help = "Runs a command and appends values from its tables to a CSV file.",
    .details =
        "NAME=VALUE records a condition of the measurement. NAME=@CELL records one value: CELL "
        "is ROW, ROW:COLUMN (default: the column after the row's name) or TABLE:ROW:COLUMN; names "
        "may be patterns. TABLE records the rows of a table that the command shows (of a ranked "
        "table, the first 20; the command's --csv writes all), and TABLE.interval after it the 95% "
        "intervals of means over a data set, as columns \"X low\" and \"X high\".\n"
        "    /collect keep.csv keep=0.25 \"far=@Hellinger distance, mean\" : /compare off | "
        "prune.keep=0.25 --data questions.json\n"
        "    /collect layers.csv model=aligned norms.layers norms.layers.interval : /norms --data "
        "questions.json\n"
        "Also writes the columns provenance.model (fingerprint) and provenance.state (adapter "
        "and the settings that change numbers). If the file already has rows with the same "
        "conditions, model and state, COMMAND does not run, so a script that was interrupted "
        "skips finished measurements when it runs again. Of rows with the same "
        "conditions, those from a different state are kept, and those without these two columns "
        "are replaced. The state does not include the conversation: if "
        "COMMAND measures it, identify it by a NAME=VALUE.\n"
        "\n"
        "/plot draws the file, /report inserts it into Markdown, /run FILE NAME=A,B repeats a "
        "script.",
    .options = options,
    .writes = true,
    .min = 1,
    .complete = COMPLETE_PATH,
    .question = true,
    .run = collect_run,
};
