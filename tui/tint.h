// tui/tint.h -- answers as heat maps: the colours of their tokens, and the legend.
//
//   const enum tint tint = tint_now(v, c);              // TINT_OFF: draw without
//   const double most = tint_most(v, tint);
//   const double share = tint_share(e, i, tint, most);  // of token i of the entry; NaN: no colour
//   tint_legend(v, c, line, tint, most);
#ifndef TUI_TINT_H
#define TUI_TINT_H

#include "tui/view.h"

enum tint { TINT_OFF, TINT_PICTURE, TINT_PROBABILITY, TINT_ENTROPY };

// Returns the value of screen.tint; TINT_OFF on a canvas with too few colours (canvas.mono).
enum tint tint_now(const struct view *v, const struct canvas *c);
// Returns the upper end of the scale, which starts at 0: the highest value among all answers, or 1
// for probabilities. 0: no token has a value.
double tint_most(const struct view *v, enum tint tint);
// Returns the value of the entry's token i as a share of `most`; NaN: unknown.
double tint_share(const struct entry *e, size_t i, enum tint tint, double most);
void tint_legend(const struct view *v, struct canvas *c, struct area line, enum tint tint,
                 double most);
// Requests the next tint; skips TINT_PICTURE for a model that sees no pictures.
void tint_next(struct view *v, const struct canvas *c);

#endif
