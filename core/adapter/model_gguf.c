// core/adapter/model_gguf.c -- writes a language model as a GGUF file: metadata, tokenizer,
// tensors.
//
// Keys and names: llama.cpp's gguf-py (constants.py, tensor_mapping.py) and converters.
// Easy to get wrong: the files of some architectures order the rows of queries and keys differently
// (gguf_text_order).
#include "core/adapter/model_gguf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/adapter/adapter_entry.h"
#include "core/adapter/gguf_tensors.h"
#include "core/base/text.h"
#include "core/files/gguf.h"
#include "core/model/converted.h"
#include "core/model/families/family.h"
#include "core/model/layer.h"
#include "core/model/unread.h"

struct export
{
    const struct model *model;
    const struct gguf_kind *kind;
    const char *architecture; // llama.cpp's
    struct gguf_writer *out;
    struct gguf_tensors tensors;
    struct gguf_summary *summary;
};

// --- metadata ------------------------------------------------------------------------------------

// True if GGUF files store the scaling (such as Llama 3's) as divisors of the frequencies.
static bool has_divisors(const struct rope_config *r)
{
    static const char *const names[] = { "llama3", "divisors", "proportional", NULL };
    return text_listed(names, rope_scaling_name(r));
}

static int put_rotary(struct export *e, struct err *err)
{
    const struct rope_config *r = &e->model->decoder.config.rope;
    const char *name = rope_scaling_name(r);
    const int32_t sections[] = { (int32_t)r->section[0], (int32_t)r->section[1],
                                 (int32_t)r->section[2], 0 };
    const bool yarn = !strcmp(name, "yarn");
    if (r->query_beta != 0 && !yarn)
        return err_set(err, "\"llama_4_scaling_beta\" cannot be written as GGUF without yarn");
    // No scaling key is needed without scaling, with sections, or if the scaling begins beyond the
    // context.
    const bool plain = !strcmp(name, "default") || !strcmp(name, "mrope") || rope_bounded(r);
    gguf_writer_u32(e->out, ".rope.dimension_count", rope_rotated(r));
    gguf_writer_f32(e->out, ".rope.freq_base", r->theta);
    if (r->section[0]) gguf_writer_i32s(e->out, ".rope.dimension_sections", sections, 4);
    if (!yarn && strcmp(name, "linear") != 0) {
        if (plain || has_divisors(r)) return 0;
        return err_set(err, "the rotary scaling \"%s\" cannot be written as GGUF", name);
    }
    gguf_writer_text(e->out, ".rope.scaling.type", name);
    gguf_writer_f32(e->out, ".rope.scaling.factor", r->factor);
    if (!yarn) return 0;
    // GGUF has no keys for these yarn parameters. Without a share, readers compute the amplitude
    // from the factor.
    const double usual = r->all_share != 0 || r->factor <= 1 ? 1 : 0.1 * log(r->factor) + 1;
    if (r->beta_fast != 32 || r->beta_slow != 1 || r->fractional ||
        fabs(rope_amplitude(r) - usual) > 1e-6)
        return err_set(err, "the parameters of its rotary scaling \"yarn\" cannot be written as "
                            "GGUF");
    gguf_writer_u32(e->out, ".rope.scaling.original_context_length",
                    (int64_t)r->original_positions);
    const bool mistral = r->query_beta != 0; // its files have the share itself, others a tenth
    if (r->all_share != 0)
        gguf_writer_f32(e->out, ".rope.scaling.yarn_log_multiplier",
                        mistral ? r->all_share : r->all_share / 10);
    if (mistral) gguf_writer_f32(e->out, ".attention.temperature_scale", r->query_beta);
    return 0;
}

// Writes the keys of latent attention (core/files/gguf_latent.c).
static void put_latent(struct export *e)
{
    const struct decoder_config *d = &e->model->decoder.config;
    gguf_writer_u32(e->out, ".attention.kv_lora_rank", d->latent.rank);
    if (d->latent.q_rank) gguf_writer_u32(e->out, ".attention.q_lora_rank", d->latent.q_rank);
}

