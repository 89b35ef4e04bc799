// tui/line_edit.h -- readline setup of the two front ends with a prompt, full screen and plain
// lines: completion from the tables, $EDITOR.
//
//   line_edit_setup(&shell);                            // completion looks up names in the shell
//   char *text = line_edit_in_editor(rl_line_buffer);   // restore the terminal first
#ifndef TUI_LINE_EDIT_H
#define TUI_LINE_EDIT_H

#include "commands/command.h"

// `shell` must stay valid; its engine is not used.
void line_edit_setup(const struct shell *shell);
// Runs $VISUAL, $EDITOR or vi on the text and waits; NULL on failure. free() it.
char *line_edit_in_editor(const char *text);

#endif
