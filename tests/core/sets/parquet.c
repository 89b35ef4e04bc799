// tests/core/sets/parquet.c -- core/files/parquet*.c and core/sets/format_parquet.c: files of
// tests/core/sets/parquet/ (written with pyarrow by tests/core/sets/parquet.py) give the rows and
// pictures that pyarrow reads; the questions that the suites make of them; unsupported and damaged
// files; limits on time and memory; cancellation.
//
// With a folder as argument, compares the files in that folder (parquet.py FOLDER variety).
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// needs the headers above
#include <cmocka.h>

#include "core/base/cancel.h"
#include "core/base/file_in.h"
#include "core/base/hash.h"
#include "core/files/parquet.h"
#include "core/files/parquet_parts.h"
#include "core/picture/image.h"
#include "core/sets/format.h"
#include "core/sets/set.h"
#include "tests/core/scratch.h"
#include "tests/core/sets/expected.h"

static const char *folder = "tests/core/sets/parquet";

enum { LIMIT = 1 << 28 };

// --- the rows that pyarrow reads -----------------------------------------------------------------

// "SHA-256:PATH", as parquet.py writes a picture.
static char *describe(const struct parquet_picture *p)
{
    char hex[HASH_HEX] = "";
    if (p->bytes) hash_hex(p->bytes, p->size, hex);
    return xasprintf("%s:%.*s", hex, (int)p->path_size, p->path ? p->path : "");
}

static void check_row(struct parquet *p, int64_t i, enum parquet_part part, const cJSON *expected)
{
    struct parquet_row r;
    struct err err;
    if (parquet_row_read(p, i, part, &r, &err) < 0) fail_msg("row %d: %s", (int)i, err.text);
    if (part == PARQUET_ALL && !cJSON_Compare(r.json, json_get(expected, "row"), true))
        fail_msg("%s, row %d: %s instead of %s", p->path, (int)i, cJSON_PrintUnformatted(r.json),
                 cJSON_PrintUnformatted(json_get(expected, "row")));
    const cJSON *pictures = json_get(expected, "pictures");
    assert_int_equal(r.picture_count, cJSON_GetArraySize(pictures));
    for (size_t k = 0; k < r.picture_count; k++) {
        char *text = describe(&r.pictures[k]);
        assert_string_equal(text, cJSON_GetArrayItem(pictures, (int)k)->valuestring);
        free(text);
    }
    parquet_row_release(&r);
}

// Compares the rows of one file: forwards, the pictures alone, backwards. Returns their number.
static int64_t check_file(const char *path, const char *rows)
{
    struct parquet p;
    struct err err;
    size_t size;
    char *text = file_read(rows, LIMIT, &size, &err);
    if (!text || parquet_open(&p, path, &err) < 0) fail_msg("%s", err.text);
    cJSON **expected = xcalloc((size_t)p.rows + 1, sizeof *expected);
    int64_t count = 0;
    for (char *at = text, *stop; *at; at = stop + 1, count++) {
        stop = strchr(at, '\n');
        assert_true(count < p.rows);
        expected[count] = json_parse(at, (size_t)(stop - at), rows, &err);
        assert_non_null(expected[count]);
    }
    assert_int_equal(count, p.rows);
    for (int64_t i = 0; i < count; i++) check_row(&p, i, PARQUET_ALL, expected[i]);
    for (int64_t i = 0; i < count; i++) check_row(&p, i, PARQUET_PICTURES, expected[i]);
    assert_true(p.block_count <= 256 + 9 * p.leaf_count); // every search visits all blocks
    parquet_release_pages(&p);
    for (int64_t i = count; i-- > 0;) check_row(&p, i, PARQUET_ALL, expected[i]);
    for (int64_t i = 0; i < count; i++) cJSON_Delete(expected[i]);
    free(expected);
    parquet_close(&p);
    free(text);
    return count;
}

