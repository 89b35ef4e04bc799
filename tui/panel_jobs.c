// tui/panel_jobs.c -- jobs as a table of the columns that fit; below it, the selected job's last
// numbers and curves. Marked jobs are compared: their losses join the first chart.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/pace.h"
#include "core/base/text.h"
#include "core/jobs/job.h"
#include "core/methods/method.h"
#include "tui/chart.h"
#include "tui/controls.h"
#include "tui/panel.h"
#include "tui/text.h"

static const struct job_row *row_at(const struct jobs_view *j, size_t index)
{
    return j->news && index < j->shown_count ? &j->news->rows[j->shown[index]] : NULL;
}

static bool is_marked(const struct jobs_view *j, int64_t id)
{
    bool marked = false;
    for (int i = 0; i < JOBS_MARKED; i++) marked |= j->wanted.marked[i] == id;
    return marked;
}

// --- cells ---------------------------------------------------------------------------------------

enum { CELL_WIDTH = 24, CELL = 4 * CELL_WIDTH + 1 }; // columns; bytes: UTF-8 has at most 4 for each

// Returns the file name in the first argument with a slash or dot that is no option, else the first
// argument; "" without arguments.
static const char *data_of(const struct job_row *row)
{
    for (int i = 0; i < row->argc; i++)
        if (row->argv[i][0] != '-' && strpbrk(row->argv[i], "/."))
            return text_file_name(row->argv[i]);
    return row->argc ? row->argv[0] : "";
}

// Writes what the job trains, and the badges of the methods that are on in it.
static void put_method(struct buf *b, const struct job_row *row)
{
    const struct method *m;
    if (!strcmp(row->kind, "train")) buf_puts(b, settings_text(row->settings, "train.method"));
    for (int i = 0; (m = method_shown(i)); i++) {
        if (!method_on(m, row->settings)) continue;
        if (b->length) buf_putc(b, ' ');
        m->badge(b, row->settings, -1);
    }
}

enum column { ID, KIND, STATE, METHOD, DATA, PROGRESS, LEFT, RATE, LOSS, MEMORY, COLUMNS };

// If not all columns fit, those of the lowest ranks are shown.
static const struct {
    const char *title;
    int rank;
    bool right;
} columns[COLUMNS] = {
    [ID] = { "job", 0, true },       [KIND] = { "kind", 0, false },
    [STATE] = { "state", 0, false }, [METHOD] = { "method", 5, false },
    [DATA] = { "data", 3, false },   [PROGRESS] = { "progress", 0, false },
    [LEFT] = { "left", 2, true },    [RATE] = { "steps/s", 6, true },
    [LOSS] = { "loss", 1, true },    [MEMORY] = { "memory", 4, true },
};

// Returns whether the job has begun to count its steps: before, it loads models and data.
static bool has_steps(const struct job_row *row)
{
    return row->steps > 0 && row->step >= 0;
}

static void put_cell(char to[CELL], enum column column, const struct jobs_view *j, size_t index)
{
    const struct job_row *row = row_at(j, index);
    const double memory = j->news->memory[j->shown[index]];
    struct buf b = { 0 };
    char left[PACE_TEXT];
    const bool runs = row->state == STATE_RUNNING && isfinite(row->eta_s) && row->eta_s >= 0;
    const double rest = row->steps - row->step;
    switch (column) {
    case ID: buf_printf(&b, "%s%" PRId64, is_marked(j, row->id) ? "*" : "", row->id); break;
    case KIND: buf_puts(&b, row->kind); break;
    case STATE: buf_puts(&b, job_state_name(row->state)); break;
    case METHOD: put_method(&b, row); break;
    case DATA: buf_puts(&b, data_of(row)); break;
    case PROGRESS:
        if (has_steps(row))
            buf_printf(&b, "%3.0f%%", 100 * row->step / row->steps);
        else if (row->state == STATE_RUNNING)
            buf_puts(&b, "starting");
        break;
    case LEFT:
        if (runs) buf_puts(&b, pace_text(left, row->eta_s));
        break;
    case RATE:
        if (runs && row->eta_s > 0 && rest > 0) buf_printf(&b, "%.3g", rest / row->eta_s);
        break;
    case LOSS:
        if (isfinite(row->loss)) buf_printf(&b, "%.4g", row->loss);
        break;
    case MEMORY:
        if (memory > 0) buf_printf(&b, "%.0f MB", memory / (1 << 20));
        break;
    case COLUMNS: break;
    }
    const size_t n = b.length ? text_fit(b.data, CELL_WIDTH) : 0;
    snprintf(to, CELL, "%.*s", (int)n, n ? b.data : "");
    buf_release(&b);
}

