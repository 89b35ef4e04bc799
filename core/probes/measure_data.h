// core/probes/measure_data.h -- runs a probe over the samples of a data set (means and deviations).
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
    // File of boxes and masks of objects in the pictures of the data or the conversation
    // (core/probes/masks.h); NULL: none.
    const char *objects;
    bool boxes;    // uses the boxes of objects even if they have masks
    int64_t limit; // maximum number of samples
    bool given;    // uses the reference answers instead of generating answers
    // Called with the results of each measured sample. NULL: not called.
    void (*sample)(void *self, int64_t index, const struct results *one);
    void *self;
};

// Averages tables over samples, with deviations in NAME.std and 95% intervals in NAME.interval;
// kept tables have the rows of all samples. For a probe with a scalar, adds NAME.samples and the
// scalar's correlation with the scores of the generated answers. Emits progress.
int measure_data(const struct measuring *m, const struct measure_request *request,
                 const struct sinks *sinks, struct results *r, struct err *err);

#endif
