// core/probes/flops.c -- FLOPs of the prompt and of a generated token, without and with the current
// methods (CAPA's paper).
//
// Counts computed rows, query-key pairs and computed FFNs in a pass instead of deriving them from
// the settings. core/model/flops.h has the cost of a row, a pair and an FFN; methods report their
// own costs.
#include <math.h>
#include <stdlib.h>

#include "core/methods/method.h"
#include "core/model/flops.h"
#include "core/probes/kit.h"

enum { PROJECTIONS, ATTENTION, FFN, APPROXIMATION, METHODS, HEAD, PARTS };

struct counted {         // counts of a layer
    int64_t rows, ffn;   // rows of the prompt that reach its FFN, and that compute it
    double pairs;        // query-key pairs of the prompt
    double step;         // keys that the next row would attend to
    bool text_ffn;       // the FFN of text tokens is computed
    double approximated; // FLOPs of methods that replace FFNs
    double methods;      // FLOPs of methods at other sites, for the prompt
    double method_row;   // FLOPs of these methods for the next row
};

struct flops {
    const struct probe_env *env;
    struct counted *layer; // [L]
};

static void flops_release(void *state)
{
    struct flops *s = state;
    free(s->layer);
    free(s);
}

static void *flops_start(const struct probe_env *env, struct err *err)
{
    struct flops *s = xcalloc(1, sizeof *s);
    s->env = env;
    s->layer = xcalloc((size_t)env->model->decoder.config.layers, sizeof *s->layer);
    return s;
}

static bool flops_wants(void *state, const struct site *site, int layer)
{
    const struct flops *s = state;
    return site == SITE_VALUES || site == SITE_FFN || methods_cost(s->env->settings, site);
}

static bool in_prompt(const struct site_args *a, int64_t i)
{
    return site_row(a, i) < site_sequence(a)->prompt;
}

static void count_methods(const struct flops *s, struct counted *c, const struct site *site,
                          const struct site_args *args)
{
    const struct settings *set = s->env->settings;
    const struct decoder_config *config = &s->env->model->decoder.config;
    const double prompt = methods_flops(set, config, site, args, s->env->sequence->prompt);
    if (site == SITE_FFN) {
        c->approximated += prompt;
        return;
    }
    c->methods += prompt;
    if (site->has & IN_STEP) c->method_row += methods_row_flops(set, config, site, args, false);
}

// Returns the number of keys that a generated token sees in a layer with `all` rows.
static double step_keys(const struct decoder_config *c, int layer, double all)
{
    return decoder_slides(c, layer) ? fmin(all, (double)c->window) : all;
}

static int flops_run(void *state, struct graph *g, const struct site *site, struct site_args *args)
{
    const struct flops *s = state;
    const bool encoder = !(site->has & HAS_ROWS); // sites outside the decoder count as layer 0
    struct counted *c = &s->layer[args->layer > 0 && !encoder ? args->layer : 0];
    const int64_t n = flops_rows(site, args);
    if (methods_cost(s->env->settings, site)) count_methods(s, c, site, args);
    for (int64_t i = 0; i < n && site == SITE_VALUES; i++) {
        if (!in_prompt(args, i)) continue;
        const double keys = (double)flops_keys(args, i);
        c->pairs += keys;
        c->step = step_keys(&s->env->model->decoder.config, args->layer, keys + 1);
    }
    if (site != SITE_FFN) return 0;
    for (int64_t i = 0; i < n; i++) c->rows += in_prompt(args, i);
    const int64_t computed = args->only ? args->only_count : n;
    // The pass ends with text, and generated tokens are treated like text.
    c->text_ffn = !args->only || (computed > 0 && args->only[computed - 1] == n - 1);
    for (int64_t i = 0; i < computed; i++)
        c->ffn += in_prompt(args, args->only ? args->only[i] : i);
    return 0;
}

// Adds the cost of `rows` rows with `pairs` query-key pairs and `ffn` computed FFNs.
static void count(const struct flops *s, int layer, double rows, double ffn, double pairs,
                  double parts[PARTS])
{
    const struct decoder *d = &s->env->model->decoder;
    parts[PROJECTIONS] += flops_projections(&d->layer[layer], rows);
    if (!layer) parts[PROJECTIONS] += rows * flops_inputs(d);
    parts[ATTENTION] +=
        flops_attention(&d->config, layer, pairs) + flops_recurrence(&d->config, layer, rows);
    parts[FFN] += flops_ffn(&d->layer[layer], ffn);
}

static double total(const double parts[PARTS])
{
    double sum = 0;
    for (int i = 0; i < PARTS; i++) sum += parts[i];
    return sum;
}

