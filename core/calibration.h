// core/calibration.h -- what was measured on a data set for a method, as a file of numbers with
// where they come from.
//
//   struct calibration c;
//   if (calibration_open(&c, "llava-ffn.safetensors", &err) < 0) ...
//   if (calibration_fits(&c, model, &err) < 0) ...           // another model's: refused
//   float *alpha = calibration_numbers(&c, "ffn.alpha", 2, (int64_t[]){ L, D }, &err);
//   calibration_close(&c);
//
// A safetensors file; kind by kind the tensors are (methods page, section 3)
//   ffn    ffn.alpha [L,D], ffn.redundancy [L], ffn.redundancy_text [L]
// and the metadata "model" (fingerprint of the weights), "data" (hash of the data set), "count"
// (samples). Files without metadata are read: who made them answers for them.
#ifndef CORE_CALIBRATION_H
#define CORE_CALIBRATION_H

#include "core/model.h"
#include "core/safetensors.h"

struct calibration {
    struct safetensors *file;
    const char *model, *data; // fingerprint, hash; NULL: the file does not say
    int64_t count;            // samples; -1: the file does not say
};

// Checks the form; -1 with a message when it is no calibration.
int calibration_open(struct calibration *c, const char *path, struct err *err);
void calibration_close(struct calibration *c); // a zeroed one too
// Was it made with these weights? Also fine when the file does not say.
int calibration_fits(const struct calibration *c, const struct model *m, struct err *err);
// A tensor of that name and shape, as f32 on the host; belongs to the caller (free). NULL when it
// is missing, of another shape, or holds what is no number.
float *calibration_numbers(const struct calibration *c, const char *name, int rank,
                           const int64_t *shape, struct err *err);

#endif
