// core/positions/positions.c -- parses names of positions and finds their rows; parses lists of
// layers.
#include "core/positions/positions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/model/families/pooling.h"
#include "core/model/model.h"
#include "core/settings/settings.h"
#include "core/template/message.h"
#include "core/template/sequence.h"
#include "core/template/template.h"

const struct position_name position_names[] = {
    { "picture", "picture, picture:I, picture[X,Y,W,H]",
      "all visual tokens; those of picture I, counted from 0; those that a box touches, in pixels "
      "of the picture or, with %, in percent of its size",
      POSITION_PICTURE },
    { "object", "object NAME",
      "visual tokens that show the object: a box of that name in the last answer, or an object of "
      "--objects FILE",
      POSITION_OBJECT },
    { "system", "system", "the system message", POSITION_SYSTEM },
    { "question", "question", "the text of the last question", POSITION_QUESTION },
    { "last", "last", "the prompt's last position, which predicts the answer's first token",
      POSITION_LAST },
    { "answer", "answer", "last, and the tokens of the answer", POSITION_ANSWER },
    { "text", "text", "everything but visual tokens", POSITION_TEXT },
    { "sinks", "sinks", "attention sinks: tokens whose phi exceeds sinks.tau (/sinks)",
      POSITION_SINKS },
    { "all", "all", "every position", POSITION_ALL },
    { NULL, "N, N-M", "positions by number, counted from 0 (/tokenize shows them)",
      POSITION_NUMBERS },
    { 0 },
};

const char *const position_words[] = { "picture", "object", "system", "question", "last",
                                       "answer",  "text",   "sinks",  "all",      NULL };

// --- the parser ----------------------------------------------------------------------------------

static const char *skip_spaces(const char *p)
{
    return p + strspn(p, " \t");
}

// Reads "[X,Y,W,H]" after `picture`; returns the text after the box, or NULL if the box is
// malformed.
static const char *read_box(const char *p, struct position *to)
{
    for (int i = 0; i < 4; i++) {
        char *end;
        to->box[i] = strtod(p + 1, &end);
        if (end == p + 1 || !(fabs(to->box[i]) < 1e9)) return NULL;
        to->percent[i] = *end == '%';
        p = skip_spaces(end + to->percent[i]);
        if (*p != (i < 3 ? ',' : ']')) return NULL;
    }
    to->region = true;
    return to->box[2] > 0 && to->box[3] > 0 ? p + 1 : NULL;
}

static int read_picture(const char **p, struct position *to, struct err *err)
{
    to->picture = -1;
    if (**p == ':') {
        char *end;
        const long number = strtol(*p + 1, &end, 10);
        if (end == *p + 1 || number < 0 || number > INT32_MAX)
            return err_set(err, "'picture%s': write picture:0 for the first picture", *p);
        to->picture = (int)number;
        *p = end;
    }
    if (**p != '[') return 0;
    const char *end = read_box(*p, to);
    if (!end)
        return err_set(err,
                       "'picture%s': write a box as picture[X,Y,WIDTH,HEIGHT], in pixels of the "
                       "picture, or in percent, as picture[50%%,0,50%%,100%%]",
                       *p);
    *p = end;
    return 0;
}

static int read_numbers(const char **p, struct position *to, struct err *err)
{
    char *end;
    to->from = to->to = strtoll(*p, &end, 10);
    const char *from = *p;
    *p = skip_spaces(end);
    if (**p == '-') {
        const char *second = skip_spaces(*p + 1);
        to->to = strtoll(second, &end, 10);
        if (end == second) to->to = -1;
        *p = end;
    }
    return to->to >= to->from
               ? 0
               : err_set(err, "'%s': write positions as 7 or 3-9, counted from 0", from);
}

static int unknown_name(const char *text, struct err *err)
{
    struct buf all = { 0 };
    for (const struct position_name *n = position_names; n->form; n++)
        buf_printf(&all, "%s%s", all.length ? ", " : "", n->form);
    size_t length = strlen(text);
    while (length && (text[length - 1] == ' ' || text[length - 1] == '\t')) length--;
    err_set(err, "'%.*s' is not a position: use %s", (int)length, text, all.data);
    buf_release(&all);
    return -1;
}

