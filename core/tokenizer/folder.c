// core/tokenizer/folder.c -- finds a folder's tokenizer file and reads the small files beside it.
//
//   tokenizer.json    complete except for tokens of the small files (special.c) and for the
//                     behaviour of its class (class.c); wins over the others
//   tiktoken.model    tokens and their ranks (also in other files named .model or .tiktoken)
//   tokenizer.model   SentencePiece
//   vocab.json        with merges.txt: byte-level BPE in the format older than tokenizer.json
//
// Beside the last three, tokenizer_config.json names the added tokens ("added_tokens_decoder");
// older folders name them in added_tokens.json and special_tokens_map.json.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file_in.h"
#include "core/base/json.h"
#include "core/base/names.h"
#include "core/base/text.h"
#include "core/tokenizer/tokenizer_parts.h"

static const size_t JSON_LIMIT = (size_t)256 << 20, MODEL_LIMIT = (size_t)32 << 20; // bytes

// --- companions --------------------------------------------------------------------------------

const char *token_content(const cJSON *token)
{
    if (cJSON_IsObject(token)) token = json_get(token, "content");
    return cJSON_IsString(token) ? token->valuestring : NULL;
}

const char *companions_token(const struct companions *c, const char *key)
{
    return token_content(json_get(c->config, key));
}

// Merges two "additional_special_tokens" without duplicates.
static cJSON *join_lists(const cJSON *first, const cJSON *second)
{
    cJSON *all = cJSON_IsArray(first) ? cJSON_Duplicate(first, true) : cJSON_CreateArray();
    struct names known = { 0 };
    const cJSON *item;
    bool twice;
    cJSON_ArrayForEach(item, all) if (token_content(item))
        names_add(&known, token_content(item), NULL);
    cJSON_ArrayForEach(item, second)
    {
        if (!token_content(item)) continue;
        names_add(&known, token_content(item), &twice);
        if (!twice) cJSON_AddItemToArray(all, cJSON_Duplicate(item, true));
    }
    names_release(&known);
    return all;
}

// As in transformers: a config that lists added tokens is complete; otherwise, the map overrides
// it.
static void join_map(cJSON *config, const cJSON *map)
{
    const cJSON *item;
    if (json_get(config, "added_tokens_decoder")) return;
    int most = 64; // bounds the lookups
    cJSON_ArrayForEach(item, map)
    {
        if (!text_ends(item->string, "_token") && !text_ends(item->string, "_special_tokens"))
            continue;
        if (!most--) break;
        const cJSON *former = cJSON_GetObjectItemCaseSensitive(config, item->string);
        cJSON *value = cJSON_IsArray(item) ? join_lists(former, item) : cJSON_Duplicate(item, true);
        if (former)
            cJSON_ReplaceItemInObjectCaseSensitive(config, item->string, value);
        else
            cJSON_AddItemToObject(config, item->string, value);
    }
}

