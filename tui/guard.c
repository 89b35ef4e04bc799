// tui/guard.c -- wraps readline commands to avoid bugs of readline 8.2.
//
// History: three things can own the undo list of a line: the history entry that the user leaves,
// the saved line and the edited line. In some cases (typing after a failed step through the
// history, a search cancelled on an entry, vi's searches) two of them own the same list, which
// readline then frees twice. So before each command that moves to another history entry, this file
// writes the edited text into the entry and frees the list. In exchange, undo cannot go back beyond
// a step through the history.
//
// Aborting: readline aborts by a longjmp to the function that read the key. For a key that needs
// several calls (a macro, a sequence that is read again), that frame no longer exists. So no key
// may abort.
#include "tui/guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <readline/history.h>
#include <readline/readline.h>

#include "core/base/mem.h"

// The original lines of entries that were edited and not sent.
static struct edited {
    int at;
    char *line;
} * edited;
static size_t edited_count;

// Replaces the text of an entry and returns the old text.
static char *exchange(int at, const char *line)
{
    HIST_ENTRY *old = replace_history_entry(at, line, NULL);
    if (!old) return NULL;
    char *former = xstrdup(old->line);
    free_history_entry(old);
    return former;
}

void guard_leave(void)
{
    const HIST_ENTRY *entry = current_history();
    if (entry && strcmp(entry->line, rl_line_buffer) != 0) {
        const int at = where_history();
        char *former = exchange(at, rl_line_buffer);
        size_t i = 0;
        while (i < edited_count && edited[i].at != at) i++;
        if (former && i == edited_count) {
            edited = xreallocarray(edited, edited_count + 1, sizeof *edited);
            edited[edited_count++] = (struct edited){ at, former };
        } else {
            free(former);
        }
    }
    rl_free_undo_list();
}

void guard_restore(void)
{
    for (size_t i = 0; i < edited_count; i++) {
        free(exchange(edited[i].at, edited[i].line));
        free(edited[i].line);
    }
    free(edited);
    edited = NULL;
    edited_count = 0;
}

// --- readline's commands -------------------------------------------------------------------------

#if RL_READLINE_VERSION >= 0x0802
#define NEWER_MOVES(X) X(rl_fetch_history)
#else
#define NEWER_MOVES(X)
#endif

#define MOVES(X)                         \
    NEWER_MOVES(X)                       \
    X(rl_get_previous_history)           \
    X(rl_get_next_history)               \
    X(rl_beginning_of_history)           \
    X(rl_end_of_history)                 \
    X(rl_arrow_keys)                     \
    X(rl_operate_and_get_next)           \
    X(rl_noninc_reverse_search)          \
    X(rl_noninc_forward_search)          \
    X(rl_noninc_reverse_search_again)    \
    X(rl_noninc_forward_search_again)    \
    X(rl_history_search_backward)        \
    X(rl_history_search_forward)         \
    X(rl_history_substr_search_backward) \
    X(rl_history_substr_search_forward)  \
    X(vi_search)                         \
    X(vi_search_again)                   \
    X(rl_vi_fetch_history)

static int run_move(rl_command_func_t *move, int count, int key);

// Searches for plain text: readline's own vi search tries to match a pattern at every byte of every
// line.
static int vi_search(int count, int key)
{
    return key == '?' ? rl_noninc_forward_search(count, 0) : rl_noninc_reverse_search(count, 0);
}

static int vi_search_again(int count, int key)
{
    return key == 'N' ? rl_noninc_forward_search_again(count, 0)
                      : rl_noninc_reverse_search_again(count, 0);
}

#define RUN_MOVE(move)                          \
    static int leave_##move(int count, int key) \
    {                                           \
        return run_move(move, count, key);      \
    }
MOVES(RUN_MOVE)

#define MOVE_ROW(move) { move, leave_##move },
static const struct {
    rl_command_func_t *move, *ours;
} moves[] = { MOVES(MOVE_ROW) };

enum { MOVE_COUNT = sizeof moves / sizeof moves[0] };

// A repeated search continues only after the same command, so rl_last_func must be readline's own
// function.
static int run_move(rl_command_func_t *move, int count, int key)
{
    guard_leave();
    for (size_t i = 0; i < MOVE_COUNT; i++)
        if (rl_last_func == moves[i].ours) rl_last_func = moves[i].move;
    return move(count, key);
}

