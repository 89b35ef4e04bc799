// sessions/presets.c -- the table of presets: a row for each setting of each.
#include "sessions/presets.h"

#include <stdlib.h>

#include "core/base/mem.h"
#include "core/settings/changes.h"
#include "sessions/internal.h"

static int replace(struct store *s, const char *name, const struct change *list, size_t count,
                   struct err *err)
{
    if (store_run(s, err, "DELETE FROM presets WHERE name = ?", "t", name) < 0) return -1;
    int status = 0;
    for (size_t i = 0; i < count && status == 0; i++) {
        char *value = settings_stored(list[i].key, list[i].value);
        status =
            store_run(s, err, "INSERT INTO presets(name, place, key, value) VALUES(?, ?, ?, ?)",
                      "titt", name, (int64_t)i, list[i].key, value);
        free(value);
    }
    return status;
}

int store_preset_save(struct store *s, const char *name, const struct change *list, size_t count,
                      struct err *err)
{
    if (store_lock(s, err) < 0) return -1;
    return store_unlock(s, replace(s, name, list, count, err), err);
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
    int found;
    sqlite3_stmt *q = store_query(s, err, "SELECT DISTINCT name FROM presets ORDER BY name", "");
    if (!q) return -1;
    while ((found = store_step(s, q, err)) > 0) {
        char *name = column_text(q, 0);
        names_add(names, name, NULL);
        free(name);
    }
    sqlite3_finalize(q);
    return found;
}
