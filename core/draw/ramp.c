// core/draw/ramp.c -- colour ramps of heat maps.
#include "core/draw/ramp.h"

#include <stddef.h>
#include <string.h>

enum { STOPS = 9 };

// Nine equidistant colours of matplotlib's viridis and cividis.
static const struct ramp {
    const char *name;
    uint32_t stops[STOPS];
} ramps[] = {
    { "viridis",
      { 0x440154, 0x472d7b, 0x3b528b, 0x2c728e, 0x21918c, 0x28ae80, 0x5ec962, 0xaddc30,
        0xfde725 } },
    { "cividis",
      { 0x00224e, 0x123570, 0x3b496c, 0x575d6d, 0x707173, 0x8a8678, 0xa59c74, 0xc3b369,
        0xfee838 } },
    { "grey",
      { 0x000000, 0x202020, 0x404040, 0x606060, 0x808080, 0xa0a0a0, 0xc0c0c0, 0xe0e0e0,
        0xffffff } },
};

const char *const ramp_names[] = { "viridis", "cividis", "grey", NULL };

uint32_t colour_mix(uint32_t a, uint32_t b, double share)
{
    uint32_t mixed = 0;
    for (int shift = 0; shift < 24; shift += 8) {
        const double from = a >> shift & 255, to = b >> shift & 255;
        mixed |= (uint32_t)(from + (to - from) * share + 0.5) << shift;
    }
    return mixed;
}

uint32_t ramp_colour(const char *name, double share)
{
    const struct ramp *ramp = &ramps[0];
    for (size_t i = 0; i < sizeof ramps / sizeof ramps[0]; i++)
        if (!strcmp(ramps[i].name, name)) ramp = &ramps[i];
    if (!(share > 0)) return ramp->stops[0]; // or NaN
    if (share >= 1) return ramp->stops[STOPS - 1];
    const double at = share * (STOPS - 1);
    const int low = (int)at;
    return colour_mix(ramp->stops[low], ramp->stops[low + 1], at - low);
}

void ramp_bytes(const char *name, double share, uint8_t rgb[3])
{
    const uint32_t colour = ramp_colour(name, share);
    for (int k = 0; k < 3; k++) rgb[k] = (uint8_t)(colour >> (16 - 8 * k));
}
