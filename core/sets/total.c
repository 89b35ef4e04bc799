// core/sets/total.c -- computes the scores of whole sets.
#include "core/sets/total.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/items.h"
#include "core/base/names.h"
#include "core/base/random.h"
#include "core/metrics/chair.h"

// --- sums by name --------------------------------------------------------------------------------

struct sums {
    struct names names;
    struct metric_tally *tally; // [names.count]
};

static struct metric_tally *sum_of(struct sums *s, const char *name)
{
    bool known;
    const size_t i = names_add(&s->names, name, &known);
    if (!known) {
        // The capacity of the names doubles, so this rarely moves the sums.
        s->tally = xreallocarray(s->tally, s->names.capacity, sizeof *s->tally);
        s->tally[i] = (struct metric_tally){ 0 };
    }
    return &s->tally[i];
}

static void sums_release(struct sums *s)
{
    names_release(&s->names);
    free(s->tally);
}

static void add_score(struct metric_tally *t, const struct set_score *s)
{
    metric_tally_add(
        t, &(struct metric_outcome){ .score = s->score, .overlap = s->overlap, .class = s->class });
}

static void add_to_parts(struct sums *sums, const struct set_total *t, const struct set_score *s)
{
    const char *whole = t->by == BY_GROUP ? s->group : s->kind;
    if (t->by != BY_KINDS || !strchr(whole, ',')) {
        add_score(sum_of(sums, whole), s);
        return;
    }
    char *names = xstrdup(whole), *rest = names;
    for (char *name; (name = strsep(&rest, ","));) add_score(sum_of(sums, name), s);
    free(names);
}

static struct set_number share(const char *name, double value)
{
    return (struct set_number){ name, value, NUMBER_SHARE };
}

// --- MME -----------------------------------------------------------------------------------------

static bool is_cognition(const char *category)
{
    return items_has("commonsense_reasoning numerical_calculation text_translation code_reasoning",
                     category, " ");
}

// Returns "CATEGORY\nGROUP".
static char *pair_name(const struct set_score *s)
{
    return xasprintf("%s\n%s", s->kind, s->group);
}

static int count_mme(const struct set_total *t, const struct set_score *scores, size_t n,
                     const struct metric *m, struct set_number *numbers)
{
    struct sums single = { 0 }, pair = { 0 }, both = { 0 };
    double sum[2] = { 0 };
    for (size_t i = 0; i < n; i++) {
        char *name = pair_name(&scores[i]);
        add_score(sum_of(&single, scores[i].kind), &scores[i]);
        add_score(sum_of(&pair, name), &scores[i]);
        free(name);
    }
    for (size_t i = 0; i < pair.names.count; i++) {
        const char *name = pair.names.list[i];
        char *kind = xstrndup(name, strcspn(name, "\n"));
        const struct tally *both_of = &pair.tally[i].scores;
        // A picture counts if it has at least two answers, all of them right.
        const double right = both_of->count >= 2 && both_of->mean >= 1;
        tally_add(&sum_of(&both, kind)->scores, right);
        free(kind);
    }
    for (size_t i = 0; i < single.names.count; i++) {
        const char *kind = single.names.list[i];
        sum[is_cognition(kind)] +=
            100 * (single.tally[i].scores.mean + sum_of(&both, kind)->scores.mean);
    }
    sums_release(&single);
    sums_release(&pair);
    sums_release(&both);
    numbers[0] = (struct set_number){ "perception", sum[0], NUMBER_OTHER };
    numbers[1] = (struct set_number){ "cognition", sum[1], NUMBER_OTHER };
    numbers[2] = (struct set_number){ "perception + cognition", sum[0] + sum[1], NUMBER_OTHER };
    return 3;
}

const struct set_total set_total_mme = {
    .name = "mme",
    .rule = "accuracy plus the share of pictures with both answers right, in percent, summed over "
            "the categories",
    .quoted = 2,
    .count = count_mme,
};

// --- means over parts ----------------------------------------------------------------------------

static int count_parts(const struct set_total *t, const struct set_score *scores, size_t n,
                       const struct metric *m, struct set_number *numbers)
{
    struct sums sums = { 0 };
    struct tally mean = { 0 };
    for (size_t i = 0; i < n; i++) add_to_parts(&sums, t, &scores[i]);
    for (size_t i = 0; i < sums.names.count; i++) tally_add(&mean, t->of_part(m, &sums.tally[i]));
    sums_release(&sums);
    numbers[0] = share(t->number, tally_mean(&mean));
    return 1;
}

static double mean_of(const struct metric *m, const struct metric_tally *t)
{
    return t->scores.mean;
}

