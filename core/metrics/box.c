// core/metrics/box.c -- compares boxes in answers with the reference box by intersection over union
// (RefCOCO).
//
// A reference is "[x1, y1, x2, y2] of WxH": corners and the size of the picture, in pixels.
// Sources: tasks/refcoco/utils_rec.py of lmms-eval, dataset/refcoco.py of VLMEvalKit,
// eval/refcoco/evaluate_grounding.py of InternVL, eval_mm/evaluate_grounding.py of Qwen-VL; LLaVA's
// issue 606.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/regex.h"
#include "core/base/scratch.h"
#include "core/metrics/metric.h"
#include "core/metrics/python.h"

struct box {
    double x1, y1, x2, y2;
};

// Levels of overlap. An outcome's class is twice the level, plus 1 if the reference contains the
// centre of the answer's box. Classes are saved and must not change.
enum { BELOW_10, FROM_10, FROM_30, FROM_50, FROM_70, FROM_90, NO_BOX };
static const double levels[] = { 0.1, 0.3, 0.5, 0.7, 0.9 };
enum { LEVELS = sizeof levels / sizeof *levels };

// --- reading -------------------------------------------------------------------------------------

#define PLAIN  "(-?\\d+(?:\\.\\d+)?)"
#define NUMBER "([-+]?\\d*\\.?\\d+(?:[eE][-+]?\\d+)?)"
#define NEXT   "(?:\\s*,\\s*|\\s+)"

static const char commas[] = "\\[\\s*" PLAIN ",\\s*" PLAIN ",\\s*" PLAIN ",\\s*" PLAIN "\\s*\\]";
static const char brackets[] = "\\[\\s*" NUMBER NEXT NUMBER NEXT NUMBER NEXT NUMBER "\\s*\\]";
static const char four[] = NUMBER "(?s:.*?)" NUMBER "(?s:.*?)" NUMBER "(?s:.*?)" NUMBER;

bool box_numbers(const char *text, double *numbers, int count)
{
    for (int i = 0; i < count; i++) {
        text += strcspn(text, "-.0123456789");
        char *end;
        numbers[i] = strtod(text, &end);
        if (end == text) return false;
        text = end;
    }
    return true;
}

// Copies the `count` groups of the pattern's first match.
static bool find_texts(const char *pattern, const char *text, struct scratch *s, char **parts,
                       int count)
{
    pcre2_code *re = regex_compile(pattern);
    pcre2_match_data *match = regex_match_data(re);
    const bool found =
        pcre2_match(re, (PCRE2_SPTR)text, strlen(text), 0, 0, match, NULL) == count + 1;
    const PCRE2_SIZE *at = pcre2_get_ovector_pointer(match);
    for (int i = 0; found && i < count; i++)
        parts[i] = scratch_dup(s, text + at[2 * i + 2], at[2 * i + 3] - at[2 * i + 2]);
    pcre2_match_data_free(match);
    pcre2_code_free(re);
    return found;
}

// Reads the four numbers of the pattern's first match.
static bool find_numbers(const char *pattern, const char *text, struct box *b)
{
    struct scratch s = { 0 };
    char *parts[4] = { NULL };
    double *const numbers[] = { &b->x1, &b->y1, &b->x2, &b->y2 };
    const bool found = find_texts(pattern, text, &s, parts, 4);
    for (int i = 0; found && i < 4; i++) *numbers[i] = strtod(parts[i], NULL);
    scratch_release(&s);
    return found;
}

// Reads a box in normalised coordinates (0 to 1). Without a box in the text, returns false and an
// empty box.
static bool read_shares(const char *text, double wide, double high, struct box *b)
{
    *b = (struct box){ 0 };
    const bool found = find_numbers(commas, text, b);
    *b = (struct box){ b->x1 * wide, b->y1 * high, b->x2 * wide, b->y2 * high };
    return found;
}

// Reads coordinates relative to a square with the picture in its middle, to which LLaVA-1.5 pads
// pictures.
static bool read_padded(const char *text, double wide, double high, struct box *b)
{
    const double side = fmax(wide, high), left = (side - wide) / 2, top = (side - high) / 2;
    const bool found = read_shares(text, side, side, b);
    *b = (struct box){ b->x1 - left, b->y1 - top, b->x2 - left, b->y2 - top };
    return found;
}

