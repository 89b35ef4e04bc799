// core/train/identity.h -- what must be the same for a training run to go on, and what differs.
//
//   struct identity is = { .settings = lines, .model = fingerprint, .data = hex, ... };
//   identity_put(&is, record);                              // into a record of JSON
//   struct identity was = identity_of(record);              // borrows its texts
//   if (identity_same(&was, &is, &err) < 0) ...             // names the first thing that differs
//
// Hashes are SHA-256 as text; "" says that there is no such thing.
#ifndef CORE_TRAIN_IDENTITY_H
#define CORE_TRAIN_IDENTITY_H

#include "core/base/json.h"

// A field that is NULL is not known (yet, or to an older version): it is not compared.
struct identity {
    const char *settings; // "key=value" lines
    const char *model;    // fingerprint
    const char *data;     // of the data file
    const char *held;     // of the validation's own file
    const char *adapter;  // of the files of the adapter that training goes on from
    const char *pictures; // of the bytes of the pictures that the data names
    const char *samples;  // over which samples are used, and their lengths
};

int identity_same(const struct identity *was, const struct identity *is, struct err *err);
// As the object "identity"; without one all fields are NULL.
void identity_put(const struct identity *id, cJSON *record);
struct identity identity_of(const cJSON *record);

// Calls each() with the name of every field and where it stands in *id.
void identity_each(struct identity *id, void (*each)(void *self, const char *name, const char **at),
                   void *self);

#endif
