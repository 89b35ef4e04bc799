// sessions/store.h -- persistent storage: one SQLite file (WAL).
//
//   struct store *s = store_open(path, &err);
//   sinks_add(sinks, store_sink(s, sinks));      // from now on every turn is on disk when it ends
//   ... one notice reports that a turn cannot be written; a later turn retries ...
//   if (store_finish(s, &err) < 0) ...           // a script holds what could not be written
//   store_close(s);                              // while the sinks still exist
//
// A session starts automatically with the first message; no command saves it. Undo marks rows
// instead of deleting them; clear ends the session. Several programs may use the file at once; if
// two continue the same session, the second to write continues in a copy.
#ifndef SESSIONS_STORE_H
#define SESSIONS_STORE_H

#include "core/engine/engine.h"

struct store;

// Creates the file if needed; updates an older schema (PRAGMA user_version). Returns NULL with a
// message if the file is damaged, unwritable or of a newer version. path NULL: the default,
// $XDG_STATE_HOME/vlmsh/vlmsh.db, whose folders are created; the folder of any other path must
// exist.
struct store *store_open(const char *path, struct err *err);
// Checks that the folder of a user-given file exists and that the file is not a pipe, device or
// folder.
int store_check_path(const char *path, struct err *err);
// At exit: tries once more to write pending events. If that fails, writes scripts that replay the
// sessions into a new folder elsewhere ($TMPDIR, /tmp, the home folder or this one). 0: all
// events are saved; -1: the message says why not, and where the scripts are. NULL is allowed.
int store_finish(struct store *s, struct err *err);
// Tries once more to write pending events, then closes the file. NULL is allowed.
void store_close(struct store *s);
const char *store_path(const struct store *s);

// Stores events. When a write fails (disk full, file locked too long), reports the failure once
// through `sinks` and retries with the next turn. `sinks` must last until store_close.
struct sink store_sink(struct store *s, struct sinks *sinks);

// From now on stores no conversations, no measurements (except those of jobs) and no drafts, but
// still jobs, presets and other data.
void store_unsave(struct store *s);
bool store_unsaved(const struct store *s);
// Checks that the database's path still names the file that was opened.
int store_check_file(struct store *s, struct err *err);
// Writes pending events; on error they stay pending.
int store_flush(struct store *s, struct err *err);
// Returns the name of the current session; NULL before its first message.
const char *store_session(const struct store *s);
// Returns the name given for the session that the next first message starts; NULL: none.
const char *store_next_session(const struct store *s);
// For --session NAME: resumes the session if it exists; otherwise the next session gets this name.
int store_use(struct store *s, struct engine *e, const char *name, struct err *err);
// The next message starts a new session called `name` (NULL: generated). The caller clears the
// conversation (engine_clear).
int store_begin(struct store *s, const char *name, struct err *err);
// Resuming a session sets compute.matmul to the session's precision. For the next session, this
// function restores the former value, with a notice, unless the setting has changed since.
void store_restore_arithmetic(struct store *s, struct engine *e);

struct session_row {
    char *name, *model;      // model "" when unknown
    int64_t began, ended;    // seconds since 1970
    int64_t turns, pictures; // questions and pictures that were not removed
    char *title;             // first words of the conversation
};
// Lists the sessions, the latest first.
int store_list(struct store *s, struct session_row **rows, size_t *count, struct err *err);
// Formats a time with strftime, in local time; free() it.
char *time_text(int64_t time, const char *format);
void store_list_free(struct session_row *rows, size_t count);

// Restores model, settings, messages and pictures of a session (pictures from their stored bytes,
// else from unchanged files); the session becomes the current one. On error the engine's
// conversation is unchanged.
int store_resume(struct store *s, struct engine *e, const char *name, struct err *err);
// Copies the current session under a new name (NULL: generated); the copy becomes the current one.
int store_fork(struct store *s, const char *name, struct err *err);
int store_rename(struct store *s, const char *from, const char *to, struct err *err);
int store_delete(struct store *s, const char *name, struct err *err);
// Exports a session (name NULL: the current one): as a transcript if `path` ends in .md, else as a
// command script that replays the session with the same answers. Stored pictures are written into
// the folder PATH.files beside the export. A file at `path` is an error unless it is empty.
int store_export(struct store *s, const char *name, const char *path, struct err *err);

#endif
