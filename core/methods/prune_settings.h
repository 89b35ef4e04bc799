// core/methods/prune_settings.h -- the settings of pruning, for core/methods/prune.c.
#ifndef CORE_METHODS_PRUNE_SETTINGS_H
#define CORE_METHODS_PRUNE_SETTINGS_H

#include "core/methods/method.h"
#include "core/methods/prune_score.h"
#include "core/settings/settings.h"

enum { PRUNE_INPUT = -1 }; // as a stage's layer: before the first

extern const struct setting prune_settings[];

// prune.score; one past the last kind when it is off.
enum prune_kind prune_kind_of(const struct settings *s);
// The stages' layers into layer[L]; their number, or -1.
int prune_read_layers(const struct method_env *env, int *layer, struct err *err);
// One share for each layer? Values set one by one may be temporarily inconsistent.
int prune_check_stages(int stages, size_t shares, struct err *err);
// Has IRA a divergence in each of these layers?
bool prune_diverges(const struct method_env *env, const int *layer, int stages);

// Of struct method.
int prune_auto_layer(const struct model *m);
int prune_possible(const struct settings *s, struct err *err);
int prune_check(const struct method_env *env, struct err *err);
int prune_agree(const struct method_env *env, struct err *err);
bool prune_without_effect(const struct method_env *env, struct err *why);
void prune_badge(struct buf *b, const struct settings *s, int layer);

#endif
