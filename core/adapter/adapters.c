// core/adapter/adapters.c -- the adapters loaded for a model.
#include "core/adapter/adapters.h"

#include <stdlib.h>
#include <string.h>

#include "core/adapter/adapter.h"
#include "core/adapter/adapter_entry.h"
#include "core/adapter/model_write.h"
#include "core/base/file_in.h"
#include "core/base/mem.h"
#include "core/methods/method.h"
#include "core/model/model.h"
#include "core/settings/settings.h"
#include "core/talk/conversation.h"

struct adapter *adapters_find(const struct adapters *s, const char *name)
{
    for (size_t i = s->count; i-- > 0;)
        if (file_same(s->list[i]->folder, name)) return s->list[i];
    for (size_t i = s->count; i-- > 0;)
        if (!strcmp(s->list[i]->name, name)) return s->list[i];
    return NULL;
}

// The adapters of the folders "a/ln" and "b/ln" are named "ln" and "ln-2".
static void name_uniquely(const struct adapters *s, struct adapter *a)
{
    char *plain = xstrdup(a->name);
    for (int n = 2;; n++) {
        bool taken = false;
        for (size_t i = 0; i < s->count; i++) taken |= !strcmp(s->list[i]->name, a->name);
        if (!taken) break;
        free(a->name);
        a->name = xasprintf("%s-%d", plain, n);
    }
    free(plain);
}

struct adapter *adapters_open(struct adapters *s, const char *name, bool reload, struct model *m,
                              struct err *err)
{
    struct adapter *loaded = adapters_find(s, name);
    if (loaded && !reload) return loaded;
    struct adapter *a = adapter_read(loaded ? loaded->folder : name, m, err);
    if (!a) return NULL;
    if (loaded) { // the old adapter stays loaded until adapters_use
        free(a->name);
        a->name = xstrdup(loaded->name);
    } else {
        name_uniquely(s, a);
    }
    s->list = xreallocarray(s->list, s->count + 1, sizeof(struct adapter *));
    s->list[s->count++] = a;
    return a;
}

static void use(struct adapter *a, const struct settings *s)
{
    adapter_scale(a, settings_real(s, "adapter.scale"));
    adapter_with_pictures(a, settings_is(s, "adapter.when", "pictures"));
}

void adapters_use(struct adapters *s, struct adapter *a, const struct settings *settings)
{
    if (s->active) adapter_remove(s->active);
    s->active = a;
    if (!a) return;
    use(a, settings);
    for (size_t i = s->count; i-- > 0;) // drops adapters read earlier from the same folder
        if (s->list[i] != a && file_same(s->list[i]->folder, a->folder))
            adapters_drop(s, s->list[i]);
}

void adapters_drop(struct adapters *s, struct adapter *a)
{
    if (s->active == a) s->active = NULL;
    for (size_t i = 0; i < s->count; i++) {
        if (s->list[i] != a) continue;
        memmove(&s->list[i], &s->list[i + 1], (--s->count - i) * sizeof(struct adapter *));
        break;
    }
    adapter_free(a); // removes it from the model
}

void adapters_release(struct adapters *s)
{
    while (s->count) adapters_drop(s, s->list[s->count - 1]);
    free(s->list);
    *s = (struct adapters){ 0 };
}

// --- settings ------------------------------------------------------------------------------------

// Returns the state that becomes stale if the adapter is applied or removed.
static enum setting_stale stale_of(const struct adapter *a)
{
    return a && adapter_touches_vision(a) ? STALE_VISUAL : STALE_KV;
}

// Reads the adapter; changes nothing on failure. Returns 1 if the adapter is not the one in use, or
// was read again.
static int check_adapter(struct setting_env *env, struct err *err)
{
    const char *name = settings_text(env->settings, "adapter");
    const bool none = !strcmp(name, "none");
    env->adapter = NULL;
    if (!env->adapters) return none || adapter_need(name, err) == 0 ? 1 : -1;
    if (!none && !env->model) return adapter_need(name, err);
    if (!none) {
        env->adapter = adapters_open(env->adapters, name, env->reload, env->model, err);
        if (!env->adapter) return -1;
        // Replaces the name of a loaded adapter with its folder.
        settings_set(env->settings, "adapter", env->adapter->folder, NULL);
    }
    return env->adapter != env->adapters->active;
}

