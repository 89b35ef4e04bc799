// tui/screen_keys.c -- routes keys, and runs the actions that belong to no panel.
//
// An open list or page takes all keys. A focused panel takes the keys of its context, then those of
// the contexts "panel" and "all"; other letters return the focus to the input line. Without a
// focused panel, keys that are not in the table go to readline.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/command.h"
#include "commands/parse.h"
#include "core/base/base64.h"
#include "core/base/clock.h"
#include "core/base/file_out.h"
#include "core/base/json.h"
#include "core/base/places.h"
#include "core/base/text.h"
#include "tui/hints.h"
#include "tui/list.h"
#include "tui/maps.h"
#include "tui/pager.h"
#include "tui/picker.h"
#include "tui/screen_parts.h"
#include "tui/signals.h"
#include "tui/tint.h"

// --- lines ---------------------------------------------------------------------------------------

// Returns the arguments if the line is this command, else NULL.
static const char *arguments_of(const char *line, const char *command)
{
    char name[32] = "";
    int behind = 0;
    if (sscanf(line, " /%31[a-z_]%n", name, &behind) != 1) return NULL; // NOLINT(cert-err34-c)
    if (line[behind] && !strchr(" \t\n", line[behind])) return NULL;    // "/q9" is not "/quit"
    const struct command *found = command_find(name);
    if (!found || strcmp(found->name, command) != 0) return NULL;
    return line + behind + strspn(line + behind, " \t");
}

enum { KEY_MOST = 96 }; // fits keys that contain a variable of a chat template

// Reads "/set KEY VALUE" or "/toggle KEY [VALUE...]" as key and value. Returns false for any
// other line.
static bool read_change(const struct screen *s, const char *line, char key[KEY_MOST],
                        char value[256])
{
    struct words words = { 0 };
    const char *set = arguments_of(line, "set"), *toggle = arguments_of(line, "toggle");
    const char *text = set ? set : toggle;
    bool read = false;
    if (!text || words_parse(&words, text, false, &s->lookup, NULL) < 0) {
        words_release(&words);
        return false;
    }
    char *given = set ? set_read(words.count, words.list) : NULL;
    const struct setting *row = words.count ? settings_find(words.list[0]) : NULL;
    const char *next = row && toggle ? setting_next(row, view_setting(s->view, row->key),
                                                    words.count - 1, words.list + 1)
                                     : given;
    if (row && next && strlen(next) < 256) {
        snprintf(key, KEY_MOST, "%s", row->key);
        snprintf(value, 256, "%s", next);
        read = true;
    }
    free(given);
    words_release(&words);
    return read;
}

// A line that sets screen.layout takes precedence over F7's choices, even if its value is the same.
static void note_layout(struct screen *s, const char *key, const char *value)
{
    const bool possible = !strcmp(value, "auto") || text_listed(layout_names, value);
    if (!strcmp(key, "screen.layout") && possible) screen_forget_layout(s);
}

// Runs the line that a panel requests for a key. Shows the change of a setting at once, so that the
// next key starts from the new value.
static void run_key(struct screen *s, const char *line)
{
    char key[KEY_MOST], value[256];
    view_key_line(s->view, line);
    if (read_change(s, line, key, value)) {
        settings_set(s->view->settings, key, value, NULL);
        note_layout(s, key, value);
    }
    s->view->keys_waiting++;
    worker_submit(s->worker, line, s->view->answering && shell_line_live(line), true);
}

// Runs a line. /quit and the lists of /open do not wait for the running line.
static void run_line(struct screen *s, const char *line)
{
    const char *what = arguments_of(line, "open");
    s->view->chat.scroll = 0;
    const char *load = arguments_of(line, "load");
    if (load && !*load) what = "model"; // /load without a name asks for one
    if (what && (!*what || !strpbrk(what, " \t"))) {
        list_open_picker(s->view, what, &s->lookup);
        return;
    }
    if (arguments_of(line, "quit")) { // the running line may never end
        s->leave = true;
        return;
    }
    char key[KEY_MOST], value[256];
    const bool changes = read_change(s, line, key, value);
    if (changes) note_layout(s, key, value);
    if (changes && s->view->busy && settings_find(key)->stale == STALE_NOTHING)
        settings_set(s->view->settings, key, value, NULL); // settings of the screen apply at once
    worker_submit(s->worker, line, s->view->answering && shell_line_live(line), false);
}

void screen_submit(struct screen *s, const char *text)
{
    char *line;
    typed_submit(&s->typed, text);
    while (typed_next(&s->typed, &line)) {
        s->used = true;
        screen_tour_ran(s, line);
        if (line[strspn(line, " \t\n")]) run_line(s, line);
        free(line);
    }
}

