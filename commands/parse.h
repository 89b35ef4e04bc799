// commands/parse.h -- a line to arguments: blanks, quotes, ${NAME}, """.
//
//   struct words w = { 0 };
//   if (words_parse(&w, "cat.png \"my dog.png\"", shell, &err) < 0) ...   // w.list[0..w.count-1]
//   words_release(&w);
//
// Arguments stand between blanks. One in double quotes follows the escapes of JSON strings; in
// others "\ " is a blank and a leading "~/" the home folder, all else is as typed. ${NAME} is
// replaced everywhere and its value is never read again as quotes or blanks; ${NAME:-VALUE} is
// VALUE where NAME has none; $${ writes "${". Text between """ and a """ that ends a line is as
// typed.
#ifndef COMMANDS_PARSE_H
#define COMMANDS_PARSE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/err.h"

struct shell;

struct words {
    char **list;
    int count, capacity;
};

// Appends the arguments of `text` (what follows the command's name).
int words_parse(struct words *w, const char *text, const struct shell *shell, struct err *err);
// `text` as one argument, if there is any: as typed from the first character that is not blank, or
// what the one quoted string that it is says.
int rest_parse(struct words *w, const char *text, const struct shell *shell, struct err *err);
// `text` as one argument, as typed.
int text_parse(struct words *w, const char *text, const struct shell *shell, struct err *err);
void words_release(struct words *w);

// What follows blanks at the beginning.
const char *skip_blanks(const char *text);
// Where the name of a command ends ("/name|").
const char *name_end(const char *text);
// What follows an opening """, which stands at the beginning of a line or of a command's arguments;
// NULL when there is none.
const char *triple_start(const char *line);
// Does the text (since triple_start) end with the closing """?
bool triple_closed(const char *text, size_t length);

#endif
