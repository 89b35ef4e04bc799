// core/probes/taps.h -- named taps: the tensors that /dump writes.
//
// A tap is a table row: a site, and a name with placeholders for layer and picture, such as
// "layer.%L.in", "attn.%L.probs" or "visual.%I".
#ifndef CORE_PROBES_TAPS_H
#define CORE_PROBES_TAPS_H

#include <stdbool.h>

// Which tensor of a site's arguments a tap reads.
enum tap_source {
    TAP_X,
    TAP_CHANGED,     // x, if a method replaced v with it
    TAP_HEADS_FIRST, // v [P,Hkv,d], written as [Hkv,P,d]
    TAP_ROWS,        // x, extended by a row per generated token
    TAP_ALIVE,       // indices of the rows of x in the sequence
    TAP_IDS,         // ids of the sequence, not at a site
    TAP_POSITIONS,   // positions of the sequence, not at a site
};

struct tap {
    const char *name;        // with "%L" for the layer, "%I" for the picture
    const struct site *site; // NULL if it is not a tensor of the pass
    enum tap_source source;
    const char *help; // shape and meaning, one line
};

enum { TAP_NAME_SIZE = 64 };

const struct tap *tap_at(int index); // NULL past the end
// Writes a tap's name; layer -1, before the first, is "input".
void tap_name(const struct tap *tap, int layer, int picture, char name[TAP_NAME_SIZE]);
// Returns the lowest layer of a tap with a layer in its name: 0 or -1.
int tap_lowest(const struct tap *tap);
// Matches a name with a pattern; "*" matches any run of characters, "?" a single character.
bool tap_match(const char *pattern, const char *name);

#endif
