// core/engine/engine.h -- the core as tui/ and commands/ see it: a model, a conversation, settings.
//
//   struct engine *e = engine_new(NULL, &sinks);
//   engine_load(e, "/models/llava-1.5-7b-hf", &err);
//   engine_attach(e, "cat.png", &err);
//   engine_ask(e, "What is this?", &err);      // emits EVENT_TOKEN..., EVENT_ANSWER
//
// Clients treat models, backends and adapters as opaque. The sinks receive every event. A failed
// call leaves model, conversation and settings unchanged. engine_cancel may be called from a signal
// handler or another thread, engine_post from another thread, and everything else from only
// one thread.
//
// Room core/engine/: model, conversation and settings as commands and front ends see them; presets.
// Uses adapter, probes, talk and what they use.
#ifndef CORE_ENGINE_ENGINE_H
#define CORE_ENGINE_ENGINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/settings/settings.h"

struct adapters;
struct backend;
struct box_style;
struct boxes;
struct change;
struct checkpoint;
struct conversation;
struct directions;
struct directions_request;
struct engine;
struct err;
struct event_info;
struct prompt_cost;
struct load_progress;
struct ids;
struct measure_request;
struct merge_report;
struct message;
struct method_tensors;
struct model;
struct picture;
struct provenance;
struct results;
struct sinks;
struct tokenizer;

// Creates an engine without a model; backend NULL: the CPU.
struct engine *engine_new(const struct backend *backend, struct sinks *sinks);
void engine_free(struct engine *e);

// Model.
int engine_load(struct engine *e, const char *name, struct err *err); // emits progress
// Loads with the weight format that weights.dtype selects.
int engine_load_as_set(struct engine *e, const char *name, struct err *err);
// Returns "NAME::ignore-weights", the name that loads this model even if it has unknown weights.
char *engine_ignoring(const char *name);
// Replaces the current model with one that was loaded elsewhere, which the engine then owns; does
// not emit EVENT_MODEL.
void engine_adopt(struct engine *e, struct model *model);
void engine_unload(struct engine *e); // gives a notice if messages lose their token ids
// Completes the hashing of the model's files, which begins in the background after loading; emits
// progress. Call it before reading the fingerprint (checkpoint_identify). Does nothing without a
// model.
int engine_identify(struct engine *e, struct err *err);
// Emits EVENT_IDENTITY, once, if hashing in the background has found the fingerprint. Returns
// whether it did.
bool engine_report_identity(struct engine *e);
int engine_load_tokenizer(struct engine *e, const char *path, struct err *err);
const struct model *engine_model(const struct engine *e);     // NULL when none is loaded
struct checkpoint *engine_checkpoint(const struct engine *e); // the model's, or NULL
const char *engine_model_name(const struct engine *e);        // of the loaded model, or NULL
const char *engine_family_name(const struct engine *e);       // of the loaded model, or NULL
bool engine_has_vision(const struct engine *e);               // true if the model reads pictures
// Describes the loaded model.
void engine_info(const struct engine *e, struct event_info *info);
// Emits the description, the parameters by part, and the memory in use; `unknown`: the reason shown
// if the fingerprint is not known.
void engine_show(struct engine *e, const char *unknown);
void engine_memory(const struct engine *e, struct results *r); // of model and conversation
// Returns the tokenizer that was loaded separately, else the model's; NULL: neither.
const struct tokenizer *engine_tokenizer(const struct engine *e);
const struct conversation *engine_conversation(const struct engine *e);
const struct backend *engine_backend(const struct engine *e);
// Returns the tags of the model's chat template that name `variable`, at most four, one per line;
// "" if no tag does, or without a model. The caller frees the text.
char *engine_template_tags(const struct engine *e, const char *variable);
// Returns the current precision of matrix products, "f32" or "bf16"; NULL without a model.
const char *engine_arithmetic(const struct engine *e);
struct sinks *engine_sinks(struct engine *e);
// Returns a progress callback for long work called `what` ("loading"). The callback emits progress,
// and stops the work when the engine is cancelled. Only one may be in use at a time.
struct load_progress engine_progress(struct engine *e, const char *what);

