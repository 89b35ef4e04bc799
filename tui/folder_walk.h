// tui/folder_walk.h -- visits the entries of a folder and of two levels of folders in it, nearer
// ones first, within limits of number and time.
//
//   struct folder_walk w = { .root = "", .entry = add, .self = list, .wanted = asked };
//   if (!folder_walk(&w)) ...                   // some entries were not visited
#ifndef TUI_FOLDER_WALK_H
#define TUI_FOLDER_WALK_H

#include <stdbool.h>

struct folder_walk {
    const char *root; // "": the current folder
    // Takes an entry that is `level` folders below the root; returns whether it is a folder to
    // visit.
    bool (*entry)(void *self, const char *path, int level);
    void *self;
    bool (*wanted)(void *asker); // false ends the walk
    void *asker;
};

// Visits at most 3000 entries, 300 per folder, for at most three seconds, without those whose names
// begin with a dot. False: it reached a limit, or was not wanted any more.
bool folder_walk(const struct folder_walk *w);

#endif
