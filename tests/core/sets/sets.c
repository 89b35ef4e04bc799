// tests/core/sets/sets.c -- core/sets/: files of several formats (most written by
// tests/core/sets/make.py), the questions that the suites make of them, malformed files, Python's
// lists, the stored index of a large table, submissions, and the table of sets. Parquet files:
// parquet.c.
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
// needs the headers above
#include <cmocka.h>

#include "core/base/file_in.h"
#include "core/base/mem.h"
#include "core/sets/format.h"
#include "core/sets/index.h"
#include "core/sets/parts.h"
#include "core/sets/set.h"
#include "core/sets/submit.h"
#include "core/template/message.h"
#include "tests/core/sets/expected.h"

static char folder[256];

static int make_files(void **state)
{
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/sets-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(folder)) return -1;
    setenv("XDG_CACHE_HOME", folder, 1);
    char *command = xasprintf("python3 tests/core/sets/make.py '%s'", folder);
    const int status = system(command); // NOLINT(cert-env33-c)
    free(command);
    return status;
}

static int remove_files(void **state)
{
    char *command = xasprintf("rm -r '%s'", folder);
    const int status = system(command); // NOLINT(cert-env33-c)
    free(command);
    return status;
}

// --- questions -----------------------------------------------------------------------------------

static void open_set(struct dataset *d, const char *name, const char *suite, const char *file)
{
    struct err err;
    char *path = xasprintf("%s/%s", folder, file), *images = xasprintf("%s/img", folder);
    const struct eval_set *set = eval_set_need(name, &err);
    const struct set_way *way = set ? eval_set_way(set, suite, &err) : NULL;
    if (!way || eval_set_open(d, set, way, path, images, NULL, &err) < 0)
        fail_msg("%s: %s", file, err.text);
    free(images);
    free(path);
}

static void check_one(const char *set, const char *suite, const char *file, int64_t count,
                      int64_t row, struct expected x)
{
    struct dataset d;
    open_set(&d, set, suite, file);
    assert_int_equal(d.count, count);
    check_sample(&d, row, &x, 96, 96);
    dataset_close(&d);
}

static void test_pope(void **state)
{
    check_one("pope", NULL, "pope/coco_pope_random.json", 4, 0,
              (struct expected){ "1", "", "Is there a red circle in the image?" SHORT, "yes", "",
                                 -1, 1 });
    // The label is in a file beside the questions.
    check_one("pope", "llava", "pope/llava_pope_test.jsonl", 4, 1,
              (struct expected){ "1", "random", "Is there a blue square in the image?" SHORT, "no",
                                 "", -1, 1 });
    // The row shows the picture of row 1.
    check_one("pope", "vlmevalkit", "POPE.tsv", 4, 3,
              (struct expected){ "3", "random,popular", "Is there a dog in the image?", "No", "",
                                 -1, 1 });
}

static void test_same_picture(void **state)
{
    struct dataset d;
    struct sample a, b, c;
    open_set(&d, "pope", "vlmevalkit", "POPE.tsv");
    assert_int_equal(dataset_read(&d, 0, &a, NULL), 0);
    assert_int_equal(dataset_read(&d, 1, &b, NULL), 0);
    assert_int_equal(dataset_read(&d, 2, &c, NULL), 0);
    assert_string_equal(a.dialogue.paths[0], c.dialogue.paths[0]);
    assert_string_not_equal(a.dialogue.paths[0], b.dialogue.paths[0]);
    sample_release(&a);
    sample_release(&b);
    sample_release(&c);
    dataset_close(&d);
}

static void test_short(void **state)
{
    check_one("mme", NULL, "MME.tsv", 8, 1,
              (struct expected){ "1", "count", "Is this 1?" SHORT, "No", "", -1, 1 });
    check_one("mme", "vlmevalkit", "MME.tsv", 8, 4,
              (struct expected){ "4", "code_reasoning", "Is this 4? Please answer yes or no.",
                                 "Yes", "", -1, 1 });
    check_one("vqav2", NULL, "vqa/v2_OpenEnded_mscoco_val2014_questions.json", 3, 1,
              (struct expected){ "262148001", "other", "What is 1?" SHORT,
                                 "circle|circle|circle|square|square|square|square|square|square|"
                                 "square",
                                 "", -1, 1 });
    check_one("textvqa", "llava", "textvqa/TextVQA_0.5.1_val.json", 2, 1,
              (struct expected){
                  "34603", "", "what is the brand of 1?\nReference OCR token: NOKIA, 3310" SHORT,
                  "nokia|nokia|nokia|nokia|nokia|nokia|nokia|nokia|nokia|Nokia!", "", -1, 1 });
    check_one("textvqa", "lmms-eval", "textvqa/TextVQA_0.5.1_val.json", 2, 0,
              (struct expected){ "34602", "", "What is the brand of 0?" SHORT,
                                 "nokia|nokia|nokia|nokia|nokia|nokia|nokia|nokia|nokia|Nokia!", "",
                                 -1, 1 });
    check_one("textvqa", "llava", "textvqa/llava_textvqa_val_v051_ocr.jsonl", 2, 1,
              (struct expected){
                  "t1", "default", "what is the brand of 1?\nReference OCR token: NOKIA" SHORT,
                  "nokia|nokia|nokia|nokia|nokia|nokia|nokia|nokia|nokia|Nokia!", "", -1, 1 });
    check_one("ocrbench", NULL, "OCRBench.tsv", 2, 1,
              (struct expected){ "1", "Handwritten Mathematical Expression Recognition",
                                 "Write out the expression.", "x ^ 2|y", "", -1, 1 });
}