static enum setting_stale apply_adapter(const struct setting *row, const struct setting_env *env)
{
    const enum setting_stale was = stale_of(env->adapters->active), now = stale_of(env->adapter);
    conversation_reset_methods(env->conversation); // methods may cache results of the weights
    if (env->stashed) conversation_reset_methods(env->stashed);
    adapters_use(env->adapters, env->adapter, env->settings);
    return was > now ? was : now;
}

// Answers record the hash of the adapter instead (core/adapter/provenance.c).
static char *effective_adapter(const struct model *m, const struct backend *b,
                               const struct settings *s)
{
    return NULL;
}

static enum setting_stale apply_scale(const struct setting *row, const struct setting_env *env)
{
    struct adapter *a = env->adapters->active;
    if (!a || !adapter_has(a, ADAPTER_LORA)) return STALE_NOTHING;
    adapter_scale(a, settings_real(env->settings, row->key));
    return stale_of(a);
}

static enum setting_stale apply_when(const struct setting *row, const struct setting_env *env)
{
    struct adapter *a = env->adapters->active;
    if (!a) return STALE_NOTHING;
    adapter_with_pictures(a, settings_is(env->settings, row->key, "pictures"));
    // With a picture, both values of adapter.when apply the adapter.
    const bool shown =
        env->conversation->cached.pictures && (!env->stashed || env->stashed->cached.pictures);
    return shown ? STALE_NOTHING : row->stale;
}

static const char *const word_none[] = { "none", NULL };
static const char *const whens[] = { "always", "pictures", NULL };

const struct setting adapter_settings[] = {
    { .key = "adapter",
      .type = SETTING_PATH,
      .def = "none",
      .choices = word_none,
      .stale = STALE_KV,
      .help = "Adapter in use: a folder, the name of a loaded adapter (/adapter list), or none.",
      .check = check_adapter,
      .apply = apply_adapter,
      .effective = effective_adapter },
    { .key = "adapter.scale",
      .type = SETTING_REAL,
      .min = -100,
      .max = 100,
      .def = "1",
      .stale = STALE_KV,
      .help = "Multiplies the LoRA scale (alpha / rank); weights that the adapter replaces are not "
              "scaled.",
      .apply = apply_scale },
    { .key = "adapter.when",
      .type = SETTING_CHOICE,
      .def = "always",
      .choices = whens,
      .stale = STALE_KV,
      .help = "When the adapter is used: always, or only in conversations with a picture. Without "
              "a picture the base model answers; the first picture applies the adapter and "
              "recomputes the conversation.",
      .also = "vision text-only language",
      .apply = apply_when },
    { 0 },
};

int adapters_merge(const struct adapters *s, const char *folder, struct merge_report *report,
                   struct err *err)
{
    const struct adapter *a = s->active;
    size_t count = 0;
    if (!a) return err_set(err, "no adapter is applied: /adapter load FOLDER");
    model_pass(a->model, true); // applies the whole adapter
    struct adapter_delta *deltas = xcalloc(a->count, sizeof *deltas);
    // Passes only the extra tensors: the weights of the model already include all other changes.
    for (size_t i = 0; i < a->count; i++)
        if (a->list[i].kind == ADAPTER_EXTRA) adapter_add_delta(deltas, &count, &a->list[i]);
    int status = model_write(a->model, deltas, count, folder, report, err);
    free(deltas);
    return status;
}

int adapter_apply_settings(struct adapter **a, struct model *m, const struct settings *s,
                           struct err *err)
{
    *a = NULL;
    if (settings_is(s, "adapter", "none")) return 0;
    if (!(*a = adapter_read(settings_text(s, "adapter"), m, err))) return -1;
    use(*a, s);
    return 0;
}

static const struct tensor *find_extra(void *self, const char *name)
{
    return adapter_find(self, name);
}

struct method_tensors adapter_tensors(const struct adapter *a)
{
    return (struct method_tensors){ find_extra, (void *)(uintptr_t)a };
}
