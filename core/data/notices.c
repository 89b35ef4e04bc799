// core/data/notices.c -- counts what is worth a notice in a data set, and words the notices.
#include "core/data/notices.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/data/dataset.h"
#include "core/data/dialogue.h"
#include "core/picture/image.h"
#include "core/settings/settings.h"
#include "core/template/message.h"
#include "core/tokenizer/tokenizer.h"

struct data_notices data_notices_new(const struct settings *settings)
{
    return (struct data_notices){ .plain = settings_is(settings, "data.special_tokens", "text") };
}

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

void data_notices_picture(struct data_notices *n, const char *name, const void *bytes, size_t size)
{
    char hex[HASH_HEX];
    bool known;
    const size_t length = strlen(name);
    if (length >= sizeof hex) { // a data: URI may have megabytes
        hash_hex(name, length, hex);
        name = hex;
    }
    names_add(&n->pictures, name, &known);
    if (!known && image_frames(bytes, size) > 1) names_add(&n->animations, name, NULL);
}

void data_notices_shown(struct data_notices *n, const struct dialogue *d, const struct picture *p,
                        size_t count)
{
    for (size_t i = 0; i < count && i < d->path_count; i++)
        if (p[i].bytes) data_notices_picture(n, d->paths[i], p[i].bytes, p[i].size);
}

void data_notices_same_pictures(struct data_notices *n, const struct data_notices *from)
{
    for (size_t i = 0; i < from->pictures.count; i++)
        names_add(&n->pictures, from->pictures.list[i], NULL);
    for (size_t i = 0; i < from->animations.count; i++)
        names_add(&n->animations, from->animations.list[i], NULL);
}

void data_notices_leave_choices(struct sample *s)
{
    if (s->choice_count) names_add(&s->unread, "the choices, which only evaluations read", NULL);
}

static void count_untrained(struct data_notices *n, const struct dialogue *d)
{
    for (size_t i = 0; i < d->count; i++)
        n->untrained += d->messages[i].role == ROLE_ASSISTANT && d->messages[i].untrained;
}

void data_notices_sample(struct data_notices *n, const struct tokenizer *t, const struct sample *s,
                         int parts)
{
    key_counts_add(&n->unread, &s->unread);
    data_notices_texts(n, t, s, parts);
    if (parts & DATA_ANSWERS) count_untrained(n, &s->dialogue);
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
        !n->animations.count
            ? NULL
            : xasprintf("%zu picture file%s animated: only the first frame is read",
                        n->animations.count, n->animations.count == 1 ? " is" : "s are"),
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

char *data_notices_text(const struct data_notices *n)
{
    struct buf text = { 0 };
    char *sentence;
    for (int i = 0; (sentence = data_notice(n, i)); i++) {
        buf_printf(&text, "%s%s", i ? "; " : "", sentence);
        free(sentence);
    }
    return text.length ? buf_take(&text) : NULL;
}

void data_notices_release(struct data_notices *n)
{
    key_counts_release(&n->unread);
    names_release(&n->pictures);
    names_release(&n->animations);
    *n = (struct data_notices){ 0 };
}