static void test_captions(void **state)
{
    static const char ask[] = "Provide a one-sentence caption for the provided image.";
    check_one("coco", NULL, "captions_val2017.json", 3, 2,
              (struct expected){ "12", "", ask, "three digits|some digits", "", -1, 1 });
    check_one("flickr30k", NULL, "dataset_flickr30k.json", 2, 1,
              (struct expected){ "2", "", ask, "three digits|some digits", "", -1, 1 });
    check_one("coco", NULL, "COCO_VAL.tsv", 3, 0,
              (struct expected){ "0", "", ask, "a red circle|one circle, red", "", -1, 1 });
}

static void test_choices(void **state)
{
    check_one(
        "mmbench", "llava", "mmbench_dev.tsv", 3, 0,
        (struct expected){ "241", "colour",
                           "Look\tclosely\nat it.\nWhich is \"red\"?\nA. circle\nB. square" LETTER,
                           "A", "circle|square|None", 0, 1 });
    check_one(
        "mmbench", "vlmevalkit", "mmbench_dev.tsv", 3, 2,
        (struct expected){ "252", "count",
                           "Question: How many?\nOptions:\nA. one\nB. two\nC. three\nD. "
                           "four\nPlease select the correct answer from the options above. \n",
                           "C", "one|two|three|four", 2, 1 });
    check_one("mmbench", "lmms-eval", "mmbench_dev.tsv", 3, 1,
              (struct expected){ "1000241", "colour",
                                 "Look\tclosely\nat it. Which is \"red\"? There are several "
                                 "options:\nA. square\nB. circle\n" LETTER,
                                 "B", "square|circle", 1, 1 });
    check_one("mmstar", NULL, "MMStar.tsv", 4, 3,
              (struct expected){ "3", "l1",
                                 "Which is 3?\nOptions: A: w, B: x, C: y, D: z\nAnswer with the "
                                 "option's letter from the given choices directly",
                                 "D", "w|x|y|z", 3, 1 });
    check_one("seed", NULL, "llava-seed-bench.jsonl", 2, 1,
              (struct expected){ "1", "Scene Understanding",
                                 "Which?\nA. x\nB. y\nC. z\nD. w" LETTER, "B", "", -1, 1 });
    check_one("seed", "lmms-eval", "SEED-Bench.json", 2, 0,
              (struct expected){ "101", "1", "Which?\nA. x\nB. y\nC. z\nD. w" LETTER, "C",
                                 "x|y|z|w", 2, 1 });
    check_one("scienceqa", NULL, "sqa/problems.json", 2, 0,
              (struct expected){ "9", "natural science",
                                 "Think.\nWhich is 2?\nA. one\nB. two\nC. three" LETTER, "C",
                                 "one|two|three", 2, 0 });
    check_one("scienceqa", "lmms-eval", "sqa/problems.json", 2, 1,
              (struct expected){ "7", "natural science",
                                 "Which is 0?\nA. one\nB. two\nC. three" LETTER, "A",
                                 "one|two|three", 0, 1 });
    check_one("scienceqa", "llava", "sqa/llava_test_CQM-A.json", 2, 1,
              (struct expected){ "7", "", "Which is 0?\nA. one\nB. two\nC. three" LETTER, "A",
                                 "one|two|three", 0, 1 });
}

static int lost_of(const char *set_name, const char *suite, const char *file)
{
    struct dataset d;
    struct sample s;
    struct err err;
    open_set(&d, set_name, suite, file);
    assert_int_equal(dataset_read(&d, 0, &s, &err), 0);
    const int lost = s.lost;
    sample_release(&s);
    dataset_close(&d);
    return lost;
}

// Choices that a suite's table takes for missing because of their text.
static void test_lost(void **state)
{
    static const char *const texts[] = { "None", "x", "", "none", "y" };
    assert_int_equal(prompt_count_lost(texts, 5, LOST_NONE), 0);
    assert_int_equal(prompt_count_lost(texts, 5, LOST_MISSING), 2);
    assert_int_equal(prompt_count_lost(texts, 5, LOST_REST), 5);
    assert_int_equal(prompt_count_lost(texts + 3, 2, LOST_REST), 2);
    assert_int_equal(prompt_count_lost(texts + 3, 2, LOST_MISSING), 0);
    assert_int_equal(lost_of("mmbench", "llava", "mmbench_dev.tsv"), 1);
    assert_int_equal(lost_of("mmbench", "vlmevalkit", "mmbench_dev.tsv"), 1);
    assert_int_equal(lost_of("mmbench", "lmms-eval", "mmbench_dev.tsv"), 1);
    assert_int_equal(lost_of("mmstar", "lmms-eval", "mmbench_dev.tsv"), 0);
    // If no choice is left, there is nothing to select from.
    static const char json[] = "{\"question\": \"q\", \"A\": \"None\", \"B\": \"NA\"}";
    struct set_record r = { .json = cJSON_Parse(json) };
    struct buf prompt = { 0 };
    prompt_mcq_vlmevalkit(&r, &prompt);
    assert_string_equal(prompt.data, "Question: q\n");
    buf_release(&prompt);
    set_record_release(&r);
}

