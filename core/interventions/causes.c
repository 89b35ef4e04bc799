// core/interventions/causes.c -- the regions of a picture that an answer depends on, by exchange
// (interchange intervention: Geiger et al. 2021, arXiv 2106.02997).
//
// A region's visual tokens are replaced by another picture's at the same places, so the model reads
// only tokens that its encoder makes. Zeros, means or cut attention may change an answer that does
// not depend on the region. A model that answers from the text alone keeps its answer under any
// picture.
#include "core/interventions/causes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/folder.h"
#include "core/interventions/faithful.h"
#include "core/positions/positions.h"
#include "core/probes/kit.h"
#include "core/probes/masks.h"
#include "core/probes/passes.h"
#include "core/template/message.h"

enum {
    OTHERS = 8,  // largest number of pictures to exchange with
    TRIED = 64,  // largest number of files that are tried as such pictures
    OBJECTS = 64 // largest number of objects of a picture to exchange
};

// An answer depends on a region only if the exchange lowers its log-probability by at least this
// (nats).
static const double least = 0.1;
// The smallest region with at least this share of the largest effect is the cause.
static const double almost = 0.9;
// A region with less than this share of the whole picture's effect is not the cause.
static const double enough = 0.5;

static const char whole[] = "the whole picture";

static struct cause *append(struct causes *c, const char *name)
{
    c->list = xgrow(c->list, &c->capacity, c->count, sizeof *c->list);
    c->list[c->count] = (struct cause){ .name = xstrdup(name) };
    return &c->list[c->count++];
}

// --- the candidates ------------------------------------------------------------------------------

// Adds a region [N], unless it is empty.
static void add(struct causes *c, const char *name, const bool *at)
{
    const size_t n = (size_t)c->w->env->sequence->n;
    int64_t tokens = 0;
    for (size_t i = 0; i < n; i++) tokens += at[i];
    if (!tokens) return;
    struct cause *region = append(c, name);
    region->at = memcpy(xmalloc(n * sizeof *at), at, n * sizeof *at);
    tally_add(&region->tokens, (double)tokens);
}

// Makes the mask of an object that --objects lists. Unlike `object NAME` of /help positions, it
// ignores boxes in the answer.
static int read_object(void *self, const char *name, int *picture, struct image *mask,
                       struct err *err)
{
    const struct causes *c = self;
    const struct probe_options *o = c->w->env->options;
    const struct picture *shown = &c->w->env->pictures[ *picture = c->picture];
    const struct masks_query query = { .picture = shown->path ? shown->path : "",
                                       .text = name,
                                       .width = (double)shown->image.width,
                                       .height = (double)shown->image.height,
                                       .boxes = o->object_boxes,
                                       .named = true,
                                       .whole = true };
    return masks_read(o->objects, &query, mask, err);
}

// Finds the tokens at[N] of a listed object; returns true if the mask [S] covers most of them.
static bool find_object(struct causes *c, char *name, const float *mask, bool *at)
{
    const struct probe_env *env = c->w->env;
    struct positions_env where = *env->where;
    struct position one = { .kind = POSITION_OBJECT, .object = name };
    struct err ignored; // an object whose box touches no token
    int64_t tokens = 0, covered = 0;
    where.object = read_object, where.self = c;
    positions_rows(&(struct positions){ .list = &one, .count = 1 }, &where, at, &ignored);
    for (int64_t i = 0; i < env->sequence->n; i++) {
        at[i] &= env->sequence->picture[i] == c->picture;
        tokens += at[i];
        covered += at[i] && mask[env->number[i]] > 0;
    }
    return 2 * covered > tokens;
}

