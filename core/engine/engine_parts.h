// core/engine/engine_parts.h -- what the files of the engine share; others use
// core/engine/engine.h.
#ifndef CORE_ENGINE_ENGINE_PARTS_H
#define CORE_ENGINE_ENGINE_PARTS_H

#include "core/engine/engine.h"
#include "core/probes/dump.h"
#include "core/probes/live.h"

struct engine {
    const struct backend *backend;
    struct sinks *sinks;
    struct settings *settings;
    struct model *model;
    struct adapters adapters;    // of this model
    struct tokenizer *tokenizer; // loaded alone
    struct conversation conversation;
    struct conversation stashed;
    bool stash;
    struct dump *dump; // armed
    bool watch;        // maps are told while answers come
    struct live *live; // of the answer under way
    struct changes posted;
    void (*between)(void *self); // tokens of an answer; NULL: nobody waits there
    void *between_self;
    struct answer_now *answering; // NULL: nothing is answered
    struct adapter *former;       // in whose place engine_lend put another, while lending
    bool lending;
    atomic_bool cancel;
};

// An answer while it is computed.
struct answer_now {
    struct engine *e;
    struct hooks hooks;
    bool changed; // a setting, since the last token
    bool stale;   // a change since the last pass asks for another one
    int64_t tokens;
};

// engine.c
void engine_tell(struct engine *e, const struct event *event);
bool engine_report_loading(void *self, uint64_t done, uint64_t total); // struct load_progress
// What methods look at, under these settings.
struct method_env engine_env(const struct engine *e, const struct settings *s);

// engine_settings.c, after a model was loaded: the adapter of the settings is put on it, and
// settings made for another model that it cannot obey go back to their defaults, with a notice.
void engine_settle(struct engine *e);

#endif
