// core/adapter/adapter_config.c -- adapter_config.json: reads PEFT's description of an adapter's
// tensors.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "core/adapter/adapter_config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <pcre2.h>

#include "core/base/mem.h"

enum {
    RANK_LIMIT = 1 << 20,
    PATTERN_LIMIT = 1 << 16, // bytes of an expression
    PATTERNS_LIMIT = 4096,   // expressions in each of rank_pattern and alpha_pattern
    SAVED_LIMIT = 1024,      // modules_to_save: each is compared with the name of each tensor
    LIST_LIMIT = 65536,      // entries of other lists, which are compared with each module
    MATCH_LIMIT = 100000,    // steps per match: enough for module names, which are short
    HEAP_LIMIT = 1024,       // kB
};
static const double SCALE_LIMIT = 1e6;

struct module_pattern {
    pcre2_code *code;
    pcre2_match_data *data;
    pcre2_match_context *context;
};

// A member of rank_pattern or alpha_pattern; its key is a regular expression that matches the end
// of a module's name.
struct named_pattern {
    const cJSON *item;                 // NULL: the end of the list
    struct module_pattern *expression; // NULL: a plain name (most common)
};

static void pattern_free(struct module_pattern *p)
{
    if (!p) return;
    pcre2_code_free(p->code);
    pcre2_match_data_free(p->data);
    pcre2_match_context_free(p->context);
    free(p);
}

// Compiles the expressions `before` and `text` into one that must match a whole name.
static struct module_pattern *pattern_new(const char *before, const char *text, struct err *err)
{
    int code;
    PCRE2_SIZE at;
    if (strlen(text) > PATTERN_LIMIT) {
        err_set(err, "the pattern is too long (%zu characters)", strlen(text));
        return NULL;
    }
    char *whole = xasprintf("^(?:%s(?:%s))$", before, text);
    struct module_pattern *p = xcalloc(1, sizeof *p);
    p->code = pcre2_compile((PCRE2_SPTR)whole, PCRE2_ZERO_TERMINATED, PCRE2_DOLLAR_ENDONLY, &code,
                            &at, NULL);
    free(whole);
    if (!p->code) {
        PCRE2_UCHAR why[128] = "";
        pcre2_get_error_message(code, why, sizeof why);
        err_set(err, "'%.200s' is not a regular expression: %s", text, (const char *)why);
        pattern_free(p);
        return NULL;
    }
    p->data = pcre2_match_data_create(1, NULL);
    p->context = pcre2_match_context_create(NULL);
    if (!p->data || !p->context) fatal("out of memory");
    pcre2_set_match_limit(p->context, MATCH_LIMIT);
    pcre2_set_heap_limit(p->context, HEAP_LIMIT);
    return p;
}

static int pattern_matches(const struct module_pattern *p, const char *text, struct err *err)
{
    int n = pcre2_match(p->code, (PCRE2_SPTR)text, strlen(text), 0, 0, p->data, p->context);
    if (n >= 0) return 1;
    if (n == PCRE2_ERROR_NOMATCH) return 0;
    return err_set(err, "the regular expression takes too long to match '%.200s'", text);
}

// --- names of modules ----------------------------------------------------------------------------

// True if `end` is the whole name, or its last levels.
static bool names_end(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && !strcmp(name + n - m, end) && (n == m || name[n - m - 1] == '.');
}

static bool list_names(const cJSON *list, const char *module)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        if (cJSON_IsString(item) && names_end(module, item->valuestring)) return true;
    }
    return false;
}

// Finds the first member of a pattern object that matches the module.
static int pattern_find(const struct named_pattern *list, const char *module, const cJSON **found,
                        struct err *err)
{
    *found = NULL;
    for (const struct named_pattern *n = list; n && n->item && !*found; n++) {
        const int match = names_end(module, n->item->string) ||
                          (n->expression ? pattern_matches(n->expression, module, err) : 0);
        if (match < 0) return -1;
        if (match) *found = n->item;
    }
    return 0;
}

// --- reading -------------------------------------------------------------------------------------

