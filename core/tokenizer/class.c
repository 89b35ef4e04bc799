// core/tokenizer/class.c -- class behaviour ("tokenizer_class" in tokenizer_config.json) that only
// transformers' code defines.
//
// Where versions 4 and 5 of transformers differ, vlmsh follows version 4, with which most published
// models were made, and adds a notice.
#include <string.h>

#include "core/base/json.h"
#include "core/base/text.h"
#include "core/tokenizer/tokenizer_parts.h"

// Classes without CLASS_PIECES have no SentencePiece model, or renumber its pieces, or change the
// text before encoding it.
static const struct class_kind classes[] = {
    { "LlamaTokenizer", CLASS_PIECES | CLASS_AROUND | CLASS_BOS, { "<s>", "</s>", "<unk>" } },
    { "CodeLlamaTokenizer",
      CLASS_PIECES | CLASS_AROUND | CLASS_BOS | CLASS_INFILL,
      { "<s>", "</s>", "<unk>" } },
    { "GemmaTokenizer",
      CLASS_PIECES | CLASS_AROUND | CLASS_BOS,
      { "<bos>", "<eos>", "<unk>", "<pad>" } },
    { "CohereTokenizer",
      CLASS_AROUND | CLASS_BOS,
      { "<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>", "<UNK>" } },
    { "GPTNeoXTokenizer", CLASS_AROUND, { "<|endoftext|>", "<|endoftext|>", "<|endoftext|>" } },
    { "GPT2Tokenizer", 0, { "<|endoftext|>", "<|endoftext|>", "<|endoftext|>" } },
    { "Qwen2Tokenizer", 0, { NULL, "<|endoftext|>", "<|endoftext|>", "<|endoftext|>" } },
    { "T5Tokenizer", CLASS_PIECES | CLASS_EOS, { NULL, "</s>", "<unk>", "<pad>" } },
};

// Classes supported only with a tokenizer.json.
static const char *const json_classes[] = {
    "AlbertTokenizer",     "BarthezTokenizer",   "BigBirdTokenizer",
    "CamembertTokenizer",  "DebertaV2Tokenizer", "FNetTokenizer",
    "M2M100Tokenizer",     "MBart50Tokenizer",   "MBartTokenizer",
    "NllbTokenizer",       "PegasusTokenizer",   "PLBartTokenizer",
    "RemBertTokenizer",    "SiglipTokenizer",    "XGLMTokenizer",
    "XLMRobertaTokenizer", "XLNetTokenizer",     NULL,
};

static const char *const token_keys[CLASS_TOKENS] = { "bos_token", "eos_token", "unk_token",
                                                      "pad_token" };

const char *const companions_infill[] = { "prefix_token", "middle_token", "suffix_token",
                                          "eot_token", NULL };
static const char *const infill_texts[] = { "\u2581<PRE>", "\u2581<MID>", "\u2581<SUF>",
                                            "\u2581<EOT>" };

int companions_class(const cJSON *config, char name[CLASS_NAME_SIZE], struct err *err)
{
    // Generic class names, which imply no behaviour.
    static const char *const general[] = { "PreTrainedTokenizer", "PythonBackend",
                                           "TokenizersBackend", NULL };
    const char *text;
    if (json_text(config, "tokenizer_class", "", &text, err) < 0) return -1;
    size_t length = strlen(text);
    if (length > 4 && !strcmp(text + length - 4, "Fast")) length -= 4;
    if (length >= CLASS_NAME_SIZE)
        return err_set(err, "tokenizer_class \"%.40s...\" is not supported", text);
    memcpy(name, text, length);
    name[length] = 0;
    if (text_listed(general, name)) name[0] = 0;
    return 0;
}

const struct class_kind *companions_kind(const cJSON *config)
{
    struct err err;
    char name[CLASS_NAME_SIZE];
    if (companions_class(config, name, &err) < 0) return NULL;
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (!strcmp(name, classes[i].name)) return &classes[i];
    static const struct class_kind json_only = { 0 };
    return text_listed(json_classes, name) ? &json_only : NULL;
}

// True if tokenizer.json has the token, in its vocabulary or among its added tokens.
static bool has_token(const cJSON *json, const char *text)
{
    const cJSON *item, *vocab = json_get(json_get(json, "model"), "vocab");
    cJSON_ArrayForEach(item, json_get(json, "added_tokens"))
    {
        const cJSON *content = json_get(item, "content");
        if (cJSON_IsString(content) && !strcmp(content->valuestring, text)) return true;
    }
    return cJSON_IsObject(vocab) && json_get(vocab, text);
}

