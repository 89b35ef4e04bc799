// core/engine/engine_settings.c -- settings of the engine: applies an accepted proposal
// (core/engine/proposal.h) as a whole, and drops the results that it makes stale.
#include <stdlib.h>
#include <string.h>

#include "core/adapter/provenance.h"
#include "core/base/names.h"
#include "core/engine/engine_parts.h"
#include "core/engine/proposal.h"

// --- stale results -------------------------------------------------------------------------------

// Drops the results that a change of `key` made stale; returns whether anything must be recomputed.
static bool drop_stale(struct engine *e, struct conversation *c, const char *key,
                       enum setting_stale stale)
{
    const int64_t rows = c->cached.n;
    if (methods_unused(&c->methods, key, e->settings)) return false;
    if (methods_keep_cache(&c->methods, key, e->settings)) return rows > 0;
    conversation_stale(c, stale);
    return c->cached.n < rows;
}

// The same, also for a stashed conversation. During an answer, the answer itself reports it.
static bool went_stale(struct engine *e, const char *key, enum setting_stale stale)
{
    if (stale < STALE_SEEN) return false;
    const bool unused = methods_unused(&e->conversation.methods, key, e->settings);
    if (e->stash) drop_stale(e, &e->stashed, key, stale);
    const bool again = drop_stale(e, &e->conversation, key, stale);
    if (e->answering) e->answering->stale |= !unused;
    return again && !e->answering;
}

// Reports the new value and drops the results that it made stale.
static bool setting_changed(struct engine *e, const struct setting *row, enum setting_stale stale)
{
    engine_emit(e, &(struct event){ .kind = EVENT_SETTING,
                                    .key = row->key,
                                    .value = settings_text(e->settings, row->key),
                                    .count = e->answering ? e->answering->tokens : 0,
                                    .ok = true });
    if (e->answering) e->answering->changed = true;
    return went_stale(e, row->key, stale);
}

// Warns if a method is on without effect, or with settings that are inconsistent (yet).
static void warn_about_method(const struct engine *e, const struct method *method)
{
    const struct method_env env = engine_env(e, e->settings);
    struct err why;
    if (e->model &&
        (methods_inconsistent(method, &env, &why) || methods_without_effect(method, &env, &why)))
        sinks_notice(e->sinks, "%s", why.text);
}

static enum setting_stale adapter_stale(const struct adapter *a)
{
    return a && adapter_touches_vision(a) ? STALE_VISUAL : STALE_KV;
}

// Precision of matrix products under the current settings; none without a model.
static enum matmul_mode matmul_now(const struct engine *e)
{
    return e->model ? graph_matmul(e->backend, e->settings, e->model->dtype) : MATMUL_F32;
}

// bf16 on a device without it is not an error: sessions and scripts may come from other devices.
static enum setting_stale apply_matmul(const struct engine *e, const struct setting *row,
                                       enum matmul_mode was)
{
    if (settings_is(e->settings, row->key, "bf16") && !backend_multiplies_bf16(e->backend))
        sinks_notice(
            e->sinks,
            "compute.matmul = bf16: this device has no bf16 matrix products; computing in f32");
    // Another word for the same precision changes no result.
    return matmul_now(e) == was ? STALE_NOTHING : row->stale;
}

static enum setting_stale apply_limit(struct engine *e, const struct setting *row)
{
    conversation_limit_pictures(&e->conversation, e->settings);
    if (e->stash) conversation_limit_pictures(&e->stashed, e->settings);
    return row->stale;
}

// State before a change.
struct former {
    enum matmul_mode matmul;
    enum setting_stale adapter; // what removing it makes stale
};

static struct former former_of(const struct engine *e)
{
    return (struct former){ matmul_now(e), adapter_stale(e->adapters.active) };
}

static enum setting_stale apply_when(struct engine *e, const struct setting *row)
{
    if (!e->adapters.active) return STALE_NOTHING;
    adapter_with_pictures(e->adapters.active, settings_is(e->settings, row->key, "pictures"));
    // With a picture both values mean the adapter.
    const bool shown = e->conversation.cached.pictures && (!e->stash || e->stashed.cached.pictures);
    return shown ? STALE_NOTHING : row->stale;
}

