// core/talk/answer.h -- the answer to a conversation: prefill what is not cached, then generate.
//
//   struct hooks hooks;
//   conversation_hooks(&c, settings, tensors, &hooks, &err);    // the methods that are on
//   hooks_add(&hooks, &probe);                                  // who else listens
//   answer_run(&c, settings, &hooks, &cancel, &options, &sinks, &answered, &err);
#ifndef CORE_TALK_ANSWER_H
#define CORE_TALK_ANSWER_H

#include "core/talk/conversation.h"

// What became of the settings in the middle of an answer. CHANGE_PASS: prompt and answer so far are
// computed again, as far as they are not cached any more or methods say so.
enum answer_change { CHANGE_NONE, CHANGE_SETTINGS, CHANGE_PASS, CHANGE_FAILED };

struct answer_options {
    bool forward_only; // prefill, no generation
    bool all_logits;   // every row's logits (a probe asks)
    bool whole;        // compute the prompt and its pictures from their first row (a probe asks)
    bool in_conversation, again;                            // for EVENT_ANSWER
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
int answer_run(struct conversation *c, const struct settings *settings, const struct hooks *hooks,
               const atomic_bool *cancel, const struct answer_options *options,
               const struct sinks *sinks, bool *answered, struct err *err);

#endif