// Adds the closed forms of CAPA's appendix A.1 beside the counts of the pass, if a method replaced
// FFNs or dropped visual tokens. The speedups of Eqs. 12 and 13 are those of a layer after pruning;
// the counted ones are of the whole prompt.
static void add_equations(const struct flops *s, const double full[], const double now[],
                          struct results *r)
{
    const struct decoder *d = &s->env->model->decoder;
    const struct counted *last = &s->layer[d->config.layers - 1];
    const double n = (double)s->env->sequence->prompt, width = (double)d->config.hidden;
    const double inner = (double)decoder_ffn_width(&d->config, 0);
    double replaced = 0, approximated = 0, dropped = 0;
    for (int l = 0; l < d->config.layers; l++) {
        replaced += (double)(s->layer[l].rows - s->layer[l].ffn);
        approximated += s->layer[l].approximated;
    }
    for (int64_t i = 0; i < s->env->visual && s->env->kept; i++) dropped += !s->env->kept[i];
    if (!replaced && !dropped) return;
    const double after = n - dropped, product = approximated / replaced;
    const double ffn = flops_ffn(&d->layer[0], 1);
    const struct {
        const char *what;
        double equation, counted;
    } rows[] = {
        { "FFN of a row (Eq. 8: 6 d d_ff)", 6 * width * inner, ffn },
        { "Hadamard product of a row (Eq. 9: d)", width, product },
        { "FFN / Hadamard product (Eq. 10: 6 d_ff)", 6 * inner, ffn / product },
        { "rows after pruning (Eq. 11)", after, (double)last->rows },
        { "speedup of linear layers (Eq. 12)", n / after,
          (full[PROJECTIONS] + full[FFN]) / (now[PROJECTIONS] + now[FFN]) },
        { "speedup of attention (Eq. 13)", n / after * n / after,
          full[ATTENTION] / now[ATTENTION] },
    };
    struct result_table *t = results_table(r, "flops.equations", "what|equation|counted");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double *v = result_row(t, "%s", rows[i].what);
        v[0] = rows[i].equation;
        v[1] = isfinite(rows[i].counted) ? rows[i].counted : NAN;
    }
}

static int flops_finish(void *state, struct results *r, struct err *err)
{
    static const char *const names[] = { "projections", "attention", "FFN", "FFN approximation",
                                         "methods",     "head",      "all" };
    const struct flops *s = state;
    const struct decoder *d = &s->env->model->decoder;
    const enum dtype dtype = kv_dtype(s->env->backend, s->env->settings);
    const double n = (double)s->env->sequence->prompt;
    double full[PARTS + 1] = { 0 }, now[PARTS + 1] = { 0 }, one[PARTS + 1] = { 0 },
                        step[PARTS + 1] = { 0 };
    double lora = 0, keys = 0;
    double weights = (double)tensor_bytes(&d->head) + flops_input_bytes(d);
    struct result_table *t = results_table(
        r, "flops", "part|prompt, full|prompt, now|now/full|token, full|token, now|token now/full");
    struct result_table *layers =
        results_table(r, "flops.layers", "layer|rows|FFN rows|GFLOP full|GFLOP now|keys of a step");
    layers->curve = true;
    for (int l = 0; l < d->config.layers; l++) {
        const struct counted *c = &s->layer[l];
        double all[PARTS] = { 0 }, used[PARTS] = { 0 };
        count(s, l, n, n, flops_pairs(&d->config, l, s->env->sequence, s->env->sequence->prompt),
              all);
        count(s, l, (double)c->rows, (double)c->ffn, c->pairs, used);
        used[APPROXIMATION] += c->approximated;
        used[METHODS] += c->methods;
        for (int i = 0; i < PARTS; i++) full[i] += all[i], now[i] += used[i];
        count(s, l, 1, 1, step_keys(&d->config, l, n + 1), one);
        count(s, l, 1, c->text_ffn, c->step, step);
        step[METHODS] += c->method_row;
        lora += n * flops_lora(&d->layer[l]);
        weights += flops_weight_bytes(&d->layer[l]);
        keys += c->step * flops_key_bytes(&d->config, l, dtype) + flops_state_bytes(&d->config, l);
        double *v = result_row(layers, "%d", l);
        v[0] = (double)c->rows, v[1] = (double)c->ffn;
        v[2] = total(all) / 1e9, v[3] = total(used) / 1e9;
        v[4] = c->step;
    }
    full[HEAD] = now[HEAD] = one[HEAD] = step[HEAD] = flops_head(&d->config);
    full[PARTS] = total(full), now[PARTS] = total(now);
    one[PARTS] = total(one), step[PARTS] = total(step);
    for (int i = 0; i <= PARTS; i++) {
        if (i == METHODS && !(now[i] > 0) && !(step[i] > 0)) continue; // no method costs anything
        double *v = result_row(t, "%s", names[i]);
        v[0] = full[i] / 1e9, v[1] = now[i] / 1e9, v[2] = now[i] / full[i];
        v[3] = one[i] / 1e9, v[4] = step[i] / 1e9, v[5] = step[i] / one[i];
    }
    add_equations(s, full, now, r);
    results_note(r,
                 "GFLOP, 2 per multiply-add; the prompt has %.0f rows. Norms, softmax and the "
                 "vision encoder are not counted.",
                 n);
    // If memory bandwidth limits decoding, these bytes bound its speed.
    results_note(r, "A token reads %.6g MB of weights and %.6g MB of keys and values.",
                 weights / 1e6, keys / 1e6);
    if (lora > 0)
        results_note(r, "projections and FFN include the adapter's LoRA: %.6g GFLOP of the prompt",
                     lora / 1e9);
    return 0;
}

static const struct result_kind flops_results[] = {
    { "flops.layers", "GFLOP", .columns = "GFLOP full|GFLOP now" },
    { "flops.layers", "rows", .columns = "rows|FFN rows|keys of a step" },
    { 0 },
};

const struct probe probe_flops = {
    .name = "flops",
    .also = "cost speed time operations measure probe",
    .usage = "/flops" PROBE_USAGE,
    .help = "FLOPs of the prompt and of a generated token by part, and times, with and without "
            "methods.",
    .details =
        "Counts 2 FLOPs per multiply-add; does not count norms, softmax or the vision encoder.\n"
        "Also shows the bytes read per token (in a mixture of experts, by the chosen experts\n"
        "only). flops.equations has the closed forms of CAPA's appendix A.1 for a layer after "
        "pruning,\n"
        "beside the counts of the whole prompt. Times are medians of three runs." PROBE_DETAILS,
    .times = true,
    .results = flops_results,
    .start = flops_start,
    .release = flops_release,
    .wants = flops_wants,
    .run = flops_run,
    .finish = flops_finish,
};
