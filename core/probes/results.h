// core/probes/results.h -- results of a measurement: tables of numbers, and maps over pictures.
//
//   struct results r = { 0 };
//   struct result_table *t = results_table(&r, "norms.layers", "layer|visual|text");
//   t->curve = true;
//   double *v = result_row(t, "%d", layer);        // one for each column after the first
//   v[0] = ...; v[1] = ...;
//   results_release(&r);
//
// Measurements of several samples are averaged cell by cell:
//
//   struct results_mean m = { 0 };
//   results_mean_add(&m, &r); ...
//   results_mean_take(&m, &mean);                  // tables NAME and, for several samples,
//                                                  // NAME.std and NAME.interval
//
// results_join joins measurements under several conditions: its tables list the rows of all
// conditions, one condition after the other, and so do its maps:
//
//   results_join(&all, names, list, count);
#ifndef CORE_PROBES_RESULTS_H
#define CORE_PROBES_RESULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/base/event.h"
#include "core/base/mem.h"

// Meaning of a map's rows or columns.
enum map_axis {
    MAP_PATCHES, // both axes: the map covers the picture
    MAP_LAYERS,
    MAP_HEADS,
    MAP_POSITIONS, // of the sequence
    MAP_TOKENS,    // of the answer
    MAP_CLASSES    // of tokens: visual, text
};

struct buf;
struct result_table;
struct settings;

// Describes the tables or maps of one name: a row of a probe's `results` (core/probes/probe.h).
struct result_kind {
    const char *name; // "stream"; applies to "stream.std" and the like too
    const char *unit; // of the numbers ("L2 norm")
    // The table's columns with this unit, separated by "|"; NULL: all. If a name has several rows,
    // the first is drawn first, and alone in figures.
    const char *columns;
    // True for maps, which the screen steps through. `each`: which of --layer, --head and --token
    // select a map; the screen passes these to the command.
    bool map;
    enum map_axis rows, cols;
    unsigned each;    // EACH_LAYER ...
    double low, high; // range of the colours; both 0: the range of the map's values
    // Returns true if a layer has a map under these settings. NULL: every layer has one.
    bool (*has)(const struct settings *s, int layers, int layer);
    bool on_request;  // the screen does not run the command by itself, because the command needs
                      // more options or much time
    const char *live; // name of its maps during an answer; NULL: none
    // What its first column measures, for the sentence of results_conclude ("attention to the
    // picture", of which a layer has most); NULL: the columns' names say it.
    const char *finds;
    bool bars; // figures draw the table as bars, a group for each row
    // The numbers are changes whose largest loss is the finding: results_conclude names the lowest
    // first.
    bool losses;
    // Appends the sentence of results_conclude about the table's rows of one condition, or nothing.
    // NULL: the sentence says where the columns are highest and lowest.
    void (*sentence)(const struct result_table *t, int condition, struct buf *b);
};

// EACH_ALONE: the command measures one layer at a time.
enum { EACH_LAYER = 1, EACH_HEAD = 2, EACH_TOKEN = 4, EACH_ALONE = 8 };

struct result_row {
    char *key;
    double *value; // [column_count - 1]; NaN: none
    int condition; // index in results.conditions, if there are any; RESULTS_ALL: of all conditions
};

enum { RESULTS_ALL = -1 };

struct result_table {
    char *name;
    char **columns; // [column_count]; the first names the keys
    int column_count;
    struct result_row *rows;
    size_t row_count;
    bool own;    // its rows are specific to this picture or sample, so no mean is computed
    bool kept;   // if own: a data set's table has the rows of all samples
    bool curve;  // keys are numbers: columns can be drawn as curves over them
    bool points; // columns 1 and 2 are x and y of points
    int ranked; // 1, -1: sorted by the first number, ascending or descending; shows first rows only
    bool log_y; // the y axis of the points is logarithmic
};

// Values of the tokens of a picture, or of one of its tiles.
struct result_map {
    char *name, *tile;               // tile NULL: the picture has only one
    int picture, layer, head, token; // as in struct event_heatmap
    int rows, cols;
    float *values;  // [rows * cols]; NaN: no token
    char **words;   // [rows * cols] written over the cells; NULL: numbers only
    uint8_t *state; // [rows * cols] 1: pruning dropped the token; NULL: nothing is pruned
    double area[4]; // left, top, right, bottom in pixels of the picture: the area covered
    int condition;  // index in results.conditions, if there are any
};

struct results {
    char **conditions; // [condition_count] names; 0: a measurement under one condition
    size_t condition_count;
    struct result_table **tables;
    size_t table_count;
    struct result_map *maps;
    size_t map_count;
    char **notes; // sentences for people
    size_t note_count;
    char *title[2], *text[2];     // two texts to show side by side; NULL: none
    size_t *starts[2], tokens[2]; // [tokens] offsets of their tokens; NULL: unknown
    // Precision of the passes' matrix products: "f32", "bf16", for two sides "f32 | bf16".
    char arithmetic[16]; // "": nothing computed, or unknown
};

// Adds a table; "|" separates the columns' names.
struct result_table *results_table(struct results *r, const char *name, const char *columns);
double *result_row(struct result_table *t, const char *key, ...)
    __attribute__((format(printf, 2, 3)));
