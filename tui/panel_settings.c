// tui/panel_settings.c -- shows all settings in groups; keys toggle them or edit them in place.
#include <stdlib.h>
#include <string.h>

#include "commands/reference.h"
#include "core/base/text.h"
#include "core/methods/method.h"
#include "tui/controls.h"
#include "tui/panel.h"
#include "tui/text.h"
#include "tui/wrap.h"

static size_t group_length(const char *key)
{
    return strcspn(key, ".");
}

static bool same_group(const char *a, const char *b)
{
    const size_t n = group_length(a);
    return n == group_length(b) && !memcmp(a, b, n);
}

// The settings of methods that are on come first, those of sampling last.
enum rank { RANK_METHOD, RANK_OTHER, RANK_SAMPLE, RANKS };

static enum rank rank_of(const struct view *v, const struct setting *row)
{
    const struct method *m = method_of(row->key);
    if (m && method_on(m, v->settings)) return RANK_METHOD;
    return setting_in(row, "sample") ? RANK_SAMPLE : RANK_OTHER;
}

// Returns the listed row with this index; NULL past the last.
static const struct setting *row_at(const struct view *v, int index)
{
    return index < v->set.count ? v->set.rows[index] : NULL;
}

// Lists the shown rows. While the panel is focused, the selection stays on its row; otherwise, if
// another row becomes the first, the list returns to it. Editing ends if its row is no longer
// selected.
static void list_rows(struct view *v, bool focused)
{
    struct settings_view *s = &v->set;
    const struct setting *row, *first = row_at(v, 0);
    const struct setting *selected = row_at(v, s->selected);
    s->count = 0;
    for (enum rank rank = RANK_METHOD; rank < RANKS; rank++)
        for (int i = 0; (row = settings_shown(i)); i++) {
            if (s->changed_only && !settings_changed(v->settings, row->key)) continue;
            if (s->filter.length && !strcasestr(row->key, s->filter.data)) continue;
            if (rank_of(v, row) != rank) continue;
            s->rows = xreallocarray(s->rows, (size_t)s->count + 1, sizeof *s->rows);
            s->rows[s->count++] = row;
        }
    if (!focused && row_at(v, 0) != first) s->selected = s->top = 0;
    for (int i = 0; focused && i < s->count; i++)
        if (s->rows[i] == selected) s->selected = i;
    if (s->selected >= s->count) s->selected = s->count ? s->count - 1 : 0;
    if (row_at(v, s->selected) != selected) s->editing = false;
}

// --- drawing -------------------------------------------------------------------------------------

static bool begins_group(const struct view *v, int index)
{
    return !index || !same_group(row_at(v, index - 1)->key, row_at(v, index)->key);
}

// Returns the line of a row; a line with the group's name precedes each group.
static int line_of(const struct view *v, int index)
{
    int line = index;
    for (int i = 0; i <= index; i++) line += begins_group(v, i);
    return line;
}

// Returns the column of values: after the longest name, but at most just past the middle.
static int value_column(int width)
{
    const struct setting *row;
    int longest = 8;
    for (int i = 0; (row = settings_shown(i)); i++) {
        const int length = (int)(strlen(row->key) - group_length(row->key));
        if (length > longest) longest = length;
    }
    return longest + 3 < width * 11 / 20 ? longest + 3 : width * 11 / 20;
}

// middle: the column of values
static void draw_row(const struct view *v, struct canvas *c, struct area area, int y, int middle,
                     const struct setting *row, bool selected)
{
    const bool changed = settings_changed(v->settings, row->key);
    const char *value = settings_text(v->settings, row->key);
    const char *name = row->key + group_length(row->key);
    const struct area left = { area.x, area.y, middle, area.height };
    if (*name == '.')
        name++;
    else
        name = row->key;
    canvas_text(c, area, 0, y, STYLE_CHANGED, changed ? "*" : " ");
    canvas_text(c, left, 2, y, changed ? STYLE_CHANGED : STYLE_TEXT, name);
    const struct area right = { area.x + middle, area.y, area.width - middle, area.height };
    if (selected && v->set.editing) {
        const char *typed = v->set.edit.data ? v->set.edit.data : "";
        const int x = canvas_text(c, right, 1, y, STYLE_MATCH, text_tail(typed, right.width - 2));
        canvas_put(c, right, x, y, STYLE_SELECTED, ' ');
        return;
    }
    const int x =
        canvas_text(c, right, 1, y, changed ? STYLE_CHANGED : STYLE_TEXT, *value ? value : "-");
    if (changed && v->stale && row->stale >= STALE_SEEN)
        canvas_text(c, right, x + 1, y, STYLE_STALE, "stale");
    if (selected) canvas_style(c, area, 0, y, area.width, STYLE_SELECTED);
}

