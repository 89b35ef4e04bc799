// core/eval/given.h -- answers of a file, scored instead of the model's: from another program, or
// from an earlier run.
//
//   struct given *g = given_read("answers.jsonl", &err);
//   given_add_question(g, "q17", "What is it?", 17, 0);      // every question of the data
//   given_match(g);
//   const char *text = given_answer(g, 17, 0, &err);         // NULL: err says why it has none
//   given_free(g);
//
// JSON lines or a list of objects with "question_id", "id" or "index", and "text", "answer",
// "prediction" or "response": what --submit writes, LLaVA's answer files, VQAv2's upload.
//
// Several questions may have one id (LLaVA's TextVQA and MME name them by their picture). Their
// answers are matched by "prompt" (or "question"): the whole text, else its first line. If no
// prompt of an id matches a question, its lines answer its questions in order, provided that the
// numbers are equal. Any other line is unused.
#ifndef CORE_EVAL_GIVEN_H
#define CORE_EVAL_GIVEN_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

struct given;

struct given *given_read(const char *path, struct err *err); // NULL on error
// Samples in ascending order, and their messages.
void given_add_question(struct given *g, const char *id, const char *prompt, int64_t sample,
                        size_t message);
void given_match(struct given *g);
const char *given_answer(const struct given *g, int64_t sample, size_t message, struct err *err);
// Says which lines answer no question; NULL: all do. The caller frees it.
char *given_unused(const struct given *g);
// Counts the answers matched by id alone, with a prompt that differs from their question. NULL:
// none. The caller frees it.
char *given_differ(const struct given *g);
void given_free(struct given *g); // NULL is fine

#endif
