// tui/list.h -- lists drawn over the panels: the command palette, the pickers, the keys.
//
//   list_open_palette(v, shell);          // or list_open_picker, list_open_help
//   list_type(v, &key);
//   list_act(v, "choose", shell);         // sets v->run, v->insert or v->press
#ifndef TUI_LIST_H
#define TUI_LIST_H

#include "commands/command.h"
#include "tui/view.h"

// Lists commands, settings, earlier lines, sessions and jobs (palette.c); its files follow.
void list_open_palette(struct view *v, const struct shell *shell);
// Lists how to begin: tour, recent sessions, models of the hub cache and this folder (palette.c).
void list_open_start(struct view *v, const struct shell *shell);
// Chooses item `number`, from 1, of the start list; false: there is no such item.
bool list_start_number(struct view *v, int number, const struct shell *shell);
// Draws the description of the palette's selected item.
void palette_describe(const struct view *v, struct canvas *c, struct area area);
// what: model, image, data, adapter, session, script, or start (list_open_start); otherwise lists
// the first six of these words.
void list_open_picker(struct view *v, const char *what, const struct shell *shell);
// The files of the palette and of the pickers, and the models of the start list, which a slow
// folder may delay, are listed in another thread (v->list_files): list_files lists them until
// wanted(self) is false, and calls found(self) with each part, which list_files_free frees.
// list_take_files adds a part to the list that requested it, if that is still open; a key that
// chooses may have been waiting for it.
void list_files(const struct list_request *r, bool (*wanted)(void *self),
                void (*found)(void *self, struct list_view *part), void *self);
void list_files_free(void *part);
void list_take_files(struct view *v, struct list_view *part, const struct shell *shell);
void list_open_help(struct view *v, struct keys *keys, const char *context);
void list_draw(struct view *v, struct canvas *c, struct area area);
void list_type(struct view *v, const struct key *key);
void list_act(struct view *v, const char *action, const struct shell *shell);
void list_click(struct view *v, struct area area, int x, int y, int button,
                const struct shell *shell);

// Returns the score of a fuzzy match: `text` must contain the letters of `pattern` in order. 0: no
// match.
int list_score(const char *text, const char *pattern);

#endif
