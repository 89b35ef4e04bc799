// core/tokenizer/json.c -- tokenizer.json -> struct tokenizer.
//
// All checks are here, so that encoding and decoding need none: texts are UTF-8, ids in range, the
// tokens of merges exist. An unknown type of stage is an error that names it: a tokenizer that is
// nearly right gives wrong answers silently.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base64.h"
#include "core/base/json.h"
#include "core/tokenizer/tokenizer_parts.h"

// The pre-tokenizer Whitespace: Rust's \w+|[^\w\s]+. Rust's \w matches digits but no other numbers,
// like Oniguruma's \w in a set; unlike that \w, it also matches joiners (U+200C, U+200D).
static const char WHITESPACE_PATTERN[] = "[\\w\\x{200c}\\x{200d}]+|[^\\w\\x{200c}\\x{200d}\\s]+";

// --- helpers -----------------------------------------------------------------------------------

static int valid_text(const char *text, const char *where, struct err *err)
{
    if (utf8_valid(text, strlen(text))) return 0;
    return err_set(err, "%s: invalid UTF-8", where);
}

// Reads a member that must be a text.
static int need_text(const cJSON *object, const char *key, const char **text, struct err *err)
{
    if (json_text(object, key, NULL, text, err) < 0) return -1;
    if (!*text) return err_set(err, "\"%s\" is missing", key);
    return valid_text(*text, key, err);
}

// Returns the index of a member's text among the names; -1 with a message if it is not among them.
// `otherwise`: the text if the member is absent; NULL: required.
static int choice(const cJSON *object, const char *key, const char *otherwise,
                  const char *const *names, struct err *err)
{
    const char *name;
    if (!cJSON_IsObject(object)) return err_set(err, "it is not an object");
    if (json_text(object, key, otherwise, &name, err) < 0) return -1;
    if (!name) return err_set(err, "\"%s\" is missing", key);
    for (int i = 0; names[i]; i++)
        if (!strcmp(name, names[i])) return i;
    if (valid_text(name, key, err) < 0) return -1;
    return err_set(err, "%s \"%s\" is not supported", key, name);
}

// Reads "pattern": {"Regex": ...} or {"String": ...}.
static int read_pattern(const cJSON *object, struct pattern *p, struct err *err)
{
    const cJSON *pattern = json_get(object, "pattern");
    const char *text;
    if (json_get(pattern, "Regex"))
        return need_text(pattern, "Regex", &text, err) < 0 ? -1
                                                           : pattern_compile(p, text, "Regex", err);
    if (!pattern) return err_set(err, "\"pattern\" is missing");
    if (need_text(pattern, "String", &text, err) < 0) return -1;
    pattern_literal(p, text);
    return 0;
}

// Reads a stage, or the members of a Sequence in order; `read` adds one to the tokenizer.
static int read_stages(struct tokenizer *t, const cJSON *object, const char *members,
                       int (*read)(struct tokenizer *t, const cJSON *object, struct err *err),
                       struct err *err)
{
    if (!object) return 0;
    const cJSON *type = json_get(object, "type");
    if (!cJSON_IsString(type) || strcmp(type->valuestring, "Sequence") != 0)
        return read(t, object, err);
    const cJSON *list = json_get(object, members), *item;
    if (!cJSON_IsArray(list)) return err_set(err, "\"%s\" must be a list", members);
    cJSON_ArrayForEach(item, list)
    {
        if (read_stages(t, item, members, read, err) < 0) return -1;
    }
    return 0;
}

// --- normalizer --------------------------------------------------------------------------------

