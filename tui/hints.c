// tui/hints.c -- finds the key named by words on the screen.
#include "tui/hints.h"

#include <string.h>

#include "tui/keys.h"

enum { ROW = 1024 }; // columns of a row

// Returns whether the word names a key, spelled as in the table of keys. A single letter counts
// only before a colon, as in "n N: next".
static bool is_key(const char *word, int length, bool before_colon, char name[32])
{
    char copy[32];
    while (length && strchr(",:;", word[length - 1])) length--;
    if (length < 1 || length >= (int)sizeof copy || (length == 1 && !before_colon)) return false;
    memcpy(copy, word, (size_t)length);
    copy[length] = '\0';
    return key_spell(copy, name) && !strcmp(name, copy);
}

// Finds the last key named at or before x, else the first one after x.
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
    for (int i = c->hint_count; i-- > 0;) {
        struct area a = c->hints[i];
        char row[ROW + 2]; // ends with two spaces; '\n' in frames; '.' for other symbols
        if (a.width > ROW) a.width = ROW;
        if (y != a.y || x < a.x || x >= a.x + a.width) continue;
        for (int k = 0; k < a.width; k++) {
            const struct cell *cell = canvas_at(c, a.x + k, a.y);
            const bool plain = cell && cell->code >= ' ' && cell->code < 0x7f;
            const bool frame = !cell || (cell->code >= 0x2500 && cell->code < 0x2580);
            row[k] = plain ? (char)cell->code : frame ? '\n' : '.';
        }
        row[a.width] = row[a.width + 1] = ' ';

        // Finds the group of words around x, bounded by two spaces or a frame.
        int begin = x - a.x, end = begin;
        if (row[begin] == '\n') return false;
        while (begin > 0 && row[begin - 1] != '\n' &&
               !(begin > 1 && row[begin - 1] == ' ' && row[begin - 2] == ' '))
            begin--;
        while (end < a.width && row[end] != '\n' && !(row[end] == ' ' && row[end + 1] == ' '))
            end++;
        return find_key(row, begin, end, x - a.x, name);
    }
    return false;
}