static double all_right(const struct metric *m, const struct metric_tally *t)
{
    return t->scores.mean >= 1;
}

static double f1_of(const struct metric *m, const struct metric_tally *t)
{
    struct metric_number numbers[METRIC_NUMBERS];
    const int n = m->summary ? m->summary(t, numbers) : 0;
    for (int i = 0; i < n; i++)
        if (!strcmp(numbers[i].name, "F1")) return numbers[i].value;
    return NAN;
}

const struct set_total set_total_kinds = {
    .name = "kinds",
    .rule = "mean over the categories, equally weighted",
    .count = count_parts,
    .number = "mean of kinds",
    .by = BY_KIND,
    .of_part = mean_of,
};

static double overlap_of(const struct metric *m, const struct metric_tally *t)
{
    return t->scores.count ? t->overlap / (double)t->scores.count : NAN;
}

static int count_boxes(const struct set_total *t, const struct set_score *scores, size_t n,
                       const struct metric *m, struct set_number *numbers)
{
    struct set_total overlaps = *t;
    overlaps.of_part = overlap_of;
    overlaps.number = "mean IoU of kinds";
    count_parts(t, scores, n, m, numbers);
    return 1 + count_parts(&overlaps, scores, n, m, numbers + 1);
}

const struct set_total set_total_boxes = {
    .name = "boxes",
    .rule = "mean over the splits, equally weighted",
    .count = count_boxes,
    .number = "mean of kinds",
    .by = BY_KIND,
    .of_part = mean_of,
};

const struct set_total set_total_circular = {
    .name = "circular",
    .rule = "a question counts if all its rotations (rows whose index differs by millions) are "
            "right",
    .count = count_parts,
    .number = "all rotations right",
    .by = BY_GROUP,
    .of_part = all_right,
};

const struct set_total set_total_f1 = {
    .name = "f1",
    .rule = "mean of F1 over the splits",
    .count = count_parts,
    .number = "mean F1 of splits",
    .by = BY_KINDS,
    .of_part = f1_of,
};

static int count_f1_all(const struct set_total *t, const struct set_score *scores, size_t n,
                        const struct metric *m, struct set_number *numbers)
{
    struct sums sums = { 0 };
    struct metric_tally all = { 0 };
    for (size_t i = 0; i < n; i++) add_to_parts(&sums, t, &scores[i]);
    for (size_t i = 0; i < sums.names.count; i++) metric_tally_merge(&all, &sums.tally[i]);
    sums_release(&sums);
    numbers[0] = share("F1 over splits", f1_of(m, &all));
    return 1;
}

const struct set_total set_total_f1_all = {
    .name = "f1-all",
    .rule = "F1 over all questions, each counted once for every split that has it",
    .count = count_f1_all,
    .by = BY_KINDS,
};

// --- splits --------------------------------------------------------------------------------------

static int count_splits(const struct set_total *t, const struct set_score *scores, size_t n,
                        const struct metric *m, struct set_number *numbers)
{
    const char *names[SET_NUMBERS];
    struct tally parts[SET_NUMBERS] = { 0 };
    int count = 0;
    for (size_t i = 0; i < n; i++) {
        int at = 0;
        while (at < count && strcmp(names[at], scores[i].group) != 0) at++;
        if (at == SET_NUMBERS) names[--at] = "further splits";
        if (at == count) names[count++] = scores[i].group;
        tally_add(&parts[at], scores[i].score);
    }
    for (int i = 0; i < count; i++) numbers[i] = share(names[i], tally_mean(&parts[i]));
    return count > 1 ? count : 0;
}

const struct set_total set_total_splits = {
    .name = "splits",
    .rule = "the mean of each split, as the suites report it",
    .apart = true,
    .part = "validation",
    .unit = UNIT_QUESTION,
    .count = count_splits,
};

// --- CV-Bench ------------------------------------------------------------------------------------

static int count_cvbench(const struct set_total *t, const struct set_score *scores, size_t n,
                         const struct metric *m, struct set_number *numbers)
{
    static const char *const sources[] = { "ADE20K", "COCO", "Omni3D" };
    struct tally parts[3] = { 0 }, flat = { 0 }, all = { 0 };
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < 3; k++)
            if (!strcmp(scores[i].kind, sources[k])) tally_add(&parts[k], scores[i].score);
    for (int k = 0; k < 2; k++)
        if (parts[k].count) tally_add(&flat, tally_mean(&parts[k]));
    // A file may contain only one half.
    if (flat.count) tally_add(&all, tally_mean(&flat));
    if (parts[2].count) tally_add(&all, tally_mean(&parts[2]));
    numbers[0] = share("CV-Bench", all.count ? tally_mean(&all) : NAN);
    numbers[1] = share("2D", flat.count ? tally_mean(&flat) : NAN);
    numbers[2] = share("3D", parts[2].count ? tally_mean(&parts[2]) : NAN);
    return 3;
}