static int read_normal(struct tokenizer *t, const cJSON *object, struct err *err)
{
    static const char *const kinds[] = {
        "NFC",       "NFD",   "NFKC",      "NFKD",        "Prepend", "Replace",
        "Lowercase", "Strip", "ByteLevel", "Precompiled", NULL
    }; // in the order of the enums
    const char *text = "";
    const int k = choice(object, "type", NULL, kinds, err);
    if (k < 0 || stages_full(t->normal_count, err) < 0) return -1;
    struct normal *n = &t->normals[t->normal_count++];
    if (k <= FORM_NFKD)
        n->form = (enum unicode_form)k;
    else
        n->kind = (enum normal_kind)(k - FORM_NFKD);
    if (n->kind == NORMAL_PREPEND && (need_text(object, "prepend", &text, err) < 0 ||
                                      stage_text_check(text, "prepend", err) < 0))
        return -1;
    if (n->kind == NORMAL_REPLACE && (need_text(object, "content", &text, err) < 0 ||
                                      read_pattern(object, &n->pattern, err) < 0))
        return -1;
    n->text = xstrdup(text);
    if (n->kind == NORMAL_CHARSMAP) {
        struct buf blob = { 0 };
        int status = need_text(object, "precompiled_charsmap", &text, err);
        if (status == 0 && base64_decode(&blob, text, strlen(text)) < 0)
            status = err_set(err, "\"precompiled_charsmap\" is not base64");
        if (status == 0) status = charsmap_read(&n->map, blob.data, blob.length, err);
        buf_release(&blob);
        if (status < 0) return err_in(err, "Precompiled");
    }
    if (json_bool(object, "strip_left", true, &n->left, err) < 0) return -1;
    return json_bool(object, "strip_right", true, &n->right, err);
}

// --- pre_tokenizer -----------------------------------------------------------------------------

static struct split *split_new(struct tokenizer *t, enum split_kind kind, struct err *err)
{
    if (stages_full(t->split_count, err) < 0) return NULL;
    struct split *s = &t->splits[t->split_count++];
    s->kind = kind;
    return s;
}

static int read_behaviour(const cJSON *object, enum behaviour *behaviour, struct err *err)
{
    static const char *const names[] = { "Isolated",       "Removed",    "MergedWithPrevious",
                                         "MergedWithNext", "Contiguous", NULL };
    const int i = choice(object, "behavior", "Isolated", names, err);
    if (i >= 0) *behaviour = (enum behaviour)i;
    return i < 0 ? -1 : 0;
}

static int add_regex(struct tokenizer *t, const char *regex, enum behaviour behaviour, bool invert,
                     struct err *err)
{
    struct split *s = split_new(t, SPLIT_PATTERN, err);
    if (!s) return -1;
    s->behaviour = behaviour;
    s->invert = invert;
    return pattern_compile(&s->pattern, regex, "pattern", err);
}

// Older files have add_prefix_space instead of prepend_scheme.
static int read_metaspace(const cJSON *object, char **mark, enum prepend *prepend, struct err *err)
{
    static const char *const schemes[] = { "never", "first", "always", NULL };
    const char *text;
    bool prefix;
    if (json_text(object, "replacement", MARK, &text, err) < 0 ||
        valid_text(text, "replacement", err) < 0 ||
        stage_text_check(text, "replacement", err) < 0 ||
        json_bool(object, "add_prefix_space", true, &prefix, err) < 0)
        return -1;
    if (!*text) return err_set(err, "\"replacement\" is empty");
    *mark = xstrdup(text);
    const int scheme = choice(object, "prepend_scheme", prefix ? "always" : "never", schemes, err);
    if (scheme < 0) return -1;
    *prepend = (enum prepend)scheme;
    return 0;
}

