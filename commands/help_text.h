// commands/help_text.h -- splits help texts (`details` of struct command) into paragraphs, items
// and examples.
//
//   struct help_part part;
//   while (help_part_next(&text, &part)) { ...; help_part_release(&part); }
//
// Newlines within a paragraph or item do not matter: front ends wrap the text. A line with two
// spaces after its first words ("--once  skips") begins an item, which indented lines continue.
// Other indented lines are examples. All other lines form paragraphs, which end at an empty line,
// an item or an example.
#ifndef COMMANDS_HELP_TEXT_H
#define COMMANDS_HELP_TEXT_H

#include <stdbool.h>

enum help_kind { HELP_PARAGRAPH, HELP_ITEM, HELP_EXAMPLE };

struct help_part {
    enum help_kind kind;
    char *term, *text; // term: of an item, else NULL
    bool apart;        // an empty line precedes the part
};

// Reads the part at *at and advances *at; false at the end.
bool help_part_next(const char **at, struct help_part *part);
void help_part_release(struct help_part *part);
// Returns whether one of the space-separated search terms (struct command, struct setting) begins
// with the pattern, which needs three letters or more. `terms` may be NULL.
bool help_finds(const char *terms, const char *pattern);

#endif