// Reads the position at *p: a name and its arguments, or numbers.
static int read_one(const char **p, struct position *to, struct err *err)
{
    const char *begin = *p;
    const size_t length = strspn(begin, "abcdefghijklmnopqrstuvwxyz");
    if (strchr("0123456789", *begin) && *begin) {
        to->kind = POSITION_NUMBERS;
        return read_numbers(p, to, err);
    }
    const struct position_name *n = position_names;
    while (n->form &&
           (!n->name || strlen(n->name) != length || strncmp(n->name, begin, length) != 0))
        n++;
    if (!n->form) return unknown_name(begin, err);
    to->kind = n->kind;
    *p = begin + length;
    if (to->kind == POSITION_PICTURE) return read_picture(p, to, err);
    if (to->kind != POSITION_OBJECT) return 0;
    const char *name = skip_spaces(*p);
    size_t size = strcspn(name, ",");
    *p = name + size;
    while (size && strchr(" \t", name[size - 1])) size--;
    if (!size) return err_set(err, "write the object's name: object red circle");
    to->object = xstrndup(name, size);
    return 0;
}

int positions_parse(struct positions *p, const char *text, struct err *err)
{
    *p = (struct positions){ 0 };
    for (const char *at = skip_spaces(text);; at = skip_spaces(at + 1)) {
        const char *begin = at;
        p->list = xreallocarray(p->list, p->count + 1, sizeof *p->list);
        p->list[p->count] = (struct position){ 0 };
        struct position *one = &p->list[p->count++];
        if (read_one(&at, one, err) < 0) break;
        one->text = xstrndup(begin, (size_t)(at - begin));
        at = skip_spaces(at);
        if (!*at) return 0;
        if (*at != ',') {
            unknown_name(begin, err);
            break;
        }
    }
    positions_release(p);
    return -1;
}

void positions_release(struct positions *p)
{
    for (size_t i = 0; i < p->count; i++) {
        free(p->list[i].text);
        free(p->list[i].object);
    }
    free(p->list);
    *p = (struct positions){ 0 };
}

int positions_check(const char *text, struct err *err)
{
    struct positions p;
    const int status = positions_parse(&p, text, err);
    positions_release(&p);
    return status;
}

bool positions_split(const char *text, char **from, char **to)
{
    const char *arrow = strchr(text, '>');
    if (!arrow) return false;
    size_t n = (size_t)(arrow - text);
    while (n && (text[n - 1] == ' ' || text[n - 1] == '\t')) n--;
    *from = xstrndup(text, n);
    *to = xstrdup(arrow + 1 + strspn(arrow + 1, " \t"));
    return true;
}

// --- areas of pictures ---------------------------------------------------------------------------

static double overlap(double a0, double a1, double b0, double b1)
{
    return fmax(0, fmin(a1, b1) - fmax(a0, b0));
}

double positions_box_share(const double box[4], const double cell[4])
{
    return overlap(cell[0], cell[2], box[0], box[0] + box[2]) *
           overlap(cell[1], cell[3], box[1], box[1] + box[3]) /
           ((cell[2] - cell[0]) * (cell[3] - cell[1]));
}

double positions_mask_share(const struct image *mask, double width, double height,
                            const double cell[4])
{
    const double sx = (double)mask->width / width;
    const double sy = (double)mask->height / height;
    const int64_t x0 = (int64_t)fmax(floor(cell[0] * sx), 0),
                  y0 = (int64_t)fmax(floor(cell[1] * sy), 0);
    const int64_t x1 = (int64_t)fmin(ceil(cell[2] * sx), (double)mask->width);
    const int64_t y1 = (int64_t)fmin(ceil(cell[3] * sy), (double)mask->height);
    double covered = 0;
    for (int64_t y = y0; y < y1; y++)
        for (int64_t x = x0; x < x1; x++) {
            const uint8_t *c = mask->pixels + (y * mask->width + x) * mask->channels;
            const bool clear = mask->channels == 4 && c[3] < 128;
            if (clear || c[0] + c[1] + c[2] < 3 * 128) continue;
            covered += overlap((double)x, (double)x + 1, cell[0] * sx, cell[2] * sx) *
                       overlap((double)y, (double)y + 1, cell[1] * sy, cell[3] * sy);
        }
    return covered / ((cell[2] - cell[0]) * sx * (cell[3] - cell[1]) * sy);
}

