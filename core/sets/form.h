// core/sets/form.h -- the forms in which evaluation sets are downloaded, and a row of one.
//
//   void *self;
//   const struct set_form *form = set_form_of(path, &err);
//   if (form && (self = form->open(path, folder, &count, &err))) ...
//   struct set_record r;
//   if (form->read(self, 3, &r, &err) == 0) ... set_text(&r, "question") ...
//   set_record_release(&r);
//
// A record has the keys of VLMEvalKit's tables, whatever the form: "index", "question", "hint",
// "A" "B" ..., "answer" (a text or a list), "category". A form renames its own keys (struct
// set_names). Files are untrusted.
#ifndef CORE_SETS_FORM_H
#define CORE_SETS_FORM_H

#include "core/base/json.h"
#include "core/base/scratch.h"

struct set_record {
    cJSON *json;
    char **pictures; // [picture_count] paths of files, or names that the form's picture() knows
    size_t picture_count;
    bool number;            // its id is a number in the file: "index" holds all ids as texts
    const char *faults;     // why no answer was found for it, borrowed from the form; NULL
    bool nan;               // the last choices are absent where their text is "nan"
    struct scratch scratch; // texts made of it
};

struct set_form {
    const char *name;
    // Does a file that begins with these bytes have this form?
    bool (*is)(const char *path, const char *head, size_t size);
    // `folder`: base of relative picture paths; it and `path` outlive the form. NULL on error.
    void *(*open)(const char *path, const char *folder, int64_t *count, struct err *err);
    int (*read)(void *self, int64_t index, struct set_record *r, struct err *err);
    // Bytes of a picture that a record names; free() them. NULL: pictures are files.
    char *(*picture)(void *self, const char *name, size_t *size, struct err *err);
    // SHA-256 of the file if it is known without reading it; NULL: unknown.
    const char *(*hash)(const void *self);
    void (*close)(void *self);
};

extern const struct set_form set_form_tsv, set_form_lines, set_form_object, set_form_csv,
    set_form_parquet;

// From the file's first bytes. NULL with a message.
const struct set_form *set_form_of(const char *path, struct err *err);

// A text or number as text, borrowed; NULL: absent, empty or "nan".
const char *set_text(const struct set_record *r, const char *key);
// The text of a key of any object; `otherwise` if it has none.
const char *set_text_of(const cJSON *json, const char *key, const char *otherwise);
// Adds a picture: `path` relative to `folder` unless it is absolute.
void set_add_picture(struct set_record *r, const char *path, const char *folder);
void set_record_release(struct set_record *r);
// The row and number in a picture's name "FILE#ROW.NUMBER" below `rows`; false with a message.
bool set_picture_number(const char *name, int64_t rows, int64_t *row, long *number,
                        struct err *err);
// The texts of a Python list literal, "['a', \"b\", 3]"; NULL: it is none. cJSON_Delete it.
cJSON *set_python_list(const char *text);

// --- rows of JSON
// ---------------------------------------------------------------------------------

// A key of a record, and the keys of a form that become it: the first one present, unless the row
// has the key itself. A table ends with a row without `to`.
struct set_names {
    const char *to, *from[5];
};

// Makes a record of a row: numbers become texts, as everything is in a table, and keys get their
// names. The first row of the table is that of "index". -1 if the row is NULL or not an object.
int set_record_of(struct set_record *r, cJSON *row, const struct set_names *names, struct err *err);
void set_put(struct set_record *r, const char *key, const char *text); // replaces a value
// Collects the texts of list[].key as "answer"; false if there are none: it stays.
bool set_put_answers(struct set_record *r, const cJSON *list, const char *key);

#endif
