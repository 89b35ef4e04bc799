// commands/probe.c -- the measuring commands: one for each probe.
//
// A probe (core/probes/probe.h) measures forward passes over the current conversation, or over each
// sample of a data set, under the current settings or under several conditions. Some probes measure
// a folder instead. The tables and maps are shown, stored in the session database and, on request,
// written to files.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "commands/command.h"
#include "commands/figure.h"
#include "core/base/file_in.h"
#include "core/base/file_out.h"
#include "core/base/json.h"
#include "core/base/pace.h"
#include "core/base/text.h"
#include "core/draw/figure.h"
#include "core/draw/film.h"
#include "core/engine/presets.h"
#include "core/eval/conditions.h"
#include "core/picture/image.h"
#include "core/positions/positions.h"
#include "core/probes/measure_data.h"
#include "core/template/message.h"
#include "core/tokenizer/tokenizer.h"

enum { WORDS_MAX = 256 };

struct measurement {
    struct measure_request request;
    const char *csv, *figure, *film, *mask, *folder, *run;
    const char *words[WORDS_MAX]; // of the conditions
    size_t word_count;
    struct names models, seeds;
    bool several;           // measures conditions
    struct score_plan rows; // the conditions
    double box[4];
    struct image mask_image;
    struct buf names; // positional words of the probe
};

// --- a film of the last answer: a frame for each of its first FILM_FRAMES tokens -----------------

static int film_check(const char *value, struct err *err)
{
    const size_t n = strlen(value);
    if (n > 4 && !strcasecmp(value + n - 4, ".gif")) return file_out_check(value, err);
    return err_set(err, "cannot write '%s': the name of a film ends in .gif", value);
}

// Returns the text of each token; a character that spans several tokens belongs to the last of
// them.
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

// Adds the maps of one token to the film.
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

// Measures all tokens and adds the maps of the first `count` to the film, which borrows them from
// *r.
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

static int film_of_answer(const struct shell *shell, const struct measure_request *request,
                          const char *path, struct err *err)
{
    const struct engine_talk c = engine_talk(shell->engine);
    const struct message *answer = NULL;
    for (size_t i = c.message_count; i-- > 0 && !answer;)
        if (c.messages[i].generated && c.messages[i].ids.count) answer = &c.messages[i];
    if (!answer) return err_set(err, "a film shows the tokens of an answer: ask a question first");
    const size_t count = answer->ids.count < FILM_FRAMES ? answer->ids.count : FILM_FRAMES;
    const struct figure_look look = figure_look(engine_settings(shell->engine));
    char **words = split_words(engine_tokenizer(shell->engine), &answer->ids);
    struct film film = { .look = &look, .words = words, .count = answer->ids.count };
    struct results r = { 0 };
    int status = film_open(&film, path, err);
    if (status == 0) status = add_tokens(shell, request, count, &film, &r, err);
    const double frames = (double)film.frame_count;
    struct pace pace = pace_from(0);
    for (size_t i = 0; i < film.frame_count && status == 0; i++) {
        sinks_progress(shell->sinks, &pace, "drawing", (double)i, frames);
        status =
            engine_cancelled(shell->engine) ? err_set(err, "stopped") : film_draw(&film, i, err);
    }
    if (status == 0) {
        sinks_progress(shell->sinks, &pace, "drawing", frames, frames);
        status = film_close(&film, err);
    }
    if (status == 0) {
        char *what =
            xasprintf("film of %zu token%s", film.frame_count, film.frame_count == 1 ? "" : "s");
        sinks_written(shell->sinks, "film", path, what);
        figure_check_font(shell);
        free(what);
    }
    film_release(&film);
    results_release(&r);
    for (size_t i = 0; i < answer->ids.count; i++) free(words[i]);
    free(words);
    return status;
}

// --- options -------------------------------------------------------------------------------------

static int take_layer(void *self, const char *value, struct err *err)
{
    struct measurement *w = self;
    int64_t n = PROBE_LAYER_ALL;
    if (strcmp(value, "all") != 0 && option_integer(value, 0, 100000, &n, "--layer", err) < 0)
        return err_set(err, "--layer takes a layer, counted from 0, or all, not '%s'", value);
    w->request.options.layer = (int)n;
    return 0;
}

