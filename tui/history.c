// tui/history.c -- reads and appends the history file.
#include "tui/history.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <readline/history.h>

#include "core/base/file_in.h"
#include "core/base/mem.h"
#include "core/base/places.h"
#include "core/base/unfinished.h"
#include "tui/guard.h"

enum {
    ENTRIES_MAX = 5000,
    ENTRY_LONGEST = 4096, // bytes; a search through the history reads every byte
};

struct history {
    char *path; // NULL: none
};

static void unescape(char *line)
{
    char *to = line;
    for (const char *from = line; *from && *from != '\n'; from++) {
        if (*from == '\\' && from[1] && from[1] != '\n')
            *to++ = *++from == 'n' ? '\n' : *from;
        else
            *to++ = *from;
    }
    *to = '\0';
}

static bool too_long(const char *entry)
{
    return strnlen(entry, ENTRY_LONGEST + 1) > ENTRY_LONGEST;
}

// Appends the entry to readline's list and removes an earlier duplicate.
static void remember(const char *entry)
{
    for (int i = history_length - 1; i >= 0; i--) {
        HIST_ENTRY *old = history_get(history_base + i);
        if (old && strcmp(old->line, entry) == 0) {
            free_history_entry(remove_history(i));
            break;
        }
    }
    add_history(entry);
}

// Uses one write, so that lines of two shells do not mix.
static bool write_entry(int file, const char *entry)
{
    struct buf line = { 0 };
    for (; *entry; entry++)
        if (*entry == '\n')
            buf_puts(&line, "\\n");
        else if (*entry == '\\')
            buf_puts(&line, "\\\\");
        else
            buf_putc(&line, *entry);
    buf_putc(&line, '\n');
    const bool written = write(file, line.data, line.length) == (ssize_t)line.length;
    buf_release(&line);
    return written;
}

// Replaces the file by the entries of readline's list, which has no duplicates.
static void rewrite(const char *path)
{
    int file;
    char *part = unfinished_begin(path, false, &file);
    if (!part) return;
    bool written = fchmod(file, 0600) == 0;
    for (int i = 0; i < history_length && written; i++)
        written = write_entry(file, history_get(history_base + i)->line);
    if (!written || rename(part, path) < 0) unlink(part);
    close(file);
    free(part);
}

static void read_entries(const char *path)
{
    const int fd = file_in_open(path, NULL);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    if (!file) return;
    fchmod(fileno(file), 0600);
    char *line = NULL;
    size_t capacity = 0;
    int count = 0;
    while (getline(&line, &capacity, file) > 0) {
        unescape(line);
        if (*line && !too_long(line)) remember(line);
        count++;
    }
    free(line);
    fclose(file);
    if (count > 2 * ENTRIES_MAX) rewrite(path);
}

struct history *history_open(const char *path)
{
    struct history *h = xcalloc(1, sizeof *h);
    clear_history();
    stifle_history(ENTRIES_MAX);
    if (path && places_make_parents(path, NULL) == 0) {
        h->path = xstrdup(path);
        read_entries(path);
    }
    return h;
}

void history_close(struct history *h)
{
    if (!h) return;
    guard_restore();
    clear_history();
    free(h->path);
    free(h);
}

void history_keep(struct history *h, const char *entry)
{
    guard_restore();
    if (!*entry || *entry == ' ' || *entry == '\n' || too_long(entry)) return;
    HIST_ENTRY *last = history_get(history_base + history_length - 1);
    bool same = last && strcmp(last->line, entry) == 0;
    remember(entry);
    if (same || !h->path) return;
    // O_NONBLOCK: if the file is a pipe, open does not wait for a reader.
    int file = open(h->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0600);
    if (file < 0) return;
    write_entry(file, entry); // on a full disk only this entry is lost
    close(file);
}

const char *history_recent(int index)
{
    const HIST_ENTRY *e =
        index < history_length ? history_get(history_base + history_length - 1 - index) : NULL;
    return e ? e->line : NULL;
}