const struct set_total set_total_cvbench = {
    .name = "cv-bench",
    .rule = "the mean of 2D, itself the mean of ADE20K and COCO, and 3D (Omni3D)",
    .count = count_cvbench,
};

// --- HallusionBench ------------------------------------------------------------------------------

static double all_right_share(const struct sums *s)
{
    double right = 0;
    for (size_t i = 0; i < s->names.count; i++) right += s->tally[i].scores.mean >= 1;
    return s->names.count ? 100 * right / (double)s->names.count : NAN;
}

// A group is "FIGURE\nQUESTION" (core/sets/set.c).
static int count_hallusion(const struct set_total *t, const struct set_score *scores, size_t n,
                           const struct metric *m, struct set_number *numbers)
{
    struct sums figures = { 0 }, questions = { 0 };
    struct tally all = { 0 };
    for (size_t i = 0; i < n; i++) {
        const char *end = strchrnul(scores[i].group, '\n');
        char *figure = xstrndup(scores[i].group, (size_t)(end - scores[i].group));
        add_score(sum_of(&figures, figure), &scores[i]);
        add_score(sum_of(&questions, *end ? end + 1 : end), &scores[i]);
        tally_add(&all, scores[i].score);
        free(figure);
    }
    numbers[0] = (struct set_number){ "aAcc", 100 * tally_mean(&all), NUMBER_PERCENT };
    numbers[1] = (struct set_number){ "fAcc", all_right_share(&figures), NUMBER_PERCENT };
    numbers[2] = (struct set_number){ "qAcc", all_right_share(&questions), NUMBER_PERCENT };
    numbers[3] = (struct set_number){ "mean of the three",
                                      (numbers[0].value + numbers[1].value + numbers[2].value) / 3,
                                      NUMBER_PERCENT };
    sums_release(&figures);
    sums_release(&questions);
    return 4;
}

const struct set_total set_total_hallusion = {
    .name = "hallusion",
    .rule =
        "in percent: right answers (aAcc), figures (fAcc) and questions (qAcc) with all answers "
        "right, and the mean of the three that tables quote",
    .apart = true,
    .quoted = 3,
    .unit = UNIT_SET,
    .count = count_hallusion,
};

// --- CHAIR ---------------------------------------------------------------------------------------

static int count_chair(const struct set_total *t, const struct set_score *scores, size_t n,
                       const struct metric *m, struct set_number *numbers)
{
    double mentions = 0, wrong = 0, captions = 0;
    for (size_t i = 0; i < n; i++) {
        mentions += chair_mentions(scores[i].class);
        wrong += chair_hallucinated(scores[i].class);
        captions += chair_hallucinated(scores[i].class) > 0;
    }
    numbers[0] = share("CHAIRi", mentions > 0 ? wrong / mentions : NAN);
    numbers[1] = share("CHAIRs", n ? captions / (double)n : NAN);
    numbers[2] =
        (struct set_number){ "objects per caption", n ? mentions / (double)n : NAN, NUMBER_OTHER };
    return 3;
}

const struct set_total set_total_chair = {
    .name = "chair",
    .rule = "CHAIRi: share of mentioned objects that the picture lacks; CHAIRs: share of captions "
            "that mention such an object",
    .count = count_chair,
};

// --- bootstrap -----------------------------------------------------------------------------------

enum { SEED = 21 };

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Scores by unit: those of unit g are list[start[g]] .. list[start[g + 1] - 1].
struct groups {
    const struct set_score **list;
    size_t *start;
    size_t count;
    uint64_t key; // of the names of the units
};

static char *sample_name(int64_t sample)
{
    return xasprintf("\n\n%lld", (long long)sample);
}

// Returns the name of the unit of score i.
static char *unit_name(const struct set_total *t, const struct set_score *s, size_t i)
{
    if (!*s->group || t->unit == UNIT_QUESTION)
        return sample_name(s->sample ? s->sample : (int64_t)i + 1);
    if (t->unit == UNIT_GROUP) return pair_name(s);
    size_t length = strcspn(s->group, "\n");
    while (length && s->group[length] != '_') length--;
    return xasprintf("%s\n%.*s", s->kind, (int)length, s->group);
}

