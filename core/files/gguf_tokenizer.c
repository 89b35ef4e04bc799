// core/files/gguf_tokenizer.c -- reads the tokenizer of a GGUF file, and builds the contents of
// tokenizer_config.json and generation_config.json.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/gguf_parts.h"

enum { TOKENS_MOST = 1 << 24, MERGES_MOST = 1 << 25 };

// --- lists ---------------------------------------------------------------------------------------

static struct token_text *read_texts(const struct gguf_entry *list)
{
    struct token_text *texts = xcalloc((size_t)list->count + 1, sizeof *texts);
    const unsigned char *at = list->data;
    for (uint64_t i = 0; i < list->count; i++) texts[i].text = gguf_next(&at, &texts[i].length);
    return texts;
}

// Reads a list with one number per token; *list becomes NULL if it is absent.
static int list_of_tokens(const struct gguf *f, const char *key, size_t count,
                          const struct gguf_entry **list, struct err *err)
{
    if (gguf_list(f, key, false, TOKENS_MOST, list, err) < 0) return -1;
    if (!*list || (*list)->count == count) return 0;
    return err_set(err, "'%s' has %llu members for %zu tokens", key,
                   (unsigned long long)(*list)->count, count);
}

// --- tokens with a meaning -----------------------------------------------------------------------

// *id becomes -1 if there is no such token; some writers store 2^32 - 1 for none.
static int token_id(const struct gguf *f, const char *name, int32_t *id, struct err *err)
{
    const struct gguf_entry *tokens = gguf_entry(f, "tokenizer.ggml.tokens");
    const bool needed = !strcmp(name, "bos") || !strcmp(name, "eos"); // answers depend on these
    int64_t value;
    char *key = xasprintf("tokenizer.ggml.%s_token_id", name);
    int status = gguf_int(f, key, -1, UINT32_MAX, -1, &value, err);
    if (value > INT32_MAX) value = -1;
    if (status == 0 && tokens && value >= (int64_t)tokens->count) {
        if (needed)
            status = err_set(err, "'%s' is %lld, but there are only %llu tokens", key,
                             (long long)value, (unsigned long long)tokens->count);
        value = -1;
    }
    *id = (int32_t)value;
    free(key);
    return status;
}

// --- tokens that end answers ---------------------------------------------------------------------

// Key of a list of ids that end answers, which ollama's converter and /quantize write. If the file
// also has an id for "eot", as from /quantize, the list is complete; otherwise it comes from
// generation_config.json, and turns may end with a token that the list lacks.
#define ENDS_KEY "tokenizer.ggml.eos_token_ids"

static bool names_all_ends(const struct gguf *f)
{
    return gguf_entry(f, ENDS_KEY) && gguf_entry(f, "tokenizer.ggml.eot_token_id");
}

static bool is_text(const struct token_text *t, const char *text)
{
    return t->length == strlen(text) && !memcmp(t->text, text, t->length);
}

