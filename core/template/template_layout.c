// core/template/template_layout.c -- messages in a layout (core/template/layouts.c). template.h
// says when a layout replaces the folder's own template.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/template/jinja_parts.h"
#include "core/template/message.h"
#include "core/template/template_parts.h"

// --- the table ---------------------------------------------------------------------------------

const char *layout_name(int index)
{
    return layouts[index].name;
}

const struct layout *layout_find(const char *name)
{
    for (int i = 0; layouts[i].name; i++)
        if (!strcmp(layouts[i].name, name)) return &layouts[i];
    return NULL;
}

const char *layout_title(const struct layout *layout)
{
    return layout->name;
}

int32_t layout_end(const struct layout *layout, const struct tokenizer *t)
{
    const char *close = layout->close[ROLE_ASSISTANT];
    char *token = xstrndup(close, strcspn(close, "\n"));
    const int32_t id = *token ? tokenizer_id(t, token) : -1;
    free(token);
    return id;
}

static bool has_marks(const struct layout *l, const char *chat_template)
{
    if (!l->marks[0]) return false;
    for (int i = 0; i < 3 && l->marks[i]; i++)
        if (!strstr(chat_template, l->marks[i])) return false;
    return true;
}

const struct layout *layout_detect(const char *chat_template, const struct tokenizer *t)
{
    if (!chat_template) return layout_find("plain");
    for (int i = 0; layouts[i].name; i++)
        if (has_marks(&layouts[i], chat_template)) return &layouts[i];
    // The template computes its marks, so the tokenizer's special tokens decide.
    if (tokenizer_id(t, "<|start_header_id|>") >= 0) return layout_find("llama-3");
    if (tokenizer_id(t, "<|im_start|>") >= 0) return layout_find("chatml");
    return layout_find("plain");
}

// --- rendering ---------------------------------------------------------------------------------

static void put(struct rendering *r, const char *text)
{
    if (text) buf_puts(&r->text, text);
}

static void put_message_text(struct rendering *r, const struct message *m, const char *text)
{
    size_t length = strlen(text), n;
    if (r->options->layout->trim) {
        for (; (n = jinja_space_start(text, length)); text += n) length -= n;
        while ((n = jinja_space_end(text, length))) length -= n;
    }
    rendering_message_text(r, m, text, length);
}

static void put_picture(struct rendering *r, int picture)
{
    put(r, r->options->picture_before);
    rendering_picture(r, picture);
    put(r, r->options->picture_after);
    put(r, r->options->layout->picture_end);
}

// Writes texts and pictures of a message, in the layout's order.
static void put_content(struct rendering *r, const struct message *m)
{
    const struct layout *l = r->options->layout;
    if (l->pictures_first)
        for (size_t i = 0; i < m->content_count; i++)
            if (!m->content[i].text) put_picture(r, m->content[i].picture);
    for (size_t i = 0; i < m->content_count; i++) {
        if (m->content[i].text) {
            put(r, l->text_open);
            put_message_text(r, m, m->content[i].text);
            put(r, l->text_close);
        } else if (!l->pictures_first) {
            put_picture(r, m->content[i].picture);
        }
    }
}

// Records the range of the answer whose message starts at `from`. The range starts after the
// generation prompt ("ASSISTANT:", so the next space belongs to the answer), and ends with the turn
// or, if no text ends the turn, with the message's last text.
static void note_answer(struct rendering *r, size_t from)
{
    const struct layout *l = r->options->layout;
    const char *text = r->text.data + from;
    size_t n = 0;
    while (l->generation[n] && text[n] == l->generation[n]) n++;
    struct text_range answer = { from + n, r->text.length };
    if (l->bare_answers)
        answer.end = r->message_text_end > answer.start ? r->message_text_end : answer.start;
    rendering_answer(r, answer.start, answer.end, l->bare_answers);
}

