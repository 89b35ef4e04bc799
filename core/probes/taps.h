// core/probes/taps.h -- named taps: what `/dump` and other probes can subscribe to.
//
// A tap is a row: a name with places for layer and picture, and the site it is read at:
// "layer.%L.in", "attn.%L.probs", "visual.%I" ...
#ifndef CORE_PROBES_TAPS_H
#define CORE_PROBES_TAPS_H

#include "core/graph/hooks.h"

// Which tensor of a site's arguments a tap reads.
enum tap_source {
    TAP_X,
    TAP_CHANGED,     // x, when a method put another in place of v
    TAP_HEADS_FIRST, // v [P,Hkv,d], written as [Hkv,P,d]
    TAP_ROWS,        // x, one row more with every generated token
    TAP_ALIVE,       // which rows of the sequence x holds
    TAP_IDS,         // of the sequence itself: no site
    TAP_POSITIONS,
};

struct tap {
    const char *name; // "%L" stands for the layer, "%I" for the picture
    enum site site;   // SITE_COUNT for what is no tensor of the pass
    enum tap_source source;
    const char *help; // shape and meaning, one line
};

enum { TAP_NAME_SIZE = 64 };

const struct tap *tap_at(int index); // NULL past the end
void tap_name(const struct tap *tap, int layer, int picture, char name[TAP_NAME_SIZE]);
// "*" matches any run of characters, "?" one.
bool tap_match(const char *pattern, const char *name);

#endif
