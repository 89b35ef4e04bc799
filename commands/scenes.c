// commands/scenes.c -- /scenes and `vlmsh scenes`: writes a demo world (core/scenes/scenes.h).
#include <string.h>

#include "commands/command.h"
#include "commands/option_table.h"
#include "core/files/content.h"
#include "core/scenes/scenes.h"

struct scenes_options {
    const char *folder;
    long long count, seed, size, most;
    unsigned parts;
    bool once;
};

// --- options -------------------------------------------------------------------------------------

static int take_seed(void *self, const char *value, struct err *err)
{
    struct scenes_options *o = self;
    return option_integer(value, 0, INT64_MAX, &o->seed, "--seed", err);
}

static int take_size(void *self, const char *value, struct err *err)
{
    struct scenes_options *o = self;
    return option_integer(value, SCENES_SIZE_MIN, SCENES_SIZE_MAX, &o->size, "--size", err);
}

static int take_most(void *self, const char *value, struct err *err)
{
    struct scenes_options *o = self;
    return option_integer(value, 1, SCENES_OBJECTS_MAX, &o->most, "--objects", err);
}

static int take_kind(void *self, const char *value, struct err *err)
{
    static const struct {
        const char *name;
        unsigned part;
    } kinds[] = { { "captions", SCENES_CAPTIONS },
                  { "questions", SCENES_QUESTIONS },
                  { "yesno", SCENES_YESNO },
                  { "lessons", SCENES_LESSONS },
                  { "finds", SCENES_FINDS },
                  { "listed", SCENES_LISTED },
                  { "all", SCENES_ALL } };
    struct scenes_options *o = self;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i].name, value)) {
            o->parts |= kinds[i].part;
            return 0;
        }
    return err_set(
        err, "--kind must be captions, questions, yesno, lessons, finds, listed or all, not '%s'",
        value);
}

static int take_once(void *self, const char *value, struct err *err)
{
    struct scenes_options *o = self;
    o->once = true;
    return 0;
}

static int take_word(void *self, const char *value, struct err *err)
{
    struct scenes_options *o = self;
    if (!o->count) return option_integer(value, 1, SCENES_COUNT_MAX, &o->count, "N", err);
    if (o->folder) return err_set(err, "give one folder only: '%s' or '%s'", o->folder, value);
    o->folder = value;
    return 0;
}

static const struct option_row rows[] = {
    { "--seed", "S", "random seed of the world (default 42)", take_seed },
    { "--size", "PIXELS", "side of a picture in pixels (default 96)", take_size },
    { "--objects", "N", "maximum number of objects in a picture (default 7)", take_most },
    { "--kind", "KIND",
      "captions, questions, yesno, lessons, finds, listed or all; may be repeated", take_kind },
    { "--once", NULL, "does nothing if DIR already holds this world", take_once },
    { 0 },
};
static const struct option_table table = { rows, take_word };

static int read_options(struct scenes_options *o, int argc, char **argv, struct err *err)
{
    int at = 0;
    *o = (struct scenes_options){ .seed = 42, .size = 96, .most = SCENES_OBJECTS_MAX };
    if (option_table_read(&table, o, argc, argv, &at, err) < 0) return -1;
    if (!o->folder)
        return err_set(
            err, o->count ? "DIR, the output folder, is missing"
                          : "N, the number of scenes, and DIR, the output folder, are missing");
    if (!o->parts) o->parts = SCENES_ALL;
    return 0;
}

// --- the command ---------------------------------------------------------------------------------

static void show_report(const struct sinks *sinks, const struct scenes_options *o,
                        const struct scenes_report *r)
{
    static const char *const columns[] = { "file", "samples" };
    static const bool numeric[] = { false, true };
    struct table_builder t;
    table_begin(&t, "files", 2, columns, numeric);
    for (int i = 0; i < SCENES_FILES; i++) {
        if (!r->files[i].name) continue;
        table_add(&t, "%s", r->files[i].name);
        table_add(&t, "%lld", (long long)r->files[i].samples);
    }
    table_emit(&t, sinks);
    sinks_text(
        sinks,
        "%lld pictures with %lld objects in %s; world %lld of %d: different worlds share no scene",
        o->count, (long long)r->objects, o->folder, o->seed % SCENES_WORLDS, SCENES_WORLDS);
}

static int scenes_check(int argc, char **argv, struct err *err)
{
    struct scenes_options o;
    return read_options(&o, argc, argv, err);
}

static int scenes_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct scenes_options o;
    if (read_options(&o, argc, argv, err) < 0) return -1;
    const struct scenes_request request = { .folder = o.folder,
                                            .count = o.count,
                                            .seed = (uint64_t)o.seed,
                                            .size = (int)o.size,
                                            .most = (int)o.most,
                                            .parts = o.parts };
    const struct load_progress progress = engine_progress(shell->engine, "drawing");
    struct scenes_report written;
    if (o.once && scenes_written(&request)) {
        sinks_notice(shell->sinks, "%s already holds this world: nothing to do", o.folder);
        return 0;
    }
    if (scenes_write(&request, &progress, &written, err) < 0) return -1;
    sinks_written(shell->sinks, "data", o.folder, NULL);
    show_report(shell->sinks, &o, &written);
    return 0;
}

const struct command command_scenes = {
    .name = "scenes",
    .usage = "/scenes N DIR [--seed S] [--size PIXELS] [--objects N] [--kind KIND]... [--once]",
    .help = "Generates N pictures of simple scenes, with captions, questions and answers.",
    .details =
        "Writes pictures/NNNNNN.png, objects.jsonl (box and mask of each object) and samples in\n"
        "LLaVA format to DIR, which must be new or empty and gets its name when it is complete.\n"
        "`vlmsh scenes` does the same.\n"
        "--seed S       random seed (default 42); seeds that differ modulo 16 share no scene:\n"
        "               train on one, test on another\n"
        "--size PIXELS  side of a picture (default 96)\n"
        "--objects N    maximum number of objects in a picture (1 to 7, default 7)\n"
        "--kind KIND    captions, questions, yesno, lessons, finds, listed or all (default);\n"
        "               may be repeated\n"
        "--once         does nothing if DIR already holds these files, for scripts that run\n"
        "               repeatedly",
    .min = 0,
    .max = -1,
    .complete = COMPLETE_PATH,
    .check = scenes_check,
    .run = scenes_run,
};