// Adds the listed objects that the mask does not cover, and removes the tokens of all listed
// objects from rest[N]. If the mask covers all of several objects, it singles none out: adds all
// and returns false. Objects of RefCOCO have no names, so the list may be empty.
static bool add_objects(struct causes *c, const float *mask, bool *rest)
{
    const struct probe_env *env = c->w->env;
    const char *path = env->pictures[c->picture].path;
    const size_t n = (size_t)env->sequence->n;
    size_t count = 0, covered = 0;
    char **names = masks_names(env->options->objects, path ? path : "", &count);
    for (; count > OBJECTS; c->cut = true) free(names[--count]);
    bool *at = xcalloc(count * n + 1, sizeof *at), *is = xcalloc(count + 1, sizeof *is);
    for (size_t k = 0; k < count; k++)
        covered += is[k] = find_object(c, names[k], mask, at + k * n);
    const bool named = covered < count || count <= 1;
    for (size_t k = 0; k < count; k++) {
        for (size_t i = 0; i < n; i++) rest[i] &= !at[k * n + i];
        if (!named || !is[k]) add(c, names[k], at + k * n);
        free(names[k]);
    }
    free(names);
    free(at);
    free(is);
    return named;
}

void causes_open(struct causes *c, const struct attributing *w, const float *mask, int picture)
{
    const struct sequence *q = w->env->sequence;
    const size_t n = (size_t)q->n + 1;
    *c = (struct causes){ .w = w, .picture = picture };
    bool *all = xcalloc(n, sizeof *all), *rest = xcalloc(n, sizeof *rest);
    bool *object = xcalloc(n, sizeof *object);
    for (int64_t i = 0; i < q->n; i++) {
        all[i] = rest[i] = q->picture[i] == picture;
        object[i] = all[i] && mask[w->env->number[i]] > 0;
    }
    add(c, whole, all);
    if (!w->env->options->objects || add_objects(c, mask, rest)) {
        for (int64_t i = 0; i < q->n; i++) rest[i] &= !object[i];
        add(c, "the object", object);
    }
    add(c, "the rest", rest);
    free(all);
    free(rest);
    free(object);
}

void causes_close(struct causes *c)
{
    for (size_t i = 0; i < c->count; i++) {
        free(c->list[i].name);
        free(c->list[i].at);
    }
    free(c->list);
    *c = (struct causes){ 0 };
}

// --- exchanges -----------------------------------------------------------------------------------

// A picture's visual tokens from the encoder.
struct encoded {
    int64_t rows, width;
    float *tokens; // [rows, width]
    float *focus;  // [rows] the encoder's attention to each token; NULL: no method reads it
};

// Returns a copy of own [rows, width] with another picture's rows in the region.
static float *mix(const struct causes *c, const struct cause *region, const float *own,
                  const float *other, int64_t rows, int64_t width)
{
    const struct sequence *q = c->w->env->sequence;
    const size_t size = (size_t)(rows * width) * sizeof *own;
    float *mixed = memcpy(xmalloc(size), own, size);
    for (int64_t i = 0; i < q->n; i++)
        if (region->at[i] && q->cell[i] < rows)
            memcpy(mixed + q->cell[i] * width, other + q->cell[i] * width,
                   (size_t)width * sizeof *mixed);
    return mixed;
}

// Runs the answer with another picture's tokens in a region, and records the change in
// log-probability.
static int exchange(struct causes *c, struct passing *p, struct cause *region,
                    const struct encoded *own, const struct encoded *other, struct err *err)
{
    const struct sequence *q = c->w->env->sequence;
    double *logp = xcalloc((size_t)(q->n - q->prompt) + 1, sizeof *logp);
    float *mixed = mix(c, region, own->tokens, other->tokens, own->rows, own->width);
    float *focus =
        own->focus && other->focus ? mix(c, region, own->focus, other->focus, own->rows, 1) : NULL;
    int status = passes_show(p, c->picture, mixed, focus, err);
    if (status == 0) status = passes_run(p, NULL, 0, logp, err);
    if (status == 0) tally_add(&region->change, attribution_sum(c->w, logp) - c->w->logp);
    free(mixed);
    free(focus);
    free(logp);
    return status;
}

