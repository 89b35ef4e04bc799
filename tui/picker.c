// tui/picker.c -- lists a folder's files of one kind; choosing a file runs a command.
#include "tui/picker.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/folder.h"
#include "core/base/text.h"
#include "core/files/checkpoint.h"
#include "core/picture/source.h"
#include "tui/folder_walk.h"

enum { FILES_MAX = 5000 };

static const struct kind {
    const char *name, *title;
    const char *const *endings; // of files; NULL: only folders that contain the file `holds`
    const char *holds;
    const char *command;
    bool cached; // lists models of the Hugging Face cache first
} kinds[] = {
    { "model", "open a model", (const char *const[]){ ".gguf", NULL }, "config.json", "/load",
      true },
    { "image", "attach a picture", picture_endings, NULL, "/image", false },
    { "data", "check a data set", (const char *const[]){ ".json", ".jsonl", NULL }, NULL,
      "/data check", false },
    { "adapter", "load an adapter", NULL, "adapter_config.json", "/adapter load", false },
    { "session", "resume a session", NULL, NULL, "/session resume", false },
    { "script", "run a script", (const char *const[]){ ".vlmsh", NULL }, NULL, "/run", false },
};

static_assert(sizeof kinds / sizeof kinds[0] == PICKER_KINDS, "a folder for each (tui/view.h)");

static const struct kind *kind_find(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (!strcmp(kinds[i].name, name)) return &kinds[i];
    return NULL;
}

// --- quoting -------------------------------------------------------------------------------------

char *picker_quote(const char *path)
{
    struct buf b = { 0 };
    const char *p = path;
    while ((unsigned char)*p >= 0x20 && !strchr(" \"\\$~", *p)) p++;
    if (!*p && *path != '\'') return xstrdup(path);
    buf_putc(&b, '"');
    for (p = path; *p; p++) {
        if (*p == '"' || *p == '\\') buf_putc(&b, '\\');
        if ((unsigned char)*p < 0x20)
            buf_printf(&b, "\\u%04x", (unsigned char)*p);
        else if (*p == '$' && p[1] == '{')
            buf_puts(&b, "$$");
        else
            buf_putc(&b, *p);
    }
    buf_putc(&b, '"');
    return buf_take(&b);
}

// Removes quotes and backslashes by a shell's rules for one word.
static char *unquoted(const char *text)
{
    struct buf b = { 0 };
    char quote = 0;
    for (const char *p = text; *p; p++) {
        if (*p == quote) {
            quote = 0;
        } else if (!quote && (*p == '\'' || *p == '"')) {
            quote = *p;
        } else {
            const bool escapes = !quote || (quote == '"' && strchr("$`\"\\\n", p[1]));
            if (*p == '\\' && p[1] && escapes) p++;
            buf_putc(&b, *p);
        }
    }
    return buf_take(&b);
}

// Terminals insert the path of a dropped file unquoted, quoted for a shell, or as file://.
char *picker_dropped(const char *text)
{
    char *line = NULL;
    if (strlen(text) > PATH_MAX) return NULL;
    text += strspn(text, " \t\n");
    size_t length = strlen(text);
    while (length && strchr(" \t\n", text[length - 1])) length--;
    char *plain = xstrndup(text, length), *word = unquoted(plain);
    char *paths[] = { picture_source_path(plain), picture_source_path(word) };
    for (int i = 0; i < 2; i++) {
        struct stat st;
        if (!line && *paths[i] && !strchr(paths[i], '\n') &&
            text_ends_with_any(paths[i], picture_endings) && stat(paths[i], &st) == 0 &&
            S_ISREG(st.st_mode)) {
            char *quoted = picker_quote(paths[i]);
            line = xasprintf("/image %s", quoted);
            free(quoted);
        }
        free(paths[i]);
    }
    free(plain);
    free(word);
    return line;
}

// --- listing -------------------------------------------------------------------------------------

static bool holds(const char *folder, const char *file)
{
    char *path = xasprintf("%s/%s", folder, file);
    const bool there = access(path, R_OK) == 0;
    free(path);
    return there;
}