static int take_head(void *self, const char *value, struct err *err)
{
    struct measurement *w = self;
    int64_t n = strcmp(value, "each") ? PROBE_HEAD_MEAN : PROBE_HEAD_EACH;
    if (strcmp(value, "mean") != 0 && n != PROBE_HEAD_EACH &&
        option_integer(value, 0, 100000, &n, "--head", err) < 0)
        return err_set(
            err,
            "--head takes one head, counted from 0, mean (the average over all heads) "
            "or, in /attention, each, not '%s'; /info shows how many heads the model has",
            value);
    w->request.options.head = (int)n;
    return 0;
}

static int take_token(void *self, const char *value, struct err *err)
{
    struct measurement *w = self;
    struct probe_options *o = &w->request.options;
    const bool row = !strncmp(value, "row:", 4);
    int64_t n;
    if (!strcmp(value, "answer")) {
        o->token = PROBE_TOKEN_ANSWER;
    } else if (!strcmp(value, "each")) {
        o->token = PROBE_TOKEN_EACH;
    } else if (!strcmp(value, "last")) {
        o->token = PROBE_TOKEN_LAST;
    } else {
        if (option_integer(row ? value + 4 : value, 0, INT32_MAX, &n, "--token", err) < 0)
            return err_set(err,
                           "--token takes answer, each, last, row:N or the number of an answer "
                           "token, counted from 0, not '%s'",
                           value);
        o->token = row ? PROBE_TOKEN_ROW : PROBE_TOKEN_NUMBER;
        o->number = n;
    }
    return 0;
}

static int take_dims(void *self, const char *value, struct err *err)
{
    struct measurement *w = self;
    struct probe_options *o = &w->request.options;
    o->dim_count = 0;
    for (const char *p = value; *p; p += *p == ',') {
        char *end;
        const long n = strtol(p, &end, 10);
        if (end == p || (*end && *end != ',') || n < 0 || n > INT32_MAX ||
            o->dim_count == PROBE_DIMS)
            return err_set(err, "--dims takes up to %d dimensions separated by commas, not '%s'",
                           PROBE_DIMS, value);
        o->dims[o->dim_count++] = (int)n;
        p = end;
    }
    return o->dim_count ? 0 : err_set(err, "--dims is empty");
}

static int take_box(void *self, const char *value, struct err *err)
{
    struct measurement *w = self;
    const char *p = value;
    bool good = true;
    for (int i = 0; i < 4 && good; i++) {
        char *end;
        w->box[i] = strtod(p, &end);
        good = end != p && *end == (i < 3 ? ',' : 0) && fabs(w->box[i]) < 1e9;
        p = end + 1;
    }
    if (!good || !(w->box[2] > 0 && w->box[3] > 0))
        return err_set(err, "--box needs LEFT,TOP,WIDTH,HEIGHT in pixels, not '%s'", value);
    w->request.options.box = w->box;
    return 0;
}

static int take_word(void *self, const char *value, struct err *err)
{
    struct measurement *w = self;
    const bool first = !w->word_count && w->request.probe->words;
    if (first && !strpbrk(value, "=@") && strcmp(value, "off") != 0 && strcmp(value, "now") != 0 &&
        !text_ends(value, ":")) {
        buf_printf(&w->names, "%s%s", w->names.length ? " " : "", value);
        return 0;
    }
    if (w->word_count == WORDS_MAX) return err_set(err, "too many settings: at most %d", WORDS_MAX);
    w->words[w->word_count++] = value;
    return 0;
}

