// core/picture/boxes.c -- finds boxes and points in an answer and maps them to the picture.
//
// Sources of the forms: LLaVA's issue 606 (shares of the padded square), the model cards and
// cookbooks of Qwen-VL, Qwen2-VL, Qwen2.5-VL and Qwen3-VL, InternVL's evaluate_grounding.py,
// GLM-V's README, CogVLM's README, big_vision's PaliGemma (<loc>, vertical first), Molmo's model
// card, Kimi-VL's issues 52 and 56. LLaVA-NeXT and LLaVA-OneVision: docs/chat.md.
#include "core/picture/boxes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/mem.h"
#include "core/base/regex.h"
#include "core/picture/preprocess.h"

#define PLAIN_BOX   "LABEL: [X1, Y1, X2, Y2]"
#define MOLMO_POINT "<point x=\"X1\" y=\"Y1\" alt=\"LABEL\">LABEL</point>"
#define JSON_BOX    "{\"bbox_2d\": [X1, Y1, X2, Y2], \"label\": \"LABEL\"}"
#define JSON_POINT  "{\"point_2d\": [X1, Y1], \"label\": \"LABEL\"}"
#define QWEN_BOX                                                       \
    "<|object_ref_start|>LABEL<|object_ref_end|><|box_start|>(X1,Y1)," \
    "(X2,Y2)<|box_end|>"

// clang-format off
#define STYLES(X)                                                                                  \
    X("llava", BOX_SEEN, 3, PLAIN_BOX, NULL, "LLaVA-1.5")                                          \
    X("llava-next", BOX_PADDED, 3, PLAIN_BOX, NULL, "LLaVA-NeXT, LLaVA-OneVision")                 \
    X("qwen2.5-vl", BOX_RESIZED, 0, JSON_BOX, JSON_POINT, "Qwen2.5-VL")                            \
    X("internvl", BOX_THOUSANDTHS, 0, "<ref>LABEL</ref><box>[[X1, Y1, X2, Y2]]</box>", NULL,       \
      "InternVL2 to 3.5")                                                                          \
    X("glm-4.1v", BOX_THOUSANDTHS, 0, "<|begin_of_box|>[X1,Y1,X2,Y2]<|end_of_box|>", NULL,         \
      "GLM-4.1V, GLM-4.5V")                                                                        \
    X("kimi-vl", BOX_SHARES, 3, PLAIN_BOX, NULL, "Kimi-VL")                                        \
    X("qwen-vl", BOX_999, 0, "<ref>LABEL</ref><box>(X1,Y1),(X2,Y2)</box>", NULL, "Qwen-VL")        \
    X("qwen2-vl", BOX_THOUSANDTHS, 0, QWEN_BOX, NULL, "Qwen2-VL")                                  \
    X("qwen3-vl", BOX_THOUSANDTHS, 0, JSON_BOX, JSON_POINT, "Qwen3-VL")                            \
    X("cogvlm", BOX_THOUSANDTHS, 0, "LABEL: [[X1,Y1,X2,Y2]]", NULL, "CogVLM")                      \
    X("paligemma", BOX_BINS, 0, "<locY1><locX1><locY2><locX2> LABEL", NULL, "PaliGemma")           \
    X("molmo", BOX_PERCENT, 1, NULL, MOLMO_POINT, "Molmo")                                         \
    X("shares", BOX_SHARES, 3, PLAIN_BOX, JSON_POINT, "")                                          \
    X("thousandths", BOX_THOUSANDTHS, 0, JSON_BOX, JSON_POINT, "")                                 \
    X("pixels", BOX_PIXELS, 0, JSON_BOX, JSON_POINT, "")                                           \
    X("guess", BOX_GUESS, 3, JSON_BOX, JSON_POINT, "")
// clang-format on

#define X(name, ...) { name, __VA_ARGS__ },
const struct box_style box_styles[] = { STYLES(X){ 0 } };
#undef X
#define X(name, ...) name,
const char *const box_choices[] = { "auto", STYLES(X) NULL };
#undef X

const struct box_style *box_style_named(const char *name)
{
    for (const struct box_style *s = box_styles; s->name; s++)
        if (!strcmp(s->name, name)) return s;
    return NULL;
}