static bool fits(const struct companions *c, const cJSON *json)
{
    const struct class_kind *kind = companions_kind(c->config);
    for (int i = 0; json && kind && i < CLASS_TOKENS; i++)
        if (kind->tokens[i] && !cJSON_GetObjectItemCaseSensitive(c->config, token_keys[i]) &&
            !json_get(c->special, token_keys[i]) && !has_token(json, kind->tokens[i]))
            return false;
    return true;
}

// True if the config names tokenizer code of its own.
static bool own_code(const cJSON *config)
{
    return json_get(json_get(config, "auto_map"), "AutoTokenizer") != NULL;
}

void companions_infer(struct companions *c, const cJSON *model, const cJSON *json)
{
    static const struct {
        const char *model_type, *name;
    } classes_of[] = {
        { "llama", "LlamaTokenizer" },           { "mistral", "LlamaTokenizer" },
        { "llava", "LlamaTokenizer" },           { "llava_next", "LlamaTokenizer" },
        { "llava_onevision", "LlamaTokenizer" }, { "deepseek_v3", "LlamaTokenizer" },
        { "code_llama", "CodeLlamaTokenizer" },  { "qwen2", "Qwen2Tokenizer" },
        { "qwen2_vl", "Qwen2Tokenizer" },        { "qwen2_5_vl", "Qwen2Tokenizer" },
        { "qwen3", "Qwen2Tokenizer" },           { "internvl", "Qwen2Tokenizer" },
    };
    const cJSON *type = json_get(model, "model_type"), *named = json_get(model, "tokenizer_class");
    const char *name = cJSON_IsString(named) ? named->valuestring : NULL;
    if (json_get(c->config, "tokenizer_class") || own_code(c->config) || own_code(model)) return;
    for (size_t i = 0; !name && i < sizeof classes_of / sizeof *classes_of; i++)
        if (cJSON_IsString(type) && !strcmp(type->valuestring, classes_of[i].model_type))
            name = classes_of[i].name;
    if (!name) return;
    if (!c->config) c->config = cJSON_CreateObject();
    cJSON_DeleteItemFromObjectCaseSensitive(c->config, "tokenizer_class"); // a null value, if any
    cJSON_AddStringToObject(c->config, "tokenizer_class", name);
    if (!fits(c, json)) cJSON_DeleteItemFromObjectCaseSensitive(c->config, "tokenizer_class");
}

void companions_defaults(cJSON *config)
{
    const struct class_kind *kind = companions_kind(config);
    for (int i = 0; kind && kind->flags & CLASS_INFILL && companions_infill[i]; i++)
        if (!cJSON_GetObjectItemCaseSensitive(config, companions_infill[i])) // null: none
            cJSON_AddStringToObject(config, companions_infill[i], infill_texts[i]);
    for (int i = 0; kind && i < CLASS_TOKENS; i++)
        if (kind->tokens[i] &&
            !cJSON_GetObjectItemCaseSensitive(config, token_keys[i])) // null: none
            cJSON_AddStringToObject(config, token_keys[i], kind->tokens[i]);
}

int companions_flag(const cJSON *config, const char *key, bool otherwise, bool *flag,
                    struct err *err)
{
    if (cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(config, key))) otherwise = false;
    return json_bool(config, key, otherwise, flag, err) < 0 ? err_in(err, "tokenizer_config.json")
                                                            : 0;
}

// --- beside a tokenizer's own file -------------------------------------------------------------

// True if the config sets the flag to the opposite of `is`.
static bool differs(const cJSON *config, const char *key, bool is)
{
    const cJSON *flag = json_get(config, key);
    return cJSON_IsBool(flag) && cJSON_IsTrue(flag) != is;
}

static void put_words(struct buf *b, const struct tokenizer *t, const struct ids *ids,
                      const char *where)
{
    buf_puts(b, ids->count ? "" : "nothing");
    for (size_t i = 0; i < ids->count; i++)
        buf_printf(b, "%s%.40s", i ? " " : "", tokenizer_token(t, ids->data[i]));
    buf_printf(b, " %s", where);
}

// Adds the token that `key` names if `flag` is true. Returns 1; 0 if `key` names no token of the
// tokenizer; -1 on error.
static int ids_around(struct tokenizer *t, const struct companions *c, const char *flag,
                      bool otherwise, const char *key, struct ids *ids, struct err *err)
{
    bool asked;
    if (companions_flag(c->config, flag, otherwise, &asked, err) < 0) return -1;
    if (!asked) return 1;
    const char *text = companions_token(c, key);
    const int32_t id = text ? tokenizer_id(t, text) : -1;
    if (id < 0) {
        tokenizer_add_notice(t,
                             "%s is true, but no %s is named: tokenizer.json decides about BOS and "
                             "EOS, as in transformers 5 (4 refuses such files)",
                             flag, key);
        return 0;
    }
    ids_add(ids, id);
    return 1;
}

