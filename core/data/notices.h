// core/data/notices.h -- notices about a data set: unused keys, repeated samples, special tokens in
// its texts, animations. Every command counts them while it reads the samples.
//
//   struct data_notices n = data_notices_new(settings);
//   data_notices_sample(&n, tokenizer, &sample, DATA_PROMPT);     // as samples are read
//   data_notices_picture(&n, name, bytes, size);                  // and their pictures
//   char *text = data_notices_text(&n); // "not used: "tools" (3 samples); 1 picture file is ..."
//   data_notices_release(&n);
#ifndef CORE_DATA_NOTICES_H
#define CORE_DATA_NOTICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/names.h"
#include "core/data/keys.h"

struct dialogue;
struct picture;
struct sample;
struct settings;
struct tokenizer;

struct data_notices {
    struct key_counts unread;
    int64_t repeated;        // samples that repeat an earlier one, and are left out
    char *repeats;           // text about the first of them (sample.repeats); NULL: none
    int64_t untrained;       // answers excluded from training
    int64_t special;         // special tokens that texts spell
    int64_t special_samples; // samples with special tokens
    bool plain;              // special tokens stay text (data.special_tokens)
    struct names pictures;   // names of the pictures inspected
    struct names animations; // pictures with several frames; only the first frame is read
    struct names absent;     // kinds that were asked for, but no sample has
};

// The parts of a sample that the model reads, as bits; 0: none.
enum data_parts {
    DATA_PROMPT = 1,  // the messages up to the last question
    DATA_ANSWERS = 2, // all messages
    DATA_CHOICES = 4,
    DATA_UNUSED_CHOICES = 8 // the command reads no choices: they count as an unused key
};

struct data_notices data_notices_new(const struct settings *settings);
// Counts the sample's unused keys, and the special tokens and untrained answers in its `parts`.
void data_notices_sample(struct data_notices *n, const struct tokenizer *t, const struct sample *s,
                         int parts);
// Counts a sample that repeats an earlier one.
void data_notices_repeated(struct data_notices *n, const struct sample *s);
// Counts only the special tokens in the sample's `parts`.
void data_notices_texts(struct data_notices *n, const struct tokenizer *t, const struct sample *s,
                        int parts);
// Inspects a picture; counts each name in the data once.
void data_notices_picture(struct data_notices *n, const char *name, const void *bytes, size_t size);
// Inspects the first `count` pictures of a dialogue, which a conversation shows.
void data_notices_shown(struct data_notices *n, const struct dialogue *d, const struct picture *p,
                        size_t count);
// Notes that no sample of the data has a kind that was asked for.
void data_notices_absent(struct data_notices *n, const char *kind);
// Adds the pictures and animations of *from to those of *n.
void data_notices_same_pictures(struct data_notices *n, const struct data_notices *from);
// Returns a sentence on these kinds; NULL: none. free() it.
char *data_notices_absent_text(const struct data_notices *n);
// Returns a sentence; NULL past the last one. free() it.
char *data_notice(const struct data_notices *n, int index);
// Returns all sentences, joined with "; "; NULL if none. free() it.
char *data_notices_text(const struct data_notices *n);
void data_notices_release(struct data_notices *n);

#endif
