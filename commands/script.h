// commands/script.h -- physical lines to logical lines: text between """ and lines that end in "\".
//
//   struct line_reader r = { 0 };
//   while (read a line without its end)
//       if (line_reader_add(&r, line)) shell_line(shell, r.text.data, &err);   // else: goes on
//   if (line_reader_open(&r)) ... the input ends in the middle ...
//   line_reader_release(&r);
//
// Scripts and the prompt share it. A line that ends in an odd number of backslashes goes on in the
// next one (the line end stays in the text); """ at the beginning of a line or of a command's
// arguments opens text that goes on to a """ at a line's end.
#ifndef COMMANDS_SCRIPT_H
#define COMMANDS_SCRIPT_H

#include "core/base/mem.h"

struct line_reader {
    struct buf text; // the logical line so far
    bool open;       // it goes on
    size_t triple;   // offset behind an opening """; 0 = none
};

// True when text.data is a whole logical line; it is valid until the next call.
bool line_reader_add(struct line_reader *r, const char *line);
bool line_reader_open(const struct line_reader *r);
// Forgets what was read so far (Ctrl-C at the prompt).
void line_reader_reset(struct line_reader *r);
void line_reader_release(struct line_reader *r);

#endif
