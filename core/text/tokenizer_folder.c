// core/text/tokenizer_folder.c -- which file of a folder holds the tokenizer, and what the small
// files beside it say.
//
//   tokenizer.json    complete by itself; wins over the others
//
//   tiktoken.model    tokens and their ranks (any name in .model or .tiktoken may hold these)
//
//   tokenizer.model   SentencePiece
//
//   vocab.json        with merges.txt: byte-level BPE in the form before tokenizer.json
//
// Beside the last three, tokenizer_config.json names the added tokens ("added_tokens_decoder");
// older folders have added_tokens.json and special_tokens_map.json for that.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file_in.h"
#include "core/base/json.h"
#include "core/text/tokenizer_parts.h"

static const size_t JSON_LIMIT = (size_t)256 << 20, MODEL_LIMIT = (size_t)64 << 20; // bytes

static const char *const special_keys[] = { "bos_token", "eos_token", "unk_token",  "sep_token",
                                            "pad_token", "cls_token", "mask_token", NULL };

// --- companions --------------------------------------------------------------------------------

// Names that say nothing about what the tokenizer does.
static bool is_general(const char *name)
{
    static const char *const names[] = { "PreTrainedTokenizer", "PythonBackend",
                                         "TokenizersBackend" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i])) return true;
    return false;
}

int companions_class(const struct companions *c, char name[64], struct err *err)
{
    const char *text;
    if (json_text(c->config, "tokenizer_class", "", &text, err) < 0) return -1;
    size_t length = strlen(text);
    if (length > 4 && !strcmp(text + length - 4, "Fast")) length -= 4;
    if (length >= 64) return err_set(err, "tokenizer_class \"%.40s...\" is not supported", text);
    memcpy(name, text, length);
    name[length] = 0;
    if (is_general(name)) name[0] = 0;
    return 0;
}

// A token is a text or {"content": text}.
static const char *token_text(const cJSON *token)
{
    if (cJSON_IsObject(token)) token = json_get(token, "content");
    return cJSON_IsString(token) ? token->valuestring : NULL;
}

const char *companions_token(const struct companions *c, const char *key)
{
    const char *text = token_text(json_get(c->config, key));
    return text ? text : token_text(json_get(c->special, key));
}

static bool lists(const cJSON *object, const char *text)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, json_get(object, "additional_special_tokens"))
    {
        const char *other = token_text(item);
        if (other && !strcmp(other, text)) return true;
    }
    return false;
}

static bool is_special(const struct companions *c, const char *text)
{
    for (int i = 0; special_keys[i]; i++) {
        const char *other = companions_token(c, special_keys[i]);
        if (other && !strcmp(other, text)) return true;
    }
    return lists(c->config, text) || lists(c->special, text);
}

// {"id": {token}} of added_tokens_decoder, {"text": id} of added_tokens.json.
struct added_item {
    struct added token;
    const char *text;
};

static int read_item(const struct companions *c, const cJSON *item, size_t entries,
                     struct added_item *a, struct err *err)
{
    char *end = NULL;
    bool normalized;
    double id = -1;
    if (json_get(c->config, "added_tokens_decoder")) {
        if (!cJSON_IsObject(item)) return err_set(err, "\"%.40s\" is not an object", item->string);
        if (added_read(item, &a->token, &a->text, &normalized, err) < 0) return -1;
        if (*item->string) id = strtod(item->string, &end);
        if (!end || *end) id = -1;
    } else {
        a->token = (struct added){ .special = is_special(c, item->string) };
        a->text = item->string;
        if (!utf8_valid(a->text, strlen(a->text))) return err_set(err, "invalid UTF-8");
        if (cJSON_IsNumber(item)) id = item->valuedouble;
    }
    return check_id(id, entries, &a->token.id, err);
}

static const cJSON *added_items(const struct companions *c, const char **where)
{
    const cJSON *items = json_get(c->config, "added_tokens_decoder");
    *where = items ? "tokenizer_config.json: added_tokens_decoder" : "added_tokens.json";
    return items ? items : c->added;
}

int companions_size(struct tokenizer *t, const struct companions *c, size_t entries,
                    struct err *err)
{
    const char *where;
    const cJSON *items = added_items(c, &where), *item;
    struct added_item a;
    cJSON_ArrayForEach(item, items) entries++;
    if (items && !cJSON_IsObject(items)) return err_set(err, "%s must be an object", where);
    cJSON_ArrayForEach(item, items)
    {
        if (read_item(c, item, entries, &a, err) < 0) return err_in(err, "%s", where);
        if (a.token.id >= t->size) t->size = a.token.id + 1;
    }
    return 0;
}

int companions_added(struct tokenizer *t, const struct companions *c, struct err *err)
{
    const char *where;
    const cJSON *items = added_items(c, &where), *item;
    struct added_item a;
    cJSON_ArrayForEach(item, items)
    {
        if (read_item(c, item, (size_t)t->size, &a, err) < 0) return err_in(err, "%s", where);
        if (*a.text && added_put(t, a.token, a.text, false, err) < 0) return -1;
    }
    return 0;
}

