// core/probes/consistency.c -- /consistency: answers the question again, several times, and
// compares the answers with the given one.
//
//   samples  answers sampled at a temperature, each with a different seed
//   changes  one answer for each small change to the pictures (core/picture/change.h)
//
// Two answers are the same if they have the same words in the same order. Words consist of letters
// and digits; the case of ASCII letters is ignored. The overlap of two answers is the F1 score of
// their words: 2 common / (words of one + words of the other).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/text.h"
#include "core/picture/change.h"
#include "core/probes/kit.h"
#include "core/probes/measure.h"
#include "core/probes/passes.h"
#include "core/talk/answer.h"

enum { SAMPLES = 5 };

// One more answer to the question.
struct again {
    char *name; // "seed 3", "JPEG quality 50"
    char *text;
    bool same;
    double overlap;
};

struct consistency {
    const struct probe_env *env;
    char *given; // the answer to compare with
    struct again *list;
    size_t count, samples; // the first `samples` are sampled, the others use changed pictures
};

static void consistency_release(void *state)
{
    struct consistency *s = state;
    for (size_t i = 0; i < s->count; i++) {
        free(s->list[i].name);
        free(s->list[i].text);
    }
    free(s->list);
    free(s->given);
    free(s);
}

static void *consistency_start(const struct probe_env *env, struct err *err)
{
    struct consistency *s = xcalloc(1, sizeof *s);
    s->env = env;
    return s;
}

// --- comparing answers ---------------------------------------------------------------------------

// Moves *at to the next word and returns its length; 0 if no word is left.
static size_t next_word(const char **at)
{
    const char *p = *at;
    size_t n = 0;
    while (*p && !text_is_word(*p)) p++;
    while (text_is_word(p[n])) n++;
    *at = p;
    return n;
}

static bool same_word(const char *a, size_t n, const char *b, size_t m)
{
    return n == m && !strncasecmp(a, b, n);
}

static size_t count_words(const char *text)
{
    size_t count = 0, n;
    for (const char *p = text; (n = next_word(&p)); p += n) count++;
    return count;
}

static bool same_words(const char *a, const char *b)
{
    for (;;) {
        const size_t n = next_word(&a), m = next_word(&b);
        if (!same_word(a, n, b, m)) return false;
        if (!n) return true;
        a += n, b += m;
    }
}

// Counts words of `a` that `b` has too, each word of `b` once.
static size_t common_words(const char *a, const char *b)
{
    bool *used = xcalloc(count_words(b) + 1, sizeof *used);
    size_t common = 0, n, m;
    for (const char *p = a; (n = next_word(&p)); p += n) {
        size_t k = 0;
        for (const char *q = b; (m = next_word(&q)); q += m, k++) {
            if (used[k] || !same_word(p, n, q, m)) continue;
            used[k] = true;
            common++;
            break;
        }
    }
    free(used);
    return common;
}

static double overlap(const char *a, const char *b)
{
    const size_t words = count_words(a) + count_words(b);
    return words ? 2 * (double)common_words(a, b) / (double)words : 1;
}

// --- answering again -----------------------------------------------------------------------------

// Returns the text of an answer without its reasoning; the caller frees it.
static char *answer_text(const struct message *m)
{
    char *whole = message_text(m), *text = xstrdup(whole + m->answer_at);
    free(whole);
    return text;
}

// Answers the question in c under the settings s, and moves the answer from c to the list.
static int answer_again(struct consistency *k, const struct measuring *m, struct conversation *c,
                        const struct settings *s, const char *name, struct err *err)
{
    static const struct answer_options options = { 0 };
    const struct sinks nobody = { 0 };
    struct hooks hooks;
    bool answered = false;
    if (conversation_hooks(c, s, m->tensors, &hooks, err) < 0 ||
        answer_run(c, s, &hooks, m->cancel, &options, &nobody, &answered, err) < 0)
        return -1;
    if (!answered || atomic_load(m->cancel)) return err_set(err, "stopped");
    struct again a = { .name = xstrdup(name), .text = answer_text(conversation_last(c)) };
    a.same = same_words(a.text, k->given);
    a.overlap = overlap(a.text, k->given);
    k->list = xreallocarray(k->list, k->count + 1, sizeof *k->list);
    k->list[k->count++] = a;
    conversation_drop(c, 1);
    return 0;
}

static int sample(struct consistency *k, struct passing *p, struct conversation *c, int64_t all,
                  struct err *err)
{
    const struct measuring *m = passes_measuring(p);
    struct settings *s = settings_copy(m->settings);
    const int64_t first = settings_integer(s, "sample.seed") + 1;
    double temperature = m->options->temperature;
    char text[32], name[48];
    int status = 0;
    if (temperature <= 0) temperature = settings_real(s, "sample.temperature");
    snprintf(text, sizeof text, "%.9g", temperature > 0 ? temperature : 1);
    settings_set(s, "sample.temperature", text, NULL);
    for (size_t i = 0; i < k->samples && status == 0; i++) {
        snprintf(text, sizeof text, "%lld", (long long)(first + (int64_t)i));
        snprintf(name, sizeof name, "seed %s", text);
        status = settings_set(s, "sample.seed", text, err);
        if (status == 0) status = answer_again(k, m, c, s, name, err);
        passes_progress(p, (int64_t)k->count, all);
    }
    settings_free(s);
    return status;
}

