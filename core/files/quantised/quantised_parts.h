// core/files/quantised/quantised_parts.h -- shared by the files of core/files/quantised/ only.
#ifndef CORE_FILES_QUANTISED_QUANTISED_PARTS_H
#define CORE_FILES_QUANTISED_QUANTISED_PARTS_H

#include "core/files/quantised/quantised.h"
#include "core/files/safetensors.h"

enum {
    QUANTISED_COLUMNS_MOST = 1 << 22, // columns of a matrix, at most
    QUANTISED_PARTS = 8,              // tensors of a matrix, at most
};

// The order of codes. A word has 32 bits, the lowest of which hold its first code.
enum quantised_order {
    ALONG_ROWS,    // each row is a sequence of bits
    ALONG_COLUMNS, // [in / codes per word, out]: a word holds codes of one row (GPTQ)
    ALONG_OUTPUTS, // [in, out / 8]: a word holds codes of eight rows, interleaved (AWQ)
    FLAT,          // rows follow without padding; a byte's upper half holds its first code
};

// Scales, zero points or offsets: a group of columns in a row shares one.
struct shared {
    const struct safetensor *tensor; // NULL: none
    int64_t row, group; // distance in elements from a row to the next, and from a group to the next
};

struct quantised {
    const struct quantised_format *format;
    const struct safetensor *part[QUANTISED_PARTS]; // part[0]: codes
    int part_count;
    int64_t rows, columns;
    int bits; // of a code
    enum quantised_order order;
    int64_t step; // length of a row of the codes' tensor in bytes (ALONG_ROWS) or words; FLAT: 0
    float levels[256]; // value of each code
    bool whole;        // levels are whole numbers
    int64_t group;     // columns that share a scale; FLAT: elements
    int64_t group_rows, groups;
    int64_t named;                  // width of groups stated in config.json; 0: none
    const struct safetensor *g_idx; // group of each column; NULL: in order
    struct shared scale, zero, offset;
    // Scales are divided by `divisor`; the product of level and scale is multiplied by `factor`.
    float divisor, factor;
    // Nested scales (bitsandbytes), from stored bytes s:
    //   scale[i] = nested_map[s[i]] * nested_scale[i / nested_group] + nested_offset
    const struct safetensor *nested_map, *nested_scale;
    int64_t nested_group;
    float nested_offset;
    // A zero point is zero_base plus a stored number. `zero_per` rows share a word of stored
    // numbers; zero_add is added to the word before the numbers are extracted.
    float zero_base;
    int zero_per;
    uint32_t zero_add;
    bool zero_interleaved; // in the order of ALONG_OUTPUTS
};

// The argument of a format's `describe`.
struct quantised_reading {
    const struct checkpoint *c;
    const cJSON *config; // quantization_config
    bool *used;          // [tensor_count] whether a tensor belongs to a matrix
    char *base;
    struct quantised *q;
    struct err *err;
};

struct quantised_format {
    const char *name;   // "GPTQ"
    const char *method; // quant_method
    const char *codes;  // suffix of the codes' tensor
    const char *type;   // type of the codes; NULL: any
    const char *sign;   // suffix of a tensor that must be beside the codes
    // Fills r->q, whose part[0] holds the codes. -1: vlmsh cannot read the matrix.
    int (*describe)(struct quantised_reading *r);
};

extern const struct quantised_format quantised_formats[]; // ends with a row without a name

#define QUANTISED_ADVICE "use the model's folder in BF16 or F16, or a GGUF file of it"

// Returns whether MLX wrote the folder. quantised_reorder gives its convolutions Hugging Face's
// order; quantised_rename, after the matrices are joined, gives its tensors Hugging Face's names.
bool quantised_is_mlx(const struct checkpoint *c);
int quantised_reorder(struct checkpoint *c, struct err *err);
int quantised_rename(struct checkpoint *c, struct err *err);

// Finds the tensor named r->base + suffix and adds it to the matrix's parts; NULL: none exists.
const struct safetensor *quantised_part(struct quantised_reading *r, const char *suffix);

// Returns element i of a tensor of F32, F16, BF16, F8_E4M3, or else E8M0 in bytes.
float quantised_number(const struct safetensor *t, int64_t i);
float quantised_e4m3(uint8_t x);
// Returns the dtype with blocks that holds the matrix exactly; -1: none does.
int quantised_exact_dtype(const struct quantised *q);

#endif
