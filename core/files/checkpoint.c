// core/files/checkpoint.c -- a Hugging Face model folder: configs, chat template, mapped weights
// (GGUF files: checkpoint_gguf.c).
//
//   configs         config.json (required), generation_config.json,
//                   preprocessor_config.json, processor_config.json, tokenizer_config.json with
//                   special_tokens_map.json
//   chat template   checkpoint_template.c
//   weights         model.safetensors, model.safetensors.index.json and its shards, or the only
//                   *.safetensors file
//
// The weights are used in the mapped files. checkpoint_fetch reads them into memory in steps, to
// show progress.
#include "core/files/checkpoint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/dtype.h"
#include "core/base/folder.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/files/checkpoint_parts.h"
#include "core/files/content.h"
#include "core/files/gguf.h"
#include "core/files/quantised/quantised.h"
#include "core/graph/arena.h"
#include "core/graph/dry.h"
#include "core/tokenizer/tokenizer.h"
#include "kernels/backend.h"

static char *path_in(const struct checkpoint *c, const char *name)
{
    return xasprintf("%s/%s", c->folder, name);
}

static bool file_exists(const struct checkpoint *c, const char *name)
{
    char *path = path_in(c, name);
    bool exists = access(path, F_OK) == 0;
    free(path);
    return exists;
}

// --- JSON files ----------------------------------------------------------------------------------

int checkpoint_read_json(const struct checkpoint *c, const char *name, cJSON **json,
                         struct err *err)
{
    if (!file_exists(c, name)) return 0;
    char *path = path_in(c, name);
    const bool tokens = strstr(name, "token") != NULL;
    *json = (tokens ? json_read : json_read_config)(path, CHECKPOINT_CONFIG_LIMIT, err);
    int status = *json ? 0 : -1;
    if (*json && !cJSON_IsObject(*json)) status = err_set(err, "'%s' is not a JSON object", path);
    free(path);
    return status;
}

static const cJSON *nested_preprocessor(const struct checkpoint *c)
{
    const cJSON *nested = json_get(c->processor, "image_processor");
    return cJSON_IsObject(nested) ? nested : NULL;
}

static int read_configs(struct checkpoint *c, struct err *err)
{
    cJSON *tokens = NULL;
    if (!file_exists(c, "config.json"))
        return err_set(err,
                       "'%s' has no config.json: it is not a model folder in Hugging Face format%s",
                       c->folder,
                       file_exists(c, "adapter_config.json")
                           ? " but an adapter; load its model first, then /adapter load it"
                           : "");
    if (checkpoint_read_json(c, "config.json", &c->config, err) < 0 ||
        checkpoint_read_json(c, "generation_config.json", &c->generation, err) < 0 ||
        checkpoint_read_json(c, "preprocessor_config.json", &c->preprocessor, err) < 0 ||
        checkpoint_read_json(c, "processor_config.json", &c->processor, err) < 0 ||
        checkpoint_read_json(c, "tokenizer_config.json", &c->tokenizer_config, err) < 0)
        return -1;
    c->tokenizer_config_missing = !c->tokenizer_config;
    const int status = checkpoint_read_json(c, "special_tokens_map.json", &tokens, err);
    if (status == 0) tokenizer_config_complete(&c->tokenizer_config, tokens);
    cJSON_Delete(tokens);
    // Newer folders keep the picture settings inside processor_config.json; these override a
    // preprocessor_config.json beside it.
    const cJSON *nested = nested_preprocessor(c);
    if (nested) {
        cJSON_Delete(c->preprocessor);
        c->preprocessor = cJSON_Duplicate(nested, true);
    }
    return status;
}

const char *checkpoint_preprocessor_file(const struct checkpoint *c)
{
    return nested_preprocessor(c) ? "processor_config.json" : "preprocessor_config.json";
}

// --- shards --------------------------------------------------------------------------------------

static int open_shard(struct checkpoint *c, const char *name, struct err *err)
{
    char *path = path_in(c, name);
    struct safetensors *shard = safetensors_open(path, err);
    free(path);
    if (!shard) return -1;
    c->shards = xreallocarray(c->shards, (size_t)c->shard_count + 1, sizeof *c->shards);
    c->shards[c->shard_count++] = shard;
    return 0;
}