// Returns the number of lines of a setting's help, with its name: as many as it needs, but at most
// half of the panel.
static int help_lines(struct area area, const struct setting *row)
{
    const int need = row ? 1 + wrap_count(row->help, area.width) : 2, most = area.height / 2;
    return area.height <= 6 ? 0 : need < most ? need : most;
}

static void draw_help(struct canvas *c, struct area area, const struct setting *row)
{
    char *allowed = setting_allowed(row);
    char *head = xasprintf("%s: %s", row->key, allowed);
    char *all = xasprintf("%s  [%s]", head, row->def);
    struct wrap w = wrap_begin(row->help, area.width);
    canvas_fill(c, (struct area){ area.x, area.y, area.width, 1 }, STYLE_STATUS, ' ');
    // Never cuts the default: a truncated number would be a wrong value.
    if (text_width(all) <= area.width)
        canvas_text(c, area, 0, 0, STYLE_STATUS, all);
    else if (text_width(head) <= area.width)
        canvas_text(c, area, 0, 0, STYLE_STATUS, head);
    else
        canvas_printf(c, area, 0, 0, STYLE_STATUS, "%.*s...", (int)text_fit(head, area.width - 3),
                      head);
    for (int y = 1; y < area.height && wrap_next(&w); y++) {
        const int x = canvas_text_n(c, area, 0, y, STYLE_DIM, w.line, w.length);
        if (y + 1 == area.height && !w.ended)
            canvas_text(c, area, x + 3 < area.width ? x : area.width - 3, y, STYLE_DIM, "...");
    }
    free(all);
    free(head);
    free(allowed);
}

static void draw(struct view *v, struct canvas *c, struct area area, bool focused)
{
    list_rows(v, focused);
    struct settings_view *s = &v->set;
    const struct setting *row;
    const int count = s->count;
    const int help = help_lines(area, row_at(v, s->selected));
    const struct area rows = { area.x, area.y, area.width, area.height - help };
    s->height = rows.height;
    if (!count) {
        if (s->filter.length)
            canvas_printf(c, area, 0, 0, STYLE_DIM, "no setting contains '%s'", s->filter.data);
        else
            canvas_text(c, area, 0, 0, STYLE_DIM,
                        "all settings are at their defaults (c: show all)");
        if (s->filtering && focused) field_draw(c, area, "filter: ", &s->filter);
        return;
    }
    const int middle = value_column(area.width);
    const int line = line_of(v, s->selected), last = line_of(v, count - 1);
    if (line - 1 < s->top) s->top = line > 0 ? line - 1 : 0;
    if (line >= s->top + rows.height) s->top = line - rows.height + 1;
    if (s->top > last) s->top = last;
    for (int i = 0, y = -s->top; (row = row_at(v, i)); i++, y++) {
        if (begins_group(v, i))
            canvas_text_n(c, rows, 0, y++, STYLE_TITLE, row->key, group_length(row->key));
        draw_row(v, c, rows, y, middle, row, focused && i == s->selected);
    }
    if (help)
        draw_help(c, (struct area){ area.x, area.y + rows.height, area.width, help },
                  row_at(v, s->selected));
    if (s->filtering && focused) field_draw(c, area, "filter: ", &s->filter);
}

// --- changing ------------------------------------------------------------------------------------

static void begin_edit(struct view *v, const struct setting *row)
{
    v->set.editing = true;
    buf_clear(&v->set.edit);
    buf_puts(&v->set.edit, settings_text(v->settings, row->key));
}

