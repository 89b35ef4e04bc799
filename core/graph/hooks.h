// core/graph/hooks.h -- sites of the forward pass, where methods change it and probes read it.
//
// The forward pass is straight-line code that calls hooks_run(g, SITE_X, &args) where listeners may
// act. A method (core/methods/) may change tensors; a probe (core/probes/) only reads, and runs
// after all methods. A site without listeners costs one branch; attention probabilities are
// materialised only if something listens at SITE_ATTN of that layer.
#ifndef CORE_GRAPH_HOOKS_H
#define CORE_GRAPH_HOOKS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/template/sequence.h"

struct graph;

// The arguments that a method may replace at a site; probes replace nothing.
enum {
    MAY_NOT = 0,
    MAY_X = 1,
    MAY_SEEN = 2, // the keys that rows see
    MAY_ONLY = 4, // rows that the FFN or the recurrence reads
    MAY_ROWS = 8  // rows that remain
};

// HAS_*: arguments that a site has besides x and `picture` or `layer`.
enum {
    HAS_NONE = 0,
    HAS_ROWS = 1, // rows of a sequence: site_sequence, site_row, site_visual
    HAS_KEYS = 2, // q, k, v; site_key
    IN_STEP = 4   // runs inside the part of a decode step that a GPU replays as a whole
};

// X(name, its arguments, changes that a method may make, content of site_args.x).
#define SITES(X)                                                                                   \
    X(PIXELS, HAS_NONE, MAY_NOT, "[3,H,W], [T,3,H,W] or patches: a picture's normalised pixels")   \
    X(VISION_LAYER, HAS_NONE, MAY_NOT,                                                             \
      "[S',Dv] input of vision block `layer`; layer = depth: output")                              \
    X(VISION, HAS_NONE, MAY_NOT, "[S,Dv'] input of the projector")                                 \
    X(PROJECTED, HAS_NONE, MAY_NOT, "[S,D] visual tokens after the projector, sequence order")     \
    X(VISUAL, HAS_ROWS, MAY_X, "[S,D] visual tokens as spliced; v: before methods")                \
    X(FOCUS, HAS_ROWS, MAY_NOT,                                                                    \
      "[S] f32 encoder's attention to each visual token of `picture`; negative: it shows nothing") \
    X(EMBED, HAS_ROWS, MAY_NOT, "[N,D] h[0]: embeddings after splicing")                           \
    X(INPUT, HAS_ROWS | IN_STEP, MAY_X | MAY_ROWS,                                                 \
      "[N,D] h[0] before the first layer; a method that drops rows sets `rows`")                   \
    X(LAYER_IN, HAS_ROWS | IN_STEP, MAY_NOT, "[N,D] h[layer]")                                     \
    X(VALUES, HAS_ROWS | HAS_KEYS | IN_STEP, MAY_SEEN,                                             \
      "[P,Hkv,d] value states of all keys (v too), before attention; a method writes new "         \
      "rows in place (op_scatter_rows)")                                                           \
    X(ATTN, HAS_ROWS | HAS_KEYS | IN_STEP, MAY_NOT,                                                \
      "[H,N,P] attention probabilities; with q, k, v")                                             \
    X(HEADS, HAS_ROWS | IN_STEP, MAY_NOT,                                                          \
      "[N,H,dv] outputs of the heads, before the output projection; a method writes in place; "    \
      "absent in absorbed latent attention unless a method listens")                               \
    X(FFN_IN, HAS_ROWS | IN_STEP, MAY_NOT, "[N,D] x: residual stream before the FFN's norm")       \
    X(FFN, HAS_ROWS | IN_STEP, MAY_X | MAY_ONLY,                                                   \
      "[N,D] x again; a method stores y of its rows, `only` lists the others")                     \
    X(FFN_OUT, HAS_ROWS | IN_STEP, MAY_NOT,                                                        \
      "[N,D] y: residual stream after the FFN; an intervention writes in place")                   \
    X(LAYER_OUT, HAS_ROWS | IN_STEP, MAY_X | MAY_ROWS,                                             \
      "[N,D] h[layer+1]; a method that drops rows sets `rows`")                                    \
    X(FINAL, HAS_ROWS | IN_STEP, MAY_NOT, "[N,D] h[L], before the final norm")                     \
    X(LOGITS, HAS_ROWS, MAY_NOT, "[n,V] logits of the requested rows")                             \
    X(STEP_LOGITS, HAS_ROWS, MAY_NOT, "[1,V] logits that choose a generated token")

// A site. Names such as SITE_VALUES are arrays of one element, so that they act as pointers. A
// method's file may define its own sites for probes and other methods (core/methods/ira.h).
struct site {
    const char *name;
    unsigned has, may;
    const char *what; // content of site_args.x
};

#define X(name, has, may, what) extern const struct site SITE_##name[1];
SITES(X)
#undef X
// The sites of the pass, ended by NULL.
extern const struct site *const pass_sites[];

// Keys that are hidden from some rows of a pass. A row always sees itself. The arrays must stay
// valid until the layer ends.
struct hidden_keys {
    const bool *rows;  // [N] rows that do not see `keys`; NULL: nothing is hidden
    const bool *keys;  // [P] the hidden keys
    const bool *heads; // [H] query heads that do not see `keys`; NULL: all
};

// Rows from..N-1 of a pass attend to selected keys only; rows before `from` attend to every key
// that the layer's mask allows.
struct seen_keys {
    struct hidden_keys hidden;
    int64_t from;
    // [N - from][count[i]] indices into k and v, ascending; rows may share a list, of which each
    // sees the first count[i]. NULL: all rows see every key that the mask allows
    const int32_t *const *keys;
    const int64_t *count; // [N - from]
};

