// core/interventions/faithful.c -- /faithful: scores the maps of the chosen kinds of attribution,
// raw and, with --others, corrected for sinks,
//   - against the location of an object: pointing game, soft Dice, AUC
//   (core/interventions/faithful.h)
//   - by deletion and insertion (Petsiuk, Das and Saenko 2018, arXiv 1806.07421): in descending
//     order of the map, visual tokens are replaced with the baseline, or replace it; the score is
//     the area under the answer's probability (geometric mean over its tokens)
//   - by the sanity check of weights (Adebayo et al. 2018, arXiv 1810.03292): the rank correlation
//     of the map with that of a model whose last layers have shuffled weights. A map that hardly
//     changes when all layers are shuffled does not depend on what the model has learned, and is
//     rejected.
// There are two controls: a random map, and the object itself. With --others or --objects, other
// pictures then replace each region: this tells which region the answers depend on
// (core/interventions/causes.h), and whether the maps show it.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/random.h"
#include "core/base/text.h"
#include "core/interventions/attribution.h"
#include "core/interventions/causes.h"
#include "core/interventions/faithful.h"
#include "core/interventions/layer_rows.h"
#include "core/interventions/shuffled.h"
#include "core/probes/dice.h"
#include "core/probes/kit.h"
#include "core/probes/passes.h"
#include "core/template/message.h"

enum {
    POINTS = 8, // intervals of a curve
    PARTS = 4,  // quarters of the layers; the last 1, 2, 3 or all are shuffled
    // Maps: the kinds, the kinds corrected, and two controls.
    RANDOM = 2 * ATTRIBUTION_COUNT,
    OBJECT,
    MAPS
};

// A map is rejected if its rank correlation with the map of a model whose layers are all shuffled
// exceeds this.
static const double rejected_above = 0.5;

// Scores of a map.
struct scored {
    bool shown;
    float *map; // [S]
    struct map_score place;
    double deleted[POINTS + 1], inserted[POINTS + 1]; // probabilities by the share of tokens
    double kept[PARTS]; // [i]: rank correlation with the last i + 1 parts shuffled; NaN: not tried
};

struct faithful {
    const struct probe_env *env;
    bool *at; // [N] the visual tokens of one picture
    struct attributing w;
    float *mask; // [S]
    struct scored maps[MAPS];
    struct causes causes;
};

static void faithful_release(void *state)
{
    struct faithful *s = state;
    for (int i = 0; i < MAPS; i++) free(s->maps[i].map);
    causes_close(&s->causes);
    attributing_close(&s->w);
    free(s->mask);
    free(s->at);
    free(s);
}

// Sets mask[S] to the share of each token's cell that the object covers. Fails if it covers none.
static int find_mask(struct faithful *s, int picture, struct err *err)
{
    struct results cells = { 0 };
    float *number = probe_values(s->env, 1);
    for (int64_t i = 0; i < s->env->visual; i++) number[i] = (float)i;
    probe_maps(s->env, &cells, "faithful", -1, -2, -2, number);
    for (size_t k = 0; k < cells.map_count; k++) {
        const struct result_map *m = &cells.maps[k];
        float *share = xcalloc((size_t)(m->rows * m->cols) + 1, sizeof *share);
        if (m->picture == picture) dice_mask(s->env, picture, m, share);
        for (int i = 0; i < m->rows * m->cols && m->picture == picture; i++)
            if (isfinite(m->values[i])) s->mask[(int64_t)m->values[i]] = share[i];
        free(share);
    }
    free(number);
    results_release(&cells);
    for (int64_t i = 0; i < s->env->visual; i++)
        if (s->mask[i] > 0) return 0;
    return err_set(err,
                   "the object covers no visual token of picture %d, which has %lld x %lld pixels: "
                   "give its location in pixels",
                   picture, (long long)s->env->pictures[picture].image.width,
                   (long long)s->env->pictures[picture].image.height);
}

