// core/model/rope.h -- rotary positions: frequencies from the config, cos and sin of the rows of a
// pass.
//
//   struct rope_config r;
//   rope_config_read(&r, text_config, 10000, &err);
//   rope_angles(g, &r, dim, sequence, NULL, n, &cos, &sin);   // [n, dim/2] each, once per pass
//   q = op_rope(g, q, cos, sin);
#ifndef CORE_MODEL_ROPE_H
#define CORE_MODEL_ROPE_H

#include "core/base/json.h"
#include "core/graph/graph.h"
#include "core/text/sequence.h"

// ROPE_DYNAMIC equals the default up to the config's max_position_embeddings; the decoder refuses
// longer sequences.
enum rope_kind { ROPE_PLAIN, ROPE_LLAMA3, ROPE_LINEAR, ROPE_DYNAMIC };

struct rope_config {
    enum rope_kind kind;
    double theta;
    double factor;                                                // ROPE_LLAMA3, ROPE_LINEAR
    double low_freq_factor, high_freq_factor, original_positions; // ROPE_LLAMA3
};

// Reads rope_parameters, or rope_theta and rope_scaling, of a text config.
int rope_config_read(struct rope_config *r, const cJSON *json, double theta, struct err *err);
// Radians per position of the dim/2 pairs.
void rope_frequencies(const struct rope_config *r, int64_t dim, float *frequency);
// cos and sin [n, dim/2] at the positions of rows row[0..n) of s; row NULL: its last n.
void rope_angles_host(const struct rope_config *r, int64_t dim, const struct sequence *s,
                      const int32_t *row, int64_t n, float *cos_out, float *sin_out);
// The same as tensors of the step arena. 0 or -1.
int rope_angles(struct graph *g, const struct rope_config *r, int64_t dim, const struct sequence *s,
                const int32_t *row, int64_t n, struct tensor **cos_out, struct tensor **sin_out);

#endif