// --- the table -----------------------------------------------------------------------------------

enum { GAP = 2, BAR = 8, WIDE_BAR = 16 };

struct table {
    int width[COLUMNS]; // 0: left out
    int bar;
};

// Chooses columns by rank, as far as they fit. Columns of rank 0 are shown even without values.
static struct table fit_columns(const struct jobs_view *j, int width)
{
    struct table t = { .bar = width > 100 ? WIDE_BAR : BAR };
    char cell[CELL];
    int left = width + GAP;
    for (int rank = 0; rank < COLUMNS; rank++)
        for (int k = 0; k < COLUMNS; k++) {
            if (columns[k].rank != rank) continue;
            int wide = text_width(columns[k].title);
            bool any = !rank;
            for (size_t i = 0; i < j->shown_count; i++) {
                put_cell(cell, k, j, i);
                const bool bar = k == PROGRESS && has_steps(row_at(j, i));
                const int own = text_width(cell) + (bar ? t.bar + 1 : 0);
                any |= own > 0;
                if (own > wide) wide = own;
            }
            if (!any || wide + GAP > left) continue;
            t.width[k] = wide;
            left -= wide + GAP;
        }
    return t;
}

static void draw_row(const struct jobs_view *j, struct canvas *c, struct area line,
                     const struct table *t, size_t index, bool selected)
{
    const struct job_row *row = row_at(j, index);
    const enum style style = is_marked(j, row->id)         ? STYLE_CHANGED
                             : row->state == STATE_RUNNING ? STYLE_TEXT
                                                           : STYLE_DIM;
    int bar_x = -1;
    char cell[CELL];
    for (int k = 0, x = 0; k < COLUMNS; x += t->width[k] ? t->width[k] + GAP : 0, k++) {
        if (!t->width[k]) continue;
        put_cell(cell, k, j, index);
        const bool bar = k == PROGRESS && has_steps(row);
        if (bar) bar_x = x;
        const int at = columns[k].right ? t->width[k] - text_width(cell) : bar ? t->bar + 1 : 0;
        canvas_text(c, line, x + at, 0, style, cell);
    }
    if (selected) canvas_style(c, line, 0, 0, line.width, STYLE_SELECTED);
    // Drawn last, over the style of the selection.
    if (bar_x >= 0) canvas_bar(c, line, bar_x, 0, t->bar, row->step / row->steps);
}

static void draw_titles(struct canvas *c, struct area line, const struct table *t)
{
    for (int k = 0, x = 0; k < COLUMNS; x += t->width[k] ? t->width[k] + GAP : 0, k++) {
        const int at = columns[k].right ? t->width[k] - text_width(columns[k].title) : 0;
        if (t->width[k]) canvas_text(c, line, x + at, 0, STYLE_TITLE, columns[k].title);
    }
}

// --- curves --------------------------------------------------------------------------------------

// Returns whether two series share a chart: their names agree up to a dot, apart from the prefix
// "validation_".
static bool share_chart(const char *a, const char *b)
{
    static const char validation[] = "validation_";
    const size_t n = sizeof validation - 1;
    if (!strncmp(a, validation, n)) a += n;
    if (!strncmp(b, validation, n)) b += n;
    const size_t length = strcspn(a, ".");
    return length == strcspn(b, ".") && !strncmp(a, b, length);
}

