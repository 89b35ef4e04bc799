// tui/history.h -- the history of the prompt: a list in readline, and a file with one entry per
// line, newest last.
//
//   struct history *h = history_open(path);      // fills readline's list
//   history_keep(h, "What is this?");            // list and file
//
// The file is private (mode 0600). Each entry is appended by one write, so that several shells may
// share the file. Reading drops duplicates, and rewrites a file that has become too long. A newline
// within an entry is written as \n, a backslash as \\.
#ifndef TUI_HISTORY_H
#define TUI_HISTORY_H

struct history;

struct history *history_open(const char *path); // path NULL: only a list in memory
void history_close(struct history *h);
// Adds an entry, unless it is empty, begins with a space or a newline, or has more than 4096 bytes.
void history_keep(struct history *h, const char *entry);

// Returns entry `index` of readline's list (0: the newest), or NULL past the oldest.
const char *history_recent(int index);

#endif
