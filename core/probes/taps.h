// core/probes/taps.h -- named taps: what `/dump` and other probes can subscribe to.
//
// A tap is a row: a name with places for layer and picture, and the site it is read at.
//   "layer.%L.in", "attn.%L.probs", "visual.%I" ...
#ifndef CORE_PROBES_TAPS_H
#define CORE_PROBES_TAPS_H

#include "core/hooks.h"

struct tap {
    const char *name; // "%L" stands for the layer, "%I" for the picture
    enum site site;
    const char *help; // shape and meaning, one line
    // The tensor to be read at that site: x, q, k, v of the arguments.
    struct tensor *(*tensor)(const struct site_args *args);
};

const struct tap *tap_at(int index); // NULL past the end
// "*" matches any run of characters, "?" one.
bool tap_match(const char *pattern, const char *name);

#endif