static int read_split(struct tokenizer *t, const cJSON *object, struct err *err)
{
    static const char *const kinds[] = { "Split",       "ByteLevel",  "Metaspace",       "Digits",
                                         "Punctuation", "Whitespace", "WhitespaceSplit", NULL };
    bool flag = true, prefix;
    enum behaviour behaviour;
    struct split *s;
    switch (choice(object, "type", NULL, kinds, err)) {
    case 0:
        if (!(s = split_new(t, SPLIT_PATTERN, err))) return -1;
        if (read_behaviour(object, &s->behaviour, err) < 0 ||
            json_bool(object, "invert", false, &s->invert, err) < 0)
            return -1;
        return read_pattern(object, &s->pattern, err);
    case 1:
        if (json_bool(object, "add_prefix_space", true, &prefix, err) < 0 ||
            json_bool(object, "use_regex", true, &flag, err) < 0)
            return -1;
        if (prefix && !split_new(t, SPLIT_PREFIX, err)) return -1;
        if (flag && add_regex(t, WORDS_GPT2, KEEP_ISOLATED, false, err) < 0) return -1;
        return split_new(t, SPLIT_BYTES, err) ? 0 : -1;
    case 2:
        if (!(s = split_new(t, SPLIT_METASPACE, err))) return -1;
        if (json_bool(object, "split", true, &flag, err) < 0 ||
            read_metaspace(object, &s->text, &s->prepend, err) < 0)
            return -1;
        if (flag) pattern_literal(&s->pattern, s->text);
        return 0;
    case 3:
        if (json_bool(object, "individual_digits", false, &flag, err) < 0) return -1;
        return add_regex(t, flag ? "\\p{N}" : "\\p{N}+", KEEP_ISOLATED, false, err);
    case 4:
        if (read_behaviour(object, &behaviour, err) < 0) return -1;
        return add_regex(t, "[\\p{P}$+<=>^`|~]", behaviour, false, err);
    case 5: return add_regex(t, WHITESPACE_PATTERN, KEEP_REMOVED, true, err);
    case 6: return add_regex(t, "\\s", KEEP_REMOVED, false, err);
    }
    return -1;
}

// --- post_processor ----------------------------------------------------------------------------

enum { AROUND_MAX = 1024 }; // ids before a text, or after it

// Appends the ids of a template's special token.
static int template_token(struct tokenizer *t, const cJSON *object, const cJSON *piece,
                          struct ids *out, struct err *err)
{
    const char *name;
    if (need_text(piece, "id", &name, err) < 0) return -1;
    const cJSON *ids = json_get(json_get(json_get(object, "special_tokens"), name), "ids"), *id;
    if (!cJSON_IsArray(ids) || !ids->child)
        return err_set(err, "the special token \"%s\" has no ids", name);
    cJSON_ArrayForEach(id, ids)
    {
        double x = cJSON_IsNumber(id) ? id->valuedouble : -1;
        if (!(x >= 0 && x < t->size) || !tokenizer_token(t, (int32_t)x))
            return err_set(err, "the special token \"%s\" has an id without a token", name);
        if (out->count == AROUND_MAX)
            return err_set(err, "more than %d special tokens before or after the text", AROUND_MAX);
        ids_add(out, (int32_t)x);
    }
    return 0;
}

static int read_post(struct tokenizer *t, const cJSON *object, struct err *err)
{
    static const char *const kinds[] = { "TemplateProcessing", "ByteLevel", NULL };
    int k = choice(object, "type", NULL, kinds, err), status = -1;
    if (k != 0) return k < 0 ? -1 : 0; // ByteLevel only moves offsets
    const cJSON *single = json_get(object, "single"), *piece;
    struct ids before = { 0 }, after = { 0 };
    bool seen = false;
    cJSON_ArrayForEach(piece, single)
    {
        const cJSON *special = json_get(piece, "SpecialToken");
        if (special && template_token(t, object, special, seen ? &after : &before, err) < 0)
            goto out;
        if (!special && (seen || !json_get(piece, "Sequence"))) {
            err_set(err,
                    "\"single\" must contain the text once, and otherwise only special tokens");
            goto out;
        }
        seen |= !special;
    }
    if (!seen) {
        err_set(err, "\"single\" omits the text");
        goto out;
    }
    if (before.count + t->before.count > AROUND_MAX || after.count + t->after.count > AROUND_MAX) {
        err_set(err, "more than %d special tokens before or after the text", AROUND_MAX);
        goto out;
    }
    // A later processor of a Sequence adds its tokens outside those of the earlier ones.
    ids_append(&before, t->before.data, t->before.count);
    ids_append(&t->after, after.data, after.count);
    ids_clear(&t->before);
    ids_append(&t->before, before.data, before.count);
    status = 0;
out:
    ids_release(&before);
    ids_release(&after);
    return status;
}

