// core/engine/proposal.h -- proposed changes to settings, checked as a whole before they apply.
//
// The only way to change settings on a request: /set, /reset, presets, /compare, sessions,
// measurements and sweeps all use it. The order of the changes does not matter. Impossible values
// are refused. The engine resets settings that conflict with the new values (a method without the
// adapter that it needs, settings made for another model): a single setting, or a whole method.
//
//   struct proposal p = { .from = settings, .env = { .model = m, .adapters = &kept } };
//   if (proposal_check(&p, list, count, &err) < 0) ...   // nothing has changed
//   ... use p.env.settings and p.env.adapter, report p.notices ...
//   proposal_release(&p);
#ifndef CORE_ENGINE_PROPOSAL_H
#define CORE_ENGINE_PROPOSAL_H

#include "core/adapter/adapters.h"
#include "core/base/names.h"
#include "core/settings/changes.h"
#include "core/settings/settings.h"

struct proposal {
    const struct settings *from;
    // model (NULL: none is loaded; checks that need one are skipped), backend, adapters (of the
    // model; NULL: does not open the adapter), reload.
    struct setting_env env;
    bool training; // methods initialise untrained parameters
    bool all;      // checks every method, not only those that the changes name
    bool loaded;   // the model is new: checks every value
    bool single;   // one of several values set one by one: consistency is not required
    bool resets;   // resets impossible values that the changes do not name, with a notice
    bool restored; // keeps a setting's former value, with a notice, if its new value is impossible

    // Result, beside env.settings (NULL: refused) and env.adapter (NULL: none, or not opened).
    int rows;             // settings when the check began: other threads may make more
    bool *named;          // [rows] the changes name the row
    bool *reapply;        // [rows] apply the row even if its spelling is unchanged
    bool adapter_changes; // methods may gain or lose their parameters
    struct names notices; // the settings that were reset, and why
};

// Checks the changes and sets the result. -1 with a message: refused.
int proposal_check(struct proposal *p, const struct change *list, size_t count, struct err *err);
void proposal_release(struct proposal *p);

#endif
