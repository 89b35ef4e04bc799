// core/files/parquet_row.c -- assembles a row from the leaves' levels (Melnik et al. 2010,
// "Dremel"; apache/parquet-format, README.md, "Nested Encoding").
//
// A leaf has one pair of levels for each value, and one pair wherever an ancestor is absent or an
// empty list. All leaves below that ancestor have such a pair, so their cursors stay aligned.
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/parquet_parts.h"

// The levels of a row in one leaf.
struct cursor {
    const struct parquet_block *block;
    size_t at, end;
};

struct walk {
    const struct parquet *p;
    struct cursor *cursors; // [leaf_count]
    struct parquet_row *row;
    const char *column; // name of the column being read
    uint64_t bytes;     // estimated size of the row's JSON
    bool broken;        // the levels of leaves contradict each other
    bool zero_byte;     // a text contains a zero byte, which would end it early
    bool too_large;     // also sets `broken`, which stops reading
};

static void count_bytes(struct walk *w, uint64_t bytes)
{
    w->bytes += bytes;
    w->too_large |= w->bytes > PARQUET_MAX_ROW;
    w->broken |= w->too_large;
}

static int level(struct walk *w, const struct parquet_node *n)
{
    const struct cursor *c = &w->cursors[n->leaf];
    if (c->at < c->end) return c->block->def ? c->block->def[c->at] : 0;
    w->broken = true;
    return -1;
}

static size_t leaves_end(const struct parquet *p, const struct parquet_node *n)
{
    return n->end < p->node_count ? p->nodes[n->end].leaf : p->leaf_count;
}

// Skips an absent node: one pair of levels in each leaf below the node.
static void skip(struct walk *w, const struct parquet_node *n)
{
    for (size_t i = n->leaf; i < leaves_end(w->p, n); i++) {
        struct cursor *c = &w->cursors[i];
        if (c->at < c->end)
            c->at++;
        else
            w->broken = true;
    }
}

// --- leaves --------------------------------------------------------------------------------------

// Returns the next value of a leaf and advances the cursor; NULL if the value is absent.
static const union parquet_value *next(struct walk *w, const struct parquet_node *n)
{
    struct cursor *c = &w->cursors[n->leaf];
    const int at = level(w, n);
    if (at < 0) return NULL;
    c->at++;
    return at == n->def ? &c->block->values[c->at - 1] : NULL;
}

static cJSON *take_leaf(struct walk *w, const struct parquet_node *n)
{
    const union parquet_value *v = next(w, n);
    if (!v) return cJSON_CreateNull();
    switch (n->type) {
    case PARQUET_BOOLEAN: return cJSON_CreateBool(v->integer != 0);
    case PARQUET_INT32:
    case PARQUET_INT64: return json_whole_new(v->integer);
    case PARQUET_FLOAT:
    case PARQUET_DOUBLE:
        return isfinite(v->real) ? cJSON_CreateNumber(v->real) : cJSON_CreateNull();
    case PARQUET_BYTES: break;
    default: return cJSON_CreateNull();
    }
    if (v->bytes.size && memchr(v->bytes.at, 0, v->bytes.size)) {
        w->zero_byte |= n->text;
        return cJSON_CreateNull(); // a cJSON string cannot hold these bytes
    }
    count_bytes(w, v->bytes.size);
    if (w->broken) return cJSON_CreateNull();
    char *text = xstrndup(v->bytes.at ? v->bytes.at : "", v->bytes.size);
    cJSON *json = cJSON_CreateString(text);
    free(text);
    return json;
}

// --- the tree ------------------------------------------------------------------------------------

static cJSON *take(struct walk *w, size_t i);

static void take_picture(struct walk *w, const struct parquet_node *n)
{
    struct parquet_picture picture = { .column = w->column };
    const struct parquet_node *const end = w->p->nodes + n->end;
    for (const struct parquet_node *m = n->type == PARQUET_GROUP ? n + 1 : n; m < end; m++) {
        const union parquet_value *v = next(w, m);
        if (!v) continue;
        if (m == n || !strcmp(m->name, "bytes")) {
            picture.bytes = v->bytes.at;
            picture.size = v->bytes.size;
        } else {
            picture.path = v->bytes.at;
            picture.path_size = v->bytes.size;
            w->zero_byte |= v->bytes.size && memchr(v->bytes.at, 0, v->bytes.size);
        }
    }
    struct parquet_row *r = w->row;
    count_bytes(w, sizeof picture);
    if (!picture.bytes && !picture.path) return;
    r->pictures = xreallocarray(r->pictures, r->picture_count + 1, sizeof *r->pictures);
    r->pictures[r->picture_count++] = picture;
}

// Reads a node that is present.
// NOLINTNEXTLINE(misc-no-recursion): as deep as the schema
static cJSON *take_content(struct walk *w, size_t i)
{
    const struct parquet_node *nodes = w->p->nodes, *n = &nodes[i];
    if (n->picture) {
        take_picture(w, n);
        return cJSON_CreateNull();
    }
    if (n->type != PARQUET_GROUP) return take_leaf(w, n);
    if (n->list) return take(w, i + 1);
    cJSON *object = cJSON_CreateObject();
    for (size_t k = i + 1; k < n->end && !w->broken; k = nodes[k].end) {
        count_bytes(w, strlen(nodes[k].name));
        cJSON_AddItemToObject(object, nodes[k].name, take(w, k));
    }
    return object;
}