static void *faithful_start(const struct probe_env *env, struct err *err)
{
    const struct probe_options *o = env->options;
    const int picture = o->picture < 0 ? 0 : o->picture;
    struct faithful *s = xcalloc(1, sizeof *s);
    int64_t count = 0;
    s->env = env;
    s->at = xcalloc((size_t)env->sequence->n + 1, sizeof *s->at);
    s->mask = xcalloc((size_t)env->visual + 1, sizeof *s->mask);
    s->w = (struct attributing){ .env = env, .at = s->at };
    for (int64_t i = 0; i < env->sequence->n; i++)
        count += s->at[i] = env->sequence->picture[i] == picture;
    int status = attributing_open(&s->w, err);
    if (status == 0) status = attribution_choose(o->by, s->w.chosen, err);
    if (status == 0 && !o->box && !o->mask)
        status = err_set(
            err, "/faithful needs the location of the object that the question asks about: --box "
                 "LEFT,TOP,WIDTH,HEIGHT, --mask FILE, or, with --data, --objects FILE");
    if (status == 0 && !count)
        status = err_set(err, "the prompt does not show picture %d", picture);
    if (status == 0 && find_mask(s, picture, err) == 0) return s;
    faithful_release(s);
    return NULL;
}

// --- curves --------------------------------------------------------------------------------------

struct ranked_token {
    int64_t row;
    double value;
};

static int largest_first(const void *a, const void *b)
{
    const struct ranked_token *x = a, *y = b;
    if (x->value != y->value) return x->value < y->value ? 1 : -1;
    return x->row < y->row ? -1 : x->row > y->row;
}

// Runs a pass with the baseline in the rows `replaced`; sets *to to the geometric mean of the
// probabilities of the answer's tokens.
static int probability(struct faithful *s, struct passing *p, struct layer_rows *rows,
                       const bool *replaced, double *to, struct err *err)
{
    const struct sequence *q = s->env->sequence;
    const struct hook hook = layer_rows_hook(rows);
    double *logp = xcalloc((size_t)(q->n - q->prompt) + 1, sizeof *logp);
    rows->at = replaced;
    attribution_progress(&s->w, p);
    const int status = passes_run(p, &hook, 0, logp, err);
    *to = exp(attribution_sum(&s->w, logp) / (double)(s->w.end - s->w.first));
    free(logp);
    return status;
}

// Computes both curves of a map from its tokens in descending order, list [count]. `whole`: the
// probability in the unchanged pass.
static int measure_curves(struct faithful *s, struct passing *p, struct layer_rows *rows,
                          const struct ranked_token *list, int64_t count, double whole,
                          struct scored *m, struct err *err)
{
    bool *gone = xcalloc((size_t)s->env->sequence->n + 1, sizeof *gone);
    bool *left = xcalloc((size_t)s->env->sequence->n + 1, sizeof *left);
    int64_t done = 0;
    for (int64_t i = 0; i < count; i++) left[list[i].row] = true;
    int status = probability(s, p, rows, left, &m->inserted[0], err);
    m->deleted[POINTS] = m->inserted[0];
    m->deleted[0] = m->inserted[POINTS] = whole;
    for (int k = 1; k < POINTS && status == 0; k++) {
        for (; done < (count * k + POINTS / 2) / POINTS; done++) {
            gone[list[done].row] = true;
            left[list[done].row] = false;
        }
        status = probability(s, p, rows, gone, &m->deleted[k], err);
        if (status == 0) status = probability(s, p, rows, left, &m->inserted[k], err);
    }
    free(gone);
    free(left);
    return status;
}

