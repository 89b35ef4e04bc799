// tui/complete.h -- finds candidates for Tab in the tables of commands and settings.
//
//   struct candidates c = { 0 };
//   complete_find(shell, line, start, &c);     // the word begins at line[start]
//   ... c.list[0..count), and the paths that c.paths names ...
#ifndef TUI_COMPLETE_H
#define TUI_COMPLETE_H

#include "commands/command.h"

enum candidate_paths { PATHS_NONE, PATHS_ALL, PATHS_MODELS }; // MODELS: folders and GGUF files

struct candidates {
    char **list; // owned
    size_t count;
    enum candidate_paths paths;
};

// Finds all candidates at this position of the line; the caller filters them by the typed prefix.
void complete_find(const struct shell *shell, const char *line, size_t start,
                   struct candidates *candidates);
// Returns one sentence on a candidate of this line: a command, an action, an option or a setting;
// NULL: none.
const char *complete_help(const char *line, const char *candidate);
void candidates_release(struct candidates *c);

#endif
