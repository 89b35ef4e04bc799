// commands/messages.c -- /messages: appends a conversation from a JSON file, whole or not at all.
#include <stdlib.h>

#include "commands/command.h"
#include "core/base/file_in.h"
#include "core/data/dialogue.h"
#include "core/data/keys.h"

enum { FILE_LIMIT = 256 << 20 };

static int messages_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct dialogue d = { 0 };
    char *folder = NULL;
    int status = -1;
    size_t size;
    char *text = file_read(argv[0], FILE_LIMIT, &size, err);
    cJSON *json = text ? json_parse_data(text, size, argv[0], err) : NULL;
    free(text);
    if (!json) return -1;
    folder = path_folder(argv[0]);
    if (dialogue_read_messages(&d, json, folder, err) < 0 ||
        engine_add_messages(shell->engine, d.messages, d.count, (const char *const *)d.paths,
                            d.path_count, err) < 0) {
        err_in(err, "%s", argv[0]);
        goto out;
    }
    sinks_notice(shell->sinks, "appended %zu message%s and %zu picture%s from '%s'", d.count,
                 d.count == 1 ? "" : "s", d.path_count, d.path_count == 1 ? "" : "s", argv[0]);
    struct names unread = { 0 };
    keys_unread(json, &unread);
    for (size_t i = 0; i < unread.count; i++)
        sinks_notice(shell->sinks, "not used: %s", unread.list[i]);
    names_release(&unread);
    status = 0;
out:
    dialogue_release(&d);
    cJSON_Delete(json);
    free(folder);
    return status;
}

const struct command command_messages = {
    .name = "messages",
    .also = "history log transcript",
    .usage = "/messages FILE.json",
    .help = "Appends a conversation from a JSON file; /answer then answers it.",
    .details =
        "FILE.json contains a list of {\"role\": \"system\"|\"user\"|\"assistant\", \"content\": "
        "CONTENT}. CONTENT is a text, or a list of {\"type\": \"text\", \"text\": TEXT} and "
        "{\"type\": \"image\", \"path\": PICTURE} (\"image\" works instead of \"path\", and "
        "\"image_url\" parts are read). Paths are relative to the folder of FILE.json; file:// "
        "and data: URIs are read too. On an error, nothing is appended.",
    .min = 1,
    .max = 1,
    .complete = COMPLETE_PATH,
    .run = messages_run,
};
