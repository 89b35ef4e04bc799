// core/files/gguf_keys.c -- metadata of GGUF files that nothing reads.
// Every look-up marks its key as read (gguf_entry). Unread keys of the model's own architecture, of
// the tokenizer and of sampling can affect answers. This file classifies them: harmless keys, keys
// that change the result, and unknown keys, which a notice names.
//
// Sources: gguf-py's constants.py, llama.cpp's converters.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/files/gguf_parts.h"

enum { KEYS_NAMED = 8 };

// Keys after the architecture's name that change the result, each with its neutral value (0 is
// always neutral too: files use it for "none").
static const struct {
    const char *name;
    double neutral;
} computed[] = {
    { "rope.scaling.attn_factor", 1 },
    { "rope.scaling.yarn_attn_factor", 1 },
    { "rope.scaling.yarn_ext_factor", 1 },
    { "logit_scale", 1 },
    { "residual_scale", 1 },
    { "embedding_scale", 1 },
    { "attention.scale", 0 },
    { "attention.clamp_kqv", 0 },
    { "attention.max_alibi_bias", 0 },
    { "attn_logit_softcapping", 0 },
    { "final_logit_softcapping", 0 },
    { "router_logit_softcapping", 0 },
    { "attention.temperature_scale", 0 },
    { "attention.output_scale", 0 },
    { "attention.chunk_size", 0 },
    { "attention.shared_kv_layers", 0 },
    { "attention.indexer.top_k", 0 },
    { "attention.sliding_window_pattern", 0 },
    { "attention.recurrent_layers", 0 },
    { "embedding_length_per_layer_input", 0 },
    { "activation_sparsity_scale", 0 },
    { "altup.num_inputs", 0 },
    { "swiglu_clamp_exp", 0 },
    { "swiglu_clamp_shexp", 0 },
    { "full_attention_interval", 1 },
    { "interleave_moe_layer_step", 0 },
    { "expert_count", 0 },
    { "n_deepstack_layers", 0 },
    { "vision.is_deepstack_layers", 0 }, // of an encoder
    { "use_gelu", 0 },                   // of an encoder that has another activation
    { "use_silu", 0 },
    { "use_parallel_residual", 0 },
    { "swin_norm", 0 },
    { "rescale_every_n_layers", 0 },
};

// Harmless keys: names, numbers that the tensors also give, settings of other programs; "*" matches
// any ending.
static const char *const harmless[] = { "vocab_size",
                                        "tensor_data_layout",
                                        "pooling_type",
                                        "nextn_predict_layers",
                                        "expert_used_count",
                                        "rope.scaling.finetuned",
                                        "rope.scaling.original_context_length",
                                        "rope.scaling.yarn_beta_*",
                                        NULL };

static const char *const harmless_of_encoder[] = { "has_*",
                                                   "audio.*",
                                                   "text.*",
                                                   "vision.projection_dim",
                                                   "vision.image_size",
                                                   "vision.feed_forward_length",
                                                   "vision.image_crop_resolution",
                                                   "vision.image_split_resolution",
                                                   "vision.mm_projector_type",
                                                   "vision.mm_patch_merge_type",
                                                   NULL };

static const char *const harmless_of_tokenizer[] = {
    "seperator_token_id", "separator_token_id", "cls_token_id", "mask_token_id", "token_type_count",
    "prefix_token_id", "suffix_token_id", "middle_token_id", "fim_*", "added_tokens",
    // Of other kinds of tokenizers.
    "precompiled_charsmap", "hf_json", "rwkv.*", NULL
};

static bool matches_any(const char *const *patterns, const char *name)
{
    for (; *patterns; patterns++) {
        const size_t n = strcspn(*patterns, "*");
        if ((*patterns)[n] ? !strncmp(name, *patterns, n) : !strcmp(name, *patterns)) return true;
    }
    return false;
}

// Returns the rest of a key after "PREFIX."; NULL if the key has another prefix.
static const char *behind(const char *key, const char *prefix)
{
    const size_t n = strlen(prefix);
    return !strncmp(key, prefix, n) && key[n] == '.' ? key + n + 1 : NULL;
}

