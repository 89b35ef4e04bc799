// tui/wrap.c -- wraps text between words.
#include "tui/wrap.h"

#include <ctype.h>
#include <string.h>

#include "tui/canvas.h"

struct wrap wrap_begin(const char *text, int width)
{
    return (struct wrap){ .next = text, .width = width > 0 ? width : 1 };
}

struct wrap wrap_begin_marked(const char *text, int width)
{
    struct wrap w = wrap_begin(text, width);
    w.marked = true;
    return w;
}

bool wrap_is_code(const char *line, size_t length, bool *fenced)
{
    size_t spaces = 0, ticks = 0;
    while (spaces < length && line[spaces] == ' ') spaces++;
    while (spaces + ticks < length && line[spaces + ticks] == '`') ticks++;
    const size_t rest = spaces + ticks;
    // Backticks that close on the same line are a code span.
    const bool fence = ticks >= 3 && (rest == length || !memchr(line + rest, '`', length - rest));
    const bool inside = *fenced;
    *fenced ^= fence;
    return fence || inside || spaces >= 4 || (spaces < length && line[spaces] == '\t');
}

static bool is_letter(char c)
{
    return isalpha((unsigned char)c) || (c & 0x80);
}

// Returns whether the word around `at` may be broken after its hyphens: ordinary words may;
// options, file names, numbers and overlong words may not.
static bool is_ordinary(const char *line, size_t length, size_t at)
{
    enum { LONGEST = 64 };
    size_t begin = at, end = at;
    while (begin > 0 && line[begin - 1] != ' ' && end - begin <= LONGEST) begin--;
    while (end < length && line[end] != ' ' && end - begin <= LONGEST) end++;
    if (end - begin > LONGEST) return false;
    while (end > begin && strchr(".,;:!?)\"'", line[end - 1])) end--;
    while (begin < end && strchr("(\"'", line[begin])) begin++;
    for (size_t i = begin; i < end; i++) {
        // Two letters on both sides: "Ctrl-C" and "x-ray" stay whole.
        const bool joins = line[i] == '-' && i > begin + 1 && i + 2 < end &&
                           is_letter(line[i - 1]) && is_letter(line[i - 2]) &&
                           is_letter(line[i + 1]) && is_letter(line[i + 2]);
        if (!is_letter(line[i]) && !joins) return false;
    }
    return true;
}

// Returns whether the space before `at` separates a number from its unit, as in "0.13 s".
static bool joins_unit(const char *line, size_t length, size_t at)
{
    static const char *const units[] = { "s", "ms", "min", "h", "MB", "GB", "MiB", "GiB", "tok/s" };
    size_t end = at;
    if (at < 2 || !isdigit((unsigned char)line[at - 2])) return false;
    while (end < length && !strchr(" .,;:)", line[end])) end++;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strlen(units[i]) == end - at && !memcmp(line + at, units[i], end - at)) return true;
    return false;
}

// Returns whether a line may end before `at`. Ideographs have no spaces between them, so a line may
// end after any.
static bool may_break(const char *line, size_t length, size_t at, int32_t code, int width)
{
    if (code == '-') return is_ordinary(line, length, at - 1);
    if (code == ' ') return !joins_unit(line, length, at);
    return width == 2 && code >= 0x2e80;
}

// Returns the length in bytes of the part of `line` that fits, up to the last possible break.
static size_t fit(const char *line, size_t length, int room, bool code_line)
{
    size_t at = 0, place = 0;
    int column = 0;
    while (at < length) {
        int32_t code;
        int width;
        const size_t n = character_next(line + at, length - at, &code, &width);
        const bool control = code > 0 && (code < 0x20 || code == 0x7f); // ^X
        const int step = code == '\t' ? 4 - column % 4 : control ? 2 : width;
        if (column + step > room && at) {
            // The space may exceed the width.
            if (code == ' ' && !code_line && !joins_unit(line, length, at + n)) return at;
            return place && !code_line ? place : at;
        }
        column += step;
        at += n;
        if (may_break(line, length, at, code, width)) place = at;
    }
    return length;
}

// Returns the columns of the leading spaces and of the bullet or number of a list item.
static int item_indent(const char *line, size_t length)
{
    static const char *const bullets[] = { "\xe2\x80\xa2 ", "* ", "\xe2\x94\x82 ", "| " };
    size_t blanks = 0, digits = 0;
    while (blanks < length && line[blanks] == ' ') blanks++;
    const char *rest = line + blanks;
    const size_t left = length - blanks;
    for (size_t i = 0; i < sizeof bullets / sizeof *bullets; i++)
        if (left > strlen(bullets[i]) && !memcmp(rest, bullets[i], strlen(bullets[i])))
            return (int)blanks + 2;
    while (digits < left && digits < 4 && isdigit((unsigned char)rest[digits])) digits++;
    if (digits && digits + 2 < left && strchr(".)", rest[digits]) && rest[digits + 1] == ' ')
        return (int)(blanks + digits) + 2;
    return (int)blanks;
}

bool wrap_next(struct wrap *w)
{
    if (w->ended) return false;
    if (w->within && !w->code) // skips spaces at the break
        while (*w->next == ' ') w->next++;
    if (!w->within) w->end = strchrnul(w->next, '\n');
    const char *end = w->end;
    const size_t left = (size_t)(end - w->next);
    if (!w->within)
        w->code = w->marked ? *w->next == '\t' : wrap_is_code(w->next, left, &w->fenced);
    if (!w->within) w->hang = w->marked && !w->code ? item_indent(w->next, left) : 0;
    if (w->hang > w->width / 2) w->hang = 0;
    w->indent = w->within ? w->hang : 0;
    w->line = w->next;
    w->length = fit(w->line, left, w->width - w->indent, w->code);
    w->within = w->length < left;
    w->next += w->length + (w->within || !*end ? 0 : 1);
    w->ended = !w->within && !*end;
    if (w->within && !w->code) { // drops trailing spaces
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
