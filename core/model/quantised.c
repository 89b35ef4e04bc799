// core/model/quantised.c -- refuses folders whose weights another program has quantised, and names
// their number format.
//
// Such folders store integers and scales as separate tensors, and config.json says how to combine
// them. vlmsh reads none of these formats; without the scales, the weights' values would be wrong.
#include <cjson/cJSON.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/json.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/files/checkpoint.h"
#include "core/files/safetensors.h"
#include "core/model/model.h"
#include "core/model/unread.h"
#include "kernels/tensor.h"

// Suffixes of tensor names that only quantised folders have.
static const struct {
    const char *end, *form; // NULL: config.json must name the form
} signs[] = {
    { ".g_idx", "INT4 or INT8 (GPTQ)" },
    { ".qweight", "INT4 or INT8 (GPTQ or AWQ)" },
    { ".weight_packed", "INT4 or INT8 (compressed-tensors)" },
    { ".weight_scale_inv", "FP8 in blocks" },
    { ".weight.absmax", "4-bit (bitsandbytes)" },
    { ".SCB", "INT8 (bitsandbytes)" },
    { "_blocks", NULL },
    { "_scale", NULL },
    { "_scales", NULL },
    { ".scales", NULL },
    { ".qzeros", NULL },
    { ".W_q", NULL },          // HQQ
    { ".codes", NULL },        // AQLM
    { ".Qidxs", NULL },        // QuIP
    { ".indices", NULL },      // VPTQ
    { ".q_weight", NULL },     // EXL2
    { ".trellis", NULL },      // EXL3
    { ".weight._data", NULL }, // Quanto
};

static const char *const objects[] = { NULL, "text_config", "llm_config", "vision_config" };
static const char *const keys[] = { "quantization_config", "compression_config", "quantization" };

static const cJSON *find_object(const cJSON *config)
{
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++) {
        const cJSON *in = objects[i] ? json_get(config, objects[i]) : config;
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            if (cJSON_IsObject(json_get(in, keys[k]))) return json_get(in, keys[k]);
    }
    return NULL;
}

static const char *text_of(const cJSON *object, const char *key)
{
    const cJSON *value = json_get(object, key);
    return cJSON_IsString(value) ? value->valuestring : "";
}

// Returns the number format that the object states: "FP8", "INT4".
static char *form_of(const cJSON *q)
{
    const char *method = text_of(q, "quant_method"), *format = text_of(q, "format");
    const char *algorithm = text_of(q, "quant_algo");
    // For compressed-tensors, reads the first group.
    const cJSON *groups = json_get(q, "config_groups");
    const cJSON *weights = json_get(groups ? groups->child : NULL, "weights");
    const cJSON *bits = json_get(weights, "num_bits");
    const bool floats = !strcmp(text_of(weights, "type"), "float");
    if (!bits) bits = json_get(q, "bits");
    if (cJSON_IsTrue(json_get(q, "load_in_4bit")))
        return xstrdup(strcmp(text_of(q, "bnb_4bit_quant_type"), "nf4") ? "FP4" : "NF4");
    if (cJSON_IsTrue(json_get(q, "load_in_8bit"))) return xstrdup("INT8");
    if (*algorithm) return xstrdup(algorithm);
    if (strstr(format, "nvfp4")) return xstrdup("NVFP4");
    if (strstr(format, "mxfp4") || !strcmp(method, "mxfp4")) return xstrdup("MXFP4");
    if (cJSON_IsNumber(bits)) return xasprintf("%s%.0f", floats ? "FP" : "INT", bits->valuedouble);
    if (strstr(method, "fp8") || strstr(format, "float") || !strcmp(format, "naive-quantized"))
        return xstrdup("FP8");
    if (strstr(format, "pack")) return xstrdup("INT4");
    return xstrdup(strstr(format, "int") ? "INT8" : "quantised");
}

// Returns "FP8 (compressed-tensors)", "INT4 (AWQ)".
static char *title_of(const cJSON *q)
{
    // MLX's objects name no method.
    const char *named = text_of(q, "quant_method");
    char *method = xstrdup(*named                      ? named
                           : json_get(q, "group_size") ? "mlx"
                                                       : ""),
         *form = form_of(q);
    const bool acronym = strlen(method) <= 5;
    for (char *at = method; acronym && *at; at++) *at = (char)toupper((unsigned char)*at);
    const bool both = *method && strcasecmp(method, form) != 0;
    char *title = both ? xasprintf("%s (%s)", form, method) : xstrdup(form);
    free(form);
    free(method);
    return title;
}

static int refuse(const char *title, bool by_config, const char *tensor, struct err *err)
{
    return err_set(
        err,
        "these are %s weights (%stensor '%.160s'), which vlmsh cannot read: use the model's "
        "folder in BF16 or F16, or a GGUF file of it",
        title, by_config ? "\"quantization_config\" of config.json, " : "", tensor);
}

int quantised_check(struct model *m, struct err *err)
{
    struct checkpoint *c = m->checkpoint;
    if (c->gguf_count || !c->tensor_count) return 0;
    const cJSON *q = find_object(c->config);
    char *title = q ? title_of(q) : NULL;
    int status = 0;
    for (int64_t i = 0; i < c->tensor_count && status == 0; i++) {
        const struct safetensor *t = c->tensors[i];
        if (q && !safetensor_is_float(t) && text_ends(t->name, ".weight"))
            status = refuse(title, true, t->name, err);
        for (size_t k = 0; k < sizeof signs / sizeof *signs && status == 0; k++)
            if ((q || signs[k].form) && text_ends(t->name, signs[k].end))
                status = refuse(q ? title : signs[k].form, q, t->name, err);
    }
    // A dequantised copy may still have the key; it loads like any other folder.
    if (q && status == 0)
        text_append(&c->notice, xasprintf("config.json says that the weights are %s, but they are "
                                          "not quantised: vlmsh reads them as stored",
                                          title));
    free(title);
    return status;
}
