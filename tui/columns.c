// tui/columns.c -- word wrap in two columns.
#include "tui/columns.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "tui/text.h"

static const char between[] = " \xE2\x94\x82 "; // a vertical line
static const char mark[] = "\xC2\xBB";          // before the first character that differs

// A text that is given out line by line.
struct column {
    char *text;
    const char *rest;
    int width;
};

static void put_spaces(struct buf *to, int count)
{
    for (; count > 0; count--) buf_putc(to, ' ');
}

// Bytes of the next line, and of what stands between it and the one after.
static size_t next_line(const struct column *c, size_t *skip)
{
    const size_t end = strcspn(c->rest, "\n");
    char *line = xstrndup(c->rest, end);
    size_t fits = text_fit(line, c->width);
    free(line);
    *skip = 0;
    if (fits >= end) {
        *skip = c->rest[end] == '\n';
        return end;
    }
    size_t blank = fits;
    while (blank && c->rest[blank] != ' ') blank--;
    if (blank) { // else a word longer than the column is cut
        fits = blank;
        *skip = strspn(c->rest + blank, " ");
    }
    return fits ? fits : end;
}

// One line of the column.
static void put_line(struct buf *to, struct column *c, bool padded)
{
    size_t skip, length = next_line(c, &skip);
    char *line = xstrndup(c->rest, length);
    for (char *p = line; *p; p++)
        if (*p == '\t' || *p == '\r') *p = ' ';
    buf_puts(to, line);
    if (padded) put_spaces(to, c->width - text_width(line));
    free(line);
    c->rest += length + skip;
}

static char *marked(const char *text, size_t common)
{
    const size_t length = strlen(text);
    if (common > length) common = length;
    return xasprintf("%.*s%s%s", (int)common, text, mark, text + common);
}

static void draw(struct buf *to, struct column both[2])
{
    while (*both[0].rest || *both[1].rest) {
        if (to->length && to->data[to->length - 1] != '\n') buf_putc(to, '\n');
        put_line(to, &both[0], true);
        buf_puts(to, between);
        put_line(to, &both[1], false);
    }
}

void columns_draw(struct buf *to, const struct event_columns *c, int width)
{
    const char *texts[2] = { text_trimmed(c->text[0]), text_trimmed(c->text[1]) };
    const bool same = !strcmp(c->text[0], c->text[1]);
    const size_t blanks = (size_t)(texts[0] - c->text[0]);
    const size_t common = c->common > blanks ? c->common - blanks : 0;
    struct column title[2], text[2];
    if (width < 20) width = 20;
    for (int k = 0; k < 2; k++) {
        const int columns = (width - 3) / 2;
        title[k] = (struct column){ xstrdup(c->title[k]), NULL, columns };
        text[k] =
            (struct column){ same ? xstrdup(texts[k]) : marked(texts[k], common), NULL, columns };
        title[k].rest = title[k].text;
        text[k].rest = text[k].text;
    }
    draw(to, title);
    buf_putc(to, '\n');
    for (int i = 0; i < 2 * title[0].width + 3; i++)
        buf_puts(to, i == title[0].width + 1 ? "\xE2\x94\xBC" : "\xE2\x94\x80");
    draw(to, text);
    for (int k = 0; k < 2; k++) {
        free(title[k].text);
        free(text[k].text);
    }
}

// --- kept, for a width that may change -----------------------------------------------------------

void *columns_copy(const struct event_columns *from)
{
    struct event_columns *c = xcalloc(1, sizeof *c);
    c->common = from->common;
    for (int k = 0; k < 2; k++) {
        c->title[k] = xstrdup(from->title[k]);
        c->text[k] = xstrdup(from->text[k]);
    }
    return c;
}

char *columns_text(const void *copy, int width)
{
    struct buf b = { 0 };
    columns_draw(&b, copy, width);
    return buf_take(&b);
}

void columns_free(void *copy)
{
    struct event_columns *c = copy;
    for (int k = 0; c && k < 2; k++) {
        free((char *)c->title[k]);
        free((char *)c->text[k]);
    }
    free(c);
}
