// core/train/forecast.c -- counts the memory of a training run on a device that computes nothing.
//
//   outline of the model -> sft_prepare -> the micro-batch with the largest pass -> sft_memory
//
// With train.checkpointing auto, the first dry run recomputes every layer. If it leaves free
// memory, a second one keeps activations; if not, a second one offloads layer inputs to the host
// (GPUs only). With train.embedding auto, the first dry run trains the embedding on the GPU; if
// that does not fit, it is repeated with the embedding on the host.
#include "core/train/forecast.h"

#include <stdlib.h>
#include <string.h>

#include "core/eval/loss.h"
#include "core/files/safetensors.h"
#include "core/graph/dry.h"
#include "core/model/converted.h"
#include "core/model/families/family.h"
#include "core/new/outline.h"
#include "core/ranks/ranks.h"
#include "core/template/message.h"
#include "core/train/sft_parts.h"

// One dry run.
struct dry {
    struct job job;
    struct sinks sinks; // none
    struct sft t;
};

// The input of the dry run's passes: samples of a real run, or rows.
struct load {
    const struct sft *real; // NULL: made-up samples
    const int64_t *which;   // samples of `real`: indices in its training data
    int64_t count;
    int64_t rows;
    const struct backend *where; // device of the run; NULL: the host
    uint64_t loaded;             // without `real`: bytes of a loaded model's own memory
};

static bool has_own_memory(const struct backend *b)
{
    return b && b->own_memory;
}

// Memory for the run: free memory plus the part of the forecast that this process has allocated.
// Ranks on a machine share its memory; each has its own GPU.
static uint64_t free_memory(const struct load *load)
{
    const struct ranks *r = load->real ? load->real->job->ranks : NULL;
    const struct backend *b = load->real ? load->real->job->backend : NULL;
    size_t most;
    const uint64_t held = b && b->memory ? b->memory->held(&most) : 0,
                   all = memory_free(load->where) + held;
    return r && !has_own_memory(load->where) ? all / (uint64_t)r->beside : all;
}

static int dry_open(struct dry *d, struct model *outline, const struct settings *s,
                    const struct load *load, const struct forecast *f, struct err *err)
{
    *d = (struct dry){ .t = { .where = load->where ? load->where : backend_cpu(),
                              .out = { .lock = -1 } } };
    d->job = (struct job){ .model = outline,
                           .settings = settings_copy(s),
                           .backend = backend_dry(),
                           .sinks = &d->sinks,
                           .answer_lock = -1 };
    d->t.job = &d->job;
    d->t.plan.forecast.keep = f->keep;
    d->t.plan.forecast.offload = f->offload;
    d->t.plan.forecast.moves_tables = f->moves_tables;
    d->t.params.forecast_ranks = sft_ranks(load->real ? load->real : &d->t);
    backend_dry_reset(has_own_memory(load->where));
    return sft_prepare(&d->t, err);
}

// --- passes --------------------------------------------------------------------------------------

static int run_real(struct dry *d, const struct load *load, struct forecast *f, struct err *err)
{
    struct sft_set set = { .data = load->real->train.data };
    struct sft_losses *losses = xcalloc((size_t)load->count + 1, sizeof *losses);
    f->samples = load->count;
    f->rows = 0;
    set.loader = (struct loader){ .data = &set.data,
                                  .model = d->job.model,
                                  .settings = d->job.settings,
                                  .backend = d->job.backend,
                                  .frozen = d->t.train.loader.frozen };
    d->t.graph.tape = &d->t.tape;
    const int status =
        sft_run(&d->t, &set, load->which, load->count, 0, 1, 0, losses, &f->rows, err);
    d->t.graph.tape = NULL;
    free(losses);
    // Assumes that all pictures have the mean size of those loaded here.
    if (set.loader.known_count)
        d->t.train.loader.most =
            set.loader.used / set.loader.known_count * load->real->train.picture_files;
    loader_release(&set.loader);
    return status;
}

// Makes a sample of `rows` rows: a picture first (if the model has a vision encoder), an answer
// last.
static void make_labels(struct labels *l, const struct model *m, int64_t rows,
                        const struct picture *picture)
{
    const int64_t tokens = picture->tokens;
    *l = (struct labels){ 0 };
    sequence_init(&l->sequence, rows, 1);
    for (int64_t i = 0; i < tokens && i < rows; i++) {
        l->sequence.ids[i] = m->placeholder;
        l->sequence.picture[i] = 0;
        l->sequence.cell[i] = (int32_t)i;
    }
    l->target = xcalloc((size_t)rows, sizeof *l->target);
    const int64_t text = rows > tokens ? rows - tokens : 1;
    for (int64_t i = 0; i < rows - (text + 1) / 2; i++) l->target[i] = -1;
    l->trained = (text + 1) / 2;
    if (m->family->positions) m->family->positions(m, picture, &l->sequence);
}

