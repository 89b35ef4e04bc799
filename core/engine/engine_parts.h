// core/engine/engine_parts.h -- shared by the files of the engine; others use core/engine/engine.h.
#ifndef CORE_ENGINE_ENGINE_PARTS_H
#define CORE_ENGINE_ENGINE_PARTS_H

#include "core/adapter/adapters.h"
#include "core/base/pace.h"
#include "core/engine/engine.h"
#include "core/probes/dump.h"
#include "core/probes/live.h"
#include "core/probes/share.h"
#include "core/settings/changes.h"
#include "core/talk/conversation.h"

struct engine {
    const struct backend *backend;
    struct sinks *sinks;
    struct settings *settings;
    struct model *model;
    char provisional_identity[64]; // for events until the fingerprint is known; "" afterwards
    struct adapters adapters;      // of this model
    struct tokenizer *tokenizer;   // loaded separately, or NULL
    struct conversation conversation;
    struct conversation stashed;
    bool stash;
    struct dump *dump;     // requested for the next answer, or NULL
    bool watch;            // emits maps while answering
    double watch_pause;    // minimum seconds between maps
    struct live *live;     // of the running or last answer
    struct shares *shares; // of the running or last answer; NULL: not measured
    struct changes posted;
    void (*between)(void *self); // called before each token of an answer; NULL: nothing
    void *between_self;
    struct answer_now *answering; // NULL: no answer is running
    struct adapter *former;       // the adapter that engine_lend replaced, while lending
    bool lending;
    const char *work; // name of the running work in progress events
    struct pace pace; // estimates the remaining time of `work`
    atomic_bool cancel;
    struct pace reading; // remaining time of file readers, which do not know the engine
};

// A running answer.
struct answer_now {
    struct engine *e;
    struct hooks hooks;
    bool changed; // a setting has changed since the last token
    bool stale;   // a change since the last pass requires another pass
    int64_t tokens;
};

// engine.c
void engine_emit(struct engine *e, const struct event *event);
// Returns the environment of methods under these settings.
struct method_env engine_env(const struct engine *e, const struct settings *s);

// engine_settings.c, after loading a model: applies the adapter of the settings, and resets
// settings that are impossible with the model, with a notice.
void engine_recheck_settings(struct engine *e);

#endif
