// core/files/checkpoint_parts.h -- shared only by the files that read checkpoints.
#ifndef CORE_FILES_CHECKPOINT_PARTS_H
#define CORE_FILES_CHECKPOINT_PARTS_H

#include "core/files/checkpoint.h"

enum {
    CHECKPOINT_CONFIG_LIMIT = 32 << 20 // bytes of a text file (the largest indexes have 16 MB)
};

// Reads a JSON file of the folder. *json stays NULL if it is absent.
int checkpoint_read_json(const struct checkpoint *c, const char *name, cJSON **json,
                         struct err *err);
// Reads the folder's chat template, after its other configs.
int checkpoint_read_template(struct checkpoint *c, struct err *err);
// Opens the GGUF files that `name` names and reads their configs and shards; c->folder becomes
// their absolute path.
int checkpoint_read_gguf(struct checkpoint *c, const char *name, struct err *err);
// Splits the name of a GGUF model and its encoder; *encoder becomes NULL if `name` has no encoder.
// The caller frees both.
void checkpoint_split_name(const char *name, char **model, char **encoder);
// Refuses a model's file that is a link to outside the model's folder; a snapshot in the hub's
// cache may link to the blobs of its repository.
int checkpoint_check_link(const char *path, struct err *err);
// Sorts the list of tensors by name; refuses a name that occurs twice.
int checkpoint_sort(struct checkpoint *c, struct err *err);
// Returns the list's entry for a tensor; NULL: no tensor has this name.
const struct safetensor **checkpoint_entry(const struct checkpoint *c, const char *name);
// Stops the thread of checkpoint_identify_in_background and frees unfinished hashes.
void checkpoint_identify_end(struct checkpoint *c);

#endif
