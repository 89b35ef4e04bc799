// core/picture/zipped.c -- finds and reads files in ZIP archives.
#include "core/picture/zipped.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zip.h>

#include "core/base/file_in.h"
#include "core/base/folder.h"
#include "core/base/mem.h"
#include "core/base/names.h"
#include "core/base/text.h"

// --- archives ------------------------------------------------------------------------------------

struct archive {
    char *path;
    struct stat st;
    zip_t *zip;
    struct names names; // base names of its entries
    int64_t *last;      // [names.count] the last entry with that name
    int64_t *before;    // [entries] the entry before it with the same name; -1: none
};

enum { OPEN_MOST = 256 }; // archives; each is an open file, and a process can often open only 1024

static struct archive archives[OPEN_MOST]; // the most recently opened last
static size_t archive_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // guards the archives

static void archive_release(struct archive *a)
{
    if (a->zip) zip_discard(a->zip);
    names_release(&a->names);
    free(a->last);
    free(a->before);
    free(a->path);
    *a = (struct archive){ 0 };
}

static void forget(size_t i)
{
    archive_release(&archives[i]);
    archive_count--;
    memmove(&archives[i], &archives[i + 1], (archive_count - i) * sizeof *archives);
}

static void list_entries(struct archive *a)
{
    const int64_t count = zip_get_num_entries(a->zip, 0);
    size_t room = 0;
    a->before = xcalloc((size_t)count + 1, sizeof *a->before);
    for (int64_t i = 0; i < count; i++) {
        const char *name = zip_get_name(a->zip, (zip_uint64_t)i, 0);
        bool known;
        if (!name || !strncmp(name, "__MACOSX/", 9)) continue;
        const size_t n = names_add(&a->names, text_file_name(name), &known);
        a->last = xgrow(a->last, &room, n, sizeof *a->last);
        a->before[i] = known ? a->last[n] : -1;
        a->last[n] = i;
    }
}

static int open_zip(struct archive *a, struct err *err)
{
    int code = 0;
    const int fd = file_in_open(a->path, err);
    if (fd < 0) return -1;
    a->zip = zip_fdopen(fd, 0, &code); // on success, takes fd
    if (a->zip) {
        list_entries(a);
        return 0;
    }
    zip_error_t e;
    close(fd);
    zip_error_init_with_code(&e, code);
    err_set(err, "'%s' cannot be read as a ZIP archive: %s", a->path, zip_error_strerror(&e));
    zip_error_fini(&e);
    return -1;
}

static bool is_file(const char *path, struct stat *st)
{
    return stat(path, st) == 0 && S_ISREG(st->st_mode);
}

// Returns the open archive; NULL: it does not exist (*err stays empty), or cannot be read.
static struct archive *archive_at(const char *path, struct err *err)
{
    struct archive new = { 0 };
    size_t i = 0;
    if (!is_file(path, &new.st)) return NULL;
    while (i < archive_count && strcmp(archives[i].path, path) != 0) i++;
    if (i < archive_count) {
        const struct stat *was = &archives[i].st;
        if (was->st_dev == new.st.st_dev && was->st_ino == new.st.st_ino &&
            was->st_size == new.st.st_size && was->st_mtim.tv_sec == new.st.st_mtim.tv_sec &&
            was->st_mtim.tv_nsec == new.st.st_mtim.tv_nsec)
            return &archives[i];
        forget(i);
    }
    if (archive_count == OPEN_MOST) forget(0);
    new.path = xstrdup(path);
    if (open_zip(&new, err) < 0) {
        archive_release(&new);
        return NULL;
    }
    archives[archive_count] = new;
    return &archives[archive_count++];
}

// --- entries -------------------------------------------------------------------------------------

struct entry {
    struct archive *archive;
    int64_t number;
};

// Finds the file `name` at the top level of the archive or in its folder `top` ("": none), else in
// any folder. Returns 1; 0: not found; -1: several folders have it.
static int find_in(struct archive *a, const char *top, const char *name, struct entry *e,
                   struct err *err)
{
    const size_t length = strlen(name), folder = strlen(top);
    const char *other = NULL;
    size_t n;
    if (!names_find(&a->names, text_file_name(name), &n)) return 0;
    *e = (struct entry){ a, -1 };
    for (int64_t i = a->last[n]; i >= 0; i = a->before[i]) {
        const char *whole = zip_get_name(a->zip, (zip_uint64_t)i, 0);
        const size_t all = strlen(whole);
        if (all < length || strcmp(whole + all - length, name) != 0) continue;
        if (all > length && whole[all - length - 1] != '/') continue;
        if (e->number >= 0) other = whole;
        e->number = i;
        if (all == length || (all == folder + 1 + length && !strncmp(whole, top, folder))) return 1;
    }
    if (!other) return e->number >= 0;
    return err_set(err, "'%s' has several files named '%s', one of them '%s': unpack it (unzip)",
                   a->path, name, other);
}

static bool is_archive(const char *file)
{
    static const char *const endings[] = { ".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz", ".7z" };
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (text_ends(file, endings[i])) return true;
    return false;
}

