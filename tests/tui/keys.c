// tests/tui/keys.c -- tui/key_reader.c, keys.c: bytes to key names, key names to actions; list.c,
// picker.c: the search in lists, files that another thread lists, dropped pictures.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/core/scratch.h"
#include "tui/folder_walk.h"
#include "tui/keys.h"
#include "tui/list.h"
#include "tui/pager.h"
#include "tui/picker.h"
#include "tui/screen_parts.h"

static void expect_key(const char *bytes, const char *name)
{
    struct key_reader r = { 0 };
    struct key key;
    key_reader_add(&r, bytes, strlen(bytes));
    assert_true(key_reader_next(&r, true, &key));
    assert_string_equal(key.name, name);
    assert_int_equal(key.length, strlen(bytes));
    assert_false(key_reader_open(&r));
    key_reader_release(&r);
}

static void test_names(void **state)
{
    expect_key("a", "a");
    expect_key("\xc3\xa4", "\xc3\xa4");
    expect_key(" ", "Space");
    expect_key("\r", "Enter");
    expect_key("\t", "Tab");
    expect_key("\177", "Backspace");
    expect_key("\x10", "Ctrl-P");
    expect_key("\033", "Esc");
    expect_key("\033x", "Alt-x");
    expect_key("\033[A", "Up");
    expect_key("\033OA", "Up");
    expect_key("\033[5~", "PageUp");
    expect_key("\033[Z", "Shift-Tab");
    expect_key("\033OP", "F1");
    expect_key("\033[[A", "F1"); // Linux console
    expect_key("\033[11~", "F1");
    expect_key("\033[24~", "F12");
    expect_key("\033[1;5C", "Ctrl-Right");
    expect_key("\033[5;3~", "Alt-PageUp");
    expect_key("\033[1;8A", "Ctrl-Alt-Shift-Up");
    expect_key("\033\024", "Ctrl-Alt-T");
    expect_key("\033\r", "Alt-Enter");
    expect_key("\034", "Ctrl-\\");
    expect_key("\033[999~", "");
    expect_key("\033[1;99A", "Up");
}

// Replies of the terminal that arrive byte by byte are not keys; the reader reports that a part is
// still missing.
static void test_replies(void **state)
{
    static const char *const replies[] = {
        "\033[?62;4;22c",
        "\033[6;20;10t",
        "\033_Gi=31;OK\033\\",
        "\033P>|XTerm(379)\033\\",
        "\033P1$r0;48:2::1:2:3m\033\\",
        "\033P0$r\033\\",
        "\033]4;255;rgb:eeee/eeee/eeee\033\\",
        "\033]4;255;rgb:eeee/eeee/eeee\a",
    };
    struct key key;
    for (size_t i = 0; i < sizeof replies / sizeof replies[0]; i++) {
        struct key_reader r = { 0 };
        const size_t length = strlen(replies[i]);
        for (size_t k = 0; k < length; k++) {
            assert_false(key_reader_next(&r, false, &key));
            assert_int_equal(key_reader_replying(&r), k > 2);
            key_reader_add(&r, replies[i] + k, 1);
        }
        assert_true(key_reader_next(&r, false, &key));
        assert_int_equal(key.kind, KEY_REPLY);
        assert_false(key_reader_open(&r));
        key_reader_release(&r);
    }
    expect_key("\033]", "Alt-]"); // typed by the user
    expect_key("\033P", "Alt-P");
}

// A sequence that arrives in pieces is one key; nothing is consumed before it is complete.
static void test_pieces(void **state)
{
    struct key_reader r = { 0 };
    struct key key;
    const char bytes[] = "\033[1;5C";
    for (size_t i = 0; i + 1 < sizeof bytes - 1; i++) {
        key_reader_add(&r, bytes + i, 1);
        assert_false(key_reader_next(&r, false, &key));
        assert_true(key_reader_open(&r));
    }
    key_reader_add(&r, "C", 1);
    assert_true(key_reader_next(&r, false, &key));
    assert_string_equal(key.name, "Ctrl-Right");
    key_reader_add(&r, "\xe7\x8c", 2);
    assert_false(key_reader_next(&r, false, &key));
    key_reader_add(&r, "\xab", 1);
    assert_true(key_reader_next(&r, false, &key));
    assert_string_equal(key.name, "\xe7\x8c\xab");
    key_reader_release(&r);
}

