// sessions/records.c -- the tables of presets, calibration files and measurements.
#include "sessions/records.h"

#include <stdlib.h>
#include <time.h>

#include "core/base/mem.h"
#include "core/settings/changes.h"
#include "sessions/internal.h"

// --- presets: a row for each setting -------------------------------------------------------------

int store_preset_save(struct store *s, const char *name, const struct change *list, size_t count,
                      struct err *err)
{
    if (store_lock(s, err) < 0) return -1;
    int status = store_run(s, err, "DELETE FROM presets WHERE name = ?", "t", name);
    for (size_t i = 0; i < count && status == 0; i++) {
        char *value = settings_stored(list[i].key, list[i].value);
        status =
            store_run(s, err, "INSERT INTO presets(name, place, key, value) VALUES(?, ?, ?, ?)",
                      "titt", name, (int64_t)i, list[i].key, value);
        free(value);
    }
    return store_unlock(s, status, err);
}

int store_preset_read(struct store *s, const char *name, struct preset_values *v, struct err *err)
{
    int found;
    sqlite3_stmt *q = store_query(
        s, err, "SELECT key, value FROM presets WHERE name = ? ORDER BY place", "t", name);
    if (!q) return -1;
    while ((found = store_step(s, q, err)) > 0) {
        char *key = column_text(q, 0), *value = column_text(q, 1);
        preset_add(v, key, value);
        free(key);
        free(value);
    }
    sqlite3_finalize(q);
    if (found == 0 && !v->count) return err_set(err, "no preset '%s' (/preset list)", name);
    return found;
}

int store_preset_delete(struct store *s, const char *name, struct err *err)
{
    struct preset_values v = { 0 };
    const int status = store_preset_read(s, name, &v, err);
    preset_values_release(&v);
    return status < 0 ? -1 : store_run(s, err, "DELETE FROM presets WHERE name = ?", "t", name);
}

int store_presets(struct store *s, struct names *names, struct err *err)
{
    return store_names(s, names, err, "SELECT DISTINCT name FROM presets ORDER BY name", "");
}

// --- calibration files ---------------------------------------------------------------------------

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

// --- measurements --------------------------------------------------------------------------------

int store_result_keep(struct store *s, int64_t session, int64_t time, const char *name,
                      const char *json, struct err *err)
{
    if (!session)
        return store_run(s, err,
                         "INSERT INTO results(session, time, name, json) VALUES(NULL,?,?,?)", "itt",
                         time, name, json);
    return store_run(s, err,
                     "INSERT INTO results(session, time, name, json) "
                     "VALUES((SELECT id FROM sessions WHERE id = ?), ?, ?, ?)",
                     "iitt", session, time, name, json);
}

int store_results(struct store *s, const char *name, int64_t id, struct result_entry **list,
                  size_t *count, struct err *err)
{
    int found;
    *list = NULL;
    *count = 0;
    sqlite3_stmt *q = store_query(s, err,
                                  "SELECT id, session, time, name, "
                                  "CASE WHEN id = ?1 THEN json END FROM results "
                                  "WHERE (?2 = '' OR name = ?2) AND (?1 = 0 OR id = ?1) "
                                  "ORDER BY id DESC",
                                  "it", id, name ? name : "");
    if (!q) return -1;
    while ((found = store_step(s, q, err)) > 0) {
        *list = xreallocarray(*list, *count + 1, sizeof **list);
        (*list)[(*count)++] = (struct result_entry){ .id = sqlite3_column_int64(q, 0),
                                                     .session = sqlite3_column_int64(q, 1),
                                                     .time = time_text(sqlite3_column_int64(q, 2),
                                                                       "%Y-%m-%d %H:%M:%S"),
                                                     .name = column_text(q, 3),
                                                     .json = id ? column_text(q, 4) : NULL };
    }
    sqlite3_finalize(q);
    if (found == 0) return 0;
    result_entries_free(*list, *count);
    *list = NULL;
    *count = 0;
    return -1;
}

void result_entries_free(struct result_entry *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(list[i].time);
        free(list[i].name);
        free(list[i].json);
    }
    free(list);
}
