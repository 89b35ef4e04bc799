// core/talk/answer.h -- answers a conversation: prefills the rows that are not cached, then
// generates.
//
//   struct hooks hooks;
//   conversation_hooks(&c, settings, tensors, &hooks, &err);    // the active methods
//   hooks_add(&hooks, &probe);                                  // other listeners
//   answer_run(&c, settings, &hooks, &cancel, &options, &sinks, &answered, &err);
#ifndef CORE_TALK_ANSWER_H
#define CORE_TALK_ANSWER_H

#include "core/talk/conversation.h"

// How the settings changed during an answer. CHANGE_PASS: recompute those rows of the prompt and of
// the answer so far that are no longer cached or that a method requires.
enum answer_change { CHANGE_NONE, CHANGE_SETTINGS, CHANGE_PASS, CHANGE_FAILED };

struct answer_options {
    bool forward_only; // prefill, no generation
    bool all_logits;   // logits of every row of the prompt (for a probe)
    bool whole;        // ignore the cache: compute the whole prompt and its pictures (for a probe)
    // Recomputes cached rows so that the pass has many rows. The answer is then bit-identical with
    // and without a cache, if the cached prompts were computed with `steady` too. Not in layers
    // with a recurrent state: its bits depend on the row at which a pass begins.
    bool steady;
    bool in_conversation, again;                            // copied to EVENT_ANSWER
    void (*sequence)(void *self, const struct sequence *s); // receives the prompt before it is
                                                            // computed; NULL: not called
    void *self;
    const int32_t *forced; // [forced_count] the first tokens of the answer; generation continues
                           // after them
    size_t forced_count;
    // Returns the share of the answer's token (from 0) that comes from the pictures; NaN: unknown.
    // Called only if a sink reads event.token. NULL: not measured.
    double (*share)(void *self, int64_t token);
    void *share_self;
    // Called before each token is chosen; `tokens` have been generated so far. May change settings,
    // hooks and cache (conversation_stale). CHANGE_FAILED with a message ends the answer. May be
    // NULL.
    enum answer_change (*change)(void *self, int64_t tokens, struct err *err);
    void *change_self;
};

// Answers the conversation, whose last message must be the user's: prefills, then generates until
// eos, sample.max_tokens, the context limit or cancellation. Emits EVENT_TOKEN and EVENT_ANSWER.
// *answered: false after an error, or if it was cancelled before the first token (with
// forward_only, at all). If true, and not forward_only, appends the assistant's message; else the
// messages are unchanged.
int answer_run(struct conversation *c, const struct settings *settings, const struct hooks *hooks,
               const atomic_bool *cancel, const struct answer_options *options,
               const struct sinks *sinks, bool *answered, struct err *err);
// A sink's function: sets the bool *cancelled to whether the answer was cancelled.
void answer_note_cancelled(void *cancelled, const struct event *e);

// --- the marks of an answer's reasoning (answer_marks.c) -----------------------------------------

// Adds the text of a special token if it is part of a mark; answers show no other special tokens.
void answer_put_mark(const struct model *m, int32_t id, struct buf *text);
// Returns the marks of a reasoning that the prompt (the first s->prompt tokens of s) opens; NULL:
// none.
const struct thinking_marks *answer_opened(const struct model *m, const struct sequence *s);
// Returns the text of an answer to the prompt (the first s->prompt tokens of s), with its reasoning
// and marks, including the prompt's opening mark if that reasoning does not end. The caller frees
// it.
char *answer_whole(const struct model *m, const struct sequence *s, const struct ids *ids);

#endif