#define AT(field) .at = offsetof(struct measurement, field)
static const struct option_row rows[] = {
    { "SETTINGS | SETTINGS...", NULL,
      "measures under several conditions, side by side. A condition is KEY=VALUE ..., @PRESET, off "
      "(every method off), now (the current settings), model=FOLDER, or the folder of an adapter "
      "or model; a prefix NAME: labels the condition. With --data also shows paired differences "
      "from the first",
      .take = take_word, .optional = true, .many = true },
    { "--model", "M,...", "measures with each of these models, under each of the conditions",
      OPTION_NAMES, AT(models) },
    { "--checkpoints", "RUN",
      "measures the model before the training run RUN (step 0; left out if a setting needs trained "
      "parameters) and at each checkpoint whose weights were kept (train.keep)",
      OPTION_TEXT, AT(run) },
    { "--seeds", "N,...",
      "repeats each condition that has {seed} in a setting once per seed; shows means, with "
      "intervals over the seeds",
      OPTION_NAMES, AT(seeds) },
    { "--layers", "A-B", "only these layers: a list such as 3,8-15, or all (default)", OPTION_TEXT,
      AT(request.options.layers) },
    { "--window", "N", "layers in a window (default: a fifth of all)", OPTION_INT,
      AT(request.options.window), 1, 100000 },
    { "--window", "SIDE", "side of the occluded square of visual tokens (default 1)", OPTION_INT,
      AT(request.options.window), 1, 100000 },
    { "--by", "KIND,...",
      "kinds of attribution, or all (default: gradient in /attribute, all in /faithful)",
      OPTION_TEXT, AT(request.options.by) },
    { "--steps", "N", "maximum number of points on the path of integrated gradients (default 33)",
      OPTION_INT, AT(request.options.steps), 3, 1000 },
    { "--others", "DIR",
      "also measures up to 8 pictures of this folder in place of the picture, and subtracts their "
      "mean map from the picture's; /faithful also exchanges regions with them",
      OPTION_TEXT, AT(request.options.others) },
    { "--samples", "N", "number of answers to sample (default 5)", OPTION_INT,
      AT(request.options.samples), 1, 1000 },
    { "--temperature", "T",
      "sampling temperature of these answers (default: sample.temperature, or 1 if that is 0)",
      OPTION_REAL, AT(request.options.temperature), 0, 100 },
    { "--word", "TEXT", "shows the probability of this word's first token", OPTION_TEXT,
      AT(request.options.word) },
    { "--at", "residual|attention|ffn|head|value", "part of a layer to patch (default: residual)",
      OPTION_TEXT, AT(request.options.at) },
    { "--tokens", NULL, "also measures each position by itself, as a map", OPTION_FLAG,
      AT(request.options.tokens) },
    { "--zero", NULL, "uses zeros as the replacement; the default of /ablate", OPTION_FLAG,
      AT(request.options.zero) },
    { "--mean", NULL,
      "uses the mean over the visual or text positions of the pass as the replacement; the default "
      "of /attribute and /faithful",
      OPTION_FLAG, AT(request.options.mean) },
    { "--resample", NULL,
      "replaces outputs with outputs of other visual or text positions, drawn with a fixed seed",
      OPTION_FLAG, AT(request.options.resample) },
    { "--tuned", NULL,
      "first maps each layer's output to the last layer's, by the tuned lens in lens.calibration "
      "(/calibrate lens)",
      OPTION_FLAG, AT(request.options.tuned) },
    { "--nearest", NULL,
      "shows for each visual token the word of the conversation with the most similar state in the "
      "same layer (highest cosine)",
      OPTION_FLAG, AT(request.options.nearest) },
    { "--corpus", "FILE",
      "with --nearest: the most similar token of a text file with one text per line, read by the "
      "model with every method off",
      OPTION_TEXT, AT(request.options.corpus) },
    { "--heads", NULL, "also measures each head by itself, as a map of layers by heads",
      OPTION_FLAG, AT(request.options.heads) },
    { "--layer", "K", "layer to measure, counted from 0", .take = take_layer },
    { "--layer", "K|all", "layer to measure, counted from 0, or all layers", .take = take_layer },
    { "--head", "H|mean|each",
      "attention head, counted from 0; mean (default) averages all heads; each, in /attention "
      "only, shows every head, with its map",
      .take = take_head },
    { "--token", "answer|each|last|N|row:N",
      "query token: answer (mean over the answer's tokens), each (one map per token of the "
      "answer), last (the prompt's last), N (token N of the answer, counted from 0) or row:N (row "
      "N of the sequence)",
      .take = take_token },
    { "--token", "answer|N",
      "part of the answer to predict: answer (all tokens) or N (token N, counted from 0)",
      .take = take_token },
    { "--picture", "I", "picture to measure, counted from 0", OPTION_INT,
      AT(request.options.picture), 0, 100000 },
    { "--threshold", "X", "attention above which a layer has a sink (default 0.15)", OPTION_REAL,
      AT(request.options.threshold), 0, 1 },
    { "--dims", "K,K",
      "sink dimensions (default: those in sinks.calibration, or else the two largest of the first "
      "token)",
      .take = take_dims },
    { "--box", "LEFT,TOP,WIDTH,HEIGHT", "box of the object, in pixels of the picture",
      .take = take_box },
    { "--mask", "FILE", "mask: an image that is bright on the object", OPTION_TEXT, AT(mask) },
    { "--data", "FILE",
      "measures the samples of a data set instead of the conversation and shows means, with "
      "standard deviations in tables NAME.std",
      OPTION_TEXT, AT(request.set.data) },
    SET_SOURCE_OPTIONS(struct measurement, request.set,
                       "with --data: treats FILE as the downloaded files of an evaluation set "
                       "(/help sets) and uses its prompt and scoring rule"),
    { "--images", "DIR", "base folder for relative picture paths (default: the folder of the data)",
      OPTION_TEXT, AT(request.set.images) },
    { "--objects", "FILE",
      "annotations of the data set's pictures or, except in /dice and /faithful, of the "
      "conversation's, in the format of objects.jsonl (/scenes), of COCO's instances or of "
      "RefCOCO's rows as JSON",
      OPTION_TEXT, AT(request.objects) },
    { "--boxes", NULL, "with --objects: uses the boxes of objects even if they have masks",
      OPTION_FLAG, AT(request.boxes) },
    { "--limit", "N", "with --data: measures at most N samples (default 100)", OPTION_WHOLE,
      AT(request.limit), 1, INT32_MAX },
    { "--given", NULL,
      "with --data: uses the reference answers (default: generates answers if the command measures "
      "them, otherwise uses none)",
      OPTION_FLAG, AT(request.given) },
    { "--csv", "FILE",
      "writes the table; if there are several, writes a file for each, such as x-norms.layers.csv "
      "for x.csv, and the maps to x-maps.csv",
      OPTION_TEXT, AT(csv), .check = file_out_check },
    { "--figure", "FILE",
      "draws a PNG, SVG or PDF, by extension; further figures get the name of their table, such as "
      "x-norms.layers.png for x.png",
      OPTION_TEXT, AT(figure), .check = figure_check },
    { "--png", "FILE", NULL, OPTION_TEXT, AT(figure), .check = figure_check, .former = true },
    { "--pixels", NULL, NULL, OPTION_FLAG, AT(request.options.pixels), .former = true },
    { "--film", "FILE.gif", "animates the maps: a frame for each token of the answer", OPTION_TEXT,
      AT(film), .check = film_check },
    { 0 },
};
#undef AT

