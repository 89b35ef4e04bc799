// tui/graphics_query.c -- asks the terminal in one query which graphics and colours it supports,
// and reads the replies.
//
// One write contains kitty's query (a picture of one pixel, which the terminal checks but does not
// draw), queries for the terminal's name (XTVERSION), the size of a cell (CSI 16 t) and the colours
// (below), and last the query for the primary device attributes (DA1). Every terminal replies to
// DA1, so this reply marks the end of the replies. A field with the value 4 in this reply means
// that the terminal supports sixel. tmux replies to all queries itself except kitty's, which it
// passes to the outer terminal.
//
// TERM often understates the number of colours (xterm: eight). A terminal that reports colour 255
// of the palette (OSC 4) has 256 colours. The query also sets an RGB colour; a terminal that
// reports it back (DECRQSS) has all RGB colours. The background (OSC 11) decides between the themes
// dark and light.
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/program.h"
#include "tui/graphics.h"
#include "tui/keys.h"

static const char kitty_query[] = "\033_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\033\\";
static const char palette_query[] = "\033]4;255;?\033\\";
static const char rgb_query[] = "\033[48;2;1;2;3m\033P$qm\033\\\033[m";
static const char background_query[] = "\033]11;?\033\\";
static const char name_query[] = "\033[>q", size_query[] = "\033[16t", last_query[] = "\033[c";
enum { COMMON_WIDTH = 10, COMMON_HEIGHT = 20 };

static bool is(const char *variable, const char *value)
{
    const char *text = getenv(variable);
    return text && !strncmp(text, value, strlen(value));
}

// Returns whether the terminal might display the query as text.
static bool shows_queries(void)
{
    const char *term = getenv("TERM");
    return !term || !*term || is("TERM", "dumb") || is("TERM", "linux") || is("TERM", "vt") ||
           is("TERM_PROGRAM", "Apple_Terminal") || getenv("STY");
}

static bool inside_tmux(void)
{
    const char *inside = getenv("TMUX");
    return inside && *inside;
}

void graphics_query_kitty(const struct graphics *g, struct buf *out)
{
    graphics_wrap(out, g->tmux, kitty_query, sizeof kitty_query - 1);
}

void graphics_query(struct graphics *g, struct buf *out)
{
    g->tmux = inside_tmux();
    g->complete = shows_queries();
    if (g->complete) return;
    graphics_query_kitty(g, out);
    buf_puts(out, name_query);
    buf_puts(out, size_query);
    buf_puts(out, palette_query);
    buf_puts(out, background_query);
    buf_puts(out, rgb_query);
    buf_puts(out, last_query);
}

void graphics_guess(struct graphics *g)
{
    const char *kitty = getenv("KITTY_WINDOW_ID");
    g->tmux = inside_tmux();
    g->complete = true;
    if (g->tmux || shows_queries()) return;
    if ((kitty && *kitty) || is("TERM", "xterm-kitty") || is("TERM", "xterm-ghostty"))
        g->found = GRAPHICS_KITTY;
    else if (is("TERM_PROGRAM", "iTerm.app") || is("TERM_PROGRAM", "WezTerm"))
        g->found = GRAPHICS_ITERM;
}

// --- replies -------------------------------------------------------------------------------------

static bool begins(const char *reply, size_t length, const char *with)
{
    return length >= strlen(with) && !memcmp(reply, with, strlen(with));
}

static void find(struct graphics *g, enum graphics_kind kind)
{
    // Prefers kitty's protocol, then iTerm2's, whose colours are exact, then sixel.
    static const int rank[] = { [GRAPHICS_SIXEL] = 1, [GRAPHICS_ITERM] = 2, [GRAPHICS_KITTY] = 3 };
    const int now = g->found >= GRAPHICS_KITTY ? rank[g->found] : 0;
    if (rank[kind] > now) g->found = kind;
}

// A tmux built with sixel support always reports sixel in DA1. But if the outer terminal does not
// support sixel, or does not report its cell size, tmux shows "SIXEL IMAGE" and plus signs in place
// of a picture. Only a tmux command reports the features of the outer terminal.
static bool tmux_shows_sixel(void)
{
    char *const argv[] = { "tmux", "display-message", "-p",
                           "#{client_cell_width} #{client_termfeatures}", NULL };
    // tmux replies within a few milliseconds, or hangs.
    const struct program p = { .argv = argv, .patience_s = 0.5, .most = 1023 };
    struct buf text = { 0 };
    program_run(&p, &text, NULL);
    buf_puts(&text, "");
    const bool sixel = strtol(text.data, NULL, 10) > 0 && strstr(text.data, "sixel");
    buf_release(&text);
    return sixel;
}

// Reads a reply to DA1, such as ESC [ ? 64 ; 4 ; 22 c.
static void take_attributes(struct graphics *g, const char *text)
{
    bool sixel = false;
    for (const char *p = text; p; p = strchr(p, ';')) {
        p += *p == ';' || p == text;
        sixel |= strtol(p, NULL, 10) == 4 && p != text + 1;
    }
    if (sixel && !g->complete && (!g->tmux || tmux_shows_sixel())) find(g, GRAPHICS_SIXEL);
    g->complete = true;
}