// Returns whether the curve is the first one of its chart, and has at least two points.
static bool begins_chart(const struct jobs_news *n, size_t curve)
{
    for (size_t i = 0; i < curve; i++)
        if (share_chart(n->curves[i].name, n->curves[curve].name)) return false;
    return n->curves[curve].curve.count > 1;
}

static int chart_count(const struct jobs_news *n)
{
    int count = 0;
    for (size_t i = 0; i < n->curve_count; i++) count += begins_chart(n, i);
    return count;
}

// Draws the curves that share the chart of `curve`, with their names above.
static void draw_chart(const struct jobs_news *n, size_t curve, struct canvas *c, struct area area)
{
    enum { CURVES = STYLE_CURVE4 - STYLE_CURVE1 + 1 };
    double min = INFINITY, max = -INFINITY, begin = INFINITY, end = -INFINITY;
    size_t members[CURVES];
    int count = 0;
    for (size_t i = curve; i < n->curve_count && count < CURVES; i++) {
        const struct curve *k = &n->curves[i].curve;
        if (!k->count || !share_chart(n->curves[i].name, n->curves[curve].name)) continue;
        members[count++] = i;
        begin = fmin(begin, (double)k->steps[0]);
        end = fmax(end, (double)k->steps[k->count - 1]);
        for (size_t p = 0; p < k->count; p++) {
            if (!isfinite(k->values[p])) continue;
            min = fmin(min, k->values[p]);
            max = fmax(max, k->values[p]);
        }
    }
    if (!(max >= min)) return;
    int x = canvas_printf(c, area, 0, 0, STYLE_TITLE, "job %" PRId64 ":", n->job) + 1;
    for (int m = 0; m < count; m++) {
        const struct job_curve *k = &n->curves[members[m]];
        const enum style style = (enum style)(STYLE_CURVE1 + m);
        x = k->job == n->job ? canvas_text(c, area, x, 0, style, k->name)
                             : canvas_printf(c, area, x, 0, style, "job %" PRId64, k->job);
        x += 2;
    }
    const struct area inner = { area.x, area.y + 1, area.width, area.height - 1 };
    const struct chart chart = chart_begin(c, inner, begin, end, min, max);
    for (int m = count; m-- > 0;) { // the first curve is on top
        const struct curve *k = &n->curves[members[m]].curve;
        double *at = xreallocarray(NULL, k->count, sizeof *at);
        for (size_t i = 0; i < k->count; i++) at[i] = (double)k->steps[i];
        chart_crowd(&chart, (enum style)(STYLE_CURVE1 + m), at, k->values, k->count);
        free(at);
    }
}

// Draws as many charts as fit side by side and below each other, from chart number `first` on.
static void draw_charts(const struct jobs_view *j, struct canvas *c, struct area area)
{
    enum { WIDE = 44, TALL = 8 };
    const struct jobs_news *n = j->news;
    const int count = chart_count(n);
    if (!count || area.height < 4) return;
    int across = area.width / WIDE, down = area.height / TALL;
    across = across < 1 ? 1 : across > count ? count : across;
    down = down < 1 ? 1 : down;
    const int needed = (count + across - 1) / across;
    if (down > needed) down = needed;
    const int width = area.width / across, height = area.height / down;
    const int first = across * down < count ? j->first % count : 0;
    int number = 0;
    for (size_t i = 0; i < n->curve_count; i++) {
        if (!begins_chart(n, i)) continue;
        const int at = (number++ - first + count) % count;
        if (at >= across * down) continue;
        draw_chart(n, i, c,
                   (struct area){ area.x + at % across * width, area.y + at / across * height,
                                  width - (at % across + 1 < across ? GAP : 0), height });
    }
}

