// core/base/file_out.c -- output files that the user names.
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
#include "core/base/text.h"
#include "core/base/unfinished.h"
#include "core/base/written.h"

// Returns 1 or 2 if standard output or standard error goes to `path` (/dev/stdout in `vlmsh >out`),
// else -1. Such a file is written through that descriptor: a new file would split the output in
// two, and opening the path again would overwrite the output from the beginning.
static int standard_of(const char *path)
{
    struct stat st, open;
    for (int fd = 1; fd <= 2; fd++)
        if (stat(path, &st) == 0 && fstat(fd, &open) == 0 && st.st_dev == open.st_dev &&
            st.st_ino == open.st_ino)
            return fd;
    return -1;
}

// Special files are written in place: a rename can replace only a regular file.
bool file_out_special(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && (!S_ISREG(st.st_mode) || standard_of(path) >= 0);
}

// --- files that may be replaced ------------------------------------------------------------------

static _Thread_local bool forced;

bool file_out_force(bool force)
{
    const bool before = forced;
    forced = force;
    return before;
}

enum { HEAD = 16 };

// Returns whether a file has at least `length` bytes; head[length] receives the first ones.
static bool read_head(const char *path, unsigned char *head, size_t length)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    const ssize_t n = fd < 0 ? -1 : read(fd, head, length);
    if (fd >= 0) close(fd);
    return n == (ssize_t)length;
}

static bool begins(const char *path, const char *magic, size_t length)
{
    unsigned char head[HEAD];
    return read_head(path, head, length) && !memcmp(head, magic, length);
}

static bool ends(const char *path, const char *end)
{
    const size_t n = strlen(path), e = strlen(end);
    return n > e && !strcasecmp(path + n - e, end);
}

// Recognises a database, and the files that SQLite keeps beside one, which may be empty or hold
// committed transactions.
static bool is_of_database(const char *path)
{
    static const char *const endings[] = { "", "-wal", "-shm", "-journal" };
    bool found = false;
    for (size_t i = 0; i < sizeof endings / sizeof *endings && !found; i++) {
        if (!ends(path, endings[i])) continue;
        char *base = xstrndup(path, strlen(path) - strlen(endings[i]));
        found = begins(base, "SQLite format 3", 16);
        free(base);
    }
    return found;
}

// Recognises files of a model by content or by a name that only model files have.
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
                                         "model.safetensors.index.json",
                                         NULL };
    static const char *const pickled[] = { ".bin", ".pt", ".pth", ".ckpt" };
    unsigned char head[9];
    // Safetensors: eight bytes of length, then a JSON object.
    uint64_t header = 0;
    const bool read = read_head(path, head, sizeof head);
    for (int i = 8; read && i-- > 0;) header = header << 8 | head[i];
    if (read && head[8] == '{' && header >= 2 && header <= (uint64_t)st->st_size - 8) return true;
    if (begins(path, "GGUF", 4) || ends(path, ".safetensors") || ends(path, ".gguf")) return true;
    for (size_t i = 0; i < sizeof pickled / sizeof *pickled; i++)
        if (ends(path, pickled[i]) && (begins(path, "PK\3\4", 4) || begins(path, "\x80\2", 2)))
            return true;
    return text_listed(names, text_file_name(path));
}

static int check_existing(const char *path, const char *target, const struct stat *st,
                          struct err *err)
{
    if (file_in_opened(st))
        return err_set(err,
                       "'%s' is read by this command, or is a picture of the conversation: choose "
                       "another name",
                       path);
    if (is_of_database(target))
        return err_set(err, "'%s' belongs to an SQLite database: choose another name", path);
    if (st->st_size && (is_model_file(path, st) || is_model_file(target, st)))
        return err_set(err, "'%s' is a file of a model: choose another name", path);
    if (!st->st_size || forced || written_unchanged(target)) return 0;
    return err_set(err,
                   "'%s' already exists, and vlmsh did not write it, or it has changed since: "
                   "choose another name, or add --force to replace it",
                   path);
}

static int check_folder(const char *path, struct err *err)
{
    char *target = unfinished_target(path), *folder = text_folder(target);
    const int status = access(folder, W_OK | X_OK) < 0
                           ? err_set(err, "cannot write '%s': %s", path, strerror(errno))
                           : 0;
    free(folder);
    free(target);
    return status;
}

int file_out_check(const char *path, struct err *err)
{
    struct stat st;
    if (file_out_special(path)) return 0;
    if (stat(path, &st) < 0) return check_folder(path, err);
    char *target = unfinished_target(path);
    const int status = check_existing(path, target, &st, err);
    free(target);
    return status;
}

// --- writing -------------------------------------------------------------------------------------

static FILE *begin(const char *path, struct err *err)
{
    const int standard = standard_of(path);
    int fd = -1;
    if (standard >= 0) {
        fflush(standard == 1 ? stdout : stderr); // to keep the order of outputs
        fd = fcntl(standard, F_DUPFD_CLOEXEC, 0);
    } else if (file_out_special(path)) {
        // With O_NONBLOCK, opening a pipe without a reader fails (ENXIO). Clearing it makes writes
        // block as usual.
        fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd >= 0) fcntl(fd, F_SETFL, 0);
    } else {
        char *target = unfinished_target(path);
        free(unfinished_begin(target, false, &fd));
        free(target);
    }
    FILE *f = fd < 0 ? NULL : fdopen(fd, "wb");
    if (!f && errno == ENXIO)
        err_set(err, "cannot write '%s': the reader of this pipe or socket has closed it", path);
    else if (!f)
        err_set(err, "cannot write '%s': %s", path, strerror(errno));
    if (!f && fd >= 0) close(fd);
    return f;
}

// Returns the name of the unfinished file; NULL for a special file, which has none.
static char *part_of(FILE *f, const char *path)
{
    char link[64], part[PATH_MAX];
    if (file_out_special(path)) return NULL;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fileno(f));
    const ssize_t n = readlink(link, part, sizeof part);
    return xstrndup(part, n > 0 && n < PATH_MAX ? (size_t)n : 0); // "" cannot be renamed
}

int file_out_close_work(FILE *f, const char *path, struct err *err)
{
    char *part = part_of(f, path), *target = unfinished_target(path);
    const int status = unfinished_end(f, part, target, path, false, err);
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
    if (status == 0 && !file_out_special(path)) written_record(path);
    return status;
}

void file_out_abandon(FILE *f, const char *path)
{
    char *part = part_of(f, path);
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
