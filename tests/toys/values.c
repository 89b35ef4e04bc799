// tests/toys/values.c -- a method without a state: in chosen layers the values of visual tokens are
// scaled, v' = factor v.
#include <stdlib.h>

#include "core/methods/kit.h"
#include "tests/toys/toys.h"

static const struct setting toy_settings[] = {
    { .key = "toyvalues.factor",
      .type = SETTING_REAL,
      .max = 100,
      .def = "1",
      .stale = STALE_SEEN,
      .help = "Factor of the values of visual tokens; 1 is off." },
    { .key = "toyvalues.layers",
      .type = SETTING_LIST,
      .def = "0%-100%",
      .stale = STALE_SEEN,
      .help = "Layers in which values are scaled." },
    { 0 },
};

static int toy_run(void *state, struct graph *g, struct site_args *args)
{
    int64_t count;
    int32_t *keys = site_new_keys(args, true, &count);
    struct tensor *v = op_gather_floats(g, args->v, keys, count); // [S,Hkv,d]
    v = op_scale(g, v, (float)settings_real(g->settings, "toyvalues.factor"));
    v = op_scatter_rows(g, args->v, v, keys);
    free(keys);
    return v ? 0 : -1;
}

static void toy_badge(struct buf *b, const struct settings *s, int layer)
{
    buf_printf(b, "VALUES x%s", settings_text(s, "toyvalues.factor"));
}

const struct method method_toy_values = {
    .name = "toyvalues",
    .title = "the toy of values",
    .settings = toy_settings,
    .toggle = { "toyvalues.factor", "1", "0.5" },
    .badge = toy_badge,
    .values = true,
    .layers = "toyvalues.layers",
    .at = { { SITE_VALUES, toy_run } },
};
