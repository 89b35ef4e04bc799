// core/methods/forecast.c -- FLOPs and visual tokens of a prompt, from the settings of the methods.
#include "core/methods/forecast.h"

#include <stdlib.h>

#include "core/base/mem.h"
#include "core/model/flops.h"
#include "core/model/model.h"

// Returns the number of query-key pairs of `rows` causal rows; window 0: rows see all earlier ones.
static double causal_pairs(double rows, double window)
{
    if (!(window > 0) || rows <= window) return rows * (rows + 1) / 2;
    return window * (window + 1) / 2 + (rows - window) * window;
}

static double layer_flops(const struct decoder *d, int layer, const struct forecast_rows *rows)
{
    const struct decoder_config *c = &d->config;
    const double n = rows->text + rows->visual;
    const double window = decoder_slides(c, layer) ? (double)c->window : 0;
    return flops_projections(&d->layer[layer], n) +
           flops_attention(c, layer, causal_pairs(n, window)) + flops_recurrence(c, layer, n) +
           flops_ffn(&d->layer[layer], rows->ffn_text + rows->ffn_visual);
}

int methods_forecast(const struct method_env *env, int64_t text, int64_t visual,
                     struct prompt_cost *f, struct err *err)
{
    const struct decoder *d = &env->model->decoder;
    const int layers = d->config.layers;
    const struct forecast_rows all = { (double)text, (double)visual, (double)text, (double)visual };
    struct forecast_rows *rows = xcalloc((size_t)layers, sizeof *rows);
    const struct method *m;
    int status = 0;
    for (int l = 0; l < layers; l++) rows[l] = all;
    for (int i = 0; status == 0 && (m = method_at(i)); i++) {
        if (!method_on(m, env->settings)) continue;
        status = methods_check(m, env, err);
        if (status == 0 && m->forecast) status = m->forecast(env, rows, err);
    }
    *f = (struct prompt_cost){ rows[layers - 1].visual,
                               flops_head(&d->config) + (all.text + all.visual) * flops_inputs(d) };
    for (int l = 0; l < layers; l++) f->flops += layer_flops(d, l, &rows[l]);
    free(rows);
    return status;
}
