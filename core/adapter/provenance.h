// core/adapter/provenance.h -- provenance of answers and numbers: the weights, the adapter and the
// settings that affect them, so that results of different states are never mixed.
//
//   const struct provenance_env env = { model, adapter, backend, settings };
//   struct provenance now, then;
//   provenance_of(&now, &env, STALE_NEXT); // for answers; for measurements, STALE_MEASURED
//   provenance_put(&now, line);            // into a JSON object, as "provenance"
//
//   if (provenance_get(&then, line) && provenance_same(&then, &now, &err) < 0) ...
//   provenance_release(&now);
//
// Records settings whose `stale` is at least the given one; omits settings of inactive methods and
// default values. `auto` is recorded as its effective value on this machine, a file by its name and
// the SHA-256 of its content.
#ifndef CORE_ADAPTER_PROVENANCE_H
#define CORE_ADAPTER_PROVENANCE_H

#include "core/base/json.h"
#include "core/settings/settings.h"

// Prefix of the provenance columns in a CSV file written by /collect.
#define PROVENANCE_COLUMN       "provenance."
#define PROVENANCE_COLUMN_MODEL PROVENANCE_COLUMN "model" // fingerprint
#define PROVENANCE_COLUMN_STATE PROVENANCE_COLUMN "state" // provenance_state

struct provenance_env {
    const struct model *model; // NULL: none is loaded
    struct adapter *adapter;   // the applied adapter; NULL: none
    const struct backend *backend;
    const struct settings *settings;
};

// Entries: "model" (fingerprint), "model files" (hashes of the model's files, for messages),
// "adapter" (name@hash) if one is applied, and settings by key.
struct provenance {
    struct provenance_fact {
        char *key, *value;
    } * list;
    size_t count;
    struct checkpoint *checkpoint; // the model's, borrowed; NULL if read from a file
};

void provenance_of(struct provenance *p, const struct provenance_env *env, enum setting_stale from);
// Like provenance_of for answers, but with the prompt's date "today" recorded as "any day", for
// work that may be resumed on another day.
void provenance_of_job(struct provenance *p, const struct provenance_env *env);
// Like provenance_of_job, but also with the settings that affect only scores.
void provenance_of_scores(struct provenance *p, const struct provenance_env *env);
// Adds all entries of `other`, with `prefix` before each key.
void provenance_join(struct provenance *p, const char *prefix, const struct provenance *other);
void provenance_add(struct provenance *p, const char *key, const char *value);
void provenance_release(struct provenance *p);
const char *provenance_value(const struct provenance *p, const char *key); // NULL: no such key

// Returns 0, or -1 with a message that names the first difference: "prune.score was contribution,
// now off". `now` describes a loaded model; a fingerprint that an earlier version of vlmsh computed
// for that model counts as equal.
int provenance_same(const struct provenance *there, const struct provenance *now, struct err *err);

void provenance_put(const struct provenance *p, cJSON *object);
// Returns false if the object has no provenance.
bool provenance_get(struct provenance *p, const cJSON *object);
// True if both are the same model, but an earlier version of vlmsh computed the fingerprint in
// `there`.
bool provenance_earlier(const struct provenance *there, const struct provenance *now);
// Returns all entries but the model's in one line: "adapter=ln@3f2a..., prune.keep=0.5"; the caller
// frees it.
char *provenance_state(const struct provenance *p);

#endif
