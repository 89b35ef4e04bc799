// core/adapter/adapter_read.c -- reads an adapter's tensors into entries that fit the model.
//
//   base_model.model.MODULE.lora_A.weight | lora_B.weight      [r,in] [out,r]
//   base_model.model.MODULE.experts.lora_A.weight | lora_B     of all experts of a layer, also as
//                            .experts.base_layer.lora_A        (core/adapter/adapter_stack.c)
//   base_model.model.MODULE.ln_tuning_layers.weight | bias     a norm's whole gain or bias
//   base_model.model.MODULE.weight | bias                      modules_to_save, resized embeddings
//   base_model.model.MODULE.base_layer.bias                    a bias beside LoRA ("bias")
//   base_model.model.MODULE.modules_to_save.default.linear_1.bias    a second copy (bias "all")
//   tensors that methods learn                                  in extra.safetensors
//
// MODULE may be the name in any version of transformers (core/model/weights.h); PEFT sometimes
// leaves the adapter's name ("default") in the key. An unknown tensor is an error: vlmsh must not
// silently apply fewer tensors than PEFT.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/adapter/adapter.h"
#include "core/adapter/adapter_config.h"
#include "core/adapter/adapter_entry.h"
#include "core/adapter/adapter_stack.h"
#include "core/base/dtype.h"
#include "core/base/items.h"
#include "core/base/text.h"
#include "core/files/safetensors.h"
#include "core/methods/method.h"
#include "core/model/families/family.h"
#include "core/model/layer.h"

enum { NAME_LIMIT = 1024 };

struct reading {
    struct adapter *adapter;
    const struct model *model;
    struct adapter_config *config;
    const struct safetensors *file;
    // [2 * (weights + 1)] index + 1 of a weight's entry, and of its LoRA's; 0: none. Last comes the
    // head that a model with tied embeddings lacks.
    size_t *numbers;
    bool unused_known;
    struct names unused; // tensors of the model's file that it does not compute with; plain names
    struct err *err;
};

static void put_shape(struct buf *b, int rank, const int64_t *shape)
{
    for (int i = 0; i < rank; i++) buf_printf(b, "%s%lld", i ? ", " : "[", (long long)shape[i]);
    buf_puts(b, rank ? "]" : "[]");
}

static int refuse_shape(const struct safetensor *t, int rank, const int64_t *shape, const char *of,
                        struct err *err)
{
    struct buf b = { 0 };
    buf_puts(&b, "its shape is ");
    put_shape(&b, t->rank, t->shape);
    buf_printf(&b, ", but '%.200s' of this model needs ", of);
    put_shape(&b, rank, shape);
    err_set(err, "%s: the adapter was made for another model", b.data);
    buf_release(&b);
    return -1;
}

static bool same_shape(const struct safetensor *t, int rank, const int64_t *shape)
{
    return t->rank == rank && !memcmp(t->shape, shape, (size_t)rank * sizeof *shape);
}

static int check_numbers(const struct safetensor *t, struct err *err)
{
    float piece[1024];
    if (t->dtype != DTYPE_F32 && t->dtype != DTYPE_F16 && t->dtype != DTYPE_BF16)
        return err_set(err, "its type is %s; use F32, F16 or BF16", t->type);
    uint64_t size = dtype_size((enum dtype)t->dtype), n = t->bytes / size;
    for (uint64_t i = 0; i < n; i += 1024) {
        size_t count = n - i < 1024 ? (size_t)(n - i) : 1024;
        floats_from(piece, (const char *)t->data + i * size, (enum dtype)t->dtype, count);
        if (!floats_finite(piece, count))
            return err_set(
                err,
                "it contains infinities or NaNs: the training diverged, or the file is damaged");
    }
    return 0;
}

static int no_memory(const struct safetensor *t, struct err *err)
{
    return err_set(err, "out of memory for %.1f MB", (double)t->bytes / 1e6);
}

// Copies the tensor to the arena as f32.
static int take_floats(struct arena *arena, const struct safetensor *t, struct tensor *to,
                       struct err *err)
{
    size_t n = t->bytes / dtype_size((enum dtype)t->dtype), bytes = n * sizeof(float);
    float *host = malloc(bytes ? bytes : 1);
    void *data = host ? arena_alloc(arena, bytes) : NULL;
    if (data) {
        floats_from(host, t->data, (enum dtype)t->dtype, n);
        arena->backend->upload(data, host, bytes);
    }
    free(host);
    if (!data) return no_memory(t, err);
    *to = (struct tensor){ .data = data, .dtype = DTYPE_F32 };
    tensor_set_shape(to, t->rank, t->shape);
    return 0;
}

// Copies the tensor to the arena in its type.
static int take_copied(struct arena *arena, const struct safetensor *t, struct tensor *to,
                       struct err *err)
{
    *to = (struct tensor){ .dtype = (enum dtype)t->dtype };
    tensor_set_shape(to, t->rank, t->shape);
    if (!(to->data = arena_alloc(arena, t->bytes))) return no_memory(t, err);
    arena->backend->upload(to->data, t->data, t->bytes);
    return 0;
}

