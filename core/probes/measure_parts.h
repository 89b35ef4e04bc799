// core/probes/measure_parts.h -- the passes of a measurement; shared by measure.c and passes.c
// only.
#ifndef CORE_PROBES_MEASURE_PARTS_H
#define CORE_PROBES_MEASURE_PARTS_H

#include "core/base/pace.h"
#include "core/graph/arena.h"
#include "core/graph/graph.h"
#include "core/model/kv.h"
#include "core/positions/positions.h"
#include "core/probes/measure.h"
#include "core/probes/probe.h"
#include "core/talk/conversation.h"

struct passing {
    const struct measuring *m;   // the measurement's own, or `with`
    const struct measuring *own; // the measurement's own while `with` is used, else NULL
    struct measuring with;       // the measurement's own, but with a different model
    struct conversation *c;
    struct sequence sequence;
    struct methods methods;
    struct hooks hooks;
    struct kv kv;
    struct arena arena;
    struct graph graph;
    struct tensor **visual; // [picture_count] the conversation's, or owned
    float **focus;          // [picture_count] the conversation's, or owned; NULL: nothing listens
    bool *ours;             // [picture_count] visual and focus are owned
    bool *kept;             // [S] the last pruning step keeps the token; NULL: nothing was pruned
    int64_t visual_count;

    // For names of positions (core/positions/positions.h).
    struct prompt_text *texts; // of the prompt's messages
    struct positions_env where;

    // For probes that run passes of their own.
    int64_t prefix;    // rows that all passes share and the cache holds; -1: none computed yet
    bool keeping;      // the next pass is kept (passes_keep)
    float *stream;     // [L,N,D] input of each layer in the kept pass; NULL: none is kept
    int64_t kept_from; // first row that the kept pass computed
    struct pace pace;  // of the progress of these passes
};

// Sets the error of a failed or cancelled pass.
int pass_failed(struct passing *p, struct err *err);
// Computes the visual tokens that the rows need and the conversation lacks, in memory of the pass.
// `all`: also computes the tokens that the conversation has.
int pass_encode_pictures(struct passing *p, bool all);
// Sets env->where, and removes the template's text after a given answer from the sequence.
int pass_find_positions(struct passing *p, struct probe_env *env, struct err *err);

#endif
