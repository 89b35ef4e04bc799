// tui/panel_jobs.c -- jobs with their progress, and a curve of the selected job.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/pace.h"
#include "core/base/text.h"
#include "tui/chart.h"
#include "tui/panel.h"
#include "tui/text.h"

static const struct job_row *selected(const struct jobs_view *j)
{
    if (!j->news || !j->news->count) return NULL;
    return &j->news->rows[j->selected < j->news->count ? j->selected : j->news->count - 1];
}

// Widths of the columns.
struct widths {
    int kind, state;
};

// Draws a text if it fits whole.
static int add_whole(struct canvas *c, struct area area, int x, int y, const struct buf *b)
{
    if (!b->length || x + 2 + text_width(b->data) > area.width) return x;
    return canvas_text(c, area, x + 2, y, STYLE_TEXT, b->data);
}

static void draw_job(struct canvas *c, struct area area, int y, const struct job_row *row,
                     struct widths w, bool focused)
{
    struct buf b = { 0 };
    char left[PACE_TEXT];
    const bool runs = row->state == STATE_RUNNING;
    int x = canvas_printf(c, area, 0, y, runs ? STYLE_TEXT : STYLE_DIM, "%3" PRId64 "  %-*s  %-*s",
                          row->id, w.kind, row->kind, w.state, job_state_name(row->state));
    const int bar = row->steps > 0 && row->step >= 0 ? area.width > 60 ? 16 : 8 : 0, bar_x = x + 2;
    if (bar)
        x = canvas_printf(c, area, x + bar + 2, y, STYLE_TEXT, " %3.0f%%",
                          100 * row->step / row->steps);
    if (isfinite(row->loss)) buf_printf(&b, "loss %.4g", row->loss);
    x = add_whole(c, area, x, y, &b);
    buf_clear(&b);
    if (runs && isfinite(row->eta_s) && row->eta_s >= 0)
        buf_printf(&b, "%s left", pace_text(left, row->eta_s));
    add_whole(c, area, x, y, &b);
    if (focused) canvas_style(c, area, 0, y, area.width, STYLE_SELECTED);
    // Drawn last, over the style of the selection.
    if (bar) canvas_bar(c, area, bar_x, y, bar, row->step / row->steps);
    buf_release(&b);
}

static void draw_curve(const struct jobs_news *n, struct canvas *c, struct area area)
{
    const struct curve *k = &n->curve;
    double min = INFINITY, max = -INFINITY;
    for (size_t i = 0; i < k->count; i++) {
        if (!isfinite(k->values[i])) continue;
        min = fmin(min, k->values[i]);
        max = fmax(max, k->values[i]);
    }
    if (k->count < 2 || !(max >= min)) return;
    canvas_printf(c, area, 0, 0, STYLE_TITLE, "job %" PRId64 ": %s", n->curve_job, n->curve_name);
    const struct area inner = { area.x, area.y + 1, area.width, area.height - 1 };
    const struct chart chart =
        chart_begin(c, inner, (double)k->steps[0], (double)k->steps[k->count - 1], min, max);
    double *x = xreallocarray(NULL, k->count, sizeof *x);
    for (size_t i = 0; i < k->count; i++) x[i] = (double)k->steps[i];
    chart_crowd(&chart, STYLE_CURVE1, x, k->values, k->count);
    free(x);
}

static void draw(struct view *v, struct canvas *c, struct area area, bool focused)
{
    const struct jobs_news *n = v->jobs.news;
    if (!n || !n->count) {
        canvas_text(c, area, 0, 0, STYLE_DIM, "no jobs yet: /train, /calibrate");
        canvas_text(c, area, 0, 1, STYLE_DIM, "and /eval start one");
        return;
    }
    if (v->jobs.selected >= n->count) v->jobs.selected = n->count - 1;
    struct widths w = { 4, 4 };
    for (size_t i = 0; i < n->count; i++) {
        const int kind = (int)strlen(n->rows[i].kind),
                  state = (int)strlen(job_state_name(n->rows[i].state));
        w.kind = kind > w.kind ? kind : w.kind;
        w.state = state > w.state ? state : w.state;
    }
    const bool curve = n->curve.count > 1 && area.height >= 8;
    const int room = curve ? area.height / 3 : area.height;
    const size_t top = v->jobs.selected >= (size_t)room ? v->jobs.selected - (size_t)room + 1 : 0;
    for (size_t i = top; i < n->count && i < top + (size_t)room; i++)
        draw_job(c, (struct area){ area.x, area.y, area.width, room }, (int)(i - top), &n->rows[i],
                 w, focused && i == v->jobs.selected);
    const int used = n->count < (size_t)room ? (int)n->count : room;
    if (curve)
        draw_curve(n, c, (struct area){ area.x, area.y + used, area.width, area.height - used });
}

static unsigned act(struct view *v, const char *action)
{
    static const char *const requests[] = { "pause", "resume", "cancel", NULL };
    struct jobs_view *j = &v->jobs;
    const struct job_row *row = selected(j);
    if (!strcmp(action, "back")) return PANEL_DONE | PANEL_BACK;
    if (!row) return PANEL_DONE;
    if (!strcmp(action, "up"))
        j->selected -= j->selected > 0;
    else if (!strcmp(action, "down"))
        j->selected += j->selected + 1 < j->news->count;
    else if (!strcmp(action, "show"))
        view_run(v, false, "/job %" PRId64, row->id);
    else if (text_listed(requests, action))
        view_run(v, true, "/job %" PRId64 " %s", row->id, action);
    else
        return PANEL_IGNORED;
    return PANEL_DONE;
}

static void click(struct view *v, struct area area, int x, int y, int button)
{
    if (button == 1 && v->jobs.news && (size_t)y < v->jobs.news->count)
        v->jobs.selected = (size_t)y;
}

const struct panel panel_jobs = {
    .name = "jobs",
    .title = "jobs",
    .min_width = 30,
    .min_height = 4,
    .draw = draw,
    .act = act,
    .click = click,
};
