// core/adapter/adapter_write.c -- writes trained changes into a folder that PEFT loads.
//
//   with LoRA      LORA: lora_A, lora_B, trained biases beside them; every other trained module in
//                  modules_to_save
//   of experts     the LoRA of all experts of a layer in two tensors (core/adapter/adapter_stack.h)
//   without        LN_TUNING: norms as targets, every other trained module in modules_to_save
//   beyond PEFT    tensors of methods in extra.safetensors
//
// PEFT saves and loads modules, not tensors: vlmsh writes all tensors of a module in
// modules_to_save, including untrained ones and a router's bias. Names are those of current
// transformers. A tied embedding is also written as the head, because PEFT would keep the old head.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/adapter/adapter.h"
#include "core/adapter/adapter_entry.h"
#include "core/adapter/adapter_stack.h"
#include "core/base/dtype.h"
#include "core/base/folder.h"
#include "core/base/mem.h"
#include "core/base/names.h"
#include "core/base/text.h"
#include "core/files/safetensors.h"
#include "core/model/families/family.h"
#include "core/model/layer.h"

// A weight of the model, and how to write it.
struct slot {
    const struct weight *weight;
    char *module;               // "model.language_model.layers.0.mlp.up_proj"
    const struct tensor *value; // the trained tensor, else the model's
    const struct lora *lora;
    bool trained, target, saved; // target, saved: in target_modules, modules_to_save
    bool parameter;              // in target_parameters instead of target_modules
    bool stacked;                // its LoRA is part of a stack's
};

// The LoRA of the experts of a layer that PEFT keeps in one parameter.
struct stack {
    char *module;                  // "model.language_model.layers.3.mlp.experts"
    struct adapter_stack of;       // its sizes
    bool both;                     // the layer has LoRA on both parameters
    const struct lora *(*lora)[2]; // [E]: of gate_proj and up_proj, or of down_proj; NULL: none
    int64_t rank[2];               // largest rank of each
    int64_t shape[2][2];           // of A and B in the file
    float scale;                   // the scale of largest size; B of the others is adjusted
};

struct output {
    char *key;
    const struct tensor *tensor;
    int rank;
    const int64_t *shape;      // shape in the file
    enum dtype type;           // type in the file
    const char *weight;        // the weight whose rows and columns it has; NULL: others
    const struct stack *stack; // the experts whose A or B it is, without `tensor`; or NULL
};

struct writing {
    const struct model *model;
    struct slot *slots; // [count] in the order of model->weights
    size_t count;
    const struct lora *lora; // the first LoRA delta, or NULL
    struct stack *stacks;
    size_t stack_count, stack_capacity;
    bool peft;       // PEFT's files are needed
    enum dtype type; // type of the tensors in the file
    struct output *outputs;
    size_t output_count, output_capacity;
};

static bool is_norm(const char *module)
{
    const char *last = name_last_level(module);
    return strstr(last, "norm") || strstr(last, "layrnorm"); // spelled so in CLIP's files
}

// True if the module is `parent` or a part of it.
static bool lies_in(const char *module, const char *parent)
{
    size_t n = strlen(parent);
    return !strncmp(module, parent, n) && (!module[n] || module[n] == '.');
}

// --- targets and saved modules -------------------------------------------------------------------

static void open_slots(struct writing *w, const struct adapter_delta *deltas, size_t count)
{
    const struct weights *weights = &w->model->weights;
    w->count = weights->count;
    w->slots = xcalloc(w->count, sizeof *w->slots);
    for (size_t i = 0; i < w->count; i++) {
        const struct weight *weight = &weights->list[i];
        w->slots[i] = (struct slot){ .weight = weight,
                                     .module = family_module_name(w->model->family, weight),
                                     .value = weight->tensor };
    }
    for (size_t i = 0; i < count; i++) {
        const struct adapter_delta *p = &deltas[i];
        if (p->kind == ADAPTER_EXTRA) continue;
        struct slot *s = &w->slots[p->weight - weights->list];
        w->peft = true;
        if (p->kind == ADAPTER_LORA && !w->lora) w->lora = p->lora;
        if (p->kind == ADAPTER_LORA)
            s->lora = p->lora;
        else
            s->trained = true, s->value = p->tensor;
    }
}

