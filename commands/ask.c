// commands/ask.c -- /ask: one question, or a file of them.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "commands/batch.h"
#include "commands/command.h"

static int read_limit(const char *text, int64_t *limit, struct err *err)
{
    char *end;
    errno = 0;
    *limit = strtoll(text, &end, 10);
    if (errno || *end || end == text || *limit < 1)
        return err_set(err, "--limit must be a whole number of at least 1, not '%s'", text);
    return 0;
}

static int read_options(struct batch_options *o, int argc, char **argv, struct err *err)
{
    for (int i = 0; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(argv[i], "--again")) {
            o->again = true;
            i--; // it has no value
            continue;
        }
        if (!value)
            return err_set(err, "'%s' needs a value: each option of /ask takes one", argv[i]);
        if (!strcmp(argv[i], "--data"))
            o->data = value;
        else if (!strcmp(argv[i], "--out"))
            o->out = value;
        else if (!strcmp(argv[i], "--images"))
            o->images = value;
        else if (strcmp(argv[i], "--limit"))
            return err_set(
                err, "/ask has no option '%s'; put a text that begins with '--' in double quotes",
                argv[i]);
        else if (read_limit(value, &o->limit, err) < 0)
            return -1;
    }
    return 0;
}

static bool is_option(const char *word)
{
    static const char *const options[] = { "--data", "--out", "--images", "--limit", "--again" };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (!strcmp(word, options[i])) return true;
    return false;
}

static int ask_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct batch_options options = { 0 };
    if (argc == 1 && !is_option(argv[0])) return engine_ask(shell->engine, argv[0], err);
    if (read_options(&options, argc, argv, err) < 0) return -1;
    if (!options.data || !options.out)
        return err_set(err, "usage: /ask --data FILE --out FILE.jsonl [--images DIR] [--limit N] "
                            "[--again]");
    return batch_run(shell, &options, err);
}

const struct command command_ask = {
    .name = "ask",
    .usage = "/ask TEXT | /ask --data FILE --out FILE.jsonl [--images DIR] [--limit N] [--again]",
    .help = "Asks the model: TEXT, or every question of a data file.",
    .details =
        "--data FILE    JSON list or JSON lines; a sample is {\"id\", \"image\", \"question\"},\n"
        "               {\"id\", \"image\", \"conversations\": [{\"from\", \"value\"}]} or\n"
        "               {\"messages\"}\n"
        "--out FILE     one JSON line per sample: id, question, answer, ids, tokens, times, or\n"
        "               error, SHA-256 of the pictures, and the model, adapter and settings.\n"
        "               Samples already in FILE are skipped, so an interrupted run can be\n"
        "               repeated with the same model and settings; changing a setting ends the\n"
        "               run\n"
        "--again        answers all samples again; the new answers replace FILE once all are\n"
        "               done\n"
        "--images DIR   base folder of relative picture paths (default: the folder of the data)\n"
        "--limit N      stops after N new samples\n"
        "Each sample is a separate conversation, with the current system message and\n"
        "settings. Your own conversation is restored afterwards.",
    .min = 1,
    .max = 1,
    .rest = true,
    .options = true,
    .needs = NEEDS_MODEL,
    .run = ask_run,
};
