// core/checkup/checks/intact.c -- checks that no weights are damaged or swapped, and that the model
// is read as in training.
//
// A file whose numbers are all finite may still be damaged: two layers swapped, queries and keys
// swapped, a wrong rotary base or pixel normalisation. Without the original, only the model's
// predictions reveal the damage: its predictions of plain text, and of descriptions of scenes that
// vlmsh draws. The check changes the loaded model as if to repair each such damage in turn. Each
// change makes the predictions of a sound model worse; a change that clearly improves them, and
// makes no prediction much worse, repairs real damage, which the finding names.
#include "core/checkup/checkup_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/adapter/adapter.h"
#include "core/files/safetensors.h"
#include "core/model/layer.h"

enum { SCENES_FIRST = 3, SCENES_LEAST = 4 };
// A change repairs damage if it lowers the loss of descriptions by at least kinds[].least of it and
// by nats_least per token, or the loss of text, which has more tokens, by text_least of it and by
// text_nats_least per token. No description may become less likely by more than the larger of a
// tenth of the mean gain and nats_worse.
static const double text_least = 0.02, text_nats_least = 0.004;
static const double nats_least = 0.01, nats_worse = 0.005;
// A model knows a language if its loss is below this share of a uniform guess's loss.
static const double knows = 0.5;
// The finding also names changes of the same kind with at least this share of the best one's gain.
static const double near_best = 0.95;
// An adapter that lowers the log-probability of text by more than this, in nats per token, does not
// fit the model.
static const double adapter_nats = 0.5;
enum { SEARCH_S = 90, SEARCH_QUICK_S = 15, FOUND_MOST = 3 };

// --- possible damage -----------------------------------------------------------------------------

static const char swap_excluded[] = "nothing can be swapped: the shapes differ";

enum kind { ROTARY, TEMPLATE, PIXELS, HEADS, LAYERS, ENCODER_HEADS, ENCODER_LAYERS, KINDS };

static const struct {
    const char *name, *sound;
    bool sees;            // affects only descriptions, not text
    double least;         // share by which the loss of descriptions must fall
    const char *excluded; // why there is nothing to try
} kinds[KINDS] = {
    [ROTARY] = { "rotary base", "no usual rotary base predicts better than the file's", false, 0.2,
                 "" },
    // A different prompt alone can make short descriptions more or less likely.
    [TEMPLATE] = { "chat template", "no other template of plain text predicts better", true, 0.5,
                   "the tokens that end answers show which template belongs to the model" },
    [PIXELS] = { "mean of the pixels", "no usual mean and deviation predicts better", true, 0.2,
                 "" },
    [HEADS] = { "queries and keys", "swapping a layer's queries and keys improves nothing", false,
                0.2, swap_excluded },
    [LAYERS] = { "order of the layers", "swapping two layers improves nothing", false, 0.2,
                 swap_excluded },
    [ENCODER_HEADS] = { "queries and keys, encoder",
                        "swapping a block's queries and keys improves nothing", true, 0.2,
                        swap_excluded },
    [ENCODER_LAYERS] = { "order of the blocks, encoder", "swapping two blocks improves nothing",
                         true, 0.2, swap_excluded },
};

// Templates of plain text, which no token distinguishes.
static const char *const plain_templates[] = { "vicuna", "llama-2" };
enum { PLAIN_TEMPLATES = sizeof plain_templates / sizeof *plain_templates };

struct variant {
    enum kind kind;
    int a, b;  // layers or blocks; for other kinds, a: index into their table
    int count; // LAYERS: number of layers to swap, from `a` and from `b` on
};

// The usual rotary bases; then half and twice the base in the file.
static const double thetas[] = { 1e4, 1e5, 5e5, 1e6, 5e6, 1e7 }, factors[] = { 0.5, 2 };
enum { USUAL = sizeof thetas / sizeof *thetas, FACTORS = sizeof factors / sizeof *factors };

static double theta_of(const struct model *m, int i)
{
    return i < USUAL ? thetas[i] : factors[i - USUAL] * m->decoder.config.rope.theta;
}

static const struct {
    const char *name;
    const float *mean, *std;
} pixels[] = {
    { "CLIP", picture_clip_mean, picture_clip_std },
    { "SigLIP", picture_half, picture_half },
    { "ImageNet", picture_imagenet_mean, picture_imagenet_std },
};