// --- decoder -----------------------------------------------------------------------------------

static int read_decode(struct tokenizer *t, const cJSON *object, struct err *err)
{
    static const char *const kinds[] = { "Replace",   "ByteFallback", "Fuse", "Strip",
                                         "ByteLevel", "Metaspace",    NULL };
    const char *text;
    const int k = choice(object, "type", NULL, kinds, err);
    if (k < 0 || stages_full(t->decode_count, err) < 0) return -1;
    struct decode *d = &t->decodes[t->decode_count++];
    d->kind = (enum decode_kind)k;
    if (d->kind == DECODE_METASPACE) {
        enum prepend prepend = PREPEND_ALWAYS;
        if (read_metaspace(object, &d->text, &prepend, err) < 0) return -1;
        pattern_literal(&d->pattern, d->text);
        d->prepend = prepend != PREPEND_NEVER;
        return 0;
    }
    if (d->kind != DECODE_REPLACE && d->kind != DECODE_STRIP) return 0;
    if (need_text(object, "content", &text, err) < 0) return -1;
    d->text = xstrdup(text);
    if (d->kind == DECODE_REPLACE) return read_pattern(object, &d->pattern, err);
    if (!*text) return err_set(err, "\"content\" is empty");
    if (json_int(object, "start", 0, 1 << 20, 0, &d->start, err) < 0) return -1;
    return json_int(object, "stop", 0, 1 << 20, 0, &d->stop, err);
}

// --- vocabulary --------------------------------------------------------------------------------

// Reads an entry of the vocabulary. BPE: {"text": id}. Unigram: ["text", score] in the order of
// ids.
static int read_word(const cJSON *item, size_t place, const char **text, double *id,
                     struct err *err)
{
    const cJSON *first = item->child, *score = first ? first->next : NULL;
    *text = item->string;
    *id = cJSON_IsNumber(item) ? item->valuedouble : -1;
    if (*text) return 0;
    if (!first || !cJSON_IsArray(item) || !cJSON_IsString(first) || !cJSON_IsNumber(score))
        return err_set(err, "entry %zu is not a text and its score", place);
    *text = first->valuestring;
    *id = (double)place;
    return 0;
}

// Trainers of Unigram list a word twice if it is also a special token.
static int read_vocab(struct tokenizer *t, const cJSON *vocab, size_t entries, struct err *err)
{
    size_t place = 0;
    for (const cJSON *item = vocab->child; item; item = item->next) {
        const char *text;
        double id;
        int32_t checked;
        if (read_word(item, place++, &text, &id, err) < 0 ||
            id_take(t, id, entries, &checked, err) < 0 ||
            vocabulary_put(t, checked, text, !item->string, err) < 0)
            return err_in(err, "vocab");
    }
    return 0;
}

// Splits a merge, "a b" or (newer) ["a", "b"], into its two tokens.
static int merge_parts(const cJSON *item, struct token_text *parts, struct err *err)
{
    const cJSON *a = cJSON_IsArray(item) ? item->child : NULL, *b = a ? a->next : NULL;
    if (cJSON_IsString(item)) {
        const char *text = item->valuestring, *space = strchr(text, ' ');
        if (!space || strchr(space + 1, ' ')) return err_set(err, "it is not two tokens");
        parts[0] = (struct token_text){ text, (size_t)(space - text) };
        parts[1] = (struct token_text){ space + 1, strlen(space + 1) };
        return 0;
    }
    if (!b || b->next || !cJSON_IsString(a) || !cJSON_IsString(b))
        return err_set(err, "it is not two tokens");
    parts[0] = (struct token_text){ a->valuestring, strlen(a->valuestring) };
    parts[1] = (struct token_text){ b->valuestring, strlen(b->valuestring) };
    return 0;
}

