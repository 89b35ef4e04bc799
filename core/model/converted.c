// core/model/converted.c -- a folder's weights in another dtype: converted once, then mapped
// instead of the folder's own.
//
// The file holds the converted matrices with the names and shapes that they have in the folder, so
// that families, adapters and methods see the same model.
#include "core/model/converted.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/dtype.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/files/content.h"
#include "core/files/gguf.h"
#include "core/files/quantised/quantised.h"
#include "core/files/weight_cache.h"
#include "core/model/families/family.h"
#include "core/model/unread.h"
#include "kernels/blocks.h"

static const char *const dtypes[] = { "auto", "q8_0", "q4_k", "f16", "bf16", NULL };

const struct setting weights_settings[] = {
    { .key = "weights.dtype",
      .type = SETTING_CHOICE,
      .def = "auto",
      .choices = dtypes,
      .stale = STALE_MODELS,
      .help = "Converts the language model's weights when /load opens a model folder: q8_0, q4_k, "
              "f16 or bf16; auto keeps the stored weights. Converted weights are kept in the cache "
              "folder (XDG_CACHE_HOME).",
      .also = "quantise quantize" },
    { .key = "weights.cache",
      .type = SETTING_REAL,
      .max = 1e6,
      .def = "20",
      .unit = "GB",
      .stale = STALE_MODELS,
      .help = "Cache size for converted weights (weights.dtype); the least recently used weights "
              "are removed first." },
    { 0 },
};

enum {
    BLOCK_NUMBERS = 4 << 20, // elements converted at a time
    WRITES = 5               // attempts to write a file that other processes remove
};

static const char SEPARATOR[] = "::", FINGERPRINT[] = "vlmsh.fingerprint";

enum dtype converted_dtype(const struct gguf_kind *kind, enum model_part_kind part,
                           const char *name, int64_t width)
{
    const enum dtype wanted = part == PART_DECODER ? kind->matrix : kind->outer;
    const bool router = strstr(name, "mlp.gate.weight") || strstr(name, "router.proj.weight");
    if (dtype_in_blocks(wanted) && router) return DTYPE_F32;
    if (strstr(name, ".conv1d.") || strstr(name, "mlp.shared_expert_gate."))
        return DTYPE_F32; // llama.cpp reads no other type
    return gguf_fitting_dtype(wanted, width);
}

// --- names ---------------------------------------------------------------------------------------

char *converted_split(const char *name, const struct gguf_kind **kind)
{
    const char *last = NULL;
    for (const char *at = name; (at = strstr(at, SEPARATOR)); at++) last = at;
    *kind = last && !checkpoint_is_gguf(name) ? gguf_kind_find(last + strlen(SEPARATOR)) : NULL;
    return *kind ? xstrndup(name, (size_t)(last - name)) : xstrdup(name);
}

char *converted_name(const char *name, const struct settings *s)
{
    const struct gguf_kind *kind;
    bool ignore;
    char *whole = unread_split(name, &ignore), *converted = NULL;
    free(converted_split(whole, &kind));
    if (!kind && !checkpoint_is_gguf(name) && !settings_is(s, "weights.dtype", "auto"))
        converted = checkpoint_with_encoder(whole, settings_text(s, "weights.dtype"));
    if (converted && ignore) {
        free(whole);
        whole = converted;
        converted = unread_join(whole);
    }
    free(whole);
    return converted ? converted : xstrdup(name);
}

// --- selection of weights ------------------------------------------------------------------------

// True for matrices of the language model that are not block-quantised yet.
static bool may_change(const struct model *m, const struct safetensor *t)
{
    const enum model_part_kind part = m->family->part(m, t->name);
    return safetensor_is_float(t) && t->rank >= 2 && t->rank <= 3 && part != PART_VISION &&
           part != PART_PROJECTOR;
}

static enum dtype wanted_dtype(const struct model *m, const struct gguf_kind *kind,
                               const struct safetensor *t)
{
    return converted_dtype(kind, m->family->part(m, t->name), t->name, t->shape[t->rank - 1]);
}

// Returns a tensor's dtype under this kind; the stored dtype if the kind does not convert the
// tensor.
static int dtype_of(const struct model *m, const struct gguf_kind *kind, const struct safetensor *t)
{
    if (!may_change(m, t)) return t->dtype;
    // Loading transposes such a stack of experts, and matrices in blocks cannot be transposed.
    if (t->rank == 3 && m->decoder.config.experts.transposed) return t->dtype;
    const enum dtype dtype = wanted_dtype(m, kind, t);
    const bool fits = dtype_in_blocks(dtype) || !dtype_in_blocks(kind->matrix);
    return fits || (t->dtype == DTYPE_F32 && dtype != DTYPE_F32) ? (int)dtype : t->dtype;
}

