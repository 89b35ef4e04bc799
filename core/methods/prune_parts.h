// core/methods/prune_parts.h -- shared by the files of token pruning: settings (prune_settings.c),
// state (prune.c: sites, sequence, residual stream), choice of the tokens to keep (prune_pick.c).
#ifndef CORE_METHODS_PRUNE_PARTS_H
#define CORE_METHODS_PRUNE_PARTS_H

#include "core/methods/method.h"
#include "core/methods/prune_score.h"
#include "core/model/gram.h"
#include "core/settings/settings.h"
#include "core/stages/stages.h"

// --- settings ------------------------------------------------------------------------------------

enum { PRUNE_INPUT = -1 }; // layer of a stage that precedes the first layer

extern const struct setting prune_settings[];

// Returns the kind that prune.score names; one past the last kind if it is off.
enum prune_kind prune_kind_of(const struct settings *s);
// True if the kind selects tokens by whether they are attention sinks.
static inline bool prune_reads_sinks(enum prune_kind kind)
{
    return kind >= PRUNE_SINKS && kind <= PRUNE_ANCHORS;
}
// True if the kind selects a fixed set of tokens instead of the highest-ranked share, so that
// prune.keep has no effect.
static inline bool prune_names_tokens(enum prune_kind kind)
{
    return prune_reads_sinks(kind) || kind == PRUNE_LIST;
}
// Writes the stages' layers to layer[L]. Returns the number of stages, or -1.
int prune_read_layers(const struct method_env *env, int *layer, struct err *err);
// Checks that each stage's layer has a share. prune_check does not call this, because settings
// changed one by one may not match for a while.
int prune_check_stages(int stages, size_t shares, struct err *err);
// True if IRA computes a divergence in each of these layers.
bool prune_diverges(const struct method_env *env, const int *layer, int stages);

// Functions of struct method.
int prune_auto_layer(const struct model *m);
int prune_possible(const struct settings *s, struct err *err);
int prune_check(const struct method_env *env, struct err *err);
int prune_agree(const struct method_env *env, struct err *err);
bool prune_without_effect(const struct method_env *env, struct err *why);
int prune_forecast(const struct method_env *env, struct forecast_rows *rows, struct err *err);
void prune_badge(struct buf *b, const struct settings *s, int layer);

// --- lists of keys -------------------------------------------------------------------------------

// The keys that row `from` and each later row see, laid out as in struct seen_keys.
struct seen_lists {
    int64_t from, rows;
    int32_t **keys; // [rows][count]; NULL: nothing was chosen
    int64_t *count; // [rows]
};

void seen_lists_clear(struct seen_lists *l);

// The keys that rows see if another method also hides some, until the next layer begins.
struct both_lists {
    const int32_t **keys;
    int64_t *count;
    int32_t *own; // lists of the rows for which both have chosen
};

// Writes lists for the rank that computes the next layers (job.split layers).
void seen_lists_put(struct stage_note *note, const struct seen_lists *l);
// Reads lists written by seen_lists_put, of at most `most` rows, into *l, which must be empty. Call
// seen_lists_clear on *l even after a failure.
bool seen_lists_get(struct stage_note *note, int64_t most, struct seen_lists *l);

// --- the state -----------------------------------------------------------------------------------

// Inner products of the heads' contributions (core/model/gram.h) for each visual token, by its
// number, at the layer of a stage. With them, scoring a visual token at every step of dynamic mode
// costs H^2 operations instead of a product with o_proj.
struct token_grams {
    int layer;
    struct grams grams;
    int32_t *row; // [keys] the token's row in the sequence
};

struct prune {
    const struct model *model;
    const struct backend *backend;
    enum prune_kind kind;
    uint64_t seed;
    bool dynamic, blind; // blind: prunes by divergence, but IRA is off in a stage's layer
    bool worst;          // keeps the tokens with the lowest scores, or all but the chosen ones
    int stages, *layer;  // [stages], ascending
    double *keep;        // [stages]
    const struct settings *settings;
    double tau;       // threshold for sinks
    float *sink_dims; // [L,2] calibrated sink dimensions; NULL: those of the first token
    int (*dims)[2];   // [L] by stage: sink dimensions in use
    bool *hidden;     // [hidden_end] by position of the sequence: tokens of hide.tokens
    int64_t hidden_end;

    // For the current sequence; arrays of `capacity` rows.
    int64_t capacity;
    int32_t *number;   // [N] index of a row among the visual tokens; -1: text
    bool *dropped;     // [N]
    float **row_score; // [L][N] scores by stage: divergence, or phi of sinks; stage 0: also cls
    int32_t *alive;    // [N] rows that remain
    int64_t visual;    // S
    bool replacing;    // this pass continues with only the kept rows

    struct tensor residual; // [capacity, D]: h[K+1] of the sequence, K being stage 0's layer
    int64_t residual_rows;
    // [capacity, D]: h[0] of the same rows, from which the layers' own inputs follow (Gemma 4);
    // data NULL: layers have none.
    struct tensor embedded;
    struct token_grams *grams;    // [stages] for contributions in dynamic mode; NULL: none yet
    int gram_count;               // number of `grams`
    struct seen_lists seen, next; // dynamic mode: keys that rows see in this layer; in later layers
    struct both_lists both;
};

// Returns the stage that prunes after `layer`; -1: none.
int prune_stage_at(const struct prune *p, int layer);
// Returns how many visual tokens the stage keeps.
int64_t prune_stage_count(const struct prune *p, int stage);

void prune_grams_forget(struct prune *p);
// Prepares a stage's Gram matrices: discards the matrices of tokens that this pass computes again.
void prune_grams_begin(struct prune *p, int stage, int64_t past);

// The following functions choose the tokens to keep. They mark dropped tokens in p->dropped, or
// list the keys that rows see in p->next. -1 after graph_fail.

// At a stage of a prefill: chooses with the prompt's last row as the query.
int prune_pick_for_all(struct prune *p, struct graph *g, const struct site_args *args, int stage);
// At a stage of a prefill: chooses without a query, by scores of the tokens themselves.
int prune_pick_rows(struct prune *p, struct graph *g, const struct site_args *args, int stage);
// In dynamic mode: chooses for each row of the pass from the prompt's last row on.
int prune_pick_for_each(struct prune *p, struct graph *g, const struct site_args *args, int stage);

#endif
