// core/template/message.c -- messages made of text and pictures.
#include "core/template/message.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[ROLE_COUNT] = { "system", "user", "assistant", "raw" };

const char *role_name(enum role role)
{
    return names[role];
}

int role_parse(const char *name)
{
    for (int i = 0; i < ROLE_COUNT; i++)
        if (!strcmp(name, names[i])) return i;
    return -1;
}

static void add_item(struct message *m, char *text, int picture)
{
    m->content = xreallocarray(m->content, m->content_count + 1, sizeof *m->content);
    m->content[m->content_count++] = (struct content_item){ text, picture };
}

void message_add_text(struct message *m, const char *text)
{
    add_item(m, xstrdup(text), -1);
}

void message_add_picture(struct message *m, int picture)
{
    add_item(m, NULL, picture);
}

char *message_text(const struct message *m)
{
    struct buf b = { 0 };
    for (size_t i = 0; i < m->content_count; i++)
        if (m->content[i].text) buf_puts(&b, m->content[i].text);
    return buf_take(&b);
}

void message_copy(struct message *to, const struct message *from)
{
    *to = (struct message){ .role = from->role,
                            .generated = from->generated,
                            .from_data = from->from_data,
                            .untrained = from->untrained,
                            .example = from->example };
    for (size_t i = 0; i < from->content_count; i++) {
        const struct content_item *p = &from->content[i];
        add_item(to, p->text ? xstrdup(p->text) : NULL, p->picture);
    }
    ids_append(&to->ids, from->ids.data, from->ids.count);
    if (from->reasoning)
        message_set_reasoning(to, from->reasoning, from->reasoning_tokens, from->answer_at);
}

void message_set_reasoning(struct message *m, const char *reasoning, int64_t tokens,
                           size_t answer_at)
{
    free(m->reasoning);
    m->reasoning = xstrdup(reasoning);
    m->reasoning_tokens = tokens;
    m->answer_at = answer_at;
}

void message_drop_ids(struct message *m)
{
    m->generated = false;
    ids_clear(&m->ids);
}

void message_release(struct message *m)
{
    for (size_t i = 0; i < m->content_count; i++) free(m->content[i].text);
    free(m->content);
    free(m->reasoning);
    ids_release(&m->ids);
    *m = (struct message){ 0 };
}

void picture_release(struct picture *p)
{
    free(p->path);
    free(p->bytes);
    image_release(&p->image);
    *p = (struct picture){ 0 };
}