uint64_t converted_bytes(const struct model *m, const struct settings *s)
{
    const struct gguf_kind *kind = gguf_kind_find(settings_text(s, "weights.dtype"));
    const struct checkpoint *c = m->checkpoint;
    uint64_t bytes = 0;
    for (int64_t i = 0; i < c->tensor_count; i++) {
        const struct safetensor *t = c->tensors[i];
        const int dtype = kind ? dtype_of(m, kind, t) : t->dtype;
        bytes += dtype == t->dtype ? t->bytes : dtype_bytes((enum dtype)dtype, safetensor_count(t));
    }
    return bytes;
}

// Adds a notice if rows do not fit the requested blocks.
static void note_misfits(const struct model *m, const struct gguf_kind *kind)
{
    struct checkpoint *c = m->checkpoint;
    int all = 0, others = 0, stay = 0;
    for (int64_t i = 0; i < c->tensor_count; i++) {
        const struct safetensor *t = c->tensors[i];
        const int dtype = dtype_of(m, kind, t);
        if (!may_change(m, t) || wanted_dtype(m, kind, t) == DTYPE_F32) continue;
        all++;
        stay += dtype == t->dtype;
        others += dtype != t->dtype && dtype != (int)kind->matrix && dtype != (int)kind->outer;
    }
    if (c->notice || !dtype_in_blocks(kind->matrix) || !(others + stay)) return;
    c->notice =
        xasprintf("%d of %d matrices have rows that do not fit the blocks of %s: %d changed to "
                  "a type with smaller blocks, and %d kept their stored type",
                  others + stay, all, kind->name, others, stay);
}

static char *form_of(const struct gguf_kind *kind)
{
    return xasprintf("%s packing %d", kind->name, BLOCKS_PACKING);
}

// Identifies the weights: the folder's fingerprint and the kind.
static char *identity(const struct model *m, const struct gguf_kind *kind)
{
    char *form = form_of(kind), *text = xasprintf("%s::%s", m->checkpoint->weights, form);
    free(form);
    return text;
}

// True if the file was made from this folder's weights, and holds all that the kind converts.
static bool is_whole(const struct gguf *f, const struct model *m, const struct gguf_kind *kind)
{
    const struct checkpoint *c = m->checkpoint;
    const char *of = gguf_text(f, FINGERPRINT);
    char *wanted = identity(m, kind);
    bool whole = of && !strcmp(of, wanted);
    free(wanted);
    for (int64_t i = 0; i < c->tensor_count && whole; i++) {
        const int dtype = dtype_of(m, kind, c->tensors[i]);
        if (dtype == c->tensors[i]->dtype) continue;
        const struct safetensor *t = gguf_find(f, c->tensors[i]->name);
        whole = t && t->dtype == dtype && t->rank == c->tensors[i]->rank &&
                !memcmp(t->shape, c->tensors[i]->shape, (size_t)t->rank * sizeof *t->shape);
    }
    return whole;
}

// --- writing -------------------------------------------------------------------------------------

struct writing {
    struct gguf_writer *out;
    const struct load_progress *progress;
    uint64_t done, total;
};

static int put_tensor(struct writing *w, const struct safetensor *t, enum dtype dtype,
                      struct err *err)
{
    const int64_t width = t->shape[t->rank - 1];
    int64_t left = t->rank == 3 ? t->shape[0] * t->shape[1] : t->shape[0];
    int64_t step = width < BLOCK_NUMBERS ? BLOCK_NUMBERS / width : 1;
    const size_t row = dtype_bytes((enum dtype)t->dtype, width);
    float *floats = xreallocarray(NULL, (size_t)(step * width), sizeof *floats);
    int status = 0;
    for (int64_t first = 0; left && status == 0; left -= step, first += step) {
        if (step > left) step = left;
        quantised_rows(t, first, step, floats);
        status = gguf_writer_floats(w->out, t->name, dtype, floats, step * width, width, err);
        w->done += (uint64_t)step * row;
        if (status == 0 && w->progress &&
            !w->progress->report(w->progress->self, w->done, w->total))
            status = err_set(err, "cancelled");
    }
    free(floats);
    return status;
}

static int write_tensors(const struct model *m, const struct gguf_kind *kind, struct writing *w,
                         struct err *err)
{
    const struct checkpoint *c = m->checkpoint;
    char *of = identity(m, kind);
    gguf_writer_text(w->out, "general.architecture", "vlmsh");
    gguf_writer_text(w->out, FINGERPRINT, of);
    free(of);
    for (int64_t i = 0; i < c->tensor_count; i++) {
        const struct safetensor *t = c->tensors[i];
        const int dtype = dtype_of(m, kind, t);
        if (dtype == t->dtype) continue;
        gguf_writer_declare(w->out, t->name, (enum dtype)dtype, t->rank, t->shape);
        w->total += t->bytes;
    }
    for (int64_t i = 0; i < c->tensor_count; i++) {
        const struct safetensor *t = c->tensors[i];
        const int dtype = dtype_of(m, kind, t);
        if (dtype != t->dtype && put_tensor(w, t, (enum dtype)dtype, err) < 0) return -1;
    }
    return 0;
}

