// core/interventions/faithful_score.c -- scores a map against the location of an object.
#include "core/interventions/faithful.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/probes/dice.h"

struct cell {
    double value, mask;
};

static int largest_first(const void *a, const void *b)
{
    const struct cell *x = a, *y = b;
    return x->value < y->value ? 1 : x->value > y->value ? -1 : 0;
}

static double soft_dice(const float *map, const float *mask, int64_t n)
{
    float *positive = xcalloc((size_t)n + 1, sizeof *positive);
    for (int64_t i = 0; i < n; i++) positive[i] = isnan(map[i]) ? map[i] : fmaxf(map[i], 0);
    const double dice = dice_soft(positive, mask, n);
    free(positive);
    return dice;
}

struct map_score map_score(const float *map, const float *mask, int64_t n)
{
    struct map_score s = { .pointing = NAN, .dice = soft_dice(map, mask, n), .auc = NAN };
    struct cell *list = xcalloc((size_t)n + 1, sizeof *list);
    double won = 0, inside = 0, outside = 0; // sums over cells of larger value
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++)
        if (!isnan(map[i])) list[count++] = (struct cell){ (double)map[i], (double)mask[i] };
    qsort(list, (size_t)count, sizeof *list, largest_first);
    for (int64_t i = 0, end; i < count; i = end) {
        double in = 0, out = 0; // sums over cells of equal value
        for (end = i; end < count && list[end].value == list[i].value; end++)
            in += list[end].mask, out += 1 - list[end].mask;
        if (i == 0) s.pointing = in / (double)end;
        won += inside * out + in * out / 2;
        inside += in, outside += out;
    }
    if (inside > 0 && outside > 0) s.auc = won / (inside * outside);
    free(list);
    return s;
}