// Lists the archives of a folder. Keeps the last list while the folder is unchanged, because each
// picture that is not in its folder needs it; the list stays with this function.
static char **list_archives(const char *folder)
{
    static char *last, **list;
    static struct timespec changed;
    struct stat st = { 0 };
    stat(folder, &st);
    if (last && !strcmp(last, folder) && st.st_mtim.tv_sec == changed.tv_sec &&
        st.st_mtim.tv_nsec == changed.tv_nsec)
        return list;
    if (last) folder_list_free(list);
    free(last);
    last = xstrdup(folder);
    changed = st.st_mtim;
    list = folder_list(folder);
    size_t count = 0;
    for (char **file = list; *file; file++)
        if (is_archive(*file))
            list[count++] = *file;
        else
            free(*file);
    list[count] = NULL;
    return list;
}

// Finds a file in the ZIP archives of a folder. A damaged one is an error only if no other has the
// file.
static int find_beside(const char *folder, const char *name, struct entry *e, struct err *err)
{
    const char *other = NULL;
    struct err damaged = { 0 };
    int found = 0;
    for (char **file = list_archives(folder); *file && !found; file++) {
        if (!text_ends(*file, ".zip")) {
            other = *file;
            continue;
        }
        char *path = xasprintf("%s/%s", folder, *file);
        struct archive *a = archive_at(path, &damaged);
        if (a) found = find_in(a, "", name, e, err);
        free(path);
    }
    if (!found && *damaged.text)
        return err_set(err, "no file '%s/%s', and %s", folder, name, damaged.text);
    if (!found && other)
        return err_set(err,
                       "no file '%s/%s': if it is in '%s', unpack that archive (vlmsh reads only "
                       "ZIP archives)",
                       folder, name, other);
    return found;
}

static int find(const char *path, struct entry *e, struct err *err)
{
    char *folder = xstrdup(path), *slash;
    int found = 0;
    bool is_folder = false;
    while (!found && !is_folder && (slash = strrchr(folder, '/')) && slash > folder) {
        struct stat st;
        struct err why = { 0 };
        const char *name = path + (slash - folder) + 1;
        *slash = 0;
        char *beside = text_ends(folder, ".zip") ? xstrdup(folder) : xasprintf("%s.zip", folder);
        struct archive *a = archive_at(beside, &why);
        if (a)
            found = find_in(a, text_file_name(folder), name, e, err);
        else if (*why.text)
            found = err_set(err, "%s", why.text);
        free(beside);
        is_folder = stat(folder, &st) == 0 && S_ISDIR(st.st_mode);
        if (!found && is_folder) found = find_beside(folder, name, e, err);
    }
    if (!found && !is_folder && *path != '/') found = find_beside(".", path, e, err);
    free(folder);
    return found;
}

// Reads the whole entry and one byte more: libzip compares size and checksum at the end.
static char *read_entry(const struct entry *e, size_t limit, size_t *size, struct err *err)
{
    zip_t *zip = e->archive->zip;
    const char *path = e->archive->path;
    const char *name = zip_get_name(zip, (zip_uint64_t)e->number, 0);
    zip_stat_t st;
    zip_stat_init(&st);
    if (zip_stat_index(zip, (zip_uint64_t)e->number, 0, &st) < 0 || !(st.valid & ZIP_STAT_SIZE)) {
        err_set(err, "'%s' in '%s' has no size", name, path);
        return NULL;
    }
    if (st.valid & ZIP_STAT_ENCRYPTION_METHOD && st.encryption_method != ZIP_EM_NONE) {
        err_set(err, "'%s' in '%s' is encrypted: unpack it (unzip asks for the password)", name,
                path);
        return NULL;
    }
    if (st.size > limit) {
        err_set(err, "'%s' in '%s' is too large: more than %zu MB", name, path, limit >> 20);
        return NULL;
    }
    zip_file_t *f = zip_fopen_index(zip, (zip_uint64_t)e->number, 0);
    if (!f) {
        err_set(err, "'%s' in '%s': %s", name, path, zip_strerror(zip));
        return NULL;
    }
    char *bytes = xmalloc((size_t)st.size + 1), more;
    size_t at = 0;
    zip_int64_t n = 1;
    while (at < st.size && n > 0)
        if ((n = zip_fread(f, bytes + at, st.size - at)) > 0) at += (size_t)n;
    if (n >= 0) n = zip_fread(f, &more, 1);
    const bool good = at == st.size && n == 0;
    if (!good)
        err_set(err, "'%s' in '%s' is damaged: %s", name, path,
                n < 0 ? zip_error_strerror(zip_file_get_error(f)) : "its size is wrong");
    zip_fclose(f);
    *size = at;
    bytes[at] = 0;
    if (good) return bytes;
    free(bytes);
    return NULL;
}

int zipped_find(const char *path, struct err *err)
{
    struct entry e = { 0 };
    pthread_mutex_lock(&lock);
    const int found = find(path, &e, err);
    pthread_mutex_unlock(&lock);
    return found;
}

int zipped_read(const char *path, size_t limit, char **bytes, size_t *size, struct err *err)
{
    struct entry e = { 0 };
    pthread_mutex_lock(&lock);
    int found = find(path, &e, err);
    if (found > 0 && e.archive && !(*bytes = read_entry(&e, limit, size, err))) found = -1;
    pthread_mutex_unlock(&lock);
    return found;
}
