// core/files/gguf_text.c -- the language model of a GGUF file as Hugging Face describes it: config
// and tensor names.
//
// Sources: llama.cpp's converters (conversion/*.py) and gguf-py's tensor_mapping.py, constants.py.
// Easy to get wrong: for llama's architectures the converter reorders the rows of q and k within
// each head, so that a pair of rotary dimensions is adjacent; such tensors are marked.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/files/gguf_parts.h"

// --- architectures -------------------------------------------------------------------------------

static const struct gguf_name outer_names[] = {
    { "token_embd", "embed_tokens", PLAIN },
    { "output_norm", "norm", PLAIN },
    { 0 },
};

static const struct gguf_name layer_names[] = {
    { "attn_norm", "input_layernorm", PLAIN },    { "attn_q", "self_attn.q_proj", PLAIN },
    { "attn_k", "self_attn.k_proj", PLAIN },      { "attn_v", "self_attn.v_proj", PLAIN },
    { "attn_output", "self_attn.o_proj", PLAIN }, { "attn_q_norm", "self_attn.q_norm", PLAIN },
    { "attn_k_norm", "self_attn.k_norm", PLAIN }, { "ffn_norm", "post_attention_layernorm", PLAIN },
    { "ffn_gate", "mlp.gate_proj", PLAIN },       { "ffn_up", "mlp.up_proj", PLAIN },
    { "ffn_down", "mlp.down_proj", PLAIN },       { 0 },
};

// Easy to get wrong: GGUF's post_attention_norm is not Hugging Face's post_attention_layernorm,
// which is ffn_norm.
static const struct gguf_name glm_names[] = {
    { "post_attention_norm", "post_self_attn_layernorm", PLAIN },
    { "post_ffw_norm", "post_mlp_layernorm", PLAIN },
    { "ffn_up", "mlp.gate_up_proj", PLAIN },
    { 0 },
};

static const struct gguf_name glm_moe_names[] = {
    { "post_attention_norm", "post_attention_layernorm", PLAIN },
    { 0 },
};

// Gemma 3's gains are stored as 1 + w.
static const struct gguf_name gemma_names[] = {
    { "output_norm", "norm", LESS_1 },
    { "attn_norm", "input_layernorm", LESS_1 },
    { "attn_q_norm", "self_attn.q_norm", LESS_1 },
    { "attn_k_norm", "self_attn.k_norm", LESS_1 },
    { "post_attention_norm", "post_attention_layernorm", LESS_1 },
    { "ffn_norm", "pre_feedforward_layernorm", LESS_1 },
    { "post_ffw_norm", "post_feedforward_layernorm", LESS_1 },
    { 0 },
};

static void read_llama(struct gguf_config *c)
{
    if (gguf_find(c->file, "blk.0.ffn_up.bias")) cJSON_AddBoolToObject(c->to, "mlp_bias", true);
}

// In Hugging Face's configs of Mistral, a missing window means 4096 tokens. Ministral 3 has the
// same architecture; only the factors of its queries distinguish it.
static void read_mistral(struct gguf_config *c)
{
    const double beta = config_number(c, "attention.temperature_scale", 0);
    cJSON *scaling = cJSON_GetObjectItemCaseSensitive(c->to, "rope_scaling");
    cJSON *shares[] = { cJSON_GetObjectItemCaseSensitive(scaling, "mscale"),
                        cJSON_GetObjectItemCaseSensitive(scaling, "mscale_all_dim") };
    if (!json_get(c->to, "sliding_window")) cJSON_AddNullToObject(c->to, "sliding_window");
    if (c->failed || beta == 0) return;
    if (!json_get(scaling, "original_max_position_embeddings")) {
        config_refuse(c, "'mistral3.attention.temperature_scale' needs rope scaling 'yarn'");
        return;
    }
    // Files have the factor of yarn's logarithm itself, not a tenth of it as DeepSeek's files do.
    for (int i = 0; i < 2; i++)
        if (shares[i]) cJSON_SetNumberValue(shares[i], shares[i]->valuedouble / 10);
    cJSON_AddNumberToObject(scaling, "llama_4_scaling_beta", beta);
    config_put_text(c->to, "model_type", "ministral3");
    cJSON_SetValuestring(json_get(c->to, "architectures")->child, "Ministral3ForCausalLM");
}

