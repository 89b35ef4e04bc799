// tests/fuzz/answers.c -- reads arbitrary bytes as a file of answers (/eval --answers), as the
// output of an earlier /ask --data, and as an answer with boxes.
#include "core/base/folder.h"
#include "core/eval/answer_file.h"
#include "core/eval/ask_file.h"
#include "core/picture/boxes.h"
#include "tests/fuzz/files.h"

static void match(const char *path)
{
    struct err err;
    struct answer_file *f = answer_file_read(path, &err);
    if (!f) return;
    answer_file_add_question(f, "a", "What?", 1, 0);
    answer_file_add_question(f, "a", "Why?\nSay why.", 2, 0);
    answer_file_add_question(f, "7", "Who?", 3, 0);
    answer_file_match(f);
    for (int64_t sample = 1; sample < 5; sample++) (void)answer_file_find(f, sample, 0, &err);
    free(answer_file_unused(f));
    free(answer_file_differ(f));
    answer_file_free(f);
}

static void find_boxes(const char *text)
{
    for (const struct box_style *style = box_styles; style->name; style++) {
        struct boxes b = { 0 };
        boxes_read(&b, text, style, NULL, 640, 480);
        for (size_t i = 0; i < b.count; i++) {
            const struct picture_box *box = &b.list[i];
            if (!(box->x >= 0 && box->y >= 0 && box->x + box->w <= 640.001 &&
                  box->y + box->h <= 480.001))
                abort();
            cJSON_Delete(box_json(box));
        }
        boxes_release(&b);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char *folder = files_folder(), *text = xstrndup((const char *)bytes, size);
    struct ask_output out = { .file = -1 };
    struct err err;
    files_put(folder, "answers", bytes, size);
    char *path = xasprintf("%s/answers", folder);
    match(path);
    find_boxes(text);
    (void)ask_output_open(&out, path, NULL, &err); // last, because it may truncate the file
    ask_output_release(&out);
    folder_remove(folder);
    free(folder);
    free(path);
    free(text);
    return 0;
}