// True if the weight, such as a bias, belongs to a module with LoRA.
static bool beside_lora(const struct writing *w, const struct slot *s)
{
    for (size_t i = 0; i < w->count; i++)
        if (w->slots[i].lora && !strcmp(w->slots[i].module, s->module)) return true;
    return false;
}

static void choose_targets(struct writing *w)
{
    for (size_t i = 0; i < w->count; i++) {
        struct slot *s = &w->slots[i];
        if (s->lora) s->target = true;
        if (!s->trained || beside_lora(w, s)) continue;
        if (!w->lora && is_norm(s->module)) {
            s->target = true;
            continue;
        }
        for (size_t k = 0; k < w->count; k++)
            w->slots[k].saved |= lies_in(w->slots[k].module, s->module);
    }
    for (size_t i = 0; i < w->count; i++) // modules saved with a parent are not targets
        if (w->slots[i].saved) w->slots[i].target = w->slots[i].lora != NULL;
}

static bool saved_as_head(const struct writing *w, const struct slot *s)
{
    return s->saved && s->weight->part == PART_EMBEDDING && w->model->decoder.config.tied;
}

static const char *head_name(const struct writing *w)
{
    return decoder_name(w->model->decoder.config.kind, "lm_head");
}

// --- experts -------------------------------------------------------------------------------------

// Returns the stack of these experts; adds it if it is new. The experts of a layer follow each
// other, so it is one of the last two.
static struct stack *find_stack(struct writing *w, const char *module, size_t length, bool down)
{
    const int64_t count = w->model->decoder.config.experts.count;
    bool both = false;
    for (size_t i = w->stack_count; i-- > 0 && i + 2 >= w->stack_count;) {
        struct stack *s = &w->stacks[i];
        if (strlen(s->module) != length || strncmp(s->module, module, length) != 0) continue;
        if (s->of.down == down) return s;
        s->both = both = true;
    }
    w->stacks = xgrow(w->stacks, &w->stack_capacity, w->stack_count, sizeof *w->stacks);
    struct stack *s = &w->stacks[w->stack_count++];
    *s = (struct stack){ .module = xstrndup(module, length),
                         .of = { .experts = count, .down = down },
                         .both = both,
                         .lora = xcalloc((size_t)count, sizeof *s->lora) };
    return s;
}

// PEFT 0.21 with transformers 5 takes every target module that ends in one of these names for one
// of the experts, even in another part of the model.
static bool is_taken_for_expert(const char *module)
{
    static const char *const names[] = { "gate_proj", "up_proj", "down_proj", "gate", NULL };
    return text_listed(names, name_last_level(module));
}

// Chooses the LoRA that PEFT applies to parameters instead of modules.
static void choose_parameters(struct writing *w)
{
    const int64_t count = w->model->decoder.config.experts.count;
    if (!count || w->model->family->experts_apart) return;
    for (size_t i = 0; i < w->count; i++) {
        struct slot *s = &w->slots[i];
        struct adapter_expert e;
        if (!s->lora) continue;
        s->parameter = is_taken_for_expert(s->module);
        if (!adapter_expert_parse(&e, s->module) || e.number >= count) continue;
        struct stack *to = find_stack(w, s->module, e.experts, e.matrix == EXPERT_DOWN);
        const int k = e.matrix == EXPERT_UP;
        s->stacked = true;
        to->lora[e.number][k] = s->lora;
        to->of.in = s->lora->a.shape[1];
        to->of.out = s->lora->b.shape[0] * (to->of.down ? 1 : 2);
        if (s->lora->a.shape[0] > to->rank[k]) to->rank[k] = s->lora->a.shape[0];
        if (fabsf(s->lora->scale) > fabsf(to->scale)) to->scale = s->lora->scale;
    }
    for (size_t i = 0; i < w->stack_count; i++) {
        struct stack *s = &w->stacks[i];
        s->of.rank = s->rank[0] + s->rank[1];
        s->shape[0][0] = s->shape[1][1] = count * s->of.rank;
        s->shape[0][1] = s->of.in;
        s->shape[1][0] = s->of.out;
    }
}