// Returns the distinct file names of the weight map, sorted; NULL if one is not a plain file name.
static const char **shard_names(const cJSON *map, int *count, struct err *err)
{
    const cJSON *item;
    size_t n = 0, kept = 0;
    const char **names = xcalloc((size_t)cJSON_GetArraySize(map), sizeof *names);
    cJSON_ArrayForEach(item, map)
    {
        if (!cJSON_IsString(item) || !item->valuestring[0] || strchr(item->valuestring, '/')) {
            err_set(err, "the file name of tensor '%.200s' is not a plain name", item->string);
            free(names);
            return NULL;
        }
        names[n++] = item->valuestring;
    }
    text_sort(names, n, sizeof *names);
    for (size_t i = 0; i < n; i++)
        if (!i || strcmp(names[i], names[kept - 1]) != 0) names[kept++] = names[i];
    *count = (int)kept;
    return names;
}

// Checks that a tensor is in the shard that the weight map names. names[i] is the file of
// c->shards[i].
static int check_place(const struct checkpoint *c, const char **names, int count, const cJSON *item,
                       struct err *err)
{
    const char **found =
        bsearch(&item->valuestring, names, (size_t)count, sizeof *names, text_compare);
    if (safetensors_find(c->shards[found - names], item->string)) return 0;
    int other = 0;
    while (other < count && !safetensors_find(c->shards[other], item->string)) other++;
    err_set(err, "tensor '%.200s' is missing from '%s', where the index places it", item->string,
            item->valuestring);
    if (other == count) return -1;
    const struct err why = *err;
    return err_set(err,
                   "%s: it is in '%s'; were the files swapped, or does the index belong to "
                   "another model?",
                   why.text, names[other]);
}

static int open_mapped_shards(struct checkpoint *c, const cJSON *index, struct err *err)
{
    const cJSON *map = json_get(index, "weight_map"), *item;
    if (!cJSON_IsObject(map)) return err_set(err, "\"weight_map\" is missing");
    if (!map->child) return err_set(err, "\"weight_map\" is empty");
    int count = 0, status = 0;
    const char **names = shard_names(map, &count, err);
    if (!names) return -1;
    for (int i = 0; status == 0 && i < count; i++)
        if (!file_exists(c, names[i]))
            status =
                err_set(err, "shard '%s' (%d of %d) is missing: download the rest of the model",
                        names[i], i + 1, count);
    for (int i = 0; status == 0 && i < count; i++) {
        char *path = path_in(c, names[i]);
        status = checkpoint_check_link(path, err) < 0 ? -1 : open_shard(c, names[i], err);
        free(path);
    }
    for (item = map->child; item && status == 0; item = item->next)
        status = check_place(c, names, count, item, err);
    free(names);
    return status;
}

static int open_index(struct checkpoint *c, struct err *err)
{
    cJSON *index = NULL;
    int status = checkpoint_read_json(c, "model.safetensors.index.json", &index, err);
    if (status == 0 && open_mapped_shards(c, index, err) < 0)
        status = err_in(err, "'%s/model.safetensors.index.json'", c->folder);
    cJSON_Delete(index);
    return status;
}

bool checkpoint_is_best(const char *name)
{
    if (!strcmp(name, "best.safetensors")) return true;
    if (strncmp(name, "best-", 5) != 0) return false;
    const size_t digits = strspn(name + 5, "0123456789");
    return digits && !strcmp(name + 5 + digits, ".safetensors");
}

int64_t checkpoint_step(const char *name, bool *unfinished)
{
    static const char prefix[] = "checkpoint-";
    if (strncmp(name, prefix, sizeof prefix - 1) != 0) return -1;
    const char *digits = name + sizeof prefix - 1;
    char *end;
    errno = 0;
    const int64_t step = strtoll(digits, &end, 10);
    *unfinished = !strcmp(end, ".part");
    return end == digits || errno || step < 0 || (*end && !*unfinished) ? -1 : step;
}

// Opens the only safetensors file of a folder that has neither model.safetensors nor an index.
static int open_single(struct checkpoint *c, struct err *err)
{
    static const char *const beside[] = { "extra.safetensors", "state.safetensors", NULL };
    const char *single = NULL;
    int count = 0, status;
    bool pytorch = false, partial = false; // partial: has a shard, such as model-00001-of-00002
    char **names = folder_list(c->folder);
    for (char **name = names; *name; name++) {
        pytorch |= text_ends(*name, ".bin") || text_ends(*name, ".pth") || text_ends(*name, ".pt");
        if (!text_ends(*name, ".safetensors") || text_listed(beside, *name) ||
            checkpoint_is_best(*name))
            continue; // not a weight file, or one that training leaves beside a model
        partial |= strstr(*name, "-of-") != NULL;
        single = *name;
        count++;
    }
    if (partial)
        status = err_set(
            err, "'%s' has shards but no model.safetensors.index.json: download it too", c->folder);
    else if (count == 1)
        status = open_shard(c, single, err);
    else if (count > 1)
        status = err_set(err,
                         "'%s' has %d safetensors files, none named model.safetensors: keep only "
                         "the model's files",
                         c->folder, count);
    else if (pytorch)
        status = err_set(err,
                         "'%s' has only PyTorch weights (*.bin): convert them to safetensors, for "
                         "example with transformers' save_pretrained",
                         c->folder);
    else
        status = err_set(err, "'%s' has no weights (*.safetensors)", c->folder);
    folder_list_free(names);
    return status;
}