// In a table the text "nan" is a choice, which suites lose like None; in the parquet files of
// lmms-eval it fills the columns of choices that are absent.
static void test_nan(void **state)
{
    static const char json[] =
        "{\"question\": \"q\", \"A\": \"nan\", \"B\": \"x\", \"C\": \"nan\"}";
    static const struct {
        bool nan;
        const char *answer, *want;
    } cases[] = {
        { false, "B", "\nA. nan\nB. x\nC. nan" },
        { true, "B", "\nA. nan\nB. x" },
        { true, "C", "\nA. nan\nB. x\nC. nan" },
    };
    for (size_t i = 0; i < 3; i++) {
        struct set_record r = { .json = cJSON_Parse(json), .nan = cases[i].nan };
        struct buf prompt = { 0 };
        cJSON_AddStringToObject(r.json, "answer", cases[i].answer);
        prompt_letter(&r, &prompt);
        char *want = xasprintf("q%s" LETTER, cases[i].want);
        assert_string_equal(prompt.data, want);
        buf_clear(&prompt);
        prompt_mcq_vlmevalkit(&r, &prompt);
        assert_non_null(strstr(prompt.data, "Options:\nB. x\nPlease"));
        free(want);
        buf_release(&prompt);
        set_record_release(&r);
    }
}

// lmms-eval's parquet files of MMBench have the text "nan" for an absent choice, so "None" is a
// choice. The table from which they were made loses "None".
static void test_none(void **state)
{
    static const char json[] =
        "{\"question\": \"q\", \"A\": \"x\", \"B\": \"None\", \"C\": \"nan\", \"D\": \"N/A\"}";
    for (int nan = 0; nan < 2; nan++) {
        struct set_record r = { .json = cJSON_Parse(json), .nan = nan };
        struct buf prompt = { 0 };
        prompt_mmbench_lmms_eval(&r, &prompt);
        const char *want =
            nan ? "options:\nA. x\nB. None\nD. N/A\n\nAnswer" : "options:\nA. x\n\nAnswer";
        assert_non_null(strstr(prompt.data, want));
        buf_release(&prompt);
        set_record_release(&r);
    }
}

// lmms-eval keeps marks as text and shows each marked picture once.
static void test_mmmu(void **state)
{
    check_one("mmmu", NULL, "MMMU_DEV_VAL.tsv", 2, 0,
              (struct expected){ "0", "Art",
                                 "<image 2> beside <image 1>: which?\nA. left\nB. right\n" LETTER,
                                 "B", "left|right", 1, 2 });
    check_one("mmmu", NULL, "MMMU_DEV_VAL.tsv", 2, 1,
              (struct expected){ "1", "Math", "<image 1> How much?\n" SHORT, "3.5", "", -1, 1 });
}

// Expects the message to show the pictures with these numbers (from 1), in order, and to have this
// text.
static void check_marks(enum set_marks marks, const char *question, const char *pictures,
                        const char *text)
{
    struct dataset d = { 0 };
    struct sample s;
    struct err err;
    char *path = xasprintf("%s/marks.tsv", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "index\tquestion\tanswer\timage_path\n0\t%s\tx\t['a.png', 'b.png', 'c.png']\n",
            question);
    fclose(f);
    const struct eval_set set = { .name = "marks" };
    const struct set_way way = {
        .suite = "lmms-eval", .ask = prompt_question, .metric = "exact", .marks = marks
    };
    assert_int_equal(eval_set_open(&d, &set, &way, path, folder, NULL, &err), 0);
    if (dataset_read(&d, 0, &s, &err) < 0) fail_msg("%s", err.text);
    const struct message *m = &s.dialogue.messages[0];
    struct buf shown = { 0 };
    for (size_t i = 0; i < m->content_count; i++)
        if (m->content[i].picture >= 0) buf_printf(&shown, "%d", m->content[i].picture + 1);
    assert_string_equal(shown.data, pictures);
    char *rest = message_text(m);
    assert_string_equal(rest, text);
    free(rest);
    buf_release(&shown);
    sample_release(&s);
    dataset_close(&d);
    free(path);
}

static void test_marks(void **state)
{
    static const char twice[] = "<image 3> and <image 1>, <image 3>?", plain[] = "Which <image 7>?";
    check_marks(MARKS_ARE_TEXT, twice, "123", twice);
    check_marks(MARKS_SELECT, twice, "13", twice);
    check_marks(MARKS_ARE_PICTURES, twice, "313", " and , ?");
    check_marks(MARKS_SELECT, plain, "123", plain);
    check_marks(MARKS_ARE_PICTURES, plain, "123", plain);
}