const char *box_unit_text(enum box_unit unit)
{
    static const char *const texts[] = {
        [BOX_GUESS] = "shares up to 1.5, thousandths up to 1000, else pixels",
        [BOX_SHARES] = "0 to 1 of the picture",
        [BOX_PADDED] = "0 to 1 of the picture padded to a square",
        [BOX_SEEN] = "0 to 1 of the square that the encoder sees",
        [BOX_PERCENT] = "0 to 100 of the picture",
        [BOX_BINS] = "0 to 1023 of the picture, vertical first",
        [BOX_999] = "0 to 999 of the picture",
        [BOX_THOUSANDTHS] = "0 to 1000 of the picture",
        [BOX_RESIZED] = "pixels of the resized picture",
        [BOX_PIXELS] = "pixels of the picture",
    };
    return texts[unit];
}

// --- numbers to pixels ---------------------------------------------------------------------------

// Number n means pixel start + n * scale; valid numbers go from 0 to `most`.
struct frame {
    double start[2], scale[2], most[2];
};

// Computes the part of a picture that the encoder sees, in the picture's pixels.
static void seen(const struct picture_config *c, const double size[2], double start[2],
                 double side[2])
{
    int64_t resized[2];
    const double longest = fmax(size[0], size[1]);
    const bool padded = c && c->square;
    const bool cropped = c && c->crop && !padded &&
                         preprocess_size(c, (int64_t)size[0], (int64_t)size[1], &resized[0],
                                         &resized[1], NULL) == 0 &&
                         resized[0] > 0 && resized[1] > 0;
    for (int i = 0; i < 2; i++) {
        side[i] = padded ? longest : size[i];
        if (cropped) side[i] *= (double)(i ? c->height : c->width) / (double)resized[i];
        start[i] = (size[i] - side[i]) / 2;
    }
}

static struct frame frame_of(enum box_unit unit, const struct picture_config *c, int64_t width,
                             int64_t height)
{
    static const double most[] = {
        [BOX_SHARES] = 1,  [BOX_PADDED] = 1, [BOX_SEEN] = 1,           [BOX_PERCENT] = 100,
        [BOX_BINS] = 1023, [BOX_999] = 999,  [BOX_THOUSANDTHS] = 1000,
    };
    const double size[2] = { (double)width, (double)height };
    double side[2] = { size[0], size[1] };
    int64_t resized[2] = { width, height };
    struct frame f = { 0 };
    if (unit == BOX_SEEN) seen(c, size, f.start, side);
    if (unit == BOX_PADDED) seen(&(struct picture_config){ .square = true }, size, f.start, side);
    if (unit == BOX_RESIZED && c &&
        preprocess_size(c, width, height, &resized[0], &resized[1], NULL) < 0)
        unit = BOX_PIXELS;
    for (int i = 0; i < 2; i++) {
        f.most[i] = unit == BOX_RESIZED  ? (double)resized[i]
                    : unit == BOX_PIXELS ? size[i]
                                         : most[unit];
        f.scale[i] = side[i] / f.most[i];
    }
    return f;
}

static enum box_unit guess(const double *n, int count)
{
    double most = 0;
    for (int i = 0; i < count; i++) most = fmax(most, fabs(n[i]));
    return most <= 1.5 ? BOX_SHARES : most <= 1000 ? BOX_THOUSANDTHS : BOX_PIXELS;
}

// Maps numbers x1, y1, x2, y2 (a point: x1, y1) to a box within the picture; false if it lies
// outside or is empty.
static bool place(struct picture_box *b, const double *n, const struct frame *f,
                  const double size[2])
{
    enum { BEYOND = 50 }; // numbers may exceed the range by 1/BEYOND of it
    double at[2][2];
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 2; k++) {
            const double number = n[i + (b->point ? 0 : 2 * k)];
            const double slack = f->most[i] / BEYOND;
            if (!(number >= -slack && number <= f->most[i] + slack)) return false;
            at[i][k] = fmin(fmax(f->start[i] + number * f->scale[i], 0), size[i]);
        }
        if (at[i][1] < at[i][0]) { // corners in a different order
            const double first = at[i][0];
            at[i][0] = at[i][1];
            at[i][1] = first;
        }
        if (!b->point && at[i][1] <= at[i][0]) return false;
    }
    b->x = at[0][0];
    b->y = at[1][0];
    b->w = at[0][1] - at[0][0];
    b->h = at[1][1] - at[1][0];
    return true;
}

// --- finding -------------------------------------------------------------------------------------

