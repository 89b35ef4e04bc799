// core/job_data.c -- {"data": SHA-256} as the first line of what a job keeps.
#include "core/job_data.h"

#include <errno.h>
#include <string.h>

#include "core/hash.h"
#include "core/json.h"
#include "core/train/save.h"

int job_data_check(const char *text, size_t size, const char *data, size_t *from, struct err *err)
{
    const char *stop = memchr(text, '\n', size);
    char is[HASH_HEX];
    *from = 0;
    if (!stop) return 0;
    cJSON *line = json_parse(text, (size_t)(stop - text), "state", NULL);
    const char *was = cJSON_GetStringValue(json_get(line, "data"));
    int status = 0;
    if (was) {
        *from = (size_t)(stop + 1 - text);
        status = save_hash(data, is, err);
        if (status == 0 && strcmp(was, is) != 0)
            status = err_set(err,
                             "the data '%s' has changed since the job began (its SHA-256 differs); "
                             "bring the former back, or start another job",
                             data);
    }
    cJSON_Delete(line);
    return status;
}

int job_data_write(FILE *f, const char *data, struct err *err)
{
    char is[HASH_HEX];
    if (save_hash(data, is, err) < 0) return -1;
    if (fprintf(f, "{\"data\":\"%s\"}\n", is) > 0 && fflush(f) == 0) return 0;
    return err_set(err, "cannot write the job's state: %s", strerror(errno));
}
