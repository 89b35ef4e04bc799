// core/sets/index.c -- the rows of a TSV file.
//
// pandas writes the file: fields with tabs, quotes or newlines are quoted, with doubled quotes.
// The cached index holds a header, the rows, the texts of columns and keys, and a SHA-256 of all
// these. A damaged or outdated index is rebuilt.
#include "core/sets/index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/cancel.h"
#include "core/base/file_in.h"
#include "core/base/file_out.h"
#include "core/base/places.h"
#include "core/base/text.h"
#include "core/sets/columns.h"

enum {
    BLOCK = 4 << 20,
    KEY_MAX = 4096,       // bytes of an unquoted "index" or column name
    COLUMNS_MAX = 4096,   // of a row
    KEEP_FROM = 64 << 20, // smallest file in bytes whose index is cached
    LONG = 64 << 20       // bytes after which reading can be cancelled
};

static const uint64_t row_max = 1ULL << 30;
static const char image_name[] = "image", key_name[] = "index";

// --- the pass ------------------------------------------------------------------------------------

struct pass {
    struct set_index *x;
    size_t room, key_room;
    uint64_t at; // offset of the next byte
    struct set_row row;
    uint64_t field_at; // offset of the field in the file
    size_t column;
    int image, key; // columns; -1: none
    const struct set_columns *columns;
    struct names file_columns; // as the file names them
    bool quoted, quote_seen, in_field, header;
    char last;       // last byte of the previous block
    struct buf text; // of the field if needed: names of columns, keys
    struct hash hash;
};

// Numbers a repeated column name, as pandas does.
static void add_column(struct names *columns, const char *name)
{
    bool known;
    names_add(columns, name, &known);
    for (int i = 1; known; i++) {
        char *numbered = xasprintf("%s.%d", name, i);
        names_add(columns, numbered, &known);
        free(numbered);
    }
}

static void add_key(struct pass *p, const char *key)
{
    struct set_index *x = p->x;
    bool known;
    const size_t number = names_add(&x->keys, key, &known);
    x->key_rows = xgrow(x->key_rows, &p->key_room, number, sizeof *x->key_rows);
    x->key_rows[number] = known ? SET_ROWS : x->count;
}

static void end_field(struct pass *p, uint64_t end)
{
    struct set_index *x = p->x;
    if (p->header) {
        const char *column = p->text.data ? p->text.data : "";
        const char *name = set_columns_key(p->columns, column);
        if (!name) name = "";
        if (*column) names_add(&p->file_columns, column, NULL);
        add_column(&x->columns, name);
        if (!strcmp(name, image_name)) p->image = (int)p->column;
        if (!strcmp(name, key_name)) p->key = (int)p->column;
    } else if ((int)p->column == p->image) {
        p->row.image_at = p->field_at - p->row.at;
        p->row.image_size = end - p->field_at;
    } else if ((int)p->column == p->key) {
        add_key(p, p->text.data ? p->text.data : "");
    }
    buf_clear(&p->text);
    p->column++;
    p->in_field = p->quoted = p->quote_seen = false;
}

// `end`: offset of the row's end, before its newline.
static int end_row(struct pass *p, uint64_t end, struct err *err)
{
    struct set_index *x = p->x;
    p->row.size = end - p->row.at;
    const bool blank = !p->row.size;
    if (!blank) end_field(p, end);
    if (!blank && !p->header) {
        if (p->row.size > row_max)
            return err_set(err, "row %lld of '%s' has more than %llu MB", (long long)x->count,
                           x->path, (unsigned long long)(row_max >> 20));
        x->rows = xgrow(x->rows, &p->room, (size_t)x->count, sizeof *x->rows);
        x->rows[x->count++] = p->row;
    }
    if (!blank && p->header && set_columns_check(p->columns, &p->file_columns, x->path, err) < 0)
        return -1;
    if (!blank) p->header = false;
    p->row = (struct set_row){ .at = p->at + 1 };
    p->column = 0;
    p->in_field = p->quoted = p->quote_seen = false;
    return 0;
}

static bool wanted(const struct pass *p)
{
    return p->header || (int)p->column == p->key;
}

