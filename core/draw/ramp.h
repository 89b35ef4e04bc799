// core/draw/ramp.h -- colour ramps of heat maps, named as in setting screen.map. Colours are
// 0xRRGGBB.
//
//   ramp_colour("viridis", 0.5);   // the middle: 0x21918c
#ifndef CORE_DRAW_RAMP_H
#define CORE_DRAW_RAMP_H

#include <stdint.h>

extern const char *const ramp_names[]; // NULL at the end
// `share` is clamped to 0..1; NaN counts as 0. An unknown name selects the first ramp.
uint32_t ramp_colour(const char *name, double share);
void ramp_bytes(const char *name, double share, uint8_t rgb[3]);
// Mixes a (share 0) and b (share 1).
uint32_t colour_mix(uint32_t a, uint32_t b, double share);

#endif
