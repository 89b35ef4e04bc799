// core/base/written.c -- the list of written files: one line each, the newest last.
#include "core/base/written.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/base/places.h"

enum { MOST = 1 << 20 }; // bytes of the list; if it grows larger, its older half is dropped

// Returns "\nSIZE SECONDS.NANOSECONDS PATH\n"; NULL if the file does not exist or its path has a
// newline.
static char *describe(const char *path)
{
    struct stat st;
    char *real = realpath(path, NULL), *line = NULL;
    if (real && !strchr(real, '\n') && stat(real, &st) == 0)
        line = xasprintf("\n%lld %lld.%09ld %s\n", (long long)st.st_size,
                         (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec, real);
    free(real);
    return line;
}

// Opens and locks the list; -1 if it cannot be opened.
static int open_list(int flags)
{
    char *path = places_file("XDG_STATE_HOME", ".local/state", "written");
    int fd = -1;
    if (path && (!(flags & O_CREAT) || places_make_parents(path, NULL) == 0))
        fd = open(path, flags | O_CLOEXEC | O_NONBLOCK, 0600);
    free(path);
    if (fd >= 0) flock(fd, LOCK_EX);
    return fd;
}

static void read_list(int fd, struct buf *b)
{
    char block[65536];
    ssize_t n;
    buf_puts(b, "");
    while (b->length < 2 * (size_t)MOST && (n = read(fd, block, sizeof block)) > 0)
        buf_add(b, block, (size_t)n);
}

void written_record(const char *path)
{
    struct stat st = { 0 };
    struct buf b = { 0 };
    char *line = describe(path);
    const int fd = line ? open_list(O_RDWR | O_CREAT | O_APPEND) : -1;
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > MOST) { // drops the older half
        read_list(fd, &b);
        const char *middle =
            b.length > MOST / 2 ? strstr(b.data + b.length - MOST / 2, "\n\n") : NULL;
        const char *kept = middle ? middle + 1 : "";
        if (ftruncate(fd, 0) == 0 && write(fd, kept, strlen(kept)) < 0) ftruncate(fd, 0);
    }
    // If the line cannot be written, the list lacks `path`: replacing that file later needs
    // --force.
    if (fd >= 0 && write(fd, line, strlen(line)) < 0) ftruncate(fd, st.st_size);
    if (fd >= 0) close(fd);
    buf_release(&b);
    free(line);
}

bool written_unchanged(const char *path)
{
    struct buf b = { 0 };
    char *line = describe(path);
    const int fd = line ? open_list(O_RDONLY) : -1;
    bool found = false;
    if (fd >= 0) {
        read_list(fd, &b);
        found = strstr(b.data, line) != NULL;
        close(fd);
    }
    buf_release(&b);
    free(line);
    return found;
}