static int measure_map(struct faithful *s, struct passing *p, struct layer_rows *rows, double whole,
                       struct scored *m, struct err *err)
{
    struct ranked_token *list = xcalloc((size_t)s->env->sequence->n + 1, sizeof *list);
    int64_t count = 0;
    for (int64_t i = 0; i < s->env->sequence->n; i++) {
        const double value = s->at[i] ? (double)m->map[s->env->number[i]] : NAN;
        if (!isnan(value)) list[count++] = (struct ranked_token){ i, value };
    }
    qsort(list, (size_t)count, sizeof *list, largest_first);
    const int status = measure_curves(s, p, rows, list, count, whole, m, err);
    free(list);
    return status;
}

static int measure_all(struct faithful *s, struct passing *p, struct err *err)
{
    struct layer_rows rows;
    const int64_t count = s->env->sequence->n * s->env->model->decoder.config.hidden;
    float *base = xcalloc((size_t)count + 1, sizeof *base);
    double whole;
    layer_rows_open(&rows, s->env, 0);
    rows.keep = true;
    int status = probability(s, p, &rows, NULL, &whole, err);
    rows.keep = false;
    attribution_baseline(&s->w, rows.rows, rows.there, base);
    rows.replacement = base;
    for (int i = 0; i < MAPS && status == 0; i++)
        if (s->maps[i].shown) status = measure_map(s, p, &rows, whole, &s->maps[i], err);
    layer_rows_close(&rows);
    free(base);
    return status;
}

// Returns the area under a curve over 0..1, by trapezoids.
static double area(const double *curve)
{
    double sum = (curve[0] + curve[POINTS]) / 2;
    for (int k = 1; k < POINTS; k++) sum += curve[k];
    return sum / POINTS;
}

// --- shuffled weights ----------------------------------------------------------------------------

// Correlates the absolute values of two maps [S], because signs may flip.
static double correlate(const struct faithful *s, const float *a, const float *b)
{
    struct point *points = xcalloc((size_t)s->env->visual + 1, sizeof *points);
    size_t count = 0;
    for (int64_t i = 0; i < s->env->visual; i++)
        points[count++] = (struct point){ fabs((double)a[i]), fabs((double)b[i]) };
    const double r = rank_correlation(points, count);
    free(points);
    return r;
}

// Runs the chosen kinds with the last part + 1 parts of the layers shuffled, and correlates their
// maps with the originals.
static int shuffle_part(struct faithful *s, struct passing *p, int part, struct err *err)
{
    const int layers = s->env->model->decoder.config.layers;
    const int from = layers - (layers * (part + 1) + PARTS - 1) / PARTS;
    struct shuffled other;
    struct probe_env env = *s->env;
    struct attributing w = { .env = &env, .at = s->at, .done = s->w.done, .all = s->w.all };
    if (shuffled_open(&other, s->env->model, s->env->backend, from, err) < 0) return -1;
    env.model = &other.model;
    passes_use(p, &other.model);
    memcpy(w.chosen, s->w.chosen, sizeof w.chosen);
    int status = attributing_open(&w, err);
    if (status == 0) status = attributing_run(&w, p, err);
    float *map = probe_values(s->env, 1);
    for (int k = 0; k < ATTRIBUTION_COUNT && status == 0; k++) {
        if (!w.chosen[k]) continue;
        attributing_map(&w, w.maps[k].rows, map);
        s->maps[k].kept[part] = correlate(s, s->maps[k].map, map);
    }
    s->w.done = w.done;
    free(map);
    attributing_close(&w);
    passes_use(p, NULL);
    shuffled_close(&other);
    return status;
}

// --- the passes ----------------------------------------------------------------------------------

static float *show(struct faithful *s, int map)
{
    struct scored *m = &s->maps[map];
    m->shown = true;
    m->map = probe_values(s->env, 1);
    for (int k = 0; k < PARTS; k++) m->kept[k] = NAN;
    return m->map;
}

