// core/talk/conversation.c -- messages, pictures and what of them is already computed.
//
// The answer itself (prefill, generation) is core/talk/answer.c.
#include "core/talk/conversation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/model/families/family.h"
#include "core/settings/settings.h"

static const char *const word_auto[] = { "auto", NULL };

const struct setting ctx_settings[] = {
    { "ctx.max", SETTING_INTEGER, 1, 1e8, "auto", "tokens", word_auto, STALE_NEXT,
      "Context size of a conversation; auto is the model's limit, at most 8192." },
    { 0 },
};

void conversation_init(struct conversation *c, const struct backend *backend)
{
    *c = (struct conversation){ .backend = backend, .step = { .backend = backend } };
}

static void visual_drop(struct conversation *c, struct picture *p)
{
    c->backend->release(p->visual.data);
    p->visual = (struct tensor){ 0 };
}

void conversation_trim(struct conversation *c, int64_t rows)
{
    if (rows)
        kv_trim(&c->kv, rows);
    else
        kv_clear(&c->kv); // what comes next may need less memory
    methods_trim(&c->methods, rows);
    sequence_trim(&c->cached, rows);
}

void conversation_clear(struct conversation *c)
{
    for (size_t i = 0; i < c->message_count; i++) message_release(&c->messages[i]);
    free(c->messages);
    for (size_t i = 0; i < c->picture_count; i++) {
        visual_drop(c, &c->pictures[i]);
        picture_release(&c->pictures[i]);
    }
    free(c->pictures);
    free(c->waiting);
    c->messages = NULL;
    c->pictures = NULL;
    c->waiting = NULL;
    c->message_count = c->picture_count = c->waiting_count = 0;
    conversation_trim(c, 0);
}

void conversation_release(struct conversation *c)
{
    conversation_clear(c);
    methods_release(&c->methods);
    kv_release(&c->kv);
    sequence_release(&c->cached);
    arena_release(&c->step);
}

// Answers and raw ids of the former model mean nothing to another tokenizer: answers keep their
// text.
static void forget_ids(struct conversation *c)
{
    size_t kept = 0;
    for (size_t i = 0; i < c->message_count; i++) {
        struct message *m = &c->messages[i];
        if (m->role == ROLE_RAW) {
            message_release(m);
            continue;
        }
        m->generated = false;
        ids_clear(&m->ids);
        c->messages[kept++] = *m;
    }
    c->message_count = kept;
}

static int64_t count_tokens(const struct model *m, const struct picture *p)
{
    if (!m || !m->family->picture_tokens) return 0;
    return m->family->picture_tokens(m, p->image.width, p->image.height);
}

void conversation_set_model(struct conversation *c, const struct model *m)
{
    bool same =
        m && c->model && !strcmp(m->checkpoint->fingerprint, c->model->checkpoint->fingerprint);
    if (!same) forget_ids(c);
    conversation_stale(c, STALE_VISUAL);
    methods_release(&c->methods);
    kv_release(&c->kv);
    c->model = m;
    if (m) decoder_cache(&m->decoder, c->backend, &c->kv);
    for (size_t i = 0; i < c->picture_count; i++)
        c->pictures[i].tokens = count_tokens(m, &c->pictures[i]);
}

int conversation_attach(struct conversation *c, const char *path, const void *bytes, size_t size,
                        struct err *err)
{
    const char *name = strcmp(path, "-") ? path : "standard input";
    if (c->model && !model_sees(c->model))
        return err_set(err, "the model '%s' reads text only: it cannot see '%s'", c->model->name,
                       name);
    struct picture p = { 0 };
    if (image_decode(&p.image, bytes, size, name, err) < 0) return -1;
    p.path = xstrdup(path);
    hash_hex(bytes, size, p.sha256);
    p.bytes = xmalloc(size);
    memcpy(p.bytes, bytes, size);
    p.size = size;
    p.tokens = count_tokens(c->model, &p);
    c->pictures = xreallocarray(c->pictures, c->picture_count + 1, sizeof *c->pictures);
    c->pictures[c->picture_count] = p;
    c->waiting = xreallocarray(c->waiting, c->waiting_count + 1, sizeof *c->waiting);
    c->waiting[c->waiting_count++] = (int)c->picture_count;
    return (int)c->picture_count++;
}

void conversation_adopt_pictures(struct conversation *c, struct conversation *from)
{
    const size_t count = c->picture_count + from->picture_count;
    c->pictures = xreallocarray(c->pictures, count + 1, sizeof *c->pictures);
    for (size_t i = 0; i < from->picture_count; i++) {
        struct picture *p = &c->pictures[c->picture_count++];
        *p = from->pictures[i];
        p->tokens = count_tokens(c->model, p);
    }
    from->picture_count = from->waiting_count = 0;
}

struct message *conversation_add(struct conversation *c, enum role role)
{
    c->messages = xreallocarray(c->messages, c->message_count + 1, sizeof *c->messages);
    struct message *m = &c->messages[c->message_count++];
    *m = (struct message){ .role = role };
    return m;
}

