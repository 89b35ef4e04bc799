// core/interventions/patch.c -- /patch: which activations carry the picture's content (activation
// patching, causal tracing: Meng et al. 2022, arXiv 2202.05262).
//
//   run A: the conversation's answer
//   run B: the same answer with a different or corrupted picture, or after another question
//   patch: run B, with the output of a layer's part at some positions replaced with run A's
//   share = (log p_patched - log p_B) / (log p_A - log p_B)
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/random.h"
#include "core/base/text.h"
#include "core/interventions/effect.h"
#include "core/interventions/parts.h"
#include "core/model/pass.h"
#include "core/positions/positions.h"
#include "core/probes/passes.h"

enum corruption { NOISE, MEAN, REPLACE, ASK, FILE_OF };
static const char *const corruptions[] = { "noise", "mean", "replace", "question" };
static const char *const patch_complete[] = { "noise",   "mean",   "replace", "question",
                                              "picture", "object", NULL };

static const struct {
    const char *name;
    enum part part;
} places[] = { { "residual", OUTPUT_RESIDUAL },
               { "attention", OUTPUT_ATTENTION },
               { "ffn", OUTPUT_FFN },
               { "head", OUTPUT_HEAD },
               { "value", OUTPUT_VALUE } };
enum { PLACES = sizeof places / sizeof *places };

// Groups of positions that are patched together.
enum { PICTURE, QUESTION, LAST, ANSWER, OTHER, ALL, GROUPS };
static const char columns[] = "layer|picture|question|last|answer|other|all";

struct patch {
    const struct probe_env *env;
    enum corruption corruption;
    bool *corrupted; // [N] visual tokens
    bool *source;    // [N] REPLACE: visual tokens that take their place
    int picture;     // of the corrupted tokens; -1: ASK
    int64_t first;   // first position that the corruption affects
    struct parts parts;
    struct effect effect;
    bool *group[GROUPS];   // [N]
    double corrupted_logp; // log-probability of run B minus that of run A
    double *share;         // [L,GROUPS] share restored; NaN: not measured
    float *positions;      // [L,N] share restored by one position
    float *heads;          // [L,H] share restored by one head
};

static void patch_release(void *state)
{
    struct patch *s = state;
    free(s->corrupted);
    free(s->source);
    for (int g = 0; g < GROUPS; g++) free(s->group[g]);
    free(s->share);
    free(s->positions);
    free(s->heads);
    parts_close(&s->parts);
    effect_close(&s->effect);
    free(s);
}

// Splits "noise POSITIONS", "mean POSITIONS", "replace POSITIONS > POSITIONS", "question TEXT" or
// "FILE".
static enum corruption read_words(const char *words, const char **rest)
{
    const size_t n = strcspn(words, " \t");
    *rest = words;
    for (int i = 0; i < FILE_OF; i++) {
        if (strlen(corruptions[i]) != n || strncmp(words, corruptions[i], n) != 0) continue;
        *rest = words + n + strspn(words + n, " \t");
        return (enum corruption)i;
    }
    return FILE_OF;
}

static int check_replacement(const char *words, struct err *err)
{
    char *text[2];
    if (!positions_split(words, &text[0], &text[1]))
        return err_set(err, "write the tokens to replace and those that take their place as "
                            "POSITIONS > POSITIONS: /patch replace object star > object circle");
    int status = 0;
    for (int i = 0; i < 2; i++) {
        if (status == 0) status = positions_check(text[i], err);
        free(text[i]);
    }
    return status;
}

static int patch_words(const char *words, struct err *err)
{
    const char *rest;
    const enum corruption how = read_words(words, &rest);
    if (!*words)
        return err_set(err, "/patch takes noise, mean or replace, then names of positions, or "
                            "question TEXT, or the FILE of another picture");
    if (how == ASK && !*rest)
        return err_set(err, "/patch question takes the text of another question");
    if (how == REPLACE) return check_replacement(rest, err);
    if (how != FILE_OF && how != ASK && *rest) return positions_check(rest, err);
    if (how != FILE_OF || access(words, F_OK) == 0 || positions_check(words, NULL) < 0) return 0;
    return err_set(err,
                   "write noise or mean before the positions to corrupt: /patch mean %s (no "
                   "picture has this name)",
                   words);
}

