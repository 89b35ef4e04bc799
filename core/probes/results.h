// core/probes/results.h -- what a measurement came to: tables of numbers, and maps over pictures.
//
//   struct results r = { 0 };
//   struct result_table *t = results_table(&r, "norms.layers", "layer|visual|text");
//   t->curve = true;
//   double *v = result_row(t, "%d", layer);        // as many as there are columns after the first
//   v[0] = ...; v[1] = ...;
//   results_release(&r);
//
// Measurements of several samples are averaged cell by cell:
//
//   struct results_mean m = { 0 };
//   results_mean_add(&m, &r); ...
//   results_mean_take(&m, &mean);                  // NAME, and NAME.std beside it
#ifndef CORE_PROBES_RESULTS_H
#define CORE_PROBES_RESULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/base/event.h"
#include "core/base/mem.h"

struct result_row {
    char *key;
    double *value; // [column_count - 1]; NaN: none
};

struct result_table {
    char *name;
    char **columns; // [column_count]; the first is that of the keys
    int column_count;
    struct result_row *rows;
    size_t row_count;
    bool own;    // its rows are things of this picture or sample: not averaged
    bool curve;  // keys are numbers: the columns are lines over them
    bool points; // column 1 is x, column 2 is y of points
    bool log_y;  // these on a logarithmic axis
};

// Values over the tokens of a picture (one tile of it).
struct result_map {
    char *name, *tile;               // tile NULL: the picture is one
    int picture, layer, head, token; // as in struct event_heatmap
    int rows, cols;
    float *values;  // [rows * cols]; NaN where no token is
    uint8_t *state; // [rows * cols] 1: pruning dropped the token; NULL: nothing is pruned
    double area[4]; // left, top, right, bottom in pixels of the picture: what it lies over
};

struct results {
    struct result_table **tables;
    size_t table_count;
    struct result_map *maps;
    size_t map_count;
    char **notes; // sentences for people
    size_t note_count;
    char *title[2], *text[2];     // two texts to be seen side by side; NULL: none
    size_t *starts[2], tokens[2]; // where each of their tokens begins; NULL: not known
    // What the products of the passes were computed in: "f32", "bf16", of two sides "f32 | bf16".
    char arithmetic[16]; // "": nothing was computed, or it is not known
};

// `columns` separated by "|".
struct result_table *results_table(struct results *r, const char *name, const char *columns);
double *result_row(struct result_table *t, const char *key, ...)
    __attribute__((format(printf, 2, 3)));
// Every value is NaN, nothing is dropped.
struct result_map *results_map(struct results *r, const char *name, int rows, int cols);
void results_note(struct results *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
void results_texts(struct results *r, const char *const title[2], const char *const text[2]);
void results_starts(struct results *r, int side, const size_t *starts, size_t tokens);
// `second` NULL: there is one side, or both are alike.
void results_arithmetic(struct results *r, const char *first, const char *second);
void results_release(struct results *r);
// NULL when there is no such table, row or column.
const struct result_table *results_find(const struct results *r, const char *table);
const double *results_value(const struct results *r, const char *table, const char *key,
                            const char *column);

// Means over samples; zeroed is empty.
struct results_mean {
    // Of each cell of the tables what struct tally keeps; of maps sums and counts.
    struct results means, squares, counts;
    int64_t samples;
};

// Tables that are a sample's own, notes and texts are left out.
void results_mean_add(struct results_mean *m, const struct results *r);
void results_mean_take(struct results_mean *m, struct results *mean);

// Texts, tables and notes as others see them; the maps are left to whoever has the pictures.
void results_show(const struct results *r, const struct sinks *sinks);
// Tables as CSV files, and what was written as notices: a single one to `path`, several to
// PATH-TABLE.csv each, the maps together to PATH-maps.csv: all of them or none, and not where PATH
// is no plain file.
int results_write_csv(const struct results *r, const char *path, const struct sinks *sinks,
                      struct err *err);
// A map as others see it; it borrows the map's values.
struct event_heatmap results_heatmap(const struct result_map *m);

// As the session database keeps them. What is read comes to an empty `r`.
void results_json(const struct results *r, struct buf *b);
int results_read(struct results *r, const char *json, struct err *err);

#endif