static bool picture_used(const struct conversation *c, int picture)
{
    for (size_t i = 0; i < c->waiting_count; i++)
        if (c->waiting[i] == picture) return true;
    for (size_t i = 0; i < c->message_count; i++)
        for (size_t k = 0; k < c->messages[i].part_count; k++)
            if (!c->messages[i].parts[k].text && c->messages[i].parts[k].picture == picture)
                return true;
    return false;
}

int conversation_copy(struct conversation *c, const struct conversation *from, size_t messages,
                      struct err *err)
{
    for (size_t i = 0; i < from->picture_count; i++) {
        const struct picture *p = &from->pictures[i];
        // One of a message that was taken back has no bytes: only its number is needed.
        if (!p->bytes) {
            c->pictures = xreallocarray(c->pictures, c->picture_count + 1, sizeof *c->pictures);
            c->pictures[c->picture_count++] = (struct picture){ 0 };
        } else if (conversation_attach(c, p->path, p->bytes, p->size, err) < 0) {
            return -1;
        }
    }
    c->waiting_count = 0;
    for (size_t i = 0; i < messages; i++)
        message_copy(conversation_add(c, from->messages[i].role), &from->messages[i]);
    return 0;
}

void conversation_drop(struct conversation *c, size_t count)
{
    while (count-- && c->message_count) message_release(&c->messages[--c->message_count]);
    for (size_t i = 0; i < c->picture_count; i++) {
        if (picture_used(c, (int)i)) continue;
        visual_drop(c, &c->pictures[i]);
        picture_release(&c->pictures[i]);
    }
}

// Rows before the first visual token: no method reaches them.
static int64_t first_visual(const struct sequence *s)
{
    int64_t i = 0;
    while (i < s->n && s->picture[i] < 0) i++;
    return i;
}

void conversation_stale(struct conversation *c, enum setting_stale stale)
{
    const int64_t rows = stale == STALE_SEEN ? first_visual(&c->cached) : 0;
    if (stale < STALE_SEEN) return;
    conversation_trim(c, rows);
    // A pass that was stopped where pruning put other rows into some layers left them empty.
    if (rows && !kv_whole(&c->kv, 0, rows)) conversation_trim(c, 0);
    if (stale != STALE_VISUAL) return;
    for (size_t i = 0; i < c->picture_count; i++) visual_drop(c, &c->pictures[i]);
}

int64_t conversation_limit(const struct conversation *c, const struct settings *s)
{
    if (!settings_is(s, "ctx.max", "auto")) return settings_integer(s, "ctx.max");
    int64_t limit = c->model ? c->model->decoder.config.max_positions : 0;
    return limit > 0 && limit < 8192 ? limit : 8192;
}

const char *conversation_raise(const struct conversation *c, const struct settings *s, char *text,
                               size_t size)
{
    const int64_t most = c->model ? c->model->decoder.config.max_positions : 0;
    snprintf(text, size, ", or raise ctx.max (the model's limit is %lld)", (long long)most);
    return conversation_limit(c, s) < most ? text : "";
}

static int check_pictures(const struct conversation *c, struct err *err)
{
    if (model_sees(c->model)) return 0;
    for (size_t i = 0; i < c->message_count; i++)
        for (size_t k = 0; k < c->messages[i].part_count; k++)
            if (!c->messages[i].parts[k].text)
                return err_set(err,
                               "the conversation has pictures and the model '%s' reads text only: "
                               "/clear, or /load a model that sees",
                               c->model->name);
    return 0;
}

int conversation_sequence(const struct conversation *c, const struct settings *s,
                          bool generation_prompt, struct sequence *sequence, struct err *err)
{
    const struct model *m = c->model;
    if (!m) return err_set(err, "no model is loaded: /load MODEL");
    if (check_pictures(c, err) < 0) return -1;
    struct prompt_options options;
    bool raw = c->message_count && c->messages[c->message_count - 1].role == ROLE_RAW;
    if (model_prompt(m, s, generation_prompt && !raw, &options, err) < 0) return -1;
    if (prompt_sequence(c->messages, c->message_count, c->pictures, c->picture_count, m->tokenizer,
                        &options, sequence, err) < 0)
        return -1;
    if (m->family->positions) m->family->positions(m, sequence);
    return 0;
}

int conversation_closing(const struct conversation *c, const struct settings *s, int64_t prompt,
                         int64_t *rows, struct err *err)
{
    const struct model *m = c->model;
    int32_t id = 0; // any token: an answer is cut off from the text around it
    struct prompt_options options;
    struct sequence all = { 0 };
    if (model_prompt(m, s, false, &options, err) < 0) return -1;
    struct message *list = xreallocarray(NULL, c->message_count + 1, sizeof *list);
    for (size_t i = 0; i < c->message_count; i++) list[i] = c->messages[i];
    list[c->message_count] = (struct message){ .role = ROLE_ASSISTANT,
                                               .generated = true,
                                               .ids = { .data = &id, .count = 1 } };
    const int status = prompt_sequence(list, c->message_count + 1, c->pictures, c->picture_count,
                                       m->tokenizer, &options, &all, err);
    *rows = all.n - prompt - 1;
    sequence_release(&all);
    free(list);
    return status;
}
