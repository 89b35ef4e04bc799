// tui/keys.c -- the table of keys, and what the user bound.
#include "tui/keys.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct key_row rows[] = {
    { "all", "F1", "help", "keys of where one is" },
    { "all", "F2", "focus chat", "scroll, search and copy the conversation" },
    { "all", "F3", "focus image", "the picture and its maps" },
    { "all", "F4", "focus settings", "change settings" },
    { "all", "F5", "focus dynamics", "curves over the layers" },
    { "all", "F6", "focus jobs", "training and other jobs" },
    { "all", "F7", "layout", "next layout: chat, workbench, maps, compare" },
    { "all", "F8", "/open", "choose a model, picture, data, adapter or session" },
    { "all", "F9", "theme", "next theme" },
    { "all", "F10", "/quit", "leave" },
    { "all", "F12", "focus compare", "the two answers of the last /compare" },
    { "all", "Ctrl-P", "palette", "find any command or setting" },
    { "all", "Ctrl-O", "/open image", "choose a picture" },
    { "all", "Ctrl-G", "edit", "write the prompt in $EDITOR" },
    { "all", "Ctrl-C", "stop", "stop the answer; twice when idle: leave" },
    { "all", "Ctrl-Z", "suspend", "back to the shell; fg returns" },
    { "all", "Ctrl-L", "redraw", "draw the screen anew" },
    { "all", "Shift-Tab", "focus-back", "the panel before" },
    { "all", "PageUp", "page-up", "scroll the conversation back" },
    { "all", "PageDown", "page-down", "scroll it forth" },
    { "all", "Alt-1", "/toggle norm.align", "norm alignment on or off" },
    { "all", "Alt-2", "/toggle prune.score off contribution", "pruning on or off" },
    { "all", "Alt-3", "/toggle ffn.approx off hadamard", "FFN approximation on or off" },
    { "all", "Alt-4", "/toggle ira.on", "IRA on or off" },
    { "input", "Tab", "complete", "complete; on an empty line: the next panel" },
    { "input", "Esc", "close", "close what is open" },
    { "chat", "Up", "up", "one line back" },
    { "chat", "Down", "down", "one line forth" },
    { "chat", "k", "up", "one line back" },
    { "chat", "j", "down", "one line forth" },
    { "chat", "Home", "top", "to the beginning" },
    { "chat", "End", "bottom", "to the end" },
    { "chat", "g", "top", "to the beginning" },
    { "chat", "G", "bottom", "to the end" },
    { "chat", "Left", "left", "tables: to the left" },
    { "chat", "Right", "right", "tables: to the right" },
    { "chat", "/", "search", "search back" },
    { "chat", "n", "next", "next place found" },
    { "chat", "N", "previous", "the place found before" },
    { "chat", "y", "copy", "copy the last answer (clipboard, and a file)" },
    { "chat", "Y", "copy-all", "copy the whole conversation" },
    { "chat", "Tab", "focus-next", "the next panel" },
    { "chat", "Esc", "back", "back to the input line" },
    { "image", "Left", "token-back", "the token before" },
    { "image", "Right", "token-next", "the next token" },
    { "image", "Home", "token-first", "the first token" },
    { "image", "End", "token-last", "the newest token" },
    { "image", "Up", "layer-up", "the next layer" },
    { "image", "Down", "layer-down", "the layer before" },
    { "image", "h", "head", "the next head" },
    { "image", "k", "kind", "the next kind of map" },
    { "image", "m", "map", "map on or off" },
    { "image", "s", "smooth", "smooth or square patches" },
    { "image", "r", "ramp", "the next colours of maps" },
    { "image", "[", "picture-back", "the picture before" },
    { "image", "]", "picture-next", "the next picture" },
    { "image", "Tab", "focus-next", "the next panel" },
    { "image", "Esc", "back", "back to the input line" },
    { "compare", "Left", "token-back", "the token before, in both answers" },
    { "compare", "Right", "token-next", "the next token" },
    { "compare", "Up", "token-far-back", "ten tokens back" },
    { "compare", "Down", "token-far-next", "ten tokens on" },
    { "compare", "Home", "token-first", "the first token" },
    { "compare", "End", "token-last", "the last token" },
    { "compare", "d", "parting", "the token at which the answers part" },
    { "compare", "s", "smooth", "smooth or square patches" },
    { "compare", "Tab", "focus-next", "the next panel" },
    { "compare", "Esc", "back", "back to the layout before" },
    { "settings", "Up", "up", "one up" },
    { "settings", "Down", "down", "one down" },
    { "settings", "Left", "group-back", "the group before" },
    { "settings", "Right", "group-next", "the next group" },
    { "settings", "Home", "top", "the first" },
    { "settings", "End", "bottom", "the last" },
    { "settings", "Space", "toggle", "switch, or the next choice" },
    { "settings", "Enter", "change", "edit the value (Enter takes it, Esc leaves it)" },
    { "settings", "d", "default", "the default again" },
    { "settings", "c", "changed", "only changed ones, or all" },
    { "settings", "Tab", "focus-next", "the next panel" },
    { "settings", "Esc", "back", "back to the input line" },
    { "dynamics", "Left", "table-back", "the table before" },
    { "dynamics", "Right", "table-next", "the next table" },
    { "dynamics", "g", "ghost", "the run before, shown or not" },
    { "dynamics", "Tab", "focus-next", "the next panel" },
    { "dynamics", "Esc", "back", "back to the input line" },
    { "jobs", "Up", "up", "one up" },
    { "jobs", "Down", "down", "one down" },
    { "jobs", "Enter", "show", "all about it" },
    { "jobs", "p", "pause", "pause it" },
    { "jobs", "r", "resume", "go on with it" },
    { "jobs", "c", "cancel", "cancel it" },
    { "jobs", "Tab", "focus-next", "the next panel" },
    { "jobs", "Esc", "back", "back to the input line" },
    { "list", "Up", "up", "one up" },
    { "list", "Down", "down", "one down" },
    { "list", "PageUp", "page-up", "a page up" },
    { "list", "PageDown", "page-down", "a page down" },
    { "list", "Tab", "down", "one down" },
    { "list", "Shift-Tab", "up", "one up" },
    { "list", "Enter", "choose", "take it" },
    { "list", "Backspace", "rub", "rub out the last letter" },
    { "list", "Ctrl-U", "clear", "rub out all letters" },
    { "list", "Esc", "close", "close the list" },
    { "list", "Ctrl-C", "close", "close the list" },
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
};

