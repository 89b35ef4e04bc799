// core/new/new_text.c -- reads data sets and plain files as text.
#include "core/new/new_model.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/file_in.h"
#include "core/base/text.h"
#include "core/data/dataset.h"
#include "core/template/message.h"

static bool is_data_set(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot && (!strcmp(dot, ".json") || !strcmp(dot, ".jsonl"));
}

static int check_size(const struct buf *text, const char *path, struct err *err)
{
    if (text->length <= NEW_TEXT_MAX) return 0;
    return err_set(err, "'%s': more than %d MB of text; a part is enough to learn the words", path,
                   NEW_TEXT_MAX >> 20);
}

static void add_sample(struct buf *text, const struct sample *s)
{
    static const char *const who[] = {
        [ROLE_SYSTEM] = "", [ROLE_USER] = " USER: ", [ROLE_ASSISTANT] = " ASSISTANT: "
    };
    for (size_t i = 0; i < s->dialogue.count; i++) {
        const struct message *m = &s->dialogue.messages[i];
        buf_puts(text, who[m->role]);
        for (size_t k = 0; k < m->content_count; k++)
            if (m->content[k].text) buf_puts(text, m->content[k].text);
    }
    buf_putc(text, '\n');
}

static int read_samples(struct buf *text, const char *path, struct err *err)
{
    struct dataset d;
    int status = dataset_open(&d, path, NULL, err);
    if (status < 0) return -1;
    for (int64_t i = 0; i < d.count && status == 0; i++) {
        struct sample s;
        status = dataset_read(&d, i, &s, err);
        if (status == 0) add_sample(text, &s);
        sample_release(&s);
        if (status == 0) status = check_size(text, path, err);
    }
    dataset_close(&d);
    return status;
}

int new_text_read(struct buf *text, const char *path, struct err *err)
{
    if (is_data_set(path)) return read_samples(text, path, err);
    size_t size;
    char *bytes = file_read(path, NEW_TEXT_MAX, &size, err);
    if (!bytes) return -1;
    const int status = text_check(bytes, size, path, err);
    if (status == 0) buf_add(text, bytes, size);
    free(bytes);
    return status < 0 ? -1 : check_size(text, path, err);
}
