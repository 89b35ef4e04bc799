// core/template/template_jinja.c -- messages in the folder's own chat template.
//
//   messages -> values of the template, each text with its message as its source
//   -> text whose spans name the source message
//   -> picture placeholders and generated answers become holes, spans become typed ranges
//
// Easy to get wrong: the ids of an answer replace its text only if the template kept the whole text
// (some templates drop the reasoning of earlier turns; the text that they keep is then tokenised
// again). And a generated answer starts where the generation prompt ended, which may be before a
// space that the template writes.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/names.h"
#include "core/settings/settings.h"
#include "core/template/jinja_parts.h"
#include "core/template/message.h"
#include "core/template/template_parts.h"

// Budget of steps for all renderings that locate the answers of one sample: that of 20 renderings.
static const uint64_t ANSWERS_STEPS = (uint64_t)20 * JINJA_STEPS;

struct chat_template {
    struct jinja *jinja;
    struct jinja_arena arena;   // of the special tokens
    struct jinja_value special; // dict: bos_token ...
    struct names variables;     // that the user may set
    char *placeholder;          // text of the visual tokens' id, NULL: the model has none
    bool texts, parts;          // accepts content as a text; as a list of parts
    bool separate;              // reads reasoning_content, so an answer's content is without it
    bool changes;               // the template changes texts (upper case, other spaces)
    uint64_t *trials;           // while opening: steps of all trials so far, which share a budget
};

// Marks an answer without text in the template; its ids replace the mark.
static const char no_text[] = "\xEF\xBF\xBC";

// --- values ------------------------------------------------------------------------------------

// Builds a part of a message's content: a text, or a picture (`text` NULL).
static struct jinja_value part_value(struct jinja_arena *arena, const char *text, int32_t source)
{
    const struct jinja_value part = jinja_dict(arena);
    jinja_set(arena, part, "type", jinja_words(arena, text ? "text" : "image"));
    if (text) jinja_set(arena, part, "text", jinja_text(arena, text, strlen(text), source));
    return part;
}

// True if the template gets the message's reasoning beside its content.
static bool is_separate(const struct chat_template *t, const struct message *m)
{
    return t->separate && m->reasoning;
}

// Joins the texts of a message, without reasoning that the template gets separately; `no_text` for
// a generated answer without text.
static char *content_text(const struct chat_template *t, const struct message *m)
{
    char *text = message_text(m);
    if (is_separate(t, m)) {
        memmove(text, text + m->answer_at, strlen(text + m->answer_at) + 1);
        return text;
    }
    if (*text || !m->generated) return text;
    free(text);
    return xstrdup(no_text);
}

// Builds the parts. A generated answer is one part, so byte n of the part is byte n of the answer's
// text (cut_answers); in other messages, each text is a part.
static struct jinja_value parts_value(const struct chat_template *t, struct jinja_arena *arena,
                                      const struct message *m, int32_t source)
{
    struct jinja_list *list = jinja_list_new(arena);
    if (m->generated) {
        char *whole = content_text(t, m);
        jinja_list_push(arena, list, part_value(arena, whole, source));
        free(whole);
    }
    for (size_t i = 0; i < m->content_count && !m->generated; i++)
        jinja_list_push(arena, list, part_value(arena, m->content[i].text, source));
    return jinja_list_value(JINJA_LIST, list);
}

static struct jinja_value message_value(const struct chat_template *t, struct jinja_arena *arena,
                                        const struct message *m, int32_t source)
{
    const struct jinja_value v = jinja_dict(arena);
    bool parts = !t->texts || m->content_count > 1;
    for (size_t i = 0; i < m->content_count; i++) parts |= !m->content[i].text; // a picture
    parts &= t->parts;
    jinja_set(arena, v, "role", jinja_words(arena, role_name(m->role)));
    if (is_separate(t, m))
        jinja_set(arena, v, "reasoning_content",
                  jinja_text(arena, m->reasoning, strlen(m->reasoning), source));
    if (parts) {
        jinja_set(arena, v, "content", parts_value(t, arena, m, source));
        return v;
    }
    char *text = content_text(t, m);
    jinja_set(arena, v, "content", jinja_text(arena, text, strlen(text), source));
    free(text);
    return v;
}

// --- the date ----------------------------------------------------------------------------------

