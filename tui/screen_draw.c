// tui/screen_draw.c -- draws one frame: panels, status line, input line, and overlays.
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "tui/complete.h"
#include "tui/list.h"
#include "tui/pager.h"
#include "tui/screen_parts.h"
#include "tui/status.h"
#include "tui/text.h"
#include "tui/wrap.h"

static bool is_text_only(const struct view *v)
{
    return v->snapshot && v->snapshot->model && !v->snapshot->has_vision;
}

int screen_hidden(const struct view *v)
{
    return is_text_only(v) && !v->image.map_count ? PANEL_image : PANEL_NONE;
}

int screen_layout(const struct screen *s, int columns)
{
    const char *name = view_setting(s->view, "screen.layout");
    if (s->layout >= 0) return s->layout;
    if (s->remembered && !strcmp(name, "auto")) name = s->remembered;
    // A conversation with a text-only model has the whole width.
    if (!strcmp(name, "auto") && screen_hidden(s->view) != PANEL_NONE) name = "chat";
    return screen_layout_find(name, columns);
}

const char *screen_context(const struct screen *s)
{
    if (s->view->list.kind != LIST_NONE) return "list";
    if (s->view->pager.open) return "pager";
    return s->focus == PANEL_NONE ? "input" : panel_at(s->focus)->name;
}

bool screen_covered(const struct screen *s)
{
    return s->view->list.kind != LIST_NONE || s->view->pager.open;
}

static int input_height(const struct screen *s, const struct canvas *c)
{
    char *label = status_prompt(s->view, typed_open(&s->typed));
    const int need = s->prompt ? prompt_lines(s->prompt, c->columns, label) : 1;
    const int most = c->lines > 6 ? c->lines / 3 : 1;
    free(label);
    return need < most ? need : most;
}

struct area screen_panels_area(const struct screen *s, const struct canvas *c)
{
    const int used = input_height(s, c) + 1;
    return (struct area){ 0, 0, c->columns, c->lines > used ? c->lines - used : 0 };
}

// --- parts ---------------------------------------------------------------------------------------

static void draw_panel(struct screen *s, struct canvas *c, const struct placed_panel *p, bool alone)
{
    const struct panel *panel = panel_at(p->panel);
    const bool focused = p->panel == s->focus && !screen_covered(s);
    struct area inner = p->area;
    if (p->over) canvas_fill(c, p->area, STYLE_TEXT, ' ');
    // The conversation has no frame if it is the only panel and not focused; small areas have none.
    const bool bare = (alone && p->panel == PANEL_chat && !focused) || inner.height < 3;
    if (!bare) inner = canvas_box(c, p->area, panel->title, focused);
    if (!bare && focused) {
        const bool field = panel->typing && panel->typing(s->view);
        char *hints =
            field ? xstrdup("Esc: cancel  Enter: accept") : keys_hints(s->keys, panel->name);
        canvas_foot(c, p->area, hints);
        free(hints);
    }
    if (inner.width > 0 && inner.height > 0) panel->draw(s->view, c, inner, focused);
}

// Draws the picture attached to the next message as a thumbnail if no panel shows it: over the
// oldest lines of the conversation, until another entry is added.
static void draw_thumbnail(const struct screen *s, struct canvas *c, struct area panels,
                           const struct placed_panel *placed, int count)
{
    enum { WIDTH = 28, HEIGHT = 12 };
    const struct image_view *i = &s->view->image;
    const struct snapshot *now = s->view->snapshot;
    const struct preview *p = i->picture_count ? i->pictures[i->picture_count - 1] : NULL;
    if (!now || !now->waiting || !s->view->attached || !p || !p->image.pixels || screen_covered(s))
        return;
    if (panels.width < 2 * WIDTH || panels.height < HEIGHT + 4) return;
    for (int k = 0; k < count; k++)
        if (placed[k].panel == PANEL_image) return;
    const struct area box = { panels.width - WIDTH, 0, WIDTH, HEIGHT };
    char *title =
        now->waiting > 1 ? xasprintf("attached (last of %zu)", now->waiting) : xstrdup("attached");
    canvas_fill(c, box, STYLE_TEXT, ' ');
    picture_draw(p, c, canvas_box(c, box, title, false));
    free(title);
}

// Draws Tab's candidates in columns above the status line, and above them the help of the chosen
// one.
static void draw_menu(const struct screen *s, struct canvas *c, int bottom)
{
    char *const *list;
    const size_t count = s->prompt ? prompt_offers(s->prompt, &list) : 0;
    size_t longest = 8;
    if (!count) return;
    for (size_t i = 0; i < count; i++)
        if (strlen(list[i]) > longest) longest = strlen(list[i]);
    const int width = (int)longest + 2 < c->columns ? (int)longest + 2 : c->columns;
    const int across = c->columns / width > 0 ? c->columns / width : 1;
    int lines = ((int)count + across - 1) / across;
    if (lines > c->lines / 3) lines = c->lines / 3;
    if (lines < 1 || bottom - lines < 0) return;
    const struct area area = { 0, bottom - lines, c->columns, lines };
    const char *typed = prompt_typed(s->prompt);
    size_t m = strlen(typed);
    while (m && strchr(" \"", typed[m - 1])) m--; // added by completion
    const char *help = NULL;                      // of the chosen candidate
    canvas_fill(c, area, STYLE_STATUS, ' ');
    for (int i = 0; i < (int)count && i < lines * across; i++) {
        const struct area cell = { i % across * width, area.y + i / across, width - 1, 1 };
        const size_t n = strlen(list[i]);
        const bool chosen = m >= n && !memcmp(typed + m - n, list[i], n);
        if (chosen && !help) help = complete_help(typed, list[i]);
        canvas_text(c, cell, 1, 0, chosen ? STYLE_MATCH : STYLE_STATUS, list[i]);
    }
    const int left = (int)count - lines * across;
    if (left > 0)
        canvas_printf(c, area, c->columns - 14, lines - 1, STYLE_STATUS, " %d more ", left);
    if (!help || !area.y) return;
    const struct area above = { 0, area.y - 1, c->columns, 1 };
    const bool whole = text_width(help) + 2 <= c->columns;
    canvas_fill(c, above, STYLE_MATCH, ' ');
    canvas_printf(c, above, 1, 0, STYLE_MATCH, "%.*s%s",
                  (int)text_fit(help, c->columns - (whole ? 2 : 5)), help, whole ? "" : "...");
}

