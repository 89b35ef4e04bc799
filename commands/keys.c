// commands/keys.c -- /bind and /keys: keys of the full screen.
#include <string.h>

#include "commands/command.h"

static int need_keys(const struct shell *shell, struct err *err)
{
    return shell->keys ? 0 : err_set(err, "keys need the full screen");
}

// "/bind F5 /set ira.on on": the command is the rest of the line as typed.
static int bind_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    char key[64];
    const size_t n = strcspn(argv[0], " \t");
    if (need_keys(shell, err) < 0) return -1;
    if (n >= sizeof key)
        return err_set(err, "'%.40s...' is not a key: use names such as F5, Ctrl-T, Alt-x, PageUp",
                       argv[0]);
    memcpy(key, argv[0], n);
    key[n] = '\0';
    const char *command = argv[0] + n + strspn(argv[0] + n, " \t");
    if (shell->keys->bind(shell->keys->keys, key, command, err) < 0) return -1;
    sinks_notice(shell->sinks, *command ? "%s: %s" : "%s: default restored", key, command);
    return 0;
}

const struct command command_bind = {
    .name = "bind",
    .also = "shortcut hotkey key",
    .usage = "/bind KEY [COMMAND]",
    .help = "Binds a key of the full screen to a command; without COMMAND restores the default.",
    .details =
        "KEY is any key but Ctrl-C and those that type or send (letters, Space, Enter, Backspace): "
        "F5, Ctrl-T, Alt-x, PageUp. COMMAND is a command line or an action listed by /keys. "
        "$XDG_CONFIG_HOME/vlmsh/config (default "
        "~/.config/vlmsh/config) runs at every interactive start (not with -c, -f, --json or "
        "piped input): put your key bindings and settings there. "
        "Lines that fail are reported; the others still apply.",
    .min = 1,
    .max = 1,
    .rest = true,
    .run = bind_run,
};

static void add_key(void *self, const struct key_row *row)
{
    table_row(self, "%s|%s|%s|%s", row->context, row->key, row->command, row->note);
}

static int keys_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct table_builder t;
    if (need_keys(shell, err) < 0) return -1;
    table_begin(&t, "keys", "context|key|command|note");
    shell->keys->each(shell->keys->keys, add_key, &t);
    table_emit(&t, shell->sinks);
    return 0;
}

const struct command command_keys = {
    .name = "keys",
    .also = "shortcuts hotkeys bindings",
    .usage = "/keys",
    .help = "Lists the key bindings of the full screen.",
    .details =
        "The context says where a key works: 'input' on the input line, 'panel' in every focused "
        "panel, the name of a panel in that panel, 'list' in pickers, 'pager' in pages, 'all' "
        "everywhere except in pickers and pages, where of these only your own bindings to command "
        "lines work. Keys that are not listed are readline's "
        "(~/.inputrc).",
    .page = true,
    .run = keys_run,
};
