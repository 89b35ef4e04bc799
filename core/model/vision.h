// core/model/vision.h -- vision transformers: pixels to features (CLIP and SigLIP shapes).
#ifndef CORE_MODEL_VISION_H
#define CORE_MODEL_VISION_H

#include "core/graph/hooks.h"
#include "core/model/bind.h"

struct vision_config {
    int layers;                 // blocks in the file
    int64_t hidden, heads, ffn; // Dv, heads, inner size
    int64_t image_size, patch;  // pixels
    double eps;                 // of its LayerNorms
    enum gelu_form act;
    bool class_token, patch_bias, pre_norm, post_norm; // present in the file?
    int feature_layer; // hidden_states index as in the config: -2, -1, 3 ...
    bool drop_class;   // strategy "default"
};

struct vision_layer {
    struct tensor norm1_gain, norm1_bias, norm2_gain, norm2_bias; // [Dv]
    struct linear q, k, v, out;                                   // [Dv,Dv]
    struct linear fc1, fc2;                                       // [ffn,Dv] [Dv,ffn]
};

struct vision {
    struct vision_config config;
    struct linear patch;              // [Dv, 3*p*p]
    struct tensor class_token;        // [1,Dv]
    struct tensor position;           // [S', Dv], S' = patches (+1 with a class token)
    struct tensor pre_gain, pre_bias; // [Dv]
    struct vision_layer *layer;       // [config.layers]
};

// Reads a vision_config object (clip_vision_model, siglip_vision_model) with the class defaults;
// json NULL: the encoder of LLaVA-1.5. The family sets feature_layer and drop_class.
int vision_config_read(struct vision_config *v, const cJSON *json, struct err *err);
// The GELU variant of an activation name ("gelu", "gelu_pytorch_tanh", "quick_gelu" ...).
int gelu_form_read(enum gelu_form *form, const cJSON *json, const char *key, const char *otherwise,
                   struct err *err);
// Binds the tensors; b->prefix like "vision_tower.vision_model." 0 or -1 (b->err).
int vision_bind(struct vision *v, struct binder *b);
void vision_release(struct vision *v); // not the weights
// Number of blocks to compute for config.feature_layer.
int vision_depth(const struct vision_config *c);
// Rows in the encoder: whole patches only; the rest at the right and bottom edges is ignored.
int64_t vision_rows(const struct vision_config *c);
// Number of features per picture for the projector.
int64_t vision_tokens(const struct vision_config *c);
// pixels[3,H,W] -> features [S, Dv] (class token dropped if so configured). `picture` numbers the
// taps.
struct tensor *vision_forward(struct graph *g, const struct vision *v, struct tensor *pixels,
                              int picture);
// Several pictures of one size in one pass: picture number[i] has pixels[i]; returns their features
// one after the other [count*S, Dv]. A replacement of x by a listener at SITE_VISION is ignored.
struct tensor *vision_forward_all(struct graph *g, const struct vision *v,
                                  struct tensor *const *pixels, const int *number, size_t count);

#endif
