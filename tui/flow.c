// tui/flow.c -- wraps help texts: paragraphs, examples, items beside or below their terms.
#include "tui/flow.h"

#include <stdlib.h>
#include <string.h>

#include "commands/help_text.h"
#include "core/base/mem.h"
#include "tui/event_text.h"
#include "tui/text.h"
#include "tui/wrap.h"

enum {
    GAP = 2,       // columns between a term and its text
    STEP = 4,      // indentation
    TERM_MOST = 24 // maximum width of a term that shares a line with its text
};

void flow_release(struct flow *f)
{
    for (size_t i = 0; i < f->count; i++) free(f->lines[i].text);
    free(f->lines);
    *f = (struct flow){ 0 };
}

static void add(struct flow *f, char *text, size_t term)
{
    size_t length = strlen(text);
    while (length && text[length - 1] == ' ') text[--length] = '\0';
    f->lines = xreallocarray(f->lines, f->count + 1, sizeof *f->lines);
    f->lines[f->count++] = (struct flow_line){ text, term < length ? term : length };
}

static void add_gap(struct flow *f)
{
    if (f->count && *f->lines[f->count - 1].text) add(f, xstrdup(""), 0);
}

// Wraps the text: its first line begins at column `first`, after `term` if not NULL, the others at
// `rest`.
static void add_wrapped(struct flow *f, const char *term, const char *text, int first, int rest,
                        int width)
{
    const int narrow = width - rest > 1 ? width - rest : 1;
    struct wrap w = wrap_begin_marked(text, width - first > 1 ? width - first : 1);
    for (int at = first; wrap_next(&w); at = rest) {
        const int space = at - (term ? text_width(term) : 0);
        add(f, xasprintf("%s%*s%.*s", term ? term : "", space, "", (int)w.length, w.line),
            term ? strlen(term) : 0);
        term = NULL;
        w.width = narrow;
    }
}

static void add_item(struct flow *f, const struct help_part *part, int column, int width)
{
    if (text_width(part->term) + GAP <= column) {
        add_wrapped(f, part->term, part->text, column, column, width);
        return;
    }
    const size_t from = f->count;
    add_wrapped(f, NULL, part->term, 0, STEP, width);
    for (size_t i = from; i < f->count; i++) f->lines[i].term = strlen(f->lines[i].text);
    add_wrapped(f, NULL, part->text, column, column, width);
}

// Returns the column where the texts of the items at `text` begin: after the longest term that
// shares a line with its text.
static int item_column(const char *text, int width)
{
    struct help_part part;
    int column = STEP;
    const int most = width / 3 < TERM_MOST ? width / 3 : TERM_MOST;
    while (help_part_next(&text, &part)) {
        const bool item = part.kind == HELP_ITEM;
        const int own = item ? text_width(part.term) : 0;
        if (own <= most && own + GAP > column) column = own + GAP;
        help_part_release(&part);
        if (!item) break;
    }
    return column;
}

void flow_add_text(struct flow *f, const char *text, int width)
{
    struct help_part part;
    enum help_kind before = HELP_PARAGRAPH;
    int column = 0;
    add_gap(f);
    for (const char *at = text, *here = at; help_part_next(&at, &part); here = at) {
        const bool changes = (before == HELP_ITEM) != (part.kind == HELP_ITEM);
        if (part.apart || changes) {
            add_gap(f);
            column = item_column(here, width);
        }
        if (part.kind == HELP_ITEM)
            add_item(f, &part, column, width);
        else if (part.kind == HELP_EXAMPLE)
            add_wrapped(f, NULL, part.text, STEP, 2 * STEP, width);
        else
            add_wrapped(f, NULL, part.text, 0, 0, width);
        before = part.kind;
        help_part_release(&part);
    }
}

void flow_add_table(struct flow *f, const struct table_copy *table, int width)
{
    const bool fits = table_copy_least(table) <= width;
    char *text = fits ? table_copy_text(table, width) : table_copy_items(table);
    if (fits) {
        char *rest = text, *line;
        add_gap(f);
        for (size_t number = 0; (line = strsep(&rest, "\n")); number++)
            add(f, xstrdup(line), number < table_copy_headings(table) ? strlen(line) : 0);
    } else {
        flow_add_text(f, text, width);
    }
    free(text);
}