static char *stack_name(const struct stack *s)
{
    return xasprintf("%s.%s", s->module, adapter_stack_names[s->of.down]);
}

// Returns A or B of a stack in f32; the caller frees it.
static float *stack_floats(const struct backend *backend, const struct stack *s, bool is_a)
{
    struct adapter_stack to = s->of;
    const int64_t *shape = s->shape[is_a ? 0 : 1];
    to.a = to.b = xcalloc((size_t)shape[0], (size_t)shape[1] * sizeof *to.a);
    for (int64_t i = 0; i < 2 * to.experts; i++) {
        const int64_t e = i / 2, k = i % 2;
        const struct lora *l = s->lora[e][k];
        if (!l) continue;
        float *part = adapter_vector(backend, is_a ? &l->a : &l->b);
        const struct adapter_stack_part p = { .first = k ? s->rank[0] : 0,
                                              .rank = l->a.shape[0],
                                              .row = k ? to.out / 2 : 0,
                                              .rows = l->b.shape[0],
                                              .factor =
                                                  l->scale == s->scale ? 1 : l->scale / s->scale };
        (is_a ? adapter_stack_put_a : adapter_stack_put_b)(&to, e, &p, part);
        free(part);
    }
    return to.a;
}

// --- adapter_config.json -------------------------------------------------------------------------

// Returns the length of the longest common prefix, in whole levels with their dots, of all module
// names of the part.
static size_t common_prefix(const struct writing *w, enum model_part_kind part)
{
    const char *first = NULL;
    size_t n = 0;
    for (size_t i = 0; i < w->count; i++) {
        const char *module = w->slots[i].module;
        if (w->slots[i].weight->part != part) continue;
        if (!first) first = module, n = strlen(module);
        while (strncmp(first, module, n) != 0) n--;
    }
    while (n && first[n - 1] != '.') n--;
    return n;
}

// True if the module is in target_modules.
static bool is_target(const struct slot *s)
{
    return s->target && !s->parameter;
}

// Collects the last levels of the targets' names; returns false if a module that is not a target
// shares one.
static bool target_leaves(const struct writing *w, enum model_part_kind part, struct names *leaves,
                          const char **module)
{
    for (size_t i = 0; i < w->count; i++) {
        const struct slot *s = &w->slots[i];
        if (s->weight->part != part || !is_target(s)) continue;
        names_add(leaves, name_last_level(s->module), NULL);
        *module = s->module;
    }
    // Skips biases: the slot of a bias may not be a target although its module is one.
    for (size_t i = 0; i < w->count; i++) {
        const struct slot *s = &w->slots[i];
        if (s->weight->part != part || is_target(s) ||
            !strcmp(name_last_level(s->weight->name), "bias"))
            continue;
        for (size_t k = 0; k < leaves->count; k++)
            if (!strcmp(leaves->list[k], name_last_level(s->module))) return false;
    }
    return true;
}

// Returns a regular expression for the targets; NULL if it would match other modules too.
static char *target_expression(const struct writing *w)
{
    struct buf b = { 0 };
    bool whole = true;
    for (enum model_part_kind part = 0; part < MODEL_PARTS; part++) {
        struct names leaves = { 0 };
        const char *module = NULL;
        whole &= target_leaves(w, part, &leaves, &module);
        if (module && b.length) buf_putc(&b, '|');
        for (size_t i = 0, n = module ? common_prefix(w, part) : 0; i < n; i++)
            buf_printf(&b, "%s%c", module[i] == '.' ? "\\" : "", module[i]);
        for (size_t i = 0; i < leaves.count; i++)
            buf_printf(&b, "%s%s", i ? "|" : "(.*\\.)?(", leaves.list[i]);
        if (module) buf_putc(&b, ')');
        names_release(&leaves);
    }
    if (!b.length) buf_puts(&b, "dummy-target-modules"); // PEFT's word for no targets
    if (whole) return buf_take(&b);
    buf_release(&b);
    return NULL;
}

