// core/jobs/job_data.h -- a job's line-by-line state file. Its first line records what the job
// reads (core/jobs/identity.h) and the provenance (core/adapter/provenance.h), so that a resumed
// job does not continue with others.
//
//   const struct job_data of = { path, data, &provenance, .answers = file };
//   FILE *f = job_data_open(&of, job->resumed, take_lines, self, &err);
#ifndef CORE_JOBS_JOB_DATA_H
#define CORE_JOBS_JOB_DATA_H

#include <stdbool.h>
#include <stdio.h>

#include "core/adapter/provenance.h"
#include "core/base/err.h"
#include "core/ranks/ranks.h"

// Reads the lines that an earlier process wrote, from *kept on, and moves *kept to where the valid
// ones end: the rest was cut off by a kill. -1: what a line was computed from has changed; the file
// then stays as it is.
typedef int job_data_take(void *self, const char *text, size_t size, size_t *kept, struct err *err);

struct job_data {
    const char *path; // of the file
    const char *data; // of the data set
    const struct provenance *provenance;
    const char *hash;    // SHA-256 of the data, if it is known; NULL: read from the file
    const char *answers; // the file of --answers; NULL: none
};

// Opens the file for appending after the valid part. NULL also if the data (its SHA-256) or the
// provenance has changed: the content of an adapter or another file of a setting.
FILE *job_data_open(const struct job_data *of, bool resumed, job_data_take *take, void *self,
                    struct err *err);

// Do all ranks read the same data? -1 in those whose file differs from rank 0's. `hash` as above.
int job_data_same(struct ranks *r, const char *data, const char *hash, struct err *err);

#endif
