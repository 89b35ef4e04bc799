// core/eval/score_sets.c -- finds the evaluation sets of a plan of scores: in a folder, by the
// names of its files, or in lines "set NAME: DATA OPTIONS".
#include "core/eval/score_sets.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file_in.h"
#include "core/base/folder.h"
#include "core/base/text.h"
#include "core/data/dataset.h"
#include "core/sets/set.h"

enum { PLAN_MAX = 1 << 20 };

// --- words of a plan -----------------------------------------------------------------------------

char *plan_trimmed(const char *text, size_t length)
{
    while (length && isspace((unsigned char)*text)) text++, length--;
    while (length && isspace((unsigned char)text[length - 1])) length--;
    return xstrndup(text, length);
}

size_t plan_until(const char *text, const char *stops)
{
    bool quoted = false;
    size_t i = 0;
    for (; text[i] && (quoted || !strchr(stops, text[i])); i++) quoted ^= text[i] == '"';
    return i;
}

char *plan_unquoted(const char *text, size_t length)
{
    char *plain = plan_trimmed(text, length), *to = plain;
    for (const char *p = plain; *p; p++)
        if (*p != '"') *to++ = *p;
    *to = 0;
    return plain;
}

int plan_words(char *text, char ***argv)
{
    int argc = 0;
    *argv = xcalloc(strlen(text) / 2 + 2, sizeof **argv);
    for (char *p = text, *to = text; *p;) {
        while (isspace((unsigned char)*p)) p++;
        if (!*p) break;
        (*argv)[argc++] = to;
        for (bool quoted = false; *p && (quoted || !isspace((unsigned char)*p)); p++)
            if (*p == '"')
                quoted = !quoted;
            else
                *to++ = *p;
        if (*p) p++; // steps past the space, which the NUL below may overwrite
        *to++ = 0;
    }
    return argc;
}

char *plan_text(const char *file, struct err *err)
{
    size_t size;
    char *text = file_read(file, PLAN_MAX, &size, err);
    if (text && text_check(text, size, file, err) < 0) {
        free(text);
        return NULL;
    }
    const size_t mark = text ? text_mark(text, size) : 0;
    if (mark) memmove(text, text + mark, size - mark + 1);
    return text;
}

// --- sets ----------------------------------------------------------------------------------------

static bool has_set(const struct score_sets *s, const char *name)
{
    for (size_t i = 0; i < s->count; i++)
        if (!strcmp(s->list[i].name, name)) return true;
    return false;
}

// Takes ownership of the name and the text.
static int add_set(struct score_sets *s, char *name, char *text, int64_t limit, struct err *err)
{
    const bool twice = has_set(s, name);
    s->list = xreallocarray(s->list, s->count + 1, sizeof *s->list);
    struct score_set *set = &s->list[s->count++];
    *set = (struct score_set){ .name = name, .text = text };
    set->argc = plan_words(text, &set->argv);
    if (twice) return err_set(err, "two sets have the name %s", name);
    if (evaluate_options_read(&set->options, set->argc, set->argv, err) < 0)
        return err_in(err, "set %s", name);
    if (set->options.submit || set->options.predictions || set->options.answers)
        return err_set(err, "set %s: a plan takes no --submit, --export-predictions or --answers",
                       name);
    if (!set->options.limit) set->options.limit = limit;
    return 0;
}

// Returns the letters and digits of a name, in lower case.
static char *plain_name(const char *name)
{
    struct buf b = { 0 };
    for (; *name; name++)
        if (isalnum((unsigned char)*name)) buf_putc(&b, (char)tolower((unsigned char)*name));
    return buf_take(&b);
}

// Returns the set with the longest name that occurs in the file's name; NULL: none.
static const struct eval_set *set_named(const char *file)
{
    const struct eval_set *best = NULL;
    char *plain = plain_name(file);
    size_t most = 2; // names must be at least as long as "vqa"
    for (const struct eval_set *s = eval_sets; s->name; s++) {
        char *name = plain_name(s->name);
        if (!s->any && strlen(name) > most && strstr(plain, name)) {
            best = s;
            most = strlen(name);
        }
        free(name);
    }
    free(plain);
    return best;
}

// Returns the set whose official file has this name, else the set whose name it contains. NULL:
// none, or the answers of VQAv2 and OK-VQA, which are read with their questions.
static const struct eval_set *set_of_file(const char *file)
{
    if (fnmatch("*mscoco_*_annotations.json", file, 0) == 0) return NULL;
    for (const struct eval_set *s = eval_sets; s->name; s++)
        if (s->pattern && fnmatch(s->pattern, file, 0) == 0) return s;
    return set_named(file);
}

