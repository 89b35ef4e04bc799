// tui/terminal.c -- canvas to ncurses, and true colour beside it.
#include "tui/terminal.h"

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

#include "tui/placed.h"
#include "tui/signals.h"
#include <curses.h>
#include <term.h>
#undef lines // term.h takes these names
#undef columns

enum {
    REPLY_MS = 100, // a terminal answers within
    PALETTE = 256   // one with more colours (xterm-direct) takes the numbers from 8 on as RGB
};

struct terminal {
    SCREEN *screen;
    struct placed placed;
    struct canvas shown; // what is on the terminal now
    const struct theme *theme;
    int colours;
    bool true_colour, ascii, mouse, can_mouse;
    bool console; // Linux's: a font of at most 512 signs
    char *farewell;
};

static const char modes_on[] = "\033[?2004h"; // bracketed paste
static const char modes_off[] = "\033[?2004l\033[?1006l\033[?1000l";
static const char update_begin[] = "\033[?2026h", update_end[] = "\033[?2026l"; // synchronized
static const char mouse_on[] = "\033[?1000h\033[?1006h", mouse_off[] = "\033[?1006l\033[?1000l";

void terminal_write(const char *bytes, size_t length)
{
    fflush(stdout);
    while (length) {
        const ssize_t n = write(STDOUT_FILENO, bytes, length);
        if (n <= 0) return;
        bytes += n;
        length -= (size_t)n;
    }
}

static void say(const char *text)
{
    terminal_write(text, strlen(text));
}

bool terminal_possible(void)
{
    const char *term = getenv("TERM");
    int problem = 0;
    if (!term || !*term || !strcmp(term, "dumb")) return false;
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) return false;
    if (setupterm(NULL, STDOUT_FILENO, &problem) != OK) return false;
    const char *place = tigetstr("cup"), *erase_all = tigetstr("clear");
    const bool possible = place && place != (char *)-1 && erase_all && erase_all != (char *)-1;
    del_curterm(cur_term);
    return possible;
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

static void add_capability(struct buf *b, const char *name)
{
    const char *text = tigetstr(name);
    if (text && text != (char *)-1) buf_puts(b, text);
}

static char *make_farewell(void)
{
    struct buf b = { 0 };
    buf_puts(&b, "\033\\"); // the end of a picture that was being sent
    buf_puts(&b, update_end);
    buf_puts(&b, modes_off);
    add_capability(&b, "sgr0");
    add_capability(&b, "op");
    add_capability(&b, "cnorm");
    add_capability(&b, "rmcup");
    add_capability(&b, "rmkx");
    buf_puts(&b, "\r\n");
    return buf_take(&b);
}

static void set_modes(void)
{
    raw();
    noecho();
    nonl();
    typeahead(-1);
    leaveok(stdscr, FALSE);
}

// All cells are drawn anew, blanks too: a theme's paper is not that of the terminal.
static void forget_cells(struct terminal *t)
{
    canvas_clear(&t->shown);
    for (int i = 0; i < t->shown.lines * t->shown.columns; i++) t->shown.cells[i].code = UINT32_MAX;
}

struct terminal *terminal_open(struct err *err)
{
    struct terminal *t = xcalloc(1, sizeof *t);
    const char *truecolor = getenv("COLORTERM"), *plain = getenv("NO_COLOR"),
               *term = getenv("TERM");
    t->ascii = !terminal_locale();
    t->screen = newterm(NULL, stdout, stdin);
    if (!t->screen) {
        free(t);
        err_set(err, "the terminal type '%s' cannot show a full screen: use --plain",
                term ? term : "");
        return NULL;
    }
    set_term(t->screen);
    set_modes();
    if (has_colors() && !(plain && *plain) && start_color() == OK) {
        use_default_colors();
        t->colours = COLORS;
    }
    t->console = term && !strncmp(term, "linux", 5);
    // GNU screen before 5.0 takes the parts of such a colour for blinking and the like.
    const char *inside = getenv("STY");
    const bool trusted = !inside || !*inside;
    const bool told = truecolor && (!strcmp(truecolor, "truecolor") || !strcmp(truecolor, "24bit"));
    t->true_colour = trusted && (t->colours > PALETTE || (t->colours == PALETTE && told));
    const char *mouse = tigetstr("kmous");
    t->can_mouse = mouse && mouse != (char *)-1;
    t->farewell = make_farewell();
    signals_set_farewell(t->farewell, STDOUT_FILENO);
    canvas_resize(&t->shown, LINES, COLS);
    forget_cells(t);
    erase();
    refresh();
    say(modes_on);
    struct buf question = { 0 };
    placed_ask(&t->placed, &question);
    if (question.length) terminal_write(question.data, question.length);
    buf_release(&question);
    return t;
}

