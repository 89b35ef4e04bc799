// core/sets/beside.h -- answers that lie beside a question file: LLaVA's files hold questions only.
#ifndef CORE_SETS_BESIDE_H
#define CORE_SETS_BESIDE_H

#include "core/base/json.h"

// Reads what lies beside the file: POPE's label files (coco_pope_*.json, here or in coco/),
// TextVQA_0.5.1_val.json, problems.json of ScienceQA. Never NULL.
struct set_beside *set_beside_new(const char *path);
// Adds "answer" (and "choices") to a question that has none, if its answer is known.
void set_beside_add(const struct set_beside *b, cJSON *question);
// Which of the files could not be read, and why; NULL: none.
const char *set_beside_faults(const struct set_beside *b);
void set_beside_free(struct set_beside *b); // NULL is fine

#endif
