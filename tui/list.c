// tui/list.c -- lists drawn over the panels; a few letters find an item.
#include "tui/list.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "commands/help_text.h"
#include "commands/reference.h"
#include "tui/controls.h"
#include "tui/panel.h"
#include "tui/picker.h"
#include "tui/text.h"
#include "tui/wrap.h"

// --- finding -------------------------------------------------------------------------------------

// Letters at the beginnings of words and adjacent letters score more; short texts score more than
// long ones.
int list_score(const char *text, const char *pattern)
{
    int score = 100, run = 0;
    const char *at = text;
    for (const char *p = pattern; *p; p++) {
        if (*p == ' ') continue;
        const char *found = at;
        while (*found && tolower((unsigned char)*found) != tolower((unsigned char)*p)) found++;
        if (!*found) return 0;
        const bool begins = found == text || !isalnum((unsigned char)found[-1]);
        run = found == at && p != pattern ? run + 1 : 0;
        score += (begins ? 12 : 0) + 6 * run - (int)(found - at > 20 ? 20 : found - at);
        at = found + 1;
    }
    const int rest = (int)strlen(at);
    score -= rest > 30 ? 15 : rest / 2;
    return score > 1 ? score : 1;
}

static const char *filter_of(const struct list_view *l)
{
    return l->filter.data ? l->filter.data : "";
}

// Returns whether the item is searched: those of deeper folders are only once letters are typed.
static bool counts(const struct list_view *l, const struct item *item)
{
    return *filter_of(l) || item->kind != ITEM_DEEPER;
}

// Returns the number of items that are searched.
static size_t item_count(const struct list_view *l)
{
    return *filter_of(l) ? l->count : l->shown_count;
}

// The last row of a picker and of the start list says that more files may follow.
static bool tells_of_more(const struct list_view *l)
{
    const bool tells = l->kind == LIST_PICKER || l->kind == LIST_START;
    return tells && l->awaits_files && l->shown_count;
}

static int score_pattern(const struct item *item, const char *pattern)
{
    const int label = list_score(item->label, pattern);
    const size_t n = strlen(pattern);
    // The note matches only as a substring.
    const bool noted = n > 2 && strcasestr(item->note, pattern);
    const int whole = n > 2 && strcasestr(item->label, pattern) ? 40 : 0;
    if (help_finds(item->also, pattern) || help_finds(item->alias, pattern)) return label + 60;
    const int score = label ? label + 20 + whole : noted ? 10 : 0;
    return item->kind < ITEM_LINE || !score ? score : score > 31 ? score - 30 : 1;
}

// Scores the whole pattern. If it does not match, scores its words: all must match, and the lowest
// score counts.
static int score_item(const struct item *item, const char *pattern)
{
    const int whole = score_pattern(item, pattern);
    if (whole || !strchr(pattern, ' ')) return whole;
    char *words = xstrdup(pattern), *rest = words, *word;
    int least = 0;
    while ((word = strsep(&rest, " "))) {
        if (!*word) continue;
        const int score = score_pattern(item, word);
        least = !least || score < least ? score : least;
        if (!score) break;
    }
    free(words);
    return least;
}

static void filter_items(struct list_view *l)
{
    int *scores = xcalloc(l->count + 1, sizeof *scores);
    l->shown = xreallocarray(l->shown, l->count + 1, sizeof *l->shown);
    l->shown_count = l->selected = l->top = 0;
    for (size_t i = 0; i < l->count; i++) {
        const bool filtered = *filter_of(l) != 0;
        scores[i] = filtered ? score_item(&l->items[i], filter_of(l)) : counts(l, &l->items[i]);
        if (!scores[i]) continue;
        size_t at = l->shown_count++;
        for (; at > 0 && scores[l->shown[at - 1]] < scores[i]; at--)
            l->shown[at] = l->shown[at - 1];
        l->shown[at] = i;
    }
    free(scores);
}

