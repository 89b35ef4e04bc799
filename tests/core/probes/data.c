// tests/core/probes/data.c -- core/probes/results_mean.c, results_write.c, measure_data.c, masks.c,
// interface.c on folders that are not complete models, core/draw/heatmap.c.
#include <sys/stat.h>

#include "core/base/csv.h"
#include "core/base/file_in.h"
#include "core/draw/heatmap.h"
#include "core/draw/ramp.h"
#include "core/probes/interface.h"
#include "core/probes/masks.h"
#include "tests/core/probes/probe.h"
#include "tests/device.h"

static char folder[256];

static char *write_text(const char *name, const char *text)
{
    static char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    return path;
}

static void means_are_by_cell(void **state)
{
    struct results_mean m = { 0 };
    struct results mean = { 0 }, kept = { 0 };
    for (int i = 0; i < 2; i++) {
        struct results r = { 0 };
        struct result_table *t = results_table(&r, "t", "key|a|b");
        result_row(t, "x")[0] = i ? 3 : 1;
        if (i) result_row(t, "y")[1] = 7; // missing in the first sample
        t = results_table(&r, "mine", "key|a");
        t->own = true;
        t = results_table(&r, "tokens", "row|phi");
        t->own = t->kept = true;
        for (int k = 0; k <= i; k++) result_row(t, "%d", k)[0] = 10 * i + k;
        struct result_map *map = results_map(&r, "m", 1, 2);
        map->values[0] = (float)i;
        map->area[2] = 4;
        results_map(&r, "n", 1, 1)->area[2] = 4 + i;
        results_mean_add(&m, &r);
        results_keep(&kept, &r, 5 + i);
        results_release(&r);
    }
    results_mean_take(&m, &mean);
    assert_null(results_find(&mean, "tokens"));
    results_move_tables(&mean, &kept);
    const struct result_table *tokens = results_find(&mean, "tokens");
    assert_int_equal(tokens->row_count, 3); // one row of the first sample, two of the second
    assert_string_equal(tokens->columns[2], "sample");
    assert_string_equal(tokens->rows[2].key, "1");
    assert_true(tokens->rows[0].value[0] == 0 && tokens->rows[0].value[1] == 5);
    assert_true(tokens->rows[2].value[0] == 11 && tokens->rows[2].value[1] == 6);
    assert_true(*results_value(&mean, "t", "x", "a") == 2);
    assert_true(*results_value(&mean, "t.std", "x", "a") == 1);
    assert_true(*results_value(&mean, "t", "y", "b") == 7);
    // 2 +- 12.706 standard errors, of two numbers; one number has no interval.
    assert_float_equal(*results_value(&mean, "t.interval", "x", "a low"), 2 - 12.706204736, 1e-8);
    assert_float_equal(*results_value(&mean, "t.interval", "x", "a high"), 2 + 12.706204736, 1e-8);
    assert_true(isnan(*results_value(&mean, "t.interval", "y", "b low")));
    assert_true(isnan(*results_value(&mean, "t", "x", "b")));
    assert_null(results_find(&mean, "mine"));
    assert_true(mean.maps[0].values[0] == 0.5f);
    assert_true(isnan(mean.maps[0].values[1]));
    assert_true(mean.maps[0].area[2] == 4 && mean.maps[1].area[2] == 0); // in pictures of two sizes
    struct buf b = { 0 };
    results_json(&mean, &b);
    cJSON *json = cJSON_Parse(b.data);
    assert_non_null(json);
    cJSON_Delete(json);
    buf_release(&b);
    results_release(&mean);
}

static void keep_notice(void *self, const struct event *e)
{
    if (e->kind == EVENT_NOTICE) buf_printf(self, "%s\n", e->text);
}

