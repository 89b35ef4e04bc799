// core/model/vision.h -- vision transformers: pictures to features, and the projector after them.
//
//   struct vision_picture p = { .pixels = pixels, .tiles = 1, .rows = 24, .cols = 24 };
//   features = vision_forward(g, &m->vision, &p, 1, NULL); // [S, Dv']
//   x = projector_forward(g, &m->projector, features);     // [S', D]
//
// A kind of encoder is one file with one constant struct vision_kind, such as vision_clip.c: it
// reads the config, binds the weights by the file's names, and defines the attention masks and the
// projector's input. All kinds share one pass (vision.c), which runs only the steps whose weights
// the kind has bound: class token, learned positions, norms, layer scale, a gated FFN, queries,
// keys and values in one matrix.
#ifndef CORE_MODEL_VISION_H
#define CORE_MODEL_VISION_H

#include "core/graph/hooks.h"
#include "core/model/bind.h"
#include "core/model/linear.h"
#include "core/picture/preprocess.h"
#include "kernels/backend.h"

struct buf;
struct family_mmproj;
struct picture_mark;
struct vision_kind;

enum {
    VISION_BLOCKS_MOST = 1000, // vision_config.whole has a bit for each block
    VISION_DEEP_MOST = 16
};

struct vision_config {
    const struct vision_kind *kind;
    int layers; // blocks in the file; 0: patches are features (vision_gemma_unified.c)
    int64_t hidden, heads, ffn; // Dv, heads, inner size
    int64_t patch;              // pixels
    int64_t image_size;         // side of its square pictures; 0: any size (native resolution)
    double eps;                 // of its norms
    double qk_eps;              // of the query and key norms
    enum gelu_form act;         // of its FFN, if it is not gated
    bool class_token, patch_bias, pre_norm; // present in the file?
    bool norm_bias, qkv_bias, qk_norm;      // present? set only by kinds that read it
    int64_t merge;  // merge x merge patches become one feature or visual token; set by the kind or
                    // the family
    int64_t out;    // width of the output, if the config has it
    int64_t times;  // frames that a video patch spans; a picture is repeated for each
    int64_t window; // side of a window in visual tokens
    uint64_t whole[16]; // bit l: block l attends to whole pictures
    // Grid of learned positions: resampled to each picture or, with kind->buckets, indexed. Gemma
    // 4: table_cols positions along each axis. Pixtral: no table; only for "image_size" in GGUF
    // files.
    int64_t table_rows, table_cols;
    int64_t head_dim;           // elements of a head; 0: hidden / heads
    double theta;               // base of its rotation, if the kind reads it
    bool unscaled;              // scores q k are not divided by sqrt(d)
    bool clipped;               // linear layers limit their inputs and outputs
    bool standardize;           // features are shifted and scaled
    int deep[VISION_DEEP_MOST]; // DeepStack: blocks whose outputs reach the decoder, ascending
    int deep_count;
    int join;          // MiniCPM-V: after this block windows of patches may be joined
                       // (vision_picture.joins); -1: never
    int feature_layer; // hidden_states index as in the config: -2, -1, 3 ...
    bool drop_class;   // drop the first row of each tile (strategy "default")
};

// Weights of a block; steps without bound weights are not computed.
struct vision_layer {
    struct norm norm1, norm2;
    struct linear q, k, v;        // [Dv,Dv] (Gemma 4: [heads*d,Dv]), or
    struct linear qkv;            // [3*Dv,Dv]: q, k and v as one
    struct norm q_norm, k_norm;   // [Dv], over all heads together; or [d], of each head
    struct linear out;            // [Dv,Dv] (Gemma 4: [Dv,heads*d])
    struct linear fc1, fc2;       // [ffn,Dv] [Dv,ffn] with GELU, or
    struct linear gate, up, down; // [ffn,Dv] [ffn,Dv] [Dv,ffn]: gated by silu, Gemma 4's by gelu
    struct tensor scale1, scale2; // [Dv] layer scale of both sublayers
    struct norm after1, after2;   // of the outputs of both sublayers, if the kind has them
};

// Limits of the inputs and outputs of a linear layer.
struct vision_clip {
    float in_low, in_high, out_low, out_high;
};

enum { CLIP_Q, CLIP_K, CLIP_V, CLIP_OUT, CLIP_GATE, CLIP_UP, CLIP_DOWN, CLIP_COUNT };

