// tui/prompt.c -- runs readline without a terminal.
#include "tui/prompt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <readline/readline.h>

#include "core/base/mem.h"
#include "tui/guard.h"
#include "tui/text.h"

struct prompt {
    void (*on_line)(void *self, const char *text);
    void *self;
    FILE *nowhere;
    const char *bytes; // for readline to read
    size_t left;
    char **offers;
    size_t offer_count;
};

// Readline's callbacks take no user argument, and readline is global.
static struct prompt *current;

// --- callbacks of readline -----------------------------------------------------------------------

// Bytes run out only if readline reads beyond the key (a macro that ends within a sequence). At the
// end of input, readline would send the line, or jump to a frame that no longer exists, so this
// function returns an unbound key.
static int get_byte(FILE *stream)
{
    if (!current->left) return '\a';
    current->left--;
    return (unsigned char)*current->bytes++;
}

static int more_bytes(void)
{
    return current->left > 0;
}

static void draw_nothing(void)
{
}

// Calls on_line here, because the history may only grow before readline begins its next line. First
// ends a search that a macro began within the line, because the search refers to history entries.
static void take_line(char *line)
{
    rl_callback_sigcleanup();
    current->on_line(current->self, line);
    free(line);
}

static void show_matches(char **matches, int count, int longest)
{
    prompt_close_menu(current);
    current->offers = xcalloc((size_t)count + 1, sizeof *current->offers);
    for (int i = 1; i <= count; i++) {
        const char *slash = rl_filename_completion_desired ? strrchr(matches[i], '/') : NULL;
        const bool folder = slash && !slash[1];
        current->offers[current->offer_count++] =
            xstrdup(slash && !folder && slash > matches[i] ? slash + 1 : matches[i]);
    }
}

// --- lifetime ------------------------------------------------------------------------------------

struct prompt *prompt_new(const struct shell *shell, void (*on_line)(void *self, const char *text),
                          void *self)
{
    struct prompt *p = xcalloc(1, sizeof *p);
    p->on_line = on_line;
    p->self = self;
    p->nowhere = fopen("/dev/null", "we");
    current = p;
    line_edit_setup(shell);
    rl_outstream = p->nowhere;
    rl_change_environment = 0;
    rl_getc_function = get_byte;
    rl_input_available_hook = more_bytes;
    rl_redisplay_function = draw_nothing;
    rl_prep_term_function = NULL;
    rl_deprep_term_function = NULL;
    rl_completion_display_matches_hook = show_matches;
    rl_initialize(); // reads ~/.inputrc now: it cannot override the settings below
    rl_variable_bind("show-all-if-ambiguous", "on");
    rl_variable_bind("completion-query-items", "0"); // the menu counts candidates that do not fit
    rl_variable_bind("bell-style", "none");
    rl_callback_handler_install("", take_line);
    return p;
}

void prompt_free(struct prompt *p)
{
    if (!p) return;
    if (!prompt_plain(p)) prompt_feed(p, "\a", 1); // ends a search or another special mode
    guard_leave();
    rl_end_of_history(1, 0); // restores a saved line and frees its undo list
    rl_free_undo_list();
    rl_callback_handler_remove();
    prompt_close_menu(p);
    rl_outstream = stdout;
    if (p->nowhere) fclose(p->nowhere);
    free(p);
    current = NULL;
}

void prompt_close_menu(struct prompt *p)
{
    for (size_t i = 0; i < p->offer_count; i++) free(p->offers[i]);
    free(p->offers);
    p->offers = NULL;
    p->offer_count = 0;
}

// --- editing -------------------------------------------------------------------------------------

// Replaces invalid UTF-8, in which readline's vi commands search for the end of a word forever.
static char *repaired(const char *text)
{
    struct buf b = { 0 };
    text_repair(&b, text);
    return buf_take(&b);
}

static void feed(struct prompt *p, const char *bytes, size_t length)
{
    p->bytes = bytes;
    p->left = length;
    while (p->left) {
        const size_t before = p->left;
        rl_callback_read_char();
        guard_after_key();
        if (p->left == before) break;
    }
    p->left = 0;
}

// Returns whether the sequence has no binding, so that readline would insert its last characters.
// False for a quoted sequence, which readline inserts whole.
static bool is_unbound(const char *bytes, size_t length)
{
    const bool sequence = length > 2 && *bytes == '\033' && (bytes[1] == '[' || bytes[1] == 'O');
    const bool command =
        (prompt_plain(current) && rl_last_func != rl_quoted_insert) || RL_ISSTATE(RL_STATE_ISEARCH);
    return sequence && command && !rl_function_of_keyseq_len(bytes, length, rl_get_keymap(), NULL);
}

void prompt_feed(struct prompt *p, const char *bytes, size_t length)
{
    const bool quoted = rl_last_func == rl_quoted_insert;
    if (is_unbound(bytes, length)) return;
    const bool tab = length == 1 && *bytes == '\t';
    if (!tab) prompt_close_menu(p);
    if (tab && p->offer_count) { // selects the next entry of the open menu
        rl_menu_complete(1, '\t');
        rl_last_func = rl_menu_complete; // otherwise the next Tab would start a new completion
        return;
    }
    char *key = xstrndup(bytes, length);
    char *text = (unsigned char)*key < 0x80 ? NULL : repaired(key);
    feed(p, text ? text : key, text ? strlen(text) : length);
    // This key was the quoted one: the next key must not count as quoted too.
    if (quoted && rl_last_func == rl_quoted_insert) rl_last_func = NULL;
    free(text);
    free(key);
}