// The keys that one row sees: `count` ascending indices or, if list is NULL, `count` keys from
// `first` on.
struct site_keys {
    const int32_t *list;
    int64_t first, count;
};

// Returns the index of the j-th of these keys.
static inline int64_t site_keys_at(struct site_keys keys, int64_t j)
{
    return keys.list ? keys.list[j] : keys.first + j;
}

// Arguments of a site. Fields that do not apply are NULL or -1.
struct site_args {
    int layer, picture;
    struct tensor *x;         // see SITES
    struct tensor *q, *k, *v; // SITE_VALUES, SITE_ATTN: [N,H,d], [P,Hkv,d], [P,Hkv,d];
                              // cached k and v may be bf16 (graph_download, op_widen)
    struct tensor *gate;      // [N,H,d] logits of the gates of the heads' outputs, or NULL
    const int32_t *only;      // MAY_ONLY: rows that the FFN or the recurrence reads; NULL = all
    int64_t only_count;       // length of `only`, which must stay valid until the layer ends
    int64_t past;             // keys of this layer before this pass: row i is key past+i
    const struct sequence *sequence; // of the whole conversation so far (site_sequence)
    const int32_t *rows;             // [N] sequence row of each row of x; NULL: row i is past+i
    // A method that replaces x by rows of earlier passes also sets h[0] [N,D] of its rows if layers
    // have inputs of their own (core/model/layer_inputs.h); NULL: x has rows of this pass only.
    struct tensor *embedded;
    const int32_t *keys;        // [P] sequence row of each key; NULL: key i is row i;
                                // like `rows`, valid until the pass ends
    const int32_t *first, *end; // HAS_KEYS: [N] row i sees keys first[i]..end[i]-1 (site_keys)
    float scale;                // HAS_KEYS: factor of the scores q k
    const struct kv *kv;        // decoder: the cache before this pass; NULL: none
    struct seen_keys seen;      // SITE_VALUES: methods may set the keys that rows see
    bool prefill;               // false while single tokens are generated
    void *own;                  // extra arguments of a site that another file defines
};

// Returns the sequence that the rows of a HAS_ROWS site belong to; a BUG at other sites.
static inline const struct sequence *site_sequence(const struct site_args *args)
{
    if (!args->sequence) BUG("the tensors of this site are not rows of a sequence");
    return args->sequence;
}

// Return the sequence row of row i of a site's x, and of key i of its k and v.
static inline int64_t site_row(const struct site_args *args, int64_t i)
{
    site_sequence(args);
    return args->rows ? args->rows[i] : args->past + i;
}

static inline int64_t site_key(const struct site_args *args, int64_t i)
{
    site_sequence(args);
    return args->keys ? args->keys[i] : i;
}

// Returns the keys that row i of a HAS_KEYS site sees: all keys that the layer's mask allows, or
// the subset that a method has chosen.
struct site_keys site_keys(const struct site_args *args, int64_t i);
// Returns the keys that `seen` lists for row i, without those before key `first`.
struct site_keys seen_keys_from(const struct seen_keys *seen, int64_t i, int64_t first);

// True if row i of the site is a visual token.
static inline bool site_visual(const struct site_args *args, int64_t i)
{
    return site_sequence(args)->picture[site_row(args, i)] >= 0;
}

// Reads a site's values (core/graph/readback.h). `args` are the site's, except that x holds the
// requested values (f32, in host memory until the function returns) and q, k and v are NULL. 0 or
// -1 with a message.
typedef int (*readback_fn)(void *self, const struct site *site, const struct site_args *args,
                           struct err *err);

// Lists the visual tokens (visual false: the text tokens) among the n rows of a pass: [*count] row
// indices; the caller frees the list.
int32_t *site_rows(const struct site_args *args, int64_t n, bool visual, int64_t *count);
// Lists the same tokens at a HAS_KEYS site by their indices in k and v, in which the cached keys
// come first.
int32_t *site_new_keys(const struct site_args *args, bool visual, int64_t *count);

struct hook {
    // True if the hook listens at this site (layer -1: any). Called often: must be fast.
    bool (*wants)(void *self, const struct site *site, int layer);
    // 0, or -1 after graph_fail. NULL: readback_fn `take` reads x instead.
    int (*run)(void *self, struct graph *g, const struct site *site, struct site_args *args);
    readback_fn take;
    void *self;
    bool changes; // a method: may make the changes that the site allows
    bool values;  // a method that changes values: layers where it listens cache the changed values
    bool drafts;  // a probe that tolerates draft rows, which may be discarded later
    bool idle;    // reads nothing (a pause between layers): no pass computes anything for it alone
};

enum { HOOKS_MAX = 16 };

// Methods, then probes; they run in the order of addition.
struct hooks {
    struct hook list[HOOKS_MAX];
    int count;
};

void hooks_add(struct hooks *hooks, const struct hook *hook);
bool hooks_wanted(const struct graph *g, const struct site *site, int layer);
// True if a hook that is not idle listens at the site.
bool hooks_read(const struct graph *g, const struct site *site, int layer);
// hooks_changing: true if a method (not a probe) listens at the site. hooks_change_values: true if
// one changes the layer's values.
bool hooks_changing(const struct graph *g, const struct site *site, int layer);
bool hooks_change_values(const struct graph *g, int layer);
// True if passes may contain draft tokens, which may be discarded later; false if a probe counts
// every row as part of the answer.
bool hooks_allow_drafts(const struct graph *g);
// Runs the listeners of this site in order; does nothing without listeners. A change that the site
// does not allow is a BUG.
int hooks_run(struct graph *g, const struct site *site, struct site_args *args);

#endif
