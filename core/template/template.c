// core/template/template.c -- turns messages into a text with marks, and that text into token ids.
//
//   messages -> text, the ranges that the user typed, and a hole for every picture (or each part of
//   it, if the prompt has text between the parts) and every list of kept ids
//   -> ids: the whole text is tokenised at once, as the reference implementation does with the
//   rendered prompt
//   -> rows: the holes are filled
//
// Typed text never becomes a special token, so nobody can forge an assistant turn or a picture by
// spelling it. In the texts of a data set, a spelled special token becomes a token, as in
// transformers (`data.special_tokens`); a spelled picture token is an error. The text comes from
// the folder's own template (template_jinja.c) or from a layout (template_layout.c).
#include "core/template/template.h"

#include <stdlib.h>
#include <string.h>

#include "core/template/message.h"
#include "core/template/sequence.h"
#include "core/template/template_parts.h"

// --- the rendering -----------------------------------------------------------------------------

void rendering_release(struct rendering *r)
{
    buf_release(&r->text);
    free(r->typed);
    free(r->holes);
    free(r->fillings);
    free(r->answers);
    free(r->said);
}

void rendering_message_text(struct rendering *r, const struct message *m, const char *text,
                            size_t length)
{
    if (!length) return;
    r->said = xreallocarray(r->said, r->said_count + 1, sizeof *r->said);
    r->said[r->said_count++] =
        (struct message_range){ { r->text.length, r->text.length + length }, m };
    if (m->from_data && !r->options->plain_data) {
        r->spelled = true;
    } else {
        r->typed = xreallocarray(r->typed, r->typed_count + 1, sizeof *r->typed);
        r->typed[r->typed_count++] = (struct text_range){ r->text.length, r->text.length + length };
    }
    buf_add(&r->text, text, length);
    r->message_text_end = r->text.length;
}

static void add_hole(struct rendering *r, struct filling filling)
{
    r->holes = xreallocarray(r->holes, r->hole_count + 1, sizeof *r->holes);
    r->fillings = xreallocarray(r->fillings, r->hole_count + 1, sizeof *r->fillings);
    r->holes[r->hole_count] = (struct text_hole){ r->text.length, filling.picture < 0 };
    r->fillings[r->hole_count++] = filling;
}

void rendering_ids(struct rendering *r, const struct message *m)
{
    add_hole(r, (struct filling){ .picture = -1, .message = m });
}

void rendering_picture(struct rendering *r, int picture)
{
    const bool known = picture >= 0 && (size_t)picture < r->picture_count;
    const struct picture *p = known ? &r->pictures[picture] : NULL;
    const int64_t each = p && r->options->picture_mark ? p->part_tokens : 0;
    const int64_t first = each && p->part_first ? p->part_first : each;
    const int64_t number = r->shown++;
    if (!each) {
        add_hole(r, (struct filling){ picture, 0, -1, NULL });
        return;
    }
    struct picture_mark mark = { .count = 1 + (p->tokens - first) / each,
                                 .cols = p->part_cols,
                                 .number = r->options->picture_numbers ? number : -1 };
    for (int64_t at = 0; mark.i < mark.count; mark.i++) {
        const int64_t n = mark.i ? each : first;
        r->options->picture_mark(&r->text, &mark);
        add_hole(r, (struct filling){ picture, at, n, NULL });
        at += n;
    }
    r->options->picture_mark(&r->text, &mark);
}

void rendering_answer(struct rendering *r, size_t start, size_t end, bool open)
{
    r->answers = xreallocarray(r->answers, r->answer_count + 1, sizeof *r->answers);
    r->answers[r->answer_count++] = (struct answer_range){ { start, end }, open };
}

bool begins_raw(const struct message *messages, size_t count)
{
    return count && messages[0].role == ROLE_RAW && messages[0].ids.count;
}

int render_messages(struct rendering *r, const struct message *messages, size_t count, bool answers,
                    struct err *err)
{
    bool raw = false;
    for (size_t i = 0; i < count; i++) raw |= messages[i].role == ROLE_RAW;
    buf_puts(&r->text, "");
    // Templates cannot render raw ids, answers to them, or an empty conversation; layouts can.
    if (r->options->template && count && !raw)
        return render_template(r, messages, count, answers, err);
    render_layout(r, messages, count);
    return 0;
}

// --- ids ---------------------------------------------------------------------------------------

