// sessions/drafts.h -- what was typed and not sent, kept while its shell lives and after it.
//
//   struct draft_owner me = draft_owner_begin(store);
//   store_draft_keep(store, &me, "trip", "What is", 0, &err);   // "" forgets it
//   int64_t id;
//   char *text = store_draft_find(store, &me, NULL, &id, &err); // of a shell that is gone
//   draft_owner_end(&me);
//
// A shell has one draft. It holds a lock as long as it lives, on a byte of a file beside the
// database that no other has, so a draft whose shell was killed shows at once.
#ifndef SESSIONS_DRAFTS_H
#define SESSIONS_DRAFTS_H

#include "sessions/store.h"

struct draft_owner {
    int fd;     // -1: none
    int64_t id; // 0: none
};

struct draft_owner draft_owner_begin(const struct store *s);
void draft_owner_end(struct draft_owner *o);

// session NULL, or one that has no message yet: of none. The draft `taken` (0: none) was it before,
// of another shell: it is forgotten.
int store_draft_keep(struct store *s, const struct draft_owner *o, const char *session,
                     const char *text, int64_t taken, struct err *err);
// The newest that no live shell owns, of the session (NULL: of any); free() it. "": there is none;
// NULL with a message when that cannot be read.
char *store_draft_find(struct store *s, const struct draft_owner *o, const char *session,
                       int64_t *id, struct err *err);

#endif
