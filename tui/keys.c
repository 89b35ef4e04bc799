// tui/keys.c -- the table of keys, and the user's bindings.
#include "tui/keys.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/methods/method.h"
#include "core/settings/settings.h"

static const struct key_row rows[] = {
    { "all", "F1", "help", "keys of the focused panel", "F1 keys" },
    { "all", "Ctrl-P", "palette", "find a command or setting", "Ctrl-P find" },
    { "all", "F2", "focus chat", "conversation: scroll, search, copy", NULL },
    { "all", "F3", "focus image", "picture and its maps", NULL },
    { "all", "F4", "focus settings", "settings", "F4 settings" },
    { "all", "F5", "focus dynamics", "curves over layers", NULL },
    { "all", "F6", "focus jobs", "training and other jobs", NULL },
    { "all", "F7", "layout", "next layout: chat, workbench, maps, compare, changed", "F7 layout" },
    { "all", "F8", "/open", "open a model, picture, data set, adapter or session", NULL },
    { "all", "F9", "theme", "next theme", NULL },
    { "all", "F10", "/quit", "quit", NULL },
    { "all", "F12", "focus compare", "the two answers of the last /compare", NULL },
    { "all", "Alt-s", "focus changed", "the questions that flipped in the last /compare", NULL },
    { "all", "Alt-t", "tint", "tint answers by picture, probability or entropy", NULL },
    { "all", "Ctrl-O", "/open image", "attach a picture", "Ctrl-O picture" },
    { "all", "Alt-V", "/image --clipboard", "attach the picture in the clipboard", NULL },
    { "all", "Ctrl-G", "edit", "edit the prompt in $EDITOR", NULL },
    { "all", "Ctrl-C", "stop", "stop the answer; twice when idle: quit", NULL },
    { "all", "Ctrl-Z", "suspend", "suspend to the shell; fg returns", NULL },
    { "all", "Ctrl-L", "redraw", "redraw the screen", NULL },
    { "all", "Shift-Tab", "focus-back", "previous panel", NULL },
    { "all", "PageUp", "page-up", "scroll back", NULL },
    { "all", "PageDown", "page-down", "scroll forward", NULL },
    { "panel", "?", "help", "keys of the focused panel", NULL },
    { "panel", "1", "focus chat", "conversation", NULL },
    { "panel", "2", "focus image", "picture", NULL },
    { "panel", "3", "focus settings", "settings", NULL },
    { "panel", "4", "focus dynamics", "curves over layers", NULL },
    { "panel", "5", "focus jobs", "jobs", NULL },
    { "panel", "6", "focus compare", "compared answers", NULL },
    { "input", "Tab", "complete", "complete; on an empty line: next panel", NULL },
    { "input", "Alt-Enter", "newline", "insert a new line", NULL },
    { "input", "Ctrl-Alt-J", "newline", "insert a new line, in terminals without Alt-Enter", NULL },
    { "input", "Esc", "close", "close the list or panel", NULL },
    { "chat", "Up", "up", "one line up", "Up Down: scroll" },
    { "chat", "Down", "down", "one line down", NULL },
    { "chat", "k", "up", "one line up", NULL },
    { "chat", "j", "down", "one line down", NULL },
    { "chat", "Home", "top", "to the start", NULL },
    { "chat", "End", "bottom", "to the end", NULL },
    { "chat", "g", "top", "to the start", NULL },
    { "chat", "G", "bottom", "to the end", NULL },
    { "chat", "Left", "left", "scroll tables left", "Left Right: wide tables" },
    { "chat", "Right", "right", "scroll tables right", NULL },
    { "chat", "/", "search", "search upwards", "/: search" },
    { "chat", "n", "next", "next match", NULL },
    { "chat", "N", "previous", "previous match", NULL },
    { "chat", "r", "reasoning", "open or fold the reasoning before the answer", NULL },
    { "chat", "y", "copy", "copy the last answer (to clipboard and file)", "y: copy" },
    { "chat", "Y", "copy-all", "copy the whole conversation", NULL },
    { "chat", "Tab", "focus-next", "next panel", NULL },
    { "chat", "Esc", "back", "back to the input line", "Esc: back" },
    { "image", "o", "mode", "map over the picture, beside it, map alone, picture alone",
      "o: view" },
    { "image", "g", "grid", "heads of the layer; of all layers, by attention to the picture; none",
      "g: heads" },
    { "image", "Enter", "show", "close the grid of heads with the chosen one", NULL },
    { "image", "c", "cursor", "read the value of patches: the arrows move the cursor, Esc ends",
      "c: values" },
    { "image", "n", "sinks", "leave attention sinks out of the map, or not", "n: no sinks" },
    { "image", "Left", "token-back", "previous token", "Left Right: token" },
    { "image", "Right", "token-next", "next token", NULL },
    { "image", "Home", "token-first", "first token", NULL },
    { "image", "End", "token-last", "newest token", NULL },
    { "image", "Up", "layer-up", "next layer", "Up Down: layer" },
    { "image", "Down", "layer-down", "previous layer", NULL },
    { "image", "h", "head", "next head", "h: head" },
    { "image", "k", "kind", "next kind of map", "k: kind" },
    { "image", "p", "play", "play through the tokens of the answer, or stop", "p: play" },
    { "image", "m", "map", "map on or off", "m: map" },
    { "image", "s", "smooth", "smooth or square patches", "s: smooth" },
    { "image", "r", "ramp", "next colour map", "r: colours" },
    { "image", "x", "hide",
      "hide the token at the cursor, in the selected box or of the highest value, or show it",
      "x: hide" },
    { "image", "[", "picture-back", "previous picture", "[ ]: picture" },
    { "image", "]", "picture-next", "next picture", NULL },
    { "image", "Tab", "focus-next", "next panel", NULL },
    { "image", "Esc", "back", "back to the input line", "Esc: back" },
    { "compare", "Left", "token-back", "previous token of both answers", "Left Right: token" },
    { "compare", "Right", "token-next", "next token", NULL },
    { "compare", "Up", "token-far-back", "ten tokens back", "Up Down: ten tokens" },
    { "compare", "Down", "token-far-next", "ten tokens forward", NULL },
    { "compare", "Home", "token-first", "first token", NULL },
    { "compare", "End", "token-last", "last token", NULL },
    { "compare", "d", "parting", "first token that differs", "d: first difference" },
    { "compare", "s", "smooth", "smooth or square patches", "s: smooth" },
    { "compare", "Tab", "focus-next", "next panel", NULL },
    { "compare", "Esc", "back", "back to the previous layout", "Esc: back" },
    { "changed", "Left", "back-one", "previous question", "Left Right: question" },
    { "changed", "Right", "next", "next question", NULL },
    { "changed", "Up", "back-one", "previous question", NULL },
    { "changed", "Down", "next", "next question", NULL },
    { "changed", "Home", "first", "first question", NULL },
    { "changed", "End", "last", "last question", NULL },
    { "changed", "PageUp", "page-up", "scroll the texts back", NULL },
    { "changed", "PageDown", "page-down", "scroll the texts forward", NULL },
    { "changed", "w", "which", "all flips, only worse in B, or only better in B",
      "w: worse, better" },
    { "changed", "[", "picture-back", "previous picture of the question", "[ ]: picture" },
    { "changed", "]", "picture-next", "next picture", NULL },
    { "changed", "Tab", "focus-next", "next panel", NULL },
    { "changed", "Esc", "back", "back to the previous layout", "Esc: back" },
    { "settings", "Up", "up", "one up", "Up Down: choose" },
    { "settings", "Down", "down", "one down", NULL },
    { "settings", "Left", "group-back", "previous group", "Left Right: group" },
    { "settings", "Right", "group-next", "next group", NULL },
    { "settings", "PageUp", "page-up", "one page up", NULL },
    { "settings", "PageDown", "page-down", "one page down", NULL },
    { "settings", "Home", "top", "first setting", NULL },
    { "settings", "End", "bottom", "last setting", NULL },
    { "settings", "Space", "toggle", "toggle, or next choice", "Space: toggle" },
    { "settings", "Enter", "change", "edit the value (Enter accepts, Esc cancels)", "Enter: edit" },
    { "settings", "d", "default", "reset to the default", "d: default" },
    { "settings", "/", "filter", "show only settings that contain a text", "/: filter" },
    { "settings", "c", "changed", "show only changed settings, or all", "c: changed" },
    { "settings", "Tab", "focus-next", "next panel", NULL },
    { "settings", "Esc", "back", "back to the input line", "Esc: back" },
    { "dynamics", "Left", "cursor-back", "cursor to the left", "Left Right: values" },
    { "dynamics", "Right", "cursor-next", "cursor to the right", NULL },
    { "dynamics", "Home", "cursor-first", "cursor to the first value", NULL },
    { "dynamics", "End", "cursor-last", "cursor to the last value", NULL },
    { "dynamics", "Up", "table-back", "previous table", "Up Down: table" },
    { "dynamics", "Down", "table-next", "next table", NULL },
    { "dynamics", "Enter", "show", "show the map of the layer at the cursor", "Enter: map" },
    { "dynamics", "u", "unit", "draw the columns of the next unit", "u: unit" },
    { "dynamics", "z", "zoom", "leave outliers out of the range, or not", "z: zoom" },
    { "dynamics", "g", "runs", "previous run, the last three, or none", "g: earlier runs" },
    { "dynamics", "Tab", "focus-next", "next panel", NULL },
    { "dynamics", "Esc", "back", "back to the input line", "Esc: back" },
    { "jobs", "Up", "up", "one up", "Up Down: choose" },
    { "jobs", "Down", "down", "one down", NULL },
    { "jobs", "PageUp", "page-up", "one page up", NULL },
    { "jobs", "PageDown", "page-down", "one page down", NULL },
    { "jobs", "Home", "top", "first job", NULL },
    { "jobs", "End", "bottom", "last job", NULL },
    { "jobs", "Enter", "show", "show details", "Enter: show" },
    { "jobs", "p", "pause", "pause the job", "p: pause" },
    { "jobs", "r", "resume", "resume the job", "r: resume" },
    { "jobs", "c", "cancel", "cancel the job", "c: cancel" },
    { "jobs", "l", "log", "show the log", "l: log" },
    { "jobs", "Space", "mark", "mark the job for comparison, or remove its mark", "Space: mark" },
    { "jobs", "=", "compare", "plot the losses of this job and the marked ones", "=: compare" },
    { "jobs", "u", "unit", "draw the next curves", "u: curves" },
    { "jobs", "/", "filter", "filter by kind, state, method or data", "/: filter" },
    { "jobs", "Tab", "focus-next", "next panel", NULL },
    { "jobs", "Esc", "back", "back to the input line", "Esc: back" },
    { "list", "Up", "up", "one up", NULL },
    { "list", "Down", "down", "one down", NULL },
    { "list", "PageUp", "page-up", "one page up", NULL },
    { "list", "PageDown", "page-down", "one page down", NULL },
    { "list", "Home", "top", "first item", NULL },
    { "list", "End", "bottom", "last item", NULL },
    { "list", "Tab", "down", "one down", NULL },
    { "list", "Shift-Tab", "up", "one up", NULL },
    { "list", "Enter", "choose", "choose the selected item", NULL },
    { "list", "Backspace", "rub", "delete the last letter", NULL },
    { "list", "Ctrl-U", "clear", "clear the search", NULL },
    { "list", "F1", "help", "keys of lists (also ? before a search)", NULL },
    { "list", "Esc", "close", "close the list", NULL },
    { "list", "Ctrl-C", "close", "close the list", NULL },
    { "pager", "Esc", "close", "close the page", "Esc: close" },
    { "pager", "q", "close", "close the page", NULL },
    { "pager", "Ctrl-C", "close", "close the page", NULL },
    { "pager", "/", "search", "search", "/: search" },
    { "pager", "?", "search-back", "search backwards", NULL },
    { "pager", "n", "next", "next match", "n N: next, previous" },
    { "pager", "N", "previous", "previous match", NULL },
    { "pager", "Space", "page-down", "one page down", "Space b: page" },
    { "pager", "PageDown", "page-down", "one page down", NULL },
    { "pager", "f", "page-down", "one page down", NULL },
    { "pager", "b", "page-up", "one page up", NULL },
    { "pager", "PageUp", "page-up", "one page up", NULL },
    { "pager", "Backspace", "page-up", "one page up", NULL },
    { "pager", "d", "half-down", "half a page down", NULL },
    { "pager", "u", "half-up", "half a page up", NULL },
    { "pager", "Down", "down", "one line down", "Up Down: scroll" },
    { "pager", "Up", "up", "one line up", NULL },
    { "pager", "Enter", "down", "one line down", NULL },
    { "pager", "j", "down", "one line down", NULL },
    { "pager", "k", "up", "one line up", NULL },
    { "pager", "Home", "top", "to the start", NULL },
    { "pager", "End", "bottom", "to the end", NULL },
    { "pager", "g", "top", "to the start", NULL },
    { "pager", "G", "bottom", "to the end", NULL },
    { "pager", "Ctrl-L", "redraw", "redraw the screen", NULL },
    { 0 },
};

