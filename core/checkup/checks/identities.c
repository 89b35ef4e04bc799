// core/checkup/checks/identities.c -- ways of computing that must not change the result.
//
// Each identity compares the logits of the rows that choose an answer's tokens: the same bits where
// the same kernels run on the same numbers, else within what rounding explains.
#include "core/checkup/checkup_parts.h"

#include <stdlib.h>
#include <string.h>

#include "core/engine/device.h"

enum { TOKENS = 12, PIECE = 24 };

// Largest mean Hellinger distance that rounding explains; measured distances of sound models are
// smaller by a factor of ten.
static double tolerance(const struct checkup *c, const struct settings *s)
{
    return strcmp(model_arithmetic(c->model, c->backend, s), "f32") != 0 ? 0.1 : 0.005;
}

struct base {
    const int *pictures;
    size_t count;
    struct ids given; // the model's answer
    struct checkup_logits plain;
};

// --- comparing -----------------------------------------------------------------------------------

// Compares logits computed otherwise with the plain ones.
static void judge(struct checkup *c, const struct settings *s, const char *name,
                  const struct checkup_logits *a, const struct checkup_logits *b, bool bits,
                  const char *what)
{
    struct finding f = finding(c, name);
    const double hellinger = logits_hellinger(a, b);
    const bool same = logits_same_bits(a, b);
    finding_number(&f, "largest difference of logits", logits_distance(a, b), "", a->rows);
    finding_number(&f, "Hellinger distance", hellinger, "", a->rows);
    if (same)
        finding_works(&f, "%s: the same bits", what);
    else if (bits)
        finding_fails(&f, "%s: the bits differ", what);
    else if (hellinger <= tolerance(c, s))
        finding_works(&f, "%s: equal but for rounding", what);
    else
        finding_fails(&f, "%s: they differ by more than rounding (a distance of %g is allowed)",
                      what, tolerance(c, s));
}

// Computes the base's answer under other settings or in pieces, and compares.
static int compare(struct checkup *c, const struct base *b, const struct settings *s, int64_t piece,
                   const char *name, bool bits, const char *what, struct err *err)
{
    struct checkup_logits l;
    if (checkup_logits(c, s, &b->given, piece, &l, err) < 0) return err_in(err, "%s", name);
    judge(c, s, name, &b->plain, &l, bits, what);
    checkup_logits_release(&l);
    return 0;
}

// --- methods -------------------------------------------------------------------------------------

struct neutral {
    const char *name, *settings[8], *what;
    bool bits;
};

static const struct neutral neutrals[] = {
    { "keep 100%",
      { "prune.score", "contribution", "prune.keep", "1" },
      "pruning that keeps every visual token",
      false },
};

static struct settings *settings_of(const struct checkup *c, const struct neutral *n,
                                    struct err *err)
{
    struct settings *s = settings_copy(c->settings);
    for (int i = 0; n->settings[i]; i += 2)
        if (settings_set(s, n->settings[i], n->settings[i + 1], err) < 0) {
            settings_free(s);
            return NULL;
        }
    return s;
}

static int check_neutrals(struct checkup *c, const struct base *b, struct err *err)
{
    for (size_t i = 0; i < sizeof neutrals / sizeof *neutrals; i++) {
        const struct neutral *n = &neutrals[i];
        struct settings *s = settings_of(c, n, err);
        const int status = s ? compare(c, b, s, 0, n->name, n->bits, n->what, err) : -1;
        settings_free(s);
        if (status < 0) return -1;
    }
    return 0;
}

// Every method on and off again. One that lacks what it needs (a calibration, trained parameters)
// is passed over.
static int check_toggles(struct checkup *c, const struct base *b, struct err *err)
{
    const struct method *m;
    for (int i = 0; (m = method_at(i)); i++) {
        char *name = xasprintf("%s on and off", m->title);
        struct settings *s = checkup_with(c, m->toggle.key, m->toggle.on, "ffn.layers", "0", NULL);
        struct checkup_logits on = { 0 };
        struct err why = { 0 };
        int status = checkup_logits(c, s, &b->given, 0, &on, &why);
        if (status == 0) {
            status = compare(c, b, c->settings, 0, name, true, "after it was on", err);
        } else if (c->stopped) {
            *err = why;
        } else {
            struct finding f = finding(c, name);
            finding_skip(&f, "%s", why.text);
            status = 0;
        }
        checkup_logits_release(&on);
        settings_free(s);
        free(name);
        if (status < 0) return -1;
    }
    return 0;
}

