// core/engine/proposal.h -- proposed changes of settings, checked as a whole before they apply.
//
// The only way to change settings: /set, /reset, presets, /compare, sessions, measurements and
// sweeps all use it. The order of the changes does not matter.
//
//   struct proposal p = { .from = settings, .model = m, .backend = b, .adapters = &kept };
//   if (proposal_check(&p, list, count, &err) < 0) ...   // nothing has changed; p.fault
//   ... use p.settings and p.adapter ...
//   proposal_release(&p);
#ifndef CORE_ENGINE_PROPOSAL_H
#define CORE_ENGINE_PROPOSAL_H

#include "core/adapter/adapters.h"
#include "core/settings/changes.h"

struct proposal {
    const struct settings *from;
    struct model *model; // NULL: none is loaded; checks that need one are skipped
    const struct backend *backend;
    struct adapters *adapters; // of the model; NULL: does not open the adapter
    bool training;             // methods initialise untrained parameters
    bool anew;                 // reads the adapter's folder even if it is loaded; once
    bool all;    // checks every method and the adapter, not only what the changes name
    bool loaded; // a model was just loaded: also checks the values that it may refuse
    bool single; // one of several values set one by one: consistency is not required

    // Result:
    struct settings *settings;   // NULL: refused
    struct adapter *adapter;     // the adapter they select; NULL: none, or not opened
    const struct setting *fault; // refused: the rows at fault, a method's or a single one; or NULL
    int fault_count;
};

// -1 with a message: refused.
int proposal_check(struct proposal *p, const struct change *list, size_t count, struct err *err);
void proposal_release(struct proposal *p);

// Do the changes name the key?
bool changes_name(const struct change *list, size_t count, const char *key);

#endif