const struct key_row *key_row(int index)
{
    const int count = (int)(sizeof rows / sizeof rows[0]) - 1;
    return index >= 0 && index < count ? &rows[index] : NULL;
}

struct keys {
    pthread_mutex_t mutex;
    struct bound {
        char name[32];
        char *command;
    } * bound;
    size_t count;
    // The table, with the keys that toggle methods after those of "all"; the last row has no key.
    struct key_row rows[sizeof rows / sizeof rows[0] + METHODS_MAX];
    struct key_row *methods; // rows of methods, in `rows`; command and note are owned
    int method_count;
};

// "/toggle ira.on", "/toggle prune.score off contribution".
static struct key_row method_row(const struct method *m)
{
    const struct method_switch *t = &m->toggle;
    const bool flag = settings_find(t->key)->type == SETTING_FLAG;
    return (struct key_row){ .context = "all",
                             .key = m->press,
                             .command = flag ? xasprintf("/toggle %s", t->key)
                                             : xasprintf("/toggle %s %s %s", t->key, t->off, t->on),
                             .note = xasprintf("%s on or off", m->title) };
}

struct keys *keys_new(void)
{
    struct keys *k = xcalloc(1, sizeof *k);
    const struct method *m;
    struct key_row *to = k->rows;
    const struct key_row *row = rows;
    while (!strcmp(row->context, "all")) *to++ = *row++;
    k->methods = to;
    for (int i = 0; (m = method_shown(i)); i++)
        if (m->press) *to++ = method_row(m);
    k->method_count = (int)(to - k->methods);
    while (row->key) *to++ = *row++;
    pthread_mutex_init(&k->mutex, NULL);
    return k;
}

