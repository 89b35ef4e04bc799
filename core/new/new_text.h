// core/new/new_text.h -- reads text from files, for a new tokenizer (core/new/new_tokenizer.h).
//
//   struct buf text = { 0 };
//   if (new_text_read(&text, "lessons.json", &err) < 0) ...   // adds to the buffer
//   buf_release(&text);
//
// From a data set (.json, .jsonl: core/data/dataset.h) takes only the texts, as conversations:
// "USER: question ASSISTANT: answer"; any other file is read as plain text.
#ifndef CORE_NEW_NEW_TEXT_H
#define CORE_NEW_NEW_TEXT_H

#include "core/base/err.h"
#include "core/base/mem.h"

enum { NEW_TEXT_MAX = 1 << 28 }; // bytes of all files

int new_text_read(struct buf *text, const char *path, struct err *err);

#endif