// What a change of the row's value makes stale. Changes that need immediate action are applied
// here.
static enum setting_stale apply_row(struct engine *e, const struct setting *row, struct former was)
{
    struct adapter *a = e->adapters.active;
    const enum setting_stale now = adapter_stale(a);
    if (!strcmp(row->key, "adapter")) return was.adapter > now ? was.adapter : now;
    if (!strcmp(row->key, "compute.matmul")) return apply_matmul(e, row, was.matmul);
    if (!strcmp(row->key, "image.max_tokens") || !strcmp(row->key, "image.downsample"))
        return apply_limit(e, row);
    if (row->stale < STALE_SEEN && methods_read(row->key, e->settings)) return STALE_SEEN;
    if (!strcmp(row->key, "adapter.when")) return apply_when(e, row);
    if (strcmp(row->key, "adapter.scale") != 0) return row->stale;
    if (!a || !adapter_has(a, ADAPTER_LORA)) return STALE_NOTHING;
    adapter_scale(a, settings_real(e->settings, row->key));
    return now;
}

// --- applying a proposal -------------------------------------------------------------------------

// Sets all values before reporting any, because a listener may read other settings. Returns which
// rows changed; the caller frees it.
static bool *take_values(struct engine *e, const struct settings *next)
{
    bool *changed = xcalloc((size_t)settings_count(), sizeof *changed);
    const struct setting *row;
    for (int i = 0; (row = settings_row(i)); i++) {
        const char *value = settings_text(next, row->key);
        changed[i] = strcmp(value, settings_text(e->settings, row->key)) != 0;
        if (changed[i]) settings_set(e->settings, row->key, value, NULL);
    }
    return changed;
}

static void use_adapter(struct engine *e, struct adapter *a)
{
    conversation_reset_methods(&e->conversation); // they may keep what they made of the weights
    if (e->stash) conversation_reset_methods(&e->stashed);
    adapters_use(&e->adapters, a, e->settings);
}

// Has one of the method's settings changed?
static bool any_of(const struct method *method, const bool *changed)
{
    const struct setting *row;
    for (int i = 0; (row = settings_row(i)); i++)
        if (changed[i] && method_of(row->key) == method) return true;
    return false;
}

// Cannot fail. `anew`: the adapter was read again, perhaps with other weights.
static void commit(struct engine *e, const struct proposal *p, struct former was, bool anew)
{
    const bool other = p->adapter != e->adapters.active;
    const char *why = NULL; // what the conversation is computed again for
    const struct setting *row;
    const struct method *m;
    bool *changed = take_values(e, p->settings);
    if (other) use_adapter(e, p->adapter);
    for (int i = 0; (row = settings_row(i)); i++) {
        changed[i] |= anew && !strcmp(row->key, "adapter");
        if (changed[i] && setting_changed(e, row, apply_row(e, row, was)) && !why) why = row->key;
    }
    if (why) sinks_notice(e->sinks, "%s changed: the next answer recomputes the conversation", why);
    for (int i = 0; (m = method_at(i)); i++)
        if (other || p->all || any_of(m, changed)) warn_about_method(e, m);
    free(changed);
}

// --- proposing -----------------------------------------------------------------------------------

// The requested changes, followed by others that must change with them.
struct requests {
    struct change *list; // keys and values live elsewhere
    size_t asked, count;
    struct names told; // notices for when they are obeyed
};

static struct requests requests_of(const struct change *list, size_t count)
{
    struct requests w = { .asked = count, .count = count };
    w.list = xcalloc(count + (size_t)settings_count(), sizeof *w.list);
    for (size_t i = 0; i < count; i++) w.list[i] = list[i];
    return w;
}

static void requests_release(struct requests *w)
{
    names_release(&w->told);
    free(w->list);
}

static void report_later(struct requests *w, char *text)
{
    names_add(&w->told, text, NULL);
    free(text);
}