static cJSON *target_modules(const struct writing *w)
{
    char *expression = target_expression(w);
    cJSON *json = expression ? cJSON_CreateString(expression) : cJSON_CreateArray();
    struct names seen = { 0 };
    for (size_t i = 0; !expression && i < w->count; i++) {
        bool known = !is_target(&w->slots[i]);
        if (!known) names_add(&seen, w->slots[i].module, &known);
        if (!known) cJSON_AddItemToArray(json, cJSON_CreateString(w->slots[i].module));
    }
    names_release(&seen);
    free(expression);
    return json;
}

// Lists the weights whose LoRA PEFT must apply to parameters; NULL: none.
static cJSON *target_parameters(const struct writing *w)
{
    cJSON *json = cJSON_CreateArray();
    for (size_t i = 0; i < w->count + w->stack_count; i++) {
        const struct slot *s = i < w->count ? &w->slots[i] : NULL;
        if (s && (!s->parameter || s->stacked)) continue;
        char *name = s ? xasprintf("%s.weight", s->module) : stack_name(&w->stacks[i - w->count]);
        cJSON_AddItemToArray(json, cJSON_CreateString(name));
        free(name);
    }
    if (cJSON_GetArraySize(json)) return json;
    cJSON_Delete(json);
    return NULL;
}

// Lists the modules with a trained tensor, except those inside another listed module.
static cJSON *modules_to_save(const struct writing *w)
{
    struct names modules = { 0 };
    for (size_t i = 0; i < w->count; i++) {
        const struct slot *s = &w->slots[i];
        if (s->trained && s->saved) names_add(&modules, s->module, NULL);
        if (saved_as_head(w, s)) names_add(&modules, head_name(w), NULL);
    }
    cJSON *json = modules.count ? cJSON_CreateArray() : cJSON_CreateNull();
    for (size_t i = 0; i < modules.count; i++) {
        const char *module = modules.list[i];
        bool inside = false;
        for (size_t k = 0; k < modules.count; k++)
            inside |= k != i && lies_in(module, modules.list[k]);
        if (!inside) cJSON_AddItemToArray(json, cJSON_CreateString(module));
    }
    names_release(&modules);
    return json;
}

// Returns alpha, rounded to the precision of the f32 scale.
static double alpha_of(float scale, int64_t rank, bool stabilised)
{
    char text[32];
    snprintf(text, sizeof text, "%.7g", lora_alpha((double)scale, rank, stabilised));
    return strtod(text, NULL);
}

// Writes rank and alpha of the first LoRA as those of all, and patterns for the exceptions.
static void add_lora_config(cJSON *json, const struct writing *w)
{
    const struct lora *first = w->lora;
    const int64_t r = first->a.shape[0];
    const double usual = alpha_of(first->scale, r, first->stabilised);
    cJSON *ranks = cJSON_CreateObject(), *alphas = cJSON_CreateObject();
    bool bias = false;
    for (size_t i = 0; i < w->count + w->stack_count; i++) {
        const struct slot *s = i < w->count ? &w->slots[i] : NULL;
        const struct stack *stack = s ? NULL : &w->stacks[i - w->count];
        if (s) bias |= s->trained && !s->saved && !s->target;
        if (s && (!s->lora || s->stacked)) continue;
        const int64_t rank = s ? s->lora->a.shape[0] : stack->of.rank;
        const double alpha = alpha_of(s ? s->lora->scale : stack->scale, rank, first->stabilised);
        char *name =
            s ? xasprintf("%s%s", s->module, s->parameter ? ".weight" : "") : stack_name(stack);
        if (rank != r) cJSON_AddNumberToObject(ranks, name, (double)rank);
        if (alpha != usual) cJSON_AddNumberToObject(alphas, name, alpha);
        free(name);
    }
    cJSON_AddNumberToObject(json, "r", (double)r);
    cJSON_AddNumberToObject(json, "lora_alpha", usual);
    cJSON_AddNumberToObject(json, "lora_dropout", 0);
    cJSON_AddItemToObject(json, "rank_pattern", ranks);
    cJSON_AddItemToObject(json, "alpha_pattern", alphas);
    cJSON_AddStringToObject(json, "bias", bias ? "lora_only" : "none");
    cJSON_AddBoolToObject(json, "use_rslora", first->stabilised);
    cJSON_AddBoolToObject(json, "use_dora", false);
    cJSON_AddBoolToObject(json, "fan_in_fan_out", false);
    cJSON_AddBoolToObject(json, "init_lora_weights", true);
}

