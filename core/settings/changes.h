// core/settings/changes.h -- queue of settings changes posted during an answer, for the computing
// thread.
//
//   changes_post(&e->posted, list, 2, 0);              // any thread
//   while (changes_take(&e->posted, tokens, &batch)) { // the thread that owns the engine
//       ... batch.list[0..batch.count-1], all of them or none ...
//       change_batch_release(&batch);
//   }
#ifndef CORE_SETTINGS_CHANGES_H
#define CORE_SETTINGS_CHANGES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A setting and its new value.
struct change {
    const char *key, *value;
};

// Changes that belong together, with copies of their strings.
struct change_batch {
    struct change *list;
    size_t count;
    int64_t tokens; // the changes apply once the answer has this many tokens
};

struct changes {
    pthread_mutex_t lock;
    struct change_batch *list; // in the order posted
    size_t count;
    atomic_size_t waiting; // = count, readable without the lock: checked before every token
};

void changes_init(struct changes *q);
void changes_release(struct changes *q);
void changes_post(struct changes *q, const struct change *list, size_t count, int64_t tokens);
// Takes the oldest batch that applies at `tokens` tokens; false: none.
bool changes_take(struct changes *q, int64_t tokens, struct change_batch *batch);
void change_batch_release(struct change_batch *batch);
// Returns the waiting changes as "KEY=VALUE after 4 tokens, ..."; the caller frees the text.
char *changes_text(struct changes *q);
// Frees a list that owns its strings.
void changes_free(struct change *list, size_t count);

#endif
