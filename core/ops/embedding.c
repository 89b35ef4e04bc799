// core/ops/embedding.c -- token ids -> rows of the embedding table.
#include "core/ops/check.h"

struct tensor *op_embedding(struct graph *g, struct tensor *table, const int32_t *ids, int64_t n)
{
    if (!table || !graph_ok(g)) return NULL;
    char text[96];
    if (table->rank != 2 || !op_is_float(table))
        return graph_fail(g, "embedding: the table is %s", op_shape(table, text));
    if (!op_want_indices(g, "embedding", ids, n, table->shape[0])) return NULL;
    struct tensor *index = graph_upload(g, DTYPE_I32, 1, &n, ids);
    struct tensor *y = graph_new2(g, DTYPE_F32, n, table->shape[1]);
    if (!index || !y) return NULL;
    return op_done(g, "embedding", g->backend->embedding(y, table, index), y);
}
