// core/probes/interface.c -- norms at the border between encoder and language model.
#include "core/probes/interface.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/dtype.h"

void interface_table(struct interface *s, const struct backend *b, const struct tensor *table)
{
    const int64_t width = table->shape[1];
    const size_t step = (size_t)width * dtype_size(table->dtype);
    float *row = xreallocarray(NULL, (size_t)width, sizeof *row);
    void *stored = xmalloc(step);
    for (int64_t i = 0; table->data && i < table->shape[0]; i++) {
        b->download(stored, (const char *)table->data + (size_t)i * step, step);
        floats_from(row, stored, table->dtype, (size_t)width);
        const double norm = rows_norm(row, width);
        if (norm > 1e-6) stat_add(&s->table, norm); // padding rows are zero
    }
    free(stored);
    free(row);
}

static void add_rows(struct stat *stat, const float *x, int64_t from, int64_t n, int64_t width)
{
    for (int64_t i = from; i < n; i++) stat_add(stat, rows_norm(x + i * width, width));
}

void interface_add(struct interface *s, const struct model *m, enum site site,
                   const struct site_args *args, const float *rows)
{
    const int64_t n = args->x->shape[0], width = args->x->shape[1];
    if (site == SITE_VISION_LAYER)
        add_rows(&s->encoder, rows, m->vision.config.class_token, n, width);
    if (site == SITE_VISION) add_rows(&s->projector, rows, 0, n, width);
    if (site == SITE_PROJECTED) add_rows(&s->visual, rows, 0, n, width);
    if (site != SITE_VISUAL) return;
    add_rows(&s->aligned, rows, 0, n, width);
    s->changed |= args->x != args->v;
}

static void put(struct result_table *t, const char *what, const struct stat *stat, double target)
{
    if (!stat->count) return;
    double *v = result_row(t, "%s", what);
    v[0] = stat_mean(stat), v[1] = stat_std(stat);
    v[2] = v[0] / target;
    v[3] = (double)stat->count;
}

void interface_put(const struct interface *s, struct results *r)
{
    struct result_table *t = results_table(r, "norms.interface", "what|norm|std|ratio to T*|rows");
    const double target = s->table.count ? stat_mean(&s->table) : NAN;
    put(t, "encoder, last output", &s->encoder, target);
    put(t, "projector, input", &s->projector, target);
    put(t, "visual tokens", &s->visual, target);
    if (s->changed) put(t, "visual tokens, aligned", &s->aligned, target);
    put(t, "text embedding table (T*)", &s->table, target);
    put(t, "text in the sequence", &s->text, target);
}

void interface_release(struct interface *s)
{
    rows_release(&s->rows);
}
