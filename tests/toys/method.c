// tests/toys/method.c -- a method: an RMSNorm of visual tokens with a gain [D] that is learned.
//
//   v' = v / sqrt(mean(v^2) + 1e-6) g          untrained: g = toy.factor
#include <stdlib.h>

#include "core/methods/kit.h"
#include "tests/toys/toys.h"

static const struct setting toy_settings[] = {
    { .key = "toy.on",
      .type = SETTING_FLAG,
      .def = "off",
      .stale = STALE_SEEN,
      .help = "Switches the toy method." },
    { .key = "toy.factor",
      .type = SETTING_REAL,
      .max = 100,
      .def = "1",
      .stale = STALE_SEEN,
      .help = "Gain of the untrained toy." },
    { 0 },
};

struct toy {
    const struct backend *backend;
    struct tensor gain; // [D], owned by this struct
};

static void toy_release(void *state)
{
    struct toy *t = state;
    t->backend->release(t->gain.data);
    free(t);
}

static int toy_start(void **state, const struct method_env *env, struct err *err)
{
    const int64_t width = env->model->decoder.config.hidden;
    struct toy *t = *state;
    if (!t) {
        *state = t = xcalloc(1, sizeof *t);
        t->backend = env->backend;
        t->gain = (struct tensor){ .dtype = DTYPE_F32, .rank = 1, .shape = { width } };
    }
    const double factor = settings_real(env->settings, "toy.factor");
    return method_fill(env, "toy.gain", &t->gain, factor, factor, err);
}

static int toy_run(void *state, struct graph *g, struct site_args *args)
{
    struct toy *t = state;
    args->x = op_rmsnorm(g, args->x, &t->gain, 1e-6f); // [S,D]
    return args->x ? 0 : -1;
}

static bool toy_learned(const struct model *m, int index, int layer, struct method_tensor *t)
{
    if (index || !model_has_vision(m)) return false;
    *t = (struct method_tensor){ "toy.gain", 1, { m->decoder.config.hidden } };
    return true;
}

static void toy_params(void *state, method_param_fn add, void *self)
{
    struct toy *t = state;
    add(self, "toy.gain", &t->gain);
}

static double toy_flops(const struct settings *s, const struct decoder_config *c,
                        const struct site *site, const struct site_args *args, bool visual)
{
    return site == SITE_VISUAL ? 3 * (double)c->hidden : 0;
}

static void toy_badge(struct buf *b, const struct settings *s, int layer)
{
    buf_printf(b, "TOY %s", settings_text(s, "toy.factor"));
}

const struct method method_toy = {
    .name = "toy",
    .title = "the toy",
    .settings = toy_settings,
    .toggle = { "toy.on", "off", "on" },
    .press = "Alt-9",
    .replaces = true,
    .badge = toy_badge,
    .start = toy_start,
    .release = toy_release,
    .at = { { SITE_VISUAL, toy_run } },
    .flops = toy_flops,
    .training = { .part = PART_PROJECTOR },
    .learned = toy_learned,
    .params = toy_params,
};
