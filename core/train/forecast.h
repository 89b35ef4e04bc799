// core/train/forecast.h -- forecasts the memory of a training run by part, before it starts.
//
//   struct forecast f;
//   if (forecast_shape(&f, "llava-1.5-7b", settings, 1024, NULL, &err) < 0) ... // needs no weights
//   if (forecast_data(&f, model, settings, "train.json", NULL, &err) < 0) ...
//   ... memory_own(&f.parts), f.parts.of[MEMORY_ACTIVATIONS] ...
//
// The forecast is the run itself on a device that computes nothing (core/graph/dry.h): it allocates
// the parameters, runs the largest forward and backward passes, and counts their memory with the
// function that also counts it in a real run (sft_memory).
#ifndef CORE_TRAIN_FORECAST_H
#define CORE_TRAIN_FORECAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/jobs/memory.h"
#include "core/methods/method.h"
#include "core/model/parts.h"
#include "core/train/roles.h"
#include "core/train/select.h"

struct model;
struct settings;
struct sft;

struct forecast {
    struct memory_parts parts;
    struct params_count count[MODEL_PARTS + 1]; // by part and, last, in total
    int64_t samples, rows;                      // that the dry run computed
    size_t arena, lane;     // bytes of activations and results of a pass; of one lane
    size_t keep;            // train.checkpointing auto: bytes of activations to keep, else 0
    bool offload;           // inputs of layers are offloaded to the host
    bool moves_tables;      // an embedding table of host memory is trained on the GPU
    const char *arithmetic; // precision of matrix products: "f32", "bf16"
    // Assumed picture size in pixels, for a model that reads pictures near their native resolution;
    // 0: the size makes no difference, or the forecast counts the data's pictures.
    int64_t picture_width, picture_height;
    enum method_role role[METHODS_MAX]; // of the methods in the run, by method_at
};

// Forecasts for a loaded model, which is not changed. Each sample of a micro-batch has `rows` rows,
// and one picture if the model has a vision encoder; half of the text rows are trained. rows 0: the
// picture's rows and FORECAST_TEXT_ROWS more.
enum { FORECAST_TEXT_ROWS = 256 };
int forecast_model(struct forecast *f, const struct model *m, const struct settings *s,
                   int64_t rows, struct err *err);
// Like forecast_model, for a shape (core/new/shapes.h) trained on `where`.
int forecast_shape(struct forecast *f, const char *shape, const struct settings *s, int64_t rows,
                   const struct backend *where, struct err *err);
// Forecasts with the samples of a data file; reads the pictures' headers and decodes some of them.
int forecast_data(struct forecast *f, const struct model *m, const struct settings *s,
                  const char *data, const char *images, struct err *err);
// Forecasts a run whose data is open and whose steps are planned.
int sft_forecast(const struct sft *t, struct forecast *f, struct err *err);

#endif
