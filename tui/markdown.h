// tui/markdown.h -- renders an answer for display: Markdown, with remarks inserted.
//
//   struct markdown m = { 0 };
//   markdown_render(&m, source, remarks, count, width, MARKDOWN_ON);
//   ... m.text.data, wrapped with wrap_begin_marked (tui/wrap.h) ...
//   markdown_release(&m);
//
// Renders headings, bold, italics, code, lists, quotes, rules, links and tables. A growing answer
// can be shown: marks without an end stay as written, except that a fence without an end makes all
// lines after it code. The source is untrusted and is only copied: the canvas makes its control
// characters visible. Each shown byte has a style and the position of its source byte.
#ifndef TUI_MARKDOWN_H
#define TUI_MARKDOWN_H

#include "core/base/mem.h"
#include "tui/theme.h"

enum { MARKDOWN_ON = 1, MARKDOWN_ASCII = 2 }; // render; with ASCII bullets and lines

// A remark of the program, inserted before a byte of the source. Lists of remarks are in ascending
// order.
struct remark {
    size_t at;
    char *text;
};

struct markdown {
    struct buf text;
    size_t *from;    // [text.length] byte of the source
    uint8_t *styles; // [text.length] enum style
    size_t capacity;
    // While rendering:
    const char *source;
    const struct remark *remarks;
    size_t remarks_left, at; // at: the source byte that was shown last
    int width;
    unsigned options;
};

// Renders the source. width: columns available to tables and rules.
void markdown_render(struct markdown *m, const char *source, const struct remark *remarks,
                     size_t remark_count, int width, unsigned options);
void markdown_release(struct markdown *m);
// Finds the shown bytes *first..*last of the source bytes begin..end; false: none.
bool markdown_find(const struct markdown *m, size_t begin, size_t end, size_t *first, size_t *last);

#endif