#define N    "([-+]?(?:\\d+\\.?\\d*|\\.\\d+)(?:[eE][-+]?\\d+)?)"
#define S    "(?:\\s*,\\s*|\\s+)"
#define FOUR N S N S N S N
#define MARK "(?:<b?box>|<\\|box_start\\|>|<\\|begin_of_box\\|>)\\s*"

// Groups 1 to 4 are the numbers in every form; the mark (b, l, m, p) tells which form matched.
static const char forms[] =
    "(?|(*MARK:b)[\\[(;]\\s*" FOUR "\\s*(?=[\\]);])"
    "|(*MARK:b)\\(\\s*" N S N "\\s*\\)\\s*,?\\s*\\(\\s*" N S N "\\s*\\)"
    "|(*MARK:b)" MARK FOUR "\\s*(?=<)"
    "|(*MARK:l)<loc(\\d{4})><loc(\\d{4})><loc(\\d{4})><loc(\\d{4})>"
    "|(*MARK:m)\\bx\\d*\\s*=\\s*[\"']\\s*" N "\\s*[\"']\\s+y\\d*\\s*=\\s*[\"']\\s*" N "\\s*[\"']"
    "|(*MARK:p)(?:\"point(?:_2d)?\"\\s*:\\s*|<point>\\s*|" MARK ")[\\[(]+\\s*" N S N
    "\\s*[\\])](?!\\s*,?\\s*\\())";

static char *trimmed(const char *from, const char *to)
{
    static const char edges[] = " \t\n\r:,;.-*>\"'`[(";
    while (from < to && strchr(edges, *from)) from++;
    while (from < to && strchr(edges, to[-1])) to--;
    return xstrndup(from, (size_t)(to - from));
}

// A box, and the text in which its label is searched: at most NEAR bytes on each side, so that the
// time of an answer with very many boxes grows with its length only.
enum { NEAR = 4096 };
struct found {
    const char *begin, *from, *to, *end; // from..to: the numbers
};

// Returns the value of one of the keys in the JSON object around the box, even if the object is cut
// off.
static char *json_label(const struct found *f)
{
    static const char *const keys[] = { "\"label\"", "\"name\"", "\"object\"", "\"text\"", NULL };
    const char *at = f->from, *from = at, *to = at;
    while (from > f->begin && *from != '{' && *from != '}') from--;
    if (*from != '{') return NULL;
    while (to < f->end && *to != '{' && *to != '}') to++;
    for (int i = 0; keys[i]; i++) {
        const char *p = memmem(from, (size_t)(to - from), keys[i], strlen(keys[i]));
        if (!p) continue;
        p += strlen(keys[i]);
        p += strspn(p, " \t\n\r:");
        if (p >= to || *p != '"') continue;
        cJSON *value = cJSON_ParseWithLengthOpts(p, (size_t)(to - p), NULL, false);
        const char *said = cJSON_GetStringValue(value);
        char *label = said ? xstrdup(said) : NULL;
        cJSON_Delete(value);
        if (label) return label;
    }
    // {"dog": [1, 2, 3, 4]}: the key is the label, unless it describes the numbers ("bbox").
    const char *end = at;
    while (end > from && strchr(" \t\n\r[:", *end)) end--;
    const char *begin = end > from ? memrchr(from, '"', (size_t)(end - from)) : NULL;
    if (*end != '"' || !begin) return NULL;
    char *key = trimmed(begin, end);
    if (!strstr(key, "box") && !strstr(key, "point") && !strstr(key, "coord")) return key;
    free(key);
    return NULL;
}

static const char *find(const char *from, const char *to, const char *text)
{
    return from < to ? memmem(from, (size_t)(to - from), text, strlen(text)) : NULL;
}

static const char *const label_marks[][2] = { { "<ref>", "</ref>" },
                                              { "<p>", "</p>" },
                                              { "<|object_ref_start|>", "<|object_ref_end|>" } };
enum { LABEL_MARKS = sizeof label_marks / sizeof *label_marks };

// The last label of each kind of marks in the text up to `searched`; many boxes may share it.
struct marked {
    const char *searched, *label[LABEL_MARKS];
};

