// tui/controls.c -- edits fields and moves positions by keys.
#include "tui/controls.h"

#include <string.h>

#include "tui/text.h"

void field_rub(struct buf *field)
{
    while (field->length && (field->data[--field->length] & 0xc0) == 0x80) {
    }
    if (field->data) field->data[field->length] = '\0';
}

bool field_type(struct buf *field, const struct key *key)
{
    enum { LONGEST = 4096 };
    if (key->kind == KEY_TEXT || !strcmp(key->name, "Space")) {
        if (field->length < LONGEST) buf_add(field, key->bytes, key->length);
    } else if (!strcmp(key->name, "Backspace")) {
        field_rub(field);
    } else if (!strcmp(key->name, "Ctrl-U")) {
        buf_clear(field);
    } else {
        return false;
    }
    return true;
}

void field_draw(struct canvas *c, struct area area, const char *label, const struct buf *field)
{
    const struct area line = { area.x, area.y + area.height - 1, area.width, 1 };
    canvas_fill(c, line, STYLE_STATUS, ' ');
    int x = canvas_text(c, line, 0, 0, STYLE_STATUS, label);
    x = canvas_text(c, line, x, 0, STYLE_STATUS,
                    text_tail(field->data ? field->data : "", line.width - x - 1));
    c->cursor_x = line.x + (x < line.width ? x : line.width - 1);
    c->cursor_y = line.y;
}

bool position_move(const char *action, int *at, int last, int page)
{
    if (!strcmp(action, "up"))
        --*at;
    else if (!strcmp(action, "down"))
        ++*at;
    else if (!strcmp(action, "page-up"))
        *at -= page;
    else if (!strcmp(action, "page-down"))
        *at += page;
    else if (!strcmp(action, "top"))
        *at = 0;
    else if (!strcmp(action, "bottom"))
        *at = last;
    else
        return false;
    if (*at > last) *at = last;
    if (*at < 0) *at = 0;
    return true;
}