static void toggle(struct view *v, const struct setting *row)
{
    static const char *const flags[] = { "off", "on", NULL };
    if (row->type == SETTING_FLAG)
        view_run_next(v, row->key, flags);
    else if (row->type == SETTING_CHOICE && row->choices)
        view_run_next(v, row->key, row->choices);
    else
        begin_edit(v, row);
}

// Selects the first row of the next group, or of the previous group.
static void move_group(struct view *v, int by)
{
    const struct setting *row = row_at(v, v->set.selected);
    const int count = v->set.count;
    int at = v->set.selected;
    if (by > 0)
        while (at + 1 < count && same_group(row_at(v, at)->key, row->key)) at++;
    else if (row) {
        while (at > 0 && same_group(row_at(v, at)->key, row->key)) at--;
        while (!begins_group(v, at)) at--;
    }
    v->set.selected = at;
}

static unsigned act(struct view *v, const char *action)
{
    static const char *const of_row[] = { "toggle", "change", "default", NULL };
    struct settings_view *s = &v->set;
    const int last = s->count - 1;
    const struct setting *row = row_at(v, s->selected);
    if (position_move(action, &s->selected, last, s->height)) return PANEL_DONE;
    if (!strcmp(action, "group-back"))
        move_group(v, -1);
    else if (!strcmp(action, "group-next"))
        move_group(v, 1);
    else if (!strcmp(action, "changed"))
        s->changed_only = !s->changed_only;
    else if (!strcmp(action, "filter")) {
        s->filtering = true;
        buf_clear(&s->filter);
    } else if (!strcmp(action, "back") && s->filter.length)
        buf_clear(&s->filter);
    else if (!strcmp(action, "back"))
        return PANEL_DONE | PANEL_BACK;
    else if (!row)
        return text_listed(of_row, action) ? PANEL_DONE : PANEL_IGNORED;
    else if (!strcmp(action, "toggle"))
        toggle(v, row);
    else if (!strcmp(action, "change"))
        begin_edit(v, row);
    else if (!strcmp(action, "default"))
        view_run(v, true, "/reset %s", row->key);
    else
        return PANEL_IGNORED;
    return PANEL_DONE;
}

static bool typing(const struct view *v)
{
    return v->set.editing || v->set.filtering;
}

static void type(struct view *v, const struct key *key)
{
    const struct setting *row = row_at(v, v->set.selected);
    const bool filtering = v->set.filtering, enter = !strcmp(key->name, "Enter");
    if (field_type(filtering ? &v->set.filter : &v->set.edit, key)) return;
    if (filtering) {
        if (!strcmp(key->name, "Esc")) buf_clear(&v->set.filter);
        v->set.filtering = !enter && strcmp(key->name, "Esc") != 0;
        list_rows(v, true); // the next key may come before the next frame
        return;
    }
    if (enter || !strcmp(key->name, "Esc")) v->set.editing = false;
    if (!enter || !row) return;
    const char *value = v->set.edit.data;
    view_run(v, true, "/set %s %s", row->key, *value ? value : "\"\"");
}

static void click(struct view *v, struct area area, int x, int y, int button)
{
    struct settings_view *s = &v->set;
    const int count = s->count, line = y + s->top;
    const bool inside = button == 1 && s->selected < count && line_of(v, s->selected) == line;
    if (inside && s->editing) button = 0;
    if (button) s->editing = false; // the field belongs to the previously selected row
    if (button == 4 && s->selected > 0) s->selected--;
    if (button == 5 && s->selected + 1 < count) s->selected++;
    for (int i = 0; i < count && button == 1; i++) {
        if (line_of(v, i) != line) continue;
        if (s->selected == i && x >= area.width / 2) toggle(v, row_at(v, i));
        s->selected = i;
        break;
    }
}

const struct panel panel_settings = {
    .name = "settings",
    .title = "settings",
    .min_width = 24,
    .min_height = 5,
    .draw = draw,
    .act = act,
    .typing = typing,
    .type = type,
    .click = click,
};
