// core/train/optimizer.c -- one step: gradient norm, clipping, AdamW with the rate of each group.
#include "core/train/optimizer.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/graph/tape.h"
#include "core/model/model.h"
#include "core/model/weights.h"
#include "core/ranks/ranks.h"
#include "core/settings/settings.h"
#include "core/train/select.h"

double schedule_share(enum schedule schedule, int64_t step, int64_t steps, int64_t warmup)
{
    if (step < warmup) return (double)step / (double)(warmup > 1 ? warmup : 1);
    if (schedule == SCHEDULE_CONSTANT) return 1;
    const int64_t rest = steps - warmup > 1 ? steps - warmup : 1;
    const double share = 0.5 * (1 + cos(acos(-1) * (double)(step - warmup) / (double)rest));
    return share > 0 ? share : 0;
}

static double rate_or(const struct settings *s, const char *key, double otherwise)
{
    return settings_is(s, key, "auto") ? otherwise : settings_real(s, key);
}

void optimizer_configure(struct optimizer *o, const struct params *p, const struct settings *s,
                         int64_t steps)
{
    // train.lr auto: the rate of train.method; with train.params, the rate of method lora or full.
    const char *method = settings_is(s, "train.params", "none") ? settings_text(s, "train.method")
                         : p->lora                              ? "lora"
                                                                : "full";
    const double rate = rate_or(s, "train.lr", select_method_rate(method));
    *o = (struct optimizer){
        .rate = { [GROUP_BACKBONE] = rate,
                  [GROUP_PROJECTOR] = rate_or(s, "train.lr.projector", rate),
                  [GROUP_VISION] = rate_or(s, "train.lr.vision", rate) },
        .beta1 = 0.9,
        .beta2 = settings_real(s, "train.beta2"),
        .eps = 1e-8,
        .clip = settings_real(s, "train.clip"),
        .schedule =
            settings_is(s, "train.schedule", "cosine") ? SCHEDULE_COSINE : SCHEDULE_CONSTANT,
        // The reference implementation's schedule starts at 0, so a run of one step would train
        // nothing.
        .warmup = steps > 1 ? (int64_t)ceil(settings_real(s, "train.warmup") * (double)steps) : 0,
        .steps = steps,
    };
    for (int g = 0; g < PARAM_GROUPS; g++) o->decay[g] = settings_real(s, "train.weight_decay");
    const struct method *m;
    for (int i = 0; (m = method_at(i)); i++) {
        if (m->training.rate)
            o->rate[GROUP_METHODS + i] = rate_or(s, m->training.rate, m->training.times * rate);
        if (m->training.decay) o->decay[GROUP_METHODS + i] = settings_real(s, m->training.decay);
    }
}

// Makes the GPU that stores a parameter current: it also computes the update.
static void param_enter(const struct params *p, const struct param *one)
{
    backend_enter(p->backend, one->weight ? one->weight->gpu : 0);
}

// The part of a step for one parameter.
struct share {
    const struct param *one;
    double *squares; // [pieces]
    struct adamw_step step;
};

static int square_piece(void *self, int64_t piece, int64_t from, int64_t count)
{
    const struct share *s = self;
    const struct tensor g = {
        .data = s->one->grad->data + from, .dtype = DTYPE_F32, .rank = 1, .shape = { count }
    };
    return s->one->where->sum_squares(&s->squares[piece], &g);
}

static int sum_squares(const struct params *p, const struct param *one, double *sum,
                       struct err *err)
{
    const int64_t pieces = params_pieces(one);
    struct share s = { .one = one, .squares = xcalloc((size_t)pieces, sizeof *s.squares) };
    param_enter(p, one);
    const int status = params_each_piece(one, square_piece, &s);
    for (int64_t i = 0; i < pieces; i++) *sum += s.squares[i];
    free(s.squares);
    return status < 0 ? err_set(err, "sum_squares: %s", one->where->failure()) : 0;
}

// The rank that updates a parameter computes its gradient's sum of squares; all ranks add these
// sums in the same order as a single rank would.
static int gradient_norm(const struct params *p, double *norm, struct err *err)
{
    double *squares = xcalloc(p->count + 1, sizeof *squares), sum = 0;
    int status = 0;
    for (size_t k = 0; k < p->count && status == 0; k++)
        if (params_own(p, &p->list[k])) status = sum_squares(p, &p->list[k], &squares[k], err);
    if (status == 0 && p->shared_out) ranks_sum_doubles(p->ranks, squares, p->count);
    for (size_t k = 0; k < p->count; k++) sum += squares[k];
    free(squares);
    *norm = sqrt(sum);
    return status;
}

