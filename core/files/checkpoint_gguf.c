// core/files/checkpoint_gguf.c -- GGUF files as a struct checkpoint: configs and tensors under
// Hugging Face's names, so that families, adapters and methods see a model folder.
//
//   MODEL.gguf, or MODEL-00001-of-00003.gguf and its fellows
//   mmproj*.gguf beside it (gguf_beside.c), or the file behind "::": the picture encoder
//
// The weights stay in the mapping.
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/files/checkpoint.h"
#include "core/files/checkpoint_parts.h"
#include "core/files/gguf_parts.h"

enum { SPLITS_MOST = 1000 };

static const char SEPARATOR[] = "::"; // between a model and its encoder in a name

// --- names ---------------------------------------------------------------------------------------

bool checkpoint_is_gguf(const char *name)
{
    const char *end = strstr(name, SEPARATOR);
    char *model = xstrndup(name, end ? (size_t)(end - name) : strlen(name));
    const bool is = text_ends(model, ".gguf");
    free(model);
    return is;
}

char *checkpoint_with_encoder(const char *model, const char *encoder)
{
    return xasprintf("%s%s%s", model, SEPARATOR, encoder);
}

void checkpoint_split_name(const char *name, char **model, char **encoder)
{
    const char *at = strstr(name, SEPARATOR);
    *model = xstrndup(name, at ? (size_t)(at - name) : strlen(name));
    *encoder = at ? xstrdup(at + strlen(SEPARATOR)) : NULL;
}

// --- files ---------------------------------------------------------------------------------------

static void keep_file(struct checkpoint *c, struct gguf *f)
{
    c->gguf = xreallocarray(c->gguf, (size_t)c->gguf_count + 1, sizeof *c->gguf);
    c->gguf[c->gguf_count++] = f;
}

static struct gguf *open_file(struct checkpoint *c, const char *path, struct err *err)
{
    struct gguf *f = gguf_open(path, err);
    if (!f) return NULL;
    keep_file(c, f);
    return f;
}

// Part `number` (from 0) of `count` of a path that ends like "-00001-of-00003.gguf"; NULL: it does
// not.
static char *part_path(const char *path, int64_t number, int64_t count)
{
    char *first = xasprintf("-00001-of-%05d.gguf", (int)count), *part = NULL;
    if (text_ends(path, first))
        part = xasprintf("%.*s-%05d-of-%05d.gguf", (int)(strlen(path) - strlen(first)), path,
                         (int)number + 1, (int)count);
    free(first);
    return part;
}

static int open_part(struct checkpoint *c, const char *path, int64_t number, int64_t count,
                     struct err *err)
{
    int64_t says, of;
    char *part = part_path(path, number, count);
    if (!part)
        return err_set(err,
                       "'%s' is the first of %lld files and must be named ...-00001-of-%05lld.gguf",
                       path, (long long)count, (long long)count);
    const struct gguf *f = checkpoint_check_link(part, err) < 0 ? NULL : open_file(c, part, err);
    int status = f ? 0 : -1;
    if (f && (gguf_int(f, "split.no", 0, SPLITS_MOST, -1, &says, err) < 0 ||
              gguf_int(f, "split.count", 0, SPLITS_MOST, -1, &of, err) < 0))
        status = err_in(err, "'%s'", part);
    else if (f && (says != number || of != count))
        status = err_set(err, "'%s' is not part %lld of %lld of this model", part,
                         (long long)number + 1, (long long)count);
    free(part);
    return status;
}

// All files of the model; c->gguf[0] gets metadata and all tensors.
static int open_splits(struct checkpoint *c, const char *path, struct err *err)
{
    int64_t number, count, total;
    struct gguf *first = open_file(c, path, err);
    if (!first) return -1;
    if (gguf_int(first, "split.no", 0, SPLITS_MOST, 0, &number, err) < 0 ||
        gguf_int(first, "split.count", 0, SPLITS_MOST, 0, &count, err) < 0 ||
        gguf_int(first, "split.tensors.count", 0, INT32_MAX, -1, &total, err) < 0)
        return err_in(err, "'%s'", path);
    if (number)
        return err_set(err, "'%s' is file %lld of %lld: open the first one", path,
                       (long long)number + 1, (long long)count);
    for (int64_t i = 1; i < count; i++)
        if (open_part(c, path, i, count, err) < 0 || gguf_join(first, c->gguf[i], err) < 0)
            return -1;
    if (count && total >= 0 && first->tensor_count != (uint64_t)total)
        return err_set(err, "'%s': its files have %llu tensors, but split.tensors.count is %lld",
                       path, (unsigned long long)first->tensor_count, (long long)total);
    return 0;
}