void tokenizer_config_complete(cJSON **config, const cJSON *map)
{
    if (map && !*config) *config = cJSON_CreateObject();
    if (!*config) return;
    join_map(*config, map);
    companions_defaults(*config);
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

// `json`: the tokenizer.json; NULL: the tokenizer is in another file.
static int companions_open(struct companions *c, const char *path, const cJSON *json,
                           struct err *err)
{
    cJSON *model = NULL;
    const char *slash = strrchr(path, '/');
    char *folder = slash ? xstrndup(path, (size_t)(slash + 1 - path)) : xstrdup("");
    int status = -1;
    if (read_companion(folder, "tokenizer_config.json", &c->config, err) == 0 &&
        read_companion(folder, "special_tokens_map.json", &c->special, err) == 0)
        status = read_companion(folder, "added_tokens.json", &c->added, err);
    if (status == 0) status = read_companion(folder, "config.json", &model, err);
    if (status == 0) companions_infer(c, model, json);
    if (status == 0) tokenizer_config_complete(&c->config, c->special);
    cJSON_Delete(model);
    char *pieces = xasprintf("%stokenizer.model", folder);
    c->pieces = access(pieces, F_OK) == 0;
    free(pieces);
    free(folder);
    return status;
}

// --- files -------------------------------------------------------------------------------------

// True for a line of base64, a space and a number; no SentencePiece model begins like this.
static bool is_ranks(const char *text, size_t size)
{
    size_t i = 0;
    while (i < size && (isalnum((uint8_t)text[i]) || text[i] == '+' || text[i] == '/')) i++;
    while (i < size && text[i] == '=') i++;
    return i > 0 && i + 1 < size && text[i] == ' ' && text[i + 1] >= '0' && text[i + 1] <= '9';
}

struct tokenizer *companions_read(cJSON *json, enum json_source source, const struct companions *c,
                                  const char *name, struct err *err)
{
    struct buf notice = { 0 };
    if (companions_merge(json, source, c, &notice, err) < 0) {
        buf_release(&notice);
        return tokenizer_done(NULL, -1, name, err);
    }
    const bool prefix = companions_prefix(json, c);
    struct tokenizer *t = tokenizer_from_json(json, source == FROM_RANKS, name, err);
    if (t && notice.length) tokenizer_add_notice(t, "%s", notice.data);
    buf_release(&notice);
    if (t && prefix)
        tokenizer_add_notice(t, "add_prefix_space is taken from tokenizer_config.json (false if "
                                "absent), not from tokenizer.json, as in transformers 4");
    return t ? tokenizer_done(t, companions_apply(t, c, err), name, err) : NULL;
}

struct tokenizer *tokenizer_open(const char *path, struct err *err)
{
    struct stat st;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) return tokenizer_open_folder(path, err);
    const bool vocab = text_ends(path, "/vocab.json");
    const bool model = text_ends(path, ".model") || text_ends(path, ".tiktoken");
    size_t size, merges_size;
    char *file = file_read(path, model || vocab ? MODEL_LIMIT : JSON_LIMIT, &size, err);
    char *merges = NULL;
    cJSON *json = NULL;
    struct companions c = { 0 };
    struct tokenizer *t = NULL;
    if (!file) return NULL;
    if (!size) {
        err_set(err, "'%s' is empty: download it again", path);
        goto out;
    }
    if (!model && !(json = json_parse_file(file, size, path, err))) goto out;
    if (vocab) { // merges.txt is beside it
        char *name = xasprintf("%.*smerges.txt", (int)(strlen(path) - strlen("vocab.json")), path);
        merges = file_read(name, MODEL_LIMIT, &merges_size, err);
        const bool good = merges && text_check(merges, merges_size, name, err) == 0;
        free(name);
        if (!good) goto out;
    }
    if (companions_open(&c, path, vocab ? NULL : json, err) < 0) goto out;
    if (vocab)
        t = tokenizer_parse_merges(json, merges, merges_size, &c, path, err);
    else if (!model)
        t = companions_read(json, FROM_FILE, &c, path, err);
    else if (is_ranks(file, size) || text_ends(path, "/tiktoken.model") ||
             text_ends(path, ".tiktoken")) // by name too: a damaged file then gets a fitting error
        t = tokenizer_parse_ranks(file, size, &c, path, err);
    else
        t = tokenizer_parse_pieces(file, size, &c, path, err);
out:
    cJSON_Delete(c.config);
    cJSON_Delete(c.special);
    cJSON_Delete(c.added);
    cJSON_Delete(json);
    free(merges);
    free(file);
    return t;
}

const char *tokenizer_folder_file(const char *folder)
{
    static const char *const names[] = { "tokenizer.json", "tiktoken.model", "tokenizer.model",
                                         "vocab.json" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = xasprintf("%s/%s", folder, names[i]);
        const bool there = access(path, F_OK) == 0;
        free(path);
        if (there) return names[i];
    }
    return NULL;
}

struct tokenizer *tokenizer_open_folder(const char *folder, struct err *err)
{
    const char *name = tokenizer_folder_file(folder);
    if (!name) {
        err_set(err,
                "'%s' has no tokenizer: no tokenizer.json, tiktoken.model, tokenizer.model, or "
                "vocab.json with merges.txt",
                folder);
        return NULL;
    }
    char *path = xasprintf("%s/%s", folder, name);
    struct tokenizer *t = tokenizer_open(path, err);
    free(path);
    return t;
}
