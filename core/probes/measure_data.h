// core/probes/measure_data.h -- runs a probe over the samples of a data set (means and deviations),
// or over checkpoints.
#ifndef CORE_PROBES_MEASURE_DATA_H
#define CORE_PROBES_MEASURE_DATA_H

#include "core/base/err.h"
#include "core/base/event.h"
#include "core/probes/probe.h"
#include "core/probes/results.h"
#include "core/sets/source.h"

struct measuring;

struct measure_request {
    const struct probe *probe;
    struct probe_options options;
    struct set_source set; // data NULL: the current conversation
    const char *objects; // file of boxes and masks of the data's pictures (core/probes/masks.h); or
                         // NULL
    bool boxes;          // uses the objects' boxes even if they have outlines
    int64_t limit;       // maximum number of samples
    bool given;          // uses the reference answers instead of generating answers
    const char *const *checkpoints; // [checkpoint_count] for a probe with a series; 0: the current
                                    // model
    size_t checkpoint_count;
};

// Averages tables over samples, with deviations in NAME.std; kept tables have the rows of all
// samples. For a probe with a scalar, adds NAME.samples and the scalar's correlation with the
// scores of the generated answers. Emits progress.
int measure_data(const struct measuring *m, const struct measure_request *request,
                 const struct sinks *sinks, struct results *r, struct err *err);

// A measurement over the checkpoints of a training run: results side by side, and the correlation
// of two result columns over layers and checkpoints (IRA's paper).
//
//   struct checkpoints s = { .probe = probe };
//   for (...) checkpoints_add(&s, "out/checkpoint-40", &measured);
//   checkpoints_finish(&s, &results);            // and releases
struct checkpoints {
    const struct probe *probe; // one with a series
    struct checkpoint_found {
        char *name;
        struct results results;
    } * list;
    size_t count;
};

// Takes ownership of the content of `r`.
void checkpoints_add(struct checkpoints *s, const char *name, struct results *r);
// Adds the tables NAME.checkpoints (the probe's totals by checkpoint), NAME.COLUMN (layers by
// checkpoints), and NAME.correlation if the series has two columns.
void checkpoints_finish(struct checkpoints *s, struct results *r);

#endif
