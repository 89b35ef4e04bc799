// core/checkup/compare.c -- lists the differences between two check-ups: program, machine, models,
// verdicts, findings and numbers.
#include "core/checkup/checkup_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/event.h"
#include "core/base/json.h"

// Numbers that differ by at most this share are equal: times never repeat exactly.
static const double tolerance = 0.005;

struct comparison {
    struct table_builder table;
    const char *model, *check; // of the rows that follow
    int changed, equal;
};

static void add_row(struct comparison *c, const char *what, const char *a, const char *b,
                    const char *change)
{
    table_row(&c->table, "%s|%s|%s|%s|%s|%s", c->model, c->check, what, a, b, change);
    c->changed++;
}

static void compare_texts(struct comparison *c, const char *what, const char *a, const char *b)
{
    if (strcmp(a, b) != 0)
        add_row(c, what, *a ? a : "–", *b ? b : "–", "");
    else if (*a)
        c->equal++;
}

static void compare_numbers(struct comparison *c, const char *finding, const cJSON *a,
                            const cJSON *b)
{
    const double x = cJSON_GetNumberValue(json_get(a, "value"));
    const double y = cJSON_GetNumberValue(json_get(b, "value"));
    const bool numbers = a && b && isfinite(x) && isfinite(y);
    if (numbers && fabs(x - y) <= tolerance * fmax(fabs(x), fabs(y))) {
        c->equal++;
        return;
    }
    struct buf left = { 0 }, right = { 0 };
    char *what = xasprintf("%s: %s", finding, record_text(a ? a : b, "name"));
    char *change = numbers && x != 0 ? xasprintf("%+.3g%%", (y - x) / fabs(x) * 100) : xstrdup("");
    if (a) record_number(&left, a);
    if (b) record_number(&right, b);
    add_row(c, what, a ? left.data : "–", b ? right.data : "–", change);
    buf_release(&left);
    buf_release(&right);
    free(what);
    free(change);
}

static void compare_findings(struct comparison *c, const cJSON *a, const cJSON *b)
{
    const char *name = record_text(a ? a : b, "name");
    const cJSON *n;
    compare_texts(c, name, record_text(a, "verdict"), record_text(b, "verdict"));
    char *found = xasprintf("%s: finding", name);
    compare_texts(c, found, record_text(a, "text"), record_text(b, "text"));
    free(found);
    cJSON_ArrayForEach(n, json_get(a, "numbers"))
        compare_numbers(c, name, n, record_find(json_get(b, "numbers"), record_text(n, "name")));
    cJSON_ArrayForEach(
        n, json_get(b, "numbers")) if (!record_find(json_get(a, "numbers"), record_text(n, "name")))
        compare_numbers(c, name, NULL, n);
}

static void compare_checks(struct comparison *c, const cJSON *a, const cJSON *b)
{
    const cJSON *row, *rows = json_get(a, "rows"), *others = json_get(b, "rows");
    c->check = record_text(a ? a : b, "name");
    if (!a || !b) {
        add_row(c, "run", a ? "yes" : "no", b ? "yes" : "no", "");
        return;
    }
    cJSON_ArrayForEach(row, rows)
        compare_findings(c, row, record_find(others, record_text(row, "name")));
    cJSON_ArrayForEach(row, others) if (!record_find(rows, record_text(row, "name")))
        compare_findings(c, NULL, row);
}

static void compare_models(struct comparison *c, const cJSON *a, const cJSON *b)
{
    static const char *const facts[] = { "name",    "identity",   "family",
                                         "weights", "arithmetic", "adapter" };
    const cJSON *check, *checks = json_get(a, "checks"), *others = json_get(b, "checks");
    c->model = record_text(a, "name");
    c->check = "";
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        compare_texts(c, facts[i], record_text(a, facts[i]), record_text(b, facts[i]));
    cJSON_ArrayForEach(check, checks)
        compare_checks(c, check, record_find(others, record_text(check, "name")));
    cJSON_ArrayForEach(check, others) if (!record_find(checks, record_text(check, "name")))
        compare_checks(c, NULL, check);
}

// Compares models of the same name; two check-ups of one model each are compared whatever
// their names.
static void compare_records(struct comparison *c, const cJSON *a, const cJSON *b)
{
    const cJSON *models = json_get(a, "models"), *others = json_get(b, "models"), *model;
    const bool single = cJSON_GetArraySize(models) == 1 && cJSON_GetArraySize(others) == 1;
    const cJSON *machines[] = { json_get(a, "machine"), json_get(b, "machine") };
    struct buf memory[2] = { { 0 }, { 0 } };
    c->model = c->check = "";
    compare_texts(c, "program", record_text(a, "program"), record_text(b, "program"));
    compare_texts(c, "device", record_text(machines[0], "device"),
                  record_text(machines[1], "device"));
    for (int i = 0; i < 2; i++)
        buf_printf(&memory[i], "%.4g GiB",
                   cJSON_GetNumberValue(json_get(machines[i], "memory GiB")));
    compare_texts(c, "memory", memory[0].data, memory[1].data);
    compare_texts(c, "quick", cJSON_IsTrue(json_get(a, "quick")) ? "yes" : "no",
                  cJSON_IsTrue(json_get(b, "quick")) ? "yes" : "no");
    for (int i = 0; i < 2; i++) buf_release(&memory[i]);
    cJSON_ArrayForEach(model, models)
    {
        const cJSON *other =
            single ? others->child : record_find(others, record_text(model, "name"));
        if (other) {
            compare_models(c, model, other);
            continue;
        }
        c->model = record_text(model, "name");
        c->check = "";
        add_row(c, "model", "checked", "–", "");
    }
    cJSON_ArrayForEach(model, others)
    {
        if (single || record_find(models, record_text(model, "name"))) continue;
        c->model = record_text(model, "name");
        c->check = "";
        add_row(c, "model", "–", "checked", "");
    }
}

int checkup_compare(const char *a, const char *b, const struct sinks *sinks, struct err *err)
{
    cJSON *first = checkup_read(a, err), *second = first ? checkup_read(b, err) : NULL;
    if (second) {
        struct comparison c = { 0 };
        table_begin(&c.table, "checkup_compare", "model|check|entry|A|B|change");
        compare_records(&c, first, second);
        table_emit(&c.table, sinks);
        sinks_notice(sinks, "entries that differ: %d; equal: %d (numbers within %g%%)", c.changed,
                     c.equal, tolerance * 100);
    }
    cJSON_Delete(first);
    cJSON_Delete(second);
    return second ? 0 : -1;
}