struct item *list_add(struct list_view *l, const char *label, const char *note, const char *value)
{
    l->items = xreallocarray(l->items, l->count + 1, sizeof *l->items);
    l->items[l->count] =
        (struct item){ .label = xstrdup(label), .note = xstrdup(note), .value = xstrdup(value) };
    return &l->items[l->count++];
}

void list_begin(struct view *v, enum list_kind kind, const char *title)
{
    list_release(&v->list);
    v->list.kind = kind;
    v->list.title = xstrdup(title);
}

void list_ready(struct view *v)
{
    filter_items(&v->list);
    picker_look(v);
}

// --- files ---------------------------------------------------------------------------------------

void list_await_files(struct view *v)
{
    v->list.request = ++v->list_requests;
    v->list.awaits_files = v->list_files = true;
}

void list_files_free(void *part)
{
    if (part) list_release(part);
    free(part);
}

void list_files(const struct list_request *r, bool (*wanted)(void *self),
                void (*found)(void *self, struct list_view *part), void *self)
{
    struct list_view *part = xcalloc(1, sizeof *part);
    part->request = r->number;
    if (r->what && !strcmp(r->what, start_request)) {
        start_models(part, wanted, self);
    } else if (r->what) { // the folder's own entries at once
        picker_entries(part, r, wanted, self);
        part->awaits_files = true;
        found(self, part);
        part = xcalloc(1, sizeof *part);
        part->request = r->number;
        picker_deeper(part, r, wanted, self);
    } else {
        palette_files(part, wanted, self);
    }
    found(self, part);
}

// --- help ----------------------------------------------------------------------------------------

struct help {
    struct list_view *list;
    const char *context;
    // NULL: adds the keys of `context`; else those of this context that `context` does not
    // override.
    const char *everywhere;
};

// Returns whether a key of the panel's context overrides this key in the panel. A user's binding
// overrides both.
static bool is_replaced(const struct key_row *key, const char *context)
{
    const struct key_row *row;
    bool table = false, own = false;
    for (int i = 0; (row = key_row(i)); i++) {
        table |= row->command == key->command;
        own |= !strcmp(row->context, context) && !strcmp(row->key, key->key);
    }
    return table && own;
}

static void add_key(void *self, const struct key_row *row)
{
    const struct help *h = self;
    if (strcmp(row->context, h->everywhere ? h->everywhere : h->context) != 0) return;
    if (h->everywhere && is_replaced(row, h->context)) return;
    // The keys of lists have nothing to act on once this list has closed.
    list_add(h->list, row->key, row->note, strcmp(h->context, "list") != 0 ? row->command : "");
}

void list_open_help(struct view *v, struct keys *keys, const char *context)
{
    char *title = xasprintf("keys: %s", context);
    list_begin(v, LIST_HELP, title);
    struct list_view *l = &v->list;
    struct help h = { l, context, NULL };
    keys_each(keys, add_key, &h);
    if (!strcmp(context, "input")) {
        list_add(l, "Enter", "send the line", "send");
        list_add(l, "Ctrl-R", "search the history", "");
        list_add(l, "Up Down", "previous lines", "");
        list_add(l, "\"\"\"", "start and end a text of several lines", "");
        list_add(l, "", "other keys: readline (~/.inputrc)", "");
    }
    if (strcmp(context, "list") != 0) {
        list_add(l, "everywhere:", "", "");
        h.everywhere = "all";
        keys_each(keys, add_key, &h);
    }
    if (panel_find(context) != PANEL_NONE) {
        list_add(l, "in every panel:", "", "");
        h.everywhere = "panel";
        keys_each(keys, add_key, &h);
    }
    free(title);
    list_ready(v);
}

// --- drawing -------------------------------------------------------------------------------------

const struct item *list_selected(const struct list_view *l)
{
    return l->selected < l->shown_count ? &l->items[l->shown[l->selected]] : NULL;
}

