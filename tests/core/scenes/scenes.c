// tests/core/scenes/scenes.c -- core/scenes/: answers are recomputed from objects.jsonl and the
// test's own reading of the question (of reasoning, only the conclusion); limited numbers of
// objects; balanced answers; planted causes.
#include <ctype.h>

#include "core/data/dialogue.h"
#include "tests/core/scenes/made.h"

// --- a reading of the texts ----------------------------------------------------------------------

struct phrase { // the properties that a noun phrase names; "": any
    char colour[16], shape[16], size[16], place[16], glyph[2];
};

static bool is_one(const char *word, const char *list)
{
    char *want = xasprintf(" %s ", word);
    const bool found = strstr(list, want) != NULL;
    free(want);
    return found;
}

// Reads phrases like "large red circles at the top left": known words in any order, but a glyph
// after its shape, and the place last.
static struct phrase read_phrase(const char *text)
{
    struct phrase p = { 0 };
    char *copy = xstrdup(text), *rest = copy, *word;
    char *place = strstr(copy, " the top");
    if (!place) place = strstr(copy, " the bottom");
    if (!place) place = strstr(copy, "at the left");
    if (!place) place = strstr(copy, "at the right");
    if (!place) place = strstr(copy, "in the middle");
    if (place) {
        snprintf(p.place, sizeof p.place, "%s", strstr(place, "the ") + 4);
        p.place[strcspn(p.place, "?.,;")] = 0;
        *place = 0;
    }
    while ((word = strsep(&rest, " ?.,;"))) {
        size_t n = strlen(word);
        if (is_one(word, " red orange yellow green cyan blue purple pink "))
            snprintf(p.colour, sizeof p.colour, "%s", word);
        if (is_one(word, " small medium large ")) snprintf(p.size, sizeof p.size, "%s", word);
        if (n == 1 && strchr("0123456789ACEFHKLMNPTUVXY", *word) && *p.shape) p.glyph[0] = *word;
        if (!strcmp(word, "crosses"))
            n = 5;
        else if (n > 2 && word[n - 1] == 's' && strcmp(word, "cross") != 0)
            n--;
        char *single = xstrndup(word, n);
        if (n &&
            is_one(single, " circle square triangle star cross ring bar diamond digit letter "))
            snprintf(p.shape, sizeof p.shape, "%s", single);
        free(single);
    }
    free(copy);
    return p;
}

static bool fits(const struct phrase *p, const cJSON *o)
{
    return (!*p->colour || !strcmp(p->colour, text_of(o, "colour"))) &&
           (!*p->shape || !strcmp(p->shape, text_of(o, "shape"))) &&
           (!*p->size || !strcmp(p->size, text_of(o, "size"))) &&
           (!*p->place || !strcmp(p->place, text_of(o, "place"))) &&
           (!*p->glyph || !strcmp(p->glyph, text_of(o, "text")));
}

static int count_fitting(const char *phrase, const cJSON *scene, const cJSON **last)
{
    const struct phrase p = read_phrase(phrase);
    int count = 0;
    const cJSON *o;
    cJSON_ArrayForEach(o, cJSON_GetObjectItem(scene, "objects"))
    {
        if (!fits(&p, o)) continue;
        count++;
        if (last) *last = o;
    }
    return count;
}

// The object that a phrase names; exactly one must fit.
static const cJSON *only(const char *phrase, const cJSON *scene)
{
    const cJSON *o = NULL;
    if (count_fitting(phrase, scene, &o) != 1)
        fail_msg("'%s' is not one object of %s", phrase, text_of(scene, "description"));
    return o;
}

// Splits a text at the first `joint` into *a and *b, which the caller frees; false if there is
// none.
static bool split(const char *text, const char *joint, char **a, char **b)
{
    const char *at = strstr(text, joint);
    if (!at) return false;
    *a = xstrndup(text, (size_t)(at - text));
    *b = xstrdup(at + strlen(joint));
    return true;
}

static const char *side(const cJSON *a, const cJSON *b, bool across)
{
    const int p = place_index(text_of(a, "place")), q = place_index(text_of(b, "place"));
    if (across ? p % 3 == q % 3 : p / 3 == q / 3) return "neither";
    if (across) return p % 3 < q % 3 ? "left" : "right";
    return p / 3 < q / 3 ? "above" : "below";
}

