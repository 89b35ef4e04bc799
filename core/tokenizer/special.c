// core/tokenizer/special.c -- tokens that only the small files beside a tokenizer name.
//
// Adds tokens as transformers (4 and 5) does: added tokens of tokenizer_config.json
// ("added_tokens_decoder"), or else of added_tokens.json, in the order of their ids; then special
// tokens with a name ("eos_token") or in a list ("additional_special_tokens",
// "extra_special_tokens"). A token whose text is known keeps its id and gets the flags of the file;
// a new one gets the next free id, even if the file gives it another id. Only with a class that
// transformers lacks (code beside the model) do tokens keep the files' ids.
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/names.h"
#include "core/base/text.h"
#include "core/tokenizer/tokenizer_parts.h"

// The first few tokens of a notice.
struct token_notes {
    struct buf text;
    size_t count;
};

struct merging {
    cJSON *list;               // "added_tokens"
    struct names known;        // texts of the list's members
    cJSON **items;             // [known.count] the members
    size_t capacity;           // of `items`
    bool whole;                // `list` is from a tokenizer.json file, which should be complete
    bool own;                  // new tokens get the files' ids, if given, and match the
                               // unnormalised text
    const struct tokenizer *t; // has the vocabulary; NULL: `vocab` has it
    const cJSON *vocab;        // the model's "vocab"
    struct names words;        // texts of `vocab`, filled at the first lookup
    double *word_ids;          // [words.count]
    double word_count;         // size of the vocabulary
    double last;               // largest id in the list; -1: none
    struct buf ids;            // sorted doubles: the ids that the list had at first
    struct names special;      // texts that the files mark special
    struct token_notes added, changed, moved;
};

struct extra {
    struct added token; // id: the file's; -1: none
    bool five;          // only transformers 5 adds it
    size_t order;       // position in the file
};

enum { NOTED_MOST = 4 };

__attribute__((format(printf, 2, 3))) static void note(struct token_notes *t, const char *format,
                                                       ...)
{
    va_list args;
    if (t->count++ >= NOTED_MOST) return;
    if (t->text.length) buf_puts(&t->text, ", ");
    va_start(args, format);
    buf_vprintf(&t->text, format, args);
    va_end(args);
}

// --- tokenizer.json's tokens --------------------------------------------------------------------

static void know(struct merging *m, cJSON *item, const char *text)
{
    const size_t number = names_add(&m->known, text, NULL);
    const cJSON *id = json_get(item, "id");
    m->items = xgrow(m->items, &m->capacity, number, sizeof *m->items);
    m->items[number] = item;
    if (cJSON_IsNumber(id) && id->valuedouble > m->last) m->last = id->valuedouble;
}

