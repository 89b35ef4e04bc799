// sessions/records.h -- the tables of named presets, of calibration files, and of measurements as
// JSON.
//
//   store_preset_save(store, "mine", values.list, values.count, &err);   // replaces an old one
//   struct preset_values v = { 0 };
//   if (store_preset_read(store, "mine", &v, &err) < 0) ...              // also if missing
//   preset_values_release(&v);
//
//   store_calibrations(store, &rows, &count, &err);                      // newest first
//   calibration_rows_free(rows, count);
//
//   if (store_results(store, "norms", 0, &list, &count, &err) < 0) ...   // newest first
//   result_entries_free(list, count);
#ifndef SESSIONS_RECORDS_H
#define SESSIONS_RECORDS_H

#include "core/base/names.h"
#include "core/engine/presets.h"
#include "sessions/store.h"

int store_preset_save(struct store *s, const char *name, const struct change *list, size_t count,
                      struct err *err);
int store_preset_read(struct store *s, const char *name, struct preset_values *v, struct err *err);
int store_preset_delete(struct store *s, const char *name, struct err *err);
// Adds the names of all presets, sorted, to *names.
int store_presets(struct store *s, struct names *names, struct err *err);

struct calibration_row {
    char *path, *hash; // absolute; SHA-256 of the file
    char *kind, *model, *data;
    int64_t count; // samples, -1 unknown
};

// Recording the same file again makes it the newest.
int store_calibration_note(struct store *s, const struct calibration_row *row, struct err *err);
int store_calibrations(struct store *s, struct calibration_row **rows, size_t *count,
                       struct err *err);
void calibration_rows_free(struct calibration_row *rows, size_t count);

struct result_entry {
    int64_t id, session; // session 0: no session had started
    char *time, *name, *json;
};

// Reads the entries of one name (NULL: all names). An id selects one entry; id 0 selects all, and
// then json stays NULL.
int store_results(struct store *s, const char *name, int64_t id, struct result_entry **list,
                  size_t *count, struct err *err);
void result_entries_free(struct result_entry *list, size_t count);

#endif
