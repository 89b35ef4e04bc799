// core/files/parquet_pages.c -- the pages of a chunk, and decoding them (apache/parquet-format,
// README.md, "Data Pages"; Encodings.md).
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/cancel.h"
#include "core/files/parquet_parts.h"

// Limits of cached decoded pages (a linear search finds a block). The pages of the last rows are
// kept even beyond these limits, because threads read questions and pictures alternately.
enum { KEPT_BYTES = 64 << 20, KEPT_BLOCKS = 256, LAST_ROWS = 8 };

enum encoding { PLAIN, PLAIN_DICTIONARY = 2, RLE = 3, BIT_PACKED = 4, RLE_DICTIONARY = 8 };

static const struct parquet_node *node_of(const struct parquet *p, size_t leaf)
{
    return &p->nodes[p->leaves[leaf]];
}

// --- headers -------------------------------------------------------------------------------------

enum kind { DATA = 0, DICTIONARY = 2, DATA_V2 = 3 };

static uint32_t size_of(struct thrift *t, const struct thrift_field *f)
{
    return (uint32_t)thrift_within(t, f, 0, PARQUET_MAX_BYTES);
}

// Reads a DataPageHeader or DictionaryPageHeader, or with v2 a DataPageHeaderV2.
static void read_data(struct thrift *t, bool v2, struct parquet_page *g)
{
    struct thrift_field f = { 0 };
    while (thrift_next(t, &f))
        if (f.id == 1)
            g->values = size_of(t, &f);
        else if (f.id == (v2 ? 4 : 2))
            g->encoding = (int)size_of(t, &f);
        else if (!v2 && f.id == 3 && f.type == THRIFT_I32)
            g->def_encoding = (int)size_of(t, &f);
        else if (!v2 && f.id == 4)
            g->rep_encoding = (int)size_of(t, &f);
        else if (v2 && f.id == 5)
            g->def_size = size_of(t, &f);
        else if (v2 && f.id == 6)
            g->rep_size = size_of(t, &f);
        else if (v2 && f.id == 7)
            g->compressed = thrift_bool(t, &f);
        else
            thrift_skip(t, &f);
}

// Reads a PageHeader; g->size bytes follow it. Returns -1 if it is broken.
static int read_header(struct thrift *t, int64_t *kind, struct parquet_page *g)
{
    struct thrift_field f = { 0 };
    *g = (struct parquet_page){ .compressed = true, .rep_encoding = RLE, .def_encoding = RLE };
    *kind = -1;
    while (thrift_next(t, &f)) switch (f.id) {
        case 1: *kind = thrift_int(t, &f); break;
        case 2: g->unpacked = size_of(t, &f); break;
        case 3: g->size = size_of(t, &f); break;
        case 5:
        case 7:
        case 8:
            if (thrift_struct(t, &f)) read_data(t, f.id == 8, g);
            break;
        default: thrift_skip(t, &f);
        }
    g->v2 = *kind == DATA_V2;
    if (g->v2 && ((uint64_t)g->def_size + g->rep_size > g->size ||
                  (uint64_t)g->def_size + g->rep_size > g->unpacked))
        t->broken = true;
    return t->broken || g->size > (uint64_t)(t->end - t->at) ? -1 : 0;
}

static int scan_pages(const struct parquet *p, struct parquet_chunk *c, struct err *err)
{
    size_t size = 0;
    int64_t values = 0, kind;
    struct thrift t = { .at = p->map + c->at, .end = p->map + c->at + c->size };
    c->page_count = 0;
    while (t.at < t.end && values < c->values) {
        const uint64_t start = (uint64_t)(t.at - p->map);
        struct parquet_page g;
        if (read_header(&t, &kind, &g) < 0)
            return err_set(err, t.cancelled ? "cancelled" : "a page's header is broken");
        g.at = (uint64_t)(t.at - p->map);
        g.first = values;
        t.at += g.size;
        if (kind == DICTIONARY) {
            c->dictionary = start;
            c->dictionary_bytes = g.unpacked + (uint64_t)g.values * sizeof(union parquet_value);
        }
        if ((kind != DATA && kind != DATA_V2) || !g.values) continue;
        values += g.values;
        c->pages = xgrow(c->pages, &size, c->page_count, sizeof *c->pages);
        c->pages[c->page_count++] = g;
    }
    return values == c->values ? 0 : err_set(err, "its pages do not hold all rows");
}