// Reads "rgb:RRRR/GGGG/BBBB", with one to four hexadecimal digits for each channel.
static void take_background(struct graphics *g, const char *text)
{
    unsigned channel[3];
    uint32_t rgb = 0;
    for (int k = 0; k < 3; k++) {
        char *end;
        const int digits = (int)strspn(text, "0123456789abcdefABCDEF");
        if (digits < 1 || digits > 4) return;
        channel[k] = (unsigned)strtoul(text, &end, 16);
        rgb = rgb << 8 | channel[k] * 255 / ((1U << (4 * digits)) - 1);
        if (k < 2 && *end != '/') return;
        text = end + 1;
    }
    g->background = rgb;
    g->has_background = true;
}

bool graphics_take_reply(struct graphics *g, const char *reply, size_t length)
{
    char text[128];
    int width, height;
    snprintf(text, sizeof text, "%.*s", (int)length, reply);
    if (begins(reply, length, "\033_Gi=31;")) {
        if (!strncmp(text + 8, "OK", 2)) find(g, GRAPHICS_KITTY);
        return true;
    }
    if (begins(reply, length, "\033P>|")) { // the rest is NAME ESC backslash
        const bool shows = strstr(text, "iTerm2") || strstr(text, "WezTerm");
        // tmux would draw iTerm2's pictures away from the cursor.
        if (shows && !g->tmux) find(g, GRAPHICS_ITERM);
        return true;
    }
    if (begins(reply, length, "\033[?") && reply[length - 1] == 'c') {
        take_attributes(g, text + 2);
        return true;
    }
    if (begins(reply, length, "\033]4;")) {
        if (begins(reply, length, "\033]4;255;rgb:")) g->colours = 256;
        return true;
    }
    if (begins(reply, length, "\033]11;")) {
        if (begins(reply, length, "\033]11;rgb:")) take_background(g, text + 9);
        return true;
    }
    // The reply continues with 0;48:2:1:2:3 m ESC backslash; some terminals write semicolons for
    // the colons, or an empty colour space (48:2::1:2:3).
    if (begins(reply, length, "\033P1$r") || begins(reply, length, "\033P0$r")) {
        const bool rgb = strstr(text, "48:2:") || strstr(text, "48;2;");
        g->true_colour |= rgb && (strstr(text, ":1:2:3") || strstr(text, ";1;2;3"));
        return true;
    }
    // NOLINTNEXTLINE(cert-err34-c): four digits cannot overflow
    if (sscanf(text, "\033[6;%4d;%4dt", &height, &width) == 2) {
        if (width > 1 && height > 1 && width < 200 && height < 400) {
            g->cell_width = width;
            g->cell_height = height;
        }
        return true;
    }
    return begins(reply, length, "\033_G");
}

void graphics_cell(const struct graphics *g, int fd, int *width, int *height)
{
    struct winsize w;
    *width = g->cell_width ? g->cell_width : COMMON_WIDTH;
    *height = g->cell_height ? g->cell_height : COMMON_HEIGHT;
    if (ioctl(fd, TIOCGWINSZ, &w) < 0 || !w.ws_col || !w.ws_row) return;
    if (w.ws_xpixel / w.ws_col < 2 || w.ws_ypixel / w.ws_row < 2) return;
    *width = w.ws_xpixel / w.ws_col;
    *height = w.ws_ypixel / w.ws_row;
}

// --- asking and waiting --------------------------------------------------------------------------

// Separates the received bytes into replies and keys.
static void take_keys(struct graphics *g, struct key_reader *r, bool flush, struct buf *typed)
{
    struct key key;
    while (key_reader_next(r, flush, &key)) {
        const bool reply = key.kind == KEY_REPLY && graphics_take_reply(g, key.bytes, key.length);
        if (key.kind == KEY_PASTE)
            buf_printf(typed, "\033[200~%s\033[201~", key.paste);
        else if (!reply)
            buf_add(typed, key.bytes, key.length);
        free(key.paste);
    }
}

void graphics_query_now(struct graphics *g, int fd, double seconds, struct buf *typed)
{
    struct buf question = { 0 };
    struct key_reader reader = { 0 };
    struct termios before, quiet;
    graphics_query(g, &question);
    if (!question.length || tcgetattr(fd, &before) < 0) {
        buf_release(&question);
        return;
    }
    quiet = before;
    quiet.c_lflag &= ~(tcflag_t)(ECHO | ICANON);
    tcsetattr(fd, TCSANOW, &quiet);
    const double begin = clock_seconds(), end = begin + seconds;
    bool again = g->tmux; // repeats kitty's query: tmux may drop the first (tui/placed.h)
    bool waiting = write(fd, question.data, question.length) == (ssize_t)question.length;
    while (waiting && clock_seconds() < end) {
        char bytes[256];
        struct pollfd p = { .fd = fd, .events = POLLIN };
        const double until = again ? begin + seconds / 2 : end;
        const int patience = (int)((until - clock_seconds()) * 1000) + 1;
        const int ready = poll(&p, 1, patience > 0 ? patience : 0);
        if (!ready && again) {
            again = false;
            buf_clear(&question);
            graphics_query_kitty(g, &question);
            waiting = write(fd, question.data, question.length) == (ssize_t)question.length;
            continue;
        }
        const ssize_t n = ready > 0 ? read(fd, bytes, sizeof bytes) : 0;
        if (n <= 0) break;
        key_reader_add(&reader, bytes, (size_t)n);
        take_keys(g, &reader, false, typed);
        // The outer terminal's reply to kitty's query arrives after tmux's own replies.
        waiting = !g->complete || (g->tmux && g->found == GRAPHICS_BLOCKS);
    }
    take_keys(g, &reader, true, typed);
    tcsetattr(fd, TCSANOW, &before);
    buf_release(&question);
    key_reader_release(&reader);
}
