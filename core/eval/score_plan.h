// core/eval/score_plan.h -- a plan of scores: models, checkpoints, settings and seeds (rows) by
// evaluation sets (columns), from a file of lines or from a folder of sets.
//
//   # comment
//   set POPE: data/POPE.tsv --set pope --limit 500        DATA and options, as of /eval
//   sets data                                             all sets in a folder
//   row Vanilla: off                                      settings, as of /compare
//   row FastV: prune.score=attention prune.layer={early} adapter=runs/a-{seed}
//   row IRA: model=runs/ira ira.on=on                     a model of its own
//   row LoRA: runs/lora                                   the folder of an adapter or model
//   model 7B: llava-1.5-7b-hf                             every row without a model of its own
//   checkpoints runs/sft                                  every row as step 0, then per checkpoint
//   checkpoints IRA: runs/ira ira.on=on                   the row IRA; settings per checkpoint
//   seeds 1 2 3                                           every row with {seed}, for each seed
//   compare FastV | CAPA                                  reports the difference CAPA - FastV
//
// Rows of the same name are repetitions, such as seeds: tables show their mean. The table's
// differences are relative to the first row. Names, folders and words with spaces, ':' or
// '|' are put in double quotes.
//
// core/eval/score_sets.h says which files of a folder are sets.
#ifndef CORE_EVAL_SCORE_PLAN_H
#define CORE_EVAL_SCORE_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/names.h"
#include "core/engine/proposal.h"
#include "core/eval/score_sets.h"

struct score_row {
    char *name;
    char *model;  // folder; NULL: the job's
    char *words;  // settings, with {seed} replaced
    int64_t step; // of the checkpoint; 0: before training; -1: none
};

struct score_plan {
    struct score_sets sets;
    struct score_row *rows;
    struct score_compare {
        char *from, *to; // names of rows
    } * compares;
    size_t row_count, compare_count;
    size_t text; // bytes of the rows' texts, once multiplied
};

// Reads a plan from a file. limit: number of samples of each set without its own --limit; 0: all.
int score_plan_read(struct score_plan *p, const char *file, int64_t limit, struct err *err);
// Reads a plan from a text; messages call it `name`.
int score_plan_parse(struct score_plan *p, const char *text, const char *name, int64_t limit,
                     struct err *err);
// Makes a plan of the sets in a folder, or of a file of lines "set NAME: DATA OPTIONS". `settings`:
// rows, separated by "|"; NULL: one row, with the settings of the job.
int score_plan_of_sets(struct score_plan *p, const char *sets, const char *settings, int64_t limit,
                       struct err *err);
// Makes rows without sets: conditions of a measurement. Each of the `count` texts is SETTINGS or
// "NAME: SETTINGS"; in SETTINGS, FOLDER alone means adapter=FOLDER or model=FOLDER. Without texts,
// makes one row with the current settings. Repeats each row that names no model for each of
// `models`, each row as step 0 and for each checkpoint of `run`, a training run (NULL: none), and
// each row with {seed} for each of the seeds.
int score_plan_of_rows(struct score_plan *p, const char *const *texts, size_t count,
                       const struct names *models, const char *run, const struct names *seeds,
                       struct err *err);
// Applies a row's settings to those of `base`. Without base.env.model, placeholders such as {late}
// and the limits of the model are not checked. Appends to *notices (may be NULL) a line for each
// setting that was reset. The caller frees the result.
struct settings *score_row_settings(const struct score_row *r, const struct proposal *base,
                                    struct names *notices, struct err *err);
// Makes the settings of all rows, made[row_count], and opens the models that rows name. Appends a
// line for each setting that was reset to *notices. The caller frees the settings.
int score_plan_settings(const struct score_plan *p, const struct proposal *base,
                        struct settings **made, struct names *notices, struct err *err);
// Checks that the sets can be read, and applies the rows' settings to `settings`; `m`: the model of
// rows without a model of their own, or NULL (score_row_settings).
int score_plan_check(const struct score_plan *p, const struct settings *settings, struct model *m,
                     struct err *err);
void score_plan_release(struct score_plan *p);

#endif
