// core/probes/measure_data.h -- a probe over the samples of a data set: means and deviations.
#ifndef CORE_PROBES_MEASURE_DATA_H
#define CORE_PROBES_MEASURE_DATA_H

#include "core/base/event.h"
#include "core/probes/measure.h"

struct measure_request {
    const struct probe *probe;
    struct probe_options options;
    const char *data;               // NULL: the conversation as it stands
    const char *images;             // where the data's relative paths begin; NULL: its folder
    const char *objects;            // boxes and masks of its pictures (core/scenes/scenes.h); NULL
    int64_t limit;                  // samples at most
    bool given;                     // the data's own answers, none is generated
    const char *const *checkpoints; // [checkpoint_count] of a probe with a series; 0: as it stands
    size_t checkpoint_count;
};

// Tables are means over samples, NAME.std beside them. With a probe's scalar also NAME.samples, and
// how it goes with the score of the generated answers. Progress goes to the sinks.
int measure_data(const struct measuring *m, const struct measure_request *request,
                 const struct sinks *sinks, struct results *r, struct err *err);

#endif
