// tui/screen_tour.c -- /tour in the full screen: writes each step into the input line, where Enter
// runs it like any line, so that it enters the history. Users may run other lines between steps.
#include <stdlib.h>
#include <string.h>

#include "commands/tour.h"
#include "tui/screen_parts.h"

static bool has_vision(const struct view *v)
{
    return !v->snapshot || !v->snapshot->model || v->snapshot->has_vision;
}

void screen_tour_offer(struct screen *s)
{
    struct view *v = s->view;
    const struct tour_step *step = tour_step(has_vision(v), v->tour - 1);
    if (!v->tour || !s->prompt || *prompt_typed(s->prompt) || typed_open(&s->typed)) return;
    if (!step) {
        view_add(v, ENTRY_NOTICE, "end of the tour; /help lists the commands, docs/ has guides");
        v->tour = 0;
        return;
    }
    char *line = tour_line(has_vision(v), v->tour - 1);
    char *text =
        xasprintf("tour, step %d of %d: %s", v->tour, tour_count(has_vision(v)), step->text);
    view_add(v, ENTRY_NOTICE, text);
    prompt_set(s->prompt, line);
    view_hint(v, "Enter runs this step of the tour, Esc ends it");
    s->focus = PANEL_NONE;
    free(text);
    free(line);
}

void screen_tour_ran(struct screen *s, const char *line)
{
    struct view *v = s->view;
    if (!tour_step(has_vision(v), v->tour - 1)) return;
    char *now = tour_line(has_vision(v), v->tour - 1);
    const bool question = *now != '/' && *line != '/';
    const size_t word = strcspn(now, " "); // the user may change the arguments
    v->tour += question || (word == strcspn(line, " ") && !strncmp(now, line, word));
    free(now);
}

bool screen_tour_end(struct screen *s)
{
    if (!s->view->tour) return false;
    s->view->tour = 0;
    prompt_set(s->prompt, "");
    view_hint(s->view, "the tour has ended; /tour starts it again");
    return true;
}
