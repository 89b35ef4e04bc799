// core/base/file_out.c -- files that commands write by name.
#include "core/base/file_out.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file_in.h"
#include "core/base/mem.h"
#include "core/base/unfinished.h"
#include "core/base/written.h"

// Standard output or standard error when `path` is the same file (/dev/stdout in `vlmsh >out`),
// else -1. Written into by its descriptor: a file in its place would part the two, and one opened
// anew would be written over from its beginning.
static int standard_of(const char *path)
{
    struct stat st, open;
    for (int fd = 1; fd <= 2; fd++)
        if (stat(path, &st) == 0 && fstat(fd, &open) == 0 && st.st_dev == open.st_dev &&
            st.st_ino == open.st_ino)
            return fd;
    return -1;
}

// Something that is there and no plain file cannot be put in place by a rename.
bool file_out_special(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && (!S_ISREG(st.st_mode) || standard_of(path) >= 0);
}

// --- what may be replaced ------------------------------------------------------------------------

static _Thread_local bool forced;

bool file_out_force(bool force)
{
    const bool before = forced;
    forced = force;
    return before;
}

enum { HEAD = 16 };

// Returns the number of bytes read.
static size_t read_head(const char *path, unsigned char head[HEAD])
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    const ssize_t n = fd < 0 ? 0 : read(fd, head, HEAD);
    if (fd >= 0) close(fd);
    return n < 0 ? 0 : (size_t)n;
}

static bool begins(const unsigned char *head, size_t n, const char *magic, size_t length)
{
    return n >= length && !memcmp(head, magic, length);
}

// Eight bytes of length, then a JSON object.
static bool is_safetensors(const unsigned char *head, size_t n, off_t size)
{
    uint64_t header = 0;
    for (int i = 8; n > 8 && i-- > 0;) header = header << 8 | head[i];
    return n > 8 && head[8] == '{' && header >= 2 && header <= (uint64_t)size - 8;
}

static bool ends(const char *path, const char *end)
{
    const size_t n = strlen(path), e = strlen(end);
    return n > e && !strcasecmp(path + n - e, end);
}

static bool is_database(const char *path)
{
    unsigned char head[HEAD] = { 0 };
    return begins(head, read_head(path, head), "SQLite format 3", 16);
}

// The files that SQLite keeps beside a database may be empty, or hold committed transactions.
static bool is_beside_database(const char *path)
{
    static const char *const endings[] = { "-wal", "-shm", "-journal" };
    bool found = false;
    for (size_t i = 0; i < sizeof endings / sizeof *endings && !found; i++) {
        if (!ends(path, endings[i])) continue;
        char *base = xstrndup(path, strlen(path) - strlen(endings[i]));
        found = is_database(base);
        free(base);
    }
    return found;
}

// By content, or by names that only files of a model have.
static bool is_model_file(const char *path, const struct stat *st)
{
    static const char *const names[] = { "config.json",
                                         "generation_config.json",
                                         "adapter_config.json",
                                         "tokenizer.json",
                                         "tokenizer_config.json",
                                         "special_tokens_map.json",
                                         "added_tokens.json",
                                         "preprocessor_config.json",
                                         "processor_config.json",
                                         "chat_template.json",
                                         "chat_template.jinja",
                                         "video_preprocessor_config.json",
                                         "vocab.json",
                                         "merges.txt",
                                         "tokenizer.model",
                                         "tiktoken.model",
                                         "model.safetensors.index.json" };
    static const char *const pickled[] = { ".bin", ".pt", ".pth", ".ckpt" };
    unsigned char head[HEAD];
    const size_t n = read_head(path, head);
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (begins(head, n, "GGUF", 4) || is_safetensors(head, n, st->st_size)) return true;
    if (ends(path, ".safetensors") || ends(path, ".gguf")) return true;
    for (size_t i = 0; i < sizeof pickled / sizeof *pickled; i++)
        if (ends(path, pickled[i]) &&
            (begins(head, n, "PK\3\4", 4) || begins(head, n, "\x80\2", 2)))
            return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i])) return true;
    return false;
}

static int check_existing(const char *path, const char *target, const struct stat *st,
                          struct err *err)
{
    if (file_in_opened(st))
        return err_set(err,
                       "'%s' is read by this command, or is a picture of the conversation: choose "
                       "another name",
                       path);
    if (is_database(target) || is_beside_database(target))
        return err_set(err, "'%s' belongs to an SQLite database: choose another name", path);
    if (st->st_size && (is_model_file(path, st) || is_model_file(target, st)))
        return err_set(err, "'%s' is a file of a model: choose another name", path);
    if (!st->st_size || forced || written_unchanged(target)) return 0;
    return err_set(err,
                   "'%s' already exists, and vlmsh did not write it or it was changed since: "
                   "choose another name, or add --force to replace it",
                   path);
}

