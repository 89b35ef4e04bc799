// core/files/parquet.c -- reads a parquet file's footer: the schema and the chunks of the row
// groups (apache/parquet-format, src/main/thrift/parquet.thrift: FileMetaData).
#include "core/files/parquet.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/file_in.h"
#include "core/files/parquet_parts.h"

enum { MAGIC = 4, TAIL = 8, DEPTH = 16, NODES = DEPTH * PARQUET_MAX_LEAVES };

static int broken(const struct parquet *p, const char *what, struct err *err)
{
    return err_set(err, "'%s' is a broken parquet file: %s", p->path, what);
}

// --- the schema ----------------------------------------------------------------------------------

enum { UTF8 = 0, LIST = 3 }; // values of ConvertedType

// Reads a SchemaElement. *children: the number of children; 0 for a leaf.
static struct parquet_node read_node(struct thrift *t, int64_t *children)
{
    struct parquet_node n = { .type = PARQUET_GROUP };
    struct thrift_field f = { 0 };
    *children = 0;
    while (thrift_next(t, &f)) {
        size_t size;
        const char *name;
        int64_t v;
        switch (f.id) {
        case 1:
            n.type = (enum parquet_type)thrift_within(t, &f, PARQUET_BOOLEAN, PARQUET_FIXED);
            break;
        case 2: n.size = (int)thrift_within(t, &f, 0, PARQUET_MAX_BYTES); break;
        case 3:
            n.repetition =
                (enum parquet_repetition)thrift_within(t, &f, PARQUET_REQUIRED, PARQUET_REPEATED);
            break;
        case 4:
            name = thrift_binary(t, &f, &size);
            free(n.name);
            if (size && memchr(name, 0, size)) t->broken = true;
            n.name = xstrndup(name, size);
            break;
        case 5: *children = thrift_int(t, &f); break;
        case 6:
            v = thrift_int(t, &f);
            n.text = v == UTF8;
            n.list = v == LIST;
            break;
        default: thrift_skip(t, &f);
        }
    }
    if (!n.name) n.name = xstrdup("");
    return n;
}

// A picture is a struct with the fields "bytes" and "path", or plain bytes in a top-level column
// whose name begins with "image".
static bool is_picture(const struct parquet *p, size_t i, int depth)
{
    const struct parquet_node *n = &p->nodes[i];
    if (n->type == PARQUET_BYTES)
        return depth == 1 && !n->text && n->repetition != PARQUET_REPEATED &&
               !strncmp(n->name, "image", 5);
    if (n->type != PARQUET_GROUP || n->end != i + 3) return false;
    const struct parquet_node *a = n + 1, *b = n + 2;
    if (a->type != PARQUET_BYTES || b->type != PARQUET_BYTES || a->repetition == PARQUET_REPEATED ||
        b->repetition == PARQUET_REPEATED)
        return false;
    return (!strcmp(a->name, "bytes") && !strcmp(b->name, "path")) ||
           (!strcmp(a->name, "path") && !strcmp(b->name, "bytes"));
}

struct schema {
    struct parquet *p;
    struct thrift *t;
    size_t left; // nodes still to read
};

// Reads one node and all nodes below it.
// NOLINTNEXTLINE(misc-no-recursion): at most DEPTH deep
static int read_tree(struct schema *s, int depth, int def, int rep)
{
    struct parquet *p = s->p;
    int64_t children;
    if (!s->left || depth > DEPTH) return -1;
    s->left--;
    const size_t i = p->node_count++;
    struct parquet_node *n = &p->nodes[i];
    *n = read_node(s->t, &children);
    if (s->t->broken || (n->type == PARQUET_GROUP) != (children > 0)) return -1;
    if (!depth && n->type != PARQUET_GROUP) return -1;
    if (!depth) n->repetition = PARQUET_REQUIRED; // the root's repetition has no meaning
    n->def = def + (n->repetition != PARQUET_REQUIRED);
    n->rep = rep + (n->repetition == PARQUET_REPEATED);
    n->leaf = p->leaf_count;
    if (n->type != PARQUET_GROUP) p->leaves[p->leaf_count++] = i;
    for (int64_t k = 0; k < children; k++)
        if (read_tree(s, depth + 1, n->def, n->rep) < 0) return -1;
    n->end = p->node_count;
    n->list = n->list && children == 1 && n[1].repetition == PARQUET_REPEATED;
    n->picture = is_picture(p, i, depth);
    return 0;
}