static bool same_shape(const struct tensor *a, const struct tensor *b)
{
    return a->dtype == b->dtype && a->rank == b->rank && !a->data == !b->data &&
           !memcmp(a->shape, b->shape, sizeof *a->shape * (size_t)a->rank);
}

static bool same_linear(const struct linear *a, const struct linear *b)
{
    return a->weight.data && same_shape(&a->weight, &b->weight) && !a->bias.data == !b->bias.data;
}

static bool same_sublayer(const struct sublayer *a, const struct sublayer *b)
{
    bool same = a->count == b->count;
    for (int i = 0; i < a->count && same; i++)
        same = same_shape(&a->weight[i].weight, &b->weight[i].weight);
    return same;
}

static bool same3(const float *a, const float *b)
{
    return a[0] == b[0] && a[1] == b[1] && a[2] == b[2];
}

static bool same_layers(const struct decoder_layer *a, const struct decoder_layer *b, int count)
{
    bool same = true;
    for (int i = 0; i < count && same; i++)
        same = a[i].gpu == b[i].gpu && same_sublayer(&a[i].attention, &b[i].attention) &&
               same_sublayer(&a[i].ffn, &b[i].ffn);
    return same;
}

// If half or twice the file's rotary base is a usual base, it is tried only as a usual one.
static bool another_theta(const struct model *m, int i)
{
    bool other = theta_of(m, i) != m->decoder.config.rope.theta;
    for (int k = 0; i >= USUAL && k < USUAL; k++) other &= theta_of(m, i) != thetas[k];
    return other;
}

static bool possible(const struct model *m, const struct variant *v)
{
    const struct decoder *d = &m->decoder;
    const struct decoder_layer *a = &d->layer[v->a], *b = &d->layer[v->b];
    const struct vision_layer *e = m->vision.layer;
    switch (v->kind) {
    case ROTARY: return another_theta(m, v->a);
    case TEMPLATE:
        return !checkup_turn_end(m) &&
               (m->template || strcmp(layout_title(m->layout), "plain") != 0);
    case PIXELS:
        return !same3(m->picture.mean, pixels[v->a].mean) ||
               !same3(m->picture.std, pixels[v->a].std);
    case HEADS:
        return !decoder_attention(&d->config, v->a)->packed &&
               decoder_attention(&d->config, v->a) != &attention_latent &&
               same_linear(&a->attention.weight[ATTENTION_Q], &a->attention.weight[ATTENTION_K]);
    case LAYERS: return same_layers(a, b, v->count);
    case ENCODER_HEADS: return same_linear(&e[v->a].q, &e[v->a].k);
    case ENCODER_LAYERS: return same_shape(&e[v->a].out.weight, &e[v->b].out.weight);
    default: return false;
    }
}

#define EXCHANGE(type, x, y) \
    do {                     \
        type t = (x);        \
        (x) = (y);           \
        (y) = t;             \
    } while (0)

// The values to exchange with the model's, for a change that does not swap two weights.
struct kept {
    double theta;
    char template[32];
    float mean[3], std[3];
};

static struct kept kept_of(const struct model *m, const struct variant *v)
{
    struct kept k = { 0 };
    if (v->kind == ROTARY) k.theta = theta_of(m, v->a);
    if (v->kind == TEMPLATE) snprintf(k.template, sizeof k.template, "%s", plain_templates[v->a]);
    if (v->kind == PIXELS) {
        memcpy(k.mean, pixels[v->a].mean, sizeof k.mean);
        memcpy(k.std, pixels[v->a].std, sizeof k.std);
    }
    return k;
}

static void exchange_template(struct settings *s, char *template, size_t size)
{
    struct err err;
    char *was = xstrdup(settings_text(s, "chat.template"));
    if (settings_set(s, "chat.template", template, &err) < 0) BUG("%s", err.text);
    snprintf(template, size, "%s", was);
    free(was);
}

// Removes the adapter while weights are exchanged, and applies it again: the damage is in the
// model's files, not in the adapter's.
static void take_adapter_off(struct checkup *c)
{
    if (c->adapter) adapter_remove(c->adapter);
}

