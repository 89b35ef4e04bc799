// core/engine/engine_settings.c -- settings of the engine: applies an accepted proposal
// (core/engine/proposal.h) as a whole, and drops the results that it makes stale.
#include <stdlib.h>
#include <string.h>

#include "core/adapter/adapter.h"
#include "core/adapter/provenance.h"
#include "core/engine/engine_parts.h"
#include "core/engine/proposal.h"

// --- stale results -------------------------------------------------------------------------------

// What the next answer recomputes of the conversation.
enum recomputed { RECOMPUTED_NOTHING, RECOMPUTED_PART, RECOMPUTED_ALL };

// Drops the results that a new value of `key` made stale.
static enum recomputed drop_stale(struct engine *e, struct conversation *c, const char *key,
                                  enum setting_stale stale)
{
    const int64_t rows = c->cached.n;
    if (methods_unused(&c->methods, key, e->settings)) return RECOMPUTED_NOTHING;
    if (methods_keep_cache(&c->methods, key, e->settings))
        return rows > 0 ? RECOMPUTED_PART : RECOMPUTED_NOTHING;
    conversation_stale(c, stale);
    return c->cached.n < rows ? RECOMPUTED_ALL : RECOMPUTED_NOTHING;
}

// Calls drop_stale for the conversation and a stashed one. Returns the recomputation to report: a
// running answer reports it itself.
static enum recomputed went_stale(struct engine *e, const char *key, enum setting_stale stale)
{
    if (stale < STALE_SEEN) return RECOMPUTED_NOTHING;
    const bool unused = methods_unused(&e->conversation.methods, key, e->settings);
    if (e->stash) drop_stale(e, &e->stashed, key, stale);
    const enum recomputed again = drop_stale(e, &e->conversation, key, stale);
    if (e->answering) e->answering->stale |= !unused;
    return e->answering ? RECOMPUTED_NOTHING : again;
}

// --- changing settings ---------------------------------------------------------------------------

// Applies the row's new value; returns what becomes stale.
static enum setting_stale apply(const struct engine *e, const struct setting *row,
                                const struct setting_env *env, const struct settings *former)
{
    const enum setting_stale stale = row->apply ? row->apply(row, env) : row->stale;
    if (stale < STALE_SEEN) return methods_read(row->key, env->settings) ? STALE_SEEN : stale;
    if (!row->effective) return stale;
    char *was = row->effective(e->model, e->backend, former);
    char *now = row->effective(e->model, e->backend, env->settings);
    const bool same = was && now && !strcmp(was, now);
    free(was);
    free(now);
    return same ? STALE_NOTHING : stale; // equal, though spelled differently
}

// Stores all accepted values before reporting any, because a listener may read others; then applies
// and reports each. Cannot fail.
static void commit(struct engine *e, struct proposal *p)
{
    const struct settings *former = p->env.settings;
    const char *why = NULL; // the setting that causes the largest recomputation
    enum recomputed most = RECOMPUTED_NOTHING;
    const struct setting *row;
    const struct method *m;
    bool *changed = xcalloc((size_t)p->rows, sizeof *changed);
    struct setting_env env = p->env;
    env.settings = e->settings;
    settings_swap(e->settings, p->env.settings);
    for (int i = 0; i < p->rows && (row = settings_row(i)); i++) {
        const char *value = settings_text(e->settings, row->key);
        changed[i] = strcmp(value, settings_text(former, row->key)) != 0;
        if (!changed[i] && !p->reapply[i]) continue;
        const enum setting_stale stale = apply(e, row, &env, former);
        changed[i] |= p->named[i];
        if (changed[i])
            engine_emit(e, &(struct event){ .kind = EVENT_SETTING,
                                            .key = row->key,
                                            .value = value,
                                            .count = e->answering ? e->answering->tokens : 0,
                                            .ok = true });
        if (e->answering) e->answering->changed = true;
        const enum recomputed again = went_stale(e, row->key, stale);
        if (again > most) most = again, why = row->key;
    }
    if (why)
        sinks_notice(e->sinks, "%s changed: the next answer recomputes %sthe conversation", why,
                     most == RECOMPUTED_PART ? "part of " : "");
    // Warns of methods that are on without effect or with inconsistent settings.
    const struct method_env methods = engine_env(e, e->settings);
    for (int i = 0; e->model && (m = method_at(i)); i++) {
        const int first = settings_index(m->settings->key);
        bool any = p->adapter_changes || p->all;
        struct err wrong;
        for (int k = 0; m->settings[k].key; k++) any |= changed[first + k];
        if (any && (methods_inconsistent(m, &methods, &wrong) ||
                    methods_without_effect(m, &methods, &wrong)))
            sinks_notice(e->sinks, "%s", wrong.text);
    }
    free(changed);
}

static struct proposal proposal_of(struct engine *e)
{
    return (struct proposal){ .from = e->settings,
                              .env = { .model = e->model,
                                       .backend = e->backend,
                                       .adapters = &e->adapters,
                                       .conversation = &e->conversation,
                                       .stashed = e->stash ? &e->stashed : NULL,
                                       .sinks = e->sinks } };
}

// The only function that changes the engine's settings.
static int change(struct engine *e, struct proposal *p, const struct change *list, size_t count,
                  struct err *err)
{
    p->resets = true;
    if (proposal_check(p, list, count, err) < 0) return -1;
    for (size_t i = 0; i < p->notices.count; i++) sinks_notice(e->sinks, "%s", p->notices.list[i]);
    commit(e, p);
    proposal_release(p);
    return 0;
}

