// sessions/job_desk.h -- where a process that runs a job finds its order and leaves its reports: in
// the database, or in files of the job's folder where the database is out of reach (ranks, jobs of
// a queue).
//
//   struct job_desk desk;
//   job_desk_of_store(&desk, store, id);             // or
//   if (job_desk_of_folder(&desk, folder, id, &err) < 0) ...
//   job_desk_read(&desk, &row, &err);
//   job_desk_state(&desk, STATE_RUNNING, "", &err);
//   job_desk_release(&desk);
//
//   FOLDER/order.json      what to run: written before a process starts
//   FOLDER/asked           "pause" or "cancel", written by a shell
//   FOLDER/reports.jsonl   what it reports (job_reports.h)
#ifndef SESSIONS_JOB_DESK_H
#define SESSIONS_JOB_DESK_H

#include "sessions/job_reports.h"

struct job_desk {
    int64_t id;
    char *folder;            // the job's, absolute
    char *answering;         // file that shells lock while they answer; NULL: none
    struct store *store;     // NULL: orders and reports are files of the folder
    struct report_writer to; // reports go there
};

void job_desk_of_store(struct job_desk *d, struct store *s, int64_t id);
// -1: no order lies there.
int job_desk_of_folder(struct job_desk *d, const char *folder, int64_t id, struct err *err);
void job_desk_release(struct job_desk *d);
// The order as written, whether or not a process runs it; runs: of processes before this one.
int job_desk_read(struct job_desk *d, struct job_row *row, struct err *err);
int job_desk_request(struct job_desk *d, enum job_stop *request, struct err *err);
int job_desk_state(struct job_desk *d, enum job_state state, const char *message, struct err *err);

// Writes the order of a job; `answering` as above.
int job_order_write(const char *folder, const struct job_row *row, const char *answering,
                    struct err *err);
// Writes or takes back (JOB_GO) a request.
int job_request_write(const char *folder, enum job_stop what, struct err *err);
enum job_stop job_request_read(const char *folder);

#endif