static int read_schema(struct parquet *p, struct thrift *t, const struct thrift_field *f)
{
    const size_t count = thrift_list(t, f, THRIFT_STRUCT);
    if (!count || count > NODES || p->nodes) return -1;
    p->nodes = xcalloc(count, sizeof *p->nodes);
    p->leaves = xcalloc(count, sizeof *p->leaves);
    struct schema s = { p, t, count };
    return read_tree(&s, 0, 0, 0) < 0 || s.left ? -1 : 0;
}

// --- row groups ----------------------------------------------------------------------------------

// Reads the ColumnMetaData of a leaf whose type is `type`.
static void read_column(struct thrift *t, enum parquet_type type, struct parquet_chunk *c)
{
    struct thrift_field f = { 0 };
    int64_t data = -1, dictionary = -1, size = -1, v;
    while (thrift_next(t, &f)) switch (f.id) {
        case 1:
            if (thrift_int(t, &f) != (int64_t)type) t->broken = true;
            break;
        case 4:
            v = thrift_int(t, &f);
            c->codec = v >= 0 && v < 100 ? (int)v : 100;
            break;
        case 5: c->values = thrift_int(t, &f); break;
        case 7: size = thrift_int(t, &f); break;
        case 9: data = thrift_int(t, &f); break;
        case 11: dictionary = thrift_int(t, &f); break;
        default: thrift_skip(t, &f);
        }
    // A dictionary precedes the data pages. Without a dictionary, some writers set its offset to 0.
    const int64_t at = dictionary > 0 && dictionary < data ? dictionary : data;
    if (at < MAGIC || size < 0 || c->values < 0) t->broken = true;
    c->at = t->broken ? 0 : (uint64_t)at;
    c->size = t->broken ? 0 : (uint64_t)size;
}

// Reads a ColumnChunk.
static void read_chunk(struct thrift *t, enum parquet_type type, struct parquet_chunk *c)
{
    struct thrift_field f = { 0 };
    bool found = false;
    while (thrift_next(t, &f))
        if (f.id == 3 && !found && thrift_struct(t, &f)) {
            read_column(t, type, c);
            found = true;
        } else if (f.id == 1) {
            t->broken = true; // the pages are in another file
        } else {
            thrift_skip(t, &f);
        }
    if (!found) t->broken = true;
}

// Reads a RowGroup.
static int read_group(struct parquet *p, struct thrift *t, struct parquet_group *g)
{
    struct thrift_field f = { 0 };
    g->rows = -1;
    while (thrift_next(t, &f)) {
        if (f.id == 1 && !g->chunks) {
            if (thrift_list(t, &f, THRIFT_STRUCT) != p->leaf_count) return -1;
            g->chunks = xcalloc(p->leaf_count, sizeof *g->chunks);
            for (size_t i = 0; i < p->leaf_count && !t->broken; i++)
                read_chunk(t, p->nodes[p->leaves[i]].type, &g->chunks[i]);
        } else if (f.id == 3) {
            g->rows = thrift_int(t, &f);
        } else {
            thrift_skip(t, &f);
        }
    }
    return t->broken || g->rows < 0 || !g->chunks ? -1 : 0;
}

static int read_groups(struct parquet *p, struct thrift *t, const struct thrift_field *f)
{
    const size_t count = thrift_list(t, f, THRIFT_STRUCT);
    size_t room = 0;
    if (t->broken || p->groups || !p->nodes) return -1;
    p->groups = xgrow(NULL, &room, 0, sizeof *p->groups);
    for (size_t i = 0; i < count; i++) {
        p->groups = xgrow(p->groups, &room, i, sizeof *p->groups);
        struct parquet_group *g = &p->groups[p->group_count++];
        *g = (struct parquet_group){ 0 };
        if (read_group(p, t, g) < 0) return -1;
        g->first = p->rows;
        // Every row of a data set takes at least one byte.
        if (g->rows > (int64_t)p->size - p->rows) return -1;
        p->rows += g->rows;
    }
    return 0;
}

