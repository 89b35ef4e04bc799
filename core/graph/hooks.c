// core/graph/hooks.c -- runs the listeners of a site, methods first (they were added first).
#include "core/graph/hooks.h"

void hooks_add(struct hooks *hooks, const struct hook *hook)
{
    if (hooks->count == HOOKS_MAX) BUG("more than %d hooks", HOOKS_MAX);
    hooks->list[hooks->count++] = *hook;
}

bool hooks_wanted(const struct graph *g, enum site site, int layer)
{
    if (!g->hooks) return false;
    for (int i = 0; i < g->hooks->count; i++) {
        const struct hook *h = &g->hooks->list[i];
        if (h->wants(h->self, site, layer)) return true;
    }
    return false;
}

int hooks_run(struct graph *g, enum site site, struct site_args *args)
{
    if (!g->hooks || !graph_ok(g)) return graph_ok(g) ? 0 : -1;
    for (int i = 0; i < g->hooks->count; i++) {
        const struct hook *h = &g->hooks->list[i];
        if (h->wants(h->self, site, args->layer) && h->run(h->self, g, site, args) < 0) {
            graph_fail(g, "a listener failed");
            return -1;
        }
    }
    return 0;
}
