// core/model/linear.h -- linear layers (weight, bias, LoRA), and norms.
//
//   struct tensor *q = linear_forward(g, x, &w->q);   // [N,in] -> [N,out]
#ifndef CORE_MODEL_LINEAR_H
#define CORE_MODEL_LINEAR_H

#include "core/graph/graph.h"

// A product of two thin matrices added to the weight (Hu et al. 2021, arXiv 2106.09685, equation
// 3).
struct lora {
    struct tensor a, b; // [r,in], [out,r]
    float scale;        // alpha / r
    bool stabilised;    // rsLoRA (Kalajdzievski 2023, arXiv 2312.03732): scale is alpha / sqrt(r)
};

// Returns the alpha that gives this scale at this rank.
double lora_alpha(double scale, int64_t rank, bool stabilised);

struct linear {
    struct tensor weight; // [out,in], as stored
    struct tensor bias;   // [out]; data NULL: none
    struct lora *lora;    // NULL: none; owned by the adapter or training run that set it
    double share;         // share of the decoder's rows that pass through it
};

// LayerNorm with a bias, RMSNorm without.
struct norm {
    struct tensor gain, bias; // [D]; bias data NULL: RMSNorm; gain data NULL: no norm
};

// Computes y = x W^T + bias + scale (x A^T) B^T.
struct tensor *linear_forward(struct graph *g, struct tensor *x, const struct linear *w);
// Computes y[N,out] + bias[out]; returns y if there is no bias (data NULL).
struct tensor *linear_add_bias(struct graph *g, struct tensor *y, const struct tensor *bias);
// Replaces linear_forward when nothing reads y: returns zeros that only carry gradients back.
struct tensor *linear_unread(struct graph *g, struct tensor *x, const struct linear *w);
// Computes gelu(linear_forward(x)); fused if the device supports it.
struct tensor *linear_gelu(struct graph *g, struct tensor *x, const struct linear *w,
                           enum gelu_form form);
// Computes x W^T + bias and splits its columns into `parts` equal matrices.
void linear_apart(struct graph *g, struct tensor *x, const struct linear *w, int parts,
                  struct tensor **part);
// Returns part `part` of the columns of y[N, parts*M]: [N, M].
struct tensor *linear_part(struct graph *g, struct tensor *y, int part, int parts);
// Normalises x[N,D]; returns x itself if w has no gain.
struct tensor *norm_forward(struct graph *g, struct tensor *x, const struct norm *w, double eps);

#endif