// Uses the mapped tensor in place if it is aligned and the arena's device can read it; otherwise,
// copies it.
static int take_mapped(struct arena *arena, const struct safetensor *t, struct tensor *to,
                       struct err *err)
{
    const size_t size = dtype_size((enum dtype)t->dtype);
    if (arena->backend->own_memory || (uintptr_t)t->data % size)
        return take_copied(arena, t, to, err);
    *to = (struct tensor){ .data = (void *)(uintptr_t)t->data, .dtype = (enum dtype)t->dtype };
    tensor_set_shape(to, t->rank, t->shape);
    return 0;
}

typedef int take_fn(struct arena *arena, const struct safetensor *t, struct tensor *to,
                    struct err *err);

// Puts the tensor on the device of the weight `w` that it changes (NULL: a tied head, on the first
// GPU).
static int take_beside(const struct reading *r, const struct weight *w, take_fn *take,
                       const struct safetensor *t, struct tensor *to)
{
    struct arena *const arena = r->adapter->arena;
    const bool on_host = w && w->tensor->on_host;
    backend_enter(arena->backend, w ? w->gpu : 0);
    const int status = take(on_host ? arena_host(arena) : arena, t, to, r->err);
    backend_enter(arena->backend, 0);
    to->on_host = on_host;
    return status;
}

// The axes of a weight that a tensor has: A its columns, B its rows, a whole weight both.
enum side { SIDE_ROWS = 1, SIDE_COLUMNS = 2, SIDE_BOTH = 3 };

// Like take_beside. If the model's file orders the weight's value heads differently than adapters,
// the tensor gets that order.
static int take_ordered(const struct reading *r, const struct weight *w, take_fn *take,
                        const struct safetensor *t, enum side side, struct tensor *to)
{
    const struct decoder_config *c = &r->model->decoder.config;
    if (!w || !decoder_alternates(c, w->name)) return take_beside(r, w, take, t, to);
    const size_t size = dtype_size((enum dtype)t->dtype);
    const int64_t rows = t->shape[0];
    char *data = malloc(t->bytes ? t->bytes : 1);
    if (!data) return no_memory(t, r->err);
    memcpy(data, t->data, t->bytes);
    if (side & SIDE_ROWS)
        decoder_reorder_heads(c, w->name, false, data, 1, t->bytes / (size_t)rows, true);
    if (side & SIDE_COLUMNS) decoder_reorder_heads(c, w->name, true, data, rows, size, true);
    struct safetensor ordered = *t;
    ordered.data = data;
    const int status = take_beside(r, w, take == take_mapped ? take_copied : take, &ordered, to);
    free(data);
    return status;
}

static struct adapter_entry *add_entry(struct adapter *a, enum adapter_kind kind, const char *name)
{
    a->list = xgrow(a->list, &a->capacity, a->count, sizeof *a->list);
    struct adapter_entry *e = &a->list[a->count++];
    *e = (struct adapter_entry){ .kind = kind, .name = xstrdup(name) };
    return e;
}

// w NULL: the head that the model lacks.
static size_t *entry_number(const struct reading *r, enum adapter_kind kind, const struct weight *w)
{
    const struct weights *all = &r->model->weights;
    const size_t number = w ? (size_t)(w - all->list) : all->count;
    return &r->numbers[2 * number + (kind == ADAPTER_LORA)];
}

static void set_weight(const struct reading *r, struct adapter_entry *e, const struct weight *w)
{
    e->weight = w;
    *entry_number(r, e->kind, w) = (size_t)(e - r->adapter->list) + 1;
}

static struct adapter_entry *find_entry(const struct reading *r, enum adapter_kind kind,
                                        const struct weight *w)
{
    const size_t number = *entry_number(r, kind, w);
    return number ? &r->adapter->list[number - 1] : NULL;
}

// --- keys ----------------------------------------------------------------------------------------

// A parsed key: module "model.layers.0.mlp.up_proj", mark "lora_A", last level "weight".
struct key {
    char module[NAME_LIMIT];
    const char *mark; // one of marks[]; "" for a plain weight
    char last[64];
};

static const char *const marks[] = { "lora_A",
                                     "lora_B",
                                     "lora_embedding_A",
                                     "lora_embedding_B",
                                     "lora_magnitude_vector",
                                     "ln_tuning_layers",
                                     "modules_to_save",
                                     "original_module",
                                     "base_layer" };

// Finds a level of the name; *after: the rest of the name.
static char *find_level(char *name, const char *level, char **after)
{
    size_t n = strlen(level);
    for (char *at = name; (at = strstr(at, level)); at++) {
        bool begins = at == name || at[-1] == '.';
        if (!begins || (at[n] && at[n] != '.')) continue;
        *after = at[n] ? at + n + 1 : at + n;
        return at;
    }
    return NULL;
}

