// core/files/gguf_parts.h -- shared by the files that read a GGUF file as a model folder, and by
// families, whose rows describe their encoders.
//
//   checkpoint_gguf.c   a model's files as a struct checkpoint: splits, picture encoder
//   gguf_text.c         language models: one row per architecture
//   gguf_latent.c         DeepSeek's latent attention and experts
//   gguf_delta.c          Qwen3.5's Gated DeltaNet
//   gguf_gemma4.c         Gemma 4
//   gguf_vision.c       picture encoders: config and tensors
//   gguf_encoders.c       one row per projector type; new ones are in the family's file
//   gguf_beside.c         chooses among the encoder files beside a model
//   gguf_keys.c         metadata that nothing reads
//   gguf_tokenizer.c    tokenizer and its config
#ifndef CORE_FILES_GGUF_PARTS_H
#define CORE_FILES_GGUF_PARTS_H

#include "core/base/json.h"
#include "core/files/gguf.h"
#include "core/tokenizer/tokenizer.h"

// A tensor's name in GGUF files and in Hugging Face's files, without ".weight" and the layer.
struct gguf_name {
    const char *gguf, *hf;
    enum gguf_form {
        PLAIN,
        BARE,    // Hugging Face's name has no ".weight"
        BARE_3D, // like BARE, and leading dimensions of 1 make the rank 3
        SQUARE,  // [n*n, width] in the file becomes [n, n, width]
        LESS_1,  // a vector whose elements are 1 more than Hugging Face's
        PAIRS,   // rows of a head are reordered: the two elements of a rotary pair are adjacent
        PIXELS,  // [n, 3, side, side] in the file becomes [n, side*side*3], the channels last
        PLANES,  // the last axis is 3 planes in the file; the channels become last
        PLANES_OF_ROWS, // like PLANES, for a matrix; its bias is unchanged
        AXES,           // BARE; [2, n, width] in the file becomes [n, 2, width]
    } form;
};

// Tensors under Hugging Face's names. Their data are in the mapped files, or in `made`.
struct renamed {
    struct safetensor *list;
    size_t count, capacity;
    void **made; // memory of tensors that were computed from others
    size_t made_count;
};

// Appends a copy of t under `name`, which the list then owns.
struct safetensor *renamed_add(struct renamed *r, const struct safetensor *t, char *name);
// Subtracts 1 from the elements of the vector t in the list. Returns 0, or -1 if t is not a vector
// of f32 or memory is short.
int renamed_less_1(struct renamed *r, struct safetensor *t, struct err *err);
// Returns memory for a tensor that is computed from others; r owns it. NULL: out of memory.
void *renamed_make(struct renamed *r, uint64_t bytes);

// Copies metadata to a config. A `key` is the KEY of "ARCH.KEY", or a dot and a whole key
// (".clip.use_gelu"). After a failure, later calls do nothing and return 0 or NULL.
struct gguf_config {
    const struct gguf *file;
    const char *arch;
    cJSON *to;
    struct err *err;
    bool failed;
    char key[128]; // the whole key of the last call
};

enum { GGUF_NEEDED = -1 }; // instead of a default: the key is required

