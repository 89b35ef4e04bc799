// core/sets/source.h -- the source of samples: a data set, or the downloaded files of an evaluation
// set; and its options, which all commands that read data share.
//
//   struct mine { struct set_source set; };
//   ... SET_SOURCE_OPTIONS(struct mine, set, "treats the data as ...") among its rows ...
//   if (set_source_find(&mine.set, &err) < 0) ...          // names and paths
//   if (set_source_open(&mine.set, &dataset, &err) < 0) ...
//   set_source_release(&mine.set);
#ifndef CORE_SETS_SOURCE_H
#define CORE_SETS_SOURCE_H

#include <stdbool.h>

#include "core/base/err.h"
#include "core/base/hash.h"
#include "core/base/options.h"

struct dataset;
struct eval_set;
struct set_way;

// Texts are borrowed.
struct set_source {
    const char *data, *images;   // images NULL: the data's folder
    const char *name, *suite;    // of --set and --rule; NULL: not given
    const char *columns;         // of an evaluation set, as the user names them; NULL: its own
    const char *shots;           // file of examples in front of each sample; NULL: none
    const struct eval_set *kind; // NULL: a data set
    const struct set_way *way;   // of the evaluation set
    char *found;                 // path of `data`, owned by the options; NULL: not searched yet
    bool cached;                 // it is in the hub cache
};

#define SET_SOURCE_USAGE "[--set NAME [--rule SUITE] [--columns NAME=COLUMN,...]]"
// Option rows for `field`, a struct set_source in the struct `type`; set_help: the help of --set.
#define SET_SOURCE_OPTIONS(type, field, set_help)                                                  \
    { "--set", "NAME", set_help, OPTION_TEXT, .at = offsetof(type, field.name) },                  \
        { "--rule", "SUITE",                                                                       \
          "with --set: the suite whose prompts and rules apply (lmms-eval, vlmevalkit, llava "     \
          "...)",                                                                                  \
          OPTION_TEXT, .at = offsetof(type, field.suite) },                                        \
        { "--as", "SUITE", NULL, OPTION_TEXT, .at = offsetof(type, field.suite), .former = true }, \
    {                                                                                              \
        "--columns", "NAME=COLUMN,...",                                                            \
            "with --set: the columns that hold id, question, answer, picture, choices, A, B ..., " \
            "hint or subset, if their names differ from the set's",                                \
            OPTION_TEXT, .at = offsetof(type, field.columns)                                       \
    }

// Sets name, suite, data and images from SET[/SUITE]:FILE[:DIR], which it cuts and which must
// outlive *s; false: the text has no colon. A file whose name has a colon needs no DIR.
bool set_source_split(struct set_source *s, char *text);
// Sets kind and way, and replaces a name in the hub cache (org/name) with the path of its file.
// Returns -1 also if an option is given without another that it needs.
int set_source_find(struct set_source *s, struct err *err);
void set_source_release(struct set_source *s);
// Checks that the file begins like its kind of data; reads its beginning only.
int set_source_check(const struct set_source *s, struct err *err);
int set_source_open(const struct set_source *s, struct dataset *d, struct err *err);
// Looks at the first few samples of open data: one of them must be readable, and the first picture
// must be where the data says. *pictures: one of them has a picture.
int set_source_check_picture(const struct dataset *d, bool *pictures, struct err *err);
// SHA-256 of the open data.
int set_source_hash(const struct dataset *d, char hex[HASH_HEX], struct err *err);

#endif