// Reads the name after a mark: "weight", or "default.weight" with the adapter's name. In a module
// that was saved whole, other levels may follow "default" (".linear_1"): appends these to the
// module, at `end`.
static int read_last(struct key *k, char *end, const char *after, struct err *err)
{
    const char *name = strchr(after, '.'), *dot = strrchr(after, '.');
    const char *last = dot ? dot + 1 : after;
    const bool known = !strcmp(last, "weight") || !strcmp(last, "bias");
    const bool whole = items_has("modules_to_save original_module", k->mark, " ");
    const bool layer = items_has("lora_A lora_B ln_tuning_layers", k->mark, " ");
    if ((name != dot && !whole) || strlen(last) >= sizeof k->last || (!known && layer))
        return err_set(err, "its name is not a PEFT tensor name");
    snprintf(k->last, sizeof k->last, "%s", last);
    const size_t levels = dot ? (size_t)(dot - name) : 0; // ".linear_1"
    if (levels) memmove(end, name, levels);
    end[levels] = 0;
    return 0;
}

static int key_read(struct key *k, const char *name, struct err *err)
{
    static const char prefix[] = "base_model.model.";
    char *after, *at;
    if (!strncmp(name, prefix, sizeof prefix - 1)) name += sizeof prefix - 1;
    k->mark = "";
    if (strlen(name) >= NAME_LIMIT) return err_set(err, "its name is too long");
    snprintf(k->module, sizeof k->module, "%s", name);
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        if (!(at = find_level(k->module, marks[i], &after)) || at == k->module) continue;
        k->mark = marks[i];
        return read_last(k, at - 1, after, err);
    }
    char *dot = strrchr(k->module, '.');
    if (!dot || strlen(dot + 1) >= sizeof k->last)
        return err_set(err, "its name is not a PEFT tensor name");
    snprintf(k->last, sizeof k->last, "%s", dot + 1);
    *dot = 0;
    return 0;
}

static const struct weight *key_weight(const struct reading *r, const struct key *k,
                                       const char *last)
{
    char name[NAME_LIMIT + 64];
    const struct weights *all = &r->model->weights;
    snprintf(name, sizeof name, "%s.%s", k->module, last);
    const struct weight *w = weights_find(all, name);
    for (size_t i = 0; !w && r->model->family->modules && i < all->count; i++) {
        const char *dot = strrchr(all->list[i].name, '.');
        char *module = family_module_name(r->model->family, &all->list[i]);
        if (dot && !strcmp(dot + 1, last) && !strcmp(module, k->module)) w = &all->list[i];
        free(module);
    }
    return w;
}

// True if the key names a head that the model's file ties to the embedding.
static bool is_tied_head(const struct reading *r, const struct key *k)
{
    const struct decoder_config *c = &r->model->decoder.config;
    char *plain = weight_plain_name(k->module);
    bool is =
        c->tied && !strcmp(plain, decoder_name(c->kind, "lm_head")) && !strcmp(k->last, "weight");
    free(plain);
    return is;
}

// True if the model is a GGUF file, and the tensor belongs to the encoder layer after the feature
// layer, which GGUF files of encoders lack.
static bool is_cut_off(const struct reading *r, const char *full)
{
    static const char level[] = "encoder.layers.";
    const char *at = strstr(full, level);
    char *rest;
    if (!r->model->checkpoint->gguf_count || !at) return false;
    at += sizeof level - 1;
    const bool behind = strtol(at, &rest, 10) == r->model->vision.config.layers;
    char *first = xasprintf("%.*s0%s", (int)(at - full), full, rest);
    const struct weight *w = weights_find(&r->model->weights, first);
    free(first);
    return behind && w && w->part == PART_VISION;
}

// True if the tensor belongs to a part of the model's file that vlmsh does not compute (SigLIP's
// pooling head, norms after the layer whose features are used). Such a part has no effect in
// transformers either.
static bool is_unused(struct reading *r, const struct key *k)
{
    const struct checkpoint *c = r->model->checkpoint;
    for (int64_t i = 0; i < c->tensor_count && !r->unused_known; i++) {
        if (weights_find(&r->model->weights, c->tensors[i]->name)) continue;
        char *plain = weight_plain_name(c->tensors[i]->name);
        names_add(&r->unused, plain, NULL);
        free(plain);
    }
    r->unused_known = true;
    bool lora = !strcmp(k->mark, "lora_A") || !strcmp(k->mark, "lora_B");
    char *full = xasprintf("%s.%s", k->module, lora ? "weight" : k->last);
    char *wanted = weight_plain_name(full);
    size_t number;
    bool found = is_cut_off(r, full) || names_find(&r->unused, wanted, &number);
    free(wanted);
    free(full);
    return found;
}

// --- LoRA ----------------------------------------------------------------------------------------

