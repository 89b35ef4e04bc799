// core/methods/prune_settings.c -- the settings of pruning: which values are possible, alone,
// together and with a model.
#include "core/methods/forecast.h"
#include "core/methods/phases.h"
#include "core/methods/prune_parts.h"

#include <stdlib.h>
#include <string.h>

#include "core/model/families/family.h"
#include "core/model/layer.h"

static const char *const scores[] = {
    "contribution", "attention", "norope",    "sinks", "dumps",      "anchors", "list",
    "uniform",      "random",    "diversity", "cls",   "divergence", "off",     NULL,
};
static const char *const modes[] = { "prefill", "dynamic", NULL };
static const char *const places[] = { "auto", "input", NULL };
static const char *const no_tokens[] = { "none", NULL };

const struct setting prune_settings[] = {
    { .key = "prune.score",
      .type = SETTING_CHOICE,
      .def = "off",
      .choices = scores,
      .stale = STALE_SEEN,
      .help =
          "Visual token pruning. Scores that rank the tokens: contribution (CAPA), attention "
          "(FastV), norope (attention without rotary positions), random (prune.seed), cls (the "
          "encoder's attention, from its class token if it has one), divergence (IRA). Scores that "
          "choose prune.keep of them without a ranking: uniform (evenly spaced tokens), diversity "
          "(DivPrune). Fixed choices: sinks (attention sinks), dumps and anchors (sinks of that "
          "kind, as /sinks finds them), list (prune.tokens).",
      .also = "fastv capa pruning" },
    { .key = "prune.layer",
      .type = SETTING_LIST,
      .def = "auto",
      .choices = places,
      .stale = STALE_SEEN,
      .help = "Layers after which visual tokens are pruned; auto selects the transition layer "
              "(from phases.calibration, the paper or the depth), input prunes before the first "
              "layer." },
    { .key = "prune.keep",
      .type = SETTING_REALS,
      .max = 1,
      .def = "0.25",
      .stale = STALE_SEEN,
      .help = "Fraction of all visual tokens to keep, one value for each layer of prune.layer; 0 "
              "keeps none. Fixed choices (sinks, dumps, anchors, list) ignore it.",
      .also = "ratio share" },
    { .key = "prune.mode",
      .type = SETTING_CHOICE,
      .def = "prefill",
      .choices = modes,
      .stale = STALE_SEEN,
      .help = "When to prune: prefill prunes once per answer, dynamic selects tokens again for "
              "each generated token (not with diversity, cls and divergence)." },
    { .key = "prune.worst",
      .type = SETTING_FLAG,
      .def = "off",
      .stale = STALE_SEEN,
      .help = "Reverses pruning: keeps the tokens with the lowest scores; with prune.score "
              "sinks, dumps, anchors or list, keeps all other tokens. Not for uniform and "
              "diversity, which rank no tokens.",
      .also = "reverse ranking control" },
    { .key = "prune.tokens",
      .type = SETTING_LIST,
      .def = "none",
      .choices = no_tokens,
      .stale = STALE_SEEN,
      .help =
          "Visual tokens that prune.score list keeps, counted from 0 over all pictures: 0-15,40, "
          "or a range of all tokens as 0%-50%." },
    { .key = "prune.seed",
      .type = SETTING_INTEGER,
      .max = 9007199254740991,
      .def = "0",
      .stale = STALE_SEEN,
      .help = "Random seed of prune.score random." },
    { 0 },
};

// Returns the layer of prune.layer auto without phases.calibration: the transition layer of a known
// checkpoint, else the layer at 3/8 of the depth, or the nearest layer with attention.
int prune_auto_layer(const struct model *m)
{
    const struct phase_layers *p = family_phases(m);
    const struct decoder_config *c = &m->decoder.config;
    return p ? p->phase[PHASE_TRANSITION]
             : decoder_attending(c, family_phase_by_depth(PHASE_TRANSITION, c->layers));
}

