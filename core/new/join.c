// core/new/join.c -- the tensors of a joined model and their sources.
//
//   config of the joined model -> the tensors that it needs
//     of the encoder and the decoder: found in their files by name; shapes must fit
//     of the projector: random
//   and tensors of the encoder's file that other programs expect but vlmsh does not use (a pooling
//   head, the layers after the features)
#include "core/new/join.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/dtype.h"
#include "core/base/folder.h"
#include "core/base/random.h"
#include "core/files/content.h"
#include "core/files/safetensors.h"
#include "core/model/vision.h"
#include "core/new/join_parts.h"
#include "core/new/new_model.h"
#include "core/new/shapes.h"
#include "core/new/shards.h"

enum { PIECE = 4 << 20 }; // elements written at a time

// A model and the normalised names of its tensors.
struct part_source {
    struct checkpoint *checkpoint;
    char **names; // [tensor_count]
};

struct join {
    struct part_source encoder, decoder;
    struct join_texts texts;
    struct shape_tensor *tensors; // [count]
    int count;
    size_t capacity;
    struct join_options options;
    uint64_t drawn; // random numbers so far
    int64_t inputs; // input width of the projector's latest matrix
    struct err *err;
    bool failed;
    uint64_t done, total; // bytes
    const struct load_progress *progress;
};

// --- list of tensors -----------------------------------------------------------------------------

static const char tower[] = "vision_tower.";

// Normalises a name: removes prefixes that differ between files.
static char *plain(const char *name)
{
    const char *inside = strstr(name, tower);
    return weight_plain_name(inside ? inside + strlen(tower) : name);
}

static bool of_encoder(const struct safetensor *t)
{
    return strstr(t->name, tower) || !strncmp(t->name, "vision_model.", 13);
}

static const struct safetensor *find(const struct part_source *p, bool encoder, const char *name)
{
    const struct checkpoint *c = p->checkpoint;
    const struct safetensor *found = NULL;
    char *wanted = plain(name);
    for (int64_t i = 0; i < c->tensor_count && !found; i++)
        if (!strcmp(p->names[i], wanted) && of_encoder(c->tensors[i]) == encoder)
            found = c->tensors[i];
    free(wanted);
    return found;
}

static void add(struct join *j, const struct shape_tensor *t, const struct safetensor *source)
{
    j->tensors = xgrow(j->tensors, &j->capacity, (size_t)j->count, sizeof *j->tensors);
    j->tensors[j->count] = *t;
    j->tensors[j->count++].source = source;
    j->total += (uint64_t)shape_tensor_count(t) * sizeof(uint16_t);
}

// True if the shapes fit. The embedding and the head get rows for new tokens.
static bool fits(const struct shape_tensor *t, const struct safetensor *s)
{
    bool same = s->dtype >= 0 && s->rank == t->rank;
    const bool grows = t->part == PART_EMBEDDING || t->part == PART_HEAD;
    for (int i = 0; same && i < t->rank; i++)
        same = s->shape[i] == t->size[i] || (i == 0 && grows && s->shape[i] < t->size[i]);
    return same;
}

// Sets the name that a tensor of the encoder's file gets in the joined model.
static void name_in_tower(struct shape_tensor *t, const char *name)
{
    const char *inside = strstr(name, tower);
    snprintf(t->name, sizeof t->name, "%s%.100s", tower, inside ? inside + strlen(tower) : name);
}

// Without a second layer in the files, a family's `bind` requests a one-layer projector, "linear";
// unless the user wants that, this function adds two layers instead.
static void need_projector(struct join *j, const struct shape_tensor *t)
{
    static const char one[] = "multi_modal_projector.linear.";
    struct shape_tensor mine = *t;
    if (j->options.linear || strncmp(t->name, one, strlen(one)) != 0) {
        add(j, t, NULL);
        return;
    }
    snprintf(mine.name, sizeof mine.name, "multi_modal_projector.linear_1.%.20s",
             t->name + strlen(one));
    add(j, &mine, NULL);
    if (t->rank != 1) return;
    mine.rank = 2;
    mine.size[1] = mine.size[0]; // [D, D]
    strcpy(mine.name, "multi_modal_projector.linear_2.weight");
    add(j, &mine, NULL);
    mine.rank = 1;
    strcpy(mine.name, "multi_modal_projector.linear_2.bias");
    add(j, &mine, NULL);
}

