// core/engine/proposal.c -- checks proposed settings: their spelling, their rows' own checks, then
// the methods that use them.
#include "core/engine/proposal.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/methods/method.h"

// Refuses the proposed values of these rows: one setting, or all settings of a method. If the
// changes name one of the rows, all rows get their former values, else their defaults. Returns 0 if
// the proposal may continue with these values; -1 if not, or if nothing changed.
static int refuse(struct proposal *p, const struct setting *rows, int count, const struct err *why,
                  struct err *err)
{
    const int first = settings_index(rows->key);
    struct buf keys = { 0 }; // named by the changes
    for (int i = 0; i < count; i++)
        if (p->named[first + i]) buf_printf(&keys, "%s%s", keys.length ? ", " : "", rows[i].key);
    bool continues = keys.length ? p->restored : p->resets, other = keys.length;
    for (int i = 0; i < count; i++) {
        const char *key = rows[i].key;
        const char *value = keys.length ? settings_text(p->from, key) : rows[i].def;
        other |= strcmp(settings_text(p->env.settings, key), value) != 0;
        settings_set(p->env.settings, key, value, NULL);
        p->named[first + i] = false;
    }
    char *text = keys.length ? xasprintf("cannot restore %s: %s", keys.data, why->text)
                 : count > 1
                     ? xasprintf("%s; these settings are reset to their defaults", why->text)
                     : xasprintf("%s; %s is now %s", why->text, rows->key, rows->def);
    names_add(&p->notices, text, NULL);
    free(text);
    buf_release(&keys);
    return continues && other ? 0 : err_set(err, "%s", why->text);
}

static int check_method(const struct proposal *p, const struct method *m, bool agree,
                        struct err *err)
{
    const struct method_env env = { .model = p->env.model,
                                    .backend = p->env.backend,
                                    .settings = p->env.settings,
                                    .tensors = adapter_tensors(p->env.adapter),
                                    .training = p->training };
    if (!p->env.model) return methods_possible(m, p->env.settings, err);
    if (methods_check(m, &env, err) < 0) return -1;
    return agree && methods_inconsistent(m, &env, err) ? -1 : 0;
}

static int check(struct proposal *p, const struct change *list, size_t count, struct err *err)
{
    const struct setting *row;
    const struct method *m;
    struct err why;
    for (size_t i = 0; i < count; i++) {
        const int index = settings_index(list[i].key);
        if (index < 0) return settings_unknown(list[i].key, err);
        p->named[index] = true;
        if (settings_set(p->env.settings, list[i].key, list[i].value, &why) < 0 &&
            refuse(p, settings_row(index), 1, &why, err) < 0)
            return -1;
    }
    for (int i = 0; i < p->rows && (row = settings_row(i)); i++) {
        if (!row->check || (!p->named[i] && !p->loaded)) continue;
        int status;
        p->env.row = row;
        while ((status = row->check(&p->env, &why)) < 0)
            if (refuse(p, row, 1, &why, err) < 0) return -1;
        p->reapply[i] = status > 0;
        p->adapter_changes |= status > 0;
    }
    // If the adapter changes, checks all methods: one may lack its parameters now.
    for (int i = 0; (m = method_at(i)); i++) {
        const int first = settings_index(m->settings->key);
        int rows = 0;
        bool named = p->all;
        for (; m->settings[rows].key; rows++) named |= p->named[first + rows];
        if (!named && !p->adapter_changes) continue;
        while (check_method(p, m, named && !p->single, &why) < 0) {
            if (refuse(p, m->settings, rows, &why, err) < 0) return -1;
            p->adapter_changes = true; // checks the remaining methods too: one may need this method
        }
    }
    return 0;
}

int proposal_check(struct proposal *p, const struct change *list, size_t count, struct err *err)
{
    struct adapters *adapters = p->env.adapters;
    const size_t kept = adapters ? adapters->count : 0;
    for (size_t i = 0; i < count; i++) settings_make(list[i].key); // before rows are counted
    p->env.settings = settings_copy(p->from);
    p->env.adapter = adapters ? adapters->active : NULL;
    p->rows = settings_count();
    p->named = xcalloc((size_t)p->rows, sizeof *p->named);
    p->reapply = xcalloc((size_t)p->rows, sizeof *p->reapply);
    const int status = check(p, list, count, err);
    if (status == 0) return 0;
    while (adapters && adapters->count > kept) // loaded for the refused proposal
        adapters_drop(adapters, adapters->list[adapters->count - 1]);
    proposal_release(p);
    return -1;
}

void proposal_release(struct proposal *p)
{
    settings_free(p->env.settings);
    free(p->named);
    free(p->reapply);
    names_release(&p->notices);
    p->env.settings = NULL;
    p->env.adapter = NULL;
    p->named = p->reapply = NULL;
    p->adapter_changes = false;
}
