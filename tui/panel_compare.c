// tui/panel_compare.c -- the two answers of the last /compare side by side, with a map for one
// token of each; marks the first difference, and the words that the answers do not share.
//
// The left half shows the first answer, the right half the second: title, map, and the text around
// the selected token. Both sides select the token with the same number.
#include <string.h>

#include "tui/panel.h"
#include "tui/text.h"
#include "tui/wrap.h"

enum { GUTTER = 2 };

// Finds the bytes of the selected token; false: this answer is too short.
static bool shown_token(const struct compare_view *k, int side, size_t *begin, size_t *end)
{
    const size_t t = (size_t)k->token;
    if (t >= k->tokens[side]) return false;
    *begin = k->starts[side][t];
    *end = t + 1 < k->tokens[side] ? k->starts[side][t + 1] : strlen(k->text[side]);
    return true;
}

static bool differs(const struct compare_view *k)
{
    return strcmp(k->text[0], k->text[1]) != 0;
}

// --- texts ---------------------------------------------------------------------------------------

// Returns the line to show first, so that the token is in the middle.
static int top_line(const struct compare_view *k, int side, int width, int height)
{
    struct wrap w = wrap_begin(k->text[side], width);
    size_t begin = 0, end = 0;
    int count = 0, at = 0;
    shown_token(k, side, &begin, &end);
    for (; wrap_next(&w); count++)
        if ((size_t)(w.line - k->text[side]) <= begin) at = count;
    const int most = count > height ? count - height : 0, top = at - height / 2;
    return top < 0 ? 0 : top < most ? top : most;
}

static void draw_text(const struct compare_view *k, int side, struct canvas *c, struct area area)
{
    const char *text = k->text[side];
    const int width = area.width - GUTTER, top = top_line(k, side, width, area.height);
    struct wrap w = wrap_begin(text, width);
    size_t begin, end;
    bool marked = !differs(k);
    for (int y = -top; wrap_next(&w) && y < area.height; y++) {
        const struct area line = { area.x + GUTTER, area.y + y, width, 1 };
        const size_t behind = (size_t)(w.line - text) + w.length;
        const bool here = !marked && (behind > k->common || w.ended);
        marked |= here;
        if (y < 0) continue;
        if (here) canvas_text(c, area, 0, y, STYLE_CHANGED, c->ascii ? ">" : "\xc2\xbb");
        canvas_text_n(c, line, 0, 0, STYLE_TEXT, w.line, w.length);
        for (size_t i = 0; i < k->differs.side[side].count; i++) {
            const struct span s = k->differs.side[side].spans[i];
            mark_bytes(c, line, text, &w, s.begin, s.end, STYLE_CHANGED);
        }
        if (shown_token(k, side, &begin, &end))
            mark_bytes(c, line, text, &w, begin, end, STYLE_MATCH);
    }
}

// --- the panel -----------------------------------------------------------------------------------

// Returns the height of the maps: the lines that the texts leave free, but at least three fifths of
// the area; 0: there are no maps, or the area is too low for them.
static int map_height(const struct view *v, struct area area)
{
    const struct compare_view *k = &v->compare;
    const int least = area.height * 6 / 10;
    if (!k->maps.map_count || area.height < 8) return 0;
    const int a = wrap_count(k->text[0], area.width - GUTTER),
              b = wrap_count(k->text[1], area.width - GUTTER);
    const int rest = area.height - 2 - (a > b ? a : b);
    return rest > least ? rest : least;
}

static void draw_side(const struct view *v, int side, struct canvas *c, struct area area)
{
    const struct compare_view *k = &v->compare;
    const int height = map_height(v, area);
    const struct map *m = compare_map(v, side);
    const struct area map = { area.x, area.y + 1, area.width, height };
    const struct area text = { area.x, area.y + 1 + height, area.width, area.height - 1 - height };
    const char *title = k->title[side];
    const bool cut = area.width > 0 && text_width(title) > area.width;
    const size_t length = cut ? text_fit(title, area.width - 1) : strlen(title);
    const int x = canvas_text_n(c, area, 0, 0, STYLE_TITLE, title, length);
    if (cut) canvas_put(c, area, x, 0, STYLE_TITLE, c->ascii ? '>' : 0x2026); // an ellipsis
    if (height && m)
        map_draw(v, &k->maps, m, c, map);
    else if (height)
        canvas_text(c, map, GUTTER, height / 2, STYLE_DIM,
                    (size_t)k->token + 1 == k->tokens[side]
                        ? "(the last token is never fed back: no map)"
                        : "(no such token)");
    if (text.height > 0) draw_text(k, side, c, text);
}

static void draw(struct view *v, struct canvas *c, struct area area, bool focused)
{
    const struct compare_view *k = &v->compare;
    if (!k->text[0]) {
        canvas_text(c, area, 0, 0, STYLE_DIM, "nothing has been compared yet:");
        canvas_text(c, area, 0, 1, STYLE_DIM, "/compare off | prune.score=contribution QUESTION");
        canvas_text(c, area, 0, 2, STYLE_DIM, "see /help compare");
        return;
    }
    const int half = (area.width - 3) / 2, height = area.height - 1;
    for (int y = 0; y < height; y++)
        canvas_put(c, area, half + 1, y, STYLE_BORDER, c->ascii ? '|' : 0x2502);
    draw_side(v, 0, c, (struct area){ area.x, area.y, half, height });
    draw_side(v, 1, c, (struct area){ area.x + half + 3, area.y, half, height });
    const int x =
        canvas_printf(c, area, 0, height, STYLE_DIM, "token %d (of %zu | %zu)%s", k->token,
                      k->tokens[0], k->tokens[1], differs(k) ? "" : ", the answers are identical");
    canvas_text(c, area, x + 3, height, STYLE_DIM,
                focused ? "" : "F12: step through the tokens  Esc: back");
}

// --- keys ----------------------------------------------------------------------------------------

static void go_to(struct compare_view *k, int token)
{
    const size_t most = k->tokens[0] > k->tokens[1] ? k->tokens[0] : k->tokens[1];
    if (token >= (int)most) token = (int)most - 1;
    k->token = token < 0 ? 0 : token;
}

static unsigned act(struct view *v, const char *action)
{
    static const struct {
        const char *action;
        int by;
    } steps[] = { { "token-back", -1 },          { "token-next", 1 },
                  { "token-far-back", -10 },     { "token-far-next", 10 },
                  { "token-first", -(1 << 28) }, { "token-last", 1 << 28 } };
    struct compare_view *k = &v->compare;
    if (!strcmp(action, "back")) {
        v->close = true;
        return PANEL_DONE | PANEL_BACK;
    }
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        if (!strcmp(action, steps[i].action)) {
            go_to(k, k->token + steps[i].by);
            return PANEL_DONE;
        }
    if (!strcmp(action, "parting"))
        go_to(k, compare_first_difference(k));
    else if (!strcmp(action, "smooth"))
        v->image.smooth = !v->image.smooth;
    else
        return PANEL_IGNORED;
    return PANEL_DONE;
}

static void click(struct view *v, struct area area, int x, int y, int button)
{
    if (button == 4) go_to(&v->compare, v->compare.token - 1);
    if (button == 5) go_to(&v->compare, v->compare.token + 1);
}

const struct panel panel_compare = {
    .name = "compare",
    .title = "compared",
    .min_width = 60,
    .min_height = 8,
    .draw = draw,
    .act = act,
    .click = click,
};