static void test_paste(void **state)
{
    struct key_reader r = { 0 };
    struct key key;
    const char first[] = "\033[200~one\rtwo\033[A\033[20", second[] = "1~x";
    key_reader_add(&r, first, sizeof first - 1);
    assert_false(key_reader_next(&r, false, &key));
    key_reader_add(&r, second, sizeof second - 1);
    assert_true(key_reader_next(&r, false, &key));
    assert_int_equal(key.kind, KEY_PASTE);
    assert_string_equal(key.paste, "one\ntwo\033[A");
    free(key.paste);
    assert_true(key_reader_next(&r, false, &key));
    assert_string_equal(key.name, "x");
    key_reader_add(&r, "\033[200~lost", 10); // the end of this paste never arrives
    assert_false(key_reader_next(&r, false, &key));
    assert_true(key_reader_next(&r, true, &key));
    assert_string_equal(key.paste, "lost");
    free(key.paste);
    key_reader_add(&r, "x", 1);
    assert_true(key_reader_next(&r, false, &key));
    assert_string_equal(key.name, "x");
    key_reader_add(&r, "\033[200~lat", 9); // the end of this paste arrives after a pause
    assert_false(key_reader_next(&r, false, &key));
    assert_true(key_reader_next(&r, true, &key));
    free(key.paste);
    key_reader_add(&r, "e\r/quit\r\033[201~y", 15);
    assert_true(key_reader_next(&r, false, &key));
    assert_string_equal(key.paste, "e\n/quit\n");
    free(key.paste);
    assert_true(key_reader_next(&r, false, &key));
    assert_string_equal(key.name, "y");
    // The end of this paste never arrives, but another paste does.
    key_reader_add(&r, "\033[200~", 6);
    assert_true(key_reader_next(&r, true, &key));
    free(key.paste);
    key_reader_add(&r, "\033[200~new\033[201~", 15);
    assert_true(key_reader_next(&r, false, &key));
    assert_string_equal(key.paste, "new");
    free(key.paste);
    key_reader_release(&r);
}

static void test_mouse(void **state)
{
    struct key_reader r = { 0 };
    struct key key;
    key_reader_add(&r, "\033[<0;10;5M\033[<64;1;1M\033[<0;10;5m\033[M !!", 36);
    assert_true(key_reader_next(&r, false, &key));
    assert_int_equal(key.kind, KEY_MOUSE);
    assert_int_equal(key.button, 1);
    assert_int_equal(key.x, 9);
    assert_int_equal(key.y, 4);
    assert_true(key_reader_next(&r, false, &key));
    assert_int_equal(key.button, 4);
    assert_true(key_reader_next(&r, false, &key));
    assert_int_equal(key.button, 0); // released
    assert_true(key_reader_next(&r, false, &key));
    assert_int_equal(key.button, 1);
    assert_int_equal(key.x, 0);
    // Movements, with and without a button, are neither clicks nor releases.
    const char *const moves[] = { "\033[<35;10;5M", "\033[<32;10;5M", "\033[MC!!" };
    for (int i = 0; i < 3; i++) {
        key_reader_add(&r, moves[i], strlen(moves[i]));
        assert_true(key_reader_next(&r, false, &key));
        assert_true(key.kind == KEY_MOUSE && key.moved && !key.button);
    }
    key_reader_add(&r, "\033[<0;10;5m", 10);
    assert_true(key_reader_next(&r, false, &key));
    assert_true(!key.moved && !key.button);
    key_reader_release(&r);
}

// Any bytes are consumed completely.
static void test_any_bytes(void **state)
{
    uint32_t dice = 7;
    struct key_reader r = { 0 };
    struct key key;
    for (int i = 0; i < 20000; i++) {
        static const char likely[] = "\033[<;M0123~AO\177\x80\xf0\0";
        dice = dice * 1664525 + 1013904223;
        const uint32_t n = dice >> 16;
        const char c = n & 1 ? likely[n / 2 % (sizeof likely - 1)] : (char)(n >> 4);
        key_reader_add(&r, &c, 1);
        while (key_reader_next(&r, i % 50 == 0, &key)) free(key.paste);
    }
    while (key_reader_next(&r, true, &key)) free(key.paste);
    assert_false(key_reader_open(&r));
    key_reader_release(&r);
}