static void read_glm(struct gguf_config *c)
{
    const int64_t rotary = config_value(c, "rope.dimension_count", 2, GGUF_NEEDED);
    const cJSON *width = json_get(c->to, "head_dim");
    if (!c->failed && width)
        cJSON_AddNumberToObject(c->to, "partial_rotary_factor",
                                (double)rotary / width->valuedouble);
}

static void read_glm_moe(struct gguf_config *c)
{
    read_glm(c);
    gguf_scored_read(c);
}

// Files lack the factor of the scores. It follows from the width of a head, except in the 27B
// model, which has 62 layers. Every sixth layer has no window, unless the file says otherwise.
static void read_gemma(struct gguf_config *c)
{
    const int64_t layers = config_value(c, "block_count", 1, GGUF_NEEDED);
    const int64_t hidden = config_value(c, "embedding_length", 1, GGUF_NEEDED);
    const int64_t heads = config_value(c, "attention.head_count", 1, GGUF_NEEDED);
    const int64_t width = config_value(c, "attention.key_length", 1, 256);
    if (c->failed) return;
    cJSON_AddNumberToObject(c->to, "query_pre_attn_scalar",
                            (double)(layers == 62 ? hidden / heads : width));
    cJSON_DeleteItemFromObjectCaseSensitive(c->to, "head_dim");
    cJSON_AddNumberToObject(c->to, "head_dim", (double)width);
    config_real(c, "rope.freq_base_swa", "rope_local_base_freq", 10000);
    config_int(c, "attention.sliding_window_pattern", "sliding_window_pattern", GEMMA_PATTERN);
    if (!json_get(c->to, "sliding_window")) cJSON_AddNullToObject(c->to, "sliding_window");
}

// Marks the number of DeepStack's layers as read; the encoder's file determines it.
static void read_deepstack(struct gguf_config *c)
{
    config_value(c, "n_deepstack_layers", 0, 0);
}

static void read_deepstack_experts(struct gguf_config *c)
{
    read_deepstack(c);
    gguf_experts_read(c);
}