// Adds a word of a condition; replaces a user's preset with its values.
static int add_word(const struct shell *shell, struct buf *b, const char *word, struct err *err)
{
    struct preset_values v = { 0 };
    char *copy = xstrdup(word);
    int status = 0;
    const bool own = *word == '@' && !preset_find(word + 1);
    if (own && preset_words(shell, 1, &copy, &v, err) < 0) status = -1;
    for (size_t i = 0; i < v.count; i++)
        buf_printf(b, " \"%s=%s\"", v.list[i].key, v.list[i].value);
    if (!own) buf_printf(b, strchr(word, ' ') ? " \"%s\"" : " %s", word);
    if (status == 0 && strchr(word, '"')) status = err_set(err, "a setting cannot contain '\"'");
    preset_values_release(&v);
    free(copy);
    return status;
}

// Makes conditions from the words: "[NAME:] SETTINGS | ...", or, without "|", several folders. A
// folder alone becomes w->folder if the probe reads folders.
static int read_conditions(const struct shell *shell, struct measurement *w, struct err *err)
{
    char **texts = xcalloc(w->word_count + 1, sizeof *texts);
    size_t count = 0;
    struct buf b = { 0 };
    bool folders = true;
    int status = 0;
    for (size_t i = 0; i < w->word_count; i++)
        folders = folders && !strpbrk(w->words[i], "=@|:") && strcmp(w->words[i], "off") != 0;
    if (w->request.probe->folder && w->word_count == 1 && folders &&
        strcmp(w->words[0], "now") != 0)
        w->folder = w->words[0];
    w->several = !w->folder && (w->word_count || w->models.count || w->run || w->seeds.count);
    for (size_t i = 0; i < w->word_count && status == 0 && !w->folder; i++) {
        const char *word = w->words[i];
        const bool last = i + 1 == w->word_count, bar = !strcmp(word, "|");
        if (!bar && !b.length && text_ends(word, ":"))
            buf_puts(&b, word);
        else if (!bar)
            status = add_word(shell, &b, word, err);
        if (!bar && !last && !folders) continue;
        if (!b.length || (bar && last))
            status = err_set(err, "a condition is empty: write 'now' for the settings as they are");
        if (b.length) texts[count++] = buf_take(&b);
    }
    if (status == 0 && w->several)
        status = score_plan_of_rows(&w->rows, (const char *const *)texts, count, &w->models, w->run,
                                    &w->seeds, err);
    for (size_t i = 0; i < count; i++) free(texts[i]);
    free(texts);
    buf_release(&b);
    return status;
}