static int choose_part(struct patch *s, struct err *err)
{
    const char *at = s->env->options->at;
    int i = 0;
    while (at && i < PLACES && strcmp(places[i].name, at) != 0) i++;
    if (i == PLACES)
        return err_set(err, "--at takes residual, attention, ffn, head or value, not '%s'", at);
    s->parts.part = places[i].part;
    if (s->parts.part == OUTPUT_HEAD && s->env->options->tokens)
        return err_set(err,
                       "--tokens patches positions, --at head patches heads: give one of them");
    return positions_layers(s->env->options->layers, "--layers",
                            s->env->model->decoder.config.layers, s->parts.layers, err) < 0
               ? -1
               : 0;
}

// Finds the first position of the last question.
static int choose_question(struct patch *s, struct err *err)
{
    bool *rows = xcalloc((size_t)s->env->sequence->n + 1, sizeof *rows);
    const int64_t count = probe_positions(s->env, "question", rows, err);
    s->picture = -1;
    s->first = 0;
    while (count > 0 && !rows[s->first]) s->first++;
    free(rows);
    return count > 0 ? 0 : -1;
}

// Finds the tokens to corrupt, which must belong to one picture.
static int choose_corrupted(struct patch *s, const char *names, struct err *err)
{
    const struct sequence *q = s->env->sequence;
    s->picture = s->first = -1;
    if (probe_positions(s->env, names, s->corrupted, err) < 0) return -1;
    for (int64_t i = 0; i < q->n; i++) {
        if (!s->corrupted[i]) continue;
        if (q->picture[i] < 0)
            return err_set(err, "'%s' names text: only visual tokens can be corrupted", names);
        if (s->picture >= 0 && s->picture != q->picture[i] && s->env->options->picture < 0)
            return err_set(err, "the prompt has several pictures: choose one with --picture I");
        if (s->env->options->picture >= 0 && q->picture[i] != s->env->options->picture) {
            s->corrupted[i] = false;
            continue;
        }
        s->picture = q->picture[i];
        if (s->first < 0) s->first = i;
    }
    if (s->picture < 0)
        return err_set(err, "no visual token of picture %d is named", s->env->options->picture);
    // If the tokens of the picture see each other, earlier tokens change too.
    s->first = pass_start(&s->env->model->decoder.config, q, s->first);
    return 0;
}

// Finds the tokens that take the place of the corrupted ones, in the same picture.
static int choose_source(struct patch *s, const char *names, struct err *err)
{
    const struct sequence *q = s->env->sequence;
    bool any = false;
    if (probe_positions(s->env, names, s->source, err) < 0) return -1;
    for (int64_t i = 0; i < q->n; i++) {
        if (s->source[i] && q->picture[i] < 0)
            return err_set(err, "'%s' names text: only visual tokens can replace others", names);
        s->source[i] &= q->picture[i] == s->picture;
        any |= s->source[i];
    }
    return any ? 0 : err_set(err, "'%s' is not in the picture of the tokens to replace", names);
}

static int choose_tokens(struct patch *s, struct err *err)
{
    const char *rest;
    s->corruption = read_words(s->env->options->words, &rest);
    if (s->corruption == ASK) return choose_question(s, err);
    if (s->corruption != REPLACE)
        return choose_corrupted(s, s->corruption != FILE_OF && *rest ? rest : "picture", err);
    char *from = NULL, *to = NULL;
    positions_split(rest, &from, &to); // patch_words has checked the arrow
    int status = choose_corrupted(s, from, err);
    if (status == 0) status = choose_source(s, to, err);
    free(from);
    free(to);
    return status;
}

