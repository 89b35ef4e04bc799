// core/files/gguf_text.c -- the language model of a GGUF file as Hugging Face would describe it:
// config and tensor names.
//
// Facts: llama.cpp's converters (conversion/*.py) and gguf-py's tensor_mapping.py, constants.py.
// The step easy to get wrong: for llama's architectures the converter reorders the rows of q and k,
// head by head, so that the numbers that turn together are neighbours; such tensors are marked.
#include <stdlib.h>
#include <string.h>

#include "core/files/gguf_parts.h"

// --- architectures -------------------------------------------------------------------------------

static const struct gguf_name layer_names[] = {
    { .theirs = "attn_norm", .ours = "input_layernorm" },
    { .theirs = "attn_q", .ours = "self_attn.q_proj" },
    { .theirs = "attn_k", .ours = "self_attn.k_proj" },
    { .theirs = "attn_v", .ours = "self_attn.v_proj" },
    { .theirs = "attn_output", .ours = "self_attn.o_proj" },
    { .theirs = "attn_q_norm", .ours = "self_attn.q_norm" },
    { .theirs = "attn_k_norm", .ours = "self_attn.k_norm" },
    { .theirs = "ffn_norm", .ours = "post_attention_layernorm" },
    { .theirs = "ffn_gate", .ours = "mlp.gate_proj" },
    { .theirs = "ffn_up", .ours = "mlp.up_proj" },
    { .theirs = "ffn_down", .ours = "mlp.down_proj" },
    { 0 },
};

struct gguf_architecture {
    const char *name;         // general.architecture
    const char *architecture; // of Hugging Face
    const char *model_type;
    int order; // of rows of q and k (struct head_order): 1: whole heads; -1: what turns, the other
               // way round, in files with multimodal positions only; 0: the usual
    void (*read)(struct gguf_config *c); // what the others do not have; NULL: nothing
    const struct gguf_name *names;       // likewise: of tensors in layers
    // A tensor that becomes several, or a part of one, as `start` ("model.layers.3.") and a name:
    // 1, or 0 if it is none of these.
    int (*put)(const struct gguf *f, const struct safetensor *t, const char *stem,
               const char *start, struct renamed *r, struct err *err);
};

static void read_llama(struct gguf_config *c)
{
    const bool bias = gguf_find(c->file, "blk.0.attn_q.bias") != NULL;
    if (bias) cJSON_AddBoolToObject(c->to, "attention_bias", true);
    if (gguf_find(c->file, "blk.0.ffn_up.bias")) cJSON_AddBoolToObject(c->to, "mlp_bias", true);
}

// The step easy to get wrong: each norm has another's name.
static const struct gguf_name glm_names[] = {
    { .theirs = "post_attention_norm", .ours = "post_self_attn_layernorm" },
    { .theirs = "post_ffw_norm", .ours = "post_mlp_layernorm" },
    { .theirs = "ffn_up", .ours = "mlp.gate_up_proj" },
    { 0 },
};

static void read_glm(struct gguf_config *c)
{
    const int64_t turned = config_value(c, "rope.dimension_count", 2, GGUF_NEEDED);
    const cJSON *width = json_get(c->to, "head_dim");
    cJSON_AddBoolToObject(c->to, "attention_bias", gguf_find(c->file, "blk.0.attn_q.bias") != NULL);
    if (!c->failed && width)
        cJSON_AddNumberToObject(c->to, "partial_rotary_factor",
                                (double)turned / width->valuedouble);
}

static const struct gguf_architecture architectures[] = {
    { "llama", "LlamaForCausalLM", "llama", .order = 1, .read = read_llama },
    { "internlm2", "LlamaForCausalLM", "llama", .order = 1, .read = read_llama },
    { "qwen2", "Qwen2ForCausalLM", "qwen2", .order = 0 },
    { "qwen2vl", "Qwen2ForCausalLM", "qwen2", .order = 0 }, // without its encoder
    { "qwen3", "Qwen3ForCausalLM", "qwen3", .order = 0 },
    { "glm4", "Glm4ForCausalLM", "glm4", .order = -1, .read = read_glm, .names = glm_names },
    { "deepseek2", "DeepseekV3ForCausalLM", "deepseek_v3", .read = gguf_latent_read,
      .names = gguf_latent_names, .put = gguf_latent_put },
};

enum { ARCHITECTURES = sizeof architectures / sizeof *architectures };

