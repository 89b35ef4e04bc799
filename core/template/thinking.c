// core/template/thinking.c -- the marks around a model's reasoning, and the text between them.
#include "core/template/thinking.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/tokenizer/tokenizer.h"

#define LEFT  "\xE2\x97\x81" // Kimi-VL's brackets
#define RIGHT "\xE2\x96\xB7"

const struct thinking_marks thinking_table[] = {
    { "<think>", "</think>", false },
    { "<analysis>", "</analysis>", true },
    { "<thinking>", "</thinking>", false },
    { LEFT "think" RIGHT, LEFT "/think" RIGHT, false },
    { "<thought>", "</thought>", true },
    { "[THINK]", "[/THINK]", true },                    // Magistral
    { "<|START_THINKING|>", "<|END_THINKING|>", true }, // Command A
    { "<|channel>thought", "<channel|>", true },        // Gemma 4
    { 0 },
};

// --- the marks of a model ------------------------------------------------------------------------

static bool is_named(const char *name, size_t length)
{
    static const char *const words[] = { "think", "thought", "reason" };
    char *copy = xstrndup(name, length);
    bool found = false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        found |= strcasestr(copy, words[i]) != NULL;
    free(copy);
    return found;
}

static bool has(const struct thinking_list *l, const char *open)
{
    for (const struct thinking_marks *m = l->marks; m->open; m++)
        if (!strcmp(m->open, open)) return true;
    return false;
}

// Finds a pair of marks that is not in the list, by a closing mark such as </seed:think>; the
// opening mark lacks the "/".
static bool find_pair(struct thinking_list *l, const char *text)
{
    enum { MOST = 40 };
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_:-";
    static const char *const brackets[][2] = { { "<", ">" }, { "[", "]" }, { LEFT, RIGHT } };
    for (const char *p = text; (p = strchr(p, '/')); p++) {
        const size_t n = strspn(p + 1, letters);
        for (size_t i = 0; n && n <= MOST && i < sizeof brackets / sizeof *brackets; i++) {
            const char *left = brackets[i][0], *right = brackets[i][1];
            const size_t before = strlen(left);
            if ((size_t)(p - text) < before || memcmp(p - before, left, before) != 0 ||
                strncmp(p + 1 + n, right, strlen(right)) != 0 || !is_named(p + 1, n))
                continue;
            l->open = xasprintf("%s%.*s%s", left, (int)n, p + 1, right);
            l->close = xasprintf("%s/%.*s%s", left, (int)n, p + 1, right);
            if (!has(l, l->open)) return true;
            free(l->open);
            free(l->close);
            l->open = l->close = NULL;
        }
    }
    return false;
}

void thinking_list_make(struct thinking_list *l, const char *chat_template,
                        const struct tokenizer *t)
{
    int n = 0;
    *l = (struct thinking_list){ 0 };
    for (const struct thinking_marks *m = thinking_table; m->open; m++)
        if (!m->rare || (chat_template && strstr(chat_template, m->close)) ||
            tokenizer_id(t, m->close) >= 0)
            l->marks[n++] = *m;
    bool found = chat_template && find_pair(l, chat_template);
    for (int32_t id = 0; id < tokenizer_size(t) && !found; id++) {
        const char *token = tokenizer_token(t, id);
        found = token && find_pair(l, token);
    }
    if (found) l->marks[n] = (struct thinking_marks){ l->open, l->close, false };
}

void thinking_list_release(struct thinking_list *l)
{
    free(l->open);
    free(l->close);
    *l = (struct thinking_list){ 0 };
}

static bool is_space(char c)
{
    return isspace((unsigned char)c);
}

const struct thinking_marks *thinking_opened(const struct thinking_list *l, const char *text)
{
    size_t end = strlen(text);
    while (end && is_space(text[end - 1])) end--;
    for (const struct thinking_marks *m = l->marks; m->open; m++) {
        const size_t n = strlen(m->open);
        if (end >= n && !memcmp(text + end - n, m->open, n)) return m;
    }
    return NULL;
}

bool thinking_has_token(const struct thinking_list *l, const char *token)
{
    for (const struct thinking_marks *m = l->marks; token && *token && m->open; m++)
        if (strstr(m->open, token) || strstr(m->close, token)) return true;
    return false;
}

// --- an answer -----------------------------------------------------------------------------------

void thinking_start(struct thinking_text *t, const struct thinking_list *l,
                    const struct thinking_marks *opened)
{
    *t = (struct thinking_text){ .list = l, .marks = opened };
    if (opened) t->state = THINKING_INSIDE;
}