bool prompt_dated(const struct prompt_options *o)
{
    if (!o->template) return o->layout->place == SYSTEM_WITH_DATE;
    return jinja_mentions(o->template->jinja, "strftime_now") ||
           jinja_mentions(o->template->jinja, "date_string");
}

static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

char *prompt_date(const struct prompt_options *o)
{
    return prompt_date_at(o->date, time(NULL));
}

char *prompt_date_at(const char *date, int64_t time)
{
    const time_t now = (time_t)time;
    struct tm t;
    if (date && strcmp(date, "today") != 0) return xstrdup(date);
    if (!localtime_r(&now, &t)) return xstrdup("");
    // Writes English in every locale, because a model reads the date.
    return xasprintf("%02d %.3s %d", t.tm_mday, &months[3 * t.tm_mon], t.tm_year + 1900);
}

// Returns noon of a date such as "26 Jul 2024"; 0 for other texts.
static time_t date_time(const char *date)
{
    char *end;
    struct tm t = { .tm_hour = 12, .tm_isdst = -1 };
    const long day = strtol(date, &end, 10);
    if (day < 1 || day > 31 || *end++ != ' ') return 0;
    for (t.tm_mon = 0; t.tm_mon < 12; t.tm_mon++)
        if (!strncmp(end, &months[3 * t.tm_mon], 3)) break;
    const long year = t.tm_mon < 12 ? strtol(end + 3, &end, 10) : 0;
    if (year < 1970 || year > 9999 || *end) return 0;
    t.tm_mday = (int)day;
    t.tm_year = (int)year - 1900;
    const time_t time = mktime(&t);
    return time > 0 ? time : 0;
}

// --- one rendering -----------------------------------------------------------------------------

// Sets the variables that the user has set. Text values count as the template's own text, as in
// transformers.
static int set_variables(const struct chat_template *t, struct jinja_arena *arena,
                         struct jinja_value vars, const struct settings *s, struct err *err)
{
    int status = 0;
    for (size_t i = 0; s && i < t->variables.count && status == 0; i++) {
        char *key = xasprintf("chat.template.%s", t->variables.list[i]);
        char *json = settings_json(s, key);
        struct jinja_value v;
        if (json) status = jinja_json(arena, json, strlen(json), key, JINJA_TEMPLATE, &v, err);
        if (json && status == 0) jinja_set(arena, vars, t->variables.list[i], v);
        free(json);
        free(key);
    }
    return status;
}

// Renders the messages; adds the number of steps to *steps, if not NULL. o NULL: no date, no
// variables.
static int run(const struct chat_template *t, const struct prompt_options *o,
               const struct message *messages, size_t count, bool generation,
               struct jinja_output *out, uint64_t *steps, struct err *err)
{
    const char *date = o ? o->date : NULL;
    struct jinja_arena arena = { .steps = t->trials ? *t->trials : 0 };
    const struct jinja_value vars = jinja_dict(&arena);
    struct jinja_list *list = jinja_list_new(&arena);
    for (size_t i = 0; i < t->special.dict->count; i++)
        jinja_set(&arena, vars, t->special.dict->entries[i].key.text->bytes,
                  t->special.dict->entries[i].value);
    for (size_t i = 0; i < count; i++)
        jinja_list_push(&arena, list, message_value(t, &arena, &messages[i], (int32_t)i));
    jinja_set(&arena, vars, "messages", jinja_list_value(JINJA_LIST, list));
    jinja_set(&arena, vars, "tools", jinja_value_none());
    jinja_set(&arena, vars, "documents", jinja_value_none());
    jinja_set(&arena, vars, "add_generation_prompt", jinja_bool(generation));
    const bool dated = date && strcmp(date, "today") != 0;
    if (dated) jinja_set(&arena, vars, "date_string", jinja_words(&arena, date));
    *out = (struct jinja_output){ 0 };
    int status = set_variables(t, &arena, vars, o ? o->variables : NULL, err);
    if (status == 0)
        status = jinja_render(t->jinja, &arena, vars, dated ? date_time(date) : 0, out, err);
    if (t->trials) *t->trials = arena.steps;
    if (steps) *steps += arena.steps;
    jinja_arena_release(&arena);
    return status;
}

static size_t common_length(const struct buf *a, const struct buf *b)
{
    size_t n = 0;
    while (n < a->length && n < b->length && a->data[n] == b->data[n]) n++;
    return n;
}

// --- holes -------------------------------------------------------------------------------------