// Writes the keys of experts whose scores are sigmoids.
static void put_scored(struct export *e)
{
    const struct experts_config *x = &e->model->decoder.config.experts;
    if (x->softmax || !x->count) return;
    gguf_writer_u32(e->out, ".expert_count", x->count);
    gguf_writer_u32(e->out, ".expert_used_count", x->per_token);
    gguf_writer_u32(e->out, ".expert_shared_count", x->shared);
    gguf_writer_u32(e->out, ".expert_feed_forward_length", x->width);
    gguf_writer_u32(e->out, ".leading_dense_block_count", x->dense);
    gguf_writer_u32(e->out, ".expert_group_count", x->groups);
    gguf_writer_u32(e->out, ".expert_group_used_count", x->groups_per_token);
    gguf_writer_u32(e->out, ".expert_gating_func", 2); // sigmoid
    gguf_writer_f32(e->out, ".expert_weights_scale", x->scale);
    gguf_writer_bool(e->out, ".expert_weights_norm", x->normalise);
}

// Writes the keys of experts with softmax scores, and of DeepStack. GGUF has no keys for layers
// without experts, or for weights that do not add up to 1.
static int put_qwen(struct export *e, struct err *err)
{
    const struct experts_config *x = &e->model->decoder.config.experts;
    const int deep = e->model->vision.config.deep_count;
    if (deep) gguf_writer_u32(e->out, ".n_deepstack_layers", deep);
    if (!x->softmax) return 0;
    uint64_t plain = x->every > 1 || !x->normalise;
    for (size_t i = 0; i < sizeof x->plain / sizeof *x->plain; i++) plain |= x->plain[i];
    if (plain)
        return err_set(err, "its experts cannot be written as GGUF, which has no keys for "
                            "\"norm_topk_prob\" false, \"decoder_sparse_step\" and "
                            "\"mlp_only_layers\"");
    gguf_writer_u32(e->out, ".expert_count", x->count);
    gguf_writer_u32(e->out, ".expert_used_count", x->per_token);
    gguf_writer_u32(e->out, ".expert_feed_forward_length", x->width);
    if (x->shared_width)
        gguf_writer_u32(e->out, ".expert_shared_feed_forward_length", x->shared_width);
    return 0;
}

// Writes the keys of recurrent layers (core/files/gguf_delta.c).
static void put_delta(struct export *e)
{
    const struct decoder_config *d = &e->model->decoder.config;
    const struct delta_config *x = &d->delta;
    int interval = 1;
    bool regular = true;
    while (interval < d->layers && d->recurs[interval - 1]) interval++;
    for (int l = 0; l < d->layers; l++) regular &= d->recurs[l] == ((l + 1) % interval != 0);
    gguf_writer_u32(e->out, ".ssm.conv_kernel", x->taps);
    gguf_writer_u32(e->out, ".ssm.state_size", x->key_width);
    gguf_writer_u32(e->out, ".ssm.group_count", x->key_heads);
    gguf_writer_u32(e->out, ".ssm.time_step_rank", x->heads);
    gguf_writer_u32(e->out, ".ssm.inner_size", x->heads * x->width);
    gguf_writer_u32(e->out, ".full_attention_interval", interval);
    if (!regular)
        gguf_writer_bools(e->out, ".attention.recurrent_layers", d->recurs, (size_t)d->layers);
}

