// tui/input.h -- reads a user's lines with readline: history, completion, multi-line text.
//
//   struct input *in = input_new(shell);
//   while (input_read(in, &line) == INPUT_LINE) { ... free(line); }
//   input_free(in);
//
// Only one input may exist at a time, because readline's state is global.
#ifndef TUI_INPUT_H
#define TUI_INPUT_H

#include "commands/command.h"

enum input_result {
    INPUT_LINE, // *line is a logical line; the caller frees it
    INPUT_END,  // Ctrl-D, or the terminal is gone, or the program is ending
    INPUT_LEAVE // Ctrl-C twice within two seconds
};

struct input *input_new(struct shell *shell);
void input_free(struct input *in);
enum input_result input_read(struct input *in, char **line);
// Discards pasted lines that have not been returned yet.
void input_flush(struct input *in);
// Queues bytes that readline reads before any further keys.
void input_add_early(const char *bytes, size_t length);

#endif
