// core/tokenizer/build.c -- fills a tokenizer's tables, for the readers of all formats: texts and
// ids, merges, added tokens.
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/text.h"
#include "core/tokenizer/tokenizer_parts.h"

// --- vocabulary --------------------------------------------------------------------------------

static void tables_grow(struct tokenizer *t, int32_t size)
{
    if (size > t->capacity) {
        t->capacity = size + size / 8;
        t->tokens = xreallocarray(t->tokens, (size_t)t->capacity, sizeof *t->tokens);
    }
    for (; t->size < size; t->size++) t->tokens[t->size] = (struct token){ .at = NO_TEXT };
}

void tables_make(struct tokenizer *t, size_t words)
{
    size_t slots = 16;
    while (slots < 2 * words) slots *= 2;
    t->slots = xreallocarray(NULL, slots, sizeof *t->slots);
    for (size_t i = 0; i < slots; i++) t->slots[i].id = -1;
    t->slot_mask = (uint32_t)slots - 1;
    t->seed = names_seed();
    t->char_id = xreallocarray(NULL, 65536, sizeof *t->char_id);
    for (size_t i = 0; i < 65536; i++) t->char_id[i] = -1;
    t->marks_apart = true;
}

int id_check(double id, size_t entries, int32_t *checked, struct err *err)
{
    if (!(id >= 0 && id < 4.0 * (double)entries + 65536) || id != (double)(int32_t)id)
        return err_set(err,
                       "an id is not a number, is negative, or far exceeds the number of tokens");
    *checked = (int32_t)id;
    return 0;
}

int id_take(struct tokenizer *t, double id, size_t entries, int32_t *checked, struct err *err)
{
    if (id_check(id, entries, checked, err) < 0) return -1;
    tables_grow(t, *checked + 1);
    return 0;
}

static void set_text(struct tokenizer *t, int32_t id, const char *text)
{
    t->tokens[id].at = (int64_t)t->texts.length;
    t->tokens[id].length = (uint32_t)strlen(text);
    buf_add(&t->texts, text, t->tokens[id].length + 1);
    t->tokens[id].flags &= (uint8_t)~TOKEN_NORMAL;
}

static bool crosses_mark(const char *text)
{
    for (const char *p = strstr(text, MARK); p; p = strstr(p + 3, MARK))
        if (p > text && (p < text + 3 || memcmp(p - 3, MARK, 3) != 0)) return true;
    return false;
}

int vocabulary_put(struct tokenizer *t, int32_t id, const char *text, bool again, struct err *err)
{
    size_t length = strlen(text);
    int32_t c;
    if (!utf8_valid(text, length)) return err_set(err, "invalid UTF-8");
    if (length > VOCAB_BYTES_MAX)
        return err_set(err, "token %d has %zu bytes; at most %d are supported", id, length,
                       VOCAB_BYTES_MAX);
    if (t->tokens[id].at != NO_TEXT)
        return err_set(err, "\"%.40s\" and \"%.40s\" have the same id %d", tokenizer_token(t, id),
                       text, id);
    set_text(t, id, text);
    int32_t former = vocabulary_find(t, text, length);
    if (former >= 0 && !again)
        return err_set(err, "\"%.40s\" appears twice, with ids %d and %d", text, former, id);
    vocabulary_add(t, id, former);
    if (crosses_mark(text)) t->marks_apart = false;
    if (length && utf8_next(text, length, &c) == length && c < 65536) t->char_id[c] = id;
    return 0;
}

void bytes_find(struct tokenizer *t, bool fallback)
{
    for (int i = 0; i < 256; i++) {
        char name[8] = {
            '<', '0', 'x', "0123456789ABCDEF"[i >> 4], "0123456789ABCDEF"[i & 15], '>'
        };
        t->byte_id[i] = fallback ? vocabulary_find(t, name, 6) : -1;
    }
}

// --- merges ------------------------------------------------------------------------------------

void merges_make(struct tokenizer *t, size_t count)
{
    size_t slots = 16;
    while (slots * 5 < count * 8) slots *= 2; // at most 5/8 full
    t->merges = xreallocarray(NULL, slots, sizeof *t->merges);
    for (size_t i = 0; i < slots; i++) t->merges[i].pair = UINT64_MAX;
    t->merge_mask = (uint32_t)slots - 1;
}

void merges_of(const struct tokenizer *t, int32_t id, const uint32_t *rank, struct merges *out)
{
    const char *text = tokenizer_token(t, id);
    size_t length = t->tokens[id].length;
    int32_t c;
    for (size_t i = utf8_next(text, length, &c); i < length;
         i += utf8_next(text + i, length - i, &c)) {
        int32_t left = vocabulary_find(t, text, i);
        if (left < 0 || rank[left] == UINT32_MAX) continue;
        int32_t right = vocabulary_find(t, text + i, length - i);
        if (right < 0 || rank[right] == UINT32_MAX) continue;
        out->list = xgrow(out->list, &out->capacity, out->count, sizeof *out->list);
        out->list[out->count++] = (struct merge){ merge_pair(left, right), rank[id], id };
    }
}

