// core/talk/conversation.h -- one conversation with a loaded model: messages, pictures, KV cache.
//
// The whole conversation is rendered to ids for every answer and compared with the ids whose keys
// and values are in the cache: the common beginning is reused, only the rest is computed. New
// turns, undo, regen, another system message all need nothing more than that comparison.
//
// Room core/talk/: a conversation with a model: messages, KV cache, answers. It uses methods, data,
// model and what they use.
#ifndef CORE_TALK_CONVERSATION_H
#define CORE_TALK_CONVERSATION_H

#include "core/base/event.h"
#include "core/methods/method.h"
#include "core/model/model.h"
#include "core/text/message.h"

struct conversation {
    const struct model *model; // NULL: nothing loaded; messages can still be there
    const struct backend *backend;
    struct message *messages;
    size_t message_count;
    struct picture *pictures;
    size_t picture_count;
    int *waiting; // pictures attached to the next message
    size_t waiting_count;

    struct methods methods; // states of the methods that are on
    struct kv kv;
    struct sequence cached; // what the rows in kv are
    struct arena step;      // activations
};

void conversation_init(struct conversation *c, const struct backend *backend);
// Messages, pictures and caches are gone; the model stays.
void conversation_clear(struct conversation *c);
// Another model (or NULL): messages and pictures stay, everything computed is dropped.
void conversation_set_model(struct conversation *c, const struct model *m);
void conversation_release(struct conversation *c);

// A picture for the next message: decoded, counted. Its index, or -1.
int conversation_attach(struct conversation *c, const char *path, const void *bytes, size_t size,
                        struct err *err);
// Moves all pictures of another conversation, which has computed nothing, behind those that are
// here. None of them waits.
void conversation_adopt_pictures(struct conversation *c, struct conversation *from);
struct message *conversation_add(struct conversation *c, enum role role); // empty message
// The first `messages` messages of another one and all its pictures, into one that is empty and may
// have another model.
int conversation_copy(struct conversation *c, const struct conversation *from, size_t messages,
                      struct err *err);
// Takes the last `count` messages away. Their pictures keep their index, so that an index always
// means the same picture; their memory is given back.
void conversation_drop(struct conversation *c, size_t count);
// Only the first `rows` of what is computed stay: in the cache, and in what methods keep.
void conversation_trim(struct conversation *c, int64_t rows);
// Drops what a changed setting made stale.
void conversation_stale(struct conversation *c, enum setting_stale stale);

// Ids and places of the conversation as it stands, with a generation prompt or without.
int conversation_sequence(const struct conversation *c, const struct settings *s,
                          bool generation_prompt, struct sequence *sequence, struct err *err);

// Rows that the layout writes behind an answer to the conversation as it stands, whose prompt has
// `prompt` rows ("<|im_end|>"): they need room too.
int conversation_closing(const struct conversation *c, const struct settings *s, int64_t prompt,
                         int64_t *rows, struct err *err);

// Tokens the conversation may hold: ctx.max, or the model's limit where that is auto.
int64_t conversation_limit(const struct conversation *c, const struct settings *s);
// ", or raise ctx.max (the model's limit is 4096)" where that is possible, else ""; for errors.
const char *conversation_raise(const struct conversation *c, const struct settings *s, char *text,
                               size_t size);

// Visual tokens of picture i, kept for later turns; nothing when they are there. g->arena is
// c->step. 0 or -1 (g->err, or cancelled).
int conversation_encode(struct conversation *c, struct graph *g, int i);

// What became of the settings in the middle of an answer. CHANGE_PASS: prompt and answer so far are
// computed again, as far as they are not cached any more or methods say so.
enum answer_change { CHANGE_NONE, CHANGE_SETTINGS, CHANGE_PASS, CHANGE_FAILED };

struct answer_options {
    bool forward_only; // prefill, no generation
    bool all_logits;   // every row's logits (a probe asks)
    bool whole;        // compute the prompt and its pictures from their first row (a probe asks)
    bool kept, again;  // for EVENT_ANSWER
    void (*sequence)(void *self, const struct sequence *s); // told the prompt before it is computed
    void *self;
    const int32_t
        *given; // [given_count] the first tokens of the answer; the model goes on from there
    size_t given_count;
    // Asked before each token is chosen, when `tokens` are there: may change settings, hooks and
    // cache (conversation_stale). CHANGE_FAILED with a message ends the answer. May be NULL.
    enum answer_change (*change)(void *self, int64_t tokens, struct err *err);
    void *change_self;
};

// Answers the conversation as it stands (its last message is the user's): prefill, then tokens
// until eos, sample.max_tokens, the context's end or cancel; emits EVENT_TOKEN and EVENT_ANSWER and
// appends the assistant's message. On error the conversation is as before.
int conversation_answer(struct conversation *c, const struct settings *settings,
                        const struct hooks *hooks, const atomic_bool *cancel,
                        const struct answer_options *options, const struct sinks *sinks,
                        bool *answered, struct err *err);

#endif
