// tui/folder_walk.c -- visits the entries of a folder and of the folders in it.
#include "tui/folder_walk.h"

#include <stdlib.h>

#include "core/base/clock.h"
#include "core/base/folder.h"
#include "core/base/mem.h"
#include "core/base/names.h"

// At most: entries of all folders, and of one; levels of folders; seconds.
enum { ENTRIES = 3000, FOLDER = 300, DEPTH = 2, SECONDS = 3 };

bool folder_walk(const struct folder_walk *w)
{
    struct names folders = { 0 };
    const double until = clock_seconds() + SECONDS;
    size_t ends = 1; // number of the first folder that is one level deeper
    int level = 0, left = ENTRIES;
    bool more = true, whole = true;
    names_add(&folders, w->root, NULL);
    for (size_t i = 0; i < folders.count && more; i++) {
        if (i == ends) level++, ends = folders.count;
        const char *folder = folders.list[i];
        char **names = folder_list(*folder ? folder : ".");
        int count = 0;
        for (size_t k = 0; names[k] && more; k++) {
            if (names[k][0] == '.') continue;
            more = left-- > 0 && clock_seconds() < until && w->wanted(w->asker);
            const bool full = count++ == FOLDER;
            whole &= more && !full;
            if (full || !more) break;
            char *path = *folder ? folder_entry(folder, names[k]) : xstrdup(names[k]);
            if (w->entry(w->self, path, level) && level < DEPTH) names_add(&folders, path, NULL);
            free(path);
        }
        folder_list_free(names);
    }
    names_release(&folders);
    return whole;
}