// --- assembling ----------------------------------------------------------------------------------

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct safetensor *)a)->name, ((const struct safetensor *)b)->name);
}

// The tensors become a shard, which takes the mapping over.
static void add_shard(struct checkpoint *c, struct gguf *f, struct renamed *r)
{
    struct safetensors *s = xcalloc(1, sizeof *s);
    if (r->count) qsort(r->list, r->count, sizeof *r->list, by_name);
    *s = (struct safetensors){ .path = xstrdup(f->path),
                               .map = f->map,
                               .size = f->size,
                               .tensors = r->list,
                               .count = (int64_t)r->count,
                               .header = f->header };
    f->borrowed = true;
    c->shards = xreallocarray(c->shards, (size_t)c->shard_count + 1, sizeof *c->shards);
    c->shards[c->shard_count++] = s;
    c->made = xreallocarray(c->made, c->made_count + r->made_count + 1, sizeof *c->made);
    for (size_t i = 0; i < r->made_count; i++) c->made[c->made_count++] = r->made[i];
    free(r->made);
    *r = (struct renamed){ 0 };
}

int checkpoint_replace(struct checkpoint *c, struct gguf *f, struct err *err)
{
    struct renamed r = { 0 };
    int status = 0;
    for (uint64_t i = 0; i < f->tensor_count; i++)
        renamed_add(&r, &f->tensors[i], xstrdup(f->tensors[i].name))->stored = NULL;
    add_shard(c, f, &r);
    const struct safetensors *s = c->shards[c->shard_count - 1];
    for (int64_t i = 0, k = 0; i < c->tensor_count && status == 0; i++) {
        const struct safetensor *t = c->tensors[i];
        if (k == s->count || strcmp(t->name, s->tensors[k].name) != 0) continue;
        if (t->rank != s->tensors[k].rank ||
            memcmp(t->shape, s->tensors[k].shape, (size_t)t->rank * sizeof *t->shape) != 0)
            status = err_set(err, "'%s': tensor '%s' has another shape", f->path, t->name);
        c->tensors[i] = &s->tensors[k++];
    }
    gguf_close(f);
    return status;
}

// The first file's shard has all tensors of the language model.
static int add_text(struct checkpoint *c, int files, const struct gguf_place *place,
                    struct err *err)
{
    struct renamed r = { 0 };
    const int status = gguf_text_tensors(c->gguf[0], place, &r, err);
    for (int i = 0; i < files; i++) add_shard(c, c->gguf[i], &r);
    return status < 0 ? err_in(err, "'%s'", c->gguf[0]->path) : 0;
}

static int add_encoder(struct checkpoint *c, const struct gguf_encoder *e, struct gguf *mmproj,
                       struct err *err)
{
    struct renamed r = { 0 };
    const int status = gguf_encoder_tensors(e, mmproj, &r, err);
    add_shard(c, mmproj, &r);
    return status;
}

// --- the encoder beside a model ------------------------------------------------------------------

static int open_encoder(struct checkpoint *c, const char *path, struct gguf_beside *e,
                        struct err *err)
{
    e->file = open_file(c, path, err);
    e->kind = e->file ? gguf_encoder_find(e->file, err) : NULL;
    return e->kind ? gguf_encoder_fits(e->kind, e->file, c->gguf[0], err) : -1;
}

// What lies beside the model.
static int find_encoder(struct checkpoint *c, const char *model, struct gguf_beside *e,
                        struct err *err)
{
    if (gguf_beside(model, c->gguf[0], e, err) < 0) return -1;
    c->notice = e->notice;
    if (e->file) keep_file(c, e->file);
    return 0;
}

// --- all of it -----------------------------------------------------------------------------------

// tokenizer.chat_template, or the first of those with names ("tokenizer.chat_template.rag"), where
// none is the usual one.
static const char *find_template(struct checkpoint *c, const struct gguf *f)
{
    static const char key[] = "tokenizer.chat_template";
    const char *usual = gguf_text(f, key);
    for (uint64_t i = 0; !usual && i < f->entry_count; i++) {
        const struct gguf_entry *e = &f->entries[i];
        if (strncmp(e->key, key, strlen(key)) != 0 || e->key[strlen(key)] != '.' || !e->text)
            continue;
        checkpoint_tell(c, xasprintf("the file has no '%s': '%.80s' is used", key, e->key));
        return e->text;
    }
    return usual;
}