// A merge never yields a special token: added tokens are matched before merging.
static int read_merges(struct tokenizer *t, const cJSON *merges, struct err *err)
{
    if (!cJSON_IsArray(merges)) return err_set(err, "\"merges\" must be a list");
    merges_make(t, (size_t)cJSON_GetArraySize(merges));
    struct buf joined = { 0 };
    uint32_t rank = 0;
    int status = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, merges)
    {
        status = -1;
        struct token_text parts[3] = { 0 }; // left, right, both
        if (merge_parts(item, parts, err) < 0) break;
        buf_clear(&joined);
        for (int i = 0; i < 2; i++) buf_add(&joined, parts[i].text, parts[i].length);
        parts[2] = (struct token_text){ joined.data, joined.length };
        int32_t id[3];
        int i = 0;
        while (i < 3 && (id[i] = vocabulary_find(t, parts[i].text, parts[i].length)) >= 0) i++;
        if (i < 3) {
            err_set(err, "\"%.*s\" is not in the vocabulary",
                    (int)(parts[i].length < 40 ? parts[i].length : 40), parts[i].text);
            break;
        }
        if (!(t->tokens[id[2]].flags & TOKEN_SPECIAL))
            merge_add(t, (struct merge){ merge_pair(id[0], id[1]), rank, id[2] });
        rank++;
        status = 0;
    }
    buf_release(&joined);
    return status < 0 ? err_in(err, "merge %u", rank) : 0;
}

// --- model -------------------------------------------------------------------------------------

static int read_bpe(struct tokenizer *t, const cJSON *model, bool ranked, struct err *err)
{
    const char *unknown, *affix;
    static const char *const affixes[] = { "continuing_subword_prefix", "end_of_word_suffix" };
    for (int i = 0; i < 2; i++) {
        if (json_text(model, affixes[i], "", &affix, err) < 0) return -1;
        if (*affix) return err_set(err, "\"%s\" is not supported", affixes[i]);
    }
    if (json_text(model, "unk_token", NULL, &unknown, err) < 0 ||
        json_bool(model, "fuse_unk", false, &t->fuse_unknown, err) < 0 ||
        json_bool(model, "ignore_merges", false, &t->ignore_merges, err) < 0)
        return -1;
    t->unknown = unknown ? vocabulary_find(t, unknown, strlen(unknown)) : -1;
    if (unknown && t->unknown < 0)
        return err_set(err, "the unk_token \"%.40s\" is not in the vocabulary", unknown);
    t->word = bpe_word;
    if (!ranked) return read_merges(t, json_get(model, "merges"), err);
    uint32_t *rank = xreallocarray(NULL, (size_t)t->size, sizeof *rank);
    memset(rank, 0xFF, (size_t)t->size * sizeof *rank);
    const cJSON *item;
    cJSON_ArrayForEach(item, json_get(model, "vocab")) rank[item->valueint] =
        (uint32_t)item->valueint;
    merges_derive(t, rank);
    free(rank);
    return 0;
}

static int read_unigram(struct tokenizer *t, const cJSON *model, struct err *err)
{
    int64_t unknown;
    size_t place = 0;
    if (json_int(model, "unk_id", 0, t->size - 1, -1, &unknown, err) < 0) return -1;
    if (unknown < 0 || !tokenizer_token(t, (int32_t)unknown))
        return err_set(err, "Unigram: \"unk_id\" names no token");
    t->unknown = (int32_t)unknown;
    t->fuse_unknown = true;
    t->word = unigram_word;
    struct unigram *u = &t->unigram;
    u->score = xcalloc((size_t)t->size, sizeof *u->score);
    u->least = INFINITY;
    for (const cJSON *item = json_get(model, "vocab")->child; item; item = item->next, place++) {
        const double score = item->child->next->valuedouble;
        u->score[place] = score;
        if (score < u->least) u->least = score;
    }
    u->least -= UNKNOWN_PENALTY;
    return unigram_fill(t, err);
}

