// tests/tui/prompt.c -- tui/prompt.c, line_edit.c, history.c: keys that step through the history,
// edit its lines, search and undo, in emacs and in vi mode; every undo list is freed once.
// KEYS=100000 SEED=3 tests more random keys.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <readline/history.h>
#include <readline/readline.h>

#include "core/base/mem.h"
#include "tests/core/scratch.h"
#include "tui/prompt.h"
#include "tui/typed.h"

static const struct shell no_shell;

struct bench {
    struct prompt *prompt;
    struct typed typed;
    char *line; // the last line sent
};

static void on_line(void *self, const char *text)
{
    struct bench *b = self;
    char *line;
    if (!text) return;
    free(b->line);
    b->line = xstrdup(text);
    typed_submit(&b->typed, text);
    while (typed_next(&b->typed, &line)) free(line);
}

static struct bench *begin(void)
{
    struct bench *b = xcalloc(1, sizeof *b);
    b->typed.history = history_open(NULL);
    b->prompt = prompt_new(&no_shell, on_line, b);
    rl_variable_bind("editing-mode", "emacs");
    return b;
}

static void end(struct bench *b)
{
    prompt_free(b->prompt);
    typed_release(&b->typed);
    history_close(b->typed.history);
    free(b->line);
    free(b);
}

static void feed(struct bench *b, const char *key)
{
    prompt_feed(b->prompt, key, strlen(key));
}

static void feed_all(struct bench *b, const char *const *keys)
{
    for (; *keys; keys++) feed(b, *keys);
}

#define FEED(b, ...) feed_all(b, (const char *const[]){ __VA_ARGS__, NULL })

static const char up[] = "\033[A", down[] = "\033[B";

// Leaving a history line gave it an undo list; then it is edited again.
static void test_edited_after_the_first(void **state)
{
    struct bench *b = begin();
    FEED(b, "x", "\r", up, "y", "y", up, "\033\r", "\033.", "z", "\r", up, "\r", "\r");
    end(b);
    b = begin();
    FEED(b, "x", "\r", up, "y", up, "z", "\033e", "\033", "/", "x", "\r", up, up, "i", "a", "\r");
    end(b);
}

// A search cancelled on a history line used to leave two lines with the same undo list.
static void test_search_given_up(void **state)
{
    struct bench *b = begin();
    FEED(b, "one", "\r", "two", "\r", "t", up, "e", "\033p", "q", "\007", "w", up, down, "\037",
         "\037", "\r", "\r");
    end(b);
}

// vi's searches look for plain text, because patterns would take quadratic time.
static void test_vi_search(void **state)
{
    struct bench *b = begin();
    FEED(b, "one", "\r", "o*e", "\r", "two", "\r", "none", "\r");
    FEED(b, "\030v", "\033", "/", "o*e", "\r");
    assert_string_equal(prompt_typed(b->prompt), "o*e");
    FEED(b, "/", "o", "\r");
    assert_string_equal(prompt_typed(b->prompt), "one");
    FEED(b, "N", "N");
    assert_string_equal(prompt_typed(b->prompt), "two");
    FEED(b, "n");
    assert_string_equal(prompt_typed(b->prompt), "o*e");
    FEED(b, "?", "none", "\r");
    assert_string_equal(prompt_typed(b->prompt), "none");
    end(b);
}

// An edited history line keeps its changes until a line is sent, then reverts.
static void test_edited_entries(void **state)
{
    struct bench *b = begin();
    FEED(b, "one", "\r", "two", "\r", "new", up, "!", up, "?", down);
    assert_string_equal(prompt_typed(b->prompt), "two!");
    FEED(b, down);
    assert_string_equal(prompt_typed(b->prompt), "new");
    FEED(b, up, up);
    assert_string_equal(prompt_typed(b->prompt), "one?");
    FEED(b, "\r");
    assert_string_equal(b->line, "one?");
    assert_int_equal(history_length, 3);
    assert_string_equal(history_get(history_base)->line, "one");
    assert_string_equal(history_get(history_base + 1)->line, "two");
    assert_string_equal(history_get(history_base + 2)->line, "one?");
    end(b);
}

