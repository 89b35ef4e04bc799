// core/sets/format_folder.c -- several files as one set: a folder, or a pattern ("BLINK/*/val-*").
//
// A folder's files are its parquet files, else its TSV files, JSON lines, JSON or CSV files,
// including those in its subfolders (BLINK has a folder for each task). Each file is read as if the
// user had named only this file; pictures keep their names "FILE#ROW.NUMBER".
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/folder.h"
#include "core/base/hash.h"
#include "core/base/names.h"
#include "core/base/text.h"
#include "core/data/dialogue.h"
#include "core/picture/image.h"
#include "core/picture/source.h"
#include "core/sets/format.h"

enum { DEPTH = 2 };

struct part {
    const struct set_format *format;
    void *self;
    char *path, *folder, *label;
    int64_t first; // index of its first row
};

struct parts {
    struct part *list;
    size_t count;
    bool collide; // files use the same ids for different rows
    char hash[HASH_HEX];
};

// --- the files -----------------------------------------------------------------------------------

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool set_folder_is(const char *path)
{
    return is_folder(path) || (strpbrk(path, "*?[") && access(path, F_OK) < 0);
}

// Adds the folder's files that have this ending.
// NOLINTNEXTLINE(misc-no-recursion): at most DEPTH deep
static void find_files(const char *folder, const char *ending, int depth, struct names *found)
{
    char **names = folder_list(folder);
    for (char **name = names; names && *name; name++) {
        char *path = folder_entry(folder, *name);
        if (is_folder(path) && depth > 1 && **name != '.')
            find_files(path, ending, depth - 1, found);
        else if (text_ends(*name, ending) && **name != '.' && !is_folder(path))
            names_add(found, path, NULL);
        free(path);
    }
    folder_list_free(names);
}

// Returns the length of a path without its ending and "-00000-of-00003".
static size_t stem_of(const char *path)
{
    const char *end = strrchr(text_file_name(path), '.');
    struct text_shard shard;
    if (text_shard(path, ".parquet", &shard)) return shard.stem;
    return end ? (size_t)(end - path) : strlen(path);
}

// Refuses a folder of several splits, which is usually a mistake: test splits lack answers.
static int check_splits(const char *path, const struct names *files, struct err *err)
{
    static const char *const splits[] = { "train", "dev", "val", "validation", "test" };
    const char *first = NULL;
    for (size_t i = 0; i < files->count; i++) {
        const char *file = files->list[i], *name = text_file_name(file);
        const size_t n = stem_of(file) - (size_t)(name - file);
        for (size_t k = 0; k < sizeof splits / sizeof *splits; k++) {
            if (strlen(splits[k]) != n || strncmp(name, splits[k], n) != 0) continue;
            if (first && first != splits[k])
                return err_set(err,
                               "'%s' has files of several splits, %s and %s: choose one with a "
                               "pattern, such as '%s/%s%s%c*'",
                               path, first, splits[k], path,
                               strchr(file + strlen(path) + 1, '/') ? "*/" : "", splits[k],
                               name[n]);
            first = splits[k];
        }
    }
    return 0;
}

// Lists the files; of several shards, only the first.
static int list_files(const char *path, struct names *files, struct err *err)
{
    static const char *const endings[] = { ".parquet", ".tsv", ".jsonl", ".json", ".csv" };
    struct names all = { 0 }, seen = { 0 };
    int status = 0;
    if (is_folder(path)) {
        for (size_t i = 0; !all.count && i < sizeof endings / sizeof *endings; i++)
            find_files(path, endings[i], DEPTH, &all);
        status = check_splits(path, &all, err);
        if (status == 0 && !all.count)
            status = err_set(err, "'%s' has no parquet, TSV, JSON or CSV files", path);
    } else {
        glob_t g = { 0 };
        if (glob(path, 0, NULL, &g) == 0)
            for (size_t i = 0; i < g.gl_pathc; i++)
                if (!is_folder(g.gl_pathv[i])) names_add(&all, g.gl_pathv[i], NULL);
        globfree(&g);
        if (!all.count) status = err_set(err, "no file matches '%s'", path);
    }
    for (size_t i = 0; status == 0 && i < all.count; i++) {
        const char *file = all.list[i];
        struct text_shard shard;
        bool known;
        char *whole = text_shard(file, ".parquet", &shard)
                          ? xasprintf("%.*s-of-%zu", (int)shard.stem, file, shard.count)
                          : xstrdup(file);
        names_add(&seen, whole, &known);
        if (!known) names_add(files, file, NULL);
        free(whole);
    }
    names_release(&seen);
    names_release(&all);
    return status;
}

int set_folder_check(const char *path, const struct set_columns *columns, struct err *err)
{
    struct names files = { 0 };
    int status = list_files(path, &files, err);
    for (size_t i = 0; status == 0 && i < files.count; i++)
        if (!set_format_of(files.list[i], columns, err)) status = -1;
    names_release(&files);
    return status;
}

// --- rows ----------------------------------------------------------------------------------------

static const struct part *part_of(const struct parts *p, int64_t index)
{
    size_t low = 0, high = p->count;
    while (high - low > 1) {
        const size_t middle = (low + high) / 2;
        if (p->list[middle].first <= index)
            low = middle;
        else
            high = middle;
    }
    return &p->list[low];
}

static int read_row(const struct parts *p, int64_t index, bool texts, struct set_record *r,
                    struct err *err)
{
    const struct part *part = part_of(p, index);
    const struct set_format *f = part->format;
    const int status =
        (texts && f->read_texts ? f->read_texts : f->read)(part->self, index - part->first, r, err);
    if (status < 0) return err_in(err, "'%s'", part->path);
    r->file = part->label;
    r->row = index - part->first;
    r->shared = p->collide;
    return 0;
}

