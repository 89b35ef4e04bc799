// sessions/job_reports.h -- a job's reports as lines of a file, FOLDER/reports.jsonl: written by
// rank 0, wherever it runs, and read into the database on the machine of the shell.
//
// SQLite's file must lie on a local disk: its write-ahead log is shared memory, which no network
// file system offers. A file that one process appends to and others read needs no lock, so a job's
// folder may be shared by machines (job.folder) while the database is not.
//
//   struct told_writer w = told_to_file(folder, id, 0);   // in rank 0
//   if (w.write(&w, &list, &err) < 0) ...                 // whole lines or nothing
//
//   job_import(store, id);                                // in a shell, as often as it looks
#ifndef SESSIONS_JOB_REPORTS_H
#define SESSIONS_JOB_REPORTS_H

#include "sessions/job_told.h"

// Ranks that work in parts (ranks_part) report in files of their own, reports-1.jsonl and so on;
// the first part is that of rank 0, with reports.jsonl.

// A line that a crash left incomplete is cut off at the first write.
struct told_writer told_to_file(const char *folder, int64_t job, int part);

// Reads what is new in the job's files into the database: nothing twice, whoever else does the
// same. Does nothing inside a transaction.
void job_import(struct store *s, int64_t id);
// Before the job runs anew: reads the rest and removes the files.
int job_import_all(struct store *s, int64_t id, struct err *err);

// The last state that the file tells. false: none; then the job has not begun.
bool job_reports_state(const char *folder, enum job_state *state, char **message);

#endif
