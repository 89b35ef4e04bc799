// tui/stream.c -- writes styled text; on a terminal, wraps lines between words.
#include "tui/stream.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tui/canvas.h"
#include "tui/terminfo.h"
#include "tui/text.h"
#include "tui/wrap.h"

static const char *const escape_of[STYLE_COUNT] = {
    [STYLE_DIM] = "\033[2m", [STYLE_STRONG] = "\033[1m", [STYLE_ERROR] = "\033[31m"
};

bool stream_true_colour(void)
{
    const char *kind = getenv("COLORTERM");
    return kind && (!strcmp(kind, "truecolor") || !strcmp(kind, "24bit"));
}

void stream_open(struct stream *s, FILE *file)
{
    const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
    s->file = file;
    s->terminal = isatty(fileno(file));
    s->escapes = s->terminal && term && *term && strcmp(term, "dumb") != 0;
    s->colours = s->escapes && !(no_color && *no_color);
    struct terminfo info = { 0 };
    if (s->colours) terminfo_read(&info, fileno(file));
    const int colours = info.colours;
    terminfo_release(&info);
    const bool many = colours >= 256 || (s->colours && stream_true_colour());
    s->palette = many ? 256 : colours >= 8 ? 8 : 0;
}

void stream_put(const struct stream *s, enum style style, const char *text)
{
    const bool styled = escape_of[style] && s->colours;
    if (styled) fputs(escape_of[style], s->file);
    text_put(s->file, text);
    if (styled) fputs("\033[0m", s->file);
}

// --- text that grows -----------------------------------------------------------------------------

static void end_word(struct growing *g)
{
    const char *word = g->word.data;
    if (!g->word.length) return;
    const int columns = text_terminal_columns(g->to->file), spaces = (int)strspn(word, " ");
    if (!g->column) {
        g->code = wrap_is_code(word, strlen(word), &g->fenced);
    } else if (columns && !g->code && !g->split && g->column + text_width(word) > columns) {
        fputc('\n', g->to->file);
        word += spaces;
        g->column = 0;
    }
    stream_put(g->to, g->style, word);
    g->column += text_width(word);
    if (columns && g->column > columns) // the terminal broke the line
        g->column = (g->column - 1) % columns + 1;
    buf_clear(&g->word);
}

static bool only_spaces(const struct buf *word)
{
    return !word->length || !word->data[strspn(word->data, " ")];
}

void growing_end_line(struct growing *g, const struct stream *to)
{
    if (only_spaces(&g->word))
        buf_clear(&g->word); // they might break the line a second time
    else
        end_word(g);
    fputc('\n', to->file);
    g->column = 0;
    g->split = false;
}

void growing_add(struct growing *g, const struct stream *to, enum style style, const char *text)
{
    const int columns = text_terminal_columns(to->file);
    g->to = to;
    g->style = style;
    if (!to->terminal) stream_put(to, style, text);
    while (to->terminal && *text) {
        int32_t code;
        int width;
        const size_t n = character_next(text, strlen(text), &code, &width);
        if (code == ' ' && !only_spaces(&g->word)) end_word(g);
        if (code == ' ') g->split = false;
        if (code == '\n')
            growing_end_line(g, to);
        else
            buf_add(&g->word, text, n);
        text += n;
        if (width == 2 && code >= 0x2e80) { // ideographs have no spaces between them
            end_word(g);
            g->split = false;
        } else if (!g->split && !only_spaces(&g->word) && text_width(g->word.data) > columns) {
            end_word(g);
            g->split = true;
        }
    }
    if (g->split) end_word(g);
}

// --- whole lines ---------------------------------------------------------------------------------

// Wraps a line that is longer than the terminal's between words.
static void put_wrapped(const struct stream *s, enum style style, const char *text, int columns)
{
    struct wrap w = wrap_begin_marked(text, columns);
    while (wrap_next(&w)) {
        size_t length = w.length;
        while (w.within && length && w.line[length - 1] == ' ') length--; // the space of the break
        char *line = xasprintf("%*s%.*s", w.indent, "", (int)length, w.line);
        stream_put(s, style, line);
        fputc('\n', s->file);
        free(line);
    }
}

// Wraps the lines of a text, except code and commands.
static void wrap_lines(const struct stream *s, enum style style, const char *text, int columns)
{
    bool fenced = false;
    do {
        const char *end = strchrnul(text, '\n');
        char *line = xstrndup(text, (size_t)(end - text));
        if (wrap_is_code(line, strlen(line), &fenced) || *line == '/') {
            stream_put(s, style, line);
            fputc('\n', s->file);
        } else {
            put_wrapped(s, style, line, columns);
        }
        free(line);
        text = end + (*end != 0);
    } while (*text);
}

void stream_put_lines(const struct stream *s, enum style style, const char *text)
{
    const int columns = text_terminal_columns(s->file);
    const size_t length = strlen(text);
    if (columns && text_width(text) > columns) {
        wrap_lines(s, style, text, columns);
        return;
    }
    stream_put(s, style, text);
    if (!length || text[length - 1] != '\n') fputc('\n', s->file);
}