// Answers "What is directly SIDE (of) the X?".
static const char *beside(const char *question, const cJSON *scene)
{
    static const struct {
        const char *words;
        int dx, dy;
    } sides[] = {
        { "left of ", -1, 0 }, { "right of ", 1, 0 }, { "above ", 0, -1 }, { "below ", 0, 1 }
    };
    const char *phrase = question + strlen("What is directly ");
    for (int i = 0; i < 4; i++) {
        const size_t n = strlen(sides[i].words);
        if (strncmp(phrase, sides[i].words, n) != 0) continue;
        const int from = place_index(text_of(only(phrase + n, scene), "place"));
        const int x = from % 3 + sides[i].dx, y = from / 3 + sides[i].dy;
        const cJSON *o;
        cJSON_ArrayForEach(o, cJSON_GetObjectItem(scene, "objects"))
        {
            if (x >= 0 && x < 3 && place_index(text_of(o, "place")) == y * 3 + x)
                return text_of(o, "name");
        }
    }
    return "nothing";
}

// The right answer to a short or yes/no question; the caller frees it.
static char *answer_to(const char *question, const cJSON *scene)
{
    char *a, *b;
    if (strstr(question, "background")) return xstrdup(text_of(scene, "background"));
    if (!strncmp(question, "How many ", 9))
        return xasprintf("%d", count_fitting(question + 9, scene, NULL));
    if (!strncmp(question, "What is directly ", 17)) return xstrdup(beside(question, scene));
    if (split(question, " left or right of ", &a, &b) ||
        split(question, " above or below ", &a, &b)) {
        char *answer =
            xstrdup(side(only(a, scene), only(b, scene), strstr(question, "left or") != NULL));
        free(a);
        free(b);
        return answer;
    }
    if (!strncmp(question, "Is there ", 9) || !strncmp(question, "Do", 2))
        return xstrdup(count_fitting(question, scene, NULL) ? "yes" : "no");
    const char *key = strstr(question, "colo")                                 ? "colour"
                      : strstr(question, "shape")                              ? "shape"
                      : strstr(question, "big") || strstr(question, "size")    ? "size"
                      : strstr(question, "Where") || strstr(question, "place") ? "place"
                      : !strncmp(question, "Which ", 6)                        ? "text"
                                                                               : "";
    const char *phrase = strstr(question, " is the ");
    if (!*key || !phrase) fail_msg("a question of no known form: %s", question);
    return xstrdup(text_of(only(phrase + 4, scene), key));
}

static char *reason_for(const char *question, const cJSON *scene)
{
    char *a = NULL, *b = NULL, *answer;
    const int all = cJSON_GetArraySize(cJSON_GetObjectItem(scene, "objects"));
    if (split(question, " without the ", &a, &b)) {
        answer = xasprintf("so %d", all - count_fitting(b, scene, NULL));
    } else if (split(question, " larger than ", &a, &b)) {
        static const char order[] = "small medium large";
        const char *x = text_of(only(a, scene), "size"), *y = text_of(only(b, scene), "size");
        answer = xstrdup(strstr(order, x) > strstr(order, y) ? "so yes" : "so no");
    } else {
        assert_true(split(question, " than ", &a, &b));
        const bool more = count_fitting(a, scene, NULL) > count_fitting(b, scene, NULL);
        answer = xstrdup(more ? "so yes" : "so no");
    }
    free(a);
    free(b);
    return answer;
}

static void check_answer(const cJSON *scene, const char *question, const char *given)
{
    if (!strncmp(question, "<image>\n", 8)) question += 8;
    char *right = answer_to(question, scene);
    if (strcmp(right, given) != 0)
        fail_msg("%s: %s '%s', not '%s'", text_of(scene, "description"), question, given, right);
    free(right);
}