cJSON *companions_list(const struct companions *c, struct err *err)
{
    const char *where;
    const cJSON *items = added_items(c, &where), *item;
    cJSON *list = cJSON_CreateArray();
    cJSON_ArrayForEach(item, items)
    {
        struct added_item a = { .text = "" };
        if (read_item(c, item, INT32_MAX / 8, &a, err) < 0) {
            err_in(err, "%s", where);
            cJSON_Delete(list);
            return NULL;
        }
        cJSON *token = cJSON_CreateObject();
        cJSON_AddNumberToObject(token, "id", a.token.id);
        cJSON_AddStringToObject(token, "content", a.text);
        cJSON_AddBoolToObject(token, "special", a.token.special);
        cJSON_AddBoolToObject(token, "normalized", false);
        cJSON_AddBoolToObject(token, "lstrip", a.token.lstrip);
        cJSON_AddBoolToObject(token, "rstrip", a.token.rstrip);
        cJSON_AddBoolToObject(token, "single_word", a.token.single_word);
        cJSON_AddItemToArray(list, token);
    }
    return list;
}

static int read_companion(const char *folder, const char *name, cJSON **json, struct err *err)
{
    char *path = xasprintf("%s%s", folder, name);
    int status = 0;
    if (access(path, F_OK) == 0) {
        *json = json_read(path, MODEL_LIMIT, err);
        status = *json ? 0 : -1;
        if (*json && !cJSON_IsObject(*json)) status = err_set(err, "'%s' is not an object", path);
    }
    free(path);
    return status;
}

static void companions_release(struct companions *c)
{
    cJSON_Delete(c->config);
    cJSON_Delete(c->special);
    cJSON_Delete(c->added);
}

static int companions_open(struct companions *c, const char *path, struct err *err)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? xstrndup(path, (size_t)(slash + 1 - path)) : xstrdup("");
    int status = -1;
    if (read_companion(folder, "tokenizer_config.json", &c->config, err) == 0 &&
        read_companion(folder, "special_tokens_map.json", &c->special, err) == 0)
        status = read_companion(folder, "added_tokens.json", &c->added, err);
    free(folder);
    return status;
}

// --- files -------------------------------------------------------------------------------------

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

// A line of base64, a space and a number: no SentencePiece model begins like this.
static bool is_ranks(const char *text, size_t size)
{
    size_t i = 0;
    while (i < size && (isalnum((uint8_t)text[i]) || text[i] == '+' || text[i] == '/')) i++;
    while (i < size && text[i] == '=') i++;
    return i > 0 && i + 1 < size && text[i] == ' ' && text[i + 1] >= '0' && text[i + 1] <= '9';
}

// vocab.json, and merges.txt beside it.
static struct tokenizer *open_vocab(const char *path, struct err *err)
{
    struct companions c = { 0 };
    struct tokenizer *t = NULL;
    size_t size = 0;
    const int folder = (int)(strlen(path) - strlen("vocab.json"));
    char *merges_path = xasprintf("%.*smerges.txt", folder, path);
    cJSON *vocab = json_read(path, MODEL_LIMIT, err);
    char *merges = vocab ? file_read(merges_path, MODEL_LIMIT, &size, err) : NULL;
    if (merges && companions_open(&c, path, err) == 0)
        t = tokenizer_parse_merges(vocab, merges, size, &c, path, err);
    companions_release(&c);
    cJSON_Delete(vocab);
    free(merges);
    free(merges_path);
    return t;
}

static struct tokenizer *open_model(const char *path, const char *file, size_t size,
                                    struct err *err)
{
    struct companions c = { 0 };
    struct tokenizer *t = NULL;
    if (companions_open(&c, path, err) == 0)
        t = is_ranks(file, size) ? tokenizer_parse_ranks(file, size, &c, path, err)
                                 : tokenizer_parse_pieces(file, size, &c, path, err);
    companions_release(&c);
    return t;
}

struct tokenizer *tokenizer_open(const char *path, struct err *err)
{
    struct stat st;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) return tokenizer_open_folder(path, err);
    if (ends_with(path, "/vocab.json")) return open_vocab(path, err);
    const bool model = ends_with(path, ".model") || ends_with(path, ".tiktoken");
    size_t size;
    char *file = file_read(path, model ? MODEL_LIMIT : JSON_LIMIT, &size, err);
    if (!file) return NULL;
    struct tokenizer *t =
        model ? open_model(path, file, size, err) : tokenizer_parse(file, size, path, err);
    free(file);
    return t;
}

struct tokenizer *tokenizer_open_folder(const char *folder, struct err *err)
{
    static const char *const names[] = { "tokenizer.json", "tiktoken.model", "tokenizer.model",
                                         "vocab.json" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = xasprintf("%s/%s", folder, names[i]);
        const bool there = access(path, F_OK) == 0;
        struct tokenizer *t = there ? tokenizer_open(path, err) : NULL;
        free(path);
        if (there) return t;
    }
    err_set(err,
            "'%s' has no tokenizer: neither tokenizer.json, tiktoken.model and tokenizer.model nor "
            "vocab.json with merges.txt",
            folder);
    return NULL;
}
