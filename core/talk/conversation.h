// core/talk/conversation.h -- one conversation with a loaded model: messages, pictures, KV cache.
//
// For every answer the whole conversation is rendered to token ids and compared with the cached
// ones: the common prefix is reused, and only the rest is computed. New turns, undo, regen and a
// changed system message need no special handling.
//
// Other code may read the fields of `struct conversation`, but changes them only through the
// functions below. core/talk/answer.h generates answers.
//
// Room core/talk/: a conversation with a model: messages, KV cache, answers. Uses methods, data,
// model and what they use.
#ifndef CORE_TALK_CONVERSATION_H
#define CORE_TALK_CONVERSATION_H

#include "core/base/event.h"
#include "core/base/hash.h"
#include "core/methods/method.h"
#include "core/model/model.h"
#include "core/settings/settings.h"
#include "core/template/message.h"

struct conversation {
    const struct model *model; // NULL: none is loaded, but messages may exist
    char ids_model[HASH_HEX];  // once `model` is NULL: fingerprint of the model to which the token
                               // ids of messages belong
    const struct backend *backend;
    struct message *messages;
    size_t message_count;
    struct picture *pictures;
    size_t picture_count;
    int *waiting; // [waiting_count] pending pictures: attached to the next message
    size_t waiting_count;
    struct picture_limit limit; // of pictures' visual tokens

    struct methods methods; // states of the active methods
    struct kv kv;
    struct sequence cached; // the tokens whose keys and values are in kv
    struct arena step;      // activations
    int number;             // index among conversations computed in turn (graph.conversation)
};

void conversation_init(struct conversation *c, const struct backend *backend);
// Removes messages, pictures and caches; keeps the model.
void conversation_clear(struct conversation *c);
// Sets the model (NULL: none): keeps messages and pictures, drops all computed results. Drops token
// ids of another model (NULL keeps them, as the same model may be loaded again): answers keep their
// text, raw messages stay without ids.
void conversation_set_model(struct conversation *c, const struct model *m);
// True if messages have token ids, which only the same model can use.
bool conversation_has_ids(const struct conversation *c);
void conversation_release(struct conversation *c);
// Copies the first `messages` messages of another conversation, all its pictures and its list of
// pending pictures into c, which is empty and may have another model.
int conversation_copy(struct conversation *c, const struct conversation *from, size_t messages,
                      struct err *err);
// Copies for another model, or for other settings of pictures. Token ids of answers stay valid for
// a model with the same tokens (*same); else their text is tokenised again.
int conversation_copy_for(struct conversation *c, const struct conversation *from, size_t messages,
                          const struct model *model, bool *same, struct err *err);

// --- pictures ------------------------------------------------------------------------------------

// Attaches a picture to the next message: decodes it and counts its visual tokens. Returns its
// index, or -1.
int conversation_attach(struct conversation *c, const char *path, const void *bytes, size_t size,
                        struct err *err);
// The first half of conversation_attach, which may run in any thread: decodes a picture with d, or
// in a separate child process if d is NULL, and keeps a copy of its bytes.
int picture_decode(struct picture *p, struct image_decoder *d, const char *path, const void *bytes,
                   size_t size, struct err *err);
// The second half: attaches a decoded picture by moving it.
int conversation_attach_decoded(struct conversation *c, struct picture *p, struct err *err);
// Gives picture i the pixels of `image`, of the same size, and drops the visual tokens and cached
// rows of the old ones. Takes over `image` and returns the old pixels, which the caller frees.
struct image conversation_swap_pixels(struct conversation *c, int i, struct image image);
// Keeps only the first `count` pending pictures. Frees the others unless a message shows them.
void conversation_detach(struct conversation *c, size_t count);
// Removes a pending picture.
void conversation_detach_one(struct conversation *c, int picture);
// Removes the pictures of m from the pending ones.
void conversation_unwait(struct conversation *c, const struct message *m);
// Moves all pictures of another conversation, which has computed nothing, to this one. None of them
// becomes pending.
void conversation_adopt_pictures(struct conversation *c, struct conversation *from);

// --- messages ------------------------------------------------------------------------------------

// Returns the newest message; NULL: none.
const struct message *conversation_last(const struct conversation *c);
// Appends an empty message. The caller fills it before calling any other function.
struct message *conversation_add(struct conversation *c, enum role role);
// Appends copies of `count` messages. Pictures that they show may remain pending.
void conversation_append(struct conversation *c, const struct message *messages, size_t count);
// Replaces the conversation with the first `count` messages of a sample of the data and all its
// pictures. 0 or -1.
struct dataset;
struct sample;
int conversation_show(struct conversation *c, const struct dataset *data, const struct sample *s,
                      size_t count, struct err *err);
// Sets the system message, which comes first; "" removes it.
void conversation_set_system(struct conversation *c, const char *text);
// Removes the last `count` messages and frees all pictures that are neither shown by a message nor
// pending. Picture indices are not reused, so that an index always means the same picture.
void conversation_drop(struct conversation *c, size_t count);
// Removes and returns the newest message, which must exist; its pictures stay. The caller returns
// it with conversation_put or releases it.
struct message conversation_take(struct conversation *c);
void conversation_put(struct conversation *c, struct message m);

// The state before a call of conversation_say, for undoing the call.
struct said {
    size_t message_count;  // before the call
    bool joined;           // the text was added to the newest message
    struct message former; // if so, a copy of that message before the call
    int *waiting;          // [waiting_count] pending pictures before the call
    size_t waiting_count;
};

