// core/eval/conditions.h -- runs a probe under several conditions (settings, checkpoints,
// models) side by side.
//
//   struct score_plan rows;
//   if (score_plan_of_rows(&rows, texts, 2, &models, NULL, NULL, &err) < 0) ...
//   if (conditions_measure(engine, &rows, &request, &results, &err) < 0) ...
//   score_plan_release(&rows);
#ifndef CORE_EVAL_CONDITIONS_H
#define CORE_EVAL_CONDITIONS_H

#include "core/base/err.h"
#include "core/eval/score_plan.h"
#include "core/probes/measure_data.h"

struct engine;
struct results;

// Runs the probe under the condition of each row and joins the results (results_join). Over a data
// set, adds the mean paired differences from the first row, NAME.difference, with their intervals.
// Rows of the same name are repetitions (seeds) and form one condition, with intervals over the
// repetitions; differences are taken between repetitions of the same number. For a probe with
// `correlate`, adds the correlation of the two columns that it names, over all conditions. Leaves
// out, with a notice, a row before training (step 0) whose settings cannot be applied, because they
// need what training makes; a single row is then an error. The conversation and the engine's
// settings are unchanged.
int conditions_measure(struct engine *e, const struct score_plan *rows,
                       const struct measure_request *request, struct results *results,
                       struct err *err);

#endif
