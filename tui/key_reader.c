// tui/key_reader.c -- parses the bytes that terminals send for keys, mouse and paste.
//
// Terminals agree only on the forms of sequences: ESC [ numbers letter, ESC O letter, ESC
// character. One table lists all sequences in use (xterm, VT, rxvt, Linux console, tmux, screen).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tui/canvas.h"
#include "tui/keys.h"

static const char paste_begin[] = "\033[200~", paste_end[] = "\033[201~";
enum { PASTE_MAX = 4 << 20 };

static const struct {
    const char *tail, *name; // tail: the bytes after ESC
} sequences[] = {
    { "[A", "Up" },   { "[B", "Down" },  { "[C", "Right" },     { "[D", "Left" }, { "OA", "Up" },
    { "OB", "Down" }, { "OC", "Right" }, { "OD", "Left" },      { "[H", "Home" }, { "[F", "End" },
    { "OH", "Home" }, { "OF", "End" },   { "[Z", "Shift-Tab" }, { "OP", "F1" },   { "OQ", "F2" },
    { "OR", "F3" },   { "OS", "F4" },    { "[[A", "F1" },       { "[[B", "F2" },  { "[[C", "F3" },
    { "[[D", "F4" },  { "[[E", "F5" },   { "OM", "Enter" },     { "[P", "F1" },   { "[Q", "F2" },
    { "[R", "F3" },   { "[S", "F4" },
};

// ESC [ NUMBER ~
static const char *const numbered[] = {
    [1] = "Home",     [2] = "Insert", [3] = "Delete", [4] = "End",  [5] = "PageUp",
    [6] = "PageDown", [7] = "Home",   [8] = "End",    [11] = "F1",  [12] = "F2",
    [13] = "F3",      [14] = "F4",    [15] = "F5",    [17] = "F6",  [18] = "F7",
    [19] = "F8",      [20] = "F9",    [21] = "F10",   [23] = "F11", [24] = "F12",
};

void key_reader_add(struct key_reader *r, const char *bytes, size_t length)
{
    buf_add(&r->bytes, bytes, length);
}

bool key_reader_open(const struct key_reader *r)
{
    return r->bytes.length > 0 || r->pasting;
}

void key_reader_release(struct key_reader *r)
{
    buf_release(&r->bytes);
    buf_release(&r->paste);
}

static void drop(struct key_reader *r, size_t count)
{
    r->bytes.length -= count;
    memmove(r->bytes.data, r->bytes.data + count, r->bytes.length);
    r->bytes.data[r->bytes.length] = '\0';
}

static bool give(struct key_reader *r, size_t count, const char *name, struct key *key)
{
    const size_t n = count < sizeof key->bytes ? count : sizeof key->bytes;
    memcpy(key->bytes, r->bytes.data, n);
    key->length = n;
    snprintf(key->name, sizeof key->name, "%s", name);
    drop(r, count);
    return true;
}

static bool give_reply(struct key_reader *r, size_t count, struct key *key)
{
    give(r, count, "", key);
    key->kind = KEY_REPLY;
    return true;
}

// --- paste and mouse -----------------------------------------------------------------------------

static bool end_paste(struct key_reader *r, struct key *key)
{
    key->kind = KEY_PASTE;
    key->paste = buf_take(&r->paste);
    r->pasting = false;
    return true;
}

// Takes everything up to the end sequence. Until that arrives, leaves the last bytes, which may be
// its beginning; `flush`: takes these too.
static bool take_paste(struct key_reader *r, bool flush, struct key *key)
{
    const size_t end_length = sizeof paste_end - 1;
    const char *end = memmem(r->bytes.data, r->bytes.length, paste_end, end_length);
    size_t take = end ? (size_t)(end - r->bytes.data) : r->bytes.length;
    if (!end && !flush) {
        const size_t held = r->bytes.length < end_length - 1 ? r->bytes.length : end_length - 1;
        take = r->bytes.length - held;
    }
    for (size_t i = 0; i < take; i++) { // skips zero bytes
        const char c = r->bytes.data[i] == '\r' ? '\n' : r->bytes.data[i];
        if (c && r->paste.length < PASTE_MAX) buf_putc(&r->paste, c);
    }
    drop(r, take);
    r->paused = !end && flush; // the end sequence was lost, or is late
    if (!end) return flush && end_paste(r, key);
    drop(r, end_length);
    return end_paste(r, key);
}

