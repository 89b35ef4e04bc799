// tests/fuzz/records.c -- reads arbitrary bytes as the objects of annotated pictures, as messages,
// and as the record of a check-up, which becomes a page.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/checkup/checkup_parts.h"
#include "core/data/dialogue.h"
#include "core/sets/annotated.h"

static void list_objects(const char *path)
{
    struct annotated a;
    struct err err;
    if (annotated_open(&a, path, &err) == 0)
        for (size_t i = 0; i < a.ids.count; i++) {
            cJSON *record = cJSON_CreateObject();
            if (annotated_record(&a, a.ids.list[i], record, &err) < 0) abort();
            cJSON_Delete(record);
        }
    annotated_release(&a);
}

static void read_messages(const uint8_t *bytes, size_t size)
{
    struct dialogue d = { 0 };
    struct err err;
    cJSON *json = json_parse_data((const char *)bytes, size, "messages", &err);
    if (json) (void)dialogue_read_messages(&d, json, "/data", &err);
    dialogue_release(&d);
    cJSON_Delete(json);
}

static void show_checkup(const char *path)
{
    struct err err;
    struct buf page = { 0 };
    cJSON *record = checkup_read(path, &err);
    if (!record) return;
    checkup_markdown(record, &page);
    checkup_html(record, &page);
    buf_release(&page);
    cJSON_Delete(record);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char path[64];
    const int file = memfd_create("record", MFD_CLOEXEC);
    if (file < 0 || write(file, bytes, size) != (ssize_t)size) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    list_objects(path);
    read_messages(bytes, size);
    show_checkup(path);
    close(file);
    return 0;
}
