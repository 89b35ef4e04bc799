// core/engine/engine_settings.c -- settings of the engine: what may be set, what a change does at
// once (the adapter) and what it makes stale.
#include <stdlib.h>
#include <string.h>

#include "core/adapter/provenance.h"
#include "core/engine/engine_parts.h"
#include "core/probes/norms.h"
#include "core/probes/sinks.h"

// Drops what a change of `key` made stale; returns whether anything is to be computed again.
static bool conversation_obey(struct engine *e, struct conversation *c, const char *key,
                              enum setting_stale stale)
{
    const int64_t rows = c->cached.n;
    if (methods_idle(&c->methods, key, e->settings)) return false;
    if (methods_keep(&c->methods, key, e->settings)) return rows > 0;
    conversation_stale(c, stale);
    return c->cached.n < rows;
}

// The same, of a conversation set aside too.
static void went_stale(struct engine *e, const char *key, enum setting_stale stale)
{
    if (stale < STALE_SEEN) return;
    const bool idle = methods_idle(&e->conversation.methods, key, e->settings);
    if (e->stash) conversation_obey(e, &e->stashed, key, stale);
    const bool again = conversation_obey(e, &e->conversation, key, stale);
    if (e->answering)
        e->answering->stale |= !idle; // the answer tells
    else if (again)
        sinks_notice(e->sinks,
                     "%s changed: the conversation is computed again with the next answer", key);
}

// Tells the new value and drops what it made stale.
static void setting_changed(struct engine *e, const struct setting *row, enum setting_stale stale)
{
    engine_tell(e, &(struct event){ .kind = EVENT_SETTING,
                                    .key = row->key,
                                    .value = settings_text(e->settings, row->key),
                                    .count = e->answering ? e->answering->tokens : 0,
                                    .ok = true });
    if (e->answering) e->answering->changed = true;
    went_stale(e, row->key, stale);
}

// A method that is on and changes nothing, or whose settings do not fit together (yet): that is not
// kept silent.
static void tell_vain(const struct engine *e, const struct method *method)
{
    const struct method_env env = engine_env(e, e->settings);
    struct err why;
    if (e->model && (methods_odd(method, &env, &why) || methods_vain(method, &env, &why)))
        sinks_notice(e->sinks, "%s", why.text);
}

static int check_template(const char *value, struct err *err)
{
    if (!strcmp(value, "auto") || layout_find(value)) return 0;
    struct buf b = { 0 };
    for (int i = 0; layout_name(i); i++) buf_printf(&b, ", %s", layout_name(i));
    err_set(err, "there is no prompt layout '%s': choose auto%s", value, b.data ? b.data : "");
    buf_release(&b);
    return -1;
}

// Calibrations that measurements read; those of methods are looked at by the methods.
static const struct {
    const char *key;
    int (*read)(const struct settings *s, const struct model *m, float **numbers, struct err *err);
} calibrations[] = {
    { "sinks.calibration", sinks_calibrated },
    { "norms.calibration", norms_calibrated },
};
enum { CALIBRATIONS = sizeof calibrations / sizeof *calibrations };

static int check_calibration(const struct engine *e, int i, const char *value, struct err *err)
{
    struct settings *next = settings_copy(e->settings);
    float *numbers = NULL;
    int status = settings_set(next, calibrations[i].key, value, err);
    if (status == 0) status = calibrations[i].read(next, e->model, &numbers, err);
    settings_free(next);
    free(numbers);
    return status;
}

// Values that only the core can judge. Methods look at theirs as soon as there is a model.
static int check_value(const struct engine *e, const char *key, const char *value, struct err *err)
{
    if (!strcmp(key, "chat.template")) return check_template(value, err);
    for (int i = 0; i < CALIBRATIONS && e->model; i++)
        if (!strcmp(key, calibrations[i].key)) return check_calibration(e, i, value, err);
    const struct method *method = method_of(key);
    if (!method) return 0;
    struct settings *next = settings_copy(e->settings);
    int status = settings_set(next, key, value, err);
    const struct method_env env = engine_env(e, next);
    if (status == 0)
        status = e->model ? methods_check(method, &env, err) : methods_possible(method, next, err);
    settings_free(next);
    return status;
}