static void put_adapter_back(struct checkup *c)
{
    const bool pictures = settings_is(c->settings, "adapter.when", "pictures");
    if (c->adapter) adapter_with_pictures(c->adapter, pictures);
}

// Discards the conversation's caches and the methods' states after a change.
static void change_done(struct checkup *c, enum kind kind)
{
    conversation_stale(&c->talk, kinds[kind].sees ? STALE_VISUAL : STALE_KV);
    conversation_reset_methods(&c->talk);
}

// Makes the change; a second call undoes it.
static void exchange(struct checkup *c, const struct variant *v, struct kept *k)
{
    struct model *m = c->model;
    struct decoder_layer *l = m->decoder.layer;
    struct vision_layer *e = m->vision.layer;
    take_adapter_off(c);
    switch (v->kind) {
    case ROTARY: EXCHANGE(double, m->decoder.config.rope.theta, k->theta); break;
    case TEMPLATE: exchange_template(c->settings, k->template, sizeof k->template); break;
    case PIXELS:
        for (int i = 0; i < 3; i++) {
            EXCHANGE(float, m->picture.mean[i], k->mean[i]);
            EXCHANGE(float, m->picture.std[i], k->std[i]);
        }
        break;
    case HEADS:
        EXCHANGE(struct linear, l[v->a].attention.weight[ATTENTION_Q],
                 l[v->a].attention.weight[ATTENTION_K]);
        break;
    case LAYERS:
        for (int i = 0; i < v->count; i++) EXCHANGE(struct decoder_layer, l[v->a + i], l[v->b + i]);
        break;
    case ENCODER_HEADS: EXCHANGE(struct linear, e[v->a].q, e[v->a].k); break;
    case ENCODER_LAYERS: EXCHANGE(struct vision_layer, e[v->a], e[v->b]); break;
    default: break;
    }
    put_adapter_back(c);
    change_done(c, v->kind);
}

static char *name_of(const struct model *m, const struct variant *v)
{
    switch (v->kind) {
    case ROTARY: return xasprintf("a rotary base of %g", theta_of(m, v->a));
    case TEMPLATE: return xasprintf("the chat template '%s'", plain_templates[v->a]);
    case PIXELS: return xasprintf("the mean and deviation of %s", pixels[v->a].name);
    case HEADS: return xasprintf("queries and keys of layer %d swapped", v->a);
    case LAYERS:
        if (v->count == 1) return xasprintf("layers %d and %d swapped", v->a, v->b);
        return xasprintf("layers %d to %d and %d to %d swapped (the layers of two files)", v->a,
                         v->a + v->count - 1, v->b, v->b + v->count - 1);
    case ENCODER_HEADS: return xasprintf("queries and keys of block %d swapped", v->a);
    default: return xasprintf("blocks %d and %d swapped", v->a, v->b);
    }
}

// --- predictions ---------------------------------------------------------------------------------

// Mean log-probabilities, in nats per token.
struct score {
    double text;
    int64_t tokens; // of the text
    int scenes;
    double own[CHECKUP_SCENES]; // of each scene's true description
    double chance;              // checkup_scene_chance
};

static int score_text(struct checkup *c, struct score *s, struct err *err)
{
    return checkup_text_nats(c, c->settings, &s->text, &s->tokens, err);
}

static int score_scenes(struct checkup *c, const int *scenes, int n, struct score *s,
                        struct err *err)
{
    double nats[CHECKUP_SCENES * CHECKUP_SCENES];
    if (checkup_scene_nats(c, c->settings, scenes, n, nats, err) < 0) return -1;
    s->scenes = n;
    s->chance = checkup_scene_chance(nats, n);
    for (int i = 0; i < n; i++) s->own[i] = nats[i * n + i];
    return 0;
}

static bool knows_text(const struct checkup *c, const struct score *s)
{
    return s->text > -knows * log((double)c->model->decoder.config.vocab);
}

// Returns the share by which the loss falls; -1 if it falls by less than `least`.
static double gained(double was, double is, double least)
{
    return is - was < least ? -1 : (is - was) / -was;
}

static double gained_text(const struct checkup *c, const struct score *was, const struct score *is)
{
    return knows_text(c, is) ? gained(was->text, is->text, text_nats_least) : -1;
}