static void test_rows(void **state)
{
    DIR *d = opendir(folder);
    assert_non_null(d);
    int files = 0;
    int64_t rows = 0;
    for (const struct dirent *e; (e = readdir(d));) {
        const size_t n = strlen(e->d_name);
        if (n < 6 || strcmp(e->d_name + n - 6, ".jsonl") != 0) continue;
        char *lines = xasprintf("%s/%s", folder, e->d_name);
        char *path = xasprintf("%s/%.*s.parquet", folder, (int)n - 6, e->d_name);
        rows += check_file(path, lines);
        files++;
        free(path);
        free(lines);
    }
    closedir(d);
    assert_true(files > 0);
    printf("%d files, %lld rows\n", files, (long long)rows);
}

// --- questions -----------------------------------------------------------------------------------

static void open_set(struct dataset *d, const char *name, const char *suite, const char *file)
{
    struct err err;
    char *path = xasprintf("%s/%s.parquet", folder, file);
    const struct eval_set *set = eval_set_need(name, &err);
    const struct set_way *way = set ? eval_set_way(set, suite, &err) : NULL;
    if (!way || eval_set_open(d, set, way, path, NULL, NULL, &err) < 0)
        fail_msg("%s: %s", file, err.text);
    free(path);
}

static void check_one(const char *set, const char *suite, const char *file, int64_t count,
                      int64_t row, struct expected x)
{
    struct dataset d;
    open_set(&d, set, suite, file);
    assert_int_equal(d.count, count);
    check_sample(&d, row, &x, 96, 2);
    dataset_close(&d);
}

// Expects the row's question to show the row's pictures with these numbers, in order; empty
// columns do not count, so "1" is the picture of column image_3.
static void check_shown(const char *suite, int64_t row, const char *shown)
{
    struct dataset d;
    struct sample s;
    struct err err;
    struct buf b = { 0 };
    open_set(&d, "mmmu-pro", suite, "mmmu_gap");
    if (dataset_read(&d, row, &s, &err) < 0) fail_msg("%s", err.text);
    const struct message *m = &s.dialogue.messages[0];
    for (size_t i = 0; i < m->content_count; i++)
        if (m->content[i].picture >= 0) buf_printf(&b, "%d", m->content[i].picture);
    assert_string_equal(b.data, shown);
    char *text = message_text(m);
    // In row 0, the mark of the picture whose column is empty stays text.
    assert_true(row || strstr(text, "but <image 2>?"));
    free(text);
    buf_release(&b);
    sample_release(&s);
    dataset_close(&d);
}

static void test_gap(void **state)
{
    check_shown("lmms-eval", 0, "01");
    check_shown("lmms-eval", 1, "1");
    check_shown("official", 0, "10");
    check_shown("official", 1, "1");
}

// Columns of pictures in the user's order: the one named first is picture 1 of the row.
static void test_ordered(void **state)
{
    static const char *const columns[] = { "picture=image_3,picture=image_1", "picture=image_1",
                                           "question=question" };
    static const char *const shown[] = { ".1 .0 ", ".0 ", ".0 .1 " };
    for (int i = 0; i < 3; i++) {
        struct dataset d;
        struct sample s;
        struct err err;
        struct buf b = { 0 };
        const struct eval_set *set = eval_set_need("mcq", &err);
        if (eval_set_open(&d, set, eval_set_way(set, NULL, &err),
                          "tests/core/sets/parquet/mmmu_gap.parquet", NULL, columns[i], &err) < 0 ||
            dataset_read(&d, 0, &s, &err) < 0)
            fail_msg("%s", err.text);
        for (size_t k = 0; k < s.dialogue.path_count; k++)
            buf_printf(&b, "%s ", strrchr(s.dialogue.paths[k], '.'));
        assert_string_equal(b.data, shown[i]);
        buf_release(&b);
        sample_release(&s);
        dataset_close(&d);
    }
}