// Many files name only one end token, and some converters gave the other end tokens the type of
// ordinary tokens. As in llama.cpp, these texts end answers whatever their type.
static bool has_end_text(const struct token_text *t)
{
    static const char *const texts[] = {
        "<|im_end|>",
        "<|eot_id|>",
        "<|eom_id|>",
        "<|end|>",
        "<|return|>",
        "<|call|>",
        "<|calls|>",
        "<|flush|>",
        "<EOT>",
        "_<EOT>",
        "[EOT]",
        "[EOS]",
        "<eos>",
        "</s>",
        "<|endoftext|>",
        "<|end_of_text|>",
        "<turn|>",
        "<|tool_response>",
        "<end_of_turn>",
        "<end_of_utterance>",
        "<\357\275\234end\342\226\201of\342\226\201sentence\357\275\234>", // DeepSeek
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (is_text(t, texts[i])) return true;
    return false;
}

struct ends {
    struct ids ids;
    bool *has; // [tokens] whether `ids` has the token
    uint64_t tokens;
};

// Appends an id, unless the list has it or it is out of range.
static void add_end(struct ends *ends, double id)
{
    if (!(id >= 0 && id < (double)ends->tokens) || ends->has[(size_t)id]) return;
    ends->has[(size_t)id] = true;
    ids_add(&ends->ids, (int32_t)id);
}

static void ends_by_text(const struct gguf_entry *tokens, const struct gguf_entry *types,
                         struct ends *ends)
{
    const struct token_text *texts = read_texts(tokens);
    bool returns = false, calls = false, flushes = false;
    for (uint64_t i = 0; i < tokens->count; i++) {
        returns |= is_text(&texts[i], "<|return|>");
        calls |= is_text(&texts[i], "<|call|>") || is_text(&texts[i], "<|calls|>");
        flushes |= is_text(&texts[i], "<|flush|>");
    }
    // In models with these tokens an answer consists of several messages, each of which ends with
    // <|end|>.
    const bool messages = calls && (returns || flushes);
    for (uint64_t i = 0; i < tokens->count; i++) {
        const struct token_text *t = &texts[i];
        const bool end = has_end_text(t) && !(messages && is_text(t, "<|end|>"));
        // In GLM, a turn ends at the mark of the next turn.
        const bool control = types && gguf_number(types, i) == TOKEN_TYPE_CONTROL;
        if (end || (control && (is_text(t, "<|user|>") || is_text(t, "<|observation|>"))))
            add_end(ends, (double)i);
    }
    free((void *)(uintptr_t)texts);
}

// Changes the type of tokens with the text of an end token to control, so that this text in a
// template becomes one token. Returns a notice, which the caller frees, or NULL.
static char *correct_types(const struct token_list *l, uint8_t *types)
{
    struct buf b = { 0 };
    for (size_t i = 0; i < l->count; i++) {
        if (types[i] == TOKEN_TYPE_CONTROL || !has_end_text(&l->tokens[i])) continue;
        types[i] = TOKEN_TYPE_CONTROL;
        buf_printf(&b, "%s%.*s", b.length ? ", " : "", (int)l->tokens[i].length, l->tokens[i].text);
    }
    char *notice =
        b.length ? xasprintf("the file does not mark %s as a control token; vlmsh uses it as one",
                             b.data)
                 : NULL;
    buf_release(&b);
    return notice;
}

static int list_read(const struct gguf *f, struct token_list *l, char **notice, struct err *err)
{
    const struct gguf_entry *tokens, *types, *scores, *merges;
    if (gguf_text_read(f, "tokenizer.ggml.model", &l->model, err) < 0 ||
        gguf_text_read(f, "tokenizer.ggml.pre", &l->pre, err) < 0 ||
        gguf_list(f, "tokenizer.ggml.tokens", true, TOKENS_MOST, &tokens, err) < 0 ||
        gguf_list(f, "tokenizer.ggml.merges", true, MERGES_MOST, &merges, err) < 0)
        return -1;
    if (l->pre && !*l->pre) l->pre = NULL;
    if (!l->model || !tokens) return err_set(err, "it has no tokenizer (tokenizer.ggml.tokens)");
    if ((!merges || !merges->count) && strcmp(l->model, "llama") != 0)
        return err_set(err, "its tokenizer has no merges (tokenizer.ggml.merges): convert the "
                            "model again");
    l->count = (size_t)tokens->count;
    if (list_of_tokens(f, "tokenizer.ggml.token_type", l->count, &types, err) < 0 ||
        list_of_tokens(f, "tokenizer.ggml.scores", l->count, &scores, err) < 0)
        return -1;
    l->tokens = read_texts(tokens);
    uint8_t *corrected = xcalloc(l->count + 1, 1);
    float *values = xcalloc(l->count + 1, sizeof *values);
    for (size_t i = 0; i < l->count; i++) {
        const double type = types ? gguf_number(types, i) : TOKEN_TYPE_NORMAL;
        corrected[i] = type > 0 && type <= UINT8_MAX ? (uint8_t)type : 0; // 0 is refused later
        if (scores) values[i] = (float)gguf_number(scores, i);
    }
    if (!names_all_ends(f)) *notice = correct_types(l, corrected);
    l->types = corrected;
    l->scores = values;
    if (merges) l->merges = read_texts(merges);
    l->merge_count = merges ? (size_t)merges->count : 0;
    const bool begins = tokenizer_list_begins(l->model, l->pre);
    int32_t unknown; // converters of Gemma 4 mark it as a control token
    if (token_id(f, "unknown", &unknown, err) < 0) return -1;
    if (unknown >= 0 && corrected[unknown] == TOKEN_TYPE_CONTROL && !strcmp(l->model, "gemma4"))
        corrected[unknown] = TOKEN_TYPE_UNKNOWN;
    if (token_id(f, "bos", &l->bos, err) < 0 || token_id(f, "eos", &l->eos, err) < 0 ||
        gguf_bool(f, "tokenizer.ggml.add_bos_token", begins, &l->add_bos, err) < 0 ||
        gguf_bool(f, "tokenizer.ggml.add_eos_token", false, &l->add_eos, err) < 0 ||
        gguf_bool(f, "tokenizer.ggml.add_space_prefix", true, &l->prefix, err) < 0)
        return -1;
    return gguf_bool(f, "tokenizer.ggml.remove_extra_whitespaces", false, &l->squeeze, err);
}

struct tokenizer *gguf_tokenizer(const struct gguf *f, struct err *err)
{
    struct token_list l = { 0 };
    struct tokenizer *t = NULL;
    char *notice = NULL;
    if (list_read(f, &l, &notice, err) == 0)
        t = tokenizer_from_list(&l, f->path, err);
    else
        err_in(err, "'%s'", f->path);
    if (t && notice) tokenizer_add_notice(t, "%s", notice);
    if (t && !l.pre && !strcmp(l.model, "gpt2"))
        tokenizer_add_notice(t, "the file does not name its pre-tokenizer (tokenizer.ggml.pre is "
                                "missing): llama.cpp's \"default\" is used; tokens may differ from "
                                "the model's, and answers may be worse; convert the model again");
    free(notice);
    free((void *)(uintptr_t)l.tokens);
    free((void *)(uintptr_t)l.types);
    free((void *)(uintptr_t)l.scores);
    free((void *)(uintptr_t)l.merges);
    return t;
}

int32_t gguf_token_find(const struct gguf *f, const char *text)
{
    const struct gguf_entry *tokens;
    struct err err;
    if (gguf_list(f, "tokenizer.ggml.tokens", true, TOKENS_MOST, &tokens, &err) < 0 || !tokens)
        return -1;
    const unsigned char *at = tokens->data;
    for (uint64_t i = 0; i < tokens->count; i++) {
        size_t length;
        const char *token = gguf_next(&at, &length);
        if (length == strlen(text) && !memcmp(token, text, length)) return (int32_t)i;
    }
    return -1;
}

// --- configs -------------------------------------------------------------------------------------

cJSON *gguf_tokenizer_config(const struct gguf *f, struct err *err)
{
    static const char *const names[] = { "bos", "eos", "unknown", "padding" };
    static const char *const keys[] = { "bos_token", "eos_token", "unk_token", "pad_token" };
    const struct gguf_entry *tokens;
    const char *template;
    if (gguf_list(f, "tokenizer.ggml.tokens", true, TOKENS_MOST, &tokens, err) < 0 ||
        gguf_text_read(f, "tokenizer.chat_template", &template, err) < 0)
        return NULL;
    cJSON *config = cJSON_CreateObject();
    for (int i = 0; i < 4; i++) {
        int32_t id;
        if (token_id(f, names[i], &id, err) < 0) {
            cJSON_Delete(config);
            return NULL;
        }
        if (!tokens || id < 0 || (uint64_t)id >= tokens->count) continue;
        const unsigned char *at = tokens->data;
        size_t length = 0;
        const char *token = "";
        for (int32_t k = 0; k <= id; k++) token = gguf_next(&at, &length);
        char *text = xstrndup(token, length);
        if (strlen(text) == length) cJSON_AddStringToObject(config, keys[i], text);
        free(text);
    }
    if (template) cJSON_AddStringToObject(config, "chat_template", template);
    return config;
}

// Adds the sampling parameters that the file recommends (llama.cpp's keys) under the keys of
// generation_config.json.
static int put_sampling(const struct gguf *f, cJSON *config, struct err *err)
{
    static const struct {
        const char *key, *name;
        bool whole;
    } keys[] = { { "temp", "temperature", false },
                 { "top_k", "top_k", true },
                 { "top_p", "top_p", false },
                 { "min_p", "min_p", false },
                 { "penalty_repeat", "repetition_penalty", false } };
    bool any = false;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char *key = xasprintf("general.sampling.%s", keys[i].key);
        int64_t whole = 0;
        double real = NAN;
        const int status = keys[i].whole ? gguf_int(f, key, 0, INT32_MAX, 0, &whole, err)
                                         : gguf_real(f, key, NAN, &real, err);
        free(key);
        if (status < 0) return -1;
        if (keys[i].whole ? whole != 0 : !isnan(real)) {
            cJSON_AddNumberToObject(config, keys[i].name, keys[i].whole ? (double)whole : real);
            any = true;
        }
    }
    if (any) cJSON_AddTrueToObject(config, "do_sample");
    return 0;
}

