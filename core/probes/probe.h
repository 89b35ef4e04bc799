// core/probes/probe.h -- a probe: a measurement of a pass that leaves nothing changed.
//
// A probe is one constant struct in a file of core/probes/ or core/interventions/, with a line in
// core/lists.h; commands/probe.c turns each probe into a command. A probe reads a pass over a
// prompt and its answer (core/probes/measure.h) and returns tables and maps;
// core/probes/measure_data.h averages them over a data set.
//
// Most probes only read: they request the values of tensors (core/graph/readback.h), which arrive
// on the host while the pass continues. Interventions run passes of their own, with changes
// (core/probes/passes.h). core/probes/kit.h has what most probes need; it computes attention row by
// row and never materialises a matrix of queries by keys.
//
// Room core/probes/: measurements of a pass: tables and maps over pictures, dumps, calibration
// sums. Uses positions, talk, sets, methods, metrics, data, model and what they use.
#ifndef CORE_PROBES_PROBE_H
#define CORE_PROBES_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/graph/hooks.h"
#include "core/sets/source.h"

struct graph;
struct masks;
struct passing;
struct positions_env;
struct results;
struct site_args;

// Query rows to measure.
enum probe_token {
    PROBE_TOKEN_DEFAULT, // in options: the probe's choice; in struct probe: no query rows
    PROBE_TOKEN_ANSWER,  // the mean over all tokens of the answer
    PROBE_TOKEN_EACH,    // each token of the answer, with its own map
    PROBE_TOKEN_LAST,    // the prompt's last row, which predicts the first token
    PROBE_TOKEN_NUMBER,  // one token of the answer, counted from 0
    PROBE_TOKEN_ROW,     // one row of the sequence
};

enum { PROBE_LAYER_DEFAULT = -2, PROBE_LAYER_ALL = -1, PROBE_DIMS = 8, PROBE_SITES = 4 };
enum { PROBE_HEAD_MEAN = -1, PROBE_HEAD_EACH = -2 };

struct probe_options {
    int layer;   // 0.., or PROBE_LAYER_*
    int head;    // 0.., or PROBE_HEAD_*
    int picture; // -1: all; the first in /dice and /faithful
    enum probe_token token;
    int64_t number;           // the token of PROBE_TOKEN_NUMBER, the row of PROBE_TOKEN_ROW
    double threshold;         // attention above which a layer has a sink (/sink-ratio)
    bool pixels;              // former option of /dice: as dice.space pixels
    int dims[PROBE_DIMS];     // sink dimensions
    int dim_count;            // 0: the probe finds them
    const double *box;        // left, top, width, height in pixels of the picture; NULL: none
    const struct image *mask; // the picture's area at any size, bright on the object; NULL: none
    const char *words;        // the arguments before the first option, as typed; NULL: none
    const char *word;         // --word: the target of every position; NULL: none
    bool tuned;               // uses the maps of lens.calibration
    bool nearest;             // compares with text positions, not with the vocabulary
    const char *corpus;       // file of texts to compare with; NULL: the conversation
    // Of interventions (core/interventions/).
    const char *layers;          // list for positions_layers; NULL: all
    const struct masks *objects; // objects in the pictures, for `object NAME`; NULL: unknown
    bool object_boxes;           // uses the objects' boxes even if they have outlines
    bool heads;                  // also measures each head
    const char *at;              // part of a layer to patch; NULL: the residual stream
    bool tokens;                 // also measures each position
    bool zero, mean, resample;   // replacement of an ablated part; baseline of attribution
    // Layers in a window; 0: a fifth of all. In attribution: rows and columns of visual tokens in
    // an occluded square; 0: 1.
    int window;
    const char *by; // kinds of attribution, separated by commas; NULL: the default
    int steps;      // maximum number of points of integrated gradients; 0: the default
    // Folder of other pictures, which correct maps for sinks and replace regions in /faithful;
    // NULL: none.
    const char *others;
    // Of probes that answer again.
    int samples;        // answers to sample; 0: the probe's choice
    double temperature; // of these samples; 0: the probe's choice
};

// Default options.
extern const struct probe_options probe_defaults;

