// core/base/random.c -- counter-based draws: a bijective mixer over (seed, stream, index).
#include "core/base/random.h"

// Finaliser of SplitMix64 (Steele, Lea, Flood 2014): every input bit affects every output bit.
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t random_bits(uint64_t seed, enum random_stream stream, uint64_t index)
{
    uint64_t key = mix(seed + 0x9e3779b97f4a7c15u * ((uint64_t)stream + 1));
    return mix(key ^ mix(index + 0x9e3779b97f4a7c15u));
}

double random_unit(uint64_t seed, enum random_stream stream, uint64_t index)
{
    return (double)(random_bits(seed, stream, index) >> 11) * 0x1p-53;
}
