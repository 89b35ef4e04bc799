// tui/palette.c -- the palette: everything that a few letters can find, with a description of the
// selected item.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "commands/help_text.h"
#include "commands/parse.h"
#include "commands/reference.h"
#include "core/base/folder.h"
#include "core/base/names.h"
#include "core/base/text.h"
#include "core/files/checkpoint.h"
#include "tui/folder_walk.h"
#include "tui/history.h"
#include "tui/picker.h"
#include "tui/wrap.h"

enum { LINES = 200 }; // earlier lines, at most

// --- items ---------------------------------------------------------------------------------------

static void add_commands(struct view *v)
{
    const struct command *command;
    for (int i = 0; (command = command_at(i)); i++) {
        char *name = xasprintf("/%s", command->name);
        struct item *item = list_add(&v->list, name, command->help, name);
        item->also = command->also;
        item->alias = command->alias;
        item->kind = ITEM_COMMAND;
        free(name);
    }
}

static void add_settings(struct view *v)
{
    const struct setting *row;
    for (int i = 0; (row = settings_shown(i)); i++) {
        char *note = xasprintf("= %s   %s", settings_text(v->settings, row->key), row->help);
        char *line = xasprintf("/set %s ", row->key);
        struct item *item = list_add(&v->list, row->key, note, line);
        item->also = row->also;
        item->kind = ITEM_SETTING;
        free(note);
        free(line);
    }
}

static void add_lines(struct view *v)
{
    const char *line;
    for (int i = 0; i < LINES && (line = history_recent(i)); i++) {
        if (strchr(line, '\n')) continue;
        struct item *item = list_add(&v->list, line, "earlier line", line);
        item->kind = ITEM_LINE;
        item->about = xasprintf("%s\n\nEnter writes this line into the input line.", line);
    }
}

// Adds an object; takes ownership of `line` and `about`.
static void add_object(struct list_view *l, const char *label, const char *note, char *line,
                       char *about)
{
    struct item *item = list_add(l, label, note, line);
    item->kind = ITEM_OBJECT;
    item->about = about;
    free(line);
}

static void add_sessions(struct view *v, const struct shell *shell)
{
    struct session_row *rows = NULL;
    size_t count = 0;
    if (!shell || !shell->store || store_list(shell->store, &rows, &count, NULL) < 0) return;
    for (size_t i = 0; i < count; i++) {
        const struct session_row *r = &rows[i];
        if (!r->name) continue;
        char *ended = time_text(r->ended, "%Y-%m-%d %H:%M"), *name = picker_quote(r->name);
        char *note = xasprintf("session  %s  %s", ended, r->title ? r->title : "");
        add_object(&v->list, r->name, note, xasprintf("/session resume %s", name),
                   xasprintf("Session %s\n\n%s\n\nmodel: %s\nlast used: %s\nquestions: %" PRId64
                             ", pictures: %" PRId64 "\n\nEnter resumes it.",
                             r->name, r->title ? r->title : "", r->model, ended, r->turns,
                             r->pictures));
        free(ended);
        free(name);
        free(note);
    }
    store_list_free(rows, count);
}

static void add_jobs(struct view *v)
{
    const struct jobs_news *n = v->jobs.news;
    for (size_t i = 0; n && i < n->count; i++) {
        const struct job_row *r = &n->rows[i];
        char *words = words_join(r->argc, r->argv), *label = xasprintf("job %" PRId64, r->id);
        char *note = xasprintf("%s  %s  %s", r->kind, job_state_name(r->state), words);
        add_object(&v->list, label, note, xasprintf("/job %" PRId64, r->id),
                   xasprintf("Job %" PRId64 ": %s, %s\n\n%s %s\n%s\n\nEnter shows it; F6 pauses, "
                             "resumes and compares jobs.",
                             r->id, r->kind, job_state_name(r->state), r->kind, words, r->message));
        free(words);
        free(label);
        free(note);
    }
}

static void add_models(struct list_view *l)
{
    struct names found = { 0 };
    checkpoint_cached(&found);
    for (size_t i = 0; i < found.count; i++) {
        char *name = picker_quote(found.list[i]);
        add_object(l, found.list[i], "model in the Hugging Face cache", xasprintf("/load %s", name),
                   xasprintf("Model %s, in the cache of huggingface_hub\n\nEnter opens it.",
                             found.list[i]));
        free(name);
    }
    names_release(&found);
}

