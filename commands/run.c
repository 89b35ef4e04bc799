// commands/run.c -- /run: runs the lines of a file up to the first error, once for each combination
// of the values of its variables.
#include <stdlib.h>
#include <string.h>

#include "commands/command.h"
#include "commands/parse.h"

enum { NAMES_MAX = 16 };

struct variables {
    struct {
        char *name;
        char **values;
        int count, at;
        bool used;
    } list[NAMES_MAX];
    int count;
};

// Reads NAME=VALUE,VALUE; values that contain commas are separated by "|".
static int read_variable(struct variables *v, const char *word, struct err *err)
{
    const char *equals = strchr(word, '=');
    if (!equals || !parse_is_name(word, (size_t)(equals - word)))
        return err_set(err, "'%s' is not NAME=VALUE[,VALUE...]", word);
    for (int k = 0; k < v->count; k++)
        if (strlen(v->list[k].name) == (size_t)(equals - word) &&
            !strncmp(v->list[k].name, word, (size_t)(equals - word)))
            return err_set(err, "%s is given twice: list its values, as in %s=A,B", v->list[k].name,
                           v->list[k].name);
    if (v->count == NAMES_MAX) return err_set(err, "/run takes at most %d variables", NAMES_MAX);
    const char between = strchr(equals, '|') ? '|' : ',';
    const int i = v->count++;
    v->list[i].name = xstrndup(word, (size_t)(equals - word));
    for (const char *p = equals + 1;; p++) {
        const char *end = strchr(p, between);
        const size_t n = end ? (size_t)(end - p) : strlen(p);
        v->list[i].values = xreallocarray(v->list[i].values, (size_t)v->list[i].count + 1,
                                          sizeof *v->list[i].values);
        v->list[i].values[v->list[i].count++] = xstrndup(p, n);
        p += n;
        if (!*p) return 0;
    }
}

static void variables_release(struct variables *v)
{
    for (int i = 0; i < v->count; i++) {
        for (int k = 0; k < v->list[i].count; k++) free(v->list[i].values[k]);
        free(v->list[i].values);
        free(v->list[i].name);
    }
}

// Runs the script with the current values, which take precedence over the shell's variables.
static int run_once(struct shell *shell, const char *file, struct variables *v, struct err *err)
{
    struct variable *outer = shell->variables;
    const size_t outer_count = shell->variable_count, count = (size_t)v->count;
    struct variable *both = xreallocarray(NULL, count + outer_count + 1, sizeof *both);
    for (size_t i = 0; i < count; i++)
        both[i] = (struct variable){ v->list[i].name, v->list[i].values[v->list[i].at], false };
    for (size_t i = 0; i < outer_count; i++) both[count + i] = outer[i];
    shell->variables = both;
    shell->variable_count = count + outer_count;
    shell->depth++;
    const int status = shell_script(shell, file, err);
    shell->depth--;
    shell->variables = outer;
    shell->variable_count = outer_count;
    for (size_t i = 0; i < count; i++) v->list[i].used |= both[i].used;
    for (size_t i = 0; i < outer_count; i++) outer[i].used |= both[count + i].used;
    free(both);
    return status;
}

// Advances to the next combination, the last variable fastest; false after the last combination.
static bool advance(struct variables *v)
{
    for (int i = v->count; i-- > 0;) {
        if (++v->list[i].at < v->list[i].count) return true;
        v->list[i].at = 0;
    }
    return false;
}

static int run_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct variables v = { 0 };
    int status = 0;
    if (!shell->depth) engine_uncancel(shell->engine);
    for (int i = 1; i < argc && status == 0; i++) status = read_variable(&v, argv[i], err);
    if (status == 0) {
        do status = run_once(shell, argv[0], &v, err);
        while (status == 0 && !shell->quit && advance(&v));
    }
    for (int i = 0; i < v.count && status == 0 && !shell->quit; i++)
        if (!v.list[i].used)
            sinks_notice(shell->sinks, "%s has no effect: no line of '%s' contains ${%s}",
                         v.list[i].name, argv[0], v.list[i].name);
    variables_release(&v);
    return status;
}

const struct command command_run = {
    .name = "run",
    .also = "script scripting execute",
    .usage = "/run FILE [NAME=VALUE[,VALUE...]]...",
    .help = "Runs a script file, once or for each combination of values; stops at the first error.",
    .details =
        "Each ${NAME} in the file is replaced by VALUE. With several values, the file runs "
        "once for each; with several names, once for each combination of their values. If values "
        "contain commas, "
        "separate them with |. ${NAME:-VALUE} sets a default. FILE may be a pipe. Ctrl-C stops the "
        "whole "
        "file, not only the current answer.\n"
        "    /run keep.vlmsh SCORE=contribution,attention,random KEEP=0.5,0.25,0.1\n"
        "/help lines explains how lines are read.",
    .min = 1,
    .max = -1,
    .complete = COMPLETE_PATH,
    .run = run_run,
};