// Draws the last value of each series, or the results of a job without series; returns the number
// of lines.
static int draw_last(const struct jobs_news *n, struct canvas *c, struct area area)
{
    struct buf b = { 0 };
    for (size_t i = 0; i < n->curve_count; i++) {
        const struct job_curve *k = &n->curves[i];
        size_t last = k->curve.count;
        while (last && !isfinite(k->curve.values[last - 1])) last--;
        if (k->job == n->job && last)
            buf_printf(&b, "%s%s %.4g", b.length ? "  " : "", k->name, k->curve.values[last - 1]);
    }
    for (size_t i = 0; !n->curve_count && i < n->result_count; i++)
        buf_printf(&b, "%s%s: %s", b.length ? "  " : "", n->results[i].key, n->results[i].value);
    if (b.length) canvas_text(c, area, 0, 0, STYLE_DIM, b.data);
    const int lines = b.length > 0;
    buf_release(&b);
    return lines;
}

// --- drawing -------------------------------------------------------------------------------------

static bool matches(const struct jobs_view *j, const struct job_row *row)
{
    const char *words[] = { row->kind, job_state_name(row->state), data_of(row) };
    struct buf b = { 0 };
    put_method(&b, row);
    bool found = !j->filter.length || (b.length && strcasestr(b.data, j->filter.data));
    for (size_t i = 0; i < sizeof words / sizeof words[0] && !found; i++)
        found = strcasestr(words[i], j->filter.data) != NULL;
    buf_release(&b);
    return found;
}

// Lists the rows that match the filter; the selection stays on its job.
static void list_rows(struct jobs_view *j)
{
    const struct jobs_news *n = j->news;
    j->shown = xreallocarray(j->shown, n->count + 1, sizeof *j->shown);
    j->shown_count = 0;
    bool found = false;
    for (size_t i = 0; i < n->count; i++) {
        if (!matches(j, &n->rows[i])) continue;
        if (n->rows[i].id == j->wanted.job) j->selected = j->shown_count, found = true;
        j->shown[j->shown_count++] = i;
    }
    if (!found && j->selected >= j->shown_count)
        j->selected = j->shown_count ? j->shown_count - 1 : 0;
}

static void draw(struct view *v, struct canvas *c, struct area area, bool focused)
{
    struct jobs_view *j = &v->jobs;
    if (!j->news || !j->news->count) {
        canvas_text(c, area, 0, 0, STYLE_DIM, "no jobs yet: /train, /calibrate");
        canvas_text(c, area, 0, 1, STYLE_DIM, "and /eval start one");
        return;
    }
    list_rows(j);
    const struct table t = fit_columns(j, area.width);
    const int titles = area.height >= 8;
    const bool curves = area.height >= 8 && (j->news->curve_count || j->news->result_count);
    int room = curves ? area.height / 3 : area.height - titles;
    if (room > (int)j->shown_count) room = (int)j->shown_count;
    if (room < 1) room = 1;
    j->height = room;
    if (j->selected < j->top) j->top = j->selected;
    if (j->selected >= j->top + (size_t)room) j->top = j->selected - (size_t)room + 1;
    if (titles) draw_titles(c, area, &t);
    for (int i = 0; i < room && j->top + (size_t)i < j->shown_count; i++)
        draw_row(j, c, (struct area){ area.x, area.y + titles + i, area.width, 1 }, &t,
                 j->top + (size_t)i, focused && j->top + (size_t)i == j->selected);
    if (!j->shown_count)
        canvas_printf(c, area, 0, titles, STYLE_DIM, "no job matches '%s'", j->filter.data);
    if (curves) {
        struct area below = { area.x, area.y + titles + room, area.width,
                              area.height - titles - room };
        const int used = draw_last(j->news, c, below);
        below.y += used;
        below.height -= used;
        draw_charts(j, c, below);
    }
    if (j->filtering && focused) field_draw(c, area, "filter: ", &j->filter);
}

// --- keys ----------------------------------------------------------------------------------------