static void expect_found(struct keys *k, const char *context, const char *key, const char *command)
{
    char *found = keys_find(k, context, key);
    if (command)
        assert_string_equal(found, command);
    else
        assert_null(found);
    free(found);
}

static void test_bind(void **state)
{
    struct keys *k = keys_new();
    struct err err;
    expect_found(k, "input", "F1", "help");
    expect_found(k, "chat", "n", "next");
    expect_found(k, "input", "n", NULL);
    expect_found(k, "list", "F2", NULL); // an open list takes all keys
    expect_found(k, "jobs", "3", "focus settings");
    expect_found(k, "input", "3", NULL);
    expect_found(k, "pager", "3", NULL);
    assert_int_equal(keys_bind(k, "c-t", "/toggle ira.on", &err), 0);
    expect_found(k, "settings", "Ctrl-T", "/toggle ira.on");
    assert_int_equal(keys_bind(k, "f1", "/help", &err), 0);
    expect_found(k, "chat", "F1", "/help");
    assert_int_equal(keys_bind(k, "F1", NULL, &err), 0);
    expect_found(k, "chat", "F1", "help");
    assert_int_equal(keys_bind(k, "F99", "/help", &err), -1);
    assert_non_null(strstr(err.text, "'F99' is not a key"));
    assert_int_equal(keys_bind(k, "x", "/help", &err), -1);
    assert_int_equal(keys_bind(k, "Ctrl-C", "/help", &err), -1);
    assert_int_equal(keys_bind(k, "", "/help", &err), -1);
    keys_free(k);
}

// The keys that type, delete and send keep these meanings.
static void test_fixed(void **state)
{
    static const struct {
        const char *key, *why;
    } fixed[] = { { "Space", "Space types a space" },
                  { "Enter", "Enter sends the line" },
                  { "C-m", "Enter sends the line" },
                  { "Backspace", "Backspace deletes" } };
    struct keys *k = keys_new();
    struct err err;
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
        assert_int_equal(keys_bind(k, fixed[i].key, "/help", &err), -1);
        assert_non_null(strstr(err.text, fixed[i].why));
    }
    assert_int_equal(keys_bind(k, "Alt-Enter", "/help", &err), 0);
    keys_free(k);
}

