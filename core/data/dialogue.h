// core/data/dialogue.h -- conversations written in JSON: messages files and LLaVA-style samples.
//
//   struct dialogue d = { 0 };
//   if (dialogue_read_messages(&d, json, "/data", &err) == 0)
//       engine_add_messages(engine, d.messages, d.count, d.paths, d.path_count, &err);
//   dialogue_release(&d);
#ifndef CORE_DATA_DIALOGUE_H
#define CORE_DATA_DIALOGUE_H

#include "core/base/json.h"
#include "core/base/names.h"

struct dialogue {
    struct message *messages; // refer to pictures by index into paths
    size_t count;
    char **paths;
    size_t path_count;
    struct names marks; // of the first pictures ("<image_00>", at most 64 bytes), in order
    char *reference;    // the data's answer to the last question, or NULL
    size_t placed;      // pictures of a sample's list that its texts or items show
    bool marks_differ;  // marks and pictures do not match: reading failed or had to guess
};

// Reads a list of {"role", "content": text | [{"type": "text", "text"} | {"type": "image",
// "path"}]}. "image" or OpenAI's "image_url" may replace "path". Relative paths start at `folder`;
// a path may be file:// or a data: URI (core/picture/source.h). Error messages name the position
// ("message 2: ...").
int dialogue_read_messages(struct dialogue *d, const cJSON *list, const char *folder,
                           struct err *err);
// Reads one sample of a data set, with answers: {"conversations": [{"from", "value"}], "image"},
// {"question", "answer", "image" | "images"}, {"messages": [...], "images"} or a list of messages.
// "<image>" in a text marks the next picture; pictures without marks come before the first
// question.
int dialogue_read_conversation(struct dialogue *d, const cJSON *sample, const char *folder,
                               struct err *err);
// Like dialogue_read_conversation, for answering: ends with the last question; the answer after it
// becomes `reference`.
int dialogue_read_sample(struct dialogue *d, const cJSON *sample, const char *folder,
                         struct err *err);
void dialogue_release(struct dialogue *d);
// Returns the number of messages up to and including the last question; 0 without a question.
size_t dialogue_question(const struct dialogue *d);
// Returns why messages have no answer to train on or to score: no answer is a text ("answer": 7 is
// only a reference), or all are empty or marked as context (core/data/keys.h).
const char *dialogue_unanswered(const struct message *messages, size_t count);

// Returns the name of a picture in a sample, given as a path or URI, {"path"}, {"url"}, {"image"},
// or {"bytes"} in base64; NULL if it has none. The caller frees it.
char *dialogue_picture(const cJSON *item);

// Returns "DIR" for "DIR/FILE" and "." for "FILE"; the caller frees it.
char *path_folder(const char *path);

#endif