// --- actions -------------------------------------------------------------------------------------

// Cancels the running line. If it does not stop (a blocking system call), two more Ctrl-C quit.
static void stop_work(struct screen *s, double now)
{
    struct buf dropped = { 0 };
    const int waited = worker_cancel(s->worker, &dropped);
    s->view->keys_waiting = 0;
    if (waited) {
        char *text = xasprintf("not run: %s", dropped.data);
        view_add(s->view, ENTRY_NOTICE, text);
        free(text);
    }
    buf_release(&dropped);
    if (!s->stopping) {
        view_hint(s->view, waited ? "stopping; %d queued line%s dropped" : "stopping", waited,
                  waited == 1 ? "" : "s");
        s->stopping = true;
        s->interrupted = 0;
    } else if (s->interrupted > 0 && now - s->interrupted < 2) {
        s->leave = true;
        s->status = STATUS_INTERRUPTED;
    } else {
        view_hint(s->view, "still stopping: press Ctrl-C again to quit");
        s->interrupted = now;
    }
}

void screen_stop(struct screen *s)
{
    const double now = clock_seconds();
    const bool typed = *prompt_typed(s->prompt) || typed_open(&s->typed);
    if (!prompt_plain(s->prompt)) { // readline is searching or reads a count
        prompt_feed(s->prompt, "\a", 1);
    } else if (worker_busy(s->worker)) {
        stop_work(s, now);
        return;
    } else if (typed || s->focus != PANEL_NONE) {
        prompt_set(s->prompt, "");
        typed_drop(&s->typed);
        s->focus = PANEL_NONE;
    } else if (s->interrupted > 0 && now - s->interrupted < 2) {
        s->leave = true;
        s->status = STATUS_INTERRUPTED;
    } else {
        s->interrupted = now;
        view_hint(s->view, "press Ctrl-C again, or Ctrl-D, to quit");
        return;
    }
    s->interrupted = 0;
}

void screen_enter(struct screen *s)
{
    terminal_enter(s->terminal);
    terminal_resize(s->terminal);
}

void screen_suspend(struct screen *s)
{
    terminal_leave(s->terminal);
    signal(SIGTSTP, SIG_DFL);
    raise(SIGTSTP);
    signals_busy(false); // installs the handler again
    screen_enter(s);
}

static void edit(struct screen *s)
{
    terminal_leave(s->terminal);
    char *text = line_edit_in_editor(prompt_typed(s->prompt));
    screen_enter(s);
    if (text)
        prompt_set(s->prompt, text);
    else
        view_hint(s->view, "the editor returned no text");
    free(text);
    s->focus = PANEL_NONE;
}

static int place_panels(const struct screen *s, int focus, struct placed_panel *placed)
{
    return layout_place(screen_layout(s, s->canvas.columns), focus, screen_hidden(s->view),
                        screen_panels_area(s, &s->canvas), placed);
}

static void move_focus(struct screen *s, int by)
{
    struct placed_panel placed[PANEL_COUNT];
    const int count = place_panels(s, PANEL_NONE, placed);
    int at = -1; // the input line
    for (int i = 0; i < count; i++)
        if (placed[i].panel == s->focus) at = i;
    at += by;
    if (at < -1) at = count - 1;
    s->focus = at < 0 || at >= count ? PANEL_NONE : placed[at].panel;
}

bool screen_shows_compared(const struct screen *s)
{
    return s->layout == screen_layout_find("compare", s->canvas.columns) ||
           s->layout == screen_layout_find("changed", s->canvas.columns);
}

// Returns from the compared answers to the previous layout.
static void leave_compared(struct screen *s)
{
    if (!screen_shows_compared(s)) return;
    s->layout = s->before;
    s->before = -1;
}

static void next_layout(struct screen *s)
{
    const int now = screen_layout(s, s->canvas.columns);
    s->layout = layout_names[now + 1] ? now + 1 : 0;
    // Skips the layouts compare and changed if they have nothing to show.
    if (!strcmp(layout_names[s->layout], "compare") && !s->view->compare.text[0]) s->layout++;
    if (!strcmp(layout_names[s->layout], "changed") && !s->view->changed.which) s->layout = 0;
    s->focus = PANEL_NONE;
    char *line = xasprintf("/set screen.layout %s", layout_names[s->layout]);
    view_key_line(s->view, line);
    free(line);
    if (!screen_shows_compared(s)) screen_remember(layout_names[s->layout]);
}

