// tui/picker.h -- the pickers' contents: models, pictures, data, adapters, sessions, scripts;
// previews of pictures.
#ifndef TUI_PICKER_H
#define TUI_PICKER_H

#include "tui/list.h"

void picker_choose(struct view *v, const struct shell *shell); // the selected item
void picker_up(struct view *v);                                // opens the parent folder
// Requests the preview of the selected picture (v->preview).
void picker_look(struct view *v);
void picker_draw(struct view *v, struct canvas *c, struct area area);
// Returns the command for the path of a picture dropped on the window (quoted, escaped or as
// file://): "/image cat.png". NULL: other text.
char *picker_dropped(const char *text);
// Returns the command that opens a file or folder ("/image", "/run"); NULL: none. *what: the kind.
const char *picker_command(const char *path, const char **what);
// Returns the path as an argument of a command line, quoted if necessary.
char *picker_quote(const char *path);

// List files for a request (tui/view.h): palette_files those of the palette, picker_entries the
// entries of the folder r->folder, picker_deeper the files of the picker's kind in the folders
// there. wanted(self) false ends the listing.
void palette_files(struct list_view *l, bool (*wanted)(void *self), void *self);
void picker_entries(struct list_view *l, const struct list_request *r, bool (*wanted)(void *self),
                    void *self);
void picker_deeper(struct list_view *l, const struct list_request *r, bool (*wanted)(void *self),
                   void *self);

// The models of the start list, of the hub cache and this folder, and the item for another model:
// the request `what` for them, and what lists them.
extern const char start_request[];
void start_models(struct list_view *l, bool (*wanted)(void *self), void *self);
// Numbers the items of the start list from index `from` on.
void start_number(struct list_view *l, size_t from);

// Defined in list.c.
void list_begin(struct view *v, enum list_kind kind, const char *title);
struct item *list_add(struct list_view *l, const char *label, const char *note, const char *value);
void list_ready(struct view *v);
void list_await_files(struct view *v);                       // requests the files of the open list
const struct item *list_selected(const struct list_view *l); // NULL: none

#endif