static void test_questions(void **state)
{
    // Both shards are read, whichever is named.
    check_one("pope", "llava", "pope-00000-of-00002", 3, 2,
              (struct expected){ "2", "popular", "Is there a blue square in the image?" SHORT, "no",
                                 "", -1, 1 });
    check_one("pope", "llava", "pope-00001-of-00002", 3, 0,
              (struct expected){ "0", "adversarial", "Is there a red circle in the image?" SHORT,
                                 "yes", "", -1, 1 });
    check_one("mme", NULL, "mme", 4, 3,
              (struct expected){ "code_reasoning/0001.png", "code_reasoning", "Is this 3?" SHORT,
                                 "No", "", -1, 1 });
    check_one(
        "mmmu", NULL, "mmmu", 2, 0,
        (struct expected){ "validation_Art_Theory_1", "Art_Theory",
                           "<image 2> beside <image 1>: which?\nA. left\nB. it's right\n" LETTER,
                           "B", "left|it's right", 1, 2 });
    check_one("mmmu", NULL, "mmmu", 2, 1,
              (struct expected){ "validation_Math_2", "Math", "<image 1> How much?\n" SHORT, "3.5",
                                 "", -1, 1 });
    check_one("scienceqa", NULL, "scienceqa", 5, 3,
              (struct expected){ "3", "natural science",
                                 "Think.\nWhich is 3?\nA. one\nB. two\nC. three" LETTER, "B",
                                 "one|two|three", 1, 0 });
    check_one("scienceqa", NULL, "scienceqa", 5, 4,
              (struct expected){ "4", "natural science",
                                 "Think.\nWhich is 4?\nA. one\nB. two" LETTER, "A", "one|two", 0,
                                 1 });
    check_one("vqav2", NULL, "vqav2", 3, 1,
              (struct expected){ "262148001", "other", "What is 1?" SHORT,
                                 "circle|circle|circle|square|square|square|square|square|square|"
                                 "square",
                                 "", -1, 1 });
    check_one("seed", "lmms-eval", "seed", 3, 2,
              (struct expected){ "103", "2", "Which?\nA. x\nB. y\nC. z\nD. w" LETTER, "C",
                                 "x|y|z|w", 2, 2 });
    check_one("flickr30k", NULL, "flickr30k", 1, 0,
              (struct expected){ "7", "", "Provide a one-sentence caption for the provided image.",
                                 "three digits|some digits", "", -1, 1 });
    check_one("ai2d", NULL, "ai2d", 1, 0,
              (struct expected){ "0", "", "What eats?\nA. fox\nB. leaf\nC. sun\nD. rain" LETTER,
                                 "C", "fox|leaf|sun|rain", 2, 1 });
    check_one("mmlu", NULL, "mmlu", 1, 0,
              (struct expected){ "0", "abstract_algebra",
                                 "Find 1.\nA. 0\nB. 1\nC. 2\nD. 3\nAnswer:", "B", "0|1|2|3", 1,
                                 0 });
    check_one("hellaswag", NULL, "hellaswag", 1, 0,
              (struct expected){ "24", "activitynet~v_-JhWjGDPHMY",
                                 "Roof shingle removal: A man is sitting on a roof. He", "3",
                                 "is using wrap.|is ripping tiles.. Next he rests.|is holding a "
                                 "cube.|starts.",
                                 3, 0 });
}

// GQA's pictures are in a file beside the questions' file, in a different order.
static void test_gqa(void **state)
{
    static const char file[] = "testdev_balanced_instructions/testdev-00000-of-00001";
    struct dataset d;
    struct sample s[3];
    check_one("gqa", "lmms-eval", file, 3, 1,
              (struct expected){ "202", "", "What color?" SHORT, "red", "", -1, 1 });
    open_set(&d, "gqa", NULL, file);
    for (int i = 0; i < 3; i++) assert_int_equal(dataset_read(&d, i, &s[i], NULL), 0);
    assert_string_equal(strrchr(s[0].dialogue.paths[0], '#'), "#4.0");
    assert_string_equal(strrchr(s[1].dialogue.paths[0], '#'), "#3.0");
    assert_string_equal(s[0].dialogue.paths[0], s[2].dialogue.paths[0]);
    for (int i = 0; i < 3; i++) sample_release(&s[i]);
    dataset_close(&d);
}

