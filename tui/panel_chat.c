// tui/panel_chat.c -- the conversation: wraps, scrolls, searches and copies it.
#include <stdlib.h>
#include <string.h>

#include "core/draw/ramp.h"
#include "tui/controls.h"
#include "tui/maps.h"
#include "tui/panel.h"
#include "tui/text.h"
#include "tui/tint.h"
#include "tui/wrap.h"

enum { GUTTER = 2 };

static const struct kind {
    const char *mark, *ascii;
    enum style style;
    bool whole; // not wrapped
} kinds[] = {
    [ENTRY_USER] = { "\xe2\x9d\xaf ", "> ", STYLE_USER, false },
    [ENTRY_REASONING] = { "  ", "  ", STYLE_DIM, false },
    [ENTRY_ANSWER] = { "  ", "  ", STYLE_ANSWER, false },
    [ENTRY_COMMAND] = { "\xe2\x9d\xaf ", "> ", STYLE_DIM, false },
    [ENTRY_TEXT] = { "  ", "  ", STYLE_TEXT, false },
    [ENTRY_TABLE] = { "  ", "  ", STYLE_TEXT, true },
    [ENTRY_NOTICE] = { "\xc2\xb7 ", "* ", STYLE_NOTICE, false },
    [ENTRY_MEASURES] = { "  ", "  ", STYLE_DIM, false },
    [ENTRY_ERROR] = { "! ", "! ", STYLE_ERROR, false },
    [ENTRY_RULE] = { "\xe2\x94\x80 ", "- ", STYLE_BORDER, false },
};

// Returns an answer's rendered Markdown with remarks, the line of a folded reasoning, or the plain
// text of any other entry.
static const char *shown_of(const struct entry *e)
{
    const bool rendered = e->kind == ENTRY_ANSWER || (e->kind == ENTRY_REASONING && !e->open);
    const struct buf *text = rendered ? &e->shown.text : &e->text;
    return text->data ? text->data : "";
}

// Wraps lines of code within words, too. In user messages, fences and indentation mark code; in all
// other texts, only a tab does.
static struct wrap wrap_of(const struct entry *e, int width)
{
    const char *text = shown_of(e);
    if (kinds[e->kind].whole) return wrap_begin(text, 1 << 20);
    return e->kind == ENTRY_USER ? wrap_begin(text, width) : wrap_begin_marked(text, width);
}

// Returns the number of empty lines before the entry: one before each question and each rule.
static int lead(const struct chat_view *c, size_t i)
{
    return i > 0 && (c->entries[i].kind == ENTRY_USER || c->entries[i].kind == ENTRY_RULE);
}

static int lines_of(const struct chat_view *c, struct entry *e, int width)
{
    if (e->width == width) return e->lines;
    if (e->kind == ENTRY_ANSWER)
        markdown_render(&e->shown, e->text.data, e->remarks, e->remark_count, width, c->markdown);
    if (e->kind == ENTRY_REASONING && !e->open) {
        buf_clear(&e->shown.text);
        buf_puts(&e->shown.text,
                 c->markdown & MARKDOWN_ASCII ? "+ reasoning" : "\xe2\x96\xb8 reasoning");
        if (e->token_count) buf_printf(&e->shown.text, ": %zu tokens", e->token_count);
        buf_puts(&e->shown.text, " (F2 r opens it)");
    }
    if (e->render) {
        char *text = e->render(e->source, width);
        buf_clear(&e->text);
        buf_puts(&e->text, text);
        free(text);
    }
    e->width = width;
    e->lines = 0;
    for (struct wrap w = wrap_of(e, width); wrap_next(&w);) e->lines++;
    return e->lines;
}

// Finds the cells (x, width) of line w that show the bytes begin..end of the text; false: none.
static bool find_bytes(const char *text, const struct wrap *w, size_t begin, size_t end, int *x,
                       int *width)
{
    const size_t from = (size_t)(w->line - text), to = from + w->length;
    const size_t a = begin > from ? begin : from, b = end < to ? end : to;
    if (a >= b) return false;
    struct canvas measure = { .lines = 1, .columns = 0 };
    const struct area wide = { 0, 0, 1 << 20, 1 };
    *x = w->indent + canvas_text_n(&measure, wide, 0, 0, STYLE_TEXT, w->line, a - from);
    *width = canvas_text_n(&measure, wide, *x, 0, STYLE_TEXT, text + a, b - a) - *x;
    return true;
}