// Groups the positions from the first one that the corruption affects.
static void find_groups(struct patch *s)
{
    const struct sequence *q = s->env->sequence;
    struct err none = { 0 };
    for (int g = 0; g < GROUPS; g++) s->group[g] = xcalloc((size_t)q->n + 1, sizeof(bool));
    probe_positions(s->env, "question", s->group[QUESTION], &none); // raw prompts have none
    for (int64_t i = 0; i < q->n; i++) {
        s->group[QUESTION][i] &= i >= s->first;
        s->group[PICTURE][i] = i >= s->first && q->picture[i] >= 0;
        s->group[LAST][i] = i == q->prompt - 1;
        s->group[ANSWER][i] = i >= q->prompt;
        s->group[ALL][i] = i >= s->first;
        s->group[OTHER][i] =
            i >= s->first && i < q->prompt - 1 && q->picture[i] < 0 && !s->group[QUESTION][i];
    }
}

static void *patch_start(const struct probe_env *env, struct err *err)
{
    const struct decoder_config *c = &env->model->decoder.config;
    const int64_t n = env->sequence->n;
    struct patch *s = xcalloc(1, sizeof *s);
    s->env = env;
    parts_open(&s->parts, env, OUTPUT_RESIDUAL);
    s->corrupted = xcalloc((size_t)n + 1, sizeof *s->corrupted);
    s->source = xcalloc((size_t)n + 1, sizeof *s->source);
    s->positions = probe_nans(c->layers * n);
    s->heads = probe_nans(c->layers * c->heads);
    s->share = xcalloc((size_t)(c->layers * GROUPS), sizeof *s->share);
    for (int i = 0; i < c->layers * GROUPS; i++) s->share[i] = NAN;
    if (choose_part(s, err) == 0 && choose_tokens(s, err) == 0) {
        find_groups(s);
        return s;
    }
    patch_release(s);
    return NULL;
}

// --- run B ---------------------------------------------------------------------------------------

// Returns a sample of the standard normal distribution (Box and Muller 1958).
static double normal(uint64_t index)
{
    const double u = 1 - random_unit(42, RANDOM_SAMPLE, 2 * index);
    return sqrt(-2 * log(u)) * cos(2 * M_PI * random_unit(42, RANDOM_SAMPLE, 2 * index + 1));
}

// Replaces the tokens to corrupt among a picture's [rows,width] with the mean of all its tokens, or
// adds Gaussian noise of three times the standard deviation of all elements.
static void corrupt(const struct patch *s, float *tokens, int64_t rows, int64_t width)
{
    const struct sequence *q = s->env->sequence;
    struct tally all = { 0 };
    double *mean = xcalloc((size_t)width, sizeof *mean);
    for (int64_t i = 0; i < rows * width; i++) {
        tally_add(&all, (double)tokens[i]);
        mean[i % width] += (double)tokens[i] / (double)rows;
    }
    for (int64_t i = 0; i < q->n; i++) {
        if (!s->corrupted[i] || q->cell[i] >= rows) continue;
        float *x = tokens + q->cell[i] * width;
        for (int64_t k = 0; k < width; k++)
            x[k] = s->corruption == MEAN
                       ? (float)mean[k]
                       : x[k] + (float)(3 * tally_std(&all) * normal((uint64_t)(x + k - tokens)));
    }
    free(mean);
}

// Replaces the tokens to corrupt among a picture's [rows,width] with the source's tokens, in order;
// a shorter source begins again.
static void replace(const struct patch *s, float *tokens, int64_t rows, int64_t width)
{
    const struct sequence *q = s->env->sequence;
    const size_t size = (size_t)width * sizeof *tokens;
    float *before = memcpy(xreallocarray(NULL, (size_t)rows, size), tokens, (size_t)rows * size);
    int64_t *source = xcalloc((size_t)q->n + 1, sizeof *source), count = 0, k = 0;
    for (int64_t i = 0; i < q->n; i++)
        if (s->source[i] && q->cell[i] < rows) source[count++] = q->cell[i];
    for (int64_t i = 0; i < q->n; i++)
        if (s->corrupted[i] && q->cell[i] < rows && count)
            memcpy(tokens + q->cell[i] * width, before + source[k++ % count] * width, size);
    free(source);
    free(before);
}

static int show_question(struct patch *s, struct passing *p, const char *text, struct err *err)
{
    int64_t first;
    if (passes_ask(p, text, &first, err) < 0) return -1;
    if (first >= s->first) return 0;
    return err_set(err, "with this question, the text before it has other tokens");
}

