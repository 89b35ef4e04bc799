// core/methods/method.c -- attaches the methods that are on to the sites of a pass.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/methods/method.h"

#include "core/model/flops.h"
#include "core/model/model.h"
#include "core/settings/settings.h"

static const struct method *const *list; // [count]
static const struct method *shown[METHODS_MAX];
static int count;

// True if the key of `a` sorts after that of `b`.
static bool after(const struct method *a, const struct method *b)
{
    return b->press && (!a->press || strcmp(a->press, b->press) > 0);
}

// A method's switch and its setting of layers must be among its settings. Values are compared as
// text: `off` is the default as settings spell it ("1", not "1.0").
static void check_settings(const struct method *m)
{
    const struct setting *toggle = NULL, *layers = NULL;
    struct err err = { 0 };
    for (const struct setting *row = m->settings; row->key; row++) {
        if (!strcmp(row->key, m->toggle.key)) toggle = row;
        if (m->layers && !strcmp(row->key, m->layers)) layers = row;
    }
    if (!m->badge) BUG("method %s has no badge (core/methods/method.h)", m->name);
    if (!toggle)
        BUG("method %s: toggle.key '%s' is not one of its settings", m->name, m->toggle.key);
    if (m->layers && (!layers || layers->type != SETTING_LIST || layers->choices))
        BUG("method %s: layers '%s' is not a SETTING_LIST of its settings, or takes words", m->name,
            m->layers);
    char *off = setting_spell(toggle, m->toggle.off, &err);
    if (!off || strcmp(off, m->toggle.off) != 0 || strcmp(off, toggle->def) != 0)
        BUG("method %s: toggle.off '%s' and the default '%s' of %s must both be '%s'", m->name,
            m->toggle.off, toggle->def, toggle->key, off ? off : err.text);
    free(off);
}

void methods_register(const struct method *const *all)
{
    list = all;
    for (count = 0; list[count];) count++;
    if (count > METHODS_MAX) BUG("%d methods, and METHODS_MAX is %d", count, METHODS_MAX);
    for (int i = 0; i < count; i++) {
        int at = i;
        check_settings(list[i]);
        for (; at && after(shown[at - 1], list[i]); at--) shown[at] = shown[at - 1];
        if (at && list[i]->press && shown[at - 1]->press &&
            !strcmp(shown[at - 1]->press, list[i]->press))
            BUG("%s and %s have the same key", shown[at - 1]->name, list[i]->name);
        shown[at] = list[i];
    }
}

const struct method *method_at(int index)
{
    return index >= 0 && index < count ? list[index] : NULL;
}

bool method_on(const struct method *method, const struct settings *s)
{
    return !settings_is(s, method->toggle.key, method->toggle.off);
}

bool method_in_training(const struct method *method, const struct settings *s)
{
    if (method->training.by) return settings_flag(s, method->training.by);
    return method->learned && method_on(method, s);
}

const struct method *method_shown(int index)
{
    return index >= 0 && index < count ? shown[index] : NULL;
}

const struct method *method_of(const char *key)
{
    for (int i = 0; i < count; i++)
        for (const struct setting *row = list[i]->settings; row->key; row++)
            if (!strcmp(row->key, key)) return list[i];
    return NULL;
}

int methods_possible(const struct method *method, const struct settings *s, struct err *err)
{
    for (int i = 0; i < count; i++)
        if ((!method || method == list[i]) && list[i]->possible && list[i]->possible(s, err) < 0)
            return -1;
    return 0;
}

// Reads the layers in which the method acts.
static int read_layers(const struct method *m, const struct method_env *env, bool **layers,
                       struct err *err)
{
    const int64_t n = env->model->decoder.config.layers;
    if (!m->layers) return 0;
    free(*layers);
    *layers = xcalloc((size_t)n + 1, sizeof **layers);
    return settings_layers(env->settings, m->layers, n, *layers, err) < 0 ? -1 : 0;
}

static int check(const struct method *m, const struct method_env *env, struct err *err)
{
    bool *layers = NULL;
    const int status = read_layers(m, env, &layers, err);
    free(layers);
    return status < 0 || (m->check && m->check(env, err) < 0) ? -1 : 0;
}

int methods_check(const struct method *method, const struct method_env *env, struct err *err)
{
    if (methods_possible(method, env->settings, err) < 0) return -1;
    for (int i = 0; i < count; i++)
        if ((!method || method == list[i]) && check(list[i], env, err) < 0) return -1;
    return 0;
}

bool methods_inconsistent(const struct method *method, const struct method_env *env,
                          struct err *why)
{
    return method_on(method, env->settings) && method->agree && method->agree(env, why) < 0;
}

