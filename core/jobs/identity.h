// core/jobs/identity.h -- checks that the inputs of resumed work (training, evaluation, comparison,
// calibration) are unchanged, and names the first difference.
//
//   struct identity is = { .settings = lines, .model = fingerprint, .data = hex, ... };
//   identity_put(&is, record);                              // into a JSON record
//   struct identity was = identity_of(record);              // borrows its texts
//   if (identity_same(&was, &is, &err) < 0) ...             // names the first difference
//
// Hashes are SHA-256 as text; "" if there was no file.
#ifndef CORE_JOBS_IDENTITY_H
#define CORE_JOBS_IDENTITY_H

#include "core/base/hash.h"
#include "core/base/json.h"

struct data_notices;
struct dataset;
struct sample;

// A NULL field is unknown (yet, or in an older version) and not compared.
struct identity {
    const char *settings;          // "key=value" lines
    const char *model;             // fingerprint
    const char *files;             // checkpoint.files, to name the file that differs
    const char *data;              // hash of the data file
    const char *validation;        // hash of the separate data file or the sets of train.validation
    const char *answers;           // hash of the file of --answers
    const char *shots;             // hash of the file of --shots
    const char *adapter;           // hash of the files of the adapter that training continues from
    const char *calibration;       // hash of the file of phases.calibration if training prunes
    const char *pictures;          // hash of the bytes of all pictures named in the data
    const char *samples;           // hash of the indices and lengths of the used samples
    struct checkpoint *checkpoint; // the loaded model's; NULL in a recorded identity
    const char *data_path;         // for messages about a job's data; NULL: a training run
};

int identity_same(const struct identity *was, const struct identity *is, struct err *err);
// identity_put stores the identity as the record's object "identity". identity_of reads it; without
// that object, all fields are NULL.
void identity_put(const struct identity *id, cJSON *record);
struct identity identity_of(const cJSON *record);

// Adds the pictures of a sample to the running hash `hex` ("" at first) and to the notices *n. s
// NULL: the sample is unreadable; n NULL: no notices.
void identity_add_pictures(const struct dataset *data, const struct sample *s, char hex[HASH_HEX],
                           struct data_notices *n);
void identity_add_pictures_at(const struct dataset *data, int64_t index, char hex[HASH_HEX],
                              struct data_notices *n);
// Compares the pictures of sample `index` with the hash `was`; the message names the sample.
int identity_same_pictures(const struct dataset *data, int64_t index, const char *was,
                           struct data_notices *n, struct err *err);

// Calls each() with the name of every field and its address in *id.
void identity_each(struct identity *id, void (*each)(void *self, const char *name, const char **at),
                   void *self);

#endif