// True if /eval can read the file without --set; checks only the first sample.
static bool has_samples(const char *path)
{
    struct dataset d = { .file = -1 };
    struct sample sample = { 0 };
    struct err why;
    if (dataset_check(path, &why) < 0 || dataset_open(&d, path, NULL, &why) < 0) return false;
    const bool good = dataset_read(&d, 0, &sample, &why) == 0;
    sample_release(&sample);
    dataset_close(&d);
    return good;
}

// Adds the evaluation set or data set that `file`, a file or folder in `folder`, contains. Returns
// 1 if it contains none.
static int add_entry(struct score_sets *s, const char *folder, const char *file, int64_t limit,
                     struct err *err)
{
    static const char *const endings[] = { ".tsv", ".parquet", ".jsonl", ".json", ".csv" };
    struct text_shard shard;
    struct stat st;
    struct err why;
    bool known = false;
    char *path = folder_entry(folder, file);
    const struct eval_set *set = set_of_file(file);
    const bool found = stat(path, &st) == 0, whole = found && S_ISDIR(st.st_mode);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        known |= text_ends(file, endings[i]);
    // A data set may have an official file's name by chance: captions_mine.json.
    const bool may_be_data = !set || !set_named(file);
    int status = 1;
    if (text_shard(file, ".parquet", &shard) && shard.part > 1)
        status = 0; // this shard is read with the first one
    else if (found && !whole && known && may_be_data && has_samples(path))
        status = 3;
    else if (found && set && (whole || known) && eval_set_check(path, NULL, &why) == 0)
        status = 2;
    if (status > 1) {
        const char *dot = whole ? NULL : strrchr(file, '.');
        char *name = status == 2 && !has_set(s, set->name) ? xstrdup(set->name)
                     : dot                                 ? xstrndup(file, (size_t)(dot - file))
                                                           : xstrdup(file);
        for (int number = 2; has_set(s, name); number++) {
            free(name);
            name = xasprintf("%s-%d", file, number);
        }
        char *text =
            status == 2 ? xasprintf("\"%s\" --set %s", path, set->name) : xasprintf("\"%s\"", path);
        status = add_set(s, name, text, limit, err);
    }
    free(path);
    return status;
}

static int add_folder(struct score_sets *s, const char *folder, int64_t limit, struct err *err)
{
    const size_t before = s->count;
    int status = 0;
    if (access(folder, R_OK | X_OK) < 0)
        return err_set(err, "cannot read '%s': %s", folder, strerror(errno));
    char **files = folder_list(folder);
    for (size_t i = 0; files[i] && status >= 0; i++)
        if ((status = add_entry(s, folder, files[i], limit, err)) == 1)
            names_add(&s->others, files[i], NULL);
    folder_list_free(files);
    if (status < 0 || s->count > before) return status < 0 ? -1 : 0;
    return err_set(err,
                   "'%s' contains no evaluation set: a file or folder whose name contains the name "
                   "of a set (/help sets), or a data set that /eval reads",
                   folder);
}

int score_sets_line(struct score_sets *s, const char *text, int64_t limit, struct err *err)
{
    const size_t colon = plan_until(text, ":");
    char *name = text[colon] ? plan_unquoted(text, colon) : xstrdup("");
    if (*name)
        return add_set(s, name, plan_trimmed(text + colon + 1, strlen(text + colon + 1)), limit,
                       err);
    free(name);
    return err_set(err, "write 'set NAME: ...'");
}

int score_sets_add(struct score_sets *s, const char *path, int64_t limit, struct err *err)
{
    struct stat st;
    const size_t before = s->count;
    if (stat(path, &st) < 0 || S_ISDIR(st.st_mode)) return add_folder(s, path, limit, err);
    char *all = plan_text(path, err), *rest = all;
    int number = 0, status = all ? 0 : -1;
    for (char *line; status == 0 && (line = strsep(&rest, "\n"));) {
        char *plain = plan_trimmed(line, strlen(line));
        number++;
        if (strcspn(plain, " \t") == 3 && !strncmp(plain, "set", 3))
            status = score_sets_line(s, plain + 3, limit, err);
        else if (*plain && *plain != '#')
            status = err_set(err, "a file of sets has only lines 'set NAME: DATA [OPTIONS]'");
        if (status < 0) err_in(err, "%s:%d", path, number);
        free(plain);
    }
    free(all);
    if (status == 0 && s->count == before)
        status = err_set(err, "'%s' has no line 'set NAME: DATA [OPTIONS]'", path);
    return status;
}

void score_sets_release(struct score_sets *s)
{
    for (size_t i = 0; i < s->count; i++) {
        struct score_set *set = &s->list[i];
        evaluate_options_release(&set->options);
        free(set->name);
        free(set->text);
        free(set->argv);
    }
    free(s->list);
    names_release(&s->others);
    *s = (struct score_sets){ 0 };
}
