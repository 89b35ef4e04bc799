// sessions/internal.h -- shared by the files of sessions/ only: the open database, prepared
// statements in one call, and a session read back into memory.
//
//   if (store_run(s, err, "UPDATE sessions SET name = ? WHERE id = ?", "ti", name, id) < 0) ...
//
//   sqlite3_stmt *q = store_query(s, err, "SELECT name FROM sessions WHERE id = ?", "i", id);
//   while ((row = store_step(s, q, err)) > 0) ... sqlite3_column_text(q, 0) ...
//   sqlite3_finalize(q);
//
// User text reaches SQL only through these bindings.
#ifndef SESSIONS_INTERNAL_H
#define SESSIONS_INTERNAL_H

#include <sqlite3.h>

#include "core/base/event.h"
#include "core/base/mem.h"
#include "core/base/names.h"
#include "core/template/message.h"
#include "sessions/store.h"

enum {
    STORED_PICTURE = 8 << 20, // largest picture file stored in the database
    NAME_LONGEST = 200,       // maximum bytes of a session name
    WAIT_MS = 5000,           // wait for another program's lock
    WAIT_AGAIN_MS = 200,      // the wait once a write has failed, until one succeeds
};

struct store_setting {
    char *key, *value;
};

// Position of the next write. `entries` counts everything ever written to the session; a row's
// `place` is the count at its writing, `undone` the count when it was removed. So the state after
// any entry can be reconstructed, and writes by other programs are detected.
struct position {
    int64_t session; // 0: none
    int64_t entries;
    char *name;
};

struct entry; // an unwritten event (turns.c)

struct store {
    sqlite3 *db;
    char *path;
    struct sinks *sinks;
    struct position current;
    bool begun;      // a session is current, or its start is in `pending`
    char *next_name; // name for the next session, or NULL
    // Commands that made files with the current model; settings of later sessions may name the
    // files.
    struct names makers;
    // The state as of the last event, recorded when a session starts.
    char *folder, *identity, *system; // folder and identity: of the model
    char *arithmetic;                 // what compute.matmul auto resolves to, as in EVENT_MODEL
    struct store_setting *settings;
    size_t setting_count;
    // compute.matmul of the resumed session (NULL: none resumed), and the setting's value before.
    char *resumed_matmul, *former_matmul;
    struct entry *pending; // in the order of the events
    size_t pending_count, pending_capacity;
    bool unsaved;  // conversations are not stored
    bool moved;    // the file had been removed or replaced when it was last used
    bool failing;  // the last write failed and was reported
    bool resuming; // a session is being resumed: its events are not new
    double began;  // when the running statement began
    // The first read that takes more than `slow_s` has all pages checked (store_step).
    double slow_s;
    bool unchecked_read; // the running statement reads, has no row yet, and the pages are unchecked
    bool pages_checked;
    double queue_polled; // when Slurm was asked last (job_queue.c)
    // Descriptor of the file that is locked during an answer, to pause jobs; not above 0: not open.
    int answer_lock;
};

// --- store.c -------------------------------------------------------------------------------------

// Migrates the database forward: steps[v] leads from version v to v + 1.
int store_migrate(sqlite3 *db, const char *const *steps, int count, const char *path,
                  struct err *err);
int store_version(void); // of the schema this program writes
// Migrates to a version of vlmsh's schema.
int store_migrate_to(sqlite3 *db, int version, const char *path, struct err *err);

// Turns SQLite's error into a message that names the file and, for common errors, a remedy.
int store_explain(sqlite3 *db, const char *path, struct err *err);
int store_failed(struct store *s, struct err *err);
// Bindings by `types`: i int64_t, d double, t const char * (NULL allowed), b const void *, size_t.
int store_run(struct store *s, struct err *err, const char *sql, const char *types, ...);
sqlite3_stmt *store_query(struct store *s, struct err *err, const char *sql, const char *types,
                          ...);
int store_step(struct store *s, sqlite3_stmt *q, struct err *err); // 1 row, 0 end, -1
// Reads the first column of the first row; `otherwise` if no row matches or the column is NULL.
int store_number(struct store *s, struct err *err, int64_t otherwise, int64_t *value,
                 const char *sql, const char *types, ...);
// Adds the first column of each row to names.
int store_names(struct store *s, struct names *names, struct err *err, const char *sql,
                const char *types, ...);
char *column_text(sqlite3_stmt *q, int column);  // copy; "" for NULL
double column_real(sqlite3_stmt *q, int column); // NaN unless it is a number

int store_lock(struct store *s, struct err *err); // BEGIN IMMEDIATE: waits for other writers
// Ends the transaction: commits when status is 0, else rolls back. Returns the status.
int store_unlock(struct store *s, int status, struct err *err);