// Returns whether the kind's command opens this file or folder.
static bool opens(const struct kind *k, const char *path, const struct stat *st)
{
    if (S_ISDIR(st->st_mode)) return k->holds && holds(path, k->holds);
    return S_ISREG(st->st_mode) && k->endings && text_ends_with_any(path, k->endings);
}

const char *picker_command(const char *path, const char **what)
{
    struct stat st;
    if (stat(path, &st) < 0) return NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        *what = kinds[i].name;
        if (opens(&kinds[i], path, &st)) return kinds[i].command;
    }
    return NULL;
}

static bool is_folder(const struct item *item) // one to open, not a model or an adapter
{
    return !strcmp(item->note, "folder");
}

static int by_name(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    const int kind = is_folder(y) - is_folder(x); // folders first
    return kind ? kind : strcasecmp(x->label, y->label);
}

static void add_entry(struct list_view *l, const struct kind *k, const char *folder,
                      const char *name)
{
    struct stat st;
    char *path = folder_entry(folder, name);
    if (stat(path, &st) == 0) {
        const bool inside = S_ISDIR(st.st_mode), chosen = opens(k, path, &st);
        char *label = xasprintf("%s%s", name, inside ? "/" : "");
        if (inside || chosen) list_add(l, label, !inside ? "" : chosen ? k->name : "folder", path);
        free(label);
    }
    free(path);
}

// Adds the models in the cache of huggingface_hub.
static void add_cached(struct list_view *l)
{
    struct names found = { 0 };
    checkpoint_cached(&found);
    for (size_t i = 0; i < found.count; i++)
        list_add(l, found.list[i], "model in the Hugging Face cache", found.list[i]);
    names_release(&found);
}

void picker_entries(struct list_view *l, const struct list_request *r, bool (*wanted)(void *self),
                    void *self)
{
    const struct kind *k = kind_find(r->what);
    if (k->cached) add_cached(l);
    const size_t cached = l->count;
    char **names = folder_list(r->folder);
    for (size_t i = 0; names[i] && l->count < FILES_MAX && wanted(self); i++)
        if (names[i][0] != '.') add_entry(l, k, r->folder, names[i]);
    folder_list_free(names);
    if (l->count > cached) qsort(l->items + cached, l->count - cached, sizeof *l->items, by_name);
}

// The files of a kind in the folders of a folder.
struct deeper {
    struct list_view *list;
    const struct kind *kind;
    size_t skip; // length of the folder's path
};

static bool add_deeper(void *self, const char *path, int level)
{
    const struct deeper *d = self;
    struct stat st;
    if (stat(path, &st) < 0) return false;
    const bool inside = S_ISDIR(st.st_mode), chosen = opens(d->kind, path, &st);
    if (level && chosen)
        list_add(d->list, path + d->skip, inside ? d->kind->name : "", path)->kind = ITEM_DEEPER;
    return inside && !chosen;
}

void picker_deeper(struct list_view *l, const struct list_request *r, bool (*wanted)(void *self),
                   void *self)
{
    const size_t length = strlen(r->folder);
    struct deeper d = { l, kind_find(r->what), length + (r->folder[length - 1] != '/') };
    const struct folder_walk w = {
        .root = r->folder, .entry = add_deeper, .self = &d, .wanted = wanted, .asker = self
    };
    l->files_cut = !folder_walk(&w);
}

static void open_folder(struct view *v, const struct kind *k, const char *folder)
{
    char *title = xasprintf("%s: %s", k->title, folder);
    char *what = xstrdup(k->name), *place = xstrdup(folder);
    list_begin(v, LIST_PICKER, title);
    v->list.what = what;
    v->list.folder = place;
    free(v->folders[k - kinds]);
    v->folders[k - kinds] = xstrdup(place);
    if (strcmp(place, "/") != 0) { // the parent folder comes first
        char *up = xstrdup(place), *slash = strrchr(up, '/');
        if (slash) slash[slash == up ? 1 : 0] = '\0';
        list_add(&v->list, "../", "folder", up);
        free(up);
    }
    free(title);
    list_await_files(v);
    list_ready(v);
}

