// core/engine/presets.h -- named sets of settings that come with the program: the papers' recipes.
//
//   const struct preset *p = preset_find("capa-prune");
//   struct preset_values v = { 0 };
//   if (preset_read(&v, p->set, model, &err) < 0) ...     // {late} needs a model
//   engine_set_all(e, v.list, v.count, &err);
//   preset_values_release(&v);
#ifndef CORE_ENGINE_PRESETS_H
#define CORE_ENGINE_PRESETS_H

#include "core/base/err.h"
#include "core/model/model.h"
#include "core/settings/changes.h"

// `set` is "KEY=VALUE KEY=VALUE". Values may name what depends on the model: {early}, {transition},
// {late} are the layers at which the role of pictures changes (of the family's table by the shape
// of the checkpoint, else 1/8, 3/8 and 5/8 of the depth), {ffn} the layers whose FFN the paper
// approximates (else auto). PRESET_METHODS_OFF switches every method off.
#define PRESET_METHODS_OFF "(methods-off)"

struct preset {
    const char *name, *set, *help;
};

const struct preset *preset_at(int index); // NULL past the end
const struct preset *preset_find(const char *name);
void preset_spell(const struct preset *p, struct buf *b); // `set` as a person would type it

struct preset_values {
    struct change *list; // key and value are ours
    size_t count;
    bool guessed; // layers were taken by depth: the model's phases are not known
};

// Adds what `set` says; an earlier value of the same key is replaced. The keys and values
// themselves are looked at by whoever sets them.
int preset_read(struct preset_values *v, const char *set, const struct model *m, struct err *err);
void preset_add(struct preset_values *v, const char *key, const char *value);
bool preset_says(const struct preset_values *v, const char *key); // is the key among them?
void preset_values_release(struct preset_values *v);

#endif