static void test_undo(void **state)
{
    struct bench *b = begin();
    FEED(b, "one", "\r", up, "X", "\033b", "Y", "\037");
    assert_string_equal(prompt_typed(b->prompt), "oneX");
    FEED(b, "\037");
    assert_string_equal(prompt_typed(b->prompt), "one");
    end(b);
}

static void expect_typed(const struct bench *b, const char *text)
{
    assert_string_equal(prompt_typed(b->prompt), text);
}

static void make_file(const char *folder, const char *name)
{
    char *path = xasprintf("%s/%s", folder, name);
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    assert_int_equal(fclose(f), 0);
    free(path);
}

// Tab on an open menu steps through it.
static void test_menu(void **state)
{
    struct bench *b = begin();
    char *const *offers;
    FEED(b, "/set sample.ignore_eos ", "\t");
    assert_int_equal(prompt_offers(b->prompt, &offers), 2);
    FEED(b, "\t");
    expect_typed(b, "/set sample.ignore_eos off ");
    FEED(b, "\t");
    expect_typed(b, "/set sample.ignore_eos on ");
    FEED(b, "x", "\t"); // another word has no open menu
    expect_typed(b, "/set sample.ignore_eos on x");
    char *folder = scratch_new(), *second = xasprintf("/image %s/1 ", folder);
    for (int i = 0; i < 150; i++) { // so many matches that readline would ask first
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        make_file(folder, name);
    }
    prompt_set(b->prompt, "/image ");
    prompt_insert(b->prompt, folder);
    FEED(b, "/", "\t", "\t", "\t");
    expect_typed(b, second);
    free(second);
    scratch_remove(folder);
    end(b);
}

// Home, End and Delete as different terminals send them work, although the user's inputrc does not
// bind them.
static void test_ends(void **state)
{
    static const char *const modes[] = { "emacs", "vi" };
    for (int i = 0; i < 2; i++) {
        struct bench *b = begin();
        rl_variable_bind("editing-mode", modes[i]);
        FEED(b, "abc", "\033[1~", "x", "\033[4~", "y");
        expect_typed(b, "xabcy");
        FEED(b, "\033[7~", "z", "\033[8~", "w", "\033[7~", "\033[3~");
        expect_typed(b, "xabcyw");
        end(b);
    }
}

// An unbound key types nothing; a bound one still works.
static void test_unbound(void **state)
{
    static const char *const modes[] = { "emacs", "vi" };
    for (int i = 0; i < 2; i++) {
        struct bench *b = begin();
        FEED(b, "one", "\r");
        rl_variable_bind("editing-mode", modes[i]);
        FEED(b, "a", "\033[23~", "\033[1;2P", "\033[1;2A", "\033[6;5~", "\033[106;5u", "\033Ox",
             "b");
        expect_typed(b, "ab");
        FEED(b, "\025", "\033[A");
        expect_typed(b, "one");
        FEED(b, "\026", "\033[23~"); // quoted: it is typed
        expect_typed(b, "one\033[23~");
        FEED(b, "\025", "\026", "x", "\033[23~"); // the key after the quoted character is not typed
        expect_typed(b, "x");
        end(b);
    }
}

// Joiners, selectors and skin tones take no cells, DEL two.
static void test_lines(void **state)
{
    struct bench *b = begin();
    prompt_set(b->prompt, "\U0001f44d\U0001f3fd\U0001f44d\U0001f3fd\u2764\ufe0f\u200d");
    assert_int_equal(prompt_lines(b->prompt, 8, ""), 1);
    prompt_set(b->prompt, "\177\177\177\177\177");
    assert_int_equal(prompt_lines(b->prompt, 8, ""), 2);
    end(b);
}

// A paste during a search becomes part of the search; its newline sends nothing.
static void test_search_pasted(void **state)
{
    struct bench *b = begin();
    FEED(b, "one", "\r", "two", "\r", "\022");
    prompt_insert(b->prompt, "on\033\nx");
    assert_string_equal(b->line, "two");
    FEED(b, "\r");
    assert_string_equal(b->line, "one");
    end(b);
}

