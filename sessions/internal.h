// sessions/internal.h -- what the files of sessions/ share: the open database, prepared statements
// in one call, and a session read back into memory. Nobody else includes this.
//
//   if (store_run(s, err, "UPDATE sessions SET name = ? WHERE id = ?", "ti", name, id) < 0) ...
//
//   sqlite3_stmt *q = store_query(s, err, "SELECT name FROM sessions WHERE id = ?", "i", id);
//   while ((row = store_step(s, q, err)) > 0) ... sqlite3_column_text(q, 0) ...
//   sqlite3_finalize(q);
//
// User text only ever reaches SQL through these bindings.
#ifndef SESSIONS_INTERNAL_H
#define SESSIONS_INTERNAL_H

#include <sqlite3.h>

#include "sessions/store.h"

enum {
    STORED_PICTURE = 8 << 20, // largest picture file whose bytes are stored
    NAME_LONGEST = 200,       // bytes of a session's name
    WAIT_MS = 5000,           // for another program's lock
    WAIT_AGAIN_MS = 200,      // after a wait in vain, until a write succeeds
};

struct store_setting {
    char *key, *value;
};

// A session as the next write finds it. `entries` counts everything ever written to it; a row's
// `place` is the count at its writing, `undone` the count when it was taken back. So the state
// after any entry can be told, and another program's writing shows.
struct position {
    int64_t session; // 0: none
    int64_t entries;
    char *name;
};

struct entry; // something told that is not written yet (turns.c)

struct store {
    sqlite3 *db;
    char *path;
    struct sinks *sinks;
    struct position current;
    bool begun;      // a session is current, or its beginning waits in `pending`
    char *next_name; // for the next session, or NULL
    // As last told, for the beginning of a session.
    char *folder, *fingerprint, *system;
    char *arithmetic; // what compute.matmul auto means for this model here, as in EVENT_MODEL
    struct store_setting *settings;
    size_t setting_count;
    // compute.matmul as a session that was resumed had it (NULL: none was), and before that.
    char *resumed_matmul, *former_matmul;
    struct entry *pending; // in the order told
    size_t pending_count, pending_capacity;
    bool failing;  // the last write failed and was told
    bool deaf;     // what is told is a session being resumed: not new
    int answering; // locked while an answer is computed and jobs stand still; 0 = not open
};

// --- store.c -------------------------------------------------------------------------------------

// One step for each version: steps[v] leads from version v to v + 1.
int store_migrate(sqlite3 *db, const char *const *steps, int count, const char *path,
                  struct err *err);
int store_version(void); // of the schema this program writes
int store_migrate_all(sqlite3 *db, const char *path, struct err *err); // to that version

// The database's own reason for a failure as a message that names the file and what to do.
int store_failed(struct store *s, struct err *err);
// Bindings by `types`: i int64_t, d double, t const char * (NULL allowed), b const void *, size_t.
int store_run(struct store *s, struct err *err, const char *sql, const char *types, ...);
sqlite3_stmt *store_query(struct store *s, struct err *err, const char *sql, const char *types,
                          ...);
int store_step(struct store *s, sqlite3_stmt *q, struct err *err); // 1 row, 0 end, -1
// The first column of the first row, or `otherwise` when there is none.
int store_number(struct store *s, struct err *err, int64_t otherwise, int64_t *value,
                 const char *sql, const char *types, ...);
char *column_text(sqlite3_stmt *q, int column); // copy; "" for NULL

int store_lock(struct store *s, struct err *err); // BEGIN IMMEDIATE: waits for other writers
// Ends the transaction: commits when status is 0, else rolls back. Returns the status.
int store_unlock(struct store *s, int status, struct err *err);

// --- turns.c -------------------------------------------------------------------------------------

