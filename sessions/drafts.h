// sessions/drafts.h -- drafts: typed but unsent text, which survives its shell.
//
//   struct draft_owner me = draft_owner_begin(store);
//   struct draft d = { .text = "What is", .folder = "/home/me", .model = "llava" };
//   store_draft_keep(store, &me, "trip", &d, &err);           // text "" deletes the draft
//   if (store_draft_find(store, &me, NULL, &d, &err) > 0) ... // from a shell that has ended
//   draft_release(&d);
//   draft_owner_end(&me);
//
// Also records the session that each shell has open, so that after a crash the next shell can offer
// to resume the session.
//
// A shell has one draft. A running shell locks one byte of a file beside the database, so that
// other shells notice at once if it is killed.
#ifndef SESSIONS_DRAFTS_H
#define SESSIONS_DRAFTS_H

#include "sessions/store.h"

struct draft_owner {
    int fd;     // -1: none
    int64_t id; // 0: none
};

struct draft {
    char *text, *folder, *model; // folder and model when the text was typed; both may be ""
    int64_t id; // store_draft_keep also deletes this draft of another shell (0: none)
};

void draft_release(struct draft *d);

struct draft_owner draft_owner_begin(const struct store *s);
void draft_owner_end(struct draft_owner *o);

// If session is NULL or names a session without messages, the draft belongs to no session.
int store_draft_keep(struct store *s, const struct draft_owner *o, const char *session,
                     const struct draft *d, struct err *err);
// Finds the newest draft of the session whose shell has ended (NULL: of any session or none; a
// session without messages: of none). Returns 1, 0 if no draft was found, or -1.
int store_draft_find(struct store *s, const struct draft_owner *o, const char *session,
                     struct draft *d, struct err *err);

// Records the session that this shell has open; NULL when the shell ends.
int store_shell_note(struct store *s, const struct draft_owner *o, const char *session,
                     struct err *err);
// Returns the session used last among those that crashed shells had open, or NULL; the next call
// returns the next one. The caller frees the name.
char *store_shell_crashed(struct store *s, const struct draft_owner *o);

#endif
