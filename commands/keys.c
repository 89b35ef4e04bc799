// commands/keys.c -- /bind and /keys: keys of the full screen.
#include <string.h>

#include "commands/command.h"

static int need_keys(const struct shell *shell, struct err *err)
{
    return shell->keys ? 0 : err_set(err, "there are no keys here");
}

// "/bind F5 /set ira.on on": the command is the rest of the line as typed.
static int bind_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    char key[64];
    const size_t n = strcspn(argv[0], " \t");
    if (need_keys(shell, err) < 0) return -1;
    if (n >= sizeof key) return err_set(err, "'%.40s...' is no key (/keys lists them)", argv[0]);
    memcpy(key, argv[0], n);
    key[n] = '\0';
    const char *command = argv[0] + n + strspn(argv[0] + n, " \t");
    if (shell->keys->bind(shell->keys->self, key, command, err) < 0) return -1;
    sinks_notice(shell->sinks, *command ? "%s: %s" : "%s does what it did", key, command);
    return 0;
}

const struct command command_bind = {
    .name = "bind",
    .usage = "/bind KEY [COMMAND]",
    .help = "Binds a key of the full screen to a command; without COMMAND restores the default.",
    .details =
        "KEY is a name as /keys lists them: F5, Ctrl-T, Alt-x, PageUp. COMMAND is a line as\n"
        "one would type it, or an action of /keys. Lines in $XDG_CONFIG_HOME/vlmsh/config\n"
        "(else ~/.config/vlmsh/config) are run at every start: the place for bindings and\n"
        "settings of one's own. Lines that fail are named, the other lines still apply.",
    .min = 1,
    .max = 1,
    .rest = true,
    .run = bind_run,
};

static void add_key(void *self, const char *context, const char *key, const char *command,
                    const char *note)
{
    struct table_builder *t = self;
    table_add(t, "%s", context);
    table_add(t, "%s", key);
    table_add(t, "%s", command);
    table_add(t, "%s", note);
}

static int keys_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    static const char *const columns[] = { "where", "key", "does", "note" };
    struct table_builder t;
    if (need_keys(shell, err) < 0) return -1;
    table_begin(&t, "keys", 4, columns, NULL);
    shell->keys->each(shell->keys->self, add_key, &t);
    table_emit(&t, shell->sinks);
    return 0;
}

const struct command command_keys = {
    .name = "keys",
    .usage = "/keys",
    .help = "Lists the key bindings of the full screen.",
    .details =
        "'all' holds everywhere, 'list' in lists to choose from, the others where the panel of\n"
        "that name has the focus. All other keys are readline's (~/.inputrc).",
    .run = keys_run,
};