int store_flush(struct store *s, struct err *err); // writes what waits
void position_set(struct position *p, int64_t session, int64_t entries, const char *name);
const char *tracked_setting(const struct store *s, const char *key); // as last told, or its default
// Tells the record what holds now, where it differs from the resumed session's.
void store_note_setting(struct store *s, const char *key, const char *value);
void store_note_model(struct store *s);
void entries_release(struct store *s);
// Is the first thing that waits one of the current session?
bool store_continues(const struct store *s);
size_t store_questions(const struct store *s);    // that wait
size_t store_measurements(const struct store *s); // that wait

// --- job_process.c -------------------------------------------------------------------------------

// An answer is computed from now on, or no longer: with job.pause_while_answering jobs stand still.
void answering_tell(struct store *s, bool begins);

// --- names.c -------------------------------------------------------------------------------------

int name_check(const char *name, struct err *err);
// "2026-11-21-what-is-this" from a time and the first words said; belongs to the caller.
char *name_make(int64_t time, const char *words);
// `name`, or with "-2", "-3"... after it, such that no session has it.
char *name_unique(struct store *s, const char *name, struct err *err);
char *first_words(const char *text, size_t limit); // one line, at most `limit` bytes of UTF-8
char *time_text(int64_t time, const char *format); // local time

// --- manage.c ------------------------------------------------------------------------------------

int session_find(struct store *s, const char *name, int64_t *id, struct err *err);
// Copies a session as it was after `upto` entries. Inside a transaction.
int session_copy(struct store *s, int64_t from, int64_t upto, const char *name, int64_t *id,
                 struct err *err);

// --- saved.c -------------------------------------------------------------------------------------

enum saved_kind { SAVED_MESSAGE, SAVED_SETTING, SAVED_MODEL };

struct saved_entry {
    enum saved_kind kind;
    struct message message; // its pictures are indices into saved->pictures
    bool undone;            // only of system messages: those are kept in a row
    bool timed;             // the fields of answer hold
    int64_t began;          // of the answer
    struct event_answer answer;
    char *stop;
    char *key, *value; // setting, or folder and fingerprint
    char *arithmetic;  // model: what compute.matmul auto meant for it
    int64_t tokens;    // setting: in the middle of an answer that had so many; 0: not so
};

struct saved_picture {
    int64_t id;
    char *path, *sha256;
    int64_t size;
    bool stored;
};

struct saved {
    int64_t id, entries, began, touched;
    char *name;
    struct saved_entry *list;
    size_t count;
    struct saved_picture *pictures;
    size_t picture_count;
};

// All that still stands of a session, in order. The database may be damaged: everything is checked.
int saved_read(struct store *s, const char *name, struct saved *saved, struct err *err);
void saved_release(struct saved *saved);
// What was really computed in under a value of compute.matmul, where `auto` meant `arithmetic`.
const char *saved_arithmetic(const char *matmul, const char *arithmetic);
// The file's bytes: from the database, else from the file when it is still the same.
int saved_bytes(struct store *s, const struct saved_picture *p, char **bytes, size_t *size,
                struct err *err);

// --- export.c and what it is made of -------------------------------------------------------------

struct exporting {
    struct store *store;
    const struct saved *saved;
    const char *path;
    char *folder; // of what stands beside the file
    struct buf text;
};

// Writes the picture beside the export; its absolute path, or NULL on error. A picture that is not
// kept is named where it was.
char *export_picture(struct exporting *x, int picture, struct err *err);
// Writes a file named by its content beside the export; its absolute path, or NULL.
char *export_beside(struct exporting *x, const char *name, const void *bytes, size_t size,
                    struct err *err);
int script_write(struct exporting *x, struct err *err);
int transcript_write(struct exporting *x, struct err *err);
// Appends text as an argument that the command line reads back exactly.
void script_quote(struct buf *b, const char *text);
bool script_plain(const char *text); // can be given as a line for the model, unquoted

// --- results.c -----------------------------------------------------------------------------------

// A measurement of a session (0: of none).
int store_result_keep(struct store *s, int64_t session, int64_t time, const char *name,
                      const char *json, struct err *err);

#endif
