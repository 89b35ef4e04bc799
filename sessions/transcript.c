// sessions/transcript.c -- a session as Markdown: model, settings, questions with their pictures,
// answers with their times.
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/files/checkpoint.h"
#include "core/template/message.h"
#include "sessions/internal.h"

static void line(struct buf *b, const char *before, const char *text, const char *after)
{
    char *words = first_words(text, 1000);
    buf_printf(b, "%s%s%s\n", before, words, after);
    free(words);
}

// The link to a stored picture is relative to the transcript, so that both can be moved together.
static void write_picture(struct exporting *x, int picture)
{
    const struct saved_picture *p = &x->saved->pictures[picture];
    char *path = p->stored ? export_picture(x, picture, NULL) : NULL;
    char *name = first_words(text_file_name(p->path), 200);
    char *link;
    if (path) { // FOLDER/FILE, without the path of FOLDER
        const char *folder = strrchr(x->folder, '/') + 1;
        link = first_words(path + (folder - x->folder), 4000);
    } else {
        link = first_words(p->path, 4000);
    }
    buf_printf(&x->text, "![%s](<%s>)\n\n", name, link);
    free(link);
    free(name);
    free(path);
}

static void write_message(struct exporting *x, const struct saved_entry *e)
{
    static const char *const titles[ROLE_COUNT] = { "System", "You", "Model", "Token ids" };
    const struct message *m = &e->message;
    buf_printf(&x->text, "## %s\n\n", titles[m->role]);
    for (size_t i = 0; i < m->content_count; i++) {
        if (m->content[i].text)
            buf_printf(&x->text, "%s\n\n",
                       m->role == ROLE_ASSISTANT ? text_trimmed(m->content[i].text)
                                                 : m->content[i].text);
        else
            write_picture(x, m->content[i].picture);
    }
    for (size_t i = 0; m->role == ROLE_RAW && i < m->ids.count; i++)
        buf_printf(&x->text, "%d%s", m->ids.data[i], i + 1 < m->ids.count ? " " : "\n\n");
    if (e->timed) {
        struct buf *b = &x->text;
        const struct event_answer *a = &e->answer;
        buf_printf(b, "*%lld prompt tokens", (long long)a->prompt_tokens);
        if (a->visual_tokens) buf_printf(b, " (%lld of pictures)", (long long)a->visual_tokens);
        buf_printf(b, ", %lld computed in %.2f s; %zu token%s in %.2f s",
                   (long long)a->computed_tokens, a->vision_s + a->prefill_s, a->count,
                   a->count == 1 ? "" : "s", a->decode_s);
        if (a->decode_s > 0) buf_printf(b, " (%.1f a second)", (double)a->count / a->decode_s);
        line(b, "; end: ", e->stop, "*\n");
    }
}

static bool is_default(const struct saved_entry *e)
{
    const struct setting *row = settings_find(e->key);
    return row && !strcmp(row->def, e->value);
}

int transcript_write(struct exporting *x, struct err *err)
{
    const struct saved *saved = x->saved;
    char *began = time_text(saved->began, "%Y-%m-%d %H:%M");
    char *ended = time_text(saved->touched, "%Y-%m-%d %H:%M");
    line(&x->text, "# ", saved->name, "\n");
    buf_printf(&x->text, "%s to %s\n\n", began, ended);
    bool listing = true, said = false; // before the first message, default values need no line
    for (size_t i = 0; i < saved->count; i++) {
        const struct saved_entry *e = &saved->list[i];
        bool message = e->kind == SAVED_MESSAGE;
        if (!message && e->kind == SAVED_SETTING && !said && is_default(e)) continue;
        if (message && listing) buf_putc(&x->text, '\n');
        listing = !message;
        said |= message;
        if (message) {
            write_message(x, e);
        } else {
            char *key = first_words(e->key, 1000), *value = first_words(e->value, 1000);
            if (e->kind == SAVED_MODEL && checkpoint_identity_unknown(e->value))
                buf_printf(&x->text, "- model `%s` (weights not hashed)\n", key);
            else if (e->kind == SAVED_MODEL)
                buf_printf(&x->text, "- model `%s` (fingerprint `%.16s`)\n", key, value);
            else
                buf_printf(&x->text, "- `%s` = `%s`\n", key, value);
            free(key);
            free(value);
        }
    }
    free(began);
    free(ended);
    return 0;
}
