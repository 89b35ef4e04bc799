// sessions/calibrations.c -- the table of calibration files.
#include "sessions/calibrations.h"

#include <stdlib.h>
#include <time.h>

#include "core/base/mem.h"
#include "sessions/internal.h"

int store_calibration_note(struct store *s, const struct calibration_row *row, struct err *err)
{
    return store_run(s, err,
                     "INSERT INTO calibrations(path, hash, kind, model, data, count, noted) "
                     "VALUES(?, ?, ?, ?, ?, ?, ?) "
                     "ON CONFLICT(path, hash) DO UPDATE SET noted = excluded.noted",
                     "tttttii", row->path, row->hash, row->kind, row->model, row->data, row->count,
                     (int64_t)time(NULL));
}

int store_calibrations(struct store *s, struct calibration_row **rows, size_t *count,
                       struct err *err)
{
    int found;
    *rows = NULL;
    *count = 0;
    sqlite3_stmt *q = store_query(s, err,
                                  "SELECT path, hash, kind, model, data, count FROM calibrations "
                                  "ORDER BY noted DESC, id DESC",
                                  "");
    if (!q) return -1;
    while ((found = store_step(s, q, err)) > 0) {
        *rows = xreallocarray(*rows, *count + 1, sizeof **rows);
        (*rows)[(*count)++] = (struct calibration_row){ .path = column_text(q, 0),
                                                        .hash = column_text(q, 1),
                                                        .kind = column_text(q, 2),
                                                        .model = column_text(q, 3),
                                                        .data = column_text(q, 4),
                                                        .count = sqlite3_column_int64(q, 5) };
    }
    sqlite3_finalize(q);
    if (found == 0) return 0;
    calibration_rows_free(*rows, *count);
    *rows = NULL;
    *count = 0;
    return -1;
}

void calibration_rows_free(struct calibration_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(rows[i].path);
        free(rows[i].hash);
        free(rows[i].kind);
        free(rows[i].model);
        free(rows[i].data);
    }
    free(rows);
}