// --- answers -------------------------------------------------------------------------------------

static void judge_answers(struct checkup *c, const char *name, const struct ids *a,
                          const struct ids *b, const char *what)
{
    struct finding f = finding(c, name);
    finding_number(&f, "tokens", (double)a->count, "", 1);
    if (ids_same(a, b))
        finding_works(&f, "%s: the same tokens", what);
    else
        finding_fails(&f, "%s: the tokens differ", what);
}

// With drafts, and without.
static int check_drafts(struct checkup *c, struct err *err)
{
    struct checkup_answer a = { 0 }, b = { 0 };
    struct settings *off = checkup_with(c, "sample.lookahead", "off", NULL),
                    *on = checkup_with(c, "sample.lookahead", "4", NULL);
    int status = checkup_answer(c, off, TOKENS, false, &a, err);
    if (status == 0) status = checkup_answer(c, on, TOKENS, false, &b, err);
    if (status == 0)
        judge_answers(c, "drafts", &a.ids, &b.ids, "answers with drafted tokens and without");
    checkup_answer_release(&a);
    checkup_answer_release(&b);
    settings_free(off);
    settings_free(on);
    return status;
}

// The second answer of a conversation: after the first, whose rows are cached; and in a copy of
// the messages and pictures, which is all that a saved session holds.
static int check_resumed(struct checkup *c, const struct base *b, struct err *err)
{
    struct checkup_answer first = { 0 }, live = { 0 }, resumed = { 0 };
    struct settings *s = settings_copy(c->settings);
    checkup_ask(c, b->pictures, b->count, "What is in the picture?");
    int status = checkup_answer(c, s, TOKENS, false, &first, err);
    if (status == 0) {
        checkup_answered(c, &first);
        message_add_text(conversation_add(&c->talk, ROLE_USER), "What else?");
        status = checkup_answer(c, s, TOKENS, false, &live, err);
    }
    struct conversation saved = c->talk, copy;
    conversation_init(&copy, c->backend);
    conversation_set_model(&copy, c->model);
    if (status == 0) status = conversation_copy(&copy, &saved, saved.message_count, err);
    if (status == 0) {
        c->talk = copy;
        status = checkup_answer(c, s, TOKENS, true, &resumed, err);
        copy = c->talk;
        c->talk = saved;
    }
    conversation_release(&copy);
    if (status == 0)
        judge_answers(c, "resumed conversation", &live.ids, &resumed.ids,
                      "the second answer, live and from the saved messages");
    checkup_answer_release(&first);
    checkup_answer_release(&live);
    checkup_answer_release(&resumed);
    settings_free(s);
    return status;
}

// --- all -----------------------------------------------------------------------------------------

static int begin(struct checkup *c, struct base *b, struct err *err)
{
    struct checkup_answer a;
    struct settings *s = checkup_with(c, "sample.ignore_eos", "on", NULL);
    checkup_ask(c, b->pictures, b->count, "What is in the picture?");
    int status = checkup_answer(c, s, TOKENS, true, &a, err);
    settings_free(s);
    if (status < 0) return -1;
    b->given = a.ids;
    a.ids = (struct ids){ 0 };
    checkup_answer_release(&a);
    return checkup_logits(c, c->settings, &b->given, 0, &b->plain, err);
}

static int run(struct checkup *c, struct err *err)
{
    static const int first[] = { 0 };
    struct base b = { .pictures = first, .count = c->scenes ? 1 : 0 };
    int status = begin(c, &b, err);
    if (status == 0)
        status = compare(c, &b, c->settings, PIECE, "in pieces", false,
                         "a prompt computed in pieces and as a whole", err);
    checkup_progress(c, 1, 4);
    if (status == 0) status = check_toggles(c, &b, err);
    if (status == 0) status = check_neutrals(c, &b, err);
    checkup_progress(c, 3, 4);
    if (status == 0) status = check_drafts(c, err);
    if (status == 0) status = check_resumed(c, &b, err);
    checkup_logits_release(&b.plain);
    ids_release(&b.given);
    return status;
}

const struct checkup_check check_identities = {
    .name = "identities",
    .shows = "Ways of computing that must not change the result: in pieces or at once, with every "
             "method switched on and off again, with drafts, after a saved conversation.",
    .cost = { .prompts = 14, .tokens = 80, .encodes = 3 },
    .quick = { .prompts = 14, .tokens = 80, .encodes = 3 },
    .run = run,
};
