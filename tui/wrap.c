// tui/wrap.c -- word wrap.
#include "tui/wrap.h"

#include <string.h>

#include "tui/canvas.h"

struct wrap wrap_begin(const char *text, int width)
{
    return (struct wrap){ .next = text, .width = width > 0 ? width : 1 };
}

static bool is_code(const struct wrap *w, const char *line, size_t length)
{
    return w->fenced || (length && line[0] == '\t') || (length >= 4 && !memcmp(line, "    ", 4));
}

static bool is_fence(const char *line, size_t length)
{
    return length >= 3 && !memcmp(line, "```", 3);
}

static int step_width(int32_t code, int width, int column)
{
    if (code == '\t') return 4 - column % 4;
    if (code > 0 && (code < 0x20 || code == 0x7f)) return 2; // ^X
    return width;
}

// May a line end behind this character? Ideographs stand without blanks between them.
static bool breaks_behind(int32_t code, int width)
{
    return code == ' ' || code == '-' || (width == 2 && code >= 0x2e80);
}

// Bytes of `line` that fit: up to the last place to break, if there is one.
static size_t fit(const char *line, size_t length, int room, bool code_line)
{
    size_t at = 0, place = 0;
    int column = 0;
    while (at < length) {
        int32_t code;
        int width;
        const size_t n = character_next(line + at, length - at, &code, &width);
        const int step = step_width(code, width, column);
        if (column + step > room && at) {
            if (code == ' ' && !code_line) return at; // the blank itself may hang over
            return place && !code_line ? place : at;
        }
        column += step;
        at += n;
        if (breaks_behind(code, width)) place = at;
    }
    return length;
}

bool wrap_next(struct wrap *w)
{
    if (w->ended) return false;
    if (w->within && !w->code) // blanks at which a line was cut
        while (*w->next == ' ') w->next++;
    const char *end = strchrnul(w->next, '\n');
    const size_t left = (size_t)(end - w->next);
    const bool fence = !w->within && is_fence(w->next, left);
    if (!w->within) w->code = fence || is_code(w, w->next, left);
    if (fence) w->fenced = !w->fenced;
    w->line = w->next;
    w->length = fit(w->line, left, w->width, w->code);
    w->within = w->length < left;
    w->next += w->length + (w->within || !*end ? 0 : 1);
    w->ended = !w->within && !*end;
    if (w->within && !w->code) { // only blanks are left: they are no line
        const char *p = w->next;
        while (p < end && *p == ' ') p++;
        if (p == end) {
            w->within = false;
            w->next = *end ? end + 1 : end;
            w->ended = !*end;
        }
    }
    return true;
}

int wrap_count(const char *text, int width)
{
    struct wrap w = wrap_begin(text, width);
    int count = 0;
    while (wrap_next(&w)) count++;
    return count;
}
