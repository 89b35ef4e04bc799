// core/jobs/job_data.c -- {"identity": {"data": SHA-256, ...}, "provenance": {...}} as the first
// line of a job's state file; earlier versions wrote "data" without "identity".
#include "core/jobs/job_data.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/adapter/provenance.h"
#include "core/base/file_in.h"
#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/data/dataset.h"
#include "core/jobs/identity.h"
#include "core/ranks/ranks.h"

static int hash_data(const char *data, const char *known, char hex[HASH_HEX], struct err *err)
{
    if (!known) return hash_file(data, hex, err);
    memcpy(hex, known, HASH_HEX);
    return 0;
}

// The hashes of the files that the job reads.
struct read_files {
    char data[HASH_HEX], answers[HASH_HEX], shots[HASH_HEX];
};

static int identify(const struct job_data *of, struct read_files *files, struct identity *is,
                    struct err *err)
{
    if (hash_data(of->data, of->hash, files->data, err) < 0) return -1;
    if (of->answers && hash_file(of->answers, files->answers, err) < 0) return -1;
    if (of->shots && hash_file(of->shots, files->shots, err) < 0) return -1;
    *is = (struct identity){ .data = files->data,
                             .answers = of->answers ? files->answers : NULL,
                             .shots = of->shots ? files->shots : NULL,
                             .data_path = of->data };
    return 0;
}

// Compares the inputs recorded in the first line with the current ones. *from: the line's length in
// bytes; 0 if it was cut off or records no inputs (an older version's).
static int check_first(const char *text, size_t size, const struct job_data *of, size_t *from,
                       struct err *err)
{
    const char *stop = memchr(text, '\n', size);
    *from = 0;
    if (!stop) return 0;
    cJSON *line = json_parse(text, (size_t)(stop - text), "state", NULL);
    struct identity was = identity_of(line), is;
    struct read_files files;
    if (!was.data) was.data = cJSON_GetStringValue(json_get(line, "data"));
    int status = 0;
    if (was.data) {
        *from = (size_t)(stop + 1 - text);
        status = identify(of, &files, &is, err);
        if (status == 0) status = identity_same(&was, &is, err);
        struct provenance there; // older versions did not record it
        struct err why;
        if (provenance_get(&there, line) && status == 0 &&
            provenance_same(&there, of->provenance, &why) < 0)
            status = err_set(err,
                             "model, adapter or settings have changed since the job started: %s; "
                             "restore them, or start another job",
                             why.text);
        provenance_release(&there);
    }
    cJSON_Delete(line);
    return status;
}

// Passes the lines of a sample to take(), and clears them. Returns 1 if one is invalid.
static int take_sample(const struct job_data *of, cJSON **lines, job_data_take *take, void *self,
                       struct err *err)
{
    const cJSON *line;
    int status = 0;
    cJSON_ArrayForEach(line, *lines)
    {
        const char *pictures = cJSON_GetStringValue(json_get(line, "pictures"));
        const int64_t at =
            json_whole(json_get(line, "at"), json_whole(json_get(line, "done"), 0) - 1);
        const bool shows =
            pictures && *pictures && of->pictures && at >= 0 && at < of->pictures->count;
        if (shows) status = identity_same_pictures(of->pictures, at, pictures, of->notices, err);
        if (status == 0 && !take(self, line)) status = 1;
        if (status) break;
    }
    cJSON_Delete(*lines);
    *lines = cJSON_CreateArray();
    return status;
}