// Writes the sizes of the FFN and of the heads, by layer where Gemma 4's differ
// (core/files/gguf_gemma4.c).
static void put_widths(struct export *e)
{
    const struct decoder_config *d = &e->model->decoder.config;
    const struct head_sizes whole = d->unwindowed; // dim 0: all layers are alike
    int32_t ffn[DECODER_LAYERS], heads[DECODER_LAYERS];
    for (int l = 0; l < d->layers; l++) {
        ffn[l] = (int32_t)decoder_ffn_width(d, l);
        heads[l] = (int32_t)decoder_heads(d, l).kv_heads;
    }
    if (d->sharing && d->sharing_ffn != d->ffn)
        gguf_writer_i32s(e->out, ".feed_forward_length", ffn, (size_t)d->layers);
    else
        gguf_writer_u32(e->out, ".feed_forward_length", d->ffn);
    if (whole.dim && whole.kv_heads != d->kv_heads)
        gguf_writer_i32s(e->out, ".attention.head_count_kv", heads, (size_t)d->layers);
    else
        gguf_writer_u32(e->out, ".attention.head_count_kv", d->kv_heads);
    gguf_writer_u32(e->out, ".attention.key_length", whole.dim ? whole.dim : d->dim);
    gguf_writer_u32(e->out, ".attention.value_length", whole.dim ? whole.value_dim : d->value_dim);
    if (!whole.dim) return;
    gguf_writer_u32(e->out, ".attention.key_length_swa", d->dim);
    gguf_writer_u32(e->out, ".attention.value_length_swa", d->value_dim);
    gguf_writer_u32(e->out, ".rope.dimension_count_swa", rope_rotated(&d->sliding_rope));
}

// Writes Gemma 4's other keys.
static void put_gemma4(struct export *e)
{
    const struct decoder_config *d = &e->model->decoder.config;
    bool slides[DECODER_LAYERS];
    for (int l = 0; l < d->layers; l++) slides[l] = decoder_slides(d, l);
    if (d->window) gguf_writer_u32(e->out, ".attention.sliding_window", d->window);
    gguf_writer_bools(e->out, ".attention.sliding_window_pattern", slides, (size_t)d->layers);
    gguf_writer_u32(e->out, ".attention.shared_kv_layers", d->sharing);
    gguf_writer_u32(e->out, ".embedding_length_per_layer_input", d->layer_input);
    gguf_writer_f32(e->out, ".rope.freq_base_swa", d->sliding_rope.theta);
    if (d->logit_cap > 0) gguf_writer_f32(e->out, ".final_logit_softcapping", d->logit_cap);
}

// Writes the keys of sliding windows. Refuses what GGUF's keys cannot express: llama.cpp computes
// the factor of the scores, and for Gemma 3 assumes one layer without a window after five with one.
static int put_window(struct export *e, struct err *err)
{
    const struct decoder_config *d = &e->model->decoder.config;
    const bool gemma = d->kind->sliding_pattern;
    if (d->kind->gelu && !d->gelu) return err_set(err, "GGUF has no key for its activation");
    if (strcmp(rope_scaling_name(&d->sliding_rope), "default") != 0)
        return err_set(err, "GGUF has no key for the rotary scaling of its layers with a sliding "
                            "window");
    if (decoder_uses(d, &attention_valued)) {
        put_gemma4(e);
        return 0;
    }
    const int64_t scalar = gemma && d->layers == 62 ? d->hidden / d->heads : d->dim;
    if (d->score_scale != 1 / sqrtf((float)scalar))
        return err_set(err, "GGUF has no key for its \"query_pre_attn_scalar\"");
    if (!d->window) return 0;
    for (int l = 0; l < d->layers; l++)
        if (d->slides[l] != (!gemma || (l + 1) % GEMMA_PATTERN != 0))
            return err_set(err, "GGUF cannot say which of its layers have a sliding window");
    gguf_writer_u32(e->out, ".attention.sliding_window", d->window);
    if (gemma) gguf_writer_f32(e->out, ".rope.freq_base_swa", d->sliding_rope.theta);
    return 0;
}

// Returns the name that the model's own GGUF file gives it, or else the name of its folder.
static const char *model_title(const struct model *m)
{
    const struct checkpoint *c = m->checkpoint;
    const char *own = c->gguf_count ? gguf_text(c->gguf[0], "general.name") : NULL;
    const char *name = own ? own : text_file_name(m->name);
    return *name ? name : m->name;
}

