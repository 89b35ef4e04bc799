// core/new/join_parts.h -- shared by the files that implement core/new/join.h: configs, tokenizer
// and chat template of the joined model.
#ifndef CORE_NEW_JOIN_PARTS_H
#define CORE_NEW_JOIN_PARTS_H

#include "core/files/checkpoint.h"
#include "core/tokenizer/tokenizer.h"

struct join_texts {
    const struct checkpoint *encoder, *decoder;
    int64_t merge;               // "spatial_merge_size"
    struct tokenizer *tokenizer; // the decoder's
    cJSON *config;               // of the joined model
    int32_t image;               // id of "<image>"
    bool image_is_new;
    int64_t vocab; // rows of the embedding, including "<image>"
};

// Reads the tokenizer and builds the config. 0 or -1.
int join_texts_open(struct join_texts *t, struct err *err);
// Writes configs, tokenizer and chat template to the folder. 0 or -1.
int join_texts_write(const struct join_texts *t, const char *folder, struct err *err);
void join_texts_release(struct join_texts *t);

#endif
