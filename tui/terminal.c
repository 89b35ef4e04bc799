// tui/terminal.c -- writes the cells of a canvas that differ from the terminal's.
//
// Uses only the terminfo part of ncurses, because ncurses scrolls lines if rows are similar: that
// would move colours and pictures.
#include "tui/terminal.h"

#include <errno.h>
#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include "tui/pen.h"
#include "tui/placed.h"
#include "tui/signals.h"
#include "tui/terminfo.h"

enum {
    REPLY_MS = 100, // time within which a terminal replies
    PALETTE = 256   // in larger palettes (xterm-direct), numbers from 8 on are RGB values
};

struct terminal {
    struct placed placed;
    struct canvas shown; // the terminal's current content
    const struct theme *theme;
    struct terminfo info;
    struct termios before; // the shell's modes
    int colours;
    bool true_colour, ascii;
    enum terminal_mouse mouse; // what the terminal reports
    bool console;              // Linux console: a font of at most 512 glyphs
    bool entered;              // the alternate screen is shown
    bool fresh;                // the next show clears the screen and draws everything
    int cursor_x, cursor_y;
    char *farewell;
};

// Bracketed paste, and Alt as an Esc before the key: by default xterm sends another letter (± for
// Alt-1). Leaving restores xterm's Alt mode.
static const char modes_save[] = "\033[?1036s";
static const char modes_on[] = "\033[?2004h\033[?1036h";
static const char modes_off[] = "\033[?2004l\033[?1006l\033[?1003l\033[?1000l\033[?1036r";
static const char update_begin[] = "\033[?2026h", update_end[] = "\033[?2026l"; // synchronized
// In xterm, the end of mode 1003 also ends 1000; terminals without 1003 keep reporting clicks.
static const char *const mouse_modes[] = { [MOUSE_NONE] = "\033[?1006l\033[?1003l\033[?1000l",
                                           [MOUSE_CLICKS] = "\033[?1003l\033[?1000h\033[?1006h",
                                           [MOUSE_MOVES] = "\033[?1000h\033[?1006h\033[?1003h" };

void terminal_write(const char *bytes, size_t length)
{
    fflush(stdout);
    while (length) {
        const ssize_t n = write(STDOUT_FILENO, bytes, length);
        struct pollfd out = { .fd = STDOUT_FILENO, .events = POLLOUT };
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN && poll(&out, 1, -1) > 0) continue;
        if (n <= 0) return;
        bytes += n;
        length -= (size_t)n;
    }
}

static void send(struct buf *b)
{
    terminal_write(b->data, b->length);
    buf_release(b);
}

bool terminal_possible(void)
{
    const char *term = getenv("TERM");
    struct terminfo info = { 0 };
    if (!term || !*term || !strcmp(term, "dumb")) return false;
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) return false;
    const bool possible = terminfo_read(&info, STDOUT_FILENO) == 0;
    terminfo_release(&info);
    return possible;
}

// --- colours -------------------------------------------------------------------------------------

static bool is_value(const char *variable, const char *value)
{
    const char *text = getenv(variable);
    return text && !strcmp(text, value);
}

static bool is_set(const char *variable)
{
    const char *text = getenv(variable);
    return text && *text;
}

// Finds the number of colours from terminfo, COLORTERM and the terminal's replies. A TERM without
// colours stays monochrome: the user chose it on purpose.
static void find_colours(struct terminal *t)
{
    const struct graphics *g = &t->placed.graphics;
    const bool inks = t->info.strings[TERMINFO_INK] && t->info.strings[TERMINFO_PAPER];
    // GNU screen before 5.0 reads the components of an RGB colour as attributes, such as blinking.
    const bool trusted = !is_set("STY");
    const bool declared = is_value("COLORTERM", "truecolor") || is_value("COLORTERM", "24bit");
    t->colours = inks && !is_set("NO_COLOR") && t->info.colours > 0 ? t->info.colours : 0;
    if (t->colours >= 8 && t->colours < PALETTE && (g->colours == PALETTE || g->true_colour)) {
        free(t->info.strings[TERMINFO_INK]);
        free(t->info.strings[TERMINFO_PAPER]);
        t->info.strings[TERMINFO_INK] = xstrdup("\033[38;5;%p1%dm");
        t->info.strings[TERMINFO_PAPER] = xstrdup("\033[48;5;%p1%dm");
        t->colours = t->info.colours = PALETTE;
    }
    t->true_colour = trusted && (t->colours > PALETTE ||
                                 (t->colours == PALETTE && (declared || g->true_colour)));
}

