// core/eval/expect.c -- /eval --expect: conditions on the results, such as exact>=0.9.
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/eval/evaluate.h"
#include "core/eval/evaluate_job.h"
#include "core/jobs/job.h"

struct condition {
    char *name;
    char comparison[3]; // ">=", "<=", "==", ">", "<", "="
    double value;
};

static int parse(struct condition *c, const char *text, struct err *err)
{
    static const char *const comparisons[] = { ">=", "<=", "==", ">", "<", "=" };
    while (isspace((unsigned char)*text)) text++;
    const size_t length = strcspn(text, "<>=");
    size_t end = length;
    while (end && isspace((unsigned char)text[end - 1])) end--;
    for (size_t i = 0; end && i < sizeof comparisons / sizeof *comparisons; i++) {
        const size_t n = strlen(comparisons[i]);
        char *rest;
        if (strncmp(text + length, comparisons[i], n) != 0) continue;
        c->value = strtod(text + length + n, &rest);
        if (rest == text + length + n || *rest || !isfinite(c->value)) break;
        memcpy(c->comparison, comparisons[i], n + 1);
        c->name = xstrndup(text, end);
        return 0;
    }
    return err_set(err, "--expect takes NAME>=NUMBER (or >, <=, <, =), not '%s'", text);
}

static bool holds(const struct condition *c, double x)
{
    switch (c->comparison[0]) {
    case '>': return c->comparison[1] ? x >= c->value : x > c->value;
    case '<': return c->comparison[1] ? x <= c->value : x < c->value;
    default: return x == c->value;
    }
}

// Returns the result `name`; the name of the metric means the result "score". NULL: none.
static const struct job_result *find(const struct job_results *r, const char *name)
{
    for (size_t i = 0; i < r->count; i++)
        if (!strcmp(r->list[i].key, "metric") && !strcmp(r->list[i].value, name)) name = "score";
    for (size_t i = 0; i < r->count; i++)
        if (!strcmp(r->list[i].key, name)) return &r->list[i];
    return NULL;
}

static bool number_of(const struct job_result *r, double *x)
{
    char *end;
    *x = strtod(r->value, &end);
    return end != r->value && (!*end || *end == ' ' || *end == ',');
}

static int check(const struct condition *c, const struct job_results *r, struct err *err)
{
    const struct job_result *found = find(r, c->name);
    struct names known = { 0 };
    struct buf b = { 0 };
    double x;
    if (found && number_of(found, &x))
        return holds(c, x) ? 0
                           : err_set(err, "expected %s %s %.10g, but it is %.10g", c->name,
                                     c->comparison, c->value, x);
    for (size_t i = 0; i < r->count; i++)
        if (number_of(&r->list[i], &x)) names_add(&known, r->list[i].key, NULL);
    names_put(&b, &known, 12);
    err_set(err, "--expect: no numeric result '%s'; choose one of %s", c->name,
            b.data ? b.data : "none");
    buf_release(&b);
    names_release(&known);
    return -1;
}

int evaluate_expect(const struct evaluate_options *o, const struct job_results *r, struct err *err)
{
    int status = 0;
    for (size_t i = 0; i < o->expected.count && status == 0; i++) {
        struct condition c = { 0 };
        status = parse(&c, o->expected.list[i], err);
        if (status == 0 && c.name && r) status = check(&c, r, err);
        free(c.name);
    }
    return status;
}