static const struct gguf_architecture *find(const struct gguf *f, struct err *err)
{
    const char *name = gguf_text(f, "general.architecture");
    struct buf known = { 0 };
    for (int i = 0; i < ARCHITECTURES; i++) {
        if (name && !strcmp(name, architectures[i].name)) {
            buf_release(&known);
            return &architectures[i];
        }
        buf_printf(&known, "%s%s", i ? ", " : "", architectures[i].name);
    }
    if (name && !strcmp(name, "clip"))
        err_set(err, "it is a picture encoder: open its language model, and name this file with "
                     "--mmproj");
    else if (name)
        err_set(err, "architecture '%s' is not supported (known: %s)", name, known.data);
    else
        err_set(err, "'general.architecture' is missing");
    buf_release(&known);
    return NULL;
}

// --- config --------------------------------------------------------------------------------------

void config_fail(struct gguf_config *c)
{
    c->failed = true;
}

static char *whole_key(const struct gguf_config *c, const char *key)
{
    return *key == '.' ? xstrdup(key + 1) : xasprintf("%s.%s", c->arch, key);
}

int64_t config_value(struct gguf_config *c, const char *key, int64_t min, int64_t otherwise)
{
    char *whole = whole_key(c, key);
    int64_t value = 0;
    if (!c->failed)
        c->failed = gguf_int(c->file, whole, min, INT32_MAX, otherwise, &value, c->err) < 0;
    if (!c->failed && value == GGUF_NEEDED)
        c->failed = err_set(c->err, "'%s' is missing", whole) < 0;
    free(whole);
    return c->failed ? 0 : value;
}

void config_int(struct gguf_config *c, const char *key, const char *ours, int64_t otherwise)
{
    const int64_t value = config_value(c, key, 0, otherwise);
    if (!c->failed) cJSON_AddNumberToObject(c->to, ours, (double)value);
}

void config_real(struct gguf_config *c, const char *key, const char *ours, double otherwise)
{
    char *whole = whole_key(c, key);
    double value;
    if (!c->failed) c->failed = gguf_real(c->file, whole, otherwise, &value, c->err) < 0;
    if (!c->failed && value < 0)
        c->failed = gguf_entry(c->file, whole)
                        ? err_set(c->err, "'%s' is %g: it must not be negative", whole, value) < 0
                        : err_set(c->err, "'%s' is missing", whole) < 0;
    if (!c->failed) cJSON_AddNumberToObject(c->to, ours, value);
    free(whole);
}

// DeepSeek's share of the logarithm is stored as a tenth of it.
static void read_yarn(struct gguf_config *c)
{
    double tenth = 0;
    char *key = xasprintf("%s.rope.scaling.yarn_log_multiplier", c->arch);
    config_int(c, "rope.scaling.original_context_length", "original_max_position_embeddings",
               GGUF_NEEDED);
    config_real(c, "rope.scaling.yarn_beta_fast", "beta_fast", 32);
    config_real(c, "rope.scaling.yarn_beta_slow", "beta_slow", 1);
    if (!c->failed) c->failed = gguf_real(c->file, key, 0, &tenth, c->err) < 0;
    free(key);
    if (c->failed || tenth <= 0) return;
    cJSON_AddNumberToObject(c->to, "mscale", 10 * tenth);
    cJSON_AddNumberToObject(c->to, "mscale_all_dim", 10 * tenth);
}

// How much slower positions turn: rope.scaling.factor, in older files rope.scale_linear. 1: not.
static double read_factor(struct gguf_config *c)
{
    static const char *const keys[] = { "rope.scaling.factor", "rope.scale_linear" };
    double factor = 0;
    for (int i = 0; i < 2 && !c->failed && factor == 0; i++) {
        char *key = whole_key(c, keys[i]);
        c->failed = gguf_real(c->file, key, 0, &factor, c->err) < 0;
        if (!c->failed && factor < 0)
            c->failed = err_set(c->err, "'%s' is %g: it must not be negative", key, factor) < 0;
        free(key);
    }
    return factor > 0 ? factor : 1;
}

