// sessions/job_channel.h -- the channel between a job's process and the shells: specification,
// requests and reports. It is the database, or files in the job's folder if the process cannot
// reach the database (ranks, queued jobs).
//
//   struct job_channel channel;
//   job_channel_of_store(&channel, store, id);             // or
//   if (job_channel_of_folder(&channel, folder, id, &err) < 0) ...
//   job_channel_read(&channel, &row, &err);
//   job_channel_state(&channel, STATE_RUNNING, "", &err);
//   job_channel_release(&channel);
//
//   FOLDER/order.json      the specification, written before a process starts
//   FOLDER/asked           the request: "pause" or "cancel"
//   FOLDER/reports.jsonl   the reports (job_reports.h)
#ifndef SESSIONS_JOB_CHANNEL_H
#define SESSIONS_JOB_CHANNEL_H

#include "sessions/job_reports.h"

struct job_channel {
    int64_t id;
    char *folder;            // the job's, absolute
    char *answer_lock;       // file that shells lock while they answer; NULL: none
    struct store *store;     // NULL: specification, requests and reports are files of the folder
    struct report_writer to; // where reports go
};

void job_channel_of_store(struct job_channel *d, struct store *s, int64_t id);
// Returns -1 if the folder has no specification.
int job_channel_of_folder(struct job_channel *d, const char *folder, int64_t id, struct err *err);
void job_channel_release(struct job_channel *d);
// Reads the specification as written, whether or not a process runs the job; row->runs: 0 if no
// process has run it before.
int job_channel_read(struct job_channel *d, struct job_row *row, struct err *err);
int job_channel_request(struct job_channel *d, enum job_stop *request, struct err *err);
int job_channel_state(struct job_channel *d, enum job_state state, const char *message,
                      struct err *err);

// Writes the specification of a job; `answer_lock` as in struct job_channel.
int job_spec_write(const char *folder, const struct job_row *row, const char *answer_lock,
                   struct err *err);
// Writes a request; JOB_GO withdraws it.
int job_request_write(const char *folder, enum job_stop what, struct err *err);
enum job_stop job_request_read(const char *folder);

#endif