// --- searches while they are typed ---------------------------------------------------------------

// During a search, readline compares the bindings of keys with its own functions, so these wrappers
// are unbound until the search ends.
static int search_back(int count, int key);
static int search_on(int count, int key);
static bool searching;

static void replace(Keymap map, rl_command_func_t *old, rl_command_func_t *now)
{
    for (int key = 0; key < KEYMAP_SIZE; key++) {
        if (map[key].type == ISKMAP) replace((Keymap)map[key].function, old, now);
        if (map[key].type == ISFUNC && map[key].function == old) map[key].function = now;
    }
}

static void replace_all(rl_command_func_t *old, rl_command_func_t *now)
{
    static const char *const names[] = { "emacs", "vi-move", "vi-insert" }; // and their submaps
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        Keymap map = rl_get_keymap_by_name(names[i]);
        if (map) replace(map, old, now);
    }
}

static int search(rl_command_func_t *begin, int count, int key)
{
    guard_leave();
    replace_all(search_back, rl_reverse_search_history);
    replace_all(search_on, rl_forward_search_history);
    searching = true;
    return begin(count, key);
}

static int search_back(int count, int key)
{
    return search(rl_reverse_search_history, count, key);
}

static int search_on(int count, int key)
{
    return search(rl_forward_search_history, count, key);
}

void guard_after_key(void)
{
    // Some of vi's commands leave the cursor inside a multi-byte letter; completion would then
    // search for the end of the word forever.
    const int length = (int)strlen(rl_line_buffer); // a quoted zero byte ends the line
    if (rl_end > length) rl_end = length;
    if (rl_point > rl_end) rl_point = rl_end;
    while (rl_point > 0 && rl_point < rl_end &&
           ((unsigned char)rl_line_buffer[rl_point] & 0xc0) == 0x80)
        rl_point--;
    if (!searching || RL_ISSTATE(RL_STATE_ISEARCH)) return;
    searching = false;
    replace_all(rl_reverse_search_history, search_back);
    replace_all(rl_forward_search_history, search_on);
}

// --- keys that would abort -----------------------------------------------------------------------

// Rings the bell: without it, vi mode would continue as if only ESC had been typed.
static int do_nothing(int count, int key)
{
    rl_ding();
    return 0;
}

// Binds unused keys and sequences to do_nothing, except after a prefix that has a binding of its
// own: readline falls back to that binding.
static void fill(Keymap map)
{
    const bool whole = !map[ANYOTHERKEY].function;
    for (int key = 0; key < ANYOTHERKEY; key++) {
        if (map[key].type == ISKMAP) fill((Keymap)map[key].function);
        if (whole && map[key].type == ISFUNC && !map[key].function) map[key].function = do_nothing;
    }
}

// Without a preceding yank, readline's function would abort.
static int yank_pop(int count, int key)
{
    const bool continues = rl_last_func == rl_yank || rl_last_func == yank_pop;
    if (!continues) return rl_ding();
    rl_last_func = rl_yank;
    return rl_yank_pop(count, key);
}

// --- setup ---------------------------------------------------------------------------------------

static int read_init_file(int count, int key)
{
    const int status = rl_re_read_init_file(count, key);
    guard_keys();
    return status;
}

void guard_keys(void)
{
    fill(rl_get_keymap_by_name("emacs"));
    fill(rl_get_keymap_by_name("vi-move"));
    fill(rl_get_keymap_by_name("vi-insert"));
    replace_all(rl_vi_search, vi_search);
    replace_all(rl_vi_search_again, vi_search_again);
    for (size_t i = 0; i < MOVE_COUNT; i++) replace_all(moves[i].move, moves[i].ours);
    replace_all(rl_re_read_init_file, read_init_file);
    replace_all(rl_abort, do_nothing);
    replace_all(rl_vi_complete, do_nothing); // loops forever on a word that ends in a wide letter
    replace_all(rl_yank_pop, yank_pop);
    replace_all(rl_vi_yank_pop, do_nothing);
    replace_all(rl_start_kbd_macro, do_nothing);
    replace_all(rl_end_kbd_macro, do_nothing);
    replace_all(rl_call_last_kbd_macro, do_nothing);
    searching = true;
    guard_after_key();
}