// Marks a job for comparison, or removes its mark.
static void mark(struct view *v, int64_t id)
{
    int64_t *marked = v->jobs.wanted.marked;
    const bool is = is_marked(&v->jobs, id);
    for (int i = 0; i < JOBS_MARKED; i++) {
        if (marked[i] != (is ? id : 0)) continue;
        marked[i] = is ? 0 : id;
        return;
    }
    view_hint(v, "at most %d jobs can be marked", JOBS_MARKED);
}

// Requests a plot of the losses of this job and the marked ones, in the conversation.
static void compare(struct view *v, int64_t id)
{
    struct buf b = { 0 };
    buf_printf(&b, "/plot %" PRId64, id);
    for (int i = 0; i < JOBS_MARKED; i++)
        if (v->jobs.wanted.marked[i] && v->jobs.wanted.marked[i] != id)
            buf_printf(&b, " %" PRId64, v->jobs.wanted.marked[i]);
    view_run(v, false, "%s loss", b.data);
    buf_release(&b);
}

static unsigned act(struct view *v, const char *action)
{
    static const char *const requests[] = { "pause", "resume", "cancel", NULL };
    static const char *const others[] = { "mark", "compare", "unit", "show", "log", NULL };
    struct jobs_view *j = &v->jobs;
    if (j->news) list_rows(j); // the news may be newer than the last frame
    const struct job_row *row = row_at(j, j->selected);
    int at = (int)j->selected;
    if (!strcmp(action, "back") && j->filter.length) {
        buf_clear(&j->filter);
    } else if (!strcmp(action, "back")) {
        return PANEL_DONE | PANEL_BACK;
    } else if (!strcmp(action, "filter")) {
        j->filtering = true;
        buf_clear(&j->filter);
    } else if (!row) {
        return text_listed(requests, action) || text_listed(others, action) ||
                       position_move(action, &at, 0, 1)
                   ? PANEL_DONE
                   : PANEL_IGNORED;
    } else if (position_move(action, &at, (int)j->shown_count - 1, j->height)) {
        j->selected = (size_t)at;
        j->wanted.job = row_at(j, j->selected)->id;
        j->first = 0;
    } else if (!strcmp(action, "mark")) {
        mark(v, row->id);
    } else if (!strcmp(action, "compare")) {
        compare(v, row->id);
    } else if (!strcmp(action, "unit")) {
        j->first++;
    } else if (!strcmp(action, "show")) {
        view_run(v, false, "/job %" PRId64, row->id);
    } else if (!strcmp(action, "log")) {
        view_run(v, false, "/job %" PRId64 " log", row->id);
    } else if (text_listed(requests, action)) {
        view_run(v, true, "/job %" PRId64 " %s", row->id, action);
    } else {
        return PANEL_IGNORED;
    }
    return PANEL_DONE;
}

static bool typing(const struct view *v)
{
    return v->jobs.filtering;
}

static void type(struct view *v, const struct key *key)
{
    struct jobs_view *j = &v->jobs;
    if (field_type(&j->filter, key)) return;
    if (!strcmp(key->name, "Esc")) buf_clear(&j->filter);
    if (!strcmp(key->name, "Esc") || !strcmp(key->name, "Enter")) j->filtering = false;
}

static void click(struct view *v, struct area area, int x, int y, int button)
{
    struct jobs_view *j = &v->jobs;
    const int titles = area.height >= 8;
    if (j->news) list_rows(j);
    if (button == 4) act(v, "up");
    if (button == 5) act(v, "down");
    const size_t at = j->top + (size_t)(y - titles);
    if (button != 1 || y < titles || y - titles >= j->height || at >= j->shown_count) return;
    if (j->selected == at && j->wanted.job == row_at(j, at)->id)
        mark(v, j->wanted.job); // the second click on a job
    j->selected = at;
    j->wanted.job = row_at(j, at)->id;
}

const struct panel panel_jobs = {
    .name = "jobs",
    .title = "jobs",
    .min_width = 30,
    .min_height = 4,
    .draw = draw,
    .act = act,
    .typing = typing,
    .type = type,
    .click = click,
};