static void test_text(void **state)
{
    check_one("hellaswag", NULL, "hellaswag_val.jsonl", 1, 0,
              (struct expected){ "24", "activitynet~v_-JhWjGDPHMY",
                                 "Roof shingle removal: A man is sitting on a roof. He", "3",
                                 "is using wrap.|is ripping tiles.. Next he rests.|is holding a "
                                 "cube.|starts.",
                                 3, 0 });
    struct dataset d;
    struct sample s;
    open_set(&d, "mmlu", NULL, "mmlu/test/abstract_algebra_test.csv");
    assert_int_equal(d.count, 2);
    assert_int_equal(dataset_read(&d, 0, &s, NULL), 0);
    char *question = message_text(&s.dialogue.messages[0]);
    static const char start[] = "The following are multiple choice questions (with answers) about "
                                "abstract algebra.\n\nWhat is 0?\nA. 0\nB. 1\nC. 2\nD. 3\nAnswer: "
                                "A\n\n";
    static const char end[] = "Answer: A\n\nFind 1, or \"one\".\nA. 0\nB. 1\nC. 2\nD. 3\nAnswer:";
    assert_int_equal(strncmp(question, start, strlen(start)), 0);
    assert_string_equal(question + strlen(question) - strlen(end), end);
    assert_null(strstr(question, "What is 5?"));
    assert_int_equal(s.right, 1);
    free(question);
    sample_release(&s);
    dataset_close(&d);
}

