// core/papers/paper.h -- published tables: their numbers, the commands that produce ours, and the
// rule that judges them.
//
//   const struct paper *p = paper_find("capa", &err);
//   const struct paper_table *t = paper_table_find(p, "table1", &err);
//   char *plan = paper_expand(t->plan, values, &err);     // lines of commands
//   ... run them; they leave scores/scores.csv, scores/compare.csv, measured.csv or curves.csv in a
//   folder ...
//   struct paper_results r;
//   if (paper_results_read(&r, t, "L", false, folder, &err) < 0) ...
//   paper_layout(&r, &csv);            // the published table, ours beside it
//   enum paper_verdict v = paper_judge(&r, &claims);
//   paper_results_release(&r);
//
// A new paper is a file core/papers/NAME.c with `const struct paper paper_NAME`, and a line of
// core/papers/list.h; a table or figure is a row of its `tables`.
//
// Room core/papers/: published tables and how to reproduce them. Uses base.
#ifndef CORE_PAPERS_PAPER_H
#define CORE_PAPERS_PAPER_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/csv.h"
#include "core/base/err.h"

// A column of the published table, and the source of our numbers, `ours`: a set of the plan of
// scores, or a column of measured.csv, with the interval in the columns "NAME low" and "NAME high",
// or the standard deviation over "n" samples in "NAME std"; the column "row" or "condition" names
// its rows. If several rows (layers) have the same name, their mean counts; "NAME, first third"
// (middle, last) is the mean of those layers alone. In curves.csv (/plot RUN... SERIES --csv), a
// column is a series and rows are runs; the mean of all steps counts. ours NULL: not measured.
struct paper_column {
    const char *name, *ours;
    const char *demo; // with --demo replaces `ours`
    double scale;     // factor from our unit to the paper's; 0: 1
};

// A claim of the paper about one column of our numbers.
struct paper_claim {
    const char *text;
    const char *from, *to;     // rows: `to` is above `from`
    const char *column, *demo; // our column; demo: the one with --demo, NULL: the same
    bool less;                 // `to` is below `from`
    double margin;             // `to` may be worse by that much
    bool percent;              // the difference is relative to `from`, in percent
    double equal;        // from NULL: `to` differs from the paper's number by at most this share
    const char *against; // from NULL: row `to` is higher in `column` than in this column
    double above;        // from, against NULL, equal 0: `to` is above this number
};

// An interpretation, other than the default, of a detail that a paper leaves open and that changes
// its numbers: /paper --readings repeats a table with each.
struct paper_reading {
    const char *name;
    const char *title;    // a heading, such as "Eq. 14 as printed"
    const char *settings; // the commands that replace ${READING} in a plan
    const char *tables;   // tables that it can change, separated by spaces; NULL: all that have
                          // ${READING} in their plan
    bool shares;          // it changes no training run: those of OUT serve it, too
};

// No paper says how a step averages the losses of its samples.
#define PAPER_TOKEN_LOSS                                            \
    {                                                               \
        .name = "token-loss", .title = "loss averaged over tokens", \
        .settings = "/set train.loss tokens\n"                      \
    }

// Commands that draw a demo's scenes.
#define PAPER_DEMO_WORLD "/reset all\n/set job.nice 0\n/scenes 200 ${OUT}/world --seed 2 --once\n"

// Commands that make training data and, in OUT/base, the demo model with a new connector, like
// models that the papers join from an encoder and a language model.
#define PAPER_DEMO_BASE                                          \
    PAPER_DEMO_WORLD                                             \
    "/scenes 3000 ${OUT}/train --seed 7 --once\n"                \
    "/set compute.matmul bf16\n"                                 \
    "/set train.checkpointing off\n"                             \
    "/set train.batch 16\n"                                      \
    "${READING}"                                                 \
    "/new --like demo ${OUT}/random --seed 7 --once\n"           \
    "/load ${OUT}/random\n"                                      \
    "/set train.method connector\n"                              \
    "/set train.lr 0\n"                                          \
    "/set train.steps 1\n"                                       \
    "/train ${OUT}/train/questions.json ${OUT}/blank --resume\n" \
    "/wait\n"                                                    \
    "/load ${MODEL}\n"                                           \
    "/adapter load ${OUT}/blank\n"                               \
    "/adapter merge ${OUT}/base --once\n"                        \
    "/adapter unload\n"
// Commands that make training data for the model of --small.
#define PAPER_SMALL_WORLD                                               \
    PAPER_DEMO_WORLD                                                    \
    "/scenes 3000 ${OUT}/train --seed 7 --once\n"                       \
    "/scenes 40 ${OUT}/choose-lessons --seed 3 --kind lessons --once\n" \
    "/set compute.matmul bf16\n"                                        \
    "/set train.checkpointing off\n"                                    \
    "/set train.batch 8\n"                                              \
    "${READING}"