// Checks that target_modules or target_parameters selects the module under one of its names: the
// one in the key, in current transformers, or in the model's file.
static int check_target(const struct reading *r, const struct key *k, const struct weight *w)
{
    char *today = family_module_name(r->model->family, w);
    size_t n = strlen(w->name);
    char *file = xstrndup(w->name, n > 7 ? n - 7 : n); // without ".weight"
    const char *names[3] = { k->module, today, file };
    int found = 0;
    for (int i = 0; i < 3 && found == 0; i++) {
        char *parameter = xasprintf("%s.weight", names[i]);
        found = adapter_config_use_parameter(r->config, parameter)
                    ? 1
                    : adapter_config_targets(r->config, names[i], r->err);
        free(parameter);
    }
    free(today);
    free(file);
    if (found == 0)
        return err_set(r->err, "adapter_config.json (target_modules, exclude_modules, "
                               "layers_to_transform) excludes its module: PEFT would ignore it");
    return found < 0 ? -1 : 0;
}

// Checks A [r,in] or B [out,r] against W [out,in]; any r fits.
static int check_lora_shape(const struct safetensor *t, const struct weight *w, bool a,
                            struct err *err)
{
    const int64_t *W = w->tensor->shape;
    if (t->rank == 2 && t->shape[a ? 1 : 0] == W[a ? 1 : 0] && t->shape[a ? 0 : 1] > 0) return 0;
    int64_t r = t->rank == 2 && t->shape[a ? 0 : 1] > 0 ? t->shape[a ? 0 : 1] : 1;
    int64_t want[2] = { a ? r : W[0], a ? W[1] : r };
    return refuse_shape(t, 2, want, w->name, err);
}

// A matrix of the experts in a stack: its ranks first..first+rank-1, its rows row..row+rows-1.
struct stack_matrix {
    const char *name;
    int64_t first, rank, row, rows;
};

// Lists the matrices of the experts in a stack; returns their number. `usual`: the config's rank.
static int stack_matrices(const struct adapter_stack *s, int64_t usual, struct stack_matrix list[2])
{
    const int64_t r = s->rank, half = s->out / 2, split = adapter_stack_split(s, r != usual);
    const int64_t border = split < 0 ? r : split, up = split < 0 ? 0 : split;
    int count = 0;
    if (s->down) {
        list[0] = (struct stack_matrix){ "down_proj", 0, r, 0, s->out };
        return 1;
    }
    if (border > 0) list[count++] = (struct stack_matrix){ "gate_proj", 0, border, 0, half };
    if (up < r) list[count++] = (struct stack_matrix){ "up_proj", up, r - up, half, half };
    return count;
}

static bool all_zero(const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (x[i] != 0) return false;
    return true;
}

// Adds the LoRA of a matrix of an expert, unless A and B are zero, as they are for an expert
// without LoRA. a [r,in], b [out,r]: those of the expert in the stack.
static int add_of_expert(struct reading *r, const struct adapter_stack *s,
                         const struct stack_matrix *m, const struct weight *w, float scale,
                         float *a, const float *b)
{
    struct safetensor t = { .name = w->name, .type = "F32", .dtype = DTYPE_F32, .rank = 2 };
    float *own = xreallocarray(NULL, (size_t)(m->rows * m->rank), sizeof *own);
    int status = 0;
    for (int64_t i = 0; i < m->rows; i++)
        memcpy(own + i * m->rank, b + (m->row + i) * s->rank + m->first,
               (size_t)m->rank * sizeof *own);
    a += m->first * s->in;
    if (!all_zero(a, m->rank * s->in) || !all_zero(own, m->rows * m->rank)) {
        struct adapter_entry *e = add_entry(r->adapter, ADAPTER_LORA, w->name);
        set_weight(r, e, w);
        e->scale = scale;
        e->lora.stabilised = r->config->rank_stabilised;
        t.shape[0] = m->rank, t.shape[1] = s->in, t.data = a;
        t.bytes = (uint64_t)(m->rank * s->in) * sizeof *a;
        status = take_beside(r, w, take_floats, &t, &e->lora.a);
        t.shape[0] = m->rows, t.shape[1] = m->rank, t.data = own;
        t.bytes = (uint64_t)(m->rows * m->rank) * sizeof *own;
        if (status == 0) status = take_beside(r, w, take_floats, &t, &e->lora.b);
    }
    free(own);
    return status;
}