// rope.scaling.*, or the divisors of frequencies that Llama 3's files hold as a tensor. Without a
// type a factor is linear.
static void read_scaling(struct gguf_config *c)
{
    const struct safetensor *divisors = gguf_find(c->file, "rope_freqs.weight");
    char *key = xasprintf("%s.rope.scaling.type", c->arch);
    const char *type;
    c->failed = gguf_text_read(c->file, key, &type, c->err) < 0;
    free(key);
    const double factor = read_factor(c);
    if (c->failed) return;
    if (!type && factor != 1) type = "linear";
    if (divisors && factor != 1 && type && strcmp(type, "none") != 0) {
        c->failed = err_set(c->err,
                            "both 'rope_freqs.weight' and a factor of %g scale its "
                            "rotary positions, which is not supported",
                            factor) < 0;
        return;
    }
    if (type && strcmp(type, "none") != 0) {
        cJSON *scaling = cJSON_AddObjectToObject(c->to, "rope_scaling");
        cJSON_AddStringToObject(scaling, "rope_type", type);
        cJSON *to = c->to;
        c->to = scaling;
        cJSON_AddNumberToObject(scaling, "factor", factor);
        if (!strcmp(type, "yarn")) read_yarn(c);
        c->to = to;
    } else if (divisors && divisors->dtype == DTYPE_F32) {
        cJSON *scaling = cJSON_AddObjectToObject(c->to, "rope_scaling");
        cJSON_AddStringToObject(scaling, "rope_type", "divisors");
        cJSON *list = cJSON_AddArrayToObject(scaling, "divisors");
        for (uint64_t i = 0; i < divisors->bytes / sizeof(float); i++) {
            float x;
            memcpy(&x, (const char *)divisors->data + i * sizeof x, sizeof x);
            cJSON_AddItemToArray(list, cJSON_CreateNumber((double)x));
        }
    }
}

// The reader of an architecture whose heads turn in part sets what turns.
static void check_turning(struct gguf_config *c, const struct gguf_architecture *a)
{
    const cJSON *width = json_get(c->to, "head_dim");
    if (c->failed || !width || a->order < 0 || a->put) return;
    const int64_t head = (int64_t)width->valuedouble;
    const int64_t turned = config_value(c, "rope.dimension_count", 0, head);
    if (!c->failed && turned && turned != head)
        c->failed = err_set(c->err,
                            "'%s.rope.dimension_count' is %lld: heads of %lld numbers of which "
                            "only a part turns are not supported for '%s'",
                            a->name, (long long)turned, (long long)head, a->name) < 0;
}

// Heads of values are as wide as those of keys, but for latent attention.
static void check_values(struct gguf_config *c)
{
    const cJSON *width = json_get(c->to, "head_dim");
    if (c->failed || !width) return;
    const int64_t head = (int64_t)width->valuedouble;
    const int64_t value = config_value(c, "attention.value_length", 0, head);
    if (!c->failed && value != head)
        c->failed = err_set(c->err,
                            "'%s.attention.value_length' is %lld, the heads of keys are %lld "
                            "numbers wide: other widths are not supported",
                            c->arch, (long long)value, (long long)head) < 0;
}

// As /quantize writes it: of all layers.
static void read_window(struct gguf_config *c)
{
    const int64_t window = config_value(c, "attention.sliding_window", 0, 0);
    if (!window) return;
    cJSON_AddNumberToObject(c->to, "sliding_window", (double)window);
    cJSON_AddBoolToObject(c->to, "use_sliding_window", true);
    cJSON_AddNumberToObject(c->to, "max_window_layers", 0);
}

static void read_sizes(struct gguf_config *c)
{
    const struct safetensor *embed = gguf_find(c->file, "token_embd.weight");
    if (!embed || embed->rank != 2) {
        err_set(c->err, "tensor 'token_embd.weight' is missing, or no matrix");
        c->failed = true;
        return;
    }
    cJSON_AddNumberToObject(c->to, "vocab_size", (double)embed->shape[0]);
    config_int(c, "block_count", "num_hidden_layers", GGUF_NEEDED);
    config_int(c, "embedding_length", "hidden_size", GGUF_NEEDED);
    config_int(c, "feed_forward_length", "intermediate_size", GGUF_NEEDED);
    config_int(c, "context_length", "max_position_embeddings", GGUF_NEEDED);
    const int64_t heads = config_value(c, "attention.head_count", 1, GGUF_NEEDED);
    const int64_t hidden = config_value(c, "embedding_length", 1, GGUF_NEEDED);
    config_int(c, "attention.head_count", "num_attention_heads", heads);
    config_int(c, "attention.head_count_kv", "num_key_value_heads", heads);
    if (!c->failed) config_int(c, "attention.key_length", "head_dim", hidden / heads);
    read_window(c);
    config_real(c, "attention.layer_norm_rms_epsilon", "rms_norm_eps", -1);
    config_real(c, "rope.freq_base", "rope_theta", 10000);
    cJSON_AddBoolToObject(c->to, "tie_word_embeddings",
                          gguf_find(c->file, "output.weight") == NULL);
}

