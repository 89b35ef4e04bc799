// core/tokenizer/pieces.c -- reads SentencePiece's tokenizer.model into a struct tokenizer.
//
// The file is a protocol buffer (sentencepiece_model.proto): pieces with scores and types, settings
// of the trainer, and the normaliser. The index of a piece is its id.
//   BPE      merges the pair that forms the piece with the highest score, so every split of a
//            piece into two pieces is a merge, ranked by the score of the whole piece
//   unigram  scores are log-probabilities
// tokenizer_config.json, or else the tokenizer's class, decides whether BOS and EOS are added.
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/tokenizer/tokenizer_parts.h"

enum model_type { UNIGRAM = 1, BPE, WORD, CHAR };

struct piece {
    struct token_text text;
    float score;
    int32_t type; // enum token_type
};

struct proto {
    struct piece *pieces;
    size_t count, capacity;
    // trainer_spec
    int32_t model, bos, eos, byte_fallback, suffix;
    struct token_text unknown_surface;
    // normalizer_spec
    struct token_text charsmap;
    int32_t dummy, squeeze, escape;
    struct token_text denormalizer;
};

// --- protocol buffer ---------------------------------------------------------------------------

enum wire { VARINT, FIXED64, BYTES, FIXED32 = 5 };

struct field {
    uint64_t number, value; // value: set for VARINT
    enum wire wire;
    const char *bytes; // [length], set for other wire types
    size_t length;
};

struct message {
    const char *at, *end;
};

static int read_varint(struct message *m, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 64 && m->at < m->end; shift += 7) {
        const uint8_t byte = (uint8_t)*m->at++;
        *value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) return 0;
    }
    return -1;
}

// Reads the next field: returns 1, 0 at the end, or -1 if the message is broken.
static int read_field(struct message *m, struct field *f)
{
    uint64_t key;
    if (m->at == m->end) return 0;
    if (read_varint(m, &key) < 0) return -1;
    *f = (struct field){ .number = key >> 3, .wire = (enum wire)(key & 7) };
    if (f->wire == VARINT) return read_varint(m, &f->value) < 0 ? -1 : 1;
    f->length = f->wire == FIXED64 ? 8 : 4;
    uint64_t length;
    if (f->wire == BYTES) {
        if (read_varint(m, &length) < 0 || length > (uint64_t)(m->end - m->at)) return -1;
        f->length = (size_t)length;
    } else if (f->wire != FIXED64 && f->wire != FIXED32) {
        return -1;
    }
    if (f->length > (size_t)(m->end - m->at)) return -1;
    f->bytes = m->at;
    m->at += f->length;
    return 1;
}

// Where to store a field: at `offset` of the result, as a token_text (BYTES), int32_t (VARINT) or
// float (FIXED32). The last row has number 0.
struct kept {
    uint64_t number;
    enum wire wire;
    size_t offset;
};

static int read_message(const struct field *message, const struct kept *kept, void *out)
{
    struct message m = { message->bytes, message->bytes + message->length };
    struct field f;
    int more;
    while ((more = read_field(&m, &f)) > 0)
        for (const struct kept *k = kept; k->number; k++) {
            if (k->number != f.number || k->wire != f.wire) continue;
            const struct token_text text = { f.bytes, f.length };
            const uint32_t number = f.wire == VARINT    ? (uint32_t)f.value
                                    : f.wire == FIXED32 ? little_endian(f.bytes)
                                                        : 0;
            if (f.wire == BYTES)
                memcpy((char *)out + k->offset, &text, sizeof text);
            else
                memcpy((char *)out + k->offset, &number, sizeof number);
        }
    return more;
}