void terminal_reply(struct terminal *t, const char *bytes, size_t length)
{
    const int colours = t->colours;
    const bool true_colour = t->true_colour;
    placed_reply(&t->placed, bytes, length);
    find_colours(t);
    if (t->colours != colours || t->true_colour != true_colour) terminal_redraw(t);
}

int64_t terminal_background(const struct terminal *t)
{
    const struct graphics *g = &t->placed.graphics;
    return g->has_background ? (int64_t)g->background : -1;
}

void terminal_prepare(const struct terminal *t, struct canvas *c, const char *graphics)
{
    c->ascii = t->ascii;
    c->mono = t->colours < 16;
    c->colours = t->true_colour ? 0 : t->colours > 1 ? t->colours : 1;
    c->graphics = graphics_choose(&t->placed.graphics, graphics);
    if (is_set("NO_COLOR") && !strcmp(graphics, "auto")) c->graphics = GRAPHICS_ASCII;
    c->tmux = t->placed.graphics.tmux;
    graphics_cell(&t->placed.graphics, STDOUT_FILENO, &c->cell_width, &c->cell_height);
}

// --- start and end -------------------------------------------------------------------------------

bool terminal_locale(void)
{
    const char *term = getenv("TERM"), *now = setlocale(LC_CTYPE, NULL);
    const bool unset = now && (!strcmp(now, "C") || !strcmp(now, "POSIX"));
    if (!strcmp(nl_langinfo(CODESET), "UTF-8")) return true;
    if (!unset || !term || !strncmp(term, "vt", 2) || !setlocale(LC_CTYPE, "C.UTF-8")) return false;
    setenv("LC_ALL", "C.UTF-8", 1);
    return true;
}

// Restores cursor, screen and keypad.
static void add_end(const struct terminal *t, struct buf *b)
{
    terminfo_add(b, t->info.strings[TERMINFO_SHOW_CURSOR]);
    terminfo_add(b, t->info.strings[TERMINFO_END]);
    terminfo_add(b, t->info.strings[TERMINFO_END_KEYPAD]);
    buf_putc(b, '\r');
}

void terminal_redraw(struct terminal *t)
{
    t->fresh = true;
}

void terminal_enter(struct terminal *t)
{
    struct buf b = { 0 };
    struct termios raw = t->before; // single keys, untranslated output
    signals_set_farewell(t->farewell, STDOUT_FILENO);
    raw.c_lflag &= ~(tcflag_t)(ICANON | ISIG | IEXTEN | ECHO | ECHONL);
    raw.c_iflag &= ~(tcflag_t)(IXON | BRKINT | PARMRK | ICRNL | INLCR | IGNCR);
    raw.c_oflag &= ~(tcflag_t)(ONLCR);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
    if (!t->entered) {
        buf_puts(&b, modes_save);
        terminfo_add(&b, t->info.strings[TERMINFO_BEGIN]);
    }
    t->entered = true;
    terminfo_add(&b, t->info.strings[TERMINFO_KEYPAD]);
    buf_puts(&b, modes_on);
    if (t->mouse) buf_puts(&b, mouse_modes[t->mouse]);
    send(&b);
    terminal_redraw(t);
}

static void terminal_free(struct terminal *t)
{
    terminfo_release(&t->info);
    canvas_release(&t->shown);
    free(t->farewell);
    free(t);
}

struct terminal *terminal_open(struct err *err)
{
    struct terminal *t = xcalloc(1, sizeof *t);
    const char *term = getenv("TERM");
    t->ascii = !terminal_locale();
    if (terminfo_read(&t->info, STDOUT_FILENO) < 0 || tcgetattr(STDIN_FILENO, &t->before) < 0) {
        terminal_free(t);
        err_set(err, "the terminal type '%s' cannot show a full screen: use --plain",
                term ? term : "");
        return NULL;
    }
    find_colours(t);
    t->console = term && !strncmp(term, "linux", 5);
    struct buf farewell = { 0 };
    buf_puts(&farewell, "\033\\"); // ends an incomplete picture
    buf_puts(&farewell, update_end);
    buf_puts(&farewell, modes_off);
    terminfo_add(&farewell, t->info.strings[TERMINFO_PLAIN]);
    add_end(t, &farewell);
    buf_putc(&farewell, '\n');
    t->farewell = buf_take(&farewell);
    canvas_resize(&t->shown, t->info.lines > 0 ? t->info.lines : 24,
                  t->info.columns > 0 ? t->info.columns : 80);
    terminal_enter(t);
    terminal_resize(t);
    struct buf question = { 0 };
    placed_query(&t->placed, &question);
    send(&question);
    return t;
}

