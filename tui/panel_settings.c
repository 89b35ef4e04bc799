// tui/panel_settings.c -- every setting of the table: grouped, switched by a key, edited in place.
#include <stdlib.h>
#include <string.h>

#include "commands/reference.h"
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

static bool is_shown(const struct view *v, const struct setting *row)
{
    return !v->set.changed_only || settings_changed(v->settings, row->key);
}

// Indices of the rows shown; count.
static int list_rows(const struct view *v, const struct setting **list)
{
    int count = 0;
    const struct setting *row;
    for (int i = 0; (row = settings_row(i)); i++)
        if (is_shown(v, row)) list[count++] = row;
    return count;
}

static const struct setting **make_list(const struct view *v, int *count)
{
    const struct setting **list = xcalloc((size_t)settings_count() + 1, sizeof(struct setting *));
    *count = list_rows(v, list);
    return list;
}

// The row of a list of `count` that is meant by `index`; 0 of an empty list.
static int within(int index, int count)
{
    return index < count ? index : count ? count - 1 : 0;
}

static const struct setting *selected_row(struct view *v)
{
    int count;
    const struct setting **list = make_list(v, &count);
    v->set.selected = within(v->set.selected, count);
    const struct setting *row = count ? list[v->set.selected] : NULL;
    free(list);
    return row;
}

// --- drawing -------------------------------------------------------------------------------------

// The line of row i; a line with the group's name precedes each group.
static int line_of(const struct setting **list, int index)
{
    int line = 0;
    for (int i = 0; i <= index; i++)
        line += 1 + (!i || !same_group(list[i - 1]->key, list[i]->key));
    return line - 1;
}

// Where values begin: behind the longest name, past the middle at the latest.
static int value_column(int width)
{
    const struct setting *row;
    int longest = 8;
    for (int i = 0; (row = settings_row(i)); i++) {
        const int length = (int)(strlen(row->key) - group_length(row->key));
        if (length > longest) longest = length;
    }
    return longest + 3 < width * 11 / 20 ? longest + 3 : width * 11 / 20;
}

