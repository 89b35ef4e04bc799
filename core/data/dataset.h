// core/data/dataset.h -- a file of samples: JSON list (LLaVA, ShareGPT, messages) or JSON lines.
//
//   struct dataset d;
//   if (dataset_open(&d, "train.json", NULL, &err) < 0) ...
//   for (int64_t i = 0; i < d.count; i++) {
//       struct sample s;
//       if (dataset_read(&d, i, &s, &err) < 0) continue;   // this sample is wrong; err says why
//       ... s.dialogue.messages, s.dialogue.paths ...
//       sample_release(&s);
//   }
//   dataset_close(&d);
//
// Only the places of the samples are held (24 bytes each); a sample is read from the file when it
// is asked for, by any thread. The file is untrusted.
//
// Room core/data/: data sets: samples, the dialogues in them, the order in which they are shown. It
// uses base and text.
#ifndef CORE_DATA_DATASET_H
#define CORE_DATA_DATASET_H

#include "core/data/dialogue.h"

struct dataset_entry {
    uint64_t at, size; // bytes in the file
    int64_t line;      // where it begins, from 1
};

struct dataset {
    char *path, *folder; // folder: where relative picture paths begin
    int file;
    bool lines; // JSON lines
    struct dataset_entry *entries;
    int64_t count;
};

struct sample {
    bool broken; // no JSON
    int64_t index, line;
    char *id;       // as text; NULL when the sample has none
    char *kind;     // "kind", "type" or "category" of the sample; "" when it has none
    char *metric;   // how its answer is scored; NULL
    char **choices; // "choices" or "endings": texts to choose from
    size_t choice_count;
    bool endings; // they came as "endings": texts, never letters
    // What the last question is scored against, when the sample says so beside its turns: "answer",
    // "answers", "references", "captions", "caption" or "label" (a text, a number, a list of them).
    char **references;
    size_t reference_count;
    int right;                // the choice it names by number, from 0; -1
    struct dialogue dialogue; // all turns, answers included
};

// Is it a file that can be read? For the shell, before there is a job.
int dataset_check(const char *path, struct err *err);
// Goes through the file once. `images`: where relative paths begin, NULL: the folder of the file.
// -1 when it is neither a JSON list nor JSON lines, was cut off, or holds no sample; one broken
// sample does not matter here.
int dataset_open(struct dataset *d, const char *path, const char *images, struct err *err);
void dataset_close(struct dataset *d);
// The sample's JSON (cJSON_Delete it), NULL: it is none, or the file has changed.
cJSON *dataset_json(const struct dataset *d, int64_t index, struct err *err);
// Line and id are filled (and must be released) even when -1 says what is wrong with the rest.
int dataset_read(const struct dataset *d, int64_t index, struct sample *s, struct err *err);
// The same for JSON at hand; `folder` as above.
int sample_read(struct sample *s, const cJSON *json, const char *folder, struct err *err);
void sample_release(struct sample *s);

#endif
