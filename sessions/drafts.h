// sessions/drafts.h -- drafts: typed but unsent text, which survives its shell.
//
//   struct draft_owner me = draft_owner_begin(store);
//   store_draft_keep(store, &me, "trip", "What is", 0, &err);   // "" forgets it
//   int64_t id;
//   char *text = store_draft_find(store, &me, NULL, &id, &err); // of a shell that has ended
//   draft_owner_end(&me);
//
// It also notes which session it has open, so that after a crash the next shell can offer it.
//
// A shell has one draft. While it runs, it locks its own byte of a file beside the database, so
// that the draft of a killed shell is detected at once.
#ifndef SESSIONS_DRAFTS_H
#define SESSIONS_DRAFTS_H

#include "sessions/store.h"

struct draft_owner {
    int fd;     // -1: none
    int64_t id; // 0: none
};

struct draft_owner draft_owner_begin(const struct store *s);
void draft_owner_end(struct draft_owner *o);

// session NULL, or one without messages: belongs to none. `taken` (0: none) is the draft it came
// from, of another shell, which is deleted.
int store_draft_keep(struct store *s, const struct draft_owner *o, const char *session,
                     const char *text, int64_t taken, struct err *err);
// The newest draft without a live owner, of the session (NULL: of any); free() it. "": none; NULL
// with a message when it cannot be read.
char *store_draft_find(struct store *s, const struct draft_owner *o, const char *session,
                       int64_t *id, struct err *err);

// The session that this shell has open; NULL: it ends properly and has none.
int store_shell_note(struct store *s, const struct draft_owner *o, const char *session,
                     struct err *err);
// The latest session that a shell had open which did not end properly; told once, those of other
// such shells by the next calls. free() it; NULL: there is none.
char *store_shell_crashed(struct store *s, const struct draft_owner *o);

#endif