// A question of MMLU is preceded by five examples of its subject (which has six).
static void test_examples(void **state)
{
#define ASK(i) "What is " i "?\nA. 0\nB. 1\nC. 2\nD. 3\nAnswer:"
    check_one("mmlu", NULL, "mmlu/test-00000-of-00001", 1, 0,
              (struct expected){
                  "0", "abstract_algebra",
                  "The following are multiple choice questions (with answers) about abstract "
                  "algebra.\n\n" ASK("0") " A\n\n" ASK("2") " C\n\n" ASK("3") " D\n\n" ASK(
                      "4") " A\n\n" ASK("5") " B\n\nFind 1.\nA. 0\nB. 1\nC. 2\nD. 3\nAnswer:",
                  "B", "0|1|2|3", 1, 0 });
}

// The questions about one picture form one group (MME's accuracy+).
static void test_groups(void **state)
{
    struct dataset d;
    struct sample s[3];
    open_set(&d, "mme", NULL, "mme");
    for (int i = 0; i < 3; i++) assert_int_equal(dataset_read(&d, i, &s[i], NULL), 0);
    assert_string_equal(s[0].group, s[1].group);
    assert_string_not_equal(s[1].group, s[2].group);
    for (int i = 0; i < 3; i++) sample_release(&s[i]);
    assert_null(eval_set_hash(&d)); // the caller hashes the file
    dataset_close(&d);
    open_set(&d, "pope", NULL, "pope-00001-of-00002");
    assert_int_equal(strlen(eval_set_hash(&d)), HASH_HEX - 1); // hash of both shards
    dataset_close(&d);
}

// --- refusals ------------------------------------------------------------------------------------

static void check_refused(const char *path, const char *why)
{
    struct err err = { 0 };
    struct dataset d;
    struct sample s;
    const struct eval_set *set = eval_set_need("pope", &err);
    int status = eval_set_open(&d, set, set->ways, path, NULL, NULL, &err);
    if (status == 0) {
        status = dataset_read(&d, 0, &s, &err);
        sample_release(&s);
        dataset_close(&d);
    }
    assert_int_equal(status, -1);
    if (!strstr(err.text, why)) fail_msg("'%s' does not say '%s'", err.text, why);
}

static char *scratch;

