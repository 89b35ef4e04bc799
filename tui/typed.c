// tui/typed.c -- joins physical lines to logical lines.
#include "tui/typed.h"

#include <stdlib.h>
#include <string.h>

// Returns whether a pasted text begins with #, // or /*: such a text is code for the model, neither
// a comment nor a command.
static bool is_code(const char *text)
{
    const char *first = text + strspn(text, " \t\n");
    return *first == '#' || (*first == '/' && (first[1] == '/' || first[1] == '*'));
}

// Returns whether lines that arrived together are read one by one.
static bool is_split(const struct typed *t, const char *text)
{
    const char *first = text + strspn(text, " \t\n"), *end = strchr(text, '\n');
    if (line_reader_open(&t->reader)) return true;
    return (*first == '/' && !is_code(text)) || strncmp(first, "\"\"\"", 3) == 0 ||
           (end && line_continues(text, (size_t)(end - text)));
}

void typed_submit(struct typed *t, const char *submitted)
{
    char *text = xstrdup(submitted);
    size_t length = strlen(text);
    while (length && text[length - 1] == '\n') text[--length] = '\0';
    if (t->text.length) buf_putc(&t->text, '\n');
    buf_puts(&t->text, text);
    bool fenced = is_code(text) && strchr(text, '\n') && !strstr(text, "\"\"\"") &&
                  !line_reader_open(&t->reader);
    typed_flush(t);
    // Code that begins with // or /* and contains """ gets another slash in front: a line that
    // begins with // is text for the model.
    const bool slashed = !fenced && is_code(text) && *text == '/' && strchr(text, '\n') &&
                         !line_reader_open(&t->reader);
    t->pending =
        fenced ? xasprintf("\"\"\"%s\"\"\"", text) : xasprintf("%s%s", slashed ? "/" : "", text);
    free(text);
}

// Adds pending text to the reader until a logical line is complete.
static bool take_pending(struct typed *t)
{
    bool split = is_split(t, t->pending + t->at), whole = false;
    while (t->pending && !whole) {
        char *line = t->pending + t->at;
        char *end = split ? strchr(line, '\n') : NULL;
        if (end) *end = '\0';
        whole = line_reader_add(&t->reader, line);
        t->at = end ? (size_t)(end - t->pending) + 1 : 0;
        if (!end) typed_flush(t);
    }
    return whole;
}

bool typed_next(struct typed *t, char **line)
{
    while (t->pending) {
        bool whole = take_pending(t);
        if (!line_reader_open(&t->reader) && t->text.length) {
            history_keep(t->history, t->text.data);
            buf_clear(&t->text);
        }
        if (!whole) continue;
        *line = xstrdup(t->reader.text.data ? t->reader.text.data : "");
        return true;
    }
    return false;
}

bool typed_open(const struct typed *t)
{
    return line_reader_open(&t->reader);
}

void typed_flush(struct typed *t)
{
    free(t->pending);
    t->pending = NULL;
    t->at = 0;
}

void typed_drop(struct typed *t)
{
    line_reader_reset(&t->reader);
    buf_clear(&t->text);
}

void typed_release(struct typed *t)
{
    line_reader_release(&t->reader);
    buf_release(&t->text);
    typed_flush(t);
}