void terminal_reply(struct terminal *t, const char *bytes, size_t length)
{
    placed_reply(&t->placed, bytes, length);
}

void terminal_prepare(const struct terminal *t, struct canvas *c, const char *graphics)
{
    c->graphics = graphics_choose(&t->placed.graphics, graphics);
    c->tmux = t->placed.graphics.tmux;
    graphics_cell(&t->placed.graphics, STDOUT_FILENO, &c->cell_width, &c->cell_height);
}

bool terminal_true_colour(const struct terminal *t)
{
    return t->true_colour;
}

static void forget_pictures(struct terminal *t)
{
    struct buf b = { 0 };
    placed_forget(&t->placed, &b);
    if (b.length) terminal_write(b.data, b.length);
    buf_release(&b);
}

double terminal_wait(const struct terminal *t, double now)
{
    return placed_wait(&t->placed, now);
}

// What the terminal still says about pictures would be typed into the shell that follows.
static void drop_replies(void)
{
    struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
    char bytes[256];
    for (int i = 0; i < 20 && poll(&in, 1, REPLY_MS) > 0; i++)
        if (read(in.fd, bytes, sizeof bytes) <= 0) return;
}

void terminal_leave(struct terminal *t)
{
    const char *back = tigetstr("rmcup");
    const bool expects = placed_expects(&t->placed);
    forget_pictures(t);
    if (expects) drop_replies();
    if (!back || back == (char *)-1) { // no other screen to go back to: leave an empty one
        erase();
        refresh();
    }
    say(modes_off);
    endwin();
    fflush(stdout);
    signals_set_farewell(NULL, STDOUT_FILENO);
}

void terminal_enter(struct terminal *t)
{
    signals_set_farewell(t->farewell, STDOUT_FILENO);
    set_modes();
    terminal_redraw(t);
    refresh();
    say(modes_on);
    if (t->mouse) say(mouse_on);
}

void terminal_close(struct terminal *t)
{
    if (!t) return;
    terminal_leave(t);
    delscreen(t->screen);
    canvas_release(&t->shown);
    free(t->farewell);
    free(t);
}

bool terminal_ascii(const struct terminal *t)
{
    return t->ascii;
}

bool terminal_mono(const struct terminal *t)
{
    return t->colours < 16;
}

int terminal_colours(const struct terminal *t)
{
    return t->true_colour ? 0 : t->colours > 1 ? t->colours : 1;
}

void terminal_mouse(struct terminal *t, bool on)
{
    if (!t->can_mouse || on == t->mouse) return;
    t->mouse = on;
    say(on ? mouse_on : mouse_off);
}

// --- size ----------------------------------------------------------------------------------------

void terminal_size(struct terminal *t, int *lines, int *columns)
{
    *lines = t->shown.lines;
    *columns = t->shown.columns;
}

static int fixed(const char *variable)
{
    const char *text = getenv(variable);
    return text ? (int)strtol(text, NULL, 10) : 0;
}

void terminal_resize(struct terminal *t)
{
    struct winsize w;
    int lines = LINES, columns = COLS;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_row && w.ws_col) {
        lines = w.ws_row;
        columns = w.ws_col;
    }
    if (fixed("LINES") > 0) lines = fixed("LINES");
    if (fixed("COLUMNS") > 0) columns = fixed("COLUMNS");
    if (lines > 1000) lines = 1000;
    if (columns > 1000) columns = 1000;
    resizeterm(lines, columns);
    canvas_resize(&t->shown, LINES, COLS);
    terminal_redraw(t);
}

void terminal_redraw(struct terminal *t)
{
    forget_pictures(t);
    forget_cells(t);
    erase();
    clearok(curscr, TRUE);
}

// --- cells ---------------------------------------------------------------------------------------

static int rgb_number(const struct terminal *t, uint32_t rgb)
{
    return t->colours > PALETTE ? (int)rgb : colour_nearest(rgb, t->colours);
}

static int colour_number(const struct terminal *t, int index)
{
    const bool own = index < (t->colours > PALETTE ? 8 : t->colours);
    return own ? index : rgb_number(t, colour_of(index));
}

static attr_t attributes_of(int attributes)
{
    attr_t a = A_NORMAL;
    if (attributes & LOOK_BOLD) a |= A_BOLD;
    if (attributes & LOOK_DIM) a |= A_DIM;
    if (attributes & LOOK_REVERSE) a |= A_REVERSE;
    if (attributes & LOOK_UNDERLINE) a |= A_UNDERLINE;
    if (attributes & LOOK_ITALIC) a |= termattrs() & A_ITALIC ? A_ITALIC : A_UNDERLINE;
    return a;
}