static int show_corrupted(struct patch *s, struct passing *p, struct err *err)
{
    const char *rest;
    int64_t rows, width;
    read_words(s->env->options->words, &rest);
    if (s->corruption == ASK) return show_question(s, p, rest, err);
    float *focus = NULL;
    float *tokens = s->corruption == FILE_OF
                        ? passes_encode(p, s->picture, rest, &focus, err)
                        : passes_visual(p, s->picture, &rows, &width, NULL, err);
    if (!tokens) return -1;
    if (s->corruption == REPLACE)
        replace(s, tokens, rows, width);
    else if (s->corruption != FILE_OF)
        corrupt(s, tokens, rows, width);
    const int status = passes_show(p, s->picture, tokens, focus, err);
    free(tokens);
    free(focus);
    return status;
}

// --- patches -------------------------------------------------------------------------------------

// Implements parts.replacement: run A's output.
static void from_run_a(void *self, int layer, int64_t row, int64_t width, float *to)
{
    const struct patch *s = self;
    const struct outputs *o = &s->parts.outputs[layer];
    memcpy(to, o->output + row * width, (size_t)width * sizeof *to);
}

// Patches a layer, or one of its heads, at the positions of s->parts.at.
static int patch(struct patch *s, int layer, int head, double *share, struct err *err)
{
    const struct hook hook = parts_hook(&s->parts);
    double change;
    s->parts.layer = s->effect.layer = layer, s->parts.head = head;
    s->effect.from = s->first;
    while (!s->parts.at[s->effect.from]) s->effect.from++;
    if (effect_of(&s->effect, &hook, &change, err) < 0) return -1;
    *share = (change - s->corrupted_logp) / -s->corrupted_logp; // both relative to run A
    return 0;
}

// Sets parts.at to those of `rows` that run A computed in the layer; returns their number.
static int64_t patch_at(struct patch *s, int layer, const bool *rows)
{
    const struct outputs *o = &s->parts.outputs[layer];
    int64_t count = 0;
    for (int64_t i = 0; i < s->env->sequence->n; i++)
        count += s->parts.at[i] = rows[i] && o->there && o->there[i];
    return count;
}

static int patch_heads(struct patch *s, struct err *err)
{
    const struct decoder_config *c = &s->env->model->decoder.config;
    int status = 0;
    double share = NAN;
    for (int k = 0; k < c->layers * c->heads && status == 0; k++) {
        const int layer = k / (int)c->heads;
        if (!s->parts.layers[layer] || !patch_at(s, layer, s->group[ALL])) continue;
        status = patch(s, layer, k % (int)c->heads, &share, err);
        s->heads[k] = (float)share;
    }
    return status;
}

// Patches a group of positions in each layer.
static int patch_group(struct patch *s, int group, struct err *err)
{
    int status = 0;
    for (int l = 0; l < s->env->model->decoder.config.layers && status == 0; l++)
        if (s->parts.layers[l] && patch_at(s, l, s->group[group]))
            status = patch(s, l, -1, &s->share[l * GROUPS + group], err);
    return status;
}

static int patch_position(struct patch *s, int64_t row, struct err *err)
{
    const int64_t n = s->env->sequence->n;
    bool *one = xcalloc((size_t)n + 1, sizeof *one);
    int status = 0;
    double share = NAN;
    one[row] = true;
    for (int l = 0; l < s->env->model->decoder.config.layers && status == 0; l++) {
        if (!s->parts.layers[l] || !patch_at(s, l, one)) continue;
        status = patch(s, l, -1, &share, err);
        s->positions[l * n + row] = (float)share;
    }
    free(one);
    return status;
}

// Patches groups and positions by descending first row, so that the cache holds the rows of run B
// before them; each pass begins at the patched layer.
static int patch_all(struct patch *s, struct err *err)
{
    const int64_t n = s->env->sequence->n;
    int status = 0;
    for (int64_t row = n - 1; row >= s->first && status == 0; row--) {
        for (int g = 0; g < GROUPS && status == 0; g++) {
            int64_t first = 0;
            while (first < n && !s->group[g][first]) first++;
            if (first == row) status = patch_group(s, g, err);
        }
        if (status == 0 && s->env->options->tokens) status = patch_position(s, row, err);
    }
    return status;
}

