// core/interventions/effect.h -- measures how an intervention in the pass changes the answer's
// log-probability.
//
//   struct effect e;
//   effect_open(&e, env, p, from, passes, &hook, err);   // the hook listens, but changes nothing
//   effect_of(&e, &hook, &change, err); ...              // a pass with this change
//   effect_put(&e, r, "knockout"); effect_close(&e);
//
// Room core/interventions/: measurements that rerun an answer's pass, each time with one change,
// and leave nothing behind. Uses probes, positions and the rooms that these use.
#ifndef CORE_INTERVENTIONS_EFFECT_H
#define CORE_INTERVENTIONS_EFFECT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"

struct hook;
struct passing;
struct probe_env;
struct results;

struct effect {
    const struct probe_env *env;
    struct passing *p;
    // First row and first layer that the next change affects. Rows should descend from change to
    // change: rows before them come from the cache (core/probes/passes.h).
    int64_t from;
    int layer;
    int64_t first, end; // tokens of the answer whose log-probability counts
    // [tokens of the answer] log-probabilities without a change, and in the latest pass.
    double *before, *after;
    int64_t done, all; // number of changes measured; number of passes, including the unchanged one
};

// Sets the range of the answer's tokens that --token selects: all, or one.
int effect_tokens(const struct probe_env *env, int64_t *first, int64_t *end, struct err *err);
// Runs the pass without a change. `hook` listens at the sites of the later changes, so that all
// passes take the same code path (latent attention has two) and differ only in the change.
// `passes`: number of changes to come, for the progress display.
int effect_open(struct effect *e, const struct probe_env *env, struct passing *p, int64_t from,
                int64_t passes, const struct hook *hook, struct err *err);
// Sets *change to the log-probability of the selected tokens with the change minus their
// log-probability without it.
int effect_of(struct effect *e, const struct hook *hook, double *change, struct err *err);
// Adds the table NAME with the log-probability without a change and in the latest pass, and the
// table NAME.tokens with both for each selected token.
void effect_put(const struct effect *e, struct results *r, const char *name);
// Adds a note that lists the chosen layers whose attention no pass could change.
void effect_note_layers(const struct effect *e, struct results *r, const bool *layers,
                        const bool *reached);
void effect_close(struct effect *e);

#endif
