// core/data/notices.h -- notices about a data set that a command used: keys that are not used,
// special tokens in its texts, animations. All commands take them from here.
//
//   char *text = data_notices_read(&(struct data_use){ .data = &data, .model = model,
//                                                      .settings = settings, .count = used });
//   if (text) ...           // "not used: "tools" (3 samples); 1 picture file is animated: ..."
//   free(text);
#ifndef CORE_DATA_NOTICES_H
#define CORE_DATA_NOTICES_H

#include <stdatomic.h>

#include "core/data/dataset.h"
#include "core/data/keys.h"
#include "core/model/model.h"

struct data_notices {
    struct key_counts unread;
    int64_t untrained;       // answers that are marked as context
    int64_t special;         // special tokens that texts spell
    int64_t special_samples; // which have some
    bool plain;              // they stay text (data.special_tokens)
    size_t animations;       // different picture files of which only the first frame is read
};

// The parts of a sample that the model reads, as bits. Keys are counted even if it reads none.
enum data_parts {
    DATA_END = -2,      // the command uses neither it nor those that follow
    DATA_UNCHOSEN = -1, // the command does not use it
    DATA_PROMPT = 1,    // the messages up to the last question, and all pictures
    DATA_ANSWERS = 2,   // all messages
    DATA_CHOICES = 4
};

// Adds the sample's choices to the parts of it that are not used.
void data_notices_leave_choices(struct sample *s);
// Counts the special tokens in those parts.
void data_notices_texts(struct data_notices *n, const struct tokenizer *t, const struct sample *s,
                        int parts);
// A sentence; NULL past the last one. free() it.
char *data_notice(const struct data_notices *n, int index);
void data_notices_release(struct data_notices *n);

struct data_use {
    const struct dataset *data;
    const struct model *model;
    const struct settings *settings;
    int64_t count; // the first samples
    // The parts of a sample; may add to its `unread`. NULL: the prompt, without the choices.
    int (*parts)(void *self, struct sample *s);
    void *self;
    const atomic_bool *cancel; // ends it early, and the text says so; NULL: nothing does
};

// Reads the samples and the heads of their picture files; joins the sentences with "; ". NULL:
// there are none. free() it.
char *data_notices_read(const struct data_use *u);

#endif
