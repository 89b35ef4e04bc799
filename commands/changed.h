// commands/changed.h -- the questions of a comparison that one side answers better than the other:
// kept by /compare, shown by /changed.
#ifndef COMMANDS_CHANGED_H
#define COMMANDS_CHANGED_H

#include "commands/command.h"
#include "core/eval/compare_data.h"

// Which of the questions, as event_changed names them: all, those that the second side answers
// worse, better (both are options of /changed).
enum { CHANGED_ALL, CHANGED_WORSE, CHANGED_BETTER, CHANGED_COUNT };
extern const char *const changed_which[CHANGED_COUNT];

// What was compared; everything is copied but the table's rows.
struct changed_source {
    const char *title[2];
    struct grid_set set;
};

// Keeps them in the shell, in place of former ones. Takes their texts out of *d. On the full screen
// the first is shown.
void changed_keep(struct shell *shell, const struct changed_source *source,
                  struct compared_data *d);
void changed_forget(struct shell *shell);

#endif
