// commands/pope.c -- /pope: POPE's questions for annotated pictures (core/scenes/pope.h).
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands/command.h"
#include "core/scenes/pope.h"
#include "core/sets/annotated.h"

struct pope_options {
    const char *file, *folder;
    int64_t seed, pictures, each;
};

static const struct option_row options[] = {
    { "FILE", NULL, "the annotations", OPTION_TEXT, .at = offsetof(struct pope_options, file) },
    { "DIR", NULL, "the output folder", OPTION_TEXT, .at = offsetof(struct pope_options, folder) },
    { "--seed", "S", "random seed (default 42)", OPTION_WHOLE,
      .at = offsetof(struct pope_options, seed), 0, INT64_MAX },
    { "--pictures", "N", "number of pictures to sample (default 500)", OPTION_WHOLE,
      .at = offsetof(struct pope_options, pictures), 1, 1000000 },
    { "--each", "N", "asks about N present and N absent objects per picture (default 3)",
      OPTION_WHOLE, .at = offsetof(struct pope_options, each), 1, 100 },
    { 0 },
};

static int read_options(struct pope_options *o, int argc, char **argv, struct err *err)
{
    *o = (struct pope_options){ .seed = 42, .pictures = 500, .each = 3 };
    return options_parse(options, o, argc, argv, err) < 0 ? -1 : 0;
}

static int pope_check(int argc, char **argv, struct err *err)
{
    struct pope_options o;
    return read_options(&o, argc, argv, err);
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
    struct table_builder t;
    table_begin(&t, "pope", "split|pictures#|questions#");
    for (int i = 0; i < POPE_WAYS; i++) {
        char *path = xasprintf("%s/pope_%s.json", o.folder, pope_ways[i]);
        sinks_written(shell->sinks, "questions", path, NULL);
        free(path);
        table_row(&t, "%s|%" PRId64 "|%" PRId64, pope_ways[i], (int64_t)report.pictures,
                  (int64_t)report.questions[i]);
    }
    table_emit(&t, shell->sinks);
    return 0;
}

const struct command command_pope = {
    .name = "pope",
    .usage = "/pope FILE DIR [--seed S] [--pictures N] [--each N]",
    .help = "Generates POPE's yes/no questions for annotated pictures.",
    .details =
        "FILE is objects.jsonl of /scenes, or COCO's instances (instances_val2014.json). Writes "
        "pope_random.json, pope_popular.json and pope_adversarial.json to DIR. To evaluate: "
        "/eval DIR/pope_random.json --set pope --images PICTURES.",
    .options = options,
    .writes = true,
    .complete = COMPLETE_PATH,
    .check = pope_check,
    .run = pope_run,
};
