// commands/pope.c -- /pope: POPE's questions for annotated pictures (core/scenes/pope.h).
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands/command.h"
#include "commands/option_table.h"
#include "core/scenes/pope.h"
#include "core/sets/annotated.h"

struct pope_options {
    const char *file, *folder;
    long long seed, pictures, each;
};

static int take_seed(void *self, const char *value, struct err *err)
{
    return option_integer(value, 0, INT64_MAX, &((struct pope_options *)self)->seed, "--seed", err);
}

static int take_pictures(void *self, const char *value, struct err *err)
{
    return option_integer(value, 1, 1000000, &((struct pope_options *)self)->pictures, "--pictures",
                          err);
}

static int take_each(void *self, const char *value, struct err *err)
{
    return option_integer(value, 1, 100, &((struct pope_options *)self)->each, "--each", err);
}

static int take_word(void *self, const char *value, struct err *err)
{
    struct pope_options *o = self;
    if (o->folder) return err_set(err, "give one folder only: '%s' or '%s'", o->folder, value);
    *(o->file ? &o->folder : &o->file) = value;
    return 0;
}

static const struct option_row rows[] = {
    { "--seed", "S", "random seed (default 42)", take_seed },
    { "--pictures", "N", "number of pictures to sample (default 500)", take_pictures },
    { "--each", "N", "present and absent objects asked per picture (default 3)", take_each },
    { 0 },
};
static const struct option_table table = { rows, take_word };

static int read_options(struct pope_options *o, int argc, char **argv, struct err *err)
{
    int at = 0;
    *o = (struct pope_options){ .seed = 42, .pictures = 500, .each = 3 };
    if (option_table_read(&table, o, argc, argv, &at, err) < 0) return -1;
    if (o->folder) return 0;
    return err_set(err, o->file ? "DIR, the output folder, is missing"
                                : "FILE, the annotations, and DIR, the output folder, are missing");
}

static int pope_check(int argc, char **argv, struct err *err)
{
    struct pope_options o;
    return read_options(&o, argc, argv, err);
}

static void show_report(const struct sinks *sinks, const struct pope_report *r)
{
    static const char *const columns[] = { "split", "pictures", "questions" };
    static const bool numeric[] = { false, true, true };
    struct table_builder t;
    table_begin(&t, "pope", 3, columns, numeric);
    for (int i = 0; i < POPE_WAYS; i++) {
        table_add(&t, "%s", pope_ways[i]);
        table_add(&t, "%lld", (long long)r->pictures);
        table_add(&t, "%lld", (long long)r->questions[i]);
    }
    table_emit(&t, sinks);
}

static void tell_files(const struct sinks *sinks, const char *folder)
{
    for (int i = 0; i < POPE_WAYS; i++) {
        char *path = xasprintf("%s/pope_%s.json", folder, pope_ways[i]);
        sinks_written(sinks, "questions", path, NULL);
        free(path);
    }
}

static int pope_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct pope_options o;
    struct annotated a;
    struct pope_report report = { 0 };
    if (read_options(&o, argc, argv, err) < 0) return -1;
    if (annotated_open(&a, o.file, err) < 0) return -1;
    const struct pope_request request = {
        .folder = o.folder, .seed = (uint64_t)o.seed, .pictures = o.pictures, .each = o.each
    };
    const bool made = mkdir(o.folder, 0777) == 0;
    int status = !made && errno != EEXIST
                     ? err_set(err, "cannot create '%s': %s", o.folder, strerror(errno))
                     : 0;
    if (status == 0) status = pope_write(&a, &request, &report, err);
    annotated_release(&a);
    if (status < 0 && made) rmdir(o.folder); // if it is still empty
    if (status < 0) return -1;
    tell_files(shell->sinks, o.folder);
    show_report(shell->sinks, &report);
    return 0;
}

const struct command command_pope = {
    .name = "pope",
    .usage = "/pope FILE DIR [--seed S] [--pictures N] [--each N]",
    .help = "Generates POPE's yes/no questions for annotated pictures.",
    .details =
        "FILE is objects.jsonl of /scenes, or COCO's instances (instances_val2014.json). Writes\n"
        "pope_random.json, pope_popular.json and pope_adversarial.json to DIR, for\n"
        "/eval DIR/pope_random.json --set pope --images PICTURES.\n"
        "--seed S      random seed (default 42)\n"
        "--pictures N  number of pictures to sample (default 500)\n"
        "--each N      present and absent objects asked per picture, N of each (default 3)",
    .writes = true,
    .min = 0,
    .max = -1,
    .complete = COMPLETE_PATH,
    .check = pope_check,
    .run = pope_run,
};
