// tui/status.c -- the status line, from right to left as much as fits.
#include "tui/status.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/pace.h"
#include "core/methods/method.h"
#include "tui/text.h"

// --- badges --------------------------------------------------------------------------------------

static int draw_badge(struct canvas *c, struct area area, int x, const char *text)
{
    if (x + text_width(text) + 3 >= area.width) return x;
    return canvas_printf(c, area, x, 0, STYLE_BADGE, " %s ", text) + 1;
}

static int draw_badges(const struct view *v, struct canvas *c, struct area area, int x)
{
    const struct method *m;
    for (int i = 0; (m = method_shown(i)); i++) {
        struct buf b = { 0 };
        if (!method_on(m, v->settings)) continue;
        m->badge(&b, v->settings, v->snapshot && v->snapshot->model ? v->snapshot->place[i] : -1);
        x = draw_badge(c, area, x, b.data);
        buf_release(&b);
    }
    if (settings_is(v->settings, "adapter", "none")) return x;
    const bool seeing = settings_is(v->settings, "adapter.when", "pictures");
    return draw_badge(c, area, x, seeing ? "ADAPTER pictures" : "ADAPTER");
}

// --- measures ------------------------------------------------------------------------------------

static void add_speed(const struct view *v, struct buf *b)
{
    const double now = clock_seconds();
    if (v->answering && !v->first) {
        buf_printf(b, "  prefill %.1f s", now - v->asked);
    } else if (v->answering) {
        const double took = v->last - v->first;
        if (took > 0) buf_printf(b, "  %.1f tok/s", (double)(v->tokens - 1) / took);
        buf_printf(b, "  first %.2f s", v->first - v->asked);
    } else if (v->rate > 0) {
        buf_printf(b, "  %.1f tok/s  first %.2f s", v->rate, v->first_s);
    }
}

static void add_memory(const struct view *v, struct buf *b)
{
    const double bytes = v->snapshot ? v->snapshot->memory : 0;
    if (bytes >= 1 << 30)
        buf_printf(b, "  %.1f GB", bytes / (1 << 30));
    else if (bytes > 0)
        buf_printf(b, "  %.0f MB", bytes / (1 << 20));
}

// How many of the last answer's drafts were accepted, where there is room.
static void draw_drafts(const struct view *v, struct canvas *c, struct area area, int *x)
{
    if (v->answering || v->rate <= 0 || v->drafts < 0 || *x + 24 > area.width) return;
    *x = canvas_printf(c, area, *x, 0, STYLE_STATUS, "  drafts %.0f%%", 100 * v->drafts);
}

static int64_t context_used(const struct view *v)
{
    const struct engine_context *k = &v->snapshot->context;
    int64_t used = k->text + k->visual + k->waiting_visual;
    if (v->answering) used += (int64_t)v->tokens;
    return used;
}

static void draw_context(const struct view *v, struct canvas *c, struct area area, int *x)
{
    if (!v->snapshot || !v->snapshot->counted || v->snapshot->context.limit < 1) return;
    const int64_t used = context_used(v), limit = v->snapshot->context.limit;
    if (*x + 24 > area.width) return;
    *x = canvas_text(c, area, *x, 0, STYLE_STATUS, "  ");
    canvas_bar(c, area, *x, 0, 8, (double)used / (double)limit);
    *x = canvas_printf(c, area, *x + 8, 0, STYLE_STATUS, " %lld/%lld", (long long)used,
                       (long long)limit);
}

static void draw_work(const struct view *v, struct canvas *c, struct area area, int *x)
{
    static const char *const turns[] = { "|", "/", "-", "\\" };
    if (!v->busy) return;
    const int turn = (int)(clock_seconds() * 6) % 4;
    *x = canvas_printf(c, area, *x, 0, STYLE_STATUS, " %s", turns[turn]);
    if (v->loading && v->progress_what) {
        char left[PACE_TEXT];
        *x = canvas_printf(c, area, *x, 0, STYLE_STATUS, " %s ", v->progress_what);
        canvas_bar(c, area, *x, 0, 10, v->progress);
        *x = canvas_printf(c, area, *x + 10, 0, STYLE_STATUS, " %.0f%%", 100 * v->progress);
        if (v->progress_left > 0)
            *x = canvas_printf(c, area, *x, 0, STYLE_STATUS, ", %s left",
                               pace_text(left, v->progress_left));
    }
    if (v->waiting) *x = canvas_printf(c, area, *x, 0, STYLE_STATUS, " +%d waiting", v->waiting);
}

