// commands/dialogue.h -- conversations written in JSON: messages files and LLaVA-style samples.
//
//   struct dialogue d = { 0 };
//   if (dialogue_read_messages(&d, json, "/data", &err) == 0)
//       engine_add_messages(engine, d.messages, d.count, d.paths, d.path_count, &err);
//   dialogue_release(&d);
#ifndef COMMANDS_DIALOGUE_H
#define COMMANDS_DIALOGUE_H

#include "core/json.h"
#include "core/message.h"

struct dialogue {
    struct message *messages; // part.picture counts in paths
    size_t count;
    char **paths;
    size_t path_count;
    char *reference; // what the data gives as the answer to the last question, or NULL
};

// A list of {"role", "content": text | [{"type": "text", "text"} | {"type": "image", "path"}]}.
// Relative paths are taken from `folder`. Messages name the place: "message 2: \"content\" ...".
int dialogue_read_messages(struct dialogue *d, const cJSON *list, const char *folder,
                           struct err *err);
// One sample of a data set: {"conversations": [{"from", "value"}], "image"}, {"question", "image" |
// "images"} or {"messages": [...]}. It ends with the question: an answer after it becomes
// `reference`. "<image>" in a text is where the next picture stands.
int dialogue_read_sample(struct dialogue *d, const cJSON *sample, const char *folder,
                         struct err *err);
void dialogue_release(struct dialogue *d);

// "DIR" of "DIR/FILE", "." of "FILE"; belongs to the caller.
char *path_folder(const char *path);

#endif
