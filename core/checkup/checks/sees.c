// core/checkup/checks/sees.c -- checks that the model looks at its pictures, recognises their
// content, and uses the order of two pictures.
//
// Log-probabilities are means over the tokens of an answer, in nats. The model's own answer about a
// picture becomes less likely when the picture is replaced, unless the model ignores its pictures.
// For scenes drawn here the truth is known: a model that sees prefers the true descriptions to the
// same descriptions shuffled among the pictures.
#include "core/checkup/checkup_parts.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/text.h"

enum { TOKENS = 32, ASKED = 8, LEAST = 2, SCENES_LEAST = 4 };
static const double same_nats = 0.01;

// --- answers -------------------------------------------------------------------------------------

struct described {
    int picture;
    struct checkup_answer answer;
};

static int describe(struct checkup *c, struct described *d, struct err *err)
{
    const struct checkup_picture *p = &c->views[d->picture];
    checkup_ask(c, &d->picture, 1, checkup_question);
    if (checkup_answer(c, c->settings, TOKENS, false, &d->answer, err) < 0) return -1;
    char *name = xasprintf("describes %s", p->name);
    struct finding f = finding(c, name);
    finding_number(&f, "tokens", (double)d->answer.ids.count, "", 1);
    finding_measured(&f, "“%s”%s%s%s", text_trimmed(d->answer.text), p->truth ? " (it shows: " : "",
                     p->truth ? p->truth : "", p->truth ? ")" : "");
    free(name);
    return 0;
}

// Computes the mean log-probability of the answer's tokens, in nats, with these pictures.
static int nats_with(struct checkup *c, const struct ids *answer, const int *pictures, size_t count,
                     const char *asked, double *nats, struct err *err)
{
    checkup_ask(c, pictures, count, asked);
    if (checkup_nats(c, c->settings, answer, nats, err) < 0) return -1;
    *nats /= (double)answer->count;
    return 0;
}

enum { OWN, OTHER, BLANK, NONE, SHOWN };

static int check_looks(struct checkup *c, const struct described *d, int count, struct err *err)
{
    static const char *const names[SHOWN] = { "with its picture", "with another picture",
                                              "with a grey picture", "without a picture" };
    double sum[SHOWN] = { 0 };
    int64_t samples = 0;
    for (int i = 0; i < (c->work->options.quick ? 1 : count); i++) {
        const int shown[SHOWN] = { d[i].picture, d[(i + 1) % count].picture, c->blank };
        if (!d[i].answer.ids.count) continue;
        for (int k = 0; k < SHOWN; k++) {
            double nats;
            if (nats_with(c, &d[i].answer.ids, &shown[k], k != NONE, checkup_question, &nats, err) <
                0)
                return -1;
            sum[k] += nats;
        }
        samples++;
        checkup_progress(c, i + 1, 2 * count);
    }
    struct finding f = finding(c, "looks at the picture");
    if (!samples) {
        finding_skip(&f, "the model's answers are empty");
        return 0;
    }
    double most = 0;
    for (int k = 0; k < SHOWN; k++) {
        finding_number(&f, names[k], sum[k] / (double)samples, "nats per token", samples);
        most = fmax(most, fabs(sum[k] - sum[OWN]) / (double)samples);
    }
    if (most < same_nats)
        finding_fails(&f, "its answers are as likely with another picture, a grey one or none: the "
                          "model does not look at its picture");
    else
        finding_works(&f, "its answers lose up to %.3g nats per token when the picture changes",
                      most);
    return 0;
}

// --- known scenes --------------------------------------------------------------------------------

// Counts the assignments of descriptions to pictures, and those whose total log-probability is at
// least that of the true assignment.
static void permute(const double *nats, int n, int at, int *order, double sum, double truth,
                    int64_t *all, int64_t *as_good)
{
    if (at == n) {
        ++*all;
        *as_good += sum >= truth - 1e-9;
        return;
    }
    for (int k = at; k < n; k++) {
        int swap = order[at];
        order[at] = order[k], order[k] = swap;
        permute(nats, n, at + 1, order, sum + nats[at * n + order[at]], truth, all, as_good);
        swap = order[at];
        order[at] = order[k], order[k] = swap;
    }
}

double checkup_scene_chance(const double *nats, int n)
{
    int order[CHECKUP_SCENES];
    int64_t all = 0, as_good = 0;
    double truth = 0;
    for (int i = 0; i < n; i++) order[i] = i, truth += nats[i * n + i];
    permute(nats, n, 0, order, 0, truth, &all, &as_good);
    return (double)as_good / (double)all;
}

// Four scenes have only 24 assignments: the true one must be the best.
bool checkup_scene_seen(double chance, int n)
{
    return chance < (n > 4 ? 0.01 : 0.05);
}

