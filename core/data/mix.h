// core/data/mix.h -- one data set of several, each with a share of the samples: a file in which
// text-only samples are mixed with samples with pictures, lists with lessons.
//
//   struct mix_source sources[] = { { "lessons.json", 0.8 }, { "text.jsonl", 0.2 } };
//   if (mix_write(sources, 2, &options, "mixed.jsonl", written, &err) < 0) ...
#ifndef CORE_DATA_MIX_H
#define CORE_DATA_MIX_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

enum { MIX_SAMPLES_MAX = 100000000 }; // 8 bytes of memory each

struct mix_source {
    const char *path;
    double share; // above 0; shares need not add up to 1
};

struct mix_options {
    int64_t count; // samples of the result; 0: as many as the sources give without repeating one
    uint64_t seed; // of the choice and the order
    const char *const *kinds; // only samples of these kinds; kind_count 0: all
    size_t kind_count;
};

// Writes JSON lines, in random order, and into written[count of sources] the samples of each. The
// numbers of samples are the shares rounded so that they add up. A source whose share is larger
// than it is repeats: all of its samples appear before one repeats. Paths of pictures become
// absolute; ids get the source's number, from 1, and that of the repetition, so that they stay
// different: "2/000017-dense-0" and "2/000017-dense-0/2". 0, or -1 without a file.
int mix_write(const struct mix_source *sources, size_t count, const struct mix_options *options,
              const char *path, int64_t *written, struct err *err);

#endif
