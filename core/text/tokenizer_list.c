// core/text/tokenizer_list.c -- a list of tokens, as GGUF files hold it -> struct tokenizer.
//
// Byte-level BPE: a tokenizer.json is put together and read as one. What is not in the list is in a
// table by the name of its pre-tokenizer: how words are cut. (Names and patterns are those of
// llama.cpp's src/llama-vocab.cpp; where its models' own tokenizer.json says more, it is followed.)
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/text/tokenizer_parts.h"

#define GPT2_WORDS \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"

enum { CUTS_MOST = 4 };

static const struct pre_kind {
    const char *names; // separated by spaces
    const char *normalizer;
    const char *cut[CUTS_MOST + 1]; // one after another
    bool whole;                     // a word that is a token is that token, whatever the merges
    bool begins;                    // with BOS, unless the file says otherwise
} pre_kinds[] = {
    { .names = "default",
      .cut = { "[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2_WORDS, "\\p{N}+", "[0-9][0-9][0-9]" } },
    { .names = "gpt-2 phi-2 olmo mpt jais trillion granite-docling", .cut = { GPT2_WORDS } },
    { .names = "llama-bpe llama3 llama-v3 falcon3 falcon-h1 lfm2 pixtral midm-2.0",
      .cut = { WORDS_LLAMA3 },
      .whole = true,
      .begins = true },
    { .names = "glm4 chatglm-bpe dbrx smaug-bpe", .cut = { WORDS_LLAMA3 } },
    { .names = "qwen2 deepseek-r1-qwen", .normalizer = "NFC", .cut = { WORDS_QWEN2 } },
    { .names = "smollm starcoder refact command-r codeshell exaone minerva-7b",
      .cut = { "\\p{N}", GPT2_WORDS } },
    { .names = "tekken",
      .cut = { WORDS_CASED(UPPER, LOWER, "", "\\p{N}", "[\\r\\n/]*") },
      .whole = true,
      .begins = true },
    { .names = "gpt-4o llama4",
      .cut = { WORDS_CASED(UPPER, LOWER, WORDS_SUFFIX "?", "\\p{N}{1,3}", "[\\r\\n/]*") },
      .whole = true },
    { .names = "deepseek-v3 hunyuan-dense",
      .cut = { "\\p{N}{1,3}", "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+",
               "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|"
               "[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*" //
               WORDS_SPACES } },
    { .names = "kimi-k2", .cut = { WORDS_KIMI }, .whole = true },
};

enum { PRE_KINDS = sizeof pre_kinds / sizeof *pre_kinds };

static bool has_word(const char *words, const char *word)
{
    const size_t n = strlen(word);
    for (const char *p = words; n && (p = strstr(p, word)); p += n)
        if ((p == words || p[-1] == ' ') && (p[n] == ' ' || !p[n])) return true;
    return false;
}

static const struct pre_kind *find_pre(const char *name, struct err *err)
{
    struct buf known = { 0 };
    for (int i = 0; i < PRE_KINDS; i++) {
        if (has_word(pre_kinds[i].names, name ? name : "default")) {
            buf_release(&known);
            return &pre_kinds[i];
        }
        buf_printf(&known, "%s%s", i ? " " : "", pre_kinds[i].names);
    }
    err_set(err, "pre-tokenizer '%.40s' is not supported (known: %s)", name, known.data);
    buf_release(&known);
    return NULL;
}

bool tokenizer_list_pre(int i, char name[TOKEN_PRE_ROOM])
{
    if (i >= PRE_KINDS) return false;
    const char *names = pre_kinds[i].names;
    snprintf(name, TOKEN_PRE_ROOM, "%.*s", (int)strcspn(names, " "), names);
    return true;
}

bool tokenizer_list_begins(const char *model, const char *pre)
{
    struct err err;
    if (model && !strcmp(model, "llama")) return true;
    const struct pre_kind *kind = find_pre(pre, &err);
    return kind && kind->begins;
}

// --- tokenizer.json ------------------------------------------------------------------------------

static cJSON *stage(const char *type)
{
    cJSON *s = cJSON_CreateObject();
    cJSON_AddStringToObject(s, "type", type);
    return s;
}

static cJSON *byte_level(void)
{
    cJSON *s = stage("ByteLevel");
    cJSON_AddBoolToObject(s, "add_prefix_space", false);
    cJSON_AddBoolToObject(s, "trim_offsets", true);
    cJSON_AddBoolToObject(s, "use_regex", false);
    return s;
}

static cJSON *pre_tokenizer(const struct pre_kind *kind)
{
    cJSON *all = stage("Sequence"), *list = cJSON_AddArrayToObject(all, "pretokenizers");
    for (int i = 0; kind->cut[i]; i++) {
        cJSON *split = stage("Split");
        cJSON_AddStringToObject(cJSON_AddObjectToObject(split, "pattern"), "Regex", kind->cut[i]);
        cJSON_AddStringToObject(split, "behavior", "Isolated");
        cJSON_AddBoolToObject(split, "invert", false);
        cJSON_AddItemToArray(list, split);
    }
    cJSON_AddItemToArray(list, byte_level());
    return all;
}

static void add_piece(cJSON *single, cJSON *tokens, const char *name, int32_t id)
{
    cJSON *piece = cJSON_CreateObject();
    cJSON_AddStringToObject(cJSON_AddObjectToObject(piece, "SpecialToken"), "id", name);
    cJSON_AddItemToArray(single, piece);
    cJSON *ids = cJSON_AddArrayToObject(cJSON_AddObjectToObject(tokens, name), "ids");
    cJSON_AddItemToArray(ids, cJSON_CreateNumber(id));
}

// NULL: nothing is put around a text.
static cJSON *post_processor(const struct token_list *l)
{
    const bool bos = l->add_bos && l->bos >= 0, eos = l->add_eos && l->eos >= 0;
    if (!bos && !eos) return NULL;
    cJSON *post = stage("TemplateProcessing"), *single = cJSON_AddArrayToObject(post, "single");
    cJSON *tokens = cJSON_AddObjectToObject(post, "special_tokens"), *text = cJSON_CreateObject();
    if (bos) add_piece(single, tokens, "bos", l->bos);
    cJSON_AddStringToObject(cJSON_AddObjectToObject(text, "Sequence"), "id", "A");
    cJSON_AddItemToArray(single, text);
    if (eos) add_piece(single, tokens, "eos", l->eos);
    return post;
}

cJSON *tokenizer_added_token(int32_t id, const char *text, bool special)
{
    cJSON *token = cJSON_CreateObject();
    cJSON_AddNumberToObject(token, "id", id);
    cJSON_AddStringToObject(token, "content", text);
    cJSON_AddBoolToObject(token, "single_word", false);
    cJSON_AddBoolToObject(token, "lstrip", false);
    cJSON_AddBoolToObject(token, "rstrip", false);
    cJSON_AddBoolToObject(token, "normalized", false);
    cJSON_AddBoolToObject(token, "special", special);
    return token;
}

// Tokens into the vocabulary or the added tokens, with `both` into both; unused ones only fill ids.
static int put_tokens(const struct token_list *l, bool both, cJSON *vocab, cJSON *added,
                      struct err *err)
{
    for (size_t i = 0; i < l->count; i++) {
        const struct token_text *t = &l->tokens[i];
        const int type = l->types[i];
        if (type < TOKEN_TYPE_NORMAL || type > TOKEN_TYPE_BYTE)
            return err_set(err, "token %zu has the type %d, which is not known", i, type);
        if (memchr(t->text, 0, t->length)) return err_set(err, "token %zu contains a zero byte", i);
        if (type == TOKEN_TYPE_UNUSED || !t->length) continue;
        char *text = xstrndup(t->text, t->length);
        const bool special = type == TOKEN_TYPE_CONTROL || type == TOKEN_TYPE_UNKNOWN;
        const bool is_added = special || type == TOKEN_TYPE_USER;
        if (is_added) cJSON_AddItemToArray(added, tokenizer_added_token((int32_t)i, text, special));
        if (!is_added || both) cJSON_AddNumberToObject(vocab, text, (double)i);
        free(text);
    }
    return 0;
}

static void put_merges(const struct token_list *l, cJSON *merges)
{
    for (size_t i = 0; i < l->merge_count; i++) {
        char *text = xstrndup(l->merges[i].text, l->merges[i].length);
        cJSON_AddItemToArray(merges, cJSON_CreateString(text));
        free(text);
    }
}

static cJSON *json_of(const struct token_list *l, bool both, struct err *err)
{
    const struct pre_kind *kind = find_pre(l->pre, err);
    if (!kind) return NULL;
    cJSON *json = cJSON_CreateObject(), *added = cJSON_AddArrayToObject(json, "added_tokens");
    if (kind->normalizer) cJSON_AddItemToObject(json, "normalizer", stage(kind->normalizer));
    cJSON_AddItemToObject(json, "pre_tokenizer", pre_tokenizer(kind));
    cJSON *post = post_processor(l), *model = cJSON_AddObjectToObject(json, "model");
    if (post) cJSON_AddItemToObject(json, "post_processor", post);
    cJSON_AddItemToObject(json, "decoder", byte_level());
    cJSON_AddStringToObject(model, "type", "BPE");
    cJSON_AddBoolToObject(model, "ignore_merges", kind->whole);
    cJSON *vocab = cJSON_AddObjectToObject(model, "vocab");
    put_merges(l, cJSON_AddArrayToObject(model, "merges"));
    if (put_tokens(l, both, vocab, added, err) == 0) return json;
    cJSON_Delete(json);
    return NULL;
}

static cJSON *replace(const char *kind, const char *pattern, const char *content)
{
    cJSON *r = stage("Replace");
    cJSON_AddStringToObject(cJSON_AddObjectToObject(r, "pattern"), kind, pattern);
    cJSON_AddStringToObject(r, "content", content);
    return r;
}

// SentencePiece's spaces: U+2581 stands for one.
static void put_spaces(const struct token_list *l, cJSON *json)
{
    static const char mark[] = "\xE2\x96\x81";
    cJSON *before = stage("Sequence"), *normalizers = cJSON_AddArrayToObject(before, "normalizers");
    cJSON *after = stage("Sequence"), *decoders = cJSON_AddArrayToObject(after, "decoders");
    cJSON *prepend = stage("Prepend"), *strip = stage("Strip");
    cJSON_AddStringToObject(prepend, "prepend", mark);
    cJSON_AddStringToObject(strip, "content", " ");
    cJSON_AddNumberToObject(strip, "start", 1);
    cJSON_AddNumberToObject(strip, "stop", 0);
    if (l->squeeze) cJSON_AddItemToArray(normalizers, replace("Regex", " {2,}", " "));
    if (l->prefix) cJSON_AddItemToArray(normalizers, prepend);
    cJSON_AddItemToArray(normalizers, replace("String", " ", mark));
    cJSON_AddItemToArray(decoders, replace("String", mark, " "));
    cJSON_AddItemToArray(decoders, stage("ByteFallback"));
    cJSON_AddItemToArray(decoders, stage("Fuse"));
    if (l->prefix) cJSON_AddItemToArray(decoders, strip);
    if (!l->prefix) cJSON_Delete(prepend), cJSON_Delete(strip);
    cJSON_AddItemToObject(json, "normalizer", before);
    cJSON_AddItemToObject(json, "decoder", after);
}

static cJSON *json_of_pieces(const struct token_list *l, struct err *err)
{
    cJSON *json = cJSON_CreateObject(), *added = cJSON_AddArrayToObject(json, "added_tokens");
    cJSON *post = post_processor(l), *model = cJSON_AddObjectToObject(json, "model");
    if (post) cJSON_AddItemToObject(json, "post_processor", post);
    put_spaces(l, json);
    cJSON_AddStringToObject(model, "type", "BPE");
    cJSON_AddBoolToObject(model, "fuse_unk", true);
    cJSON_AddBoolToObject(model, "byte_fallback", true);
    for (size_t i = 0; i < l->count; i++)
        if (l->types[i] == TOKEN_TYPE_UNKNOWN) {
            char *text = xstrndup(l->tokens[i].text, l->tokens[i].length);
            cJSON_AddStringToObject(model, "unk_token", text);
            free(text);
            break;
        }
    cJSON *vocab = cJSON_AddObjectToObject(model, "vocab");
    put_merges(l, cJSON_AddArrayToObject(model, "merges"));
    if (put_tokens(l, true, vocab, added, err) == 0) return json;
    cJSON_Delete(json);
    return NULL;
}

char *tokenizer_list_json(const struct token_list *l, struct err *err)
{
    cJSON *json = !strcmp(l->model, "llama") ? json_of_pieces(l, err) : json_of(l, true, err);
    char *text = json ? cJSON_PrintUnformatted(json) : NULL;
    cJSON_Delete(json);
    return text;
}

struct tokenizer *tokenizer_from_list(const struct token_list *l, const char *name, struct err *err)
{
    if (l->model && !strcmp(l->model, "llama")) return tokenizer_list_pieces(l, name, err);
    if (!l->model || strcmp(l->model, "gpt2") != 0) {
        err_set(err, "tokenizer '%s': model '%.40s' is not supported (known: gpt2, llama)", name,
                l->model ? l->model : "");
        return NULL;
    }
    cJSON *json = json_of(l, false, err);
    struct tokenizer *t = json ? tokenizer_from_json(json, name, err) : NULL;
    if (!json) err_in(err, "tokenizer '%s'", name);
    cJSON_Delete(json);
    return t;
}