static int patch_passes(void *state, struct passing *p, struct err *err)
{
    // In nats. Shares of a smaller change would be rounding errors and distort means.
    static const double least = 1e-3;
    struct patch *s = state;
    const struct decoder_config *c = &s->env->model->decoder.config;
    const struct hook hook = parts_hook(&s->parts);
    int64_t each = s->parts.part == OUTPUT_HEAD ? c->heads : GROUPS, passes = 1;
    if (s->env->options->tokens) each += s->env->sequence->n - s->first;
    for (int l = 0; l < c->layers; l++) passes += s->parts.layers[l] ? each : 0;
    s->parts.collecting = true;
    int status = effect_open(&s->effect, s->env, p, s->first, passes, &hook, err);
    s->parts.collecting = false;
    s->parts.replacement = from_run_a;
    s->parts.self = s;
    if (status == 0) status = show_corrupted(s, p, err);
    passes_keep(p); // run B
    if (status == 0) status = effect_of(&s->effect, &hook, &s->corrupted_logp, err);
    if (status == 0 && fabs(s->corrupted_logp) < least)
        status = err_set(err,
                         "run B changes the answer's log-probability by only %.3g: there is "
                         "nothing to restore",
                         s->corrupted_logp);
    if (status == 0)
        status = s->parts.part == OUTPUT_HEAD ? patch_heads(s, err) : patch_all(s, err);
    passes_progress(p, s->effect.all, s->effect.all);
    return status;
}

// --- results -------------------------------------------------------------------------------------

static void put_positions(const struct patch *s, struct results *r)
{
    const int64_t n = s->env->sequence->n;
    const int layers = s->env->model->decoder.config.layers;
    struct result_map *m = results_map(r, "patch.positions", layers, (int)n);
    memcpy(m->values, s->positions, (size_t)(layers * n) * sizeof *m->values);
    float *map = probe_values(s->env, 1);
    for (int l = 0; l < layers; l++) {
        if (!s->parts.layers[l]) continue;
        for (int64_t i = 0; i < n; i++)
            if (s->env->number[i] >= 0) map[s->env->number[i]] = s->positions[l * n + i];
        probe_maps(s->env, r, "patch.picture", l, -2, -2, map);
    }
    free(map);
}

static int patch_finish(void *state, struct results *r, struct err *err)
{
    const struct patch *s = state;
    const struct decoder_config *c = &s->env->model->decoder.config;
    const struct effect *e = &s->effect;
    double before = 0;
    for (int64_t t = e->first; t < e->end; t++) before += e->before[t];
    struct result_table *t = results_table(r, "patch", "what|log-probability");
    result_row(t, "run A")[0] = before;
    result_row(t, "run B")[0] = before + s->corrupted_logp;
    effect_note_layers(e, r, s->parts.layers, s->parts.reached);
    if (s->parts.part == OUTPUT_HEAD) {
        struct result_map *m = results_map(r, "patch.heads", c->layers, (int)c->heads);
        memcpy(m->values, s->heads, (size_t)(c->layers * c->heads) * sizeof *m->values);
        t = results_table(r, "patch.ranked", "head|share");
        t->ranked = -1;
        for (int k = 0; k < c->layers * c->heads; k++)
            if (!isnan(s->heads[k]))
                result_row(t, "%d.%d", k / (int)c->heads, k % (int)c->heads)[0] =
                    (double)s->heads[k];
        return 0;
    }
    t = results_table(r, "patch.layers", columns);
    t->curve = true;
    for (int l = 0; l < c->layers; l++)
        if (s->parts.layers[l])
            memcpy(result_row(t, "%d", l), s->share + l * GROUPS, GROUPS * sizeof *s->share);
    if (s->env->options->tokens) put_positions(s, r);
    return 0;
}