// Returns gained() over the scenes; -1 also if one description becomes much less likely.
static double gained_scenes(const struct score *was, const struct score *is)
{
    double a = 0, b = 0, worst = 0;
    for (int i = 0; i < is->scenes; i++) {
        a += was->own[i] / is->scenes, b += is->own[i] / is->scenes;
        worst = fmax(worst, was->own[i] - is->own[i]);
    }
    return is->scenes && worst <= fmax(0.1 * (b - a), nats_worse) ? gained(a, b, nats_least) : -1;
}

// --- the search ----------------------------------------------------------------------------------

struct search {
    struct checkup *c;
    struct score base;
    int scenes;                // 0: a text-only model
    int order[CHECKUP_SCENES]; // the scenes; first those that the unchanged model predicts worst
    bool seen;                 // the unchanged model recognises the scenes
    double seconds, allowed;
    int tried[KINDS], possible[KINDS];
    struct found {
        struct variant v;
        struct score is;
        double gain;
    } found[FOUND_MOST]; // changes that repair damage, the best one first
    int count;
};

// Seconds to score a scene. They are computed from the measured rates, so a resumed search counts
// the same.
static double scene_seconds(const struct search *s, enum kind kind)
{
    return s->c->prompt_s + (kinds[kind].sees ? s->c->encode_s : 0);
}

// Forecasts the seconds of one variant.
static double seconds_of(const struct search *s, enum kind kind)
{
    const double scenes = s->scenes ? SCENES_FIRST * scene_seconds(s, kind) : 0;
    if (kinds[kind].sees) return scenes;
    return s->c->text_s + (knows_text(s->c, &s->base) ? 0 : scenes);
}

// Scores the descriptions of the scenes, until the change is rejected (*gain -1); else *gain is the
// share by which their loss falls. `by_text`: the text decides, so only a few scenes are scored,
// and *gain is 0 if none of their descriptions becomes much less likely.
static int score_change(struct search *s, enum kind kind, bool by_text, struct score *is,
                        double *gain, struct err *err)
{
    struct checkup *c = s->c;
    const struct score *was = &s->base;
    *gain = 0;
    for (int i = 0; i < (by_text ? SCENES_FIRST : s->scenes) && *gain >= 0; i++) {
        const char *truth = c->views[s->order[i]].truth;
        checkup_ask(c, &s->order[i], 1, checkup_question);
        if (checkup_rank(c, c->settings, &truth, 1, &is->own[i], err) < 0) return -1;
        s->seconds += scene_seconds(s, kind);
        is->scenes = i + 1;
        // The mean gain cannot exceed the loss of the first scene, which is the largest.
        if (was->own[i] - is->own[i] > fmax(-0.1 * was->own[0], nats_worse))
            *gain = -1;
        else if (!by_text && (is->scenes == SCENES_FIRST || is->scenes == s->scenes))
            *gain = gained_scenes(was, is) >= kinds[kind].least ? gained_scenes(was, is) : -1;
    }
    return 0;
}

// Scores a change. If the model knows English, before or after the change, text reveals damage of
// the decoder; otherwise the descriptions do. Changes that concern pictures affect only the
// descriptions.
static int score_variant(struct search *s, const struct variant *v, double *gain, struct score *is,
                         struct err *err)
{
    struct checkup *c = s->c;
    const bool sees = kinds[v->kind].sees;
    *is = (struct score){ 0 };
    *gain = -1;
    if (!sees && score_text(c, is, err) < 0) return -1;
    if (!sees) s->seconds += c->text_s;
    if (!sees) *gain = gained_text(c, &s->base, is);
    const bool by_text = !sees && (knows_text(c, &s->base) || knows_text(c, is));
    if (by_text && *gain < text_least) *gain = -1;
    if (by_text && (*gain < 0 || !s->seen))
        return 0; // text shows no gain, or the model never recognised the scenes
    if (!s->scenes) return 0;
    double here;
    if (score_change(s, v->kind, by_text, is, &here, err) < 0) return -1;
    if (!by_text || here < 0) *gain = here;
    return 0;
}