// An item of a list usually has a wrapper: list (LIST) { repeated list { element } }. Without the
// wrapper, the repeated node itself is the item (parquet-format, LogicalTypes.md, "Lists").
// NOLINTNEXTLINE(misc-no-recursion): as deep as the schema
static cJSON *take_item(struct walk *w, size_t i)
{
    const struct parquet_node *n = &w->p->nodes[i];
    const bool in_list = i && w->p->nodes[i - 1].list;
    const bool wrapped = in_list && n->type == PARQUET_GROUP && !n->picture &&
                         w->p->nodes[i + 1].end == n->end && strcmp(n->name, "array") != 0;
    if (wrapped) return take(w, i + 1);
    count_bytes(w, sizeof(cJSON));
    return take_content(w, i);
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the schema
static cJSON *take_items(struct walk *w, size_t i)
{
    const struct parquet_node *n = &w->p->nodes[i];
    const struct cursor *c = &w->cursors[n->leaf];
    cJSON *list = cJSON_CreateArray();
    if (level(w, n) < n->def) {
        skip(w, n);
        return list;
    }
    do {
        cJSON_AddItemToArray(list, take_item(w, i));
    } while (!w->broken && c->at < c->end && c->block->rep && c->block->rep[c->at] == n->rep);
    return list;
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the schema
static cJSON *take(struct walk *w, size_t i)
{
    const struct parquet_node *n = &w->p->nodes[i];
    count_bytes(w, sizeof(cJSON));
    if (n->repetition == PARQUET_REPEATED) return take_items(w, i);
    if (n->repetition == PARQUET_OPTIONAL && level(w, n) < n->def) {
        skip(w, n);
        return cJSON_CreateNull();
    }
    return take_content(w, i);
}

// --- rows ----------------------------------------------------------------------------------------

static bool has_picture(const struct parquet *p, size_t column)
{
    for (size_t i = column; i < p->nodes[column].end; i++)
        if (p->nodes[i].picture) return true;
    return false;
}

void parquet_leave_out(struct parquet *p, bool (*needed)(const char *name))
{
    for (size_t i = 1; i < p->node_count; i = p->nodes[i].end)
        p->nodes[i].unread = !has_picture(p, i) && !needed(p->nodes[i].name);
}

// Sets the cursors of the column's leaves to the row.
static int find(struct parquet *p, struct walk *w, size_t column, int64_t row, struct err *err)
{
    const struct parquet_node *n = &p->nodes[column];
    const size_t group = parquet_search(p->groups, p->group_count, sizeof *p->groups,
                                        offsetof(struct parquet_group, first), row);
    const int64_t at = row - p->groups[group].first;
    for (size_t i = n->leaf; i < leaves_end(p, n); i++) {
        const struct parquet_block *b = parquet_block(p, group, i, at, err);
        if (!b) return -1;
        const size_t k = (size_t)(at - b->first);
        w->cursors[i] = b->starts ? (struct cursor){ b, b->starts[k], b->starts[k + 1] }
                                  : (struct cursor){ b, k, k + 1 };
    }
    return 0;
}

int parquet_row_read(struct parquet *p, int64_t row, enum parquet_part part, struct parquet_row *r,
                     struct err *err)
{
    *r = (struct parquet_row){ .json = cJSON_CreateObject() };
    struct walk w = { .p = p, .row = r };
    int status = 0;
    if (row < 0 || row >= p->rows)
        return err_set(err, "'%s' has no row %lld", p->path, (long long)row);
    p->clock++;
    p->row_bytes = 0;
    parquet_trim(p);
    w.cursors = xcalloc(p->leaf_count, sizeof *w.cursors);
    for (size_t i = 1; i < p->node_count && status == 0; i = p->nodes[i].end) {
        if (p->nodes[i].unread || (part == PARQUET_PICTURES && !has_picture(p, i)) ||
            (part == PARQUET_TEXTS && has_picture(p, i)))
            continue;
        status = find(p, &w, i, row, err);
        if (status < 0) break;
        w.column = p->nodes[i].name;
        cJSON_AddItemToObject(r->json, w.column, take(&w, i));
        if (w.too_large) {
            status = err_set(err, "row %lld without its pictures exceeds %d MB, at column '%s'",
                             (long long)row, PARQUET_MAX_ROW >> 20, p->nodes[i].name);
        } else if (w.broken) {
            status = err_set(err, "row %lld is broken: its levels contradict each other",
                             (long long)row);
            parquet_err_in(p, p->nodes[i].leaf, err);
        } else if (w.zero_byte) {
            status = err_set(
                err, "column '%s' of row %lld contains a zero byte, which texts must not contain",
                p->nodes[i].name, (long long)row);
        }
    }
    free(w.cursors);
    return status;
}

void parquet_row_release(struct parquet_row *r)
{
    cJSON_Delete(r->json);
    free(r->pictures);
    *r = (struct parquet_row){ 0 };
}
