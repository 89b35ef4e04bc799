// core/data/dataset.h -- a file of samples: a JSON list (LLaVA, ShareGPT, messages) or JSON lines.
//
//   struct dataset d;
//   if (dataset_open(&d, "train.json", NULL, &err) < 0) ...
//   for (int64_t i = 0; i < d.count; i++) {
//       struct sample s;
//       if (dataset_read(&d, i, &s, &err) < 0) continue;   // this sample is invalid; err says why
//       ... s.dialogue.messages, s.dialogue.paths ...
//       sample_release(&s);
//   }
//   dataset_close(&d);
//
// Keeps only the file offsets of samples (24 bytes each); a sample is read from the file on
// request, by any thread. The file is untrusted.
//
// Room core/data/: data sets: samples, their dialogues and order, and notices about them. Uses
// base, picture, tokenizer, template and model.
#ifndef CORE_DATA_DATASET_H
#define CORE_DATA_DATASET_H

#include <cjson/cJSON.h>

#include "core/base/err.h"
#include "core/base/names.h"
#include "core/data/dialogue.h"

struct sample;

struct dataset_entry {
    uint64_t at, size; // bytes in the file
    int64_t line;      // line number, from 1
};

// Functions of another source of samples (core/sets/). dataset_read, dataset_picture and
// dataset_close call them with the data set's `self`, from any thread.
struct dataset_reader {
    int (*read)(void *self, int64_t index, struct sample *s, struct err *err);
    char *(*picture)(void *self, const char *name, size_t limit, size_t *size, struct err *err);
    void (*close)(void *self);
};

struct dataset {
    char *path, *folder; // folder: base of relative picture paths
    int file;
    bool lines; // JSON lines
    struct dataset_entry *entries;
    int64_t count;
    struct shots *shots;                 // examples in front of each sample; NULL: none
    const struct dataset_reader *reader; // NULL: a file of JSON samples
    void *self;                          // of the reader
};

struct sample {
    bool broken; // the sample is not JSON; of an evaluation set: its row cannot be read
    bool blind;  // the sample lacks the picture that its set requires
    int64_t index, line;
    char *id;          // as text; NULL when the sample has none
    char *kind;        // "kind", "type" or "category" of the sample; "" when it has none
    char *metric;      // the sample's metric, or NULL
    const char *suite; // suite whose scoring rule applies (core/sets/table.c), static; NULL: the
                       // metric's rule applies
    int lost;          // number of choices that the suite's prompt leaves out ("None")
    char *group;       // name that questions scored together share (MME: a picture); NULL: none
    int max_tokens;    // limit of the answer; 0: the setting applies
    char **choices;    // "choices" or "endings": texts to choose from
    size_t choice_count;
    bool endings; // the choices are "endings", which are ranked as texts, never as letters
    // Reference of the last question if the sample has one besides its turns: "answer", "answers",
    // "references", "captions", "caption" or "label" (a string, number or boolean, or a list of
    // these).
    char **references;
    size_t reference_count;
    char *unanswered; // why the sample has no reference; NULL: unknown
    char *repeats; // text that names the sample and an earlier one with the same id and question,
                   // of which only the earlier one counts; NULL: none
    int64_t repeated;         // with `repeats`: index of that earlier sample
    int right;                // index of the right choice, or -1
    struct dialogue dialogue; // all turns, answers included
    struct names unread;      // keys that nothing reads (core/data/keys.h)
};

// Checks that the file is readable and begins like a data set. Reads the first megabyte only: for
// the shell, before a job starts.
int dataset_check(const char *path, struct err *err);
// Scans the file once. `images`: base folder of relative paths; NULL: the folder of the file.
// Returns -1 if it is neither a complete JSON list nor JSON lines, or has no samples; dataset_read
// reports broken samples.
int dataset_open(struct dataset *d, const char *path, const char *images, struct err *err);
void dataset_close(struct dataset *d);
// Returns the sample's JSON (cJSON_Delete it); NULL if it is invalid or the file has changed. Only
// for data sets without a reader.
cJSON *dataset_json(const struct dataset *d, int64_t index, struct err *err);
// Reads a sample. Sets line and id even if it returns -1 for an error in the rest of the sample;
// release the sample in either case.
int dataset_read(const struct dataset *d, int64_t index, struct sample *s, struct err *err);
// Returns the bytes of the file of a picture that a sample names; free() them. NULL on error, or if
// there are more than `limit`.
char *dataset_picture(const struct dataset *d, const char *name, size_t limit, size_t *size,
                      struct err *err);
char *sample_kind(const cJSON *json); // "": none; the caller frees it
// Like dataset_read, for parsed JSON; `folder`: base of relative paths.
int sample_read(struct sample *s, const cJSON *json, const char *folder, struct err *err);
void sample_release(struct sample *s);

#endif
