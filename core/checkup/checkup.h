// core/checkup/checkup.h -- a check-up of models: runs a table of checks on each and keeps their
// findings in a folder.
//
//   struct checkup_work w = { .settings = s, .backend = b, .sinks = sinks, .cancel = &flag };
//   if (checkup_options_read(&w.options, argc, argv, NULL, &err) < 0) ...
//   const int status = checkup_run(&w, &err);     // 0, JOB_STOPPED or -1
//   checkup_work_release(&w);
//
// The folder of --out contains checkup.json, rewritten after each check: a killed run continues
// with the first check that is missing there. checkup.html and checkup.md are made from it alone.
// One process at a time writes into a folder.
//
//   { "format", "program", "of", "machine": {"device", "memory GiB"}, "quick",
//     "models": [ { "name", "identity", ..., "provenance", "checks": [ CHECK ] } ],
//     "verdict": "works" | "fails" (a check fails); only in a finished record }
//   CHECK    { "name", "shows", "rows": [ROW], "figures": [FIGURE], "verdict" }
//   ROW      { "name", "verdict": "works" | "fails" | "not applicable" | "measured", "text",
//              "numbers": [ {"name", "value", "unit", "samples"} ] }     a null value: no number
//   FIGURE   { "title", "text": a description, "svg" }
//
// Room core/checkup/: check-ups of models. Uses train, eval, scenes, draw, probes, adapter and what
// they use.
#ifndef CORE_CHECKUP_CHECKUP_H
#define CORE_CHECKUP_CHECKUP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/base/err.h"
#include "core/base/names.h"
#include "core/base/options.h"

struct backend;
struct job;
struct settings;
struct sinks;

#define CHECKUP_USAGE \
    "[--adapter DIR] [--pictures DIR] [--out DIR] [--quick] [--only NAME,...] [--again]"

struct checkup_options {
    struct names models;
    bool unnamed;               // argv names no model
    const char *adapter;        // NULL: the adapter of the settings
    const char *pictures, *out; // borrowed from argv; out NULL: "checkup-MODEL"
    struct names only;          // names of checks; empty: all
    bool quick, again, here;
};

extern const struct option_row checkup_rows[];
// If argv names no model, `model` is checked; if `model` is NULL, that is an error.
int checkup_options_read(struct checkup_options *o, int argc, char **argv, const char *model,
                         struct err *err);
void checkup_options_release(struct checkup_options *o);
// Returns the output folder; the caller frees it.
char *checkup_folder(const struct checkup_options *o);

struct checkup_work {
    struct checkup_options options;
    const struct settings *settings; // only their adapter, dtype of keys and
                                     // values, and precision of products apply
    const struct backend *backend;
    const struct sinks *sinks;
    const atomic_bool *cancel;
    struct job *job;   // NULL: in the shell
    atomic_bool *stop; // in a job: the flag of `cancel`, set when the job must stop
    char *outcome;     // out: the result in one line
    bool fails;        // out: a check fails
};

int checkup_run(struct checkup_work *w, struct err *err);
// Shows a table of all findings so far.
int checkup_show(const char *folder, const struct sinks *sinks, struct err *err);
// Shows a table of the differences between two check-ups, each a folder or its checkup.json.
int checkup_compare(const char *a, const char *b, const struct sinks *sinks, struct err *err);
void checkup_work_release(struct checkup_work *w);

// These return a check's name and description for help; NULL past the end.
const char *checkup_check_name(int index);
const char *checkup_check_shows(int index);

#endif
