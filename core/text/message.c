// core/text/message.c -- messages made of text and pictures.
#include "core/text/message.h"

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

static void add_part(struct message *m, char *text, int picture)
{
    m->parts = xreallocarray(m->parts, m->part_count + 1, sizeof *m->parts);
    m->parts[m->part_count++] = (struct part){ text, picture };
}

void message_add_text(struct message *m, const char *text)
{
    add_part(m, xstrdup(text), -1);
}

void message_add_picture(struct message *m, int picture)
{
    add_part(m, NULL, picture);
}

char *message_text(const struct message *m)
{
    struct buf b = { 0 };
    for (size_t i = 0; i < m->part_count; i++)
        if (m->parts[i].text) buf_puts(&b, m->parts[i].text);
    return buf_take(&b);
}

void message_copy(struct message *to, const struct message *from)
{
    *to = (struct message){ .role = from->role, .generated = from->generated };
    for (size_t i = 0; i < from->part_count; i++) {
        const struct part *p = &from->parts[i];
        add_part(to, p->text ? xstrdup(p->text) : NULL, p->picture);
    }
    ids_append(&to->ids, from->ids.data, from->ids.count);
}

void message_release(struct message *m)
{
    for (size_t i = 0; i < m->part_count; i++) free(m->parts[i].text);
    free(m->parts);
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