static bool is_requested(const struct requests *w, const struct proposal *p)
{
    for (int i = 0; i < p->fault_count; i++)
        if (changes_name(w->list, w->asked, p->fault[i].key)) return true;
    return false;
}

// Resets settings that were not requested and are no longer possible (a method without the adapter
// it needs, settings made for another model) to their defaults. false: they already are, or no
// setting is known to be at fault.
static bool reset_faulty(struct requests *w, const struct proposal *p, const struct err *why)
{
    const size_t former = w->count;
    for (int i = 0; i < p->fault_count; i++) {
        const struct setting *row = &p->fault[i];
        if (!changes_name(w->list, w->count, row->key))
            w->list[w->count++] = (struct change){ row->key, row->def };
    }
    if (w->count > former)
        report_later(w,
                     p->fault_count > 1
                         ? xasprintf("%s; these settings are reset to their defaults", why->text)
                         : xasprintf("%s; %s is now %s", why->text, p->fault->key, p->fault->def));
    return w->count > former;
}

static int resolve(struct proposal *p, struct requests *w, struct err *err)
{
    struct err why = { 0 };
    while (proposal_check(p, w->list, w->count, &why) < 0)
        if (is_requested(w, p) || !reset_faulty(w, p, &why)) return err_set(err, "%s", why.text);
    return 0;
}

// Drops adapters that were read in vain.
static void drop_adapters(struct engine *e, size_t count)
{
    while (e->adapters.count > count)
        adapters_drop(&e->adapters, e->adapters.list[e->adapters.count - 1]);
}

static struct proposal proposal_of(struct engine *e)
{
    return (struct proposal){
        .from = e->settings, .model = e->model, .backend = e->backend, .adapters = &e->adapters
    };
}

// The only function that changes the engine's settings.
static int change(struct engine *e, struct proposal *p, struct requests *w, struct err *err)
{
    const size_t adapters = e->adapters.count;
    const struct former was = former_of(e);
    const bool anew = p->anew;
    const int status = resolve(p, w, err);
    for (size_t i = 0; i < w->told.count && status == 0; i++)
        sinks_notice(e->sinks, "%s", w->told.list[i]);
    if (status == 0)
        commit(e, p, was, anew);
    else
        drop_adapters(e, adapters);
    proposal_release(p);
    requests_release(w);
    return status;
}

int engine_set_all(struct engine *e, const struct change *list, size_t count, struct err *err)
{
    struct proposal p = proposal_of(e);
    struct requests w = requests_of(list, count);
    return change(e, &p, &w, err);
}

int engine_set(struct engine *e, const char *key, const char *value, struct err *err)
{
    struct proposal p = proposal_of(e);
    struct requests w = requests_of(&(struct change){ key, value }, 1);
    p.single = !e->answering; // the next token is computed under it
    return change(e, &p, &w, err);
}

int engine_reset(struct engine *e, const char *key, struct err *err)
{
    const struct setting *row = key ? settings_find(key) : NULL;
    if (key) return row ? engine_set(e, key, row->def, err) : settings_unknown(key, err);
    struct requests w = requests_of(NULL, 0);
    struct proposal p = proposal_of(e);
    for (int i = 0; (row = settings_row(i)); i++)
        if (settings_changed(e->settings, row->key))
            w.list[w.count++] = (struct change){ row->key, row->def };
    w.asked = w.count;
    return change(e, &p, &w, err);
}

// Is the row at fault, and on its own the one to leave out (`only`, NULL: all of them)?
static bool at_fault(const struct proposal *p, const struct setting *only, const char *key)
{
    if (only) return !strcmp(only->key, key);
    for (int i = 0; i < p->fault_count; i++)
        if (!strcmp(p->fault[i].key, key)) return true;
    return false;
}

// Removes the rows at fault from the list; `keys` names them.
static void remove_faults(struct requests *w, const struct proposal *p, const struct setting *only,
                          struct buf *keys)
{
    size_t left = 0;
    for (size_t i = 0; i < w->asked; i++) {
        if (at_fault(p, only, w->list[i].key))
            buf_printf(keys, "%s%s", keys->length ? ", " : "", w->list[i].key);
        else
            w->list[left++] = w->list[i];
    }
    w->asked = w->count = left; // what had to change with them may stay now
}