int engine_set_all(struct engine *e, const struct change *list, size_t count, struct err *err)
{
    struct proposal p = proposal_of(e);
    return change(e, &p, list, count, err);
}

int engine_set(struct engine *e, const char *key, const char *value, struct err *err)
{
    struct proposal p = proposal_of(e);
    p.single = !e->answering; // during an answer, the next token already uses the value
    return change(e, &p, &(struct change){ key, value }, 1, err);
}

int engine_reset(struct engine *e, const char *key, struct err *err)
{
    const struct setting *row = key ? settings_find(key) : NULL;
    if (key) return row ? engine_set(e, key, row->def, err) : settings_unknown(key, err);
    struct change *list = xcalloc((size_t)settings_count(), sizeof *list);
    size_t count = 0;
    for (int i = 0; (row = settings_row(i)); i++)
        if (settings_changed(e->settings, row->key))
            list[count++] = (struct change){ row->key, row->def };
    const int status = engine_set_all(e, list, count, err);
    free(list);
    return status;
}

void engine_restore(struct engine *e, const struct change *list, size_t count)
{
    struct proposal p = proposal_of(e);
    struct err err;
    p.restored = p.single = true; // they may have been set one by one
    if (change(e, &p, list, count, &err) < 0) sinks_notice(e->sinks, "%s", err.text);
}

// Settings made for a previous model may not be possible with this one.
void engine_recheck_settings(struct engine *e)
{
    struct proposal p = proposal_of(e);
    struct err err;
    p.all = p.loaded = p.single = true;
    if (change(e, &p, NULL, 0, &err) < 0) sinks_notice(e->sinks, "%s", err.text);
}

// --- adapters ------------------------------------------------------------------------------------

int engine_adapter_load(struct engine *e, const char *folder, struct err *err)
{
    if (!e->model) return err_set(err, "no model is loaded: /load MODEL");
    char *named = setting_spell(settings_find("adapter"), folder, err);
    const bool none = named && !strcmp(named, "none");
    free(named);
    if (none && !*folder) return err_set(err, "give the adapter's folder");
    if (none)
        return err_set(err,
                       "'%s' means no adapter (/adapter unload); a folder of that name is './%s'",
                       folder, folder);
    struct proposal p = proposal_of(e);
    p.env.reload = p.single = true;
    return change(e, &p, &(struct change){ "adapter", folder }, 1, err);
}

int engine_adapter_unload(struct engine *e, const char *name, struct err *err)
{
    struct adapter *a = name ? adapters_find(&e->adapters, name) : e->adapters.active;
    if (!a && name) return err_set(err, "no adapter '%s' is loaded (/adapter list)", name);
    if (!a) return err_set(err, "no adapter is applied");
    if (a == e->adapters.active && engine_set(e, "adapter", "none", err) < 0) return -1;
    if (name) adapters_drop(&e->adapters, a);
    return 0;
}

const struct adapters *engine_adapters(const struct engine *e)
{
    return &e->adapters;
}

int engine_adapter_merge(struct engine *e, const char *folder, struct merge_report *report,
                         struct err *err)
{
    return adapters_merge(&e->adapters, folder, report, err);
}

// --- work beside the conversation ----------------------------------------------------------------

static struct settings *propose(struct proposal p, const struct change *list, size_t count,
                                struct err *err)
{
    struct settings *proposed = NULL;
    p.all = true;
    if (proposal_check(&p, list, count, err) == 0) {
        proposed = p.env.settings;
        p.env.settings = NULL; // now owned by the caller
        proposal_release(&p);
    }
    return proposed;
}

struct settings *engine_propose(struct engine *e, const struct change *list, size_t count,
                                struct err *err)
{
    return propose(proposal_of(e), list, count, err);
}

struct settings *engine_propose_elsewhere(struct engine *e, const struct change *list, size_t count,
                                          struct err *err)
{
    struct settings *from = settings_copy(e->settings);
    settings_reset(from, "adapter"); // it belongs to the loaded model
    const struct proposal p = { .from = from, .env = { .backend = e->backend } };
    struct settings *proposed = propose(p, list, count, err);
    settings_free(from);
    return proposed;
}

int engine_lend(struct engine *e, const struct settings *s, struct method_tensors *tensors,
                struct err *err)
{
    struct adapter *a = NULL;
    if (!s) {
        if (e->lending) adapters_use(&e->adapters, e->former, e->settings);
        e->former = NULL;
        e->lending = false;
        return 0;
    }
    if (!settings_is(s, "adapter", "none") &&
        !(a = adapters_open(&e->adapters, settings_text(s, "adapter"), false, e->model, err)))
        return -1;
    if (!e->lending) e->former = e->adapters.active;
    e->lending = true;
    adapters_use(&e->adapters, a, s);
    *tensors = adapter_tensors(a);
    return 0;
}

int engine_provenance(struct engine *e, enum setting_stale from, struct provenance *p,
                      struct err *err)
{
    *p = (struct provenance){ 0 };
    if (engine_identify(e, err) < 0) return -1;
    const struct provenance_env env = { .model = e->model,
                                        .adapter = e->adapters.active,
                                        .backend = engine_backend(e),
                                        .settings = e->settings };
    provenance_of(p, &env, from);
    return 0;
}
