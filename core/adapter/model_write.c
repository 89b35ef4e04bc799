// core/adapter/model_write.c -- writes the current model as a folder that transformers can load.
//
//   each shard: the header, unchanged; then each tensor with the values that the model uses:
//               W' = round(W + scale B A), added in f32, a block of rows at a time; an expert at
//               a time if a tensor holds those of a layer
//
// A tensor that the model does not use (position_ids, unused heads) is copied unchanged.
#include "core/adapter/model_write.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/adapter/adapter_entry.h"
#include "core/adapter/adapter_stack.h"
#include "core/base/dtype.h"
#include "core/base/folder.h"
#include "core/base/items.h"
#include "core/base/text.h"
#include "core/files/safetensors.h"
#include "core/model/families/family.h"
#include "core/model/unread.h"
#include "core/ops/ops.h"
#include "core/talk/answer.h"

enum { BLOCK_NUMBERS = 4 << 20 }; // elements of a tensor converted at a time

static int by_offset(const void *a, const void *b)
{
    const struct safetensor *x = *(const struct safetensor *const *)a;
    const struct safetensor *y = *(const struct safetensor *const *)b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

// --- one tensor ----------------------------------------------------------------------------------

struct source {
    const struct tensor *tensor; // NULL: copies the file's bytes
    const struct lora *lora;
    bool in_file; // uses the file's values, because the tensor was rounded temporarily
};

static struct source source_of(const struct model *m, const struct safetensor *t)
{
    for (size_t i = 0; i < m->weights.count; i++) {
        const struct weight *w = &m->weights.list[i];
        if (!strcmp(w->name, t->name))
            return (struct source){ w->tensor, w->linear ? w->linear->lora : NULL, w->rounded };
    }
    // A tied head that the file stores too gets the embedding's values.
    const struct tensor *head = &m->decoder.head;
    bool is_head = m->decoder.config.tied && m->family->part(m, t->name) == PART_HEAD &&
                   t->rank == 2 && t->shape[0] == head->shape[0] && t->shape[1] == head->shape[1];
    return (struct source){ is_head ? head : NULL, NULL, false };
}

// Adds `rows` rows of scale B A [out,in], from row `first` on, to `to` [rows,in].
static int add_lora(const struct model *m, const struct lora *lora, int64_t first, int64_t rows,
                    float *to, struct err *err)
{
    int64_t r = lora->a.shape[0], in = lora->a.shape[1];
    struct arena arena = { .backend = m->arena.backend };
    struct graph g = { .backend = arena.backend, .arena = &arena };
    float *a = xreallocarray(NULL, (size_t)(r * in), sizeof *a);
    float *transposed = xreallocarray(NULL, (size_t)(r * in), sizeof *transposed);
    arena.backend->download(a, lora->a.data, (size_t)(r * in) * sizeof *a);
    for (int64_t i = 0; i < r; i++)
        for (int64_t k = 0; k < in; k++) transposed[k * r + i] = a[i * in + k];
    struct tensor b = lora->b; // op_matmul computes b w^T, so w is A transposed
    struct tensor *w = graph_upload(&g, DTYPE_F32, 2, (int64_t[]){ in, r }, transposed);
    struct tensor *y = op_matmul(&g, graph_rows(&g, &b, first, rows), w, NULL); // [rows,in]
    y = op_scale(&g, y, lora->scale);
    if (y) arena.backend->download(a = xrealloc(a, tensor_bytes(y)), y->data, tensor_bytes(y));
    for (int64_t i = 0; y && i < rows * in; i++) to[i] += a[i];
    free(transposed);
    free(a);
    arena_release(&arena);
    return graph_ok(&g) ? 0 : err_set(err, "%s", g.err.text);
}

int model_weight_rows(const struct model *m, const struct weight *w, int64_t first, int64_t rows,
                      float *to, struct err *err)
{
    const struct tensor *t = w->tensor;
    const struct lora *lora = w->linear ? w->linear->lora : NULL;
    const int64_t width = t->rank > 1 ? tensor_row(t) : 1;
    adapter_floats(m->arena.backend, t, first * width, rows * width, to);
    rows_reorder(to, rows, width, t->order);
    return lora ? add_lora(m, lora, first, rows, to, err) : 0;
}

// Writes n elements of a tensor in its type. Overwrites `floats`; `bytes` has room for them.
static int put_floats(FILE *file, const struct safetensor *t, float *floats, char *bytes, size_t n,
                      struct err *err)
{
    const enum dtype dtype = (enum dtype)t->dtype;
    floats_to(bytes, dtype, floats, n);
    if (dtype != DTYPE_F32) {
        floats_from(floats, bytes, dtype, n);
        if (!floats_finite(floats, n))
            return err_set(err, "tensor '%s' has values that overflow its type %s", t->name,
                           t->type);
    }
    fwrite(bytes, dtype_size(dtype), n, file); // folder_close reports failed writes
    return 0;
}

static int put_block(const struct model *m, FILE *file, const struct safetensor *t, struct source s,
                     int64_t first, int64_t rows, struct err *err)
{
    const enum dtype dtype = (enum dtype)t->dtype;
    const int64_t width = tensor_row(s.tensor);
    const size_t n = (size_t)(rows * width), size = dtype_size(dtype);
    char *bytes = xreallocarray(NULL, n, size);
    float *floats = xreallocarray(NULL, n, sizeof *floats);
    if (s.in_file)
        floats_from(floats, (const char *)t->data + (size_t)(first * width) * size, dtype, n);
    else
        adapter_floats(m->arena.backend, s.tensor, first * width, rows * width, floats);
    int status = s.lora ? add_lora(m, s.lora, first, rows, floats, err) : 0;
    if (status == 0) status = put_floats(file, t, floats, bytes, n, err);
    free(floats);
    free(bytes);
    return status;
}

// --- experts in one tensor -----------------------------------------------------------------------

// Returns the name of the file's tensor that holds this expert's weight beside those of the others:
// "layers.1.mlp.experts.gate_up_proj" for "layers.1.mlp.experts.3.up_proj.weight". The caller frees
// it. NULL: it is no weight of an expert.
static char *stack_name(const char *weight)
{
    static const char last[] = ".weight";
    if (!text_ends(weight, last)) return NULL;
    char *module = xstrndup(weight, strlen(weight) - strlen(last));
    char *name = adapter_expert_parameter(module);
    free(module);
    return name;
}

static bool is_changed(const struct weight *w)
{
    return w->tensor->data != w->bound || (w->linear && w->linear->lora);
}

// Copies x [rows, columns] to y [columns, rows].
static void transpose(float *y, const float *x, int64_t rows, int64_t columns)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) y[j * rows + i] = x[i * columns + j];
}