static void forget_pictures(struct terminal *t)
{
    struct buf b = { 0 };
    placed_forget(&t->placed, &b);
    send(&b);
}

double terminal_wait(const struct terminal *t, double now)
{
    return placed_wait(&t->placed, now);
}

void terminal_leave(struct terminal *t)
{
    struct buf b = { 0 };
    struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
    char bytes[256];
    bool expects = placed_expects(&t->placed);
    forget_pictures(t);
    // Discards late replies about pictures, which the shell would read as typed text.
    for (int i = 0; i < 20 && expects && poll(&in, 1, REPLY_MS) > 0; i++)
        expects = read(in.fd, bytes, sizeof bytes) > 0;
    buf_puts(&b, modes_off);
    terminfo_add(&b, t->info.strings[TERMINFO_PLAIN]);
    if (!t->info.strings[TERMINFO_END])
        terminfo_add(&b, t->info.strings[TERMINFO_CLEAR]); // the terminal has no alternate screen
    add_end(t, &b);
    send(&b);
    t->entered = false;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &t->before);
    signals_set_farewell(NULL, STDOUT_FILENO);
}

void terminal_close(struct terminal *t)
{
    if (!t) return;
    terminal_leave(t);
    terminal_free(t);
}

void terminal_mouse(struct terminal *t, enum terminal_mouse mouse)
{
    if (!t->info.mouse || mouse == t->mouse) return;
    t->mouse = mouse;
    terminal_write(mouse_modes[mouse], strlen(mouse_modes[mouse]));
}

// --- size ----------------------------------------------------------------------------------------

void terminal_size(struct terminal *t, int *lines, int *columns)
{
    *lines = t->shown.lines;
    *columns = t->shown.columns;
}

// Returns the size that LINES or COLUMNS fixes, as in other programs; 0: not fixed.
static int fixed(const char *variable)
{
    const char *text = getenv(variable);
    return text ? (int)strtol(text, NULL, 10) : 0;
}

void terminal_resize(struct terminal *t)
{
    struct winsize w;
    int lines = t->shown.lines, columns = t->shown.columns;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_row && w.ws_col) {
        lines = w.ws_row;
        columns = w.ws_col;
    }
    if (fixed("LINES") > 0) lines = fixed("LINES");
    if (fixed("COLUMNS") > 0) columns = fixed("COLUMNS");
    if (lines > 1000) lines = 1000;
    if (columns > 1000) columns = 1000;
    canvas_resize(&t->shown, lines, columns);
    terminal_redraw(t);
}

// --- cells ---------------------------------------------------------------------------------------

// Output that is not sent yet, and the cursor position and pen that will result from it.
struct written {
    struct buf bytes;
    int x, y; // -1: unknown
    bool has_pen;
    struct pen pen;
};

static void add_attributes(struct buf *out, const struct terminal *t, unsigned attributes)
{
    static const struct {
        unsigned look;
        enum terminfo_string string, instead;
    } all[] = { { LOOK_BOLD, TERMINFO_BOLD, TERMINFO_BOLD },
                { LOOK_DIM, TERMINFO_DIM, TERMINFO_DIM },
                { LOOK_REVERSE, TERMINFO_REVERSE, TERMINFO_REVERSE },
                { LOOK_UNDERLINE, TERMINFO_UNDERLINE, TERMINFO_UNDERLINE },
                { LOOK_ITALIC, TERMINFO_ITALIC, TERMINFO_UNDERLINE } };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (attributes & all[i].look)
            terminfo_add(
                out,
                t->info.strings[t->info.strings[all[i].string] ? all[i].string : all[i].instead]);
}

static void add_colour(struct buf *out, const struct terminal *t, enum terminfo_string kind,
                       int colour)
{
    if (colour == COLOUR_DEFAULT) return; // TERMINFO_PLAIN has set it
    if (!(colour & (int)CELL_RGB)) {
        terminfo_add_numbers(out, t->info.strings[kind], colour, 0);
        return;
    }
    buf_puts(out, kind == TERMINFO_INK ? "\033[38;2" : "\033[48;2");
    for (int shift = 16; shift >= 0; shift -= 8) { // avoids printf: a map has two colours per cell
        char digits[] = ";   ";
        size_t at = sizeof digits - 1;
        unsigned n = (unsigned)colour >> shift & 255;
        do {
            digits[--at] = (char)('0' + n % 10);
        } while ((n /= 10));
        digits[--at] = ';';
        buf_add(out, digits + at, sizeof digits - 1 - at);
    }
    buf_putc(out, 'm');
}

