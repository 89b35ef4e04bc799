// core/model/decoder.h -- the language model: layers of attention and FFN, whose kinds the family's
// file names (core/model/layer.h).
//
//   struct tensor *h = splice(&g, &m->decoder.embed, &s, past, visual, focus, count), *logits;
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

// The norms of a layer by the names of their gains; NULL: no norm.
struct norm_names {
    struct {
        const char *before, *after; // h += after(f(before(h)))
    } attention, ffn;
};

extern const struct norm_names norms_before;   // Llama's
extern const struct norm_names norms_sandwich; // GLM-4's: before and after

// Name of a tensor in Llama's files and in another family's, without ".weight" and the layer
// number: { "self_attn.q_proj", "attention.wq" }.
struct tensor_name {
    const char *ours, *theirs;
};

// A family's decoder. The sizes are defaults for keys that its configs omit: the class defaults of
// transformers.
struct decoder_kind {
    const char *const *model_types; // of a text_config that may name it; NULL: its family's
    int64_t ffn_size, vocab, max_positions;
    int64_t head_size; // 0: hidden / heads
    double eps, theta; // 0: 1e-6 and 10000
    bool windowed;     // "sliding_window" applies unless it is null, without a key that enables it
    bool qkv_bias;     // only q, k and v have biases, whatever the config says
    bool qkv_bias_unless;                   // the same, unless "attention_bias" is false
    const struct attention_kind *attention; // reads the config
    // The kind of a layer where layers differ; NULL: `attention` in all.
    const struct attention_kind *(*attention_of)(const struct decoder_config *c, int layer);
    const struct ffn_kind *ffn;
    const struct norm_names *norms;
    const struct rotary_kind *rotary;
    const struct tensor_name *names; // names that differ from Llama's, ended by { 0 }; NULL: none
    const char *gguf;                // its architecture in GGUF files; NULL: none
    const char *llava_layout;        // the prompt layout of LLaVA-1.5 folders with it; NULL: none
    const char *const *keys; // keys of core/model/config_keys.c that it computes; NULL: none
    // Turns the output h [n, D] of a layer into the next layer's input (adds rows, scales); NULL:
    // they are the same.
    struct tensor *(*after_layer)(struct graph *g, const struct layer *layer, struct tensor *h);
};

// Of latent attention (core/model/attention_latent.c).
struct latent_config {
    int64_t q_rank, rank; // R of queries (0: not compressed), and of keys and values
    int64_t nope, rope;   // numbers of a head that are not rotated, and that are; d = nope + rope
    bool bias;
};

// Of a mixture of experts (core/model/ffn_experts.c).
struct experts_config {
    int64_t count, per_token, shared, width; // E, experts a row, always computed, m
    int64_t dense;                           // first layers that have an ordinary FFN
    int64_t groups, groups_per_token;        // experts are chosen in the best groups alone
    bool normalise;                          // the weights of a row's experts add up to `scale`
    double scale;
};

