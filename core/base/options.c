// core/base/options.c -- parses words according to rows of options.
#include "core/base/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/names.h"

static bool is_listed(const struct option_row *row)
{
    return row->name[0] == '-' && !row->former;
}

static bool is_argument(const struct option_row *row)
{
    return row->name[0] != '-';
}

// Returns whether the word is an option. A word with one dash is an option only if a row has a name
// with one dash, or if the word is a misspelt "--csv" ("-csv"); other words, such as -5 or -.png,
// are arguments.
static bool is_option(const struct option_row *rows, const char *word)
{
    if (word[0] != '-' || !word[1]) return false;
    if (word[1] == '-') return true;
    for (const struct option_row *row = rows; row->name; row++)
        if (!is_argument(row) && (row->name[1] != '-' || !strcmp(row->name + 1, word))) return true;
    return false;
}

// Returns the row of an option; *value is set if the word contains the value too.
static const struct option_row *find_row(const struct option_row *rows, const char *word,
                                         const char **value)
{
    *value = NULL;
    for (const struct option_row *row = rows; row->name; row++) {
        const size_t n = strlen(row->name);
        if (is_argument(row) || strncmp(word, row->name, n) != 0) continue;
        if (!word[n]) return row;
        const bool is_long = row->name[1] == '-';
        if (!row->argument || (is_long && word[n] != '=')) continue;
        *value = word + n + (is_long ? 1 : 0);
        return row;
    }
    return NULL;
}

// A name may have two rows, with an argument and without.
static bool first_of_name(const struct option_row *rows, const struct option_row *row)
{
    while (strcmp(rows->name, row->name) != 0) rows++;
    return rows == row;
}

// Sets a message that lists the options, the most similar name first.
static int refuse_option(const struct option_row *rows, const char *word, struct err *err)
{
    const struct option_row *near = NULL;
    size_t best = 3; // this distance and larger ones are not typing errors
    struct buf b = { 0 };
    for (const struct option_row *row = rows; row->name; row++) {
        const size_t distance = text_distance(word, row->name);
        if (!is_listed(row) || distance >= best || 2 * distance >= strlen(row->name)) continue;
        best = distance;
        near = row;
    }
    for (const struct option_row *row = rows; row->name; row++)
        if (is_listed(row) && row != near && first_of_name(rows, row))
            buf_printf(&b, "%s%s", b.length ? ", " : "", row->name);
    if (near)
        err_set(err, "unknown option '%s': did you mean %s?%s%s", word, near->name,
                b.length ? " Others are " : "", b.length ? b.data : "");
    else if (b.length)
        err_set(err, "unknown option '%s': options are %s", word, b.data);
    else
        err_set(err, "unknown option '%s': no options are allowed here", word);
    buf_release(&b);
    return -1;
}

int option_integer(const char *text, int64_t min, int64_t max, int64_t *value, const char *what,
                   struct err *err)
{
    char *end;
    errno = 0;
    *value = strtoll(text, &end, 10);
    if (!errno && end != text && !*end && *value >= min && *value <= max) return 0;
    if (max == INT64_MAX)
        return err_set(err, "%s must be a whole number of at least %lld, not '%s'", what,
                       (long long)min, text);
    return err_set(err, "%s must be a whole number from %lld to %lld, not '%s'", what,
                   (long long)min, (long long)max, text);
}

int option_real(const char *text, double min, double max, double *value, const char *what,
                struct err *err)
{
    char *end;
    *value = strtod(text, &end);
    if (end == text || *end || !(*value >= min && *value <= max))
        return err_set(err, "%s must be a number from %g to %g, not '%s'", what, min, max, text);
    return 0;
}

static int read_names(struct names *names, const char *value, const struct option_row *row,
                      struct err *err)
{
    char *copy = xstrdup(value), *rest = NULL;
    names_release(names);
    for (char *name = strtok_r(copy, ",", &rest); name; name = strtok_r(NULL, ",", &rest))
        names_add(names, name, NULL);
    free(copy);
    return names->count ? 0
                        : err_set(err, "%s needs %s, not '%s'", row->name, row->argument, value);
}

