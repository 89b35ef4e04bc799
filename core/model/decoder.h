// core/model/decoder.h -- the language model: layers of attention and FFN. The family's file
// selects their kinds (core/model/layer.h).
//
//   struct tensor *h = splice(&g, &m->decoder, &s, past, visual, focus, count), *logits;
//   decoder_forward(&g, &m->decoder, &kv, &s, h, LOGITS_LAST, true, &logits);
#ifndef CORE_MODEL_DECODER_H
#define CORE_MODEL_DECODER_H

#include "core/graph/hooks.h"
#include "core/model/bind.h"
#include "core/model/kv.h"
#include "core/model/linear.h"
#include "core/model/rope.h"
#include "kernels/tensor.h"

struct attention_kind;
struct decoder_config;
struct layer;
struct ffn_kind;
struct layer_weight;

// The norms of a layer by the names of their gains; NULL: no norm.
struct norm_names {
    struct {
        const char *before, *after; // h += after(f(before(h)))
    } attention, ffn;
};

extern const struct norm_names norms_before;   // Llama's
extern const struct norm_names norms_sandwich; // GLM-4's: before and after
extern const struct norm_names norms_gemma;    // Gemma's: before and after

// Name of a tensor in Llama's files and in another family's, without ".weight" and the layer
// number: { "self_attn.q_proj", "attention.wq" }.
struct tensor_name {
    const char *ours, *theirs;
};

struct experts_config;

// A family's decoder. The sizes are defaults for keys that its configs omit: the class defaults of
// transformers.
struct decoder_kind {
    const char *const *model_types; // accepted in a text_config; NULL: the family's
    int64_t ffn_size, vocab, max_positions;
    int64_t head_size;       // 0: hidden / heads
    int64_t heads, kv_heads; // 0: 32, and as many as heads
    double eps, theta;       // 0: 1e-6 and 10000
    bool tied;
    bool slides_by_default; // "sliding_window" applies, unless null; "use_sliding_window" is not
                            // read
    bool slides_if_given;   // like slides_by_default, but only if the config has "sliding_window"
    bool slides_in_all; // with "use_sliding_window", all layers: "max_window_layers" is not read
    // n > 0: every n-th layer has no sliding window, unless "sliding_window_pattern" or
    // "layer_types" says otherwise, and sliding layers have rotary parameters of their own
    // (rope_config_read_sliding). 0: neither applies.
    int64_t sliding_pattern;
    int64_t window;      // default of "sliding_window"; 0: 4096
    bool pictures_whole; // "use_bidirectional_attention" is by default "vision", which concerns all
                         // layers and is not limited by the window (config.pictures_unwindowed)
    bool gelu;           // "hidden_activation" names the FFN's activation, by default GELU
    bool gains_from_1;   // norms multiply by 1 + gain
    bool embed_scaled;   // text embeddings are multiplied by sqrt(hidden)
    bool scores_unscaled;  // scores q k are not divided by sqrt(d)
    bool qkv_bias;         // only q, k and v have biases, whatever the config says
    bool qkv_bias_default; // q, k and v have biases unless "attention_bias" is false
    bool out_unbiased;     // the output projection has no bias even if "attention_bias" is true
    const struct attention_kind *attention; // reads the config
    // The attention kind of one layer, if layers differ; NULL: all use `attention`.
    const struct attention_kind *(*attention_of)(const struct decoder_config *c, int layer);
    const struct ffn_kind *ffn;
    const struct experts_config *experts; // class defaults of a mixture of experts; else NULL
    const struct norm_names *norms;
    const struct rotary_kind *rotary;
    const struct tensor_name *names; // names that differ from Llama's, ended by { 0 }; NULL: none
    const char *gguf;                // its architecture in GGUF files; NULL: none
    const char *llava_layout; // prompt layout of LLaVA-1.5 folders with this decoder; NULL: none
    const char *const *keys;  // keys of core/model/config_keys.c that it supports; NULL: none
    // Turns the output h [n, D] of a layer into the next layer's input (adds rows, scales); NULL:
    // passes it on unchanged.
    struct tensor *(*after_layer)(struct graph *g, const struct layer *layer, struct tensor *h);
    // Lists the weights that after_layer reads (decoder_layer.end), as a layer_weight_fn; NULL: it
    // reads none.
    bool (*end_weight)(const struct decoder_config *c, int layer, int i, struct layer_weight *w);
};

