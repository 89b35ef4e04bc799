// commands/paper_plan.h -- /paper's request and plan, which commands/paper.c makes and runs.
#ifndef COMMANDS_PAPER_PLAN_H
#define COMMANDS_PAPER_PLAN_H

#include "commands/command.h"
#include "core/base/csv.h"
#include "core/papers/paper.h"

// Defaults of --limit, for each measurement and, with --demo, each set; and of --steps.
enum { PAPER_DEMO_SAMPLES = 100, PAPER_DEMO_STEPS = 60 };

struct paper_request {
    const char *paper, *table, *model, *sets, *data, *out, *as;
    int64_t limit, steps;
    bool demo, small, dry, readings;
};

struct paper_plan {
    const struct paper *paper;
    const struct paper_table *table;
    const struct paper_request *asked;
    struct shell *shell;
    char *out, *folder; // folder: the table's folder in `out`
    char *variant, *key;
    char *commands, *scores;             // scores: text of the plan of scores; NULL: none
    const struct paper_reading *reading; // NULL: the default
    struct csv claims;                   // judged
    enum paper_verdict verdict;
};

// Returns true if a path is in the plan's OUT.
bool paper_plan_contains(const struct paper_plan *p, const char *path);

// Forecasts the time, memory and disk space of the plan's commands (table `paper.forecast`). Checks
// their models and settings by loading and applying them, unless they need results of the plan. The
// last model and settings remain in the shell.
int paper_forecast(struct paper_plan *p, struct err *err);

#endif
