// core/eval/evaluate_share.c -- samples dealt to a team (the ranks of a job, or the flights of a
// rank), and what it has scored: as bytes that one sends to another.
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/eval/evaluate_parts.h"
#include "core/eval/grid.h"
#include "core/stages/stages.h"

// The texts of a struct evaluated; NULL is a text too.
enum { TEXTS = 9 };

static void list_texts(const struct evaluated *e, const char **texts)
{
    const char *const list[TEXTS] = { e->id,        e->kind,    e->prompt, e->answer,     e->found,
                                      e->reference, e->skipped, e->group,  e->scored_text };
    memcpy(texts, list, sizeof list);
}

static void put_texts(struct evaluated *e, const char *const *texts)
{
    e->id = texts[0];
    e->kind = texts[1];
    e->prompt = texts[2];
    e->answer = texts[3];
    e->found = texts[4];
    e->reference = texts[5];
    e->skipped = texts[6];
    e->group = texts[7];
    e->scored_text = texts[8];
}

// A pointer means nothing to another process: the metric's is its number, those of texts are there
// or not.
struct packed {
    bool ends, bad; // the end of a sample, with nothing else; something of it could not be scored
    struct evaluated e;
    int metric; // -1: none
    bool has[TEXTS];
};

void evaluate_pack(struct buf *b, const struct evaluated *e)
{
    const char *texts[TEXTS];
    struct packed p;
    memset(&p, 0, sizeof p);
    p.e = *e;
    p.metric = e->metric ? evaluate_metric_number(e->metric) : -1;
    list_texts(e, texts);
    for (int i = 0; i < TEXTS; i++) p.has[i] = texts[i] != NULL;
    buf_add(b, &p, sizeof p);
    for (int i = 0; i < TEXTS; i++)
        if (texts[i]) buf_add(b, texts[i], strlen(texts[i]) + 1);
}

static void pack_end(struct buf *b, bool bad)
{
    struct packed p;
    memset(&p, 0, sizeof p);
    p.ends = true;
    p.bad = bad;
    p.metric = -1;
    buf_add(b, &p, sizeof p);
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

static size_t unpack_one(struct evaluating *v, const char *at)
{
    const char *texts[TEXTS] = { NULL };
    struct packed p;
    size_t used = sizeof p;
    memcpy(&p, at, sizeof p);
    for (int i = 0; i < TEXTS; i++) {
        if (!p.has[i]) continue;
        texts[i] = at + used;
        used += strlen(texts[i]) + 1;
    }
    p.e.metric = p.metric >= 0 ? metrics[p.metric] : NULL;
    put_texts(&p.e, texts);
    if (p.ends)
        v->e->skipped += p.bad;
    else if (!v->stopped)
        evaluate_count(v, &p.e);
    return used;
}

void evaluate_unpack(struct evaluating *v, struct buf *kept)
{
    for (size_t at = 0; at < kept->length;) at += unpack_one(v, kept->data + at);
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
    if (v->packs)
        pack_end(&v->kept, bad);
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