static int read_value(const struct option_row *row, void *self, const char *value, struct err *err)
{
    void *field = (char *)self + row->at;
    int64_t whole = 0;
    if (!value && row->type > OPTION_FLAG) BUG("option %s has no argument", row->name);
    switch (row->type) {
    case OPTION_CALL:
        return row->take ? row->take(self, value, err)
                         : err_set(err, "%s cannot be used here", row->name);
    case OPTION_FLAG: *(bool *)field = true; return 0;
    case OPTION_TEXT: *(const char **)field = value; return row->check ? row->check(value, err) : 0;
    case OPTION_WHOLE: return option_integer(value, row->min, row->max, field, row->name, err);
    case OPTION_INT:
        if (option_integer(value, row->min, row->max, &whole, row->name, err) < 0) return -1;
        *(int *)field = (int)whole;
        return 0;
    case OPTION_REAL:
        return option_real(value, (double)row->min, (double)row->max, field, row->name, err);
    case OPTION_NAMES: return read_names(field, value, row, err);
    }
    BUG("option %s has no type", row->name);
}

// Reads the option argv[*at]; advances *at if its value is the next word. given[i]: whether option
// rows[i] was read before; its value would be lost.
static int read_option(const struct option_row *rows, void *self, int argc, char **argv, int *at,
                       bool *given, struct err *err)
{
    const char *value;
    const struct option_row *row = find_row(rows, argv[*at], &value);
    if (!row) return refuse_option(rows, argv[*at], err);
    if (given[row - rows] && row->argument && !row->many)
        return err_set(err, "%s is given twice: it takes one value", row->name);
    given[row - rows] = true;
    if (row->argument && !value) {
        if (*at + 1 >= argc) return err_set(err, "%s needs %s", row->name, row->argument);
        value = argv[++*at];
        const char *own;
        if (find_row(rows, value, &own) && !own && *value == '-')
            return err_set(
                err, "%s needs %s, not the option '%s' (to mean that text, write %s%s%s)",
                row->name, row->argument, value, row->name, row->name[1] == '-' ? "=" : "", value);
    }
    return read_value(row, self, value, err);
}

static int refuse_word(const struct option_row *rows, const char *word, struct err *err)
{
    struct buf b = { 0 };
    for (const struct option_row *row = rows; row->name; row++)
        if (is_argument(row)) buf_printf(&b, "%s%s", b.length ? " " : "", row->name);
    if (b.length)
        err_set(err, "unexpected '%s' after %s", word, b.data);
    else
        err_set(err, "unexpected '%s'", word);
    buf_release(&b);
    return -1;
}

int options_parse(const struct option_row *rows, void *self, int argc, char **argv, struct err *err)
{
    const struct option_row *next = rows, *end = rows; // next: the next argument
    bool options = true;
    int at = 0, status = 0;
    while (next->name && !is_argument(next)) next++;
    while (end->name) end++;
    bool *given = xcalloc((size_t)(end - rows) + 1, sizeof *given);
    for (; at < argc && status == 0; at++) {
        const char *word = argv[at];
        if (options && !strcmp(word, "--")) {
            options = false;
        } else if (options && is_option(rows, word)) {
            status = read_option(rows, self, argc, argv, &at, given, err);
        } else if (!next->name) {
            status = refuse_word(rows, word, err);
        } else {
            status = read_value(next, self, word, err);
            if (!next->many) do
                    next++;
                while (next->name && !is_argument(next));
        }
    }
    free(given);
    if (status) return status < 0 ? -1 : at;
    for (; next->name; next++)
        if (is_argument(next) && !next->optional)
            return err_set(err, "give %s, %s", next->name, next->help);
    return at;
}