// Settings. Every change is a proposal (core/engine/proposal.h): checked as a whole, then applied
// or refused as a whole. Each new value emits EVENT_SETTING; invalidated results are dropped, with
// one notice. A method that needs the former adapter is reset to its defaults, with a notice.
const struct settings *engine_settings(const struct engine *e);
// Between answers, a value that makes the settings inconsistent only causes a notice; during an
// answer, engine_set fails.
int engine_set(struct engine *e, const char *key, const char *value, struct err *err);
int engine_reset(struct engine *e, const char *key, struct err *err); // key NULL: all
int engine_set_all(struct engine *e, const struct change *list, size_t count, struct err *err);
// Restores saved settings; skips values that are no longer possible, with a notice.
void engine_restore(struct engine *e, const struct change *list, size_t count);
// Returns a copy of the settings with these changes, for engine_lend; NULL with a message if they
// are refused.
struct settings *engine_propose(struct engine *e, const struct change *list, size_t count,
                                struct err *err);
// Like engine_propose, for another model, without the current adapter. Methods refuse values that
// are impossible with that model when they start.
struct settings *engine_propose_elsewhere(struct engine *e, const struct change *list, size_t count,
                                          struct err *err);
// Posts changes from any thread for the running answer, which applies them like engine_set_all
// before its next token, or once the answer has `tokens` tokens. Changes that no answer has applied
// wait: with `tokens` 0, for engine_apply_posted or the next answer; otherwise, for an answer with
// that many tokens. Invalid changes give a notice.
void engine_post(struct engine *e, const struct change *list, size_t count, int64_t tokens);
void engine_apply_posted(struct engine *e);
// Sets a function that is called before each token of an answer, in the answer's thread, unless the
// answer writes a dump. The function may change only settings and adapters; the changes already
// apply to that token.
void engine_between(struct engine *e, void (*call)(void *self), void *self);

// For comparisons: applies the adapter of the settings `s`, from engine_propose, to the model, and
// returns the adapter's tensors for methods. `s` NULL: restores the engine's own adapter. Emits no
// events and invalidates nothing.
int engine_lend(struct engine *e, const struct settings *s, struct method_tensors *tensors,
                struct err *err);

// Returns the provenance of answers (STALE_NEXT) or measurements (STALE_MEASURED) in the engine's
// current state (core/adapter/provenance.h); release it. -1: the model's files cannot be hashed.
int engine_provenance(struct engine *e, enum setting_stale from, struct provenance *p,
                      struct err *err);

// Adapters. The setting "adapter" names the folder of the applied adapter, or none.

// Reads the folder again even if its adapter is already loaded, and applies the adapter. On
// failure, the previous adapter stays applied.
int engine_adapter_load(struct engine *e, const char *folder, struct err *err);
// Unapplies the adapter `name`, if it is applied, and unloads it. name NULL: unapplies the applied
// adapter, but keeps it loaded.
int engine_adapter_unload(struct engine *e, const char *name, struct err *err);
int engine_adapter_merge(struct engine *e, const char *folder, struct merge_report *report,
                         struct err *err);
const struct adapters *engine_adapters(const struct engine *e);

// The messages and pictures of the conversation, valid until the conversation changes.
struct engine_talk {
    const struct message *messages;
    const struct picture *pictures; // path NULL: removed
    const int *waiting;             // indices of the pending pictures
    size_t message_count, picture_count, waiting_count;
};
struct engine_talk engine_talk(const struct engine *e);
// Reads the boxes of the last answer (core/picture/boxes.h). Returns the index of their picture; -1
// if there is no answer, or no picture before it. *style (may be NULL): the notation of the boxes.
int engine_boxes(const struct engine *e, const struct box_style **style, struct boxes *b);
int engine_attach(struct engine *e, const char *path, struct err *err); // "-" = standard input
int engine_attach_bytes(struct engine *e, const char *path, const void *bytes, size_t size,
                        struct err *err);
// Moves all pictures of the conversation `from`, which may have no model, into this one. None of
// them becomes pending.
void engine_adopt_pictures(struct engine *e, struct conversation *from);
void engine_detach(struct engine *e);                  // removes the pending pictures
void engine_detach_one(struct engine *e, int picture); // removes one of them
int engine_system(struct engine *e, const char *text, struct err *err); // "" removes it
// Appends a message as given, without pending pictures; the message refers to pictures by attach
// index.
int engine_add_message(struct engine *e, const struct message *m, struct err *err);
// Appends messages with their pictures, all or nothing. content_item.picture is an index into
// `paths`; these pictures are never pending.
int engine_add_messages(struct engine *e, const struct message *messages, size_t count,
                        const char *const *paths, size_t path_count, struct err *err);
