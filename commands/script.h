// commands/script.h -- joins physical lines into logical lines: lines that end in "\", and text
// between """.
//
//   struct line_reader r = { 0 };
//   while (read a line without its end)
//       if (line_reader_add(&r, line)) shell_line(shell, r.text.data, &err);   // else: incomplete
//   if (line_reader_open(&r)) ... the input ended within a logical line ...
//   line_reader_release(&r);
//
// Shared by scripts and the prompt. A line that ends in an odd number of backslashes continues on
// the next line (the newline stays in the text), unless it is a comment. """ at the start of a line
// or of a command's arguments opens text that ends at a """ at the end of a line.
#ifndef COMMANDS_SCRIPT_H
#define COMMANDS_SCRIPT_H

#include "core/base/mem.h"

struct line_reader {
    struct buf text; // the logical line so far
    bool open;       // the logical line is incomplete
    size_t triple;   // offset after an opening """; 0 = none
    size_t first;    // offset of the first character that is not white space
};

// Returns whether the line ends in a backslash that is not escaped.
bool line_continues(const char *line, size_t length);
// Adds a physical line. Returns whether text.data is now a complete logical line, valid until the
// next call.
bool line_reader_add(struct line_reader *r, const char *line);
bool line_reader_open(const struct line_reader *r);
// Discards what was read so far (Ctrl-C at the prompt).
void line_reader_reset(struct line_reader *r);
void line_reader_release(struct line_reader *r);

#endif