// Adds a file or folder that a command opens; returns whether the path is any other folder.
static bool add_path(struct list_view *l, const char *path)
{
    struct stat st;
    const char *what, *command = picker_command(path, &what);
    if (!command) return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    char *quoted = picker_quote(path), *line = xasprintf("%s %s", command, quoted);
    char *about = xasprintf("%s\n\nEnter runs %s", path, line);
    add_object(l, path, what, line, about);
    free(quoted);
    return false;
}

static bool add_entry(void *self, const char *path, int level)
{
    return add_path(self, path);
}

void palette_files(struct list_view *l, bool (*wanted)(void *self), void *self)
{
    const struct folder_walk here = {
        .root = "", .entry = add_entry, .self = l, .wanted = wanted, .asker = self
    };
    add_models(l);
    l->files_cut = !folder_walk(&here);
}

void list_open_palette(struct view *v, const struct shell *shell)
{
    list_begin(v, LIST_PALETTE,
               "find: commands and settings, lines, sessions, jobs, models, files");
    add_commands(v);
    add_settings(v);
    add_lines(v);
    add_sessions(v, shell);
    add_jobs(v);
    list_await_files(v);
    list_ready(v);
}

// --- the start -----------------------------------------------------------------------------------

const char start_request[] = "start";

// Leaves at most `most` of the items after the first `from`.
static void keep_items(struct list_view *l, size_t from, size_t most)
{
    while (l->count > from + most) item_release(&l->items[--l->count]);
}

void start_models(struct list_view *l, bool (*wanted)(void *self), void *self)
{
    enum { MODELS = 4 };
    const char *what;
    add_models(l);
    char **names = folder_list(".");
    for (int i = 0; names[i] && l->count < MODELS && wanted(self); i++) {
        const char *command = *names[i] == '.' ? NULL : picker_command(names[i], &what);
        if (command && !strcmp(what, "model")) add_path(l, names[i]);
    }
    folder_list_free(names);
    keep_items(l, 0, MODELS);
    add_object(l, "another model", "F8: choose a folder or file", xstrdup("/open model"), NULL);
}

void start_number(struct list_view *l, size_t from)
{
    for (size_t i = from; i < l->count && i < 9; i++) {
        char *label = xasprintf("%zu  %s", i + 1, l->items[i].label);
        free(l->items[i].label);
        l->items[i].label = label;
    }
}

void list_open_start(struct view *v, const struct shell *shell)
{
    enum { SESSIONS = 4 };
    struct list_view *l = &v->list;
    list_begin(v, LIST_START, "vlmsh: how to begin");
    l->what = xstrdup(start_request);
    add_object(l, "tour", "what you can do, step by step", xstrdup("/tour"), NULL);
    const size_t from = l->count;
    add_sessions(v, shell);
    keep_items(l, from, SESSIONS);
    start_number(l, 0);
    list_await_files(v);
    list_ready(v);
}

// --- the description -----------------------------------------------------------------------------

static void describe_command(struct buf *b, const struct command *c)
{
    struct help_part part;
    char *details = command_details(c);
    buf_printf(b, "%s\n\n%s\n", c->usage, c->help);
    for (const char *at = details; help_part_next(&at, &part); help_part_release(&part))
        buf_printf(b, "\n%s%s%s\n", part.term ? part.term : "", part.term ? ": " : "", part.text);
    if (c->alias) buf_printf(b, "\nAliases: %s\n", c->alias);
    free(details);
}

static void describe_setting(struct buf *b, const struct view *v, const struct setting *row)
{
    char *allowed = setting_allowed(row);
    buf_printf(b, "%s = %s\n\n%s\n\nallowed: %s; default: %s", row->key,
               settings_text(v->settings, row->key), row->help, allowed,
               *row->def ? row->def : "(empty)");
    free(allowed);
}

void palette_describe(const struct view *v, struct canvas *c, struct area area)
{
    const struct item *item = list_selected(&v->list);
    struct buf b = { 0 };
    if (!item) return;
    if (item->about)
        buf_puts(&b, item->about);
    else if (item->kind == ITEM_COMMAND)
        describe_command(&b, command_find(item->label + 1));
    else if (item->kind == ITEM_SETTING)
        describe_setting(&b, v, settings_find(item->label));
    struct wrap w = wrap_begin_marked(b.data ? b.data : "", area.width);
    for (int y = 0; y < area.height && wrap_next(&w);) {
        if (area.height < 8 && !w.length) continue; // no blank lines in a small pane
        canvas_text_n(c, area, 0, y, y ? STYLE_NOTICE : STYLE_TITLE, w.line, w.length);
        y++;
    }
    buf_release(&b);
}