static void add_found(struct search *s, const struct found *f)
{
    int at = s->count < FOUND_MOST ? s->count++ : FOUND_MOST - 1;
    if (at == FOUND_MOST - 1 && s->found[at].gain >= f->gain) return;
    for (; at && s->found[at - 1].gain < f->gain; at--) s->found[at] = s->found[at - 1];
    s->found[at] = *f;
}

static int try_variant(struct search *s, struct variant v, struct err *err)
{
    struct checkup *c = s->c;
    struct kept k = kept_of(c->model, &v);
    struct score is;
    struct err why = { 0 };
    double gain;
    if (kinds[v.kind].sees && !s->scenes) return 0;
    if (!possible(c->model, &v)) return 0;
    s->possible[v.kind]++;
    if (s->seconds + seconds_of(s, v.kind) > s->allowed) return 0;
    s->tried[v.kind]++;
    exchange(c, &v, &k);
    const int status = score_variant(s, &v, &gain, &is, &why);
    exchange(c, &v, &k);
    if (status < 0 && c->stopped) {
        *err = why;
        return -1;
    }
    // NaN after a change proves nothing.
    if (status == 0 && gain > 0) add_found(s, &(struct found){ .v = v, .is = is, .gain = gain });
    checkup_progress(c, s->seconds, s->allowed);
    return 0;
}

static double without_seconds(const struct search *s, enum kind kind, bool scene)
{
    return (kinds[kind].sees ? 0 : s->c->text_s) + (scene ? scene_seconds(s, kind) : 0);
}

// Scores the model with a layer or block replaced with its neighbour; the score is the sum of the
// log-probabilities of text (layers only) and, with `scene`, of the first scene. If the layer is in
// the wrong place, replacing it raises the sum.
static int score_without(struct search *s, enum kind kind, int at, int layers, bool scene,
                         double *sum, struct err *err)
{
    struct checkup *c = s->c;
    struct model *m = c->model;
    const int next = at + 1 < layers ? at + 1 : at - 1;
    const bool sees = kinds[kind].sees;
    struct decoder_layer *l = &m->decoder.layer[at], layer = { 0 };
    struct vision_layer *e = &m->vision.layer[at], block = { 0 };
    struct score text = { 0 };
    double own = 0;
    take_adapter_off(c);
    if (sees) block = *e, *e = m->vision.layer[next];
    if (!sees) layer = *l, *l = m->decoder.layer[next];
    put_adapter_back(c);
    change_done(c, kind);
    int status = sees ? 0 : score_text(c, &text, err);
    if (status == 0 && scene) {
        const char *truth = c->views[s->order[0]].truth;
        checkup_ask(c, &s->order[0], 1, checkup_question);
        status = checkup_rank(c, c->settings, &truth, 1, &own, err);
    }
    take_adapter_off(c);
    if (sees) *e = block;
    if (!sees) *l = layer;
    put_adapter_back(c);
    change_done(c, kind);
    s->seconds += without_seconds(s, kind, scene);
    *sum = text.text + own;
    return status;
}

// Orders the layers by how much replacing them helps, if the time allows. A layer that cannot be
// replaced is last.
static int rank_layers(struct search *s, enum kind kind, int layers, int *rank, struct err *err)
{
    double *score = xcalloc((size_t)layers, sizeof *score);
    const bool scene =
        kinds[kind].sees || (s->scenes && layers * scene_seconds(s, kind) < 0.25 * s->allowed);
    const bool timely = s->seconds + layers * without_seconds(s, kind, scene) < s->allowed;
    for (int l = 0; l < layers; l++) {
        const int next = l + 1 < layers ? l + 1 : l - 1;
        const struct variant v = { kind, l, next, 1 };
        struct err why = { 0 };
        double x = -INFINITY;
        if (timely && possible(s->c->model, &v) &&
            score_without(s, kind, l, layers, scene, &x, &why) < 0) {
            if (s->c->stopped) {
                *err = why;
                free(score);
                return -1;
            }
            x = -INFINITY;
        }
        int at = l;
        for (; at && !(score[at - 1] >= x); at--)
            score[at] = score[at - 1], rank[at] = rank[at - 1];
        score[at] = x, rank[at] = l;
    }
    free(score);
    return 0;
}