static int pass_byte(struct pass *p, char c, char before, struct err *err)
{
    if (!c && wanted(p))
        return err_set(err, "'%s' has a zero byte in %s: it is damaged, or not a text", p->x->path,
                       p->header ? "its first line" : "its column \"index\"");
    if (!p->in_field) {
        p->field_at = p->at;
        p->in_field = true;
        p->quoted = c == '"';
        if (p->quoted) return 0;
    }
    if (p->quote_seen && c != '"') p->quoted = p->quote_seen = false; // as in set_index_field
    if (p->quoted && !p->quote_seen && c == '"') {
        p->quote_seen = true;
    } else if (p->quoted && p->quote_seen && c == '"') {
        p->quote_seen = false;
        if (wanted(p)) buf_putc(&p->text, c);
    } else if (p->quoted && !p->quote_seen) {
        if (wanted(p)) buf_putc(&p->text, c);
    } else if (c == '\t') {
        if (p->column + 1 == COLUMNS_MAX)
            return err_set(err, "a row of '%s' has more than %d columns", p->x->path, COLUMNS_MAX);
        end_field(p, p->at);
    } else if (c == '\n') {
        const uint64_t end = before == '\r' && p->at > p->row.at ? p->at - 1 : p->at;
        if (p->text.length && p->text.data[p->text.length - 1] == '\r')
            p->text.data[--p->text.length] = 0;
        return end_row(p, end, err);
    } else if (wanted(p)) {
        if (p->text.length > KEY_MAX)
            return err_set(err, "a name in '%s' has more than %d bytes", p->x->path, KEY_MAX);
        buf_putc(&p->text, c);
    }
    return 0;
}

// Skips unquoted fields that are not needed: most of the file is pictures.
static size_t skip(struct pass *p, const char *block, size_t i, size_t size)
{
    if (!p->in_field || p->quoted || wanted(p)) return i;
    const char *q = block + i, *end = block + size;
    while (q < end && *q != '\t' && *q != '\n') q++;
    p->at += (uint64_t)(q - block) - i;
    return (size_t)(q - block);
}

static int pass_block(struct pass *p, const char *block, size_t size, struct err *err)
{
    hash_add(&p->hash, block, size);
    for (size_t i = 0; i < size; i++, p->at++) {
        i = skip(p, block, i, size);
        if (i == size) break;
        if (pass_byte(p, block[i], i ? block[i - 1] : p->last, err) < 0) return -1;
    }
    p->last = block[size - 1];
    return 0;
}

static int pass_file(struct pass *p, struct err *err)
{
    struct set_index *x = p->x;
    char *block = xmalloc(BLOCK);
    int status = 0;
    ssize_t n = 0;
    uint64_t from = 0;
    while (status == 0 && (n = pread(x->file, block, BLOCK, (off_t)from)) > 0) {
        const size_t mark = from ? 0 : text_mark(block, (size_t)n);
        if (mark) p->at = p->row.at = 3;
        from += (uint64_t)n;
        if (from > LONG && cancel_requested()) status = err_set(err, "cancelled");
        if (status == 0 && (size_t)n > mark)
            status = pass_block(p, block + mark, (size_t)n - mark, err);
    }
    if (n < 0) status = err_set(err, "cannot read '%s': %s", x->path, strerror(errno));
    if (status == 0 && p->quoted && !p->quote_seen)
        status = err_set(err, "'%s' ends inside a quoted field: it is truncated", x->path);
    if (status == 0 && p->at > p->row.at) status = end_row(p, p->at, err);
    free(block);
    return status;
}

static void forget(struct set_index *x)
{
    names_release(&x->columns);
    names_release(&x->keys);
    free(x->rows);
    free(x->key_rows);
    *x = (struct set_index){ .file = x->file, .path = x->path };
}

// --- the cache -----------------------------------------------------------------------------------

struct kept {
    char magic[8];
    uint64_t size, seconds, nanoseconds; // of the file
    uint64_t rows, columns, keys, texts; // bytes of the texts
    char hash[72];                       // of the file
};

static const char magic[] = "vlmset3";

