// sessions/presets.h -- the user's named presets.
//
//   store_preset_save(store, "mine", values.list, values.count, &err);   // replaces an old one
//   struct preset_values v = { 0 };
//   if (store_preset_read(store, "mine", &v, &err) < 0) ...              // also if there is none
//   preset_values_release(&v);
#ifndef SESSIONS_PRESETS_H
#define SESSIONS_PRESETS_H

#include "core/base/names.h"
#include "core/engine/presets.h"
#include "sessions/store.h"

int store_preset_save(struct store *s, const char *name, const struct change *list, size_t count,
                      struct err *err);
int store_preset_read(struct store *s, const char *name, struct preset_values *v, struct err *err);
int store_preset_delete(struct store *s, const char *name, struct err *err);
// Names of all presets, sorted; names_release them.
int store_presets(struct store *s, struct names *names, struct err *err);

#endif