// Config of latent attention (core/model/attention_latent.c).
struct latent_config {
    int64_t q_rank, rank; // Rq, of queries (0: not compressed); R, of keys and values
    int64_t nope, rope;   // unrotated and rotated elements of a head; d = nope + rope
    bool bias;
};

// Config of layers with the gated delta rule (core/model/attention_delta.c).
struct delta_config {
    int64_t key_heads, key_width, heads, width; // Hk, dk, Hv, dv
    int64_t taps;                               // rows that the convolution reads
    // True: value head h reads key head h % Hk, as in GGUF files; false: h / (Hv/Hk), as in Hugging
    // Face's.
    bool alternate;
};

// Config of a mixture of experts (core/model/ffn_experts.c).
struct experts_config {
    int64_t count, per_token, shared, width; // E; chosen per row; computed for every row; m
    int64_t shared_width;                    // of the shared experts as one FFN; 0: none
    bool shared_gated;                       // a gate multiplies the shared experts' output
    int64_t dense;                           // number of leading layers with an ordinary FFN
    int64_t every;                           // only every nth layer has experts; 0: all
    uint64_t plain[16];                      // bit l: layer l has an ordinary FFN
    int64_t groups, groups_per_token;        // a row chooses only within its best groups
    bool normalise;                          // the weights of a row's experts add up to `scale`
    double scale;
    bool softmax;    // scores are the softmax of the logits, without biases
    bool beside;     // computed beside an ordinary FFN, from the layer's h
    bool transposed; // the hub's files store all experts together, transposed: [E,in,out]
};

// The sizes of a layer's attention heads.
struct head_sizes {
    int64_t kv_heads, dim, value_dim; // Hkv; d; elements of a head's value: d, or less
    bool joint; // keys and values are the same projection, with different norms
};

enum { DECODER_LAYERS = 1000 };

struct decoder_config {
    const struct decoder_kind *kind;
    int layers;                           // L
    int64_t hidden, heads, kv_heads, dim; // D, H, Hkv, d
    int64_t value_dim;                    // elements of a head's value: d, or less
    int64_t ffn, vocab, max_positions;
    int64_t window; // rows that a row sees in layers with a sliding window, itself included; 0: no
                    // such layers
    bool slides[DECODER_LAYERS]; // the layers with a sliding window
    bool recurs[DECODER_LAYERS]; // the layers with a recurrence in place of attention
    // pictures_whole: rows of a picture also see its later rows, in all layers or, if
    // pictures_whole_sliding is also set, only in those with a sliding window.
    bool pictures_whole, pictures_whole_sliding;
    // With pictures_whole: rows of a picture see all its rows, even those before their window.
    bool pictures_unwindowed;
    // Heads of layers without a sliding window, if they differ (dim 0: they do not).
    struct head_sizes unwindowed;
    // The last `sharing` layers attend to the keys and values of an earlier layer
    // (decoder_keys_of). Their FFNs may be wider.
    int sharing;
    int64_t sharing_ffn;
    int64_t layer_input; // P: width of the input that each layer has for each row; 0: none
    int64_t input_vocab; // rows of the table of these inputs
    int32_t input_pad;   // the row for visual tokens
    double logit_cap;    // logits are soft-capped: cap * tanh(x / cap); 0: no cap
    bool gelu;           // the gated FFN's activation: GELU_TANH in place of SiLU
    double eps;
    float score_scale, embed_scale;  // factors of the scores q k, and of text embeddings
    struct rope_config rope;         // of all layers, unless sliding_rope is set
    struct rope_config sliding_rope; // of layers with a sliding window; rotary NULL: not set
    bool qkv_bias, out_bias, mlp_bias, tied;
    bool untied; // the config ties the head, but the file has a different one
    // Fields that only the attention kind (first union) or the FFN kind (second) reads.
    union {
        struct latent_config latent;
        struct delta_config delta;
    };
    union {
        struct experts_config experts;
    };
};

// Attention or FFN of a layer with the norms around it.
struct sublayer {
    struct tensor before, after; // [D] gains; data NULL: no norm
    struct linear *weight;       // [count] in the order of the kind's list; a vector has only a
                                 // `weight`
    int count;
};

// Weights of grouped-query attention and of the gated FFN.
enum { ATTENTION_Q, ATTENTION_K, ATTENTION_V, ATTENTION_O }; // [H*d,D] [Hkv*d,D] [Hkv*d,D] [D,H*d]
enum { FFN_GATE, FFN_UP, FFN_DOWN };                         // [ffn,D] [ffn,D] [D,ffn]