static int update_piece(void *self, int64_t piece, int64_t from, int64_t count)
{
    const struct share *s = self;
    const struct param *one = s->one;
    struct tensor t[4] = { { .data = (float *)one->tensor->data + from },
                           { .data = one->grad->data + from },
                           { .data = one->m + from },
                           { .data = one->v + from } };
    for (int i = 0; i < 4; i++) t[i].rank = 1, t[i].shape[0] = count;
    return one->where->adamw(&t[0], &t[1], &t[2], &t[3], &s->step);
}

// With weight decay, rows that no gradient has reached shrink too.
static int update(const struct params *p, const struct param *one, const struct adamw_step *step,
                  struct err *err)
{
    struct share s = { .one = one, .step = *step };
    param_enter(p, one);
    const int status = step->decay != 0 ? update_piece(&s, 0, 0, one->count)
                                        : params_each_piece(one, update_piece, &s);
    return status < 0 ? err_set(err, "adamw on '%s': %s", one->name, one->where->failure()) : 0;
}

// If the moments are distributed: sends the masters that this rank has updated to all ranks, and
// receives the others.
static int share_masters(const struct params *p, struct err *err)
{
    enum { PIECE = 1 << 20 }; // elements
    if (!p->shared_out) return 0;
    const bool gpus = ranks_between_gpus(p->ranks);
    if (gpus) { // sends masters in GPU memory from GPU to GPU
        int status = ranks_gpu_begin(p->ranks, err);
        for (size_t i = 0; i < p->count && status == 0; i++) {
            const struct param *one = &p->list[i];
            const size_t bytes = (size_t)one->count * sizeof(float);
            if (one->where->own_memory)
                status = ranks_gpu_share(p->ranks, one->tensor->data, bytes, one->owner, err);
        }
        if (status < 0 || ranks_gpu_end(p->ranks, err) < 0) return -1;
    }
    float *host = xreallocarray(NULL, PIECE, sizeof *host);
    for (size_t i = 0; i < p->count; i++) {
        const struct param *one = &p->list[i];
        float *master = one->tensor->data;
        if (!one->where->own_memory)
            ranks_share(p->ranks, master, (size_t)one->count * sizeof *master, one->owner);
        if (gpus || !one->where->own_memory) continue;
        for (int64_t at = 0; at < one->count; at += PIECE) {
            const size_t n = (size_t)(one->count - at < PIECE ? one->count - at : PIECE);
            if (params_own(p, one)) one->where->download(host, master + at, n * sizeof *host);
            ranks_share(p->ranks, host, n * sizeof *host, one->owner);
            if (!params_own(p, one)) one->where->upload(master + at, host, n * sizeof *host);
        }
    }
    free(host);
    return 0;
}

int optimizer_step(struct optimizer *o, struct params *p, struct optimizer_taken *taken,
                   struct err *err)
{
    const double share = schedule_share(o->schedule, o->step, o->steps, o->warmup);
    taken->rate = share * o->rate[GROUP_BACKBONE];
    int status = gradient_norm(p, &taken->norm, err);
    if (status == 0 && !isfinite(taken->norm))
        status = err_set(err,
                         "the gradient of step %lld is not finite: lower train.lr, or check the "
                         "weights for damage",
                         (long long)o->step);
    // As in torch's clip_grad_norm_.
    const double clip = o->clip > 0 ? o->clip / (taken->norm + 1e-6) : 1;
    o->step += status == 0;
    for (size_t i = 0; i < p->count && status == 0; i++) {
        const struct param *one = &p->list[i];
        const struct adamw_step step = { .lr = share * o->rate[one->group],
                                         .beta1 = o->beta1,
                                         .beta2 = o->beta2,
                                         .eps = o->eps,
                                         .decay = one->decay ? o->decay[one->group] : 0,
                                         .scale = clip < 1 ? clip : 1,
                                         .step = o->step };
        if (params_own(p, one)) status = update(p, one, &step, err);
    }
    if (status == 0) status = share_masters(p, err);
    if (status == 0) model_weights_changed(p->model);
    backend_enter(p->backend, 0);
    return status;
}