// Adds a user message (with the pending pictures) and answers it.
int engine_ask(struct engine *e, const char *text, struct err *err);
// Answers the pending pictures, as a user message; without any, the last message, which must be the
// user's or token ids.
int engine_answer(struct engine *e, struct err *err);
// Like engine_ask, but generates nothing and leaves the conversation unchanged.
int engine_forward(struct engine *e, const char *text, struct err *err);
// Feeds literal token ids without a chat template, then answers.
int engine_raw(struct engine *e, const int32_t *ids, size_t count, struct err *err);
int engine_regenerate(struct engine *e, struct err *err); // generates the last answer again
int engine_undo(struct engine *e, struct err *err);       // removes the last question and its
                                                          // answer
void engine_clear(struct engine *e);
// Stashes the conversation and starts an empty one that is not recorded (a batch of questions);
// engine_unstash restores it. At most one conversation can be stashed.
void engine_stash(struct engine *e);
void engine_unstash(struct engine *e);
// Emits attention maps of answer tokens (EVENT_HEATMAP "live") while screen.live is on: at most one
// every `pause` seconds (0: one per token), so that maps too fast to see do not slow a fast model
// down.
void engine_watch(struct engine *e, bool on, double pause);
bool engine_watched(const struct engine *e); // engine_watch and screen.live are on
void engine_cancel(struct engine *e);
// Clears the cancel flag. Call it only before a command line runs; anywhere else, a Ctrl-C right
// after Enter would be lost. Long work outside the engine polls the flag.
void engine_uncancel(struct engine *e);
bool engine_cancelled(const struct engine *e);
// Returns the cancel flag, for passes in long work outside the engine.
const atomic_bool *engine_cancel_flag(const struct engine *e);

// Token counts of the current conversation, including pending pictures; counting runs no pass.
struct engine_context {
    int64_t text, visual, waiting_visual; // tokens
    int64_t cached;                       // in the KV cache
    int64_t limit;                        // ctx.max as a number of tokens
};
int engine_context(struct engine *e, struct engine_context *context, struct err *err);
// Forecasts the next prompt under these settings, for the tokens that the context counts.
int engine_forecast(const struct engine *e, const struct settings *s,
                    const struct engine_context *context, struct prompt_cost *f, struct err *err);
int64_t engine_limit(const struct engine *e); // the `limit` of struct engine_context

// Measures the FLOP/s of matrix products on the engine's device, with the settings' precision.
double engine_speed(const struct engine *e);
// Applies a probe to the current conversation or a data set, with the current settings.
// Conversation and cache are unchanged.
int engine_measure(struct engine *e, const struct measure_request *request, struct results *results,
                   struct err *err);
// Like engine_measure, with this model and these settings; their adapter must already be applied.
int engine_measure_as(struct engine *e, const struct model *model, const struct settings *settings,
                      const struct method_tensors *tensors, const struct measure_request *request,
                      struct results *results, struct err *err);

// Finds the positions of the conversation that request->options.words names (/help positions), in
// ascending order. The caller releases them, even after a failure.
int engine_positions(struct engine *e, const struct measure_request *request, struct ids *positions,
                     struct err *err);

// Makes steering vectors (core/probes/directions.h) with the current settings and methods, but
// without steering. Conversation and cache are unchanged. *from: the provenance of the compared
// states; release it also after a failure.
int engine_directions(struct engine *e, const struct directions_request *request,
                      struct directions *directions, struct provenance *from, struct err *err);

// Makes the next prefill (and its answer) write the tensors that match `patterns` to a safetensors
// file.
int engine_dump(struct engine *e, const char *patterns, const char *path, struct err *err);
// Names in a notice the pictures that wait for a message and that no pass has used.
void engine_report_unsent(struct engine *e);
// At the end of the program: names in notices what engine_dump and engine_post still wait to do.
void engine_report_waiting(struct engine *e);

#endif
