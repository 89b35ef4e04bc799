// core/graph/hooks.c -- runs the listeners of a site, methods first, because they are added first.
#include "core/graph/hooks.h"

#include "core/graph/graph.h"
#include "core/graph/readback.h"

#define X(name, has, may, what) const struct site SITE_##name[1] = { { #name, has, may, what } };
SITES(X)
#undef X
#define X(name, has, may, what) SITE_##name,
const struct site *const pass_sites[] = { SITES(X) NULL };
#undef X

void hooks_add(struct hooks *hooks, const struct hook *hook)
{
    if (hooks->count == HOOKS_MAX) BUG("more than %d hooks", HOOKS_MAX);
    hooks->list[hooks->count++] = *hook;
}

int32_t *site_rows(const struct site_args *args, int64_t n, bool visual, int64_t *count)
{
    int32_t *rows = xreallocarray(NULL, (size_t)n + 1, sizeof *rows);
    *count = 0;
    for (int64_t i = 0; i < n; i++)
        if (site_visual(args, i) == visual) rows[(*count)++] = (int32_t)i;
    return rows;
}

int32_t *site_new_keys(const struct site_args *args, bool visual, int64_t *count)
{
    int32_t *keys = site_rows(args, args->q->shape[0], visual, count);
    for (int64_t i = 0; i < *count; i++) keys[i] += (int32_t)args->past;
    return keys;
}

struct site_keys seen_keys_from(const struct seen_keys *seen, int64_t i, int64_t first)
{
    const int32_t *list = seen->keys[i - seen->from];
    int64_t count = seen->count[i - seen->from];
    for (; count && *list < first; list++) count--;
    return (struct site_keys){ list, 0, count };
}

struct site_keys site_keys(const struct site_args *args, int64_t i)
{
    const int64_t first = args->first ? args->first[i] : 0;
    const int64_t end = args->end ? args->end[i] : args->past + i + 1;
    if (args->seen.keys && i >= args->seen.from) return seen_keys_from(&args->seen, i, first);
    return (struct site_keys){ NULL, first, end - first };
}

enum listener { ANYONE, READER, METHOD, VALUE_METHOD };

static bool listened(const struct graph *g, const struct site *site, int layer, enum listener who)
{
    if (!g->hooks) return false;
    for (int i = 0; i < g->hooks->count; i++) {
        const struct hook *h = &g->hooks->list[i];
        const bool meant = who == ANYONE   ? true
                           : who == READER ? !h->idle
                           : who == METHOD ? h->changes
                                           : h->values;
        if (meant && h->wants(h->self, site, layer)) return true;
    }
    return false;
}

bool hooks_wanted(const struct graph *g, const struct site *site, int layer)
{
    return listened(g, site, layer, ANYONE);
}

bool hooks_read(const struct graph *g, const struct site *site, int layer)
{
    return listened(g, site, layer, READER);
}

bool hooks_changing(const struct graph *g, const struct site *site, int layer)
{
    return listened(g, site, layer, METHOD);
}

bool hooks_change_values(const struct graph *g, int layer)
{
    return listened(g, SITE_VALUES, layer, VALUE_METHOD);
}

bool hooks_allow_drafts(const struct graph *g)
{
    for (int i = 0; g->hooks && i < g->hooks->count; i++)
        if (!g->hooks->list[i].changes && !g->hooks->list[i].drafts) return false;
    return true;
}

static void check_changes(const struct hook *h, const struct site *site,
                          const struct site_args *before, const struct site_args *now)
{
    const unsigned may = h->changes ? site->may : MAY_NOT;
    const bool fixed = before->q == now->q && before->k == now->k && before->v == now->v &&
                       before->keys == now->keys && before->sequence == now->sequence &&
                       before->past == now->past && before->kv == now->kv &&
                       before->layer == now->layer && before->picture == now->picture &&
                       before->prefill == now->prefill;
    const struct seen_keys *a = &before->seen, *b = &now->seen;
    const bool same_seen = a->from == b->from && a->keys == b->keys && a->count == b->count &&
                           a->hidden.rows == b->hidden.rows && a->hidden.keys == b->hidden.keys &&
                           a->hidden.heads == b->hidden.heads;
    const char *what = NULL;
    if (before->x != now->x && !(may & MAY_X)) what = "x";
    if (!same_seen && !(may & MAY_SEEN)) what = "which keys rows see";
    if ((before->only != now->only || before->only_count != now->only_count) && !(may & MAY_ONLY))
        what = "the rows of the FFN";
    if (before->rows != now->rows && !(may & MAY_ROWS)) what = "the rows";
    if (!fixed) what = "a read-only field";
    if (what) BUG("a listener at site %s changed %s (core/graph/hooks.h)", site->name, what);
}

int hooks_run(struct graph *g, const struct site *site, struct site_args *args)
{
    if (!g->hooks || !graph_ok(g)) return graph_ok(g) ? 0 : -1;
    if (!(site->has & HAS_ROWS) != !args->sequence ||
        ((site->has & HAS_KEYS) && (!args->q || !args->k)))
        BUG("site %s lacks arguments that it declares (core/graph/hooks.h)", site->name);
    for (int i = 0; i < g->hooks->count; i++) {
        const struct hook *h = &g->hooks->list[i];
        if (!h->wants(h->self, site, args->layer)) continue;
        const struct site_args before = *args;
        if ((h->run ? h->run(h->self, g, site, args)
                    : readback(g, args->x, site, args, h->take, h->self)) < 0) {
            graph_fail(g, "a listener failed");
            return -1;
        }
        check_changes(h, site, &before, args);
    }
    return 0;
}