// LoRA variants that compute something other than W x + scale B A x. Each is off if its key is
// absent, null or false.
static const struct {
    const char *key, *what;
} foreign[] = {
    { "use_dora", "DoRA" },
    { "lora_bias", "LoRA with a bias" },
    { "use_qalora", "QALoRA" },
    { "use_bdlora", "BDLoRA" },
    { "alora_invocation_tokens", "aLoRA" },
    { "arrow_config", "Arrow" },
    { "kasa_config", "KaSA" },
    { "monteclora_config", "MonteCLoRA" },
    { "velora_config", "VeLoRA" },
    { "layer_replication", "layer replication" },
    { "trainable_token_indices", "training of individual tokens" },
};

static int refuse_foreign(const cJSON *json, struct err *err)
{
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (json_is_on(json_get(json, foreign[i].key)))
            return err_set(err, "\"%s\": %s is not supported; use plain LoRA", foreign[i].key,
                           foreign[i].what);
    // With one of these initialisations, PEFT changes the base weights when it opens the adapter.
    static const char *const inits[] = { "pissa", "olora", "corda", "loftq", "lora_ga" };
    const cJSON *init = json_get(json, "init_lora_weights");
    for (size_t i = 0; cJSON_IsString(init) && i < sizeof inits / sizeof *inits; i++)
        if (!strncmp(init->valuestring, inits[i], strlen(inits[i])))
            return err_set(err,
                           "\"init_lora_weights\" \"%.40s\" needs modified base weights: save the "
                           "adapter with PEFT's path_initial_model_for_weight_conversion",
                           init->valuestring);
    return 0;
}

// Reads the ranks or alphas of individual modules: an object whose keys are patterns. Compiles each
// pattern once for all modules.
static int read_patterns(struct named_pattern **list, const cJSON *json, const char *key,
                         struct err *err)
{
    const cJSON *object = json_get(json, key), *item;
    size_t count = 0, expressions = 0;
    if (object && !cJSON_IsObject(object))
        return err_set(err, "\"%s\" must be an object that maps patterns to numbers", key);
    *list = xcalloc((size_t)cJSON_GetArraySize(object) + 1, sizeof **list);
    cJSON_ArrayForEach(item, object)
    {
        struct named_pattern *n = &(*list)[count++];
        n->item = item;
        if (!strpbrk(item->string, "*+?[](){}|^$\\")) continue;
        if (++expressions > PATTERNS_LIMIT)
            return err_set(err, "\"%s\" has more than %d regular expressions", key, PATTERNS_LIMIT);
        n->expression = pattern_new("(?:.*\\.)?", item->string, err);
        if (!n->expression) return err_in(err, "\"%s\"", key);
    }
    return 0;
}

static void patterns_free(struct named_pattern *list)
{
    for (struct named_pattern *n = list; n && n->item; n++) pattern_free(n->expression);
    free(list);
}

// Checks that each list of names or layers is a list, or the one value that PEFT also allows.
static int check_lists(const cJSON *json, struct err *err)
{
    static const struct {
        const char *key;
        int most, one; // `one`: the cJSON type of a single value; 0: none
    } lists[] = { { "modules_to_save", SAVED_LIMIT, 0 },
                  { "target_modules", LIST_LIMIT, cJSON_String },
                  { "target_parameters", LIST_LIMIT, 0 },
                  { "exclude_modules", LIST_LIMIT, cJSON_String },
                  { "layers_to_transform", LIST_LIMIT, cJSON_Number },
                  { "layers_pattern", LIST_LIMIT, cJSON_String } };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const cJSON *list = json_get(json, lists[i].key);
        const int type = list ? list->type & 0xff : cJSON_NULL;
        if (type != cJSON_NULL && type != cJSON_Array && (!lists[i].one || type != lists[i].one))
            return err_set(err, "\"%s\" must be a list%s", lists[i].key,
                           lists[i].one == cJSON_Number   ? " or a number"
                           : lists[i].one == cJSON_String ? " or a string"
                                                          : "");
        if (cJSON_GetArraySize(list) > lists[i].most)
            return err_set(err, "\"%s\" has more than %d entries", lists[i].key, lists[i].most);
    }
    return 0;
}