static void draw_row(const struct view *v, struct canvas *c, struct area area, int y,
                     const struct setting *row, bool selected)
{
    const bool changed = settings_changed(v->settings, row->key);
    const char *value = settings_text(v->settings, row->key);
    const char *name = row->key + group_length(row->key);
    const int middle = value_column(area.width);
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

static void draw_group(struct canvas *c, struct area area, int y, const char *key)
{
    char *name = xstrndup(key, group_length(key));
    canvas_text(c, area, 0, y, STYLE_TITLE, name);
    free(name);
}

static void draw_help(const struct view *v, struct canvas *c, struct area area,
                      const struct setting *row)
{
    char *allowed = setting_allowed(row);
    char *head = xasprintf("%s: %s", row->key, allowed);
    char *all = xasprintf("%s  [%s]", head, row->def);
    struct wrap w = wrap_begin(row->help, area.width);
    canvas_fill(c, (struct area){ area.x, area.y, area.width, 1 }, STYLE_STATUS, ' ');
    // Half of a number would be another one.
    if (text_width(all) <= area.width)
        canvas_text(c, area, 0, 0, STYLE_STATUS, all);
    else if (text_width(head) <= area.width)
        canvas_text(c, area, 0, 0, STYLE_STATUS, head);
    else
        canvas_printf(c, area, 0, 0, STYLE_STATUS, "%.*s...", (int)text_fit(head, area.width - 3),
                      head);
    for (int y = 1; y < area.height && wrap_next(&w); y++)
        canvas_text_n(c, area, 0, y, STYLE_DIM, w.line, w.length);
    free(all);
    free(head);
    free(allowed);
}

static void draw(struct view *v, struct canvas *c, struct area area, bool focused)
{
    struct settings_view *s = &v->set;
    int count;
    const struct setting **list = make_list(v, &count);
    const int help = area.height > 10 ? 3 : area.height > 6 ? 2 : 0; // lines
    const struct area rows = { area.x, area.y, area.width, area.height - help };
    s->height = rows.height;
    s->selected = within(s->selected, count);
    if (!count) {
        canvas_text(c, area, 0, 0, STYLE_DIM, "every setting has its default (c: all)");
    } else {
        const int line = line_of(list, s->selected), last = line_of(list, count - 1);
        if (line - 1 < s->top) s->top = line > 0 ? line - 1 : 0;
        if (line >= s->top + rows.height) s->top = line - rows.height + 1;
        if (s->top > last) s->top = last;
        for (int i = 0, y = -s->top; i < count; i++, y++) {
            if (!i || !same_group(list[i - 1]->key, list[i]->key))
                draw_group(c, rows, y++, list[i]->key);
            draw_row(v, c, rows, y, list[i], focused && i == s->selected);
        }
        if (help)
            draw_help(v, c, (struct area){ area.x, area.y + rows.height, area.width, help },
                      list[s->selected]);
    }
    free(list);
}

// --- changing ------------------------------------------------------------------------------------

static void set(struct view *v, const struct setting *row, const char *value)
{
    char *quoted = xstrdup(value);
    view_run_key(v, *quoted ? "/set %s %s" : "/set %s \"\"%s", row->key, quoted);
    free(quoted);
}

static void begin_edit(struct view *v, const struct setting *row)
{
    v->set.editing = true;
    buf_clear(&v->set.edit);
    buf_puts(&v->set.edit, settings_text(v->settings, row->key));
}

static void toggle(struct view *v, const struct setting *row)
{
    const char *now = settings_text(v->settings, row->key);
    if (row->type == SETTING_FLAG) {
        set(v, row, strcmp(now, "on") == 0 ? "off" : "on");
    } else if (row->type == SETTING_CHOICE && row->choices) {
        int i = 0;
        while (row->choices[i] && strcmp(row->choices[i], now) != 0) i++;
        set(v, row, row->choices[i] && row->choices[i + 1] ? row->choices[i + 1] : row->choices[0]);
    } else {
        begin_edit(v, row);
    }
}

static void move_group(struct view *v, int by)
{
    int count;
    const struct setting **list = make_list(v, &count);
    int at = v->set.selected;
    if (by > 0)
        while (at + 1 < count && same_group(list[at]->key, list[v->set.selected]->key)) at++;
    else if (count && at < count) {
        while (at > 0 && same_group(list[at]->key, list[v->set.selected]->key)) at--;
        while (at > 0 && same_group(list[at - 1]->key, list[at]->key)) at--;
    }
    v->set.selected = at;
    free(list);
}

static unsigned act(struct view *v, const char *action)
{
    struct settings_view *s = &v->set;
    const struct setting *row = selected_row(v);
    int count;
    free(make_list(v, &count));
    if (!strcmp(action, "up"))
        s->selected -= s->selected > 0;
    else if (!strcmp(action, "down"))
        s->selected += s->selected + 1 < count;
    else if (!strcmp(action, "page-up"))
        s->selected = s->selected > s->height ? s->selected - s->height : 0;
    else if (!strcmp(action, "page-down"))
        s->selected = within(s->selected + s->height, count);
    else if (!strcmp(action, "top"))
        s->selected = 0;
    else if (!strcmp(action, "bottom"))
        s->selected = within(count, count);
    else if (!strcmp(action, "group-back"))
        move_group(v, -1);
    else if (!strcmp(action, "group-next"))
        move_group(v, 1);
    else if (!strcmp(action, "changed"))
        s->changed_only = !s->changed_only;
    else if (!strcmp(action, "back"))
        return PANEL_DONE | PANEL_BACK;
    else if (!row)
        return PANEL_DONE;
    else if (!strcmp(action, "toggle"))
        toggle(v, row);
    else if (!strcmp(action, "change"))
        begin_edit(v, row);
    else if (!strcmp(action, "default"))
        view_run_key(v, "/reset %s", row->key);
    else
        return PANEL_IGNORED;
    return PANEL_DONE;
}

static bool typing(const struct view *v)
{
    return v->set.editing;
}

static void type(struct view *v, const struct key *key)
{
    struct buf *edit = &v->set.edit;
    const struct setting *row = selected_row(v);
    if (key->kind == KEY_TEXT || !strcmp(key->name, "Space")) {
        buf_add(edit, key->bytes, key->length);
    } else if (!strcmp(key->name, "Backspace")) {
        while (edit->length && (edit->data[--edit->length] & 0xc0) == 0x80) {
        }
        if (edit->data) edit->data[edit->length] = '\0';
    } else if (!strcmp(key->name, "Ctrl-U")) {
        buf_clear(edit);
    } else if (!strcmp(key->name, "Esc")) {
        v->set.editing = false;
    } else if (!strcmp(key->name, "Enter")) {
        v->set.editing = false;
        if (row) set(v, row, edit->data ? edit->data : "");
    }
}

static void click(struct view *v, struct area area, int x, int y, int button)
{
    int count;
    const struct setting **list = make_list(v, &count);
    const bool inside =
        button == 1 && v->set.selected < count && line_of(list, v->set.selected) == y + v->set.top;
    if (inside && v->set.editing) button = 0;
    if (button) v->set.editing = false; // what was begun is the old row's
    if (button == 4 && v->set.selected > 0) v->set.selected--;
    if (button == 5 && v->set.selected + 1 < count) v->set.selected++;
    for (int i = 0; i < count && button == 1; i++) {
        if (line_of(list, i) != y + v->set.top) continue;
        if (v->set.selected == i && x >= area.width / 2) toggle(v, list[i]);
        v->set.selected = i;
        break;
    }
    free(list);
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
