// core/train/params.c -- f32 masters, gradients and moments of trained parameters; adds LoRA to
// layers. Easy to get wrong: whatever happens, the model must be restored from the original tensors
// in `stored`.
#include "core/train/params.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/dtype.h"
#include "core/base/random.h"
#include "core/graph/tape.h"
#include "core/model/layer.h"
#include "core/model/linear.h"
#include "core/model/model.h"
#include "core/model/weights.h"
#include "core/ranks/ranks.h"
#include "core/settings/settings.h"
#include "core/train/roles.h"
#include "core/train/select.h"

// --- selectable items ----------------------------------------------------------------------------

struct select_item *params_items(const struct model *m, const struct param_extra *extra,
                                 size_t extra_count, size_t *count)
{
    const struct weights *w = &m->weights;
    struct select_item *items = xcalloc(w->count + extra_count + 1, sizeof *items);
    for (size_t i = 0; i < w->count; i++) {
        items[i] = (struct select_item){ .name = w->list[i].name,
                                         .common = w->list[i].common,
                                         .part = w->list[i].part,
                                         .rank = w->list[i].rank,
                                         .linear = w->list[i].linear != NULL };
        memcpy(items[i].shape, w->list[i].shape, sizeof items[i].shape);
    }
    for (size_t i = 0; i < extra_count; i++) {
        struct select_item *item = &items[w->count + i];
        *item = (struct select_item){ .name = extra[i].name,
                                      .part = extra[i].part,
                                      .rank = extra[i].tensor->rank,
                                      .extra = true,
                                      .with_part = extra[i].with_part,
                                      .always = extra[i].always };
        memcpy(item->shape, extra[i].tensor->shape, sizeof extra[i].tensor->shape);
    }
    *count = w->count + extra_count;
    return items;
}

void params_extra(struct params *p, const struct param_extra *extra)
{
    p->extra = xreallocarray(p->extra, p->extra_count + 1, sizeof *p->extra);
    p->extra[p->extra_count++] = *extra;
}

// --- one parameter -------------------------------------------------------------------------------

enum param_group params_group(enum model_part_kind part)
{
    return part == PART_VISION      ? GROUP_VISION
           : part == PART_PROJECTOR ? GROUP_PROJECTOR
                                    : GROUP_BACKBONE;
}

static float *zeros(const struct backend *b, int64_t count)
{
    float *data = b->alloc((size_t)count * sizeof *data);
    struct tensor t = { .data = data, .dtype = DTYPE_F32, .rank = 1, .shape = { count } };
    if (data && b->fill(&t, 0) == 0) return data;
    b->release(data);
    return NULL;
}

// Converts a weight, in the memory of `home`, to f32, with rows in the order of adapter files.
// Block formats, weights whose rows must be reordered, and those that move to another memory are
// converted on the host.
static int widen(const struct backend *where, struct tensor *to, const struct backend *home,
                 const struct tensor *from)
{
    if (where == home && !from->order.head && !dtype_in_blocks(from->dtype))
        return where->widen(to, from);
    const int64_t count = tensor_count(from);
    char *stored = xmalloc(tensor_bytes(from));
    float *floats = xreallocarray(NULL, (size_t)count, sizeof *floats);
    home->download(stored, from->data, tensor_bytes(from));
    floats_from(floats, stored, from->dtype, (size_t)count);
    rows_reorder(floats, from->shape[0], tensor_row(from), from->order);
    where->upload(to->data, floats, (size_t)count * sizeof *floats);
    to->order = (struct head_order){ 0 };
    free(stored);
    free(floats);
    return 0;
}

static int out_of_memory(const struct param *one, struct err *err)
{
    return err_set(err,
                   "out of memory: training '%s' needs %.1f MB more on %s; train fewer weights "
                   "(train.method) or use a larger machine",
                   one->name, (double)one->count * 16e-6, one->where->name);
}

