// core/model/flops.h -- FLOPs of the language model's passes (CAPA's paper): 2 per
// multiply-add; norms, softmax and the vision encoder are not counted.
//
//   flops += flops_attention(config, l, pairs);                              at SITE_VALUES
//   flops += flops_projections(layer, n) + flops_ffn(layer, computed);       at SITE_FFN
//   flops += flops_head(config);                                             a row of logits
//
// Methods count their own operations, including those that replace an FFN (methods_flops).
//
// The two thin products of a LoRA count too: 2 r (in + out) per row.
#ifndef CORE_MODEL_FLOPS_H
#define CORE_MODEL_FLOPS_H

#include "core/model/decoder.h"

// Returns the number of rows that a method sees at a site.
int64_t flops_rows(const struct site *site, const struct site_args *args);
// Returns the number of keys that row i of a pass sees at SITE_VALUES.
int64_t flops_keys(const struct site_args *args, int64_t i);
// Returns the total number of keys that rows 0..n-1 of the sequence see in a layer if no method
// changes the pass.
double flops_pairs(const struct decoder_config *c, int layer, const struct sequence *s, int64_t n);
// Returns the FLOPs of the projections of `rows` rows: 4 D H d + 4 D Hkv d per row with
// grouped-query attention, plus LoRA and the products after the FFN (decoder_kind.after_layer).
double flops_projections(const struct decoder_layer *w, double rows);
// Returns the FLOPs of a layer's attention over `pairs` pairs of a query and a key that the query
// sees. The layer's attention kind gives the FLOPs of a pair: 4 H d for grouped-query attention, so
// 2 N (N+1) H d for N causal rows.
double flops_attention(const struct decoder_config *c, int layer, double pairs);
// Returns the FLOPs of a layer's recurrence over `rows` rows; 0 for layers with attention.
double flops_recurrence(const struct decoder_config *c, int layer, double rows);
// Returns the FLOPs of the FFNs of `rows` rows: 6 D Dff per row if gated, plus LoRA.
double flops_ffn(const struct decoder_layer *w, double rows);
// Returns the FLOPs of one row's inputs of all layers (config.layer_input).
double flops_inputs(const struct decoder *d);
// Returns the bytes of the projection that computes these inputs.
double flops_input_bytes(const struct decoder *d);
// Returns LoRA's part of the FLOPs of projections, FFN and the products after it, per row.
double flops_lora(const struct decoder_layer *w);
// Return the bytes read per row: a layer's matrices (an expert's weighted by the share of rows that
// reach it), and one token's cached key and value in a layer.
double flops_weight_bytes(const struct decoder_layer *w);
double flops_key_bytes(const struct decoder_config *c, int layer, enum dtype dtype);
// Returns the bytes of a layer's state that a row reads and writes.
double flops_state_bytes(const struct decoder_config *c, int layer);
// Returns the FLOPs of one row of logits.
double flops_head(const struct decoder_config *c);

#endif
