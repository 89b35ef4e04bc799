// core/adapter/provenance.h -- what answers and numbers come from: the weights, the adapter on them
// and the settings that change them, so that those of another state are not taken for one's own.
//
//   const struct provenance_env env = { model, adapter, backend, settings };
//   struct provenance now, then;
//   provenance_of(&now, &env, STALE_NEXT); // of answers; of measurements: STALE_MEASURED
//   provenance_put(&now, line);            // into an object of JSON, as "provenance"
//
//   if (provenance_get(&then, line) && provenance_same(&then, &now, &err) < 0) ...
//   provenance_release(&now);
//
// Which settings count is said by their rows (`stale`), but for those of methods that are off. What
// has its default is left out. What is called "auto" is noted as what it comes to on this machine,
// files by name and SHA-256 of their content.
#ifndef CORE_ADAPTER_PROVENANCE_H
#define CORE_ADAPTER_PROVENANCE_H

#include "core/adapter/adapter.h"
#include "core/base/json.h"
#include "core/methods/method.h"

// Columns of a CSV file that /collect writes; they begin like this.
#define PROVENANCE_COLUMN       "provenance."
#define PROVENANCE_COLUMN_MODEL PROVENANCE_COLUMN "model" // fingerprint
#define PROVENANCE_COLUMN_STATE PROVENANCE_COLUMN "state" // provenance_state

struct provenance_env {
    const struct model *model; // NULL: none is loaded
    struct adapter *adapter;   // on the model; NULL: none
    const struct backend *backend;
    const struct settings *settings;
};

// "model" (fingerprint), "adapter" (name@hash) where there is one, and settings by their keys.
struct provenance {
    struct provenance_fact {
        char *key, *value;
    } * list;
    size_t count;
};

void provenance_of(struct provenance *p, const struct provenance_env *env, enum setting_stale from);
// The same for work that may be resumed another day: without the date.
void provenance_of_job(struct provenance *p, const struct provenance_env *env);
// Takes in all of `other`, each key with `prefix` in front.
void provenance_join(struct provenance *p, const char *prefix, const struct provenance *other);
void provenance_add(struct provenance *p, const char *key, const char *value);
void provenance_release(struct provenance *p);
const char *provenance_value(const struct provenance *p, const char *key); // NULL: it has none

// 0, or -1 with a message that names the first thing that differs, as "prune.score is contribution
// there, off now".
int provenance_same(const struct provenance *there, const struct provenance *now, struct err *err);

void provenance_put(const struct provenance *p, cJSON *object);
// false: the object does not say.
bool provenance_get(struct provenance *p, const cJSON *object);
// All but the model in one line: "adapter=ln@3f2a..., prune.keep=0.5"; belongs to the caller.
char *provenance_state(const struct provenance *p);

#endif
