// tui/screen_draft.c -- what is typed and not sent is kept with the session, shortly after it was
// typed: whatever ends the program, it is there again.
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "tui/screen_parts.h"

static const double keep_pause = 0.7; // seconds between typing and keeping

static char *draft_of(const struct screen *s)
{
    const char *begun = s->typed.text.length ? s->typed.text.data : "";
    return xasprintf("%s%s%s", begun, *begun ? "\n" : "", prompt_typed(s->prompt));
}

static bool same(const char *a, const char *b)
{
    return !strcmp(a ? a : "", b ? b : "");
}

void screen_draft_typed(struct screen *s)
{
    if (s->draft_at <= 0) s->draft_at = clock_seconds() + keep_pause;
}

static const char *session_of(const struct screen *s)
{
    return s->view->snapshot ? s->view->snapshot->session : NULL;
}

void screen_draft_keep(struct screen *s)
{
    const char *session = session_of(s);
    char *text = draft_of(s);
    s->draft_at = 0;
    if (same(text, s->stored) && same(session, s->stored_session) && !s->taken) {
        free(text);
        return;
    }
    watcher_draft(s->watcher, session, text, s->taken);
    s->taken = 0;
    free(s->stored);
    free(s->stored_session);
    s->stored = text;
    s->stored_session = session ? xstrdup(session) : NULL;
}

void screen_draft_last(struct screen *s)
{
    char *text = draft_of(s);
    if (s->look.store)
        store_draft_keep(s->look.store, &s->owner, session_of(s), text, s->taken, NULL);
    free(text);
}
