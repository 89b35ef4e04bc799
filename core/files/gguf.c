// core/files/gguf.c -- the GGUF reader: maps the file, reads metadata and the list of tensors.
//
//   "GGUF", version | number of tensors, number of pairs
//   pairs:   key, type, value          a text is a length and bytes
//   tensors: name, dimensions (the row's length first), type, offset
//   padding to general.alignment, then the tensors' data, each padded to that alignment
//
// Sources: docs/gguf.md of ggml-org/ggml; block sizes: gguf-py's constants.py.
#include "core/files/gguf.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/file_in.h"
#include "core/base/mem.h"
#include "core/base/text.h"

enum {
    RANK_MOST = 4,
    NAME_MOST = 255,      // bytes of a tensor's name
    KEY_MOST = 65535,     // bytes of a key
    TEXT_MOST = 1 << 30,  // bytes of a single text
    NESTED_MOST = 4,      // levels of lists in lists
    PAIR_LEAST = 13,      // bytes of a pair: an empty key's length, type, a number
    TENSOR_LEAST = 32,    // bytes of a tensor's record: an empty name, one dimension
    ALIGNMENT_USUAL = 32, // if general.alignment is absent
    ALIGNMENT_MOST = 1 << 20,
};

// --- types ---------------------------------------------------------------------------------------

static const struct tensor_type {
    const char *name;
    int id;
    int dtype;          // -1: valid, but not supported in computations
    int numbers, bytes; // of a block, if there is no dtype
} tensor_types[] = {
    // clang-format off
    { "F32", 0, .dtype = DTYPE_F32 },            { "F16", 1, .dtype = DTYPE_F16 },
    { "BF16", 30, .dtype = DTYPE_BF16 },         { "Q8_0", 8, .dtype = DTYPE_Q8_0 },
    { "Q4_0", 2, .dtype = DTYPE_Q4_0 },          { "Q4_1", 3, .dtype = DTYPE_Q4_1 },
    { "Q5_0", 6, .dtype = DTYPE_Q5_0 },          { "Q5_1", 7, .dtype = DTYPE_Q5_1 },
    { "Q2_K", 10, .dtype = DTYPE_Q2_K },         { "Q3_K", 11, .dtype = DTYPE_Q3_K },
    { "Q4_K", 12, .dtype = DTYPE_Q4_K },         { "Q5_K", 13, .dtype = DTYPE_Q5_K },
    { "Q6_K", 14, .dtype = DTYPE_Q6_K },         { "IQ4_NL", 20, .dtype = DTYPE_IQ4_NL },
    { "IQ4_XS", 23, .dtype = DTYPE_IQ4_XS },     { "I32", 26, .dtype = DTYPE_I32 },
    { "Q8_1", 9, -1, 32, 40 },      { "Q8_K", 15, -1, 256, 292 },   { "IQ2_XXS", 16, -1, 256, 66 },
    { "IQ2_XS", 17, -1, 256, 74 },  { "IQ3_XXS", 18, -1, 256, 98 }, { "IQ1_S", 19, -1, 256, 50 },
    { "IQ3_S", 21, -1, 256, 110 },  { "IQ2_S", 22, -1, 256, 82 },   { "I8", 24, -1, 1, 1 },
    { "I16", 25, -1, 1, 2 },        { "I64", 27, -1, 1, 8 },        { "F64", 28, -1, 1, 8 },
    { "IQ1_M", 29, -1, 256, 56 },   { "TQ1_0", 34, -1, 256, 54 },   { "TQ2_0", 35, -1, 256, 66 },
    { "MXFP4", 39, -1, 32, 17 },    { "NVFP4", 40, -1, 64, 36 },
    // clang-format on
};

enum { TENSOR_TYPES = sizeof tensor_types / sizeof *tensor_types };

int gguf_type_id(enum dtype dtype)
{
    for (int i = 0; i < TENSOR_TYPES; i++)
        if (tensor_types[i].dtype == (int)dtype) return tensor_types[i].id;
    BUG("no GGUF type for %s", dtype_form(dtype).name);
}

char *gguf_types_known(void)
{
    struct buf known = { 0 };
    for (int i = 0; i < TENSOR_TYPES; i++)
        if (tensor_types[i].dtype >= 0 && tensor_types[i].dtype != DTYPE_I32)
            buf_printf(&known, "%s%s", i ? ", " : "", tensor_types[i].name);
    return buf_take(&known);
}