void keys_free(struct keys *k)
{
    if (!k) return;
    for (size_t i = 0; i < k->count; i++) free(k->bound[i].command);
    free(k->bound);
    for (int i = 0; i < k->method_count; i++) {
        free((char *)(uintptr_t)k->methods[i].command);
        free((char *)(uintptr_t)k->methods[i].note);
    }
    pthread_mutex_destroy(&k->mutex);
    free(k);
}

// --- names ---------------------------------------------------------------------------------------

// The sets of modifiers with which terminals send a key, as a bit mask.
#define WITH(modifiers) (1U << (modifiers))
enum { ALONE = WITH(0), ANY = 0xff };

static const struct {
    const char *name;
    unsigned with;
} named[] = {
    { "Enter", ALONE | WITH(KEY_ALT) },
    { "Tab", ALONE | WITH(KEY_SHIFT) | WITH(KEY_ALT) },
    { "Esc", ALONE },
    { "Space", ALONE | WITH(KEY_CTRL) | WITH(KEY_ALT) | WITH(KEY_CTRL | KEY_ALT) },
    { "Backspace", ALONE | WITH(KEY_ALT) },
    { "Up", ANY },
    { "Down", ANY },
    { "Left", ANY },
    { "Right", ANY },
    { "Home", ANY },
    { "End", ANY },
    { "PageUp", ANY },
    { "PageDown", ANY },
    { "Insert", ANY },
    { "Delete", ANY },
};