// Replaces rows `row`.. of x [.., in], the matrix of an expert in the file, by the weight's.
static int put_part(const struct model *m, const struct weight *w, float *x, int64_t row,
                    struct err *err)
{
    const int64_t rows = w->shape[0], in = w->shape[1];
    if (w->tensor->data != w->bound && !w->rounded)
        adapter_floats(m->arena.backend, w->tensor, 0, rows * in, x + row * in);
    const struct lora *lora = w->linear ? w->linear->lora : NULL;
    return lora ? add_lora(m, lora, 0, rows, x + row * in, err) : 0;
}

// The weights of one expert that a tensor holds, in the order of their rows.
struct expert_parts {
    const struct weight *list[2];
    size_t count;
    int64_t rows, in;
    bool changed;
};

// `last`: the last weight of the expert before; NULL: unknown.
static struct expert_parts parts_of(const struct model *m, const struct safetensor *t, int64_t e,
                                    const struct weight *last)
{
    static const char *const names[][2] = { { "gate_proj", "up_proj" }, { "down_proj", NULL } };
    struct expert_parts p = { 0 };
    const char *stack = name_last_level(t->name);
    for (size_t i = 0; i < 2; i++) {
        const char *name = names[!strcmp(stack, "down_proj")][i];
        if (!name) break;
        char *full =
            xasprintf("%.*s%lld.%s.weight", (int)(stack - t->name), t->name, (long long)e, name);
        const struct weight *w = weights_find_after(&m->weights, last, full);
        free(full);
        if (!w) break;
        p.list[p.count++] = last = w;
        p.rows += w->shape[0];
        p.in = w->shape[1];
        p.changed |= is_changed(w);
    }
    return p;
}