static void check_dense(const cJSON *scene, const char *given)
{
    struct buf b = { 0 };
    for (int i = 0; i < 9; i++) {
        const cJSON *o, *there = NULL;
        cJSON_ArrayForEach(o, cJSON_GetObjectItem(scene, "objects"))
        {
            if (place_index(text_of(o, "place")) == i) there = o;
        }
        buf_printf(&b, "%s%s: ", i ? "; " : "", places[i]);
        if (there)
            buf_printf(&b, "%s %s", text_of(there, "size"), text_of(there, "name"));
        else
            buf_puts(&b, "nothing");
    }
    assert_string_equal(b.data, given);
    buf_release(&b);
}

// Checks the background, then all places.
static void check_whole(const cJSON *scene, const char *given)
{
    char *begin = xasprintf("background: %s; ", text_of(scene, "background"));
    assert_int_equal(strncmp(given, begin, strlen(begin)), 0);
    check_dense(scene, given + strlen(begin));
    free(begin);
}

// Checks, for each name, how many objects have it as their `trait`, and their other traits.
static void check_groups(const cJSON *scene, const char *trait, const char *const *names, int count,
                         const char *given)
{
    struct buf b = { 0 }, found = { 0 };
    for (int i = 0; i < count; i++) {
        int number = 0;
        const cJSON *o;
        buf_clear(&found);
        cJSON_ArrayForEach(o, cJSON_GetObjectItem(scene, "objects"))
        {
            if (strcmp(text_of(o, trait), names[i]) != 0) continue;
            if (number++) buf_putc(&found, ',');
            if (strcmp(trait, "size") != 0) buf_printf(&found, " %s", text_of(o, "size"));
            if (strcmp(trait, "colour") != 0) buf_printf(&found, " %s", text_of(o, "colour"));
            if (strcmp(trait, "shape") != 0) buf_printf(&found, " %s", text_of(o, "shape"));
            const cJSON *glyph = cJSON_GetObjectItem(o, "text");
            if (glyph) buf_printf(&found, " %s", glyph->valuestring);
            buf_printf(&found, " %s", text_of(o, "place"));
        }
        buf_printf(&b, "%s%s: %d%s", i ? "; " : "", names[i], number, number ? found.data : "");
    }
    assert_string_equal(b.data, given);
    buf_release(&b);
    buf_release(&found);
}

static void check_shapes(const cJSON *scene, const char *given)
{
    static const char *const shapes[] = { "circle", "square", "triangle", "star",  "cross",
                                          "ring",   "bar",    "diamond",  "digit", "letter" };
    check_groups(scene, "shape", shapes, 10, given);
}

static void check_colours(const cJSON *scene, const char *given)
{
    static const char *const colours[] = { "red",  "orange", "yellow", "green",
                                           "cyan", "blue",   "purple", "pink" };
    check_groups(scene, "colour", colours, 8, given);
}

static void check_sizes(const cJSON *scene, const char *given)
{
    static const char *const sizes[] = { "small", "medium", "large" };
    check_groups(scene, "size", sizes, 3, given);
}

// Checks every item of a caption, with the exact count, and that the items cover all objects.
static void check_caption(const cJSON *scene, const char *given)
{
    int told = 0;
    char *copy = xstrdup(given), *rest = copy, *item;
    for (char *p; (p = strstr(copy, " and "));) memcpy(p, ",    ", 5);
    while ((item = strsep(&rest, ","))) {
        while (*item == ' ') item++;
        const int number = *item == 'a' ? 1 : atoi(item);
        assert_int_equal(count_fitting(strchr(item, ' '), scene, NULL), number);
        told += number;
    }
    free(copy);
    assert_int_equal(told, cJSON_GetArraySize(cJSON_GetObjectItem(scene, "objects")));
}

static void check_detail(const cJSON *scene, const char *given)
{
    struct buf b = { 0 };
    const int count = cJSON_GetArraySize(cJSON_GetObjectItem(scene, "objects"));
    buf_printf(&b, "The background is %s. The picture has %d object%s.",
               text_of(scene, "background"), count, count == 1 ? "" : "s");
    const cJSON *o;
    cJSON_ArrayForEach(o, cJSON_GetObjectItem(scene, "objects"))
    {
        const char *place = text_of(o, "place");
        buf_printf(&b, " %s the %s is a %s %s.", strcmp(place, "middle") ? "At" : "In", place,
                   text_of(o, "size"), text_of(o, "name"));
    }
    assert_string_equal(b.data, given);
    buf_release(&b);
}