struct pairs {
    enum kind kind;
    int layers;
    bool *tried; // [layers * layers]
};

static int try_pair(struct search *s, struct pairs *p, int x, int y, struct err *err)
{
    const int a = x < y ? x : y, b = x < y ? y : x;
    bool *tried = &p->tried[a * p->layers + b];
    if (a == b || *tried) return 0;
    *tried = true;
    return try_variant(s, (struct variant){ p->kind, a, b, 1 }, err);
}

// A swap may improve the predictions although only one of its layers is right: tries all swaps with
// either layer, until none is better.
static int refine(struct search *s, struct pairs *p, struct variant *refined, struct err *err)
{
    int status = 0;
    while (s->count && s->found[0].v.kind == p->kind && s->found[0].v.count == 1 && status == 0) {
        const struct variant best = s->found[0].v;
        if (best.a == refined->a && best.b == refined->b) break;
        *refined = best;
        for (int l = 0; l < p->layers && status == 0; l++) {
            status = try_pair(s, p, best.a, l, err);
            if (status == 0) status = try_pair(s, p, best.b, l, err);
        }
    }
    return status;
}

// Tries to swap two layers or blocks, first those most likely to be in the wrong place.
static int try_pairs(struct search *s, enum kind kind, int layers, struct err *err)
{
    int *rank = xcalloc((size_t)layers + 1, sizeof *rank);
    struct pairs p = { kind, layers, xcalloc((size_t)(layers * layers + 1), sizeof *p.tried) };
    struct variant refined = { .a = -1 };
    int status = layers > 1 ? rank_layers(s, kind, layers, rank, err) : 0;
    for (int sum = 1; sum < 2 * layers - 2 && status == 0; sum++)
        for (int i = sum < layers ? 0 : sum - layers + 1; 2 * i < sum && status == 0; i++) {
            status = try_pair(s, &p, rank[i], rank[sum - i], err);
            if (status == 0) status = refine(s, &p, &refined, err);
        }
    free(rank);
    free(p.tried);
    return status;
}

// Returns the number of layers whose weights are all in one file of weights, if they are
// consecutive, else 0; *first: the first. Tensors sorted by name put layers 1 and 10 together.
static int layers_in(const struct model *m, int shard, int *first)
{
    const int layers = m->decoder.config.layers;
    bool *in = xcalloc((size_t)layers, sizeof *in), *out = xcalloc((size_t)layers, sizeof *out);
    int count = 0;
    for (size_t i = 0; i < m->weights.count; i++) {
        const struct weight *w = &m->weights.list[i];
        const int layer = w->part == PART_DECODER ? weight_layer(w) : -1;
        if (layer < 0 || layer >= layers) continue;
        *(safetensors_find(m->checkpoint->shards[shard], w->name) ? &in[layer] : &out[layer]) =
            true;
    }
    bool consecutive = true;
    for (int l = layers; l-- > 0;) {
        if (!in[l] || out[l]) continue;
        consecutive &= !count || *first == l + 1;
        *first = l, count++;
    }
    free(in);
    free(out);
    return consecutive ? count : 0;
}

// Tries to swap the layers of two files of weights, whose contents may have been swapped.
static int try_shards(struct search *s, struct err *err)
{
    const struct model *m = s->c->model;
    for (int a = 0; a < m->checkpoint->shard_count; a++)
        for (int b = a + 1; b < m->checkpoint->shard_count; b++) {
            struct variant v = { .kind = LAYERS };
            v.count = layers_in(m, a, &v.a);
            if (v.count < 2 || layers_in(m, b, &v.b) != v.count) continue;
            if (try_variant(s, v, err) < 0) return -1;
        }
    return 0;
}