// --- opening -------------------------------------------------------------------------------------

static void parts_close(void *self)
{
    struct parts *p = self;
    for (size_t i = 0; i < p->count; i++) {
        if (p->list[i].self) p->list[i].format->close(p->list[i].self);
        free(p->list[i].path);
        free(p->list[i].folder);
        free(p->list[i].label);
    }
    free(p->list);
    free(p);
}

// Returns the part of a file's path that distinguishes it from the files before it: without the
// folder and, unless another file has the same name, without the ending.
static char *label_of(const struct parts *p, const char *path, const char *file)
{
    size_t skip = is_folder(path) ? strlen(path) : strcspn(path, "*?[");
    while (!is_folder(path) && skip && path[skip - 1] != '/') skip--;
    while (file[skip] == '/') skip++;
    char *label = xstrndup(file + skip, stem_of(file) - skip);
    for (size_t i = 0; i < p->count; i++) {
        if (strcmp(p->list[i].label, label) != 0) continue;
        free(label);
        return xstrdup(file + skip);
    }
    return label;
}

// Hashes a row's texts and the names of its picture files.
static void hash_row(const struct set_record *r, char hex[HASH_HEX])
{
    struct hash h;
    char *text = cJSON_PrintUnformatted(r->json);
    hash_start(&h);
    hash_add(&h, text, strlen(text));
    for (size_t i = 0; i < r->picture_count; i++)
        if (!strrchr(r->pictures[i], '#')) hash_add(&h, r->pictures[i], strlen(r->pictures[i]));
    hash_end(&h, hex);
    cJSON_free(text);
}

// Finds out whether two files use an id for different rows. Compares only the first rows of each
// file, because reading all would take long. `rows`: number of rows in all files.
static void find_collisions(struct parts *p, int64_t rows)
{
    enum { LOOKED = 32 };
    struct names ids = { 0 };
    struct first {
        size_t file; // the last file that has the id
        char hex[HASH_HEX];
    } *first = xcalloc(p->count * LOOKED + 1, sizeof *first);
    for (size_t i = 0; i < p->count; i++) {
        const int64_t from = p->list[i].first;
        const int64_t end = i + 1 < p->count ? p->list[i + 1].first : rows;
        for (int64_t k = from; k < end && k < from + LOOKED; k++) {
            struct set_record r = { 0 };
            struct err ignored;
            bool known = false;
            const bool read = read_row(p, k, true, &r, &ignored) == 0;
            const char *id = read ? set_text(&r, "index") : NULL;
            if (id) {
                char hex[HASH_HEX];
                struct first *f = &first[names_add(&ids, id, &known)];
                hash_row(&r, hex);
                p->collide |= known && f->file != i && strcmp(f->hex, hex) != 0;
                if (!known) memcpy(f->hex, hex, sizeof hex);
                f->file = i;
            }
            set_record_release(&r);
        }
    }
    free(first);
    names_release(&ids);
}

static void *parts_open(const char *path, const char *folder, const struct set_columns *columns,
                        int64_t *count, struct err *err)
{
    struct parts *p = xcalloc(1, sizeof *p);
    struct names files = { 0 };
    int status = list_files(path, &files, err);
    p->list = xcalloc(files.count + 1, sizeof *p->list);
    *count = 0;
    for (size_t i = 0; status == 0 && i < files.count; i++) {
        const struct set_format *format = set_format_of(files.list[i], columns, err);
        if (!format) {
            status = -1;
            break;
        }
        struct part *part = &p->list[i];
        part->format = format;
        part->path = xstrdup(files.list[i]);
        part->folder = *folder ? xstrdup(folder) : path_folder(part->path);
        part->label = label_of(p, path, part->path);
        p->count++;
        part->first = *count;
        int64_t rows = 0;
        part->self = format->open(part->path, part->folder, columns, &rows, err);
        status = part->self ? 0 : err_in(err, "'%s'", part->path);
        *count += rows;
    }
    if (status == 0) find_collisions(p, *count);
    names_release(&files);
    if (status == 0) return p;
    parts_close(p);
    return NULL;
}

static const char *parts_hash(const void *self)
{
    struct parts *p = (struct parts *)(uintptr_t)self;
    struct hash all;
    struct err ignored;
    bool good = !*p->hash;
    hash_start(&all);
    for (size_t i = 0; i < p->count && good; i++) {
        char one[HASH_HEX];
        const struct part *part = &p->list[i];
        const char *known = part->format->hash ? part->format->hash(part->self) : NULL;
        good = known || hash_file(part->path, one, &ignored) == 0;
        if (good) hash_add(&all, known ? known : one, HASH_HEX - 1);
    }
    if (good) hash_end(&all, p->hash);
    return *p->hash ? p->hash : NULL;
}

static int parts_read(void *self, int64_t index, struct set_record *r, struct err *err)
{
    return read_row(self, index, false, r, err);
}

static int parts_read_texts(void *self, int64_t index, struct set_record *r, struct err *err)
{
    return read_row(self, index, true, r, err);
}

static char *parts_picture(void *self, const char *name, size_t *size, struct err *err)
{
    const struct parts *p = self;
    for (size_t i = 0; i < p->count; i++) {
        const struct part *part = &p->list[i];
        if (part->format->picture && set_picture_is_in(name, part->path))
            return part->format->picture(part->self, name, size, err);
    }
    return picture_source_read(name, IMAGE_MAX_FILE, size, err);
}

const struct set_format set_format_folder = {
    .name = "several files",
    .open = parts_open,
    .read = parts_read,
    .read_texts = parts_read_texts,
    .picture = parts_picture,
    .hash = parts_hash,
    .close = parts_close,
};