// Returns the size in bytes of a number of this type; 0: a text or a list.
static size_t number_size(enum gguf_type type)
{
    static const size_t size[GGUF_TYPES] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
    return size[type];
}

// --- reading -------------------------------------------------------------------------------------

struct cursor {
    const unsigned char *start, *at, *end;
    struct err *err;
};

static uint64_t left(const struct cursor *c)
{
    return (uint64_t)(c->end - c->at);
}

static int too_short(const struct cursor *c)
{
    return err_set(c->err, "it ends within its header (byte %zu): is it truncated?",
                   (size_t)(c->at - c->start));
}

static uint64_t little(const unsigned char *bytes, size_t size)
{
    uint64_t value = 0;
    while (size--) value = value << 8 | bytes[size];
    return value;
}

static int read_number(struct cursor *c, size_t size, uint64_t *value)
{
    *value = 0;
    if (left(c) < size) return too_short(c);
    *value = little(c->at, size);
    c->at += size;
    return 0;
}

static int read_type(struct cursor *c, enum gguf_type *type)
{
    uint64_t id = 0;
    if (read_number(c, 4, &id) < 0) return -1;
    if (id >= GGUF_TYPES) return err_set(c->err, "value type %u is not known", (unsigned)id);
    *type = (enum gguf_type)id;
    return 0;
}

// Reads a text; *text points into the mapping.
static int read_text(struct cursor *c, const char **text, uint64_t *length)
{
    if (read_number(c, 8, length) < 0) return -1;
    if (*length > left(c)) return too_short(c);
    *text = (const char *)c->at;
    c->at += *length;
    return 0;
}

// Reads a text and copies it to a C string. For names, keys and single values.
static int read_string(struct cursor *c, size_t most, const char *what, char **string)
{
    const char *text = "";
    uint64_t length = 0;
    if (read_text(c, &text, &length) < 0) return -1;
    if (length > most)
        return err_set(c->err, "%s of %zu bytes is too long (at most %zu)", what, (size_t)length,
                       most);
    if (memchr(text, 0, length)) return err_set(c->err, "%s contains a zero byte", what);
    if (text_bad_byte(text, length) < length) return err_set(c->err, "%s is not UTF-8", what);
    *string = xstrndup(text, length);
    return 0;
}

// Skips the members of a list: numbers, texts or lists.
static int skip_list(struct cursor *c, enum gguf_type item, uint64_t count, int depth)
{
    const size_t size = number_size(item);
    const char *text;
    uint64_t length;
    if (size) {
        if (count > left(c) / size) return too_short(c);
        c->at += count * size;
        return 0;
    }
    if (item == GGUF_LIST && depth >= NESTED_MOST)
        return err_set(c->err, "lists are nested more than %d deep", NESTED_MOST);
    for (uint64_t i = 0; i < count; i++) {
        enum gguf_type inner = GGUF_U8;
        uint64_t members = 0;
        if (item == GGUF_TEXT) {
            if (read_text(c, &text, &length) < 0) return -1;
        } else if (read_type(c, &inner) < 0 || read_number(c, 8, &members) < 0 ||
                   skip_list(c, inner, members, depth + 1) < 0) {
            return -1;
        }
    }
    return 0;
}

static int read_value(struct cursor *c, struct gguf_entry *e)
{
    if (read_type(c, &e->type) < 0) return -1;
    if (e->type == GGUF_TEXT) return read_string(c, TEXT_MOST, "its text", &e->text);
    if (e->type == GGUF_LIST) {
        if (read_type(c, &e->item) < 0 || read_number(c, 8, &e->count) < 0) return -1;
        e->data = c->at;
        return skip_list(c, e->item, e->count, 1);
    }
    e->data = c->at;
    if (skip_list(c, e->type, 1, 1) < 0) return -1;
    if (e->type == GGUF_BOOL && *e->data > 1) return err_set(c->err, "it is neither 0 nor 1");
    return 0;
}

static int read_pairs(struct gguf *f, struct cursor *c, uint64_t count)
{
    if (count > left(c) / PAIR_LEAST)
        return err_set(c->err, "it claims %llu pairs of metadata, more than its bytes can hold",
                       (unsigned long long)count);
    f->entries = xcalloc((size_t)count + 1, sizeof *f->entries);
    while (f->entry_count < count) {
        struct gguf_entry *e = &f->entries[f->entry_count];
        if (read_string(c, KEY_MOST, "a key", &e->key) < 0)
            return err_in(c->err, "pair %llu", (unsigned long long)f->entry_count);
        f->entry_count++;
        if (read_value(c, e) < 0) return err_in(c->err, "'%.200s'", e->key);
    }
    return 0;
}

