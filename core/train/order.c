// core/train/order.c -- Fisher-Yates keyed by seed and epoch; similar lengths together.
#include "core/train/order.h"

#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/random.h"

enum { WINDOW = 32 }; // batches among which samples are grouped by length

// Shuffles n things of `size` bytes; place: where in the stream its draws begin.
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

struct place {
    int64_t sample, at; // at: keeps samples of one length in their shuffled order
    int32_t length;
};

static int by_length(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->length != y->length) return x->length < y->length ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

// One window of n samples in order[].
static void group(int64_t *order, int64_t n, const int32_t *length, int64_t batch, uint64_t seed,
                  uint64_t place)
{
    struct place *list = xreallocarray(NULL, (size_t)n, sizeof *list);
    for (int64_t i = 0; i < n; i++)
        list[i] = (struct place){ .sample = order[i], .at = i, .length = length[order[i]] };
    qsort(list, (size_t)n, sizeof *list, by_length);
    for (int64_t i = 0; i < n; i++) order[i] = list[i].sample;
    free(list);
    // A short batch stays the last.
    shuffle(order, n / batch, (size_t)batch * sizeof *order, seed, RANDOM_SHUFFLE, place);
}

void order_epoch(int64_t *order, int64_t n, const int32_t *length, int64_t batch, bool shuffled,
                 uint64_t seed, int64_t epoch)
{
    // Two runs of places an epoch: of samples, of batches.
    const uint64_t place = (uint64_t)epoch << 40, second = place + ((uint64_t)1 << 39);
    for (int64_t i = 0; i < n; i++) order[i] = i;
    if (!shuffled) return;
    shuffle(order, n, sizeof *order, seed, RANDOM_SHUFFLE, place);
    if (batch < 2) return;
    for (int64_t from = 0; from < n; from += WINDOW * batch)
        group(order + from, n - from < WINDOW * batch ? n - from : WINDOW * batch, length, batch,
              seed, second + (uint64_t)from);
}

void order_split(bool *chosen, int64_t n, int64_t count, uint64_t seed)
{
    int64_t *list = xreallocarray(NULL, (size_t)n + 1, sizeof *list);
    for (int64_t i = 0; i < n; i++) list[i] = i;
    shuffle(list, n, sizeof *list, seed, RANDOM_SPLIT, 0);
    memset(chosen, 0, (size_t)n * sizeof *chosen);
    for (int64_t i = 0; i < count && i < n; i++) chosen[list[i]] = true;
    free(list);
}