// Parses the four texts like Python's float().
static bool take_floats(struct scratch *s, char *const parts[4], struct box *b)
{
    double *const numbers[] = { &b->x1, &b->y1, &b->x2, &b->y2 };
    bool good = true;
    for (int i = 0; i < 4 && good; i++) good = python_float(s, parts[i], numbers[i]);
    if (!good) *b = (struct box){ 0 };
    return good;
}

// Reads numbers that add up to 4 or more as thousandths, others as shares.
static bool read_internvl(const char *text, double wide, double high, struct box *b)
{
    static const char pattern[] = "\\[*\\[(.*?),(.*?),(.*?),(.*?)\\]\\]*";
    struct scratch s = { 0 };
    char *parts[4];
    *b = (struct box){ 0 };
    const bool found = find_texts(pattern, text, &s, parts, 4) && take_floats(&s, parts, b);
    scratch_release(&s);
    const double unit = b->x1 + b->y1 + b->x2 + b->y2 >= 4 ? 1000 : 1;
    *b = (struct box){ b->x1 / unit * wide, b->y1 / unit * high, b->x2 / unit * wide,
                       b->y2 / unit * high };
    return found;
}

// The first "(...),(...)" must be two pairs of numbers.
static bool read_qwen_vl(const char *text, double wide, double high, struct box *b)
{
    struct scratch s = { 0 };
    char *corners[2], *parts[4];
    *b = (struct box){ 0 };
    bool found = find_texts("\\((.*?)\\),\\((.*?)\\)", text, &s, corners, 2);
    for (int i = 0; i < 2 && found; i++) {
        parts[2 * i + 1] = corners[i];
        parts[2 * i] = strsep(&parts[2 * i + 1], ",");
        found = parts[2 * i + 1] != NULL;
    }
    found = found && take_floats(&s, parts, b);
    scratch_release(&s);
    *b = (struct box){ b->x1 / 999 * wide, b->y1 / 999 * high, b->x2 / 999 * wide,
                       b->y2 / 999 * high };
    return found;
}

static double within(double x, double most)
{
    return x < 0 ? 0 : x > most ? most : x;
}

static void order(double *a, double *b)
{
    const double first = *a;
    if (*b >= first) return;
    *a = *b;
    *b = first;
}

// Reads the numbers as shares if none exceeds 1.5, as thousandths if none exceeds 1000, otherwise
// as pixels. Clips the box to the picture.
static bool read_any(const char *text, double wide, double high, struct box *b)
{
    if (!find_numbers(brackets, text, b) && !find_numbers(four, text, b)) return false;
    const double most = fmax(fmax(fabs(b->x1), fabs(b->y1)), fmax(fabs(b->x2), fabs(b->y2)));
    const double unit = most <= 1.5 ? 1 : 1000, x = most <= 1000 ? wide / unit : 1,
                 y = most <= 1000 ? high / unit : 1;
    *b = (struct box){ within(b->x1 * x, wide), within(b->y1 * y, high), within(b->x2 * x, wide),
                       within(b->y2 * y, high) };
    order(&b->x1, &b->x2);
    order(&b->y1, &b->y2);
    return true;
}

// --- the score -----------------------------------------------------------------------------------

static double area(const struct box *b)
{
    return (b->x2 - b->x1) * (b->y2 - b->y1);
}

static double overlap(const struct box *a, const struct box *b)
{
    const double wide = fmin(a->x2, b->x2) - fmax(a->x1, b->x1);
    const double high = fmin(a->y2, b->y2) - fmax(a->y1, b->y1);
    const double both = fmax(0, wide) * fmax(0, high), all = area(a) + area(b) - both;
    return all > 0 ? both / all : 0;
}

static bool has_centre(const struct box *right, const struct box *said)
{
    const double x = (said->x1 + said->x2) / 2, y = (said->y1 + said->y2) / 2;
    return right->x1 <= x && x <= right->x2 && right->y1 <= y && y <= right->y2;
}

// The reader of each rule: it returns the box in pixels, or false if the text has no box.
static const struct {
    const struct metric *metric;
    bool (*read)(const char *text, double wide, double high, struct box *b);
} readers[] = { { &metric_box_lmms_eval, read_shares },
                { &metric_box_vlmevalkit, read_any },
                { &metric_box_llava, read_padded },
                { &metric_box_internvl, read_internvl },
                { &metric_box_qwen_vl, read_qwen_vl } };

