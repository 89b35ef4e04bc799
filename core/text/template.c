// core/text/template.c -- messages to one text with marks in it, and that text to token ids.
//
//   messages -> text, the ranges a person typed, and a hole for every picture and every list of
//   kept ids -> tokenised in one go (as the reference does with the whole rendered prompt) -> holes
//   filled
//
// What a person typed cannot become a special token, so nobody writes a turn of the assistant or a
// picture into a prompt by spelling it.
#include "core/text/template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/text/layouts.h"

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
    // A template that builds its marks in a way of its own: by the tokens it must be using.
    if (tokenizer_id(t, "<|start_header_id|>") >= 0) return layout_find("llama-3");
    if (tokenizer_id(t, "<|im_start|>") >= 0) return layout_find("chatml");
    return layout_find("plain");
}

// --- rendering ---------------------------------------------------------------------------------

// What stands in a hole: a picture or the ids of a message.
struct filling {
    int picture; // -1: ids
    const struct message *message;
};

struct rendering {
    const struct prompt_options *options;
    struct buf text;
    struct text_range *typed;
    struct text_hole *holes;
    struct filling *fillings;
    struct text_range *answers; // given ones: what follows the generation prompt
    size_t typed_count, hole_count, answer_count;
};

static void rendering_release(struct rendering *r)
{
    buf_release(&r->text);
    free(r->typed);
    free(r->holes);
    free(r->fillings);
    free(r->answers);
}

static void put(struct rendering *r, const char *text)
{
    if (text) buf_puts(&r->text, text);
}

static bool is_space(unsigned char c)
{
    return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x1F);
}

// Bytes of white space (as Python's strip() sees it) at the beginning of text.
static size_t space_at(const char *text, size_t length)
{
    // The characters beyond ASCII: U+0085, U+00A0, U+1680, U+2000..200A, 2028, 2029, 202F, 205F,
    // 3000.
    static const char wide[][4] = {
        "\xC2\x85",     "\xC2\xA0",     "\xE1\x9A\x80", "\xE2\x80\xA8",
        "\xE2\x80\xA9", "\xE2\x80\xAF", "\xE2\x81\x9F", "\xE3\x80\x80"
    };
    if (length && is_space((unsigned char)*text)) return 1;
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
        size_t n = strlen(wide[i]);
        if (length >= n && !memcmp(text, wide[i], n)) return n;
    }
    bool quad = length >= 3 && !memcmp(text, "\xE2\x80", 2) && (unsigned char)text[2] >= 0x80 &&
                (unsigned char)text[2] <= 0x8A;
    return quad ? 3 : 0;
}

static size_t space_before(const char *text, size_t length)
{
    for (size_t n = 1; n <= 3 && n <= length; n++)
        if (space_at(text + length - n, n) == n) return n;
    return 0;
}

static void put_typed(struct rendering *r, const char *text)
{
    size_t length = strlen(text), n;
    if (r->options->layout->trim) {
        for (; (n = space_at(text, length)); text += n) length -= n;
        while ((n = space_before(text, length))) length -= n;
    }
    if (!length) return;
    r->typed = xreallocarray(r->typed, r->typed_count + 1, sizeof *r->typed);
    r->typed[r->typed_count++] = (struct text_range){ r->text.length, r->text.length + length };
    buf_add(&r->text, text, length);
}

static void put_hole(struct rendering *r, int picture, const struct message *m)
{
    r->holes = xreallocarray(r->holes, r->hole_count + 1, sizeof *r->holes);
    r->fillings = xreallocarray(r->fillings, r->hole_count + 1, sizeof *r->fillings);
    r->holes[r->hole_count] = (struct text_hole){ r->text.length, picture < 0 };
    r->fillings[r->hole_count++] = (struct filling){ picture, m };
}

static void put_picture(struct rendering *r, int picture)
{
    put(r, r->options->picture_before);
    put_hole(r, picture, NULL);
    put(r, r->options->picture_after);
    put(r, r->options->layout->picture_end);
}

// Texts and pictures of a message, in the layout's order.
static void put_content(struct rendering *r, const struct message *m)
{
    const struct layout *l = r->options->layout;
    if (l->pictures_first)
        for (size_t i = 0; i < m->content_count; i++)
            if (!m->content[i].text) put_picture(r, m->content[i].picture);
    for (size_t i = 0; i < m->content_count; i++) {
        if (m->content[i].text) {
            put(r, l->text_open);
            put_typed(r, m->content[i].text);
            put(r, l->text_close);
        } else if (!l->pictures_first) {
            put_picture(r, m->content[i].picture);
        }
    }
}

