// core/base/random.h -- counter-based random numbers: a draw depends only on (seed, stream, index).
//
// Draws (sampling, random scores, noise, shuffling) therefore do not depend on re-prefills, the
// device or the number of threads. Each purpose has its own stream.
#ifndef CORE_BASE_RANDOM_H
#define CORE_BASE_RANDOM_H

#include <stdint.h>

// Never renumber: past draws must remain reproducible.
enum random_stream {
    RANDOM_SAMPLE = 0,
    RANDOM_WEIGHTS = 1,
    RANDOM_SCENE = 5,
    RANDOM_SHUFFLE = 6,
    RANDOM_LORA = 7,
    RANDOM_SPLIT = 8,
    RANDOM_IRA = 9,
    RANDOM_PRUNE = 10,
    RANDOM_BOOTSTRAP = 12,
    RANDOM_POPE = 13,
    RANDOM_DIRECTION = 14,
    RANDOM_NOISE = 15
};

uint64_t random_bits(uint64_t seed, enum random_stream stream, uint64_t index);
// Uniform in [0, 1).
double random_unit(uint64_t seed, enum random_stream stream, uint64_t index);

#endif