// A search takes only the beginning of a long paste: readline would take minutes for all of it.
static void test_search_pasted_long(void **state)
{
    char line[301] = { 0 }, pasted[5001] = { 0 };
    memset(line, 'x', sizeof line - 1);
    memset(pasted, 'x', sizeof pasted - 1);
    struct bench *b = begin();
    prompt_insert(b->prompt, line);
    FEED(b, "\r", "two", "\r", "\022");
    prompt_insert(b->prompt, pasted);
    FEED(b, "\r");
    assert_string_equal(b->line, line);
    end(b);
}

static void expect_completed(struct bench *b, const char *typed, const char *folder,
                             const char *wanted)
{
    char *line = xasprintf(typed, folder), *want = xasprintf(wanted, folder);
    prompt_set(b->prompt, line);
    FEED(b, "\t");
    expect_typed(b, want);
    free(line);
    free(want);
}

// Names with characters that are special to the command line are quoted.
static void test_names(void **state)
{
    char *folder = scratch_new();
    make_file(folder, "quo\"te.png");
    make_file(folder, "two words.png");
    make_file(folder, "a back\\slash.png");
    make_file(folder, "back\\slash.png");
    make_file(folder, "till ~");
    make_file(folder, "it.png");
    char *models = xasprintf("%s/models", folder), *home = xstrdup(getenv("HOME"));
    assert_int_equal(mkdir(models, 0700), 0);
    struct bench *b = begin();
    expect_completed(b, "/image \"%s/back\\\\sl", folder, "/image \"%s/back\\\\slash.png\" ");
    expect_completed(b, "/image %s/back\\sl", folder, "/image \"%s/back\\\\slash.png\" ");
    expect_completed(b, "/image %s/til", folder, "/image \"%s/till ~\" ");
    expect_completed(b, "/image %s/tw", folder, "/image \"%s/two words.png\" ");
    expect_completed(b, "/image %s/quo", folder, "/image \"%s/quo\\\"te.png\" ");
    expect_completed(b, "/image \"%s/quo\\\"t", folder, "/image \"%s/quo\\\"te.png\" ");
    // Quotes of both kinds begin a name, and readline replaces ' by ".
    expect_completed(b, "/image '%s/tw", folder, "/image \"%s/two words.png\" ");
    expect_completed(b, "/image '%s/two w", folder, "/image \"%s/two words.png\" ");
    expect_completed(b, "/image 'a b' '%s/two w", folder, "/image 'a b' \"%s/two words.png\" ");
    expect_completed(b, "/image '%s/it", folder, "/image '%s/it.png' ");
    expect_completed(b, "/image it's %s/it", folder, "/image it's %s/it.png ");
    expect_completed(b, "/load '%s/mo", folder, "/load '%s/models/");
    expect_completed(b, "/load \"%s/mo", folder, "/load \"%s/models/");
    expect_completed(b, "/eval --csv='%s/two w", folder, "/eval --csv=\"%s/two words.png\" ");
    expect_completed(b, "/image %s/a", folder, "/image \"%s/a back\\\\slash.png\" ");
    setenv("HOME", folder, 1);
    expect_completed(b, "/load ~/mo", "", "/load ~/models/");
    // Within quotes, "~" would be a folder of that name, so completion expands it.
    expect_completed(b, "/image ~/tw", folder, "/image \"%s/two words.png\" ");
    setenv("HOME", home, 1);
    end(b);
    free(models);
    free(home);
    scratch_remove(folder);
}

// --- random keys ---------------------------------------------------------------------------------

static uint64_t dice;

static int roll(int sides)
{
    dice = dice * 6364136223846793005U + 1442695040888963407U;
    return (int)((dice >> 33) % (uint64_t)sides);
}

