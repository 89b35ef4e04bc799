// tui/screen_draft.c -- stores unsent text with the session shortly after it was typed, so that it
// survives a crash.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "tui/screen_parts.h"

static const double keep_pause = 0.7; // seconds between typing and storing

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

static const char *model_of(const struct screen *s)
{
    return s->view->snapshot && s->view->snapshot->model ? s->view->snapshot->model : "";
}

static struct draft draft_made(const struct screen *s, const char *text)
{
    char *folder = getcwd(NULL, 0);
    return (struct draft){ xstrdup(text), folder ? folder : xstrdup(""), xstrdup(model_of(s)),
                           s->taken };
}

// Announces a restored draft. Names the draft's folder or model if it differs from the current one,
// because the draft may not apply here.
void screen_draft_announce(struct screen *s, const struct draft *d)
{
    char *here = getcwd(NULL, 0);
    const bool moved = *d->folder && here && strcmp(here, d->folder) != 0;
    const bool other = *d->model && strcmp(model_of(s), d->model) != 0;
    char *text = xasprintf("the input line holds unsent text, typed%s%s%s%s; Ctrl-C discards it",
                           moved ? " in " : "", moved ? d->folder : "", other ? " with model " : "",
                           other ? d->model : "");
    if (moved || other)
        view_add(s->view, ENTRY_NOTICE, text);
    else
        view_hint(s->view, "your unsent line is restored; Ctrl-C discards it");
    free(text);
    free(here);
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
    watcher_draft(s->watcher, session, draft_made(s, text));
    s->taken = 0;
    free(s->stored);
    free(s->stored_session);
    s->stored = text;
    s->stored_session = session ? xstrdup(session) : NULL;
}

void screen_draft_last(struct screen *s)
{
    char *text = draft_of(s);
    struct draft d = draft_made(s, text);
    if (s->lookup.store) store_draft_keep(s->lookup.store, &s->owner, session_of(s), &d, NULL);
    draft_release(&d);
    free(text);
}
