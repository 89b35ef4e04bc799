// commands/screen.c -- /screen, /open and /last: commands of the full screen.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/command.h"
#include "core/base/file_out.h"

enum { SIDE_MAX = 1000 };

static int need_screen(const struct shell *shell, struct err *err)
{
    if (shell->screen) return 0;
    return err_set(err, "no full screen: it needs a terminal, and no --plain, --json, -c or -f");
}

static int read_side(const char *text, const char *what, int *side, struct err *err)
{
    char *end;
    const long value = strtol(text, &end, 10);
    if (end == text || *end || value < 1 || value > SIDE_MAX)
        return err_set(err, "%s must be a number from 1 to %d, not '%s'", what, SIDE_MAX, text);
    *side = (int)value;
    return 0;
}

static int screen_run_command(struct shell *shell, int argc, char **argv, struct err *err)
{
    int lines = 0, columns = 0;
    struct buf text = { 0 };
    if (argc == 2) return err_set(err, "usage: /screen FILE [LINES COLUMNS]");
    if (argc == 3 && (read_side(argv[1], "LINES", &lines, err) < 0 ||
                      read_side(argv[2], "COLUMNS", &columns, err) < 0))
        return -1;
    if (need_screen(shell, err) < 0 ||
        shell->screen->capture(shell->screen->self, lines, columns, &text, err) < 0)
        return -1;
    const int status = file_out_write(argv[0], text.data, text.length, err);
    buf_release(&text);
    if (status == 0) sinks_written(shell->sinks, "screen", argv[0], NULL);
    return status;
}

const struct command command_screen = {
    .name = "screen",
    .also = "capture screenshot",
    .usage = "/screen FILE [LINES COLUMNS]",
    .help = "Writes the full screen as text to a file, optionally at a given size.",
    .writes = true,
    .min = 1,
    .max = 3,
    .complete = COMPLETE_PATH,
    .run = screen_run_command,
};

static const char *const kinds[] = { "model",   "image",  "data",  "adapter",
                                     "session", "script", "start", NULL };

static int open_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    bool known = !argc;
    for (int i = 0; argc && kinds[i]; i++) known |= !strcmp(kinds[i], argv[0]);
    if (!known)
        return err_set(
            err,
            "/open has no list '%s': use model, image, data, adapter, session, script or start",
            argv[0]);
    if (need_screen(shell, err) < 0) return -1;
    return shell->screen->open(shell->screen->self, argc ? argv[0] : NULL, err);
}

const struct command command_open = {
    .name = "open",
    .also = "browse picker files",
    .usage = "/open [model|image|data|adapter|session|script|start]",
    .help =
        "Opens a picker for models, pictures, data, adapters, sessions or scripts (full screen).",
    .max = 1,
    .complete = COMPLETE_WORDS,
    .words = kinds,
    .run = open_run,
};

static int last_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    return need_screen(shell, err) < 0 ? -1 : shell->screen->open(shell->screen->self, "last", err);
}

const struct command command_last = {
    .name = "last",
    .also = "key macro record script copy",
    .usage = "/last",
    .help = "Shows and copies the line that does what the last key did (full screen only).",
    .details = "A key that changes or measures something shows its line (/set norm.align on) above "
               "the status line. /last copies that line to the clipboard and to a file, so that it "
               "can go into a script.",
    .run = last_run,
};
