// core/data/shots.c -- few-shot examples: answered questions in front of every sample.
#include "core/data/shots.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/data/dataset.h"
#include "core/template/message.h"

enum { SHOTS_MOST = 64 }; // examples of a file

struct shots {
    struct dialogue front;
    struct names unread; // keys of the file that nothing reads (core/data/keys.h)
};

// Appends the messages begin..end of `from`, whose pictures get numbers from `pictures` on.
static void append_messages(struct dialogue *d, const struct dialogue *from, size_t begin,
                            size_t end, size_t pictures)
{
    d->messages = xreallocarray(d->messages, d->count + end - begin + 1, sizeof *d->messages);
    for (size_t i = begin; i < end; i++) {
        struct message *m = &d->messages[d->count++];
        message_copy(m, &from->messages[i]);
        for (size_t k = 0; k < m->content_count; k++)
            if (!m->content[k].text) m->content[k].picture += (int)pictures;
    }
}

static void append_pictures(struct dialogue *d, const struct dialogue *from)
{
    d->paths = xreallocarray(d->paths, d->path_count + from->path_count + 1, sizeof *d->paths);
    for (size_t i = 0; i < from->path_count; i++)
        d->paths[d->path_count++] = xstrdup(from->paths[i]);
}

// Adds one example: its messages, and its reference if it ends with a question.
static int add_example(struct dialogue *shots, struct sample *s, struct err *err)
{
    struct dialogue *d = &s->dialogue;
    const size_t first = shots->count;
    if (d->count && d->messages[0].role == ROLE_SYSTEM)
        return err_set(err, "it has a system message: set it with /system or in the data instead");
    append_messages(shots, d, 0, d->count, shots->path_count);
    append_pictures(shots, d);
    if (shots->count > first && shots->messages[shots->count - 1].role == ROLE_USER &&
        s->reference_count) {
        shots->messages = xreallocarray(shots->messages, shots->count + 1, sizeof *shots->messages);
        shots->messages[shots->count] =
            (struct message){ .role = ROLE_ASSISTANT, .from_data = true };
        message_add_text(&shots->messages[shots->count++], s->references[0]);
    }
    if (shots->count == first || shots->messages[shots->count - 1].role != ROLE_ASSISTANT)
        return err_set(err, "it has no answer");
    return 0;
}

int dataset_add_shots(struct dataset *d, const char *path, struct err *err)
{
    struct dataset file;
    if (dataset_open(&file, path, NULL, err) < 0) return err_in(err, "--shots");
    struct shots *shots = xcalloc(1, sizeof *shots);
    int status = 0;
    if (file.count > SHOTS_MOST)
        status = err_set(err, "'%s' has %lld examples, more than %d", path, (long long)file.count,
                         SHOTS_MOST);
    for (int64_t i = 0; i < file.count && status == 0; i++) {
        struct sample s;
        status = dataset_read(&file, i, &s, err);
        if (status == 0) status = add_example(&shots->front, &s, err);
        if (status < 0) err_in(err, "'%s', line %lld", path, (long long)s.line);
        for (size_t k = 0; k < s.unread.count; k++) {
            char *key = xasprintf("%s of --shots", s.unread.list[k]);
            names_add(&shots->unread, key, NULL);
            free(key);
        }
        sample_release(&s);
    }
    dataset_close(&file);
    for (size_t i = 0; i < shots->front.count; i++)
        shots->front.messages[i].example = shots->front.messages[i].untrained = true;
    d->shots = shots;
    return status < 0 ? err_in(err, "--shots") : 0;
}

void shots_put(const struct shots *shots, struct sample *s)
{
    struct dialogue *d = &s->dialogue, whole = { 0 };
    const size_t system = d->count && d->messages[0].role == ROLE_SYSTEM;
    append_messages(&whole, d, 0, system, 0);
    append_messages(&whole, &shots->front, 0, shots->front.count, d->path_count);
    append_messages(&whole, d, system, d->count, 0);
    for (size_t i = 0; i < d->count; i++) message_release(&d->messages[i]);
    free(d->messages);
    d->messages = whole.messages;
    d->count = whole.count;
    append_pictures(d, &shots->front); // after the sample's own, which keep their numbers
    for (size_t i = 0; i < shots->unread.count; i++)
        names_add(&s->unread, shots->unread.list[i], NULL);
}

void shots_free(struct shots *shots)
{
    if (!shots) return;
    dialogue_release(&shots->front);
    names_release(&shots->unread);
    free(shots);
}