static int write_config(const struct writing *w, const char *folder, struct err *err)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "peft_type", w->lora ? "LORA" : "LN_TUNING");
    cJSON_AddStringToObject(json, "task_type", "CAUSAL_LM");
    cJSON_AddStringToObject(json, "base_model_name_or_path", w->model->name);
    cJSON_AddBoolToObject(json, "inference_mode", true);
    cJSON_AddItemToObject(json, "target_modules", target_modules(w));
    cJSON *parameters = target_parameters(w);
    if (parameters) cJSON_AddItemToObject(json, "target_parameters", parameters);
    cJSON_AddItemToObject(json, "modules_to_save", modules_to_save(w));
    if (w->lora) add_lora_config(json, w);
    char *text = cJSON_Print(json);
    cJSON_Delete(json);
    if (!text) fatal("out of memory");
    int status = folder_write(folder, "adapter_config.json", text, strlen(text), err);
    cJSON_free(text);
    return status;
}

// --- adapter_model.safetensors -------------------------------------------------------------------

static void add_output(struct writing *w, const struct weight *of, const struct tensor *t, int rank,
                       const int64_t *shape, char *key)
{
    w->outputs = xgrow(w->outputs, &w->output_capacity, w->output_count, sizeof *w->outputs);
    w->outputs[w->output_count++] = (struct output){ .key = key,
                                                     .tensor = t,
                                                     .rank = rank,
                                                     .shape = shape,
                                                     .type = w->type,
                                                     .weight = of ? of->name : NULL };
}

static const char prefix[] = "base_model.model.";

static void add_outputs(struct writing *w, const struct slot *s)
{
    const char *last = name_last_level(s->weight->name);
    const struct weight *v = s->weight;
    if (s->lora && !s->stacked) {
        add_output(w, v, &s->lora->a, 2, s->lora->a.shape,
                   xasprintf("%s%s.lora_A.weight", prefix, s->module));
        add_output(w, v, &s->lora->b, 2, s->lora->b.shape,
                   xasprintf("%s%s.lora_B.weight", prefix, s->module));
    }
    if (!s->trained && !s->saved) return;
    const bool norm = s->target && !s->lora; // PEFT puts a weight with LoRA under base_layer
    const char *level = s->saved ? "" : norm ? "ln_tuning_layers." : "base_layer.";
    add_output(w, v, s->value, v->rank, v->shape,
               xasprintf("%s%s.%s%s", prefix, s->module, level, last));
    if (saved_as_head(w, s))
        add_output(w, v, s->value, v->rank, v->shape,
                   xasprintf("%s%s.weight", prefix, head_name(w)));
}

// PEFT wraps the experts of a layer once for each parameter: down_proj outside, gate_up_proj in its
// base layer.
static void add_stacks(struct writing *w)
{
    for (size_t i = 0; i < w->stack_count; i++) {
        const struct stack *s = &w->stacks[i];
        for (int k = 0; k < 2; k++) {
            add_output(w, NULL, NULL, 2, s->shape[k],
                       xasprintf("%s%s%s.lora_%c.weight", prefix, s->module,
                                 s->both && !s->of.down ? ".base_layer" : "", k ? 'B' : 'A'));
            w->outputs[w->output_count - 1].stack = s;
        }
    }
}