struct vision {
    struct vision_config config;
    struct linear patch;       // [Dv, elements of a patch]
    struct tensor class_token; // [1,Dv]
    // Learned positions: [rows of a tile, Dv], [table_rows*table_cols, Dv] or, Gemma 4,
    // [2*table_cols, Dv].
    struct tensor position;
    struct norm pixel_norm;     // of the pixels of a patch, before the first linear layer
    struct norm patch_norm;     // of the patches, before positions are added
    struct norm pre, post;      // before the first block; of the features (kind->post_norm)
    struct linear merge;        // [out, Dv*merge*merge]: a convolution that joins patches
    struct vision_layer *layer; // [config.layers]
    // MiniCPM-V: joins windows; norm2 and fc1 read a window's merge*merge patches as one row.
    struct vision_layer window;
    struct vision_clip *clip;          // [config.layers * CLIP_COUNT]; NULL: no limits
    struct tensor std_bias, std_scale; // [Dv] of the features (config.standardize)
    struct projector *deep;            // [config.deep_count] of the blocks in config.deep
};

// A picture as the encoder reads it.
struct vision_picture {
    struct tensor *pixels; // depending on kind: [3,H,W], [T,3,H,W] or patches [S', elements]
    int64_t tiles;         // T: parts that do not attend to each other
    int64_t rows, cols;    // patches of a tile
    // Patches of the first tile if it differs from the others (MiniCPM-V), else 0.
    int64_t first_rows, first_cols;
    bool joins; // windows of merge x merge patches become one row after block config.join
    int number; // the picture's number, for listeners
    // [S'] in host memory; NULL: not wanted. Without a tape, vision_forward fills it with the
    // attention to each row in the last block before the feature layer, averaged over heads:
    // attention from the class token or, without one, the average over the rows of the tile. An
    // encoder without blocks leaves it unchanged.
    float *received;
};

// Pictures that pass through the encoder together; their rows are concatenated.
struct vision_batch {
    const struct vision *vision;
    const struct vision_picture *picture; // [count]
    size_t count;
    int64_t rows;      // of the stream: S' of all pictures
    const int64_t *at; // [count + 1] each picture's first row, and the end
};

// Row i attends to rows first[i] .. end[i]-1; i32 [S']; NULL: every row attends to all rows.
struct vision_seen {
    struct tensor *first, *end;
};

// Arguments of a block.
struct vision_block {
    const struct vision_config *config;
    const struct vision_layer *w;
    const struct vision_clip *clip; // [CLIP_COUNT], or NULL
    struct vision_seen seen;
    struct tensor *cos, *sin;         // [S', d/2], or NULL
    const struct vision_batch *focus; // pictures to measure attention to; NULL: none
};

// A kind of encoder. b->vision of a batch `b` has the encoder's config and weights.
struct vision_kind {
    // Model types in a vision_config that select this kind, NULL-terminated.
    const char *const *model_types;
    const char *const *keys; // keys of core/model/config_keys.c that it supports; NULL: none
    // Reads a vision_config object; json NULL: the class defaults.
    int (*read)(struct vision_config *v, const cJSON *json, struct err *err);
    // Reads preprocessor_config.json (NULL: class defaults) for an encoder of native resolution.
    // NULL: the encoder reads squares of image_size pixels, or the family sets the limits.
    int (*read_pictures)(struct picture_config *p, const struct vision_config *v, const cJSON *json,
                         struct err *err);
    // Keys that read_pictures reads, NULL-terminated; NULL: those of the family.
    const char *const *picture_keys;
    const char *const *picture_processors; // prefixes of the names of the kind's picture processors
    bool reads_planes; // pixels of native resolution are [3,H,W]; false: patches [S', elements]
    // Writes the text before each row of a picture's visual tokens; picture_after is the text after
    // the last row. They replace the family's (core/model/families/family.h). NULL: none.
    void (*picture_mark)(struct buf *to, const struct picture_mark *mark);
    const char *picture_after;
    const struct family_mmproj *mmproj; // its form in GGUF files; NULL: the family's
    const char *patch_weight; // name of the patch embedding, which locates the encoder in a file
    // Binds the file's weights; v->layer is already allocated.
    void (*bind)(struct vision *v, struct binder *b);
    // Changes the pixels of patches before the first linear layer. NULL: unchanged.
    struct tensor *(*pixels)(struct graph *g, struct tensor *x);
    // Adds learned positions to h. NULL: vision_add_positions does.
    struct tensor *(*positions)(struct graph *g, const struct vision_batch *b, struct tensor *h);
    // Computes a block of h [S', Dv]. NULL: vision.c does.
    struct tensor *(*block)(struct graph *g, const struct vision_block *block, struct tensor *h);
    // Rotary positions of queries and keys: cos and sin [S', d/2] (op_rope); NULL: none.
    void (*angles)(const struct vision_batch *b, float *cos, float *sin);
    bool adjacent_pairs; // angles rotate elements 2j and 2j + 1 of a head; else j and j + d/2
    // Order of patches of native resolution: row by row; false: cell by cell, each merge x merge.
    bool row_by_row;
    // True if this block attends within windows, not whole tiles. NULL: every block attends to
    // whole tiles.
    bool (*windowed)(const struct vision_config *c, int block);
    // In a windowed block, row i attends to rows first[i] .. end[i]-1.
    void (*windows)(const struct vision_batch *b, int32_t *first, int32_t *end);
    bool buckets; // each patch takes one learned position of the grid, not a weighted mean of
                  // several
    bool aligned; // learned positions are resampled linearly, with the grids' corners aligned; else
                  // cubically, at pixel centres
    // Sets the order of cells in the stream, which is also that of the projector's rows: cell i is
    // the picture's visual token token[i], counted row by row. NULL: cells are in sequence order.
    void (*order)(const struct vision_config *c, const struct vision_picture *p, int32_t *token);
    // True: features are taken after v->post. False: if the file has v->post, it only serves
    // measurements (SigLIP).
    bool post_norm;
    // Joins windows of merge x merge patches of h to one row each, for pictures that ask for it
    // (vision_picture.joins). NULL: never.
    struct tensor *(*join)(struct graph *g, const struct vision_batch *b, struct tensor *h);
    // Turns the stream after the last needed block into the projector's input [S, Dv']. NULL:
    // leaves the rows unchanged.
    struct tensor *(*features)(struct graph *g, const struct vision_batch *b, struct tensor *h);
    // True: the projector, not the encoder, joins cells of merge x merge patches. The rows of a
    // cell become adjacent only after the listeners of SITE_VISION.
    bool joined_later;
    // Return S of a picture, and Dv'. NULL: one row per patch, as wide as the stream.
    int64_t (*feature_rows)(const struct vision_config *c, const struct vision_picture *p);
    int64_t (*feature_width)(const struct vision_config *c);
};