static void set_pen(struct written *w, const struct terminal *t, struct pen pen)
{
    const struct pen *now = &w->pen;
    const bool again = !w->has_pen || pen.attributes != now->attributes ||
                       (pen.ink != now->ink && pen.ink == COLOUR_DEFAULT) ||
                       (pen.paper != now->paper && pen.paper == COLOUR_DEFAULT);
    if (again) terminfo_add(&w->bytes, t->info.strings[TERMINFO_PLAIN]);
    if (again) add_attributes(&w->bytes, t, pen.attributes);
    if (again || pen.ink != now->ink) add_colour(&w->bytes, t, TERMINFO_INK, pen.ink);
    if (again || pen.paper != now->paper) add_colour(&w->bytes, t, TERMINFO_PAPER, pen.paper);
    w->pen = pen;
    w->has_pen = true;
}

static void add_character(struct buf *out, wchar_t character)
{
    char bytes[MB_LEN_MAX];
    const int n = wctomb(bytes, character);
    if (n > 0) buf_add(out, bytes, (size_t)n);
}

// Moves to column x by rewriting a few plain characters of the same style, which takes fewer bytes
// than placing the cursor. False if that is impossible.
static bool write_gap(struct written *w, const struct terminal *t, const struct cell *cell, int x,
                      int y)
{
    enum { SHORT = 6 };
    if (w->y != y || w->x < 0 || x < w->x || x > w->x + SHORT) return false;
    for (int i = w->x; i < x; i++) {
        const struct cell *c = canvas_at(&t->shown, i, y);
        if (c->code < ' ' || c->code > '~' || c->marks[0] || c->ink || c->paper || c->picture ||
            c->style != cell->style)
            return false;
    }
    if (w->x < x && (cell->ink || cell->paper)) return false;
    if (w->x < x) set_pen(w, t, pen_of(t->theme, cell, t->colours, t->true_colour));
    for (; w->x < x; w->x++) buf_putc(&w->bytes, (char)canvas_at(&t->shown, w->x, y)->code);
    return true;
}

// Writes a cell; replaces its character with question marks if the C library assigns it a different
// width, or if the terminal shows only ASCII and it is another character.
static void put_cell(struct written *w, const struct terminal *t, const struct cell *cell, int x,
                     int y)
{
    wchar_t character = (wchar_t)cell->code;
    // The console's fonts have lines and blocks, but no braille or ornamental arrows.
    if (t->console && character > 0x2800 && character < 0x2900)
        character = cell->style == STYLE_GHOST ? L'.' : L'*';
    if (t->console && (character == 0x276f || character == 0x203a)) character = L'>';
    const bool agrees = wcwidth(character) == cell->width && (!t->ascii || cell->code < 0x7f);
    if (t->info.no_corner && x + cell->width == t->shown.columns && y == t->shown.lines - 1) return;
    if (!write_gap(w, t, cell, x, y))
        terminfo_add_numbers(&w->bytes, t->info.strings[TERMINFO_PLACE], y, x);
    set_pen(w, t, pen_of(t->theme, cell, t->colours, t->true_colour));
    for (int i = 0; !agrees && i < cell->width; i++) buf_putc(&w->bytes, '?');
    if (agrees) add_character(&w->bytes, character);
    for (int i = 0; agrees && i < CELL_MARKS && cell->marks[i]; i++)
        if (wcwidth((wchar_t)cell->marks[i]) == 0)
            add_character(&w->bytes, (wchar_t)cell->marks[i]);
    // At the edge, the cursor may wrap.
    w->x = x + cell->width < t->shown.columns ? x + cell->width : -1;
    w->y = y;
}

static bool same_cell(const struct cell *a, const struct cell *b)
{
    return a->code == b->code && a->style == b->style && a->ink == b->ink && a->paper == b->paper &&
           a->width == b->width && a->picture == b->picture &&
           !memcmp(a->marks, b->marks, sizeof a->marks);
}

// --- the whole screen ----------------------------------------------------------------------------