bool methods_without_effect(const struct method *method, const struct method_env *env,
                            struct err *why)
{
    if (!method_on(method, env->settings)) return false;
    if (!method->text && !model_has_vision(env->model)) {
        err_set(why, "%s has no effect: the model '%s' is text-only and has no visual tokens",
                method->settings->key, env->model->name);
        return true;
    }
    return method->without_effect && method->without_effect(env, why);
}

// Returns the slot of the method that owns a setting; NULL: none.
static const struct method_slot *slot_of(const struct methods *m, const char *key)
{
    const struct method *method = method_of(key);
    for (int i = 0; i < count; i++)
        if (list[i] == method) return &m->slot[i];
    return NULL;
}

bool methods_unused(const struct methods *m, const char *key, const struct settings *s)
{
    const struct method_slot *slot = slot_of(m, key);
    return slot && !slot->on && !method_on(method_of(key), s);
}

bool methods_read(const char *key, const struct settings *s)
{
    for (int i = 0; i < count; i++)
        if (list[i]->reads && method_on(list[i], s) && list[i]->reads(key, s)) return true;
    return false;
}

bool methods_keep_cache(const struct methods *m, const char *key, const struct settings *s)
{
    const struct method_slot *slot = slot_of(m, key);
    return slot && slot->on && method_on(slot->method, s) && slot->method->keeps &&
           slot->method->keeps(slot->state, key, s);
}

static const struct method_action *action_at(const struct method *m, const struct site *site)
{
    for (int i = 0; i < METHOD_SITES && m->at[i].site; i++)
        if (m->at[i].site == site) return &m->at[i];
    return NULL;
}

static bool slot_wants(void *self, const struct site *site, int layer)
{
    const struct method_slot *slot = self;
    const struct method *m = slot->method;
    const bool here = !slot->layers || layer < 0 || !(site->has & HAS_ROWS) || slot->layers[layer];
    return here && action_at(m, site) && (!m->wants || m->wants(slot->state, site, layer));
}

static int slot_run(void *self, struct graph *g, const struct site *site, struct site_args *args)
{
    const struct method_slot *slot = self;
    return action_at(slot->method, site)->run(slot->state, g, args);
}

static int slot_start(struct method_slot *slot, const struct method *method,
                      const struct method_env *env, struct err *err)
{
    slot->method = method;
    slot->on = check(method, env, err) == 0 && read_layers(method, env, &slot->layers, err) == 0 &&
               (!method->start || method->start(&slot->state, env, err) == 0);
    return slot->on ? 0 : -1;
}

int methods_attach(struct methods *m, struct hooks *hooks, const struct method_env *env,
                   struct err *err)
{
    const int former = hooks->count;
    for (int i = 0; i < count; i++) {
        struct method_slot *slot = &m->slot[i];
        if (!method_on(list[i], env->settings)) {
            if (slot->on && slot->method->trim) slot->method->trim(slot->state, 0);
            slot->on = false;
            continue;
        }
        if (slot_start(slot, list[i], env, err) < 0) {
            hooks->count = former;
            return -1;
        }
        const struct hook hook = { .wants = slot_wants,
                                   .run = slot_run,
                                   .self = slot,
                                   .changes = true,
                                   .values = list[i]->values };
        hooks_add(hooks, &hook);
    }
    return 0;
}

void methods_trim(struct methods *m, int64_t rows)
{
    for (int i = 0; i < count; i++) {
        const struct method_slot *slot = &m->slot[i];
        if (slot->on && slot->method->trim) slot->method->trim(slot->state, rows);
    }
}

int64_t methods_reusable(const struct methods *m, const struct sequence *cached, int64_t rows)
{
    for (int i = 0; i < count; i++) {
        const struct method_slot *slot = &m->slot[i];
        if (slot->on && slot->method->reusable)
            rows = slot->method->reusable(slot->state, cached, rows);
    }
    return rows;
}

void methods_release(struct methods *m)
{
    for (int i = 0; i < count; i++) {
        if (m->slot[i].state) m->slot[i].method->release(m->slot[i].state);
        free(m->slot[i].layers);
    }
    *m = (struct methods){ 0 };
}

bool methods_on(const struct methods *m)
{
    for (int i = 0; i < count; i++)
        if (m->slot[i].on) return true;
    return false;
}

void methods_params(struct methods *m, method_param_fn add, void *self)
{
    for (int i = 0; i < count; i++) {
        const struct method_slot *slot = &m->slot[i];
        if (slot->on && slot->method->params) slot->method->params(slot->state, add, self);
    }
}