// Replaces all pictures with changed ones, answers, and restores the pictures.
static int answer_changed(struct consistency *k, const struct measuring *m, struct conversation *c,
                          int change, struct err *err)
{
    struct image *former = xcalloc(c->picture_count + 1, sizeof *former);
    int status = 0;
    for (size_t i = 0; i < c->picture_count && status == 0; i++) {
        struct image changed;
        if (!c->pictures[i].image.pixels) continue;
        status = image_change(&changed, &c->pictures[i].image, change, err);
        if (status == 0) former[i] = conversation_swap_pixels(c, (int)i, changed);
    }
    if (status == 0) status = answer_again(k, m, c, m->settings, image_changes[change], err);
    for (size_t i = 0; i < c->picture_count; i++) {
        if (!former[i].pixels) continue;
        struct image changed = conversation_swap_pixels(c, (int)i, former[i]);
        image_release(&changed);
    }
    free(former);
    return status;
}

static int consistency_passes(void *state, struct passing *p, struct err *err)
{
    struct consistency *k = state;
    const struct measuring *m = passes_measuring(p);
    const struct conversation *from = passes_conversation(p);
    const int changes = k->env->visual ? image_change_count : 0;
    struct conversation c;
    k->samples = m->options->samples ? (size_t)m->options->samples : SAMPLES;
    k->given = answer_text(conversation_last(from));
    const int64_t all = (int64_t)k->samples + changes;
    conversation_init(&c, m->backend);
    conversation_set_model(&c, m->model);
    int status = conversation_copy(&c, from, from->message_count - 1, err);
    conversation_detach(&c, 0);
    passes_progress(p, 0, all);
    if (status == 0) status = sample(k, p, &c, all, err);
    for (int i = 0; i < changes && status == 0; i++) {
        status = answer_changed(k, m, &c, i, err);
        passes_progress(p, (int64_t)k->count, all);
    }
    conversation_release(&c);
    return status;
}

// --- results -------------------------------------------------------------------------------------

// Adds the agreement of answers from .. end - 1 with the given one.
static void put_agreement(const struct consistency *k, const char *name, size_t from, size_t end,
                          struct result_table *t, struct result_table *bounds)
{
    double same = 0, sum = 0;
    const double n = (double)(end - from);
    if (end == from) return;
    for (size_t i = from; i < end; i++) same += k->list[i].same, sum += k->list[i].overlap;
    double *v = result_row(t, "%s", name), *b = result_row(bounds, "%s", name);
    v[0] = same / n, v[1] = sum / n;
    b[0] = n;
    share_interval(v[0], n, &b[1], &b[2]);
}

// Counts the distinct answers among the given one and the first `count` of the list.
static size_t count_distinct(const struct consistency *k, size_t count)
{
    size_t distinct = 1;
    for (size_t i = 0; i < count; i++) {
        bool known = k->list[i].same;
        for (size_t j = 0; j < i && !known; j++)
            known = same_words(k->list[j].text, k->list[i].text);
        distinct += !known;
    }
    return distinct;
}

static int consistency_finish(void *state, struct results *r, struct err *err)
{
    const struct consistency *k = state;
    struct result_table *t = results_table(r, "consistency", "answers|same|overlap");
    struct result_table *bounds = results_table(r, "consistency.bounds", "answers|number|low|high");
    struct result_table *each = results_table(r, "consistency.answers", "answer|same|overlap");
    bounds->own = true;
    each->own = each->kept = true;
    put_agreement(k, "samples", 0, k->samples, t, bounds);
    put_agreement(k, "changes", k->samples, k->count, t, bounds);
    struct result_table *distinct = results_table(r, "consistency.distinct", "what|value");
    result_row(distinct, "different answers among samples")[0] =
        (double)count_distinct(k, k->samples);
    for (size_t i = 0; i < k->count; i++) {
        double *v = result_row(each, "%s: %s", k->list[i].name, text_trimmed(k->list[i].text));
        v[0] = k->list[i].same, v[1] = k->list[i].overlap;
    }
    results_note(r,
                 "same: the share of answers with the same words as the given answer, and its 95%% "
                 "Wilson interval; overlap: the mean F1 score of their words");
    if (!k->env->visual) results_note(r, "the prompt has no picture, so no pictures are changed");
    return 0;
}

static const struct result_kind consistency_results[] = {
    { "consistency", "share", .columns = "same|overlap", .bars = true },
    { "consistency.bounds", "share", .columns = "low|high" },
    { "consistency.answers", .unit = "share" },
    { .name = "consistency.distinct" },
    { 0 },
};

const struct probe probe_consistency = {
    .name = "consistency",
    .also = "stability robustness agreement self-consistency resample perturbation shift crop jpeg "
            "brightness uncertainty measure probe",
    .usage = "/consistency [--samples N] [--temperature T]" PROBE_USAGE,
    .help = "How stable an answer is when it is sampled again, and under small changes to the "
            "picture.",
    .details =
        "Answers the last question again: --samples times with different seeds, then once for "
        "each\n"
        "small change to the pictures (shift, crop, brightness, contrast, noise, blur, JPEG).\n"
        "The table consistency has the share of answers with the same words as the given answer,\n"
        "and the mean overlap of their words (F1); consistency.bounds has the 95% intervals of "
        "the\n"
        "shares (Wilson), and consistency.answers has each answer. With --data, intervals over "
        "the\n"
        "samples are in consistency.interval." PROBE_DETAILS,
    .results = consistency_results,
    .answer = true,
    .answered = true,
    .scalar = "consistency",
    .start = consistency_start,
    .release = consistency_release,
    .passes = consistency_passes,
    .finish = consistency_finish,
};
