// core/interventions/effect.c -- measures changes in the answer's log-probability.
#include "core/interventions/effect.h"

#include <stdlib.h>

#include "core/probes/kit.h"
#include "core/probes/passes.h"
#include "core/tokenizer/tokenizer.h"

int effect_tokens(const struct probe_env *env, int64_t *first, int64_t *end, struct err *err)
{
    const struct probe_options *o = env->options;
    const int64_t answer = env->sequence->n - env->sequence->prompt;
    *first = 0, *end = answer;
    if (o->token == PROBE_TOKEN_DEFAULT || o->token == PROBE_TOKEN_ANSWER) return 0;
    if (o->token != PROBE_TOKEN_NUMBER)
        return err_set(err, "--token takes answer or the number of a token of the answer here");
    if (o->number >= answer)
        return err_set(err, "--token %lld: the answer has tokens 0 to %lld", (long long)o->number,
                       (long long)answer - 1);
    *first = o->number;
    *end = *first + 1;
    return 0;
}

int effect_open(struct effect *e, const struct probe_env *env, struct passing *p, int64_t from,
                int64_t passes, const struct hook *hook, struct err *err)
{
    const size_t answer = (size_t)(env->sequence->n - env->sequence->prompt);
    *e = (struct effect){ .env = env, .p = p, .from = from, .all = passes + 1 };
    e->before = xcalloc(answer + 1, sizeof *e->before);
    e->after = xcalloc(answer + 1, sizeof *e->after);
    if (effect_tokens(env, &e->first, &e->end, err) < 0) return -1;
    passes_progress(p, 0, e->all);
    passes_keep(p);
    return passes_run(p, hook, from, e->before, err);
}

int effect_of(struct effect *e, const struct hook *hook, double *change, struct err *err)
{
    passes_progress(e->p, ++e->done, e->all);
    if (passes_run_layers(e->p, hook, e->from, e->layer, e->after, err) < 0) return -1;
    *change = 0;
    for (int64_t t = e->first; t < e->end; t++) *change += e->after[t] - e->before[t];
    if (e->done + 1 == e->all) passes_progress(e->p, e->all, e->all);
    return 0;
}

void effect_put(const struct effect *e, struct results *r, const char *name)
{
    const struct sequence *s = e->env->sequence;
    double before = 0, after = 0;
    for (int64_t t = e->first; t < e->end; t++) before += e->before[t], after += e->after[t];
    struct result_table *t = results_table(r, name, "what|log-probability");
    result_row(t, "change")[0] = after - before;
    result_row(t, "the answer")[0] = before;
    result_row(t, "with the change")[0] = after;
    char *tokens = xasprintf("%s.tokens", name);
    t = results_table(r, tokens, "token|log-probability|changed|difference");
    free(tokens);
    t->own = true;
    for (int64_t i = e->first; i < e->end; i++) {
        struct buf text = { 0 };
        tokenizer_decode(e->env->model->tokenizer, &s->ids[s->prompt + i], 1, false, &text);
        double *v = result_row(t, "%lld %s", (long long)i, text.data ? text.data : "");
        v[0] = e->before[i], v[1] = e->after[i], v[2] = v[1] - v[0];
        buf_release(&text);
    }
}

void effect_note_layers(const struct effect *e, struct results *r, const bool *layers,
                        const bool *reached)
{
    struct buf lacking = { 0 };
    for (int l = 0; l < e->env->model->decoder.config.layers; l++)
        if (layers[l] && !reached[l]) buf_printf(&lacking, "%s%d", lacking.length ? ", " : "", l);
    if (lacking.length)
        results_note(r, "layers without attention to change (they keep a recurrent state): %s",
                     lacking.data);
    buf_release(&lacking);
}

void effect_close(struct effect *e)
{
    free(e->before);
    free(e->after);
}