// Each spelling of a key becomes the reader's name of it; keys that no terminal sends are refused.
static void test_spelling(void **state)
{
    static const struct {
        const char *typed, *name; // NULL: refused
    } cases[] = {
        { "Ctrl-Alt-t", "Ctrl-Alt-T" },
        { "alt-ctrl-t", "Ctrl-Alt-T" },
        { "Shift-Ctrl-F5", "Ctrl-Shift-F5" },
        { "M-S-Up", "Alt-Shift-Up" },
        { "Ctrl-M", "Enter" },
        { "Ctrl-i", "Tab" },
        { "^H", "Backspace" },
        { "Ctrl-[", "Esc" },
        { "Alt-Ctrl-M", "Alt-Enter" },
        { "Ctrl-@", "Ctrl-Space" },
        { "^^", "Ctrl-^" },
        { "S-Tab", "Shift-Tab" },
        { "Ctrl-1", NULL },
        { "Shift-x", NULL },
        { "Ctrl-Shift-x", NULL },
        { "Ctrl-Tab", NULL },
        { "Shift-Enter", NULL },
        { "Alt-Esc", NULL },
        { "Ctrl-Ctrl-", NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[32] = "";
        const bool known = key_spell(cases[i].typed, name);
        if (known != (cases[i].name != NULL) || (known && strcmp(name, cases[i].name) != 0))
            fail_msg("'%s' is '%s'", cases[i].typed, known ? name : "refused");
    }
}

// The panel, the pager or the screen implements every action of the table, except those of lists.
static void test_actions_known(void **state)
{
    struct view *v = view_new();
    for (int i = 0; key_row(i); i++) {
        const struct key_row *row = key_row(i);
        char name[32];
        assert_true(key_spell(row->key, name));
        assert_string_equal(name, row->key);
        if (*row->command == '/' || !strcmp(row->context, "list")) continue;
        const struct panel *panel = panel_at(panel_find(row->context));
        if (!strcmp(row->context, "pager") && pager_act(v, row->command)) continue;
        const bool known = (panel && panel->act(v, row->command) != PANEL_IGNORED) ||
                           screen_action_known(row->command);
        if (!known)
            fail_msg("nothing implements '%s' of %s %s", row->command, row->context, row->key);
    }
    view_free(v);
}

static void test_score(void **state)
{
    assert_int_equal(list_score("ira.on", "x"), 0);
    assert_true(list_score("ira.on", "ira") > list_score("train.lr.ira", "ira"));
    assert_true(list_score("sample.top_p", "stp") > 0);
    assert_true(list_score("/image", "im") > list_score("/train", "i"));
}

// Returns the list as drawn, as text.
static char *drawn_list(struct view *v)
{
    struct canvas c = { 0 };
    struct buf b = { 0 };
    canvas_resize(&c, 24, 60);
    list_draw(v, &c, (struct area){ 0, 0, 60, 24 });
    canvas_write(&c, &b);
    canvas_release(&c);
    return buf_take(&b);
}

// A search longer than its line shows its end without covering the counter.
static void test_long_search(void **state)
{
    struct view *v = view_new();
    list_open_palette(v, NULL);
    for (int i = 0; i < 80; i++) {
        struct key key = { .kind = KEY_TEXT, .bytes = { i < 79 ? 'x' : 'y' }, .length = 1 };
        list_type(v, &key);
    }
    char *text = drawn_list(v), counter[32];
    snprintf(counter, sizeof counter, "xy     0/%zu ", v->list.count);
    const char *found = strstr(text, counter);
    if (!found || strstr(text, "> x") > found) fail_msg("the counter: %s", text);
    free(text);
    view_free(v);
}

static bool never(void *self)
{
    return false;
}

static bool always(void *self)
{
    return true;
}

static void type(struct view *v, const char *text)
{
    for (; *text; text++) {
        const struct key key = { .kind = KEY_TEXT, .bytes = { *text }, .length = 1 };
        list_type(v, &key);
    }
}

static const char *first_label(const struct view *v)
{
    return v->list.items[v->list.shown[0]].label;
}

static void keep(void *self, struct list_view *part)
{
    struct list_view **kept = self;
    *kept = part;
}

// Files reach the palette later: the search finds them then, and the selected item stays.
static void test_files(void **state)
{
    struct view *v = view_new();
    struct list_view *files = NULL;
    list_open_palette(v, NULL);
    assert_true(v->list_files);
    list_files(&(struct list_request){ .number = v->list.request }, never, keep, &files);
    assert_true(files->files_cut);
    type(v, "zzq");
    char *text = drawn_list(v);
    assert_non_null(strstr(text, "yet: files are still being listed"));
    free(text);
    list_act(v, "clear", NULL);
    type(v, "sample");
    list_act(v, "down", NULL);
    const struct item *selected = &v->list.items[v->list.shown[v->list.selected]];
    char *label = xstrdup(selected->label);
    list_add(files, "sample.vlmsh", "script", "/run sample.vlmsh");
    list_take_files(v, files, NULL);
    assert_int_equal(files->count, 0);
    assert_string_equal(v->list.items[v->list.shown[v->list.selected]].label, label);
    list_act(v, "clear", NULL);
    type(v, "sample.vlm");
    assert_string_equal(first_label(v), "sample.vlmsh");
    list_release(&v->list);
    list_take_files(v, files, NULL); // the palette was closed
    assert_int_equal(v->list.count, 0);
    list_open_palette(v, NULL);
    const size_t count = v->list.count;
    list_add(files, "late.vlmsh", "script", "/run late.vlmsh");
    list_take_files(v, files, NULL); // of the palette that was closed
    assert_int_equal(v->list.count, count);
    list_files_free(files);
    free(label);
    view_free(v);
}

static void take(void *self, struct list_view *part)
{
    list_take_files(self, part, NULL);
    list_files_free(part);
}

// A picker lists its folder; typed letters also find files in the folders there, but never a file
// of another kind.
static void test_picker(void **state)
{
    struct view *v = view_new();
    char *folder = scratch_new();
    const char *const names[] = { "b.png", "A/deep/cat.png", "A/deep/cat.json" };
    for (int i = 0; i < 3; i++) scratch_text(folder, names[i], "");
    enum { PICTURES = 1 };
    v->folders[PICTURES] = xstrdup(folder);
    list_open_picker(v, "image", NULL);
    char *text = drawn_list(v);
    assert_non_null(strstr(text, "../"));
    assert_non_null(strstr(text, "the files are being listed"));
    free(text);
    const struct list_request r = { v->list.request, v->list.what, v->list.folder };
    list_files(&r, always, take, v);
    assert_false(v->list.awaits_files);
    assert_int_equal(v->list.shown_count, 3);
    assert_string_equal(v->list.items[v->list.shown[1]].label, "A/");
    assert_string_equal(v->list.items[v->list.shown[2]].label, "b.png");
    text = drawn_list(v);
    assert_null(strstr(text, "being listed"));
    assert_non_null(strstr(text, "3/3")); // cat.png is not counted until letters are typed
    free(text);
    type(v, "cat");
    assert_int_equal(v->list.shown_count, 1);
    assert_string_equal(first_label(v), "A/deep/cat.png");
    list_act(v, "choose", NULL);
    char *line = xasprintf("/image %s/A/deep/cat.png", folder);
    assert_string_equal(v->run, line);
    // Enter before the files arrive chooses when they do, unless other keys follow.
    free(v->run);
    for (int other = 0; other < 2; other++) {
        v->run = NULL;
        list_open_picker(v, "image", NULL);
        type(v, "cat");
        list_act(v, "choose", NULL);
        if (other) type(v, ".");
        assert_null(v->run);
        char what[] = "image"; // choosing releases the list's own
        list_files(&(struct list_request){ v->list.request, what, folder }, always, take, v);
        if (other)
            assert_null(v->run);
        else
            assert_string_equal(v->run, line);
        if (!other) free(v->run);
    }
    free(line);
    scratch_remove(folder);
    view_free(v);
}

// The start list opens before the models, which another thread finds in the hub cache and in this
// folder; their numbers follow.
static void test_start(void **state)
{
    char *folder = scratch_new(), here[4096], what[] = "start";
    assert_non_null(getcwd(here, sizeof here));
    setenv("HF_HUB_CACHE", folder, 1);
    assert_int_equal(chdir(folder), 0);
    scratch_text(folder, "a.gguf", "");
    struct view *v = view_new();
    list_open_start(v, NULL);
    assert_true(v->list_files);
    assert_int_equal(v->list.count, 1);
    char *text = drawn_list(v);
    assert_non_null(strstr(text, "1  tour"));
    assert_non_null(strstr(text, "the files are being listed"));
    free(text);
    assert_false(list_start_number(v, 2, NULL));
    list_files(&(struct list_request){ v->list.request, what, NULL }, always, take, v);
    text = drawn_list(v);
    assert_non_null(strstr(text, "2  a.gguf"));
    assert_non_null(strstr(text, "3  another model"));
    assert_null(strstr(text, "being listed"));
    free(text);
    assert_true(list_start_number(v, 2, NULL));
    assert_string_equal(v->run, "/load a.gguf");
    view_free(v);
    assert_int_equal(chdir(here), 0);
    unsetenv("HF_HUB_CACHE");
    scratch_remove(folder);
}

static void count_items(void *self, struct list_view *part)
{
    *(size_t *)self += part->count;
    list_files_free(part);
}

static bool count_entry(void *self, const char *path, int level)
{
    ++*(int *)self;
    return false;
}

// A listing ends when another one is requested; hidden files do not use up a folder's share.
static void test_listing(void **state)
{
    char *folder = scratch_new(), image[] = "image", name[16];
    enum { SHARE = 300 };
    for (int i = 0; i <= SHARE; i++) {
        snprintf(name, sizeof name, ".%d", i);
        scratch_text(folder, name, "");
    }
    scratch_text(folder, "a.png", "");
    size_t items = 0;
    const struct list_request r = { 1, image, folder };
    list_files(&r, never, count_items, &items);
    assert_int_equal(items, 0);
    list_files(&r, always, count_items, &items);
    assert_int_equal(items, 1);
    int entries = 0;
    const struct folder_walk w = {
        .root = folder, .entry = count_entry, .self = &entries, .wanted = always
    };
    assert_true(folder_walk(&w));
    assert_int_equal(entries, 1);
    scratch_remove(folder);
}

// A panel's key hides the global binding of the same key.
static void test_help_rows(void **state)
{
    struct view *v = view_new();
    struct keys *k = keys_new();
    list_open_help(v, k, "settings");
    int pages = 0;
    for (size_t i = 0; i < v->list.count; i++)
        if (!strcmp(v->list.items[i].label, "PageUp")) {
            assert_string_equal(v->list.items[i].note, "one page up");
            pages++;
        }
    assert_int_equal(pages, 1);
    // A key bound by the user has only that action.
    struct err err;
    assert_int_equal(keys_bind(k, "PageUp", "/help", &err), 0);
    list_open_help(v, k, "settings");
    pages = 0;
    for (size_t i = 0; i < v->list.count; i++)
        pages += !strcmp(v->list.items[i].label, "PageUp") &&
                 !strncmp(v->list.items[i].note, "bound by /bind", 14);
    assert_int_equal(pages, 1);
    keys_free(k);
    view_free(v);
}

static void expect_dropped(const char *text, const char *line)
{
    char *found = picker_dropped(text);
    if (line)
        assert_string_equal(found, line);
    else
        assert_null(found);
    free(found);
}

static void test_dropped(void **state)
{
    expect_dropped("tests/goldens/pictures/scene.png", "/image tests/goldens/pictures/scene.png");
    expect_dropped("'tests/goldens/pictures/scene.png' ",
                   "/image tests/goldens/pictures/scene.png");
    expect_dropped("tests/goldens/pictures/sc\\ene.png\n",
                   "/image tests/goldens/pictures/scene.png");
    expect_dropped("tests/goldens/pictures/none.png", NULL);
    expect_dropped("tests/goldens/pictures/pictures.json", NULL);
    expect_dropped("What is this?", NULL);
    expect_dropped("", NULL);
}

// A name with a quote, typed literally, quoted as by shells, and as a URL.
static void test_dropped_quote(void **state)
{
    char *folder = scratch_new(), *path = xasprintf("%s/it's.png", folder);
    char *line = xasprintf("/image %s", path);
    const int n = (int)(strlen(path) - strlen("'s.png"));
    static const char *const forms[] = { "%.*s's.png",
                                         "'%.*s'\\''s.png'",
                                         "%.*s\\'s.png",
                                         "\"%.*s's.png\"\n",
                                         "file://%.*s%%27s.png",
                                         "file://localhost%.*s's.png",
                                         "'file://%.*s%%27s.png'" };
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    assert_int_equal(fclose(f), 0);
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        char *text = xasprintf(forms[i], n, path);
        expect_dropped(text, line);
        free(text);
    }
    free(path);
    free(line);
    scratch_remove(folder);
}

static void expect_quoted(const char *path, const char *wanted)
{
    char *quoted = picker_quote(path);
    assert_string_equal(quoted, wanted);
    free(quoted);
}

static void test_quote(void **state)
{
    expect_quoted("a.png", "a.png");
    expect_quoted("it's.png", "it's.png");
    expect_quoted("'a'", "\"'a'\"");
    expect_quoted("a b\".png", "\"a b\\\".png\"");
    expect_quoted("new\nline.png", "\"new\\u000aline.png\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),         cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_paste),         cmocka_unit_test(test_mouse),
        cmocka_unit_test(test_any_bytes),     cmocka_unit_test(test_bind),
        cmocka_unit_test(test_fixed),         cmocka_unit_test(test_spelling),
        cmocka_unit_test(test_actions_known), cmocka_unit_test(test_score),
        cmocka_unit_test(test_long_search),   cmocka_unit_test(test_help_rows),
        cmocka_unit_test(test_dropped),       cmocka_unit_test(test_dropped_quote),
        cmocka_unit_test(test_quote),         cmocka_unit_test(test_replies),
        cmocka_unit_test(test_files),         cmocka_unit_test(test_picker),
        cmocka_unit_test(test_listing),       cmocka_unit_test(test_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