// With Ctrl, these keys send the bytes of other keys.
static const struct {
    char letter;
    const char *name;
    unsigned modifiers; // of that key, instead of Ctrl
} same[] = {
    { 'M', "Enter", 0 }, { 'I', "Tab", 0 },       { 'H', "Backspace", 0 },
    { '[', "Esc", 0 },   { '?', "Backspace", 0 }, { '@', "Space", KEY_CTRL },
};

// Takes the modifier at *p and advances past it; 0: none.
static unsigned take_modifier(const char **p)
{
    static const struct {
        const char *typed;
        unsigned modifier;
    } list[] = { { "Ctrl-", KEY_CTRL }, { "C-", KEY_CTRL },     { "^", KEY_CTRL },
                 { "Alt-", KEY_ALT },   { "M-", KEY_ALT },      { "Meta-", KEY_ALT },
                 { "S-", KEY_SHIFT },   { "Shift-", KEY_SHIFT } };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        const size_t n = strlen(list[i].typed);
        if (strncasecmp(*p, list[i].typed, n) || !(*p)[n]) continue;
        *p += n;
        return list[i].modifier;
    }
    return 0;
}

static bool spell_named(const char *typed, unsigned modifiers, char name[32])
{
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++) {
        if (strcasecmp(typed, named[i].name) != 0) continue;
        snprintf(name, 32, "%s%s", key_modifiers(modifiers), named[i].name);
        return named[i].with & WITH(modifiers);
    }
    for (int number = 1; number <= 12; number++) {
        char function[16];
        snprintf(function, sizeof function, "F%d", number);
        if (strcasecmp(typed, function) != 0) continue;
        snprintf(name, 32, "%s%s", key_modifiers(modifiers), function);
        return true;
    }
    return false;
}

