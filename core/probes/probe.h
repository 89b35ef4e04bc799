// core/probes/probe.h -- a measurement: something that reads what passes and changes nothing.
//
// A probe is one file core/probes/NAME.c with one constant struct and a line in
// core/lists.h: commands/probe.c makes a command of each. It sees one pass over a prompt and
// its answer (core/probes/measure.h) and says what it found as tables and maps; whoever measures a
// data set takes the means.
//
// A hook of a probe only reads: it looks at tensors (core/graph/look.h), whose numbers come to the
// host while the pass goes on. Probability matrices of queries by keys are never written out:
// probe_look_queries (core/probes/rows.h) computes single rows.
//
// Room core/probes/: what looks at a pass and measures: tables and maps over pictures, dumps, the
// sums of calibrations. It uses talk, methods, metrics, data, model and what they use.
#ifndef CORE_PROBES_PROBE_H
#define CORE_PROBES_PROBE_H

#include "core/graph/hooks.h"
#include "core/model/families/family.h"
#include "core/model/model.h"
#include "core/probes/results.h"
#include "core/settings/settings.h"
#include "core/text/message.h"

// Which query rows are meant.
enum probe_token {
    PROBE_TOKEN_DEFAULT, // the probe's choice
    PROBE_TOKEN_ANSWER,  // all tokens of the answer, mean
    PROBE_TOKEN_LAST,    // the prompt's last row: what chooses the first token
    PROBE_TOKEN_NUMBER,  // one token of the answer, from 0
    PROBE_TOKEN_ROW,     // one row of the sequence
};

enum { PROBE_LAYER_DEFAULT = -2, PROBE_LAYER_ALL = -1, PROBE_DIMS = 8 };

struct probe_options {
    int layer;   // 0.., or PROBE_LAYER_*
    int head;    // -1: mean
    int picture; // -1: all
    enum probe_token token;
    int64_t number;           // of PROBE_TOKEN_NUMBER, PROBE_TOKEN_ROW
    double threshold;         // of attention sinks
    int dims[PROBE_DIMS];     // sink dimensions
    int dim_count;            // 0: found
    const double *box;        // left, top, width, height in pixels of the picture; NULL: none
    const struct image *mask; // as large as the picture, bright where the thing is; NULL: none
};

// What there is to start with before anyone chose.
extern const struct probe_options probe_defaults;

// What a probe is started with; all of it lasts until release.
struct probe_env {
    const struct model *model;
    const struct settings *settings;
    const struct backend *backend;
    const struct probe_options *options;
    const struct picture *pictures; // of the conversation
    size_t picture_count;
    const struct sequence *sequence; // rows up to sequence->prompt are the prompt
    const bool *kept; // [S] visual tokens that pruning left; NULL: none was dropped. At finish.
};

// What every measuring command has at the end of its usage, and of its details.
#define PROBE_USAGE " [--data FILE [--images DIR] [--limit N] [--given]] [--csv FILE] [--png FILE]"
#define PROBE_DETAILS                                                                           \
    "\nOf the conversation as it stands, under the settings of now; nothing of it changes.\n"   \
    "--data takes the samples of a file (100 unless --limit says otherwise): means, and\n"      \
    "deviations in NAME.std; --given takes the data's answers into the pass. --csv and --png\n" \
    "write files and replace those that are there; of several tables each goes to\n"            \
    "FILE-TABLE.csv, maps to FILE-maps.csv."

struct probe {
    // Its command (commands/command.h).
    const char *name;    // without the slash
    const char *usage;   // "/NAME [--layer K]" PROBE_USAGE: the options it names are its options
    const char *help;    // one sentence
    const char *details; // further lines for /help NAME, and PROBE_DETAILS
    // What a word without an option is: a folder to measure in place of the conversation. NULL:
    // there is none.
    int (*folder)(const char *folder, const struct backend *backend,
                  const struct settings *settings, const struct picture *pictures, size_t count,
                  struct results *r, struct err *err);
    // Words without an option may be checkpoints instead: adapter or model folders that are
    // measured one after the other (core/probes/checkpoints.h). These columns of this table are set
    // beside each other, two of them are correlated; `scalar` is needed. table NULL: no series.
    struct {
        const char *table, *columns[2];
    } series;
    bool pictures;      // there must be visual tokens
    bool answer;        // there must be an answer
    bool answered;      // over a data set the questions are answered first
    const char *scalar; // the table whose first number is the one of a sample; NULL: none
    bool encoder;       // listens while pictures are encoded
    bool times;         // whoever measures times the pass too, with and without the methods
    void *(*start)(const struct probe_env *env, struct err *err); // NULL on failure
    void (*release)(void *state);
    bool (*wants)(void *state, enum site site, int layer);
    int (*run)(void *state, struct graph *g, enum site site, struct site_args *args);
    int (*finish)(void *state, struct results *r, struct err *err);
};

// All probes, NULL behind the last, in the order in which they are shown; they live as long as the
// program.
void probes_hand_over(const struct probe *const *all);
const struct probe *probe_at(int index); // NULL past the end

#endif
