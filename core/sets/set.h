// core/sets/set.h -- the evaluation sets of the papers, and how each suite prompts and scores them.
//
//   const struct eval_set *set = eval_set_need("pope", &err);
//   const struct set_way *way = eval_set_way(set, "lmms-eval", &err);   // NULL: the default way
//   struct dataset data;
//   if (eval_set_open(&data, set, way, "POPE.tsv", NULL, NULL, &err) < 0) ...
//   ... dataset_read(&data, 3, &sample, &err): one question with the way's prompt and metric ...
//   dataset_close(&data);
//
// To add a set: add a row with prompts (core/sets/prompt.h) and a metric to core/sets/table.c, and
// a small sample file to tests/core/sets/. /eval, /help sets and the documentation read the table.
//
// Room core/sets/: reads published evaluation sets in their download formats. Uses data, metrics
// and what they use.
#ifndef CORE_SETS_SET_H
#define CORE_SETS_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/sets/prompt.h"

struct buf;
struct dataset;
struct sample;
struct set_record;
struct settings;

// How a suite prompts and scores a set.
struct set_way {
    const char *suite; // such as "llava", "lmms-eval", "vlmevalkit"
    // Writes the question of a record; NULL ends a set's ways.
    void (*ask)(struct set_record *r, struct buf *to);
    const char *prompt; // `ask` in words
    int max_tokens;     // of an answer
    const char *metric;
    const struct set_total *total; // score of the whole set; NULL: only the metric's
    const char *source;            // the suite's file that defines the prompt or the rule
    enum prompt_lost lost;         // choices that the prompt leaves out
    enum set_marks marks;          // how marks such as "<image 1>" in a question are treated
    const char *before, *after;    // texts before and after the output of `ask`; NULL: none
};

enum { SET_WAYS = 6 };

struct eval_set {
    const char *name, *title;
    const char *files;   // names of the downloaded files
    const char *pattern; // of official files whose names do not contain the set's; NULL: none
    const char *hub;     // split of a data set on the hub, or CONFIGURATION/SPLIT, that lmms-eval's
                         // task reads; NULL: unknown
    const char *kind;    // key of a record that groups the totals, or alternatives ("type split");
                         // NULL: "category", "": none
    const char *group;   // how questions are joined (group_of in set.c): "picture" (MME's pairs),
                         // "rotation", "figure", "split"; NULL: not
    const char *needs;   // key that every record must have; NULL: "question", "": none
    bool any;            // reads any file, with the user's columns
    bool plain;          // includes questions without a picture
    bool boxes;          // answers are boxes; references include the picture's size
    struct set_way ways[SET_WAYS + 1]; // the first is the default
};

extern const struct eval_set eval_sets[]; // ended by a row without a name

const struct eval_set *eval_set_need(const char *name, struct err *err);
// suite NULL: the set's default. NULL with a message if the suite does not have the set.
const struct set_way *eval_set_way(const struct eval_set *set, const char *suite, struct err *err);

// Writes the whole prompt of a record.
void set_way_ask(const struct set_way *way, struct set_record *r, struct buf *to);

// Sets sample.max_tokens of *to to the answer length of the evaluation set of s. Leaves *to
// unchanged if s has no such length, or if the user has set a value in `own` that is not larger.
void eval_set_limit_answers(struct settings *to, const struct settings *own,
                            const struct sample *s);

// Checks that the file has a known format, before a job starts. `columns`: the user's names
// (core/sets/columns.h); NULL: the sets' own.
int eval_set_check(const char *path, const char *columns, struct err *err);
// `images`: folder of pictures; NULL: the folder of the file.
int eval_set_open(struct dataset *d, const struct eval_set *set, const struct set_way *way,
                  const char *path, const char *images, const char *columns, struct err *err);
// Returns the SHA-256 of the file, or one over the hashes of several files. NULL if the caller must
// hash the file, or if no set is open.
const char *eval_set_hash(const struct dataset *d);
// Reads the record of a sample, for submissions. -1 also if no set is open.
int eval_set_record(const struct dataset *d, int64_t index, struct set_record *r, struct err *err);

#endif