static bool give_mouse(struct key_reader *r, size_t count, int code, int x, int y, bool release,
                       struct key *key)
{
    give(r, count, "Mouse", key);
    key->kind = KEY_MOUSE;
    key->x = x - 1;
    key->y = y - 1;
    key->moved = code & 32;
    key->button = release || key->moved ? 0 : code & 64 ? 4 + (code & 1) : (code & 3) + 1;
    return true;
}

// ESC [ < code ; x ; y M (pressed) or m (released)
static bool take_sgr_mouse(struct key_reader *r, size_t count, struct key *key)
{
    int code = 0, x = 0, y = 0;
    char end = 0;
    // NOLINTNEXTLINE(cert-err34-c): five digits cannot overflow
    if (sscanf(r->bytes.data, "\033[<%5d;%5d;%5d%c", &code, &x, &y, &end) != 4)
        return give(r, count, "", key);
    return give_mouse(r, count, code, x, y, end == 'm', key);
}

// --- one key -------------------------------------------------------------------------------------

const char *key_modifiers(unsigned modifiers)
{
    static const char *const texts[] = { "",      "Shift-",      "Alt-",      "Alt-Shift-",
                                         "Ctrl-", "Ctrl-Shift-", "Ctrl-Alt-", "Ctrl-Alt-Shift-" };
    return modifiers < 8 ? texts[modifiers] : "";
}

// Returns the length of the sequence ESC [ ...; 0: not complete yet.
static size_t csi_length(const char *p, size_t n)
{
    if (n > 2 && p[2] == '[') return n > 3 ? 4 : 0; // the Linux console's F1..F5
    for (size_t i = 2; i < n; i++)
        if (p[i] >= 0x40 && p[i] <= 0x7e)
            return i + 1;
        else if ((unsigned char)p[i] < 0x20 || (unsigned char)p[i] > 0x7e)
            return i;
    return n > 40 ? n : 0;
}

static const char *plain_sequence(const char *tail, size_t length)
{
    for (size_t i = 0; i < sizeof sequences / sizeof sequences[0]; i++)
        if (strlen(sequences[i].tail) == length && !memcmp(sequences[i].tail, tail, length))
            return sequences[i].name;
    return NULL;
}

// ESC [ 1 ; modifier letter, ESC [ number ; modifier ~
static void spell_csi(const char *p, size_t n, char name[32])
{
    int number = 1, modifier = 1;
    char letter[3] = { '[', p[n - 1], 0 };
    const char *base = plain_sequence(p + 1, n - 1);
    if (!base) {
        const char *end = p + n - 1;
        number = (int)strtol(p + 2, NULL, 10);
        const char *semicolon = memchr(p, ';', (size_t)(end - p));
        if (semicolon) modifier = (int)strtol(semicolon + 1, NULL, 10);
        const size_t known = sizeof numbered / sizeof numbered[0];
        if (p[n - 1] == '~')
            base = number > 0 && (size_t)number < known ? numbered[number] : NULL;
        else if (semicolon)
            base = plain_sequence(letter, 2);
    }
    if (base)
        snprintf(name, 32, "%s%s", key_modifiers((unsigned)modifier - 1), base);
    else
        name[0] = '\0';
}

static bool take_csi(struct key_reader *r, bool flush, struct key *key)
{
    char *p = r->bytes.data, name[32];
    size_t n = csi_length(p, r->bytes.length);
    if (!n && !flush) return false;
    if (!n) n = r->bytes.length;
    if (n == sizeof paste_begin - 1 && !memcmp(p, paste_begin, n)) {
        drop(r, n);
        r->pasting = true;
        return take_paste(r, flush, key);
    }
    if (n > 3 && p[2] == '<') return take_sgr_mouse(r, n, key);
    if (n > 3 && ((p[2] == '?' && p[n - 1] == 'c') || p[n - 1] == 't'))
        return give_reply(r, n, key);
    if (n == 3 && p[2] == 'M') { // the old mouse sequence: three bytes follow
        if (r->bytes.length < 6) return flush ? give(r, r->bytes.length, "", key) : false;
        return give_mouse(r, 6, (unsigned char)p[3] - 32, (unsigned char)p[4] - 32,
                          (unsigned char)p[5] - 32, (p[3] & 3) == 3, key);
    }
    spell_csi(p, n, name);
    return give(r, n, name, key);
}

