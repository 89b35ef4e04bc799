// core/engine/presets.h -- built-in presets: the papers' recipes as named sets of settings.
//
//   const struct preset *p = preset_find("capa-prune");
//   struct preset_values v = { 0 };
//   if (preset_read(&v, p, model, &err) < 0) ...     // {late} needs a model
//   engine_set_all(e, v.list, v.count, &err);
//   preset_values_release(&v);
#ifndef CORE_ENGINE_PRESETS_H
#define CORE_ENGINE_PRESETS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/err.h"

struct model;
struct settings;

// `set` is "KEY=VALUE KEY=VALUE". Values may contain placeholders. {early}, {transition} and {late}
// are the layers at which the role of pictures changes: from phases.calibration of `settings`, else
// from the family's table for this checkpoint shape, else at 1/8, 3/8 and 5/8 of the depth. {ffn}
// is the layers whose FFN the paper approximates (else auto). All other settings that any built-in
// recipe sets, and the switches of methods, get their defaults, so that a recipe has the same
// effect whatever was loaded before. A recipe without training settings (STALE_TRAINING) leaves all
// training settings unchanged.
struct preset {
    const char *name, *set, *help;
};

const struct preset *preset_at(int index); // NULL past the end
const struct preset *preset_find(const char *name);
// Returns whether any recipe sets this key, or the key switches a method.
bool preset_sets(const char *key);

struct preset_values {
    struct change *list; // key and value are owned
    size_t count;
    const struct settings *settings; // provides phases.calibration; borrowed; NULL: none
    bool guessed;                    // layers were chosen by depth: the model's phases are unknown
};

// Adds all values of the recipe to `v`, of which the caller has set only `settings`. Does not check
// keys and values.
int preset_read(struct preset_values *v, const struct preset *p, const struct model *m,
                struct err *err);
// Add the values of a text such as a preset's `set`, or one literal KEY=VALUE; a new value replaces
// an earlier value of the same key.
int preset_read_text(struct preset_values *v, const char *text, const struct model *m,
                     struct err *err);
int preset_add_word(struct preset_values *v, const char *word, struct err *err);
void preset_add(struct preset_values *v, const char *key, const char *value);
void preset_off(struct preset_values *v); // adds the switch of every method, set to off
// For each method that the values switch on, adds the adapter or calibration in the model's folder
// (method.fit), unless the values are for training, or they or `s` name another file. If `s` names
// the file in the model's folder, but the values are for training, or are a whole recipe (`recipe`)
// that does not need the file, resets the setting.
void preset_fit(struct preset_values *v, const struct model *m, const struct settings *s,
                bool recipe);
bool preset_says(const struct preset_values *v, const char *key); // true if the values set this key
void preset_values_release(struct preset_values *v);

#endif
