// core/train/roles.h -- which methods act in training, and which of them learn.
//
//   enum method_role role[METHODS_MAX];
//   if (roles_of(role, model, settings, &err) < 0) ...     // by method_at
//   roles_say(role, model, sinks);                         // notices
//
// method_in_training (core/methods/method.h) decides which methods act; a run switches its methods
// accordingly.
#ifndef CORE_TRAIN_ROLES_H
#define CORE_TRAIN_ROLES_H

#include "core/base/event.h"
#include "core/base/json.h"
#include "core/methods/method.h"

struct method;
struct model;
struct settings;
struct tensor;

enum method_role {
    ROLE_OFF,
    ROLE_ABSENT, // the method is on, but does not act in training
    ROLE_FIXED,  // the method acts, but no parameter of it is trained
    ROLE_TRAINED,
};

int roles_of(enum method_role role[METHODS_MAX], const struct model *m, const struct settings *s,
             struct err *err);
// Returns "norm alignment (trained), IRA (trained)"; the caller frees it. NULL: no method acts.
char *roles_text(const enum method_role role[METHODS_MAX]);
// Emits a notice for each method that is on but does not act, or that acts and could learn but is
// not trained.
void roles_say(const enum method_role role[METHODS_MAX], const struct model *m,
               struct sinks *sinks);
// Write and read the roles in the record of a run: "methods": {"norm_align": "trained"}.
void roles_put(const enum method_role role[METHODS_MAX], cJSON *record);
void roles_get(enum method_role role[METHODS_MAX], const cJSON *record);

// Switches on the methods that act in training with these settings, and switches off the others.
int roles_switch(struct settings *s, struct err *err);

// Describes a parameter that a method learns, as trained with these settings.
struct param_extra roles_extra(const struct method *method, const struct settings *s,
                               const char *name, struct tensor *tensor);
// Returns all parameters that methods in training may learn, without data, in every layer.
// roles_extras_free frees them.
struct param_extra *roles_extras(const struct model *m, const struct settings *s, size_t *count);
void roles_extras_free(struct param_extra *list, size_t count);

#endif