static struct area list_area(const struct list_view *l, struct area screen)
{
    struct area a = screen;
    const int most = l->kind == LIST_PALETTE ? 150 : 100;
    a.width = screen.width > most + 10 ? most : screen.width - (screen.width > 60 ? 6 : 0);
    a.height = screen.height > 30 ? 26 : screen.height - (screen.height > 16 ? 4 : 0);
    const int need = (int)item_count(l) + 3 + tells_of_more(l);
    if (a.height > need && (need >= 8 || l->kind == LIST_START)) a.height = need;
    a.x = screen.x + (screen.width - a.width) / 2;
    // The start list must not cover the welcome at the top: it ends directly above the status line.
    const int above = screen.height - a.height, bottom = 2; // status line, input line
    a.y = screen.y + (l->kind == LIST_START && above >= bottom ? above - bottom : above / 3);
    return a;
}

// Returns the column of the notes: after the longest label, but at most the middle. *cut: some note
// does not fit.
static int note_column(const struct list_view *l, int width, bool *cut)
{
    int longest = 8, note = 0;
    for (size_t i = 0; i < l->count; i++) {
        if (!counts(l, &l->items[i])) continue;
        const int label = text_width(l->items[i].label), own = text_width(l->items[i].note);
        if (own && label > longest) longest = label;
        if (own > note) note = own;
    }
    const int column = longest + 3 < width / 2 ? longest + 3 : width / 2;
    *cut = column + 1 + note > width;
    return column;
}

void list_draw(struct view *v, struct canvas *c, struct area screen)
{
    struct list_view *l = &v->list;
    const struct area outer = list_area(l, screen);
    canvas_fill(c, outer, STYLE_TEXT, ' ');
    c->hint_count = 0; // the list takes all keys
    struct area inner = canvas_box(c, outer, l->title, true);
    const char *foot = l->kind == LIST_HELP
                           ? "type to search  Enter or a click presses the key  Esc closes"
                           : "type to search  Enter chooses  Esc closes";
    if (l->kind == LIST_PICKER && l->folder)
        foot = "type to search  Enter chooses  Backspace parent folder  Esc closes";
    const bool start = l->kind == LIST_START;
    if (start) {
        canvas_text(c, inner, 1, 0, STYLE_PROMPT,
                    "Enter, a number or a click chooses; or type a question.");
        foot = "Enter chooses  Esc closes";
    }
    canvas_foot(c, outer, foot);
    const int room = inner.width - 12; // columns left of the counter
    if (!start) {
        const int x =
            canvas_printf(c, inner, 1, 0, STYLE_PROMPT, "> %s",
                          text_tail(filter_of(l), room - 4)); // for the prompt and the cursor
        canvas_printf(c, inner, room, 0, STYLE_DIM, "%5zu/%zu", l->shown_count, item_count(l));
        c->cursor_x = inner.x + (x < inner.width ? x : inner.width - 1);
        c->cursor_y = inner.y;
    }
    struct area rows = { inner.x, inner.y + 1, inner.width, inner.height - 1 };
    const bool preview = l->kind == LIST_PICKER && !strcmp(l->what, "image") && rows.width >= 50;
    // The description of the palette's selected item is beside the list, or below it.
    const bool palette = l->kind == LIST_PALETTE, beside = palette && rows.width >= 90;
    if (preview || beside) rows.width = rows.width * 3 / 5;
    struct area about = { rows.x + rows.width + 1, rows.y, inner.width - rows.width - 1,
                          rows.height };
    if (beside) about.x++, about.width -= 2; // a gap on both sides
    if (palette && !beside) {
        const int lines = rows.height > 14 ? 6 : rows.height > 6 ? 2 : 0;
        rows.height -= lines;
        about = (struct area){ rows.x + 1, rows.y + rows.height, rows.width - 2, lines };
    }
    // If notes are cut, the selected one is shown on two lines below the list.
    bool cut;
    const int middle = note_column(l, rows.width, &cut);
    const bool below = cut && !preview && !palette && l->kind != LIST_START && rows.height > 6;
    if (below) rows.height -= 2;
    const int bottom = rows.y + rows.height;
    if (tells_of_more(l) && rows.height > 1) {
        const int y = l->shown_count < (size_t)rows.height ? (int)l->shown_count : rows.height - 1;
        canvas_text(c, rows, 1, y, STYLE_DIM, "the files are being listed");
        rows.height--;
    }
    l->height = rows.height;
    l->width = rows.width;
    if (l->selected < l->top) l->top = l->selected;
    if (l->height > 0 && l->selected >= l->top + (size_t)l->height)
        l->top = l->selected - (size_t)l->height + 1;
    if (!l->shown_count && l->count)
        canvas_printf(c, rows, 1, 0, STYLE_DIM, "no match for '%s'%s", filter_of(l),
                      l->awaits_files ? " yet: files are still being listed"
                      : l->files_cut  ? "; this folder has more files than are listed here"
                                      : "");
    if (!l->count)
        canvas_text(c, rows, 1, 0, STYLE_DIM,
                    l->awaits_files ? "the files are being listed" : "nothing to choose from");
    for (int y = 0; y < rows.height && l->top + (size_t)y < l->shown_count; y++) {
        const struct item *item = &l->items[l->shown[l->top + (size_t)y]];
        const bool note = *item->note != 0;
        canvas_text(c, (struct area){ rows.x, rows.y, note ? middle : rows.width, rows.height }, 1,
                    y, l->kind == LIST_HELP ? STYLE_KEY : STYLE_TEXT, item->label);
        canvas_text(c, (struct area){ rows.x + middle, rows.y, rows.width - middle, rows.height },
                    1, y, STYLE_DIM, item->note);
        if (l->top + (size_t)y == l->selected)
            canvas_style(c, rows, 0, y, rows.width, STYLE_SELECTED);
    }
    if (below && list_selected(l)) {
        const struct area under = { rows.x, bottom, rows.width, 2 };
        const char *note = list_selected(l)->note;
        struct wrap w = wrap_begin_marked(note, under.width - 2);
        for (int y = 0; y < under.height && *note && wrap_next(&w); y++)
            canvas_text_n(c, under, 1, y, STYLE_NOTICE, w.line, w.length);
    }
    if (palette) palette_describe(v, c, about);
    if (preview) picker_draw(v, c, about);
}