// True if the tensor holds a weight of all experts of a layer, one of which has changed.
static bool is_changed_stack(const struct model *m, const struct safetensor *t)
{
    struct expert_parts p = { 0 };
    bool changed = false;
    if (t->rank != 3 || !safetensor_is_float(t) ||
        !(text_ends(t->name, ".experts.down_proj") || text_ends(t->name, ".experts.gate_up_proj")))
        return false;
    for (int64_t e = 0; e < t->shape[0]; e++) {
        p = parts_of(m, t, e, p.count ? p.list[p.count - 1] : NULL);
        const bool fits = t->shape[1] == p.rows && t->shape[2] == p.in;
        const bool turned = t->shape[1] == p.in && t->shape[2] == p.rows;
        if (!p.count || !(fits || turned)) return false; // a tensor that the model does not read
        changed |= p.changed;
    }
    return changed;
}

// Writes the matrix of expert e, which the file has as [rows, in] or, in the hub's folders of
// Qwen3-VL, as [in, rows]. *last: the last weight of the expert before; becomes that of this one.
static int put_expert(const struct model *m, FILE *file, const struct safetensor *t, int64_t e,
                      const struct weight **last, struct err *err)
{
    const enum dtype dtype = (enum dtype)t->dtype;
    const struct expert_parts p = parts_of(m, t, e, *last);
    const size_t n = (size_t)(t->shape[1] * t->shape[2]), size = dtype_size(dtype);
    const char *from = (const char *)t->data + (size_t)e * n * size;
    const bool transposed = p.in != t->shape[2];
    int status = 0;
    if (p.count) *last = p.list[p.count - 1];
    if (!p.changed) {
        fwrite(from, size, n, file);
        return 0;
    }
    float *x = xreallocarray(NULL, n, sizeof *x), *y = xreallocarray(NULL, n, sizeof *y);
    char *bytes = xreallocarray(NULL, n, size);
    floats_from(transposed ? y : x, from, dtype, n);
    if (transposed) transpose(x, y, p.in, p.rows);
    for (size_t i = 0; i < p.count && status == 0; i++)
        status = put_part(m, p.list[i], x, i ? p.list[0]->shape[0] : 0, err);
    if (transposed) transpose(y, x, p.rows, p.in);
    if (status == 0) status = put_floats(file, t, transposed ? y : x, bytes, n, err);
    free(bytes);
    free(y);
    free(x);
    return status;
}

static int put_tensor(const struct model *m, FILE *file, const struct safetensor *t,
                      struct err *err)
{
    if (is_changed_stack(m, t)) {
        const struct weight *last = NULL;
        for (int64_t e = 0; e < t->shape[0]; e++)
            if (put_expert(m, file, t, e, &last, err) < 0) return -1;
        return 0;
    }
    struct source s = source_of(m, t);
    bool same = !s.tensor || (!s.lora && (s.in_file || s.tensor->data == t->data));
    if (same) fwrite(t->data, 1, t->bytes, file);
    if (same) return 0;
    int64_t width = tensor_row(s.tensor), all = tensor_count(s.tensor);
    int64_t step = width > 0 && width < BLOCK_NUMBERS ? BLOCK_NUMBERS / width : 1;
    for (int64_t i = 0; all && i < s.tensor->shape[0]; i += step) {
        int64_t rows = s.tensor->shape[0] - i < step ? s.tensor->shape[0] - i : step;
        if (put_block(m, file, t, s, i, rows, err) < 0) return -1;
    }
    return 0;
}

// --- the folder ----------------------------------------------------------------------------------

