// core/files/checkpoint.h -- a model folder as Hugging Face publishes it: configs and mapped
// weights.
//
//   struct checkpoint *c = checkpoint_open("/models/llava-1.5-7b-hf", NULL, &err);
//   const cJSON *text = json_get(c->config, "text_config");
//   struct tensor w;
//   checkpoint_tensor(c, "language_model.model.norm.weight", 1, (int64_t[]){ 4096 }, &w, &err);
//
// Room core/files/: checkpoints on disk: safetensors files, model folders, the local hub cache. It
// uses base and graph.
#ifndef CORE_FILES_CHECKPOINT_H
#define CORE_FILES_CHECKPOINT_H

#include <stdbool.h>

#include "core/base/json.h"
#include "core/base/names.h"
#include "core/files/safetensors.h"
#include "core/graph/arena.h"

struct checkpoint {
    char *folder;
    cJSON *config;           // config.json, always there
    cJSON *generation;       // generation_config.json or NULL
    cJSON *preprocessor;     // preprocessor_config.json or NULL
    cJSON *processor;        // processor_config.json or NULL
    cJSON *tokenizer_config; // tokenizer_config.json or NULL
    char *chat_template;     // text of the folder's chat template (any of its three places) or NULL
    struct safetensors **shards;
    int shard_count;
    const struct safetensor **tensors; // of all shards, sorted by name
    int64_t tensor_count;
    char fingerprint[65]; // hex SHA-256 over config, headers and samples of every tensor
};

// Reports how far a long load is: done of total bytes. May be NULL.
struct load_progress {
    // False stops what is under way: it fails with "cancelled".
    bool (*report)(void *self, uint64_t done, uint64_t total);
    void *self;
};

// Turns what the user typed into a folder: an existing folder as it is, else `org/name` looked up
// in the local hub cache ($HF_HUB_CACHE, $HF_HOME/hub, ~/.cache/huggingface/hub; refs/main, else
// the newest snapshot). A new string, or NULL with a message that says where it looked.
char *checkpoint_locate(const char *name, struct err *err);
// The models of that cache which have a config.json there, sorted: names for checkpoint_locate.
void checkpoint_cached(struct names *found);

// Opens and checks everything, maps the weights. A missing shard, a tensor in no shard, a broken
// file: NULL and a message that names the file.
struct checkpoint *checkpoint_open(const char *folder, const struct load_progress *progress,
                                   struct err *err);
void checkpoint_close(struct checkpoint *c);

// "best-40.safetensors" or, of former versions, "best.safetensors": what training keeps beside a
// model while it runs.
bool checkpoint_is_best(const char *name);

// The file whose settings `preprocessor` holds.
const char *checkpoint_preprocessor_file(const struct checkpoint *c);

bool checkpoint_has(const struct checkpoint *c, const char *name);
const struct safetensor *checkpoint_find(const struct checkpoint *c, const char *name);
// Fills *t with the named tensor in place (mapped), after checking rank, shape (-1 = any) and that
// it is f32, f16 or bf16. Data not aligned for its dtype is copied into `arena`.
int checkpoint_tensor(const struct checkpoint *c, const char *name, int rank, const int64_t *shape,
                      struct arena *arena, struct tensor *t, struct err *err);
// The same, widened to f32 in `arena`: for gains, biases and other small tensors.
int checkpoint_vector(const struct checkpoint *c, const char *name, int64_t n, struct arena *arena,
                      struct tensor *t, struct err *err);
// Bytes of all tensors in the shards.
uint64_t checkpoint_bytes(const struct checkpoint *c);

#endif