// --- the file ------------------------------------------------------------------------------------

// Checks that the chunks lie before the footer, and together have no more bytes than precede it:
// otherwise they would share bytes, which would be scanned once for each chunk.
static int check_chunks(const struct parquet *p, uint64_t footer, struct err *err)
{
    uint64_t left = footer;
    for (size_t i = 0; i < p->group_count; i++)
        for (size_t k = 0; k < p->leaf_count; k++) {
            const struct parquet_chunk *c = &p->groups[i].chunks[k];
            if (c->at > footer || c->size > footer - c->at) {
                err_set(err, "its pages are beyond the end of the file");
                parquet_err_in(p, k, err);
                return -1;
            }
            if (c->size > left) return broken(p, "columns share pages", err);
            left -= c->size;
        }
    return 0;
}

static int read_footer(struct parquet *p, struct err *err)
{
    uint32_t length;
    const uint8_t *tail = p->map + p->size - TAIL;
    if (p->size < MAGIC + TAIL || memcmp(p->map, "PAR1", MAGIC) != 0)
        return broken(p, "it does not begin with PAR1", err);
    if (!memcmp(tail + MAGIC, "PARE", MAGIC))
        return err_set(err, "'%s' is encrypted, which is not supported", p->path);
    if (memcmp(tail + MAGIC, "PAR1", MAGIC) != 0)
        return broken(p, "it does not end with PAR1 (is the download complete?)", err);
    memcpy(&length, tail, sizeof length);
    if (length > p->size - MAGIC - TAIL)
        return broken(p, "its footer is larger than the file", err);
    struct thrift t = { .at = tail - length, .end = tail };
    struct thrift_field f = { 0 };
    int status = 0;
    while (status == 0 && thrift_next(&t, &f))
        if (f.id == 2)
            status = read_schema(p, &t, &f);
        else if (f.id == 4)
            status = read_groups(p, &t, &f);
        else
            thrift_skip(&t, &f);
    if (t.cancelled) return err_set(err, "cancelled");
    if (status < 0 || t.broken || !p->nodes || !p->groups)
        return broken(p, "its footer cannot be read", err);
    if (p->leaf_count > PARQUET_MAX_LEAVES)
        return err_set(err, "'%s' has %zu columns; at most %d are supported", p->path,
                       p->leaf_count, PARQUET_MAX_LEAVES);
    return check_chunks(p, p->size - TAIL - length, err);
}

int parquet_open(struct parquet *p, const char *path, struct err *err)
{
    *p = (struct parquet){ .path = xstrdup(path) };
    p->map = file_map(path, &p->size, err);
    if (p->map && p->size < MAGIC + TAIL)
        broken(p, "it is too short", err);
    else if (p->map && read_footer(p, err) == 0)
        return 0;
    parquet_close(p);
    return -1;
}

void parquet_close(struct parquet *p)
{
    parquet_release_pages(p);
    for (size_t i = 0; i < p->group_count; i++) {
        struct parquet_group *g = &p->groups[i];
        for (size_t k = 0; g->chunks && k < p->leaf_count; k++) {
            free(g->chunks[k].pages);
            free(g->chunks[k].fault);
        }
        free(g->chunks);
    }
    free(p->groups);
    for (size_t i = 0; i < p->node_count; i++) free(p->nodes[i].name);
    free(p->nodes);
    free(p->leaves);
    if (p->map) munmap((void *)(uintptr_t)p->map, (size_t)p->size);
    free(p->path);
    *p = (struct parquet){ 0 };
}

void parquet_err_in(const struct parquet *p, size_t leaf, struct err *err)
{
    struct buf b = { 0 };
    // Writes the names of the nodes that contain the leaf, from the root down.
    for (size_t i = 1; i <= p->leaves[leaf]; i++)
        if (p->nodes[i].end > p->leaves[leaf])
            buf_printf(&b, "%s%s", b.length ? "." : "", p->nodes[i].name);
    err_in(err, "'%s', column '%.200s'", p->path, b.data ? b.data : "");
    buf_release(&b);
}