// Replaces the data of `tensor` with an f32 master. Takes ownership of `name`.
static int add(struct params *p, char *name, enum param_kind kind, enum param_group group,
               const struct weight *weight, struct tensor *tensor, struct err *err)
{
    const bool on_host = tensor->on_host && !p->moves_tables;
    const struct backend *home = backend_of(p->backend, tensor),
                         *where = on_host ? home : p->backend;
    const int64_t count = tensor_count(tensor);
    struct tensor master = *tensor;
    backend_enter(p->backend, weight ? weight->gpu : 0); // the weight's GPU
    p->list = xreallocarray(p->list, p->count + 1, sizeof *p->list);
    struct param *one = &p->list[p->count++];
    *one = (struct param){ .name = name,
                           .kind = kind,
                           .group = group,
                           .where = where,
                           .weight = weight,
                           .tensor = tensor,
                           .stored = *tensor,
                           .grad = grad_of_pass(count), // add_state allocates its memory
                           .bucket = -1,
                           .count = count,
                           .decay = tensor->rank > 1 };
    master.dtype = DTYPE_F32;
    master.on_host = on_host;
    master.data = where->alloc((size_t)count * sizeof(float));
    if (!master.data) return out_of_memory(one, err);
    // The tensors of a new LoRA have no data yet.
    if (tensor->data && widen(where, &master, home, tensor) < 0) {
        where->release(master.data);
        return err_set(err, "converting '%s' to f32: %s", name, where->failure());
    }
    if (on_host) one->grad->reached = xcalloc((size_t)tensor->shape[0], sizeof(atomic_bool));
    master.grad = one->grad;
    *tensor = master;
    return 0;
}

static char *lora_name(const struct weight *w, const char *which)
{
    const size_t n = strlen(w->name), tail = strlen(".weight");
    const bool known = n > tail && !strcmp(w->name + n - tail, ".weight");
    return xasprintf("%.*s.lora_%s", (int)(known ? n - tail : n), w->name, which);
}

static double scale_of(const struct selected *chosen)
{
    return chosen->alpha / lora_alpha(1, chosen->rank, chosen->stabilised);
}

// Initialises A and B as PEFT does, or copies them and the scale from the adapter that training
// continues from.
static int add_lora(struct params *p, const struct weight *w, const struct selected *chosen,
                    uint64_t seed, uint64_t number, struct err *err)
{
    struct lora *former = w->linear->lora, *lora = xcalloc(1, sizeof *lora);
    const int64_t r = chosen->rank, out = w->shape[0], in = w->shape[1];
    lora->a = (struct tensor){ .dtype = DTYPE_F32, .rank = 2, .shape = { r, in } };
    lora->b = (struct tensor){ .dtype = DTYPE_F32, .rank = 2, .shape = { out, r } };
    lora->scale = (float)scale_of(chosen);
    lora->stabilised = chosen->stabilised;
    if (former) *lora = *former;
    w->linear->lora = lora; // freed with parameter A
    const enum param_group group = params_group(w->part);
    const size_t a = p->count;
    int status = add(p, lora_name(w, "A"), PARAM_LORA_A, group, w, &lora->a, err);
    p->list[a].former = former;
    if (status == 0) status = add(p, lora_name(w, "B"), PARAM_LORA_B, group, w, &lora->b, err);
    if (status < 0 || former) return status;
    // Uniform in +-1/sqrt(in), as PEFT draws A (kaiming_uniform with a = sqrt 5).
    const double bound = 1 / sqrt((double)in);
    float *host = xreallocarray(NULL, (size_t)(r * in), sizeof *host);
    for (uint64_t i = 0; i < (uint64_t)(r * in); i++)
        host[i] = (float)(bound * (2 * random_unit(seed, RANDOM_LORA, (number << 40) + i) - 1));
    // A file's order of value heads changes no initial value of the adapter.
    decoder_reorder_heads(&p->model->decoder.config, w->name, true, host, r, sizeof *host, true);
    p->backend->upload(lora->a.data, host, (size_t)(r * in) * sizeof *host);
    free(host);
    if (p->backend->fill(&lora->b, 0) < 0) return err_set(err, "fill: %s", p->backend->failure());
    return 0;
}

// --- gradients and moments -----------------------------------------------------------------------

enum { SHARED_FROM = 64 << 20 }; // train.shard auto distributes moments of at least this many bytes

static int rank_count(const struct params *p)
{
    return p->forecast_ranks ? p->forecast_ranks : ranks_count(p->ranks);
}

int params_bucket(const struct params *p, bool vision, int layer)
{
    const int layers = p->model->decoder.config.layers, blocks = p->model->vision.config.layers;
    return vision ? layers + blocks - 1 - layer : layers - 1 - layer;
}

// The first buckets are the layers of the decoder, followed by the blocks of the encoder, both from
// the last to the first; all other matrices are in the last bucket. Vectors stay on all ranks
// (params_sum_to). So do embedding tables (Gemma 4 has two) and the head: a pass holds their
// gradients whole beside those of a layer, so sharding them would save nothing.
static int bucket_of(const struct params *p, const struct param *one)
{
    const struct model *m = p->model;
    const struct weight *w = one->weight;
    if (one->tensor->rank < 2 || one->stored.on_host ||
        (w && (w->part == PART_HEAD || w->part == PART_EMBEDDING)))
        return -1;
    const bool vision = w && w->part == PART_VISION;
    const int layer = w ? weight_layer(w) : -1,
              end = vision ? m->vision.config.layers : m->decoder.config.layers;
    return layer >= 0 && layer < end ? params_bucket(p, vision, layer) : p->buckets - 1;
}