struct keys *keys_new(void)
{
    struct keys *k = xcalloc(1, sizeof *k);
    pthread_mutex_init(&k->mutex, NULL);
    return k;
}

void keys_free(struct keys *k)
{
    if (!k) return;
    for (size_t i = 0; i < k->count; i++) free(k->bound[i].command);
    free(k->bound);
    pthread_mutex_destroy(&k->mutex);
    free(k);
}

// --- names ---------------------------------------------------------------------------------------

static const char *const named[] = {
    "Enter", "Tab", "Esc",    "Space",    "Backspace", "Up",     "Down", "Left", "Right",
    "Home",  "End", "PageUp", "PageDown", "Insert",    "Delete", "F1",   "F2",   "F3",
    "F4",    "F5",  "F6",     "F7",       "F8",        "F9",     "F10",  "F11",  "F12",
};

// The modifier at *p, if one begins there: *p is behind it.
static const char *take_modifier(const char **p)
{
    static const struct {
        const char *typed, *name;
    } list[] = { { "Ctrl-", "Ctrl-" }, { "C-", "Ctrl-" },     { "^", "Ctrl-" },
                 { "Alt-", "Alt-" },   { "M-", "Alt-" },      { "Meta-", "Alt-" },
                 { "S-", "Shift-" },   { "Shift-", "Shift-" } };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        const size_t n = strlen(list[i].typed);
        if (strncasecmp(*p, list[i].typed, n) || !(*p)[n]) continue;
        *p += n;
        return list[i].name;
    }
    return NULL;
}

bool key_spell(const char *typed, char name[32])
{
    char modifiers[24] = "";
    const char *modifier;
    while ((modifier = take_modifier(&typed)) && strlen(modifiers) < 12)
        strcat(modifiers, modifier); // NOLINT(clang-analyzer-security.insecureAPI.strcpy)
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++)
        if (!strcasecmp(typed, named[i])) {
            snprintf(name, 32, "%s%s", modifiers, named[i]);
            return true;
        }
    if (typed[0] <= ' ' || typed[0] >= 0x7f || typed[1]) return false;
    const bool control = strstr(modifiers, "Ctrl-") != NULL;
    snprintf(name, 32, "%s%c", modifiers, control ? toupper((unsigned char)typed[0]) : typed[0]);
    return true;
}

// --- what they do --------------------------------------------------------------------------------

static const struct bound *find_bound(const struct keys *k, const char *key)
{
    for (size_t i = 0; i < k->count; i++)
        if (!strcmp(k->bound[i].name, key)) return &k->bound[i];
    return NULL;
}

static const char *find_row(const char *context, const char *key)
{
    for (const struct key_row *row = rows; row->key; row++)
        if (!strcmp(row->context, context) && !strcmp(row->key, key)) return row->command;
    return NULL;
}

char *keys_find(struct keys *k, const char *context, const char *key)
{
    pthread_mutex_lock(&k->mutex);
    const struct bound *bound = find_bound(k, key);
    const char *command = bound ? bound->command : find_row(context, key);
    // A list that is open takes every key.
    if (!command && strcmp(context, "list") != 0) command = find_row("all", key);
    char *copy = command ? xstrdup(command) : NULL;
    pthread_mutex_unlock(&k->mutex);
    return copy;
}

static void unbind(struct keys *k, const char *name)
{
    for (size_t i = 0; i < k->count; i++) {
        if (strcmp(k->bound[i].name, name)) continue;
        free(k->bound[i].command);
        k->bound[i] = k->bound[--k->count];
        return;
    }
}

int keys_bind(struct keys *k, const char *key, const char *command, struct err *err)
{
    char name[32];
    if (!key_spell(key, name))
        return err_set(err,
                       "'%s' is no key: use names as F5, Ctrl-T, Alt-x, PageUp (/keys lists "
                       "them)",
                       key);
    if (!strchr(name, '-') && !name[1])
        return err_set(err,
                       "'%s' is a letter, which writes itself: bind Ctrl-%c, Alt-%c or a "
                       "function key",
                       name, toupper((unsigned char)name[0]), name[0]);
    if (!strcmp(name, "Ctrl-C"))
        return err_set(err, "Ctrl-C always stops what runs: bind another key");
    pthread_mutex_lock(&k->mutex);
    unbind(k, name);
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
        const struct key_row row = { "all", k->bound[i].name, k->bound[i].command,
                                     "bound by /bind" };
        each(self, &row);
    }
    for (const struct key_row *row = rows; row->key; row++)
        if (!find_bound(k, row->key)) each(self, row);
    pthread_mutex_unlock(&k->mutex);
}