// Tries the likeliest changes first: there may be no time for all of them.
static int search(struct search *s, struct err *err)
{
    const struct model *m = s->c->model;
    const int layers = m->decoder.config.layers, blocks = s->scenes ? m->vision.config.layers : 0;
    int status = 0;
    for (int i = 0; i < USUAL + FACTORS && status == 0; i++)
        status = try_variant(s, (struct variant){ .kind = ROTARY, .a = i }, err);
    for (int i = 0; i < PLAIN_TEMPLATES && status == 0; i++)
        status = try_variant(s, (struct variant){ .kind = TEMPLATE, .a = i }, err);
    for (int i = 0; i < (int)(sizeof pixels / sizeof *pixels) && status == 0; i++)
        status = try_variant(s, (struct variant){ .kind = PIXELS, .a = i }, err);
    for (int i = 0; i < layers && status == 0; i++)
        status = try_variant(s, (struct variant){ .kind = HEADS, .a = i }, err);
    for (int i = 0; i < blocks && status == 0; i++)
        status = try_variant(s, (struct variant){ .kind = ENCODER_HEADS, .a = i }, err);
    if (status == 0) status = try_shards(s, err);
    // At most half of the remaining time is for the encoder's blocks.
    const double allowed = s->allowed;
    s->allowed = s->seconds + fmax(0, allowed - s->seconds) / 2;
    if (status == 0) status = try_pairs(s, ENCODER_LAYERS, blocks, err);
    s->allowed = allowed;
    if (status == 0) status = try_pairs(s, LAYERS, layers, err);
    return status;
}

// --- findings ------------------------------------------------------------------------------------

static double mean_of(const double *x, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += x[i];
    return n ? sum / n : NAN;
}

static void report_predictions(const struct search *s)
{
    struct checkup *c = s->c;
    const double guess = -log((double)c->model->decoder.config.vocab);
    struct finding f = finding(c, "predictions");
    finding_number(&f, "plain English", s->base.text, "nats per token", s->base.tokens);
    finding_number(&f, "a uniform guess", guess, "nats per token", 0);
    if (s->scenes) {
        finding_number(&f, "true descriptions", mean_of(s->base.own, s->scenes), "nats per token",
                       s->scenes);
        finding_number(&f, "probability by chance", s->base.chance, "", 1);
    }
    if (knows_text(c, &s->base))
        finding_works(&f, "the model predicts plain English");
    else if (s->seen)
        finding_works(&f, "the model predicts what drawn scenes show, but not plain English, which "
                          "it never learned or has lost");
    else
        finding_fails(&f, "the model predicts neither plain English nor descriptions of pictures; "
                          "possible causes: random or damaged weights, another model's tokenizer, "
                          "or training in another language only");
}

// Names the best change, and others of its kind that are nearly as good; the caller frees the text.
static char *name_found(const struct search *s)
{
    struct buf b = { 0 };
    for (int i = 0; i < s->count; i++) {
        const struct found *f = &s->found[i];
        if (f->v.kind != s->found[0].v.kind || f->gain < near_best * s->found[0].gain) continue;
        char *name = name_of(s->c->model, &f->v);
        buf_printf(&b, "%s%s", b.length ? ", or " : "", name);
        free(name);
    }
    return buf_take(&b);
}

static void report_found(const struct search *s, struct finding *f)
{
    const struct found *best = &s->found[0];
    const struct score *was = &s->base, *is = &best->is;
    char *name = name_found(s);
    if (is->scenes) {
        finding_number(f, "descriptions before", mean_of(was->own, is->scenes), "nats per token",
                       is->scenes);
        finding_number(f, "after", mean_of(is->own, is->scenes), "nats per token", is->scenes);
    } else {
        finding_number(f, "text before", was->text, "nats per token", was->tokens);
        finding_number(f, "after", is->text, "nats per token", is->tokens);
    }
    finding_fails(
        f,
        "with %s, the model predicts better everywhere (its loss falls by %.0f%%): this repairs "
        "damage in the files",
        name, 100 * best->gain);
    free(name);
}

static void report_search(const struct search *s)
{
    for (int k = 0; k < KINDS; k++) {
        if (kinds[k].sees && !s->scenes) continue;
        struct finding f = finding(s->c, kinds[k].name);
        finding_number(&f, "changes tried", s->tried[k], "", 0);
        finding_number(&f, "possible", s->possible[k], "", 0);
        if (s->count && s->found[0].v.kind == (enum kind)k)
            report_found(s, &f);
        else if (!s->possible[k])
            finding_skip(&f, "%s", kinds[k].excluded);
        else if (!s->tried[k])
            finding_skip(&f, "there was no time to try a change");
        else if (s->count)
            finding_skip(&f, "cannot be judged: other damage was found");
        else
            finding_works(&f, "%s%s", kinds[k].sound,
                          s->tried[k] < s->possible[k] ? " (as far as the time allowed)" : "");
    }
}