// Adds the tokenizer's begin tokens (BOS), unless the ids already begin with them.
static void add_begin(const struct tokenizer *t, struct ids *ids)
{
    struct ids begin = { 0 };
    tokenizer_begin(t, &begin);
    bool there = ids->count >= begin.count &&
                 (!begin.count || !memcmp(ids->data, begin.data, begin.count * sizeof *begin.data));
    if (!there) {
        ids_append(&begin, ids->data, ids->count);
        struct ids swap = *ids;
        *ids = begin;
        begin = swap;
    }
    ids_release(&begin);
}

static int filling_length(const struct rendering *r, const struct filling *f, int64_t *n,
                          struct err *err)
{
    if (f->message) {
        *n = (int64_t)f->message->ids.count;
        return 0;
    }
    if (f->picture < 0 || (size_t)f->picture >= r->picture_count)
        return err_set(err, "a message shows picture %d, but there are only %zu", f->picture,
                       r->picture_count);
    const struct picture *p = &r->pictures[f->picture];
    *n = f->count < 0 ? p->tokens : f->count;
    if (*n < 1)
        return err_set(err, "a picture of %lld x %lld pixels has no visual tokens with this model",
                       (long long)p->shape.width, (long long)p->shape.height);
    if (!p->shape.most_tokens || p->tokens <= p->shape.most_tokens) return 0;
    return err_set(err,
                   "a picture of %lld x %lld pixels costs at least %lld visual tokens with this "
                   "model, but image.max_tokens is %lld",
                   (long long)p->shape.width, (long long)p->shape.height, (long long)p->tokens,
                   (long long)p->shape.most_tokens);
}

// Checks that all ids are in the model's vocabulary.
static int check_ids(const struct ids *ids, const struct tokenizer *t, int64_t vocab,
                     struct err *err)
{
    size_t i = 0;
    while (i < ids->count && ids->data[i] < vocab) i++;
    if (!vocab || i == ids->count) return 0;
    const char *text = tokenizer_token(t, ids->data[i]);
    return err_set(err,
                   "token %d ('%s') of the tokenizer is not among the model's %lld: the tokenizer "
                   "belongs to another model, or the embeddings "
                   "were not resized after tokens were added",
                   ids->data[i], text ? text : "?", (long long)vocab);
}

// Refuses a text that spells the picture token, as transformers does.
static int check_spelled(const struct rendering *r, const struct ids *ids,
                         const struct tokenizer *t, struct err *err)
{
    const int32_t placeholder = r->options->placeholder;
    for (size_t i = 0; r->spelled && placeholder >= 0 && i < ids->count; i++)
        if (ids->data[i] == placeholder)
            return err_set(err,
                           "a text spells '%s', the model's token for a picture: write <image> "
                           "where a picture belongs (/set data.special_tokens text keeps it text)",
                           tokenizer_token(t, placeholder));
    return 0;
}

// Fills the rows of `s`, which is empty, from ids with holes.
static int fill(const struct rendering *r, const struct ids *ids, struct sequence *s,
                struct err *err)
{
    int64_t total = 0, n = 0, row = 0;
    for (size_t i = 0; i < ids->count; i++, total += n) {
        n = 1;
        if (ids->data[i] < 0 && filling_length(r, &r->fillings[-1 - ids->data[i]], &n, err) < 0)
            return -1;
        if (n < 0 || total > INT32_MAX - n) return err_set(err, "the prompt is too long");
    }
    sequence_init(s, total, 1);
    for (size_t i = 0; i < ids->count; i++) {
        if (ids->data[i] >= 0) {
            s->ids[row++] = ids->data[i];
            continue;
        }
        const struct filling *f = &r->fillings[-1 - ids->data[i]];
        const struct message *m = f->message;
        filling_length(r, f, &n, NULL);
        s->pictures |= !m;
        if (m && n) memcpy(s->ids + row, m->ids.data, (size_t)n * sizeof *s->ids);
        for (int64_t k = f->first; !m && k < f->first + n; k++, row++) {
            s->ids[row] = r->options->placeholder;
            s->picture[row] = f->picture;
            s->cell[row] = (int32_t)k;
            const struct picture *p = &r->pictures[f->picture];
            s->newline[row] =
                p->newline_step && k >= p->newline && (k - p->newline) % p->newline_step == 0;
        }
        if (m) row += n;
    }
    return 0;
}

// Tokenisation stops this many tokens beyond the context, so that the error can still state the
// length of most prompts.
enum { BEYOND = 1 << 16 };

static struct marked_text marked(const struct rendering *r)
{
    return (struct marked_text){
        .text = r->text.data,
        .length = r->text.length,
        .typed = r->typed,
        .typed_count = r->typed_count,
        .holes = r->holes,
        .hole_count = r->hole_count,
        .most = r->options->context > 0 ? (size_t)r->options->context + BEYOND : 0,
    };
}