// --- adapters ------------------------------------------------------------------------------------

static enum setting_stale adapter_stale(const struct adapter *a)
{
    return a && adapter_touches_vision(a) ? STALE_VISUAL : STALE_KV;
}

// Puts `a` on the model, or none; its folder becomes the setting. `former`: what taking off the
// one before makes stale.
static void use_adapter(struct engine *e, struct adapter *a, const char *folder,
                        enum setting_stale former)
{
    enum setting_stale stale = adapter_stale(a);
    adapters_use(&e->adapters, a, settings_real(e->settings, "adapter.scale"));
    // Methods may keep what they made of the former weights.
    conversation_forget_methods(&e->conversation);
    if (e->stash) conversation_forget_methods(&e->stashed);
    settings_set(e->settings, "adapter", folder, NULL); // any text is allowed
    setting_changed(e, settings_find("adapter"), former > stale ? former : stale);
    if (e->model) engine_settle_methods(e); // parameters they need may be gone
}

// `anew`: the folder is read again when it is loaded already.
static int set_adapter(struct engine *e, const char *value, bool anew, struct err *err)
{
    bool none = !*value || !strcmp(value, "none") || !strcmp(value, "off");
    struct adapter *a = NULL, *active = e->adapters.active;
    enum setting_stale former = adapter_stale(active);
    if (!none && !e->model && !adapter_is(value))
        return err_set(err, "'%s' is not an adapter folder", value);
    if (!none && e->model && !(a = adapters_open(&e->adapters, value, anew, e->model, err)))
        return -1;
    char *folder = xstrdup(none ? "none" : a ? a->folder : value);
    // Read anew, the one that was on is gone.
    if (a != e->adapters.active || active != e->adapters.active ||
        strcmp(folder, settings_text(e->settings, "adapter")) != 0)
        use_adapter(e, a, folder, former);
    free(folder);
    return 0;
}

// The adapter that settings name, among those loaded or read now. *a NULL: none.
static int open_adapter(struct engine *e, const struct settings *s, struct adapter **a,
                        struct err *err)
{
    const char *name = settings_text(s, "adapter");
    *a = NULL;
    if (!strcmp(name, "none")) return 0;
    if (e->model) return (*a = adapters_open(&e->adapters, name, false, e->model, err)) ? 0 : -1;
    return adapter_is(name) ? 0 : err_set(err, "'%s' is not an adapter folder", name);
}

int engine_adapter_load(struct engine *e, const char *folder, struct err *err)
{
    if (!e->model) return err_set(err, "no model is loaded: /load MODEL");
    return set_adapter(e, folder, true, err);
}

