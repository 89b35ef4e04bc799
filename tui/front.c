// tui/front.c -- the table of front ends.
#include "tui/front.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "tui/json.h"
#include "tui/plain.h"
#include "tui/screen.h"
#include "tui/terminal.h"

static void *open_plain(bool interactive, struct sink *sink, FILE **output)
{
    struct plain *p = plain_new(interactive);
    *sink = plain_sink(p);
    *output = stdout;
    return p;
}

static void close_plain(void *state, FILE *output)
{
    plain_free(state);
}

// Standard output is for JSON alone: what a library might print there goes to standard error.
static FILE *take_stdout(void)
{
    int copy = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    FILE *output = copy < 0 ? NULL : fdopen(copy, "w");
    if (!output) return stdout;
    fflush(stdout);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    return output;
}

static void *open_json(bool interactive, struct sink *sink, FILE **output)
{
    *output = take_stdout();
    struct json_sink *j = json_sink_new(*output);
    *sink = json_sink(j);
    return j;
}

static void close_json(void *state, FILE *output)
{
    json_sink_free(state);
    if (output != stdout) fclose(output);
}

static void *open_screen(bool interactive, struct sink *sink, FILE **output)
{
    struct screen *s = screen_new();
    *sink = screen_sink(s);
    *output = stdout;
    return s;
}

static void close_screen(void *state, FILE *output)
{
    screen_free(state);
}

static int run_screen(void *state, struct shell *shell, struct keys *keys,
                      void (*begin)(void *self), void *self)
{
    return screen_run(state, shell, keys, begin, self);
}

static const struct front fronts[] = {
    { "plain", false, open_plain, close_plain, NULL },
    { "json", true, open_json, close_json, NULL },
    { "screen", false, open_screen, close_screen, run_screen },
};

const struct front *front_find(const char *name, bool interactive)
{
    if (!name) name = interactive && terminal_possible() ? "screen" : "plain";
    for (size_t i = 0; i < sizeof fronts / sizeof fronts[0]; i++)
        if (strcmp(fronts[i].name, name) == 0) return &fronts[i];
    return NULL;
}