// Draws the hint above the status line, on up to three lines. A short command line of a key covers
// only its own width, so that the frame or text beside it stays visible: on the left, or on the
// right if the lowest panel spans all columns (`spans`).
static void draw_hint(const struct screen *s, struct canvas *c, int bottom, bool spans)
{
    enum { MOST = 3 };
    const struct view *v = s->view;
    if (!v->hint || bottom < 1) return;
    const bool key = v->key_line && !strncmp(v->hint, v->key_line, strlen(v->key_line));
    const int width = text_width(v->hint) + 2;
    if (key && width < c->columns / 2) {
        const struct area line = { spans ? c->columns - width : 0, bottom - 1, width, 1 };
        canvas_fill(c, line, STYLE_MATCH, ' ');
        canvas_text(c, line, 1, 0, STYLE_MATCH, v->hint);
        return;
    }
    struct wrap w = wrap_begin_marked(s->view->hint, c->columns - 2);
    int lines = wrap_count(s->view->hint, c->columns - 2);
    if (lines > MOST) lines = MOST;
    if (lines > bottom) lines = bottom;
    for (int y = bottom - lines; y < bottom && wrap_next(&w); y++) {
        const struct area line = { 0, y, c->columns, 1 };
        canvas_fill(c, line, STYLE_MATCH, ' ');
        canvas_text_n(c, line, 1, 0, STYLE_MATCH, w.line, w.length);
        canvas_hints(c, line);
    }
}

// Removes one of the hints, which are separated by two spaces.
static void remove_part(char *hints, const char *part)
{
    char *at = strstr(hints, part);
    if (!at) return;
    const char *behind = at + strlen(part);
    behind += strspn(behind, " ");
    memmove(at, behind, strlen(behind) + 1);
}

void screen_draw(struct screen *s, struct canvas *c)
{
    struct placed_panel placed[PANEL_COUNT];
    const int height = input_height(s, c), bottom = c->lines - height - 1;
    const struct area panels = screen_panels_area(s, c);
    canvas_clear(c);
    s->view->image.strip.height = 0;
    s->view->image.map_area = (struct area){ 0 };
    s->view->waiting = s->worker ? worker_waiting(s->worker) : 0;

    const int count = layout_place(screen_layout(s, c->columns), s->focus, screen_hidden(s->view),
                                   panels, placed);
    for (int i = 0; i < count && panels.height; i++) draw_panel(s, c, &placed[i], count == 1);

    char *ways = keys_hints(s->keys, "all");
    if (is_text_only(s->view)) remove_part(ways, "Ctrl-O picture");
    char *page = keys_hints(s->keys, "pager");
    char *label = status_prompt(s->view, typed_open(&s->typed));
    if (bottom >= 0) status_draw(s->view, c, (struct area){ 0, bottom, c->columns, 1 }, ways);
    if (s->prompt)
        prompt_draw(s->prompt, c, (struct area){ 0, c->lines - height, c->columns, height }, label,
                    s->focus == PANEL_NONE && !screen_covered(s));

    draw_thumbnail(s, c, panels, placed, count);
    if (s->view->pager.open && panels.height >= 3) {
        pager_draw(s->view, c, panels);
        if (!pager_typing(s->view)) canvas_foot(c, panels, page);
    }
    free(ways);
    free(page);
    free(label);
    draw_menu(s, c, bottom);
    draw_hint(s, c, bottom, count && placed[count - 1].area.width == c->columns);
    if (s->view->list.kind != LIST_NONE)
        list_draw(s->view, c, (struct area){ 0, 0, c->columns, c->lines });
}

// Asks for movements of the mouse only while they have an effect: each report takes a few bytes,
// which matter over ssh.
static enum terminal_mouse mouse_wanted(const struct screen *s)
{
    const struct view *v = s->view;
    const bool map = v->image.map_area.width > 0 && view_map(v) && !screen_covered(s);
    if (!settings_flag(v->settings, "screen.mouse")) return MOUSE_NONE;
    return map && settings_flag(v->settings, "screen.hover") ? MOUSE_MOVES : MOUSE_CLICKS;
}

void screen_show(struct screen *s)
{
    int lines, columns;
    terminal_size(s->terminal, &lines, &columns);
    if (lines != s->canvas.lines || columns != s->canvas.columns)
        canvas_resize(&s->canvas, lines, columns);
    terminal_prepare(s->terminal, &s->canvas, view_setting(s->view, "screen.graphics"));
    s->canvas.painter = s->painter;
    screen_draw(s, &s->canvas);
    atomic_store(&s->text_columns, s->view->chat.width);
    terminal_show(s->terminal, &s->canvas,
                  theme_on(theme_find(view_setting(s->view, "screen.theme")),
                           terminal_background(s->terminal)));
    terminal_mouse(s->terminal, mouse_wanted(s));
    if (s->worker) screen_apply(s); // panels may have found that maps are missing
    s->dirty = false;
    s->drawn = clock_seconds();
}