int gguf_text_config(const struct gguf *f, cJSON *config, struct err *err)
{
    const struct gguf_architecture *a = find(f, err);
    if (!a) return -1;
    struct gguf_config c = { .file = f, .arch = a->name, .to = config, .err = err };
    cJSON_AddItemToArray(cJSON_AddArrayToObject(config, "architectures"),
                         cJSON_CreateString(a->architecture));
    cJSON_AddStringToObject(config, "model_type", a->model_type);
    read_sizes(&c);
    if (!c.failed) read_scaling(&c);
    if (!c.failed && a->read) a->read(&c);
    check_turning(&c, a);
    if (!a->put) check_values(&c);
    return c.failed ? -1 : 0;
}

// --- tensors -------------------------------------------------------------------------------------

struct safetensor *renamed_add(struct renamed *r, const struct safetensor *t, char *name)
{
    if (r->count == r->room) {
        r->room = r->room ? 2 * r->room : 256;
        r->list = xreallocarray(r->list, r->room, sizeof *r->list);
    }
    r->list[r->count] = *t;
    r->list[r->count].name = name;
    r->list[r->count].stored = t->name;
    return &r->list[r->count++];
}

void *renamed_make(struct renamed *r, uint64_t bytes)
{
    void *memory = malloc(bytes);
    if (!memory) return NULL;
    r->made = xreallocarray(r->made, r->made_count + 1, sizeof *r->made);
    r->made[r->made_count++] = memory;
    return memory;
}

char *gguf_stem(const char *name, const char *blocks, long *layer, const char **end)
{
    const size_t n = strlen(blocks);
    const char *dot = strrchr(name, '.'), *start = name;
    *end = dot && (!strcmp(dot, ".weight") || !strcmp(dot, ".bias")) ? dot : name + strlen(name);
    *layer = -1;
    if (!strncmp(name, blocks, n) && name[n] >= '0' && name[n] <= '9') {
        char *rest;
        *layer = strtol(name + n, &rest, 10);
        if (*rest == '.' && rest < *end) start = rest + 1;
    }
    return xstrndup(start, (size_t)(*end - start));
}

const struct gguf_name *gguf_name_find(const struct gguf_name *names, const char *theirs)
{
    for (; names->theirs; names++)
        if (!strcmp(names->theirs, theirs)) return names;
    return NULL;
}

static const struct gguf_name outer_names[] = {
    { .theirs = "token_embd", .ours = "embed_tokens" },
    { .theirs = "output_norm", .ours = "norm" },
    { 0 },
};

static const struct gguf_architecture *named(const char *name)
{
    for (int i = 0; i < ARCHITECTURES; i++)
        if (!strcmp(name, architectures[i].name)) return &architectures[i];
    BUG("no architecture '%s'", name);
}

static const char *find_theirs(const struct gguf_name *names, const char *ours)
{
    for (; names && names->ours; names++)
        if (!strcmp(names->ours, ours)) return names->theirs;
    return NULL;
}

char *gguf_text_theirs(const char *architecture, const char *ours)
{
    const char *end;
    long layer;
    char *stem = gguf_stem(ours, "layers.", &layer, &end), *name = NULL;
    const char *found = layer < 0 ? NULL : find_theirs(named(architecture)->names, stem);
    if (!found) found = find_theirs(layer < 0 ? outer_names : layer_names, stem);
    if (found)
        name = layer < 0 ? xasprintf("%s%s", found, end)
                         : xasprintf("blk.%ld.%s%s", layer, found, end);
    if (!strcmp(stem, "lm_head")) name = xasprintf("output%s", end);
    free(stem);
    return name;
}

struct head_order gguf_text_order(const char *architecture, int64_t head, int64_t turn,
                                  bool multimodal)
{
    const int order = named(architecture)->order;
    if (!order || head > INT16_MAX || (order < 0 && !multimodal)) return (struct head_order){ 0 };
    return (struct head_order){ (int16_t)head, (int16_t)(order < 0 ? -turn : head) };
}

