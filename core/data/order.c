// core/data/order.c -- shuffles by Fisher-Yates, keyed by seed and epoch; holds out samples.
#include "core/data/order.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/random.h"

// Shuffles n items of `size` bytes; `place`: offset of the draws in the random stream.
static void shuffle(void *things, int64_t n, size_t size, uint64_t seed, enum random_stream stream,
                    uint64_t place)
{
    char *base = things, *spare = xmalloc(size);
    for (int64_t i = n - 1; i > 0; i--) {
        const int64_t j =
            (int64_t)(random_unit(seed, stream, place + (uint64_t)i) * (double)(i + 1));
        char *a = base + (size_t)i * size, *b = base + (size_t)j * size;
        if (a == b) continue;
        memcpy(spare, a, size);
        memcpy(a, b, size);
        memcpy(b, spare, size);
    }
    free(spare);
}

void order_epoch(int64_t *order, int64_t n, bool shuffled, uint64_t seed, int64_t epoch)
{
    for (int64_t i = 0; i < n; i++) order[i] = i;
    if (shuffled) shuffle(order, n, sizeof *order, seed, RANDOM_SHUFFLE, (uint64_t)epoch << 40);
}

// Visits the samples in random order and takes a sample's group if that brings the total closer to
// `count`. If every group is too large, takes one of the smallest.
int64_t order_split(bool *chosen, const int64_t *group, int64_t n, int64_t count, uint64_t seed)
{
    int64_t *list = xreallocarray(NULL, (size_t)n + 1, sizeof *list), kept = 0, smallest = -1;
    int64_t most = 0;
    for (int64_t i = 0; i < n; i++) most = group[i] > most ? group[i] : most;
    int64_t *size = xcalloc((size_t)most + 1, sizeof *size); // of each group; 0: taken
    for (int64_t i = 0; i < n; i++) size[group[i]]++;
    for (int64_t i = 0; i < n; i++) list[i] = i;
    shuffle(list, n, sizeof *list, seed, RANDOM_SPLIT, 0);
    for (int64_t i = 0; i < n; i++) {
        const int64_t g = group[list[i]], with = kept + size[g];
        if (!size[g] || with == n) continue;
        if (smallest < 0 || size[g] < size[smallest]) smallest = g;
        if (with - count >= count - kept) continue;
        kept = with;
        size[g] = 0;
    }
    if (!kept && smallest >= 0) {
        kept = size[smallest];
        size[smallest] = 0;
    }
    for (int64_t i = 0; i < n; i++) chosen[i] = !size[group[i]];
    free(size);
    free(list);
    return kept;
}
