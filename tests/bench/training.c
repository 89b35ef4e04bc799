// tests/bench/training.c -- one training sample through the decoder of Llama-3.2-1B: 600 rows, 24
// of them trained tokens, gradients of the layers' norms. The loss alone is measured beside it, in
// turn.
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "core/new_model.h"
#include "core/tape.h"
#include "core/train/loss.h"

enum { ROWS = 600, TRAINED = 24, ROUNDS = 3, WAYS = 3 };

static void must(int status, const struct err *err)
{
    if (status == 0) return;
    fprintf(stderr, "%s\n", err->text);
    exit(1);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct labels make_sample(const struct model *m)
{
    struct labels l = { .trained = TRAINED };
    sequence_init(&l.sequence, ROWS, 1);
    l.target = malloc(ROWS * sizeof *l.target);
    for (int i = 0; i < ROWS; i++) {
        l.sequence.ids[i] = (int32_t)((int64_t)i * 7919 % m->decoder.config.vocab);
        l.target[i] = i >= ROWS - TRAINED ? (i * 31) % 1000 : -1;
    }
    return l;
}

int main(int argc, char **argv)
{
    static const char *const names[WAYS] = { "loss alone", "norms' gradients, layers kept",
                                             "norms' gradients, layers computed again" };
    const char *folder = argc > 1 ? argv[1] : "build/bench/llama-3.2-1b";
    const struct backend *b = backend_cpu();
    struct stat st;
    struct err err;
    mkdir("build/bench", 0777);
    if (stat(folder, &st) < 0)
        must(new_model_write("llama-3.2-1b", folder, 1, NULL, NULL, &err), &err);
    struct model *m = model_load(folder, b, NULL, &err);
    must(m ? 0 : -1, &err);
    struct decoder *d = &m->decoder;
    for (int i = 0; i < d->config.layers; i++) {
        d->layer[i].input_norm.grad = grad_new(b, d->config.hidden);
        d->layer[i].post_norm.grad = grad_new(b, d->config.hidden);
    }

    struct labels l = make_sample(m);
    double seconds[WAYS][ROUNDS], megabytes[WAYS] = { 0 };
    for (int round = -1; round < ROUNDS; round++) // the first one warms up
        for (int way = 0; way < WAYS; way++) {
            struct arena step = { .backend = b };
            struct tape tape = { .backend = b, .recompute = way == 2 };
            struct graph g = { .backend = b, .arena = &step, .tape = way ? &tape : NULL };
            double loss, start = omp_get_wtime();
            if (loss_sample(&g, m, NULL, 0, &l, 1, &loss) < 0) must(-1, &g.err);
            if (round >= 0) seconds[way][round] = omp_get_wtime() - start;
            megabytes[way] = (double)(step.peak + tape.peak) / 1e6;
            tape_release(&tape);
            arena_release(&step);
        }

    printf("## Training: %s, shape of Llama-3.2-1B, bf16 weights, %d rows, %d trained tokens\n\n"
           "| | s a sample | activations and gradients, MB |\n|---|---|---|\n",
           b->describe(), ROWS, TRAINED);
    for (int way = 0; way < WAYS; way++) {
        qsort(seconds[way], ROUNDS, sizeof **seconds, compare);
        printf("| %s | %.2f | %.0f |\n", names[way], seconds[way][ROUNDS / 2], megabytes[way]);
    }
    for (int i = 0; i < d->config.layers; i++) {
        grad_free(b, d->layer[i].input_norm.grad);
        grad_free(b, d->layer[i].post_norm.grad);
    }
    labels_release(&l);
    model_free(m);
    return 0;
}
