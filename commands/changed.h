// commands/changed.h -- the questions of a comparison, kept by /compare or read from a job by
// /changed, which shows the flips: questions that one side answers better than the other.
#ifndef COMMANDS_CHANGED_H
#define COMMANDS_CHANGED_H

#include "commands/command.h"
#include "core/eval/compare_data.h"

// Options of /changed: all flips, only questions that the second side answers worse, or only
// questions that it answers better.
enum { CHANGED_ALL, CHANGED_WORSE, CHANGED_BETTER, CHANGED_COUNT };
extern const char *const changed_which[CHANGED_COUNT];

// Titles and data of a comparison. changed_keep copies the texts; set.kind and set.way point into
// constant tables.
struct changed_source {
    const char *title[2];
    struct set_source set;
};

// Replaces the shell's questions with those of *d, which becomes empty. In the full screen, also
// shows the first flip, if any.
void changed_keep(struct shell *shell, const struct changed_source *source,
                  struct compared_data *d);
void changed_forget(struct shell *shell);

#endif
