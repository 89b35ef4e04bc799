// core/files/checkpoint_identity.c -- one hash over all files of a model that affect its answers.
//
//   fingerprint   over the names and hashes of all these files
//   weights       over config.json, quantize_config.json and the weights alone, to identify weights
//                 converted from them
//   files         "config.json@3f2a61d0c4e7 ... model.safetensors@...": shows which file differs
// Only files that vlmsh reads count; a tokenizer.model beside a tokenizer.json does not.
//
// Small files are hashed at once. In the background, a thread reads large files whose hashes are
// not cached; the first caller that needs the hash stops the thread and reads the rest.
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file_in.h"
#include "core/base/hash.h"
#include "core/base/items.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/files/checkpoint.h"
#include "core/files/checkpoint_parts.h"
#include "core/files/content.h"
#include "core/files/quantised/quantised.h"
#include "core/files/safetensors.h"
#include "core/tokenizer/tokenizer.h"

enum {
    SAMPLE = 4096,     // bytes hashed at each end of a tensor by earlier versions
    DIGITS = 12,       // hexadecimal digits of a file's hash in `files`
    BEHIND = 64 << 20, // fewer bytes than this are read without a thread
};

// --- parts ---------------------------------------------------------------------------------------

// Used by the thread that owns the checkpoint. While `thread` runs, only `thread` uses the shards.
struct identifying {
    const struct checkpoint *c;
    struct hash all, weights; // of the small files
    struct buf files;
    struct content **shards;
    int shard_count;
    pthread_t thread;
    bool behind, running;
    atomic_bool stop, read; // read: the thread has read all shards
};

// Adds a file's hash. `role`: the file's name, or "weights" for weights, whose files may be
// renamed.
static void put_part(struct identifying *i, const char *role, const char *name, const char *hex)
{
    hash_add(&i->all, role, strlen(role) + 1);
    hash_add(&i->all, hex, HASH_HEX);
    buf_printf(&i->files, "%s%s@%.*s", i->files.length ? " " : "", name, DIGITS, hex);
}

static int add_file(struct identifying *i, const char *name, struct err *err)
{
    char hex[HASH_HEX], *path = xasprintf("%s/%s", i->c->folder, name);
    int status = 0;
    if (access(path, F_OK) == 0) {
        status = content_hash(path, NULL, hex, err);
        if (status == 0) put_part(i, name, name, hex);
        const bool shapes = !strcmp(name, "config.json") || !strcmp(name, "quantize_config.json");
        if (status == 0 && shapes) hash_add(&i->weights, hex, sizeof hex);
    }
    free(path);
    return status;
}

static int add_small_files(struct identifying *i, struct err *err)
{
    static const char *const names[] = {
        "config.json",           "generation_config.json",  "processor_config.json",
        "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"
    };
    const struct checkpoint *c = i->c;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (add_file(i, names[k], err) < 0) return -1;
    const char *preprocessor = checkpoint_preprocessor_file(c), *template = c->template_file;
    const char *tokenizer = tokenizer_folder_file(c->folder);
    if (c->quantised && c->quantised->beside && add_file(i, "quantize_config.json", err) < 0)
        return -1;
    if (strcmp(preprocessor, "processor_config.json") != 0 && add_file(i, preprocessor, err) < 0)
        return -1;
    // A template inside a config is already hashed, because `names` lists the config.
    if (template && !text_ends(template, "_config.json") && add_file(i, template, err) < 0)
        return -1;
    if (!tokenizer) return 0; // loading reports that it is missing
    if (add_file(i, tokenizer, err) < 0) return -1;
    return strcmp(tokenizer, "vocab.json") ? 0 : add_file(i, "merges.txt", err);
}