struct decoder_layer {
    struct sublayer attention, ffn;
    struct sublayer end; // weights that after_layer reads; no norms
    float scale;         // factor of the layer's output, applied by after_layer
    int gpu;             // GPU that computes the layer (backend_enter)
};

struct decoder_part;

// Weights of the layers' own inputs (core/model/layer_inputs.h), if config.layer_input.
struct layer_inputs {
    struct tensor table;      // [V', L*P]; on the host
    struct linear projection; // [L*P, D]
    struct tensor norm;       // [P] gain
};

struct decoder {
    struct decoder_config config;
    struct tensor embed; // [V,D]; on the host unless tied
    struct tensor norm;  // [D]
    struct tensor head;  // [V,D]; the same memory as embed when tied
    struct layer_inputs inputs;
    struct decoder_layer *layer;
    struct decoder_part *part; // the layers that this process computes; NULL: all
};

struct pass;

// The layers that this process computes, if a model is split over several processes
// (core/stages/stages.h), and the calls that pass hidden states between the processes. Each process
// makes all its calls in every pass, even after a failure, so that all processes fail together.
struct decoder_part {
    int first_layer, end_layer; // its layers: first_layer .. end_layer-1
    bool first, last; // first: has the embedding and the encoder; last: the final norm and the head
    // Receives the hidden state that enters first_layer, and sets *p to the pass over its rows: a
    // method may have dropped some. h is memory for the rows of *p.
    struct tensor *(*receive)(const struct decoder_part *part, struct graph *g,
                              const struct pass **p, struct tensor *h);
    // Sends h, the output of layer end_layer-1, to the next process. After a failure p and h may be
    // NULL.
    void (*send)(const struct decoder_part *part, struct graph *g, const struct pass *p,
                 const struct sequence *s, const struct tensor *h);
    // Broadcasts x [rows, columns] f32 from the last process to all; columns 0: only success or
    // failure.
    struct tensor *(*broadcast)(const struct decoder_part *part, struct graph *g, struct tensor *x,
                                int64_t columns);
    void (*release)(struct decoder_part *part);
};

static inline bool decoder_first(const struct decoder *d)
{
    return !d->part || d->part->first;
}

static inline bool decoder_last(const struct decoder *d)
{
    return !d->part || d->part->last;
}

static inline bool decoder_has(const struct decoder *d, int layer)
{
    return !d->part || (layer >= d->part->first_layer && layer < d->part->end_layer);
}

// Checks that "model_type" is empty, missing or known. known NULL: skips the check, as the type has
// already selected the kind.
int model_type_check(const char *const *known, const cJSON *json, struct err *err);
// Reads a config object (text_config or the whole config.json) of that kind.
int decoder_config_read(struct decoder_config *d, const struct decoder_kind *kind,
                        const cJSON *json, struct err *err);
// Returns the GPU that computes a layer. The first GPU holds everything but the layers (`rest`
// bytes) and enough layers to balance the load: none if `rest` alone exceeds its share.
int decoder_gpu(int layer, int layers, double layer_bytes, double rest, int gpus);
// Binds the tensors; b->prefix is, for example, "language_model.model."; `head` is the prefix of
// the head. Clears config.tied if the file has a head that differs from the embedding. 0 or -1
// (b->err).
int decoder_bind(struct decoder *d, struct binder *b, const char *head);
// Like bind_prefix, for the tensor with the Llama name `ours`.
const char *decoder_prefix(const struct checkpoint *c, const struct decoder_kind *kind,
                           const char *const *prefixes, const char *ours);
void decoder_release(struct decoder *d); // not the weights: checkpoint and arena own them
// Maps a Llama tensor name to the family's: "embed_tokens", "lm_head", "self_attn.q_proj".
const char *decoder_name(const struct decoder_kind *kind, const char *ours);
// Maps a family's whole name, such as "layers.3.attention.wq.weight", to Llama's. The caller frees
// it.
char *decoder_common_name(const struct decoder_kind *kind, const char *name);
// Iterates over constant vectors (the routers' biases, factors of layers); start with { 0 }.
struct decoder_constant {
    int layer, i;                // the next constant: its layer, and its index in a list of weights
    int list;                    // that list: attention's, the FFN's or after_layer's
    char name[160];              // "layers.3.mlp.gate.e_score_correction_bias"
    const struct tensor *tensor; // [n]
};
bool decoder_next_constant(const struct decoder *d, struct decoder_constant *c);
// Initialises an empty KV cache.
void decoder_cache(const struct decoder *d, const struct backend *backend, struct kv *kv);