// The job that runs, and how many more.
static void draw_jobs(const struct view *v, struct canvas *c, struct area area, int *x)
{
    const struct jobs_news *n = v->jobs.news;
    const struct job_row *first = NULL;
    int more = -1;
    for (size_t i = 0; n && i < n->count; i++) {
        if (n->rows[i].state != STATE_RUNNING) continue;
        if (!first) first = &n->rows[i];
        more++;
    }
    if (!first || *x + 30 > area.width) return;
    *x = canvas_printf(c, area, *x, 0, STYLE_STATUS, "  job %lld", (long long)first->id);
    if (first->steps > 0 && first->step >= 0)
        *x = canvas_printf(c, area, *x, 0, STYLE_STATUS, " %.0f%%",
                           100 * first->step / first->steps);
    if (more) *x = canvas_printf(c, area, *x, 0, STYLE_STATUS, " +%d", more);
}

// How far the conversation is scrolled up; false: it is not.
static bool draw_scroll(const struct view *v, struct canvas *c, struct area area, int x)
{
    const int lines = v->chat.scroll;
    char *text = xasprintf(" %d line%s below: PageDown ", lines, lines == 1 ? "" : "s");
    const int at = area.width - text_width(text) - 1;
    if (lines && x + 1 < at) canvas_text(c, area, at, 0, STYLE_MATCH, text);
    free(text);
    return lines && x + 1 < at;
}

// How to get on: as many of the ways as fit, the first at the right edge.
static void draw_ways(struct canvas *c, struct area area, int x, const char *ways)
{
    int end = area.width - 1;
    while (*ways) {
        const char *next = strstr(ways, "  ");
        const size_t length = next ? (size_t)(next - ways) : strlen(ways);
        const int begin = end - (int)length;
        if (x + 1 >= begin) return;
        canvas_text_n(c, area, begin, 0, STYLE_STATUS, ways, length);
        end = begin - 2;
        ways += length + strspn(ways + length, " ");
    }
}

// The model's name, cut where it is long, and the device.
static int draw_model(const struct snapshot *s, struct canvas *c, struct area area)
{
    enum { NAME = 28 };
    const char *name = s && s->model ? s->model : "no model";
    const bool whole = text_width(name) <= NAME;
    const int length = (int)(whole ? strlen(name) : text_fit(name, NAME - 1));
    return canvas_printf(c, area, 1, 0, STYLE_STATUS, "%.*s%s %s", length, name,
                         whole      ? ""
                         : c->ascii ? "~"
                                    : "…",
                         s ? s->device : "");
}

void status_draw(const struct view *v, struct canvas *c, struct area area, const char *ways)
{
    const struct snapshot *s = v->snapshot;
    struct buf b = { 0 };
    canvas_fill(c, area, STYLE_STATUS, ' ');
    int x = draw_model(s, c, area);
    draw_work(v, c, area, &x);
    add_speed(v, &b);
    if (b.data && x + text_width(b.data) < area.width)
        x = canvas_text(c, area, x, 0, STYLE_STATUS, b.data);
    buf_clear(&b);
    draw_context(v, c, area, &x);
    add_memory(v, &b);
    if (b.data && x + text_width(b.data) < area.width)
        x = canvas_text(c, area, x, 0, STYLE_STATUS, b.data);
    draw_drafts(v, c, area, &x);
    draw_jobs(v, c, area, &x);
    x = draw_badges(v, c, area, x + 2);
    if (v->stale && x + 7 < area.width) x = canvas_text(c, area, x, 0, STYLE_STATUS, "stale ");
    if (!draw_scroll(v, c, area, x)) draw_ways(c, area, x, ways);
    canvas_hints(c, area);
    buf_release(&b);
}

char *status_prompt(const struct view *v, bool goes_on)
{
    const struct snapshot *s = v->snapshot;
    struct buf b = { 0 };
    if (goes_on) return xstrdup("... ");
    if (s && s->waiting) buf_printf(&b, "[%zu picture%s] ", s->waiting, s->waiting > 1 ? "s" : "");
    buf_puts(&b, "vlmsh> ");
    return buf_take(&b);
}
