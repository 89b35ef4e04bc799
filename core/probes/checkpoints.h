// core/probes/checkpoints.h -- a measurement over the checkpoints of a training run: results side
// by side, and the correlation of two of its columns over layers and checkpoints (methods page,
// section 4).
//
//   struct checkpoints s = { .probe = probe };
//   for (...) checkpoints_add(&s, "out/checkpoint-40", &measured);
//   checkpoints_finish(&s, &results);            // and releases
#ifndef CORE_PROBES_CHECKPOINTS_H
#define CORE_PROBES_CHECKPOINTS_H

#include <stddef.h>

#include "core/probes/results.h"

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
// Tables NAME.checkpoints (the probe's totals by checkpoint), NAME.COLUMN (layers by checkpoints),
// and NAME.correlation if the series has two columns.
void checkpoints_finish(struct checkpoints *s, struct results *r);

#endif