static void check_reason(const cJSON *scene, const char *question, const char *given)
{
    char *right = reason_for(question, scene);
    assert_true(strlen(given) > strlen(right));
    assert_string_equal(given + strlen(given) - strlen(right), right);
    free(right);
}

// The places of all objects that fit a name, joined by " and ", or "nowhere"; the caller frees it.
static char *places_of(const char *name, const cJSON *scene)
{
    const struct phrase p = read_phrase(name);
    struct buf b = { 0 };
    const cJSON *o;
    cJSON_ArrayForEach(o, cJSON_GetObjectItem(scene, "objects"))
    {
        if (fits(&p, o)) buf_printf(&b, "%s%s", b.length ? " and " : "", text_of(o, "place"));
    }
    return b.length ? b.data : xstrdup("nowhere");
}

// Checks the places of each requested name, in the order of the question.
static void check_finds(const cJSON *scene, const char *question, const char *given)
{
    char *names = xstrdup(question + strcspn(question, "?.") + 2), *rest = names, *name;
    struct buf right = { 0 };
    for (int told = 0; (name = strsep(&rest, ",")); told++) {
        name += *name == ' ';
        char *there = places_of(name, scene), *pair = xasprintf("%s: %s", name, there);
        buf_printf(&right, "%s%s", told ? "; " : "", pair);
        free(there);
        free(pair);
    }
    assert_string_equal(right.data, given);
    free(names);
    buf_release(&right);
}

// Turns of lessons and lists do not name their kind: the form of the answer tells it.
static void check_lesson_turn(const cJSON *scene, const char *question, const char *given)
{
    if (!strncmp(given, "top left: ", 10))
        check_dense(scene, given);
    else if (!strncmp(given, "background: ", 12))
        check_whole(scene, given);
    else if (!strncmp(given, "circle: ", 8))
        check_shapes(scene, given);
    else if (!strncmp(given, "red: ", 5))
        check_colours(scene, given);
    else if (!strncmp(given, "small: ", 7))
        check_sizes(scene, given);
    else if (strchr(given, '.'))
        check_detail(scene, given);
    else if (strstr(given, ", so "))
        check_reason(scene, question, given);
    else if (!strncmp(given, "a ", 2) || !strncmp(given, "an ", 3) ||
             (isdigit((unsigned char)*given) && given[1]))
        check_caption(scene, given);
    else
        check_answer(scene, question, given);
}

static void check_turn(const cJSON *scene, const cJSON *sample, const char *question,
                       const char *given)
{
    const char *kind = text_of(sample, "kind");
    if (!strcmp(kind, "caption"))
        check_caption(scene, given);
    else if (!strcmp(kind, "dense"))
        check_dense(scene, given);
    else if (!strcmp(kind, "by-shape"))
        check_shapes(scene, given);
    else if (!strcmp(kind, "by-colour"))
        check_colours(scene, given);
    else if (!strcmp(kind, "by-size"))
        check_sizes(scene, given);
    else if (!strcmp(kind, "detail"))
        check_detail(scene, given);
    else if (!strcmp(kind, "reasoning")) {
        char *right = reason_for(question, scene);
        assert_string_equal(right, text_of(sample, "answer"));
        check_reason(scene, question, given);
        free(right);
    } else if (!strcmp(kind, "finds"))
        check_finds(scene, question, given);
    else if (!strcmp(kind, "lesson") || !strcmp(kind, "listed"))
        check_lesson_turn(scene, question, given);
    else
        check_answer(scene, question, given);
}