static int not_kept(const struct gguf_kind *kind, struct err *err)
{
    return err_in(err,
                  "keeping the %s weights (free some space, set XDG_CACHE_HOME to a folder with "
                  "more, or /set weights.dtype auto)",
                  kind->name);
}

// --- using ---------------------------------------------------------------------------------------

struct gguf *converted_open(const struct model *m, const struct gguf_kind *kind, const char *path)
{
    struct err err;
    struct gguf *f = access(path, F_OK) == 0 ? gguf_open(path, &err) : NULL;
    if (f && is_whole(f, m, kind)) return f;
    gguf_close(f);
    return NULL;
}

// Opens the cached file; NULL if it is not usable (converted_open), if `written`, the hash of its
// content, is unknown (""), or if the content has a different hash, which sets *damaged.
static struct gguf *open_file(const struct model *m, const struct gguf_kind *kind, const char *path,
                              const char *written, const struct load_progress *progress,
                              bool *damaged)
{
    struct gguf *f = converted_open(m, kind, path);
    char is[HASH_HEX];
    if (f && *written && content_hash(path, progress, is, NULL) == 0) {
        *damaged = strcmp(is, written) != 0;
        if (!*damaged) return f;
    }
    gguf_close(f);
    return NULL;
}

// Writes the file and computes its hash.
static int write_hashed(const struct model *m, const struct gguf_kind *kind, const char *path,
                        char written[HASH_HEX], const struct load_progress *progress,
                        struct err *err)
{
    struct writing w = { .out = gguf_writer_new(path), .progress = progress };
    int status = write_tensors(m, kind, &w, err);
    if (status == 0)
        status = gguf_writer_finish(w.out, err);
    else
        gguf_writer_abandon(w.out);
    if (status < 0) return strcmp(err->text, "cancelled") ? not_kept(kind, err) : -1;
    *written = 0;
    // If another program has already removed the file, hashing fails here, and opening it fails
    // later.
    if (content_hash_uncached(path, progress, written, NULL) == 0) {
        content_put(m->checkpoint->weights, kind->name, written);
        content_cache(path, written);
    }
    return 0;
}

// Opens the cached file, or writes it. If the folder cannot be locked, another program with a
// smaller weights.cache may remove the file at any time; find_file then writes it again.
static struct gguf *find_file(const struct model *m, const struct gguf_kind *kind,
                              const struct load_progress *progress, struct err *err)
{
    char *path = weight_cache_path(m->checkpoint->weights, kind->name, err);
    const int held = weight_cache_hold();
    char written[HASH_HEX] = "";
    bool damaged = false;
    content_get(m->checkpoint->weights, kind->name, written);
    struct gguf *f = path ? open_file(m, kind, path, written, progress, &damaged) : NULL;
    if (damaged)
        text_append(&m->checkpoint->notice,
                    xasprintf("the %s weights kept in '%s' were damaged and have been rewritten",
                              kind->name, path));
    if (!path) not_kept(kind, err);
    int left = WRITES;
    while (path && !f && left-- && write_hashed(m, kind, path, written, progress, err) == 0)
        if (!(f = open_file(m, kind, path, written, progress, &damaged)))
            err_set(err,
                    "'%s' was removed before it could be opened: does another vlmsh have a "
                    "smaller weights.cache? try again",
                    path);
    if (f) weight_cache_use(path);
    if (f) content_cache(path, written); // the file's time has changed
    weight_cache_release(held);
    free(path);
    return f;
}

int converted_use(struct model *m, const struct gguf_kind *kind,
                  const struct load_progress *progress, struct err *err)
{
    struct checkpoint *c = m->checkpoint;
    const int own = c->shard_count;
    // A folder's name may resolve to a GGUF file, which has its own dtypes.
    if (c->gguf_count) return checkpoint_fetch(c, 0, progress, err);
    note_misfits(m, kind);
    int64_t changed = 0;
    while (changed < c->tensor_count &&
           dtype_of(m, kind, c->tensors[changed]) == c->tensors[changed]->dtype)
        changed++;
    if (changed == c->tensor_count) return checkpoint_fetch(c, 0, progress, err); // no change
    struct gguf *f = find_file(m, kind, progress, err);
    if (!f || checkpoint_replace(c, f, err) < 0) return -1;
    char *form = form_of(kind);
    checkpoint_set_form(c, form);
    free(form);
    free(c->name);
    c->name = checkpoint_with_encoder(c->folder, kind->name);
    return checkpoint_fetch(c, own, progress, err);
}

int converted_trim(const struct settings *s, struct err *err)
{
    return weight_cache_trim(settings_real(s, "weights.cache") * 1e9, err);
}