// A message has been written from `from` on. Its answer begins where its text leaves that of a
// generation prompt ("ASSISTANT:", and the blank belongs to the answer), and ends with the turn;
// when nothing ends the turn, with what was typed.
static void note_answer(struct rendering *r, size_t from, size_t typed_count)
{
    const struct layout *l = r->options->layout;
    const char *text = r->text.data + from;
    size_t n = 0;
    while (l->generation[n] && text[n] == l->generation[n]) n++;
    struct text_range answer = { from + n, r->text.length };
    if (l->bare_answers)
        answer.end = r->typed_count > typed_count ? r->typed[r->typed_count - 1].end : answer.start;
    r->answers = xreallocarray(r->answers, r->answer_count + 1, sizeof *r->answers);
    r->answers[r->answer_count++] = answer;
}

// An answer to raw ids stands directly behind them, as they do: nothing is written around either.
static void put_message(struct rendering *r, const struct message *m, const struct message *before)
{
    const struct layout *l = r->options->layout;
    bool bare = m->generated && before && before->role == ROLE_RAW;
    const size_t from = r->text.length, typed_count = r->typed_count;
    if (m->role == ROLE_RAW || bare) {
        put_hole(r, -1, m);
        return;
    }
    if (m->generated) {
        put(r, l->generation);
        put_hole(r, -1, m);
        put(r, l->text_close);
    } else {
        put(r, l->open[m->role]);
        put_content(r, m);
    }
    put(r, l->close[m->role]);
    if (m->role == ROLE_ASSISTANT && !m->generated) note_answer(r, from, typed_count);
}

// --- the system message ------------------------------------------------------------------------

bool prompt_dated(const struct prompt_options *o)
{
    return o->layout->place == SYSTEM_WITH_DATE;
}

char *prompt_date(const struct prompt_options *o)
{
    const time_t now = time(NULL);
    struct tm t;
    if (o->date && strcmp(o->date, "today") != 0) return xstrdup(o->date);
    if (!localtime_r(&now, &t)) return xstrdup("");
    // English whatever the locale: the date is read by a model.
    return xasprintf("%02d %.3s %d", t.tm_mday,
                     &"JanFebMarAprMayJunJulAugSepOctNovDec"[3 * t.tm_mon], t.tm_year + 1900);
}

static void put_date(struct rendering *r)
{
    char *date = prompt_date(r->options);
    put(r, "Cutting Knowledge Date: December 2023\nToday Date: ");
    put(r, date);
    put(r, "\n\n");
    free(date);
}

// Behind `from` in a template: its text up to `to` if that is plain text, not code of the template.
static char *plain_until(const char *from, const char *to)
{
    // A line break is one, or written \n inside a string of the template.
    if (*from == '\n')
        from++;
    else if (from[0] == '\\' && from[1] == 'n')
        from += 2;
    else
        return NULL;
    const char *end = strstr(from, to);
    size_t length = end ? (size_t)(end - from) : 0;
    if (!length || strcspn(from, "{}'\"\\") < length) return NULL;
    return xstrndup(from, length);
}

// The system message that the folder's template writes when there is none: what stands in it
// between the marks of a system message. NULL when there is no such thing.
static char *default_system(const struct prompt_options *o)
{
    const struct layout *l = o->layout;
    if (l->system) return xstrdup(l->system);
    const char *open = l->open[ROLE_SYSTEM], *close = l->close[ROLE_SYSTEM];
    if (!o->chat_template || !*open || !*close) return NULL;
    size_t open_length = strcspn(open, "\n");
    char *first = xstrndup(open, open_length), *last = xstrndup(close, strcspn(close, "\n"));
    char *found = NULL;
    for (const char *p = o->chat_template; !found && (p = strstr(p, first));) {
        p += open_length;
        if (open[open_length]) {
            found = plain_until(p, last);
        } else {
            size_t length = strcspn(p, "{}'\"\\");
            const char *end = strstr(p, last);
            if (end && end > p && (size_t)(end - p) <= length)
                found = xstrndup(p, (size_t)(end - p));
        }
    }
    free(first);
    free(last);
    return found;
}