static int put_sizes(struct export *e, struct err *err)
{
    const struct decoder_config *d = &e->model->decoder.config;
    gguf_writer_text(e->out, "general.architecture", e->architecture);
    gguf_writer_text(e->out, "general.name", model_title(e->model));
    if (e->model->ignored) gguf_writer_text(e->out, UNREAD_IGNORED, e->model->unread);
    gguf_writer_u32(e->out, "general.file_type", e->kind->file_type);
    gguf_writer_u32(e->out, "general.quantization_version", 2);
    gguf_writer_u32(e->out, ".block_count", d->layers);
    gguf_writer_u32(e->out, ".context_length", d->max_positions);
    gguf_writer_u32(e->out, ".embedding_length", d->hidden);
    gguf_writer_u32(e->out, ".attention.head_count", d->heads);
    put_widths(e);
    if (put_window(e, err) < 0) return -1;
    gguf_writer_u32(e->out, ".vocab_size", d->vocab);
    gguf_writer_f32(e->out, ".attention.layer_norm_rms_epsilon", d->eps);
    if (decoder_uses(d, &attention_latent)) put_latent(e);
    if (d->delta.heads) put_delta(e); // also if no layer has a recurrence
    put_scored(e);
    return put_qwen(e, err) < 0 ? -1 : put_rotary(e, err);
}

static void put_texts(struct export *e, const char *key, const struct token_text *list,
                      size_t count)
{
    gguf_writer_texts(e->out, key, count);
    for (size_t i = 0; i < count; i++) gguf_writer_text_of(e->out, list[i].text, list[i].length);
}

static void put_id(struct export *e, const char *name, int32_t id)
{
    char *key = xasprintf("tokenizer.ggml.%s_token_id", name);
    if (id >= 0) gguf_writer_u32(e->out, key, id);
    free(key);
}

// Returns the id of the token whose text tokenizer_config.json has under `key`, as a string or in
// an object; -1 if none.
static int32_t named_token(const struct model *m, const char *key)
{
    const cJSON *token = json_get(m->checkpoint->tokenizer_config, key);
    if (cJSON_IsObject(token)) token = json_get(token, "content");
    return cJSON_IsString(token) ? tokenizer_id(m->tokenizer, token->valuestring) : -1;
}

// Writes the ids of special tokens. GGUF has keys for three end tokens (eos, eot, eom); more are in
// eos_token_ids only.
static void put_ids(struct export *e, const struct token_list *l)
{
    static const char *const names[] = { "eot", "eom" };
    const struct model *m = e->model;
    const int32_t bos = named_token(m, "bos_token");
    int32_t eos = named_token(m, "eos_token");
    if (eos < 0 && m->eos.count) eos = m->eos.data[0];
    put_id(e, "bos", l->bos >= 0 ? l->bos : bos);
    put_id(e, "eos", eos);
    put_id(e, "unknown", named_token(m, "unk_token"));
    put_id(e, "padding", named_token(m, "pad_token"));
    if (m->barred.count)
        gguf_writer_i32s(e->out, "tokenizer.ggml.suppress_tokens", m->barred.data, m->barred.count);
    if (!m->eos.count) return;
    size_t n = 0;
    for (size_t i = 0; i < m->eos.count && n < 2; i++)
        if (m->eos.data[i] != eos) put_id(e, names[n++], m->eos.data[i]);
    if (!n) put_id(e, names[0], eos);
    gguf_writer_i32s(e->out, "tokenizer.ggml.eos_token_ids", m->eos.data, m->eos.count);
}

