// tui/markdown.h -- an answer as it is shown: Markdown rendered, remarks put in.
//
//   struct markdown m = { 0 };
//   markdown_render(&m, source, remarks, count, width, MARKDOWN_ON);
//   ... m.text.data, wrapped with wrap_begin_marked (tui/wrap.h) ...
//   markdown_release(&m);
//
// Headings, bold, italics, code, lists, quotes, rules, links and tables; what is not closed yet
// stays as written, so that a growing answer can be shown. The source is untrusted and is only
// copied: no escape sequence is made of it, and control characters are left to the canvas, which
// makes them visible. Each byte shown knows its style and the byte of the source it stands for.
#ifndef TUI_MARKDOWN_H
#define TUI_MARKDOWN_H

#include "core/base/mem.h"
#include "tui/theme.h"

enum { MARKDOWN_ON = 1, MARKDOWN_ASCII = 2 }; // render; with ASCII bullets and lines

// A remark of ours in the text, in front of a byte of the source; in ascending order.
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
    size_t remarks_left, at; // at: the last byte of the source that was shown
    int width;
    unsigned options;
};

// width: columns available to tables and rules.
void markdown_render(struct markdown *m, const char *source, const struct remark *remarks,
                     size_t remark_count, int width, unsigned options);
void markdown_release(struct markdown *m);
// The bytes shown for begin..end of the source: *first..*last; false: none.
bool markdown_place(const struct markdown *m, size_t begin, size_t end, size_t *first,
                    size_t *last);

#endif