static int read_proto(struct proto *p, const char *file, size_t size, struct err *err)
{
    static const struct kept of_piece[] = {
        { 1, BYTES, offsetof(struct piece, text) },
        { 2, FIXED32, offsetof(struct piece, score) },
        { 3, VARINT, offsetof(struct piece, type) },
        { 0 },
    };
    static const struct kept of_trainer[] = {
        { 3, VARINT, offsetof(struct proto, model) },
        { 24, VARINT, offsetof(struct proto, suffix) },
        { 35, VARINT, offsetof(struct proto, byte_fallback) },
        { 41, VARINT, offsetof(struct proto, bos) },
        { 42, VARINT, offsetof(struct proto, eos) },
        { 44, BYTES, offsetof(struct proto, unknown_surface) },
        { 0 },
    };
    static const struct kept of_normalizer[] = {
        { 2, BYTES, offsetof(struct proto, charsmap) },
        { 3, VARINT, offsetof(struct proto, dummy) },
        { 4, VARINT, offsetof(struct proto, squeeze) },
        { 5, VARINT, offsetof(struct proto, escape) },
        { 0 },
    };
    static const struct kept of_denormalizer[] = {
        { 2, BYTES, offsetof(struct proto, denormalizer) },
        { 0 },
    };
    struct message m = { file, file + size };
    struct field f;
    int more;
    *p = (struct proto){
        .model = UNIGRAM, .bos = 1, .eos = 2, .dummy = true, .squeeze = true, .escape = true
    };
    while ((more = read_field(&m, &f)) > 0) {
        if (f.wire != BYTES) continue;
        switch (f.number) {
        case 1:
            p->pieces = xgrow(p->pieces, &p->capacity, p->count, sizeof *p->pieces);
            p->pieces[p->count] = (struct piece){ .type = TOKEN_TYPE_NORMAL };
            more = read_message(&f, of_piece, &p->pieces[p->count++]);
            break;
        case 2: more = read_message(&f, of_trainer, p); break;
        case 3: more = read_message(&f, of_normalizer, p); break;
        case 5: more = read_message(&f, of_denormalizer, p); break;
        }
        if (more < 0) break;
    }
    if (more < 0)
        return err_set(err, "it is not a SentencePiece model, or damaged (near byte %zu of %zu)",
                       (size_t)(m.at - file), size);
    return p->count ? 0 : err_set(err, "it is not a SentencePiece model: it has no pieces");
}

// --- checks -------------------------------------------------------------------------------------

static int check_piece(const struct piece *p, bool byte_fallback, struct err *err)
{
    if (!p->text.length) return err_set(err, "it is empty");
    if (p->text.length > TOKEN_BYTES_MAX)
        return err_set(err, "it has %zu bytes; at most %d are supported", p->text.length,
                       TOKEN_BYTES_MAX);
    if (memchr(p->text.text, 0, p->text.length)) return err_set(err, "it contains a zero byte");
    if (p->type < TOKEN_TYPE_NORMAL || p->type > TOKEN_TYPE_BYTE)
        return err_set(err, "type %d is unknown", p->type);
    if (!isfinite(p->score)) return err_set(err, "its score is not a number");
    if (p->type == TOKEN_TYPE_BYTE && !byte_fallback)
        return err_set(err, "it is a byte, but the model has no byte fallback");
    return 0;
}

// `kind`: NULL if transformers lacks the tokenizer's class.
static int check_proto(const struct proto *p, const struct companions *c,
                       const struct class_kind *kind, struct err *err)
{
    static const char *const models[] = {
        [UNIGRAM] = "unigram", [BPE] = "BPE", [WORD] = "word", [CHAR] = "char"
    };
    const bool known = p->model >= UNIGRAM && p->model <= CHAR;
    if (p->model != UNIGRAM && p->model != BPE)
        return err_set(err, "model type \"%s\" is not supported, only BPE and unigram",
                       known ? models[p->model] : "unknown");
    if (p->denormalizer.length) return err_set(err, "its denormalizer is not supported");
    size_t unknown = 0;
    for (size_t i = 0; i < p->count; i++) {
        if (check_piece(&p->pieces[i], p->byte_fallback, err) < 0)
            return err_in(err, "piece %zu", i);
        unknown += p->pieces[i].type == TOKEN_TYPE_UNKNOWN;
    }
    if (unknown != 1) return err_set(err, "it must have one unknown piece, not %zu", unknown);
    char name[CLASS_NAME_SIZE];
    if (companions_class(c->config, name, err) < 0) return -1;
    if (!kind || kind->flags & CLASS_PIECES) return 0;
    return err_set(err,
                   "tokenizer_class \"%s\" yields ids that differ from the SentencePiece model's; "
                   "vlmsh reads this class only from a tokenizer.json",
                   name);
}

