// tui/wrap.h -- wraps text to a width, between words if possible.
//
//   struct wrap w = wrap_begin(text, 40);
//   while (wrap_next(&w)) ... w.line[0..w.length) is a line, w.code says whether it is code ...
//
// Lines end at newlines. A line of code (between ``` lines, or indented by four spaces or a tab)
// keeps its spaces and is cut only at the edge. Words longer than a line are cut. A line may end
// after the hyphen of "well-known", but not within --data, Ctrl-C or scene-1.png, nor between a
// number and its unit ("0.13 s").
#ifndef TUI_WRAP_H
#define TUI_WRAP_H

#include <stdbool.h>
#include <stddef.h>

struct wrap {
    const char *line; // the current line
    size_t length;
    bool code;
    int indent; // columns before a continued line of a list item
    // Position:
    const char *next, *end; // end: of the text's current line
    int width;
    bool fenced, within; // between ```; the next line continues a cut one
    bool ended;
    bool marked; // wrap_begin_marked
    int hang;    // indent of continued lines
};

struct wrap wrap_begin(const char *text, int width);
// Wraps text of markdown_render: only a tab begins a line of code, and continued lines keep the
// indent of their line; in a list item, they align with its words.
struct wrap wrap_begin_marked(const char *text, int width);
bool wrap_next(struct wrap *w);
// Returns whether a line of unmarked text is code: a ``` line or one between two, which *fenced
// remembers for the next line, or a line indented by four spaces or a tab.
bool wrap_is_code(const char *line, size_t length, bool *fenced);
int wrap_count(const char *text, int width); // lines; at least 1

#endif
