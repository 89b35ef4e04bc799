// sessions/job_desk.h -- where a job's process reads its order and writes its reports: the
// database, or files in the job's folder if it cannot reach the database (ranks, queued jobs).
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
// -1: the folder has no order.
int job_desk_of_folder(struct job_desk *d, const char *folder, int64_t id, struct err *err);
void job_desk_release(struct job_desk *d);
// Reads the order as written, even if no process runs the job; runs: number of earlier processes.
int job_desk_read(struct job_desk *d, struct job_row *row, struct err *err);
int job_desk_request(struct job_desk *d, enum job_stop *request, struct err *err);
int job_desk_state(struct job_desk *d, enum job_state state, const char *message, struct err *err);

// Writes the order of a job; `answering` as above.
int job_order_write(const char *folder, const struct job_row *row, const char *answering,
                    struct err *err);
// Writes a request; JOB_GO withdraws it.
int job_request_write(const char *folder, enum job_stop what, struct err *err);
enum job_stop job_request_read(const char *folder);

#endif
