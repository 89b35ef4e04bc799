// core/files/gguf.h -- GGUF files: a memory-mapped reader for untrusted files.
//
//   struct gguf *f = gguf_open(path, &err);
//   const char *arch = gguf_text(f, "general.architecture");
//   const struct safetensor *t = gguf_find(f, "blk.0.attn_q.weight");
//
// Versions 2 and 3, little-endian (ggml's docs/gguf.md). Opening checks counts against the file's
// size (before allocating memory for them), lengths of texts and lists, types, nesting, duplicate
// names, alignment, and that tensors follow one another within the file.
#ifndef CORE_FILES_GGUF_H
#define CORE_FILES_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/files/safetensors.h"

enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_TEXT,
    GGUF_LIST,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_TYPES
};

// A pair of the metadata.
struct gguf_entry {
    char *key;
    char *text; // of GGUF_TEXT, NUL-terminated; else NULL
    enum gguf_type type;
    enum gguf_type item;       // of a list: the type of its members
    uint64_t count;            // of a list
    const unsigned char *data; // in the mapping: the number, or a list's first member
    bool read;                 // some code has looked it up
};

// Key of configs that are read from GGUF files: the value heads of recurrent layers alternate
// between the key heads (core/files/gguf_delta.c).
#define GGUF_ALTERNATE "linear_value_heads_alternate"

struct gguf {
    char *path;
    void *map; // whole file, read-only
    uint64_t size;
    uint64_t header;            // bytes before the first tensor's data
    struct gguf_entry *entries; // sorted by key
    uint64_t entry_count;
    struct safetensor *tensors; // sorted by name; shapes with the row's length last
    uint64_t tensor_count;
    bool borrowed; // from gguf_parse
};

struct gguf *gguf_open(const char *path, struct err *err);
// Like gguf_open, for a file in memory (fuzzing, tests); the bytes are borrowed.
struct gguf *gguf_parse(const void *bytes, uint64_t size, const char *name, struct err *err);
void gguf_close(struct gguf *f);

// Moves the tensors of another file of the same model into f's list; both files stay open.
int gguf_join(struct gguf *f, struct gguf *part, struct err *err);

const struct safetensor *gguf_find(const struct gguf *f, const char *name);
// Returns a pair and marks it as read. NULL: absent.
const struct gguf_entry *gguf_entry(const struct gguf *f, const char *key);
// Marks a pair as read if its value is `value` within 0.1%, the one that vlmsh always uses.
void gguf_expect(const struct gguf *f, const char *key, double value);
// Returns a text; NULL if the key is absent or its value is not a text.
const char *gguf_text(const struct gguf *f, const char *key);
// Like gguf_text, but returns -1 if the value is not a text.
int gguf_text_read(const struct gguf *f, const char *key, const char **text, struct err *err);
// Reads a whole number of any type, or a list of equal ones, one per layer. *value becomes
// `otherwise` if the key is absent. Returns -1 if the value has another type or is out of range.
int gguf_int(const struct gguf *f, const char *key, int64_t min, int64_t max, int64_t otherwise,
             int64_t *value, struct err *err);
int gguf_real(const struct gguf *f, const char *key, double otherwise, double *value,
              struct err *err);
int gguf_bool(const struct gguf *f, const char *key, bool otherwise, bool *value, struct err *err);
// Reads a list of at most `most` numbers or texts; *list becomes NULL if the key is absent.
int gguf_list(const struct gguf *f, const char *key, bool texts, uint64_t most,
              const struct gguf_entry **list, struct err *err);
// Returns element i of a list of numbers.
double gguf_number(const struct gguf_entry *list, uint64_t i);
// Returns the next text of a list of texts; *at starts as list->data.
const char *gguf_next(const unsigned char **at, size_t *length);

// Returns the types that weights may have: "F32, F16, ...". The caller frees it.
char *gguf_types_known(void);
// Returns the id that a dtype of weights has in GGUF files.
int gguf_type_id(enum dtype dtype);

// Returns the name of a language model's tensor in files of an architecture:
// "layers.3.mlp.up_proj.weight" gives "blk.3.ffn_up.weight"; "layers.3.mlp.experts.up_proj.weight"
// gives the tensor that holds all experts. NULL: no such tensor. The caller frees it.
char *gguf_text_name(const char *architecture, const char *hf);
// Every GEMMA_PATTERN-th layer of Gemma 3 has no sliding window, unless the file says otherwise.
enum { GEMMA_PATTERN = 6 };

// Returns the name that files of an architecture give to tokenizers of SentencePiece.
const char *gguf_text_pieces(const char *architecture);
// Returns the row order of queries and keys in files of an architecture, for heads of width
// `head` with `rotary` rotary dimensions. `multimodal`: a token has several positions (time, row,
// column).
struct head_order gguf_text_order(const char *architecture, int64_t head, int64_t rotary,
                                  bool multimodal);

#endif
