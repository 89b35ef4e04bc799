// core/train/data_check.h -- checks a data set before training: finds the usable samples, their
// lengths, and problems.
//
//   struct data_check c;
//   if (data_check_run(&c, &dataset, model, settings, &options, &err) < 0) ...   // or stopped
//   for (int64_t i = 0; i < c.count; i++) if (c.samples[i].usable) ...           // train on i
//   data_check_release(&c);
//
// Samples are never truncated: one that is longer than the context is skipped whole.
#ifndef CORE_TRAIN_DATA_CHECK_H
#define CORE_TRAIN_DATA_CHECK_H

#include "core/base/hash.h"
#include "core/base/names.h"
#include "core/data/notices.h"

struct dataset;
struct image;
struct model;
struct settings;

enum data_problem {
    DATA_UNREADABLE,      // not a sample, or its rows cannot be made
    DATA_MARKS,           // "<image>" marks and pictures do not match
    DATA_PICTURE_MISSING, // no such file, or a URL that cannot be read
    DATA_PICTURE_BROKEN,  // not readable as a picture, or refused by the model
    DATA_TOO_LONG,        // longer than the context
    DATA_NO_ANSWER,       // no trained token
    DATA_SAME_ID,         // an earlier sample has this id (both may be used)
    DATA_PROBLEMS
};

const char *data_problem_name(enum data_problem problem);

struct data_finding {
    enum data_problem problem;
    int64_t index, line;
    char *id, *why; // id: as text, or "#INDEX"
};

struct data_sample {
    bool chosen;  // of a selected kind
    bool usable;  // chosen, and without problems except DATA_SAME_ID
    int32_t kind; // index in kinds.list
    int32_t answers, pictures;
    // Index of the first sample in the group of this one. A group holds the samples that share
    // pictures (equal bytes), directly or through other samples; a sample without pictures is a
    // group of its own.
    int64_t group;
    int32_t text, visual, trained; // numbers of tokens, valid if `counted`
    bool counted;
};

struct data_check {
    struct data_sample *samples; // [count], in the order of the data set
    int64_t count, chosen, usable;
    struct names kinds;
    struct data_finding *findings;
    size_t finding_count, finding_capacity;
    struct data_notices notices; // about the chosen samples; those about special tokens, only
                                 // about usable samples
    size_t picture_files;        // number of distinct paths of pictures
    struct names contents;       // SHA-256 of each picture that could be read
    char pictures[HASH_HEX];     // SHA-256 over sizes and bytes of the readable files
};

struct data_check_options {
    const char *const *kinds; // [kind_count] selected kinds; kind_count 0: all
    size_t kind_count;
    bool decode;   // decodes pictures, instead of reading headers only
    int64_t limit; // tokens of the context
    // With decode: called with each picture's pixels. The callback may take ownership; it then sets
    // *image to zero. May be NULL.
    void (*picture)(void *self, const char *path, size_t shown, struct image *image);
    // Called after each sample; false stops the check. May be NULL.
    bool (*report)(void *self, int64_t done, int64_t count);
    void *self;
};

int data_check_run(struct data_check *c, const struct dataset *d, const struct model *m,
                   const struct settings *s, const struct data_check_options *o, struct err *err);
void data_check_release(struct data_check *c);

#endif