static int compare_tensor(const void *a, const void *b)
{
    const struct safetensor *x = *(const struct safetensor *const *)a;
    const struct safetensor *y = *(const struct safetensor *const *)b;
    return strcmp(x->name, y->name);
}

int checkpoint_sort(struct checkpoint *c, struct err *err)
{
    qsort(c->tensors, (size_t)c->tensor_count, sizeof *c->tensors, compare_tensor);
    for (int64_t i = 1; i < c->tensor_count; i++)
        if (!strcmp(c->tensors[i - 1]->name, c->tensors[i]->name))
            return err_set(err, "'%s': tensor '%.200s' appears twice", c->folder,
                           c->tensors[i]->name);
    return 0;
}

// Makes one sorted list of the tensors of all shards.
static int merge_shards(struct checkpoint *c, struct err *err)
{
    for (int s = 0; s < c->shard_count; s++) c->tensor_count += c->shards[s]->count;
    if (!c->tensor_count)
        return err_set(err, "'%s': the weight files contain no tensors", c->folder);
    c->tensors = xreallocarray(NULL, (size_t)c->tensor_count, sizeof *c->tensors);
    c->read = xcalloc((size_t)c->tensor_count, sizeof *c->read);
    int64_t n = 0;
    for (int s = 0; s < c->shard_count; s++)
        for (int64_t i = 0; i < c->shards[s]->count; i++)
            c->tensors[n++] = &c->shards[s]->tensors[i];
    return checkpoint_sort(c, err);
}

// --- bringing weights into memory ----------------------------------------------------------------

// Brings `size` bytes of the mapped file `path` into memory. -1 if they cannot be read.
static int fetch(const void *start, uint64_t size, const char *path, struct err *err)
{
#ifdef MADV_POPULATE_READ // maps whole ranges in one call (Linux 5.14)
    if (madvise((void *)(uintptr_t)start, size, MADV_POPULATE_READ) == 0) return 0;
    if (errno == EFAULT || errno == EIO || errno == ENOMEM)
        return err_set(err, "cannot read '%s': the file was truncated, or its disk is failing",
                       path);
#endif
    for (uint64_t i = 0; i < size; i += 4096) (void)*((const volatile char *)start + i);
    return 0;
}

int checkpoint_fetch(const struct checkpoint *c, int first, const struct load_progress *progress,
                     struct err *err)
{
    enum { STEP = 64 << 20 }; // bytes between two reports
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t total = 0, done = 0;
    for (int s = first; s < c->shard_count; s++) total += c->shards[s]->size;
    // A model that does not fit into memory is read during use.
    if (pages > 0 && page > 0 && total / (uint64_t)page >= (uint64_t)pages / 10 * 9) return 0;
    for (int s = first; s < c->shard_count; s++) {
        const struct safetensors *f = c->shards[s];
        struct stat st;
        if (stat(f->path, &st) == 0 && (uint64_t)st.st_blocks * 512 < f->size / 2) {
            done += f->size; // a sparse file (/new --zeros) needs no reading
            continue;
        }
        // Requests pages of 2 MB, which make reading weights a tenth faster. Linux provides them
        // only for files that are not yet in the page cache, on XFS and, from Linux 6.16 on, on
        // ext4; elsewhere the request has no effect.
        (void)madvise((void *)(uintptr_t)f->map, f->size, MADV_HUGEPAGE);
        for (uint64_t at = 0; at < f->size; at += STEP) {
            const uint64_t size = f->size - at < STEP ? f->size - at : STEP;
            if (fetch((const char *)f->map + at, size, f->path, err) < 0) return -1;
            done += size;
            if (progress && !progress->report(progress->self, done, total))
                return err_set(err, "cancelled");
        }
    }
    return 0;
}

// --- opening and closing -------------------------------------------------------------------------

