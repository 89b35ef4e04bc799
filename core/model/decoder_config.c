// core/model/decoder_config.c -- the config of a language model, as its JSON object says it.
#include "core/model/decoder.h"

#include <string.h>

// Index of the first layer whose type is a window; past all layers if none.
static int64_t first_sliding(const cJSON *types)
{
    int64_t layer = 0;
    const cJSON *type;
    cJSON_ArrayForEach(type, types)
    {
        if (cJSON_IsString(type) && !strcmp(type->valuestring, "sliding_attention")) return layer;
        layer++;
    }
    return INT32_MAX;
}

// A window shorter than the context in any layer would need masks that nobody here makes.
static int check_window(const struct decoder_config *d, const cJSON *json, struct err *err)
{
    bool use;
    int64_t window, from;
    const cJSON *types = json_get(json, "layer_types"); // newer files say it layer by layer
    if (json_bool(json, "use_sliding_window", false, &use, err) < 0) return -1;
    if (!use) return 0;
    if (json_int(json, "sliding_window", 1, INT32_MAX, 4096, &window, err) < 0 ||
        json_int(json, "max_window_layers", 0, INT32_MAX, 28, &from, err) < 0)
        return -1;
    if (cJSON_IsArray(types)) from = first_sliding(types);
    if (window < d->max_positions && from < d->layers)
        return err_set(err,
                       "\"use_sliding_window\": attention over a window of %lld tokens is not "
                       "supported",
                       (long long)window);
    return 0;
}

static int read_sizes(struct decoder_config *d, const struct decoder_kind *kind, const cJSON *json,
                      struct err *err)
{
    int64_t layers;
    if (json_int(json, "num_hidden_layers", 1, 1000, 32, &layers, err) < 0 ||
        json_int(json, "hidden_size", 1, 1000000, 4096, &d->hidden, err) < 0 ||
        json_int(json, "intermediate_size", 1, 10000000, kind->ffn, &d->ffn, err) < 0 ||
        json_int(json, "num_attention_heads", 1, 10000, 32, &d->heads, err) < 0 ||
        json_int(json, "num_key_value_heads", 1, 10000, d->heads, &d->kv_heads, err) < 0 ||
        json_int(json, "head_dim", 2, 10000, d->hidden / d->heads, &d->dim, err) < 0 ||
        json_int(json, "vocab_size", 1, 100000000, kind->vocab, &d->vocab, err) < 0 ||
        json_int(json, "max_position_embeddings", 1, 1000000000, kind->max_positions,
                 &d->max_positions, err) < 0)
        return -1;
    d->layers = (int)layers;
    if (!json_get(json, "head_dim") && d->hidden % d->heads)
        return err_set(err,
                       "\"hidden_size\" %lld is not a multiple of \"num_attention_heads\" %lld",
                       (long long)d->hidden, (long long)d->heads);
    if (d->dim % 2 || d->dim < 2)
        return err_set(err, "heads of width %lld cannot be rotated: the width must be even",
                       (long long)d->dim);
    if (d->heads % d->kv_heads)
        return err_set(err,
                       "\"num_attention_heads\" %lld is not a multiple of \"num_key_value_heads\" "
                       "%lld",
                       (long long)d->heads, (long long)d->kv_heads);
    return 0;
}

int decoder_config_read(struct decoder_config *d, const struct decoder_kind *kind,
                        const cJSON *json, struct err *err)
{
    *d = (struct decoder_config){ 0 };
    if (read_sizes(d, kind, json, err) < 0) return -1;

    const char *act;
    bool bias = false;
    if (json_real(json, "rms_norm_eps", 1e-6, &d->eps, err) < 0 ||
        json_text(json, "hidden_act", "silu", &act, err) < 0 ||
        json_bool(json, "tie_word_embeddings", false, &d->tied, err) < 0 ||
        rope_config_read(&d->rope, json, 10000, err) < 0 || check_window(d, json, err) < 0)
        return -1;
    if (strcmp(act, "silu") != 0 && strcmp(act, "swish") != 0)
        return err_set(err, "\"hidden_act\" \"%s\" is not supported (known: silu)", act);
    if (d->eps < 0 || d->eps > 1) return err_set(err, "\"rms_norm_eps\" must be within 0..1");

    d->qkv_bias = kind->qkv_bias;
    if (kind->qkv_bias) return 0;
    if (json_bool(json, "attention_bias", false, &bias, err) < 0 ||
        json_bool(json, "mlp_bias", false, &d->mlp_bias, err) < 0)
        return -1;
    d->qkv_bias = d->out_bias = bias;
    return 0;
}
