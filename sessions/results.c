// sessions/results.c -- the table of measurements.
#include "sessions/results.h"

#include <stdlib.h>

#include "core/base/mem.h"
#include "sessions/internal.h"

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