// Environment of a probe; must last until release.
struct probe_env {
    const struct model *model;
    const struct settings *settings;
    const struct backend *backend;
    const struct probe_options *options;
    const struct picture *pictures; // of the conversation
    size_t picture_count;
    const struct sequence *sequence; // rows before sequence->prompt are the prompt
    const bool *kept; // [S] visual tokens that pruning kept; NULL: none was dropped. Set at finish.
    // Chosen by options, else by the probe.
    int from, to;    // layers, the last included
    int32_t *query;  // [queries] query rows of the sequence, ascending
    int64_t queries; // 0: the probe uses none
    int token; // number in the first query's maps: of a token of the answer or, for LAST and ROW,
               // of a row; -1: mean of the answer
    // The visual tokens.
    int32_t *number; // [N] index of each row of the sequence among the visual tokens; -1: text
    int64_t visual;  // S
    // Resolves names of positions, for probes with `words` or `passes`.
    const struct positions_env *where;
    void *data; // returned by the probe's data_start; NULL: no data set, or no data_start
};

// The end of every measuring command's usage and details.
#define PROBE_USAGE                                                                          \
    " [SETTINGS | SETTINGS...] [--model M,...] [--checkpoints RUN] [--seeds N,...] [--data " \
    "FILE " SET_SOURCE_USAGE " [--images DIR] [--limit N] [--given]] [--csv FILE] [--figure FILE]"
#define PROBE_DETAILS                                                                           \
    "\nMeasures the current conversation with the current settings, or under each of several\n" \
    "conditions (SETTINGS | SETTINGS; /help compare), and changes nothing."

struct probe {
    // Its command (commands/command.h).
    const char *name;    // without the slash
    const char *also;    // synonyms of what it measures, for Ctrl-P and /help WORD
    const char *usage;   // "/NAME [--layer K]" PROBE_USAGE: the options named here are accepted
    const char *former;  // its former options, still accepted; NULL: none
    const char *help;    // one sentence
    const char *details; // further lines for /help NAME, and PROBE_DETAILS
    const struct result_kind *results; // describes its tables and maps; ended by a row without name
    // Measures a folder instead of the conversation. NULL: the command has no such argument.
    int (*folder)(const char *folder, const struct backend *backend,
                  const struct settings *settings, const struct picture *pictures, size_t count,
                  struct results *r, struct err *err);
    // Columns of a table that are correlated over its rows under several conditions; table NULL:
    // none.
    struct {
        const char *table, *columns[2];
    } correlate;
    // Checks the syntax of the words before the first option. NULL: the probe takes no words.
    int (*words)(const char *words, struct err *err);
    const char *const *complete; // the words, for completion; NULL: position_words
    bool numbered;               // the words are the number of an answer, from 1; NULL: the last
    bool pictures;               // needs visual tokens
    bool answer;                 // needs an answer
    bool answered;               // over a data set, questions are answered first
    const char *scalar;          // the table whose first number represents a sample; NULL: none
    bool encoder;                // listens while pictures are encoded
    bool times;                  // also times the pass, with and without the methods
    enum { EVERY_LAYER, MIDDLE_LAYER, LAST_LAYER } layers; // without --layer
    bool one_layer;                                        // --layer all is refused
    bool each_head;                                        // --head each is accepted
    bool attends; // measures attention: skips layers without it, and refuses them in --layer
    enum probe_token token; // without --token; ANSWER becomes LAST if there is no answer
    void *(*start)(const struct probe_env *env, struct err *err); // NULL on failure
    void (*release)(void *state);
    const struct site *sites[PROBE_SITES]; // where it listens, in the chosen layers
    // Returns true if it listens at this site and layer; replaces `sites`. NULL: `sites` decides.
    bool (*wants)(void *state, const struct site *site, int layer);
    // `take` receives x of each site on the host (struct hook); `run`, if any, replaces it.
    readback_fn take;
    int (*run)(void *state, struct graph *g, const struct site *site, struct site_args *args);
    // Runs passes of its own (core/probes/passes.h), in place of take, run, sites and wants. NULL:
    // the probe listens to one pass.
    int (*passes)(void *state, struct passing *p, struct err *err);
    // Runs further passes after the one to which it listened (core/probes/passes.h). NULL: none.
    int (*after)(void *state, struct passing *p, struct err *err);
    int (*finish)(void *state, struct results *r, struct err *err);
    // Collect results over a data set beyond the means of the samples' results, or keep what all
    // samples share (probe_env.data). NULL: not needed.
    void *(*data_start)(void);
    void (*data_add)(void *data, const void *state);    // after `finish` of a sample; or NULL
    void (*data_finish)(void *data, struct results *r); // adds its tables, and frees `data`
};

// All probes, ended by NULL, in display order; they must last as long as the program.
void probes_register(const struct probe *const *all);
const struct probe *probe_at(int index); // NULL past the end

#endif