static const char *const actions[] = { "help",     "palette",   "layout",     "theme",
                                       "edit",     "stop",      "suspend",    "redraw",
                                       "page-up",  "page-down", "focus-next", "focus-back",
                                       "complete", "close",     "newline",    "tint" };

bool screen_action_known(const char *action)
{
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++)
        if (!strcmp(actions[i], action)) return true;
    return !strncmp(action, "focus ", 6) && panel_find(action + 6) != PANEL_NONE;
}

static void run_action(struct screen *s, const char *action)
{
    if (!strncmp(action, "focus ", 6)) {
        const int panel = panel_find(action + 6);
        s->focus = s->focus == panel ? PANEL_NONE : panel;
    } else if (!strcmp(action, "help")) {
        list_open_help(s->view, s->keys, screen_context(s));
    } else if (!strcmp(action, "palette")) {
        list_open_palette(s->view, &s->lookup);
    } else if (!strcmp(action, "layout")) {
        next_layout(s);
    } else if (!strcmp(action, "theme")) {
        view_run_next(s->view, "screen.theme", theme_names);
    } else if (!strcmp(action, "tint")) {
        tint_next(s->view, &s->canvas);
    } else if (!strcmp(action, "edit")) {
        edit(s);
    } else if (!strcmp(action, "stop")) {
        screen_stop(s);
    } else if (!strcmp(action, "suspend")) {
        screen_suspend(s);
    } else if (!strcmp(action, "redraw")) {
        terminal_redraw(s->terminal);
    } else if (!strcmp(action, "page-up") || !strcmp(action, "page-down")) {
        panel_at(PANEL_chat)->act(s->view, action);
    } else if (!strcmp(action, "focus-next") ||
               (!strcmp(action, "complete") && !*prompt_typed(s->prompt))) {
        move_focus(s, 1);
    } else if (!strcmp(action, "focus-back")) {
        move_focus(s, -1);
    } else if (!strcmp(action, "complete")) {
        prompt_feed(s->prompt, "\t", 1);
    } else if (!strcmp(action, "newline")) {
        prompt_insert(s->prompt, "\n");
    } else if (!screen_tour_end(s)) { // close
        leave_compared(s);
        prompt_close_menu(s->prompt);
        prompt_escape(s->prompt);
    }
}

// Returns whether the focused panel covers all others, including the conversation.
static bool covers_all(const struct screen *s)
{
    struct placed_panel placed[PANEL_COUNT];
    const int count = place_panels(s, s->focus, placed);
    return count && placed[count - 1].over && placed[count - 1].area.width == s->canvas.columns;
}

// Shows the line that measures the current map if it is not `before`, which this function frees.
static void show_map_line(struct view *v, char *before)
{
    char *now = maps_line(v);
    if (now && (!before || strcmp(now, before) != 0)) view_key_line(v, now);
    free(now);
    free(before);
}

// Runs the command of a key: a line, or an action of the panel or of the screen.
static void run_command(struct screen *s, const char *command)
{
    if (*command == '/') {
        view_key_line(s->view, command);
        run_line(s, command);
        return;
    }
    if (s->view->list.kind != LIST_NONE && !strcmp(command, "help")) {
        list_open_help(s->view, s->keys, "list");
        return;
    }
    if (s->view->list.kind != LIST_NONE) {
        list_act(s->view, command, &s->lookup);
        return;
    }
    if (s->view->pager.open) {
        if (!pager_act(s->view, command) && !strcmp(command, "redraw"))
            terminal_redraw(s->terminal);
        return;
    }
    const struct panel *panel = panel_at(s->focus);
    char *before = s->focus == PANEL_image ? maps_line(s->view) : NULL;
    const unsigned result = panel ? panel->act(s->view, command) : PANEL_IGNORED;
    if (before && result != PANEL_DONE)
        free(before);
    else if (s->focus == PANEL_image)
        show_map_line(s->view, before);
    // A line that a panel requests prints into the conversation, which must be visible.
    const bool answers = s->view->run && !s->view->run_key;
    if (result & PANEL_BACK || (answers && covers_all(s))) s->focus = PANEL_NONE;
    if (result != PANEL_IGNORED) return;
    if (screen_action_known(command))
        run_action(s, command);
    else
        run_line(s, command);
}

// --- the clipboard -------------------------------------------------------------------------------

