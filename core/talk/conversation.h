// core/talk/conversation.h -- one conversation with a loaded model: messages, pictures, KV cache.
//
// The whole conversation is rendered to ids for every answer and compared with the ids whose keys
// and values are in the cache: the common beginning is reused, only the rest is computed. New
// turns, undo, regen, another system message all need nothing more than that comparison.
//
// Others read the fields of `struct conversation` as they like and change them only through the
// functions below; answers are asked for through core/talk/answer.h.
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
    struct sequence cached; // the tokens whose keys and values are in kv
    struct arena step;      // activations
};

void conversation_init(struct conversation *c, const struct backend *backend);
// Messages, pictures and caches are gone; the model stays.
void conversation_clear(struct conversation *c);
// Another model (or NULL): messages and pictures stay, everything computed is dropped.
void conversation_set_model(struct conversation *c, const struct model *m);
void conversation_release(struct conversation *c);
// The first `messages` messages of another one, all its pictures and which of them wait, into one
// that is empty and may have another model.
int conversation_copy(struct conversation *c, const struct conversation *from, size_t messages,
                      struct err *err);

// --- pictures ------------------------------------------------------------------------------------

// A picture for the next message: decoded, counted. Its index, or -1.
int conversation_attach(struct conversation *c, const char *path, const void *bytes, size_t size,
                        struct err *err);
// Of the pictures that wait only the first `count` go on waiting. Those that no message shows are
// given back.
void conversation_detach(struct conversation *c, size_t count);
// The pictures that m shows wait no longer.
void conversation_unwait(struct conversation *c, const struct message *m);
// Moves all pictures of another conversation, which has computed nothing, behind those that are
// here. None of them waits.
void conversation_adopt_pictures(struct conversation *c, struct conversation *from);

// --- messages ------------------------------------------------------------------------------------

// The newest message; NULL: there is none.
const struct message *conversation_last(const struct conversation *c);
// An empty message at the end, for the caller to fill before anything else is called.
struct message *conversation_add(struct conversation *c, enum role role);
// Copies of `count` messages at the end. Pictures they show may go on waiting.
void conversation_append(struct conversation *c, const struct message *messages, size_t count);
// The system message in front becomes `text`; "" removes it.
void conversation_set_system(struct conversation *c, const char *text);
// Takes the last `count` messages away. Their pictures keep their index, so that an index always
// means the same picture; their memory is given back.
void conversation_drop(struct conversation *c, size_t count);
// The newest message, which must be there, for conversation_put to bring back or the caller to
// release. Its pictures stay.
struct message conversation_take(struct conversation *c);
void conversation_put(struct conversation *c, struct message m);

// The end of a conversation before conversation_say.
struct said {
    size_t message_count;
    bool joined;           // to the newest message
    struct message former; // a copy of that message as it was
    int *waiting;          // [waiting_count]
    size_t waiting_count;
};

// What a person says: text (may be NULL) with the pictures that wait, or ids as they are
// (ROLE_RAW). It joins a user message that has no answer yet, else it is a message of its own.
// *said is for conversation_unsay and said_release; NULL: nobody takes it back.
void conversation_say(struct conversation *c, enum role role, const char *text, const int32_t *ids,
                      size_t count, struct said *said);
// All messages and waiting pictures are as before.
void conversation_unsay(struct conversation *c, const struct said *said);
void said_release(struct said *said);

// --- ids -----------------------------------------------------------------------------------------

// Counts the visual tokens of the pictures that these messages show. Where another number of
// pictures beside one changes how it is encoded, what was computed of it is dropped.
void conversation_place(struct conversation *c, const struct message *messages, size_t count);
// Ids and places of the first `messages` messages, with a generation prompt or without; their
// pictures are placed.
int conversation_sequence(struct conversation *c, size_t messages, const struct settings *s,
                          bool generation_prompt, struct sequence *sequence, struct err *err);
// Tokens that the layout writes behind an answer to the conversation as it stands, whose prompt has
// `prompt` tokens ("<|im_end|>"): they need room too.
int conversation_closing(const struct conversation *c, const struct settings *s, int64_t prompt,
                         int64_t *tokens, struct err *err);
// Tokens that a conversation with this model (NULL: none yet) may hold: ctx.max, or the model's
// limit where that is auto.
int64_t conversation_limit(const struct model *m, const struct settings *s);
// ", or raise ctx.max (the model's limit is 4096)" where that is possible, else ""; for errors.
const char *conversation_raise(const struct model *m, const struct settings *s, char *text,
                               size_t size);

// --- what is computed (conversation_pass.c) ------------------------------------------------------

// Only the first `tokens` of what is computed stay: in the cache, and in what methods keep.
void conversation_trim(struct conversation *c, int64_t tokens);
// Drops what a changed setting made stale.
void conversation_stale(struct conversation *c, enum setting_stale stale);
// Forgets the visual tokens of picture i.
void conversation_drop_visual(struct conversation *c, int i);
// Forgets what is computed of the rows of picture i and of those behind them.
void conversation_drop_rows(struct conversation *c, int i);
// Keys and values of this dtype: those of another are dropped.
void conversation_set_dtype(struct conversation *c, enum dtype dtype);
// What is computed of the tokens that s begins with stays, as far as methods can go on from it, at
// most `most` of them. How many they are.
int64_t conversation_reuse(struct conversation *c, const struct sequence *s, int64_t most);
// *hooks: the methods that `s` switches on, with what they keep of this conversation and the
// adapter's tensors; who else listens is added behind.
int conversation_hooks(struct conversation *c, const struct settings *s,
                       struct method_tensors tensors, struct hooks *hooks, struct err *err);
// Methods forget what they keep: the model's weights have changed, and they may have used them.
void conversation_forget_methods(struct conversation *c);
// What a pass of this conversation computes in. hooks and cancel may be NULL.
struct graph conversation_graph(struct conversation *c, const struct settings *s,
                                const struct hooks *hooks, const atomic_bool *cancel);
// Computes the visual tokens of picture i, for later turns too; nothing when they are there. g is a
// conversation_graph. 0 or -1 (g->err, or cancelled).
int conversation_encode(struct conversation *c, struct graph *g, int i);
// Computes the tokens of s behind those in the cache, which has them all afterwards. Pictures among
// them must be encoded. *x as `want` says (decoder_forward), in the arena of g.
int conversation_forward(struct conversation *c, struct graph *g, const struct sequence *s,
                         enum logits_rows want, bool prefill, struct tensor **x);

#endif