static const struct gguf_architecture {
    const char *name;         // general.architecture
    const char *architecture; // of Hugging Face
    const char *model_type;
    int order; // order of the rows of q and k (struct head_order): 1: whole heads; -1: the rotary
               // part, reversed, only in files with multimodal positions; 0: unchanged
    bool part; // positions rotate only a part of each head; `read` reads it
    bool own_heads;     // `read` reads and checks the widths of heads
    bool by_layer;      // sizes of FFNs and numbers of key heads may differ between layers; `read`
                        // reads them
    const char *pieces; // tokenizer.ggml.model if the tokenizer is SentencePiece's; NULL: "llama"
    bool further; // "block_count" also counts the last layers, which only predict further tokens
                  // ("nextn_predict_layers"), even if the file lacks them
    void (*read)(struct gguf_config *c); // reads keys that most architectures lack, or NULL
    // Tensors that other architectures lack, and those that only some of them have; NULL: none.
    const struct gguf_name *names, *shared_names;
    // Splits or joins a tensor and adds the results, whose names begin with `start`
    // ("model.layers.3."). Returns 1; 0 for tensors that are only renamed; -1 on error.
    int (*put)(const struct gguf *f, const struct safetensor *t, const char *stem,
               const char *start, struct renamed *r, struct err *err);
} architectures[] = {
    { "llama", "LlamaForCausalLM", "llama", .order = 1, .read = read_llama },
    { "internlm2", "LlamaForCausalLM", "llama", .order = 1, .read = read_llama },
    { "mistral3", "MistralForCausalLM", "mistral", .order = 1, .read = read_mistral },
    { "qwen2", "Qwen2ForCausalLM", "qwen2", .order = 0 },
    { "qwen2vl", "Qwen2ForCausalLM", "qwen2", .order = 0 }, // without its encoder
    { "qwen3", "Qwen3ForCausalLM", "qwen3", .order = 0 },
    { "qwen3vl", "Qwen3ForCausalLM", "qwen3", .read = read_deepstack }, // without its encoder
    { "qwen3moe", "Qwen3MoeForCausalLM", "qwen3_moe", .read = gguf_experts_read,
      .names = gguf_latent_names, .put = gguf_latent_put },
    { "qwen3vlmoe", "Qwen3MoeForCausalLM", "qwen3_moe", .read = read_deepstack_experts,
      .names = gguf_latent_names, .put = gguf_latent_put },
    { "qwen35", "Qwen3_5ForCausalLM", "qwen3_5_text", .part = true, .further = true,
      .read = gguf_delta_read, .names = gguf_delta_names, .put = gguf_delta_put },
    { "qwen35moe", "Qwen3_5MoeForCausalLM", "qwen3_5_moe_text", .part = true, .further = true,
      .read = gguf_delta_experts_read, .names = gguf_delta_names, .shared_names = gguf_latent_names,
      .put = gguf_delta_put },
    { "gemma3", "Gemma3ForCausalLM", "gemma3_text", .read = read_gemma, .names = gemma_names },
    { "gemma4", "Gemma4ForCausalLM", "gemma4_text", .own_heads = true, .by_layer = true,
      .pieces = "gemma4", .read = gguf_gemma4_read, .names = gguf_gemma4_names,
      .put = gguf_gemma4_put },
    { "glm4", "Glm4ForCausalLM", "glm4", .order = -1, .part = true, .further = true,
      .read = read_glm, .names = glm_names },
    { "glm4moe", "Glm4MoeForCausalLM", "glm4_moe", .part = true, .further = true,
      .read = read_glm_moe, .names = glm_moe_names, .shared_names = gguf_latent_names,
      .put = gguf_latent_put },
    { "deepseek2", "DeepseekV3ForCausalLM", "deepseek_v3", .own_heads = true,
      .read = gguf_latent_read, .names = gguf_latent_names, .put = gguf_latent_put },
    { 0 },
};

static const struct gguf_architecture *named(const char *name)
{
    const struct gguf_architecture *a = architectures;
    while (a->name && (!name || strcmp(name, a->name) != 0)) a++;
    return a->name ? a : NULL;
}

static const struct gguf_architecture *find(const struct gguf *f, struct err *err)
{
    const char *name = gguf_text(f, "general.architecture");
    const struct gguf_architecture *a = named(name);
    struct buf known = { 0 };
    if (a) return a;
    for (a = architectures; a->name; a++)
        buf_printf(&known, "%s%s", a == architectures ? "" : ", ", a->name);
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

// --- single keys ---------------------------------------------------------------------------------

void config_refuse(struct gguf_config *c, const char *format, ...)
{
    char text[sizeof c->err->text];
    va_list args;
    if (c->failed) return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args); // NOLINT(clang-analyzer-valist.Uninitialized)
    va_end(args);
    c->failed = err_set(c->err, "%s", text) < 0;
}

static const char *whole_key(struct gguf_config *c, const char *key)
{
    const bool whole = *key == '.';
    snprintf(c->key, sizeof c->key, "%s%s%s", whole ? "" : c->arch, whole ? "" : ".", key + whole);
    return c->key;
}

int64_t config_value(struct gguf_config *c, const char *key, int64_t min, int64_t otherwise)
{
    int64_t value = 0;
    if (!c->failed)
        c->failed =
            gguf_int(c->file, whole_key(c, key), min, INT32_MAX, otherwise, &value, c->err) < 0;
    if (value == GGUF_NEEDED) config_refuse(c, "'%s' is missing", c->key);
    return c->failed ? 0 : value;
}

double config_number(struct gguf_config *c, const char *key, double otherwise)
{
    double value = 0;
    if (!c->failed)
        c->failed = gguf_real(c->file, whole_key(c, key), otherwise, &value, c->err) < 0;
    if (value < 0 && gguf_entry(c->file, c->key))
        config_refuse(c, "'%s' is %g: it must not be negative", c->key, value);
    else if (value < 0)
        config_refuse(c, "'%s' is missing", c->key);
    return c->failed ? 0 : value;
}

