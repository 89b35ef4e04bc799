// core/eval/compare_results.h -- comparison results as tables, shown and stored.
//
//   struct results r = { 0 };
//   compare_results(&r, (const char *const[]){ "off", "prune.score=contribution" }, &comparison);
//   results_show(&r, sinks);
//   compare_results_steps(&r, &comparison);   // every step: stored, not shown
//   results_release(&r);
#ifndef CORE_EVAL_COMPARE_RESULTS_H
#define CORE_EVAL_COMPARE_RESULTS_H

struct compared_data;
struct comparison;
struct preset_values;
struct results;
struct settings;

// Makes the title of a side: the typed words (`said` has the settings that they name), then the
// other active methods in brackets. The caller frees it.
char *compare_title(const char *words, const struct preset_values *said, const struct settings *s);

// Adds both answers side by side, and the tables "compare" (what | A | B | B/A) and
// "compare.distance".
void compare_results(struct results *r, const char *const title[2], const struct comparison *c);
// Returns one sentence that says what the comparison found; the caller frees it.
char *compare_conclusion(const struct comparison *c);
// Adds the table "compare.steps": distance and ids of the most likely tokens.
void compare_results_steps(struct results *r, const struct comparison *c);

// Adds the same tables for a data set, and notes: the titles of the sides, notices about the data.
// Adds "compare.steps", the mean distance by step, if an answer has several.
void compare_data_results(struct results *r, const char *const title[2],
                          const struct compared_data *d);
// Returns the notices about the data (core/data/notices.h), once if both sides have the same. NULL:
// none; the caller frees it.
char *compare_data_notices(const struct compared_data *d);
// Adds the table "compare.questions": scores and distances.
void compare_data_results_questions(struct results *r, const struct compared_data *d);

#endif
