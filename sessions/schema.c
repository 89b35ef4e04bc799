// sessions/schema.c -- checks that a database has vlmsh's schema: a foreign view, generated column
// or trigger could run forever or change written values.
//
// Migrates a database in memory to the file's version and compares both schemas. SQLite stores each
// definition as it was typed, except for quotes and spaces, which depend on SQLite's version.
// Ignores other tables and views: nothing reads them.
#include <stdlib.h>
#include <string.h>

#include "sessions/internal.h"

static bool same_definition(const char *a, const char *b)
{
    static const char skipped[] = "\" \n\t";
    for (;; a++, b++) {
        a += strspn(a, skipped);
        b += strspn(b, skipped);
        if (*a != *b) return false;
        if (!*a) return true;
    }
}

static int refuse(const char *path, const char *name, const char *what, struct err *err)
{
    return err_set(err,
                   "the session database '%s' does not have vlmsh's schema: '%.100s' %s; name "
                   "another file with --db",
                   path, name, what);
}

static int expect_object(sqlite3 *db, sqlite3_stmt *ours, const char *path, struct err *err)
{
    sqlite3_stmt *q = NULL;
    char *name = column_text(ours, 0), *type = column_text(ours, 1), *sql = column_text(ours, 2);
    int status = 0;
    if (sqlite3_prepare_v2(db, "SELECT type, sql FROM sqlite_master WHERE name = ?", -1, &q,
                           NULL) != SQLITE_OK ||
        sqlite3_bind_text(q, 1, name, -1, SQLITE_TRANSIENT) != SQLITE_OK) {
        status = store_explain(db, path, err);
    } else if (sqlite3_step(q) != SQLITE_ROW) {
        status = refuse(path, name, "is missing", err);
    } else {
        char *there = column_text(q, 0), *definition = column_text(q, 1);
        if (strcmp(there, type) != 0)
            status =
                refuse(path, name, there[0] == 'v' ? "is a view" : "has a different type", err);
        else if (!same_definition(definition, sql))
            status = refuse(path, name, "has a different definition", err);
        free(there);
        free(definition);
    }
    sqlite3_finalize(q);
    free(name);
    free(type);
    free(sql);
    return status;
}

static int prepare(sqlite3 *db, const char *sql, sqlite3_stmt **q, const char *path,
                   struct err *err)
{
    return sqlite3_prepare_v2(db, sql, -1, q, NULL) == SQLITE_OK ? 0 : store_explain(db, path, err);
}

// Refuses indexes and triggers on vlmsh's tables that vlmsh did not make.
static int refuse_others(sqlite3 *db, sqlite3 *ours, const char *path, struct err *err)
{
    sqlite3_stmt *q = NULL, *find = NULL;
    int status = prepare(db,
                         "SELECT name, tbl_name, type FROM sqlite_master WHERE sql IS NOT NULL AND "
                         "type IN ('index', 'trigger')",
                         &q, path, err);
    if (status == 0)
        status = prepare(ours,
                         "SELECT sum(name = ?1 COLLATE NOCASE) FROM sqlite_master WHERE name = ?1 "
                         "COLLATE NOCASE OR name = ?2 COLLATE NOCASE HAVING count(*) > 0",
                         &find, path, err);
    while (status == 0 && sqlite3_step(q) == SQLITE_ROW) {
        char *name = column_text(q, 0), *table = column_text(q, 1), *type = column_text(q, 2);
        sqlite3_reset(find);
        sqlite3_bind_text(find, 1, name, -1, SQLITE_TRANSIENT);
        sqlite3_bind_text(find, 2, table, -1, SQLITE_TRANSIENT);
        if (sqlite3_step(find) == SQLITE_ROW && sqlite3_column_int(find, 0) == 0) {
            char *what = xasprintf("is %s on '%.100s' that vlmsh did not make",
                                   type[0] == 't' ? "a trigger" : "an index", table);
            status = refuse(path, name, what, err);
            free(what);
        }
        free(name);
        free(table);
        free(type);
    }
    sqlite3_finalize(q);
    sqlite3_finalize(find);
    return status;
}

int store_check_schema(sqlite3 *db, const char *path, struct err *err)
{
    sqlite3 *ours = NULL;
    sqlite3_stmt *q = NULL;
    int version = 0;
    // Reads version and schema in one transaction: another vlmsh may be migrating.
    if (sqlite3_exec(db, "BEGIN", NULL, NULL, NULL) != SQLITE_OK)
        return store_explain(db, path, err);
    int status = prepare(db, "PRAGMA user_version", &q, path, err);
    if (status == 0 && sqlite3_step(q) == SQLITE_ROW) version = sqlite3_column_int(q, 0);
    sqlite3_finalize(q);
    // store_migrate refuses newer schemas.
    if (status == 0 && version >= 0 && version <= store_version()) {
        if (sqlite3_open(":memory:", &ours) != SQLITE_OK)
            status = store_explain(ours, path, err);
        else if (version > 0)
            status = store_migrate_to(ours, version, path, err);
        q = NULL;
        if (status == 0)
            status =
                prepare(ours, "SELECT name, type, sql FROM sqlite_master WHERE sql IS NOT NULL", &q,
                        path, err);
        while (status == 0 && sqlite3_step(q) == SQLITE_ROW)
            status = expect_object(db, q, path, err);
        sqlite3_finalize(q);
        if (status == 0) status = refuse_others(db, ours, path, err);
        sqlite3_close(ours);
    }
    sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    return status;
}