static int put_tokenizer(struct export *e, struct err *err)
{
    const struct model *m = e->model;
    struct token_export *x = tokenizer_export(m->tokenizer, m->decoder.config.vocab,
                                              gguf_text_pieces(e->architecture), err);
    if (!x) return -1;
    const struct token_list *l = token_export_list(x);
    gguf_writer_text(e->out, "tokenizer.ggml.model", l->model);
    if (l->pre) gguf_writer_text(e->out, "tokenizer.ggml.pre", l->pre);
    put_texts(e, "tokenizer.ggml.tokens", l->tokens, l->count);
    int32_t *types = xreallocarray(NULL, l->count + 1, sizeof *types);
    for (size_t i = 0; i < l->count; i++) types[i] = l->types[i];
    gguf_writer_i32s(e->out, "tokenizer.ggml.token_type", types, l->count);
    free(types);
    if (l->scores) gguf_writer_f32s(e->out, "tokenizer.ggml.scores", l->scores, l->count);
    if (!l->scores) put_texts(e, "tokenizer.ggml.merges", l->merges, l->merge_count);
    put_ids(e, l);
    gguf_writer_bool(e->out, "tokenizer.ggml.add_bos_token", l->add_bos);
    gguf_writer_bool(e->out, "tokenizer.ggml.add_eos_token", l->add_eos);
    if (!l->pre) {
        gguf_writer_bool(e->out, "tokenizer.ggml.add_space_prefix", l->prefix);
        gguf_writer_bool(e->out, "tokenizer.ggml.remove_extra_whitespaces", l->squeeze);
    }
    if (m->checkpoint->chat_template)
        gguf_writer_text(e->out, "tokenizer.chat_template", m->checkpoint->chat_template);
    token_export_free(x);
    return 0;
}

// --- tensors -------------------------------------------------------------------------------------

static struct gguf_tensor *add_named(struct export *e, const char *plain, const struct weight *w,
                                     int rank, const int64_t *shape)
{
    const struct tensor *from = w->tensor;
    const enum dtype dtype =
        from->rank < 2 ? DTYPE_F32 : converted_dtype(e->kind, w->part, plain, tensor_row(from));
    char *name = gguf_text_name(e->architecture, plain);
    if (!name) BUG("'%s' has no name in GGUF files", plain);
    return gguf_tensors_add(&e->tensors, name, dtype, rank, shape);
}

// Adds a tensor for rows of a weight.
static struct gguf_tensor *add_rows(struct export *e, const char *plain, const struct weight *w,
                                    int64_t rows)
{
    const struct decoder_config *d = &e->model->decoder.config;
    const int64_t shape[] = { rows, tensor_row(w->tensor) };
    struct gguf_tensor *t = add_named(e, plain, w, w->tensor->rank, shape);
    if (strstr(plain, "self_attn.q_proj.") || strstr(plain, "self_attn.k_proj."))
        t->order = gguf_text_order(e->architecture, d->dim, rope_rotated(&d->rope),
                                   d->rope.section[0] > 0);
    return t;
}

// Splits InternLM2's packed matrix, which contains, for each key head, the rows of its query heads,
// of the key and of the value.
static void add_packed(struct export *e, const char *plain, const struct weight *w)
{
    const struct decoder_config *d = &e->model->decoder.config;
    const int64_t group = d->heads / d->kv_heads, count[] = { group, 1, 1 };
    const char *at = strstr(plain, "qkv");
    for (int64_t i = 0, first = 0; i < 3; first += count[i++]) {
        char *name = xasprintf("%.*s%c%s", (int)(at - plain), plain, "qkv"[i], at + 3);
        struct gguf_tensor *t = add_rows(e, name, w, d->kv_heads * count[i] * d->dim);
        for (int64_t h = 0; h < d->kv_heads; h++)
            gguf_tensor_rows(t, w, (h * (group + 2) + first) * d->dim, count[i] * d->dim);
        free(name);
    }
}

// Adds "layers.1.mlp.experts.3.up_proj.weight" to the tensor of all experts, [E, out, in].
static void add_expert(struct export *e, const char *plain, const struct weight *w)
{
    const char *number = strstr(plain, ".experts.") + strlen(".experts.");
    char *all = xasprintf("%.*s%s", (int)(number - plain), plain, strchr(number, '.') + 1);
    char *name = gguf_text_name(e->architecture, all);
    struct gguf_tensor *t = gguf_tensors_last(&e->tensors, name);
    const int64_t both = text_ends(name, ".ffn_gate_up_exps.weight") ? 2 : 1; // Gemma 4: gate, up
    const int64_t shape[] = { e->model->decoder.config.experts.count, both * w->tensor->shape[0],
                              tensor_row(w->tensor) };
    if (!t) t = add_named(e, all, w, 3, shape);
    gguf_tensor_rows(t, w, 0, w->tensor->shape[0]);
    free(name);
    free(all);
}

