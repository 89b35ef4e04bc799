// core/eval/answer_file.h -- reads answers from a file, written by another program or by an earlier
// run, to be scored instead of the model's.
//
//   struct answer_file *f = answer_file_read("answers.jsonl", &err);
//   answer_file_add_question(f, "q17", "What is it?", 17, 0);      // every question of the data
//   answer_file_match(f);
//   const char *text = answer_file_find(f, 17, 0, &err);         // NULL: no answer, err says why
//   answer_file_free(f);
//
// JSON lines or a list of objects with "question_id", "id" or "index", and "text", "prediction",
// "response" or "answer" (the first present): what --submit writes, LLaVA's answer files, VQAv2's
// upload.
//
// Several questions may share an id (LLaVA's TextVQA and MME name them by their picture). Their
// answers are matched by "prompt" (or "question"): the whole text, else its first line. Lines with
// the same answer count as one. If no prompt of an id matches a question, the id's lines answer its
// questions in order, provided that there are equally many. Any other line is unused.
#ifndef CORE_EVAL_ANSWER_FILE_H
#define CORE_EVAL_ANSWER_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

struct answer_file;

struct answer_file *answer_file_read(const char *path, struct err *err); // NULL on error
// Adds a question, which is a message of a sample. Call it in ascending order of the samples.
void answer_file_add_question(struct answer_file *f, const char *id, const char *prompt,
                              int64_t sample, size_t message);
void answer_file_match(struct answer_file *f);
const char *answer_file_find(const struct answer_file *f, int64_t sample, size_t message,
                             struct err *err);
// Describes the lines that answer no question; NULL: every line answers one. The caller frees it.
char *answer_file_unused(const struct answer_file *f);
// Describes the answers that were matched by id alone although their prompt differs from the
// question. NULL: none. The caller frees it.
char *answer_file_differ(const struct answer_file *f);
void answer_file_free(struct answer_file *f); // may be NULL

#endif