static void random_key(char key[8])
{
    static const char *const named[] = {
        "\033[A", "\033[B", "\033[C", "\033[D", "\033[H",   "\033[F",   "\033[3~", "\r",
        "\r",     "\t",     " ",      "\177",   "\037",     "\022",     "\023",    "\031",
        "\025",   "\027",   "\007",   "\033",   "\033p",    "\033n",    "\033<",   "\033>",
        "\033.",  "\033r",  "\033y",  "\033\r", "\033\n",   "\030\025", "\030(",   "\030)",
        "\030e",  "\030v",  "\030m",  "\017",   "\xc3\xa4", "\033[5~",  "\033[6~",
    };
    static const char vi[] = "iaIAoRcdyxXpPuUkjGnN/?.-+0$wbefFtT;,%rsSCDY~|_#=*v";
    const int n = roll(100);
    if (n < 45)
        snprintf(key, 8, "%s", named[roll(sizeof named / sizeof named[0])]);
    else if (n < 60)
        snprintf(key, 8, "%c", "abxy "[roll(5)]);
    else if (n < 80)
        snprintf(key, 8, "%c", vi[roll(sizeof vi - 1)]);
    else if (n < 90)
        snprintf(key, 8, "\033%c", 1 + roll(127));
    else
        snprintf(key, 8, "%c", 1 + roll(255));
}

static void press_one(struct bench *b)
{
    char key[8];
    const int n = roll(200);
    random_key(key);
    if (n == 0)
        prompt_set(b->prompt, "put there");
    else if (n == 1)
        prompt_set(b->prompt, "");
    else if (n == 2)
        prompt_insert(b->prompt, "two\nlines");
    else if (n == 3)
        prompt_escape(b->prompt);
    else
        feed(b, key);
}

// Writes an inputrc with keys that switch modes, and keys that no mode binds by default.
static void write_inputrc(const char *path)
{
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    fputs("set keymap emacs\n\"\\C-xv\": vi-editing-mode\n"
          "\"\\e[5~\": history-search-backward\n\"\\e[6~\": history-substring-search-forward\n"
          "\"\\C-xm\": \"ab\\e[A\\e[Acd\\e[B\"\n"
          "set keymap vi-insert\n\"\\C-xe\": emacs-editing-mode\n\"\\C-o\": operate-and-get-next\n"
          "\"\\e[5~\": history-search-backward\n"
          "set keymap vi-command\n\"\\C-xe\": emacs-editing-mode\n"
          "\"\\C-xm\": \"iab\\e[A\\e[Acd\\e[B\"\n",
          f);
    assert_int_equal(fclose(f), 0);
}

static void test_random_keys(void **state)
{
    const char *count = getenv("KEYS"), *seed = getenv("SEED");
    struct bench *b = begin();
    const long keys = count ? strtol(count, NULL, 10) : 20000;
    dice = seed ? strtoull(seed, NULL, 10) : 1;
    for (long i = 0; i < keys; i++) {
        press_one(b);
        assert_true(strlen(prompt_typed(b->prompt)) < 1000000);
        if (strlen(prompt_typed(b->prompt)) > 2000) prompt_set(b->prompt, "");
        if (i % 5000 == 4999) { // closing and reopening is tested, too
            end(b);
            b = begin();
        }
    }
    end(b);
}

static int prepare(void **state)
{
    char *path = xasprintf("%s/inputrc", (char *)(*state = scratch_new()));
    setenv("TERM", "xterm", 1); // its Home and End keys differ from those in these tests
    setlocale(LC_ALL, "C.UTF-8");
    write_inputrc(path);
    setenv("INPUTRC", path, 1);
    free(path);
    return 0;
}

static int clean_up(void **state)
{
    scratch_remove(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_edited_after_the_first),
        cmocka_unit_test(test_search_given_up),
        cmocka_unit_test(test_vi_search),
        cmocka_unit_test(test_edited_entries),
        cmocka_unit_test(test_undo),
        cmocka_unit_test(test_menu),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_unbound),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_search_pasted),
        cmocka_unit_test(test_search_pasted_long),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_random_keys),
    };
    return cmocka_run_group_tests(tests, prepare, clean_up);
}
