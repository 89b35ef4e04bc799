// kernels/fused_experts.cu -- a mixture of experts for few rows, one row after the other (fused.h).
// The choice of experts stays on the device, so nothing waits for the host and a token's kernels
// can be replayed.
//
//   logits of the router -> choice, by one warp -> silu(gate) * up of the shared and the chosen
//   experts in one kernel -> their down products, summed in one kernel
//
// The last two steps compute products of a row as few_rows.cu does; the choice selects their
// weights.
#include "kernels/few_rows_cuda.h"
#include "kernels/fused_cuda.h"

// Limits: one table of MOST experts' addresses fits into a kernel's arguments (4 KB before CUDA
// 12.1), so each kernel has one table; a row's chosen experts have one lane each.
static constexpr int MOST = 512, CHOSEN_MOST = WARP;

// Weights by expert: offsets from `base` in units of 16 bytes, or of one block.
struct table {
    const void *base;
    int at[MOST];
};

// --- the choice ----------------------------------------------------------------------------------

struct choice {
    const float *logits, *bias; // [E]; bias NULL: weights are a softmax of the logits
    int32_t *index, *gate_at;   // [count]; gate_at: offsets of the chosen gates (struct table)
    float *weight;              // [count + 1], the last: factor of the shared expert
    int experts, count, groups, groups_per_token;
    bool gated; // logits[E] is the logit of the shared expert's gate
    bool normalise;
    float scale;
    struct table gates;
};

// The largest of a lane's elements that are not taken, the first on ties; `at` is its index, or -1
// if none is left.
struct best {
    float x;
    int at;
};

// Returns the index of the best element of all lanes; -1: none is left.
static __device__ inline int best_of(struct best b)
{
    for (int lanes = WARP / 2; lanes; lanes /= 2) {
        const struct best o = { __shfl_xor_sync(ALL_LANES, b.x, lanes),
                                __shfl_xor_sync(ALL_LANES, b.at, lanes) };
        if (o.at >= 0 && (b.at < 0 || o.x > b.x || (o.x == b.x && o.at < b.at))) b = o;
    }
    return __shfl_sync(ALL_LANES, b.at, 0);
}

static __device__ inline int best_left(const float *score, const int *taken, int n)
{
    struct best b = { 0, -1 };
    for (int i = (int)threadIdx.x; i < n; i += WARP)
        if (!taken[i] && (b.at < 0 || score[i] > b.x)) b = { score[i], i };
    return best_of(b);
}

// The sum of a group's two best scores.
static __device__ inline float group_score(const float *score, int size)
{
    float first = -INFINITY, second = -INFINITY;
    for (int i = 0; i < size; i++) {
        second = fmaxf(second, fminf(first, score[i]));
        first = fmaxf(first, score[i]);
    }
    return first + second;
}

// Excludes experts outside the best groups.
static __device__ inline void choose_groups(const struct choice &c, const float *score, int *taken,
                                            float *of_group, int *chosen)
{
    const int size = c.experts / c.groups;
    for (int g = (int)threadIdx.x; g < c.groups; g += WARP) {
        of_group[g] = group_score(score + g * size, size);
        chosen[g] = false;
    }
    __syncwarp();
    for (int k = 0; k < c.groups_per_token; k++) {
        const int g = best_left(of_group, chosen, c.groups);
        __syncwarp();
        if (threadIdx.x == 0) chosen[g] = true;
        __syncwarp();
    }
    for (int i = (int)threadIdx.x; i < c.experts; i += WARP) taken[i] = !chosen[i / size];
    __syncwarp();
}

