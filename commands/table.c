// commands/table.c -- the table of commands: finding one, what it needs, running it.
#include <stdlib.h>
#include <string.h>

#include "commands/command.h"
#include "core/base/mem.h"
#include "core/lists.h"

#define X(name) extern const struct command command_##name;
#include "commands/list.h"
#undef X

static const struct command *const commands[] = {
#define X(name) &command_##name,
#include "commands/list.h"
#undef X
    NULL
};

const struct command *command_at(int index)
{
    const int count = (int)(sizeof commands / sizeof *commands) - 1;
    return index >= 0 && index < count ? commands[index] : NULL;
}

bool word_among(const char *words, const char *word, size_t length)
{
    for (const char *p = words; p && *p;) {
        const size_t n = strcspn(p, " ");
        if (n == length && !memcmp(p, word, n)) return true;
        p += n + (p[n] == ' ');
    }
    return false;
}

bool command_has_alias(const struct command *command, const char *name)
{
    return word_among(command->alias, name, strlen(name));
}

const struct command *command_find(const char *name)
{
    for (int i = 0; commands[i]; i++)
        if (!strcmp(commands[i]->name, name) || command_has_alias(commands[i], name))
            return commands[i];
    return NULL;
}

const char *command_nearest(const char *name)
{
    const char *near = NULL;
    const size_t length = strlen(name);
    size_t best = 3;
    for (int i = 0; commands[i]; i++) {
        const char *other = commands[i]->name;
        size_t d = length < 2 * strlen(other) ? text_distance(name, other) : best;
        if (length > 1 && !strncmp(name, other, length)) d = 0;
        // A short word must agree in more than half of its letters.
        if (d < best && d * 2 < strlen(other) && d * 2 <= length) {
            best = d;
            near = other;
        }
    }
    return near;
}

int command_check_needs(const struct shell *shell, unsigned needs, struct err *err)
{
    const bool missing = (needs & NEEDS_MODEL && !engine_model(shell->engine)) ||
                         (needs & NEEDS_TOKENIZER && !engine_tokenizer(shell->engine));
    if (missing && shell->want_model && shell->want_model(shell->want_self, err) < 0) return -1;
    if (needs & NEEDS_MODEL && !engine_model(shell->engine))
        return err_set(err, "no model is loaded: '/load MODEL' loads one (a folder, or org/name "
                            "from the local hub cache)");
    if (needs & NEEDS_TOKENIZER && !engine_tokenizer(shell->engine))
        return err_set(err, "no tokenizer is loaded: '/load MODEL' brings one, '/tokenizer FILE' "
                            "loads a tokenizer.json alone");
    if (needs & NEEDS_STORE && !shell->store)
        return err_set(err, "sessions are not kept now, because the database could not be opened: "
                            "start vlmsh with --db FILE");
    return 0;
}

int command_execute(const struct command *command, struct shell *shell, int argc, char **argv,
                    struct err *err)
{
    const bool split = command->options && argc > 1; // the command checks its options itself
    if (argc < command->min || (command->max >= 0 && argc > command->max && !split))
        return err_set(err, "usage: %s", command->usage);
    if (command->check && command->check(argc, argv, err) < 0) return -1;
    if (command_check_needs(shell, command->needs, err) < 0) return -1;
    return command->run(shell, argc, argv, err);
}