// Marks the rows of a picture's tokens whose cells touch the mask or, if `mask` is NULL, the box.
static int mark_area(const struct positions_env *env, int picture, const double *box,
                     const struct image *mask, bool *rows, struct err *err)
{
    enum { TILES = 64 };
    static const double least = 1e-6; // smaller shares are rounding errors of cells beside the box
    const struct picture *p = &env->pictures[picture];
    const struct picture_kind *kind = env->model->family->pictures;
    struct picture_tile *tiles = xcalloc(TILES, sizeof *tiles);
    const int all = kind->tiles ? pooling_tiles(env->model, p->shape, tiles, TILES) : 0;
    int64_t *row = xreallocarray(NULL, (size_t)p->tokens + 1, sizeof *row); // [tokens] -1: no row
    for (int64_t i = 0; i < p->tokens; i++) row[i] = -1;
    for (int64_t i = 0; i < env->sequence->n; i++)
        if (env->sequence->picture[i] == picture && env->sequence->cell[i] < p->tokens)
            row[env->sequence->cell[i]] = i;
    for (int t = 0; t < all && t < TILES; t++) {
        const struct picture_tile *tile = &tiles[t];
        const double w = (tile->right - tile->left) / (double)tile->cols;
        const double h = (tile->bottom - tile->top) / (double)tile->rows;
        for (int64_t k = 0; k < tile->rows * tile->cols; k++) {
            const int64_t r = k / tile->cols, c = k % tile->cols;
            const int64_t token = tile->first + r * tile->pitch + c;
            const double cell[4] = { tile->left + (double)c * w, tile->top + (double)r * h,
                                     tile->left + (double)(c + 1) * w,
                                     tile->top + (double)(r + 1) * h };
            const double share = mask ? positions_mask_share(mask, (double)p->image.width,
                                                             (double)p->image.height, cell)
                                      : positions_box_share(box, cell);
            if (token >= 0 && token < p->tokens && row[token] >= 0 && share > least)
                rows[row[token]] = true;
        }
    }
    free(row);
    free(tiles);
    return all ? 0
               : err_set(err, "vlmsh cannot locate this model's visual tokens in the picture: use "
                              "picture or numbers");
}

// --- rows of each name ---------------------------------------------------------------------------

static int mark_picture(const struct position *p, const struct positions_env *env, bool *rows,
                        struct err *err)
{
    const struct sequence *s = env->sequence;
    int first = -1, last = -1;
    for (int64_t i = 0; i < s->n; i++) {
        if (s->picture[i] < 0 || (p->picture >= 0 && s->picture[i] != p->picture)) continue;
        if (first < 0) first = s->picture[i];
        last = s->picture[i];
        if (!p->region) rows[i] = true;
    }
    if (last < 0 && p->picture >= 0)
        return err_set(err, "the prompt has no picture %d: pictures count from 0 (/context)",
                       p->picture);
    if (last < 0 && !model_has_vision(env->model))
        return err_set(err, "the model '%s' is text-only: its prompts have no picture",
                       env->model->name);
    if (last < 0) return err_set(err, "the prompt has no picture: /image FILE, then ask");
    if (!p->region) return 0;
    if (first != last)
        return err_set(err, "the prompt has several pictures: say which one the box belongs to, as "
                            "picture:0[X,Y,W,H]");
    const struct image *image = &env->pictures[last].image;
    const double size[] = { (double)image->width, (double)image->height };
    double box[4];
    for (int i = 0; i < 4; i++) box[i] = p->percent[i] ? p->box[i] / 100 * size[i % 2] : p->box[i];
    return mark_area(env, last, box, NULL, rows, err);
}