// Adds a map with all values NaN and nothing dropped; a probe describes it in its `results`.
struct result_map *results_map(struct results *r, const char *name, int rows, int cols);
// Sorts the rows of ranked tables.
void results_rank(struct results *r);
void results_note(struct results *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Adds a note that says where the main table is highest and lowest (or its kind's sentence), for
// each of the first 4 conditions. The main table is the first that is a curve, is ranked, or has a
// kind with `finds` or `sentence`. Without one, repeats the first two numbers of a table of single
// numbers, unless there are notes or conditions.
void results_conclude(struct results *r);
void results_texts(struct results *r, const char *const title[2], const char *const text[2]);
void results_starts(struct results *r, int side, const size_t *starts, size_t tokens);
// Sets the precision of matrix products. `second` NULL: one side, or two with the same precision.
void results_arithmetic(struct results *r, const char *first, const char *second);
void results_release(struct results *r);
// Return NULL if there is no such table, row or column.
const struct result_table *results_find(const struct results *r, const char *table);
const double *results_value(const struct results *r, const char *table, const char *key,
                            const char *column);

// Suffix of the names of tables of 95% intervals. They are written to files and the session, and
// drawn in figures; results_show_tables shows only those of differences.
#define RESULTS_INTERVAL ".interval"
// Suffix of the names of tables of paired differences from the first condition.
#define RESULTS_DIFFERENCE ".difference"
// Name of the column of conditions.
#define RESULTS_CONDITION "condition"

// Means over samples; zero-initialised is empty.
struct results_mean {
    // Tables hold the fields of a struct tally for each cell; maps hold sums and counts.
    struct results sums;
    int64_t samples;
    bool own; // some maps have axes of positions or tokens, which differ between samples
};

// Appends the rows of the kept tables of `r`, with the sample's number in a last column.
void results_keep(struct results *kept, const struct results *r, int64_t sample);
// Appends the tables of `from`, which is empty afterwards.
void results_move_tables(struct results *to, struct results *from);
// Adds a sample's tables and maps, except those specific to a sample; skips notes and texts.
void results_mean_add(struct results_mean *m, const struct results *r);
void results_mean_take(struct results_mean *m, struct results *mean);
// Adds copies of the tables whose means can be computed.
void results_copy(struct results *to, const struct results *from);
// Subtracts `from` cell by cell and renames the tables to NAME.difference. A cell that `from` lacks
// becomes NaN; tables, rows and columns that only `from` has are ignored.
void results_subtract(struct results *r, const struct results *from);
// Joins measurements under `count` conditions, with these names; the list is empty afterwards.
// Columns are matched by name. A note that not all conditions share names its condition.
void results_join(struct results *all, const char *const *names, struct results *list,
                  size_t count);

// Emits texts and tables; for a kept table that is too long to read, only a notice. The caller,
// which has the pictures, emits the maps, then the notes, so that the conclusion comes last.
void results_show_tables(const struct results *r, const struct sinks *sinks);
void results_show_notes(const struct results *r, const struct sinks *sinks);
// Emits both, for results without maps.
void results_show(const struct results *r, const struct sinks *sinks);
// Returns the file name of one of several parts; the caller frees it. "n.csv" and "norms.layers"
// give n-norms.layers.csv, "norms.csv" gives norms.layers.csv. `number`: 2, 3 ... for further parts
// of that name.
char *results_path(const char *path, const char *ending, const char *name, int number);
// Returns 0 if a part's files (results_path) may be written, and those of parts whose names begin
// with its name, as norms.layers with norms. For probes that compute long before they write.
int results_check(const char *path, const char *ending, const char *part, struct err *err);
// Writes tables as CSV files and reports them: a single table to `path`, several to one file each
// (results_path), and all maps to one more file. A failed write replaces no file; `path` must be a
// regular file if several files are written.
int results_write_csv(const struct results *r, const char *path, const struct sinks *sinks,
                      struct err *err);
// Returns the name of a row's or map's condition; NULL: there is only one condition.
const char *results_condition(const struct results *r, int condition);
// Makes an event of a map; borrows its values.
struct event_heatmap results_heatmap(const struct result_map *m);

// Returns the first row for that name, or for its longest known prefix before a dot, in the
// `results` of probes and the `units` of calibrations; NULL: unknown.
const struct result_kind *result_kind(const char *name);
// Returns the kind at `index` among the maps that the screen steps through, and sets *command to
// the command that makes them; NULL past the end.
const struct result_kind *result_map_kind(int index, const char **command);
// Returns true if maps of this name are emitted during an answer.
bool results_live(const char *name);
// Returns the axis's name, such as "layer"; NULL for patches.
const char *map_axis_name(enum map_axis axis);
// Returns the unit ("cosine") in the first row for a table's or map's name; NULL: unknown.
const char *results_unit(const char *name);
// Returns true if a list separated by "|" has this column; `columns` NULL: false.
bool results_lists(const char *columns, const char *column);
// Returns the unit of a column (1 or higher); NULL: unknown.
const char *results_column_unit(const struct result_table *t, int column);
// Returns true if the column (1 or higher) can share an axis with the unit that results_unit
// returns: it has that unit, or no column of the table is known to have it.
bool results_same_unit(const struct result_table *t, int column);
// Returns true if both columns can share an axis: they have the same unit, or no column of the
// table has a known one.
bool results_share_unit(const struct result_table *t, int a, int b);

// Appends JSON as the session database stores it; results_read fills an empty `r` from such JSON.
void results_json(const struct results *r, struct buf *b);
// Emits the results as those of the command `key`; the session database stores them. `words`, and
// `makes` (its `ok`): as in EVENT_MEASURED.
void results_emit(const struct results *r, const char *key, const char *words, bool makes,
                  const struct sinks *sinks);
int results_read(struct results *r, const char *json, struct err *err);

#endif
