// core/model/model.h -- a loaded model: mapped files, configs, encoder, projector, decoder,
// tokenizer.
//
// Room core/model/: models: weights by name, the parts of decoders and vision encoders, the
// families that combine them, sampling, FLOP counting. Uses the rooms from base to files.
#ifndef CORE_MODEL_MODEL_H
#define CORE_MODEL_MODEL_H

#include "core/files/checkpoint.h"
#include "core/model/decoder.h"
#include "core/model/vision.h"
#include "core/model/weights.h"
#include "core/picture/tile_grid.h"
#include "core/template/template.h"
#include "core/template/thinking.h"
#include "core/tokenizer/tokenizer.h"

struct family;
struct picture_shape;

// Called before weights are read (model_pass), so that an adapter can switch itself on or off
// (core/adapter/).
struct model_listener {
    void (*pass)(void *self, bool pictures); // NULL: no listener
    void *self;
};

struct model {
    char *name; // folder or GGUF file as given by the user, without "::q8_0" and "::ignore-weights"
    struct checkpoint *checkpoint; // the weights are mapped from here
    const struct family *family;
    struct arena arena;     // small tensors, converted vectors
    struct weights weights; // bound weights, by name
    struct tokenizer *tokenizer;
    struct chat_template *template; // the folder's own; NULL: `layout` replaces it
    char *template_problem;         // why the folder's template cannot be rendered; else NULL
    const struct layout *layout; // built-in layout: named by config.json, matching the template or
                                 // tokenizer, or usual_layout
    struct thinking_list thinking; // marks around the reasoning in answers
    struct decoder decoder;
    struct vision vision; // config.kind NULL: text only
    struct projector projector;
    struct picture_config picture;
    struct tile_grids grids; // for pictures that are cut into tiles by their resolution
    int64_t map_tiles;       // a much larger feature map is downsampled (anyres.c); 0: no limit
    struct tensor newline;   // [1,D] visual token after each row of a picture; data NULL: none
    enum dtype dtype;        // of the matrices (core/model/matrices.h)
    char *mixed;             // which matrices are not bf16 like the others; NULL: no such matrix
    int32_t placeholder;     // placeholder id of visual tokens, -1 for text-only models
    const char *placeholder_word; // placeholder's text, if the configs omit the id; else NULL
    const char *conversation;     // layout that config.json names; NULL: it names none
    const char *usual_layout;     // the family's, for folders without a chat template; NULL: none
    struct ids eos;               // ids that end an answer
    struct ids barred;            // ids that no answer may contain (suppress_tokens)
    const char *ends_from;        // source of these ids: a file's name, or "metadata" (GGUF)
    bool ignore;                  // skip weights and keys that the family does not support
    bool ignored; // some were skipped, now or when the GGUF file was made: answers may be wrong
    char *unread; // lists skipped weights and keys, and others that nothing reads; NULL: none
    struct model_listener listener;
};

// Loads a folder, a GGUF file, or "FOLDER::q8_0" (core/model/converted.h); a trailing
// "::ignore-weights" skips tensors and keys that the family does not support (core/model/unread.h).
// NULL on failure.
struct model *model_load(const char *name, const struct backend *backend,
                         const struct load_progress *progress, struct err *err);
// Chooses the layers of this process (model->decoder.part) after the configs and file headers are
// read. Matrices of other layers are not loaded.
struct model_partition {
    int (*choose)(const struct model_partition *self, struct model *m, struct err *err);
    void *self;
};

// Like model_load, but computes the checkpoint's fingerprint (checkpoint_identify) only if the name
// asks for converted weights. partition NULL: all layers.
struct model *model_open(const char *name, const struct backend *backend,
                         const struct model_partition *partition,
                         const struct load_progress *progress, struct err *err);
void model_free(struct model *m);
// Completes a model whose m->checkpoint is open: family, configs, weights; not the tokenizer.
int model_bind(struct model *m, struct err *err);

bool model_has_vision(const struct model *m);         // reads pictures
bool model_quantised(const struct model *m);          // has block-quantised weights
bool model_is_eos(const struct model *m, int32_t id); // true if the token ends an answer
// Lowers the logits [V] of barred tokens so far that no sampling setting picks one.
void model_bar_tokens(const struct model *m, float *logits);
// Sets the shape and the number of visual tokens of p, a picture of width x height in a prompt that
// shows `shown` pictures, under these limits (preprocess_limit). If the picture cannot be reduced
// to limit.most tokens, p->tokens exceeds p->shape.most_tokens, and prompts with this picture fail.
// limit.share never causes this.
void model_size_picture(const struct model *m, struct picture *p, int64_t width, int64_t height,
                        size_t shown, struct picture_limit limit);

// Returns the preprocessing of a picture of this shape, with the limits in it.
struct picture_config model_picture_config(const struct model *m, struct picture_shape shape);

// Checks that the encoder can read a picture (after model_size_picture); one that it cannot read
// has no visual tokens. 0 or -1.
int model_check_picture(const struct model *m, const struct picture *p, struct err *err);

// Updates a tied head and gains of 1 + w; call it after giving a weight's tensor new data or a
// gradient.
void model_weights_changed(struct model *m);

// True if the head is tied to the embedding, but an adapter has replaced it.
bool model_head_untied(const struct model *m);

// Tells the listener that a pass, or other code, is about to read weights. pictures: the
// conversation has a picture.
void model_pass(const struct model *m, bool pictures);

// Sets the prompt options for this model and these settings (chat.template, its variables,
// chat.date, data.special_tokens); they borrow the settings.
int model_prompt(const struct model *m, const struct settings *s, bool generation_prompt,
                 struct prompt_options *options, struct err *err);

// Offers the variables of the model's chat template as settings.
void prompt_offer_variables(const struct model *m);

// Copies the settings for work that may resume on another day: the date "today" becomes "any day".
struct settings *prompt_undated(const struct settings *s);

// Returns the precision of the model's matrix products under these settings: "f32", "bf16".
const char *model_arithmetic(const struct model *m, const struct backend *b,
                             const struct settings *s);

// Returns the precision that a recorded value of compute.matmul stood for; `arithmetic` is the
// precision of auto at that time, or "f32 only" (EVENT_MODEL's key).
const char *model_arithmetic_then(const char *matmul, const char *arithmetic);

// Parameters by part, as in the file (including SigLIP's unused pooling head); a tied head counts
// once, as the embedding.
struct model_part {
    const char *name; // part_name
    int64_t parameters;
    uint64_t bytes;
    enum dtype dtype; // of most of its parameters
};

void model_count(const struct model *m, struct model_part parts[MODEL_PARTS]);

#endif