static int score(const struct metric *m, const struct metric_case *c, struct metric_outcome *o,
                 struct err *err)
{
    struct box said = { 0 };
    double n[6]; // corners, width and height
    if (!c->reference_count) return err_set(err, "the sample has no reference box");
    if (!box_numbers(c->references[0], n, 6))
        return err_set(err, "'%.100s' is not a box and the size of its picture", c->references[0]);
    const struct box right = { n[0], n[1], n[2], n[3] };
    size_t reader = 0;
    while (readers[reader].metric != m) reader++;
    const bool found = readers[reader].read(c->answer, n[4], n[5], &said);
    const double share = found ? overlap(&right, &said) : 0;
    int level = 0;
    while (level < LEVELS && share >= levels[level]) level++;
    // lmms-eval treats a missing box as an empty box in the corner of the picture.
    const bool centre = (found || m == &metric_box_lmms_eval) && has_centre(&right, &said);
    *o = (struct metric_outcome){ .score = share >= 0.5,
                                  .overlap = share,
                                  .class = 2 * (found ? level : NO_BOX) + centre };
    if (!found) return 0;
    o->found =
        scratch_printf(c->scratch, "[%.6g, %.6g, %.6g, %.6g]", said.x1, said.y1, said.x2, said.y2);
    return 0;
}

static int summary(const struct metric_tally *t, struct metric_number *to)
{
    static const char *const names[LEVELS] = { "ACC@0.1", "ACC@0.3", "ACC@0.5", "ACC@0.7",
                                               "ACC@0.9" };
    const double count = t->scores.count ? (double)t->scores.count : NAN;
    double reached = 0, centres = 0;
    for (int i = LEVELS; i-- > 0;) {
        reached += (double)(t->classes[2 * i + 2] + t->classes[2 * i + 3]);
        to[i + 1] = (struct metric_number){ names[i], reached / count };
    }
    for (int i = 0; i <= NO_BOX; i++) centres += (double)t->classes[2 * i + 1];
    to[0] = (struct metric_number){ "IoU", t->overlap / count };
    to[LEVELS + 1] = (struct metric_number){ "Center_ACC", centres / count };
    to[LEVELS + 2] = (struct metric_number){ "no box", (double)(t->classes[2 * NO_BOX] +
                                                                t->classes[2 * NO_BOX + 1]) };
    return LEVELS + 3;
}

const struct metric metric_box_lmms_eval = {
    .name = "box-lmms-eval",
    .help = "Boxes as lmms-eval scores RefCOCO.",
    .rule =
        "the first \"[x1, y1, x2, y2]\", in shares of the picture's sides, overlaps the reference "
        "by at least half (intersection over union); an answer without a box is wrong",
    .suite = SUITE_LMMS_EVAL,
    .score = score,
    .summary = summary,
};

const struct metric metric_box_vlmevalkit = {
    .name = "box-vlmevalkit",
    .help = "Boxes as VLMEvalKit scores RefCOCO.",
    .rule = "the first four numbers in brackets, else the first four numbers, overlap the "
            "reference by at least half (intersection over union). They are shares if none "
            "exceeds 1.5, thousandths if none exceeds 1000, otherwise pixels; an answer without "
            "a box is wrong",
    .suite = SUITE_VLMEVALKIT,
    .score = score,
    .summary = summary,
};

const struct metric metric_box_llava = {
    .name = "box-llava",
    .help = "Boxes as LLaVA-1.5 writes them.",
    .rule = "the first \"[x1, y1, x2, y2]\", in shares of the picture padded to a square, overlaps "
            "the reference by at least half (intersection over union); an answer without a box is "
            "wrong",
    .suite = SUITE_LLAVA,
    .score = score,
    .summary = summary,
};

const struct metric metric_box_internvl = {
    .name = "box-internvl",
    .help = "Boxes as InternVL's program scores RefCOCO.",
    .rule = "the first \"[x1,y1,x2,y2]\", in thousandths of the picture's sides (shares if the "
            "numbers add up to less than 4), overlaps the reference by at least half "
            "(intersection over union); an answer without a box is wrong",
    .suite = SUITE_OFFICIAL,
    .score = score,
    .summary = summary,
};

const struct metric metric_box_qwen_vl = {
    .name = "box-qwen-vl",
    .help = "Boxes as Qwen-VL's program scores RefCOCO.",
    .rule =
        "the first \"(x1,y1),(x2,y2)\", from 0 to 999 along the picture's sides, overlaps the "
        "reference by at least half (intersection over union); an answer without a box is wrong",
    .suite = SUITE_OFFICIAL,
    .score = score,
    .summary = summary,
};
