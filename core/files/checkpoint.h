// core/files/checkpoint.h -- a model folder in Hugging Face format, or a GGUF file as if it were
// one: configs and memory-mapped weights.
//
//   struct checkpoint *c = checkpoint_open("/models/llava-1.5-7b-hf", NULL, &err);
//   const cJSON *text = json_get(c->config, "text_config");
//   struct tensor w;
//   checkpoint_tensor(c, "language_model.model.norm.weight", 1, (int64_t[]){ 4096 }, &arena, &w,
//                     &err);
//
// Room core/files/: files on disk: safetensors, GGUF and parquet files, model folders, the local
// hub cache. Uses base, graph, tokenizer and kernels/.
#ifndef CORE_FILES_CHECKPOINT_H
#define CORE_FILES_CHECKPOINT_H

#include <stdbool.h>

#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/base/names.h"

struct arena;
struct load_progress;
struct tensor;

// Prefix of the placeholder that records contain for an unknown `identity`.
#define UNHASHED "unhashed-"

struct checkpoint {
    char *folder;        // or the GGUF file, followed by "::" and the encoder file if one was named
    char *name;          // the name that opens the same weights again: `folder`, or "FOLDER::q8_0"
    cJSON *config;       // config.json, never NULL
    cJSON *generation;   // generation_config.json or NULL
    size_t ends_named;   // GGUF: number of end tokens in the metadata; the rest were found by text
    cJSON *preprocessor; // preprocessor_config.json, or the part of `processor`; or NULL
    cJSON *processor;    // processor_config.json or NULL
    cJSON *tokenizer_config;       // tokenizer_config.json with special_tokens_map.json, or NULL
    bool tokenizer_config_missing; // no tokenizer_config.json exists
    char *notice;                  // message to the user about the files; NULL: none
    char *chat_template;           // the folder's chat template or NULL
    char *template_file;           // the file that contains it; NULL for a GGUF file
    struct safetensors **shards;
    int shard_count;
    const struct safetensor **tensors; // of all shards, sorted by name
    int64_t tensor_count;
    bool *read;         // [tensor_count] whether a model has bound the tensor
    struct gguf **gguf; // the files; the first has metadata and tokenizer. Empty for a folder
    int gguf_count;
    void **made; // memory of tensors that were computed from others
    size_t made_count;
    struct quantised_folder *quantised;   // matrices that are unpacked when bound; NULL: none
    const struct load_progress *progress; // receives the progress of unpacking; NULL: none
    // Set by checkpoint_identify (core/files/checkpoint_identity.c), empty until then.
    char fingerprint[HASH_HEX]; // of everything that affects answers
    char weights[HASH_HEX];     // of config.json, quantize_config.json and the weights alone
    char *files;                // "config.json@3f2a61d0c4e7 ...": names and hashes, for messages
    char *identity;             // "FINGERPRINT FILES", for records with a single field
    char earlier[HASH_HEX];     // the fingerprint as earlier versions computed it; "": not computed
    struct identifying *identifying; // unfinished hashes, or NULL
    char *form; // form of the converted weights in use ("q8_0 packing 1"); NULL: the stored weights
                // are in use
    // If set, the checkpoint has no tensors: called for each requested tensor, which then counts as
    // present in that shape (core/new/shape_tensors.c).
    void (*request)(void *self, const char *name, int rank, const int64_t *shape);
    void *requester;
};

// Resolves a name to a folder or GGUF file: an existing one, else `org/name` or
// `org/name/FILE.gguf` in the local hub cache (core/files/hub.c; refs/main, else the newest
// snapshot). A folder without safetensors resolves to the one GGUF model in it. Does not check that
// a GGUF file exists. Returns a new string, or NULL with a message that says where it looked.
char *checkpoint_locate(const char *name, struct err *err);
// Returns the path of a data file, which the caller frees: `name` itself, or a file of a data set
// in the hub cache: org/name/FILE, or org/name for a data set with one parquet file (or one file in
// shards: the first shard). Of several files, chooses those of `split` ("SPLIT" or
// "CONFIGURATION/SPLIT"; NULL: none): a file, or a pattern if each configuration has one. Returns
// NULL if the data set is not in the cache, has no file, or has several, which the message lists.
char *checkpoint_data_file(const char *name, const char *split, struct err *err);
// Adds the names of the models in the hub cache, sorted; checkpoint_locate accepts them.
void checkpoint_cached(struct names *found);

// Opens and checks all files, maps the weights, and reads them into memory unless they would fill
// most of it. A missing shard, a tensor in no shard or a broken file gives NULL and a message that
// names the file.
struct checkpoint *checkpoint_open(const char *folder, const struct load_progress *progress,
                                   struct err *err);
// Like checkpoint_open, but reads no weights. checkpoint_fetch reads the weights of shard `first`
// and later shards into memory.
struct checkpoint *checkpoint_open_unread(const char *folder, struct err *err);
int checkpoint_fetch(const struct checkpoint *c, int first, const struct load_progress *progress,
                     struct err *err);
// Computes the fingerprint unless it is known; call it before reading the fields that it sets.
// Reads every byte of files that were not seen before (core/files/content.h). Returns -1 if it
// failed or was cancelled (by `progress`; NULL: by Ctrl-C); it may then be called again. All calls
// must come from one thread.
int checkpoint_identify(struct checkpoint *c, const struct load_progress *progress,
                        struct err *err);
