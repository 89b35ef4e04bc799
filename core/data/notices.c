// core/data/notices.c -- counts the unusual contents of a data set, and words the notices about
// them.
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

enum { NAMED = 5 }; // absent kinds

struct data_notices data_notices_new(const struct settings *settings)
{
    return (struct data_notices){ .plain = settings_is(settings, "data.special_tokens", "text") };
}

// --- counts --------------------------------------------------------------------------------------

void data_notices_texts(struct data_notices *n, const struct tokenizer *t, const struct sample *s,
                        int parts)
{
    const struct dialogue *d = &s->dialogue;
    size_t messages = 0, count = 0;
    if (parts & DATA_PROMPT) messages = dialogue_question(d);
    if (parts & DATA_ANSWERS) messages = d->count;
    for (size_t i = 0; i < messages; i++)
        for (size_t k = 0; k < d->messages[i].content_count; k++) {
            const char *text = d->messages[i].content[k].text;
            if (text) count += tokenizer_count_special(t, text, strlen(text));
        }
    for (size_t i = 0; parts & DATA_CHOICES && i < s->choice_count; i++)
        count += tokenizer_count_special(t, s->choices[i], strlen(s->choices[i]));
    n->special += (int64_t)count;
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

void data_notices_absent(struct data_notices *n, const char *kind)
{
    names_add(&n->absent, kind, NULL);
}

void data_notices_repeated(struct data_notices *n, const struct sample *s)
{
    n->repeated++;
    if (!n->repeats) n->repeats = xstrdup(s->repeats);
}

void data_notices_sample(struct data_notices *n, const struct tokenizer *t, const struct sample *s,
                         int parts)
{
    const struct dialogue *d = &s->dialogue;
    const bool choices = parts & DATA_UNUSED_CHOICES && s->choice_count;
    key_counts_add(&n->unread, &s->unread,
                   choices ? "the choices, which only evaluations read" : NULL);
    data_notices_texts(n, t, s, parts);
    for (size_t i = 0; parts & DATA_ANSWERS && i < d->count; i++) {
        const struct message *m = &d->messages[i];
        n->untrained += m->role == ROLE_ASSISTANT && m->untrained && !m->example;
    }
}

// --- in words ------------------------------------------------------------------------------------

char *data_notices_absent_text(const struct data_notices *n)
{
    struct buf b = { 0 };
    if (!n->absent.count) return NULL;
    buf_puts(&b, n->absent.count == 1 ? "no sample is of the kind " : "no sample is of the kinds ");
    names_put(&b, &n->absent, NAMED);
    return buf_take(&b);
}

char *data_notice(const struct data_notices *n, int index)
{
    const char *plain = n->plain ? "stay text (data.special_tokens)"
                                 : "are read as tokens, as transformers does; /set "
                                   "data.special_tokens text keeps them text";
    const long long untrained = n->untrained, special = n->special, samples = n->special_samples;
    const size_t animated = n->animations.count;
    if (n->absent.count && index-- == 0) return data_notices_absent_text(n);
    char *unread = key_counts_text(&n->unread);
    if (unread && index-- == 0) return unread;
    free(unread);
    if (n->repeated && index-- == 0)
        return xasprintf("%lld sample%s the id and question of an earlier sample, which counts "
                         "once (the first: %s)",
                         (long long)n->repeated, n->repeated == 1 ? " repeats" : "s repeat",
                         n->repeats);
    if (untrained && index-- == 0)
        return xasprintf("%lld answer%s excluded from training: context only", untrained,
                         untrained == 1 ? " is" : "s are");
    if (special && index-- == 0)
        return xasprintf("%lld special token%s in the texts of %lld sample%s %s", special,
                         special == 1 ? "" : "s", samples, samples == 1 ? "" : "s", plain);
    if (animated && index == 0)
        return xasprintf("%zu picture file%s animated: only the first frame is read", animated,
                         animated == 1 ? " is" : "s are");
    return NULL;
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
    free(n->repeats);
    names_release(&n->pictures);
    names_release(&n->animations);
    names_release(&n->absent);
    *n = (struct data_notices){ 0 };
}
