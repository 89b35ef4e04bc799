// core/new/new_model.h -- writes a model folder with random weights in a published shape, for
// benchmarks and experiments without a download: `vlmsh new --like SHAPE FOLDER`.
//
//   struct new_model_counts n;
//   new_model_count("llama-3.2-1b", &n, &err);                 // --dry: n.total is 1235814400
//   new_model_write("tiny", "/tmp/tiny", 42, NULL, NULL, &err);
//
// The folder has the layout of the Hugging Face hub: config.json and other configs, a byte-level
// tokenizer.json of the published size, bf16 weights in safetensors files of at most 5 GB. The same
// shape, seed and text give the same bytes on every machine.
//
// Room core/new/: generated models and tokenizers in published shapes, joined models, and outlines
// without weight values. Uses model, data, files and their dependencies.
#ifndef CORE_NEW_NEW_MODEL_H
#define CORE_NEW_NEW_MODEL_H

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/model/parts.h"

struct load_progress;
struct new_tokenizer;
struct shape;
struct shape_tensor;

struct new_model_counts {
    struct {
        const char *name; // part_name
        int64_t parameters;
    } parts[MODEL_PARTS];
    int64_t total;
    uint64_t bytes; // of the weights in bf16
};

// Returns the name of shape `index`; NULL after the last.
const char *new_model_shape(int index);

// Adds a tensor to the counts.
void new_model_add(void *counts, const struct shape_tensor *t);
int new_model_count(const char *shape, struct new_model_counts *counts, struct err *err);

// Fails if the folder's file system lacks space for `bytes` of weights.
int new_model_check_space(const char *folder, uint64_t bytes, struct err *err);

// True if the folder already contains a complete model.
bool new_model_written(const char *folder);

// `folder` must be absent or empty. The tokenizer learns common words and those of `text`
// (new_text_read; NULL: none). Leaves nothing behind on failure.
int new_model_write(const char *shape, const char *folder, uint64_t seed, const char *text,
                    const struct load_progress *progress, struct err *err);
// Writes only `layers` decoder layers, for benchmarks of models too large for a machine.
int new_model_write_layers(const char *shape, int64_t layers, const char *folder, uint64_t seed,
                           struct err *err);
// Writes all-zero weights to sparse files, which take little disk space.
int new_model_write_zeros(const char *shape, const char *folder, const char *text, struct err *err);

// Appends a file's text for the tokenizer to learn from: a data set's texts (.json, .jsonl:
// core/data/dataset.h) as conversations ("USER: question ASSISTANT: answer"), any other file whole.
enum { NEW_TEXT_MAX = 1 << 28 }; // bytes of all files
int new_text_read(struct buf *text, const char *path, struct err *err);

// Write the texts of config.json and preprocessor_config.json.
void new_model_config(struct buf *b, const struct shape *s, const struct new_tokenizer *t);
void new_model_preprocessor(struct buf *b, const struct shape *s);

#endif