// Assigns the parameters to ranks, by their gradients and moments. Returns the rank that holds
// most.
static int assign_owners(struct params *p)
{
    int64_t *cost = xcalloc(p->count + 1, sizeof *cost);
    int *owner = xcalloc(p->count + 1, sizeof *owner);
    for (size_t i = 0; i < p->count; i++)
        cost[i] = p->list[i].count * (p->list[i].bucket < 0 ? 2 : 3);
    const int most = ranks_assign(cost, p->count, rank_count(p), owner);
    for (size_t i = 0; i < p->count; i++) p->list[i].owner = owner[i];
    free(cost);
    free(owner);
    return most;
}

// Decides which rank holds what, and allocates this rank's part.
static int add_state(struct params *p, const struct settings *s, struct err *err)
{
    const bool gradients = settings_is(s, "train.shard", "gradients");
    const int64_t bytes = p->counted[MODEL_PARTS].trained * 2 * (int64_t)sizeof(float);
    p->shared_out = rank_count(p) > 1 && !settings_is(s, "train.shard", "off") &&
                    (settings_is(s, "train.shard", "on") || gradients || bytes >= SHARED_FROM);
    p->buckets = p->shared_out && gradients ? params_bucket(p, true, -1) + 1 : 0;
    for (size_t i = 0; p->buckets && i < p->count; i++)
        p->list[i].bucket = bucket_of(p, &p->list[i]);
    const int heaviest = p->shared_out ? assign_owners(p) : 0;
    p->rank = p->forecast_ranks ? heaviest : ranks_number(p->ranks);
    for (size_t i = 0; i < p->count; i++) {
        struct param *one = &p->list[i];
        backend_enter(p->backend, one->weight ? one->weight->gpu : 0); // the weight's GPU
        if (params_keep(p, one) && grad_keep(one->where, one->grad) < 0)
            return out_of_memory(one, err);
        if (!params_own(p, one)) continue;
        one->m = zeros(one->where, one->count);
        one->v = zeros(one->where, one->count);
        if (!one->m || !one->v) return out_of_memory(one, err);
    }
    return 0;
}

bool params_own(const struct params *p, const struct param *one)
{
    return !p->shared_out || one->owner == p->rank;
}

bool params_keep(const struct params *p, const struct param *one)
{
    return one->bucket < 0 || params_own(p, one);
}

int params_sum_to(const struct params *p, const struct param *one)
{
    return p->shared_out && one->tensor->rank > 1 ? one->owner : -1;
}

// --- all parameters ------------------------------------------------------------------------------

static int add_weights(struct params *p, const struct selection *s, uint64_t seed, struct err *err)
{
    const struct weights *w = &p->model->weights;
    for (size_t i = 0; i < w->count; i++) {
        const struct weight *one = &w->list[i];
        if (s->item[i].trained && add(p, xstrdup(one->name), PARAM_WEIGHT, params_group(one->part),
                                      one, one->tensor, err) < 0)
            return -1;
        if (s->item[i].rank && add_lora(p, one, &s->item[i], seed, i, err) < 0) return -1;
    }
    for (size_t i = 0; i < p->extra_count; i++)
        if (s->item[w->count + i].trained &&
            add(p, xstrdup(p->extra[i].name), PARAM_EXTRA, p->extra[i].group, NULL,
                p->extra[i].tensor, err) < 0)
            return -1;
    return 0;
}

int params_choose(struct selection *chosen, const struct model *m, const struct settings *s,
                  const struct param_extra *extra, size_t extra_count, struct err *err)
{
    const struct select_lora lora = { .rank = settings_integer(s, "train.lora.rank"),
                                      .alpha = settings_real(s, "train.lora.alpha"),
                                      .stabilised = settings_flag(s, "train.lora.rs") };
    const char *method = settings_text(s, "train.method"),
               *rules = settings_text(s, "train.params");
    size_t count;
    struct select_item *items = params_items(m, extra, extra_count, &count);
    const int status = settings_is(s, "train.params", "none")
                           ? select_method(chosen, method, &lora, items, count, err)
                           : select_spelled(chosen, rules, &lora, items, count, err);
    free(items);
    return status;
}

