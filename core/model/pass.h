// core/model/pass.h -- the state of a pass through the decoder: the rows of the sequence that a
// layer computes, the cache rows in which their keys and values are stored, and the keys that each
// row sees.
#ifndef CORE_MODEL_PASS_H
#define CORE_MODEL_PASS_H

#include "core/model/decoder.h"

// The rotary angles of a pass's rows, and the keys that these rows see. There is one view for
// layers without a sliding window and one for layers with it, each set when the first such layer
// runs.
struct pass_view {
    struct tensor *cos, *sin;  // [n, d/2]; NULL: not set
    const float *query_factor; // [n] in host memory: factors of the queries; NULL: all are 1
    // i32 [n]: row i sees keys first[i] .. end[i]-1; first NULL: from key 0. end NULL: not set.
    struct tensor *first, *end;
    const int32_t *host_first, *host_end; // [n] the same in host memory; NULL while recording
};

// Keys and values of all rows of `pass` that later layers share, in a pass without a cache.
struct lent_keys {
    struct tensor *k, *v; // [n, Hkv, d]
    const struct pass *pass;
};

// Shared by all layers of a pass. Lies in the step arena, and stays constant once a layer uses it.
struct pass {
    const struct decoder_config *config;
    const struct sequence *sequence;
    struct kv *kv;       // NULL: the layers see only the rows of this pass
    int64_t n;           // rows computed now
    const int32_t *rows; // [n] rows of the sequence, in the step arena; NULL: the last n
    bool replaced;       // a method chose these rows: later layers have no other rows
    bool prefill;
    struct tensor *const *visual; // visual tokens of each picture (struct graph), or NULL
    struct lent_keys *lent;       // [layers]; NULL: no layer shares keys, or the pass has a cache
    struct tensor *inputs;        // inputs of the layers (core/model/layer_inputs.h); NULL: none
    const struct pass *inputs_of; // the pass for whose rows they were computed
    struct tensor *embedded;      // h[0] of the rows, if `inputs` lacks some of them; else NULL

    // The following members are for layers with `past` valid rows in their cache; past -1: not set.
    int64_t past;
    struct tensor *cache_rows; // i32 [n] rows of the cache for the new keys and values
    int64_t keys;              // rows of the cache passed to attention: past + n, or more
    struct pass_view view[2];  // of layers without and with a sliding window (decoder_slides)
    bool recorded; // past, cache_rows and views change in replays: `past` is an upper bound
};

// The argument that graph_block passes to layer_forward.
struct layer {
    const struct pass *pass;
    const struct pass_view *view; // the view of the pass for this layer
    int number;
    int64_t past; // valid rows in the cache
    const struct decoder_layer *w;
    struct kv_layer *cache; // NULL: none
    // In a layer that uses an earlier layer's keys and values: these, for all rows that it sees. In
    // a layer whose keys and values later layers use, in a pass without a cache: memory for them.
    struct lent_keys shared;
};

// Returns the row of the sequence that is row i of the pass.
int64_t pass_row(const struct pass *p, int64_t i);
// Copies a pass to the step arena, to be changed before a layer uses the copy. Earlier layers keep
// the old pass, with which the backward pass recomputes them. NULL after a failure.
struct pass *pass_copy(struct graph *g, const struct pass *p);
// Starts a layer: reserves memory in its cache for the new rows, after the cached ones; records
// which row of the sequence each new row holds; and sets layer->pass to a pass for this number of
// cached rows. 0 or -1.
int layer_begin(struct graph *g, struct layer *layer);
// Returns the rows of the sequence that a row sees if no row is dropped: those of its own sample up
// to itself or, where rows of a picture see its later rows (config.pictures_whole), up to the end
// of its picture. In layers with a sliding window (`slides`), rows before the window are left out,
// or (config.pictures_unwindowed) those of them that do not belong to its picture.
struct row_range {
    int64_t first, end;
};
struct row_range pass_sees(const struct decoder_config *c, bool slides, const struct sequence *s,
                           int64_t row);
// Returns the last row, at most `row`, at which a pass over the rest of the sequence may begin. A
// pass must not begin inside a picture whose earlier rows see later ones.
int64_t pass_start(const struct decoder_config *c, const struct sequence *s, int64_t row);
// Sets index[i] to the row of pass `in` that holds row i of pass `of`; it must hold all of them.
void pass_find_rows(const struct pass *in, const struct pass *of, int32_t *index);
// Returns the index of the first of `count` keys that holds this row of the sequence or a later
// one; `count` if none does. position NULL: key i holds row i.
int64_t pass_key_of(const int32_t *position, int64_t count, int64_t row);
// Sets layer->shared (core/model/pass_shared.c); called by layer_begin. 0 or -1.
int layer_share(struct graph *g, struct layer *layer);
// Returns a pass over only the rows (of the sequence, ascending) that a method has kept; copies
// `rows`. NULL after a failure.
const struct pass *pass_of_rows(struct graph *g, const struct pass *former, const int32_t *rows,
                                int64_t n);

// --- sites ---------------------------------------------------------------------------------------

// Return the arguments of a site; layer -1: outside the layers.
struct site_args pass_site(const struct pass *p, int layer, struct tensor *x);
struct site_args layer_site(const struct layer *layer, struct tensor *x);
// Runs the listeners of a site. Returns args.x, or the tensor with which a method has replaced it.
struct tensor *site_run(struct graph *g, const struct site *site, struct site_args args);
// Like site_run, at a site where a method may drop rows: *p then becomes the pass for the remaining
// rows. Returns NULL after a failure; *p may be NULL too.
struct tensor *site_drop_rows(struct graph *g, const struct site *site, struct site_args args,
                              const struct pass **p);

#endif