// Writes a file in which each '~' becomes a zero byte.
static void write_text(const char *name, const char *text)
{
    char *path = xasprintf("%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (; *text; text++) putc(*text == '~' ? 0 : *text, f);
    fclose(f);
    free(path);
}

// Files whose names differ only in the extension are all read, with separate ids.
static void test_same_names(void **state)
{
    static const char *const ids[] = { "same_0", "same.tsv_0" };
    struct dataset d;
    struct sample s;
    struct err err;
    write_text("same.jsonl", "{\"question_id\": 0, \"text\": \"q\"}\n");
    write_text("same.tsv", "index\tquestion\n0\tp\n");
    open_set(&d, "vqa", NULL, "same.*");
    assert_int_equal(d.count, 2);
    for (int i = 0; i < 2; i++) {
        if (dataset_read(&d, i, &s, &err) < 0) fail_msg("%s", err.text);
        assert_string_equal(s.id, ids[i]);
        sample_release(&s);
    }
    dataset_close(&d);
}

// A line that is not an object, with --columns: only its row is an error.
static void test_list_line(void **state)
{
    struct dataset d;
    struct sample s;
    struct err err;
    char *path = xasprintf("%s/list.jsonl", folder);
    const struct eval_set *set = eval_set_need("vqa", &err);
    write_text("list.jsonl", "{\"q\": \"a?\", \"answer\": \"b\"}\n[1, 2]\n");
    if (eval_set_open(&d, set, set->ways, path, NULL, "question=q", &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(dataset_read(&d, 0, &s, &err), 0);
    sample_release(&s);
    assert_int_equal(dataset_read(&d, 1, &s, &err), -1);
    assert_non_null(strstr(err.text, "a sample must be an object"));
    sample_release(&s);
    dataset_close(&d);
    free(path);
}

// As pandas reads it: a quote after the end of a quoted text is a character.
static void test_quotes(void **state)
{
    static const char *const questions[] = { "Foo is 5\" long", "second", "the 7\" one" };
    struct dataset d;
    write_text("quotes.tsv", "index\tquestion\tanswer\n1\t\"Foo\" is 5\" long\ta\n"
                             "2\tsecond\ta\n3\tthe 7\" one\ta\n");
    open_set(&d, "vqa", NULL, "quotes.tsv");
    assert_int_equal(d.count, 3);
    for (int i = 0; i < 3; i++) {
        struct sample s;
        assert_int_equal(dataset_read(&d, i, &s, NULL), 0);
        char *text = message_text(&s.dialogue.messages[0]);
        assert_int_equal(strncmp(text, questions[i], strlen(questions[i])), 0);
        free(text);
        sample_release(&s);
    }
    dataset_close(&d);
}

// A file whose name looks like a picture in a row of the table.
static void test_marked_name(void **state)
{
    struct dataset d;
    struct sample s;
    struct err err;
    size_t size;
    write_text("marked.tsv",
               "index\tquestion\tanswer\timage_path\timage\n1\tq\ta\tmarked#1.png\t\n"
               "2\tq\ta\t\tAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n");
    write_text("img/marked#1.png", "right");
    open_set(&d, "vqa", NULL, "marked.tsv");
    assert_int_equal(dataset_read(&d, 0, &s, &err), 0);
    char *bytes = dataset_picture(&d, s.dialogue.paths[0], IMAGE_MAX_FILE, &size, &err);
    assert_non_null(bytes);
    assert_string_equal(bytes, "right");
    free(bytes);
    sample_release(&s);
    assert_int_equal(dataset_read(&d, 1, &s, &err), 0);
    bytes = dataset_picture(&d, s.dialogue.paths[0], IMAGE_MAX_FILE, &size, &err);
    assert_non_null(bytes);
    assert_int_equal(size, 51);
    free(bytes);
    sample_release(&s);
    dataset_close(&d);
}

// Beyond Z, choices have the next Unicode characters; none of them ends the prompt.
static void test_many_choices(void **state)
{
    enum { CHOICES = 200 };
    struct dataset d;
    struct sample s;
    struct buf b = { 0 };
    buf_puts(&b, "{\"question_id\": 0, \"question\": \"q\", \"answer\": \"A\", \"choices\": [");
    for (int i = 0; i < CHOICES; i++) buf_printf(&b, "%s\"c%d\"", i ? ", " : "", i);
    buf_puts(&b, "]}\n");
    write_text("choices.jsonl", b.data);
    open_set(&d, "mcq", NULL, "choices.jsonl");
    assert_int_equal(dataset_read(&d, 0, &s, NULL), 0);
    char *text = message_text(&s.dialogue.messages[0]);
    assert_non_null(strstr(text, "\nZ. c25\n[. c26\n"));
    assert_non_null(strstr(text, "\n\xC4\x88. c199"));
    free(text);
    sample_release(&s);
    dataset_close(&d);
    buf_release(&b);
}

// --- long files ----------------------------------------------------------------------------------

// A search from each bracket to the end of the text would take minutes.
static void test_brackets(void **state)
{
    enum { LENGTH = 4 << 20 };
    struct dataset d;
    struct sample s;
    struct buf b = { 0 };
    buf_puts(&b,
             "{\"ind\": 0, \"ctx\": \"a [b] c\", \"endings\": [\"x\", \"y\"], \"label\": \"0\"}\n"
             "{\"ind\": 1, \"endings\": [\"x\", \"y\"], \"label\": \"0\", \"ctx\": \"");
    for (int i = 0; i < LENGTH; i++) buf_putc(&b, '[');
    buf_puts(&b, "\"}\n");
    write_text("brackets.jsonl", b.data);
    open_set(&d, "hellaswag", NULL, "brackets.jsonl");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(dataset_read(&d, i, &s, NULL), 0);
        char *text = message_text(&s.dialogue.messages[0]);
        if (!i) assert_string_equal(text, "a c");
        if (i) assert_int_equal(strlen(text), LENGTH);
        free(text);
        sample_release(&s);
    }
    dataset_close(&d);
    buf_release(&b);
}

// A search of all problems for each number of the split would take minutes.
static void test_many_problems(void **state)
{
    enum { COUNT = 200000 };
    struct dataset d;
    struct sample s;
    struct buf problems = { 0 }, split = { 0 };
    char *path = xasprintf("%s/many", folder);
    assert_int_equal(mkdir(path, 0777), 0);
    free(path);
    for (int i = 0; i < COUNT; i++) {
        buf_printf(&problems,
                   "%s\"%d\": {\"question\": \"q%d\", \"choices\": [\"a\"], \"answer\": 0}",
                   i ? ",\n" : "{\n", i, i);
        buf_printf(&split, "%s\"%d\"", i ? ", " : "{\"test\": [", COUNT - 1 - i);
    }
    buf_puts(&problems, "}");
    buf_puts(&split, "]}");
    write_text("many/problems.json", problems.data);
    write_text("many/pid_splits.json", split.data);
    open_set(&d, "scienceqa", NULL, "many/problems.json");
    assert_int_equal(d.count, COUNT);
    assert_int_equal(dataset_read(&d, 1, &s, NULL), 0);
    assert_string_equal(s.id, "199998");
    sample_release(&s);
    dataset_close(&d);
    buf_release(&problems);
    buf_release(&split);
}

// --- refusals ------------------------------------------------------------------------------------

// Opening the set, reading its first sample or reading that sample's picture gives the error.
static void check_refused(const char *set, const char *name, const char *text, const char *why)
{
    struct dataset d;
    struct err err = { 0 };
    struct sample s;
    size_t size;
    write_text(name, text);
    char *path = xasprintf("%s/%s", folder, name);
    const struct eval_set *row = eval_set_need(set, &err);
    int status = eval_set_open(&d, row, row->ways, path, NULL, NULL, &err);
    if (status == 0) {
        status = dataset_read(&d, 0, &s, &err);
        if (status == 0) {
            char *bytes = dataset_picture(&d, s.dialogue.paths[0], IMAGE_MAX_FILE, &size, &err);
            assert_null(bytes);
            status = -1;
        }
        sample_release(&s);
        dataset_close(&d);
    }
    assert_int_equal(status, -1);
    if (!strstr(err.text, why)) fail_msg("'%s' does not say '%s'", err.text, why);
    free(path);
}

// Answers in a file beside the questions are not used if \u0000 would cut one of them.
static void test_answers_cut(void **state)
{
    struct dataset d;
    struct sample s;
    char *path = xasprintf("%s/cut", folder);
    assert_int_equal(mkdir(path, 0777), 0);
    free(path);
    write_text("cut/TextVQA_0.5.1_val.json",
               "{\"data\": [{\"image_id\": \"a\", \"question\": \"q\", "
               "\"answers\": [\"no\\u0000kia\"]}]}");
    write_text("cut/q.jsonl", "{\"question_id\": \"a\", \"image\": \"a.jpg\", "
                              "\"text\": \"q\\nReference OCR token: X\"}\n");
    open_set(&d, "textvqa", "llava", "cut/q.jsonl");
    assert_int_equal(dataset_read(&d, 0, &s, NULL), 0);
    assert_int_equal(s.reference_count, 0);
    sample_release(&s);
    dataset_close(&d);
}

static void test_refused(void **state)
{
    struct err err;
    assert_null(eval_set_need("popes", &err));
    assert_non_null(strstr(err.text, "pope, mme, vqav2"));
    assert_null(eval_set_way(eval_set_need("coco", &err), "llava", &err));
    assert_non_null(strstr(err.text, "lmms-eval, vlmevalkit"));
    check_refused("pope", "a.tsv", "name\tvalue\n1\t2\n",
                  "is not in a known format of evaluation sets");
    // A zero byte would hide the rest of its text.
    check_refused("pope", "zero.tsv", "index\tquestion\timage\n1\tq~r\tiVBORw0KGgo=\n", "row 0 of");
    check_refused("pope", "zero.tsv", "index\tquestion\timage\n1\tq\tiVBO~Rw0KGgo=\n", "zero byte");
    check_refused("pope", "zero.tsv", "index\tquest~ion\timage\n1\tq\tiVBORw0KGgo=\n",
                  "not in a known format");
    check_refused("pope", "zero.tsv", "index\tquestion\timage\tq~\n1\tq\tiVBORw0KGgo=\tr\n",
                  "a zero byte in its first line");
    check_refused("pope", "zero.tsv", "index\tquestion\timage\n1~\tq\tiVBORw0KGgo=\n",
                  "a zero byte in its column \"index\"");
    check_refused("pope", "b.tsv", "index\tquestion\n", "contains no rows");
    check_refused("pope", "c.tsv", "index\tquestion\timage\n1\tq\t\"abc\n", "quoted field");
    check_refused("pope", "d.tsv", "index\tquestion\timage\n1\tq\t7\n", "which no row has");
    check_refused("pope", "d.tsv", "index\tquestion\timage\n8\tq\t7\n7\tq\tA\n7\tq\tA\n",
                  "its picture from index '7', which several rows share");
    check_refused("pope", "e.tsv", "index\tquestion\timage\n1\tq\t2\n2\tq\t1\n",
                  "a cycle of references");
    char *row = xasprintf("index\tquestion\timage\n1\tq\t%0100d*\n", 0);
    check_refused("pope", "f.tsv", row, "is not base64");
    free(row);
    struct buf wide = { 0 };
    buf_puts(&wide, "index\tquestion");
    for (int i = 0; i < 30000; i++) buf_puts(&wide, "\ta"); // the names become a.1, a.2 ...
    buf_puts(&wide, "\n1\tq\n");
    check_refused("pope", "wide.tsv", wide.data, "has more than 4096 columns");
    buf_release(&wide);
    check_refused("textvqa", "g.json", "{\"data\": [{\"question\": \"q\"}]}", "image_id");
    check_refused("textvqa", "h.json", "{\"data\": [{\"question\": \"q\"}", "is not valid JSON");
    check_refused("textvqa", "i.json", "{\"data\": [", "is not valid JSON");
    static const char *const bad[] = { "] x}",       "], \"n\": 1 x}", "], \"n\": \"1\"x}",
                                       "],}",        "]} x",           ", 1 x]}",
                                       ", 1\"x\"]}", ", {} {}]}",      ",]}" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *text = xasprintf("{\"data\": [{\"question\": \"q\", \"image_id\": \"1\"}%s", bad[i]);
        check_refused("textvqa", "h.json", text, "is not valid JSON");
        free(text);
    }
    check_refused("textvqa", "k.json", "{\"data\": [{\"question\": \"q\\u0000 cut\"}]}", "\\u0000");
    check_refused("textvqa", "j.json", "{\"data\": []}", "contains no samples");
    check_refused("textvqa", "l.json", "{\n\"a\": 1}",
                  "is a JSON object, but not an evaluation set");
    check_refused("pope", "m.tsv", "index\timage_path\tanswer\n1\tx.png\tyes\n",
                  "has no \"question\"");
    check_refused("refcoco", "box.tsv",
                  "index\tquestion\timage_path\tbbox_x1\tbbox_y1\tbbox_x2\tbbox_y2\twidth\theight\n"
                  "1\tq\tx.png\t1\t2\tx\t4\t9\t9\n",
                  "it has no box of four numbers");
    check_refused("refcoco", "box.tsv",
                  "index\tquestion\timage_path\tanswer\twidth\theight\n"
                  "1\tq\tx.png\t[1, \"2\", \"x\", 4]\t9\t9\n",
                  "it has no box of four numbers");
    check_refused("hellaswag", "n.jsonl", "{\"question\": \"q\", \"endings\": [\"a\", \"b\"]}\n",
                  "has no \"ctx\": is this a file of hellaswag");
    check_refused("scienceqa", "k.json", "{\n\"1\": {\"question\": \"q\"}}", "pid_splits.json");
    char *lacks = xasprintf("%s/lacks", folder);
    assert_int_equal(mkdir(lacks, 0777), 0);
    free(lacks);
    write_text("lacks/pid_splits.json", "{\"test\": [\"1\", \"2\"]}");
    check_refused("scienceqa", "lacks/problems.json",
                  "{\n\"1\": {\"question\": \"q\", \"choices\": [\"a\"], \"answer\": 0}}",
                  "lists the problem \"2\" under \"test\", which");
    check_refused("coco", "twice.json",
                  "{\"images\": [{\"id\": 7, \"file_name\": \"a.jpg\"}, {\"id\": 7.0, "
                  "\"file_name\": \"b.jpg\"}], \"annotations\": []}",
                  "lists the picture 7 twice");
    check_refused("vqav2", "subtype.json",
                  "{\"questions\": [{\"question\": \"q\"}], \"data_subtype\": []}",
                  "neither \"data_id\" nor \"data_subtype\"");
}

static void check_list(const char *text, const char *expected)
{
    cJSON *list = set_python_list(text), *item;
    struct buf b = { 0 };
    if (!expected) {
        assert_null(list);
        return;
    }
    cJSON_ArrayForEach(item, list) buf_printf(&b, "<%s>", item->valuestring);
    assert_string_equal(b.data ? b.data : "", expected);
    buf_release(&b);
    cJSON_Delete(list);
}

static void test_python_list(void **state)
{
    check_list("['a', \"b's\", 3.5]", "<a><b's><3.5>");
    check_list(" [ 'it\\'s', 'x\\ny', 'a\\b' , ] ", "<it's><x\ny><a\b>");
    // Escapes of repr() are read as in Python.
    check_list("['\\\\frac', '\\u6771\\u3000', '\\xa0', '\\U0001f600\\d', '\\x4']",
               "<\\frac><\xE6\x9D\xB1\xE3\x80\x80><\xC2\xA0><\xF0\x9F\x98\x80\\d><\\x4>");
    check_list("['\\ud800', '\\x00', '\\U00110000']", "<\xEF\xBF\xBD><\xEF\xBF\xBD><\xEF\xBF\xBD>");
    check_list("[['A', 'B]', \"c\"], 'd', [1]]", "<['A', 'B]', \"c\"]><d><[1]>");
    check_list("[['A', 'B'", NULL);
    check_list("['a\\", NULL);
    check_list("[]", "");
    check_list("['a'", NULL);
    check_list("['a' 'b']", NULL);
    check_list("['a", NULL);
    check_list("a", NULL);
    check_list("['a'] b", NULL);
}

// --- the index -----------------------------------------------------------------------------------

enum { ROWS = 9000, WIDE = 8000 };

// 72 MB: files of 64 MB and more have a stored index.
static char *write_large(char first)
{
    char *path = xasprintf("%s/large.tsv", folder), *image = xmalloc(WIDE + 1);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    memset(image, first, WIDE);
    image[WIDE] = 0;
    fputs("index\tquestion\timage\tanswer\n", f);
    for (int i = 0; i < ROWS; i++)
        fprintf(f, "%d\t\"a \"\"q\"\"\t\n%d\"\t%s\tyes\n", i, i, i == 7 ? "5" : image);
    fclose(f);
    free(image);
    return path;
}

static void check_row(const struct set_index *x, int64_t row)
{
    struct buf b = { 0 };
    struct err err;
    char number[32];
    assert_int_equal(set_index_read(x, row, &b, &err), 0);
    struct scratch s = { 0 };
    const char *fields[4], *rest = scratch_take(&s, &b);
    for (int i = 0; i < 4; i++) fields[i] = set_index_field(&s, &rest);
    snprintf(number, sizeof number, "a \"q\"\t\n%lld", (long long)row);
    assert_string_equal(fields[1], number);
    assert_string_equal(fields[2], "");
    assert_string_equal(fields[3], "yes");
    scratch_release(&s);
    assert_int_equal(set_index_image(x, row, &b, &err), 0);
    assert_int_equal(b.length, row == 7 ? 1 : WIDE);
    buf_release(&b);
}

static void check_index(const char *path, bool kept)
{
    struct set_index x;
    struct err err;
    if (set_index_open(&x, path, &(struct set_columns){ 0 }, &err) < 0) fail_msg("%s", err.text);
    assert_int_equal(x.kept, kept);
    assert_int_equal(x.count, ROWS);
    assert_int_equal(x.keys.count, ROWS);
    check_row(&x, 0);
    check_row(&x, 7);
    check_row(&x, ROWS - 1);
    set_index_close(&x);
}

static void damage_index(void)
{
    char *command = xasprintf("for f in '%s'/vlmsh/sets/*.index; do printf x | dd of=\"$f\" bs=1 "
                              "seek=300 conv=notrunc 2>/dev/null; done",
                              folder);
    assert_int_equal(system(command), 0); // NOLINT(cert-env33-c)
    free(command);
}

static void test_index(void **state)
{
    char *path = write_large('A');
    check_index(path, false);
    check_index(path, true);
    damage_index();
    check_index(path, false);
    check_index(path, true);
    // Another file with the same name and size.
    const struct timespec times[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };
    free(path);
    path = write_large('B');
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    check_index(path, false);
    unlink(path);
    free(path);
}

// --- submissions ---------------------------------------------------------------------------------

static char *submit(const char *name, const char *suite, const char *file)
{
    struct dataset d;
    struct err err;
    size_t size;
    char *path = xasprintf("%s/submission", folder);
    struct submission *s = submission_new();
    const struct eval_set *set = eval_set_need(name, &err);
    const struct set_way *way = eval_set_way(set, suite, &err);
    open_set(&d, name, suite, file);
    submission_add(s, 1, "The \"left\" one.");
    if (submission_write(s, path, &d, set, way, "tiny", &err) < 0) fail_msg("%s", err.text);
    char *text = file_read(path, 1 << 20, &size, &err);
    assert_non_null(text);
    file_in_clear(); // so that the file may be written again
    submission_free(s);
    dataset_close(&d);
    free(path);
    return text;
}

static void test_submissions(void **state)
{
    char *text = submit("vqav2", NULL, "vqa/v2_OpenEnded_mscoco_val2014_questions.json");
    assert_string_equal(text, "[{\"question_id\": 262148001, \"answer\": \"left 1\"}]\n");
    free(text);
    text = submit("mmbench", NULL, "mmbench_dev.tsv");
    assert_string_equal(text, "index\tquestion\tA\tB\tC\tD\tprediction\tanswer\tsplit\n"
                              "1000241\t\"Which is \"\"red\"\"?\"\tsquare\tcircle\t\t\t"
                              "\"The \"\"left\"\" one.\"\tB\tdev\n");
    free(text);
    text = submit("pope", "llava", "pope/llava_pope_test.jsonl");
    assert_string_equal(text, "{\"question_id\": 1, \"prompt\": \"Is there a blue square in the "
                              "image?\\u000aAnswer the question using a single word or phrase.\", "
                              "\"text\": \"The \\\"left\\\" one.\", \"answer_id\": "
                              "\"7090a1709719a50adc592e\", \"model_id\": \"tiny\", "
                              "\"metadata\": {}}\n");
    free(text);
}

// Samples that the set lacks, as a damaged database may name them.
static void test_submission_of_no_sample(void **state)
{
    static const int64_t indices[] = { -1, 1 << 20, INT64_MAX };
    struct dataset d;
    struct err err;
    char *path = xasprintf("%s/none", folder);
    open_set(&d, "pope", "llava", "pope/llava_pope_test.jsonl");
    const struct eval_set *set = eval_set_need("pope", &err);
    for (size_t i = 0; i < 3; i++) {
        struct submission *s = submission_new();
        submission_add(s, indices[i], "yes");
        const struct set_way *way = eval_set_way(set, "llava", &err);
        assert_int_equal(submission_write(s, path, &d, set, way, "tiny", &err), -1);
        assert_non_null(strstr(err.text, "no sample"));
        assert_int_equal(predictions_write(s, path, "vlmevalkit", &d, set, "tiny", &err), -1);
        assert_non_null(strstr(err.text, "no sample"));
        assert_int_equal(access(path, F_OK), -1);
        submission_free(s);
    }
    dataset_close(&d);
    free(path);
}

// Every set has files, and each of its ways has a known metric, a limit of tokens, a prompt and a
// source.
static void test_table(void **state)
{
    for (const struct eval_set *s = eval_sets; s->name; s++) {
        assert_non_null(s->ways[0].ask);
        assert_non_null(s->files);
        for (const struct set_way *w = s->ways; w->ask; w++) {
            if (!metric_find(w->metric)) fail_msg("%s: no metric '%s'", s->name, w->metric);
            assert_true(w->max_tokens > 0);
            assert_non_null(w->prompt);
            assert_non_null(w->source);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_pope),
        cmocka_unit_test(test_submission_of_no_sample),
        cmocka_unit_test(test_same_picture),
        cmocka_unit_test(test_short),
        cmocka_unit_test(test_captions),
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_lost),
        cmocka_unit_test(test_nan),
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_same_names),
        cmocka_unit_test(test_list_line),
        cmocka_unit_test(test_quotes),
        cmocka_unit_test(test_marked_name),
        cmocka_unit_test(test_many_choices),
        cmocka_unit_test(test_brackets),
        cmocka_unit_test(test_many_problems),
        cmocka_unit_test(test_mmmu),
        cmocka_unit_test(test_marks),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_answers_cut),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_python_list),
        cmocka_unit_test(test_index),
        cmocka_unit_test(test_submissions),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
