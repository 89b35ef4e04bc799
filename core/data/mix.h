// core/data/mix.h -- mixes several data sets, each with a share of the samples, into one file: for
// example text-only samples and samples with pictures.
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
    int64_t count;            // samples of the result; 0: as many as possible without repeating one
    uint64_t seed;            // of the choice and the order of samples
    const char *const *kinds; // only samples of these kinds; kind_count 0: all
    size_t kind_count;
};

// Writes JSON lines in random order, and sets written[i] to the number of samples of source i.
// Rounds the shares so that the numbers add up. A source with fewer samples than its share repeats
// them, each round in full before the next. Paths of pictures become absolute; ids get the
// source's number, from 1, and the repetition's number, so that they stay unique:
// "2/000017-dense-0" and "2/000017-dense-0/2". Returns 0; or -1, and writes no file.
int mix_write(const struct mix_source *sources, size_t count, const struct mix_options *options,
              const char *path, int64_t *written, struct err *err);

#endif
