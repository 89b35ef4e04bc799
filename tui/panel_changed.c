// tui/panel_changed.c -- shows a flip (a question that one side of a comparison answers better):
// its picture, the question, the reference and both answers. Keys request another flip (/changed).
#include <stdlib.h>
#include <string.h>

#include "commands/changed.h"
#include "core/base/text.h"
#include "tui/controls.h"
#include "tui/panel.h"
#include "tui/wrap.h"

enum { GAP = 2 };

static int which_number(const struct changed_view *k)
{
    int i = 0;
    while (i + 1 < CHANGED_COUNT && strcmp(changed_which[i], k->which) != 0) i++;
    return i;
}

// --- texts ---------------------------------------------------------------------------------------

// Draws a wrapped text from line y on; lines may be outside the area. Returns the line after the
// text.
static int draw_text(struct canvas *c, struct area area, int y, enum style style, const char *text)
{
    struct wrap w = wrap_begin(text, area.width);
    for (; wrap_next(&w); y++)
        if (y >= 0 && y < area.height) canvas_text_n(c, area, 0, y, style, w.line, w.length);
    return y;
}

struct part {
    char *head;
    const char *text;
    enum style style;
};
enum { PARTS = 4 };

static int find_parts(const struct changed_view *k, struct part parts[PARTS])
{
    int count = 0;
    parts[count++] = (struct part){ xstrdup(k->name), k->question, STYLE_TEXT };
    if (*k->reference)
        parts[count++] = (struct part){ xstrdup("reference"), k->reference, STYLE_TEXT };
    for (int side = 0; side < 2; side++) {
        char *head = xasprintf("%c, score %.4g%s: %s", 'A' + side, k->score[side],
                               k->better[side] ? " (better)" : "", k->title[side]);
        const enum style style = k->better[side] ? STYLE_TEXT : STYLE_CHANGED;
        parts[count++] = (struct part){ head, text_trimmed(k->answer[side]), style };
    }
    return count;
}

// Draws the parts without their first `top` lines, with empty lines between them if everything
// fits. Returns the number of lines.
static int draw_texts(const struct changed_view *k, struct canvas *c, struct area area)
{
    struct part parts[PARTS];
    const int count = find_parts(k, parts);
    int lines = count - 1, y = -k->top;
    for (int i = 0; i < count; i++)
        lines += wrap_count(parts[i].head, area.width) + wrap_count(parts[i].text, area.width);
    const int gap = lines > area.height ? 0 : 1;
    for (int i = 0; i < count; i++) {
        y = draw_text(c, area, y, STYLE_TITLE, parts[i].head);
        y = draw_text(c, area, y, parts[i].style, parts[i].text) + gap;
        free(parts[i].head);
    }
    return y - gap + k->top;
}

// --- the panel -----------------------------------------------------------------------------------

static void draw(struct view *v, struct canvas *c, struct area area, bool focused)
{
    static const char *const words[CHANGED_COUNT] = { "", " that B answers worse",
                                                      " that B answers better" };
    struct changed_view *k = &v->changed;
    if (!k->which) {
        canvas_text(c, area, 0, 0, STYLE_DIM, "no data set has been compared yet:");
        canvas_text(c, area, 0, 1, STYLE_DIM, "/compare off | @fastv --data FILE");
        canvas_text(c, area, 0, 2, STYLE_DIM, "see /help compare");
        return;
    }
    const struct preview *p =
        k->picture < k->pictures->count ? k->pictures->list[k->picture] : NULL;
    const int height = area.height - 1, half = p ? area.width / 2 : 0;
    struct area texts = { area.x, area.y, area.width, height };
    if (p) {
        picture_draw(p, c, (struct area){ area.x, area.y, half - GAP, height });
        texts.x += half;
        texts.width -= half;
    }
    k->lines = draw_texts(k, c, texts);
    k->height = height;
    int x = canvas_printf(c, area, 0, height, STYLE_DIM, "question %lld of %lld%s",
                          (long long)k->number, (long long)k->count, words[which_number(k)]);
    if (k->pictures->count > 1)
        x = canvas_printf(c, area, x, height, STYLE_DIM, ", picture %zu of %zu", k->picture + 1,
                          k->pictures->count);
    if (k->lines - k->top > height)
        x = canvas_text(c, area, x, height, STYLE_DIM, ", PageDown: the rest");
    if (!focused)
        canvas_text(c, area, x + 3, height, STYLE_DIM, "Alt-s: step through the flips  Esc: back");
}

// --- keys ----------------------------------------------------------------------------------------

static void ask(struct view *v, int64_t number, int which)
{
    v->changed.asked = which;
    view_run(v, true, "/changed %lld%s%s", (long long)number, which ? " --" : "",
             which ? changed_which[which] : "");
}

static void go_to(struct view *v, int64_t number)
{
    const struct changed_view *k = &v->changed;
    if (number > k->count) number = k->count;
    if (number < 1) number = 1;
    if (k->count && number != k->number) ask(v, number, which_number(k));
}

static unsigned act(struct view *v, const char *action)
{
    struct changed_view *k = &v->changed;
    if (!strcmp(action, "back")) {
        v->close = true;
        return PANEL_DONE | PANEL_BACK;
    }
    const int last = k->lines > k->height ? k->lines - k->height : 0;
    if (position_move(action, &k->top, last, k->height / 2)) return PANEL_DONE;
    if (!strcmp(action, "next"))
        go_to(v, k->number + 1);
    else if (!strcmp(action, "back-one"))
        go_to(v, k->number - 1);
    else if (!strcmp(action, "first"))
        go_to(v, 1);
    else if (!strcmp(action, "last"))
        go_to(v, k->count);
    else if (!strcmp(action, "which"))
        ask(v, 1, (k->asked + 1) % CHANGED_COUNT); // the last request may have found no flip
    else if (!strcmp(action, "picture-back"))
        k->picture -= k->picture > 0;
    else if (!strcmp(action, "picture-next"))
        k->picture += k->pictures && k->picture + 1 < k->pictures->count;
    else
        return PANEL_IGNORED;
    return PANEL_DONE;
}

static void click(struct view *v, struct area area, int x, int y, int button)
{
    if (!v->changed.which) return;
    if (button == 4) go_to(v, v->changed.number - 1);
    if (button == 5) go_to(v, v->changed.number + 1);
}

const struct panel panel_changed = {
    .name = "changed",
    .title = "flips",
    .min_width = 50,
    .min_height = 8,
    .draw = draw,
    .act = act,
    .click = click,
};