void methods_progress(struct methods *m, double share)
{
    for (int i = 0; i < count; i++) {
        const struct method_slot *slot = &m->slot[i];
        if (slot->on && slot->method->progress) slot->method->progress(slot->state, share);
    }
}

void methods_report(struct methods *m, const struct method_reporter *to)
{
    for (int i = 0; i < count; i++) {
        const struct method_slot *slot = &m->slot[i];
        if (slot->on && slot->method->report) slot->method->report(slot->state, to);
    }
}

void methods_validate(struct methods *m, bool on)
{
    for (int i = 0; i < count; i++) {
        const struct method_slot *slot = &m->slot[i];
        if (slot->on && slot->method->validate) slot->method->validate(slot->state, on);
    }
}

uint64_t methods_bytes(const struct methods *m)
{
    uint64_t bytes = 0;
    for (int i = 0; i < count; i++)
        if (m->slot[i].state && list[i]->bytes) bytes += list[i]->bytes(m->slot[i].state);
    return bytes;
}

// --- costs ---------------------------------------------------------------------------------------

bool methods_cost(const struct settings *s, const struct site *site)
{
    for (int i = 0; i < count; i++)
        if (list[i]->flops && action_at(list[i], site) && method_on(list[i], s)) return true;
    return false;
}

double methods_row_flops(const struct settings *s, const struct decoder_config *c,
                         const struct site *site, const struct site_args *args, bool visual)
{
    double sum = 0;
    for (int i = 0; i < count; i++)
        if (list[i]->flops && method_on(list[i], s))
            sum += list[i]->flops(s, c, site, args, visual);
    return sum;
}

// Counts the rows of a site among the first `end` rows of the sequence: text in rows[0], visual
// tokens in rows[1]. At a site without a sequence (HAS_ROWS), all rows count as visual tokens; at
// SITE_FFN, only rows whose FFN is not computed count.
static void count_rows(const struct site *site, const struct site_args *args, int64_t end,
                       int64_t rows[2])
{
    const int64_t n = flops_rows(site, args);
    int64_t computed = 0; // rows of `only` that the loop has passed
    rows[0] = 0, rows[1] = n;
    if (!(site->has & HAS_ROWS)) return;
    rows[1] = 0;
    if (site == SITE_FFN && !args->only) return;
    for (int64_t i = 0; i < n; i++) {
        const bool is_computed =
            site == SITE_FFN && computed < args->only_count && args->only[computed] == i;
        computed += is_computed;
        if (!is_computed && site_row(args, i) < end) rows[site_visual(args, i)]++;
    }
}

double methods_flops(const struct settings *s, const struct decoder_config *c,
                     const struct site *site, const struct site_args *args, int64_t end)
{
    int64_t rows[2];
    double sum = 0;
    count_rows(site, args, end, rows);
    for (int visual = 0; visual < 2; visual++)
        if (rows[visual]) sum += (double)rows[visual] * methods_row_flops(s, c, site, args, visual);
    return sum;
}

// --- learned tensors -----------------------------------------------------------------------------

// True if a name such as "ira.3.head.bias" matches "ira.K.head.bias". K is a layer number without
// leading zeros. *number: the layer, or 0.
static bool names(const char *pattern, const char *name, int layers, int *number)
{
    const char *k = strstr(pattern, ".K."), *at;
    *number = 0;
    if (!k) return !strcmp(pattern, name);
    const size_t front = (size_t)(k - pattern) + 1;
    if (strncmp(pattern, name, front) != 0) return false;
    char *end, plain[24];
    at = name + front;
    const long layer = strtol(at, &end, 10);
    snprintf(plain, sizeof plain, "%ld", layer);
    *number = layer >= 0 && layer < layers ? (int)layer : 0;
    return layer >= 0 && layer < layers && strlen(plain) == (size_t)(end - at) &&
           !strncmp(plain, at, strlen(plain)) && !strcmp(end, k + 2);
}

const struct method *method_learning(const struct model *m, const char *name,
                                     struct method_tensor *t)
{
    for (int i = 0; i < count; i++)
        for (int n = 0; list[i]->learned && list[i]->learned(m, n, 0, t); n++) {
            int layer;
            if (names(t->name, name, m->decoder.config.layers, &layer))
                return list[i]->learned(m, n, layer, t) ? list[i] : NULL;
        }
    return NULL;
}

void methods_learned(const struct model *m, struct buf *b)
{
    struct method_tensor t;
    for (int i = 0; i < count; i++)
        for (int n = 0; list[i]->learned && list[i]->learned(m, n, 0, &t); n++)
            buf_printf(b, "%s%s", b->length ? ", " : "", t.name);
}
