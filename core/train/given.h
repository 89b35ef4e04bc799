// core/train/given.h -- answers of a file, scored in place of the model's: those of another
// program, or of an earlier run.
//
//   struct given *g = given_read("answers.jsonl", &err);
//   const char *text = given_answer(g, "q17", 17);      // NULL: it has none
//   given_free(g);
//
// JSON lines or a list of objects with "question_id", "id" or "index", and "text", "answer",
// "prediction" or "response": what --submit writes, LLaVA's answer files, VQAv2's upload.
#ifndef CORE_TRAIN_GIVEN_H
#define CORE_TRAIN_GIVEN_H

#include <stdint.h>

#include "core/base/err.h"

struct given;

struct given *given_read(const char *path, struct err *err); // NULL on error
// The answer to a question by its id. Where several have the same id (LLaVA's TextVQA names them by
// their picture), it is the number-th line, if that has the id, else the first that has it.
const char *given_answer(const struct given *g, const char *id, int64_t number);
void given_free(struct given *g); // NULL is fine

#endif
