// sessions/transcript.c -- a session as Markdown: model, settings, questions with their pictures,
// answers with their times and boxes.
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/draw/boxes_figure.h"
#include "core/draw/figure.h"
#include "core/files/checkpoint.h"
#include "core/picture/boxes.h"
#include "core/picture/image.h"
#include "core/template/message.h"
#include "sessions/internal.h"

static void line(struct buf *b, const char *before, const char *text, const char *after)
{
    char *words = first_words(text, 1000);
    buf_printf(b, "%s%s%s\n", before, words, after);
    free(words);
}

// Returns FOLDER/FILE for a file beside the transcript: a relative link, so that both can be moved
// together. The caller frees it.
static char *link_beside(const struct session_export *x, const char *path)
{
    const char *folder = strrchr(x->folder, '/') + 1;
    return first_words(path + (folder - x->folder), 4000);
}

static void write_picture(struct session_export *x, int picture)
{
    const struct saved_picture *p = &x->saved->pictures[picture];
    char *path = p->stored ? export_picture(x, picture, NULL) : NULL;
    char *name = first_words(text_file_name(p->path), 200);
    char *link = path ? link_beside(x, path) : first_words(p->path, 4000);
    buf_printf(&x->text, "![%s](<%s>)\n\n", name, link);
    free(link);
    free(name);
    free(path);
}

// Draws the boxes on a copy of their picture, PATH.files/HASH-boxes.png. Returns its path, which
// the caller frees; NULL: the picture cannot be read, or the copy not written.
static char *draw_boxes(struct session_export *x, int picture, const struct boxes *b,
                        const char *json)
{
    const struct saved_picture *p = &x->saved->pictures[picture];
    const struct figure_look look = figure_look(NULL);
    struct image image = { 0 };
    struct hash h;
    char hex[HASH_HEX], *bytes, *path = NULL;
    size_t size;
    if (saved_bytes(x->store, p, &bytes, &size, NULL) < 0) return NULL;
    hash_start(&h);
    hash_add(&h, bytes, size);
    hash_add(&h, json, strlen(json));
    hash_end(&h, hex);
    if (image_decode(&image, bytes, size, p->path, NULL) == 0 && export_folder(x, NULL) == 0) {
        path = xasprintf("%s/%.12s-boxes.png", x->folder, hex);
        if (boxes_figure(path, &look, &image, b, NULL) < 0) {
            free(path);
            path = NULL;
        }
    }
    image_release(&image);
    free(bytes);
    return path;
}

// Writes the picture with the boxes and points of an answer drawn on it, and below it their list.
static void write_boxes(struct session_export *x, const struct saved_entry *e, int picture)
{
    struct boxes b;
    cJSON *list = json_parse(e->boxes, strlen(e->boxes), "boxes", NULL);
    boxes_from_json(&b, list);
    char *path = b.count && picture >= 0 ? draw_boxes(x, picture, &b, e->boxes) : NULL;
    if (path) {
        char *link = link_beside(x, path);
        buf_printf(&x->text, "![boxes](<%s>)\n\n", link);
        free(link);
    }
    if (b.count) buf_puts(&x->text, "| label | x | y | w | h |\n|---|---:|---:|---:|---:|\n");
    for (size_t i = 0; i < b.count; i++) {
        const struct picture_box *box = &b.list[i];
        buf_puts(&x->text, "| ");
        text_put_markdown(&x->text, box->label);
        buf_printf(&x->text, " | %.6g | %.6g | ", box->x, box->y);
        if (box->point)
            buf_puts(&x->text, "| |\n");
        else
            buf_printf(&x->text, "%.6g | %.6g |\n", box->w, box->h);
    }
    if (b.count) buf_putc(&x->text, '\n');
    free(path);
    boxes_release(&b);
    cJSON_Delete(list);
}

// *picture: the last one so far, to which the next answer's boxes refer; -1: none.
static void write_message(struct session_export *x, const struct saved_entry *e, int *picture)
{
    static const char *const titles[ROLE_COUNT] = { "System", "You", "Model", "Token ids" };
    const struct message *m = &e->message;
    buf_printf(&x->text, "## %s\n\n", titles[m->role]);
    if (m->reasoning)
        buf_printf(&x->text,
                   "<details><summary>Reasoning (%lld tokens)</summary>\n\n%s\n\n</details>\n\n",
                   (long long)m->reasoning_tokens, m->reasoning);
    size_t skipped = 0; // bytes of the joined texts, up to answer_at
    for (size_t i = 0; i < m->content_count; i++) {
        const char *text = m->content[i].text;
        if (!text) {
            write_picture(x, *picture = m->content[i].picture);
        } else if (m->role == ROLE_ASSISTANT) {
            const size_t n = strnlen(text, m->answer_at - skipped);
            const char *answer = text_trimmed(text + n);
            skipped += n;
            if (*answer) buf_printf(&x->text, "%s\n\n", answer);
        } else {
            buf_printf(&x->text, "%s\n\n", text);
        }
    }
    if (e->boxes && *e->boxes) write_boxes(x, e, *picture);
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
        if (a->decode_s > 0) buf_printf(b, " (%.1f per second)", (double)a->count / a->decode_s);
        line(b, "; end: ", e->stop, "*\n");
    }
}

static bool is_default(const struct saved_entry *e)
{
    const struct setting *row = settings_find(e->key);
    return row && !strcmp(row->def, e->value);
}

static void write_command(struct session_export *x, const struct saved_entry *e)
{
    char *whole = script_command(e->value), *text = first_words(whole, 1000);
    buf_printf(&x->text, "- measured: `%s`%s\n", text,
               e->undone && !e->apart ? " (of messages that were undone later)" : "");
    free(text);
    free(whole);
}

int transcript_write(struct session_export *x, struct err *err)
{
    const struct saved *saved = x->saved;
    char *began = time_text(saved->began, "%Y-%m-%d %H:%M");
    char *ended = time_text(saved->touched, "%Y-%m-%d %H:%M");
    line(&x->text, "# ", saved->name, "\n");
    buf_printf(&x->text, "%s to %s\n\n", began, ended);
    int picture = -1;
    bool listing = true, said = false; // before the first message, default values need no line
    for (size_t i = 0; i < saved->count; i++) {
        const struct saved_entry *e = &saved->list[i];
        bool message = e->kind == SAVED_MESSAGE;
        if (!message && e->kind == SAVED_SETTING && !said && is_default(e)) continue;
        if (message && listing) buf_putc(&x->text, '\n');
        listing = !message;
        said |= message;
        if (message) {
            write_message(x, e, &picture);
        } else if (e->kind == SAVED_COMMAND) {
            write_command(x, e);
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