// Writes what stands before the first message that is not the system's; the number of messages it
// has used up.
static size_t put_system(struct rendering *r, const struct message *messages, size_t count)
{
    const struct layout *l = r->options->layout;
    bool given = count && messages[0].role == ROLE_SYSTEM;
    if (l->place == SYSTEM_WITH_DATE) {
        put(r, l->open[ROLE_SYSTEM]);
        put_date(r);
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

static void render(struct rendering *r, const struct message *messages, size_t count)
{
    const struct layout *l = r->options->layout;
    size_t i = 0;
    buf_puts(&r->text, "");
    bool raw = count && messages[0].role == ROLE_RAW;
    if (!raw) {
        put(r, l->begin);
        i = put_system(r, messages, count);
    }
    for (; i < count; i++) put_message(r, &messages[i], i ? &messages[i - 1] : NULL);
    if (r->options->generation_prompt) put(r, l->generation);
}

char *prompt_text(const struct message *messages, size_t count, const struct prompt_options *o)
{
    struct rendering r = { .options = o };
    struct buf out = { 0 };
    size_t done = 0;
    render(&r, messages, count);
    for (size_t i = 0; i < r.hole_count; i++) {
        buf_add(&out, r.text.data + done, r.holes[i].at - done);
        done = r.holes[i].at;
        char *text = r.fillings[i].message ? message_text(r.fillings[i].message) : NULL;
        buf_puts(&out, text ? text : "<image>");
        free(text);
    }
    buf_add(&out, r.text.data + done, r.text.length - done);
    rendering_release(&r);
    return buf_take(&out);
}

// --- ids ---------------------------------------------------------------------------------------

// BOS and the like, unless the layout has written it.
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

static int filling_length(const struct filling *f, const struct picture *pictures,
                          size_t picture_count, int64_t *n, struct err *err)
{
    if (f->message) {
        *n = (int64_t)f->message->ids.count;
        return 0;
    }
    if (f->picture < 0 || (size_t)f->picture >= picture_count)
        return err_set(err, "a message shows picture %d, but there are only %zu", f->picture,
                       picture_count);
    *n = pictures[f->picture].tokens;
    return 0;
}

static bool ends_row(const struct picture *p, int64_t cell)
{
    return p->newline_step && cell >= p->newline && (cell - p->newline) % p->newline_step == 0;
}

// ids with holes -> rows; `s` is empty before.
static int fill(const struct rendering *r, const struct ids *ids, const struct picture *pictures,
                size_t picture_count, struct sequence *s, struct err *err)
{
    int64_t total = 0, n = 0, row = 0;
    for (size_t i = 0; i < ids->count; i++, total += n) {
        n = 1;
        if (ids->data[i] < 0 &&
            filling_length(&r->fillings[-1 - ids->data[i]], pictures, picture_count, &n, err) < 0)
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
        filling_length(f, pictures, picture_count, &n, NULL);
        if (m && n) memcpy(s->ids + row, m->ids.data, (size_t)n * sizeof *s->ids);
        for (int64_t k = 0; !m && k < n; k++) {
            s->ids[row + k] = r->options->placeholder;
            s->picture[row + k] = f->picture;
            s->cell[row + k] = (int32_t)k;
            s->newline[row + k] = ends_row(&pictures[f->picture], k);
        }
        row += n;
    }
    return 0;
}

static struct marked_text marked(const struct rendering *r)
{
    return (struct marked_text){
        .text = r->text.data,
        .length = r->text.length,
        .typed = r->typed,
        .typed_count = r->typed_count,
        .holes = r->holes,
        .hole_count = r->hole_count,
    };
}

// *begin: how many of the ids stand before those of the text.
static int make_sequence(const struct rendering *r, const struct tokenizer *t, bool raw,
                         const struct picture *pictures, size_t picture_count, struct ids *ids,
                         size_t *begin, struct sequence *s, struct err *err)
{
    const struct marked_text text = marked(r);
    *s = (struct sequence){ 0 };
    if (tokenizer_encode_marked(t, &text, 0, ids, err) < 0) return err_in(err, "prompt");
    *begin = ids->count;
    if (!raw) add_begin(t, ids);
    *begin = ids->count - *begin;
    if (fill(r, ids, pictures, picture_count, s, err) < 0) return err_in(err, "prompt");
    return 0;
}

int prompt_sequence(const struct message *messages, size_t count, const struct picture *pictures,
                    size_t picture_count, const struct tokenizer *t, const struct prompt_options *o,
                    struct sequence *s, struct err *err)
{
    struct rendering r = { .options = o };
    struct ids ids = { 0 };
    size_t begin = 0;
    const bool raw = count && messages[0].role == ROLE_RAW;
    render(&r, messages, count);
    int status = make_sequence(&r, t, raw, pictures, picture_count, &ids, &begin, s, err);
    ids_release(&ids);
    rendering_release(&r);
    return status;
}

// --- where the answers are ---------------------------------------------------------------------
//
// Tokens know no places in the text. Tokenised again with a cut at both ends of every answer, the
// ids are mostly the same, and the cuts stand among them. Where a token reaches across a cut, what
// comes before is tokenised alone: the common ids are those before the place.

// Ids before `at` in `ids` (without the begin tokens).
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

// places [2 * answers]: ids before the start and the end of every answer. False when the cuts
// change what the text is tokenised to.
static bool find_by_cuts(const struct rendering *r, const struct tokenizer *t,
                         const struct ids *whole, size_t *places)
{
    struct marked_text text = marked(r);
    const size_t cuts = 2 * r->answer_count, room = r->hole_count + cuts;
    struct text_hole *holes = xreallocarray(NULL, room + 1, sizeof *holes);
    int32_t *origin = xreallocarray(NULL, room + 1, sizeof *origin); // hole, or -1 - cut
    struct ids ids = { 0 };
    size_t n = 0, hole = 0, seen = 0, found = 0;
    for (size_t cut = 0; cut <= cuts; cut++) {
        // At one place: the end of an answer, then pictures, then the start of the next.
        const struct text_range *a = cut < cuts ? &r->answers[cut / 2] : NULL;
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

static int find_places(const struct rendering *r, const struct tokenizer *t,
                       const struct ids *whole, size_t *places, struct err *err)
{
    enum { MOST = 1 << 27 }; // bytes to tokenise: seconds
    if (find_by_cuts(r, t, whole, places)) return 0;
    if (r->answer_count > MOST / (r->text.length + 1))
        return err_set(err, "%zu answers in a text of %zu bytes: too many to locate their tokens",
                       r->answer_count, r->text.length);
    for (size_t i = 0; i < r->answer_count; i++) {
        const struct text_range *a = &r->answers[i];
        if (ids_before(r, t, whole, a->start, true, &places[2 * i], err) < 0 ||
            ids_before(r, t, whole, a->end, false, &places[2 * i + 1], err) < 0)
            return -1;
    }
    return 0;
}

// Places among the ids become rows; `begin` tokens stand before them.
static void places_to_rows(const struct rendering *r, const struct ids *ids, size_t begin,
                           const struct picture *pictures, const size_t *places,
                           struct prompt_answer *answers)
{
    int64_t row = 0, *rows = xreallocarray(NULL, ids->count + 1, sizeof *rows);
    for (size_t i = 0; i <= ids->count; i++) {
        int64_t n = 1;
        rows[i] = row;
        if (i < ids->count && ids->data[i] < 0) {
            const struct filling *f = &r->fillings[-1 - ids->data[i]];
            n = f->message ? (int64_t)f->message->ids.count : pictures[f->picture].tokens;
        }
        row += n;
    }
    for (size_t i = 0; i < r->answer_count; i++) {
        struct prompt_answer *a = &answers[i];
        a->first = rows[begin + places[2 * i]];
        a->end = rows[begin + places[2 * i + 1]];
        if (a->end < a->first) a->end = a->first;
        a->open = r->options->layout->bare_answers;
    }
    free(rows);
}

int prompt_answers(const struct message *messages, size_t count, const struct picture *pictures,
                   size_t picture_count, const struct tokenizer *t, const struct prompt_options *o,
                   struct sequence *s, struct prompt_answer **answers, size_t *answer_count,
                   struct err *err)
{
    struct rendering r = { .options = o };
    struct ids ids = { 0 };
    size_t begin = 0;
    const bool raw = count && messages[0].role == ROLE_RAW;
    render(&r, messages, count);
    // The last answer ends with the whole text.
    if (r.answer_count && messages[count - 1].role == ROLE_ASSISTANT)
        r.answers[r.answer_count - 1].end = r.text.length;
    size_t *places = xcalloc(2 * r.answer_count + 1, sizeof *places);
    *answers = NULL;
    *answer_count = 0;
    int status = make_sequence(&r, t, raw, pictures, picture_count, &ids, &begin, s, err);
    const struct ids text = { .data = ids.data + begin, .count = ids.count - begin };
    if (status == 0) status = find_places(&r, t, &text, places, err);
    if (status == 0) {
        *answer_count = r.answer_count;
        *answers = xcalloc(r.answer_count + 1, sizeof **answers);
        places_to_rows(&r, &ids, begin, pictures, places, *answers);
        if (r.answer_count) s->prompt = (*answers)[r.answer_count - 1].first;
    } else {
        sequence_release(s);
    }
    ids_release(&ids);
    free(places);
    rendering_release(&r);
    return status;
}
