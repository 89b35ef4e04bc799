// core/tokenizer/list.c -- a list of tokens (of a GGUF file), vocab.json and merges.txt, or a
// tiktoken.model -> struct tokenizer.
//
// Byte-level BPE and Gemma 4's lists are converted to a tokenizer.json and read as one; pieces.c
// reads other lists of SentencePiece's BPE. The formats of byte-level BPE lack word patterns;
// tables supply them for the list's pre-tokenizer or the tokenizer's class. (Names and patterns of
// lists follow llama.cpp's src/llama-vocab.cpp, or a model's tokenizer.json if it is more precise.)
// A tiktoken.model has no merges: encoding merges the pair whose result has the lowest rank, so
// every split of a token into two is a merge.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base64.h"
#include "core/base/items.h"
#include "core/base/json.h"
#include "core/tokenizer/tokenizer_parts.h"

#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"

enum { CUTS_MOST = 4 };

static const struct pre_kind {
    const char *names; // separated by spaces
    const char *normalizer;
    const char *cut[CUTS_MOST + 1]; // applied in turn; none: GPT-2's
    bool whole;                     // a word in the vocabulary is one token, whatever the merges
    bool begins;                    // a text starts with BOS unless the file says otherwise
} pre_kinds[] = {
    { .names = "default",
      .cut = { "[\\p{P}\\$\\+<=>\\^~\\|]+", WORDS_GPT2, "\\p{N}+", "[0-9][0-9][0-9]" } },
    { .names = "gpt-2 phi-2 olmo mpt jais trillion granite-docling", .cut = { WORDS_GPT2 } },
    { .names = "llama-bpe llama3 llama-v3 falcon3 falcon-h1 lfm2 pixtral midm-2.0",
      .cut = { WORDS_LLAMA3 },
      .whole = true,
      .begins = true },
    { .names = "glm4 chatglm-bpe dbrx smaug-bpe", .cut = { WORDS_LLAMA3 } },
    { .names = "qwen2 deepseek-r1-qwen", .normalizer = "NFC", .cut = { WORDS_QWEN2 } },
    { .names = "qwen35",
      .normalizer = "NFC",
      .cut = { WORDS_SUFFIX "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}|"
                            " ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" WORDS_SPACES } },
    { .names = "smollm starcoder refact command-r codeshell exaone minerva-7b",
      .cut = { "\\p{N}", WORDS_GPT2 } },
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

static const struct pre_kind *find_pre(const char *name, struct err *err)
{
    struct buf known = { 0 };
    for (int i = 0; i < PRE_KINDS; i++) {
        if (items_has(pre_kinds[i].names, name ? name : "default", " ")) {
            buf_release(&known);
            return &pre_kinds[i];
        }
        buf_printf(&known, "%s%s", i ? " " : "", pre_kinds[i].names);
    }
    err_set(err, "pre-tokenizer '%.40s' is not supported (known: %s)", name, known.data);
    buf_release(&known);
    return NULL;
}

bool tokenizer_list_pre(int i, char name[TOKEN_PRE_SIZE])
{
    if (i >= PRE_KINDS) return false;
    const char *names = pre_kinds[i].names;
    snprintf(name, TOKEN_PRE_SIZE, "%.*s", (int)strcspn(names, " "), names);
    return true;
}

static bool is_gemma4(const char *model)
{
    return model && !strcmp(model, "gemma4");
}

bool text_repeats(const struct token_text *t, const char *text)
{
    const size_t n = strlen(text);
    size_t at = 0;
    while (at + n <= t->length && !memcmp(t->text + at, text, n)) at += n;
    return t->length && at == t->length;
}

bool tokenizer_list_begins(const char *model, const char *pre)
{
    struct err err;
    if (model && (!strcmp(model, "llama") || is_gemma4(model))) return true;
    const struct pre_kind *kind = find_pre(pre, &err);
    return kind && kind->begins;
}

// --- tokenizer.json ------------------------------------------------------------------------------

// Parses JSON written with ' instead of ".
__attribute__((format(printf, 1, 2))) static cJSON *json_made(const char *format, ...)
{
    struct buf b = { 0 };
    va_list args;
    va_start(args, format);
    buf_vprintf(&b, format, args);
    va_end(args);
    for (size_t i = 0; i < b.length; i++)
        if (b.data[i] == '\'') b.data[i] = '"';
    cJSON *json = cJSON_Parse(b.data);
    if (!json) BUG("%s", b.data);
    buf_release(&b);
    return json;
}

static cJSON *byte_level(bool prefix, bool words)
{
    return json_made("{'type':'ByteLevel','add_prefix_space':%s,'trim_offsets':true,"
                     "'use_regex':%s}",
                     prefix ? "true" : "false", words ? "true" : "false");
}

// Builds the tokenizer.json of byte-level BPE without vocabulary, merges and added tokens.
// `prefix`: adds a space before a text; `post`: the post-processor or NULL.
static cJSON *bytes_json(const struct pre_kind *kind, bool prefix, cJSON *post)
{
    cJSON *json = json_made("{'added_tokens':[]}"), *list = cJSON_CreateArray();
    if (kind->normalizer)
        cJSON_AddItemToObject(json, "normalizer", json_made("{'type':'%s'}", kind->normalizer));
    for (int i = 0; kind->cut[i]; i++) {
        cJSON *split =
            json_made("{'type':'Split','pattern':{},'behavior':'Isolated','invert':false}");
        cJSON_AddStringToObject(cJSON_GetObjectItem(split, "pattern"), "Regex", kind->cut[i]);
        cJSON_AddItemToArray(list, split);
    }
    cJSON_AddItemToArray(list, byte_level(prefix, !kind->cut[0]));
    cJSON *all = json_made("{'type':'Sequence'}");
    cJSON_AddItemToObject(all, "pretokenizers", list);
    cJSON_AddItemToObject(json, "pre_tokenizer", all);
    cJSON_AddItemToObject(
        json, "model",
        json_made("{'type':'BPE','ignore_merges':%s}", kind->whole ? "true" : "false"));
    if (post) cJSON_AddItemToObject(json, "post_processor", post);
    cJSON_AddItemToObject(json, "decoder", byte_level(false, false));
    return json;
}

// Returns NULL if no tokens are added around a text.
static cJSON *post_processor(const struct token_list *l)
{
    const bool bos = l->add_bos && l->bos >= 0, eos = l->add_eos && l->eos >= 0;
    struct buf ids = { 0 };
    if (!bos && !eos) return NULL;
    if (bos) buf_printf(&ids, "'bos':{'ids':[%d]}", l->bos);
    if (eos) buf_printf(&ids, "%s'eos':{'ids':[%d]}", bos ? "," : "", l->eos);
    cJSON *post = json_made("{'type':'TemplateProcessing',"
                            "'single':[%s{'Sequence':{'id':'A'}}%s],'special_tokens':{%s}}",
                            bos ? "{'SpecialToken':{'id':'bos'}}," : "",
                            eos ? ",{'SpecialToken':{'id':'eos'}}" : "", ids.data);
    buf_release(&ids);
    return post;
}

cJSON *tokenizer_added_token(int32_t id, const char *text, bool special)
{
    cJSON *token = json_made("{'id':%d}", id);
    cJSON_AddStringToObject(token, "content", text);
    cJSON_AddBoolToObject(token, "single_word", false);
    cJSON_AddBoolToObject(token, "lstrip", false);
    cJSON_AddBoolToObject(token, "rstrip", false);
    cJSON_AddBoolToObject(token, "normalized", false);
    cJSON_AddBoolToObject(token, "special", special);
    return token;
}

enum { ADDED_MOST = 1 << 18 }; // added tokens, each of which takes a kilobyte of memory

static bool is_special(int type)
{
    return type == TOKEN_TYPE_CONTROL || type == TOKEN_TYPE_UNKNOWN;
}

static int check_added(const struct token_list *l, struct err *err)
{
    size_t added = 0;
    for (size_t i = 0; i < l->count; i++)
        added += is_special(l->types[i]) || l->types[i] == TOKEN_TYPE_USER;
    if (added <= ADDED_MOST) return 0;
    return err_set(err, "%zu tokens are special or user-defined; at most %d are supported", added,
                   ADDED_MOST);
}

// Adds all tokens but unused and empty ones to the vocabulary or the added tokens (`both`: added
// tokens to both), then the merges. Returns the tokenizer.json, NULL on error.
static cJSON *put_tokens(cJSON *json, const struct token_list *l, bool both, struct err *err)
{
    cJSON *model = cJSON_GetObjectItemCaseSensitive(json, "model");
    cJSON *added = cJSON_GetObjectItemCaseSensitive(json, "added_tokens");
    cJSON *vocab = cJSON_AddObjectToObject(model, "vocab");
    cJSON *merges = cJSON_AddArrayToObject(model, "merges");
    for (size_t i = 0; i < l->merge_count; i++) {
        char *text = xstrndup(l->merges[i].text, l->merges[i].length);
        cJSON_AddItemToArray(merges, cJSON_CreateString(text));
        free(text);
    }
    for (size_t i = 0; i < l->count; i++) {
        const struct token_text *t = &l->tokens[i];
        const int type = l->types[i];
        const bool known = type >= TOKEN_TYPE_NORMAL && type <= TOKEN_TYPE_BYTE;
        if (!known || memchr(t->text, 0, t->length)) {
            if (!known)
                err_set(err, "token %zu has the unknown type %d", i, type);
            else
                err_set(err, "token %zu contains a zero byte", i);
            cJSON_Delete(json);
            return NULL;
        }
        if (type == TOKEN_TYPE_UNUSED || !t->length) continue;
        char *text = xstrndup(t->text, t->length);
        const bool special = is_special(type);
        const bool is_added = special || type == TOKEN_TYPE_USER;
        if (is_added) cJSON_AddItemToArray(added, tokenizer_added_token((int32_t)i, text, special));
        if (!is_added || both) cJSON_AddNumberToObject(vocab, text, (double)i);
        free(text);
    }
    return json;
}

static cJSON *json_of(const struct token_list *l, bool both, struct err *err)
{
    const struct pre_kind *kind = find_pre(l->pre, err);
    return kind ? put_tokens(bytes_json(kind, false, post_processor(l)), l, both, err) : NULL;
}

// Builds the tokenizer.json of SentencePiece's BPE, which writes a space as U+2581.
static cJSON *json_of_pieces(const struct token_list *l, struct err *err)
{
    cJSON *json = json_made(
        "{'added_tokens':[],'model':{'type':'BPE','fuse_unk':true,'byte_fallback':true}}");
    cJSON *post = post_processor(l), *model = cJSON_GetObjectItem(json, "model");
    if (post) cJSON_AddItemToObject(json, "post_processor", post);
    cJSON_AddItemToObject(
        json, "normalizer",
        json_made("{'type':'Sequence','normalizers':[%s%s"
                  "{'type':'Replace','pattern':{'String':' '},'content':'\u2581'}]}",
                  l->squeeze ? "{'type':'Replace','pattern':{'Regex':' {2,}'},'content':' '}," : "",
                  l->prefix ? "{'type':'Prepend','prepend':'\u2581'}," : ""));
    cJSON_AddItemToObject(
        json, "decoder",
        json_made("{'type':'Sequence','decoders':["
                  "{'type':'Replace','pattern':{'String':'\u2581'},'content':' '},"
                  "{'type':'ByteFallback'},{'type':'Fuse'}%s]}",
                  l->prefix ? ",{'type':'Strip','content':' ','start':1,'stop':0}" : ""));
    for (size_t i = 0; i < l->count; i++)
        if (l->types[i] == TOKEN_TYPE_UNKNOWN) {
            char *text = xstrndup(l->tokens[i].text, l->tokens[i].length);
            cJSON_AddStringToObject(model, "unk_token", text);
            free(text);
            break;
        }
    return put_tokens(json, l, true, err);
}

// Gemma 4's lists mark runs of newlines as ordinary tokens, but a text's run of newlines is one
// token if the list has it, whatever the merges.
static cJSON *json_of_gemma4(const struct token_list *l, struct err *err)
{
    struct token_list marked = *l;
    uint8_t *types = xcalloc(l->count + 1, 1);
    for (size_t i = 0; i < l->count; i++) {
        const bool run = l->types[i] == TOKEN_TYPE_NORMAL && text_repeats(&l->tokens[i], "\n");
        types[i] = run ? TOKEN_TYPE_USER : l->types[i];
    }
    marked.types = types;
    marked.prefix = marked.squeeze = false;
    cJSON *json = json_of_pieces(&marked, err);
    free(types);
    return json;
}

char *tokenizer_list_json(const struct token_list *l, struct err *err)
{
    cJSON *json = is_gemma4(l->model)          ? json_of_gemma4(l, err)
                  : !strcmp(l->model, "llama") ? json_of_pieces(l, err)
                                               : json_of(l, true, err);
    char *text = json ? cJSON_PrintUnformatted(json) : NULL;
    cJSON_Delete(json);
    return text;
}

struct tokenizer *tokenizer_from_list(const struct token_list *l, const char *name, struct err *err)
{
    if (l->model && !strcmp(l->model, "llama")) return tokenizer_list_pieces(l, name, err);
    const bool gemma4 = is_gemma4(l->model);
    if (!l->model || (!gemma4 && strcmp(l->model, "gpt2") != 0)) {
        err_set(err, "tokenizer '%s': model '%.40s' is not supported (known: gpt2, llama, gemma4)",
                name, l->model ? l->model : "");
        return NULL;
    }
    cJSON *json = check_added(l, err) < 0 ? NULL
                  : gemma4                ? json_of_gemma4(l, err)
                                          : json_of(l, false, err);
    struct tokenizer *t =
        json ? tokenizer_from_json(json, false, name, err) : tokenizer_done(NULL, -1, name, err);
    cJSON_Delete(json);
    return t;
}

// --- vocab.json and merges.txt, tiktoken.model ---------------------------------------------------

// Iterates over the non-empty lines of a text, without newlines.
struct lines {
    const char *next, *end;
    const char *line;
    size_t length, number; // of the line; the first is 1
};

static bool lines_next(struct lines *l)
{
    while (l->next < l->end) {
        l->line = l->next;
        l->number++;
        const char *stop = memchr(l->line, '\n', (size_t)(l->end - l->line));
        l->next = stop ? stop + 1 : l->end;
        if (!stop) stop = l->end;
        if (stop > l->line && stop[-1] == '\r') stop--;
        l->length = (size_t)(stop - l->line);
        if (l->length) return true;
    }
    return false;
}

// Returns the row (of two) for the class `name` of tokenizer_config.json; NULL with an error that
// names `what`, the files.
static const struct pre_kind *find_class(const struct pre_kind *rows, const char *name,
                                         const char *what, struct err *err)
{
    for (int i = 0; i < 2; i++)
        if (!strcmp(name, rows[i].names)) return &rows[i];
    err_set(err, "tokenizer_class \"%s\" is not supported for %s, only %s and %s", name, what,
            rows[0].names, rows[1].names);
    return NULL;
}

struct tokenizer *tokenizer_parse_merges(cJSON *vocab, const char *merges, size_t size,
                                         const struct companions *c, const char *name,
                                         struct err *err)
{
    static const struct pre_kind rows[] = {
        { .names = "Qwen2Tokenizer", .normalizer = "NFC", .cut = { WORDS_QWEN2 } },
        { .names = "GPT2Tokenizer" },
    };
    char class[CLASS_NAME_SIZE];
    const struct pre_kind *kind = companions_class(c->config, class, err) < 0
                                      ? NULL
                                      : find_class(rows, class, "vocab.json and merges.txt", err);
    if (!kind) return tokenizer_done(NULL, -1, name, err);
    cJSON *json = bytes_json(kind, cJSON_IsTrue(json_get(c->config, "add_prefix_space")), NULL);
    cJSON *model = cJSON_GetObjectItemCaseSensitive(json, "model");
    cJSON_AddItemReferenceToObject(model, "vocab", vocab);
    cJSON *list = cJSON_AddArrayToObject(model, "merges");
    // Each line has two tokens, but the first line may be the version.
    for (struct lines l = { .next = merges, .end = merges + size }; lines_next(&l);) {
        if (l.number == 1 && l.length > 8 && !memcmp(l.line, "#version", 8)) continue;
        char *text = xstrndup(l.line, l.length);
        cJSON_AddItemToArray(list, cJSON_CreateString(text));
        free(text);
    }
    struct tokenizer *t = companions_read(json, FROM_MERGES, c, name, err);
    cJSON_Delete(json);
    return t;
}

// Adds the token of a line: its bytes in base64, a space, and its rank, which is also its id.
static int put_line(cJSON *vocab, const struct lines *l, struct buf *bytes, struct buf *text,
                    struct err *err)
{
    const char *space = memchr(l->line, ' ', l->length), *end = l->line + l->length;
    int64_t id = 0;
    bool valid = space && space > l->line && space + 1 < end;
    for (const char *p = valid ? space + 1 : end; valid && p < end; p++) {
        valid = *p >= '0' && *p <= '9' && id <= INT32_MAX / 10 - 1;
        id = 10 * id + (*p - '0');
    }
    if (!valid) return err_set(err, "line %zu is not a token in base64 and its rank", l->number);
    buf_clear(bytes);
    buf_clear(text);
    if (base64_decode(bytes, l->line, (size_t)(space - l->line)) < 0 || !bytes->length)
        return err_set(err, "the token of rank %d is not base64", (int)id);
    if (bytes->length > TOKEN_BYTES_MAX)
        return err_set(err, "the token of rank %d has %zu bytes; at most %d are supported", (int)id,
                       bytes->length, TOKEN_BYTES_MAX);
    bytes_put(text, bytes->data, bytes->length);
    cJSON_AddNumberToObject(vocab, text->data, (double)id);
    return 0;
}

struct tokenizer *tokenizer_parse_ranks(const char *file, size_t size, const struct companions *c,
                                        const char *name, struct err *err)
{
    static const struct pre_kind rows[] = {
        { .names = "TikTokenTokenizer", .cut = { WORDS_KIMI }, .whole = true }, // Moonlight, Kimi
        { .names = "ChatGLM4Tokenizer", .cut = { WORDS_LLAMA3 }, .whole = true },
    };
    char class[CLASS_NAME_SIZE];
    const struct pre_kind *kind = NULL;
    if (companions_class(c->config, class, err) == 0) // folders that name no class are Kimi's
        kind = *class ? find_class(rows, class, "a file of ranks", err) : rows;
    if (!kind) return tokenizer_done(NULL, -1, name, err);
    cJSON *json = bytes_json(kind, false, NULL);
    cJSON *vocab =
        cJSON_AddObjectToObject(cJSON_GetObjectItemCaseSensitive(json, "model"), "vocab");
    struct buf bytes = { 0 }, text = { 0 };
    bool alone[256] = { false }; // bytes that are a token by themselves
    int status = 0;
    for (struct lines l = { .next = file, .end = file + size }; status == 0 && lines_next(&l);) {
        status = put_line(vocab, &l, &bytes, &text, err);
        if (bytes.length == 1) alone[(uint8_t)bytes.data[0]] = true;
    }
    if (status == 0 && !vocab->child) status = err_set(err, "it is empty");
    for (int i = 0; status == 0 && i < 256; i++)
        if (!alone[i]) status = err_set(err, "the byte 0x%02X has no token", (unsigned)i);
    struct tokenizer *t = status == 0 ? companions_read(json, FROM_RANKS, c, name, err)
                                      : tokenizer_done(NULL, -1, name, err);
    buf_release(&bytes);
    buf_release(&text);
    cJSON_Delete(json);
    return t;
}