static int read_targets(struct adapter_config *c, struct err *err)
{
    const cJSON *target = json_get(c->json, "target_modules"), *item;
    if (target && !cJSON_IsString(target) && !cJSON_IsArray(target))
        return err_set(err, "\"target_modules\" must be a string or a list of strings");
    cJSON_ArrayForEach(item, target)
    {
        if (!cJSON_IsString(item))
            return err_set(err, "\"target_modules\" must be a string or a list of strings");
    }
    if (check_lists(c->json, err) < 0) return -1;
    const cJSON *exclude = json_get(c->json, "exclude_modules");
    if (cJSON_IsString(exclude) && !(c->exclude = pattern_new("", exclude->valuestring, err)))
        return err_in(err, "\"exclude_modules\"");
    // PEFT's words for all linear layers, and for none.
    if (!target || !cJSON_IsString(target) || !strcmp(target->valuestring, "all-linear") ||
        !strcmp(target->valuestring, "dummy-target-modules"))
        return 0;
    const cJSON *layers = json_get(c->json, "layers_to_transform");
    if (layers)
        return err_set(err,
                       "\"target_modules\" is a pattern, and PEFT allows \"layers_to_transform\" "
                       "only beside a list: name the layers in the pattern");
    c->target = pattern_new("", target->valuestring, err);
    return c->target ? 0 : err_in(err, "\"target_modules\"");
}

int adapter_config_read(struct adapter_config *c, const cJSON *json, struct err *err)
{
    const char *type, *bias;
    double dropped;
    *c = (struct adapter_config){ .json = json };
    if (!cJSON_IsObject(json)) return err_set(err, "it is not a JSON object");
    if (json_text(json, "peft_type", "", &type, err) < 0 ||
        json_text(json, "base_model_name_or_path", "", &c->base, err) < 0 ||
        json_bool(json, "ensure_weight_tying", false, &c->tied, err) < 0)
        return -1;
    c->lora = !strcmp(type, "LORA");
    if (!c->lora && strcmp(type, "LN_TUNING") != 0)
        return err_set(err, "\"peft_type\" \"%.40s\" is not supported (known: LORA, LN_TUNING)",
                       type);
    if (!c->lora) return read_targets(c, err);
    if (refuse_foreign(json, err) < 0 || read_patterns(&c->ranks, json, "rank_pattern", err) < 0 ||
        read_patterns(&c->alphas, json, "alpha_pattern", err) < 0 ||
        json_int(json, "r", 1, RANK_LIMIT, 8, &c->rank, err) < 0 ||
        json_real(json, "lora_alpha", 8, &c->alpha, err) < 0 ||
        json_real(json, "lora_dropout", 0, &dropped, err) < 0 ||
        json_bool(json, "use_rslora", false, &c->rank_stabilised, err) < 0 ||
        json_text(json, "bias", "none", &bias, err) < 0)
        return -1;
    if (strcmp(bias, "none") != 0 && strcmp(bias, "all") != 0 && strcmp(bias, "lora_only") != 0)
        return err_set(err, "\"bias\" must be none, all or lora_only, not '%.40s'", bias);
    c->bias = !strcmp(bias, "all") ? BIAS_ALL : !strcmp(bias, "lora_only") ? BIAS_LORA : BIAS_NONE;
    return read_targets(c, err);
}

void adapter_config_release(struct adapter_config *c)
{
    pattern_free(c->target);
    pattern_free(c->exclude);
    for (int i = 0; i < USED_KINDS; i++) names_release(&c->used[i]);
    patterns_free(c->ranks);
    patterns_free(c->alphas);
    *c = (struct adapter_config){ 0 };
}

// --- questions -----------------------------------------------------------------------------------