// Copies to the clipboard with OSC 52, and to a file in case the terminal does not support OSC 52.
static void copy(struct screen *s, const char *text)
{
    struct buf b = { 0 };
    struct err err = { 0 };
    char *path = places_file("XDG_STATE_HOME", ".local/state", "copy.txt");
    buf_puts(&b, "\033]52;c;");
    base64_encode(&b, text, strlen(text));
    buf_puts(&b, "\a");
    if (strlen(text) < 70000) terminal_write(b.data, b.length); // terminals limit the length
    buf_release(&b);
    if (path && places_make_parents(path, &err) == 0 &&
        file_out_update(path, text, strlen(text), &err) == 0)
        view_hint(s->view, "copied, also to %s", path);
    else
        view_hint(s->view, "copied");
    free(path);
}

// --- requests of panels --------------------------------------------------------------------------

static char *take(char **request)
{
    char *text = *request;
    *request = NULL;
    return text;
}

void screen_apply(struct screen *s)
{
    struct view *v = s->view;
    char *text;
    if ((text = take(&v->run)) && v->run_key)
        run_key(s, text);
    else if (text) {
        view_key_line(v, text);
        run_line(s, text);
    }
    free(text);
    if ((text = take(&v->quiet))) worker_submit_quiet(s->worker, text);
    free(text);
    if ((text = take(&v->insert))) {
        prompt_set(s->prompt, text);
        s->focus = PANEL_NONE;
    }
    free(text);
    if (v->close) leave_compared(s);
    v->close = false;
    if ((text = take(&v->preview))) watcher_preview(s->watcher, text);
    free(text);
    if (v->list_files) watcher_files(s->watcher, &v->list);
    v->list_files = false;
    if ((text = take(&v->copy))) copy(s, text);
    free(text);
    watcher_jobs(s->watcher, &v->jobs.wanted);
}

// --- one key -------------------------------------------------------------------------------------

static void take_named(struct screen *s, const struct key *key);

// Acts as if the key of this name had been pressed.
static void press(struct screen *s, const char *name)
{
    struct key key = { .kind = KEY_NAMED };
    snprintf(key.name, sizeof key.name, "%s", name);
    key.length = 1;
    key.bytes[0] = key.name[0];
    if (!strcmp(key.name, "Enter")) key.bytes[0] = '\r';
    if (!strcmp(key.name, "Esc")) key.bytes[0] = '\033';
    if (!strcmp(key.name, "Tab")) key.bytes[0] = '\t';
    if (key.name[1] && key.bytes[0] == key.name[0]) key.length = 0; // this key types no text
    take_named(s, &key);
}

// If the user clicked words that name a key, presses that key.
static bool click_hint(struct screen *s, const struct key *click)
{
    char name[32];
    if (click->button != 1 || !hint_key(&s->canvas, click->x, click->y, name)) return false;
    press(s, name);
    return true;
}

// Types the name of a box that the user has drawn on the picture.
static void take_box(struct screen *s)
{
    char *box = s->view->image.dragged;
    if (!*box) return;
    prompt_insert(s->prompt, box);
    *box = 0;
    s->focus = PANEL_NONE;
}

// Returns the topmost panel at the mouse, with its area; PANEL_NONE: none.
static int panel_under(const struct screen *s, const struct key *key, struct area *area)
{
    struct placed_panel placed[PANEL_COUNT];
    for (int i = place_panels(s, s->focus, placed); i-- > 0;) {
        *area = placed[i].area;
        if (area_has(*area, key->x, key->y)) return placed[i].panel;
    }
    return PANEL_NONE;
}

// A movement is no key: hints stay. It needs a new frame only if it reaches another patch; frames
// for movements are as rare as those for news.
static void take_movement(struct screen *s, const struct key *key)
{
    struct area area;
    const bool over = !screen_covered(s) && panel_under(s, key, &area) == PANEL_image;
    if (image_hover(s->view, over ? key->x : -1, over ? key->y : -1)) s->dirty = true;
}

static void take_mouse(struct screen *s, const struct key *key)
{
    struct area area;
    if (click_hint(s, key)) return;
    if (s->view->list.kind != LIST_NONE) {
        list_click(s->view, (struct area){ 0, 0, s->canvas.columns, s->canvas.lines }, key->x,
                   key->y, key->button, &s->lookup);
        return;
    }
    if (s->view->pager.open) {
        pager_wheel(s->view, key->button);
        return;
    }
    if (!key->button && s->view->image.press_x < 0) return; // no box is being drawn
    const int under = panel_under(s, key, &area);
    if (key->button == 1) s->focus = under;
    if (under == PANEL_NONE) return;
    const struct panel *panel = panel_at(under);
    const struct area inner = { area.x + 1, area.y + 1, area.width - 2, area.height - 2 };
    s->view->image.commanding = *prompt_typed(s->prompt) == '/';
    if (panel->click) panel->click(s->view, inner, key->x - inner.x, key->y - inner.y, key->button);
    take_box(s);
}

