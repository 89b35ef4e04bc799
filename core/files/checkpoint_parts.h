// core/files/checkpoint_parts.h -- shared by the files of checkpoints only.
#ifndef CORE_FILES_CHECKPOINT_PARTS_H
#define CORE_FILES_CHECKPOINT_PARTS_H

#include "core/files/checkpoint.h"

enum {
    CHECKPOINT_CONFIG_LIMIT = 32 << 20 // bytes of a small file (the largest indexes have 16 MB)
};

// Reads a JSON file of the folder. *json stays NULL if it is absent.
int checkpoint_read_json(const struct checkpoint *c, const char *name, cJSON **json,
                         struct err *err);
// Reads the folder's chat template, after its other configs.
int checkpoint_read_template(struct checkpoint *c, struct err *err);
// Opens the GGUF files of that name: configs and shards; c->folder becomes their absolute path.
int checkpoint_read_gguf(struct checkpoint *c, const char *name, struct err *err);
// Splits such a name; *encoder NULL: none is named. The caller frees both.
void checkpoint_split_name(const char *name, char **model, char **encoder);
// Refuses a file of a model that is a link out of its folder; a snapshot of the hub's cache may
// link to its repository's blobs.
int checkpoint_check_link(const char *path, struct err *err);
// Stops the thread of checkpoint_identify_in_background.
void checkpoint_identify_end(struct checkpoint *c);

#endif