// Returns the end of the range of consecutive layers from row `i` on whose share is at least half.
static size_t half_end(const struct result_table *t, int condition, int column, size_t i)
{
    size_t end = i;
    while (end < t->row_count && t->rows[end].condition == condition &&
           t->rows[end].value[column - 1] >= 0.5 &&
           (end == i ||
            strtol(t->rows[end].key, NULL, 10) == strtol(t->rows[end - 1].key, NULL, 10) + 1))
        end++;
    return end;
}

// Appends the layers whose share in a column is at least half: "last in layers 3, 6-7".
static void put_half(const struct result_table *t, int condition, int column, struct buf *b)
{
    bool named = false;
    int layers = 0;
    for (size_t i = 0; i < t->row_count; i++)
        layers += t->rows[i].condition == condition && t->rows[i].value[column - 1] >= 0.5;
    for (size_t i = 0; i < t->row_count; i++) {
        const size_t end = half_end(t, condition, column, i);
        if (end == i) continue;
        if (named)
            buf_printf(b, ", %s", t->rows[i].key);
        else
            buf_printf(b, "%s%s in layer%s %s", b->length ? "; " : "at least half comes back at ",
                       t->columns[column], layers > 1 ? "s" : "", t->rows[i].key);
        if (end > i + 1) buf_printf(b, "-%s", t->rows[end - 1].key);
        named = true;
        i = end - 1;
    }
}

// Says in which layers each group of positions has the difference between the runs.
static void say_layers(const struct result_table *t, int condition, struct buf *b)
{
    const struct result_row *most = NULL;
    int at = 0;
    for (int c = 1; c < GROUPS; c++) { // all but the last column, ALL
        put_half(t, condition, c, b);
        for (size_t i = 0; i < t->row_count; i++) {
            const struct result_row *row = &t->rows[i];
            if (row->condition == condition && isfinite(row->value[c - 1]) &&
                (!most || row->value[c - 1] > most->value[at - 1]))
                most = row, at = c;
        }
    }
    if (b->length || !most) return;
    char number[32];
    text_number(number, most->value[at - 1], true);
    buf_printf(b, "most comes back at %s in layer %s (%s)", t->columns[at], most->key, number);
}

static const struct result_kind patch_results[] = {
    { "patch", .unit = "log-probability (nats)", .columns = "log-probability" },
    { "patch.layers", .unit = "share restored", .sentence = say_layers },
    { "patch.ranked", .unit = "share restored" },
    { "patch.heads", "share restored", .map = true, .rows = MAP_LAYERS, .cols = MAP_HEADS,
      .on_request = true },
    { "patch.positions", "share restored", .map = true, .rows = MAP_LAYERS, .cols = MAP_POSITIONS,
      .on_request = true },
    { "patch.picture", "share restored", .map = true, .on_request = true },
    { 0 },
};

const struct probe probe_patch = {
    .name = "patch",
    .also = "activation patching causal tracing intervention restore corrupt noise measure",
    .usage = "/patch noise|mean [POSITIONS] | replace POSITIONS > POSITIONS | question TEXT | FILE "
             "[--at residual|attention|ffn|head|value] "
             "[--layers A-B] [--tokens] [--token answer|N] [--picture I] [--objects FILE "
             "[--boxes]]" PROBE_USAGE,
    .help = "Share of the lost log-probability that activations of the original run restore.",
    .details =
        "Run A is the conversation's answer. Run B has, in place of the visual tokens at\n"
        "POSITIONS (/help positions; default: the picture), noise, their mean, or with replace\n"
        "those at other positions of the picture; or it has the picture in FILE, of the same\n"
        "size; or, with question, it has TEXT as the last question, of as many tokens. In run\n"
        "B, each measurement replaces the outputs of a part of a layer with those of run A at\n"
        "groups of positions. The table shows the share of the log-probability lost from run A\n"
        "to run B that this replacement restores." PROBE_DETAILS,
    .results = patch_results,
    .words = patch_words,
    .complete = patch_complete,
    .answer = true,
    .start = patch_start,
    .release = patch_release,
    .passes = patch_passes,
    .finish = patch_finish,
};
