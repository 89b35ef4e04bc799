// tui/tint.c -- tints tokens by their share from the picture, their probability or their entropy.
#include "tui/tint.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/draw/ramp.h"
#include "tui/text.h"

static const struct {
    const char *name, *meaning;
} tints[] = {
    [TINT_OFF] = { "off", "" },
    [TINT_PICTURE] = { "picture", "share from the picture" },
    [TINT_PROBABILITY] = { "probability", "probability" },
    [TINT_ENTROPY] = { "entropy", "entropy (nats)" },
};

enum { TINTS = sizeof tints / sizeof *tints };

enum tint tint_now(const struct view *v, const struct canvas *c)
{
    const char *name = view_setting(v, "screen.tint");
    if (c->mono) return TINT_OFF;
    for (int i = 0; i < TINTS; i++)
        if (!strcmp(tints[i].name, name)) return (enum tint)i;
    return TINT_OFF;
}

static double value_of(const struct entry *e, size_t i, enum tint tint)
{
    if (!e->sure) return NAN;
    const struct event_token *t = &e->sure[i];
    return tint == TINT_PICTURE       ? t->share
           : tint == TINT_PROBABILITY ? t->probability
           : tint == TINT_ENTROPY     ? t->entropy
                                      : NAN;
}

double tint_most(const struct view *v, enum tint tint)
{
    double most = 0;
    for (size_t k = 0; k < v->chat.count; k++) {
        const struct entry *e = &v->chat.entries[k];
        for (size_t i = 0; i < e->token_count; i++) most = fmax(most, value_of(e, i, tint));
    }
    return tint == TINT_PROBABILITY && most > 0 ? 1 : most;
}

double tint_share(const struct entry *e, size_t i, enum tint tint, double most)
{
    const double value = value_of(e, i, tint);
    return most > 0 ? value / most : NAN;
}

void tint_legend(const struct view *v, struct canvas *c, struct area line, enum tint tint,
                 double most)
{
    enum { BAR = 10 };
    const char *ramp = view_setting(v, "screen.map");
    char high[32];
    canvas_fill(c, line, STYLE_TEXT, ' ');
    int x = canvas_text(c, line, 0, 0, STYLE_DIM, "tint: ");
    x = canvas_text(c, line, x, 0, STYLE_DIM, tints[tint].meaning);
    if (!(most > 0)) {
        canvas_text(c, line, x, 0, STYLE_DIM, ", from the next answer on  Alt-t: next");
        return;
    }
    snprintf(high, sizeof high, tint == TINT_PICTURE ? " %.0f%%" : " %.3g",
             tint == TINT_PICTURE ? 100 * most : most);
    x = canvas_text(c, line, x + 2, 0, STYLE_DIM, tint == TINT_PICTURE ? "0% " : "0 ");
    for (int i = 0; i < BAR && x < line.width; i++, x++) {
        struct cell *cell = canvas_at(c, line.x + x, line.y);
        if (cell) cell->paper = CELL_RGB | ramp_colour(ramp, (double)i / (BAR - 1));
    }
    x = canvas_text(c, line, x, 0, STYLE_DIM, high);
    canvas_text(c, line, x + 2, 0, STYLE_DIM, "Alt-t: next");
}

void tint_next(struct view *v, const struct canvas *c)
{
    const bool sees = !v->snapshot || v->snapshot->has_vision;
    if (c->mono) {
        view_hint(v, "no colours to tint answers with: NO_COLOR is set, or the terminal has fewer "
                     "than 16; /why shows the numbers");
        return;
    }
    enum tint next = (enum tint)((tint_now(v, c) + 1) % TINTS);
    if (next == TINT_PICTURE && !sees) next = TINT_PROBABILITY;
    view_run(v, true, "/set screen.tint %s", tints[next].name);
}