// Exchanges all regions with the picture in a file. Sets *used to false if it cannot take the
// picture's place, or is the picture itself.
static int exchange_all(struct causes *c, struct passing *p, const char *path,
                        const struct encoded *own, bool *used, struct err *err)
{
    struct encoded other = { 0 };
    other.tokens = passes_encode(p, c->picture, path, &other.focus, &c->why);
    int status = other.tokens ? 0 : passes_check(p, err);
    *used = other.tokens && memcmp(other.tokens, own->tokens,
                                   (size_t)(own->rows * own->width) * sizeof *own->tokens) != 0;
    for (size_t i = 0; i < c->count && *used && status == 0; i++)
        status = exchange(c, p, &c->list[i], own, &other, err);
    free(other.tokens);
    free(other.focus);
    return status;
}

int causes_exchange(struct causes *c, struct passing *p, const char *folder, struct err *err)
{
    struct encoded own = { 0 };
    size_t count = 0;
    int used = 0, status = 0;
    char **names = folder_list(folder);
    own.tokens = passes_visual(p, c->picture, &own.rows, &own.width, &own.focus, err);
    while (names[count]) count++;
    if (!count)
        err_set(&c->why, "'%s' is empty or not a folder: name one with --others DIR", folder);
    else if (count > TRIED)
        err_set(&c->why, "all show the picture itself");
    else
        err_set(&c->why, "'%s' has no other picture of its size", folder);
    if (!own.tokens) status = -1;
    // A stride spreads the pictures over the folder.
    for (size_t k = 0, at = 0; k < count && k < TRIED && used < OTHERS && status == 0; k++) {
        bool one = false;
        char *path = folder_entry(folder, names[at % count]);
        status = exchange_all(c, p, path, &own, &one, err);
        free(path);
        used += one;
        at += count % 7 ? 7 : 1;
    }
    if (!used && count > TRIED)
        err_in(&c->why, "only %d of the %zu files in '%s' were tried", TRIED, count, folder);
    struct err ignored;
    if (own.tokens && passes_restore(p, c->picture, status == 0 ? err : &ignored) < 0) status = -1;
    folder_list_free(names);
    free(own.tokens);
    free(own.focus);
    return status;
}

void causes_rate(struct causes *c, const float *map, int number)
{
    const struct probe_env *env = c->w->env;
    float *mask = xcalloc((size_t)env->visual + 1, sizeof *mask);
    for (size_t k = 0; k < c->count; k++) {
        for (int64_t i = 0; i < env->sequence->n; i++)
            if (env->number[i] >= 0) mask[env->number[i]] = c->list[k].at[i];
        const double auc = map_score(map, mask, env->visual).auc;
        if (isfinite(auc)) tally_add(&c->list[k].auc[number], auc);
    }
    free(mask);
}

// --- the verdict ---------------------------------------------------------------------------------

void causes_add(struct causes *means, const struct causes *c)
{
    if (!means->count) means->why = c->why;
    means->cut |= c->cut;
    for (size_t i = 0; i < c->count; i++) {
        const struct cause *from = &c->list[i];
        size_t k = 0;
        if (!from->change.count) continue;
        while (k < means->count && strcmp(means->list[k].name, from->name) != 0) k++;
        struct cause *to = k < means->count ? &means->list[k] : append(means, from->name);
        tally_add(&to->tokens, tally_mean(&from->tokens));
        tally_add(&to->change, tally_mean(&from->change));
        for (int m = 0; m < CAUSE_MAPS; m++)
            if (from->auc[m].count) tally_add(&to->auc[m], tally_mean(&from->auc[m]));
    }
}

static const struct cause *find(const struct causes *c, const char *name)
{
    for (size_t i = 0; i < c->count; i++)
        if (!strcmp(c->list[i].name, name)) return &c->list[i];
    return NULL;
}

// True if the region may be the cause: it is not the whole picture, and at least a third of the
// samples have it.
static bool common(const struct causes *c, const struct cause *region)
{
    return region->name != find(c, whole)->name &&
           3 * region->change.count >= c->list->change.count;
}