// A class that adds BOS and EOS itself replaces the post-processor.
static int put_around(struct tokenizer *t, const struct companions *c,
                      const struct class_kind *kind, struct err *err)
{
    struct ids before = { 0 }, after = { 0 };
    struct buf here = { 0 }, there = { 0 };
    int status =
        ids_around(t, c, "add_bos_token", kind->flags & CLASS_BOS, "bos_token", &before, err);
    if (status > 0)
        status =
            ids_around(t, c, "add_eos_token", kind->flags & CLASS_EOS, "eos_token", &after, err);
    if (status > 0 && !(ids_same(&before, &t->before) && ids_same(&after, &t->after))) {
        put_words(&here, t, &before, "before, ");
        put_words(&here, t, &after, "after");
        put_words(&there, t, &t->before, "before, ");
        put_words(&there, t, &t->after, "after");
        tokenizer_add_notice(
            t,
            "tokenizer_config.json and tokenizer.json add different BOS and EOS tokens: %s is "
            "used, as transformers 4 does for %s (add_bos_token, add_eos_token); 5 uses %s",
            here.data, kind->name, there.data);
        const struct ids former[2] = { t->before, t->after };
        t->before = before;
        t->after = after;
        before = former[0];
        after = former[1];
    }
    ids_release(&before);
    ids_release(&after);
    buf_release(&here);
    buf_release(&there);
    return status < 0 ? -1 : 0;
}

// True if the tokenizer adds a space before a text. `always`: before every text between special
// tokens.
static bool has_prefix(const struct tokenizer *t, bool always)
{
    for (int i = 0; i < t->normal_count; i++)
        if (t->normals[i].kind == NORMAL_PREPEND) return true;
    for (int i = 0; i < t->split_count; i++) {
        const struct split *s = &t->splits[i];
        if (s->kind == SPLIT_PREFIX && !always) return true;
        if (s->kind == SPLIT_METASPACE && s->prepend >= (always ? PREPEND_ALWAYS : PREPEND_FIRST))
            return true;
    }
    return false;
}

int companions_apply(struct tokenizer *t, const struct companions *c, struct err *err)
{
    const struct class_kind *kind = companions_kind(c->config);
    const bool around = kind && kind->flags & CLASS_AROUND;
    struct buf unused = { 0 };
    if (around && put_around(t, c, kind, err) < 0) return -1;
    if (!around && differs(c->config, "add_bos_token", t->before.count > 0))
        list_put(&unused, "add_bos_token");
    if (!around && differs(c->config, "add_eos_token", t->after.count > 0))
        list_put(&unused, "add_eos_token");
    // Version 5 of transformers may apply add_prefix_space.
    if (kind && differs(c->config, "add_prefix_space", has_prefix(t, false)))
        list_put(&unused, "add_prefix_space");
    if (differs(c->config, "split_special_tokens", false))
        list_put(&unused, "split_special_tokens");
    if (unused.length)
        tokenizer_add_notice(t,
                             "ignored in tokenizer_config.json, because the tokenizer's own file "
                             "or class decides: %s",
                             unused.data);
    buf_release(&unused);
    // A tokenizer.model would yield different ids: it adds a space to no text, or only to the first
    // one.
    const cJSON *prefix = json_get(c->config, "add_prefix_space");
    const bool once = cJSON_IsFalse(json_get(c->config, "legacy"));
    if (c->pieces && around && kind->flags & CLASS_PIECES && cJSON_IsBool(prefix) &&
        (cJSON_IsTrue(prefix) != has_prefix(t, false) || (once && has_prefix(t, true))))
        tokenizer_add_notice(
            t, "add_prefix_space makes transformers 4 read tokenizer.model with "
               "tokenizer_config.json's \"legacy\"; here tokenizer.json is used, as in 5");
    return 0;
}

// Overrides add_prefix_space of a ByteLevel outside a Sequence, as transformers 4 does.
bool companions_prefix(cJSON *json, const struct companions *c)
{
    cJSON *split = cJSON_GetObjectItemCaseSensitive(json, "pre_tokenizer");
    const cJSON *type = json_get(split, "type"), *own = json_get(split, "add_prefix_space");
    const cJSON *said = cJSON_GetObjectItemCaseSensitive(c->config, "add_prefix_space");
    const bool wanted = cJSON_IsTrue(said);
    if (!cJSON_IsString(type) || strcmp(type->valuestring, "ByteLevel") != 0) return false;
    if (!cJSON_IsBool(own) || cJSON_IsTrue(own) == wanted) return false;
    if (said && !cJSON_IsBool(said)) return false;
    cJSON_ReplaceItemInObjectCaseSensitive(split, "add_prefix_space", cJSON_CreateBool(wanted));
    return true;
}