// Adds the LoRA of all experts of a layer. `experts`: "model.layers.3.mlp.experts".
static int add_stack(struct reading *r, const struct adapter_stack *s, const char *experts)
{
    struct stack_matrix matrix[2];
    const int count = stack_matrices(s, r->config->rank, matrix);
    const char *stack = adapter_stack_names[s->down];
    char *parameter = xasprintf("%s.%s", experts, stack);
    const struct weight *w = NULL;
    float scale = 0, *a = xreallocarray(NULL, (size_t)(s->rank * s->in), sizeof *a);
    float *b = xreallocarray(NULL, (size_t)(s->rank * s->out), sizeof *b);
    int status = adapter_config_scale(r->config, parameter, s->rank, &scale, r->err);
    if (status == 0 && !adapter_config_use_parameter(r->config, parameter))
        status = err_set(r->err,
                         "\"target_parameters\" of adapter_config.json does not name its experts' "
                         "%s: PEFT would ignore it",
                         stack);
    for (int64_t e = 0; e < s->experts && status == 0; e++) {
        adapter_stack_expert(s, e, a, b);
        for (int i = 0; i < count && status == 0; i++) {
            char *name = xasprintf("%s.%lld.%s.weight", experts, (long long)e, matrix[i].name);
            w = weights_find_after(&r->model->weights, w, name);
            if (!w || !w->linear)
                status = err_set(r->err, "this model has no '%.200s'", name);
            else if (find_entry(r, ADAPTER_LORA, w))
                status = err_set(r->err, "'%.200s' has LoRA twice, under two spellings", name);
            else
                status = add_of_expert(r, s, &matrix[i], w, scale, a, b);
            free(name);
        }
    }
    free(a);
    free(b);
    free(parameter);
    return status;
}

// Returns the name of the experts of a layer that the key names as one module; the caller frees it.
// NULL: it names none.
static char *stack_of(const struct reading *r, const struct key *k)
{
    static const char level[] = ".base_layer"; // of the first of two parameters of a module
    size_t n = strlen(k->module);
    while (n > strlen(level) && !strncmp(k->module + n - strlen(level), level, strlen(level)))
        n -= strlen(level);
    char *experts = xstrndup(k->module, n), *first = xasprintf("%s.0.gate_proj.weight", experts);
    const bool is = text_ends(experts, ".experts") && weights_find(&r->model->weights, first);
    free(first);
    if (is) return experts;
    free(experts);
    return NULL;
}

// Reads the LoRA of all experts of a layer, both matrices when A comes.
static int read_stack(struct reading *r, const struct safetensor *t, const char *experts)
{
    const struct decoder_config *c = &r->model->decoder.config;
    const bool is_a = strstr(t->name, ".lora_A.") != NULL;
    char *other = xstrdup(t->name);
    strstr(other, is_a ? ".lora_A." : ".lora_B.")[6] = is_a ? 'B' : 'A';
    const struct safetensor *b = safetensors_find(r->file, other);
    struct adapter_stack s = { 0 };
    if (!b) err_set(r->err, "'%.200s' is missing", other);
    free(other);
    if (!b) return -1;
    if (!is_a) return 0;
    if (check_numbers(b, r->err) < 0 ||
        adapter_stack_open(&s, t, b, c->experts.count, c->experts.width, c->hidden, r->err) < 0)
        return -1;
    const int status = add_stack(r, &s, experts);
    adapter_stack_close(&s);
    return status;
}

// Reads the scale of a module's LoRA. Patterns of ranks match the name of its weight if
// target_parameters selects that, else the module's name.
static int read_scale(const struct reading *r, const char *module, int64_t rank, float *scale)
{
    char *weight = xasprintf("%s.weight", module);
    const bool parameter = adapter_config_use_parameter(r->config, weight);
    const int status =
        adapter_config_scale(r->config, parameter ? weight : module, rank, scale, r->err);
    free(weight);
    return status;
}

static int read_lora(struct reading *r, const struct safetensor *t, const struct key *k)
{
    bool is_a = !strcmp(k->mark, "lora_A");
    if (!r->config->lora)
        return err_set(r->err, "it is a LoRA tensor, but adapter_config.json says LN_TUNING");
    if (!strcmp(k->last, "bias")) return err_set(r->err, "LoRA with a bias is not supported");
    const struct weight *w = key_weight(r, k, "weight");
    char *experts = w ? NULL : stack_of(r, k);
    if (experts) {
        const int status = read_stack(r, t, experts);
        free(experts);
        return status;
    }
    if (!w && is_unused(r, k)) return r->adapter->unused++, 0;
    if (!w && !is_tied_head(r, k))
        return err_set(r->err,
                       "this model has no layer '%.200s': the adapter was made for another model",
                       k->module);
    if (!w || !w->linear)
        return err_set(r->err,
                       "LoRA on '%.200s' (the %s) is not supported: use linear layers of the "
                       "blocks or the projector",
                       k->module, part_name(w ? w->part : PART_HEAD));
    if (check_target(r, k, w) < 0 || check_lora_shape(t, w, is_a, r->err) < 0) return -1;
    struct adapter_entry *e = find_entry(r, ADAPTER_LORA, w);
    if (!e) e = add_entry(r->adapter, ADAPTER_LORA, w->name);
    set_weight(r, e, w);
    e->lora.stabilised = r->config->rank_stabilised;
    struct tensor *to = is_a ? &e->lora.a : &e->lora.b;
    if (to->data) return err_set(r->err, "it appears twice, under two spellings");
    if (is_a && read_scale(r, k->module, t->shape[0], &e->scale) < 0) return -1;
    return take_ordered(r, w, take_floats, t, is_a ? SIDE_COLUMNS : SIDE_ROWS, to);
}

