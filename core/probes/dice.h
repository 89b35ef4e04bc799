// core/probes/dice.h -- soft Dice and masks of visual tokens.
#ifndef CORE_PROBES_DICE_H
#define CORE_PROBES_DICE_H

#include <stdint.h>

struct probe_env;
struct result_map;

// Returns the soft Dice of a map, which it scales to a maximum of 1, and a mask in 0..1. NaN if
// both are empty.
double dice_soft(const float *map, const float *mask, int64_t n);
// Sets mask [rows * cols] to the share of each map cell that the options' box or mask covers.
void dice_mask(const struct probe_env *env, int picture, const struct result_map *map, float *mask);

#endif
