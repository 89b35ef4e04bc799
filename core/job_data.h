// core/job_data.h -- the file in which a job keeps its work line by line. Its first line says of
// which data set, so that a resumed job does not go on with another.
//
//   FILE *f = job_data_open(path, job->resumed, data, take_lines, self, &err);
#ifndef CORE_JOB_DATA_H
#define CORE_JOB_DATA_H

#include <stdbool.h>
#include <stdio.h>

#include "core/err.h"

// Takes over what an earlier process kept: the lines of `text` that begin at `from`. Returns how
// many bytes of the text stay: the rest is what a kill left behind.
typedef size_t job_data_take(void *self, const char *text, size_t size, size_t from);

// Opened to write behind what is kept. NULL also when the data has changed since (its SHA-256).
FILE *job_data_open(const char *path, bool resumed, const char *data, job_data_take *take,
                    void *self, struct err *err);

#endif