// Every LoRA needs both matrices, with equal ranks.
static int check_lora(const struct adapter *a, struct err *err)
{
    for (size_t i = 0; i < a->count; i++) {
        const struct adapter_entry *e = &a->list[i];
        if (e->kind != ADAPTER_LORA) continue;
        if (!e->lora.a.data || !e->lora.b.data)
            return err_set(err, "LoRA of '%s': lora_%c is missing", e->name,
                           e->lora.a.data ? 'B' : 'A');
        if (e->lora.a.shape[0] != e->lora.b.shape[1])
            return err_set(err, "LoRA of '%s': lora_A has rank %lld, lora_B %lld", e->name,
                           (long long)e->lora.a.shape[0], (long long)e->lora.b.shape[1]);
    }
    return 0;
}

// --- whole weights -------------------------------------------------------------------------------

static int take_weight(struct reading *r, const struct safetensor *t, const struct weight *w,
                       const char *name, int rank, const int64_t *shape)
{
    if (!same_shape(t, rank, shape)) return refuse_shape(t, rank, shape, name, r->err);
    if (find_entry(r, ADAPTER_WEIGHT, w))
        return err_set(r->err, "it appears twice, under two spellings");
    struct adapter_entry *e = add_entry(r->adapter, ADAPTER_WEIGHT, name);
    set_weight(r, e, w);
    // The model holds vectors and filters in f32, and matrices in the type of their file.
    const bool floats = rank == 1 || (w && w->tensor->rank < rank);
    return take_ordered(r, w, floats ? take_floats : take_mapped, t, SIDE_BOTH, &e->tensor);
}

// Constants are not loaded, but must match the model's. A GGUF file has exp(A_log), whose logarithm
// is not exact.
static int check_constant(const struct reading *r, const struct safetensor *t,
                          const struct decoder_constant *c)
{
    const struct tensor *ours = c->tensor;
    const size_t n = (size_t)tensor_count(ours);
    const enum dtype dtype = (enum dtype)t->dtype;
    const float slack = r->model->checkpoint->gguf_count ? 1e-6F : 0;
    if (!same_shape(t, ours->rank, ours->shape))
        return refuse_shape(t, ours->rank, ours->shape, t->name, r->err);
    float *numbers = xreallocarray(NULL, n, sizeof *numbers), *theirs = xcalloc(n, sizeof *theirs);
    bool same = true;
    adapter_floats(r->model->arena.backend, ours, 0, (int64_t)n, numbers);
    decoder_reorder_heads(&r->model->decoder.config, c->name, false, numbers, 1, sizeof *numbers,
                          false);
    floats_to(theirs, dtype, numbers, n); // the model's in the adapter's type
    floats_from(numbers, theirs, dtype, n);
    floats_from(theirs, t->data, dtype, n);
    for (size_t i = 0; i < n; i++)
        same &= fabsf(theirs[i] - numbers[i]) <= slack * (1 + fabsf(numbers[i]));
    free(theirs);
    free(numbers);
    if (same) return 0;
    if (text_ends(c->name, ".A_log") || text_ends(c->name, ".dt_bias"))
        return err_set(r->err, "it differs from the model's: a trained %s is not supported",
                       name_last_level(c->name));
    return err_set(r->err, "it differs from the model's: trained biases of routers are not "
                           "supported");
}

static int read_weight(struct reading *r, const struct safetensor *t, const struct key *k)
{
    const struct weight *w = key_weight(r, k, k->last);
    const struct tensor *head = &r->model->decoder.head;
    if (w) return take_weight(r, t, w, w->name, w->rank, w->shape);
    if (is_tied_head(r, k)) return take_weight(r, t, NULL, "lm_head.weight", 2, head->shape);
    // PEFT saves a router's bias with the router, and A_log and dt_bias with their layer.
    struct decoder_constant c = { 0 };
    char *full = xasprintf("%s.%s", k->module, k->last), *plain = weight_plain_name(full);
    bool constant = false;
    while (!constant && decoder_next_constant(&r->model->decoder, &c))
        constant = !strcmp(c.name, plain);
    free(plain);
    free(full);
    if (constant) return check_constant(r, t, &c);
    if (is_unused(r, k)) return r->adapter->unused++, 0;
    return err_set(r->err, "this model has no '%.200s.%s': the adapter was made for another model",
                   k->module, k->last);
}

static int read_norm(struct reading *r, const struct safetensor *t, const struct key *k)
{
    const struct weight *w = key_weight(r, k, k->last);
    if (r->config->lora)
        return err_set(r->err, "it is an LN tuning tensor, but adapter_config.json says LORA");
    if (w && check_target(r, k, key_weight(r, k, "weight") ? key_weight(r, k, "weight") : w) < 0)
        return -1;
    return read_weight(r, t, k);
}