// --- rows of answers and texts -------------------------------------------------------------------
//
// Tokens do not record their offsets in the text. Tokenising again with a cut at both ends of every
// answer usually yields the same ids, with the cuts among them. If a token crosses a cut, the text
// before the cut is tokenised alone: its first ids, as far as they equal those of the whole text,
// precede the cut.

// Counts the ids before offset `at` of the text; `ids` excludes the begin tokens. `holes_too`: also
// counts holes at this offset.
static int ids_before(const struct rendering *r, const struct tokenizer *t, const struct ids *ids,
                      size_t at, bool holes_too, size_t *n, struct err *err)
{
    struct marked_text text = marked(r);
    struct ids part = { 0 };
    struct text_range *typed = xreallocarray(NULL, r->typed_count + 1, sizeof *typed);
    size_t kept = 0;
    for (; kept < r->typed_count && r->typed[kept].start < at; kept++) {
        typed[kept] = r->typed[kept];
        if (typed[kept].end > at) typed[kept].end = at;
    }
    while (text.hole_count && (r->holes[text.hole_count - 1].at > at ||
                               (r->holes[text.hole_count - 1].at == at && !holes_too)))
        text.hole_count--;
    text.length = at;
    text.typed = typed;
    text.typed_count = kept;
    int status = tokenizer_encode_marked(t, &text, 0, &part, err);
    for (*n = 0; *n < part.count && *n < ids->count && part.data[*n] == ids->data[*n];) ++*n;
    free(typed);
    ids_release(&part);
    return status;
}

// Sets places [2 * answers] to the number of ids before the start and the end of every answer.
// Returns false if the cuts change the ids.
static bool find_by_cuts(const struct rendering *r, const struct tokenizer *t,
                         const struct ids *whole, size_t *places)
{
    struct marked_text text = marked(r);
    const size_t cuts = 2 * r->answer_count, room = r->hole_count + cuts;
    struct text_hole *holes = xreallocarray(NULL, room + 1, sizeof *holes);
    int32_t *origin = xreallocarray(NULL, room + 1, sizeof *origin); // index of a hole, or -1 - cut
    struct ids ids = { 0 };
    size_t n = 0, hole = 0, seen = 0, found = 0;
    for (size_t cut = 0; cut <= cuts; cut++) {
        // The order at one offset is: the end of an answer, pictures, the start of the next answer.
        const struct text_range *a = cut < cuts ? &r->answers[cut / 2].text : NULL;
        const size_t at = !a ? r->text.length : cut % 2 ? a->end : a->start;
        const size_t before = a && cut % 2 ? at : at + 1;
        for (; hole < r->hole_count && r->holes[hole].at < before; hole++, n++) {
            holes[n] = r->holes[hole];
            origin[n] = (int32_t)hole;
        }
        if (!a) break;
        holes[n] = (struct text_hole){ at, true };
        origin[n++] = -1 - (int32_t)cut;
    }
    text.holes = holes;
    text.hole_count = n;
    bool same = tokenizer_encode_marked(t, &text, 0, &ids, NULL) == 0;
    for (size_t i = 0; same && i < ids.count; i++) {
        int32_t id = ids.data[i];
        if (id < 0) id = origin[-1 - id];
        if (ids.data[i] < 0 && id < 0) {
            places[-1 - id] = seen;
            found++;
            continue;
        }
        if (ids.data[i] < 0) id = -1 - id;
        same = seen < whole->count && whole->data[seen++] == id;
    }
    free(holes);
    free(origin);
    ids_release(&ids);
    return same && seen == whole->count && found == cuts;
}

