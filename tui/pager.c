// tui/pager.c -- wraps long texts at the width of the screen, scrolls and searches them.
#include "tui/pager.h"

#include <stdlib.h>
#include <string.h>

#include "tui/controls.h"
#include "tui/event_text.h"
#include "tui/text.h"

// --- contents ------------------------------------------------------------------------------------

void pager_close(struct view *v)
{
    struct pager *p = &v->pager;
    for (size_t i = 0; i < p->count; i++) {
        free(p->parts[i].text);
        table_copy_free(p->parts[i].table);
    }
    free(p->parts);
    free(p->title);
    flow_release(&p->shown);
    buf_release(&p->typed);
    buf_release(&p->pattern);
    *p = (struct pager){ 0 };
}

// Begins a page, or appends to an open one.
void pager_begin(struct view *v, const char *title)
{
    struct pager *p = &v->pager;
    if (!p->open) pager_close(v);
    free(p->title);
    p->title = xstrdup(title);
    p->collecting = true;
}

static void add(struct pager *p, char *text, struct table_copy *table)
{
    p->parts = xreallocarray(p->parts, p->count + 1, sizeof *p->parts);
    p->parts[p->count++] = (struct pager_part){ text, table };
    p->width = 0;
}

void pager_add_text(struct view *v, const char *text)
{
    add(&v->pager, xstrdup(text), NULL);
}

void pager_add_table(struct view *v, const struct event_table *table)
{
    add(&v->pager, NULL, table_copy_new(table));
}

void pager_end(struct view *v)
{
    v->pager.collecting = false;
    v->pager.open = v->pager.count > 0;
}

static void flow_at(struct pager *p, int width)
{
    if (p->width == width) return;
    // Keeps the reader's position when the width changes.
    const double share = p->shown.count ? (double)p->top / (double)p->shown.count : 0;
    flow_release(&p->shown);
    for (size_t i = 0; i < p->count; i++)
        if (p->parts[i].table)
            flow_add_table(&p->shown, p->parts[i].table, width);
        else
            flow_add_text(&p->shown, p->parts[i].text, width);
    p->width = width;
    p->top = (int)(share * (double)p->shown.count + 0.5);
    p->found = -1; // line numbers have changed
}

// --- scrolling and searching ---------------------------------------------------------------------

static int last_top(const struct pager *p)
{
    const int most = (int)p->shown.count - p->height;
    return most > 0 ? most : 0;
}

// Returns the line after the last visible one.
static int visible_end(const struct pager *p)
{
    const int count = (int)p->shown.count, end = p->top + p->height;
    return end < count ? end : count;
}

static void go(struct pager *p, int top)
{
    const int most = last_top(p);
    p->top = top < 0 ? 0 : top > most ? most : top;
}

static const char *pattern_of(const struct pager *p)
{
    return p->pattern.data ? p->pattern.data : "";
}

// Returns whether a match begins in this line; the match may continue in the next line.
static bool begins_in(const struct pager *p, size_t line)
{
    const char *own = p->shown.lines[line].text;
    const char *next = line + 1 < p->shown.count ? p->shown.lines[line + 1].text : "";
    char *both = xasprintf("%s %s", own, next + strspn(next, " "));
    const char *found = strcasestr(both, pattern_of(p));
    const bool here = found && (size_t)(found - both) < strlen(own);
    free(both);
    return here;
}

// Finds the first line with the pattern, from line `from` on or back, and scrolls to it if it is
// out of sight.
static void search(struct view *v, int from, bool backwards)
{
    struct pager *p = &v->pager;
    if (!p->pattern.length) {
        view_hint(v, "no search yet: / searches");
        return;
    }
    for (int i = from; i >= 0 && i < (int)p->shown.count; i += backwards ? -1 : 1) {
        if (!begins_in(p, (size_t)i)) continue;
        p->found = i;
        if (i < p->top || i >= p->top + p->height) go(p, i - p->height / 3);
        return;
    }
    view_hint(v, "no match for '%s' %s", pattern_of(p), backwards ? "above" : "below");
}

