// core/model/model.h -- a loaded model: mapped files, configs, encoder, projector, decoder,
// tokenizer.
//
// Room core/model/: models: weights by name, the parts of decoders and vision encoders, the
// families that put them together, sampling, counting of operations. It uses all rooms above: base
// to files.
#ifndef CORE_MODEL_MODEL_H
#define CORE_MODEL_MODEL_H

#include "core/files/checkpoint.h"
#include "core/model/decoder.h"
#include "core/model/projector.h"
#include "core/model/vision.h"
#include "core/model/weights.h"
#include "core/picture/preprocess.h"
#include "core/text/template.h"
#include "core/text/tokenizer.h"

struct family;

struct model {
    char *name;                    // folder as given by the user
    struct checkpoint *checkpoint; // the weights are mapped from here
    const struct family *family;
    struct arena arena;     // small tensors, widened vectors
    struct weights weights; // everything bound, by name
    struct tokenizer *tokenizer;
    const struct layout *layout; // of prompts, found from the folder
    struct decoder decoder;
    struct vision vision; // config.layers 0: text only
    struct projector projector;
    struct picture_config picture;
    enum dtype dtype;    // of all matrices in the file; f32 where they differ
    int32_t placeholder; // id at visual places, -1 for text-only models
    struct ids eos;      // ids that end an answer
};

// On failure nothing remains; NULL and a message that names the folder.
struct model *model_load(const char *name, const struct backend *backend,
                         const struct load_progress *progress, struct err *err);
void model_free(struct model *m);
// What loading does once m->checkpoint is there: family, configs, weights. The tokenizer is apart.
int model_bind(struct model *m, struct err *err);

bool model_sees(const struct model *m); // has a vision encoder

// To be called after a weight's tensor was given other data or a gradient: what is made of it (a
// tied head) follows.
void model_weights_changed(struct model *m);

// How prompts are written for this model under these settings (chat.template, chat.date).
int model_prompt(const struct model *m, const struct settings *s, bool generation_prompt,
                 struct prompt_options *options, struct err *err);

// What a setting means for this model on that device: `auto` spelled out where these decide
// (compute.matmul, kv.dtype), else the value as typed. What is stored of an answer, a measurement
// or a run names this, and such are compared by it.
const char *model_meaning(const struct model *m, const struct backend *b, const struct settings *s,
                          const char *key);
// How its products are computed under these settings: "f32", "bf16".
const char *model_arithmetic(const struct model *m, const struct backend *b,
                             const struct settings *s);

// Parameters by part, as the file holds them (SigLIP's unused pooling head included); a tied head
// counts once, as the embedding.
struct model_part {
    const char *name; // part_name
    int64_t parameters;
    uint64_t bytes;
    enum dtype dtype; // of its largest tensor
};

void model_count(const struct model *m, struct model_part parts[MODEL_PARTS]);

#endif
