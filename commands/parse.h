// commands/parse.h -- splits a line into arguments: spaces, quotes, ${NAME}, """.
//
//   struct words w = { 0 };
//   if (words_parse(&w, "cat.png 'my dog.png'", false, shell, &err) < 0) ...
//   use(w.list, w.count);
//   words_release(&w);
//
// White space separates arguments. Quotes enclose an argument or, after "NAME=", its value: double
// ones with JSON escapes, single ones literally, up to the first ' before white space, so that it
// may contain apostrophes. Elsewhere, and without a closing ', they are literal. Outside quotes,
// "\ " is a space and a leading "~/" is the home folder. Between """ and the next """ at the end of
// a line, none of this applies. ${NAME} is replaced everywhere, and its value is never parsed again
// for quotes or spaces; ${NAME:-VALUE} defaults to VALUE; $${ is a literal "${". Everything else is
// literal.
#ifndef COMMANDS_PARSE_H
#define COMMANDS_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/base/mem.h"

struct shell;

struct words {
    char **list;
    int count;
    size_t capacity;
};

// Appends the arguments in `text`, the part of a line after the command's name. `question`: the
// arguments may end in a question (struct command): single quotes then enclose only the first
// argument and values of options.
int words_parse(struct words *w, const char *text, bool question, const struct shell *shell,
                struct err *err);
// Returns the closing quote of a text in single quotes at `p`, the first one before white space or
// at the end; NULL: it is not closed.
const char *single_close(const char *p);
// Appends `text`, without leading white space, as one argument, unless it is empty. If the text is
// one quoted string, or text between """, appends only the content.
int rest_parse(struct words *w, const char *text, const struct shell *shell, struct err *err);
// Appends `text` as one argument; replaces only ${NAME} and $${.
int text_parse(struct words *w, const char *text, const struct shell *shell, struct err *err);
void words_release(struct words *w);
// Returns whether `text` is a valid NAME in ${NAME}.
bool parse_is_name(const char *text, size_t length);

// Joins words with spaces; the caller frees the text.
char *words_join(int count, char *const *words);
// Returns `text` after its leading white space.
const char *skip_blanks(const char *text);
// Returns a pointer to the end of the word at the start of `text`, such as "/name".
const char *name_end(const char *text);
// Returns the text after an opening """ at the start of a line or of a command's arguments, or
// NULL.
const char *triple_start(const char *line);
// Returns whether the text (as returned by triple_start) ends with the closing """, apart from
// white space.
bool triple_closed(const char *text, size_t length);

// Appends the token ids in all arguments: numbers 0..limit-1, separated by spaces or commas; the
// brackets of a JSON list are allowed.
int token_ids_read(struct ids *ids, int argc, char **argv, int64_t limit, struct err *err);

#endif