// Return the attention and FFN kinds of a layer.
static inline const struct attention_kind *decoder_attention(const struct decoder_config *c,
                                                             int layer)
{
    return c->kind->attention_of ? c->kind->attention_of(c, layer) : c->kind->attention;
}

static inline const struct ffn_kind *decoder_ffn(const struct decoder_config *c, int layer)
{
    (void)layer;
    return c->kind->ffn;
}

// True if the layer's rows see only the last config.window rows.
static inline bool decoder_slides(const struct decoder_config *c, int layer)
{
    return c->window && c->slides[layer];
}

// Returns the sizes of a layer's heads.
static inline struct head_sizes decoder_heads(const struct decoder_config *c, int layer)
{
    if (c->unwindowed.dim && !decoder_slides(c, layer)) return c->unwindowed;
    return (struct head_sizes){ c->kv_heads, c->dim, c->value_dim, false };
}

// True if the layer attends to another layer's keys and values.
static inline bool decoder_shares(const struct decoder_config *c, int layer)
{
    return layer >= c->layers - c->sharing;
}

// Returns the layer whose keys and values a layer attends to: its own or, if it shares, those of
// the last layer of the same kind (with or without a sliding window) that does not.
static inline int decoder_keys_of(const struct decoder_config *c, int layer)
{
    int of = layer;
    while (of && (decoder_shares(c, of) || decoder_slides(c, of) != decoder_slides(c, layer))) of--;
    return of;
}

// True if a later layer attends to this layer's keys and values.
static inline bool decoder_lends(const struct decoder_config *c, int layer)
{
    for (int l = c->layers - c->sharing; l < c->layers; l++)
        if (decoder_keys_of(c, l) == layer) return true;
    return false;
}

// Returns the inner width of a layer's gated FFN.
static inline int64_t decoder_ffn_width(const struct decoder_config *c, int layer)
{
    return decoder_shares(c, layer) ? c->sharing_ffn : c->ffn;
}

// Returns the rotary positions of a layer.
static inline const struct rope_config *decoder_rope(const struct decoder_config *c, int layer)
{
    return decoder_slides(c, layer) && c->sliding_rope.rotary ? &c->sliding_rope : &c->rope;
}

// Returns the projection from a layer's attention back to the residual stream: the last weight.
static inline const struct linear *attention_output(const struct decoder_layer *w)
{
    return &w->attention.weight[w->attention.count - 1];
}

// LOGITS_HIDDEN: h[L] [n,D] before the final norm instead of logits (training: core/eval/loss.h).
enum logits_rows { LOGITS_NONE, LOGITS_LAST, LOGITS_ALL, LOGITS_HIDDEN };

// Runs rows past.. of `s` through all layers. h [n,D] are their embeddings (n = s->n - past, past =
// rows in kv's first layer); keys and values are appended to kv. *logits = [1,V] or [n,V]. On
// failure or cancel kv keeps `past` rows. kv NULL: computes all rows of s and caches nothing. A
// tape requires kv NULL, because gradients do not flow into a cache; s must then last until the
// backward pass has run.
//
// A method at SITE_INPUT or SITE_LAYER_OUT may replace x with other rows of s and list these rows
// in args->rows (ascending; copied). Only those rows continue, at their positions. Later layers
// discard their cached rows and then hold only the new ones; if the pass fails, none. The n of the
// results [n,V] and [n,D] is the number of rows that leave the last layer. If some layer's cache
// lacks past rows, a pass with `prefill` must replace rows in this way.
//
// With layers in several processes (d->part), each process calls this function with the same rows.
// Only the first process's h is read; the others pass memory of the same size. All processes get
// the logits; only the last gets LOGITS_HIDDEN, the others NULL.
int decoder_forward(struct graph *g, const struct decoder *d, struct kv *kv,
                    const struct sequence *s, struct tensor *h, enum logits_rows want, bool prefill,
                    struct tensor **logits);
// Computes a generated token without listeners by replaying a recording of layers and head
// (core/graph/replay.h). False: not possible; run a normal pass. True: *logits [1,V], or NULL after
// a failure.
bool decoder_step(struct graph *g, const struct decoder *d, struct kv *kv, const struct sequence *s,
                  struct tensor *h, struct tensor **logits);
// Applies the final norm and the head to rows of h [n, D]: [n, V].
struct tensor *decoder_logits(struct graph *g, const struct decoder *d, struct tensor *h);

#endif