static bool same_numbers(const struct backend *backend, const struct tensor *a,
                         const struct tensor *b)
{
    const size_t size = tensor_bytes(a);
    if (a->dtype != b->dtype || size != tensor_bytes(b)) return false;
    if (!backend->own_memory) return !memcmp(a->data, b->data, size);
    char *left = xmalloc(size), *right = xmalloc(size);
    backend->download(left, a->data, size);
    backend->download(right, b->data, size);
    const bool same = !memcmp(left, right, size);
    free(left);
    free(right);
    return same;
}

// Decides whether a tied head follows a new embedding. PEFT keeps the old head if only the
// embedding was saved as a module, unless ensure_weight_tying is set. The head stays tied if the
// embedding was saved because it was resized, or if the saved head equals the embedding.
static void tie_or_keep_head(struct reading *r)
{
    const struct model *m = r->model;
    struct adapter *a = r->adapter;
    const struct weight *w = weights_of(&m->weights, PART_EMBEDDING);
    if (!m->decoder.config.tied || !w) return;
    const struct adapter_entry *embed = find_entry(r, ADAPTER_WEIGHT, w);
    struct adapter_entry *head = find_entry(r, ADAPTER_WEIGHT, NULL);
    if (embed && head && same_numbers(a->arena->backend, &embed->tensor, &head->tensor)) {
        free(head->name);
        *entry_number(r, ADAPTER_WEIGHT, NULL) = 0;
        *head = a->list[--a->count];
        if (head->weight) set_weight(r, head, head->weight);
    } else if (embed && !head && !r->config->tied) {
        char *module = family_module_name(m->family, w);
        if (adapter_config_saves(r->config, module))
            add_entry(a, ADAPTER_WEIGHT, "lm_head.weight")->tensor = (struct tensor){ .rank = 1 };
        free(module);
    }
}

static int read_tensor(struct reading *r, const struct safetensor *t)
{
    struct key k;
    if (key_read(&k, t->name, r->err) < 0) return -1;
    // Skips base weights that PEFT saves, and copies of tensors that it also saves under the
    // module's own name.
    if (!strcmp(k.mark, "original_module")) return 0;
    if (!strcmp(k.mark, "modules_to_save")) {
        char *plain = xasprintf("base_model.model.%s.%s", k.module, k.last);
        const bool copy = safetensors_find(r->file, plain) != NULL;
        free(plain);
        if (copy) return 0;
    }
    if (check_numbers(t, r->err) < 0) return -1;
    if (!strncmp(k.mark, "lora_embedding", 14))
        return err_set(r->err, "LoRA on the embedding is not supported");
    if (!strcmp(k.mark, "lora_magnitude_vector"))
        return err_set(r->err, "DoRA is not supported; use plain LoRA");
    if (!strcmp(k.mark, "lora_A") || !strcmp(k.mark, "lora_B")) return read_lora(r, t, &k);
    if (!strcmp(k.mark, "ln_tuning_layers")) return read_norm(r, t, &k);
    return read_weight(r, t, &k);
}

// Finds target modules without tensors in the file. PEFT gives them a LoRA that has no effect.
static int find_bare(struct reading *r)
{
    const struct weights *all = &r->model->weights;
    const cJSON *target = json_get(r->config->json, "target_modules");
    const bool named =
        cJSON_IsArray(target)
            ? target->child != NULL
            : cJSON_IsString(target) && strcmp(target->valuestring, "dummy-target-modules") != 0;
    for (size_t i = 0; named && r->config->lora && i < all->count; i++) {
        const struct weight *w = &all->list[i];
        const bool bias = text_ends(w->name, ".bias") && r->config->bias != BIAS_NONE;
        if (!w->linear && !bias) continue;
        char *module = family_module_name(r->model->family, w);
        const int found = bias && r->config->bias == BIAS_ALL
                              ? 1
                              : adapter_config_targets(r->config, module, r->err);
        free(module);
        if (found < 0) return -1;
        r->adapter->targets += found;
        if (found && !find_entry(r, bias ? ADAPTER_WEIGHT : ADAPTER_LORA, w))
            names_add(&r->adapter->bare, w->name, NULL);
    }
    return 0;
}

// Returns the parameter of current transformers classes that has the weight; the caller frees it.
static char *parameter_name(const struct reading *r, const struct weight *w)
{
    char *module = family_module_name(r->model->family, w), *name = NULL;
    if (!r->model->family->experts_apart) name = adapter_expert_parameter(module);
    if (!name) name = xasprintf("%s.weight", module);
    free(module);
    return name;
}

