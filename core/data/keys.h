// core/data/keys.h -- finds keys of a sample that nothing reads, and turns excluded from training.
#ifndef CORE_DATA_KEYS_H
#define CORE_DATA_KEYS_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "core/base/mem.h"
#include "core/base/names.h"

// Returns true if a turn or sample is excluded from training: {"weight": 0} as in OpenAI's
// fine-tuning format, "loss", "train" or "training": false, "masked": true, and similar keys.
bool keys_untrained(const cJSON *turn);

// Adds, quoted, the unread keys of a sample or list of messages that may affect the prompt or the
// training ("reasoning_content", "tools", a "weight" of 0.5). Skips empty values and keys that only
// describe a sample ("source", "license").
void keys_unread(const cJSON *sample, struct names *unread);

// Adds, quoted, the keys of a row of an evaluation set that are neither in `read`, a list separated
// by spaces, nor harmless.
void keys_unread_row(const cJSON *row, const char *read, struct names *unread);

enum { KEYS_COUNTED = 32 };

// Counts the samples with each unread key.
struct key_counts {
    struct names keys;             // at most KEYS_COUNTED
    int64_t samples[KEYS_COUNTED]; // [keys.count]
    int64_t more;                  // samples with further keys
};

// Counts the keys of one sample. `other`: one more key, or NULL.
void key_counts_add(struct key_counts *c, const struct names *unread, const char *other);
// Returns "not used: "tools" (3 samples), ..."; NULL if all keys are read. free() it.
char *key_counts_text(const struct key_counts *c);
void key_counts_release(struct key_counts *c);

#endif
