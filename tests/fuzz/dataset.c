// tests/fuzz/dataset.c -- reads arbitrary bytes as a data file: the entries of its index do not
// overlap, and every sample can be read or is refused.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/data/dataset.h"
#include "core/template/message.h"

static void read_all(const struct dataset *d)
{
    uint64_t end = 0;
    for (int64_t i = 0; i < d->count; i++) {
        const struct dataset_entry *e = &d->entries[i];
        struct sample s;
        struct err err;
        if (e->at < end || !e->size) abort();
        end = e->at + e->size;
        if (dataset_read(d, i, &s, &err) == 0)
            for (size_t m = 0; m < s.dialogue.count; m++)
                for (size_t k = 0; k < s.dialogue.messages[m].content_count; k++) {
                    const struct content_item *p = &s.dialogue.messages[m].content[k];
                    if (!p->text && (size_t)p->picture >= s.dialogue.path_count) abort();
                }
        sample_release(&s);
        cJSON *json = dataset_json(d, i, NULL);
        struct dialogue question = { 0 };
        if (json) dialogue_read_sample(&question, json, d->folder, &err);
        dialogue_release(&question);
        cJSON_Delete(json);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct err err;
    struct dataset d;
    char path[64];
    const int file = memfd_create("data", MFD_CLOEXEC);
    if (file < 0 || write(file, bytes, size) != (ssize_t)size) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    if (dataset_open(&d, path, NULL, &err) == 0) {
        read_all(&d);
        dataset_close(&d);
    }
    close(file);
    return 0;
}