// Like find_bare, of target_parameters. A parameter of all experts needs tensors for one of them.
static void find_bare_parameters(struct reading *r)
{
    const struct weights *all = &r->model->weights;
    struct names have = { 0 }, seen = { 0 };
    if (!json_is_on(json_get(r->config->json, "target_parameters"))) return;
    for (size_t i = 0; i < r->adapter->count; i++) {
        const struct adapter_entry *e = &r->adapter->list[i];
        char *name = e->kind == ADAPTER_LORA ? parameter_name(r, e->weight) : NULL;
        if (name) names_add(&have, name, NULL);
        free(name);
    }
    for (size_t i = 0; i < all->count; i++) {
        const struct weight *w = &all->list[i];
        char *name = text_ends(w->name, ".weight") ? parameter_name(r, w) : NULL;
        bool known = true;
        size_t number;
        if (name) names_add(&seen, name, &known);
        if (!known && adapter_config_use_parameter(r->config, name)) {
            r->adapter->targets++;
            if (!names_find(&have, name, &number)) names_add(&r->adapter->bare, name, NULL);
        }
        free(name);
    }
    names_release(&have);
    names_release(&seen);
}

// Adds a notice that names the modules in modules_to_save for which the file has no tensors; the
// model's own are used.
static void find_unsaved(struct reading *r)
{
    struct names unsaved = { 0 };
    const cJSON *item;
    cJSON_ArrayForEach(item, json_get(r->config->json, "modules_to_save"))
    {
        bool found = false;
        char *after;
        if (!cJSON_IsString(item) || !*item->valuestring) continue;
        for (int64_t i = 0; i < r->file->count && !found; i++)
            found = find_level(r->file->tensors[i].name, item->valuestring, &after) != NULL;
        if (!found) names_add(&unsaved, item->valuestring, NULL);
    }
    adapter_notice(r->adapter,
                   "the adapter has no tensors for these modules of modules_to_save: ", &unsaved,
                   ". The model's own are used: if they were trained, answers are wrong");
}

static int read_file(struct reading *r)
{
    for (int64_t i = 0; i < r->file->count; i++) {
        const struct safetensor *t = &r->file->tensors[i];
        if (read_tensor(r, t) < 0) return err_in(r->err, "tensor '%.200s'", t->name);
    }
    tie_or_keep_head(r);
    if (check_lora(r->adapter, r->err) < 0 || find_bare(r) < 0) return -1;
    find_bare_parameters(r);
    find_unsaved(r);
    adapter_config_notices(r->adapter, r->config);
    return 0;
}

// --- extra.safetensors ---------------------------------------------------------------------------

static int read_extra(struct adapter *a, const struct safetensor *t, struct err *err)
{
    struct method_tensor want;
    if (!method_learning(a->model, t->name, &want)) {
        struct buf b = { 0 };
        methods_learned(a->model, &b);
        err_set(err, "no method uses it with this model (known: %s; K below %d)",
                b.data ? b.data : "none", a->model->decoder.config.layers);
        buf_release(&b);
        return -1;
    }
    if (!same_shape(t, want.rank, want.shape))
        return refuse_shape(t, want.rank, want.shape, t->name, err);
    if (check_numbers(t, err) < 0) return -1;
    return take_floats(a->arena, t, &add_entry(a, ADAPTER_EXTRA, t->name)->tensor, err);
}

// --- the adapter ---------------------------------------------------------------------------------

static int read_files(struct adapter *a, const cJSON *config, struct err *err)
{
    struct adapter_config c = { 0 };
    for (int64_t i = 0; a->extra && i < a->extra->count; i++) {
        const struct safetensor *t = &a->extra->tensors[i];
        if (read_extra(a, t, err) < 0) {
            err_in(err, "tensor '%.200s'", t->name);
            return err_in(err, "extra.safetensors");
        }
    }
    if (!a->file) return 0;
    int status = adapter_config_read(&c, config, err);
    if (status < 0) {
        err_in(err, "adapter_config.json");
    } else {
        free(a->base);
        a->base = xstrdup(c.base);
        struct reading r = { .adapter = a,
                             .model = a->model,
                             .config = &c,
                             .file = a->file,
                             .numbers = xcalloc(2 * (a->model->weights.count + 1), sizeof(size_t)),
                             .err = err };
        status = read_file(&r);
        names_release(&r.unused);
        free(r.numbers);
    }
    adapter_config_release(&c);
    return status;
}

struct adapter *adapter_parse(const char *folder, struct model *m, const cJSON *config,
                              struct safetensors *file, struct safetensors *extra, struct err *err)
{
    struct adapter *a = xcalloc(1, sizeof *a);
    a->folder = xstrdup(folder);
    a->name = folder_name(folder);
    a->base = xstrdup("");
    a->model = m;
    a->file = file;
    a->extra = extra;
    a->arena = xcalloc(1, sizeof *a->arena);
    a->arena->backend = m->arena.backend;
    if (read_files(a, config, err) < 0) goto out;
    if (!a->count) {
        err_set(err, "it contains no tensors%s", a->unused ? " that the model uses" : "");
        goto out;
    }
    adapter_scale(a, 1);
    return a;
out:
    err_in(err, "adapter '%s'", folder);
    adapter_free(a);
    return NULL;
}