// Finds the pages of a chunk, unless they were found before.
static int find_pages(struct parquet *p, size_t group, size_t leaf, struct err *err)
{
    struct parquet_group *g = &p->groups[group];
    struct parquet_chunk *c = &g->chunks[leaf];
    if (c->pages) return 0;
    // The fault is kept, so that the pages are not searched again for each row.
    if (c->fault) return err_set(err, "%s", c->fault);
    int status = scan_pages(p, c, err);
    // Without lists, each row has exactly one level.
    if (status == 0 && !node_of(p, leaf)->rep && c->values != g->rows)
        status = err_set(err, "its pages do not hold all rows");
    if (status == 0) return 0;
    if (!cancel_requested()) c->fault = xstrdup(err ? err->text : "its pages cannot be found");
    free(c->pages);
    c->pages = NULL;
    c->page_count = 0;
    return -1;
}

// --- values --------------------------------------------------------------------------------------

struct bytes {
    const uint8_t *at, *end;
};

static bool take(struct bytes *b, void *to, size_t size)
{
    if (size > (size_t)(b->end - b->at)) return false;
    memcpy(to, b->at, size);
    b->at += size;
    return true;
}

static bool take_bytes(struct bytes *b, uint32_t size, union parquet_value *v)
{
    if (size > (size_t)(b->end - b->at)) return false;
    v->bytes.at = (const char *)b->at;
    v->bytes.size = size;
    b->at += size;
    return true;
}

// Reads one value in plain encoding; `i`: its index, needed because booleans are single bits.
static bool take_plain(struct bytes *b, const struct parquet_node *n, size_t i,
                       union parquet_value *v)
{
    int32_t whole;
    uint32_t size;
    float real;
    switch (n->type) {
    case PARQUET_BOOLEAN:
        if (i / 8 >= (size_t)(b->end - b->at)) return false;
        v->integer = b->at[i / 8] >> (i % 8) & 1;
        return true;
    case PARQUET_INT32:
        if (!take(b, &whole, sizeof whole)) return false;
        v->integer = whole;
        return true;
    case PARQUET_INT64: return take(b, &v->integer, sizeof v->integer);
    case PARQUET_INT96: return take_bytes(b, 12, v);
    case PARQUET_FLOAT:
        if (!take(b, &real, sizeof real)) return false;
        v->real = (double)real;
        return true;
    case PARQUET_DOUBLE: return take(b, &v->real, sizeof v->real);
    case PARQUET_BYTES: return take(b, &size, sizeof size) && take_bytes(b, size, v);
    case PARQUET_FIXED: return take_bytes(b, (uint32_t)n->size, v);
    default: return false;
    }
}

struct dictionary {
    union parquet_value *values;
    size_t count;
};

static void keep_buffer(struct parquet_block *b, char *buffer, size_t size)
{
    b->buffers = xgrow(b->buffers, &b->buffer_capacity, b->buffer_count, sizeof *b->buffers);
    b->buffers[b->buffer_count++] = buffer;
    b->bytes += size;
}