// Shift is part of the letter. With Ctrl, terminals send only capitals and a few symbols.
static bool spell_letter(char letter, unsigned modifiers, char name[32])
{
    const bool control = modifiers & KEY_CTRL;
    if (letter <= ' ' || letter >= 0x7f || modifiers & KEY_SHIFT) return false;
    if (control) letter = (char)toupper((unsigned char)letter);
    for (size_t i = 0; control && i < sizeof same / sizeof same[0]; i++)
        if (same[i].letter == letter)
            return spell_named(same[i].name, (modifiers & ~KEY_CTRL) | same[i].modifiers, name);
    snprintf(name, 32, "%s%c", key_modifiers(modifiers), letter);
    return !control || (letter >= 'A' && letter <= '_');
}

bool key_spell(const char *typed, char name[32])
{
    unsigned modifiers = 0, modifier;
    while ((modifier = take_modifier(&typed))) modifiers |= modifier;
    if (*typed && !typed[1]) return spell_letter(*typed, modifiers, name);
    return spell_named(typed, modifiers, name);
}

// --- commands of keys ----------------------------------------------------------------------------

static const struct bound *find_bound(const struct keys *k, const char *key)
{
    for (size_t i = 0; i < k->count; i++)
        if (!strcmp(k->bound[i].name, key)) return &k->bound[i];
    return NULL;
}