static int read_text_model(struct checkpoint *c, struct err *err)
{
    const struct gguf *f = c->gguf[0];
    c->config = cJSON_CreateObject();
    const char *template = find_template(c, f);
    if (gguf_text_config(f, c->config, err) < 0 ||
        !(c->tokenizer_config = gguf_tokenizer_config(f, err)) ||
        !(c->generation = gguf_generation_config(f, &c->ends_named, err)))
        return err_in(err, "'%s'", f->path);
    if (template) c->chat_template = xstrdup(template);
    return 0;
}

// From the root. The file's own name stays: in the hub's cache it is a link to a file with another.
static char *whole_path(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? xstrndup(path, (size_t)(slash + 1 - path)) : xstrdup(".");
    char *real = realpath(folder, NULL);
    char *whole = real ? xasprintf("%s/%s", strcmp(real, "/") ? real : "", slash ? slash + 1 : path)
                       : xstrdup(path);
    free(real);
    free(folder);
    return whole;
}

// The name under which the same files open again, from any folder.
static char *whole_name(const char *model, const char *encoder)
{
    char *path = whole_path(model);
    if (!encoder) return path;
    char *other = strcmp(encoder, "none") ? whole_path(encoder) : xstrdup(encoder);
    char *name = checkpoint_with_encoder(path, other);
    free(path);
    free(other);
    return name;
}

static int read_both(struct checkpoint *c, const char *model, const char *encoder, struct err *err)
{
    static const struct gguf_place text_only = { "model.", "" };
    struct gguf_beside e = { 0 };
    if (open_splits(c, model, err) < 0) return -1;
    const int files = c->gguf_count;
    if (!encoder && find_encoder(c, model, &e, err) < 0) return -1;
    if (encoder && strcmp(encoder, "none") != 0 && open_encoder(c, encoder, &e, err) < 0) return -1;
    if (read_text_model(c, err) < 0 ||
        add_text(c, files, e.kind ? &e.kind->place : &text_only, err) < 0)
        return -1;
    if (!e.kind) return 0;
    if (gguf_encoder_config(e.kind, e.file, c->gguf[0], &c->config, &c->preprocessor, err) < 0)
        return -1;
    return add_encoder(c, e.kind, e.file, err);
}

int checkpoint_read_gguf(struct checkpoint *c, const char *name, struct err *err)
{
    char *model, *encoder;
    checkpoint_split_name(name, &model, &encoder);
    free(c->folder);
    c->folder = whole_name(model, encoder);
    const int status = read_both(c, model, encoder, err);
    free(model);
    free(encoder);
    return status;
}

// The files that describe the model: the first, and the encoder's.
static const struct gguf *described_by(const struct checkpoint *c, int i)
{
    const char *architecture = gguf_text(c->gguf[i], "general.architecture");
    return i == 0 || (architecture && !strcmp(architecture, "clip")) ? c->gguf[i] : NULL;
}

int checkpoint_keys_check(const struct checkpoint *c, struct err *err)
{
    for (int i = 0; i < c->gguf_count; i++) {
        const struct gguf *f = described_by(c, i);
        if (f && gguf_keys_check(f, err) < 0) return -1;
    }
    return 0;
}

char *checkpoint_keys_unread(const struct checkpoint *c)
{
    struct buf b = { 0 };
    for (int i = 0; i < c->gguf_count; i++) {
        const struct gguf *f = described_by(c, i);
        char *keys = f ? gguf_keys_unread(f) : NULL;
        if (keys) buf_printf(&b, "%s%s", b.length ? ", " : "", keys);
        free(keys);
    }
    return b.length ? buf_take(&b) : NULL;
}

struct tokenizer *checkpoint_tokenizer(const struct checkpoint *c, struct err *err)
{
    return c->gguf_count ? gguf_tokenizer(c->gguf[0], err) : tokenizer_open_folder(c->folder, err);
}

struct tokenizer *checkpoint_tokenizer_open(const char *path, struct err *err)
{
    if (!checkpoint_is_gguf(path)) return tokenizer_open(path, err);
    char *file = checkpoint_locate(path, err);
    struct gguf *f = file ? gguf_open(file, err) : NULL;
    struct tokenizer *t = f ? gguf_tokenizer(f, err) : NULL;
    gguf_close(f);
    free(file);
    return t;
}