// Returns the smallest region with almost the largest drop in log-probability; NULL: no drop
// reaches `required`.
static const struct cause *find_cause(const struct causes *c, double required)
{
    const struct cause *cause = NULL;
    double largest = 0;
    for (size_t i = 0; i < c->count; i++)
        if (common(c, &c->list[i])) largest = fmax(largest, -tally_mean(&c->list[i].change));
    for (size_t i = 0; i < c->count && largest >= required; i++) {
        const struct cause *region = &c->list[i];
        if (common(c, region) && -tally_mean(&region->change) >= almost * largest &&
            (!cause || tally_mean(&region->tokens) < tally_mean(&cause->tokens)))
            cause = region;
    }
    return cause;
}

// Returns the possible cause that the map ranks highest, by AUC; NULL: none has an AUC.
static const struct cause *find_shown(const struct causes *c, int map)
{
    const struct cause *best = NULL;
    for (size_t i = 0; i < c->count; i++) {
        const struct cause *region = &c->list[i];
        if (common(c, region) && region->auc[map].count &&
            (!best || tally_mean(&region->auc[map]) > tally_mean(&best->auc[map])))
            best = region;
    }
    return best;
}

static void note_maps(const struct causes *c, const struct cause *cause, char *const *names,
                      struct results *r)
{
    struct buf right = { 0 }, wrong = { 0 };
    for (int m = 0; m < CAUSE_MAPS; m++) {
        const struct cause *shown = find_shown(c, m);
        if (!names[m] || !shown) continue;
        if (shown == cause)
            buf_printf(&right, "%s%s", right.length ? ", " : "", names[m]);
        else
            buf_printf(&wrong, "%s%s (%s)", wrong.length ? ", " : "", names[m], shown->name);
    }
    results_note(r, "maps that rank the cause above all other regions: %s",
                 right.length ? right.data : "none");
    if (wrong.length) results_note(r, "maps that rank another region highest: %s", wrong.data);
    buf_release(&right);
    buf_release(&wrong);
}

static void note_cause(const struct causes *c, char *const *names, struct results *r)
{
    const double all = tally_mean(&find(c, whole)->change);
    const double required = fmax(least, enough * -all);
    const struct cause *cause = find_cause(c, required);
    if (-all < least && !cause) {
        results_note(r,
                     "the cause of the answers: the text (other pictures change their "
                     "log-probability by only %.3g)",
                     all);
    } else if (!cause) {
        results_note(r,
                     "the cause of the answers: the whole picture (%.3g; no region alone changes "
                     "their log-probability by more than %.3g)",
                     all, required);
    } else {
        results_note(r,
                     "the cause of the answers: %s (%.3g with other pictures in its place; the "
                     "whole picture: %.3g)",
                     cause->name, tally_mean(&cause->change), all);
        note_maps(c, cause, names, r);
    }
}

void causes_put(const struct causes *means, char *const *names, struct results *r)
{
    struct buf columns = { 0 };
    if (!means->count) {
        if (means->why.text[0])
            results_note(r, "no cause of the answers was sought: %s", means->why.text);
        return;
    }
    buf_puts(&columns, "region|change|low|high|samples|tokens");
    for (int m = 0; m < CAUSE_MAPS; m++)
        if (names[m]) buf_printf(&columns, "|%s", names[m]);
    struct result_table *t = results_table(r, "faithful.causes", columns.data);
    buf_release(&columns);
    t->own = true;
    t->ranked = 1;
    for (size_t i = 0; i < means->count; i++) {
        const struct cause *region = &means->list[i];
        double *v = result_row(t, "%s", region->name);
        v[0] = tally_mean(&region->change);
        tally_interval(&region->change, &v[1], &v[2]);
        v[3] = (double)region->change.count;
        v[4] = tally_mean(&region->tokens);
        v += 5;
        for (int m = 0; m < CAUSE_MAPS; m++)
            if (names[m]) *v++ = tally_mean(&region->auc[m]);
    }
    note_cause(means, names, r);
    if (means->cut)
        results_note(r, "only the first %d objects of a picture were exchanged", OBJECTS);
}