static bool is_grey(int index)
{
    return index == 0 || index == 7 || index == 8 || index == 15 || index >= 232;
}

// The nearest of eight colours to a grey is one nobody can read, or none: the terminal's own is
// taken instead, and reverse video for grey paper.
static void find_eight(const struct look *look, int *ink, int *paper, attr_t *attributes)
{
    if (look->paper == 0) return; // black is one of the eight: no boxes around the text
    if (look->paper > 0 && is_grey(look->paper)) {
        *ink = *paper = COLOUR_DEFAULT;
        *attributes |= A_REVERSE;
    } else if (look->paper < 0 && is_grey(look->ink)) {
        *ink = COLOUR_DEFAULT;
    }
}

// Without colours a coloured paper is reverse video.
static void find_look(const struct terminal *t, const struct cell *cell, attr_t *attributes,
                      int *pair)
{
    const struct look *look = theme_look(t->theme, cell->style);
    *attributes = attributes_of(look->attributes);
    *pair = 0;
    if (t->colours < 8) {
        if (look->paper > 0) *attributes |= A_REVERSE;
        if (cell->style == STYLE_NOTICE || cell->style == STYLE_DIM) *attributes |= A_DIM;
        return;
    }
    int ink = colour_number(t, look->ink), paper = colour_number(t, look->paper);
    if (t->colours < 16) find_eight(look, &ink, &paper, attributes);
    if (cell->ink) ink = rgb_number(t, cell->ink & 0xffffff);
    if (cell->paper) paper = rgb_number(t, cell->paper & 0xffffff);
    if (ink >= 0 || paper >= 0) *pair = alloc_pair(ink, paper);
    if (*pair < 0) *pair = 0;
}

// The console's fonts have lines and blocks, but neither braille nor fancy arrows.
static wchar_t console_sign(const struct cell *cell)
{
    const uint32_t code = cell->code;
    if (code > 0x2800 && code < 0x2900) return cell->style == STYLE_GHOST ? L'.' : L'*';
    if (code == 0x276f || code == 0x203a) return L'>';
    return (wchar_t)code;
}

static void put_cell(const struct terminal *t, const struct cell *cell, int x, int y)
{
    wchar_t text[2 + CELL_MARKS] = { t->console ? console_sign(cell) : (wchar_t)cell->code };
    cchar_t character;
    attr_t attributes;
    int pair;
    const bool agrees = wcwidth(text[0]) == cell->width && (!t->ascii || cell->code < 0x7f);
    find_look(t, cell, &attributes, &pair);
    if (!agrees) text[0] = L'?';
    for (int i = 0; agrees && i < CELL_MARKS && cell->marks[i]; i++)
        if (wcwidth((wchar_t)cell->marks[i]) == 0) text[i + 1] = (wchar_t)cell->marks[i];
    if (setcchar(&character, text, attributes, 0, &pair) != OK) return;
    mvadd_wch(y, x, &character);
    if (!agrees && cell->width == 2) mvadd_wch(y, x + 1, &character);
}

static bool same_cell(const struct cell *a, const struct cell *b)
{
    return a->code == b->code && a->style == b->style && a->ink == b->ink && a->paper == b->paper &&
           a->width == b->width && a->picture == b->picture &&
           !memcmp(a->marks, b->marks, sizeof a->marks);
}

static void add_number(struct buf *out, uint32_t n)
{
    char digits[10];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + n % 10);
    } while ((n /= 10));
    buf_add(out, digits + at, sizeof digits - at);
}

// kind 38: ink, 48: paper; rgb 0: the terminal's own.
static void add_colour(struct buf *out, uint32_t kind, uint32_t rgb)
{
    buf_puts(out, "\033[");
    add_number(out, rgb ? kind : kind + 1);
    if (rgb) buf_puts(out, ";2");
    for (int shift = 16; rgb && shift >= 0; shift -= 8) {
        buf_putc(out, ';');
        add_number(out, rgb >> shift & 255);
    }
    buf_putc(out, 'm');
}

// Cells in true colour on their way out: where the next one would stand, in which colours.
struct true_cells {
    struct buf bytes;
    int x, y;
    uint32_t ink, paper;
};