// Finds the rows of the answers. The first `begin` ids do not belong to the text.
static int locate_answers(const struct rendering *r, const struct tokenizer *t,
                          const struct ids *ids, size_t begin, struct prompt_answer **answers,
                          struct err *err)
{
    enum { MOST = 1 << 27 }; // bytes to tokenise, which takes seconds
    const struct ids text = { .data = ids->data + begin, .count = ids->count - begin };
    size_t *places = xcalloc(2 * r->answer_count + 1, sizeof *places);
    int64_t row = 0, *rows = NULL;
    int status = 0;
    if (!find_by_cuts(r, t, &text, places)) {
        if (r->answer_count > MOST / (r->text.length + 1))
            status =
                err_set(err, "%zu answers in a text of %zu bytes: too many to locate their tokens",
                        r->answer_count, r->text.length);
        for (size_t i = 0; i < r->answer_count && status == 0; i++) {
            const struct text_range *a = &r->answers[i].text;
            status = ids_before(r, t, &text, a->start, true, &places[2 * i], err);
            if (status == 0)
                status = ids_before(r, t, &text, a->end, false, &places[2 * i + 1], err);
        }
        if (status < 0) goto out;
    }
    // Maps indices of ids to rows: a hole is one id but several rows.
    rows = xreallocarray(NULL, ids->count + 1, sizeof *rows);
    for (size_t i = 0; i <= ids->count; i++) {
        int64_t n = 1;
        rows[i] = row;
        if (i < ids->count && ids->data[i] < 0)
            filling_length(r, &r->fillings[-1 - ids->data[i]], &n, NULL);
        row += n;
    }
    *answers = xcalloc(r->answer_count + 1, sizeof **answers);
    for (size_t i = 0; i < r->answer_count; i++) {
        struct prompt_answer *a = &(*answers)[i];
        a->first = rows[begin + places[2 * i]];
        a->end = rows[begin + places[2 * i + 1]];
        if (a->end < a->first) a->end = a->first;
        a->open = r->answers[i].open;
    }
out:
    free(places);
    free(rows);
    return status;
}

int prompt_answers(const struct message *messages, size_t count, const struct picture *pictures,
                   size_t picture_count, const struct tokenizer *t, const struct prompt_options *o,
                   struct sequence *s, struct prompt_answer **answers, size_t *answer_count,
                   struct err *err)
{
    struct rendering r = { .options = o, .pictures = pictures, .picture_count = picture_count };
    struct ids ids = { 0 };
    *s = (struct sequence){ 0 };
    if (answers) *answers = NULL;
    if (answers) *answer_count = 0;
    int status = render_messages(&r, messages, count, answers, err);
    if (status < 0) goto out;
    const struct marked_text text = marked(&r);
    status = tokenizer_encode_marked(t, &text, 0, &ids, err);
    const size_t text_ids = ids.count;
    if (status == 0 && !begins_raw(messages, count) && !o->written) add_begin(t, &ids);
    if (status == 0) status = check_ids(&ids, t, o->vocab, err);
    if (status == 0) status = check_spelled(&r, &ids, t, err);
    if (status == 0) status = fill(&r, &ids, s, err);
    if (status < 0) err_in(err, "prompt");
    if (status < 0 || !answers) goto out;
    // If the last message is an answer, this answer ends where the text ends.
    if (r.answer_count && messages[count - 1].role == ROLE_ASSISTANT)
        r.answers[r.answer_count - 1].text.end = r.text.length;
    status = locate_answers(&r, t, &ids, ids.count - text_ids, answers, err);
    if (status < 0) {
        sequence_release(s);
        goto out;
    }
    *answer_count = r.answer_count;
    if (r.answer_count) s->prompt = (*answers)[r.answer_count - 1].first;
out:
    ids_release(&ids);
    rendering_release(&r);
    return status;
}

int prompt_texts(const struct message *messages, size_t count, const struct picture *pictures,
                 size_t picture_count, const struct tokenizer *t, const struct prompt_options *o,
                 struct prompt_text **texts, size_t *text_count, struct err *err)
{
    struct rendering r = { .options = o, .pictures = pictures, .picture_count = picture_count };
    struct ids ids = { 0 };
    struct prompt_answer *rows = NULL;
    *texts = NULL;
    *text_count = 0;
    int status = render_messages(&r, messages, count, false, err);
    for (size_t i = 0; i < r.said_count; i++)
        rendering_answer(&r, r.said[i].text.start, r.said[i].text.end, false);
    const struct marked_text text = marked(&r);
    if (status == 0) status = tokenizer_encode_marked(t, &text, 0, &ids, err);
    const size_t text_ids = ids.count;
    if (status == 0 && !begins_raw(messages, count) && !o->written) add_begin(t, &ids);
    if (status == 0) status = locate_answers(&r, t, &ids, ids.count - text_ids, &rows, err);
    if (status == 0) *texts = xcalloc(r.said_count + 1, sizeof **texts);
    for (size_t i = 0; status == 0 && i < r.said_count; i++)
        (*texts)[(*text_count)++] = (struct prompt_text){ (size_t)(r.said[i].message - messages),
                                                          rows[i].first, rows[i].end };
    free(rows);
    ids_release(&ids);
    rendering_release(&r);
    return status < 0 ? err_in(err, "prompt") : 0;
}

int prompt_sequence(const struct message *messages, size_t count, const struct picture *pictures,
                    size_t picture_count, const struct tokenizer *t, const struct prompt_options *o,
                    struct sequence *s, struct err *err)
{
    return prompt_answers(messages, count, pictures, picture_count, t, o, s, NULL, NULL, err);
}