// Adds the user's input: text (may be NULL) with the pending pictures, or literal token ids
// (ROLE_RAW). Extends a user message that has no answer yet, otherwise appends a message. *said can
// be passed to conversation_unsay and must be released; NULL: the call will not be undone.
void conversation_say(struct conversation *c, enum role role, const char *text, const int32_t *ids,
                      size_t count, struct said *said);
// Restores the messages and pending pictures before conversation_say.
void conversation_unsay(struct conversation *c, const struct said *said);
void said_release(struct said *said);

// --- boxes (conversation_boxes.c) ----------------------------------------------------------------

struct boxes;
struct box_style;
// Reads the boxes in an answer to the first `messages` messages, not in its reasoning: from the
// answer's ids, special tokens included, or, if it has no ids, from its text. `text` "": only
// reasoning. Returns the index of the last picture that those messages show, to which the boxes
// belong; -1: no picture. *style (may be NULL): how the numbers were read (image.boxes). The caller
// releases b.
int conversation_boxes(const struct conversation *c, size_t messages, const char *text,
                       const struct ids *ids, const struct settings *s,
                       const struct box_style **style, struct boxes *b);

// --- ids -----------------------------------------------------------------------------------------

// Counts the visual tokens of the pictures in these messages. If the number of pictures changes how
// one of them is encoded, drops that picture's computed results.
void conversation_size_pictures(struct conversation *c, const struct message *messages,
                                size_t count);
// Applies image.max_tokens, image.downsample, image.token_budget and image.downsample_mode: if they
// have changed, counts the visual tokens of shown and pending pictures again. Pictures that change
// in shape lose their computed results.
void conversation_limit_pictures(struct conversation *c, const struct settings *s);
// Computes the token ids and positions of the first `messages` messages, with or without a
// generation prompt; sizes their pictures. 0 or -1.
int conversation_sequence(struct conversation *c, size_t messages, const struct settings *s,
                          bool generation_prompt, struct sequence *sequence, struct err *err);
// Locates the texts of these messages in the rows of conversation_sequence; the caller frees *texts
// [*count].
struct prompt_text;
int conversation_texts(const struct conversation *c, size_t messages, const struct settings *s,
                       bool generation_prompt, struct prompt_text **texts, size_t *count,
                       struct err *err);
// Counts the tokens that the chat template appends to an answer of this conversation
// ("<|im_end|>"), which the context must hold too. The prompt has `prompt` tokens.
int conversation_closing(const struct conversation *c, const struct settings *s, int64_t prompt,
                         int64_t *tokens, struct err *err);
// Returns the maximum number of tokens of a conversation with this model (NULL: none yet): ctx.max,
// or for auto the model's limit, at most 8192.
int64_t conversation_limit(const struct model *m, const struct settings *s);
// Returns advice for error messages: ", or raise ctx.max (the model's limit is 4096)" (in `text`)
// if that helps, else "".
const char *conversation_raise(const struct model *m, const struct settings *s, char *text,
                               size_t size);

// --- computed results (conversation_cache.c) -----------------------------------------------------

// Keeps only the first `tokens` tokens in the cache and in the states of methods; fewer if the
// cache can only be cut earlier (kv_reusable). Returns the number of tokens kept.
int64_t conversation_trim(struct conversation *c, int64_t tokens);
// Drops the results that a changed setting made stale.
void conversation_stale(struct conversation *c, enum setting_stale stale);
// Drops the visual tokens of picture i.
void conversation_drop_visual(struct conversation *c, int i);
// Drops cached rows from the first row of picture i on.
void conversation_drop_rows(struct conversation *c, int i);
// Sets the dtype of keys and values; drops cached ones of another dtype.
void conversation_set_dtype(struct conversation *c, enum dtype dtype);
// Trims the cache to the longest prefix of s that is cached and from which the methods can
// continue: at most `most` tokens, and never the last one of s. Returns its length.
int64_t conversation_reuse(struct conversation *c, const struct sequence *s, int64_t most);
// Fills *hooks with the methods that `s` enables, with their states in this conversation and the
// adapter's tensors; the caller may add further listeners. 0 or -1.
int conversation_hooks(struct conversation *c, const struct settings *s,
                       struct method_tensors tensors, struct hooks *hooks, struct err *err);
// Discards the states of methods, which may depend on the model's weights: call it when weights
// have changed.
void conversation_reset_methods(struct conversation *c);
// Returns a graph for passes of this conversation. hooks and cancel may be NULL.
struct graph conversation_graph(struct conversation *c, const struct settings *s,
                                const struct hooks *hooks, const atomic_bool *cancel);

// --- passes (answer.c) ---------------------------------------------------------------------------

// Computes the visual tokens of picture i, and their focus if a hook listens at SITE_FOCUS, and
// keeps both for later turns; does nothing if they are already computed. g is a conversation_graph.
// 0 or -1 (g->err, or cancelled).
int conversation_encode(struct conversation *c, struct graph *g, int i);
// Computes the tokens of s that are not cached, and caches them. Their pictures must be encoded.
// *x: see `want` (decoder_forward); in the arena of g.
int conversation_forward(struct conversation *c, struct graph *g, const struct sequence *s,
                         enum logits_rows want, bool prefill, struct tensor **x);

#endif
