// commands/film.c -- a film of the last answer: a frame for each of its tokens.
#include "commands/film.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "commands/figure.h"
#include "core/base/file_out.h"
#include "core/base/pace.h"
#include "core/draw/figure.h"
#include "core/draw/film.h"
#include "core/probes/results.h"
#include "core/template/message.h"
#include "core/tokenizer/tokenizer.h"

int film_check(const char *value, struct err *err)
{
    const size_t n = strlen(value);
    if (n > 4 && !strcasecmp(value + n - 4, ".gif")) return file_out_check(value, err);
    return err_set(err, "cannot write '%s': the name of a film ends in .gif", value);
}

static const struct message *last_answer(const struct engine *e)
{
    const struct engine_talk c = engine_talk(e);
    for (size_t i = c.message_count; i-- > 0;) {
        const struct message *m = c.messages + i;
        if (m->generated && m->ids.count) return m;
    }
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

// The maps of a token, of all that were measured.
static int add_token(const struct shell *shell, const struct results *r, size_t token,
                     struct film *film, struct err *err)
{
    const struct engine_talk c = engine_talk(shell->engine);
    struct event_heatmap *maps = xreallocarray(NULL, r->map_count + 1, sizeof *maps);
    size_t count = 0;
    for (size_t i = 0; i < r->map_count; i++) {
        const int picture = r->maps[i].picture;
        if (r->maps[i].token != (int)token) continue;
        maps[count] = results_heatmap(&r->maps[i]);
        if (picture >= 0 && (size_t)picture < c.picture_count)
            maps[count].image = &c.pictures[picture].image;
        count++;
    }
    const int status = count ? film_add(film, token, maps, count, err) : 0;
    free(maps);
    return status;
}

// The film's maps are those of *r.
static int add_tokens(const struct shell *shell, const struct measure_request *request,
                      size_t count, struct film *film, struct results *r, struct err *err)
{
    struct measure_request each = *request;
    each.options.token = PROBE_TOKEN_EACH;
    int status = engine_measure(shell->engine, &each, r, err);
    for (size_t i = 0; i < count && status == 0; i++) status = add_token(shell, r, i, film, err);
    if (status == 0 && !film->frame_count)
        status = err_set(err, "the tokens of this answer have no maps to film");
    return status;
}

static int draw_frames(const struct shell *shell, struct film *film, struct err *err)
{
    const double count = (double)film->frame_count;
    struct pace pace = pace_from(0);
    for (size_t i = 0; i < film->frame_count; i++) {
        sinks_progress(shell->sinks, &pace, "drawing", (double)i, count);
        if (engine_cancelled(shell->engine)) return err_set(err, "stopped");
        if (film_draw(film, i, err) < 0) return -1;
    }
    sinks_progress(shell->sinks, &pace, "drawing", count, count);
    return film_close(film, err);
}

static void say_written(const struct shell *shell, size_t count, const char *path)
{
    char *said = xasprintf("film of %zu token%s", count, count == 1 ? "" : "s");
    sinks_written(shell->sinks, "film", path, said);
    figure_check_font(shell);
    free(said);
}

int film_of_answer(const struct shell *shell, const struct measure_request *request,
                   const char *path, struct err *err)
{
    const struct message *answer = last_answer(shell->engine);
    if (!answer) return err_set(err, "a film shows the tokens of an answer: ask a question first");
    const size_t count = answer->ids.count < FILM_FRAMES ? answer->ids.count : FILM_FRAMES;
    const struct figure_look look = figure_look(engine_settings(shell->engine));
    char **words = split_words(engine_tokenizer(shell->engine), &answer->ids);
    struct film film = { .look = &look, .words = words, .count = answer->ids.count };
    struct results r = { 0 };
    int status = film_open(&film, path, err);
    if (status == 0) status = add_tokens(shell, request, count, &film, &r, err);
    if (status == 0) status = draw_frames(shell, &film, err);
    if (status == 0) say_written(shell, film.frame_count, path);
    film_release(&film);
    results_release(&r);
    for (size_t i = 0; i < answer->ids.count; i++) free(words[i]);
    free(words);
    return status;
}
