// core/eval/evaluate_share.c -- samples dealt to a team (the ranks of a job, or the flights of a
// rank), and what it has scored: as bytes that one sends to another.
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/eval/evaluate_parts.h"
#include "core/eval/grid.h"
#include "core/stages/stages.h"

// The texts of a struct evaluated; NULL is a text too.
static const size_t texts[] = {
    offsetof(struct evaluated, id),          offsetof(struct evaluated, kind),
    offsetof(struct evaluated, prompt),      offsetof(struct evaluated, answer),
    offsetof(struct evaluated, found),       offsetof(struct evaluated, reference),
    offsetof(struct evaluated, skipped),     offsetof(struct evaluated, group),
    offsetof(struct evaluated, scored_text),
};
enum { TEXTS = sizeof texts / sizeof *texts };

static const char **text_at(struct evaluated *e, int i)
{
    return (const char **)((char *)e + texts[i]);
}

// Pointers mean nothing to another process: the metric's is its number, and texts that are there
// follow.
struct packed {
    bool ends, bad; // the end of a sample, with nothing else; something of it could not be scored
    struct evaluated e;
    int metric; // -1: none
};

void evaluate_pack(struct buf *b, const struct evaluated *e)
{
    struct packed p;
    memset(&p, 0, sizeof p);
    p.e = *e;
    p.metric = e->metric ? evaluate_metric_number(e->metric) : -1;
    buf_add(b, &p, sizeof p);
    for (int i = 0; i < TEXTS; i++)
        if (*text_at(&p.e, i)) buf_add(b, *text_at(&p.e, i), strlen(*text_at(&p.e, i)) + 1);
}

void evaluate_count(struct evaluating *v, const struct evaluated *told)
{
    struct evaluation *e = v->e;
    if (told->skipped) {
        if (!e->why) e->why = xasprintf("sample %s: %s", told->id, told->skipped);
    } else {
        evaluation_note(e, told);
        e->cut[told->cut]++;
        e->thoughts[told->thought]++;
        e->lost += told->lost;
    }
    if (v->r->report && !v->r->report(v->r->self, told)) v->stopped = true;
}

void evaluate_unpack(struct evaluating *v, struct buf *kept)
{
    for (size_t at = 0; at < kept->length;) {
        struct packed p;
        memcpy(&p, kept->data + at, sizeof p);
        at += sizeof p;
        p.e.metric = p.metric >= 0 ? metrics[p.metric] : NULL;
        for (int i = 0; i < TEXTS; i++) {
            if (!*text_at(&p.e, i)) continue;
            *text_at(&p.e, i) = kept->data + at;
            at += strlen(kept->data + at) + 1;
        }
        if (p.ends)
            v->e->skipped += p.bad;
        else if (!v->stopped)
            evaluate_count(v, &p.e);
    }
    buf_clear(kept);
}

bool evaluate_is_mine(const struct evaluating *v, int64_t number)
{
    return grid_deals(number, v->team, v->number);
}

bool evaluate_ends_round(const struct evaluating *v)
{
    return v->done > v->shared && grid_ends_round(v->done, v->team);
}

void evaluate_end_sample(struct evaluating *v, bool bad)
{
    struct packed p;
    memset(&p, 0, sizeof p);
    p.ends = true;
    p.bad = bad;
    if (v->packs)
        buf_add(&v->kept, &p, sizeof p);
    else
        v->e->skipped += bad;
    const struct stages *stages = stages_of(&v->r->model->decoder);
    ranks_did(stages ? stages->ranks : v->r->ranks, 1);
}

void evaluate_share(struct evaluating *v, bool rest)
{
    struct ranks *ranks = v->r->ranks;
    if (!ranks || v->stopped || !(rest ? v->done > v->shared : evaluate_ends_round(v))) return;
    grid_gather(ranks, &v->kept);
    evaluate_unpack(v, &v->kept);
    ranks_share(ranks, &v->stopped, sizeof v->stopped, 0);
    v->shared = v->done;
}