bool config_flag(struct gguf_config *c, const char *key)
{
    bool value = false;
    if (!c->failed) c->failed = gguf_bool(c->file, whole_key(c, key), false, &value, c->err) < 0;
    return value;
}

const char *config_text(struct gguf_config *c, const char *key)
{
    const char *text = NULL;
    if (!c->failed) c->failed = gguf_text_read(c->file, whole_key(c, key), &text, c->err) < 0;
    return text;
}

const struct gguf_entry *config_list(struct gguf_config *c, const char *key, uint64_t most)
{
    const struct gguf_entry *list = NULL;
    if (!c->failed)
        c->failed = gguf_list(c->file, whole_key(c, key), false, most, &list, c->err) < 0;
    return c->failed ? NULL : list;
}

void config_int(struct gguf_config *c, const char *key, const char *hf, int64_t otherwise)
{
    const int64_t value = config_value(c, key, 0, otherwise);
    if (!c->failed) cJSON_AddNumberToObject(c->to, hf, (double)value);
}

void config_real(struct gguf_config *c, const char *key, const char *hf, double otherwise)
{
    const double value = config_number(c, key, otherwise);
    if (!c->failed) cJSON_AddNumberToObject(c->to, hf, value);
}

void config_put_list(cJSON *to, const char *hf, const struct gguf_entry *list, uint64_t count)
{
    cJSON *numbers = cJSON_AddArrayToObject(to, hf);
    for (uint64_t i = 0; i < count; i++)
        cJSON_AddItemToArray(numbers, cJSON_CreateNumber(gguf_number(list, i)));
}

void config_put_text(cJSON *to, const char *hf, const char *value)
{
    cJSON_DeleteItemFromObjectCaseSensitive(to, hf);
    cJSON_AddStringToObject(to, hf, value);
}

// --- config --------------------------------------------------------------------------------------

// Returns the number of layers without those that only predict further tokens.
static int64_t layers_of(struct gguf_config *c, const struct gguf_architecture *a)
{
    const int64_t blocks = config_value(c, "block_count", 0, GGUF_NEEDED);
    const int64_t further = a->further ? config_value(c, "nextn_predict_layers", 0, 0) : 0;
    if (further && further >= blocks)
        config_refuse(c, "'%s.nextn_predict_layers' is %lld, but '%s.block_count' is %lld", c->arch,
                      (long long)further, c->arch, (long long)blocks);
    return c->failed ? 0 : blocks - further;
}

// Returns whether queries have biases. The first layer may be recurrent, without queries.
static bool attention_has_biases(const struct gguf *f)
{
    for (uint64_t i = 0; i < f->tensor_count; i++)
        if (!strncmp(f->tensors[i].name, "blk.", 4) &&
            text_ends(f->tensors[i].name, ".attn_q.bias"))
            return true;
    return false;
}

static void read_sizes(struct gguf_config *c, const struct gguf_architecture *a)
{
    const struct safetensor *embed = gguf_find(c->file, "token_embd.weight");
    if (!embed || embed->rank != 2) {
        config_refuse(c, "tensor 'token_embd.weight' is missing, or not a matrix");
        return;
    }
    cJSON_AddNumberToObject(c->to, "vocab_size", (double)embed->shape[0]);
    cJSON_AddNumberToObject(c->to, "num_hidden_layers", (double)layers_of(c, a));
    cJSON_AddBoolToObject(c->to, "attention_bias", attention_has_biases(c->file));
    config_int(c, "embedding_length", "hidden_size", GGUF_NEEDED);
    config_int(c, "context_length", "max_position_embeddings", GGUF_NEEDED);
    const int64_t heads = config_value(c, "attention.head_count", 1, GGUF_NEEDED);
    const int64_t hidden = config_value(c, "embedding_length", 1, GGUF_NEEDED);
    config_int(c, "attention.head_count", "num_attention_heads", heads);
    if (!a->by_layer) {
        // Files of models whose layers all have experts may lack the width of an ordinary FFN.
        const int64_t expert = config_value(c, "expert_feed_forward_length", 0, 0);
        config_int(c, "feed_forward_length", "intermediate_size", expert ? expert : GGUF_NEEDED);
        config_int(c, "attention.head_count_kv", "num_key_value_heads", heads);
    }
    if (!c->failed) config_int(c, "attention.key_length", "head_dim", hidden / heads);
    const int64_t window = config_value(c, "attention.sliding_window", 0, 0);
    if (window) { // the window of all layers, as /quantize writes it
        cJSON_AddNumberToObject(c->to, "sliding_window", (double)window);
        cJSON_AddBoolToObject(c->to, "use_sliding_window", true);
        cJSON_AddNumberToObject(c->to, "max_window_layers", 0);
    }
    config_real(c, "attention.layer_norm_rms_epsilon", "rms_norm_eps", GGUF_NEEDED);
    config_real(c, "rope.freq_base", "rope_theta", 10000);
    cJSON_AddBoolToObject(c->to, "tie_word_embeddings",
                          gguf_find(c->file, "output.weight") == NULL);
}

