// tui/hints.c -- which key a cell of a line of hints stands for.
#include "tui/hints.h"

#include <string.h>

#include "tui/keys.h"

// The words around column x: everything up to two blanks or a line of a frame. Their ends.
static void find_group(const char *row, int length, int x, int *begin, int *end)
{
    *begin = *end = x;
    while (*begin > 0 && row[*begin - 1] != '\n' &&
           !(*begin > 1 && row[*begin - 1] == ' ' && row[*begin - 2] == ' '))
        --*begin;
    while (*end < length && row[*end] != '\n' && !(row[*end] == ' ' && row[*end + 1] == ' '))
        ++*end;
}

// Is the word the name of a key, spelled as the table does? One letter only in front of a colon:
// "n N: next".
static bool is_key(const char *word, int length, bool before_colon, char name[32])
{
    char copy[32];
    while (length && strchr(",:;", word[length - 1])) length--;
    if (length < 1 || length >= (int)sizeof copy || (length == 1 && !before_colon)) return false;
    memcpy(copy, word, (size_t)length);
    copy[length] = '\0';
    return key_spell(copy, name) && !strcmp(name, copy);
}

// The key named at x or before it, or else the first behind it.
static bool find_key(const char *row, int begin, int end, int x, char found[32])
{
    const char *colon = memchr(row + begin, ':', (size_t)(end - begin));
    bool any = false;
    for (int at = begin; at < end;) {
        char name[32];
        int next = at;
        while (next < end && row[next] != ' ') next++;
        const bool before = colon && row + next <= colon + 1;
        if (next > at && is_key(row + at, next - at, before, name) && (at <= x || !any)) {
            memcpy(found, name, sizeof name);
            any = true;
        }
        at = next + 1;
    }
    return any;
}

bool hint_key(const struct canvas *c, int x, int y, char name[32])
{
    enum { MOST = 1024 };
    char row[MOST + 2];
    for (int i = c->hint_count; i-- > 0;) {
        const struct area a = c->hints[i];
        const int width = a.width < MOST ? a.width : MOST;
        if (y != a.y || x < a.x || x >= a.x + width) continue;
        for (int k = 0; k < width; k++) {
            const struct cell *cell = canvas_at(c, a.x + k, y);
            row[k] = '\n';
            if (cell && cell->code >= ' ' && cell->code < 0x7f) row[k] = (char)cell->code;
        }
        row[width] = row[width + 1] = ' ';
        int begin, end;
        if (row[x - a.x] == '\n') return false;
        find_group(row, width, x - a.x, &begin, &end);
        return find_key(row, begin, end, x - a.x, name);
    }
    return false;
}
