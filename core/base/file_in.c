// core/base/file_in.c -- opens the data files that vlmsh reads.
#include "core/base/file_in.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "core/base/mem.h"

enum { LOOK_MS = 100 }; // between checks for Ctrl-C, whose signal may reach another thread

// Files opened since file_in_clear: a hash table with open addressing; keys are device and inode.
static pthread_mutex_t opened_lock = PTHREAD_MUTEX_INITIALIZER;
static struct opened {
    dev_t device;
    ino_t inode; // 0: a free slot
} * opened;
static size_t opened_count, opened_slots; // slots: a power of two, at least twice the count

// Returns the slot of a file, or the free slot for it.
static struct opened *opened_slot(dev_t device, ino_t inode)
{
    for (size_t at = (size_t)((inode ^ (device << 7)) * 0x9E3779B97F4A7C15u >> 20);; at++) {
        struct opened *slot = &opened[at & (opened_slots - 1)];
        if (!slot->inode || (slot->inode == inode && slot->device == device)) return slot;
    }
}

static void opened_add(const struct stat *st)
{
    pthread_mutex_lock(&opened_lock);
    if (2 * (opened_count + 1) > opened_slots) {
        struct opened *old = opened;
        const size_t count = opened_slots;
        opened_slots = count ? 2 * count : 64;
        opened = xcalloc(opened_slots, sizeof *opened);
        for (size_t i = 0; i < count; i++)
            if (old[i].inode) *opened_slot(old[i].device, old[i].inode) = old[i];
        free(old);
    }
    struct opened *slot = opened_slot(st->st_dev, st->st_ino);
    opened_count += !slot->inode;
    *slot = (struct opened){ st->st_dev, st->st_ino };
    pthread_mutex_unlock(&opened_lock);
}

bool file_same(const char *a, const char *b)
{
    if (!strcmp(a, b)) return true;
    char *x = realpath(a, NULL), *y = realpath(b, NULL);
    const bool same = x && y && !strcmp(x, y);
    free(x);
    free(y);
    return same;
}

bool file_is_below(const char *path, const char *folder)
{
    const size_t n = strcmp(folder, "/") ? strlen(folder) : 0;
    return !strncmp(path, folder, n) && path[n] == '/';
}

bool file_in_opened(const struct stat *st)
{
    pthread_mutex_lock(&opened_lock);
    const bool found = opened_count && opened_slot(st->st_dev, st->st_ino)->inode;
    pthread_mutex_unlock(&opened_lock);
    return found;
}

void file_in_record(const char *path)
{
    struct stat st;
    if (stat(path, &st) == 0) opened_add(&st);
}

void file_in_clear(void)
{
    pthread_mutex_lock(&opened_lock);
    free(opened);
    opened = NULL;
    opened_count = opened_slots = 0;
    pthread_mutex_unlock(&opened_lock);
}

const char *file_in_kind(mode_t mode)
{
    if (S_ISDIR(mode)) return "a folder";
    if (S_ISFIFO(mode)) return "a pipe";
    if (S_ISSOCK(mode)) return "a socket";
    return "a device";
}

// Refuses files in /proc: they look regular, but reading one may wait forever (/proc/kmsg), and
// none is a data file.
int file_in_check(int fd, const char *path, struct stat *st, struct err *err)
{
    struct statfs system;
    if (fstat(fd, st) < 0) return err_set(err, "cannot read '%s': %s", path, strerror(errno));
    if (!S_ISREG(st->st_mode) || fstatfs(fd, &system) < 0 || system.f_type != PROC_SUPER_MAGIC)
        return 0;
    return err_set(err, "cannot read '%s': it is a file of the kernel, not a data file", path);
}

// Opens a regular file, or with `any` everything but a folder. O_NONBLOCK: opening a named pipe
// does not wait for its writer.
static int open_checked(const char *path, bool any, struct stat *st, struct err *err)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) { // sockets, among others, cannot be opened
        const int why = errno;
        if (why == ENXIO && stat(path, st) == 0 && S_ISSOCK(st->st_mode))
            return err_set(err, "cannot read '%s': it is a socket, not a file", path);
        return err_set(err, "cannot open '%s': %s", path, strerror(why));
    }
    if (file_in_check(fd, path, st, err) == 0) {
        if (S_ISREG(st->st_mode) || (any && !S_ISDIR(st->st_mode))) return fd;
        err_set(err, "cannot read '%s': it is %s, not a file%s", path, file_in_kind(st->st_mode),
                S_ISFIFO(st->st_mode) ? " (save its output to a file first)" : "");
    }
    close(fd);
    return -1;
}

int file_in_open(const char *path, struct err *err)
{
    struct stat st = { 0 };
    const int fd = open_checked(path, false, &st, err);
    if (fd >= 0) opened_add(&st);
    return fd;
}

