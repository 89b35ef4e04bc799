// core/train/out.h -- the output folder of a training run, and the record that identifies it.
//
//   struct out o;
//   if (out_open(&o, "runs/norms", resume, &err) < 0) ...       // o.done: already finished
//   if (out_record(&o, json, &err) < 0) ...             // training.json, "state": "running"
//   ... the run; then out_record again with "state": "done"
//   out_close(&o);
//
// Refuses a folder with other files, and locks it for one process at a time.
#ifndef CORE_TRAIN_OUT_H
#define CORE_TRAIN_OUT_H

#include "core/base/json.h"

struct out {
    char *path;
    int lock;
    bool begun;   // an earlier process started a run here
    bool done;    // ... and finished
    int64_t keep; // its train.keep; -1: unknown
};

// Checks only: 0 if out_open would accept it. For the shell, before the job is created.
int out_check(const char *path, bool resume, struct err *err);
int out_open(struct out *o, const char *path, bool resume, struct err *err);
int out_record(const struct out *o, const cJSON *record, struct err *err);
// The record of a folder; NULL: none, or unreadable. The caller frees it.
cJSON *out_read(const char *folder, struct err *err);
void out_close(struct out *o);

#endif