// Returns the text between the last pair of marks before the box.
static char *marked_label(struct marked *m, const struct found *f)
{
    char *label = NULL;
    for (size_t i = 0; i < LABEL_MARKS; i++) {
        const char *p = m->searched, *end = NULL;
        while ((p = find(p, f->from, label_marks[i][0])))
            m->label[i] = p += strlen(label_marks[i][0]);
        const char *begin = m->label[i];
        if (begin)
            end = find(begin, f->from - begin > NEAR ? begin + NEAR : f->from, label_marks[i][1]);
        if (end && !label) label = trimmed(begin, end);
    }
    m->searched = f->from;
    return label;
}

// Returns the label of "a dog: [...]": the text between the last box, or the start of the line, and
// a colon.
static char *colon_label(const char *last, const char *at)
{
    const char *from = at, *to = at;
    while (from > last && from[-1] != '\n') from--;
    while (to > from && strchr(" [(", to[-1])) to--;
    if (to - from < 2 || to[-1] != ':' || to[-2] == '"') return NULL;
    return trimmed(from, to);
}

// Returns a label after the numbers: <point x="1" y="2" alt="dog">dog</point>, <loc...> dog ; ...
static char *later_label(const struct found *f, char mark)
{
    const char *p = f->to;
    if (mark == 'l') return trimmed(p, p + strcspn(p, ";<\n"));
    const char *end = find(p, f->end, ">"), *alt = end ? find(p, end, "alt=") : NULL;
    if (!alt || alt + 5 > end) return NULL;
    const char quote[] = { alt[4], '\0' }, *close = find(alt + 5, f->end, quote);
    return close ? trimmed(alt + 5, close) : NULL;
}

static char *find_label(const struct found *f, struct marked *m, const char *last, char mark)
{
    char *label = mark == 'l' || mark == 'm' ? later_label(f, mark) : NULL;
    if (!label) label = json_label(f);
    if (!label) label = marked_label(m, f);
    if (!label) label = colon_label(last, f->from);
    return label ? label : xstrdup("");
}

// Returns the length of the model's reasoning, which may discuss boxes that the answer rejects.
static size_t thought(const char *text)
{
    static const char *const ends[] = { "</think>", "\xE2\x97\x81/think\xE2\x96\xB7" };
    size_t length = 0;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        for (const char *p = text; (p = strstr(p, ends[i]));) {
            p += strlen(ends[i]);
            if ((size_t)(p - text) > length) length = (size_t)(p - text);
        }
    return length;
}

void boxes_read(struct boxes *b, const char *text, const struct box_style *style,
                const struct picture_config *config, int64_t width, int64_t height)
{
    PCRE2_SIZE last = 0;
    const double size[2] = { (double)width, (double)height };
    const size_t length = strlen(text);
    size_t room = 0;
    struct marked marked = { .searched = text };
    *b = (struct boxes){ 0 };
    pcre2_code *re = regex_compile_as(forms, 0);
    pcre2_match_data *match = regex_match_data(re);
    const PCRE2_SIZE *at = pcre2_get_ovector_pointer(match);
    for (PCRE2_SIZE next = thought(text); width > 0 && height > 0 && next <= length; next = at[1]) {
        const int groups = pcre2_match(re, (PCRE2_SPTR)text, length, next, 0, match, NULL);
        if (groups < 0) break;
        const char mark = (char)*pcre2_get_mark(match);
        double n[4] = { 0 };
        for (int i = 0; i + 1 < groups; i++) n[i] = strtod(text + at[2 * i + 2], NULL);
        struct picture_box box = { .point = groups == 3 };
        const enum box_unit unit = mark == 'l'                ? BOX_BINS
                                   : mark == 'm'              ? BOX_PERCENT
                                   : style->unit == BOX_GUESS ? guess(n, groups - 1)
                                                              : style->unit;
        if (unit == BOX_BINS) { // vertical first
            const double turned[4] = { n[1], n[0], n[3], n[2] };
            memcpy(n, turned, sizeof n);
        }
        const struct frame f = frame_of(unit, config, width, height);
        if (place(&box, n, &f, size)) {
            const struct found near = { .begin = text + (at[0] > NEAR ? at[0] - NEAR : 0),
                                        .from = text + at[0],
                                        .to = text + at[1],
                                        .end = text +
                                               (length - at[1] > NEAR ? at[1] + NEAR : length) };
            box.label = find_label(&near, &marked, text + last, mark);
            b->list = xgrow(b->list, &room, b->count, sizeof *b->list);
            b->list[b->count++] = box;
        } else
            b->outside++;
        last = at[1];
    }
    pcre2_match_data_free(match);
    pcre2_code_free(re);
}