// Forecasts the seconds that the search takes: to try all changes, or its time limit if that is
// less.
static double search_s(const struct checkup *c)
{
    const double layers = c->model->decoder.config.layers, blocks = c->model->vision.config.layers,
                 text = 8 + layers * (layers + 1) / 2, seen = 5 + blocks * (blocks + 1) / 2;
    const double scenes = SCENES_FIRST * c->prompt_s;
    const double all = text * (c->text_s + (c->scenes ? scenes : 0)) +
                       (c->scenes ? seen * (scenes + SCENES_FIRST * c->encode_s) : 0);
    return fmin(all, c->work->options.quick ? SEARCH_QUICK_S : SEARCH_S);
}

// Compares the predictions with and without the adapter: another model's adapter makes them worse.
static int check_adapter(struct search *s, struct err *err)
{
    struct checkup *c = s->c;
    struct adapter *own = c->adapter;
    struct score without = { 0 };
    if (!own) return 0;
    take_adapter_off(c);
    c->adapter = NULL;
    conversation_stale(&c->talk, STALE_VISUAL);
    conversation_reset_methods(&c->talk);
    int status = score_text(c, &without, err);
    if (status == 0 && s->scenes) status = score_scenes(c, s->order, s->scenes, &without, err);
    c->adapter = own;
    put_adapter_back(c);
    conversation_stale(&c->talk, STALE_VISUAL);
    conversation_reset_methods(&c->talk);
    if (status < 0) return -1;
    const double text = s->base.text - without.text,
                 seen = s->scenes
                            ? mean_of(s->base.own, s->scenes) - mean_of(without.own, without.scenes)
                            : NAN;
    struct finding f = finding(c, "adapter");
    finding_number(&f, "plain English, change", text, "nats per token", s->base.tokens);
    if (s->scenes)
        finding_number(&f, "true descriptions, change", seen, "nats per token", s->scenes);
    if (text < -adapter_nats && !(seen > 0))
        finding_fails(
            &f,
            "the adapter worsens the model's predictions by %.3g nats per token of text%s: it may "
            "belong to another model, or was trained on very different texts",
            -text, seen < 0 ? ", and the scenes too" : "");
    else
        finding_measured(&f, "the adapter changes the predictions of text by %+.3g nats per token",
                         text);
    return 0;
}

// Scores the unchanged model, and orders the scenes by their scores.
static int score_base(struct search *s, struct err *err)
{
    struct checkup *c = s->c;
    struct score *base = &s->base;
    if (score_text(c, base, err) < 0) return -1;
    if (s->scenes && score_scenes(c, NULL, s->scenes, base, err) < 0) return -1;
    for (int i = 0; i < s->scenes; i++) {
        const double own = base->own[i];
        int at = i;
        for (; at && base->own[at - 1] > own; at--) {
            base->own[at] = base->own[at - 1];
            s->order[at] = s->order[at - 1];
        }
        base->own[at] = own;
        s->order[at] = i;
    }
    s->seen = s->scenes && checkup_scene_seen(base->chance, s->scenes);
    return 0;
}

static int run(struct checkup *c, struct err *err)
{
    struct search s = { .c = c };
    // The usual rotary bases are always tried.
    s.allowed = fmax(c->scale * search_s(c), (USUAL + FACTORS) * c->text_s);
    s.scenes = c->scenes ? checkup_samples(c, (int)c->scenes, SCENES_LEAST) : 0;
    if (score_base(&s, err) < 0) return -1;
    report_predictions(&s);
    if (check_adapter(&s, err) < 0 || search(&s, err) < 0) return -1;
    report_search(&s);
    return 0;
}

const struct checkup_check check_intact = {
    .name = "intact",
    .shows =
        "Whether weights, rotary base and pixel normalisation match those of training: swapping "
        "weights, or another common value, must not improve the predictions of text and pictures.",
    .cost = { .prompts = 9, .encodes = 6 },
    .quick = { .prompts = 7, .encodes = 4 },
    .seconds = search_s,
    .run = run,
};