// The commands of PAPER_DEMO_BASE, and commands that train the connector (stage 1) and write the
// model to OUT/start.
#define PAPER_DEMO_START                                      \
    PAPER_DEMO_BASE                                           \
    "/load ${OUT}/base\n"                                     \
    "/set train.lr 2e-3\n"                                    \
    "/set train.steps ${STEPS}\n"                             \
    "/train ${OUT}/train/dense.json ${OUT}/stage1 --resume\n" \
    "/wait\n"                                                 \
    "/adapter load ${OUT}/stage1\n"                           \
    "/adapter merge ${OUT}/start --once\n"                    \
    "/adapter unload\n"                                       \
    "/load ${OUT}/start\n"

struct paper_table {
    const char *name, *title;
    const char *also;  // other names, separated by spaces: figures of the same numbers; NULL: none
    const char *needs; // inputs that the user must provide
    const char *variants; // models of the paper, "L LLaVA-1.5-7B|Q Qwen2.5-VL-7B"; NULL: one
    const struct paper_column *columns; // ended by a row without a name
    const char *published;              // lines "VARIANT|ROW|NUMBER|..."; VARIANT "": all variants
    // Commands with ${MODEL}, ${OUT}, ${TABLE}, ${SETS}, ${DATA1} to ${DATA3}, ${LIMIT}, ${STEPS},
    // ${BASE} (the model before training), ${TEXTS} (the folder of text-only questions), ${READING}
    // (the commands of a reading, "" for the default).
    // The text from ${each} to ${end} is repeated for each of several models; elsewhere ${MODEL} is
    // the first model. All tables share OUT, and one table may reuse another table's training
    // runs, so the same file name must come from the same commands. TABLE is the table's own
    // folder.
    const char *plan, *demo;
    const char *rows;  // of a plan of scores (core/eval/score_plan.h), run after the commands as
                       // TABLE/scores.plan; NULL: none. The sets are those in ${SETS}, or
                       // with --demo some of the demo world
    const char *after; // commands after the scores; NULL: none
    const struct paper_claim *claims; // ended by a row without a text
    const char *note;                 // NULL: none
    bool small;                       // its demo trains the model of --small and needs this option
};

struct paper {
    const char *name, *title;
    const struct paper_table *tables;     // ended by a row without a name
    const struct paper_reading *readings; // ended by a row without a name; NULL: none
};

extern const struct paper *const papers[]; // ended by NULL
const struct paper *paper_find(const char *name, struct err *err);
const struct paper_table *paper_table_find(const struct paper *p, const char *name,
                                           struct err *err);
// Returns whether a reading can change a table's numbers.
bool paper_reading_matters(const struct paper_reading *reading, const struct paper_table *t);
// Returns the name of a variant as published ("LLaVA-1.5-7B") for its key or name, or the first for
// NULL ("" if the table has no variants); *key: its key. The caller frees both. NULL with a message
// that lists the variants.
char *paper_variant(const struct paper_table *t, const char *name, char **key, struct err *err);

// Replaces each ${NAME} with its value, and repeats the text from ${each} to ${end} for each part
// of the value of MODEL, which commas separate. `values`: pairs of NAME and VALUE, ended by NULL.
// If a NAME is not in `values`, or its VALUE is NULL, returns NULL and sets the message to the
// NAME.
char *paper_expand(const char *text, const char *const *values, struct err *err);
// Makes the text of the plan of scores, with a comparison for each claim that names two rows; the
// caller frees it.
char *paper_scores_plan(const struct paper_table *t, bool demo, const char *const *values,
                        struct err *err);

struct paper_results {
    const struct paper_table *table;
    char *variant; // key
    bool demo;
    struct csv scores, compared, measured, curves; // empty: the file does not exist
    double *last_layers; // [measured.row_count] the last layer of the row's model; -1: none
};

int paper_results_read(struct paper_results *r, const struct paper_table *t, const char *variant,
                       bool demo, const char *folder, struct err *err);
void paper_results_release(struct paper_results *r);
void paper_layout(const struct paper_results *r, struct csv *to);

enum paper_verdict { VERDICT_SHOWN, VERDICT_PARTLY, VERDICT_OPPOSITE, VERDICT_NOT_MEASURABLE };
extern const char *const paper_verdicts[]; // their words
extern const char paper_rule[];            // explains how a verdict is found
// Adds a row for each claim: claim, paper, here, verdict.
enum paper_verdict paper_judge(const struct paper_results *r, struct csv *claims);
// Adds the claims of one reading as a column `title` of *to; the first call adds the default's.
// Once all readings are there, paper_readings_close adds a column that says which claims keep their
// verdict under all of them.
void paper_readings_add(struct csv *to, const char *title, const struct csv *claims,
                        enum paper_verdict verdict);
void paper_readings_close(struct csv *to);

#endif
