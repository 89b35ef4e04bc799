// core/files/checkpoint_identity.c -- one hash over all files of a model that change an answer.
//
//   fingerprint   over the names and hashes of all these files
//   weights       over config.json and the weights alone: what smaller weights are made of
//   files         "config.json@3f2a61d0c4e7 ... model.safetensors@...": which one differs
//
// Only files that are read count: a tokenizer.model beside a tokenizer.json does not.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "core/base/items.h"
#include "core/base/mem.h"
#include "core/files/checkpoint.h"
#include "core/files/checkpoint_parts.h"
#include "core/text/tokenizer.h"

enum {
    SAMPLE = 4096, // bytes at each end of a tensor that earlier versions hashed
    DIGITS = 12,   // of a file's hash in `files`
};

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// --- parts ---------------------------------------------------------------------------------------

struct adding {
    struct checkpoint *c;
    const struct load_progress *progress;
    uint64_t total, before, done; // bytes of all shards; hashed of those before; and of this one
    struct hash all, weights;
    struct buf files;
};

// Bringing the weights into memory follows, which reports the second half.
static bool report(void *self, uint64_t done, uint64_t total)
{
    struct adding *a = self;
    a->done = done;
    return !a->progress || a->progress->report(a->progress->self, a->before + done, 2 * a->total);
}

// `role`: the name, but for weights, which may be renamed.
static void put_part(struct adding *a, const char *role, const char *name, const char *hex)
{
    hash_add(&a->all, role, strlen(role) + 1);
    hash_add(&a->all, hex, HASH_HEX);
    buf_printf(&a->files, "%s%s@%.*s", a->files.length ? " " : "", name, DIGITS, hex);
}

static int add_file(struct adding *a, const char *name, struct err *err)
{
    char hex[HASH_HEX], *path = xasprintf("%s/%s", a->c->folder, name);
    int status = 0;
    if (access(path, F_OK) == 0) {
        status = content_hash(path, NULL, hex, err);
        if (status == 0) put_part(a, name, name, hex);
        if (status == 0 && !strcmp(name, "config.json")) hash_add(&a->weights, hex, sizeof hex);
    }
    free(path);
    return status;
}

static int add_small_files(struct adding *a, struct err *err)
{
    static const char *const names[] = {
        "config.json",           "generation_config.json",  "processor_config.json",
        "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"
    };
    const struct checkpoint *c = a->c;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (add_file(a, names[i], err) < 0) return -1;
    const char *preprocessor = checkpoint_preprocessor_file(c);
    if (strcmp(preprocessor, "processor_config.json") != 0 && add_file(a, preprocessor, err) < 0)
        return -1;
    char *template = xasprintf("%s/chat_template.jinja", c->folder);
    const bool jinja = access(template, F_OK) == 0;
    free(template);
    if (add_file(a, jinja ? "chat_template.jinja" : "chat_template.json", err) < 0) return -1;
    const char *tokenizer = tokenizer_folder_file(c->folder);
    if (!tokenizer) return 0; // loading says so
    if (add_file(a, tokenizer, err) < 0) return -1;
    return strcmp(tokenizer, "vocab.json") ? 0 : add_file(a, "merges.txt", err);
}

// All shards share one entry of `files`: every saved answer repeats that list, so it stays short.
static int add_weights(struct adding *a, struct err *err)
{
    struct checkpoint *c = a->c;
    struct hash several;
    char hex[HASH_HEX];
    const struct load_progress progress = { report, a };
    hash_start(&several);
    for (int s = 0; s < c->shard_count; s++) a->total += c->shards[s]->size;
    for (int s = 0; s < c->shard_count; s++) {
        if (content_hash(c->shards[s]->path, &progress, hex, err) < 0) return -1;
        a->before += a->done;
        a->done = 0;
        hash_add(&several, hex, sizeof hex);
        hash_add(&a->weights, hex, sizeof hex);
        if (c->shard_count == 1 || c->gguf_count)
            put_part(a, "weights", last_part(c->shards[s]->path), hex);
    }
    hash_end(&several, hex);
    if (c->shard_count > 1 && !c->gguf_count) put_part(a, "weights", "*.safetensors", hex);
    return 0;
}