// Returns the length of a reply: ESC _ G ... (kitty's), ESC P > | ... (the terminal's name), ESC P
// 0 or 1 $ r ... (its attributes), all up to ESC backslash, or ESC ] 4 ; ... and ESC ] 11 ; ...
// (colours), which may end with BEL. 0: not a reply; -1: not complete yet.
static int reply_length(const char *p, size_t n)
{
    enum { REPLY_MAX = 512 };
    const char *heads = p[1] == '_' ? "G" : p[1] == 'P' ? ">01" : p[1] == ']' ? "41" : NULL;
    if (!heads) return 0;
    if (n == 2) return -1;
    if (!strchr(heads, p[2])) return 0;
    const char *bell = p[1] == ']' ? memchr(p, '\a', n) : NULL;
    const char *end = memmem(p + 3, n - 3, "\033\\", 2);
    if (bell && (!end || bell < end)) return (int)(bell - p) + 1;
    return end ? (int)(end - p) + 2 : n < REPLY_MAX ? -1 : 0;
}

// A slow connection may split a reply: without waiting, its rest would be read as keys.
bool key_reader_replying(const struct key_reader *r)
{
    const char *p = r->bytes.data;
    if (r->bytes.length < 3 || p[0] != '\033') return false;
    return p[1] == '[' ? !csi_length(p, r->bytes.length) : reply_length(p, r->bytes.length) < 0;
}

static void spell_byte(unsigned char c, unsigned modifiers, char name[32])
{
    const char letter[2] = { (char)(c < 0x20 ? c | 0x40 : c), '\0' };
    const char *base = c == '\r'             ? "Enter"
                       : c == '\t'           ? "Tab"
                       : c == 0x7f || c == 8 ? "Backspace"
                       : c == ' ' || c == 0  ? "Space"
                                             : letter;
    if (c == 0 || (c < 0x20 && base == letter)) modifiers |= KEY_CTRL;
    snprintf(name, 32, "%s%s", key_modifiers(modifiers), base);
}

static bool take_escape(struct key_reader *r, bool flush, struct key *key)
{
    const char *p = r->bytes.data;
    char name[32];
    if (r->bytes.length == 1) return flush ? give(r, 1, "Esc", key) : false;
    if (p[1] == '[') {
        if (r->bytes.length == 2) return flush ? give(r, 2, "Alt-[", key) : false;
        return take_csi(r, flush, key);
    }
    if (p[1] == 'O') {
        if (r->bytes.length == 2) return flush ? give(r, 2, "Alt-O", key) : false;
        const char *known = plain_sequence(p + 1, 2);
        return give(r, 3, known ? known : "", key);
    }
    const int reply = reply_length(p, r->bytes.length);
    if (reply < 0 && !flush) return false;
    if (reply > 0) return give_reply(r, (size_t)reply, key);
    if (p[1] == '\033' || (unsigned char)p[1] >= 0x80) return give(r, 1, "Esc", key);
    spell_byte((unsigned char)p[1], KEY_ALT, name);
    return give(r, 2, name, key);
}

// Takes a UTF-8 character, or one byte of an invalid one.
static bool take_text(struct key_reader *r, bool flush, struct key *key)
{
    const unsigned char c = (unsigned char)r->bytes.data[0];
    const size_t need = c < 0xc0 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    if (r->bytes.length < need && !flush) return false;
    int32_t code;
    int width;
    char name[8] = "";
    const size_t n = character_next(r->bytes.data, r->bytes.length, &code, &width);
    memcpy(name, r->bytes.data, code < 0 ? 0 : n);
    key->kind = KEY_TEXT;
    return give(r, n, name, key);
}

// Returns whether bytes after a pause belong to the paste: its end sequence follows, or there are
// more bytes than anyone types at once. Read as keys, they would run commands.
static bool paste_continues(struct key_reader *r)
{
    enum { TYPED = 256 };
    if (!r->paused) return false;
    const char *bytes = r->bytes.data;
    const char *next = memmem(bytes, r->bytes.length, paste_begin, sizeof paste_begin - 1);
    const size_t length = next ? (size_t)(next - bytes) : r->bytes.length; // before another paste
    r->paused = false;
    return length > TYPED || memmem(bytes, length, paste_end, sizeof paste_end - 1);
}

bool key_reader_next(struct key_reader *r, bool flush, struct key *key)
{
    char name[32];
    *key = (struct key){ 0 };
    if (r->bytes.length && paste_continues(r)) r->pasting = true;
    if (r->pasting) return (flush || r->bytes.length) && take_paste(r, flush, key);
    if (!r->bytes.length) return false;
    const unsigned char c = (unsigned char)r->bytes.data[0];
    if (c == '\033') return take_escape(r, flush, key);
    if (c > ' ' && c != 0x7f) return take_text(r, flush, key);
    spell_byte(c, 0, name);
    return give(r, 1, name, key);
}
