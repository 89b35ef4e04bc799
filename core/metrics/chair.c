// core/metrics/chair.c -- CHAIR: does a caption name objects that are not in the picture? (Rohrbach
// et al. 2018, arXiv 1809.02156, section 2)
//
//   CHAIRi = mentions of objects that are not there / mentions of objects
//   CHAIRs = captions with such a mention / captions
//
// References are the objects in the picture, choices all kinds of objects that could be named.
// Words of caption and names are compared in the singular (the table, else by their ending); at
// each place the longest name or synonym counts, so that a hot dog is no dog. Every mention counts.
//
// CHAIRs is the mean of the score; CHAIRi is computed from the outcomes' classes (chair.h).
#include "core/metrics/chair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/names.h"
#include "core/base/text.h"
#include "core/metrics/chair_words.h"
#include "core/metrics/metric.h"
#include "core/metrics/words.h"

struct pair {
    const char *from, *to;
};

#define X(from, to) { from, to },
static const struct pair plurals[] = { CHAIR_PLURALS(X){ NULL, NULL } };
static const struct pair synonyms[] = { CHAIR_SYNONYMS(X){ NULL, NULL } };
#undef X

enum { WORDS_MOST = 4 }; // of a name that is looked for

// Is a word longer than its ending?
static bool ends(const char *word, const char *end)
{
    return strlen(word) > strlen(end) && text_ends(word, end);
}

// Appends a word in the singular.
static void put_singular(struct buf *to, const char *word)
{
    static const char *const es[] = { "ches", "shes", "sses", "xes", "zes", "oes" };
    static const char *const kept[] = { "ss", "us", "is" };
    const size_t n = strlen(word);
    for (const struct pair *p = plurals; p->from; p++)
        if (!strcmp(word, p->from)) {
            buf_puts(to, p->to);
            return;
        }
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (ends(word, kept[i])) {
            buf_puts(to, word);
            return;
        }
    size_t drop = ends(word, "s") && n > 2;
    for (size_t i = 0; i < sizeof es / sizeof *es; i++)
        if (ends(word, es[i])) drop = 2;
    const bool ies = ends(word, "ies") && n > 4;
    buf_add(to, word, ies ? n - 3 : n - drop);
    if (ies) buf_putc(to, 'y');
}

// The words of a text in the singular, one blank between; free() it.
static char *singular(const char *text)
{
    struct buf b = { 0 };
    char *words = words_split(text), *rest = words;
    for (char *word; (word = strsep(&rest, " "));) {
        if (!*word) continue;
        if (b.length) buf_putc(&b, ' ');
        put_singular(&b, word);
    }
    free(words);
    return b.data ? b.data : xstrdup("");
}

// --- names ---------------------------------------------------------------------------------------

// Phrases that name an object: object[i] is a choice's number, -1: none.
struct phrases {
    struct names names;
    int *object;
};

static void add_phrase(struct phrases *p, const char *text, int object)
{
    char *phrase = singular(text);
    bool known;
    const size_t i = names_add(&p->names, phrase, &known);
    if (!known) {
        p->object = xreallocarray(p->object, i + 1, sizeof *p->object);
        p->object[i] = object;
    }
    free(phrase);
}

// Names come before synonyms, which stand for names that there are.
static struct phrases phrases_of(const struct metric_case *c)
{
    struct phrases p = { 0 };
    for (size_t i = 0; i < c->choice_count; i++) add_phrase(&p, c->choices[i], (int)i);
    const size_t names = p.names.count;
    for (const struct pair *s = synonyms; s->from; s++) {
        char *object = singular(s->to);
        size_t i;
        if (!*object)
            add_phrase(&p, s->from, -1);
        else if (names_find(&p.names, object, &i) && i < names)
            add_phrase(&p, s->from, p.object[i]);
        free(object);
    }
    return p;
}

static void phrases_release(struct phrases *p)
{
    names_release(&p->names);
    free(p->object);
}

// The longest phrase that begins with word `at`; *words of it. false: none does.
static bool phrase_at(const struct phrases *p, char *const *word, size_t count, size_t at,
                      size_t *words, int *object)
{
    for (size_t n = count - at < WORDS_MOST ? count - at : WORDS_MOST; n > 0; n--) {
        struct buf b = { 0 };
        size_t i;
        for (size_t k = 0; k < n; k++) buf_printf(&b, k ? " %s" : "%s", word[at + k]);
        const bool found = names_find(&p->names, b.data, &i);
        buf_release(&b);
        if (!found) continue;
        *words = n;
        *object = p->object[i];
        return true;
    }
    return false;
}

// --- the score -----------------------------------------------------------------------------------

struct counted {
    int mentions, wrong;
    struct buf found; // "person, dog (not there)"
};

static bool is_there(const struct metric_case *c, const char *object)
{
    for (size_t i = 0; i < c->reference_count; i++)
        if (!strcmp(c->references[i], object)) return true;
    return false;
}

static void mention(struct counted *to, const struct metric_case *c, int object)
{
    const char *name = c->choices[object];
    const bool there = is_there(c, name);
    if (to->mentions == CHAIR_MOST) return;
    to->mentions++;
    to->wrong += !there;
    buf_printf(&to->found, "%s%s%s", to->found.length ? ", " : "", name,
               there ? "" : " (not there)");
}

static void count_mentions(struct counted *to, const struct metric_case *c, const struct phrases *p)
{
    char *text = singular(c->answer), *rest = text;
    size_t count = 0, words = 1;
    char **word = xreallocarray(NULL, strlen(text) / 2 + 2, sizeof *word);
    for (char *w; (w = strsep(&rest, " "));)
        if (*w) word[count++] = w;
    for (size_t at = 0; at < count; at += words) {
        int object = -1;
        words = 1;
        if (phrase_at(p, word, count, at, &words, &object) && object >= 0) mention(to, c, object);
    }
    free(word);
    free(text);
}

static int score(const struct metric_case *c, struct metric_outcome *o, struct err *err)
{
    if (!c->choice_count)
        return err_set(err, "the sample does not say which objects could be named: CHAIR needs "
                            "annotated pictures (/eval FILE --set chair)");
    struct counted n = { 0 };
    struct phrases p = phrases_of(c);
    count_mentions(&n, c, &p);
    phrases_release(&p);
    *o = (struct metric_outcome){ .score = n.wrong > 0,
                                  .class = n.mentions << 12 | n.wrong,
                                  .found = n.found.data };
    return 0;
}

const struct metric metric_chair = {
    .name = "chair",
    .help = "CHAIRs: captions that name an object which is not in the picture.",
    .rule = "objects are found in the answer by a fixed table of plurals and synonyms, the longest "
            "name first; 1 if any is not there",
    .way = METRIC_ANSWERS,
    .share = true,
    .smaller = true,
    .none = true,
    .score = score,
};