// Shards of safetensors share one entry of `files`. Every saved answer repeats `files`, so it must
// be short.
static void add_weights(struct identifying *i)
{
    const struct checkpoint *c = i->c;
    struct hash several;
    char all[HASH_HEX];
    hash_start(&several);
    for (int s = 0; s < i->shard_count; s++) {
        const char *hex = content_hex(i->shards[s]);
        hash_add(&several, hex, HASH_HEX);
        hash_add(&i->weights, hex, HASH_HEX);
        if (i->shard_count == 1 || c->gguf_count)
            put_part(i, "weights", text_file_name(c->shards[s]->path), hex);
    }
    hash_end(&several, all);
    if (i->shard_count > 1 && !c->gguf_count) put_part(i, "weights", "*.safetensors", all);
}

// --- the shards, here or in a thread -------------------------------------------------------------

struct reading {
    const struct load_progress *progress;
    uint64_t before, total; // bytes of the earlier shards, and of all shards
};

static bool report(void *self, uint64_t done, uint64_t total)
{
    const struct reading *r = self;
    return r->progress->report(r->progress->self, r->before + done, r->total);
}

static int read_shards(struct identifying *i, const struct load_progress *progress, struct err *err)
{
    struct reading r = { .progress = progress ? progress : &content_watched };
    const struct load_progress each = { .report = report, .self = &r };
    for (int s = 0; s < i->shard_count; s++) r.total += content_size(i->shards[s]);
    for (int s = 0; s < i->shard_count; s++) {
        if (content_continue(i->shards[s], &each, err) < 0) return -1;
        r.before += content_size(i->shards[s]);
    }
    return 0;
}

static bool may_continue(void *self, uint64_t done, uint64_t total)
{
    const struct identifying *i = self;
    return !atomic_load(&i->stop);
}

// Runs only on otherwise idle processors. Errors are reported when the hash is needed.
static void *read_behind(void *self)
{
    struct identifying *i = self;
    const struct load_progress progress = { .report = may_continue, .self = i };
    sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){ 0 });
    if (read_shards(i, &progress, NULL) == 0) atomic_store(&i->read, true);
    return NULL;
}