// Returns how many value heads share a key head if the file's order of value heads differs from the
// model's (core/files/gguf_delta.c), otherwise 0.
static int64_t delta_group(const struct export *e)
{
    const struct delta_config *d = &e->model->decoder.config.delta;
    return d->alternate || d->heads == d->key_heads ? 0 : d->heads / d->key_heads;
}

// Returns the model's value head that is head i in the file.
static int64_t delta_head(const struct export *e, int64_t i)
{
    const struct delta_config *d = &e->model->decoder.config.delta;
    const int64_t group = delta_group(e);
    return group ? i % d->key_heads * group + i / d->key_heads : i;
}

// Adds a weight of a recurrent layer, with the value heads in the file's order.
static void add_delta(struct export *e, const char *plain, const struct weight *w)
{
    const struct delta_config *d = &e->model->decoder.config.delta;
    const struct value_heads at = decoder_value_heads(&e->model->decoder.config, plain);
    const int64_t group = delta_group(e), rows = w->tensor->shape[0];
    struct gguf_tensor *t = add_rows(e, plain, w, rows);
    if (!group || !at.piece || at.columns) {
        gguf_tensor_rows(t, w, 0, rows);
        if (!group || !at.columns) return;
        t->columns.groups = d->key_heads, t->columns.each = group, t->columns.width = at.piece;
        return;
    }
    if (at.first) gguf_tensor_rows(t, w, 0, at.first);
    for (int64_t i = 0; i < d->heads; i++)
        gguf_tensor_rows(t, w, at.first + delta_head(e, i) * at.piece, at.piece);
}

static void add_numbers(struct export *e, char *name, float *numbers, int64_t count)
{
    gguf_tensors_add(&e->tensors, name, DTYPE_F32, 1, &count)->numbers = numbers;
}

static void add_weight(struct export *e, const struct weight *w)
{
    const struct tensor *gain = weights_gain(&e->model->weights, w->tensor); // 1 + w
    char *plain = weight_plain_name(w->common);
    const int64_t rows = w->tensor->shape[0];
    if (gain)
        add_numbers(e, gguf_text_name(e->architecture, plain),
                    adapter_vector(e->model->arena.backend, gain), rows);
    else if (strstr(plain, ".linear_attn."))
        add_delta(e, plain, w);
    else if (strstr(plain, ".experts."))
        add_expert(e, plain, w);
    else if (strstr(plain, ".shared_expert_gate.")) // a vector in the file
        gguf_tensor_rows(add_named(e, plain, w, 1, (int64_t[]){ tensor_row(w->tensor) }), w, 0,
                         rows);
    else if (strstr(plain, ".qkv_proj."))
        add_packed(e, plain, w);
    else
        gguf_tensor_rows(add_rows(e, plain, w, rows), w, 0, rows);
    free(plain);
}

// Adds A_log as -exp(A_log), or dt_bias.
static void add_delta_numbers(struct export *e, const char *stem, const struct tensor *t)
{
    const int64_t heads = e->model->decoder.config.delta.heads;
    const bool rates = text_ends(stem, ".ssm_a");
    float *from = adapter_vector(e->model->arena.backend, t);
    float *to = xreallocarray(NULL, (size_t)heads, sizeof *to);
    for (int64_t i = 0; i < heads; i++) {
        const float x = from[delta_head(e, i)];
        to[i] = rates ? -expf(x) : x;
    }
    free(from);
    add_numbers(e, xasprintf("%s%s", stem, rates ? "" : ".bias"), to, heads);
}

