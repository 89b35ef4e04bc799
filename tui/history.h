// tui/history.h -- the history file of the prompt: one entry per line, newest last, without
// duplicates.
//
//   struct history *h = history_open(path);      // fills readline's list
//   history_keep(h, "What is this?");            // list and file
//
// The file is private (mode 0600) and only appended to, by one write per entry, so that several
// shells may share it; duplicates are dropped when it is read. A newline within an entry is written
// as \n, a backslash as \\.
#ifndef TUI_HISTORY_H
#define TUI_HISTORY_H

struct history;

struct history *history_open(const char *path); // path NULL: only a list in memory
void history_close(struct history *h);
// Skips empty entries and those that begin with a space.
void history_keep(struct history *h, const char *entry);

// Returns an entry of readline's list, 0: the newest; NULL: there are no more.
const char *history_recent(int index);

#endif