int prune_read_layers(const struct method_env *env, int *layer, struct err *err)
{
    const int64_t layers = env->model->decoder.config.layers;
    if (settings_is(env->settings, "prune.layer", "input")) {
        layer[0] = PRUNE_INPUT;
        return 1;
    }
    if (settings_is(env->settings, "prune.layer", "auto")) {
        int phase[PHASES];
        const char *source;
        if (phases_of(env->settings, env->model, phase, &source, err) < 0) return -1;
        layer[0] = decoder_attending(&env->model->decoder.config, phase[PHASE_TRANSITION]);
        return 1;
    }
    bool *set = xcalloc((size_t)layers, sizeof *set);
    int count = settings_layers(env->settings, "prune.layer", layers, set, err), n = 0;
    for (int l = 0; count >= 0 && l < layers; l++) {
        if (!set[l]) continue;
        layer[n++] = l;
        // err NULL: the layers have been checked.
        if (err && decoder_need_attention(&env->model->decoder.config, l, "prune.layer", err) < 0)
            count = -1;
    }
    free(set);
    return count < 0 ? -1 : n;
}

enum prune_kind prune_kind_of(const struct settings *s)
{
    enum prune_kind kind = PRUNE_CONTRIBUTION;
    while (strcmp(scores[kind], settings_text(s, "prune.score"))) kind++;
    return kind;
}

// Checks the combination of score, mode, layer and prune.worst. Scores measured in a layer do not
// exist before the first layer. PRUNE_DIVERSITY and the kinds after it, which choose without a
// query after the layer, have no dynamic mode.
static int check_kind(const struct settings *s, struct err *err)
{
    const enum prune_kind kind = prune_kind_of(s);
    const bool input = settings_is(s, "prune.layer", "input"), off = !strcmp(scores[kind], "off");
    const bool dynamic = settings_is(s, "prune.mode", "dynamic");
    const bool ranks = kind != PRUNE_UNIFORM && kind != PRUNE_DIVERSITY;
    if (off) return 0;
    if (settings_flag(s, "prune.worst") && !ranks)
        return err_set(err, "prune.score %s ranks no tokens: /set prune.worst off", scores[kind]);
    if (dynamic && kind >= PRUNE_DIVERSITY)
        return err_set(err,
                       "prune.score %s does not depend on the query: it has no dynamic mode; /set "
                       "prune.mode prefill",
                       scores[kind]);
    if (dynamic && input)
        return err_set(err, "prune.mode dynamic selects keys of a layer: prune.layer cannot be "
                            "input; /set prune.mode prefill");
    if (input && (kind <= PRUNE_ANCHORS || kind == PRUNE_DIVERGENCE))
        return err_set(err,
                       "prune.score %s is measured in a layer: with prune.layer input, use "
                       "diversity, cls, uniform, random or list",
                       scores[kind]);
    return 0;
}

int prune_possible(const struct settings *s, struct err *err)
{
    size_t count;
    int status = 0;
    double *keep = settings_reals(s, "prune.keep", &count);
    for (size_t i = 0; i < count && status == 0; i++)
        if (i && keep[i] > keep[i - 1])
            status = err_set(
                err, "prune.keep cannot increase (%g after %g): dropped tokens do not come back",
                keep[i], keep[i - 1]);
    free(keep);
    return status < 0 ? -1 : check_kind(s, err);
}

static int count_stages(const struct method_env *env, struct err *err)
{
    int *layer = xcalloc((size_t)env->model->decoder.config.layers, sizeof *layer);
    const int stages = prune_read_layers(env, layer, err);
    free(layer);
    return stages;
}

int prune_check(const struct method_env *env, struct err *err)
{
    const struct model *m = env->model;
    if (prune_kind_of(env->settings) == PRUNE_CLS && model_has_vision(m) &&
        !vision_depth(&m->vision.config))
        return err_set(err, "prune.score cls reads the attention of the picture encoder, and this "
                            "model has none: /set prune.score contribution, or another score of "
                            "/help prune.score");
    return count_stages(env, err) < 0 ? -1 : 0;
}

int prune_check_stages(int stages, size_t shares, struct err *err)
{
    if ((size_t)stages != shares)
        return err_set(err,
                       "prune.layer names %d layer%s, but prune.keep has %zu value%s: give one "
                       "value per layer",
                       stages, stages == 1 ? "" : "s", shares, shares == 1 ? "" : "s");
    return 0;
}