static char *write_bytes(const char *name, const void *bytes, size_t size)
{
    char *path = xasprintf("%s/%s", scratch, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    fclose(f);
    return path;
}

static void test_refused(void **state)
{
    struct err err;
    size_t size;
    check_refused("tests/core/sets/parquet/refused-gzip.parquet",
                  "column 'question': it is compressed with gzip, which is not supported");
    check_refused(
        "tests/core/sets/parquet/refused-delta.parquet",
        "column 'answer': it has the encoding DELTA_BINARY_PACKED, which is not supported");
    check_refused("tests/core/sets/parquet/refused-nothing.parquet", "only: x, y");
    char *bytes = file_read("tests/core/sets/parquet/mmmu.parquet", LIMIT, &size, &err);
    assert_non_null(bytes);
    // An incomplete download.
    char *path = write_bytes("cut.parquet", bytes, size / 2);
    check_refused(path, "does not end with PAR1 (is the download complete?)");
    free(path);
    path = write_bytes("short.parquet", bytes, 6);
    check_refused(path, "too short");
    free(path);
    // A shard without the other one.
    path = write_bytes("alone-00000-of-00002.parquet", bytes, size);
    check_refused(path, "is one of 2 files: cannot");
    free(path);
    memcpy(bytes + size - 4, "PARE", 4);
    path = write_bytes("secret.parquet", bytes, size);
    check_refused(path, "is encrypted");
    free(path);
    memcpy(bytes + size - 8, "\xFF\xFF\xFF\x7FPAR1", 8);
    path = write_bytes("footer.parquet", bytes, size);
    check_refused(path, "footer is larger than the file");
    free(path);
    free(bytes);
}

// A zero byte would end a text early: only that row is an error.
static void test_zero_byte(void **state)
{
    struct err err;
    struct dataset d;
    struct sample s;
    size_t size;
    char *bytes = file_read("tests/core/sets/parquet/vqav2.parquet", LIMIT, &size, &err);
    assert_non_null(bytes);
    // The zero byte is in statistics, a dictionary or a page.
    for (char *at; (at = memmem(bytes, size, "What is 2?", 10));) at[4] = 0;
    char *path = write_bytes("zero.parquet", bytes, size);
    const struct eval_set *set = eval_set_need("vqav2", &err);
    assert_int_equal(eval_set_open(&d, set, set->ways, path, NULL, NULL, &err), 0);
    int64_t refused = 0;
    for (int64_t i = 0; i < d.count; i++) {
        if (dataset_read(&d, i, &s, &err) < 0) {
            refused++;
            assert_non_null(strstr(err.text, "column 'question' of row"));
            assert_non_null(strstr(err.text, "zero byte"));
        }
        sample_release(&s);
    }
    assert_true(refused > 0 && refused < d.count);
    dataset_close(&d);
    free(path);
    free(bytes);
}

// --- small files that demand much time or memory -------------------------------------------------

static size_t put_varint(unsigned char *to, uint32_t v)
{
    size_t n = 0;
    for (; v > 127; v >>= 7) to[n++] = (unsigned char)(v | 128);
    to[n++] = (unsigned char)v;
    return n;
}

// A list of maps of booleans in an unknown field of the footer. Elements that take no bytes would
// make the time grow with the square of the size (30 s for 240 kB).
static void test_empty_elements(void **state)
{
    enum { MAPS = 30000 };
    struct err err;
    size_t size;
    uint32_t length;
    char *bytes = file_read("tests/core/sets/parquet/mme.parquet", LIMIT, &size, &err);
    assert_non_null(bytes);
    memcpy(&length, bytes + size - 8, sizeof length);
    unsigned char *all = xcalloc(size + 64 + (size_t)MAPS * 8, 1);
    size_t n = size - 8 - 1; // before the byte that ends the footer
    memcpy(all, bytes, n);
    memcpy(all + n, "\x09\x64\xFB", 3); // field 50: a list of maps
    n += 3;
    n += put_varint(all + n, MAPS);
    for (uint32_t i = 0; i < MAPS; i++) {
        n += put_varint(all + n, (MAPS - i) * 3);
        all[n++] = 0x11;
    }
    all[n++] = 0;
    length = (uint32_t)(n - (size - 8 - length));
    memcpy(all + n, &length, sizeof length);
    memcpy(all + n + sizeof length, "PAR1", 4);
    char *path = write_bytes("maps.parquet", all, n + 8);
    check_refused(path, "its footer cannot be read");
    free(path);
    free(all);
    free(bytes);
}

// The header of a page of version 1 also has sizes of levels, which only version 2 has.
static void test_foreign_levels(void **state)
{
    static const char bytes[] =
        "PAR1\x15\x00\x15\x0C\x15\x0C,\x15\x02\x15\x00\x15\x06\x15\x06\x00<\x15\x02\x35"
        "\x00\x15\x80\x80\x80\x80\x04\x15\x80\x80\x80\x80\x04\x12\x00\x00\x02\x00\x00\x00"
        "hi\x15\x02\x19,5\x00\x18\x06schema\x15\x02\x00\x15\x0C%\x00\x18\x08question%\x00"
        "\x00\x16\x02\x19\x1C\x19\x1C<\x15\x0C\x35\x00\x16\x02&T&\x08\x00\x00&\x02\x00"
        "\x00\x39\x00\x00\x00PAR1";
    struct err err;
    struct parquet p;
    struct parquet_row r;
    char *path = write_bytes("levels.parquet", bytes, sizeof bytes - 1);
    assert_int_equal(parquet_open(&p, path, &err), 0);
    assert_int_equal(parquet_row_read(&p, 0, PARQUET_ALL, &r, &err), 0);
    assert_string_equal(cJSON_GetStringValue(json_get(r.json, "question")), "hi");
    parquet_row_release(&r);
    parquet_close(&p);
    free(path);
}

// A row is a list of 1200000 objects, each of whose member is absent and has a name of 40 bytes.
static void test_absent_members(void **state)
{
    static const char bytes[] =
        "PAR1\x15\x00\x15(\x15(,\x15\x80\xBE\x92\x01\x15\x00\x15\x06\x15\x06\x00\x00\x07"
        "\x00\x00\x00\x02\x00\xFE\xBD\x92\x01\x01\x05\x00\x00\x00\x80\xBE\x92\x01\x03\x15"
        "\x02\x19\x5C\x35\x00\x18\x06schema\x15\x02\x00\x35\x02\x18\x07\x61nswers\x15\x02"
        "\x15\x06\x00\x35\x04\x18\x04list\x15\x02\x00\x35\x02\x18\x07\x65lement\x15\x02"
        "\x00\x15\x02%\x02\x18(nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn\x00\x16\x02\x19"
        "\x1C\x19\x1C<\x15\x02\x35\x00\x16\x80\xBE\x92\x01&P&\x08\x00\x00&\x02\x00\x00"
        "\x83\x00\x00\x00PAR1";
    struct err err;
    struct parquet p;
    struct parquet_row r;
    char *path = write_bytes("absent.parquet", bytes, sizeof bytes - 1);
    assert_int_equal(parquet_open(&p, path, &err), 0);
    assert_int_equal(parquet_row_read(&p, 0, PARQUET_ALL, &r, &err), -1);
    assert_non_null(strstr(err.text, "row 0 without its pictures exceeds 64 MB"));
    parquet_row_release(&r);
    parquet_close(&p);
    free(path);
}

// A footer of 1 GB, all zero bytes, that claims to have as many columns.
static void test_many_columns(void **state)
{
    static const uint32_t length = 1 << 30;
    unsigned char head[16] = "PAR1\x29\xFC"; // field 2: a list of structs
    const size_t n = 6 + put_varint(head + 6, length - 100);
    char *path = write_bytes("wide.parquet", head, n);
    FILE *f = fopen(path, "r+b"); // most of the file is a hole
    assert_non_null(f);
    assert_int_equal(fseek(f, (long)length + 4, SEEK_SET), 0);
    fwrite(&length, sizeof length, 1, f);
    fwrite("PAR1", 4, 1, f);
    assert_int_equal(fclose(f), 0);
    check_refused(path, "its footer cannot be read");
    assert_int_equal(remove(path), 0);
    free(path);
}

// A block of pages that refer to a dictionary decodes it, so it holds several small pages.
static void test_small_pages(void **state)
{
    struct err err;
    struct parquet p;
    assert_int_equal(parquet_open(&p, "tests/core/sets/parquet/coded.parquet", &err), 0);
    for (int64_t i = 0; i < p.rows; i++) {
        struct parquet_row r;
        char text[32];
        snprintf(text, sizeof text, "%d of a dictionary", (int)(i % 50));
        assert_int_equal(parquet_row_read(&p, i, PARQUET_ALL, &r, &err), 0);
        assert_string_equal(cJSON_GetStringValue(json_get(r.json, "q")), text);
        parquet_row_release(&r);
    }
    assert_int_equal(p.groups[0].chunks[0].page_count, 19);
    assert_true(p.block_count < 10);
    parquet_close(&p);
}

// Files of a few bytes have a row of a million expressions each.
static void test_many_expressions(void **state)
{
    enum { FILES = 17 };
    static const char bytes[] =
        "PAR1\x15\x00\x15$\x15$,\x15\x80\x89z\x15\x00\x15\x06\x15\x06\x00\x00\x06\x00\x00"
        "\x00\x02\x00\xFE\x88z\x01\x04\x00\x00\x00\x80\x89z\x02\x15\x00\x15\x08\x15\x08,"
        "\x15\x02\x15\x00\x15\x06\x15\x06\x00\x00\x01\x00\x00\x00\x15\x00\x15\x08\x15\x08"
        ",\x15\x02\x15\x00\x15\x06\x15\x06\x00\x00\x01\x00\x00\x00\x15\x02\x19l5\x00\x18"
        "\x06schema\x15\x06\x00\x35\x02\x18\x06\x61nswer\x15\x02\x15\x06\x00\x35\x04\x18"
        "\x04list\x15\x02\x00\x15\x0C%\x02\x18\x07\x65lement%\x00\x00\x15\x02%\x00\x18"
        "\x04\x62\x62ox\x00\x15\x02%\x00\x18\x04text\x00\x16\x02\x19\x1C\x19<<\x15\x0C"
        "\x35\x00\x16\x80\x89z&J&\x08\x00\x00<\x15\x02\x35\x00\x16\x02&*&R\x00\x00<\x15"
        "\x02\x35\x00\x16\x02&*&|\x00\x00&\x02\x00\x00\x84\x00\x00\x00PAR1";
    struct err err;
    struct dataset d;
    for (int i = 0; i < FILES; i++) {
        char name[32];
        snprintf(name, sizeof name, "many%02d.parquet", i);
        free(write_bytes(name, bytes, sizeof bytes - 1));
    }
    char *pattern = xasprintf("%s/many*.parquet", scratch);
    const struct eval_set *set = eval_set_need("refcoco", &err);
    assert_int_equal(eval_set_open(&d, set, set->ways, pattern, NULL, NULL, &err), -1);
    assert_non_null(strstr(err.text, "has more than 16777216 questions"));
    free(pattern);
}

static bool is_question(const char *name)
{
    return !strcmp(name, "question");
}

static void test_columns_left_out(void **state)
{
    struct err err;
    struct parquet p;
    struct parquet_row r;
    assert_int_equal(parquet_open(&p, "tests/core/sets/parquet/mme.parquet", &err), 0);
    parquet_leave_out(&p, is_question);
    assert_int_equal(parquet_row_read(&p, 0, PARQUET_ALL, &r, &err), 0);
    assert_non_null(json_get(r.json, "question"));
    assert_false(cJSON_HasObjectItem(r.json, "answer") || cJSON_HasObjectItem(r.json, "category"));
    assert_int_equal(r.picture_count, 1);
    assert_int_equal(p.block_count, 3); // the question, the picture's bytes and path
    parquet_row_release(&r);
    parquet_close(&p);
}

static struct parquet_block *add_block(struct parquet *p, size_t leaf, uint64_t bytes)
{
    struct parquet_block *b = xcalloc(1, sizeof *b);
    b->leaf = leaf;
    b->bytes = bytes;
    p->blocks = xreallocarray(p->blocks, p->block_count + 1, sizeof(struct parquet_block *));
    p->blocks[p->block_count++] = b;
    return b;
}

// The pages of a row may take 1 GB together; pages of other rows are dropped for them.
static void test_together(void **state)
{
    struct err err;
    struct parquet p;
    struct parquet_row r;
    assert_int_equal(parquet_open(&p, "tests/core/sets/parquet/mme.parquet", &err), 0);
    p.clock = 100;
    add_block(&p, 0, PARQUET_MAX_BYTES)->used = p.clock - 1;
    assert_int_equal(parquet_row_read(&p, 0, PARQUET_ALL, &r, &err), 0);
    parquet_row_release(&r);
    for (size_t i = 0; i < p.block_count; i++) assert_true(p.blocks[i]->bytes < PARQUET_MAX_BYTES);
    parquet_release_pages(&p);
    add_block(&p, 0, PARQUET_MAX_BYTES)->used = p.clock + 1; // a block of the row being read
    assert_int_equal(parquet_row_read(&p, 0, PARQUET_ALL, &r, &err), -1);
    assert_non_null(strstr(err.text, "take 1024 MB together, but at most 1024 MB are supported"));
    parquet_row_release(&r);
    parquet_close(&p);
}

// A row without its pictures may take 64 MB: a dictionary could repeat a long text in every item of
// a list.
static void test_large_row(void **state)
{
    struct err err;
    struct parquet p;
    struct parquet_row r;
    size_t leaf = 0;
    assert_int_equal(parquet_open(&p, "tests/core/sets/parquet/mme.parquet", &err), 0);
    while (strcmp(p.nodes[p.leaves[leaf]].name, "question") != 0) leaf++;
    struct parquet_block *b = add_block(&p, leaf, 0);
    char *text = xcalloc(PARQUET_MAX_ROW + 1, 1);
    memset(text, 'a', PARQUET_MAX_ROW);
    b->rows = 1;
    b->count = 1;
    b->def = xcalloc(1, 1);
    b->def[0] = 1;
    b->values = xcalloc(1, sizeof *b->values);
    b->values->bytes.at = text;
    b->values->bytes.size = PARQUET_MAX_ROW;
    assert_int_equal(parquet_row_read(&p, 0, PARQUET_ALL, &r, &err), -1);
    assert_non_null(strstr(err.text, "row 0 without its pictures exceeds 64 MB"));
    parquet_row_release(&r);
    parquet_close(&p);
    free(text);
}

// Ctrl-C ends the reading of a long footer and of a row with many bytes; a small file is still
// read.
static void test_cancelled(void **state)
{
    enum { ITEMS = 1 << 20 };
    static const atomic_bool pressed = true;
    struct err err;
    struct parquet p;
    struct parquet_row r;
    unsigned char *all = xcalloc(ITEMS + 64, 1);
    size_t n = 7;
    memcpy(all, "PAR1\x99\xFB", 6); // field 9: a list of maps, each of one byte
    n = 6 + put_varint(all + 6, ITEMS);
    n += ITEMS + 1;
    const uint32_t length = (uint32_t)n - 4;
    memcpy(all + n, &length, sizeof length);
    memcpy(all + n + sizeof length, "PAR1", 4);
    char *path = write_bytes("long.parquet", all, n + 8);
    check_refused(path, "its footer cannot be read");
    cancel_watch(&pressed, NULL);
    check_refused(path, "cancelled");
    assert_int_equal(parquet_open(&p, "tests/core/sets/parquet/mme.parquet", &err), 0);
    assert_int_equal(parquet_row_read(&p, 0, PARQUET_ALL, &r, &err), 0);
    parquet_row_release(&r);
    parquet_release_pages(&p);
    p.row_bytes = PARQUET_MAX_BYTES;
    assert_null(parquet_block(&p, 0, 0, 0, &err));
    assert_non_null(strstr(err.text, "cancelled"));
    cancel_unwatch(&pressed);
    assert_non_null(parquet_block(&p, 0, 0, 0, &err));
    parquet_close(&p);
    free(path);
    free(all);
}

// Changes every byte of a file in turn: the file is read or refused, and nothing crashes.
static void test_damaged(void **state)
{
    struct err err;
    size_t size;
    int refused = 0;
    char *bytes = file_read("tests/core/sets/parquet/scienceqa.parquet", LIMIT, &size, &err);
    assert_non_null(bytes);
    for (size_t i = 0; i < size; i++) {
        const char kept = bytes[i];
        bytes[i] = (char)(kept ^ (1 + (int)(i * 37 % 255)));
        char *path = write_bytes("damaged.parquet", bytes, size);
        struct parquet p;
        bool good = parquet_open(&p, path, &err) == 0;
        for (int64_t row = 0; good && row < p.rows && row < 5; row++) {
            struct parquet_row r;
            if (parquet_row_read(&p, row, PARQUET_ALL, &r, &err) < 0) good = false;
            parquet_row_release(&r);
        }
        parquet_close(&p);
        refused += !good;
        bytes[i] = kept;
        free(path);
    }
    assert_true(refused > 100);
    free(bytes);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest all[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_questions),
        cmocka_unit_test(test_gap),
        cmocka_unit_test(test_ordered),
        cmocka_unit_test(test_examples),
        cmocka_unit_test(test_gqa),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_zero_byte),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_empty_elements),
        cmocka_unit_test(test_foreign_levels),
        cmocka_unit_test(test_absent_members),
        cmocka_unit_test(test_many_columns),
        cmocka_unit_test(test_small_pages),
        cmocka_unit_test(test_many_expressions),
        cmocka_unit_test(test_columns_left_out),
        cmocka_unit_test(test_together),
        cmocka_unit_test(test_large_row),
        cmocka_unit_test(test_cancelled),
    };
    const struct CMUnitTest rows[] = { cmocka_unit_test(test_rows) };
    if (argc > 1) folder = argv[1];
    scratch = scratch_new();
    const int failed = argc > 1 ? cmocka_run_group_tests(rows, NULL, NULL)
                                : cmocka_run_group_tests(all, NULL, NULL);
    scratch_remove(scratch);
    return failed;
}
