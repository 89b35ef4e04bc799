// core/job_data.c -- {"data": SHA-256} as the first line of what a job keeps.
#include "core/job_data.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/file_in.h"
#include "core/hash.h"
#include "core/json.h"

// *from: bytes of the first line; 0: there is none (it was cut off, or is of an older version).
static int check_data(const char *text, size_t size, const char *data, size_t *from,
                      struct err *err)
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
        status = hash_file(data, is, err);
        if (status == 0 && strcmp(was, is) != 0)
            status = err_set(err,
                             "the data '%s' has changed since the job began (its SHA-256 differs); "
                             "bring the former back, or start another job",
                             data);
    }
    cJSON_Delete(line);
    return status;
}

static int take_over(const char *path, const char *data, job_data_take *take, void *self,
                     size_t *kept, struct err *err)
{
    size_t size;
    if (access(path, F_OK) < 0) return 0;
    char *text = file_read(path, (size_t)1 << 32, &size, err);
    if (!text) return -1;
    const int status = check_data(text, size, data, kept, err);
    if (status == 0) *kept = take(self, text, size, *kept);
    free(text);
    if (status < 0 || truncate(path, (off_t)*kept) == 0) return status;
    return err_set(err, "cannot shorten '%s': %s", path, strerror(errno));
}

static int write_data(FILE *f, const char *data, struct err *err)
{
    char is[HASH_HEX];
    if (hash_file(data, is, err) < 0) return -1;
    if (fprintf(f, "{\"data\":\"%s\"}\n", is) > 0 && fflush(f) == 0) return 0;
    return err_set(err, "cannot write the job's state: %s", strerror(errno));
}

FILE *job_data_open(const char *path, bool resumed, const char *data, job_data_take *take,
                    void *self, struct err *err)
{
    size_t kept = 0;
    if (resumed && take_over(path, data, take, self, &kept, err) < 0) return NULL;
    FILE *f = fopen(path, resumed ? "ae" : "we");
    if (!f) {
        err_set(err, "cannot write '%s': %s", path, strerror(errno));
        return NULL;
    }
    if (kept || write_data(f, data, err) == 0) return f;
    fclose(f);
    return NULL;
}
