// core/data/shots.h -- few-shot examples: answered questions in front of every sample of a data
// set, after a system message. They are not scored and have no loss.
#ifndef CORE_DATA_SHOTS_H
#define CORE_DATA_SHOTS_H

#include "core/base/err.h"

struct dataset;
struct sample;
struct shots;

// Reads the examples of a file in any format of data sets; dataset_read then puts them in front.
int dataset_add_shots(struct dataset *d, const char *path, struct err *err);
// Adds the examples to a sample, and their unread keys to the sample's.
void shots_put(const struct shots *shots, struct sample *s);
void shots_free(struct shots *shots); // may be NULL

#endif