// Takes the samples from offset *kept on, and moves *kept to their end.
static int take_samples(const struct job_data *of, const char *text, size_t size, size_t *kept,
                        job_data_take *take, void *self, struct err *err)
{
    cJSON *lines = cJSON_CreateArray(); // lines of sample `number`; they end at offset `end`
    const char *stop;
    size_t end = *kept;
    int64_t number = 0;
    int status = 0;
    for (const char *p = text + *kept;
         status == 0 && (stop = memchr(p, '\n', size - (size_t)(p - text))); p = stop + 1) {
        cJSON *line = json_parse(p, (size_t)(stop - p), "state", NULL);
        const int64_t done = json_whole(json_get(line, "done"), 0);
        if (done < 1) {
            if (json_get(line, "end") && (status = take_sample(of, &lines, take, self, err)) == 0)
                *kept = end;
            cJSON_Delete(line);
            break;
        }
        if (done != number && (status = take_sample(of, &lines, take, self, err)) == 0) *kept = end;
        cJSON_AddItemToArray(lines, line);
        number = done;
        end = (size_t)(stop + 1 - text);
    }
    if (status == 0 && of->whole && (status = take_sample(of, &lines, take, self, err)) == 0)
        *kept = end;
    cJSON_Delete(lines);
    return status < 0 ? -1 : 0;
}

int job_data_read(const char *path, job_data_take *take, void *self, struct err *err)
{
    size_t size;
    char *text = file_read(path, SIZE_MAX, &size, err);
    if (!text) return -1;
    const char *first = memchr(text, '\n', size);
    size_t kept = first ? (size_t)(first + 1 - text) : size;
    const int status =
        take_samples(&(struct job_data){ .whole = true }, text, size, &kept, take, self, err);
    free(text);
    return status;
}

static int take_over(const struct job_data *of, job_data_take *take, void *self, size_t *stored,
                     struct err *err)
{
    size_t size;
    if (access(of->path, F_OK) < 0) return 0;
    char *text = file_read(of->path, (size_t)1 << 32, &size, err);
    if (!text) return -1;
    int status = check_first(text, size, of, stored, err);
    if (status == 0) status = take_samples(of, text, size, stored, take, self, err);
    free(text);
    if (status < 0 || truncate(of->path, (off_t)*stored) == 0) return status;
    return err_set(err, "cannot truncate '%s': %s", of->path, strerror(errno));
}

bool job_data_add(FILE *f, cJSON *line)
{
    char *text = cJSON_PrintUnformatted(line);
    cJSON_Delete(line);
    const bool good = text && fprintf(f, "%s\n", text) > 0 && fflush(f) == 0;
    cJSON_free(text);
    return good;
}

cJSON *job_data_number(double x)
{
    char text[32];
    snprintf(text, sizeof text, "%.17g", x);
    return isfinite(x) ? cJSON_CreateRaw(text) : cJSON_CreateNull();
}

bool job_data_end(FILE *f)
{
    cJSON *line = cJSON_CreateObject();
    cJSON_AddTrueToObject(line, "end");
    return job_data_add(f, line);
}

FILE *job_data_open(const struct job_data *of, bool resumed, job_data_take *take, void *self,
                    struct err *err)
{
    size_t stored = 0;
    if (resumed && take_over(of, take, self, &stored, err) < 0) return NULL;
    FILE *f = fopen(of->path, resumed ? "ae" : "we");
    if (!f) {
        err_set(err, "cannot write '%s': %s", of->path, strerror(errno));
        return NULL;
    }
    if (stored) return f;
    struct read_files files;
    struct identity is;
    if (identify(of, &files, &is, err) == 0) {
        cJSON *line = cJSON_CreateObject();
        identity_put(&is, line);
        provenance_put(of->provenance, line);
        if (job_data_add(f, line)) return f;
        err_set(err, "cannot write the job's state: %s", strerror(errno));
    }
    fclose(f);
    return NULL;
}

int job_data_same(struct ranks *r, const char *data, const char *known, struct err *err)
{
    char hash[HASH_HEX] = "";
    if (!r) return 0;
    const int status =
        hash_data(data, known, hash, err); // rank 0 shares its hash even after an error
    const bool same = ranks_same(r, hash, sizeof hash);
    if (status < 0 || same) return status;
    return err_set(err, "'%s' differs from rank 0's: every rank needs the same files", data);
}