static __global__ void choose_kernel(const __grid_constant__ struct choice c)
{
    __shared__ float score[MOST], of_group[MOST];
    __shared__ int taken[MOST], chosen[MOST]; // 0 or 1
    const int lane = (int)threadIdx.x;
    cuda_let_next_start();
    cuda_wait_previous();
    for (int i = lane; i < c.experts; i += WARP) {
        score[i] = c.bias ? sigmoid(c.logits[i]) + c.bias[i] : c.logits[i];
        taken[i] = false;
    }
    __syncwarp();
    if (c.groups_per_token < c.groups) choose_groups(c, score, taken, of_group, chosen);
    int mine = 0;
    for (int k = 0; k < c.count; k++) {
        const int e = best_left(score, taken, c.experts);
        __syncwarp();
        if (lane == 0) taken[e] = true;
        if (lane == k) mine = e;
        __syncwarp();
    }
    const float most = __shfl_sync(ALL_LANES, c.logits[mine], 0); // of the first choice
    const auto weigh = [&](float x) { return c.bias ? sigmoid(x) : expf(x - most); };
    const float s = lane < c.count ? weigh(c.logits[mine]) : 0;
    float by = c.normalise ? warp_sum(s) + (c.bias ? 1e-20F : 0) : 1;
    if (!c.normalise && !c.bias) {
        float sum = 0;
        for (int i = lane; i < c.experts; i += WARP) sum += weigh(c.logits[i]);
        by = warp_sum(sum);
    }
    if (lane == 0) c.weight[c.count] = c.gated ? sigmoid(c.logits[c.experts]) : 1;
    if (lane >= c.count) return;
    c.index[lane] = mine;
    c.gate_at[lane] = c.gates.at[mine];
    c.weight[lane] = s / by * c.scale;
}

// --- the experts' products -----------------------------------------------------------------------

// silu(gate x) * up x of the shared expert, then of the chosen experts.
struct up_call {
    const float *x, *gain; // [D]
    float eps;
    int64_t k;             // D
    const void *gate, *up; // weights of the shared expert
    int64_t common, width; // inner widths of the shared expert and of each other expert
    const int32_t *index;  // [slots]
    float *y;              // [common + slots * width]
    int64_t slots;
    const void *gates;      // base of gate_at
    const int32_t *gate_at; // [slots]
    struct table ups;
};

template <typename T> static __device__ inline const T *expert_at(const void *base, int at)
{
    constexpr int64_t UNIT = reader<T>::NUMBERS > 1 ? sizeof(T) : 16;
    return reinterpret_cast<const T *>(static_cast<const char *>(base) + at * UNIT);
}