// Copies the measured maps, adds the controls, and scores all against the mask.
static void show_maps(struct faithful *s)
{
    const struct sequence *q = s->env->sequence;
    double *corrected = xcalloc((size_t)q->n + 1, sizeof *corrected);
    for (int k = 0; k < ATTRIBUTION_COUNT; k++) {
        if (!s->w.chosen[k]) continue;
        attributing_map(&s->w, s->w.maps[k].rows, show(s, k));
        if (!s->w.others) continue;
        attributing_correct(&s->w, k, corrected);
        attributing_map(&s->w, corrected, show(s, ATTRIBUTION_COUNT + k));
    }
    float *random = show(s, RANDOM), *object = show(s, OBJECT);
    for (int64_t i = 0; i < q->n; i++) {
        const int32_t token = s->env->number[i];
        if (!s->at[i]) continue;
        random[token] = (float)random_unit(42, RANDOM_SAMPLE, (uint64_t)token);
        object[token] = s->mask[token];
    }
    for (int i = 0; i < MAPS; i++)
        if (s->maps[i].shown) s->maps[i].place = map_score(s->maps[i].map, s->mask, s->env->visual);
    free(corrected);
}

// Finds the regions that the answer depends on. The other pictures come from --others or, with
// --objects, from the picture's own folder; with neither option, does nothing.
static int find_causes(struct faithful *s, struct passing *p, struct err *err)
{
    const struct probe_options *o = s->env->options;
    const int picture = o->picture < 0 ? 0 : o->picture;
    if (!o->others && !o->objects) return 0;
    char *beside = o->others ? xstrdup(o->others) : text_folder(s->env->pictures[picture].path);
    causes_open(&s->causes, &s->w, s->mask, picture);
    const int status = causes_exchange(&s->causes, p, beside, err);
    for (int i = 0; i < CAUSE_MAPS && status == 0; i++)
        if (s->maps[i].shown) causes_rate(&s->causes, s->maps[i].map, i);
    free(beside);
    return status;
}

static int faithful_passes(void *state, struct passing *p, struct err *err)
{
    struct faithful *s = state;
    const char *others = s->env->options->others;
    int status = attributing_run(&s->w, p, err);
    if (status == 0 && others) status = attributing_others(&s->w, p, others, err);
    if (status == 0) show_maps(s);
    if (status == 0) status = measure_all(s, p, err);
    if (status == 0) status = find_causes(s, p, err);
    for (int part = 0; part < PARTS && status == 0; part++) status = shuffle_part(s, p, part, err);
    return status;
}

// --- results -------------------------------------------------------------------------------------

static const char *const control_names[] = { "a random map", "the object itself" };
static const char corrected[] = "corrected "; // begins the name of a corrected map

static char *name_of(int map)
{
    if (map >= RANDOM) return xstrdup(control_names[map - RANDOM]);
    return map < ATTRIBUTION_COUNT
               ? xstrdup(attribution_kinds[map].name)
               : xasprintf("%s%s", corrected, attribution_kinds[map - ATTRIBUTION_COUNT].name);
}

// Adds a table of deletion or insertion curves, with a column for each map.
static void put_curves(const struct faithful *s, struct results *r, const char *table,
                       bool deletion)
{
    struct buf columns = { 0 };
    buf_puts(&columns, "share of tokens");
    for (int i = 0; i < MAPS; i++) {
        char *name = name_of(i);
        if (s->maps[i].shown) buf_printf(&columns, "|%s", name);
        free(name);
    }
    struct result_table *t = results_table(r, table, columns.data);
    buf_release(&columns);
    t->curve = true;
    for (int k = 0; k <= POINTS; k++) {
        double *v = result_row(t, "%g", (double)k / POINTS);
        for (int i = 0; i < MAPS; i++)
            if (s->maps[i].shown) *v++ = deletion ? s->maps[i].deleted[k] : s->maps[i].inserted[k];
    }
}

static void note_rejected(struct results *r, const double *kept)
{
    struct buf names = { 0 };
    for (int k = 0; k < ATTRIBUTION_COUNT; k++)
        if (kept[k] > rejected_above)
            buf_printf(&names, "%s%s", names.length ? ", " : "", attribution_kinds[k].name);
    if (names.length)
        results_note(r,
                     "rejected: %s (shuffling the weights of all layers hardly changes the map: "
                     "rank correlation above %g)",
                     names.data, rejected_above);
    buf_release(&names);
}

