// core/jobs/job_data.h -- a job's state file: JSON lines. The first line records the job's inputs
// (core/jobs/identity.h) and the provenance (core/adapter/provenance.h), so that a resumed job
// cannot continue with different ones. Each other line belongs to a sample ("done": its number,
// from 1), which may have several lines; {"end": true} marks the last sample as complete.
//
//   const struct job_data of = { path, data, &provenance, .answers = file };
//   FILE *f = job_data_open(&of, job->resumed, take_line, self, &err);
//   if (!job_data_add(f, line)) ...
#ifndef CORE_JOBS_JOB_DATA_H
#define CORE_JOBS_JOB_DATA_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdio.h>

#include "core/base/err.h"

struct ranks;

// Takes a line of an earlier process. False: the line is invalid; the lines of its sample and all
// later lines are cut off.
typedef bool job_data_take(void *self, const cJSON *line);

struct job_data {
    const char *path; // path of the state file
    const char *data; // path of the data set
    const struct provenance *provenance;
    const char *hash;    // SHA-256 of the data, if it is known; NULL: computed from the file
    const char *answers; // the file of --answers; NULL: none
    const char *shots;   // the file of --shots; NULL: none
    // The data set whose pictures must match the hashes in the lines ("pictures": for sample "at",
    // or "done" - 1). NULL: not compared.
    const struct dataset *pictures;
    struct data_notices *notices; // receives notices on the pictures; NULL: none
    bool whole; // each line is a complete sample; otherwise the last sample may be incomplete: its
                // lines are cut off unless job_data_end has marked it
};

// Opens a new file or, if resumed, the old one for appending after its valid part: a kill may have
// cut off a line. Returns NULL with a message, and leaves a resumed job's file unchanged, if the
// data, the files of --answers or --shots (by SHA-256), a sample's pictures or the provenance has
// changed; the latter includes the content of the adapter and of files that settings name.
FILE *job_data_open(const struct job_data *of, bool resumed, job_data_take *take, void *self,
                    struct err *err);
// Takes all lines of a state file but the first, the last sample's too; compares nothing.
int job_data_read(const char *path, job_data_take *take, void *self, struct err *err);
// Appends a line, and frees it. False: errno says why not.
bool job_data_add(FILE *f, cJSON *line);
// Writes a number with all its digits (cJSON may write one that differs in the last bit); null if
// it is not finite.
cJSON *job_data_number(double x);
// Appends a line that marks the last sample as complete: a resumed job then keeps it.
bool job_data_end(FILE *f);

// Checks that all ranks read the same data. Returns -1 on every rank whose file differs from rank
// 0's. `hash` as in struct job_data.
int job_data_same(struct ranks *r, const char *data, const char *hash, struct err *err);

#endif