// Returns the ending that a constant's name has in GGUF files.
static const char *constant_end(const char *name)
{
    if (strstr(name, ".router.")) return "";
    return text_ends(name, ".layer_scalar") ? ".weight" : ".bias";
}

// Adds vectors that are not weights: the experts' biases, rates of recurrences, factors of layers.
static void add_constants(struct export *e)
{
    struct decoder_constant c = { 0 };
    while (decoder_next_constant(&e->model->decoder, &c)) {
        char *stem = gguf_text_name(e->architecture, c.name);
        if (strstr(c.name, ".linear_attn."))
            add_delta_numbers(e, stem, c.tensor);
        else
            add_numbers(e, xasprintf("%s%s", stem, constant_end(c.name)),
                        adapter_vector(e->model->arena.backend, c.tensor), tensor_count(c.tensor));
        free(stem);
    }
}

// Adds the divisors of the rotary frequencies, one per pair of dimensions.
static void add_divisors(struct export *e)
{
    const struct rope_config *r = &e->model->decoder.config.rope;
    const int64_t pairs = r->dim / 2;
    float *scaled = xcalloc((size_t)pairs, sizeof *scaled);
    float *usual = xcalloc((size_t)pairs, sizeof *usual);
    struct rope_config plain = *r;
    plain.scaling = NULL;
    rope_frequencies(r, scaled);
    rope_frequencies(&plain, usual);
    for (int64_t i = 0; i < pairs; i++) {
        usual[i] /= scaled[i];
        if (!(usual[i] < 1e29F)) usual[i] = 1e30F; // Gemma 4's pairs that do not rotate
    }
    free(scaled);
    add_numbers(e, xstrdup("rope_freqs.weight"), usual, pairs);
}

static int put_tensors(struct export *e, const struct load_progress *progress, struct err *err)
{
    const struct model *m = e->model;
    if (has_divisors(&m->decoder.config.rope)) add_divisors(e);
    for (size_t i = 0; i < m->weights.count; i++) {
        const struct weight *w = &m->weights.list[i];
        if (w->tensor != &m->newline &&
            (w->part == PART_EMBEDDING || w->part == PART_DECODER || w->part == PART_HEAD))
            add_weight(e, w);
    }
    add_constants(e);
    gguf_tensors_sum(&e->tensors, e->kind, e->summary);
    e->summary->unread = m->unread;
    e->summary->ends = m->eos.count;
    return gguf_tensors_write(&e->tensors, m, e->out, progress, err);
}

int model_gguf_type(const char *type, struct err *err)
{
    if (type && gguf_kind_find(type)) return 0;
    char *names = gguf_kind_names();
    if (type)
        err_set(err, "unknown type '%s'; types: %s", type, names);
    else
        err_set(err, "give --type TYPE; types: %s", names);
    free(names);
    return -1;
}

int model_write_gguf(const struct model *m, const char *type, const char *path,
                     const struct load_progress *progress, struct gguf_summary *summary,
                     struct whole_file **file, struct err *err)
{
    struct export e = { .model = m,
                        .kind = gguf_kind_find(type),
                        .architecture = m->decoder.config.kind->gguf,
                        .summary = summary };
    model_pass(m, true); // applies the whole adapter
    if (!e.architecture)
        return err_set(err, "the language model of the family %s cannot be written as GGUF",
                       m->family->name);
    if (model_head_untied(m))
        return err_set(err, "the adapter has its own output head, but the file would have one "
                            "tensor for head and embedding: use the adapter beside the model");
    e.out = gguf_writer_new(path);
    gguf_writer_prefix(e.out, e.architecture);
    int status = -1;
    if (put_sizes(&e, err) == 0 && put_tokenizer(&e, err) == 0 &&
        put_tensors(&e, progress, err) == 0)
        status = gguf_writer_seal(e.out, file, err);
    else
        gguf_writer_abandon(e.out);
    gguf_tensors_release(&e.tensors);
    return status;
}