extern const struct vision_kind vision_clip, vision_siglip, vision_qwen, vision_moon, vision_glm;
extern const struct vision_kind vision_glm_ocr;
extern const struct vision_kind vision_qwen2, vision_qwen3, vision_qwen3_5;
extern const struct vision_kind vision_intern_transformers, vision_intern_authors, vision_idefics3;
extern const struct vision_kind vision_siglip_normed, vision_gemma, vision_gemma_unified;
extern const struct vision_kind vision_pixtral, vision_minicpm;

// --- config --------------------------------------------------------------------------------------

// Returns the usual defaults of a picture processor: all switches on but `crop`, bicubic
// resampling, mean and deviation 0.5, a white background and, if the encoder has a fixed size,
// squares of that size.
struct picture_config vision_picture_defaults(const struct vision_config *v, enum picture_fit fit);

// Selects CLIP, SigLIP, MoonViT or Pixtral by the object's model_type; json NULL or without a
// model_type: CLIP.
const struct vision_kind *vision_kind_find(const cJSON *json, struct err *err);
// Reads a vision_config object of that kind with its class defaults. feature_layer becomes -1; the
// family may change it and drop_class.
int vision_config_read(struct vision_config *v, const struct vision_kind *kind, const cJSON *json,
                       struct err *err);
// Reads which hidden state the projector uses; `key` is "vision_feature_layer" or another name.
int vision_feature_layer_read(struct vision_config *v, const cJSON *json, const char *key,
                              int64_t otherwise, struct err *err);
// Reads the GELU variant by its activation name ("gelu", "gelu_pytorch_tanh", "quick_gelu" ...).
int gelu_form_read(enum gelu_form *form, const cJSON *json, const char *key, const char *otherwise,
                   struct err *err);
// Class defaults of the sizes that all encoders have.
struct vision_sizes {
    bool short_keys;                    // keys "depth", "num_heads", "in_channels"
    int64_t layers, hidden, ffn, heads; // ffn 0: not read
    int64_t patch;                      // 0: not read
};
// Reads these sizes. Checks that the heads divide the width and, if the kind rotates them, that
// they can be rotated.
int vision_sizes_read(struct vision_config *v, const struct vision_sizes *usual, const cJSON *json,
                      struct err *err);
// Checks that a picture processor's key, if present, equals the encoder's value.
int vision_check_equal(const cJSON *json, const char *key, int64_t want, struct err *err);
// Checks that a key, if present, is the pair [side, side].
int vision_check_square(const cJSON *json, const char *key, int64_t side, struct err *err);
// Reads the epsilon of the norms.
int vision_eps_read(struct vision_config *v, const cJSON *json, const char *key, double usual,
                    struct err *err);