// Like checkpoint_identify, but if 64 MB or more of the weights were not seen before, leaves them
// to a thread of low priority. checkpoint_identify and checkpoint_close stop the thread; the bytes
// that it has read are not read again.
int checkpoint_identify_in_background(struct checkpoint *c, struct err *err);
// Returns whether the fingerprint has been computed.
bool checkpoint_identified(struct checkpoint *c);
// Records that weights converted to `form` are in use instead of the stored ones.
void checkpoint_set_form(struct checkpoint *c, const char *form);
// Returns the chat template of another folder for this model, such as an adapter's, searched like
// the model's own; NULL: none. The caller frees it.
char *checkpoint_template_in(const struct checkpoint *c, const char *folder,
                             cJSON *tokenizer_config);
// Returns whether the templates differ at most in a line break at the end, which Jinja drops.
bool checkpoint_same_template(const char *a, const char *b);
// Returns whether a recorded `identity` is only a placeholder (UNHASHED).
bool checkpoint_identity_unknown(const char *identity);
// Returns whether `fingerprint` is the one that earlier versions computed for these weights. That
// one covers only config.json, the headers of the weight files and both ends of each tensor.
bool checkpoint_matches_earlier(struct checkpoint *c, const char *fingerprint);
// Compares a recorded `identity` with the checkpoint's. Returns 0, or -1 with a message that names
// the files that differ.
// *earlier: an earlier version recorded the identity, from fewer files.
int checkpoint_check_identity(struct checkpoint *c, const char *identity, bool *earlier,
                              struct err *err);
// Returns the files that differ between two values of `files`: "chat_template.jinja,
// tokenizer.json"; NULL: none differs, or a value is NULL. The caller frees it.
char *checkpoint_files_differ(const char *were, const char *are);
// Replaces tensors with those of a GGUF file that have the same names. The checkpoint then owns the
// file, even after a failure: -1 if a shape differs.
int checkpoint_replace(struct checkpoint *c, struct gguf *f, struct err *err);
void checkpoint_close(struct checkpoint *c);

// Returns whether a name is that of a GGUF file, with or without an encoder.
bool checkpoint_is_gguf(const char *name);
// Joins two names: "MODEL.gguf::ENCODER.gguf", or "FOLDER::q8_0". The caller frees it.
char *checkpoint_with_encoder(const char *model, const char *encoder);
// Refuses unread metadata of a GGUF file that changes the result: -1.
int checkpoint_keys_check(const struct checkpoint *c, struct err *err);
// Lists the unknown metadata; NULL: none. The caller frees it.
char *checkpoint_keys_unread(const struct checkpoint *c);
// Opens the tokenizer of the folder or file.
struct tokenizer *checkpoint_tokenizer(const struct checkpoint *c, struct err *err);
// Opens the tokenizer of a GGUF file, or else the path with tokenizer_open.
struct tokenizer *checkpoint_tokenizer_open(const char *path, struct err *err);

// Returns whether a name is that of the file in which a training run keeps the weights of its best
// validation: "best-40.safetensors" or, from earlier versions, "best.safetensors".
bool checkpoint_is_best(const char *name);
// Returns the step in the name of a training checkpoint ("checkpoint-40"), or -1; *unfinished
// becomes true if ".part" follows.
int64_t checkpoint_step(const char *name, bool *unfinished);

// Returns the name of the file that `preprocessor` was read from.
const char *checkpoint_preprocessor_file(const struct checkpoint *c);

bool checkpoint_has(const struct checkpoint *c, const char *name);
const struct safetensor *checkpoint_find(const struct checkpoint *c, const char *name);
// Marks as read a tensor that need not be bound (the second copy of a tied head).
void checkpoint_mark_read(const struct checkpoint *c, const char *name);
// Fills *t with the named tensor in place (mapped), after checking rank, shape (-1 = any) and dtype
// (f32, f16, bf16 or blocks). The data is copied into `arena` if it is not aligned or the device
// has its own memory; a quantised matrix is unpacked there. arena NULL: only the shape is needed.
int checkpoint_tensor(const struct checkpoint *c, const char *name, int rank, const int64_t *shape,
                      struct arena *arena, struct tensor *t, struct err *err);
// Like checkpoint_tensor, for a matrix inside a tensor [parts, rows, columns]: `count` rows of part
// `number`, from `row` on. A transposed tensor is [parts, columns, rows]; its part is copied into
// the arena.
struct checkpoint_part {
    int64_t shape[3]; // [parts, rows, columns]
    int64_t number, row, count;
    bool transposed;
};

int checkpoint_matrix(const struct checkpoint *c, const char *name,
                      const struct checkpoint_part *part, struct arena *arena, struct tensor *t,
                      struct err *err);
// Like checkpoint_tensor, but converts the tensor to f32 in `arena`: for small tensors.
int checkpoint_floats(const struct checkpoint *c, const char *name, int rank, const int64_t *shape,
                      struct arena *arena, struct tensor *t, struct err *err);
// Like checkpoint_floats, for a vector of n elements.
int checkpoint_vector(const struct checkpoint *c, const char *name, int64_t n, struct arena *arena,
                      struct tensor *t, struct err *err);
// Reads a tensor of shape [] or [1] as a number.
int checkpoint_number(const struct checkpoint *c, const char *name, float *value, struct err *err);
// Returns the size of all tensors together, in bytes.
uint64_t checkpoint_bytes(const struct checkpoint *c);
// Returns the size of all tensors but quantised matrices, which are unpacked out of the mapped
// files.
uint64_t checkpoint_mapped(const struct checkpoint *c);

#endif