static char *kept_path(const char *path)
{
    char hex[HASH_HEX], *whole = realpath(path, NULL);
    const char *name = whole ? whole : path;
    hash_hex(name, strlen(name), hex);
    char *file = xasprintf("sets/%.32s.index", hex);
    char *result = places_file("XDG_CACHE_HOME", ".cache", file);
    free(file);
    free(whole);
    return result;
}

static struct kept describe(const struct set_index *x, const struct stat *st)
{
    struct kept k = { .size = (uint64_t)st->st_size,
                      .seconds = (uint64_t)st->st_mtim.tv_sec,
                      .nanoseconds = (uint64_t)st->st_mtim.tv_nsec,
                      .rows = (uint64_t)x->count,
                      .columns = x->columns.count,
                      .keys = x->keys.count };
    memcpy(k.magic, magic, sizeof magic);
    memcpy(k.hash, x->hash, sizeof x->hash);
    return k;
}

static void put_names(struct buf *b, const struct names *names)
{
    for (size_t i = 0; i < names->count; i++)
        buf_add(b, names->list[i], strlen(names->list[i]) + 1);
}

// Errors are ignored: without the cache, the next run rebuilds the index.
static void keep(const struct set_index *x, const struct stat *st)
{
    struct buf b = { 0 }, texts = { 0 };
    struct kept k = describe(x, st);
    char hex[HASH_HEX], *path = kept_path(x->path);
    struct err ignored;
    put_names(&texts, &x->columns);
    put_names(&texts, &x->keys);
    k.texts = texts.length;
    buf_add(&b, &k, sizeof k);
    buf_add(&b, x->rows, (size_t)x->count * sizeof *x->rows);
    if (x->keys.count) buf_add(&b, x->key_rows, x->keys.count * sizeof *x->key_rows);
    buf_add(&b, texts.data, texts.length);
    hash_hex(b.data, b.length, hex);
    buf_add(&b, hex, HASH_HEX);
    if (path && places_make_parents(path, &ignored) == 0)
        file_out_update(path, b.data, b.length, &ignored);
    free(path);
    buf_release(&texts);
    buf_release(&b);
}

static bool take_names(struct names *names, uint64_t count, const char **at, const char *end)
{
    bool known = false;
    for (uint64_t i = 0; i < count && !known; i++) {
        const char *stop = *at < end ? memchr(*at, 0, (size_t)(end - *at)) : NULL;
        if (!stop) return false;
        names_add(names, *at, &known);
        *at = stop + 1;
    }
    return !known;
}

// True if each row is inside the file, each picture inside its row, and each key has a row.
static bool index_fits(const struct set_index *x, uint64_t size)
{
    for (int64_t i = 0; i < x->count; i++) {
        const struct set_row *r = &x->rows[i];
        if (r->at > size || r->size > size - r->at || r->size > row_max || r->image_at > r->size ||
            r->image_size > r->size - r->image_at)
            return false;
    }
    for (size_t i = 0; i < x->keys.count; i++)
        if (x->key_rows[i] != SET_ROWS && (x->key_rows[i] < 0 || x->key_rows[i] >= x->count))
            return false;
    return true;
}

static bool take_kept(struct set_index *x, const char *bytes, size_t size, const struct stat *st)
{
    const size_t row = sizeof *x->rows, key = sizeof *x->key_rows;
    struct kept k, now = describe(x, st);
    char hex[HASH_HEX];
    if (size < sizeof k + HASH_HEX) return false;
    memcpy(&k, bytes, sizeof k);
    hash_hex(bytes, size - HASH_HEX, hex);
    size_t body = size - sizeof k - HASH_HEX;
    if (memcmp(hex, bytes + size - HASH_HEX, HASH_HEX) != 0 ||
        memcmp(&k, &now, offsetof(struct kept, rows)) != 0 || !k.rows || k.rows > body / row ||
        k.keys > k.rows)
        return false;
    body -= (size_t)k.rows * row;
    if (k.keys > body / key || k.texts != body - (size_t)k.keys * key) return false;
    const char *at = bytes + sizeof k + (size_t)k.rows * row;
    x->rows = xreallocarray(NULL, (size_t)k.rows, row);
    memcpy(x->rows, bytes + sizeof k, (size_t)k.rows * row);
    x->key_rows = xreallocarray(NULL, (size_t)k.keys + 1, key);
    memcpy(x->key_rows, at, (size_t)k.keys * key);
    at += (size_t)k.keys * key;
    const char *end = at + k.texts;
    x->count = (int64_t)k.rows;
    memcpy(x->hash, k.hash, HASH_HEX - 1);
    return take_names(&x->columns, k.columns, &at, end) && take_names(&x->keys, k.keys, &at, end) &&
           at == end && index_fits(x, k.size);
}