void merges_derive(struct tokenizer *t, const uint32_t *rank)
{
    struct merges all = { 0 };
    for (int32_t id = 0; id < t->size; id++)
        if (rank[id] != UINT32_MAX && !(t->tokens[id].flags & TOKEN_SPECIAL))
            merges_of(t, id, rank, &all);
    merges_make(t, all.count);
    for (size_t i = 0; i < all.count; i++) merge_add(t, all.list[i]);
    free(all.list);
}

// --- added tokens ------------------------------------------------------------------------------

void added_sort(struct added_list *list)
{
    text_sort(list->tokens, list->count, sizeof *list->tokens);
    for (size_t i = 0; i < list->count; i++) list->first[(uint8_t)list->tokens[i].text[0] + 1]++;
    for (size_t i = 0; i < 256; i++) list->first[i + 1] += list->first[i];
}

void added_list_put(struct added_list *list, struct added token, const char *text, size_t length)
{
    token.text = xstrndup(text, length);
    token.length = length;
    list->tokens = xgrow(list->tokens, &list->capacity, list->count, sizeof *list->tokens);
    list->tokens[list->count++] = token;
    list->special |= token.special;
}

int added_read(const cJSON *item, struct added *a, struct err *err)
{
    const char *text;
    *a = (struct added){ .id = -1 };
    if (json_text(item, "content", NULL, &text, err) < 0 ||
        json_bool(item, "special", false, &a->special, err) < 0 ||
        json_bool(item, "normalized", !a->special, &a->normalized, err) < 0 ||
        json_bool(item, "lstrip", false, &a->lstrip, err) < 0 ||
        json_bool(item, "rstrip", false, &a->rstrip, err) < 0 ||
        json_bool(item, "single_word", false, &a->single_word, err) < 0)
        return -1;
    if (!text) return err_set(err, "\"content\" is missing");
    if (!utf8_valid(text, strlen(text))) return err_set(err, "content: invalid UTF-8");
    if (strlen(text) > TOKEN_BYTES_MAX)
        return err_set(err, "an added token has %zu bytes; at most %d are supported", strlen(text),
                       TOKEN_BYTES_MAX);
    a->text = json_get(item, "content")->valuestring;
    return 0;
}

int added_put(struct tokenizer *t, struct added a, struct err *err)
{
    const char *text = a.text;
    // As in the reference implementation, a token of the vocabulary keeps its id.
    const size_t length = strlen(text);
    int32_t known = vocabulary_find(t, text, length), c;
    if (known >= 0) a.id = known;
    const char *former = tokenizer_token(t, a.id);
    if (!former || strcmp(former, text) != 0) set_text(t, a.id, text);
    t->tokens[a.id].flags |= (uint8_t)(TOKEN_ADDED | (a.special ? TOKEN_SPECIAL : 0));
    // Typed text must not encode to a special token, even one of a single character.
    if (a.special && utf8_next(text, length, &c) == length && c < 65536) t->char_id[c] = -1;
    if (!a.normalized) {
        added_list_put(&t->added, a, text, length);
        return 0;
    }
    struct encoder e = { .t = t, .err = err };
    const char *normal;
    size_t normal_length;
    search_start(&e.search, length);
    e.search.most =
        (size_t)2 * STAGE_TEXT_MAX * (length + 1); // 64 KB for each token would be too much
    if (t->normalising == 0) t->normalising = search_clock();
    e.search.began = t->normalising;
    int status = normal_run(&e, text, length, &normal, &normal_length);
    if (status == 0 && normal_length) added_list_put(&t->added_normal, a, normal, normal_length);
    if (status == 0 && (normal_length != length || memcmp(text, normal, length) != 0)) {
        set_text(t, a.id, text);
        buf_add(&t->texts, normal, normal_length);
        buf_add(&t->texts, "", 1);
        t->tokens[a.id].flags |= TOKEN_NORMAL;
    }
    encoder_release(&e);
    return status < 0 ? err_in(err, "added token \"%.40s\"", text) : 0;
}

// --- stages ------------------------------------------------------------------------------------

int stages_full(int count, struct err *err)
{
    return count < STAGES_MAX ? 0 : err_set(err, "more than %d stages", STAGES_MAX);
}

int stage_text_check(const char *text, const char *where, struct err *err)
{
    const size_t length = strlen(text);
    if (length <= STAGE_TEXT_MAX) return 0;
    return err_set(err, "\"%s\" has %zu bytes; at most %d are supported", where, length,
                   STAGE_TEXT_MAX);
}

void mark_fused(struct tokenizer *t)
{
    if (!t->decode_count) t->decodes[t->decode_count++].kind = DECODE_SPACES;
    bool fused = false;
    for (int i = 0; i < t->decode_count; i++) {
        t->decodes[i].fused = fused;
        fused |= t->decodes[i].kind == DECODE_FUSE || t->decodes[i].kind == DECODE_BYTES;
    }
}

struct tokenizer *tokenizer_done(struct tokenizer *t, int status, const char *name, struct err *err)
{
    if (status == 0) return t;
    err_in(err, "tokenizer '%s'", name);
    tokenizer_free(t);
    return NULL;
}

void list_put(struct buf *b, const char *text)
{
    buf_printf(b, "%s%s", b->length ? ", " : "", text);
}