int checkup_scene_nats(struct checkup *c, const struct settings *s, const int *scenes, int n,
                       double *nats, struct err *err)
{
    const char *truths[CHECKUP_SCENES];
    for (int i = 0; i < n; i++) truths[i] = c->views[scenes ? scenes[i] : i].truth;
    for (int i = 0; i < n; i++) {
        checkup_ask(c, scenes ? &scenes[i] : &i, 1, checkup_question);
        if (checkup_rank(c, s, truths, (size_t)n, nats + i * n, err) < 0) return -1;
    }
    return 0;
}

static int check_recognises(struct checkup *c, struct err *err)
{
    const int n = checkup_samples(c, (int)c->scenes, SCENES_LEAST);
    double nats[CHECKUP_SCENES * CHECKUP_SCENES], own = 0, other = 0;
    int best = 0;
    if (checkup_scene_nats(c, c->settings, NULL, n, nats, err) < 0) return -1;
    for (int i = 0; i < n; i++) {
        int most = 0;
        for (int k = 0; k < n; k++) {
            *(i == k ? &own : &other) += nats[i * n + k];
            if (nats[i * n + k] > nats[i * n + most]) most = k;
        }
        best += most == i;
    }
    const double p = checkup_scene_chance(nats, n);
    struct finding f = finding(c, "recognises the scenes");
    finding_number(&f, "true descriptions", own / n, "nats per token", n);
    finding_number(&f, "descriptions of other scenes", other / (n * (n - 1)), "nats per token",
                   n * (n - 1));
    finding_number(&f, "true description likeliest", best, "scenes", n);
    finding_number(&f, "probability by chance", p, "", 1);
    if (checkup_scene_seen(p, n))
        finding_works(&f, "it prefers the true descriptions of %d drawn scenes", n);
    else
        finding_fails(&f,
                      "the true descriptions of %d drawn scenes are no likelier than the same "
                      "descriptions shuffled: the model does not see what its pictures show "
                      "(an untrained projector, damaged weights of the encoder, a pixel "
                      "normalisation that differs from training), or it cannot name simple shapes",
                      n);
    return 0;
}

// --- two pictures --------------------------------------------------------------------------------

static int check_order(struct checkup *c, struct err *err)
{
    static const char first[] = "What is in the first picture?";
    const int order[2][2] = { { 0, 1 }, { 1, 0 } };
    struct checkup_answer a;
    struct err why = { 0 };
    double nats[2] = { 0 };
    checkup_ask(c, order[0], 2, first);
    int status = checkup_answer(c, c->settings, TOKENS, false, &a, &why);
    for (int k = 0; k < 2 && status == 0 && a.ids.count; k++)
        status = nats_with(c, &a.ids, order[k], 2, first, &nats[k], &why);
    if (status < 0) checkup_answer_release(&a);
    if (c->stopped) {
        *err = why;
        return -1;
    }
    struct finding f = finding(c, "order of two pictures");
    if (status < 0) {
        finding_skip(&f, "%s", why.text);
        return 0;
    }
    finding_number(&f, "in their order", nats[0], "nats per token", 1);
    finding_number(&f, "exchanged", nats[1], "nats per token", 1);
    if (!a.ids.count)
        finding_skip(&f, "the answer is empty");
    else if (fabs(nats[0] - nats[1]) < same_nats)
        finding_fails(&f, "the answer “%s” is as likely when the pictures are swapped",
                      text_trimmed(a.text));
    else
        finding_works(&f, "the order matters to the answer “%s”", text_trimmed(a.text));
    checkup_answer_release(&a);
    return 0;
}

// --- all -----------------------------------------------------------------------------------------

static int run(struct checkup *c, struct err *err)
{
    struct described d[ASKED] = { 0 };
    // Starts with the user's pictures, if any.
    const int most = c->view_count < ASKED ? (int)c->view_count : ASKED;
    const int count = checkup_samples(c, most, LEAST);
    int status = 0;
    for (int i = 0; i < count && status == 0; i++) {
        d[i].picture = (int)((c->scenes * (c->view_count > c->scenes) + (size_t)i) % c->view_count);
        status = describe(c, &d[i], err);
        checkup_progress(c, i + 1, 4 * count);
    }
    if (status == 0) status = check_looks(c, d, count, err);
    if (status == 0) status = check_recognises(c, err);
    if (status == 0 && c->work->options.quick) {
        struct finding f = finding(c, "order of two pictures");
        finding_skip(&f, "--quick leaves it out");
    } else if (status == 0) {
        status = check_order(c, err);
    }
    for (int i = 0; i < count; i++) checkup_answer_release(&d[i].answer);
    return status;
}

const struct checkup_check check_sees = {
    .name = "sees",
    .shows = "Whether the model looks at its pictures, sees what they show, and uses their order.",
    .sees = true,
    .cost = { .prompts = 45, .tokens = 220, .encodes = 10 },
    .quick = { .prompts = 14, .tokens = 64, .encodes = 5 },
    .run = run,
};