static bool read_kept(struct set_index *x, const struct stat *st)
{
    char *path = kept_path(x->path), *bytes = NULL;
    size_t size = 0;
    struct err ignored;
    if (path && access(path, F_OK) == 0) bytes = file_read(path, (size_t)1 << 31, &size, &ignored);
    const bool good = bytes && take_kept(x, bytes, size, st);
    if (!good) forget(x);
    free(bytes);
    free(path);
    return good;
}

// --- reading -------------------------------------------------------------------------------------

int set_index_open(struct set_index *x, const char *path, const struct set_columns *columns,
                   struct err *err)
{
    struct stat st;
    *x = (struct set_index){ .path = xstrdup(path), .file = file_in_open(path, err) };
    if (x->file < 0 || fstat(x->file, &st) < 0) {
        set_index_close(x);
        return -1;
    }
    // The cached index has the file's own column names, so it is used only without --columns.
    const bool large = st.st_size >= KEEP_FROM && !columns->count;
    x->kept = large && read_kept(x, &st);
    if (x->kept) return 0;
    struct pass p = { .x = x, .image = -1, .key = -1, .header = true, .columns = columns };
    hash_start(&p.hash);
    int status = pass_file(&p, err);
    hash_end(&p.hash, x->hash);
    buf_release(&p.text);
    names_release(&p.file_columns);
    if (status == 0 && !x->count) status = err_set(err, "'%s' contains no rows", path);
    if (status == 0 && large) keep(x, &st);
    if (status < 0) set_index_close(x);
    return status;
}

void set_index_close(struct set_index *x)
{
    if (x->path && x->file >= 0) close(x->file);
    forget(x);
    free(x->path);
    *x = (struct set_index){ .file = -1 };
}

static int read_bytes(const struct set_index *x, uint64_t at, uint64_t size, struct buf *text,
                      struct err *err)
{
    char *bytes = xmalloc((size_t)size + 1);
    const ssize_t n = file_read_at(x->file, bytes, (size_t)size, at);
    if (n > 0) buf_add(text, bytes, (size_t)n);
    free(bytes);
    if (n >= 0 && (uint64_t)n == size) return 0;
    return err_set(err, "'%s' was truncated while it was read", x->path);
}

int set_index_read(const struct set_index *x, int64_t row, struct buf *text, struct err *err)
{
    const struct set_row *r = &x->rows[row];
    const uint64_t after = r->image_at + r->image_size;
    if (!r->image_size) return read_bytes(x, r->at, r->size, text, err);
    if (read_bytes(x, r->at, r->image_at, text, err) < 0) return -1;
    return read_bytes(x, r->at + after, r->size - after, text, err);
}

int set_index_image(const struct set_index *x, int64_t row, struct buf *text, struct err *err)
{
    const struct set_row *r = &x->rows[row];
    return read_bytes(x, r->at + r->image_at, r->image_size, text, err);
}

const char *set_index_field(struct scratch *s, const char **row)
{
    struct buf text = { 0 };
    const char *p = *row;
    bool quoted = *p == '"';
    for (p += quoted; *p && (quoted || *p != '\t'); p++) {
        if (quoted && *p == '"' && p[1] == '"')
            buf_putc(&text, *p++);
        else if (quoted && *p == '"')
            quoted = false;
        else
            buf_putc(&text, *p);
    }
    *row = p + (*p != 0);
    return scratch_take(s, &text);
}