int adapter_config_scale(struct adapter_config *c, const char *module, int64_t rank, float *scale,
                         struct err *err)
{
    const cJSON *r, *a;
    if (pattern_find(c->ranks, module, &r, err) < 0)
        return err_in(err, "adapter_config.json: \"rank_pattern\"");
    if (pattern_find(c->alphas, module, &a, err) < 0)
        return err_in(err, "adapter_config.json: \"alpha_pattern\"");
    if (r) names_add(&c->used[USED_RANKS], r->string, NULL);
    if (a) names_add(&c->used[USED_ALPHAS], a->string, NULL);
    double wanted = r ? r->valuedouble : (double)c->rank, alpha = a ? a->valuedouble : c->alpha;
    if ((r && !cJSON_IsNumber(r)) || (a && !cJSON_IsNumber(a)))
        return err_set(err,
                       "adapter_config.json: \"rank_pattern\" and \"alpha_pattern\" must contain "
                       "numbers");
    if (wanted != (double)rank)
        return err_set(err, "LoRA has rank %lld, but adapter_config.json says %.6g",
                       (long long)rank, wanted);
    double s = alpha / (c->rank_stabilised ? sqrt((double)rank) : (double)rank);
    if (!(fabs(s) <= SCALE_LIMIT))
        return err_set(err,
                       "adapter_config.json: LoRA alpha %.6g is out of proportion to rank %lld",
                       alpha, (long long)rank);
    *scale = (float)s;
    return 0;
}

// Returns the layer of a module, such as 3 for "model.layers.3.mlp.up_proj": the last number inside
// its name that follows the name of a layer list. "layers_pattern" names these lists; without it,
// any name counts. -1 if there is no such number.
static int64_t layer_of(const cJSON *pattern, const char *module)
{
    const char *one = cJSON_GetStringValue(pattern);
    const bool any = one ? !*one : !pattern || !pattern->child;
    int64_t layer = -1;
    for (const char *p = strchr(module, '.'); p; p = strchr(p + 1, '.')) {
        char *end;
        if (p[1] < '0' || p[1] > '9') continue;
        char *before = xstrndup(module, (size_t)(p - module));
        const bool list = any || (one ? names_end(before, one) : list_names(pattern, before));
        const long long number = strtoll(p + 1, &end, 10);
        if (list && *end == '.') layer = number;
        free(before);
    }
    return layer;
}

// True if "layers_to_transform" (a number or a list) contains the layer of the module, or is not
// set. If it is set, modules outside layers are excluded.
static bool layer_chosen(const struct adapter_config *c, const char *module)
{
    const cJSON *layers = json_get(c->json, "layers_to_transform");
    const int64_t layer = layer_of(json_get(c->json, "layers_pattern"), module);
    if (!layers || cJSON_IsNull(layers) || (!cJSON_IsNumber(layers) && !layers->child)) return true;
    if (cJSON_IsNumber(layers)) return layers->valuedouble == (double)layer;
    bool chosen = false;
    const cJSON *one;
    cJSON_ArrayForEach(one, layers) chosen |=
        cJSON_IsNumber(one) && one->valuedouble == (double)layer;
    return chosen;
}

int adapter_config_targets(const struct adapter_config *c, const char *module, struct err *err)
{
    // Each of these two is a regular expression or a list of names.
    const cJSON *target = json_get(c->json, "target_modules");
    if (c->exclude) {
        const int found = pattern_matches(c->exclude, module, err);
        if (found < 0) return err_in(err, "adapter_config.json: \"exclude_modules\"");
        if (found) return 0;
    } else if (list_names(json_get(c->json, "exclude_modules"), module)) {
        return 0;
    }
    if (c->target) return pattern_matches(c->target, module, err);
    if (!layer_chosen(c, module)) return 0;
    return !cJSON_IsArray(target) || list_names(target, module);
}

bool adapter_config_use_parameter(struct adapter_config *c, const char *name)
{
    bool found = false;
    const cJSON *item;
    cJSON_ArrayForEach(item, json_get(c->json, "target_parameters"))
    {
        if (!cJSON_IsString(item) || !names_end(name, item->valuestring)) continue;
        names_add(&c->used[USED_PARAMETERS], item->valuestring, NULL);
        found = true;
    }
    return found;
}

bool adapter_config_saves(const struct adapter_config *c, const char *module)
{
    return list_names(json_get(c->json, "modules_to_save"), module);
}
