// core/model/rope.h -- rotary positions: frequencies from the config, cos and sin of the rows of a
// pass.
//
//   struct rope_config r;
//   rope_config_read(&r, &rotary_plain, text_config, 10000, &err);
//   rope_angles(g, &r, sequence, NULL, n, &cos, &sin);   // [n, dim/2] each, once per pass
//   q = op_rope(g, q, cos, sin);
#ifndef CORE_MODEL_ROPE_H
#define CORE_MODEL_ROPE_H

#include "core/base/json.h"

struct graph;
struct rope_config;
struct sequence;

// How positions rotate heads; a family's file selects one. The scaling of frequencies, selected by
// "rope_type", is a row of the table in rope.c.
struct rotary_kind {
    // True: pairs are elements 2i and 2i+1 of a head, or, with a partial_rotary_factor below 1, of
    // its first part; rope_arrange reorders them for op_rope. False: pairs are i and i+r/2, where r
    // elements of a head rotate.
    bool interleaved;
    // Default rotated share of a head; 0: all. Configs may give another share only if pairs are
    // interleaved or this is set; the first part of the head is rotated.
    double share;
    const char *usual; // scaling of configs without rotary keys; NULL: none
    // Three positions per token (time, row, column): the first section[0] pairs rotate by the time,
    // and so on (Qwen2-VL, arXiv 2409.12191, section 2.1).
    bool multimodal;
    // With `multimodal`: the axes alternate (Qwen3-VL). Pair j rotates by the row if j % 3 is 1 and
    // j < 3 * section[1], by the column if j % 3 is 2 and j < 3 * section[2], and else by the time.
    bool alternating;
    bool scales_queries; // the config must have the factors of queries ("llama_4_scaling_beta")
    int64_t section[3];  // with `alternating`: pairs of each position, if the config omits them
    // Replaces rope_angles_host in a family with other angles; NULL: angles follow from the config.
    void (*angles)(const struct rope_config *r, const struct sequence *s, const int32_t *row,
                   int64_t n, float *cos_out, float *sin_out);
};

extern const struct rotary_kind rotary_plain; // one position per token, which rotates all pairs
extern const struct rotary_kind rotary_interleaved; // GLM-4's: adjacent pairs, first half of heads
// Gemma 4's: only the first quarter of the pairs rotates if the config has no rotary keys.
extern const struct rotary_kind rotary_proportional;
extern const struct rotary_kind rotary_multimodal;
extern const struct rotary_kind rotary_multimodal_interleaved;
extern const struct rotary_kind rotary_multimodal_alternating;
// GLM-4.5's: pairs i and i+d/4 of the first half of a head of d elements.
extern const struct rotary_kind rotary_half, rotary_multimodal_half;
extern const struct rotary_kind rotary_scaled_queries; // Ministral 3's
extern const struct rotary_kind
    rotary_multimodal_part; // Qwen3.5's: alternating, first part of heads

enum { ROPE_DIVISORS = 256 };

struct rope_config {
    const struct rotary_kind *rotary;
    const struct rope_scaling *scaling; // NULL: none
    int64_t dim;   // elements of a head that have angles; set by the attention kind
    int64_t first; // index of the first of them
    double share; // rotated share of dim (other angles are 0); below 1 only for kinds that allow it
    double theta;
    int64_t section[3]; // multimodal: pairs of each position
    double factor;      // linear, llama3, yarn, proportional
    double turning;     // proportional: share of the pairs that rotate
    double low_freq_factor, high_freq_factor, original_positions; // llama3; yarn: only the last
    double beta_fast, beta_slow, all_share; // yarn; all_share: "mscale_all_dim"
    bool fractional;                        // yarn: its two bounds are not rounded to pairs
    double amplitude;                       // factor of cos and sin of rotated elements; 0 means 1
    // Ministral 3: queries at position p are multiplied by 1 + query_beta ln(1 + floor(p / o)), o
    // the original context length; 0: they are not.
    double query_beta;
    double divisors[ROPE_DIVISORS]; // of the pairs
    int divisor_count;
};

// Reads rope_parameters, or rope_theta and rope_scaling, of a text config.
int rope_config_read(struct rope_config *r, const struct rotary_kind *rotary, const cJSON *json,
                     double theta, struct err *err);
// Like rope_config_read, for layers with a sliding window: reads "sliding_attention" of
// rope_parameters, else the base "rope_local_base_freq" without scaling.
int rope_config_read_sliding(struct rope_config *r, const struct rotary_kind *rotary,
                             const cJSON *json, struct err *err);
// Checks that dim is even, and that the sections and divisors fit its pairs; call it after the
// attention kind has set dim.
int rope_config_check(const struct rope_config *r, struct err *err);
int64_t rope_rotated(const struct rope_config *r);          // rotated elements of a head
const char *rope_scaling_name(const struct rope_config *r); // "default"
// Returns the factor by which cos and sin of rotated elements are multiplied.
double rope_amplitude(const struct rope_config *r);
// Returns the factor by which DeepSeek's attention scores are multiplied: 1 without yarn.
double rope_score_gain(const struct rope_config *r);
// Sets the factors of queries [n] at the positions of rows row[0..n) of s; row NULL: the last n
// rows of s. False: all are 1.
bool rope_query_factors(const struct rope_config *r, const struct sequence *s, const int32_t *row,
                        int64_t n, float *factor);
// True if the scaling is supported only up to the config's max_position_embeddings ("dynamic").
bool rope_bounded(const struct rope_config *r);
// Reorders pairs of x[n,H,d] that are interleaved, or in the first part of heads, to i and i+d/2;
// unrotated elements end both halves. Applied to queries and keys alike, the order changes no
// score.
struct tensor *rope_arrange(struct graph *g, const struct rope_config *r, struct tensor *x);
// Returns the number of interleaved pairs in a head, for the fused forms (struct fused_qkv).
int64_t rope_adjacent(const struct rope_config *r);
// Computes the radians per position of each of the dim/2 pairs.
void rope_frequencies(const struct rope_config *r, float *frequency);
// Computes cos and sin [n, dim/2] at the positions of rows row[0..n) of s; row NULL: the last n
// rows of s.
void rope_angles_host(const struct rope_config *r, const struct sequence *s, const int32_t *row,
                      int64_t n, float *cos_out, float *sin_out);
// Rotates elements first .. first+dim-1 of each head of x[N,H,d]. May return x itself.
struct tensor *rope_part(struct graph *g, const struct rope_config *r, struct tensor *x,
                         struct tensor *cos, struct tensor *sin);
// Like rope_angles_host, but uploads cos and sin to the step arena. 0 or -1.
int rope_angles(struct graph *g, const struct rope_config *r, const struct sequence *s,
                const int32_t *row, int64_t n, struct tensor **cos_out, struct tensor **sin_out);

#endif