// Returns the name of a group whose unit is the i-th drawn: both lines of the name begin with i, so
// that a unit drawn twice counts as two.
static char *drawn_name(const char *group, size_t i)
{
    const size_t first = strcspn(group, "\n");
    return xasprintf("%zu %.*s\n%zu %s", i, (int)first, group, i,
                     group + first + (group[first] == '\n'));
}

static void group_scores(struct groups *g, const struct set_total *t,
                         const struct set_score *scores, size_t n, int64_t samples)
{
    struct names names = { 0 };
    size_t *of = xcalloc(n + 1, sizeof *of);
    bool grouped = false;
    for (size_t i = 0; i < n && t->unit != UNIT_QUESTION; i++) grouped |= *scores[i].group != 0;
    for (int64_t i = 1; i <= samples && !grouped; i++) {
        char *name = sample_name(i);
        names_add(&names, name, NULL);
        free(name);
    }
    for (size_t i = 0; i < n; i++) {
        char *name = unit_name(t, &scores[i], i);
        of[i] = names_add(&names, name, NULL);
        free(name);
    }
    g->count = names.count;
    g->key = g->count;
    for (size_t i = 0; i < g->count; i++) hash_mix(&g->key, names_hash(names.list[i]));
    g->start = xcalloc(g->count + 2, sizeof *g->start);
    g->list = xcalloc(n + 1, sizeof *g->list);
    for (size_t i = 0; i < n; i++) g->start[of[i] + 2]++;
    for (size_t i = 2; i < g->count + 2; i++) g->start[i] += g->start[i - 1];
    for (size_t i = 0; i < n; i++) g->list[g->start[of[i] + 1]++] = &scores[i];
    names_release(&names);
    free(of);
}

size_t set_draw(int draw, size_t count, size_t i)
{
    return (size_t)(random_bits(SEED, RANDOM_BOOTSTRAP, (uint64_t)draw * count + i) % count);
}

void set_draws_interval(double *draws, double *low, double *high)
{
    *low = *high = NAN;
    for (int d = 0; d < SET_DRAWS; d++)
        if (isnan(draws[d])) return;
    qsort(draws, SET_DRAWS, sizeof *draws, by_value);
    *low = draws[SET_DRAWS / 40];
    *high = draws[SET_DRAWS - SET_DRAWS / 40 - 1];
}

uint64_t set_total_draws(const struct set_total *total, const struct set_score *scores, size_t n,
                         int64_t samples, const struct metric *m, int number,
                         double draws[SET_DRAWS])
{
    struct groups g;
    struct set_number all[SET_NUMBERS];
    size_t room = n;
    group_scores(&g, total, scores, n, samples);
    total->count(total, scores, n, m, all);
    struct set_score *drawn = xcalloc(room + 1, sizeof *drawn);
    // A group that is drawn twice counts as two groups.
    char **names = xcalloc(g.count + 1, sizeof *names);
    for (size_t i = 0; i < g.count; i++) names[i] = xasprintf("%zu", i);
    for (int draw = 0; g.count > 1 && draw < SET_DRAWS; draw++) {
        struct set_number numbers[SET_NUMBERS];
        size_t count = 0;
        for (size_t i = 0; i < g.count; i++) {
            const size_t k = set_draw(draw, g.count, i);
            for (size_t at = g.start[k]; at < g.start[k + 1]; at++) {
                if (count == room) {
                    room = 2 * room + 16;
                    drawn = xreallocarray(drawn, room, sizeof *drawn);
                }
                drawn[count] = *g.list[at];
                if (total->unit == UNIT_GROUP) drawn[count].group = names[i];
                if (total->unit == UNIT_SET) drawn[count].group = drawn_name(drawn[count].group, i);
                count++;
            }
        }
        const int known = total->count(total, drawn, count, m, numbers);
        draws[draw] = NAN;
        for (int k = 0; k < known; k++) // a draw may list the numbers in a different order
            if (!strcmp(numbers[k].name, all[number].name)) draws[draw] = numbers[k].value;
        for (size_t i = 0; i < count && total->unit == UNIT_SET; i++)
            free((char *)(uintptr_t)drawn[i].group);
    }
    for (size_t i = 0; i < g.count; i++) free(names[i]);
    free(names);
    free(drawn);
    free(g.list);
    free(g.start);
    return g.count > 1 ? g.key | 1 : 0;
}

void set_total_interval(const struct set_total *total, const struct set_score *scores, size_t n,
                        const struct metric *m, double *low, double *high)
{
    double draws[SET_DRAWS];
    *low = *high = NAN;
    if (!total->apart && set_total_draws(total, scores, n, 0, m, 0, draws))
        set_draws_interval(draws, low, high);
}