// Constants (a router's bias, A_log, dt_bias) are not in the model's list of weights, but PEFT
// cannot load a module without them. They stay f32: a rounded bias would select other experts.
static void add_constants(struct writing *w)
{
    struct decoder_constant c = { 0 };
    while (decoder_next_constant(&w->model->decoder, &c)) {
        const char *last = name_last_level(c.name);
        char *weight = xasprintf("%.*sweight", (int)(last - c.name), c.name);
        for (size_t i = 0; i < w->count; i++) {
            const struct slot *s = &w->slots[i];
            if (!s->saved || s->weight->part != PART_DECODER) continue;
            if (!text_ends(s->weight->common, weight)) continue;
            add_output(w, NULL, c.tensor, 1, c.tensor->shape,
                       xasprintf("%s%s.%s", prefix, s->module, last));
            w->outputs[w->output_count - 1].type = DTYPE_F32;
        }
        free(weight);
    }
}

static int put_numbers(struct safetensors_writer *file, const struct backend *backend,
                       const struct tensor *t, enum dtype type, struct err *err)
{
    enum { PIECE = 1 << 14 };
    char raw[PIECE * sizeof(float)];
    float floats[PIECE];
    const size_t size = dtype_size(t->dtype), all = (size_t)tensor_count(t);
    const struct backend *where = backend_of(backend, t);
    const char *data = t->data;
    for (size_t i = 0, n; i < all; i += n) {
        n = all - i < PIECE ? all - i : PIECE;
        where->download(raw, data + i * size, n * size);
        floats_from(floats, raw, t->dtype, n);
        floats_to(raw, type, floats, n);
        if (safetensors_writer_data(file, raw, n * dtype_size(type), err) < 0) return -1;
    }
    return 0;
}

// Writes n numbers in the type, and frees them.
static int put_floats(struct safetensors_writer *file, float *floats, size_t n, enum dtype type,
                      struct err *err)
{
    char *raw = xreallocarray(NULL, n + 1, dtype_size(type));
    floats_to(raw, type, floats, n);
    const int status = safetensors_writer_data(file, raw, n * dtype_size(type), err);
    free(raw);
    free(floats);
    return status;
}

// Writes a tensor whose value heads the model orders differently than adapters.
static int put_reordered(struct safetensors_writer *file, const struct backend *backend,
                         const struct decoder_config *c, const struct output *o, struct err *err)
{
    const size_t n = (size_t)tensor_count(o->tensor);
    const int64_t rows = o->shape[0];
    const bool a = text_ends(o->key, ".lora_A.weight"), b = text_ends(o->key, ".lora_B.weight");
    float *floats = adapter_vector(backend, o->tensor);
    if (!a)
        decoder_reorder_heads(c, o->weight, false, floats, 1, n / (size_t)rows * sizeof *floats,
                              false);
    if (!b) decoder_reorder_heads(c, o->weight, true, floats, rows, sizeof *floats, false);
    return put_floats(file, floats, n, o->type, err);
}

static int put_stack(struct safetensors_writer *file, const struct backend *backend,
                     const struct output *o, struct err *err)
{
    float *floats = stack_floats(backend, o->stack, text_ends(o->key, ".lora_A.weight"));
    return put_floats(file, floats, (size_t)(o->shape[0] * o->shape[1]), o->type, err);
}

// `c` may be NULL if no output has a weight.
static int write_tensors(const char *path, const struct backend *backend,
                         const struct decoder_config *c, const struct output *outputs, size_t count,
                         struct err *err)
{
    struct safetensors_writer *file = safetensors_writer_new(path);
    int status = 0;
    safetensors_writer_metadata(file, "format", "pt");
    for (size_t i = 0; i < count; i++)
        safetensors_writer_declare(file, outputs[i].key, outputs[i].type, outputs[i].rank,
                                   outputs[i].shape);
    for (size_t i = 0; i < count && status == 0; i++) {
        const struct output *o = &outputs[i];
        status = o->stack ? put_stack(file, backend, o, err)
                 : c && o->weight && decoder_alternates(c, o->weight)
                     ? put_reordered(file, backend, c, o, err)
                     : put_numbers(file, backend, o->tensor, o->type, err);
    }
    if (status == 0) return safetensors_writer_finish(file, err);
    safetensors_writer_abandon(file);
    return -1;
}