static void need(void *self, const struct shape_tensor *t)
{
    struct join *j = self;
    if (j->failed) return;
    if (t->part == PART_PROJECTOR) {
        need_projector(j, t);
        return;
    }
    const bool encoder = t->part == PART_VISION;
    const struct part_source *from = encoder ? &j->encoder : &j->decoder;
    const struct safetensor *s = find(from, encoder, t->name);
    if (!s || !fits(t, s)) {
        const bool expert = strstr(t->name, ".experts.");
        j->failed = true;
        err_set(j->err,
                s        ? "'%s': tensor '%s' has a shape or type that does not fit its config"
                : expert ? "'%s': tensor '%s' is missing; models that store all experts of a layer "
                           "in one tensor cannot be joined"
                         : "'%s': tensor '%s' is missing",
                from->checkpoint->folder, s ? s->name : t->name);
        return;
    }
    struct shape_tensor mine = *t;
    if (encoder) name_in_tower(&mine, s->name);
    add(j, &mine, s);
}

static bool has_source(const struct join *j, const struct safetensor *s)
{
    for (int i = 0; i < j->count; i++)
        if (j->tensors[i].source == s) return true;
    return false;
}

// Adds the encoder's tensors that vlmsh does not use, except scalars and tensors of types
// that it does not read (tables of positions, 64-bit integers), which are not weights.
static void add_unused(struct join *j)
{
    const struct checkpoint *c = j->encoder.checkpoint;
    for (int64_t i = 0; i < c->tensor_count; i++) {
        const struct safetensor *s = c->tensors[i];
        const bool weight = s->dtype >= 0 && s->rank >= 1 && s->rank <= WEIGHT_MAX_RANK;
        if (!of_encoder(s) || !weight || has_source(j, s)) continue;
        struct shape_tensor t = { .part = PART_VISION, .rank = s->rank };
        memcpy(t.size, s->shape, (size_t)s->rank * sizeof *s->shape);
        name_in_tower(&t, s->name);
        add(j, &t, s);
    }
}

// --- opening -------------------------------------------------------------------------------------

static int open_source(struct part_source *p, const char *name, const char *what, struct err *err)
{
    char *path = checkpoint_locate(name, err);
    struct checkpoint *c = p->checkpoint = path ? checkpoint_open(path, NULL, err) : NULL;
    free(path);
    if (c && c->quantised) err_set(err, "they are quantised: name an unquantised folder");
    if (!c || c->quantised) return err_in(err, "%s", what);
    p->names = xcalloc((size_t)c->tensor_count + 1, sizeof *p->names);
    for (int64_t i = 0; i < c->tensor_count; i++) p->names[i] = plain(c->tensors[i]->name);
    return 0;
}

static void close_source(struct part_source *p)
{
    for (int64_t i = 0; p->names && i < p->checkpoint->tensor_count; i++) free(p->names[i]);
    free(p->names);
    checkpoint_close(p->checkpoint);
}

// Features of encoders other than CLIP, SigLIP and MoonViT (grids, windows, tiles) do not suit
// LLaVA's projector.
static int check_encoder(const struct checkpoint *c, struct err *err)
{
    // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): an open source has its checkpoint
    for (int64_t i = 0; i < c->tensor_count; i++)
        if (of_encoder(c->tensors[i])) return 0;
    return err_set(err, "--encoder: '%s' has no CLIP, SigLIP or MoonViT encoder", c->folder);
}

// --merge and --linear concern the projectors of CLIP and SigLIP.
static int check_projector(const struct join *j, struct err *err)
{
    const struct checkpoint *c = j->encoder.checkpoint;
    const cJSON *inner = json_get(c->config, "vision_config");
    const struct vision_kind *kind = vision_kind_find(inner ? inner : c->config, err);
    if (!kind) return err_in(err, "'%s'", c->folder);
    if (kind->picture_mark)
        return err_set(err,
                       "--encoder: '%s': this encoder needs tokens between the rows of a picture, "
                       "which other models do not have: use CLIP, SigLIP or MoonViT",
                       c->folder);
    if (!kind->read_pictures) return 0;
    if (j->options.merge > 1)
        return err_set(err, "--merge: '%s' merges its features itself", c->folder);
    if (j->options.linear)
        return err_set(err,
                       "--linear: the projector of '%s' always has two layers: use CLIP or SigLIP, "
                       "or leave --linear out",
                       c->folder);
    return 0;
}

static int plan(struct join *j, struct err *err)
{
    const struct checkpoint *encoder = j->encoder.checkpoint, *decoder = j->decoder.checkpoint;
    if (check_encoder(encoder, err) < 0 || check_projector(j, err) < 0) return -1;
    j->texts.encoder = encoder;
    j->texts.decoder = decoder;
    j->texts.merge = j->options.merge;
    j->err = err;
    if (join_texts_open(&j->texts, err) < 0) return -1;
    if (config_tensors("the joined model", j->texts.config, encoder->preprocessor, 0, need, j,
                       err) < 0)
        return err_in(err, "the encoder of '%s' and the decoder of '%s' do not go together",
                      // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): as in check_encoder
                      encoder->folder, decoder->folder);
    if (j->failed) return -1;
    add_unused(j);
    return 0;
}