// Adds the causes; shown[MAPS]: the maps that were computed.
static void put_causes(const struct causes *means, const bool *shown, struct results *r)
{
    char *names[CAUSE_MAPS] = { 0 };
    for (int i = 0; i < CAUSE_MAPS; i++)
        if (shown[i]) names[i] = name_of(i);
    causes_put(means, names, r);
    for (int i = 0; i < CAUSE_MAPS; i++) free(names[i]);
}

static int faithful_finish(void *state, struct results *r, struct err *err)
{
    const struct faithful *s = state;
    struct result_table *t = results_table(
        r, "faithful", "map|pointing|soft Dice|AUC|deletion|insertion|rank correlation");
    double kept[ATTRIBUTION_COUNT];
    for (int i = 0; i < MAPS; i++) {
        const struct scored *m = &s->maps[i];
        char *name = name_of(i);
        if (m->shown) {
            double *v = result_row(t, "%s", name);
            v[0] = m->place.pointing, v[1] = m->place.dice, v[2] = m->place.auc;
            v[3] = area(m->deleted), v[4] = area(m->inserted), v[5] = m->kept[PARTS - 1];
        }
        free(name);
    }
    put_curves(s, r, "faithful.deletion", true);
    put_curves(s, r, "faithful.insertion", false);
    t = results_table(r, "faithful.sanity", "map|last quarter|last half|three quarters|all layers");
    for (int k = 0; k < ATTRIBUTION_COUNT; k++) {
        kept[k] = s->w.chosen[k] ? s->maps[k].kept[PARTS - 1] : NAN;
        if (!s->w.chosen[k]) continue;
        memcpy(result_row(t, "%s", attribution_kinds[k].name), s->maps[k].kept,
               sizeof s->maps[k].kept);
    }
    struct causes causes = { 0 };
    bool shown[MAPS];
    for (int i = 0; i < MAPS; i++) shown[i] = s->maps[i].shown;
    causes_add(&causes, &s->causes);
    put_causes(&causes, shown, r);
    causes_close(&causes);
    note_rejected(r, kept);
    attributing_note(&s->w, true, r);
    return 0;
}

// --- over a data set: the verdict on the means ---------------------------------------------------

struct verdict {
    struct tally kept[ATTRIBUTION_COUNT];
    struct causes causes;
    bool shown[MAPS];
};

static void *verdict_start(void)
{
    return xcalloc(1, sizeof(struct verdict));
}

static void verdict_add(void *data, const void *state)
{
    const struct faithful *s = state;
    struct verdict *v = data;
    for (int k = 0; k < ATTRIBUTION_COUNT; k++)
        if (s->w.chosen[k] && isfinite(s->maps[k].kept[PARTS - 1]))
            tally_add(&v->kept[k], s->maps[k].kept[PARTS - 1]);
    for (int i = 0; i < MAPS; i++) v->shown[i] |= s->maps[i].shown;
    causes_add(&v->causes, &s->causes);
}

static void verdict_finish(void *data, struct results *r)
{
    struct verdict *v = data;
    double kept[ATTRIBUTION_COUNT];
    for (int k = 0; k < ATTRIBUTION_COUNT; k++) kept[k] = tally_mean(&v->kept[k]);
    put_causes(&v->causes, v->shown, r);
    note_rejected(r, kept);
    causes_close(&v->causes);
    free(v);
}

// True if the map is rejected, or is the corrected map of a kind whose own map is.
static bool is_rejected(const struct result_table *t, const struct result_row *map)
{
    const bool derived = !strncmp(map->key, corrected, strlen(corrected));
    const char *kind = map->key + (derived ? strlen(corrected) : 0);
    for (size_t i = 0; i < t->row_count; i++) {
        const struct result_row *row = &t->rows[i];
        if (row->condition == map->condition && !strcmp(row->key, kind))
            return row->value[5] > rejected_above;
    }
    return false;
}