// --- tokens ------------------------------------------------------------------------------------

// True if a configuration file gives the piece's id another text.
static bool overwritten(const struct tokenizer *t, const struct piece *p, size_t id)
{
    return t->tokens[id].length != p->text.length ||
           memcmp(tokenizer_token(t, (int32_t)id), p->text.text, p->text.length) != 0;
}

// Makes control pieces special; also the unknown piece, unless transformers has the class, which
// then names the unknown token. User-defined symbols match in every text unless the configuration
// makes them special.
static int put_symbols(struct tokenizer *t, const struct proto *p, const struct class_kind *kind,
                       struct err *err)
{
    for (size_t i = 0; i < p->count; i++) {
        const struct piece *piece = &p->pieces[i];
        struct added a = { .id = (int32_t)i };
        if (overwritten(t, piece, i)) continue;
        if (piece->type == TOKEN_TYPE_USER && !(t->tokens[i].flags & TOKEN_SPECIAL)) {
            added_list_put(&t->symbols, a, piece->text.text, piece->text.length);
            if (p->model == BPE)
                added_list_put(&t->added_normal, a, piece->text.text, piece->text.length);
            t->tokens[i].flags |= TOKEN_SYMBOL;
        }
        if (piece->type == TOKEN_TYPE_BYTE ||
            (piece->type == TOKEN_TYPE_UNUSED && p->model == UNIGRAM))
            t->tokens[i].flags |= TOKEN_APART;
        a.special =
            piece->type == TOKEN_TYPE_CONTROL || (piece->type == TOKEN_TYPE_UNKNOWN && !kind);
        if (!a.special || t->tokens[i].flags & TOKEN_ADDED) continue;
        a.text = xstrndup(piece->text.text, piece->text.length);
        const int status = added_put(t, a, err);
        free(a.text);
        if (status < 0) return -1;
    }
    added_sort(&t->added);
    added_sort(&t->added_normal);
    added_sort(&t->symbols);
    return 0;
}

// --- models ------------------------------------------------------------------------------------

static int compare_score(const void *a, const void *b)
{
    const struct piece *x = *(const struct piece *const *)a, *y = *(const struct piece *const *)b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return x < y ? -1 : x > y;
}

// Ranks pieces by score; UINT32_MAX: the piece takes no part in merging. Pieces with equal scores
// share a rank, so that the leftmost of their pairs merges first.
static uint32_t *rank_pieces(const struct tokenizer *t, const struct proto *p)
{
    const struct piece **order = xreallocarray(NULL, p->count, sizeof *order);
    uint32_t *rank = xreallocarray(NULL, (size_t)t->size, sizeof *rank), next = 0;
    memset(rank, 0xFF, (size_t)t->size * sizeof *rank);
    for (size_t i = 0; i < p->count; i++) order[i] = &p->pieces[i];
    qsort(order, p->count, sizeof *order, compare_score);
    for (size_t i = 0; i < p->count; i++) {
        if (i && order[i]->score != order[i - 1]->score) next++;
        const size_t id = (size_t)(order[i] - p->pieces);
        const int type = order[i]->type;
        if ((type == TOKEN_TYPE_NORMAL || type == TOKEN_TYPE_USER || type == TOKEN_TYPE_UNUSED) &&
            !overwritten(t, order[i], id))
            rank[id] = next;
    }
    free(order);
    return rank;
}

// Returns the rank of the half that merging forms later. Single characters exist from the start and
// count as rank 0.
static uint32_t later_part(const struct tokenizer *t, const uint32_t *rank, struct halves h)
{
    int32_t c;
    const int32_t id[2] = { h.left, h.right };
    uint32_t latest = 0;
    for (int i = 0; i < 2; i++) {
        const char *text = tokenizer_token(t, id[i]);
        if (utf8_next(text, t->tokens[id[i]].length, &c) == t->tokens[id[i]].length) continue;
        if (rank[id[i]] > latest) latest = rank[id[i]];
    }
    return latest;
}