struct checkpoint *checkpoint_open(const char *folder, const struct load_progress *progress,
                                   struct err *err)
{
    struct checkpoint *c = checkpoint_open_unread(folder, err);
    if (!c || checkpoint_fetch(c, 0, progress, err) == 0) return c;
    checkpoint_close(c);
    return NULL;
}

struct checkpoint *checkpoint_open_unread(const char *folder, struct err *err)
{
    struct checkpoint *c = xcalloc(1, sizeof *c);
    int status;
    c->folder = xstrdup(folder);
    if (checkpoint_is_gguf(folder)) {
        status = checkpoint_read_gguf(c, folder, err);
    } else {
        for (size_t n = strlen(folder); n > 1 && c->folder[n - 1] == '/';) c->folder[--n] = 0;
        status = read_configs(c, err);
        if (status == 0) status = checkpoint_read_template(c, err);
        if (status < 0) goto out;
        if (file_exists(c, "model.safetensors"))
            status = open_shard(c, "model.safetensors", err);
        else if (file_exists(c, "model.safetensors.index.json"))
            status = open_index(c, err);
        else
            status = open_single(c, err);
    }
    if (status < 0 || merge_shards(c, err) < 0) goto out;
    if (!c->gguf_count && quantised_join(c, err) < 0) {
        err_in(err, "'%s'", c->folder);
        goto out;
    }
    c->name = xstrdup(c->folder);
    return c;
out:
    checkpoint_close(c);
    return NULL;
}

void checkpoint_close(struct checkpoint *c)
{
    if (!c) return;
    checkpoint_identify_end(c);
    cJSON_Delete(c->config);
    cJSON_Delete(c->generation);
    cJSON_Delete(c->preprocessor);
    cJSON_Delete(c->processor);
    cJSON_Delete(c->tokenizer_config);
    free(c->notice);
    free(c->chat_template);
    free(c->template_file);
    for (int i = 0; i < c->gguf_count; i++) gguf_close(c->gguf[i]);
    for (int s = 0; s < c->shard_count; s++) safetensors_close(c->shards[s]);
    for (size_t i = 0; i < c->made_count; i++) free(c->made[i]);
    quantised_free(c->quantised);
    free(c->gguf);
    free(c->made);
    free(c->shards);
    free(c->tensors);
    free(c->read);
    free(c->folder);
    free(c->name);
    free(c->files);
    free(c->identity);
    free(c->form);
    free(c);
}

// --- tensors -------------------------------------------------------------------------------------

const struct safetensor **checkpoint_entry(const struct checkpoint *c, const char *name)
{
    struct safetensor key = { .name = (char *)(uintptr_t)name };
    const struct safetensor *wanted = &key;
    if (!c->tensor_count) return NULL; // bsearch must not get NULL
    return bsearch(&wanted, c->tensors, (size_t)c->tensor_count, sizeof *c->tensors,
                   compare_tensor);
}

const struct safetensor *checkpoint_find(const struct checkpoint *c, const char *name)
{
    const struct safetensor **found = checkpoint_entry(c, name);
    return found ? *found : NULL;
}

// An outline (core/new/outline.h) needs no marks, because it has exactly the tensors that its
// family binds.
void checkpoint_mark_read(const struct checkpoint *c, const char *name)
{
    const struct safetensor **found = checkpoint_entry(c, name);
    if (found && c->read) c->read[found - c->tensors] = true;
}

bool checkpoint_has(const struct checkpoint *c, const char *name)
{
    return checkpoint_find(c, name) != NULL;
}

uint64_t checkpoint_bytes(const struct checkpoint *c)
{
    uint64_t bytes = 0;
    for (int64_t i = 0; i < c->tensor_count; i++) bytes += c->tensors[i]->bytes;
    return bytes;
}

uint64_t checkpoint_mapped(const struct checkpoint *c)
{
    uint64_t bytes = 0;
    for (int64_t i = 0; i < c->tensor_count; i++)
        if (!c->tensors[i]->quantised) bytes += c->tensors[i]->bytes;
    return bytes;
}

static void put_shape(struct buf *b, int rank, const int64_t *shape)
{
    buf_putc(b, '[');
    for (int i = 0; i < rank; i++) {
        buf_puts(b, i ? ", " : "");
        if (shape[i] < 0)
            buf_putc(b, '*');
        else
            buf_printf(b, "%lld", (long long)shape[i]);
    }
    buf_putc(b, ']');
}

