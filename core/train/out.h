// core/train/out.h -- the folder a training run writes into, and the record that tells what it is.
//
//   struct out o;
//   if (out_open(&o, "runs/norms", resume, &err) < 0) ...       // o.done: it is finished already
//   if (out_record(&o, json, &err) < 0) ...             // training.json, "state": "running"
//   ... the run; then out_record again with "state": "done"
//   out_close(&o);
//
// A folder that holds anything else is never written into, and one process at a time uses it.
#ifndef CORE_TRAIN_OUT_H
#define CORE_TRAIN_OUT_H

#include "core/base/json.h"

struct out {
    char *path;
    int lock;
    bool begun;   // a run was begun here before
    bool done;    // ... and finished
    int64_t keep; // the train.keep it was begun or finished with; -1: not known
};

// Looks only: 0 when out_open would take it. For the shell, before there is a job.
int out_check(const char *path, bool resume, struct err *err);
int out_open(struct out *o, const char *path, bool resume, struct err *err);
int out_record(const struct out *o, const cJSON *record, struct err *err);
// The record in a folder; NULL: there is none that can be read. Belongs to the caller.
cJSON *out_read(const char *folder, struct err *err);
void out_close(struct out *o);

#endif