// Computes t->bytes from shape and type.
static int size_tensor(struct safetensor *t, const struct tensor_type *type, struct err *err)
{
    struct dtype_form block = { type->name, type->numbers, type->bytes };
    int64_t count = 1, bytes;
    if (type->dtype >= 0) block = dtype_form((enum dtype)type->dtype);
    for (int i = 0; i < t->rank; i++) {
        if (t->shape[i] < 1) return err_set(err, "a dimension is not positive");
        if (__builtin_mul_overflow(count, t->shape[i], &count))
            return err_set(err, "its shape has more than 2^63 numbers");
    }
    if (t->shape[t->rank - 1] % block.numbers)
        return err_set(err, "its rows of %lld numbers are not whole blocks of %d (%s)",
                       (long long)t->shape[t->rank - 1], block.numbers, type->name);
    if (__builtin_mul_overflow(count / block.numbers, (int64_t)block.bytes, &bytes))
        return err_set(err, "its shape needs more than 2^63 bytes");
    t->bytes = (uint64_t)bytes;
    return 0;
}

static int read_tensor(struct safetensor *t, struct cursor *c)
{
    uint64_t rank, id, n;
    if (read_number(c, 4, &rank) < 0) return -1;
    if (rank < 1 || rank > RANK_MOST)
        return err_set(c->err, "it has %u dimensions; 1 to %d are allowed", (unsigned)rank,
                       RANK_MOST);
    t->rank = (int)rank;
    for (int i = t->rank - 1; i >= 0; i--) {
        if (read_number(c, 8, &n) < 0) return -1;
        t->shape[i] = n > INT64_MAX ? -1 : (int64_t)n;
    }
    if (read_number(c, 4, &id) < 0 || read_number(c, 8, &t->offset) < 0) return -1;
    for (int i = 0; i < TENSOR_TYPES; i++) {
        if (tensor_types[i].id != (int)id) continue;
        t->type = tensor_types[i].name;
        t->dtype = tensor_types[i].dtype;
        return size_tensor(t, &tensor_types[i], c->err);
    }
    char *known = gguf_types_known();
    err_set(c->err, "its type (number %u) is not known (known: %s)", (unsigned)id, known);
    free(known);
    return -1;
}

static int read_tensors(struct gguf *f, struct cursor *c, uint64_t count)
{
    if (count > left(c) / TENSOR_LEAST)
        return err_set(c->err, "it claims %llu tensors, more than its bytes can hold",
                       (unsigned long long)count);
    f->tensors = xcalloc((size_t)count + 1, sizeof *f->tensors);
    while (f->tensor_count < count) {
        struct safetensor *t = &f->tensors[f->tensor_count];
        if (read_string(c, NAME_MOST, "a tensor's name", &t->name) < 0)
            return err_in(c->err, "tensor %llu", (unsigned long long)f->tensor_count);
        f->tensor_count++;
        if (read_tensor(t, c) < 0) return err_in(c->err, "tensor '%.200s'", t->name);
    }
    return 0;
}

// --- checks --------------------------------------------------------------------------------------

static int sort_tensors(struct gguf *f, struct err *err)
{
    const char *twice = text_sort(f->tensors, f->tensor_count, sizeof *f->tensors);
    return twice ? err_set(err, "tensor '%.200s' appears twice", twice) : 0;
}

// Each tensor must begin at the padded end of the previous one.
static int check_offsets(struct gguf *f, uint64_t alignment, struct err *err)
{
    uint64_t end = 0; // below 2^63 + 2^20
    const uint64_t data = f->size - f->header;
    for (uint64_t i = 0; i < f->tensor_count; i++) {
        struct safetensor *t = &f->tensors[i];
        end = (end + alignment - 1) / alignment * alignment;
        if (t->offset != end)
            return err_set(err,
                           "tensor '%.200s': its data starts at %llu, expected %llu: the file is "
                           "damaged, download or convert it again",
                           t->name, (unsigned long long)t->offset, (unsigned long long)end);
        if (end > data || t->bytes > data - end)
            return err_set(err,
                           "tensor '%.200s': its data ends beyond the file's %llu data bytes: the "
                           "file is truncated, download it again",
                           t->name, (unsigned long long)data);
        end += t->bytes;
        t->data = (const unsigned char *)f->map + f->header + t->offset;
    }
    return 0;
}