// Copies the header unchanged, so each tensor keeps its offset.
static int write_shard(const struct model *m, const struct safetensors *f, const char *folder,
                       struct err *err)
{
    const char *name = text_file_name(f->path);
    FILE *file = folder_create(folder, name, err);
    if (!file) return -1;
    const struct safetensor **order = xcalloc((size_t)f->count, sizeof *order);
    int status = 0;
    for (int64_t i = 0; i < f->count; i++) order[i] = &f->tensors[i];
    if (f->count) qsort(order, (size_t)f->count, sizeof *order, by_offset);
    fwrite(f->map, 1, f->header, file);
    for (int64_t i = 0; i < f->count && status == 0 && !ferror(file); i++)
        status = put_tensor(m, file, order[i], err);
    free(order);
    int closed = folder_close(file, folder, name, status < 0 ? NULL : err);
    return status < 0 ? -1 : closed;
}

// Copies files other than weights, unchanged: configs, tokenizer, texts.
static int copy_others(const struct model *m, const char *folder, struct err *err)
{
    static const char weights[] = ".safetensors .bin .pt .pth .ckpt .gguf .onnx .h5 .msgpack .xz";
    const struct checkpoint *c = m->checkpoint;
    char **names = folder_list(c->folder);
    int status = 0;
    if (!*names) status = err_set(err, "cannot list '%s'", c->folder);
    for (char **name = names; *name && status == 0; name++) {
        const char *end = strrchr(*name, '.');
        struct stat st;
        if (**name == '.' || (end && items_has(weights, end, " ")) ||
            items_has("adapter_config.json training.json", *name, " "))
            continue;
        char *path = xasprintf("%s/%s", c->folder, *name);
        if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
            status = folder_copy(folder, *name, path, err);
        free(path);
    }
    folder_list_free(names);
    // The loop above does not copy a template in a subfolder.
    if (status == 0 && c->template_file && strchr(c->template_file, '/'))
        status = folder_write(folder, "chat_template.jinja", c->chat_template,
                              strlen(c->chat_template), err);
    return status;
}

// Refuses weights that the model's files cannot store.
static int check_written(const struct model *m, struct err *err)
{
    const struct checkpoint *c = m->checkpoint;
    bool head = !model_head_untied(m);
    for (int64_t i = 0; i < c->tensor_count && !head; i++)
        head = m->family->part(m, c->tensors[i]->name) == PART_HEAD;
    if (!head)
        return err_set(err,
                       "embedding and output head were trained separately, but this model stores "
                       "them as one tensor: use the result as an adapter");
    // A changed weight that is part of a larger tensor in the file cannot be written back, unless
    // that holds the experts of a layer.
    for (size_t i = 0; i < m->weights.count; i++) {
        const struct weight *w = &m->weights.list[i];
        if (!is_changed(w)) continue;
        char *stack = stack_name(w->name);
        const bool stored = checkpoint_has(c, w->name) || (stack && checkpoint_has(c, stack));
        free(stack);
        if (!stored)
            return err_set(err,
                           "this model's files store '%s' as a part of another tensor, where it "
                           "cannot be written back: use the result as an adapter",
                           w->name);
    }
    return 0;
}

int model_write_into(const struct model *m, const struct adapter_delta *deltas, size_t count,
                     const char *folder, struct err *err)
{
    const struct checkpoint *c = m->checkpoint;
    if (c->gguf_count)
        return err_set(
            err,
            "'%s' is a GGUF file, which cannot be written as a folder: /quantize "
            "OUT.gguf --type q8_0 writes it as a GGUF file with the adapter merged; or load the "
            "adapter on the model's original folder and merge it there",
            c->folder);
    if (c->quantised)
        return err_set(
            err,
            "the weights of '%s' are quantised and cannot be written back: /quantize "
            "OUT.gguf --type q8_0 writes them as a GGUF file with the adapter merged; or load the "
            "adapter on the model's unquantised folder and merge it there",
            c->folder);
    if (c->form)
        return err_set(
            err,
            "the weights of '%s' were quantised at loading (%.*s) and cannot be written back: load "
            "it with weights.dtype auto, then the adapter, and merge it there",
            c->folder, (int)strcspn(c->form, " "), c->form);
    if (check_written(m, err) < 0 || copy_others(m, folder, err) < 0) return -1;
    for (int s = 0; s < c->shard_count; s++)
        if (write_shard(m, c->shards[s], folder, err) < 0) return -1;
    return adapter_write_extras(deltas, count, m->arena.backend, folder, err);
}

// --- the fixed prompt ----------------------------------------------------------------------------