// Unused pieces take part in merging. If one remains at the end, it is split into two halves,
// where the half that forms later has the lowest rank.
static void fill_unused(struct tokenizer *t, const struct proto *p, const uint32_t *rank)
{
    for (size_t i = 0; i < p->count; i++) {
        if (p->pieces[i].type != TOKEN_TYPE_UNUSED || rank[i] == UINT32_MAX) continue;
        if (!t->unused) t->unused = xcalloc((size_t)t->size, sizeof *t->unused);
        uint32_t best = UINT32_MAX;
        struct merges parts = { 0 };
        merges_of(t, (int32_t)i, rank, &parts);
        for (size_t k = 0; k < parts.count; k++) {
            const uint64_t pair = parts.list[k].pair;
            const struct halves h = { (int32_t)(pair >> 32), (int32_t)(pair & UINT32_MAX) };
            const uint32_t later = later_part(t, rank, h);
            if (later > best) continue; // on ties, keeps the split with the longest left half
            best = later;
            t->unused[i] = h;
        }
        free(parts.list);
    }
}

static int fill_model(struct tokenizer *t, const struct proto *p, struct err *err)
{
    bytes_find(t, p->byte_fallback);
    for (int i = 0; p->byte_fallback && i < 256; i++)
        if (t->byte_id[i] < 0)
            return err_set(err, "it has byte fallback, but no piece <0x%02X>", (unsigned)i);
    t->fuse_unknown = true;
    if (p->model == BPE) {
        uint32_t *rank = rank_pieces(t, p);
        merges_derive(t, rank);
        fill_unused(t, p, rank);
        free(rank);
        t->word = bpe_word;
        return 0;
    }
    struct unigram *u = &t->unigram;
    u->score = xcalloc((size_t)t->size, sizeof *u->score);
    u->single = true;
    float least = FLT_MAX;
    for (size_t i = 0; i < p->count; i++) {
        u->score[i] = (double)p->pieces[i].score;
        if (p->pieces[i].type == TOKEN_TYPE_NORMAL && p->pieces[i].score < least)
            least = p->pieces[i].score;
    }
    u->least = (double)(least - (float)UNKNOWN_PENALTY);
    t->word = unigram_word;
    return unigram_fill(t, err);
}

// --- stages ------------------------------------------------------------------------------------

// Unless "add_prefix_space" is false, Llama's tokenizer adds the dummy prefix to every text between
// special tokens or, if "legacy" is false, only to the first.
static int fill_stages(struct tokenizer *t, const struct proto *p, const struct companions *c,
                       const struct class_kind *kind, struct err *err)
{
    bool legacy, prefix;
    if (json_bool(c->config, "legacy", true, &legacy, err) < 0 ||
        json_bool(c->config, "add_prefix_space", true, &prefix, err) < 0)
        return -1;
    if (!kind || !(kind->flags & CLASS_AROUND))
        prefix = true; // only Llama-like classes read add_prefix_space
    struct normal *n = &t->normals[t->normal_count++];
    n->kind = NORMAL_PIECES;
    n->spaces = (struct space_rules){
        .dummy = !p->dummy || !prefix ? PREPEND_NEVER
                 : legacy             ? PREPEND_ALWAYS
                                      : PREPEND_FIRST,
        .suffix = p->suffix,
        .squeeze = p->squeeze,
        .escape = p->escape,
    };
    struct decode *d = &t->decodes[t->decode_count++];
    d->kind = DECODE_PIECES;
    d->prepend = (p->dummy && prefix) || p->squeeze;
    d->squeeze = p->squeeze;
    const struct token_text *surface = &p->unknown_surface;
    d->text = surface->text ? xstrndup(surface->text, surface->length) : xstrdup(" \xE2\x81\x87 ");
    if (!utf8_valid(d->text, strlen(d->text))) return err_set(err, "unk_surface: invalid UTF-8");
    if (stage_text_check(d->text, "unk_surface", err) < 0) return -1;
    return p->charsmap.length ? charsmap_read(&n->map, p->charsmap.text, p->charsmap.length, err)
                              : 0;
}

