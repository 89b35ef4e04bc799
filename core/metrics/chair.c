// core/metrics/chair.c -- CHAIR: does a caption name objects that are not in the picture? (Rohrbach
// et al. 2018, arXiv 1809.02156, section 2)
//
//   CHAIRi = mentions of objects that are not there / mentions of objects
//   CHAIRs = captions with such a mention / captions
//
// References list the objects in the picture; choices list all known kinds of objects. Captions and
// names are compared in the singular (from a table, else by the ending). At each position the
// longest name or synonym wins, so that a hot dog is not a dog. Every mention counts.
//
// CHAIRs is the mean of the score; CHAIRi is computed from the outcomes' classes (chair.h).
#include "core/metrics/chair.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/items.h"
#include "core/base/names.h"
#include "core/base/scratch.h"
#include "core/base/text.h"
#include "core/metrics/chair_words.h"
#include "core/metrics/metric.h"
#include "core/metrics/words.h"

enum { WORDS_MOST = 4 }; // words of the longest name

// True if a word has one of the endings after at least one letter.
static bool ends(const char *word, const char *const *endings)
{
    for (; *endings; endings++)
        if (strlen(word) > strlen(*endings) && text_ends(word, *endings)) return true;
    return false;
}

// Appends a word in the singular.
static void put_singular(struct buf *to, const char *word)
{
    static const char *const kept[] = { "ss", "us", "is", NULL };
    static const char *const es[] = { "ches", "shes", "sses", "xes", "zes", "oes", NULL };
    const size_t n = strlen(word);
    for (size_t i = 0; i < sizeof plurals / sizeof *plurals; i++)
        if (!strcmp(word, plurals[i][0])) {
            buf_puts(to, plurals[i][1]);
            return;
        }
    if (n > 4 && text_ends(word, "ies"))
        buf_printf(to, "%.*sy", (int)n - 3, word);
    else if (ends(word, kept) || !text_ends(word, "s") || n < 3)
        buf_puts(to, word);
    else
        buf_add(to, word, n - (ends(word, es) ? 2 : 1));
}

// Returns the words of a text in the singular, with one space between them.
static char *singular(struct scratch *s, const char *text)
{
    struct buf b = { 0 };
    char *rest = words_split(s, text);
    for (char *word; (word = strsep(&rest, " "));) {
        if (!*word) continue;
        if (b.length) buf_putc(&b, ' ');
        put_singular(&b, word);
    }
    return scratch_take(s, &b);
}

// --- names ---------------------------------------------------------------------------------------

// Phrases and the objects that they name: object[i] is the index of a choice, or -1 for no object.
struct phrases {
    struct names names;
    int *object;
};

static void add_phrase(struct phrases *p, struct scratch *s, const char *text, int object)
{
    bool known;
    const size_t i = names_add(&p->names, singular(s, text), &known);
    if (known) return;
    p->object = xreallocarray(p->object, i + 1, sizeof *p->object);
    p->object[i] = object;
}

// Lists the choices, their synonyms, and phrases that name no object. A choice has precedence over
// an equal synonym. Synonyms of objects that are not choices do not count.
static struct phrases phrases_of(const struct metric_case *c)
{
    struct phrases p = { 0 };
    struct scratch *s = c->scratch;
    for (size_t i = 0; i < c->choice_count; i++) add_phrase(&p, s, c->choices[i], (int)i);
    const size_t names = p.names.count;
    for (size_t k = 0; k < sizeof synonyms / sizeof *synonyms; k++) {
        const char *words = strchr(synonyms[k], ':');
        const char *object = scratch_dup(s, synonyms[k], (size_t)(words - synonyms[k]));
        size_t i = 0;
        if (*object && !(names_find(&p.names, singular(s, object), &i) && i < names)) continue;
        words += strlen(": ");
        for (char *word; (word = items_take(&words, ", ")); scratch_keep(s, word))
            add_phrase(&p, s, word, *object ? p.object[i] : -1);
    }
    return p;
}

// Finds the longest phrase that begins with word `at`; returns its number of words, or 1 if none
// matches.
static size_t find_phrase(const struct phrases *p, char *const *word, size_t count, size_t at,
                          int *object)
{
    *object = -1;
    for (size_t n = count - at < WORDS_MOST ? count - at : WORDS_MOST; n > 0; n--) {
        struct buf b = { 0 };
        size_t i;
        for (size_t k = 0; k < n; k++) buf_printf(&b, k ? " %s" : "%s", word[at + k]);
        const bool found = names_find(&p->names, b.data, &i);
        buf_release(&b);
        if (!found) continue;
        *object = p->object[i];
        return n;
    }
    return 1;
}

// --- the score -----------------------------------------------------------------------------------

static bool is_there(const struct metric_case *c, const char *object)
{
    for (size_t i = 0; i < c->reference_count; i++)
        if (!strcmp(c->references[i], object)) return true;
    return false;
}

static int score(const struct metric *m, const struct metric_case *c, struct metric_outcome *o,
                 struct err *err)
{
    if (!c->choice_count)
        return err_set(err, "the sample does not list the objects that captions may name: CHAIR "
                            "needs annotated pictures (/eval FILE --set chair)");
    struct phrases p = phrases_of(c);
    struct buf found = { 0 }; // "person, dog (not there)"
    char *text = singular(c->scratch, c->answer), *rest = text;
    size_t count = 0;
    int mentions = 0, wrong = 0, object;
    char **word = xreallocarray(NULL, strlen(text) / 2 + 2, sizeof *word);
    for (char *w; (w = strsep(&rest, " "));)
        if (*w) word[count++] = w;
    for (size_t at = 0; at < count;) {
        at += find_phrase(&p, word, count, at, &object);
        if (object < 0 || mentions == CHAIR_MOST) continue;
        const char *name = c->choices[object];
        const bool there = is_there(c, name);
        buf_printf(&found, "%s%s%s", mentions++ ? ", " : "", name, there ? "" : " (not there)");
        wrong += !there;
    }
    free(word);
    names_release(&p.names);
    free(p.object);
    *o = (struct metric_outcome){ .score = wrong > 0,
                                  .class = mentions << 12 | wrong,
                                  .found = mentions ? scratch_take(c->scratch, &found) : NULL };
    return 0;
}

const struct metric metric_chair = {
    .name = "chair",
    .help = "CHAIRs: share of captions that name an object not in the picture.",
    .rule = "1 if the answer names an object that the picture lacks; a fixed table of plurals and "
            "synonyms finds the objects in the answer, the longest name first",
    .smaller = true,
    .none = true,
    .score = score,
};