// Refuses to train all weights of a GGUF file or a quantised folder: the result would be a model
// folder, which takes files from the base folder and cannot hold quantised tensors.
static int check_whole(const struct model *m, const struct selection *chosen, struct err *err)
{
    const struct checkpoint *c = m->checkpoint;
    if (!chosen->whole || (!c->gguf_count && !c->quantised)) return 0;
    return err_set(err,
                   "a %s cannot be trained in full: choose a train.method that writes an "
                   "adapter (lora, layernorm ...)",
                   c->gguf_count ? "GGUF file" : "quantised folder");
}

static int check_shard(const struct settings *s, int ranks, struct err *err)
{
    if (ranks < 2 || !settings_is(s, "train.shard", "gradients") ||
        !settings_flag(s, "train.exact_sum"))
        return 0;
    return err_set(err, "train.exact_sum adds up gradients that every rank keeps, and train.shard "
                        "gradients keeps each on one rank: set train.exact_sum off, or train.shard "
                        "on");
}

static int check_former(const struct weight *w, const struct selected *chosen,
                        const struct settings *s, struct err *err)
{
    const struct lora *former = w->linear->lora;
    const int64_t rank = former->a.shape[0];
    const double was = former->scale, is = scale_of(chosen);
    if (rank != chosen->rank)
        return err_set(err,
                       "the LoRA of '%s' in the adapter has rank %lld, not %lld: train that rank, "
                       "or merge or unload the adapter first",
                       w->name, (long long)rank, (long long)chosen->rank);
    const bool changed =
        settings_changed(s, "train.lora.alpha") || settings_changed(s, "train.lora.rs");
    if (!changed || fabs(was - is) <= 1e-6 * fabs(was)) return 0;
    // An alpha that gives the adapter's scale.
    const double alpha = chosen->stabilised
                             ? lora_alpha(was, rank, true)
                             : lora_alpha(was, settings_integer(s, "train.lora.rank"), false);
    return err_set(err,
                   "the LoRA of '%s' in the adapter has alpha / %s %.7g, not %.7g: /set "
                   "train.lora.alpha %.7g, or merge or unload the adapter first",
                   w->name, chosen->stabilised ? "sqrt(rank)" : "rank", was, is, alpha);
}

// Checks that training can continue from the applied adapter's LoRA. The result records the scale
// that was used in training: if it already included adapter.scale, applying the result would
// multiply by adapter.scale again.
static int check_formers(const struct model *m, const struct selection *chosen,
                         const struct settings *s, struct err *err)
{
    if (!settings_is(s, "adapter", "none") && settings_is(s, "adapter.when", "pictures"))
        return err_set(err, "training continues from the adapter in every sample, with or "
                            "without a picture: /set adapter.when always, or merge or unload the "
                            "adapter first");
    if (model_head_untied(m))
        return err_set(err,
                       "the adapter has an output head of its own, which training would tie to "
                       "the embedding again: unload the adapter first");
    for (size_t i = 0; i < m->weights.count; i++) {
        const struct weight *w = &m->weights.list[i];
        if (!w->linear || !w->linear->lora) continue;
        if (settings_real(s, "adapter.scale") != 1)
            return err_set(
                err,
                "the adapter's LoRA is applied with adapter.scale %s, which would become part of "
                "the result: /set adapter.scale 1, or merge the adapter first",
                settings_text(s, "adapter.scale"));
        if (chosen->item[i].rank && check_former(w, &chosen->item[i], s, err) < 0) return -1;
    }
    return 0;
}

static int check_choice(const struct model *m, const struct selection *chosen,
                        const struct settings *s, int ranks, struct err *err)
{
    if (check_shard(s, ranks, err) < 0 || check_whole(m, chosen, err) < 0) return -1;
    return check_formers(m, chosen, s, err);
}

int params_check(const struct model *m, const struct settings *s, int ranks, struct err *err)
{
    struct selection chosen;
    size_t count;
    struct param_extra *extras = roles_extras(m, s, &count);
    int status = params_choose(&chosen, m, s, extras, count, err);
    if (status == 0) {
        status = check_choice(m, &chosen, s, ranks, err);
        selection_release(&chosen);
    }
    roles_extras_free(extras, count);
    return status;
}

