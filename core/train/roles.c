// core/train/roles.c -- determines which methods act in training, and which of them learn.
#include "core/train/roles.h"

#include <stdlib.h>
#include <string.h>

#include "core/model/model.h"
#include "core/settings/settings.h"
#include "core/train/params.h"
#include "core/train/select.h"
#include "kernels/tensor.h"

static const char *const words[] = { [ROLE_FIXED] = "not trained", [ROLE_TRAINED] = "trained" };

int roles_switch(struct settings *s, struct err *err)
{
    const struct method *m;
    for (int i = 0; (m = method_at(i)); i++) {
        const bool acts = method_in_training(m, s);
        if (acts != method_on(m, s) &&
            settings_set(s, m->toggle.key, acts ? m->toggle.on : m->toggle.off, err) < 0)
            return -1;
    }
    return 0;
}

// --- learned parameters --------------------------------------------------------------------------

static int index_of(const struct method *m)
{
    int i = 0;
    while (method_at(i) != m) i++;
    return i;
}

struct param_extra roles_extra(const struct method *method, const struct settings *s,
                               const char *name, struct tensor *tensor)
{
    const char *by = method->training.by;
    return (struct param_extra){ .name = name,
                                 .tensor = tensor,
                                 // A method with its own learning rate has its own group.
                                 .group = method->training.rate
                                              ? GROUP_METHODS + (enum param_group)index_of(method)
                                              : params_group(method->training.part),
                                 .part = method->training.part,
                                 .with_part = !by,
                                 .always = by && settings_flag(s, by) };
}

struct param_extra *roles_extras(const struct model *m, const struct settings *s, size_t *count)
{
    struct param_extra *list = NULL;
    const struct method *method;
    struct method_tensor t;
    *count = 0;
    for (int i = 0; (method = method_at(i)); i++)
        for (int n = 0;
             method->learned && method_in_training(method, s) && method->learned(m, n, 0, &t);
             n++) {
            const char *k = strstr(t.name, ".K.");
            const int front = k ? (int)(k - t.name) + 1 : 0;
            for (int layer = 0; layer < (k ? m->decoder.config.layers : 1); layer++) {
                if (!method->learned(m, n, layer, &t)) continue;
                struct tensor *x = xcalloc(1, sizeof *x);
                *x = (struct tensor){ .dtype = DTYPE_F32,
                                      .rank = t.rank,
                                      .shape = { t.shape[0], t.shape[1] } };
                char *name =
                    k ? xasprintf("%.*s%d%s", front, t.name, layer, k + 2) : xstrdup(t.name);
                list = xreallocarray(list, *count + 1, sizeof *list);
                list[(*count)++] = roles_extra(method, s, name, x);
            }
        }
    return list;
}

void roles_extras_free(struct param_extra *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free((char *)(uintptr_t)list[i].name);
        free(list[i].tensor);
    }
    free(list);
}

int roles_of(enum method_role role[METHODS_MAX], const struct model *m, const struct settings *s,
             struct err *err)
{
    const struct method *method;
    struct method_tensor t;
    struct selection chosen;
    size_t count;
    struct param_extra *extras = roles_extras(m, s, &count);
    const int status = params_choose(&chosen, m, s, extras, count, err);
    for (int i = 0; (method = method_at(i)); i++)
        role[i] = method_in_training(method, s) ? ROLE_FIXED
                  : method_on(method, s)        ? ROLE_ABSENT
                                                : ROLE_OFF;
    for (size_t i = 0; i < count && status == 0; i++)
        if (chosen.item[m->weights.count + i].trained)
            role[index_of(method_learning(m, extras[i].name, &t))] = ROLE_TRAINED;
    if (status == 0) selection_release(&chosen);
    roles_extras_free(extras, count);
    return status;
}

// --- reports and records -------------------------------------------------------------------------

char *roles_text(const enum method_role role[METHODS_MAX])
{
    const struct method *m;
    struct buf b = { 0 };
    for (int i = 0; (m = method_shown(i)); i++) {
        const enum method_role is = role[index_of(m)];
        if (is >= ROLE_FIXED)
            buf_printf(&b, "%s%s (%s)", b.length ? ", " : "", m->title, words[is]);
    }
    return b.length ? buf_take(&b) : NULL;
}

void roles_say(const enum method_role role[METHODS_MAX], const struct model *m, struct sinks *sinks)
{
    const struct method *method;
    struct method_tensor t;
    for (int i = 0; (method = method_shown(i)); i++) {
        const enum method_role is = role[index_of(method)];
        if (is == ROLE_ABSENT && method->training.by)
            sinks_notice(sinks, "%s is on, but does not act in training: /set %s on trains with it",
                         method->title, method->training.by);
        else if (is == ROLE_ABSENT)
            sinks_notice(sinks,
                         "%s is on, but never acts in training: the model is trained without it",
                         method->title);
        if (is == ROLE_FIXED && method->learned && method->learned(m, 0, 0, &t))
            sinks_notice(sinks,
                         "%s acts in training, but its parameters are not trained: train the %s "
                         "too, or name %.*s.* in train.params",
                         method->title, part_name(method->training.part), (int)strcspn(t.name, "."),
                         t.name);
    }
}

void roles_put(const enum method_role role[METHODS_MAX], cJSON *record)
{
    cJSON *list = cJSON_AddObjectToObject(record, "methods");
    const struct method *m;
    for (int i = 0; (m = method_at(i)); i++)
        if (role[i] >= ROLE_FIXED) cJSON_AddStringToObject(list, m->name, words[role[i]]);
}

void roles_get(enum method_role role[METHODS_MAX], const cJSON *record)
{
    const cJSON *list = cJSON_GetObjectItem(record, "methods");
    const struct method *m;
    for (int i = 0; (m = method_at(i)); i++) {
        const char *word = cJSON_GetStringValue(cJSON_GetObjectItem(list, m->name));
        role[i] = !word ? ROLE_OFF : !strcmp(word, words[ROLE_TRAINED]) ? ROLE_TRAINED : ROLE_FIXED;
    }
}
