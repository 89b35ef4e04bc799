// core/model/families/family.h -- a model family: everything specific to it, in one struct.
//
// A new family is one file core/model/families/NAME.c with one constant struct, and one line in
// core/lists.h. No other code tests a family's name.
#ifndef CORE_MODEL_FAMILIES_FAMILY_H
#define CORE_MODEL_FAMILIES_FAMILY_H

#include "core/model/model.h"

struct picture_mark;
struct picture_shape;

// Layers of a known checkpoint at which attention to pictures changes its role (CAPA, section 5):
// where the model first reads visual tokens, and where these stop mattering. The papers give these
// layers for only three models.
struct phase_layers {
    int layers;             // the checkpoint's L
    int64_t hidden, ffn;    // its D and FFN width, to distinguish Llamas of equal depth
    int phase[3];           // early, transition, late
    const char *ffn_layers; // layers whose FFN CAPA approximates; NULL: unknown
};

// A rectangle of a picture's visual tokens and the area it covers: token (r, c) is number first + r
// * pitch + c of the picture (pitch > cols if rows end with extra tokens).
struct picture_tile {
    int64_t first, rows, cols, pitch;
    double left, top, right, bottom; // in pixels of the picture; may extend into its padding
    bool rows_apart;                 // the prompt has text between the rows
};

// How the encoder reads pictures, and the visual tokens that result; families share kinds.
struct picture_kind {
    // Returns the number of visual tokens of a picture of that shape before pooling (pooling.h).
    int64_t (*tokens)(const struct model *m, struct picture_shape shape);
    // Sets the indices of newlines among the visual tokens (p->newline, p->newline_step). NULL:
    // none.
    void (*newlines)(const struct model *m, struct picture *p);
    // Sets p->part_tokens, part_cols and part_first: the parts of the visual tokens that the prompt
    // marks with text (family.picture_mark); these parts are the picture's tiles, or the rows of
    // its grid. NULL: no text.
    void (*parts)(const struct model *m, struct picture *p);
    // Sets the pixel size of a typical picture, for forecasts.
    void (*usual)(const struct model *m, int64_t *width, int64_t *height);
    // Locates the visual tokens before pooling: writes at most `most` tiles and returns the number
    // of all tiles. NULL: unknown; tokens are shown as one row.
    int (*tiles)(const struct model *m, struct picture_shape shape, struct picture_tile *tiles,
                 int most);
    // Returns the encoder's input; the caller sets the picture's number in it. Fails through g
    // (pixels NULL).
    struct vision_picture (*read)(struct graph *g, const struct model *m,
                                  const struct picture *picture);
    // Turns the projector's rows of the picture into visual tokens [S,D]. NULL: unchanged.
    struct tensor *(*pack)(struct graph *g, const struct model *m, const struct picture *picture,
                           struct tensor *x);
};

// A published model of the family, for `vlmsh new --like` (core/new/shapes.c).
struct family_shape {
    const char *name, *config, *preprocessor; // the texts of both files, with token ids 0
    int64_t vocab, words; // rows of the embedding; ordinary tokens, whose ids are 0..words-1
    const char *marks;    // special tokens that prompts contain, separated by spaces; NULL: none
};

struct gguf_encoder;
struct gguf_writer;

// How the encoder and the projector are stored in a GGUF file (mmproj).
struct family_mmproj {
    const char *type; // clip.projector_type
    bool newline;     // for models with a newline token after each row of features
    const char *pre; // name of the norm before the first block, or of the patch norm; NULL: omitted
    const char *post; // name of the norm after the last block; NULL: omitted
    bool whole_qkv;   // queries, keys and values are one matrix
    bool pairs;       // rows of queries and keys are reordered: rotary pairs of a head are adjacent
    // The projector is Gemma 3's: gains of 1 + w, and a matrix with the outputs as columns, which
    // llama.cpp needs in f16 or f32.
    bool columns;
    bool audio;   // files may also hold an audio encoder; the type's key is then
                  // clip.vision.projector_type
    bool axes;    // the table of positions has one part for columns and one for rows: [2, n, Dv]
    bool planes;  // no blocks; pixels are normed before the first linear layer, and are 3 planes
    int64_t pool; // side of a patch in units of the file's patch_size; 0: 1
    const char *norm;      // name of the projector's norm
    const char *linear[2]; // names of its linear layers
    // A token and the name of the tensor that holds a copy of its embedding; NULL: none.
    const char *word, *word_row;
    int (*check)(const struct model *m, struct err *err); // NULL: always possible
    // Writes the metadata that only this type has.
    void (*put)(const struct model *m, struct gguf_writer *out);
    const struct gguf_encoder *read; // reads it; NULL: core/files/gguf_encoders.c has the type
};

#define FAMILY_MMPROJ_REFUSED "the picture encoder cannot be written as GGUF: %s"

struct module_name {
    const char *file, *module;
};

