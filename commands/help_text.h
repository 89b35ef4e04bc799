// commands/help_text.h -- texts of help (struct command, `details`) as paragraphs, items, examples.
//
//   struct help_part part;
//   while (help_part_next(&text, &part)) { ...; help_part_release(&part); }
//
// The lines of a text may end anywhere; whoever shows it wraps it anew:
//   a line "--data FILE  JSON list ..." (two blanks) is an item, continued by lines that begin with
//   blanks; a line that begins with blanks is an example otherwise; all other lines are joined to a
//   paragraph, which an empty line ends.
#ifndef COMMANDS_HELP_TEXT_H
#define COMMANDS_HELP_TEXT_H

#include <stdbool.h>

enum help_kind { HELP_PARAGRAPH, HELP_ITEM, HELP_EXAMPLE };

struct help_part {
    enum help_kind kind;
    char *term, *text; // term: of an item, else NULL
    bool apart;        // an empty line precedes it
};

// Reads the part at *at and moves on; false at the end.
bool help_part_next(const char **at, struct help_part *part);
void help_part_release(struct help_part *part);

#endif
