// sessions/calibrations.h -- records calibration files that were made or used: path and content
// hash.
//
//   struct calibration_row row = { .path = path, .hash = hash, .kind = "ffn", ... };
//   store_calibration_note(store, &row, &err);
//   store_calibrations(store, &rows, &count, &err);        // newest first
//   calibration_rows_free(rows, count);
#ifndef SESSIONS_CALIBRATIONS_H
#define SESSIONS_CALIBRATIONS_H

#include "sessions/store.h"

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

#endif