static void open_sessions(struct view *v, const struct kind *k, const struct shell *shell)
{
    struct session_row *rows = NULL;
    size_t count = 0;
    list_begin(v, LIST_PICKER, k->title);
    v->list.what = xstrdup(k->name);
    if (shell->store && store_list(shell->store, &rows, &count, NULL) == 0) {
        for (size_t i = 0; i < count; i++) {
            if (!rows[i].name) continue;
            char *ended = time_text(rows[i].ended, "%Y-%m-%d %H:%M");
            char *note = xasprintf("%s  %s", ended, rows[i].title ? rows[i].title : "");
            list_add(&v->list, rows[i].name, note, rows[i].name);
            free(note);
            free(ended);
        }
        store_list_free(rows, count);
    }
    list_ready(v);
}

void list_open_picker(struct view *v, const char *what, const struct shell *shell)
{
    char here[PATH_MAX];
    const struct kind *k = what && *what ? kind_find(what) : NULL;
    if (what && !strcmp(what, "start")) {
        list_open_start(v, shell);
    } else if (!k) {
        list_begin(v, LIST_PICKER, "open");
        v->list.what = xstrdup("kind");
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
            list_add(&v->list, kinds[i].name, kinds[i].title, kinds[i].name);
        list_ready(v);
    } else if (!k->endings && !k->holds) {
        open_sessions(v, k, shell);
    } else {
        char *last = v->folders[k - kinds] ? xstrdup(v->folders[k - kinds]) : NULL;
        open_folder(v, k, last ? last : getcwd(here, sizeof here) ? here : "/");
        free(last);
    }
}

void picker_up(struct view *v)
{
    const struct kind *k = v->list.folder ? kind_find(v->list.what) : NULL;
    if (!k || !strcmp(v->list.folder, "/")) return;
    char *up = xstrdup(v->list.folder), *slash = strrchr(up, '/');
    if (slash) slash[slash == up ? 1 : 0] = '\0';
    open_folder(v, k, up);
    free(up);
}

// --- choosing ------------------------------------------------------------------------------------

// Returns the path relative to the current folder if it is below that folder, else unchanged.
static const char *relative(const char *path)
{
    char here[PATH_MAX];
    const size_t n = getcwd(here, sizeof here) ? strlen(here) : 0;
    return n > 1 && !strncmp(path, here, n) && path[n] == '/' && path[n + 1] ? path + n + 1 : path;
}

void picker_choose(struct view *v, const struct shell *shell)
{
    const struct kind *k = kind_find(v->list.what);
    const struct item *item = list_selected(&v->list);
    char *value = xstrdup(item->value); // opening another list releases the item
    if (!k) {
        list_open_picker(v, value, shell);
    } else if (v->list.folder && is_folder(item)) {
        open_folder(v, k, value);
    } else {
        char *quoted = picker_quote(v->list.folder ? relative(value) : value);
        view_run(v, false, "%s %s", k->command, quoted);
        free(quoted);
        list_release(&v->list);
    }
    free(value);
}

void picker_look(struct view *v)
{
    const struct list_view *l = &v->list;
    if (l->kind != LIST_PICKER || strcmp(l->what, "image") != 0) return;
    const struct item *item = list_selected(l);
    if (!item) return;
    free(v->preview);
    v->preview = is_folder(item) ? NULL : xstrdup(item->value);
}

void picker_draw(struct view *v, struct canvas *c, struct area area)
{
    const struct list_view *l = &v->list;
    const struct preview *p = l->preview;
    if (!p || !list_selected(l) || strcmp(p->path, list_selected(l)->value) != 0) return;
    if (!p->image.pixels) {
        canvas_text(c, area, 0, 0, STYLE_DIM, "cannot be displayed");
        return;
    }
    canvas_printf(c, area, 0, area.height - 1, STYLE_DIM, "%lld x %lld", (long long)p->width,
                  (long long)p->height);
    picture_draw(p, c, (struct area){ area.x, area.y, area.width, area.height - 1 });
}