int engine_adapter_unload(struct engine *e, const char *name, struct err *err)
{
    struct adapter *a = name ? adapters_find(&e->adapters, name) : e->adapters.active;
    if (!a && name) return err_set(err, "no adapter '%s' is loaded (/adapter list)", name);
    if (!a) return err_set(err, "no adapter is on the model");
    if (a == e->adapters.active) use_adapter(e, NULL, "none", adapter_stale(a));
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

// --- settings ------------------------------------------------------------------------------------

// How products are computed under the settings as they are; without a model nothing is.
static enum matmul_mode matmul_now(const struct engine *e)
{
    return e->model ? graph_matmul(e->backend, e->settings, e->model->dtype) : MATMUL_F32;
}

// bf16 where the device has none is no error: sessions and scripts come from other devices.
static enum setting_stale obey_matmul(const struct engine *e, const struct setting *row,
                                      enum matmul_mode was)
{
    if (settings_is(e->settings, row->key, "bf16") && !backend_multiplies_bf16(e->backend))
        sinks_notice(e->sinks,
                     "compute.matmul = bf16: this device does not multiply bf16, so products are "
                     "computed in f32");
    // Another word for the same arithmetic changes no number.
    return matmul_now(e) == was ? STALE_NOTHING : row->stale;
}

// What a change of the row's value makes stale; the change is made here where something must be
// done at once. `was`: matmul_now before the change.
static enum setting_stale obey(struct engine *e, const struct setting *row, enum matmul_mode was)
{
    struct adapter *a = e->adapters.active;
    if (!strcmp(row->key, "compute.matmul")) return obey_matmul(e, row, was);
    if (row->stale < STALE_SEEN && methods_read(row->key, e->settings)) return STALE_SEEN;
    if (strcmp(row->key, "adapter.scale") != 0) return row->stale;
    if (!a || !adapter_has(a, ADAPTER_LORA)) return STALE_NOTHING;
    adapter_scale(a, settings_real(e->settings, row->key));
    return adapter_stale(a);
}

int engine_set(struct engine *e, const char *key, const char *value, struct err *err)
{
    if (!strcmp(key, "adapter")) return set_adapter(e, value, false, err);
    // The next token is computed under it: what does not fit together is refused now.
    if (e->answering) return engine_set_all(e, &(struct change){ key, value }, 1, err);
    if (check_value(e, key, value, err) < 0) return -1;
    const struct setting *row = settings_find(key);
    const enum matmul_mode matmul = matmul_now(e);
    char *former = row ? xstrdup(settings_text(e->settings, key)) : NULL;
    int status = settings_set(e->settings, key, value, err);
    if (status == 0 && former && strcmp(former, settings_text(e->settings, key))) {
        setting_changed(e, row, obey(e, row, matmul));
        if (method_of(key)) tell_vain(e, method_of(key));
    }
    free(former);
    return status;
}

// The settings with all of `list` in them; the adapter by its folder, read if need be.
static struct settings *settings_with(struct engine *e, const struct change *list, size_t count,
                                      struct adapter **adapter, struct err *err)
{
    struct settings *next = settings_copy(e->settings);
    for (size_t i = 0; i < count; i++) {
        const char *value = list[i].value;
        if (!strcmp(list[i].key, "adapter") && (!*value || !strcmp(value, "off"))) value = "none";
        if (!strcmp(list[i].key, "chat.template") && check_template(value, err) < 0) goto failed;
        for (int k = 0; k < CALIBRATIONS && e->model; k++)
            if (!strcmp(list[i].key, calibrations[k].key) &&
                check_calibration(e, k, value, err) < 0)
                goto failed;
        if (settings_set(next, list[i].key, value, err) < 0) goto failed;
    }
    if (open_adapter(e, next, adapter, err) < 0) goto failed;
    if (*adapter) settings_set(next, "adapter", (*adapter)->folder, NULL);
    struct method_env env = engine_env(e, next);
    env.tensors = adapter_tensors(*adapter);
    if (methods_possible(NULL, next, err) < 0) goto failed;
    if (e->model && methods_agree(&env, err) < 0) goto failed;
    return next;
failed:
    settings_free(next);
    return NULL;
}

// Has one of the method's settings changed?
static bool any_of(const struct method *method, const bool *changed)
{
    const struct setting *row;
    for (int i = 0; (row = settings_row(i)); i++)
        if (changed[i] && method_of(row->key) == method) return true;
    return false;
}

int engine_set_all(struct engine *e, const struct change *list, size_t count, struct err *err)
{
    struct adapter *a;
    struct settings *next = settings_with(e, list, count, &a, err);
    if (!next) return -1;
    const enum setting_stale former = adapter_stale(e->adapters.active), now = adapter_stale(a);
    const enum matmul_mode matmul = matmul_now(e);
    bool *changed = xcalloc((size_t)settings_count(), sizeof *changed);
    const struct setting *row;
    // All values first: who hears of one may look at another. They are spelled already.
    for (int i = 0; (row = settings_row(i)); i++) {
        const char *value = settings_text(next, row->key);
        changed[i] = strcmp(value, settings_text(e->settings, row->key)) != 0;
        if (changed[i]) settings_set(e->settings, row->key, value, NULL);
    }
    if (a != e->adapters.active) {
        // They may keep what they made of the weights.
        conversation_forget_methods(&e->conversation);
        if (e->stash) conversation_forget_methods(&e->stashed);
        adapters_use(&e->adapters, a, settings_real(e->settings, "adapter.scale"));
    }
    for (int i = 0; (row = settings_row(i)); i++)
        if (changed[i]) {
            const bool adapter = !strcmp(row->key, "adapter");
            setting_changed(e, row, !adapter ? obey(e, row, matmul) : former > now ? former : now);
        }
    const struct method *m;
    for (int i = 0; (m = method_at(i)); i++)
        if (any_of(m, changed)) tell_vain(e, m);
    free(changed);
    settings_free(next);
    return 0;
}

int engine_lend(struct engine *e, const struct settings *s, struct method_tensors *tensors,
                struct err *err)
{
    struct adapter *a = NULL;
    if (!s) {
        if (!e->lending) return 0;
        adapters_use(&e->adapters, e->former, settings_real(e->settings, "adapter.scale"));
        e->former = NULL;
        e->lending = false;
        return 0;
    }
    if (open_adapter(e, s, &a, err) < 0) return -1;
    struct method_env env = engine_env(e, s);
    *tensors = env.tensors = adapter_tensors(a);
    if (methods_agree(&env, err) < 0) return -1;
    if (!e->lending) e->former = e->adapters.active;
    e->lending = true;
    adapters_use(&e->adapters, a, settings_real(s, "adapter.scale"));
    return 0;
}

int engine_reset(struct engine *e, const char *key, struct err *err)
{
    if (key && !settings_find(key)) return settings_unknown(key, err);
    if (key) return engine_set(e, key, settings_find(key)->def, err);
    for (int i = 0; i < settings_count(); i++) {
        const struct setting *row = settings_row(i);
        if (!settings_changed(e->settings, row->key)) continue;
        if (!strcmp(row->key, "adapter")) {
            use_adapter(e, NULL, row->def, adapter_stale(e->adapters.active));
            continue;
        }
        const enum matmul_mode matmul = matmul_now(e);
        settings_reset(e->settings, row->key);
        setting_changed(e, row, obey(e, row, matmul));
    }
    return 0;
}

void engine_provenance(struct engine *e, enum setting_stale from, struct provenance *p)
{
    const struct provenance_env env = { .model = e->model,
                                        .adapter = e->adapters.active,
                                        .backend = engine_backend(e),
                                        .settings = e->settings };
    provenance_of(p, &env, from);
}

// --- a model was loaded --------------------------------------------------------------------------

// Settings made for another model or adapter that cannot be obeyed go back to their defaults.
void engine_settle_methods(struct engine *e)
{
    const struct method_env env = engine_env(e, e->settings);
    const struct method *m;
    struct err err;
    for (int i = 0; (m = method_at(i)); i++) {
        if (methods_check(m, &env, &err) == 0) {
            tell_vain(e, m);
            continue;
        }
        sinks_notice(e->sinks, "%s; these settings are at their defaults now", err.text);
        for (const struct setting *row = m->settings; row->key; row++) {
            if (!settings_changed(e->settings, row->key)) continue;
            settings_reset(e->settings, row->key);
            setting_changed(e, row, row->stale);
        }
    }
}

// Puts the adapter of the settings on a model that was just loaded; one that does not fit is given
// up.
void engine_settle_adapter(struct engine *e)
{
    const char *folder = settings_text(e->settings, "adapter");
    struct err err;
    if (!strcmp(folder, "none")) return;
    struct adapter *a = adapters_open(&e->adapters, folder, false, e->model, &err);
    if (a) {
        adapters_use(&e->adapters, a, settings_real(e->settings, "adapter.scale"));
        return;
    }
    sinks_notice(e->sinks, "%s; no adapter is on the model now", err.text);
    settings_reset(e->settings, "adapter");
    setting_changed(e, settings_find("adapter"), STALE_NOTHING);
}