// Returns 0 if the outputs may be written; a refusal after the measurement would lose its results.
static int check_outputs(const struct measurement *w, struct err *err)
{
    const struct probe *probe = w->request.probe;
    bool maps = false;
    for (const struct result_kind *k = probe->results; k && k->name; k++) maps |= k->map;
    if (w->csv && !*w->csv) return err_set(err, "the name of the CSV file is empty");
    if (w->csv && (results_check(w->csv, ".csv", probe->name, err) < 0 ||
                   (maps && results_check(w->csv, ".csv", "maps", err) < 0)))
        return -1;
    const char *ending = w->figure ? strrchr(w->figure, '.') : NULL;
    return ending ? results_check(w->figure, ending, probe->name, err) : 0;
}

static int read_request(const struct shell *shell, struct measurement *w,
                        const struct option_row *options, int argc, char **argv, struct err *err)
{
    w->request.options = probe_defaults;
    if (options_parse(options, w, argc, argv, err) < 0) return -1;
    if (read_conditions(shell, w, err) < 0) return -1;
    if (w->several && w->film)
        return err_set(err, "--film shows one condition: give it without other settings");
    if (set_source_find(&w->request.set, err) < 0) return -1;
    const struct probe *probe = w->request.probe;
    if (probe->words && probe->words(w->names.data ? w->names.data : "", err) < 0) return -1;
    w->request.options.words = w->names.data;
    const struct probe_options *o = &w->request.options;
    if (o->zero + o->mean + o->resample > 1)
        return err_set(err, "give one of --zero, --mean and --resample");
    if (w->mask && w->request.options.box) return err_set(err, "give either --box or --mask");
    if (w->folder && w->request.set.data)
        return err_set(err, "give either '%s' or --data", w->folder);
    if (w->film && w->request.set.data)
        return err_set(err, "--film shows the answer of the conversation: give it without --data");
    if (w->request.set.data && w->request.options.token == PROBE_TOKEN_EACH)
        return err_set(err, "--token each shows the answer of the conversation: give it without "
                            "--data");
    if (w->request.set.data && probe->numbered && w->names.length)
        return err_set(err,
                       "'%s' is the number of an answer of the conversation: give it without "
                       "--data",
                       w->names.data);
    if (w->request.set.data) {
        if (w->request.objects && (w->mask || w->request.options.box))
            return err_set(err, "--objects cannot be combined with --box or --mask");
    } else if (w->request.set.images || (w->request.objects && !probe->words) || w->request.limit ||
               w->request.given) {
        return err_set(err, "--images, --objects, --limit and --given need --data FILE");
    }
    if (check_outputs(w, err) < 0) return -1;
    if (!w->request.limit) w->request.limit = 100;
    if (w->request.boxes && !w->request.objects)
        return err_set(err, "--boxes needs --objects FILE");
    if (!w->mask) return 0;
    size_t size;
    char *bytes = file_read(w->mask, IMAGE_MAX_FILE, &size, err);
    const int status = bytes ? image_decode(&w->mask_image, bytes, size, w->mask, err) : -1;
    free(bytes);
    w->request.options.mask = &w->mask_image;
    return status;
}