cJSON *gguf_generation_config(const struct gguf *f, size_t *named, struct err *err)
{
    static const char *const names[] = { "eos", "eot", "eom" };
    const struct gguf_entry *tokens, *types, *list = NULL, *barred = NULL;
    const bool all = names_all_ends(f);
    int32_t known[3] = { -1, -1, -1 };
    if (gguf_list(f, "tokenizer.ggml.tokens", true, TOKENS_MOST, &tokens, err) < 0) return NULL;
    const uint64_t count = tokens ? tokens->count : 0;
    int status = list_of_tokens(f, "tokenizer.ggml.token_type", count, &types, err);
    for (int i = 0; i < 3 && status == 0; i++) status = token_id(f, names[i], &known[i], err);
    if (status < 0 || gguf_list(f, ENDS_KEY, false, TOKENS_MOST, &list, err) < 0 ||
        gguf_list(f, "tokenizer.ggml.suppress_tokens", false, TOKENS_MOST, &barred, err) < 0)
        return NULL;
    struct ends ends = { .has = xcalloc((size_t)count, sizeof *ends.has), .tokens = count };
    // The file's own end token comes first: training uses the first one (core/data/labels.h).
    for (int i = 0; i < 3 && !all; i++) add_end(&ends, known[i]);
    for (uint64_t i = 0; list && i < list->count; i++) add_end(&ends, gguf_number(list, i));
    *named = ends.ids.count;
    if (tokens && !all) ends_by_text(tokens, types, &ends);
    cJSON *config = cJSON_CreateObject(), *json = cJSON_AddArrayToObject(config, "eos_token_id");
    for (size_t i = 0; i < ends.ids.count; i++)
        cJSON_AddItemToArray(json, cJSON_CreateNumber(ends.ids.data[i]));
    if (barred) config_put_list(config, "suppress_tokens", barred, barred->count);
    ids_release(&ends.ids);
    free(ends.has);
    if (put_sampling(f, config, err) == 0) return config;
    cJSON_Delete(config);
    return NULL;
}
