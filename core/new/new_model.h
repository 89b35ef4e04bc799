// core/new/new_model.h -- writes a model folder with random weights in a real shape, for measuring
// and trying without a download: `vlmsh new --like SHAPE FOLDER`.
//
//   struct new_model_counts n;
//   new_model_count("llama-3.2-1b", &n, &err);                 // --dry: n.total is 1235814400
//   new_model_write("tiny", "/tmp/tiny", 42, NULL, NULL, &err);
//
// The folder has the layout of the Hugging Face hub: config.json and its sisters, a byte-level
// tokenizer.json of the real size, bf16 weights in safetensors files of at most 5 GB. The same
// shape and seed give the same bytes everywhere.
//
// Room core/new/: models and tokenizers made from nothing, in published shapes; and outlines that
// have all but the numbers. It uses model, data, files and what they use.
#ifndef CORE_NEW_NEW_MODEL_H
#define CORE_NEW_NEW_MODEL_H

#include "core/base/mem.h"
#include "core/files/checkpoint.h"
#include "core/model/weights.h"

struct new_model_counts {
    struct {
        const char *name; // part_name
        int64_t parameters;
    } parts[MODEL_PARTS];
    int64_t total;
    uint64_t bytes; // of the weights
};

// Name and one line of help of each shape; NULL after the last (for completion and help).
const char *new_model_shape(int index);
const char *new_model_about(int index);

int new_model_count(const char *shape, struct new_model_counts *counts, struct err *err);

// Does the folder hold a whole model already?
bool new_model_written(const char *folder);

// `folder` must be absent or empty. `text` is what the tokenizer's words are learned from besides
// everyday ones (new_text_read); NULL: those alone. On failure nothing that was written remains.
int new_model_write(const char *shape, const char *folder, uint64_t seed, const char *text,
                    const struct load_progress *progress, struct err *err);
// The same with zeros as weights, in files without content: they take hardly any disk.
int new_model_write_zeros(const char *shape, const char *folder, const char *text, struct err *err);

// The texts of config.json and preprocessor_config.json.
struct shape;
struct new_tokenizer;
void new_model_config(struct buf *b, const struct shape *s, const struct new_tokenizer *t);
void new_model_preprocessor(struct buf *b, const struct shape *s);

#endif