// --- keys ----------------------------------------------------------------------------------------

void list_type(struct view *v, const struct key *key)
{
    struct list_view *l = &v->list;
    l->chooses = false;
    if (field_type(&l->filter, key)) list_ready(v);
}

// Shows the arguments of the inserted command, or the allowed values of the inserted setting, as a
// hint.
static void hint_arguments(struct view *v, const struct command *command, const char *value)
{
    char key[64] = "";
    if (command) {
        view_hint(v, "%s", command->usage);
        return;
    }
    const struct setting *row = NULL;
    if (sscanf(value, "/set %63s", key) == 1) row = settings_find(key);
    if (!row) return;
    char *allowed = setting_allowed(row);
    view_hint(v, "%s: %s", row->key, allowed);
    free(allowed);
}

static void choose(struct view *v, const struct shell *shell)
{
    struct list_view *l = &v->list;
    l->chooses = !list_selected(l) && l->awaits_files;
    if (!list_selected(l)) return;
    if (l->kind == LIST_HELP) {
        if (*list_selected(l)->value)
            snprintf(v->press, sizeof v->press, "%s", list_selected(l)->label);
        if (*v->press) list_release(l);
        return;
    }
    char *value = xstrdup(list_selected(l)->value);
    if (l->kind == LIST_PICKER) {
        picker_choose(v, shell);
    } else if (l->kind == LIST_START) {
        view_run(v, false, "%s", value);
    } else if (l->kind == LIST_PALETTE && list_selected(l)->kind == ITEM_LINE) {
        free(v->insert);
        v->insert = xstrdup(value);
    } else if (l->kind == LIST_PALETTE) {
        const bool object = list_selected(l)->kind == ITEM_OBJECT;
        const struct command *command = object ? NULL : command_find(value + 1);
        // Arguments that the usage shows without brackets are missing.
        const char *rest = command ? strchr(command->usage, ' ') : NULL;
        const bool complete =
            command && !command->min && !command->max && (!rest || rest[1] == '[');
        if (complete || object) {
            view_run(v, false, "%s", value);
        } else {
            free(v->insert);
            v->insert = xasprintf("%s%s", value, strchr(value, ' ') ? "" : " ");
            hint_arguments(v, command, value);
        }
    }
    if (l->kind != LIST_PICKER) list_release(l);
    free(value);
}