// A part of the rendered text that a hole replaces.
struct cut {
    size_t start, end;
    int picture;
    const struct message *message;
    size_t after; // offset of the following text in the final text
};

struct cuts {
    struct cut *list;
    size_t count;
};

static void add_cut(struct cuts *c, struct cut cut)
{
    c->list = xreallocarray(c->list, c->count + 1, sizeof *c->list);
    c->list[c->count++] = cut;
}

static bool is_blank(const char *text, size_t length)
{
    size_t n;
    while (length && (n = jinja_space_start(text, length))) text += n, length -= n;
    return !length;
}

// Returns the start of the answer at `at`: the end of the generation prompt if only white space
// separates it from `at`, else `at`.
static size_t answer_start(const struct buf *text, const char *generation, size_t at)
{
    const size_t length = strlen(generation);
    size_t start = at, n;
    for (;;) {
        if (length && start >= length && !memcmp(text->data + start - length, generation, length))
            return start;
        if (!(n = jinja_space_end(text->data, start))) return at;
        start -= n;
    }
}

// Adds a cut for each generated answer that the template kept whole, except for white space at its
// ends, and whose reasoning the template did not get separately.
static void cut_answers(struct cuts *c, const struct chat_template *t,
                        const struct jinja_output *out, const char *generation,
                        const struct message *messages)
{
    for (size_t i = 0; i < out->span_count; i++) {
        const struct jinja_span *s = &out->spans[i];
        const struct message *m = &messages[s->source];
        if (!m->generated || s->from == SIZE_MAX || is_separate(t, m)) continue;
        char *text = content_text(t, m);
        const size_t length = strlen(text), end = s->from + (s->end - s->start);
        if (end <= length && is_blank(text, s->from) && is_blank(text + end, length - end)) {
            const size_t start = answer_start(&out->text, generation, s->start);
            const size_t free_from = i ? out->spans[i - 1].end : 0;
            add_cut(c, (struct cut){ start < free_from ? s->start : start, s->end, -1, m, 0 });
        }
        free(text);
    }
}

// Returns the offset of the first placeholder at or after `at` that the user did not type;
// SIZE_MAX if none.
static size_t next_placeholder(const struct jinja_output *out, const char *placeholder, size_t at)
{
    const size_t length = strlen(placeholder);
    for (;;) {
        const char *found = memmem(out->text.data + at, out->text.length - at, placeholder, length);
        if (!found) return SIZE_MAX;
        const size_t start = (size_t)(found - out->text.data);
        const size_t span = jinja_span_from(out->spans, out->span_count, start);
        if (span == out->span_count || out->spans[span].start >= start + length) return start;
        at = start + 1;
    }
}

// Cuts the placeholders: the pictures replace them in order.
static int cut_pictures(struct cuts *c, const struct chat_template *t,
                        const struct jinja_output *out, const struct message *messages,
                        size_t count, struct err *err)
{
    size_t at = 0, shown = 0, written = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < messages[i].content_count; k++) {
            if (messages[i].content[k].text) continue;
            shown++;
            at = t->placeholder ? next_placeholder(out, t->placeholder, at) : SIZE_MAX;
            if (at == SIZE_MAX) goto wrong;
            written++;
            add_cut(c, (struct cut){ at, at + strlen(t->placeholder),
                                     messages[i].content[k].picture, NULL, 0 });
            at += strlen(t->placeholder);
        }
    if (!t->placeholder || next_placeholder(out, t->placeholder, at) == SIZE_MAX) return 0;
wrong:
    return err_set(err,
                   "the folder's chat template writes %s placeholders than the messages have "
                   "pictures: choose another one (/set chat.template, /help templates)",
                   written < shown ? "fewer" : "more");
}