// Is the method no longer at fault without that row? Others may be.
static bool is_cause(const struct proposal *p, const struct requests *w, const struct setting *row)
{
    struct proposal trial = *p;
    struct requests rest = requests_of(w->list, w->asked);
    struct buf keys = { 0 };
    struct err err;
    trial.settings = NULL;
    remove_faults(&rest, p, row, &keys);
    const bool fine = keys.length && (proposal_check(&trial, rest.list, rest.count, &err) == 0 ||
                                      trial.fault != p->fault);
    proposal_release(&trial);
    requests_release(&rest);
    buf_release(&keys);
    return fine;
}

// The one row of a method that is at fault; its switch only if no other is. NULL: several are.
static const struct setting *only_cause(const struct proposal *p, const struct requests *w)
{
    const struct setting *toggle = NULL;
    for (int i = 0; i < p->fault_count; i++) {
        const struct method *m = method_of(p->fault[i].key);
        if (m && !strcmp(p->fault[i].key, m->toggle.key))
            toggle = &p->fault[i];
        else if (is_cause(p, w, &p->fault[i]))
            return &p->fault[i];
    }
    return toggle && is_cause(p, w, toggle) ? toggle : NULL;
}

// Removes the settings at fault from the list, with a notice.
static void leave_out(struct requests *w, const struct proposal *p, const struct err *why)
{
    struct buf keys = { 0 };
    remove_faults(w, p, only_cause(p, w), &keys);
    report_later(w, xasprintf("cannot restore %s: %s", keys.data, why->text));
    buf_release(&keys);
}

void engine_restore(struct engine *e, const struct change *list, size_t count)
{
    struct proposal p = proposal_of(e);
    struct requests w = requests_of(list, count);
    struct err err;
    while (resolve(&p, &w, &err) < 0 && is_requested(&w, &p)) leave_out(&w, &p, &err);
    if (change(e, &p, &w, &err) < 0) sinks_notice(e->sinks, "%s", err.text);
}

// Settings made for a previous model may not be possible with this one.
void engine_recheck_settings(struct engine *e)
{
    struct proposal p = proposal_of(e);
    struct requests w = requests_of(NULL, 0);
    struct err err;
    p.all = p.loaded = p.single = true;
    if (change(e, &p, &w, &err) < 0) sinks_notice(e->sinks, "%s", err.text);
}

// --- adapters ------------------------------------------------------------------------------------

int engine_adapter_load(struct engine *e, const char *folder, struct err *err)
{
    if (!e->model) return err_set(err, "no model is loaded: /load MODEL");
    struct settings *named = settings_copy(e->settings);
    const bool none =
        settings_set(named, "adapter", folder, NULL) == 0 && settings_is(named, "adapter", "none");
    settings_free(named);
    if (none && !*folder) return err_set(err, "the adapter's folder is missing");
    if (none)
        return err_set(
            err, "'%s' stands for no adapter (/adapter unload); a folder of that name is './%s'",
            folder, folder);
    struct proposal p = proposal_of(e);
    struct requests w = requests_of(&(struct change){ "adapter", folder }, 1);
    p.anew = p.single = true;
    return change(e, &p, &w, err);
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

struct settings *engine_propose(struct engine *e, const struct change *list, size_t count,
                                struct err *err)
{
    struct proposal p = proposal_of(e);
    const size_t adapters = e->adapters.count;
    p.all = true;
    if (proposal_check(&p, list, count, err) < 0) drop_adapters(e, adapters);
    return p.settings;
}

static void end_lending(struct engine *e)
{
    if (e->lending) adapters_use(&e->adapters, e->former, e->settings);
    e->former = NULL;
    e->lending = false;
}

int engine_lend(struct engine *e, const struct settings *s, struct method_tensors *tensors,
                struct err *err)
{
    struct adapter *a = NULL;
    if (!s) {
        end_lending(e);
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
