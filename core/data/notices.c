// core/data/notices.c -- counts what is worth a notice in a data set, and words the notices.
#include "core/data/notices.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file_in.h"
#include "core/base/hash.h"
#include "core/picture/source.h"

// --- counts --------------------------------------------------------------------------------------

static int64_t count_special(const struct tokenizer *t, const char *text)
{
    return text ? (int64_t)tokenizer_count_special(t, text, strlen(text)) : 0;
}

void data_notices_texts(struct data_notices *n, const struct tokenizer *t, const struct sample *s,
                        int parts)
{
    const struct dialogue *d = &s->dialogue;
    const size_t messages = parts & DATA_ANSWERS  ? d->count
                            : parts & DATA_PROMPT ? dialogue_question(d)
                                                  : 0;
    int64_t count = 0;
    for (size_t i = 0; i < messages; i++)
        for (size_t k = 0; k < d->messages[i].content_count; k++)
            count += count_special(t, d->messages[i].content[k].text);
    for (size_t i = 0; parts & DATA_CHOICES && i < s->choice_count; i++)
        count += count_special(t, s->choices[i]);
    n->special += count;
    n->special_samples += count > 0;
}

// Reads no more of a file than its kind needs: most pictures cannot be animations.
static bool is_animated(const struct dataset *d, const char *name)
{
    enum { HEAD = 1 << 16 };
    bool may = true;
    size_t size;
    if (!d->reader && picture_source_is_file(name)) {
        char *head = xmalloc(HEAD);
        const int file = file_in_open(name, NULL);
        const ssize_t got = file < 0 ? -1 : read(file, head, HEAD);
        may = got > 0 && image_may_move(head, (size_t)got);
        if (file >= 0) close(file);
        free(head);
    }
    char *bytes = may ? dataset_picture(d, name, IMAGE_MAX_FILE, &size, NULL) : NULL;
    const bool animated = bytes && image_frames(bytes, size) > 1;
    free(bytes);
    return animated;
}

// A data: URI is known by its hash: it may have megabytes.
static bool add_picture(struct names *pictures, const char *name)
{
    char hex[HASH_HEX];
    bool known;
    const size_t length = strlen(name);
    if (length >= sizeof hex) hash_hex(name, length, hex);
    names_add(pictures, length < sizeof hex ? name : hex, &known);
    return !known;
}

void data_notices_leave_choices(struct sample *s)
{
    if (s->choice_count) names_add(&s->unread, "the choices, which only evaluations read", NULL);
}

static int parts_of(const struct data_use *u, struct sample *s)
{
    if (u->parts) return u->parts(u->self, s);
    data_notices_leave_choices(s);
    return DATA_PROMPT;
}

static void count_untrained(struct data_notices *n, const struct dialogue *d)
{
    for (size_t i = 0; i < d->count; i++)
        n->untrained += d->messages[i].role == ROLE_ASSISTANT && d->messages[i].untrained;
}

// False: no further sample is used.
static bool look_at(const struct data_use *u, int64_t index, struct data_notices *n,
                    struct names *pictures)
{
    struct sample s;
    const bool read = dataset_read(u->data, index, &s, NULL) == 0;
    const int parts = parts_of(u, &s);
    if (parts >= 0) key_counts_add(&n->unread, &s.unread);
    if (read && parts > 0) {
        data_notices_texts(n, u->model->tokenizer, &s, parts);
        if (parts & DATA_ANSWERS) count_untrained(n, &s.dialogue);
        for (size_t i = 0; model_sees(u->model) && i < s.dialogue.path_count; i++)
            if (add_picture(pictures, s.dialogue.paths[i]))
                n->animations += is_animated(u->data, s.dialogue.paths[i]);
    }
    sample_release(&s);
    return parts != DATA_END;
}

// --- in words ------------------------------------------------------------------------------------

char *data_notice(const struct data_notices *n, int index)
{
    char *sentences[] = {
        key_counts_text(&n->unread),
        !n->untrained ? NULL
                      : xasprintf("%lld answer%s marked as not to be trained: context only",
                                  (long long)n->untrained, n->untrained == 1 ? " is" : "s are"),
        !n->special ? NULL
                    : xasprintf("%lld special token%s in the texts of %lld sample%s %s",
                                (long long)n->special, n->special == 1 ? "" : "s",
                                (long long)n->special_samples, n->special_samples == 1 ? "" : "s",
                                n->plain ? "stay text (data.special_tokens)"
                                         : "are read as tokens, as transformers does; /set "
                                           "data.special_tokens text keeps them text"),
        !n->animations ? NULL
                       : xasprintf("%zu picture file%s animated: only the first frame is read",
                                   n->animations, n->animations == 1 ? " is" : "s are"),
    };
    char *found = NULL;
    for (size_t i = 0; i < sizeof sentences / sizeof *sentences; i++) {
        if (sentences[i] && index-- == 0)
            found = sentences[i];
        else
            free(sentences[i]);
    }
    return found;
}

void data_notices_release(struct data_notices *n)
{
    key_counts_release(&n->unread);
    *n = (struct data_notices){ 0 };
}

char *data_notices_read(const struct data_use *u)
{
    struct data_notices n = { .plain = settings_is(u->settings, "data.special_tokens", "text") };
    struct names pictures = { 0 };
    struct buf text = { 0 };
    const int64_t count = u->count < u->data->count ? u->count : u->data->count;
    int64_t i = 0;
    bool cancelled = false, more = true;
    for (; i < count && more && !cancelled; i++) {
        more = look_at(u, i, &n, &pictures);
        cancelled = u->cancel && atomic_load(u->cancel);
    }
    char *sentence;
    for (int k = 0; (sentence = data_notice(&n, k)); k++) {
        buf_printf(&text, "%s%s", k ? "; " : "", sentence);
        free(sentence);
    }
    if (text.length && cancelled) buf_printf(&text, ", of the first %lld samples", (long long)i);
    names_release(&pictures);
    data_notices_release(&n);
    return text.length ? buf_take(&text) : NULL;
}