static int compare_cuts(const void *a, const void *b)
{
    const struct cut *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

// --- putting it together -------------------------------------------------------------------------

// Writes the rendered bytes [from, to), and records which of them are messages' texts.
static void put_text(struct rendering *r, const struct message *messages,
                     const struct jinja_output *out, size_t *span, size_t from, size_t to)
{
    while (from < to) {
        while (*span < out->span_count && out->spans[*span].end <= from) ++*span;
        const struct jinja_span *s = *span < out->span_count ? &out->spans[*span] : NULL;
        const bool said = s && s->start <= from;
        size_t end = said ? s->end : s ? s->start : to;
        if (end > to) end = to;
        if (said)
            rendering_message_text(r, &messages[s->source], out->text.data + from, end - from);
        else
            buf_add(&r->text, out->text.data + from, end - from);
        from = end;
    }
}

// Writes the family's text before a picture's tokens, unless the template wrote it.
static void put_before(struct rendering *r, const char *word)
{
    const size_t n = word ? strlen(word) : 0;
    if (n && (r->text.length < n || memcmp(r->text.data + r->text.length - n, word, n) != 0))
        buf_puts(&r->text, word);
}

static void put_after(struct rendering *r, const struct jinja_output *out, size_t at)
{
    const char *word = r->options->picture_after;
    const size_t n = word ? strlen(word) : 0;
    if (n && (out->text.length - at < n || memcmp(out->text.data + at, word, n) != 0))
        buf_puts(&r->text, word);
}

static void put_all_text(struct rendering *r, const struct message *messages,
                         const struct jinja_output *out, struct cuts *c)
{
    size_t at = 0, span = 0;
    if (c->count) qsort(c->list, c->count, sizeof *c->list, compare_cuts);
    for (size_t i = 0; i < c->count; i++) {
        struct cut *cut = &c->list[i];
        put_text(r, messages, out, &span, at, cut->start);
        if (cut->message) {
            rendering_ids(r, cut->message);
        } else {
            put_before(r, r->options->picture_before);
            rendering_picture(r, cut->picture);
            put_after(r, out, cut->end);
        }
        cut->after = r->text.length;
        at = cut->end;
    }
    put_text(r, messages, out, &span, at, out->text.length);
}

// --- answers -----------------------------------------------------------------------------------

// Maps an offset in the rendered text to the final text.
static size_t place_after_cuts(const struct cuts *c, size_t at)
{
    size_t from = 0, to = 0;
    for (size_t i = 0; i < c->count && c->list[i].start < at; i++) {
        const struct cut *cut = &c->list[i];
        from = cut->end < at ? cut->end : at;
        to = cut->after;
    }
    return to + at - from;
}

// Finds the answer of message i. It starts where the text departs from a rendering of the messages
// before i with a generation prompt. It ends where the text departs from a rendering of the
// messages up to i or, if no text ends the turn, with the message's text.
static int find_answer(const struct rendering *r, const struct message *messages, size_t i,
                       const struct jinja_output *out, struct text_range *range, bool *open,
                       uint64_t *steps, struct err *err)
{
    const struct prompt_options *o = r->options;
    struct jinja_output before = { 0 }, turn = { 0 };
    int status = run(o->template, o, messages, i, true, &before, steps, err);
    if (status == 0) status = run(o->template, o, messages, i + 1, false, &turn, steps, err);
    if (status == 0) {
        const size_t start = common_length(&before.text, &out->text);
        const size_t end = common_length(&turn.text, &out->text);
        size_t typed = start; // end of the message's text
        for (size_t k = 0; k < out->span_count; k++)
            if (out->spans[k].source == (int32_t)i) typed = out->spans[k].end;
        const bool known = o->layout != layout_find("plain");
        *open = known ? o->layout->bare_answers
                      : typed >= end || is_blank(out->text.data + typed, end - typed);
        *range = (struct text_range){ start, *open || end < typed ? typed : end };
        if (range->end < start) range->end = start;
    }
    jinja_output_release(&before);
    jinja_output_release(&turn);
    return status;
}

static int find_answers(struct rendering *r, const struct message *messages, size_t count,
                        const struct jinja_output *out, const struct cuts *c, struct err *err)
{
    uint64_t steps = 0; // each answer needs two renderings of all turns before it
    for (size_t i = 0; i < count; i++) {
        struct text_range range = { 0 };
        bool open = false;
        if (messages[i].role != ROLE_ASSISTANT || messages[i].generated) continue;
        if (find_answer(r, messages, i, out, &range, &open, &steps, err) < 0) return -1;
        if (steps > ANSWERS_STEPS)
            return err_set(err,
                           "its %zu turns take too long to render with the chat template: split "
                           "them into several samples",
                           count);
        size_t start = place_after_cuts(c, range.start), end = place_after_cuts(c, range.end);
        const size_t former = r->answer_count ? r->answers[r->answer_count - 1].text.end : 0;
        if (start < former) start = former;
        rendering_answer(r, start, end < start ? start : end, open);
    }
    return 0;
}

// --- the whole rendering -----------------------------------------------------------------------

// Returns the text that a generation prompt adds; the caller frees it.
static char *generation_text(const struct rendering *r, const struct message *messages,
                             size_t count, const struct jinja_output *out)
{
    const struct prompt_options *o = r->options;
    struct jinja_output other = { 0 };
    struct err err;
    char *text = NULL;
    if (run(o->template, o, messages, count, !o->generation_prompt, &other, NULL, &err) == 0) {
        const struct buf *with = o->generation_prompt ? &out->text : &other.text;
        const struct buf *without = o->generation_prompt ? &other.text : &out->text;
        if (common_length(with, without) == without->length)
            text = xstrndup(with->data + without->length, with->length - without->length);
    }
    jinja_output_release(&other);
    return text ? text : xstrdup("");
}

// True if the template accepts the messages only without the first, a system message.
static bool refuses_system(const struct rendering *r, const struct message *messages, size_t count)
{
    const struct prompt_options *o = r->options;
    struct jinja_output out = { 0 };
    struct err ignored;
    if (count < 2 || messages[0].role != ROLE_SYSTEM) return false;
    const int status =
        run(o->template, o, messages + 1, count - 1, o->generation_prompt, &out, NULL, &ignored);
    jinja_output_release(&out);
    return status == 0;
}

int render_template(struct rendering *r, const struct message *messages, size_t count, bool answers,
                    struct err *err)
{
    const struct prompt_options *o = r->options;
    struct jinja_output out = { 0 };
    struct cuts cuts = { 0 };
    struct err own;
    if (!err) err = &own;
    int status = run(o->template, o, messages, count, o->generation_prompt, &out, NULL, err);
    bool generated = false;
    for (size_t i = 0; i < count; i++) generated |= messages[i].generated;
    if (status == 0 && generated) {
        char *generation = generation_text(r, messages, count, &out);
        cut_answers(&cuts, o->template, &out, generation, messages);
        free(generation);
    }
    if (status == 0) status = cut_pictures(&cuts, o->template, &out, messages, count, err);
    if (status == 0) put_all_text(r, messages, &out, &cuts);
    if (status == 0 && answers) status = find_answers(r, messages, count, &out, &cuts, err);
    if (out.unknown || (status < 0 && refuses_system(r, messages, count))) {
        const struct err why = *err;
        err_set(err,
                out.unknown ? "%s: choose another template (/set chat.template, /help templates)"
                            : "%s (it takes no system message; /system \"\" removes the chat's)",
                why.text);
    }
    jinja_output_release(&out);
    free(cuts.list);
    return status;
}

// --- opening -------------------------------------------------------------------------------------

// True if the output contains the whole text (some of it if the template changes texts), but not in
// a printed list of parts.
static bool shows(const struct chat_template *t, const struct jinja_output *out, size_t length)
{
    bool whole = false;
    for (size_t i = 0; i < out->span_count; i++)
        whole |= out->spans[i].from == 0 && out->spans[i].end - out->spans[i].start == length;
    if (out->span_count && strcasestr(out->text.data, "'type':")) return false;
    return whole || (t->changes && out->span_count);
}

// Renders one user message, a text and perhaps a picture; checks that the text appears and that the
// picture has a placeholder.
static int try_message(const struct chat_template *t, bool picture, struct err *err)
{
    static const char text[] = "vlmsh tries this";
    struct message m = { .role = ROLE_USER };
    struct jinja_output out = { 0 };
    if (picture) message_add_picture(&m, 0);
    message_add_text(&m, text);
    int status = run(t, NULL, &m, 1, true, &out, NULL, err);
    if (status == 0 && !shows(t, &out, strlen(text)))
        status = err_set(err, "it omits the user's text");
    const size_t place = status == 0 && picture ? next_placeholder(&out, t->placeholder, 0) : 0;
    if (status == 0 && place == SIZE_MAX) status = err_set(err, "it has no place for a picture");
    jinja_output_release(&out);
    message_release(&m);
    return status;
}

// Renders all roles, with and without a system message, because an unsupported construct may
// concern answers only. Ignores other errors, such as those that the template itself raises.
static int try_roles(const struct chat_template *t, struct err *err)
{
    static const enum role roles[] = { ROLE_SYSTEM, ROLE_USER, ROLE_ASSISTANT, ROLE_USER };
    int status = 0;
    for (int first = 0; first < 2 && status == 0; first++) {
        struct message m[4] = { 0 };
        struct jinja_output out = { 0 };
        for (int i = 0; i < 4; i++) {
            m[i].role = roles[i];
            message_add_text(&m[i], "x");
        }
        if (run(t, NULL, m + first, 4 - (size_t)first, true, &out, NULL, err) < 0 && out.unknown)
            status = -1;
        for (int i = 0; i < 4; i++) message_release(&m[i]);
        jinja_output_release(&out);
    }
    return status;
}

// Finds which forms of content the template accepts.
static int try_contents(struct chat_template *t, struct err *err)
{
    struct err ignored;
    t->texts = false;
    t->parts = true;
    t->parts = try_message(t, false, &ignored) == 0;
    t->texts = true;
    t->texts = try_message(t, false, err) == 0;
    return t->texts || t->parts ? 0 : -1;
}

static int try_template(struct chat_template *t, struct err *err)
{
    if (try_contents(t, err) < 0) {
        t->changes = true;
        if (try_contents(t, err) < 0) return -1;
    }
    if (try_roles(t, err) < 0) return -1;
    return t->placeholder && t->parts ? try_message(t, true, err)
           : t->placeholder           ? err_set(err, "it has no place for a picture")
                                      : 0;
}

// Reads "bos_token" and the like: a text, or an object with its "content".
static void read_special(struct chat_template *t, const cJSON *config)
{
    const cJSON *item;
    t->special = jinja_dict(&t->arena);
    cJSON_ArrayForEach(item, config)
    {
        const size_t length = item->string ? strlen(item->string) : 0;
        if (length < 6 || strcmp(item->string + length - 6, "_token") != 0) continue;
        const cJSON *text =
            cJSON_IsObject(item) ? cJSON_GetObjectItemCaseSensitive(item, "content") : item;
        if (cJSON_IsString(text))
            jinja_set(&t->arena, t->special, item->string,
                      jinja_words(&t->arena, text->valuestring));
    }
}

// Adds a name that the user may set, unless vlmsh or transformers sets it itself.
static void add_variable(void *self, const char *name)
{
    enum { MOST = 64, LENGTH = 64 };
    static const char *const standard[] = { "messages",    "tools",      "documents",
                                            "date_string", "bos_token",  "eos_token",
                                            "unk_token",   "pad_token",  "sep_token",
                                            "cls_token",   "mask_token", "add_generation_prompt" };
    struct chat_template *t = self;
    const struct jinja_dict *special = t->special.dict;
    for (size_t i = 0; i < sizeof standard / sizeof *standard; i++)
        if (!strcmp(standard[i], name)) return;
    for (size_t i = 0; i < special->count; i++)
        if (!strcmp(special->entries[i].key.text->bytes, name)) return;
    if (t->variables.count < MOST && strlen(name) <= LENGTH) names_add(&t->variables, name, NULL);
}

const struct names *chat_template_variables(const struct chat_template *t)
{
    static const struct names none;
    return t ? &t->variables : &none;
}

struct chat_template *chat_template_open(const char *text, const cJSON *config,
                                         const struct tokenizer *t, int32_t placeholder,
                                         struct err *err)
{
    struct chat_template *c = xcalloc(1, sizeof *c);
    uint64_t trials = 0;
    const char *word = placeholder >= 0 ? tokenizer_token(t, placeholder) : NULL;
    if (word && *word) c->placeholder = xstrdup(word);
    c->separate = strstr(text, "reasoning_content");
    read_special(c, config);
    c->trials = &trials;
    if (c->arena.spent)
        err_set(err, "tokenizer_config.json has too many special tokens");
    else
        c->jinja = jinja_parse(text, strlen(text), "chat template", err);
    const bool usable = c->jinja && try_template(c, err) == 0;
    c->trials = NULL;
    if (usable) jinja_variables(c->jinja, add_variable, c);
    if (usable) return c;
    chat_template_free(c);
    return NULL;
}

bool chat_template_changes(const struct chat_template *t)
{
    return t && t->changes;
}

void chat_template_free(struct chat_template *t)
{
    if (!t) return;
    jinja_free(t->jinja);
    jinja_arena_release(&t->arena);
    names_release(&t->variables);
    free(t->placeholder);
    free(t);
}