static int add_around(struct tokenizer *t, const struct companions *c, const char *key,
                      int32_t otherwise, struct ids *ids, struct err *err)
{
    const char *text = companions_token(c, key);
    int32_t id = text ? tokenizer_id(t, text) : otherwise;
    if (text && id < 0)
        return err_set(err, "tokenizer_config.json: %s \"%.40s\" is not a token", key, text);
    if (id >= 0 && tokenizer_is_special(t, id)) ids_add(ids, id);
    return 0;
}

static int fill_around(struct tokenizer *t, const struct proto *p, const struct companions *c,
                       const struct class_kind *kind, struct err *err)
{
    bool bos, eos;
    if (companions_flag(c->config, "add_bos_token", !kind || kind->flags & CLASS_BOS, &bos, err) <
            0 ||
        companions_flag(c->config, "add_eos_token", kind && kind->flags & CLASS_EOS, &eos, err) < 0)
        return -1;
    if (bos && add_around(t, c, "bos_token", p->bos, &t->before, err) < 0) return -1;
    return eos ? add_around(t, c, "eos_token", p->eos, &t->after, err) : 0;
}

// --- notices of differences from transformers ---------------------------------------------------

// Adds a notice about the rules of the SentencePiece model that transformers loses when its
// LlamaTokenizer converts the model to a tokenizer.json.
static void note_rules(struct tokenizer *t, const struct proto *p)
{
    struct buf rules = { 0 };
    size_t symbols = 0;
    for (size_t i = 0; i < p->count; i++) symbols += p->pieces[i].type == TOKEN_TYPE_USER;
    if (p->charsmap.length) list_put(&rules, "its normaliser");
    if (p->squeeze) list_put(&rules, "squeezed spaces");
    if (!p->dummy) list_put(&rules, "no space before a text");
    if (p->model == UNIGRAM) list_put(&rules, "unigram scores");
    if (symbols) list_put(&rules, "user-defined pieces inside words");
    if (rules.length)
        tokenizer_add_notice(t,
                             "the SentencePiece model's own rules are kept, which transformers' "
                             "fast LlamaTokenizer lacks: %s",
                             rules.data);
    buf_release(&rules);
}

// Adds a notice that lists the flags that the files do not set, with the values used.
static void note_open(struct tokenizer *t, const struct companions *c,
                      const struct class_kind *kind)
{
    const bool around = kind && kind->flags & CLASS_AROUND;
    struct buf open = { 0 };
    if (!cJSON_GetObjectItemCaseSensitive(c->config, "add_bos_token"))
        list_put(&open,
                 t->before.count ? "add_bos_token (true here)" : "add_bos_token (false here)");
    if (around && !json_get(c->config, "legacy")) list_put(&open, "legacy (true here)");
    if (around && cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(c->config, "add_prefix_space")))
        list_put(&open, "add_prefix_space (null is true here, as in 5)");
    if (around && cJSON_IsFalse(json_get(c->config, "add_prefix_space")))
        tokenizer_add_notice(t, "no space is added before a text, because add_prefix_space is "
                                "false; transformers 5 ignores it for some models (LLaVA)");
    if (open.length)
        tokenizer_add_notice(t,
                             "not set in tokenizer_config.json; the defaults differ between "
                             "transformers 4 (used here) and 5: %s",
                             open.data);
    buf_release(&open);
}

// Adds a notice about vocabulary words that the files make special, which no merge can yield.
static void note_words(struct tokenizer *t, const struct proto *p)
{
    struct buf words = { 0 };
    for (size_t i = 0; i < p->count && words.length < 200; i++)
        if (p->pieces[i].type == TOKEN_TYPE_NORMAL && t->tokens[i].flags & TOKEN_SPECIAL &&
            !overwritten(t, &p->pieces[i], i))
            buf_printf(&words, "%s%.40s", words.length ? ", " : "", tokenizer_token(t, (int32_t)i));
    if (words.length)
        tokenizer_add_notice(t,
                             "the files make these vocabulary words special; unlike in "
                             "transformers, other text never merges into them: %s",
                             words.data);
    buf_release(&words);
}

