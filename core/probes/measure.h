// core/probes/measure.h -- one pass over a conversation with a probe listening.
//
//   struct measuring m = { model, backend, settings, tensors, cancel, &options };
//   struct results r = { 0 };
//   if (measure(&m, &conversation, &probe_norms, &r, &err) < 0) ...
// Runs prompt and answer with the methods of the settings, in separate memory: leaves the
// conversation unchanged and uses no cached keys.
#ifndef CORE_PROBES_MEASURE_H
#define CORE_PROBES_MEASURE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "core/base/err.h"
#include "core/methods/method.h"

struct conversation;
struct probe;
struct results;
struct sinks;
struct sequence;

struct measuring {
    const struct model *model;
    const struct backend *backend;
    const struct settings *settings;
    struct method_tensors tensors; // of the adapter
    const atomic_bool *cancel;
    const struct probe_options *options;
    const struct sinks *sinks; // for the progress of probes that run many passes; NULL: none
    void *data;                // returned by the probe's data_start; NULL: none
};

// Adds the results to *r. After a failure, *r may have some of them.
int measure(const struct measuring *m, struct conversation *c, const struct probe *probe,
            struct results *r, struct err *err);

// Makes the rows of prompt and answer; sequence->prompt is the start of the answer (n: no answer).
int measure_sequence(struct conversation *c, const struct settings *s, struct sequence *sequence,
                     struct err *err);

// Adds the table "times": medians of a few runs, with every method off and with the settings.
int measure_compare_times(const struct measuring *m, struct conversation *c, struct results *r,
                          struct err *err);

// Returns a copy of the settings with every method off.
struct settings *measure_without_methods(const struct settings *s);

// Returns a hook that fails a pass in which a layer computes NaN or Inf, so that probes do not
// measure it; add it after the methods' hooks.
struct hook finite_hook(void);

#endif