// --- schema.c ------------------------------------------------------------------------------------

// Checks that vlmsh's tables and indexes match the schema of the file's version, without additions.
int store_check_schema(sqlite3 *db, const char *path, struct err *err);

// --- turns.c -------------------------------------------------------------------------------------

void position_set(struct position *p, int64_t session, int64_t entries, const char *name);
// Returns a setting's value as of the last event, or its default.
const char *tracked_setting(const struct store *s, const char *key);
// Record a setting or the model in the current session. tokens: number of answer tokens if the
// setting changed during an answer; else 0.
void store_note_setting(struct store *s, const char *key, const char *value, int64_t tokens);
void store_note_model(struct store *s);
void entries_release(struct store *s);
// Returns true if the first pending event other than measurements belongs to the current session.
bool store_continues(const struct store *s);
size_t store_questions(const struct store *s);    // number of pending questions
size_t store_measurements(const struct store *s); // number of pending measurements

// --- job_process.c -------------------------------------------------------------------------------

// Marks the start or end of an answer: job.pause_while_answering pauses jobs during an answer.
void answer_lock_mark(struct store *s, bool begins);

// --- names.c -------------------------------------------------------------------------------------

int name_check(const char *name, struct err *err);
// Makes "2026-11-21-what-is-this" from a time and the first words of the conversation; the caller
// frees it.
char *name_make(int64_t time, const char *words);
// Returns `name`, with "-2", "-3"... appended if a session already has it.
char *name_unique(struct store *s, const char *name, struct err *err);
// Returns the text as one line of at most `limit` bytes of UTF-8, then "…" if it was cut.
char *first_words(const char *text, size_t limit);

// --- manage.c ------------------------------------------------------------------------------------

int session_find(struct store *s, const char *name, int64_t *id, struct err *err);
// Copies the first `upto` entries of a session; call it inside a transaction.
int session_copy(struct store *s, int64_t from, int64_t upto, const char *name, int64_t *id,
                 struct err *err);

// --- saved.c -------------------------------------------------------------------------------------

enum saved_kind { SAVED_MESSAGE, SAVED_SETTING, SAVED_MODEL, SAVED_COMMAND };

struct saved_entry {
    enum saved_kind kind;
    struct message message; // its pictures are indices into saved->pictures
    bool timed;             // the fields of answer are set
    int64_t began;          // when the answer began, or the other message was added
    struct event_answer answer;
    char *stop;
    char *boxes;       // of the answer, as JSON; "": none
    char *key, *value; // of a setting; for a model: folder and identity; for a command: "" and its
                       // words (EVENT_MEASURED)
    bool undone;       // command: messages before it were undone later
    bool apart;        // command: it measured no messages of the session (--data, /steer make)
    char *arithmetic;  // model: the meaning of compute.matmul auto
    int64_t tokens;    // setting: number of answer tokens if it changed during an answer; else 0
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

// Reads all current entries of a session, in order, and checks all values: the database may be
// damaged.
int saved_read(struct store *s, const char *name, struct saved *saved, struct err *err);
void saved_release(struct saved *saved);
// Reads the bytes of a picture: from the database, else from its file if that is unchanged.
int saved_bytes(struct store *s, const struct saved_picture *p, char **bytes, size_t *size,
                struct err *err);

// --- export.c, script.c, transcript.c ------------------------------------------------------------

struct session_export {
    struct store *store;
    const struct saved *saved;
    char *folder; // of files beside the export
    struct buf text;
};

// Returns the original path of a picture that is not stored, if the path is valid UTF-8 and not
// "-". Writes any other picture to a file beside the export and returns the file's absolute path.
// NULL on error.
char *export_picture(struct session_export *x, int picture, struct err *err);
// Writes a file beside the export, named by its hash and `name`; returns its absolute path, or
// NULL.
char *export_beside(struct session_export *x, const char *name, const void *bytes, size_t size,
                    struct err *err);
int script_write(struct session_export *x, struct err *err);
int transcript_write(struct session_export *x, struct err *err);
// Creates the folder of files beside the export.
int export_folder(const struct session_export *x, struct err *err);
// Appends text as an argument that the command line reads back exactly.
void script_quote(struct buf *b, const char *text);
// Returns the line of a command whose words are a JSON array, quoted; the caller frees it. "": the
// array has no words.
char *script_command(const char *words);
bool script_plain(const char *text); // can be sent as a line to the model, unquoted

// --- records.c -----------------------------------------------------------------------------------

// Stores a measurement of a session (0: no session).
int store_result_keep(struct store *s, int64_t session, int64_t time, const char *name,
                      const char *json, struct err *err);

#endif