// Reads the base of the rotation: "rope_theta" of "rope_parameters" (transformers 5), else of the
// config. Checks that "rope_type" is "axial", which transformers writes since 5.24, or "default",
// the earlier name of the same rotation.
int vision_theta_read(struct vision_config *v, const cJSON *json, double usual, struct err *err);
// Returns the number of blocks to compute for config.feature_layer.
int vision_depth(const struct vision_config *c);

// --- weights -------------------------------------------------------------------------------------

// Binds the tensors; b->prefix is, for example, "vision_tower.vision_model." 0 or -1 (b->err).
int vision_bind(struct vision *v, struct binder *b);
void vision_release(struct vision *v); // not the weights

// Binds queries, keys and values of a block ("blocks.3"): one matrix NAME, or three, whose names
// have "q", "k" or "v" in place of "qkv".
void vision_bind_qkv(struct binder *b, struct vision_layer *w, int64_t width, bool bias,
                     const char *block, const char *name);
// Binds a SigLIP encoder whose features pass its last norm.
void vision_bind_siglip(struct vision *v, struct binder *b);
// Binds block l of Qwen2.5-VL's kind: RMS norms and a gated FFN.
void vision_bind_gated(struct binder *b, struct vision_layer *w, const struct vision_config *c,
                       int l, bool bias);

// --- the pass ------------------------------------------------------------------------------------

// Returns the pixels as one tile of a fixed-size encoder; ignores incomplete patches at the right
// and bottom edges.
struct vision_picture vision_square(const struct vision_config *c, struct tensor *pixels);
// Computes the features [S, Dv'] of several pictures, concatenated. With DeepStack, also sets
// deep[i] [S, D] to the projected output of block config.deep[i]; `deep` NULL: not needed.
struct tensor *vision_forward(struct graph *g, const struct vision *v,
                              const struct vision_picture *pictures, size_t count,
                              struct tensor **deep);
// Reorders the projector's rows x of these pictures to sequence order.
struct tensor *vision_in_sequence(struct graph *g, const struct vision *v,
                                  const struct vision_picture *pictures, size_t count,
                                  struct tensor *x);
// Sums p->received over each visual token's patches: one value per row of the projector, in
// sequence order. A class token that becomes a visual token gets the largest value
// (vision_focus.c).
void vision_focus(const struct vision_config *c, const struct vision_picture *p, float *token);
// Return the number of a picture's features that the projector reads, and their width Dv'.
int64_t vision_features(const struct vision_config *c, const struct vision_picture *p);
int64_t vision_feature_width(const struct vision_config *c);

// Fills `received` of the batch from a block's queries and keys [S',heads,d]; row i sees rows
// first[i]..end[i]-1 (NULL: all).
void vision_focus_add(struct graph *g, const struct vision_batch *b, struct tensor *q,
                      struct tensor *k, struct tensor *first, struct tensor *end);

// --- the projector -------------------------------------------------------------------------------

// The projector turns features [S,Dv] into visual tokens [S',D]:
//
//   x -> norm of each feature -> `merge` features joined to one row -> linear -> GELU -> linear
//
// A kind of projector lists the names of these parts in its files. With `merge` above 1, the
// features of a token are adjacent rows.
struct projector;

struct projector_kind {
    const char *norm; // its name in the file; NULL: none
    bool norm_bias;   // LayerNorm; else RMSNorm
    double eps;       // of the norm
    bool joined;      // the norm applies to the joined row, not to each feature
    // If the norm is the encoder's last one, its name in encoder-only files; else NULL.
    const char *encoder_norm;
    const char *linear_1, *linear_2;
    bool wide; // the inner width equals the input's; else the visual tokens'
    // For kinds with other parts; NULL: the parts above.
    void (*bind)(struct projector *p, struct binder *b, int64_t in, int64_t out);
    struct tensor *(*forward)(struct graph *g, const struct projector *p, struct tensor *x);
};

extern const struct projector_kind projector_linear; // LLaVA's: one linear layer, or two

struct projector {
    const struct projector_kind *kind;
    int64_t merge; // features per token
    enum gelu_form act;
    bool bias;                        // of the linear layers
    struct norm norm;                 // [Dv], or [merge*Dv] (kind->joined)
    int64_t inner;                    // inner width of the gated layers
    int64_t side;                     // Gemma 3: side of a picture's square of features
    double eps;                       // Gemma 3, Mistral 3: epsilon of the norm
    struct linear merger;             // Mistral 3: [Dv,merge*Dv], channel by channel
    struct linear gate, up, down;     // GLM-4V's
    struct linear linear_1, linear_2; // [inner,merge*Dv] [D,inner]; the second may be absent
};

