// core/files/quantised/quantised_parts.h -- shared by the files of quantised folders only.
#ifndef CORE_FILES_QUANTISED_QUANTISED_PARTS_H
#define CORE_FILES_QUANTISED_QUANTISED_PARTS_H

#include "core/files/quantised/quantised.h"
#include "core/files/safetensors.h"

enum {
    QUANTISED_COLUMNS_MOST = 1 << 22, // of a matrix
    QUANTISED_PARTS = 8,              // tensors of a matrix
};

// The order of codes. A word has 32 bits; its codes begin at the lowest bits.
enum quantised_order {
    ALONG_ROWS,    // each row is a sequence of bits
    ALONG_COLUMNS, // [in / per word, out]: a word holds codes of one row (GPTQ)
    ALONG_OUTPUTS, // [in, out / 8]: a word holds codes of eight rows, interleaved (AWQ)
    FLAT,          // rows follow each other; the first code of a byte is its upper half
};

// Numbers that elements of a matrix share, one per group of columns.
struct shared {
    const struct safetensor *tensor; // NULL: none
    int64_t row, group;              // distance between the numbers of two rows, and of two groups
};

struct quantised {
    const struct quantised_format *format;
    const struct safetensor *part[QUANTISED_PARTS]; // the first: codes
    int part_count;
    int64_t rows, columns;
    int bits; // of a code
    enum quantised_order order;
    int64_t step;      // bytes of a row of codes, or words
    float levels[256]; // the number of each code
    bool whole;        // levels are whole numbers
    int64_t group;     // columns that share a scale; FLAT: elements
    int64_t group_rows, groups;
    int64_t named;                  // the width of groups that config.json names; 0: none
    const struct safetensor *g_idx; // group of each column; NULL: in order
    struct shared scale, zero, offset;
    // A scale is divided by `divisor`; the product with it is multiplied by `factor`.
    float divisor, factor;
    // Nested scales (bitsandbytes): scale = nested_map[number] * nested_scale[index / nested_group]
    // + nested_offset.
    const struct safetensor *nested_map, *nested_scale;
    int64_t nested_group;
    float nested_offset;
    // Zero points: zero_base + the stored number, of which `zero_per` rows share a word, to which
    // zero_add is added first.
    float zero_base;
    int zero_per;
    uint32_t zero_add;
    bool zero_interleaved; // as ALONG_OUTPUTS
};

// What a format's `describe` gets: part() finds the tensor BASE.suffix and counts it to the matrix.
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
    const char *sign;   // suffix of a tensor that must be beside it
    // Describes the matrix `r->q`; the codes are its first part. -1: it cannot be read.
    int (*describe)(struct quantised_reading *r);
};

extern const struct quantised_format quantised_formats[]; // ends with a row without name

#define QUANTISED_ADVICE "use the model's folder in BF16 or F16, or a GGUF file of it"

// Returns whether MLX wrote the folder. quantised_reorder gives its convolutions Hugging Face's
// order; quantised_rename, after the matrices are joined, gives its tensors Hugging Face's names.
bool quantised_is_mlx(const struct checkpoint *c);
int quantised_reorder(struct checkpoint *c, struct err *err);
int quantised_rename(struct checkpoint *c, struct err *err);

const struct safetensor *quantised_part(struct quantised_reading *r, const char *suffix);

// Returns a scale: a float, F8_E4M3, or else E8M0 in a byte.
float quantised_number(const struct safetensor *t, int64_t i);
float quantised_e4m3(uint8_t x);
// Returns the dtype with blocks that holds the matrix exactly; -1: none does.
int quantised_exact_dtype(const struct quantised *q);

#endif
