// core/engine/engine.h -- what tui/ and commands/ see of the core: a model, a conversation,
// settings.
//
//   struct engine *e = engine_new(backend_cpu(), &sinks);
//   engine_load(e, "/models/llava-1.5-7b-hf", &err);
//   engine_attach(e, "cat.png", &err);
//   engine_ask(e, "What is this?", &err);      // emits EVENT_TOKEN..., EVENT_ANSWER
//
// No tensor is read or computed with beyond this border. Everything that happens is told to the
// sinks. A failed call leaves model, conversation and settings as they were. engine_cancel may be
// called from a signal handler or another thread, engine_post from another thread; all else belongs
// to one thread.
//
// Room core/engine/: all that commands and front ends see of a model, its conversation and its
// settings; presets. It uses adapter, probes, talk and what they use.
#ifndef CORE_ENGINE_ENGINE_H
#define CORE_ENGINE_ENGINE_H

#include "core/adapter/adapters.h"
#include "core/adapter/model_write.h"
#include "core/settings/changes.h"
#include "core/settings/settings.h"
#include "core/talk/conversation.h"

struct engine;

struct engine *engine_new(const struct backend *backend, struct sinks *sinks);
void engine_free(struct engine *e);

// Model.
int engine_load(struct engine *e, const char *name, struct err *err); // emits progress
void engine_unload(struct engine *e);
int engine_load_tokenizer(struct engine *e, const char *path, struct err *err);
const struct model *engine_model(const struct engine *e); // NULL when none is loaded
// The model's tokenizer, or the one loaded alone; NULL when there is none.
const struct tokenizer *engine_tokenizer(const struct engine *e);
const struct conversation *engine_conversation(const struct engine *e);
const struct backend *engine_backend(const struct engine *e);
// How products are computed now, "f32" or "bf16"; NULL: there is no model.
const char *engine_arithmetic(const struct engine *e);
struct sinks *engine_sinks(struct engine *e);

// Settings. Every change is a proposal (core/engine/proposal.h): looked at as a whole, then obeyed
// or refused as a whole. Each new value emits EVENT_SETTING; what becomes stale is dropped, with
// one notice. A method that needs the adapter that was on goes back to its defaults with another
// one, which is told.
const struct settings *engine_settings(const struct engine *e);
// One of several values that are set one by one need not fit the others yet, which is told; in the
// middle of an answer it must.
int engine_set(struct engine *e, const char *key, const char *value, struct err *err);
int engine_reset(struct engine *e, const char *key, struct err *err); // key NULL: all
int engine_set_all(struct engine *e, const struct change *list, size_t count, struct err *err);
// Settings of another day: what is impossible now is left out, with a notice.
void engine_restore(struct engine *e, const struct change *list, size_t count);
// The settings with these changes, for engine_lend; the engine's own stay. NULL: refused.
struct settings *engine_propose(struct engine *e, const struct change *list, size_t count,
                                struct err *err);
// engine_set_all from any thread, for the answer that is being computed: it goes on under them from
// the next token, or once it has `tokens` tokens. What is posted while nothing is answered, or left
// over when the answer ends, waits for engine_obey_posted (or the next answer) if `tokens` is 0 and
// for a next answer that long otherwise. What cannot be obeyed is told as a notice.
void engine_post(struct engine *e, const struct change *list, size_t count, int64_t tokens);
void engine_obey_posted(struct engine *e);
// Called before each token of an answer, in its thread: whoever waits there may change settings and
// adapters, and nothing else; the token obeys them.
void engine_between(struct engine *e, void (*call)(void *self), void *self);

// For work beside the conversation under settings that engine_propose gave (comparisons): puts
// their adapter on the model and gives its tensors. engine_lend NULL puts back what the engine's
// own settings say. Nothing is told, nothing becomes stale.
int engine_lend(struct engine *e, const struct settings *s, struct method_tensors *tensors,
                struct err *err);

// What answers (STALE_NEXT) or measurements (STALE_MEASURED) come from as the engine stands
// (core/adapter/provenance.h); release it.
struct provenance;
void engine_provenance(struct engine *e, enum setting_stale from, struct provenance *p);

// Adapters. The setting "adapter" (folder, or none) says which one is on the model; a failed load
// leaves the former one.
int engine_adapter_load(struct engine *e, const char *folder, struct err *err); // read anew
// Takes it off; a named one is forgotten too. name NULL: the one that is on.
int engine_adapter_unload(struct engine *e, const char *name, struct err *err);
int engine_adapter_merge(struct engine *e, const char *folder, struct merge_report *report,
                         struct err *err);
const struct adapters *engine_adapters(const struct engine *e);

// Conversation.
int engine_attach(struct engine *e, const char *path, struct err *err); // "-" = standard input
int engine_attach_bytes(struct engine *e, const char *path, const void *bytes, size_t size,
                        struct err *err);
// Takes all pictures of another conversation, which need not have a model. None of them waits.
void engine_adopt_pictures(struct engine *e, struct conversation *from);
void engine_detach(struct engine *e); // pictures waiting for the next message
int engine_system(struct engine *e, const char *text, struct err *err); // "" removes it
// Appends a message as given (waiting pictures are not touched); `pictures` by attach index.
int engine_add_message(struct engine *e, const struct message *m, struct err *err);
// Appends messages with their pictures, all or nothing. content_item.picture counts in `paths`
// here; these pictures never wait.
int engine_add_messages(struct engine *e, const struct message *messages, size_t count,
                        const char *const *paths, size_t path_count, struct err *err);
// User text (with the waiting pictures) and an answer.
int engine_ask(struct engine *e, const char *text, struct err *err);
// An answer to what is there: the last message must be the user's.
int engine_answer(struct engine *e, struct err *err);
// As engine_ask without generation, and the conversation is as before afterwards.
int engine_forward(struct engine *e, const char *text, struct err *err);
// Ids as they are, then an answer.
int engine_raw(struct engine *e, const int32_t *ids, size_t count, struct err *err);
int engine_regenerate(struct engine *e, struct err *err); // the last answer anew
int engine_undo(struct engine *e, struct err *err);       // the last question and its answer
void engine_clear(struct engine *e);
// Sets the conversation aside and begins an empty one that no session keeps (a batch of questions);
// engine_unstash brings the old one back as it was. One level.
void engine_stash(struct engine *e);
void engine_unstash(struct engine *e);
// Tells where each token of an answer looks (EVENT_HEATMAP "live") as long as screen.live is on.
void engine_watch(struct engine *e, bool on);
bool engine_watched(const struct engine *e); // both
void engine_cancel(struct engine *e);
// Forgets it: where a line begins, and nowhere in its middle, or a Ctrl-C right after Enter would
// be lost. Long work outside the engine asks now and then.
void engine_uncancel(struct engine *e);
bool engine_cancelled(const struct engine *e);
const atomic_bool *engine_cancel_flag(const struct engine *e); // for passes of such work

// Tokens of the conversation as it stands, with the waiting pictures; before anything is computed.
struct engine_context {
    int64_t text, visual, waiting_visual; // tokens
    int64_t cached;                       // already computed
    int64_t limit;                        // ctx.max, resolved
};
int engine_context(struct engine *e, struct engine_context *context, struct err *err);

// What a probe finds in a pass over the conversation as it stands, or over a data set, under the
// settings of now. The conversation and what is cached of it stay as they are.
struct measure_request;
struct results;
int engine_measure(struct engine *e, const struct measure_request *request, struct results *results,
                   struct err *err);

// The next prefill (and its answer) writes the taps that match to a safetensors file.
int engine_dump(struct engine *e, const char *patterns, const char *path, struct err *err);

#endif
