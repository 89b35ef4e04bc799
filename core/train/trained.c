// core/train/trained.c -- how the adapter or model in use was trained, and what differs now.
#include "core/train/trained.h"

#include <stdlib.h>
#include <string.h>

#include "core/adapter/adapter.h"
#include "core/base/items.h"
#include "core/base/mem.h"
#include "core/base/names.h"
#include "core/base/utf8.h"
#include "core/jobs/identity.h"
#include "core/settings/settings.h"
#include "core/train/roles.h"
#include "core/train/run_folder.h"

cJSON *trained_record(const char *folder)
{
    char *run = adapter_run(folder);
    cJSON *record = run ? run_folder_read(run, NULL) : NULL;
    free(run);
    return record;
}

// True if another value of this setting changes what the trained weights see with the settings `s`:
// pictures, prompts, or a method that acted in training. s NULL: what another training learns.
static bool matters(const struct setting *row, const enum method_role role[METHODS_MAX],
                    const struct settings *s)
{
    // Initial values, which trained parameters replace.
    static const char initial[] = "norm.init norm.target";
    const struct method *m = method_of(row->key);
    int i = 0;
    while (m && method_at(i) != m) i++;
    if (m && role[i] < ROLE_FIXED) return false;
    if (m && !s) return row->stale >= STALE_TRAINING && strcmp(row->key, m->toggle.key) != 0;
    if (m)
        return row->stale >= STALE_SEEN && method_on(m, s) &&
               !(role[i] == ROLE_TRAINED && items_has(initial, row->key, " "));
    return !strncmp(row->key, "chat.template", strlen("chat.template")) ||
           !strcmp(row->key, "data.special_tokens") ||
           (!s && items_has("adapter ctx.max", row->key, " ")) ||
           (!strncmp(row->key, "image.", strlen("image.")) && row->stale >= STALE_VISUAL);
}

// Adds to *differ the settings of the run that matter and are not current, as "key=value (now
// value)".
static void find_differences(const cJSON *record, const enum method_role role[METHODS_MAX],
                             const struct settings *current, bool again, struct names *differ)
{
    enum { MOST = 100 };
    const char *then = identity_of(record).settings;
    const struct setting *row;
    for (int i = 0; then && (row = settings_row(i)); i++) {
        const char *now = settings_text(current, row->key);
        char *key = xasprintf("%s=", row->key), *was = items_with_key(then, key, "\n");
        const char *value = was ? was + strlen(key) : now;
        // train.prune prunes by contribution although prune.score is off.
        const bool implied = method_of(row->key) && !strcmp(value, "off");
        if (matters(row, role, again ? NULL : current) && strcmp(value, now) != 0 && !implied) {
            char *text = xasprintf("%s=%.*s (now %.*s)", row->key, utf8_head(value, MOST), value,
                                   utf8_head(now, MOST), now);
            names_add(differ, text, NULL);
            free(text);
        }
        free(key);
        free(was);
    }
}

static void say_names(struct sinks *sinks, const char *what, struct names *list)
{
    enum { NAMED = 10 };
    struct buf b = { 0 };
    names_put(&b, list, NAMED);
    if (list->count) sinks_notice(sinks, "%s: %s", what, b.data);
    buf_release(&b);
    names_release(list);
}

static void say_method(const char *folder, const struct adapter *a, const struct method *m,
                       enum method_role role, struct sinks *sinks)
{
    if (a && adapter_learned(a, m))
        sinks_notice(sinks, "the adapter has trained parameters of %s: /set %s %s enables it",
                     m->title, m->toggle.key, m->toggle.on);
    else if (!a && role == ROLE_TRAINED)
        sinks_notice(sinks,
                     "the model was trained with %s, whose parameters are beside it: to use it as "
                     "trained, /adapter load %s, then /set %s %s",
                     m->title, folder, m->toggle.key, m->toggle.on);
    else if (role == ROLE_FIXED)
        sinks_notice(sinks, "the %s was trained with %s on: to use it as trained, /set %s %s",
                     a ? "adapter" : "model", m->title, m->toggle.key, m->toggle.on);
}

void trained_say(const char *folder, const struct adapter *a, bool said, const struct settings *s,
                 struct sinks *sinks)
{
    enum method_role role[METHODS_MAX];
    const struct method *m;
    cJSON *record = trained_record(folder);
    roles_get(role, record);
    for (int i = 0; (m = method_at(i)); i++)
        if (!method_on(m, s)) say_method(folder, a, m, role[i], sinks);
    struct names differ = { 0 };
    if (!said) find_differences(record, role, s, false, &differ);
    say_names(sinks,
              a ? "the adapter was trained with settings that differ now"
                : "the model was trained with settings that differ now",
              &differ);
    cJSON_Delete(record);
}

void trained_say_unset(const char *folder, const struct settings *s, struct sinks *sinks)
{
    enum method_role role[METHODS_MAX];
    const struct method *m;
    struct names differ = { 0 };
    cJSON *record = run_folder_read(folder, NULL);
    roles_get(role, record);
    for (int i = 0; (m = method_at(i)); i++) {
        if (role[i] < ROLE_FIXED || m->training.by || method_on(m, s)) continue;
        char *toggle = xasprintf("%s=%s", m->toggle.key, m->toggle.on);
        names_add(&differ, toggle, NULL);
        free(toggle);
    }
    find_differences(record, role, s, true, &differ);
    say_names(sinks, "settings of the run that /preset does not load", &differ);
    cJSON_Delete(record);
}