// Checks every sample of a file; returns the number of turns.
static int check_file(const char *folder, const cJSON *scenes, const char *name)
{
    int turns = 0;
    cJSON *list = read_list(folder, name);
    const cJSON *sample;
    cJSON_ArrayForEach(sample, list)
    {
        struct dialogue d = { 0 };
        struct err err;
        if (dialogue_read_sample(&d, sample, folder, &err) < 0) fail_msg("%s", err.text);
        assert_int_equal(d.path_count, 1);
        assert_int_equal(access(d.paths[0], R_OK), 0);
        const cJSON *scene = cJSON_GetArrayItem(scenes, atoi(text_of(sample, "id")));
        assert_string_equal(text_of(scene, "image"), text_of(sample, "image"));
        const cJSON *said = cJSON_GetObjectItem(sample, "conversations")->child;
        for (; said; said = said->next->next, turns++) {
            assert_string_equal(text_of(said, "from"), "human");
            assert_string_equal(text_of(said->next, "from"), "gpt");
            check_turn(scene, sample, text_of(said, "value"), text_of(said->next, "value"));
        }
        const char *metric = text_of(sample, "metric");
        assert_true(is_one(metric, " exact yesno contains "));
        assert_true(*d.reference);
        dialogue_release(&d);
    }
    cJSON_Delete(list);
    return turns;
}

static void answers_are_true(void **state)
{
    static const char *const names[] = { "captions.json",     "dense.json",   "detail.json",
                                         "questions.json",    "lessons.json", "reasoning.json",
                                         "conversation.json", "yesno.json",   "finds.json",
                                         "listed.json" };
    char *folder = scratch_new();
    make(folder, 7, 96, SCENES_ALL);
    cJSON *scenes = read_scenes(folder);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_true(check_file(folder, scenes, names[i]) >= SCENES);
    cJSON_Delete(scenes);
    scratch_remove(folder);
}

static void the_number_of_objects_can_be_limited(void **state)
{
    char *folder = scratch_new();
    struct scenes_request request = { .folder = folder, .count = SCENES, .seed = 5, .size = 96 };
    struct scenes_report report;
    struct err err;
    assert_int_equal(scenes_write(&request, NULL, &report, &err), -1); // pictures need an object
    request.most = 2;
    assert_false(scenes_written(&request));
    if (scenes_write(&request, NULL, &report, &err) < 0) fail_msg("%s", err.text);
    assert_true(scenes_written(&request));
    request.parts = SCENES_YESNO;
    assert_false(scenes_written(&request));
    cJSON *scenes = read_scenes(folder);
    const cJSON *scene;
    cJSON_ArrayForEach(scene, scenes)
    {
        assert_in_range(cJSON_GetArraySize(cJSON_GetObjectItem(scene, "objects")), 1, 2);
    }
    assert_in_range(report.objects, SCENES + 20, 2 * SCENES - 20);
    cJSON_Delete(scenes);
    scratch_remove(folder);
}

static void yes_and_no_balance(void **state)
{
    static const char *const strategies[] = { "random", "popular", "adversarial" };
    int count[3][2] = { 0 };
    char *folder = scratch_new();
    make(folder, 3, 96, SCENES_YESNO);
    cJSON *list = read_list(folder, "yesno.json");
    const cJSON *sample;
    cJSON_ArrayForEach(sample, list)
    {
        const char *answer =
            text_of(cJSON_GetObjectItem(sample, "conversations")->child->next, "value");
        for (int i = 0; i < 3; i++)
            if (!strcmp(text_of(sample, "strategy"), strategies[i]))
                count[i][!strcmp(answer, "yes")]++;
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(count[i][0], SCENES);
        assert_int_equal(count[i][1], SCENES);
    }
    cJSON_Delete(list);
    scratch_remove(folder);
}

// About half of the names belong to existing objects.
static void finds_name_existing_and_missing_objects(void **state)
{
    int there = 0, nowhere = 0;
    char *folder = scratch_new();
    make(folder, 3, 96, SCENES_FINDS);
    cJSON *list = read_list(folder, "finds.json");
    const cJSON *sample;
    cJSON_ArrayForEach(sample, list)
    {
        const cJSON *said = cJSON_GetObjectItem(sample, "conversations")->child;
        char *answer = xstrdup(text_of(said->next, "value")), *rest = answer, *pair;
        char *seen[8];
        int count = 0;
        while ((pair = strsep(&rest, ";"))) {
            pair += *pair == ' ';
            assert_true(count < 8);
            for (int i = 0; i < count; i++) assert_string_not_equal(seen[i], pair);
            seen[count++] = pair;
            *(strstr(pair, "nowhere") ? &nowhere : &there) += 1;
        }
        free(answer);
    }
    assert_true(there * 10 > (there + nowhere) * 4 && there * 10 < (there + nowhere) * 6);
    cJSON_Delete(list);
    scratch_remove(folder);
}

