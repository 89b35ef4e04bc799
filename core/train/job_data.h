// core/train/job_data.h -- the file in which a job keeps its work line by line. Its first line says
// of which data set, and under what it is computed (core/adapter/provenance.h), so that a resumed
// job does not go on with others.
//
//   const struct job_data of = { path, data, &provenance };
//   FILE *f = job_data_open(&of, job->resumed, take_lines, self, &err);
#ifndef CORE_TRAIN_JOB_DATA_H
#define CORE_TRAIN_JOB_DATA_H

#include <stdbool.h>
#include <stdio.h>

#include "core/adapter/provenance.h"
#include "core/base/err.h"

// Takes over what an earlier process stored: the lines of `text` that begin at `from`. Returns how
// many bytes of the text stay: the rest is what a kill left behind.
typedef size_t job_data_take(void *self, const char *text, size_t size, size_t from);

struct job_data {
    const char *path; // of the file
    const char *data; // of the data set
    const struct provenance *provenance;
};

// Opened to write behind what is stored. NULL also when the data has changed since (its SHA-256),
// or what the provenance names: the content of an adapter or another file of a setting.
FILE *job_data_open(const struct job_data *of, bool resumed, job_data_take *take, void *self,
                    struct err *err);

#endif