// A generated answer to raw ids follows them directly: no text surrounds either.
static void put_message(struct rendering *r, const struct message *m, const struct message *before)
{
    const struct layout *l = r->options->layout;
    bool bare = m->generated && before && before->role == ROLE_RAW;
    const size_t from = r->text.length;
    if (m->role == ROLE_RAW || bare) {
        rendering_ids(r, m);
        return;
    }
    if (m->generated) {
        put(r, l->generation);
        rendering_ids(r, m);
        put(r, l->text_close);
    } else {
        put(r, l->open[m->role]);
        put_content(r, m);
    }
    put(r, l->close[m->role]);
    if (m->role == ROLE_ASSISTANT && !m->generated) note_answer(r, from);
}

// --- the system message ------------------------------------------------------------------------

// Skips a line break, or \n inside a string of the template. NULL: neither is at p.
static const char *skip_break(const char *p)
{
    if (*p == '\n') return p + 1;
    return p[0] == '\\' && p[1] == 'n' ? p + 2 : NULL;
}

// Returns the layout's default system message; if it has none, the plain text that the folder's
// template has between the start and the end of a system message; NULL if neither exists.
static char *default_system(const struct prompt_options *o)
{
    const struct layout *l = o->layout;
    if (l->system) return xstrdup(l->system);
    const char *open = l->open[ROLE_SYSTEM], *close = l->close[ROLE_SYSTEM];
    if (!o->chat_template || !*open || !*close) return NULL;
    size_t open_length = strcspn(open, "\n");
    char *first = xstrndup(open, open_length), *last = xstrndup(close, strcspn(close, "\n"));
    // The next end of a system message and the next character of code, which stay the same for many
    // starts: a search from each start would take a time quadratic in the template's length.
    const char *end = o->chat_template, *code = o->chat_template;
    char *found = NULL;
    for (const char *p = o->chat_template; !found && (p = strstr(p, first));) {
        p += open_length;
        const char *text = open[open_length] ? skip_break(p) : p;
        if (!text) continue;
        if (end <= text && !(end = strstr(text, last))) break;
        if (code <= text) code = text + strcspn(text, "{}'\"\\");
        if (end > text && end <= code) found = xstrndup(text, (size_t)(end - text));
    }
    free(first);
    free(last);
    return found;
}

// Writes the system message that the layout adds, and the given one if put_message cannot write it
// (enum system_place). Returns the number of messages written, which includes a user message around
// the system message.
static size_t put_system(struct rendering *r, const struct message *messages, size_t count)
{
    const struct layout *l = r->options->layout;
    bool given = count && messages[0].role == ROLE_SYSTEM;
    if (l->place == SYSTEM_WITH_DATE) {
        put(r, l->open[ROLE_SYSTEM]);
        char *date = prompt_date(r->options);
        buf_printf(&r->text, "Cutting Knowledge Date: December 2023\nToday Date: %s\n\n", date);
        free(date);
        if (given) put_content(r, &messages[0]);
        put(r, l->close[ROLE_SYSTEM]);
        return given;
    }
    if (l->place == SYSTEM_IN_USER && given) {
        put(r, l->open[ROLE_USER]);
        put(r, "<<SYS>>\n");
        put_content(r, &messages[0]);
        put(r, "\n<</SYS>>\n\n");
        bool user = count > 1 && messages[1].role == ROLE_USER;
        if (user) put_content(r, &messages[1]);
        put(r, l->close[ROLE_USER]);
        return user ? 2 : 1;
    }
    char *system = given || !count ? NULL : default_system(r->options);
    if (system) {
        put(r, l->open[ROLE_SYSTEM]);
        put(r, system);
        put(r, l->close[ROLE_SYSTEM]);
        free(system);
    }
    return 0;
}

void render_layout(struct rendering *r, const struct message *messages, size_t count)
{
    const struct layout *l = r->options->layout;
    size_t i = 0;
    const bool raw = begins_raw(messages, count);
    if (!raw) {
        put(r, l->begin);
        i = put_system(r, messages, count);
    }
    for (; i < count; i++) put_message(r, &messages[i], i ? &messages[i - 1] : NULL);
    if (r->options->generation_prompt) put(r, l->generation);
}
