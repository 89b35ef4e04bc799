// commands/film.c -- a film of the last answer: its tokens are measured one by one.
#include "commands/film.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/draw/film.h"

int film_take(const char **to, const char *value, struct err *err)
{
    const size_t n = strlen(value);
    *to = value;
    if (n > 4 && !strcasecmp(value + n - 4, ".gif")) return 0;
    return err_set(err, "cannot write '%s': the name of a film ends in .gif", value);
}

static const struct message *last_answer(const struct conversation *c)
{
    for (size_t i = c->message_count; i-- > 0;)
        if (c->messages[i].generated && c->messages[i].ids.count) return &c->messages[i];
    return NULL;
}

// The text of each token; characters of several tokens stand at the last of them.
static char **split_words(const struct tokenizer *t, const struct ids *ids)
{
    struct detokenizer d;
    char **words = xcalloc(ids->count + 1, sizeof *words);
    detokenizer_start(&d, t, true);
    for (size_t i = 0; i < ids->count; i++) {
        struct buf b = { 0 };
        detokenizer_push(&d, ids->data[i], &b);
        if (i + 1 == ids->count) detokenizer_finish(&d, &b);
        words[i] = b.data ? buf_take(&b) : xstrdup("");
    }
    return words;
}

static int add_token(const struct shell *shell, const struct measure_request *request,
                     int64_t token, struct film *film, struct results *r, struct err *err)
{
    const struct conversation *c = engine_conversation(shell->engine);
    struct measure_request one = *request;
    one.options.token = PROBE_TOKEN_NUMBER;
    one.options.number = token;
    if (engine_measure(shell->engine, &one, r, err) < 0) return -1;
    struct event_heatmap *maps = xreallocarray(NULL, r->map_count + 1, sizeof *maps);
    for (size_t i = 0; i < r->map_count; i++) {
        const int picture = r->maps[i].picture;
        maps[i] = results_heatmap(&r->maps[i]);
        if (picture >= 0 && (size_t)picture < c->picture_count)
            maps[i].image = &c->pictures[picture].image;
    }
    if (r->map_count) film->unit = results_unit(maps[0].name);
    if (r->map_count) film_add(film, maps, r->map_count);
    free(maps);
    return 0;
}

int film_of_answer(const struct shell *shell, const struct measure_request *request,
                   const char *path, struct err *err)
{
    const struct message *answer = last_answer(engine_conversation(shell->engine));
    if (!answer) return err_set(err, "a film shows the tokens of an answer: ask a question first");
    const size_t count = answer->ids.count < FILM_FRAMES ? answer->ids.count : FILM_FRAMES;
    const struct figure_look look = figure_look(engine_settings(shell->engine));
    struct film film = { .look = &look, .count = answer->ids.count };
    struct results *all = xcalloc(count, sizeof *all); // names of their maps are borrowed
    int status = 0;
    film.words = split_words(engine_model(shell->engine)->tokenizer, &answer->ids);
    for (size_t i = 0; i < count && status == 0; i++)
        status = add_token(shell, request, (int64_t)i, &film, &all[i], err);
    if (status == 0) status = film_write(&film, path, err);
    if (status == 0)
        sinks_notice(shell->sinks, "film of %zu token%s written to '%s'", film.frame_count,
                     film.frame_count == 1 ? "" : "s", path);
    film_release(&film);
    for (size_t i = 0; i < count; i++) results_release(&all[i]);
    for (size_t i = 0; i < answer->ids.count; i++) free(film.words[i]);
    free(film.words);
    free(all);
    return status;
}