static int parse(struct gguf *f, struct err *err)
{
    struct cursor c = { f->map, f->map, (const unsigned char *)f->map + f->size, err };
    uint64_t version, tensors, pairs;
    int64_t alignment = ALIGNMENT_USUAL;
    if (left(&c) >= 8 && !memcmp(c.at, "version ", 8))
        return err_set(err, "it is a Git LFS pointer, not the weights: run 'git lfs pull' in its "
                            "folder");
    if (left(&c) < 4 || memcmp(c.at, "GGUF", 4) != 0)
        return err_set(err, "it does not begin with 'GGUF'");
    c.at += 4;
    if (read_number(&c, 4, &version) < 0) return -1;
    if (version && !(version & 0xffff)) return err_set(err, "it is big-endian");
    if (version != 2 && version != 3)
        return err_set(err, "it has version %u; versions 2 and 3 are supported", (unsigned)version);
    if (read_number(&c, 8, &tensors) < 0 || read_number(&c, 8, &pairs) < 0 ||
        read_pairs(f, &c, pairs) < 0 || read_tensors(f, &c, tensors) < 0)
        return -1;
    const char *twice = text_sort(f->entries, f->entry_count, sizeof *f->entries);
    if (twice) return err_set(err, "'%.200s' appears twice", twice);
    if (gguf_int(f, "general.alignment", 1, ALIGNMENT_MOST, ALIGNMENT_USUAL, &alignment, err) < 0)
        return -1;
    if (alignment & (alignment - 1))
        return err_set(err, "general.alignment %lld is not a power of two", (long long)alignment);
    const uint64_t header = (uint64_t)(c.at - c.start), align = (uint64_t)alignment;
    f->header = (header + align - 1) / align * align;
    if (f->header > f->size && f->tensor_count) return too_short(&c);
    if (f->header > f->size) f->header = f->size; // no data, and no padding
    return check_offsets(f, align, err) < 0 ? -1 : sort_tensors(f, err);
}

// --- opening -------------------------------------------------------------------------------------

static struct gguf *open_bytes(const void *bytes, uint64_t size, const char *path, bool borrowed,
                               struct err *err)
{
    struct gguf *f = xcalloc(1, sizeof *f);
    f->path = xstrdup(path);
    f->map = (void *)(uintptr_t)bytes;
    f->size = size;
    f->borrowed = borrowed;
    if (parse(f, err) == 0) return f;
    err_in(err, "'%s' is not a valid GGUF file", path);
    gguf_close(f);
    return NULL;
}

struct gguf *gguf_parse(const void *bytes, uint64_t size, const char *name, struct err *err)
{
    return open_bytes(bytes, size, name, true, err);
}

struct gguf *gguf_open(const char *path, struct err *err)
{
    uint64_t size;
    void *map = file_map(path, &size, err);
    return map ? open_bytes(map, size, path, false, err) : NULL;
}

void gguf_close(struct gguf *f)
{
    if (!f) return;
    if (f->map && !f->borrowed) munmap(f->map, f->size);
    for (uint64_t i = 0; i < f->entry_count; i++) {
        free(f->entries[i].key);
        free(f->entries[i].text);
    }
    for (uint64_t i = 0; i < f->tensor_count; i++) free(f->tensors[i].name);
    free(f->entries);
    free(f->tensors);
    free(f->path);
    free(f);
}

int gguf_join(struct gguf *f, struct gguf *part, struct err *err)
{
    const size_t count = f->tensor_count, more = part->tensor_count;
    f->tensors = xreallocarray(f->tensors, count + more + 1, sizeof *f->tensors);
    memcpy(f->tensors + count, part->tensors, more * sizeof *f->tensors);
    f->tensor_count += more;
    part->tensor_count = 0;
    return sort_tensors(f, err) < 0 ? err_in(err, "'%s' and '%s'", f->path, part->path) : 0;
}

// --- values --------------------------------------------------------------------------------------

const struct safetensor *gguf_find(const struct gguf *f, const char *name)
{
    struct safetensor key = { .name = (char *)(uintptr_t)name };
    if (!f->tensor_count) return NULL;
    return bsearch(&key, f->tensors, f->tensor_count, sizeof key, text_compare);
}

static struct gguf_entry *find_entry(const struct gguf *f, const char *key)
{
    struct gguf_entry wanted = { .key = (char *)(uintptr_t)key };
    if (!f->entry_count) return NULL;
    return bsearch(&wanted, f->entries, f->entry_count, sizeof wanted, text_compare);
}

const struct gguf_entry *gguf_entry(const struct gguf *f, const char *key)
{
    struct gguf_entry *e = find_entry(f, key);
    if (e) e->read = true;
    return e;
}

