// core/ops/embedding.c -- token ids -> rows of the embedding table.
#include "core/ops/check.h"
#include "core/tape.h"

static int embedding_backward(struct graph *g, const struct tape_step *s)
{
    struct tensor dtable, dy;
    if (!tape_grad(g, s->in[0], &dtable) || !tape_grad(g, s->out, &dy)) return -1;
    return op_back(g, "embedding", g->backend->gather_rows_backward(&dtable, &dy, s->in[1]));
}

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
    y = op_done(g, "embedding", g->backend->embedding(y, table, index), y);
    return tape_record(
        g, y, &(struct tape_step){ .backward = embedding_backward, .in = { table, index } });
}