int checkpoint_identify(struct checkpoint *c, const struct load_progress *progress, struct err *err)
{
    struct adding a = { .c = c, .progress = progress };
    hash_start(&a.all);
    hash_start(&a.weights);
    int status = c->gguf_count ? 0 : add_small_files(&a, err);
    if (status == 0) status = add_weights(&a, err);
    hash_end(&a.all, c->fingerprint);
    hash_end(&a.weights, c->weights);
    c->hashed = a.before;
    free(c->files);
    c->files = a.files.length ? buf_take(&a.files) : xstrdup("");
    buf_release(&a.files);
    free(c->identity);
    c->identity = xasprintf("%s %s", c->fingerprint, c->files);
    return status;
}

void checkpoint_form(struct checkpoint *c, const char *form)
{
    char *all = xasprintf("%s::%s", c->fingerprint, form),
         *weights = xasprintf("%s::%s", c->weights, form);
    hash_hex(all, strlen(all), c->fingerprint);
    hash_hex(weights, strlen(weights), c->weights);
    free(all);
    free(weights);
    free(c->form);
    free(c->identity);
    c->form = xstrdup(form);
    c->identity = xasprintf("%s %s", c->fingerprint, c->files);
}

// --- earlier versions ----------------------------------------------------------------------------

// config.json, the headers, and both ends of every tensor.
static int hash_samples(const struct checkpoint *c, char hex[HASH_HEX])
{
    struct hash h;
    hash_start(&h);
    if (!c->gguf_count && checkpoint_hash_config(c, &h, NULL) < 0) return -1;
    // Quantised weights (weights.dtype) are the last shard, a file outside the folder.
    const int shards = c->shard_count - (c->form != NULL);
    for (int s = 0; s < shards; s++) {
        const struct safetensors *f = c->shards[s];
        hash_add(&h, f->map, f->header);
        for (int64_t i = 0; i < f->count; i++) {
            const struct safetensor *t = &f->tensors[i];
            const uint64_t n = t->bytes < SAMPLE ? t->bytes : SAMPLE;
            hash_add(&h, t->data, n);
            hash_add(&h, (const char *)t->data + (t->bytes - n), n);
        }
    }
    hash_end(&h, hex);
    if (!c->form) return 0;
    char *both = xasprintf("%s::%s", hex, c->form);
    hash_hex(both, strlen(both), hex);
    free(both);
    return 0;
}

bool checkpoint_was(struct checkpoint *c, const char *fingerprint)
{
    if (!strcmp(c->fingerprint, fingerprint)) return false;
    if (!*c->earlier && hash_samples(c, c->earlier) < 0) return false;
    return !strcmp(c->earlier, fingerprint);
}

// --- differences ---------------------------------------------------------------------------------

char *checkpoint_files_differ(const char *were, const char *are)
{
    struct buf b = { 0 };
    const char *lists[] = { are, were };
    for (int k = 0; k < 2 && were && are; k++) {
        char *one;
        for (const char *list = lists[k]; (one = items_take(&list, " ")); free(one)) {
            if (items_has(lists[!k], one, " ")) continue;
            char *at = strrchr(one, '@');
            if (at) *at = 0;
            if (!b.data || !items_has(b.data, one, ", "))
                buf_printf(&b, "%s%s", b.length ? ", " : "", one);
        }
    }
    return b.length ? buf_take(&b) : NULL;
}

int checkpoint_is(struct checkpoint *c, const char *identity, bool *earlier, struct err *err)
{
    const char *were = strchr(identity, ' ');
    char *then = xstrndup(identity, were ? (size_t)(were - identity) : strlen(identity));
    const bool same = !strcmp(then, c->fingerprint);
    *earlier = !same && checkpoint_was(c, then);
    free(then);
    if (same || *earlier) return 0;
    char *which = checkpoint_files_differ(were ? were + 1 : NULL, c->files);
    err_set(err, "the files of '%s' have changed%s%s", c->name, which ? ": " : "",
            which ? which : "");
    free(which);
    return -1;
}