// Names the best map by each of three scores. Controls and rejected maps do not compete.
static void say_best(const struct result_table *t, int condition, struct buf *b)
{
    static const struct {
        const char *name;
        int column, sign; // -1: smaller is better
    } scores[] = { { "AUC", 2, 1 }, { "deletion", 3, -1 }, { "insertion", 4, 1 } };
    for (int k = 0; k < 3; k++) {
        const int c = scores[k].column, sign = scores[k].sign;
        const struct result_row *best = NULL;
        char number[32];
        for (size_t i = 0; i < t->row_count; i++) {
            const struct result_row *row = &t->rows[i];
            const bool control =
                !strcmp(row->key, control_names[0]) || !strcmp(row->key, control_names[1]);
            if (row->condition == condition && !control && isfinite(row->value[c]) &&
                !is_rejected(t, row) && (!best || sign * row->value[c] > sign * best->value[c]))
                best = row;
        }
        if (!best) continue;
        text_number(number, best->value[c], false);
        buf_printf(b, "%s%s: %s (%s)", b->length ? ", " : "best map by ", scores[k].name, best->key,
                   number);
    }
}

static const struct result_kind faithful_results[] = {
    { "faithful", .unit = "score", .bars = true, .sentence = say_best },
    { "faithful.causes", .unit = "change in log-probability (nats)", .columns = "change|low|high" },
    { "faithful.causes", .unit = "AUC" },
    { "faithful.deletion", .unit = "probability of the answer" },
    { "faithful.insertion", .unit = "probability of the answer" },
    { "faithful.sanity", .unit = "rank correlation" },
    { 0 },
};

const struct probe probe_faithful = {
    .name = "faithful",
    .also = "faithfulness scoreboard explanation pointing game insertion deletion sanity check "
            "randomisation benchmark saliency measure",
    .usage = "/faithful [--box LEFT,TOP,WIDTH,HEIGHT | --mask FILE | --objects FILE [--boxes]] "
             "[--by KIND,...] [--layer K] [--token answer|N] [--zero | --mean] [--steps N] "
             "[--others DIR] [--picture I]" PROBE_USAGE,
    .help =
        "Scores how well attribution maps show the object and the tokens the answer depends on.",
    .details =
        "Scores the maps of /attribute (all kinds, or those in --by) against a random map and the\n"
        "object itself. With --others DIR, also scores each map corrected for sinks.\n"
        "pointing          how much of the cell with the largest value the object covers\n"
        "soft Dice, AUC    overlap with the object; probability that a point on it ranks above\n"
        "                  one outside it\n"
        "deletion          area under the answer's probability while the baseline replaces\n"
        "                  visual tokens, highest in the map first; smaller is better\n"
        "insertion         the same while visual tokens replace the baseline; larger is better\n"
        "rank correlation  of the map with the map of a model with shuffled weights in all\n"
        "                  layers; above 0.5 the map is rejected\n"
        "With --data, a sample's text names the object; the table faithful.interval (--csv) has\n"
        "95% intervals of the means. With --objects or --others, the table faithful.causes shows\n"
        "what the answers depend on: up to 8 other pictures replace the whole picture, the\n"
        "object, each other object in FILE, and the rest; `change` is the change in the answer's\n"
        "log-probability, and each map is rated by its AUC against the region. The pictures come\n"
        "from the picture's own folder (or --others DIR); at most 64 of its files are\n"
        "tried." PROBE_DETAILS,
    .results = faithful_results,
    .pictures = true,
    .answer = true,
    .one_layer = true,
    .start = faithful_start,
    .release = faithful_release,
    .passes = faithful_passes,
    .finish = faithful_finish,
    .data_start = verdict_start,
    .data_add = verdict_add,
    .data_finish = verdict_finish,
};