void mark_bytes(struct canvas *c, struct area line, const char *text, const struct wrap *w,
                size_t begin, size_t end, enum style style)
{
    int x, width;
    if (find_bytes(text, w, begin, end, &x, &width)) canvas_style(c, line, x, 0, width, style);
}

static void colour_cells(struct canvas *c, struct area line, int x, int width, uint32_t ink,
                         uint32_t paper)
{
    for (int i = x; i < x + width && i < line.width; i++) {
        struct cell *cell = canvas_at(c, line.x + i, line.y);
        if (!cell) continue;
        cell->ink = CELL_RGB | ink;
        cell->paper = CELL_RGB | paper;
    }
}

// Finds the cells of an answer's token in the line w; false: none. `token`: its number in the whole
// answer; the entry may hold only the reasoning.
static bool find_token(const struct entry *e, const struct wrap *w, size_t token, int *x,
                       int *width)
{
    if (token < e->first_token || token - e->first_token >= e->token_count) return false;
    token -= e->first_token;
    size_t begin = e->tokens[token];
    size_t end = token + 1 < e->token_count ? e->tokens[token + 1] : e->text.length;
    if (e->kind == ENTRY_REASONING && !e->open) return false;
    if (e->kind == ENTRY_ANSWER && !markdown_find(&e->shown, begin, end, &begin, &end))
        return false;
    return find_bytes(shown_of(e), w, begin, end, x, width);
}

