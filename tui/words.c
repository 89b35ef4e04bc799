// tui/words.c -- reserved first words and what they do.
#include "tui/words.h"

#include <stdlib.h>
#include <string.h>

#include "commands/command.h"
#include "commands/reference.h"
#include "core/base/mem.h"
#include "tui/job.h"
#include "tui/lines.h"
#include "tui/options.h"
#include "tui/plain.h"
#include "tui/signals.h"
#include "tui/text.h"

static int run_version(int argc, char **argv, struct err *err)
{
    text_printf(stdout, "vlmsh %s\n", VERSION);
    return STATUS_OK;
}

static int print_reference(void)
{
    struct buf b = { 0 };
    reference_write(&b);
    text_put(stdout, b.data ? b.data : "");
    buf_release(&b);
    return STATUS_OK;
}

// A command of the shell, as plain lines; with the model of that name, if any.
static int run_with(const char *model, const char *name, int argc, char **argv, struct err *err)
{
    const struct command *command = command_find(name);
    if (command->check && command->check(argc, argv, err) < 0) return STATUS_USAGE;
    struct sinks sinks = { 0 };
    struct plain *p = plain_new(false);
    sinks_add(&sinks, plain_sink(p));
    struct shell shell = { .engine = engine_new(NULL, &sinks), .sinks = &sinks };
    signals_start(shell.engine, SIGNALS_SCRIPT);
    int status = STATUS_OK;
    if ((model && engine_load(shell.engine, model, err) < 0) ||
        command_execute(command, &shell, argc, argv, err) < 0)
        status = signals_interrupted() ? STATUS_INTERRUPTED : STATUS_FAILED;
    signals_stop();
    engine_free(shell.engine);
    plain_free(p);
    return status;
}

static int run_command(const char *name, int argc, char **argv, struct err *err)
{
    return run_with(NULL, name, argc, argv, err);
}

static int run_quantize(int argc, char **argv, struct err *err)
{
    if (argc && argv[0][0] != '-') return run_with(argv[0], "quantize", argc - 1, argv + 1, err);
    err_set(err, "MODEL, the folder or file to read, is missing");
    return STATUS_USAGE;
}

static int run_new(int argc, char **argv, struct err *err)
{
    return run_command("new", argc, argv, err);
}

static int run_scenes(int argc, char **argv, struct err *err)
{
    return run_command("scenes", argc, argv, err);
}

static int run_help(int argc, char **argv, struct err *err)
{
    if (argc && strcmp(argv[0], "--man") == 0) return print_reference();
    if (argc) return run_command("help", argc, argv, err);
    options_print_help(stdout);
    return STATUS_OK;
}

static const struct word words[] = {
    { "new", "--like SHAPE DIR [--dry] [--seed N]",
      "write a model with random weights, or join an encoder and a language model", run_new },
    { "quantize", "MODEL OUT.gguf --type TYPE [--encoder TYPE] [--text FILE | --no-compare]",
      "write a GGUF file with small weights", run_quantize },
    { "help", "[COMMAND|SETTING|--man]", "show this help, or help on one topic", run_help },
    { "version", "", "show the version", run_version },
    { "scenes", "N DIR [--seed S] [--size PIXELS] [--objects N] [--kind KIND]... [--once]",
      "generate N pictures with questions", run_scenes },
    { "job", "run ID|list [--db FILE]", "run a job in this process, or list jobs", job_word_run },
};

enum { WORDS = sizeof words / sizeof words[0] };

const struct word *word_find(const char *name)
{
    for (int i = 0; i < WORDS; i++)
        if (strcmp(words[i].name, name) == 0) return &words[i];
    return NULL;
}

void words_help(struct buf *b)
{
    for (int i = 0; i < WORDS; i++)
        buf_printf(b, "%s%s%s  %s\n", words[i].name, *words[i].usage ? " " : "", words[i].usage,
                   words[i].help);
}
