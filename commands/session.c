// commands/session.c -- /session and /save: stored conversations.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "commands/command.h"

static const char unsaved[] = "this conversation is not saved (--no-session)";

// Returns the current session's name; NULL with an error if the session has no message yet, if
// --no-session is given, or if the session cannot be saved.
static const char *current(const struct shell *shell, struct err *err)
{
    if (store_flush(shell->store, err) < 0) {
        err_in(
            err,
            "the session could not be saved (if /quit cannot save it either, it writes a script)");
        return NULL;
    }
    const char *name = store_session(shell->store);
    if (!name)
        err_set(err, "%s (/session list shows others)",
                store_unsaved(shell->store) ? unsaved
                                            : "no session yet: it starts with the first message");
    return name;
}

// Emits EVENT_SESSION. file: the target of an export, or NULL.
static void emit_session(const struct shell *shell, const char *change, const char *name,
                         const char *file)
{
    const struct event_session session = { .change = change,
                                           .name = name,
                                           .database = store_path(shell->store),
                                           .file = file,
                                           .turns = -1,
                                           .pictures = -1 };
    sinks_emit(shell->sinks, &(struct event){ .kind = EVENT_SESSION, .session = &session });
}

static int show_current(struct shell *shell, int argc, char **argv, struct err *err)
{
    const char *name = store_session(shell->store), *next = store_next_session(shell->store);
    if (store_check_file(shell->store, err) < 0) return -1;
    emit_session(shell, "current", name, NULL);
    if (store_unsaved(shell->store))
        sinks_text(shell->sinks, "%s", unsaved);
    else if (name)
        sinks_text(shell->sinks, "session '%s' in %s", name, store_path(shell->store));
    else if (next)
        sinks_text(shell->sinks, "session '%s' starts with the first message, in %s", next,
                   store_path(shell->store));
    else
        sinks_text(shell->sinks, "no session yet: it starts with the first message, in %s",
                   store_path(shell->store));
    return 0;
}

static void report_session(const struct shell *shell, const char *change, const char *what)
{
    const char *name = store_session(shell->store);
    emit_session(shell, change, name, NULL);
    sinks_notice(shell->sinks, "%s '%s'", what, name ? name : "");
}

static const char *text_or_empty(const char *text)
{
    return text ? text : "";
}

static void emit_row(const struct shell *shell, const struct session_row *row)
{
    const struct event_session session = { .change = "listed",
                                           .name = text_or_empty(row->name),
                                           .database = store_path(shell->store),
                                           .model = text_or_empty(row->model),
                                           .began = row->began,
                                           .ended = row->ended,
                                           .title = text_or_empty(row->title),
                                           .turns = row->turns,
                                           .pictures = row->pictures };
    sinks_emit(shell->sinks, &(struct event){ .kind = EVENT_SESSION, .session = &session });
}

static int list(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct session_row *rows = NULL;
    size_t count = 0;
    struct table_builder t;
    if (store_list(shell->store, &rows, &count, err) < 0) return -1;
    table_begin(&t, "sessions", "name|model|began|ended|turns#|pictures#|title");
    for (size_t i = 0; i < count; i++) {
        table_row(&t, "%s|%s", rows[i].name, rows[i].model);
        table_take(&t, time_text(rows[i].began, "%Y-%m-%d %H:%M"));
        table_take(&t, time_text(rows[i].ended, "%Y-%m-%d %H:%M"));
        table_row(&t, "%" PRId64 "|%" PRId64 "|%s", rows[i].turns, rows[i].pictures, rows[i].title);
    }
    table_emit(&t, shell->sinks);
    for (size_t i = 0; i < count; i++) emit_row(shell, &rows[i]);
    store_list_free(rows, count);
    return 0;
}

// Ends the old session before clearing the conversation, so that the session keeps its messages.
static int begin(struct shell *shell, int argc, char **argv, struct err *err)
{
    if (store_begin(shell->store, argc ? argv[0] : NULL, err) < 0) return -1;
    engine_report_unsent(shell->engine);
    engine_clear(shell->engine);
    store_restore_arithmetic(shell->store, shell->engine);
    emit_session(shell, "begun", store_session(shell->store), NULL);
    if (argc)
        sinks_notice(shell->sinks, "the next message starts session '%s'", argv[0]);
    else
        sinks_notice(shell->sinks, "the next message starts a new session");
    return 0;
}