void thinking_release(struct thinking_text *t)
{
    buf_release(&t->held);
    buf_release(&t->reasoning);
    buf_release(&t->answer);
}

static void put(struct buf *all, struct buf *piece, const char *text, size_t length)
{
    buf_add(all, text, length);
    buf_add(piece, text, length);
}

// Drops the first bytes of the held text.
static void drop(struct thinking_text *t, size_t length)
{
    t->held.length -= length;
    memmove(t->held.data, t->held.data + length, t->held.length + 1);
}

// Returns the length of the longest suffix of the text that is a proper prefix of the mark.
static size_t partial(const char *text, size_t length, const char *mark)
{
    size_t n = strlen(mark) - 1;
    if (n > length) n = length;
    while (n && memcmp(text + length - n, mark, n) != 0) n--;
    return n;
}

// Decides, at the start of an answer or after reasoning, whether reasoning or an answer follows;
// false: needs more text.
static bool begin(struct thinking_text *t)
{
    const char *text = t->held.data;
    size_t spaces = 0;
    while (is_space(text[spaces])) spaces++;
    const size_t left = t->held.length - spaces;
    bool maybe = !left;
    for (const struct thinking_marks *m = t->list->marks; m->open; m++) {
        const size_t n = strlen(m->open);
        maybe |= left < n && !memcmp(text + spaces, m->open, left);
        if (left < n || memcmp(text + spaces, m->open, n) != 0) continue;
        t->marks = m;
        t->state = THINKING_INSIDE;
        drop(t, spaces + n);
        return true;
    }
    if (maybe) return false;
    if (t->marks) drop(t, spaces); // between reasoning and answer
    t->state = THINKING_OUTSIDE;
    return true;
}

// Takes the reasoning so far; false: the closing mark is still missing.
static bool think(struct thinking_text *t, struct buf *reasoning)
{
    if (!t->marks) BUG("a reasoning without marks");
    const char *text = t->held.data, *close = strstr(text, t->marks->close);
    size_t length = close ? (size_t)(close - text)
                          : t->held.length - partial(text, t->held.length, t->marks->close);
    size_t spaces = 0; // at the start of the reasoning
    while (!t->reasoning.length && spaces < length && is_space(text[spaces])) spaces++;
    put(&t->reasoning, reasoning, text + spaces, length - spaces);
    drop(t, length + (close ? strlen(t->marks->close) : 0));
    if (close) t->state = THINKING_AT_START;
    return close;
}

// If a closing mark without an opening one ends in the newest `length` bytes, makes the text before
// it reasoning.
static void turn(struct thinking_text *t, size_t length, struct buf *answer)
{
    for (const struct thinking_marks *m = t->list->marks; m->open; m++) {
        const size_t n = strlen(m->close) - 1 + length, all = t->answer.length;
        const char *close = strstr(t->answer.data + (n < all ? all - n : 0), m->close);
        const char *open = close ? strstr(t->answer.data, m->open) : NULL;
        if (!close || (open && open < close)) continue;
        size_t spaces = 0;
        while (is_space(t->answer.data[spaces])) spaces++;
        const size_t before = (size_t)(close - t->answer.data);
        if (spaces < before) buf_add(&t->reasoning, t->answer.data + spaces, before - spaces);
        buf_puts(&t->held, close + strlen(m->close));
        buf_clear(&t->answer);
        buf_clear(answer);
        t->marks = m;
        t->turned = true;
        t->state = THINKING_AT_START;
        return;
    }
}

void thinking_push(struct thinking_text *t, const char *text, struct buf *reasoning,
                   struct buf *answer)
{
    t->turned = false;
    buf_puts(&t->held, text);
    while (t->held.length) {
        if (t->state == THINKING_AT_START) {
            if (!begin(t)) return;
        } else if (t->state == THINKING_INSIDE) {
            if (!think(t, reasoning)) return;
        } else {
            const size_t length = t->held.length;
            put(&t->answer, answer, t->held.data, length);
            buf_clear(&t->held);
            if (!t->marks) turn(t, length, answer);
        }
    }
}

void thinking_finish(struct thinking_text *t, struct buf *reasoning, struct buf *answer)
{
    size_t spaces = 0;
    if (!t->held.length) return;
    while (t->marks && is_space(t->held.data[spaces])) spaces++;
    if (t->state == THINKING_INSIDE)
        put(&t->reasoning, reasoning, t->held.data, t->held.length);
    else
        put(&t->answer, answer, t->held.data + spaces, t->held.length - spaces);
    buf_clear(&t->held);
}
