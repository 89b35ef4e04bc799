// tui/chips.c -- draws each method with its key as a chip, in the longest form that fits:
//
//   Alt-2 CAPA 25% @2 ○ -41% FLOPs, -108 tokens
//   Alt-2 CAPA 25% @2 ○ -41% FLOPs
//   Alt-2 CAPA ○ -41%
//   Alt-2 CAPA ○
#include "tui/chips.h"

#include <math.h>
#include <string.h>

#include "core/methods/method.h"
#include "tui/text.h"

enum words { WORDS_ALL, WORDS_FLOPS, WORDS_PERCENT, WORDS_NAME, WORDS_COUNT };

static const struct method_state *chip_at(const struct view *v, int *index)
{
    const struct snapshot *s = v->snapshot;
    while (s && *index < s->method_count) {
        const struct method_state *m = &s->methods[(*index)++];
        if (m->method->press && m->badge) return m;
    }
    return NULL;
}

static void write_change(struct buf *b, const struct method_state *m, enum words words)
{
    const double percent = 100 * (m->flops - 1);
    if (!m->known || fabs(percent) < 0.5 || words >= WORDS_NAME) return;
    buf_printf(b, " %+.0f%%", percent);
    if (words <= WORDS_FLOPS) buf_puts(b, " FLOPs");
    if (words == WORDS_ALL && fabs(m->tokens) >= 1) buf_printf(b, ", %+.0f tokens", m->tokens);
}

static void write_chip(struct buf *b, const struct method_state *m, bool on, bool ascii,
                       enum words words)
{
    const size_t name = words < WORDS_PERCENT ? strlen(m->badge) : strcspn(m->badge, " ");
    const char *state = ascii ? (on ? "on" : "off") : on ? "●" : "○";
    buf_clear(b);
    buf_printf(b, "%s %.*s %s", m->method->press, (int)name, m->badge,
               m->possible ? state : "-"); // -: impossible with this model
    write_change(b, m, words);
}

// Draws the chips from the first line of the area on, or only counts their lines (c NULL).
static int draw_lines(const struct view *v, struct canvas *c, struct area area, bool ascii,
                      enum words words)
{
    const struct method_state *m;
    struct buf b = { 0 };
    int x = 0, y = 0;
    for (int i = 0; (m = chip_at(v, &i));) {
        const bool on = method_on(m->method, v->settings);
        write_chip(&b, m, on, ascii, words);
        const int width = text_width(b.data);
        if (x && x + width > area.width) x = 0, y++;
        if (c)
            canvas_text(c, area, x, y,
                        on            ? STYLE_BADGE
                        : m->possible ? STYLE_TEXT
                                      : STYLE_DIM,
                        b.data);
        x += width + 2;
    }
    buf_release(&b);
    return x ? y + 1 : 0;
}

int chips_draw(const struct view *v, struct canvas *c, struct area area, int most)
{
    enum words words = WORDS_ALL;
    if (!v->snapshot || !v->snapshot->has_vision || most < 1) return 0;
    while (words < WORDS_NAME && draw_lines(v, NULL, area, c->ascii, words) > most) words++;
    int lines = draw_lines(v, NULL, area, c->ascii, words);
    if (lines > most + 1) lines = most + 1;
    area.y += area.height - lines;
    area.height = lines;
    draw_lines(v, c, area, c->ascii, words);
    for (int y = 0; y < lines; y++)
        canvas_hints(c, (struct area){ area.x, area.y + y, area.width, 1 });
    return lines;
}