static const char *find_row(const struct key_row *row, const char *context, const char *key)
{
    for (; row->key; row++)
        if (!strcmp(row->context, context) && !strcmp(row->key, key)) return row->command;
    return NULL;
}

char *keys_find(struct keys *k, const char *context, const char *key)
{
    pthread_mutex_lock(&k->mutex);
    const struct bound *bound = find_bound(k, key);
    const char *command = bound ? bound->command : find_row(k->rows, context, key);
    // An open list or page receives every key, including those of "all", except a user's bindings.
    const bool alone = !strcmp(context, "list") || !strcmp(context, "pager");
    if (!command && !alone && strcmp(context, "input") != 0)
        command = find_row(k->rows, "panel", key);
    if (!command && !alone) command = find_row(k->rows, "all", key);
    char *copy = command ? xstrdup(command) : NULL;
    pthread_mutex_unlock(&k->mutex);
    return copy;
}

// Keys that cannot be bound: users need them to type, send and stop lines, including /bind.
static const struct {
    const char *key, *does;
} fixed[] = {
    { "Ctrl-C", "always stops the running command" },
    { "Enter", "sends the line" },
    { "Space", "types a space" },
    { "Backspace", "deletes what was typed" },
};

int keys_bind(struct keys *k, const char *key, const char *command, struct err *err)
{
    char name[32];
    if (!key_spell(key, name))
        return err_set(
            err,
            "'%s' is not a key that terminals send: use names such as F5, Ctrl-T, Alt-x, PageUp",
            key);
    if (!strchr(name, '-') && !name[1])
        return err_set(err, "'%s' types a character: bind Alt-%c or a function key", name, name[0]);
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        if (!strcmp(name, fixed[i].key))
            return err_set(err, "%s %s: bind another key", name, fixed[i].does);
    pthread_mutex_lock(&k->mutex);
    size_t i = 0;
    while (i < k->count && strcmp(k->bound[i].name, name) != 0) i++;
    if (i < k->count) {
        free(k->bound[i].command);
        k->bound[i] = k->bound[--k->count];
    }
    if (command && *command) {
        k->bound = xreallocarray(k->bound, k->count + 1, sizeof *k->bound);
        struct bound *b = &k->bound[k->count++];
        snprintf(b->name, sizeof b->name, "%s", name);
        b->command = xstrdup(command);
    }
    pthread_mutex_unlock(&k->mutex);
    return 0;
}

void keys_each(struct keys *k, void (*each)(void *self, const struct key_row *row), void *self)
{
    pthread_mutex_lock(&k->mutex);
    for (size_t i = 0; i < k->count; i++) {
        const struct key_row row = { "all", k->bound[i].name, k->bound[i].command, "bound by /bind",
                                     NULL };
        each(self, &row);
    }
    for (const struct key_row *row = k->rows; row->key; row++)
        if (!find_bound(k, row->key)) each(self, row);
    pthread_mutex_unlock(&k->mutex);
}

char *keys_hints(struct keys *k, const char *context)
{
    struct buf b = { 0 };
    pthread_mutex_lock(&k->mutex);
    for (int esc = 1; esc >= 0; esc--) // the hint for Esc is first
        for (const struct key_row *row = rows; row->key; row++) {
            if (!row->hint || strcmp(row->context, context) != 0) continue;
            const bool out = !strcmp(row->key, "Esc");
            if (out != (esc == 1) || find_bound(k, row->key)) continue;
            buf_printf(&b, "%s%s", b.length ? "  " : "", row->hint);
        }
    pthread_mutex_unlock(&k->mutex);
    return b.data ? buf_take(&b) : xstrdup("");
}
