// core/methods/ira_ops.c -- values of visual tokens under information-regularized attention, and
// their divergence from the prior.
#include "core/graph/tape.h"
#include "core/methods/ira.h"
#include "core/ops/check.h"

// Checks that head [S*Hkv, d+1] fits v [S,Hkv,d].
static bool want_head(struct graph *g, const struct tensor *v, const struct tensor *head)
{
    char left[96], right[96];
    if (!op_want_f32(g, "ira", "v", v) || !op_want_f32(g, "ira", "head", head)) return false;
    if (v->rank == 3 && head->rank == 2 && head->shape[0] == v->shape[0] * v->shape[1] &&
        head->shape[1] == v->shape[2] + 1)
        return true;
    graph_fail(g, "ira: %s does not fit values %s", op_shape(head, left), op_shape(v, right));
    return false;
}

static int values_backward(struct graph *g, const struct tape_step *s)
{
    struct tensor *const *in = s->in, dv, dhead, dz;
    struct tensor *const to_v = tape_wanted(g, in[0], &dv);
    struct tensor *const to_head = tape_wanted(g, in[1], &dhead);
    if (!tape_grad(g, s->out, &dz)) return -1;
    return op_back(g, "ira",
                   g->backend->ira_values_backward(to_v, to_head, &dz, in[1], in[2], in[3]));
}

struct tensor *op_ira_values(struct graph *g, struct tensor *v, struct tensor *head,
                             struct tensor *gate, struct tensor *noise)
{
    if (!v || !head || !graph_ok(g)) return NULL;
    if (!want_head(g, v, head)) return NULL;
    if (noise && (!gate || !op_want_same(g, "ira", v, noise) ||
                  !op_want_vector(g, "ira", "gate", gate, head->shape[0])))
        return NULL;
    struct tensor *z = graph_new(g, DTYPE_F32, v->rank, v->shape);
    if (!z) return NULL;
    return op_record(
        g, "ira", g->backend->ira_values(z, v, head, gate, noise), z,
        &(struct tape_step){ .backward = values_backward, .in = { v, head, gate, noise } });
}

static int kl_backward(struct graph *g, const struct tape_step *s)
{
    struct tensor *const *in = s->in, dhead, dprior, dv, dmean, dkl;
    struct tensor *const to_head = tape_wanted(g, in[0], &dhead);
    struct tensor *const to_prior = tape_wanted(g, in[1], &dprior);
    struct tensor *const to_v = tape_wanted(g, in[2], &dv);
    struct tensor *const to_mean = tape_wanted(g, in[3], &dmean);
    if (!tape_grad(g, s->out, &dkl)) return -1;
    return op_back(g, "divergence",
                   g->backend->ira_kl_backward(to_head, to_prior, to_v, to_mean, &dkl, in[0], in[1],
                                               in[2], in[3]));
}

struct tensor *op_ira_kl(struct graph *g, struct tensor *head, struct tensor *prior,
                         struct tensor *v, struct tensor *mean)
{
    if (!head || !prior || !graph_ok(g)) return NULL;
    char left[96], right[96];
    if (!op_want_f32(g, "divergence", "head", head) ||
        !op_want_f32(g, "divergence", "prior", prior))
        return NULL;
    if (prior->rank != 2 || head->rank != 2 || prior->shape[0] < 1 ||
        head->shape[1] != prior->shape[1] + 1 || head->shape[0] % prior->shape[0])
        return graph_fail(g, "divergence: %s does not fit the prior %s", op_shape(head, left),
                          op_shape(prior, right));
    if (mean && !v) return graph_fail(g, "divergence: a prior with a mean needs the values");
    if ((v && !want_head(g, v, head)) || (mean && !op_want_same(g, "divergence", mean, prior)))
        return NULL;
    struct tensor *kl =
        graph_new2(g, DTYPE_F32, head->shape[0] / prior->shape[0], prior->shape[0]); // [S,Hkv]
    if (!kl) return NULL;
    return op_record(
        g, "divergence", g->backend->ira_kl(kl, head, prior, v, mean), kl,
        &(struct tape_step){ .backward = kl_backward, .in = { head, prior, v, mean } });
}
