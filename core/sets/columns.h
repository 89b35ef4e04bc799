// core/sets/columns.h -- the user's names for columns (--columns question=q,answer=a,picture=img).
//
//   struct set_columns c;
//   if (set_columns_parse(&c, "question=q,picture=img", &err) < 0) ...
//   set_columns_key(&c, "q")       // "question": the record's key for a column of the file
//   set_columns_check(&c, &names_of_the_file, path, &err)
//   set_columns_release(&c);
#ifndef CORE_SETS_COLUMNS_H
#define CORE_SETS_COLUMNS_H

#include <stdbool.h>

#include "core/base/err.h"
#include "core/base/json.h"
#include "core/base/names.h"

enum { SET_COLUMNS = 40 };

struct set_columns {
    struct {
        const char *key; // of a record
        char *column;    // of the file
    } list[SET_COLUMNS];
    size_t count;
    // True if the set that reads the columns uses this key; set_columns_check refuses other keys.
    // NULL: no set.
    bool (*reads)(const void *self, const char *key);
    const void *self;
};

// text NULL: no names. Refuses unknown names, columns given twice, and names given twice (except
// picture: at most eight).
int set_columns_parse(struct set_columns *c, const char *text, struct err *err);
void set_columns_release(struct set_columns *c); // also accepts a zeroed one
// Returns the record's key for a column of the file; NULL if another column has that key.
const char *set_columns_key(const struct set_columns *c, const char *column);
// Returns the column of a key, or NULL.
const char *set_columns_of(const struct set_columns *c, const char *key);
// Returns the record's key for the user's picture column `number`, from 0; NULL: there are fewer.
const char *set_columns_picture(const struct set_columns *c, int number);
// Refuses columns that the set does not read, or that the file lacks.
int set_columns_check(const struct set_columns *c, const struct names *file, const char *path,
                      struct err *err);
// Renames the keys of a row as --columns says.
void set_columns_rename(const struct set_columns *c, cJSON *row);

#endif
