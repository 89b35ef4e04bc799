// sessions/metrics.c -- the curves that jobs reported.
#include <math.h>
#include <stdlib.h>

#include "sessions/job_internal.h"

int store_series(struct store *s, int64_t job, struct names *names, struct err *err)
{
    return store_names(s, names, err, "SELECT name FROM job_series WHERE job = ? ORDER BY id", "i",
                       job);
}

// If another program writes texts into numeric columns, SQLite keeps them and reads them as 0.
static int check_point(sqlite3_stmt *q, const char *series, struct err *err)
{
    for (int i = 0; i < 2; i++) {
        const int type = sqlite3_column_type(q, i);
        if (type != SQLITE_TEXT && type != SQLITE_BLOB) continue;
        char *text = type == SQLITE_TEXT ? column_text(q, i) : xstrdup("bytes");
        err_set(err,
                "series '%s' of the session database: a %s is '%.40s', not a number; another "
                "program changed it",
                series, i ? "value" : "step", text);
        free(text);
        return -1;
    }
    return 0;
}

int store_curve(struct store *s, int64_t job, const char *series, struct curve *curve,
                struct err *err)
{
    struct curve c = { 0 };
    size_t capacity = 0;
    int found;
    sqlite3_stmt *q = store_query(s, err,
                                  "SELECT step, value FROM metrics WHERE series = "
                                  "(SELECT id FROM job_series WHERE job = ? AND name = ?) "
                                  "ORDER BY step",
                                  "it", job, series);
    if (!q) return -1;
    while ((found = store_step(s, q, err)) > 0) {
        if (check_point(q, series, err) < 0) break;
        if (c.count == capacity) {
            capacity = capacity ? capacity * 2 : 256;
            c.steps = xreallocarray(c.steps, capacity, sizeof *c.steps);
            c.values = xreallocarray(c.values, capacity, sizeof *c.values);
        }
        c.steps[c.count] = sqlite3_column_int64(q, 0);
        c.values[c.count++] = column_real(q, 1);
    }
    sqlite3_finalize(q);
    if (found) {
        curve_release(&c);
        return -1;
    }
    *curve = c;
    return 0;
}

void curve_release(struct curve *c)
{
    free(c->steps);
    free(c->values);
    *c = (struct curve){ 0 };
}