static void add_true_cell(struct true_cells *out, const struct cell *cell, int x, int y)
{
    char bytes[MB_LEN_MAX + 1] = "";
    const bool first = !out->bytes.length;
    if (first || out->x != x || out->y != y) buf_printf(&out->bytes, "\033[%d;%dH", y + 1, x + 1);
    if (first || out->ink != cell->ink) add_colour(&out->bytes, 38, cell->ink);
    if (first || out->paper != cell->paper) add_colour(&out->bytes, 48, cell->paper);
    if (wctomb(bytes, (wchar_t)cell->code) > 0) buf_puts(&out->bytes, bytes);
    out->ink = cell->ink;
    out->paper = cell->paper;
    out->x = x + 1;
    out->y = y;
}

// ncurses believes that blocks without colours stand there and the cursor where it was.
static void show_true(const struct canvas *c, const struct buf *out)
{
    if (!out->length) return;
    struct buf all = { 0 };
    buf_puts(&all, "\0337\033[0m");
    buf_add(&all, out->data, out->length);
    buf_puts(&all, "\033[0m\0338");
    terminal_write(all.data, all.length);
    buf_release(&all);
}

// --- all of it -----------------------------------------------------------------------------------

// What the terminal should hold there: under a picture nothing.
static struct cell wanted_cell(const struct cell *now, const bool shown[])
{
    struct cell cell = *now;
    const bool covered = now->picture && shown[now->picture - 1];
    if (covered) cell = (struct cell){ .code = ' ', .width = 1 };
    cell.picture = covered;
    return cell;
}

// tmux (3.5, 3.8) moves its sixels with lines that scroll elsewhere, which ncurses does where some
// rows have changed, and drops them when a part of one of their lines is cleared.
static void touch_fragile(const struct canvas *c, const bool changed[], int lines, bool touched[])
{
    enum { FEW = 3 }; // rows that do not scroll: a line's end, the status, the input
    int count = 0;
    for (int y = 0; y < lines; y++) count += changed[y];
    for (int i = 0; i < c->drawn_count; i++) {
        const struct area a = c->drawn[i].area;
        touched[i] |= count > FEW;
        for (int y = a.y; y < a.y + a.height && y < lines; y++) touched[i] |= changed[y];
    }
}

void terminal_show(struct terminal *t, const struct canvas *c, const struct theme *theme)
{
    // What nothing else draws: whatever follows differs from it. Another one for each row, or
    // ncurses would take rows for equal and scroll them, and with them the colours and pictures it
    // knows nothing of.
    struct cell block = { .width = 1 };
    struct true_cells out = { 0 };
    struct buf pictures = { 0 };
    bool shown[CANVAS_PICTURES] = { false }, touched[CANVAS_PICTURES] = { false };
    if (t->theme && t->theme != theme) terminal_redraw(t);
    t->theme = theme;
    const int lines = c->lines < t->shown.lines ? c->lines : t->shown.lines;
    const int columns = c->columns < t->shown.columns ? c->columns : t->shown.columns;
    const bool fragile = c->tmux && c->graphics == GRAPHICS_SIXEL;
    bool *changed = xcalloc((size_t)lines + 1, sizeof *changed);
    for (int i = 0; c->painter && i < c->drawn_count; i++)
        shown[i] = placed_shows(&t->placed, c, i, t->shown.columns, t->shown.lines);
    for (int y = 0; y < lines; y++) {
        block.code = 0x2580 + (uint32_t)y % 32;
        for (int x = 0; x < columns; x++) {
            struct cell *old = canvas_at(&t->shown, x, y);
            const struct cell *drawn = canvas_at(c, x, y), now = wanted_cell(drawn, shown);
            if (same_cell(old, &now)) continue;
            *old = now;
            changed[y] = true;
            if (!now.code) continue;
            if (now.picture) touched[drawn->picture - 1] = true;
            const bool exact = t->true_colour && (now.ink || now.paper);
            put_cell(t, exact || now.picture ? &block : &now, x, y);
            if (exact) add_true_cell(&out, &now, x, y);
        }
    }
    if (fragile) touch_fragile(c, changed, lines, touched);
    free(changed);
    placed_draw(&t->placed, c, shown, touched, &pictures);
    curs_set(c->cursor_x >= 0);
    if (c->cursor_x >= 0) move(c->cursor_y, c->cursor_x);
    // All of it at once, where the terminal can. tmux draws its window anew then, and forgets the
    // sixels that came meanwhile.
    const bool at_once = pictures.length && !fragile;
    if (at_once) say(update_begin);
    refresh();
    show_true(c, &out.bytes);
    show_true(c, &pictures);
    if (at_once) say(update_end);
    buf_release(&out.bytes);
    buf_release(&pictures);
}
