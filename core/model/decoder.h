// core/model/decoder.h -- the language model: layers of attention and gated FFN (Llama, Qwen2
// shapes).
//
//   struct tensor *h = splice(&g, &m->decoder.embed, &s, past, visual, picture_count), *logits;
//   decoder_forward(&g, &m->decoder, &kv, &s, h, LOGITS_LAST, true, &logits);
#ifndef CORE_MODEL_DECODER_H
#define CORE_MODEL_DECODER_H

#include "core/graph/hooks.h"
#include "core/model/bind.h"
#include "core/model/kv.h"
#include "core/model/rope.h"

struct decoder_config {
    int layers;                           // L
    int64_t hidden, heads, kv_heads, dim; // D, H, Hkv, d
    int64_t ffn, vocab, max_positions;
    double eps;
    struct rope_config rope;
    bool qkv_bias, out_bias, mlp_bias, tied;
};

struct decoder_layer {
    struct tensor input_norm, post_norm; // [D]
    struct linear q, k, v, o;            // [H*d,D] [Hkv*d,D] [Hkv*d,D] [D,H*d]
    struct linear gate, up, down;        // [ffn,D] [ffn,D] [D,ffn]
    int gpu;                             // which computes it (backend_enter)
};

struct decoder {
    struct decoder_config config;
    struct tensor embed; // [V,D]; on the host unless tied
    struct tensor norm;  // [D]
    struct tensor head;  // [V,D]; the same memory as embed when tied
    struct decoder_layer *layer;
};

// What a family's configs leave out, for it equals the class defaults of transformers; and what its
// layers always have.
struct decoder_kind {
    int64_t ffn, vocab, max_positions;
    bool qkv_bias; // whatever attention_bias says
};

// Reads a config object (text_config or the whole config.json) of that kind.
int decoder_config_read(struct decoder_config *d, const struct decoder_kind *kind,
                        const cJSON *json, struct err *err);
// Which of several GPUs computes a layer: the first holds everything but layers (`rest` bytes) and
// as many layers as make each hold as much as the others; none where the rest is more than that.
int decoder_gpu(int layer, int layers, double layer_bytes, double rest, int gpus);
// Binds the tensors; b->prefix like "language_model.model." and the head's full name. Clears
// config.tied when the file holds a head that differs from the embedding. 0 or -1 (b->err).
int decoder_bind(struct decoder *d, struct binder *b, const char *head);
void decoder_release(struct decoder *d); // not the weights: they belong to checkpoint and arena

// LOGITS_HIDDEN: not logits but h[L] [n,D], before the final norm (training: core/train/loss.h).
enum logits_rows { LOGITS_NONE, LOGITS_LAST, LOGITS_ALL, LOGITS_HIDDEN };

// Rows past.. of `s` through all layers. h [n,D] are their embeddings (n = s->n - past, past = rows
// in kv's first layer); keys and values are appended to kv. *logits = [1,V] or [n,V]. On failure or
// cancel kv keeps `past` rows. kv NULL: all rows of s at once and none are kept; with a tape that
// is the only way, as gradients do not flow into a cache, and s lives until it ran back.
//
// A method at SITE_LAYER_OUT may put other rows of s into x and name them in args->rows (ascending;
// its own memory, copied): those alone go on, at their positions, and are all that the layers after
// it hold: what was cached there before is forgotten, also when the pass fails. [n,V] and [n,D] are
// then the rows alive in the end. A prefill (n > 1 or the first row after a prompt) that finds
// layers without some of the past rows must so replace them.
int decoder_forward(struct graph *g, const struct decoder *d, struct kv *kv,
                    const struct sequence *s, struct tensor *h, enum logits_rows want, bool prefill,
                    struct tensor **logits);

#endif