void list_take_files(struct view *v, struct list_view *part, const struct shell *shell)
{
    struct list_view *l = &v->list;
    if (!l->awaits_files || l->request != part->request) return;
    const size_t selected = l->selected < l->shown_count ? l->shown[l->selected] : 0;
    const bool moved = l->selected > 0;
    l->items = xreallocarray(l->items, l->count + part->count + 1, sizeof *l->items);
    if (part->count) memcpy(l->items + l->count, part->items, part->count * sizeof *part->items);
    const size_t from = l->count;
    l->count += part->count;
    part->count = 0; // l owns the items now
    if (l->kind == LIST_START) start_number(l, from);
    l->awaits_files = part->awaits_files;
    l->files_cut = part->files_cut;
    list_ready(v);
    for (size_t i = 0; moved && i < l->shown_count; i++)
        if (l->shown[i] == selected) l->selected = i;
    if (moved) picker_look(v);
    if (l->chooses) choose(v, shell);
}

bool list_start_number(struct view *v, int number, const struct shell *shell)
{
    struct list_view *l = &v->list;
    if (number < 1 || (size_t)number > l->shown_count) return false;
    l->selected = (size_t)number - 1;
    choose(v, shell);
    return true;
}

void list_act(struct view *v, const char *action, const struct shell *shell)
{
    struct list_view *l = &v->list;
    const int last = l->shown_count ? (int)l->shown_count - 1 : 0;
    const size_t before = l->selected;
    int at = (int)l->selected;
    l->chooses = false;
    if (!strcmp(action, "up"))
        l->selected = (size_t)(at ? at - 1 : last);
    else if (!strcmp(action, "down"))
        l->selected = (size_t)(at < last ? at + 1 : 0);
    else if (position_move(action, &at, last, l->height > 1 ? l->height - 1 : 1))
        l->selected = (size_t)at;
    else if (!strcmp(action, "choose")) {
        choose(v, shell);
        return;
    } else if (!strcmp(action, "rub")) {
        if (!l->filter.length) {
            if (l->kind == LIST_PICKER) picker_up(v);
            return;
        }
        field_rub(&l->filter);
        list_ready(v);
    } else if (!strcmp(action, "clear")) {
        buf_clear(&l->filter);
        list_ready(v);
    } else {
        list_release(&v->list);
        return;
    }
    if (before != l->selected) picker_look(v);
}

void list_click(struct view *v, struct area screen, int x, int y, int button,
                const struct shell *shell)
{
    struct list_view *l = &v->list;
    const struct area a = list_area(l, screen);
    if (button == 4) list_act(v, "up", shell);
    if (button == 5) list_act(v, "down", shell);
    if (button != 1) return;
    if (!area_has(a, x, y)) {
        list_release(&v->list);
        return;
    }
    const int row = y - a.y - 2;
    if (x > a.x + l->width || row < 0 || row >= l->height || l->top + (size_t)row >= l->shown_count)
        return;
    const bool at_once = l->kind == LIST_START || l->kind == LIST_HELP;
    const bool again = at_once || l->selected == l->top + (size_t)row;
    l->selected = l->top + (size_t)row;
    if (again)
        choose(v, shell);
    else
        picker_look(v);
}