// --- output --------------------------------------------------------------------------------------

static struct event_heatmap shown_map(const struct shell *shell, const struct measurement *w,
                                      const struct results *r, const struct result_map *m)
{
    const struct engine_talk c = engine_talk(shell->engine);
    struct event_heatmap e = results_heatmap(m);
    e.condition = results_condition(r, m->condition);
    if (!w->request.set.data && m->picture >= 0 && (size_t)m->picture < c.picture_count)
        e.image = &c.pictures[m->picture].image;
    return e;
}

static bool same_map(const struct event_heatmap *a, const struct event_heatmap *b)
{
    return !strcmp(a->name, b->name) && a->picture == b->picture && a->layer == b->layer &&
           a->head == b->head && a->token == b->token &&
           (a->tile && b->tile ? !strcmp(a->tile, b->tile) : a->tile == b->tile);
}

// Gives one scale to maps that differ only in the condition, so that they can be compared.
static void share_scales(struct event_heatmap *maps, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < count && maps[i].condition; k++) {
            if (!same_map(&maps[i], &maps[k])) continue;
            maps[i].min = fminf(maps[i].min, maps[k].min);
            maps[i].max = fmaxf(maps[i].max, maps[k].max);
        }
}

static int write_figures(const struct shell *shell, const struct measurement *w,
                         const struct results *r, struct err *err)
{
    struct event_heatmap *maps = xreallocarray(NULL, r->map_count + 1, sizeof *maps);
    for (size_t i = 0; i < r->map_count; i++) maps[i] = shown_map(shell, w, r, &r->maps[i]);
    share_scales(maps, r->map_count);
    const int status = figure_results(shell, w->figure, r, maps, err);
    free(maps);
    return status;
}

static void show(const struct shell *shell, const struct measurement *w, const struct results *r)
{
    results_show_tables(r, shell->sinks);
    for (size_t i = 0; i < r->map_count; i++) {
        const struct event_heatmap map = shown_map(shell, w, r, &r->maps[i]);
        sinks_emit(shell->sinks, &(struct event){ .kind = EVENT_HEATMAP, .heatmap = &map });
    }
    results_show_notes(r, shell->sinks);
}

// Returns a word of the command line as the session keeps it: the path of an existing file becomes
// absolute (if `path`, or if it has a slash or dot), even in KEY=PATH, because a session may be
// exported from another folder.
static char *kept_word(const char *word, bool path)
{
    const char *equals = strchr(word, '=');
    if (equals && !path) {
        char *key = xstrndup(word, (size_t)(equals - word));
        char *folder = strcmp(key, "model") ? NULL : realpath(equals + 1, NULL);
        char *value = folder ? folder : settings_stored(key, equals + 1);
        char *kept = xasprintf("%s=%s", key, value);
        free(key);
        free(value);
        return kept;
    }
    char *whole = path || strchr(word, '/') || strchr(word, '.') ? realpath(word, NULL) : NULL;
    return whole ? whole : xstrdup(word);
}

char *shell_kept_words(const struct shell *shell, int argc, char **argv)
{
    static const char *const outputs[] = { "--csv", "--figure", "--png", "--film", NULL };
    static const char *const inputs[] = { "--data",  "--images", "--objects",     "--corpus",
                                          "--mask",  "--others", "--checkpoints", "--plus",
                                          "--minus", NULL };
    if (!shell->typed) return NULL;
    cJSON *list = cJSON_CreateArray();
    cJSON_AddItemToArray(list, cJSON_CreateString(shell->running->name));
    for (int i = 0; i < argc; i++) {
        // Both spellings of an input become two words: --data FILE and --data=FILE.
        const char *equals = strchr(argv[i], '=');
        char *name = xstrndup(argv[i], equals ? (size_t)(equals - argv[i]) : strlen(argv[i]));
        const bool output = text_listed(outputs, name), input = text_listed(inputs, name);
        if ((output || input) && !equals) i++;
        const char *value = equals ? equals + 1 : i < argc ? argv[i] : "";
        if (input) cJSON_AddItemToArray(list, cJSON_CreateString(name));
        if (!output) {
            char *word = input ? kept_word(value, true) : kept_word(argv[i], false);
            cJSON_AddItemToArray(list, cJSON_CreateString(word));
            free(word);
        }
        free(name);
    }
    char *json = json_print(list);
    cJSON_Delete(list);
    return json;
}

