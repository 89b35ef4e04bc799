// commands/help_text.c -- splits help texts into paragraphs, items and examples.
#include "commands/help_text.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/mem.h"

static size_t line_length(const char *line)
{
    return strcspn(line, "\n");
}

static const char *next_line(const char *line)
{
    line += line_length(line);
    return *line ? line + 1 : line;
}

static bool is_empty(const char *line)
{
    return strspn(line, " ") == line_length(line);
}

// Returns the length of the term if the line begins an item, else 0.
static size_t term_length(const char *line)
{
    const size_t length = line_length(line);
    if (*line == ' ') return 0;
    for (size_t i = 1; i + 2 < length; i++)
        if (line[i] == ' ' && line[i + 1] == ' ') return i;
    return 0;
}

// Appends the line, trimmed, after a space (but for the first).
static void add_line(struct buf *b, const char *line)
{
    const char *begin = line + strspn(line, " ");
    size_t length = line_length(begin);
    while (length && begin[length - 1] == ' ') length--;
    if (b->length) buf_putc(b, ' ');
    buf_add(b, begin, length);
}

static bool continues(enum help_kind kind, const char *line)
{
    if (is_empty(line) || kind == HELP_EXAMPLE) return false;
    return kind == HELP_ITEM ? *line == ' ' : *line != ' ' && !term_length(line);
}

bool help_part_next(const char **at, struct help_part *part)
{
    struct buf text = { 0 };
    const char *line = *at;
    *part = (struct help_part){ 0 };
    for (; *line && is_empty(line); line = next_line(line)) part->apart = true;
    if (!*line) return false;
    const size_t term = term_length(line);
    part->kind = *line == ' ' ? HELP_EXAMPLE : term ? HELP_ITEM : HELP_PARAGRAPH;
    if (term) part->term = xstrndup(line, term);
    add_line(&text, line + term);
    for (line = next_line(line); continues(part->kind, line); line = next_line(line))
        add_line(&text, line);
    part->text = buf_take(&text);
    *at = line;
    return true;
}

void help_part_release(struct help_part *part)
{
    free(part->term);
    free(part->text);
    *part = (struct help_part){ 0 };
}

bool help_finds(const char *terms, const char *pattern)
{
    const size_t n = strlen(pattern);
    for (const char *p = terms; n > 2 && p && *p; p += strspn(p, " ")) {
        if (!strncasecmp(p, pattern, n)) return true;
        p += strcspn(p, " ");
    }
    return false;
}
