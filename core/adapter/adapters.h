// core/adapter/adapters.h -- the adapters loaded for a model, of which one may be
// on it.
//
//   struct adapter *a = adapters_open(&list, "out/ln", false, model, &err);   // read, or there
//   already adapters_use(&list, a, 1.0);                                              // on; NULL:
//   none adapters_drop(&list, a); adapters_release(&list); // before the model
#ifndef CORE_ADAPTER_ADAPTERS_H
#define CORE_ADAPTER_ADAPTERS_H

#include "core/adapter/model_write.h"
#include "core/methods/method.h"

struct adapters {
    struct adapter **list; // in the order they came
    size_t count;
    struct adapter *active; // NULL: none
};

// By name or folder among those loaded; NULL: none.
struct adapter *adapters_find(const struct adapters *s, const char *name);
// One that is loaded, or read now; `anew` reads in any case (the folder may have changed) and puts
// it in the place of the loaded one when it is next used. On failure nothing changes.
struct adapter *adapters_open(struct adapters *s, const char *name, bool anew, struct model *m,
                              struct err *err);
void adapters_use(struct adapters *s, struct adapter *a, double scale);
void adapters_drop(struct adapters *s, struct adapter *a);
void adapters_release(struct adapters *s);
// The model with the one that is on it, into a folder of its own (core/adapter/model_write.h).
int adapters_merge(const struct adapters *s, const char *folder, struct merge_report *report,
                   struct err *err);

// What the settings `adapter` and `adapter.scale` say, for a job: read and put on a model that has
// none. *a NULL: none is wanted. adapter_free it before the model.
int adapter_obey(struct adapter **a, struct model *m, const struct settings *s, struct err *err);
// An adapter's extras for methods; they find nothing when `a` is NULL.
struct method_tensors adapter_tensors(const struct adapter *a);

#endif
