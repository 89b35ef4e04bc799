// core/interventions/effect.h -- what a change of the pass does to the answer: the change of its
// log-probability.
//
//   struct effect e;
//   effect_open(&e, env, p, from, passes, &hook, err);   // the hook listens, but changes nothing
//   effect_of(&e, &hook, &change, err); ...              // a pass with this change
//   effect_put(&e, r, "knockout"); effect_close(&e);
//
// Room core/interventions/: measurements that run the pass of an answer again with a change each.
// They leave nothing behind. Uses probes, positions and what they use.
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
    int64_t from;           // first row that any of the changes affects
    int64_t first, end;     // tokens of the answer whose log-probability counts
    double *before, *after; // [tokens of the answer] log-probabilities; after: of the newest pass
    int64_t done, all;      // passes
};

// Runs the pass without a change. `hook` listens where those of the changes do, so that both passes
// compute in the same way (latent attention has two), and their difference is that of the change
// alone. `passes`: how many changes will be tried, for the progress. --token N selects a token.
int effect_open(struct effect *e, const struct probe_env *env, struct passing *p, int64_t from,
                int64_t passes, const struct hook *hook, struct err *err);
// Sets *change to the log-probability of the selected tokens under the change, minus the one
// without it.
int effect_of(struct effect *e, const struct hook *hook, double *change, struct err *err);
// Adds the table NAME of both log-probabilities, and NAME.tokens of each token of the answer, for
// the newest pass.
void effect_put(const struct effect *e, struct results *r, const char *name);
// Notes the layers that were chosen, but whose attention no pass could change.
void effect_note_layers(const struct effect *e, struct results *r, const bool *layers,
                        const bool *reached);
void effect_close(struct effect *e);

#endif
