// core/methods/steer.h -- steering vectors: their files, and the site at which they act.
//
//   float *sum = xcalloc(layers * width, sizeof *sum);
//   bool *there = xcalloc(layers, sizeof *there);
//   if (steer_read("polite.safetensors", 2.5, layers, width, sum, there, &err) < 0) ...
//
// A file is safetensors, or GGUF as llama.cpp's control vectors (a name that ends in .gguf). Its
// tensor direction.N [D] is added to the output of layer N, counted from 0; llama.cpp has none for
// layer 0. Other tensors are ignored, as in llama.cpp.
#ifndef CORE_METHODS_STEER_H
#define CORE_METHODS_STEER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/graph/hooks.h"

// [N,D] a layer's output after steering added a vector to some of its rows.
extern const struct site SITE_STEER[1];

// Adds factor * direction.N to row N of sum [layers, width] for each direction of the file, and
// sets there[N]. -1 with a message if the file does not fit a model of this shape.
int steer_read(const char *path, double factor, int64_t layers, int64_t width, float *sum,
               bool *there, struct err *err);

// Provenance of a new file; goes into its metadata. NULL: unknown.
struct steer_source {
    const char *model;    // hash of the weights
    const char *state;    // adapter and settings, as provenance_state gives them; "": defaults
    const char *family;   // GGUF: controlvector.model_hint
    const char *method;   // "mean", "pca"
    const char *position; // position of the compared states
    int64_t plus, minus;  // samples
};

// Writes the vectors of the layers that `there` names.
int steer_write(const char *path, const float *vectors, const bool *there, int64_t layers,
                int64_t width, const struct steer_source *source, struct err *err);
// Copies a file's directions into a file of the other format, or of the same one.
int steer_convert(const char *from, const char *to, struct err *err);

// A file's layers and provenance.
struct steer_about {
    int64_t width;
    char *layers; // "4" or "1,2,3"
    char *source; // "mean of 20 and 20 samples at the last position of the prompt"; "": unknown
    char *model;  // hash of the weights; "": unknown
    char *state;  // adapter and settings of the compared states; "": unknown or defaults
};

int steer_about(struct steer_about *a, const char *path, struct err *err);
void steer_about_release(struct steer_about *a);

// Returns the path of the file that a user calls `name`: a name that ends in .safetensors or .gguf
// unchanged; otherwise with the ending with which the file exists, or .safetensors for a new file.
// The caller frees it.
char *steer_path(const char *name);
// Returns the name of a file without its folder and ending; the caller frees it.
char *steer_name(const char *path);

#endif
