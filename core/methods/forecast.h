// core/methods/forecast.h -- what the next prompt would cost under given settings, without a pass.
//
//   struct prompt_cost f;
//   if (methods_forecast(&env, text_tokens, visual_tokens, &f, &err) == 0) ... f.flops, f.visual
//
// The probe `flops` counts the operations of a real pass. A forecast derives them from the
// settings. It omits the methods' own operations, which are few, and takes attention to be causal:
// keys that a method hides count as seen, later visual tokens of the same picture (Gemma) do not.
#ifndef CORE_METHODS_FORECAST_H
#define CORE_METHODS_FORECAST_H

#include "core/methods/method.h"

// The rows of a layer: all of them, and those whose FFN is computed.
struct forecast_rows {
    double text, visual, ffn_text, ffn_visual;
};

struct prompt_cost {
    double visual; // visual tokens that the last layer computes
    double flops;  // of the whole prompt
};

// -1 if a method cannot work with these settings, or if its effect depends on the picture.
int methods_forecast(const struct method_env *env, int64_t text, int64_t visual,
                     struct prompt_cost *f, struct err *err);

#endif