// Makes a black picture; if encoder and projector are frozen, encodes it, as the loader does.
static int make_picture(struct dry *d, struct picture *p, struct err *err)
{
    const struct model *m = d->job.model;
    int64_t width, height;
    m->family->pictures->usual(m, &width, &height);
    p->image = (struct image){ .width = width, .height = height, .channels = 3 };
    p->image.pixels = xcalloc((size_t)(width * height), 3);
    model_size_picture(m, p, width, height, 1, preprocess_limit(d->job.settings));
    if (!d->t.train.loader.frozen) return 0;
    struct loader loader = { .model = m, .settings = d->job.settings, .backend = d->job.backend };
    return loader_encode(&loader, &d->t.graph, p, err);
}

// Returns the number of samples that a rank computes together; all have the same number of rows.
static int64_t samples_of_rank(struct sft *t)
{
    t->plan.batch = settings_integer(t->job->settings, "train.batch");
    const int64_t all = settings_integer(t->job->settings, "train.accumulate") * t->plan.batch,
                  share = (all + sft_ranks(t) - 1) / sft_ranks(t);
    return share < t->plan.batch && !sft_assigns_batches(t, all) ? share : t->plan.batch;
}

static int run_rows(struct dry *d, const struct load *load, struct forecast *f, struct err *err)
{
    const struct model *m = d->job.model;
    const int64_t batch = samples_of_rank(&d->t);
    struct picture picture = { 0 };
    struct labels labels = { 0 };
    if (model_has_vision(m) && make_picture(d, &picture, err) < 0) {
        loader_picture_release(d->job.backend, &picture);
        return -1;
    }
    make_labels(&labels, m, load->rows ? load->rows : picture.tokens + FORECAST_TEXT_ROWS,
                &picture);
    const struct loss_item item = { .pictures = &picture,
                                    .picture_count = picture.tokens ? 1 : 0,
                                    .labels = &labels };
    int64_t count = 1;
    while (count < batch && sft_pass_takes(&d->t, count, count * labels.sequence.n)) count++;
    struct loss_item *items = xcalloc((size_t)count, sizeof *items);
    double *losses = xcalloc((size_t)count, sizeof *losses);
    for (int64_t i = 0; i < count; i++) items[i] = item;
    f->samples = count;
    f->rows = count * labels.sequence.n;
    if (model_has_vision(m) && !m->vision.config.image_size)
        m->family->pictures->usual(m, &f->picture_width, &f->picture_height);
    d->t.graph.tape = &d->t.tape;
    int status = loss_batch(&d->t.graph, m, items, (size_t)count, 1, losses);
    if (status < 0) err_set(err, "%s", d->t.graph.err.text);
    free(items);
    free(losses);
    labels_release(&labels);
    loader_picture_release(d->job.backend, &picture);
    return status;
}

// --- the forecast --------------------------------------------------------------------------------

// Counts every lane that ran as if it were the largest, because over a whole run each lane
// eventually gets the longest samples. Returns the bytes of an arena.
static size_t level_lanes(struct lanes *l)
{
    size_t arena = 0, held = 0;
    uint64_t pool = 0;
    for (int k = 0; k < LANES; k++) {
        if (l->list[k].arena.peak > arena) arena = l->list[k].arena.peak;
        if (l->list[k].tape.held > held) held = l->list[k].tape.held;
        if (l->list[k].tape.peak > pool) pool = l->list[k].tape.peak;
    }
    for (int k = 0; k < LANES; k++) {
        if (!l->list[k].arena.peak) continue; // fewer samples than lanes
        l->list[k].arena.peak = arena;
        l->list[k].tape.held = held;
        l->list[k].tape.peak = pool;
    }
    return arena;
}

// Bytes of the weights that stay in host memory as the file stores them, even if a run trains an
// f32 master of them on the GPU.
static uint64_t tables_bytes(const struct model *outline)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < outline->weights.count; i++) {
        const struct weight *w = &outline->weights.list[i];
        if (w->tensor->on_host) bytes += checkpoint_find(outline->checkpoint, w->name)->bytes;
    }
    return bytes;
}

static int count_once(struct forecast *f, struct model *outline, const struct settings *s,
                      const struct load *load, struct err *err)
{
    struct dry d;
    const uint64_t tables = tables_bytes(outline);
    int status = dry_open(&d, outline, s, load, f, err);
    if (status == 0) status = load->real ? run_real(&d, load, f, err) : run_rows(&d, load, f, err);
    if (status == 0) {
        f->moves_tables &= params_have_table(&d.t.params);
        f->lane = level_lanes(&d.t.lanes);
        sft_memory(&d.t, &f->parts);
        memcpy(f->count, d.t.params.counted, sizeof f->count);
        f->arena = d.t.arena.peak;
        f->arithmetic = graph_precision(d.t.graph.matmul);
        // A device with separate memory gets a copy of the mapped weights, except those kept on the
        // host.
        if (has_own_memory(load->where))
            f->parts.of[MEMORY_WEIGHTS] += checkpoint_mapped(outline->checkpoint) - tables;
    }
    sft_release(&d.t);
    settings_free(d.job.settings);
    if (status < 0) return -1;
    // Memory that is already in use and that no other part counts.
    const struct sft *real = load->real;
    const uint64_t now = memory_now(), known = real ? real->job->model->arena.used +
                                                          real->train.loader.used +
                                                          real->validation.loader.used
                                                    : load->loaded;
    f->parts.of[MEMORY_PROGRAM] = !has_own_memory(load->where) && now > known ? now - known : 0;
    if (!real) return 0;
    // Counts at least the pictures that the check has decoded, and at most the cache's capacity.
    uint64_t *pictures = &f->parts.of[MEMORY_PICTURES];
    const uint64_t have = real->train.loader.used + real->validation.loader.used;
    if (*pictures > LOADER_CAPACITY) *pictures = LOADER_CAPACITY;
    if (*pictures < have) *pictures = have;
    return 0;
}

