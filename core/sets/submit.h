// core/sets/submit.h -- writes answers as the sets' servers and scripts expect them.
//
//   struct submission *s = submission_new();
//   submission_add(s, 3, "a red bus");                  // of sample 3
//   if (submission_write(s, "answers.json", &data, set, way, "llava-1.5", &err) < 0) ...
//   submission_free(s);
//
// VQAv2: a JSON list of {"question_id", "answer"}, with answers cleaned as EvalAI does. MMBench:
// the table without pictures, hints and categories, with a column "prediction" (TSV, which
// spreadsheets open and save as xlsx). MM-Vet: a JSON object that maps ids to answers. Others:
// LLaVA's JSON lines {"question_id", "prompt", "text", "answer_id", "model_id", "metadata"}. Ids
// are numbers where the file has numbers.
#ifndef CORE_SETS_SUBMIT_H
#define CORE_SETS_SUBMIT_H

#include <stdint.h>

#include "core/base/err.h"

struct dataset;
struct eval_set;
struct set_way;

struct submission *submission_new(void);
// answer NULL: no answer; VQAv2's list, MMBench's table and MM-Vet's object still get an entry,
// because servers and scripts require one per question.
void submission_add(struct submission *s, int64_t index, const char *answer);
// Replaces an existing file.
int submission_write(const struct submission *s, const char *path, const struct dataset *data,
                     const struct eval_set *set, const struct set_way *way, const char *model,
                     struct err *err);
// Predictions for a suite's own program (--export-predictions), with the answers as generated:
//   vlmevalkit  the rows of the file without pictures, with a column "prediction" (TSV), which the
//               data set's evaluate() reads
//   lmms-eval   a log for its model from_log: {"args", "model_configs": {"task"}, "logs":
//               [{"doc_id", "resps"}]}; doc_id is the row of the task's split
// Returns the file's ending, or NULL with a message: an unknown suite, or a set that the suite
// lacks.
const char *predictions_check(const char *suite, const struct eval_set *set, struct err *err);
int predictions_write(const struct submission *s, const char *path, const char *suite,
                      const struct dataset *data, const struct eval_set *set, const char *model,
                      struct err *err);
void submission_free(struct submission *s); // NULL is fine

#endif
