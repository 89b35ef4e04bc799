// core/eval/score_sets.h -- the evaluation sets of a plan of scores (core/eval/score_plan.h).
//
//   struct score_sets s = { 0 };
//   if (score_sets_add(&s, "data", 500, &err) < 0) ...       // the sets in a folder
//   if (score_sets_line(&s, " POPE: data/POPE.tsv --set pope", 0, &err) < 0) ...
//   score_sets_release(&s);
//
// In a folder, files and folders that contain a set and have its name in theirs (or are named like
// its official file) are sets, and so are data sets that /eval reads without --set.
#ifndef CORE_EVAL_SCORE_SETS_H
#define CORE_EVAL_SCORE_SETS_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/names.h"
#include "core/eval/evaluate_job.h"

struct score_set {
    char *name, *text; // text: holds the words of argv
    char **argv;
    int argc;
    struct evaluate_options options; // borrows argv
};

struct score_sets {
    struct score_set *list;
    size_t count;
    struct names others; // entries of folders that are not sets
};

// Adds the sets of a folder, or of a file of lines "set NAME: DATA OPTIONS". limit: number of
// samples of each set without its own --limit; 0: all.
int score_sets_add(struct score_sets *s, const char *path, int64_t limit, struct err *err);
// Adds the set of a line "set NAME: DATA OPTIONS"; `text` follows the word "set".
int score_sets_line(struct score_sets *s, const char *text, int64_t limit, struct err *err);
void score_sets_release(struct score_sets *s);

// Texts of a plan's lines. The caller frees them.
char *plan_text(const char *file, struct err *err);   // of a whole file; NULL: unreadable
char *plan_trimmed(const char *text, size_t length);  // without white space around it
char *plan_unquoted(const char *text, size_t length); // and without double quotes
// Returns the number of characters before the first of `stops` that is outside double quotes.
size_t plan_until(const char *text, const char *stops);
// Splits a text at spaces outside double quotes, in place. Returns the number of words; the caller
// frees the list.
int plan_words(char *text, char ***argv);

#endif
