// core/sets/form.c -- which form a file has, and what all records share.
#include "core/sets/form.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file_in.h"
#include "core/picture/source.h"

enum { HEAD = 65536 };

static const struct set_form *const forms[] = { &set_form_parquet, &set_form_tsv, &set_form_lines,
                                                &set_form_object, &set_form_csv };

const struct set_form *set_form_of(const char *path, struct err *err)
{
    const int fd = file_in_open(path, err);
    if (fd < 0) return NULL;
    char *head = xmalloc(HEAD + 1);
    ssize_t n = read(fd, head, HEAD);
    const int why = errno;
    close(fd);
    const struct set_form *found = NULL;
    if (n >= 0) head[n] = 0;
    // A byte order mark belongs to no form.
    const size_t skip = n >= 3 && !memcmp(head, "\xEF\xBB\xBF", 3) ? 3 : 0;
    for (size_t i = 0; n > 0 && !found && i < sizeof forms / sizeof *forms; i++)
        if (forms[i]->is(path, head + skip, (size_t)n - skip)) found = forms[i];
    free(head);
    if (n < 0) err_set(err, "cannot read '%s': %s", path, strerror(why));
    if (n >= 0 && !found)
        err_set(err,
                "'%s' has no form of an evaluation set: it must be a TSV file with the columns "
                "index and question, JSON lines, JSON, parquet or a CSV file of MMLU (/help sets)",
                path);
    return found;
}

const char *set_text(const struct set_record *r, const char *key)
{
    const cJSON *item = json_get(r->json, key);
    const char *text = cJSON_GetStringValue(item);
    // lmms-eval's MMBench writes absent texts "nan".
    return text && *text && strcmp(text, "nan") != 0 ? text : NULL;
}

void set_add_picture(struct set_record *r, const char *path, const char *folder)
{
    r->pictures = xreallocarray(r->pictures, r->picture_count + 1, sizeof *r->pictures);
    r->pictures[r->picture_count++] = picture_source(path, folder);
}

void set_record_release(struct set_record *r)
{
    cJSON_Delete(r->json);
    for (size_t i = 0; i < r->picture_count; i++) free(r->pictures[i]);
    free(r->pictures);
    *r = (struct set_record){ 0 };
}