// TABLE_AS_SET: on the GPU if the run fits there. The first of several GPUs holds the table, but
// free memory is known only for all of them together: then on the host.
static enum table_place table_place(const struct settings *s, const struct load *load)
{
    if (!has_own_memory(load->where)) return TABLE_ON_HOST;
    if (load->real && load->real->plan.table != TABLE_AS_SET) return load->real->plan.table;
    if (settings_is(s, "train.embedding", "gpu")) return TABLE_ON_GPU;
    const bool one = backend_gpus(load->where) == 1;
    return one && settings_is(s, "train.embedding", "auto") ? TABLE_AS_SET : TABLE_ON_HOST;
}

static int count(struct forecast *f, struct model *outline, const struct settings *s,
                 const struct load *load, struct err *err)
{
    if (roles_of(f->role, outline, s, err) < 0) return -1;
    f->keep = 0;
    f->offload = has_own_memory(load->where) && settings_is(s, "train.checkpointing", "host");
    const enum table_place table = table_place(s, load);
    f->moves_tables = table != TABLE_ON_HOST;
    if (count_once(f, outline, s, load, err) < 0) return -1;
    const uint64_t with_table = memory_own(&f->parts);
    // A twentieth stays free: the run may need a little more than the forecast.
    if (f->moves_tables && table == TABLE_AS_SET &&
        with_table + with_table / 20 > free_memory(load)) {
        f->moves_tables = false;
        if (count_once(f, outline, s, load, err) < 0) return -1;
    }
    if (!settings_is(s, "train.checkpointing", "auto")) return 0;
    const uint64_t own = memory_own(&f->parts);
    const uint64_t most = free_memory(load);
    if (most > own)
        f->keep = f->parts.of[MEMORY_ACTIVATIONS] + (most - own) / 2;
    else if (has_own_memory(load->where))
        f->offload = true;
    else
        return 0;
    return count_once(f, outline, s, load, err);
}

int sft_forecast(const struct sft *t, struct forecast *f, struct err *err)
{
    struct load load = { .real = t, .where = t->where };
    struct model *outline = outline_model(t->job->model, err);
    if (!outline) return -1;
    int64_t *which = sft_heaviest(t, &load.count);
    load.which = which;
    *f = (struct forecast){ 0 };
    const int status = count(f, outline, t->job->settings, &load, err);
    free(which);
    outline_free(outline);
    return status < 0 ? err_in(err, "forecast") : 0;
}

static int of_rows(struct forecast *f, struct model *outline, const struct settings *s,
                   const struct load *load, struct err *err)
{
    *f = (struct forecast){ 0 };
    const int status = count(f, outline, s, load, err);
    outline_free(outline);
    return status;
}

int forecast_model(struct forecast *f, const struct model *m, const struct settings *s,
                   int64_t rows, struct err *err)
{
    struct model *outline = outline_model(m, err);
    const struct load load = { .rows = rows, .where = m->arena.backend, .loaded = m->arena.used };
    return outline ? of_rows(f, outline, s, &load, err) : -1;
}

int forecast_shape(struct forecast *f, const char *shape, const struct settings *s, int64_t rows,
                   const struct backend *where, struct err *err)
{
    struct model *outline = outline_shape(shape, err);
    const uint64_t mapped = outline ? converted_bytes(outline, s) : 0;
    const struct load load = { .rows = rows, .where = where };
    if (!outline || of_rows(f, outline, s, &load, err) < 0) return -1;
    f->parts.of[MEMORY_MAPPED] = mapped;
    return 0;
}

int forecast_data(struct forecast *f, const struct model *m, const struct settings *s,
                  const char *data, const char *images, struct err *err)
{
    const struct backend *where = m->arena.backend;
    struct dry d = { .t = { .where = where, .out = { .lock = -1 }, .headers = true } };
    d.job = (struct job){ .model = outline_model(m, err),
                          .settings = settings_copy(s),
                          .backend = backend_dry(),
                          .sinks = &d.sinks,
                          .answer_lock = -1 };
    d.t.job = &d.job;
    d.t.options = (struct sft_options){ .data = data, .images = images };
    int status = d.job.model ? sft_data_open(&d.t, err) : -1;
    if (status == 0) {
        sft_plan_steps(&d.t);
        status = sft_forecast(&d.t, f, err);
    }
    sft_data_close(&d.t);
    settings_free(d.job.settings);
    outline_free(d.job.model);
    return status;
}
