// tui/status.c -- draws the parts of the status line that fit.
#include "tui/status.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/pace.h"
#include "core/methods/method.h"
#include "tui/text.h"

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
        m->badge(&b, v->settings,
                 v->snapshot && i < v->snapshot->method_count
                     ? v->snapshot->methods[i].default_layer
                     : -1);
        x = draw_badge(c, area, x, b.data);
        buf_release(&b);
    }
    if (settings_is(v->settings, "adapter", "none")) return x;
    const bool seeing = settings_is(v->settings, "adapter.when", "pictures");
    return draw_badge(c, area, x, seeing ? "ADAPTER pictures" : "ADAPTER");
}

// Draws the running line: a spinner, progress, the number of queued lines.
static int draw_work(const struct view *v, struct canvas *c, struct area area, int x)
{
    static const char signs[] = "|/-\\";
    x = canvas_printf(c, area, x, 0, STYLE_STATUS, " %c", signs[(int)(clock_seconds() * 6) % 4]);
    if (v->loading && v->progress_what) {
        char left[PACE_TEXT];
        x = canvas_printf(c, area, x, 0, STYLE_STATUS, " %s ", v->progress_what);
        canvas_bar(c, area, x, 0, 10, v->progress);
        x = canvas_printf(c, area, x + 10, 0, STYLE_STATUS, " %.0f%%", 100 * v->progress);
        if (v->progress_left > 0)
            x = canvas_printf(c, area, x, 0, STYLE_STATUS, ", %s left",
                              pace_text(left, v->progress_left));
    }
    if (v->waiting) x = canvas_printf(c, area, x, 0, STYLE_STATUS, " +%d waiting", v->waiting);
    return x;
}

enum { WIDE = 100 };

static int draw_speed(const struct view *v, struct canvas *c, struct area area, int x)
{
    struct buf b = { 0 };
    if (v->answering && !v->first) {
        buf_printf(&b, "  prefill %.1f s", clock_seconds() - v->asked);
    } else if (v->answering) {
        const double took = v->last - v->first;
        if (took > 0) buf_printf(&b, "  %.1f tok/s", (double)(v->tokens - 1) / took);
        buf_printf(&b, "  first %.2f s", v->first - v->asked);
    } else if (v->rate > 0) {
        buf_printf(&b, "  %.1f tok/s", v->rate);
        // On narrow screens, the names of keys need the place more.
        if (area.width >= WIDE) buf_printf(&b, "  first %.2f s", v->first_s);
    }
    if (b.data && x + text_width(b.data) < area.width)
        x = canvas_text(c, area, x, 0, STYLE_STATUS, b.data);
    buf_release(&b);
    return x;
}

static int draw_context(const struct view *v, struct canvas *c, struct area area, int x)
{
    const struct engine_context *k = &v->snapshot->context;
    int64_t used = k->text + k->visual + k->waiting_visual;
    if (v->answering) used += (int64_t)v->tokens;
    x = canvas_text(c, area, x, 0, STYLE_STATUS, "  ");
    canvas_bar(c, area, x, 0, 8, (double)used / (double)k->limit);
    return canvas_printf(c, area, x + 8, 0, STYLE_STATUS, " %lld/%lld", (long long)used,
                         (long long)k->limit);
}

// Draws the first running job, with the key that shows it, and the number of others.
static int draw_jobs(const struct view *v, struct canvas *c, struct area area, int x)
{
    const struct jobs_news *n = v->jobs.news;
    const struct job_row *first = NULL;
    int more = -1;
    for (size_t i = 0; n && i < n->count; i++) {
        if (n->rows[i].state != STATE_RUNNING) continue;
        if (!first) first = &n->rows[i];
        more++;
    }
    if (!first || x + 30 > area.width) return x;
    x = canvas_printf(c, area, x, 0, STYLE_STATUS, "  F6 job %lld", (long long)first->id);
    if (first->steps > 0 && first->step >= 0)
        x = canvas_printf(c, area, x, 0, STYLE_STATUS, " %.0f%%", 100 * first->step / first->steps);
    return more ? canvas_printf(c, area, x, 0, STYLE_STATUS, " +%d", more) : x;
}

// Draws right of x: if the conversation is scrolled up, the number of lines below; otherwise as
// many key hints as fit, the first at the right edge.
static void draw_right(const struct view *v, struct canvas *c, struct area area, int x,
                       const char *ways)
{
    const int lines = v->chat.scroll;
    char *text = xasprintf(" %d line%s below: PageDown ", lines, lines == 1 ? "" : "s");
    const int at = area.width - text_width(text) - 1;
    const bool scrolled = lines && x + 1 < at;
    if (scrolled) canvas_text(c, area, at, 0, STYLE_MATCH, text);
    free(text);
    for (int end = area.width - 1; *ways && !scrolled;) {
        const char *next = strstr(ways, "  ");
        const size_t length = next ? (size_t)(next - ways) : strlen(ways);
        const int begin = end - (int)length;
        if (x + 1 >= begin) return;
        canvas_text_n(c, area, begin, 0, STYLE_STATUS, ways, length);
        end = begin - 2;
        ways += length + strspn(ways + length, " ");
    }
}

void status_draw(const struct view *v, struct canvas *c, struct area area, const char *ways)
{
    enum { NAME = 28 };
    const struct snapshot *s = v->snapshot;
    const char *name = s && s->model ? s->model : "no model";
    const bool whole = text_width(name) <= NAME;
    const int length = (int)(whole ? strlen(name) : text_fit(name, NAME - 1));
    const char *cut = c->ascii ? "~" : "…";
    canvas_fill(c, area, STYLE_STATUS, ' ');
    int x = canvas_printf(c, area, 1, 0, STYLE_STATUS, "%.*s%s %s", length, name, whole ? "" : cut,
                          s ? s->device : "");
    if (v->busy) x = draw_work(v, c, area, x);
    x = draw_speed(v, c, area, x);
    if (s && s->counted && s->context.limit > 0 && x + 24 <= area.width)
        x = draw_context(v, c, area, x);
    const double megabytes = s ? s->memory / (1 << 20) : 0;
    char *memory = megabytes >= 1024 ? xasprintf("  %.1f GB", megabytes / 1024)
                                     : xasprintf("  %.0f MB", megabytes);
    if (megabytes > 0 && x + text_width(memory) < area.width)
        x = canvas_text(c, area, x, 0, STYLE_STATUS, memory);
    free(memory);
    if (!v->answering && v->rate > 0 && v->drafts >= 0 && area.width >= WIDE &&
        x + 24 <= area.width)
        x = canvas_printf(c, area, x, 0, STYLE_STATUS, "  drafts %.0f%%", 100 * v->drafts);
    x = draw_jobs(v, c, area, x);
    x = draw_badges(v, c, area, x + 2);
    if (v->stale && x + 7 < area.width) x = canvas_text(c, area, x, 0, STYLE_STATUS, "stale ");
    draw_right(v, c, area, x, ways);
    canvas_hints(c, area);
}

char *status_prompt(const struct view *v, bool continues)
{
    const struct snapshot *s = v->snapshot;
    struct buf b = { 0 };
    if (continues) return xstrdup("... ");
    if (s && s->waiting) buf_printf(&b, "[%zu picture%s] ", s->waiting, s->waiting > 1 ? "s" : "");
    buf_puts(&b, "vlmsh> ");
    return buf_take(&b);
}