static int resume(struct shell *shell, int argc, char **argv, struct err *err)
{
    if (store_resume(shell->store, shell->engine, argv[0], err) < 0) return -1;
    report_session(shell, "resumed", "resumed");
    return 0;
}

static int fork_session(struct shell *shell, int argc, char **argv, struct err *err)
{
    if (!current(shell, err) || store_fork(shell->store, argc ? argv[0] : NULL, err) < 0) return -1;
    report_session(shell, "copied", "continuing in the copy");
    return 0;
}

static int rename_session(struct shell *shell, int argc, char **argv, struct err *err)
{
    const char *from = argc > 1 ? argv[0] : current(shell, err), *to = argv[argc - 1];
    if (!from || store_rename(shell->store, from, to, err) < 0) return -1;
    emit_session(shell, "renamed", to, NULL);
    sinks_notice(shell->sinks, "renamed to '%s'", to);
    return 0;
}

static int delete_session(struct shell *shell, int argc, char **argv, struct err *err)
{
    if (store_delete(shell->store, argv[0], err) < 0) return -1;
    emit_session(shell, "deleted", argv[0], NULL);
    sinks_notice(shell->sinks, "deleted '%s'", argv[0]);
    return 0;
}

static bool is_session(const struct shell *shell, const char *name)
{
    struct session_row *rows;
    size_t count;
    bool found = false;
    if (store_list(shell->store, &rows, &count, NULL) < 0) return false;
    for (size_t i = 0; i < count; i++) found |= rows[i].name && !strcmp(rows[i].name, name);
    store_list_free(rows, count);
    return found;
}

// Takes FILE [NAME], in either order.
static int export(struct shell *shell, int argc, char **argv, struct err *err)
{
    const bool swapped = argc > 1 && is_session(shell, argv[0]) && !is_session(shell, argv[1]);
    const char *file = argv[swapped], *name = argc > 1 ? argv[!swapped] : current(shell, err);
    if (!name) return -1;
    if (store_export(shell->store, name, file, err) < 0) return -1;
    emit_session(shell, "exported", name, file);
    sinks_notice(shell->sinks, "session '%s' written to '%s'", name, file);
    return 0;
}

static const struct command_action actions[] = {
    { "list", NULL, "lists all sessions", 0, 0, .run = list },
    { "new", "[NAME]", "starts a new session with an empty conversation", 0, 1, .run = begin },
    { "resume", "NAME", "restores model, settings, pictures and conversation", 1, 1,
      .run = resume },
    { "fork", "[NAME]", "continues in a copy; the original is unchanged", 0, 1,
      .run = fork_session },
    { "rename", "[OLD] NEW", "renames a session (default: the current one)", 1, 2,
      .run = rename_session },
    { "delete", "NAME", "deletes a session permanently; the current one cannot be deleted", 1, 1,
      .run = delete_session },
    { "export", "FILE [NAME]",
      "writes a transcript if FILE ends in .md, otherwise a script "
      "that replays the session",
      1, 2, .run = export },
    { 0 },
};

const struct command command_session = {
    .name = "session",
    .also = "history resume conversations past",
    .alias = "sessions",
    .usage = "/session [list|new|resume|fork|rename|delete|export ...]",
    .help = "Starts, lists, resumes, copies, renames, deletes and exports sessions.",
    .details =
        "A session starts with the first message of a conversation, unless vlmsh was started "
        "with --no-session; without NAME, it is named after the date and that message. Each turn "
        "is saved when its answer ends. Without an action, shows the current session.",
    .needs = NEEDS_STORE,
    .complete = COMPLETE_WORDS,
    .actions = actions,
    .action_at = 1,
    .run = show_current,
};

const struct command command_save = {
    .name = "save",
    .also = "export write transcript",
    .usage = "/save FILE",
    .help = "Exports the session: a transcript if FILE ends in .md, otherwise a script.",
    .min = 1,
    .max = 1,
    .needs = NEEDS_STORE,
    .complete = COMPLETE_PATH,
    .run = export,
};