static int mark_object(const struct position *p, const struct positions_env *env, bool *rows,
                       struct err *err)
{
    static const double all[4];
    struct image mask = { 0 };
    int picture = -1;
    if (!env->object) return err_set(err, "positions of objects are not available here");
    int status = env->object(env->self, p->object, &picture, &mask, err);
    if (status == 0) status = mark_area(env, picture, all, &mask, rows, err);
    image_release(&mask);
    return status;
}

// Marks the texts of the last message with this role.
static int mark_message(enum role role, const struct positions_env *env, bool *rows,
                        struct err *err)
{
    size_t last = env->message_count;
    while (last && env->messages[last - 1].role != role) last--;
    if (!last)
        return err_set(err, role == ROLE_SYSTEM
                                ? "the conversation has no system message: /system TEXT sets one"
                                : "the conversation has no question");
    for (size_t i = 0; i < env->text_count; i++)
        for (int64_t row = env->texts[i].first;
             env->texts[i].message == last - 1 && row < env->texts[i].end; row++)
            if (row < env->sequence->prompt && env->sequence->picture[row] < 0) rows[row] = true;
    return 0;
}

static int mark_range(int64_t from, int64_t end, bool *rows)
{
    for (int64_t i = from; i < end; i++) rows[i] = true;
    return 0;
}

static int mark(const struct position *p, const struct positions_env *env, bool *rows,
                struct err *err)
{
    const struct sequence *s = env->sequence;
    switch (p->kind) {
    case POSITION_PICTURE: return mark_picture(p, env, rows, err);
    case POSITION_OBJECT: return mark_object(p, env, rows, err);
    case POSITION_SYSTEM: return mark_message(ROLE_SYSTEM, env, rows, err);
    case POSITION_QUESTION: return mark_message(ROLE_USER, env, rows, err);
    case POSITION_LAST: return mark_range(s->prompt - 1, s->prompt, rows);
    case POSITION_ANSWER: return mark_range(s->prompt - 1, s->n, rows);
    case POSITION_TEXT:
        for (int64_t i = 0; i < s->n; i++) rows[i] |= s->picture[i] < 0;
        return 0;
    case POSITION_SINKS:
        return env->sinks ? env->sinks(env->self, rows, err)
                          : err_set(err, "attention sinks are not available here");
    case POSITION_ALL: return mark_range(0, s->n, rows);
    case POSITION_NUMBERS: break;
    }
    if (p->to < s->n) return mark_range(p->from, p->to + 1, rows);
    return err_set(err, "there is no position %lld: the sequence has positions 0 to %lld",
                   (long long)p->to, (long long)s->n - 1);
}

int64_t positions_rows(const struct positions *p, const struct positions_env *env, bool *rows,
                       struct err *err)
{
    const int64_t n = env->sequence->n;
    bool *one = xcalloc((size_t)n + 1, sizeof *one);
    int64_t count = 0;
    for (size_t k = 0; k < p->count && count >= 0; k++) {
        int64_t found = 0;
        memset(one, 0, (size_t)n * sizeof *one);
        if (mark(&p->list[k], env, one, err) < 0) {
            count = -1;
            break;
        }
        for (int64_t i = 0; i < n; i++) {
            found += one[i];
            count += one[i] && !rows[i];
            rows[i] |= one[i];
        }
        if (!found)
            count = err_set(err, "'%s' selects no position of this prompt", p->list[k].text);
    }
    free(one);
    return count;
}

// --- layers --------------------------------------------------------------------------------------

int positions_layers(const char *text, const char *name, int layers, bool *set, struct err *err)
{
    if (text && strcmp(text, "all") != 0)
        return list_numbers(text, name, layers, "model", "layer", set, err);
    for (int l = 0; l < layers; l++) set[l] = true;
    return layers;
}