static void check_csv(const char *name, const char *columns, const char *first)
{
    struct csv t;
    struct err err = { 0 };
    struct buf b = { 0 };
    char *path = xasprintf("%s/%s", folder, name);
    must(csv_read(&t, path, &err), &err); // refuses rows of different widths
    for (int i = 0; i < t.column_count; i++) buf_printf(&b, i ? ",%s" : "%s", t.columns[i]);
    assert_string_equal(b.data, columns);
    buf_clear(&b);
    for (int i = 0; i < t.column_count; i++) buf_printf(&b, i ? ",%s" : "%s", csv_cell(&t, 0, i));
    assert_string_equal(b.data, first);
    buf_release(&b);
    csv_release(&t);
    free(path);
}

// A single table is written to the named file; of several tables and maps, each table and all maps
// together get a file, and a notice names each file.
static void tables_are_files(void **state)
{
    struct results r = { 0 };
    struct err err = { 0 };
    struct sinks sinks = { 0 };
    struct buf told = { 0 };
    char path[300];
    sinks_add(&sinks, (struct sink){ .emit = keep_notice, .self = &told });
    result_row(results_table(&r, "a.one", "layer|x, y"), "%d", 0)[0] = 0.5;
    snprintf(path, sizeof path, "%s/single.csv", folder);
    must(results_write_csv(&r, path, &sinks, &err), &err);
    check_csv("single.csv", "layer,x, y", "0,0.5");
    result_row(results_table(&r, "b/two", "what|p|q"), "n \"m\"")[1] = -1;
    result_row(results_table(&r, "b/two", "what|p"), "same")[0] = 3;
    results_map(&r, "m", 1, 2)->values[1] = 2;
    snprintf(path, sizeof path, "%s/many.csv", folder);
    must(results_write_csv(&r, path, &sinks, &err), &err);
    check_csv("many-a.one.csv", "layer,x, y", "0,0.5");
    check_csv("many-b_two.csv", "what,p,q", "n \"m\",,-1");
    check_csv("many-b_two-2.csv", "what,p", "same,3");
    check_csv("many-maps.csv", "map,picture,tile,layer,head,token,row,column,value,dropped",
              "m,-1,,-1,-1,-1,0,0,,0");
    assert_int_equal(access(path, F_OK), -1);
    static const char *const files[] = { "single.csv'", "many-a.one.csv'", "many-b_two.csv'",
                                         "many-b_two-2.csv'", "many-maps.csv'" };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        assert_non_null(strstr(told.data, files[i]));
    snprintf(path, sizeof path, "%s/no/x.csv", folder);
    assert_int_equal(results_write_csv(&r, path, &sinks, &err), -1);
    // If one file cannot be written, none is, and existing ones stay.
    r.tables[0]->rows[0].value[0] = 7;
    snprintf(path, sizeof path, "%s/many-b_two.csv", folder);
    FILE *f = fopen(path, "a"); // changed by somebody else: refused
    fputs("a note\n", f);
    fclose(f);
    snprintf(path, sizeof path, "%s/many.csv", folder);
    assert_int_equal(results_write_csv(&r, path, &sinks, &err), -1);
    check_csv("many-a.one.csv", "layer,x, y", "0,0.5");
    // Several tables cannot be written to a special file or beside it.
    snprintf(path, sizeof path, "%s/pipe", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(results_write_csv(&r, path, &sinks, &err), -1);
    assert_non_null(strstr(err.text, "is not a regular file, and 4 tables need one file each"));
    snprintf(path, sizeof path, "%s/pipe-a.one.csv", folder);
    assert_int_equal(access(path, F_OK), -1);
    buf_release(&told);
    results_release(&r);
}

static void samples_are_averaged_and_broken_ones_left_out(void **state)
{
    char text[2048], cwd[1024];
    struct golden g;
    struct err err = { 0 };
    struct results r = { 0 }, one = { 0 };
    assert_non_null(getcwd(cwd, sizeof cwd));
    snprintf(text, sizeof text,
             "[{\"id\":\"a\",\"image\":\"%s/tests/goldens/pictures/scene.png\",\"conversations\":["
             "{\"from\":\"human\",\"value\":\"<image>\\nWhat?\"},{\"from\":\"gpt\",\"value\":\"A "
             "scene\"}]},{\"id\":\"b\",\"image\":\"none.png\",\"conversations\":[{\"from\":"
             "\"human\",\"value\":\"<image>\\nWhat?\"},{\"from\":\"gpt\",\"value\":\"x\"}]}]",
             cwd);
    const char *path = write_text("data.json", text);
    golden_open(&g, models[0]);
    must(engine_set(g.engine, "sample.max_tokens", "4", &err), &err);
    const double box[4] = { 0, 0, 16, 16 };
    struct measure_request request = {
        .probe = &probe_dice, .options = probe_defaults, .set.data = path, .limit = 10
    };
    request.options.box = box;
    must(engine_measure(g.engine, &request, &r, &err), &err);
    const struct result_table *t = results_find(&r, "dice.samples");
    assert_int_equal(t->row_count, 1);
    assert_true(t->rows[0].value[0] == results_find(&r, "dice")->rows[0].value[0]);
    assert_true(t->rows[0].value[1] == 0 || t->rows[0].value[1] == 1);
    assert_int_equal(r.note_count, 2); // the number of samples, and of those left out
    results_release(&r);
    // The current conversation is a separate one and does not change.
    assert_int_equal(engine_conversation(g.engine)->message_count, 0);
    // With the data's answers, rows of the answer exist without generating any.
    request.probe = &probe_sink_ratio;
    request.given = true;
    must(engine_measure(g.engine, &request, &r, &err), &err);
    assert_true(isnan(results_find(&r, "sink-ratio.samples")->rows[0].value[1]));
    results_release(&r);
    request.set.data = write_text("empty.json", "[]");
    assert_int_equal(engine_measure(g.engine, &request, &one, &err), -1);
    results_release(&one);
    golden_close(&g);
}

// Returns the mask that a file of objects gives for a picture of 6 x 4 pixels, as rows of '#' and
// '.', or the error.
static char *mask_of(const char *file, const char *picture, const char *text, bool boxes)
{
    struct masks m;
    struct err err = { 0 };
    struct image mask;
    struct buf b = { 0 };
    const struct masks_query query = { picture, text, 6, 4, boxes, false, false };
    must(masks_open(&m, file, &err), &err);
    if (masks_read(&m, &query, &mask, &err) < 0) {
        buf_puts(&b, err.text);
    } else {
        for (int64_t i = 0; i < mask.width * mask.height; i++)
            buf_printf(&b, "%s%c", i && i % mask.width == 0 ? "/" : "",
                       mask.pixels[i * 3] ? '#' : '.');
        image_release(&mask);
    }
    masks_close(&m);
    return buf_take(&b);
}

static void check_mask(const char *file, const char *picture, const char *text, bool boxes,
                       const char *want)
{
    char *got = mask_of(file, picture, text, boxes);
    const bool wrong = strpbrk(want, "#") ? strcmp(got, want) != 0 : !strstr(got, want);
    if (wrong) fail_msg("%s, '%s': %s, not %s", picture, text, got, want);
    free(got);
}

static void check_names(const char *file, const char *picture, const char *want)
{
    struct masks m;
    struct err err = { 0 };
    struct buf b = { 0 };
    size_t count;
    must(masks_open(&m, file, &err), &err);
    char **names = masks_names(&m, picture, &count);
    for (size_t i = 0; i < count; i++) {
        buf_printf(&b, "%s;", names[i]);
        free(names[i]);
    }
    free(names);
    masks_close(&m);
    char *got = buf_take(&b);
    assert_string_equal(got ? got : "", want);
    free(got);
}

static void masks_follow_the_text(void **state)
{
    static const char line[] =
        "{\"image\": \"pictures/1.png\", \"objects\": [{\"name\": \"red circle\", \"mask\": "
        "{\"size\": [2, 3], \"counts\": [1, 2, 3]}}, {\"name\": \"blue square\", \"mask\": "
        "{\"size\": [2, 3], \"counts\": [0, 1, 5]}}]}\n"
        "{\"image\": \"2.png\", \"objects\": [{\"name\": \"a\", \"mask\": {\"size\": [2, 3], "
        "\"counts\": [1, 6]}}]}\n"
        "{\"image\": \"3.png\", \"objects\": [{\"name\": \"a\", \"mask\": {\"size\": [1e9, 1e9], "
        "\"counts\": [1]}}]}\n"
        "{\"image\": \"4.png\", \"objects\": [{\"name\": \"a\", \"mask\": {\"size\": [2, 3], "
        "\"counts\": [-1]}}]}\n"
        "{\"image\": \"5.png\", \"objects\": []}\n"
        "{\"image\": \"7.png\", \"objects\": [{\"name\": \"a\", \"box\": [1, 1, 2, 3]}, "
        "{\"name\": \"b\", \"polygon\": [4, 0, 6, 0, 6, 2, 4, 2]}]}\n"
        "{\"image\": \"8.png\", \"objects\": [{\"box\": [6, 0, 2, 2]}]}\n"
        "{\"image\": \"9.png\", \"objects\": [{\"name\": \"a\"}]}\n"
        "{\"image\": \"10.png\", \"objects\": [{\"box\": [1, 1, 0, 2]}]}\n"
        "{\"image\": \"11.png\", \"objects\": [{\"polygon\": [1, 1, 2, 2]}]}\n";
    struct masks m;
    struct err err = { 0 };
    const char *file = write_text("objects.jsonl", line);
    // Runs go down the columns: column 0 row 1, column 1 row 0.
    check_mask(file, "x/1.png", "Is there a Red Circle?", false, ".#./#..");
    check_mask(file, "1.png", "What is this?", false, "##./#.."); // all objects
    check_names(file, "1.png", "red circle;blue square;");
    check_names(file, "8.png", "");
    check_names(file, "none.png", "");
    for (int i = 2; i <= 4; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d.png", i);
        check_mask(file, name, "", false, i == 3 ? "pixels" : "not a run list");
    }
    check_mask(file, "5.png", "", false, "lists no objects");
    check_mask(file, "6.png", "", false, "does not list the picture");
    check_mask(file, "7.png", "", false, "....##/.##.##/.##.../.##...");
    check_mask(file, "7.png", "b?", false, "....##/....##/....../......");
    check_mask(file, "7.png", "b?", true, "has no box");
    check_mask(file, "8.png", "", false, "cover none of its 6 x 4 pixels");
    check_mask(file, "9.png", "", false, "no mask, polygon or box");
    check_mask(file, "10.png", "", false, "left, top, width and height");
    check_mask(file, "11.png", "", false, "three points");
    assert_int_equal(masks_open(&m, write_text("no.jsonl", "{\"a\": 1}\n"), &err), -1);
    masks_close(&m);
}

// Polygons of several parts, both kinds of run lists, boxes; the question's category name selects
// objects.
static void coco_instances_are_masks(void **state)
{
    static const char json[] =
        "{\"info\": {}, \"images\": [{\"id\": 9, \"file_name\": \"a.jpg\", \"width\": 6, "
        "\"height\": "
        "4}, {\"id\": 10, \"file_name\": \"b.jpg\", \"width\": 3, \"height\": 2}, {\"id\": 11, "
        "\"file_name\": \"c.jpg\"}], \"annotations\": [{\"image_id\": 9, \"category_id\": 1, "
        "\"bbox\": [0, 0, 6, 2], \"segmentation\": [[0, 0, 2, 0, 2, 2, 0, 2], [5, 0, 6, 0, "
        "6, 1, 5, 1]], \"iscrowd\": 0}, {\"image_id\": 9, \"category_id\": 2, \"bbox\": [1, 2, "
        "3, 1], \"segmentation\": []}, {\"image_id\": 10, \"category_id\": 1, \"segmentation\":"
        " {\"size\": [2, 3], \"counts\": [1, 2, 3]}}, {\"image_id\": 11, \"category_id\": 2, "
        "\"segmentation\": {\"size\": [4, 6], \"counts\": \"52203ON0N00\"}}, {\"image_id\": 10, "
        "\"category_id\": 2, \"segmentation\": {\"size\": [2, 3], \"counts\": \"x\"}}], "
        "\"categories\": [{\"id\": 1, \"name\": \"dog\"}, {\"id\": 2, \"name\": \"cat\"}]}";
    const char *file = write_text("instances.json", json);
    check_mask(file, "val/a.jpg", "Is there a dog?", false, "##...#/##..../....../......");
    check_mask(file, "a.jpg", "Is there a dog?", true, "######/######/....../......");
    check_mask(file, "a.jpg", "?", false, "##...#/##..../.###../......");
    check_mask(file, "b.jpg", "A dog", false, ".#./#..");
    check_mask(file, "b.jpg", "A cat", false, "not a run list");
    // As written by pycocotools.
    check_mask(file, "c.jpg", "?", false, "....##/.##.../.##..#/......");
    check_mask(file, "d.jpg", "?", false, "does not list the picture 'd.jpg'");
    struct masks m;
    struct image mask;
    struct err err = { 0 };
    must(masks_open(&m, file, &err), &err);
    const struct masks_query query = { .picture = "a.jpg", .text = "bird", .named = true };
    assert_int_equal(masks_read(&m, &query, &mask, &err), -1);
    assert_non_null(strstr(err.text, "lists no object 'bird' of 'a.jpg': it has dog, cat"));
    masks_close(&m);
}

// Each takes half a minute if the time per object depends on the file's or the picture's size.
static void many_objects_are_masks(void **state)
{
    enum { COUNT = 60000, SIDE = 5500 };
    struct buf b = { 0 };
    struct masks m;
    struct image mask;
    struct err err = { 0 };
    for (int i = 0; i < COUNT; i++) buf_printf(&b, "%s\"%d\": 1", i ? ", " : "{", i);
    buf_puts(&b, ", \"images\": [{\"id\": 1, \"file_name\": \"a.jpg\"}], \"annotations\": [");
    for (int i = 0; i < COUNT; i++)
        buf_printf(&b, "%s{\"image_id\": 1, \"bbox\": [0, 0, 1, 1]}", i ? ", " : "");
    buf_puts(&b, "]}");
    const char *file = write_text("many.json", b.data);
    check_mask(file, "a.jpg", "?", false, "overlap too often");
    buf_clear(&b);
    for (int i = 0; i < COUNT / 3; i++)
        buf_printf(&b, "%s{\"polygon\": [0, 0, 1, 0, 1, 1, 0, 1]}",
                   i ? ", " : "{\"image\": \"a.jpg\", \"objects\": [");
    buf_puts(&b, "]}\n");
    must(masks_open(&m, write_text("many.jsonl", b.data), &err), &err);
    const struct masks_query query = { .picture = "a.jpg", .text = "?", SIDE, SIDE };
    must(masks_read(&m, &query, &mask, &err), &err);
    assert_int_equal(mask.pixels[0], 255);
    image_release(&mask);
    masks_close(&m);
    buf_release(&b);
}

// Rows of objects with box and flat polygon; the expression selects one, and so does the number in
// the file's name.
static void rows_of_refcoco_are_masks(void **state)
{
    static const char rows[] =
        "[{\"file_name\": \"COCO_train2014_000000581857_0.jpg\", \"answer\": [\"left man\", "
        "\"him\"], "
        "\"bbox\": [0, 0, 2, 4], \"segmentation\": [0, 0, 1, 0, 1, 4, 0, 4]},"
        "{\"file_name\": \"COCO_train2014_000000581857_1.jpg\", \"sentences\": [{\"sent\": \"the "
        "dog\"}], \"bbox\": [3.5, 1, 2, 2.0]},"
        "{\"image\": \"coco/2.jpg\", \"sent\": \"a cat\", \"bbox\": [2, 1, 4, 3], \"width\": 6, "
        "\"height\": 4}]";
    const char *file = write_text("refcoco.json", rows), *both = "COCO_train2014_000000581857.jpg";
    check_mask(file, "COCO_train2014_000000581857_1.jpg", "?", false,
               "....../...##./...##./......");
    check_mask(file, both, "Where is the dog?", false, "....../...##./...##./......");
    check_mask(file, both, "the Left Man", false, "#...../#...../#...../#.....");
    check_mask(file, both, "the left man", true, "##..../##..../##..../##....");
    check_mask(file, both, "?", false, "#...../#..##./#..##./#.....");
    // A box given by its corners.
    check_mask(file, "2.jpg", "a cat", false, "....../..##../..##../......");
}

// Writes the folder's weights: the tensors whose names contain `part`, under `prefix` and the rest
// of the name from `part` on.
static void copy_tensors(const struct golden *g, const char *part, const char *prefix)
{
    struct err err = { 0 };
    char path[300];
    const struct checkpoint *c = engine_model(g->engine)->checkpoint;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    unlink(path);
    struct safetensors_writer *w = safetensors_writer_new(path);
    for (int give = 0; give < 2; give++)
        for (int64_t i = 0; i < c->tensor_count; i++) {
            const struct safetensor *t = c->tensors[i];
            char name[300];
            const char *at = strstr(t->name, part);
            if (!at) continue;
            snprintf(name, sizeof name, "%s%s", prefix, at);
            if (give)
                must(safetensors_writer_data(w, t->data, t->bytes, &err), &err);
            else
                safetensors_writer_declare(w, name, (enum dtype)t->dtype, t->rank, t->shape);
        }
    must(safetensors_writer_finish(w, &err), &err);
}

// Compares the folder's encoder with "interface.encoder_last", and its final norm with
// "interface.encoder_last_normed", if the golden has that.
static void check_encoder(const struct golden *g)
{
    struct err err = { 0 };
    struct results r = { 0 };
    const struct conversation *c = engine_conversation(g->engine);
    must(interface_folder(folder, test_device(), engine_settings(g->engine), c->pictures,
                          c->picture_count, &r, &err),
         &err);
    const char *const columns[] = { "norm", "std" };
    for (int i = 0; i < 2; i++)
        near(g, "encoder",
             *results_value(&r, "norms.interface", "encoder, last output", columns[i]),
             (double)golden_floats(g, "interface.encoder_last")[i],
             tolerance(g, "interface.encoder_last"));
    const double *normed =
        results_value(&r, "norms.interface", "encoder, after its final norm", "norm");
    if (safetensors_find(g->tensors, "interface.encoder_last_normed"))
        near(g, "after the norm", *normed,
             (double)golden_floats(g, "interface.encoder_last_normed")[0],
             tolerance(g, "interface.encoder_last_normed"));
    results_release(&r);
}

static void copy_json(const char *name, const cJSON *json)
{
    char *text = cJSON_Print(json);
    write_text(name, text);
    cJSON_free(text);
}

// With its family's config, an encoder reads a picture as the family does: with all tiles, or at
// the picture's own size.
static void encoders_read_pictures_as_their_family(void **state)
{
    for (int i = 0; i < MODELS; i++) {
        struct golden g;
        ask(&g, models[i], 0);
        const struct model *m = engine_model(g.engine);
        const char *first = m->weights.list[0].name;
        for (size_t k = 0; k < m->weights.count; k++)
            if (m->weights.list[k].part == PART_VISION) first = m->weights.list[k].name;
        char part[32] = "";
        snprintf(part, sizeof part, "%.*s", (int)(strcspn(first, ".") + 1), first);
        if (!strcmp(part, "model.")) snprintf(part, sizeof part, "visual.");
        copy_tensors(&g, part, "");
        copy_json("config.json", m->checkpoint->config);
        copy_json("preprocessor_config.json", m->checkpoint->preprocessor);
        check_encoder(&g);
        golden_close(&g);
    }
}

// A folder with an embedding table alone, or an encoder alone, has an interface; one with neither
// is refused. An encoder whose config is not part of a model's config reads a picture as LLaVA
// does.
static void parts_of_models_have_an_interface(void **state)
{
    for (int i = 0; i < 2; i++) {
        struct golden g;
        struct err err = { 0 };
        struct results r = { 0 };
        ask(&g, models[i], 0);
        const struct checkpoint *from = engine_model(g.engine)->checkpoint;
        copy_tensors(&g, "embed_tokens.weight", "model.");
        write_text("config.json", "{\"model_type\": \"llama\"}");
        must(interface_folder(folder, test_device(), engine_settings(g.engine), NULL, 0, &r, &err),
             &err);
        near(&g, "T*", *results_value(&r, "norms.interface", "text embedding table (T*)", "norm"),
             (double)golden_floats(&g, "interface.text_table")[0],
             tolerance(&g, "interface.text_table"));
        results_release(&r);

        copy_tensors(&g, "vision_model.", "");
        copy_json("config.json", json_get(from->config, "vision_config"));
        copy_json("preprocessor_config.json", from->preprocessor);
        check_encoder(&g);
        copy_tensors(&g, "model.norm.weight", "");
        assert_int_equal(
            interface_folder(folder, test_device(), engine_settings(g.engine), NULL, 0, &r, &err),
            -1);
        assert_non_null(strstr(err.text, "under a known name"));
        results_release(&r);
        golden_close(&g);
    }
}

static void maps_are_drawn(void **state)
{
    const float values[] = { 0, 1, NAN, 0.5f };
    const uint8_t dropped[] = { 0, 0, 0, 1 };
    uint8_t pixels[2 * 2 * 3], low[3], high[3];
    struct event_heatmap map = { .name = "m",
                                 .rows = 2,
                                 .cols = 2,
                                 .values = values,
                                 .max = 1,
                                 .layer = 3,
                                 .head = -1,
                                 .token = 2,
                                 .picture = 0 };
    char title[128];
    ramp_bytes("viridis", 0, low);
    ramp_bytes("viridis", 1, high);
    heatmap_draw(&map, "viridis", 2, 2, pixels);
    assert_memory_equal(pixels, low, 3);
    assert_memory_equal(pixels + 3, high, 3);
    assert_true(pixels[6] == pixels[7] && pixels[7] == pixels[8]); // grey: the value is NaN
    map.dropped = dropped;
    heatmap_draw(&map, "viridis", 2, 2, pixels);
    assert_true(pixels[9] == pixels[10] && pixels[10] == pixels[11]);
    heatmap_title(&map, title, sizeof title);
    assert_string_equal(title, "m, layer 3, all heads, token 2, picture 0");
    // Over a white picture: the lowest value is transparent.
    uint8_t white[4 * 4 * 3];
    memset(white, 255, sizeof white);
    const struct image image = { .width = 4, .height = 4, .channels = 3, .pixels = white };
    map.image = &image;
    map.area[2] = map.area[3] = 4;
    heatmap_draw(&map, "viridis", 2, 2, pixels);
    assert_true(pixels[0] > low[0] && pixels[1] > low[1]);
}

int main(void)
{
    const char *base = getenv("TMPDIR");
    char command[400];
    snprintf(folder, sizeof folder, "%s/vlmsh-measure-%d", base ? base : "/tmp", (int)getpid());
    mkdir(folder, 0700);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(means_are_by_cell),
        cmocka_unit_test(tables_are_files),
        cmocka_unit_test(samples_are_averaged_and_broken_ones_left_out),
        cmocka_unit_test(masks_follow_the_text),
        cmocka_unit_test(coco_instances_are_masks),
        cmocka_unit_test(many_objects_are_masks),
        cmocka_unit_test(rows_of_refcoco_are_masks),
        cmocka_unit_test(encoders_read_pictures_as_their_family),
        cmocka_unit_test(parts_of_models_have_an_interface),
        cmocka_unit_test(maps_are_drawn),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (system(command) != 0) return 1;
    return failed;
}