// Returns the number of the entry's tokens that begin at byte `at` of its text or before.
static size_t tokens_until(const struct entry *e, size_t at)
{
    size_t low = 0, high = e->token_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (e->tokens[middle] <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// Finds the only tokens that can have bytes in the line w: first..end - 1 of the entry.
static void tokens_of(const struct entry *e, const struct wrap *w, size_t *first, size_t *end)
{
    size_t from = (size_t)(w->line - shown_of(e)), last = from + w->length - 1;
    *first = *end = 0;
    if (!w->length || (e->kind == ENTRY_REASONING && !e->open)) return;
    if (e->kind == ENTRY_ANSWER) from = e->shown.from[from], last = e->shown.from[last];
    *first = tokens_until(e, from);
    if (*first) --*first; // the token that contains the line's first byte
    *end = tokens_until(e, last);
}

// Applies styles to bold text, code, headings ...
static void style_spans(struct canvas *c, struct area line, const struct entry *e,
                        const struct wrap *w)
{
    const uint8_t *styles = e->shown.styles;
    const size_t begin = (size_t)(w->line - shown_of(e)), end = begin + w->length;
    for (size_t at = begin, next; at < end; at = next) {
        for (next = at + 1; next < end && styles[next] == styles[at];) next++;
        if (styles[at] != STYLE_ANSWER)
            mark_bytes(c, line, shown_of(e), w, at, next, (enum style)styles[at]);
    }
}

// Marks the token of the shown map, in the last answer.
static void mark_token(const struct view *v, struct canvas *c, struct area line,
                       const struct entry *e, const struct wrap *w)
{
    const struct map *m = view_map(v);
    if (!m || m->token < 0) return;
    int x, width;
    if (find_token(e, w, (size_t)m->token, &x, &width))
        canvas_style(c, line, x, 0, width, STYLE_MATCH);
}

// Colours the cells of a token in the line w. share: 0..1, the place on the colour ramp; negative
// or NaN: no colour.
static void colour_token(const struct view *v, struct canvas *c, struct area line,
                         const struct entry *e, const struct wrap *w, size_t token, double share)
{
    int x, width;
    if (!(share >= 0) || !find_token(e, w, token, &x, &width)) return;
    const uint32_t rgb = ramp_colour(view_setting(v, "screen.map"), share);
    const bool light = ((rgb >> 16) * 3 + (rgb >> 8 & 255) * 6 + (rgb & 255)) / 10 > 128;
    if (c->mono && share < 0.5) return;
    canvas_style(c, line, x, 0, width, STYLE_MATCH);
    if (!c->mono) colour_cells(c, line, x, width, light ? 0 : 0xffffff, rgb);
}

// Colours the tokens by screen.tint.
static void tint_tokens(const struct view *v, struct canvas *c, struct area line,
                        const struct entry *e, const struct wrap *w)
{
    const enum tint tint = v->chat.tint_most > 0 ? tint_now(v, c) : TINT_OFF;
    size_t i, end;
    if (tint == TINT_OFF || e->undone) return;
    for (tokens_of(e, w, &i, &end); i < end; i++)
        colour_token(v, c, line, e, w, e->first_token + i,
                     tint_share(e, i, tint, v->chat.tint_most));
}

// Colours the tokens by how much they attend to the box on the picture.
static void mark_attention(const struct view *v, struct canvas *c, struct area line,
                           const struct entry *e, const struct wrap *w)
{
    size_t i, end;
    if (!v->image.boxed) return;
    for (tokens_of(e, w, &i, &end); i < end; i++)
        colour_token(v, c, line, e, w, e->first_token + i,
                     maps_box_attention(v, e->first_token + i));
}

static void mark_found(const struct view *v, struct canvas *c, struct area line,
                       const struct wrap *w, int pan)
{
    const struct buf *search = &v->chat.search;
    struct canvas measure = { .lines = 1, .columns = 0 };
    const struct area wide = { 0, 0, 1 << 20, 1 };
    if (!search->length) return;
    char *text = xstrndup(w->line, w->length);
    const char *measured = text;
    int x = w->indent;
    for (const char *at = text; (at = strcasestr(at, search->data)); measured = at++) {
        x = canvas_text_n(&measure, wide, x, 0, STYLE_TEXT, measured, (size_t)(at - measured));
        if (x - pan >= line.width) break;
        const int end = canvas_text_n(&measure, wide, x, 0, STYLE_TEXT, at, search->length);
        canvas_style(c, line, x - pan, 0, end - x, STYLE_MATCH);
    }
    free(text);
}

// Returns the last answer, or its reasoning while the answer has not begun.
static size_t last_answer(const struct chat_view *c)
{
    for (size_t i = c->count; i-- > 0;)
        if (c->entries[i].kind == ENTRY_ANSWER || c->entries[i].kind == ENTRY_REASONING) return i;
    return c->count;
}

static bool is_of_last_answer(const struct chat_view *c, size_t i)
{
    const size_t last = last_answer(c);
    return i == last || (i + 1 == last && c->entries[i].kind == ENTRY_REASONING);
}

static void draw_line(struct view *v, struct canvas *c, struct area line, size_t index,
                      const struct wrap *w, int number)
{
    struct chat_view *chat = &v->chat;
    struct entry *e = &chat->entries[index];
    const struct kind *k = &kinds[e->kind];
    const struct area inner = { line.x + GUTTER, line.y, line.width - GUTTER, 1 };
    enum style style = w->code && e->kind == ENTRY_USER ? STYLE_CODE : k->style;
    if (!number)
        canvas_text(c, line, 0, 0, e->undone ? STYLE_DIM : k->style, c->ascii ? k->ascii : k->mark);
    if (e->undone) style = STYLE_DIM;
    if (number < e->headings) style = STYLE_TITLE;
    const int pan = e->pan;
    const int end = canvas_text_n(c, inner, w->indent - pan, 0, style, w->line, w->length);
    if (e->kind == ENTRY_ANSWER) style_spans(c, inner, e, w);
    // Marks a cut line, which Left and Right scroll.
    if (k->whole && end > inner.width)
        canvas_put(c, inner, inner.width - 1, 0, STYLE_CHANGED, c->ascii ? '>' : 0x203a);
    if (pan && w->length) canvas_put(c, line, 0, 0, STYLE_CHANGED, c->ascii ? '<' : 0x2039);
    if (k->whole && end + pan > inner.width) chat->wide = (int)index;
    if (k->whole && end + pan > e->widest) e->widest = end + pan;
    const bool last = is_of_last_answer(chat, index);
    if (!last || !v->image.boxed) tint_tokens(v, c, inner, e, w);
    if (last) {
        mark_attention(v, c, inner, e, w);
        if (!v->image.boxed) mark_token(v, c, inner, e, w);
    }
    mark_found(v, c, inner, w, pan);
}

static void draw(struct view *v, struct canvas *c, struct area area, bool focused)
{
    struct chat_view *chat = &v->chat;
    const int width = area.width - GUTTER;
    const enum tint tint = tint_now(v, c);
    chat->tint_most = tint == TINT_OFF ? 0 : tint_most(v, tint);
    if (tint != TINT_OFF && area.height > 2) {
        area.height--;
        tint_legend(v, c, (struct area){ area.x, area.y + area.height, area.width, 1 }, tint,
                    chat->tint_most);
    }
    const bool on = settings_flag(v->settings, "screen.markdown");
    const unsigned markdown = (on ? MARKDOWN_ON : 0u) | (c->ascii ? MARKDOWN_ASCII : 0u);
    for (size_t i = 0; i < chat->count && markdown != chat->markdown; i++)
        chat->entries[i].width = 0;
    chat->markdown = markdown;
    int total = 0;
    for (size_t i = 0; i < chat->count; i++)
        total += lead(chat, i) + lines_of(chat, &chat->entries[i], width);
    const int most = total > area.height ? total - area.height : 0;
    chat->height = area.height;
    chat->width = width;
    // Keeps the visible lines in place while an answer grows below them.
    if (chat->scroll > 0 && total > chat->total && chat->total) chat->scroll += total - chat->total;
    chat->total = total;
    chat->wide = -1;
    if (chat->scroll > most) chat->scroll = most;
    int at = total < area.height ? 0 : area.height - total + chat->scroll;
    for (size_t i = 0; i < chat->count && at < area.height; i++) {
        at += lead(chat, i);
        const int behind = at + chat->entries[i].lines;
        struct wrap w = wrap_of(&chat->entries[i], width);
        for (int number = 0; behind > 0 && at < area.height && wrap_next(&w); number++, at++)
            if (at >= 0)
                draw_line(v, c, (struct area){ area.x, area.y + at, area.width, 1 }, i, &w, number);
        at = behind;
    }
    if (chat->searching && focused) field_draw(c, area, "search: ", &chat->search);
}

// --- search --------------------------------------------------------------------------------------

// Position of a match: line from the beginning, entry, and column if the entry is not wrapped.
struct match {
    int line, column; // line -1: no match
    size_t entry;
};

// Finds the nearest match after the line `from`, or before it if the direction is negative.
static struct match find(struct chat_view *c, int from, int direction, int width)
{
    struct match best = { .line = -1 };
    int at = 0;
    if (!c->search.length || width < 1) return best;
    for (size_t i = 0; i < c->count; i++) {
        struct wrap w = wrap_of(&c->entries[i], width);
        at += lead(c, i);
        for (; wrap_next(&w); at++) {
            char *text = xstrndup(w.line, w.length);
            char *place = strcasestr(text, c->search.data);
            const bool found = place != NULL;
            struct match match = { .line = at, .entry = i };
            if (found) *place = '\0';
            if (found && kinds[c->entries[i].kind].whole)
                match.column = w.indent + text_width(text);
            free(text);
            if (!found) continue;
            if (direction > 0 && at > from) return match;
            if (direction < 0 && at < from) best = match;
        }
    }
    return best;
}

static void search(struct view *v, int direction)
{
    struct chat_view *c = &v->chat;
    const int width = c->count ? c->entries[0].width : 0;
    const int from = c->found >= 0 ? c->found : c->total;
    const struct match match = find(c, from, direction, width);
    if (match.line < 0) {
        view_hint(v, "no more matches for '%s'", c->search.data ? c->search.data : "");
        return;
    }
    c->found = match.line;
    struct entry *e = &c->entries[match.entry];
    if (match.column < e->pan || match.column + text_width(c->search.data) > e->pan + width)
        e->pan = match.column > width / 2 ? match.column - width / 2 : 0;
    const int scroll = c->total - match.line - c->height / 2;
    c->scroll = scroll > 0 ? scroll : 0;
}

// --- copying -------------------------------------------------------------------------------------

static void copy(struct view *v, bool all)
{
    struct buf b = { 0 };
    const size_t last = last_answer(&v->chat);
    for (size_t i = 0; i < v->chat.count; i++) {
        const struct entry *e = &v->chat.entries[i];
        if (all ? e->kind == ENTRY_REASONING && !e->open : i != last) continue;
        if (all && e->kind == ENTRY_USER) buf_puts(&b, b.length ? "\n> " : "> ");
        buf_printf(&b, "%s\n", e->text.data);
    }
    if (!b.length) view_hint(v, "no answer to copy yet");
    free(v->copy);
    v->copy = b.length ? buf_take(&b) : NULL;
    buf_release(&b);
}

// --- reasoning -----------------------------------------------------------------------------------

static void fold(struct entry *e, bool open)
{
    e->open = open;
    e->width = 0;
}

// Opens the newest reasoning, or folds all if it is open.
static void toggle_reasoning(struct view *v)
{
    struct chat_view *c = &v->chat;
    size_t last = c->count;
    while (last > 0 && c->entries[last - 1].kind != ENTRY_REASONING) last--;
    if (!last) {
        view_hint(v, "no answer here has reasoning");
        return;
    }
    if (!c->entries[last - 1].open)
        fold(&c->entries[last - 1], true);
    else
        for (size_t i = 0; i < last; i++)
            if (c->entries[i].kind == ENTRY_REASONING) fold(&c->entries[i], false);
}

// --- keys ----------------------------------------------------------------------------------------

// Scrolls sideways the last table on the screen that is too wide for it.
static void pan(struct view *v, int by)
{
    struct chat_view *c = &v->chat;
    if (c->wide < 0 || (size_t)c->wide >= c->count) {
        view_hint(v, "no table here is wider than the panel");
        return;
    }
    struct entry *e = &c->entries[c->wide];
    if (by > 0 && e->pan + c->width >= e->widest) return;
    e->pan = e->pan + by > 0 ? e->pan + by : 0;
}

static unsigned act(struct view *v, const char *action)
{
    struct chat_view *c = &v->chat;
    int line = c->total - c->scroll;
    if (position_move(action, &line, c->total, c->height > 2 ? c->height - 2 : 1))
        c->scroll = c->total - line;
    else if (!strcmp(action, "left"))
        pan(v, -8);
    else if (!strcmp(action, "right"))
        pan(v, 8);
    else if (!strcmp(action, "reasoning"))
        toggle_reasoning(v);
    else if (!strcmp(action, "copy"))
        copy(v, false);
    else if (!strcmp(action, "copy-all"))
        copy(v, true);
    else if (!strcmp(action, "next"))
        search(v, -1); // searches upwards
    else if (!strcmp(action, "previous"))
        search(v, 1);
    else if (!strcmp(action, "search")) {
        c->searching = true;
        c->found = -1;
        buf_clear(&c->search);
    } else if (!strcmp(action, "back")) {
        buf_clear(&c->search);
        c->scroll = 0;
        return PANEL_DONE | PANEL_BACK;
    } else {
        return PANEL_IGNORED;
    }
    return PANEL_DONE;
}

static bool typing(const struct view *v)
{
    return v->chat.searching;
}

static void type(struct view *v, const struct key *key)
{
    struct chat_view *c = &v->chat;
    if (field_type(&c->search, key)) {
        c->found = -1;
    } else if (!strcmp(key->name, "Enter") || !strcmp(key->name, "Esc")) {
        c->searching = false;
        if (strcmp(key->name, "Enter") != 0) buf_clear(&c->search);
        if (c->search.length) search(v, -1);
    }
}

// Returns the entry at line y of the panel, and sets *w to the line; c->count: none.
static size_t entry_at(const struct chat_view *c, int y, struct wrap *w)
{
    int at = c->total < c->height ? 0 : c->height - c->total + c->scroll;
    for (size_t i = 0; i < c->count; i++) {
        at += lead(c, i);
        *w = wrap_of(&c->entries[i], c->width);
        for (; wrap_next(w); at++)
            if (at == y) return i;
    }
    return c->count;
}

// Returns the token of the last answer at column x of a line; -1: none.
static int token_at(const struct entry *e, const struct wrap *w, int x)
{
    size_t i, end;
    for (tokens_of(e, w, &i, &end); i < end; i++) {
        int from, width;
        if (!find_token(e, w, e->first_token + i, &from, &width)) continue;
        if (x - GUTTER >= from && x - GUTTER < from + width) return (int)(e->first_token + i);
    }
    return -1;
}

static void click(struct view *v, struct area area, int x, int y, int button)
{
    struct chat_view *c = &v->chat;
    struct wrap w;
    const size_t i = button == 1 ? entry_at(c, y, &w) : c->count;
    struct entry *e = i < c->count ? &c->entries[i] : NULL;
    if (button == 4) c->scroll += 3;
    if (button == 5) c->scroll = c->scroll > 3 ? c->scroll - 3 : 0;
    if (e && e->kind == ENTRY_REASONING && !e->open) {
        fold(e, true);
    } else if (e && is_of_last_answer(c, i) && !v->answering) {
        const int token = token_at(e, &w, x);
        if (token >= 0) maps_go(v, token);
    }
}

const struct panel panel_chat = {
    .name = "chat",
    .title = "conversation",
    .min_width = 20,
    .min_height = 3,
    .draw = draw,
    .act = act,
    .typing = typing,
    .type = type,
    .click = click,
};