const char *gguf_text(const struct gguf *f, const char *key)
{
    const struct gguf_entry *e = gguf_entry(f, key);
    return e ? e->text : NULL;
}

int gguf_text_read(const struct gguf *f, const char *key, const char **text, struct err *err)
{
    *text = gguf_text(f, key);
    return *text || !gguf_entry(f, key) ? 0 : err_set(err, "'%s' is not a text", key);
}

// Rounds whole numbers beyond 2^53; no key that vlmsh reads has such a value.
static double number_at(const unsigned char *data, enum gguf_type type)
{
    const uint64_t bits = little(data, number_size(type));
    float single;
    double wide;
    memcpy(&single, &bits, sizeof single);
    memcpy(&wide, &bits, sizeof wide);
    switch (type) {
    case GGUF_I8: return (int8_t)bits;
    case GGUF_I16: return (int16_t)bits;
    case GGUF_I32: return (int32_t)bits;
    case GGUF_I64: return (double)(int64_t)bits;
    case GGUF_F32: return (double)single;
    case GGUF_F64: return wide;
    default: return (double)bits;
    }
}

double gguf_number(const struct gguf_entry *list, uint64_t i)
{
    return number_at(list->data + i * number_size(list->item), list->item);
}

void gguf_expect(const struct gguf *f, const char *key, double value)
{
    struct gguf_entry *e = find_entry(f, key);
    if (!e || !number_size(e->type)) return;
    const double x = number_at(e->data, e->type);
    if (x >= value - 1e-3 * value && x <= value + 1e-3 * value) e->read = true;
}

int gguf_int(const struct gguf *f, const char *key, int64_t min, int64_t max, int64_t otherwise,
             int64_t *value, struct err *err)
{
    const struct gguf_entry *e = gguf_entry(f, key);
    *value = otherwise;
    if (!e) return 0;
    const enum gguf_type type = e->type == GGUF_LIST && e->count ? e->item : e->type;
    if (!number_size(type) || type == GGUF_F32 || type == GGUF_F64 || type == GGUF_BOOL)
        return err_set(err, "'%s' is not a whole number", key);
    const double x = number_at(e->data, type);
    for (uint64_t i = 1; e->type == GGUF_LIST && i < e->count; i++)
        if (gguf_number(e, i) != x)
            return err_set(err,
                           "'%s' is %.0f in one layer and %.0f in another, which is not supported",
                           key, x, gguf_number(e, i));
    if (!(x >= (double)min && x <= (double)max))
        return err_set(err, "'%s' is %.0f; it must be within %lld..%lld", key, x, (long long)min,
                       (long long)max);
    *value = (int64_t)x;
    return 0;
}

int gguf_real(const struct gguf *f, const char *key, double otherwise, double *value,
              struct err *err)
{
    const struct gguf_entry *e = gguf_entry(f, key);
    *value = otherwise;
    if (!e) return 0;
    if (!number_size(e->type) || e->type == GGUF_BOOL)
        return err_set(err, "'%s' is not a number", key);
    *value = number_at(e->data, e->type);
    return *value - *value == 0 ? 0 : err_set(err, "'%s' is not a finite number", key);
}

int gguf_bool(const struct gguf *f, const char *key, bool otherwise, bool *value, struct err *err)
{
    const struct gguf_entry *e = gguf_entry(f, key);
    *value = otherwise;
    if (!e) return 0;
    if (e->type != GGUF_BOOL) return err_set(err, "'%s' is neither true nor false", key);
    *value = *e->data;
    return 0;
}

int gguf_list(const struct gguf *f, const char *key, bool texts, uint64_t most,
              const struct gguf_entry **list, struct err *err)
{
    const struct gguf_entry *e = gguf_entry(f, key);
    *list = e;
    if (!e) return 0;
    const bool fits = texts ? e->item == GGUF_TEXT : number_size(e->item) > 0;
    if (e->type != GGUF_LIST || (e->count && !fits)) // writers give empty lists any type
        return err_set(err, "'%s' is not a list of %s", key, texts ? "texts" : "numbers");
    if (e->count > most)
        return err_set(err, "'%s' has %llu members; at most %llu are allowed", key,
                       (unsigned long long)e->count, (unsigned long long)most);
    return 0;
}

const char *gguf_next(const unsigned char **at, size_t *length)
{
    const char *text = (const char *)*at + 8;
    *length = (size_t)little(*at, 8);
    *at += 8 + *length;
    return text;
}