// The file that a link points to is replaced, not the link.
static char *target_of(const char *path)
{
    char *real = realpath(path, NULL);
    return real ? real : xstrdup(path);
}

int file_out_check(const char *path, struct err *err)
{
    struct stat st;
    if (stat(path, &st) < 0 || file_out_special(path)) return 0;
    char *target = target_of(path);
    const int status = check_existing(path, target, &st, err);
    free(target);
    return status;
}

// --- writing -------------------------------------------------------------------------------------

static FILE *open_standard(int fd)
{
    fflush(fd == 1 ? stdout : stderr); // what was written before comes before
    const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    FILE *f = copy < 0 ? NULL : fdopen(copy, "wb");
    if (!f && copy >= 0) close(copy);
    return f;
}

static FILE *stream_of(int fd)
{
    FILE *f = fd < 0 ? NULL : fdopen(fd, "wb");
    if (!f && fd >= 0) close(fd);
    return f;
}

// A pipe that nobody reads is an error (ENXIO), not something to wait for; writing waits for the
// reader as usual.
static FILE *open_special(const char *path)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0) fcntl(fd, F_SETFL, 0);
    return stream_of(fd);
}

static FILE *open_part(const char *path)
{
    int fd = -1;
    char *target = target_of(path), *part = unfinished_begin(target, false, &fd);
    free(part);
    free(target);
    return stream_of(fd);
}

// The name of the unfinished file; NULL if it cannot be known.
static char *part_of(FILE *f)
{
    char link[64], part[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fileno(f));
    const ssize_t n = readlink(link, part, sizeof part);
    return n > 0 && n < PATH_MAX ? xstrndup(part, (size_t)n) : NULL;
}

static FILE *begin(const char *path, struct err *err)
{
    const int standard = standard_of(path);
    FILE *f = standard >= 0            ? open_standard(standard)
              : file_out_special(path) ? open_special(path)
                                       : open_part(path);
    if (!f && errno == ENXIO)
        err_set(err, "cannot write '%s': the reader of this pipe or socket has closed it", path);
    else if (!f)
        err_set(err, "cannot write '%s': %s", path, strerror(errno));
    return f;
}

int file_out_close_work(FILE *f, const char *path, struct err *err)
{
    const bool special = file_out_special(path);
    char *part = special ? NULL : part_of(f), *target = target_of(path);
    errno = 0; // an earlier write's is lost
    int status = ferror(f) || fflush(f) ? -1 : 0, why = errno;
    // Keeps the lock until the rename: nobody takes the file for what a killed process left.
    const int held = special ? -1 : fcntl(fileno(f), F_DUPFD_CLOEXEC, 0);
    if (fclose(f) && status == 0) status = -1, why = errno;
    if (status == 0 && !special && (!part || rename(part, target) < 0)) status = -1, why = errno;
    if (held >= 0) close(held);
    if (status < 0) {
        if (part) unlink(part);
        err_set(err, "cannot write '%s': %s", path, why ? strerror(why) : "the disk may be full");
    }
    free(part);
    free(target);
    return status;
}

FILE *file_out_open(const char *path, struct err *err)
{
    return file_out_check(path, err) < 0 ? NULL : begin(path, err);
}

int file_out_close(FILE *f, const char *path, struct err *err)
{
    const int status = file_out_close_work(f, path, err);
    if (status == 0 && !file_out_special(path)) written_note(path);
    return status;
}

void file_out_abandon(FILE *f, const char *path)
{
    char *part = file_out_special(path) ? NULL : part_of(f);
    if (part) unlink(part);
    fclose(f);
    free(part);
}

int file_out_write(const char *path, const void *bytes, size_t size, struct err *err)
{
    FILE *f = file_out_open(path, err);
    if (!f) return -1;
    if (size) fwrite(bytes, 1, size, f);
    return file_out_close(f, path, err);
}

int file_out_update(const char *path, const void *bytes, size_t size, struct err *err)
{
    FILE *f = begin(path, err);
    if (!f) return -1;
    if (size) fwrite(bytes, 1, size, f);
    return file_out_close_work(f, path, err);
}