struct family {
    const char *name;                 // "llava"
    const char *const *architectures; // its "architectures" in config.json, NULL-terminated
    const char *const *model_types;   // or, without architectures, "model_type"
    // Architectures with similar names but different computations, refused by name. NULL: none
    // known.
    const char *const *relatives;
    // For language models, which other families may use as their decoder (text_config); else NULL.
    const struct decoder_kind *decoder;
    // Reads the folder's JSON configs into m->vision.config, m->decoder.config, m->picture ...
    int (*configure)(struct model *m, const struct checkpoint *c, struct err *err);
    // Binds tensors of the checkpoint to the model (m->arena).
    int (*bind)(struct model *m, const struct checkpoint *c, struct err *err);
    // The projector type of its encoder in GGUF files, if core/adapter/model_mmproj.c describes it.
    const char *gguf;
    const struct family_mmproj *mmproj; // or its description; both NULL: none
    const struct family_shape *shapes;  // ended by a row without a name; NULL: in core/new/shapes.c
    // Returns the part of the model that a tensor of the file belongs to.
    enum model_part_kind (*part)(const struct model *m, const char *tensor);
    // Prefix that current transformers versions put before the plain name (core/model/weights.h) of
    // a tensor of each part.
    const char *module_prefix[MODEL_PARTS];
    // Modules whose plain names differ between files and transformers' classes, ended by a row
    // without names; NULL: none.
    const struct module_name *modules;
    // Texts around a picture's visual tokens, whatever the chat template; NULL: none. The encoder's
    // texts (core/model/vision.h), if any, replace picture_after and picture_mark.
    const char *picture_before, *picture_after;
    // The text before each part of a picture's visual tokens (picture_kind.parts) and after the
    // last; NULL: none.
    void (*picture_mark)(struct buf *to, const struct picture_mark *mark);
    // A tokenizer may lack all tokens of these texts, picture_after excepted (Idefics3), but not
    // some of them.
    bool plain_marks;
    // The token for a picture in the family's chat templates, if a template contains it; NULL: the
    // placeholder.
    const char *picture_word;
    bool templates_write_marks; // its folders' chat templates already contain these texts
    // Pictures are encoded differently if the prompt shows several (picture_shape.several).
    bool several_differ;
    // Its class has a module for each expert; other classes have a parameter for all experts of a
    // layer.
    bool experts_apart;
    // How pictures become visual tokens; NULL: text only.
    const struct picture_kind *pictures;
    // Keys of preprocessor_config.json that it reads, and prefixes of "image_processor_type", both
    // NULL-terminated; the encoder's lists (vision.h), if any, replace them. NULL: text only, or
    // every encoder has lists.
    const char *const *picture_keys, *const *picture_processors;
    // Name of the row of box_styles[] (core/picture/boxes.h) that describes how the model writes
    // boxes; NULL: not known.
    const char *boxes;
    const struct phase_layers *phases; // ended by layers 0; NULL: none known
    // Sets the rotary positions of s, which shows these pictures (their shapes are set). NULL:
    // 0..n-1.
    void (*positions)(const struct model *m, const struct picture *pictures, struct sequence *s);
};

// Tensor name prefixes of the decoder, head, encoder and projector of a vision-language model.
struct family_prefixes {
    const char *text, *head, *vision, *projector;
};
// Binds these parts; set their configs and the projector's kind first. 0 or -1.
int family_bind(struct model *m, const struct checkpoint *c, const struct family_prefixes *p,
                struct err *err);

// The module_prefix of most vision-language classes of transformers.
#define FAMILY_MODULE_PREFIX                                                                  \
    {                                                                                         \
        [PART_VISION] = "model.", [PART_PROJECTOR] = "model.",                                \
        [PART_EMBEDDING] = "model.language_model.", [PART_DECODER] = "model.language_model.", \
        [PART_HEAD] = ""                                                                      \
    }

// Returns the phases of this checkpoint; NULL: unknown.
const struct phase_layers *family_phases(const struct model *m);
// Returns the layer of phase 0, 1 or 2 (early, transition, late) of a model whose phases are
// unknown: at 1/8, 3/8, 5/8 of its depth, rounded half to even.
int family_phase_by_depth(int phase, int layers);

// Returns a weight's module name in current transformers classes (for adapters):
// "model.language_model.layers.0.mlp.up_proj". The caller frees it.
char *family_module_name(const struct family *f, const struct weight *w);

// Registers all families, ended by NULL; they must last as long as the program.
void families_register(const struct family *const *all);
const struct family *family_named(const char *name); // NULL if unknown
// Returns shape `index` of all families; NULL after the last.
const struct family_shape *family_shape_at(int index);
// Returns the decoder that a config selects by its model_type, or, without a model_type, by its
// architecture, or else the first family's, as in transformers. An unknown model_type gives NULL
// and a message that lists the known ones.
const struct decoder_kind *family_decoder(const cJSON *config, struct err *err);
// Reads "text_config" as the config of a decoder of that kind (NULL: of the kind that "text_config"
// names). Like transformers, ties the embeddings if "tie_word_embeddings" is true in "text_config"
// or in the object that contains it.
int family_text_read(struct model *m, const struct decoder_kind *kind, const cJSON *config,
                     struct err *err);
// True if the config names a decoder with experts: "moe" is in the model type of "text_config" or,
// without one, of the whole config, or else in its architecture.
bool family_sparse(const cJSON *config);
// Returns the family that lists the architecture of a config.json or, without one, its model_type;
// NULL with a message if none does.
const struct family *family_find(const cJSON *config, struct err *err);
// Reads m->placeholder: the id under `key`, else under `other`, else `otherwise`.
int family_placeholder_read(struct model *m, const cJSON *config, const char *key,
                            const char *other, int64_t otherwise, struct err *err);

#endif