static const struct safetensor *find_checked(const struct checkpoint *c, const char *name, int rank,
                                             const int64_t *shape, struct err *err)
{
    const struct safetensor *s = checkpoint_find(c, name);
    if (!s) {
        err_set(err, "tensor '%s' is missing", name);
        return NULL;
    }
    if (s->dtype < 0 || s->dtype == DTYPE_I32 || s->dtype == DTYPE_U8) {
        char *known = c->gguf_count ? gguf_types_known() : xstrdup("F32, F16 or BF16");
        err_set(err, "tensor '%s' has type %s; weights must be %s", name, s->type, known);
        free(known);
        return NULL;
    }
    bool same = s->rank == rank;
    for (int i = 0; same && i < rank; i++) same = shape[i] < 0 || shape[i] == s->shape[i];
    if (same) {
        checkpoint_mark_read(c, name);
        return s;
    }
    struct buf have = { 0 }, want = { 0 };
    put_shape(&have, s->rank, s->shape);
    put_shape(&want, rank, shape);
    err_set(err, "tensor '%s' has shape %s, but %s %s", name, have.data,
            c->gguf_count ? "the metadata needs" : "config.json needs", want.data);
    buf_release(&have);
    buf_release(&want);
    return NULL;
}

static int no_memory(const struct safetensor *s, struct err *err)
{
    return err_set(err, "out of memory: %.1f MB for tensor '%s'", (double)s->bytes / 1e6, s->name);
}

// Points t at `first`, the tensor's data in the file, or at a copy in `arena` if the device has its
// own memory or the data is not aligned. arena NULL: only the shape is needed.
static int point_at_data(const struct safetensor *s, const void *first, struct arena *arena,
                         struct tensor *t, struct err *err)
{
    const size_t bytes = tensor_bytes(t);
    t->data = (void *)(uintptr_t)first;
    if (!arena) return 0;
    const size_t aligned = dtype_in_blocks(t->dtype) ? 2 : dtype_size(t->dtype);
    if (!arena->backend->own_memory && (uintptr_t)first % aligned == 0) return 0;
    t->data = arena_alloc_alone(arena, bytes);
    if (!t->data) return no_memory(s, err);
    arena->backend->upload(t->data, first, bytes);
    return 0;
}

static bool report_unpacked(void *self, uint64_t bytes)
{
    const struct checkpoint *c = self;
    c->quantised->done += bytes;
    return !c->progress ||
           c->progress->report(c->progress->self, c->quantised->done, c->quantised->bytes);
}

// Unpacks a quantised matrix into `arena`.
static int unpack(const struct checkpoint *c, const struct safetensor *s, struct arena *arena,
                  struct tensor *t, struct err *err)
{
    const bool own = arena->backend->own_memory;
    t->data = arena_alloc_alone(arena, s->bytes);
    if (!t->data) return no_memory(s, err);
    if (arena->backend == backend_dry()) return 0; // a forecast needs no data
    void *host = own ? malloc(s->bytes) : t->data;
    if (!host) return no_memory(s, err);
    const bool whole = quantised_unpack(s, host, report_unpacked, (void *)(uintptr_t)c);
    if (whole && own) arena->backend->upload(t->data, host, s->bytes);
    if (own) free(host);
    quantised_drop_pages(s);
    return whole ? 0 : err_set(err, "cancelled");
}

// For a checkpoint without tensors: reports the requested tensor to c->request, and gives *t the
// requested shape, without data.
static int report(const struct checkpoint *c, const char *name, int rank, const int64_t *shape,
                  struct tensor *t)
{
    c->request(c->requester, name, rank, shape);
    *t = (struct tensor){ .dtype = DTYPE_BF16 };
    tensor_set_shape(t, rank, shape);
    return 0;
}

int checkpoint_tensor(const struct checkpoint *c, const char *name, int rank, const int64_t *shape,
                      struct arena *arena, struct tensor *t, struct err *err)
{
    if (c->request) return report(c, name, rank, shape, t);
    const struct safetensor *s = find_checked(c, name, rank, shape, err);
    if (!s) return -1;
    *t = (struct tensor){ .dtype = (enum dtype)s->dtype, .order = s->order };
    tensor_set_shape(t, rank, s->shape);
    if (s->quantised && arena) return unpack(c, s, arena, t, err);
    return point_at_data(s, s->data, arena, t, err);
}