template <typename T>
static __global__ void __launch_bounds__(THREADS, BLOCKS)
    up_kernel(const __grid_constant__ struct up_call p)
{
    SHARED_MEMORY(float, x);
    const int lane = threadIdx.x % WARP;
    const int64_t first = (int64_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    const int64_t step = (int64_t)gridDim.x * WARPS, units = p.common + p.slots * p.width;
    cuda_let_next_start();
    cuda_wait_previous();
    const float scale = stage<T>(x, p.x, p, whole_steps<T>(p.k));
    const int64_t count = first < units ? (units - first + step - 1) / step : 0;
    const auto rows = [&](const T *row[ROWS], int64_t i) -> struct leg {
        const int64_t unit = first + i * step, other = unit - p.common;
        row[0] = row[1] = nullptr;
        if (unit < p.common) {
            row[0] = row_of<T>(p.gate, unit, p.k);
            row[1] = row_of<T>(p.up, unit, p.k);
        } else if (unit < units) {
            const int64_t slot = other / p.width;
            const T *gate = expert_at<T>(p.gates, p.gate_at[slot]),
                    *up = expert_at<T>(p.ups.base, p.ups.at[p.index[slot]]);
            row[0] = row_of<T>(gate, other % p.width, p.k);
            row[1] = row_of<T>(up, other % p.width, p.k);
        }
        return { p.k, 0 };
    };
    walk<T>(count, x, lane, rows, [&](int64_t i, const float sum[ROWS]) {
        const float gate = warp_sum(sum[0]) * scale, up = warp_sum(sum[1]) * scale;
        if (lane == 0) p.y[first + i * step] = gate / (1 + expf(-gate)) * up;
    });
}

// h += the outputs of shared and chosen experts.
struct down_call {
    float *h;         // [D]
    int64_t rows;     // D
    const float *x;   // the result up_call.y
    const void *down; // weight of the shared expert
    int64_t common, width;
    const int32_t *index;
    const float *weight; // [slots + 1], the last: factor of the shared expert
    int64_t slots;
    struct table downs;
};

// A warp computes two elements of h, one expert after the other.
template <typename T>
static __global__ void __launch_bounds__(THREADS, BLOCKS)
    down_kernel(const __grid_constant__ struct down_call p)
{
    SHARED_MEMORY(float, x);
    const int lane = threadIdx.x % WARP, shared = p.common ? 1 : 0;
    const int64_t first = (int64_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    const int64_t step = (int64_t)gridDim.x * WARPS, units = (p.rows + 1) / ROWS;
    const int64_t legs = shared + p.slots, wide = whole_steps<T>(p.common),
                  one = whole_steps<T>(p.width);
    cuda_let_next_start();
    cuda_wait_previous();
    stage_some<T>(x, p.x, p.common, p.weight[p.slots]);
    for (int64_t s = 0; s < p.slots; s++)
        stage_some<T>(x + wide + s * one, p.x + p.common + s * p.width, p.width, p.weight[s]);
    __syncthreads();
    const int64_t count = first < units ? (units - first + step - 1) / step : 0;
    const auto rows = [&](const T *row[ROWS], int64_t i) -> struct leg {
        const int64_t unit = first + i / legs * step, slot = i % legs - shared;
        const T *w = static_cast<const T *>(p.down);
        if (slot >= 0) w = expert_at<T>(p.downs.base, p.downs.at[p.index[slot]]);
        const struct leg leg =
            slot < 0 ? (struct leg){ p.common, 0 } : (struct leg){ p.width, wide + slot *one };
        for (int r = 0; r < ROWS; r++) {
            const int64_t at = unit * ROWS + r;
            row[r] = at < p.rows ? row_of<T>(w, at, leg.k) : nullptr;
        }
        return leg;
    };
    float total[ROWS] = { 0, 0 };
    walk<T>(count * legs, x, lane, rows, [&](int64_t i, const float sum[ROWS]) {
        UNROLL
        for (int r = 0; r < ROWS; r++) total[r] += sum[r];
        if (i % legs != legs - 1) return;
        UNROLL
        for (int r = 0; r < ROWS; r++) {
            const int64_t at = (first + i / legs * step) * ROWS + r;
            const float all = warp_sum(total[r]);
            if (lane == 0 && at < p.rows) p.h[at] += all;
            total[r] = 0;
        }
    });
}

template <typename T> static int up(const struct up_call &c)
{
    return launch_units(up_kernel<T>, "experts", c, c.common + c.slots * c.width,
                        whole_steps<T>(c.k));
}

template <typename T> static int down(const struct down_call &c)
{
    const int64_t numbers = whole_steps<T>(c.common) + c.slots * whole_steps<T>(c.width);
    return launch_units(down_kernel<T>, "experts", c, (c.rows + 1) / ROWS, numbers);
}

static_assert(sizeof(struct choice) <= 4096 && sizeof(struct up_call) <= 4096 &&
                  sizeof(struct down_call) <= 4096,
              "before CUDA 12.1, a kernel takes 4 KB of arguments");

// --- the call ------------------------------------------------------------------------------------

// Adds expert e's weight to the table; false if the weight has another dtype, its offset does not
// fit, or lanes cannot read it.
static bool enter(struct table *t, int64_t e, const struct tensor *w, enum dtype dtype)
{
    const int64_t bytes = static_cast<const char *>(w->data) - static_cast<const char *>(t->base);
    const int64_t unit = dtype_in_blocks(dtype) ? dtype_form(dtype).bytes : 16;
    t->at[e] = (int)(bytes / unit);
    return w->dtype == dtype && weights_readable(w->data, tensor_row(w), dtype) &&
           bytes % unit == 0 && bytes / unit == t->at[e];
}

// True if shared and routed experts have the same dtypes: one for gate and up, and one for down.
static bool same_dtypes(const struct fused_gated &a, const struct fused_gated &b)
{
    return a.gate->dtype == a.up->dtype && a.gate->dtype == b.gate->dtype &&
           a.up->dtype == b.up->dtype && a.down->dtype == b.down->dtype;
}

static bool readable(const struct tensor *w)
{
    return weights_readable(w->data, tensor_row(w), w->dtype);
}

static bool fill_tables(const struct fused_experts *p, struct choice *c, struct up_call *u,
                        struct down_call *d)
{
    const struct fused_gated &first = p->expert[0], &shared = p->shared;
    const enum dtype dtype = first.gate->dtype;
    u->gates = c->gates.base = first.gate->data;
    u->ups.base = first.up->data;
    d->downs.base = first.down->data;
    if (!same_dtypes(first, shared.gate ? shared : first)) return false;
    if (shared.gate && !(readable(shared.gate) && readable(shared.up) && readable(shared.down)))
        return false;
    for (int64_t e = 0; e < p->router->shape[0]; e++) {
        const struct fused_gated &w = p->expert[e];
        if (!enter(&c->gates, e, w.gate, dtype) || !enter(&u->ups, e, w.up, dtype) ||
            !enter(&d->downs, e, w.down, first.down->dtype))
            return false;
    }
    return true;
}

// Computes the logits of the router and of the shared expert's gate for row x; chooses its experts.
static int route(const struct fused_experts *p, const float *x, float *logits,
                 const struct choice *choice)
{
    const struct fused_linear router_of = { p->router, nullptr, 0, 0, 0 };
    const struct fused_linear gate_of = { p->shared_gate, nullptr, 0, 0, 0 };
    struct few_rows router =
        few_rows_of(x, 1, p->h->shape[1], p->shared_gate ? 2 : 1, FEW_ROWS_STORE);
    router.gain = floats(p->gain);
    router.eps = p->eps;
    router.part[0] = fused_part(&router_of, logits, p->router->shape[0]);
    if (p->shared_gate) router.part[1] = fused_part(&gate_of, logits + p->router->shape[0], 1);
    const int status = few_rows_product(&router);
    return status ? status : LAUNCH_EARLY(choose_kernel, (size_t)1, WARP, 0, *choice);
}

// Adds the experts' outputs to row i of h.
static int row(const struct fused_experts *p, int64_t i, struct up_call *u, struct down_call *d,
               const struct choice *choice, float *logits)
{
    u->x = d->h = floats(p->h) + i * u->k;
    int status = route(p, u->x, logits, choice);
    if (!status) status = FOR_WEIGHTS(p->expert->gate->dtype, up, *u);
    return status ? status : FOR_WEIGHTS(p->expert->down->dtype, down, *d);
}

int fused_experts_cuda(const struct fused_experts *p)
{
    const int64_t experts = p->router->shape[0], width = p->expert->gate->shape[0];
    const int64_t common = p->shared.gate ? p->shared.gate->shape[0] : 0;
    struct choice choice = {};
    struct up_call u = {};
    struct down_call d = {};
    if (p->h->shape[0] > FEW_ROWS || experts > MOST || p->count > CHOSEN_MOST ||
        !fill_tables(p, &choice, &u, &d))
        return FUSED_NOT;
    char *scratch = static_cast<char *>(cuda_scratch(
        (size_t)(experts + 3 * p->count + 2 + common + p->count * width) * sizeof(float) + 1024));
    if (!scratch) return -1;
    float *logits = scratch_take<float>(&scratch, experts + 1);
    int32_t *index = scratch_take<int32_t>(&scratch, p->count);
    int32_t *gate_at = scratch_take<int32_t>(&scratch, p->count);
    float *weight = scratch_take<float>(&scratch, p->count + 1);
    u.gain = floats(p->gain), u.eps = p->eps, u.k = d.rows = p->h->shape[1];
    u.gate = common ? p->shared.gate->data : nullptr;
    u.up = common ? p->shared.up->data : nullptr;
    d.down = common ? p->shared.down->data : nullptr;
    u.common = d.common = common, u.width = d.width = width, u.slots = d.slots = p->count;
    u.index = d.index = index, u.gate_at = gate_at, d.weight = weight;
    d.x = u.y = reinterpret_cast<float *>(scratch);
    choice.logits = logits, choice.bias = p->bias ? floats(p->bias) : nullptr;
    choice.index = index, choice.gate_at = gate_at, choice.weight = weight;
    choice.experts = (int)experts, choice.count = (int)p->count;
    choice.groups = (int)p->groups, choice.groups_per_token = (int)p->groups_per_token;
    choice.gated = p->shared_gate != nullptr;
    choice.normalise = p->normalise, choice.scale = p->scale;
    int status = 0;
    for (int64_t i = 0; i < p->h->shape[0] && !status; i++)
        status = row(p, i, &u, &d, &choice, logits);
    return status;
}