// Returns memory pages of the mapping to the system: they are rarely needed again, and a large file
// would fill memory.
static void leave(const struct parquet *p, uint64_t at, uint64_t size)
{
    const uint64_t step = (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t from = at / step * step;
    madvise((void *)(uintptr_t)(p->map + from), (size_t)(at + size - from), MADV_DONTNEED);
}

static int read_dictionary(const struct parquet *p, struct parquet_block *b, struct dictionary *d,
                           struct err *err)
{
    const struct parquet_chunk *c = &p->groups[b->group].chunks[b->leaf];
    struct thrift t = { .at = p->map + c->dictionary, .end = p->map + c->at + c->size };
    struct parquet_page g;
    int64_t kind;
    if (!c->dictionary) return err_set(err, "its dictionary is missing");
    if (read_header(&t, &kind, &g) < 0 || kind != DICTIONARY || g.values > PARQUET_MAX_LEVELS)
        return err_set(err, "its dictionary is broken");
    if (g.encoding != PLAIN && g.encoding != PLAIN_DICTIONARY)
        return err_set(err, "its dictionary has an encoding that is not supported (%d)",
                       g.encoding);
    char *buffer = parquet_unpack(c->codec, t.at, g.size, g.unpacked, err);
    leave(p, c->dictionary, g.size);
    if (!buffer) return -1;
    keep_buffer(b, buffer, g.unpacked);
    d->count = (size_t)g.values;
    d->values = xcalloc(d->count + 1, sizeof *d->values);
    struct bytes from = { (const uint8_t *)buffer, (const uint8_t *)buffer + g.unpacked };
    for (size_t i = 0; i < d->count; i++)
        if (!take_plain(&from, node_of(p, b->leaf), i, &d->values[i]))
            return err_set(err, "its dictionary is cut off");
    return 0;
}

static const char *encoding_name(int encoding)
{
    static const char *const names[] = {
        "PLAIN",          "GROUP_VAR_INT",       "PLAIN_DICTIONARY",        "RLE",
        "BIT_PACKED",     "DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY",
        "RLE_DICTIONARY", "BYTE_STREAM_SPLIT"
    };
    return (size_t)encoding < sizeof names / sizeof *names ? names[encoding] : "unknown";
}

// Decodes runs of dictionary indexes, or of booleans, into the levels that have a value.
static int decode_runs(const struct parquet_node *n, struct bytes from, int width, size_t present,
                       const struct dictionary *d, const uint8_t *def, size_t count,
                       union parquet_value *to, struct err *err)
{
    uint32_t *numbers = xcalloc(present + 1, sizeof *numbers);
    int status = parquet_hybrid(from.at, from.end, width, present, numbers)
                     ? 0
                     : err_set(err, "a page is cut off");
    for (size_t i = 0, k = 0; i < count && status == 0; i++) {
        if (def && def[i] < n->def) continue;
        if (!d)
            to[i].integer = numbers[k++];
        else if (numbers[k] < d->count)
            to[i] = d->values[numbers[k++]];
        else
            status = err_set(err, "its dictionary lacks an entry");
    }
    free(numbers);
    return status;
}

// Decodes the values of a page: to[i] for each level with a value.
static int decode_values(const struct parquet *p, size_t leaf, const struct parquet_page *g,
                         struct bytes from, const struct dictionary *d, const uint8_t *def,
                         union parquet_value *to, struct err *err)
{
    const struct parquet_node *n = node_of(p, leaf);
    const size_t count = (size_t)g->values;
    size_t present = 0;
    uint32_t size;
    for (size_t i = 0; i < count; i++) present += !def || def[i] == n->def;
    if (g->encoding == PLAIN) {
        for (size_t i = 0, k = 0; i < count; i++)
            if ((!def || def[i] == n->def) && !take_plain(&from, n, k++, &to[i]))
                return err_set(err, "a page is cut off");
        return 0;
    }
    if (g->encoding == RLE && n->type == PARQUET_BOOLEAN) {
        if (!take(&from, &size, sizeof size) || size > (size_t)(from.end - from.at))
            return err_set(err, "a page is cut off");
        from.end = from.at + size;
        return decode_runs(n, from, 1, present, NULL, def, count, to, err);
    }
    if (g->encoding != PLAIN_DICTIONARY && g->encoding != RLE_DICTIONARY)
        return err_set(err,
                       "it has the encoding %s, which is not supported: write the file with plain "
                       "or dictionary encoding",
                       encoding_name(g->encoding));
    if (!present) return 0;
    uint8_t width;
    if (!take(&from, &width, 1) || width > 32) return err_set(err, "a page is broken");
    return decode_runs(n, from, width, present, d, def, count, to, err);
}

// --- levels --------------------------------------------------------------------------------------

// Decodes the levels of a page, each at most `most`, from the bytes of `from`. `sized`: the
// length of the levels precedes them.
static int decode_levels(struct bytes *from, bool sized, int most, size_t count, uint8_t *to,
                         struct err *err)
{
    uint32_t size = 0;
    if (sized && !take(from, &size, sizeof size)) return err_set(err, "a page is cut off");
    if (!sized) size = (uint32_t)(from->end - from->at);
    if (size > (size_t)(from->end - from->at)) return err_set(err, "a page is cut off");
    const uint8_t *start = from->at;
    int bits = 0;
    while (most >> bits) bits++;
    from->at += size;
    uint32_t *levels = xcalloc(count + 1, sizeof *levels);
    bool good = parquet_hybrid(start, from->at, bits, count, levels) != NULL;
    for (size_t i = 0; i < count && good; i++) {
        good = levels[i] <= (uint32_t)most;
        to[i] = (uint8_t)levels[i];
    }
    free(levels);
    return good ? 0 : err_set(err, "the levels of a page are broken");
}

// Decodes levels and values of a page into b from level `at` on. In v2 the levels precede the
// compressed bytes; in v1 they are compressed with the values.
static int decode_page(const struct parquet *p, struct parquet_block *b,
                       const struct parquet_page *g, size_t at, const struct dictionary *d,
                       struct err *err)
{
    const struct parquet_node *n = node_of(p, b->leaf);
    const uint32_t levels = g->v2 ? g->rep_size + g->def_size : 0;
    const uint8_t *start = p->map + g->at;
    const int codec = g->compressed ? p->groups[b->group].chunks[b->leaf].codec : 0;
    const size_t count = (size_t)g->values, unpacked = g->unpacked - levels;
    char *buffer = parquet_unpack(codec, start + levels, g->size - levels, unpacked, err);
    if (!buffer) return -1;
    keep_buffer(b, buffer, unpacked);
    struct bytes from = { (const uint8_t *)buffer, (const uint8_t *)buffer + unpacked };
    struct bytes rep = { start, start + g->rep_size };
    struct bytes def = { start + g->rep_size, start + levels };
    int other = n->def ? g->def_encoding : RLE;
    if (n->rep && g->rep_encoding != RLE) other = g->rep_encoding;
    if (other != RLE)
        return err_set(err, "its levels have the encoding %s, which is not supported",
                       encoding_name(other));
    if (n->rep && decode_levels(g->v2 ? &rep : &from, !g->v2, n->rep, count, b->rep + at, err) < 0)
        return -1;
    if (n->def && decode_levels(g->v2 ? &def : &from, !g->v2, n->def, count, b->def + at, err) < 0)
        return -1;
    return decode_values(p, b->leaf, g, from, d, b->def ? b->def + at : NULL, b->values + at, err);
}

// --- blocks --------------------------------------------------------------------------------------

static void free_block(struct parquet_block *b)
{
    if (!b) return;
    for (size_t i = 0; i < b->buffer_count; i++) free(b->buffers[i]);
    free(b->buffers);
    free(b->rep);
    free(b->def);
    free(b->values);
    free(b->starts);
    free(b);
}

// Finds the first level of each row of a chunk with lists.
static int find_starts(struct parquet_block *b, struct err *err)
{
    size_t row = 0;
    b->starts = xcalloc((size_t)b->rows + 1, sizeof *b->starts);
    for (size_t i = 0; i < b->count; i++)
        if (!b->rep[i]) {
            if (row >= (size_t)b->rows)
                return err_set(err, "its pages hold more rows than its row group has");
            b->starts[row++] = (uint32_t)i;
        }
    if (row != (size_t)b->rows || (b->count && b->rep[0]))
        return err_set(err, "its pages do not hold all rows");
    b->starts[row] = (uint32_t)b->count;
    return 0;
}

static void release_oldest(struct parquet *p)
{
    size_t oldest = 0;
    for (size_t i = 1; i < p->block_count; i++)
        if (p->blocks[i]->used < p->blocks[oldest]->used) oldest = i;
    free_block(p->blocks[oldest]);
    p->blocks[oldest] = p->blocks[--p->block_count];
}

static uint64_t kept_bytes(const struct parquet *p, uint64_t *oldest_use)
{
    uint64_t bytes = 0;
    *oldest_use = p->clock;
    for (size_t i = 0; i < p->block_count; i++) {
        bytes += p->blocks[i]->bytes;
        if (p->blocks[i]->used < *oldest_use) *oldest_use = p->blocks[i]->used;
    }
    return bytes;
}

// Allocates `count` levels and makes sure that the decoded pages fit into PARQUET_MAX_BYTES.
static int reserve(struct parquet *p, struct parquet_block *b, int64_t count,
                   const struct parquet_page *pages, size_t page_count, struct err *err)
{
    const struct parquet_node *n = node_of(p, b->leaf);
    if (count > PARQUET_MAX_LEVELS)
        return err_set(
            err,
            "one chunk holds %lld values, but at most %d are supported: write the file with "
            "smaller row groups",
            (long long)count, PARQUET_MAX_LEVELS);
    b->count = (size_t)count;
    b->bytes = b->count * (sizeof *b->values + (n->rep > 0) + (n->def > 0)) +
               (n->rep ? ((uint64_t)b->rows + 1) * sizeof *b->starts : 0);
    uint64_t all = b->bytes + p->groups[b->group].chunks[b->leaf].dictionary_bytes;
    for (size_t i = 0; i < page_count; i++) all += pages[i].unpacked;
    // Releases pages of other rows until the block fits.
    uint64_t used, kept;
    while ((kept = kept_bytes(p, &used)) + all > PARQUET_MAX_BYTES && used < p->clock)
        release_oldest(p);
    if (kept + all > PARQUET_MAX_BYTES)
        return err_set(
            err,
            "the pages of one row take %llu MB together, but at most %d MB are supported: write "
            "the file with smaller row groups",
            (unsigned long long)((kept + all) >> 20), PARQUET_MAX_BYTES >> 20);
    b->values = xcalloc(b->count + 1, sizeof *b->values);
    if (n->rep) b->rep = xcalloc(b->count + 1, 1);
    if (n->def) b->def = xcalloc(b->count + 1, 1);
    return 0;
}

// Returns the memory of a decoded page, without its levels.
static uint64_t page_bytes(const struct parquet_page *g)
{
    return g->unpacked + (uint64_t)g->values * sizeof(union parquet_value);
}

static bool is_coded(const struct parquet_page *g)
{
    return g->encoding == PLAIN_DICTIONARY || g->encoding == RLE_DICTIONARY;
}

static int decode_pages(struct parquet *p, struct parquet_block *b,
                        const struct parquet_page *pages, size_t count, struct err *err)
{
    struct dictionary d = { 0 };
    int status = 0;
    size_t at = 0;
    bool coded = false;
    for (size_t i = 0; i < count; i++) coded |= is_coded(&pages[i]);
    if (coded) status = read_dictionary(p, b, &d, err);
    for (size_t i = 0; i < count && status == 0; i++) {
        // Ctrl-C cancels only a row that takes long; other rows are read to their end.
        status = p->row_bytes > KEPT_BYTES && cancel_requested()
                     ? err_set(err, "cancelled")
                     : decode_page(p, b, &pages[i], at, &d, err);
        if (status < 0) break;
        p->row_bytes += page_bytes(&pages[i]);
        leave(p, pages[i].at, pages[i].size);
        at += (size_t)pages[i].values;
    }
    free(d.values);
    return status;
}

// Counts the pages from `first` on that one block takes: several small ones that refer to a
// dictionary, because each block decodes the dictionary again. *rows: their rows.
static size_t count_pages(const struct parquet_chunk *c, const struct parquet_page *first,
                          int64_t *rows)
{
    const struct parquet_page *g = first, *end = c->pages + c->page_count;
    uint64_t bytes = 0;
    *rows = 0;
    do {
        bytes += page_bytes(g);
        *rows += g++->values;
    } while (g < end && is_coded(g - 1) && is_coded(g) && bytes < c->dictionary_bytes &&
             bytes + page_bytes(g) < KEPT_BYTES / 2);
    return (size_t)(g - first);
}

static struct parquet_block *read_block(struct parquet *p, size_t group, size_t leaf, int64_t row,
                                        struct err *err)
{
    if (find_pages(p, group, leaf, err) < 0) return NULL;
    const struct parquet_group *g = &p->groups[group];
    const struct parquet_chunk *c = &g->chunks[leaf];
    const bool lists = node_of(p, leaf)->rep > 0;
    const struct parquet_page *pages = c->pages;
    if (!lists) // each level is one row
        pages += parquet_search(pages, c->page_count, sizeof *pages,
                                offsetof(struct parquet_page, first), row);
    struct parquet_block *b = xcalloc(1, sizeof *b);
    b->group = group;
    b->leaf = leaf;
    // NOLINTNEXTLINE(clang-analyzer-*): a chunk with rows has pages
    b->first = lists ? 0 : pages->first;
    b->rows = g->rows;
    const size_t count = lists ? c->page_count : count_pages(c, pages, &b->rows);
    int status = lists && g->rows > c->values
                     ? err_set(err, "its pages do not hold all rows")
                     : reserve(p, b, lists ? c->values : b->rows, pages, count, err);
    if (status == 0) status = decode_pages(p, b, pages, count, err);
    if (status == 0 && lists) status = find_starts(b, err);
    if (status == 0) return b;
    free_block(b);
    return NULL;
}

struct parquet_block *parquet_block(struct parquet *p, size_t group, size_t leaf, int64_t row,
                                    struct err *err)
{
    for (size_t i = 0; i < p->block_count; i++) {
        struct parquet_block *b = p->blocks[i];
        if (b->group == group && b->leaf == leaf && row >= b->first && row - b->first < b->rows) {
            b->used = p->clock;
            return b;
        }
    }
    struct parquet_block *b = read_block(p, group, leaf, row, err);
    if (!b) {
        parquet_err_in(p, leaf, err);
        return NULL;
    }
    b->used = p->clock;
    p->blocks = xreallocarray(p->blocks, p->block_count + 1, sizeof(struct parquet_block *));
    p->blocks[p->block_count++] = b;
    return b;
}

void parquet_trim(struct parquet *p)
{
    uint64_t used;
    while ((kept_bytes(p, &used) > KEPT_BYTES || p->block_count > KEPT_BLOCKS) &&
           used + LAST_ROWS < p->clock)
        release_oldest(p);
}

void parquet_release_pages(struct parquet *p)
{
    for (size_t i = 0; i < p->block_count; i++) free_block(p->blocks[i]);
    free(p->blocks);
    p->blocks = NULL;
    p->block_count = 0;
}