// Clears the screen and marks all cells as different, empty ones too: the theme's paper may differ
// from the terminal's.
static void clear_all(struct terminal *t, struct written *w)
{
    t->fresh = false;
    forget_pictures(t);
    canvas_clear(&t->shown);
    for (int i = 0; i < t->shown.lines * t->shown.columns; i++) t->shown.cells[i].code = UINT32_MAX;
    t->cursor_x = t->cursor_y = INT_MAX;
    terminfo_add(&w->bytes, t->info.strings[TERMINFO_PLAIN]);
    terminfo_add(&w->bytes, t->info.strings[TERMINFO_CLEAR]);
}

// Returns the cell as the terminal should show it: empty under a picture.
static struct cell wanted_cell(const struct cell *now, const bool shown[])
{
    struct cell cell = *now;
    const bool covered = now->picture && shown[now->picture - 1];
    if (covered) cell = (struct cell){ .code = ' ', .width = 1 };
    cell.picture = covered;
    return cell;
}

// Returns whether something else was drawn on the picture's cells.
static bool is_touched(const struct terminal *t, const struct canvas *c, int number)
{
    const struct area a = c->drawn[number].area;
    for (int y = a.y; y < a.y + a.height; y++)
        for (int x = a.x; x < a.x + a.width; x++) {
            const struct cell *cell = canvas_at(&t->shown, x, y);
            if (cell && !cell->picture) return true;
        }
    return false;
}

static void put_cursor(struct terminal *t, struct written *w, const struct canvas *c)
{
    const bool moved = c->cursor_x != t->cursor_x || c->cursor_y != t->cursor_y;
    const bool seen = c->cursor_x >= 0;
    if (!w->bytes.length && !moved) return;
    if (seen)
        terminfo_add_numbers(&w->bytes, t->info.strings[TERMINFO_PLACE], c->cursor_y, c->cursor_x);
    if (seen != (t->cursor_x >= 0) || t->cursor_x == INT_MAX)
        terminfo_add(&w->bytes,
                     t->info.strings[seen ? TERMINFO_SHOW_CURSOR : TERMINFO_HIDE_CURSOR]);
    t->cursor_x = c->cursor_x;
    t->cursor_y = c->cursor_y;
}

void terminal_show(struct terminal *t, const struct canvas *c, const struct theme *theme)
{
    struct written w = { .x = -1, .y = -1 };
    struct buf pictures = { 0 }, all = { 0 };
    bool shown[CANVAS_PICTURES] = { false }, touched[CANVAS_PICTURES] = { false },
         blank[CANVAS_PICTURES] = { false };
    if (t->theme != theme) terminal_redraw(t);
    t->theme = theme;
    if (t->fresh) clear_all(t, &w);
    for (int i = 0; c->painter && i < c->drawn_count; i++) {
        shown[i] = placed_shows(&t->placed, c, i, t->shown.columns, t->shown.lines);
        touched[i] = shown[i] && is_touched(t, c, i);
        blank[i] = shown[i] && placed_blanks(&t->placed, c, i, touched[i]);
    }
    for (int y = 0; y < c->lines && y < t->shown.lines; y++)
        for (int x = 0; x < c->columns && x < t->shown.columns; x++) {
            struct cell *old = canvas_at(&t->shown, x, y);
            const struct cell *drawn = canvas_at(c, x, y), now = wanted_cell(drawn, shown);
            const bool blanked = now.picture && blank[drawn->picture - 1];
            if (same_cell(old, &now) && !blanked) continue;
            *old = now;
            if (now.code) put_cell(&w, t, &now, x, y);
        }
    if (w.has_pen) terminfo_add(&w.bytes, t->info.strings[TERMINFO_PLAIN]);
    placed_draw(&t->placed, c, shown, touched, &pictures);
    buf_add(&w.bytes, pictures.data, pictures.length);
    put_cursor(t, &w, c);
    // A synchronized update avoids flicker on terminals that support it. After such an update, tmux
    // redraws its window and loses the sixels in it.
    const bool at_once = pictures.length && !(c->tmux && c->graphics == GRAPHICS_SIXEL);
    if (at_once) buf_puts(&all, update_begin);
    buf_add(&all, w.bytes.data, w.bytes.length);
    if (at_once) buf_puts(&all, update_end);
    terminal_write(all.data, all.length);
    buf_release(&all);
    buf_release(&w.bytes);
    buf_release(&pictures);
}