static void note_differences(struct tokenizer *t, const struct proto *p, const struct companions *c,
                             const struct class_kind *kind)
{
    const cJSON *name = json_get(c->config, "tokenizer_class");
    const bool eos = kind && kind->flags & CLASS_EOS;
    note_words(t, p);
    if (kind && kind->flags & CLASS_AROUND) note_rules(t, p);
    if (kind ? !eos : !name) note_open(t, c, kind);
    if (eos && !json_get(c->config, "extra_ids"))
        tokenizer_add_notice(t,
                             "the 100 tokens <extra_id_0> ... that transformers adds to a "
                             "%s without \"extra_ids\" are not added",
                             kind->name);
    if (kind) return;
    int32_t holes = 0;
    for (int32_t id = (int32_t)p->count; id < t->size; id++) holes += t->tokens[id].at == NO_TEXT;
    if (holes)
        tokenizer_add_notice(t,
                             "the files' ids of added tokens leave gaps (%d ids); transformers "
                             "without the model's own code assigns the next free ids",
                             holes);
}

static int fill(struct tokenizer *t, const struct proto *p, const struct companions *c,
                struct err *err)
{
    const struct class_kind *kind = companions_kind(c->config);
    t->unknown = -1;
    if (check_proto(p, c, kind, err) < 0) return -1;
    tables_make(t, p->count);
    for (size_t i = 0; i < p->count; i++) {
        char text[TOKEN_BYTES_MAX + 1];
        snprintf(text, sizeof text, "%.*s", (int)p->pieces[i].text.length, p->pieces[i].text.text);
        int32_t id;
        if (id_take(t, (double)i, p->count, &id, err) < 0 ||
            vocabulary_put(t, id, text, false, err) < 0)
            return err_in(err, "piece %zu", i);
        if (p->pieces[i].type == TOKEN_TYPE_UNKNOWN) t->unknown = id;
    }
    if (companions_added(t, c, p->count, !kind, err) < 0 || put_symbols(t, p, kind, err) < 0 ||
        fill_model(t, p, err) < 0 || fill_stages(t, p, c, kind, err) < 0 ||
        fill_around(t, p, c, kind, err) < 0)
        return -1;
    mark_fused(t);
    note_differences(t, p, c, kind);
    return 0;
}

struct tokenizer *tokenizer_parse_pieces(const char *file, size_t size, const struct companions *c,
                                         const char *name, struct err *err)
{
    struct tokenizer *t = xcalloc(1, sizeof *t);
    struct proto p = { 0 };
    int status = read_proto(&p, file, size, err);
    if (status == 0) status = fill(t, &p, c, err);
    free(p.pieces);
    return tokenizer_done(t, status, name, err);
}

// --- a list of tokens ----------------------------------------------------------------------------

struct tokenizer *tokenizer_list_pieces(const struct token_list *l, const char *name,
                                        struct err *err)
{
    struct tokenizer *t = xcalloc(1, sizeof *t);
    struct companions c = { .config = cJSON_CreateObject() };
    cJSON_AddBoolToObject(c.config, "add_bos_token", l->add_bos);
    cJSON_AddBoolToObject(c.config, "add_eos_token", l->add_eos);
    struct proto p = { .model = BPE,
                       .bos = l->bos,
                       .eos = l->eos,
                       .byte_fallback = true,
                       .dummy = l->prefix,
                       .squeeze = l->squeeze,
                       .escape = true,
                       .count = l->count,
                       .pieces = xcalloc(l->count + 1, sizeof *p.pieces) };
    for (size_t i = 0; i < l->count; i++)
        p.pieces[i] = (struct piece){ l->tokens[i], l->scores[i], l->types[i] };
    const int status = fill(t, &p, &c, err);
    cJSON_Delete(c.config);
    free(p.pieces);
    return tokenizer_done(t, status, name, err);
}
