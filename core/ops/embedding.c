// core/ops/embedding.c -- token ids -> rows of the embedding table.
//
// From a table on the host, copies only the requested rows to the device, as stored, and their
// gradients back.
#include <string.h>

#include "core/ops/check.h"

// True if the table is in host memory while the graph computes on another device.
static bool is_on_host(const struct graph *g, const struct tensor *table)
{
    return backend_of(g->backend, table) != g->backend;
}

static int embedding_backward(struct graph *g, const struct tape_step *s)
{
    struct tensor dtable, dy;
    if (!tape_grad(g, s->in[0], &dtable) || !tape_grad(g, s->out, &dy)) return -1;
    atomic_bool *reached = s->in[0]->grad->reached; // several lanes may mark the same row
    const int32_t *row = s->in[1]->data;
    for (int64_t i = 0; reached && i < tensor_count(s->in[1]); i++)
        atomic_store_explicit(&reached[row[i]], true, memory_order_relaxed);
    if (!is_on_host(g, s->in[0]))
        return op_back(g, "embedding", g->backend->gather_rows_backward(&dtable, &dy, s->in[1]));
    const struct arena_mark mark = arena_mark(g->arena);
    const struct tensor *rows = graph_new_host(g, DTYPE_F32, dy.rank, dy.shape);
    if (rows) {
        g->backend->download(rows->data, dy.data, tensor_bytes(rows));
        backend_cpu()->gather_rows_backward(&dtable, rows, s->in[1]);
    }
    arena_reset(g->arena, mark);
    return graph_ok(g) ? 0 : -1;
}

// Fills y[n,D] with rows of a table in host memory; index is in host memory too. Frees intermediate
// tensors at once, because the backward pass does not read them.
static struct tensor *rows_from_host(struct graph *g, struct tensor *y, const struct tensor *table,
                                     const struct tensor *index)
{
    const struct arena_mark mark = arena_mark(g->arena);
    struct tensor *rows = graph_new_host(g, table->dtype, 2, y->shape), *stored = y;
    if (table->dtype != DTYPE_F32) stored = graph_new(g, table->dtype, 2, y->shape);
    if (rows && stored) {
        backend_cpu()->gather_rows(rows, table, index);
        g->backend->upload(stored->data, rows->data, tensor_bytes(rows));
        if (stored != y) op_done(g, "embedding", g->backend->widen(y, stored), y);
    }
    arena_reset(g->arena, mark);
    return graph_ok(g) ? y : NULL;
}

struct tensor *op_embedding(struct graph *g, struct tensor *table, const int32_t *ids, int64_t n)
{
    if (!table || !graph_ok(g)) return NULL;
    char text[96];
    if (table->rank != 2 || !op_is_weight(table))
        return graph_fail(g, "embedding: the table is %s", op_shape(table, text));
    if (!op_want_indices(g, "embedding", ids, n, table->shape[0])) return NULL;
    const bool on_host = is_on_host(g, table);
    struct tensor *index =
        on_host ? graph_new_host(g, DTYPE_I32, 1, &n) : graph_upload(g, DTYPE_I32, 1, &n, ids);
    struct tensor *y = graph_new2(g, DTYPE_F32, n, table->shape[1]);
    if (!index || !y) return NULL;
    if (on_host) {
        if (n) memcpy(index->data, ids, tensor_bytes(index));
        y = rows_from_host(g, y, table, index);
    } else {
        y = op_done(g, "embedding", g->backend->embedding(y, table, index), y);
    }
    return tape_record(
        g, y, &(struct tape_step){ .backward = embedding_backward, .in = { table, index } });
}