// Accepts BPE and Unigram; older files lack the type.
static int check_model(const cJSON *model, bool *unigram, struct err *err)
{
    const char *type;
    const cJSON *vocab = json_get(model, "vocab");
    if (!model) return err_set(err, "\"model\" is missing");
    if (json_text(model, "type", cJSON_IsArray(vocab) ? "Unigram" : "BPE", &type, err) < 0)
        return -1;
    *unigram = !strcmp(type, "Unigram");
    if (!*unigram && strcmp(type, "BPE") != 0)
        return err_set(err, "type \"%s\" is not supported, only BPE and Unigram", type);
    if (*unigram ? cJSON_IsArray(vocab) : cJSON_IsObject(vocab)) return 0;
    return err_set(err, "%s: \"vocab\" is missing", type);
}

static int read_model(struct tokenizer *t, const cJSON *model, bool unigram, bool ranked,
                      struct err *err)
{
    bool fallback;
    double dropout;
    if (json_bool(model, "byte_fallback", false, &fallback, err) < 0 ||
        json_real(model, "dropout", 0, &dropout, err) < 0)
        return -1;
    if (dropout > 0) return err_set(err, "\"dropout\" is not supported");
    bytes_find(t, fallback);
    return unigram ? read_unigram(t, model, err) : read_bpe(t, model, ranked, err);
}

static int read_added(struct tokenizer *t, const cJSON *added, size_t entries, struct err *err)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, added)
    {
        const cJSON *id = json_get(item, "id");
        struct added a;
        if (added_read(item, &a, err) < 0 ||
            id_take(t, cJSON_IsNumber(id) ? id->valuedouble : -1, entries, &a.id, err) < 0)
            return -1;
        if (*a.text && added_put(t, a, err) < 0) return -1;
    }
    added_sort(&t->added);
    added_sort(&t->added_normal);
    return 0;
}

// --- the file ----------------------------------------------------------------------------------

static int read_file(struct tokenizer *t, const cJSON *json, bool ranked, struct err *err)
{
    const struct {
        const char *key, *members;
        int (*read)(struct tokenizer *t, const cJSON *object, struct err *err);
    } stages[] = {
        { "normalizer", "normalizers", read_normal },
        { "pre_tokenizer", "pretokenizers", read_split },
        { "post_processor", "processors", read_post },
        { "decoder", "decoders", read_decode },
    };
    const cJSON *model = json_get(json, "model"), *added = json_get(json, "added_tokens");
    const cJSON *vocab = json_get(model, "vocab");
    bool unigram = false;
    if (!cJSON_IsObject(json)) return err_set(err, "it is not a tokenizer.json");
    if (check_model(model, &unigram, err) < 0) return err_in(err, "model");
    const size_t words = (size_t)cJSON_GetArraySize(vocab);
    const size_t entries = words + (size_t)cJSON_GetArraySize(added);
    tables_make(t, words);
    if (read_vocab(t, vocab, entries, err) < 0) return err_in(err, "model");
    for (int i = 0; i < 4; i++) {
        const cJSON *stage = json_get(json, stages[i].key);
        if (read_stages(t, stage, stages[i].members, stages[i].read, err) < 0)
            return err_in(err, "%s", stages[i].key);
        if (i) continue;
        // Added tokens need the normaliser; merges and templates need to know which are special.
        if (read_added(t, added, entries, err) < 0) return err_in(err, "added_tokens");
        if (read_model(t, model, unigram, ranked, err) < 0) return err_in(err, "model");
    }
    mark_fused(t);
    return 0;
}

struct tokenizer *tokenizer_from_json(const cJSON *json, bool ranked, const char *name,
                                      struct err *err)
{
    struct tokenizer *t = xcalloc(1, sizeof *t);
    return tokenizer_done(t, read_file(t, json, ranked, err), name, err);
}

struct tokenizer *tokenizer_parse(const char *text, size_t size, const char *name, struct err *err)
{
    cJSON *json = json_parse(text, size, name, err);
    struct tokenizer *t = json ? tokenizer_from_json(json, false, name, err) : NULL;
    cJSON_Delete(json);
    return t;
}