int64_t config_value(struct gguf_config *c, const char *key, int64_t min, int64_t otherwise);
double config_number(struct gguf_config *c, const char *key, double otherwise);
bool config_flag(struct gguf_config *c, const char *key);
const char *config_text(struct gguf_config *c, const char *key);
// Returns a list of at most `most` numbers; NULL: absent, or c has failed.
const struct gguf_entry *config_list(struct gguf_config *c, const char *key, uint64_t most);
// Adds the value to c->to under the Hugging Face key `hf`.
void config_int(struct gguf_config *c, const char *key, const char *hf, int64_t otherwise);
void config_real(struct gguf_config *c, const char *key, const char *hf, double otherwise);
// Adds the first `count` numbers of the list as a JSON list.
void config_put_list(cJSON *to, const char *hf, const struct gguf_entry *list, uint64_t count);
void config_put_text(cJSON *to, const char *hf, const char *value); // replaces an earlier value
// Fails with this message, unless c has failed already.
void config_refuse(struct gguf_config *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// Prefixes of Hugging Face's names: "model." for the decoder, "" for "lm_head".
struct gguf_prefixes {
    const char *text, *head;
};

// Fills `config` with the language model's keys, with "architectures" and "model_type".
int gguf_text_config(const struct gguf *f, cJSON *config, struct err *err);
// Adds the language model's tensors. `config`: from gguf_text_config.
int gguf_text_tensors(const struct gguf *f, const cJSON *config,
                      const struct gguf_prefixes *prefixes, struct renamed *r, struct err *err);

// Splits a name such as "v.blk.3.ffn_up.weight": *layer becomes the number after `blocks`
// ("v.blk."; -1: none), *end ".weight", ".bias" or "". Returns the part between, which the caller
// frees.
char *gguf_stem(const char *name, const char *blocks, long *layer, const char **end);
const struct gguf_name *gguf_name_find(const struct gguf_name *names, const char *gguf);
// Returns the id of the token with this text; -1: none.
int32_t gguf_token_find(const struct gguf *f, const char *text);

void gguf_latent_read(struct gguf_config *c);
// Reads the keys of experts whose scores are sigmoids or softmax (DeepSeek, GLM-4.5).
void gguf_scored_read(struct gguf_config *c);
// Reads the keys of experts with softmax scores (Qwen3).
void gguf_experts_read(struct gguf_config *c);
// Adds each expert's matrix of t [E, out, in] under `start` ("model.layers.3.mlp.experts."), a
// number and `name`; "gate_up_proj" holds two per expert. Returns 1 or -1.
int gguf_experts_put(const struct safetensor *t, const char *start, const char *name,
                     struct renamed *r, struct err *err);
extern const struct gguf_name gguf_latent_names[];
int gguf_latent_put(const struct gguf *f, const struct safetensor *t, const char *stem,
                    const char *start, struct renamed *r, struct err *err);

void gguf_delta_read(struct gguf_config *c);
void gguf_delta_experts_read(struct gguf_config *c);
extern const struct gguf_name gguf_delta_names[];
int gguf_delta_put(const struct gguf *f, const struct safetensor *t, const char *stem,
                   const char *start, struct renamed *r, struct err *err);

void gguf_gemma4_read(struct gguf_config *c);
extern const struct gguf_name gguf_gemma4_names[];
int gguf_gemma4_put(const struct gguf *f, const struct safetensor *t, const char *stem,
                    const char *start, struct renamed *r, struct err *err);

// The model's config while an encoder's part is added to it.
struct encoder_config {
    struct gguf_config c; // reads "clip.vision.*"; c.to: vision_config
    const struct gguf *text;
    cJSON *whole, *vision, *preprocessor;
};

struct gguf_encoder {
    const char *type;         // clip.projector_type
    const char *also;         // the type's name in earlier files; NULL: none
    const char *needs;        // tensor that files of a later row of this type lack; NULL: none
    const char *const *texts; // architectures of language models that it fits; NULL: any
    const char *architecture, *model_type; // of the whole model
    bool flat;                             // the language model's keys are at the top level
    struct gguf_prefixes prefixes;         // of the language model's tensors
    const struct gguf_name *outer;         // tensors outside the blocks, by whole names
    const char *blocks;                    // prefix of a block's number
    const struct gguf_name *block;         // tensors of a block
    const char *mergers;            // prefix of the numbers of DeepStack's mergers; NULL: none
    const struct gguf_name *merger; // tensors of a merger
    const char *last;               // projector tensor with one row per dimension of a visual token
    bool last_columns;              // ... with one column per dimension instead
    const char *patches;            // name of a convolution that is stored in two parts, or NULL
    bool own_heads;                 // `read` reads the width of a head
    void (*read)(struct encoder_config *e);
};

// For `read`. encoder_has returns whether the file has a tensor. The others add to the config: the
// sizes, with Hugging Face's keys for the numbers of layers and heads; mean and deviation of
// pixels; the id of the placeholder `word`.
bool encoder_has(const struct encoder_config *e, const char *name);
void encoder_sizes(struct encoder_config *e, const char *layers, const char *heads);
void encoder_means(struct encoder_config *e);
void encoder_placeholder(struct encoder_config *e, const char *key, const char *word);
extern const struct gguf_name gguf_siglip_block[]; // tensors of a block of CLIP and SigLIP
// Adds the numbers of rotary pairs that rotate by time, row and column to `to`.
void encoder_sections(struct encoder_config *e, cJSON *to);
// Adds the keys of the preprocessor config. least, most: default limits on a picture's number of
// pixels, for files without any.
void encoder_pixels(struct encoder_config *e, int64_t least, int64_t most);
// Sets block[] to the encoder's blocks with a merger (tensors "v.deepstack.BLOCK.*"), ascending;
// returns their number, at most `most`.
int gguf_deepstack_blocks(const struct gguf *f, int64_t *block, int most);

extern const struct gguf_encoder gguf_encoders[]; // the last has no type
// Registers the function that returns the rows of families, NULL past the last; these are read like
// those of gguf_encoders.
void gguf_encoders_register(const struct gguf_encoder *(*of_families)(int index));

// Returns the row of the encoder's type, if possible one that goes with the language model `text`;
// NULL with a message: the type is not supported.
const struct gguf_encoder *gguf_encoder_find(const struct gguf *mmproj, const struct gguf *text,
                                             struct err *err);
// Returns -1 if the encoder does not fit this language model; the message gives the reason (type,
// width).
int gguf_encoder_fits(const struct gguf_encoder *e, const struct gguf *mmproj,
                      const struct gguf *text, struct err *err);
// Turns *config, the language model's, into the whole model's.
int gguf_encoder_config(const struct gguf_encoder *e, const struct gguf *mmproj,
                        const struct gguf *text, cJSON **config, cJSON **preprocessor,
                        struct err *err);
int gguf_encoder_tensors(const struct gguf_encoder *kind, const struct gguf *mmproj,
                         struct renamed *r, struct err *err);

// The picture encoder found beside a model: its open file and its row; NULL: none.
struct gguf_beside {
    struct gguf *file;
    const struct gguf_encoder *kind;
    char *notice; // which of several files was chosen, or why none; or NULL. The caller frees it
};

// Returns -1 if several files fit equally well, or if none fits and the most similar name belongs
// to the model: it is the model's own, or all its words are in the model's.
int gguf_beside(const char *model, const struct gguf *text, struct gguf_beside *found,
                struct err *err);
// Returns n for a table of n*n rows; 0 if `rows` is not a square.
int64_t gguf_square_side(int64_t rows);

// Returns -1 for an unread key that changes the result; the key then counts as read.
int gguf_keys_check(const struct gguf *f, struct err *err);
// Returns the unread keys not known to be harmless: "'llama.a' 3, 'llama.b' 0.5, 12 more"; NULL:
// none. The caller frees it.
char *gguf_keys_unread(const struct gguf *f);

struct tokenizer *gguf_tokenizer(const struct gguf *f, struct err *err);
// These return the contents that tokenizer_config.json and generation_config.json would have.
cJSON *gguf_tokenizer_config(const struct gguf *f, struct err *err);
// *named: the number of end tokens that the metadata names; the rest are recognised by their texts.
cJSON *gguf_generation_config(const struct gguf *f, size_t *named, struct err *err);

#endif
