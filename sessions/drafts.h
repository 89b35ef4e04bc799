// sessions/drafts.h -- what was typed and not sent, kept with the session.
//
//   store_draft_keep(store, "What is", &err);     // when the shell is left; "" forgets it
//   char *text = store_draft_take(store, &err);   // when it comes back: "", or text; free() it
#ifndef SESSIONS_DRAFTS_H
#define SESSIONS_DRAFTS_H

#include "sessions/store.h"

// Of the current session, or of none before its first message.
int store_draft_keep(struct store *s, const char *text, struct err *err);
// Of the session of that name (NULL: of none), which this store need not have opened.
int store_draft_keep_of(struct store *s, const char *session, const char *text, struct err *err);
// It is forgotten with this. NULL with a message when it cannot be read.
char *store_draft_take(struct store *s, struct err *err);

#endif
