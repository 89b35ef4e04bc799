// core/settings/settings_values.h -- canonical spelling of list values; for
// core/settings/settings.c only.
#ifndef CORE_SETTINGS_SETTINGS_VALUES_H
#define CORE_SETTINGS_SETTINGS_VALUES_H

#include "core/base/mem.h"
#include "core/settings/settings.h"

// The canonical spelling of a typed value; the caller frees it. NULL with a message when it is not
// allowed.
char *list_spell(const struct setting *row, const char *value, struct err *err);
char *reals_spell(const struct setting *row, const char *value, struct err *err);
// settings_layers for a value in canonical spelling; `key` for messages.
int list_layers(const char *key, const char *text, int64_t layers, bool *set, struct err *err);
void settings_words(struct buf *b, const char *const *words); // "a, b"

#endif