// Hugging Face's name; NULL: the architecture has no such tensor.
static char *text_name(const struct gguf_architecture *a, const struct gguf_place *place,
                       const char *name)
{
    const char *end;
    long layer;
    char *stem = gguf_stem(name, "blk.", &layer, &end), *full = NULL;
    const struct gguf_name *found = gguf_name_find(layer < 0 ? outer_names : layer_names, stem);
    if (layer >= 0 && a->names && gguf_name_find(a->names, stem))
        found = gguf_name_find(a->names, stem);
    if (found && found->bare) end = "";
    if (layer < 0 && !strcmp(stem, "output"))
        full = xasprintf("%slm_head%s", place->head, end);
    else if (found && layer < 0)
        full = xasprintf("%s%s%s", place->text, found->ours, end);
    else if (found)
        full = xasprintf("%slayers.%ld.%s%s", place->text, layer, found->ours, end);
    free(stem);
    return full;
}

static bool is_read_otherwise(const char *name)
{
    return !strcmp(name, "rope_freqs.weight"); // read_scaling
}

// Positions of time, row and column turn parts of a head of their own.
static bool is_multimodal(const struct gguf *f, const char *architecture)
{
    struct err err;
    const struct gguf_entry *list = NULL;
    char *key = xasprintf("%s.rope.dimension_sections", architecture);
    const bool is = gguf_list(f, key, false, 4, &list, &err) == 0 && list && list->count &&
                    gguf_number(list, 0) > 0;
    free(key);
    return is;
}

// Order of the rows of q and k; the usual one where the config will be refused anyway.
static struct head_order order_of(const struct gguf *f, const struct gguf_architecture *a)
{
    struct err err;
    cJSON *sizes = cJSON_CreateObject();
    struct gguf_config c = { .file = f, .arch = a->name, .to = sizes, .err = &err };
    read_sizes(&c);
    const cJSON *width = json_get(sizes, "head_dim");
    const int64_t head = width ? (int64_t)width->valuedouble : 0;
    const int64_t turn =
        a->order < 0 ? config_value(&c, "rope.dimension_count", 2, GGUF_NEEDED) : head;
    cJSON_Delete(sizes);
    if (c.failed || turn > head || turn % 2) return (struct head_order){ 0 };
    return gguf_text_order(a->name, head, turn, is_multimodal(f, a->name));
}

static bool is_turned(const char *name)
{
    const char *end;
    long layer;
    char *stem = gguf_stem(name, "blk.", &layer, &end);
    const bool is = layer >= 0 && (!strcmp(stem, "attn_q") || !strcmp(stem, "attn_k"));
    free(stem);
    return is;
}

// A layer that the metadata do not count would be left out.
static int check_layer(const struct gguf *f, const struct gguf_architecture *a,
                       const struct safetensor *t, struct err *err)
{
    const char *end;
    long layer;
    int64_t layers;
    free(gguf_stem(t->name, "blk.", &layer, &end));
    char *key = xasprintf("%s.block_count", a->name);
    int status = gguf_int(f, key, 0, INT32_MAX, 0, &layers, err);
    if (status == 0 && layer >= layers)
        status = err_set(err, "tensor '%.200s' is of a layer beyond '%s', which is %lld", t->name,
                         key, (long long)layers);
    free(key);
    return status;
}

// The tensor under its name or names.
static int put_tensor(const struct gguf_architecture *a, const struct gguf *f,
                      const struct gguf_place *place, const struct safetensor *t,
                      struct head_order order, struct renamed *r, struct err *err)
{
    const char *end;
    long layer;
    int status = 0;
    if (a->put) {
        char *stem = gguf_stem(t->name, "blk.", &layer, &end);
        char *start = xasprintf("%slayers.%ld.", place->text, layer);
        status = layer < 0 ? 0 : a->put(f, t, stem, start, r, err);
        free(start);
        free(stem);
    }
    if (status) return status < 0 ? -1 : 0;
    char *name = text_name(a, place, t->name);
    if (!name)
        return err_set(err, "tensor '%.200s' is not known to architecture '%s'", t->name, a->name);
    struct safetensor *put = renamed_add(r, t, name);
    if (is_turned(t->name)) put->order = order;
    return 0;
}

int gguf_text_tensors(const struct gguf *f, const struct gguf_place *place, struct renamed *r,
                      struct err *err)
{
    const struct gguf_architecture *a = find(f, err);
    if (!a) return -1;
    const struct head_order order = order_of(f, a);
    for (uint64_t i = 0; i < f->tensor_count; i++)
        if (!is_read_otherwise(f->tensors[i].name) &&
            (check_layer(f, a, &f->tensors[i], err) < 0 ||
             put_tensor(a, f, place, &f->tensors[i], order, r, err) < 0))
            return -1;
    return 0;
}