int adapter_write_extras(const struct adapter_delta *deltas, size_t count,
                         const struct backend *backend, const char *folder, struct err *err)
{
    struct output *outputs = xcalloc(count, sizeof *outputs);
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        const struct adapter_delta *p = &deltas[i];
        if (p->kind != ADAPTER_EXTRA) continue;
        outputs[n++] = (struct output){ .key = (char *)(uintptr_t)p->name,
                                        .tensor = p->tensor,
                                        .rank = p->tensor->rank,
                                        .shape = p->tensor->shape,
                                        .type = DTYPE_F32 };
    }
    char *path = xasprintf("%s/extra.safetensors", folder);
    int status = n ? write_tensors(path, backend, NULL, outputs, n, err) : 0;
    free(path);
    free(outputs);
    return status;
}

// --- the folder ----------------------------------------------------------------------------------

void adapter_add_delta(struct adapter_delta *deltas, size_t *count, const struct adapter_entry *e)
{
    if (e->kind != ADAPTER_EXTRA && !e->weight) return;
    deltas[(*count)++] = (struct adapter_delta){ .kind = e->kind,
                                                 .weight = e->weight,
                                                 .name = e->name,
                                                 .tensor = &e->tensor,
                                                 .lora = &e->lora };
}

int adapter_write_into(const struct model *m, const struct adapter_delta *deltas, size_t count,
                       enum dtype type, const char *folder, struct err *err)
{
    if (!count) return err_set(err, "no adapter to write: nothing was trained");
    struct writing w = { .model = m, .type = type };
    open_slots(&w, deltas, count);
    choose_targets(&w);
    choose_parameters(&w);
    for (size_t i = 0; i < w.count; i++) add_outputs(&w, &w.slots[i]);
    add_stacks(&w);
    add_constants(&w);
    char *path = xasprintf("%s/adapter_model.safetensors", folder);
    int status = adapter_write_extras(deltas, count, m->arena.backend, folder, err);
    if (w.peft && status == 0)
        status = write_tensors(path, m->arena.backend, &m->decoder.config, w.outputs,
                               w.output_count, err);
    if (w.peft && status == 0) status = write_config(&w, folder, err);
    for (size_t i = 0; i < w.count; i++) free(w.slots[i].module);
    for (size_t i = 0; i < w.output_count; i++) free(w.outputs[i].key);
    for (size_t i = 0; i < w.stack_count; i++) {
        free(w.stacks[i].module);
        free(w.stacks[i].lora);
    }
    free(w.stacks);
    free(w.outputs);
    free(w.slots);
    free(path);
    return status;
}

int adapter_save(const struct adapter *a, const char *type, const char *folder, struct err *err)
{
    static const enum dtype types[] = { DTYPE_F32, DTYPE_BF16, DTYPE_F16 };
    size_t t = 0, count = 0;
    while (t < sizeof types / sizeof *types && strcmp(type, dtype_form(types[t]).name) != 0) t++;
    if (t == sizeof types / sizeof *types)
        return err_set(err, "unknown type '%s': use f32, bf16 or f16", type);
    // In a model that ties its head to the embedding, no weight represents a separate head.
    for (size_t i = 0; i < a->count; i++)
        if (a->list[i].kind != ADAPTER_EXTRA && !a->list[i].weight)
            return err_set(err,
                           "the adapter has its own output head, which the model ties to its "
                           "embedding; vlmsh cannot save it: copy the folder '%s'",
                           a->folder);
    struct folder_work work;
    if (folder_begin(&work, folder, err) < 0) return -1;
    struct adapter_delta *deltas = xcalloc(a->count + 1, sizeof *deltas);
    for (size_t i = 0; i < a->count; i++) adapter_add_delta(deltas, &count, &a->list[i]);
    char *run = adapter_run(a->folder), *record = run ? xasprintf("%s/training.json", run) : NULL;
    int status = adapter_write_into(a->model, deltas, count, types[t], work.path, err);
    if (status == 0 && record) status = folder_copy(work.path, "training.json", record, err);
    free(record);
    free(run);
    free(deltas);
    if (status == 0) return folder_commit(&work, folder, err);
    folder_abandon(&work);
    return -1;
}