// If the thread cannot be created, the caller that needs the hash reads the shards.
static void start_behind(struct identifying *i)
{
    sigset_t all, before;
    sigfillset(&all); // the main thread handles signals
    pthread_sigmask(SIG_SETMASK, &all, &before);
    i->running = pthread_create(&i->thread, NULL, read_behind, i) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void stop_behind(struct identifying *i)
{
    if (!i->running) return;
    atomic_store(&i->stop, true);
    pthread_join(i->thread, NULL);
    atomic_store(&i->stop, false);
    i->running = false;
}

// --- identifying ---------------------------------------------------------------------------------

void checkpoint_identify_end(struct checkpoint *c)
{
    struct identifying *i = c->identifying;
    if (!i) return;
    stop_behind(i);
    for (int s = 0; s < i->shard_count; s++) content_end(i->shards[s]);
    free(i->shards);
    buf_release(&i->files);
    free(i);
    c->identifying = NULL;
}

// Hashes the small files, and looks up the cached hashes of shards.
static int begin(struct checkpoint *c, struct err *err)
{
    struct identifying *i = c->identifying = xcalloc(1, sizeof *i);
    i->c = c;
    i->shards = xcalloc((size_t)c->shard_count, sizeof *i->shards);
    hash_start(&i->all);
    hash_start(&i->weights);
    int status = c->gguf_count ? 0 : add_small_files(i, err);
    for (int s = 0; s < c->shard_count && status == 0; s++) {
        struct content *shard = content_begin(c->shards[s]->path, err);
        if (shard) i->shards[i->shard_count++] = shard;
        if (!shard) status = -1;
    }
    if (status < 0) checkpoint_identify_end(c);
    return status;
}

static void finish(struct checkpoint *c)
{
    struct identifying *i = c->identifying;
    add_weights(i);
    hash_end(&i->all, c->fingerprint);
    hash_end(&i->weights, c->weights);
    c->files = i->files.length ? buf_take(&i->files) : xstrdup("");
    c->identity = xasprintf("%s %s", c->fingerprint, c->files);
    checkpoint_identify_end(c);
}

int checkpoint_identify(struct checkpoint *c, const struct load_progress *progress, struct err *err)
{
    if (*c->fingerprint) return 0;
    if (!c->identifying && begin(c, err) < 0) return -1;
    struct identifying *i = c->identifying;
    stop_behind(i);
    if (read_shards(i, progress, err) == 0) {
        finish(c);
        return 0;
    }
    if (i->behind) start_behind(i);
    return -1;
}

int checkpoint_identify_in_background(struct checkpoint *c, struct err *err)
{
    uint64_t left = 0;
    if (*c->fingerprint || c->identifying) return 0;
    if (begin(c, err) < 0) return -1;
    struct identifying *i = c->identifying;
    for (int s = 0; s < i->shard_count; s++)
        if (!content_hex(i->shards[s])) left += content_size(i->shards[s]);
    if (left < BEHIND) return checkpoint_identify(c, NULL, err);
    i->behind = true;
    start_behind(i);
    return 0;
}

bool checkpoint_identified(struct checkpoint *c)
{
    if (!*c->fingerprint && c->identifying && atomic_load(&c->identifying->read)) {
        stop_behind(c->identifying);
        finish(c);
    }
    return *c->fingerprint;
}

void checkpoint_set_form(struct checkpoint *c, const char *form)
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

// Hashes config.json, the headers, and both ends of every tensor.
static int hash_samples(const struct checkpoint *c, char hex[HASH_HEX])
{
    struct hash h;
    hash_start(&h);
    if (!c->gguf_count) {
        size_t size;
        char *path = xasprintf("%s/config.json", c->folder);
        char *config = file_read(path, CHECKPOINT_CONFIG_LIMIT, &size, NULL);
        free(path);
        if (!config) return -1;
        hash_add(&h, config, size);
        free(config);
    }
    // Skips weights quantised by vlmsh (weights.dtype): the last shard, a file outside the folder.
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

bool checkpoint_matches_earlier(struct checkpoint *c, const char *fingerprint)
{
    if (!strcmp(c->fingerprint, fingerprint)) return false;
    if (!*c->earlier && hash_samples(c, c->earlier) < 0) return false;
    return !strcmp(c->earlier, fingerprint);
}

// --- differences ---------------------------------------------------------------------------------

char *checkpoint_files_differ(const char *were, const char *are)
{
    struct buf b = { 0 };
    struct names items[2] = { 0 }, differ = { 0 }; // sets, because a record may be long
    const char *lists[] = { are, were };
    size_t number;
    char *one;
    for (int k = 0; k < 2 && were && are; k++)
        for (; (one = items_take(&lists[k], " ")); free(one)) names_add(&items[k], one, NULL);
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < items[k].count; i++) {
            char *item = items[k].list[i], *at = strrchr(item, '@');
            if (names_find(&items[!k], item, &number)) continue;
            char *name = at ? xstrndup(item, (size_t)(at - item)) : xstrdup(item);
            bool known;
            names_add(&differ, name, &known);
            if (!known) buf_printf(&b, "%s%s", b.length ? ", " : "", name);
            free(name);
        }
    names_release(&items[0]);
    names_release(&items[1]);
    names_release(&differ);
    return b.length ? buf_take(&b) : NULL;
}

bool checkpoint_identity_unknown(const char *identity)
{
    return !strncmp(identity, UNHASHED, strlen(UNHASHED));
}

int checkpoint_check_identity(struct checkpoint *c, const char *identity, bool *earlier,
                              struct err *err)
{
    const char *were = strchr(identity, ' ');
    char *then = xstrndup(identity, were ? (size_t)(were - identity) : strlen(identity));
    const bool same = !strcmp(then, c->fingerprint);
    *earlier = !same && !were && checkpoint_matches_earlier(c, then);
    free(then);
    if (same || *earlier) return 0;
    char *which = checkpoint_files_differ(were ? were + 1 : NULL, c->files);
    err_set(err, "the files of '%s' have changed%s%s", c->name, which ? ": " : "",
            which ? which : "");
    free(which);
    return -1;
}