int prune_agree(const struct method_env *env, struct err *err)
{
    size_t shares;
    const int stages = count_stages(env, err);
    free(settings_reals(env->settings, "prune.keep", &shares));
    if (prune_kind_of(env->settings) == PRUNE_LIST &&
        settings_is(env->settings, "prune.tokens", "none"))
        return err_set(err, "prune.score list keeps the tokens of prune.tokens: /set prune.tokens "
                            "0-15,40");
    return stages < 0 ? -1 : prune_check_stages(stages, shares, err);
}

bool prune_diverges(const struct method_env *env, const int *layer, int stages)
{
    const int64_t layers = env->model->decoder.config.layers;
    bool *set = xcalloc((size_t)layers, sizeof *set);
    struct err ignored;
    bool all = settings_is(env->settings, "ira.on", "on") &&
               settings_layers(env->settings, "ira.layers", layers, set, &ignored) > 0;
    for (int i = 0; i < stages; i++) all = all && layer[i] >= 0 && set[layer[i]];
    free(set);
    return all;
}

bool prune_without_effect(const struct method_env *env, struct err *why)
{
    const int layers = env->model->decoder.config.layers;
    int *layer = xcalloc((size_t)layers, sizeof *layer);
    size_t shares;
    double *keep = settings_reals(env->settings, "prune.keep", &shares);
    const int stages = prune_read_layers(env, layer, NULL);
    const bool blind =
        prune_kind_of(env->settings) == PRUNE_DIVERGENCE && !prune_diverges(env, layer, stages);
    const bool last = stages > 0 && layer[0] == layers - 1;
    const bool all =
        shares > 0 && keep[shares - 1] >= 1 && !prune_names_tokens(prune_kind_of(env->settings));
    if (last)
        err_set(why, "prune.layer %d is the last layer: pruning after it has no effect", layer[0]);
    else if (blind)
        err_set(why, "prune.score divergence needs IRA in the layers of prune.layer: /set ira.on "
                     "on, and see ira.layers");
    else if (all)
        err_set(why, "prune.keep %s keeps every visual token: pruning has no effect",
                settings_text(env->settings, "prune.keep"));
    free(layer);
    free(keep);
    return last || blind || all;
}

// Omits no rows in dynamic mode, which computes all of them; that they see fewer keys is not
// forecast.
int prune_forecast(const struct method_env *env, struct forecast_rows *rows, struct err *err)
{
    const int layers = env->model->decoder.config.layers;
    const int64_t visual = (int64_t)rows[0].visual;
    const bool dynamic = settings_is(env->settings, "prune.mode", "dynamic");
    if (prune_names_tokens(prune_kind_of(env->settings)))
        return err_set(err, "prune.score %s: only a pass knows how many tokens it keeps",
                       settings_text(env->settings, "prune.score"));
    int *layer = xcalloc((size_t)layers, sizeof *layer);
    size_t shares;
    double *keep = settings_reals(env->settings, "prune.keep", &shares);
    const int stages = prune_read_layers(env, layer, err);
    const int status = stages < 0 ? -1 : prune_check_stages(stages, shares, err);
    for (int i = 0; status == 0 && !dynamic && i < stages; i++)
        for (int l = layer[i] + 1; l < layers; l++)
            rows[l].visual = rows[l].ffn_visual = (double)prune_count(keep[i], visual);
    free(layer);
    free(keep);
    return status;
}

// The badge names CAPA only if the score is CAPA's, contribution.
void prune_badge(struct buf *b, const struct settings *s, int layer)
{
    const char *keep = settings_text(s, "prune.keep");
    char *end;
    const double share = strtod(keep, &end);
    buf_puts(b, settings_is(s, "prune.score", "contribution") ? "CAPA" : "PRUNE");
    if (end != keep && !*end && share <= 1)
        buf_printf(b, " %.0f%%", 100 * share);
    else
        buf_printf(b, " %s", keep);
    if (settings_is(s, "prune.layer", "auto") && layer >= 0 &&
        settings_is(s, "phases.calibration", "none"))
        buf_printf(b, " @%d", layer);
    else
        buf_printf(b, " @%s", settings_text(s, "prune.layer"));
}
