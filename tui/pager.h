// tui/pager.h -- a page of text over the panels: help, the table of keys. Search works as in less.
//
//   pager_begin(v, "/help train"); pager_add_text(v, text); pager_add_table(v, table);
//   pager_end(v); if (v->pager.open) pager_draw(v, &canvas, area);
#ifndef TUI_PAGER_H
#define TUI_PAGER_H

#include "tui/view.h"

void pager_begin(struct view *v, const char *title);
void pager_add_text(struct view *v, const char *text);
void pager_add_table(struct view *v, const struct event_table *table);
void pager_end(struct view *v); // opens the page unless it is empty
void pager_close(struct view *v);
void pager_draw(struct view *v, struct canvas *c, struct area area);
// Runs an action of the key table, context "pager"; false: unknown.
bool pager_act(struct view *v, const char *action);
// Returns whether a pattern is being typed: keys then go to pager_type().
bool pager_typing(const struct view *v);
void pager_type(struct view *v, const struct key *key);
void pager_wheel(struct view *v, int button);

#endif
