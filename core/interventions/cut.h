// core/interventions/cut.h -- cuts attention: in chosen layers and heads, removes the scores of
// some keys for some queries before the softmax (attention knockout: Geva et al. 2023, arXiv
// 2304.14767). A position always sees itself. In a recurrent layer, hides positions from the state,
// but only if all later positions are queries and all heads are cut.
//
//   struct cut c;
//   cut_open(&c, env);
//   c.from[...] = c.to[...] = true;              // positions
//   c.listens[l] = true; ...                     // layers that later cuts may change
//   const struct hook hook = cut_hook(&c);
//   c.layers[l] = true;   ... a pass with the hook ...
//   cut_close(&c);
#ifndef CORE_INTERVENTIONS_CUT_H
#define CORE_INTERVENTIONS_CUT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/graph/hooks.h"

struct probe_env;

struct cut {
    const struct probe_env *env;
    bool *from, *to; // [N] positions: `to` no longer attends to `from`
    bool *listens;   // [L] layers where the hook listens; the same in all passes
    bool *layers;    // [L] layers that the next pass cuts
    int head;        // the only head to cut; -1: all
    bool *reached;   // [L] layers that some pass has cut

    bool *rows, *keys; // [N], [P] for struct hidden_keys
    bool *one_head;    // [H]
    int32_t *only;     // [N] for SITE_STATE
};

void cut_open(struct cut *c, const struct probe_env *env);
void cut_close(struct cut *c);
struct hook cut_hook(struct cut *c);
// The hook's function, for hooks that also do something else.
int cut_run(void *cut, struct graph *g, const struct site *site, struct site_args *args);
// Returns the first row that a pass with the cut computes differently; -1: none.
int64_t cut_first(const struct cut *c);

#endif