int file_in_open_any(const char *path, struct err *err)
{
    struct stat st = { 0 };
    return open_checked(path, true, &st, err);
}

int file_in_wait(int fd, const atomic_bool *cancel, struct err *err)
{
    for (;;) {
        struct pollfd p = { .fd = fd, .events = POLLIN };
        const int n = poll(&p, 1, LOOK_MS);
        if (n > 0) return 0;
        if (n < 0 && errno != EINTR)
            return err_set(err, "cannot wait for input: %s", strerror(errno));
        if (cancel && atomic_load(cancel)) return err_set(err, "cancelled");
    }
}

// Reads until the end. Reads a regular file with pread from its beginning, because other readers
// share the descriptor's offset. Before each read of any other file, waits until there is input or
// *cancel is true.
static char *read_all(int fd, const char *path, size_t limit, size_t *size,
                      const atomic_bool *cancel, struct err *err)
{
    struct buf b = { 0 };
    char block[65536];
    struct stat st;
    int status = file_in_check(fd, path, &st, err);
    const bool plain = status == 0 && S_ISREG(st.st_mode);
    while (status == 0) {
        if (!plain && (status = file_in_wait(fd, cancel, err)) < 0) break;
        const ssize_t n =
            plain ? pread(fd, block, sizeof block, (off_t)b.length) : read(fd, block, sizeof block);
        if (n == 0) break;
        if (n < 0 && (errno == EINTR || (errno == EAGAIN && !plain))) continue;
        if (n < 0)
            status = err_set(err, "cannot read '%s': %s", path, strerror(errno));
        else if (b.length + (size_t)n > limit)
            status = err_set(err, "'%s' is too large: more than %zu MB", path, limit >> 20);
        else
            buf_add(&b, block, (size_t)n);
        if (status < 0) break;
    }
    if (status < 0) {
        buf_release(&b);
        return NULL;
    }
    if (size) *size = b.length;
    return buf_take(&b);
}

char *file_read(const char *path, size_t limit, size_t *size, struct err *err)
{
    const int fd = file_in_open(path, err);
    if (fd < 0) return NULL;
    char *text = read_all(fd, path, limit, size, NULL, err);
    close(fd);
    return text;
}

static atomic_bool standard_read;

// Uses the open descriptor: opening /dev/stdin fails for a socket, or after permissions have
// changed.
char *file_read_standard(size_t limit, size_t *size, const atomic_bool *cancel, struct err *err)
{
    if (isatty(STDIN_FILENO)) {
        err_set(err, "standard input is the terminal: give a file instead of -");
        return NULL;
    }
    atomic_store(&standard_read, true);
    return read_all(STDIN_FILENO, "standard input", limit, size, cancel, err);
}

bool file_standard_was_read(void)
{
    return atomic_load(&standard_read);
}

ssize_t file_read_at(int fd, void *to, size_t size, uint64_t at)
{
    size_t done = 0;
    while (done < size) {
        const ssize_t n = pread(fd, (char *)to + done, size - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -1;
        if (n == 0) break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

void *file_map(const char *path, uint64_t *size, struct err *err)
{
    struct stat st;
    const int fd = file_in_open(path, err);
    if (fd < 0) return NULL;
    void *map = MAP_FAILED;
    if (fstat(fd, &st) < 0)
        err_set(err, "cannot read '%s': %s", path, strerror(errno));
    else if (!(*size = (uint64_t)st.st_size))
        err_set(err, "'%s' is empty: download it again", path);
    else if ((map = mmap(NULL, *size, PROT_READ, MAP_SHARED, fd, 0)) == MAP_FAILED)
        err_set(err, "cannot map '%s': %s", path, strerror(errno));
    close(fd);
    return map == MAP_FAILED ? NULL : map;
}

static void on_bus_error(int signal_number)
{
    // This thread was reading weights, so it holds no lock of the C library: stdio is safe enough.
    signal(signal_number, SIG_DFL);
    fatal("a model file was truncated or became unreadable while in use; load it again once it is "
          "restored (to replace model files, rename new ones over them instead of writing into "
          "them)");
}

void file_in_guard(void)
{
    struct sigaction action = { .sa_handler = on_bus_error };
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}

bool file_number(const char *path, const char *key, uint64_t *value)
{
    char line[256];
    bool found = false;
    FILE *f = fopen(path, "re");
    while (f && !found && fgets(line, sizeof line, f)) {
        char *end;
        if (strncmp(line, key, strlen(key)) != 0) continue;
        *value = strtoull(line + strlen(key), &end, 10);
        found = end != line + strlen(key);
    }
    if (f) fclose(f);
    return found;
}