static int give(const struct shell *shell, const struct measurement *w, const struct results *r,
                const char *words, struct err *err)
{
    show(shell, w, r);
    results_emit(r, w->request.probe->name, words, false, shell->sinks);
    if (w->csv && results_write_csv(r, w->csv, shell->sinks, err) < 0) return -1;
    if (w->figure && write_figures(shell, w, r, err) < 0) return -1;
    return w->film ? film_of_answer(shell, &w->request, w->film, err) : 0;
}

static int run(struct shell *shell, int argc, char **argv, struct err *err)
{
    const struct probe *probe = shell->running->probe;
    struct measurement w = { .request.probe = probe };
    struct results r = { 0 };
    char *words = shell_kept_words(shell, argc, argv);
    int status = read_request(shell, &w, shell->running->options, argc, argv, err);
    if (status == 0 && w.folder) {
        const struct engine_talk c = engine_talk(shell->engine);
        status =
            probe->folder(w.folder, engine_backend(shell->engine), engine_settings(shell->engine),
                          c.pictures, c.picture_count, &r, err);
    } else if (status == 0) {
        status = command_check_needs(shell, NEEDS_MODEL, err);
        if (status == 0)
            status = w.several ? conditions_measure(shell->engine, &w.rows, &w.request, &r, err)
                               : engine_measure(shell->engine, &w.request, &r, err);
    }
    if (status == 0) results_conclude(&r);
    if (status == 0) status = give(shell, &w, &r, words, err);
    free(words);
    results_release(&r);
    image_release(&w.mask_image);
    buf_release(&w.names);
    set_source_release(&w.request.set);
    names_release(&w.models);
    names_release(&w.seeds);
    score_plan_release(&w.rows);
    return status;
}

// Returns whether the usage names the option. If several rows share the name, the argument in the
// usage chooses the row.
static bool names_option(const char *usage, const struct option_row *option)
{
    bool several = false;
    for (const struct option_row *row = rows; row->name; row++)
        several |= row != option && !strcmp(row->name, option->name);
    char *text =
        several ? xasprintf("%s %s]", option->name, option->argument) : xstrdup(option->name);
    const char *found = strstr(usage, text);
    while (found && !several && !strchr(" ]", found[strlen(text)])) found = strstr(found + 1, text);
    free(text);
    return found;
}

// Returns the positional argument, the options that the probe's usage names, and its former
// options. The list is never freed, like the table of commands.
static const struct option_row *options_of(const struct probe *probe)
{
    static const char former[] = "--png"; // of all probes
    struct option_row *options = xcalloc(sizeof rows / sizeof *rows, sizeof *options),
                      *to = options;
    for (const struct option_row *row = rows; row->name; row++) {
        const bool known = row->former ? names_option(former, row) ||
                                             (probe->former && names_option(probe->former, row))
                                       : names_option(probe->usage, row);
        if (known || row == rows) *to++ = *row;
    }
    return options;
}

struct command probe_command(const struct probe *probe)
{
    return (struct command){ .name = probe->name,
                             .also = probe->also,
                             .usage = probe->usage,
                             .help = probe->help,
                             .details = probe->details,
                             .options = options_of(probe),
                             .writes = true,
                             .complete = probe->words ? COMPLETE_POSITIONS : COMPLETE_PATH,
                             .words = probe->complete ? probe->complete
                                      : probe->words  ? position_words
                                                      : NULL,
                             .question = probe->words, // as in "/patch question TEXT"
                             .run = run,
                             .probe = probe };
}