// Sends ESC in vi mode only: in emacs mode, readline would read ESC as the start of the next key.
void prompt_escape(struct prompt *p)
{
    if (rl_editing_mode == 0) prompt_feed(p, "\033", 1);
}

// Bytes of a paste that a search accepts. After each byte, readline redraws the search text, which
// takes time quadratic in its length: a paste of 5000 bytes would take minutes.
enum { SEARCH_MAX = 256 };

void prompt_insert(struct prompt *p, const char *text)
{
    char *good = repaired(text);
    prompt_close_menu(p);
    if (RL_ISSTATE(RL_STATE_ISEARCH)) { // searches for the text up to a control character
        size_t n = 0;
        while (n < SEARCH_MAX && (unsigned char)good[n] >= 0x20 && good[n] != 0x7f) n++;
        while (n && ((unsigned char)good[n] & 0xc0) == 0x80) n--; // never ends within a character
        feed(p, good, n);
    } else {
        rl_begin_undo_group();
        rl_insert_text(good);
        rl_end_undo_group();
    }
    free(good);
}

void prompt_set(struct prompt *p, const char *text)
{
    char *good = repaired(text);
    prompt_close_menu(p);
    // Edits as if typed, so that readline's undo list fits the text; rl_replace_line does not
    // ensure that.
    rl_begin_undo_group();
    rl_delete_text(0, rl_end);
    rl_point = 0;
    rl_insert_text(good);
    rl_end_undo_group();
    free(good);
}

const char *prompt_typed(const struct prompt *p)
{
    return rl_line_buffer ? rl_line_buffer : "";
}

bool prompt_plain(const struct prompt *p)
{
    return !RL_ISSTATE(RL_STATE_ISEARCH | RL_STATE_NSEARCH | RL_STATE_NUMERICARG |
                       RL_STATE_MOREINPUT | RL_STATE_METANEXT | RL_STATE_MULTIKEY |
                       RL_STATE_VIMOTION | RL_STATE_CHARSEARCH);
}

size_t prompt_offers(const struct prompt *p, char *const **list)
{
    *list = p->offers;
    return p->offer_count;
}

// --- drawing -------------------------------------------------------------------------------------

// Position of a character: x, y relative to the area.
struct position {
    int x, y;
};

static void step(struct position *at, int32_t code, int width, int columns)
{
    if (code == '\n') {
        at->x = 0;
        at->y++;
        return;
    }
    const bool control = (code > 0 && code < 0x20) || code == 0x7f; // 0: an omitted character
    const int cells = code == '\t' ? 4 - at->x % 4 : control ? 2 : width;
    if (at->x + cells > columns) {
        at->x = 0;
        at->y++;
    }
    at->x += cells;
}

static struct position measure(const char *text, size_t length, int columns)
{
    struct position at = { 0, 0 };
    while (length) {
        int32_t code;
        int width;
        const size_t n = character_next(text, length, &code, &width);
        step(&at, code, width, columns);
        text += n;
        length -= n;
    }
    if (at.x >= columns) at = (struct position){ 0, at.y + 1 };
    return at;
}

// Returns the label with the typed text. Readline's searches have their own label:
// "(reverse-i-search)`x': ".
static char *whole_text(const char *label, size_t *label_length, size_t *point)
{
    const bool own = rl_display_prompt && rl_display_prompt != rl_prompt && *rl_display_prompt;
    const char *shown = own ? rl_display_prompt : label;
    *label_length = strlen(shown);
    *point = *label_length + (size_t)rl_point;
    return xasprintf("%s%s", shown, rl_line_buffer ? rl_line_buffer : "");
}

int prompt_lines(const struct prompt *p, int width, const char *label)
{
    size_t label_length, point;
    char *text = whole_text(label, &label_length, &point);
    const int lines = measure(text, strlen(text), width).y + 1;
    free(text);
    return lines;
}

void prompt_draw(const struct prompt *p, struct canvas *c, struct area area, const char *label,
                 bool focused)
{
    size_t label_length, point;
    char *text = whole_text(label, &label_length, &point);
    const struct position cursor = measure(text, point, area.width);
    const int top = cursor.y >= area.height ? cursor.y - area.height + 1 : 0;
    struct position at = { 0, -top };
    size_t done = 0, length = strlen(text);
    while (done < length) {
        int32_t code;
        int width;
        const size_t n = character_next(text + done, length - done, &code, &width);
        struct position behind = at;
        step(&behind, code, width, area.width);
        const int x = behind.y > at.y ? 0 : at.x;
        const enum style style = done < label_length ? STYLE_PROMPT : STYLE_TEXT;
        if (code != '\n' && behind.y >= 0)
            canvas_text_n(c, area, width ? x : at.x, behind.y, style, text + done, n);
        at = behind;
        done += n;
    }
    if (focused) {
        c->cursor_x = area.x + cursor.x;
        c->cursor_y = area.y + cursor.y - top;
    }
    free(text);
}
