// commands/option_table.c -- reading words through a table of options.
#include "commands/option_table.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

// The row of this word, and where its argument stands if it is in the same word.
static const struct option_row *find_row(const struct option_table *table, const char *word,
                                         const char **value)
{
    *value = NULL;
    for (const struct option_row *row = table->rows; row->name; row++) {
        size_t n = strlen(row->name);
        if (strncmp(word, row->name, n) != 0) continue;
        if (!word[n]) return row;
        bool is_long = row->name[1] == '-';
        if (is_long && word[n] != '=') continue;
        *value = word + n + (is_long ? 1 : 0);
        return row;
    }
    return NULL;
}

static int read_option(const struct option_table *table, void *self, int argc, char **argv, int *at,
                       struct err *err)
{
    const char *value, *word = argv[*at];
    const struct option_row *row = find_row(table, word, &value);
    if (!row || (value && !row->argument)) return err_set(err, "unknown option '%s'", word);
    if (row->argument && !value) {
        if (*at + 1 >= argc) return err_set(err, "%s needs %s", row->name, row->argument);
        value = argv[++*at];
    }
    ++*at;
    return row->take(self, value, err);
}

int option_table_read(const struct option_table *table, void *self, int argc, char **argv, int *at,
                      struct err *err)
{
    bool options = true;
    while (*at < argc) {
        const char *word = argv[*at];
        if (options && strcmp(word, "--") == 0) {
            options = false;
            ++*at;
        } else if (options && word[0] == '-' && word[1]) {
            if (read_option(table, self, argc, argv, at, err) < 0) return -1;
        } else {
            ++*at;
            int status = table->positional(self, word, err);
            if (status) return status < 0 ? -1 : 0;
        }
    }
    return 0;
}

int option_integer(const char *text, long long min, long long max, long long *value,
                   const char *what, struct err *err)
{
    char *end;
    errno = 0;
    *value = strtoll(text, &end, 10);
    if (errno || end == text || *end || *value < min || *value > max)
        return err_set(err, "%s must be a whole number from %lld to %lld, not '%s'", what, min, max,
                       text);
    return 0;
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
