// sessions/store.h -- everything that is kept: one SQLite file (WAL).
//
//   struct store *s = store_open(path, &err);
//   sinks_add(sinks, store_sink(s, sinks));      // from now on every turn is on disk when it ends
//   ... a turn that cannot be written is told once as a notice and written with a later one ...
//   if (store_finish(s, &err) < 0) ...           // what could not be written lies in a script
//   store_close(s);                              // while the sinks still exist
//
// A session begins by itself with the first message; nobody has to save, nothing is overwritten:
// undo and clear mark rows, they delete none. Several programs may use the file at once; two that
// continue the same session part ways: the second to write goes on in a copy of its own.
#ifndef SESSIONS_STORE_H
#define SESSIONS_STORE_H

#include "core/engine/engine.h"

struct store;

// Creates the file as needed; migrates forward (PRAGMA user_version). A file from a newer version,
// a damaged or unwritable one: NULL with a message. path NULL = the default place,
// $XDG_STATE_HOME/vlmsh/vlmsh.db, whose folders are created; those of another path must be there.
struct store *store_open(const char *path, struct err *err);
// Is there the folder of a file that a person named, and no pipe, device or folder in its place?
int store_check_place(const char *path, struct err *err);
// Before leaving: tries once more to write what is not written yet. What cannot be written goes
// into scripts in a new folder elsewhere ($TMPDIR, /tmp, the home folder or this one), which replay
// the sessions. 0: all is kept; -1: the message says why not, and where they are. NULL is fine.
int store_finish(struct store *s, struct err *err);
// Tries once more, too. NULL is fine.
void store_close(struct store *s);
const char *store_path(const struct store *s);

// Keeps what is told. When a write fails (disk full, locked for long), says so once through `sinks`
// and goes on trying with the next turn. `sinks` must stay until store_close.
struct sink store_sink(struct store *s, struct sinks *sinks);

// Name of the current session; NULL before its first message.
const char *store_session(const struct store *s);
// --session NAME: resumes it when it exists, else the next session begins under this name.
int store_use(struct store *s, struct engine *e, const char *name, struct err *err);
// The next message begins a new session, called `name` (NULL: a name is made up). The conversation
// is not touched: engine_clear it.
int store_begin(struct store *s, const char *name, struct err *err);
// A resumed session goes on in its arithmetic; the next one is computed in what was set before
// (compute.matmul), unless that was changed since. Told.
void store_restore_arithmetic(struct store *s, struct engine *e);

struct session_row {
    char *name, *model, *began, *ended; // times as local text; model "" when unknown
    int64_t turns, pictures;            // questions and pictures that are not taken back
    char *title;                        // first words said
};
// The latest first.
int store_list(struct store *s, struct session_row **rows, size_t *count, struct err *err);
void store_list_free(struct session_row *rows, size_t count);

// Model, settings, messages, pictures of a session into the engine (pictures from the kept bytes
// when their file is gone or changed), which then becomes the current session. On error the
// engine's conversation is as before.
int store_resume(struct store *s, struct engine *e, const char *name, struct err *err);
// A copy of the current session under a new name (NULL: made up), which becomes the current one.
int store_fork(struct store *s, const char *name, struct err *err);
int store_rename(struct store *s, const char *from, const char *to, struct err *err);
int store_delete(struct store *s, const char *name, struct err *err);
// name NULL: the current session. FILE.md: a transcript; else a command script that replays the
// session to the same answers. Kept pictures are written beside it, into the folder PATH.files.
// Nothing is overwritten: an existing file at `path` is an error.
int store_export(struct store *s, const char *name, const char *path, struct err *err);

#endif