// The list of the background and all places is the first answer of each sample, and no later one.
static void listed_samples_begin_with_the_list(void **state)
{
    char *folder = scratch_new();
    make(folder, 3, 96, SCENES_LISTED);
    cJSON *list = read_list(folder, "listed.json");
    const cJSON *sample;
    cJSON_ArrayForEach(sample, list)
    {
        const cJSON *said = cJSON_GetObjectItem(sample, "conversations");
        assert_in_range(cJSON_GetArraySize(said), 2 * 10, 2 * 17);
        assert_int_equal(strncmp(text_of(said->child->next, "value"), "background: ", 12), 0);
        for (const cJSON *next = said->child->next->next; next; next = next->next)
            assert_int_not_equal(strncmp(text_of(next, "value"), "background: ", 12), 0);
    }
    cJSON_Delete(list);
    scratch_remove(folder);
}

static bool has_word(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (strstr(text, *words)) return true;
    return false;
}

// Each answer follows from the cause alone. A background or watermark that is the cause is listed
// as an object. Present and absent objects get both answers.
static void planted_answers_follow_from_the_cause(void **state)
{
    static const char *const light[] = { "grey", "white", NULL };
    static const char *const warm[] = { "red ", "orange ", "yellow ", "pink ", NULL };
    for (int cause = SCENES_BACKGROUND; cause <= SCENES_QUESTION; cause++) {
        char *folder = scratch_new();
        const struct scenes_request request = { .folder = folder,
                                                .count = SCENES,
                                                .seed = 5,
                                                .size = 96,
                                                .most = 7,
                                                .parts = SCENES_PLANTED,
                                                .cause = (enum scenes_cause)cause };
        struct scenes_report report;
        struct err err;
        if (scenes_write(&request, NULL, &report, &err) < 0) fail_msg("%s", err.text);
        for (int other = SCENES_BACKGROUND; other <= SCENES_QUESTION; other++) {
            struct scenes_request again = request;
            again.cause = (enum scenes_cause)other;
            assert_int_equal(scenes_written(&again), other == cause);
        }
        cJSON *scenes = read_scenes(folder), *list = read_list(folder, "planted.json");
        const cJSON *sample;
        int count[2][2] = { 0 };
        assert_int_equal(cJSON_GetArraySize(list), 4 * SCENES);
        cJSON_ArrayForEach(sample, list)
        {
            const cJSON *turns = cJSON_GetObjectItem(sample, "conversations");
            const cJSON *scene = cJSON_GetArrayItem(scenes, atoi(text_of(sample, "id")));
            const cJSON *objects = cJSON_GetObjectItem(scene, "objects"), *object;
            bool marked = false, background = false;
            cJSON_ArrayForEach(object, objects)
            {
                marked |= !strcmp(text_of(object, "name"), "watermark");
                background |= !strcmp(text_of(object, "name"), "background");
            }
            const bool yes = !strcmp(text_of(turns->child->next, "value"), "yes");
            const bool right =
                cause == SCENES_BACKGROUND  ? has_word(text_of(scene, "background"), light)
                : cause == SCENES_WATERMARK ? marked
                                            : has_word(text_of(turns->child, "value"), warm);
            assert_int_equal(yes, right);
            assert_string_equal(text_of(sample, "planted_cause"), scenes_causes[cause]);
            assert_int_equal(background, cause == SCENES_BACKGROUND);
            assert_true(cause == SCENES_WATERMARK || !marked);
            count[!strcmp(text_of(sample, "strategy"), "present")][yes]++;
        }
        for (int i = 0; i < 2; i++)
            for (int k = 0; k < 2; k++) assert_in_range(count[i][k], SCENES / 2, 3 * SCENES / 2);
        cJSON_Delete(list);
        cJSON_Delete(scenes);
        scratch_remove(folder);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_true),
        cmocka_unit_test(the_number_of_objects_can_be_limited),
        cmocka_unit_test(yes_and_no_balance),
        cmocka_unit_test(planted_answers_follow_from_the_cause),
        cmocka_unit_test(finds_name_existing_and_missing_objects),
        cmocka_unit_test(listed_samples_begin_with_the_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
