// core/probes/where.c -- the positions of the conversation that names select, without a pass.
#include <stdlib.h>

#include "core/probes/kit.h"
#include "core/probes/where.h"

struct where {
    const struct probe_env *env;
    bool *rows; // [N]
};

static void where_release(void *state)
{
    struct where *s = state;
    free(s->rows);
    free(s);
}

static void *where_start(const struct probe_env *env, struct err *err)
{
    struct where *s = xcalloc(1, sizeof *s);
    s->env = env;
    s->rows = xcalloc((size_t)env->sequence->n + 1, sizeof *s->rows);
    if (probe_positions(env, env->options->words, s->rows, err) >= 0) return s;
    where_release(s);
    return NULL;
}

static int where_passes(void *state, struct passing *p, struct err *err)
{
    return 0;
}

static int where_finish(void *state, struct results *r, struct err *err)
{
    const struct where *s = state;
    struct result_table *t = results_table(r, "where", "row|position");
    for (int64_t i = 0; i < s->env->sequence->n; i++)
        if (s->rows[i]) result_row(t, "%lld", (long long)i)[0] = (double)i;
    return 0;
}

const struct probe probe_where = {
    .name = "where",
    .start = where_start,
    .release = where_release,
    .passes = where_passes,
    .finish = where_finish,
};