enum { DIVISORS_MOST = 1 << 16 };

// Reads rope.scaling.*, or the frequency divisors that Llama 3's files hold as a tensor. A factor
// without a type means linear scaling; older files name the factor rope.scale_linear.
static void read_scaling(struct gguf_config *c)
{
    const struct safetensor *divisors = gguf_find(c->file, "rope_freqs.weight");
    const char *type = config_text(c, "rope.scaling.type");
    double factor = config_number(c, "rope.scaling.factor", 0);
    if (factor <= 0) factor = config_number(c, "rope.scale_linear", 0);
    if (factor <= 0) factor = 1;
    if (!type && factor != 1) type = "linear";
    if (type && (!strcmp(type, "none") || (!strcmp(type, "linear") && factor == 1))) type = NULL;
    if (divisors && divisors->dtype != DTYPE_F32)
        config_refuse(c, "tensor 'rope_freqs.weight' has the type %s; only F32 is supported",
                      divisors->type);
    if (divisors && divisors->bytes > DIVISORS_MOST * sizeof(float))
        config_refuse(c, "tensor 'rope_freqs.weight' has more than %d numbers", DIVISORS_MOST);
    if (type && divisors)
        config_refuse(c,
                      "both 'rope_freqs.weight' and the scaling '%.20s' by %g change its rotary "
                      "positions, which is not supported",
                      type, factor);
    if (c->failed) return;
    if (type) {
        cJSON *config = c->to, *scaling = cJSON_AddObjectToObject(config, "rope_scaling");
        cJSON_AddStringToObject(scaling, "rope_type", type);
        cJSON_AddNumberToObject(scaling, "factor", factor);
        if (strcmp(type, "yarn") != 0) return;
        c->to = scaling;
        config_int(c, "rope.scaling.original_context_length", "original_max_position_embeddings",
                   GGUF_NEEDED);
        config_real(c, "rope.scaling.yarn_beta_fast", "beta_fast", 32);
        config_real(c, "rope.scaling.yarn_beta_slow", "beta_slow", 1);
        c->to = config;
        // Reads DeepSeek's factor of the logarithm, of which files store a tenth.
        const char *key = whole_key(c, "rope.scaling.yarn_log_multiplier");
        double tenth = 0;
        if (!c->failed) c->failed = gguf_real(c->file, key, 0, &tenth, c->err) < 0;
        if (c->failed || tenth <= 0) return;
        cJSON_AddNumberToObject(scaling, "mscale", 10 * tenth);
        cJSON_AddNumberToObject(scaling, "mscale_all_dim", 10 * tenth);
    } else if (divisors) {
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

// Refuses values whose width differs from the keys' width, and rotary positions on only a part of a
// head unless the architecture reads that part.
static void check_heads(struct gguf_config *c, const struct gguf_architecture *a)
{
    const cJSON *width = json_get(c->to, "head_dim");
    if (c->failed || !width || a->own_heads) return;
    const int64_t head = (int64_t)width->valuedouble;
    const int64_t rotary = a->part ? head : config_value(c, "rope.dimension_count", 0, head);
    if (rotary && rotary != head)
        config_refuse(c,
                      "'%s.rope.dimension_count' is %lld: rotating only a part of each head of "
                      "%lld elements is not supported for '%s'",
                      a->name, (long long)rotary, (long long)head, a->name);
    const int64_t value = config_value(c, "attention.value_length", 0, head);
    if (value != head)
        config_refuse(c,
                      "'%s.attention.value_length' is %lld, but key heads have %lld elements: "
                      "different widths are not supported",
                      c->arch, (long long)value, (long long)head);
}

int gguf_text_config(const struct gguf *f, cJSON *config, struct err *err)
{
    const struct gguf_architecture *a = find(f, err);
    if (!a) return -1;
    struct gguf_config c = { .file = f, .arch = a->name, .to = config, .err = err };
    cJSON_AddItemToArray(cJSON_AddArrayToObject(config, "architectures"),
                         cJSON_CreateString(a->architecture));
    cJSON_AddStringToObject(config, "model_type", a->model_type);
    read_sizes(&c, a);
    if (!c.failed) read_scaling(&c);
    if (!c.failed && a->read) a->read(&c);
    check_heads(&c, a);
    return c.failed ? -1 : 0;
}

// --- names ---------------------------------------------------------------------------------------

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

const struct gguf_name *gguf_name_find(const struct gguf_name *names, const char *gguf)
{
    for (; names && names->gguf; names++)
        if (!strcmp(names->gguf, gguf)) return names;
    return NULL;
}

static const char *find_gguf(const struct gguf_name *names, const char *hf)
{
    for (; names && names->hf; names++)
        if (!strcmp(names->hf, hf)) return names->gguf;
    return NULL;
}

char *gguf_text_name(const char *architecture, const char *hf)
{
    const char *end;
    long layer;
    char *stem = gguf_stem(hf, "layers.", &layer, &end), *name = NULL;
    const struct gguf_architecture *a = named(architecture);
    const char *found = find_gguf(a->names, stem);
    if (!found) found = find_gguf(a->shared_names, stem);
    if (!found) found = find_gguf(layer < 0 ? outer_names : layer_names, stem);
    if (found)
        name = layer < 0 ? xasprintf("%s%s", found, end)
                         : xasprintf("blk.%ld.%s%s", layer, found, end);
    if (!strcmp(stem, "lm_head")) name = xasprintf("output%s", end);
    free(stem);
    return name;
}

const char *gguf_text_pieces(const char *architecture)
{
    const char *pieces = named(architecture)->pieces;
    return pieces ? pieces : "llama";
}

struct head_order gguf_text_order(const char *architecture, int64_t head, int64_t rotary,
                                  bool multimodal)
{
    const int order = named(architecture)->order;
    if (!order || head > INT16_MAX || (order < 0 && !multimodal)) return (struct head_order){ 0 };
    return (struct head_order){ (int16_t)head, (int16_t)(order < 0 ? -rotary : head) };
}

// --- tensors -------------------------------------------------------------------------------------

struct safetensor *renamed_add(struct renamed *r, const struct safetensor *t, char *name)
{
    r->list = xgrow(r->list, &r->capacity, r->count, sizeof *r->list);
    r->list[r->count] = *t;
    r->list[r->count].name = name;
    r->list[r->count].stored = t->name;
    return &r->list[r->count++];
}

int renamed_less_1(struct renamed *r, struct safetensor *t, struct err *err)
{
    if (t->rank != 1 || t->dtype != DTYPE_F32)
        return err_set(err, "tensor '%.200s' is not a vector of f32", t->stored);
    float *numbers = renamed_make(r, t->bytes + 1);
    if (!numbers) return err_set(err, "out of memory for tensor '%.200s'", t->stored);
    memcpy(numbers, t->data, t->bytes);
    for (uint64_t i = 0; i < t->bytes / sizeof *numbers; i++) numbers[i] -= 1;
    t->data = numbers;
    return 0;
}

void *renamed_make(struct renamed *r, uint64_t bytes)
{
    void *memory = malloc(bytes);
    if (!memory) return NULL;
    r->made = xreallocarray(r->made, r->made_count + 1, sizeof *r->made);
    r->made[r->made_count++] = memory;
    return memory;
}

// Returns the order of the rows of q and k. Positions of time, row and column (multimodal) each
// rotate a separate part of a head.
static struct head_order order_of(const struct gguf *f, const cJSON *config,
                                  const struct gguf_architecture *a)
{
    struct err err;
    struct gguf_config c = { .file = f, .arch = a->name, .err = &err };
    const cJSON *width = json_get(config, "head_dim");
    const int64_t head = width ? (int64_t)width->valuedouble : 0;
    const int64_t rotary =
        a->order < 0 ? config_value(&c, "rope.dimension_count", 2, GGUF_NEEDED) : head;
    if (c.failed || rotary > head || rotary % 2) return (struct head_order){ 0 };
    const struct gguf_entry *sections = config_list(&c, "rope.dimension_sections", 4);
    return gguf_text_order(a->name, head, rotary,
                           sections && sections->count && gguf_number(sections, 0) > 0);
}

struct text {
    const struct gguf *file;
    const struct gguf_architecture *architecture;
    const struct gguf_prefixes *prefixes;
    int64_t blocks, layers; // with and without those that only predict further tokens
    struct head_order order;
};

// Adds the tensor under its Hugging Face name or names. Refuses tensors of layers beyond the last.
static int put_tensor(const struct text *text, const struct safetensor *t, struct renamed *r,
                      struct err *err)
{
    const struct gguf_architecture *a = text->architecture;
    const struct gguf_prefixes *prefixes = text->prefixes;
    const char *end;
    long layer;
    int status = 0;
    char *stem = gguf_stem(t->name, "blk.", &layer, &end);
    if (layer >= text->blocks) {
        status = err_set(
            err, "tensor '%.200s' belongs to a layer beyond '%s.block_count', which is %lld",
            t->name, a->name, (long long)text->blocks);
    } else if (layer >= text->layers) {
        renamed_add(r, t, xasprintf("mtp.%s", t->name)); // not read, like mtp.* in model folders
        status = 1;
    } else if (layer >= 0 && a->put) {
        char *start = xasprintf("%slayers.%ld.", prefixes->text, layer);
        status = a->put(text->file, t, stem, start, r, err);
        free(start);
    }
    if (status == 0) {
        const struct gguf_name *found = gguf_name_find(a->names, stem);
        if (!found) found = gguf_name_find(a->shared_names, stem);
        if (!found) found = gguf_name_find(layer < 0 ? outer_names : layer_names, stem);
        if (found && found->form == BARE) end = "";
        char *name = NULL;
        if (layer < 0 && !strcmp(stem, "output"))
            name = xasprintf("%slm_head%s", prefixes->head, end);
        else if (found && layer < 0)
            name = xasprintf("%s%s%s", prefixes->text, found->hf, end);
        else if (found)
            name = xasprintf("%slayers.%ld.%s%s", prefixes->text, layer, found->hf, end);
        if (name) {
            struct safetensor *put = renamed_add(r, t, name);
            if (layer >= 0 && (!strcmp(stem, "attn_q") || !strcmp(stem, "attn_k")))
                put->order = text->order;
            if (found && found->form == LESS_1) status = renamed_less_1(r, put, err);
        } else {
            status =
                err_set(err, "tensor '%.200s' is not known to architecture '%s'", t->name, a->name);
        }
    }
    free(stem);
    return status < 0 ? -1 : 0;
}

int gguf_text_tensors(const struct gguf *f, const cJSON *config,
                      const struct gguf_prefixes *prefixes, struct renamed *r, struct err *err)
{
    const struct gguf_architecture *a = find(f, err);
    if (!a) return -1;
    struct gguf_config c = { .file = f, .arch = a->name, .err = err };
    const struct text text = { .file = f,
                               .architecture = a,
                               .prefixes = prefixes,
                               .blocks = config_value(&c, "block_count", 0, 0),
                               .layers = layers_of(&c, a),
                               .order = order_of(f, config, a) };
    int status = c.failed ? -1 : 0;
    for (uint64_t i = 0; i < f->tensor_count && status == 0; i++)
        if (strcmp(f->tensors[i].name, "rope_freqs.weight") != 0) // read_scaling reads it
            status = put_tensor(&text, &f->tensors[i], r, err);
    return status;
}
