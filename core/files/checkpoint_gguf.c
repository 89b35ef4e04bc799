// core/files/checkpoint_gguf.c -- presents GGUF files as a struct checkpoint, with configs and
// tensors under Hugging Face's names, so that families, adapters and methods can treat them like a
// model folder.
//
//   MODEL.gguf, or MODEL-00001-of-00003.gguf with its other parts
//   *mmproj*.gguf beside it (gguf_beside.c), or the file after "::": the picture encoder
//
// The weights are used in the mapped files.
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/files/checkpoint.h"
#include "core/files/checkpoint_parts.h"
#include "core/files/gguf_parts.h"

enum { SPLITS_MOST = 1000 };

static const char SEPARATOR[] = "::"; // separates the model from its encoder in a name

// --- names ---------------------------------------------------------------------------------------

void checkpoint_split_name(const char *name, char **model, char **encoder)
{
    const char *at = strstr(name, SEPARATOR);
    *model = xstrndup(name, at ? (size_t)(at - name) : strlen(name));
    *encoder = at ? xstrdup(at + strlen(SEPARATOR)) : NULL;
}

bool checkpoint_is_gguf(const char *name)
{
    char *model, *encoder;
    checkpoint_split_name(name, &model, &encoder);
    const bool is = text_ends(model, ".gguf");
    free(model);
    free(encoder);
    return is;
}

char *checkpoint_with_encoder(const char *model, const char *encoder)
{
    return xasprintf("%s%s%s", model, SEPARATOR, encoder);
}

// Returns the absolute path. Keeps the file's own name, because in the hub's cache the file is a
// link to a file with a different name.
static char *absolute_path(const char *path)
{
    char *folder = text_folder(path), *real = realpath(folder, NULL);
    char *whole = real ? xasprintf("%s/%s", strcmp(real, "/") ? real : "", text_file_name(path))
                       : xstrdup(path);
    free(real);
    free(folder);
    return whole;
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
    if (f) keep_file(c, f);
    return f;
}

// Opens part `number` (from 0) of `count`. `path` is that of the first part and must end like
// "-00001-of-00003.gguf".
static int open_part(struct checkpoint *c, const char *path, int64_t number, int64_t count,
                     struct err *err)
{
    int64_t no, of;
    char *first = xasprintf("-00001-of-%05d.gguf", (int)count);
    const bool named = text_ends(path, first);
    char *part = xasprintf("%.*s-%05d-of-%05d.gguf", (int)(strlen(path) - strlen(first)), path,
                           (int)number + 1, (int)count);
    free(first);
    int status = 0;
    if (!named)
        status = err_set(
            err, "'%s' is the first of %lld files and must be named ...-00001-of-%05lld.gguf", path,
            (long long)count, (long long)count);
    else if (checkpoint_check_link(part, err) < 0 || !open_file(c, part, err))
        status = -1;
    else if (gguf_int(c->gguf[number], "split.no", 0, SPLITS_MOST, -1, &no, err) < 0 ||
             gguf_int(c->gguf[number], "split.count", 0, SPLITS_MOST, -1, &of, err) < 0)
        status = err_in(err, "'%s'", part);
    else if (no != number || of != count)
        status = err_set(err, "'%s' is not part %lld of %lld of this model", part,
                         (long long)number + 1, (long long)count);
    free(part);
    return status;
}

// Opens all files of the model; c->gguf[0] has the metadata and gets the tensors of all files.
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

// --- tensors -------------------------------------------------------------------------------------

// Adds a shard with the tensors of r, and empties r. The shard takes over the mapping of f.
static void add_shard(struct checkpoint *c, struct gguf *f, struct renamed *r)
{
    struct safetensors *s = xcalloc(1, sizeof *s);
    text_sort(r->list, r->count, sizeof *r->list);
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
            status = err_set(err, "'%s': tensor '%s' has a different shape", f->path, t->name);
        c->tensors[i] = &s->tensors[k++];
    }
    gguf_close(f);
    return status;
}

// --- opening -------------------------------------------------------------------------------------

// Returns tokenizer.chat_template, else the first named template ("tokenizer.chat_template.rag").
static const char *find_template(struct checkpoint *c, const struct gguf *f)
{
    static const char key[] = "tokenizer.chat_template", start[] = "tokenizer.chat_template.";
    const char *usual = gguf_text(f, key);
    for (uint64_t i = 0; !usual && i < f->entry_count; i++) {
        const struct gguf_entry *e = &f->entries[i];
        if (strncmp(e->key, start, strlen(start)) != 0 || !e->text) continue;
        text_append(&c->notice, xasprintf("the file has no '%s': '%.80s' is used", key, e->key));
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

static int read_both(struct checkpoint *c, const char *model, const char *encoder, struct err *err)
{
    static const struct gguf_prefixes text_only = { "model.", "" };
    struct gguf_beside e = { 0 };
    struct renamed r = { 0 };
    if (open_splits(c, model, err) < 0) return -1;
    const struct gguf *text = c->gguf[0];
    const int files = c->gguf_count;
    if (!encoder) {
        if (gguf_beside(model, text, &e, err) < 0) return -1;
        c->notice = e.notice;
        if (e.file) keep_file(c, e.file);
    } else if (strcmp(encoder, "none") != 0) {
        e.file = open_file(c, encoder, err);
        e.kind = e.file ? gguf_encoder_find(e.file, text, err) : NULL;
        if (!e.kind || gguf_encoder_fits(e.kind, e.file, text, err) < 0) return -1;
    }
    if (read_text_model(c, err) < 0) return -1;
    // All tensors of the language model go into the first file's shard; shards of the other files
    // are empty.
    int status =
        gguf_text_tensors(text, c->config, e.kind ? &e.kind->prefixes : &text_only, &r, err);
    if (status < 0) err_in(err, "'%s'", text->path);
    for (int i = 0; i < files; i++) add_shard(c, c->gguf[i], &r);
    if (status < 0 || !e.kind) return status;
    if (gguf_encoder_config(e.kind, e.file, text, &c->config, &c->preprocessor, err) < 0) return -1;
    status = gguf_encoder_tensors(e.kind, e.file, &r, err);
    add_shard(c, e.file, &r);
    return status;
}

int checkpoint_read_gguf(struct checkpoint *c, const char *name, struct err *err)
{
    char *model, *encoder;
    checkpoint_split_name(name, &model, &encoder);
    free(c->folder); // replaced by a name that opens the same files from any folder
    c->folder = absolute_path(model);
    if (encoder) {
        char *path = c->folder;
        char *other = strcmp(encoder, "none") ? absolute_path(encoder) : xstrdup(encoder);
        c->folder = checkpoint_with_encoder(path, other);
        free(path);
        free(other);
    }
    const int status = read_both(c, model, encoder, err);
    free(model);
    free(encoder);
    return status;
}

// --- keys and tokenizer --------------------------------------------------------------------------

// Returns file i if its metadata describes the model or the encoder, else NULL.
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