static void search_on(struct view *v, bool backwards)
{
    struct pager *p = &v->pager;
    // If the last match is out of sight, searches the visible lines first.
    const bool seen = p->found >= p->top && p->found < visible_end(p);
    const int from = seen ? p->found : backwards ? visible_end(p) : p->top - 1;
    search(v, from + (backwards ? -1 : 1), backwards);
}

bool pager_typing(const struct view *v)
{
    return v->pager.open && v->pager.typing;
}

void pager_type(struct view *v, const struct key *key)
{
    struct pager *p = &v->pager;
    if (!strcmp(key->name, "Esc") || !strcmp(key->name, "Ctrl-C") ||
        (!strcmp(key->name, "Backspace") && !p->typed.length)) {
        p->typing = false;
    } else if (!strcmp(key->name, "Enter")) {
        p->typing = false;
        if (p->typed.length) {
            buf_clear(&p->pattern);
            buf_puts(&p->pattern, p->typed.data);
            p->found = -1;
            search(v, p->top, p->backwards);
        } else { // repeats the last search
            search_on(v, p->backwards);
        }
    } else {
        field_type(&p->typed, key);
    }
}

bool pager_act(struct view *v, const char *action)
{
    struct pager *p = &v->pager;
    if (position_move(action, &p->top, last_top(p), p->height > 1 ? p->height - 1 : 1)) return true;
    if (!strcmp(action, "half-up"))
        go(p, p->top - p->height / 2);
    else if (!strcmp(action, "half-down"))
        go(p, p->top + p->height / 2);
    else if (!strncmp(action, "search", 6)) {
        p->typing = true;
        p->backwards = !strcmp(action, "search-back");
        buf_clear(&p->typed);
    } else if (!strcmp(action, "next"))
        search_on(v, p->backwards);
    else if (!strcmp(action, "previous"))
        search_on(v, !p->backwards);
    else if (!strcmp(action, "close"))
        pager_close(v);
    else
        return false;
    return true;
}

void pager_wheel(struct view *v, int button)
{
    if (button == 4) go(&v->pager, v->pager.top - 3);
    if (button == 5) go(&v->pager, v->pager.top + 3);
}

// --- drawing -------------------------------------------------------------------------------------

static void mark_pattern(const struct pager *p, struct canvas *c, struct area inner, int y,
                         const char *text)
{
    const size_t length = p->pattern.length;
    for (const char *at = text; length && (at = strcasestr(at, pattern_of(p))); at += length) {
        char *before = xstrndup(text, (size_t)(at - text)), *match = xstrndup(at, length);
        const int x = text_width(before);
        canvas_style(c, inner, x, y, text_width(match), STYLE_MATCH);
        free(before);
        free(match);
        if (x >= inner.width) break;
    }
}

void pager_draw(struct view *v, struct canvas *c, struct area area)
{
    struct pager *p = &v->pager;
    canvas_fill(c, area, STYLE_TEXT, ' ');
    c->hint_count = 0; // panels get no keys
    struct area inner = canvas_box(c, area, p->title, true);
    if (inner.width > 20) inner.x++, inner.width -= 2;
    c->cursor_x = c->cursor_y = -1;
    flow_at(p, inner.width);
    p->height = inner.height;
    go(p, p->top);
    for (int y = 0; y < inner.height && p->top + y < (int)p->shown.count; y++) {
        const struct flow_line *line = &p->shown.lines[p->top + y];
        const int x = canvas_text_n(c, inner, 0, y, STYLE_KEY, line->text, line->term);
        canvas_text(c, inner, x, y, STYLE_TEXT, line->text + line->term);
        mark_pattern(p, c, inner, y, line->text);
    }
    // The visible lines, in the upper right corner: "13-36/120".
    char *place = xasprintf(" %d-%d/%zu ", p->top + 1, visible_end(p), p->shown.count);
    const int x = area.width - text_width(place) - 2;
    if (x > text_width(p->title) + 5) canvas_text(c, area, x, 0, STYLE_DIM, place);
    free(place);
    if (p->typing) field_draw(c, area, p->backwards ? " ?" : " /", &p->typed);
}