static int compare_ids(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

// Returns the id of a text of the vocabulary; -1 if none. BPE: {"text": id}. Unigram: ["text",
// score] in the order of ids.
static double word_id(struct merging *m, const char *text)
{
    size_t number;
    if (m->t) return vocabulary_find(m->t, text, strlen(text));
    const cJSON *item = m->vocab && !m->word_ids ? m->vocab->child : NULL;
    if (!m->word_ids) m->word_ids = xcalloc((size_t)m->word_count + 1, sizeof *m->word_ids);
    for (size_t place = 0; item; item = item->next, place++) {
        const char *word = item->string;
        if (!word && cJSON_IsString(item->child)) word = item->child->valuestring;
        if (!word) continue;
        number = names_add(&m->words, word, NULL);
        m->word_ids[number] = item->string ? item->valuedouble : (double)place;
    }
    return names_find(&m->words, text, &number) ? m->word_ids[number] : -1;
}

// --- one token -----------------------------------------------------------------------------------

static bool set_flag(cJSON *item, const char *key, bool value, bool otherwise)
{
    const cJSON *former = json_get(item, key);
    if ((former ? cJSON_IsTrue(former) : otherwise) == value) return false;
    if (former)
        cJSON_ReplaceItemInObjectCaseSensitive(item, key, cJSON_CreateBool(value));
    else
        cJSON_AddBoolToObject(item, key, value);
    return true;
}

static bool set_flags(cJSON *item, const struct extra *x)
{
    const bool special = cJSON_IsTrue(json_get(item, "special"));
    bool changed = set_flag(item, "normalized", x->token.normalized, !special);
    changed |= set_flag(item, "special", x->token.special, false);
    changed |= set_flag(item, "lstrip", x->token.lstrip, false);
    changed |= set_flag(item, "rstrip", x->token.rstrip, false);
    return changed | set_flag(item, "single_word", x->token.single_word, false);
}

static void put(struct merging *m, const struct extra *x)
{
    size_t number;
    double id;
    if (!*x->token.text) return;
    if (names_find(&m->known, x->token.text, &number)) {
        const cJSON *own = json_get(m->items[number], "id");
        id = cJSON_IsNumber(own) ? own->valuedouble : -1;
        if (set_flags(m->items[number], x) && m->whole) note(&m->changed, "%.40s", x->token.text);
    } else {
        // Takes the vocabulary's id, else the file's (`own`), else the next free one.
        id = word_id(m, x->token.text);
        if (id < 0 && m->own) id = x->token.id;
        if (id < 0) id = m->last >= m->word_count ? m->last + 1 : m->word_count;
        cJSON *item = cJSON_CreateObject();
        cJSON_AddNumberToObject(item, "id", id);
        cJSON_AddStringToObject(item, "content", x->token.text);
        cJSON_AddBoolToObject(item, "normalized", x->token.normalized);
        set_flags(item, x);
        cJSON_AddItemToArray(m->list, item);
        know(m, item, x->token.text);
        if (m->whole || (x->token.id < 0 && id >= m->word_count))
            note(&m->added, "%.40s (%.0f%s)", x->token.text, id, x->five ? ", in 5 only" : "");
    }
    if (x->token.id >= 0 && x->token.id != id)
        note(&m->moved, "%.40s (%.0f, not %d)", x->token.text, id, x->token.id);
}

// --- the files -----------------------------------------------------------------------------------

static const char *const lists[] = { "additional_special_tokens", "extra_special_tokens" };

static const char *const special_keys[] = { "bos_token", "eos_token", "unk_token",  "sep_token",
                                            "pad_token", "cls_token", "mask_token", NULL };

enum { NAMES = sizeof special_keys / sizeof *special_keys - 1, OTHERS_MOST = 1024 };

// Visits a special token: a text or an object with its "content" and flags.
static int visit(struct merging *m, const cJSON *value, bool five, bool add, struct err *err)
{
    struct extra x = { .token = { .special = true }, .five = five };
    size_t number;
    if (cJSON_IsString(value))
        x.token.text = value->valuestring;
    else if (!cJSON_IsObject(value) || !cJSON_IsString(json_get(value, "content")))
        return 0;
    else if (added_read(value, &x.token, err) < 0)
        return err_in(err, "tokenizer_config.json");
    if (!utf8_valid(x.token.text, strlen(x.token.text)))
        return err_set(err, "tokenizer_config.json: a special token is invalid UTF-8");
    names_add(&m->special, x.token.text, NULL);
    if (!add || names_find(&m->known, x.token.text, &number)) return 0;
    x.token.normalized = !m->own && cJSON_IsTrue(json_get(value, "normalized"));
    x.token.special = true;
    x.token.id = -1;
    put(m, &x);
    return 0;
}

// Visits all special tokens of the config, those with standard names first. `add`: adds them.
static int visit_all(struct merging *m, const cJSON *config, bool add, struct err *err)
{
    const cJSON *item, *extra = json_get(config, lists[1]);
    const struct class_kind *kind = companions_kind(config);
    const bool infill = kind && kind->flags & CLASS_INFILL;
    int most = OTHERS_MOST;
    for (int i = 0; i < NAMES; i++)
        if (visit(m, json_get(config, special_keys[i]), false, add, err) < 0) return -1;
    cJSON_ArrayForEach(item, config)
    {
        if (!item->string || !text_ends(item->string, "_token") ||
            text_listed(special_keys, item->string))
            continue;
        if (!most--)
            return err_set(err, "tokenizer_config.json: more than %d special tokens with names",
                           OTHERS_MOST);
        if (json_get(extra, item->string)) continue; // `extra` wins
        // The last loop visits CodeLlama's infilling tokens. CodeLlama's fill_token only marks a
        // gap in a text.
        if (infill &&
            (text_listed(companions_infill, item->string) || !strcmp(item->string, "fill_token")))
            continue;
        if (visit(m, item, true, add, err) < 0) return -1;
    }
    for (int i = 0; i < 2; i++)
        cJSON_ArrayForEach(item, json_get(config, lists[i])) // texts, or {"name": text}
        {
            if (visit(m, item, false, add, err) < 0) return -1;
        }
    for (int i = 0; infill && companions_infill[i]; i++)
        if (visit(m, json_get(config, companions_infill[i]), false, add, err) < 0) return -1;
    return 0;
}

static int compare_extras(const void *a, const void *b)
{
    const struct extra *x = a, *y = b;
    if (x->token.id != y->token.id) return x->token.id < y->token.id ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

// Puts the tokens of tokenizer_config.json, {"id": {token}}, or else of added_tokens.json,
// {"text": id}.
static int put_extras(struct merging *m, const struct companions *c, struct err *err)
{
    const cJSON *decoder = json_get(c->config, "added_tokens_decoder");
    const cJSON *items = decoder ? decoder : c->added, *item;
    const char *where =
        decoder ? "tokenizer_config.json: added_tokens_decoder" : "added_tokens.json";
    const size_t taken_count = m->ids.length / sizeof(double); // ids of tokenizer.json itself
    struct names special = { 0 };
    struct buf all = { 0 };
    size_t number;
    int status = 0;
    if (items && !cJSON_IsObject(items)) return err_set(err, "%s must be an object", where);
    // added_tokens.json does not say which of its tokens are special.
    for (int i = 0; !decoder && special_keys[i]; i++)
        if (companions_token(c, special_keys[i]))
            names_add(&special, companions_token(c, special_keys[i]), NULL);
    cJSON_ArrayForEach(item, json_get(c->config, "additional_special_tokens"))
    {
        if (!decoder && token_content(item)) names_add(&special, token_content(item), NULL);
    }
    cJSON_ArrayForEach(item, items)
    {
        struct extra x = { .token = { .text = item->string }, .order = all.length };
        double id = cJSON_IsNumber(item) ? item->valuedouble : -1;
        if (!decoder) {
            x.token.special = names_find(&special, x.token.text, &number);
            x.token.normalized = !x.token.special;
            if (!utf8_valid(x.token.text, strlen(x.token.text)))
                status = err_set(err, "invalid UTF-8");
        } else if (!cJSON_IsObject(item)) {
            status = err_set(err, "\"%.40s\" is not an object", item->string);
        } else {
            char *end;
            id = strtod(item->string, &end);
            if (end == item->string || *end) id = -1;
            status = added_read(item, &x.token, err);
        }
        if (status < 0 || (status = id_check(id, INT32_MAX / 8, &x.token.id, err)) < 0) break;
        x.token.normalized &= !m->own;
        x.token.special |= names_find(&m->special, x.token.text, &number);
        // added_tokens.json has no flags, so tokenizer.json decides about ids that both have.
        const bool taken =
            taken_count && bsearch(&id, m->ids.data, taken_count, sizeof id, compare_ids);
        if (decoder || !taken) buf_add(&all, &x, sizeof x);
    }
    names_release(&special);
    const size_t count = all.length / sizeof(struct extra);
    struct extra *list = (struct extra *)(void *)all.data;
    if (status == 0 && count) qsort(list, count, sizeof *list, compare_extras);
    for (size_t i = 0; status == 0 && i < count; i++)
        if (i + 1 == count || list[i].token.id != list[i + 1].token.id) put(m, &list[i]);
    buf_release(&all);
    return status < 0 ? err_in(err, "%s", where) : 0;
}

// Notes entries of other files that are ignored because tokenizer_config.json is complete.
static void note_unread(const struct merging *m, const struct companions *c, struct token_notes *t)
{
    const cJSON *item;
    if (!json_get(c->config, "added_tokens_decoder")) return;
    cJSON_ArrayForEach(item, c->added)
    {
        size_t number;
        if (!cJSON_IsNumber(item) || !item->string) continue;
        const bool known = m->items && names_find(&m->known, item->string, &number);
        const cJSON *id = known ? json_get(m->items[number], "id") : NULL;
        if (!id || id->valuedouble != item->valuedouble)
            note(t, "%.40s (%.0f in added_tokens.json)", item->string, item->valuedouble);
    }
    for (int i = 0; i < NAMES; i++) {
        const char *mine = companions_token(c, special_keys[i]);
        const struct companions map = { .config = c->special };
        const char *other = companions_token(&map, special_keys[i]);
        if (other && (!mine || strcmp(mine, other) != 0))
            note(t, "%s (%.40s, not %.40s of special_tokens_map.json)", special_keys[i],
                 mine ? mine : "none", other);
    }
}

static void report(struct buf *notice, struct token_notes *t, const char *what)
{
    if (t->count) {
        buf_printf(notice, "%s%s: %s", notice->length ? "; " : "", what, t->text.data);
        if (t->count > NOTED_MOST) buf_printf(notice, " and %zu more", t->count - NOTED_MOST);
    }
    buf_release(&t->text);
}

static int merge(struct merging *m, const struct companions *c, struct buf *notice, struct err *err)
{
    struct token_notes unread = { 0 };
    cJSON *item;
    m->last = -1;
    cJSON_ArrayForEach(item, m->list)
    {
        const cJSON *text = json_get(item, "content"), *id = json_get(item, "id");
        if (cJSON_IsString(text)) know(m, item, text->valuestring);
        if (cJSON_IsNumber(id)) buf_add(&m->ids, &id->valuedouble, sizeof id->valuedouble);
    }
    const size_t ids = m->ids.length / sizeof(double);
    if (ids) qsort(m->ids.data, ids, sizeof(double), compare_ids);
    const int status = visit_all(m, c->config, false, err) == 0 && put_extras(m, c, err) == 0
                           ? visit_all(m, c->config, true, err)
                           : -1;
    note_unread(m, c, &unread);
    report(
        notice, &m->added,
        "files beside the tokenizer list tokens that it lacks; they are added, as in transformers");
    report(notice, &m->changed,
           "tokenizer_config.json overrides flags of the tokenizer's file, as in transformers 4 "
           "(5 may keep those)");
    report(notice, &m->moved, "the files give tokens different ids; transformers' ids are used");
    report(
        notice, &unread,
        "other files differ from tokenizer_config.json, which alone is used, as in transformers");
    names_release(&m->known);
    names_release(&m->words);
    names_release(&m->special);
    buf_release(&m->ids);
    free(m->word_ids);
    free(m->items);
    return status;
}

int companions_merge(cJSON *json, enum json_source source, const struct companions *c,
                     struct buf *notice, struct err *err)
{
    struct merging m = { .whole = source == FROM_FILE, .own = source == FROM_RANKS };
    m.list = cJSON_GetObjectItemCaseSensitive(json, "added_tokens");
    if (!cJSON_IsObject(json) || (m.list && !cJSON_IsArray(m.list))) return 0; // refused later
    if (!m.list) m.list = cJSON_AddArrayToObject(json, "added_tokens");
    m.vocab = json_get(json_get(json, "model"), "vocab");
    for (const cJSON *item = m.vocab ? m.vocab->child : NULL; item; item = item->next)
        m.word_count++;
    return merge(&m, c, notice, err);
}

// --- beside other files --------------------------------------------------------------------------

int companions_added(struct tokenizer *t, const struct companions *c, size_t words, bool own,
                     struct err *err)
{
    struct buf notice = { 0 };
    struct token_notes after_space = { 0 };
    struct merging m = {
        .list = cJSON_CreateArray(), .t = t, .own = own, .word_count = (double)words
    };
    const cJSON *item;
    int status = merge(&m, c, &notice, err);
    const size_t entries = words + (size_t)cJSON_GetArraySize(m.list);
    cJSON_ArrayForEach(item, m.list)
    {
        struct added token = { 0 };
        if (status == 0) status = added_read(item, &token, err);
        if (status == 0)
            status = id_take(t, json_get(item, "id")->valuedouble, entries, &token.id, err);
        const bool normalized = status == 0 && token.normalized;
        token.normalized = false;
        if (status == 0) status = added_put(t, token, err);
        if (status < 0) break;
        // Matches the unnormalised text; transformers 4 would search the normalised text.
        if (normalized && vocabulary_find(t, token.text, strlen(token.text)) < 0)
            note(&after_space, "%.40s", token.text);
    }
    if (own || cJSON_IsFalse(json_get(c->config, "legacy"))) after_space.count = 0;
    report(&notice, &after_space,
           "added tokens with \"normalized\" match anywhere in a text; transformers 4 matches them "
           "only after a space");
    if (status >= 0 && notice.length) tokenizer_add_notice(t, "%s", notice.data);
    buf_release(&notice);
    cJSON_Delete(m.list);
    return status < 0 ? -1 : 0;
}
