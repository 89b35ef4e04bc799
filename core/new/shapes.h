// core/new/shapes.h -- shapes of published models: sizes and tensors.
//
//   const struct shape *s = shape_find("llava-1.5-7b", &err);
//   shape_tensors(s, count_one, &total);     // calls count_one(&total, tensor) for each
#ifndef CORE_NEW_SHAPES_H
#define CORE_NEW_SHAPES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/json.h"
#include "core/model/parts.h"

// TOWER_OWN: defined by the shape's own config.
enum shape_tower { TOWER_NONE, TOWER_CLIP, TOWER_SIGLIP, TOWER_OWN };

// Determines the special tokens, their ids, and the chat template.
enum shape_tokens { TOKENS_LLAMA2, TOKENS_LLAMA3 };

struct shape {
    const char *name;
    const char *decoder; // family of the language model: model_type of its config
    // The language model's sizes: D = hidden, H = heads, Hkv = kv_heads, d = head_size.
    int64_t layers, hidden, heads, kv_heads, head_size, ffn, context;
    int64_t vocab; // rows of the embedding
    int64_t words; // ids 0..words-1: ordinary tokens, and Llama-2's <unk>, <s>, </s>; other
                   // special tokens follow
    bool tied;     // the embedding is also the head
    enum shape_tokens tokens;
    double rope_theta, rope_factor; // factor 0: no llama3 scaling
    // Vision encoder and projector; all zero in a text-only model.
    const char *family; // NULL: "llava"
    const char *tiles;  // "image_grid_pinpoints"; a newline follows each row of the feature map;
                        // NULL: no tiles
    const char *tiles_limit; // "vision_aspect_ratio"; NULL: none
    enum shape_tower tower;
    int64_t tower_layers, tower_hidden, tower_heads, tower_ffn, image, patch;
    bool no_pooling;   // a SigLIP without its pooling head
    int feature_layer; // vision_feature_layer; 0 means -2
    int projector_layers;
    // TOWER_OWN: texts of config.json (with token ids 0) and preprocessor_config.json; the family's
    // file lists the tensors. The sizes above, except vocab and words, are ignored.
    const char *config, *preprocessor;
    const char *marks; // special tokens that prompts contain (struct family_shape), or NULL
    double spread;     // standard deviation of the random weights
    bool fresh;        // for training from scratch (initialised as shape_tensors says)
};

const struct shape *shape_at(int index); // NULL after the last
const struct shape *shape_find(const char *name, struct err *err);

struct safetensor;

struct shape_tensor {
    char name[128]; // as on the hub
    enum model_part_kind part;
    float each;    // value of every element (1: the gain of a norm); 0: random values
    double spread; // their standard deviation
    int rank;
    int64_t size[WEIGHT_MAX_RANK];
    const struct safetensor *source; // in a joined model: the tensor to copy; NULL: random values
};

int64_t shape_tensor_count(const struct shape_tensor *t);
// Lists tensors in writing order. A fresh shape is initialised as in GPT-2: biases are 0, and the
// last matrix of each sublayer is scaled by 1 / sqrt(2 L), where 2 L is the number of sublayers.
void shape_tensors(const struct shape *s, void (*each)(void *self, const struct shape_tensor *t),
                   void *self);

// Lists the tensors that a model with this config.json and preprocessor_config.json (or NULL)
// needs. Returns -1 if the configs are not supported. `name` is for messages.
int config_tensors(const char *name, cJSON *config, cJSON *preprocessor, double spread,
                   void (*each)(void *self, const struct shape_tensor *t), void *self,
                   struct err *err);
// Returns the shape's config with `layers` decoder layers, which the caller frees; NULL if the
// shape has no config.
char *shape_config_layers(const struct shape *s, int64_t layers);

#endif
