// core/sets/format.h -- the file formats of evaluation sets, and their rows as records.
//
//   void *self;
//   const struct set_format *format = set_format_of(path, columns, &err);
//   if (format && (self = format->open(path, folder, columns, &count, &err))) ...
//   struct set_record r;
//   if (format->read(self, 3, &r, &err) == 0) ... set_text(&r, "question") ...
//   set_record_release(&r);
//
// A record has the keys of VLMEvalKit's tables, whatever the format: "index", "question", "hint",
// "A" "B" ..., "answer" (a text or a list), "category". A format renames its own keys (struct
// set_names). Files are untrusted.
#ifndef CORE_SETS_FORMAT_H
#define CORE_SETS_FORMAT_H

#include "core/base/json.h"
#include "core/base/scratch.h"
#include "core/sets/columns.h"

struct set_record {
    cJSON *json;
    char **pictures; // [picture_count] paths of files, or names that the format's picture() knows
    size_t picture_count;
    int *numbers;        // [picture_count] N of a picture's mark "<image N>"; NULL: 1, 2 ...
    bool number;         // the id is a number in the file; "index" holds every id as text
    bool numbered;       // so is the answer
    const char *faults;  // why answer files could not be read, borrowed from the format; or NULL
    const char *file;    // name of the record's file, if the set has several, borrowed from the
                         // format; else NULL
    int64_t row;         // its row in that file, from 0
    bool shared;         // several files have the same ids for different rows, so the file's name
                         // must make them unique
    bool nan;            // trailing choices with the text "nan" count as absent
    const cJSON *others; // columns that are not decoded, borrowed from the format; or NULL
    struct scratch scratch; // texts made from the record
};

struct set_format {
    const char *name;
    // True if a file that begins with these bytes has this format.
    bool (*is)(const char *path, const char *head, size_t size);
    // `folder`: base of relative picture paths. `folder`, `path` and `columns` must outlive the
    // format. NULL on error.
    void *(*open)(const char *path, const char *folder, const struct set_columns *columns,
                  int64_t *count, struct err *err);
    int (*read)(void *self, int64_t index, struct set_record *r, struct err *err);
    // Reads a row without its pictures, to count its questions (RefCOCO); NULL: each row has one.
    int (*read_texts)(void *self, int64_t index, struct set_record *r, struct err *err);
    // Returns the bytes of a picture that a record names, which may be a file; free() them. NULL:
    // all pictures are files.
    char *(*picture)(void *self, const char *name, size_t *size, struct err *err);
    // Returns the SHA-256 of the file, or one over the hashes of several files; NULL: the caller
    // must hash the file.
    const char *(*hash)(const void *self);
    void (*close)(void *self);
};

extern const struct set_format set_format_tsv, set_format_lines, set_format_object, set_format_csv,
    set_format_parquet, set_format_folder;

// True for a folder, and for a pattern of files ("BLINK/*/val-*.parquet").
bool set_folder_is(const char *path);
// Checks that the folder or pattern has files, and that each has a known format.
int set_folder_check(const char *path, const struct set_columns *columns, struct err *err);

// Recognises the format by the file's first bytes. Returns NULL with a message if the format is
// unknown.
const struct set_format *set_format_of(const char *path, const struct set_columns *columns,
                                       struct err *err);

// Returns a text, or a number as text, borrowed; NULL if it is absent, empty or "nan".
const char *set_text(const struct set_record *r, const char *key);
// Returns the row's id, with the file's name in front if several files have the same ids; NULL: the
// row has none.
const char *set_id(struct set_record *r);
// Returns an item of a list: a text, or a number as text, which lives as long as the record; NULL
// if it is neither.
const char *set_item_text(struct set_record *r, const cJSON *item);
// Returns the text of a key of any JSON object, or `otherwise`.
const char *set_text_of(const cJSON *json, const char *key, const char *otherwise);
// Adds a picture: `path` relative to `folder` unless it is absolute; COCO_SPLIT_N.jpg may also be
// in the folder SPLIT in it.
void set_add_picture(struct set_record *r, const char *path, const char *folder);
// Adds the picture that a JSON value names: a path, or an object (dialogue_picture). Adds none for
// "" and null; -1 if another value names none.
int set_add_item(struct set_record *r, const cJSON *item, const char *folder, struct err *err);
// Adds the pictures of the user's columns from the second on (--columns picture=...). A cell is a
// path, base64, or a list of these, which may be written as text.
int set_add_columns(struct set_record *r, const struct set_columns *columns, const char *folder,
                    struct err *err);
void set_record_release(struct set_record *r);
// True if a picture's name is "PATH#ROW.NUMBER": the picture is in the file at `path`.
bool set_picture_is_in(const char *name, const char *path);
// Reads row and number from a picture's name "FILE#ROW.NUMBER"; false with a message if the name is
// malformed or the row does not exist.
bool set_picture_number(const char *name, int64_t rows, int64_t *row, long *number,
                        struct err *err);
// Parses a Python list literal, "['a', \"b\", 3]", to texts; NULL if the text is not such a
// literal. The caller frees the result with cJSON_Delete.
cJSON *set_python_list(const char *text);

// --- rows of JSON --------------------------------------------------------------------------------

// The first key of `from` that a row has becomes the record's key `to`, unless the row already has
// `to`. A table ends with a row without `to`.
struct set_names {
    const char *to, *from[8];
};

// Makes a record from a JSON row, which it owns from then on, even on failure: converts numbers to
// texts, as in tables, and renames keys. `names` begins with "index". -1 if the row is NULL (err is
// unchanged) or not an object.
int set_record_of(struct set_record *r, cJSON *row, const struct set_names *names, struct err *err);
void set_put(struct set_record *r, const char *key, const char *text); // adds or replaces a value
// Sets "answer" to the texts of list[].key; if it finds none, changes nothing and returns false.
bool set_put_answers(struct set_record *r, const cJSON *list, const char *key);

#endif