struct join *join_open(const char *encoder, const char *decoder, const struct join_options *options,
                       struct err *err)
{
    struct join *j = xcalloc(1, sizeof *j);
    j->options = *options;
    if (open_source(&j->encoder, encoder, "--encoder", err) == 0 &&
        open_source(&j->decoder, decoder, "--decoder", err) == 0 && plan(j, err) == 0)
        return j;
    join_free(j);
    return NULL;
}

void join_free(struct join *j)
{
    if (!j) return;
    join_texts_release(&j->texts);
    close_source(&j->encoder);
    close_source(&j->decoder);
    free(j->tensors);
    free(j);
}

void join_count(const struct join *j, struct new_model_counts *counts)
{
    *counts = (struct new_model_counts){ .bytes = j->total };
    for (int i = 0; i < j->count; i++) new_model_add(counts, &j->tensors[i]);
}

// --- numbers -------------------------------------------------------------------------------------

static int put_floats(struct join *j, struct safetensors_writer *w, const float *x, int64_t n,
                      struct err *err)
{
    uint16_t *rounded = xreallocarray(NULL, (size_t)n, sizeof *rounded);
    floats_to(rounded, DTYPE_BF16, x, (size_t)n);
    const uint64_t bytes = (uint64_t)n * sizeof *rounded;
    int status = safetensors_writer_data(w, rounded, bytes, err);
    free(rounded);
    j->done += bytes;
    if (status == 0 && j->progress && !j->progress->report(j->progress->self, j->done, j->total))
        status = err_set(err, "cancelled");
    return status;
}

// Draws weights uniformly between -bound and bound.
static int put_drawn(struct join *j, struct safetensors_writer *w, const struct shape_tensor *t,
                     struct err *err)
{
    const int64_t n = shape_tensor_count(t);
    if (t->rank == 2) j->inputs = t->size[1]; // the matrix's bias comes next
    const bool second = strstr(t->name, "linear_2");
    const double bound = (second ? j->options.scale : 1) / sqrt((double)j->inputs);
    float *x = xreallocarray(NULL, (size_t)n, sizeof *x);
    for (int64_t i = 0; i < n; i++, j->drawn++) {
        const uint64_t bits = random_bits(j->options.seed, RANDOM_WEIGHTS, j->drawn);
        x[i] = (float)(bound * ((double)(bits >> 11) * 0x1p-52 - 1));
    }
    const int status = put_floats(j, w, x, n, err);
    free(x);
    return status;
}

// Copies whole heads (blocks of rows) at a time, because GGUF files may order their rows
// differently. The row of a new token is the mean of all other rows.
static int put_copy(struct join *j, struct safetensors_writer *w, const struct shape_tensor *t,
                    struct err *err)
{
    const struct safetensor *s = t->source;
    const int64_t rows = s->shape[0], more = t->size[0] - rows;
    const int64_t width = rows ? shape_tensor_count(t) / t->size[0] : 0;
    const int64_t head = s->order.head ? s->order.head : 1;
    const int64_t least = width && width * head < PIECE ? PIECE / (width * head) * head : head;
    double *sum = xcalloc((size_t)width + 1, sizeof *sum);
    float *x = xreallocarray(NULL, (size_t)(least * width) + 1, sizeof *x);
    int status = 0;
    for (int64_t i = 0; i < rows && status == 0; i += least) {
        const int64_t n = rows - i < least ? rows - i : least;
        floats_from(x, (const char *)s->data + dtype_bytes((enum dtype)s->dtype, i * width),
                    (enum dtype)s->dtype, (size_t)(n * width));
        rows_reorder(x, n, width, s->order);
        for (int64_t k = 0; more && k < n * width; k++) sum[k % width] += (double)x[k];
        status = put_floats(j, w, x, n * width, err);
    }
    for (int64_t k = 0; k < width; k++) x[k] = (float)(sum[k] / (double)rows);
    for (int64_t i = 0; i < more && status == 0; i++) status = put_floats(j, w, x, width, err);
    free(x);
    free(sum);
    return status;
}

static int put(void *self, struct safetensors_writer *w, int i, struct err *err)
{
    struct join *j = self;
    const struct shape_tensor *t = &j->tensors[i];
    return t->source ? put_copy(j, w, t, err) : put_drawn(j, w, t, err);
}

int join_write(struct join *j, const char *folder, const struct load_progress *progress,
               struct err *err)
{
    struct folder_work work;
    if (folder_begin(&work, folder, err) < 0) return -1;
    const struct shards shards = { work.path, j->tensors, j->count, put, j };
    j->progress = progress;
    if (new_model_check_space(work.path, j->total, err) == 0 &&
        join_texts_write(&j->texts, work.path, err) == 0 && shards_write(&shards, err) == 0)
        return folder_commit(&work, folder, err);
    folder_abandon(&work);
    return -1;
}
