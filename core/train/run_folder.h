// core/train/run_folder.h -- the output folder of a training run, and the record that identifies
// it.
//
//   struct run_folder o;
//   if (run_folder_open(&o, "runs/norms", resume, &err) < 0) ...       // o.done: already finished
//   if (run_folder_record(&o, json, &err) < 0) ...             // training.json, "state": "running"
//   ... the run; then run_folder_record again with "state": "done"
//   run_folder_close(&o);
//
// run_folder_open refuses a folder that has other files or, without `resume`, a run. It locks the
// folder for one process at a time.
#ifndef CORE_TRAIN_RUN_FOLDER_H
#define CORE_TRAIN_RUN_FOLDER_H

#include "core/base/json.h"

struct run_folder {
    char *path;
    int lock;
    bool begun;   // an earlier process started a run here
    bool done;    // an earlier process finished the run
    int64_t keep; // train.keep of that run; -1: unknown
};

// Returns 0 if run_folder_open would accept the folder; changes nothing. The shell calls this
// before it creates the job.
int run_folder_check(const char *path, bool resume, struct err *err);
int run_folder_open(struct run_folder *o, const char *path, bool resume, struct err *err);
int run_folder_record(const struct run_folder *o, const cJSON *record, struct err *err);
// Reads the record of a folder; NULL: none, or unreadable. The caller frees it.
cJSON *run_folder_read(const char *folder, struct err *err);
void run_folder_close(struct run_folder *o);

#endif