struct decoder_config {
    const struct decoder_kind *kind;
    int layers;                           // L
    int64_t hidden, heads, kv_heads, dim; // D, H, Hkv, d
    int64_t value_dim;                    // numbers of a head's value: d, or less
    int64_t ffn, vocab, max_positions;
    int64_t window; // number of tokens that a layer attends to, its own included; 0: all
    double eps;
    struct rope_config rope;
    bool qkv_bias, out_bias, mlp_bias, tied;
    bool untied; // the config ties the head, but the file has a different one
    // Fields that only the kind of attention, or of FFN, reads.
    union {
        struct latent_config latent;
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
    int gpu; // which computes it (backend_enter)
};

struct decoder_part;

struct decoder {
    struct decoder_config config;
    struct tensor embed; // [V,D]; on the host unless tied
    struct tensor norm;  // [D]
    struct tensor head;  // [V,D]; the same memory as embed when tied
    struct decoder_layer *layer;
    struct decoder_part *part; // the layers that this process computes; NULL: all
};

struct pass;

// The layers of this process, if a model is dealt to several (core/stages/stages.h), and calls at
// their borders. All processes make every call for every pass, also after a failure, which becomes
// the failure of all.
struct decoder_part {
    int first_layer, end_layer; // its layers: first_layer .. end_layer-1
    bool first, last;           // it has the embedding and the encoder; the final norm and the head
    // The hidden state of the remaining rows before first_layer, and *p for these rows. h is memory
    // for those of *p.
    struct tensor *(*receive)(const struct decoder_part *part, struct graph *g,
                              const struct pass **p, struct tensor *h);
    // Sends h, the output of the last of its layers, to the next process. p NULL, h NULL: after a
    // failure.
    void (*send)(const struct decoder_part *part, struct graph *g, const struct pass *p,
                 const struct sequence *s, const struct tensor *h);
    // The last process's x [rows, columns] f32, in all processes; columns 0: only its failure.
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

// Checks that "model_type" is empty, missing or known; known NULL: it has chosen the kind.
int model_type_check(const char *const *known, const cJSON *json, struct err *err);
// Reads a config object (text_config or the whole config.json) of that kind.
int decoder_config_read(struct decoder_config *d, const struct decoder_kind *kind,
                        const cJSON *json, struct err *err);
// Which of several GPUs computes a layer: the first holds everything but the layers (`rest` bytes)
// plus as many layers as balance the load; none if the rest alone exceeds that.
int decoder_gpu(int layer, int layers, double layer_bytes, double rest, int gpus);
// Binds the tensors; b->prefix like "language_model.model.", `head` is the prefix of the head.
// Clears config.tied if the file has a head that differs from the embedding. 0 or -1 (b->err).
int decoder_bind(struct decoder *d, struct binder *b, const char *head);
// The prefix under which the file has that tensor (Llama's name), as bind_prefix.
const char *decoder_prefix(const struct checkpoint *c, const struct decoder_kind *kind,
                           const char *const *prefixes, const char *ours);
void decoder_release(struct decoder *d); // not the weights: checkpoint and arena own them
// The family's name of a tensor with this name in Llama: "embed_tokens", "lm_head",
// "self_attn.q_proj".
const char *decoder_name(const struct decoder_kind *kind, const char *ours);
// The inverse: Llama's name of a weight, "layers.3.self_attn.q_proj.weight". The caller frees it.
char *decoder_common_name(const struct decoder_kind *kind, const char *name);
// Iterates over vectors that are no weights (the biases of routers); starts at { 0 }.
struct decoder_constant {
    int layer, i;                // the next one, in the list of its FFN
    char name[160];              // "layers.3.mlp.gate.e_score_correction_bias"
    const struct tensor *tensor; // [n]
};
bool decoder_next_constant(const struct decoder *d, struct decoder_constant *c);
// Initialises an empty KV cache.
void decoder_cache(const struct decoder *d, const struct backend *backend, struct kv *kv);

// The kinds of a layer.
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

// The projection from a layer's attention back to the residual stream: the last weight.
static inline const struct linear *attention_output(const struct decoder_layer *w)
{
    return &w->attention.weight[w->attention.count - 1];
}

// LOGITS_HIDDEN: h[L] [n,D] before the final norm instead of logits (training: core/eval/loss.h).
enum logits_rows { LOGITS_NONE, LOGITS_LAST, LOGITS_ALL, LOGITS_HIDDEN };

// Runs rows past.. of `s` through all layers. h [n,D] are their embeddings (n = s->n - past, past =
// rows in kv's first layer); keys and values are appended to kv. *logits = [1,V] or [n,V]. On
// failure or cancel kv keeps `past` rows. kv NULL: all rows of s at once, nothing is cached;
// required with a tape, as gradients do not flow into a cache, and s must last until the backward
// pass has run.
//
// A method at SITE_LAYER_OUT may replace x by other rows of s and list them in args->rows
// (ascending; its own memory, copied): only those continue, at their positions, and only those are
// held by later layers, whose earlier cache is discarded, also when the pass fails. [n,V] and [n,D]
// are then the rows alive at the end. A prefill (n > 1 or the first row after a prompt) that finds
// layers without some of the past rows must replace rows in this way.
//
// With layers in several processes (d->part) each calls it with the same rows. h is the first
// process's; the others pass memory for it. All get the logits; LOGITS_HIDDEN only the last one,
// NULL the others.
int decoder_forward(struct graph *g, const struct decoder *d, struct kv *kv,
                    const struct sequence *s, struct tensor *h, enum logits_rows want, bool prefill,
                    struct tensor **logits);
// A generated token without listeners: layers and head as one recording of the device
// (core/graph/replay.h). False: not possible; compute a normal pass. True: *logits [1,V], or NULL
// after a failure.
bool decoder_step(struct graph *g, const struct decoder *d, struct kv *kv, const struct sequence *s,
                  struct tensor *h, struct tensor **logits);
// Final norm and head of rows of h [n, D]: [n, V].
struct tensor *decoder_logits(struct graph *g, const struct decoder *d, struct tensor *h);

#endif