// --- the value -----------------------------------------------------------------------------------

// Returns a list of numbers as it is, and a number as a list of one; count 0: e is neither.
static struct gguf_entry numbers_of(const struct gguf_entry *e)
{
    struct gguf_entry list = *e;
    if (e->type != GGUF_LIST) list.item = e->type, list.count = 1;
    if (list.item == GGUF_TEXT || list.item == GGUF_LIST) list.count = 0;
    return list;
}

static bool is_neutral(const struct gguf_entry *e, double neutral)
{
    const struct gguf_entry list = numbers_of(e);
    if (e->text) return !*e->text;
    if (!list.count) return !e->count;
    for (uint64_t i = 0; i < list.count; i++) {
        const double x = gguf_number(&list, i);
        if (!(fabs(x) <= 1e-6 || fabs(x - neutral) <= 1e-6)) return false;
    }
    return true;
}

static char *value_text(const struct gguf_entry *e)
{
    const struct gguf_entry list = numbers_of(e);
    if (e->text) return xasprintf("\"%.60s\"", e->text);
    if (e->type == GGUF_LIST) return xasprintf("a list of %llu", (unsigned long long)e->count);
    if (e->type == GGUF_BOOL) return xstrdup(*e->data ? "true" : "false");
    return xasprintf("%g", gguf_number(&list, 0));
}

// --- effects -------------------------------------------------------------------------------------

enum effect { NONE, COMPUTED, UNKNOWN };

static enum effect effect_of(const struct gguf *f, const struct gguf_entry *e)
{
    const char *name, *architecture = gguf_text(f, "general.architecture");
    if (e->read) return NONE;
    if (!architecture || !(name = behind(e->key, architecture))) {
        if ((name = behind(e->key, "tokenizer.ggml")))
            return matches_any(harmless_of_tokenizer, name) || is_neutral(e, 0) ? NONE : UNKNOWN;
        if (!(name = behind(e->key, "general.sampling"))) return NONE;
        return !strcmp(name, "sequence") || is_neutral(e, 0) ? NONE : UNKNOWN;
    }
    for (size_t i = 0; i < sizeof computed / sizeof *computed; i++)
        if (!strcmp(name, computed[i].name))
            return is_neutral(e, computed[i].neutral) ? NONE : COMPUTED;
    if (!strcmp(name, "attention.causal"))
        return numbers_of(e).count && !is_neutral(e, 0) ? NONE : COMPUTED;
    if (!strcmp(name, "hidden_activation"))
        return e->text && !strcmp(e->text, "silu") ? NONE : COMPUTED;
    if (!strcmp(name, "vision.image_aspect_ratio")) // other values pad the picture
        return e->text && !strncmp(e->text, "anyres", 6) ? NONE : UNKNOWN;
    const char *const *known = behind(e->key, "clip") ? harmless_of_encoder : harmless;
    return matches_any(known, name) ? NONE : UNKNOWN;
}

int gguf_keys_check(const struct gguf *f, struct err *err)
{
    for (uint64_t i = 0; i < f->entry_count; i++) {
        struct gguf_entry *e = &f->entries[i];
        if (effect_of(f, e) != COMPUTED) continue;
        char *value = value_text(e);
        err_set(err, "'%.120s' is %s, which is not supported: %s", e->key, value,
                text_ends(e->key, ".causal") ? "the model does not generate text"
                                             : "answers would be wrong");
        free(value);
        e->read = true; // reports it only once
        return -1;
    }
    return 0;
}

char *gguf_keys_unread(const struct gguf *f)
{
    struct buf b = { 0 };
    int64_t count = 0;
    for (uint64_t i = 0; i < f->entry_count; i++) {
        const struct gguf_entry *e = &f->entries[i];
        if (effect_of(f, e) == NONE || ++count > KEYS_NAMED) continue;
        char *value = value_text(e);
        buf_printf(&b, "%s'%.120s' %s", count > 1 ? ", " : "", e->key, value);
        free(value);
    }
    if (count > KEYS_NAMED) buf_printf(&b, ", %lld more", (long long)(count - KEYS_NAMED));
    return count ? buf_take(&b) : NULL;
}
