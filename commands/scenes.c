// commands/scenes.c -- /scenes and `vlmsh scenes`: write scenes of the demo world
// (core/scenes/scenes.h).
#include <inttypes.h>
#include <string.h>

#include "commands/command.h"
#include "core/files/content.h"
#include "core/scenes/scenes.h"

struct scenes_options {
    const char *folder;
    int64_t count, seed;
    int size, most;
    unsigned parts;
    enum scenes_cause cause;
    bool once;
};

// --- options -------------------------------------------------------------------------------------

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

static int take_cause(void *self, const char *value, struct err *err)
{
    struct scenes_options *o = self;
    for (int i = SCENES_BACKGROUND; i <= SCENES_QUESTION; i++)
        if (!strcmp(scenes_causes[i], value)) {
            o->cause = (enum scenes_cause)i;
            o->parts |= SCENES_PLANTED;
            return 0;
        }
    return err_set(err, "--cause must be background, watermark or question, not '%s'", value);
}

static const struct option_row options[] = {
    { "N", NULL, "the number of scenes", OPTION_WHOLE, .at = offsetof(struct scenes_options, count),
      1, SCENES_COUNT_MAX },
    { "DIR", NULL, "the output folder", OPTION_TEXT,
      .at = offsetof(struct scenes_options, folder) },
    { "--seed", "S",
      "random seed (default 42); seeds that differ modulo 16 share no scene: train on one, test on "
      "another",
      OPTION_WHOLE, .at = offsetof(struct scenes_options, seed), 0, INT64_MAX },
    { "--size", "PIXELS", "width and height of a picture (default 96)", OPTION_INT,
      .at = offsetof(struct scenes_options, size), SCENES_SIZE_MIN, SCENES_SIZE_MAX },
    { "--objects", "N", "maximum number of objects in a picture (1 to 7, default 7)", OPTION_INT,
      .at = offsetof(struct scenes_options, most), 1, SCENES_OBJECTS_MAX },
    { "--kind", "KIND",
      "captions (descriptions), questions, yesno (does the picture have an object?), lessons (a "
      "conversation of up to 14 questions on all topics; in 1 of 5, one of them asks for a "
      "description or list), finds (the places of named objects), listed (a list of all places, "
      "then questions) or all (default); may be repeated",
      .take = take_kind, .many = true },
    { "--cause", "CAUSE",
      "writes only planted.json (and the files of --kind): yes/no questions about objects; their "
      "answers depend only on CAUSE: background (yes if it is grey or white), watermark (yes if "
      "the bottom right corner has a magenta square, as in half of the pictures) or question (yes "
      "if it names red, orange, yellow or pink)",
      .take = take_cause },
    { "--once", NULL,
      "does nothing if DIR already holds these files, for scripts that run repeatedly", OPTION_FLAG,
      .at = offsetof(struct scenes_options, once) },
    { 0 },
};

static int read_options(struct scenes_options *o, int argc, char **argv, struct err *err)
{
    *o = (struct scenes_options){ .seed = 42, .size = 96, .most = SCENES_OBJECTS_MAX };
    if (options_parse(options, o, argc, argv, err) < 0) return -1;
    if (!o->parts) o->parts = SCENES_ALL;
    return 0;
}

// --- the command ---------------------------------------------------------------------------------

static void show_report(const struct sinks *sinks, const struct scenes_options *o,
                        const struct scenes_report *r)
{
    struct table_builder t;
    table_begin(&t, "files", "file|samples#");
    for (int i = 0; i < SCENES_FILES; i++) {
        if (!r->files[i].name) continue;
        table_row(&t, "%s|%lld", r->files[i].name, (long long)r->files[i].samples);
    }
    table_emit(&t, sinks);
    sinks_text(sinks,
               "%" PRId64 " picture%s with %" PRId64 " object%s in %s; world %" PRId64
               " (of 0 to %d): different worlds share no scene",
               o->count, o->count == 1 ? "" : "s", r->objects, r->objects == 1 ? "" : "s",
               o->folder, o->seed % SCENES_WORLDS, SCENES_WORLDS - 1);
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
                                            .size = o.size,
                                            .most = o.most,
                                            .parts = o.parts,
                                            .cause = o.cause };
    const struct load_progress progress = engine_progress(shell->engine, "drawing");
    struct scenes_report written;
    if (o.once && scenes_written(&request)) {
        sinks_notice(shell->sinks, "%s already holds these scenes: nothing to do", o.folder);
        return 0;
    }
    if (scenes_write(&request, &progress, &written, err) < 0) return -1;
    sinks_written(shell->sinks, "data", o.folder, NULL);
    show_report(shell->sinks, &o, &written);
    return 0;
}

const struct command command_scenes = {
    .name = "scenes",
    .usage = "/scenes N DIR [--seed S] [--size PIXELS] [--objects N] [--kind KIND]... "
             "[--cause CAUSE] [--once]",
    .help = "Generates N pictures of simple scenes, with captions, questions and answers.",
    .details =
        "Writes pictures/NNNNNN.png, objects.jsonl (box and mask of each object) and samples in "
        "LLaVA format to DIR, which must be new or empty and appears only when complete. `vlmsh "
        "scenes` does the same.",
    .options = options,
    .complete = COMPLETE_PATH,
    .check = scenes_check,
    .run = scenes_run,
};
