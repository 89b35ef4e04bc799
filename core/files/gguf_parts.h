// core/files/gguf_parts.h -- shared by the files that read a GGUF file as a model folder only.
//
//   checkpoint_gguf.c   the files of a model: splits, encoder; a struct checkpoint of them
//   gguf_text.c         language models: one row an architecture
//   gguf_latent.c         DeepSeek's: latent attention and experts
//   gguf_vision.c       picture encoders
//   gguf_encoders.c       their kinds: one row a projector type
//   gguf_beside.c         which of several files is the model's
//   gguf_keys.c           metadata that nothing reads
//   gguf_tokenizer.c    tokenizer and its config
#ifndef CORE_FILES_GGUF_PARTS_H
#define CORE_FILES_GGUF_PARTS_H

#include "core/base/json.h"
#include "core/files/gguf.h"
#include "core/tokenizer/tokenizer.h"

// A GGUF name and Hugging Face's, without ".weight" and the layer.
struct gguf_name {
    const char *theirs, *ours;
    bool bare; // Hugging Face's has no ".weight"
    int rank;  // there, with dimensions of 1 in front; 0: as in the file; or GGUF_SQUARE
};

enum {
    GGUF_SQUARE = -1, // [n*n, width] in the file, [n, n, width] there
};

// Tensors under Hugging Face's names; data in the mapping of the files, or in `made`.
struct renamed {
    struct safetensor *list;
    size_t count, room;
    void **made; // memory of tensors put together of several
    size_t made_count;
};

// A copy of t under that name, which is taken over. Its entry is the newest.
struct safetensor *renamed_add(struct renamed *r, const struct safetensor *t, char *name);

// Metadata into a config: "ARCH.KEY" (or the whole key where it has a dot in front: ".general.x")
// as a number of `to`. After the first failure further calls do nothing.
struct gguf_config {
    const struct gguf *file;
    const char *arch;
    cJSON *to;
    struct err *err;
    bool failed;
};

enum { GGUF_NEEDED = -1 }; // no default: the key must be there

void config_int(struct gguf_config *c, const char *key, const char *ours, int64_t otherwise);
void config_real(struct gguf_config *c, const char *key, const char *ours, double otherwise);
int64_t config_value(struct gguf_config *c, const char *key, int64_t min, int64_t otherwise);
void config_fail(struct gguf_config *c);

// Where the parts of a model stand in Hugging Face's names.
struct gguf_place {
    const char *text, *head; // "model.", ""
};

// Fills `config` with the language model's keys, "architectures" and "model_type" included.
int gguf_text_config(const struct gguf *f, cJSON *config, struct err *err);
int gguf_text_tensors(const struct gguf *f, const struct gguf_place *place, struct renamed *r,
                      struct err *err);

// Name without ".weight" or ".bias" (which is *end) of what stands behind the layer in "v.blk.N.",
// or of a whole name (*layer -1). The caller frees it.
char *gguf_stem(const char *name, const char *blocks, long *layer, const char **end);
const struct gguf_name *gguf_name_find(const struct gguf_name *names, const char *theirs);
// Id of a token by its text, -1: none.
int32_t gguf_token_find(const struct gguf *f, const char *text);

// Memory for a tensor that is put together; NULL if there is none. r owns it.
void *renamed_make(struct renamed *r, uint64_t bytes);

void gguf_latent_read(struct gguf_config *c);
extern const struct gguf_name gguf_latent_names[];
int gguf_latent_put(const struct gguf *f, const struct safetensor *t, const char *stem,
                    const char *start, struct renamed *r, struct err *err);

// What reading an encoder fills: the config is there with its text, vision and preprocessor parts.
struct encoder_config {
    struct gguf_config c; // c.to: vision_config
    const struct gguf *text;
    cJSON *whole, *vision, *preprocessor;
};

// A kind of picture encoder.
struct gguf_encoder {
    const char *type;                      // clip.projector_type
    const char *also;                      // of earlier converters; NULL: none
    bool (*is)(const struct gguf *mmproj); // of several with that type; NULL: it is
    const char *const *texts;              // architectures of language models; NULL: any
    const char *architecture, *model_type; // of the whole
    bool flat;                             // the language model's keys stand at the top
    struct gguf_place place;               // of the language model's tensors
    const struct gguf_name *outer;         // whole names
    const char *blocks;                    // before the number of a block
    const struct gguf_name *block;         // of its tensors
    const char *last;                      // the projector's: its rows are a visual token's width
    const char *patches;                   // name of a convolution in two parts; NULL: none
    void (*read)(struct encoder_config *e);
};

extern const struct gguf_encoder gguf_encoders[]; // up to one without type

const struct gguf_encoder *gguf_encoder_find(const struct gguf *mmproj, struct err *err);
// -1: it does not make visual tokens for this language model, and why (kind, width).
int gguf_encoder_fits(const struct gguf_encoder *e, const struct gguf *mmproj,
                      const struct gguf *text, struct err *err);
// Puts *config, the language model's, into the whole model's.
int gguf_encoder_config(const struct gguf_encoder *e, const struct gguf *mmproj,
                        const struct gguf *text, cJSON **config, cJSON **preprocessor,
                        struct err *err);
int gguf_encoder_tensors(const struct gguf_encoder *e, const struct gguf *mmproj, struct renamed *r,
                         struct err *err);

// The picture encoder beside a model: an open file and what kind it is; NULLs: there is none.
struct gguf_beside {
    struct gguf *file;
    const struct gguf_encoder *kind;
    char *notice; // for the user: which of several was taken, or why none; NULL: nothing to say.
                  // The caller frees it
};

// -1: one beside it has its name but does not fit, or several fit equally well.
int gguf_beside(const char *model, const struct gguf *text, struct gguf_beside *found,
                struct err *err);
// n of a table of n*n rows; 0: they are no square.
int64_t gguf_square_side(int64_t rows);

enum { GGUF_KEYS_NAMED = 8 };

// Refuses an unread pair that changes the result: -1. Such a pair then counts as read.
int gguf_keys_check(const struct gguf *f, struct err *err);
// "'llama.a' 3, 'llama.b' 0.5": those that are not known to be harmless, the first
// GGUF_KEYS_NAMED; NULL: there are none. The caller frees it.
char *gguf_keys_unread(const struct gguf *f);

// The tokenizer, and what tokenizer_config.json and generation_config.json would say.
struct tokenizer *gguf_tokenizer(const struct gguf *f, struct err *err);
cJSON *gguf_tokenizer_config(const struct gguf *f, struct err *err);
// *named: how many of the ends the metadata name; the rest are recognised by their texts.
cJSON *gguf_generation_config(const struct gguf *f, size_t *named, struct err *err);

#endif
