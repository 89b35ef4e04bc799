// tui/words.c -- reserved first words and what they do.
#include "tui/words.h"

#include <stdlib.h>
#include <string.h>

#include "commands/command.h"
#include "commands/reference.h"
#include "core/mem.h"
#include "tui/job.h"
#include "tui/lines.h"
#include "tui/new.h"
#include "tui/options.h"
#include "tui/plain.h"
#include "tui/scenes.h"

static int run_missing(int argc, char **argv, struct err *err)
{
    err_set(err, "this build does not have it");
    return STATUS_USAGE;
}

static int run_version(int argc, char **argv, struct err *err)
{
    printf("vlmsh %s\n", VERSION);
    return STATUS_OK;
}

static int print_reference(enum reference_format format)
{
    struct buf b = { 0 };
    reference_write(&b, format);
    fputs(b.data ? b.data : "", stdout);
    buf_release(&b);
    return STATUS_OK;
}

// `vlmsh help X` is /help X of the shell.
static int help_on(const char *topic, struct err *err)
{
    struct sinks sinks = { 0 };
    struct plain *p = plain_new(false);
    sinks_add(&sinks, plain_sink(p));
    struct shell shell = { .engine = engine_new(backend_cpu(), &sinks), .sinks = &sinks };
    char *arguments[] = { xstrdup(topic), NULL };
    const struct command *help = command_find("help");
    int status = command_execute(help, &shell, 1, arguments, err);
    engine_free(shell.engine);
    plain_free(p);
    free(arguments[0]);
    return status < 0 ? STATUS_FAILED : STATUS_OK;
}

static int run_help(int argc, char **argv, struct err *err)
{
    if (argc > 1) {
        err_set(err, "too many words");
        return STATUS_USAGE;
    }
    if (argc && strcmp(argv[0], "--man") == 0) return print_reference(REFERENCE_MAN);
    if (argc && strcmp(argv[0], "--markdown") == 0) return print_reference(REFERENCE_MARKDOWN);
    if (argc) return help_on(argv[0], err);
    options_print_help(stdout);
    return STATUS_OK;
}

static const struct word words[] = {
    { "new", "--like SHAPE DIR [--dry] [--seed N]", "write a model folder with random weights",
      new_run },
    { "help", "[COMMAND|SETTING|--man|--markdown]", "show this, or help on one thing", run_help },
    { "version", "", "show the version", run_version },
    { "scenes", "N DIR [--seed S] [--size P] [--kind K]...", "write N pictures with questions",
      scenes_run },
    { "job", "run ID|list [--db FILE]", "run a job in this process, or list them", job_word_run },
    { "bench", "...", "(not in this build)", run_missing },
};

enum { WORDS = sizeof words / sizeof words[0] };

const struct word *word_find(const char *name)
{
    for (int i = 0; i < WORDS; i++)
        if (strcmp(words[i].name, name) == 0) return &words[i];
    return NULL;
}

void words_print(FILE *out)
{
    for (int i = 0; i < WORDS; i++) {
        int n = fprintf(out, "  %s %s", words[i].name, words[i].usage);
        fprintf(out, "%*s%s\n", n < 44 ? 44 - n : 1, "", words[i].help);
    }
}
