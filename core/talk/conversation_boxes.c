// core/talk/conversation_boxes.c -- boxes in answers, on the pictures of the conversation.
#include <string.h>

#include "core/model/families/family.h"
#include "core/picture/boxes.h"
#include "core/talk/conversation.h"

static int last_picture(const struct conversation *c, size_t messages)
{
    while (messages-- > 0)
        for (size_t i = c->messages[messages].content_count; i-- > 0;)
            if (!c->messages[messages].content[i].text)
                return c->messages[messages].content[i].picture;
    return -1;
}

int conversation_boxes(const struct conversation *c, size_t messages, const char *text,
                       const struct ids *ids, const struct settings *s,
                       const struct box_style **style, struct boxes *b)
{
    const int index = last_picture(c, messages);
    const char *name = settings_text(s, "image.boxes");
    *b = (struct boxes){ 0 };
    if (!strcmp(name, "auto"))
        name = c->model && c->model->family->boxes ? c->model->family->boxes : "guess";
    const struct box_style *read = box_style_named(name);
    if (style) *style = read;
    if (index < 0) return -1;
    const struct picture *p = &c->pictures[index];
    struct picture_config config = { 0 };
    const bool seen = c->model && c->model->family->pictures;
    if (seen) config = c->model->picture;
    if (seen && read->unit == BOX_RESIZED) config = model_picture_config(c->model, p->shape);
    struct buf words = { 0 }; // with <ref>, <|box_start|> and the like
    static const struct thinking_list none = { 0 };
    struct thinking_text split;
    struct buf reasoning = { 0 }, answer = { 0 };
    if (c->model && ids->count && *text)
        tokenizer_decode(c->model->tokenizer, ids->data, ids->count, false, &words);
    thinking_start(&split, c->model ? &c->model->thinking : &none, NULL);
    thinking_push(&split, words.data ? words.data : text, &reasoning, &answer);
    thinking_finish(&split, &reasoning, &answer);
    boxes_read(b, split.answer.data ? split.answer.data : "", read, seen ? &config : NULL,
               p->image.width, p->image.height);
    thinking_release(&split);
    buf_release(&reasoning);
    buf_release(&answer);
    buf_release(&words);
    return index;
}
