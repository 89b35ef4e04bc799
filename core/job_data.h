// core/job_data.h -- what a job keeps of its work belongs to one data set: its file's first line
// says which, so that a resumed job does not go on with another.
//
//   if (job_data_check(text, size, data, &from, &err) < 0) ... // resumed: lines begin at text +
//   from if (!from && job_data_write(f, data, &err) < 0) ...        // a new file
#ifndef CORE_JOB_DATA_H
#define CORE_JOB_DATA_H

#include <stdio.h>

#include "core/err.h"

// -1 when the data has changed since. *from: bytes of the first line; 0: there is none (it was cut
// off, or is of an older version).
int job_data_check(const char *text, size_t size, const char *data, size_t *from, struct err *err);
int job_data_write(FILE *f, const char *data, struct err *err);

#endif