// Returns the panel in focus if it accepts letters, else NULL.
static const struct panel *typing_panel(const struct screen *s)
{
    const struct panel *panel = panel_at(s->focus);
    const bool types = !screen_covered(s) && panel && panel->typing;
    return types && panel->typing(s->view) ? panel : NULL;
}

// Closes the input fields of panels without focus, so that these fields get no keys later.
static void close_fields(struct screen *s)
{
    static const struct key esc = { .kind = KEY_NAMED, .name = "Esc" };
    for (int i = 0; i < PANEL_COUNT; i++) {
        const struct panel *panel = panel_at(i);
        if (i != s->focus && panel->typing && panel->typing(s->view)) panel->type(s->view, &esc);
    }
}

static void take_paste(struct screen *s, const char *text)
{
    const struct panel *panel = typing_panel(s);
    if (s->view->list.kind == LIST_START) list_release(&s->view->list);
    if (panel || screen_covered(s)) {
        struct key key = { .kind = KEY_TEXT, .length = 1 };
        for (const char *p = text; *p && *p != '\n'; p++) {
            key.bytes[0] = *p;
            if (panel)
                panel->type(s->view, &key);
            else if (pager_typing(s->view))
                pager_type(s->view, &key);
            else if (s->view->list.kind != LIST_NONE)
                list_type(s->view, &key);
        }
        return;
    }
    const bool begins = !*prompt_typed(s->prompt) && prompt_plain(s->prompt);
    char *line = begins ? picker_dropped(text) : NULL;
    if (line)
        run_line(s, line);
    else
        prompt_insert(s->prompt, text);
    s->focus = PANEL_NONE;
    free(line);
}

static void take_named(struct screen *s, const struct key *key)
{
    const struct panel *panel = panel_at(s->focus), *field = typing_panel(s);
    const bool list = s->view->list.kind != LIST_NONE, page = !list && s->view->pager.open;
    const bool stop = !strcmp(key->name, "Ctrl-C");
    if (field && !stop) {
        field->type(s->view, key);
        return;
    }
    if (page && pager_typing(s->view)) {
        pager_type(s->view, key);
        return;
    }
    // During its searches, and after its quoting key, readline takes all keys.
    const bool own = !panel && !list && !page && !prompt_plain(s->prompt) && !stop;
    char *command = *key->name && !own ? keys_find(s->keys, screen_context(s), key->name) : NULL;
    const bool letter = key->kind == KEY_TEXT || !strcmp(key->name, "Space");
    if (command) {
        run_command(s, command);
    } else if (s->view->list.kind == LIST_START) { // typed text belongs to the input line
        const bool digit = key->length == 1 && key->bytes[0] >= '1' && key->bytes[0] <= '9';
        if (!digit || !list_start_number(s->view, key->bytes[0] - '0', &s->lookup)) {
            list_release(&s->view->list);
            take_named(s, key);
        }
    } else if (list && !strcmp(key->bytes, "?") && !s->view->list.filter.length) {
        list_open_help(s->view, s->keys, "list");
    } else if (list) {
        list_type(s->view, key);
    } else if (!page && (!panel || letter)) {
        s->focus = PANEL_NONE;
        prompt_feed(s->prompt, key->bytes, key->length);
    }
    free(command);
}

static void take_key(struct screen *s, struct key *key)
{
    if (key->kind == KEY_REPLY) {
        terminal_reply(s->terminal, key->bytes, key->length);
        s->dirty = true;
        return;
    }
    if (key->kind == KEY_MOUSE && key->moved) {
        take_movement(s, key);
        return;
    }
    s->acted = clock_seconds();
    if (key->kind != KEY_MOUSE) s->view->image.hovering = false; // typed: the pointer rests
    free(s->view->hint);
    s->view->hint = NULL;
    if (key->kind == KEY_MOUSE)
        take_mouse(s, key);
    else if (key->kind == KEY_PASTE)
        take_paste(s, key->paste);
    else
        take_named(s, key);
    if (*s->view->press) { // chosen in the list of keys
        char name[sizeof s->view->press];
        memcpy(name, s->view->press, sizeof name);
        *s->view->press = '\0';
        press(s, name);
    } else if (key->kind != KEY_NAMED || strcmp(key->name, "Ctrl-C") != 0) {
        s->interrupted = 0;
    }
    free(key->paste);
    close_fields(s);
    screen_apply(s);
    screen_draft_typed(s);
    s->dirty = true;
}

void screen_bytes(struct screen *s, bool flush)
{
    struct key key;
    while (!s->leave && key_reader_next(&s->reader, flush, &key)) take_key(s, &key);
}