void boxes_copy(struct boxes *to, const struct boxes *from)
{
    *to = *from;
    to->list = xcalloc(from->count + 1, sizeof *to->list);
    for (size_t i = 0; i < from->count; i++) {
        to->list[i] = from->list[i];
        to->list[i].label = xstrdup(from->list[i].label);
    }
}

void boxes_release(struct boxes *b)
{
    for (size_t i = 0; i < b->count; i++) free(b->list[i].label);
    free(b->list);
    *b = (struct boxes){ 0 };
}

// --- JSON ----------------------------------------------------------------------------------------

cJSON *box_json(const struct picture_box *box)
{
    cJSON *item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "label", box->label);
    cJSON_AddNumberToObject(item, "x", box->x);
    cJSON_AddNumberToObject(item, "y", box->y);
    if (!box->point) cJSON_AddNumberToObject(item, "w", box->w);
    if (!box->point) cJSON_AddNumberToObject(item, "h", box->h);
    return item;
}

void boxes_from_json(struct boxes *b, const cJSON *list)
{
    const cJSON *item;
    size_t room = 0;
    *b = (struct boxes){ 0 };
    cJSON_ArrayForEach(item, list)
    {
        static const char *const keys[] = { "x", "y", "w", "h" };
        const char *label = cJSON_GetStringValue(json_get(item, "label"));
        double n[4] = { 0 };
        bool good = label != NULL;
        const bool point = !json_get(item, "w");
        for (int i = 0; i < (point ? 2 : 4); i++) {
            n[i] = cJSON_GetNumberValue(json_get(item, keys[i]));
            good &= n[i] >= 0 && n[i] <= 1e6; // false for NaN
        }
        if (!good) continue;
        b->list = xgrow(b->list, &room, b->count, sizeof *b->list);
        b->list[b->count++] = (struct picture_box){ xstrdup(label), n[0], n[1], n[2], n[3], point };
    }
}

// --- drawing -------------------------------------------------------------------------------------

uint32_t box_colour(size_t i)
{
    static const uint32_t colours[] = { 0xff2d2d, 0x2d7dff, 0x16b34a, 0xff9500,
                                        0xb14cff, 0x00b8c4, 0xff4fa3, 0xd4c200 };
    return colours[i % (sizeof colours / sizeof *colours)];
}

// Fills a rectangle [left, right) x [top, bottom), cut at the image's edges.
static void fill(struct image *m, double left, double top, double right, double bottom,
                 uint32_t rgb)
{
    const int64_t x1 = (int64_t)fmin(right, (double)m->width);
    const int64_t y1 = (int64_t)fmin(bottom, (double)m->height);
    for (int64_t y = (int64_t)fmax(top, 0); y < y1; y++)
        for (int64_t x = (int64_t)fmax(left, 0); x < x1; x++) {
            uint8_t *p = m->pixels + (y * m->width + x) * m->channels;
            p[0] = (uint8_t)(rgb >> 16);
            p[1] = (uint8_t)(rgb >> 8);
            p[2] = (uint8_t)rgb;
            if (m->channels == 4) p[3] = 255;
        }
}

void boxes_paint(struct image *image, const struct boxes *b, int64_t width, int64_t height)
{
    if (!image->pixels || width < 1 || height < 1) return;
    const double right = (double)image->width, bottom = (double)image->height;
    const double across = right / (double)width, down = bottom / (double)height;
    const double line = fmax(1, floor(fmax(right, bottom) / 200)), dot = 3 * line;
    for (size_t i = 0; i < b->count; i++) {
        const struct picture_box *box = &b->list[i];
        const uint32_t rgb = box_colour(i);
        double l = floor(box->x * across), t = floor(box->y * down);
        double r = ceil((box->x + box->w) * across), d = ceil((box->y + box->h) * down);
        if (box->point) {
            fill(image, l - dot, t - dot, l + dot, t + dot, rgb);
            continue;
        }
        l = fmin(l, right - line), t = fmin(t, bottom - line);
        r = fmin(r, right), d = fmin(d, bottom);
        fill(image, l, t, r, t + line, rgb);
        fill(image, l, d - line, r, d, rgb);
        fill(image, l, t, l + line, d, rgb);
        fill(image, r - line, t, r, d, rgb);
    }
}