// Copies rows part->row .. part->row + count - 1 of matrix part->number to t [count, columns]. The
// file holds the matrices transposed: s is [parts, columns, rows].
static int copy_transposed(const struct safetensor *s, const struct checkpoint_part *part,
                           struct arena *arena, struct tensor *t, struct err *err)
{
    enum { TILE = 32 }; // side of the square tiles that are copied one after another
    const int64_t rows = part->shape[1], columns = part->shape[2], count = part->count;
    const size_t size = dtype_size(t->dtype), bytes = tensor_bytes(t);
    if (dtype_in_blocks(t->dtype))
        return err_set(err, "tensor '%s' is transposed, which type %s does not allow", s->name,
                       s->type);
    const char *from =
        (const char *)s->data + (size_t)(part->number * rows * columns + part->row) * size;
    const bool own = arena->backend->own_memory;
    t->data = arena_alloc_alone(arena, bytes);
    if (!t->data) return no_memory(s, err);
    if (arena->backend == backend_dry()) return 0; // a forecast needs no data
    char *host = own ? malloc(bytes + 1) : NULL, *to = own ? host : t->data;
    if (!to) return no_memory(s, err);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < count; i += TILE)
        for (int64_t j = 0; j < columns; j += TILE)
            for (int64_t r = i; r < count && r < i + TILE; r++)
                for (int64_t k = j; k < columns && k < j + TILE; k++) {
                    const char *one = from + (size_t)(k * rows + r) * size;
                    if (size == 2)
                        memcpy(to + 2 * (r * columns + k), one, 2);
                    else
                        memcpy(to + 4 * (r * columns + k), one, 4);
                }
    if (own) arena->backend->upload(t->data, host, bytes);
    free(host);
    if (part->number == part->shape[0] - 1 && part->row + count == rows) quantised_drop_pages(s);
    return 0;
}

int checkpoint_matrix(const struct checkpoint *c, const char *name,
                      const struct checkpoint_part *part, struct arena *arena, struct tensor *t,
                      struct err *err)
{
    const int64_t rows = part->shape[1], columns = part->shape[2];
    const int64_t shape[] = { part->shape[0], part->transposed ? columns : rows,
                              part->transposed ? rows : columns };
    *t = (struct tensor){ .dtype = DTYPE_BF16, .rank = 2, .shape = { part->count, columns } };
    if (c->request) {
        if (!part->number && !part->row) c->request(c->requester, name, 3, shape);
        return 0;
    }
    const struct safetensor *s = find_checked(c, name, 3, shape, err);
    if (!s) return -1;
    if (part->number >= shape[0] || part->row + part->count > rows)
        BUG("'%s' has no such part", name);
    t->dtype = (enum dtype)s->dtype;
    if (part->transposed) return copy_transposed(s, part, arena, t, err);
    const int64_t first = (part->number * rows + part->row) * columns;
    return point_at_data(s, (const char *)s->data + dtype_bytes(t->dtype, first), arena, t, err);
}

int checkpoint_number(const struct checkpoint *c, const char *name, float *value, struct err *err)
{
    const struct safetensor *s = checkpoint_find(c, name);
    *value = 0;
    if (c->request) {
        c->request(c->requester, name, 0, (int64_t[]){ 0 });
        return 0;
    }
    if (!(s = find_checked(c, name, s && s->rank ? 1 : 0, (int64_t[]){ 1 }, err))) return -1;
    floats_from(value, s->data, (enum dtype)s->dtype, 1);
    return 0;
}

int checkpoint_floats(const struct checkpoint *c, const char *name, int rank, const int64_t *shape,
                      struct arena *arena, struct tensor *t, struct err *err)
{
    if (c->request) return report(c, name, rank, shape, t);
    const struct safetensor *s = find_checked(c, name, rank, shape, err);
    if (!s) return -1;
    const int64_t n = safetensor_count(s);
    size_t bytes = (size_t)n * sizeof(float);
    float *host = malloc(bytes ? bytes : 1), *data = host ? arena_alloc(arena, bytes) : NULL;
    if (data) {
        floats_from(host, s->data, (enum dtype)s->dtype, (size_t)n);
        if (rank == 1) rows_reorder(host, n, 1, s->order);
        arena->backend->upload(data, host, bytes);
        *t = (struct tensor){ .data = data, .dtype = DTYPE_F32 };
        tensor_set_shape(t, rank, s->shape);
    }
    free(host);
    return data ? 0 : no_memory(s, err);
}

int checkpoint_vector(const struct checkpoint *c, const char *name, int64_t n, struct arena *arena,
                      struct tensor *t, struct err *err)
{
    return checkpoint_floats(c, name, 1, &n, arena, t, err);
}