int params_open(struct params *p, struct model *m, const struct settings *s, struct err *err)
{
    struct selection chosen;
    p->model = m;
    int status = params_choose(&chosen, m, s, p->extra, p->extra_count, err);
    if (status == 0) {
        memcpy(p->counted, chosen.parameters, sizeof p->counted);
        p->lora = chosen.lora;
        p->whole = chosen.whole;
        status = check_choice(m, &chosen, s, rank_count(p), err);
        if (status == 0)
            status = add_weights(p, &chosen, (uint64_t)settings_integer(s, "train.seed"), err);
        if (status == 0) status = add_state(p, s, err);
        backend_enter(p->backend, 0);
        selection_release(&chosen);
    }
    if (status < 0)
        params_release(p);
    else
        model_weights_changed(m);
    return status;
}

bool params_have_table(const struct params *p)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->list[i].stored.on_host) return true;
    return false;
}

void params_release(struct params *p)
{
    // Releases the parameters from the last to the first: B of a LoRA before A, which frees the
    // LoRA.
    for (size_t i = p->count; i-- > 0;) {
        struct param *one = &p->list[i];
        struct linear *layer = one->kind == PARAM_LORA_A ? one->weight->linear : NULL;
        struct lora *former = one->former;
        // Otherwise add() failed before it replaced the tensor.
        if (one->grad && one->tensor->grad == one->grad) {
            one->where->release(one->tensor->data);
            *one->tensor = one->stored;
        }
        grad_free(one->where, one->grad);
        one->where->release(one->m);
        one->where->release(one->v);
        free(one->name);
        if (!layer) continue;
        struct lora *lora = layer->lora;
        layer->lora = former;
        free(lora);
    }
    if (p->model) model_weights_changed(p->model);
    free(p->list);
    free(p->extra);
    *p = (struct params){ .backend = p->backend, .ranks = p->ranks };
}

int64_t params_pieces(const struct param *one)
{
    return one->grad->reached ? one->tensor->shape[0] : 1;
}

int params_each_piece(const struct param *one,
                      int (*work)(void *self, int64_t piece, int64_t from, int64_t count),
                      void *self)
{
    const atomic_bool *reached = one->grad->reached;
    const int64_t pieces = params_pieces(one),
                  count = reached ? tensor_row(one->tensor) : one->count;
    int status = 0;
#pragma omp parallel for schedule(dynamic, 64) reduction(min : status) if (pieces > 1)
    for (int64_t i = 0; i < pieces; i++)
        if ((!reached || reached[i]) && work(self, i, i * count, count) < 0) status = -1;
    return status;
}

void params_mark_reached(struct params *p)
{
    for (size_t k = 0; k < p->count; k++) {
        const struct param *one = &p->list[k];
        const int64_t width = tensor_row(one->tensor);
        for (int64_t r = 0; one->grad->reached && r < one->tensor->shape[0]; r++)
            for (int64_t i = r * width; one->m && i < (r + 1) * width; i++)
                if (one->m[i] != 0 || one->v[i] != 0) one->grad->reached[r] = true;
    }
}

static int clear_piece(void *self, int64_t piece, int64_t from, int64_t count)
{
    const struct param *one = self;
    if (!one->grad->data) return 0;
    struct tensor t = {
        .data = one->grad->data + from, .dtype = DTYPE_F32, .rank = 1, .shape = { count }
    };
    return one->where->fill(&t, 0);
}

int params_clear(struct params *p, struct err *err)
{
    for (size_t i = 0; i < p->count; i++)
        if (params_each_piece(&p->list[i], clear_piece, &p->list[i]) < 0)
            return err_set(err, "fill: %s", p->list[i].where->failure());
    return 0;
}

uint64_t params_digest(const struct params *p)
{
    enum { PIECE = 1 << 20 }; // elements
    float *host = xreallocarray(NULL, PIECE, sizeof *host);
    uint64_t digest = p->count;
    for (size_t i = 0; i < p->count; i++) {
        const struct param *one = &p->list[i];
        const float *master = one->tensor->data;
        for (int64_t at = 0; at < one->count; at += PIECE) {
            const size_t n = (size_t)(one->count - at < PIECE ? one->count - at : PIECE);
            one->where->download(host, master + at, n * sizeof *host);
            for (size_t k = 0; k < n; k += 2) { // eight bytes at a time, which is as fast as memory
                uint64_t two = 0;
                memcpy(&two, host + k, (n - k < 2 ? 1 : 2) * sizeof *host);
                digest = (digest ^ two) * 0x9e3779b97f4a7c15u;
                digest ^= digest >> 29;
            }
        }
    }
    free(host);
    return digest;
}

struct param *params_find(const struct params *p, const char *name)
{
    for (size_t i = 0; i < p->count; i++)
        if (!strcmp(p->list[i].name, name)) return &p->list[i];
    return NULL;
}
