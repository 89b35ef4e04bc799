// core/engine/proposal.h -- settings with changes in them, checked as a whole before anything obeys
// them.
//
// Settings change in this way alone, whoever asks: /set, /reset, presets, /compare, sessions,
// measurements, the values of a sweep. Nothing depends on the order of the changes.
//
//   struct proposal p = { .from = settings, .model = m, .backend = b, .adapters = &kept };
//   if (proposal_check(&p, list, count, &err) < 0) ...   // nothing has changed; p.fault
//   ... go on with p.settings and p.adapter ...
//   proposal_release(&p);
#ifndef CORE_ENGINE_PROPOSAL_H
#define CORE_ENGINE_PROPOSAL_H

#include "core/adapter/adapters.h"
#include "core/settings/changes.h"

struct proposal {
    const struct settings *from;
    struct model *model; // NULL: none is loaded, and what needs one is not asked
    const struct backend *backend;
    struct adapters *adapters; // of the model; NULL: the adapter is not opened
    bool training;             // methods make the parameters that were not trained yet
    bool anew;                 // the adapter's folder is read even when it is kept already; once
    bool all;   // every method and the adapter are looked at, not only what the changes name
    bool apart; // one value of several that are set one by one: they need not agree yet

    // What comes of it:
    struct settings *settings;   // NULL: refused
    struct adapter *adapter;     // that they name; NULL: none, or not opened
    const struct setting *fault; // refused: these rows are why, a method's or a single one; or NULL
    int fault_count;
};

// -1 with a message: refused.
int proposal_check(struct proposal *p, const struct change *list, size_t count, struct err *err);
void proposal_release(struct proposal *p);

// Is the key among them?
bool changes_name(const struct change *list, size_t count, const char *key);

#endif