// Binds the projector; the family sets kind, act, bias and merge (0 means 1) first. `in` is Dv,
// `out` D.
int projector_bind(struct projector *p, struct binder *b, int64_t in, int64_t out);
struct tensor *projector_forward(struct graph *g, const struct projector *p, struct tensor *x);

// --- steps that only some kinds have: vision_rows.c ----------------------------------------------

// Returns the number of elements of a head.
int64_t vision_head_dim(const struct vision_config *c);
// Returns the number of a tile's rows in the encoder, its patches and the class token; not that of
// a first tile that differs.
int64_t vision_tile_rows(const struct vision_config *c, const struct vision_picture *p);
// Returns the number of all rows of a picture.
int64_t vision_rows(const struct vision_config *c, const struct vision_picture *p);
// Returns tile t of a picture as a picture of one tile.
struct vision_picture vision_tile(const struct vision_picture *p, int64_t t);
// Returns the picture after its windows have been joined; if it joins none, a copy.
struct vision_picture vision_joined(const struct vision_config *c, const struct vision_picture *p);
// Returns the patches [patches, elements] in the order of the pixels: cuts planes [3,H,W]; other
// pixels are patches already.
struct tensor *vision_patches(struct graph *g, const struct vision_batch *b);
// Reorders the patches x to the kind's order.
struct tensor *vision_in_order(struct graph *g, const struct vision_batch *b, struct tensor *x);
// Puts the class token in front of each tile of x [S', Dv].
struct tensor *vision_add_class(struct graph *g, const struct vision_batch *b, struct tensor *x);
// Adds the learned positions to h: one per row of a tile, or from a grid (config.table_rows).
// Returns h itself without learned positions.
struct tensor *vision_add_positions(struct graph *g, const struct vision_batch *b,
                                    struct tensor *h);
// Resamples the learned positions, a grid of table_rows x table_cols, to each picture's grid of
// patches: [S', Dv] (vision_resample.c).
struct tensor *vision_resampled(struct graph *g, const struct vision_batch *b);

struct vision_seen vision_tiles(struct graph *g, const struct vision_batch *b);   // whole tiles
struct vision_seen vision_windows(struct graph *g, const struct vision_batch *b); // kind->windows
// Sets the angles of queries and keys [S', d/2]; leaves them unset without rotary positions.
void vision_angles(struct graph *g, const struct vision_batch *b, struct tensor **cos,
                   struct tensor **sin);

// --- helpers of the kinds ------------------------------------------------------------------------

// Sets the row and column of patch i of a picture in its grid, in the order that kind->row_by_row
// selects.
void vision_grid_position(const struct vision_config *c, const struct vision_picture *p, int64_t i,
                          int64_t *row, int64_t *col);
// Computes cos and sin [S', d/2] of 2-D rotary positions: half of the pairs rotate by the row, half
// by the column (theta 10000).
void vision_plane_angles(const struct vision_batch *b, float *cos_out, float *sin_out);

// Adds to each row of h the learned positions of its column and of its row, which are rows
// step * column and step * row + apart of the table. Patches go row by row.
struct tensor *vision_add_axes(struct graph *g, const struct vision_batch *b, struct tensor *h,
                               int64_t step, int64_t apart);

// Drops the first `from` rows of every tile: [T * (rows of a tile - from), Dv].
struct tensor *vision_drop_rows(struct graph *g, const struct vision_batch *b, struct tensor *h,
                                int64_t from);
// For kinds whose patches go row by row: drops class tokens and orders the patches by cells of
// merge x merge [S*merge*merge, Dv].
struct tensor *vision_gather_cells(struct graph *g, const struct vision_batch *b, struct tensor *h);
// Transposes cells of `cell` adjacent patches, h [S*cell, Dv], to a convolution's order, channel by
// channel: [S, Dv*cell].
struct tensor *vision_channels_first(struct graph *g, struct tensor *h, int64_t cell);
// Joins each cell into one row: [S, merge*merge*Dv]. vision_cells returns S, the number of a
// picture's cells; vision_cell_width returns the width of a row.
struct tensor *vision_join_cells(struct graph *g, const struct vision_batch *b, struct tensor *h);
int64_t vision_cells(const struct vision_config *c, const struct vision_picture *p);
int64_t vision_cell_width(const struct vision_config *c);

#endif
