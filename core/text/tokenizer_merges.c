// core/text/tokenizer_merges.c -- vocab.json and merges.txt -> struct tokenizer.
//
// Byte-level BPE as it was stored before tokenizer.json. What is not in the two files, code on the
// hub does, by the tokenizer's class: here a tokenizer.json is put together and read as one.
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/text/tokenizer_parts.h"

static const struct merge_kind {
    const char *name; // tokenizer_class
    const char *normalizer;
    const char *regex; // NULL: GPT-2's own
} kinds[] = {
    { "Qwen2Tokenizer", "NFC", WORDS_QWEN2 },
    { "GPT2Tokenizer", NULL, NULL },
};

static const struct merge_kind *find_kind(const struct companions *c, struct err *err)
{
    char name[CLASS_ROOM];
    if (companions_class(c->config, name, err) < 0) return NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(name, kinds[i].name)) return &kinds[i];
    err_set(err,
            "tokenizer_class \"%s\" is not supported for vocab.json and merges.txt, only %s and %s",
            name, kinds[0].name, kinds[1].name);
    return NULL;
}

// A line is two tokens; the first may say the version.
static cJSON *list_merges(const char *text, size_t size)
{
    cJSON *list = cJSON_CreateArray();
    for (const char *p = text, *end = text + size, *next; p < end; p = next) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        next = stop ? stop + 1 : end;
        if (!stop) stop = end;
        if (stop > p && stop[-1] == '\r') stop--;
        if (stop == p || (p == text && stop - p > 8 && !memcmp(p, "#version", 8))) continue;
        char *line = xstrndup(p, (size_t)(stop - p));
        cJSON_AddItemToArray(list, cJSON_CreateString(line));
        free(line);
    }
    return list;
}

static cJSON *stage(const char *type)
{
    cJSON *s = cJSON_CreateObject();
    cJSON_AddStringToObject(s, "type", type);
    return s;
}

static cJSON *pre_tokenizer(const struct merge_kind *kind, const struct companions *c)
{
    cJSON *bytes = stage("ByteLevel");
    cJSON_AddBoolToObject(bytes, "add_prefix_space",
                          cJSON_IsTrue(json_get(c->config, "add_prefix_space")));
    cJSON_AddBoolToObject(bytes, "use_regex", kind->regex == NULL);
    if (!kind->regex) return bytes;
    cJSON *split = stage("Split"), *both = stage("Sequence");
    cJSON_AddStringToObject(cJSON_AddObjectToObject(split, "pattern"), "Regex", kind->regex);
    cJSON *list = cJSON_AddArrayToObject(both, "pretokenizers");
    cJSON_AddItemToArray(list, split);
    cJSON_AddItemToArray(list, bytes);
    return both;
}

struct tokenizer *tokenizer_parse_merges(cJSON *vocab, const char *merges, size_t size,
                                         const struct companions *c, const char *name,
                                         struct err *err)
{
    const struct merge_kind *kind = find_kind(c, err);
    if (!kind) {
        err_in(err, "tokenizer '%s'", name);
        return NULL;
    }
    cJSON *json = cJSON_CreateObject(), *model = cJSON_AddObjectToObject(json, "model");
    cJSON_AddStringToObject(model, "type", "BPE");
    cJSON_AddItemReferenceToObject(model, "vocab", vocab);
    cJSON_AddItemToObject(model, "merges", list_merges(merges, size));
    cJSON_AddArrayToObject(json, "added_tokens");
    if (kind->normalizer) cJSON_AddItemToObject(json, "normalizer", stage(kind->normalizer));
    cJSON_AddItemToObject(json, "pre_tokenizer", pre_tokenizer(kind, c));
    cJSON_AddItemToObject(json, "decoder", stage("ByteLevel"));
    struct buf notice = { 0 };
    struct tokenizer *t = NULL;
    if (companions_merge(json, false, c, &notice, err) == 0)
        t = tokenizer_from_json(json, name, err);
    else
        err_in(err, "tokenizer '%s'", name);
    if (t && companions_apply(t, c, err) < 0) {
        err_in(err, "tokenizer '%s'", name);
        tokenizer_free(t);
        t = NULL;
    }
    if (t && notice.length) tokenizer_add_notice(t, "%s", notice.data);
    buf_release(&notice);
    cJSON_Delete(json);
    return t;
}