struct capture {
    float *logits;
    int64_t rows;
};

static bool capture_wants(void *self, const struct site *site, int layer)
{
    return site == SITE_LOGITS;
}

static int capture_run(void *self, struct graph *g, const struct site *site, struct site_args *args)
{
    struct capture *c = self;
    c->rows = args->x->shape[0];
    c->logits = xrealloc(c->logits, tensor_bytes(args->x));
    g->backend->download(c->logits, args->x->data, tensor_bytes(args->x));
    return 0;
}

// Attaches a generated picture: gradients of three colours.
static int attach_picture(struct conversation *c, struct err *err)
{
    enum { SIDE = 64 };
    unsigned char picture[16 + 3 * SIDE * SIDE];
    int n = snprintf((char *)picture, 16, "P6 %d %d 255\n", SIDE, SIDE);
    for (int i = 0; i < SIDE * SIDE; i++) {
        picture[n++] = (unsigned char)(i % SIDE * 4);
        picture[n++] = (unsigned char)(i / SIDE * 4);
        picture[n++] = (unsigned char)(255 - i % SIDE * 2 - i / SIDE * 2);
    }
    return conversation_attach(c, "slopes.ppm", picture, (size_t)n, err);
}

// Returns the logits of all rows of a fixed prompt; the caller frees them.
static float *fixed_logits(const struct model *m, int64_t *rows, struct err *err)
{
    struct capture capture = { 0 };
    struct hooks hooks = { 0 };
    const struct hook hook = { .wants = capture_wants, .run = capture_run, .self = &capture };
    const struct answer_options options = { .forward_only = true, .all_logits = true };
    const struct sinks nobody = { 0 };
    struct settings *settings = settings_new();
    struct conversation c;
    bool answered;
    // Uses f32, so that rounding does not hide small differences.
    settings_set(settings, "compute.matmul", "f32", NULL);
    settings_set(settings, "kv.dtype", "f32", NULL);
    hooks_add(&hooks, &hook);
    conversation_init(&c, m->arena.backend);
    conversation_set_model(&c, m);
    int picture = model_has_vision(m) ? attach_picture(&c, err) : -1, status = -1;
    if (!model_has_vision(m) || picture >= 0) {
        struct message *said = conversation_add(&c, ROLE_USER);
        if (picture >= 0) message_add_picture(said, picture);
        message_add_text(said, "Say what you see: shapes, colours, places, and how many.");
        status = answer_run(&c, settings, &hooks, NULL, &options, &nobody, &answered, err);
    }
    conversation_release(&c);
    settings_free(settings);
    *rows = capture.rows;
    if (status == 0) return capture.logits;
    free(capture.logits);
    return NULL;
}

static int compare(const struct model *m, const char *folder, struct merge_report *r,
                   struct err *err)
{
    int64_t rows = 0, vocab = m->decoder.config.vocab;
    // The new folder includes the tensors that the model ignores, so the load must ignore them too.
    char *name = m->ignore ? unread_join(folder) : xstrdup(folder);
    struct model *written = model_load(name, m->arena.backend, NULL, err);
    float *a = written ? fixed_logits(m, &r->rows, err) : NULL;
    float *b = a ? fixed_logits(written, &rows, err) : NULL;
    r->difference = r->largest = 0;
    r->routed = m->decoder.config.experts.count > 0;
    for (int64_t i = 0; b && i < rows * vocab; i++) {
        r->difference = fmaxf(r->difference, fabsf(a[i] - b[i]));
        r->largest = fmaxf(r->largest, fabsf(a[i]));
    }
    const int status = b ? 0 : -1;
    free(a);
    free(b);
    free(name);
    model_free(written);
    return status;
}

int model_write(const struct model *m, const struct adapter_delta *deltas, size_t count,
                const char *folder, struct merge_report *report, struct err *err)
{
    struct folder_work work;
    if (folder_begin(&work, folder, err) < 0) return -1;
    if (model_write_into(m, deltas, count, work.path, err) == 0 &&
        (!report || compare(m, work.path, report, err) == 0))
        return folder_commit(&work, folder, err);
    folder_abandon(&work);
    return -1;
}
