// tui/screen_draft.c -- what is typed and not sent is kept with the session, shortly after it was
// typed: whatever ends the program, it is there again.
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "tui/screen_parts.h"

static const double keep_pause = 0.7; // seconds between typing and keeping

char *screen_draft(const struct screen *s)
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

void screen_draft_keep(struct screen *s)
{
    const char *session = s->view->snapshot ? s->view->snapshot->session : NULL;
    char *text = screen_draft(s);
    s->draft_at = 0;
    if (same(text, s->kept) && same(session, s->kept_session)) {
        free(text);
        return;
    }
    // The session that it was typed in has ended, or has only now begun.
    if (!same(session, s->kept_session)) watcher_draft(s->watcher, s->kept_session, "");
    watcher_draft(s->watcher, session, text);
    free(s->kept);
    free(s->kept_session);
    s->kept = text;
    s->kept_session = session ? xstrdup(session) : NULL;
}
